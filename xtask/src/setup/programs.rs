//! The programs and libraries of the system, and the packages that Debian has them in.

use std::{path::Path, process::Command};

use super::Purpose;
use crate::process;

enum Probe {
    /// A program.
    Program(&'static str),
    /// A file that the C compiler finds by itself.
    Library(&'static str),
}

const NEEDS: [(Purpose, Probe, &str); 12] = [
    (Purpose::Build, Probe::Program("cc"), "gcc"),
    (Purpose::Build, Probe::Library("libc.a"), "libc6-dev"),
    (Purpose::Demo, Probe::Program("ip"), "iproute2"),
    (Purpose::Demo, Probe::Program("bpftool"), "bpftool"),
    (Purpose::Test, Probe::Program("busybox"), "busybox-static"),
    (Purpose::Test, Probe::Program("containerd"), "containerd"),
    (Purpose::Test, Probe::Program("runc"), "runc"),
    (Purpose::Test, Probe::Program("iptables"), "iptables"),
    (Purpose::Test, Probe::Program("nft"), "nftables"),
    (Purpose::Test, Probe::Program("ethtool"), "ethtool"),
    (Purpose::Test, Probe::Program("nsenter"), "util-linux"),
    (Purpose::Test, Probe::Program("tc"), "iproute2"),
];

/// The packages whose content is not here.
pub fn missing(purpose: Purpose) -> Vec<&'static str> {
    let needed = NEEDS.iter().filter(|(needed_for, ..)| *needed_for <= purpose);
    let absent = needed.filter(|(_, probe, _)| match probe {
        Probe::Program(program) => process::find(program).is_none(),
        Probe::Library(library) => !has_library(library),
    });
    let mut packages: Vec<_> = absent.map(|&(.., package)| package).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

/// Whether the C compiler finds this library. For one that it does not find, it prints the bare
/// name.
pub fn has_library(library: &str) -> bool {
    let found = process::output(Command::new("cc").arg(format!("-print-file-name={library}")));
    found.is_ok_and(|path| Path::new(&path).is_absolute())
}

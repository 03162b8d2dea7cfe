//! What the tests use of the reference implementation: `cnitool` and the plugins. They are built
//! from the Go module proxy, since Debian's are older than CNI 1.1.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

use super::apt::Apt;
use crate::{
    process::{self, run},
    workspace,
};

const CNI: &str = "v1.3.1";
const PLUGINS: &str = "v1.10.0";
const PLUGIN_PACKAGES: [&str; 11] = [
    "ipam/host-local",
    "ipam/static",
    "main/bridge",
    "main/host-device",
    "main/loopback",
    "main/macvlan",
    "main/ptp",
    "meta/bandwidth",
    "meta/firewall",
    "meta/portmap",
    "meta/tuning",
];
/// The oldest Go that builds them.
const OLDEST: (u32, u32) = (1, 24);

/// Where the tools are: a directory that also serves as `CNI_PATH`.
///
/// # Errors
/// When there is no place for a cache.
pub fn directory() -> Result<PathBuf> {
    Ok(workspace::cache()?.join(format!("cni-{CNI}-plugins-{PLUGINS}")))
}

/// What [`ensure`] would have to do.
///
/// # Errors
/// As [`directory`].
pub fn missing() -> Result<Option<String>> {
    if is_built(&directory()?) {
        return Ok(None);
    }
    let go = if find().is_some() { "" } else { " (and Go 1.24 or newer, to build them)" };
    Ok(Some(format!("cnitool {CNI} and the reference plugins {PLUGINS}{go}")))
}

/// Builds the tools unless they are there. Without a Go that can, the tests that need them are
/// skipped, and this says so.
///
/// # Errors
/// When they cannot be built although Go is there.
pub fn ensure(apt: &mut Apt, done: &mut Vec<String>) -> Result<()> {
    let directory = directory()?;
    if is_built(&directory) {
        done.push(format!("cnitool {CNI} and plugins {PLUGINS} cached"));
        return Ok(());
    }
    if find().is_none() && apt.has(DEBIAN_GO) {
        apt.install(&[DEBIAN_GO])?;
    }
    let Some(go) = find() else {
        done.push(
            "NO Go 1.24 or newer in PATH or /usr/local/go/bin: tests with cnitool and the reference plugins are skipped".to_owned(),
        );
        return Ok(());
    };
    eprintln!("setup: building cnitool {CNI} and the reference plugins {PLUGINS}");
    let plugins = PLUGIN_PACKAGES.map(|package| {
        format!("github.com/containernetworking/plugins/plugins/{package}@{PLUGINS}")
    });
    let cnitool = format!("github.com/containernetworking/cni/cnitool@{CNI}");
    for packages in [&[cnitool] as &[String], &plugins] {
        let mut install = Command::new(&go);
        install.arg("install").args(["-trimpath", "-ldflags=-s -w"]).args(packages);
        install.env("GOBIN", &directory).env("GOTOOLCHAIN", "local").env("CGO_ENABLED", "0");
        install.env_remove("GOOS").env_remove("GOARCH").env_remove("GOFLAGS");
        run(&mut install)?;
    }
    done.push(format!("cnitool {CNI} and plugins {PLUGINS} built"));
    Ok(())
}

/// The Go of Debian 13, which is new enough.
const DEBIAN_GO: &str = "golang-1.24-go";

fn is_built(directory: &Path) -> bool {
    let names = PLUGIN_PACKAGES.iter().filter_map(|package| package.rsplit('/').next());
    names.chain(["cnitool"]).all(|name| directory.join(name).is_file())
}

fn find() -> Option<PathBuf> {
    let usual = ["/usr/local/go/bin/go", "/usr/lib/go-1.24/bin/go"].map(PathBuf::from);
    process::find("go").into_iter().chain(usual).find(|go| is_recent(go).unwrap_or(false))
}

/// From `go version go1.26.8 linux/amd64`.
fn is_recent(go: &Path) -> Option<bool> {
    let version = process::output(Command::new(go).arg("version")).ok()?;
    let mut numbers = version.split_whitespace().nth(2)?.strip_prefix("go")?.split('.');
    let (major, minor) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    Some((major, minor) >= OLDEST)
}

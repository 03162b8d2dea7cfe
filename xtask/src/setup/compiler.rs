//! The compiler of the eBPF side: one whose `core` can be built for `bpfel-unknown-none`, so one
//! that came with the sources of the standard library.

use std::{
    fmt,
    path::{Path, PathBuf},
    process::Command,
};

use super::linker;
use crate::process::{foreign_cargo, output};

/// What brings such a compiler to a Debian machine. It is there for Debian's browsers, so it is a
/// recent one in every release.
pub const PACKAGES: [&str; 3] = ["rustc-web", "cargo-web", "rust-web-src"];

/// What to do when nothing was found or could be installed.
pub const ABSENT: &str = "no compiler for the eBPF side: it takes a rustup nightly with the \
    component rust-src whose LLVM Debian has as llvm-N-dev (N from 21 to 23), or Debian's \
    packages rustc-web, cargo-web and rust-web-src";

/// The oldest that compiles the sources, as `rust-version` in Cargo.toml.
const OLDEST: (u32, u32) = (1, 89);

/// A compiler and its cargo.
pub struct Compiler {
    /// Its cargo.
    pub cargo: PathBuf,
    /// The compiler.
    pub rustc: PathBuf,
    /// The major version of the LLVM in it.
    pub llvm: u32,
    /// Whether it has to be told to accept unstable flags.
    pub stable: bool,
    origin: &'static str,
    release: String,
}

impl Compiler {
    /// Its cargo, ready for the flags of the BPF build.
    pub fn cargo(&self) -> Command {
        let mut command = foreign_cargo(&self.cargo, &self.rustc);
        if self.stable {
            command.env("RUSTC_BOOTSTRAP", "1");
        }
        command
    }

    fn read(origin: &'static str, rustc: PathBuf, cargo: PathBuf) -> Option<Self> {
        let query = |argument: &str| {
            let mut command = Command::new(&rustc);
            command.arg(argument).env_remove("LD_LIBRARY_PATH").env_remove("RUSTUP_TOOLCHAIN");
            if argument == "--print" {
                command.arg("sysroot");
            }
            output(&mut command).ok()
        };
        let sysroot = PathBuf::from(query("--print")?);
        let core = sysroot.join("lib/rustlib/src/rust/library/core/Cargo.toml");
        let version = query("-vV")?;
        let field = |name: &str| version.lines().find_map(|line| line.strip_prefix(name));
        let release = field("release: ")?.to_owned();
        let llvm = field("LLVM version: ")?.split('.').next()?.parse().ok()?;
        let stable = !release.contains("nightly");
        let usable = core.is_file() && cargo.is_file() && is_recent(&release)?;
        usable.then_some(Self { cargo, rustc, llvm, stable, origin, release })
    }
}

impl fmt::Display for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rustc {} (LLVM {})", self.origin, self.release, self.llvm)
    }
}

/// The compiler to use: one whose linker is there already, else one whose LLVM is.
pub fn choose() -> Option<Compiler> {
    let mut found = candidates();
    let ready = found
        .iter()
        .position(|compiler| linker::cached(compiler.llvm).is_ok_and(|linker| linker.is_some()));
    let served = || found.iter().position(|compiler| linker::can_be_built(compiler.llvm));
    let position = ready.or_else(served)?;
    Some(found.swap_remove(position))
}

fn candidates() -> Vec<Compiler> {
    let toolchains = output(Command::new("rustup").args(["toolchain", "list"])).unwrap_or_default();
    let names = toolchains.lines().filter_map(|line| line.split_whitespace().next());
    let nightlies = names.filter(|name| name.starts_with("nightly")).filter_map(|name| {
        let which = |program: &str| {
            output(Command::new("rustup").args(["which", "--toolchain", name, program])).ok()
        };
        Compiler::read("rustup's", which("rustc")?.into(), which("cargo")?.into())
    });
    let system = Path::new("/usr/bin");
    let debian = Compiler::read("Debian's", system.join("rustc"), system.join("cargo"));
    nightlies.chain(debian).collect()
}

fn is_recent(release: &str) -> Option<bool> {
    let mut numbers = release.split('.').map(str::parse);
    let (major, minor) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some((major, minor) >= OLDEST)
}

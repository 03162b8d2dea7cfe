//! `cargo xtask build`: the eBPF object, and around it one statically linked binary.

mod binary;
mod elf;
mod number;
mod object;
mod strip;

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};

use crate::{
    setup::{self, Purpose, Ready},
    workspace,
};

/// What to build.
pub struct Options {
    /// With the verdict log.
    pub trace: bool,
    /// The cargo profile of the binary.
    pub profile: String,
    /// The build number, where it is not to be the source's.
    pub number: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self { trace: false, profile: "release".to_owned(), number: None }
    }
}

/// Sets up, builds, and prints the path of the binary as the last line on stdout.
///
/// # Errors
/// When a step fails.
pub fn command(options: &Options) -> Result<ExitCode> {
    let ready = setup::ensure(Purpose::Build)?;
    println!("{}", run(&ready, options)?.display());
    Ok(ExitCode::SUCCESS)
}

/// Builds the binary and gives its path.
///
/// # Errors
/// When a step fails or what came out is not what it has to be.
pub fn run(ready: &Ready, options: &Options) -> Result<PathBuf> {
    let number = match options.number {
        Some(number) => number,
        None => number::of_source()?,
    };
    let suffix = if options.trace { "-trace" } else { "" };
    eprintln!("build: the eBPF object");
    let object = place("bpf", &format!("academy-ebpf{suffix}.o"))?;
    place_content(&object::build(ready, options.trace)?, &object)?;
    eprintln!("build: the binary, number {number}");
    let binary = place("academy", &format!("academy{suffix}"))?;
    let built = binary::build(&object, &options.profile, options.trace, number)?;
    place_content(&built, &binary)?;
    fs::set_permissions(&binary, Permissions::from_mode(0o755))?;
    eprintln!("build: {} KiB, statically linked", built.len() / 1024);
    Ok(binary)
}

/// Builds the object with the verdict log, which the release object lacks: a test that it links.
///
/// # Errors
/// When it does not.
pub fn object_with_trace(ready: &Ready) -> Result<()> {
    eprintln!("build: the eBPF object with the verdict log");
    object::build(ready, true).map(drop)
}

/// A file below the target directory.
fn place(directory: &str, name: &str) -> Result<PathBuf> {
    let directory = workspace::target()?.join(directory);
    fs::create_dir_all(&directory)?;
    Ok(directory.join(name))
}

/// Writes a file in one step, since the old one may be running. One with the same content keeps its
/// time, so what depends on it is not built again.
fn place_content(content: &[u8], path: &Path) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    let context = || format!("cannot write {}", path.display());
    let part = path.with_extension("part");
    fs::write(&part, content).with_context(context)?;
    fs::rename(&part, path).with_context(context)
}

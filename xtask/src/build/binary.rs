//! The plugin: everything in one file, since a node has nothing but the file.

use std::{env, fs, path::Path};

use anyhow::{Context, Result};

use super::elf;
use crate::{
    process::{self, own_cargo},
    workspace,
};

/// Builds it around an object and gives its content.
///
/// # Errors
/// When it does not compile, or needs a dynamic linker.
pub fn build(object: &Path, profile: &str, trace: bool, number: u64) -> Result<Vec<u8>> {
    let target = workspace::target()?;
    // With an explicit target the flag is not applied to proc macros, which have to be dynamic.
    let triple = format!("{}-unknown-linux-gnu", env::consts::ARCH);
    let mut cargo = own_cargo();
    cargo
        .current_dir(workspace::root()?)
        .args(["build", "--package", "academy-cni", "--bin", "academy"])
        .args(["--profile", profile, "--target", &triple, "--target-dir"])
        .arg(&target)
        .env("CARGO_ENCODED_RUSTFLAGS", "-Ctarget-feature=+crt-static")
        .env("ACADEMY_BPF_OBJECT", object)
        .env("ACADEMY_BUILD", number.to_string());
    if trace {
        cargo.args(["--features", "trace"]);
    }
    process::run(&mut cargo)?;
    let directory = if profile == "dev" { "debug" } else { profile };
    let path = target.join(triple).join(directory).join("academy");
    let binary = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    elf::require_static(&binary)?;
    Ok(binary)
}

//! The eBPF object: another target, another compiler, another linker.

use std::{env, fs};

use anyhow::{Context, Result};

use super::{elf, strip};
use crate::{process, setup::Ready, workspace};

/// The target, little-endian BPF.
const TARGET: &str = "bpfel-unknown-none";
/// The profile in Cargo.toml that keeps what BTF is made from.
const PROFILE: &str = "bpf";
/// Between two flags in `CARGO_ENCODED_RUSTFLAGS`.
const SEPARATOR: &str = "\x1f";

/// Builds it and gives its content.
///
/// # Errors
/// When it does not compile, or has no BTF.
pub fn build(ready: &Ready, trace: bool) -> Result<Vec<u8>> {
    let target = workspace::target()?.join("bpf-build");
    // aya-ebpf has the registers of each architecture, for the one the object will run on.
    let flags = [
        format!("--cfg=bpf_target_arch=\"{}\"", env::consts::ARCH),
        format!("-Clinker={}", ready.linker.display()),
        "-Clink-arg=--btf".to_owned(),
        // Otherwise every zeroing and every copy that may overlap becomes a call of a loop over
        // bytes, several for each packet.
        "-Clink-arg=--disable-expand-memcpy-in-order".to_owned(),
    ];
    let mut cargo = ready.compiler.cargo();
    cargo
        .current_dir(workspace::root()?)
        .args(["build", "-Zbuild-std=core", "--target", TARGET, "--profile", PROFILE])
        .args(["--package", "academy-ebpf", "--bin", "academy-ebpf", "--target-dir"])
        .arg(&target)
        // Not RUSTFLAGS: flags of a caller or of a configuration file would replace these.
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join(SEPARATOR));
    if trace {
        cargo.args(["--features", "trace"]);
    }
    process::run(&mut cargo)?;
    let path = target.join(TARGET).join(PROFILE).join("academy-ebpf");
    let built = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let object = strip::debug_information(&built)?;
    elf::require_btf(&object)?;
    Ok(object)
}

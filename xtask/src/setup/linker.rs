//! bpf-linker. It reads the compiler's bitcode, so it has to be built with the same LLVM.

use std::{path::PathBuf, process::Command};

use anyhow::{Context, Result, bail};

use super::{
    apt::{self, Apt},
    compiler::Compiler,
    programs::has_library,
};
use crate::{
    process::{self, run},
    workspace,
};

const VERSION: &str = "0.13.0";
/// The LLVM versions it can be built with.
const LLVM: [u32; 3] = [21, 22, 23];

/// It and what it is built with.
pub fn name(llvm: u32) -> String {
    format!("bpf-linker {VERSION} for LLVM {llvm}")
}

/// Where it is, once it was built and as long as its LLVM is there: it does not start without.
///
/// # Errors
/// When there is no place for a cache.
pub fn cached(llvm: u32) -> Result<Option<PathBuf>> {
    let program = directory(llvm)?.join("bin/bpf-linker");
    let runs = program.is_file() && process::succeeds(Command::new(&program).arg("--version"));
    Ok(runs.then_some(program))
}

/// Whether it can be built for this LLVM here.
pub fn can_be_built(llvm: u32) -> bool {
    LLVM.contains(&llvm) && (has_llvm(llvm) || apt::is_known(&llvm_package(llvm)))
}

/// The packages without which it cannot be built.
pub fn missing_packages(llvm: u32) -> impl Iterator<Item = String> {
    let llvm = (!has_llvm(llvm)).then(|| llvm_package(llvm));
    let cpp = (!has_library("libstdc++.so")).then(|| "g++".to_owned());
    llvm.into_iter().chain(cpp)
}

/// Builds it unless it is there.
///
/// # Errors
/// When it cannot be built.
pub fn ensure(compiler: &Compiler, apt: &mut Apt, done: &mut Vec<String>) -> Result<PathBuf> {
    let llvm = compiler.llvm;
    if let Some(linker) = cached(llvm)? {
        done.push(format!("{} cached", name(llvm)));
        return Ok(linker);
    }
    if !LLVM.contains(&llvm) {
        bail!("bpf-linker {VERSION} cannot be built with LLVM {llvm}");
    }
    apt.install(&missing_packages(llvm).collect::<Vec<_>>())?;
    // A cached one may only have missed its LLVM.
    if cached(llvm)?.is_none() {
        eprintln!("setup: building {} (a minute or two)", name(llvm));
        let mut install = compiler.cargo();
        install
            .args(["install", "--quiet", "--locked", "--force", "--no-default-features"])
            .args(["--features", &format!("llvm-{llvm}"), "--root"])
            .arg(directory(llvm)?)
            .arg(format!("bpf-linker@{VERSION}"))
            .env_remove("RUSTC_BOOTSTRAP")
            .env("LLVM_PREFIX", llvm_prefix(llvm));
        run(&mut install)?;
    }
    done.push(format!("{} built", name(llvm)));
    cached(llvm)?.with_context(|| format!("{} was built and does not run", name(llvm)))
}

fn directory(llvm: u32) -> Result<PathBuf> {
    Ok(workspace::cache()?.join(format!("bpf-linker-{VERSION}-llvm{llvm}")))
}

fn llvm_package(llvm: u32) -> String {
    format!("llvm-{llvm}-dev")
}

fn has_llvm(llvm: u32) -> bool {
    llvm_prefix(llvm).join("bin/llvm-config").is_file()
}

/// Where Debian puts an LLVM.
fn llvm_prefix(llvm: u32) -> PathBuf {
    PathBuf::from(format!("/usr/lib/llvm-{llvm}"))
}

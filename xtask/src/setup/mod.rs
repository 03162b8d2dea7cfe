//! `cargo xtask setup`: finds what building, showing and testing need, and installs the rest.
//!
//! Nothing is installed silently: every call of a package manager is printed first. What is built
//! here goes into [`workspace::cache`] and is built again only when it is missing.

mod apt;
mod compiler;
mod go;
mod linker;
mod programs;

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Result, bail};

use self::apt::Apt;
pub use self::{compiler::Compiler, go::directory as tools_directory};

/// What the machine has to be ready for. Each includes the ones before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// Making the binary.
    Build,
    /// Showing it.
    Demo,
    /// Testing it.
    Test,
}

/// What the eBPF side is built with.
pub struct Ready {
    /// The compiler that has `core` for the BPF target.
    pub compiler: Compiler,
    /// bpf-linker for that compiler's LLVM.
    pub linker: PathBuf,
}

/// Installs what is missing, or with `check` says what is and fails.
///
/// # Errors
/// When something cannot be had here.
pub fn command(check: bool) -> Result<ExitCode> {
    if check {
        return self::check();
    }
    ensure(Purpose::Test)?;
    Ok(ExitCode::SUCCESS)
}

/// Makes the machine ready, and says in one line what that took.
///
/// # Errors
/// When something cannot be had here; the text says what to do.
pub fn ensure(purpose: Purpose) -> Result<Ready> {
    let mut apt = Apt::default();
    let mut done = Vec::new();
    apt.install(&programs::missing(purpose))?;
    if compiler::choose().is_none() {
        apt.install(&compiler::PACKAGES)?;
    }
    let Some(compiler) = compiler::choose() else { bail!(compiler::ABSENT) };
    done.push(compiler.to_string());
    let linker = linker::ensure(&compiler, &mut apt, &mut done)?;
    if purpose == Purpose::Test {
        go::ensure(&mut apt, &mut done)?;
    }
    done.push(apt.summary());
    eprintln!("setup: {}", done.join(", "));
    Ok(Ready { compiler, linker })
}

fn check() -> Result<ExitCode> {
    let mut missing: Vec<String> = programs::missing(Purpose::Test)
        .into_iter()
        .map(|name| format!("package {name}"))
        .collect();
    match compiler::choose() {
        Some(compiler) => {
            eprintln!("setup: {compiler}");
            if linker::cached(compiler.llvm)?.is_none() {
                missing.push(linker::name(compiler.llvm));
                missing.extend(
                    linker::missing_packages(compiler.llvm).map(|name| format!("package {name}")),
                );
            }
        }
        None => missing.push(format!("packages {}", compiler::PACKAGES.join(" "))),
    }
    missing.extend(go::missing()?);
    if missing.is_empty() {
        eprintln!("setup: nothing is missing");
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("setup: missing: {}", missing.join(", "));
    Ok(ExitCode::FAILURE)
}

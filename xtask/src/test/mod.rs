//! `cargo xtask test`: everything that can be wrong, in one run.
//!
//! A stage that fails does not hide the ones after it. The last line of stdout is
//! `N passed, N failed, N skipped`, counted over all of them.

mod stage;
mod tally;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Result;

use self::stage::Stages;
use crate::{
    build, leftovers,
    process::own_cargo,
    setup::{self, Purpose},
    workspace,
};

/// Sets up, builds, lints and tests; with a filter only the tests that it names.
///
/// # Errors
/// When the run itself breaks off, not when something in it fails.
pub fn command(filter: Option<&str>) -> Result<ExitCode> {
    let _cleanup = Cleanup;
    Cleanup::run();
    let mut stages = Stages::default();
    let binary = stages.work("setup and build", || {
        let ready = setup::ensure(Purpose::Test)?;
        if filter.is_none() {
            build::object_with_trace(&ready)?;
        }
        build::run(&ready, &build::Options::default())
    })?;
    if filter.is_none() {
        lint(&mut stages)?;
    }
    stages.tests("unit tests", cargo(&["test", "--no-fail-fast"])?.args(filter))?;
    if let Some(binary) = binary {
        integration(&mut stages, &binary, filter)?;
    }
    Ok(stages.finish())
}

fn lint(stages: &mut Stages) -> Result<()> {
    // One of another toolchain would not do: clippy reads what this one's compiler wrote.
    let has = |tool| Path::new(own_cargo().get_program()).with_file_name(tool).is_file();
    if has("cargo-fmt") {
        stages.command("format", &mut cargo(&["fmt", "--all", "--check"])?)?;
    } else {
        stages.skip("format", "no rustfmt: rustup component add rustfmt");
    }
    if !has("cargo-clippy") {
        stages.skip("clippy", "no clippy: rustup component add clippy");
        return Ok(());
    }
    let clippy = ["clippy", "--workspace", "--all-targets"];
    let strict = ["--", "-D", "warnings"];
    stages.command("clippy", cargo(&clippy)?.args(strict))?;
    let features = ["--features", "academy-ebpf/trace,academy-cni/trace"];
    stages.command("clippy with the verdict log", cargo(&clippy)?.args(features).args(strict))
}

fn integration(stages: &mut Stages, binary: &PathBuf, filter: Option<&str>) -> Result<()> {
    let mut tests = cargo(&["test", "--package", "tests", "--no-fail-fast"])?;
    tests.args(filter);
    tests.env("ACADEMY_BIN", binary).env("ACADEMY_TOOLS_DIR", setup::tools_directory()?);
    stages.tests("integration tests", &mut tests)
}

/// The outer cargo at the top of the repository.
fn cargo(arguments: &[&str]) -> Result<std::process::Command> {
    let mut cargo = own_cargo();
    cargo.current_dir(workspace::root()?).args(arguments);
    cargo.env("CARGO_TARGET_DIR", workspace::target()?);
    Ok(cargo)
}

/// Removes what ended test processes have left, before the run and however it ends.
struct Cleanup;

impl Cleanup {
    fn run() {
        match leftovers::remove_tests() {
            Ok(removed) if removed.is_empty() => {}
            Ok(removed) => eprintln!("test: removed {}", removed.join(", ")),
            Err(error) => eprintln!("test: {error:#}"),
        }
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        Self::run();
    }
}

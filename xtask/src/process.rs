//! Running other programs. Each leads a process group of its own and gets no stdin, so that
//! nothing waits for an answer and [`crate::interrupt`] can end it with all that it started.

use std::{
    env, io,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{ChildStdout, Command, ExitStatus, Output, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::interrupt::{self, Registered};

/// What cargo and rustup leave in the environment of `cargo xtask`, and what would change a build
/// inside it. cargo also puts its libraries into `LD_LIBRARY_PATH`, which another compiler may
/// take for its own.
const OUTER_BUILD: [&str; 14] = [
    "CARGO",
    "CARGO_BUILD_TARGET",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_MAKEFLAGS",
    "CARGO_MANIFEST_DIR",
    "CARGO_TARGET_DIR",
    "LD_LIBRARY_PATH",
    "RUSTC",
    "RUSTC_BOOTSTRAP",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_WRAPPER",
    "RUSTFLAGS",
    "RUST_RECURSION_COUNT",
];

/// A cargo of another toolchain, with nothing of the outer one left in its environment.
pub fn foreign_cargo(cargo: &PathBuf, rustc: &PathBuf) -> Command {
    let mut command = without_outer_build(cargo);
    command.env_remove("RUSTUP_TOOLCHAIN").env("RUSTC", rustc);
    command
}

/// The cargo that runs this, with its toolchain.
pub fn own_cargo() -> Command {
    let cargo = env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from);
    without_outer_build(&cargo)
}

fn without_outer_build(cargo: &PathBuf) -> Command {
    let mut command = Command::new(cargo);
    for (variable, _) in env::vars_os() {
        let of_package = variable.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_"));
        if of_package || OUTER_BUILD.iter().any(|name| variable == *name) {
            command.env_remove(&variable);
        }
    }
    command
}

/// Runs a command whose output is progress: it goes to stderr.
///
/// # Errors
/// When it cannot be started or fails, or a signal came.
pub fn run(command: &mut Command) -> Result<()> {
    interrupt::check()?;
    command.stdout(Stdio::from(io::stderr()));
    let status = start(command)?.child.wait()?;
    interrupt::check()?;
    if !status.success() {
        bail!("{status}: {}", line(command));
    }
    Ok(())
}

/// Runs a command and gives what it printed on stdout, without the blanks around it. Also once a
/// signal came, since cleaning up needs it.
///
/// # Errors
/// When it cannot be started or fails: then with what it said on stderr.
pub fn output(command: &mut Command) -> Result<String> {
    let Output { status, stdout, stderr } = capture(command)?;
    if !status.success() {
        let said = String::from_utf8_lossy(&stderr);
        bail!("{status}: {}: {}", line(command), said.trim());
    }
    Ok(String::from_utf8(stdout)?.trim().to_owned())
}

/// Runs a command and gives all that it said, also when it failed.
///
/// # Errors
/// When it cannot be started.
pub fn capture(command: &mut Command) -> Result<Output> {
    command.stdin(Stdio::null()).process_group(0);
    command.output().with_context(|| format!("cannot run {}", line(command)))
}

/// Whether a command runs and succeeds; what it says goes nowhere.
pub fn succeeds(command: &mut Command) -> bool {
    capture(command).is_ok_and(|output| output.status.success())
}

/// Runs a command whose stdout is read while it runs.
///
/// # Errors
/// When it cannot be started, or of `read`.
pub fn stream(
    command: &mut Command,
    read: impl FnOnce(ChildStdout) -> Result<()>,
) -> Result<ExitStatus> {
    let mut running = start(command.stdout(Stdio::piped()))?;
    let read = running.child.stdout.take().map_or(Ok(()), read);
    let status = running.child.wait()?;
    read.map(|()| status)
}

/// Starts a command; signals are passed on to it.
///
/// # Errors
/// When it cannot be started.
pub fn start(command: &mut Command) -> Result<Registered> {
    command.stdin(Stdio::null()).process_group(0);
    Registered::start(command).with_context(|| format!("cannot run {}", line(command)))
}

/// A command as a person would type it.
pub fn line(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Where a program is: in PATH or one of the directories that a root shell may lack.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let places = env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    places.map(|place| place.join(program)).find(|path| path.is_file())
}

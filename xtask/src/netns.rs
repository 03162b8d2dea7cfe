//! Network namespaces with names, as `ip netns` makes them.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use anyhow::{Context, Result, anyhow};
use nix::sched::{CloneFlags, setns};

use crate::process::output;

/// Where `ip` and the runtimes keep them.
pub const DIRECTORY: &str = "/run/netns";

/// The path of a namespace, as a runtime hands it to a plugin.
pub fn path(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(name)
}

/// Does something inside, on a thread that ends with it. Sockets stay inside for ever, and so do
/// programs that are started; both see the files and the bpffs of the machine, which those of
/// `ip netns exec` do not.
///
/// # Errors
/// When the namespace is gone, or of `work`.
pub fn enter<T: Send>(name: &str, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let file = File::open(path(name)).with_context(|| format!("no namespace {name}"))?;
    let inside = || {
        setns(&file, CloneFlags::CLONE_NEWNET)
            .with_context(|| format!("cannot enter the namespace {name}"))?;
        work()
    };
    thread::scope(|scope| scope.spawn(inside).join())
        .map_err(|_| anyhow!("a thread in the namespace {name} panicked"))?
}

/// Runs `ip` with these words in a namespace.
///
/// # Errors
/// With what it said.
pub fn ip(name: &str, words: &str) -> Result<String> {
    output(Command::new("ip").args(["-n", name]).args(words.split_whitespace()))
}

/// Makes a namespace.
///
/// # Errors
/// When it exists, or not root.
pub fn add(name: &str) -> Result<()> {
    output(Command::new("ip").args(["netns", "add", name])).map(drop)
}

/// Removes a namespace and every interface in it.
///
/// # Errors
/// When it cannot be removed.
pub fn delete(name: &str) -> Result<()> {
    output(Command::new("ip").args(["netns", "delete", name])).map(drop)
}

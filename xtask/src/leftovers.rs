//! What a demo or a test run that was killed leaves behind: namespaces, directories, mounts and
//! pins. All of it is found by name, and nothing else is touched.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use nix::{
    mount::{MntFlags, umount2},
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::netns;

/// What the `tests` crate calls its namespaces and, below the temporary directory, its
/// directories: this, the number of the process, and more.
const TESTS: &str = "act-";

/// Removes what test runs that are over have left, and gives the names of it.
///
/// # Errors
/// When something cannot be removed.
pub fn remove_tests() -> Result<Vec<String>> {
    let mut removed = Vec::new();
    for name in names(Path::new(netns::DIRECTORY))?.into_iter().filter(|name| is_dead(name)) {
        remove_netns(&name)?;
        removed.push(name);
    }
    let temporary = std::env::temp_dir();
    for name in names(&temporary)?.into_iter().filter(|name| is_dead(name)) {
        remove_directory(&temporary.join(&name))?;
        removed.push(name);
    }
    Ok(removed)
}

/// Ends every process in a namespace, then removes it.
///
/// # Errors
/// When it cannot be removed.
pub fn remove_netns(name: &str) -> Result<()> {
    let wanted = fs::metadata(netns::path(name))?;
    for process in names(Path::new("/proc"))?.iter().filter_map(|name| name.parse().ok()) {
        let inside = fs::metadata(format!("/proc/{process}/ns/net"))
            .is_ok_and(|found| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino()));
        if inside {
            // It may have ended by itself.
            let _ = kill(Pid::from_raw(process), Signal::SIGKILL);
        }
    }
    netns::delete(name)
}

/// Removes a directory, after everything that is mounted in it is unmounted. One that is not there
/// is no failure.
///
/// # Errors
/// When it cannot be removed.
pub fn remove_directory(directory: &Path) -> Result<()> {
    for mount in mounts_below(directory)? {
        umount2(&mount, MntFlags::MNT_DETACH)
            .with_context(|| format!("cannot unmount {}", mount.display()))?;
    }
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", directory.display()))
        }
        _ => Ok(()),
    }
}

/// The mount points below a directory, the innermost first.
fn mounts_below(directory: &Path) -> Result<Vec<PathBuf>> {
    let table = fs::read_to_string("/proc/self/mounts")?;
    let points = table.lines().filter_map(|line| line.split(' ').nth(1)).map(PathBuf::from);
    let mut below: Vec<_> = points.filter(|point| point.starts_with(directory)).collect();
    below.reverse();
    Ok(below)
}

/// Whether something is of a test process that has ended.
fn is_dead(name: &str) -> bool {
    let process = name.strip_prefix(TESTS).and_then(|rest| rest.split('-').next());
    let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    // A process that nobody has waited for yet has no program any more.
    let runs = |process| fs::read_link(format!("/proc/{process}/exe")).is_ok();
    process.filter(is_number).is_some_and(|process| !runs(process))
}

fn names(directory: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("cannot read {}", directory.display()))?,
    };
    Ok(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_ended_test_processes_are_dead() {
        let own = std::process::id();
        assert!(!is_dead(&format!("act-{own}-0-host")));
        // Above the largest process number that Linux gives.
        assert!(is_dead("act-4194305-0-host"));
        for other in ["act-", "act-x-0", "actor", "cni-123", "act--1"] {
            assert!(!is_dead(other), "{other}");
        }
    }
}

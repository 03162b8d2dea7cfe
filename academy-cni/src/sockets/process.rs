//! Which process holds a socket, from `/proc/<pid>/fd`.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

/// A process that holds a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process id.
    pub pid: u32,
    /// Its name, as `ps` shows it.
    pub name: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} (process {})", self.name, self.pid)
    }
}

impl Holder {
    /// Every process that holds the socket of this inode. Looks at all descriptors of all
    /// processes, so only for an error message.
    #[must_use]
    pub fn all_of(inode: u32) -> Vec<Self> {
        processes()
            .filter(|process| holds(process, inode))
            .filter_map(|process| Self::describe(&process))
            .collect()
    }

    fn describe(process: &Path) -> Option<Self> {
        let pid = process.file_name()?.to_str()?.parse().ok()?;
        let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
        Some(Self { pid, name: name.trim_end().to_owned() })
    }
}

/// Whether the socket of this inode is how the runtime reserves a port that it publishes: an
/// ancestor of this process holds it, or a process that was started for the container.
///
/// The first process of the machine is everybody's ancestor and holds what socket units listen
/// on, so it does not count.
#[must_use]
pub fn is_reservation(inode: u32, container_id: &str) -> bool {
    let mut ancestor = parent(Path::new("/proc/self"));
    while let Some(pid) = ancestor.filter(|pid| *pid > 1) {
        let process = PathBuf::from(format!("/proc/{pid}"));
        if holds(&process, inode) {
            return true;
        }
        ancestor = parent(&process);
    }
    processes().any(|process| names(&process, container_id) && holds(&process, inode))
}

fn processes() -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit))
        .map(|entry| entry.path())
}

/// Whether one of the process's descriptors is the socket.
fn holds(process: &Path, inode: u32) -> bool {
    let wanted = format!("socket:[{inode}]");
    let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    descriptors
        .filter_map(|descriptor| fs::read_link(descriptor.path()).ok())
        .any(|target| target.as_os_str() == wanted.as_str())
}

/// Whether the process's command line names the container.
fn names(process: &Path, container_id: &str) -> bool {
    fs::read(process.join("cmdline")).is_ok_and(|line| mentions(&line, container_id.as_bytes()))
}

/// Whether the id stands in the line by itself or as a part of a path, not within another name.
fn mentions(line: &[u8], id: &[u8]) -> bool {
    let in_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.-".contains(byte);
    !id.is_empty() && line.split(|byte| !in_name(byte)).any(|word| word == id)
}

/// The parent of a process, from `/proc/<pid>/stat`: the second field after the name, which is in
/// parentheses and may hold anything.
fn parent(process: &Path) -> Option<u32> {
    parse_parent(&fs::read_to_string(process.join("stat")).ok()?)
}

fn parse_parent(stat: &str) -> Option<u32> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_hide_the_parent() {
        assert_eq!(parse_parent("17 (a) b (c)) S 4 17 17 0"), Some(4));
        assert_eq!(parse_parent("17"), None);
    }

    #[test]
    fn a_short_id_within_another_word_names_no_container() {
        let line = b"/usr/bin/conmon\0-c\0c1\0--log\0/var/run/c1-x/log\0";
        assert!(mentions(line, b"c1"));
        assert!(mentions(line, b"c1-x"));
        assert!(!mentions(line, b"c"));
        assert!(!mentions(line, b""));
    }

    #[test]
    fn a_socket_of_this_very_process_is_no_reservation() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let link = fs::read_link(format!("/proc/self/fd/{}", listener.as_raw_fd())).unwrap();
        let inode = link.to_str().unwrap().trim_matches(|c: char| !c.is_ascii_digit());
        assert!(!is_reservation(inode.parse().unwrap(), "no-such-container"));
    }
}

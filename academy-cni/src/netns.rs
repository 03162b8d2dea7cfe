//! Network namespaces of containers: opening one and doing things inside.

use std::{
    fs::{File, OpenOptions},
    io,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::{MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    process,
};

use nix::{
    fcntl::OFlag,
    sched::{CloneFlags, setns},
    sys::statfs::{FsType, fstatfs},
};

use crate::error::{Error, Result};

/// The file system that namespaces live in (`NSFS_MAGIC` of `linux/magic.h`).
const NSFS: FsType = FsType(0x6e73_6673);

/// Where the kernel shows the namespace of the calling thread.
const OWN: &str = "/proc/thread-self/ns/net";

/// A network namespace, held open, and the way back from it. The descriptors are closed on exec
/// and when this is dropped.
#[derive(Debug)]
pub struct Netns {
    file: File,
    own: File,
    path: PathBuf,
}

impl Netns {
    /// Opens the namespace that `path` names.
    ///
    /// # Errors
    /// [`Error::Netns`] when nothing can be opened there, or it is no namespace.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |source| failure(path, &source);
        // A FIFO would wait for a writer.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(OFlag::O_NONBLOCK.bits() | OFlag::O_NOCTTY.bits())
            .open(path)
            .map_err(failed)?;
        let kind = fstatfs(&file).map_err(|errno| failed(errno.into()))?.filesystem_type();
        if kind != NSFS {
            return Err(failed(io::Error::other("it is no namespace")));
        }
        let own = File::open(OWN).map_err(|source| failure(Path::new(OWN), &source))?;
        Ok(Self { file, own, path: path.to_owned() })
    }

    /// Where it was found.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the thread that opened it is in it.
    ///
    /// # Errors
    /// [`Error::Netns`] when it cannot be told.
    pub fn is_own(&self) -> Result<bool> {
        let failed = |source| failure(&self.path, &source);
        let own = self.own.metadata().map_err(failed)?;
        let this = self.file.metadata().map_err(failed)?;
        Ok((own.dev(), own.ino()) == (this.dev(), this.ino()))
    }

    /// Does something inside and comes back. (On a thread of its own there would be no way back
    /// to fail, but on a busy host it costs milliseconds to wait for one.)
    ///
    /// # Errors
    /// [`Error::Netns`] when it cannot be entered.
    pub fn run<T>(&self, inside: impl FnOnce() -> T) -> Result<T> {
        setns(&self.file, CloneFlags::CLONE_NEWNET)
            .map_err(|errno| failure(&self.path, &errno.into()))?;
        let _way_back = WayBack(&self.own);
        Ok(inside())
    }
}

/// Brings the calling thread back, also when it panics.
struct WayBack<'a>(&'a File);

impl Drop for WayBack<'_> {
    fn drop(&mut self) {
        if setns(self.0, CloneFlags::CLONE_NEWNET).is_err() {
            // Whatever comes next would be done to the container instead of the host.
            process::abort();
        }
    }
}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn failure(path: &Path, source: &io::Error) -> Error {
    let reason = match source.kind() {
        io::ErrorKind::NotFound => "it does not exist".to_owned(),
        _ => source.to_string(),
    };
    Error::Netns { path: path.display().to_string(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespace_of_the_thread_is_recognised_as_its_own() {
        let netns = Netns::open(Path::new("/proc/self/ns/net")).unwrap();
        assert!(netns.is_own().unwrap());
    }

    #[test]
    fn what_is_no_network_namespace_is_refused_with_code_8() {
        for path in ["/nonexistent/netns", "/proc/self/status", "/etc"] {
            assert_eq!(Netns::open(Path::new(path)).unwrap_err().code(), 8, "{path}");
        }
        // A namespace, but of another kind: that shows when it is entered.
        let user = Netns::open(Path::new("/proc/self/ns/uts")).unwrap();
        assert_eq!(user.run(|| ()).unwrap_err().code(), 8);
    }
}

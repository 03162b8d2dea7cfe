//! What unit tests share.

#![forbid(unsafe_code)]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
};

use crate::paths::Paths;

/// A directory that is removed with all that is in it.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("academy-test-{}-{count}", process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Directories of academy's in here.
    pub(crate) fn paths(&self) -> Paths {
        Paths {
            bpffs: self.0.join("bpffs"),
            run_dir: self.0.join("run"),
            state_dir: self.0.join("state"),
            host_local_dir: self.0.join("networks"),
        }
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

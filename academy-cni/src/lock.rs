//! Locks between calls. They are the kernel's (`flock`), so a killed call holds none.

#![forbid(unsafe_code)]

use std::{
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use crate::{
    error::{Error, IoContext, Result},
    files,
    paths::Paths,
};

/// How long a call waits for another one. The kubelet gives up after two minutes.
const PATIENCE: Duration = Duration::from_secs(60);

/// The lock of what is global: maps, ports, bridges, hooks. Held until it is dropped.
#[derive(Debug)]
pub struct GlobalLock {
    _file: File,
}

impl GlobalLock {
    /// Waits for the lock.
    ///
    /// # Errors
    ///
    /// Code 11 when another call holds it for a minute; 5 or 103 when there can be no lock file.
    pub fn acquire(paths: &Paths) -> Result<Self> {
        Self::acquire_within(paths, PATIENCE)
    }

    fn acquire_within(paths: &Paths, patience: Duration) -> Result<Self> {
        let path = paths.lock_file();
        let end = Instant::now() + patience;
        loop {
            files::secure_dir(&paths.run_dir)?;
            let file = match files::open_lock(&path, true) {
                // `academy reset` removed the directory just now.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other.doing("open", &path)?,
            };
            let file = lock(file, &path, end.saturating_duration_since(Instant::now()))?;
            // `academy reset` removes the file while others wait for it.
            if is_at(&file, &path) {
                return Ok(Self { _file: file });
            }
        }
    }
}

/// Locks a file exclusively.
///
/// # Errors
///
/// Code 11 when others hold it for too long.
pub(crate) fn lock(file: File, path: &Path, patience: Duration) -> Result<File> {
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => return Err(error).doing("lock", path),
    }
    // The kernel's queue is fair and wakes at once; only it knows no time limit. A thread that
    // waits in vain ends with the process.
    let (sender, receiver) = mpsc::channel();
    let wait = move || {
        let locked = file.lock().map(|()| file);
        let _ = sender.send(locked);
    };
    thread::Builder::new().spawn(wait).doing("wait for", path)?;
    match receiver.recv_timeout(patience) {
        Ok(locked) => locked.doing("lock", path),
        Err(_) => Err(Error::TryAgain(format!(
            "another call holds {} for more than {} s",
            path.display(),
            patience.as_secs()
        ))),
    }
}

/// Whether the open file is still the one of this name.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;

    #[test]
    fn a_second_call_waits_and_gives_up_with_try_again() {
        let top = TempDir::new();
        let paths = top.paths();
        let first = GlobalLock::acquire(&paths).unwrap();
        let error = GlobalLock::acquire_within(&paths, Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.code(), 11);
        drop(first);
        GlobalLock::acquire(&paths).unwrap();
    }

    #[test]
    fn a_waiting_call_gets_the_lock_when_it_is_released() {
        let top = TempDir::new();
        let paths = top.paths();
        let first = GlobalLock::acquire(&paths).unwrap();
        let waiting = thread::spawn({
            let paths = paths.clone();
            move || GlobalLock::acquire(&paths).map(drop)
        });
        thread::sleep(Duration::from_millis(20));
        drop(first);
        waiting.join().unwrap().unwrap();
    }

    #[test]
    fn whoever_waits_while_the_run_directory_is_removed_locks_a_new_file() {
        let top = TempDir::new();
        let paths = top.paths();
        let first = GlobalLock::acquire(&paths).unwrap();
        let waiting = thread::spawn({
            let paths = paths.clone();
            move || GlobalLock::acquire(&paths)
        });
        thread::sleep(Duration::from_millis(20));
        files::remove_run_dir(&paths, first).unwrap();
        let _second = waiting.join().unwrap().unwrap();
        let error = GlobalLock::acquire_within(&paths, Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.code(), 11);
    }
}

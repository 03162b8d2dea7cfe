//! Directories that nobody else can tamper with, and files that are there whole or not at all.

#![forbid(unsafe_code)]

use std::{
    fs::{self, DirBuilder, File, Metadata, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use nix::unistd::geteuid;

use crate::{
    error::{Error, IoContext, Result},
    lock::GlobalLock,
    paths::Paths,
};

/// The mode of directories that academy makes.
const PRIVATE_DIRECTORY: u32 = 0o700;
/// The mode of files that academy makes.
const PRIVATE_FILE: u32 = 0o600;
/// Write permission for anybody but the owner.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// Only owners may remove or rename what is in the directory.
const STICKY: u32 = 0o1000;
/// How the names of unfinished files begin. No name of the specification begins with a dot.
const UNFINISHED: &str = ".new-";

/// Makes a directory of academy's, and what is missing above it. One that exists must belong to
/// this user and be writable by nobody else.
///
/// # Errors
///
/// Code 103 for a directory that others could tamper with, code 5 when it cannot be made.
pub fn secure_dir(path: &Path) -> Result<()> {
    match make_dir(path) {
        // Somebody removed a directory above it meanwhile, or nobody made it yet.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(parent) = path.parent() {
                DirBuilder::new()
                    .recursive(true)
                    .mode(0o755)
                    .create(parent)
                    .doing("make", parent)?;
            }
            make_dir(path).doing("make", path)?;
        }
        other => other.doing("make", path)?,
    }
    check_dir(path)
}

/// As [`secure_dir`], for a directory within one that is academy's too, or the administrator's.
///
/// # Errors
///
/// As [`secure_dir`].
pub fn secure_dir_in_own(path: &Path) -> Result<()> {
    let Some(parent) = path.parent() else { return secure_dir(path) };
    match fs::metadata(parent) {
        // The administrator may have put a symbolic link there.
        Ok(metadata) => check_owner(parent, &metadata)?,
        Err(_) => secure_dir(parent)?,
    }
    secure_dir(path)
}

/// Checks a directory of academy's that exists.
///
/// # Errors
///
/// Code 103 when it is none, belongs to another user or is writable by others.
pub fn check_dir(path: &Path) -> Result<()> {
    let metadata = fs::symlink_metadata(path).doing("look at", path)?;
    if !metadata.is_dir() {
        return Err(refused(path, "is no directory, but a file or a symbolic link"));
    }
    check_owner(path, &metadata)
}

/// Refuses a directory that holds a symbolic link.
///
/// # Errors
///
/// Code 103, naming the link.
pub fn refuse_symlinks(path: &Path) -> Result<()> {
    for entry in fs::read_dir(path).doing("list", path)? {
        let entry = entry.doing("list", path)?;
        if entry.file_type().doing("look at", &entry.path())?.is_symlink() {
            return Err(refused(&entry.path(), "is a symbolic link, which academy never makes"));
        }
    }
    Ok(())
}

/// Writes a file so that readers see the old content or the new one, and a kill leaves either.
///
/// # Errors
///
/// Code 5.
pub fn write_atomically(path: &Path, content: &[u8]) -> Result<()> {
    let unfinished = write_unfinished(path, content)?;
    fs::rename(&unfinished, path).or_else(|error| {
        let _ = fs::remove_file(&unfinished);
        Err(error).doing("write", path)
    })
}

/// Writes a file beside where it belongs, to be renamed. Always under the same name, so that what
/// a killed call left is overwritten: the caller holds the lock of the directory.
///
/// # Errors
///
/// Code 5; there is no file then.
pub(crate) fn write_unfinished(path: &Path, content: &[u8]) -> Result<PathBuf> {
    let path = unfinished(path);
    let _ = fs::remove_file(&path);
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(PRIVATE_FILE)
        .open(&path)
        .and_then(|mut file| file.write_all(content));
    if let Err(error) = written {
        let _ = fs::remove_file(&path);
        return Err(error).doing("write", &path);
    }
    Ok(path)
}

/// Where a file is until it is finished.
pub(crate) fn unfinished(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{UNFINISHED}{name}"))
}

/// Whether a file name is one of [`write_unfinished`].
#[must_use]
pub(crate) fn is_unfinished(name: &str) -> bool {
    name.starts_with(UNFINISHED)
}

/// Reads a file of academy's; none if it does not exist. Symbolic links are not followed.
///
/// # Errors
///
/// Code 5.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    Ok(read_with_metadata(path)?.map(|(content, _)| content))
}

/// As [`read`], with the metadata of the very file that was read.
pub(crate) fn read_with_metadata(path: &Path) -> Result<Option<(Vec<u8>, Metadata)>> {
    let open = || -> io::Result<(Vec<u8>, Metadata)> {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        let mut content = Vec::new();
        (&file).take(LONGEST_FILE).read_to_end(&mut content)?;
        Ok((content, file.metadata()?))
    };
    match open() {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).doing("read", path),
    }
}

/// No file of academy's is longer; a record of thousands of ports is some hundred kilobytes.
const LONGEST_FILE: u64 = 64 << 20;

/// Removes a file; one that does not exist is removed already.
///
/// # Errors
///
/// Code 5.
pub fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).doing("remove", path),
        _ => Ok(()),
    }
}

/// Removes a directory if nothing is in it.
///
/// # Errors
///
/// Code 5, unless it is not empty or does not exist.
pub fn remove_empty(path: &Path) -> Result<()> {
    match fs::remove_dir(path) {
        Err(error)
            if !matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty
            ) =>
        {
            Err(error).doing("remove", path)
        }
        _ => Ok(()),
    }
}

/// Removes the lock and the empty directories below the run directory, and the run directory
/// itself if nothing is left in it. Whoever waits for the lock makes it anew.
///
/// # Errors
///
/// Code 5.
pub fn remove_run_dir(paths: &Paths, lock: GlobalLock) -> Result<()> {
    for directory in directories(&paths.run_dir)? {
        remove_empty(&directory)?;
    }
    remove(&paths.lock_file())?;
    remove_empty(&paths.run_dir)?;
    drop(lock);
    Ok(())
}

/// The directories in a directory; none if it does not exist.
///
/// # Errors
///
/// Code 5.
pub(crate) fn directories(path: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.doing("list", path)?,
    };
    let mut directories = Vec::new();
    for entry in entries {
        let entry = entry.doing("list", path)?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            directories.push(entry.path());
        }
    }
    directories.sort();
    Ok(directories)
}

/// Opens a file to be locked; `create` makes it.
pub(crate) fn open_lock(path: &Path, create: bool) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(create)
        .truncate(false)
        .mode(PRIVATE_FILE)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
}

fn make_dir(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(PRIVATE_DIRECTORY).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

fn check_owner(path: &Path, metadata: &Metadata) -> Result<()> {
    if metadata.uid() != geteuid().as_raw() {
        return Err(refused(path, &format!("belongs to user {}, not to root", metadata.uid())));
    }
    let mode = metadata.mode();
    if mode & WRITABLE_BY_OTHERS != 0 && mode & STICKY == 0 {
        return Err(refused(path, &format!("is writable by others (mode {:04o})", mode & 0o7777)));
    }
    Ok(())
}

fn refused(path: &Path, reason: &str) -> Error {
    Error::Bpffs { path: path.display().to_string(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::testing::TempDir;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn a_directory_is_made_with_what_is_above_it_and_closed_to_others() {
        let top = TempDir::new();
        let path = top.path().join("a/b/c");
        secure_dir(&path).unwrap();
        secure_dir(&path).unwrap();
        assert_eq!(mode(&path), 0o700);
    }

    #[test]
    fn a_directory_that_others_could_change_is_refused() {
        let top = TempDir::new();
        let open = top.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        let error = secure_dir(&open).unwrap_err();
        assert_eq!(error.code(), 103);
        assert!(error.to_string().contains("writable by others (mode 0777)"), "{error}");
        assert_eq!(secure_dir_in_own(&open.join("below")).unwrap_err().code(), 103);

        let link = top.path().join("link");
        symlink(top.path(), &link).unwrap();
        assert_eq!(secure_dir(&link).unwrap_err().code(), 103);

        let file = top.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(secure_dir(&file).unwrap_err().code(), 103);
    }

    #[test]
    fn a_directory_with_a_symbolic_link_in_it_is_refused() {
        let top = TempDir::new();
        refuse_symlinks(top.path()).unwrap();
        symlink("/etc", top.path().join("maps")).unwrap();
        assert_eq!(refuse_symlinks(top.path()).unwrap_err().code(), 103);
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_leaves_nothing_beside_it() {
        let top = TempDir::new();
        let path = top.path().join("file");
        assert_eq!(read(&path).unwrap(), None);
        write_atomically(&path, b"old and long").unwrap();
        write_atomically(&path, b"new").unwrap();
        assert_eq!(read(&path).unwrap().unwrap(), b"new");
        assert_eq!(mode(&path), 0o600);
        assert_eq!(fs::read_dir(top.path()).unwrap().count(), 1);
        remove(&path).unwrap();
        remove(&path).unwrap();
        assert!(write_atomically(&top.path().join("gone/file"), b"x").is_err());
    }

    #[test]
    fn only_an_empty_directory_is_removed() {
        let top = TempDir::new();
        let path = top.path().join("a");
        fs::create_dir_all(path.join("b")).unwrap();
        remove_empty(&path).unwrap();
        assert!(path.exists());
        remove_empty(&path.join("b")).unwrap();
        remove_empty(&path).unwrap();
        remove_empty(&path).unwrap();
        assert!(!path.exists());
    }
}

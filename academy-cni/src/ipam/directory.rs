//! Directories whose names are addresses.

use std::{
    collections::HashMap,
    fs, io,
    net::IpAddr,
    os::unix::fs::{DirEntryExt, MetadataExt},
    path::Path,
};

use crate::error::{Error, IoContext, Result};

/// The names in a directory that are addresses, with their inode numbers.
pub(super) fn list(directory: &Path) -> Result<HashMap<IpAddr, u64>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HashMap::new()),
        other => other.doing("list", directory)?,
    };
    let mut names = HashMap::new();
    for entry in entries {
        let entry = entry.doing("list", directory)?;
        if let Some(address) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
            names.insert(address, entry.ino());
        }
    }
    Ok(names)
}

/// The inode number of a file; none if it does not exist.
pub(super) fn inode(path: &Path) -> Result<Option<u64>> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(metadata.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("look at", path, error)),
    }
}

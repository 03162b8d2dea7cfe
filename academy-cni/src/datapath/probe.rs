//! Whether the host has what every ADD needs.

use std::path::Path;

use nix::sys::statfs::{BPF_FS_MAGIC, statfs};

use crate::{
    error::{Error, Result},
    paths::Paths,
};

/// Whether bpffs is there. Takes no lock, changes nothing.
///
/// # Errors
/// Code 103 for bpffs.
pub fn probe() -> Result<()> {
    bpffs(&Paths::from_env().bpffs)
}

/// Whether a directory, or where it would be made, is in a BPF file system.
pub(super) fn bpffs(directory: &Path) -> Result<()> {
    let existing = directory.ancestors().find(|path| path.exists());
    let fits = existing
        .and_then(|path| statfs(path).ok())
        .is_some_and(|stat| stat.filesystem_type() == BPF_FS_MAGIC);
    if fits {
        return Ok(());
    }
    Err(Error::Bpffs {
        path: directory.display().to_string(),
        reason: "no bpf file system is mounted here (mount -t bpf bpf /sys/fs/bpf)".to_owned(),
    })
}

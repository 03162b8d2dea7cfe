//! Clearing leases away: for GC, and for `academy reset`.

use std::{fs, net::IpAddr, os::unix::fs::MetadataExt, path::Path};

use super::{directory::list, lease::Holder, store::Store};
use crate::{
    error::{IoContext, Result},
    files,
};

impl Store {
    /// Frees every lease whose holder is not to be kept, also empty files, and returns the
    /// addresses. Clears away what killed calls left.
    ///
    /// # Errors
    ///
    /// The first failure, after everything else has been freed.
    pub fn retain(&self, keep: impl Fn(&Holder) -> bool) -> Result<Vec<IpAddr>> {
        let Some(_guard) = self.lock_if_any()? else { return Ok(Vec::new()) };
        let addresses = list(&self.directory)?.into_keys().collect();
        let freed = self.remove_where(|_, holder| !holder.is_some_and(&keep), addresses);
        self.clear_remains()?;
        freed
    }

    /// Removes marks without a lease, files of attachments without one, and unfinished files.
    fn clear_remains(&self) -> Result<()> {
        let held = list(&self.directory)?;
        for (address, inode) in list(&self.private)? {
            if held.get(&address) != Some(&inode) {
                files::remove(&self.private.join(address.to_string()))?;
            }
        }
        let Ok(entries) = fs::read_dir(&self.private) else { return Ok(()) };
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let is_single = || entry.metadata().is_ok_and(|metadata| metadata.nlink() == 1);
            if files::is_unfinished(&name) || (name.starts_with("owner-") && is_single()) {
                files::remove(&entry.path())?;
            }
        }
        Ok(())
    }
}

/// Removes the directories of networks that have no lease.
///
/// # Errors
///
/// Code 5.
pub fn remove_spare(state_dir: &Path) -> Result<()> {
    for directory in files::directories(state_dir)? {
        let Ok(store) = Store::open(&directory) else { continue };
        let Some(_guard) = store.lock_if_any()? else { continue };
        store.clear_remains()?;
        if !list(&directory)?.is_empty() || !store.private.is_dir() {
            continue;
        }
        fs::remove_dir_all(&store.private).doing("remove", &store.private)?;
        files::remove_empty(&directory)?;
    }
    files::remove_empty(state_dir)
}

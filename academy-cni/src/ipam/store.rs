//! The directory in which an address that is held is a file.
//!
//! An attachment has one file, `.academy/owner-<hash>`, and each of its leases is two more names
//! of it: `<address>`, where `host-local` would have it, and `.academy/<address>`. So a lease is
//! complete from its first moment, an attachment's leases are found by its inode number, and how
//! many links are left says whether any is. `host-local` removes and re-makes names, which makes
//! another inode: that is how its leases are told from academy's, at whatever point a call was
//! killed.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Write},
    net::IpAddr,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    directory::{inode, list},
    lease::{Holder, Lease, content},
    range::RangeSet,
};
use crate::{
    attachment::{Attachment, check_network},
    error::{IoContext, Result},
    files, lock,
};

/// Academy's own directory within that of the leases.
const PRIVATE: &str = ".academy";
/// The lock file of `host-local`.
const HOST_LOCAL_LOCK: &str = "lock";
/// How long to wait for another call that changes leases.
const PATIENCE: Duration = Duration::from_secs(30);

/// The leases of a network in one directory.
#[derive(Clone, Debug)]
pub struct Store {
    pub(super) directory: PathBuf,
    pub(super) private: PathBuf,
    network: String,
}

/// Held while leases are changed.
#[derive(Debug)]
pub(super) struct Guard {
    _private: Option<File>,
    _host_local: Option<File>,
}

/// What became of a wish for an address.
#[derive(Debug)]
pub(super) enum Claim {
    /// It is ours now.
    Taken,
    /// Somebody holds it, or something that is no file is in the way.
    Held(Lease),
}

impl Store {
    /// The leases in a directory whose name is that of the network. It need not exist.
    ///
    /// # Errors
    ///
    /// Code 7 for a name that is none of a network.
    pub fn open(directory: &Path) -> Result<Self> {
        let network = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        check_network(network)?;
        Ok(Self {
            directory: directory.to_owned(),
            private: directory.join(PRIVATE),
            network: network.to_owned(),
        })
    }

    /// All leases, in no order.
    ///
    /// # Errors
    ///
    /// Code 5.
    pub fn leases(&self) -> Result<Vec<Lease>> {
        let mut leases = Vec::new();
        for address in list(&self.directory)?.into_keys() {
            leases.extend(self.lease(address)?);
        }
        Ok(leases)
    }

    /// Whether every address that a set gives out is held, by the names alone: holders that are
    /// dead count, too.
    ///
    /// # Errors
    ///
    /// Code 5.
    pub fn is_exhausted(&self, set: &RangeSet) -> Result<bool> {
        let held = self.names()?;
        // If there are more addresses than names, one of so many is free.
        Ok(set
            .candidates(None)
            .take(held.len() + 1)
            .all(|(address, _)| held.contains_key(&address)))
    }

    /// Whether the attachment holds the address.
    ///
    /// # Errors
    ///
    /// Code 5.
    pub fn holds(&self, attachment: &Attachment, address: IpAddr) -> Result<bool> {
        let lease = self.lease(address)?;
        Ok(lease.and_then(|lease| lease.holder).is_some_and(|holder| holder.is(attachment)))
    }

    /// Frees every lease of an attachment and returns the addresses. Neither a missing lease nor
    /// a missing directory is an error.
    ///
    /// # Errors
    ///
    /// The first failure, after everything else has been freed.
    pub fn release(&self, attachment: &Attachment) -> Result<Vec<IpAddr>> {
        let Some(_guard) = self.lock_if_any()? else { return Ok(Vec::new()) };
        let mut freed = self.release_own(attachment)?;
        freed.extend(self.remove_where(
            |_, holder| holder.is_some_and(|holder| holder.is(attachment)),
            self.unmarked()?,
        )?);
        Ok(freed)
    }

    /// The file of an address, if it is held.
    pub(super) fn lease(&self, address: IpAddr) -> Result<Option<Lease>> {
        let path = self.path(address);
        let read = match files::read_with_metadata(&path) {
            // Neither a symbolic link nor a directory says whose it is.
            Err(_) if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file()) => {
                return Ok(Some(Lease { address, holder: None, own: false }));
            }
            other => other?,
        };
        let Some((text, metadata)) = read else { return Ok(None) };
        let holder = Holder::parse(&text);
        let own = self.is_own(address, holder.as_ref(), metadata.ino());
        Ok(Some(Lease { address, holder, own }))
    }

    /// The attachment that holds a lease of academy's.
    pub(super) fn attachment(&self, lease: &Lease) -> Option<Attachment> {
        let holder = lease.holder.as_ref().filter(|_| lease.own)?;
        Attachment::new(&self.network, &holder.container_id, holder.ifname.as_deref()?).ok()
    }

    /// Makes what is missing of the directory, and keeps others from changing leases.
    pub(super) fn lock(&self) -> Result<Guard> {
        loop {
            files::secure_dir_in_own(&self.directory)?;
            files::secure_dir(&self.private)?;
            if let Some(guard) = self.lock_if_any()? {
                // `academy reset` removes spare directories.
                if self.private.is_dir() {
                    return Ok(guard);
                }
            }
        }
    }

    /// The addresses that an attachment holds by leases of academy's.
    pub(super) fn own_addresses(&self, attachment: &Attachment) -> Result<Vec<IpAddr>> {
        let Some(inode) = inode(&self.owner_file(attachment))? else { return Ok(Vec::new()) };
        // A killed call may have made one of the two names only.
        let mut held = list(&self.directory)?;
        held.extend(list(&self.private)?.into_iter().filter(|(_, found)| *found == inode));
        held.retain(|_, found| *found == inode);
        Ok(held.into_keys().collect())
    }

    /// The address of a lease of `host-local` that the attachment has in this directory, looked
    /// for only where `host-local` has been.
    pub(super) fn foreign_address(&self, attachment: &Attachment) -> Result<Option<IpAddr>> {
        if !self.directory.join(HOST_LOCAL_LOCK).exists() {
            return Ok(None);
        }
        for address in self.unmarked()? {
            if self.holds(attachment, address)? {
                return Ok(Some(address));
            }
        }
        Ok(None)
    }

    /// Writes the file whose further names the leases of the attachment become.
    pub(super) fn begin(&self, attachment: &Attachment) -> Result<PathBuf> {
        let file = self.owner_file(attachment);
        let unfinished = files::write_unfinished(&file, content(attachment).as_bytes())?;
        fs::rename(&unfinished, &file).doing("write", &file)?;
        Ok(file)
    }

    /// Tries to take an address: it belongs to whoever makes the name.
    pub(super) fn claim(&self, owner_file: &Path, address: IpAddr) -> Result<Claim> {
        let path = self.path(address);
        loop {
            match fs::hard_link(owner_file, &path) {
                Ok(()) => break,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    // Freed between the two looks.
                    let Some(lease) = self.lease(address)? else { continue };
                    return Ok(Claim::Held(lease));
                }
                Err(error) => return Err(error).doing("take address", &path),
            }
        }
        let mark = self.private.join(address.to_string());
        let marked = fs::hard_link(owner_file, &mark).or_else(|_| {
            // Of a lease that `host-local` removed, or whose DEL was killed.
            fs::remove_file(&mark)?;
            fs::hard_link(owner_file, &mark)
        });
        if let Err(error) = marked {
            let _ = fs::remove_file(&path);
            return Err(error).doing("mark address", &mark);
        }
        Ok(Claim::Taken)
    }

    /// Removes a lease that is dead. Only under the lock, since a name can be removed only by
    /// what it is called.
    pub(super) fn remove_dead(&self, lease: &Lease) -> Result<()> {
        files::remove(&self.path(lease.address))?;
        files::remove(&self.private.join(lease.address.to_string()))?;
        match self.attachment(lease) {
            Some(attachment) => self.finish(&attachment),
            None => Ok(()),
        }
    }

    /// Frees the leases of academy's that an attachment has.
    pub(super) fn release_own(&self, attachment: &Attachment) -> Result<Vec<IpAddr>> {
        let owner_file = self.owner_file(attachment);
        files::remove(&files::unfinished(&owner_file))?;
        let Some(own) = inode(&owner_file)? else { return Ok(Vec::new()) };
        let mut freed = Vec::new();
        for address in self.own_addresses(attachment)? {
            for path in [self.path(address), self.private.join(address.to_string())] {
                if inode(&path)? == Some(own) {
                    files::remove(&path)?;
                }
            }
            freed.push(address);
        }
        files::remove(&owner_file)?;
        Ok(freed)
    }

    /// Whether the file of an address is a regular one with nothing in it.
    pub(super) fn is_empty(&self, address: IpAddr) -> bool {
        fs::symlink_metadata(self.path(address))
            .is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0)
    }

    /// The last address that was given out of a set of ranges.
    pub(super) fn last_reserved(&self, set: usize) -> Option<IpAddr> {
        let text = files::read(&self.last_reserved_file(set)).ok()??;
        std::str::from_utf8(&text).ok()?.trim().parse().ok()
    }

    /// Remembers the last address that was given out of a set of ranges.
    pub(super) fn set_last_reserved(&self, set: usize, address: IpAddr) -> Result<()> {
        // Half of it is as good as none: the search begins at the first address then. It is
        // written over in place, padded to the longest address: a file that is truncated first,
        // ext4 brings to the disk when it is closed.
        let path = self.last_reserved_file(set);
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).open(&path);
        file.and_then(|mut file| file.write_all(format!("{address:<45}\n").as_bytes()))
            .doing("write", &path)
    }

    /// Every address that is held, by the names alone.
    pub(super) fn names(&self) -> Result<HashMap<IpAddr, u64>> {
        list(&self.directory)
    }

    fn path(&self, address: IpAddr) -> PathBuf {
        self.directory.join(address.to_string())
    }

    fn owner_file(&self, attachment: &Attachment) -> PathBuf {
        self.private.join(format!("owner-{:016x}", attachment.owner()))
    }

    fn last_reserved_file(&self, set: usize) -> PathBuf {
        self.private.join(format!("last_reserved.{set}"))
    }

    fn is_own(&self, address: IpAddr, holder: Option<&Holder>, lease: u64) -> bool {
        let is = |path: &Path| inode(path).is_ok_and(|found| found == Some(lease));
        if is(&self.private.join(address.to_string())) {
            return true;
        }
        // The call that made it was killed before it made the second name.
        let attachment = holder.and_then(|holder| {
            let ifname = holder.ifname.as_deref()?;
            Attachment::new(&self.network, &holder.container_id, ifname).ok()
        });
        attachment.is_some_and(|attachment| is(&self.owner_file(&attachment)))
    }

    /// The addresses whose file is not academy's, by inode numbers alone.
    fn unmarked(&self) -> Result<Vec<IpAddr>> {
        let marks = list(&self.private)?;
        let names = list(&self.directory)?.into_iter();
        let unmarked = names.filter(|(address, inode)| marks.get(address) != Some(inode));
        Ok(unmarked.map(|(address, _)| address).collect())
    }

    /// Removes the leases of these addresses of which `is_dead` says so.
    pub(super) fn remove_where(
        &self,
        is_dead: impl Fn(IpAddr, Option<&Holder>) -> bool,
        addresses: Vec<IpAddr>,
    ) -> Result<Vec<IpAddr>> {
        let mut removed = Vec::new();
        let mut failure = Ok(());
        for address in addresses {
            let result = self.lease(address).and_then(|lease| match lease {
                Some(lease) if is_dead(address, lease.holder.as_ref()) => {
                    self.remove_dead(&lease)?;
                    removed.push(address);
                    Ok(())
                }
                _ => Ok(()),
            });
            failure = failure.and(result);
        }
        failure.map(|()| removed)
    }

    /// Removes the file of an attachment when none of its leases is left.
    fn finish(&self, attachment: &Attachment) -> Result<()> {
        let file = self.owner_file(attachment);
        match fs::symlink_metadata(&file) {
            Ok(metadata) if metadata.nlink() == 1 => files::remove(&file),
            _ => Ok(()),
        }
    }

    /// Keeps others from changing leases; nothing where there is no directory.
    pub(super) fn lock_if_any(&self) -> Result<Option<Guard>> {
        if !self.directory.is_dir() {
            return Ok(None);
        }
        let open_and_lock = |path: PathBuf, file: io::Result<File>| match file {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            other => lock::lock(other.doing("open", &path)?, &path, PATIENCE).map(Some),
        };
        let host_local = self.directory.join(HOST_LOCAL_LOCK);
        Ok(Some(Guard {
            _private: open_and_lock(self.private.clone(), File::open(&self.private))?,
            _host_local: open_and_lock(host_local.clone(), files::open_lock(&host_local, false))?,
        }))
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;

//! Undoing an attachment: for DEL, for GC, and for what an ADD finds dead.

use std::path::PathBuf;

use super::{failures::Failures, ports};
use crate::{
    attachment::Attachment,
    datapath::Datapath,
    error::Result,
    ipam,
    netlink::{Link, Netlink},
    paths::Paths,
    record::{self, Record},
};

/// What it takes to undo attachments.
#[derive(Debug)]
pub(crate) struct Detacher<'a> {
    paths: &'a Paths,
    netlink: &'a Netlink,
    datapath: Option<&'a mut Datapath>,
    /// Whether interfaces may be deleted.
    touch_devices: bool,
    /// Where leases may be beside the directory that the record names.
    stores: Vec<PathBuf>,
}

impl<'a> Detacher<'a> {
    /// Without a data plane there are no rows to remove.
    pub(crate) fn new(
        paths: &'a Paths,
        netlink: &'a Netlink,
        datapath: Option<&'a mut Datapath>,
    ) -> Self {
        Self { paths, netlink, datapath, touch_devices: true, stores: Vec::new() }
    }

    /// Leaves all interfaces alone.
    pub(crate) fn leave_devices(&mut self) {
        self.touch_devices = false;
    }

    /// Looks for leases in these directories as well.
    pub(crate) fn also_release_in(&mut self, stores: impl IntoIterator<Item = PathBuf>) {
        self.stores.extend(stores);
    }

    /// Undoes an attachment: ports first, so that no new conversation begins; the endpoint, whose
    /// generation ends the ones there are; the interface; then the address, which nothing names
    /// any more; the record last, so that a kill in between leaves word of what is to be done.
    /// What is gone already is no failure, and every step is tried.
    pub(crate) fn detach(
        &mut self,
        attachment: &Attachment,
        record: Option<&Record>,
        failures: &mut Failures,
    ) {
        let mut own = Failures::default();
        let had_ports = self.withdraw(attachment, record, &mut own);
        // What the address is to be freed from. Rows of an interface that is gone are dead.
        let mut freed = true;
        if self.touch_devices {
            freed = own.note(self.delete_veth(attachment, record)).is_some();
        }
        if freed {
            for store in self.stores(record) {
                own.note(ipam::Store::open(&store).and_then(|store| store.release(attachment)));
            }
        }
        if own.is_empty() {
            own.note(record::remove(self.paths, attachment));
        }
        if had_ports {
            own.note(self.hand_over(attachment));
        }
        failures.note(own.finish());
    }

    /// Removes all rows; whether there were any of ports.
    fn withdraw(
        &mut self,
        attachment: &Attachment,
        record: Option<&Record>,
        failures: &mut Failures,
    ) -> bool {
        let Some(datapath) = self.datapath.as_deref_mut() else { return false };
        let owner = attachment.owner();
        // Without a record that can be read, rows of this owner may be anywhere.
        let keys: Option<Vec<_>> = record
            .filter(|record| !record.damaged)
            .map(|record| ports::rows(record).iter().map(|row| row.key).collect());
        let removed = failures.note(datapath.unpublish(owner, keys.as_deref()));
        failures.note(datapath.remove_endpoint(owner));
        removed.is_some_and(|rows| rows > 0)
    }

    fn delete_veth(&self, attachment: &Attachment, record: Option<&Record>) -> Result<()> {
        match self.find_veth(attachment, record)? {
            Some(link) => self.netlink.delete_link(link.index, &link.name),
            None => Ok(()),
        }
    }

    /// The host side of the attachment's own veth. One of that name but with somebody else's
    /// alias is not it; one without any is from an ADD that was killed before it could sign it.
    fn find_veth(&self, attachment: &Attachment, record: Option<&Record>) -> Result<Option<Link>> {
        let alias = attachment.alias();
        let is_ours = |link: &Link| {
            link.kind == "veth" && link.alias.as_ref().is_none_or(|known| *known == alias)
        };
        if let Some(link) = self.netlink.link(&attachment.veth_name())? {
            return Ok(Some(link).filter(is_ours));
        }
        // Somebody may have renamed it.
        let Some(record) = record.filter(|record| record.host_ifindex != 0) else {
            return Ok(None);
        };
        let link = self.netlink.link_at(record.host_ifindex)?;
        Ok(link.filter(|link| link.alias.as_ref() == Some(&alias)))
    }

    /// The directories in which the attachment may have leases.
    fn stores(&self, record: Option<&Record>) -> Vec<PathBuf> {
        let mut stores = self.stores.clone();
        stores.extend(record.and_then(|record| record.store_dir.clone()));
        stores.sort();
        stores.dedup();
        stores
    }

    /// Publishes what other attachments of the same container asked for as well, now that this
    /// one does not serve it any more.
    fn hand_over(&mut self, from: &Attachment) -> Result<()> {
        let Some(datapath) = self.datapath.as_deref_mut() else { return Ok(()) };
        let heirs = record::list_all(self.paths).into_iter().filter(|record| {
            record.attachment.container_id() == from.container_id() && !record.standby.is_empty()
        });
        for mut heir in heirs {
            let rows = datapath.port_rows()?;
            let (waiting, free): (Vec<_>, Vec<_>) = heir.standby.drain(..).partition(|claim| {
                rows.iter().any(|(key, ..)| ports::collide(key, &ports::key(claim)))
            });
            heir.standby = waiting;
            if free.is_empty() || self.netlink.link_at(heir.host_ifindex)?.is_none() {
                continue;
            }
            heir.ports.extend(free);
            heir.store(self.paths)?;
            let present =
                |row: &crate::datapath::PortRow| rows.iter().any(|(key, ..)| *key == row.key);
            let new: Vec<_> = ports::rows(&heir).into_iter().filter(|row| !present(row)).collect();
            datapath.publish(&new)?;
        }
        Ok(())
    }
}

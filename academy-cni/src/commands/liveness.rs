//! Who is alive. A call may take over what is provably dead: an attachment whose interface is
//! gone, since some runtimes never send its DEL.

use std::cell::OnceCell;

use crate::{
    attachment::Attachment,
    host::Host,
    paths::Paths,
    record::{self, Record},
};

/// What is known about other attachments at this call. Records are read only when they are
/// wanted: most calls meet nobody.
#[derive(Debug)]
pub(crate) struct Liveness<'a> {
    paths: &'a Paths,
    host: &'a Host,
    /// The attachment of this call, whose own intent is no sign of life.
    own: &'a Attachment,
    records: OnceCell<Vec<Record>>,
}

impl<'a> Liveness<'a> {
    pub(crate) fn new(paths: &'a Paths, host: &'a Host, own: &'a Attachment) -> Self {
        Self { paths, host, own, records: OnceCell::new() }
    }

    /// Whether an attachment has its interface still. Its host side is called what
    /// [`Attachment::veth_name`] says, unless its record knows of another one.
    pub(crate) fn is_alive(&self, attachment: &Attachment) -> bool {
        if attachment == self.own {
            return false;
        }
        if self.host.link(&attachment.veth_name()).is_some() {
            return true;
        }
        match record::load(self.paths, attachment) {
            Ok(Some(record)) => self.host.link(&record.host_ifname).is_some(),
            Ok(None) => false,
            // Whose record cannot be read may be alive.
            Err(_) => true,
        }
    }

    /// Whether the attachment of a map's row is alive: the row's interface is there, and it is
    /// the one that the attachment's record knows, if there is a record.
    pub(crate) fn is_owner_alive(&self, owner: u64, ifindex: u32) -> bool {
        let Some(link) = self.host.link_at(ifindex) else { return false };
        self.record(owner).is_none_or(|record| record.host_ifname == link.name)
    }

    /// The names behind an owner.
    pub(crate) fn attachment(&self, owner: u64) -> Option<&Attachment> {
        self.record(owner).map(|record| &record.attachment)
    }

    fn record(&self, owner: u64) -> Option<&Record> {
        let records = self.records.get_or_init(|| record::list_all(self.paths));
        records.iter().find(|record| record.attachment.owner() == owner)
    }
}

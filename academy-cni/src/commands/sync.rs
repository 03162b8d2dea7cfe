//! `academy sync`: look at the host again. The package's udev rule runs it when an interface
//! appears or netfilter gets between the ports of bridges; nothing else stays running.

use super::{failures::Failures, refresh};
use crate::{
    datapath::{Datapath, Sweep},
    error::Result,
    host::Host,
    lock::GlobalLock,
    netlink::Netlink,
    paths::Paths,
};

/// Renews what the data plane knows about the host, its hooks on uplinks and bridges, and removes
/// rows of dead conversations. Does nothing where no data plane is.
///
/// # Errors
/// The first failure; everything has been tried.
pub fn sync(paths: &Paths) -> Result<()> {
    let _lock = GlobalLock::acquire(paths)?;
    let Some(mut datapath) = Datapath::open(paths)? else { return Ok(()) };
    let netlink = Netlink::open()?;
    let host = Host::look(&netlink)?;
    let mut failures = Failures::default();
    failures.note(refresh(&mut datapath, &host, None));
    failures.note(datapath.sweep(Sweep::All));
    failures.finish()
}

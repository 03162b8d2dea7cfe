//! `academy reset`: leave nothing of academy on this host.

use super::{add::BRIDGE_ALIAS, detach::Detacher, failures::Failures};
use crate::{
    attachment::ALIAS_PREFIX,
    datapath::Datapath,
    error::{Error, Result},
    files,
    host::Host,
    ipam,
    lock::GlobalLock,
    netlink::{Link, Netlink},
    paths::Paths,
    record,
};

/// Removes programs, maps, hooks, academy's bridges without ports, and its empty directories.
/// Refuses while an attachment lives, and changes nothing then.
///
/// # Errors
/// Code 7 while an attachment lives; else the first failure, after everything has been tried.
pub fn reset(paths: &Paths) -> Result<()> {
    let lock = GlobalLock::acquire(paths)?;
    let netlink = Netlink::open()?;
    let host = Host::look(&netlink)?;
    refuse_while_in_use(paths, &host)?;
    let mut failures = Failures::default();
    let mut detacher = Detacher::new(paths, &netlink, None);
    for record in record::list_all(paths) {
        detacher.detach(&record.attachment, Some(&record), &mut failures);
    }
    for directory in files::directories(&paths.run_dir)? {
        if let Some(name) = directory.file_name().and_then(|name| name.to_str()) {
            failures.note(record::clear_remains(paths, Paths::network_of_records(name)));
        }
    }
    failures.note(release_all(paths));
    failures.note(Datapath::uninstall(paths, &host.state(&[], false)));
    for bridge in host.links.iter().filter(|link| is_spare_bridge(link, &host)) {
        failures.note(netlink.delete_link(bridge.index, &bridge.name));
    }
    failures.note(files::remove_run_dir(paths, lock));
    failures.finish()
}

/// Frees what is left of leases in academy's own directory: nobody lives who could hold them.
fn release_all(paths: &Paths) -> Result<()> {
    for directory in files::directories(&paths.state_dir)? {
        ipam::Store::open(&directory)?.retain(|_| false)?;
    }
    ipam::remove_spare(&paths.state_dir)
}

/// An attachment lives as long as its interface does.
fn refuse_while_in_use(paths: &Paths, host: &Host) -> Result<()> {
    let refuse = |what: &str| {
        Err(Error::Conflict(format!("academy is in use: {what}; detach the containers first")))
    };
    let is_ours = |link: &&Link| {
        link.kind == "veth"
            && link.alias.as_deref().is_some_and(|alias| alias.starts_with(ALIAS_PREFIX))
    };
    if let Some(link) = host.links.iter().find(is_ours) {
        return refuse(&format!("{} ({})", link.name, link.alias.as_deref().unwrap_or_default()));
    }
    match record::list_all(paths).iter().find(|record| host.link(&record.host_ifname).is_some()) {
        Some(record) => refuse(&record.attachment.to_string()),
        None => Ok(()),
    }
}

/// Whether academy made this bridge and nothing is plugged into it.
fn is_spare_bridge(link: &Link, host: &Host) -> bool {
    link.kind == "bridge"
        && link.alias.as_deref() == Some(BRIDGE_ALIAS)
        && !host.links.iter().any(|port| port.master == Some(link.index))
}

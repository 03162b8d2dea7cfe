//! GC: remove what no valid attachment of the network needs.

use std::{collections::BTreeSet, path::Path};

use super::{Call, detach::Detacher, failures::Failures, refresh};
use crate::{
    attachment::Attachment,
    config::{NetworkConfig, TeardownConfig},
    datapath::{Datapath, Sweep},
    error::Result,
    host::Host,
    ipam::{self, Holder},
    lock::GlobalLock,
    netlink::Netlink,
    record,
    spec::{ValidAttachment, valid_attachments},
};

/// Undoes every attachment of the network that is not in the runtime's list, and removes what
/// nobody owns any more: veths that a killed ADD left, leases, rows of interfaces that are gone.
///
/// # Errors
/// Code 7 for a malformed list: then nothing has been removed. Else the first failure, after
/// everything has been tried.
pub(super) fn run(call: &Call) -> Result<()> {
    let valid = valid_attachments(&call.config)?;
    let config = TeardownConfig::of(&call.config);
    let _lock = GlobalLock::acquire(&call.paths)?;
    let netlink = Netlink::open()?;
    let mut failures = Failures::default();
    let mut datapath = failures.note(Datapath::open(&call.paths)).flatten();

    let mut detacher = Detacher::new(&call.paths, &netlink, datapath.as_mut());
    let stores = config.stores(&call.paths, &call.network);
    detacher.also_release_in(stores.clone());
    let is_valid = |attachment: &Attachment| valid.iter().any(|one| one.is(attachment));
    for record in record::list(&call.paths, &call.network) {
        if !is_valid(&record.attachment) {
            detacher.detach(&record.attachment, Some(&record), &mut failures);
        }
    }
    if let Some(host) = failures.note(Host::look(&netlink)) {
        for orphan in orphans(&host, &call.network, &valid) {
            match orphan {
                Orphan::Known(attachment) => detacher.detach(&attachment, None, &mut failures),
                Orphan::Nameless(index, name) => {
                    failures.note(netlink.delete_link(index, &name));
                }
            }
        }
    }
    failures.note(record::clear_remains(&call.paths, &call.network));
    for store in stores {
        failures.note(release_all(&store, &valid));
    }
    // Once more, without what has just been deleted.
    let left = failures.note(Host::look(&netlink));
    if let (Some(datapath), Some(host)) = (&mut datapath, &left) {
        failures.note(remove_dead_rows(datapath, host));
        let config = NetworkConfig::for_status(&call.config).ok();
        failures.note(refresh(datapath, host, config.as_ref()));
        failures.note(datapath.sweep(Sweep::All));
    }
    failures.finish()
}

/// An interface that is academy's by its alias, of an attachment that is not valid.
#[derive(Debug, PartialEq, Eq)]
enum Orphan {
    Known(Attachment),
    /// The alias was cut: only that it is of this network is known.
    Nameless(u32, String),
}

fn orphans(host: &Host, network: &str, valid: &[ValidAttachment]) -> Vec<Orphan> {
    let prefix = Attachment::alias_prefix(network);
    let valid: BTreeSet<String> = valid
        .iter()
        .filter_map(|one| Attachment::new(network, &one.container_id, &one.ifname).ok())
        .map(|attachment| attachment.alias())
        .collect();
    let of_network = host.links.iter().filter_map(|link| {
        let alias = link.alias.as_deref().filter(|_| link.kind == "veth")?;
        Some((link, alias, alias.strip_prefix(&prefix)?))
    });
    of_network
        .filter(|(_, alias, _)| !valid.contains(*alias))
        .map(|(link, alias, names)| {
            let attachment = names
                .split_once(':')
                .and_then(|(id, ifname)| Attachment::new(network, id, ifname).ok())
                .filter(|attachment| attachment.alias() == alias);
            match attachment {
                // Else it was renamed, and its own name would not be found.
                Some(attachment) if attachment.veth_name() == link.name => {
                    Orphan::Known(attachment)
                }
                _ => Orphan::Nameless(link.index, link.name.clone()),
            }
        })
        .collect()
}

/// Frees every lease whose holder is not valid.
fn release_all(store: &Path, valid: &[ValidAttachment]) -> Result<()> {
    let is_valid = |holder: &Holder| {
        valid.iter().any(|one| {
            one.container_id == holder.container_id
                && holder.ifname.as_ref().is_none_or(|ifname| *ifname == one.ifname)
        })
    };
    ipam::Store::open(store)?.retain(is_valid).map(drop)
}

/// Removes the rows of interfaces that are gone, of whatever network.
fn remove_dead_rows(datapath: &mut Datapath, host: &Host) -> Result<()> {
    let mut dead: BTreeSet<u64> = datapath
        .endpoints()?
        .into_iter()
        .filter(|(ifindex, _)| host.link_at(*ifindex).is_none())
        .map(|(_, endpoint)| endpoint.owner)
        .collect();
    let rows = datapath.port_rows()?;
    dead.extend(
        rows.iter()
            .filter(|(_, _, ifindex, _)| host.link_at(*ifindex).is_none())
            .map(|(_, owner, ..)| *owner),
    );
    for owner in dead {
        datapath.unpublish(owner, None)?;
        datapath.remove_endpoint(owner)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::Link;

    fn veth(name: &str, alias: &str) -> Link {
        Link {
            index: 7,
            name: name.into(),
            kind: "veth".into(),
            alias: Some(alias.into()),
            ..Link::default()
        }
    }

    #[test]
    fn orphans_are_veths_of_this_network_that_no_valid_attachment_has() {
        let gone = Attachment::new("net", "gone", "eth0").unwrap();
        let here = Attachment::new("net", "here", "eth0").unwrap();
        let other = Attachment::new("network", "gone", "eth0").unwrap();
        let links = vec![
            veth(&gone.veth_name(), &gone.alias()),
            veth(&here.veth_name(), &here.alias()),
            veth(&other.veth_name(), &other.alias()),
            veth("renamed", &gone.alias()),
            Link { kind: "bridge".into(), ..veth("br", &gone.alias()) },
        ];
        let host = Host { links, addresses: Vec::new() };
        let valid = [ValidAttachment { container_id: "here".into(), ifname: "eth0".into() }];
        let expected = [Orphan::Known(gone), Orphan::Nameless(7, "renamed".into())];
        assert_eq!(orphans(&host, "net", &valid), expected);
    }
}

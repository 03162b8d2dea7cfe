//! Published ports: what a request means in rows, and who else wants the same packets.

use std::{
    collections::{BTreeSet, HashSet},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use academy_common::{PortVerdict, protocol};

use crate::{
    attachment::Attachment,
    commands::liveness::Liveness,
    config::PortRequest,
    datapath::{Datapath, PortRow, PortRowKey},
    error::{Error, Result},
    record::{PortClaim, Record},
    report::say,
    sockets::{self, Holder, Overlap},
};

/// One row to be published: which packets, and where in the container they go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Wanted {
    pub(crate) key: PortRowKey,
    pub(crate) container: IpAddr,
    pub(crate) container_port: u16,
}

impl Wanted {
    /// The claim as it is recorded. `snat` is what clients appear as whose own address leads
    /// nowhere from the container, `masq_all` makes all clients such.
    pub(crate) fn into_record(self, snat: Option<IpAddr>, masq_all: bool) -> PortClaim {
        PortClaim {
            protocol: self.key.protocol,
            address: self.key.address,
            port: self.key.port,
            container: self.container,
            container_port: self.container_port,
            snat,
            masq_all,
        }
    }
}

/// The key of a recorded claim.
pub(crate) fn key(claim: &PortClaim) -> PortRowKey {
    PortRowKey { protocol: claim.protocol, address: claim.address, port: claim.port }
}

/// The rows that a record says its attachment has.
pub(crate) fn rows(record: &Record) -> Vec<PortRow> {
    let row = |claim: &PortClaim, verdict| PortRow {
        key: key(claim),
        verdict,
        container: claim.container,
        container_port: claim.container_port,
        ifindex: record.host_ifindex,
        snat: claim.snat,
        masq_all: claim.masq_all,
        generation: record.generation,
        owner: record.attachment.owner(),
    };
    let served = record.ports.iter().map(|claim| row(claim, PortVerdict::Container));
    let kept = record.host_ports.iter().map(|claim| row(claim, PortVerdict::Host));
    served.chain(kept).collect()
}

/// What comes of a request on this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Claims {
    /// To be published now.
    pub(crate) serve: Vec<Wanted>,
    /// Served by another attachment of the same container, until it goes.
    pub(crate) standby: Vec<Wanted>,
    /// Of a wildcard mapping: the same for the addresses that a process of the host keeps.
    pub(crate) host: Vec<Wanted>,
}

/// The rows that requests mean for a container of these addresses: of each family the first one
/// is published. A host address of a family that the container lacks selects nothing.
pub(crate) fn wanted(requests: &[PortRequest], addresses: &[IpAddr]) -> Vec<Wanted> {
    let families = [
        (addresses.iter().find(|address| address.is_ipv4()), IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        (addresses.iter().find(|address| address.is_ipv6()), IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
    ];
    let mut rows = Vec::new();
    let mut seen = HashSet::new();
    for request in requests {
        for (container, any) in families {
            let Some(container) = container.copied() else { continue };
            let address = match request.host_ip {
                Some(address) if address.is_ipv4() != any.is_ipv4() => continue,
                Some(address) => address,
                None => any,
            };
            let key = PortRowKey { protocol: request.protocol, address, port: request.host_port };
            if seen.insert(key) {
                rows.push(Wanted { key, container, container_port: request.container_port });
            }
        }
    }
    rows
}

/// Whether two mappings want the same packets.
pub(crate) fn collide(one: &PortRowKey, other: &PortRowKey) -> bool {
    (one.protocol, one.port) == (other.protocol, other.port)
        && one.address.is_ipv4() == other.address.is_ipv4()
        && (one.address == other.address
            || one.address.is_unspecified()
            || other.address.is_unspecified())
}

/// Sorts out what can be served. Rows of dead attachments that are in the way are removed.
///
/// # Errors
/// [`Error::PortTaken`] when a live attachment of another container or a process of the host has
/// a port.
pub(crate) fn claim(
    wanted: Vec<Wanted>,
    attachment: &Attachment,
    datapath: &mut Datapath,
    liveness: &Liveness<'_>,
) -> Result<Claims> {
    if wanted.is_empty() {
        return Ok(Claims::default());
    }
    let mut claims = Claims::default();
    let rows = datapath.port_rows()?;
    let mut dead = BTreeSet::new();
    // Rows of this very attachment are from an earlier one whose interface is gone.
    if rows.iter().any(|(_, owner, ..)| *owner == attachment.owner()) {
        dead.insert(attachment.owner());
    }
    for row in wanted {
        let in_the_way = rows
            .iter()
            .filter(|(key, owner, ..)| *owner != attachment.owner() && collide(&row.key, key));
        let mut standby = false;
        for (_, owner, ifindex, _) in in_the_way {
            if !liveness.is_owner_alive(*owner, *ifindex) {
                dead.insert(*owner);
                continue;
            }
            let holder = liveness.attachment(*owner);
            match holder {
                Some(holder) if holder.container_id() == attachment.container_id() => {
                    standby = true;
                }
                holder => {
                    let owner = holder.map_or_else(
                        || format!("an attachment without a record (owner {owner:#018x})"),
                        |holder| holder.to_string(),
                    );
                    return Err(taken(&row.key, owner));
                }
            }
        }
        if standby {
            claims.standby.push(row);
        } else {
            claims.serve.push(row);
        }
    }
    claims.host = beside_processes(&claims.serve, attachment)?;
    for owner in dead {
        datapath.unpublish(owner, None)?;
        datapath.remove_endpoint(owner)?;
    }
    Ok(claims)
}

/// Looks for processes of the host that listen on what is to be served: an error, unless they are
/// the runtime's own, or listen on another address than the mapping's. Those get a row each.
fn beside_processes(serve: &[Wanted], attachment: &Attachment) -> Result<Vec<Wanted>> {
    let protocols: BTreeSet<u8> = serve.iter().map(|row| row.key.protocol).collect();
    let with_sockets =
        protocols.into_iter().filter(|number| [protocol::TCP, protocol::UDP].contains(number));
    let listeners = sockets::listeners(with_sockets).unwrap_or_else(|error| {
        // The kernel's list is a module that not every host has.
        say(format_args!("warning: {error}; a process of the host may have one of the ports"));
        Vec::new()
    });
    let mut keep = Vec::new();
    for listener in listeners {
        for row in serve {
            let key = &row.key;
            let address = match listener.overlap(key.protocol, key.address, key.port) {
                Overlap::None => continue,
                Overlap::Conflict => None,
                Overlap::KeepsItsAddress(address) => Some(address),
            };
            if sockets::is_reservation(listener.inode, attachment.container_id()) {
                continue;
            }
            match address {
                Some(address) => {
                    keep.push(Wanted { key: PortRowKey { address, ..*key }, ..*row });
                }
                None => {
                    let holders = Holder::all_of(listener.inode);
                    let owner = match holders.first() {
                        Some(holder) => holder.to_string(),
                        None => "a process of the host".to_owned(),
                    };
                    return Err(taken(key, owner));
                }
            }
        }
    }
    // Several sockets may share an address (SO_REUSEPORT).
    keep.sort_unstable_by_key(|row: &Wanted| (row.key.protocol, row.key.address, row.key.port));
    keep.dedup();
    Ok(keep)
}

/// The error for a port that somebody has.
pub(crate) fn taken(key: &PortRowKey, owner: String) -> Error {
    Error::PortTaken {
        protocol: protocol_name(key.protocol),
        address: key.address,
        port: key.port,
        owner,
    }
}

fn protocol_name(number: u8) -> &'static str {
    match number {
        protocol::TCP => "tcp",
        protocol::UDP => "udp",
        protocol::SCTP => "sctp",
        _ => "ip",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(host_ip: Option<&str>, host_port: u16) -> PortRequest {
        PortRequest {
            protocol: protocol::TCP,
            host_ip: host_ip.map(|text| text.parse().unwrap()),
            host_port,
            container_port: 80,
        }
    }

    fn addresses(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn keys(requests: &[PortRequest], of: &[&str]) -> Vec<(String, u16, String)> {
        wanted(requests, &addresses(of))
            .iter()
            .map(|row| (row.key.address.to_string(), row.key.port, row.container.to_string()))
            .collect()
    }

    #[test]
    fn without_a_host_address_both_families_of_the_container_are_published() {
        let rows = keys(&[request(None, 8080)], &["10.98.0.2", "10.99.0.2", "fd98::2"]);
        let expected = [("0.0.0.0", "10.98.0.2"), ("::", "fd98::2")]
            .map(|(any, container)| (any.to_owned(), 8080, container.to_owned()));
        assert_eq!(rows, expected);
    }

    #[test]
    fn a_host_address_selects_its_family_and_an_unspecified_one_nothing_more() {
        let requests = [request(Some("0.0.0.0"), 1), request(Some("::"), 2)];
        assert_eq!(keys(&requests, &["10.98.0.2"]), [("0.0.0.0".into(), 1, "10.98.0.2".into())]);
        assert_eq!(keys(&[request(Some("::1"), 3)], &["10.98.0.2"]), []);
        let both = keys(&requests, &["10.98.0.2", "fd98::2"]);
        assert_eq!(both.len(), 2);
        assert_eq!(both[1], ("::".into(), 2, "fd98::2".into()));
    }

    #[test]
    fn mappings_collide_by_protocol_port_and_address_or_wildcard_of_one_family() {
        let key = |protocol, address: &str, port| PortRowKey {
            protocol,
            address: address.parse().unwrap(),
            port,
        };
        let wildcard = key(protocol::TCP, "0.0.0.0", 80);
        assert!(collide(&wildcard, &key(protocol::TCP, "192.0.2.1", 80)));
        assert!(collide(&key(protocol::TCP, "192.0.2.1", 80), &wildcard));
        let one = key(protocol::TCP, "192.0.2.1", 80);
        assert!(!collide(&one, &key(protocol::TCP, "192.0.2.2", 80)));
        assert!(!collide(&wildcard, &key(protocol::UDP, "0.0.0.0", 80)));
        assert!(!collide(&wildcard, &key(protocol::TCP, "0.0.0.0", 81)));
        assert!(!collide(&wildcard, &key(protocol::TCP, "::", 80)));
    }
}

//! Sockets of the host that stand in the way of a port mapping.

mod diag;
mod process;

use std::net::{IpAddr, Ipv4Addr};

use academy_common::protocol;

pub use process::{Holder, is_reservation};

use crate::{error::Result, sysctl};

/// A socket that takes what nobody else is connected to: a listening TCP one, or a UDP one that
/// is bound but not connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The IP protocol number.
    pub protocol: u8,
    /// The address that it is bound to; `0.0.0.0` or `::` for all of them.
    pub address: IpAddr,
    /// The port.
    pub port: u16,
    /// Whether `::` means IPv6 alone, not IPv4 as well (`IPV6_V6ONLY`).
    pub ipv6_only: bool,
    /// The socket's inode, by which the process that holds it is found.
    pub inode: u32,
}

/// What a listener means for a mapping of the same protocol and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// They do not meet.
    None,
    /// Both want the same packets.
    Conflict,
    /// The mapping is for every address, the listener for this one: it keeps it.
    KeepsItsAddress(IpAddr),
}

impl Listener {
    /// How it meets a mapping of `protocol` and `port` for `address`, which is unspecified for
    /// every address of its family.
    #[must_use]
    pub fn overlap(&self, protocol: u8, address: IpAddr, port: u16) -> Overlap {
        if (self.protocol, self.port) != (protocol, port) {
            return Overlap::None;
        }
        let covers_family = match (self.address, address) {
            (IpAddr::V6(own), IpAddr::V4(_)) => own.is_unspecified() && !self.ipv6_only,
            (own, other) => own.is_ipv4() == other.is_ipv4(),
        };
        if !covers_family {
            Overlap::None
        } else if self.address.is_unspecified() || self.address == address {
            Overlap::Conflict
        } else if address.is_unspecified() {
            Overlap::KeepsItsAddress(self.address)
        } else {
            Overlap::None
        }
    }
}

/// The listeners of the calling thread's network namespace, for the given protocols. An
/// unconnected UDP socket on a port that the kernel hands out by itself is none.
///
/// # Errors
/// [`crate::error::Error::Netlink`] when the kernel does not list them.
pub fn listeners(protocols: impl IntoIterator<Item = u8>) -> Result<Vec<Listener>> {
    let ephemeral = ephemeral_ports();
    let mut found = Vec::new();
    for protocol in protocols {
        let sockets = diag::listeners(protocol)?;
        found.extend(sockets.into_iter().filter(|socket| {
            socket.protocol != protocol::UDP
                || !ephemeral.as_ref().is_some_and(|ports| ports.contains(&socket.port))
        }));
    }
    Ok(found)
}

fn ephemeral_ports() -> Option<std::ops::RangeInclusive<u16>> {
    let range = sysctl::get("ipv4/ip_local_port_range")?;
    let mut bounds = range.split_whitespace().map(str::parse);
    Some(bounds.next()?.ok()?..=bounds.next()?.ok()?)
}

/// Writes an IPv4 address that a socket of the other family is bound to as what it is.
fn canonical(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        // `::ffff:0.0.0.0` takes IPv4 alone.
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    fn tcp(address: &str, ipv6_only: bool) -> Listener {
        let address = address.parse().unwrap();
        Listener { protocol: protocol::TCP, address, port: 80, ipv6_only, inode: 1 }
    }

    fn meets(listener: Listener, address: &str) -> Overlap {
        listener.overlap(protocol::TCP, address.parse().unwrap(), 80)
    }

    #[test]
    fn a_wildcard_listener_conflicts_with_every_mapping_of_its_family() {
        for address in ["0.0.0.0", "192.0.2.1", "127.0.0.1"] {
            assert_eq!(meets(tcp("0.0.0.0", false), address), Overlap::Conflict, "{address}");
        }
        assert_eq!(meets(tcp("0.0.0.0", false), "::"), Overlap::None);
    }

    #[test]
    fn a_dual_stack_listener_also_takes_ipv4_and_an_ipv6_only_one_does_not() {
        assert_eq!(meets(tcp("::", false), "192.0.2.1"), Overlap::Conflict);
        assert_eq!(meets(tcp("::", true), "192.0.2.1"), Overlap::None);
        assert_eq!(meets(tcp("::", true), "2001:db8::1"), Overlap::Conflict);
        assert_eq!(meets(tcp("::1", false), "0.0.0.0"), Overlap::None);
    }

    #[test]
    fn a_listener_on_one_address_keeps_it_beside_a_wildcard_mapping() {
        let resolver = tcp("127.0.0.53", false);
        assert_eq!(meets(resolver, "0.0.0.0"), Overlap::KeepsItsAddress(resolver.address));
        assert_eq!(meets(resolver, "127.0.0.53"), Overlap::Conflict);
        assert_eq!(meets(resolver, "127.0.0.1"), Overlap::None);
    }

    #[test]
    fn another_port_or_protocol_never_conflicts() {
        let listener = tcp("0.0.0.0", false);
        assert_eq!(listener.overlap(protocol::UDP, listener.address, 80), Overlap::None);
        assert_eq!(listener.overlap(protocol::TCP, listener.address, 81), Overlap::None);
    }

    #[test]
    fn an_ipv4_address_in_ipv6_clothes_is_ipv4() {
        assert_eq!(
            canonical("::ffff:192.0.2.1".parse().unwrap()),
            "192.0.2.1".parse::<IpAddr>().unwrap()
        );
        assert_eq!(canonical("::1".parse().unwrap()), "::1".parse::<IpAddr>().unwrap());
    }

    #[test]
    fn sockets_of_this_process_are_listed_and_traced_back_to_it() {
        let stream = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = stream.local_addr().unwrap().port();
        let listener = *listeners([protocol::TCP])
            .unwrap()
            .iter()
            .find(|socket| socket.port == port)
            .expect("the listener is listed");
        assert_eq!(listener.address, stream.local_addr().unwrap().ip());
        let holders = Holder::all_of(listener.inode);
        assert!(holders.iter().any(|holder| holder.pid == std::process::id()), "{holders:?}");
    }

    #[test]
    fn udp_sockets_count_only_unconnected_and_outside_the_ephemeral_range() {
        let is_listed =
            |port| listeners([protocol::UDP]).unwrap().iter().any(|socket| socket.port == port);
        let ephemeral = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(!is_listed(ephemeral.local_addr().unwrap().port()));
        let Some(server) = (1025..2000).find_map(|port| UdpSocket::bind(("127.0.0.1", port)).ok())
        else {
            panic!("no port below the ephemeral ones is free");
        };
        let port = server.local_addr().unwrap().port();
        assert!(is_listed(port));
        server.connect("127.0.0.1:9").unwrap();
        assert!(!is_listed(port));
    }
}

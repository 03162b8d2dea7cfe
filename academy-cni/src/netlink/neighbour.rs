//! Neighbours (which MAC an address has) and the bridge's forwarding database (which port a MAC
//! is behind). What is written here are ordinary entries, as if learnt: traffic corrects them.

use std::net::IpAddr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    neighbour::{
        NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
    },
};

use super::{Link, Netlink, address::family, failure};
use crate::error::Result;

impl Netlink {
    /// Says that `address` is at `mac` behind `link`, whatever was known before.
    ///
    /// # Errors
    /// [`crate::error::Error::Netlink`] when the kernel refuses.
    pub fn set_neighbour(&self, link: &Link, address: IpAddr, mac: [u8; 6]) -> Result<()> {
        let destination = match address {
            IpAddr::V4(address) => NeighbourAddress::Inet(address),
            IpAddr::V6(address) => NeighbourAddress::Inet6(address),
        };
        let mut message = message(link, mac);
        message.header.family = family(address);
        message.attributes.push(NeighbourAttribute::Destination(destination));
        self.set(message).map_err(|source| {
            failure("set neighbour", format!("{address} of {}", link.name), source)
        })
    }

    /// Says that `mac` is behind `port`, a port of a bridge. The entry ages as a learnt one does.
    ///
    /// # Errors
    /// [`crate::error::Error::Netlink`] when the kernel refuses.
    pub fn seed_fdb(&self, port: &Link, mac: [u8; 6]) -> Result<()> {
        let mut message = message(port, mac);
        message.header.family = AddressFamily::Bridge;
        // The bridge's table, not the port's own list of addresses.
        message.header.flags = NeighbourFlags::Controller;
        self.set(message)
            .map_err(|source| failure("seed the bridge's table for", port.name.as_str(), source))
    }

    fn set(&self, message: NeighbourMessage) -> std::io::Result<()> {
        self.change(RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE | NLM_F_REPLACE)
    }
}

fn message(link: &Link, mac: [u8; 6]) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.ifindex = link.index;
    message.header.state = NeighbourState::Reachable;
    message.attributes.push(NeighbourAttribute::LinkLayerAddress(mac.to_vec()));
    message
}

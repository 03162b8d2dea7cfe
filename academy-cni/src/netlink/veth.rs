//! The pair of interfaces between host and container.

use std::os::fd::{AsRawFd, BorrowedFd};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::{
    RouteNetlinkMessage,
    link::{InfoData, InfoKind, InfoVeth, LinkAttribute, LinkInfo, LinkMessage},
};

use super::{Netlink, failure};
use crate::error::Result;

/// A veth pair to be made: one end here, as a port of a bridge, the other in a container.
#[derive(Debug)]
pub struct VethPair<'a> {
    /// The name of the host's end.
    pub host_name: &'a str,
    /// The Ethernet address of the host's end.
    pub host_mac: [u8; 6],
    /// The name of the container's end.
    pub container_name: &'a str,
    /// The Ethernet address of the container's end.
    pub container_mac: [u8; 6],
    /// The container's network namespace.
    pub netns: BorrowedFd<'a>,
    /// The MTU of both ends in bytes; absent for the kernel's default.
    pub mtu: Option<u32>,
    /// The index of the bridge.
    pub bridge: u32,
}

impl Netlink {
    /// Makes a veth pair in one step, both ends switched off: under its final name and in its
    /// final place from the start, so nobody sees half of it, and udev leaves its MACs alone
    /// since they were given.
    ///
    /// # Errors
    /// [`crate::error::Error::Netlink`] when the kernel refuses, also when a name is taken.
    pub fn add_veth(&self, pair: &VethPair<'_>) -> Result<()> {
        let mut peer = LinkMessage::default();
        peer.attributes = vec![
            LinkAttribute::IfName(pair.container_name.to_owned()),
            LinkAttribute::Address(pair.container_mac.to_vec()),
            LinkAttribute::NetNsFd(pair.netns.as_raw_fd()),
        ];
        peer.attributes.extend(pair.mtu.map(LinkAttribute::Mtu));
        let mut host = LinkMessage::default();
        host.attributes = vec![
            LinkAttribute::IfName(pair.host_name.to_owned()),
            LinkAttribute::Address(pair.host_mac.to_vec()),
            LinkAttribute::Controller(pair.bridge),
        ];
        host.attributes.extend(pair.mtu.map(LinkAttribute::Mtu));
        host.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]));
        self.change(RouteNetlinkMessage::NewLink(host), NLM_F_CREATE | NLM_F_EXCL).map_err(
            |source| {
                let object = format!("{} with {}", pair.host_name, pair.container_name);
                failure("make veth pair", object, source)
            },
        )
    }
}

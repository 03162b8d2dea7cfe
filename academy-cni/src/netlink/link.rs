//! Network interfaces: what there is, and changes to one of them.

use netlink_packet_route::{
    RouteNetlinkMessage,
    link::{
        InfoBridge, InfoBridgePort, InfoData, InfoKind, InfoPortData, InfoPortKind, LinkAttribute,
        LinkExtentMask, LinkFlags, LinkInfo, LinkMessage, State,
    },
};
use nix::errno::Errno;

use super::{Netlink, PortOptions, failure, is, tolerate};
use crate::error::Result;

/// An interface as the kernel describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Its index in its namespace.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its kind (`veth`, `bridge`, …); empty for hardware and lo.
    pub kind: String,
    /// Its Ethernet address, where it has one of six bytes.
    pub mac: Option<[u8; 6]>,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// The index of the bridge, bond or VRF that it is a port of.
    pub master: Option<u32>,
    /// Whether it is switched on.
    pub up: bool,
    /// Whether it is switched on and has a carrier.
    pub operational: bool,
    /// Whether it is lo.
    pub loopback: bool,
    /// Whether it takes every frame.
    pub promiscuous: bool,
    /// The hardware type (`ARPHRD_*`).
    pub arphrd: u16,
    /// The text that somebody gave it.
    pub alias: Option<String>,
    /// Of a veth: the index of the other end, in the namespace that it is in.
    pub peer_index: Option<u32>,
    /// Of a veth: the number that this namespace has for the other end's; absent when both ends
    /// are in the same one.
    pub peer_netns: Option<i32>,
    /// Of a bridge: whether it filters VLANs.
    pub vlan_filtering: bool,
    /// Of a bridge port: whether it is isolated from other such ports.
    pub isolated: bool,
}

/// What to change on an interface. Everything is one message, so all of it or an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkChange {
    /// Switch it on or off.
    pub up: Option<bool>,
    /// Let it take every frame.
    pub promiscuous: Option<bool>,
    /// Give it an Ethernet address.
    pub mac: Option<[u8; 6]>,
    /// Give it an MTU, in bytes.
    pub mtu: Option<u32>,
    /// Give it a text.
    pub alias: Option<String>,
    /// Set it up as a port of the bridge that it is in.
    pub port: Option<PortOptions>,
}

impl Netlink {
    /// All interfaces.
    ///
    /// # Errors
    /// [`crate::error::Error::Netlink`] when the kernel refuses.
    pub fn links(&self) -> Result<Vec<Link>> {
        let mut query = LinkMessage::default();
        query.attributes.push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
        let replies = self
            .dump(&RouteNetlinkMessage::GetLink(query))
            .map_err(|source| failure("list", "links", source))?;
        Ok(replies.into_iter().filter_map(Link::from_message).collect())
    }

    /// The interface of this name, if there is one.
    ///
    /// # Errors
    /// [`crate::error::Error::Netlink`] when the kernel refuses.
    pub fn link(&self, name: &str) -> Result<Option<Link>> {
        let mut query = LinkMessage::default();
        query.attributes.push(LinkAttribute::IfName(name.to_owned()));
        self.one_link(query, name)
    }

    /// The interface of this index, if there is one.
    ///
    /// # Errors
    /// [`crate::error::Error::Netlink`] when the kernel refuses.
    pub fn link_at(&self, index: u32) -> Result<Option<Link>> {
        let mut query = LinkMessage::default();
        query.header.index = index;
        self.one_link(query, &format!("interface {index}"))
    }

    fn one_link(&self, mut query: LinkMessage, object: &str) -> Result<Option<Link>> {
        query.attributes.push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
        match self.get(RouteNetlinkMessage::GetLink(query)) {
            Ok(reply) => Ok(reply.and_then(Link::from_message)),
            Err(error) if is(&error, Errno::ENODEV) => Ok(None),
            Err(source) => Err(failure("look up", object, source)),
        }
    }

    /// Changes an interface.
    ///
    /// # Errors
    /// [`crate::error::Error::Netlink`] when the kernel refuses.
    pub fn change_link(&self, link: &Link, change: &LinkChange) -> Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = link.index;
        let switches = [(change.up, LinkFlags::Up), (change.promiscuous, LinkFlags::Promisc)];
        for (wanted, flag) in switches {
            if let Some(wanted) = wanted {
                message.header.change_mask |= flag;
                message.header.flags.set(flag, wanted);
            }
        }
        let attributes = &mut message.attributes;
        attributes.extend(change.mac.map(|mac| LinkAttribute::Address(mac.to_vec())));
        attributes.extend(change.mtu.map(LinkAttribute::Mtu));
        attributes.extend(change.alias.clone().map(LinkAttribute::IfAlias));
        if let Some(port) = &change.port {
            attributes.push(LinkAttribute::LinkInfo(vec![
                LinkInfo::PortKind(InfoPortKind::Bridge),
                LinkInfo::PortData(InfoPortData::BridgePort(port.attributes())),
            ]));
        }
        // Port options are taken by NEWLINK alone; for an interface that exists it is SETLINK.
        self.change(RouteNetlinkMessage::NewLink(message), 0)
            .map_err(|source| failure("change", link.name.as_str(), source))
    }

    /// Has the kernel tell all neighbours which MAC the addresses of an interface have: gratuitous
    /// ARP and unsolicited neighbour advertisements, as far as the interface's settings
    /// `arp_notify` and `ndisc_notify` are on. They are sent when a MAC is set, also if it is the
    /// one it had. (A packet socket could send them as well, but closing it waits for a grace
    /// period of RCU: 10 ms.) What the interface knew about its neighbours is forgotten.
    ///
    /// # Errors
    /// [`crate::error::Error::Netlink`] when the kernel refuses.
    pub fn announce(&self, link: &Link) -> Result<()> {
        self.change_link(link, &LinkChange { mac: link.mac, ..LinkChange::default() })
    }

    /// Deletes an interface. One that is gone already is no error.
    ///
    /// # Errors
    /// [`crate::error::Error::Netlink`] when the kernel refuses.
    pub fn delete_link(&self, index: u32, name: &str) -> Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        tolerate(self.change(RouteNetlinkMessage::DelLink(message), 0), &[Errno::ENODEV])
            .map_err(|source| failure("delete", name, source))
    }
}

impl Link {
    fn from_message(message: RouteNetlinkMessage) -> Option<Self> {
        let RouteNetlinkMessage::NewLink(message) = message else { return None };
        let flags = message.header.flags;
        let mut link = Self {
            index: message.header.index,
            up: flags.contains(LinkFlags::Up),
            loopback: flags.contains(LinkFlags::Loopback),
            promiscuous: flags.contains(LinkFlags::Promisc),
            arphrd: message.header.link_layer_type.into(),
            ..Self::default()
        };
        for attribute in message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => link.name = name,
                LinkAttribute::Address(bytes) => link.mac = bytes.try_into().ok(),
                LinkAttribute::Mtu(mtu) => link.mtu = mtu,
                LinkAttribute::Controller(index) => link.master = (index != 0).then_some(index),
                LinkAttribute::IfAlias(alias) => link.alias = Some(alias),
                LinkAttribute::Link(index) => link.peer_index = Some(index),
                LinkAttribute::LinkNetNsId(id) => link.peer_netns = Some(id),
                LinkAttribute::OperState(state) => link.operational = state == State::Up,
                LinkAttribute::LinkInfo(infos) => {
                    infos.into_iter().for_each(|info| link.take_info(info));
                }
                _ => {}
            }
        }
        Some(link)
    }

    fn take_info(&mut self, info: LinkInfo) {
        match info {
            LinkInfo::Kind(InfoKind::Other(kind)) => self.kind = kind,
            LinkInfo::Kind(kind) => self.kind = kind.to_string(),
            LinkInfo::Data(InfoData::Bridge(options)) => {
                self.vlan_filtering = options.contains(&InfoBridge::VlanFiltering(true));
            }
            LinkInfo::PortData(InfoPortData::BridgePort(options)) => {
                self.isolated = options.contains(&InfoBridgePort::Isolated(true));
            }
            _ => {}
        }
    }
}

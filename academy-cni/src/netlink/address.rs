//! Addresses of interfaces.

use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    address::{AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage},
};
use nix::errno::Errno;

use super::{Link, Netlink, failure, tolerate};
use crate::error::Result;

/// An address and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The index of the interface.
    pub index: u32,
    /// The address with the length of its prefix.
    pub address: IpNet,
    /// Whether duplicate address detection has not let it through (IPv6).
    pub tentative: bool,
}

impl Netlink {
    /// All addresses of all interfaces.
    ///
    /// # Errors
    /// [`crate::error::Error::Netlink`] when the kernel refuses.
    pub fn addresses(&self) -> Result<Vec<Address>> {
        let replies = self
            .dump(&RouteNetlinkMessage::GetAddress(AddressMessage::default()))
            .map_err(|source| failure("list", "addresses", source))?;
        Ok(replies.into_iter().filter_map(Address::from_message).collect())
    }

    /// Gives an interface an address. One that it has already is no error.
    ///
    /// `detect_duplicates` is about IPv6 alone: without it the address is usable at once.
    ///
    /// # Errors
    /// [`crate::error::Error::Netlink`] when the kernel refuses.
    pub fn add_address(&self, link: &Link, address: IpNet, detect_duplicates: bool) -> Result<()> {
        let mut message = message(link, address);
        match address {
            IpNet::V4(net) if net.prefix_len() < 31 => {
                message.attributes.push(AddressAttribute::Broadcast(net.broadcast()));
            }
            IpNet::V6(_) if !detect_duplicates => {
                message.header.flags |= AddressHeaderFlags::Nodad;
                message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
            }
            _ => {}
        }
        let added =
            self.change(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL);
        tolerate(added, &[Errno::EEXIST])
            .map_err(|source| failure("add address", object(link, address), source))
    }

    /// Takes an address from an interface. One that it does not have is no error.
    ///
    /// # Errors
    /// [`crate::error::Error::Netlink`] when the kernel refuses.
    pub fn delete_address(&self, link: &Link, address: IpNet) -> Result<()> {
        let deleted = self.change(RouteNetlinkMessage::DelAddress(message(link, address)), 0);
        tolerate(deleted, &[Errno::EADDRNOTAVAIL, Errno::ENODEV])
            .map_err(|source| failure("delete address", object(link, address), source))
    }
}

fn object(link: &Link, address: IpNet) -> String {
    format!("{address} of {}", link.name)
}

fn message(link: &Link, address: IpNet) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = family(address.addr());
    message.header.prefix_len = address.prefix_len();
    message.header.index = link.index;
    message.attributes =
        vec![AddressAttribute::Local(address.addr()), AddressAttribute::Address(address.addr())];
    message
}

/// The family's number in netlink headers.
pub(super) fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

impl Address {
    fn from_message(message: RouteNetlinkMessage) -> Option<Self> {
        let RouteNetlinkMessage::NewAddress(message) = message else { return None };
        // On a point-to-point link `Address` is the other side, `Local` ours; IPv6 has no `Local`
        // on other links.
        let (mut local, mut address) = (None, None);
        for attribute in &message.attributes {
            match attribute {
                AddressAttribute::Local(ip) => local = Some(*ip),
                AddressAttribute::Address(ip) => address = Some(*ip),
                _ => {}
            }
        }
        Some(Self {
            index: message.header.index,
            address: IpNet::new(local.or(address)?, message.header.prefix_len).ok()?,
            tentative: message.header.flags.contains(AddressHeaderFlags::Tentative),
        })
    }
}

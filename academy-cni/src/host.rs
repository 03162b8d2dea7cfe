//! The host's interfaces and addresses as they were at one moment of a call: asked for once, kept
//! up to date by what the call itself makes.

use crate::{
    datapath::{HostLink, HostState},
    error::Result,
    netlink::{Address, Link, Netlink},
    sysctl,
};

/// What the host looked like, plus what this call made since.
#[derive(Clone, Debug)]
pub struct Host {
    /// Its interfaces.
    pub links: Vec<Link>,
    /// Their addresses.
    pub addresses: Vec<Address>,
}

impl Host {
    /// Looks at the namespace of the connection.
    ///
    /// # Errors
    /// [`crate::error::Error::Netlink`] when the kernel does not list them.
    pub fn look(netlink: &Netlink) -> Result<Self> {
        Ok(Self { links: netlink.links()?, addresses: netlink.addresses()? })
    }

    /// The interface of this name.
    #[must_use]
    pub fn link(&self, name: &str) -> Option<&Link> {
        self.links.iter().find(|link| link.name == name)
    }

    /// The interface of this index.
    #[must_use]
    pub fn link_at(&self, index: u32) -> Option<&Link> {
        self.links.iter().find(|link| link.index == index)
    }

    /// The addresses of the interface of this index.
    pub fn addresses_of(&self, index: u32) -> impl Iterator<Item = &Address> {
        self.addresses.iter().filter(move |address| address.index == index)
    }

    /// Puts in an interface as it is now, in the place of what was known of it.
    pub fn replace(&mut self, link: Link) {
        self.links.retain(|known| known.index != link.index);
        self.links.push(link);
    }

    /// Forgets an interface that was deleted.
    pub fn forget(&mut self, index: u32) {
        self.links.retain(|link| link.index != index);
        self.addresses.retain(|address| address.index != index);
    }

    /// What the data plane needs to know. `host_interfaces` are the configured uplinks, if any;
    /// `fast_path_on` is about short cuts whether or not netfilter wants to see bridged frames.
    #[must_use]
    pub fn state(&self, host_interfaces: &[String], fast_path_on: bool) -> HostState {
        let links = self.links.iter().map(|link| HostLink {
            index: link.index,
            name: link.name.clone(),
            kind: link.kind.clone(),
            mac: link.mac,
            master: link.master,
            up: link.up,
            loopback: link.loopback,
            arphrd: link.arphrd,
            has_address: self.addresses_of(link.index).next().is_some(),
        });
        HostState {
            links: links.collect(),
            addresses: self
                .addresses
                .iter()
                .map(|address| (address.index, address.address.addr()))
                .collect(),
            bridge_netfilter: !fast_path_on && sysctl::bridge_netfilter(),
            host_interfaces: host_interfaces.to_vec(),
        }
    }
}

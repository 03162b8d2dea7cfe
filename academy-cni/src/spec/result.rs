//! The result of an ADD, in the terms of the newest version.

use std::net::IpAddr;

use ipnet::IpNet;

/// The result of an ADD (CNI spec 1.1, "Success"). Other versions say less or say it otherwise:
/// see [`CniResult::to_json`] and [`CniResult::from_json`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CniResult {
    /// The interfaces that the attachment consists of.
    pub interfaces: Vec<Interface>,
    /// The addresses of the container.
    pub ips: Vec<Ip>,
    /// The routes in the container.
    pub routes: Vec<Route>,
    /// Name resolution in the container.
    pub dns: Dns,
}

/// An interface of a result.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its MAC with colons, or empty.
    pub mac: String,
    /// Its MTU in bytes.
    pub mtu: Option<u32>,
    /// The network namespace as given in CNI_NETNS; empty for an interface of the host.
    pub sandbox: String,
    /// The path of a socket that is its other end; academy makes none.
    pub socket_path: String,
    /// The PCI address of its device; academy makes none.
    pub pci_id: String,
}

/// An address of a result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ip {
    /// The address with the prefix length of its subnet.
    pub address: IpNet,
    /// The gateway of the subnet.
    pub gateway: Option<IpAddr>,
    /// Which of [`CniResult::interfaces`] has it.
    pub interface: Option<usize>,
}

/// A route of a result or of the configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    /// Where it leads.
    pub dst: IpNet,
    /// The next hop; none means the gateway of an address of the same family.
    pub gw: Option<IpAddr>,
    /// The MTU along it, in bytes.
    pub mtu: Option<u32>,
    /// The MSS that is advertised, in bytes.
    pub advmss: Option<u32>,
    /// The metric: the smaller, the better.
    pub priority: Option<u32>,
    /// The routing table.
    pub table: Option<u32>,
    /// The scope: 0 global, 253 link, 254 host.
    pub scope: Option<u8>,
}

impl Route {
    /// A route with nothing but a destination and a next hop.
    #[must_use]
    pub fn new(dst: IpNet, gw: Option<IpAddr>) -> Self {
        Self { dst, gw, mtu: None, advmss: None, priority: None, table: None, scope: None }
    }
}

/// Name resolution.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Dns {
    /// Addresses of name servers, in the order of preference.
    pub nameservers: Vec<String>,
    /// The local domain, or empty.
    pub domain: String,
    /// Domains to search, in order.
    pub search: Vec<String>,
    /// Options of the resolver.
    pub options: Vec<String>,
}

impl Dns {
    /// Whether it says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

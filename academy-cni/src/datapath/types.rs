//! What the rest of the plugin says to the data plane, and hears from it.

use std::net::IpAddr;

use academy_common::PortVerdict;

/// An interface of the host.
#[derive(Clone, Debug)]
pub struct HostLink {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its kind; empty for hardware.
    pub kind: String,
    /// Its MAC, where it has one.
    pub mac: Option<[u8; 6]>,
    /// What it is a port of.
    pub master: Option<u32>,
    /// Whether it is switched on.
    pub up: bool,
    /// Whether it is lo.
    pub loopback: bool,
    /// Its hardware type.
    pub arphrd: u16,
    /// Whether it has an address of any scope.
    pub has_address: bool,
}

/// The host as seen at one call.
#[derive(Clone, Debug)]
pub struct HostState {
    /// Its interfaces.
    pub links: Vec<HostLink>,
    /// Their addresses, by index.
    pub addresses: Vec<(u32, IpAddr)>,
    /// Whether frames between containers have to pass netfilter.
    pub bridge_netfilter: bool,
    /// The configured uplinks, by name or glob; empty for those with an address.
    pub host_interfaces: Vec<String>,
}

/// How programs are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachMode {
    /// clsact where it is possible.
    Auto,
    /// TCX links.
    Tcx,
    /// clsact.
    Clsact,
}

/// One container, to be written.
#[derive(Clone, Debug)]
pub struct EndpointSpec {
    /// The index of the host side.
    pub ifindex: u32,
    /// The name of the host side.
    pub ifname: String,
    /// The index of the bridge.
    pub bridge: u32,
    /// The MAC of the bridge.
    pub bridge_mac: [u8; 6],
    /// The MAC of the container.
    pub mac: [u8; 6],
    /// The addresses of the container.
    pub addresses: Vec<IpAddr>,
    /// The attachment.
    pub owner: u64,
    /// The generation.
    pub generation: u64,
    /// Whether neighbours may be reached past the bridge.
    pub short_cut: bool,
}

/// What is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PortRowKey {
    /// IP protocol number.
    pub protocol: u8,
    /// The host's address, or the wildcard of the family.
    pub address: IpAddr,
    /// The host's port.
    pub port: u16,
}

/// A port mapping, to be written.
#[derive(Clone, Debug)]
pub struct PortRow {
    /// What is published.
    pub key: PortRowKey,
    /// Who gets the packets.
    pub verdict: PortVerdict,
    /// The container's address.
    pub container: IpAddr,
    /// The container's port.
    pub container_port: u16,
    /// The index of the host side.
    pub ifindex: u32,
    /// What clients appear as whose own address leads nowhere.
    pub snat: Option<IpAddr>,
    /// Whether all clients do.
    pub masq_all: bool,
    /// The generation.
    pub generation: u64,
    /// The attachment.
    pub owner: u64,
}

/// Who holds a published port.
#[derive(Clone, Copy, Debug)]
pub struct PortHolder {
    /// The attachment.
    pub owner: u64,
    /// The index of its host side.
    pub ifindex: u32,
}

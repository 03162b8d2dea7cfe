//! One attachment's data-plane row.

use bytemuck::{Pod, Zeroable};

use crate::wire::{Ipv4, Ipv6, Mac};

/// Key of `endpoints`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct EndpointKey {
    /// The index of the host side's interface.
    pub ifindex: u32,
}

/// Value of `endpoints`: what the programs need to know about one container.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Endpoint {
    /// Random, new at every ADD. Flows and mappings made under another one are dead.
    pub generation: u64,
    /// Hash of the attachment: network, container id, interface name.
    pub owner: u64,
    /// The first IPv4 address, or zero. All of them are in `addresses4`.
    pub ipv4: Ipv4,
    /// The first IPv6 address, or zero. All of them are in `addresses6`.
    pub ipv6: Ipv6,
    /// The index of the bridge that the host side is a port of; 0 where there is none.
    pub bridge: u32,
    /// See [`endpoint_flags`].
    pub flags: u32,
    /// The container's MAC at ADD. It may change later; packets that the programs deliver reach
    /// the container all the same, since they are marked as meant for this host.
    pub mac: Mac,
    /// The bridge's MAC at the last CNI call: what the container sends to its gateway.
    pub bridge_mac: Mac,
    /// Zero.
    pub padding: [u32; 2],
}

/// Bits of [`Endpoint::flags`].
pub mod endpoint_flags {
    /// Frames to a known neighbour on the bridge may go straight to it.
    pub const SHORT_CUT: u32 = 1 << 0;
    /// The host side is a tap: its peer cannot be redirected into.
    pub const TAP: u32 = 1 << 1;
}

/// Key of `addresses4` and `addresses6`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(C)]
pub struct EndpointAddressKey<A> {
    /// An address of an endpoint.
    pub address: A,
}

/// Value of `addresses4` and `addresses6`: whose the address is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct EndpointAddress {
    /// The endpoint's owner, for compare-and-delete.
    pub owner: u64,
    /// The index of the endpoint's host side.
    pub ifindex: u32,
    /// Zero.
    pub padding: u32,
}

const _: () = assert!(size_of::<Endpoint>() == 64);
const _: () = assert!(size_of::<EndpointAddress>() == 16);

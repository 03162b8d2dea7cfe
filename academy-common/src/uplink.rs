//! What the programs need to know about an interface through which the host is reached.

use bytemuck::{Pod, Zeroable};

use crate::wire::Mac;

/// Key of `uplinks`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct UplinkKey {
    /// The index of the interface.
    pub ifindex: u32,
}

/// Value of `uplinks`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Uplink {
    /// A [`UplinkKind`].
    pub kind: u32,
    /// The interface's MAC at the last CNI call; zero where it has none.
    pub mac: Mac,
    /// Zero.
    pub padding: u16,
}

/// The kinds of uplink. Stored as their numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum UplinkKind {
    /// A NIC, or what looks like one.
    Ethernet = 1,
    /// A bridge: its ports' clients are answered by route and neighbour table.
    Bridge = 2,
    /// No link-layer header: tun, wireguard.
    Bare = 3,
}

const _: () = assert!(size_of::<Uplink>() == 12);

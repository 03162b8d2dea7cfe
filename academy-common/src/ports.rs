//! Published ports.

use crate::wire::Be16;

/// Key of `ports4` and `ports6`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(C)]
pub struct PortKey<A> {
    /// The host's address, or all zero: any address of this family that is the host's.
    pub address: A,
    /// The host's port.
    pub port: Be16,
    /// IP protocol number.
    pub protocol: u8,
    /// Zero.
    pub padding: u8,
}

/// Value of `ports4` and `ports6`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct PortMapping<A> {
    /// The endpoint's generation: a row made under another one is dead.
    pub generation: u64,
    /// The endpoint's owner, for compare-and-delete.
    pub owner: u64,
    /// The container's address.
    pub address: A,
    /// What a client appears as whose own address leads nowhere from the container (host
    /// processes on loopback, link-local clients, the container itself). Zero: such clients are
    /// left to the kernel (`snat: false`).
    pub snat_address: A,
    /// The index of the endpoint's host side.
    pub ifindex: u32,
    /// The container's port.
    pub port: Be16,
    /// A [`PortVerdict`].
    pub verdict: u8,
    /// See [`port_flags`].
    pub flags: u8,
}

/// What a row of `ports4` or `ports6` says about its packets. Stored as its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum PortVerdict {
    /// They go to the container.
    Container = 1,
    /// They stay with the host: a process was bound to exactly this address before a wildcard
    /// mapping of the same port came.
    Host = 2,
}

/// Bits of [`PortMapping::flags`].
pub mod port_flags {
    /// Every client appears as the SNAT address (`masqAll`).
    pub const MASQUERADE_ALL: u8 = 1 << 0;
}

const _: () = assert!(size_of::<PortKey<crate::Ipv4>>() == 8);
const _: () = assert!(size_of::<PortKey<crate::Ipv6>>() == 20);
const _: () = assert!(size_of::<PortMapping<crate::Ipv4>>() == 32);
const _: () = assert!(size_of::<PortMapping<crate::Ipv6>>() == 56);

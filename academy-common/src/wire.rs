//! Addresses and ports as they stand in packets.

use bytemuck::{Pod, Zeroable};

/// IP protocol numbers (IANA "Assigned Internet Protocol Numbers").
pub mod protocol {
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// ICMPv6.
    pub const ICMPV6: u8 = 58;
    /// SCTP.
    pub const SCTP: u8 = 132;
}

/// A 16-bit number in network byte order, such as a port.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Be16 {
    /// The two bytes as the wire has them, read as a native number.
    pub be16: u16,
}

impl Be16 {
    /// Takes a number in host byte order.
    #[must_use]
    #[inline(always)]
    pub const fn new(host: u16) -> Self {
        Self { be16: host.to_be() }
    }

    /// The number in host byte order.
    #[must_use]
    #[inline(always)]
    pub const fn get(self) -> u16 {
        u16::from_be(self.be16)
    }
}

/// An IPv4 address, in the order of the wire. Aligned so that the programs move it in one load.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Pod, Zeroable)]
#[repr(C, align(4))]
pub struct Ipv4 {
    /// The four bytes as written in dotted notation.
    pub octets: [u8; 4],
}

/// An IPv6 address, in the order of the wire. Aligned so that the programs move it in four loads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Pod, Zeroable)]
#[repr(C, align(4))]
pub struct Ipv6 {
    /// The sixteen bytes as written in colon notation.
    pub octets: [u8; 16],
}

/// An Ethernet address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Pod, Zeroable)]
#[repr(C, align(2))]
pub struct Mac {
    /// The six bytes as written in colon notation.
    pub octets: [u8; 6],
}

const _: () = assert!(size_of::<Be16>() == 2 && size_of::<Ipv4>() == 4);
const _: () = assert!(size_of::<Ipv6>() == 16 && size_of::<Mac>() == 6);

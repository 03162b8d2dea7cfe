//! What differs between IPv4 and IPv6 in the maps: the size of an address, and which are special.

use core::{fmt::Debug, hash::Hash};

use bytemuck::Pod;

use crate::wire::{Ipv4, Ipv6};

/// An address of one family. Everything keyed or valued by addresses is generic over it, so both
/// families are one code path.
pub trait Family: Pod + Eq + Hash + Debug + Default {
    /// The address that stands for "any address of this family" in a port mapping.
    const ANY: Self;
    /// Whether this is IPv6.
    const IS_IPV6: bool;

    /// 127.0.0.0/8 and ::1 (RFC 1122 3.2.1.3, RFC 4291 2.5.3).
    fn is_loopback(&self) -> bool;
    /// 169.254.0.0/16 and fe80::/10 (RFC 3927, RFC 4291 2.5.6): no route leads back to these.
    fn is_link_local(&self) -> bool;
    /// Multicast of either family, and the limited broadcast of IPv4.
    fn is_multicast_or_broadcast(&self) -> bool;
    /// 0.0.0.0 and ::.
    #[inline(always)]
    fn is_unspecified(&self) -> bool {
        *self == Self::ANY
    }
}

impl Family for Ipv4 {
    const ANY: Self = Self { octets: [0; 4] };
    const IS_IPV6: bool = false;

    #[inline(always)]
    fn is_loopback(&self) -> bool {
        let [first, ..] = self.octets;
        first == 127
    }

    #[inline(always)]
    fn is_link_local(&self) -> bool {
        let [first, second, ..] = self.octets;
        first == 169 && second == 254
    }

    #[inline(always)]
    fn is_multicast_or_broadcast(&self) -> bool {
        let [first, ..] = self.octets;
        first & 0xf0 == 0xe0 || self.octets == [255; 4]
    }
}

impl Family for Ipv6 {
    const ANY: Self = Self { octets: [0; 16] };
    const IS_IPV6: bool = true;

    #[inline(always)]
    fn is_loopback(&self) -> bool {
        self.octets == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    }

    #[inline(always)]
    fn is_link_local(&self) -> bool {
        let [first, second, ..] = self.octets;
        first == 0xfe && second & 0xc0 == 0x80
    }

    #[inline(always)]
    fn is_multicast_or_broadcast(&self) -> bool {
        let [first, ..] = self.octets;
        first == 0xff
    }
}

#[cfg(test)]
mod tests {
    use core::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    fn v4(text: &str) -> Ipv4 {
        Ipv4 { octets: text.parse::<Ipv4Addr>().unwrap().octets() }
    }

    fn v6(text: &str) -> Ipv6 {
        Ipv6 { octets: text.parse::<Ipv6Addr>().unwrap().octets() }
    }

    #[test]
    fn loopback_is_the_whole_ipv4_block_and_one_ipv6_address() {
        assert!(v4("127.0.0.1").is_loopback() && v4("127.255.3.4").is_loopback());
        assert!(!v4("128.0.0.1").is_loopback());
        assert!(v6("::1").is_loopback());
        assert!(!v6("::2").is_loopback() && !v6("::").is_loopback());
    }

    #[test]
    fn link_local_ends_where_the_rfcs_say() {
        assert!(v4("169.254.0.1").is_link_local() && !v4("169.253.0.1").is_link_local());
        assert!(v6("fe80::1").is_link_local() && v6("febf::1").is_link_local());
        assert!(!v6("fec0::1").is_link_local());
    }

    #[test]
    fn multicast_and_broadcast_are_told_from_hosts() {
        assert!(v4("224.0.0.1").is_multicast_or_broadcast());
        assert!(v4("239.255.255.255").is_multicast_or_broadcast());
        assert!(v4("255.255.255.255").is_multicast_or_broadcast());
        assert!(!v4("240.0.0.1").is_multicast_or_broadcast());
        assert!(!v4("223.255.255.255").is_multicast_or_broadcast());
        assert!(v6("ff02::1").is_multicast_or_broadcast());
        assert!(!v6("fe80::1").is_multicast_or_broadcast());
    }
}

//! What differs between IPv4 and IPv6 on the wire. Everything else is generic over [`Ip`].

use academy_common::{Endpoint, FlowKey, Ipv4, Ipv6};
use aya_ebpf::bindings::{
    bpf_fib_lookup as FibParameters, bpf_sock_tuple as SocketTuple,
    bpf_sock_tuple__bindgen_ty_1__bindgen_ty_1 as SocketTuple4,
    bpf_sock_tuple__bindgen_ty_1__bindgen_ty_2 as SocketTuple6,
};

use crate::{
    checksum::Difference, maps::Tables, packet::Packet, parse::Headers, pass::Pass, rewrite::Tuple,
};

/// Length of an Ethernet header without tags.
pub const ETHERNET: usize = 14;
/// Length of an IPv4 header without options.
pub const IPV4: usize = 20;
/// Length of an IPv6 header.
pub const IPV6: usize = 40;

/// EtherType of IPv4 (IEEE 802 numbers).
pub const ETHERTYPE_IPV4: u16 = 0x0800;
/// EtherType of IPv6.
pub const ETHERTYPE_IPV6: u16 = 0x86dd;

/// What the IP header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header<A> {
    /// Source address.
    pub source: A,
    /// Destination address.
    pub destination: A,
    /// Protocol of what follows.
    pub protocol: u8,
    /// Length of this header.
    pub length: usize,
    /// Length of what follows, as the header has it; 0 where it does not tell (a BIG TCP packet).
    pub payload: usize,
    /// The header's own checksum, native byte order; 0 where it has none.
    pub checksum: u16,
    /// What follows, where it was read along: one read of both is cheaper than two.
    pub next: Option<[u8; NEXT]>,
}

/// How much of a TCP header is looked at: up to its flags.
pub const NEXT: usize = 14;

/// An IP version: how its header is read and changed.
pub trait Ip: Tables {
    /// EtherType of the family.
    const ETHERTYPE: u16;
    /// The family's number in socket interfaces (`AF_INET`, `AF_INET6`).
    const ADDRESS_FAMILY: u8;

    /// Reads the header at `offset`.
    ///
    /// # Errors
    ///
    /// [`Pass::Malformed`], [`Pass::Fragment`], [`Pass::ExtensionHeader`].
    fn header<P: Packet>(packet: &P, offset: usize) -> Result<Header<Self>, Pass>;

    /// Writes the tuple into the packet: addresses, ports, and the header's checksum where it has
    /// one. `difference` is what the change of addresses makes.
    fn set_tuple<P: Packet>(
        packet: &mut P,
        headers: &Headers<Self>,
        new: &Tuple<Self>,
        difference: Difference,
    ) -> Option<()>;

    /// What replacing `old` by `new` does to a checksum.
    fn difference(sum: Difference, old: Self, new: Self) -> Difference;

    /// The endpoint's first address of the family, or zero.
    fn first_address(endpoint: &Endpoint) -> Self;

    /// Fills in what `bpf_fib_lookup` asks by.
    fn fib_addresses(parameters: &mut FibParameters, source: Self, destination: Self);

    /// Fills in what the socket look-ups ask by, and returns how much of it the family uses.
    fn socket_tuple(key: &FlowKey<Self>, tuple: &mut SocketTuple) -> u32;
}

impl Ip for Ipv4 {
    const ETHERTYPE: u16 = ETHERTYPE_IPV4;
    const ADDRESS_FAMILY: u8 = 2;

    #[inline(always)]
    fn header<P: Packet>(packet: &P, offset: usize) -> Result<Header<Self>, Pass> {
        let (bytes, next) = with_next::<P, IPV4, { IPV4 + NEXT }>(packet, offset)?;
        let [version_and_length, _, total0, total1, _, _, fragment0, fragment1, _, protocol, ..] =
            bytes;
        let [.., c0, c1, s0, s1, s2, s3, d0, d1, d2, d3] = bytes;
        let length = usize::from(version_and_length & 0x0f) * 4;
        if version_and_length >> 4 != 4 || length < IPV4 {
            return Err(Pass::Malformed);
        }
        // All but "don't fragment" and the reserved bit: an offset, or more to come.
        if u16::from_be_bytes([fragment0, fragment1]) & 0x3fff != 0 {
            return Err(Pass::Fragment);
        }
        let total = usize::from(u16::from_be_bytes([total0, total1]));
        // 0 is what a packet over 64 KiB carries before it is segmented (BIG TCP).
        if total != 0 && total < length {
            return Err(Pass::Malformed);
        }
        Ok(Header {
            source: Self { octets: [s0, s1, s2, s3] },
            destination: Self { octets: [d0, d1, d2, d3] },
            protocol,
            length,
            payload: total.saturating_sub(length),
            checksum: u16::from_ne_bytes([c0, c1]),
            next: if length == IPV4 { next } else { None },
        })
    }

    #[inline(always)]
    fn set_tuple<P: Packet>(
        packet: &mut P,
        headers: &Headers<Self>,
        new: &Tuple<Self>,
        difference: Difference,
    ) -> Option<()> {
        let [c0, c1] = difference.apply(headers.checksum).to_ne_bytes();
        let [s0, s1, s2, s3] = new.source.octets;
        let [d0, d1, d2, d3] = new.destination.octets;
        let ports @ [p0, p1, p2, p3] = new.ports();
        if headers.transport == headers.network + IPV4 {
            let all = [c0, c1, s0, s1, s2, s3, d0, d1, d2, d3, p0, p1, p2, p3];
            return packet.store(headers.network + 10, &all);
        }
        packet.store(headers.network + 10, &[c0, c1, s0, s1, s2, s3, d0, d1, d2, d3])?;
        packet.store(headers.transport, &ports)
    }

    #[inline(always)]
    fn difference(sum: Difference, old: Self, new: Self) -> Difference {
        sum.replace(&old.octets, &new.octets)
    }

    #[inline(always)]
    fn first_address(endpoint: &Endpoint) -> Self {
        endpoint.ipv4
    }

    #[inline(always)]
    fn fib_addresses(parameters: &mut FibParameters, source: Self, destination: Self) {
        parameters.family = Self::ADDRESS_FAMILY;
        parameters.__bindgen_anon_3.ipv4_src = u32::from_ne_bytes(source.octets);
        parameters.__bindgen_anon_4.ipv4_dst = u32::from_ne_bytes(destination.octets);
    }

    #[inline(always)]
    fn socket_tuple(key: &FlowKey<Self>, tuple: &mut SocketTuple) -> u32 {
        let part = SocketTuple4 {
            saddr: u32::from_ne_bytes(key.source.octets),
            daddr: u32::from_ne_bytes(key.destination.octets),
            sport: key.source_port.be16,
            dport: key.destination_port.be16,
        };
        tuple.__bindgen_anon_1.ipv4 = part;
        size_of::<SocketTuple4>() as u32
    }
}

impl Ip for Ipv6 {
    const ETHERTYPE: u16 = ETHERTYPE_IPV6;
    const ADDRESS_FAMILY: u8 = 10;

    #[inline(always)]
    fn header<P: Packet>(packet: &P, offset: usize) -> Result<Header<Self>, Pass> {
        let (bytes, next) = with_next::<P, IPV6, { IPV6 + NEXT }>(packet, offset)?;
        let (start, addresses) = bytes.split_at(8);
        let &[version, _, _, _, payload0, payload1, protocol, _] = start else {
            return Err(Pass::Malformed);
        };
        if version >> 4 != 6 {
            return Err(Pass::Malformed);
        }
        match protocol {
            // Hop-by-hop, routing, fragment, AH, destination options (IANA "IPv6 Extension
            // Header Types"); a fragment is told apart since its counter says more.
            44 => return Err(Pass::Fragment),
            0 | 43 | 51 | 60 => return Err(Pass::ExtensionHeader),
            _ => {}
        }
        let (&[source, destination], _) = addresses.as_chunks::<16>() else {
            return Err(Pass::Malformed);
        };
        Ok(Header {
            source: Self { octets: source },
            destination: Self { octets: destination },
            protocol,
            length: IPV6,
            payload: usize::from(u16::from_be_bytes([payload0, payload1])),
            checksum: 0,
            next,
        })
    }

    #[inline(always)]
    fn set_tuple<P: Packet>(
        packet: &mut P,
        headers: &Headers<Self>,
        new: &Tuple<Self>,
        _: Difference,
    ) -> Option<()> {
        // Extension headers are not carried: the ports follow the addresses.
        let mut all = [0; 36];
        let (source, rest) = all.split_first_chunk_mut::<16>()?;
        let (destination, rest) = rest.split_first_chunk_mut::<16>()?;
        *source = new.source.octets;
        *destination = new.destination.octets;
        *rest.first_chunk_mut::<4>()? = new.ports();
        packet.store(headers.network + 8, &all)
    }

    #[inline(always)]
    fn difference(sum: Difference, old: Self, new: Self) -> Difference {
        sum.replace(&old.octets, &new.octets)
    }

    #[inline(always)]
    fn first_address(endpoint: &Endpoint) -> Self {
        endpoint.ipv6
    }

    #[inline(always)]
    fn fib_addresses(parameters: &mut FibParameters, source: Self, destination: Self) {
        parameters.family = Self::ADDRESS_FAMILY;
        parameters.__bindgen_anon_3.ipv6_src = words(source);
        parameters.__bindgen_anon_4.ipv6_dst = words(destination);
    }

    #[inline(always)]
    fn socket_tuple(key: &FlowKey<Self>, tuple: &mut SocketTuple) -> u32 {
        let part = SocketTuple6 {
            saddr: words(key.source),
            daddr: words(key.destination),
            sport: key.source_port.be16,
            dport: key.destination_port.be16,
        };
        tuple.__bindgen_anon_1.ipv6 = part;
        size_of::<SocketTuple6>() as u32
    }
}

/// Reads a header of `N` bytes and what follows it in one go, or the header alone where the packet
/// is too short for that. `BOTH` is the sum.
#[inline(always)]
fn with_next<P: Packet, const N: usize, const BOTH: usize>(
    packet: &P,
    offset: usize,
) -> Result<([u8; N], Option<[u8; NEXT]>), Pass> {
    const { assert!(N + NEXT == BOTH) };
    let Some(both) = packet.load::<BOTH>(offset) else {
        return Ok((packet.load(offset).ok_or(Pass::Malformed)?, None));
    };
    let (Some(header), Some(next)) = (both.first_chunk(), both.last_chunk()) else {
        return Err(Pass::Malformed);
    };
    Ok((*header, Some(*next)))
}

/// The address as the kernel's `__be32[4]`.
#[inline(always)]
fn words(address: Ipv6) -> [u32; 4] {
    bytemuck::cast(address)
}

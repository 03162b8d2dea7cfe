//! From bytes to the 5-tuple and the TCP fields that the paths decide by.

use academy_common::{Be16, FlowKey, protocol};

use crate::{ip::Ip, maps, packet::Packet, pass::Pass};

/// A TCP or UDP packet over IP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Headers<A> {
    /// Offset of the IP header.
    pub network: usize,
    /// Offset of the TCP or UDP header.
    pub transport: usize,
    /// The 5-tuple, as it stands in the packet.
    pub key: FlowKey<A>,
    /// The TCP fields; all zero for UDP.
    pub tcp: Tcp,
    /// The IPv4 header's checksum, native byte order; 0 for IPv6.
    pub checksum: u16,
}

/// The fields of a TCP header by which its conversation is followed (RFC 9293 3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tcp {
    /// Sequence number, host byte order.
    pub sequence: u32,
    /// Acknowledgement number, host byte order.
    pub acknowledgement: u32,
    /// See [`tcp_flags`].
    pub flags: u8,
}

/// Bits of [`Tcp::flags`].
pub mod tcp_flags {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronize sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset the connection.
    pub const RST: u8 = 0x04;
    /// The acknowledgement number counts.
    pub const ACK: u8 = 0x10;
}

impl Tcp {
    /// Whether all of `flags` are set.
    #[inline(always)]
    #[must_use]
    pub const fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// A SYN without ACK, FIN and RST: the only packet that opens a TCP conversation.
    #[inline(always)]
    #[must_use]
    pub const fn opens(&self) -> bool {
        self.flags & (tcp_flags::SYN | tcp_flags::ACK | tcp_flags::RST | tcp_flags::FIN)
            == tcp_flags::SYN
    }
}

impl<A: Ip> Headers<A> {
    /// Reads the headers from the IP header at `network` on.
    ///
    /// # Errors
    ///
    /// What the packet is instead of TCP or UDP in one piece.
    #[inline(always)]
    pub fn parse<P: Packet>(packet: &P, network: usize) -> Result<Self, Pass> {
        let ip = A::header(packet, network)?;
        let transport = network + ip.length;
        let (shortest, tcp) = match ip.protocol {
            protocol::TCP => (20, true),
            protocol::UDP => (8, false),
            _ => return Err(Pass::Protocol),
        };
        if ip.payload != 0 && ip.payload < shortest {
            return Err(Pass::Malformed);
        }
        let (ports, tcp) = if tcp {
            let bytes = match ip.next {
                Some(next) => next,
                None => packet.load(transport).ok_or(Pass::Malformed)?,
            };
            let [p0, p1, p2, p3, s0, s1, s2, s3, a0, a1, a2, a3, _, flags] = bytes;
            let tcp = Tcp {
                sequence: u32::from_be_bytes([s0, s1, s2, s3]),
                acknowledgement: u32::from_be_bytes([a0, a1, a2, a3]),
                flags,
            };
            ([p0, p1, p2, p3], tcp)
        } else {
            let ports = match ip.next {
                Some([p0, p1, p2, p3, ..]) => [p0, p1, p2, p3],
                None => packet.load(transport).ok_or(Pass::Malformed)?,
            };
            (ports, Tcp::default())
        };
        let [s0, s1, d0, d1] = ports;
        Ok(Self {
            network,
            transport,
            key: FlowKey {
                source: ip.source,
                destination: ip.destination,
                source_port: Be16 { be16: u16::from_ne_bytes([s0, s1]) },
                destination_port: Be16 { be16: u16::from_ne_bytes([d0, d1]) },
                protocol: ip.protocol,
                padding: [0; 3],
            },
            tcp,
            checksum: ip.checksum,
        })
    }

    /// Reads the headers of the packet at hand to where they stay while the program runs: they are
    /// too large for the stack of the functions that pass them on.
    ///
    /// # Errors
    ///
    /// As [`Headers::parse`]; [`Pass::Helper`].
    #[inline(never)]
    pub fn read<P: Packet>(packet: &P, network: usize) -> Result<&'static Self, Pass> {
        maps::keep_headers(Self::parse(packet, network)?).ok_or(Pass::Helper)
    }

    /// Whether the packet is TCP; otherwise it is UDP.
    #[inline(always)]
    #[must_use]
    pub fn is_tcp(&self) -> bool {
        self.key.protocol == protocol::TCP
    }
}

#[cfg(test)]
mod tests {
    use academy_common::{Ipv4, Ipv6};

    use super::*;
    use crate::{
        packet::buffer::Buffer,
        testing::{tcp4, tcp6, udp4, udp6},
    };

    #[test]
    fn a_tcp_packet_over_ipv4_gives_its_tuple_and_fields() {
        let headers = Headers::<Ipv4>::parse(&tcp4(tcp_flags::SYN, b"hello"), 14).unwrap();
        assert_eq!(headers.key.source.octets, [192, 0, 2, 7]);
        assert_eq!(headers.key.destination.octets, [203, 0, 113, 1]);
        assert_eq!(headers.key.source_port.get(), 40_000);
        assert_eq!(headers.key.destination_port.get(), 8080);
        assert_eq!(headers.tcp.sequence, 0x0102_0304);
        assert!(headers.tcp.opens());
        assert_eq!((headers.network, headers.transport), (14, 34));
    }

    #[test]
    fn a_syn_with_ack_fin_or_rst_opens_nothing() {
        for more in [tcp_flags::ACK, tcp_flags::FIN, tcp_flags::RST] {
            let headers = Headers::<Ipv4>::parse(&tcp4(tcp_flags::SYN | more, b""), 14).unwrap();
            assert!(!headers.tcp.opens(), "flags {more:#x}");
        }
    }

    #[test]
    fn ipv4_options_move_the_transport_header() {
        let mut packet = udp4(b"x");
        packet.0[14] = 0x46;
        packet.0.splice(34..34, [1, 1, 1, 0]);
        let total = u16::from_be_bytes([packet.0[16], packet.0[17]]) + 4;
        packet.0[16..18].copy_from_slice(&total.to_be_bytes());
        let headers = Headers::<Ipv4>::parse(&packet, 14).unwrap();
        assert_eq!(headers.transport, 38);
        assert_eq!(headers.key.destination_port.get(), 8080);
    }

    #[test]
    fn ipv6_gives_its_tuple_and_names_what_it_cannot_carry() {
        let headers = Headers::<Ipv6>::parse(&tcp6(tcp_flags::ACK, b""), 14).unwrap();
        assert_eq!(headers.key.source_port.get(), 40_000);
        assert_eq!(headers.transport, 54);
        for (next, reason) in [
            (44, Pass::Fragment),
            (0, Pass::ExtensionHeader),
            (43, Pass::ExtensionHeader),
            (60, Pass::ExtensionHeader),
            (58, Pass::Protocol),
        ] {
            let mut packet = udp6(b"x");
            packet.0[20] = next;
            assert_eq!(Headers::<Ipv6>::parse(&packet, 14), Err(reason), "next header {next}");
        }
    }

    #[test]
    fn every_fragment_of_ipv4_is_told() {
        for field in [0x2000u16, 0x2001, 0x0001, 0x1fff] {
            let mut packet = udp4(b"x");
            packet.0[20..22].copy_from_slice(&field.to_be_bytes());
            assert_eq!(Headers::<Ipv4>::parse(&packet, 14), Err(Pass::Fragment), "{field:#x}");
        }
        let mut packet = udp4(b"x");
        packet.0[20..22].copy_from_slice(&0x4000u16.to_be_bytes());
        assert!(Headers::<Ipv4>::parse(&packet, 14).is_ok(), "don't fragment is no fragment");
    }

    #[test]
    fn a_packet_cut_anywhere_is_malformed() {
        for whole in [tcp4(tcp_flags::SYN, b""), udp4(b"")] {
            let shortest = if whole.0[23] == 6 { 14 + 20 + 14 } else { 14 + 20 + 4 };
            for length in 0..shortest {
                let cut = Buffer(whole.0[..length].to_vec());
                assert_eq!(Headers::<Ipv4>::parse(&cut, 14), Err(Pass::Malformed), "{length}");
            }
        }
    }

    #[test]
    fn lengths_that_contradict_each_other_are_malformed() {
        let mut packet = tcp4(tcp_flags::SYN, b"");
        packet.0[14] = 0x44;
        assert_eq!(Headers::<Ipv4>::parse(&packet, 14), Err(Pass::Malformed), "length 16");
        let mut packet = tcp4(tcp_flags::SYN, b"");
        packet.0[16..18].copy_from_slice(&30u16.to_be_bytes());
        assert_eq!(Headers::<Ipv4>::parse(&packet, 14), Err(Pass::Malformed), "total 30");
        let mut packet = tcp4(tcp_flags::SYN, b"");
        packet.0[14] = 0x65;
        assert_eq!(Headers::<Ipv4>::parse(&packet, 14), Err(Pass::Malformed), "version 6");
    }
}

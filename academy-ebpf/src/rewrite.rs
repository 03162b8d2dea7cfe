//! Translation: other addresses and ports in the packet, and checksums that stay right.

use academy_common::{Be16, Flow, protocol};

use crate::{
    checksum::Difference,
    ip::{ETHERNET, Ip},
    packet::{Covered, Packet},
    parse::Headers,
};

/// What a packet's addresses and ports become.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuple<A> {
    /// Source address.
    pub source: A,
    /// Destination address.
    pub destination: A,
    /// Source port.
    pub source_port: Be16,
    /// Destination port.
    pub destination_port: Be16,
}

impl<A: Ip> Tuple<A> {
    /// What a conversation's row makes of its direction's packets.
    #[inline(always)]
    #[must_use]
    pub fn of(flow: &Flow<A>) -> Self {
        Self {
            source: flow.source,
            destination: flow.destination,
            source_port: flow.source_port,
            destination_port: flow.destination_port,
        }
    }

    /// Both ports, as they stand in the packet.
    #[inline(always)]
    #[must_use]
    pub fn ports(&self) -> [u8; 4] {
        let [s0, s1] = self.source_port.be16.to_ne_bytes();
        let [d0, d1] = self.destination_port.be16.to_ne_bytes();
        [s0, s1, d0, d1]
    }
}

/// Puts `new` into the packet. `None` where the packet cannot be written; it may then be changed
/// in part, and its checksum says so to whoever gets it.
#[inline(never)]
pub fn translate<A: Ip, P: Packet>(
    packet: &mut P,
    headers: &Headers<A>,
    new: &Tuple<A>,
) -> Option<()> {
    let old = &headers.key;
    let addresses = A::difference(Difference::default(), old.source, new.source);
    let addresses = A::difference(addresses, old.destination, new.destination);
    let ports = Difference::default()
        .replace(&old.source_port.be16.to_ne_bytes(), &new.source_port.be16.to_ne_bytes())
        .replace(
            &old.destination_port.be16.to_ne_bytes(),
            &new.destination_port.be16.to_ne_bytes(),
        );

    let udp = old.protocol == protocol::UDP;
    let checksum = headers.transport + if udp { 6 } else { 16 };
    let pseudo = Covered::PseudoHeader { ipv6: A::IS_IPV6 };
    packet.update_checksum(checksum, addresses, pseudo, udp)?;
    packet.update_checksum(checksum, ports, Covered::Header, udp)?;
    A::set_tuple(packet, headers, new, addresses)
}

/// Writes an Ethernet header's addresses.
#[inline(always)]
pub fn set_macs<P: Packet>(packet: &mut P, destination: [u8; 6], source: [u8; 6]) -> Option<()> {
    let mut bytes = [0; ETHERNET - 2];
    let (first, second) = bytes.split_at_mut(6);
    first.copy_from_slice(&destination);
    second.copy_from_slice(&source);
    packet.store(0, &bytes)
}

#[cfg(test)]
mod tests {
    use academy_common::{Ipv4, Ipv6};

    use super::*;
    use crate::{
        packet::buffer::Buffer,
        parse::tcp_flags,
        testing::{assert_checksums, tcp4, tcp6, udp4, udp6},
    };

    fn to4() -> Tuple<Ipv4> {
        Tuple {
            source: Ipv4 { octets: [10, 98, 0, 1] },
            destination: Ipv4 { octets: [10, 98, 0, 77] },
            source_port: Be16::new(1025),
            destination_port: Be16::new(80),
        }
    }

    fn to6() -> Tuple<Ipv6> {
        let mut source = Ipv6::default();
        source.octets[0] = 0xfd;
        source.octets[15] = 1;
        let mut destination = source;
        destination.octets[15] = 0x77;
        Tuple { source, destination, source_port: Be16::new(1025), destination_port: Be16::new(80) }
    }

    fn translated<A: Ip>(mut packet: Buffer, to: &Tuple<A>) -> Buffer {
        let headers = Headers::<A>::parse(&packet, 14).unwrap();
        translate(&mut packet, &headers, to).unwrap();
        let after = Headers::<A>::parse(&packet, 14).unwrap().key;
        assert_eq!(
            (after.source, after.destination, after.source_port, after.destination_port),
            (to.source, to.destination, to.source_port, to.destination_port)
        );
        packet
    }

    #[test]
    fn all_checksums_are_right_after_a_translation() {
        for payload in [&b""[..], b"x", b"hello, world", &[0xff; 701]] {
            assert_checksums(&translated(tcp4(tcp_flags::ACK, payload), &to4()));
            assert_checksums(&translated(udp4(payload), &to4()));
            assert_checksums(&translated(tcp6(tcp_flags::ACK, payload), &to6()));
            assert_checksums(&translated(udp6(payload), &to6()));
        }
    }

    #[test]
    fn there_and_back_is_the_packet_that_came() {
        let before = udp4(b"there and back");
        let key = Headers::<Ipv4>::parse(&before, 14).unwrap().key;
        let back = Tuple {
            source: key.source,
            destination: key.destination,
            source_port: key.source_port,
            destination_port: key.destination_port,
        };
        assert_eq!(translated(translated(before.clone(), &to4()), &back), before);
    }

    #[test]
    fn a_udp_packet_without_checksum_keeps_none() {
        let mut packet = udp4(b"hello");
        packet.0[40..42].fill(0);
        let packet = translated(packet, &to4());
        assert_eq!(packet.0[40..42], [0, 0]);
    }

    #[test]
    fn a_udp_checksum_that_comes_out_as_zero_is_sent_as_all_ones() {
        // Find the payload whose translated checksum is 0: RFC 768 sends it as 0xffff.
        let found = (0..=u16::MAX).find(|word| {
            let packet = translated(udp4(&word.to_be_bytes()), &to4());
            packet.0[40..42] == [0xff, 0xff]
        });
        let packet = translated(udp4(&found.unwrap().to_be_bytes()), &to4());
        assert_checksums(&packet);
    }

    #[test]
    fn only_addresses_of_the_ethernet_header_are_written() {
        let mut packet = udp4(b"x");
        set_macs(&mut packet, [1; 6], [2; 6]).unwrap();
        assert_eq!(packet.0[..14], [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 0x08, 0x00]);
    }
}

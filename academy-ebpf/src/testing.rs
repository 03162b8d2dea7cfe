//! Real packets for tests, built by the plain definitions.

use crate::packet::buffer::Buffer;

const SOURCE4: [u8; 4] = [192, 0, 2, 7];
const DESTINATION4: [u8; 4] = [203, 0, 113, 1];
const SOURCE6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
const DESTINATION6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 1];

/// RFC 1071 over `parts`, big-endian, each of even length but the last.
fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u32;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn transport_checksum(source: &[u8], destination: &[u8], protocol: u8, segment: &[u8]) -> u16 {
    let length = u32::try_from(segment.len()).unwrap().to_be_bytes();
    checksum(&[source, destination, &length, &[0, protocol], segment])
}

fn tcp(flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut segment = vec![];
    segment.extend(40_000u16.to_be_bytes());
    segment.extend(8080u16.to_be_bytes());
    segment.extend([1, 2, 3, 4, 5, 6, 7, 8, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    segment.extend(payload);
    segment
}

fn udp(payload: &[u8]) -> Vec<u8> {
    let mut segment = vec![];
    segment.extend(40_000u16.to_be_bytes());
    segment.extend(8080u16.to_be_bytes());
    segment.extend(u16::try_from(8 + payload.len()).unwrap().to_be_bytes());
    segment.extend([0, 0]);
    segment.extend(payload);
    segment
}

fn ethernet(ethertype: u16) -> Vec<u8> {
    let mut packet = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    packet.extend(ethertype.to_be_bytes());
    packet
}

fn ipv4(protocol: u8, mut segment: Vec<u8>) -> Buffer {
    let sum = transport_checksum(&SOURCE4, &DESTINATION4, protocol, &segment);
    let at = if protocol == 6 { 16 } else { 6 };
    segment[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    let mut header = vec![0x45, 0];
    header.extend(u16::try_from(20 + segment.len()).unwrap().to_be_bytes());
    header.extend([0, 1, 0x40, 0, 64, protocol, 0, 0]);
    header.extend(SOURCE4);
    header.extend(DESTINATION4);
    let sum = checksum(&[&header]);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    Buffer([ethernet(0x0800), header, segment].concat())
}

fn ipv6(protocol: u8, mut segment: Vec<u8>) -> Buffer {
    let sum = transport_checksum(&SOURCE6, &DESTINATION6, protocol, &segment);
    let at = if protocol == 6 { 16 } else { 6 };
    segment[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    let mut header = vec![0x60, 0, 0, 0];
    header.extend(u16::try_from(segment.len()).unwrap().to_be_bytes());
    header.extend([protocol, 64]);
    header.extend(SOURCE6);
    header.extend(DESTINATION6);
    Buffer([ethernet(0x86dd), header, segment].concat())
}

/// TCP from 192.0.2.7:40000 to 203.0.113.1:8080, sequence number 0x01020304.
pub(crate) fn tcp4(flags: u8, payload: &[u8]) -> Buffer {
    ipv4(6, tcp(flags, payload))
}

/// UDP from 192.0.2.7:40000 to 203.0.113.1:8080.
pub(crate) fn udp4(payload: &[u8]) -> Buffer {
    ipv4(17, udp(payload))
}

/// TCP from port 40000 to port 8080, sequence number 0x01020304.
pub(crate) fn tcp6(flags: u8, payload: &[u8]) -> Buffer {
    ipv6(6, tcp(flags, payload))
}

/// UDP from port 40000 to port 8080.
pub(crate) fn udp6(payload: &[u8]) -> Buffer {
    ipv6(17, udp(payload))
}

/// Verifies every checksum of a packet as its receiver would.
pub(crate) fn assert_checksums(packet: &Buffer) {
    let bytes = &packet.0;
    let (addresses, protocol, segment) = if bytes[12..14] == [0x08, 0x00] {
        assert_eq!(checksum(&[&bytes[14..34]]), 0, "IPv4 header checksum");
        (&bytes[26..34], bytes[23], &bytes[34..])
    } else {
        (&bytes[22..54], bytes[20], &bytes[54..])
    };
    let (source, destination) = addresses.split_at(addresses.len() / 2);
    assert_eq!(transport_checksum(source, destination, protocol, segment), 0, "transport");
}

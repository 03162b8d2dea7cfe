//! The kernel's list of sockets (`sock_diag(7)`, `linux/inet_diag.h`). Unlike `/proc/net/tcp` it
//! can be asked for listening ones alone, however many connections there are, and it tells
//! whether an IPv6 wildcard takes IPv4 as well.

use std::{
    io,
    net::{IpAddr, Ipv6Addr},
    os::fd::AsRawFd,
};

use academy_common::protocol;
use nix::{
    errno::Errno,
    libc,
    sys::socket::{
        AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto,
        socket,
    },
};

use super::{Listener, canonical};
use crate::error::{Error, Result};

/// `SOCK_DIAG_BY_FAMILY` of `linux/sock_diag.h`.
const BY_FAMILY: u16 = 20;
/// `INET_DIAG_SKV6ONLY` of `linux/inet_diag.h`: one byte.
const V6_ONLY: u16 = 11;
/// The length of `struct nlmsghdr`.
const HEADER: usize = 16;
/// The length of `struct inet_diag_msg`, after which attributes come.
const MESSAGE: usize = 72;
/// States of sockets (`net/tcp_states.h`), as bits of the filter. A UDP socket that is not
/// connected is in state "close".
const LISTEN: u32 = 1 << 10;
const CLOSE: u32 = 1 << 7;
/// What the kernel writes at once at most.
const BUFFER: usize = 32 * 1024;

/// The listening sockets of one protocol, of both families.
pub(super) fn listeners(protocol: u8) -> Result<Vec<Listener>> {
    let mut found = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        // The two numbers are 2 and 10; the field has a byte.
        dump(protocol, family as u8, &mut found).map_err(|source| Error::Netlink {
            doing: "list",
            object: "listening sockets".to_owned(),
            reason: source.to_string(),
        })?;
    }
    Ok(found)
}

fn dump(protocol: u8, family: u8, found: &mut Vec<Listener>) -> io::Result<()> {
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkSockDiag,
    )?;
    let request = request(protocol, family);
    sendto(socket.as_raw_fd(), &request, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
    let mut buffer = vec![0; BUFFER];
    loop {
        let length = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        let mut rest = buffer.get(..length).unwrap_or_default();
        while let Some((kind, body, next)) = message(rest) {
            match i32::from(kind) {
                libc::NLMSG_DONE => return Ok(()),
                libc::NLMSG_ERROR => {
                    let code = body.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
                    return Err(Errno::from_raw(-code).into());
                }
                _ => found.extend(listener(protocol, body)),
            }
            rest = next;
        }
    }
}

/// `struct nlmsghdr` and `struct inet_diag_req_v2`: all sockets of the family and protocol in the
/// states that listen.
fn request(protocol: u8, family: u8) -> Vec<u8> {
    let states = if protocol == protocol::UDP { CLOSE } else { LISTEN };
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
    // The filter by addresses and ports, left empty.
    let socket_id = [0; 48];
    let mut body = vec![family, protocol, 0, 0];
    body.extend(states.to_ne_bytes());
    body.extend(socket_id);
    let mut request = Vec::with_capacity(HEADER + body.len());
    request.extend(((HEADER + body.len()) as u32).to_ne_bytes());
    request.extend(BY_FAMILY.to_ne_bytes());
    request.extend(flags.to_ne_bytes());
    // Sequence number and port: one request per socket.
    request.extend([0; 8]);
    request.extend(body);
    request
}

/// Takes one message off the front: its type, its body and what follows.
fn message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
    let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    let body = bytes.get(HEADER..length)?;
    let next = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, body, next))
}

/// Reads `struct inet_diag_msg` and its attributes.
fn listener(protocol: u8, body: &[u8]) -> Option<Listener> {
    let family = i32::from(*body.first()?);
    let port = u16::from_be_bytes(*body.get(4..)?.first_chunk()?);
    let address = body.get(8..)?;
    let address = if family == libc::AF_INET {
        IpAddr::from(*address.first_chunk::<4>()?)
    } else {
        canonical(IpAddr::V6(Ipv6Addr::from(*address.first_chunk::<16>()?)))
    };
    let inode = u32::from_ne_bytes(*body.get(68..)?.first_chunk()?);
    let mut attributes = body.get(MESSAGE..)?;
    let mut ipv6_only = false;
    while let Some((kind, value, next)) = attribute(attributes) {
        if kind == V6_ONLY {
            ipv6_only = value.first() == Some(&1);
        }
        attributes = next;
    }
    Some(Listener { protocol, address, port, ipv6_only, inode })
}

/// Takes one attribute (`struct rtattr`) off the front: its type, its value and what follows.
fn attribute(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
    let kind = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?);
    let value = bytes.get(4..length)?;
    let next = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, value, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(address: &[u8; 16], attributes: &[u8]) -> Vec<u8> {
        let mut body = vec![0; MESSAGE];
        body[0] = libc::AF_INET6 as u8;
        body[4..6].copy_from_slice(&8080_u16.to_be_bytes());
        body[8..24].copy_from_slice(address);
        body[68..72].copy_from_slice(&4711_u32.to_ne_bytes());
        body.extend(attributes);
        body
    }

    #[test]
    fn the_flag_for_ipv6_alone_is_found_behind_other_attributes() {
        let mut attributes = Vec::new();
        for (kind, value) in [(8_u16, 0_u8), (V6_ONLY, 1)] {
            attributes.extend(5_u16.to_ne_bytes());
            attributes.extend(kind.to_ne_bytes());
            attributes.extend([value, 0, 0, 0]);
        }
        let listener = listener(protocol::TCP, &described(&[0; 16], &attributes)).unwrap();
        assert!(listener.ipv6_only);
        assert_eq!((listener.port, listener.inode), (8080, 4711));
    }

    #[test]
    fn a_truncated_or_lying_message_ends_the_list() {
        let body = described(&[0; 16], &[]);
        assert_eq!(listener(protocol::TCP, &body[..40]), None);
        assert_eq!(message(&[0; 7]), None);
        let too_long = [200_u32.to_ne_bytes(), [0; 4], [0; 4], [0; 4]].concat();
        assert_eq!(message(&too_long), None);
        let too_short = [3_u32.to_ne_bytes(), [0; 4], [0; 4], [0; 4]].concat();
        assert_eq!(message(&too_short), None);
        assert_eq!(attribute(&[1, 0, 0, 0]), None);
    }
}

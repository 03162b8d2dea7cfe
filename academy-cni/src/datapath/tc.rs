//! What the kernel says about qdiscs and filters of an interface (`rtnetlink(7)`,
//! `linux/rtnetlink.h`, `linux/pkt_sched.h`, `linux/pkt_cls.h`).

use std::{io, os::fd::AsRawFd};

use nix::{
    errno::Errno,
    libc,
    sys::socket::{
        AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto,
        socket,
    },
};

const RTM_GETQDISC: u16 = 38;
const RTM_DELTFILTER: u16 = 45;
const RTM_GETTFILTER: u16 = 46;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
/// A qdisc is told to whoever asks for it by this alone.
const NLM_F_ECHO: u16 = 8;
const NLMSG_ERROR: u16 = 2;
/// Where a qdisc of kind `ingress` or `clsact` is.
const TC_H_INGRESS: u32 = 0xffff_fff1;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_BPF_ID: u16 = 11;
/// `struct nlmsghdr` and `struct tcmsg`.
const HEADER: usize = 16;
const MESSAGE: usize = 20;
/// `ETH_P_ALL` in network byte order, as filters for every protocol have it.
const EVERY_PROTOCOL: u16 = 3_u16.to_be();

/// A filter of ours: where, and under which number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filter {
    /// The index of the interface.
    pub(super) ifindex: u32,
    /// The side of the interface: `TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_…)`.
    pub(super) parent: u32,
    /// Its priority.
    pub(super) priority: u16,
    /// Its handle.
    pub(super) handle: u32,
}

/// The kind of the qdisc that filters at the ingress belong to, if there is one: `clsact` or
/// `ingress`.
pub(super) fn ingress_qdisc(ifindex: u32) -> io::Result<Option<String>> {
    let answer = ask(RTM_GETQDISC, ifindex, 0, TC_H_INGRESS, 0);
    let Some(answer) = absent_as_none(answer)? else { return Ok(None) };
    // Where the qdisc is the kernel's own placeholder, the answer is empty.
    let Some(kind) = attribute(attributes(&answer), TCA_KIND) else { return Ok(None) };
    let kind = kind.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(Some(String::from_utf8_lossy(kind).into_owned()))
}

/// The id of the program that a filter runs, if the filter is there.
pub(super) fn filter_program(filter: &Filter) -> io::Result<Option<u32>> {
    let answer = ask(RTM_GETTFILTER, filter.ifindex, filter.handle, filter.parent, info(filter));
    let Some(answer) = absent_as_none(answer)? else { return Ok(None) };
    let options = attribute(attributes(&answer), TCA_OPTIONS).unwrap_or_default();
    let id = attribute(options, TCA_BPF_ID).and_then(|bytes| bytes.try_into().ok());
    Ok(id.map(u32::from_ne_bytes))
}

/// Removes a filter. One that is not there is no failure.
pub(super) fn remove_filter(filter: &Filter) -> io::Result<()> {
    let done = ask(RTM_DELTFILTER, filter.ifindex, filter.handle, filter.parent, info(filter));
    absent_as_none(done).map(drop)
}

fn info(filter: &Filter) -> u32 {
    u32::from(filter.priority) << 16 | u32::from(EVERY_PROTOCOL)
}

/// What is not there: the filter, its qdisc, or its interface.
fn absent_as_none(answer: io::Result<Vec<u8>>) -> io::Result<Option<Vec<u8>>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) => match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ENOENT | Errno::EINVAL | Errno::ENODEV) => Ok(None),
            _ => Err(error),
        },
    }
}

/// Sends one request about `struct tcmsg`, and gives the message that answers it.
fn ask(kind: u16, ifindex: u32, handle: u32, parent: u32, info: u32) -> io::Result<Vec<u8>> {
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    )?;
    let mut request = Vec::with_capacity(HEADER + MESSAGE);
    request.extend(((HEADER + MESSAGE) as u32).to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend((NLM_F_REQUEST | NLM_F_ACK | NLM_F_ECHO).to_ne_bytes());
    request.extend([0; 8]);
    request.extend([0; 4]);
    for number in [ifindex, handle, parent, info] {
        request.extend(number.to_ne_bytes());
    }
    sendto(socket.as_raw_fd(), &request, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
    let mut buffer = vec![0; 32 * 1024];
    let length = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
    buffer.truncate(length);
    let answer_kind = buffer.get(4..6).and_then(|bytes| bytes.try_into().ok());
    if answer_kind.map(u16::from_ne_bytes) == Some(NLMSG_ERROR) {
        let code = buffer.get(HEADER..HEADER + 4).and_then(|bytes| bytes.try_into().ok());
        let code = code.map_or(libc::EIO, |bytes| -i32::from_ne_bytes(bytes));
        if code != 0 {
            return Err(io::Error::from_raw_os_error(code));
        }
        return Ok(Vec::new());
    }
    Ok(buffer)
}

/// The attributes of a message about `struct tcmsg`.
fn attributes(message: &[u8]) -> &[u8] {
    message.get(HEADER + MESSAGE..).unwrap_or_default()
}

/// The first attribute of a kind.
fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    while let [l0, l1, k0, k1, ..] = attributes {
        let length = usize::from(u16::from_ne_bytes([*l0, *l1]));
        // The upper two bits say how the attribute is coded.
        let kind = u16::from_ne_bytes([*k0, *k1]) & 0x3fff;
        let value = attributes.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
    None
}

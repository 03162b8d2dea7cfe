//! Frames by hand: what no socket would send, and what arrives.

use std::{
    io::{Read, Write},
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use socket2::{Domain, Protocol as SocketProtocol, SockAddr, SockAddrStorage, Socket, Type};

use crate::Netns;

/// A raw socket on one interface: sends frames and sees those that pass.
pub struct Wire {
    socket: Socket,
    /// The interface's own MAC.
    pub mac: [u8; 6],
}

impl Wire {
    /// On `interface` of `netns`.
    ///
    /// # Panics
    /// When there is no such interface.
    #[must_use]
    #[track_caller]
    pub fn new(netns: &Netns, interface: &str) -> Self {
        let (index, mac) = (netns.ifindex(interface), netns.mac(interface));
        let protocol = i32::from((libc::ETH_P_ALL as u16).to_be());
        let socket = netns.enter(|| {
            let protocol = Some(SocketProtocol::from(protocol));
            let socket = Socket::new(Domain::PACKET, Type::RAW, protocol).unwrap();
            socket.bind(&link_address(index)).unwrap();
            socket
        });
        Self { socket, mac }
    }

    /// Sends a frame as it is.
    pub fn send(&self, frame: &[u8]) {
        (&self.socket).write_all(frame).unwrap();
    }

    /// The first frame that `wanted` accepts, if one comes in time.
    #[must_use]
    pub fn receive<T>(
        &self,
        timeout: Duration,
        mut wanted: impl FnMut(&Segment) -> Option<T>,
    ) -> Option<T> {
        let end = Instant::now() + timeout;
        let mut buffer = vec![0; 65_536];
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            self.socket.set_read_timeout(Some(left)).unwrap();
            let Ok(length) = (&self.socket).read(&mut buffer) else { continue };
            let frame = buffer.get(..length).unwrap();
            if let Some(found) = Segment::of_frame(frame).as_ref().and_then(&mut wanted) {
                return Some(found);
            }
        }
    }
}

fn link_address(index: u32) -> SockAddr {
    let mut storage = SockAddrStorage::zeroed();
    // SAFETY: `sockaddr_ll` is a plain C struct, smaller than the storage.
    let address = unsafe { storage.view_as::<libc::sockaddr_ll>() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index.cast_signed();
    let length = size_of::<libc::sockaddr_ll>() as u32;
    // SAFETY: the storage holds a valid `sockaddr_ll` of that length.
    unsafe { SockAddr::new(storage, length) }
}

/// The addresses of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Source and destination MAC.
    pub macs: ([u8; 6], [u8; 6]),
    /// Where it pretends to come from.
    pub source: SocketAddr,
    /// Where it goes.
    pub destination: SocketAddr,
}

/// TCP flags and numbers of a segment.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tcp {
    /// SYN.
    pub syn: bool,
    /// ACK.
    pub ack: bool,
    /// FIN.
    pub fin: bool,
    /// RST.
    pub rst: bool,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgement number.
    pub acknowledgement: u32,
}

impl Path {
    fn ip(&self) -> etherparse::PacketBuilderStep<etherparse::IpHeaders> {
        let start = PacketBuilder::ethernet2(self.macs.0, self.macs.1);
        match (self.source.ip(), self.destination.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => start.ipv4(from.octets(), to.octets(), 64),
            (IpAddr::V6(from), IpAddr::V6(to)) => start.ipv6(from.octets(), to.octets(), 64),
            mixed => panic!("two families in one packet: {mixed:?}"),
        }
    }

    /// A UDP datagram.
    #[must_use]
    pub fn udp(&self, payload: &[u8]) -> Vec<u8> {
        let builder = self.ip().udp(self.source.port(), self.destination.port());
        let mut frame = Vec::with_capacity(builder.size(payload.len()));
        builder.write(&mut frame, payload).unwrap();
        frame
    }

    /// A TCP segment.
    #[must_use]
    pub fn tcp(&self, tcp: Tcp, payload: &[u8]) -> Vec<u8> {
        let ports = (self.source.port(), self.destination.port());
        let mut builder = self.ip().tcp(ports.0, ports.1, tcp.sequence, 64_000);
        if tcp.syn {
            builder = builder.syn();
        }
        if tcp.ack {
            builder = builder.ack(tcp.acknowledgement);
        }
        if tcp.fin {
            builder = builder.fin();
        }
        if tcp.rst {
            builder = builder.rst();
        }
        let mut frame = Vec::with_capacity(builder.size(payload.len()));
        builder.write(&mut frame, payload).unwrap();
        frame
    }

    /// A SYN of TCP or a datagram of UDP: what opens a conversation.
    #[must_use]
    pub fn opener(&self, protocol: crate::Protocol) -> Vec<u8> {
        match protocol {
            crate::Protocol::Tcp => {
                self.tcp(Tcp { syn: true, sequence: 1000, ..Tcp::default() }, b"")
            }
            crate::Protocol::Udp => self.udp(b"?\n"),
        }
    }
}

/// A TCP segment or UDP datagram that was seen on a wire.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Source and destination MAC.
    pub macs: ([u8; 6], [u8; 6]),
    /// Source address and port.
    pub source: SocketAddr,
    /// Destination address and port.
    pub destination: SocketAddr,
    /// TCP flags and numbers; nothing for UDP.
    pub tcp: Option<Tcp>,
    /// What it carries.
    pub payload: Vec<u8>,
}

impl Segment {
    /// Of a frame with an Ethernet header.
    pub(crate) fn of_frame(frame: &[u8]) -> Option<Self> {
        let packet = SlicedPacket::from_ethernet(frame).ok()?;
        let link = packet.link.as_ref()?.to_header()?.ethernet2()?;
        Self::of(packet, (link.source, link.destination))
    }

    /// Of a packet without a link header.
    pub(crate) fn of_packet(packet: &[u8]) -> Option<Self> {
        Self::of(SlicedPacket::from_ip(packet).ok()?, ([0; 6], [0; 6]))
    }

    fn of(packet: SlicedPacket<'_>, macs: ([u8; 6], [u8; 6])) -> Option<Self> {
        let (from, to) = match packet.net? {
            NetSlice::Ipv4(ip) => {
                (IpAddr::V4(ip.header().source_addr()), IpAddr::V4(ip.header().destination_addr()))
            }
            NetSlice::Ipv6(ip) => {
                (IpAddr::V6(ip.header().source_addr()), IpAddr::V6(ip.header().destination_addr()))
            }
            _ => return None,
        };
        let (ports, tcp, payload) = match packet.transport? {
            TransportSlice::Tcp(segment) => (
                (segment.source_port(), segment.destination_port()),
                Some(Tcp {
                    syn: segment.syn(),
                    ack: segment.ack(),
                    fin: segment.fin(),
                    rst: segment.rst(),
                    sequence: segment.sequence_number(),
                    acknowledgement: segment.acknowledgment_number(),
                }),
                segment.payload().to_vec(),
            ),
            TransportSlice::Udp(datagram) => (
                (datagram.source_port(), datagram.destination_port()),
                None,
                datagram.payload().to_vec(),
            ),
            _ => return None,
        };
        Some(Self {
            macs,
            source: SocketAddr::new(from, ports.0),
            destination: SocketAddr::new(to, ports.1),
            tcp,
            payload,
        })
    }
}

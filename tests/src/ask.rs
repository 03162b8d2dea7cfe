//! Clients: one question over TCP or UDP, and what came of it.

use std::{
    fmt, io,
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use socket2::{Domain, SockAddr, Socket, Type};

use crate::{
    netns::Netns,
    wait::{PATIENCE, SILENCE},
};

/// A transport protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Protocol {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Tcp, Self::Udp];

    /// As port mappings spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }

    /// Its IP protocol number.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Tcp => academy_common::protocol::TCP,
            Self::Udp => academy_common::protocol::UDP,
        }
    }
}

/// An address family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// Of two things, this family's.
    pub fn pick<T>(self, v4: T, v6: T) -> T {
        match self {
            Self::V4 => v4,
            Self::V6 => v6,
        }
    }

    /// The address of a pair that belongs to this family.
    #[must_use]
    pub fn of(self, pair: (Ipv4Addr, Ipv6Addr)) -> IpAddr {
        self.pick(IpAddr::V4(pair.0), IpAddr::V6(pair.1))
    }

    /// 0.0.0.0 or `::`.
    #[must_use]
    pub fn unspecified(self) -> IpAddr {
        self.of((Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED))
    }

    /// 127.0.0.1 or `::1`.
    #[must_use]
    pub fn loopback(self) -> IpAddr {
        self.of((Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST))
    }
}

/// One column of the truth table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Case {
    /// The address family.
    pub family: Family,
    /// The protocol.
    pub protocol: Protocol,
}

impl Case {
    /// Every column.
    pub const ALL: [Self; 4] = [
        Self { family: Family::V4, protocol: Protocol::Tcp },
        Self { family: Family::V4, protocol: Protocol::Udp },
        Self { family: Family::V6, protocol: Protocol::Tcp },
        Self { family: Family::V6, protocol: Protocol::Udp },
    ];
}

impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.protocol.name(), self.family.pick("IPv4", "IPv6"))
    }
}

/// What a server says: its name, and the client that it saw.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The server's name.
    pub server: String,
    /// The client's address and port as the server saw them.
    pub seen: SocketAddr,
    /// The client's own address and port.
    pub client: SocketAddr,
}

impl Answer {
    /// What is no answer of ours is kept as the name of the server: a forgery that got through.
    fn parse(text: &str, client: SocketAddr) -> Self {
        let (server, seen) = text.trim().split_once(' ').unwrap_or((text, ""));
        let nobody = SocketAddr::new(Family::V4.unspecified(), 0);
        Self { server: server.to_owned(), seen: seen.parse().unwrap_or(nobody), client }
    }
}

/// What came of a question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// An answer.
    Answer(Answer),
    /// A reset or an ICMP error.
    Refused,
    /// Nothing at all.
    Silent,
    /// The client's own kernel would not send it.
    Unsent(io::ErrorKind),
}

impl Reply {
    /// The name of the server that answered.
    #[must_use]
    pub fn server(&self) -> Option<&str> {
        match self {
            Self::Answer(answer) => Some(&answer.server),
            _ => None,
        }
    }

    fn failure(error: &io::Error) -> Self {
        use io::ErrorKind::{
            ConnectionRefused, ConnectionReset, HostUnreachable, NetworkUnreachable,
            PermissionDenied, TimedOut, WouldBlock,
        };
        match error.kind() {
            TimedOut | WouldBlock => Self::Silent,
            ConnectionRefused | ConnectionReset => Self::Refused,
            HostUnreachable | NetworkUnreachable | PermissionDenied => Self::Refused,
            other => Self::Unsent(other),
        }
    }
}

/// A question to ask.
#[derive(Clone, Copy)]
pub struct Query<'a> {
    from: &'a Netns,
    protocol: Protocol,
    to: SocketAddr,
    source: Option<SocketAddr>,
    timeout: Duration,
}

impl<'a> Query<'a> {
    /// From a process in `from` to `address:port`.
    #[must_use]
    pub fn new(from: &'a Netns, protocol: Protocol, address: IpAddr, port: u16) -> Self {
        let to = SocketAddr::new(address, port);
        Self { from, protocol, to, source: None, timeout: PATIENCE }
    }

    /// With a fixed source port.
    #[must_use]
    pub fn source_port(self, port: u16) -> Self {
        let any = if self.to.is_ipv4() { Family::V4 } else { Family::V6 }.unspecified();
        Self { source: Some(SocketAddr::new(any, port)), ..self }
    }

    /// With a fixed source address.
    #[must_use]
    pub fn source(self, address: IpAddr, port: u16) -> Self {
        Self { source: Some(SocketAddr::new(address, port)), ..self }
    }

    /// To a link-local IPv6 address, by the interface with this index.
    #[must_use]
    pub fn scope(mut self, ifindex: u32) -> Self {
        if let SocketAddr::V6(to) = &mut self.to {
            to.set_scope_id(ifindex);
        }
        self
    }

    /// Where no answer is expected: the wait is short.
    #[must_use]
    pub fn in_vain(self) -> Self {
        Self { timeout: SILENCE, ..self }
    }

    /// Asks once and waits for what comes.
    #[must_use]
    pub fn ask(self) -> Reply {
        match self.open() {
            Ok(mut conversation) => conversation.ask(),
            Err(error) => Reply::failure(&error),
        }
    }

    /// Connects, for more than one question in one conversation.
    ///
    /// # Errors
    /// What the kernel says to `bind` and `connect`.
    pub fn open(self) -> io::Result<Conversation> {
        let socket = self.from.enter(|| self.socket())?;
        socket.set_read_timeout(Some(self.timeout))?;
        let client = socket.local_addr()?.as_socket().unwrap();
        Ok(Conversation { socket, client, protocol: self.protocol })
    }

    fn socket(&self) -> io::Result<Socket> {
        let kind = match self.protocol {
            Protocol::Tcp => Type::STREAM,
            Protocol::Udp => Type::DGRAM,
        };
        let socket = Socket::new(Domain::for_address(self.to), kind, None)?;
        socket.set_reuse_address(true)?;
        if let Some(source) = self.source {
            socket.bind(&SockAddr::from(source))?;
        }
        if self.protocol == Protocol::Tcp {
            // A test may use the same ports again at once: leave no TIME-WAIT behind.
            socket.set_linger(Some(Duration::ZERO))?;
        }
        socket.connect_timeout(&SockAddr::from(self.to), self.timeout)?;
        Ok(socket)
    }
}

/// An open TCP connection, or a connected UDP socket.
pub struct Conversation {
    socket: Socket,
    client: SocketAddr,
    protocol: Protocol,
}

impl Conversation {
    /// One more question.
    pub fn ask(&mut self) -> Reply {
        self.try_ask().unwrap_or_else(|error| Reply::failure(&error))
    }

    fn try_ask(&mut self) -> io::Result<Reply> {
        self.socket.write_all(b"?\n")?;
        let mut text = Vec::new();
        let mut buffer = [0; 1024];
        loop {
            let length = match self.socket.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            text.extend_from_slice(buffer.get(..length).unwrap());
            let complete = text.ends_with(b"\n") || self.protocol == Protocol::Udp;
            if length == 0 || complete {
                break;
            }
        }
        if text.is_empty() {
            return Ok(Reply::Refused);
        }
        Ok(Reply::Answer(Answer::parse(&String::from_utf8_lossy(&text), self.client)))
    }

    /// The client's own address and port.
    #[must_use]
    pub fn client(&self) -> SocketAddr {
        self.client
    }

    /// How long the next questions wait.
    pub fn set_patience(&self, timeout: Duration) {
        self.socket.set_read_timeout(Some(timeout)).unwrap();
    }

    /// Closes a TCP connection in order, unlike a drop, which resets it.
    pub fn close(self) {
        self.socket.set_linger(None).unwrap();
    }
}

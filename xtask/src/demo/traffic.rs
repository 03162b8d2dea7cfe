//! A server that tells clients who it sees, and clients.

use std::{
    fmt,
    io::{self, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context, Result};

use crate::netns;

/// How long a client waits.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often a server looks whether it has to end.
const TURN: Duration = Duration::from_millis(20);

/// What is asked over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP over it, the shortest that is.
    Tcp,
    /// One datagram each way.
    Udp,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

/// A server on one port of one machine, for both protocols and families; it ends when dropped.
pub struct Server {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    /// Starts it. It answers with `name` and the address that it sees.
    ///
    /// # Errors
    /// When the port is taken.
    pub fn start(machine: &str, name: &'static str, port: u16) -> Result<Self> {
        let mut server = Self { stop: Arc::default(), threads: Vec::new() };
        // A socket of ::, made so by std, also gets the clients of IPv4.
        let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port);
        let listener = netns::enter(machine, || Ok(TcpListener::bind(any)?))?;
        listener.set_nonblocking(true)?;
        server.run(move || match listener.accept() {
            Ok((stream, client)) => answer_stream(stream, name, client),
            Err(_) => {
                thread::sleep(TURN);
                Ok(())
            }
        });
        let socket = netns::enter(machine, || Ok(UdpSocket::bind(any)?))?;
        socket.set_read_timeout(Some(TURN))?;
        server.run(move || {
            let (_, client) = socket.recv_from(&mut [0; 64])?;
            socket.send_to(answer(name, client).as_bytes(), client).map(drop)
        });
        Ok(server)
    }

    /// Repeats `turn` on a thread of its own. One client's failure is not the next one's.
    fn run(&mut self, mut turn: impl FnMut() -> io::Result<()> + Send + 'static) {
        let stop = Arc::clone(&self.stop);
        self.threads.push(thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let _ = turn();
            }
        }));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // Its sockets would keep the namespace alive.
            let _ = thread.join();
        }
    }
}

fn answer_stream(mut stream: TcpStream, name: &str, client: SocketAddr) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // The request is one short segment, and what it asks for does not matter.
    let _ = stream.read(&mut [0; 512])?;
    write!(stream, "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n{}", answer(name, client))
}

fn answer(name: &str, client: SocketAddr) -> String {
    format!("{name} {}\n", client.ip().to_canonical())
}

/// What a client heard.
#[derive(PartialEq, Eq)]
pub enum Reply {
    /// This server answered, and saw this client.
    Answer {
        /// The server.
        server: String,
        /// The client's address, as the server saw it.
        seen: IpAddr,
    },
    /// The other side said that nobody listens.
    Refused,
    /// Nothing, or what is no answer.
    Nothing(String),
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer { server, seen } => write!(f, "{server} answers, saw {seen}"),
            Self::Refused => f.write_str("refused"),
            Self::Nothing(why) => f.write_str(why),
        }
    }
}

/// Asks from a machine.
///
/// # Errors
/// When the machine is gone; that nobody answers is a [`Reply`].
pub fn ask(machine: &str, protocol: Protocol, to: SocketAddr) -> Result<Reply> {
    let heard = netns::enter(machine, || {
        Ok(match protocol {
            Protocol::Tcp => ask_stream(to),
            Protocol::Udp => ask_datagram(to),
        })
    })
    .with_context(|| format!("cannot ask from {machine}"))?;
    Ok(match heard {
        Ok(text) => read(&text).unwrap_or(Reply::Nothing(format!("no answer: {text}"))),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Reply::Refused,
        Err(error)
            if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
        {
            Reply::Nothing("no answer".to_owned())
        }
        Err(error) => Reply::Nothing(error.to_string()),
    })
}

/// A connection that stays open until it is dropped. Whether there is one is for the table of
/// requests to say.
pub fn hold(machine: &str, to: SocketAddr) -> Option<TcpStream> {
    netns::enter(machine, || Ok(TcpStream::connect_timeout(&to, PATIENCE)?)).ok()
}

fn read(text: &str) -> Option<Reply> {
    let (server, seen) = text.lines().last()?.split_once(' ')?;
    Some(Reply::Answer { server: server.to_owned(), seen: seen.parse().ok()? })
}

fn ask_stream(to: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

fn ask_datagram(to: SocketAddr) -> io::Result<String> {
    let any: IpAddr =
        if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(to)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.send(b"?")?;
    let mut text = [0; 128];
    let length = socket.recv(&mut text)?;
    Ok(String::from_utf8_lossy(text.get(..length).unwrap_or_default()).into_owned())
}

//! Servers that answer with their name and the client's address as they saw it.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::{fd::AsFd, unix::net::UnixStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::{Netns, Protocol};

/// A server on a thread of its own; it ends, and closes its connections, when dropped.
pub struct Server {
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    questions: Arc<AtomicUsize>,
    address: SocketAddr,
}

impl Server {
    /// Listens in `netns` on `address:port`; port 0 is any free one.
    ///
    /// # Panics
    /// When the port is taken.
    #[must_use]
    #[track_caller]
    pub fn new(name: &str, netns: &Netns, protocol: Protocol, address: IpAddr, port: u16) -> Self {
        let at = SocketAddr::new(address, port);
        let server = netns.enter(|| Self::here(name, protocol, at));
        server.unwrap_or_else(|error| panic!("{name} at {at}: {error}"))
    }

    /// Listens in the namespace of the calling thread.
    ///
    /// # Errors
    /// What the kernel says to `bind`.
    pub fn here(name: &str, protocol: Protocol, at: SocketAddr) -> io::Result<Self> {
        let questions = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&questions);
        let (stop, stopped) = UnixStream::pair()?;
        let name = name.to_owned();
        let (address, thread) = match protocol {
            Protocol::Tcp => {
                let listener = TcpListener::bind(at)?;
                listener.set_nonblocking(true)?;
                let bound = listener.local_addr()?;
                (bound, thread::spawn(move || serve_tcp(&name, &listener, &stopped, &count)))
            }
            Protocol::Udp => {
                let socket = UdpSocket::bind(at)?;
                let bound = socket.local_addr()?;
                (bound, thread::spawn(move || serve_udp(&name, &socket, &stopped, &count)))
            }
        };
        Ok(Self { stop: Some(stop), thread: Some(thread), questions, address })
    }

    /// How many questions reached it.
    #[must_use]
    pub fn questions(&self) -> usize {
        self.questions.load(Ordering::SeqCst)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve_udp(name: &str, socket: &UdpSocket, stopped: &UnixStream, questions: &AtomicUsize) {
    let mut buffer = vec![0; 65_536];
    while wait_for(stopped, [socket.as_fd()]) {
        // An ICMP error of an earlier answer may be waiting instead of a datagram.
        let Ok((_, client)) = socket.recv_from(&mut buffer) else { continue };
        questions.fetch_add(1, Ordering::SeqCst);
        let _ = socket.send_to(format!("{name} {client}\n").as_bytes(), client);
    }
}

fn serve_tcp(name: &str, listener: &TcpListener, stopped: &UnixStream, questions: &AtomicUsize) {
    let mut connections: Vec<(TcpStream, SocketAddr)> = Vec::new();
    loop {
        let sockets = connections.iter().map(|(stream, _)| stream.as_fd());
        if !wait_for(stopped, std::iter::once(listener.as_fd()).chain(sockets)) {
            return;
        }
        if let Ok((stream, client)) = listener.accept() {
            stream.set_nonblocking(true).unwrap();
            stream.set_nodelay(true).unwrap();
            connections.push((stream, client));
        }
        connections.retain_mut(|(stream, client)| {
            let mut buffer = [0; 4096];
            match stream.read(&mut buffer) {
                Ok(0) => false,
                Ok(_) => {
                    questions.fetch_add(1, Ordering::SeqCst);
                    stream.write_all(format!("{name} {client}\n").as_bytes()).is_ok()
                }
                Err(error) => error.kind() == ErrorKind::WouldBlock,
            }
        });
    }
}

/// Waits until a socket has something to read; false when the server shall stop.
fn wait_for<'a>(
    stopped: &'a UnixStream,
    sockets: impl IntoIterator<Item = std::os::fd::BorrowedFd<'a>>,
) -> bool {
    let all = std::iter::once(stopped.as_fd()).chain(sockets);
    let mut waiting: Vec<_> = all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
    poll(&mut waiting, PollTimeout::NONE).unwrap();
    waiting.first().unwrap().any() == Some(false)
}

//! A server in a process of its own.

use std::{
    io::{BufRead, BufReader},
    net::IpAddr,
    process::{Child, ChildStdin, Stdio},
};

use crate::{Netns, Protocol};

/// A process that listens; it ends when dropped.
pub struct Listener {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Listener {
    /// Starts the program `peer` of this crate, which listens in `netns`. `words` end up on its
    /// command line.
    ///
    /// # Panics
    /// When it cannot listen.
    #[must_use]
    #[track_caller]
    pub fn new(
        peer: &str,
        name: &str,
        netns: &Netns,
        (protocol, address, port): (Protocol, IpAddr, u16),
        words: &[&str],
    ) -> Self {
        let mut command = netns.command(peer);
        let (address, port) = (address.to_string(), port.to_string());
        command.args([name, protocol.name(), &address, &port]).args(words);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let listener = Self { stdin: child.stdin.take(), child };
        assert!(!line.is_empty(), "{name} cannot listen on {address}:{port}");
        listener
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stdin.take();
        let _ = self.child.wait();
    }
}

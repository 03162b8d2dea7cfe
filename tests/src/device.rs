//! Interfaces whose other end is the test itself.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::fd::AsRawFd,
};

use crate::{Netns, packet::Segment, wait};

/// A tun or tap device; it goes when dropped.
pub struct Device {
    file: File,
    ethernet: bool,
}

impl Device {
    /// Frames with Ethernet headers, as a virtual machine's NIC has them.
    #[must_use]
    pub fn tap(netns: &Netns, name: &str) -> Self {
        Self { file: netns.enter(|| open(name, libc::IFF_TAP)), ethernet: true }
    }

    /// Packets without a link header, as wireguard and other tunnels have them.
    #[must_use]
    pub fn tun(netns: &Netns, name: &str) -> Self {
        Self { file: netns.enter(|| open(name, libc::IFF_TUN)), ethernet: false }
    }

    /// Sends a frame to the host.
    pub fn send(&self, frame: &[u8]) {
        (&self.file).write_all(frame).unwrap();
    }

    /// Waits for a segment or datagram of the host that `wanted` accepts.
    #[must_use]
    pub fn receives(&self, wanted: impl Fn(&Segment) -> bool) -> bool {
        let mut buffer = vec![0; 65_536];
        wait::within(wait::PATIENCE, || {
            let length = (&self.file).read(&mut buffer).ok()?;
            let frame = buffer.get(..length)?;
            let segment =
                if self.ethernet { Segment::of_frame(frame) } else { Segment::of_packet(frame) };
            wanted(&segment?).then_some(())
        })
        .is_some()
    }
}

fn open(name: &str, kind: libc::c_int) -> File {
    let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun").unwrap();
    // SAFETY: all-zero is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = (kind | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one `ifreq`.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    assert_eq!(done, 0, "{name}: {}", io::Error::last_os_error());
    // SAFETY: F_SETFL takes an integer.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
    file
}

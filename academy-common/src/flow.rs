//! Translated conversations, one row per direction.

use bytemuck::{Pod, Zeroable};

use crate::wire::{Be16, Mac};

/// Key of `opening4`, `opening6`, `flows4` and `flows6`: the 5-tuple as the hook sees it, before
/// its translation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(C)]
pub struct FlowKey<A> {
    /// Source address.
    pub source: A,
    /// Destination address.
    pub destination: A,
    /// Source port.
    pub source_port: Be16,
    /// Destination port.
    pub destination_port: Be16,
    /// IP protocol number.
    pub protocol: u8,
    /// Zero.
    pub padding: [u8; 3],
}

/// Value of `opening4`, `opening6`, `flows4` and `flows6`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Flow<A> {
    /// The endpoint's generation: a row made under another one is dead. 0 for verdict `kernel`.
    pub generation: u64,
    /// When the conversation was opened: CLOCK_MONOTONIC, nanoseconds.
    pub opened: u64,
    /// When this direction last spoke: CLOCK_MONOTONIC, nanoseconds, to about a second.
    pub last_seen: u64,
    /// Source address after translation.
    pub source: A,
    /// Destination address after translation.
    pub destination: A,
    /// Source port after translation.
    pub source_port: Be16,
    /// Destination port after translation.
    pub destination_port: Be16,
    /// The index of the host side of the container that the conversation is with.
    pub endpoint: u32,
    /// The interface that packets of this direction must come by; 0: any uplink.
    pub from: u32,
    /// TCP: the last acknowledgement number that this direction sent, host byte order.
    pub acknowledged: u32,
    /// TCP: what an acknowledgement of this direction's SYN carries, host byte order.
    pub expected: u32,
    /// How packets reach the opener. In the opener's row: how its last packet came.
    pub way: Way,
    /// A [`FlowVerdict`].
    pub verdict: u8,
    /// A [`FlowState`].
    pub state: u8,
    /// See [`seen`].
    pub seen: u8,
    /// 1 in the row of the side that opened the conversation, 0 in the answering side's.
    pub opener: u8,
    /// Zero.
    pub padding: u32,
}

impl<A: Copy> FlowKey<A> {
    /// The key of a packet that goes the other way.
    #[inline(always)]
    #[must_use]
    pub const fn turned(&self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            protocol: self.protocol,
            padding: self.padding,
        }
    }
}

impl<A: Copy> Flow<A> {
    /// The key of the other direction's row: what this direction's packets look like once
    /// translated, turned around.
    #[inline(always)]
    #[must_use]
    pub const fn other_key(&self, protocol: u8) -> FlowKey<A> {
        FlowKey {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            protocol,
            padding: [0; 3],
        }
    }
}

/// How to reach the side that opened a conversation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Way {
    /// The interface to send by.
    pub ifindex: u32,
    /// For [`WayKind::Ethernet`]: the destination of frames that go this way.
    pub destination: Mac,
    /// For [`WayKind::Ethernet`]: the source of frames that go this way.
    pub source: Mac,
    /// A [`WayKind`].
    pub kind: u32,
}

/// The kinds of [`Way`]. Stored as their numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum WayKind {
    /// Ask the kernel's route and neighbour tables for this interface: bridges, and lo.
    Neighbour = 1,
    /// Send by this interface with these Ethernet addresses.
    Ethernet = 2,
    /// Send by this interface, which has no Ethernet header.
    Bare = 3,
    /// Deliver into the container behind this interface.
    Container = 4,
}

/// What becomes of a conversation's packets. Stored as its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FlowVerdict {
    /// Translate and send on.
    Translate = 1,
    /// Somebody else's: leave it to the kernel.
    Kernel = 2,
}

/// How far a conversation is. Stored as its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FlowState {
    /// It lives in `opening4` or `opening6`.
    Opening = 1,
    /// It lives in `flows4` or `flows6`.
    Established = 2,
    /// Both sides of a TCP conversation closed, or one reset it: the rows are back in `opening`
    /// for the last packets, and a new SYN begins anew.
    Closing = 3,
}

/// Bits of [`Flow::seen`]: what the row's direction has sent.
pub mod seen {
    /// A packet at all; TCP: its SYN.
    pub const SPOKE: u8 = 1 << 0;
    /// TCP: its FIN.
    pub const FIN: u8 = 1 << 1;
    /// TCP: an RST that may not be in sequence; shortens the idle time only.
    pub const RST: u8 = 1 << 2;
}

/// Rows under construction, in a per-CPU map: two of IPv6 and their keys do not fit beside the
/// rest on a BPF stack of 512 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Scratch<A> {
    /// The row of the direction at hand.
    pub forward: Flow<A>,
    /// The row of the other direction.
    pub reverse: Flow<A>,
    /// The key of [`Scratch::reverse`].
    pub reverse_key: FlowKey<A>,
    /// Zero.
    pub padding: u64,
}

const _: () = assert!(size_of::<FlowKey<crate::Ipv4>>() == 16);
const _: () = assert!(size_of::<FlowKey<crate::Ipv6>>() == 40);
const _: () = assert!(size_of::<Way>() == 20);
const _: () = assert!(size_of::<Flow<crate::Ipv4>>() == 80);
const _: () = assert!(size_of::<Flow<crate::Ipv6>>() == 104);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ipv4;

    #[test]
    fn the_other_direction_is_found_from_either_row() {
        let address = |last| Ipv4 { octets: [10, 0, 0, last] };
        let asks = FlowKey {
            source: address(1),
            destination: address(2),
            source_port: Be16::new(40_000),
            destination_port: Be16::new(8080),
            protocol: 6,
            padding: [0; 3],
        };
        let translated = Flow {
            source: address(1),
            destination: address(3),
            source_port: Be16::new(40_000),
            destination_port: Be16::new(80),
            ..Flow::default()
        };
        let answers = translated.other_key(6);
        assert_eq!((answers.source, answers.source_port), (address(3), Be16::new(80)));
        let back = Flow {
            source: address(2),
            destination: address(1),
            source_port: Be16::new(8080),
            destination_port: Be16::new(40_000),
            ..Flow::default()
        };
        assert_eq!(back.other_key(6), asks);
        assert_eq!(asks.turned().turned(), asks);
        assert_eq!(asks.turned().destination_port, Be16::new(40_000));
    }
}

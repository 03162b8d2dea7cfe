//! The bytes of a packet, whoever holds them: an skb in the kernel, a buffer in a test.

/// Which part of a transport checksum's input changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Covered {
    /// Addresses: they are in the pseudo header (RFC 9293 3.1, RFC 768, RFC 8200 8.1).
    PseudoHeader {
        /// Whether the addresses are IPv6, which has no header checksum to balance the change.
        ipv6: bool,
    },
    /// The transport header itself.
    Header,
}

/// Access to the bytes of a packet. Offsets count from the first byte the hook sees: the Ethernet
/// header, or the IP header where the interface has none.
pub trait Packet {
    /// Copies `N` bytes out; `None` where the packet ends before.
    fn load<const N: usize>(&self, offset: usize) -> Option<[u8; N]>;

    /// Overwrites `N` bytes; `None` where the packet ends before or cannot be written.
    fn store<const N: usize>(&mut self, offset: usize, bytes: &[u8; N]) -> Option<()>;

    /// Applies a difference to the transport checksum at `offset`, minding what the NIC was going
    /// to fill in. With `zero_means_none`, a checksum of 0 stays and none becomes 0 (UDP).
    fn update_checksum(
        &mut self,
        offset: usize,
        difference: crate::checksum::Difference,
        covered: Covered,
        zero_means_none: bool,
    ) -> Option<()>;
}

#[cfg(test)]
pub(crate) mod buffer {
    use super::{Covered, Packet};
    use crate::checksum::Difference;

    /// A packet in memory, with complete checksums as on a wire.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub(crate) struct Buffer(pub(crate) Vec<u8>);

    impl Packet for Buffer {
        fn load<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
            self.0.get(offset..offset + N)?.try_into().ok()
        }

        fn store<const N: usize>(&mut self, offset: usize, bytes: &[u8; N]) -> Option<()> {
            self.0.get_mut(offset..offset + N)?.copy_from_slice(bytes);
            Some(())
        }

        fn update_checksum(
            &mut self,
            offset: usize,
            difference: Difference,
            _: Covered,
            zero_means_none: bool,
        ) -> Option<()> {
            let old = u16::from_ne_bytes(self.load(offset)?);
            if zero_means_none && old == 0 {
                return Some(());
            }
            let new = difference.apply(old);
            let new = if zero_means_none && new == 0 { 0xffff } else { new };
            self.store(offset, &new.to_ne_bytes())
        }
    }
}

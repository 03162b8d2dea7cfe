//! The Internet checksum, kept right by differences (RFC 1624).

/// What a change of bytes does to a checksum over them: add it to the complement of the old
/// checksum. Native byte order, as the kernel's `__wsum`; not folded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Difference(pub u32);

impl Difference {
    /// The difference that replacing `old` by `new` makes. Both start at an even offset.
    #[inline(always)]
    #[must_use]
    pub fn replace<const N: usize>(self, old: &[u8; N], new: &[u8; N]) -> Self {
        const { assert!(N.is_multiple_of(2)) };
        let mut sum = self.0;
        for (old, new) in old.as_chunks::<2>().0.iter().zip(new.as_chunks::<2>().0) {
            // At most 16 + 2 words of 16 bits each way: far from overflow.
            sum = sum.wrapping_add(u32::from(!u16::from_ne_bytes(*old)));
            sum = sum.wrapping_add(u32::from(u16::from_ne_bytes(*new)));
        }
        Self(sum)
    }

    /// Applies the difference to a checksum as it stands in a packet, native byte order.
    #[inline(always)]
    #[must_use]
    pub fn apply(self, checksum: u16) -> u16 {
        let sum = u64::from(!checksum) + u64::from(self.0);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        !(sum as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The plain definition of RFC 1071.
    fn checksum(bytes: &[u8]) -> u16 {
        let mut sum: u32 = bytes
            .chunks(2)
            .map(|pair| u32::from(u16::from_ne_bytes([pair[0], pair.get(1).copied().unwrap_or(0)])))
            .sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn a_difference_gives_the_checksum_of_the_changed_bytes() {
        let mut bytes = [0u8; 24];
        // From 1: over nothing but zeros, 0 and 0xffff are the same checksum.
        for round in 1..1000u32 {
            for (index, byte) in bytes.iter_mut().enumerate() {
                *byte = (round.wrapping_mul(2_654_435_761).rotate_left(index as u32 * 3)) as u8;
            }
            let before = checksum(&bytes);
            let old: [u8; 8] = bytes[4..12].try_into().unwrap();
            let new = round.wrapping_mul(40_503).to_be_bytes().repeat(2);
            let new: [u8; 8] = new.try_into().unwrap();
            bytes[4..12].copy_from_slice(&new);
            assert_eq!(Difference::default().replace(&old, &new).apply(before), checksum(&bytes));
        }
    }

    #[test]
    fn no_change_keeps_the_checksum() {
        let bytes = [10, 98, 0, 2, 192, 168];
        let kept = Difference::default().replace(&bytes, &bytes).apply(0x1234);
        assert_eq!(kept, 0x1234);
    }
}

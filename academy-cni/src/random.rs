//! Random numbers of the kernel's.

use std::{fs::File, io::Read, path::Path};

use crate::error::{IoContext, Result};

const SOURCE: &str = "/dev/urandom";

/// A random number that is not zero.
///
/// # Errors
/// [`crate::error::Error::Io`] when the kernel's source cannot be read.
pub fn number() -> Result<u64> {
    Ok(u64::from_ne_bytes(bytes()?).max(1))
}

/// A random unicast Ethernet address out of those that no vendor has (bit "locally administered",
/// IEEE 802 8.2.2).
///
/// # Errors
/// [`crate::error::Error::Io`] when the kernel's source cannot be read.
pub fn mac() -> Result<[u8; 6]> {
    let [first, rest @ ..] = bytes::<6>()?;
    let [second, third, fourth, fifth, sixth] = rest;
    Ok([(first & 0xfe) | 0x02, second, third, fourth, fifth, sixth])
}

fn bytes<const COUNT: usize>() -> Result<[u8; COUNT]> {
    let path = Path::new(SOURCE);
    let mut bytes = [0; COUNT];
    File::open(path).and_then(|mut file| file.read_exact(&mut bytes)).doing("read", path)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_mac_is_unicast_and_locally_administered() {
        for _ in 0..64 {
            let [first, ..] = mac().unwrap();
            assert_eq!(first & 0b11, 0b10);
        }
        assert_ne!(number().unwrap(), number().unwrap());
    }
}

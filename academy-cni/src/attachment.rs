//! The unit of ADD and DEL: one interface of one container in one network.

#![forbid(unsafe_code)]

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// An attachment. Its three names are valid ones: they may become parts of file names.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(try_from = "Names")]
pub struct Attachment {
    network: String,
    container_id: String,
    ifname: String,
}

/// The names before they are checked.
#[derive(Deserialize)]
struct Names {
    network: String,
    container_id: String,
    ifname: String,
}

impl TryFrom<Names> for Attachment {
    type Error = Error;

    fn try_from(names: Names) -> Result<Self> {
        Self::new(&names.network, &names.container_id, &names.ifname)
    }
}

impl fmt::Display for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "interface {} of container {} in network {}",
            self.ifname, self.container_id, self.network
        )
    }
}

impl Attachment {
    /// An attachment of these three names.
    ///
    /// # Errors
    ///
    /// Code 7 for the network, code 4 for container id and interface name (CNI spec 1.1,
    /// "Parameters").
    pub fn new(network: &str, container_id: &str, ifname: &str) -> Result<Self> {
        check_network(network)?;
        check_container_id(container_id)?;
        check_ifname(ifname)?;
        Ok(Self {
            network: network.to_owned(),
            container_id: container_id.to_owned(),
            ifname: ifname.to_owned(),
        })
    }

    /// The name of the network.
    #[must_use]
    pub fn network(&self) -> &str {
        &self.network
    }

    /// CNI_CONTAINERID.
    #[must_use]
    pub fn container_id(&self) -> &str {
        &self.container_id
    }

    /// CNI_IFNAME.
    #[must_use]
    pub fn ifname(&self) -> &str {
        &self.ifname
    }

    /// The owner that stands in map rows: a hash (FNV-1a) of the three names, never 0.
    #[must_use]
    pub fn owner(&self) -> u64 {
        const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        let mut hash = OFFSET;
        let mut eat = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(PRIME);
        for name in [&self.network, &self.container_id, &self.ifname] {
            name.bytes().for_each(&mut eat);
            // No name holds a NUL, so different attachments are different strings.
            eat(0);
        }
        // 0 is "nobody" in the maps.
        hash.max(1)
    }

    /// The name of the host side's interface. The same at every call, so that a pair that a
    /// killed ADD left is found again.
    #[must_use]
    pub fn veth_name(&self) -> String {
        let owner = self.owner();
        // Both halves, since the low bits of FNV-1a hardly depend on the first letters.
        format!("veth{:08x}", (owner ^ (owner >> 32)) & 0xffff_ffff)
    }

    /// The `ifalias` of links that belong to this attachment, at most 255 bytes (IFALIASZ).
    #[must_use]
    pub fn alias(&self) -> String {
        let mut alias =
            format!("{ALIAS_PREFIX}{}:{}:{}", self.network, self.container_id, self.ifname);
        let mut end = alias.len().min(ALIAS_BYTES);
        while !alias.is_char_boundary(end) {
            end -= 1;
        }
        alias.truncate(end);
        alias
    }

    /// The beginning of [`Attachment::alias`] of every attachment of a network.
    #[must_use]
    pub fn alias_prefix(network: &str) -> String {
        format!("{ALIAS_PREFIX}{network}:")
    }
}

/// The beginning of the alias of every link that belongs to an attachment.
pub const ALIAS_PREFIX: &str = "academy:";

/// IFALIASZ without the NUL.
const ALIAS_BYTES: usize = 255;

/// The longest network name or container id. Together with an interface name and an extension
/// they must fit into a file name (NAME_MAX is 255).
const LONGEST_NAME: usize = 200;

/// IFNAMSIZ without the NUL.
const LONGEST_IFNAME: usize = 15;

/// Checks the name of a network before it becomes a directory.
///
/// # Errors
///
/// Code 7.
pub fn check_network(name: &str) -> Result<()> {
    let reason = if name.is_empty() {
        "missing network name"
    } else if !is_name(name) {
        "invalid characters found in network name"
    } else if name.len() > LONGEST_NAME {
        "longer than 200 characters"
    } else {
        return Ok(());
    };
    Err(Error::config("name", format_args!("{name:?}"), reason))
}

/// Checks CNI_CONTAINERID before it becomes part of a file name.
///
/// # Errors
///
/// Code 4.
pub fn check_container_id(id: &str) -> Result<()> {
    let message = if id.is_empty() {
        "missing containerID (CNI_CONTAINERID)"
    } else if !is_name(id) {
        "invalid characters in containerID (CNI_CONTAINERID)"
    } else if id.len() > LONGEST_NAME {
        "containerID (CNI_CONTAINERID) is longer than 200 characters"
    } else {
        return Ok(());
    };
    Err(Error::Env { message: message.to_owned(), details: id.to_owned() })
}

/// Checks CNI_IFNAME as the kernel would.
///
/// # Errors
///
/// Code 4.
pub fn check_ifname(name: &str) -> Result<()> {
    let message = if name.is_empty() {
        "interface name is empty (CNI_IFNAME)"
    } else if name.len() > LONGEST_IFNAME {
        "interface name is too long (CNI_IFNAME): at most 15 characters"
    } else if name == "." || name == ".." {
        "interface name is . or .. (CNI_IFNAME)"
    } else if name.contains(|c: char| c == '/' || c == ':' || c == '\0' || c.is_whitespace()) {
        "interface name contains / or : or whitespace characters (CNI_IFNAME)"
    } else {
        return Ok(());
    };
    Err(Error::Env { message: message.to_owned(), details: name.to_owned() })
}

/// Whether this is a name by the spec: a letter or digit, then those and `_.-`.
fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.bytes().all(|c| c.is_ascii_alphanumeric() || b"_.-".contains(&c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_leave_their_directory_are_refused() {
        for bad in ["", "..", ".a", "a/b", "../x", "a b", "-a", "a\0", "é", "a:b"] {
            assert_eq!(check_network(bad).unwrap_err().code(), 7, "{bad:?}");
            assert_eq!(check_container_id(bad).unwrap_err().code(), 4, "{bad:?}");
        }
        for good in ["a", "harness", "k8s.io-4f_x", "0", "a..b"] {
            check_network(good).unwrap();
            check_container_id(good).unwrap();
        }
        assert_eq!(check_container_id(&"a".repeat(201)).unwrap_err().code(), 4);
    }

    #[test]
    fn interface_names_are_those_of_the_kernel() {
        for bad in
            ["", ".", "..", "a/b", "a:b", "a b", "a\tb", "sixteen-bytes-xx", "é2345678901234"]
        {
            let error = check_ifname(bad).map_or_else(|error| error.code(), |()| 0);
            assert_eq!(error, if bad.starts_with('é') { 0 } else { 4 }, "{bad:?}");
        }
        for good in ["eth0", "net1", "fifteen-bytes-x", "..."] {
            check_ifname(good).unwrap();
        }
    }

    #[test]
    fn the_owner_is_stable_across_builds() {
        let attachment = Attachment::new("harness", "cnitool-1", "eth0").unwrap();
        // FNV-1a of "harness\0cnitool-1\0eth0\0", computed elsewhere.
        assert_eq!(attachment.owner(), OWNER);
        assert_eq!(attachment.veth_name().len(), 12);
    }

    const OWNER: u64 = 0xccd7_ccd0_6137_5258;

    #[test]
    fn attachments_that_differ_in_one_name_have_other_owners_and_links() {
        let all = [("n", "c", "eth0"), ("n", "c", "eth1"), ("n", "d", "eth0"), ("m", "c", "eth0")]
            .map(|(network, id, ifname)| Attachment::new(network, id, ifname).unwrap());
        for (index, one) in all.iter().enumerate() {
            for other in all.iter().skip(index + 1) {
                assert_ne!(one.owner(), other.owner());
                assert_ne!(one.veth_name(), other.veth_name());
            }
        }
    }

    #[test]
    fn an_alias_fits_into_what_the_kernel_keeps() {
        let long = "x".repeat(200);
        let attachment = Attachment::new(&long, &long, "eth0").unwrap();
        assert_eq!(attachment.alias().len(), 255);
        let attachment = Attachment::new("harness", "c1", "eth0").unwrap();
        assert_eq!(attachment.alias(), "academy:harness:c1:eth0");
        assert!(attachment.alias().starts_with(&Attachment::alias_prefix("harness")));
    }

    #[test]
    fn an_attachment_that_is_read_back_is_checked_too() {
        let text = r#"{"network":"../x","container_id":"c","ifname":"eth0"}"#;
        assert!(serde_json::from_str::<Attachment>(text).is_err());
    }
}

//! What stands in the file of a lease.

use std::{fmt, net::IpAddr};

use crate::attachment::Attachment;

/// Who holds an address.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Holder {
    /// The container.
    pub container_id: String,
    /// Its interface; files of old versions of `host-local` do not say it.
    pub ifname: Option<String>,
}

impl Holder {
    /// Reads the content of a lease: `id\r\nifname`, or `id` alone.
    pub(super) fn parse(content: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(content).ok()?;
        let mut lines = text.trim().lines().map(str::trim);
        let container_id = lines.next().filter(|id| !id.is_empty())?.to_owned();
        let ifname = lines.next().filter(|ifname| !ifname.is_empty()).map(str::to_owned);
        Some(Self { container_id, ifname })
    }

    /// Whether it is this attachment. One whose interface is not known is any of its container.
    #[must_use]
    pub fn is(&self, attachment: &Attachment) -> bool {
        self.container_id == attachment.container_id()
            && self.ifname.as_deref().is_none_or(|ifname| ifname == attachment.ifname())
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.ifname {
            Some(ifname) => write!(f, "interface {ifname} of container {}", self.container_id),
            None => write!(f, "container {}", self.container_id),
        }
    }
}

/// What stands in the file of an attachment's lease.
pub(super) fn content(attachment: &Attachment) -> String {
    format!("{}\r\n{}", attachment.container_id(), attachment.ifname())
}

/// An address that is held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lease {
    /// The address.
    pub address: IpAddr,
    /// Who holds it; nobody if the file is empty or makes no sense.
    pub holder: Option<Holder>,
    /// Whether it is academy's; otherwise it is one of `host-local`.
    pub own: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(id: &str, ifname: Option<&str>) -> Option<Holder> {
        Some(Holder { container_id: id.into(), ifname: ifname.map(str::to_owned) })
    }

    #[test]
    fn content_is_that_of_host_local_in_both_directions() {
        let attachment = Attachment::new("net", "c1", "eth0").unwrap();
        assert_eq!(content(&attachment), "c1\r\neth0");
        let read = Holder::parse(content(&attachment).as_bytes()).unwrap();
        assert!(read.is(&attachment));
    }

    #[test]
    fn old_files_and_stray_white_space_are_understood() {
        assert_eq!(Holder::parse(b"c1"), holder("c1", None));
        assert_eq!(Holder::parse(b" c1 \n"), holder("c1", None));
        assert_eq!(Holder::parse(b"c1\neth0\n"), holder("c1", Some("eth0")));
        assert_eq!(Holder::parse(b"c1\r\neth0\r\nmore"), holder("c1", Some("eth0")));
        for nobody in [&b""[..], b" \r\n", b"\xff\xfe"] {
            assert_eq!(Holder::parse(nobody), None);
        }
    }

    #[test]
    fn a_holder_without_interface_is_any_of_its_container() {
        let attachment = Attachment::new("net", "c1", "eth1").unwrap();
        assert!(holder("c1", None).unwrap().is(&attachment));
        assert!(!holder("c1", Some("eth0")).unwrap().is(&attachment));
        assert!(!holder("c2", None).unwrap().is(&attachment));
    }
}

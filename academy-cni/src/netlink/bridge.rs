//! The bridge and what a port of it can be told.

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::{
    RouteNetlinkMessage,
    link::{InfoBridgePort, InfoKind, LinkAttribute, LinkInfo, LinkMessage},
};
use nix::errno::Errno;

use super::{Netlink, failure, tolerate};
use crate::error::Result;

/// How a bridge treats one of its ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortOptions {
    /// Frames may go back out of the port that they came in by.
    pub hairpin: bool,
    /// Frames do not go from this port to others that are isolated as well.
    pub isolated: bool,
}

impl PortOptions {
    pub(super) fn attributes(self) -> Vec<InfoBridgePort> {
        vec![InfoBridgePort::HairpinMode(self.hairpin), InfoBridgePort::Isolated(self.isolated)]
    }
}

impl Netlink {
    /// Makes a bridge, switched off. One that somebody makes at the same moment is no error.
    ///
    /// The MAC is given, not left to the kernel: a bridge without one of its own takes the lowest
    /// of its ports', and changes it as they come and go. `mtu` is in bytes, absent for the
    /// kernel's default.
    ///
    /// # Errors
    /// [`crate::error::Error::Netlink`] when the kernel refuses.
    pub fn add_bridge(&self, name: &str, mac: [u8; 6], mtu: Option<u32>) -> Result<()> {
        let mut message = LinkMessage::default();
        message.attributes = vec![
            LinkAttribute::IfName(name.to_owned()),
            LinkAttribute::Address(mac.to_vec()),
            LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Bridge)]),
        ];
        message.attributes.extend(mtu.map(LinkAttribute::Mtu));
        let made = self.change(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL);
        tolerate(made, &[Errno::EEXIST]).map_err(|source| failure("make bridge", name, source))
    }
}

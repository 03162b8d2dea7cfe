//! What the programs need to know about the host, and what a later academy needs to know about
//! the one that made the maps.

use bytemuck::{Pod, Zeroable};

/// The one row of `settings`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Settings {
    /// The build whose programs are attached: builds of one layout are ordered by it.
    pub build: u64,
    /// The inode of the network namespace that the maps belong to.
    pub netns: u64,
    /// See [`settings_flags`].
    pub flags: u32,
    /// First source port, host byte order, that a translated client may get.
    pub snat_port_first: u16,
    /// Last source port, host byte order, that a translated client may get.
    pub snat_port_last: u16,
    /// Zero; for what comes without a new layout.
    pub spare: [u64; 13],
}

/// Bits of [`Settings::flags`].
pub mod settings_flags {
    /// `net.bridge.bridge-nf-call-iptables` or its IPv6 sibling is 1 and `fastPath` is `auto`:
    /// frames between containers go through the bridge, where netfilter sees them.
    pub const BRIDGE_NETFILTER: u32 = 1 << 0;
    /// An interface `kube-ipvs0` exists: wildcards mean the addresses in `local4` and `local6`.
    pub const LOCAL_LIST: u32 = 1 << 1;
}

const _: () = assert!(size_of::<Settings>() == 128);

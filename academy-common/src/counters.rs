//! One number per verdict and per reason.

use bytemuck::{Pod, Zeroable};

/// The one row of `counters`, of which each CPU has its own. Packets, since the map was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Counters {
    /// Translated and delivered to a container.
    pub delivered: u64,
    /// Replies translated and sent back to the side that asked.
    pub returned: u64,
    /// Replies that came through the stack, translated back at the egress.
    pub returned_by_stack: u64,
    /// Frames sent straight into a neighbouring container.
    pub short_cut: u64,
    /// Conversations opened.
    pub opened: u64,
    /// Conversations that became established.
    pub established: u64,
    /// Conversations closed by both sides or by an accepted reset.
    pub closed: u64,
    /// Conversations of others that were noted.
    pub noted: u64,
    /// To the kernel: nothing of ours.
    pub pass_foreign: u64,
    /// To the kernel: neither IPv4 nor IPv6.
    pub pass_not_ip: u64,
    /// To the kernel: neither TCP nor UDP.
    pub pass_protocol: u64,
    /// To the kernel: a VLAN tag.
    pub pass_vlan: u64,
    /// To the kernel: a fragment.
    pub pass_fragment: u64,
    /// To the kernel: an IPv6 extension header.
    pub pass_extension_header: u64,
    /// To the kernel: headers cut short or inconsistent.
    pub pass_malformed: u64,
    /// To the kernel: TCP to a published port, without a conversation and not a SYN.
    pub pass_no_flow: u64,
    /// To the kernel: a published port, but the destination is not this host's.
    pub pass_not_local: u64,
    /// To the kernel: a process of the host holds this address.
    pub pass_host_port: u64,
    /// To the kernel: noted as somebody else's conversation.
    pub pass_noted: u64,
    /// To the kernel: a container's packet whose source is not its own.
    pub pass_forged: u64,
    /// To the kernel: a packet of a conversation that came by an interface it may not come by.
    pub pass_wrong_interface: u64,
    /// To the kernel: a loopback address from elsewhere than the host.
    pub pass_loopback: u64,
    /// To the kernel: the container could not answer this client (`snat: false`).
    pub pass_unanswerable: u64,
    /// To the kernel: no source port was free.
    pub pass_no_port: u64,
    /// To the kernel: the conversation could not be stored.
    pub pass_table_full: u64,
    /// To the kernel: a helper of the kernel refused.
    pub pass_helper: u64,
    /// Rows of dead conversations removed in passing.
    pub dead_rows: u64,
    /// Conversations that stay in `opening` because `flows` is full.
    pub flows_full: u64,
    /// Short cuts ended because the MAC was seen behind another port.
    pub moved: u64,
    /// Zero; for reasons that come without a new layout.
    pub spare: [u64; 32],
}

const _: () = assert!(size_of::<Counters>() == 488);

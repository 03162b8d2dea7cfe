//! What the programs tell each other about one packet, in `skb->tc_index`.
//!
//! The field survives a redirect to an uplink's egress, a trip through lo, and the way from a
//! veth's ingress to its bridge's. A container can set it too, so it is cleared at the veth's
//! ingress; and a wire that is a veth carries it across, so an uplink that is no bridge ignores it.

/// The programs sent this packet on themselves: later hooks leave it alone.
pub const SENT: u16 = 0xaca1;
/// The veth's hook saw the packet and gave it to the kernel: the bridge's hook has nothing to add.
pub const PASSED: u16 = 0xaca2;
/// The veth's hook found that the packet speaks for somebody else: it matches no flow anywhere.
pub const REFUSED: u16 = 0xaca3;

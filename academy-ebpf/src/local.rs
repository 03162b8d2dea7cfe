//! Whether a destination is this host's, decided when a conversation opens (design rule 4).

use academy_common::{FlowKey, settings_flags};
use aya_ebpf::bindings::bpf_fib_lookup as FibParameters;

use crate::{ip::Ip, maps, skb::Skb};

/// `BPF_FIB_LKUP_RET_SUCCESS`: the FIB forwards it.
pub const FIB_SUCCESS: i64 = 0;
/// `BPF_FIB_LKUP_RET_NOT_FWDED`: local, broadcast, or without a route.
const FIB_NOT_FORWARDED: i64 = 4;
/// `BPF_FIB_LKUP_RET_FWD_DISABLED`: this interface forwards nothing, so what it gets is local.
const FIB_FORWARDING_DISABLED: i64 = 5;
/// `BPF_FIB_LKUP_RET_NO_NEIGH`: the FIB forwards it, to a neighbour that is not resolved.
pub const FIB_NO_NEIGHBOUR: i64 = 7;

/// Whether a packet that came by `ifindex` is for this host. The caller has seen that the frame
/// was addressed to the interface.
#[inline(never)]
pub fn is_local<A: Ip>(skb: &Skb, key: &FlowKey<A>, ifindex: u32, wildcard: bool) -> bool {
    if key.destination.is_multicast_or_broadcast() {
        return false;
    }
    if wildcard && !is_meant_by_wildcard(key.destination) {
        return false;
    }
    // SAFETY: the parameters are plain bytes, for which all zero is a value.
    let mut parameters: FibParameters = unsafe { core::mem::zeroed() };
    parameters.ifindex = ifindex;
    parameters.l4_protocol = key.protocol;
    A::fib_addresses(&mut parameters, key.source, key.destination);
    matches!(skb.fib_lookup(&mut parameters), FIB_NOT_FORWARDED | FIB_FORWARDING_DISABLED)
}

/// Whether a wildcard means this address: always, but where `kube-ipvs0` makes service addresses
/// look like the host's own only those on the list.
#[inline(always)]
pub fn is_meant_by_wildcard<A: Ip>(address: A) -> bool {
    let listed_only =
        maps::settings().is_some_and(|settings| settings.flags & settings_flags::LOCAL_LIST != 0);
    !listed_only || address.is_loopback() || maps::is_listed(address)
}

/// Whether packets to `address` would leave by `bridge`.
#[inline(never)]
pub fn leaves_by<A: Ip>(skb: &Skb, address: A, bridge: u32) -> bool {
    // SAFETY: as in `is_local`.
    let mut parameters: FibParameters = unsafe { core::mem::zeroed() };
    parameters.ifindex = bridge;
    A::fib_addresses(&mut parameters, A::ANY, address);
    let answer = skb.fib_lookup(&mut parameters);
    matches!(answer, FIB_SUCCESS | FIB_NO_NEIGHBOUR) && parameters.ifindex == bridge
}

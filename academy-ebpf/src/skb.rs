//! The packet in the kernel, and the helpers that act on it.

use core::{mem::MaybeUninit, ptr};

use academy_common::marks;
use aya_ebpf::{
    EbpfContext as _,
    bindings::{
        BPF_F_MARK_MANGLED_0, BPF_F_PSEUDO_HDR, bpf_fib_lookup as FibParameters,
        bpf_sock_tuple as SocketTuple,
    },
    helpers,
    programs::TcContext,
};

use crate::{
    checksum::Difference,
    ip::ETHERNET,
    packet::{Covered, Packet},
    pass::{Pass, Sent},
};

/// Tells `bpf_l4_csum_replace` that the addresses are IPv6, for packets whose sum the NIC made
/// (net/core/filter.c, `BPF_F_IPV6`, Linux 6.16). Older kernels refuse it.
const BPF_F_IPV6: u64 = 1 << 7;
/// `BPF_F_CURRENT_NETNS` as the socket look-ups take it.
const CURRENT_NETNS: u64 = u64::MAX;
/// `PACKET_HOST`, `if_packet.h`: addressed to this host.
const PACKET_HOST: u32 = 0;
/// `TCP_LISTEN` of the kernel's `tcp_states.h`.
const TCP_LISTEN: u32 = 10;

/// Room for bytes of a packet, aligned so that they are looked at in words.
#[repr(C, align(8))]
struct Room<T>(T);

/// An skb at a TC hook.
pub struct Skb {
    context: TcContext,
}

impl Skb {
    /// Takes the context that the program was called with.
    #[inline(always)]
    #[must_use]
    pub const fn new(context: TcContext) -> Self {
        Self { context }
    }

    /// The context, for the verdict log.
    #[inline(always)]
    #[must_use]
    pub const fn context(&self) -> &TcContext {
        &self.context
    }

    /// The interface whose hook this is.
    #[inline(always)]
    #[must_use]
    pub fn ifindex(&self) -> u32 {
        // SAFETY: the kernel passed a valid context, and the verifier knows the field.
        unsafe { (*self.context.skb.skb).ifindex }
    }

    /// EtherType of the packet, host byte order.
    #[inline(always)]
    #[must_use]
    pub fn ethertype(&self) -> u16 {
        // SAFETY: as in `ifindex`. The kernel keeps a big-endian 16-bit number here.
        u16::from_be(unsafe { (*self.context.skb.skb).protocol } as u16)
    }

    /// Whether a VLAN tag is beside the packet: it belongs to a VLAN device above this one.
    #[inline(always)]
    #[must_use]
    pub fn has_vlan(&self) -> bool {
        // SAFETY: as in `ifindex`.
        unsafe { (*self.context.skb.skb).vlan_present != 0 }
    }

    /// Whether the frame was addressed to the interface it came by.
    #[inline(always)]
    #[must_use]
    pub fn is_for_this_host(&self) -> bool {
        // SAFETY: as in `ifindex`.
        unsafe { (*self.context.skb.skb).pkt_type == PACKET_HOST }
    }

    /// What an earlier hook said about this packet, see [`marks`].
    #[inline(always)]
    #[must_use]
    pub fn mark(&self) -> u16 {
        // SAFETY: as in `ifindex`.
        unsafe { (*self.context.skb.skb).tc_index as u16 }
    }

    /// Tells later hooks about this packet, see [`marks`].
    #[inline(always)]
    pub fn set_mark(&mut self, mark: u16) {
        // SAFETY: as in `ifindex`; the verifier allows classifiers to write the field.
        unsafe { (*self.context.skb.skb).tc_index = u32::from(mark) }
    }

    /// Forgets what somebody else may have written.
    #[inline(always)]
    pub fn clear_mark(&mut self) {
        if self.mark() != 0 {
            self.set_mark(0);
        }
    }

    /// CLOCK_MONOTONIC, nanoseconds.
    #[inline(always)]
    #[must_use]
    pub fn now(&self) -> u64 {
        // SAFETY: the helper has no arguments.
        unsafe { helpers::generated::bpf_ktime_get_ns() }
    }

    /// Any number.
    #[inline(always)]
    #[must_use]
    pub fn random(&self) -> u32 {
        // SAFETY: the helper has no arguments.
        unsafe { helpers::generated::bpf_get_prandom_u32() }
    }

    /// Sends the packet into the container behind the host-side veth `ifindex`. The kernel would
    /// drop a packet that is not marked as meant for this host.
    ///
    /// # Errors
    ///
    /// [`Pass::Helper`].
    #[inline(always)]
    pub fn redirect_into(&mut self, ifindex: u32) -> Result<Sent, Pass> {
        self.address_to_this_host();
        // SAFETY: plain numbers.
        Ok(Sent(unsafe { helpers::generated::bpf_redirect_peer(ifindex, 0) } as i32))
    }

    /// Marks the frame as addressed to the interface it comes by: others are dropped.
    #[inline(always)]
    fn address_to_this_host(&mut self) {
        if !self.is_for_this_host() {
            // SAFETY: a valid context; the kernel checks the type.
            let _ = unsafe { helpers::generated::bpf_skb_change_type(self.raw(), PACKET_HOST) };
        }
    }

    /// Sends the frame by `ifindex` as it is.
    #[inline(always)]
    pub fn redirect(&mut self, ifindex: u32) -> Sent {
        // SAFETY: plain numbers.
        Sent(unsafe { helpers::generated::bpf_redirect(ifindex, 0) } as i32)
    }

    /// Sends the packet by `ifindex`, where the kernel's route and neighbour tables say.
    #[inline(always)]
    pub fn redirect_neighbour(&mut self, ifindex: u32) -> Sent {
        // On lo the packet comes back in, and lo keeps what a veth or a bridge has said about it.
        self.address_to_this_host();
        // SAFETY: no parameters, as the helper allows.
        Sent(unsafe { helpers::generated::bpf_redirect_neigh(ifindex, ptr::null_mut(), 0, 0) }
            as i32)
    }

    /// Makes room for an Ethernet header in front of a packet without one.
    ///
    /// # Errors
    ///
    /// [`Pass::Helper`].
    #[inline(always)]
    pub fn push_ethernet(&mut self, ethertype: u16) -> Result<(), Pass> {
        // SAFETY: a valid context.
        if unsafe { helpers::generated::bpf_skb_change_head(self.raw(), ETHERNET as u32, 0) } != 0 {
            return Err(Pass::Helper);
        }
        self.store(ETHERNET - 2, &ethertype.to_be_bytes()).ok_or(Pass::Helper)
    }

    /// Asks the FIB. Returns the helper's answer (`BPF_FIB_LKUP_RET_*`), or a negative error
    /// number.
    #[inline(always)]
    pub fn fib_lookup(&self, parameters: &mut FibParameters) -> i64 {
        // SAFETY: a valid context, and parameters of the size given.
        unsafe {
            helpers::generated::bpf_fib_lookup(
                self.raw().cast(),
                parameters,
                size_of::<FibParameters>() as i32,
                0,
            )
        }
    }

    /// Whether a socket of the host, other than a listener, would take a packet of this tuple.
    #[inline(always)]
    pub fn has_socket(&self, tcp: bool, tuple: &mut SocketTuple, size: u32) -> bool {
        let context = self.raw().cast();
        let socket = if tcp {
            // SAFETY: a valid context, and a tuple of the size given.
            unsafe {
                helpers::generated::bpf_skc_lookup_tcp(context, tuple, size, CURRENT_NETNS, 0)
            }
        } else {
            // SAFETY: as above.
            unsafe { helpers::generated::bpf_sk_lookup_udp(context, tuple, size, CURRENT_NETNS, 0) }
        };
        if socket.is_null() {
            return false;
        }
        // SAFETY: not null; the reference is held until the release below.
        let listens = tcp && unsafe { (*socket).state } == TCP_LISTEN;
        // SAFETY: the look-up's reference, given back once.
        unsafe { helpers::generated::bpf_sk_release(socket.cast()) };
        !listens
    }

    /// Marks the packet as sent by us, for the hooks it still meets.
    #[inline(always)]
    pub fn mark_sent(&mut self) {
        self.set_mark(marks::SENT);
    }

    #[inline(always)]
    fn raw(&self) -> *mut aya_ebpf::bindings::__sk_buff {
        self.context.as_ptr().cast()
    }
}

impl Packet for Skb {
    #[inline(always)]
    fn load<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        let mut bytes = Room(MaybeUninit::<[u8; N]>::uninit());
        // SAFETY: a valid context, and room for the length given. The helper also reaches bytes
        // that are not in the linear part.
        let failed = unsafe {
            helpers::generated::bpf_skb_load_bytes(
                self.raw().cast(),
                offset as u32,
                bytes.0.as_mut_ptr().cast(),
                N as u32,
            )
        };
        // SAFETY: the helper has filled all of it in, whether or not it failed.
        let bytes = unsafe { bytes.0.assume_init() };
        (failed == 0).then_some(bytes)
    }

    #[inline(always)]
    fn store<const N: usize>(&mut self, offset: usize, bytes: &[u8; N]) -> Option<()> {
        // SAFETY: a valid context, and bytes of the length given.
        let failed = unsafe {
            helpers::generated::bpf_skb_store_bytes(
                self.raw(),
                offset as u32,
                bytes.as_ptr().cast(),
                N as u32,
                0,
            )
        };
        (failed == 0).then_some(())
    }

    #[inline(always)]
    fn update_checksum(
        &mut self,
        offset: usize,
        difference: Difference,
        covered: Covered,
        zero_means_none: bool,
    ) -> Option<()> {
        let mut flags = if zero_means_none { u64::from(BPF_F_MARK_MANGLED_0) } else { 0 };
        let mut ipv6 = 0;
        if let Covered::PseudoHeader { ipv6: true } = covered {
            ipv6 = BPF_F_IPV6;
        }
        if let Covered::PseudoHeader { .. } = covered {
            flags |= u64::from(BPF_F_PSEUDO_HDR);
        }
        let replace = |flags| {
            // SAFETY: a valid context; the kernel checks offset and flags.
            unsafe {
                helpers::generated::bpf_l4_csum_replace(
                    self.raw(),
                    offset as u32,
                    0,
                    u64::from(difference.0),
                    flags,
                )
            }
        };
        if ipv6 != 0 && replace(flags | ipv6) == 0 {
            return Some(());
        }
        (replace(flags) == 0).then_some(())
    }
}

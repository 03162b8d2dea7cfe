//! Why a packet is left to the kernel, and the verdicts.

use academy_common::Counters;

use crate::{counters::count, skb::Skb, trace::trace};

/// What a path made of a packet: [`Sent`], or the reason for leaving it alone.
pub type Outcome = Result<Sent, Pass>;

/// The verdict of a helper that has taken the packet, such as `bpf_redirect_peer`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent(pub i32);

/// Why a packet is left to the kernel. Each reason has its counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pass {
    /// Nothing of ours.
    Foreign,
    /// One of our own packets on its way.
    Own,
    /// A reply that came through the stack: translated, and on its way.
    Returned,
    /// Neither IPv4 nor IPv6.
    NotIp,
    /// Neither TCP nor UDP.
    Protocol,
    /// A VLAN tag.
    Vlan,
    /// A fragment.
    Fragment,
    /// An IPv6 extension header.
    ExtensionHeader,
    /// Headers cut short or inconsistent.
    Malformed,
    /// TCP to a published port, without a conversation and not a SYN.
    NoFlow,
    /// A published port, but the destination is not this host's.
    NotLocal,
    /// A process of the host holds this address.
    HostPort,
    /// Somebody else's conversation.
    Noted,
    /// A container's packet whose source is not its own.
    Forged,
    /// A packet of a conversation that came by an interface it may not come by.
    WrongInterface,
    /// A loopback address from elsewhere than the host.
    Loopback,
    /// The container could not answer this client.
    Unanswerable,
    /// No source port was free.
    NoPort,
    /// The conversation could not be stored.
    TableFull,
    /// A helper of the kernel refused.
    Helper,
}

impl Pass {
    /// The reason in words, for the verdict log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Foreign => "nothing of ours",
            Self::Own => "our own",
            Self::Returned => "reply translated back on its way through the stack",
            Self::NotIp => "not IP",
            Self::Protocol => "neither TCP nor UDP",
            Self::Vlan => "VLAN tag",
            Self::Fragment => "fragment",
            Self::ExtensionHeader => "extension header",
            Self::Malformed => "malformed",
            Self::NoFlow => "no flow and no SYN",
            Self::NotLocal => "not a local address",
            Self::HostPort => "held by the host",
            Self::Noted => "somebody else's conversation",
            Self::Forged => "forged source",
            Self::WrongInterface => "wrong interface",
            Self::Loopback => "loopback address",
            Self::Unanswerable => "unanswerable client",
            Self::NoPort => "no free source port",
            Self::TableFull => "table full",
            Self::Helper => "helper refused",
        }
    }

    /// The reason's counter; none for what other counters count.
    fn counter(self, counters: &mut Counters) -> Option<&mut u64> {
        Some(match self {
            Self::Own => return None,
            Self::Returned => &mut counters.returned_by_stack,
            Self::Foreign => &mut counters.pass_foreign,
            Self::NotIp => &mut counters.pass_not_ip,
            Self::Protocol => &mut counters.pass_protocol,
            Self::Vlan => &mut counters.pass_vlan,
            Self::Fragment => &mut counters.pass_fragment,
            Self::ExtensionHeader => &mut counters.pass_extension_header,
            Self::Malformed => &mut counters.pass_malformed,
            Self::NoFlow => &mut counters.pass_no_flow,
            Self::NotLocal => &mut counters.pass_not_local,
            Self::HostPort => &mut counters.pass_host_port,
            Self::Noted => &mut counters.pass_noted,
            Self::Forged => &mut counters.pass_forged,
            Self::WrongInterface => &mut counters.pass_wrong_interface,
            Self::Loopback => &mut counters.pass_loopback,
            Self::Unanswerable => &mut counters.pass_unanswerable,
            Self::NoPort => &mut counters.pass_no_port,
            Self::TableFull => &mut counters.pass_table_full,
            Self::Helper => &mut counters.pass_helper,
        })
    }
}

/// "Next": programs of others on the same hook, and the stack, still see the packet. The number is
/// both `TC_ACT_UNSPEC` and `TCX_NEXT`.
const NEXT: i32 = -1;

/// Turns an outcome into what the program returns.
#[inline(always)]
#[must_use]
pub fn verdict(skb: &Skb, program: &'static str, outcome: Outcome) -> i32 {
    match outcome {
        Ok(Sent(verdict)) => {
            trace!(skb, "{}: sent, verdict {}", program, verdict);
            verdict
        }
        Err(reason) => {
            count(|counters| reason.counter(counters));
            trace!(skb, "{}: {}", program, reason.as_str());
            NEXT
        }
    }
}

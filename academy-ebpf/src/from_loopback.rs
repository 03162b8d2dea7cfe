//! TC ingress of lo: host processes to 127.0.0.0/8, ::1 or the host's own addresses on a published
//! port. The reply goes back to lo by the kernel's own look-up, so no sysctl is opened for it.

use academy_common::{Ipv4, Ipv6, PortMapping, Way, WayKind, marks};

use crate::{
    counters::count,
    deliver,
    flow::{self, follow::follow, note, open},
    ip::{ETHERNET, ETHERTYPE_IPV4, ETHERTYPE_IPV6, Ip},
    local,
    parse::Headers,
    pass::{Outcome, Pass},
    ports,
    rewrite::translate,
    skb::Skb,
};

/// Runs the path.
///
/// # Errors
///
/// Why the packet is left to the kernel.
#[inline(always)]
pub fn run(skb: &mut Skb) -> Outcome {
    if skb.mark() == marks::SENT {
        // A reply of ours, on its last step to the host's socket.
        skb.clear_mark();
        return Err(Pass::Own);
    }
    match skb.ethertype() {
        ETHERTYPE_IPV4 => path::<Ipv4>(skb),
        ETHERTYPE_IPV6 => path::<Ipv6>(skb),
        _ => Err(Pass::NotIp),
    }
}

#[inline(never)]
fn path<A: Ip>(skb: &mut Skb) -> Outcome {
    let headers = Headers::<A>::read(skb, ETHERNET)?;
    let lo = skb.ifindex();
    let now = skb.now();
    let search = flow::find(headers, now);
    if search.noted {
        return Err(Pass::Noted);
    }
    if let Some(found) = search.found {
        if found.flow.from != lo {
            return Err(Pass::WrongInterface);
        }
        follow(&found, headers, now);
        translate(skb, headers, &found.tuple()).ok_or(Pass::Helper)?;
        count(|counters| Some(&mut counters.delivered));
        return deliver::into_container::<A>(skb, found.flow.endpoint, found.endpoint, ETHERNET);
    }
    match opened(skb, headers, lo, now) {
        Err(reason) => {
            note::departure(headers, now);
            Err(reason)
        }
        sent => sent,
    }
}

#[inline(always)]
fn opened<A: Ip>(skb: &mut Skb, headers: &Headers<A>, lo: u32, now: u64) -> Outcome {
    let mapping = wanted(headers)?;
    asks_for(lo, headers, mapping, now)?;
    open::open(skb, headers)?;
    deliver::opened::<A>(skb, headers, mapping)
}

/// Prepares the conversation of a process of the host with a mapping.
#[inline(never)]
fn asks_for<A: Ip>(
    lo: u32,
    headers: &Headers<A>,
    mapping: &PortMapping<A>,
    now: u64,
) -> Result<(), Pass> {
    let snat = ports::client_address(mapping, headers.key.source, false)?;
    let way = Way { ifindex: lo, kind: WayKind::Neighbour as u32, ..Way::default() };
    open::prepare(&open::Request { headers, mapping, snat, from: lo, way, now })
}

/// The published port that a packet asks for.
#[inline(never)]
fn wanted<A: Ip>(headers: &Headers<A>) -> Result<&'static PortMapping<A>, Pass> {
    let published = ports::find(&headers.key)?;
    open::may_open(headers)?;
    let destination = headers.key.destination;
    // Whatever comes by lo is the host's own; only a wildcard may mean less than that.
    if destination.is_multicast_or_broadcast()
        || (published.wildcard && !local::is_meant_by_wildcard(destination))
    {
        return Err(Pass::NotLocal);
    }
    published.live()
}

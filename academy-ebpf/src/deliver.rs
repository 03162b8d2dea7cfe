//! The last step: into a container, or back to the side that asked.

use academy_common::{Endpoint, Mac, PortMapping, Way, WayKind, endpoint_flags};

use crate::{
    counters::count,
    ip::Ip,
    maps,
    parse::Headers,
    pass::{Outcome, Pass},
    rewrite::{Tuple, set_macs, translate},
    skb::Skb,
};

/// Sends the packet into the container behind the host-side interface `ifindex`. `network` is the
/// offset of its IP header; 0 means that it has no Ethernet header yet.
///
/// # Errors
///
/// [`Pass::Helper`].
#[inline(always)]
pub fn into_container<A: Ip>(
    skb: &mut Skb,
    ifindex: u32,
    endpoint: &Endpoint,
    network: usize,
) -> Outcome {
    if network == 0 {
        skb.push_ethernet(A::ETHERTYPE)?;
    }
    frame(skb, endpoint.mac, endpoint.bridge_mac)?;
    if endpoint.flags & endpoint_flags::TAP != 0 {
        skb.mark_sent();
        return Ok(skb.redirect(ifindex));
    }
    skb.redirect_into(ifindex)
}

/// Translates the first packet of the conversation that was just opened, and delivers it.
///
/// # Errors
///
/// [`Pass::Foreign`] where the container is gone, [`Pass::Helper`].
#[inline(never)]
pub fn opened<A: Ip>(skb: &mut Skb, headers: &Headers<A>, mapping: &PortMapping<A>) -> Outcome {
    let target = maps::endpoint(mapping.ifindex).ok_or(Pass::Foreign)?;
    let flow = maps::prepared::<A>().ok_or(Pass::Helper)?;
    translate(skb, headers, &Tuple::of(flow)).ok_or(Pass::Helper)?;
    count(|counters| Some(&mut counters.delivered));
    into_container::<A>(skb, mapping.ifindex, target, headers.network)
}

/// Sends a reply back the way that its conversation's opener is reached by.
///
/// # Errors
///
/// [`Pass::Foreign`] where that was a container that is gone, [`Pass::Helper`].
#[inline(always)]
pub fn back<A: Ip>(skb: &mut Skb, way: &Way, network: usize) -> Outcome {
    let sent = if way.kind == WayKind::Container as u32 {
        let opener = maps::endpoint(way.ifindex).ok_or(Pass::Foreign)?;
        into_container::<A>(skb, way.ifindex, opener, network)?
    } else {
        skb.mark_sent();
        if way.kind == WayKind::Ethernet as u32 {
            frame(skb, way.destination, way.source)?;
            skb.redirect(way.ifindex)
        } else if way.kind == WayKind::Bare as u32 {
            skb.redirect(way.ifindex)
        } else {
            skb.redirect_neighbour(way.ifindex)
        }
    };
    count(|counters| Some(&mut counters.returned));
    Ok(sent)
}

#[inline(always)]
fn frame(skb: &mut Skb, destination: Mac, source: Mac) -> Result<(), Pass> {
    set_macs(skb, destination.octets, source.octets).ok_or(Pass::Helper)
}

//! TC ingress of each uplink and of our bridges: packets for the host's own addresses. A packet of
//! a conversation, or one that asks for a published port, is translated and delivered into its
//! container; everything else is the kernel's.

use academy_common::{
    FdbKey, Ipv4, Ipv6, Mac, PortMapping, Uplink, UplinkKind, Way, WayKind, marks,
};

use crate::{
    counters::count,
    deliver,
    flow::{self, Found, follow::follow, open},
    from_container::end_short_cut,
    ip::{ETHERNET, ETHERTYPE_IPV4, ETHERTYPE_IPV6, Ip},
    local, maps,
    packet::Packet,
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
    let ifindex = skb.ifindex();
    let uplink = maps::uplink(ifindex).ok_or(Pass::Foreign)?;
    if uplink.kind == UplinkKind::Bridge as u32 {
        match skb.mark() {
            // Our veth's hook has decided already; there is nothing to add.
            marks::PASSED | marks::SENT => return Err(Pass::Own),
            marks::REFUSED => return Err(Pass::Forged),
            _ => {}
        }
    } else {
        // A wire that is a veth carries marks across: they mean nothing here.
        skb.clear_mark();
    }
    if skb.has_vlan() {
        return Err(Pass::Vlan);
    }
    let way = way(skb, ifindex, &uplink)?;
    let outcome = match skb.ethertype() {
        ETHERTYPE_IPV4 => path::<Ipv4>(skb, &uplink, &way),
        ETHERTYPE_IPV6 => path::<Ipv6>(skb, &uplink, &way),
        _ => Err(Pass::NotIp),
    };
    if matches!(outcome, Err(Pass::Forged | Pass::WrongInterface)) {
        // Nor may it be taken for a reply where it leaves the host.
        skb.set_mark(marks::REFUSED);
    }
    outcome
}

/// How the sender of this packet is reached. On a bridge that is not known from the frame alone:
/// route and neighbour table say.
#[inline(never)]
fn way(skb: &Skb, ifindex: u32, uplink: &Uplink) -> Result<Way, Pass> {
    let mut way = Way { ifindex, kind: WayKind::Bare as u32, ..Way::default() };
    if uplink.kind == UplinkKind::Bare as u32 {
        return Ok(way);
    }
    let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5] = skb.load(0).ok_or(Pass::Malformed)?;
    let source = Mac { octets: [s0, s1, s2, s3, s4, s5] };
    if uplink.kind == UplinkKind::Bridge as u32 {
        // No veth of ours saw the frame, or it would carry a mark: it came by another port.
        end_short_cut(&FdbKey { bridge: ifindex, mac: source, padding: 0 }, 0);
        way.kind = WayKind::Neighbour as u32;
        return Ok(way);
    }
    way.kind = WayKind::Ethernet as u32;
    way.destination = source;
    way.source = Mac { octets: [d0, d1, d2, d3, d4, d5] };
    Ok(way)
}

#[inline(never)]
fn path<A: Ip>(skb: &mut Skb, uplink: &Uplink, way: &Way) -> Outcome {
    let network = if uplink.kind == UplinkKind::Bare as u32 { 0 } else { ETHERNET };
    let headers = Headers::<A>::read(skb, network)?;
    // 127.0.0.0/8 and ::1 are the host's own business, see `from_loopback`.
    if headers.key.destination.is_loopback() || headers.key.source.is_loopback() {
        return Err(Pass::Loopback);
    }
    let now = skb.now();
    let search = flow::find(headers, now);
    if search.noted {
        return Err(Pass::Noted);
    }
    if let Some(found) = search.found {
        return continued(skb, headers, &found, way, now);
    }
    opened(skb, headers, way, now)
}

#[inline(never)]
fn continued<A: Ip>(
    skb: &mut Skb,
    headers: &Headers<A>,
    found: &Found<A>,
    way: &Way,
    now: u64,
) -> Outcome {
    // A conversation that a container or the host itself opened is not continued from a wire, nor
    // does a wire speak for a container.
    if found.flow.from != 0 || found.flow.opener == 0 {
        return Err(Pass::WrongInterface);
    }
    if way.kind != WayKind::Neighbour as u32 && found.flow.way != *way {
        flow::follow::refresh_way(found, headers, way);
    }
    follow(found, headers, now);
    translate(skb, headers, &found.tuple()).ok_or(Pass::Helper)?;
    count(|counters| Some(&mut counters.delivered));
    deliver::into_container::<A>(skb, found.flow.endpoint, found.endpoint, headers.network)
}

#[inline(always)]
fn opened<A: Ip>(skb: &mut Skb, headers: &Headers<A>, way: &Way, now: u64) -> Outcome {
    let mapping = wanted(skb, headers, way.ifindex)?;
    asks_for(headers, mapping, way, now)?;
    open::open(skb, headers)?;
    deliver::opened::<A>(skb, headers, mapping)
}

/// Prepares the conversation of a client with a mapping.
#[inline(never)]
fn asks_for<A: Ip>(
    headers: &Headers<A>,
    mapping: &PortMapping<A>,
    way: &Way,
    now: u64,
) -> Result<(), Pass> {
    let snat = ports::client_address(mapping, headers.key.source, false)?;
    open::prepare(&open::Request { headers, mapping, snat, from: 0, way: *way, now })
}

/// The published port of this host that a packet asks for.
#[inline(never)]
fn wanted<A: Ip>(
    skb: &Skb,
    headers: &Headers<A>,
    ifindex: u32,
) -> Result<&'static PortMapping<A>, Pass> {
    let published = ports::find(&headers.key)?;
    open::may_open(headers)?;
    if !skb.is_for_this_host() || !local::is_local(skb, &headers.key, ifindex, published.wildcard) {
        return Err(Pass::NotLocal);
    }
    // Containers speak through their own veth's hook.
    if maps::address_holder(headers.key.source).is_some() {
        return Err(Pass::Forged);
    }
    published.live()
}

//! TC ingress of each host-side veth: the short cut. A reply of a conversation is translated and
//! sent; a new connection to a published port of this host is translated and delivered; a frame to
//! a neighbour on the same bridge goes straight into its container; everything else is the
//! kernel's.

use academy_common::{
    Endpoint, FdbKey, Ipv4, Ipv6, Mac, PortMapping, Way, WayKind, endpoint_flags, fdb_flags, marks,
    settings_flags,
};

use crate::{
    counters::count,
    deliver,
    flow::{self, Found, follow::follow, open},
    ip::{ETHERNET, ETHERTYPE_IPV4, ETHERTYPE_IPV6, Ip},
    local, maps,
    packet::Packet,
    parse::Headers,
    pass::{Outcome, Pass, Sent},
    ports,
    rewrite::translate,
    skb::Skb,
    source,
};

/// Runs the path.
///
/// # Errors
///
/// Why the packet is left to the kernel.
#[inline(always)]
pub fn run(skb: &mut Skb) -> Outcome {
    // Whoever is in the container may have written one. From here on the frame is known to have
    // come by this veth.
    skb.set_mark(marks::PASSED);
    let endpoint = maps::endpoint(skb.ifindex()).ok_or(Pass::Foreign)?;
    if skb.has_vlan() {
        return Err(Pass::Vlan);
    }
    let frame = Frame::read(skb)?;
    let outcome = match skb.ethertype() {
        ETHERTYPE_IPV4 => translated::<Ipv4>(skb, endpoint, &frame),
        ETHERTYPE_IPV6 => translated::<Ipv6>(skb, endpoint, &frame),
        _ => Err(Pass::NotIp),
    };
    match outcome {
        Err(Pass::Forged | Pass::WrongInterface) => {
            skb.set_mark(marks::REFUSED);
            outcome
        }
        Err(reason) => short_cut(skb, endpoint, &frame).ok_or(reason),
        sent => sent,
    }
}

/// The addresses of the Ethernet header.
struct Frame {
    destination: Mac,
    source: Mac,
}

impl Frame {
    #[inline(always)]
    fn read(skb: &Skb) -> Result<Self, Pass> {
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5] =
            skb.load(0).ok_or(Pass::Malformed)?;
        Ok(Self {
            destination: Mac { octets: [d0, d1, d2, d3, d4, d5] },
            source: Mac { octets: [s0, s1, s2, s3, s4, s5] },
        })
    }
}

/// A packet that is translated: of a conversation, or opening one.
#[inline(never)]
fn translated<A: Ip>(skb: &mut Skb, endpoint: &'static Endpoint, frame: &Frame) -> Outcome {
    let headers = Headers::<A>::read(skb, ETHERNET)?;
    let ifindex = skb.ifindex();
    source::check(skb, endpoint, ifindex, headers.key.source)?;
    let now = skb.now();
    let search = flow::find_of(headers, now, ifindex, endpoint);
    if search.noted {
        return Err(Pass::Noted);
    }
    if let Some(found) = search.found {
        if found.flow.from != ifindex {
            return Err(Pass::WrongInterface);
        }
        return continued(skb, headers, &found, now);
    }
    opened(skb, headers, endpoint, frame, now)
}

/// A packet of a conversation: this container's half of it, or its own as a client.
#[inline(never)]
fn continued<A: Ip>(skb: &mut Skb, headers: &Headers<A>, found: &Found<A>, now: u64) -> Outcome {
    follow(found, headers, now);
    translate(skb, headers, &found.tuple()).ok_or(Pass::Helper)?;
    if found.flow.opener == 0 {
        return deliver::back::<A>(skb, &found.flow.way, ETHERNET);
    }
    count(|counters| Some(&mut counters.delivered));
    deliver::into_container::<A>(skb, found.flow.endpoint, found.endpoint, ETHERNET)
}

/// A packet without a conversation: it may ask for a published port of this host.
#[inline(always)]
fn opened<A: Ip>(
    skb: &mut Skb,
    headers: &Headers<A>,
    endpoint: &Endpoint,
    frame: &Frame,
    now: u64,
) -> Outcome {
    let mapping = wanted(skb, headers, endpoint, frame)?;
    asks_for(skb.ifindex(), headers, mapping, now)?;
    open::open(skb, headers)?;
    deliver::opened::<A>(skb, headers, mapping)
}

/// Prepares the conversation of a container with a mapping.
#[inline(never)]
fn asks_for<A: Ip>(
    ifindex: u32,
    headers: &Headers<A>,
    mapping: &PortMapping<A>,
    now: u64,
) -> Result<(), Pass> {
    let itself = mapping.ifindex == ifindex;
    let snat = ports::client_address(mapping, headers.key.source, itself)?;
    let way = Way { ifindex, kind: WayKind::Container as u32, ..Way::default() };
    open::prepare(&open::Request { headers, mapping, snat, from: ifindex, way, now })
}

/// The published port of this host that a packet asks for.
#[inline(never)]
fn wanted<A: Ip>(
    skb: &Skb,
    headers: &Headers<A>,
    endpoint: &Endpoint,
    frame: &Frame,
) -> Result<&'static PortMapping<A>, Pass> {
    // Only frames to the gateway: what goes to a neighbour is no packet to this host.
    if frame.destination != endpoint.bridge_mac || headers.key.destination.is_loopback() {
        return Err(Pass::Foreign);
    }
    let published = ports::find(&headers.key)?;
    open::may_open(headers)?;
    let ifindex = skb.ifindex();
    let gateway = if endpoint.bridge == 0 { ifindex } else { endpoint.bridge };
    if !local::is_local(skb, &headers.key, gateway, published.wildcard) {
        return Err(Pass::NotLocal);
    }
    published.live()
}

/// A frame to a known neighbour on the same bridge. A source other than the endpoint's own MAC is
/// for the bridge to learn; where it is known behind another port, that short cut ends.
#[inline(always)]
fn short_cut(skb: &mut Skb, endpoint: &Endpoint, frame: &Frame) -> Option<Sent> {
    let bridge = endpoint.bridge;
    if frame.source != endpoint.mac {
        let key = FdbKey { bridge, mac: frame.source, padding: 0 };
        end_short_cut(&key, skb.ifindex());
        return None;
    }
    if endpoint.flags & endpoint_flags::SHORT_CUT == 0 {
        return None;
    }
    let neighbour = maps::fdb(&FdbKey { bridge, mac: frame.destination, padding: 0 })?;
    if neighbour.flags & fdb_flags::MOVED != 0 || neighbour.ifindex == skb.ifindex() {
        return None;
    }
    if !matches!(skb.ethertype(), ETHERTYPE_IPV4 | ETHERTYPE_IPV6) {
        return None;
    }
    let filtered = maps::settings()
        .is_none_or(|settings| settings.flags & settings_flags::BRIDGE_NETFILTER != 0);
    if filtered {
        return None;
    }
    count(|counters| Some(&mut counters.short_cut));
    if neighbour.flags & fdb_flags::TAP != 0 {
        skb.mark_sent();
        return Some(skb.redirect(neighbour.ifindex));
    }
    skb.redirect_into(neighbour.ifindex).ok()
}

/// A frame from `source` was seen at the port `ifindex`: where the MAC is another port's, the
/// bridge decides from now on.
#[inline(always)]
pub fn end_short_cut(source: &FdbKey, ifindex: u32) {
    if let Some(mut entry) = maps::fdb(source)
        && entry.ifindex != ifindex
        && entry.flags & fdb_flags::MOVED == 0
    {
        entry.flags |= fdb_flags::MOVED;
        maps::replace_fdb(source, &entry);
        count(|counters| Some(&mut counters.moved));
    }
}

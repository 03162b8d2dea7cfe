//! TC egress of each uplink and of our bridges: a reply that came through the stack is translated
//! back, and other people's conversations are noted.

use academy_common::{Ipv4, Ipv6, UplinkKind, marks};

use crate::{
    flow::{self, follow::follow, note},
    ip::{ETHERNET, ETHERTYPE_IPV4, ETHERTYPE_IPV6, Ip},
    maps,
    parse::Headers,
    pass::{Outcome, Pass},
    rewrite::translate,
    skb::Skb,
};

/// Runs the path. It sends nothing on: the packet goes its way, translated or not.
///
/// # Errors
///
/// Always: what became of the packet.
#[inline(always)]
pub fn run(skb: &mut Skb) -> Outcome {
    match skb.mark() {
        marks::SENT => {
            skb.clear_mark();
            return Err(Pass::Own);
        }
        // It is on its way as the container sent it, and belongs to nobody's conversation.
        marks::REFUSED => return Err(Pass::Forged),
        _ => {}
    }
    let uplink = maps::uplink(skb.ifindex()).ok_or(Pass::Foreign)?;
    let network = if uplink.kind == UplinkKind::Bare as u32 { 0 } else { ETHERNET };
    match skb.ethertype() {
        ETHERTYPE_IPV4 => path::<Ipv4>(skb, network),
        ETHERTYPE_IPV6 => path::<Ipv6>(skb, network),
        _ => Err(Pass::NotIp),
    }
}

#[inline(never)]
fn path<A: Ip>(skb: &mut Skb, network: usize) -> Outcome {
    let headers = Headers::<A>::read(skb, network)?;
    let now = skb.now();
    let search = flow::find(headers, now);
    if search.noted {
        return Err(Pass::Noted);
    }
    match search.found {
        Some(found) if found.flow.opener == 0 => {
            follow(&found, headers, now);
            translate(skb, headers, &found.tuple()).ok_or(Pass::Helper)?;
            Err(Pass::Returned)
        }
        Some(_) => Err(Pass::WrongInterface),
        None => {
            note::departure(headers, now);
            Err(Pass::Foreign)
        }
    }
}

//! Who a container may speak for (design rule 11).

use academy_common::Endpoint;

use crate::{ip::Ip, local, maps, pass::Pass, skb::Skb};

/// Whether a packet from an endpoint may have this source: an address of its own, or one that is
/// no other endpoint's and whose route leaves by its bridge (a nested bridge, a VIP).
///
/// # Errors
///
/// [`Pass::Forged`].
#[inline(always)]
pub fn check<A: Ip>(skb: &Skb, endpoint: &Endpoint, ifindex: u32, source: A) -> Result<(), Pass> {
    if source == A::first_address(endpoint) {
        return Ok(());
    }
    match maps::address_holder(source) {
        Some(holder) if holder == ifindex => Ok(()),
        Some(_) => Err(Pass::Forged),
        None if A::IS_IPV6 && source.is_link_local() => Ok(()),
        None if local::leaves_by(skb, source, endpoint.bridge) => Ok(()),
        None => Err(Pass::Forged),
    }
}

//! Somebody else's conversations whose own source is a published port: noted when they leave, so
//! that their replies are not taken for new clients of the container (design rule 3).
//!
//! One row is enough, under the key that the replies have.

use academy_common::{Flow, FlowKey, FlowState, FlowVerdict, seen};

use super::step::UDP_ESTABLISHED_AFTER;
use crate::{
    counters::count,
    ip::Ip,
    maps::{self, Row, Table},
    parse::Headers,
    ports,
};

/// How long a noted conversation without an answer counts, nanoseconds (nf_conntrack's
/// `nf_conntrack_udp_timeout`).
const UNANSWERED: u64 = 30_000_000_000;
/// How long an answered one counts (`nf_conntrack_udp_timeout_stream`).
const ANSWERED: u64 = 120_000_000_000;

/// Notes a conversation that leaves the host, if its source is a published port. Only what could
/// be taken for a new client needs it: datagrams, and for TCP the SYN, so that a port that a
/// translation could pick is known to be in use.
#[inline(never)]
pub fn departure<A: Ip>(headers: &Headers<A>, now: u64) {
    let key = &headers.key;
    if headers.is_tcp() && !headers.tcp.opens() {
        return;
    }
    if !ports::is_published(key.source, key.source_port, key.protocol) {
        return;
    }
    let reply = key.turned();
    if let Some((row, table)) = maps::find_flow(&reply) {
        let flow = row.read();
        if flow.verdict == FlowVerdict::Kernel as u8 {
            again(&reply, &row, table, &flow, headers, now);
        }
        return;
    }
    maps::with_scratch::<A, _>(|scratch| {
        scratch.forward = Flow {
            opened: now,
            last_seen: now,
            verdict: FlowVerdict::Kernel as u8,
            state: FlowState::Opening as u8,
            ..Flow::default()
        };
        if maps::claim_flow(Table::Opening, &reply, &scratch.forward).is_ok() {
            count(|counters| Some(&mut counters.noted));
        }
    });
}

/// The noted side speaks again: an answered conversation that lasts moves to `flows`, where no
/// flood pushes it out.
#[inline(always)]
fn again<A: Ip>(
    reply: &FlowKey<A>,
    row: &Row<A>,
    table: Table,
    flow: &Flow<A>,
    headers: &Headers<A>,
    now: u64,
) {
    row.touch(now);
    let lasts = now.wrapping_sub(flow.opened) >= UDP_ESTABLISHED_AFTER;
    if table == Table::Flows || headers.is_tcp() || flow.seen & seen::SPOKE == 0 || !lasts {
        return;
    }
    maps::with_scratch::<A, _>(|scratch| {
        scratch.forward = *flow;
        scratch.forward.last_seen = now;
        scratch.forward.state = FlowState::Established as u8;
        let _ = maps::claim_flow(Table::Flows, reply, &scratch.forward);
    });
}

/// Whether a noted conversation, of which a packet may be a reply, still counts: then the packet
/// is the kernel's. An expired note is removed.
#[inline(always)]
pub fn counts<A: Ip>(
    row: &Row<A>,
    table: Table,
    flow: &Flow<A>,
    headers: &Headers<A>,
    now: u64,
) -> bool {
    let limit = if flow.seen & seen::SPOKE == 0 { UNANSWERED } else { ANSWERED };
    if now.wrapping_sub(flow.last_seen) > limit {
        maps::remove_flow(table, &headers.key);
        return false;
    }
    row.touch(now);
    row.set_seen(flow.seen | seen::SPOKE);
    true
}

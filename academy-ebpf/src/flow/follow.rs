//! Follows a conversation: notes what its packets say, and moves it between the tables.

use academy_common::{Flow, FlowKey, FlowState, Way};

use super::{
    Found,
    step::{Change, may_change, step},
};
use crate::{
    counters::count,
    ip::Ip,
    maps::{self, Table},
    parse::{Headers, tcp_flags},
};

/// How stale "last seen" may get before it is written again, nanoseconds: a write per packet
/// would move the row's cache line between CPUs.
const TOUCH_EVERY: u64 = 1_000_000_000;
/// `-EEXIST`: another CPU was faster.
const EXISTS: i32 = -17;

/// Brings the conversation up to date with a packet of it.
#[inline(always)]
pub fn follow<A: Ip>(found: &Found<A>, headers: &Headers<A>, now: u64) {
    let Found { row, flow, .. } = found;
    let table = found.table();
    if now.wrapping_sub(flow.last_seen) >= TOUCH_EVERY {
        row.touch(now);
    }
    let tcp = headers.is_tcp();
    if tcp && headers.tcp.has(tcp_flags::ACK) && headers.tcp.acknowledgement != flow.acknowledged {
        row.acknowledge(headers.tcp.acknowledgement);
    }
    if may_change(flow, table, headers) {
        change(found, headers, tcp, now);
    }
}

/// Takes over another way to the opener, in both rows as a whole: a way written in place could end
/// up in somebody else's row.
#[inline(always)]
pub fn refresh_way<A: Ip>(found: &Found<A>, headers: &Headers<A>, way: &Way) {
    let key = found.flow.other_key(headers.key.protocol);
    let Some(other) = maps::flow_in(found.table(), &key) else {
        return;
    };
    maps::with_scratch::<A, _>(|scratch| {
        scratch.reverse = other.read();
        scratch.reverse.way = *way;
        scratch.forward = *found.flow;
        scratch.forward.way = *way;
        let _ = maps::replace_flow(found.table(), &key, &scratch.reverse);
        let _ = maps::replace_flow(found.table(), &headers.key, &scratch.forward);
    });
}

#[inline(never)]
fn change<A: Ip>(found: &Found<A>, headers: &Headers<A>, tcp: bool, now: u64) {
    let Found { row, flow, .. } = found;
    let table = found.table();
    let key = flow.other_key(headers.key.protocol);
    let Some(other) = maps::flow_in(table, &key) else {
        return;
    };
    let Some(other) = maps::keep_other(&other) else {
        return;
    };
    if tcp && headers.tcp.has(tcp_flags::SYN) {
        row.expect(headers.tcp.sequence.wrapping_add(1));
    }
    let step = step(flow, other, table, headers, tcp, now);
    if step.seen != flow.seen {
        row.set_seen(step.seen);
    }
    let state = match step.change {
        Change::Stay => return,
        Change::Establish => FlowState::Established,
        Change::Close => FlowState::Closing,
    };
    relocate(found, headers, &key, other, step.seen, state, now);
}

/// Writes both rows to the table that `state` says. Established: the answering side's row first,
/// undone where the second does not fit; the rows in `opening` age out. Closing: into `opening`,
/// for the last packets, then away from `flows`.
#[inline(always)]
fn relocate<A: Ip>(
    found: &Found<A>,
    headers: &Headers<A>,
    other_key: &FlowKey<A>,
    other: &Flow<A>,
    seen: u8,
    state: FlowState,
    now: u64,
) {
    let key = &headers.key;
    maps::with_scratch::<A, _>(|scratch| {
        scratch.forward = *found.flow;
        scratch.forward.state = state as u8;
        scratch.forward.seen = seen;
        scratch.forward.last_seen = now;
        if headers.is_tcp() {
            scratch.forward.acknowledged = headers.tcp.acknowledgement;
        }
        scratch.reverse = *other;
        scratch.reverse.state = state as u8;
        if matches!(state, FlowState::Established) {
            establish(key, &scratch.forward, other_key, &scratch.reverse);
            return;
        }
        let _ = maps::put_flow(Table::Opening, other_key, &scratch.reverse);
        let _ = maps::put_flow(Table::Opening, key, &scratch.forward);
        if found.table() == Table::Flows {
            maps::remove_flow(Table::Flows, other_key);
            maps::remove_flow(Table::Flows, key);
        }
        count(|counters| Some(&mut counters.closed));
    });
}

#[inline(always)]
fn establish<A: Ip>(key: &FlowKey<A>, flow: &Flow<A>, other_key: &FlowKey<A>, other: &Flow<A>) {
    match maps::claim_flow(Table::Flows, other_key, other) {
        Ok(()) => {}
        Err(EXISTS) => return,
        Err(_) => {
            count(|counters| Some(&mut counters.flows_full));
            return;
        }
    }
    match maps::claim_flow(Table::Flows, key, flow) {
        Ok(()) => count(|counters| Some(&mut counters.established)),
        Err(_) => {
            maps::remove_flow(Table::Flows, other_key);
            count(|counters| Some(&mut counters.flows_full));
        }
    }
}

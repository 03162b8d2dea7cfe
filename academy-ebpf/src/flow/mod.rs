//! Conversations: finding them, opening them, following them until they close.

pub mod follow;
pub mod note;
pub mod open;
pub mod step;

use academy_common::{Endpoint, Flow, FlowKey, FlowState, FlowVerdict};

use crate::{
    counters::count,
    ip::Ip,
    maps::{self, Row, Table},
    parse::Headers,
    rewrite::Tuple,
};

/// A live conversation that a packet belongs to.
pub struct Found<A: 'static> {
    /// The row of the packet's direction, in place.
    pub row: Row<A>,
    /// A copy of the row.
    pub flow: &'static Flow<A>,
    /// The endpoint that the conversation is with.
    pub endpoint: &'static Endpoint,
}

impl<A: Ip> Found<A> {
    /// The table that the row is in: its state says so.
    #[inline(always)]
    #[must_use]
    pub fn table(&self) -> Table {
        if self.flow.state == FlowState::Established as u8 { Table::Flows } else { Table::Opening }
    }

    /// What the packet's addresses and ports become.
    #[inline(always)]
    #[must_use]
    pub fn tuple(&self) -> Tuple<A> {
        Tuple::of(self.flow)
    }
}

/// What is known of a packet's conversation. Two plain fields: the verifier follows no enum in an
/// enum, whose tags hide in pointers.
pub struct Search<A: 'static> {
    /// The live conversation that the packet belongs to.
    pub found: Option<Found<A>>,
    /// It is somebody else's conversation.
    pub noted: bool,
}

/// Finds the live conversation of a packet. Rows made under a dead endpoint, and closed ones that
/// a SYN reuses, are removed in passing and count as none.
#[inline(always)]
pub fn find<A: Ip>(headers: &Headers<A>, now: u64) -> Search<A> {
    find_by(headers, now, endpoint_of)
}

/// [`find`] for a packet of the endpoint at `ifindex`, which is at hand: most of its conversations
/// are with itself, and need no other look-up.
#[inline(always)]
pub fn find_of<A: Ip>(
    headers: &Headers<A>,
    now: u64,
    ifindex: u32,
    endpoint: &'static Endpoint,
) -> Search<A> {
    find_by(headers, now, |flow| {
        if flow.endpoint == ifindex && flow.generation == endpoint.generation {
            return Some(endpoint);
        }
        endpoint_of(flow)
    })
}

#[inline(always)]
fn find_by<A: Ip>(
    headers: &Headers<A>,
    now: u64,
    endpoint_of: impl FnOnce(&Flow<A>) -> Option<&'static Endpoint>,
) -> Search<A> {
    let none = Search { found: None, noted: false };
    let Some((row, table)) = maps::find_flow(&headers.key) else {
        return none;
    };
    let Some(flow) = maps::keep(&row) else {
        return none;
    };
    if flow.verdict == FlowVerdict::Kernel as u8 {
        return Search { noted: note::counts(&row, table, flow, headers, now), ..none };
    }
    let endpoint = endpoint_of(flow);
    let reused = flow.state == FlowState::Closing as u8 && headers.tcp.opens();
    match endpoint {
        Some(endpoint) if !reused => {
            Search { found: Some(Found { row, flow, endpoint }), noted: false }
        }
        _ => {
            forget(&headers.key, flow);
            none
        }
    }
}

/// The endpoint that a conversation is with, if it still is the one that it was opened with.
#[inline(always)]
#[must_use]
pub fn endpoint_of<A: Ip>(flow: &Flow<A>) -> Option<&'static Endpoint> {
    maps::endpoint(flow.endpoint).filter(|endpoint| endpoint.generation == flow.generation)
}

/// Removes both rows of a conversation, wherever they are.
#[inline(never)]
pub fn forget<A: Ip>(key: &FlowKey<A>, flow: &Flow<A>) {
    let other = flow.other_key(key.protocol);
    for table in [Table::Flows, Table::Opening] {
        maps::remove_flow(table, key);
        maps::remove_flow(table, &other);
    }
    count(|counters| Some(&mut counters.dead_rows));
}

//! Opens a conversation: both rows in `opening`, and a source port that is nobody else's.

use academy_common::{
    Be16, Flow, FlowKey, FlowState, FlowVerdict, PortMapping, Scratch, Way, seen,
};
use aya_ebpf::bindings::bpf_sock_tuple as SocketTuple;

use super::{endpoint_of, forget};
use crate::{
    counters::count,
    ip::Ip,
    maps::{self, Table},
    parse::Headers,
    pass::Pass,
    skb::Skb,
};

/// How many source ports are tried.
const ATTEMPTS: u32 = 16;
/// From this attempt on, a closing conversation's port may be taken.
const TAKE_CLOSING_FROM: u32 = 8;
/// `-EEXIST`.
const EXISTS: i32 = -17;

/// Who opens what.
pub struct Request<'a, A> {
    /// The packet's headers.
    pub headers: &'a Headers<A>,
    /// The published port it asks for.
    pub mapping: &'a PortMapping<A>,
    /// What the client appears as, if not as itself.
    pub snat: Option<A>,
    /// The interface that the client's packets must come by; 0: any uplink.
    pub from: u32,
    /// How to reach the client.
    pub way: Way,
    /// CLOCK_MONOTONIC, nanoseconds.
    pub now: u64,
}

/// Opens the conversation that [`prepare`] has put into this CPU's scratch rows.
///
/// # Errors
///
/// [`Pass::NoPort`] and [`Pass::TableFull`].
#[inline(never)]
pub fn open<A: Ip>(skb: &Skb, headers: &Headers<A>) -> Result<(), Pass> {
    maps::with_scratch::<A, _>(|scratch| {
        claim_port(skb, scratch, &headers.key)?;
        maps::put_flow(Table::Opening, &headers.key, &scratch.forward).map_err(|_| {
            maps::remove_flow(Table::Opening, &scratch.reverse_key);
            Pass::TableFull
        })
    })
    .ok_or(Pass::Helper)??;
    count(|counters| Some(&mut counters.opened));
    Ok(())
}

/// Puts both rows into this CPU's scratch, with the client's own source port, for [`open`].
///
/// # Errors
///
/// [`Pass::Helper`].
#[inline(always)]
pub fn prepare<A: Ip>(request: &Request<'_, A>) -> Result<(), Pass> {
    maps::with_scratch::<A, _>(|scratch| fill(scratch, request)).ok_or(Pass::Helper)
}

#[inline(always)]
fn fill<A: Ip>(scratch: &mut Scratch<A>, request: &Request<'_, A>) {
    let Request { headers, mapping, .. } = request;
    let key = &headers.key;
    let client = request.snat.unwrap_or(key.source);
    scratch.forward = Flow {
        generation: mapping.generation,
        opened: request.now,
        last_seen: request.now,
        source: client,
        destination: mapping.address,
        source_port: key.source_port,
        destination_port: mapping.port,
        endpoint: mapping.ifindex,
        from: request.from,
        acknowledged: 0,
        expected: headers.tcp.sequence.wrapping_add(1),
        way: request.way,
        verdict: FlowVerdict::Translate as u8,
        state: FlowState::Opening as u8,
        seen: seen::SPOKE,
        opener: 1,
        padding: 0,
    };
    scratch.reverse = Flow {
        source: key.destination,
        destination: key.source,
        source_port: key.destination_port,
        destination_port: key.source_port,
        from: mapping.ifindex,
        expected: 0,
        seen: 0,
        opener: 0,
        ..scratch.forward
    };
    scratch.reverse_key = FlowKey {
        source: mapping.address,
        destination: client,
        source_port: mapping.port,
        destination_port: key.source_port,
        protocol: key.protocol,
        padding: [0; 3],
    };
}

/// Claims the reverse row: with the client's own port where its address is kept, else, or where
/// that one is taken, with one of the host's range for translated clients.
#[inline(always)]
fn claim_port<A: Ip>(skb: &Skb, scratch: &mut Scratch<A>, key: &FlowKey<A>) -> Result<(), Pass> {
    let translated = scratch.forward.source != key.source;
    for attempt in 0..=ATTEMPTS {
        if attempt != 0 || translated {
            let port = any_port(skb)?;
            scratch.forward.source_port = port;
            scratch.reverse_key.destination_port = port;
        }
        if translated && is_socket_of_host(skb, &scratch.reverse_key) {
            continue;
        }
        match claim(scratch, key, attempt > TAKE_CLOSING_FROM) {
            Claim::Done => return Ok(()),
            Claim::Full => return Err(Pass::TableFull),
            Claim::Taken => {}
        }
    }
    Err(Pass::NoPort)
}

/// A port of the host's range for translated clients.
#[inline(always)]
fn any_port(skb: &Skb) -> Result<Be16, Pass> {
    let settings = maps::settings().ok_or(Pass::NoPort)?;
    let first = u32::from(settings.snat_port_first);
    let last = u32::from(settings.snat_port_last);
    if first == 0 || last < first {
        return Err(Pass::NoPort);
    }
    // Never a division by zero, and so that the compiler knows.
    let offset = skb.random().checked_rem(last - first + 1).ok_or(Pass::NoPort)?;
    Ok(Be16::new((first + offset) as u16))
}

enum Claim {
    Done,
    Taken,
    Full,
}

/// Claims the reverse row as it stands in `scratch`. A row that another CPU has just made for the
/// same conversation, and a dead one, are no obstacle.
#[inline(always)]
fn claim<A: Ip>(scratch: &Scratch<A>, key: &FlowKey<A>, take_closing: bool) -> Claim {
    let reverse_key = &scratch.reverse_key;
    if let Some(row) = maps::flow_in(Table::Flows, reverse_key) {
        match maps::keep_other(&row) {
            Some(holder) if is_free(holder, key, take_closing) => forget(reverse_key, holder),
            _ => return Claim::Taken,
        }
    }
    match maps::claim_flow(Table::Opening, reverse_key, &scratch.reverse) {
        Ok(()) => return Claim::Done,
        Err(EXISTS) => {}
        Err(_) => return Claim::Full,
    }
    let free = match maps::flow_in(Table::Opening, reverse_key) {
        None => true,
        Some(row) => {
            maps::keep_other(&row).is_some_and(|holder| is_free(holder, key, take_closing))
        }
    };
    if !free {
        return Claim::Taken;
    }
    match maps::put_flow(Table::Opening, reverse_key, &scratch.reverse) {
        Ok(()) => Claim::Done,
        Err(_) => Claim::Full,
    }
}

/// Whether the holder of a reverse row gives way: it is this very conversation, or dead.
#[inline(always)]
fn is_free<A: Ip>(holder: &Flow<A>, key: &FlowKey<A>, take_closing: bool) -> bool {
    if holder.verdict == FlowVerdict::Kernel as u8 {
        return false;
    }
    let same = holder.source == key.destination
        && holder.destination == key.source
        && holder.source_port == key.destination_port
        && holder.destination_port == key.source_port;
    let closing = holder.state == FlowState::Closing as u8;
    same || (closing && take_closing) || endpoint_of(holder).is_none()
}

/// Whether a socket of the host would take the container's replies to this address and port: a
/// process may talk to the container directly, from the address that clients appear as.
#[inline(never)]
fn is_socket_of_host<A: Ip>(skb: &Skb, reply: &FlowKey<A>) -> bool {
    // SAFETY: the tuple is plain bytes, for which all zero is a value.
    let mut tuple: SocketTuple = unsafe { core::mem::zeroed() };
    let size = A::socket_tuple(reply, &mut tuple);
    skb.has_socket(reply.protocol == academy_common::protocol::TCP, &mut tuple, size)
}

/// Whether a packet may open a conversation: a SYN without ACK, or a datagram.
///
/// # Errors
///
/// [`Pass::NoFlow`] for any other TCP packet.
#[inline(always)]
pub fn may_open<A: Ip>(headers: &Headers<A>) -> Result<(), Pass> {
    if headers.is_tcp() && !headers.tcp.opens() {
        return Err(Pass::NoFlow);
    }
    Ok(())
}

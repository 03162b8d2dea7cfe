//! Rows of conversations that are over, removed in passing.

use std::collections::HashMap as Map;

use academy_common::{Flow, FlowKey, FlowState, FlowVerdict, Ipv4, Ipv6, protocol, seen};
use aya::{Pod, maps::HashMap};

use super::{
    Datapath,
    batch::{self, Walk},
    pins::fail,
    ports::is_absent,
    rows::Rows,
};
use crate::{error::Result, random};

const SECOND: u64 = 1_000_000_000;
/// Idle times, as nf_conntrack's.
const TCP_ESTABLISHED: u64 = 432_000 * SECOND;
const TCP_OPENING: u64 = 120 * SECOND;
const TCP_CLOSING: u64 = 120 * SECOND;
/// The shortest of all.
const UDP_ONE_WAY: u64 = 30 * SECOND;
const UDP_BOTH_WAYS: u64 = 120 * SECOND;

/// How much of the tables is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sweep {
    /// One batch of each, somewhere: what every ADD and DEL can spend.
    Some,
    /// Everything.
    All,
}

impl Datapath {
    /// Removes rows of dead and idle conversations. How many it was.
    ///
    /// # Errors
    /// Code 5 when the kernel does not let the maps be read or written.
    pub fn sweep(&mut self, sweep: Sweep) -> Result<usize> {
        let walk = match sweep {
            Sweep::All => Walk::Whole,
            Sweep::Some => Walk::From(random::number()? as u32),
        };
        let endpoints = self.endpoints()?;
        let live: Map<u32, u64> =
            endpoints.iter().map(|(index, row)| (*index, row.generation)).collect();
        let mut removed = 0;
        for name in [Ipv4::OPENING, Ipv4::FLOWS] {
            removed += self.sweep_map::<Ipv4>(name, &live, walk)?;
        }
        for name in [Ipv6::OPENING, Ipv6::FLOWS] {
            removed += self.sweep_map::<Ipv6>(name, &live, walk)?;
        }
        Ok(removed)
    }

    fn sweep_map<A: Rows>(&self, name: &str, live: &Map<u32, u64>, walk: Walk) -> Result<usize>
    where
        FlowKey<A>: Pod,
        Flow<A>: Pod,
    {
        let found = batch::rows::<FlowKey<A>, Flow<A>>(&self.map(name)?, name, walk)?;
        let now = monotonic();
        let mut rows: HashMap<_, FlowKey<A>, Flow<A>> = self.hash(name)?;
        let mut removed = 0;
        for (key, flow) in found {
            let other = || rows.get(&flow.other_key(key.protocol), 0).ok();
            if !is_over(&key, &flow, other, live, now) {
                continue;
            }
            match rows.remove(&key) {
                Ok(()) => removed += 1,
                Err(error) if is_absent(&error) => {}
                Err(error) => return Err(fail("remove from", name, &error)),
            }
        }
        Ok(removed)
    }
}

/// Whether a conversation is over: its endpoint is gone, or neither side has spoken for long. One
/// side alone may be silent for as long as it likes, as in a stream of datagrams without answers.
fn is_over<A>(
    key: &FlowKey<A>,
    flow: &Flow<A>,
    other: impl FnOnce() -> Option<Flow<A>>,
    live: &Map<u32, u64>,
    now: u64,
) -> bool {
    let translated = flow.verdict == FlowVerdict::Translate as u8;
    if translated && live.get(&flow.endpoint) != Some(&flow.generation) {
        return true;
    }
    if now.saturating_sub(flow.last_seen) <= UDP_ONE_WAY {
        return false;
    }
    let other = other();
    let spoke = other.as_ref().map_or(0, |other| other.last_seen);
    let idle = now.saturating_sub(flow.last_seen.max(spoke));
    idle > idle_limit(key.protocol, flow, other.as_ref())
}

/// How long both sides may be silent, nanoseconds.
fn idle_limit<A>(transport: u8, flow: &Flow<A>, other: Option<&Flow<A>>) -> u64 {
    if transport == protocol::TCP {
        let reset = flow.seen | other.map_or(0, |other| other.seen);
        if flow.state == FlowState::Closing as u8 {
            TCP_CLOSING
        } else if flow.state == FlowState::Opening as u8 || reset & seen::RST != 0 {
            TCP_OPENING
        } else {
            TCP_ESTABLISHED
        }
    } else if flow.seen & other.map_or(u8::MAX, |other| other.seen) & seen::SPOKE == 0 {
        UDP_ONE_WAY
    } else {
        UDP_BOTH_WAYS
    }
}

/// CLOCK_MONOTONIC, nanoseconds, as the programs have it.
fn monotonic() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists, and the kernel fills in one `timespec`.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.unsigned_abs() * SECOND + time.tv_nsec.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000_000 * SECOND;

    fn row(endpoint: u32, last_seen_ago: u64, seen: u8) -> Flow<Ipv4> {
        Flow {
            endpoint,
            generation: 7,
            last_seen: NOW - last_seen_ago,
            seen,
            verdict: FlowVerdict::Translate as u8,
            state: FlowState::Opening as u8,
            ..Flow::default()
        }
    }

    fn udp() -> FlowKey<Ipv4> {
        FlowKey { protocol: protocol::UDP, ..FlowKey::default() }
    }

    fn live() -> Map<u32, u64> {
        Map::from([(3, 7)])
    }

    #[test]
    fn a_row_of_a_gone_or_another_endpoint_is_over() {
        let spoke = row(3, 0, seen::SPOKE);
        assert!(!is_over(&udp(), &spoke, || None, &live(), NOW));
        assert!(is_over(&udp(), &row(4, 0, seen::SPOKE), || None, &live(), NOW));
        assert!(is_over(&udp(), &spoke, || None, &Map::from([(3, 8)]), NOW));
    }

    #[test]
    fn a_silent_side_keeps_its_row_while_the_other_one_speaks() {
        let silent = row(3, 10 * UDP_BOTH_WAYS, 0);
        let speaks = row(3, 0, seen::SPOKE);
        assert!(!is_over(&udp(), &silent, || Some(speaks), &live(), NOW));
        assert!(!is_over(&udp(), &speaks, || Some(silent), &live(), NOW));
    }

    #[test]
    fn an_exchange_without_an_answer_is_over_sooner() {
        let asked = row(3, UDP_ONE_WAY + 1, seen::SPOKE);
        let silent = row(3, UDP_ONE_WAY + 1, 0);
        let answered = row(3, UDP_ONE_WAY + 1, seen::SPOKE);
        assert!(is_over(&udp(), &asked, || Some(silent), &live(), NOW));
        assert!(!is_over(&udp(), &asked, || Some(answered), &live(), NOW));
    }
}

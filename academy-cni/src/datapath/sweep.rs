//! Rows of conversations that are over, removed in passing.

use std::collections::HashMap as Map;

use academy_common::{Flow, FlowKey, FlowState, FlowVerdict, Ipv4, Ipv6, protocol, seen};
use aya::{Pod, maps::HashMap};

use super::{Datapath, pins::fail, ports::is_absent, rows::Rows};
use crate::error::Result;

const SECOND: u64 = 1_000_000_000;
/// Idle times, as nf_conntrack's.
const TCP_ESTABLISHED: u64 = 432_000 * SECOND;
const TCP_OPENING: u64 = 120 * SECOND;
const TCP_CLOSING: u64 = 120 * SECOND;
const UDP_ONE_WAY: u64 = 30 * SECOND;
const UDP_BOTH_WAYS: u64 = 120 * SECOND;
/// How many rows are looked at for one that may be removed.
const LOOKS: usize = 16;

impl Datapath {
    /// Removes dead and idle rows: at most `budget`, so that no call takes long. How many it was.
    ///
    /// # Errors
    /// Code 5 when the kernel does not let the maps be read or written.
    pub fn sweep(&mut self, budget: usize) -> Result<usize> {
        let endpoints = self.endpoints()?;
        let live: Map<u32, u64> =
            endpoints.iter().map(|(index, row)| (*index, row.generation)).collect();
        let mut removed = 0;
        for name in [Ipv4::OPENING, Ipv4::FLOWS] {
            removed += self.sweep_map::<Ipv4>(name, &live, budget - removed)?;
        }
        for name in [Ipv6::OPENING, Ipv6::FLOWS] {
            removed += self.sweep_map::<Ipv6>(name, &live, budget - removed)?;
        }
        Ok(removed)
    }

    fn sweep_map<A: Rows>(&self, name: &str, live: &Map<u32, u64>, budget: usize) -> Result<usize>
    where
        FlowKey<A>: Pod,
        Flow<A>: Pod,
    {
        let mut rows: HashMap<_, FlowKey<A>, Flow<A>> = self.hash(name)?;
        let now = monotonic();
        let mut dead = Vec::new();
        for row in rows.iter().take(budget * LOOKS) {
            // Programs insert and remove meanwhile: a walk that loses its place ends.
            let Ok((key, flow)) = row else { break };
            if is_over(&key, &flow, live, now) {
                dead.push(key);
                if dead.len() == budget {
                    break;
                }
            }
        }
        for key in &dead {
            match rows.remove(key) {
                Err(error) if !is_absent(&error) => return Err(fail("remove from", name, &error)),
                _ => {}
            }
        }
        Ok(dead.len())
    }
}

fn is_over<A>(key: &FlowKey<A>, flow: &Flow<A>, live: &Map<u32, u64>, now: u64) -> bool {
    let translated = flow.verdict == FlowVerdict::Translate as u8;
    if translated && live.get(&flow.endpoint) != Some(&flow.generation) {
        return true;
    }
    let state = flow.state;
    let limit = if key.protocol == protocol::TCP {
        if state == FlowState::Closing as u8 {
            TCP_CLOSING
        } else if state == FlowState::Opening as u8 || flow.seen & seen::RST != 0 {
            TCP_OPENING
        } else {
            TCP_ESTABLISHED
        }
    } else if flow.seen & seen::SPOKE == 0 {
        UDP_ONE_WAY
    } else {
        UDP_BOTH_WAYS
    };
    now.saturating_sub(flow.last_seen) > limit
}

/// CLOCK_MONOTONIC, nanoseconds, as the programs have it.
fn monotonic() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists, and the kernel fills in one `timespec`.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.unsigned_abs() * SECOND + time.tv_nsec.unsigned_abs()
}

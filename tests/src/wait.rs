//! Waiting for a condition, never for a time.

use std::{
    thread,
    time::{Duration, Instant},
};

/// How long anything that has to happen may take on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(20);
/// How long a client waits before it calls the other side silent.
pub const SILENCE: Duration = Duration::from_millis(300);
/// How long a client waits for an answer that has to come.
pub const PATIENCE: Duration = Duration::from_secs(3);

const POLL: Duration = Duration::from_millis(2);

/// Asks `probe` until it gives something, at most for `deadline`.
pub fn within<T>(deadline: Duration, mut probe: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + deadline;
    loop {
        if let Some(found) = probe() {
            return Some(found);
        }
        if Instant::now() >= end {
            return None;
        }
        thread::sleep(POLL);
    }
}

/// Asks `probe` until it gives something.
///
/// # Panics
/// After [`DEADLINE`].
#[track_caller]
pub fn until<T>(what: &str, probe: impl FnMut() -> Option<T>) -> T {
    within(DEADLINE, probe).unwrap_or_else(|| panic!("waited {DEADLINE:?} in vain: {what}"))
}

//! One number per verdict and per reason.

use academy_common::Counters;

use crate::maps;

/// Adds one to the counter that `field` picks.
#[inline(always)]
pub fn count(field: impl FnOnce(&mut Counters) -> Option<&mut u64>) {
    maps::with_counters(|counters| {
        if let Some(counter) = field(counters) {
            *counter = counter.wrapping_add(1);
        }
    });
}

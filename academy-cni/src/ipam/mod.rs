//! Address management as `host-local` does it: which addresses there are, who has them.

#![forbid(unsafe_code)]

mod allocate;
mod cleanup;
mod directory;
mod lease;
mod range;
mod resolv;
mod store;

pub use allocate::{Allocation, allocate};
pub use cleanup::remove_spare;
pub use lease::{Holder, Lease};
pub use range::{Range, RangeSet, check_overlaps};
pub use resolv::{parse as parse_resolv_conf, read as read_resolv_conf};
pub use store::Store;

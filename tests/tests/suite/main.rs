//! The integration tests: the built plugin, real packets, real runtimes. One binary, since its
//! tests wait more than they work, and run side by side.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod bad_input;
mod boundaries;
mod bridge_ports;
mod check;
mod cnitool;
mod conflicts;
mod containerd;
mod del;
mod failed_add;
mod foreign_programs;
mod forgeries;
mod gc;
mod host;
mod host_addresses;
mod host_ports;
mod layer2;
mod maps;
mod others_traffic;
mod protocol;
mod reference;
mod replacement;
mod requests;
mod results;
mod sizes;

/// The program that listens in a process of its own.
const PEER: &str = env!("CARGO_BIN_EXE_peer");

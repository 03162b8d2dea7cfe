//! What the integration tests share: machines made of network namespaces, the runtime's side of
//! CNI, clients and servers that say whom they saw, raw frames, and what is left afterwards.
//!
//! Every test makes a [`Lab`] of its own: a namespace that plays the host, a bpffs, a run and a
//! state directory, an outside client. So tests run side by side, and nothing of the machine's
//! own network is touched. All of it goes when the lab is dropped, also on panic.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

pub mod ask;
pub mod attached;
pub mod cni;
pub mod device;
pub mod foreign;
pub mod leak;
pub mod maps;
pub mod netns;
pub mod network;
pub mod packet;
pub mod process;
pub mod report;
pub mod serve;
pub mod tools;
pub mod topology;

pub mod wait;

pub use ask::{Answer, Case, Conversation, Family, Protocol, Query, Reply};
pub use attached::{Attached, Container};
pub use cni::{Call, Outcome};
pub use netns::Netns;
pub use network::{Mapping, Network, Plugin};
pub use process::Listener;
pub use report::Report;
pub use serve::Server;
pub use topology::Lab;

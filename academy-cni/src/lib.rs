//! academy: a CNI plugin that gives a container its network and its published ports, and forwards
//! the packets in eBPF.

pub mod attachment;
pub mod commands;
pub mod config;
pub mod datapath;
pub mod error;
pub mod files;
pub mod host;
pub mod ipam;
pub mod lock;
pub mod netlink;
pub mod netns;
pub mod paths;
pub mod random;
pub mod record;
pub mod report;
pub mod sockets;
pub mod spec;
pub mod sysctl;
#[cfg(test)]
mod testing;
#[cfg(feature = "trace")]
pub mod trace;
pub mod undo;

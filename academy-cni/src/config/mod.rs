//! The network configuration.

#![forbid(unsafe_code)]

mod fields;
mod ipam;
mod json;
mod later;
mod network;
mod ports;
mod removal;

pub(crate) use fields::Fields;
pub use fields::{Mac, mac_text, parse_address, parse_mac};
pub use ipam::{IpamConfig, RequestSource, RequestedAddress};
pub use json::Json;
pub use network::NetworkConfig;
pub use ports::PortRequest;
pub use removal::TeardownConfig;

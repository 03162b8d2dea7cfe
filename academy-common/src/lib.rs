//! The layouts that academy's eBPF programs and its user-space side share.
//!
//! Everything here is `#[repr(C)]`, without implicit padding (`bytemuck::Pod` refuses it), and
//! checked for its size at compile time: these bytes outlive the process that wrote them, in maps
//! pinned below [`LAYOUT_VERSION`]. Addresses and ports are kept as the wire has them; the type
//! says so.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_op_in_unsafe_fn)]

mod counters;
mod endpoint;
mod family;
mod fdb;
mod flow;
mod local;
pub mod marks;
mod ports;
mod rows;
mod settings;
mod uplink;
#[cfg(feature = "user")]
mod user;
mod wire;

pub use counters::Counters;
pub use endpoint::{Endpoint, EndpointAddress, EndpointAddressKey, EndpointKey, endpoint_flags};
pub use family::Family;
pub use fdb::{FdbEntry, FdbKey, fdb_flags};
pub use flow::{Flow, FlowKey, FlowState, FlowVerdict, Scratch, Way, WayKind, seen};
pub use local::LocalKey;
pub use ports::{PortKey, PortMapping, PortVerdict, port_flags};
pub use settings::{Settings, settings_flags};
pub use uplink::{Uplink, UplinkKey, UplinkKind};
pub use wire::{Be16, Ipv4, Ipv6, Mac, protocol};

/// The version of the layouts in this crate, the `N` of `<bpffs>/v<N>`.
///
/// A change of any key or value here is a new version; the spare fields of [`Counters`] and
/// [`Settings`] are there so that a new reason or a new setting is not.
pub const LAYOUT_VERSION: u32 = 1;

/// Names of the maps, as they are in the object, in bpffs and in `bpftool map show`.
pub mod map_names {
    /// [`crate::EndpointKey`] → [`crate::Endpoint`].
    pub const ENDPOINTS: &str = "endpoints";
    /// Private: [`crate::EndpointAddressKey`] of IPv4 → [`crate::EndpointAddress`].
    pub const ADDRESSES4: &str = "addresses4";
    /// Private: [`crate::EndpointAddressKey`] of IPv6 → [`crate::EndpointAddress`].
    pub const ADDRESSES6: &str = "addresses6";
    /// [`crate::FdbKey`] → [`crate::FdbEntry`].
    pub const FDB: &str = "fdb";
    /// [`crate::PortKey`] of IPv4 → [`crate::PortMapping`].
    pub const PORTS4: &str = "ports4";
    /// [`crate::PortKey`] of IPv6 → [`crate::PortMapping`].
    pub const PORTS6: &str = "ports6";
    /// Half-open conversations of IPv4: [`crate::FlowKey`] → [`crate::Flow`], LRU.
    pub const OPENING4: &str = "opening4";
    /// Half-open conversations of IPv6: [`crate::FlowKey`] → [`crate::Flow`], LRU.
    pub const OPENING6: &str = "opening6";
    /// Established conversations of IPv4: [`crate::FlowKey`] → [`crate::Flow`].
    pub const FLOWS4: &str = "flows4";
    /// Established conversations of IPv6: [`crate::FlowKey`] → [`crate::Flow`].
    pub const FLOWS6: &str = "flows6";
    /// Private: [`crate::UplinkKey`] → [`crate::Uplink`].
    pub const UPLINKS: &str = "uplinks";
    /// Private: IPv4 addresses that a wildcard means while `kube-ipvs0` exists.
    pub const LOCAL4: &str = "local4";
    /// Private: IPv6 addresses that a wildcard means while `kube-ipvs0` exists.
    pub const LOCAL6: &str = "local6";
    /// [`crate::Counters`], one per CPU.
    pub const COUNTERS: &str = "counters";
    /// [`crate::Settings`], one.
    pub const SETTINGS: &str = "settings";
    /// Private: a row under construction, one per CPU and family; it is never read across calls.
    pub const SCRATCH4: &str = "scratch4";
    /// Private: see [`SCRATCH4`].
    pub const SCRATCH6: &str = "scratch6";

    /// Every map that is pinned.
    pub const ALL: [&str; 17] = [
        ENDPOINTS, ADDRESSES4, ADDRESSES6, FDB, PORTS4, PORTS6, OPENING4, OPENING6, FLOWS4, FLOWS6,
        UPLINKS, LOCAL4, LOCAL6, COUNTERS, SETTINGS, SCRATCH4, SCRATCH6,
    ];
}

/// Names of the programs, as they are in the object, in bpffs and in `bpftool prog show`.
pub mod program_names {
    /// TC ingress of each host-side veth.
    pub const FROM_CONTAINER: &str = "from_container";
    /// TC ingress of each uplink and of our bridges.
    pub const FROM_UPLINK: &str = "from_uplink";
    /// TC ingress of lo.
    pub const FROM_LOOPBACK: &str = "from_loopback";
    /// TC egress of each uplink and of our bridges.
    pub const TO_UPLINK: &str = "to_uplink";

    /// Every program of the object.
    pub const ALL: [&str; 4] = [FROM_CONTAINER, FROM_UPLINK, FROM_LOOPBACK, TO_UPLINK];
}

//! academy's packet logic: the programs of `main.rs`, and everything they decide by.
//!
//! Find your way by the hook: [`from_container`], [`from_uplink`], [`from_loopback`] and
//! [`to_uplink`] hold one path each, from the packet to its fate. They share
//! [`parse`] and [`rewrite`] for bytes, [`flow`] for conversations, [`ports`], [`local`] and
//! [`source`] for who may speak to whom, and [`deliver`] for the last step.
//!
//! Only [`maps`] and [`skb`] touch raw pointers. The rest compiles on the host as well and is
//! tested there; IPv4 and IPv6 are one code path over [`ip::Ip`].

#![cfg_attr(target_arch = "bpf", no_std)]

pub mod checksum;
pub mod counters;
pub mod deliver;
pub mod flow;
pub mod from_container;
pub mod from_loopback;
pub mod from_uplink;
pub mod ip;
pub mod local;
pub mod maps;
pub mod packet;
pub mod parse;
pub mod pass;
pub mod ports;
pub mod rewrite;
pub mod skb;
pub mod source;
#[cfg(test)]
mod testing;
pub mod to_uplink;
pub mod trace;

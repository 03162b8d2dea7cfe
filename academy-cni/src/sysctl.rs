//! Settings below `/proc/sys/net`, of the namespace that the calling thread is in.

use std::{fs, io, path::PathBuf};

use crate::error::{Error, Result};

/// Reads a setting. Its path has slashes, since interface names may have dots. One that this
/// kernel or this host does not have (IPv6 switched off, no `br_netfilter`) is `None`.
#[must_use]
pub fn get(setting: &str) -> Option<String> {
    let value = fs::read_to_string(path(setting)).ok()?;
    Some(value.trim_end().to_owned())
}

/// Writes a setting unless it has the value already, so that a `/proc/sys` mounted read-only is
/// no obstacle where everything is as it should be. One that does not exist is left out.
///
/// # Errors
/// [`Error::Io`] when the kernel refuses.
pub fn set(setting: &str, value: &str) -> Result<()> {
    if get(setting).as_deref() == Some(value) {
        return Ok(());
    }
    match fs::write(path(setting), value) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(Error::Io { doing: "write", object: setting.to_owned(), source }),
        Ok(()) => Ok(()),
    }
}

fn path(setting: &str) -> PathBuf {
    PathBuf::from("/proc/sys/net").join(setting)
}

/// Lets the host forward IPv4.
///
/// # Errors
/// [`Error::Io`] when the kernel refuses.
pub fn forward_ipv4() -> Result<()> {
    set("ipv4/ip_forward", "1")
}

/// Lets the host forward IPv6. A host that forwards ignores router advertisements, unless
/// `accept_ra` is 2; so where it was 1 it becomes 2 first, and the host keeps the routes it
/// learnt. `interfaces` are the names of all.
///
/// # Errors
/// [`Error::Io`] when the kernel refuses.
pub fn forward_ipv6<'a>(interfaces: impl Iterator<Item = &'a str>) -> Result<()> {
    if get("ipv6/conf/all/forwarding").as_deref() == Some("1") {
        return Ok(());
    }
    for interface in interfaces {
        let setting = format!("ipv6/conf/{interface}/accept_ra");
        if get(&setting).as_deref() == Some("1") {
            set(&setting, "2")?;
        }
    }
    set("ipv6/conf/all/forwarding", "1")
}

/// Whether frames between ports of a bridge pass netfilter.
#[must_use]
pub fn bridge_netfilter() -> bool {
    ["bridge/bridge-nf-call-iptables", "bridge/bridge-nf-call-ip6tables"]
        .into_iter()
        .any(|setting| get(setting).as_deref() == Some("1"))
}

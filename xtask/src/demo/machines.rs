//! The machines of the demo, and the wire between two of them.

use std::{fs, path::Path};

use anyhow::{Context, Result};

use crate::netns;

/// The host, whose containers these are.
pub const HOST: &str = "academy-demo-host";
/// A machine outside.
pub const CLIENT: &str = "academy-demo-client";
/// The container that publishes a port.
pub const C1: &str = "academy-demo-c1";
/// Its neighbour.
pub const C2: &str = "academy-demo-c2";
/// All of them.
pub const ALL: [&str; 4] = [HOST, CLIENT, C1, C2];

/// The host's addresses on the wire to the client.
pub const HOST_ADDRESSES: [&str; 2] = ["192.0.2.1", "2001:db8:2::1"];
/// The client's.
pub const CLIENT_ADDRESSES: [&str; 2] = ["192.0.2.2", "2001:db8:2::2"];

/// Makes them. The containers have no network yet.
///
/// # Errors
/// When one exists, or not root.
pub fn make() -> Result<()> {
    for name in ALL {
        netns::add(name)?;
        netns::ip(name, "link set lo up")?;
    }
    netns::ip(HOST, &format!("link add up0 type veth peer name eth0 netns {CLIENT}"))?;
    address(HOST, "up0", HOST_ADDRESSES)?;
    address(CLIENT, "eth0", CLIENT_ADDRESSES)?;
    netns::enter(HOST, switch_off_bridge_netfilter)
}

fn address(machine: &str, interface: &str, [v4, v6]: [&str; 2]) -> Result<()> {
    netns::ip(machine, &format!("addr add {v4}/24 dev {interface}"))?;
    // Without duplicate address detection it is usable at once.
    netns::ip(machine, &format!("addr add {v6}/64 dev {interface} nodad"))?;
    netns::ip(machine, &format!("link set {interface} up")).map(drop)
}

/// Where br_netfilter is loaded, bridged frames of every new namespace pass netfilter, and academy
/// leaves those between neighbours to it. Ours shows the other case.
fn switch_off_bridge_netfilter() -> Result<()> {
    for family in ["iptables", "ip6tables", "arptables"] {
        let path = format!("/proc/sys/net/bridge/bridge-nf-call-{family}");
        if Path::new(&path).exists() {
            fs::write(&path, "0").with_context(|| format!("cannot write {path}"))?;
        }
    }
    Ok(())
}

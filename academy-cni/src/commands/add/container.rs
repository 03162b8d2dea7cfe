//! The pair of interfaces between bridge and container, and the container's side of it.

use std::{
    os::fd::AsFd,
    thread,
    time::{Duration, Instant},
};

use ipnet::IpNet;

use crate::{
    attachment::Attachment,
    config::NetworkConfig,
    error::{Error, Result},
    ipam::Allocation,
    netlink::{Link, LinkChange, Netlink, PortOptions, Route, VethPair},
    netns::Netns,
    random,
    report::say_failure,
    sysctl,
    undo::Undo,
};

/// How long the host's end may take to get its carrier, and duplicate address detection to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// The container's network namespace, and a connection to the kernel inside.
#[derive(Debug)]
pub(super) struct Inside {
    pub(super) netns: Netns,
    pub(super) netlink: Netlink,
}

impl Inside {
    /// Opens the namespace, which must not have the interface that is to be made.
    pub(super) fn open(host: &Netlink, netns: Netns, ifname: &str) -> Result<Self> {
        let netlink = host.open_in(&netns)?;
        if netlink.link(ifname)?.is_some() {
            return Err(Error::Conflict(format!(
                "container veth name {ifname:?} already exists in {}",
                netns.path().display()
            )));
        }
        Ok(Self { netns, netlink })
    }
}

/// Both ends of a pair.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) host: Link,
    pub(super) container: Link,
    pub(super) container_mac: [u8; 6],
}

/// Makes the pair: the host's end a port of the bridge and switched on, the container's end under
/// its final name and still off.
pub(super) fn make_pair<'a>(
    netlink: &'a Netlink,
    inside: &Inside,
    attachment: &Attachment,
    config: &NetworkConfig,
    bridge: &Link,
    undo: &mut Undo<'a>,
) -> Result<Pair> {
    let host_name = attachment.veth_name();
    let container_mac = match config.mac {
        Some(mac) => mac,
        None => random::mac()?,
    };
    netlink.add_veth(&VethPair {
        host_name: &host_name,
        host_mac: random::mac()?,
        container_name: attachment.ifname(),
        container_mac,
        netns: inside.netns.as_fd(),
        mtu: config.mtu,
        bridge: bridge.index,
    })?;
    undo.push(format!("delete {host_name}"), {
        let name = host_name.clone();
        move || match netlink.link(&name)? {
            Some(link) => netlink.delete_link(link.index, &name),
            None => Ok(()),
        }
    });
    let gone = |name: &str| Error::TryAgain(format!("{name} was deleted while it was set up"));
    sysctl::set(&format!("ipv6/conf/{host_name}/accept_ra"), "0")?;
    let host = netlink.link(&host_name)?.ok_or_else(|| gone(&host_name))?;
    let alias = attachment.alias();
    netlink.change_link(
        &host,
        &LinkChange {
            up: Some(true),
            alias: Some(alias.clone()),
            port: Some(PortOptions {
                hairpin: config.hairpin_mode,
                isolated: config.port_isolation,
            }),
            ..LinkChange::default()
        },
    )?;
    let container = inside.netlink.link(attachment.ifname())?;
    let container = container.ok_or_else(|| gone(attachment.ifname()))?;
    let host = Link { up: true, alias: Some(alias), isolated: config.port_isolation, ..host };
    Ok(Pair { host, container, container_mac })
}

/// Gives the container's end its addresses and routes and switches it on.
pub(super) fn configure(
    inside: &Inside,
    pair: &Pair,
    config: &NetworkConfig,
    allocations: &[Allocation],
    routes: &[Route],
) -> Result<()> {
    let link = &pair.container;
    let ipv6 = allocations.iter().any(|allocation| allocation.address.addr().is_ipv6());
    // The second and last visit: everything else goes through the connection.
    inside.netns.run(|| prepare(&link.name, ipv6, config.enable_dad))??;
    for allocation in allocations {
        inside.netlink.add_address(link, allocation.address, config.enable_dad)?;
    }
    if config.disable_container_interface {
        return Ok(());
    }
    inside.netlink.change_link(link, &LinkChange { up: Some(true), ..LinkChange::default() })?;
    for route in routes {
        inside.netlink.add_route(link, route)?;
    }
    if ipv6 && config.enable_dad {
        settle(inside, link)?;
    }
    Ok(())
}

/// Settings of the container's interface, written inside its namespace before it is switched on.
fn prepare(ifname: &str, ipv6: bool, enable_dad: bool) -> Result<()> {
    let ipv6_setting =
        |name: &str, value: &str| sysctl::set(&format!("ipv6/conf/{ifname}/{name}"), value);
    if ipv6 {
        sysctl::set("ipv6/conf/lo/disable_ipv6", "0")?;
        ipv6_setting("disable_ipv6", "0")?;
        ipv6_setting("keep_addr_on_down", "1")?;
    }
    if enable_dad {
        ipv6_setting("enhanced_dad", "1")?;
    }
    ipv6_setting("accept_dad", if enable_dad { "1" } else { "0" })?;
    // The kernel announces the MAC: at the end of the ADD, and when it changes later.
    sysctl::set(&format!("ipv4/conf/{ifname}/arp_notify"), "1")?;
    ipv6_setting("ndisc_notify", "1")
}

/// Waits until duplicate address detection has let all addresses through.
fn settle(inside: &Inside, link: &Link) -> Result<()> {
    let start = Instant::now();
    loop {
        let addresses = inside.netlink.addresses()?;
        let Some(tentative) =
            addresses.iter().find(|address| address.index == link.index && address.tentative)
        else {
            return Ok(());
        };
        if start.elapsed() > PATIENCE {
            return Err(Error::Conflict(format!(
                "duplicate address detection does not let {} through: somebody has it",
                tentative.address
            )));
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until the host's end has its carrier: only then does the bridge forward what comes in.
/// That takes microseconds, since the kernel does it in a worker of its own right away.
pub(super) fn await_carrier(netlink: &Netlink, host: &Link) -> Result<Link> {
    let start = Instant::now();
    let mut pause = Duration::from_micros(20);
    loop {
        match netlink.link_at(host.index)? {
            Some(link) if link.operational => return Ok(link),
            Some(_) if start.elapsed() < PATIENCE => {}
            _ => {
                let name = &host.name;
                return Err(Error::Conflict(format!("bridge port {name} in error state")));
            }
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

/// Makes the first packet neither flood nor wait, and no neighbour keep the MAC of an earlier
/// container. All of this would be learnt anyway, so a failure is only said.
pub(super) fn introduce(
    netlink: &Netlink,
    inside: &Inside,
    bridge: &Link,
    pair: &Pair,
    allocations: &[Allocation],
    gateways: &[IpNet],
) {
    say_failure(netlink.seed_fdb(&pair.host, pair.container_mac));
    for allocation in allocations {
        let address = allocation.address.addr();
        say_failure(netlink.set_neighbour(bridge, address, pair.container_mac));
    }
    // Before the container's own neighbours, since it forgets those.
    say_failure(inside.netlink.announce(&pair.container));
    for gateway in gateways {
        if let Some(mac) = bridge.mac {
            say_failure(inside.netlink.set_neighbour(&pair.container, gateway.addr(), mac));
        }
    }
}

//! CHECK: whether the attachment is as the ADD left it.

use ipnet::IpNet;

use super::{Call, add, ports, refresh};
use crate::{
    attachment::Attachment,
    config::{NetworkConfig, mac_text},
    datapath::{Datapath, Sweep},
    error::{Error, Result},
    host::Host,
    ipam,
    lock::GlobalLock,
    netlink::{Link, Netlink},
    netns::Netns,
    record::{self, Record},
    spec::{CniResult, Interface},
};

/// Compares the host, the container and the data plane with what the result of the ADD says, as
/// far as it is academy's, and with what it cannot say: rows, hooks, leases. Plugins later in the
/// chain may have changed the container's MAC and moved routes to other tables.
///
/// # Errors
/// The first difference.
pub(super) fn run(call: &Call) -> Result<()> {
    let attachment = call.attachment()?;
    let config = NetworkConfig::for_add(&call.config, &call.env)?;
    let expected = CniResult::previous(&call.config, call.version)?
        .ok_or_else(|| Error::config("prevResult", "null", "CHECK needs the result of the ADD"))?;
    let netns = Netns::open(std::path::Path::new(&call.env.netns))?;
    call.refuse_own_netns(&netns)?;
    let netlink = Netlink::open()?;
    let inside = netlink.open_in(&netns)?;
    let _lock = GlobalLock::acquire(&call.paths)?;
    let host = Host::look(&netlink)?;
    let record = record::load(&call.paths, &attachment)?
        .ok_or_else(|| wrong(format!("there is no record of {attachment}")))?;

    let container = check_container(call, &config, &expected, &inside)?;
    check_addresses(&expected, &inside, &container)?;
    let (bridge, port) = check_host(&config, &expected, &host, &record)?;
    check_leases(&record, &attachment)?;

    let mut datapath = Datapath::open(&call.paths)?
        .ok_or_else(|| wrong("the data plane is gone: nothing is pinned".to_owned()))?;
    refresh(&mut datapath, &host, Some(&config))?;
    datapath.check_endpoint(&add::endpoint(&record, bridge, port), &ports::rows(&record))?;
    datapath.sweep(Sweep::Some)?;
    Ok(())
}

fn wrong(message: String) -> Error {
    Error::Conflict(message)
}

/// The interface of the result that is the container's.
fn expected_interface<'a>(call: &Call, expected: &'a CniResult) -> Result<&'a Interface> {
    let inside: Vec<_> =
        expected.interfaces.iter().filter(|one| one.name == call.env.ifname).collect();
    let Some(interface) = inside.iter().find(|one| !one.sandbox.is_empty()) else {
        return Err(wrong(format!(
            "prevResult has no interface {} with a sandbox: a later plugin lost it",
            call.env.ifname
        )));
    };
    if interface.sandbox != call.env.netns {
        return Err(wrong(format!(
            "prevResult has {} in {}, but CNI_NETNS is {}",
            interface.name, interface.sandbox, call.env.netns
        )));
    }
    Ok(interface)
}

fn check_container(
    call: &Call,
    config: &NetworkConfig,
    expected: &CniResult,
    inside: &Netlink,
) -> Result<Link> {
    let interface = expected_interface(call, expected)?;
    let name = &interface.name;
    let link = inside
        .link(name)?
        .ok_or_else(|| wrong(format!("the container has no interface {name}")))?;
    if link.kind != "veth" {
        return Err(wrong(format!("{name} in the container is no veth but {:?}", link.kind)));
    }
    if !link.up && !config.disable_container_interface {
        return Err(wrong(format!("{name} in the container is down")));
    }
    let mac = link.mac.map(mac_text).unwrap_or_default();
    if !interface.mac.is_empty() && !interface.mac.eq_ignore_ascii_case(&mac) {
        return Err(wrong(format!("{name} has MAC {mac}, prevResult says {}", interface.mac)));
    }
    Ok(link)
}

fn check_addresses(expected: &CniResult, inside: &Netlink, link: &Link) -> Result<()> {
    let name = &link.name;
    let addresses = inside.addresses()?;
    let is_own = |index: Option<usize>| {
        index.is_none_or(|index| {
            expected.interfaces.get(index).is_some_and(|interface| interface.name == *name)
        })
    };
    for ip in expected.ips.iter().filter(|ip| is_own(ip.interface)) {
        let present = addresses
            .iter()
            .any(|address| address.index == link.index && address.address == ip.address);
        if !present {
            return Err(wrong(format!("{name} in the container lacks address {}", ip.address)));
        }
    }
    let routes = inside.routes(link)?;
    for route in &expected.routes {
        let present = routes.iter().any(|one| {
            one.destination == route.dst.trunc() && (route.gw.is_none() || one.gateway == route.gw)
        });
        if !present {
            return Err(wrong(format!("the container lacks the route to {}", route.dst)));
        }
    }
    Ok(())
}

/// The host's side: the bridge and the port that is the other end. Its MAC may be another one,
/// since udev changes those (systemd/systemd#21185).
fn check_host<'a>(
    config: &NetworkConfig,
    expected: &CniResult,
    host: &'a Host,
    record: &Record,
) -> Result<(&'a Link, &'a Link)> {
    let name = &record.host_ifname;
    let bridge = host
        .link(&config.bridge)
        .filter(|link| link.kind == "bridge")
        .ok_or_else(|| wrong(format!("the host has no bridge {}", config.bridge)))?;
    let port = host.link(name).ok_or_else(|| wrong(format!("the host has no {name}")))?;
    if !expected.interfaces.iter().any(|one| one.name == *name && one.sandbox.is_empty()) {
        return Err(wrong(format!("prevResult has no interface {name} of the host")));
    }
    if port.master != Some(bridge.index) {
        return Err(wrong(format!("{name} is no port of bridge {}", bridge.name)));
    }
    if !port.up || !bridge.up {
        let down = if port.up { &bridge.name } else { name };
        return Err(wrong(format!("{down} on the host is down")));
    }
    Ok((bridge, port))
}

fn check_leases(record: &Record, attachment: &Attachment) -> Result<()> {
    let Some(directory) = &record.store_dir else { return Ok(()) };
    let store = ipam::Store::open(directory)?;
    for address in record.addresses.iter().map(IpNet::addr) {
        if !store.holds(attachment, address)? {
            return Err(wrong(format!("the lease of {address} is gone")));
        }
    }
    Ok(())
}

//! The bridge that the container becomes a neighbour on, and the host's addresses on it.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::{
    config::NetworkConfig,
    error::{Error, Result},
    host::Host,
    netlink::{Link, LinkChange, Netlink},
    random, sysctl,
    undo::Undo,
};

/// The `ifalias` of bridges that academy made, by which `academy reset` knows them.
pub(crate) const BRIDGE_ALIAS: &str = "academy";

/// The bridge of the configuration, made where there is none, switched on, with a MAC that no
/// port changes.
pub(super) fn ensure<'a>(
    netlink: &'a Netlink,
    host: &mut Host,
    config: &NetworkConfig,
    undo: &mut Undo<'a>,
) -> Result<Link> {
    let name = config.bridge.as_str();
    let bridge = match host.link(name) {
        Some(link) => {
            check_kind(link)?;
            adopt(netlink, link.clone(), config, undo)?
        }
        None => make(netlink, config, undo)?,
    };
    host.replace(bridge.clone());
    Ok(bridge)
}

/// Refuses an interface of another kind that has the bridge's name.
pub(super) fn check_kind(link: &Link) -> Result<()> {
    if link.kind == "bridge" {
        return Ok(());
    }
    Err(Error::Conflict(format!("{:?} already exists but is not a bridge", link.name)))
}

fn make<'a>(netlink: &'a Netlink, config: &NetworkConfig, undo: &mut Undo<'a>) -> Result<Link> {
    let name = config.bridge.as_str();
    netlink.add_bridge(name, random::mac()?, config.mtu)?;
    let bridge = netlink.link(name)?.ok_or_else(|| vanished(name))?;
    check_kind(&bridge)?;
    let index = bridge.index;
    undo.push(format!("delete bridge {name}"), {
        let name = name.to_owned();
        move || netlink.delete_link(index, &name)
    });
    refuse_router_advertisements(name)?;
    // Its link-local address is usable at once, too: the host asks for neighbours with it.
    sysctl::set(&format!("ipv6/conf/{name}/accept_dad"), "0")?;
    let change = LinkChange {
        up: Some(true),
        promiscuous: config.promisc_mode.then_some(true),
        alias: Some(BRIDGE_ALIAS.to_owned()),
        ..LinkChange::default()
    };
    netlink.change_link(&bridge, &change)?;
    Ok(Link { up: true, alias: Some(BRIDGE_ALIAS.to_owned()), ..bridge })
}

fn adopt<'a>(
    netlink: &'a Netlink,
    bridge: Link,
    config: &NetworkConfig,
    undo: &mut Undo<'a>,
) -> Result<Link> {
    refuse_router_advertisements(&bridge.name)?;
    let mac = match bridge.mac {
        // What a bridge of old kernels has before it gets its first port.
        None | Some([0, 0, 0, 0, 0, 0]) => Some(random::mac()?),
        // Somebody else's: unless it was given its MAC, it follows its ports. Giving it what it
        // has makes it stay.
        mac if bridge.alias.as_deref() != Some(BRIDGE_ALIAS) => mac,
        _ => None,
    };
    let switch_on = !bridge.up;
    let promiscuous = config.promisc_mode && !bridge.promiscuous;
    if mac.is_none() && !switch_on && !promiscuous {
        return Ok(bridge);
    }
    let change = LinkChange {
        up: switch_on.then_some(true),
        promiscuous: promiscuous.then_some(true),
        mac,
        ..LinkChange::default()
    };
    netlink.change_link(&bridge, &change)?;
    if switch_on || promiscuous {
        let back = LinkChange {
            up: switch_on.then_some(false),
            promiscuous: promiscuous.then_some(false),
            ..LinkChange::default()
        };
        let before = bridge.clone();
        undo.push(format!("switch {} back", bridge.name), move || {
            netlink.change_link(&before, &back)
        });
    }
    Ok(Link { up: true, mac: mac.or(bridge.mac), ..bridge })
}

fn vanished(name: &str) -> Error {
    Error::TryAgain(format!("bridge {name} was deleted while it was set up"))
}

/// The host does not take routes from containers.
fn refuse_router_advertisements(interface: &str) -> Result<()> {
    sysctl::set(&format!("ipv6/conf/{interface}/accept_ra"), "0")
}

/// Gives the bridge the gateways of the container's subnets, and lets the host forward.
///
/// The short form of the configuration puts them beside what is there. The long form is the
/// reference plugin's: another IPv4 address, or an IPv6 one of an overlapping subnet, is an error,
/// or is replaced if `forceAddress` says so.
pub(super) fn give_gateways<'a>(
    netlink: &'a Netlink,
    host: &mut Host,
    bridge: &Link,
    gateways: &[IpNet],
    config: &NetworkConfig,
    undo: &mut Undo<'a>,
) -> Result<()> {
    for gateway in gateways {
        let present: Vec<IpNet> =
            host.addresses_of(bridge.index).map(|address| address.address).collect();
        if present.contains(gateway) {
            continue;
        }
        if !config.short_form {
            let in_the_way = present
                .into_iter()
                .filter(|other| !gateways.contains(other) && stands_in_the_way(*gateway, *other));
            for other in in_the_way {
                make_room(netlink, host, bridge, other, *gateway, config, undo)?;
            }
        }
        if gateway.addr().is_ipv6() {
            sysctl::set(&format!("ipv6/conf/{}/disable_ipv6", bridge.name), "0")?;
        }
        netlink.add_address(bridge, *gateway, false)?;
        host.addresses.push(crate::netlink::Address {
            index: bridge.index,
            address: *gateway,
            tentative: false,
        });
        let (bridge, gateway) = (bridge.clone(), *gateway);
        undo.push(format!("delete address {gateway} of {}", bridge.name), move || {
            netlink.delete_address(&bridge, gateway)
        });
    }
    forward(host, gateways.iter().map(IpNet::addr))
}

/// Whether the reference plugin has the two exclude each other.
fn stands_in_the_way(gateway: IpNet, other: IpNet) -> bool {
    match (gateway, other) {
        (IpNet::V4(_), IpNet::V4(_)) => true,
        (IpNet::V6(_), IpNet::V6(_)) => {
            gateway.contains(&other.addr()) || other.contains(&gateway.addr())
        }
        _ => false,
    }
}

fn make_room<'a>(
    netlink: &'a Netlink,
    host: &mut Host,
    bridge: &Link,
    other: IpNet,
    gateway: IpNet,
    config: &NetworkConfig,
    undo: &mut Undo<'a>,
) -> Result<()> {
    if !config.force_address {
        return Err(Error::Conflict(format!(
            "{:?} already has an IP address different from {gateway}: {other}",
            bridge.name
        )));
    }
    netlink.delete_address(bridge, other)?;
    host.addresses.retain(|known| known.index != bridge.index || known.address != other);
    let bridge = bridge.clone();
    undo.push(format!("give {other} back to {}", bridge.name), move || {
        netlink.add_address(&bridge, other, false)
    });
    Ok(())
}

fn forward(host: &Host, gateways: impl Iterator<Item = IpAddr>) -> Result<()> {
    let (mut ipv4, mut ipv6) = (false, false);
    for gateway in gateways {
        ipv4 |= gateway.is_ipv4();
        ipv6 |= gateway.is_ipv6();
    }
    if ipv4 {
        sysctl::forward_ipv4()?;
    }
    if ipv6 {
        sysctl::forward_ipv6(host.links.iter().map(|link| link.name.as_str()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv4_addresses_exclude_each_other_and_ipv6_ones_only_within_a_subnet() {
        let net = |text: &str| text.parse::<IpNet>().unwrap();
        let rows = [
            ("10.0.0.1/24", "192.168.0.1/24", true),
            ("10.0.0.1/24", "fd00::1/64", false),
            ("fd00::1/64", "fd00::2/64", true),
            ("fd00::1/64", "fd01::1/64", false),
            ("fd00::1/64", "fe80::1/64", false),
        ];
        for (gateway, other, expected) in rows {
            assert_eq!(stands_in_the_way(net(gateway), net(other)), expected, "{gateway} {other}");
        }
    }
}

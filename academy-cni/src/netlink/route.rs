//! Routes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_APPEND, NLM_F_CREATE};
use netlink_packet_route::{
    RouteNetlinkMessage,
    route::{
        RouteAddress, RouteAttribute, RouteMessage, RouteMetric, RouteProtocol, RouteScope,
        RouteType,
    },
};
use nix::errno::Errno;

use super::{Link, Netlink, address::family, failure, is, tolerate};
use crate::error::Result;

/// The table that holds ordinary routes (`RT_TABLE_MAIN`).
const MAIN_TABLE: u32 = 254;

/// A unicast route by one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where it leads.
    pub destination: IpNet,
    /// The next hop; absent where the destination is on the link itself.
    pub gateway: Option<IpAddr>,
    /// The MTU of the path in bytes.
    pub mtu: Option<u32>,
    /// The MSS that TCP announces, in bytes.
    pub advmss: Option<u32>,
    /// The metric: the lower one wins.
    pub priority: Option<u32>,
    /// The table; absent for the main one.
    pub table: Option<u32>,
    /// The scope (`RT_SCOPE_*`): 0 global, 253 link, 254 host.
    pub scope: Option<u8>,
}

impl Netlink {
    /// Adds a route by an interface, beside others to the same destination. One that is there
    /// already is no error.
    ///
    /// # Errors
    /// [`crate::error::Error::Netlink`] when the kernel refuses.
    pub fn add_route(&self, link: &Link, route: &Route) -> Result<()> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(route.destination.addr());
        message.header.destination_prefix_length = route.destination.prefix_len();
        message.header.protocol = RouteProtocol::Boot;
        message.header.kind = RouteType::Unicast;
        message.header.scope = match (route.scope, route.gateway, route.destination) {
            (Some(scope), _, _) => RouteScope::from(scope),
            (None, None, IpNet::V4(_)) => RouteScope::Link,
            (None, _, _) => RouteScope::Universe,
        };
        // The header has eight bits for the table, the attribute all of them.
        message.header.table = u8::try_from(route.table.unwrap_or(MAIN_TABLE)).unwrap_or(0);
        let attributes = &mut message.attributes;
        attributes.push(RouteAttribute::Oif(link.index));
        attributes.push(RouteAttribute::Destination(wire(route.destination.network())));
        attributes.extend(route.gateway.map(|gateway| RouteAttribute::Gateway(wire(gateway))));
        attributes.extend(route.priority.map(RouteAttribute::Priority));
        attributes.extend(route.table.map(RouteAttribute::Table));
        let metrics: Vec<_> =
            [route.mtu.map(RouteMetric::Mtu), route.advmss.map(RouteMetric::Advmss)]
                .into_iter()
                .flatten()
                .collect();
        if !metrics.is_empty() {
            attributes.push(RouteAttribute::Metrics(metrics));
        }
        let added =
            self.change(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_APPEND);
        tolerate(added, &[Errno::EEXIST]).map_err(|source| {
            failure("add route", format!("{} by {}", route.destination, link.name), source)
        })
    }

    /// All unicast routes by an interface, of every table.
    ///
    /// # Errors
    /// [`crate::error::Error::Netlink`] when the kernel refuses.
    pub fn routes(&self, link: &Link) -> Result<Vec<Route>> {
        let replies = self
            .dump(&RouteNetlinkMessage::GetRoute(RouteMessage::default()))
            .map_err(|source| failure("list", "routes", source))?;
        Ok(replies.into_iter().filter_map(|reply| from_message(reply, link.index)).collect())
    }

    /// The address that the host would use as its own towards `destination`, if it has a route.
    ///
    /// # Errors
    /// [`crate::error::Error::Netlink`] when the kernel refuses.
    pub fn source_towards(&self, destination: IpAddr) -> Result<Option<IpAddr>> {
        let mut query = RouteMessage::default();
        query.header.address_family = family(destination);
        query.header.destination_prefix_length = IpNet::from(destination).prefix_len();
        query.attributes.push(RouteAttribute::Destination(wire(destination)));
        let reply = match self.get(RouteNetlinkMessage::GetRoute(query)) {
            Ok(reply) => reply,
            Err(error) if is(&error, Errno::ENETUNREACH) || is(&error, Errno::EHOSTUNREACH) => None,
            Err(source) => return Err(failure("find a route to", destination.to_string(), source)),
        };
        let Some(RouteNetlinkMessage::NewRoute(route)) = reply else { return Ok(None) };
        Ok(route.attributes.iter().find_map(|attribute| match attribute {
            RouteAttribute::PrefSource(source) => address(source),
            _ => None,
        }))
    }
}

fn wire(address: IpAddr) -> RouteAddress {
    match address {
        IpAddr::V4(address) => RouteAddress::Inet(address),
        IpAddr::V6(address) => RouteAddress::Inet6(address),
    }
}

fn address(wire: &RouteAddress) -> Option<IpAddr> {
    match wire {
        RouteAddress::Inet(address) => Some(IpAddr::V4(*address)),
        RouteAddress::Inet6(address) => Some(IpAddr::V6(*address)),
        _ => None,
    }
}

fn from_message(message: RouteNetlinkMessage, index: u32) -> Option<Route> {
    let RouteNetlinkMessage::NewRoute(message) = message else { return None };
    if message.header.kind != RouteType::Unicast {
        return None;
    }
    let any = match message.header.address_family {
        netlink_packet_route::AddressFamily::Inet => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        netlink_packet_route::AddressFamily::Inet6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        _ => return None,
    };
    let (mut destination, mut gateway, mut priority, mut interface) = (any, None, None, None);
    let mut table = u32::from(message.header.table);
    let (mut mtu, mut advmss) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(wire) => destination = address(wire)?,
            RouteAttribute::Gateway(wire) => gateway = address(wire),
            RouteAttribute::Oif(oif) => interface = Some(*oif),
            RouteAttribute::Priority(metric) => priority = Some(*metric),
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Metrics(metrics) => {
                for metric in metrics {
                    match metric {
                        RouteMetric::Mtu(bytes) => mtu = Some(*bytes),
                        RouteMetric::Advmss(bytes) => advmss = Some(*bytes),
                        _ => {}
                    }
                }
            }
            // Several next hops to one destination (IPv4) are listed here instead.
            RouteAttribute::MultiPath(hops) => {
                let hop = hops.iter().find(|hop| hop.interface_index == index)?;
                interface = Some(hop.interface_index);
                gateway = hop.attributes.iter().find_map(|attribute| match attribute {
                    RouteAttribute::Gateway(wire) => address(wire),
                    _ => None,
                });
            }
            _ => {}
        }
    }
    (interface == Some(index)).then_some(Route {
        destination: IpNet::new(destination, message.header.destination_prefix_length).ok()?,
        gateway,
        mtu,
        advmss,
        priority,
        table: Some(table),
        scope: Some(message.header.scope.into()),
    })
}

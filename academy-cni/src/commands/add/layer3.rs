//! Gateways and routes of a container, worked out from its addresses and the configuration.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::{
    ipam::Allocation,
    netlink,
    spec::{self, CniResult, Ip},
};

/// The default gateway of a subnet: its first address.
pub(super) fn first_address(subnet: IpNet) -> IpAddr {
    match subnet.network() {
        IpAddr::V4(network) => Ipv4Addr::from(u32::from(network).wrapping_add(1)).into(),
        IpAddr::V6(network) => Ipv6Addr::from(u128::from(network).wrapping_add(1)).into(),
    }
}

/// Gives each address that has no gateway the first of its subnet.
pub(super) fn complete_gateways(allocations: &mut [Allocation]) {
    for allocation in allocations {
        allocation.gateway.get_or_insert_with(|| first_address(allocation.address));
    }
}

/// The gateways with the prefix lengths of their subnets, as the bridge gets them: each one once.
pub(super) fn bridge_addresses(allocations: &[Allocation]) -> Vec<IpNet> {
    let mut addresses = Vec::new();
    for allocation in allocations {
        let Some(gateway) = allocation.gateway else { continue };
        let Ok(address) = IpNet::new(gateway, allocation.address.prefix_len()) else { continue };
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}

/// Adds a default route for each family that has a gateway and no default route with a next hop
/// yet, since `ipam.routes` may have one as well.
pub(super) fn add_default_routes(routes: &mut Vec<spec::Route>, allocations: &[Allocation]) {
    for gateway in allocations.iter().filter_map(|allocation| allocation.gateway) {
        let any = match gateway {
            IpAddr::V4(_) => IpNet::V4(Ipv4Net::default()),
            IpAddr::V6(_) => IpNet::V6(Ipv6Net::default()),
        };
        match routes.iter_mut().find(|route| route.dst == any) {
            Some(route) => {
                route.gw.get_or_insert(gateway);
            }
            None => routes.push(spec::Route::new(any, Some(gateway))),
        }
    }
}

/// The routes as the container gets them: without a next hop of their own by the gateway of the
/// family, unless their scope says that the destination is on the link.
pub(super) fn container_routes(
    routes: &[spec::Route],
    allocations: &[Allocation],
) -> Vec<netlink::Route> {
    let gateway_of = |destination: IpNet| {
        allocations
            .iter()
            .filter_map(|allocation| allocation.gateway)
            .find(|gateway| gateway.is_ipv4() == destination.addr().is_ipv4())
    };
    routes
        .iter()
        .map(|route| netlink::Route {
            destination: route.dst,
            gateway: match route.scope {
                None | Some(0) => route.gw.or_else(|| gateway_of(route.dst)),
                Some(_) => route.gw,
            },
            mtu: route.mtu,
            advmss: route.advmss,
            priority: route.priority,
            table: route.table,
            scope: route.scope,
        })
        .collect()
}

/// The part of the result that is about addresses and routes.
pub(super) fn describe(
    result: &mut CniResult,
    allocations: &[Allocation],
    routes: Vec<spec::Route>,
    interface: usize,
) {
    result.ips = allocations
        .iter()
        .map(|allocation| Ip {
            address: allocation.address,
            gateway: allocation.gateway,
            interface: Some(interface),
        })
        .collect();
    result.routes = routes;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocation(address: &str, gateway: Option<&str>) -> Allocation {
        Allocation {
            address: address.parse().unwrap(),
            gateway: gateway.map(|text| text.parse().unwrap()),
        }
    }

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_without_a_gateway_gets_the_first_of_its_subnet() {
        let mut allocations =
            [allocation("10.1.2.130/25", None), allocation("fd00:1::5/64", Some("fd00:1::9"))];
        complete_gateways(&mut allocations);
        assert_eq!(allocations[0].gateway, Some("10.1.2.129".parse().unwrap()));
        assert_eq!(bridge_addresses(&allocations), [net("10.1.2.129/25"), net("fd00:1::9/64")]);
    }

    #[test]
    fn a_default_route_that_is_configured_is_not_doubled() {
        let allocations = [allocation("10.0.0.2/24", Some("10.0.0.1"))];
        let configured = spec::Route::new(net("0.0.0.0/0"), Some("10.0.0.254".parse().unwrap()));
        let mut routes = vec![configured.clone()];
        add_default_routes(&mut routes, &allocations);
        assert_eq!(routes, [configured]);

        let mut routes = vec![spec::Route::new(net("0.0.0.0/0"), None)];
        add_default_routes(&mut routes, &allocations);
        assert_eq!(routes, [spec::Route::new(net("0.0.0.0/0"), Some("10.0.0.1".parse().unwrap()))]);
    }

    #[test]
    fn a_route_without_a_next_hop_goes_by_the_gateway_of_its_family() {
        let allocations =
            [allocation("10.0.0.2/24", Some("10.0.0.1")), allocation("fd00::2/64", None)];
        let on_link =
            spec::Route { scope: Some(253), ..spec::Route::new(net("10.9.0.0/16"), None) };
        let routes = [
            spec::Route::new(net("10.8.0.0/16"), None),
            spec::Route::new(net("fd08::/16"), None),
            on_link,
        ];
        let gateways: Vec<_> = container_routes(&routes, &allocations)
            .into_iter()
            .map(|route| route.gateway.map(|gateway| gateway.to_string()))
            .collect();
        assert_eq!(gateways, [Some("10.0.0.1".to_owned()), None, None]);
    }
}

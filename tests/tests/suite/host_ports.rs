//! Rows of the truth table: from where a published port answers, and whom the container sees.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tests::{
    Case, Family, Lab, Mapping, Netns, Query, Report,
    topology::{CLIENT, FOREIGN, GATEWAY, HOST, HOST2},
};

const HOST_PORT: u16 = 18080;
const CONTAINER_PORT: u16 = 8080;

#[test]
fn outside_clients_reach_every_address_of_the_host_and_are_seen_as_themselves() {
    outside_clients(&Lab::new());
}

pub fn outside_clients(lab: &Lab) {
    let foreign = lab.foreign();
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(HOST_PORT, CONTAINER_PORT));
    let _servers = attached.serve("web", &web, CONTAINER_PORT);
    let mut report = Report::new();
    for case in Case::ALL {
        for host in [HOST, HOST2, GATEWAY] {
            for (client, address) in [(&lab.client, CLIENT), (&foreign, FOREIGN)] {
                let (to, client_address) = (case.family.of(host), case.family.of(address));
                let reply = Query::new(client, case.protocol, to, HOST_PORT).ask();
                let what = format!("{case} from {client_address} to {to}");
                report.answered_seeing(&what, &reply, "web", client_address);
            }
        }
    }
}

/// <https://github.com/containernetworking/plugins/issues/763>,
/// <https://github.com/containers/podman/issues/12690>
#[test]
fn cni_09_10_the_host_reaches_its_published_port_at_loopback_uplink_and_gateway() {
    the_host_itself(&Lab::new(), true);
}

pub fn the_host_itself(lab: &Lab, ipv6_loopback: bool) {
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(HOST_PORT, CONTAINER_PORT));
    let _servers = attached.serve("web", &web, CONTAINER_PORT);
    let mut report = Report::new();
    for case in Case::ALL {
        let second = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
        let loopback =
            case.family.pick(vec![case.family.loopback(), second], vec![case.family.loopback()]);
        let own = [HOST, GATEWAY].map(|pair| case.family.of(pair));
        for to in loopback.into_iter().chain(own) {
            if to.is_ipv6() && to.is_loopback() && !ipv6_loopback {
                continue;
            }
            let reply = lab.from_host(case.protocol, to, HOST_PORT).ask();
            report.answered_by(&format!("{case} to {to}"), &reply, "web");
        }
    }
}

#[test]
fn host_processes_on_loopback_appear_as_the_gateway() {
    let lab = Lab::new();
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(HOST_PORT, CONTAINER_PORT));
    let _servers = attached.serve("web", &web, CONTAINER_PORT);
    let mut report = Report::new();
    for case in Case::ALL {
        let reply = lab.from_host(case.protocol, case.family.loopback(), HOST_PORT).ask();
        let gateway = case.family.of(GATEWAY);
        report.answered_seeing(&case.to_string(), &reply, "web", gateway);
    }
}

/// <https://github.com/containernetworking/plugins/issues/68>
#[test]
fn cni_14_a_container_reaches_its_own_published_port_and_sees_the_gateway() {
    own_port(&Lab::new());
}

pub fn own_port(lab: &Lab) {
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(HOST_PORT, CONTAINER_PORT));
    let _servers = attached.serve("web", &web, CONTAINER_PORT);
    let mut report = Report::new();
    for case in Case::ALL {
        for host in [HOST, GATEWAY] {
            let to = case.family.of(host);
            let reply = Query::new(&web.netns, case.protocol, to, HOST_PORT).ask();
            let gateway = case.family.of(GATEWAY);
            report.answered_seeing(&format!("{case} to {to}"), &reply, "web", gateway);
        }
    }
}

/// <https://github.com/containernetworking/plugins/pull/469>
#[test]
fn cni_15_a_neighbour_reaches_the_published_port_and_is_seen_as_itself() {
    let lab = Lab::new();
    let (web, neighbour) = (lab.container("web"), lab.container("neighbour"));
    let attached = lab.add(&web, &Mapping::both(HOST_PORT, CONTAINER_PORT));
    let beside = lab.add(&neighbour, &[]);
    let _servers = attached.serve("web", &web, CONTAINER_PORT);
    let mut report = Report::new();
    for case in Case::ALL {
        for host in [HOST, GATEWAY] {
            let to = case.family.of(host);
            let reply = Query::new(&neighbour.netns, case.protocol, to, HOST_PORT).ask();
            let client = case.family.of(beside.addresses());
            report.answered_seeing(&format!("{case} to {to}"), &reply, "web", client);
        }
    }
}

#[test]
fn a_container_of_another_bridge_reaches_the_published_port() {
    let lab = Lab::new();
    let (web, other) = (lab.container("web"), lab.container("other"));
    let attached = lab.add(&web, &Mapping::both(HOST_PORT, CONTAINER_PORT));
    let elsewhere = lab.add_to(&tests::Network::second(), &other, "eth0", &[]);
    let _servers = attached.serve("web", &web, CONTAINER_PORT);
    let mut report = Report::new();
    for case in Case::ALL {
        for host in [HOST, GATEWAY] {
            let to = case.family.of(host);
            let reply = Query::new(&other.netns, case.protocol, to, HOST_PORT).ask();
            let client = case.family.of(elsewhere.addresses());
            report.answered_seeing(&format!("{case} to {to}"), &reply, "web", client);
        }
    }
}

#[test]
fn a_containers_own_loopback_is_not_mapped() {
    own_loopback(&Lab::new());
}

pub fn own_loopback(lab: &Lab) {
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(HOST_PORT, CONTAINER_PORT));
    let _servers = attached.serve("web", &web, CONTAINER_PORT);
    let mut report = Report::new();
    for case in Case::ALL {
        let to = case.family.loopback();
        let reply = Query::new(&web.netns, case.protocol, to, HOST_PORT).in_vain().ask();
        report.unanswered(&case.to_string(), &reply);
    }
}

#[test]
fn after_del_nobody_is_answered_anywhere() {
    after_del(&Lab::new());
}

pub fn after_del(lab: &Lab) {
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(HOST_PORT, CONTAINER_PORT));
    let _servers = attached.serve("web", &web, CONTAINER_PORT);
    let mut report = Report::new();
    for case in Case::ALL {
        let reply = lab.from_client(case.protocol, case.family.of(HOST), HOST_PORT).ask();
        report.answered_by(&format!("{case} before DEL"), &reply, "web");
    }
    lab.del(&attached);
    for case in Case::ALL {
        let places = [case.family.of(HOST), case.family.of(GATEWAY), case.family.loopback()];
        for to in places {
            let reply = lab.from_host(case.protocol, to, HOST_PORT).in_vain().ask();
            report.unanswered(&format!("{case} from the host to {to}"), &reply);
        }
        let to = case.family.of(HOST);
        let reply = lab.from_client(case.protocol, to, HOST_PORT).in_vain().ask();
        report.unanswered(&format!("{case} from the client"), &reply);
    }
}

#[test]
fn one_port_serves_two_containers_by_protocol() {
    by_protocol(&Lab::new());
}

pub fn by_protocol(lab: &Lab) {
    let (first, second) = (lab.container("first"), lab.container("second"));
    let [tcp, udp] = [0, 1].map(|i| Mapping::both(HOST_PORT, CONTAINER_PORT)[i].clone());
    let (tcp, udp) = (lab.add(&first, &[tcp]), lab.add(&second, &[udp]));
    let _servers =
        (tcp.serve("tcp", &first, CONTAINER_PORT), udp.serve("udp", &second, CONTAINER_PORT));
    let mut report = Report::new();
    for case in Case::ALL {
        let reply = lab.from_client(case.protocol, case.family.of(HOST), HOST_PORT).ask();
        report.answered_by(&case.to_string(), &reply, case.protocol.name());
        let reply = lab.from_host(case.protocol, case.family.of(HOST), HOST_PORT).ask();
        report.answered_by(&format!("{case} from the host"), &reply, case.protocol.name());
    }
}

#[test]
fn several_host_ports_may_lead_to_one_container_port() {
    let lab = Lab::new();
    let web = lab.container("web");
    let ports = [18081, 18082].map(|port| Mapping::both(port, CONTAINER_PORT)).concat();
    let attached = lab.add(&web, &ports);
    let _servers = attached.serve("web", &web, CONTAINER_PORT);
    let mut report = Report::new();
    for case in Case::ALL {
        for port in [18081, 18082] {
            // The same client port to both: the two conversations must not be taken for one.
            let query = lab.from_client(case.protocol, case.family.of(HOST), port);
            let reply = query.source_port(40_000).ask();
            report.answered_by(&format!("{case} to port {port}"), &reply, "web");
        }
    }
}

#[test]
fn one_client_port_talks_to_two_addresses_of_the_host_at_once() {
    let lab = Lab::new();
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(HOST_PORT, CONTAINER_PORT));
    let _servers = attached.serve("web", &web, CONTAINER_PORT);
    let mut report = Report::new();
    for case in Case::ALL {
        let open = |host| {
            let to = case.family.of(host);
            lab.from_client(case.protocol, to, HOST_PORT).source_port(40_001).open()
        };
        let (Ok(mut first), Ok(mut second)) = (open(HOST), open(GATEWAY)) else {
            report.check(false, || format!("{case}: no second conversation"));
            continue;
        };
        for (name, conversation) in [("first", &mut first), ("second", &mut second)] {
            report.answered_by(&format!("{case}, {name}"), &conversation.ask(), "web");
        }
        report.answered_by(&format!("{case}, first again"), &first.ask(), "web");
    }
}

#[test]
fn link_local_clients_are_answered() {
    let lab = Lab::new();
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(HOST_PORT, CONTAINER_PORT));
    let _servers = attached.serve("web", &web, CONTAINER_PORT);
    let link_local = link_local_address(&lab.host, "up0");
    let _usable = link_local_address(&lab.client, "eth0");
    let scope = lab.client.ifindex("eth0");
    let mut report = Report::new();
    for protocol in tests::Protocol::ALL {
        let query = lab.from_client(protocol, IpAddr::V6(link_local), HOST_PORT).scope(scope);
        let gateway = Family::V6.of(GATEWAY);
        report.answered_seeing(protocol.name(), &query.ask(), "web", gateway);
    }
}

/// Waits until duplicate address detection has let it go.
fn link_local_address(netns: &Netns, interface: &str) -> Ipv6Addr {
    tests::wait::until("a link-local address", || {
        let shown = netns.ip(&format!("-6 -oneline addr show dev {interface} scope link"));
        let usable = shown.lines().find(|line| !line.contains("tentative"))?;
        usable.split_whitespace().nth(3)?.split('/').next()?.parse().ok()
    })
}

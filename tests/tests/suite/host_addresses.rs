//! Rows of the truth table: mappings of one address of the host (`hostIP`).

use std::{
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use tests::{
    Case, Family, Lab, Mapping, Protocol, Query, Report,
    packet::{Path, Wire},
    topology::{CLIENT, GATEWAY, HOST, HOST2},
};

fn at(address: IpAddr, host_port: u16) -> Vec<Mapping> {
    let text = address.to_string();
    Mapping::both(host_port, 8080).into_iter().map(|mapping| mapping.at(&text)).collect()
}

#[test]
fn a_mapping_of_one_address_answers_there_only() {
    one_address(&Lab::new());
}

pub fn one_address(lab: &Lab) {
    let _foreign = lab.foreign();
    let web = lab.container("web");
    let ports = Family::ALL.map(|family| at(family.of(HOST2), 18080)).concat();
    let attached = lab.add(&web, &ports);
    let _servers = attached.serve("web", &web, 8080);
    let mut report = Report::new();
    for case in Case::ALL {
        let published = case.family.of(HOST2);
        let reply = lab.from_client(case.protocol, published, 18080).ask();
        report.answered_seeing(&format!("{case}"), &reply, "web", case.family.of(CLIENT));
        let reply = lab.from_host(case.protocol, published, 18080).ask();
        report.answered_by(&format!("{case} from the host"), &reply, "web");
        for other in [HOST, GATEWAY] {
            let to = case.family.of(other);
            let reply = lab.from_client(case.protocol, to, 18080).in_vain().ask();
            report.unanswered(&format!("{case} to {to}"), &reply);
        }
        let to = case.family.loopback();
        let reply = lab.from_host(case.protocol, to, 18080).in_vain().ask();
        report.unanswered(&format!("{case} to {to}"), &reply);
    }
}

/// <https://github.com/containernetworking/plugins/issues/643>
#[test]
fn cni_06_an_unspecified_host_address_means_its_own_family_only() {
    unspecified(&Lab::new());
}

pub fn unspecified(lab: &Lab) {
    let (four, six) = (lab.container("four"), lab.container("six"));
    let four_attached = lab.add(&four, &at(Family::V4.unspecified(), 18084));
    let six_attached = lab.add(&six, &at(Family::V6.unspecified(), 18086));
    let _servers =
        (four_attached.serve("four", &four, 8080), six_attached.serve("six", &six, 8080));
    let mut report = Report::new();
    for case in Case::ALL {
        let to = case.family.of(HOST);
        for (port, family, server) in [(18084, Family::V4, "four"), (18086, Family::V6, "six")] {
            let query = lab.from_client(case.protocol, to, port);
            if case.family == family {
                report.answered_by(&format!("{case} to {port}"), &query.ask(), server);
            } else {
                report.unanswered(&format!("{case} to {port}"), &query.in_vain().ask());
            }
        }
    }
}

/// The mapping is the host's own: from the wire, from a container and through a raw frame it is
/// not there. <https://github.com/cilium/cilium/issues/17454>
#[test]
fn cni_12_a_loopback_mapping_answers_the_host_and_nobody_else() {
    let lab = Lab::new();
    let (web, neighbour) = (lab.container("web"), lab.container("neighbour"));
    let ports = Family::ALL.map(|family| at(family.loopback(), 18080)).concat();
    let attached = lab.add(&web, &ports);
    let _neighbour = lab.add(&neighbour, &[]);
    let _servers = attached.serve("web", &web, 8080);
    let mut report = Report::new();
    for case in Case::ALL {
        let reply = lab.from_host(case.protocol, case.family.loopback(), 18080).ask();
        report.answered_by(&format!("{case} from the host"), &reply, "web");
        for (name, from) in [("client", &lab.client), ("neighbour", &neighbour.netns)] {
            for to in [HOST, GATEWAY] {
                let to = case.family.of(to);
                let reply = Query::new(from, case.protocol, to, 18080).in_vain().ask();
                report.unanswered(&format!("{case} from the {name} to {to}"), &reply);
            }
        }
        let second = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
        if case.family == Family::V4 {
            let reply = lab.from_host(case.protocol, second, 18080).in_vain().ask();
            report.unanswered(&format!("{case} to {second}"), &reply);
        }
    }
}

/// A mapping of the uplink's address leaves a host service on loopback alone.
/// <https://github.com/cilium/cilium/issues/24818>
#[test]
fn cni_12_a_mapping_of_one_address_leaves_the_hosts_own_loopback_service_alone() {
    let lab = Lab::new();
    let web = lab.container("web");
    let ports = Family::ALL.map(|family| at(family.of(HOST), 18080)).concat();
    let attached = lab.add(&web, &ports);
    let _servers = attached.serve("web", &web, 8080);
    let _services = Case::ALL.map(|case| {
        tests::Server::new("host", &lab.host, case.protocol, case.family.loopback(), 18080)
    });
    let mut report = Report::new();
    for case in Case::ALL {
        let reply = lab.from_host(case.protocol, case.family.loopback(), 18080).ask();
        report.answered_by(&format!("{case} on loopback"), &reply, "host");
        let reply = lab.from_client(case.protocol, case.family.of(HOST), 18080).ask();
        report.answered_by(&format!("{case} at the uplink"), &reply, "web");
    }
}

/// CVE-2020-8558: a frame on the wire with a loopback destination opens nothing, whether the
/// mapping is of loopback or of every address.
/// <https://github.com/kubernetes/kubernetes/issues/92315>
#[test]
fn cni_13_a_loopback_destination_on_the_wire_reaches_no_container() {
    let lab = Lab::new();
    let (web, neighbour) = (lab.container("web"), lab.container("neighbour"));
    let mut ports = Mapping::both(18081, 8080);
    ports.extend(Family::ALL.map(|family| at(family.loopback(), 18080)).concat());
    let _attached = lab.add(&web, &ports);
    let beside = lab.add(&neighbour, &[]);
    let inside = Wire::new(&web.netns, "eth0");
    let mut report = Report::new();
    let mut source_port = 40_100;
    for (from, netns, target, client) in [
        ("the wire", &lab.client, lab.host.mac("up0"), CLIENT),
        ("a container", &neighbour.netns, lab.host.mac("br-academy"), beside.addresses()),
    ] {
        let wire = Wire::new(netns, "eth0");
        for case in Case::ALL {
            for port in [18080, 18081] {
                source_port += 1;
                let path = Path {
                    macs: (wire.mac, target),
                    source: (case.family.of(client), source_port).into(),
                    destination: (case.family.loopback(), port).into(),
                };
                wire.send(&path.opener(case.protocol));
                let seen = inside.receive(Duration::from_millis(100), |segment| {
                    (segment.source.port() == source_port).then(|| segment.clone())
                });
                report.check(seen.is_none(), || format!("{case} {from}, port {port}: {seen:?}"));
            }
        }
    }
    assert_eq!(lab.host.sysctl("net/ipv4/conf/all/route_localnet"), "0");
    assert_eq!(lab.host.sysctl("net/ipv4/conf/up0/route_localnet"), "0");
}

/// One port, three containers: by address and by protocol, as the conformance tests of Kubernetes
/// ask. <https://github.com/cilium/cilium/issues/14287>
#[test]
fn cni_08_one_port_serves_three_containers_by_address_and_protocol() {
    let lab = Lab::new();
    let containers = ["loopback", "tcp", "udp"].map(|name| (name, lab.container(name)));
    let mut report = Report::new();
    for family in Family::ALL {
        let port = family.pick(54_323, 54_326);
        let mapping = |protocol, address: IpAddr| {
            vec![Mapping::new(protocol, port, 8080).at(&address.to_string())]
        };
        let ports = [
            mapping(Protocol::Tcp, family.loopback()),
            mapping(Protocol::Tcp, family.of(HOST)),
            mapping(Protocol::Udp, family.of(HOST)),
        ];
        let mut kept = Vec::new();
        for ((name, container), ports) in containers.iter().zip(ports) {
            let attached = lab.add(container, &ports);
            kept.push((attached.serve(name, container, 8080), attached));
        }
        for (query, server) in [
            (lab.from_host(Protocol::Tcp, family.loopback(), port), "loopback"),
            (lab.from_client(Protocol::Tcp, family.of(HOST), port), "tcp"),
            (lab.from_client(Protocol::Udp, family.of(HOST), port), "udp"),
        ] {
            report.answered_by(&format!("{family:?} {server}"), &query.ask(), server);
        }
        for (_, attached) in &kept {
            lab.del(attached);
        }
    }
}

/// <https://github.com/containerd/nerdctl/issues/4786>
#[test]
fn cni_07_one_port_serves_a_container_per_address_of_the_host() {
    let lab = Lab::new();
    let _foreign = lab.foreign();
    let addresses = [
        ("loopback", Family::V4.loopback()),
        ("first", Family::V4.of(HOST)),
        ("second", Family::V4.of(HOST2)),
    ];
    let mut kept = Vec::new();
    for (name, address) in addresses {
        let container = lab.container(name);
        let attached = lab.add(&container, &at(address, 18080));
        kept.push((attached.serve(name, &container, 8080), attached, container));
    }
    let mut report = Report::new();
    for protocol in Protocol::ALL {
        for (name, address) in addresses {
            let reply = lab.from_host(protocol, address, 18080).ask();
            report.answered_by(&format!("{protocol:?} to {address}"), &reply, name);
        }
    }
    let late = lab.container("late");
    let wildcard =
        tests::Network::default().configs(lab.plugin, &lab.scratch(), &Mapping::both(18080, 8080));
    lab.try_add(&late, "eth0", wildcard).unwrap_err().fails_with(101, &["18080"]);
}

/// <https://github.com/cilium/cilium/issues/12116>
#[test]
fn cni_11_an_address_that_the_host_gets_later_is_published_too() {
    let lab = Lab::new();
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(18080, 8080));
    let _servers = attached.serve("web", &web, 8080);
    let later = (Ipv4Addr::new(192, 0, 2, 77), "2001:db8:2::77".parse().unwrap());
    tests::topology::address(&lab.host, "up0", later);
    let mut report = Report::new();
    for case in Case::ALL {
        let reply = lab.from_client(case.protocol, case.family.of(later), 18080).ask();
        report.answered_by(&format!("{case} from the client"), &reply, "web");
        let reply = lab.from_host(case.protocol, case.family.of(later), 18080).ask();
        report.answered_by(&format!("{case} from the host"), &reply, "web");
    }
}

//! Rows of the truth table: traffic that is not ours is left alone, whatever its ports are.

use std::time::Duration;

use tests::{
    Case, Lab, Mapping, Network, Query, Report, Server,
    packet::{Path, Wire},
    topology::{CLIENT, FOREIGN, HOST},
};

const ELSEWHERE: u16 = 7777;

/// <https://github.com/containernetworking/plugins/issues/1209>, GHSA-jv3w-x3r3-g6rm
#[test]
fn cni_04_packets_routed_through_the_host_to_a_foreign_address_are_untouched() {
    transit(&Lab::new());
}

pub fn transit(lab: &Lab) {
    let foreign = lab.foreign();
    lab.forward();
    let (web, neighbour) = (lab.container("web"), lab.container("neighbour"));
    let attached = lab.add(&web, &Mapping::both(53, 8080));
    let beside = lab.add(&neighbour, &[]);
    let _servers = attached.serve("web", &web, 8080);
    let _resolvers = Case::ALL
        .map(|case| Server::new("foreign", &foreign, case.protocol, case.family.of(FOREIGN), 53));
    let mut report = Report::new();
    for case in Case::ALL {
        let to = case.family.of(FOREIGN);
        for (name, from, address) in [
            ("client", &lab.client, CLIENT),
            ("container", &web.netns, attached.addresses()),
            ("neighbour", &neighbour.netns, beside.addresses()),
        ] {
            let reply = Query::new(from, case.protocol, to, 53).ask();
            let what = format!("{case} of the {name}");
            report.answered_seeing(&what, &reply, "foreign", case.family.of(address));
        }
    }
}

/// <https://github.com/cilium/cilium/issues/34041>
#[test]
fn ebpf_07_the_hosts_own_conversations_from_a_published_port_get_their_replies() {
    own_conversations(&Lab::new());
}

pub fn own_conversations(lab: &Lab) {
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(18080, 8080));
    let _servers = attached.serve("web", &web, 8080);
    let _outside = Case::ALL.map(|case| {
        Server::new("outside", &lab.client, case.protocol, case.family.of(CLIENT), ELSEWHERE)
    });
    let mut report = Report::new();
    for case in Case::ALL {
        let query = lab.from_host(case.protocol, case.family.of(CLIENT), ELSEWHERE);
        let (host, mut conversation) = match query.source_port(18080).open() {
            Ok(conversation) => (case.family.of(HOST), conversation),
            Err(error) => {
                report.check(false, || format!("{case}: {error}"));
                continue;
            }
        };
        for turn in 1..=3 {
            let reply = conversation.ask();
            report.answered_seeing(&format!("{case}, question {turn}"), &reply, "outside", host);
        }
        drop(conversation);
        let reply = lab.from_client(case.protocol, case.family.of(HOST), 18080).ask();
        report.answered_by(&format!("{case}, the published port"), &reply, "web");
    }
}

/// The conversation leaves from the host's address and the published port, and there is no socket
/// of the host that it could be told by.
#[test]
fn ebpf_07_masqueraded_conversations_of_containers_get_their_replies() {
    let lab = Lab::new();
    lab.forward();
    let (web, neighbour) = (lab.container("web"), lab.container("neighbour"));
    let attached = lab.add(&web, &Mapping::both(18080, 8080));
    let _beside = lab.add(&neighbour, &[]);
    let _servers = attached.serve("web", &web, 8080);
    lab.host.run("nft add table inet masq");
    lab.host.run("nft add chain inet masq post { type nat hook postrouting priority srcnat ; }");
    lab.host.run("nft add rule inet masq post oifname up0 masquerade");
    let _outside = Case::ALL.map(|case| {
        Server::new("outside", &lab.client, case.protocol, case.family.of(CLIENT), ELSEWHERE)
    });
    let mut report = Report::new();
    for case in Case::ALL {
        for (name, from) in [("publisher", &web.netns), ("neighbour", &neighbour.netns)] {
            let query = Query::new(from, case.protocol, case.family.of(CLIENT), ELSEWHERE);
            let mut conversation = match query.source_port(18080).open() {
                Ok(conversation) => conversation,
                Err(error) => {
                    report.check(false, || format!("{case} of the {name}: {error}"));
                    continue;
                }
            };
            for turn in 1..=3 {
                let what = format!("{case} of the {name}, question {turn}");
                let reply = conversation.ask();
                report.answered_seeing(&what, &reply, "outside", case.family.of(HOST));
                let port = match &reply {
                    tests::Reply::Answer(answer) => answer.seen.port(),
                    _ => 0,
                };
                // The second of the two may get another port: the first's mapping still stands.
                let wanted = name == "neighbour" || port == 18080;
                report.check(wanted, || format!("{what}: not from the published port: {reply:?}"));
            }
        }
        let reply = lab.from_client(case.protocol, case.family.of(HOST), 18080).ask();
        report.answered_by(&format!("{case}, the published port"), &reply, "web");
    }
}

/// <https://github.com/projectcalico/calico/pull/12752>
#[test]
fn ebpf_39_a_containers_lookup_works_while_the_host_publishes_the_resolvers_port() {
    let lab = Lab::new();
    lab.forward();
    let (dns, other) = (lab.container("dns"), lab.container("other"));
    let published = lab.add(&dns, &Mapping::both(53, 53));
    let _other = lab.add_to(&Network::second(), &other, "eth0", &[]);
    let _servers = published.serve("dns", &dns, 53);
    let _outside = Case::ALL.map(|case| {
        Server::new("resolver", &lab.client, case.protocol, case.family.of(CLIENT), 53)
    });
    let mut report = Report::new();
    for case in Case::ALL {
        for from in [&dns.netns, &other.netns] {
            let reply = Query::new(from, case.protocol, case.family.of(CLIENT), 53).ask();
            report.answered_by(&case.to_string(), &reply, "resolver");
        }
    }
}

/// The host's own services on other ports, and what it forwards by netfilter's rules, are as
/// before. <https://github.com/projectcalico/calico/issues/7420>
#[test]
fn ebpf_23_ports_that_netfilter_publishes_on_the_same_host_still_work() {
    let lab = Lab::new();
    lab.forward();
    let (web, other) = (lab.container("web"), lab.container("other"));
    let attached = lab.add(&web, &Mapping::both(18080, 8080));
    let behind = lab.add(&other, &[]);
    let _servers = (attached.serve("web", &web, 8080), behind.serve("other", &other, 8080));
    lab.host.run("nft add table inet pub");
    lab.host.run("nft add chain inet pub pre { type nat hook prerouting priority dstnat ; }");
    let (v4, v6) = behind.addresses();
    for protocol in ["tcp", "udp"] {
        let rule = format!("nft add rule inet pub pre iifname up0 {protocol} dport 19090 dnat");
        lab.host.run(&format!("{rule} ip to {v4}:8080"));
        lab.host.run(&format!("{rule} ip6 to [{v6}]:8080"));
    }
    let mut report = Report::new();
    for case in Case::ALL {
        let to = case.family.of(HOST);
        for (port, server) in [(19090, "other"), (18080, "web"), (19090, "other")] {
            let reply = lab.from_client(case.protocol, to, port).ask();
            report.answered_by(&format!("{case} to {port}"), &reply, server);
        }
    }
}

/// A frame for somebody else's MAC, which a promiscuous uplink sees, is not for this host.
/// <https://github.com/projectcalico/calico/issues/10058>
#[test]
fn ebpf_24_frames_for_another_mac_are_not_taken() {
    let lab = Lab::new();
    let web = lab.container("web");
    let _attached = lab.add(&web, &Mapping::both(18080, 8080));
    let (wire, inside) = (Wire::new(&lab.client, "eth0"), Wire::new(&web.netns, "eth0"));
    lab.host.ip("link set up0 promisc on");
    let mut report = Report::new();
    let own = lab.host.mac("up0");
    let mut port = 44_000;
    for (mac, taken) in [(own, true), ([2, 0, 0, 0, 0, 9], false), ([0xff; 6], false)] {
        for case in Case::ALL {
            port += 1;
            let path = Path {
                macs: (wire.mac, mac),
                source: (case.family.of(CLIENT), port).into(),
                destination: (case.family.of(HOST), 18080).into(),
            };
            wire.send(&path.opener(case.protocol));
            let seen = inside.receive(Duration::from_millis(100), |segment| {
                (segment.source.port() == port).then_some(())
            });
            report.check(seen.is_some() == taken, || format!("{case} for {mac:02x?}: {seen:?}"));
        }
    }
}

/// kube-proxy's IPVS mode gives every service address to an interface of the host.
/// <https://github.com/containernetworking/plugins/issues/222>
#[test]
fn cni_05_service_addresses_are_not_stolen_by_a_wildcard_mapping() {
    let lab = Lab::new();
    let service = ("10.96.0.10".parse().unwrap(), "fd00:96::10".parse().unwrap());
    lab.host.ip("link add kube-ipvs0 type veth peer name kube-peer");
    lab.host.ip("addr add 10.96.0.10/32 dev kube-ipvs0");
    lab.host.ip("addr add fd00:96::10/128 dev kube-ipvs0 nodad");
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(443, 8080));
    let _servers = attached.serve("web", &web, 8080);
    let _services = Case::ALL
        .map(|case| Server::new("service", &lab.host, case.protocol, case.family.of(service), 443));
    let mut report = Report::new();
    for case in Case::ALL {
        for (from, netns) in [("outside", &lab.client), ("inside", &web.netns)] {
            let reply = Query::new(netns, case.protocol, case.family.of(service), 443).ask();
            report.answered_by(&format!("{case} from {from}, service"), &reply, "service");
            let reply = Query::new(netns, case.protocol, case.family.of(HOST), 443).ask();
            report.answered_by(&format!("{case} from {from}, host"), &reply, "web");
        }
        let reply = lab.from_host(case.protocol, case.family.loopback(), 443).ask();
        report.answered_by(&format!("{case} on loopback"), &reply, "web");
    }
}

/// Small tables, a flood of first packets, one conversation in use.
/// <https://github.com/cilium/cilium/issues/34833>
#[test]
fn ebpf_18_a_flood_of_first_packets_breaks_no_conversation_in_use() {
    let lab = Lab::new();
    let web = lab.container("web");
    let small = Network::default().with(serde_json::json!({ "maxFlows": 256 }));
    let attached = lab.add_to(&small, &web, "eth0", &Mapping::both(18080, 8080));
    let _servers = attached.serve("web", &web, 8080);
    let (wire, uplink) = (Wire::new(&lab.client, "eth0"), lab.host.mac("up0"));
    let flood = ("192.0.2.200".parse().unwrap(), "2001:db8:2::200".parse().unwrap());
    let mut report = Report::new();
    for case in Case::ALL {
        if case.protocol == tests::Protocol::Udp {
            continue;
        }
        let to = case.family.of(HOST);
        let mut conversation = lab.from_client(case.protocol, to, 18080).open().unwrap();
        report.answered_by(&format!("{case} before"), &conversation.ask(), "web");
        for port in 1024..4096 {
            let path = Path {
                macs: (wire.mac, uplink),
                source: (case.family.of(flood), port).into(),
                destination: (to, 18080).into(),
            };
            wire.send(&path.opener(case.protocol));
        }
        report.answered_by(&format!("{case} afterwards"), &conversation.ask(), "web");
    }
}

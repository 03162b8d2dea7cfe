//! academy and what else is on the host: other people's hooks, new interfaces, `sync`, `reset`.

use tests::{
    Case, Lab, Mapping, Query, Report, Server,
    leak::Snapshot,
    netns::must,
    topology::{FOREIGN, HOST, HOST2},
};

/// A filter of somebody else: classic BPF that matches nothing, so that the next filter decides.
fn add_filter(lab: &Lab, interface: &str, direction: &str) {
    let words = ["filter", "add", "dev", interface, direction, "prio", "7", "bpf", "bytecode"];
    must(lab.host.command("tc").args(words).arg("1,6 0 0 0,"));
}

#[test]
fn reset_refuses_while_a_container_lives_and_then_removes_everything() {
    let lab = Lab::new();
    let before = Snapshot::of(&lab);
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(18080, 8080));
    let now = Snapshot::of(&lab);
    let outcome = lab.command_line("reset");
    assert!(!outcome.succeeded(), "{outcome:?}");
    now.assert_unchanged(&lab);
    lab.check(&attached).silent_success();
    lab.del(&attached);
    let _outcome = lab.command_line("reset").success();
    let mut now = Snapshot::of(&lab);
    now.links.remove("br-academy");
    assert_eq!(now, before, "left: now, right: before");
    for interface in ["up0", "lo"] {
        let filters = lab.host.run(&format!("tc filter show dev {interface} ingress"));
        assert_eq!(filters.trim(), "", "{interface}");
    }
    let _again = lab.add(&web, &Mapping::both(18080, 8080));
}

/// <https://github.com/aquasecurity/tracee/issues/1828>
#[test]
fn cni_29_filters_and_qdiscs_of_others_stay() {
    let lab = Lab::new();
    lab.host.run("tc qdisc add dev up0 clsact");
    for direction in ["ingress", "egress"] {
        add_filter(&lab, "up0", direction);
    }
    let (web, beside) = (lab.container("web"), lab.container("beside"));
    let attached = lab.add(&web, &Mapping::both(18080, 8080));
    let neighbour = lab.add(&beside, &[]);
    let veth = attached.host_interface();
    add_filter(&lab, &veth, "ingress");
    let _servers = attached.serve("web", &web, 8080);
    let mut report = Report::new();
    for case in Case::ALL {
        let reply = lab.from_client(case.protocol, case.family.of(HOST), 18080).ask();
        report.answered_by(&format!("{case} beside a filter of others"), &reply, "web");
    }
    lab.del(&neighbour);
    let filters = lab.host.run(&format!("tc filter show dev {veth} ingress"));
    report.check(filters.contains("pref 7"), || format!("at the veth: {filters}"));
    lab.del(&attached);
    let _outcome = lab.command_line("reset").success();
    for direction in ["ingress", "egress"] {
        let filters = lab.host.run(&format!("tc filter show dev up0 {direction}"));
        report.check(filters.contains("pref 7"), || format!("{direction}: {filters}"));
    }
}

/// The reference `bandwidth` puts a qdisc of kind `ingress` where clsact would be.
/// <https://github.com/containernetworking/plugins/issues/894>
#[test]
fn cni_28_an_ingress_qdisc_on_the_uplink_is_no_obstacle() {
    let lab = Lab::new();
    lab.host.run("tc qdisc add dev up0 ingress");
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(18080, 8080));
    let _servers = attached.serve("web", &web, 8080);
    let mut report = Report::new();
    for case in Case::ALL {
        let reply = lab.from_client(case.protocol, case.family.of(HOST), 18080).ask();
        report.answered_by(&case.to_string(), &reply, "web");
    }
    lab.check(&attached).silent_success();
    lab.del(&attached);
    let _outcome = lab.command_line("reset").success();
    assert!(lab.host.run("tc qdisc show dev up0").contains("qdisc ingress"));
}

#[test]
fn attach_tcx_pins_its_links_and_serves_the_same() {
    let lab = Lab::new();
    let web = lab.container("web");
    let network = tests::Network::default().with(serde_json::json!({ "attach": "tcx" }));
    let attached = lab.add_to(&network, &web, "eth0", &Mapping::both(18080, 8080));
    let _servers = attached.serve("web", &web, 8080);
    let mut report = Report::new();
    for case in Case::ALL {
        for (name, query) in [
            ("outside", lab.from_client(case.protocol, case.family.of(HOST), 18080)),
            ("loopback", lab.from_host(case.protocol, case.family.loopback(), 18080)),
            ("inside", Query::new(&web.netns, case.protocol, case.family.of(HOST), 18080)),
        ] {
            report.answered_by(&format!("{case} from {name}"), &query.ask(), "web");
        }
    }
    let links = || {
        let pins = Snapshot::of(&lab).pins;
        pins.into_iter().filter(|pin| pin.contains("/links/")).collect::<Vec<_>>()
    };
    let index = lab.host.ifindex(&attached.host_interface());
    let own = |links: &[String]| {
        links.iter().filter(|pin| pin.contains(&format!("links/{index}-"))).count()
    };
    assert_eq!(own(&links()), 1, "{:?}", links());
    lab.check(&attached).silent_success();
    lab.del(&attached);
    assert_eq!(own(&links()), 0, "{:?}", links());
}

/// <https://github.com/projectcalico/calico/pull/11026>
#[test]
fn cni_31_a_tcx_pin_of_a_veth_that_is_gone_is_no_obstacle() {
    let lab = Lab::new();
    let web = lab.container("web");
    let network = tests::Network::default().with(serde_json::json!({ "attach": "tcx" }));
    for _ in 0..2 {
        let attached = lab.add_to(&network, &web, "eth0", &Mapping::both(18080, 8080));
        lab.host.ip(&format!("link del {}", attached.host_interface()));
        lab.del(&attached);
    }
    let attached = lab.add_to(&network, &web, "eth0", &Mapping::both(18080, 8080));
    lab.check(&attached).silent_success();
}

#[test]
fn sync_serves_an_interface_that_came_later() {
    let lab = Lab::new();
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(18080, 8080));
    let _servers = attached.serve("web", &web, 8080);
    let foreign = lab.foreign();
    let outcome = lab.command_line("sync").success();
    assert_eq!(outcome.stdout, "", "{outcome:?}");
    let mut report = Report::new();
    for case in Case::ALL {
        let to = case.family.of(HOST2);
        let reply = Query::new(&foreign, case.protocol, to, 18080).ask();
        report.answered_seeing(&case.to_string(), &reply, "web", case.family.of(FOREIGN));
    }
}

#[test]
fn the_next_add_serves_an_interface_that_came_later() {
    let lab = Lab::new();
    let (web, second) = (lab.container("web"), lab.container("second"));
    let attached = lab.add(&web, &Mapping::both(18080, 8080));
    let _servers = attached.serve("web", &web, 8080);
    let foreign = lab.foreign();
    let _second = lab.add(&second, &[]);
    let mut report = Report::new();
    for case in Case::ALL {
        let reply = Query::new(&foreign, case.protocol, case.family.of(HOST2), 18080).ask();
        report.answered_by(&case.to_string(), &reply, "web");
    }
}

#[test]
fn sync_and_version_work_on_a_host_without_containers() {
    let lab = Lab::new();
    let before = Snapshot::of(&lab);
    let _outcome = lab.command_line("sync").success();
    before.assert_unchanged(&lab);
    let outcome = lab.command_line("version").success();
    assert!(outcome.stdout.contains(env!("CARGO_PKG_VERSION")), "{outcome:?}");
    let outcome = lab.command_line("no-such-word");
    assert!(!outcome.succeeded() && outcome.stderr.contains("reset"), "{outcome:?}");
}

/// rp_filter=1 and INVALID dropped: both directions go around netfilter, or both through it.
/// <https://github.com/cilium/cilium/issues/10645>
#[test]
fn ebpf_22_25_strict_reverse_path_and_dropped_invalid_packets_do_not_matter() {
    let lab = Lab::new();
    for interface in ["all", "default", "up0"] {
        lab.host.set_sysctl(&format!("net/ipv4/conf/{interface}/rp_filter"), "1");
    }
    lab.host.run("nft add table inet strict");
    for hook in ["forward", "input", "output"] {
        let chain = format!("nft add chain inet strict {hook}");
        lab.host.run(&format!("{chain} {{ type filter hook {hook} priority 0 ; }}"));
        lab.host.run(&format!("nft add rule inet strict {hook} ct state invalid drop"));
    }
    let (web, neighbour) = (lab.container("web"), lab.container("neighbour"));
    let attached = lab.add(&web, &Mapping::both(18080, 8080));
    let _neighbour = lab.add(&neighbour, &[]);
    let _servers = attached.serve("web", &web, 8080);
    let mut report = Report::new();
    for case in Case::ALL {
        let host = case.family.of(HOST);
        for (name, query) in [
            ("outside", lab.from_client(case.protocol, host, 18080)),
            ("the host", lab.from_host(case.protocol, host, 18080)),
            ("loopback", lab.from_host(case.protocol, case.family.loopback(), 18080)),
            ("the neighbour", Query::new(&neighbour.netns, case.protocol, host, 18080)),
            ("inside", Query::new(&web.netns, case.protocol, host, 18080)),
        ] {
            report.answered_by(&format!("{case} from {name}"), &query.ask(), "web");
        }
    }
}

/// A reply leaves where its request came in, whatever the routes say.
/// <https://github.com/cilium/cilium/pull/18585>
#[test]
fn ebpf_28_replies_leave_by_the_uplink_of_the_request() {
    let lab = Lab::new();
    let foreign = lab.foreign();
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(18080, 8080));
    let _servers = attached.serve("web", &web, 8080);
    // An address behind up1 that the host routes by up0.
    foreign.ip("addr add 203.0.113.7/32 dev eth0");
    foreign.ip("addr add 2001:db8:77::7/128 dev eth0 nodad");
    lab.host.ip("route add 203.0.113.0/24 via 192.0.2.2");
    lab.host.ip("-6 route add 2001:db8:77::/64 via 2001:db8:2::2");
    let source = ("203.0.113.7".parse().unwrap(), "2001:db8:77::7".parse().unwrap());
    let mut report = Report::new();
    for case in Case::ALL {
        let query = Query::new(&foreign, case.protocol, case.family.of(HOST2), 18080);
        let reply = query.source(case.family.of(source), 0).ask();
        report.answered_seeing(&case.to_string(), &reply, "web", case.family.of(source));
    }
}

/// The client's MAC changes in the middle of a conversation.
#[test]
fn ebpf_28_a_conversation_survives_another_mac_of_the_client() {
    let lab = Lab::new();
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(18080, 8080));
    let _servers = attached.serve("web", &web, 8080);
    let mut report = Report::new();
    for (index, case) in Case::ALL.into_iter().enumerate() {
        let query = lab.from_client(case.protocol, case.family.of(HOST), 18080);
        let mut conversation = query.open().unwrap();
        report.answered_by(&format!("{case} before"), &conversation.ask(), "web");
        lab.client.ip(&format!("link set eth0 address 02:00:00:00:01:{index:02}"));
        if case.family == tests::Family::V6 {
            let route = format!("-6 route replace default via {}", HOST.1);
            lab.client.ip(&route);
        }
        report.answered_by(&format!("{case} afterwards"), &conversation.ask(), "web");
    }
}

/// <https://github.com/moby/moby/issues/14288>
#[test]
fn cni_24_two_thousand_mappings_of_one_container() {
    let lab = Lab::new();
    let web = lab.container("web");
    let ports: Vec<_> = (0..2000)
        .map(|offset| Mapping::new(tests::Protocol::Tcp, 20_000 + offset, 20_000 + offset))
        .collect();
    let before = lab.add(&lab.container("warm"), &[]);
    lab.del(&before);
    let empty = Snapshot::of(&lab);
    let started = std::time::Instant::now();
    let attached = lab.add(&web, &ports);
    let _server =
        Server::new("web", &web.netns, tests::Protocol::Tcp, attached.addresses().0.into(), 21_999);
    let reply = lab.from_client(tests::Protocol::Tcp, HOST.0.into(), 21_999).ask();
    assert_eq!(reply.server(), Some("web"), "{reply:?}");
    lab.del(&attached);
    empty.assert_unchanged(&lab);
    let took = started.elapsed();
    assert!(took.as_secs() < 2, "{took:?}");
}

#[test]
fn more_mappings_than_the_map_holds_are_a_clean_error() {
    let lab = Lab::new();
    let network = tests::Network::default().with(serde_json::json!({ "maxPorts": 64 }));
    let (web, second) = (lab.container("web"), lab.container("second"));
    let attached = lab.add_to(&network, &web, "eth0", &[]);
    let before = Snapshot::of(&lab);
    let ports: Vec<_> =
        (0..100).map(|offset| Mapping::new(tests::Protocol::Tcp, 20_000 + offset, 8080)).collect();
    let outcome = lab.run("ADD", &second, "eth0", &lab.config(&ports));
    assert!(outcome.error().msg.contains("ports"), "{outcome:?}");
    before.assert_unchanged(&lab);
    lab.check(&attached).silent_success();
}

/// Forwarding goes on for the gateway's sake; the host keeps the routes that it learns.
/// <https://github.com/containernetworking/plugins/issues/160>
#[test]
fn cni_62_ipv6_forwarding_does_not_end_the_hosts_autoconfiguration() {
    let lab = Lab::new();
    lab.host.set_sysctl("net/ipv6/conf/up0/accept_ra", "1");
    let _attached = lab.add(&lab.container("web"), &[]);
    assert_eq!(lab.host.sysctl("net/ipv4/ip_forward"), "1");
    assert_eq!(lab.host.sysctl("net/ipv6/conf/all/forwarding"), "1");
    assert_eq!(lab.host.sysctl("net/ipv6/conf/up0/accept_ra"), "2");
}

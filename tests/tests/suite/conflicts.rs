//! Who gets a host port, and who is refused (101).

use std::net::{IpAddr, Ipv4Addr};

use serde_json::json;
use tests::{
    Attached, Case, Container, Family, Lab, Listener, Mapping, Network, Protocol, Query, Report,
    Server,
    leak::Snapshot,
    topology::{HOST, HOST2},
    wait,
};

use crate::PEER;

const PORT: u16 = 18080;

fn tcp() -> Mapping {
    Mapping::new(Protocol::Tcp, PORT, 8080)
}

fn udp() -> Mapping {
    Mapping::new(Protocol::Udp, PORT, 8080)
}

fn refused(lab: &Lab, container: &Container, ports: &[Mapping], words: &[&str]) {
    lab.run("ADD", container, "eth0", &lab.config(ports)).fails_with(101, words);
}

/// <https://github.com/cri-o/cri-o/issues/1538>
#[test]
fn cni_17_a_port_of_another_container_is_refused_and_its_owner_named() {
    let lab = Lab::new();
    let (first, second) = (lab.container("first"), lab.container("second"));
    let attached = lab.add(&first, &[tcp(), udp()]);
    let _servers = attached.serve("first", &first, 8080);
    let before = Snapshot::of(&lab);
    refused(&lab, &second, &[tcp()], &["tcp", "18080", &first.id]);
    refused(&lab, &second, &[udp()], &["udp", "18080", &first.id]);
    before.assert_unchanged(&lab);
    assert_eq!(second.netns.links(), ["lo"]);
}

/// <https://github.com/containerd/nerdctl/issues/4253>
#[test]
fn cni_20_a_refused_add_and_its_del_never_touch_the_owner() {
    let lab = Lab::new();
    let (first, second) = (lab.container("first"), lab.container("second"));
    let attached = lab.add(&first, &[tcp(), udp()]);
    let _servers = attached.serve("first", &first, 8080);
    refused(&lab, &second, &[tcp(), udp()], &["18080"]);
    lab.run("DEL", &second, "eth0", &lab.config(&[tcp(), udp()])).silent_success();
    let mut report = Report::new();
    for case in Case::ALL {
        let reply = lab.from_client(case.protocol, case.family.of(HOST), PORT).ask();
        report.answered_by(&case.to_string(), &reply, "first");
    }
}

#[test]
fn wildcard_and_exact_mappings_conflict_within_one_family_and_protocol() {
    let lab = Lab::new();
    let holder = lab.container("holder");
    let other = lab.container("other");
    let (v4, v6) = (HOST.0.to_string(), HOST.1.to_string());
    for (held, wanted, conflict) in [
        (tcp().at(&v4), tcp(), true),
        (tcp(), tcp().at(&v4), true),
        (tcp(), tcp().at("::"), true),
        (tcp().at(&v4), tcp().at(&v4), true),
        (tcp().at("0.0.0.0"), tcp().at(&v4), true),
        (tcp().at("::"), tcp().at(&v6), true),
        (tcp().at("0.0.0.0"), tcp().at("::"), false),
        (tcp().at(&v4), tcp().at("::"), false),
        (tcp().at(&v4), tcp().at("127.0.0.1"), false),
        (tcp(), udp(), false),
    ] {
        let attached = lab.add(&holder, std::slice::from_ref(&held));
        let outcome = lab.run("ADD", &other, "eth0", &lab.config(std::slice::from_ref(&wanted)));
        let code = if conflict { outcome.error().code } else { 0 };
        let expected = if conflict { 101 } else { 0 };
        assert_eq!(code, expected, "{held:?} is held, {wanted:?} asked for: {outcome:?}");
        assert_eq!(outcome.succeeded(), !conflict, "{held:?} / {wanted:?}: {outcome:?}");
        lab.run("DEL", &other, "eth0", &lab.config(&[wanted])).silent_success();
        lab.del(&attached);
    }
}

#[test]
fn an_exact_repetition_counts_once_and_two_targets_of_one_port_are_an_error() {
    let lab = Lab::new();
    let web = lab.container("web");
    let attached = lab.add(&web, &[tcp(), tcp()]);
    assert_eq!(lab.rows("ports4").len(), 1);
    lab.del(&attached);
    let targets = [tcp(), Mapping::new(Protocol::Tcp, PORT, 8081)];
    let outcome = lab.run("ADD", &web, "eth0", &lab.config(&targets));
    outcome.fails_with(7, &["hostPort", "18080"]);
}

#[test]
fn a_port_on_which_a_process_listens_is_refused() {
    let lab = Lab::new();
    let (web, other) = (lab.container("web"), lab.container("other"));
    let _warm = lab.add(&other, &[]);
    let before = Snapshot::of(&lab);
    for case in Case::ALL {
        let mapping = Mapping::new(case.protocol, PORT, 8080);
        for address in [case.family.unspecified(), case.family.of(HOST)] {
            let wanted = if address.is_unspecified() {
                mapping.clone()
            } else {
                mapping.clone().at(&address.to_string())
            };
            let at = (case.protocol, address, PORT);
            let _process = Listener::new(PEER, "host", &lab.host, at, &[]);
            refused(&lab, &web, &[wanted], &[case.protocol.name(), "18080"]);
        }
    }
    before.assert_unchanged(&lab);
}

/// Such as a resolver on 127.0.0.53:53.
#[test]
fn a_process_bound_to_another_address_keeps_it_beside_a_wildcard_mapping() {
    let lab = Lab::new();
    let _foreign = lab.foreign();
    let web = lab.container("web");
    let kept = [
        (Family::V4, IpAddr::V4(Ipv4Addr::new(127, 0, 0, 53))),
        (Family::V4, Family::V4.of(HOST2)),
        (Family::V6, Family::V6.of(HOST2)),
        (Family::V6, Family::V6.loopback()),
    ];
    let _processes = kept.map(|(_, address)| {
        Protocol::ALL
            .map(|protocol| Listener::new(PEER, "host", &lab.host, (protocol, address, PORT), &[]))
    });
    let attached = lab.add(&web, &[tcp(), udp()]);
    let _servers = attached.serve("web", &web, 8080);
    let mut report = Report::new();
    for case in Case::ALL {
        for (family, address) in kept {
            if family == case.family {
                let reply = lab.from_host(case.protocol, address, PORT).ask();
                report.answered_by(&format!("{case} {address}"), &reply, "host");
            }
        }
        let to_second = lab.from_client(case.protocol, case.family.of(HOST2), PORT).ask();
        report.answered_by(&format!("{case} from outside to HOST2"), &to_second, "host");
        let reply = lab.from_client(case.protocol, case.family.of(HOST), PORT).ask();
        report.answered_by(&format!("{case} from outside"), &reply, "web");
    }
    lab.del(&attached);
    assert_eq!(lab.rows("ports4").len() + lab.rows("ports6").len(), 0);
}

/// podman binds the ports it publishes before it runs the plugins.
#[test]
fn a_listener_of_the_runtime_itself_is_no_conflict() {
    let lab = Lab::new();
    // This process is the plugin's parent, as podman is.
    let _reserved = Case::ALL
        .map(|case| Server::new("runtime", &lab.host, case.protocol, case.family.of(HOST), PORT));
    let web = lab.container("web");
    let attached = lab.add(&web, &[tcp(), udp()]);
    let _servers = attached.serve("web", &web, 8080);
    let mut report = Report::new();
    for case in Case::ALL {
        let reply = lab.from_client(case.protocol, case.family.of(HOST), PORT).ask();
        report.answered_by(&case.to_string(), &reply, "web");
    }
}

/// podman's conmon holds the ports for the container's life.
#[test]
fn a_listener_whose_command_line_names_the_container_is_no_conflict() {
    let lab = Lab::new();
    let web = lab.container("web");
    let listen = |words: &[&str]| {
        let at = (Protocol::Tcp, Family::V4.unspecified(), PORT);
        Listener::new(PEER, "conmon", &lab.host, at, words)
    };
    let conmon = listen(&["-c", &web.id]);
    let attached = lab.add(&web, &[tcp()]);
    let _servers = attached.serve("web", &web, 8080);
    let reply = lab.from_client(Protocol::Tcp, Family::V4.of(HOST), PORT).ask();
    assert_eq!(reply.server(), Some("web"), "{reply:?}");
    lab.del(&attached);
    drop(conmon);
    let _other = listen(&["-c", "another"]);
    refused(&lab, &web, &[tcp()], &["tcp", "18080"]);
}

#[test]
fn an_unconnected_udp_socket_on_an_ephemeral_port_is_no_listener() {
    let lab = Lab::new();
    let web = lab.container("web");
    lab.host.set_sysctl("net/ipv4/ip_local_port_range", "40000 50000");
    let _processes = [45_000, 30_000].map(|port| {
        let at = (Protocol::Udp, Family::V4.unspecified(), port);
        Listener::new(PEER, "host", &lab.host, at, &[])
    });
    let attached = lab.add(&web, &[Mapping::new(Protocol::Udp, 45_000, 8080)]);
    lab.del(&attached);
    refused(&lab, &web, &[Mapping::new(Protocol::Udp, 30_000, 8080)], &["udp", "30000"]);
}

#[test]
fn a_socket_that_is_opened_later_changes_nothing() {
    let lab = Lab::new();
    let web = lab.container("web");
    let attached = lab.add(&web, &[tcp(), udp()]);
    let _servers = attached.serve("web", &web, 8080);
    let mut report = Report::new();
    for case in Case::ALL {
        let at = (case.protocol, case.family.of(HOST), PORT);
        let _process = Listener::new(PEER, "host", &lab.host, at, &[]);
        let reply = lab.from_client(case.protocol, case.family.of(HOST), PORT).ask();
        report.answered_by(&case.to_string(), &reply, "web");
    }
}

/// <https://github.com/containernetworking/plugins/issues/683>
#[test]
fn cni_16_the_port_of_a_dead_container_is_taken_over() {
    let lab = Lab::new();
    let dead = lab.container("dead");
    let gone = lab.add(&dead, &[tcp(), udp()]);
    let veth = gone.host_interface();
    drop(dead);
    wait::until("the dead container's veth is gone", || {
        (!lab.host.links().contains(&veth)).then_some(())
    });
    let web = lab.container("web");
    let attached = lab.add(&web, &[tcp(), udp()]);
    let _servers = attached.serve("web", &web, 8080);
    let ask = |report: &mut Report, when: &str| {
        for case in Case::ALL {
            let reply = lab.from_client(case.protocol, case.family.of(HOST), PORT).ask();
            report.answered_by(&format!("{case} {when}"), &reply, "web");
        }
    };
    let mut report = Report::new();
    ask(&mut report, "after the take-over");
    lab.del(&gone);
    ask(&mut report, "after the late DEL");
}

/// <https://github.com/cilium/cilium/issues/48455>
#[test]
fn cni_19_a_late_del_of_the_old_container_leaves_the_new_ones_port() {
    let lab = Lab::new();
    let (old, new) = (lab.container("old"), lab.container("new"));
    let before = lab.add(&old, &[tcp(), udp()]);
    refused(&lab, &new, &[tcp(), udp()], &["18080"]);
    lab.del(&before);
    let after = lab.add(&new, &[tcp(), udp()]);
    let _servers = after.serve("new", &new, 8080);
    lab.del(&before);
    let mut report = Report::new();
    for case in Case::ALL {
        let reply = lab.from_client(case.protocol, case.family.of(HOST), PORT).ask();
        report.answered_by(&case.to_string(), &reply, "new");
    }
}

/// podman gives every network of a container all of its ports; so does containerd with two
/// conflists. <https://github.com/containers/podman/issues/17432>
#[test]
fn cni_26_of_two_networks_of_one_container_the_first_serves_and_the_second_takes_over() {
    let lab = Lab::new();
    let mut report = Report::new();
    for first_goes in [true, false] {
        let web = lab.container("web");
        let eth0 = lab.add(&web, &[tcp(), udp()]);
        let eth1 = lab.add_to(
            &Network::second().with(json!({ "isDefaultGateway": false, "isGateway": true })),
            &web,
            "eth1",
            &[tcp(), udp()],
        );
        let first = eth0.serve("eth0", &web, 8080);
        let second = eth1.serve("eth1", &web, 8080);
        let ask = |report: &mut Report, when: &str, server: &str| {
            for case in Case::ALL {
                let reply = Query::new(&lab.host, case.protocol, case.family.of(HOST), PORT).ask();
                report.answered_by(&format!("{case} {when}"), &reply, server);
            }
        };
        ask(&mut report, "both", "eth0");
        let (going, staying, server): (&Attached, &Attached, &str) =
            if first_goes { (&eth0, &eth1, "eth1") } else { (&eth1, &eth0, "eth0") };
        lab.del(going);
        if first_goes {
            // The network that went had the default routes.
            web.netns.ip("route add default via 10.97.0.1");
            web.netns.ip("-6 route add default via fd00:97::1");
        }
        ask(&mut report, "after one DEL", server);
        lab.del(staying);
        drop((first, second));
        let rows = lab.rows("ports4").len() + lab.rows("ports6").len();
        report.check(rows == 0, || format!("{rows} rows are left"));
    }
}

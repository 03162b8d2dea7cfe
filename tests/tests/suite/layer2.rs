//! Between containers of one bridge: unicast goes straight across, the rest through the bridge.

use std::{
    net::{Ipv4Addr, Ipv6Addr, UdpSocket},
    time::Duration,
};

use tests::{
    Attached, Case, Container, Family, Lab, Mapping, Network, Protocol, Query, Report, Server,
    topology::{GATEWAY, HOST},
    wait,
};

struct Pair {
    lab: Lab,
    first: (Container, Attached),
    second: (Container, Attached),
}

impl Pair {
    fn of(lab: Lab) -> Self {
        let (first, second) = (lab.container("first"), lab.container("second"));
        let to_first = lab.add(&first, &Mapping::both(18080, 8080));
        let to_second = lab.add(&second, &[]);
        Self { lab, first: (first, to_first), second: (second, to_second) }
    }

    /// Questions of the second container to the first.
    fn talk(&self, report: &mut Report, when: &str) {
        let _servers = self.first.1.serve("first", &self.first.0, 8080);
        for case in Case::ALL {
            let to = case.family.of(self.first.1.addresses());
            let reply = Query::new(&self.second.0.netns, case.protocol, to, 8080).ask();
            let client = case.family.of(self.second.1.addresses());
            report.answered_seeing(&format!("{case} {when}"), &reply, "first", client);
        }
    }
}

fn with_bridge_netfilter() -> Lab {
    let lab = Lab::new();
    for family in ["iptables", "ip6tables"] {
        lab.host.bridge_netfilter(family, true);
    }
    lab
}

#[test]
fn neighbours_reach_each_other_straight() {
    let pair = Pair::of(Lab::new());
    let mut report = Report::new();
    pair.talk(&mut report, "for the first time");
    let before = pair.lab.counter("short_cut");
    pair.talk(&mut report, "again");
    let packets = pair.lab.counter("short_cut") - before;
    // Two TCP conversations of at least four packets, two UDP ones of two.
    report.check(packets >= 12, || format!("only {packets} packets took the short cut"));
}

/// What a container sends while it is made, such as its first neighbour solicitations, does not look
/// to the bridge's hook like its MAC behind another port.
#[test]
fn a_new_containers_first_frames_do_not_end_its_short_cut() {
    let lab = Lab::new();
    for turn in 0..24 {
        let container = lab.container("new");
        let attached = lab.add(&container, &[]);
        let rows = lab.rows("fdb");
        let [row] = rows.as_slice() else { panic!("turn {turn}: {rows:?}") };
        let flags = row["formatted"]["value"]["flags"].as_u64();
        assert_eq!(flags, Some(0), "turn {turn}: {row}");
        lab.del(&attached);
    }
}

/// The bridge's own counters tell whether a frame went through it.
#[test]
fn the_short_cut_bypasses_the_bridge_and_netfilter() {
    let pair = Pair::of(Lab::new());
    let host = &pair.lab.host;
    host.run("nft add table bridge seen");
    host.run("nft add chain bridge seen passing { type filter hook forward priority 0 ; }");
    host.run("nft add rule bridge seen passing udp dport 8080 counter");
    host.run("nft add rule bridge seen passing tcp dport 8080 counter");
    pair.talk(&mut Report::new(), "once");
    let seen = host.run("nft list table bridge seen");
    assert_eq!(seen.matches("counter packets 0 ").count(), 2, "{seen}");
}

/// <https://github.com/containernetworking/plugins/pull/469>
#[test]
fn cni_15_where_netfilter_sees_the_bridge_neighbours_go_through_it() {
    let pair = Pair::of(with_bridge_netfilter());
    let mut report = Report::new();
    pair.talk(&mut report, "by the bridge");
    let packets = pair.lab.counter("short_cut");
    report.check(packets == 0, || format!("{packets} packets took the short cut"));
    // A neighbour's connection to a host port stays short.
    let _servers = pair.first.1.serve("first", &pair.first.0, 8080);
    for case in Case::ALL {
        for to in [HOST, GATEWAY] {
            let to = case.family.of(to);
            for from in [&pair.first.0.netns, &pair.second.0.netns] {
                let reply = Query::new(from, case.protocol, to, 18080).ask();
                report.answered_by(&format!("{case} to {to}"), &reply, "first");
            }
        }
        let reply = pair.lab.from_client(case.protocol, case.family.of(HOST), 18080).ask();
        report.answered_by(&format!("{case} from outside"), &reply, "first");
        let reply = pair.lab.from_host(case.protocol, case.family.loopback(), 18080).ask();
        report.answered_by(&format!("{case} from loopback"), &reply, "first");
    }
}

/// The sysctl is 1 from the moment br_netfilter is loaded, long after ADD.
#[test]
fn sync_ends_the_short_cut_when_netfilter_starts_to_see_the_bridge() {
    let pair = Pair::of(Lab::new());
    let mut report = Report::new();
    for family in ["iptables", "ip6tables"] {
        pair.lab.host.bridge_netfilter(family, true);
    }
    let _outcome = pair.lab.command_line("sync").success();
    let before = pair.lab.counter("short_cut");
    pair.talk(&mut report, "after sync");
    let packets = pair.lab.counter("short_cut") - before;
    report.check(packets == 0, || format!("{packets} packets took the short cut"));
}

#[test]
fn gateway_and_containers_reach_each_other() {
    let pair = Pair::of(Lab::new());
    let mut report = Report::new();
    let _gateway = Case::ALL.map(|case| {
        Server::new("gateway", &pair.lab.host, case.protocol, case.family.of(GATEWAY), 7000)
    });
    let _servers = pair.first.1.serve("first", &pair.first.0, 8080);
    for case in Case::ALL {
        let to = case.family.of(GATEWAY);
        let reply = Query::new(&pair.first.0.netns, case.protocol, to, 7000).ask();
        let client = case.family.of(pair.first.1.addresses());
        report.answered_seeing(&format!("{case} to the gateway"), &reply, "gateway", client);
        let to = case.family.of(pair.first.1.addresses());
        let reply = pair.lab.from_host(case.protocol, to, 8080).ask();
        let gateway = case.family.of(GATEWAY);
        report.answered_seeing(&format!("{case} from the host"), &reply, "first", gateway);
    }
}

#[test]
fn broadcast_and_multicast_reach_the_neighbour() {
    let pair = Pair::of(Lab::new());
    let group = Ipv4Addr::new(239, 1, 2, 3);
    let group6 = Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, 0x77);
    let (index_first, index_second) =
        (pair.first.0.netns.ifindex("eth0"), pair.second.0.netns.ifindex("eth0"));
    // Snooping forwards groups to those who joined; the report takes the bridge's way too.
    let inside = pair.first.0.netns.enter(|| {
        let v4 = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 9000)).unwrap();
        v4.join_multicast_v4(&group, &pair.first.1.addresses().0).unwrap();
        let v6 = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 9000))
            .unwrap_or_else(|_| UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 9001)).unwrap());
        v6.join_multicast_v6(&group6, index_first).unwrap();
        (v4, v6)
    });
    for socket in [&inside.0, &inside.1] {
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    }
    let outside = pair.second.0.netns.enter(|| {
        let v4 = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        v4.set_broadcast(true).unwrap();
        (v4, UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).unwrap())
    });
    let port6 = inside.1.local_addr().unwrap().port();
    let heard = |socket: &UdpSocket| {
        let mut buffer = [0; 16];
        socket.recv(&mut buffer).ok().map(|_| ())
    };
    wait::until("a broadcast", || {
        outside.0.send_to(b"all", (Ipv4Addr::new(10, 98, 0, 255), 9000)).unwrap();
        heard(&inside.0)
    });
    wait::until("a multicast", || {
        outside.0.send_to(b"group", (group, 9000)).unwrap();
        heard(&inside.0)
    });
    wait::until("an IPv6 multicast", || {
        let to = std::net::SocketAddrV6::new(group6, port6, 0, index_second);
        outside.1.send_to(b"group", to).unwrap();
        heard(&inside.1)
    });
}

#[test]
fn neighbours_find_each_other_by_arp_and_nd() {
    let pair = Pair::of(Lab::new());
    let mut report = Report::new();
    pair.talk(&mut report, "once");
    for netns in [&pair.first.0.netns, &pair.second.0.netns] {
        netns.ip("neigh flush all");
    }
    pair.lab.host.ip("neigh flush all");
    pair.talk(&mut report, "with empty neighbour tables");
    let _servers = pair.first.1.serve("first", &pair.first.0, 8080);
    for case in Case::ALL {
        let reply = pair.lab.from_client(case.protocol, case.family.of(HOST), 18080).ask();
        report.answered_by(&format!("{case} from outside"), &reply, "first");
    }
}

/// keepalived, the `tuning` plugin, a nested bridge.
#[test]
fn a_container_that_changes_its_mac_stays_reachable() {
    let pair = Pair::of(Lab::new());
    let mut report = Report::new();
    pair.talk(&mut report, "before");
    pair.first.0.netns.ip("link set eth0 address 02:aa:bb:cc:dd:01");
    // A driver announces the change; what the kernel of a container does, arping does here.
    for netns in [&pair.second.0.netns, &pair.lab.host] {
        netns.ip("neigh flush all");
    }
    pair.talk(&mut report, "with another MAC");
    let _servers = pair.first.1.serve("first", &pair.first.0, 8080);
    for case in Case::ALL {
        for (name, query) in [
            ("outside", pair.lab.from_client(case.protocol, case.family.of(HOST), 18080)),
            ("loopback", pair.lab.from_host(case.protocol, case.family.loopback(), 18080)),
        ] {
            report.answered_by(&format!("{case} from {name}"), &query.ask(), "first");
        }
    }
}

/// A frame that shows a MAC behind another port ends that MAC's short cut.
#[test]
fn a_mac_that_moves_to_another_port_is_followed() {
    let pair = Pair::of(Lab::new());
    let mut report = Report::new();
    pair.talk(&mut report, "before");
    let moved = tests::Netns::new("moved");
    let host = &pair.lab.host;
    let mac = pair.first.0.netns.ip_json("link show dev eth0")[0]["address"].clone();
    let address = pair.first.1.addresses();
    pair.first.0.netns.ip("link set eth0 down");
    host.ip(&format!("link add nic0 type veth peer name eth0 netns {}", moved.name()));
    moved.ip(&format!("link set eth0 address {}", mac.as_str().unwrap()));
    host.ip("link set nic0 master br-academy up");
    tests::topology::address(&moved, "eth0", address);
    let _servers = Case::ALL
        .map(|case| Server::new("moved", &moved, case.protocol, case.family.of(address), 9090));
    // It speaks first, as whoever takes an address over does.
    let _hello = Query::new(&moved, Protocol::Udp, Family::V4.of(GATEWAY), 1).in_vain().ask();
    for case in Case::ALL {
        let to = case.family.of(address);
        let reply = Query::new(&pair.second.0.netns, case.protocol, to, 9090).ask();
        report.answered_by(&case.to_string(), &reply, "moved");
    }
}

#[test]
fn isolated_ports_get_no_short_cut() {
    let lab = Lab::new();
    let network = Network::default().with(serde_json::json!({ "portIsolation": true }));
    let (first, second) = (lab.container("first"), lab.container("second"));
    let to_first = lab.add_to(&network, &first, "eth0", &[]);
    let _to_second = lab.add_to(&network, &second, "eth0", &[]);
    let _servers = to_first.serve("first", &first, 8080);
    let mut report = Report::new();
    for case in Case::ALL {
        let to = case.family.of(to_first.addresses());
        let reply = Query::new(&second.netns, case.protocol, to, 8080).in_vain().ask();
        report.unanswered(&case.to_string(), &reply);
    }
}

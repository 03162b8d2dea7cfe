//! A conversation is continued only from where it was opened, and opened only by what may open it.

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use tests::{
    Case, Conversation, Lab, Mapping, Netns, Protocol, Query, Reply, Report, Server,
    packet::{Path, Tcp, Wire},
    topology::{GATEWAY, HOST, Pair},
};

const PORT: u16 = 18080;
const MOMENT: Duration = Duration::from_millis(100);
const FORGED: &[u8] = b"forged";
const BESIDE: Pair =
    (Ipv4Addr::new(10, 98, 0, 200), Ipv6Addr::new(0xfd00, 0x98, 0, 0, 0, 0, 0, 0xc8));

fn questions(servers: &[Server]) -> usize {
    servers.iter().map(Server::questions).sum()
}

/// Asks, and once more where the host refused the forgery before: its ICMP error goes to the
/// address that the forgery pretends to come from, and says nothing about the conversation.
fn ask(conversation: &mut Conversation) -> Reply {
    match conversation.ask() {
        Reply::Refused => conversation.ask(),
        reply => reply,
    }
}

/// The middle of a conversation, as a frame.
fn middle(path: &Path, protocol: Protocol) -> Vec<u8> {
    match protocol {
        Protocol::Udp => path.udp(FORGED),
        Protocol::Tcp => {
            let tcp = Tcp { ack: true, sequence: 7, acknowledgement: 9, ..Tcp::default() };
            path.tcp(tcp, FORGED)
        }
    }
}

/// A wire that pretends to be the host itself would get the replies if its packets counted.
#[test]
fn a_wire_does_not_continue_what_the_host_opened() {
    let lab = Lab::new();
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(PORT, 8080));
    let servers = attached.serve("web", &web, 8080);
    let outside = Wire::new(&lab.client, "eth0");
    let uplink = lab.host.mac("up0");
    let mut report = Report::new();
    for (index, case) in Case::ALL.into_iter().enumerate() {
        let port = 43_000 + u16::try_from(index).unwrap();
        let own = case.family.of(HOST);
        let query = Query::new(&lab.host, case.protocol, own, PORT).source(own, port);
        let mut conversation = query.open().unwrap();
        report.answered_by(&format!("{case} before"), &conversation.ask(), "web");
        let asked = questions(&servers);
        let path = Path {
            macs: (outside.mac, uplink),
            source: SocketAddr::new(own, port),
            destination: SocketAddr::new(own, PORT),
        };
        outside.send(&middle(&path, case.protocol));
        report.answered_by(&format!("{case} afterwards"), &ask(&mut conversation), "web");
        report.check(questions(&servers) == asked + 1, || format!("{case}: the forgery arrived"));
        let moved = outside.receive(MOMENT, |segment| {
            (segment.source == path.destination).then(|| segment.clone())
        });
        report.check(moved.is_none(), || format!("{case}: a reply moved: {moved:?}"));
    }
}

/// The address of a machine behind a port of the bridge is no container's, and its route leaves by
/// the bridge: only the interface tells a container that uses it from the machine.
#[test]
fn a_container_does_not_continue_what_a_machine_on_its_bridge_opened() {
    let lab = Lab::new();
    let [web, evil] = ["web", "evil"].map(|name| lab.container(name));
    let attached = lab.add(&web, &Mapping::both(PORT, 8080));
    let servers = attached.serve("web", &web, 8080);
    let _evil = lab.add(&evil, &[]);
    let machine = Netns::new("lan");
    lab.host.ip(&format!("link add nic0 type veth peer name eth0 netns {}", machine.name()));
    lab.host.ip("link set nic0 master br-academy up");
    tests::topology::address(&machine, "eth0", BESIDE);
    let wire = Wire::new(&evil.netns, "eth0");
    let gateway = lab.host.mac("br-academy");
    let mut report = Report::new();
    for (index, case) in Case::ALL.into_iter().enumerate() {
        let port = 43_100 + u16::try_from(index).unwrap();
        let to = case.family.of(GATEWAY);
        let query = Query::new(&machine, case.protocol, to, PORT).source_port(port);
        let mut conversation = query.open().unwrap();
        report.answered_by(&format!("{case} before"), &conversation.ask(), "web");
        let asked = questions(&servers);
        let path = Path {
            macs: (wire.mac, gateway),
            source: SocketAddr::new(case.family.of(BESIDE), port),
            destination: SocketAddr::new(to, PORT),
        };
        wire.send(&middle(&path, case.protocol));
        report.answered_by(&format!("{case} afterwards"), &ask(&mut conversation), "web");
        report.check(questions(&servers) == asked + 1, || format!("{case}: the forgery arrived"));
    }
}

/// Design rule 3: it may belong to a connection of which no socket of the host knows.
#[test]
fn a_tcp_packet_without_a_conversation_is_the_kernels() {
    let lab = Lab::new();
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(PORT, 8080));
    let _servers = attached.serve("web", &web, 8080);
    let outside = Wire::new(&lab.client, "eth0");
    let inside = Wire::new(&web.netns, "eth0");
    let uplink = lab.host.mac("up0");
    let mut report = Report::new();
    let plain = Tcp { sequence: 7, acknowledgement: 9, ..Tcp::default() };
    let packets = [
        ("ACK", Tcp { ack: true, ..plain }),
        ("SYN and ACK", Tcp { syn: true, ack: true, ..plain }),
        ("FIN", Tcp { fin: true, ack: true, ..plain }),
        ("SYN and FIN", Tcp { syn: true, fin: true, ..plain }),
    ];
    let mut port = 43_200;
    for case in Case::ALL.into_iter().filter(|case| case.protocol == Protocol::Tcp) {
        for (name, packet) in packets {
            port += 1;
            let path = Path {
                macs: (outside.mac, uplink),
                source: SocketAddr::new(case.family.of(tests::topology::CLIENT), port),
                destination: SocketAddr::new(case.family.of(HOST), PORT),
            };
            let before = (lab.counter("pass_no_flow"), lab.counter("opened"));
            outside.send(&path.tcp(packet, b""));
            let seen = inside.receive(MOMENT, |segment| {
                (segment.source.port() == port).then(|| segment.clone())
            });
            report.check(seen.is_none(), || format!("{case}, {name}: delivered {seen:?}"));
            let after = (lab.counter("pass_no_flow"), lab.counter("opened"));
            report.check(after == (before.0 + 1, before.1), || {
                format!("{case}, {name}: counters (no flow, opened) {before:?} became {after:?}")
            });
        }
    }
}

//! Row of the truth table: a container that forges addresses gains nothing. No reply moves to it,
//! no flow breaks, and nothing that it sends reaches another's conversation.

use std::{net::SocketAddr, time::Duration};

use tests::{
    Attached, Case, Container, Lab, Mapping, Netns, Query, Reply, Report,
    packet::{Path, Tcp, Wire},
    topology::{CLIENT, HOST},
};

const PORT: u16 = 18080;
/// Frames that a hook let through are there at once: the wires are veths.
const MOMENT: Duration = Duration::from_millis(100);
const FORGED: &[u8] = b"forged";

struct Scene {
    lab: Lab,
    web: (Container, Attached),
    neighbour: (Container, Attached),
    evil: (Container, Attached),
    _servers: Vec<tests::Server>,
}

impl Scene {
    fn new() -> Self {
        let lab = Lab::new();
        let [web, neighbour, evil] = ["web", "neighbour", "evil"].map(|n| lab.container(n));
        let served = lab.add(&web, &Mapping::both(PORT, 8080));
        let _servers = served.serve("web", &web, 8080);
        let beside = lab.add(&neighbour, &[]);
        let outlaw = lab.add(&evil, &[]);
        Self {
            lab,
            web: (web, served),
            neighbour: (neighbour, beside),
            evil: (evil, outlaw),
            _servers,
        }
    }

    /// Everything that could pass for a packet of `path`, be it of its middle or of its ends.
    fn frames(path: &Path, case: Case) -> Vec<Vec<u8>> {
        match case.protocol {
            tests::Protocol::Udp => vec![path.udp(FORGED)],
            tests::Protocol::Tcp => {
                let blind = Tcp { sequence: 7, acknowledgement: 9, ..Tcp::default() };
                vec![
                    path.tcp(Tcp { syn: true, ..blind }, b""),
                    path.tcp(Tcp { syn: true, ack: true, ..blind }, b""),
                    path.tcp(Tcp { ack: true, ..blind }, FORGED),
                    path.tcp(Tcp { fin: true, ack: true, ..blind }, b""),
                    path.tcp(Tcp { rst: true, ..blind }, b""),
                    path.tcp(Tcp { rst: true, ack: true, ..blind }, b""),
                ]
            }
        }
    }

    /// While `victim` talks to the published port, `wire` sends forgeries of both halves of the
    /// conversation with each of `macs` as their source.
    fn attack(
        &self,
        report: &mut Report,
        (name, victim): (&str, &Netns),
        address: tests::topology::Pair,
        wire: &Wire,
        macs: &[[u8; 6]],
    ) {
        let gateway = self.lab.host.mac("br-academy");
        let watched = Wire::new(victim, "eth0");
        for (index, case) in Case::ALL.into_iter().enumerate() {
            let port = 42_000 + u16::try_from(index).unwrap();
            let published = SocketAddr::new(case.family.of(HOST), PORT);
            let container = SocketAddr::new(case.family.of(self.web.1.addresses()), 8080);
            let client = SocketAddr::new(case.family.of(address), port);
            let query = Query::new(victim, case.protocol, published.ip(), PORT);
            let mut conversation = match query.source_port(port).open() {
                Ok(conversation) => conversation,
                Err(error) => {
                    report.check(false, || format!("{case} of the {name}: {error}"));
                    continue;
                }
            };
            let what = format!("{case} of the {name}");
            report.answered_by(&format!("{what} before"), &conversation.ask(), "web");
            for mac in macs {
                for (source, destination) in [(client, published), (container, client)] {
                    let path = Path { macs: (*mac, gateway), source, destination };
                    for frame in Self::frames(&path, case) {
                        wire.send(&frame);
                    }
                }
            }
            let mut reply = conversation.ask();
            if case.protocol == tests::Protocol::Udp && reply == Reply::Refused {
                // The host's own answer to a datagram that pretends to be the client's: that says
                // nothing about the conversation.
                reply = conversation.ask();
            }
            report.answered_by(&format!("{what} afterwards"), &reply, "web");
            report.answered_by(&format!("{what} once more"), &conversation.ask(), "web");
            let moved = wire.receive(MOMENT, |segment| {
                segment.payload.starts_with(b"web ").then(|| segment.clone())
            });
            report.check(moved.is_none(), || format!("{what}: a reply moved: {moved:?}"));
            let forged = watched.receive(MOMENT, |segment| {
                let ours = segment.source == published && segment.payload == FORGED;
                ours.then(|| segment.clone())
            });
            report.check(forged.is_none(), || format!("{what}: the victim got {forged:?}"));
        }
    }
}

#[test]
fn forging_an_outside_clients_conversation_gains_nothing() {
    let scene = Scene::new();
    let wire = Wire::new(&scene.evil.0.netns, "eth0");
    let macs = [wire.mac, scene.web.0.netns.mac("eth0")];
    let mut report = Report::new();
    scene.attack(&mut report, ("client", &scene.lab.client), CLIENT, &wire, &macs);
}

#[test]
fn forging_a_neighbours_conversation_gains_nothing() {
    let scene = Scene::new();
    let wire = Wire::new(&scene.evil.0.netns, "eth0");
    let (neighbour, attached) = &scene.neighbour;
    let mut report = Report::new();
    let victim = ("neighbour", &neighbour.netns);
    scene.attack(&mut report, victim, attached.addresses(), &wire, &[wire.mac]);
}

/// The same from a machine that is a port of the bridge and no container.
#[test]
fn a_machine_on_the_bridge_that_forges_a_conversation_gains_nothing() {
    let scene = Scene::new();
    let machine = Netns::new("lan");
    let host = &scene.lab.host;
    host.ip(&format!("link add nic0 type veth peer name eth0 netns {}", machine.name()));
    host.ip("link set nic0 master br-academy up");
    machine.ip("link set eth0 up");
    let wire = Wire::new(&machine, "eth0");
    let mut report = Report::new();
    scene.attack(&mut report, ("client", &scene.lab.client), CLIENT, &wire, &[wire.mac]);
}

/// What opens a conversation has to come from whom it names.
#[test]
fn a_forged_first_packet_opens_nothing() {
    let scene = Scene::new();
    let wire = Wire::new(&scene.evil.0.netns, "eth0");
    let inside = Wire::new(&scene.web.0.netns, "eth0");
    let gateway = scene.lab.host.mac("br-academy");
    let mut report = Report::new();
    let mut port = 42_100;
    for case in Case::ALL {
        let victims = [("client", CLIENT), ("neighbour", scene.neighbour.1.addresses())];
        for (name, address) in victims {
            port += 1;
            let path = Path {
                macs: (wire.mac, gateway),
                source: (case.family.of(address), port).into(),
                destination: (case.family.of(HOST), PORT).into(),
            };
            wire.send(&path.opener(case.protocol));
            let seen = inside.receive(MOMENT, |segment| {
                (segment.source.port() == port).then(|| segment.clone())
            });
            report.check(seen.is_none(), || format!("{case} as the {name}: {seen:?}"));
        }
    }
}

/// A container may not answer for another before that has spoken, either: after the client's SYN
/// or datagram, the evil one sends the web server's half.
#[test]
fn a_forged_answer_is_not_translated() {
    let scene = Scene::new();
    // Nobody listens at this port of the container, so that the forgery is the first answer.
    let silent = scene.lab.container("silent");
    let attached = scene.lab.add(&silent, &Mapping::both(18081, 9));
    silent.netns.run("nft add table inet f");
    silent
        .netns
        .run("nft add chain inet f i { type filter hook input priority 0 ; policy drop ; }");
    let wire = Wire::new(&scene.evil.0.netns, "eth0");
    let outside = Wire::new(&scene.lab.client, "eth0");
    let (gateway, uplink) = (scene.lab.host.mac("br-academy"), scene.lab.host.mac("up0"));
    let mut report = Report::new();
    for (index, case) in Case::ALL.into_iter().enumerate() {
        let port = 42_200 + u16::try_from(index).unwrap();
        let client = SocketAddr::new(case.family.of(CLIENT), port);
        let published = SocketAddr::new(case.family.of(HOST), 18081);
        let container = SocketAddr::new(case.family.of(attached.addresses()), 9);
        let open = Path { macs: (outside.mac, uplink), source: client, destination: published };
        outside.send(&open.opener(case.protocol));
        let half = Path { macs: (wire.mac, gateway), source: container, destination: client };
        for frame in Scene::frames(&half, case) {
            wire.send(&frame);
        }
        let seen = outside
            .receive(MOMENT, |segment| (segment.source == published).then(|| segment.clone()));
        report.check(seen.is_none(), || format!("{case}: the client got {seen:?}"));
    }
}

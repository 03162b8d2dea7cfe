//! Packets of every size come through whole, and with right checksums.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    thread,
    time::Duration,
};

use serde_json::json;
use tests::{
    Case, Container, Family, Lab, Mapping, Netns, Network, Report, tools::skip_without_programs,
    topology::HOST, wait::until,
};

const BULK: usize = 4 << 20;

/// Moves four megabytes each way through `to`; how many bytes came.
fn bulk(client: &Netns, to: SocketAddr, web: &Netns, at: SocketAddr) -> (usize, usize) {
    let listener = until("the port is free again", || web.enter(|| TcpListener::bind(at)).ok());
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        transfer(&mut stream)
    });
    let stream = client.enter(|| TcpStream::connect_timeout(&to, Duration::from_secs(3)));
    let received = stream.map_or(0, |mut stream| transfer(&mut stream));
    if received == 0 {
        // Wakes the server, which nobody reached.
        let _ = web.enter(|| TcpStream::connect(at));
    }
    (received, server.join().unwrap())
}

/// Sends and receives at once, so that neither side's buffers stop the other.
fn transfer(stream: &mut TcpStream) -> usize {
    stream.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    let mut out = stream.try_clone().unwrap();
    let sender = thread::spawn(move || {
        let _ = out.write_all(&vec![0x5a; BULK]);
        let _ = out.shutdown(std::net::Shutdown::Write);
    });
    let mut received = Vec::new();
    let _ = stream.read_to_end(&mut received);
    sender.join().unwrap();
    received.len()
}

fn checksum_errors(netns: &Netns) -> u64 {
    let read = |file: &str| netns.enter(|| std::fs::read_to_string(file).unwrap());
    let snmp = read("/proc/thread-self/net/snmp");
    let mut lines = snmp.lines();
    let mut sum = 0;
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        for (name, value) in names.split(' ').zip(values.split(' ')) {
            if name == "InCsumErrors" {
                sum += value.parse::<u64>().unwrap();
            }
        }
    }
    let snmp6 = read("/proc/thread-self/net/snmp6");
    for line in snmp6.lines().filter(|line| line.contains("InCsumErrors")) {
        sum += line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap();
    }
    sum
}

fn all_ways(report: &mut Report, lab: &Lab, web: &Container, at: tests::topology::Pair) {
    for family in Family::ALL {
        let inside = SocketAddr::new(family.of(at), 8080);
        for (name, from, to) in [
            ("outside", &lab.client, family.of(HOST)),
            ("loopback", &lab.host, family.loopback()),
            ("inside", &web.netns, family.of(HOST)),
        ] {
            let moved = bulk(from, SocketAddr::new(to, 18080), &web.netns, inside);
            report.check(moved == (BULK, BULK), || {
                format!("{family:?} from {name}: of {BULK} bytes {moved:?} came")
            });
        }
    }
    for netns in [&lab.client, &lab.host, &web.netns] {
        let wrong = checksum_errors(netns);
        report.check(wrong == 0, || format!("{wrong} wrong checksums at {}", netns.name()));
    }
}

#[test]
fn bulk_transfers_come_through_both_ways() {
    let lab = Lab::new();
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(18080, 8080));
    all_ways(&mut Report::new(), &lab, &web, attached.addresses());
}

#[test]
fn bulk_transfers_come_through_to_a_container_of_a_smaller_mtu() {
    let lab = Lab::new();
    let web = lab.container("web");
    let network = Network::default().with(json!({ "mtu": 1300 }));
    let attached = lab.add_to(&network, &web, "eth0", &Mapping::both(18080, 8080));
    all_ways(&mut Report::new(), &lab, &web, attached.addresses());
}

/// A partial checksum that is taken for a whole one. <https://github.com/google/gvisor/issues/11960>
#[test]
fn cni_32_checksums_are_right_without_offloads() {
    if skip_without_programs(&["ethtool"]) {
        return;
    }
    let lab = Lab::new();
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(18080, 8080));
    let off = "tx off rx off tso off gso off gro off";
    for (netns, name) in [
        (&lab.client, "eth0".to_owned()),
        (&lab.host, "up0".to_owned()),
        (&lab.host, attached.host_interface()),
        (&web.netns, "eth0".to_owned()),
    ] {
        netns.run(&format!("ethtool -K {name} {off}"));
    }
    let mut report = Report::new();
    all_ways(&mut report, &lab, &web, attached.addresses());
    let _servers = attached.serve("web", &web, 8080);
    for case in Case::ALL {
        let reply = lab.from_client(case.protocol, case.family.of(HOST), 18080).ask();
        report.answered_by(&case.to_string(), &reply, "web");
    }
}

/// The MTU of lo is 64 KiB, that of the container 1500: no redirect may lose the difference.
#[test]
fn ebpf_41_datagrams_of_every_size_come_through_loopback() {
    let lab = Lab::new();
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(18080, 8080));
    let _servers = attached.serve("web", &web, 8080);
    let mut report = Report::new();
    for family in Family::ALL {
        let client = lab.host.enter(|| UdpSocket::bind((family.unspecified(), 0))).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        for size in [1, 1400, 1472, 1473, 1500, 1600, 9000, 20_000] {
            let to = SocketAddr::new(family.loopback(), 18080);
            client.send_to(&vec![0x5a; size], to).unwrap();
            let answer = client.recv(&mut [0; 128]);
            report.check(answer.is_ok(), || format!("{family:?}, {size} bytes: {answer:?}"));
        }
    }
}

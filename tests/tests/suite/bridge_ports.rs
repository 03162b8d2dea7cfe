//! Row of the truth table: clients behind ports of the bridge that are no containers of academy,
//! and uplinks that are no Ethernet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::json;
use tests::{
    Call, Case, Lab, Mapping, Netns, Query, Report,
    device::Device,
    packet::Path,
    tools,
    topology::{GATEWAY, HOST},
};

const BRIDGE: &str = "br-academy";
const BESIDE: (Ipv4Addr, Ipv6Addr) =
    (Ipv4Addr::new(10, 98, 0, 200), Ipv6Addr::new(0xfd00, 0x98, 0, 0, 0, 0, 0, 0xc8));

/// A machine behind a NIC that is a port of the bridge.
fn behind_a_nic(lab: &Lab) -> Netns {
    let machine = Netns::new("lan");
    lab.host.ip(&format!("link add nic0 type veth peer name eth0 netns {}", machine.name()));
    lab.host.ip(&format!("link set nic0 master {BRIDGE} up"));
    tests::topology::address(&machine, "eth0", BESIDE);
    machine
}

#[test]
fn a_client_behind_a_nic_of_the_bridge_reaches_the_published_port() {
    let lab = Lab::new();
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(18080, 8080));
    let _servers = attached.serve("web", &web, 8080);
    let machine = behind_a_nic(&lab);
    let mut report = Report::new();
    for case in Case::ALL {
        let to = case.family.of(GATEWAY);
        let mut conversation = match Query::new(&machine, case.protocol, to, 18080).open() {
            Ok(conversation) => conversation,
            Err(error) => {
                report.check(false, || format!("{case}: {error}"));
                continue;
            }
        };
        for turn in 1..=3 {
            let reply = conversation.ask();
            report.answered_by(&format!("{case}, question {turn}"), &reply, "web");
        }
    }
}

#[test]
fn a_client_behind_a_nic_of_the_bridge_reaches_it_also_where_netfilter_sees_the_bridge() {
    let lab = Lab::new();
    for family in ["iptables", "ip6tables"] {
        lab.host.bridge_netfilter(family, true);
    }
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(18080, 8080));
    let _servers = attached.serve("web", &web, 8080);
    let machine = behind_a_nic(&lab);
    let mut report = Report::new();
    for case in Case::ALL {
        let reply = Query::new(&machine, case.protocol, case.family.of(GATEWAY), 18080).ask();
        report.answered_by(&case.to_string(), &reply, "web");
    }
}

#[test]
fn a_container_of_another_plugin_on_the_same_bridge_reaches_the_published_port() {
    let lab = Lab::new();
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(18080, 8080));
    let _servers = attached.serve("web", &web, 8080);
    let other = lab.container("other");
    let config = json!({
        "cniVersion": "1.0.0", "name": "other", "type": "bridge", "bridge": BRIDGE,
        "ipam": {
            "type": "host-local", "dataDir": lab.scratch(),
            "ranges": [
                [{ "subnet": "10.98.0.0/24", "rangeStart": "10.98.0.210" }],
                [{ "subnet": "fd00:98::/64", "rangeStart": "fd00:98::d2" }],
            ],
        },
    });
    let call = Call::new(&tools::reference("bridge"), "ADD", &tools::directory());
    let call = call.container(&other.id, other.netns.path(), "eth0").config(&config);
    let _result = call.run(&lab.host).success();
    let mut report = Report::new();
    for case in Case::ALL {
        let to = case.family.of(GATEWAY);
        let reply = Query::new(&other.netns, case.protocol, to, 18080).ask();
        report.answered_by(&case.to_string(), &reply, "web");
    }
}

#[test]
fn a_machine_behind_a_tap_of_the_bridge_reaches_the_published_port() {
    let lab = Lab::new();
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(18080, 8080));
    let _servers = attached.serve("web", &web, 8080);
    let tap = Device::tap(&lab.host, "tap0");
    lab.host.ip(&format!("link set tap0 master {BRIDGE} up"));
    lab.host.set_sysctl("net/ipv6/conf/br-academy/accept_dad", "0");
    let mac = [0x02, 0, 0, 0, 0, 0x77];
    for address in [IpAddr::V4(BESIDE.0), IpAddr::V6(BESIDE.1)] {
        let line = format!("neigh replace {address} lladdr 02:00:00:00:00:77 dev {BRIDGE}");
        lab.host.ip(&format!("{line} nud permanent"));
        web.netns.ip(&format!(
            "neigh replace {address} lladdr 02:00:00:00:00:77 dev eth0 nud permanent"
        ));
    }
    let mut report = Report::new();
    for (index, case) in Case::ALL.into_iter().enumerate() {
        let port = 41_000 + u16::try_from(index).unwrap();
        let gateway = case.family.of(GATEWAY);
        let path = Path {
            macs: (mac, lab.host.mac(BRIDGE)),
            source: (case.family.of(BESIDE), port).into(),
            destination: (gateway, 18080).into(),
        };
        tap.send(&path.opener(case.protocol));
        let answered = tap.receives(|segment| {
            segment.source == path.destination && segment.destination == path.source
        });
        report.check(answered, || format!("{case}: no answer at the tap"));
    }
}

/// <https://github.com/cilium/cilium/issues/12304>
#[test]
fn ebpf_27_a_client_behind_an_uplink_without_link_headers_reaches_the_published_port() {
    let lab = Lab::new();
    let tun = Device::tun(&lab.host, "tun0");
    let far = (Ipv4Addr::new(203, 0, 113, 2), "2001:db8:113::2".parse().unwrap());
    let near = (Ipv4Addr::new(203, 0, 113, 1), "2001:db8:113::1".parse().unwrap());
    tests::topology::address(&lab.host, "tun0", near);
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(18080, 8080));
    let _servers = attached.serve("web", &web, 8080);
    let mut report = Report::new();
    for (index, case) in Case::ALL.into_iter().enumerate() {
        for (offset, host) in [(0, near), (10, HOST)] {
            let port = 41_100 + offset + u16::try_from(index).unwrap();
            let path = Path {
                macs: ([0; 6], [0; 6]),
                source: (case.family.of(far), port).into(),
                destination: (case.family.of(host), 18080).into(),
            };
            tun.send(path.opener(case.protocol).get(14..).unwrap());
            let answered = tun.receives(|segment| {
                segment.source == path.destination && segment.destination == path.source
            });
            report.check(answered, || format!("{case} to {}: no answer", path.destination));
        }
    }
}

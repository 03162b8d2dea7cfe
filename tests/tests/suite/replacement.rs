//! What becomes of conversations when the container behind a port goes or is replaced.

use std::time::Duration;

use tests::{
    Case, Family, Lab, Mapping, Protocol, Query, Reply, Report, Server,
    topology::{HOST, HOST2},
    wait,
};

const PORT: u16 = 8125;

/// A UDP client that keeps its source port. <https://github.com/containernetworking/plugins/issues/123>
#[test]
fn cni_01_udp_client_follows_the_replacement() {
    replaced(&Lab::new());
}

pub fn replaced(lab: &Lab) {
    let mut report = Report::new();
    for family in Family::ALL {
        let (old, new) = (lab.container("old"), lab.container("new"));
        let udp = [Mapping::new(Protocol::Udp, PORT, 8080)];
        let query = lab.from_client(Protocol::Udp, family.of(HOST), PORT).source_port(43_000);
        let mut client = query.open().unwrap();
        let before = lab.add(&old, &udp);
        let servers = before.serve("old", &old, 8080);
        report.answered_by(&format!("{family:?} old"), &client.ask(), "old");
        report.answered_by(&format!("{family:?} old again"), &client.ask(), "old");
        drop(servers);
        lab.del(&before);
        let after = lab.add(&new, &udp);
        let _servers = after.serve("new", &new, 8080);
        report.answered_by(&format!("{family:?} new"), &client.ask(), "new");
        lab.del(&after);
    }
}

/// Numbers of interfaces come up again one day: a conversation is with a generation of an endpoint,
/// and is over when another one has its place.
#[test]
fn a_conversation_does_not_outlive_its_generation() {
    let mut report = Report::new();
    for case in Case::ALL {
        let lab = Lab::new();
        let web = lab.container("web");
        let attached = lab.add(&web, &Mapping::both(PORT, 8080));
        let servers = attached.serve("web", &web, 8080);
        let query = lab.from_client(case.protocol, case.family.of(HOST), PORT);
        let mut client = query.open().unwrap();
        report.answered_by(&format!("{case} before"), &client.ask(), "web");
        let asked: usize = servers.iter().map(Server::questions).sum();
        lab.renew_generation();
        client.set_patience(wait::SILENCE);
        report.unanswered(&format!("{case} afterwards"), &client.ask());
        let after = servers.iter().map(Server::questions).sum::<usize>();
        report.check(after == asked, || format!("{case}: the question arrived"));
    }
}

/// Datagrams that come while there is no container must not make the next one invisible.
#[test]
fn cni_01_udp_client_that_spoke_before_the_container_existed_reaches_it() {
    let lab = Lab::new();
    let _warm = lab.add(&lab.container("other"), &[]);
    let mut report = Report::new();
    for family in Family::ALL {
        let query = lab.from_client(Protocol::Udp, family.of(HOST), PORT).source_port(43_001);
        let mut client = query.in_vain().open().unwrap();
        report.unanswered(&format!("{family:?} too early"), &client.ask());
        let web = lab.container("web");
        let attached = lab.add(&web, &[Mapping::new(Protocol::Udp, PORT, 8080)]);
        let servers = attached.serve("web", &web, 8080);
        client.set_patience(wait::PATIENCE);
        report.answered_by(&format!("{family:?} then"), &client.ask(), "web");
        lab.del(&attached);
        drop(servers);
        client.set_patience(wait::SILENCE);
        report.unanswered(&format!("{family:?} afterwards"), &client.ask());
    }
}

/// <https://github.com/containernetworking/plugins/issues/1190>
#[test]
fn cni_02_udp_client_reaches_a_process_of_the_host_after_del() {
    let lab = Lab::new();
    let mut report = Report::new();
    for family in Family::ALL {
        let web = lab.container("web");
        let attached = lab.add(&web, &[Mapping::new(Protocol::Udp, PORT, 8080)]);
        let _servers = attached.serve("web", &web, 8080);
        let query = lab.from_client(Protocol::Udp, family.of(HOST), PORT).source_port(43_002);
        let mut client = query.open().unwrap();
        report.answered_by(&format!("{family:?} container"), &client.ask(), "web");
        lab.del(&attached);
        let _process = Server::new("host", &lab.host, Protocol::Udp, family.of(HOST), PORT);
        report.answered_by(&format!("{family:?} process"), &client.ask(), "host");
    }
}

/// <https://github.com/moby/moby/issues/53384>
#[test]
fn cni_03_del_of_one_mapping_leaves_another_addresss_conversation_alone() {
    let lab = Lab::new();
    let _foreign = lab.foreign();
    let mut report = Report::new();
    for case in Case::ALL {
        let (first, second) = (lab.container("first"), lab.container("second"));
        let at = |host| {
            let address = case.family.of(host).to_string();
            vec![Mapping::new(case.protocol, PORT, 8080).at(&address)]
        };
        let (going, staying) = (lab.add(&first, &at(HOST)), lab.add(&second, &at(HOST2)));
        let _servers = (going.serve("first", &first, 8080), staying.serve("second", &second, 8080));
        let open = |host| lab.from_client(case.protocol, case.family.of(host), PORT).open();
        let (mut to_first, mut to_second) = (open(HOST).unwrap(), open(HOST2).unwrap());
        report.answered_by(&format!("{case} first"), &to_first.ask(), "first");
        report.answered_by(&format!("{case} second"), &to_second.ask(), "second");
        lab.del(&going);
        report.answered_by(&format!("{case} second after DEL"), &to_second.ask(), "second");
        to_first.set_patience(wait::SILENCE);
        report.unanswered(&format!("{case} first after DEL"), &to_first.ask());
        lab.del(&staying);
    }
}

/// The freed address goes to a container that published nothing: it gets nothing either.
/// <https://github.com/projectcalico/calico/issues/4152>
#[test]
fn ebpf_04_the_next_owner_of_an_address_gets_no_old_conversation() {
    let lab = Lab::new();
    let network = tests::Network::default().with(serde_json::json!({
        "ipam": { "ranges": [
            [{ "subnet": "10.98.0.0/24", "rangeStart": "10.98.0.9", "rangeEnd": "10.98.0.9" }],
            [{ "subnet": "fd00:98::/64", "rangeStart": "fd00:98::9", "rangeEnd": "fd00:98::9" }],
        ] }
    }));
    let mut report = Report::new();
    for case in Case::ALL {
        let (old, new) = (lab.container("old"), lab.container("new"));
        let mapping = [Mapping::new(case.protocol, PORT, 8080)];
        let before = lab.add_to(&network, &old, "eth0", &mapping);
        let _servers = before.serve("old", &old, 8080);
        let to = case.family.of(HOST);
        let mut client = lab.from_client(case.protocol, to, PORT).open().unwrap();
        report.answered_by(&format!("{case} old"), &client.ask(), "old");
        lab.del(&before);
        let after = lab.add_to(&network, &new, "eth0", &[]);
        assert_eq!(after.all_addresses(), before.all_addresses());
        let servers = after.serve("new", &new, 8080);
        client.set_patience(wait::SILENCE);
        let reply = client.ask();
        report.check(reply == Reply::Silent || reply == Reply::Refused, || {
            format!("{case}: an old conversation went on with {reply:?}")
        });
        let questions: usize = servers.iter().map(Server::questions).sum();
        report.check(questions == 0, || format!("{case}: the new container got the question"));
        lab.del(&after);
    }
}

/// <https://github.com/cilium/cilium/issues/45863>
#[test]
fn ebpf_20_a_client_port_can_be_used_again_at_once_after_the_replacement() {
    let lab = Lab::new();
    let mut report = Report::new();
    for case in Case::ALL {
        for name in ["old", "new"] {
            let container = lab.container(name);
            let attached = lab.add(&container, &[Mapping::new(case.protocol, PORT, 8080)]);
            let _servers = attached.serve(name, &container, 8080);
            let to = case.family.of(HOST);
            let query = lab.from_client(case.protocol, to, PORT).source_port(43_003);
            report.answered_by(&format!("{case} {name}"), &query.ask(), name);
            lab.del(&attached);
        }
    }
}

/// <https://github.com/cilium/cilium/issues/12859>: the socket is connected and stays so.
#[test]
fn ebpf_31_a_connected_udp_socket_of_the_host_follows_the_replacement_on_loopback() {
    let lab = Lab::new();
    let mut report = Report::new();
    for family in Family::ALL {
        let mut client = None;
        for name in ["old", "new"] {
            let container = lab.container(name);
            let attached = lab.add(&container, &[Mapping::new(Protocol::Udp, PORT, 8080)]);
            let _servers = attached.serve(name, &container, 8080);
            let client = client.get_or_insert_with(|| {
                Query::new(&lab.host, Protocol::Udp, family.loopback(), PORT).open().unwrap()
            });
            client.set_patience(Duration::from_secs(3));
            report.answered_by(&format!("{family:?} {name}"), &client.ask(), name);
            lab.del(&attached);
        }
    }
}

/// A conversation of 100 questions and one of many clients come through whole.
#[test]
fn long_conversations_and_many_clients_are_answered() {
    let lab = Lab::new();
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(PORT, 8080));
    let _servers = attached.serve("web", &web, 8080);
    let mut report = Report::new();
    for case in Case::ALL {
        let to = case.family.of(HOST);
        let mut client = lab.from_client(case.protocol, to, PORT).open().unwrap();
        for turn in 0..100 {
            report.answered_by(&format!("{case}, question {turn}"), &client.ask(), "web");
        }
        for turn in 0..100 {
            let reply = lab.from_client(case.protocol, to, PORT).ask();
            report.answered_by(&format!("{case}, client {turn}"), &reply, "web");
        }
    }
    // TCP conversations are promoted by their handshake; they may not pile up when closed.
    assert!(lab.rows("flows4").len() <= 8, "{:?}", lab.rows("flows4").len());
}

//! An ADD that fails leaves links, leases, records, pins and rows as they were.

use std::{fs, thread, time::Duration};

use serde_json::json;
use tests::{
    Case, Lab, Mapping, Network, Report,
    leak::{Snapshot, unfinished},
    topology::HOST,
};

/// <https://github.com/containernetworking/plugins/issues/29>
#[test]
fn cni_35_an_exhausted_pool_is_code_100_and_leaves_nothing() {
    let lab = Lab::new();
    // The lab's exercise 9: eight addresses less network, broadcast and gateway.
    let network =
        Network { subnet4: "10.98.0.0/29".into(), subnet6: String::new(), ..Network::default() };
    let containers: Vec<_> = (0..6).map(|_| lab.container("pod")).collect();
    let (last, others) = containers.split_last().unwrap();
    let added: Vec<_> =
        others.iter().map(|container| lab.add_to(&network, container, "eth0", &[])).collect();
    let before = Snapshot::of(&lab);
    let config = &network.configs(lab.plugin, &lab.scratch(), &Mapping::both(18080, 8080))[0];
    lab.run("ADD", last, "eth0", config).fails_with(100, &["10.98.0.0/29"]);
    before.assert_unchanged(&lab);
    assert_eq!(last.netns.links(), ["lo"]);
    let store: Vec<_> = lab.leases("lab");
    assert_eq!(store.len(), 5, "{store:?}");
    lab.run("DEL", last, "eth0", config).silent_success();
    before.assert_unchanged(&lab);
    lab.del(&added[2]);
    let again = lab.add_to(&network, last, "eth0", &[]);
    assert_eq!(again.all_addresses(), added[2].all_addresses());
}

#[test]
fn an_interface_name_that_is_taken_in_the_container_is_refused() {
    let lab = Lab::new();
    let web = lab.container("web");
    web.netns.ip("link add eth0 type veth peer name other");
    let before = Snapshot::of(&lab);
    let outcome = lab.run("ADD", &web, "eth0", &lab.config(&Mapping::both(18080, 8080)));
    assert!(outcome.error().msg.contains("eth0"), "{outcome:?}");
    before.assert_unchanged_but_for_the_bridge(&lab);
    assert_eq!(web.netns.links().len(), 3);
    let second = lab.container("second");
    let _attached = lab.add(&second, &Mapping::both(18080, 8080));
}

/// What is shared may stay: the first ADD made it, whether it then failed or not.
trait ButForTheBridge {
    fn assert_unchanged_but_for_the_bridge(&self, lab: &Lab);
}

impl ButForTheBridge for Snapshot {
    #[track_caller]
    fn assert_unchanged_but_for_the_bridge(&self, lab: &Lab) {
        let mut now = Self::of(lab);
        now.links.remove("br-academy");
        now.pins.clone_from(&self.pins);
        assert_eq!(&now, self, "left: now, right: before");
    }
}

#[test]
fn add_twice_is_refused_and_the_first_still_works() {
    let lab = Lab::new();
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(18080, 8080));
    let _servers = attached.serve("web", &web, 8080);
    let before = Snapshot::of(&lab);
    let outcome = lab.run("ADD", &web, "eth0", &attached.configs[0]);
    assert!(!outcome.succeeded(), "{outcome:?}");
    before.assert_unchanged(&lab);
    lab.check(&attached).silent_success();
    let mut report = Report::new();
    for case in Case::ALL {
        let reply = lab.from_client(case.protocol, case.family.of(HOST), 18080).ask();
        report.answered_by(&case.to_string(), &reply, "web");
    }
}

/// <https://github.com/containernetworking/plugins/issues/620>
#[test]
fn cni_54_add_works_after_a_failed_first_one() {
    let lab = Lab::new();
    let web = lab.container("web");
    let mut bad = lab.config(&[]);
    bad["runtimeConfig"] = json!({ "ips": ["10.98.77.77"] });
    bad["capabilities"]["ips"] = json!(true);
    assert!(!lab.run("ADD", &web, "eth0", &bad).succeeded());
    let attached = lab.add(&web, &[]);
    lab.check(&attached).silent_success();
}

/// <https://github.com/containers/podman/issues/19583>
#[test]
fn cni_43_a_requested_address_that_is_taken_names_its_holder() {
    let lab = Lab::new();
    let (first, second) = (lab.container("first"), lab.container("second"));
    let holder = lab.add(&first, &[]);
    let (v4, _) = holder.addresses();
    let before = Snapshot::of(&lab);
    let mut config = lab.config(&[]);
    config["capabilities"]["ips"] = json!(true);
    config["runtimeConfig"]["ips"] = json!([v4.to_string()]);
    let outcome = lab.run("ADD", &second, "eth0", &config);
    let error = outcome.error();
    let text = format!("{} {}", error.msg, error.details);
    assert!(text.contains(&v4.to_string()) && text.contains(&first.id), "{outcome:?}");
    before.assert_unchanged(&lab);
}

#[test]
fn without_a_bpffs_nothing_is_made() {
    let lab = Lab::new();
    let web = lab.container("web");
    let before = Snapshot::of(&lab);
    let nowhere = lab.scratch().join("plain");
    fs::create_dir(&nowhere).unwrap();
    let call = lab.call("ADD").container(&web.id, web.netns.path(), "eth0");
    let call = call.env("ACADEMY_BPFFS", nowhere.to_str().unwrap()).config(&lab.config(&[]));
    call.run(&lab.host).fails_with(103, &["bpf"]);
    before.assert_unchanged(&lab);
    assert_eq!(web.netns.links(), ["lo"]);
}

/// Whoever made the directory first must not own our pins.
#[test]
fn a_directory_of_somebody_else_is_refused() {
    let lab = Lab::new();
    let web = lab.container("web");
    fs::create_dir_all(lab.bpffs()).unwrap();
    std::os::unix::fs::chown(lab.bpffs(), Some(65534), Some(65534)).unwrap();
    let outcome = lab.run("ADD", &web, "eth0", &lab.config(&[]));
    outcome.fails_with(103, &[lab.bpffs().to_str().unwrap()]);
    fs::remove_dir(lab.bpffs()).unwrap();
    let _attached = lab.add(&web, &[]);
}

#[test]
fn the_maps_belong_to_one_network_namespace() {
    let lab = Lab::new();
    let (web, second) = (lab.container("web"), lab.container("second"));
    let _attached = lab.add(&web, &[]);
    let other_host = tests::Netns::new("host2");
    let call = lab.call("ADD").container(&second.id, second.netns.path(), "eth0");
    let outcome = call.config(&lab.config(&[])).run(&other_host);
    outcome.fails_with(103, &["ACADEMY_BPFFS"]);
    assert_eq!(second.netns.links(), ["lo"]);
}

/// SIGKILL at any point; then DEL finds everything.
#[test]
fn a_killed_add_leaves_nothing_after_del() {
    let lab = Lab::new();
    let warm = lab.container("warm");
    let attached = lab.add(&warm, &[]);
    lab.del(&attached);
    let empty = Snapshot::of(&lab);
    let mut killed = 0;
    for step in 0..40 {
        let web = lab.container("web");
        let config = lab.config(&Mapping::both(18080, 8080));
        let call = lab.call("ADD").container(&web.id, web.netns.path(), "eth0").config(&config);
        killed += usize::from(call.run_killed(&lab.host, Duration::from_micros(400 * step)));
        lab.run("DEL", &web, "eth0", &config).silent_success();
        empty.assert_unchanged(&lab);
        assert_eq!(web.netns.links(), ["lo"], "killed after {step} steps");
    }
    assert!(killed > 5, "only {killed} of the ADDs were killed before their end");
}

/// The runtime never sends that DEL: GC finds it all.
#[test]
fn killed_adds_leave_nothing_after_gc() {
    let lab = Lab::new();
    let warm = lab.container("warm");
    let attached = lab.add(&warm, &[]);
    lab.del(&attached);
    let empty = Snapshot::of(&lab);
    let containers: Vec<_> = (0..20).map(|_| lab.container("web")).collect();
    for (step, web) in containers.iter().enumerate() {
        let config = lab.config(&[Mapping::new(
            tests::Protocol::Tcp,
            18080 + u16::try_from(step).unwrap(),
            8080,
        )]);
        let call = lab.call("ADD").container(&web.id, web.netns.path(), "eth0").config(&config);
        call.run_killed(&lab.host, Duration::from_micros(700 * step as u64));
    }
    lab.gc(&[]).silent_success();
    empty.assert_unchanged(&lab);
    assert!(unfinished(&lab).is_empty(), "{:?}", unfinished(&lab));
    for web in &containers {
        assert_eq!(web.netns.links(), ["lo"]);
    }
}

/// <https://github.com/containernetworking/plugins/pull/366>,
/// <https://github.com/hashicorp/nomad/issues/6567>
#[test]
fn cni_39_51_52_fifty_adds_at_once_on_a_fresh_host() {
    let lab = Lab::new();
    let before = Snapshot::of(&lab);
    let containers: Vec<_> = (0..50).map(|_| lab.container("pod")).collect();
    let port = |index: usize| 20_000 + u16::try_from(index).unwrap();
    let added: Vec<_> = thread::scope(|scope| {
        let add = |(index, container)| {
            let lab = &lab;
            scope.spawn(move || lab.add(container, &Mapping::both(port(index), 8080)))
        };
        let running: Vec<_> = containers.iter().enumerate().map(add).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut addresses: Vec<_> = added.iter().flat_map(tests::Attached::all_addresses).collect();
    addresses.sort();
    addresses.dedup();
    assert_eq!(addresses.len(), 100);
    assert_eq!(lab.leases("lab").len(), 100);
    let mut report = Report::new();
    for index in [0, 24, 49] {
        let _servers = added[index].serve("pod", &containers[index], 8080);
        for case in Case::ALL {
            let reply = lab.from_client(case.protocol, case.family.of(HOST), port(index)).ask();
            report.answered_by(&format!("{case} of {index}"), &reply, "pod");
        }
        lab.check(&added[index]).silent_success();
    }
    thread::scope(|scope| {
        for attached in &added {
            let lab = &lab;
            scope.spawn(move || lab.del(attached));
        }
    });
    before.assert_unchanged_but_for_the_bridge(&lab);
}

/// <https://github.com/cri-o/cri-o/issues/2342>
#[test]
fn cni_18_five_hundred_times_add_and_del_leave_the_numbers_as_they_were() {
    let lab = Lab::new();
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(18080, 8080));
    lab.del(&attached);
    let before = Snapshot::of(&lab);
    let mut report = Report::new();
    for round in 0..500 {
        let attached = lab.add(&web, &Mapping::both(18080, 8080));
        let case = Case::ALL[round % 4];
        let address = case.family.of(attached.addresses());
        let _server = tests::Server::new("web", &web.netns, case.protocol, address, 8080);
        let reply = lab.from_client(case.protocol, case.family.of(HOST), 18080).ask();
        report.answered_by(&format!("{case}, round {round}"), &reply, "web");
        lab.del(&attached);
    }
    before.assert_unchanged(&lab);
    for map in tests::maps::FLOW_MAPS {
        let rows = lab.rows(map).len();
        report.check(rows <= 100, || format!("{rows} dead rows in {map}"));
    }
}

//! GC: everything of the network that nobody needs any more.

use std::fs;

use serde_json::{Value, json};
use tests::{Case, Lab, Mapping, Network, Outcome, Report, leak::Snapshot, topology::HOST, wait};

/// GC of the default network, with `keys` in its configuration.
fn gc(lab: &Lab, keys: Value) -> Outcome {
    let mut config = lab.config(&[]);
    config.as_object_mut().unwrap().remove("runtimeConfig");
    for (key, value) in keys.as_object().unwrap() {
        config[key] = value.clone();
    }
    lab.call("GC").config(&config).run(&lab.host)
}

/// `cnitool gc` sends no list at all: then nothing is needed.
/// <https://github.com/containernetworking/cni/pull/1080>
#[test]
fn cni_63_66_gc_with_an_absent_null_or_empty_list_releases_the_whole_network() {
    let lab = Lab::new();
    let warm = lab.add(&lab.container("warm"), &[]);
    lab.del(&warm);
    let empty = Snapshot::of(&lab);
    for list in [
        json!({}),
        json!({ "cni.dev/valid-attachments": null }),
        json!({ "cni.dev/valid-attachments": [] }),
        json!({ "cni.dev/attachments": null }),
        json!({ "cni.dev/attachments": [] }),
    ] {
        let web = lab.container("web");
        let _attached = lab.add(&web, &Mapping::both(18080, 8080));
        gc(&lab, list.clone()).silent_success();
        assert_eq!(Snapshot::of(&lab), empty, "{list}: left: now, right: before");
    }
}

/// <https://github.com/containernetworking/cni/issues/1101>
#[test]
fn cni_63_gc_keeps_what_the_list_names_under_either_key() {
    let lab = Lab::new();
    for key in ["cni.dev/valid-attachments", "cni.dev/attachments"] {
        let (kept, stale) = (lab.container("kept"), lab.container("stale"));
        let attached = lab.add(&kept, &Mapping::both(18080, 8080));
        let before = Snapshot::of(&lab);
        let _stale = lab.add(&stale, &Mapping::both(18081, 8080));
        let list = json!([{ "containerID": kept.id, "ifname": "eth0" }]);
        gc(&lab, json!({ key: list })).silent_success();
        assert_eq!(Snapshot::of(&lab), before, "{key}: left: now, right: before");
        lab.check(&attached).silent_success();
        let _servers = attached.serve("kept", &kept, 8080);
        let mut report = Report::new();
        for case in Case::ALL {
            let reply = lab.from_client(case.protocol, case.family.of(HOST), 18080).ask();
            report.answered_by(&format!("{case} with {key}"), &reply, "kept");
        }
        lab.del(&attached);
    }
}

#[test]
fn gc_tells_two_interfaces_of_one_container_apart() {
    let lab = Lab::new();
    let web = lab.container("web");
    let eth0 = lab.add(&web, &[]);
    let second = Network::default().with(json!({ "isDefaultGateway": false, "isGateway": true }));
    let _eth1 = lab.add_to(&second, &web, "eth1", &[]);
    lab.gc(&[(&web.id, "eth0")]).silent_success();
    assert_eq!(web.netns.links(), ["lo", "eth0"]);
    lab.check(&eth0).silent_success();
}

#[test]
fn a_malformed_list_is_an_error_and_releases_nothing() {
    let lab = Lab::new();
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(18080, 8080));
    let before = Snapshot::of(&lab);
    for list in [
        json!("all"),
        json!(7),
        json!({ "containerID": "x" }),
        json!(["x"]),
        json!([{ "containerID": 7, "ifname": "eth0" }]),
        json!([{ "ifname": "eth0" }]),
    ] {
        let outcome = gc(&lab, json!({ "cni.dev/valid-attachments": list }));
        let code = outcome.error().code;
        assert!(code == 6 || code == 7, "{list}: {outcome:?}");
        before.assert_unchanged(&lab);
    }
    lab.check(&attached).silent_success();
}

/// <https://github.com/containernetworking/cni/issues/1086>
#[test]
fn cni_64_gc_leaves_other_networks_alone() {
    let lab = Lab::new();
    let (ours, theirs) = (lab.container("ours"), lab.container("theirs"));
    let kept = lab.add_to(&Network::second(), &theirs, "eth0", &Mapping::both(18081, 8080));
    let _stale = lab.add(&ours, &[]);
    gc(&lab, json!({})).silent_success();
    assert_eq!(ours.netns.links(), ["lo"]);
    lab.check(&kept).silent_success();
    assert_eq!(lab.leases("second").len(), 2);
    assert_eq!(lab.leases("lab").len(), 0);
}

/// <https://github.com/containernetworking/plugins/issues/498>
#[test]
fn cni_34_gc_and_add_clear_leases_without_an_owner() {
    let lab = Lab::new();
    let web = lab.container("web");
    let attached = lab.add(&web, &[]);
    let store = lab.state_directory().join("lab");
    let (v4, _) = attached.addresses();
    // What a reboot leaves: the lease of an attachment that no record knows.
    let records = lab.run_directory().join("lab");
    fs::remove_dir_all(&records).unwrap();
    lab.host.ip(&format!("link del {}", attached.host_interface()));
    gc(&lab, json!({})).silent_success();
    assert!(!store.join(v4.to_string()).exists(), "the dead lease is left");
    let rows = tests::maps::ATTACHMENT_MAPS.map(|map| lab.rows(map).len());
    assert_eq!(rows, [0; 6]);
}

#[test]
fn gc_removes_a_veth_of_ours_that_no_record_knows() {
    let lab = Lab::new();
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(18080, 8080));
    fs::remove_dir_all(lab.run_directory().join("lab")).unwrap();
    lab.host.ip("link add stranger0 type veth peer name stranger1");
    lab.host.ip("link set stranger0 master br-academy");
    gc(&lab, json!({})).silent_success();
    let links = lab.host.links();
    assert!(!links.contains(&attached.host_interface()), "{links:?}");
    assert!(links.iter().any(|name| name == "stranger0"), "{links:?}");
}

#[test]
fn gc_clears_what_a_container_left_that_died_without_del() {
    let lab = Lab::new();
    let warm = lab.add(&lab.container("warm"), &[]);
    lab.del(&warm);
    let empty = Snapshot::of(&lab);
    let dead = lab.container("dead");
    let gone = lab.add(&dead, &Mapping::both(18080, 8080));
    drop(dead);
    wait::until("the veth is gone", || {
        (!lab.host.links().contains(&gone.host_interface())).then_some(())
    });
    gc(&lab, json!({})).silent_success();
    empty.assert_unchanged(&lab);
}

#[test]
fn gc_on_a_fresh_host_is_silent() {
    let lab = Lab::new();
    let before = Snapshot::of(&lab);
    gc(&lab, json!({})).silent_success();
    before.assert_unchanged(&lab);
}

/// host-local's own files, where `dataDir` is its directory.
/// <https://github.com/containernetworking/plugins/issues/1047>
#[test]
fn cni_65_gc_passes_over_files_that_are_no_leases() {
    let lab = Lab::new();
    let directory = lab.scratch().join("leases");
    let network = Network::default().with(json!({ "ipam": { "dataDir": directory } }));
    let web = lab.container("web");
    let attached = lab.add_to(&network, &web, "eth0", &[]);
    let store = directory.join("lab");
    for marker in ["last_reserved_ip.0", "lock", ".hidden"] {
        fs::write(store.join(marker), "10.98.0.2").unwrap();
    }
    gc(&lab, json!({ "ipam": attached.configs[0]["ipam"] })).silent_success();
    for marker in ["last_reserved_ip.0", "lock", ".hidden"] {
        assert!(store.join(marker).exists(), "{marker} is gone");
    }
    assert!(!store.join(attached.addresses().0.to_string()).exists());
}

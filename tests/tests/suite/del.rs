//! DEL: silent, repeatable, and content with less than it could ask for.

use serde_json::{Value, json};
use tests::{Case, Lab, Mapping, Network, Protocol, Report, leak::Snapshot, topology::HOST};

fn minimal() -> Value {
    json!({ "cniVersion": "1.1.0", "name": "lab", "type": "academy" })
}

/// A lab whose shared parts exist, and what is there without an attachment.
fn lab() -> (Lab, Snapshot) {
    let lab = Lab::new();
    let warm = lab.container("warm");
    let attached = lab.add(&warm, &[]);
    lab.del(&attached);
    let empty = Snapshot::of(&lab);
    (lab, empty)
}

/// <https://github.com/containernetworking/plugins/issues/509>
#[test]
fn cni_49_del_three_times_and_with_no_mappings_removes_everything_once() {
    let (lab, empty) = lab();
    for last in [
        json!({ "runtimeConfig": { "portMappings": null } }),
        json!({ "runtimeConfig": null }),
        json!({}),
    ] {
        let web = lab.container("web");
        let attached = lab.add(&web, &Mapping::both(18080, 8080));
        let mut config = attached.configs[0].clone();
        config.as_object_mut().unwrap().remove("runtimeConfig");
        for (key, value) in last.as_object().unwrap() {
            config[key] = value.clone();
        }
        for _ in 0..3 {
            lab.call_for(&attached, "DEL", &config).silent_success();
            empty.assert_unchanged(&lab);
        }
        assert_eq!(web.netns.links(), ["lo"], "the container's interface is left");
    }
}

/// <https://github.com/containernetworking/plugins/pull/390>,
/// <https://github.com/k8snetworkplumbingwg/multus-cni/pull/1521>
#[test]
fn cni_41_45_del_works_with_name_type_and_version_only() {
    let (lab, empty) = lab();
    for prev_result in [None, Some(Value::Null)] {
        let web = lab.container("web");
        let _attached = lab.add(&web, &Mapping::both(18080, 8080));
        let mut config = minimal();
        if let Some(value) = prev_result {
            config["prevResult"] = value;
        }
        lab.run("DEL", &web, "eth0", &config).silent_success();
        empty.assert_unchanged(&lab);
    }
}

/// <https://github.com/containernetworking/plugins/issues/1196>,
/// <https://github.com/containerd/nerdctl/issues/2699>
#[test]
fn cni_27_42_47_del_without_a_namespace_removes_everything() {
    let (lab, empty) = lab();
    for netns in [None, Some(""), Some("/run/netns/act-never-there")] {
        let web = lab.container("web");
        let attached = lab.add(&web, &Mapping::both(18080, 8080));
        let call = lab.call("DEL").container(&web.id, web.netns.path(), "eth0");
        let call = match netns {
            None => call.without("CNI_NETNS"),
            Some(path) => call.env("CNI_NETNS", path),
        };
        call.config(&attached.configs[0]).run(&lab.host).silent_success();
        empty.assert_unchanged(&lab);
    }
}

#[test]
fn del_after_the_namespace_was_deleted_removes_everything() {
    let (lab, empty) = lab();
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(18080, 8080));
    drop(web);
    lab.del(&attached);
    empty.assert_unchanged(&lab);
}

/// <https://github.com/containers/dnsname/pull/73>
#[test]
fn cni_31_46_del_finds_its_parts_already_gone() {
    let (lab, empty) = lab();
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(18080, 8080));
    lab.host.ip(&format!("link del {}", attached.host_interface()));
    std::fs::remove_dir_all(lab.state_directory().join("lab")).unwrap();
    lab.del(&attached);
    empty.assert_unchanged(&lab);
    let attached = lab.add(&web, &Mapping::both(18080, 8080));
    lab.host.ip("link del br-academy");
    lab.del(&attached);
    let attached = lab.add(&web, &Mapping::both(18080, 8080));
    let _servers = attached.serve("web", &web, 8080);
    let mut report = Report::new();
    for case in Case::ALL {
        let reply = lab.from_client(case.protocol, case.family.of(HOST), 18080).ask();
        report.answered_by(&format!("{case} on the new bridge"), &reply, "web");
    }
    lab.del(&attached);
    empty.assert_unchanged(&lab);
}

/// nerdctl sends a DEL before every ADD.
#[test]
fn cni_50_del_on_a_fresh_host_is_silent_and_makes_nothing() {
    let lab = Lab::new();
    let web = lab.container("web");
    let before = Snapshot::of(&lab);
    lab.run("DEL", &web, "eth0", &lab.config(&Mapping::both(18080, 8080))).silent_success();
    let call = lab.call("DEL").container(&web.id, web.netns.path(), "eth0");
    let nowhere = lab.scratch().join("no-bpffs");
    let call = call.env("ACADEMY_BPFFS", nowhere.to_str().unwrap()).env("CNI_NETNS", "");
    call.config(&minimal()).run(&lab.host).silent_success();
    before.assert_unchanged(&lab);
}

/// The runtime sends DEL with the configuration with which ADD failed.
#[test]
fn del_with_a_configuration_that_add_refuses_still_removes_everything() {
    let (lab, empty) = lab();
    for bad in [
        json!({ "runtimeConfig": { "portMappings": [{ "hostPort": 0, "containerPort": 80 }] } }),
        json!({ "runtimeConfig": { "portMappings": "text" } }),
        json!({ "ipMasq": true }),
        json!({ "vlan": 7 }),
        json!({ "mtu": "large" }),
        json!({ "mtu": -1 }),
        json!({ "bridge": "not/a/name" }),
        json!({ "ipam": { "ranges": [[{ "subnet": "10.98.0.1/24" }]] } }),
        json!({ "ipam": { "ranges": "none" } }),
        json!({ "conditionsV4": ["-s", "192.0.2.0/24"] }),
        json!({ "interface": "tap" }),
        json!({ "fastPath": "sometimes" }),
        json!({ "prevResult": { "ips": 7 } }),
    ] {
        let web = lab.container("web");
        let attached = lab.add(&web, &Mapping::both(18080, 8080));
        let mut config = attached.configs[0].clone();
        for (key, value) in bad.as_object().unwrap() {
            config[key] = value.clone();
        }
        let outcome = lab.run("DEL", &web, "eth0", &config);
        assert!(outcome.succeeded() && outcome.stdout.is_empty(), "{bad}: {outcome:?}");
        empty.assert_unchanged(&lab);
    }
}

/// <https://github.com/cilium/cilium/issues/10065>
#[test]
fn cni_37_del_of_an_old_id_with_a_stale_result_leaves_the_new_owner_alone() {
    let (lab, _) = lab();
    let one = json!({ "ipam": { "ranges": [
        [{ "subnet": "10.98.0.0/24", "rangeStart": "10.98.0.9", "rangeEnd": "10.98.0.9" }],
        [{ "subnet": "fd00:98::/64", "rangeStart": "fd00:98::9", "rangeEnd": "fd00:98::9" }],
    ] } });
    let network = Network::default().with(one);
    let (old, new) = (lab.container("old"), lab.container("new"));
    let before = lab.add_to(&network, &old, "eth0", &Mapping::both(18080, 8080));
    lab.del(&before);
    let after = lab.add_to(&network, &new, "eth0", &Mapping::both(18080, 8080));
    assert_eq!(after.all_addresses(), before.all_addresses());
    let now = Snapshot::of(&lab);
    lab.del(&before);
    now.assert_unchanged(&lab);
    lab.check(&after).silent_success();
}

/// <https://github.com/cilium/cilium/issues/44530>: podman uses the same id again after a restart.
#[test]
fn cni_30_the_same_id_and_interface_name_again_in_a_new_namespace() {
    let (lab, empty) = lab();
    let mut web = lab.container("web");
    let id = web.id.clone();
    let before = lab.add(&web, &Mapping::both(18080, 8080));
    // No DEL: a power cut of the container, then a start under the old id.
    web = lab.container("web");
    web.id = id;
    let outcome = lab.try_add(&web, "eth0", before.configs.clone());
    let after = outcome.unwrap_or_else(|_| {
        lab.del(&before);
        lab.add(&web, &Mapping::both(18080, 8080))
    });
    let _servers = after.serve("web", &web, 8080);
    let reply = lab.from_client(Protocol::Tcp, Case::ALL[0].family.of(HOST), 18080).ask();
    assert_eq!(reply.server(), Some("web"), "{reply:?}");
    lab.del(&after);
    empty.assert_unchanged(&lab);
}

#[test]
fn a_del_whose_namespace_is_the_hosts_touches_no_device_of_the_host() {
    let (lab, _) = lab();
    let web = lab.container("web");
    let attached = lab.add(&web, &[]);
    let before = lab.host.links();
    for ifname in ["up0", "br-academy", &attached.host_interface()] {
        let call = lab.call("DEL").container("stranger", lab.host.path(), ifname);
        let _outcome = call.config(&lab.config(&[])).run(&lab.host);
        assert_eq!(lab.host.links(), before);
    }
}

#[test]
fn del_of_one_interface_leaves_the_containers_other_one() {
    let (lab, empty) = lab();
    let web = lab.container("web");
    let second = Network::second().with(json!({ "isDefaultGateway": false }));
    let eth0 = lab.add(&web, &[]);
    let eth1 = lab.add_to(&second, &web, "eth1", &[]);
    lab.del(&eth0);
    assert_eq!(web.netns.links(), ["lo", "eth1"]);
    lab.check(&eth1).silent_success();
    lab.del(&eth1);
    lab.host.ip("link del br-second");
    empty.assert_unchanged(&lab);
}

/// No word in a DEL's error may make containerd take it for success.
#[test]
fn a_del_that_really_fails_says_so_without_the_words_of_success() {
    let (lab, _) = lab();
    let web = lab.container("web");
    let attached = lab.add(&web, &[]);
    // A directory where the lock has to be: nothing can be guarded any more.
    std::fs::remove_file(lab.run_directory().join("lock")).unwrap();
    std::fs::create_dir(lab.run_directory().join("lock")).unwrap();
    let outcome = lab.call_for(&attached, "DEL", &attached.configs[0]);
    let text = format!("{} {}", outcome.error().msg, outcome.error().details).to_lowercase();
    assert!(!text.contains("not found") && !text.contains("no such file"), "{text}");
    std::fs::remove_dir(lab.run_directory().join("lock")).unwrap();
    lab.del(&attached);
}

//! Bad input: one JSON error with the right code, the field and the value; nothing is created; a
//! DEL with the same input succeeds.

use serde_json::{Value, json};
use tests::{Lab, leak::Snapshot, network::overlay};

/// ADD with `extra` laid over a good configuration.
fn refused(extra: Value, code: u64, words: &[&str]) -> Row {
    Row { extra, code, words: words.iter().map(|&word| word.to_owned()).collect() }
}

fn port(entry: Value, words: &[&str]) -> Row {
    refused(json!({ "runtimeConfig": { "portMappings": [entry] } }), 7, words)
}

struct Row {
    extra: Value,
    code: u64,
    words: Vec<String>,
}

fn judge(rows: Vec<Row>) {
    let lab = Lab::new();
    let warm = lab.container("warm");
    let attached = lab.add(&warm, &[]);
    lab.del(&attached);
    let web = lab.container("web");
    let empty = Snapshot::of(&lab);
    let mut report = tests::Report::new();
    for Row { extra, code, words } in rows {
        let mut config = lab.config(&[]);
        overlay(&mut config, extra.clone());
        let outcome = lab.run("ADD", &web, "eth0", &config);
        if outcome.succeeded() {
            report.check(false, || format!("{extra} is accepted"));
        } else {
            let error = outcome.error();
            report.check(error.code == code, || {
                format!("{extra}: wanted code {code}, got {} {}", error.code, error.msg)
            });
            let text = format!("{} {}", error.msg, error.details);
            for word in words {
                report.check(text.contains(&word), || format!("{extra}: no {word:?} in {text:?}"));
            }
            let now = Snapshot::of(&lab);
            report.check(now == empty, || format!("{extra}: ADD left something: {now:?}"));
        }
        let outcome = lab.run("DEL", &web, "eth0", &config);
        report.check(outcome.succeeded() && outcome.stdout.is_empty(), || {
            format!("{extra}: DEL: {outcome:?}")
        });
    }
}

#[test]
fn port_mappings() {
    let good = |key: &str, value: Value| {
        let mut entry = json!({ "hostPort": 8080, "containerPort": 80, "protocol": "tcp" });
        entry[key] = value;
        entry
    };
    judge(vec![
        port(good("hostPort", json!(0)), &["hostPort", "0"]),
        port(good("hostPort", json!(-1)), &["hostPort", "-1"]),
        port(good("hostPort", json!(65536)), &["hostPort", "65536"]),
        port(good("containerPort", json!(0)), &["containerPort", "0"]),
        port(good("containerPort", json!(-1)), &["containerPort", "-1"]),
        port(good("containerPort", json!(70000)), &["containerPort", "70000"]),
        port(good("containerPort", Value::Null), &["containerPort"]),
        port(good("hostPort", Value::Null), &["hostPort"]),
        port(good("protocol", json!("icmp")), &["protocol", "icmp"]),
        port(good("protocol", json!("tcp6")), &["protocol", "tcp6"]),
        port(good("hostIP", json!("300.0.0.1")), &["hostIP", "300.0.0.1"]),
        port(good("hostIP", json!("localhost")), &["hostIP", "localhost"]),
        port(good("hostIP", json!("fe80::1%up0")), &["hostIP", "fe80::1%up0"]),
        port(good("hostIP", json!("192.0.2.1/24")), &["hostIP", "192.0.2.1/24"]),
    ]);
}

/// <https://github.com/containerd/containerd/issues/4321>
#[test]
fn cni_23_sctp_with_different_ports_is_refused() {
    judge(vec![port(
        json!({ "hostPort": 8080, "containerPort": 80, "protocol": "sctp" }),
        &["sctp"],
    )]);
}

#[test]
fn port_mappings_of_the_wrong_shape() {
    for wrong in [json!("text"), json!({}), json!([7]), json!([{ "hostPort": "x" }])] {
        let lab = Lab::new();
        let web = lab.container("web");
        let mut config = lab.config(&[]);
        config["runtimeConfig"]["portMappings"] = wrong.clone();
        let error = lab.run("ADD", &web, "eth0", &config).error();
        assert!(error.code == 6 || error.code == 7, "{wrong}: {error:?}");
        lab.run("DEL", &web, "eth0", &config).silent_success();
    }
}

/// What a later version may build is refused by name, not ignored.
#[test]
fn keys_that_are_not_supported() {
    judge(vec![
        refused(json!({ "ipMasq": true }), 2, &["ipMasq", "true"]),
        refused(json!({ "macspoofchk": true }), 2, &["macspoofchk", "true"]),
        refused(json!({ "vlan": 100 }), 2, &["vlan", "100"]),
        refused(json!({ "vlanTrunk": [{ "id": 7 }] }), 2, &["vlanTrunk"]),
        refused(json!({ "interface": "tap" }), 2, &["interface", "tap"]),
        refused(json!({ "delegate": { "type": "host-device" } }), 2, &["delegate"]),
        refused(json!({ "fastPath": "off" }), 2, &["fastPath", "off"]),
        refused(json!({ "conditionsV4": ["-s", "192.0.2.0/24"] }), 2, &["conditionsV4"]),
        refused(json!({ "conditionsV6": ["-s", "2001:db8::/32"] }), 2, &["conditionsV6"]),
        refused(
            json!({ "runtimeConfig": { "bandwidth": { "ingressRate": 1000, "ingressBurst": 1000 } } }),
            2,
            &["bandwidth"],
        ),
        refused(json!({ "ipam": { "type": "static" } }), 2, &["ipam", "static"]),
    ]);
}

#[test]
fn unsupported_keys_without_effect_are_accepted() {
    let lab = Lab::new();
    for extra in [
        json!({ "ipMasq": false, "macspoofchk": false, "vlan": 0, "vlanTrunk": [] }),
        json!({ "conditionsV4": [], "conditionsV6": [] }),
        json!({ "interface": "veth", "fastPath": "auto" }),
        json!({ "ipam": { "type": "academy" } }),
        json!({ "runtimeConfig": { "bandwidth": { "ingressRate": 0, "egressRate": 0 } } }),
        json!({ "unheardOf": { "of": [1] }, "capabilities": { "unheardOf": true } }),
        json!({ "args": { "cni": { "labels": [{ "key": "a", "value": "b" }] } } }),
    ] {
        let web = lab.container("web");
        let mut config = lab.config(&[]);
        overlay(&mut config, extra.clone());
        let attached = lab.try_add(&web, "eth0", vec![config]);
        let attached = attached.unwrap_or_else(|outcome| panic!("{extra}: {outcome:?}"));
        lab.del(&attached);
    }
}

/// <https://github.com/containernetworking/plugins/issues/877>
#[test]
fn cni_55_bridge_keys_out_of_range() {
    judge(vec![
        refused(json!({ "mtu": 65536 }), 7, &["mtu", "65536"]),
        refused(json!({ "mtu": -1 }), 7, &["mtu", "-1"]),
        refused(json!({ "bridge": "not/a/name" }), 7, &["bridge", "not/a/name"]),
        refused(json!({ "bridge": "sixteen-letters-" }), 7, &["bridge", "sixteen-letters-"]),
        refused(json!({ "hairpinMode": true, "promiscMode": true }), 7, &["promiscMode"]),
        refused(json!({ "attach": "xdp" }), 7, &["attach", "xdp"]),
        refused(json!({ "fastPath": "sometimes" }), 7, &["fastPath", "sometimes"]),
    ]);
}

#[test]
fn address_ranges() {
    let range = |range: Value| json!({ "ipam": { "ranges": [[range]] } });
    judge(vec![
        refused(range(json!({ "subnet": "10.98.0.1/24" })), 7, &["10.98.0.1/24"]),
        refused(range(json!({ "subnet": "10.98.0.0/31" })), 7, &["10.98.0.0/31"]),
        refused(range(json!({ "subnet": "10.98.0.0/33" })), 7, &["10.98.0.0/33"]),
        refused(range(json!({ "subnet": "nonsense" })), 7, &["subnet", "nonsense"]),
        refused(range(json!({ "subnet": "fd00::/127" })), 7, &["fd00::/127"]),
        refused(
            range(json!({ "subnet": "10.98.0.0/24", "rangeStart": "10.99.0.1" })),
            7,
            &["rangeStart", "10.99.0.1"],
        ),
        refused(
            range(json!({ "subnet": "10.98.0.0/24", "gateway": "here" })),
            7,
            &["gateway", "here"],
        ),
        refused(
            json!({ "ipam": { "ranges": [
                [{ "subnet": "10.98.0.0/24" }, { "subnet": "10.98.0.0/25" }],
            ] } }),
            7,
            &["10.98.0.0/25"],
        ),
        refused(
            json!({ "ipam": { "ranges": [[{ "subnet": "10.98.0.0/24" }, { "subnet": "fd00::/64" }]] } }),
            7,
            &["fd00::/64"],
        ),
    ]);
}

#[test]
fn a_bridge_that_is_none() {
    judge(vec![refused(json!({ "bridge": "up0" }), 7, &["up0", "bridge"])]);
}

/// Whatever is on stdin, there is one JSON document with a code, and never a signal.
#[test]
fn no_input_panics() {
    let lab = Lab::new();
    let web = lab.container("web");
    let good = lab.config(&tests::Mapping::both(18080, 8080));
    let values = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1e300),
        json!(u64::MAX),
        json!(""),
        json!("\u{0}\u{ffff}"),
        json!([]),
        json!([[[]]]),
        json!({}),
        json!({ "a": { "a": {} } }),
    ];
    let mut paths: Vec<Vec<&str>> = good.as_object().unwrap().keys().map(|k| vec![&**k]).collect();
    paths.push(vec!["ipam", "ranges"]);
    paths.push(vec!["runtimeConfig", "portMappings"]);
    paths.push(vec!["prevResult"]);
    paths.push(vec!["dns"]);
    paths.push(vec!["args"]);
    for command in ["ADD", "DEL", "CHECK", "GC", "STATUS"] {
        for path in &paths {
            for value in &values {
                let mut config = good.clone();
                let mut place = &mut config;
                for key in path {
                    place = &mut place[*key];
                }
                *place = value.clone();
                let outcome = lab.run(command, &web, "eth0", &config);
                let what = format!("{command} with {path:?} {value}");
                assert!(outcome.code.is_some_and(|code| code != 101), "{what}: {outcome:?}");
                if !outcome.succeeded() {
                    assert_ne!(outcome.error().code, 999, "{what}: {outcome:?}");
                }
                if outcome.succeeded() && command == "ADD" {
                    lab.run("DEL", &web, "eth0", &config).silent_success();
                }
            }
        }
    }
}

use super::*;

fn json(value: Value) -> Json {
    Json::parse(value.to_string().as_bytes()).unwrap()
}

fn full() -> CniResult {
    let interface = |name: &str, sandbox: &str| Interface {
        name: name.into(),
        mac: "02:00:00:00:00:01".into(),
        mtu: Some(1500),
        sandbox: sandbox.into(),
        ..Interface::default()
    };
    let ip = |address: &str, gateway: &str| Ip {
        address: address.parse().unwrap(),
        gateway: Some(gateway.parse().unwrap()),
        interface: Some(2),
    };
    CniResult {
        interfaces: vec![
            interface("br", ""),
            interface("veth1", ""),
            interface("eth0", "/run/netns/x"),
        ],
        ips: vec![
            ip("10.98.0.2/24", "10.98.0.1"),
            ip("10.99.0.2/24", "10.99.0.1"),
            ip("fd98::2/64", "fd98::1"),
        ],
        routes: vec![
            Route {
                mtu: Some(1400),
                scope: Some(0),
                ..Route::new("0.0.0.0/0".parse().unwrap(), Some("10.98.0.1".parse().unwrap()))
            },
            Route::new("::/0".parse().unwrap(), None),
        ],
        dns: Dns { nameservers: vec!["10.0.0.53".into()], ..Dns::default() },
    }
}

#[test]
fn version_1_1_has_everything() {
    let interface = |name: &str| json!({"name": name, "mac": "02:00:00:00:00:01", "mtu": 1500});
    let mut container = interface("eth0");
    container["sandbox"] = "/run/netns/x".into();
    assert_eq!(
        full().to_json(Version::V1_1_0).unwrap(),
        json!({
            "cniVersion": "1.1.0",
            "interfaces": [interface("br"), interface("veth1"), container],
            "ips": [
                {"address": "10.98.0.2/24", "gateway": "10.98.0.1", "interface": 2},
                {"address": "10.99.0.2/24", "gateway": "10.99.0.1", "interface": 2},
                {"address": "fd98::2/64", "gateway": "fd98::1", "interface": 2},
            ],
            "routes": [
                {"dst": "0.0.0.0/0", "gw": "10.98.0.1", "mtu": 1400, "scope": 0},
                {"dst": "::/0"},
            ],
            "dns": {"nameservers": ["10.0.0.53"]},
        })
    );
}

#[test]
fn version_1_0_lacks_what_1_1_brought() {
    let document = full().to_json(Version::V1_0_0).unwrap();
    let eth0 = json!({
        "name": "eth0", "mac": "02:00:00:00:00:01", "sandbox": "/run/netns/x"
    });
    assert_eq!(document["interfaces"][2], eth0);
    assert_eq!(document["routes"][0], json!({"dst": "0.0.0.0/0", "gw": "10.98.0.1"}));
    let ip = json!({"address": "10.98.0.2/24", "gateway": "10.98.0.1", "interface": 2});
    assert_eq!(document["ips"][0], ip);
}

#[test]
fn versions_before_1_0_name_the_family_of_each_address() {
    for version in [Version::V0_3_0, Version::V0_3_1, Version::V0_4_0] {
        let document = full().to_json(version).unwrap();
        assert_eq!(document["cniVersion"], version.as_str());
        assert_eq!(document["ips"][0]["version"], "4");
        assert_eq!(document["ips"][2]["version"], "6");
    }
}

#[test]
fn versions_before_0_3_have_one_address_per_family_and_no_interfaces() {
    for version in [Version::V0_1_0, Version::V0_2_0] {
        assert_eq!(
            full().to_json(version).unwrap(),
            json!({
                "cniVersion": version.as_str(),
                "ip4": {
                    "ip": "10.98.0.2/24",
                    "gateway": "10.98.0.1",
                    "routes": [{"dst": "0.0.0.0/0", "gw": "10.98.0.1"}],
                },
                "ip6": {
                    "ip": "fd98::2/64", "gateway": "fd98::1", "routes": [{"dst": "::/0"}]
                },
                "dns": {"nameservers": ["10.0.0.53"]},
            })
        );
    }
    let error = CniResult::default().to_json(Version::V0_2_0).unwrap_err();
    assert_eq!(error.code(), 7);
}

#[test]
fn a_result_of_every_version_is_read_back() {
    for version in Version::ALL {
        let document = full().to_json(version).unwrap();
        let read = CniResult::from_json(&json(document.clone()), Version::V0_1_0).unwrap();
        assert_eq!(read.to_json(version).unwrap(), document, "{version}");
    }
    let read = |version| {
        let document = json(full().to_json(version).unwrap());
        CniResult::from_json(&document, version).unwrap()
    };
    assert_eq!(read(Version::V1_1_0), full());
    let oldest = read(Version::V0_1_0);
    assert_eq!(oldest.ips.len(), 2);
    assert_eq!(oldest.routes.len(), 2);
}

#[test]
fn a_result_without_version_has_that_of_the_configuration() {
    let config = json(json!({"prevResult": {"ip4": {"ip": "10.0.0.2/24"}}}));
    let result = CniResult::previous(&config, Version::V0_2_0).unwrap().unwrap();
    assert_eq!(result.ips[0].address, "10.0.0.2/24".parse().unwrap());
    let config = json(json!({"prevResult": null}));
    assert_eq!(CniResult::previous(&config, Version::V1_0_0).unwrap(), None);
}

#[test]
fn a_wrong_result_names_the_field() {
    for (result, field) in [
        (json!(7), "prevResult"),
        (json!({"ips": 7}), "prevResult.ips"),
        (json!({"ips": [7]}), "prevResult.ips[0]"),
        (json!({"ips": [{}]}), "prevResult.ips[0].address"),
        (json!({"ips": [{"address": "10.0.0.300/24"}]}), "prevResult.ips[0].address"),
        (json!({"ips": [{"address": "10.0.0.3/24", "interface": -1}]}), "interface"),
        (json!({"routes": [{"dst": "x"}]}), "prevResult.routes[0].dst"),
        (json!({"routes": [{"dst": "10.0.0.0/8", "gw": "fd00::1"}]}), "routes[0].gw"),
        (json!({"interfaces": [{"name": 1}]}), "prevResult.interfaces[0].name"),
        (json!({"cniVersion": "9.9.9"}), "prevResult.cniVersion"),
        (json!({"dns": {"nameservers": [1]}}), "prevResult.dns.nameservers"),
    ] {
        let config = json(json!({ "prevResult": result }));
        let error = CniResult::previous(&config, Version::V1_0_0).unwrap_err();
        assert_eq!(error.code(), 7, "{error}");
        assert!(error.to_string().contains(field), "{error}");
    }
}

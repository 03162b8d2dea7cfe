use serde_json::{Value, json};

use super::*;
use crate::{
    config::{RequestSource, RequestedAddress},
    ipam::RangeSet,
};

fn paths() -> Paths {
    Paths {
        bpffs: "/b".into(),
        run_dir: "/r".into(),
        state_dir: "/s".into(),
        host_local_dir: "/h".into(),
    }
}

fn read_with(mut config: Value, args: &str) -> Result<NetworkConfig> {
    for (key, value) in [("cniVersion", "1.0.0"), ("name", "net"), ("type", "academy")] {
        if config.get(key).is_none() {
            config[key] = value.into();
        }
    }
    let config = Json::parse(config.to_string().as_bytes()).unwrap();
    NetworkConfig::read(&config, &CniArgs::parse(args).unwrap(), &paths(), true)
}

fn read(config: Value) -> Result<NetworkConfig> {
    read_with(config, "")
}

fn subnets(config: &NetworkConfig) -> Vec<String> {
    config.ipam.as_ref().unwrap().sets.iter().map(RangeSet::subnets).collect()
}

fn requested(config: &NetworkConfig) -> Vec<String> {
    let show = |wish: &RequestedAddress| format!("{} from {}", wish.address, wish.source);
    config.ipam.as_ref().unwrap().requested.iter().map(show).collect()
}

#[test]
fn the_short_form_is_a_gateway_with_a_default_route() {
    let config = read(json!({
        "bridge": "br-academy", "subnet": "10.98.0.0/24", "gateway": "10.98.0.1",
        "testAddress": "10.98.0.20/24", "capabilities": {"portMappings": true}
    }))
    .unwrap();
    assert!(config.short_form && config.is_gateway && config.is_default_gateway);
    assert_eq!(config.bridge, "br-academy");
    assert_eq!(subnets(&config), ["10.98.0.0/24"]);
    let ipam = config.ipam.unwrap();
    assert_eq!(ipam.store_dir, Path::new("/s/net"));
    assert_eq!(ipam.host_local_dir.unwrap(), Path::new("/h/net"));
    assert!(config.snat && !config.masq_all && config.attach == AttachMode::Auto);
}

#[test]
fn the_long_form_has_the_defaults_of_the_reference_plugin() {
    let config = read(json!({"ipam": {"subnet": "10.1.0.0/16"}})).unwrap();
    assert_eq!(config.bridge, "cni0");
    assert!(!config.short_form && !config.is_gateway && !config.is_default_gateway);
    assert!(!config.hairpin_mode && !config.promisc_mode && !config.enable_dad);
    assert_eq!((config.mtu, config.mac), (None, None));
    let config = read(json!({"isDefaultGateway": true, "ipam": {"subnet": "10.1.0.0/16"}}));
    assert!(config.unwrap().is_gateway);
}

#[test]
fn without_ipam_or_with_an_empty_one_there_are_no_addresses() {
    for config in
        [json!({}), json!({"ipam": {}}), json!({"ipam": null}), json!({"ipam": {"type": null}})]
    {
        assert_eq!(read(config).unwrap().ipam, None);
    }
}

#[test]
fn every_key_of_the_bridge_is_read_in_any_case() {
    let config = read(json!({
        "Bridge": "br0", "ISGATEWAY": true, "forceaddress": true, "MTU": 1400,
        "HairpinMode": true, "EnableDAD": true, "portisolation": true,
        "dns": {"Nameservers": ["10.0.0.53"], "domain": "a", "search": ["b"], "options": ["c"]},
        "hostInterfaces": ["eth*", "wg0"], "attach": "tcx", "maxPorts": 10, "maxFlows": 20,
        "snat": false, "masqAll": true,
    }))
    .unwrap();
    assert_eq!(config.bridge, "br0");
    assert!(config.is_gateway && config.force_address && config.hairpin_mode);
    assert!(config.enable_dad && config.port_isolation && !config.snat && config.masq_all);
    assert_eq!(config.mtu, Some(1400));
    assert_eq!(config.dns.nameservers, ["10.0.0.53"]);
    assert_eq!(config.host_interfaces, ["eth*", "wg0"]);
    assert_eq!(
        (config.attach, config.max_ports, config.max_flows),
        (AttachMode::Tcx, Some(10), Some(20))
    );
    let quiet = read(json!({"disableContainerInterface": true, "promiscMode": true})).unwrap();
    assert!(quiet.disable_container_interface && quiet.promisc_mode);
}

#[test]
fn nulls_and_unknown_keys_are_no_matter() {
    let config = json!({
        "bridge": null, "mtu": null, "isGateway": null, "dns": null, "args": null,
        "runtimeConfig": {
            "portMappings": null, "ips": null, "mac": null, "ipRanges": null, "bandwidth": null,
            "aliases": {"net": ["x"]}, "io.kubernetes.cri.pod-annotations": null,
            "dns": {"Servers": null}, "cgroupPath": "/x"
        },
        "prevResult": null, "hostInterfaces": null, "fastPath": null, "delegate": null,
        "backend": "nftables", "markMasqBit": 13, "externalSetMarkChain": "X", "whatever": [1],
    });
    assert_eq!(read(config).unwrap().bridge, "cni0");
}

#[test]
fn what_is_wrong_is_code_7_with_field_and_value() {
    for (config, field) in [
        (json!({"mtu": 65536}), "mtu"),
        (json!({"mtu": 67}), "mtu"),
        (json!({"mtu": -1}), "mtu"),
        (json!({"mtu": "1500"}), "mtu"),
        (json!({"bridge": "sixteen-bytes-xx"}), "bridge"),
        (json!({"bridge": "a/b"}), "bridge"),
        (json!({"bridge": 7}), "bridge"),
        (json!({"isGateway": "yes"}), "isGateway"),
        (json!({"hairpinMode": true, "promiscMode": true}), "promiscMode"),
        (
            json!({"disableContainerInterface": true, "ipam": {"subnet": "10.0.0.0/24"}}),
            "disableContainerInterface",
        ),
        (json!({"ipMasqBackend": "ebtables"}), "ipMasqBackend"),
        (json!({"attach": "xdp"}), "attach"),
        (json!({"maxPorts": 0}), "maxPorts"),
        (json!({"maxFlows": 1.5}), "maxFlows"),
        (json!({"hostInterfaces": "eth0"}), "hostInterfaces"),
        (json!({"hostInterfaces": [1]}), "hostInterfaces"),
        (json!({"dns": []}), "dns"),
        (json!({"dns": {"search": "x"}}), "dns.search"),
        (json!({"subnet": "10.0.0.1/24"}), "subnet"),
        (json!({"subnet": "10.0.0.0/24", "gateway": "10.0.1.1"}), "gateway"),
        (json!({"subnet": "10.0.0.0/24", "ipam": {"subnet": "10.0.0.0/24"}}), "subnet"),
        (json!({"ipam": 7}), "ipam"),
        (json!({"ipam": {"routes": []}}), "ipam.ranges"),
        (json!({"ipam": {"ranges": {}}}), "ipam.ranges"),
        (json!({"ipam": {"ranges": [{"subnet": "10.0.0.0/24"}]}}), "ipam.ranges[0]"),
        (json!({"ipam": {"ranges": [[]]}}), "ipam.ranges[0]"),
        (json!({"ipam": {"ranges": [[{"subnet": "x"}]]}}), "ipam.ranges[0][0].subnet"),
        (json!({"ipam": {"subnet": "10.0.0.0/24", "dataDir": "x"}}), "ipam.dataDir"),
        (
            json!({"ipam": {"subnet": "10.0.0.0/24", "routes": [{"dst": "x"}]}}),
            "ipam.routes[0].dst",
        ),
        (json!({"runtimeConfig": {"mac": "x"}}), "runtimeConfig.mac"),
        (json!({"args": {"cni": {"mac": 7}}}), "args.cni.mac"),
        (
            json!({"ipam": {"subnet": "10.0.0.0/24"}, "runtimeConfig": {"ips": ["x"]}}),
            "runtimeConfig.ips[0]",
        ),
        (
            json!({"ipam": {"subnet": "10.0.0.0/24"}, "args": {"cni": {"ips": "10.0.0.5"}}}),
            "args.cni.ips",
        ),
        (json!({"runtimeConfig": {"portMappings": [{"hostPort": 0}]}}), "portMappings[0].hostPort"),
        (json!({"name": "a/b"}), "name"),
        (json!({"name": ""}), "name"),
        (json!({"name": 7}), "name"),
    ] {
        let error = read(config.clone()).unwrap_err();
        assert_eq!(error.code(), 7, "{config}: {error}");
        let expected = format!("invalid network config: {field}");
        let message = error.to_string();
        assert!(message.starts_with(&expected) || message.contains(field), "{message}");
    }
}

#[test]
fn cni_plugins_877_the_mtu_is_named_and_zero_is_the_default() {
    let error = read(json!({"mtu": 65536})).unwrap_err().to_string();
    let expected = "mtu: must be a whole number from 68 to 65535 (got 65536)";
    assert!(error.ends_with(expected), "{error}");
    assert_eq!(read(json!({"mtu": 0})).unwrap().mtu, None);
    for mtu in [68, 1280, 9000, 65535] {
        assert_eq!(read(json!({"mtu": mtu})).unwrap().mtu, Some(mtu));
    }
}

#[test]
fn what_later_issues_build_is_code_2_with_key_and_value() {
    for (config, key, value) in [
        (json!({"ipMasq": true}), "ipMasq", "true"),
        (json!({"macspoofchk": true}), "macspoofchk", "true"),
        (json!({"vlan": 100}), "vlan", "100"),
        (json!({"vlanTrunk": [{"id": 5}]}), "vlanTrunk", r#"[{"id":5}]"#),
        (json!({"delegate": {"type": "host-device"}}), "delegate", r#"{"type":"host-device"}"#),
        (json!({"interface": "tap"}), "interface", r#""tap""#),
        (json!({"ipam": {"type": "dhcp"}}), "ipam.type", r#""dhcp""#),
        (json!({"ipam": {"type": "host-local"}}), "ipam.type", r#""host-local""#),
        (json!({"fastPath": "off"}), "fastPath", r#""off""#),
        (json!({"conditionsV4": ["-s", "10.0.0.1"]}), "conditionsV4", r#"["-s","10.0.0.1"]"#),
        (json!({"conditionsV6": ["x"]}), "conditionsV6", r#"["x"]"#),
        (
            json!({"runtimeConfig": {"bandwidth": {"IngressRate": 1000, "IngressBurst": 1}}}),
            "runtimeConfig.bandwidth.ingressRate",
            "1000",
        ),
        (json!({"bandwidth": {"egressRate": 5}}), "bandwidth.egressRate", "5"),
        (json!({"prevResult": {"ips": []}}), "prevResult", r#"{"ips":[]}"#),
    ] {
        let error = read(config.clone()).unwrap_err();
        assert_eq!(error.code(), 2, "{config}: {error}");
        let expected = format!("unsupported field {key} with value {value}: ");
        assert!(error.to_string().starts_with(&expected), "{error}");
    }
}

#[test]
fn what_says_nothing_is_not_refused() {
    read(json!({
        "ipMasq": false, "macspoofchk": false, "vlan": 0, "vlanTrunk": [], "delegate": {},
        "interface": "veth", "fastPath": "on", "conditionsV4": [], "conditionsV6": null,
        "preserveDefaultVlan": false, "ipMasqBackend": "nftables",
        "ipam": {"type": "academy", "subnet": "10.0.0.0/24"},
        "runtimeConfig": {"bandwidth": {"IngressRate": 0, "IngressBurst": 4_294_967_295_u32}}
    }))
    .unwrap();
    read(json!({"bridge": "br", "prevResult": {"ips": []}})).unwrap();
}

#[test]
fn ranges_come_from_capability_flat_keys_and_list_in_this_order() {
    let config = read(json!({
        "ipam": {
            "subnet": "10.2.0.0/24",
            "ranges": [[{"subnet": "10.3.0.0/24"}, {"subnet": "10.4.0.0/24"}], [{"subnet": "fd00::/64"}]],
            "routes": [{"dst": "0.0.0.0/0"}, {"dst": "10.0.0.7/8", "gw": "10.2.0.9", "mtu": 1400}],
        },
        "runtimeConfig": {"ipRanges": [[{"subnet": "10.1.0.0/24"}]]}
    }))
    .unwrap();
    let expected = ["10.1.0.0/24", "10.2.0.0/24", "10.3.0.0/24,10.4.0.0/24", "fd00::/64"];
    assert_eq!(subnets(&config), expected);
    let routes = config.routes();
    assert_eq!(routes[0], Route::new("0.0.0.0/0".parse().unwrap(), None));
    assert_eq!(routes[1].dst, "10.0.0.0/8".parse().unwrap());
    assert_eq!(routes[1].mtu, Some(1400));
}

#[test]
fn go_cni_sends_a_flat_list_of_ranges() {
    let config = read(json!({
        "ipam": {"type": "academy"},
        "runtimeConfig": {"ipRanges": [
            {"Subnet": "10.1.0.0/24", "RangeStart": "", "RangeEnd": "", "Gateway": ""},
            {"Subnet": "fd00::/64", "RangeStart": "", "RangeEnd": "", "Gateway": ""},
            {"Subnet": "10.2.0.0/24"},
        ]}
    }))
    .unwrap();
    assert_eq!(subnets(&config), ["10.1.0.0/24,10.2.0.0/24", "fd00::/64"]);
}

#[test]
fn two_addresses_of_a_family_need_version_0_3_0() {
    let config = |version: &str, ranges: Value| {
        read(json!({"cniVersion": version, "ipam": {"ranges": ranges}}))
    };
    let two = json!([[{"subnet": "10.1.0.0/24"}], [{"subnet": "10.2.0.0/24"}]]);
    let dual = json!([[{"subnet": "10.1.0.0/24"}], [{"subnet": "fd00::/64"}]]);
    let error = config("0.2.0", two.clone()).unwrap_err();
    assert_eq!(error.code(), 7);
    let text = error.to_string();
    assert!(text.contains("CNI version 0.2.0 does not support more than 1 address per family"));
    config("0.3.0", two).unwrap();
    config("0.2.0", dual).unwrap();
}

#[test]
fn overlapping_sets_are_refused() {
    let ranges = json!([[{"subnet": "10.1.0.0/24"}], [{"subnet": "10.1.0.0/25"}]]);
    let error = read(json!({"ipam": {"ranges": ranges}})).unwrap_err();
    assert!(error.to_string().contains("range set 0 overlaps with 1"), "{error}");
}

#[test]
fn data_dir_moves_the_leases_and_ends_the_look_into_host_locals_directory() {
    let ipam = read(json!({"ipam": {"subnet": "10.1.0.0/24", "dataDir": "/d"}})).unwrap().ipam;
    let ipam = ipam.unwrap();
    assert_eq!(ipam.store_dir, Path::new("/d/net"));
    assert_eq!(ipam.host_local_dir, None);
}

#[test]
fn requested_addresses_come_from_three_sources_each_once() {
    let config = json!({
        "ipam": {"subnet": "10.1.0.0/24"},
        "runtimeConfig": {"ips": ["10.1.0.5/24", "fd00::5"]},
        "args": {"cni": {"ips": ["10.1.0.5", "10.1.0.6"]}},
    });
    let config = read_with(config, "IP=10.1.0.7;IgnoreUnknown=1").unwrap();
    assert_eq!(
        requested(&config),
        [
            "10.1.0.5 from runtimeConfig.ips",
            "fd00::5 from runtimeConfig.ips",
            "10.1.0.6 from args.cni.ips",
            "10.1.0.7 from IP in CNI_ARGS",
        ]
    );
    assert_eq!(config.ipam.unwrap().requested[3].source, RequestSource::Environment);
}

#[test]
fn the_mac_of_the_capability_comes_before_args_before_the_environment() {
    let last = |config: Value| read_with(config, "MAC=02:00:00:00:00:01").unwrap().mac.unwrap()[5];
    assert_eq!(last(json!({})), 1);
    let args = json!({"cni": {"mac": "02:00:00:00:00:02"}});
    assert_eq!(last(json!({ "args": args })), 2);
    let capability = json!({"mac": "02:00:00:00:00:03"});
    assert_eq!(last(json!({"args": args, "runtimeConfig": capability})), 3);
    assert_eq!(last(json!({"args": args, "runtimeConfig": {"mac": ""}})), 2);
}

#[test]
fn dns_of_the_configuration_comes_before_that_of_resolv_conf() {
    let ipam = json!({"subnet": "10.1.0.0/24", "resolvConf": "/nonexistent/resolv.conf"});
    let config = read(json!({"dns": {"domain": "d"}, "ipam": ipam})).unwrap();
    assert_eq!(config.dns.domain, "d");
    assert_eq!(read(json!({ "ipam": ipam })).unwrap_err().code(), 5);
}

#[test]
fn a_status_needs_no_previous_result_and_no_container() {
    let config = json!({"cniVersion": "1.1.0", "name": "net", "ipam": {"subnet": "10.0.0.0/24"}});
    NetworkConfig::for_status(&Json::parse(config.to_string().as_bytes()).unwrap()).unwrap();
}

#[test]
fn versions_decide_before_anything_else() {
    assert_eq!(read(json!({"cniVersion": "3.0.0", "mtu": -1})).unwrap_err().code(), 1);
    assert_eq!(read(json!({"cniVersion": "x", "mtu": -1})).unwrap_err().code(), 6);
}

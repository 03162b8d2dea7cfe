//! What ADD answers, and that it tells the truth.

use serde_json::{Value, json};
use tests::{Attached, Lab, Mapping, Network, Query, Server, topology::GATEWAY};

fn add(lab: &Lab, version: Option<&str>) -> (tests::Container, Attached) {
    let web = lab.container("web");
    let version = version.map_or(Value::Null, |version| json!(version));
    let network = Network::default().with(json!({ "cniVersion": version }));
    let attached = lab.add_to(&network, &web, "eth0", &Mapping::both(18080, 8080));
    (web, attached)
}

#[test]
fn cni_60_results_before_0_3_have_one_address_per_family() {
    let lab = Lab::new();
    for version in [None, Some("0.1.0"), Some("0.2.0")] {
        let (web, attached) = add(&lab, version);
        let result = &attached.result;
        let told = result["cniVersion"].as_str().unwrap_or("0.1.0");
        assert_eq!(told, version.unwrap_or("0.1.0"), "{result}");
        for (key, prefix, gateway, any) in
            [("ip4", "/24", "10.98.0.1", "0.0.0.0/0"), ("ip6", "/64", "fd00:98::1", "::/0")]
        {
            let address = result[key]["ip"].as_str().unwrap_or_else(|| panic!("{result}"));
            assert!(address.ends_with(prefix), "{result}");
            assert_eq!(result[key]["gateway"], gateway, "{result}");
            assert_eq!(result[key]["routes"][0]["dst"], any, "{result}");
            let shown = web.netns.ip("addr show dev eth0");
            assert!(shown.contains(address), "{address} is not in {shown}");
        }
        assert!(result.get("interfaces").is_none() && result.get("ips").is_none(), "{result}");
        lab.run("DEL", &web, "eth0", &attached.configs[0]).silent_success();
    }
}

#[test]
fn cni_60_results_from_0_3_on_have_interfaces_and_addresses() {
    let lab = Lab::new();
    for version in ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] {
        let (web, attached) = add(&lab, Some(version));
        let result = &attached.result;
        assert_eq!(result["cniVersion"], version);
        let with_family = version.starts_with("0.");
        for ip in result["ips"].as_array().unwrap() {
            let family = ip.get("version").and_then(Value::as_str);
            let expected = if ip["gateway"] == "10.98.0.1" { "4" } else { "6" };
            assert_eq!(family, with_family.then_some(expected), "{version}: {result}");
        }
        if version != "1.1.0" {
            let interfaces = result["interfaces"].as_array().unwrap();
            let new = interfaces.iter().any(|i| i.get("mtu").is_some());
            assert!(!new, "{version} has no mtu: {result}");
        }
        lab.check_if_allowed(&attached, version);
        lab.del(&attached);
        drop(web);
    }
}

trait CheckIfAllowed {
    fn check_if_allowed(&self, attached: &Attached, version: &str);
}

impl CheckIfAllowed for Lab {
    /// CHECK exists from 0.4.0 on.
    fn check_if_allowed(&self, attached: &Attached, version: &str) {
        if !version.starts_with("0.3") {
            self.check(attached).silent_success();
        }
    }
}

/// <https://github.com/containerd/containerd/issues/4402>
#[test]
fn cni_59_the_result_names_bridge_veth_and_container_as_they_are() {
    let lab = Lab::new();
    let (web, attached) = add(&lab, Some("1.1.0"));
    let interfaces = attached.result["interfaces"].as_array().unwrap();
    let [bridge, veth, inside] = &interfaces[..] else { panic!("{interfaces:?}") };
    let veth_name = veth["name"].as_str().unwrap();
    assert!(veth_name.starts_with("veth") && veth_name.len() == 12, "{veth}");
    for (interface, netns, name) in [
        (bridge, &lab.host, "br-academy"),
        (veth, &lab.host, veth_name),
        (inside, &web.netns, "eth0"),
    ] {
        assert_eq!(interface["name"], name);
        let link = &netns.ip_json(&format!("-d link show dev {name}"))[0];
        assert_eq!(interface["mac"], link["address"], "{name}");
        assert_eq!(interface["mtu"], link["mtu"], "{name}");
        let sandbox = if name == "eth0" { web.netns.path().to_str() } else { None };
        assert_eq!(interface.get("sandbox").and_then(Value::as_str), sandbox, "{name}");
    }
    for ip in attached.result["ips"].as_array().unwrap() {
        assert_eq!(ip["interface"], 2, "{ip}");
    }
    let master = &lab.host.ip_json(&format!("link show dev {veth_name}"))[0]["master"];
    assert_eq!(master, "br-academy");
    let alias = &lab.host.ip_json(&format!("link show dev {veth_name}"))[0]["ifalias"];
    let alias = alias.as_str().unwrap();
    assert!(alias.contains("academy") && alias.contains(&web.id), "{alias}");
}

/// What the lab writes: `subnet` and `gateway` beside `type`.
#[test]
fn the_short_form_gives_an_address_a_gateway_and_a_default_route() {
    let lab = Lab::new();
    let web = lab.container("web");
    let config = json!({
        "cniVersion": "1.0.0", "name": "harness", "type": "academy", "bridge": "br-academy",
        "subnet": "10.98.0.0/24", "gateway": "10.98.0.1",
    });
    let attached = lab.try_add(&web, "eth0", vec![config]).unwrap();
    assert_eq!(attached.all_addresses(), ["10.98.0.2".parse::<std::net::IpAddr>().unwrap()]);
    let routes = web.netns.ip("route show default");
    assert!(routes.contains("via 10.98.0.1 dev eth0"), "{routes}");
    let _gateway = Server::new("gateway", &lab.host, tests::Protocol::Tcp, GATEWAY.0.into(), 7000);
    let query = Query::new(&web.netns, tests::Protocol::Tcp, GATEWAY.0.into(), 7000);
    assert_eq!(query.ask().server(), Some("gateway"));
    assert_eq!(lab.leases("harness"), ["10.98.0.2"]);
    lab.check(&attached).silent_success();
    lab.del(&attached);
    assert!(lab.leases("harness").is_empty());
}

#[test]
fn the_interface_gets_the_name_that_the_runtime_wants() {
    let lab = Lab::new();
    let web = lab.container("web");
    let net1 = lab.add_to(&Network::default(), &web, "net1", &[]);
    assert_eq!(web.netns.links(), ["lo", "net1"]);
    assert_eq!(net1.result["interfaces"][2]["name"], "net1");
}

#[test]
fn without_ipam_the_interface_gets_no_address() {
    let lab = Lab::new();
    for ipam in [json!({}), Value::Null] {
        let web = lab.container("web");
        let config = json!({
            "cniVersion": "1.1.0", "name": "flat", "type": "academy", "bridge": "br-flat",
            "ipam": ipam,
        });
        let attached = lab.try_add(&web, "eth0", vec![config]).unwrap();
        assert!(attached.all_addresses().is_empty(), "{}", attached.result);
        assert_eq!(web.netns.links(), ["lo", "eth0"]);
        lab.check(&attached).silent_success();
        lab.del(&attached);
    }
}

#[test]
fn routes_dns_and_mtu_of_the_configuration_reach_container_and_result() {
    let lab = Lab::new();
    let web = lab.container("web");
    let network = Network::default().with(json!({
        "mtu": 1400,
        "dns": { "nameservers": ["192.0.2.53"], "search": ["lab.test"] },
        "ipam": { "routes": [{ "dst": "203.0.113.0/24" }, { "dst": "198.18.0.0/15", "gw": "10.98.0.9" }] },
    }));
    let attached = lab.add_to(&network, &web, "eth0", &[]);
    let routes = web.netns.ip("route show");
    assert!(routes.contains("203.0.113.0/24 via 10.98.0.1 dev eth0"), "{routes}");
    assert!(routes.contains("198.18.0.0/15 via 10.98.0.9 dev eth0"), "{routes}");
    assert!(routes.contains("default via 10.98.0.1 dev eth0"), "{routes}");
    assert_eq!(attached.result["dns"]["nameservers"], json!(["192.0.2.53"]));
    assert_eq!(attached.result["dns"]["search"], json!(["lab.test"]));
    for (netns, name) in [(&web.netns, "eth0".to_owned()), (&lab.host, attached.host_interface())] {
        assert_eq!(netns.ip_json(&format!("link show dev {name}"))[0]["mtu"], 1400, "{name}");
    }
    lab.check(&attached).silent_success();
}

#[test]
fn addresses_are_usable_at_once() {
    let lab = Lab::new();
    let web = lab.container("web");
    let attached = lab.add(&web, &[]);
    let tentative = web.netns.ip("-6 addr show dev eth0 scope global tentative");
    assert_eq!(tentative.trim(), "", "the container's address waits for DAD");
    let tentative = lab.host.ip("-6 addr show dev br-academy scope global tentative");
    assert_eq!(tentative.trim(), "", "the gateway's address waits for DAD");
    let neighbours = lab.host.ip("neigh show dev br-academy");
    let (v4, v6) = attached.addresses();
    assert!(neighbours.contains(&v4.to_string()), "{neighbours}");
    assert!(neighbours.contains(&v6.to_string()), "{neighbours}");
}

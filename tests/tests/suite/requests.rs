//! What runtimes really send (`reference/runtimes.md` 3, `reference/cni.md` 1.7).

use std::fs;

use serde_json::{Value, json};
use tests::{
    Attached, Case, Container, Lab, Mapping, Report,
    network::overlay,
    topology::{CLIENT, HOST},
};

/// ADD with `extra` laid over the default configuration and these CNI_ARGS.
fn add(lab: &Lab, container: &Container, extra: Value, args: &str) -> Attached {
    let mut config = lab.config(&[]);
    overlay(&mut config, extra);
    let call = lab.call("ADD").container(&container.id, container.netns.path(), "eth0");
    let outcome = call.env("CNI_ARGS", args).config(&config).run(&lab.host).success();
    Attached {
        id: container.id.clone(),
        netns: container.netns.path().to_owned(),
        ifname: "eth0".into(),
        configs: vec![config],
        result: outcome.json(),
    }
}

fn published(lab: &Lab, web: &Container, attached: &Attached, port: u16) {
    let _servers = attached.serve("web", web, 8080);
    let mut report = Report::new();
    for case in Case::ALL {
        let reply = lab.from_client(case.protocol, case.family.of(HOST), port).ask();
        let client = case.family.of(CLIENT);
        report.answered_seeing(&case.to_string(), &reply, "web", client);
    }
}

/// containerd's Go structs have no JSON tags.
#[test]
fn containerds_spelling_of_keys() {
    let lab = Lab::new();
    let web = lab.container("web");
    let entry = |protocol: &str| json!({ "HostPort": 18080, "ContainerPort": 8080, "Protocol": protocol, "HostIP": "" });
    let extra = json!({
        "capabilities": {
            "portMappings": true, "bandwidth": true, "dns": true,
            "io.kubernetes.cri.pod-annotations": true,
        },
        "runtimeConfig": {
            "portMappings": [entry("tcp"), entry("udp")],
            "dns": { "Servers": ["192.0.2.53"], "Searches": [], "Options": [] },
            "bandwidth": null,
            "io.kubernetes.cri.pod-annotations": null,
        },
    });
    let args = "K8S_POD_INFRA_CONTAINER_ID=x;K8S_POD_UID=u;K8S_POD_NAME=a;\
                K8S_POD_NAMESPACE=default;IgnoreUnknown=1";
    let attached = add(&lab, &web, extra, args);
    published(&lab, &web, &attached, 18080);
    lab.del(&attached);
    assert!(lab.rows("ports4").is_empty() && lab.rows("ports6").is_empty());
}

/// <https://github.com/containernetworking/plugins/issues/510>
#[test]
fn nulls_count_as_absent() {
    let lab = Lab::new();
    let web = lab.container("web");
    let mut config = lab.config(&[]);
    for key in ["dns", "mtu", "ipMasq", "vlan", "args", "hostInterfaces", "attach", "prevResult"] {
        config[key] = Value::Null;
    }
    config["runtimeConfig"] = json!({ "portMappings": null, "ips": null, "mac": null });
    let attached = lab.try_add(&web, "eth0", vec![config]).unwrap();
    lab.del(&attached);
}

#[test]
fn keys_match_in_any_case() {
    let lab = Lab::new();
    let web = lab.container("web");
    let config = json!({
        "cniVersion": "1.1.0", "name": "lab", "type": "academy", "BRIDGE": "br-academy",
        "isdefaultgateway": true,
        "IPAM": { "Ranges": [[{ "Subnet": "10.98.0.0/24" }], [{ "SUBNET": "fd00:98::/64" }]] },
        "RuntimeConfig": { "PortMappings": [
            { "hostport": 18080, "CONTAINERPORT": 8080, "pRoToCoL": "TCP" },
            { "hostport": 18080, "CONTAINERPORT": 8080, "Protocol": "UDP" },
        ] },
    });
    let attached = lab.try_add(&web, "eth0", vec![config]).unwrap();
    published(&lab, &web, &attached, 18080);
}

#[test]
fn a_missing_protocol_is_tcp() {
    let lab = Lab::new();
    let web = lab.container("web");
    for protocol in [Value::Null, json!("")] {
        let entry = json!({ "hostPort": 18080, "containerPort": 8080, "protocol": protocol });
        let extra = json!({ "runtimeConfig": { "portMappings": [entry] } });
        let attached = add(&lab, &web, extra, "");
        let rows = lab.rows("ports4");
        assert_eq!(rows[0]["formatted"]["key"]["protocol"], 6, "{rows:?}");
        lab.del(&attached);
    }
}

/// <https://github.com/containernetworking/cni/issues/126>
#[test]
fn cni_61_unknown_arguments_are_tolerated() {
    let lab = Lab::new();
    for args in [
        "IgnoreUnknown=1;K8S_POD_NAME=web",
        "K8S_POD_NAMESPACE=default;K8S_POD_NAME=web;IgnoreUnknown=1",
        "NERDCTL_CNI_DHCP_HOSTNAME=web;IgnoreUnknown=true",
        "",
    ] {
        let web = lab.container("web");
        let attached = add(&lab, &web, json!({}), args);
        lab.del(&attached);
    }
}

/// podman: `--ip` and `--mac-address` come as CNI_ARGS.
#[test]
fn an_address_and_a_mac_by_cni_args() {
    let lab = Lab::new();
    let web = lab.container("web");
    let args = "IgnoreUnknown=1;K8S_POD_NAME=web;MAC=02:00:00:00:00:99;IP=10.98.0.99";
    let attached = add(&lab, &web, json!({}), args);
    assert_eq!(attached.addresses().0.to_string(), "10.98.0.99");
    let [.., last] = web.netns.mac("eth0");
    assert_eq!(last, 0x99);
    lab.check(&attached).silent_success();
}

#[test]
fn addresses_by_the_ips_capability_and_by_args() {
    let lab = Lab::new();
    for extra in [
        json!({
            "capabilities": { "ips": true },
            "runtimeConfig": { "ips": ["10.98.0.77", "fd00:98::77/64"] },
        }),
        json!({ "args": { "cni": { "ips": ["10.98.0.77/24", "fd00:98::77"] } } }),
    ] {
        let web = lab.container("web");
        let attached = add(&lab, &web, extra, "");
        let (v4, v6) = attached.addresses();
        assert_eq!((v4.to_string(), v6.to_string()), ("10.98.0.77".into(), "fd00:98::77".into()));
        lab.del(&attached);
    }
}

#[test]
fn ranges_by_the_ip_ranges_capability() {
    let lab = Lab::new();
    let web = lab.container("web");
    let range = json!({ "subnet": "10.96.0.0/24", "rangeStart": "10.96.0.50" });
    let extra = json!({
        "ipam": { "ranges": [] },
        "capabilities": { "ipRanges": true },
        "runtimeConfig": { "ipRanges": [[range]] },
    });
    let attached = add(&lab, &web, extra, "");
    assert_eq!(attached.all_addresses()[0].to_string(), "10.96.0.50");
}

#[test]
fn leases_are_readable_and_have_the_form_of_host_local() {
    let lab = Lab::new();
    let web = lab.container("web");
    let attached = lab.add(&web, &[]);
    let (v4, v6) = attached.addresses();
    assert_eq!(lab.leases("lab"), [v4.to_string(), v6.to_string()]);
    for address in [v4.to_string(), v6.to_string()] {
        let lease = lab.state_directory().join("lab").join(address);
        assert_eq!(fs::read_to_string(lease).unwrap(), format!("{}\r\neth0", web.id));
    }
}

#[test]
fn a_data_dir_holds_the_leases_when_given() {
    let lab = Lab::new();
    let web = lab.container("web");
    let directory = lab.scratch().join("leases");
    let attached = add(&lab, &web, json!({ "ipam": { "dataDir": directory } }), "");
    let (v4, _) = attached.addresses();
    let lease = directory.join("lab").join(v4.to_string());
    assert!(lease.exists() && lab.leases("lab").is_empty());
    lab.del(&attached);
    assert!(!lease.exists());
}

/// nerdctl sends "0.0.0.0" for every address of the host.
#[test]
fn nerdctls_host_address_means_ipv4_only() {
    let lab = Lab::new();
    let web = lab.container("web");
    let ports: Vec<_> =
        Mapping::both(18080, 8080).into_iter().map(|port| port.at("0.0.0.0")).collect();
    let _attached = lab.add(&web, &ports);
    assert_eq!((lab.rows("ports4").len(), lab.rows("ports6").len()), (2, 0));
}

use serde_json::{Value, json};

use super::*;

fn read(mappings: Value) -> Result<Vec<PortRequest>> {
    let config = json!({ "runtimeConfig": { "portMappings": mappings } });
    PortRequest::read_all(&Json::parse(config.to_string().as_bytes()).unwrap())
}

fn one(mapping: Value) -> Result<PortRequest> {
    read(json!([mapping])).map(|requests| *requests.first().unwrap())
}

fn tcp(host_port: u16, container_port: u16, host_ip: Option<&str>) -> PortRequest {
    let host_ip = host_ip.map(|text| text.parse().unwrap());
    PortRequest { protocol: protocol::TCP, host_ip, host_port, container_port }
}

#[test]
fn go_cni_sends_capital_letters_and_an_empty_address() {
    let mapping =
        json!({"HostPort": 18080, "ContainerPort": 8080, "Protocol": "tcp", "HostIP": ""});
    assert_eq!(one(mapping).unwrap(), tcp(18080, 8080, None));
}

#[test]
fn cni_plugins_510_null_mappings_are_none() {
    assert_eq!(read(Value::Null).unwrap(), []);
    assert_eq!(read(json!([])).unwrap(), []);
}

#[test]
fn cni_plugins_643_unspecified_host_ip_means_its_family() {
    for any in ["0.0.0.0", "::"] {
        let mapping = json!({"hostPort": 80, "containerPort": 8080, "hostIP": any});
        assert_eq!(one(mapping).unwrap(), tcp(80, 8080, Some(any)));
    }
    let wildcards = json!([
        {"hostPort": 80, "containerPort": 1, "hostIP": "0.0.0.0"},
        {"hostPort": 80, "containerPort": 2, "hostIP": "::"},
    ]);
    assert_eq!(read(wildcards).unwrap().len(), 2);
}

#[test]
fn podman_12690_the_loopback_of_ipv6_is_an_address_like_another() {
    let mapping = json!({"hostPort": 80, "containerPort": 80, "hostIP": "::1"});
    assert_eq!(one(mapping).unwrap(), tcp(80, 80, Some("::1")));
}

#[test]
fn a_missing_protocol_is_tcp_and_case_does_not_matter() {
    for (protocol, number) in [
        (Value::Null, 6),
        (json!(""), 6),
        (json!("TCP"), 6),
        (json!("Udp"), 17),
        (json!("udp"), 17),
    ] {
        let mapping = json!({"hostPort": 1, "containerPort": 1, "protocol": protocol});
        assert_eq!(one(mapping).unwrap().protocol, number);
    }
}

#[test]
fn wrong_values_name_field_index_and_value() {
    let good = json!({"hostPort": 1, "containerPort": 1});
    for key in ["hostPort", "containerPort"] {
        for value in [
            json!(0),
            json!(-1),
            json!(65536),
            json!(4_294_967_376_u64),
            json!(80.5),
            json!(1e30),
            json!("80"),
            json!(true),
            json!([80]),
            json!({}),
        ] {
            let mut bad = good.clone();
            bad[key] = value.clone();
            let error = read(json!([{"hostPort": 2, "containerPort": 2}, bad])).unwrap_err();
            assert_eq!(error.code(), 7);
            let expected = format!("runtimeConfig.portMappings[1].{key}");
            assert!(error.to_string().contains(&expected), "{error}");
            assert!(error.to_string().contains(&format!("(got {value})")), "{error}");
        }
        let mut bad = good.clone();
        bad.as_object_mut().unwrap().remove(key);
        assert_eq!(one(bad).unwrap_err().code(), 7);
    }
}

#[test]
fn wrong_protocols_and_addresses_are_code_7() {
    for (key, value) in [
        ("protocol", json!("icmp")),
        ("protocol", json!("tcp ")),
        ("protocol", json!(6)),
        ("hostIP", json!("localhost")),
        ("hostIP", json!("10.0.0.256")),
        ("hostIP", json!("10.0.0.1/24")),
        ("hostIP", json!("[::1]")),
        ("hostIP", json!("fe80::1%eth0")),
        ("hostIP", json!(" 10.0.0.1")),
        ("hostIP", json!("224.0.0.1")),
        ("hostIP", json!("255.255.255.255")),
        ("hostIP", json!("ff02::1")),
        ("hostIP", json!(7)),
    ] {
        let mut mapping = json!({"hostPort": 1, "containerPort": 1});
        mapping[key] = value.clone();
        let error = one(mapping).unwrap_err();
        assert_eq!(error.code(), 7, "{value}");
        let expected = format!("portMappings[0].{key}");
        assert!(error.to_string().contains(&expected), "{error}");
    }
    for bad in [json!("80:80"), json!(80), json!({}), json!([null]), json!([[]])] {
        assert_eq!(read(bad).unwrap_err().code(), 7);
    }
}

#[test]
fn an_ipv4_address_in_ipv6_clothes_is_an_ipv4_address() {
    let mapping = json!({"hostPort": 1, "containerPort": 1, "hostIP": "::ffff:192.0.2.1"});
    assert_eq!(one(mapping).unwrap(), tcp(1, 1, Some("192.0.2.1")));
}

#[test]
fn an_exact_repetition_counts_once() {
    let mapping = json!({"hostPort": 80, "containerPort": 8080, "protocol": "tcp"});
    let shouted = json!({"HostPort": 80, "ContainerPort": 8080, "Protocol": "TCP"});
    assert_eq!(read(json!([mapping, shouted])).unwrap(), [tcp(80, 8080, None)]);
}

#[test]
fn one_host_port_leads_to_one_target() {
    let mapping = |container_port: u16, protocol: &str, host_ip: &str| {
        json!({
            "hostPort": 80, "containerPort": container_port,
            "protocol": protocol, "hostIP": host_ip
        })
    };
    for (one, other, expected) in [
        (mapping(1, "tcp", ""), mapping(2, "tcp", ""), 7),
        (mapping(1, "tcp", ""), mapping(2, "tcp", "192.0.2.1"), 7),
        (mapping(1, "tcp", "0.0.0.0"), mapping(2, "tcp", "192.0.2.1"), 7),
        (mapping(1, "tcp", "192.0.2.1"), mapping(2, "tcp", "192.0.2.1"), 7),
        (mapping(1, "tcp", "192.0.2.1"), mapping(2, "tcp", "192.0.2.2"), 0),
        (mapping(1, "tcp", "0.0.0.0"), mapping(2, "tcp", "fd00::1"), 0),
        (mapping(1, "tcp", ""), mapping(2, "udp", ""), 0),
        (mapping(1, "tcp", "192.0.2.1"), mapping(1, "tcp", ""), 0),
    ] {
        let code = read(json!([one, other])).map_or_else(|error| error.code(), |_| 0);
        assert_eq!(code, expected, "{one} {other}");
    }
}

#[test]
fn several_host_ports_may_lead_to_one_container_port() {
    let mappings = json!([
        {"hostPort": 8080, "containerPort": 80}, {"hostPort": 8081, "containerPort": 80}
    ]);
    assert_eq!(read(mappings).unwrap().len(), 2);
}

#[test]
fn containerd_4321_sctp_is_refused_instead_of_forwarded_wrongly() {
    let mapping = |container_port: u16| json!({"hostPort": 80, "containerPort": container_port, "protocol": "sctp"});
    assert_eq!(one(mapping(81)).unwrap_err().code(), 7);
    let error = one(mapping(80)).unwrap_err();
    assert_eq!(error.code(), 2);
    let text = error.to_string();
    assert!(text.contains("portMappings[0].protocol") && text.contains("\"sctp\""), "{text}");
}

#[test]
fn podman_1357_thousands_of_mappings_are_read_at_once() {
    let mappings: Vec<_> =
        (1..=10_000_u16).map(|port| json!({"hostPort": port, "containerPort": port})).collect();
    assert_eq!(read(mappings.into()).unwrap().len(), 10_000);
}

//! `cnitool`, as the lab uses it.

use std::{fs, os::unix::fs::symlink, path::PathBuf};

use serde_json::{Value, json};
use tests::{
    Lab, Netns, Protocol, Query, Server,
    netns::unique,
    tools::{self, skip_without_programs},
    topology::HOST,
};

/// `cnitool`, with the lab's environment.
struct CniTool<'a> {
    lab: &'a Lab,
    network: String,
    plugins: PathBuf,
    configurations: PathBuf,
}

impl<'a> CniTool<'a> {
    fn new(lab: &'a Lab, mut list: Value) -> Self {
        // cnitool keeps its results by network for the whole machine, and GC goes through them.
        let network = format!("harness{}", unique());
        list["name"] = json!(network);
        let (plugins, configurations) = (lab.scratch().join("bin"), lab.scratch().join("net.d"));
        for directory in [&plugins, &configurations] {
            fs::create_dir_all(directory).unwrap();
        }
        symlink(tools::academy(), plugins.join("academy")).unwrap();
        fs::write(configurations.join("10-harness.conflist"), list.to_string()).unwrap();
        Self { lab, network, plugins, configurations }
    }

    fn run(&self, verb: &str, netns: &Netns, ports: &Value) -> tests::Outcome {
        let path = format!("{}:{}", self.plugins.display(), tools::directory().display());
        let call = tests::Call::bare(&tools::reference("cnitool"));
        let call =
            call.argument(verb).argument(&self.network).argument(netns.path().to_str().unwrap());
        let call = self.lab.places(call).env("CNI_PATH", &path);
        let call = call.env("NETCONFPATH", self.configurations.to_str().unwrap());
        call.env("CAP_ARGS", &json!({ "portMappings": ports }).to_string()).run(&self.lab.host)
    }
}

fn harness(version: &str, plugins: &[Value]) -> Value {
    json!({ "cniVersion": version, "name": "harness", "plugins": plugins })
}

fn academy(own_ports: bool) -> Value {
    json!({
        "type": "academy", "bridge": "br-academy", "subnet": "10.98.0.0/24",
        "gateway": "10.98.0.1", "capabilities": { "portMappings": own_ports },
    })
}

/// The lab's block: a server in the namespace, published, asked through loopback, and deleted.
fn lab_block(list: Value) {
    if skip_without_programs(&["cnitool", "portmap"]) {
        return;
    }
    let lab = Lab::new();
    let tool = CniTool::new(&lab, list);
    let web = lab.container("ch1");
    let ports = json!([{ "hostPort": 18888, "containerPort": 8080, "protocol": "tcp" }]);
    let added = tool.run("add", &web.netns, &ports).success();
    let address = added.json()["ips"][0]["address"].as_str().unwrap().to_owned();
    let address = address.split('/').next().unwrap().parse().unwrap();
    let _server = Server::new("web", &web.netns, Protocol::Tcp, address, 8080);
    let loopback = std::net::Ipv4Addr::LOCALHOST.into();
    let asked = |to| Query::new(&lab.host, Protocol::Tcp, to, 18888).ask();
    assert_eq!(asked(loopback).server(), Some("web"), "{:?}", asked(loopback));
    let outside = lab.from_client(Protocol::Tcp, HOST.0.into(), 18888).ask();
    assert_eq!(outside.server(), Some("web"), "{outside:?}");
    // A8 of the lab: another container through the host's address.
    let other = lab.container("ch2");
    let _other = tool.run("add", &other.netns, &json!([])).success();
    let reply = Query::new(&other.netns, Protocol::Tcp, HOST.0.into(), 18888).ask();
    assert_eq!(reply.server(), Some("web"), "neighbour: {reply:?}");
    let reply = Query::new(&web.netns, Protocol::Tcp, HOST.0.into(), 18888).ask();
    assert_eq!(reply.server(), Some("web"), "itself: {reply:?}");
    let _checked = tool.run("check", &web.netns, &ports).success();
    for container in [&web, &other] {
        for _ in 0..2 {
            tool.run("del", &container.netns, &ports).silent_success();
        }
    }
    let reply = Query::new(&lab.host, Protocol::Tcp, loopback, 18888).in_vain().ask();
    assert_eq!(reply.server(), None, "{reply:?}");
    assert!(lab.leases(&tool.network).is_empty());
    assert!(!lab.host.links().iter().any(|link| link.starts_with("veth")));
}

#[test]
fn the_labs_block_with_academys_own_ports() {
    lab_block(harness("1.0.0", &[academy(true)]));
}

#[test]
fn the_labs_block_with_the_reference_portmap_chained() {
    let portmap = json!({ "type": "portmap", "capabilities": { "portMappings": true } });
    lab_block(harness("1.0.0", &[academy(false), portmap]));
}

/// The lab's exercise 9: forty times ADD and DEL.
#[test]
fn forty_cycles_under_cnitool_leave_an_empty_store() {
    if skip_without_programs(&["cnitool"]) {
        return;
    }
    let lab = Lab::new();
    let tool = CniTool::new(&lab, harness("1.0.0", &[academy(true)]));
    let web = lab.container("pod");
    for _ in 0..40 {
        let _added = tool.run("add", &web.netns, &json!([])).success();
        tool.run("del", &web.netns, &json!([])).silent_success();
    }
    let store = lab.state_directory().join(&tool.network);
    let visible = fs::read_dir(&store).map_or(0, |entries| {
        entries
            .filter(|e| !e.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'))
            .count()
    });
    assert_eq!(visible, 0);
    assert!(!lab.host.links().iter().any(|link| link.starts_with("veth")));
}

#[test]
fn gc_and_status_under_cnitool() {
    if skip_without_programs(&["cnitool"]) {
        return;
    }
    let lab = Lab::new();
    let tool = CniTool::new(&lab, harness("1.1.0", &[academy(true)]));
    let web = lab.container("leak1");
    tool.run("status", &web.netns, &json!([])).silent_success();
    let _added = tool.run("add", &web.netns, &json!([])).success();
    tool.run("gc", &web.netns, &json!([])).silent_success();
    assert!(lab.leases(&tool.network).is_empty());
    assert_eq!(web.netns.links(), ["lo"]);
}

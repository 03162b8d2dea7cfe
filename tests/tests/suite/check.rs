//! CHECK: right after ADD it passes, and after each sabotage it does not.

use std::fs;

use tests::{Attached, Container, Lab, Mapping, netns::must};

struct Scene {
    lab: Lab,
    web: Container,
    attached: Attached,
}

impl Scene {
    fn new() -> Self {
        let lab = Lab::new();
        let web = lab.container("web");
        let attached = lab.add(&web, &Mapping::both(18080, 8080));
        lab.check(&attached).silent_success();
        Self { lab, web, attached }
    }

    #[track_caller]
    fn fails(&self, what: &str) {
        let outcome = self.lab.check(&self.attached);
        assert!(!outcome.succeeded(), "CHECK passes although {what}");
        assert!(!outcome.error().msg.is_empty(), "{outcome:?}");
    }

    #[track_caller]
    fn passes(&self) {
        self.lab.check(&self.attached).silent_success();
    }

    /// Deletes every row of a map.
    fn clear(&self, map: &str) {
        let rows = self.lab.rows(map);
        assert!(!rows.is_empty(), "{map} is empty already");
        for row in rows {
            let key = row["key"].as_array().unwrap().iter().map(|byte| byte.as_str().unwrap());
            let mut command = std::process::Command::new("bpftool");
            command.args(["map", "delete", "pinned"]).arg(self.lab.map(map));
            must(command.arg("key").args(key));
        }
    }
}

#[test]
fn cni_check_finds_the_interface_down() {
    let scene = Scene::new();
    scene.web.netns.ip("link set eth0 down");
    scene.fails("the interface is down");
}

#[test]
fn check_finds_a_missing_address() {
    let scene = Scene::new();
    let (v4, v6) = scene.attached.addresses();
    scene.web.netns.ip(&format!("addr del {v6}/64 dev eth0"));
    scene.fails("the IPv6 address is gone");
    scene.web.netns.ip(&format!("addr add {v6}/64 dev eth0 nodad"));
    scene.web.netns.ip(&format!("addr del {v4}/24 dev eth0"));
    scene.fails("the IPv4 address is gone");
}

#[test]
fn check_finds_a_missing_route() {
    let scene = Scene::new();
    scene.web.netns.ip("route del default");
    scene.fails("the default route is gone");
}

#[test]
fn check_finds_the_veth_off_its_bridge() {
    let scene = Scene::new();
    scene.lab.host.ip(&format!("link set {} nomaster", scene.attached.host_interface()));
    scene.fails("the host side is no port of the bridge");
}

#[test]
fn check_finds_the_interface_gone() {
    let scene = Scene::new();
    scene.web.netns.ip("link del eth0");
    scene.fails("the interface is gone");
}

#[test]
fn check_finds_missing_rows() {
    for map in ["endpoints", "ports4", "ports6", "addresses4", "addresses6"] {
        let scene = Scene::new();
        scene.clear(map);
        scene.fails(&format!("{map} is empty"));
    }
}

#[test]
fn check_finds_a_hook_detached() {
    let scene = Scene::new();
    scene.lab.host.run(&format!("tc qdisc del dev {} clsact", scene.attached.host_interface()));
    scene.fails("the hook is gone");
}

#[test]
fn check_finds_a_missing_lease() {
    let scene = Scene::new();
    let (v4, _) = scene.attached.addresses();
    fs::remove_file(scene.lab.state_directory().join(format!("lab/{v4}"))).unwrap();
    scene.fails("the lease is gone");
}

#[test]
fn check_wants_the_result_of_add() {
    let scene = Scene::new();
    let config = &scene.attached.configs[0];
    let outcome = scene.lab.run("CHECK", &scene.web, "eth0", config);
    assert!(!outcome.succeeded(), "{outcome:?}");
}

#[test]
fn cni_57_check_with_a_result_that_lost_its_sandbox_says_what_is_wrong() {
    let mut scene = Scene::new();
    for interface in scene.attached.result["interfaces"].as_array_mut().unwrap() {
        interface.as_object_mut().unwrap().remove("sandbox");
    }
    let outcome = scene.lab.check(&scene.attached);
    assert!(outcome.error().msg.contains("sandbox"), "{outcome:?}");
}

#[test]
fn check_after_del_fails() {
    let scene = Scene::new();
    scene.lab.del(&scene.attached);
    scene.fails("the attachment is deleted");
}

/// systemd's MACAddressPolicy. <https://github.com/containernetworking/plugins/issues/805>
#[test]
fn cni_56_check_allows_another_mac_of_the_host_side() {
    let scene = Scene::new();
    let veth = scene.attached.host_interface();
    scene.lab.host.ip(&format!("link set {veth} address 02:11:22:33:44:55"));
    scene.passes();
}

/// The `tuning` plugin changes the MAC, and `prevResult` with it.
#[test]
fn check_goes_by_the_mac_in_the_result() {
    let mut scene = Scene::new();
    scene.web.netns.ip("link set eth0 address 02:11:22:33:44:66");
    scene.fails("the MAC is not that of the result");
    scene.attached.result["interfaces"][2]["mac"] = "02:11:22:33:44:66".into();
    scene.passes();
}

/// <https://github.com/containernetworking/plugins/issues/512>
#[test]
fn cni_22_a_flush_of_netfilter_breaks_nothing() {
    use tests::{Case, Report, topology::HOST};
    let scene = Scene::new();
    let _servers = scene.attached.serve("web", &scene.web, 8080);
    let lab = &scene.lab;
    let mut report = Report::new();
    let mut open: Vec<_> = Case::ALL
        .map(|case| lab.from_client(case.protocol, case.family.of(HOST), 18080).open().unwrap())
        .into();
    for (case, client) in Case::ALL.into_iter().zip(&mut open) {
        report.answered_by(&format!("{case} before"), &client.ask(), "web");
    }
    lab.host.run("nft flush ruleset");
    scene.passes();
    for (case, client) in Case::ALL.into_iter().zip(&mut open) {
        report.answered_by(&format!("{case} afterwards"), &client.ask(), "web");
        let reply = lab.from_client(case.protocol, case.family.of(HOST), 18080).ask();
        report.answered_by(&format!("{case} anew"), &reply, "web");
    }
}

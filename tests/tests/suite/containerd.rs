//! containerd with runc runs a container whose network is academy's.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tests::{Lab, Netns, leak::Snapshot, netns::must, tools, tools::skip_without_programs, wait};

/// A small machine with containerd, in the lab's host.
struct Containerd<'a> {
    lab: &'a Lab,
    directory: PathBuf,
    init: Child,
}

impl<'a> Containerd<'a> {
    fn start(lab: &'a Lab, list: &Value) -> Self {
        let directory = lab.scratch().join("machine");
        fs::create_dir_all(directory.join("opt-cni/bin")).unwrap();
        fs::create_dir_all(directory.join("etc-cni/net.d")).unwrap();
        fs::copy(tools::academy(), directory.join("opt-cni/bin/academy")).unwrap();
        let list_file = directory.join("etc-cni/net.d/10-academy.conflist");
        fs::write(list_file, list.to_string()).unwrap();
        let script = directory.join("machine.sh");
        fs::write(&script, include_str!("machine.sh")).unwrap();
        let config = directory.join("config.toml");
        let root = directory.join("root");
        fs::write(
            &config,
            format!(
                "version = 2\nroot = {root:?}\nstate = \"/run/containerd\"\n\
                 disabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n\
                 [grpc]\naddress = \"/run/containerd/containerd.sock\"\n"
            ),
        )
        .unwrap();
        let log = fs::File::create(directory.join("containerd.log")).unwrap();
        let mut command = lab.host.command("sh");
        command.arg(&script).arg(&directory).args(["containerd", "--config"]).arg(&config);
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let init = command.spawn().unwrap();
        let machine = Self { lab, directory, init };
        wait::until("containerd answers", || {
            let mut version = machine.command(&["ctr", "version"])?;
            version.stdout(Stdio::null()).stderr(Stdio::null());
            version.status().unwrap().success().then_some(())
        });
        machine
    }

    /// The process 1 of the machine as this one sees it: the only child of `unshare`.
    fn process(&self) -> Option<String> {
        let id = self.init.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
        children.split_whitespace().next().map(str::to_owned)
    }

    fn command(&self, words: &[&str]) -> Option<Command> {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.process()?, "--mount", "--pid", "--net", "--ipc", "--uts"]);
        command.arg("--").args(words);
        for (key, path) in [
            ("ACADEMY_BPFFS", self.lab.bpffs()),
            ("ACADEMY_RUN_DIR", self.lab.run_directory()),
            ("ACADEMY_STATE_DIR", self.lab.state_directory()),
        ] {
            command.env(key, path);
        }
        Some(command)
    }

    #[track_caller]
    fn run(&self, words: &[&str]) -> String {
        must(&mut self.command(words).expect("the machine runs"))
    }
}

impl Drop for Containerd<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(self.directory.join("containerd.log"));
            eprintln!("containerd: {}", log.unwrap_or_default());
        }
        let _ = self.init.kill();
        let _ = self.init.wait();
    }
}

/// A docker archive with busybox and nothing else.
fn image(directory: &Path) -> PathBuf {
    let busybox = ["/bin/busybox", "/usr/bin/busybox"].map(Path::new);
    let busybox = busybox.into_iter().find(|path| path.exists()).unwrap();
    let (root, archive) = (directory.join("rootfs"), directory.join("archive"));
    fs::create_dir_all(root.join("bin")).unwrap();
    fs::create_dir_all(root.join("www")).unwrap();
    fs::create_dir_all(&archive).unwrap();
    fs::copy(busybox, root.join("bin/busybox")).unwrap();
    fs::write(root.join("www/index.html"), "web\n").unwrap();
    let layer = archive.join("layer.tar");
    must(Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&layer).arg("."));
    let sum = must(Command::new("sha256sum").arg(&layer));
    let digest = sum.split_whitespace().next().unwrap();
    let config = json!({
        "architecture": "amd64", "os": "linux", "config": { "Cmd": ["/bin/busybox"] },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{digest}")] },
    });
    fs::write(archive.join("config.json"), config.to_string()).unwrap();
    let manifest = json!([{
        "Config": "config.json", "RepoTags": ["localhost/web:1"], "Layers": ["layer.tar"],
    }]);
    fs::write(archive.join("manifest.json"), manifest.to_string()).unwrap();
    let tar = directory.join("image.tar");
    let mut command = Command::new("tar");
    command.arg("-C").arg(&archive).arg("-cf").arg(&tar);
    must(command.args(["manifest.json", "config.json", "layer.tar"]));
    tar
}

/// One page by HTTP, asked in `netns`.
fn page(netns: &Netns, address: &str) -> Option<String> {
    let stream =
        netns.enter(|| TcpStream::connect_timeout(&address.parse().unwrap(), wait::SILENCE));
    let mut stream = stream.ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}

#[test]
fn a_container_of_containerd_serves_its_published_port() {
    if skip_without_programs(&["containerd", "ctr", "runc", "busybox", "unshare"]) {
        return;
    }
    let lab = Lab::new();
    let list = json!({ "cniVersion": "1.0.0", "name": "harness", "plugins": [plugin()] });
    let machine = Containerd::start(&lab, &list);
    let tar = image(&machine.directory);
    machine.run(&["ctr", "images", "import", "--snapshotter", "native", tar.to_str().unwrap()]);
    let run = ["ctr", "run", "-d", "--cni", "--cgroup", "", "--snapshotter", "native"];
    let web = ["localhost/web:1", "web", "/bin/busybox", "httpd", "-f", "-p", "8080", "-h", "/www"];
    machine.run(&[&run[..], &web[..]].concat());
    for (name, netns, address) in [
        ("outside", &lab.client, "192.0.2.1:18888"),
        ("loopback", &lab.host, "127.0.0.1:18888"),
        ("the host", &lab.host, "10.98.0.2:8080"),
    ] {
        let found = wait::within(wait::DEADLINE, || page(netns, address));
        assert!(found.as_ref().is_some_and(|text| text.contains("web")), "{name}: {found:?}");
    }
    assert_eq!(lab.leases("harness"), ["10.98.0.2"]);
    machine.run(&["ctr", "task", "kill", "-s", "SIGKILL", "web"]);
    wait::until("the task has ended", || {
        machine.run(&["ctr", "task", "ls"]).contains("STOPPED").then_some(())
    });
    machine.run(&["ctr", "task", "rm", "web"]);
    machine.run(&["ctr", "container", "rm", "web"]);
    drop(machine);
    // `ctr run -d` leaves the DEL to nobody: GC is what clears after it.
    let mut config = plugin();
    config["cniVersion"] = json!("1.1.0");
    config["name"] = json!("harness");
    lab.call("GC").config(&config).run(&lab.host).silent_success();
    let left = Snapshot::of(&lab);
    assert!(left.leases.is_empty() && left.records.is_empty(), "{left:?}");
    assert_eq!(page(&lab.client, "192.0.2.1:18888"), None);
}

/// `ctr` has no option for port mappings: they stand in the list.
fn plugin() -> Value {
    json!({
        "type": "academy", "bridge": "br-academy", "subnet": "10.98.0.0/24",
        "gateway": "10.98.0.1", "capabilities": { "portMappings": true },
        "runtimeConfig": {
            "portMappings": [{ "hostPort": 18888, "containerPort": 8080, "protocol": "tcp" }],
        },
    })
}

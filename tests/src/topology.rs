//! The machines of a test: a host with an uplink, a client outside, containers.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::PathBuf,
    process,
    sync::Mutex,
};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use serde_json::{Value, json};

use crate::{
    Attached, Call, Container, Mapping, Netns, Network, Outcome, Plugin, Protocol, Query,
    netns::unique, tools,
};

/// An address of each family.
pub type Pair = (Ipv4Addr, Ipv6Addr);

const fn pair(a: u8, b: u8, c: u8, last: u8, net6: u16) -> Pair {
    let v6 = Ipv6Addr::new(0x2001, 0xdb8, net6, 0, 0, 0, 0, last as u16);
    (Ipv4Addr::new(a, b, c, last), v6)
}

/// The host at its uplink `up0`.
pub const HOST: Pair = pair(192, 0, 2, 1, 2);
/// The client outside, a neighbour of the host on `up0`; its default route leads to the host.
pub const CLIENT: Pair = pair(192, 0, 2, 2, 2);
/// The host at its second uplink `up1`, where a test has one.
pub const HOST2: Pair = pair(198, 51, 100, 1, 51);
/// The machine on the second uplink; its default route leads to the host.
pub const FOREIGN: Pair = pair(198, 51, 100, 2, 51);
/// The default network's gateway: the address of its bridge.
pub const GATEWAY: Pair =
    (Ipv4Addr::new(10, 98, 0, 1), Ipv6Addr::new(0xfd00, 0x98, 0, 0, 0, 0, 0, 1));

/// A host and an outside client. See [`Netns`] for what is special about its namespaces.
pub struct Lab {
    /// The namespace that plays the host.
    pub host: Netns,
    /// The client outside.
    pub client: Netns,
    /// Who makes the networks.
    pub plugin: Plugin,
    directory: PathBuf,
    added: Mutex<Vec<String>>,
}

impl Lab {
    /// With academy as the plugin.
    #[must_use]
    pub fn new() -> Self {
        Self::of(Plugin::Academy)
    }

    /// With this plugin.
    #[must_use]
    pub fn of(plugin: Plugin) -> Self {
        tools::require_root();
        let lab = Self {
            host: Netns::new("host"),
            client: Netns::new("client"),
            plugin,
            directory: std::env::temp_dir().join(format!("act-{}-{}", process::id(), unique())),
            added: Mutex::default(),
        };
        for directory in ["bpf", "run", "state", "cni"] {
            fs::create_dir_all(lab.directory.join(directory)).unwrap();
        }
        let bpf = lab.directory.join("bpf");
        mount(Some("bpf"), &bpf, Some("bpf"), MsFlags::empty(), None::<&str>).unwrap();
        connect(&lab.host, "up0", HOST, &lab.client, CLIENT);
        lab
    }

    /// A second uplink `up1` with a machine behind it.
    #[must_use]
    pub fn foreign(&self) -> Netns {
        let foreign = Netns::new("foreign");
        connect(&self.host, "up1", HOST2, &foreign, FOREIGN);
        foreign
    }

    /// Lets the host forward packets of both families, without a plugin having asked for it.
    pub fn forward(&self) {
        self.host.set_sysctl("net/ipv4/ip_forward", "1");
        self.host.set_sysctl("net/ipv6/conf/all/forwarding", "1");
    }

    /// The namespace of a container, without a network yet.
    #[must_use]
    pub fn container(&self, label: &str) -> Container {
        let netns = Netns::new(label);
        Container { id: format!("{label}-{}", unique()), netns }
    }

    /// A call of the plugin under test, with this lab's places in its environment.
    #[must_use]
    pub fn call(&self, command: &str) -> Call {
        self.places(Call::new(&tools::academy(), command, &tools::directory()))
    }

    /// A call of academy with an argument, as an administrator makes it.
    #[must_use]
    pub fn command_line(&self, argument: &str) -> Outcome {
        self.places(Call::bare(&tools::academy()).argument(argument)).run(&self.host)
    }

    /// Any call, with this lab's places in its environment.
    #[must_use]
    pub fn places(&self, call: Call) -> Call {
        let place = |path: PathBuf| path.to_str().unwrap().to_owned();
        call.env("ACADEMY_BPFFS", &place(self.bpffs()))
            .env("ACADEMY_RUN_DIR", &place(self.run_directory()))
            .env("ACADEMY_STATE_DIR", &place(self.state_directory()))
    }

    /// What the plugin gets as its part of a bpffs.
    #[must_use]
    pub fn bpffs(&self) -> PathBuf {
        self.directory.join("bpf/academy")
    }

    /// The plugin's run directory.
    #[must_use]
    pub fn run_directory(&self) -> PathBuf {
        self.directory.join("run/academy")
    }

    /// The plugin's state directory.
    #[must_use]
    pub fn state_directory(&self) -> PathBuf {
        self.directory.join("state/academy")
    }

    /// A directory for whatever else the test needs; it goes with the lab.
    #[must_use]
    pub fn scratch(&self) -> PathBuf {
        self.directory.join("cni")
    }

    /// The addresses that are taken in a network, as the names of their lease files.
    #[must_use]
    pub fn leases(&self, network: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.state_directory().join(network)) else {
            return Vec::new();
        };
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| !name.starts_with('.')).collect();
        names.sort();
        names
    }

    /// academy's configuration of the default network, as a runtime hands it over.
    #[must_use]
    pub fn config(&self, ports: &[Mapping]) -> Value {
        let configs = Network::default().configs(Plugin::Academy, &self.directory, ports);
        configs.into_iter().next().unwrap()
    }

    /// Any call of academy for one interface of a container.
    #[must_use]
    pub fn run(
        &self,
        command: &str,
        container: &Container,
        ifname: &str,
        config: &Value,
    ) -> Outcome {
        let call = self.call(command).container(&container.id, container.netns.path(), ifname);
        call.config(config).run(&self.host)
    }

    /// ADD of `eth0` in the default network.
    ///
    /// # Panics
    /// When it fails.
    #[must_use]
    #[track_caller]
    pub fn add(&self, container: &Container, ports: &[Mapping]) -> Attached {
        self.add_to(&Network::default(), container, "eth0", ports)
    }

    /// ADD.
    ///
    /// # Panics
    /// When it fails.
    #[must_use]
    #[track_caller]
    pub fn add_to(
        &self,
        network: &Network,
        container: &Container,
        ifname: &str,
        ports: &[Mapping],
    ) -> Attached {
        let configs = network.configs(self.plugin, &self.directory.join("state"), ports);
        self.try_add(container, ifname, configs)
            .unwrap_or_else(|outcome| panic!("ADD failed: {outcome:?}"))
    }

    /// ADD with these configurations; the outcome of the plugin that failed.
    ///
    /// # Errors
    /// What that plugin said.
    pub fn try_add(
        &self,
        container: &Container,
        ifname: &str,
        configs: Vec<Value>,
    ) -> Result<Attached, Box<Outcome>> {
        let mut attached = Attached {
            id: container.id.clone(),
            netns: container.netns.path().to_owned(),
            ifname: ifname.to_owned(),
            configs,
            result: Value::Null,
        };
        for config in attached.configs.clone() {
            let outcome = self.call_for(&attached, "ADD", &config);
            if !outcome.succeeded() {
                return Err(Box::new(outcome));
            }
            attached.result = outcome.json();
        }
        self.added.lock().unwrap().push(attached.id.clone());
        Ok(attached)
    }

    /// DEL, as a runtime does it: last plugin first.
    ///
    /// # Panics
    /// When it fails or says anything.
    #[track_caller]
    pub fn del(&self, attached: &Attached) {
        for config in attached.configs.iter().rev() {
            self.call_for(attached, "DEL", config).silent_success();
        }
    }

    /// CHECK of an attachment as it was added.
    #[must_use]
    pub fn check(&self, attached: &Attached) -> Outcome {
        self.call_for(attached, "CHECK", attached.configs.last().unwrap())
    }

    /// One call for an attachment, with its result as `prevResult` once it has one.
    #[must_use]
    pub fn call_for(&self, attached: &Attached, command: &str, config: &Value) -> Outcome {
        let mut config = config.clone();
        if !attached.result.is_null() {
            config["prevResult"] = attached.result.clone();
        }
        let call = match self.plugin {
            Plugin::Academy => self.call(command),
            Plugin::Reference => {
                let program = tools::reference(config["type"].as_str().unwrap());
                Call::new(&program, command, &tools::directory())
            }
        };
        call.container(&attached.id, &attached.netns, &attached.ifname)
            .config(&config)
            .run(&self.host)
    }

    /// GC of the default network with this list of attachments.
    #[must_use]
    pub fn gc(&self, valid: &[(&str, &str)]) -> Outcome {
        let list = |(id, ifname): &(&str, &str)| json!({ "containerID": id, "ifname": ifname });
        let list: Vec<_> = valid.iter().map(list).collect();
        self.call("GC")
            .config(&json!({
                "cniVersion": "1.1.0", "name": "lab", "type": "academy", "bridge": "br-academy",
                "subnet": "10.98.0.0/24", "cni.dev/valid-attachments": list,
            }))
            .run(&self.host)
    }

    /// A question of the outside client.
    #[must_use]
    pub fn from_client(&self, protocol: Protocol, to: IpAddr, port: u16) -> Query<'_> {
        Query::new(&self.client, protocol, to, port)
    }

    /// A question of a process of the host.
    #[must_use]
    pub fn from_host(&self, protocol: Protocol, to: IpAddr, port: u16) -> Query<'_> {
        Query::new(&self.host, protocol, to, port)
    }
}

impl Default for Lab {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = umount2(&self.directory.join("bpf"), MntFlags::MNT_DETACH);
        let _ = fs::remove_dir_all(&self.directory);
        // The caches of cnitool and the like are keyed by container: nothing of ours is there.
    }
}

/// A wire between the host and another machine, which routes everything to the host.
fn connect(host: &Netns, uplink: &str, at_host: Pair, other: &Netns, at_other: Pair) {
    host.ip(&format!("link add {uplink} type veth peer name eth0 netns {}", other.name()));
    address(host, uplink, at_host);
    address(other, "eth0", at_other);
    other.ip(&format!("route add default via {}", at_host.0));
    other.ip(&format!("-6 route add default via {}", at_host.1));
}

/// Gives an interface an address of each family, usable at once, and sets it up.
pub fn address(netns: &Netns, interface: &str, pair: Pair) {
    netns.ip(&format!("addr add {}/24 dev {interface}", pair.0));
    netns.ip(&format!("addr add {}/64 dev {interface} nodad", pair.1));
    netns.ip(&format!("link set {interface} up"));
}

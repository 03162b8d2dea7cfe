//! Network configurations, for academy and for the reference plugins in the same place.

use std::path::Path;

use serde_json::{Value, json};

use crate::Protocol;

/// Who makes the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plugin {
    /// academy alone.
    Academy,
    /// `bridge` with `host-local`, then `portmap`: shows that a test sees what it should.
    Reference,
}

/// A published port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// The protocol.
    pub protocol: Protocol,
    /// The port at the host.
    pub host_port: u16,
    /// The port of the container.
    pub container_port: u16,
    /// The host's address; empty is every one.
    pub host_ip: String,
}

impl Mapping {
    /// Of every address of the host.
    #[must_use]
    pub fn new(protocol: Protocol, host_port: u16, container_port: u16) -> Self {
        Self { protocol, host_port, container_port, host_ip: String::new() }
    }

    /// One for TCP and one for UDP.
    #[must_use]
    pub fn both(host_port: u16, container_port: u16) -> Vec<Self> {
        Protocol::ALL.map(|protocol| Self::new(protocol, host_port, container_port)).to_vec()
    }

    /// Of one address of the host.
    #[must_use]
    pub fn at(self, host_ip: &str) -> Self {
        Self { host_ip: host_ip.to_owned(), ..self }
    }

    /// As it stands in `runtimeConfig`.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut entry = json!({
            "hostPort": self.host_port,
            "containerPort": self.container_port,
            "protocol": self.protocol.name(),
        });
        if !self.host_ip.is_empty() {
            entry["hostIP"] = json!(self.host_ip);
        }
        entry
    }
}

/// A network: a name, a bridge, a subnet of each family.
#[derive(Clone, Debug)]
pub struct Network {
    /// Its name.
    pub name: String,
    /// Its bridge.
    pub bridge: String,
    /// Its IPv4 subnet, with prefix length; empty for none.
    pub subnet4: String,
    /// Its IPv6 subnet, with prefix length; empty for none.
    pub subnet6: String,
    /// Keys laid over the (first) plugin's object.
    pub extra: Value,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            name: "lab".into(),
            bridge: "br-academy".into(),
            subnet4: "10.98.0.0/24".into(),
            subnet6: "fd00:98::/64".into(),
            extra: json!({}),
        }
    }
}

impl Network {
    /// A second network beside the default one.
    #[must_use]
    pub fn second() -> Self {
        Self {
            name: "second".into(),
            bridge: "br-second".into(),
            subnet4: "10.97.0.0/24".into(),
            subnet6: "fd00:97::/64".into(),
            extra: json!({}),
        }
    }

    /// With keys laid over the plugin's object.
    #[must_use]
    pub fn with(mut self, extra: Value) -> Self {
        let Value::Object(extra) = extra else { return self };
        for (key, value) in extra {
            match value {
                // Removes the key later, from what is made of the network.
                Value::Null => self.extra[key] = Value::Null,
                value => overlay(&mut self.extra, json!({ key: value })),
            }
        }
        self
    }

    /// The plugins' configurations in order, as a runtime derives them from a list.
    #[must_use]
    pub fn configs(&self, plugin: Plugin, data: &Path, ports: &[Mapping]) -> Vec<Value> {
        let subnets = [&self.subnet4, &self.subnet6];
        let subnets = subnets.into_iter().filter(|subnet| !subnet.is_empty());
        let ranges: Vec<_> = subnets.map(|subnet| json!([{ "subnet": subnet }])).collect();
        let ports: Vec<_> = ports.iter().map(Mapping::json).collect();
        let mut first = json!({
            "cniVersion": "1.1.0",
            "name": self.name,
            "type": "academy",
            "bridge": self.bridge,
            "isDefaultGateway": true,
            "ipam": { "ranges": ranges },
            "capabilities": { "portMappings": true },
            "runtimeConfig": { "portMappings": ports },
        });
        match plugin {
            Plugin::Academy => {
                overlay(&mut first, self.extra.clone());
                vec![first]
            }
            Plugin::Reference => {
                let mut second = first.clone();
                first["type"] = json!("bridge");
                first["ipam"]["type"] = json!("host-local");
                first["ipam"]["dataDir"] = json!(data);
                overlay(&mut first, self.extra.clone());
                second["type"] = json!("portmap");
                vec![first, second]
            }
        }
    }
}

/// Lays the keys of one object over another's; `null` removes.
pub fn overlay(base: &mut Value, extra: Value) {
    let Value::Object(extra) = extra else { return };
    for (key, value) in extra {
        match (base.get_mut(&key), value) {
            (Some(old @ Value::Object(_)), new @ Value::Object(_)) => overlay(old, new),
            (_, Value::Null) => {
                base.as_object_mut().unwrap().remove(&key);
            }
            (_, new) => base[key] = new,
        }
    }
}

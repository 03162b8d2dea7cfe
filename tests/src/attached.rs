//! Containers, and the interfaces that a plugin makes in them.

use std::{net::IpAddr, path::PathBuf};

use serde_json::Value;

use crate::{Netns, Protocol, Server, topology::Pair};

/// A container: a namespace and the id under which the runtime knows it.
pub struct Container {
    /// Its namespace.
    pub netns: Netns,
    /// Its id.
    pub id: String,
}

/// An interface that a plugin made.
#[derive(Clone, Debug)]
pub struct Attached {
    /// The container's id.
    pub id: String,
    /// The path of the container's namespace.
    pub netns: PathBuf,
    /// The interface's name in the container.
    pub ifname: String,
    /// What the plugins were configured with, in order.
    pub configs: Vec<Value>,
    /// The result of ADD.
    pub result: Value,
}

impl Attached {
    /// Its first addresses.
    ///
    /// # Panics
    /// When it has none of one family.
    #[must_use]
    #[track_caller]
    pub fn addresses(&self) -> Pair {
        let all = self.all_addresses();
        let v4 = all.iter().find_map(|address| match address {
            IpAddr::V4(address) => Some(*address),
            IpAddr::V6(_) => None,
        });
        let v6 = all.iter().find_map(|address| match address {
            IpAddr::V6(address) => Some(*address),
            IpAddr::V4(_) => None,
        });
        (v4.unwrap(), v6.unwrap())
    }

    /// All its addresses.
    #[must_use]
    #[track_caller]
    pub fn all_addresses(&self) -> Vec<IpAddr> {
        let ips = self.result["ips"].as_array().map_or(&[] as &[_], Vec::as_slice);
        let text = ips.iter().map(|ip| ip["address"].as_str().unwrap());
        text.map(|text| text.split('/').next().unwrap().parse().unwrap()).collect()
    }

    /// The name of the host's end of its veth.
    #[must_use]
    #[track_caller]
    pub fn host_interface(&self) -> String {
        self.result["interfaces"][1]["name"].as_str().unwrap().to_owned()
    }

    /// Servers for both families and protocols at its addresses.
    #[must_use]
    pub fn serve(&self, name: &str, container: &Container, port: u16) -> Vec<Server> {
        let serve =
            |(address, protocol)| Server::new(name, &container.netns, protocol, address, port);
        let addresses = self.all_addresses().into_iter();
        addresses.flat_map(|address| Protocol::ALL.map(|p| (address, p))).map(serve).collect()
    }
}

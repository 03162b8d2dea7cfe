//! The configuration of DEL and GC, which may be anything by the time they come.

use std::path::PathBuf;

use super::{Json, ipam::directories, network::DEFAULT_BRIDGE};
use crate::{attachment::check_ifname, paths::Paths};

/// What removing takes from a configuration. What is wrong, unknown or missing in it does not
/// matter: that is no reason to leave a container's things behind.
#[derive(Clone, PartialEq, Debug)]
pub struct TeardownConfig {
    /// The name of the bridge, or of the default one where that cannot be read.
    pub bridge: String,
    config: Json,
}

impl TeardownConfig {
    /// Takes what there is.
    #[must_use]
    pub fn of(config: &Json) -> Self {
        let bridge = config.get("bridge").and_then(Json::as_str);
        let bridge = bridge.filter(|name| check_ifname(name).is_ok()).unwrap_or(DEFAULT_BRIDGE);
        Self { bridge: bridge.to_owned(), config: config.clone() }
    }

    /// The directories in which leases of the network may be.
    #[must_use]
    pub fn stores(&self, paths: &Paths, network: &str) -> Vec<PathBuf> {
        let without = Json::Object(Vec::new());
        directories(&self.config, network, paths)
            .or_else(|_| directories(&without, network, paths))
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::*;

    fn read(value: Value) -> TeardownConfig {
        TeardownConfig::of(&Json::parse(value.to_string().as_bytes()).unwrap())
    }

    fn paths() -> Paths {
        Paths {
            bpffs: "/b".into(),
            run_dir: "/r".into(),
            state_dir: "/s".into(),
            host_local_dir: "/h".into(),
        }
    }

    #[test]
    fn multus_1521_name_type_and_version_are_enough() {
        let config = read(json!({"name": "net", "type": "academy", "cniVersion": "1.0.0"}));
        assert_eq!(config.bridge, "cni0");
        let expected = [Path::new("/s/net"), Path::new("/h/net")];
        assert_eq!(config.stores(&paths(), "net"), expected);
    }

    #[test]
    fn what_is_refused_at_add_is_no_matter_here() {
        for bad in [
            json!({"bridge": "br", "ipMasq": true, "mtu": "x", "vlan": 7}),
            json!({"bridge": "br", "runtimeConfig": {"portMappings": [{"hostPort": 0}]}}),
            json!({"bridge": "br", "ipam": {"type": "host-local", "subnet": "nonsense"}}),
            json!({"bridge": "br", "ipam": {"dataDir": 7}}),
            json!({"bridge": "br", "ipam": {"dataDir": "relative"}}),
            json!({"bridge": "br", "ipam": 7, "subnet": [], "prevResult": "x"}),
        ] {
            let config = read(bad);
            assert_eq!(config.bridge, "br");
            assert_eq!(config.stores(&paths(), "net").len(), 2);
        }
        assert_eq!(read(json!({"bridge": 7})).bridge, "cni0");
        assert_eq!(read(json!({"bridge": "../../etc"})).bridge, "cni0");
    }

    #[test]
    fn leases_are_where_data_dir_says() {
        let config = read(json!({"IPAM": {"DataDir": "/d"}}));
        assert_eq!(config.stores(&paths(), "net"), [Path::new("/d/net")]);
    }
}

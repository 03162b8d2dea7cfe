//! The maps as `bpftool` shows them.

use std::{path::Path, process::Command};

use serde_json::Value;

use crate::{Lab, netns::must};

/// The maps whose rows live as long as an attachment.
pub const ATTACHMENT_MAPS: [&str; 6] =
    ["endpoints", "addresses4", "addresses6", "fdb", "ports4", "ports6"];
/// The maps whose rows are conversations.
pub const FLOW_MAPS: [&str; 4] = ["opening4", "opening6", "flows4", "flows6"];

impl Lab {
    /// The pin of a map.
    #[must_use]
    pub fn map(&self, name: &str) -> std::path::PathBuf {
        let layout = academy_common::LAYOUT_VERSION;
        self.bpffs().join(format!("v{layout}/maps/{name}"))
    }

    /// The rows of a map, with the names that BTF gives their fields.
    ///
    /// # Panics
    /// When the map is not pinned.
    #[must_use]
    #[track_caller]
    pub fn rows(&self, name: &str) -> Vec<Value> {
        dump(&self.map(name))
    }

    /// Gives the one endpoint of the lab another generation, as if another container had taken over
    /// the interface of the first, number and all.
    ///
    /// # Panics
    /// When there is not exactly one.
    #[track_caller]
    pub fn renew_generation(&self) {
        let rows = self.rows("endpoints");
        let [row] = rows.as_slice() else { panic!("one endpoint: {rows:?}") };
        let bytes = |field: &str| -> Vec<String> {
            let bytes = row[field].as_array().expect("bytes").iter();
            bytes.map(|byte| byte.as_str().expect("a byte").to_owned()).collect()
        };
        let mut value = bytes("value");
        let first = u8::from_str_radix(value[0].trim_start_matches("0x"), 16).unwrap();
        value[0] = format!("{:#04x}", first ^ 1);
        let mut update = Command::new("bpftool");
        update.args(["map", "update", "pinned"]).arg(self.map("endpoints"));
        must(update.arg("key").args(bytes("key")).arg("value").args(value));
    }

    /// The sum over all CPUs of one counter.
    #[must_use]
    #[track_caller]
    pub fn counter(&self, name: &str) -> u64 {
        let rows = self.rows("counters");
        let values = rows[0]["formatted"]["values"].as_array().expect("one value per CPU");
        let of_cpu = |value: &Value| {
            value["value"][name].as_u64().unwrap_or_else(|| panic!("no counter {name}: {value}"))
        };
        values.iter().map(of_cpu).sum()
    }
}

/// The rows of a pinned map.
#[must_use]
#[track_caller]
pub fn dump(pin: &Path) -> Vec<Value> {
    let text = must(Command::new("bpftool").args(["-j", "map", "dump", "pinned"]).arg(pin));
    let rows: Value = serde_json::from_str(&text).unwrap();
    rows.as_array().expect("a list of rows").clone()
}

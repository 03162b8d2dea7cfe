//! Keys that mean something which academy does not do. Ignoring them would leave a container
//! without what its configuration promises, so they are refused.

use super::Json;
use crate::error::{Error, Result};

/// Keys that are refused unless they say nothing (`false`, `null`, 0, empty), and why.
const REFUSED: [(&[&str], &str); 11] = [
    (&["ipMasq"], "masquerading is not built yet; use another plugin for it"),
    (&["macspoofchk"], "it is not built yet"),
    (&["vlan"], "it is not built yet"),
    (&["vlanTrunk"], "it is not built yet"),
    (&["delegate"], "delegates are not built yet"),
    (&["conditionsV4"], "conditions of iptables cannot be honoured, and restrict access"),
    (&["conditionsV6"], "conditions of iptables cannot be honoured, and restrict access"),
    (&["runtimeConfig", "bandwidth", "ingressRate"], BANDWIDTH),
    (&["runtimeConfig", "bandwidth", "egressRate"], BANDWIDTH),
    (&["bandwidth", "ingressRate"], BANDWIDTH),
    (&["bandwidth", "egressRate"], BANDWIDTH),
];

const BANDWIDTH: &str = "limits are not built yet; chain the bandwidth plugin and leave the \
                         capability to it";

/// Refuses what academy does not do.
///
/// # Errors
///
/// Code 2 with key and value.
pub(super) fn refuse(config: &Json) -> Result<()> {
    for (path, reason) in REFUSED {
        if let Some(value) = config.at(path).filter(|value| !value.is_nothing()) {
            return Err(unsupported(&path.join("."), value, reason));
        }
    }
    if let Some(value @ Json::String(text)) = config.get("fastPath")
        && text == "off"
    {
        return Err(unsupported("fastPath", value, "the compatible mode is not built yet"));
    }
    refuse_text(config, &["interface"], &["veth"], "other kinds are not built yet")?;
    let own = ["academy"];
    refuse_text(config, &["ipam", "type"], &own, "delegation to IPAM plugins is not built yet")
}

/// Refuses academy behind another plugin, whose interface it would publish ports of.
pub(super) fn refuse_chained(config: &Json) -> Result<()> {
    match config.get("prevResult") {
        None => Ok(()),
        Some(result) => Err(unsupported(
            "prevResult",
            result,
            "publishing ports for another plugin's interface is not built yet; with bridge and \
             subnet or ipam academy makes its own",
        )),
    }
}

fn refuse_text(config: &Json, path: &[&str], known: &[&str], reason: &str) -> Result<()> {
    match config.at(path) {
        None => Ok(()),
        Some(Json::String(text)) if text.is_empty() || known.contains(&text.as_str()) => Ok(()),
        Some(value) => Err(unsupported(&path.join("."), value, reason)),
    }
}

fn unsupported(key: &str, value: &Json, reason: &str) -> Error {
    Error::Unsupported { key: key.to_owned(), value: value.to_string(), reason: reason.to_owned() }
}

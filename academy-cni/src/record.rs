//! The record of an attachment: what DEL and GC need in order to undo it, whatever has become of
//! the configuration, and however far a killed ADD got.

#![forbid(unsafe_code)]

use std::{
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::{
    attachment::Attachment,
    config::NetworkConfig,
    error::{Error, Result},
    files,
    paths::Paths,
    report::say,
};

/// What is known about an attachment. Stored as JSON in `<run dir>/<network>/<id>:<ifname>.json`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The attachment.
    pub attachment: Attachment,
    /// The owner that its map rows carry, for people who read the maps.
    owner: u64,
    /// The generation of its endpoint.
    pub generation: u64,
    /// The name of the host side's interface.
    pub host_ifname: String,
    /// Its index; 0 as long as it is not made.
    #[serde(default)]
    pub host_ifindex: u32,
    /// The name of the bridge that it is a port of.
    #[serde(default)]
    pub bridge: String,
    /// The container's MAC at ADD.
    #[serde(default)]
    pub mac: [u8; 6],
    /// The container's addresses.
    #[serde(default)]
    pub addresses: Vec<IpNet>,
    /// The directory that holds their leases.
    #[serde(default)]
    pub store_dir: Option<PathBuf>,
    /// The ports that it serves.
    #[serde(default)]
    pub ports: Vec<PortClaim>,
    /// The ports that another attachment of the same container serves until it goes.
    #[serde(default)]
    pub standby: Vec<PortClaim>,
    /// Ports on addresses that processes of the host keep beside a wildcard in `ports`.
    #[serde(default)]
    pub host_ports: Vec<PortClaim>,
    /// The file could not be read: nothing but the names, taken from the file's name, is known.
    #[serde(skip)]
    pub damaged: bool,
}

/// One row of `ports4` or `ports6` as it was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PortClaim {
    /// IP protocol number.
    pub protocol: u8,
    /// The host's address; unspecified for all of its family.
    pub address: IpAddr,
    /// The host's port.
    pub port: u16,
    /// The container's address.
    pub container: IpAddr,
    /// The container's port.
    pub container_port: u16,
    /// What clients appear as whose own address leads nowhere from the container.
    pub snat: Option<IpAddr>,
    /// Whether all clients appear as that.
    pub masq_all: bool,
}

impl Record {
    /// The intent of an ADD, to be stored before its first change.
    #[must_use]
    pub fn intent(attachment: Attachment, generation: u64, config: &NetworkConfig) -> Self {
        Self {
            bridge: config.bridge.clone(),
            store_dir: config.ipam.as_ref().map(|ipam| ipam.store_dir.clone()),
            ..Self::nameless(attachment, generation)
        }
    }

    fn nameless(attachment: Attachment, generation: u64) -> Self {
        Self {
            owner: attachment.owner(),
            host_ifname: attachment.veth_name(),
            attachment,
            generation,
            host_ifindex: 0,
            bridge: String::new(),
            mac: [0; 6],
            addresses: Vec::new(),
            store_dir: None,
            ports: Vec::new(),
            standby: Vec::new(),
            host_ports: Vec::new(),
            damaged: false,
        }
    }

    /// Writes the record in the place of an earlier one, as a whole.
    ///
    /// # Errors
    ///
    /// Code 5, or 103 when the run directory is not academy's alone.
    pub fn store(&self, paths: &Paths) -> Result<()> {
        let directory = paths.records(self.attachment.network());
        files::secure_dir(&paths.run_dir)?;
        files::secure_dir(&directory)?;
        let text = serde_json::to_vec_pretty(self)
            .map_err(|error| Error::Internal(format!("write a record: {error}")))?;
        files::write_atomically(&directory.join(file_name(&self.attachment)), &text)
    }
}

/// The record of an attachment; none if it has none. Of a file that is damaged only the names
/// remain, and stderr says so.
///
/// # Errors
///
/// Code 5 when the file cannot be read.
pub fn load(paths: &Paths, attachment: &Attachment) -> Result<Option<Record>> {
    let path = paths.records(attachment.network()).join(file_name(attachment));
    Ok(files::read(&path)?.map(|text| parse(&path, &text, attachment)))
}

/// Removes the record of an attachment, and the directory of its network with the last one.
///
/// # Errors
///
/// Code 5.
pub fn remove(paths: &Paths, attachment: &Attachment) -> Result<()> {
    let directory = paths.records(attachment.network());
    let path = directory.join(file_name(attachment));
    files::remove(&path)?;
    files::remove(&files::unfinished(&path))?;
    files::remove_empty(&directory)
}

/// Removes what killed calls left half-written in a network's directory, and the directory if
/// nothing is left in it. The caller holds the global lock.
///
/// # Errors
///
/// Code 5.
pub fn clear_remains(paths: &Paths, network: &str) -> Result<()> {
    let directory = paths.records(network);
    let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
    for entry in entries {
        if entry.file_name().to_str().is_some_and(files::is_unfinished) {
            files::remove(&entry.path())?;
        }
    }
    files::remove_empty(&directory)
}

/// The records of a network. Files that are no records are left out, and stderr says so.
#[must_use]
pub fn list(paths: &Paths, network: &str) -> Vec<Record> {
    let directory = paths.records(network);
    let Ok(entries) = fs::read_dir(&directory) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names.iter().filter_map(|name| read_listed(&directory, network, name)).collect()
}

/// The records of all networks.
#[must_use]
pub fn list_all(paths: &Paths) -> Vec<Record> {
    let directories = files::directories(&paths.run_dir).unwrap_or_default();
    let networks = directories.iter().filter_map(|path| path.file_name()?.to_str());
    networks.flat_map(|name| list(paths, Paths::network_of_records(name))).collect()
}

fn read_listed(directory: &Path, network: &str, name: &str) -> Option<Record> {
    // What a killed call left half-written.
    if files::is_unfinished(name) {
        return None;
    }
    let path = directory.join(name);
    let names = name.strip_suffix(EXTENSION).and_then(|name| name.split_once(':'));
    let attachment = names.and_then(|(id, ifname)| Attachment::new(network, id, ifname).ok());
    let Some(attachment) = attachment else {
        warn(&path, "its name is none of an attachment");
        return None;
    };
    match files::read(&path) {
        Ok(text) => Some(parse(&path, &text?, &attachment)),
        Err(error) => {
            warn(&path, &error.to_string());
            Some(Record { damaged: true, ..Record::nameless(attachment, 0) })
        }
    }
}

fn parse(path: &Path, text: &[u8], attachment: &Attachment) -> Record {
    let reason = match serde_json::from_slice::<Record>(text) {
        Ok(record) if record.attachment == *attachment => return record,
        Ok(record) => format!("it is about {}", record.attachment),
        Err(error) => error.to_string(),
    };
    warn(path, &reason);
    Record { damaged: true, ..Record::nameless(attachment.clone(), 0) }
}

fn warn(path: &Path, reason: &str) {
    say(format_args!("warning: damaged record {}: {reason}", path.display()));
}

const EXTENSION: &str = ".json";

fn file_name(attachment: &Attachment) -> String {
    // Neither part can hold a colon.
    format!("{}:{}{EXTENSION}", attachment.container_id(), attachment.ifname())
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;

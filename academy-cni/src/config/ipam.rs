//! `ipam`: where addresses come from.

use std::{
    fmt,
    net::IpAddr,
    path::{Path, PathBuf},
};

use super::{Fields, Json, parse_address};
use crate::{
    error::{Error, Result},
    ipam::{Range, RangeSet, check_overlaps},
    paths::Paths,
    spec::{CniArgs, Version},
};

/// Address management of a network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IpamConfig {
    /// The directory of the network's leases.
    pub store_dir: PathBuf,
    /// Another directory whose addresses are held too: that of `host-local`, from which the node
    /// may be moving over.
    pub host_local_dir: Option<PathBuf>,
    /// An attachment gets one address of each.
    pub sets: Vec<RangeSet>,
    /// Addresses that this attachment shall have, those of more weight first.
    pub requested: Vec<RequestedAddress>,
}

/// An address that somebody asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestedAddress {
    /// The address.
    pub address: IpAddr,
    /// Where it stands.
    pub source: RequestSource,
}

/// Where a requested address stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestSource {
    /// `runtimeConfig.ips`.
    Capability,
    /// `args.cni.ips`.
    Args,
    /// `IP` in CNI_ARGS.
    Environment,
}

impl fmt::Display for RequestSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Capability => "runtimeConfig.ips",
            Self::Args => "args.cni.ips",
            Self::Environment => "IP in CNI_ARGS",
        })
    }
}

impl IpamConfig {
    /// Reads `ipam`, or `subnet` and `gateway` of the short form; nothing where neither is given.
    ///
    /// # Errors
    ///
    /// Code 7, naming field and value.
    pub(super) fn read(
        config: &Json,
        network: &str,
        version: Version,
        args: &CniArgs,
        paths: &Paths,
    ) -> Result<Option<Self>> {
        let ipam = long_form(config);
        let sets = match ipam {
            Some(ipam) => read_sets(&Fields::new(ipam, "ipam")?, config)?,
            None if is_short_form(config) => short_form(config)?,
            None => return Ok(None),
        };
        check_overlaps(&sets, "ipam.ranges")?;
        check_count(&sets, version)?;
        let mut stores = directories(config, network, paths)?.into_iter();
        let store_dir = stores.next().unwrap_or_else(|| paths.state_dir.join(network));
        Ok(Some(Self {
            store_dir,
            host_local_dir: stores.next(),
            sets,
            requested: requested(config, args)?,
        }))
    }
}

/// Whether the configuration is of the short form: a subnet beside the bridge.
pub(super) fn is_short_form(config: &Json) -> bool {
    long_form(config).is_none() && config.get("subnet").is_some_and(|subnet| !subnet.is_nothing())
}

/// `ipam`, unless it is empty.
pub(super) fn long_form(config: &Json) -> Option<&Json> {
    config.get("ipam").filter(|ipam| !ipam.is_nothing())
}

/// The directories in which the network's leases are: first where new ones are made, then the one
/// of `host-local`, which counts while no `dataDir` is given.
///
/// # Errors
///
/// Code 7 for a `dataDir` that is no absolute path.
pub(super) fn directories(config: &Json, network: &str, paths: &Paths) -> Result<Vec<PathBuf>> {
    let Some(directory) = config.at(&["ipam", "dataDir"]) else {
        return Ok(vec![paths.state_dir.join(network), paths.host_local_dir.join(network)]);
    };
    match directory.as_str().map(Path::new) {
        Some(path) if path.is_absolute() => Ok(vec![path.join(network)]),
        _ => Err(Error::config("ipam.dataDir", directory, "must be an absolute path")),
    }
}

fn short_form(config: &Json) -> Result<Vec<RangeSet>> {
    let range = Range::read(&Fields::new(config, "")?)?;
    Ok(vec![RangeSet::new(vec![range], "subnet")?])
}

/// The sets of the capability, of the flat keys and of `ranges`, in this order.
fn read_sets(ipam: &Fields<'_>, config: &Json) -> Result<Vec<RangeSet>> {
    let mut sets = capability_sets(config)?;
    if ipam.get("subnet").is_some() {
        sets.push(RangeSet::new(vec![Range::read(ipam)?], "ipam.subnet")?);
    }
    for (index, set) in ipam.list("ranges")?.iter().enumerate() {
        let name = format!("ipam.ranges[{index}]");
        let Json::Array(items) = set else {
            return Err(Error::config(name, set, "must be a list of ranges"));
        };
        sets.push(RangeSet::new(ranges(items, &name)?, &name)?);
    }
    if sets.is_empty() {
        return Err(Error::config("ipam.ranges", "nothing", "no IP ranges specified"));
    }
    Ok(sets)
}

const CAPABILITY: &str = "runtimeConfig.ipRanges";

/// `runtimeConfig.ipRanges`: a list of sets, or as go-cni sends it a flat list of ranges. Of that
/// the container gets one address per family.
fn capability_sets(config: &Json) -> Result<Vec<RangeSet>> {
    let items = match config.at(&["runtimeConfig", "ipRanges"]) {
        None => return Ok(Vec::new()),
        Some(Json::Array(items)) => items,
        Some(other) => return Err(Error::config(CAPABILITY, other, "must be a list")),
    };
    if items.iter().any(|item| matches!(item, Json::Object(_))) {
        let (four, six) = ranges(items, CAPABILITY)?
            .into_iter()
            .partition::<Vec<_>, _>(|range| range.subnet().addr().is_ipv4());
        let families = [four, six].into_iter().filter(|ranges| !ranges.is_empty());
        return families.map(|ranges| RangeSet::new(ranges, CAPABILITY)).collect();
    }
    let set = |(index, item): (usize, &Json)| {
        let name = format!("{CAPABILITY}[{index}]");
        match item {
            Json::Array(items) => RangeSet::new(ranges(items, &name)?, &name),
            other => Err(Error::config(name, other, "must be a list of ranges")),
        }
    };
    items.iter().enumerate().map(set).collect()
}

fn ranges(items: &[Json], name: &str) -> Result<Vec<Range>> {
    let range = |(index, item)| {
        let name = format!("{name}[{index}]");
        Range::read(&Fields::new(item, &name)?)
    };
    items.iter().enumerate().map(range).collect()
}

/// Results before 0.3.0 have room for one address of each family.
fn check_count(sets: &[RangeSet], version: Version) -> Result<()> {
    let four = sets.iter().filter(|set| set.is_ipv4()).count();
    if version >= Version::V0_3_0 || (four <= 1 && sets.len() - four <= 1) {
        return Ok(());
    }
    let reason = format!("CNI version {version} does not support more than 1 address per family");
    Err(Error::config("ipam.ranges", format_args!("{} sets", sets.len()), reason))
}

/// Every requested address once, under the source of the most weight.
fn requested(config: &Json, args: &CniArgs) -> Result<Vec<RequestedAddress>> {
    let mut requested: Vec<RequestedAddress> = Vec::new();
    let mut add = |address, source| {
        if !requested.iter().any(|other| other.address == address) {
            requested.push(RequestedAddress { address, source });
        }
    };
    for (path, source) in [
        (&["runtimeConfig", "ips"][..], RequestSource::Capability),
        (&["args", "cni", "ips"], RequestSource::Args),
    ] {
        let items = match config.at(path) {
            None => continue,
            Some(Json::Array(items)) => items,
            Some(other) => return Err(Error::config(source, other, "must be a list")),
        };
        for (index, item) in items.iter().enumerate() {
            let address = item.as_str().and_then(parse_address).ok_or_else(|| {
                let name = format!("{source}[{index}]");
                Error::config(name, item, "must be an IP address, with or without prefix length")
            })?;
            add(address, source);
        }
    }
    for address in &args.ips {
        add(*address, RequestSource::Environment);
    }
    Ok(requested)
}

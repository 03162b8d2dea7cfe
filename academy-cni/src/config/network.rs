//! The configuration of ADD and CHECK.

use std::path::Path;

use super::{
    Fields, IpamConfig, Json, Mac, PortRequest,
    ipam::{is_short_form, long_form},
    later, parse_mac,
};
use crate::{
    attachment::check_network,
    datapath::AttachMode,
    error::{Error, Result},
    ipam,
    paths::Paths,
    spec::{CniArgs, Command, Dns, Env, Route, Version, dns, routes},
};

/// What an ADD is to do. Everything in it has been checked as far as that can be done without a
/// look at the host.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the configuration")]
pub struct NetworkConfig {
    /// The version of the configuration, which is that of the result.
    pub version: Version,
    /// The name of the network.
    pub name: String,
    /// The name of the bridge.
    pub bridge: String,
    /// Whether a `subnet` stands beside the bridge: then it gets the gateway's address, the
    /// container a default route, and other addresses of the bridge stay.
    pub short_form: bool,
    /// The bridge gets the gateway's address, and the host forwards.
    pub is_gateway: bool,
    /// The container gets a default route.
    pub is_default_gateway: bool,
    /// Another address of the bridge is replaced.
    pub force_address: bool,
    /// MTU of the pair and of a new bridge, in bytes.
    pub mtu: Option<u32>,
    /// The bridge may send a frame back to the port it came from.
    pub hairpin_mode: bool,
    /// The bridge takes every frame.
    pub promisc_mode: bool,
    /// The container waits for duplicate address detection.
    pub enable_dad: bool,
    /// The container cannot reach other isolated ports.
    pub port_isolation: bool,
    /// The container's interface stays down.
    pub disable_container_interface: bool,
    /// The MAC of the container's interface.
    pub mac: Option<Mac>,
    /// Address management, if there is any.
    pub ipam: Option<IpamConfig>,
    /// Name resolution: of the configuration, or that of `ipam.resolvConf`.
    pub dns: Dns,
    /// The ports to publish.
    pub ports: Vec<PortRequest>,
    /// Clients that the container could not answer appear as another address.
    pub snat: bool,
    /// All clients do.
    pub masq_all: bool,
    /// Names or globs of uplinks; none means all that carry an address.
    pub host_interfaces: Vec<String>,
    /// Short cuts also where netfilter is to see frames between ports of bridges (`fastPath: on`).
    pub fast_path_on: bool,
    /// How programs are attached.
    pub attach: AttachMode,
    /// How many ports the host can publish, at most.
    pub max_ports: Option<u32>,
    /// How many established flows there can be of each family, at most.
    pub max_flows: Option<u32>,
    routes: Vec<Route>,
}

/// The largest MTU that a veth takes (ETH_MAX_MTU), and the smallest that IPv4 works with.
const MTU: std::ops::RangeInclusive<u32> = 68..=65535;

/// The largest table that can be asked for: its memory is taken as it is used, but not its index.
const LARGEST_TABLE: u32 = 1 << 24;

impl NetworkConfig {
    /// Reads the configuration of an ADD or CHECK.
    ///
    /// # Errors
    ///
    /// Code 7 with field and value for what is wrong, 2 for what academy does not do, 1 and 6 for
    /// the version, 4 for CNI_ARGS, 5 for a `resolvConf` that cannot be read.
    pub fn for_add(config: &Json, env: &Env) -> Result<Self> {
        // Only an ADD can be behind another plugin's: later calls bring its own result along.
        let is_add = env.command == Command::Add;
        Self::read(config, &CniArgs::parse(&env.args)?, &Paths::from_env(), is_add)
    }

    /// Reads the configuration of a STATUS: without what concerns one container.
    ///
    /// # Errors
    ///
    /// As [`NetworkConfig::for_add`].
    pub fn for_status(config: &Json) -> Result<Self> {
        Self::read(config, &CniArgs::default(), &Paths::from_env(), false)
    }

    fn read(config: &Json, args: &CniArgs, paths: &Paths, is_add: bool) -> Result<Self> {
        let fields = Fields::new(config, "")?;
        let version = Version::of(config)?;
        let name = fields.string("name")?.unwrap_or_default();
        check_network(name)?;
        later::refuse(config)?;
        let short_form = is_short_form(config);
        if is_add && !short_form && long_form(config).is_none() && fields.get("bridge").is_none() {
            later::refuse_chained(config)?;
        }
        let ipam = IpamConfig::read(config, name, version, args, paths)?;
        check_one_form(&fields)?;
        let is_default_gateway = short_form || fields.flag("isDefaultGateway")?;
        let this = Self {
            version,
            name: name.to_owned(),
            bridge: bridge(&fields)?,
            short_form,
            is_gateway: is_default_gateway || fields.flag("isGateway")?,
            is_default_gateway,
            force_address: fields.flag("forceAddress")?,
            mtu: mtu(&fields)?,
            hairpin_mode: fields.flag("hairpinMode")?,
            promisc_mode: fields.flag("promiscMode")?,
            enable_dad: fields.flag("enabledad")?,
            port_isolation: fields.flag("portIsolation")?,
            disable_container_interface: fields.flag("disableContainerInterface")?,
            mac: mac(config, args)?,
            dns: name_resolution(config, &fields)?,
            ports: PortRequest::read_all(config)?,
            snat: fields.bool("snat")?.unwrap_or(true),
            masq_all: fields.flag("masqAll")?,
            host_interfaces: fields.strings("hostInterfaces")?,
            fast_path_on: fast_path_on(&fields)?,
            attach: attach(&fields)?,
            max_ports: fields.number("maxPorts", 1, LARGEST_TABLE)?,
            max_flows: fields.number("maxFlows", 1, LARGEST_TABLE)?,
            routes: ipam_routes(config)?,
            ipam,
        };
        this.check_combinations(&fields)?;
        Ok(this)
    }

    /// The routes that the container shall have.
    #[must_use]
    pub fn routes(&self) -> Vec<Route> {
        self.routes.clone()
    }

    fn check_combinations(&self, fields: &Fields<'_>) -> Result<()> {
        if self.promisc_mode && self.hairpin_mode {
            return Err(fields.wrong("promiscMode", "cannot go with hairpinMode"));
        }
        if self.disable_container_interface && self.ipam.is_some() {
            let reason = "cannot go with address management";
            return Err(fields.wrong("disableContainerInterface", reason));
        }
        match fields.string("ipMasqBackend")? {
            None | Some("iptables" | "nftables") => Ok(()),
            Some(_) => Err(fields.wrong("ipMasqBackend", "must be iptables or nftables")),
        }
    }
}

/// A subnet at the top and an `ipam` would contradict each other.
fn check_one_form(fields: &Fields<'_>) -> Result<()> {
    let is_given = |key| fields.get(key).is_some_and(|value| !value.is_nothing());
    if is_given("subnet") && is_given("ipam") {
        return Err(fields.wrong("subnet", "must stand in ipam, where there is one"));
    }
    Ok(())
}

fn bridge(fields: &Fields<'_>) -> Result<String> {
    let name = fields.string("bridge")?.unwrap_or(DEFAULT_BRIDGE);
    match crate::attachment::check_ifname(name) {
        Ok(()) => Ok(name.to_owned()),
        Err(_) => Err(fields.wrong("bridge", "must be the name of an interface")),
    }
}

/// The bridge of the reference plugin.
pub(super) const DEFAULT_BRIDGE: &str = "cni0";

fn mtu(fields: &Fields<'_>) -> Result<Option<u32>> {
    // 0 is the kernel's default, as in the reference plugin.
    if fields.get("mtu").is_some_and(|mtu| matches!(mtu, Json::Number(_)) && mtu.is_nothing()) {
        return Ok(None);
    }
    fields.number("mtu", *MTU.start(), *MTU.end())
}

/// The MAC that the runtime asks for: the capability before `args.cni.mac` before CNI_ARGS.
fn mac(config: &Json, args: &CniArgs) -> Result<Option<Mac>> {
    for path in [&["runtimeConfig", "mac"][..], &["args", "cni", "mac"]] {
        match config.at(path) {
            None => {}
            Some(value) if value.as_str() == Some("") => {}
            Some(value) => {
                let mac = value.as_str().and_then(parse_mac);
                let wrong = || Error::config(path.join("."), value, "must be a unicast MAC");
                return mac.ok_or_else(wrong).map(Some);
            }
        }
    }
    Ok(args.mac)
}

fn fast_path_on(fields: &Fields<'_>) -> Result<bool> {
    match fields.string("fastPath")? {
        None | Some("" | "auto") => Ok(false),
        Some("on") => Ok(true),
        Some(_) => Err(fields.wrong("fastPath", "must be auto, on or off")),
    }
}

fn attach(fields: &Fields<'_>) -> Result<AttachMode> {
    match fields.string("attach")? {
        None | Some("auto") => Ok(AttachMode::Auto),
        Some("tcx") => Ok(AttachMode::Tcx),
        Some("clsact") => Ok(AttachMode::Clsact),
        Some(_) => Err(fields.wrong("attach", "must be auto, tcx or clsact")),
    }
}

/// `dns` of the configuration, or where that says nothing what `ipam.resolvConf` says.
fn name_resolution(config: &Json, fields: &Fields<'_>) -> Result<Dns> {
    let own = dns(config, "")?;
    if !own.is_empty() {
        return Ok(own);
    }
    let Some(ipam) = fields.get("ipam") else { return Ok(own) };
    match Fields::new(ipam, "ipam")?.string("resolvConf")? {
        Some(path) => ipam::read_resolv_conf(Path::new(path)),
        None => Ok(own),
    }
}

fn ipam_routes(config: &Json) -> Result<Vec<Route>> {
    match long_form(config) {
        Some(ipam) => routes(&Fields::new(ipam, "ipam")?),
        None => Ok(Vec::new()),
    }
}

#[cfg(test)]
#[path = "network_tests.rs"]
mod tests;

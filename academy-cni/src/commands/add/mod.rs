//! ADD: attach a container.

mod bridge;
mod container;
mod layer3;

use std::{cell::RefCell, net::IpAddr, path::Path};

use ipnet::IpNet;
use serde_json::Value;

pub(crate) use bridge::BRIDGE_ALIAS;
use container::{Inside, Pair};

use super::{
    Call,
    detach::Detacher,
    failures::Failures,
    liveness::Liveness,
    ports::{self, Claims, Wanted},
    refresh,
};
use crate::{
    attachment::Attachment,
    config::{Json, NetworkConfig, mac_text},
    datapath::{Datapath, EndpointSpec, Sweep},
    error::{Error, Result},
    host::Host,
    ipam::{self, Allocation},
    lock::GlobalLock,
    netlink::{Link, Netlink},
    netns::Netns,
    random,
    record::{self, PortClaim, Record},
    report::say_failure,
    spec::{self, CniResult, Interface},
    undo::Undo,
};

/// Attaches the container: everything is checked before anything is changed, and everything is
/// taken back when a step fails.
///
/// # Errors
/// What is wrong with the call, the configuration or the host.
pub(super) fn run(call: &Call) -> Result<Value> {
    let attachment = call.attachment()?;
    let config = NetworkConfig::for_add(&call.config, &call.env)?;
    if let (None, [_, ..]) = (&config.ipam, config.ports.as_slice()) {
        let given = call.config.at(&["runtimeConfig", "portMappings"]).unwrap_or(&Json::Null);
        let reason = "there is no address to publish: neither ipam nor subnet is given";
        return Err(Error::config("runtimeConfig.portMappings", given, reason));
    }
    let netns = Netns::open(Path::new(&call.env.netns))?;
    call.refuse_own_netns(&netns)?;
    let netlink = Netlink::open()?;
    let inside = Inside::open(&netlink, netns, attachment.ifname())?;
    let _lock = GlobalLock::acquire(&call.paths)?;
    let add =
        Add { call, attachment: &attachment, config: &config, netlink: &netlink, inside: &inside };
    let mut host = Host::look(&netlink)?;
    add.clear_own_remains(&mut host)?;
    let is_first = !call.paths.bpffs.exists();
    let datapath =
        RefCell::new(Datapath::open_or_load(&call.paths, config.max_ports, config.max_flows)?);
    let mut undo = Undo::new();
    if is_first {
        undo.push("remove the data plane", || {
            Datapath::uninstall(&call.paths, &Host::look(&netlink)?.state(&[], false))
        });
    }
    let result = add.attach(&mut host, &datapath, &mut undo)?;
    // Old versions have no words for some results.
    let document = result.to_json(call.version)?;
    undo.keep();
    Ok(document)
}

/// What every step of an ADD looks at.
struct Add<'a> {
    call: &'a Call,
    attachment: &'a Attachment,
    config: &'a NetworkConfig,
    netlink: &'a Netlink,
    inside: &'a Inside,
}

impl<'a> Add<'a> {
    /// An attachment is added once. What is left of an earlier one without an interface (its
    /// runtime never sent the DEL) makes room.
    fn clear_own_remains(&self, host: &mut Host) -> Result<()> {
        let veth = self.attachment.veth_name();
        if host.link(&veth).is_some() {
            return Err(Error::Conflict(format!(
                "{} exists already, with {veth} on the host: it needs a DEL first",
                self.attachment
            )));
        }
        let Some(record) = record::load(&self.call.paths, self.attachment)? else {
            return Ok(());
        };
        let mut datapath = Datapath::open(&self.call.paths)?;
        let mut failures = Failures::default();
        let mut detacher = Detacher::new(&self.call.paths, self.netlink, datapath.as_mut());
        detacher.detach(self.attachment, Some(&record), &mut failures);
        failures.finish()
    }

    fn attach(
        &self,
        host: &mut Host,
        datapath: &'a RefCell<Datapath>,
        undo: &mut Undo<'a>,
    ) -> Result<CniResult> {
        let mut record = self.declare(undo)?;
        let (allocations, claims) = self.acquire(host, datapath, undo)?;
        let bridge = bridge::ensure(self.netlink, host, self.config, undo)?;
        let gateways = if self.config.is_gateway {
            layer3::bridge_addresses(&allocations)
        } else {
            Vec::new()
        };
        bridge::give_gateways(self.netlink, host, &bridge, &gateways, self.config, undo)?;
        let pair = container::make_pair(
            self.netlink,
            self.inside,
            self.attachment,
            self.config,
            &bridge,
            undo,
        )?;
        host.replace(pair.host.clone());
        let mut routes = self.config.routes();
        if self.config.is_default_gateway {
            layer3::add_default_routes(&mut routes, &allocations);
        }
        container::configure(
            self.inside,
            &pair,
            self.config,
            &allocations,
            &layer3::container_routes(&routes, &allocations),
        )?;

        record.host_ifindex = pair.host.index;
        record.mac = pair.container_mac;
        record.addresses = allocations.iter().map(|allocation| allocation.address).collect();
        record.ports = self.with_sources(claims.serve, &gateways)?;
        record.standby = self.with_sources(claims.standby, &gateways)?;
        record.host_ports = self.with_sources(claims.host, &gateways)?;
        record.store(&self.call.paths)?;

        self.connect(host, datapath, &record, &bridge, &pair, undo)?;
        if !self.config.disable_container_interface {
            container::await_carrier(self.netlink, &pair.host)?;
        }
        container::introduce(self.netlink, self.inside, &bridge, &pair, &allocations, &gateways);
        self.publish(datapath, &record, undo)?;
        say_failure(datapath.borrow_mut().sweep(Sweep::Some));
        Ok(self.result(&bridge, &pair, &allocations, routes))
    }

    /// Writes down what is going to be done, before anything is: whatever happens to this
    /// process, DEL and GC know where to look.
    fn declare(&self, undo: &mut Undo<'a>) -> Result<Record> {
        let record = Record::intent(self.attachment.clone(), random::number()?, self.config);
        record.store(&self.call.paths)?;
        let (paths, attachment) = (&self.call.paths, self.attachment);
        undo.push("remove the record", move || record::remove(paths, attachment));
        Ok(record)
    }

    /// Takes addresses, and finds out which ports can be served.
    fn acquire(
        &self,
        host: &Host,
        datapath: &RefCell<Datapath>,
        undo: &mut Undo<'a>,
    ) -> Result<(Vec<Allocation>, Claims)> {
        let liveness = Liveness::new(&self.call.paths, host, self.attachment);
        let mut allocations = Vec::new();
        if let Some(settings) = &self.config.ipam {
            let store = ipam::Store::open(&settings.store_dir)?;
            allocations = ipam::allocate(settings, &store, self.attachment, |other| {
                liveness.is_alive(other)
            })?;
            let attachment = self.attachment;
            undo.push("free the addresses", move || store.release(attachment).map(drop));
        }
        if self.config.is_gateway {
            layer3::complete_gateways(&mut allocations);
        }
        let addresses: Vec<IpAddr> =
            allocations.iter().map(|allocation| allocation.address.addr()).collect();
        let wanted = ports::wanted(&self.config.ports, &addresses);
        let mut datapath = datapath.borrow_mut();
        let claims = ports::claim(wanted, self.attachment, &mut datapath, &liveness)?;
        Ok((allocations, claims))
    }

    /// Completes claims by what a client appears as whose own address leads nowhere from the
    /// container: the gateway, or where the bridge has none the address that the host itself
    /// would use.
    fn with_sources(&self, claims: Vec<Wanted>, gateways: &[IpNet]) -> Result<Vec<PortClaim>> {
        let source_towards = |container: IpAddr| {
            let gateway = gateways
                .iter()
                .map(IpNet::addr)
                .find(|gateway| gateway.is_ipv4() == container.is_ipv4());
            match gateway {
                Some(gateway) => Ok(Some(gateway)),
                None => self.netlink.source_towards(container),
            }
        };
        claims
            .into_iter()
            .map(|claim| {
                let snat = if self.config.snat { source_towards(claim.container)? } else { None };
                Ok(claim.into_record(snat, self.config.masq_all))
            })
            .collect()
    }

    /// Makes the data plane know the container: first its row, then its hook.
    fn connect(
        &self,
        host: &Host,
        datapath: &'a RefCell<Datapath>,
        record: &Record,
        bridge: &Link,
        pair: &Pair,
        undo: &mut Undo<'a>,
    ) -> Result<()> {
        let config = self.config;
        let owner = self.attachment.owner();
        refresh(&mut datapath.borrow_mut(), host, Some(config))?;
        undo.push("remove the endpoint", move || datapath.borrow_mut().remove_endpoint(owner));
        let endpoint = endpoint(record, bridge, &pair.host);
        datapath.borrow_mut().add_endpoint(&endpoint)?;
        datapath.borrow_mut().attach_container(&endpoint, config.attach)
    }

    fn publish(
        &self,
        datapath: &'a RefCell<Datapath>,
        record: &Record,
        undo: &mut Undo<'a>,
    ) -> Result<()> {
        let rows = ports::rows(record);
        if rows.is_empty() {
            return Ok(());
        }
        let owner = self.attachment.owner();
        let keys: Vec<_> = rows.iter().map(|row| row.key).collect();
        datapath.borrow_mut().publish(&rows)?;
        undo.push("withdraw the ports", move || {
            datapath.borrow_mut().unpublish(owner, Some(&keys)).map(drop)
        });
        Ok(())
    }

    fn result(
        &self,
        bridge: &Link,
        pair: &Pair,
        allocations: &[Allocation],
        routes: Vec<spec::Route>,
    ) -> CniResult {
        let on_host = |link: &Link| Interface {
            name: link.name.clone(),
            mac: link.mac.map(mac_text).unwrap_or_default(),
            mtu: Some(link.mtu),
            ..Interface::default()
        };
        let container = Interface {
            sandbox: self.call.env.netns.clone(),
            mac: mac_text(pair.container_mac),
            ..on_host(&pair.container)
        };
        let mut result = CniResult {
            interfaces: vec![on_host(bridge), on_host(&pair.host), container],
            dns: self.config.dns.clone(),
            ..CniResult::default()
        };
        layer3::describe(&mut result, allocations, routes, CONTAINER_INTERFACE);
        result
    }
}

/// Which of the result's interfaces is the container's.
const CONTAINER_INTERFACE: usize = 2;

/// The data plane's row for the container of a record, whose host side is `host` in `bridge`.
pub(super) fn endpoint(record: &Record, bridge: &Link, host: &Link) -> EndpointSpec {
    EndpointSpec {
        ifindex: host.index,
        ifname: host.name.clone(),
        bridge: bridge.index,
        bridge_mac: bridge.mac.unwrap_or_default(),
        mac: record.mac,
        addresses: record.addresses.iter().map(IpNet::addr).collect(),
        owner: record.attachment.owner(),
        generation: record.generation,
        // What the bridge would refuse, nothing may go around it.
        short_cut: !host.isolated && !bridge.vlan_filtering,
    }
}

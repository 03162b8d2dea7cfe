//! Rows of attachments: the endpoint, its addresses, its place in the bridge.

use std::collections::HashSet;

use academy_common::{
    Endpoint, EndpointAddress, EndpointAddressKey, EndpointKey, FdbEntry, FdbKey, Ipv4, Ipv6, Mac,
    PortKey, PortMapping, endpoint_flags, map_names,
};
use aya::{
    Pod,
    maps::{HashMap, MapData},
};

use super::{
    Datapath,
    hooks::Hook,
    pins::fail,
    ports::is_absent,
    rows::{self, Rows},
    types::{AttachMode, EndpointSpec, HostState, PortRow},
};
use crate::{
    error::{Error, Result},
    files,
};

impl Datapath {
    /// Writes an attachment's endpoint and its addresses, over rows that may be there.
    ///
    /// # Errors
    /// Code 5 when the kernel refuses a row.
    pub fn add_endpoint(&mut self, spec: &EndpointSpec) -> Result<()> {
        let refused = |map: &str, error| fail("write", map, &error);
        let address = EndpointAddress { owner: spec.owner, ifindex: spec.ifindex, padding: 0 };
        let mut addresses4 = self.hash(Ipv4::ADDRESSES)?;
        let mut addresses6 = self.hash(Ipv6::ADDRESSES)?;
        let (v4, v6) = addresses(spec);
        for held in &v4 {
            let key = EndpointAddressKey { address: *held };
            addresses4.insert(key, address, 0).map_err(|e| refused(Ipv4::ADDRESSES, e))?;
        }
        for held in &v6 {
            let key = EndpointAddressKey { address: *held };
            addresses6.insert(key, address, 0).map_err(|e| refused(Ipv6::ADDRESSES, e))?;
        }
        let mut endpoints = self.hash(map_names::ENDPOINTS)?;
        let key = EndpointKey { ifindex: spec.ifindex };
        endpoints.insert(key, row(spec), 0).map_err(|e| refused(map_names::ENDPOINTS, e))
    }

    /// Attaches the short cut to the host side of a container, and then opens it to neighbours:
    /// a frame that the container sent before its hook was there carries no mark, and would look
    /// to the bridge's hook like its MAC behind another port.
    ///
    /// # Errors
    /// Code 5 when the kernel refuses it.
    pub fn attach_container(&mut self, spec: &EndpointSpec, mode: AttachMode) -> Result<()> {
        self.attach(&spec.ifname, spec.ifindex, Hook::FROM_CONTAINER, mode)?;
        if spec.bridge == 0 {
            return Ok(());
        }
        let mut fdb = self.hash(map_names::FDB)?;
        let (key, entry) = place(spec);
        fdb.insert(key, entry, 0).map_err(|error| fail("write", map_names::FDB, &error))
    }

    /// Removes the rows of an attachment.
    ///
    /// # Errors
    /// Code 5 when the kernel does not let the maps be read or written.
    pub fn remove_endpoint(&mut self, owner: u64) -> Result<()> {
        let mut endpoints: HashMap<_, EndpointKey, Endpoint> = self.hash(map_names::ENDPOINTS)?;
        for key in retain_not(&mut endpoints, map_names::ENDPOINTS, |_, row| row.owner == owner)? {
            for (index, pin) in self.link_pins() {
                if index == key.ifindex {
                    files::remove(&pin)?;
                }
            }
        }
        self.remove_rows(|address| address.owner == owner, |_, entry| entry.owner == owner)
    }

    /// All endpoints, by the index of their host side.
    ///
    /// # Errors
    /// Code 5 when the kernel does not let the map be read.
    pub fn endpoints(&self) -> Result<Vec<(u32, Endpoint)>> {
        let endpoints: HashMap<_, EndpointKey, Endpoint> = self.hash(map_names::ENDPOINTS)?;
        let rows = endpoints.iter().map(|row| {
            row.map(|(key, value)| (key.ifindex, value))
                .map_err(|error| fail("read", map_names::ENDPOINTS, &error))
        });
        rows.collect()
    }

    /// Whether everything is there that an attachment needs: rows, right ones, and the hook.
    ///
    /// # Errors
    /// Code 5, naming what is missing or wrong.
    pub fn check_endpoint(&self, spec: &EndpointSpec, ports: &[PortRow]) -> Result<()> {
        let endpoints: HashMap<_, EndpointKey, Endpoint> = self.hash(map_names::ENDPOINTS)?;
        let found = endpoints.get(&EndpointKey { ifindex: spec.ifindex }, 0);
        let found = found.map_err(|_| wrong(format!("no endpoint of {}", spec.ifname)))?;
        if (found.owner, found.generation, found.bridge)
            != (spec.owner, spec.generation, spec.bridge)
        {
            return Err(wrong(format!("the endpoint of {} is another's", spec.ifname)));
        }
        let (v4, v6) = addresses(spec);
        self.check_addresses(&v4, spec.owner)?;
        self.check_addresses(&v6, spec.owner)?;
        for row in ports {
            self.check_port::<Ipv4>(row)?;
            self.check_port::<Ipv6>(row)?;
        }
        if !self.is_attached(spec.ifindex, Hook::FROM_CONTAINER)? {
            return Err(wrong(format!("the program at {} is not attached", spec.ifname)));
        }
        Ok(())
    }

    fn check_addresses<A: Rows>(&self, held: &[A], owner: u64) -> Result<()>
    where
        EndpointAddressKey<A>: Pod,
    {
        let rows: HashMap<_, EndpointAddressKey<A>, EndpointAddress> = self.hash(A::ADDRESSES)?;
        for address in held {
            let row = rows.get(&EndpointAddressKey { address: *address }, 0);
            if !row.is_ok_and(|row| row.owner == owner) {
                return Err(wrong(format!("no row for address {}", address.address())));
            }
        }
        Ok(())
    }

    fn check_port<A: Rows>(&self, row: &PortRow) -> Result<()>
    where
        PortKey<A>: Pod,
        PortMapping<A>: Pod + PartialEq,
    {
        let Some((key, wanted)) = rows::port::<A>(row) else { return Ok(()) };
        let ports: HashMap<_, PortKey<A>, PortMapping<A>> = self.hash(A::PORTS)?;
        if ports.get(&key, 0).is_ok_and(|found| found == wanted) {
            return Ok(());
        }
        Err(wrong(format!("host port {} of {} is not published", row.key.port, row.key.address)))
    }

    /// Removes the rows of endpoints whose host side is gone, and follows bridges' MACs.
    pub(super) fn refresh_endpoints(&self, host: &HostState) -> Result<()> {
        let mut endpoints: HashMap<_, EndpointKey, Endpoint> = self.hash(map_names::ENDPOINTS)?;
        let indices: HashSet<u32> = host.links.iter().map(|link| link.index).collect();
        let gone = retain_not(&mut endpoints, map_names::ENDPOINTS, |key, _| {
            !indices.contains(&key.ifindex)
        })?;
        if !gone.is_empty() {
            let gone: HashSet<u32> = gone.iter().map(|key| key.ifindex).collect();
            self.remove_rows(
                |address| gone.contains(&address.ifindex),
                |key, entry| gone.contains(&entry.ifindex) || !indices.contains(&key.bridge),
            )?;
        }
        for (ifindex, mut row) in self.endpoints()? {
            let bridge = host.links.iter().find(|link| link.index == row.bridge);
            let mac = bridge.and_then(|bridge| bridge.mac).map(|octets| Mac { octets });
            if let Some(mac) = mac.filter(|mac| *mac != row.bridge_mac) {
                row.bridge_mac = mac;
                let written = endpoints.insert(EndpointKey { ifindex }, row, 0);
                written.map_err(|error| fail("write", map_names::ENDPOINTS, &error))?;
            }
        }
        Ok(())
    }

    fn remove_rows(
        &self,
        address: impl Fn(&EndpointAddress) -> bool,
        place: impl Fn(&FdbKey, &FdbEntry) -> bool,
    ) -> Result<()> {
        let mut addresses4: HashMap<_, EndpointAddressKey<Ipv4>, EndpointAddress> =
            self.hash(Ipv4::ADDRESSES)?;
        retain_not(&mut addresses4, Ipv4::ADDRESSES, |_, row| address(row))?;
        let mut addresses6: HashMap<_, EndpointAddressKey<Ipv6>, EndpointAddress> =
            self.hash(Ipv6::ADDRESSES)?;
        retain_not(&mut addresses6, Ipv6::ADDRESSES, |_, row| address(row))?;
        let mut fdb: HashMap<_, FdbKey, FdbEntry> = self.hash(map_names::FDB)?;
        retain_not(&mut fdb, map_names::FDB, place).map(drop)
    }
}

/// Removes the rows that `dead` picks, and gives their keys.
pub(super) fn retain_not<K: Pod, V: Pod>(
    map: &mut HashMap<MapData, K, V>,
    name: &str,
    dead: impl Fn(&K, &V) -> bool,
) -> Result<Vec<K>> {
    let mut keys = Vec::new();
    for row in map.iter() {
        let (key, value) = row.map_err(|error| fail("read", name, &error))?;
        if dead(&key, &value) {
            keys.push(key);
        }
    }
    for key in &keys {
        match map.remove(key) {
            Err(error) if !is_absent(&error) => return Err(fail("remove from", name, &error)),
            _ => {}
        }
    }
    Ok(keys)
}

fn addresses(spec: &EndpointSpec) -> (Vec<Ipv4>, Vec<Ipv6>) {
    let of = spec.addresses.iter();
    (
        of.clone().filter_map(|address| Ipv4::of(*address)).collect(),
        of.filter_map(|address| Ipv6::of(*address)).collect(),
    )
}

fn row(spec: &EndpointSpec) -> Endpoint {
    let (v4, v6) = addresses(spec);
    Endpoint {
        generation: spec.generation,
        owner: spec.owner,
        ipv4: v4.first().copied().unwrap_or_default(),
        ipv6: v6.first().copied().unwrap_or_default(),
        bridge: spec.bridge,
        flags: if spec.short_cut { endpoint_flags::SHORT_CUT } else { 0 },
        mac: Mac { octets: spec.mac },
        bridge_mac: Mac { octets: spec.bridge_mac },
        padding: [0; 2],
    }
}

fn place(spec: &EndpointSpec) -> (FdbKey, FdbEntry) {
    let mac = Mac { octets: spec.mac };
    let flags = if spec.short_cut { 0 } else { academy_common::fdb_flags::MOVED };
    (
        FdbKey { bridge: spec.bridge, mac, padding: 0 },
        FdbEntry { owner: spec.owner, ifindex: spec.ifindex, flags },
    )
}

fn wrong(what: String) -> Error {
    Error::Io { doing: "check", object: what, source: std::io::Error::other("not as added") }
}

//! Published ports.

use academy_common::{Ipv4, Ipv6, PortKey, PortMapping, PortVerdict, protocol};
use aya::{
    Pod,
    maps::{HashMap, MapData, MapError},
};
use nix::errno::Errno;

use super::{
    Datapath,
    batch::{self, Walk},
    pins::fail,
    rows::{self, Rows},
    types::{PortHolder, PortRow, PortRowKey},
};
use crate::error::{Error, Result};

/// `BPF_NOEXIST` of `linux/bpf.h`.
const NOEXIST: u64 = 1;

type Ports<A> = HashMap<MapData, PortKey<A>, PortMapping<A>>;

impl Datapath {
    /// Publishes all of `rows`, or none.
    ///
    /// # Errors
    /// Code 101 when one is published already; code 5 when the map is full.
    pub fn publish(&mut self, rows: &[PortRow]) -> Result<()> {
        let mut ports4 = self.hash(Ipv4::PORTS)?;
        let mut ports6 = self.hash(Ipv6::PORTS)?;
        for (done, row) in rows.iter().enumerate() {
            let inserted = match (rows::port::<Ipv4>(row), rows::port::<Ipv6>(row)) {
                (Some((key, value)), _) => ports4.insert(key, value, NOEXIST),
                (_, Some((key, value))) => ports6.insert(key, value, NOEXIST),
                _ => return Err(Error::Internal(format!("two families in one row: {row:?}"))),
            };
            if let Err(error) = inserted {
                for row in rows.iter().take(done) {
                    remove(&mut ports4, &row.key)?;
                    remove(&mut ports6, &row.key)?;
                }
                return Err(self.refusal(row, &error));
            }
        }
        Ok(())
    }

    fn refusal(&self, row: &PortRow, error: &MapError) -> Error {
        match errno(error) {
            Some(Errno::EEXIST) => {
                let holder = self.port_holder(&row.key).ok().flatten();
                let owner = holder.map_or(0, |holder| holder.owner);
                Error::PortTaken {
                    protocol: if row.key.protocol == protocol::UDP { "udp" } else { "tcp" },
                    address: row.key.address,
                    port: row.key.port,
                    owner: format!("another attachment (owner {owner:#018x})"),
                }
            }
            Some(Errno::E2BIG) => Error::Io {
                doing: "publish",
                object: format!("port {}", row.key.port),
                source: std::io::Error::other("the map of published ports is full (maxPorts)"),
            },
            _ => fail("publish", &format!("port {}", row.key.port), error),
        }
    }

    /// Everything that is published: port, owner, host side, verdict.
    ///
    /// # Errors
    /// Code 5 when the kernel does not let the maps be read.
    pub fn port_rows(&self) -> Result<Vec<(PortRowKey, u64, u32, PortVerdict)>> {
        let mut found = Vec::new();
        collect::<Ipv4>(&self.map(Ipv4::PORTS)?, &mut found)?;
        collect::<Ipv6>(&self.map(Ipv6::PORTS)?, &mut found)?;
        Ok(found)
    }

    /// Who has a port.
    ///
    /// # Errors
    /// As [`Self::port_rows`].
    pub fn port_holder(&self, key: &PortRowKey) -> Result<Option<PortHolder>> {
        let rows = self.port_rows()?;
        let holder = rows.iter().find(|(held, ..)| held == key);
        Ok(holder.map(|(_, owner, ifindex, _)| PortHolder { owner: *owner, ifindex: *ifindex }))
    }

    /// Removes what an attachment has published: of `keys`, or all of it. How many rows it was.
    ///
    /// # Errors
    /// As [`Self::port_rows`].
    pub fn unpublish(&mut self, owner: u64, keys: Option<&[PortRowKey]>) -> Result<usize> {
        let mut ports4: Ports<Ipv4> = self.hash(Ipv4::PORTS)?;
        let mut ports6: Ports<Ipv6> = self.hash(Ipv6::PORTS)?;
        let Some(keys) = keys else {
            let rows = self.port_rows()?;
            let own = rows.iter().filter(|(_, holder, ..)| *holder == owner);
            let mut removed = 0;
            for (key, ..) in own {
                removed += remove(&mut ports4, key)? + remove(&mut ports6, key)?;
            }
            return Ok(removed);
        };
        let mut removed = 0;
        for key in keys {
            if holds(&ports4, key, owner) {
                removed += remove(&mut ports4, key)?;
            } else if holds(&ports6, key, owner) {
                removed += remove(&mut ports6, key)?;
            }
        }
        Ok(removed)
    }
}

fn collect<A: Rows>(
    ports: &MapData,
    found: &mut Vec<(PortRowKey, u64, u32, PortVerdict)>,
) -> Result<()>
where
    PortKey<A>: Pod,
    PortMapping<A>: Pod,
{
    for (key, value) in batch::rows::<PortKey<A>, PortMapping<A>>(ports, A::PORTS, Walk::Whole)? {
        let verdict = rows::verdict(value.verdict);
        found.push((rows::port_row_key(&key), value.owner, value.ifindex, verdict));
    }
    Ok(())
}

fn holds<A: Rows>(ports: &Ports<A>, key: &PortRowKey, owner: u64) -> bool
where
    PortKey<A>: Pod,
    PortMapping<A>: Pod,
{
    let row = rows::port_key::<A>(key).and_then(|key| ports.get(&key, 0).ok());
    row.is_some_and(|row| row.owner == owner)
}

fn remove<A: Rows>(ports: &mut Ports<A>, key: &PortRowKey) -> Result<usize>
where
    PortKey<A>: Pod,
    PortMapping<A>: Pod,
{
    let Some(key) = rows::port_key::<A>(key) else { return Ok(0) };
    match ports.remove(&key) {
        Ok(()) => Ok(1),
        Err(error) if is_absent(&error) => Ok(0),
        Err(error) => Err(fail("remove from", A::PORTS, &error)),
    }
}

/// Whether a row was not there.
pub(super) fn is_absent(error: &MapError) -> bool {
    matches!(error, MapError::KeyNotFound) || errno(error) == Some(Errno::ENOENT)
}

fn errno(error: &MapError) -> Option<Errno> {
    match error {
        MapError::SyscallError(error) => error.io_error.raw_os_error().map(Errno::from_raw),
        _ => None,
    }
}

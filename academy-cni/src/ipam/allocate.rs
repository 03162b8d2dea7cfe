//! Choosing addresses for an attachment.

use std::{collections::HashSet, net::IpAddr, path::PathBuf};

use ipnet::IpNet;

use super::{
    lease::Lease,
    range::{Range, RangeSet},
    store::{Claim, Store},
};
use crate::{
    attachment::Attachment,
    config::{IpamConfig, RequestedAddress},
    error::{Error, Result},
    report::say,
};

/// An address that an attachment got.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Allocation {
    /// The address with the prefix length of its subnet.
    pub address: IpNet,
    /// The gateway of the subnet.
    pub gateway: Option<IpAddr>,
}

/// After so many addresses that are held in a row, the names of all of them are read at once.
const TRIES: usize = 32;

/// Takes one address of each set of ranges for an attachment: the requested one if there is one,
/// otherwise the next free one after the last that was given out. Either all are taken or none.
///
/// `is_alive` says whether the holder of a lease of academy's is. The intent of the ADD that asks
/// is no sign of life of its attachment.
///
/// # Errors
///
/// Code 100 when no address is free or a requested one is held; code 7 when the attachment has
/// one already, or a requested one is none that this network gives out.
pub fn allocate(
    config: &IpamConfig,
    store: &Store,
    attachment: &Attachment,
    is_alive: impl Fn(&Attachment) -> bool,
) -> Result<Vec<Allocation>> {
    let other = config.host_local_dir.as_deref().map(Store::open).transpose()?;
    let _guard = store.lock()?;
    refuse_second([Some(store), other.as_ref()], attachment, &is_alive)?;
    let allocator = Allocator {
        store,
        other: other.as_ref(),
        owner_file: store.begin(attachment)?,
        is_alive: &is_alive,
    };
    allocator.take_all(config).inspect_err(|_| {
        if let Err(error) = store.release_own(attachment) {
            say(format_args!("undo: free the addresses of {attachment}: {error}"));
        }
    })
}

/// Refuses an attachment that has an address, and frees what a dead one of the same names had.
fn refuse_second(
    stores: [Option<&Store>; 2],
    attachment: &Attachment,
    is_alive: impl Fn(&Attachment) -> bool,
) -> Result<()> {
    let refuse = |address: IpAddr| {
        Err(Error::Conflict(format!(
            "{attachment} already has {address}: duplicate allocation is not allowed"
        )))
    };
    for store in stores.into_iter().flatten() {
        match store.own_addresses(attachment)?.first() {
            Some(address) if is_alive(attachment) => return refuse(*address),
            _ => store.release_own(attachment)?,
        };
        if let Some(address) = store.foreign_address(attachment)? {
            return refuse(address);
        }
    }
    Ok(())
}

struct Allocator<'a, F> {
    store: &'a Store,
    /// Another directory whose addresses are held as well.
    other: Option<&'a Store>,
    owner_file: PathBuf,
    is_alive: &'a F,
}

impl<F: Fn(&Attachment) -> bool> Allocator<'_, F> {
    fn take_all(&self, config: &IpamConfig) -> Result<Vec<Allocation>> {
        let mut requested: Vec<&RequestedAddress> = config.requested.iter().collect();
        let mut allocations = Vec::new();
        for (index, set) in config.sets.iter().enumerate() {
            let wish = requested.iter().position(|wish| set.range_of(wish.address).is_some());
            let (address, range) = match wish.map(|position| requested.remove(position)) {
                Some(wish) => {
                    // A source of less weight does not ask for a second address of the set.
                    requested.retain(|other| {
                        other.source == wish.source || set.range_of(other.address).is_none()
                    });
                    self.take_requested(set, wish)?
                }
                None => self.take_next(index, set)?,
            };
            allocations.push(Allocation {
                address: IpNet::new(address, range.subnet().prefix_len())
                    .map_err(|error| Error::Internal(error.to_string()))?,
                gateway: Some(range.gateway()),
            });
        }
        match requested.first() {
            None => Ok(allocations),
            Some(wish) => Err(Error::config(
                wish.source,
                wish.address,
                "failed to allocate all requested IPs: no range set is left that has this one",
            )),
        }
    }

    fn take_requested<'s>(
        &self,
        set: &'s RangeSet,
        wish: &RequestedAddress,
    ) -> Result<(IpAddr, &'s Range)> {
        let address = wish.address;
        let not_available =
            |reason: String| Error::AddressTaken { address, ranges: set.to_string(), reason };
        let range = set
            .range_of(address)
            .ok_or_else(|| Error::Internal(format!("{address} is not in {set}")))?;
        if let Some(reason) = range.refuses(address) {
            return Err(Error::config(wish.source, address, reason));
        }
        if let Some(lease) = self.held_elsewhere(address)? {
            return Err(not_available(held_by(&lease)));
        }
        match self.take(address)? {
            None => Ok((address, range)),
            Some(lease) => Err(not_available(held_by(&lease))),
        }
    }

    fn take_next<'s>(&self, index: usize, set: &'s RangeSet) -> Result<(IpAddr, &'s Range)> {
        let last = self.store.last_reserved(index);
        // Free addresses first: a dead lease costs a look at its holder, and an address is better
        // not given out again at once.
        let mut held: Vec<(IpAddr, &Range)> = Vec::new();
        let mut names: Option<HashSet<IpAddr>> = None;
        for (address, range) in set.candidates(last) {
            if held.len() == TRIES && names.is_none() {
                names = Some(self.store.names()?.into_keys().collect());
            }
            let is_named = names.as_ref().is_some_and(|names| names.contains(&address));
            if is_named || self.held_elsewhere(address)?.is_some() {
                held.push((address, range));
                continue;
            }
            match self.store.claim(&self.owner_file, address)? {
                Claim::Taken => return self.chosen(index, address, range),
                Claim::Held(_) => held.push((address, range)),
            }
        }
        for (address, range) in &held {
            if self.held_elsewhere(*address)?.is_none() && self.take(*address)?.is_none() {
                return self.chosen(index, *address, range);
            }
        }
        Err(Error::Exhausted {
            ranges: set.to_string(),
            subnet: set.subnets(),
            used: held.len() as u128,
            free: 0,
        })
    }

    fn chosen<'s>(
        &self,
        index: usize,
        address: IpAddr,
        range: &'s Range,
    ) -> Result<(IpAddr, &'s Range)> {
        self.store.set_last_reserved(index, address)?;
        Ok((address, range))
    }

    /// Takes an address, also from a dead holder. Otherwise says who holds it.
    fn take(&self, address: IpAddr) -> Result<Option<Lease>> {
        let lease = match self.store.claim(&self.owner_file, address)? {
            Claim::Taken => return Ok(None),
            Claim::Held(lease) => lease,
        };
        if !self.is_dead(&lease) {
            return Ok(Some(lease));
        }
        self.store.remove_dead(&lease)?;
        match self.store.claim(&self.owner_file, address)? {
            Claim::Taken => Ok(None),
            Claim::Held(lease) => Ok(Some(lease)),
        }
    }

    fn is_dead(&self, lease: &Lease) -> bool {
        match self.store.attachment(lease) {
            Some(attachment) => !(self.is_alive)(&attachment),
            // An empty file: `host-local` was killed after it made it. Its lock is ours now.
            None => lease.own || (lease.holder.is_none() && self.store.is_empty(lease.address)),
        }
    }

    /// The lease in the other directory. What is there is alive.
    fn held_elsewhere(&self, address: IpAddr) -> Result<Option<Lease>> {
        self.other.map_or(Ok(None), |store| store.lease(address))
    }
}

fn held_by(lease: &Lease) -> String {
    match &lease.holder {
        Some(holder) => format!("it is held by {holder}"),
        None => "it is held by an unknown holder".to_owned(),
    }
}

#[cfg(test)]
#[path = "allocate_tests.rs"]
mod tests;

//! Ranges of addresses, with the rules of `host-local`.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    ops::RangeInclusive,
};

use ipnet::IpNet;

use crate::{
    config::Fields,
    error::{Error, Result},
};

/// Consecutive addresses of one subnet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    subnet: IpNet,
    first: IpAddr,
    last: IpAddr,
    gateway: IpAddr,
}

impl Range {
    /// Reads `subnet`, `rangeStart`, `rangeEnd` and `gateway`.
    ///
    /// # Errors
    ///
    /// Code 7, naming the field.
    pub(crate) fn read(fields: &Fields<'_>) -> Result<Self> {
        let what = "must be a network with its prefix length";
        let subnet: IpNet = fields
            .parsed("subnet", what)?
            .ok_or_else(|| fields.wrong("subnet", "must be there: it says which addresses"))?;
        let subnet = check_subnet(fields, subnet)?;
        let inside = |key: &str| match fields.address(key)? {
            Some(address) if !subnet.contains(&address) => {
                Err(fields.wrong(key, &format!("must be in network {subnet}")))
            }
            other => Ok(other),
        };
        let second = offset(subnet.network(), 1);
        let gateway = match fields.address("gateway")? {
            // A router may be known by its link-local address alone.
            Some(IpAddr::V6(address)) if address.is_unicast_link_local() => address.into(),
            _ => inside("gateway")?.unwrap_or(second),
        };
        if is_reserved(subnet, gateway) {
            let reason = "must not be the address of the network or its broadcast";
            return Err(fields.wrong("gateway", reason));
        }
        let range = Self {
            subnet,
            first: inside("rangeStart")?.unwrap_or(second),
            last: inside("rangeEnd")?.unwrap_or_else(|| last_address(subnet)),
            gateway,
        };
        if number(range.first) > number(range.last) {
            return Err(fields.wrong("rangeEnd", "must not come before rangeStart"));
        }
        Ok(range)
    }

    /// The network.
    #[must_use]
    pub fn subnet(&self) -> IpNet {
        self.subnet
    }

    /// The gateway of the network.
    #[must_use]
    pub fn gateway(&self) -> IpAddr {
        self.gateway
    }

    /// Whether the address is one of the range. It may be one that is never given out.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.first.is_ipv4()
            && (number(self.first)..=number(self.last)).contains(&number(address))
    }

    /// Why an address of the range is never given out, if so.
    #[must_use]
    pub fn refuses(&self, address: IpAddr) -> Option<&'static str> {
        if address == self.gateway {
            return Some("it is the gateway of the subnet");
        }
        is_reserved(self.subnet, address)
            .then_some("it is the address of the network or its broadcast")
    }

    fn overlaps(&self, other: &Self) -> bool {
        [other.first, other.last].into_iter().any(|address| self.contains(address))
            || other.contains(self.first)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// Ranges of one family, of which an attachment gets one address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RangeSet {
    ranges: Vec<Range>,
}

impl RangeSet {
    /// A set of these ranges; `field` is where it stands in the configuration.
    ///
    /// # Errors
    ///
    /// Code 7 for an empty set, for mixed families, and for ranges that overlap.
    pub fn new(ranges: Vec<Range>, field: &str) -> Result<Self> {
        let Some(first) = ranges.first() else {
            return Err(Error::config(field, "[]", "empty range set"));
        };
        let is_ipv4 = first.first.is_ipv4();
        if let Some(other) = ranges.iter().find(|range| range.first.is_ipv4() != is_ipv4) {
            return Err(Error::config(field, other.subnet, "mixed address families"));
        }
        for (index, one) in ranges.iter().enumerate() {
            if let Some(other) = ranges.iter().skip(index + 1).find(|other| one.overlaps(other)) {
                let reason = format!("subnets {} and {} overlap: {one}", one.subnet, other.subnet);
                return Err(Error::config(field, other, reason));
            }
        }
        Ok(Self { ranges })
    }

    /// Whether the set is one of IPv4.
    #[must_use]
    pub fn is_ipv4(&self) -> bool {
        self.ranges.iter().all(|range| range.first.is_ipv4())
    }

    /// The range that an address belongs to.
    #[must_use]
    pub fn range_of(&self, address: IpAddr) -> Option<&Range> {
        self.ranges.iter().find(|range| range.contains(address))
    }

    /// The subnets, as errors name them.
    #[must_use]
    pub fn subnets(&self) -> String {
        let subnets: Vec<_> = self.ranges.iter().map(|range| range.subnet.to_string()).collect();
        subnets.join(",")
    }

    /// Every address that may be given out, each once, beginning after `last`.
    pub fn candidates(&self, last: Option<IpAddr>) -> impl Iterator<Item = (IpAddr, &Range)> {
        let position = last.and_then(|last| {
            let index = self.ranges.iter().position(|range| range.contains(last))?;
            Some((index, number(last)))
        });
        let (index, last) = position.unzip();
        let index = index.unwrap_or(0);
        // The range of the last address comes in two parts: what is after it first, what is up to
        // it in the end.
        let head = self.ranges.get(index).map(|range| (range, after(range, last)));
        let rest = self.ranges.iter().cycle().skip(index + 1).take(self.ranges.len() - 1);
        let rest = rest.map(|range| (range, after(range, None)));
        let tail = last.and_then(|last| {
            let range = self.ranges.get(index)?;
            Some((range, number(range.first)..=last))
        });
        head.into_iter()
            .chain(rest)
            .chain(tail)
            .flat_map(|(range, numbers)| {
                numbers.map(move |number| (at(number, range.first.is_ipv4()), range))
            })
            .filter(|(address, range)| range.refuses(*address).is_none())
    }
}

/// The addresses of a range after one of them, or all of them.
fn after(range: &Range, last: Option<u128>) -> RangeInclusive<u128> {
    let (first, end) = (number(range.first), number(range.last));
    match last {
        None => first..=end,
        Some(last) if last >= end => RangeInclusive::new(1, 0),
        Some(last) => last + 1..=end,
    }
}

impl fmt::Display for RangeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.ranges.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{range}")?;
        }
        Ok(())
    }
}

/// Checks that no address belongs to two sets.
///
/// # Errors
///
/// Code 7; `field` is where the sets stand in the configuration.
pub fn check_overlaps(sets: &[RangeSet], field: &str) -> Result<()> {
    for (index, one) in sets.iter().enumerate() {
        for (offset, other) in sets.iter().skip(index + 1).enumerate() {
            let ranges = &one.ranges;
            if ranges.iter().any(|range| other.ranges.iter().any(|other| range.overlaps(other))) {
                let second = index + 1 + offset;
                let reason = format!("range set {index} overlaps with {second}: {one}");
                return Err(Error::config(field, other, reason));
            }
        }
    }
    Ok(())
}

fn check_subnet(fields: &Fields<'_>, subnet: IpNet) -> Result<IpNet> {
    if subnet.addr() != subnet.network() {
        let reason = format!(
            "Network has host bits set. For a subnet mask of length {} the network address is {}",
            subnet.prefix_len(),
            subnet.network()
        );
        return Err(fields.wrong("subnet", &reason));
    }
    // One address besides network, broadcast and gateway; for IPv6 as in host-local.
    if subnet.prefix_len() > subnet.max_prefix_len() - 2 {
        let reason = format!("Network {subnet} too small to allocate from");
        return Err(fields.wrong("subnet", &reason));
    }
    Ok(subnet)
}

/// The network's own address (of IPv6: the routers' anycast, RFC 4291 2.6.1), and the broadcast of
/// IPv4.
fn is_reserved(subnet: IpNet, address: IpAddr) -> bool {
    address == subnet.network() || (address.is_ipv4() && address == subnet.broadcast())
}

/// The last address of a subnet that may be given out.
fn last_address(subnet: IpNet) -> IpAddr {
    match subnet {
        IpNet::V4(subnet) => at(u128::from(u32::from(subnet.broadcast())) - 1, true),
        IpNet::V6(subnet) => subnet.broadcast().into(),
    }
}

fn offset(address: IpAddr, by: u128) -> IpAddr {
    at(number(address).saturating_add(by), address.is_ipv4())
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

fn at(number: u128, is_ipv4: bool) -> IpAddr {
    match u32::try_from(number) {
        Ok(number) if is_ipv4 => Ipv4Addr::from(number).into(),
        _ => Ipv6Addr::from(number).into(),
    }
}

#[cfg(test)]
#[path = "range_tests.rs"]
mod tests;

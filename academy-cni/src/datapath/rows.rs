//! Between addresses of the standard library and rows of the maps.

use std::net::IpAddr;

use super::types::{PortRow, PortRowKey};
use academy_common::{
    Be16, Family, Ipv4, Ipv6, PortKey, PortMapping, PortVerdict, map_names, port_flags,
};

/// A family and the names of its maps.
pub(super) trait Rows: Family {
    const PORTS: &'static str;
    const ADDRESSES: &'static str;
    const LOCAL: &'static str;
    const FLOWS: &'static str;
    const OPENING: &'static str;

    fn of(address: IpAddr) -> Option<Self>;
    fn address(self) -> IpAddr;
}

macro_rules! family {
    ($family:ident, $variant:ident, $ports:ident, $addresses:ident, $local:ident, $flows:ident,
     $opening:ident) => {
        impl Rows for $family {
            const PORTS: &'static str = map_names::$ports;
            const ADDRESSES: &'static str = map_names::$addresses;
            const LOCAL: &'static str = map_names::$local;
            const FLOWS: &'static str = map_names::$flows;
            const OPENING: &'static str = map_names::$opening;

            fn of(address: IpAddr) -> Option<Self> {
                match address {
                    IpAddr::$variant(address) => Some(Self { octets: address.octets() }),
                    _ => None,
                }
            }

            fn address(self) -> IpAddr {
                IpAddr::$variant(self.octets.into())
            }
        }
    };
}

family!(Ipv4, V4, PORTS4, ADDRESSES4, LOCAL4, FLOWS4, OPENING4);
family!(Ipv6, V6, PORTS6, ADDRESSES6, LOCAL6, FLOWS6, OPENING6);

/// The row of a port mapping; `None` where it is of the other family.
pub(super) fn port<A: Rows>(row: &PortRow) -> Option<(PortKey<A>, PortMapping<A>)> {
    let key = port_key(&row.key)?;
    let snat_address = match row.snat {
        Some(address) => A::of(address)?,
        None => A::ANY,
    };
    let mapping = PortMapping {
        generation: row.generation,
        owner: row.owner,
        address: A::of(row.container)?,
        snat_address,
        ifindex: row.ifindex,
        port: Be16::new(row.container_port),
        verdict: row.verdict as u8,
        flags: if row.masq_all { port_flags::MASQUERADE_ALL } else { 0 },
    };
    Some((key, mapping))
}

/// The key of a published port; `None` where it is of the other family.
pub(super) fn port_key<A: Rows>(key: &PortRowKey) -> Option<PortKey<A>> {
    Some(PortKey {
        address: A::of(key.address)?,
        port: Be16::new(key.port),
        protocol: key.protocol,
        padding: 0,
    })
}

/// What a key says.
pub(super) fn port_row_key<A: Rows>(key: &PortKey<A>) -> PortRowKey {
    PortRowKey { protocol: key.protocol, address: key.address.address(), port: key.port.get() }
}

/// What a row does with its packets.
pub(super) fn verdict(number: u8) -> PortVerdict {
    if number == PortVerdict::Host as u8 { PortVerdict::Host } else { PortVerdict::Container }
}

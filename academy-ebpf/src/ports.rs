//! Published ports: which mapping a packet asks for, and what its client appears as.

use academy_common::{Be16, FlowKey, PortKey, PortMapping, PortVerdict, port_flags};

use crate::{ip::Ip, maps, pass::Pass};

/// A mapping that a packet asks for.
pub struct Published<A: 'static> {
    /// The row.
    pub mapping: &'static PortMapping<A>,
    /// Whether it stands for any address of the host.
    pub wildcard: bool,
}

impl<A: Ip> Published<A> {
    /// The mapping, if the endpoint that it was made for still is there.
    ///
    /// # Errors
    ///
    /// [`Pass::Foreign`].
    #[inline(always)]
    pub fn live(&self) -> Result<&'static PortMapping<A>, Pass> {
        let mapping = self.mapping;
        maps::endpoint(mapping.ifindex)
            .filter(|endpoint| endpoint.generation == mapping.generation)
            .map(|_| mapping)
            .ok_or(Pass::Foreign)
    }
}

/// The mapping for a packet's destination, the exact one before the wildcard. Not yet decided:
/// whether the destination is this host's, see [`crate::local`].
///
/// # Errors
///
/// [`Pass::Foreign`] where nothing is published, [`Pass::HostPort`] where a process of the host
/// holds the address.
#[inline(always)]
pub fn find<A: Ip>(key: &FlowKey<A>) -> Result<Published<A>, Pass> {
    let exact = PortKey {
        address: key.destination,
        port: key.destination_port,
        protocol: key.protocol,
        padding: 0,
    };
    let (mapping, wildcard) = match maps::port(&exact) {
        Some(mapping) => (mapping, false),
        None => {
            let any = PortKey { address: A::ANY, ..exact };
            (maps::port(&any).ok_or(Pass::Foreign)?, true)
        }
    };
    if mapping.verdict == PortVerdict::Host as u8 {
        return Err(Pass::HostPort);
    }
    Ok(Published { mapping, wildcard })
}

/// Whether (address, port, protocol) is published, exactly or by a wildcard.
#[inline(always)]
#[must_use]
pub fn is_published<A: Ip>(address: A, port: Be16, protocol: u8) -> bool {
    let exact = PortKey { address, port, protocol, padding: 0 };
    maps::port(&exact).is_some() || maps::port(&PortKey { address: A::ANY, ..exact }).is_some()
}

/// What a client must appear as; `None` where its own address is kept.
///
/// # Errors
///
/// [`Pass::Unanswerable`] where the answer could not come back and the mapping has no address to
/// appear as (`snat: false`).
#[inline(always)]
pub fn client_address<A: Ip>(
    mapping: &PortMapping<A>,
    client: A,
    itself: bool,
) -> Result<Option<A>, Pass> {
    let all = mapping.flags & port_flags::MASQUERADE_ALL != 0;
    if !all && !itself && !client.is_loopback() && !client.is_link_local() {
        return Ok(None);
    }
    if mapping.snat_address.is_unspecified() {
        return Err(Pass::Unanswerable);
    }
    Ok(Some(mapping.snat_address))
}

#[cfg(test)]
mod tests {
    use academy_common::Ipv4;

    use super::*;

    const GATEWAY: Ipv4 = Ipv4 { octets: [10, 98, 0, 1] };
    const OUTSIDE: Ipv4 = Ipv4 { octets: [192, 0, 2, 7] };

    fn mapping(snat_address: Ipv4, flags: u8) -> PortMapping<Ipv4> {
        PortMapping { snat_address, flags, ..PortMapping::default() }
    }

    #[test]
    fn a_client_keeps_its_address_unless_the_answer_could_not_come_back() {
        let mapping = mapping(GATEWAY, 0);
        assert_eq!(client_address(&mapping, OUTSIDE, false), Ok(None));
        assert_eq!(client_address(&mapping, OUTSIDE, true), Ok(Some(GATEWAY)));
        for lost in [[127, 0, 0, 1], [127, 9, 9, 9], [169, 254, 1, 1]] {
            let client = Ipv4 { octets: lost };
            assert_eq!(client_address(&mapping, client, false), Ok(Some(GATEWAY)), "{lost:?}");
        }
    }

    #[test]
    fn masq_all_is_for_every_client() {
        let mapping = mapping(GATEWAY, port_flags::MASQUERADE_ALL);
        assert_eq!(client_address(&mapping, OUTSIDE, false), Ok(Some(GATEWAY)));
    }

    #[test]
    fn without_snat_such_clients_are_the_kernels() {
        let mapping = mapping(Ipv4::default(), 0);
        assert_eq!(client_address(&mapping, OUTSIDE, false), Ok(None));
        assert_eq!(client_address(&mapping, OUTSIDE, true), Err(Pass::Unanswerable));
        let loopback = Ipv4 { octets: [127, 0, 0, 1] };
        assert_eq!(client_address(&mapping, loopback, false), Err(Pass::Unanswerable));
    }
}

//! The interfaces through which the host is reached, and what the programs know of the host.

use std::collections::{HashMap as Map, HashSet};

use academy_common::{
    Ipv4, Ipv6, LocalKey, Mac, Settings, Uplink, UplinkKey, UplinkKind, map_names, settings_flags,
};
use aya::{Pod, maps::HashMap};

use super::{
    Datapath,
    endpoints::retain_not,
    hooks::Hook,
    pins::fail,
    rows::Rows,
    types::{AttachMode, HostLink, HostState},
};
use crate::{error::Result, files, report::say, sysctl};

/// `ARPHRD_ETHER` of `linux/if_arp.h`.
const ETHERNET: u16 = 1;
/// The interface that kube-proxy's IPVS mode gives the service addresses to.
const SERVICES: &str = "kube-ipvs0";

impl Datapath {
    /// Brings hooks and rows up to date with the host as it is.
    ///
    /// # Errors
    /// Code 5 when the kernel refuses a row or a hook.
    pub fn refresh(&mut self, host: &HostState, attach: AttachMode) -> Result<()> {
        self.refresh_endpoints(host)?;
        let endpoints = self.endpoints()?;
        let containers: HashSet<u32> = endpoints.iter().map(|(index, _)| *index).collect();
        let bridges: HashSet<u32> = endpoints.iter().map(|(_, row)| row.bridge).collect();
        let uplinks: Vec<_> = host
            .links
            .iter()
            .filter(|link| !containers.contains(&link.index))
            .filter(|link| is_uplink(link, host, bridges.contains(&link.index)))
            .collect();
        self.refresh_settings(host, &uplinks)?;
        self.refresh_uplinks(&uplinks)?;
        self.remove_dead_links(host)?;
        for link in &uplinks {
            let hooked = self
                .attach(&link.name, link.index, Hook::FROM_UPLINK, attach)
                .and_then(|()| self.attach(&link.name, link.index, Hook::TO_UPLINK, attach));
            if let Err(error) = hooked {
                // Interfaces come and go; one that is still there on the next call is served then.
                say(format_args!("warning: {error}"));
            }
        }
        for lo in host.links.iter().filter(|link| link.loopback) {
            self.attach(&lo.name, lo.index, Hook::FROM_LOOPBACK, attach)?;
        }
        Ok(())
    }

    fn refresh_settings(&self, host: &HostState, uplinks: &[&HostLink]) -> Result<()> {
        let old = self.settings()?;
        let listed = host.links.iter().any(|link| link.name == SERVICES);
        let mut flags = 0;
        if host.bridge_netfilter {
            flags |= settings_flags::BRIDGE_NETFILTER;
        }
        if listed {
            flags |= settings_flags::LOCAL_LIST;
        }
        self.refresh_local::<Ipv4>(host, uplinks, listed)?;
        self.refresh_local::<Ipv6>(host, uplinks, listed)?;
        let (snat_port_first, snat_port_last) = snat_ports();
        let new = Settings { flags, snat_port_first, snat_port_last, ..old };
        if new == old { Ok(()) } else { self.set_settings(&new) }
    }

    fn refresh_local<A: Rows>(
        &self,
        host: &HostState,
        uplinks: &[&HostLink],
        listed: bool,
    ) -> Result<()>
    where
        LocalKey<A>: Pod,
    {
        let own = |index: u32| {
            uplinks.iter().any(|link| link.index == index)
                || host.links.iter().any(|link| link.loopback && link.index == index)
        };
        let addresses = host.addresses.iter().filter(|(index, _)| listed && own(*index));
        let wanted: Map<LocalKey<A>, u32> = addresses
            .filter_map(|(index, address)| Some((LocalKey { address: A::of(*address)? }, *index)))
            .collect();
        let mut rows: HashMap<_, LocalKey<A>, u32> = self.hash(A::LOCAL)?;
        retain_not(&mut rows, A::LOCAL, |key, _| !wanted.contains_key(key))?;
        for (key, index) in wanted {
            rows.insert(key, index, 0).map_err(|error| fail("write", A::LOCAL, &error))?;
        }
        Ok(())
    }

    fn refresh_uplinks(&self, uplinks: &[&HostLink]) -> Result<()> {
        let mut rows: HashMap<_, UplinkKey, Uplink> = self.hash(map_names::UPLINKS)?;
        let indices: HashSet<u32> = uplinks.iter().map(|link| link.index).collect();
        retain_not(&mut rows, map_names::UPLINKS, |key, _| !indices.contains(&key.ifindex))?;
        for link in uplinks {
            let key = UplinkKey { ifindex: link.index };
            let mac = Mac { octets: link.mac.unwrap_or_default() };
            let row = Uplink { kind: kind(link) as u32, mac, padding: 0 };
            if rows.get(&key, 0).is_ok_and(|old| old == row) {
                continue;
            }
            rows.insert(key, row, 0).map_err(|error| fail("write", map_names::UPLINKS, &error))?;
        }
        Ok(())
    }

    fn remove_dead_links(&self, host: &HostState) -> Result<()> {
        for (index, pin) in self.link_pins() {
            if !host.links.iter().any(|link| link.index == index) {
                files::remove(&pin)?;
            }
        }
        Ok(())
    }
}

fn is_uplink(link: &HostLink, host: &HostState, of_a_container: bool) -> bool {
    if link.loopback || !link.up || link.name == SERVICES {
        return false;
    }
    if of_a_container {
        return true;
    }
    let chosen = host.host_interfaces.is_empty()
        || host.host_interfaces.iter().any(|glob| matches(glob, &link.name));
    link.has_address && link.master.is_none() && chosen
}

fn kind(link: &HostLink) -> UplinkKind {
    if link.kind == "bridge" {
        UplinkKind::Bridge
    } else if link.arphrd == ETHERNET {
        UplinkKind::Ethernet
    } else {
        UplinkKind::Bare
    }
}

/// Whether a name fits a pattern, in which `*` stands for any letters and `?` for any one.
fn matches(glob: &str, name: &str) -> bool {
    match (glob.chars().next(), name.chars().next()) {
        (None, None) => true,
        (Some('*'), _) => {
            let rest = glob.get(1..).unwrap_or_default();
            matches(rest, name)
                || name.chars().next().is_some_and(|first| {
                    matches(glob, name.get(first.len_utf8()..).unwrap_or_default())
                })
        }
        (Some(want), Some(have)) if want == '?' || want == have => matches(
            glob.get(want.len_utf8()..).unwrap_or_default(),
            name.get(have.len_utf8()..).unwrap_or_default(),
        ),
        _ => false,
    }
}

/// The source ports of translated clients: outside of what the host's own sockets get.
fn snat_ports() -> (u16, u16) {
    const LEAST: u16 = 1024;
    let range = sysctl::get("net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut numbers = range.split_whitespace().filter_map(|word| word.parse::<u16>().ok());
    let (Some(first), Some(last)) = (numbers.next(), numbers.next()) else {
        return (61_000, u16::MAX);
    };
    if u16::MAX - last >= LEAST {
        (last + 1, u16::MAX)
    } else if first > 2 * LEAST {
        (LEAST, first - 1)
    } else {
        (LEAST, u16::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_names() {
        for (glob, name, fits) in [
            ("eth0", "eth0", true),
            ("eth0", "eth01", false),
            ("eth*", "eth01", true),
            ("*", "wg0", true),
            ("e?h*", "eth0", true),
            ("e?h", "eh", false),
            ("", "eth0", false),
        ] {
            assert_eq!(matches(glob, name), fits, "{glob} {name}");
        }
    }
}

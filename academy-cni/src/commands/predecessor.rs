//! Moving a node over: containers that the reference `bridge` plugin attached, which are detached
//! with academy's configuration.

use crate::{
    attachment::ALIAS_PREFIX,
    error::Result,
    netlink::{Link, Netlink},
    netns::Netns,
};

/// Removes the container's interface if it is a veth whose other end is a port of the bridge.
pub(super) fn remove(netlink: &Netlink, netns: &Netns, ifname: &str, bridge: &str) -> Result<()> {
    let Some(inside) = netlink.open_in(netns)?.link(ifname)? else { return Ok(()) };
    let Some(host) = inside.peer_index.map(|index| netlink.link_at(index)).transpose()?.flatten()
    else {
        return Ok(());
    };
    // One of academy's own goes the way of its own, ports first.
    if host.alias.as_deref().is_some_and(|alias| alias.starts_with(ALIAS_PREFIX)) {
        return Ok(());
    }
    let bridge = netlink.link(bridge)?;
    if is_pair(&inside, &host) && bridge.is_some_and(|bridge| host.master == Some(bridge.index)) {
        netlink.delete_link(host.index, &host.name)?;
    }
    Ok(())
}

/// Whether the two are the ends of one veth. Indexes are those of the other end's namespace, so
/// each has to name the other; a pair within the container does not pass for one.
fn is_pair(inside: &Link, host: &Link) -> bool {
    [inside, host].iter().all(|link| link.kind == "veth" && link.peer_netns.is_some())
        && inside.peer_index == Some(host.index)
        && host.peer_index == Some(inside.index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(index: u32, peer_index: u32) -> Link {
        Link {
            index,
            kind: "veth".into(),
            peer_index: Some(peer_index),
            peer_netns: Some(0),
            ..Link::default()
        }
    }

    #[test]
    fn only_ends_that_name_each_other_are_a_pair() {
        assert!(is_pair(&end(2, 9), &end(9, 2)));
        assert!(!is_pair(&end(2, 9), &end(9, 3)));
        assert!(!is_pair(&Link { peer_netns: None, ..end(2, 9) }, &end(9, 2)));
        assert!(!is_pair(&Link { kind: "macvlan".into(), ..end(2, 9) }, &end(9, 2)));
    }
}

//! DEL: detach a container.

use super::{Call, detach::Detacher, failures::Failures, predecessor};
use crate::{
    config::TeardownConfig,
    datapath::{Datapath, Sweep},
    error::Result,
    lock::GlobalLock,
    netlink::Netlink,
    record,
};

/// Detaches the container. What is missing is no failure: an attachment that never was is
/// detached. Every step is tried, and only then the first real failure is reported.
///
/// # Errors
/// The first failure, or code 8 when the namespace is the plugin's own: then no interface has
/// been touched.
pub(super) fn run(call: &Call) -> Result<()> {
    let attachment = call.attachment()?;
    // The configuration may be anything by now; only where the leases are is taken from it.
    let config = TeardownConfig::of(&call.config);
    let netns = call.netns_if_any();
    let own_netns = netns.as_ref().map_or(Ok(()), |netns| call.refuse_own_netns(netns));
    let _lock = GlobalLock::acquire(&call.paths)?;
    let netlink = Netlink::open()?;
    let mut failures = Failures::default();
    let record = failures.note(record::load(&call.paths, &attachment)).flatten();
    let mut datapath = failures.note(Datapath::open(&call.paths)).flatten();
    if let (None, Some(netns), Ok(())) = (&record, &netns, &own_netns) {
        failures.note(predecessor::remove(&netlink, netns, attachment.ifname(), &config.bridge));
    }
    let mut detacher = Detacher::new(&call.paths, &netlink, datapath.as_mut());
    if own_netns.is_err() {
        detacher.leave_devices();
    }
    detacher.also_release_in(config.stores(&call.paths, attachment.network()));
    detacher.detach(&attachment, record.as_ref(), &mut failures);
    if let Some(datapath) = &mut datapath {
        failures.note(datapath.sweep(Sweep::Some));
    }
    failures.note(own_netns);
    failures.finish()
}

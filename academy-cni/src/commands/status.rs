//! STATUS: whether an ADD could succeed.

use super::Call;
use crate::{
    config::{IpamConfig, NetworkConfig},
    datapath,
    error::{Error, Result},
    ipam::Store,
    report::{say, say_failure},
};

/// Says what makes every ADD fail. Changes nothing and takes no lock, since runtimes ask every
/// few seconds. That no address is free is only said on stderr: a DEL changes it, and a runtime
/// that is told "not available" takes the whole node out of service.
///
/// # Errors
/// Code 50, or what is wrong with the configuration.
pub(super) fn run(call: &Call) -> Result<()> {
    let config = NetworkConfig::for_status(&call.config)?;
    datapath::probe().map_err(|error| match error {
        Error::NotReady(_) => error,
        other => Error::NotReady(other.to_string()),
    })?;
    if let Some(ipam) = &config.ipam {
        say_failure(warn_if_exhausted(ipam));
    }
    Ok(())
}

fn warn_if_exhausted(ipam: &IpamConfig) -> Result<()> {
    let store = Store::open(&ipam.store_dir)?;
    for set in &ipam.sets {
        if store.is_exhausted(set)? {
            say(format_args!("warning: no address of {set} is free"));
        }
    }
    Ok(())
}

//! The commands: what the runtime or the administrator asks for.

mod add;
mod check;
mod del;
mod detach;
mod failures;
mod gc;
mod liveness;
mod ports;
mod predecessor;
mod reset;
mod status;
mod sync;

use std::path::Path;

use serde_json::Value;

pub use reset::reset;
pub use sync::sync;

use crate::{
    attachment::{Attachment, check_network},
    config::{Json, NetworkConfig},
    datapath::{AttachMode, Datapath},
    error::{Error, Result},
    host::Host,
    netns::Netns,
    paths::Paths,
    spec::{Command, Env, Version, versions_document},
};

/// One call of the plugin.
#[derive(Debug)]
pub struct Call {
    env: Env,
    paths: Paths,
    version: Version,
    network: String,
    config: Json,
}

impl Call {
    /// A call with the environment `env` and the configuration `config`.
    ///
    /// # Errors
    /// Code 1 or 6 for its version, 7 for its name.
    pub fn new(env: Env, config: Json) -> Result<Self> {
        let version = Version::of(&config)?;
        version.check_allows(env.command)?;
        let network = match config.get("name") {
            Some(Json::String(name)) => name.clone(),
            Some(other) => return Err(Error::config("name", other, "must be a string")),
            None => String::new(),
        };
        check_network(&network)?;
        Ok(Self { env, paths: Paths::from_env(), version, network, config })
    }

    /// The attachment that the call is about.
    fn attachment(&self) -> Result<Attachment> {
        Attachment::new(&self.network, &self.env.container_id, &self.env.ifname)
    }

    /// Refuses the namespace that the plugin runs in, unless the environment allows it.
    fn refuse_own_netns(&self, netns: &Netns) -> Result<()> {
        if self.env.netns_override || !netns.is_own()? {
            return Ok(());
        }
        Err(Error::Netns {
            path: self.env.netns.clone(),
            reason: "plugin's netns and netns from CNI_NETNS should not be the same".to_owned(),
        })
    }

    /// The container's namespace, if there is one still.
    fn netns_if_any(&self) -> Option<Netns> {
        if self.env.netns.is_empty() {
            return None;
        }
        Netns::open(Path::new(&self.env.netns)).ok()
    }
}

/// Does what the call asks for and returns what is to be printed.
///
/// # Errors
/// What went wrong, with its code.
pub fn run(call: &Call) -> Result<Option<Value>> {
    match call.env.command {
        Command::Add => add::run(call).map(Some),
        Command::Del => del::run(call).map(|()| None),
        Command::Check => check::run(call).map(|()| None),
        Command::Gc => gc::run(call).map(|()| None),
        Command::Status => status::run(call).map(|()| None),
        Command::Version => Ok(Some(versions_document())),
    }
}

/// Has the data plane look at the host again. Calls without a configuration of their own, or with
/// one that is no good, have the defaults.
fn refresh(datapath: &mut Datapath, host: &Host, config: Option<&NetworkConfig>) -> Result<()> {
    match config {
        Some(config) => {
            let state = host.state(&config.host_interfaces, config.fast_path_on);
            datapath.refresh(&state, config.attach)
        }
        None => datapath.refresh(&host.state(&[], false), AttachMode::Auto),
    }
}

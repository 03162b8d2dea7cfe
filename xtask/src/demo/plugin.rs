//! The runtime's side of CNI: a conflist is walked, each plugin executed with its environment and
//! configuration, results are handed on.

use std::{
    io::Write,
    net::IpAddr,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{BPFFS, DIRECTORY, machines::HOST};
use crate::netns;

/// The interface's name in the containers.
const INTERFACE: &str = "eth0";

/// A network, and the plugin that makes it.
pub struct Network {
    program: PathBuf,
    list: List,
}

/// A conflist.
#[derive(Deserialize)]
struct List {
    #[serde(rename = "cniVersion")]
    version: String,
    name: String,
    plugins: Vec<Map<String, Value>>,
}

/// One interface of one container.
pub struct Attachment {
    /// The container's namespace, also its id.
    pub container: &'static str,
    /// The names of the interfaces that ADD made.
    pub interfaces: Vec<String>,
    /// The container's addresses, in the order of the ranges.
    pub addresses: Vec<IpAddr>,
    /// Its gateways, likewise.
    pub gateways: Vec<IpAddr>,
    ports: Vec<Value>,
    result: Option<Value>,
}

/// The part of a result that is read here.
#[derive(Deserialize)]
struct Added {
    interfaces: Vec<Interface>,
    ips: Vec<Ip>,
}

#[derive(Deserialize)]
struct Interface {
    name: String,
}

#[derive(Deserialize)]
struct Ip {
    address: String,
    gateway: IpAddr,
}

impl Network {
    /// The network of a conflist whose only plugin is academy.
    ///
    /// # Errors
    /// When it is no conflist or has other plugins.
    pub fn new(program: &Path, conflist: &str) -> Result<Self> {
        let list: List = serde_json::from_str(conflist).context("the conflist")?;
        let is_academy = |plugin: &Map<_, _>| plugin.get("type") == Some(&json!("academy"));
        if !list.plugins.iter().all(is_academy) {
            bail!("the demo knows no other plugin than academy");
        }
        Ok(Self { program: program.to_owned(), list })
    }

    /// ADD.
    ///
    /// # Errors
    /// With what the plugin said.
    pub fn add(&self, container: &'static str, ports: Vec<Value>) -> Result<Attachment> {
        let mut attachment = Attachment {
            container,
            interfaces: Vec::new(),
            addresses: Vec::new(),
            gateways: Vec::new(),
            ports,
            result: None,
        };
        for plugin in &self.list.plugins {
            let said = self.call("ADD", &attachment, plugin)?;
            attachment.read(&said.stdout).context("the result of ADD")?;
        }
        Ok(attachment)
    }

    /// CHECK.
    ///
    /// # Errors
    /// With what the plugin said.
    pub fn check(&self, attachment: &Attachment) -> Result<()> {
        let mut plugins = self.list.plugins.iter();
        plugins.try_for_each(|plugin| self.call("CHECK", attachment, plugin).map(drop))
    }

    /// DEL, last plugin first.
    ///
    /// # Errors
    /// With what the plugin said.
    pub fn del(&self, attachment: &Attachment) -> Result<()> {
        let mut plugins = self.list.plugins.iter().rev();
        plugins.try_for_each(|plugin| self.call("DEL", attachment, plugin).map(drop))
    }

    /// The plugin with an argument of the administrator's.
    ///
    /// # Errors
    /// With what it said.
    pub fn administrate(&self, argument: &str) -> Result<()> {
        let mut command = self.command();
        command.arg(argument);
        let said = netns::enter(HOST, || Ok(command.output()?))?;
        require_success(&format!("academy {argument}"), &said)
    }

    /// The plugin, with the demo's directories instead of the machine's.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env("ACADEMY_BPFFS", BPFFS)
            .env("ACADEMY_RUN_DIR", format!("{DIRECTORY}/run"))
            .env("ACADEMY_STATE_DIR", format!("{DIRECTORY}/state"));
        command
    }

    fn call(
        &self,
        verb: &str,
        attachment: &Attachment,
        plugin: &Map<String, Value>,
    ) -> Result<Output> {
        let mut command = self.command();
        command
            .env("CNI_COMMAND", verb)
            .env("CNI_CONTAINERID", attachment.container)
            .env("CNI_NETNS", netns::path(attachment.container))
            .env("CNI_IFNAME", INTERFACE)
            .env("CNI_PATH", self.program.parent().unwrap_or(Path::new("/")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let config = serde_json::to_vec(&self.derive(attachment, plugin))?;
        let said = netns::enter(HOST, || {
            let mut child = command.spawn().with_context(|| format!("cannot run {verb}"))?;
            let mut stdin = child.stdin.take().context("no stdin")?;
            stdin.write_all(&config)?;
            drop(stdin);
            Ok(child.wait_with_output()?)
        })?;
        require_success(&format!("{verb} of {}", attachment.container), &said)?;
        Ok(said)
    }

    /// The configuration of one plugin as the specification has the runtime derive it: name and
    /// version of the list, the previous result, and of the runtime's data what the plugin declares
    /// to be capable of.
    fn derive(&self, attachment: &Attachment, plugin: &Map<String, Value>) -> Map<String, Value> {
        let mut config = plugin.clone();
        config.insert("cniVersion".to_owned(), json!(self.list.version));
        config.insert("name".to_owned(), json!(self.list.name));
        let capabilities = config.remove("capabilities").unwrap_or_default();
        if capabilities.get("portMappings") == Some(&json!(true)) {
            let runtime = json!({ "portMappings": attachment.ports });
            config.insert("runtimeConfig".to_owned(), runtime);
        }
        if let Some(result) = &attachment.result {
            config.insert("prevResult".to_owned(), result.clone());
        }
        config
    }
}

impl Attachment {
    fn read(&mut self, result: &[u8]) -> Result<()> {
        let added: Added = serde_json::from_slice(result)?;
        let address = |ip: &Ip| Ok(ip.address.split('/').next().unwrap_or_default().parse()?);
        self.addresses = added.ips.iter().map(address).collect::<Result<_>>()?;
        self.gateways = added.ips.iter().map(|ip| ip.gateway).collect();
        self.interfaces = added.interfaces.into_iter().map(|interface| interface.name).collect();
        self.result = Some(serde_json::from_slice(result)?);
        Ok(())
    }
}

fn require_success(what: &str, said: &Output) -> Result<()> {
    eprint!("{}", String::from_utf8_lossy(&said.stderr));
    if !said.status.success() {
        let text = String::from_utf8_lossy(&said.stdout);
        bail!("{what} failed ({}): {}", said.status, text.trim());
    }
    Ok(())
}

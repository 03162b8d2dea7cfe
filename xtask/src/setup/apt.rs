//! Debian's packages.

use std::process::Command;

use anyhow::{Result, bail};
use nix::unistd::Uid;

use crate::process::{self, line, run};

/// apt-get, as far as it was needed.
#[derive(Default)]
pub struct Apt {
    updated: bool,
    installed: Vec<String>,
}

impl Apt {
    /// Installs these packages, when there are any.
    ///
    /// # Errors
    /// When this is no Debian or not root: then with what to do by hand.
    pub fn install(&mut self, packages: &[impl AsRef<str>]) -> Result<()> {
        if packages.is_empty() {
            return Ok(());
        }
        let mut install = command(&["install", "-y", "--no-install-recommends"]);
        install.args(packages.iter().map(AsRef::as_ref));
        if process::find("apt-get").is_none() {
            let names: Vec<_> = packages.iter().map(AsRef::as_ref).collect();
            bail!("install what Debian has in these packages: {}", names.join(" "));
        }
        if !Uid::effective().is_root() {
            bail!("missing packages; as root: {}", line(&install));
        }
        self.update();
        eprintln!("setup: {}", line(&install));
        run(&mut install)?;
        self.installed.extend(packages.iter().map(|name| name.as_ref().to_owned()));
        Ok(())
    }

    /// Whether Debian has a package, with its lists fetched first where that may help.
    pub fn has(&mut self, package: &str) -> bool {
        if !is_known(package) && Uid::effective().is_root() && process::find("apt-get").is_some() {
            self.update();
        }
        is_known(package)
    }

    /// What was done, for the closing line.
    pub fn summary(&self) -> String {
        match self.installed.as_slice() {
            [] => "no package was missing".to_owned(),
            installed => format!("installed {}", installed.join(" ")),
        }
    }

    /// Fetches the lists of packages, once. Another source of this machine that does not answer
    /// is not our concern: whether Debian's did, the installation will say.
    fn update(&mut self) {
        if self.updated {
            return;
        }
        self.updated = true;
        let mut update = command(&["update"]);
        eprintln!("setup: {}", line(&update));
        if let Err(error) = run(&mut update) {
            eprintln!("setup: {error:#}");
        }
    }
}

/// Whether Debian has a package, as far as its lists here say.
pub fn is_known(package: &str) -> bool {
    process::succeeds(Command::new("apt-cache").args(["show", package]))
}

/// apt-get without questions; a service that comes with a package (containerd) is not started.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command.arg("-q").args(arguments);
    command.env("DEBIAN_FRONTEND", "noninteractive").env("SYSTEMD_OFFLINE", "1");
    command
}

//! `cargo xtask demo`: the plugin at work, in namespaces that play a host, a client outside and
//! two containers. Nothing of this machine's own network is touched, and everything goes at the
//! end, also on failure or Ctrl-C; what a killed demo leaves, the next one removes.

mod machines;
mod plugin;
mod show;
mod story;
mod traffic;

use std::{
    io,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener},
    },
    path::Path,
    process::ExitCode,
};

use anyhow::{Context, Result, anyhow, bail};
use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sys::statfs::{BPF_FS_MAGIC, statfs},
    unistd::Uid,
};

use crate::{
    build::{self, Options},
    interrupt, leftovers,
    setup::{self, Purpose},
};

/// The part of the bpffs that the plugin gets here.
const BPFFS: &str = "/sys/fs/bpf/academy-demo";
/// Its other directories are below this one.
const DIRECTORY: &str = "/run/academy-demo";
/// The socket that keeps two demos apart.
const LOCK: &str = "academy-demo";
const BPFFS_MOUNT: &str = "/sys/fs/bpf";

/// Sets up, builds, shows, cleans up.
///
/// # Errors
/// When a step fails or something goes another way than it should.
pub fn command(trace: bool) -> Result<ExitCode> {
    if !Uid::effective().is_root() {
        bail!("the demo makes network namespaces: run it as root");
    }
    let ready = setup::ensure(Purpose::Demo)?;
    let binary = build::run(&ready, &Options { trace, ..Options::default() })?;
    let lock = lock()?;
    for name in remove_leftovers()? {
        eprintln!("demo: removed {name}, left by an earlier demo");
    }
    let cleanup = Cleanup { mounted: mount_bpffs()? };
    let told = story::tell(&binary, trace);
    drop(cleanup);
    drop(lock);
    interrupt::check()?;
    let requests = told?;
    println!("\ndemo: all {requests} requests went as they should, and nothing is left");
    Ok(ExitCode::SUCCESS)
}

/// Removes what a killed demo left, and gives the names of it.
///
/// # Errors
/// When a demo is running, or something cannot be removed.
pub fn clean() -> Result<Vec<String>> {
    let _lock = lock()?;
    remove_leftovers()
}

fn remove_leftovers() -> Result<Vec<String>> {
    let mut removed = Vec::new();
    for name in machines::ALL {
        if crate::netns::path(name).exists() {
            leftovers::remove_netns(name)?;
            removed.push(format!("namespace {name}"));
        }
    }
    for directory in [BPFFS, DIRECTORY] {
        if Path::new(directory).exists() {
            leftovers::remove_directory(Path::new(directory))?;
            removed.push(directory.to_owned());
        }
    }
    Ok(removed)
}

/// Only one demo at a time: the second would take the first for a leftover. The name of a socket
/// goes with its process, whatever ends that.
fn lock() -> Result<UnixListener> {
    let address = SocketAddr::from_abstract_name(LOCK)?;
    UnixListener::bind_addr(&address).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => anyhow!("another demo is running"),
        _ => anyhow!(error).context("cannot lock"),
    })
}

/// Mounts the bpffs unless it is, and says whether it did.
fn mount_bpffs() -> Result<bool> {
    let mounted = statfs(BPFFS_MOUNT).is_ok_and(|fs| fs.filesystem_type() == BPF_FS_MAGIC);
    if mounted {
        return Ok(false);
    }
    eprintln!("demo: no bpffs: mount -t bpf bpf {BPFFS_MOUNT}");
    mount(Some("bpf"), BPFFS_MOUNT, Some("bpf"), MsFlags::empty(), None::<&str>)
        .context("cannot mount the bpffs: does the kernel have BPF?")?;
    Ok(true)
}

/// Leaves the machine as it was.
struct Cleanup {
    mounted: bool,
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        if let Err(error) = remove_leftovers() {
            eprintln!("demo: {error:#}");
        }
        if self.mounted
            && let Err(error) = umount2(BPFFS_MOUNT, MntFlags::empty())
        {
            eprintln!("demo: cannot unmount {BPFFS_MOUNT}: {error}");
        }
    }
}

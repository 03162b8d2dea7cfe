//! Ctrl-C: the children are told, what waits for them fails, and the guards on the way out clean
//! up. A second one kills the children.

use std::{
    collections::BTreeSet,
    io,
    process::{Child, Command},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

/// How long the children may take to end after a signal.
const PATIENCE: Duration = Duration::from_secs(5);

static HAPPENED: AtomicBool = AtomicBool::new(false);
/// The process groups of the children that run now.
static CHILDREN: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// Watches for SIGINT, SIGTERM and SIGHUP from now on.
///
/// # Errors
/// When the handlers cannot be set.
pub fn install() -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    thread::spawn(move || {
        for number in signals.forever() {
            let again = HAPPENED.swap(true, Ordering::SeqCst);
            let signal = Signal::try_from(number).unwrap_or(Signal::SIGTERM);
            let signal = if again { Signal::SIGKILL } else { signal };
            for &group in children().iter() {
                // A group that has just ended needs no signal.
                let _ = killpg(Pid::from_raw(group), signal);
            }
        }
    });
    Ok(())
}

/// Whether a signal came.
pub fn happened() -> bool {
    HAPPENED.load(Ordering::SeqCst)
}

/// Fails once a signal came: called between steps.
///
/// # Errors
/// When one came.
pub fn check() -> Result<()> {
    if happened() {
        bail!("interrupted");
    }
    Ok(())
}

/// A child that signals are passed on to until this is dropped.
pub struct Registered {
    /// The child.
    pub child: Child,
    group: i32,
}

impl Registered {
    /// Starts a command that leads its own process group. A signal cannot come between the start
    /// and the registration, since its watcher waits for the same lock.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let mut children = children();
        let child = command.spawn()?;
        let group = i32::try_from(child.id()).map_err(io::Error::other)?;
        children.insert(group);
        Ok(Self { child, group })
    }
}

impl Drop for Registered {
    /// After a signal, what cleans up next relies on the whole group being gone.
    fn drop(&mut self) {
        let group = Pid::from_raw(self.group);
        let is_gone = || killpg(group, None).is_err();
        let deadline = Instant::now() + PATIENCE;
        while happened() && !is_gone() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(20));
        }
        if happened() && !is_gone() {
            let _ = killpg(group, Signal::SIGKILL);
        }
        children().remove(&self.group);
    }
}

fn children() -> MutexGuard<'static, BTreeSet<i32>> {
    CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}

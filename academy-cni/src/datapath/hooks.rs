//! Attaching programs: as filters of clsact, or as TCX links with pins.

use std::mem;

use academy_common::{LAYOUT_VERSION, program_names};
use aya::programs::{
    LinkOrder, SchedClassifier, TcAttachType,
    links::{FdLink, PinnedLink},
    tc::{self as aya_tc, NlOptions, SchedClassifierLink, TcAttachOptions, TcError, TcHandle},
};
use nix::errno::Errno;

use super::{
    Datapath,
    pins::{fail, pin_link},
    tc::{self, Filter},
    types::AttachMode,
};
use crate::{
    error::{Error, Result},
    files,
};

/// After other people's filters, which mostly have small numbers.
const PRIORITY: u16 = 50_000;
/// One handle per layout, so that two layouts can be attached side by side.
const HANDLE: u16 = 0xaca0 + LAYOUT_VERSION as u16;

/// A place for a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hook {
    /// The program.
    pub(super) program: &'static str,
    side: TcAttachType,
    /// `TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS)` or its sibling for the egress.
    parent: u32,
}

impl Hook {
    pub(super) const FROM_CONTAINER: Self = Self::ingress(program_names::FROM_CONTAINER);
    pub(super) const FROM_UPLINK: Self = Self::ingress(program_names::FROM_UPLINK);
    pub(super) const FROM_LOOPBACK: Self = Self::ingress(program_names::FROM_LOOPBACK);
    pub(super) const TO_UPLINK: Self =
        Self { program: program_names::TO_UPLINK, side: TcAttachType::Egress, parent: 0xffff_fff3 };

    const fn ingress(program: &'static str) -> Self {
        Self { program, side: TcAttachType::Ingress, parent: 0xffff_fff2 }
    }

    /// The filter that this is on an interface.
    pub(super) fn filter(self, ifindex: u32) -> Filter {
        let handle = u32::from(HANDLE);
        Filter { ifindex, parent: self.parent, priority: PRIORITY, handle }
    }
}

impl Datapath {
    /// Sees to it that a hook runs the pinned program.
    pub(super) fn attach(
        &self,
        interface: &str,
        ifindex: u32,
        hook: Hook,
        mode: AttachMode,
    ) -> Result<()> {
        let kind = tc::ingress_qdisc(ifindex).map_err(|error| refused(hook, interface, &error))?;
        let foreign = kind.as_deref().is_some_and(|kind| kind != "clsact");
        let by_link = self.link_pin(ifindex, hook.program).exists();
        let mut program = self.program(hook.program)?;
        match mode {
            AttachMode::Auto if foreign || by_link => {
                self.attach_link(&mut program, interface, ifindex, hook)
            }
            AttachMode::Tcx => self.attach_link(&mut program, interface, ifindex, hook),
            AttachMode::Auto | AttachMode::Clsact => {
                if kind.is_none() {
                    add_clsact(interface).map_err(|error| refused(hook, interface, &error))?;
                }
                attach_filter(&mut program, interface, ifindex, hook)
            }
        }
    }

    fn attach_link(
        &self,
        program: &mut SchedClassifier,
        interface: &str,
        ifindex: u32,
        hook: Hook,
    ) -> Result<()> {
        let pin = self.link_pin(ifindex, hook.program);
        if pin.exists() {
            let replaced = PinnedLink::from_pin(&pin)
                .ok()
                .and_then(|link| SchedClassifierLink::try_from(FdLink::from(link)).ok())
                .and_then(|link| program.attach_to_link(link).ok());
            if replaced.is_some() {
                return Ok(());
            }
            // A link whose interface is gone; the number is another's now.
            files::remove(&pin)?;
        }
        let order = TcAttachOptions::TcxOrder(LinkOrder::default());
        let id = program
            .attach_with_options(interface, hook.side, order)
            .map_err(|error| refused(hook, interface, &error))?;
        let link = program.take_link(id).map_err(|error| refused(hook, interface, &error))?;
        let link = FdLink::try_from(link).map_err(|error| refused(hook, interface, &error))?;
        pin_link(link, &pin)?;
        tc::remove_filter(&hook.filter(ifindex)).map_err(|error| refused(hook, interface, &error))
    }

    /// Whether a hook runs a program of ours.
    pub(super) fn is_attached(&self, ifindex: u32, hook: Hook) -> Result<bool> {
        if self.link_pin(ifindex, hook.program).exists() {
            return Ok(true);
        }
        let found = tc::filter_program(&hook.filter(ifindex));
        found.map(|id| id.is_some()).map_err(|error| refused(hook, &ifindex.to_string(), &error))
    }
}

fn add_clsact(interface: &str) -> std::result::Result<(), TcError> {
    match aya_tc::qdisc_add_clsact(interface) {
        Err(TcError::AlreadyAttached) => Ok(()),
        // Another ADD, or an administrator, was faster.
        Err(TcError::NetlinkError(error)) if error.raw_os_error() == Some(Errno::EEXIST as i32) => {
            Ok(())
        }
        other => other,
    }
}

fn attach_filter(
    program: &mut SchedClassifier,
    interface: &str,
    ifindex: u32,
    hook: Hook,
) -> Result<()> {
    let error = |error: &dyn std::error::Error| refused(hook, interface, error);
    let running = tc::filter_program(&hook.filter(ifindex)).map_err(|e| error(&e))?;
    let own = program.info().map_err(|e| error(&e))?.id();
    if running == Some(own) {
        return Ok(());
    }
    let handle = TcHandle::new(0, HANDLE);
    let id = if running.is_some() {
        let link = SchedClassifierLink::attached(interface, hook.side, PRIORITY, handle, None);
        program.attach_to_link(link.map_err(|e| error(&e))?)
    } else {
        let options = NlOptions { priority: PRIORITY, handle, classid: None };
        program.attach_with_options(interface, hook.side, TcAttachOptions::Netlink(options))
    };
    let link = program.take_link(id.map_err(|e| error(&e))?).map_err(|e| error(&e))?;
    // Dropping it would detach the program.
    mem::forget(link);
    Ok(())
}

fn refused(hook: Hook, interface: &str, error: &dyn std::error::Error) -> Error {
    fail("attach", &format!("{} to {interface}", hook.program), error)
}

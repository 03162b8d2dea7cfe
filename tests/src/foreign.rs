//! A TC program of somebody else: it counts packets and passes them on. Made of instructions by
//! hand, so that the tests need no compiler for it.

use std::{
    ffi::CString,
    io,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

use crate::Netns;

const MAP_CREATE: libc::c_long = 0;
const MAP_LOOKUP: libc::c_long = 1;
const PROG_LOAD: libc::c_long = 5;
const OBJ_PIN: libc::c_long = 6;
const LINK_CREATE: libc::c_long = 28;

/// The side of an interface that a program is attached to, by its number as a TCX attach type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// What comes in.
    Ingress = 46,
    /// What goes out.
    Egress = 47,
}

/// The program, its counter, and where it is attached by TCX; all of it ends when dropped.
pub struct Counting {
    program: OwnedFd,
    counter: OwnedFd,
    links: Vec<OwnedFd>,
}

impl Counting {
    /// Loads it. It returns -1: the next program, and the kernel, decide.
    #[must_use]
    pub fn load() -> Self {
        const ARRAY: u32 = 2;
        const SCHED_CLS: u32 = 3;
        let counter = Attributes::default().u32s(0, &[ARRAY, 4, 8, 1]).descriptor(MAP_CREATE);
        let map = u64::from(counter.as_raw_fd().cast_unsigned());
        let program = [
            0x0000_0000_fffc_0a62, // *(u32 *)(r10 - 4) = 0
            0x0000_0000_0000_a2bf, // r2 = r10
            0xffff_fffc_0000_0207, // r2 += -4
            map << 32 | 0x1118,    // r1 = the map
            0,                     // (its upper half)
            0x0000_0001_0000_0085, // r0 = bpf_map_lookup_elem(r1, r2)
            0x0000_0000_0002_0015, // if r0 == 0 goto +2
            0x0000_0001_0000_01b7, // r1 = 1
            0x0000_0000_0000_10db, // lock *(u64 *)r0 += r1
            0xffff_ffff_0000_00b7, // r0 = -1
            0x0000_0000_0000_0095, // exit
        ];
        let program = Attributes::default()
            .u32s(0, &[SCHED_CLS, 11])
            .pointer(8, program.as_ptr().cast())
            .pointer(16, c"GPL".as_ptr().cast())
            .descriptor(PROG_LOAD);
        Self { program, counter, links: Vec::new() }
    }

    /// Attaches it by TCX, after whatever is there.
    pub fn attach_tcx(&mut self, netns: &Netns, interface: &str, side: Side) {
        let (program, index) = (self.program.as_raw_fd().cast_unsigned(), netns.ifindex(interface));
        let link = netns.enter(|| {
            Attributes::default().u32s(0, &[program, index, side as u32]).descriptor(LINK_CREATE)
        });
        self.links.push(link);
    }

    /// Pins it, for `tc` to take it from there.
    pub fn pin(&self, path: &Path) {
        let path = CString::new(path.as_os_str().as_bytes()).unwrap();
        let attributes = Attributes::default().pointer(0, path.as_ptr().cast());
        attributes.u32s(8, &[self.program.as_raw_fd().cast_unsigned()]).call(OBJ_PIN).unwrap();
    }

    /// How many packets it has seen.
    #[must_use]
    pub fn packets(&self) -> u64 {
        let (key, mut value) = (0_u32, 0_u64);
        Attributes::default()
            .u32s(0, &[self.counter.as_raw_fd().cast_unsigned()])
            .pointer(8, (&raw const key).cast())
            .pointer(16, (&raw mut value).cast())
            .call(MAP_LOOKUP)
            .unwrap();
        value
    }
}

/// `union bpf_attr`, filled by offset.
#[derive(Default)]
#[repr(C, align(8))]
struct Attributes {
    bytes: [[u8; 8]; 16],
}

impl Attributes {
    fn put(mut self, offset: usize, value: &[u8]) -> Self {
        self.bytes.as_flattened_mut()[offset..][..value.len()].copy_from_slice(value);
        self
    }

    fn u32s(mut self, offset: usize, values: &[u32]) -> Self {
        for (index, value) in values.iter().enumerate() {
            self = self.put(offset + 4 * index, &value.to_ne_bytes());
        }
        self
    }

    fn pointer(self, offset: usize, pointer: *const u8) -> Self {
        self.put(offset, &(pointer as u64).to_ne_bytes())
    }

    fn call(&self, command: libc::c_long) -> io::Result<RawFd> {
        let size = size_of::<Self>() as libc::c_long;
        // SAFETY: the kernel reads as many bytes as said; what the pointers in them lead to is
        // alive in every caller, and as large as the command says.
        match unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *self, size) } {
            -1 => Err(io::Error::last_os_error()),
            result => Ok(result as RawFd),
        }
    }

    #[track_caller]
    fn descriptor(self, command: libc::c_long) -> OwnedFd {
        let descriptor = self.call(command).unwrap();
        // SAFETY: the commands that make something answer with a descriptor that nobody else has.
        unsafe { OwnedFd::from_raw_fd(descriptor) }
    }
}

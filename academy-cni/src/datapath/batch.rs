//! Many rows of a map in one system call (`BPF_MAP_LOOKUP_BATCH`, Linux 5.6): aya reads a row at a
//! time, and a table of flows has tens of thousands.

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd},
};

use aya::{Pod, maps::MapData};
use nix::errno::Errno;

use super::pins::fail;
use crate::error::Result;

/// `BPF_MAP_LOOKUP_BATCH` of `linux/bpf.h`.
const LOOKUP_BATCH: libc::c_long = 24;
/// How many rows are asked for at once. The kernel fills in whole buckets, so it has to be more
/// than any one of them holds.
const AT_ONCE: u32 = 1024;

/// The part of `union bpf_attr` for batches (`linux/bpf.h`).
#[repr(C)]
#[derive(Default)]
struct Request {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

/// Which rows of a hash map to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Walk {
    /// All of them.
    Whole,
    /// One batch, from the bucket that this number leads to: over many calls every row comes up.
    From(u32),
}

/// Reads rows of a hash map. Programs insert and remove meanwhile: rows that come or go during the
/// walk may be missing.
///
/// # Errors
/// Code 5 when the kernel does not let the map be read.
pub(super) fn rows<K: Pod, V: Pod>(map: &MapData, name: &str, walk: Walk) -> Result<Vec<(K, V)>> {
    let mut found = Vec::new();
    let mut keys = vec![MaybeUninit::<K>::uninit(); AT_ONCE as usize];
    let mut values = vec![MaybeUninit::<V>::uninit(); AT_ONCE as usize];
    let mut position = match walk {
        Walk::Whole => None,
        Walk::From(number) => {
            let info = map.info().map_err(|error| fail("read", name, &error))?;
            // The kernel rounds the number of buckets up so (`htab_map_alloc`).
            Some(number % info.max_entries().next_power_of_two().max(1))
        }
    };
    loop {
        let batch = batch(map, position, &mut keys, &mut values)
            .map_err(|error| fail("read", name, &error))?;
        for (key, value) in keys.iter().zip(&values).take(batch.count) {
            // SAFETY: the kernel has filled in the first `count` keys, and any bytes are a key.
            let key = unsafe { key.assume_init() };
            // SAFETY: as for the key.
            let value = unsafe { value.assume_init() };
            found.push((key, value));
        }
        match batch.next {
            Some(next) if walk == Walk::Whole => position = Some(next),
            _ => return Ok(found),
        }
    }
}

struct Batch {
    /// How many rows were filled in.
    count: usize,
    /// Where to go on; `None` at the end of the map.
    next: Option<u32>,
}

fn batch<K: Pod, V: Pod>(
    map: &MapData,
    position: Option<u32>,
    keys: &mut [MaybeUninit<K>],
    values: &mut [MaybeUninit<V>],
) -> io::Result<Batch> {
    let mut next = 0u32;
    let mut request = Request {
        in_batch: position
            .as_ref()
            .map_or(0, |position| (&raw const *position).expose_provenance() as u64),
        out_batch: (&raw mut next).expose_provenance() as u64,
        keys: keys.as_mut_ptr().expose_provenance() as u64,
        values: values.as_mut_ptr().expose_provenance() as u64,
        count: u32::try_from(keys.len().min(values.len())).unwrap_or(AT_ONCE),
        map_fd: map.fd().as_fd().as_raw_fd().unsigned_abs(),
        ..Request::default()
    };
    // SAFETY: the pointers are to live memory for `count` keys and values of the map's sizes, which
    // its layout version fixes; the kernel writes the count and the next position back.
    let answer = unsafe {
        libc::syscall(libc::SYS_bpf, LOOKUP_BATCH, &raw mut request, size_of::<Request>())
    };
    let count = usize::try_from(request.count).unwrap_or(0);
    if answer == 0 {
        return Ok(Batch { count, next: Some(next) });
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(Errno::ENOENT as i32) {
        return Ok(Batch { count, next: None });
    }
    Err(error)
}

//! Where a MAC of a bridge is, for frames that go straight into the other container.

use bytemuck::{Pod, Zeroable};

use crate::wire::Mac;

/// Key of `fdb`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct FdbKey {
    /// The index of the bridge.
    pub bridge: u32,
    /// A container's MAC.
    pub mac: Mac,
    /// Zero.
    pub padding: u16,
}

/// Value of `fdb`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct FdbEntry {
    /// The endpoint's owner, for compare-and-delete.
    pub owner: u64,
    /// The index of the host side behind which the MAC is.
    pub ifindex: u32,
    /// See [`fdb_flags`].
    pub flags: u32,
}

/// Bits of [`FdbEntry::flags`].
pub mod fdb_flags {
    /// The MAC was seen behind another port: the bridge decides, there is no short cut any more.
    pub const MOVED: u32 = 1 << 0;
    /// The host side is a tap.
    pub const TAP: u32 = 1 << 1;
}

const _: () = assert!(size_of::<FdbKey>() == 12 && size_of::<FdbEntry>() == 16);

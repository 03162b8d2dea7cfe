//! The host's own addresses, where the FIB cannot be asked.

/// Key of `local4` and `local6`: the addresses that a wildcard mapping means while an interface
/// `kube-ipvs0` makes service addresses look like the host's own. The value is the index of the
/// interface that has the address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(C)]
pub struct LocalKey<A> {
    /// An address of an uplink, a bridge or lo, as of the last CNI call.
    pub address: A,
}

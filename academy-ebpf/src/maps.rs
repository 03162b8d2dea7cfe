//! Every map, and typed access to it. Rows of conversations are read and written by copy, through
//! [`Row`]; what user space writes (ports, endpoints) is lent while the program runs. Headers, and
//! the copies of rows, live in per-CPU slots: the stack has 512 bytes for a whole chain of calls.

use core::ptr::NonNull;

use academy_common::{
    Counters, Endpoint, EndpointAddress, EndpointAddressKey, EndpointKey, Family, FdbEntry, FdbKey,
    Flow, FlowKey, Ipv4, Ipv6, LocalKey, PortKey, PortMapping, Scratch, Settings, Uplink,
    UplinkKey,
};

use aya_ebpf::{
    bindings::{BPF_ANY, BPF_EXIST, BPF_F_NO_PREALLOC, BPF_NOEXIST},
    btf_maps::{Array, HashMap, LruHashMap, PerCpuArray},
    macros::btf_map,
};

use crate::parse::Headers;

/// Memory as it is used, not as it might be.
const ON_DEMAND: usize = BPF_F_NO_PREALLOC as usize;
/// Default numbers of rows; user space sets others when it makes the maps.
const ENDPOINTS_MAX: usize = 16_384;
const PORTS_MAX: usize = 16_384;
const FLOWS_MAX: usize = 65_536;
const OPENING_MAX: usize = 32_768;
const UPLINKS_MAX: usize = 1_024;
const LOCAL_MAX: usize = 4_096;

type Hash<K, V, const N: usize> = HashMap<K, V, N, ON_DEMAND>;
type Flows<A> = Hash<FlowKey<A>, Flow<A>, FLOWS_MAX>;
type Opening<A> = LruHashMap<FlowKey<A>, Flow<A>, OPENING_MAX>;
type Ports<A> = Hash<PortKey<A>, PortMapping<A>, PORTS_MAX>;
type Addresses<A> = Hash<EndpointAddressKey<A>, EndpointAddress, ENDPOINTS_MAX>;
type Local<A> = Hash<LocalKey<A>, u32, LOCAL_MAX>;

#[btf_map(name = "endpoints")]
static ENDPOINTS: Hash<EndpointKey, Endpoint, ENDPOINTS_MAX> = HashMap::new();
#[btf_map(name = "addresses4")]
static ADDRESSES4: Addresses<Ipv4> = HashMap::new();
#[btf_map(name = "addresses6")]
static ADDRESSES6: Addresses<Ipv6> = HashMap::new();
#[btf_map(name = "fdb")]
static FDB: Hash<FdbKey, FdbEntry, ENDPOINTS_MAX> = HashMap::new();
#[btf_map(name = "ports4")]
static PORTS4: Ports<Ipv4> = HashMap::new();
#[btf_map(name = "ports6")]
static PORTS6: Ports<Ipv6> = HashMap::new();
#[btf_map(name = "opening4")]
static OPENING4: Opening<Ipv4> = LruHashMap::new();
#[btf_map(name = "opening6")]
static OPENING6: Opening<Ipv6> = LruHashMap::new();
#[btf_map(name = "flows4")]
static FLOWS4: Flows<Ipv4> = HashMap::new();
#[btf_map(name = "flows6")]
static FLOWS6: Flows<Ipv6> = HashMap::new();
#[btf_map(name = "uplinks")]
static UPLINKS: Hash<UplinkKey, Uplink, UPLINKS_MAX> = HashMap::new();
#[btf_map(name = "local4")]
static LOCAL4: Local<Ipv4> = HashMap::new();
#[btf_map(name = "local6")]
static LOCAL6: Local<Ipv6> = HashMap::new();
#[btf_map(name = "counters")]
static COUNTERS: PerCpuArray<Counters, 1> = PerCpuArray::new();
#[btf_map(name = "settings")]
static SETTINGS: Array<Settings, 1> = Array::new();
#[btf_map(name = "headers4")]
static HEADERS4: PerCpuArray<Headers<Ipv4>, 1> = PerCpuArray::new();
#[btf_map(name = "headers6")]
static HEADERS6: PerCpuArray<Headers<Ipv6>, 1> = PerCpuArray::new();
#[btf_map(name = "scratch4")]
static SCRATCH4: PerCpuArray<Scratch<Ipv4>, 2> = PerCpuArray::new();
#[btf_map(name = "scratch6")]
static SCRATCH6: PerCpuArray<Scratch<Ipv6>, 2> = PerCpuArray::new();

/// A family's maps.
pub trait Tables: Family {
    /// The family's conversations of which one side has spoken.
    #[doc(hidden)]
    fn opening() -> &'static Opening<Self>;
    /// The family's established conversations.
    #[doc(hidden)]
    fn flows() -> &'static Flows<Self>;
    /// The family's published ports.
    #[doc(hidden)]
    fn ports() -> &'static Ports<Self>;
    /// The family's addresses of endpoints.
    #[doc(hidden)]
    fn addresses() -> &'static Addresses<Self>;
    /// The family's addresses that a wildcard means, where the FIB cannot be asked.
    #[doc(hidden)]
    fn local() -> &'static Local<Self>;
    /// The family's headers of the packet at hand.
    #[doc(hidden)]
    fn headers() -> &'static PerCpuArray<Headers<Self>, 1>;
    /// The family's rows under construction.
    #[doc(hidden)]
    fn scratch() -> &'static PerCpuArray<Scratch<Self>, 2>;
}

macro_rules! tables {
    ($family:ty, $opening:ident, $flows:ident, $ports:ident, $addresses:ident, $local:ident,
     $headers:ident, $scratch:ident) => {
        impl Tables for $family {
            #[inline(always)]
            fn opening() -> &'static Opening<Self> {
                &$opening
            }
            #[inline(always)]
            fn flows() -> &'static Flows<Self> {
                &$flows
            }
            #[inline(always)]
            fn ports() -> &'static Ports<Self> {
                &$ports
            }
            #[inline(always)]
            fn addresses() -> &'static Addresses<Self> {
                &$addresses
            }
            #[inline(always)]
            fn local() -> &'static Local<Self> {
                &$local
            }
            #[inline(always)]
            fn headers() -> &'static PerCpuArray<Headers<Self>, 1> {
                &$headers
            }
            #[inline(always)]
            fn scratch() -> &'static PerCpuArray<Scratch<Self>, 2> {
                &$scratch
            }
        }
    };
}

tables!(Ipv4, OPENING4, FLOWS4, PORTS4, ADDRESSES4, LOCAL4, HEADERS4, SCRATCH4);
tables!(Ipv6, OPENING6, FLOWS6, PORTS6, ADDRESSES6, LOCAL6, HEADERS6, SCRATCH6);

/// Which of the two tables a conversation's rows are in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    /// `opening4`, `opening6`.
    Opening,
    /// `flows4`, `flows6`.
    Flows,
}

/// A row of one of the flow tables, in place.
///
/// The kernel may give the memory to another row while we look (rows are reused at once). What is
/// written through it is therefore only what does no harm there: times, acknowledgement numbers
/// and flags of what was seen. Where a packet goes is never written in place.
pub struct Row<A>(NonNull<Flow<A>>);

impl<A: Tables> Row<A> {
    /// A copy of the row.
    #[inline(always)]
    #[must_use]
    pub fn read(&self) -> Flow<A> {
        // SAFETY: the kernel's look-up returned the pointer; the memory stays mapped until the
        // program ends (RCU), and any bytes are a `Flow`.
        unsafe { self.0.read() }
    }

    /// Notes that the row's direction spoke.
    #[inline(always)]
    pub fn touch(&self, now: u64) {
        // SAFETY: as in `read`; the field is aligned and a torn value is only a wrong time.
        unsafe { (*self.0.as_ptr()).last_seen = now }
    }

    /// Notes what the row's direction acknowledged last.
    #[inline(always)]
    pub fn acknowledge(&self, number: u32) {
        // SAFETY: as in `touch`.
        unsafe { (*self.0.as_ptr()).acknowledged = number }
    }

    /// Notes what an acknowledgement of the row's SYN will carry.
    #[inline(always)]
    pub fn expect(&self, number: u32) {
        // SAFETY: as in `touch`.
        unsafe { (*self.0.as_ptr()).expected = number }
    }

    /// Notes what the row's direction has sent, see `academy_common::seen`.
    #[inline(always)]
    pub fn set_seen(&self, seen: u8) {
        // SAFETY: as in `touch`.
        unsafe { (*self.0.as_ptr()).seen = seen }
    }
}

/// Looks a conversation up: established ones win, and a miss in both looks once more, so that no
/// packet falls between the tables while its conversation moves from one to the other.
#[inline(always)]
pub fn find_flow<A: Tables>(key: &FlowKey<A>) -> Option<(Row<A>, Table)> {
    if let Some(row) = flow_in(Table::Flows, key) {
        return Some((row, Table::Flows));
    }
    if let Some(row) = flow_in(Table::Opening, key) {
        return Some((row, Table::Opening));
    }
    flow_in(Table::Flows, key).map(|row| (row, Table::Flows))
}

/// Looks a conversation up in one table.
#[inline(always)]
pub fn flow_in<A: Tables>(table: Table, key: &FlowKey<A>) -> Option<Row<A>> {
    let pointer = match table {
        Table::Opening => A::opening().get_ptr_mut(key),
        Table::Flows => A::flows().get_ptr_mut(key),
    };
    pointer.and_then(NonNull::new).map(Row)
}

/// Stores a row that must not exist yet.
///
/// # Errors
///
/// The kernel's negative error number: `-17` where it exists, `-7` where the table is full.
#[inline(always)]
pub fn claim_flow<A: Tables>(table: Table, key: &FlowKey<A>, flow: &Flow<A>) -> Result<(), i32> {
    store_flow(table, key, flow, u64::from(BPF_NOEXIST))
}

/// Stores a row, whether it exists or not.
///
/// # Errors
///
/// The kernel's negative error number.
#[inline(always)]
pub fn put_flow<A: Tables>(table: Table, key: &FlowKey<A>, flow: &Flow<A>) -> Result<(), i32> {
    store_flow(table, key, flow, u64::from(BPF_ANY))
}

/// Replaces a row as a whole, if it is still there.
///
/// # Errors
///
/// The kernel's negative error number.
#[inline(always)]
pub fn replace_flow<A: Tables>(table: Table, key: &FlowKey<A>, flow: &Flow<A>) -> Result<(), i32> {
    store_flow(table, key, flow, u64::from(BPF_EXIST))
}

#[inline(always)]
fn store_flow<A: Tables>(
    table: Table,
    key: &FlowKey<A>,
    flow: &Flow<A>,
    flags: u64,
) -> Result<(), i32> {
    match table {
        Table::Opening => A::opening().insert(key, flow, flags),
        Table::Flows => A::flows().insert(key, flow, flags),
    }
}

/// Removes a row. A row that is not there is no error.
#[inline(always)]
pub fn remove_flow<A: Tables>(table: Table, key: &FlowKey<A>) {
    let _ = match table {
        Table::Opening => A::opening().remove(key),
        Table::Flows => A::flows().remove(key),
    };
}

/// Lends this CPU's rows under construction.
#[inline(always)]
pub fn with_scratch<A: Tables, R>(work: impl FnOnce(&mut Scratch<A>) -> R) -> Option<R> {
    let pointer = A::scratch().get_ptr_mut(0)?;
    // SAFETY: the slot is this CPU's own, and the hooks run with bottom halves off: no other
    // program of ours runs on this CPU before this one ends.
    Some(work(unsafe { &mut *pointer }))
}

/// Puts the headers of the packet at hand where they stay while the program runs.
#[inline(always)]
pub fn keep_headers<A: Tables>(headers: Headers<A>) -> Option<&'static Headers<A>> {
    let slot = A::headers().get_ptr_mut(0)?;
    // SAFETY: as in `with_scratch`.
    unsafe { slot.write(headers) };
    // SAFETY: as above; it is written once per packet.
    Some(unsafe { &*slot })
}

/// The row of the opener as [`with_scratch`] left it.
#[inline(always)]
pub fn prepared<A: Tables>() -> Option<&'static Flow<A>> {
    let slot = A::scratch().get_ptr_mut(0)?;
    // SAFETY: as in `with_scratch`, whose borrow has ended.
    Some(unsafe { &(*slot).forward })
}

/// Copies a row to where it stays as it is while the program runs: this CPU's second slot.
#[inline(always)]
pub fn keep<A: Tables>(row: &Row<A>) -> Option<&'static Flow<A>> {
    let slot = A::scratch().get_ptr_mut(1)?;
    // SAFETY: as in `with_scratch`, and nobody else uses this field of this slot.
    unsafe { (*slot).forward = row.read() };
    // SAFETY: as above; it is written once per packet.
    Some(unsafe { &(*slot).forward })
}

/// Like [`keep`], for the row of the other direction.
#[inline(always)]
pub fn keep_other<A: Tables>(row: &Row<A>) -> Option<&'static Flow<A>> {
    let slot = A::scratch().get_ptr_mut(1)?;
    // SAFETY: as in `keep`.
    unsafe { (*slot).reverse = row.read() };
    // SAFETY: as in `keep`.
    Some(unsafe { &(*slot).reverse })
}

/// Lends this CPU's counters.
#[inline(always)]
pub fn with_counters(work: impl FnOnce(&mut Counters)) {
    if let Some(pointer) = COUNTERS.get_ptr_mut(0) {
        // SAFETY: as in `with_scratch`.
        work(unsafe { &mut *pointer });
    }
}

/// The published port at exactly `key`.
#[inline(always)]
pub fn port<A: Tables>(key: &PortKey<A>) -> Option<&'static PortMapping<A>> {
    // SAFETY: only user space writes here, whole rows; the memory stays mapped until the program
    // ends (RCU). Another row may reuse it, which the generation tells.
    unsafe { A::ports().get(key) }
}

/// The endpoint behind a host-side interface.
#[inline(always)]
pub fn endpoint(ifindex: u32) -> Option<&'static Endpoint> {
    // SAFETY: as in `port`.
    unsafe { ENDPOINTS.get(EndpointKey { ifindex }) }
}

/// The host-side interface of the endpoint that has `address`.
#[inline(always)]
pub fn address_holder<A: Tables>(address: A) -> Option<u32> {
    // SAFETY: as in `port`.
    unsafe { A::addresses().get(EndpointAddressKey { address }) }.map(|holder| holder.ifindex)
}

/// Where a MAC of a bridge is.
#[inline(always)]
pub fn fdb(key: &FdbKey) -> Option<FdbEntry> {
    // SAFETY: as in `port`; the one flag that programs write does no harm in another row.
    unsafe { FDB.get(key) }.copied()
}

/// Replaces an existing row of `fdb`.
#[inline(always)]
pub fn replace_fdb(key: &FdbKey, entry: &FdbEntry) {
    let _ = FDB.insert(key, entry, u64::from(BPF_EXIST));
}

/// What is known of an interface through which the host is reached.
#[inline(always)]
pub fn uplink(ifindex: u32) -> Option<Uplink> {
    // SAFETY: as in `port`.
    unsafe { UPLINKS.get(UplinkKey { ifindex }) }.copied()
}

/// Whether `address` is on the list of what a wildcard means.
#[inline(always)]
pub fn is_listed<A: Tables>(address: A) -> bool {
    A::local().get_ptr(LocalKey { address }).is_some()
}

/// The host's settings.
#[inline(always)]
pub fn settings() -> Option<Settings> {
    SETTINGS.get(0).copied()
}

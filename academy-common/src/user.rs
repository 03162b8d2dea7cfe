//! Leave for aya to move the rows between user space and maps.

use aya::Pod;

use crate::{
    Counters, Endpoint, EndpointAddress, EndpointAddressKey, EndpointKey, FdbEntry, FdbKey, Flow,
    FlowKey, Ipv4, Ipv6, LocalKey, PortKey, PortMapping, Scratch, Settings, Uplink, UplinkKey,
};

macro_rules! pod {
    ($($row:ty),* $(,)?) => {$(
        // SAFETY: the type is `bytemuck::Pod`: any bytes are a value and there is no padding.
        unsafe impl Pod for $row {}
    )*};
}

pod!(Counters, Endpoint, EndpointAddress, EndpointKey, FdbEntry, FdbKey, Settings);
pod!(Uplink, UplinkKey);
pod!(EndpointAddressKey<Ipv4>, FlowKey<Ipv4>, Flow<Ipv4>, LocalKey<Ipv4>, Scratch<Ipv4>);
pod!(EndpointAddressKey<Ipv6>, FlowKey<Ipv6>, Flow<Ipv6>, LocalKey<Ipv6>, Scratch<Ipv6>);
pod!(PortKey<Ipv4>, PortMapping<Ipv4>, PortKey<Ipv6>, PortMapping<Ipv6>);

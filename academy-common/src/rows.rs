//! Leave for `bytemuck` to treat the generic rows as bytes. Its derive does that for plain structs
//! only, since it cannot see padding through a type parameter; the sums here can.

use bytemuck::{Pod, Zeroable};

use crate::{
    Be16, EndpointAddressKey, Flow, FlowKey, Ipv4, Ipv6, LocalKey, PortKey, PortMapping, Scratch,
    Way,
};

macro_rules! row {
    ($row:ident, $($field:expr),+) => {
        row!(@family $row, Ipv4, $($field),+);
        row!(@family $row, Ipv6, $($field),+);
    };
    (@family $row:ident, $family:ident, $($field:expr),+) => {
        // The sizes of the fields add up to the size of the row: there is no padding.
        const _: () = {
            let address = size_of::<$family>();
            let mut sum = 0;
            $(sum += $field.bytes(address);)+
            assert!(sum == size_of::<$row<$family>>());
        };
        // SAFETY: every field may be all zero.
        unsafe impl Zeroable for $row<$family> {}
        // SAFETY: `repr(C)`, every field is `Pod`, and the sum above leaves no padding.
        unsafe impl Pod for $row<$family> {}
    };
}

/// The size of a field, which may grow with the family's address.
enum Size {
    Fixed(usize),
    Addresses(usize),
}

impl Size {
    const fn bytes(&self, address: usize) -> usize {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Addresses(count) => *count * address,
        }
    }
}

use Size::{Addresses, Fixed};

row!(EndpointAddressKey, Addresses(1));
row!(LocalKey, Addresses(1));
row!(PortKey, Addresses(1), Fixed(size_of::<Be16>()), Fixed(1), Fixed(1));
row!(PortMapping, Fixed(8 + 8), Addresses(2), Fixed(4 + size_of::<Be16>() + 1 + 1));
row!(FlowKey, Addresses(2), Fixed(2 * size_of::<Be16>()), Fixed(1 + 3));
row!(
    Flow,
    Fixed(3 * 8),
    Addresses(2),
    Fixed(2 * size_of::<Be16>()),
    Fixed(4 * 4),
    Fixed(size_of::<Way>()),
    Fixed(4 + 4)
);

macro_rules! scratch {
    ($($family:ident),+) => {$(
        const _: () = assert!(
            2 * size_of::<Flow<$family>>() + size_of::<FlowKey<$family>>() + PADDING
                == size_of::<Scratch<$family>>()
        );
        // SAFETY: every field may be all zero.
        unsafe impl Zeroable for Scratch<$family> {}
        // SAFETY: `repr(C)`, every field is `Pod`, and the sum above leaves no padding.
        unsafe impl Pod for Scratch<$family> {}
    )+};
}

const PADDING: usize = 8;

scratch!(Ipv4, Ipv6);

//! The TC programs. Each takes the packet to its path and turns the outcome into a verdict; the
//! paths themselves are in the library.

#![cfg_attr(target_arch = "bpf", no_std)]
#![cfg_attr(target_arch = "bpf", no_main)]

#[cfg(target_arch = "bpf")]
mod programs {
    use academy_ebpf::{
        from_container, from_loopback, from_uplink, pass::verdict, skb::Skb, to_uplink,
    };
    use aya_ebpf::{macros::classifier, programs::TcContext};

    /// TC ingress of each host-side veth.
    #[classifier]
    pub fn from_container(ctx: TcContext) -> i32 {
        let mut skb = Skb::new(ctx);
        let outcome = from_container::run(&mut skb);
        verdict(&skb, "from_container", outcome)
    }

    /// TC ingress of each uplink and of our bridges.
    #[classifier]
    pub fn from_uplink(ctx: TcContext) -> i32 {
        let mut skb = Skb::new(ctx);
        let outcome = from_uplink::run(&mut skb);
        verdict(&skb, "from_uplink", outcome)
    }

    /// TC ingress of lo.
    #[classifier]
    pub fn from_loopback(ctx: TcContext) -> i32 {
        let mut skb = Skb::new(ctx);
        let outcome = from_loopback::run(&mut skb);
        verdict(&skb, "from_loopback", outcome)
    }

    /// TC egress of each uplink and of our bridges.
    #[classifier]
    pub fn to_uplink(ctx: TcContext) -> i32 {
        let mut skb = Skb::new(ctx);
        let outcome = to_uplink::run(&mut skb);
        verdict(&skb, "to_uplink", outcome)
    }

    /// The kernel asks for it before it lets helpers such as `bpf_fib_lookup` be called.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "license")]
    pub static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

    #[panic_handler]
    fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
        loop {}
    }
}

/// On the host there is nothing to run: the crate is built there for its tests and lints.
#[cfg(not(target_arch = "bpf"))]
fn main() {}

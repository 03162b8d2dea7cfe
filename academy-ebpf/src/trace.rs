//! The verdict log, which only objects with the `trace` feature have.

/// Logs through aya-log with the packet's context; expands to nothing without the feature.
#[cfg(feature = "trace")]
macro_rules! trace {
    ($skb:expr, $($message:tt)+) => {
        aya_log_ebpf::info!($skb.context(), $($message)+)
    };
}

/// Logs through aya-log with the packet's context; expands to nothing without the feature.
#[cfg(not(feature = "trace"))]
macro_rules! trace {
    ($skb:expr, $($message:expr),+) => {{
        let _ = ($skb, $($message),+);
    }};
}

pub(crate) use trace;

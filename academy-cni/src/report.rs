//! Words for people on stderr. stdout is a protocol and belongs to the result.

use std::{
    fmt::Display,
    io::{self, Write},
};

/// Says something that does not change the outcome of the call. Nobody may be listening, which is
/// no reason to fail (`eprintln!` panics then).
pub fn say(message: impl Display) {
    let _ = writeln!(io::stderr(), "academy: {message}");
}

/// Says what failed where the call goes on without.
pub fn say_failure<T>(result: crate::error::Result<T>) {
    if let Err(error) = result {
        say(format_args!("warning: {error}"));
    }
}

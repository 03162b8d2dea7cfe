//! `cargo xtask clean`: removes what a killed demo or test run left behind.

use std::process::ExitCode;

use anyhow::Result;

use crate::{demo, leftovers};

/// Removes it and says what it was.
///
/// # Errors
/// When something cannot be removed.
pub fn command() -> Result<ExitCode> {
    let mut removed = leftovers::remove_tests()?;
    removed.extend(demo::clean()?);
    match removed.as_slice() {
        [] => println!("nothing was left"),
        removed => println!("removed {}", removed.join(", ")),
    }
    Ok(ExitCode::SUCCESS)
}

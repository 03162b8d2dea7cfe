//! The build number, by which two builds of one map layout are ordered: the newer takes over.

use std::{env, process::Command};

use anyhow::{Context, Result};

use crate::{process, workspace};

/// The time of the last commit in seconds since 1970 (or `SOURCE_DATE_EPOCH`, where a packager
/// sets it); 0 outside a repository. Not the number of commits, which a shallow clone lacks.
///
/// # Errors
/// When `SOURCE_DATE_EPOCH` is no number.
pub fn of_source() -> Result<u64> {
    if let Ok(time) = env::var("SOURCE_DATE_EPOCH") {
        return time.parse().with_context(|| format!("SOURCE_DATE_EPOCH is {time}"));
    }
    let mut log = Command::new("git");
    log.arg("-C").arg(workspace::root()?).args(["log", "-1", "--format=%ct"]);
    let time = process::output(&mut log).ok().and_then(|time| time.parse().ok());
    Ok(time.unwrap_or(0))
}

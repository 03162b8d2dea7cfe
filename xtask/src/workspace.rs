//! Where things are.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// The top of the repository.
///
/// # Errors
/// When it is not run by cargo and the place it was built in is gone.
pub fn root() -> Result<PathBuf> {
    let manifest = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let root = manifest.parent().context("xtask is at the top of nothing")?;
    root.canonicalize().with_context(|| format!("{} is gone", root.display()))
}

/// cargo's directory for everything that is built.
///
/// # Errors
/// As [`root`].
pub fn target() -> Result<PathBuf> {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => Ok(env::current_dir()?.join(directory)),
        None => Ok(root()?.join("target")),
    }
}

/// What survives `cargo clean` and serves every clone: the BPF linker and the tools of the tests.
///
/// # Errors
/// When neither `XDG_CACHE_HOME` nor `HOME` is set.
pub fn cache() -> Result<PathBuf> {
    let base = match env::var_os("XDG_CACHE_HOME").filter(|path| Path::new(path).is_absolute()) {
        Some(base) => PathBuf::from(base),
        None => PathBuf::from(env::var_os("HOME").context("HOME is not set")?).join(".cache"),
    };
    Ok(base.join("academy"))
}

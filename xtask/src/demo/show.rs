//! The maps, as anybody can look at them.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context, Result};
use serde_json::Value;

use super::BPFFS;
use crate::process::{self, line, output};

/// How many lines of a map are shown.
const LINES: usize = 30;

/// Prints what bpftool says about a map, as far as its first row or two go.
///
/// # Errors
/// When the map is not pinned, or bpftool fails.
pub fn map(name: &str) -> Result<()> {
    let path = pins()?.join("maps").join(name);
    let bpftool = process::find("bpftool").context("bpftool is not installed")?;
    let dump = |flags: &[&str]| {
        let mut command = Command::new(&bpftool);
        command.args(flags).args(["map", "dump", "pinned"]).arg(&path);
        command
    };
    let rows: Value = serde_json::from_str(&output(&mut dump(&["-j"]))?)?;
    println!("\n# {}", line(&dump(&[])));
    let text = output(&mut dump(&[]))?;
    let count = text.lines().count();
    text.lines().take(LINES).for_each(|text| println!("{text}"));
    if count > LINES {
        println!(
            "    … {} lines more, of {} rows",
            count - LINES,
            rows.as_array().map_or(0, Vec::len)
        );
    }
    Ok(())
}

/// The directory of the one layout that is in use.
fn pins() -> Result<PathBuf> {
    let entries = fs::read_dir(BPFFS).with_context(|| format!("cannot read {BPFFS}"))?;
    let mut layouts = entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with('v')));
    Ok(layouts.next().context("academy has pinned nothing")?.path())
}

//! What is there now, to be compared with what is there afterwards.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use crate::{Lab, maps::ATTACHMENT_MAPS};

/// Everything that an attachment leaves on a host: links, leases, records, pins, live map rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// The host's interfaces.
    pub links: BTreeSet<String>,
    /// The lease files of all networks, with their second links.
    pub leases: BTreeSet<String>,
    /// The attachment records.
    pub records: BTreeSet<String>,
    /// Everything pinned.
    pub pins: BTreeSet<String>,
    /// How many rows the maps of attachments have.
    pub rows: BTreeMap<&'static str, usize>,
}

impl Snapshot {
    /// As it is now.
    #[must_use]
    pub fn of(lab: &Lab) -> Self {
        let rows = |name: &'static str| match lab.map(name).exists() {
            true => (name, lab.rows(name).len()),
            false => (name, 0),
        };
        Self {
            links: lab.host.links().into_iter().collect(),
            leases: files(&lab.state_directory()).into_iter().filter(|f| !is_marker(f)).collect(),
            records: files(&lab.run_directory())
                .into_iter()
                .filter(|f| !is_lock(f) && !is_marker(f))
                .collect(),
            pins: files(&lab.bpffs()),
            rows: ATTACHMENT_MAPS.map(rows).into(),
        }
    }

    /// Nothing may have been added since.
    ///
    /// # Panics
    /// Otherwise, naming what was.
    #[track_caller]
    pub fn assert_unchanged(&self, lab: &Lab) {
        let now = Self::of(lab);
        assert_eq!(&now, self, "left: now, right: before");
    }
}

/// No leases: where the next allocation begins, and what a killed writer left unfinished.
fn is_marker(file: &str) -> bool {
    file.contains("/.academy/last_reserved") || file.contains("/.new-")
}

fn is_lock(file: &str) -> bool {
    Path::new(file).file_name().is_some_and(|name| name == "lock")
}

/// Files that a killed writer left unfinished, in the state and run directories.
#[must_use]
pub fn unfinished(lab: &Lab) -> Vec<String> {
    let all = files(&lab.state_directory()).into_iter().chain(files(&lab.run_directory()));
    all.filter(|file| file.contains("/.new-")).collect()
}

/// All files below a directory, by their path in it; directories do not count.
fn files(directory: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    collect(directory, "", &mut found);
    found
}

fn collect(directory: &Path, prefix: &str, found: &mut BTreeSet<String>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.map(Result::unwrap) {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type().unwrap().is_dir() {
            collect(&entry.path(), &format!("{name}/"), found);
        } else {
            found.insert(name);
        }
    }
}

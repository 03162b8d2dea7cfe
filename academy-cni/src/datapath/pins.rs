//! The pinned maps and programs of one layout, and how they come to be.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use academy_common::{LAYOUT_VERSION, Settings, map_names, program_names};
use aya::{
    EbpfLoader, Pod,
    maps::{Array, HashMap, Map, MapData},
    programs::{SchedClassifier, links::FdLink},
};

use super::probe;
use crate::{
    error::{Error, Result},
    files,
    paths::Paths,
};

/// The programs, built by `cargo xtask build`; empty in any other build.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/academy-ebpf.o"));
/// Builds of one layout are ordered by this number.
const BUILD: &str = env!("ACADEMY_BUILD");
/// The opened data plane. The caller holds the global lock.
#[derive(Debug)]
pub struct Datapath {
    directory: PathBuf,
}

impl Datapath {
    /// Opens the data plane; makes its maps and loads its programs where that was not done yet, or
    /// by an older build. `max_ports` and `max_flows` count when the maps are made.
    ///
    /// # Errors
    /// Code 103 for what is wrong with bpffs, code 102 or 999 when the programs do not load.
    pub fn open_or_load(
        paths: &Paths,
        max_ports: Option<u32>,
        max_flows: Option<u32>,
    ) -> Result<Self> {
        probe::bpffs(&paths.bpffs)?;
        files::secure_dir(&paths.bpffs)?;
        let datapath = Self { directory: layout(paths) };
        if datapath.is_complete() {
            datapath.check_namespace()?;
            if datapath.settings()?.build >= build() {
                return Ok(datapath);
            }
        }
        datapath.load(max_ports, max_flows)?;
        Ok(datapath)
    }

    /// Opens the data plane if it is there.
    ///
    /// # Errors
    /// Code 103 where its maps belong to another network namespace.
    pub fn open(paths: &Paths) -> Result<Option<Self>> {
        let datapath = Self { directory: layout(paths) };
        if !datapath.is_complete() {
            return Ok(None);
        }
        files::check_dir(&paths.bpffs)?;
        datapath.check_namespace()?;
        Ok(Some(datapath))
    }

    fn map_pin(&self, name: &str) -> PathBuf {
        self.directory.join("maps").join(name)
    }

    fn program_pin(&self, name: &str) -> PathBuf {
        self.directory.join("progs").join(name)
    }

    /// Whether every map and every program is pinned: the settings are written last.
    fn is_complete(&self) -> bool {
        self.map_pin(map_names::SETTINGS).exists()
            && program_names::ALL.iter().all(|name| self.program_pin(name).exists())
    }

    fn check_namespace(&self) -> Result<()> {
        let recorded = self.settings()?.netns;
        if recorded == 0 || recorded == own_namespace()? {
            return Ok(());
        }
        Err(Error::Bpffs {
            path: self.directory.display().to_string(),
            reason: "the maps belong to another network namespace; give each namespace of the \
                     host a directory of its own with ACADEMY_BPFFS"
                .to_owned(),
        })
    }

    fn load(&self, max_ports: Option<u32>, max_flows: Option<u32>) -> Result<()> {
        if OBJECT.is_empty() {
            let words = "built without its eBPF object: use cargo xtask build";
            return Err(Error::Internal(words.to_owned()));
        }
        for directory in ["", "maps", "progs", "links"] {
            files::secure_dir(&self.directory.join(directory))?;
        }
        let mut loader = EbpfLoader::new();
        for name in map_names::ALL {
            loader.map_pin_path(name, self.map_pin(name));
        }
        if let Some(rows) = max_ports {
            loader.map_max_entries(map_names::PORTS4, rows);
            loader.map_max_entries(map_names::PORTS6, rows);
        }
        if let Some(rows) = max_flows {
            for name in [map_names::FLOWS4, map_names::FLOWS6] {
                loader.map_max_entries(name, rows);
            }
            for name in [map_names::OPENING4, map_names::OPENING6] {
                loader.map_max_entries(name, rows.div_ceil(2));
            }
        }
        let mut object = loader.load(OBJECT).map_err(|error| fail("load", "the maps", &error))?;
        for name in program_names::ALL {
            let program = object.program_mut(name).ok_or_else(|| missing(name))?;
            let program: &mut SchedClassifier =
                program.try_into().map_err(|error| fail("load", name, &error))?;
            program.load().map_err(|error| fail("load", name, &error))?;
            let pin = self.program_pin(name);
            files::remove(&pin)?;
            program.pin(&pin).map_err(|error| fail("pin", name, &error))?;
        }
        let settings = Settings { build: build(), netns: own_namespace()?, ..self.settings()? };
        self.set_settings(&settings)
    }

    /// A pinned program, to be attached.
    pub(super) fn program(&self, name: &str) -> Result<SchedClassifier> {
        SchedClassifier::from_pin(self.program_pin(name))
            .map_err(|error| fail("open", name, &error))
    }

    pub(super) fn hash<K: Pod, V: Pod>(&self, name: &str) -> Result<HashMap<MapData, K, V>> {
        let map = self.map(name)?;
        let lru = [map_names::OPENING4, map_names::OPENING6].contains(&name);
        let map = if lru { Map::LruHashMap(map) } else { Map::HashMap(map) };
        HashMap::try_from(map).map_err(|error| fail("open", name, &error))
    }

    pub(super) fn map(&self, name: &str) -> Result<MapData> {
        MapData::from_pin(self.map_pin(name)).map_err(|error| fail("open", name, &error))
    }

    pub(super) fn settings(&self) -> Result<Settings> {
        let map = Map::Array(self.map(map_names::SETTINGS)?);
        let array: Array<MapData, Settings> =
            Array::try_from(map).map_err(|error| fail("open", map_names::SETTINGS, &error))?;
        array.get(&0, 0).map_err(|error| fail("read", map_names::SETTINGS, &error))
    }

    pub(super) fn set_settings(&self, settings: &Settings) -> Result<()> {
        let map = Map::Array(self.map(map_names::SETTINGS)?);
        let mut array: Array<MapData, Settings> =
            Array::try_from(map).map_err(|error| fail("open", map_names::SETTINGS, &error))?;
        array.set(0, settings, 0).map_err(|error| fail("write", map_names::SETTINGS, &error))
    }

    /// Where the link of a hook is pinned, if it is a TCX one.
    pub(super) fn link_pin(&self, ifindex: u32, hook: &str) -> PathBuf {
        self.directory.join("links").join(format!("{ifindex}-{hook}"))
    }

    /// The pinned links: interface and pin.
    pub(super) fn link_pins(&self) -> Vec<(u32, PathBuf)> {
        let Ok(entries) = fs::read_dir(self.directory.join("links")) else { return Vec::new() };
        let pins = entries.flatten().filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let (index, _) = name.split_once('-')?;
            Some((index.parse().ok()?, entry.path()))
        });
        pins.collect()
    }
}

/// Keeps a link beyond this process.
pub(super) fn pin_link(link: FdLink, pin: &Path) -> Result<()> {
    let name = pin.display().to_string();
    link.pin(pin).map(drop).map_err(|error| fail("pin", &name, &error))
}

pub(super) fn layout(paths: &Paths) -> PathBuf {
    paths.bpffs.join(format!("v{LAYOUT_VERSION}"))
}

fn build() -> u64 {
    BUILD.parse().unwrap_or(0)
}

/// The inode of the network namespace of this thread.
fn own_namespace() -> Result<u64> {
    let path = "/proc/thread-self/ns/net";
    let metadata = fs::metadata(path).map_err(|source| Error::Io {
        doing: "look at",
        object: path.to_owned(),
        source,
    })?;
    Ok(metadata.ino())
}

fn missing(name: &str) -> Error {
    Error::Internal(format!("the eBPF object has no program {name}"))
}

/// An error of aya, with every cause that it names.
pub(super) fn fail(doing: &'static str, object: &str, error: &dyn std::error::Error) -> Error {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    Error::Io { doing, object: object.to_owned(), source: io::Error::other(text) }
}

//! The verdict log: what the programs say about each packet. Only builds with the feature `trace`
//! have programs that say anything.

#![forbid(unsafe_code)]

use std::{
    fs,
    io::{self, Write},
    path::PathBuf,
    thread,
    time::Duration,
};

use academy_common::LAYOUT_VERSION;
use aya::programs::ProgramInfo;
use aya_log::EbpfLogger;
use log::{LevelFilter, Log, Metadata, Record};

use crate::{
    error::{Error, Result},
    paths::Paths,
};

/// How often the log is looked at.
const TURN: Duration = Duration::from_millis(20);

/// Prints the log of the pinned programs on stdout, a line per verdict, until it is ended.
///
/// # Errors
/// Code 103 when no program is pinned that has a log.
pub fn follow(paths: &Paths) -> Result<()> {
    let programs = paths.bpffs.join(format!("v{LAYOUT_VERSION}")).join("progs");
    let fail = |reason: String| Error::Bpffs { path: programs.display().to_string(), reason };
    let pins = fs::read_dir(&programs).map_err(|error| fail(error.to_string()))?;
    // All programs of one object write to one log.
    let logged = pins.flatten().find_map(|pin| open(pin.path()));
    let mut log = logged.ok_or_else(|| fail("no program here keeps a log".to_owned()))?;
    log::set_max_level(LevelFilter::Trace);
    loop {
        log.flush();
        thread::sleep(TURN);
    }
}

fn open(pin: PathBuf) -> Option<EbpfLogger<Stdout>> {
    let program = ProgramInfo::from_pin(pin).ok()?;
    EbpfLogger::init_from_id_with_logger(program.id(), Stdout).ok()
}

/// A logger that prints the bare message.
struct Stdout;

impl Log for Stdout {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        // Who reads it may have gone.
        let _ = writeln!(io::stdout(), "{}", record.args());
    }

    fn flush(&self) {}
}

//! The stages of a run, and what became of each.

use std::{
    io::{BufRead, BufReader},
    process::{Command, ExitCode},
};

use anyhow::{Context, Result};

use super::tally::Tally;
use crate::{
    interrupt,
    process::{self, line},
};

/// What was run so far.
#[derive(Default)]
pub struct Stages {
    results: Vec<(String, Tally)>,
}

impl Stages {
    /// A stage of our own: gives what it made, unless it failed.
    ///
    /// # Errors
    /// When a signal came.
    pub fn work<T>(&mut self, name: &str, work: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
        begin(name);
        let made = work();
        interrupt::check()?;
        if let Err(error) = &made {
            eprintln!("{name}: {error:#}");
        }
        self.results.push((name.to_owned(), Tally::of_one(made.is_ok())));
        Ok(made.ok())
    }

    /// A stage that is one command, which succeeds or fails as a whole.
    ///
    /// # Errors
    /// When a signal came.
    pub fn command(&mut self, name: &str, command: &mut Command) -> Result<()> {
        self.work(name, || process::run(command)).map(drop)
    }

    /// A stage that cannot be run here.
    pub fn skip(&mut self, name: &str, reason: &str) {
        println!("SKIP {name}: {reason}");
        self.results.push((name.to_owned(), Tally::skipped()));
    }

    /// A stage of test programs, whose results are counted one by one.
    ///
    /// # Errors
    /// When it cannot be started, or a signal came.
    pub fn tests(&mut self, name: &str, command: &mut Command) -> Result<()> {
        begin(name);
        let mut tally = Tally::default();
        let status = process::stream(command, |stdout| {
            for text in BufReader::new(stdout).split(b'\n') {
                let text = text.with_context(|| format!("cannot read from {name}"))?;
                let text = String::from_utf8_lossy(&text);
                println!("{text}");
                tally.read(&text);
            }
            Ok(())
        })?;
        interrupt::check()?;
        if !status.success() {
            eprintln!("{name}: {status}: {}", line(command));
            tally.require_failure();
        }
        self.results.push((name.to_owned(), tally));
        Ok(())
    }

    /// Prints the summary and says whether all is well.
    pub fn finish(self) -> ExitCode {
        println!("\nsummary");
        let mut total = Tally::default();
        for (name, tally) in &self.results {
            let verdict = if tally.failed() == 0 { "ok" } else { "FAILED" };
            println!("  {verdict:<6} {name}: {tally}");
            total.add(tally);
        }
        println!("{total}");
        if total.failed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

fn begin(name: &str) {
    eprintln!("\n=== {name}");
}

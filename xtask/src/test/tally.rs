//! Counting what libtest prints.

use std::{collections::BTreeSet, fmt};

/// How many tests passed, failed, and could not be run.
#[derive(Default)]
pub struct Tally {
    passed: usize,
    failed: usize,
    ignored: usize,
    /// The tests that said `SKIP <test>: <reason>`. libtest takes them for passed.
    skipped: BTreeSet<String>,
}

impl Tally {
    /// One that passed or failed.
    pub fn of_one(passed: bool) -> Self {
        Self { passed: passed.into(), failed: (!passed).into(), ..Self::default() }
    }

    /// One that could not be run.
    pub fn skipped() -> Self {
        Self { ignored: 1, ..Self::default() }
    }

    /// How many failed.
    pub fn failed(&self) -> usize {
        self.failed
    }

    /// The program says that it failed: then at least one thing did.
    pub fn require_failure(&mut self) {
        self.failed = self.failed.max(1);
    }

    /// Reads one line of a test program.
    pub fn read(&mut self, line: &str) {
        // With one thread, libtest prints `test <name> ... ` before the test runs.
        let said = line.rsplit_once(" ... ").map_or(line, |(_, said)| said);
        if let Some((name, _)) = said.strip_prefix("SKIP ").and_then(|skip| skip.split_once(": ")) {
            self.skipped.insert(name.to_owned());
            return;
        }
        let Some((_, counts)) =
            line.strip_prefix("test result: ").and_then(|result| result.split_once(". "))
        else {
            return;
        };
        for count in counts.split(';') {
            let mut words = count.split_whitespace();
            let number = words.next().and_then(|number| number.parse().ok()).unwrap_or(0);
            match words.next() {
                Some("passed") => self.passed += number,
                Some("failed") => self.failed += number,
                Some("ignored") => self.ignored += number,
                _ => {}
            }
        }
    }

    /// Adds the numbers of another.
    pub fn add(&mut self, other: &Self) {
        self.passed += other.really_passed();
        self.failed += other.failed;
        self.ignored += other.ignored + other.skipped.len();
    }

    fn really_passed(&self) -> usize {
        self.passed.saturating_sub(self.skipped.len())
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let skipped = self.ignored + self.skipped.len();
        write!(f, "{} passed, {} failed, {skipped} skipped", self.really_passed(), self.failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(lines: &[&str]) -> Tally {
        let mut tally = Tally::default();
        lines.iter().for_each(|line| tally.read(line));
        tally
    }

    #[test]
    fn results_of_several_programs_are_added_up() {
        let tally = tally(&[
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.01s",
            "test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s",
        ]);
        assert_eq!(tally.to_string(), "7 passed, 2 failed, 1 skipped");
    }

    #[test]
    fn a_skipped_test_is_not_passed() {
        let tally = tally(&[
            "SKIP ping: no ping",
            "test pong ... SKIP pong: no ping",
            "SKIP pong: said twice",
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
        ]);
        assert_eq!(tally.to_string(), "1 passed, 0 failed, 2 skipped");
    }

    #[test]
    fn other_lines_count_nothing() {
        let tally = tally(&["running 3 tests", "test a ... ok", "SKIP", "test result: what"]);
        assert_eq!(tally.to_string(), "0 passed, 0 failed, 0 skipped");
    }

    #[test]
    fn a_program_that_fails_without_a_count_failed_once() {
        let mut tally = Tally::default();
        tally.require_failure();
        tally.require_failure();
        assert_eq!(tally.failed(), 1);
    }
}

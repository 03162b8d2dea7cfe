//! Failures of work that goes on past them: DEL, GC and the like finish every step.

use crate::{
    error::{Error, Result},
    report::say,
};

/// The first failure, which is reported; later ones are said on stderr.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    first: Option<Error>,
}

impl Failures {
    /// Takes what came of a step: its value, or nothing.
    pub(crate) fn note<T>(&mut self, result: Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                if self.first.is_some() {
                    say(error);
                } else {
                    self.first = Some(error);
                }
                None
            }
        }
    }

    /// Whether nothing failed yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// The first failure, if there was one.
    pub(crate) fn finish(self) -> Result<()> {
        self.first.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_is_the_one_that_is_reported() {
        let mut failures = Failures::default();
        assert_eq!(failures.note(Ok(7)), Some(7));
        assert!(failures.is_empty());
        assert_eq!(failures.note::<()>(Err(Error::NotReady("first".into()))), None);
        failures.note::<()>(Err(Error::Internal("second".into())));
        assert_eq!(failures.finish().unwrap_err().to_string(), "first");
        Failures::default().finish().unwrap();
    }
}

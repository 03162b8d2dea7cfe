//! What to do backwards when an ADD fails half-way.

use crate::{error::Result, report::say};

/// Steps that take back what was done, run last to first unless the whole came to a good end.
#[derive(Default)]
pub struct Undo<'a> {
    steps: Vec<(String, Step<'a>)>,
}

type Step<'a> = Box<dyn FnOnce() -> Result<()> + 'a>;

impl std::fmt::Debug for Undo<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_list().entries(self.steps.iter().map(|(what, _)| what)).finish()
    }
}

impl<'a> Undo<'a> {
    /// Nothing done yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes how to take back what was just done; `what` is said if that fails too.
    pub fn push(&mut self, what: impl Into<String>, step: impl FnOnce() -> Result<()> + 'a) {
        self.steps.push((what.into(), Box::new(step)));
    }

    /// It came to a good end: everything stays.
    pub fn keep(mut self) {
        self.steps.clear();
    }
}

impl Drop for Undo<'_> {
    /// Takes everything back. Every step is tried; what fails is said on stderr, since the error
    /// that the caller reports is the one that led here.
    fn drop(&mut self) {
        while let Some((what, step)) = self.steps.pop() {
            if let Err(error) = step() {
                say(format_args!("undo: {what}: {error}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::error::Error;

    #[test]
    fn steps_are_taken_back_last_to_first_past_a_failing_one() {
        let done = RefCell::new(Vec::new());
        let mut undo = Undo::new();
        for step in 1..=3 {
            let done = &done;
            undo.push(format!("step {step}"), move || {
                done.borrow_mut().push(step);
                if step == 2 { Err(Error::Internal("stuck".into())) } else { Ok(()) }
            });
        }
        drop(undo);
        assert_eq!(*done.borrow(), [3, 2, 1]);
    }

    #[test]
    fn nothing_is_taken_back_after_a_good_end() {
        let done = RefCell::new(0);
        let mut undo = Undo::new();
        undo.push("step", || {
            *done.borrow_mut() += 1;
            Ok(())
        });
        undo.keep();
        assert_eq!(*done.borrow(), 0);
    }
}

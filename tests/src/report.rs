//! One test looks at many cases; all that fail are named at its end.

use std::{net::IpAddr, thread};

use crate::Reply;

/// What went wrong so far.
#[derive(Default)]
pub struct Report {
    failures: Vec<String>,
}

impl Report {
    /// Nothing so far.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes a failure unless `holds`.
    pub fn check(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.failures.push(what());
        }
    }

    /// `server` has to have answered.
    pub fn answered_by(&mut self, what: &str, reply: &Reply, server: &str) {
        self.check(reply.server() == Some(server), || {
            format!("{what}: wanted an answer of {server}, got {reply:?}")
        });
    }

    /// `server` has to have answered, and to have seen a client with this address.
    pub fn answered_seeing(&mut self, what: &str, reply: &Reply, server: &str, client: IpAddr) {
        self.answered_by(what, reply, server);
        if let Reply::Answer(answer) = reply {
            self.check(answer.seen.ip() == client, || {
                format!("{what}: the server saw {}, wanted {client}", answer.seen)
            });
        }
    }

    /// Nobody may have answered.
    pub fn unanswered(&mut self, what: &str, reply: &Reply) {
        self.check(reply.server().is_none(), || format!("{what}: nobody may answer: {reply:?}"));
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if !self.failures.is_empty() && !thread::panicking() {
            panic!("{} cases fail:\n  {}", self.failures.len(), self.failures.join("\n  "));
        }
    }
}

//! What the CNI specification fixes: environment, versions, results, errors, lists of
//! attachments.

#![forbid(unsafe_code)]

mod args;
mod env;
mod failure;
mod gc;
mod result;
mod result_json;
mod version;

pub use args::CniArgs;
pub use env::{Command, Env};
pub use failure::failure;
pub use gc::{ValidAttachment, valid_attachments};
pub use result::{CniResult, Dns, Interface, Ip, Route};
pub(crate) use result_json::{dns, routes};
pub use version::{Version, versions_document};

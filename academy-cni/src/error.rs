//! Everything that can go wrong, with the code that CNI gives it.

#![forbid(unsafe_code)]

use std::{fmt::Display, io, net::IpAddr, path::Path};

/// What functions here return.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure as the runtime gets to see it: `Display` is `msg`, [`Error::code`] is `code` and
/// [`Error::details`] is `details` of the error document (CNI spec 1.1, "Error").
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Code 1: the configuration's version does not allow this.
    #[error("{message}")]
    Version {
        /// What is wrong, in the words of the reference skeleton.
        message: String,
        /// The version of the configuration and the supported ones.
        details: String,
    },
    /// Code 2: the configuration asks for something that academy does not do.
    #[error("unsupported field {key} with value {value}: {reason}")]
    Unsupported {
        /// The key, with the path to it.
        key: String,
        /// Its value as JSON.
        value: String,
        /// Why not.
        reason: String,
    },
    /// Code 4: the environment of the call.
    #[error("{message}")]
    Env {
        /// What is wrong; names the variables.
        message: String,
        /// The offending value, or nothing.
        details: String,
    },
    /// Code 5: an operation on a file failed.
    #[error("{doing} {object}: {}", plain(source))]
    Io {
        /// What was being done, as in "write".
        doing: &'static str,
        /// The file.
        object: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// Code 5: the kernel refused a change of links, addresses, routes or neighbours.
    #[error("{doing} {object}: {reason}")]
    Netlink {
        /// What was being done, as in "add address".
        doing: &'static str,
        /// To what, as in "10.98.0.2/24 to eth0".
        object: String,
        /// What the kernel said.
        reason: String,
    },
    /// Code 6: something is no JSON, or not the JSON that it should be.
    #[error("{what}: {reason}")]
    Decode {
        /// What was read.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Code 7: the configuration is wrong.
    #[error("invalid network config: {field}: {reason} (got {value})")]
    Config {
        /// The field, with the path to it: `runtimeConfig.portMappings[0].hostPort`.
        field: String,
        /// Its value as JSON.
        value: String,
        /// What it should be.
        reason: String,
    },
    /// Code 7: what `ADD` found on the host contradicts the configuration.
    #[error("{0}")]
    Conflict(String),
    /// Code 8: the network namespace.
    #[error("network namespace {path:?}: {reason}")]
    Netns {
        /// The value of CNI_NETNS.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Code 11: another call holds a lock for too long.
    #[error("{0}; try again later")]
    TryAgain(String),
    /// Code 50: no ADD can succeed.
    #[error("{0}")]
    NotReady(String),
    /// Code 100: no free address.
    #[error("no IP addresses available in range set: {ranges}")]
    Exhausted {
        /// The first and last addresses of the ranges of the set.
        ranges: String,
        /// Their subnets.
        subnet: String,
        /// How many addresses are held.
        used: u128,
        /// How many are free: none, unless others took what was free meanwhile.
        free: u128,
    },
    /// Code 100: a requested address is not to be had.
    #[error("requested IP address {address} is not available in range set {ranges}: {reason}")]
    AddressTaken {
        /// The address.
        address: IpAddr,
        /// The ranges it belongs to.
        ranges: String,
        /// Who holds it, or what it is.
        reason: String,
    },
    /// Code 101: a host port is taken.
    #[error("host port {port}/{protocol} on {address} is already taken by {owner}")]
    PortTaken {
        /// As in "tcp".
        protocol: &'static str,
        /// The host address; the wildcard of the family for all of them.
        address: IpAddr,
        /// The host port.
        port: u16,
        /// The attachment or process that holds it.
        owner: String,
    },
    /// Code 102: the kernel lacks something.
    #[error("this kernel lacks {feature}, which Linux {since} and later have")]
    Kernel {
        /// What it lacks.
        feature: String,
        /// The first kernel version that has it.
        since: &'static str,
    },
    /// Code 103: bpffs, or a directory of academy's that others could have tampered with.
    #[error("{path}: {reason}")]
    Bpffs {
        /// The file or directory.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Code 104: a delegated plugin failed.
    #[error("{message}")]
    Delegate {
        /// In our words on DEL; with code and text of the plugin otherwise.
        message: String,
        /// The plugin's code.
        details: String,
    },
    /// Code 999: a bug of academy's.
    #[error("internal error: {0}")]
    Internal(String),
}

impl Error {
    /// The code of the error document (CNI spec 1.1, "Error"; from 100 on academy's own).
    #[must_use]
    pub fn code(&self) -> u32 {
        match self {
            Self::Version { .. } => 1,
            Self::Unsupported { .. } => 2,
            Self::Env { .. } => 4,
            Self::Io { .. } | Self::Netlink { .. } => 5,
            Self::Decode { .. } => 6,
            Self::Config { .. } | Self::Conflict(_) => 7,
            Self::Netns { .. } => 8,
            Self::TryAgain(_) => 11,
            Self::NotReady(_) => 50,
            Self::Exhausted { .. } | Self::AddressTaken { .. } => 100,
            Self::PortTaken { .. } => 101,
            Self::Kernel { .. } => 102,
            Self::Bpffs { .. } => 103,
            Self::Delegate { .. } => 104,
            Self::Internal(_) => 999,
        }
    }

    /// The details of the error document, where `msg` does not say it all.
    #[must_use]
    pub fn details(&self) -> Option<String> {
        match self {
            Self::Version { details, .. }
            | Self::Env { details, .. }
            | Self::Delegate { details, .. }
                if !details.is_empty() =>
            {
                Some(details.clone())
            }
            Self::Exhausted { subnet, used, free, .. } => {
                Some(format!("subnet {subnet}, {used} used, {free} free"))
            }
            _ => None,
        }
    }

    /// A wrong value in the configuration.
    pub fn config(field: impl Display, value: impl Display, reason: impl Display) -> Self {
        Self::Config {
            field: field.to_string(),
            value: value.to_string(),
            reason: reason.to_string(),
        }
    }

    /// A wrong variable in the environment, named in the message.
    pub fn env(message: impl Display) -> Self {
        Self::Env { message: message.to_string(), details: String::new() }
    }

    /// A file operation that failed.
    #[must_use]
    pub fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { doing, object: path.display().to_string(), source }
    }
}

/// Says what was being done to which file when an operation failed.
pub trait IoContext<T> {
    /// Turns the kernel's error into one that names the file.
    ///
    /// # Errors
    ///
    /// The one that it was, as [`Error::Io`].
    fn doing(self, doing: &'static str, path: &Path) -> Result<T>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| Error::io(doing, path, source))
    }
}

/// The kernel's words, except for those that containerd takes for the success of a DEL wherever
/// they stand in an error: "not found" and "no such file or directory".
fn plain(source: &io::Error) -> String {
    match source.kind() {
        io::ErrorKind::NotFound => "it does not exist (ENOENT)".to_owned(),
        _ => source.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_not_worded_as_success() {
        let error = Error::io("open", Path::new("/x"), io::ErrorKind::NotFound.into());
        let os = Error::io("open", Path::new("/x"), io::Error::from_raw_os_error(2));
        for message in [error.to_string(), os.to_string()] {
            let lower = message.to_lowercase();
            assert!(!lower.contains("not found"), "{message}");
            assert!(!lower.contains("no such file or directory"), "{message}");
        }
    }

    #[test]
    fn an_exhausted_pool_says_subnet_used_and_free_in_its_details() {
        let error = Error::Exhausted {
            ranges: "10.98.0.1-10.98.0.6".into(),
            subnet: "10.98.0.0/29".into(),
            used: 5,
            free: 0,
        };
        assert_eq!(error.code(), 100);
        assert_eq!(error.details().unwrap(), "subnet 10.98.0.0/29, 5 used, 0 free");
    }

    #[test]
    fn an_unsupported_field_is_named_with_its_value() {
        let error = Error::Unsupported {
            key: "ipMasq".into(),
            value: "true".into(),
            reason: "not built yet".into(),
        };
        assert_eq!(error.code(), 2);
        assert_eq!(error.to_string(), "unsupported field ipMasq with value true: not built yet");
    }
}

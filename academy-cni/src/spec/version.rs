//! Versions of the specification.

use std::fmt;

use serde_json::{Value, json};

use super::Command;
use crate::{
    config::Json,
    error::{Error, Result},
};

/// A version of the specification that academy speaks, in the order of their release.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Version {
    /// 0.1.0, also what a configuration without `cniVersion` means.
    V0_1_0,
    /// 0.2.0.
    V0_2_0,
    /// 0.3.0: results list interfaces and any number of addresses.
    V0_3_0,
    /// 0.3.1.
    V0_3_1,
    /// 0.4.0: CHECK, `prevResult` on DEL.
    V0_4_0,
    /// 1.0.0: addresses without `version`.
    V1_0_0,
    /// 1.1.0: GC, STATUS, more fields in results.
    V1_1_0,
}

impl Version {
    /// All of them, oldest first.
    pub const ALL: [Self; 7] = [
        Self::V0_1_0,
        Self::V0_2_0,
        Self::V0_3_0,
        Self::V0_3_1,
        Self::V0_4_0,
        Self::V1_0_0,
        Self::V1_1_0,
    ];

    /// As it stands in `cniVersion`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V0_1_0 => "0.1.0",
            Self::V0_2_0 => "0.2.0",
            Self::V0_3_0 => "0.3.0",
            Self::V0_3_1 => "0.3.1",
            Self::V0_4_0 => "0.4.0",
            Self::V1_0_0 => "1.0.0",
            Self::V1_1_0 => "1.1.0",
        }
    }

    /// The version of a configuration.
    ///
    /// # Errors
    ///
    /// Code 6 when `cniVersion` is no version, code 1 when it is one that academy does not speak.
    pub fn of(config: &Json) -> Result<Self> {
        let value = match config.get("cniVersion") {
            None => return Ok(Self::V0_1_0),
            Some(Json::String(text)) if text.is_empty() => return Ok(Self::V0_1_0),
            Some(Json::String(text)) => text,
            Some(other) => return Err(malformed(other)),
        };
        if let Some(version) = Self::ALL.into_iter().find(|version| version.as_str() == value) {
            return Ok(version);
        }
        if !is_version(value) {
            return Err(malformed(value));
        }
        Err(Error::Version {
            message: "incompatible CNI versions".to_owned(),
            details: format!("config is {value:?}, plugin supports {:?}", supported()),
        })
    }

    /// Whether configurations of this version know the command.
    ///
    /// # Errors
    ///
    /// Code 1 for CHECK before 0.4.0, GC and STATUS before 1.1.0.
    pub fn check_allows(self, command: Command) -> Result<()> {
        let since = match command {
            Command::Check => Self::V0_4_0,
            Command::Gc | Command::Status => Self::V1_1_0,
            Command::Add | Command::Del | Command::Version => Self::V0_1_0,
        };
        if self >= since {
            return Ok(());
        }
        Err(Error::Version {
            message: format!("config version does not allow {command}"),
            details: format!("config is \"{self}\", {command} needs \"{since}\" or later"),
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What VERSION prints (CNI spec 1.1, "VERSION").
#[must_use]
pub fn versions_document() -> Value {
    json!({ "cniVersion": Version::V1_1_0.as_str(), "supportedVersions": supported() })
}

fn supported() -> [&'static str; 7] {
    Version::ALL.map(Version::as_str)
}

fn malformed(value: impl fmt::Display) -> Error {
    Error::Decode {
        what: "decoding version from network config".to_owned(),
        reason: format!("cniVersion is {value}, which is no version number"),
    }
}

/// Whether this is one to three numbers with dots between them.
fn is_version(text: &str) -> bool {
    let mut parts = 0;
    for part in text.split('.') {
        parts += 1;
        if part.is_empty() || !part.bytes().all(|c| c.is_ascii_digit()) {
            return false;
        }
    }
    parts <= 3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Result<Version> {
        Version::of(&Json::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn containerd_6876_every_version_of_the_reference_plugins_is_spoken() {
        for known in Version::ALL {
            let text = format!(r#"{{"cniVersion":"{known}"}}"#);
            assert_eq!(version(&text).unwrap(), known);
        }
    }

    #[test]
    fn no_version_means_the_first_one() {
        for text in ["{}", r#"{"cniVersion":null}"#, r#"{"cniVersion":""}"#] {
            assert_eq!(version(text).unwrap(), Version::V0_1_0);
        }
    }

    #[test]
    fn a_version_that_is_not_spoken_is_code_1_with_both_sides_in_the_details() {
        let error = version(r#"{"cniVersion":"2.0.0"}"#).unwrap_err();
        assert_eq!((error.code(), error.to_string().as_str()), (1, "incompatible CNI versions"));
        let details = error.details().unwrap();
        assert!(details.starts_with(r#"config is "2.0.0", plugin supports ["0.1.0", "#));
    }

    #[test]
    fn what_is_no_version_is_code_6() {
        for bad in [r#""one""#, r#""1.0.x""#, r#""1.0.0.0""#, r#""1..0""#, "1.0", "{}", "true"] {
            let error = version(&format!(r#"{{"cniVersion":{bad}}}"#)).unwrap_err();
            assert_eq!(error.code(), 6, "{bad}");
        }
    }

    #[test]
    fn commands_need_the_version_that_introduced_them() {
        for (command, first) in [
            (Command::Check, Version::V0_4_0),
            (Command::Gc, Version::V1_1_0),
            (Command::Status, Version::V1_1_0),
            (Command::Add, Version::V0_1_0),
            (Command::Del, Version::V0_1_0),
        ] {
            for version in Version::ALL {
                let allowed = version.check_allows(command);
                assert_eq!(allowed.is_ok(), version >= first, "{command} {version}");
                if let Err(error) = allowed {
                    assert_eq!(error.code(), 1);
                    let expected = format!("config version does not allow {command}");
                    assert_eq!(error.to_string(), expected);
                }
            }
        }
    }
}

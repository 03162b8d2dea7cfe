//! The environment of a call (CNI spec 1.1, "Parameters"), read as the reference skeleton does.

use std::{
    env,
    ffi::{OsStr, OsString},
    fmt,
    path::PathBuf,
};

use crate::{
    attachment::{check_container_id, check_ifname},
    error::{Error, Result},
};

/// What the runtime wants: CNI_COMMAND.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Attach a container.
    Add,
    /// Detach it.
    Del,
    /// See whether it is attached as it should be.
    Check,
    /// Remove what no valid attachment needs.
    Gc,
    /// Say whether an ADD could succeed.
    Status,
    /// Say which versions are spoken.
    Version,
}

impl Command {
    /// As it stands in CNI_COMMAND.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Add => "ADD",
            Self::Del => "DEL",
            Self::Check => "CHECK",
            Self::Gc => "GC",
            Self::Status => "STATUS",
            Self::Version => "VERSION",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Add, Self::Del, Self::Check, Self::Gc, Self::Status, Self::Version]
            .into_iter()
            .find(|command| command.as_str() == text)
    }

    /// The variables without which the reference skeleton refuses the command.
    fn required(self) -> &'static [&'static str] {
        match self {
            Self::Add | Self::Check => &["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"],
            Self::Del => &["CNI_CONTAINERID", "CNI_IFNAME", "CNI_PATH"],
            Self::Gc | Self::Status => &["CNI_PATH"],
            Self::Version => &[],
        }
    }

    /// Whether the command is about one attachment.
    #[must_use]
    pub fn has_attachment(self) -> bool {
        matches!(self, Self::Add | Self::Del | Self::Check)
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The variables of a call. Those that the command does not need may be empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Env {
    /// CNI_COMMAND.
    pub command: Command,
    /// CNI_CONTAINERID; valid where the command needs it.
    pub container_id: String,
    /// CNI_NETNS: the path of the container's network namespace.
    pub netns: String,
    /// CNI_IFNAME; valid where the command needs it.
    pub ifname: String,
    /// CNI_ARGS, as given: see [`super::CniArgs`].
    pub args: String,
    /// CNI_PATH: where other plugins are.
    pub path: Vec<PathBuf>,
    /// CNI_NETNS_OVERRIDE: CNI_NETNS may be the namespace that the plugin runs in.
    pub netns_override: bool,
}

impl Env {
    /// The environment of this process; nothing without CNI_COMMAND.
    ///
    /// # Errors
    ///
    /// Code 4, naming every variable that is missing, or the one that is wrong.
    pub fn read() -> Result<Option<Self>> {
        Self::from_variables(|name| env::var_os(name))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<Option<Self>> {
        let get = |name: &str| variable(name).unwrap_or_default();
        let text = |name: &'static str| {
            get(name).into_string().map_err(|raw| Error::Env {
                message: format!("environment variable {name} is no UTF-8"),
                details: raw.to_string_lossy().into_owned(),
            })
        };
        let command = text("CNI_COMMAND")?;
        if command.is_empty() {
            return Ok(None);
        }
        let command = Command::parse(&command)
            .ok_or_else(|| Error::env(format_args!("unknown CNI_COMMAND: {command}")))?;
        let missing: Vec<&str> =
            command.required().iter().copied().filter(|name| get(name).is_empty()).collect();
        if !missing.is_empty() {
            let names = missing.join(",");
            return Err(Error::env(format_args!("required env variables [{names}] missing")));
        }
        let (container_id, ifname) = if command.has_attachment() {
            let names = (text("CNI_CONTAINERID")?, text("CNI_IFNAME")?);
            check_container_id(&names.0)?;
            check_ifname(&names.1)?;
            names
        } else {
            // Runtimes put anything there (podman: "dummy"), and nothing is made of it.
            (String::new(), String::new())
        };
        let netns_override = get("CNI_NETNS_OVERRIDE");
        Ok(Some(Self {
            command,
            container_id,
            netns: text("CNI_NETNS")?,
            ifname,
            args: text("CNI_ARGS")?,
            path: split_path(&get("CNI_PATH")),
            netns_override: netns_override.eq_ignore_ascii_case("true") || netns_override == "1",
        }))
    }
}

/// The directories of a list, without the empty ones: they would mean the working directory.
fn split_path(list: &OsStr) -> Vec<PathBuf> {
    env::split_paths(list).filter(|path| !path.as_os_str().is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [(&str, &str); 5] = [
        ("CNI_CONTAINERID", "c1"),
        ("CNI_NETNS", "/run/netns/x"),
        ("CNI_IFNAME", "eth0"),
        ("CNI_PATH", "/opt/cni/bin::/usr/lib/cni"),
        ("CNI_ARGS", "IgnoreUnknown=1"),
    ];

    fn read(command: &str, variables: &[(&str, &str)]) -> Result<Option<Env>> {
        Env::from_variables(|name| {
            let given = variables.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
            if name == "CNI_COMMAND" { Some(command.into()) } else { given.map(OsString::from) }
        })
    }

    #[test]
    fn all_missing_variables_stand_in_one_error() {
        for (command, expected) in [
            ("ADD", "CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME,CNI_PATH"),
            ("CHECK", "CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME,CNI_PATH"),
            ("DEL", "CNI_CONTAINERID,CNI_IFNAME,CNI_PATH"),
            ("GC", "CNI_PATH"),
            ("STATUS", "CNI_PATH"),
        ] {
            let error = read(command, &[]).unwrap_err();
            assert_eq!(error.code(), 4);
            assert_eq!(error.to_string(), format!("required env variables [{expected}] missing"));
        }
        let error =
            read("ADD", &[("CNI_CONTAINERID", ""), ("CNI_NETNS", "/n"), ("CNI_PATH", "/p")]);
        let expected = "required env variables [CNI_CONTAINERID,CNI_IFNAME] missing";
        assert_eq!(error.unwrap_err().to_string(), expected);
    }

    #[test]
    fn each_command_needs_only_its_own_variables() {
        let env = read("ADD", &ALL).unwrap().unwrap();
        assert_eq!(env.command, Command::Add);
        assert_eq!((env.container_id.as_str(), env.ifname.as_str()), ("c1", "eth0"));
        assert_eq!(env.path, ["/opt/cni/bin", "/usr/lib/cni"].map(PathBuf::from));
        let without_netns = [("CNI_CONTAINERID", "c"), ("CNI_IFNAME", "e"), ("CNI_PATH", "/p")];
        assert_eq!(read("DEL", &without_netns).unwrap().unwrap().netns, "");
        assert!(read("VERSION", &[]).unwrap().is_some());
        assert!(read("GC", &[("CNI_PATH", "/p")]).unwrap().is_some());
    }

    #[test]
    fn podman_asks_for_the_version_with_dummies_everywhere() {
        let dummies = [("CNI_CONTAINERID", "dummy/:"), ("CNI_IFNAME", "dummy dummy dummy")];
        assert_eq!(read("VERSION", &dummies).unwrap().unwrap().command, Command::Version);
    }

    #[test]
    fn an_unknown_command_is_named() {
        for command in ["add", "FROB"] {
            let error = read(command, &ALL).unwrap_err();
            assert_eq!(error.code(), 4);
            assert_eq!(error.to_string(), format!("unknown CNI_COMMAND: {command}"));
        }
    }

    #[test]
    fn without_a_command_there_is_no_call() {
        assert_eq!(read("", &ALL).unwrap(), None);
        assert_eq!(Env::from_variables(|_| None).unwrap(), None);
    }

    #[test]
    fn names_that_are_no_names_are_code_4() {
        for (name, value) in [
            ("CNI_CONTAINERID", "../../etc"),
            ("CNI_CONTAINERID", "a b"),
            ("CNI_IFNAME", "sixteen-bytes-xx"),
            ("CNI_IFNAME", "a/b"),
        ] {
            let mut variables = ALL;
            for variable in &mut variables {
                if variable.0 == name {
                    variable.1 = value;
                }
            }
            let error = read("DEL", &variables).unwrap_err();
            assert_eq!(error.code(), 4);
            assert_eq!(error.details().unwrap(), value);
        }
    }

    #[test]
    fn the_override_is_true_or_1() {
        for (value, expected) in [("1", true), ("TRUE", true), ("true", true), ("0", false)] {
            let mut variables = ALL.to_vec();
            variables.push(("CNI_NETNS_OVERRIDE", value));
            assert_eq!(read("ADD", &variables).unwrap().unwrap().netns_override, expected);
        }
    }
}

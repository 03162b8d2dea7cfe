//! Where academy keeps things on the host.

#![forbid(unsafe_code)]

use std::{env, ffi::OsString, path::PathBuf};

/// The directories of academy, and the one of `host-local` whose leases it respects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Paths {
    /// Pins, in a BPF file system. `ACADEMY_BPFFS`, by default `/sys/fs/bpf/academy`.
    pub bpffs: PathBuf,
    /// The lock and the records of attachments: what dies with the boot. `ACADEMY_RUN_DIR`, by
    /// default `/run/academy`.
    pub run_dir: PathBuf,
    /// Leases. `ACADEMY_STATE_DIR`, by default `/var/lib/cni/academy`.
    pub state_dir: PathBuf,
    /// The default directory of `host-local`, `/var/lib/cni/networks`.
    /// `ACADEMY_HOST_LOCAL_DIR` is for tests.
    pub host_local_dir: PathBuf,
}

impl Paths {
    /// The directories that the environment names, and the defaults for the others.
    #[must_use]
    pub fn from_env() -> Self {
        Self::from_variables(|name| env::var_os(name))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let path = |name, default: &str| match variable(name) {
            Some(value) if !value.is_empty() => PathBuf::from(value),
            _ => PathBuf::from(default),
        };
        Self {
            bpffs: path("ACADEMY_BPFFS", "/sys/fs/bpf/academy"),
            run_dir: path("ACADEMY_RUN_DIR", "/run/academy"),
            state_dir: path("ACADEMY_STATE_DIR", "/var/lib/cni/academy"),
            host_local_dir: path("ACADEMY_HOST_LOCAL_DIR", "/var/lib/cni/networks"),
        }
    }

    /// The file whose lock guards what is global.
    #[must_use]
    pub fn lock_file(&self) -> PathBuf {
        self.run_dir.join(LOCK_NAME)
    }

    /// The directory of a network's attachment records. The name must be a valid one, see
    /// [`crate::attachment::check_network`].
    #[must_use]
    pub fn records(&self, network: &str) -> PathBuf {
        // A network may be called like the lock file; none can begin with a dot.
        if network == LOCK_NAME {
            return self.run_dir.join(LOCK_NETWORK);
        }
        self.run_dir.join(network)
    }

    /// The network whose records a directory of this name in the run directory holds.
    #[must_use]
    pub fn network_of_records(directory: &str) -> &str {
        if directory == LOCK_NETWORK { LOCK_NAME } else { directory }
    }
}

const LOCK_NAME: &str = "lock";
const LOCK_NETWORK: &str = ".lock-network";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_have_the_documented_defaults() {
        let paths = Paths::from_variables(|_| None);
        assert_eq!(paths.bpffs, PathBuf::from("/sys/fs/bpf/academy"));
        assert_eq!(paths.run_dir, PathBuf::from("/run/academy"));
        assert_eq!(paths.state_dir, PathBuf::from("/var/lib/cni/academy"));
        assert_eq!(paths.host_local_dir, PathBuf::from("/var/lib/cni/networks"));
        assert_eq!(paths.lock_file(), PathBuf::from("/run/academy/lock"));
    }

    #[test]
    fn the_environment_moves_each_directory_and_an_empty_variable_none() {
        let paths = Paths::from_variables(|name| match name {
            "ACADEMY_RUN_DIR" => Some("/tmp/run".into()),
            "ACADEMY_STATE_DIR" => Some(OsString::new()),
            _ => None,
        });
        assert_eq!(paths.run_dir, PathBuf::from("/tmp/run"));
        assert_eq!(paths.state_dir, PathBuf::from("/var/lib/cni/academy"));
    }

    #[test]
    fn a_network_called_lock_does_not_meet_the_lock_file() {
        let paths = Paths::from_variables(|_| None);
        let records = paths.records("lock");
        assert_ne!(records, paths.lock_file());
        let name = records.file_name().unwrap().to_str().unwrap();
        assert_eq!(Paths::network_of_records(name), "lock");
        assert_eq!(Paths::network_of_records("harness"), "harness");
    }
}

//! Network namespaces.

use std::{
    fs::{self, File},
    io,
    os::{fd::AsRawFd, unix::process::CommandExt},
    path::{Path, PathBuf},
    process::{self, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use nix::sched::{CloneFlags, setns};

/// A number that no other call of this process gets.
#[must_use]
pub fn unique() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A network namespace with a name in `/run/netns`, gone when dropped.
pub struct Netns {
    name: String,
    path: PathBuf,
    file: File,
}

impl Netns {
    /// A new namespace named `act-<process>-<number>-<label>`, with lo up.
    ///
    /// Frames between ports of a bridge pass netfilter in a new namespace wherever `br_netfilter`
    /// is loaded. That is switched off here; tests that want it switch it on.
    #[must_use]
    pub fn new(label: &str) -> Self {
        let name = format!("act-{}-{}-{label}", process::id(), unique());
        must(Command::new("ip").args(["netns", "add", &name]));
        let path = Path::new("/run/netns").join(&name);
        let file = File::open(&path).unwrap();
        let netns = Self { name, path, file };
        netns.ip("link set lo up");
        for family in ["iptables", "ip6tables", "arptables"] {
            netns.bridge_netfilter(family, false);
        }
        netns
    }

    /// `net.bridge.bridge-nf-call-<family>`, where the kernel has it.
    pub fn bridge_netfilter(&self, family: &str, on: bool) {
        let key = format!("net/bridge/bridge-nf-call-{family}");
        self.enter(|| {
            if Path::new("/proc/sys").join(&key).exists() {
                write_sysctl(&key, if on { "1" } else { "0" });
            }
        });
    }

    /// Its name below `/run/netns`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its path, as a runtime hands it to a plugin.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `work` on a thread inside. Sockets that it makes stay inside for ever.
    ///
    /// # Panics
    /// When `work` does.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let inside = || {
            setns(&self.file, CloneFlags::CLONE_NEWNET).unwrap();
            work()
        };
        thread::scope(|scope| match scope.spawn(inside).join() {
            Ok(value) => value,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }

    /// A command that will run inside, and see the bpffs and files of the machine.
    #[must_use]
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let descriptor = self.file.as_raw_fd();
        let mut command = Command::new(program);
        let enter = move || {
            // SAFETY: setns takes two integers; the descriptor is open in the parent, whose
            // `Netns` outlives the start of the child.
            match unsafe { libc::setns(descriptor, libc::CLONE_NEWNET) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        };
        // SAFETY: the closure makes one system call and allocates nothing.
        unsafe { command.pre_exec(enter) };
        command
    }

    /// Runs a program inside; its arguments are separated by blanks. Gives its stdout.
    ///
    /// # Panics
    /// When it fails.
    #[track_caller]
    pub fn run(&self, line: &str) -> String {
        let mut words = line.split_whitespace();
        must(self.command(words.next().unwrap()).args(words))
    }

    /// Runs a program inside and says whether it succeeded.
    #[must_use]
    pub fn succeeds(&self, line: &str) -> bool {
        let mut words = line.split_whitespace();
        let mut command = self.command(words.next().unwrap());
        command.args(words).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().unwrap().success()
    }

    /// `ip <line>`.
    #[track_caller]
    pub fn ip(&self, line: &str) -> String {
        self.run(&format!("ip {line}"))
    }

    /// `ip -json <line>`.
    #[track_caller]
    pub fn ip_json(&self, line: &str) -> serde_json::Value {
        let text = self.run(&format!("ip -json {line}"));
        if text.trim().is_empty() {
            return serde_json::Value::Array(Vec::new());
        }
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("ip {line}: {error}: {text}"))
    }

    /// The names of its interfaces.
    #[must_use]
    pub fn links(&self) -> Vec<String> {
        let links = self.ip_json("link show");
        let names = links.as_array().unwrap().iter();
        names.map(|link| link["ifname"].as_str().unwrap().to_owned()).collect()
    }

    /// The index of an interface.
    #[must_use]
    #[track_caller]
    pub fn ifindex(&self, name: &str) -> u32 {
        let links = self.ip_json(&format!("link show dev {name}"));
        u32::try_from(links[0]["ifindex"].as_u64().unwrap()).unwrap()
    }

    /// The MAC of an interface.
    #[must_use]
    #[track_caller]
    pub fn mac(&self, name: &str) -> [u8; 6] {
        let links = self.ip_json(&format!("link show dev {name}"));
        let text = links[0]["address"].as_str().unwrap();
        let mut octets = text.split(':').map(|octet| u8::from_str_radix(octet, 16).unwrap());
        std::array::from_fn(|_| octets.next().unwrap())
    }

    /// Sets a value below `/proc/sys`, with slashes in the key.
    pub fn set_sysctl(&self, key: &str, value: &str) {
        self.enter(|| write_sysctl(key, value));
    }

    /// Reads a value below `/proc/sys`.
    #[must_use]
    pub fn sysctl(&self, key: &str) -> String {
        self.enter(|| fs::read_to_string(Path::new("/proc/sys").join(key)).unwrap())
            .trim()
            .to_owned()
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        // It may be gone already: some tests delete it under the plugin.
        let _ =
            Command::new("ip").args(["netns", "del", &self.name]).stderr(Stdio::null()).status();
    }
}

fn write_sysctl(key: &str, value: &str) {
    let path = Path::new("/proc/sys").join(key);
    fs::write(&path, value).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// Runs a command and gives its stdout.
///
/// # Panics
/// When it fails, with what it wrote.
#[track_caller]
pub fn must(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}: {stderr}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

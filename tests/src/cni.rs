//! The runtime's side of CNI: environment, stdin, and what the plugin says.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    path::{Path, PathBuf},
    process::Stdio,
    sync::mpsc,
    thread,
    time::Duration,
};

use serde_json::Value;

use crate::Netns;

/// How long one call may take.
const LIMIT: Duration = Duration::from_secs(60);

/// One call of a plugin.
#[derive(Clone)]
pub struct Call {
    program: PathBuf,
    arguments: Vec<String>,
    environment: BTreeMap<String, String>,
    stdin: String,
}

impl Call {
    /// A call of `program` with `CNI_COMMAND` and `CNI_PATH`, and nothing else.
    #[must_use]
    pub fn new(program: &Path, command: &str, cni_path: &Path) -> Self {
        Self::bare(program).env("CNI_COMMAND", command).env("CNI_PATH", cni_path.to_str().unwrap())
    }

    /// A call without any CNI variable.
    #[must_use]
    pub fn bare(program: &Path) -> Self {
        let environment = [("PATH".to_owned(), "/usr/sbin:/usr/bin:/sbin:/bin".to_owned())];
        Self {
            program: program.to_owned(),
            arguments: Vec::new(),
            environment: environment.into(),
            stdin: String::new(),
        }
    }

    /// For one interface of one container.
    #[must_use]
    pub fn container(self, id: &str, netns: &Path, ifname: &str) -> Self {
        self.env("CNI_CONTAINERID", id)
            .env("CNI_NETNS", netns.to_str().unwrap())
            .env("CNI_IFNAME", ifname)
    }

    /// With one more variable, or another value of one.
    #[must_use]
    pub fn env(mut self, key: &str, value: &str) -> Self {
        self.environment.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Without a variable.
    #[must_use]
    pub fn without(mut self, key: &str) -> Self {
        self.environment.remove(key);
        self
    }

    /// With an argument on the command line.
    #[must_use]
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// With this configuration on stdin.
    #[must_use]
    pub fn config(self, config: &Value) -> Self {
        self.stdin(&config.to_string())
    }

    /// With this text on stdin.
    #[must_use]
    pub fn stdin(mut self, text: &str) -> Self {
        text.clone_into(&mut self.stdin);
        self
    }

    /// Runs the plugin in `netns` and kills it after a while; true when it had not ended by then.
    pub fn run_killed(&self, netns: &Netns, after: Duration) -> bool {
        let mut command = netns.command(&self.program);
        command.args(&self.arguments).env_clear().envs(&self.environment);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let _ = child.stdin.take().unwrap().write_all(self.stdin.as_bytes());
        // The one place where a time is meant: the kill comes at any point of the work.
        thread::sleep(after);
        let _ = child.kill();
        !child.wait().unwrap().success()
    }

    /// Runs the plugin in `netns` to its end.
    ///
    /// # Panics
    /// When it cannot be started, or does not end within a minute.
    #[must_use]
    #[track_caller]
    pub fn run(&self, netns: &Netns) -> Outcome {
        let mut command = netns.command(&self.program);
        command.args(&self.arguments).env_clear().envs(&self.environment);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{:?}: {e}", self.program));
        let stdin = child.stdin.take().unwrap();
        let stdout = collect(child.stdout.take().unwrap());
        let stderr = collect(child.stderr.take().unwrap());
        let text = self.stdin.clone();
        // A plugin that does not read its stdin closes it under us.
        thread::spawn(move || { stdin }.write_all(text.as_bytes()));
        let Ok(stdout) = stdout.recv_timeout(LIMIT) else {
            let _ = child.kill();
            panic!("{:?} hangs: {:?}", self.program, self.environment);
        };
        let stderr = stderr.recv_timeout(LIMIT).unwrap();
        let status = child.wait().unwrap();
        Outcome { code: status.code(), stdout, stderr }
    }
}

fn collect(mut stream: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

/// How a call ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The exit code; nothing when a signal ended it.
    pub code: Option<i32>,
    /// All of stdout.
    pub stdout: String,
    /// All of stderr.
    pub stderr: String,
}

impl Outcome {
    /// Whether it exited with 0.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.code == Some(0)
    }

    /// Itself, when it exited with 0.
    ///
    /// # Panics
    /// Otherwise.
    #[must_use]
    #[track_caller]
    pub fn success(self) -> Self {
        assert!(self.succeeded(), "the call failed: {self:?}");
        self
    }

    /// Success without a word on stdout: how DEL, CHECK, GC and STATUS end.
    ///
    /// # Panics
    /// Otherwise.
    #[track_caller]
    pub fn silent_success(self) {
        let outcome = self.success();
        assert_eq!(outcome.stdout, "", "stdout has to stay empty: {outcome:?}");
    }

    /// The one JSON document on stdout.
    ///
    /// # Panics
    /// When there is none, or more.
    #[must_use]
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The error that it reports.
    ///
    /// # Panics
    /// When it succeeded, or reports none in one JSON document.
    #[must_use]
    #[track_caller]
    pub fn error(&self) -> CniError {
        assert!(self.code.is_some_and(|code| code != 0), "the call has to fail: {self:?}");
        let json = self.json();
        let text = |key: &str| json[key].as_str().unwrap_or_default().to_owned();
        let code = json["code"].as_u64().unwrap_or_else(|| panic!("no code: {self:?}"));
        CniError { code, msg: text("msg"), details: text("details") }
    }

    /// The error, which has to have this code and to name all of `words`.
    ///
    /// # Panics
    /// Otherwise.
    #[track_caller]
    pub fn fails_with(&self, code: u64, words: &[&str]) {
        let error = self.error();
        assert_eq!(error.code, code, "wanted code {code}: {self:?}");
        let text = format!("{} {}", error.msg, error.details);
        for word in words {
            assert!(text.contains(word), "the error has to name {word:?}: {self:?}");
        }
    }
}

/// An error as the specification shapes it.
#[derive(Clone, Debug)]
pub struct CniError {
    /// Its number.
    pub code: u64,
    /// What happened.
    pub msg: String,
    /// More about it.
    pub details: String,
}

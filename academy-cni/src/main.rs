//! The `academy` binary: a CNI plugin, and a few words for the administrator.

#![forbid(unsafe_code)]

use std::{
    env,
    fmt::Display,
    io::{self, Read, Write},
    path::Path,
    process::ExitCode,
};

use academy_cni::{
    commands::{self, Call},
    config::Json,
    error::{IoContext, Result},
    paths::Paths,
    report::say,
    spec::{Command, Env, Version, failure, versions_document},
};
use serde_json::Value;

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    match arguments.as_slice() {
        [] => plugin(),
        [word] if word == "sync" => administrate(commands::sync),
        [word] if word == "reset" => administrate(commands::reset),
        [word] if word == "version" => administrate(|_| {
            print(env!("CARGO_PKG_VERSION"));
            Ok(())
        }),
        #[cfg(feature = "trace")]
        [word] if word == "trace" => administrate(academy_cni::trace::follow),
        _ => {
            say(about());
            ExitCode::FAILURE
        }
    }
}

/// Runs a command of the administrator's.
fn administrate(command: impl FnOnce(&Paths) -> Result<()>) -> ExitCode {
    match command(&Paths::from_env()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(error);
            ExitCode::FAILURE
        }
    }
}

/// Runs as a CNI plugin: at most one JSON document on stdout, whatever happens.
fn plugin() -> ExitCode {
    let mut version = Version::V1_1_0;
    match serve(&mut version) {
        Ok(document) => {
            document.into_iter().for_each(print);
            ExitCode::SUCCESS
        }
        Err(error) => {
            print(failure(version, &error));
            ExitCode::FAILURE
        }
    }
}

/// Serves the call that the environment describes. `version` becomes that of the configuration as
/// soon as it is known.
fn serve(version: &mut Version) -> Result<Option<Value>> {
    let Some(env) = Env::read()? else {
        say(about());
        return Ok(None);
    };
    // The reference skeleton answers this without a look at the configuration.
    if env.command == Command::Version {
        return Ok(Some(versions_document()));
    }
    let mut input = Vec::new();
    io::stdin().read_to_end(&mut input).doing("read", Path::new("stdin"))?;
    let config = Json::parse(&input)?;
    if let Ok(known) = Version::of(&config) {
        *version = known;
    }
    commands::run(&Call::new(env, config)?)
}

/// Prints a document. A runtime that has gone does not want to read it: no failure, no panic.
fn print(document: impl Display) {
    let _ = writeln!(io::stdout(), "{document}");
}

fn about() -> String {
    format!(
        "{}, a CNI plugin that forwards in eBPF\n\
         CNI protocol versions supported: {}\n\
         As a plugin it takes its call from CNI_COMMAND and stdin. \
         Otherwise: academy sync | reset | version",
        env!("CARGO_PKG_VERSION"),
        Version::ALL.map(Version::as_str).join(", "),
    )
}

//! The programs that the tests need: academy itself, and what `cargo xtask test` builds.

use std::{
    env,
    io::{self, Write},
    path::PathBuf,
    process, thread,
};

use nix::unistd::Uid;

/// The built plugin: `ACADEMY_BIN`.
///
/// # Panics
/// When the variable is absent.
#[must_use]
pub fn academy() -> PathBuf {
    PathBuf::from(env::var_os("ACADEMY_BIN").expect("ACADEMY_BIN: run `cargo xtask test`"))
}

/// The directory of `cnitool` and the reference plugins: `ACADEMY_TOOLS_DIR`.
///
/// # Panics
/// When the variable is absent.
#[must_use]
pub fn directory() -> PathBuf {
    PathBuf::from(
        env::var_os("ACADEMY_TOOLS_DIR").expect("ACADEMY_TOOLS_DIR: run `cargo xtask test`"),
    )
}

/// One of the programs in [`directory`].
#[must_use]
pub fn reference(name: &str) -> PathBuf {
    directory().join(name)
}

/// Says that this test cannot run here, and why; `cargo xtask test` counts these lines. True when
/// something is missing: then the test has to return.
#[must_use]
pub fn skip_without_programs(programs: &[&str]) -> bool {
    let absent = |program: &&&str| {
        let path = env::var_os("PATH").unwrap_or_default();
        let mut places = env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
        !places.any(|place| place.join(program).is_file()) && !reference(program).is_file()
    };
    match programs.iter().find(absent) {
        Some(program) => skip(&format!("{program} is not installed")),
        None => false,
    }
}

/// Ends the whole run, and says so, when it is not root's: no test here can run without.
pub fn require_root() {
    if !Uid::effective().is_root() {
        skip("not root, no test of this crate can run");
        process::exit(0);
    }
}

fn skip(reason: &str) -> bool {
    let thread = thread::current();
    let name = thread.name().unwrap_or("test");
    // Not `println!`: the test harness swallows that when the test passes.
    writeln!(io::stdout().lock(), "SKIP {name}: {reason}").unwrap();
    true
}

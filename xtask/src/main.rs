//! `cargo xtask`: everything around the product. It sets the machine up, builds the plugin, tests
//! it and shows it at work.
//!
//! One module per subcommand; [`process`], [`interrupt`] and [`workspace`] serve them all.

mod build;
mod clean;
mod demo;
mod interrupt;
mod leftovers;
mod netns;
mod process;
mod setup;
mod test;
mod workspace;

use std::process::ExitCode;

use anyhow::{Result, bail};
use lexopt::{Arg, Parser, ValueExt};

const USAGE: &str = "\
cargo xtask setup [--check]   install what is missing; with --check only say what is
cargo xtask build             build the plugin; the last line on stdout is its path
    --features trace            with the verdict log
    --profile NAME              another cargo profile than release
    --build-number N            instead of the time of the last commit
cargo xtask test [FILTER]     set up, build, lint, run every test, or those whose name has FILTER
cargo xtask demo [--trace]    set up, build, show the plugin at work, clean up
cargo xtask clean             remove what a killed demo or test run left behind";

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(_) if interrupt::happened() => {
            eprintln!("xtask: interrupted");
            ExitCode::from(130)
        }
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode> {
    interrupt::install()?;
    let mut arguments = Parser::from_env();
    match arguments.next()? {
        Some(Arg::Value(command)) => match command.string()?.as_str() {
            "setup" => setup::command(parse_flag(&mut arguments, "check")?),
            "build" => build::command(&parse_build(&mut arguments)?),
            "test" => test::command(parse_filter(&mut arguments)?.as_deref()),
            "demo" => demo::command(parse_flag(&mut arguments, "trace")?),
            "clean" => {
                parse_nothing(&mut arguments)?;
                clean::command()
            }
            other => bail!("no such command: {other}\n{USAGE}"),
        },
        Some(Arg::Short('h') | Arg::Long("help")) => {
            println!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        Some(other) => Err(other.unexpected().into()),
        None => bail!("a command is needed\n{USAGE}"),
    }
}

fn parse_flag(arguments: &mut Parser, name: &str) -> Result<bool> {
    let mut given = false;
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long(long) if long == name => given = true,
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(given)
}

fn parse_build(arguments: &mut Parser) -> Result<build::Options> {
    let mut options = build::Options::default();
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("features") => match arguments.value()?.string()?.as_str() {
                "trace" => options.trace = true,
                "" => {}
                other => bail!("no such feature: {other} (there is trace)"),
            },
            Arg::Long("profile") => options.profile = arguments.value()?.string()?,
            Arg::Long("build-number") => options.number = Some(arguments.value()?.parse()?),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(options)
}

fn parse_filter(arguments: &mut Parser) -> Result<Option<String>> {
    let filter = match arguments.next()? {
        Some(Arg::Value(filter)) => filter.string()?,
        Some(other) => return Err(other.unexpected().into()),
        None => return Ok(None),
    };
    parse_nothing(arguments)?;
    Ok(Some(filter))
}

fn parse_nothing(arguments: &mut Parser) -> Result<()> {
    match arguments.next()? {
        Some(other) => Err(other.unexpected().into()),
        None => Ok(()),
    }
}

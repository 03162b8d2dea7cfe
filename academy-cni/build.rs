//! Puts the eBPF object beside the code that embeds it, and the build number into it.
//!
//! `cargo xtask build` sets `ACADEMY_BPF_OBJECT` and `ACADEMY_BUILD`. Without them, as in a plain
//! `cargo check` or `cargo test`, the object is empty and the number 0: everything compiles, and
//! loading the object fails with words that say so.

use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=ACADEMY_BPF_OBJECT");
    println!("cargo::rerun-if-env-changed=ACADEMY_BUILD");

    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let embedded = out.join("academy-ebpf.o");
    match env::var_os("ACADEMY_BPF_OBJECT") {
        Some(object) => {
            println!("cargo::rerun-if-changed={}", Path::new(&object).display());
            let copied = fs::copy(&object, &embedded);
            copied.map_err(|error| format!("{}: {error}", Path::new(&object).display()))?;
        }
        None => fs::write(&embedded, [])?,
    }

    let number = env::var("ACADEMY_BUILD").unwrap_or_else(|_| "0".to_owned());
    let number: u64 = number.parse().map_err(|_| format!("ACADEMY_BUILD is {number}"))?;
    println!("cargo::rustc-env=ACADEMY_BUILD={number}");
    Ok(())
}

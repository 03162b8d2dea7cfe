//! What the built files have to be, read from the files.

use anyhow::{Result, bail};
use object::{
    Endianness, Object, ObjectSection,
    elf::{self, FileHeader64},
    read::elf::{ElfFile64, FileHeader, ProgramHeader},
};

/// The sections that bpftool and the kernel take names and types from.
const BTF: [&str; 2] = [".BTF", ".BTF.ext"];

/// Fails unless an eBPF object has its BTF.
///
/// # Errors
/// When it has none or is no object.
pub fn require_btf(object: &[u8]) -> Result<()> {
    let file = ElfFile64::<Endianness>::parse(object)?;
    for name in BTF {
        let section = file.section_by_name(name);
        if section.is_none_or(|section| section.size() == 0) {
            bail!("the eBPF object has no section {name}");
        }
    }
    Ok(())
}

/// Fails unless a program runs without a dynamic linker.
///
/// # Errors
/// When it names one or is no program.
pub fn require_static(program: &[u8]) -> Result<()> {
    let header = FileHeader64::<Endianness>::parse(program)?;
    let endian = header.endian()?;
    let segments = header.program_headers(endian, program)?;
    if segments.iter().any(|segment| segment.p_type(endian) == elf::PT_INTERP) {
        bail!("the binary is not statically linked");
    }
    Ok(())
}

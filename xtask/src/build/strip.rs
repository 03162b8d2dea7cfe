//! Taking out of the object what only debuggers read. BTF is made from it and stays; the rest is
//! most of the file, and the file is in every copy of the plugin.

use anyhow::{Context, Result};
use object::{
    build::elf::{Builder, SectionData},
    elf::SHT_STRTAB,
};

/// An object without its DWARF, and without the relocations and symbols that were for it.
///
/// # Errors
/// When it is no object.
pub fn debug_information(object: &[u8]) -> Result<Vec<u8>> {
    let mut builder = Builder::read(object).context("the eBPF object")?;
    for section in &mut builder.sections {
        let name = section.name.to_string();
        section.delete = name.starts_with(".debug_") || name.starts_with(".rel.debug_");
    }
    builder.delete_orphans();
    // LLVM keeps the names of sections and symbols in one table, the writer in two.
    let names = builder.sections.add();
    names.name = ".shstrtab".into();
    names.sh_type = SHT_STRTAB;
    names.data = SectionData::SectionString;
    let mut stripped = Vec::new();
    builder.write(&mut stripped)?;
    Ok(stripped)
}

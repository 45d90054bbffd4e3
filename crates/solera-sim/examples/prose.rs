//! Prints what the checks of comments and pages (`solera_sim::pages`) find, and fails if they find
//! something.
//!
//! It checks citations and widths of all pages and sources. It checks the lengths of sentences in
//! ARCHITECTURE, GLOSSARY, STYLE, PAPERS and the heads of `crates/solera/src`.
//!
//! `.ci/prose` runs it.

use solera_sim::pages::{citations, files, sentences, widths};
use std::{
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

fn main() -> io::Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let mut heads: Vec<PathBuf> = ["ARCHITECTURE", "GLOSSARY", "STYLE", "PAPERS"]
        .iter()
        .map(|name| root.join("docs").join(name).with_extension("md"))
        .collect();
    heads.extend(files(&root.join("crates/solera/src"), &["rs"])?);
    let mut found = widths::too_wide(&files(&root, &["rs", "md"])?)?;
    found.extend(sentences::too_long(&heads)?);
    found.extend(citations::unresolved(&root)?);
    for violation in &found {
        println!("{violation}");
    }
    eprintln!("{} found", found.len());
    Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

//! `solera completions` and `solera man`: the command line described for shells and for `man`
//! (`Completions`, `Man`).
//!
//! Both are made from the command itself, by `clap_complete` and `clap_mangen`.
//!
//! What must hold: pages are written over older pages only, not over files of others (`own`).
//!
//! Caller: `main`.

use crate::{
    failure::{Failure, Outcome, Result},
    output::stdout,
    own,
};
use clap::Command;
use clap_complete::Shell;
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Print the completions of this command for a shell
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  solera completions bash > ~/.local/share/bash-completion/completions/solera
  solera completions fish > ~/.config/fish/completions/solera.fish")]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, command: &mut Command) -> Result<Outcome> {
        // Collected first: the generator panics when its reader has gone.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, command, "solera", &mut script);
        let mut out = stdout();
        out.write_all(&script)?;
        out.flush()?;
        Ok(Outcome::Done)
    }
}

/// Print the manual page, or write one for every command into a directory
#[derive(Debug, clap::Args)]
pub(crate) struct Man {
    /// Directory for solera.1, solera-load.1 and the others; it must exist
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

impl Man {
    pub(crate) fn run(self, command: Command) -> Result<Outcome> {
        if let Some(dir) = self.to {
            return write_pages(command, &dir).map(|()| Outcome::Done);
        }
        let mut out = stdout();
        clap_mangen::Man::new(command).render(&mut out)?;
        out.flush()?;
        Ok(Outcome::Done)
    }
}

/// What a manual page is called in messages.
const PAGE: &str = "a manual page of this command";

/// Writes the manual pages of all commands into `dir`, over older ones.
#[expect(clippy::disallowed_methods, reason = "the pages are the user's files, not the database's")]
fn write_pages(command: Command, dir: &Path) -> Result<()> {
    let failed = |error: &io::Error| Failure::file("write manual pages to", dir.display(), error);
    if !std::fs::metadata(dir).map_err(|error| failed(&error))?.is_dir() {
        return Err(Failure::Usage(format!("{} is a file; --to names a directory", dir.display())));
    }
    own::not_in_database(dir, "manual pages")?;
    // The generator writes over whatever is there.
    let made = tempfile::tempdir().map_err(|error| failed(&error))?;
    clap_mangen::generate_to(command, made.path()).map_err(|error| failed(&error))?;
    for page in std::fs::read_dir(made.path()).map_err(|error| failed(&error))? {
        let page = page.map_err(|error| failed(&error))?;
        let text = std::fs::read(page.path()).map_err(|error| failed(&error))?;
        // The generator begins each page so; an older version's differs behind the name.
        let title = text.split(|&byte| byte == b'\n').find(|line| line.starts_with(b".TH "));
        let name = title.and_then(|line| line.split(|&byte| byte == b' ').nth(1)).unwrap_or_default();
        let head = [&b".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n.TH "[..], name, b" "].concat();
        own::write(&dir.join(page.file_name()), PAGE, |start| start.starts_with(&head), &text)?;
    }
    Ok(())
}

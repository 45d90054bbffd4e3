//! `solera completions` and `solera man`: the command line described for shells and for `man`.

use crate::{
    failure::{Failure, Outcome, Result},
    output::stdout,
};
use clap::Command;
use clap_complete::Shell;
use std::{io::Write, path::PathBuf};

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
            clap_mangen::generate_to(command, &dir)
                .map_err(|error| Failure::file("write manual pages to", dir.display(), &error))?;
            return Ok(Outcome::Done);
        }
        let mut out = stdout();
        clap_mangen::Man::new(command).render(&mut out)?;
        out.flush()?;
        Ok(Outcome::Done)
    }
}

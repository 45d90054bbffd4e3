//! The `solera` command: loads, reads, inspects, measures and tunes a Solera database.
//!
//! It parses the command line (`Cli`), runs the command, and exits with its status. Commands lie in
//! `command`. The table of exit statuses for `--help` is here; `failure` gives the numbers.
//!
//! What must hold: the table and `failure` agree. Results go to standard output. A message is one
//! line on standard error, `solera: <what>`; progress goes there in its own form. A wrong command
//! line is one such line and status 2. A missing subcommand prints help there, also with status 2.
//!
//! Caller: the system; nothing else links it.

mod command;
mod escape;
mod failure;
mod given;
mod input;
mod output;
mod own;
mod progress;
mod record;
mod report;
mod signal;
mod target;
mod units;

use clap::{CommandFactory, Parser, Subcommand, error::ErrorKind};
use failure::{Outcome, Result};
use std::process::ExitCode;

/// The table of exit statuses; a macro, because `concat!` takes literals only.
macro_rules! exit_status {
    () => {
        "\
Exit status:
  0  done
  1  get: there is no such key
  2  the command line is wrong
  3  load: bad lines were left out, the rest is loaded
  4  damage: a file of the database is not what was written
  5  another process has the database open
  6  there is no such database, keyspace or file
  7  any other error
  130  stopped by a signal"
    };
}

/// Load, read, inspect and measure a Solera database
#[derive(Debug, Parser)]
#[command(name = "solera", version, after_long_help = HELP, after_help = exit_status!())]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const HELP: &str = concat!(
    "Keys and values are bytes. On the command line they are taken as they are, with --escaped as text with the \
     escapes \\\\ \\t \\n \\r \\xNN, with --hex as hexadecimal digits. Output is escaped text unless --raw, \
     --hex or --json asks otherwise.\n\n\
     --dir may be given once and for all in the environment variable SOLERA_DIR. Commands that only read never \
     create or change a file, and work on read-only directories.\n\n",
    exit_status!()
);

#[derive(Debug, Subcommand)]
enum Command {
    Load(command::load::Load),
    Get(command::get::Get),
    Put(command::put::Put),
    Del(command::del::Del),
    Scan(command::scan::Scan),
    Stats(command::stats::Stats),
    Levels(command::levels::Levels),
    Check(command::check::Check),
    Dump(command::dump::Dump),
    Compact(command::compact::Compact),
    Checkpoint(command::checkpoint::Checkpoint),
    Control(command::control::Control),
    Bench(command::bench::Bench),
    Cost(command::cost::Cost),
    Trace(command::trace::Trace),
    Tune(command::tune::Tune),
    Explain(command::explain::Explain),
    Keyspace(command::keyspace::KeyspaceCommand),
    Completions(command::completions::Completions),
    Man(command::completions::Man),
}

impl Command {
    fn run(self) -> Result<Outcome> {
        match self {
            Command::Load(command) => command.run(),
            Command::Get(command) => command.run(),
            Command::Put(command) => command.run(),
            Command::Del(command) => command.run(),
            Command::Scan(command) => command.run(),
            Command::Stats(command) => command.run(),
            Command::Levels(command) => command.run(),
            Command::Check(command) => command.run(),
            Command::Dump(command) => command.run(),
            Command::Compact(command) => command.run(),
            Command::Checkpoint(command) => command.run(),
            Command::Control(command) => command.run(),
            Command::Bench(command) => command.run(),
            Command::Cost(command) => command.run(),
            Command::Trace(command) => command.run(),
            Command::Tune(command) => command.run(),
            Command::Explain(command) => command.run(),
            Command::Keyspace(command) => command.run(),
            Command::Completions(command) => command.run(&mut Cli::command()),
            Command::Man(command) => command.run(Cli::command()),
        }
    }
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    match cli.command.run() {
        Ok(outcome) => outcome.exit_code(),
        Err(failure) => {
            if !matches!(failure, failure::Failure::OutputClosed) {
                output::say(&failure.to_string());
            }
            failure.exit_code()
        }
    }
}

/// Help as asked for, or what is wrong with the command line on one line.
fn usage(error: &clap::Error) -> ExitCode {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    ) {
        // Help whose reader has gone is no failure.
        let _ = error.print();
        return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
    }
    let text = error.to_string();
    let what = text.split("\n\nUsage:").next().unwrap_or(&text);
    let what = what.trim_start_matches("error: ").replace("For more information, try '--help'.", "");
    let lines = what.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let what = lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
    // Listed arguments follow a colon, each on a line of its own.
    let what = what.replace(":; ", ": ").replace("tip: ", "");
    output::say(&format!("{what}; `{} --help` tells more", command_of(std::env::args_os())));
    ExitCode::from(2)
}

/// The command that the arguments name, as far as there are such commands: `solera control get`.
fn command_of(args: impl Iterator<Item = std::ffi::OsString>) -> String {
    let mut name = "solera".to_owned();
    let mut command = Cli::command();
    for arg in args.skip(1) {
        let found = arg.to_str().and_then(|arg| command.find_subcommand(arg)).cloned();
        let Some(found) = found else { break };
        name = format!("{name} {}", found.get_name());
        command = found;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}

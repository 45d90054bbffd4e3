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
use std::{io::Write, process::ExitCode};

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
    signal::survive_limits();
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
        let printed = error.print().and_then(|()| std::io::stdout().flush()).map_err(failure::Failure::from);
        return match printed {
            _ if error.use_stderr() => ExitCode::from(2),
            // Help whose reader has gone is no failure.
            Ok(()) | Err(failure::Failure::OutputClosed) => ExitCode::SUCCESS,
            Err(failure) => {
                output::say(&failure.to_string());
                failure.exit_code()
            }
        };
    }
    let text = error.to_string();
    let what = text.split("\n\nUsage:").next().unwrap_or(&text);
    // The library's tip is for arguments without a name.
    let mut what = what.to_owned();
    if let Some(option) = option_before_hyphen().filter(|_| what.contains("unexpected argument '-")) {
        let kept = what.lines().filter(|line| !line.trim_start().starts_with("tip: to pass '-"));
        what = kept.collect::<Vec<_>>().join("\n");
        what.push_str(&format!("\ntip: write {option}=VALUE for a value that begins with a hyphen"));
    }
    let what = what.trim_start_matches("error: ").replace("For more information, try '--help'.", "");
    let lines = what.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let what = lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
    // Listed arguments follow a colon, each on a line of its own.
    let what = what.replace(":; ", ": ").replace("tip: ", "");
    output::say(&format!("{what}; `{} --help` tells more", named(std::env::args_os()).0));
    ExitCode::from(2)
}

/// The option without its value behind which stands an argument that begins with one hyphen.
fn option_before_hyphen() -> Option<String> {
    let args: Vec<String> = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let (_, command) = named(std::env::args_os());
    let takes_value = |name: &str| {
        command.get_arguments().any(|arg| arg.get_long() == Some(name) && arg.get_action().takes_values())
    };
    let is_pair = |pair: &&[String]| {
        pair[0].strip_prefix("--").is_some_and(takes_value)
            && pair[1].starts_with('-')
            && !pair[1].starts_with("--")
    };
    args.windows(2).find(is_pair).map(|pair| pair[0].clone())
}

/// The command that the arguments name, as far as there are such commands, and what it is called:
/// `solera control get`.
fn named(args: impl Iterator<Item = std::ffi::OsString>) -> (String, clap::Command) {
    let mut name = "solera".to_owned();
    let mut command = Cli::command();
    for arg in args.skip(1) {
        let found = arg.to_str().and_then(|arg| command.find_subcommand(arg)).cloned();
        let Some(found) = found else { break };
        name = format!("{name} {}", found.get_name());
        command = found;
    }
    (name, command)
}

#[cfg(test)]
mod tests {
    use super::CommandFactory;

    /// Symptom: 16 options said "invalid digit found in string" of `x`. Cause: each was read by the
    /// library's own reader. Cure: one reader says what is right.
    #[test]
    fn every_option_says_in_words_what_a_wrong_number_is() {
        fn walk(command: &clap::Command, path: &[String], asked: &mut usize) {
            for arg in
                command.get_arguments().filter(|arg| arg.get_num_args().is_some_and(|n| n.takes_values()))
            {
                let Some(long) = arg.get_long() else { continue };
                let line = path.iter().cloned().chain([format!("--{long}=x")]);
                if let Err(error) = super::Cli::command().try_get_matches_from(line) {
                    let text = error.to_string();
                    let raw = ["digit", "integer", "literal"];
                    assert!(!raw.iter().any(|raw| text.contains(raw)), "{path:?} --{long}: {text}");
                    *asked += 1;
                }
            }
            for inner in command.get_subcommands() {
                walk(inner, &[path, &[inner.get_name().to_owned()]].concat(), asked);
            }
        }
        let mut command = super::Cli::command();
        command.build();
        let mut asked = 0;
        walk(&command, &["solera".to_owned()], &mut asked);
        assert!(asked > 40, "{asked} options were asked");
    }

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}

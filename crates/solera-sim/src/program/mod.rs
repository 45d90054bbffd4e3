//! The programs, one file each. A program prints what it does, ends with one line of figures, and says
//! through its exit code whether every promise was kept.

pub mod crashsim;
pub mod crowd;
pub mod diffmodel;
pub mod kill9;

use std::{fmt, process::ExitCode};

/// The figures of a finished program, and whether all went well.
#[derive(Debug)]
pub struct Verdict {
    program: &'static str,
    figures: Vec<(&'static str, String)>,
    kept: bool,
}

impl Verdict {
    /// A verdict on `program`, so far good.
    pub fn new(program: &'static str) -> Verdict {
        Verdict { program, figures: Vec::new(), kept: true }
    }

    /// Adds a figure.
    #[must_use]
    pub fn figure(mut self, name: &'static str, value: impl fmt::Display) -> Verdict {
        self.figures.push((name, value.to_string()));
        self
    }

    /// Adds a count of something that must not happen.
    #[must_use]
    pub fn must_be_none(mut self, name: &'static str, count: u64) -> Verdict {
        self.kept &= count == 0;
        self.figure(name, count)
    }

    /// Whether every promise was kept.
    pub fn kept(&self) -> bool {
        self.kept
    }

    /// Prints the last line, as words or as JSON, and gives the exit code.
    pub fn conclude(&self, json: bool) -> ExitCode {
        if json {
            let fields = self.figures.iter().map(|(name, value)| match value.parse::<f64>() {
                Ok(_) => format!(",\"{name}\":{value}"),
                Err(_) => format!(",\"{name}\":\"{value}\""),
            });
            println!(
                "{{\"program\":\"{}\"{},\"kept\":{}}}",
                self.program,
                fields.collect::<String>(),
                self.kept
            );
        } else {
            println!("{self}");
        }
        if self.kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.program)?;
        self.figures.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

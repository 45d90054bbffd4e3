//! The programs, one file each, and what they share: `Scale`, `Verdict`, `for_each_seed`, `watch`.
//!
//! A `Scale` is how much a program does, quick or nightly. A program prints what it does and gives
//! a `Verdict`: its figures in one line, and whether every promise was kept. `for_each_seed` does
//! work for seeds on several threads, in order of the seeds. `watch` gives up on the process if
//! work hangs for two minutes.
//!
//! What must hold: the exit code of a `Verdict` says whether every promise was kept.
//!
//! Callers: `main.rs`, `tests/lives.rs`, and the programs themselves.

pub mod bitflip;
#[cfg(feature = "canary")]
pub mod canary;
pub mod crashsim;
pub mod crowd;
pub mod diffmodel;
pub mod faultloop;
pub mod isolate;
pub mod evilmodel;
pub mod kill9;
pub mod metamorph;
pub mod limits;
pub mod record;

use crate::life::Pulse;
use std::{
    fmt,
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// How much a program does if nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// What the test command affords: all programs together take less than ten minutes on two
    /// cores.
    Quick,
    /// What a night affords.
    Nightly,
}

impl Scale {
    /// The name that users write.
    pub fn name(self) -> &'static str {
        match self {
            Scale::Quick => "quick",
            Scale::Nightly => "nightly",
        }
    }

    /// The amount for this scale.
    pub fn of<T>(self, quick: T, nightly: T) -> T {
        match self {
            Scale::Quick => quick,
            Scale::Nightly => nightly,
        }
    }
}

/// Does `work` for the seeds `first..first + count`, each once, on `threads` threads, and gives
/// what came of them in the order of the seeds.
pub fn for_each_seed<T: Send>(
    first: u64,
    count: u64,
    threads: usize,
    work: impl Fn(u64) -> T + Sync,
) -> Vec<T> {
    let next = AtomicU64::new(first);
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    let result = work(seed);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((seed, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(seed, _)| *seed);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Work in which nothing happens for so long hangs.
const HANG: Duration = Duration::from_secs(120);

/// Does `work` on a thread of its own and gives up on the whole process if its pulse stops: a
/// thread cannot be stopped from outside. `hangs` then says what was under way, by the number of
/// beats.
pub fn watch<T: Send>(work: impl FnOnce(&Pulse) -> T + Send, hangs: impl Fn(u64)) -> T {
    let pulse = Pulse::default();
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| work(&pulse));
        let (mut beats, mut idle) = (0, Duration::ZERO);
        while !worker.is_finished() {
            let pause = Duration::from_millis(5);
            std::thread::park_timeout(pause);
            idle = if pulse.beats() == beats { idle + pause } else { Duration::ZERO };
            beats = pulse.beats();
            if idle > HANG {
                hangs(beats);
                std::process::exit(3);
            }
        }
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

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

    /// The program's name.
    pub fn program(&self) -> &'static str {
        self.program
    }

    /// The figures as words, without the program's name.
    pub fn figures(&self) -> String {
        let words: Vec<_> = self.figures.iter().map(|(name, value)| format!("{name}={value}")).collect();
        words.join(" ")
    }

    /// Prints the last line, as words or as JSON.
    pub fn print(&self, json: bool) {
        if json { println!("{}", self.json()) } else { println!("{self}") }
    }

    /// The last line as JSON.
    pub fn json(&self) -> String {
        let fields = self.figures.iter().map(|(name, value)| match value.parse::<f64>() {
            Ok(_) => format!(",\"{name}\":{value}"),
            Err(_) => format!(",\"{name}\":\"{value}\""),
        });
        format!("{{\"program\":\"{}\"{},\"kept\":{}}}", self.program, fields.collect::<String>(), self.kept)
    }

    /// Success if every promise was kept.
    pub fn exit_code(&self) -> ExitCode {
        if self.kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.program, self.figures())
    }
}

//! A life, a script lived by the engine and by the oracle side by side, compared at every step:
//! `live`, `live_telling`.
//!
//! The engine runs on files in memory, a clock that stands still unless moved, no threads and a
//! fixed seed. An `Outcome` is what a life leaves, a `Failure` where the two part. A `Pulse` tells
//! a watch how far it is; `caught` turns a panic into a failure.
//!
//! What must hold: a life is a function of its script. It fails every time or never, and its digest
//! is the same on every run.
//! Callers: `program::{diffmodel, metamorph}`, `main.rs` (`replay`), `tests`, the fuzz target
//! `script`. `crash`, `faults`, `bitflip` and `evilmodel` use `caught`; all programs that watch for
//! hangs use `Pulse`.

mod iterate;
mod read;
mod world;

use crate::{digest::Digest, script::Script, tell::Work};
use std::{
    cell::{Cell, RefCell},
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Once,
        atomic::{AtomicU64, Ordering},
    },
};
use world::World;

/// What a life that went well leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Digest of every answer that the engine gave.
    pub answers: u64,
    /// Digest of every file that it left.
    pub files: u64,
    /// What the engine did for it.
    pub work: Work,
}

/// Where engine and oracle part.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Index of the operation; the number of operations if the fault was found after the last.
    pub at: usize,
    /// What was found.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operation {}: {}", self.at, self.what)
    }
}

/// How far a life has come, for a watch over lives that hang.
#[derive(Debug, Default)]
pub struct Pulse(AtomicU64);

impl Pulse {
    /// Operations begun.
    pub fn beats(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// One more step is begun.
    pub fn beat(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Lives a script. A panic of the engine is a failure like a wrong answer.
pub fn live(script: &Script, pulse: &Pulse) -> Result<Outcome, Failure> {
    live_telling(script, pulse, |_| {})
}

/// As [`live`]; `told` gets the digest of what each operation answered, and at last of what the end
/// did.
pub fn live_telling(
    script: &Script,
    pulse: &Pulse,
    mut told: impl FnMut(Digest),
) -> Result<Outcome, Failure> {
    let mut at = 0;
    let lived = caught(|| {
        let mut world = World::new(&script.setting)?;
        let mut answers = Digest::new();
        let mut tell = |digest: Digest| {
            told(digest);
            answers.add(&digest.0.to_le_bytes());
        };
        for operation in &script.operations {
            pulse.beat();
            world.apply(operation).map_err(|what| format!("{operation}: {what}"))?;
            tell(std::mem::take(&mut world.digest));
            at += 1;
        }
        let outcome = world.finish()?;
        tell(Digest(outcome.answers));
        Ok(Outcome { answers: answers.0, ..outcome })
    });
    lived.map_err(|what| Failure { at, what })
}

thread_local! {
    /// What this thread's last panic said, while its panics are caught.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
    static CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `doing`; a panic becomes an error that says where, instead of a message on standard error.
pub fn caught<T>(doing: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if CATCHING.get() {
                PANIC.set(Some(panic.to_string()));
            } else {
                usual(panic);
            }
        }));
    });
    let outer = CATCHING.replace(true);
    let done = catch_unwind(AssertUnwindSafe(doing));
    CATCHING.set(outer);
    done.unwrap_or_else(|_| Err(PANIC.take().unwrap_or_else(|| "panicked".to_owned())))
}

/// For messages: short byte strings whole, long ones by their ends.
fn shown(bytes: &[u8]) -> String {
    if bytes.len() <= 80 {
        return format!("\"{}\"", bytes.escape_ascii());
    }
    let (head, tail) = (&bytes[..40], &bytes[bytes.len() - 20..]);
    format!("\"{}...{}\" ({} bytes)", head.escape_ascii(), tail.escape_ascii(), bytes.len())
}

fn shown_option(bytes: Option<&[u8]>) -> String {
    bytes.map_or("nothing".to_owned(), shown)
}

//! Being told to stop by Ctrl-C, SIGTERM and SIGHUP: `watch`, `stop_asked`, `end_at_once`.
//!
//! A command that has something to finish calls `watch` and asks `stop_asked` where it can stop. A
//! measurement has nothing to finish and ends at once.
//!
//! What must hold: there is one handler for the process. A signal that was ignored when the command
//! began stays ignored: `nohup` and shells start commands so. A command that does not stop within
//! `GRACE` (3 s), since it waits for its input, is ended with its `LastWords`. A second signal ends
//! it at once.
//!
//! Callers: `command::load` (`watch`), `command::scratch` (`end_at_once`).

use crate::{
    failure::{Failure, Result},
    output::say,
};
use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

/// Time that a command has to stop by itself.
const GRACE: Duration = Duration::from_secs(3);
/// What a shell reports for a program that Ctrl-C ended: 128 and the number of the signal.
const STATUS: i32 = 130;

static ASKED: AtomicBool = AtomicBool::new(false);
static LAST_WORDS: Mutex<Option<LastWords>> = Mutex::new(None);

/// What is said and done when the command does not stop by itself.
pub(crate) type LastWords = Box<dyn FnOnce() -> String + Send>;

/// From now on a signal sets [`stop_asked`]. A second signal ends the process at once.
pub(crate) fn watch(last_words: LastWords) -> Result<()> {
    *LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner) = Some(last_words);
    handle(|| {
        if ASKED.swap(true, Ordering::AcqRel) {
            std::process::exit(STATUS);
        }
        thread::spawn(|| {
            thread::sleep(GRACE);
            if let Some(words) = LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner).take() {
                say(&words());
            }
            std::process::exit(STATUS);
        });
    })
}

/// From now on a signal ends the process with `last_words`, which may remove what the command made.
pub(crate) fn end_at_once(last_words: LastWords) -> Result<()> {
    let mut last_words = Some(last_words);
    handle(move || {
        if let Some(words) = last_words.take() {
            say(&words());
        }
        std::process::exit(STATUS);
    })
}

/// Has `handler` called for each signal that ends a command, but for those that are ignored.
fn handle(handler: impl FnMut() + Send + 'static) -> Result<()> {
    let ignored = Ignored::find();
    ctrlc::set_handler(handler)
        .map_err(|error| Failure::Error(format!("cannot watch for signals: {error}")))?;
    ignored.restore();
    Ok(())
}

/// Signals that this process ignores.
#[cfg(unix)]
struct Ignored(Vec<libc::c_int>);

#[cfg(unix)]
impl Ignored {
    fn find() -> Ignored {
        let mut signals = vec![libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
        signals.retain(|&signal| {
            let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
            // SAFETY: it asks for the action of a signal that there is, and changes none.
            let found = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
            // SAFETY: zeros are an action, over which the call has written the one in force.
            found == 0 && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
        });
        Ignored(signals)
    }

    fn restore(self) {
        for signal in self.0 {
            // SAFETY: to ignore a signal runs no code of ours.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
    }
}

#[cfg(not(unix))]
struct Ignored;

#[cfg(not(unix))]
impl Ignored {
    fn find() -> Ignored {
        Ignored
    }

    fn restore(self) {}
}

/// Whether a signal has asked the command to stop.
pub(crate) fn stop_asked() -> bool {
    ASKED.load(Ordering::Acquire)
}

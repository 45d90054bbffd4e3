//! Being told to stop by Ctrl-C, SIGTERM, SIGHUP and SIGQUIT: `watch`, `stop_asked`, `end_at_once`;
//! and not to be ended by a limit of file sizes: `survive_limits`.
//!
//! A command that has something to finish calls `watch` and asks `stop_asked` where it can stop. A
//! measurement has nothing to finish: it calls `end_at_once`, and a signal ends it. Either gives
//! `LastWords`, which are said, and may clean up, when the process is ended here.
//!
//! What must hold: there is one handler for the process. A hang-up that was ignored when the
//! command began stays ignored: `nohup` starts commands so. A command that watches and does not
//! stop within `GRACE` (3 s), since it waits for its input, is ended, and so it is by a second
//! signal.
//!
//! Callers: `command::load` and `trace replay` (`watch`), `command::scratch` (`end_at_once`), and
//! `main`.

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

/// From now on a signal sets [`stop_asked`]. A second signal ends the process at once, with
/// `last_words` too.
pub(crate) fn watch(last_words: LastWords) -> Result<()> {
    *LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner) = Some(last_words);
    handle(|| {
        if ASKED.swap(true, Ordering::AcqRel) {
            end();
        }
        thread::spawn(|| {
            thread::sleep(GRACE);
            end();
        });
    })
}

/// Ends the process with the last words, which are said once.
fn end() -> ! {
    if let Some(words) = LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner).take() {
        say(&words());
    }
    std::process::exit(STATUS);
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

/// Has a write fail that makes a file larger than this process may, instead of ending the process
/// without a word.
pub(crate) fn survive_limits() {
    #[cfg(unix)]
    // SAFETY: to ignore a signal runs no code of ours.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Has `handler` called for each signal that ends a command, but for a hang-up that is ignored.
fn handle(handler: impl FnMut() + Send + 'static) -> Result<()> {
    #[cfg(unix)]
    let survives = ignores_hangup();
    ctrlc::set_handler(handler)
        .map_err(|error| Failure::Error(format!("cannot watch for signals: {error}")))?;
    #[cfg(unix)]
    // SAFETY: to ignore a signal runs no code of ours, and the handler of the other only raises a
    // signal, which a handler may.
    unsafe {
        if survives {
            libc::signal(libc::SIGHUP, libc::SIG_IGN);
        }
        libc::signal(libc::SIGQUIT, interrupt as *const () as libc::sighandler_t);
    }
    Ok(())
}

/// What Ctrl-\ comes to: as Ctrl-C, so that what is in is told here too.
#[cfg(unix)]
extern "C" fn interrupt(_: libc::c_int) {
    // SAFETY: a handler may raise a signal.
    unsafe { libc::raise(libc::SIGINT) };
}

/// Whether this process ignores a hang-up, the end of its terminal. Shells have what runs in the
/// background ignore interrupts too, but a user that sends one to a load wants it to stop.
#[cfg(unix)]
fn ignores_hangup() -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: it asks for the action of a signal that there is, and changes none.
    let found = unsafe { libc::sigaction(libc::SIGHUP, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: zeros are an action, over which the call has written the one in force.
    found == 0 && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Whether a signal has asked the command to stop.
pub(crate) fn stop_asked() -> bool {
    ASKED.load(Ordering::Acquire)
}

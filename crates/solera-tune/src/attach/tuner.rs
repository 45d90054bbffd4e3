//! Tuning on a thread of its own: `Tuner`, which looks every quarter of a second, by a `Stepper`,
//! until it is dropped or tuning ends.
//!
//! What must hold: its thread works for at most a hundredth of the time. The probe of the machine
//! and a first tenth of a second do not count. While a change is open, it looks whatever that
//! takes. It ends soon after the tuner is dropped, whatever it does. It keeps the database open.
//!
//! Callers: `Attach::thread`. `--tune` of `solera load` and `solera trace replay` and
//! `solera-bench`'s `arm` hold one.

use super::{Attach, Progress, stepper::Prepared};
use crate::cost::probe::probe_unless;
use parking_lot::{Condvar, Mutex};
use solera::{Clock, Error, Result, SystemClock, control::Control};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::Duration,
};

/// Time between two looks at the database. Windows end by the database's clock, at a look.
const TICK: Duration = Duration::from_millis(250);
/// Of the time, one in so many parts is the most that it works.
const PARTS: u32 = 100;
/// What it may work besides, so that its first decisions need not wait.
const AT_FIRST: Duration = Duration::from_millis(100);

/// Tunes a database until it is dropped. The database then goes on with the last settings. Keeps it
/// open.
#[derive(Debug)]
pub struct Tuner {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<Shown>,
    call: Condvar,
    stops: AtomicBool,
}

#[derive(Debug, Default)]
struct Shown {
    off: Option<String>,
    last: Option<String>,
    changes: u64,
}

impl Tuner {
    pub(super) fn start(attach: Attach, control: Control) -> Result<Tuner> {
        let dir = control.dir();
        let prepared = Prepared::new(attach, control.clone())?;
        let shared = Arc::<Shared>::default();
        let of_thread = shared.clone();
        let run = move || {
            let ran = catch_unwind(AssertUnwindSafe(|| run(prepared, &control, &of_thread)));
            let why = match ran {
                Ok(Ok(why)) => why,
                Ok(Err(error)) => error.to_string(),
                Err(_) => "the tuner itself panicked".to_owned(),
            };
            of_thread.state.lock().off = Some(why);
        };
        let thread = std::thread::Builder::new().name("solera-tune".into()).spawn(run);
        let thread = thread.map_err(|error| Error::io("start a thread for", &dir, error))?;
        Ok(Tuner { shared, thread: Some(thread) })
    }

    /// Why tuning has ended, if it has; the database is as it was left.
    pub fn off(&self) -> Option<String> {
        self.shared.state.lock().off.clone()
    }

    /// What was decided last, in one line.
    pub fn last(&self) -> Option<String> {
        self.shared.state.lock().last.clone()
    }

    /// Changes that were made.
    pub fn changes(&self) -> u64 {
        self.shared.state.lock().changes
    }
}

/// Tunes until there is a reason to end.
fn run(mut prepared: Prepared, control: &Control, shared: &Shared) -> Result<String> {
    // A program that does little does not pay for the probe.
    let mut stops = false;
    while prepared.units.is_none() && !stops {
        stops = shared.comes_within(TICK);
        if !stops && prepared.is_worth_a_probe() {
            let stops = || shared.stops.load(Relaxed) || control.is_closed();
            prepared.units = probe_unless(&*control.fs(), &control.dir(), &stops)?;
        }
        stops |= control.is_closed();
    }
    let mut stepper = prepared.begin()?;
    // Of this machine, whatever clock the database has.
    let clock = SystemClock::new();
    let now = || Duration::from_nanos(clock.monotonic_ns());
    let (begin, mut worked) = (now(), Duration::ZERO);
    while !shared.comes_within(TICK) {
        // A change that is open is looked after, whatever that takes, and a database that was
        // closed is let go at once.
        let waits = stepper.state().open.is_none() && !control.is_closed();
        if waits && !affords(now() - begin, worked) {
            continue;
        }
        let looked = now();
        let progress = stepper.step();
        worked += now() - looked;
        match progress {
            Progress::Watching => {}
            Progress::Off(why) => return Ok(why),
            Progress::Decided(decision) => {
                let mut shown = shared.state.lock();
                shown.changes += u64::from(decision.order.is_some());
                shown.last = Some(decision.to_string());
            }
        }
    }
    Ok("the tuner was dropped".into())
}

/// Whether a tuner that has `worked` so much in a time may work more.
fn affords(time: Duration, worked: Duration) -> bool {
    worked <= AT_FIRST + time / PARTS
}

impl Shared {
    /// Waits for the call to stop for at most `time`, and says whether it came.
    fn comes_within(&self, time: Duration) -> bool {
        let mut state = self.state.lock();
        if !self.stops.load(Relaxed) {
            self.call.wait_for(&mut state, time);
        }
        self.stops.load(Relaxed)
    }

    fn stop(&self) {
        // Under the lock: a thread that is about to wait is not missed.
        let state = self.state.lock();
        self.stops.store(true, Relaxed);
        drop(state);
        self.call.notify_all();
    }
}

impl Drop for Tuner {
    fn drop(&mut self) {
        self.shared.stop();
        if let Some(thread) = self.thread.take() {
            // Panics are caught inside.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tuner_works_for_a_hundredth_of_the_time_but_for_what_it_begins_with() {
        let (mut time, mut worked) = (Duration::ZERO, Duration::ZERO);
        let step = Duration::from_millis(60);
        while time < Duration::from_secs(600) {
            time += TICK;
            if affords(time, worked) {
                (time, worked) = (time + step, worked + step);
            }
        }
        assert!(worked <= time / PARTS + AT_FIRST + step, "{worked:?} of {time:?}");
        assert!(worked >= time / PARTS, "{worked:?} of {time:?}: what it may it does");
    }
}

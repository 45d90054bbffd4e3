//! Tuning on a thread of its own.

use super::{Attach, Progress, stepper::Prepared};
use crate::cost::probe::probe;
use parking_lot::{Condvar, Mutex};
use solera::{Error, Result, control::Control};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

/// Time between two looks at the database. Windows end by the database's clock, at a look.
const TICK: Duration = Duration::from_millis(250);

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
}

#[derive(Debug, Default)]
struct Shown {
    stopping: bool,
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
            prepared.units = Some(probe(&*control.fs(), &control.dir())?);
        }
        stops |= control.is_closed();
    }
    let mut stepper = prepared.begin()?;
    while !shared.comes_within(TICK) {
        match stepper.step() {
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

impl Shared {
    /// Waits for the call to stop for at most `time`, and says whether it came.
    fn comes_within(&self, time: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.stopping {
            self.call.wait_for(&mut state, time);
        }
        state.stopping
    }
}

impl Drop for Tuner {
    fn drop(&mut self) {
        self.shared.state.lock().stopping = true;
        self.shared.call.notify_all();
        if let Some(thread) = self.thread.take() {
            // Panics are caught inside.
            let _ = thread.join();
        }
    }
}

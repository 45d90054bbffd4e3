//! Cutting time into windows: `Watch`, shown observations as often as its caller likes, says by
//! `Look` whether a window has ended.
//!
//! One ends with enough operations over enough time (`Pace`). Where there are writes it also waits
//! for flushes, but no longer than one to eight times those operations. `elapsed_ns_max` ends any.
//! Looks compare what was asked: where the workload changes, the window begins anew, once. `so_far`
//! shows a window that goes on; `end_early` ends it now, if there is something in it.
//!
//! What must hold: a window in which it changes again is of no context and is not judged. Another
//! known workload that has come back is told before its window ends, once two parts are alike.
//!
//! Callers: `attach::stepper`, the page `learning` of `solera-bench`, and tests of the steward.

use super::{
    context::{CHANCE, Contexts, DRIFT, Traits},
    window::{Blocked, Window},
};
use serde::{Deserialize, Serialize};
use solera::control::Observation;

/// How long windows are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pace {
    /// Operations that a window has at least.
    pub operations_min: u64,
    /// Flushes that it has at least, if there are writes and they come before it has one to eight
    /// times as many operations: the more of them are writes, the longer.
    pub flushes_min: u64,
    /// The shortest window, in nanoseconds.
    pub elapsed_ns_min: u64,
    /// The longest, in nanoseconds: one that has too few operations by then is not judged.
    pub elapsed_ns_max: u64,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            operations_min: 10_000,
            flushes_min: 4,
            elapsed_ns_min: 50_000_000,
            elapsed_ns_max: 60_000_000_000,
        }
    }
}

/// A window that waits for flushes ends at so many times the operations that it has to have; and so
/// many more, by the share of writes: what merges take is a small part where few write.
const WAIT_FOR_FLUSH: f64 = 1.0;
const WAIT_FOR_WRITES: f64 = 7.0;
/// Parts of the least window that the workload is compared between.
const PARTS: u64 = 8;
/// Parts that are alike before it is told that a known workload has come back: one alone may be of
/// two workloads.
const ARRIVAL_PARTS: u32 = 2;
/// The part of a window from which on it can be ended early.
const EARLY_PARTS: u64 = 4;

/// What a look at the database came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Look {
    /// The window goes on.
    TooSoon,
    /// It has ended.
    Ended(Box<Window>),
    /// The keyspace is gone.
    Gone,
}

/// Cuts what one keyspace does into windows.
#[derive(Clone, Debug)]
pub struct Watch {
    keyspace: String,
    pace: Pace,
    /// Where the window began.
    begin: Observation,
    /// Where its newest part began.
    part: Observation,
    /// Parts that it has had, all alike.
    parts: u32,
    /// Whether it began anew because the workload changed. It does so once, or else a workload that
    /// changes all the time would have no windows.
    anew: bool,
    /// Whether the workload changed after that: what the window costs is of several workloads.
    mixed: bool,
    /// Whether it was told, or found not worth telling, which known workload has come back.
    told: bool,
    contexts: Contexts,
    /// Windows that ended.
    windows: u64,
    /// The context of the last window that had one.
    context: u32,
}

impl Watch {
    /// A watch over `keyspace` whose first window begins with `begin`. `windows` have ended before.
    pub fn new(keyspace: &str, pace: Pace, begin: Observation, windows: u64) -> Watch {
        let (part, contexts) = (begin.clone(), Contexts::default());
        Watch {
            keyspace: keyspace.into(),
            pace,
            begin,
            part,
            parts: 0,
            anew: false,
            mixed: false,
            told: false,
            contexts,
            windows,
            context: 0,
        }
    }

    /// The same, with contexts that an earlier watch came to.
    pub fn with_contexts(self, contexts: Contexts) -> Watch {
        Watch { contexts, ..self }
    }

    /// The contexts that it came to.
    pub fn contexts(&self) -> &Contexts {
        &self.contexts
    }

    /// Begins the window anew, with `now`: what was before belongs to none.
    pub fn restart(&mut self, now: Observation) {
        self.part = now.clone();
        self.begin = now;
        (self.parts, self.anew, self.mixed, self.told) = (0, false, false, false);
    }

    /// What was done since the window began, as far as it tells something, and its context, if that
    /// is known.
    pub fn so_far(&self, now: &Observation) -> Option<Window> {
        let window = Window::between(&self.begin, now, &self.keyspace)?;
        let is_enough = window.operations.total() >= self.pace.operations_min / EARLY_PARTS;
        let (number, context) = (self.windows + 1, self.contexts.of(&Traits::of(&window)));
        (is_enough && window.blocked.is_none()).then_some(Window { number, context, ..window })
    }

    /// Ends the window `now`, before its time, if there is something in it.
    pub fn end_early(&mut self, now: Observation) -> Look {
        let Some(window) = self.so_far(&now) else { return Look::TooSoon };
        self.windows += 1;
        self.restart(now);
        let mut window = Window { number: self.windows, early: true, ..window };
        self.place(&mut window);
        Look::Ended(Box::new(window))
    }

    /// Begins the window anew where what is asked is no longer what was asked in it so far.
    fn heed_drift(&mut self, now: &Observation) {
        let Some(part) = Window::between(&self.part, now, &self.keyspace) else { return };
        let least = (self.pace.operations_min / PARTS).max(1);
        if part.operations.total() < least || !part.blocked.is_none_or(Blocked::has_context) {
            return;
        }
        let before = Window::between(&self.begin, &self.part, &self.keyspace);
        let before = before.filter(|before| self.parts > 0 && before.operations.total() >= least);
        let drifts = before.is_some_and(|before| {
            let fewest = before.operations.total().min(part.operations.total()) as f64;
            let chance = CHANCE / fewest.sqrt();
            let (before, part) = (Traits::of(&before), Traits::of(&part));
            before.variation(&part) > DRIFT + chance || before.written_distance(&part) >= 1.0
        });
        if drifts && !self.anew {
            (self.begin, self.parts, self.anew, self.told) = (self.part.clone(), 0, true, false);
        } else if drifts {
            (self.parts, self.mixed) = (0, true);
        }
        self.parts += 1;
        self.part = now.clone();
    }

    /// What is to be told of a window that goes on: two of its parts are alike, and they are of a
    /// known context that is not the one before.
    fn arrival(&mut self, now: &Observation) -> Option<Window> {
        let two_parts = self.parts == ARRIVAL_PARTS && !self.mixed && !self.told;
        let window = two_parts.then(|| Window::between(&self.begin, now, &self.keyspace)).flatten()?;
        self.told = true;
        let context = self.contexts.of(&Traits::of(&window));
        if window.blocked.is_some() || context == 0 || context == self.context {
            return None;
        }
        (self.windows, self.context) = (self.windows + 1, context);
        let number = self.windows;
        Some(Window {
            number,
            context,
            drifted: true,
            steady: true,
            blocked: Some(Blocked::Arrived),
            ..window
        })
    }

    /// Looks at the database as it is `now`.
    pub fn look(&mut self, now: Observation) -> Look {
        self.heed_drift(&now);
        if let Some(window) = self.arrival(&now) {
            return Look::Ended(Box::new(window));
        }
        let Some(mut window) = Window::between(&self.begin, &now, &self.keyspace) else { return Look::Gone };
        let jumped = matches!(window.blocked, Some(Blocked::Clock | Blocked::Reopened | Blocked::NotANumber))
            && !self.is_young(&window, &now);
        if !jumped && !self.has_ended(&window) {
            return Look::TooSoon;
        }
        window.steady = self.parts > 1;
        let mixed = self.mixed;
        self.restart(now);
        self.windows += 1;
        window.number = self.windows;
        if window.blocked.is_none() && window.operations.total() < self.pace.operations_min {
            window.blocked = Some(Blocked::TooFew);
        }
        if mixed {
            window.blocked = window.blocked.or(Some(Blocked::Mixed));
        }
        if window.blocked.is_none_or(Blocked::has_context) {
            self.place(&mut window);
        }
        Look::Ended(Box::new(window))
    }

    /// Whether no time has passed since the window began: nothing is wrong with a clock that stands
    /// still so far.
    fn is_young(&self, window: &Window, now: &Observation) -> bool {
        window.blocked == Some(Blocked::Clock)
            && window.elapsed_ns < self.pace.elapsed_ns_min
            && now.window_us >= self.begin.window_us
            && now.unix_ms.abs_diff(self.begin.unix_ms) < 1000
    }

    fn has_ended(&self, window: &Window) -> bool {
        let Pace { operations_min, flushes_min, elapsed_ns_min, elapsed_ns_max } = self.pace;
        let operations = window.operations.total();
        if window.elapsed_ns >= elapsed_ns_max {
            return true;
        }
        let wait = WAIT_FOR_FLUSH + WAIT_FOR_WRITES * window.mix().write;
        let waits = window.operations.writes > 0
            && window.flushes < flushes_min
            && (operations as f64) < operations_min as f64 * wait;
        operations >= operations_min && window.elapsed_ns >= elapsed_ns_min && !waits
    }

    /// Finds the window's context.
    fn place(&mut self, window: &mut Window) {
        window.context = self.contexts.enter(window.number, &Traits::of(window), window.steady);
        window.drifted = window.context != self.context;
        if window.context == 0 {
            window.blocked = window.blocked.or(Some(Blocked::Unsettled));
        }
        self.context = window.context;
    }
}

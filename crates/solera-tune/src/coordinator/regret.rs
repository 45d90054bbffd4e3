//! What changes that hurt have cost, and what they may cost: `Regret`, an account in time.
//!
//! It counts what operations took longer than their baseline while a change was open, or was being
//! put right. `affords` says if there is room for one more change, by the time that was served.
//!
//! What a change said that it takes once is set aside. It counts as lost where the change is taken
//! back, or as far as its context ends before that much was gained.
//!
//! What must hold: what one change gains does not make up for what another loses. An agent that
//! helped in one place may not hurt in another for it. Windows of one change do make up for each
//! other.
//!
//! Callers: `coordinator` charges it, `state` keeps it; its allowance is that of `Rules`.

use super::rules::Rules;
use serde::{Deserialize, Serialize};

/// What a first change is taken to risk, in windows.
const RISK_FIRST: f64 = 0.15;
/// Weight of the newest change in the risk of the next.
const WEIGHT: f64 = 0.5;
/// Weight of the newest window in how long windows are.
const WEIGHT_WINDOW: f64 = 0.3;

/// The account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Regret {
    /// Nanoseconds of windows that were judged or during which a change was open.
    served_ns: f64,
    /// Nanoseconds that were lost.
    spent_ns: f64,
    /// What the change that is open has lost so far; less than 0 if it has gained.
    of_open_ns: f64,
    /// Nanoseconds of a window, in the mean.
    window_ns: f64,
    /// What the next change is taken to risk, in windows: what the last ones lost.
    risk: f64,
    /// What is still set aside for what the open change said that it takes once.
    #[serde(default)]
    aside_ns: f64,
    /// What it has taken of that.
    #[serde(default)]
    once_ns: f64,
    /// What a change that was kept took once and has not gained yet.
    #[serde(default)]
    owed: Option<Owed>,
}

/// What a context has to gain before it counts as lost no more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Owed {
    context: u32,
    ns: f64,
    /// What an operation costs, as a share of what it did.
    ratio: f64,
}

impl Default for Regret {
    fn default() -> Regret {
        Regret {
            served_ns: 0.0,
            spent_ns: 0.0,
            of_open_ns: 0.0,
            window_ns: 0.0,
            risk: RISK_FIRST,
            aside_ns: 0.0,
            once_ns: 0.0,
            owed: None,
        }
    }
}

impl Regret {
    /// A window of `elapsed_ns` has passed; one that was ended early says nothing of how long they
    /// are.
    pub fn pass(&mut self, elapsed_ns: u64, early: bool) {
        let elapsed = elapsed_ns as f64;
        self.served_ns += elapsed;
        if early {
            return;
        }
        let weight = if self.window_ns == 0.0 { 1.0 } else { WEIGHT_WINDOW };
        self.window_ns += weight * (elapsed - self.window_ns);
    }

    /// A window of `elapsed_ns` cost `ratio` of its baseline while what a change left is being put
    /// right.
    pub fn pay(&mut self, ratio: f64, elapsed_ns: u64) {
        self.spent_ns += lost(ratio, elapsed_ns).max(0.0);
    }

    /// A window of `elapsed_ns` cost `ratio` of its baseline while a change was open.
    pub fn charge(&mut self, ratio: f64, elapsed_ns: u64) {
        self.of_open_ns += lost(ratio, elapsed_ns);
    }

    /// The change that was open has been judged.
    pub fn close(&mut self) {
        let loss = self.of_open_ns.max(0.0) + self.once_ns;
        self.spent_ns += loss;
        (self.aside_ns, self.once_ns) = (0.0, 0.0);
        if self.window_ns > 0.0 {
            self.risk += WEIGHT * (loss / self.window_ns - self.risk);
        }
        self.of_open_ns = 0.0;
    }

    /// The change that was open has been judged, and is not charged.
    pub fn forgive(&mut self) {
        self.of_open_ns = 0.0;
        self.close();
    }

    /// A change is open that says that it takes so many windows once.
    pub fn set_aside(&mut self, windows: f64) {
        self.aside_ns = windows * self.window_ns;
    }

    /// Of a window of `elapsed_ns` that cost `ratio` of its baseline, the nanoseconds that are what
    /// the open change said it takes once, as far as they are set aside.
    pub fn once_of(&self, ratio: f64, elapsed_ns: u64) -> f64 {
        // What a journal says may be anything.
        lost(ratio, elapsed_ns).min(self.aside_ns).max(0.0)
    }

    /// So much of what is set aside has been taken.
    pub fn take(&mut self, once_ns: f64) {
        self.aside_ns -= once_ns;
        self.once_ns += once_ns;
    }

    /// What is still set aside is needed no more: what comes now is judged as it is.
    pub fn end_aside(&mut self) {
        self.aside_ns = 0.0;
    }

    /// The change that was open is kept at `ratio` of the cost: what it took once is not lost as
    /// long as its `context` lasts.
    pub fn lend(&mut self, context: u32, ratio: f64) {
        if self.once_ns > 0.0 {
            self.owed = Some(Owed { context, ns: self.once_ns, ratio });
        }
        self.once_ns = 0.0;
    }

    /// Whether what the last change took once is still to be gained.
    pub fn owes(&self) -> bool {
        self.owed.is_some()
    }

    /// A window of `context` has passed: what was lent has been gained in part, or is lost where
    /// its context has ended.
    pub fn repay(&mut self, context: u32, elapsed_ns: u64) {
        let Some(owed) = &mut self.owed else { return };
        if owed.context != context {
            return self.write_off();
        }
        owed.ns += lost(owed.ratio, elapsed_ns);
        if owed.ns <= 0.0 {
            self.owed = None;
        }
    }

    /// What was lent is lost.
    pub fn write_off(&mut self) {
        self.spent_ns += self.owed.take().map_or(0.0, |owed| owed.ns.max(0.0));
    }

    /// Whether the change that is open has gained so far, with what it took once.
    pub fn gains(&self) -> bool {
        self.of_open_ns + self.once_ns < 0.0
    }

    /// What the change that is open will have lost, in windows, if a window that cost `ratio` of
    /// its baseline is ended after `elapsed_ns`.
    pub fn of_open_with(&self, ratio: f64, elapsed_ns: u64) -> f64 {
        self.in_windows(self.of_open_ns.max(0.0) + lost(ratio, elapsed_ns))
    }

    /// What was lost, in windows.
    pub fn spent(&self) -> f64 {
        self.in_windows(self.spent_ns + self.of_open_ns.max(0.0))
    }

    /// What may have been lost by now, in windows.
    pub fn allowance(&self, rules: &Rules) -> f64 {
        rules.regret_windows + rules.regret_share * self.in_windows(self.served_ns)
    }

    /// Whether there is room for one more change.
    pub fn affords(&self, rules: &Rules) -> bool {
        self.spent() + self.risk <= self.allowance(rules)
    }

    fn in_windows(&self, ns: f64) -> f64 {
        if self.window_ns > 0.0 { ns / self.window_ns } else { 0.0 }
    }
}

/// Nanoseconds of `elapsed_ns` that were lost, or gained, at `ratio` of the baseline's cost.
fn lost(ratio: f64, elapsed_ns: u64) -> f64 {
    elapsed_ns as f64 * (1.0 - 1.0 / ratio.max(1e-3))
}

//! What changes that hurt have cost, and what they may cost: `Regret`, an account in time.
//!
//! It counts what operations took longer than their baseline while a change was open, or was being
//! put right. `affords` says if there is room for one more change, by the time that was served.
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
}

impl Default for Regret {
    fn default() -> Regret {
        Regret { served_ns: 0.0, spent_ns: 0.0, of_open_ns: 0.0, window_ns: 0.0, risk: RISK_FIRST }
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
        let loss = self.of_open_ns.max(0.0);
        self.spent_ns += loss;
        if self.window_ns > 0.0 {
            self.risk += WEIGHT * (loss / self.window_ns - self.risk);
        }
        self.of_open_ns = 0.0;
    }

    /// The change that was open has been judged, and is not charged.
    pub fn forgive(&mut self) {
        self.of_open_ns = 0.0;
    }

    /// Whether the change that is open has gained so far.
    pub fn gains(&self) -> bool {
        self.of_open_ns < 0.0
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

//! What an agent may dare: `Credit`, the record of an agent. The more of its changes have helped,
//! the larger the next may be.
//!
//! A number may become 2 times as large or small, 8 after one change that helped, any after two;
//! one that hurts begins it again. A change helped if it was kept at 97 % of the cost or less. It
//! hurt if it was taken back at 102 % or more. `hear` keeps the record.
//!
//! What must hold: where rules are guarded, the coordinator refuses steps beyond its own record. An
//! agent that wants to be heard keeps another, by what it hears. Both come to the same.
//!
//! Callers: `coordinator` (`state`), and the steward (`wishes::dares`).

use super::Outcome;
use serde::{Deserialize, Serialize};

/// How many times as large or as small a number may become while nothing has helped yet, after one
/// change that did, and after two.
const STEPS: [f64; 3] = [2.0, 8.0, f64::INFINITY];
/// The most that operations may cost of what they did for a change to count as one that helped.
const HELPED_MAX: f64 = 0.97;
/// The least from which on a change that was taken back counts as one that hurt.
const HURT_MIN: f64 = 1.02;

/// The record of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credit {
    /// Changes that helped since the last one that hurt.
    helped: u32,
    /// Changes that hurt since the last one that helped.
    hurt: u32,
}

impl Credit {
    /// A change came to this.
    pub fn hear(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Kept { ratio } if *ratio <= HELPED_MAX => {
                (self.helped, self.hurt) = (self.helped.saturating_add(1), 0);
            }
            Outcome::Undone { ratio, .. } if *ratio >= HURT_MIN => {
                (self.helped, self.hurt) = (0, self.hurt.saturating_add(1));
            }
            _ => {}
        }
    }

    /// Changes in a row that hurt.
    pub fn hurt(&self) -> u32 {
        self.hurt
    }

    /// Whether a number may go from `old` to `new` in one change. 1 more than each is compared, so
    /// that 0 is as far from 1 as 1 is from 3.
    pub fn allows(&self, old: f64, new: f64) -> bool {
        let step = STEPS[(self.helped as usize).min(STEPS.len() - 1)];
        let (least, most) = (old.min(new) + 1.0, old.max(new) + 1.0);
        most <= least * step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_short_until_changes_have_helped_and_again_after_one_that_hurt() {
        let mut credit = Credit::default();
        assert!(credit.allows(10.0, 5.0) && credit.allows(4.0, 8.0) && !credit.allows(10.0, 0.0));
        credit.hear(&Outcome::Kept { ratio: 0.99 });
        assert!(!credit.allows(27.0, 4.0), "what hardly helped is no record");
        credit.hear(&Outcome::Kept { ratio: 0.9 });
        assert!(credit.allows(27.0, 4.0) && !credit.allows(64.0, 0.0));
        credit.hear(&Outcome::Kept { ratio: 0.9 });
        assert!(credit.allows(1.0, 1e9));
        credit.hear(&Outcome::Undone { ratio: 1.3, why: String::new() });
        assert!(!credit.allows(27.0, 4.0) && credit.hurt() == 1);
    }
}

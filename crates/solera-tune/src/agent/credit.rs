//! What an agent may dare: `Credit`, the record of an agent. The more of its changes have helped,
//! the larger the next may be.
//!
//! A number may become 2 times as large or small, 8 after one change that helped, any after two;
//! one that hurts begins it again. A first step is larger where the way back is short (`Step`). A
//! change helped if it was kept at 97 % of the cost or less. It hurt if it was taken back at 102 %
//! or more. `hear` keeps the record. Blocks become at most 4 times as large or small at once, run
//! limits below level 0 at most twice as large. The threshold of values that are kept apart becomes
//! at most 4 times as small, bits of filters half as many, the memory of cache and filters half as
//! large.
//!
//! What must hold: where rules are guarded, the coordinator refuses steps beyond its own record. An
//! agent that wants to be heard keeps another, by what it hears. Both come to the same.
//!
//! Callers: `coordinator` (`state`), and the steward (`wishes::dares`).

use super::Outcome;
use serde::{Deserialize, Serialize};
use solera::control::knob;

/// How many times as large or as small a number may become while nothing has helped yet, after one
/// change that did, and after two.
const STEPS: [f64; 3] = [2.0, 8.0, f64::INFINITY];
/// The first of them where the way back is short: write buffers, whose memory moves at once, and
/// more runs in level 0, which the next merge takes away.
const STEP_OF_BUFFERS: f64 = 8.0;
const STEP_OF_LEVEL_0: f64 = 4.0;
/// The last of them where the way back is long: tables keep the blocks that they were written with,
/// whatever is taken back.
const STEP_OF_BLOCKS_MAX: f64 = 4.0;
/// The same for more runs below level 0: they stay until something is written over them.
const STEP_OF_RUNS_MAX: f64 = 2.0;
/// The same for fewer bits of filters: tables keep those that they were written with, so a change
/// is judged before it does anything.
const STEP_OF_BITS_MAX: f64 = 2.0;
/// The same for less memory of the cache or of filters: what was in it is read anew, for long after
/// it is taken back.
const STEP_OF_MEMORY_MAX: f64 = 2.0;
/// Any of them for a lower threshold of values that are kept apart: they stay apart until they are
/// moved. None counts as this one, in bytes, and no tuner sets a lower one than the last: shorter
/// values cost more apart than in their entries (docs/TUNING.md).
const STEP_OF_THRESHOLD_MAX: f64 = 4.0;
const NO_THRESHOLD: f64 = 16_384.0;
const THRESHOLD_MIN: f64 = 1024.0;
/// The most that operations may cost of what they did for a change to count as one that helped.
const HELPED_MAX: f64 = 0.97;
/// The least from which on a change that was taken back counts as one that hurt.
const HURT_MIN: f64 = 1.02;

/// A step of one number: the knob, its level if it is set for one, from what, and to what.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step<'a> {
    /// Name of the knob.
    pub knob: &'a str,
    /// The level.
    pub level: Option<u32>,
    /// What stands.
    pub old: f64,
    /// What is wanted.
    pub new: f64,
}

impl Step<'_> {
    /// What stands and what is wanted, as far apart as what they do. 1 more than each, so that 0 is
    /// as far from 1 as 1 is from 3.
    fn ends(&self) -> (f64, f64) {
        let is_threshold = self.knob == knob::SEPARATE_FROM.name;
        let end = |number: f64| match is_threshold {
            true => number.min(NO_THRESHOLD),
            false => number + 1.0,
        };
        (end(self.old), end(self.new))
    }

    /// How large it may be, however much has helped.
    fn most(&self) -> f64 {
        let (old, new) = self.ends();
        let is_below_0 = self.knob == knob::RUN_LIMIT.name && self.level != Some(0);
        if self.knob == knob::BLOCK_BYTES.name {
            STEP_OF_BLOCKS_MAX
        } else if self.is_lower_threshold() {
            if self.new < THRESHOLD_MIN { 0.0 } else { STEP_OF_THRESHOLD_MAX }
        } else if self.knob == knob::FILTER_BITS_PER_KEY.name && new < old {
            STEP_OF_BITS_MAX
        } else if self.is_less_memory() {
            STEP_OF_MEMORY_MAX
        } else if is_below_0 && self.new > self.old {
            STEP_OF_RUNS_MAX
        } else {
            f64::INFINITY
        }
    }

    /// Whether more values are kept apart.
    fn is_lower_threshold(&self) -> bool {
        let (old, new) = self.ends();
        self.knob == knob::SEPARATE_FROM.name && new < old
    }

    /// Whether the cache or filters get less memory.
    fn is_less_memory(&self) -> bool {
        let is_share = [knob::CACHE_PERCENT.name, knob::FILTER_PERCENT.name].contains(&self.knob);
        is_share && self.new < self.old
    }

    /// How large it may be while nothing has helped yet.
    fn first(&self) -> f64 {
        if self.is_lower_threshold() {
            return STEP_OF_THRESHOLD_MAX;
        }
        if self.knob == knob::WRITE_BUFFER_PERCENT.name {
            return STEP_OF_BUFFERS;
        }
        let is_level_0 = self.knob == knob::RUN_LIMIT.name && self.level == Some(0);
        if is_level_0 && self.new > self.old { STEP_OF_LEVEL_0 } else { STEPS[0] }
    }
}

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

    /// Whether a number may make `step` in one change.
    pub fn allows(&self, step: Step<'_>) -> bool {
        let far = match self.helped {
            0 => step.first(),
            helped => STEPS[(helped as usize).min(STEPS.len() - 1)],
        };
        let (old, new) = step.ends();
        old.max(new) <= old.min(new) * far.min(step.most())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(knob: &str, old: f64, new: f64) -> Step<'_> {
        Step { knob, level: None, old, new }
    }

    #[test]
    fn steps_are_short_until_changes_have_helped_and_again_after_one_that_hurt() {
        let mut credit = Credit::default();
        let allows = |credit: &Credit, old, new| credit.allows(of("size_ratio", old, new));
        assert!(allows(&credit, 10.0, 5.0) && allows(&credit, 4.0, 8.0) && !allows(&credit, 10.0, 0.0));
        credit.hear(&Outcome::Kept { ratio: 0.99 });
        assert!(!allows(&credit, 27.0, 4.0), "what hardly helped is no record");
        credit.hear(&Outcome::Kept { ratio: 0.9 });
        assert!(allows(&credit, 27.0, 4.0) && !allows(&credit, 64.0, 0.0));
        credit.hear(&Outcome::Kept { ratio: 0.9 });
        assert!(allows(&credit, 1.0, 1e9));
        credit.hear(&Outcome::Undone { ratio: 1.3, why: String::new() });
        assert!(!allows(&credit, 27.0, 4.0) && credit.hurt() == 1);
    }

    /// Symptom: where write buffers four times as large spare a level, nothing was ever changed.
    /// Cause: a first step might only double them, which spares none. Cure: a first step is larger
    /// where what was changed is soon as before.
    #[test]
    fn a_first_step_is_larger_where_the_way_back_is_short() {
        let credit = Credit::default();
        let runs = |level, old, new| Step { level, ..of("run_limit", old, new) };
        assert!(credit.allows(of("write_buffer_percent", 9.0, 54.0)));
        assert!(credit.allows(of("write_buffer_percent", 44.0, 6.0)));
        assert!(!credit.allows(of("write_buffer_percent", 2.0, 70.0)));
        assert!(credit.allows(runs(Some(0), 4.0, 16.0)) && !credit.allows(runs(Some(0), 4.0, 24.0)));
        assert!(!credit.allows(runs(Some(0), 16.0, 4.0)), "fewer runs are a merge");
        assert!(!credit.allows(runs(Some(1), 4.0, 16.0)) && !credit.allows(runs(None, 4.0, 16.0)));
    }

    /// Symptom: an agent that wanted the worst lost 72 % of a run. Cause: two of its changes seemed
    /// to help, as the hot set moved, and then it might make blocks 256 times as large. Tables kept
    /// them when that was taken back. Cure: blocks change little at a time, whatever has helped.
    #[test]
    fn blocks_change_little_at_a_time_however_much_has_helped() {
        let mut credit = Credit::default();
        (0..3).for_each(|_| credit.hear(&Outcome::Kept { ratio: 0.6 }));
        assert!(credit.allows(of("block_bytes", 4096.0, 16_384.0)));
        assert!(!credit.allows(of("block_bytes", 4096.0, 65_536.0)));
        assert!(!credit.allows(of("block_bytes", 4096.0, 256.0)));
    }

    /// Symptom: an agent that wanted the worst lost 25 % of a run of scans and lookups in turns.
    /// Cause: one harmless change was cheaper by chance, and then it might set ten runs in each
    /// level while entries were written. That was taken back when the scans began, which read those
    /// runs for the whole epoch. Cure: levels get few more runs at a time, whatever has helped.
    #[test]
    fn levels_below_0_get_few_more_runs_at_a_time_however_much_has_helped() {
        let mut credit = Credit::default();
        (0..3).for_each(|_| credit.hear(&Outcome::Kept { ratio: 0.6 }));
        let runs = |level, old, new| Step { level, ..of("run_limit", old, new) };
        assert!(credit.allows(runs(None, 1.0, 3.0)) && credit.allows(runs(Some(2), 3.0, 7.0)));
        assert!(!credit.allows(runs(None, 1.0, 4.0)) && !credit.allows(runs(Some(1), 3.0, 10.0)));
        assert!(credit.allows(runs(None, 10.0, 1.0)), "fewer runs are one merge");
        assert!(credit.allows(runs(Some(0), 4.0, 32.0)), "the next merge takes away those of level 0");
    }

    /// Symptom: an agent that wanted the worst lost 6.8 % of a run of hot keys that move. Cause: it
    /// set an index kind twice, which did nothing and seemed to help. Then it might leave the cache
    /// one hundredth of the memory. Cure: the cache and filters lose half of theirs at most.
    #[test]
    fn cache_and_filters_lose_memory_by_steps_however_much_has_helped() {
        let mut credit = Credit::default();
        (0..3).for_each(|_| credit.hear(&Outcome::Kept { ratio: 0.6 }));
        for knob in ["cache_percent", "filter_percent"] {
            assert!(credit.allows(of(knob, 44.0, 22.0)) && credit.allows(of(knob, 1.0, 70.0)));
            assert!(!credit.allows(of(knob, 44.0, 1.0)) && !credit.allows(of(knob, 44.0, 20.0)));
        }
    }

    /// Symptom: an agent that wanted the worst lost 16 % of a run of absent keys, an epoch came to
    /// 0.31. Cause: two index kinds seemed to help, and then it might set filters of 0 bits. Tables
    /// had theirs still when that was judged. Cure: bits become fewer by steps, whatever helped.
    #[test]
    fn bits_of_filters_become_fewer_by_steps_however_much_has_helped() {
        let mut credit = Credit::default();
        (0..3).for_each(|_| credit.hear(&Outcome::Kept { ratio: 0.6 }));
        let allows = |old, new| credit.allows(of("filter_bits_per_key", old, new));
        assert!(allows(10.0, 5.0) && allows(10.0, 64.0) && allows(0.0, 10.0));
        assert!(!allows(10.0, 4.0) && !allows(10.0, 0.0));
    }

    /// Symptom: an agent that draws its changes had writes cost fourteen times as much, long after
    /// the change was taken back. Cause: it kept values apart from 4 bytes on, which seemed nearer
    /// to none than 4,096 are. Cure: a low threshold is a large step.
    #[test]
    fn a_lower_threshold_of_separate_values_is_a_larger_step_from_none() {
        let mut credit = Credit::default();
        (0..3).for_each(|_| credit.hear(&Outcome::Kept { ratio: 0.6 }));
        let allows = |old, new| credit.allows(of("separate_from", old, new));
        let none = f64::from(u32::MAX);
        assert!(allows(none, 16_384.0) && allows(none, 4096.0) && allows(4096.0, 1024.0));
        assert!(!allows(none, 4.0) && !allows(none, 2048.0) && !allows(4096.0, 1023.0));
        assert!(!allows(1024.0, 512.0) && !allows(4096.0, 0.0), "short values stay in their entries");
        assert!(allows(4.0, none) && allows(4.0, 4096.0), "back is always allowed");
    }
}

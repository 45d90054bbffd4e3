//! EcoTune's dynamic program ("Rethinking the Compaction Policies in LSM-trees", SIGMOD 2025,
//! section 4.3, Algorithm 1): `EcoTune`.
//!
//! `Round` is a main level's time between two merges into the last level. `Program::solve` finds
//! when to merge so that most queries are served. `EcoTune`, a `Plan`, takes every level between
//! level 0 and the last for a main level. It lets each fill as many runs as its program leaves at
//! the end, and the last be one run.
//!
//! What must hold: the program serves what the best of all schedules serves. Queries cost this
//! machine's unit costs, in place of the paper's count of I/Os; with that count alone, runs would
//! not matter to lookups.
//!
//! Callers: `paper::camal_dynamic` and `paper::lerp`.

use super::planner::Plan;
use solera::control::knob;
use solera_tune::{
    agent::Set,
    cost::{Units, forms::BLOOM_EXPONENT, units::PAGE_BYTES},
    learn::elementary::exp,
    sight::{LevelSight, Window},
};
use std::collections::HashMap;

/// Arrivals of a round beyond which they are taken together.
const ARRIVALS_MAX: usize = 24;

/// A round.
#[derive(Clone, Debug, PartialEq)]
pub struct Round {
    /// q(e): queries in a unit of time while the main level has e runs, from none on.
    pub speeds: Vec<f64>,
    /// R: runs that arrive.
    pub arrivals: usize,
    /// T_w: time from one arrival to the next.
    pub between: f64,
    /// T_c: time to write an arrival's worth of data anew.
    pub rewrite: f64,
    /// C: how many arrivals' worth the last level has for each of the round.
    pub last_ratio: f64,
    /// β: the share of the speed that queries keep while a merge goes on.
    pub while_merging: f64,
}

/// Runs that exist, arrivals to come, and arrivals' worth of data that wait for the next merge.
type State = (usize, usize, usize);

/// The best that can be done in a round.
#[derive(Clone, Debug)]
pub struct Program<'a> {
    round: &'a Round,
    /// Queries that are served from a state on, and how many arrivals become its next run.
    best: HashMap<State, (f64, usize)>,
    /// Queries that the whole round serves.
    pub score: f64,
}

impl<'a> Program<'a> {
    /// Solves a round, which has an arrival and a speed for every number of runs up to as many as
    /// arrive.
    pub fn solve(round: &'a Round) -> Program<'a> {
        assert!(round.arrivals > 0 && round.speeds.len() > round.arrivals, "a round of nothing");
        let mut program = Program { round, best: HashMap::new(), score: 0.0 };
        // The first stretch has no run, whatever is done later.
        program.score = round.between * round.speeds[0] + program.serve((0, round.arrivals, 0), true);
        program
    }

    /// The most queries from `state` on; `is_root`: its end is the end of the round.
    fn serve(&mut self, state: State, is_root: bool) -> f64 {
        let (runs, arrivals, waiting) = state;
        let Round { speeds, between, rewrite, last_ratio, while_merging, .. } = self.round;
        if arrivals == 1 {
            let last = if is_root { last_ratio * self.round.arrivals as f64 } else { 0.0 };
            return ((waiting + 1) as f64 + last) * rewrite * while_merging * speeds[runs];
        }
        let key = (runs, arrivals, if is_root { usize::MAX - waiting } else { waiting });
        if let Some((score, _)) = self.best.get(&key) {
            return *score;
        }
        let speed = speeds[runs + 1];
        let alone = between * speed + self.serve((runs + 1, arrivals - 1, waiting + 1), is_root);
        let mut best = (alone, 1);
        for merged in 2..arrivals {
            let before = self.serve((runs, merged, 0), false);
            let meanwhile = (between - merged as f64 * rewrite) * speed;
            let after = self.serve((runs + 1, arrivals - merged, waiting + merged), is_root);
            let score = before + meanwhile + after;
            if score > best.0 {
                best = (score, merged);
            }
        }
        self.best.insert(key, best);
        best.0
    }

    /// How many arrivals each run has that is there when the round ends.
    pub fn runs(&self) -> Vec<usize> {
        let (mut runs, mut left, mut waiting) = (Vec::new(), self.round.arrivals, 0);
        while left > 1 {
            let (_, merged) = self.best[&(runs.len(), left, usize::MAX - waiting)];
            runs.push(merged);
            (left, waiting) = (left - merged, waiting + merged);
        }
        // The last arrival begins the merge that ends the round.
        runs.push(1);
        runs
    }
}

/// The program, level by level.
#[derive(Clone, Debug)]
pub struct EcoTune {
    units: Units,
}

impl EcoTune {
    /// On a machine of these unit costs.
    pub fn new(units: Units) -> EcoTune {
        EcoTune { units }
    }

    /// The round of a level that takes what `arriving` entries at a time bring.
    fn round(&self, window: &Window, level: &LevelSight, arriving: f64) -> Option<Round> {
        let units = &self.units;
        let of = &window.operations;
        let (queries, writes) = ((of.absent + of.found + of.scans) as f64, of.writes as f64);
        if queries == 0.0 || writes == 0.0 {
            return None;
        }
        let entry_bytes = window.table_bytes() as f64 / window.table_entries().max(1) as f64;
        let capacity = level.capacity_bytes as f64 / entry_bytes;
        let together = (capacity / arriving / ARRIVALS_MAX as f64).max(1.0);
        let unit = arriving * together;
        let arrivals = ((capacity / unit).round() as usize).max(1);
        let block = window.number(&knob::BLOCK_BYTES, None).unwrap_or(PAGE_BYTES);
        let read = units.read_ns(block) + units.block_load_ns;
        let passed = exp(-BLOOM_EXPONENT * level.filter_bits);
        // Runs of the main level beside one above and one below.
        let seconds = |runs: usize| {
            let runs = runs as f64 + 2.0;
            let lookup = units.get_ns + runs * (units.run_probe_ns + passed * read);
            let scan = units.get_ns + runs * (units.run_seek_ns + read);
            let (absent, found) = (of.absent as f64 / queries, of.found as f64 / queries);
            (absent + found) * lookup + found * read + (1.0 - absent - found) * scan
        };
        let pages = entry_bytes / PAGE_BYTES;
        let merge =
            units.merge_ns_per_entry + pages * (units.read_ahead_ns_per_page + units.write_ns_per_page);
        Some(Round {
            speeds: (0..=arrivals).map(|runs| 1.0 / seconds(runs)).collect(),
            arrivals,
            between: unit * window.elapsed_ns as f64 / writes,
            rewrite: unit * merge,
            last_ratio: 1.0,
            // The writer merges here; no read comes meanwhile.
            while_merging: 0.0,
        })
    }
}

impl Plan for EcoTune {
    fn name(&self) -> &'static str {
        "EcoTune's program"
    }

    fn sets(&mut self, window: &Window) -> Vec<Set> {
        let levels: Vec<&LevelSight> = window.levels.iter().filter(|level| level.entries > 0).collect();
        let Some(last) = levels.last().map(|level| level.level).filter(|last| *last > 0) else {
            return Vec::new();
        };
        let ratio = window.number(&knob::SIZE_RATIO, None).map_or(10, |ratio| ratio as u32);
        let entry_bytes = window.table_bytes() as f64 / window.table_entries().max(1) as f64;
        // The last level is one run: a round ends with a merge of all.
        let mut sets = vec![Set::new(&knob::RUN_LIMIT, 1)];
        for level in window.levels.iter().filter(|level| (1..last).contains(&level.level)) {
            let above = window.levels.iter().find(|above| above.level + 1 == level.level);
            let arriving = above.map_or(0, |above| above.capacity_bytes) as f64 / entry_bytes;
            let Some(round) = self.round(window, level, arriving.max(1.0)) else { continue };
            let runs = Program::solve(&round).runs().len() as u32;
            sets.push(Set::of_level(&knob::RUN_LIMIT, level.level, runs.clamp(1, ratio)));
        }
        sets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// q(e) as printed: e + 2 I/Os of a long scan, one of a lookup that filters guard.
    fn printed(scans: f64, passed: f64, arrivals: usize) -> Round {
        let cost = |runs: usize| (runs as f64 + 2.0) * scans + (1.0 - scans) * (1.0 + passed);
        Round {
            speeds: (0..=arrivals).map(|runs| 1.0 / cost(runs)).collect(),
            arrivals,
            between: 1.0,
            rewrite: 0.1,
            last_ratio: 3.0,
            while_merging: 0.5,
        }
    }

    /// The same recurrence by enumeration: all ways to make final runs of `arrivals`.
    fn enumerated(round: &Round, state: State, is_root: bool) -> f64 {
        let (runs, arrivals, waiting) = state;
        if arrivals == 1 {
            let last = if is_root { round.last_ratio * round.arrivals as f64 } else { 0.0 };
            return ((waiting + 1) as f64 + last) * round.rewrite * round.while_merging * round.speeds[runs];
        }
        let split = |merged: usize| {
            let speed = round.speeds[runs + 1];
            let rest = enumerated(round, (runs + 1, arrivals - merged, waiting + merged), is_root);
            match merged {
                1 => round.between * speed + rest,
                _ => {
                    let before = enumerated(round, (runs, merged, 0), false);
                    before + (round.between - merged as f64 * round.rewrite) * speed + rest
                }
            }
        };
        (1..arrivals).map(split).fold(f64::NEG_INFINITY, f64::max)
    }

    #[test]
    fn the_program_serves_what_the_best_of_all_schedules_serves() {
        for arrivals in 1..=9 {
            for scans in [0.0, 0.1, 0.6] {
                let round = printed(scans, 0.01, arrivals);
                let program = Program::solve(&round);
                let best = round.speeds[0] + enumerated(&round, (0, arrivals, 0), true);
                assert!((program.score - best).abs() < 1e-9, "{arrivals} {scans}");
                assert_eq!(program.runs().iter().sum::<usize>(), arrivals);
            }
        }
    }

    #[test]
    fn the_last_stretch_is_priced_as_the_paper_does_it() {
        // f(0, 1, C R) = (C R + 1) T_c β q(0), after a first stretch at q(0).
        let round = printed(0.3, 0.01, 1);
        let speed = round.speeds[0];
        assert!((Program::solve(&round).score - (speed + 4.0 * 0.1 * 0.5 * speed)).abs() < 1e-12);
    }

    /// Three arrivals by hand, with q(0) = 1, q(1) = 1/2, q(2) = 1/4, T_w = 1, T_c = 0.1, C = 2 and
    /// β = 1/2. The round ends with a merge of (3 + C R) T_c = 0.9 at the speed β q(e).
    ///
    /// - Three runs: T_w (q(0) + q(1) + q(2)) + 0.9 β q(2) = 1 + 0.5 + 0.25 + 0.1125 = 1.8625.
    /// - The first two become one: T_w q(0) + T_w q(1), then their merge, 2 T_c at β q(1), then the
    ///   rest of that stretch, (T_w − 2 T_c) q(1), and 0.9 β q(1) at the end: 1 + 0.5 + 0.05 + 0.4
    ///   + 0.225 = 2.175.
    #[test]
    fn a_round_of_three_arrivals_is_planned_as_by_hand() {
        let by_hand = Round {
            speeds: vec![1.0, 0.5, 0.25, 0.125],
            arrivals: 3,
            between: 1.0,
            rewrite: 0.1,
            last_ratio: 2.0,
            while_merging: 0.5,
        };
        let program = Program::solve(&by_hand);
        assert!((program.score - 2.175).abs() < 1e-12, "{}", program.score);
        assert_eq!(program.runs(), [2, 1]);
        // Runs that cost lookups nothing: a merge only takes time from them.
        let free = Round { speeds: vec![1.0; 4], ..by_hand };
        let program = Program::solve(&free);
        assert!((program.score - (3.0 + 0.9 * 0.5)).abs() < 1e-12, "{}", program.score);
        assert_eq!(program.runs(), [1, 1, 1]);
    }

    #[test]
    fn scans_make_it_merge_and_a_round_is_lazier_towards_its_end() {
        let runs = |scans| Program::solve(&printed(scans, 0.01, 16)).runs();
        assert_eq!(runs(0.0), vec![1; 16], "with no scans there is nothing to merge for");
        let merged = runs(0.6);
        assert!(merged.len() < 12, "{merged:?}");
        assert!(merged.first() >= merged.last(), "{merged:?}");
    }
}

//! Contexts: workloads that are alike have one number. `Contexts` gives it, by `Traits`: mix, and
//! size of data, of entries that are there and that come in, and of scans.
//!
//! A window belongs to the nearest context. Their mixes lie within `DRIFT` in total variation
//! (CAMAL's threshold) and what chance makes of few operations, their sizes within a factor of 2.
//! A scan's counts where both have scans, that of what comes in where both have writes. A context
//! keeps the traits of its first window.
//!
//! What must hold: a workload that no context is like becomes one after a window whose parts are
//! alike, or two windows in a row. Till then its number is 0. 64 are remembered; the one seen least
//! recently makes room.
//!
//! Callers: `watch`, which places each window; `coordinator::replay`, which places windows again;
//! `coordinator::journal` keeps them, and `attach::stepper` hands what was kept to a new `Watch`.

use super::window::Window;
use crate::learn::elementary::log2;
use serde::{Deserialize, Serialize};

/// Total variation of two mixes from which they are two workloads (CAMAL §6).
pub const DRIFT: f64 = 0.1;
/// What chance alone makes of the variation of two mixes, times the root of their operations.
pub(super) const CHANCE: f64 = 1.0;
/// Doublings of a size from which it makes another context.
const SIZE_DOUBLINGS: f64 = 1.0;
/// Contexts that are remembered; the one that was seen least recently is forgotten for a new one.
const CONTEXTS_MAX: usize = 64;

/// What a workload is told by.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Traits {
    /// Shares of operations: v, r, q, w.
    pub shares: [f64; 4],
    /// Bytes of all data, wherever values lie, as a power of two.
    pub data_log2: f64,
    /// Bytes of an entry with its value, as a power of two.
    pub entry_log2: f64,
    /// Entries of a scan, as a power of two.
    pub scan_log2: f64,
    /// Bytes of an entry that comes in, with its value, as a power of two; `None` without flushes.
    #[serde(default)]
    pub written_log2: Option<f64>,
    /// What chance alone makes of the variation, of so few operations.
    #[serde(default)]
    pub chance: f64,
}

impl Traits {
    /// Those of a window.
    pub fn of(window: &Window) -> Traits {
        let log2 = |number: f64| log2(number.max(1.0));
        let bytes = window.data_bytes() as f64;
        Traits {
            shares: window.mix().shares(),
            data_log2: log2(bytes),
            entry_log2: log2(bytes / window.table_entries().max(1) as f64),
            scan_log2: log2(window.scan_entries()),
            written_log2: window.written_entry_bytes().map(log2),
            chance: CHANCE / (window.operations.total().max(1) as f64).sqrt(),
        }
    }

    /// Total variation of the two mixes: 0 to 1.
    pub fn variation(&self, other: &Traits) -> f64 {
        let parts = self.shares.iter().zip(other.shares);
        parts.map(|(share, other)| (share - other).abs()).sum::<f64>() / 2.0
    }

    /// Whether the two are asked the same, but for chance, whatever is stored.
    pub fn is_asked_like(&self, other: &Traits) -> bool {
        self.variation(other) <= DRIFT + self.chance.max(other.chance)
    }

    /// How far the sizes of entries that come in are apart, as far as there are any, in units of
    /// what one context spans.
    pub fn written_distance(&self, other: &Traits) -> f64 {
        let writes = self.shares[3].min(other.shares[3]);
        let sizes = self.written_log2.zip(other.written_log2).filter(|_| writes > DRIFT);
        sizes.map_or(0.0, |(own, other)| doublings(own, other))
    }

    /// How far the two are apart, in units of what one context spans: from 1 on they are two
    /// workloads.
    pub fn distance(&self, other: &Traits) -> f64 {
        let size = doublings;
        // How long scans are counts as far as there are any.
        let scans = self.shares[2].min(other.shares[2]);
        let scan = if scans > DRIFT / 4.0 { size(self.scan_log2, other.scan_log2) } else { 0.0 };
        let parts = [
            self.variation(other) / (DRIFT + self.chance.max(other.chance)),
            size(self.data_log2, other.data_log2),
            size(self.entry_log2, other.entry_log2),
            scan,
            self.written_distance(other),
        ];
        parts.into_iter().fold(0.0, f64::max)
    }
}

fn doublings(own: f64, other: f64) -> f64 {
    (own - other).abs() / SIZE_DOUBLINGS
}

/// A workload that was seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Context {
    /// Its number, from 1.
    pub id: u32,
    /// Its traits when it was first seen.
    pub traits: Traits,
    /// The window that was of it last.
    pub last_window: u64,
}

/// All contexts, and what is on its way to become one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Contexts {
    known: Vec<Context>,
    /// Traits of the window before, if no context is like it.
    candidate: Option<Traits>,
    next_id: u32,
}

impl Contexts {
    /// The number of the context that window `number` with these traits belongs to; 0 if it is like
    /// none, the first of its kind, and not known to be `steady`.
    pub fn enter(&mut self, number: u64, traits: &Traits, steady: bool) -> u32 {
        let distance = |context: &&mut Context| context.traits.distance(traits);
        let nearest = self.known.iter_mut().min_by(|a, b| distance(a).total_cmp(&distance(b)));
        if let Some(context) = nearest.filter(|context| distance(context) < 1.0) {
            context.last_window = number;
            self.candidate = None;
            return context.id;
        }
        if !steady && self.candidate.is_none_or(|candidate| candidate.distance(traits) >= 1.0) {
            self.candidate = Some(*traits);
            return 0;
        }
        self.candidate = None;
        if self.known.len() == CONTEXTS_MAX {
            let oldest = (0..self.known.len()).min_by_key(|&at| self.known[at].last_window);
            self.known.remove(oldest.expect("there are contexts"));
        }
        self.next_id += 1;
        self.known.push(Context { id: self.next_id, traits: *traits, last_window: number });
        self.next_id
    }

    /// The number of the known context that these traits belong to; 0 if there is none.
    pub fn of(&self, traits: &Traits) -> u32 {
        let apart = self.known.iter().map(|context| (context.traits.distance(traits), context.id));
        let nearest = apart.min_by(|a, b| a.0.total_cmp(&b.0));
        nearest.filter(|(distance, _)| *distance < 1.0).map_or(0, |(_, id)| id)
    }

    /// Those that are remembered.
    pub fn known(&self) -> &[Context] {
        &self.known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traits(shares: [f64; 4]) -> Traits {
        Traits { shares, data_log2: 30.0, entry_log2: 7.0, scan_log2: 4.0, written_log2: None, chance: 0.0 }
    }

    #[test]
    fn a_workload_is_a_context_from_its_second_window_on_and_is_known_when_it_comes_back() {
        let (reads, writes) = (traits([0.1, 0.8, 0.0, 0.1]), traits([0.0, 0.1, 0.0, 0.9]));
        let mut contexts = Contexts::default();
        let ids: Vec<u32> = [reads, reads, reads, writes, writes, reads]
            .iter()
            .enumerate()
            .map(|(number, traits)| contexts.enter(number as u64, traits, false))
            .collect();
        assert_eq!(ids, [0, 1, 1, 0, 2, 1]);
    }

    #[test]
    fn the_window_in_which_a_workload_changes_makes_no_context() {
        let mut contexts = Contexts::default();
        let (one, between, other) =
            (traits([0.0, 1.0, 0.0, 0.0]), traits([0.0, 0.5, 0.0, 0.5]), traits([0.0, 0.0, 0.0, 1.0]));
        let ids: Vec<u32> =
            [one, one, between, other, other].map(|traits| contexts.enter(1, &traits, false)).into();
        assert_eq!(ids, [0, 1, 0, 0, 2]);
        assert_eq!(contexts.known().len(), 2);
    }

    #[test]
    fn a_steady_window_is_a_context_at_once() {
        let reads = traits([0.1, 0.8, 0.0, 0.1]);
        let mut contexts = Contexts::default();
        assert_eq!([contexts.enter(1, &reads, true), contexts.enter(2, &reads, false)], [1, 1]);
    }

    #[test]
    fn sizes_tell_workloads_apart_as_mixes_do_and_scans_only_where_there_are_any() {
        let small = traits([0.5, 0.5, 0.0, 0.0]);
        assert!(small.distance(&Traits { data_log2: 31.5, ..small }) >= 1.0);
        assert!(small.distance(&Traits { entry_log2: 9.0, ..small }) >= 1.0);
        assert!(small.distance(&Traits { scan_log2: 9.0, ..small }) < 1.0);
        assert!(small.distance(&traits([0.45, 0.55, 0.0, 0.0])) < 1.0);
        assert!(small.distance(&traits([0.39, 0.61, 0.0, 0.0])) >= 1.0);
    }

    /// Symptom: a change was judged against windows of values that were a tenth as large. Cause: a
    /// context knew how large entries in the tables are, which follows late. Cure: it also knows
    /// how large those are that come in.
    #[test]
    fn entries_that_come_in_tell_workloads_apart_by_their_size_as_soon_as_they_come() {
        let small = Traits { written_log2: Some(7.0), ..traits([0.5, 0.0, 0.0, 0.5]) };
        let large = Traits { written_log2: Some(10.0), ..small };
        assert!(small.distance(&large) >= 1.0);
        assert!(small.distance(&Traits { written_log2: Some(7.5), ..small }) < 1.0);
        assert!(small.distance(&Traits { written_log2: None, ..small }) < 1.0, "nothing was flushed");
        let reads = |written_log2| Traits { written_log2, ..traits([0.0, 0.95, 0.0, 0.05]) };
        assert!(reads(Some(7.0)).distance(&reads(Some(10.0))) < 1.0, "hardly anything is written");
    }

    #[test]
    fn the_oldest_context_is_forgotten_when_there_are_too_many() {
        let mut contexts = Contexts::default();
        for size in 0..CONTEXTS_MAX as u64 + 5 {
            let traits = Traits { data_log2: 2.0 * size as f64, ..traits([0.0, 1.0, 0.0, 0.0]) };
            contexts.enter(size, &traits, false);
            contexts.enter(size, &traits, false);
        }
        assert_eq!(contexts.known().len(), CONTEXTS_MAX);
        assert!(contexts.known().iter().all(|context| context.id > 5));
    }

    /// Symptom: windows of 240 operations of one mix were of two contexts, and nothing was judged
    /// in some of them. Cause: chance alone makes shares of so few differ by more than workloads
    /// may. Cure: what chance makes is allowed for.
    #[test]
    fn few_operations_of_one_mix_are_one_workload_and_many_that_differ_as_much_are_two() {
        let (one, other) = (traits([0.25, 0.25, 0.25, 0.25]), traits([0.32, 0.30, 0.19, 0.19]));
        assert!(one.distance(&other) >= 1.0);
        let few = |traits| Traits { chance: CHANCE / 240f64.sqrt(), ..traits };
        assert!(few(one).distance(&few(other)) < 1.0);
    }
}

//! What values that are kept apart from their entries make of operations: `Apart`, for the model of
//! `foresight`.
//!
//! `of` says what comes in under a plan: how large an entry of a table is, and whether its value
//! lies apart. `costs` says what reads of such values and moving them take of an operation, and
//! which share of the values lies apart at the end. The model's tree prices the entries.
//!
//! What must hold: a keyspace whose entries are small (`LARGE_MIN`) costs what it did without this.
//! How values are spread over sizes is not known: all count as the mean, so all of them obey a
//! threshold, or none does. Files have the default share to spare.
//!
//! Source: what cleaning moves is that of a log whose segments are emptied by their garbage
//! (Rosenblum and Ousterhout, The Design and Implementation of a Log-Structured File System, 1992),
//! for a share of 30 % to spare; docs/decisions/0019 has what was measured.
//!
//! Callers: `foresight`; `wishes` asks `threshold_for`.

use super::{plan::Plan, scales::Parts};
use crate::{
    cost::{Mix, Model, Units, skew::Skew, units::PAGE_BYTES},
    sight::Window,
};

/// Bytes of an entry that comes in from which on its value may lie apart.
const LARGE_MIN: f64 = 4096.0;
/// From so many bytes on values are kept apart, where they are (docs/TUNING.md).
const THRESHOLD: u32 = 4096;
/// Bytes of an entry that holds a pointer, with a key of eight bytes, and what a log takes for an
/// entry beside its value.
const POINTER_ENTRY: f64 = 32.0;
const IN_LOG: f64 = 24.0;
/// Values that are moved for each one that is written over, where all keys are used alike and where
/// only the favoured ones are.
const MOVED: (f64, f64) = (1.3, 0.8);
/// Bytes that moving a value reads for each byte of it: what lies beside it comes too.
const READ_OF_MOVE: f64 = 2.0;
/// Reads that a scan takes for each entry: what lies together comes together.
const READS_OF_SCAN: f64 = 0.7;
/// Windows that a context must have lasted before its values are kept apart or brought back: they
/// stay where they are when it goes.
pub(super) const LASTS: f64 = 12.0;
/// What value files take for each live byte.
pub(super) const SPACE: f64 = 1.3;

/// What comes in under a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Apart {
    /// Bytes of a value.
    value: f64,
    /// Bytes of the entry that a table gets for it, where that is not what flushes wrote.
    pub(super) entry: Option<f64>,
    /// Whether values that come in lie apart.
    arrives: bool,
    /// Which share of all values lies apart at first.
    share: f64,
}

/// What values that lie apart take of an operation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Costs {
    /// But for reads.
    pub(super) parts: Parts,
    /// Reads of values, and the nanoseconds that they take.
    pub(super) reads: [f64; 2],
    /// Of these, nanoseconds of what is done once: values that were there before leave their
    /// entries.
    pub(super) once_ns: f64,
    /// The share of all values that lies apart at the end, and the bytes of these.
    pub(super) share: f64,
    pub(super) bytes: f64,
    /// Bytes of an entry of a table, in the mean and at the end.
    pub(super) entries: [f64; 2],
    /// What a found lookup and an entry of a scan cost more then, in nanoseconds.
    pub(super) left: [f64; 2],
}

/// The threshold to set for what `window` writes; `None` if its values are too small.
pub(super) fn threshold_for(window: &Window) -> Option<u32> {
    window.put_bytes().filter(|bytes| *bytes >= LARGE_MIN + IN_LOG).map(|_| THRESHOLD)
}

/// What the log takes of an operation of `window`, in nanoseconds, where values are large.
pub(super) fn log_ns(window: &Window, units: &Units) -> f64 {
    let large = window.put_bytes().filter(|bytes| *bytes >= LARGE_MIN);
    large.map_or(0.0, |bytes| window.mix().write * bytes / PAGE_BYTES * units.write_ns_per_page)
}

impl Apart {
    /// What comes into `window`'s keyspace of `keys` keys under `plan`; `None` where values are
    /// small and none lies apart.
    pub(super) fn of(window: &Window, plan: &Plan, keys: f64) -> Option<Apart> {
        let mean = window.separated_bytes as f64 / window.separated_values.max(1) as f64;
        let put = window.put_bytes().unwrap_or(mean + IN_LOG);
        if put < LARGE_MIN && window.separated_values == 0 {
            return None;
        }
        let value = (put - IN_LOG).max(1.0);
        let is_apart = |plan: &Plan| plan.separate_from.is_some_and(|from| value >= f64::from(from));
        let (now, arrives) = (is_apart(&Plan::of(window)), is_apart(plan));
        let entry = match (now, arrives) {
            (false, true) => Some(POINTER_ENTRY),
            (true, false) => Some(put),
            _ => None,
        };
        let share = (window.separated_values as f64 / keys.max(1.0)).min(1.0);
        Some(Apart { value, entry, arrives, share })
    }

    /// Bytes of an entry of a table where such a share of all values lies apart, if it is another
    /// than now, where it has `now` bytes.
    fn entry_bytes(&self, now: f64, share: f64) -> f64 {
        let others = (now - self.share * POINTER_ENTRY) / (1.0 - self.share).max(0.01);
        let inline = if self.share < 0.9 { others.max(POINTER_ENTRY) } else { self.value + IN_LOG };
        share * POINTER_ENTRY + (1.0 - share) * inline
    }

    /// The same, where such a share of all values lies apart at first.
    pub(super) fn beginning_at(self, share: f64) -> Apart {
        Apart { share, ..self }
    }

    /// What they take of an operation of `mix`, of so many `operations`. `model` has the keys, and
    /// the cache has `cache` bytes for values.
    pub(super) fn costs(&self, model: &Model, mix: &Mix, skew: Skew, operations: f64, cache: f64) -> Costs {
        let (units, keys) = (&model.units, model.data.entries.max(1.0));
        let writes = operations * mix.write;
        let mean = self.share_after(written(skew, writes / 2.0 / keys)[0]);
        let [looked_up, share] = written(skew, writes / keys).map(|written| self.share_after(written));
        let bytes = share * keys * self.value;
        // What was used last is in the cache: as a run of that size would serve it.
        let covered = if bytes > 0.0 { (cache / bytes).min(1.0) } else { 1.0 };
        let missed = |skew: Skew| if covered >= 1.0 { 0.0 } else { 1.0 - skew.served(&[(1.0, covered)]) };
        let read = units.read_ns(self.value) + units.block_load_ns;
        let of_scan = READS_OF_SCAN * missed(Skew::EVEN);
        let reads = mean * (mix.found * missed(skew) + mix.scan * model.data.scan_entries * of_scan);
        let moved = if self.arrives {
            let (even, favoured) = MOVED;
            let unevenness = (skew.share() - Skew::EVEN.share()) / (1.0 - Skew::EVEN.share());
            mix.write * mean * (even + unevenness * (favoured - even))
        } else {
            // Each comes back into a table once.
            (self.share - share) * keys / operations.max(1.0)
        };
        // A conversion reads and writes what still lies in entries.
        let once = if self.arrives { (1.0 - self.share) * keys / operations.max(1.0) } else { 0.0 };
        let once_ns = once * self.converted_ns(units);
        let parts = Parts {
            ns: [0.0, 0.0, moved * self.moved_ns(units) + once_ns],
            bytes_written: (moved + once) * self.value,
            ..Parts::default()
        };
        Costs {
            parts,
            reads: [reads, reads * read],
            once_ns,
            share,
            bytes,
            entries: [mean, share].map(|share| self.entry_bytes(model.data.entry_bytes, share)),
            left: [looked_up * missed(Skew::EVEN) * read, share * of_scan * read],
        }
    }

    /// Which share of all values lies apart once such a share of them was written.
    fn share_after(&self, written: f64) -> f64 {
        match self.arrives {
            true => self.share + (1.0 - self.share) * written,
            false => self.share * (1.0 - written),
        }
    }

    /// To move a value from file to file, in nanoseconds.
    fn moved_ns(&self, units: &Units) -> f64 {
        units.read_ns(READ_OF_MOVE * self.value)
            + units.merge_ns_per_entry
            + self.value / PAGE_BYTES * units.write_ns_per_page
    }

    /// To take a value out of its entry, which a conversion comes to anyway, in nanoseconds.
    fn converted_ns(&self, units: &Units) -> f64 {
        let page_ns = units.read_ahead_ns_per_page + units.write_ns_per_page;
        self.value / PAGE_BYTES * page_ns + units.merge_ns_per_entry
    }
}

/// Which share of the values that are looked up, and of all, was written by so many writes for each
/// key.
fn written(skew: Skew, writes: f64) -> [f64; 2] {
    let ([many, few], [of_many, of_few]) = (skew.written(writes), skew.operations());
    let all = if skew.is_even() { many } else { of_few * many + of_many * few };
    [of_many * many + of_few * few, all]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        agent::steward::{foresight::Foresight, scales::Scales, seen},
        sight::{Goal, Look, Measure, Pace, Watch},
        world::{Keys, Phase, Setup, World, device},
    };

    const OPERATIONS: u64 = 6_000;
    const WINDOWS: u64 = 4;

    /// What operations of a world take in the long run, in nanoseconds, and its last window.
    fn lived(phase: &Phase, value_bytes: usize, separate_from: Option<u64>) -> (f64, Window) {
        let entries = (12 << 20) / value_bytes as u64;
        let mut world =
            World::new(Setup { entries, value_bytes, separate_from, ..Setup::default() }).unwrap();
        let pace = Pace { operations_min: OPERATIONS, elapsed_ns_min: 0, flushes_min: 0, ..Pace::default() };
        let mut watch = Watch::new("default", pace, world.db().control().observe(), 0);
        world.run(phase, OPERATIONS).unwrap();
        watch.look(world.db().control().observe());
        let begin = world.now_ns();
        world.run(phase, WINDOWS * OPERATIONS).unwrap();
        let took = (world.now_ns() - begin) as f64 / (WINDOWS * OPERATIONS) as f64;
        let Look::Ended(window) = watch.look(world.db().control().observe()) else {
            panic!("a window of {OPERATIONS} operations has not ended")
        };
        (took, *window)
    }

    const HOT: Keys = Keys::Hot { at_permille: 0, size_permille: 100, share_permille: 900 };

    /// What `phase` takes with values apart, of what it takes with values in tables: lived through,
    /// and foreseen from a window of the latter.
    fn of_inline(phase: &Phase, value_bytes: usize) -> (f64, f64) {
        let (inline, window) = lived(phase, value_bytes, None);
        let (apart, _) = lived(phase, value_bytes, Some(THRESHOLD.into()));
        let (units, scales) = (device(), Scales::default());
        let goal = Goal { measure: Measure::Elapsed, ..Goal::default() };
        let skew = seen::skew(&window).unwrap_or(Skew::EVEN);
        let foresight = Foresight { units: &units, goal: &goal, scales: &scales, skew };
        let stay = Plan::of(&window);
        let plan = Plan { separate_from: threshold_for(&window), ..stay.clone() };
        let log = log_ns(&window, &units);
        let price = |plan| foresight.price(&foresight.walk(&window, plan, 48.0), (1.0, 1.0)) + log;
        (apart / inline, price(&plan) / price(&stay))
    }

    /// What a change is worth is foreseen before it is made: where keys are used alike, moving
    /// values takes as much as merging them, or more; where few are written again and again, less.
    #[test]
    fn what_values_apart_cost_is_foreseen_as_a_world_has_it() {
        let even = |shares| Phase::of(shares);
        let half = |keys| Phase { keys, ..Phase::of([0.0, 50.0, 0.0, 50.0]) };
        for (phase, bytes, least, most) in [
            (even([0.0, 5.0, 0.0, 95.0]), 4_200, 1.2, 3.0),
            (even([0.0, 10.0, 80.0, 10.0]), 16_384, 1.2, 1.8),
            (half(Keys::Even), 16_384, 0.9, 1.1),
            (half(HOT), 16_384, 0.4, 0.9),
            (Phase { keys: HOT, ..Phase::of([0.0, 5.0, 0.0, 95.0]) }, 16_384, 0.5, 0.9),
        ] {
            let (lived, foreseen) = of_inline(&phase, bytes);
            let is_within = |ratio: f64| (least..=most).contains(&ratio);
            assert!(is_within(lived) && is_within(foreseen), "{phase:?}: {lived:.2}, foreseen {foreseen:.2}");
        }
    }

    #[test]
    fn small_values_are_not_kept_apart_and_cost_what_they_did() {
        let (_, window) = lived(&Phase::of([0.0, 50.0, 0.0, 50.0]), 1_000, None);
        let stay = Plan::of(&window);
        assert_eq!(threshold_for(&window), None);
        assert_eq!(Apart::of(&window, &stay, 1.0), None);
        assert_eq!(log_ns(&window, &device()), 0.0);
        let unknown = Window { log_bytes: 0, ..window };
        assert_eq!((unknown.put_bytes(), threshold_for(&unknown)), (None, None));
    }
}

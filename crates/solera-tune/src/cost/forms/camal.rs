//! CAMAL §3–§5 as corrected in docs/PAPERS.md, "CAMAL: the size ratio": `Tree`, a database as its
//! formulas see it, and `Knobs`, size ratio and filter memory.
//!
//! `leveling` and `tiering` cost a setting in I/Os. For leveling, `size_ratio` is T* and
//! `filter_bytes` the split of memory between write buffer and filters, both by Lambert's W. For
//! tiering there is the slope over T alone (`tiering_slope`).
//!
//! What must hold: T* is at least 2 and at most the caller's bound, which it is if nothing is
//! written. Where filters do not pay they get nothing.
//!
//! Callers: `cost::choose`, `agent::camal::space`, and the pages `camal` and `camal_learned` of
//! `solera-bench`.

use super::super::{lambert::w0, mix::Mix};
use crate::learn::elementary::{exp, ln};

/// A database as CAMAL's formulas see it. Sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tree {
    /// N.
    pub entries: f64,
    /// E.
    pub entry_bytes: f64,
    /// B: entries in a block.
    pub block_entries: f64,
    /// s: entries that a scan returns.
    pub scan_entries: f64,
    /// M − M_c: memory for write buffer and filters together.
    pub memory_bytes: f64,
    /// c: what false positives are e^(−c bits per key) with.
    pub bloom_exponent: f64,
    /// ω: I/Os of a merge per page merged: 1 in the paper; (1 + cost of a write / cost of a read)/2
    /// where reads and writes are both counted and a level is half full on average (Endure).
    pub merge_weight: f64,
}

/// Size ratio and filter memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knobs {
    /// T.
    pub size_ratio: f64,
    /// M_f, in bytes; the write buffer has the rest.
    pub filter_bytes: f64,
}

impl Tree {
    /// L, not rounded: ln(N E / M_b + 1) / ln T.
    pub fn levels(&self, knobs: Knobs) -> f64 {
        let buffer = self.memory_bytes - knobs.filter_bytes;
        ln(self.entries * self.entry_bytes / buffer + 1.0) / ln(knobs.size_ratio)
    }

    /// e^(−c M_f/N), M_f in bits.
    fn false_positives(&self, filter_bytes: f64) -> f64 {
        exp(-self.bloom_exponent * filter_bytes * 8.0 / self.entries)
    }

    /// I/Os per operation of leveling (Fig. 2 and Eq. 2), L not rounded.
    pub fn leveling(&self, mix: &Mix, knobs: Knobs) -> f64 {
        let (levels, false_positives) = (self.levels(knobs), self.false_positives(knobs.filter_bytes));
        mix.absent * false_positives
            + mix.found * (false_positives + 1.0)
            + mix.scan * (levels + self.scan_entries / self.block_entries)
            + mix.write * self.merge_weight * levels * knobs.size_ratio / self.block_entries
    }

    /// I/Os per operation of tiering.
    pub fn tiering(&self, mix: &Mix, knobs: Knobs) -> f64 {
        let ratio = knobs.size_ratio;
        let (levels, false_positives) = (self.levels(knobs), self.false_positives(knobs.filter_bytes));
        mix.absent * false_positives * ratio
            + mix.found * (false_positives * ratio + 1.0)
            + mix.scan * (levels * ratio + ratio * self.scan_entries / self.block_entries)
            + mix.write * levels / self.block_entries
    }

    /// ∂/∂T of [`Tree::tiering`] (Eq. 7, correct as printed).
    pub fn tiering_slope(&self, mix: &Mix, knobs: Knobs) -> f64 {
        let (ratio, blocks) = (knobs.size_ratio, self.block_entries);
        (mix.absent + mix.found) * self.false_positives(knobs.filter_bytes)
            + mix.scan * self.scan_entries / blocks
            + self.levels(knobs) * (mix.scan * blocks * ratio * (ln(ratio) - 1.0) - mix.write)
                / (blocks * ratio * ln(ratio))
    }

    /// T* of leveling: exp(1 + W₀(q B / (e ω w))), at least 2 and at most `size_ratio_max`, which
    /// it is if nothing is written. It does not depend on the memory (Lemma 4.1).
    pub fn size_ratio(&self, mix: &Mix, size_ratio_max: f64) -> f64 {
        size_ratio(mix.scan * self.block_entries, self.merge_weight * mix.write, size_ratio_max)
    }

    /// M_f* of leveling at this T, in bytes: M' − (N/c) W₀(b e^(c M'/N)/(v+r)), b = (q B + ω w
    /// T)/(B ln T); 0 if filters do not pay. The cost is convex in M_f, so this is its only
    /// minimum.
    ///
    /// The exponential overflows beyond 700/c bits per key; no user gives a key so many.
    pub fn filter_bytes(&self, mix: &Mix, size_ratio: f64) -> f64 {
        let lookups = mix.absent + mix.found;
        let slope = (mix.scan * self.block_entries + self.merge_weight * mix.write * size_ratio)
            / (self.block_entries * ln(size_ratio));
        let (memory_bits, c) = (self.memory_bytes * 8.0, self.bloom_exponent);
        if c * lookups / self.entries <= slope / memory_bits {
            return 0.0;
        }
        let most = exp((c * memory_bits / self.entries).min(690.0));
        let buffer_bits = self.entries / c * w0(slope * most / lookups);
        ((memory_bits - buffer_bits) / 8.0).max(0.0)
    }
}

/// exp(1 + W₀(reads/(e·writes))), 2 to `max`: the T at which `writes`·T(ln T − 1) = `reads`. What a
/// level more costs reads (probes and seeks; docs/PAPERS.md, "CAMAL: the processor's part") against
/// what a merge costs writes.
pub fn size_ratio(reads: f64, writes: f64, max: f64) -> f64 {
    if writes <= 0.0 {
        return max;
    }
    exp(1.0 + w0(reads / (std::f64::consts::E * writes))).clamp(2.0, max.max(2.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::forms::{BLOOM_EXPONENT, BLOOM_EXPONENT_AS_PRINTED};

    /// CAMAL's own scale: 10 M entries of 1 KB, B = 4, 16 MB of memory.
    fn paper() -> Tree {
        Tree {
            entries: 1e7,
            entry_bytes: 1024.0,
            block_entries: 4.0,
            scan_entries: 4.0,
            memory_bytes: 16.0 * 1_048_576.0,
            bloom_exponent: BLOOM_EXPONENT,
            merge_weight: 1.0,
        }
    }

    fn mix(shares: [f64; 4]) -> Mix {
        Mix::new(shares).unwrap()
    }

    #[test]
    fn size_ratios_are_those_of_the_notes() {
        let tree = paper();
        for (shares, expected) in
            [([25., 25., 25., 25.], 5.57), ([1., 1., 97., 1.], 106.0), ([1., 1., 1., 97.], 2.76)]
        {
            let ratio = tree.size_ratio(&mix(shares), 1e6);
            assert!((ratio / expected - 1.0).abs() < 0.005, "{shares:?}: {ratio}");
        }
        assert_eq!(tree.size_ratio(&mix([1., 1., 1., 0.].map(|x| x / 3.0)), 50.0), 50.0);
        let e = tree.size_ratio(&mix([50., 0., 0., 50.]), 50.0);
        assert!((e - std::f64::consts::E).abs() < 1e-12, "{e}");
    }

    #[test]
    fn bits_per_key_are_those_of_the_notes() {
        let bits = |tree: Tree, shares| {
            let mix = mix(shares);
            tree.filter_bytes(&mix, tree.size_ratio(&mix, 1e3)) * 8.0 / tree.entries
        };
        let printed = Tree { bloom_exponent: BLOOM_EXPONENT_AS_PRINTED, ..paper() };
        for (tree, shares, expected) in [
            (paper(), [25., 25., 25., 25.], 3.91),
            (printed, [25., 25., 25., 25.], 2.73),
            (paper(), [97., 1., 1., 1.], 9.9),
            (printed, [97., 1., 1., 1.], 6.2),
        ] {
            let bits = bits(tree, shares);
            assert!((bits - expected).abs() < 0.06, "{shares:?}: {bits} instead of {expected}");
        }
    }

    #[test]
    fn the_slope_of_the_cost_is_zero_where_the_forms_say() {
        for shares in [[25., 25., 25., 25.], [97., 1., 1., 1.], [25., 25., 1., 49.], [33., 33., 1., 33.]] {
            let (tree, mix) = (paper(), mix(shares));
            let size_ratio = tree.size_ratio(&mix, 1e3);
            let knobs = Knobs { size_ratio, filter_bytes: tree.filter_bytes(&mix, size_ratio) };
            let cost = |size_ratio, filter_bytes| tree.leveling(&mix, Knobs { size_ratio, filter_bytes });
            let (dt, df) = (1e-4 * size_ratio, 1e-4 * knobs.filter_bytes);
            let slope_t =
                (cost(size_ratio + dt, knobs.filter_bytes) - cost(size_ratio - dt, knobs.filter_bytes)) / dt;
            // ln(N E/M_b + 1) is taken for ln(N E/M_b): 0.15 % of the slope's two halves.
            let slope_f =
                (cost(size_ratio, knobs.filter_bytes + df) - cost(size_ratio, knobs.filter_bytes - df)) / df;
            let half = (mix.absent + mix.found) * BLOOM_EXPONENT * 8.0 / tree.entries
                * (-BLOOM_EXPONENT * knobs.filter_bytes * 8.0 / tree.entries).exp();
            assert!(slope_t.abs() < 1e-6, "{shares:?}: {slope_t}");
            assert!(slope_f.abs() < 0.01 * half, "{shares:?}: {slope_f} of {half}");
        }
    }

    #[test]
    fn where_filters_do_not_pay_they_get_nothing() {
        assert_eq!(paper().filter_bytes(&mix([0., 0., 50., 50.]), 5.0), 0.0);
        let starved = Tree { memory_bytes: 1000.0, ..paper() };
        assert_eq!(starved.filter_bytes(&mix([1., 1., 49., 49.]), 5.0), 0.0);
    }

    #[test]
    fn the_slope_of_tiering_is_that_of_its_cost() {
        let (tree, mix) = (paper(), mix([25., 25., 25., 25.]));
        for size_ratio in [2.5, 4.0, 9.0] {
            let at = |size_ratio| Knobs { size_ratio, filter_bytes: 1e7 };
            let step = 1e-5;
            let rise = tree.tiering(&mix, at(size_ratio + step)) - tree.tiering(&mix, at(size_ratio - step));
            let slope = tree.tiering_slope(&mix, at(size_ratio));
            assert!((rise / (2.0 * step) / slope - 1.0).abs() < 1e-6, "T = {size_ratio}");
        }
    }

    #[test]
    fn the_printed_exponent_costs_what_the_notes_say() {
        let cost = |shares: [f64; 4], bloom_exponent| {
            let (truth, mix) = (paper(), mix(shares));
            let believed = Tree { bloom_exponent, ..truth };
            let size_ratio = truth.size_ratio(&mix, 1e3);
            truth.leveling(&mix, Knobs { size_ratio, filter_bytes: believed.filter_bytes(&mix, size_ratio) })
        };
        for (shares, at_least) in [([97., 1., 1., 1.], 1.2), ([25., 25., 25., 25.], 1.005)] {
            let ratio = cost(shares, BLOOM_EXPONENT_AS_PRINTED) / cost(shares, BLOOM_EXPONENT);
            assert!(ratio > at_least, "{shares:?}: {ratio}");
        }
    }
}

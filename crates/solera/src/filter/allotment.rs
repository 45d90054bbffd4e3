//! Which level gets how many of the filters' bits (Monkey, with runs): `allot`, a pure function of
//! `LevelLoad`s.
//!
//! A lookup of an absent key finds a false positive in each of K_i runs of level i with probability
//! f_i. `allot` gives out Σ n_i b_i bits so that Σ q_i K_i f_i is least (docs/PAPERS.md, "RusKey:
//! filters by level"). It gives quarters of a bit to the level where they are worth most, along the
//! lower hull of the filters' real curve.
//!
//! What must hold: the bits are the total, unless all levels have the most or less than one bit a
//! key is left. For an ideal Bloom filter the result is the closed form, f_i = λ n_i / (K_i q_i),
//! to a quarter of a bit. More bits take none from any level.
//! Callers: `compaction::filters`; the cost model of `solera-tune`.

use super::{BITS_PER_KEY_MAX, FilterKind, FilterSpec, false_positives};
use std::sync::OnceLock;

/// What the allotment must know of a level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelLoad {
    /// n_i: entries in it.
    pub entries: f64,
    /// K_i: runs that a lookup which reaches the level looks into.
    pub runs: f64,
    /// q_i: lookups that reach it and do not find their key in it, in any unit that is the same for
    /// all levels. 1 for all if nothing is known.
    pub misses: f64,
    /// The kind of its filters.
    pub kind: FilterKind,
}

/// Bits per key at which the curve is looked at: 0, and then in quarters from 1 on, the least that
/// is legal.
fn grid() -> impl Iterator<Item = f64> {
    let quarters = 4..=(BITS_PER_KEY_MAX * 4.0) as u32;
    std::iter::once(0.0).chain(quarters.map(|quarters| f64::from(quarters) / 4.0))
}

/// The lower convex hull of a falling curve over the grid: (bits, share).
fn hull(curve: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for bits in grid() {
        let next = (bits, curve(bits));
        let slope = |a: (f64, f64), b: (f64, f64)| (b.1 - a.1) / (b.0 - a.0);
        while let [.., a, b] = hull[..]
            && slope(a, b) >= slope(b, next)
        {
            hull.pop();
        }
        hull.push(next);
    }
    hull
}

/// The hull of a kind's curve.
fn hull_of(kind: FilterKind) -> &'static [(f64, f64)] {
    static HULLS: OnceLock<[Vec<(f64, f64)>; FilterKind::ALL.len()]> = OnceLock::new();
    let of = |kind| hull(|bits| false_positives(FilterSpec { kind, bits_per_key: bits as f32 }));
    &HULLS.get_or_init(|| FilterKind::ALL.map(of))[kind as usize]
}

/// Shares `total_bits` between `levels`, so that the fewest absent keys pass: bits per key of each,
/// 0 (no filter) or 1 to 64. Together they are the total, unless every level has the most it may
/// have, or what is left is less than one bit for each key of the level whose turn it is.
///
/// ```text
/// q_i K_i (-df/db)(b_i) = μ n_i
/// ```
///
/// If f = e^(-c b), as of an ideal Bloom filter with c = ln² 2, that is **f_i = λ n_i / (K_i
/// q_i)**. Here λ = exp(-(c M_f + Σ n_i ln(n_i / (K_i q_i))) / Σ n_i), and levels whose f_i would
/// be 1 or more are left out. Our filters are not ideal ([`super::false_positives`]), so the
/// condition is solved on the curve that they have. Bits are given out in quarters to the level
/// where they are worth most, along the curve's lower hull. For the ideal curve that is the closed
/// form to a quarter of a bit; a test says so.
pub fn allot(levels: &[LevelLoad], total_bits: f64) -> Vec<f32> {
    allot_along(levels, total_bits, hull_of)
}

fn allot_along<'h>(
    levels: &[LevelLoad],
    total_bits: f64,
    hull: impl Fn(FilterKind) -> &'h [(f64, f64)],
) -> Vec<f32> {
    // Of each level the point of the hull that it has reached.
    let mut reached = vec![0usize; levels.len()];
    let mut bits = vec![0.0f64; levels.len()];
    let mut left = total_bits;
    while left > 0.0 {
        let worth = |(i, level): (usize, &LevelLoad)| {
            let [(bits, share), (more_bits, smaller)] = *hull(level.kind)[reached[i]..].first_chunk()?;
            let price = level.entries.max(1.0) * (more_bits - bits);
            Some((level.runs * level.misses * (share - smaller) / price, i, more_bits, price))
        };
        let best = levels.iter().enumerate().filter_map(worth).max_by(|a, b| a.0.total_cmp(&b.0));
        let Some((_, level, more_bits, price)) = best else { break };
        let part = (left / price).min(1.0);
        bits[level] += (more_bits - bits[level]) * part;
        reached[level] += 1;
        left -= price;
    }
    bits.into_iter().map(|bits| if bits < 1.0 { 0.0 } else { bits as f32 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cost(levels: &[LevelLoad], bits: &[f32], share: impl Fn(FilterSpec) -> f64) -> f64 {
        let of = |(level, bits_per_key): (&LevelLoad, &f32)| {
            level.runs * level.misses * share(FilterSpec { kind: level.kind, bits_per_key: *bits_per_key })
        };
        levels.iter().zip(bits).map(of).sum()
    }

    fn spent(levels: &[LevelLoad], bits: &[f32]) -> f64 {
        levels.iter().zip(bits).map(|(level, bits)| level.entries * f64::from(*bits)).sum()
    }

    fn loads() -> impl Strategy<Value = Vec<LevelLoad>> {
        let kind = prop::sample::select(&FilterKind::ALL[..]);
        let level = (0.0..16.0f64, 1u32..12, 0.05..1.0f64, kind).prop_map(|(e, runs, misses, kind)| {
            LevelLoad { entries: (e.exp() * 1000.0).floor(), runs: runs.into(), misses, kind }
        });
        prop::collection::vec(level, 1..7)
    }

    /// The closed form as it stands, for an ideal curve.
    fn closed_form(levels: &[LevelLoad], total_bits: f64) -> Vec<f64> {
        let c = std::f64::consts::LN_2.powi(2);
        let ratio = |level: &LevelLoad| level.entries / (level.runs * level.misses);
        let mut filtered: Vec<bool> = vec![true; levels.len()];
        loop {
            let having =
                || levels.iter().zip(&filtered).filter(|(_, filtered)| **filtered).map(|(level, _)| level);
            let keys: f64 = having().map(|level| level.entries).sum();
            let logs: f64 = having().map(|level| level.entries * ratio(level).ln()).sum();
            let lambda = (-(c * total_bits + logs) / keys).exp();
            let shares: Vec<f64> = levels.iter().map(|level| lambda * ratio(level)).collect();
            let too_many: Vec<usize> =
                (0..levels.len()).filter(|&i| filtered[i] && shares[i] >= 1.0).collect();
            if too_many.is_empty() {
                return (0..levels.len())
                    .map(|i| if filtered[i] { -shares[i].ln() / c } else { 0.0 })
                    .collect();
            }
            too_many.into_iter().for_each(|i| filtered[i] = false);
        }
    }

    #[test]
    fn on_the_ideal_curve_it_is_the_closed_form() {
        let ideal = hull(|bits| (-std::f64::consts::LN_2.powi(2) * bits).exp());
        let level = |entries, runs| LevelLoad { entries, runs, misses: 1.0, kind: FilterKind::Bloom };
        for (levels, mean) in [
            (vec![level(1e4, 4.0), level(1e5, 1.0), level(1e6, 1.0)], 10.0),
            (vec![level(9e3, 10.0), level(9e4, 10.0), level(9e5, 5.0), level(9e6, 2.0)], 4.0),
            (vec![LevelLoad { misses: 9.0, ..level(1e5, 2.0) }, level(1e6, 1.0)], 6.0),
            (vec![level(1e4, 4.0), level(1e7, 1.0)], 1.5),
        ] {
            let total = mean * levels.iter().map(|level| level.entries).sum::<f64>();
            let bits = allot_along(&levels, total, |_| &ideal);
            for (ours, closed) in bits.iter().zip(closed_form(&levels, total)) {
                assert!((f64::from(*ours) - closed).abs() < 0.3, "{bits:?}, {closed} for {levels:?}");
            }
        }
    }

    /// The example of the issue: T = 10, four runs in level 0, leveling below, 10 bits in the mean.
    #[test]
    fn smaller_levels_get_more_and_the_sum_of_false_positives_falls() {
        let level = |entries, runs| LevelLoad { entries, runs, misses: 1.0, kind: FilterKind::Bloom };
        let levels = [level(4e5, 4.0), level(9e5, 1.0), level(9e6, 1.0), level(9e7, 1.0)];
        let total = 10.0 * levels.iter().map(|level| level.entries).sum::<f64>();
        let bits = allot(&levels, total);
        assert!(bits.is_sorted_by(|a, b| a > b), "{bits:?}");
        let uniform = cost(&levels, &[10.0; 4], false_positives);
        let spread = cost(&levels, &bits, false_positives);
        assert!(spread < 0.3 * uniform, "{spread} against {uniform}: {bits:?}");
    }

    #[test]
    fn a_level_where_hardly_anything_is_missed_gets_no_filter() {
        let level = |misses| LevelLoad { entries: 1e6, runs: 1.0, misses, kind: FilterKind::Bloom };
        assert_eq!(allot(&[level(1.0), level(1e-9)], 8e6), [8.0, 0.0]);
        assert_eq!(allot(&[level(1.0)], 0.0), [0.0]);
        assert_eq!(allot(&[level(1.0)], 0.5e6), [0.0], "less than a bit for each key");
        assert_eq!(allot(&[level(1.0)], 1e9), [64.0]);
        assert!(allot(&[], 1e9).is_empty());
    }

    proptest! {
        #[test]
        fn the_bits_are_the_total(levels in loads(), mean in 0.5..40.0f64) {
            let total = mean * levels.iter().map(|level| level.entries).sum::<f64>();
            let bits = allot(&levels, total);
            prop_assert!(bits.iter().all(|bits| *bits == 0.0 || (1.0..=64.0).contains(bits)));
            let left = total - spent(&levels, &bits);
            let none = levels.iter().zip(&bits).filter(|(_, bits)| **bits == 0.0).map(|(level, _)| level.entries);
            prop_assert!(left >= -1e-6 * total && left <= 1e-6 * total + none.fold(0.0, f64::max), "{} of {}", left, total);
        }

        /// Brute force: bits are taken from each level and given to each other one.
        #[test]
        fn no_exchange_between_two_levels_lets_fewer_absent_keys_pass(levels in loads(), mean in 1.0..20.0f64) {
            let total = mean * levels.iter().map(|level| level.entries).sum::<f64>();
            let bits = allot(&levels, total);
            let least = cost(&levels, &bits, false_positives);
            for (from, to) in (0..levels.len()).flat_map(|from| (0..levels.len()).map(move |to| (from, to))) {
                for taken in [0.25f32, 1.0, 3.0, bits[from]] {
                    let mut other = bits.clone();
                    other[from] -= taken;
                    other[to] += (f64::from(taken) * levels[from].entries / levels[to].entries) as f32;
                    if from == to || !other.iter().all(|bits| *bits == 0.0 || (1.0..=64.0).contains(bits)) {
                        continue;
                    }
                    let changed = cost(&levels, &other, false_positives);
                    // Bits are given in quarters, and a Ribbon filter's curve has its corners
                    // between them.
                    prop_assert!(changed >= least * 0.97, "{changed} < {least}: {bits:?}, {other:?}");
                }
            }
        }

        #[test]
        fn more_bits_take_bits_from_no_level(levels in loads(), mean in 0.5..30.0f64, more in 0.0..10.0f64) {
            let keys = levels.iter().map(|level| level.entries).sum::<f64>();
            let [fewer, more] = [mean, mean + more].map(|mean| allot(&levels, mean * keys));
            prop_assert!(fewer.iter().zip(&more).all(|(fewer, more)| *more >= *fewer - 1e-4), "{fewer:?} {more:?}");
        }

        #[test]
        fn a_level_with_smaller_runs_or_more_misses_gets_no_fewer_bits(levels in loads(), mean in 0.5..30.0f64) {
            let total = mean * levels.iter().map(|level| level.entries).sum::<f64>();
            let bits = allot(&levels, total);
            let ratio = |i: usize| levels[i].entries / (levels[i].runs * levels[i].misses);
            for (a, b) in (0..levels.len()).flat_map(|a| (0..levels.len()).map(move |b| (a, b))) {
                if levels[a].kind == levels[b].kind && ratio(a) < ratio(b) {
                    // Up to the last step, which may be given in part.
                    prop_assert!(bits[a] >= bits[b] - 1.3, "{bits:?} for {levels:?}");
                }
            }
        }
    }
}

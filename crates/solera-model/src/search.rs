//! The last mile, the exact lower bound in a sorted array from a guess and an error: `lower_bound`.
//!
//! It walks from the guess one head at a time, and gallops if eight were not enough. So a guess
//! that is off by `d` costs `d` steps while `d` is small, and O(log d) after. It does not search
//! the window that the error allows, which is two to three times the usual error. It branches on
//! keys: a branch predicted right lets the record's load begin before the heads arrive.
//! `lower_bound_binary` is the plain twin, taken where the error is half the heads or more.
//!
//! What must hold: the answer is `partition_point(|head| head < x)`, whatever guess and error say.
//! It takes at most `comparisons_max` comparisons.
//! Callers: `block::read` (both) and `version::run_index` in `solera`, `evilmodel::search` in
//! `solera-sim`, the fuzz target `model`, and the example `segments`.

use std::hint::black_box;

/// Heads that are compared one by one, next to the guess: one cache line of them.
const WALK: usize = 8;

/// The most comparisons that [`lower_bound`] makes among `n` heads, however bad the guess: one of
/// the guess and a walk, a gallop to the end whose steps double, and the halving of the last step.
pub fn comparisons_max(n: usize) -> usize {
    2 * (n + 1).next_power_of_two().ilog2() as usize + 1 + WALK
}

/// The rank of the first head that is not less than `x`; `heads.len()` if there is none. `heads`
/// ascends. `guess` and `error` are those of a line and its [`crate::bound::measured_error`]; an
/// error of half the heads or more says that the line is of no use, and the guess is not looked at.
#[inline]
pub fn lower_bound<T: Copy + PartialOrd>(heads: &[T], x: T, guess: usize, error: usize) -> usize {
    if error >= heads.len() / 2 {
        return lower_bound_binary(heads, x);
    }
    let guess = guess.min(heads.len() - 1);
    if heads[guess] < x {
        let walk = heads[guess + 1..].iter().take(WALK).position(|&head| head >= x);
        walk.map_or_else(
            || gallop_up(heads, x, (guess + 1 + WALK).min(heads.len())),
            |steps| guess + 1 + steps,
        )
    } else {
        let walk = heads[..guess].iter().rev().take(WALK).position(|&head| head < x);
        walk.map_or_else(|| gallop_down(heads, x, guess.saturating_sub(WALK)), |steps| guess - steps)
    }
}

/// [`lower_bound`] without a model: the plain twin, and the answer to what a model is worth.
#[inline]
pub fn lower_bound_binary<T: Copy + PartialOrd>(heads: &[T], x: T) -> usize {
    let (mut low, mut high) = (0, heads.len());
    while low < high {
        let middle = low + (high - low) / 2;
        if heads[middle] < x {
            // Costs nothing, but keeps the compiler from making conditional moves of this (see
            // above).
            black_box(());
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// The lower bound, known to be at most `high`.
fn gallop_down<T: Copy + PartialOrd>(heads: &[T], x: T, mut high: usize) -> usize {
    let mut step = WALK;
    let low = loop {
        if step > high {
            break 0;
        }
        if heads[high - step] < x {
            break high - step + 1;
        }
        high -= step;
        step *= 2;
    };
    low + lower_bound_binary(&heads[low..high], x)
}

/// The lower bound, known to be at least `low`.
fn gallop_up<T: Copy + PartialOrd>(heads: &[T], x: T, mut low: usize) -> usize {
    let mut step = WALK;
    let high = loop {
        if step > heads.len() - low {
            break heads.len();
        }
        if heads[low + step - 1] >= x {
            break low + step - 1;
        }
        low += step;
        step *= 2;
    };
    low + lower_bound_binary(&heads[low..high], x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_guess_and_error_finds_every_answer_in_small_arrays() {
        for n in 0..60u64 {
            let heads: Vec<u64> = (0..n).map(|i| 10 + i / 3 * 2).collect();
            for x in 8..10 + n + 2 {
                let expected = heads.partition_point(|&head| head < x);
                assert_eq!(lower_bound_binary(&heads, x), expected);
                for guess in (0..=n as usize + 1).chain([usize::MAX]) {
                    for error in [0, 5, usize::MAX] {
                        assert_eq!(lower_bound(&heads, x, guess, error), expected, "{n} {x} {guess} {error}");
                    }
                }
            }
        }
    }
}

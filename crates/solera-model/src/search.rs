//! The last mile: the exact lower bound in a sorted array, from a guess and an error.
//!
//! Must hold: the answer is `partition_point(|head| head < x)`, whatever the guess and the error say; they
//! decide only how long it takes. The window is searched without branches on the keys; if the answer is not
//! in it the search gallops outward from its edge, so that a guess that is off by `d` costs O(log d) more and a
//! wild one about twice a plain binary search.

use std::hint::select_unpredictable;

/// Windows of up to this many heads, one cache line, are counted, not halved.
const COUNTED: usize = 8;

/// The rank of the first head that is not less than `x`; `heads.len()` if there is none. `heads` ascends.
/// Looks first at the ranks from `guess - error` to `guess + error + 1`: where the answer is if `guess`
/// and `error` come from a line and its [`crate::bound::measured_error`].
#[inline]
pub fn lower_bound(heads: &[u64], x: u64, guess: usize, error: usize) -> usize {
    let low = guess.saturating_sub(error).min(heads.len());
    let high = guess.saturating_add(error).saturating_add(1).min(heads.len());
    let at = low + count_less(&heads[low..high], x);
    // Strictly inside the window both neighbours were seen; at an edge the one outside decides.
    if at == low && low > 0 && heads[low - 1] >= x {
        return gallop_down(heads, x, low - 1);
    }
    if at == high && high < heads.len() && heads[high] < x {
        return gallop_up(heads, x, high + 1);
    }
    at
}

/// [`lower_bound`] without a model: the plain twin, and the answer to what a model is worth.
#[inline]
pub fn lower_bound_binary(heads: &[u64], x: u64) -> usize {
    count_less(heads, x)
}

/// How many elements of the sorted `window` are less than `x`.
#[inline]
fn count_less(window: &[u64], x: u64) -> usize {
    count(window, |head| head < x)
}

/// How many elements of the sorted `window` are not greater than `x`.
#[inline]
pub(crate) fn count_not_greater(window: &[u64], x: u64) -> usize {
    count(window, |head| head <= x)
}

/// The partition point of `window`: halves it, by conditional moves, down to a cache line, and counts.
#[inline]
fn count(window: &[u64], before: impl Fn(u64) -> bool) -> usize {
    let (mut base, mut len) = (0, window.len());
    while len > COUNTED {
        let half = len / 2;
        base = select_unpredictable(before(window[base + half - 1]), base + half, base);
        len -= half;
    }
    base + window[base..base + len].iter().map(|&head| usize::from(before(head))).sum::<usize>()
}

/// The lower bound, known to be at most `high`.
#[cold]
fn gallop_down(heads: &[u64], x: u64, mut high: usize) -> usize {
    let mut step = 1;
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
    low + count_less(&heads[low..high], x)
}

/// The lower bound, known to be at least `low`.
#[cold]
fn gallop_up(heads: &[u64], x: u64, mut low: usize) -> usize {
    let mut step = 1;
    let high = loop {
        let Some(probe) = low.checked_add(step - 1).filter(|&probe| probe < heads.len()) else {
            break heads.len();
        };
        if heads[probe] >= x {
            break probe;
        }
        low = probe + 1;
        step *= 2;
    };
    low + count_less(&heads[low..high], x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_guess_and_error_finds_every_answer_in_small_arrays() {
        for n in 0..40u64 {
            let heads: Vec<u64> = (0..n).map(|i| 10 + i / 3 * 2).collect();
            for x in 8..10 + n + 2 {
                let expected = heads.partition_point(|&head| head < x);
                assert_eq!(lower_bound_binary(&heads, x), expected);
                for guess in (0..=n as usize + 1).chain([usize::MAX]) {
                    for error in [0, 1, 2, 5, 17, usize::MAX] {
                        assert_eq!(lower_bound(&heads, x, guess, error), expected, "{n} {x} {guess} {error}");
                    }
                }
            }
        }
    }
}

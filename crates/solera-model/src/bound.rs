//! The error of a line: `measured_error`, the largest distance between a key's rank and the
//! predicted one.
//!
//! It goes over all keys with the arithmetic of `Line::rank`, eight maxima side by side, or by
//! `avx512` where the processor has it.
//!
//! What must hold: it is measured with the arithmetic of the query, so it bounds what a query will
//! see. It does not bound what the real numbers would have given. All instructions round alike.
//!
//! Callers: `dual::fit`; in `solera` `block::build` for its corridor's line, and `block::read` to
//! check a decoded block. In `solera-bench` `paper::training`; the example `segments`.

#[cfg(target_arch = "x86_64")]
use crate::avx512;
use crate::segment::Line;
use std::array;

/// Maxima taken side by side, so that a comparison need not wait for the one before.
const LANES: usize = 8;

/// The largest distance in ranks between any key's own rank and the one that [`Line::rank`]
/// predicts for it, over all keys of `xs`, equal ones each by its own rank; 0 if there are none.
/// `xs` ascends and its first key is the line's anchor.
///
/// This bounds searches for keys that are *not* there too. Such a key lies between neighbours at
/// ranks `r - 1` and `r`; its prediction lies between theirs, because predictions are monotone;
/// hence `r` lies in `[prediction - error, prediction + error + 1]`.
pub fn measured_error(line: Line, xs: &[u64]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if avx512::is_there() {
        // SAFETY: the processor has what the function is compiled for.
        return unsafe { avx512::error_of(line, xs) } as u32;
    }
    measured_error_plain(line, xs)
}

/// [`measured_error`] in plain instructions.
pub(crate) fn measured_error_plain(line: Line, xs: &[u64]) -> u32 {
    let Some(&x0) = xs.first() else { return 0 };
    let last = (xs.len() - 1) as f64;
    // As floating-point numbers, which these integers are exactly and which vectors compare.
    let mut worst = [0.0; LANES];
    let mut ranks: [f64; LANES] = array::from_fn(|lane| lane as f64);
    let (whole, rest) = xs.as_chunks::<LANES>();
    for xs in whole {
        for lane in 0..LANES {
            let error = (line.float_rank(x0, xs[lane], last) - ranks[lane]).abs();
            worst[lane] = if error > worst[lane] { error } else { worst[lane] };
        }
        for rank in &mut ranks {
            *rank += LANES as f64;
        }
    }
    for (lane, &x) in rest.iter().enumerate() {
        let error = (line.float_rank(x0, x, last) - ranks[lane]).abs();
        worst[lane] = if error > worst[lane] { error } else { worst[lane] };
    }
    // A cast of what 32 bits do not hold is their largest number.
    worst.into_iter().fold(0.0, f64::max) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_that_of_the_ranks_that_a_query_computes() {
        let mut x = 7u64;
        for n in [1, 2, 5, 56, 1000] {
            for shift in [0, 20, 40, 60] {
                let mut xs: Vec<u64> = (0..n)
                    .map(|_| {
                        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                        x >> shift
                    })
                    .collect();
                xs.sort_unstable();
                let line = crate::pra::least_squares(&xs);
                for line in [line, Line::new(line.slope() * 1.5, -3.3).unwrap(), Line::FLAT] {
                    let errors = xs.iter().enumerate().map(|(i, &x)| i.abs_diff(line.rank(xs[0], x, n)));
                    assert_eq!(measured_error(line, &xs) as usize, errors.max().unwrap());
                }
            }
        }
    }

    #[test]
    fn equal_keys_count_each_by_its_own_rank() {
        assert_eq!(measured_error(Line::FLAT, &[]), 0);
        assert_eq!(measured_error(Line::FLAT, &[9]), 0);
        assert_eq!(measured_error(Line::FLAT, &[9; 5]), 4);
        assert_eq!(measured_error(Line::new(0.0, 2.0).unwrap(), &[9; 5]), 2);
    }
}

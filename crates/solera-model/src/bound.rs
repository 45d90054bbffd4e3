//! The error of a line, measured with the arithmetic of the query, so that it bounds what a query will see
//! and not what the real numbers would have given.

use crate::segment::Line;

/// The largest distance in ranks between any key's own rank and the one that [`Line::rank`] predicts for it,
/// over all keys of `xs`, equal ones each by its own rank; 0 if there are none. `xs` ascends and its first
/// key is the line's anchor.
///
/// This bounds searches for keys that are *not* there too. Such a key lies between neighbours at ranks
/// `r - 1` and `r`; its prediction lies between theirs, because predictions are monotone; hence
/// `r` lies in `[prediction - error, prediction + error + 1]`.
pub fn measured_error(line: Line, xs: &[u64]) -> u32 {
    let Some(&x0) = xs.first() else { return 0 };
    let error = xs.iter().enumerate().map(|(rank, &x)| rank.abs_diff(line.rank(x0, x, xs.len()))).max();
    u32::try_from(error.unwrap_or(0)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_count_each_by_its_own_rank() {
        assert_eq!(measured_error(Line::FLAT, &[]), 0);
        assert_eq!(measured_error(Line::FLAT, &[9]), 0);
        assert_eq!(measured_error(Line::FLAT, &[9; 5]), 4);
        assert_eq!(measured_error(Line::new(0.0, 2.0).unwrap(), &[9; 5]), 2);
    }
}

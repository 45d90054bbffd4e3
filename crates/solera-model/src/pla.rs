//! The greedy anchored corridor: `Corridor`, all lines that start at a block's first key and pass
//! each later key within ε ranks.
//!
//! `admits` asks and `push` narrows it, in O(1) time and space; `line` takes the middle. It serves
//! DobLIX's Algorithm 1 as corrected in docs/PAPERS.md, "DobLIX: corrections" (rows 5 and 6). The
//! anchor is the block's own first key, so the line that is stored is the one that was tested.
//!
//! What must hold: keys ascend. A key is admitted when some line passes it and all before it,
//! whether its own chord lies in the cone or not. An error of exactly ε is accepted. A refused key
//! leaves the corridor as it was.
//!
//! Callers: `dual`, `block::build` in `solera`, and `paper::training` in `solera-bench`.

use crate::segment::Line;

/// The corridor of a block under construction. Keys come in ascending order (equal ones allowed).
#[derive(Clone, Debug)]
pub struct Corridor {
    anchor: u64,
    epsilon: f64,
    slope_min: f64,
    slope_max: f64,
}

impl Corridor {
    /// The corridor of the block whose first key is `x0`, at rank 0.
    pub fn new(x0: u64, epsilon: u32) -> Self {
        Corridor { anchor: x0, epsilon: epsilon.into(), slope_min: 0.0, slope_max: f64::INFINITY }
    }

    /// Whether some line passes all keys pushed and, within ε, also `x` at `rank`.
    #[inline]
    pub fn admits(&self, x: u64, rank: usize) -> bool {
        self.narrowed(x, rank).is_some()
    }

    /// Narrows the corridor by a key. Returns whether it was admitted; a key that is not leaves the
    /// corridor as it was.
    #[inline]
    pub fn push(&mut self, x: u64, rank: usize) -> bool {
        let Some((slope_min, slope_max)) = self.narrowed(x, rank) else { return false };
        (self.slope_min, self.slope_max) = (slope_min, slope_max);
        true
    }

    /// The slope in the middle of the corridor, in ranks per unit of key; 0 while all keys are
    /// equal.
    pub fn slope(&self) -> f64 {
        if self.slope_max.is_finite() {
            self.slope_min + (self.slope_max - self.slope_min) / 2.0
        } else {
            0.0
        }
    }

    /// The line through the anchor with that slope.
    pub fn line(&self) -> Line {
        // Finite: every bound is a rank divided by at least 1.
        Line::new(self.slope(), 0.0).unwrap_or(Line::FLAT)
    }

    #[inline]
    fn narrowed(&self, x: u64, rank: usize) -> Option<(f64, f64)> {
        debug_assert!(x >= self.anchor, "keys come in ascending order");
        let dx = x.saturating_sub(self.anchor) as f64;
        let rank = rank as f64;
        if dx == 0.0 {
            return (rank <= self.epsilon).then_some((self.slope_min, self.slope_max));
        }
        let slope_min = self.slope_min.max((rank - self.epsilon) / dx);
        let slope_max = self.slope_max.min((rank + self.epsilon) / dx);
        (slope_min <= slope_max).then_some((slope_min, slope_max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_on_a_line_are_admitted_forever_even_with_no_tolerance() {
        let mut corridor = Corridor::new(1 << 60, 0);
        for rank in 1..10_000 {
            assert!(corridor.push((1 << 60) + 8 * rank as u64, rank));
        }
        assert_eq!(corridor.slope(), 0.125);
    }

    #[test]
    fn an_error_of_exactly_epsilon_is_accepted_and_one_more_is_not() {
        // All keys equal: the line predicts rank 0 for each of them.
        let mut corridor = Corridor::new(7, 3);
        for rank in 1..=3 {
            assert!(corridor.push(7, rank));
        }
        assert!(!corridor.admits(7, 4));
    }

    #[test]
    fn a_refused_key_leaves_the_corridor_as_it_was() {
        let mut corridor = Corridor::new(0, 1);
        for rank in 1..=10 {
            assert!(corridor.push(10 * rank as u64, rank));
        }
        let slope = corridor.slope();
        assert!(!corridor.push(1_000_000, 11));
        assert_eq!(corridor.slope(), slope);
        assert!(corridor.push(110, 11));
    }
}

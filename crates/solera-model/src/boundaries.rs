//! Solera's own index: how many of many sorted numbers are not above a key, from two bytes each.
//!
//! Owns [`Boundaries`]. A union of model and search (docs/decisions/0007): *segments* are found through a tiny
//! [S-tree](crate::stree) of their first boundaries, which are exact. Within a segment a line says where a
//! boundary should be, and a 16-bit *code* where it is relative to that. A query takes the 16 codes around
//! its own place on the line, half a cache line, and compares them at once.
//!
//! Codes are positions on the segment's line in steps of 1/4096 of a boundary, less 4096 for each boundary
//! before (a long segment, found by the [hull](crate::hull)), or positions in 65,536 steps over the whole segment (a short one,
//! of up to 16 boundaries). A boundary is rounded down to its step; keys between the two are *ambiguous*: that
//! boundary is counted for them though they lie below it.
//!
//! What must hold:
//! * Codes ascend strictly within a segment, so an answer is too high by one at most, and never too low.
//! * Of the keys between two boundaries, if they are spread evenly, no more than [`AMBIGUITY_MAX`] are
//!   ambiguous. Where a line cannot give that, the segment ends.
//! * Both are measured at build with the function that queries use.

use crate::{
    hull::Hull,
    lanes::{self, CODES, Lanes},
    stree::STree,
};

/// The largest part of the keys between two neighbouring boundaries that may be ambiguous.
pub const AMBIGUITY_MAX: f64 = 1.0 / 1024.0;

/// Steps of a code to a boundary, in a long segment.
const STEP: i64 = 4096;
/// How far a boundary of a long segment may lie from its line, in boundaries: half of what 16 codes allow, less one for
/// rounding and one for the fraction of the query's place.
const EPSILON: u32 = 6;
/// Largest code, as positive and negative number: one boundary more than ε.
const CODE_MAX: i64 = (EPSILON as i64 + 1) * STEP;
/// Codes before the query's place in its window.
const BEFORE: i64 = EPSILON as i64 + 1;
/// Steps of a short segment.
const SHORT_STEPS: i64 = 1 << 16;
/// A centre counts in these parts of a boundary.
const CENTRE: i64 = STEP / 8;
/// Fits of one segment, each of fewer boundaries, before it is made a short one.
const FITS_MAX: usize = 12;

/// Where in the codes and how steep.
#[derive(Clone, Copy, Debug)]
struct Segment {
    /// Boundaries up to and with the first of the segment.
    rank: u32,
    /// Where its codes begin. They end where those of the next segment begin.
    codes: u32,
    line: Line,
}

/// Steps per unit of key, as a fraction: `factor / 2^shift`; and how far the line lies off the first boundary.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Line {
    factor: u16,
    shift: u8,
    centre: i8,
}

impl Line {
    /// The line of this slope, in steps per unit of key, and this place at the first boundary, in steps.
    fn new(slope: f64, at_first: f64) -> Line {
        let mut shift = 0u8;
        let mut factor = slope;
        while factor < 32_768.0 && shift < 127 {
            factor *= 2.0;
            shift += 1;
        }
        let centre = (at_first / CENTRE as f64).round().clamp(-127.0, 127.0);
        Line { factor: factor.min(65_535.0) as u16, shift, centre: centre as i8 }
    }

    /// Steps from the first boundary to a key that is `dx` above it. Monotone.
    #[inline]
    fn steps(self, dx: u64) -> i64 {
        let product = (u128::from(dx) * u128::from(self.factor)) >> self.shift;
        // A key behind the segment's last boundary can be very far.
        (product as u64).min(i64::MAX as u64 / 2) as i64
    }

    /// The least `dx` that is so many steps from the first boundary; `None` beyond all keys.
    fn least_with(self, steps: i64) -> Option<u64> {
        let product = (steps as u128) << self.shift;
        u64::try_from(product.div_ceil(self.factor.max(1).into())).ok()
    }
}

/// How often a code stands for how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    Short,
    Long,
}

/// What a query came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// How many boundaries are not above the key, or one more.
    pub rank: usize,
    /// The number of the segment whose first boundary is the key itself; its rank is exact then.
    pub start: Option<usize>,
}

/// Sorted numbers, to be counted.
#[derive(Clone, Debug)]
pub struct Boundaries {
    starts: STree,
    segments: Box<[Segment]>,
    /// Codes of all segments, and 16 more that no segment has, for the last windows.
    codes: Box<[i16]>,
    len: usize,
    lanes: Lanes,
    ambiguity: f32,
}

impl Boundaries {
    /// `keys` ascend; equal ones are allowed. What is `pinned`, by rank, becomes the first boundary of a
    /// segment, and so do equal ones, together.
    pub fn new(keys: &[u64], pinned: impl Fn(usize) -> bool) -> Boundaries {
        Boundaries::with_lanes(keys, pinned, Lanes::detect())
    }

    /// [`Boundaries::new`] with instructions of one's choice.
    ///
    /// # Panics
    /// If the processor does not have them, or there are more keys than 31 bits count.
    pub fn with_lanes(keys: &[u64], pinned: impl Fn(usize) -> bool, lanes: Lanes) -> Boundaries {
        debug_assert!(keys.is_sorted());
        assert!(keys.len() <= i32::MAX as usize, "boundaries are counted in 31 bits");
        let mut builder =
            Builder { keys, starts: Vec::new(), segments: Vec::new(), codes: Vec::new(), ambiguity: 0.0 };
        let must_start =
            |i: usize| pinned(i) || keys.get(i + 1) == Some(&keys[i]) || (i > 0 && keys[i - 1] == keys[i]);
        let mut at = 0;
        while at < keys.len() {
            let same = keys[at..].iter().take_while(|&&key| key == keys[at]).count();
            let first = at + same;
            let limit = (first..keys.len()).find(|&i| must_start(i)).unwrap_or(keys.len());
            at = builder.segment(first, limit);
        }
        let Builder { starts, segments, mut codes, ambiguity, .. } = builder;
        codes.extend([i16::MAX; CODES]);
        Boundaries {
            starts: STree::with_lanes(&starts, lanes),
            segments: segments.into(),
            codes: codes.into(),
            len: keys.len(),
            lanes,
            ambiguity: (ambiguity / keys.len().max(1) as f64) as f32,
        }
    }

    /// Where `x` is among the boundaries.
    #[inline]
    pub fn place(&self, x: u64) -> Place {
        let Some(number) = self.starts.up_to(x).checked_sub(1) else { return Place { rank: 0, start: None } };
        let segment = self.segments[number];
        let dx = x - self.starts.get(number);
        if dx == 0 {
            return Place { rank: segment.rank as usize, start: Some(number) };
        }
        let end = match self.segments.get(number + 1) {
            Some(next) => next.codes as usize,
            None => self.codes.len() - CODES,
        };
        let count = end - segment.codes as usize;
        let steps = segment.line.steps(dx);
        let (from, limit, scale) = if count <= CODES {
            (0, (steps.min(SHORT_STEPS - 1) - SHORT_STEPS / 2) as i16, Scale::Short)
        } else {
            let steps = steps - i64::from(segment.line.centre) * CENTRE;
            let from = (steps.div_euclid(STEP) - BEFORE).max(0);
            if from >= count as i64 {
                return Place { rank: segment.rank as usize + count, start: None };
            }
            // Less than 8 boundaries; at least minus a centre.
            (from as usize, (steps - from * STEP) as i16, Scale::Long)
        };
        let at = segment.codes as usize + from;
        let window = self.codes[at..].first_chunk().expect("16 codes follow those of the last segment");
        let valid = u32::MAX >> (32 - (count - from).clamp(1, CODES));
        let below = if count == 0 { 0 } else { self.compare(window, limit, scale) & valid };
        Place { rank: segment.rank as usize + from + below.count_ones() as usize, start: None }
    }

    #[inline]
    fn compare(&self, window: &[i16; CODES], limit: i16, scale: Scale) -> u32 {
        let step = if scale == Scale::Long { STEP as i16 } else { 0 };
        match self.lanes {
            Lanes::Scalar => lanes::below_line_scalar(window, limit, step),
            // SAFETY: boundaries are made with instructions that the processor has: their S-tree of starts, made with
            // the same, asserts it.
            #[cfg(target_arch = "x86_64")]
            Lanes::Avx2 | Lanes::Avx512 => unsafe { lanes::x86::below_line_avx2(window, limit, step) },
            // SAFETY: as above.
            #[cfg(target_arch = "aarch64")]
            Lanes::Neon => unsafe { lanes::arm::below_line_neon(window, limit, step) },
        }
    }

    /// Boundaries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Segments.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// The part of all keys that are ambiguous, if keys between two boundaries are spread evenly.
    pub fn ambiguity(&self) -> f64 {
        self.ambiguity.into()
    }

    /// Cache lines that a query touches: the tree's, the segment's, and those of its window.
    pub fn lines(&self) -> f64 {
        // A window of half a line begins at any code.
        self.starts.lines() as f64 + 1.0 + 1.0 + (CODES - 1) as f64 / 32.0
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        self.starts.bytes() + size_of_val(&*self.segments) + size_of_val(&*self.codes)
    }
}

struct Builder<'k> {
    keys: &'k [u64],
    starts: Vec<u64>,
    segments: Vec<Segment>,
    codes: Vec<i16>,
    /// Sum over the coded boundaries of the part of the keys below each that is ambiguous.
    ambiguity: f64,
}

impl Builder<'_> {
    /// Adds the segment whose first boundary is that before rank `first`. It takes boundaries up to rank
    /// `limit` if it can; returns up to which it does.
    fn segment(&mut self, first: usize, limit: usize) -> usize {
        let (line, codes) = self.long(first, limit).unwrap_or_else(|| self.short(first, limit));
        self.starts.push(self.keys[first - 1]);
        self.segments.push(Segment { rank: first as u32, codes: self.codes.len() as u32, line });
        self.codes.extend(&codes);
        let end = first + codes.len();
        self.ambiguity += (first..end).map(|i| self.ambiguous(line, self.keys[first - 1], i)).sum::<f64>();
        end
    }

    /// A long segment, if there is one of more than 16 codes.
    fn long(&self, first: usize, limit: usize) -> Option<(Line, Vec<i16>)> {
        let start = self.keys[first - 1];
        let mut limit = limit;
        for _ in 0..FITS_MAX {
            if limit - first <= CODES {
                return None;
            }
            let mut hull = Hull::new(EPSILON);
            hull.push(start, 0);
            let fits =
                (first..limit).take_while(|&i| hull.push(self.keys[i], (i - first) as u32 + 1)).count();
            let (slope, at_first) = hull.line();
            // The first code stands at 0, one boundary behind the segment's first one.
            let line = Line::new(slope * STEP as f64, (1.0 - at_first) * STEP as f64);
            let codes = self.codes(line, Scale::Long, first, first + fits);
            if codes.len() == fits && fits > CODES {
                return Some((line, codes));
            }
            // The line that fits fewer boundaries has another slope, and may be bad at others.
            limit = first + codes.len();
        }
        None
    }

    /// The longest short segment.
    fn short(&self, first: usize, limit: usize) -> (Line, Vec<i16>) {
        let limit = limit.min(first + CODES);
        let start = self.keys[first - 1];
        let of = |count: usize| -> Option<(Line, Vec<i16>)> {
            let span = self.keys[first + count - 1] - start;
            let line = Line::new((SHORT_STEPS - 1) as f64 / span as f64, 0.0);
            let codes = self.codes(line, Scale::Short, first, first + count);
            (codes.len() == count).then_some((line, codes))
        };
        // Steps get coarser with every boundary more.
        let (mut low, mut high, mut best) = (1, limit - first, (Line::default(), Vec::new()));
        while low <= high {
            let middle = low.midpoint(high);
            match of(middle) {
                Some(found) => (best, low) = (found, middle + 1),
                None => high = middle - 1,
            }
        }
        best
    }

    /// The codes of the boundaries from rank `first` up to `end`; up to the first that `line` does not tell
    /// well enough from its neighbours.
    fn codes(&self, line: Line, scale: Scale, first: usize, end: usize) -> Vec<i16> {
        let mut codes = Vec::with_capacity(end - first);
        let mut before = 0;
        for i in first..end {
            let start = self.keys[first - 1];
            let steps = line.steps(self.keys[i] - start);
            let code = match scale {
                Scale::Short => steps - SHORT_STEPS / 2,
                Scale::Long => steps - i64::from(line.centre) * CENTRE - (i - first) as i64 * STEP,
            };
            let legal = match scale {
                Scale::Short => steps < SHORT_STEPS,
                Scale::Long => (-CODE_MAX..=CODE_MAX).contains(&code),
            };
            if !legal || steps <= before || self.ambiguous(line, start, i) > AMBIGUITY_MAX {
                break;
            }
            before = steps;
            codes.push(code as i16);
        }
        codes
    }

    /// The part of the keys between boundary `i` and the one before it that have the steps of boundary `i`, in
    /// the segment that begins at `start`.
    ///
    /// Steps are rounded down, so that the ambiguous keys are those right below the boundary. The key right above
    /// it is mostly very close, since a separator is a beginning of it; the one below is not.
    fn ambiguous(&self, line: Line, start: u64, i: usize) -> f64 {
        let dx = self.keys[i] - start;
        // There are keys with the boundary's steps: the boundary itself.
        let ambiguous = dx - line.least_with(line.steps(dx)).unwrap_or(dx).min(dx);
        ambiguous as f64 / (self.keys[i] - self.keys[i - 1]) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "minutes under Miri, and the properties do what it does")]
    fn smooth_boundaries_take_two_bytes_and_one_segment() {
        let keys: Vec<u64> = (0..4000u64).map(|i| (i << 40) + ((i * 7919 % 1000) << 28)).collect();
        let boundaries = Boundaries::new(&keys, |_| false);
        assert_eq!(boundaries.segments(), 1);
        assert!(boundaries.bytes() < 2 * keys.len() + 300, "{}", boundaries.bytes());
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes under Miri, and the properties do what it does")]
    fn a_dense_cluster_in_wide_gaps_gets_segments_of_its_own() {
        let keys: Vec<u64> =
            (0..3000u64).map(|i| if i < 2000 { i << 45 } else { (2000 << 45) + 4 * i }).collect();
        let boundaries = Boundaries::new(&keys, |_| false);
        assert!((2..8).contains(&boundaries.segments()), "{}", boundaries.segments());
        for (rank, &key) in keys.iter().enumerate() {
            assert_eq!(boundaries.place(key).rank, rank + 1);
            if rank > 2001 {
                assert_eq!(
                    boundaries.place(key - 1).rank,
                    rank,
                    "as dense as keys can be, and still told apart"
                );
            }
        }
    }

    #[test]
    fn pinned_and_equal_boundaries_are_exact() {
        let keys = [10, 20, 20, 20, 30, 40, 50];
        let boundaries = Boundaries::new(&keys, |i| i == 5);
        for (x, rank, start) in [(9, 0, None), (10, 1, Some(0)), (20, 4, Some(1)), (40, 6, Some(2))] {
            assert_eq!(boundaries.place(x), Place { rank, start });
        }
        assert_eq!(boundaries.place(u64::MAX).rank, 7);
    }
}

//! Solera's own index: `Boundaries`, how many of many sorted numbers are not above a key. Most take
//! 11, 13, 17 or 24 bits each.
//!
//! It is a union of model and search (docs/decisions/0007). Segments are found by an S-tree of
//! their exact first boundaries. Within one, a line says where a boundary should be, and a code
//! where it is relative to that. A query (`place`) compares the 16 codes around its place at once.
//! `above` builds with knowledge of what is looked for below each boundary (`Below`), so less of
//! that goes astray.
//! What must hold: `place` is too high by one at most, and never too low; how often is bounded and
//! measured (`ambiguity`). `above` sends no more astray than its caller allows, 0 included.
//! Boundaries from untrusted bytes never panic, nor say more than their count; they promise no
//! more.
//! Callers: `index::learned::{nodes, clusters}` in `solera` (`index` takes `LEN_MAX`); the examples
//! `blocks` and `compare`.

mod builder;
mod group;
mod query;
mod stored;

use self::{
    builder::{Builder, Coded},
    group::Width,
    query::{PlaceOf, RoundedOf},
};
use crate::{
    lanes::{CODES, GROUP_STEP, Lanes, WIDE_WORDS, group_words},
    stree::STree,
};
use std::fmt;

/// Most boundaries of one index.
pub const LEN_MAX: usize = (1 << 25) - 1;
/// How much of the way from a boundary to the nearer of its neighbours may be ambiguous, but for
/// codes of 10 bits.
pub const AMBIGUITY_MAX: f64 = 1.0 / 1024.0;
/// The same for codes of 10 bits.
pub const AMBIGUITY_MAX_OF_TEN: f64 = 1.0 / 256.0;
/// How much of that way may be ambiguous on average over a segment with codes of 10 bits, if
/// nothing else is said; else it has 12.
pub const AMBIGUITY_MEAN_MAX: f64 = 1.0 / 1536.0;

/// Words of a group with codes of 10 bits, and of 12.
const TEN_WORDS: usize = group_words(10);
const TWELVE_WORDS: usize = group_words(12);
/// Units of a deviation to a boundary.
const STEP: i64 = GROUP_STEP as i64;
/// How far a boundary of a long segment may lie from its line, in boundaries: less by two than a
/// group's base reaches.
const EPSILON: u32 = 6;
/// Steps of a short segment, and of a fine one.
const SHORT_STEPS: i64 = 1 << 16;
const FINE_STEPS: i64 = 1 << 24;
/// Bits of a line's factor.
const FACTOR_BITS: i32 = 16;
/// A centre counts in these parts of a boundary.
const CENTRE: i64 = STEP / 8;

/// Where in the codes and how steep.
#[derive(Clone, Copy, Debug)]
struct Segment {
    /// Boundaries up to and with the first of the segment.
    rank: u32,
    /// Where its words begin, above 6 bits: two for its form, the others how many codes the last
    /// group of a long one has beyond full ones. Of positions they say whether these are fine.
    /// Words end where those of the next segment begin.
    codes: u32,
    line: Line,
}

/// What a segment of fine positions has in place of how many codes its last group has.
const FINE: usize = 1;

/// What the codes of a segment are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Positions of 16 bits.
    Short,
    /// Positions of 24 bits: the upper 16 of each, a word each, then the lower 8, two in a word.
    Fine,
    /// Groups.
    Long(Width),
}

impl Form {
    /// Steps of a segment of positions.
    fn steps(self) -> i64 {
        if self == Form::Fine { FINE_STEPS } else { SHORT_STEPS }
    }

    /// How much of the way from a boundary to the nearer of its neighbours may be ambiguous.
    fn ambiguity_max(self) -> f64 {
        if self == Form::Long(Width::Ten) { AMBIGUITY_MAX_OF_TEN } else { AMBIGUITY_MAX }
    }
}

impl Segment {
    fn new(rank: usize, words_at: usize, coded: &Coded) -> Segment {
        let (form, rest) = match coded.form {
            Form::Short => (0, 0),
            Form::Fine => (0, FINE),
            Form::Long(Width::Twelve) => (1, coded.count % CODES),
            Form::Long(Width::Sixteen) => (2, coded.count % CODES),
            Form::Long(Width::Ten) => (3, coded.count % CODES),
        };
        let codes = (words_at << 6) | (form << 4) | rest;
        Segment { rank: rank as u32, codes: codes as u32, line: coded.line }
    }

    #[inline]
    fn words_at(self) -> usize {
        (self.codes >> 6) as usize
    }

    #[inline]
    fn form(self) -> Form {
        match (self.codes >> 4) & 3 {
            0 if self.rest() == 0 => Form::Short,
            0 => Form::Fine,
            1 => Form::Long(Width::Twelve),
            2 => Form::Long(Width::Sixteen),
            _ => Form::Long(Width::Ten),
        }
    }

    /// How many codes the last group has beyond full ones.
    #[inline]
    fn rest(self) -> usize {
        self.codes as usize % CODES
    }

    /// Words of so many codes beyond full groups, which have `group` words each.
    #[inline]
    fn words_of_rest(rest: usize, group: usize) -> usize {
        if rest > 0 { 1 + (rest * (group - 1)).div_ceil(CODES) } else { 0 }
    }
}

/// Steps per unit of key, as a fraction: `factor / 2^shift`; and how far the line lies off the
/// first boundary.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Line {
    factor: u16,
    shift: u8,
    centre: i8,
}

impl Line {
    /// The line of this slope, in steps per unit of key, and this place at the first boundary, in
    /// steps.
    fn new(slope: f64, at_first: f64) -> Line {
        // As often doubled as brings it to 2^15: a number of f64 is at least 2 to its exponent.
        let exponent = (slope.to_bits() >> (f64::MANTISSA_DIGITS - 1)) as i32 - (f64::MAX_EXP - 1);
        let shift = (FACTOR_BITS - 1 - exponent).clamp(0, 127);
        let factor = slope * f64::from(shift).exp2();
        let centre = (at_first / CENTRE as f64).round().clamp(-127.0, 127.0);
        Line { factor: factor.min(65_535.0) as u16, shift: shift as u8, centre: centre as i8 }
    }

    /// Steps from the first boundary to a key that is `dx` above it. Monotone.
    #[inline]
    fn steps(self, dx: u64) -> i64 {
        let product = (u128::from(dx) * u128::from(self.factor)) >> self.shift;
        // A key behind the segment's last boundary can be very far: further than 64 bits count.
        product.min(i64::MAX as u128 / 2) as i64
    }

    /// The least `dx` that is so many steps from the first boundary; `None` beyond all keys.
    fn least_with(self, steps: i64) -> Option<u64> {
        let product = (steps as u128) << self.shift;
        divided(product, self.factor.max(1))
    }
}

/// `product / by`, rounded up, `by` at least 1; `None` if it has more than 64 bits. It takes a
/// division of 64 bits and one of 32: one of 128 is a call.
#[inline]
fn divided(product: u128, by: u16) -> Option<u64> {
    let (high, low, by) = ((product >> 64) as u64, product as u64, u64::from(by));
    if high >= by {
        return None;
    }
    // The upper part has at most as many bits as `by` and 48, what is left of it as many as `by`.
    let upper = high << 48 | low >> 16;
    let (lower, by_short) = (((upper % by) as u32) << 16 | (low & 0xffff) as u32, by as u32);
    let quotient = ((upper / by) << 16) | u64::from(lower / by_short);
    if lower % by_short == 0 { Some(quotient) } else { quotient.checked_add(1) }
}

/// What a query came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// How many boundaries are not above the key, or one more.
    pub rank: usize,
    /// The number of the segment whose first boundary is the key itself; its rank is exact then.
    pub start: Option<usize>,
    /// How far it is from the boundary before it to the one behind it, in 256ths, about; `None`
    /// where that is not known. Nothing depends on it.
    pub within: Option<u8>,
}

/// What is looked for below boundaries, for [`Boundaries::above`].
#[derive(Clone, Copy)]
pub struct Below<'b> {
    /// Of each boundary the largest number that is looked for below it.
    pub last: &'b [u64],
    /// How many of what is looked for below the boundary of this rank are not below this number.
    /// `None` if they must not be counted one boundary too many. Asked of few boundaries.
    pub from: &'b dyn Fn(usize, u64) -> Option<usize>,
    /// So many may be counted too high for each boundary on average, at most. 0: none is.
    pub missed_max: f64,
}

impl fmt::Debug for Below<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Below").field("missed_max", &self.missed_max).finish_non_exhaustive()
    }
}

impl<'b> Below<'b> {
    /// None of these numbers, or of those below, is ever counted one boundary too many.
    pub fn all(last: &'b [u64]) -> Below<'b> {
        Below { last, from: &|_, _| None, missed_max: 0.0 }
    }
}

/// Sorted numbers, to be counted.
///
/// In a long segment, found by the [hull](crate::hull), boundaries lie in groups of 16 (`group`): a
/// code of 10, 12 or 16 bits says how far one is off the line, relative to its group. A short one,
/// of up to 16 boundaries, has codes of 16 bits: positions in 65,536 steps over the whole segment.
/// A fine one has positions of 24 bits, in 2^24 steps.
/// A boundary is rounded down to its step; keys between the two are *ambiguous*: that boundary is
/// counted for them though they lie below it.
///
/// What must hold:
/// * Rounded boundaries ascend strictly within a segment, and none is rounded as far as to the one
///   before it: an answer is too high by one at most, and never too low.
/// * What is ambiguous below a boundary is no more than [`AMBIGUITY_MAX`] of the way to the nearer
///   of its neighbours. Where a line cannot give that, the segment ends. Codes of 10 bits have
///   limits of their own: [`AMBIGUITY_MAX_OF_TEN`], and [`AMBIGUITY_MEAN_MAX`] on average.
/// * Where it is known what is looked for below each boundary ([`Boundaries::above`]), none of that
///   is ambiguous, or no more than is allowed: a boundary is a gap then, and its code lies
///   somewhere in it.
/// * All that is measured at build with the function that queries use.
/// * Boundaries that come from bytes (`stored`) promise less: no query panics, and no rank is above
///   their count.
#[derive(Clone, Debug)]
pub struct Boundaries {
    starts: STree,
    segments: Box<[Segment]>,
    /// Codes of all segments, and as many more that no segment has as the largest group, so that
    /// one can be looked at anywhere.
    words: Box<[u16]>,
    len: usize,
    lanes: Lanes,
    ambiguity: f32,
}

impl Boundaries {
    /// `keys` ascend; equal ones are allowed. What is `pinned`, by rank, becomes the first boundary
    /// of a segment, and so do equal ones, together.
    ///
    /// # Panics
    /// If there are more than [`LEN_MAX`] keys.
    pub fn new(keys: &[u64], pinned: impl Fn(usize) -> bool) -> Boundaries {
        Boundaries::with_ambiguity(AMBIGUITY_MEAN_MAX, keys, pinned)
    }

    /// [`Boundaries::new`] with another limit than [`AMBIGUITY_MEAN_MAX`]: the less, the fewer
    /// answers are too high, and the fewer codes have 10 bits.
    ///
    /// # Panics
    /// If there are more than [`LEN_MAX`] keys.
    pub fn with_ambiguity(mean_max: f64, keys: &[u64], pinned: impl Fn(usize) -> bool) -> Boundaries {
        Boundaries::build(mean_max, keys, None, pinned, Lanes::detect()).0
    }

    /// [`Boundaries::new`] where it is known what is looked for [below](Below) each boundary. A
    /// boundary is then no number but a gap, anywhere in which its code may lie: the wider gaps
    /// are, the fewer bits codes need.
    ///
    /// A boundary that is not above what is looked for below it must be `pinned`, or be equal to
    /// one beside it, unless [`Below::from`] counts what is not below the boundary.
    ///
    /// ```
    /// use solera_model::boundaries::{Below, Boundaries};
    ///
    /// // Sorted numbers in blocks of 40: runs of a hundred, far from each other.
    /// let keys: Vec<u64> = (0..4000).map(|i| (i / 100) << 32 | 3 * (i % 100)).collect();
    /// let blocks: Vec<&[u64]> = keys.chunks(40).collect();
    /// let firsts: Vec<u64> = blocks[1..].iter().map(|block| block[0]).collect();
    /// let last: Vec<u64> = blocks[..firsts.len()].iter().map(|block| block[39]).collect();
    ///
    /// let boundaries = Boundaries::above(Below::all(&last), &firsts, |_| false);
    /// for (block, keys) in blocks.iter().enumerate() {
    ///     assert!(keys.iter().all(|&key| boundaries.place(key).rank == block));
    /// }
    /// ```
    ///
    /// # Panics
    /// If there are more than [`LEN_MAX`] keys, or `below` is not of as many boundaries.
    pub fn above(below: Below<'_>, keys: &[u64], pinned: impl Fn(usize) -> bool) -> Boundaries {
        Boundaries::above_missed(below, keys, pinned).0
    }

    /// [`Boundaries::above`]; and the ranks of the boundaries that are counted for something that
    /// is looked for below them, ascending. [`Below::all`] has none.
    ///
    /// # Panics
    /// As [`Boundaries::above`].
    pub fn above_missed(
        below: Below<'_>,
        keys: &[u64],
        pinned: impl Fn(usize) -> bool,
    ) -> (Boundaries, Vec<u32>) {
        assert!(below.last.len() == keys.len(), "what is looked for below each boundary");
        Boundaries::build(AMBIGUITY_MEAN_MAX, keys, Some(below), pinned, Lanes::detect())
    }

    /// [`Boundaries::new`] with instructions of one's choice.
    ///
    /// # Panics
    /// If the processor does not have them, or there are more than [`LEN_MAX`] keys.
    pub fn with_lanes(keys: &[u64], pinned: impl Fn(usize) -> bool, lanes: Lanes) -> Boundaries {
        Boundaries::build(AMBIGUITY_MEAN_MAX, keys, None, pinned, lanes).0
    }

    fn build(
        mean_max: f64,
        keys: &[u64],
        below: Option<Below<'_>>,
        pinned: impl Fn(usize) -> bool,
        lanes: Lanes,
    ) -> (Boundaries, Vec<u32>) {
        debug_assert!(keys.is_sorted());
        assert!(keys.len() <= LEN_MAX, "boundaries are counted in 25 bits");
        let Builder { starts, segments, mut words, ambiguity, missed, .. } =
            Builder::cut(keys, below, pinned, mean_max);
        words.extend([u16::MAX; WIDE_WORDS]);
        let boundaries = Boundaries {
            starts: STree::with_lanes(&starts, lanes),
            segments: segments.into(),
            words: words.into(),
            len: keys.len(),
            lanes,
            ambiguity: (ambiguity / keys.len().max(1) as f64) as f32,
        };
        (boundaries, missed)
    }

    /// Where `x` is among the boundaries.
    #[inline]
    pub fn place(&self, x: u64) -> Place {
        self.place_early(x, |_| {})
    }

    /// [`Boundaries::place`]; `early` is told, before codes are read, a rank that is at most 8 away
    /// from the answer: the middle of a short segment, or of a long one what its line says. A
    /// caller that goes on with what lies at that rank can ask for it meanwhile.
    #[inline]
    pub fn place_early(&self, x: u64, early: impl Fn(usize)) -> Place {
        self.placed::<true>(x, early)
    }

    /// [`Boundaries::place_early`] without [`Place::within`]: to work that out takes as long as a
    /// third of the rest.
    #[inline]
    pub fn place_unmeasured(&self, x: u64, early: impl Fn(usize)) -> Place {
        self.placed::<false>(x, early)
    }

    #[inline(always)]
    fn placed<const MEASURED: bool>(&self, x: u64, early: impl Fn(usize)) -> Place {
        // SAFETY: boundaries are made with instructions that the processor has: their S-tree of
        // starts, made with the same, asserts it.
        unsafe { self.lanes.ask(PlaceOf::<_, MEASURED> { boundaries: self, x, early }) }
    }

    /// Where `x` is among the boundaries, as how many are not above it, or one more; and a number
    /// that is not above `x`: what the last of these is taken for, the least from which on it is
    /// counted. `None` if none is counted.
    ///
    /// Who keeps the distance from there to a boundary beside it tells that boundary exactly,
    /// however coarse codes are. Solera's engine tells boundaries in clusters so.
    ///
    /// ```
    /// use solera_model::boundaries::Boundaries;
    ///
    /// let starts: Vec<u64> = (1..1000u64).map(|i| (i << 40) + (i * i * 77 << 20)).collect();
    /// let boundaries = Boundaries::new(&starts, |_| false);
    /// // Behind each start, another number follows by 1,000.
    /// let beside: Vec<u64> =
    ///     starts.iter().map(|start| start + 1000 - boundaries.rounded(*start).unwrap().1).collect();
    /// for (number, start) in starts.iter().enumerate() {
    ///     for (key, is_behind) in [(start + 999, false), (start + 1000, true)] {
    ///         let (count, from) = boundaries.rounded(key).unwrap();
    ///         assert_eq!((count, key - from >= beside[number]), (number + 1, is_behind));
    ///     }
    /// }
    /// ```
    #[inline]
    pub fn rounded(&self, x: u64) -> Option<(usize, u64)> {
        // SAFETY: boundaries are made with instructions that the processor has, as above.
        unsafe { self.lanes.ask(RoundedOf { boundaries: self, x }) }
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

    /// Of the segments those with positions of 24 bits.
    pub fn fine_segments(&self) -> usize {
        self.segments.iter().filter(|segment| segment.form() == Form::Fine).count()
    }

    /// Where it was known what is looked for [below](Below) boundaries: how many numbers are
    /// counted too high for each. Else what is ambiguous below a boundary,
    /// beside the way to the nearer of its neighbours, on average. Of keys that are spread evenly
    /// about twice that part is ambiguous where boundaries are the shortest numbers between two:
    /// those are often right above the lower.
    pub fn ambiguity(&self) -> f64 {
        self.ambiguity.into()
    }

    /// Cache lines that a query touches: the tree's, the segment's, and those of its group.
    pub fn lines(&self) -> f64 {
        // A group begins at any word.
        self.starts.lines() as f64 + 1.0 + 1.0 + (TWELVE_WORDS - 1) as f64 / 32.0
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        self.starts.bytes() + size_of_val(&*self.segments) + size_of_val(&*self.words)
    }
}

#[cfg(test)]
mod tests;

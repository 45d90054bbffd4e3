//! What boundaries are asked: `PlaceOf` a key, and `RoundedOf`, from where on a boundary is
//! counted.
//!
//! The S-tree names the segment, whose line says where in it the key is. Then sixteen codes are
//! compared at once: those of a short segment, or of a group. Each query is compiled for each set
//! of instructions (`lanes`).
//!
//! What must hold: what `boundaries` promises of answers. Whatever the codes say, a search among
//! groups goes one way, so it ends.
//! Caller: `boundaries`.

use super::{
    Boundaries, CENTRE, FINE_STEPS, Form, Place, SHORT_STEPS, STEP, Segment, TEN_WORDS, TWELVE_WORDS,
    group::{self, Head, Width},
};
use crate::lanes::{self, CODES, FINE_LOW_WORDS, Instructions, Query, WIDE_WORDS};

/// [`Boundaries::place_early`]; how far a key is between boundaries only if that is to be
/// `MEASURED`.
pub(super) struct PlaceOf<'b, E, const MEASURED: bool> {
    pub(super) boundaries: &'b Boundaries,
    pub(super) x: u64,
    pub(super) early: E,
}

impl<E: Fn(usize), const MEASURED: bool> Query for PlaceOf<'_, E, MEASURED> {
    type Answer = Place;
    const IN_512_BITS: bool = false;

    #[inline(always)]
    fn by(self, by: impl Instructions) -> Place {
        let PlaceOf { boundaries, x, early } = self;
        let Some(number) = boundaries.starts.up_to_by(by, x, |_| {}).checked_sub(1) else {
            return Place { rank: 0, start: None, within: None };
        };
        let segment = boundaries.segments[number];
        let dx = x - boundaries.starts.get(number);
        if dx == 0 {
            return Place { rank: segment.rank as usize, start: Some(number), within: None };
        }
        let words = boundaries.words_of(number);
        let steps = segment.line.steps(dx);
        let (below, within) = match segment.form() {
            _ if words == 0 => (0, None),
            Form::Short => {
                early(segment.rank as usize + words / 2);
                (among_positions(by, boundaries.positions(segment), words, steps), None)
            }
            Form::Fine => {
                let (upper, lower, count) = boundaries.fine(segment, words);
                early(segment.rank as usize + count / 2);
                (among_fine(by, upper, lower, count, steps), None)
            }
            Form::Long(Width::Ten) => {
                let compare = compare_packed::<10, TEN_WORDS>(by);
                boundaries.in_groups(segment, words, steps, compare, early).below_and_within::<MEASURED>()
            }
            Form::Long(Width::Twelve) => {
                let compare = compare_packed::<12, TWELVE_WORDS>(by);
                boundaries.in_groups(segment, words, steps, compare, early).below_and_within::<MEASURED>()
            }
            Form::Long(Width::Sixteen) => {
                let compare = compare_wide(by);
                boundaries.in_groups(segment, words, steps, compare, early).below_and_within::<MEASURED>()
            }
        };
        Place { rank: segment.rank as usize + below, start: None, within }
    }
}

/// [`Boundaries::rounded`].
pub(super) struct RoundedOf<'b> {
    pub(super) boundaries: &'b Boundaries,
    pub(super) x: u64,
}

impl Query for RoundedOf<'_> {
    type Answer = Option<(usize, u64)>;
    const IN_512_BITS: bool = false;

    #[inline(always)]
    fn by(self, by: impl Instructions) -> Option<(usize, u64)> {
        let RoundedOf { boundaries, x } = self;
        let number = boundaries.starts.up_to_by(by, x, |_| {}).checked_sub(1)?;
        let (segment, start) = (boundaries.segments[number], boundaries.starts.get(number));
        let words = boundaries.words_of(number);
        let steps = segment.line.steps(x - start);
        let (below, at) = match segment.form() {
            _ if words == 0 || x == start => (0, 0),
            Form::Short => {
                let codes = boundaries.positions(segment);
                let below = among_positions(by, codes, words, steps);
                (below, below.checked_sub(1).map_or(0, |last| i64::from(codes[last])))
            }
            Form::Fine => {
                let (upper, lower, count) = boundaries.fine(segment, words);
                let below = among_fine(by, upper, lower, count, steps);
                let last = below.checked_sub(1);
                (below, last.map_or(0, |last| lanes::fine_position(upper, lower, last).into()))
            }
            Form::Long(Width::Ten) => {
                let compare = compare_packed::<10, TEN_WORDS>(by);
                boundaries.in_groups(segment, words, steps, compare, |_| {}).taken_for()
            }
            Form::Long(Width::Twelve) => {
                let compare = compare_packed::<12, TWELVE_WORDS>(by);
                boundaries.in_groups(segment, words, steps, compare, |_| {}).taken_for()
            }
            Form::Long(Width::Sixteen) => {
                boundaries.in_groups(segment, words, steps, compare_wide(by), |_| {}).taken_for()
            }
        };
        let above_start = if at > 0 { segment.line.least_with(at).unwrap_or(0) } else { 0 };
        // Segments from untrusted bytes may say anything.
        Some((segment.rank as usize + below, x.min(start.saturating_add(above_start))))
    }
}

/// Compares a group of packed codes.
#[inline(always)]
fn compare_packed<const BITS: usize, const WORDS: usize>(
    by: impl Instructions,
) -> impl Fn(&[u16; WORDS], i32, Head) -> u32 {
    move |words, limit, head| by.packed_up_to::<BITS, WORDS>(words, limit, head.step(), head.exponent())
}

/// Compares a group of wide codes.
#[inline(always)]
fn compare_wide(by: impl Instructions) -> impl Fn(&[u16; WIDE_WORDS], i32, Head) -> u32 {
    move |words, limit, head| by.wide_up_to(words, limit, head.step(), head.exponent())
}

/// How many of the first `words` positions of a short segment are not above so many steps.
#[inline(always)]
fn among_positions(by: impl Instructions, codes: &[u16; CODES], words: usize, steps: i64) -> usize {
    let below = by.codes_up_to(codes, steps.min(SHORT_STEPS - 1) as u16);
    (below & (u32::MAX >> (32 - words))).count_ones() as usize
}

/// How many of the first `count` positions of a fine segment, not 0, are not above so many
/// steps.
#[inline(always)]
fn among_fine(
    by: impl Instructions,
    upper: &[u16; CODES],
    lower: &[u16; FINE_LOW_WORDS],
    count: usize,
    steps: i64,
) -> usize {
    let below = by.fine_up_to(upper, lower, steps.min(FINE_STEPS - 1) as u32);
    (below & (u32::MAX >> (32 - count))).count_ones() as usize
}

impl Boundaries {
    /// Words of the segment of this number.
    #[inline(always)]
    fn words_of(&self, number: usize) -> usize {
        let end = match self.segments.get(number + 1) {
            Some(next) => next.words_at(),
            None => self.words.len() - WIDE_WORDS,
        };
        end - self.segments[number].words_at()
    }

    /// The positions of a short segment, and what follows them.
    #[inline(always)]
    fn positions(&self, segment: Segment) -> &[u16; CODES] {
        let codes = self.words[segment.words_at()..].first_chunk();
        codes.expect("a group follows the last segment")
    }

    /// The upper and lower bits of the positions of a fine segment of so many words, and how many
    /// there are.
    #[inline(always)]
    fn fine(&self, segment: Segment, words: usize) -> (&[u16; CODES], &[u16; FINE_LOW_WORDS], usize) {
        let count = words * 2 / 3;
        let words = &self.words[segment.words_at()..];
        let (upper, lower) = (words.first_chunk(), words[count..].first_chunk());
        let follows = "a group follows the last segment";
        (upper.expect(follows), lower.expect(follows), count)
    }

    /// How many of the boundaries of a long segment of so many words, in groups of `GROUP`, are not
    /// above so many steps.
    #[inline(always)]
    fn in_groups<const GROUP: usize>(
        &self,
        segment: Segment,
        words: usize,
        steps: i64,
        compare: impl Fn(&[u16; GROUP], i32, Head) -> u32,
        early: impl Fn(usize),
    ) -> InGroup<'_, GROUP> {
        let centre = i64::from(segment.line.centre) * CENTRE;
        let steps = steps - centre;
        // The last group may end early, and nothing follows it.
        let (last, rest) = ((words - 1) / GROUP, segment.rest());
        let of_last = if rest > 0 { rest } else { CODES };
        let of_line = ((steps.max(0) / STEP) as usize).min(last * CODES + of_last);
        early(segment.rank as usize + of_line);
        let group_at = |steps: i64| ((steps.max(0) / GROUP_STEPS) as usize).min(last);
        let words = &self.words[segment.words_at()..];
        // How far boundaries are off the line at the query's place tells where on the line those
        // around it are.
        let off = Head::of_word(words[group_at(steps) * GROUP]).base();
        let mut group = group_at(steps - off);
        // Groups before it while none is below the query, or behind it while all are.
        let mut way = 0;
        let (found, codes) = loop {
            let of_group = group_of(words, group);
            let head = Head::of_word(of_group[0]);
            let codes = if group == last { of_last } else { CODES };
            let below = compare(of_group, limit_in(steps, group, head), head) & (u32::MAX >> (32 - codes));
            let found = below.count_ones() as usize;
            way = match found {
                0 if group > 0 && way <= 0 => -1,
                CODES if group < last && way >= 0 => 1,
                _ => break (found, codes),
            };
            group = group.wrapping_add_signed(way);
        };
        InGroup { words, group, found, codes, steps, centre }
    }
}

/// What a search among groups of `GROUP` words came to.
struct InGroup<'w, const GROUP: usize> {
    /// The segment's words, and what follows them.
    words: &'w [u16],
    /// How many groups lie before the one that was searched last, how many of its boundaries are
    /// not above the query, and how many it has.
    group: usize,
    found: usize,
    codes: usize,
    /// How many steps the query is from the segment's first code, and that from its line's begin.
    steps: i64,
    centre: i64,
}

/// Steps of a group.
const GROUP_STEPS: i64 = CODES as i64 * STEP;

/// The group behind so many.
#[inline(always)]
fn group_of<const GROUP: usize>(words: &[u16], group: usize) -> &[u16; GROUP] {
    words[group * GROUP..].first_chunk().expect("a group follows the last segment")
}

/// So many steps, counted from where the codes of a group with this head do.
#[inline(always)]
fn limit_in(steps: i64, group: usize, head: Head) -> i32 {
    let limit = steps - group as i64 * GROUP_STEPS - head.base();
    limit.clamp(i32::MIN.into(), i32::MAX.into()) as i32
}

impl<const GROUP: usize> InGroup<'_, GROUP> {
    /// How many boundaries of the segment are not above the query.
    #[inline(always)]
    fn below(&self) -> usize {
        self.group * CODES + self.found
    }

    /// [`InGroup::below`]; and, if that is to be `MEASURED` and both boundaries around are in one
    /// group, how far between them the query is, in 256ths.
    #[inline(always)]
    fn below_and_within<const MEASURED: bool>(&self) -> (usize, Option<u8>) {
        let within = (MEASURED && self.found > 0 && self.found < self.codes).then(|| {
            let words = group_of::<GROUP>(self.words, self.group);
            let head = Head::of_word(words[0]);
            let before = group::position(words, head, self.found - 1);
            let gap = group::position(words, head, self.found).saturating_sub(before).max(1);
            let from = limit_in(self.steps, self.group, head).saturating_sub(before);
            // A gap has less than 24 bits. A division of 32 takes half of the time of one of 64.
            ((from.clamp(0, (1 << 24) - 1) as u32 * 256) / gap as u32).min(255) as u8
        });
        (self.below(), within)
    }

    /// [`InGroup::below`]; and how many steps from the line's begin the last of these is taken to
    /// be. 0 of none.
    #[inline(always)]
    fn taken_for(&self) -> (usize, i64) {
        let below = self.below();
        let at = below.checked_sub(1).map_or(0, |last| {
            let (group, lane) = (last / CODES, last % CODES);
            let words = group_of::<GROUP>(self.words, group);
            let head = Head::of_word(words[0]);
            let in_group = i64::from(group::position(words, head, lane)) + head.base();
            group as i64 * GROUP_STEPS + in_group + self.centre
        });
        (below, at)
    }
}

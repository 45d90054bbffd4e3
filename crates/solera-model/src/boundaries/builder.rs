//! Cutting boundaries into segments, each with the codes that take the fewest bytes of those tried:
//! `Builder::cut`.
//!
//! It fits a line to a few boundaries (by the hull), then to four times as many while codes tell
//! all of them apart. It compares long segments with codes of 10, 12 and 16 bits, and short ones,
//! by bytes for each boundary. Fine ones must be worth it by the pace of those before: `Pace`. Few
//! boundaries may be hard to tell among many that are not. Where it is known what is looked for, a
//! bridge of wider codes leads over them.
//!
//! What must hold: every code is measured with the function that queries use. A boundary that its
//! code does not tell well enough from its neighbours ends the segment. Work is linear in the
//! boundaries, whatever they are.
//!
//! Caller: `Boundaries`, whenever it is built from keys.

use super::{
    Below, CENTRE, EPSILON, Form, Line, STEP, Segment,
    group::{Head, Width},
};
use crate::{
    hull::Hull,
    lanes::{CODES, fine_words},
};
#[cfg(test)]
use std::cell::Cell;
use std::ops::RangeInclusive;

/// A line is fitted to so many boundaries first at least and at most, and then to [`GROWTH`] times
/// as many as before while codes tell all of them.
const WINDOW_MIN: usize = 8;
const WINDOW: usize = 2 * CODES;
const GROWTH: usize = 4;
/// A segment with codes of 10 bits that has so many boundaries is taken without a look at others.
const TEN_MIN: usize = 128;
/// Of a segment with codes of 12 bits that has so many boundaries, codes of 16 bits would take more
/// bytes.
const TWELVE_MIN: usize = 32;

/// Where another form than codes of 12 bits was best, for [`WINDOW_MIN`] boundaries at most, it is
/// for so many segments more, as long as these have no more and no less than so many.
const ROUGH_SEGMENTS: usize = 3;
const ROUGH_MIN: usize = 4;
/// Where a fine segment had all positions that one can have, so many segments more are tried as
/// fine ones first, as long as these have all, too.
const FINE_SEGMENTS: usize = 15;

/// Bytes with which a segment begins: its first boundary, and what it is.
const START_BYTES: usize = size_of::<u64>() + size_of::<Segment>();

/// Bytes of a fine segment of as many boundaries as one can have.
const FINE_BYTES: usize = START_BYTES + fine_words(CODES) * size_of::<u16>();

/// So much may be [ambiguous](Builder::ambiguous) in a segment beyond its part, where that is
/// counted.
const SEGMENT_MISSED_MAX: f64 = 2.0;

/// The first boundaries may use so much of what may be ambiguous among those to come: else there is
/// room for none.
const LENT: f64 = 1.0 / 16.0;

/// How many bytes boundaries took lately.
#[derive(Clone, Copy, Default)]
struct Pace {
    bytes: usize,
    boundaries: usize,
}

impl Pace {
    /// It tells nothing before so many boundaries, and counts about so many at most.
    const MIN: usize = 16;
    const MAX: usize = 512;

    fn add(&mut self, coded: &Coded) {
        self.bytes += coded.bytes();
        self.boundaries += coded.count + 1;
        if self.boundaries > Pace::MAX {
            (self.bytes, self.boundaries) = (self.bytes / 2, self.boundaries / 2);
        }
    }

    /// Whether so many boundaries lately took at least so many bytes.
    fn is_at_least(self, bytes: usize, boundaries: usize) -> bool {
        self.boundaries >= Pace::MIN && self.bytes * boundaries >= bytes * self.boundaries
    }
}

/// What boundaries are cut into.
pub(super) struct Builder<'k> {
    keys: &'k [u64],
    /// What is looked for below each boundary, where that is known.
    below: Option<Below<'k>>,
    pub(super) starts: Vec<u64>,
    pub(super) segments: Vec<Segment>,
    pub(super) words: Vec<u16>,
    /// Sum over the coded boundaries of what is [ambiguous](Builder::ambiguous) below each.
    pub(super) ambiguity: f64,
    /// Ranks of the boundaries below which something that is looked for is ambiguous, where that is
    /// known. They ascend.
    pub(super) missed: Vec<u32>,
    /// The codes' width where boundaries are even: of the last segment, or of the one before the
    /// last bridge.
    even: Option<Width>,
    /// The form that is taken without a look at others where boundaries are rough, and for how many
    /// segments.
    rough: Option<(Form, usize)>,
    pace: Pace,
    /// How much may be ambiguous on average over a segment with codes of 10 bits.
    of_ten_mean_max: f64,
    /// A line is fitted to so many boundaries first: twice what the last segment took. Where
    /// segments are short, most of a wider window would be looked at in vain.
    window: usize,
    /// Of the segment under construction; and those of codes that are [tried](Builder::on_its_own)
    /// on a part of it.
    lines: Lines,
    aside: Lines,
    /// Boundaries that were looked at so far, each as often as it was.
    #[cfg(test)]
    looks: Cell<usize>,
}

/// The lines of a segment through more and more of its boundaries, each fitted once for codes of
/// all widths.
struct Lines {
    hull: Hull,
    /// Each with how many boundaries it is fitted to.
    fitted: Vec<(Line, usize)>,
}

impl Lines {
    fn new() -> Lines {
        Lines { hull: Hull::new(EPSILON), fitted: Vec::new() }
    }
}

/// The codes of a segment, and the line that they belong to.
pub(super) struct Coded {
    pub(super) form: Form,
    pub(super) line: Line,
    words: Vec<u16>,
    /// How many boundaries.
    pub(super) count: usize,
    /// Sum over them of what is [ambiguous](Builder::ambiguous) below each.
    ambiguity: f64,
    /// Ranks of those below which something is.
    missed: Vec<u32>,
}

/// Boundaries that a group tells apart.
struct Told {
    /// The steps at which the last is taken to be.
    last: i64,
    /// The sum of what is [ambiguous](Builder::ambiguous) below each.
    ambiguity: f64,
    /// Below which something is, a bit for each, the first the lowest.
    missed: u32,
}

impl Coded {
    fn none(form: Form, line: Line) -> Coded {
        Coded { form, line, words: Vec::new(), count: 0, ambiguity: 0.0, missed: Vec::new() }
    }

    /// Bytes, with the boundary that begins it.
    fn bytes(&self) -> usize {
        START_BYTES + self.words.len() * size_of::<u16>()
    }

    /// Bytes for each of its boundaries, with the one that begins it.
    fn bytes_each(&self) -> f64 {
        self.bytes() as f64 / (self.count + 1) as f64
    }
}

impl<'k> Builder<'k> {
    /// All of these boundaries in segments. What is `pinned`, by rank, begins one, and so do equal
    /// ones, together.
    pub(super) fn cut(
        keys: &'k [u64],
        below: Option<Below<'k>>,
        pinned: impl Fn(usize) -> bool,
        of_ten_mean_max: f64,
    ) -> Builder<'k> {
        let mut builder = Builder {
            keys,
            below,
            starts: Vec::new(),
            segments: Vec::new(),
            words: Vec::new(),
            ambiguity: 0.0,
            missed: Vec::new(),
            even: below.is_some().then_some(Width::Ten),
            rough: None,
            pace: Pace::default(),
            of_ten_mean_max,
            window: WINDOW,
            lines: Lines::new(),
            aside: Lines::new(),
            #[cfg(test)]
            looks: Cell::new(0),
        };
        let must_start =
            |i: usize| pinned(i) || keys.get(i + 1) == Some(&keys[i]) || (i > 0 && keys[i - 1] == keys[i]);
        let (mut at, mut limit) = (0, 0);
        while at < keys.len() {
            let same = keys[at..].iter().take_while(|&&key| key == keys[at]).count();
            let first = at + same;
            if limit < first {
                limit = (first..keys.len()).find(|&i| must_start(i)).unwrap_or(keys.len());
            }
            if same == 1 && !pinned(at) {
                let missed = builder.missed_at(at);
                builder.missed.extend((missed > 0.0).then_some(at as u32));
                builder.ambiguity += missed;
            }
            at = builder.segment(first, limit);
            // The boundary at the limit begins the next segment.
            limit = if at == limit { 0 } else { limit };
        }
        builder
    }

    /// How much of what is known to be looked for below the boundary of this rank is not below it.
    /// The index cannot tell it from the boundary if that begins a segment.
    fn missed_at(&self, rank: usize) -> f64 {
        let key = self.keys[rank];
        let known = self.below.filter(|below| below.last[rank] >= key);
        known.and_then(|below| (below.from)(rank, key)).map_or(0.0, |count| count as f64)
    }

    /// Adds the segment whose first boundary is that before rank `first`. It takes boundaries up to
    /// rank `limit` if it can; returns up to which it does.
    fn segment(&mut self, first: usize, limit: usize) -> usize {
        self.lines.fitted.clear();
        // What was enough for the segment before mostly is enough again.
        let same = (self.even == Some(Width::Ten)).then(|| self.long(Width::Ten, first, limit));
        let told = same.as_ref().map(|ten| ten.count);
        let same = same.filter(|ten| ten.count >= TEN_MIN.min(limit - first));
        let coded = same.or_else(|| self.bridge(first, limit, told)).unwrap_or_else(|| {
            let coded = self.cheapest(first, limit);
            self.even = match coded.form {
                Form::Long(Width::Ten) => Some(Width::Ten),
                Form::Long(Width::Twelve) if coded.count >= TEN_MIN => Some(Width::Twelve),
                _ => None,
            };
            coded
        });
        self.starts.push(self.keys[first - 1]);
        self.segments.push(Segment::new(first, self.words.len(), &coded));
        self.words.extend(&coded.words);
        self.ambiguity += coded.ambiguity;
        self.missed.extend(&coded.missed);
        self.pace.add(&coded);
        // How far a line goes is not told by fine positions.
        if coded.form != Form::Fine {
            self.window = (2 * coded.count).clamp(WINDOW_MIN, WINDOW);
        }
        first + coded.count
    }

    /// A segment that leads over a boundary which the codes of the [even](Builder::even) stretch
    /// before do not tell. `None` if they would not go on behind it for so long that two segments
    /// more are worth it: then wider codes may be best for all. `told` is how many boundaries they
    /// tell, if that is known.
    fn bridge(&mut self, first: usize, limit: usize, told: Option<usize>) -> Option<Coded> {
        let narrow = self.even.filter(|_| self.below.is_some())?;
        let stuck = told.unwrap_or_else(|| self.on_its_own(narrow, first, limit.min(first + TEN_MIN)).count);
        let count = (stuck + 1).next_multiple_of(CODES);
        let wider = [Width::Twelve, Width::Sixteen].into_iter().filter(|wide| wide.bits() > narrow.bits());
        for wide in wider {
            let behind = first + count + 1;
            let saved = wide.bits() - narrow.bits();
            let end = behind + 2 * START_BYTES * u8::BITS as usize / saved;
            if stuck >= TEN_MIN || end > limit {
                return None;
            }
            let bridge = self.on_its_own(wide, first, first + count);
            if bridge.count == count {
                let goes_on = self.on_its_own(narrow, behind, end).count == end - behind;
                return goes_on.then_some(bridge);
            }
        }
        None
    }

    /// [`Builder::long`] with lines of its own. Those of the segment stay.
    fn on_its_own(&mut self, width: Width, first: usize, limit: usize) -> Coded {
        std::mem::swap(&mut self.lines, &mut self.aside);
        self.lines.fitted.clear();
        let coded = self.long(width, first, limit);
        std::mem::swap(&mut self.lines, &mut self.aside);
        coded
    }

    /// The segment of the fewest bytes a boundary, of those that are tried. Where boundaries are
    /// rough, what was best is taken for the next few segments, too.
    fn cheapest(&mut self, first: usize, limit: usize) -> Coded {
        if let Some((form, left)) = self.rough.filter(|(_, left)| *left > 0 && first < limit) {
            self.rough = Some((form, left - 1));
            let again = match form {
                Form::Short => self.short(Form::Short, first, limit),
                Form::Fine => self.fine(first, limit),
                Form::Long(width) => self.long(width, first, limit),
            };
            let is_as_before = match form {
                Form::Fine => again.count == CODES && self.pace.is_at_least(FINE_BYTES, CODES + 1),
                _ => (ROUGH_MIN..=WINDOW_MIN).contains(&again.count),
            };
            if is_as_before {
                return again;
            }
        }
        let mut coded = self.long(Width::Twelve, first, limit);
        self.rough = None;
        // Where codes of 12 bits do not reach as far as there are boundaries, others may.
        if first + coded.count < limit && coded.count < TWELVE_MIN {
            for other in [self.long(Width::Sixteen, first, limit), self.short(Form::Short, first, limit)] {
                if other.bytes_each() < coded.bytes_each() {
                    coded = other;
                }
            }
            if coded.form != Form::Long(Width::Twelve) && coded.count <= WINDOW_MIN {
                self.rough = Some((coded.form, ROUGH_SEGMENTS));
            }
            if let Some(fine) = self.worth_it(&coded, first, limit) {
                self.window = (2 * coded.count).clamp(WINDOW_MIN, WINDOW);
                self.rough = (fine.count == CODES).then_some((Form::Fine, FINE_SEGMENTS));
                return fine;
            }
        }
        if coded.form == Form::Long(Width::Twelve) {
            let mut ten = self.groups(Width::Ten, coded.line, first, first + coded.count);
            if ten.count < coded.count && self.below.is_some() {
                ten = self.long(Width::Ten, first, limit);
            }
            if ten.bytes_each() < coded.bytes_each() && self.is_clear(&ten) {
                coded = ten;
            }
        }
        coded
    }

    /// The fine segment in place of `other`, if that is worth it: if the boundaries that it has
    /// beyond those of `other` take fewer bytes each than boundaries did lately.
    fn worth_it(&self, other: &Coded, first: usize, limit: usize) -> Option<Coded> {
        let is_worth = |bytes: usize, count: usize| {
            let more = count.checked_sub(other.count).filter(|more| *more > 0);
            more.is_some_and(|more| self.pace.is_at_least(bytes.saturating_sub(other.bytes()), more))
        };
        let most = CODES.min(limit - first);
        let could_be = is_worth(START_BYTES + fine_words(most) * size_of::<u16>(), most);
        let fine = could_be.then(|| self.short(Form::Fine, first, limit))?;
        is_worth(fine.bytes(), fine.count).then_some(fine)
    }

    /// A long segment of as many boundaries, from rank `first` on and up to `limit`, as some line
    /// within [`EPSILON`] of them and codes of this width tell.
    fn long(&mut self, width: Width, first: usize, limit: usize) -> Coded {
        let (mut best, mut window) = (Coded::none(Form::Long(width), Line::default()), self.window);
        for number in 0.. {
            let (line, count) = self.line(number, first, limit.min(first + window));
            let coded = self.groups(width, line, first, first + count);
            let all = coded.count == count;
            // A line that has to pass more boundaries may tell fewer of them apart.
            if coded.count < best.count || !self.is_clear(&coded) {
                break;
            }
            best = coded;
            if !all || count < window {
                break;
            }
            window *= GROWTH;
        }
        best
    }

    /// The line of this number of the segment whose boundaries begin at rank `first`, and to how
    /// many of them it is fitted: up to rank `end`, or as many as a line passes. Those of lesser
    /// numbers were asked for before.
    fn line(&mut self, number: usize, first: usize, end: usize) -> (Line, usize) {
        if let Some(&fitted) = self.lines.fitted.get(number) {
            return fitted;
        }
        let Lines { hull, fitted } = &mut self.lines;
        if fitted.is_empty() {
            hull.clear();
            hull.push(self.keys[first - 1], 0);
        }
        let before = fitted.last().map_or(0, |(_, count)| *count);
        let ahead = (before + 1..).zip(&self.keys[first + before..end]);
        let count = before + ahead.take_while(|(y, key)| hull.push(**key, *y as u32)).count();
        let (slope, at_first) = hull.line();
        // The first code stands at 0, one boundary behind the segment's first one.
        let line = Line::new(slope * STEP as f64, (1.0 - at_first) * STEP as f64);
        fitted.push((line, count));
        self.looked_at(count);
        (line, count)
    }

    /// Whether codes tell boundaries apart well enough on average.
    fn is_clear(&self, coded: &Coded) -> bool {
        self.below.is_some()
            || coded.form != Form::Long(Width::Ten)
            || coded.ambiguity <= self.of_ten_mean_max * coded.count as f64
    }

    /// How much may be [ambiguous](Builder::ambiguous) below a boundary with codes of this form.
    fn ambiguity_max(&self, form: Form) -> f64 {
        if self.below.is_some() { f64::MAX } else { form.ambiguity_max() }
    }

    /// How much may be [ambiguous](Builder::ambiguous) in a segment of so many boundaries from rank
    /// `first` on. Where it is known what is looked for, a table and each of its segments has its
    /// part of what may be missed.
    fn allowed(&self, first: usize, count: usize) -> f64 {
        let Some(Below { missed_max, .. }) = self.below else { return f64::INFINITY };
        let of_segment = count as f64 * missed_max + SEGMENT_MISSED_MAX;
        let (done, to_come) = (first + count, self.keys.len() - first - count);
        let of_all = (done as f64 + to_come as f64 * LENT) * missed_max - self.ambiguity;
        of_segment.min(of_all)
    }

    /// Counts boundaries that are looked at.
    fn looked_at(&self, _boundaries: usize) {
        #[cfg(test)]
        self.looks.set(self.looks.get() + _boundaries);
    }

    /// The fine segment of as many boundaries as one can have, or none.
    fn fine(&self, first: usize, limit: usize) -> Coded {
        if first + CODES > limit {
            return Coded::none(Form::Fine, Line::default());
        }
        self.longest(Form::Fine, first, CODES..=CODES)
    }

    /// The longest segment of positions.
    fn short(&self, form: Form, first: usize, limit: usize) -> Coded {
        self.longest(form, first, 1..=CODES.min(limit - first))
    }

    /// The longest segment of positions, of so many boundaries.
    fn longest(&self, form: Form, first: usize, counts: RangeInclusive<usize>) -> Coded {
        let line_of = |count: usize| {
            let span = self.keys[first + count - 1] - self.keys[first - 1];
            Line::new((form.steps() - 1) as f64 / span as f64, 0.0)
        };
        // Steps get coarser with every boundary more.
        let (mut low, mut high, mut best) =
            (*counts.start(), *counts.end(), Coded::none(form, Line::default()));
        // Mostly all are told by fine positions.
        let mut middle = if form == Form::Fine { high } else { low.midpoint(high) };
        while low <= high {
            let line = line_of(middle);
            match self.positions(form, line, first, first + middle) {
                Some((ambiguity, missed)) => {
                    (best.line, best.count, best.ambiguity) = (line, middle, ambiguity);
                    best.missed.clear();
                    let is_missed = |lane: &u32| missed >> lane & 1 == 1;
                    best.missed.extend((0..CODES as u32).filter(is_missed).map(|lane| first as u32 + lane));
                    low = middle + 1;
                }
                None => high = middle - 1,
            }
            middle = low.midpoint(high);
        }
        let start = self.keys[first - 1];
        let keys = &self.keys[first..first + best.count];
        if form == Form::Fine {
            let steps = |key: &u64| best.line.steps(key - start) as u32;
            let of_two = |pair: &[u64]| {
                let lower = |key: &u64| steps(key) as u16 & 0xff;
                lower(&pair[0]) | pair.get(1).map_or(0, lower) << 8
            };
            best.words = keys.iter().map(|key| (steps(key) >> 8) as u16).collect();
            best.words.extend(keys.chunks(2).map(of_two));
        } else {
            best.words = keys.iter().map(|key| best.line.steps(key - start) as u16).collect();
        }
        best
    }

    /// Whether the boundaries from rank `first` up to `end`, [`CODES`] at most, are told well
    /// enough from their neighbours by positions on a short segment's line: then what is
    /// [ambiguous](Builder::ambiguous) below all, and below which something is, a bit for each, the
    /// first the lowest.
    fn positions(&self, form: Form, line: Line, first: usize, end: usize) -> Option<(f64, u32)> {
        self.looked_at(end - first);
        let start = self.keys[first - 1];
        let (mut ambiguity, mut missed) = (0.0, 0);
        let (mut before, allowed) = (0, self.allowed(first, end - first));
        for i in first..end {
            let steps = line.steps(self.keys[i] - start);
            if steps >= form.steps() || steps <= before {
                return None;
            }
            let floor = self.floor(line, start, i);
            let ambiguous = self.ambiguous(line, start, i, steps, floor, allowed - ambiguity);
            if ambiguous > self.ambiguity_max(form) {
                return None;
            }
            before = steps;
            ambiguity += ambiguous;
            missed |= u32::from(ambiguous > 0.0) << (i - first);
        }
        (ambiguity <= allowed).then_some((ambiguity, missed))
    }

    /// The boundaries from rank `first` up to `end` in groups; up to the first that `line` does not
    /// tell well enough from its neighbours.
    fn groups(&self, width: Width, line: Line, first: usize, end: usize) -> Coded {
        let start = self.keys[first - 1];
        let centre = i64::from(line.centre) * CENTRE;
        let mut coded = Coded::none(Form::Long(width), line);
        coded.words.reserve_exact(2 * (1 + width.bits()));
        let mut before = 0;
        for group in (first..end).step_by(CODES) {
            let mut whole = [0; CODES];
            let whole = &mut whole[..CODES.min(end - group)];
            let (mut floors, mut rooms) = ([0; CODES], [0; CODES]);
            let (mut above, mut room) = (before, i64::MAX);
            for (lane, off) in whole.iter_mut().enumerate() {
                let i = group + lane;
                let steps = line.steps(self.keys[i] - start);
                *off = steps.saturating_sub(centre + (i - first) as i64 * STEP);
                floors[lane] = self.floor(line, start, i);
                // Above both what is looked for below it and the boundary before.
                room = room.min(steps.saturating_sub(above.max(floors[lane])));
                (rooms[lane], above) = (room, steps);
            }
            // The fewer boundaries, the finer the steps may be.
            let (mut told, mut untold, mut some) = (0, whole.len() + 1, whole.len());
            let mut longest = None;
            while told + 1 < untold {
                let head = Head::of(width, &whole[..some]);
                let found = head.and_then(|head| {
                    let at_once = self.told_at_once(head, &coded, first, &whole[..some], rooms[some - 1]);
                    at_once.or_else(|| self.told_apart(head, &coded, first, &whole[..some], &floors, before))
                });
                match head.zip(found) {
                    Some(found) => (longest, told) = (Some(found), some),
                    None => untold = some,
                }
                some = told.midpoint(untold);
            }
            if let Some((head, found)) = longest {
                head.write(width, &whole[..told], &mut coded.words);
                coded.count += told;
                coded.ambiguity += found.ambiguity;
                let mut missed = found.missed;
                while missed != 0 {
                    coded.missed.push(group as u32 + missed.trailing_zeros());
                    missed &= missed - 1;
                }
                before = found.last;
            }
            if told < whole.len() {
                break;
            }
        }
        coded
    }

    /// What [`Builder::told_apart`] says where it is known what is looked for, and each boundary is
    /// at least `room` steps above that and above the boundary before: more than any is rounded by.
    /// Most are.
    fn told_at_once(
        &self,
        head: Head,
        coded: &Coded,
        first: usize,
        deviations: &[i64],
        room: i64,
    ) -> Option<Told> {
        if self.below.is_none() || room < 1 << head.exponent() {
            return None;
        }
        self.looked_at(deviations.len());
        let count = coded.count + deviations.len();
        let is_allowed = self.allowed(first, count) >= coded.ambiguity;
        let (lane, deviation) = (deviations.len() - 1, *deviations.last()?);
        let last = steps_of(head, coded, lane, deviation);
        is_allowed.then_some(Told { last, ambiguity: 0.0, missed: 0 })
    }

    /// Whether `head` tells these boundaries, the next ones of the segment of rank `first`, well
    /// enough from their neighbours, the nearest before which is taken to be at `before` steps.
    fn told_apart(
        &self,
        head: Head,
        coded: &Coded,
        first: usize,
        deviations: &[i64],
        floors: &[i64; CODES],
        before: i64,
    ) -> Option<Told> {
        self.looked_at(deviations.len());
        let (line, ambiguity_max) = (coded.line, self.ambiguity_max(coded.form));
        let allowed = self.allowed(first, coded.count + deviations.len()) - coded.ambiguity;
        let (mut last, mut ambiguity, mut missed) = (before, 0.0, 0);
        for (lane, &deviation) in deviations.iter().enumerate() {
            let i = first + coded.count + lane;
            let steps = steps_of(head, coded, lane, deviation);
            let left = allowed - ambiguity;
            let ambiguous = self.ambiguous(line, self.keys[first - 1], i, steps, floors[lane], left);
            if steps <= last || ambiguous > ambiguity_max {
                return None;
            }
            last = steps;
            ambiguity += ambiguous;
            missed |= u32::from(ambiguous > 0.0) << lane;
        }
        (ambiguity <= allowed).then_some(Told { last, ambiguity, missed })
    }

    /// More steps than this are above the last number that is looked for below boundary `i`, in the
    /// segment that begins at `start`. Zero if that is not known.
    fn floor(&self, line: Line, start: u64, i: usize) -> i64 {
        match self.below.map(|below| below.last[i]) {
            None => 0,
            Some(last) if last >= self.keys[i] => i64::MAX,
            Some(last) => last.checked_sub(start).map_or(i64::MIN, |dx| line.steps(dx)),
        }
    }

    /// The keys that have as many steps as boundary `i` is taken to have, in the segment that
    /// begins at `start`, beside those between the boundary and the nearer one of its neighbours.
    /// Where it is known what is looked for below the boundary: how many of that have; endless if
    /// more than what is `left`. `floor` is [`Builder::floor`].
    ///
    /// Steps are rounded down, so that the ambiguous keys are those right below the boundary. The
    /// key right above it is mostly very close, since a separator is a beginning of it; the one
    /// below is not. How close keys crowd is not known here, but that they crowd near the boundary
    /// can be seen on either side of it.
    fn ambiguous(&self, line: Line, start: u64, i: usize, steps: i64, floor: i64, left: f64) -> f64 {
        let key = self.keys[i];
        if let Some(below) = self.below {
            // Nothing is looked for between the last and the boundary: the code may lie anywhere
            // there.
            if floor < steps {
                return 0.0;
            }
            // Of what is not below, there is one at least.
            if left < 1.0 {
                return f64::INFINITY;
            }
            let from = line.least_with(steps.max(0)).map_or(key, |dx| key.min(start + dx));
            return (below.from)(i, from).map_or(f64::INFINITY, |count| count as f64);
        }
        let dx = key - start;
        // There are keys with so many steps: the boundary itself has at least these.
        let least = line.least_with(steps.max(0)).unwrap_or(dx).min(dx);
        let ambiguous = dx - least;
        let below = key - self.keys[i - 1];
        // Equal boundaries begin a segment, and are not ambiguous.
        let nearer = self.keys.get(i + 1).map_or(below, |&next| below.min(next - key));
        ambiguous as f64 / nearer as f64
    }
}

/// The steps at which the boundary of this lane is taken to be, of the group with this head that
/// comes next in a segment.
fn steps_of(head: Head, coded: &Coded, lane: usize, deviation: i64) -> i64 {
    let line = (coded.count + lane) as i64 * STEP + i64::from(coded.line.centre) * CENTRE;
    head.rounded(lane, deviation) + line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boundaries::AMBIGUITY_MEAN_MAX;

    fn mixed(x: u64) -> u64 {
        let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Boundaries of keys that have two parts, of dense runs, of pairs that touch, and of a line
    /// with a spike each few boundaries.
    fn shapes(count: u64) -> Vec<(&'static str, Vec<u64>)> {
        let sorted = |mut keys: Vec<u64>| {
            keys.sort_unstable();
            keys
        };
        let touching = (0..count / 2).flat_map(|i| {
            let x = mixed(i) >> 9 << 8;
            [x.wrapping_sub(1), x]
        });
        let orders = (0..count).map(|i| (i / 2) << 32 | (50 * (i % 2) + mixed(i) % 7));
        let items = (0..count).map(|i| (i * 4 / 7) << 32 | (i * 4 % 7));
        let runs = (0..count / 16).flat_map(|i| (0..16).map(move |j| mixed(i).saturating_add(50 * j)));
        let squares = (0..count).map(|i| i * i);
        let spikes = (0..count).map(|i| (i << 30) + if i % 5 == 0 { (1 << 30) - 1 } else { 0 });
        let cascade = (0..count).map(|i| (0..5).fold(0, |key, at| key << 12 | 1 << (mixed(5 * i + at) % 12)));
        vec![
            ("touching", sorted(touching.collect())),
            ("orders", sorted(orders.collect())),
            ("items", items.collect()),
            ("runs", sorted(runs.collect())),
            ("squares", squares.collect()),
            ("spikes", sorted(spikes.collect())),
            ("cascade", sorted(cascade.collect())),
            ("even", (0..count).map(|i| i << 40).collect()),
        ]
    }

    /// A few neighbours with little room below them made codes of 16 bits of a whole table.
    #[test]
    #[cfg_attr(miri, ignore = "minutes under Miri")]
    fn a_few_boundaries_that_are_hard_to_tell_are_bridged_and_the_others_keep_their_narrow_codes() {
        let count = 8000u64;
        let firsts: Vec<u64> = (1..=count).map(|i| (i << 40) + (mixed(i) >> 26)).collect();
        let room = |i: usize| if i % 3000 < 12 { 1 << 28 } else { 1 << 39 };
        let last: Vec<u64> = firsts.iter().enumerate().map(|(i, first)| first - room(i)).collect();
        let cut = |below| Builder::cut(&firsts, Some(below), |_| false, AMBIGUITY_MEAN_MAX);
        let builder = cut(Below::all(&last));
        let ends = builder.segments[1..].iter().map(|next| next.rank).chain([count as u32]);
        let bridges = builder.segments.iter().zip(ends);
        let bridges = bridges.filter(|(segment, _)| segment.form() != Form::Long(Width::Ten));
        let lengths: Vec<u32> = bridges.map(|(segment, end)| end - segment.rank).collect();
        assert!(!lengths.is_empty() && lengths.iter().all(|length| *length <= 160), "{lengths:?}");
        // Ten bits a boundary and one for its group, and the segments.
        let bytes = 2 * builder.words.len() + START_BYTES * builder.segments.len();
        assert!(bytes * 8 < 12 * count as usize, "{bytes} bytes");
    }

    /// Training was quadratic: every segment began a hull over all that was left of the table, and
    /// kept a few boundaries of it. Now what a segment looks at in vain is bounded by what it
    /// takes.
    #[test]
    #[cfg_attr(miri, ignore = "minutes under Miri")]
    fn a_boundary_is_looked_at_as_often_in_a_large_table_as_in_a_small_one() {
        let looks_each = |keys: &[u64]| {
            let builder = Builder::cut(keys, None, |_| false, AMBIGUITY_MEAN_MAX);
            builder.looks.get() as f64 / keys.len() as f64
        };
        for ((shape, small), (_, large)) in shapes(4000).into_iter().zip(shapes(51_000)) {
            let (small, large) = (looks_each(&small), looks_each(&large));
            assert!(large <= 1.2 * small && large < 400.0, "{shape}: {small} and {large} looks a boundary");
        }
    }
}

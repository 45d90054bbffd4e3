//! Cutting boundaries into segments, each with the codes that take the least bytes.
//!
//! Owns [`Builder`]. Every code is measured with the function that queries use: a boundary whose neighbours it does not tell
//! apart well enough ends its segment.

use super::{
    CENTRE, EPSILON, Form, Line, SHORT_STEPS, STEP, Segment,
    group::{Head, Width},
};
use crate::{hull::Hull, lanes::CODES};

/// Fits of one segment, each of fewer boundaries, before it is made a short one.
const FITS_MAX: usize = 12;

/// What boundaries are cut into.
pub(super) struct Builder<'k> {
    keys: &'k [u64],
    pub(super) starts: Vec<u64>,
    pub(super) segments: Vec<Segment>,
    pub(super) words: Vec<u16>,
    /// Sum over the coded boundaries of what is [ambiguous](Builder::ambiguous) below each.
    pub(super) ambiguity: f64,
    /// Whether the last segment has codes of 10 bits.
    ten_bits: bool,
    /// How much may be ambiguous on average over a segment with codes of 10 bits.
    of_ten_mean_max: f64,
    /// Emptied for each fit.
    hull: Hull,
}

/// A line, and of how many boundaries it is.
#[derive(Clone, Copy)]
struct Fit {
    line: Line,
    count: usize,
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
}

impl Coded {
    fn none(form: Form, line: Line) -> Coded {
        Coded { form, line, words: Vec::new(), count: 0, ambiguity: 0.0 }
    }

    /// Bytes for each of its boundaries, with the one that begins it.
    fn bytes_each(&self) -> f64 {
        let start = size_of::<u64>() + size_of::<Segment>();
        (start + self.words.len() * size_of::<u16>()) as f64 / (self.count + 1) as f64
    }
}

impl<'k> Builder<'k> {
    /// All of these boundaries in segments. What is `pinned`, by rank, begins one, and so do equal ones, together.
    pub(super) fn cut(keys: &'k [u64], pinned: impl Fn(usize) -> bool, of_ten_mean_max: f64) -> Builder<'k> {
        let mut builder = Builder {
            keys,
            starts: Vec::new(),
            segments: Vec::new(),
            words: Vec::new(),
            ambiguity: 0.0,
            ten_bits: false,
            of_ten_mean_max,
            hull: Hull::new(EPSILON),
        };
        let must_start =
            |i: usize| pinned(i) || keys.get(i + 1) == Some(&keys[i]) || (i > 0 && keys[i - 1] == keys[i]);
        let mut at = 0;
        while at < keys.len() {
            let same = keys[at..].iter().take_while(|&&key| key == keys[at]).count();
            let first = at + same;
            let limit = (first..keys.len()).find(|&i| must_start(i)).unwrap_or(keys.len());
            at = builder.segment(first, limit);
        }
        builder
    }

    /// Adds the segment whose first boundary is that before rank `first`. It takes boundaries up to rank
    /// `limit` if it can; returns up to which it does.
    fn segment(&mut self, first: usize, limit: usize) -> usize {
        let fit = self.fit(first, limit);
        // What was enough for the segment before mostly is enough again.
        let same = self.ten_bits.then(|| self.ten_bits_of(fit.line, first, fit.count)).flatten();
        let coded = same.unwrap_or_else(|| self.cheapest(first, limit, fit));
        self.ten_bits = coded.form == Form::Long(Width::Ten);
        self.starts.push(self.keys[first - 1]);
        self.segments.push(Segment::new(first, self.words.len(), &coded));
        self.words.extend(&coded.words);
        self.ambiguity += coded.ambiguity;
        first + coded.count
    }

    /// The segment of the fewest bytes a boundary, of those that are tried.
    fn cheapest(&mut self, first: usize, limit: usize, fit: Fit) -> Coded {
        let mut coded = self.long(Width::Twelve, first, fit);
        // Where codes of 12 bits do not reach as far as there are boundaries, others may.
        if first + coded.count < limit {
            for other in [self.long(Width::Sixteen, first, fit), self.short(first, limit)] {
                if other.bytes_each() < coded.bytes_each() {
                    coded = other;
                }
            }
        }
        if coded.form == Form::Long(Width::Twelve) {
            coded = self.ten_bits_of(coded.line, first, coded.count).unwrap_or(coded);
        }
        coded
    }

    /// The line within [`EPSILON`] of as many boundaries from rank `first` on as it can be, up to `limit`.
    fn fit(&mut self, first: usize, limit: usize) -> Fit {
        let Builder { keys, hull, .. } = self;
        hull.clear();
        hull.push(keys[first - 1], 0);
        let count = (first..limit).take_while(|&i| hull.push(keys[i], (i - first) as u32 + 1)).count();
        let (slope, at_first) = hull.line();
        // The first code stands at 0, one boundary behind the segment's first one.
        Fit { line: Line::new(slope * STEP as f64, (1.0 - at_first) * STEP as f64), count }
    }

    /// A long segment with the line of this fit, or of a shorter one if that tells few of its boundaries apart.
    fn long(&mut self, width: Width, first: usize, fit: Fit) -> Coded {
        let mut fit = fit;
        for _ in 0..FITS_MAX {
            let coded = self.groups(width, fit.line, first, first + fit.count);
            // The line that fits fewer boundaries lies closer to them, but can tell no more of them apart: it is worth its time
            // only where hardly any were.
            if coded.count == fit.count || 4 * coded.count > fit.count {
                return coded;
            }
            fit = self.fit(first, first + coded.count);
        }
        Coded::none(Form::Long(width), Line::default())
    }

    /// So many boundaries with codes of 10 bits, if those tell them apart well enough on average.
    fn ten_bits_of(&self, line: Line, first: usize, count: usize) -> Option<Coded> {
        let coded = self.groups(Width::Ten, line, first, first + count);
        (coded.count == count && coded.ambiguity <= self.of_ten_mean_max * count as f64).then_some(coded)
    }

    /// The longest short segment.
    fn short(&self, first: usize, limit: usize) -> Coded {
        let limit = limit.min(first + CODES);
        let of = |count: usize| {
            let span = self.keys[first + count - 1] - self.keys[first - 1];
            let line = Line::new((SHORT_STEPS - 1) as f64 / span as f64, 0.0);
            self.positions(line, first, first + count)
        };
        // Steps get coarser with every boundary more.
        let (mut low, mut high, mut best) = (1, limit - first, Coded::none(Form::Short, Line::default()));
        while low <= high {
            let middle = low.midpoint(high);
            match of(middle) {
                Some(found) => (best, low) = (found, middle + 1),
                None => high = middle - 1,
            }
        }
        best
    }

    /// The boundaries from rank `first` up to `end` as positions on a short segment's line, if it tells them well enough
    /// from their neighbours.
    fn positions(&self, line: Line, first: usize, end: usize) -> Option<Coded> {
        let start = self.keys[first - 1];
        let mut coded = Coded { count: end - first, ..Coded::none(Form::Short, line) };
        let mut before = 0;
        for i in first..end {
            let steps = line.steps(self.keys[i] - start);
            let ambiguous = self.ambiguous(line, start, i, steps);
            if steps >= SHORT_STEPS || steps <= before || ambiguous > coded.form.ambiguity_max() {
                return None;
            }
            before = steps;
            coded.words.push(steps as u16);
            coded.ambiguity += ambiguous;
        }
        Some(coded)
    }

    /// The boundaries from rank `first` up to `end` in groups; up to the first that `line` does not tell well enough from
    /// its neighbours.
    fn groups(&self, width: Width, line: Line, first: usize, end: usize) -> Coded {
        let start = self.keys[first - 1];
        let centre = i64::from(line.centre) * CENTRE;
        let mut coded = Coded::none(Form::Long(width), line);
        let mut before = 0;
        for group in (first..end).step_by(CODES) {
            let deviation = |i: usize| {
                line.steps(self.keys[i] - start).saturating_sub(centre + (i - first) as i64 * STEP)
            };
            let mut whole = [0; CODES];
            let whole = &mut whole[..CODES.min(end - group)];
            whole.iter_mut().zip(group..).for_each(|(off, i)| *off = deviation(i));
            let mut deviations = &*whole;
            // The fewer boundaries, the finer the steps may be.
            while let [fewer @ .., _] = deviations {
                let head = Head::of(width, deviations);
                let told = head.and_then(|head| self.told_apart(head, &coded, first, deviations, before));
                if let Some((head, (last, ambiguity))) = head.zip(told) {
                    head.write(width, deviations, &mut coded.words);
                    coded.count += deviations.len();
                    coded.ambiguity += ambiguity;
                    before = last;
                    break;
                }
                deviations = fewer;
            }
            if deviations.len() < whole.len() {
                break;
            }
        }
        coded
    }

    /// Whether `head` tells these boundaries, the next ones of the segment of rank `first`, well enough from their
    /// neighbours, the nearest before which is taken to be at `before` steps: the steps at which the last is
    /// taken to be then, and the sum of what is [ambiguous](Builder::ambiguous) below each.
    fn told_apart(
        &self,
        head: Head,
        coded: &Coded,
        first: usize,
        deviations: &[i64],
        before: i64,
    ) -> Option<(i64, f64)> {
        let (line, ambiguity_max) = (coded.line, coded.form.ambiguity_max());
        let (mut last, mut ambiguity) = (before, 0.0);
        for (lane, &deviation) in deviations.iter().enumerate() {
            let i = first + coded.count + lane;
            let steps =
                head.rounded(lane, deviation) + (i - first) as i64 * STEP + i64::from(line.centre) * CENTRE;
            let ambiguous = self.ambiguous(line, self.keys[first - 1], i, steps);
            if steps <= last || ambiguous > ambiguity_max {
                return None;
            }
            last = steps;
            ambiguity += ambiguous;
        }
        Some((last, ambiguity))
    }

    /// The keys that have as many steps as boundary `i` is taken to have, in the segment that begins at `start`, beside
    /// those between the boundary and the nearer one of its neighbours.
    ///
    /// Steps are rounded down, so that the ambiguous keys are those right below the boundary. The key right above
    /// it is mostly very close, since a separator is a beginning of it; the one below is not. How close keys crowd is not known
    /// here, but that they crowd near the boundary can be seen on either side of it.
    fn ambiguous(&self, line: Line, start: u64, i: usize, steps: i64) -> f64 {
        let key = self.keys[i];
        let dx = key - start;
        // There are keys with so many steps: the boundary itself has at least these.
        let ambiguous = dx - line.least_with(steps.max(0)).unwrap_or(dx).min(dx);
        let below = key - self.keys[i - 1];
        // Equal boundaries begin a segment, and are not ambiguous.
        let nearer = self.keys.get(i + 1).map_or(below, |&next| below.min(next - key));
        ambiguous as f64 / nearer as f64
    }
}

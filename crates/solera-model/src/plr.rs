//! Greedy segments over block numbers, with windows that are sound: `Plr`, for Sherry's index and
//! LearnedKV's.
//!
//! `new` trains within γ blocks, by Xie et al.'s greedy algorithm as Sherry does; `within_entries`
//! within ε entries, by the hull. `window` gives the blocks that may hold a key. `encode` and
//! `decode` are its bytes.
//!
//! What must hold: a key's block lies in its window. Sherry's printed rule for overshoots loses
//! keys (docs/PAPERS.md, "Sherry: a window that loses no key"). So each segment keeps how far
//! blocks lie from predictions, measured at build with the function that queries use. A model from
//! untrusted bytes names only blocks that there are.
//! Callers: `index::sherry` in `solera`; `paper::sherry` in `solera-bench`.

use crate::{
    bytes::{Fields, Malformed, descent, part},
    hull::Hull,
};

/// Consecutive blocks, ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first block that may hold the key.
    pub first: usize,
    /// The block that the line says; in the window.
    pub predicted: usize,
    /// The last block that may hold it.
    pub last: usize,
}

/// One line: block over key.
#[derive(Clone, Copy, Debug)]
struct Segment {
    /// Where it begins.
    start: u64,
    /// Blocks per unit of key: finite, not negative.
    slope: f64,
    /// The block of the segment's first key, and the first that any of its keys may be in.
    first: u32,
    /// How far the line lies from that block at the start, in [`OFFSETS`]ths of a block.
    offset: i16,
    /// The least and the largest distance of a key's block from its prediction; the ends of `i8`
    /// stand for the ends of the segment.
    below: i8,
    above: i8,
}

/// Bytes of a stored segment.
const SEGMENT: usize = 24;
/// Offsets of a line are counted in these parts of a block.
const OFFSETS: f64 = 256.0;
/// Largest offset, in blocks.
const OFFSET_MAX: f64 = 120.0;

impl Segment {
    /// The predicted block of `x`, which is not below the start. Monotone.
    #[inline]
    fn predict(&self, x: u64, last: usize) -> usize {
        let blocks = self.slope * (x - self.start) as f64 + f64::from(self.offset) / OFFSETS;
        // A cast of floats saturates, and rounds to the next whole block below what is not
        // negative.
        let above = (blocks + OFFSET_MAX) as usize;
        (self.first as usize).saturating_add(above).saturating_sub(OFFSET_MAX as usize).min(last)
    }

    fn decode(row: &[u8; SEGMENT]) -> Segment {
        Segment {
            start: u64::from_le_bytes(part(row, 0)),
            slope: f64::from_le_bytes(part(row, 8)),
            first: u32::from_le_bytes(part(row, 16)),
            offset: i16::from_le_bytes(part(row, 20)),
            below: i8::from_le_bytes([row[22]]),
            above: i8::from_le_bytes([row[23]]),
        }
    }

    /// Whether these are segments of blocks up to `len`; else which is not, and what it should be.
    fn check(segments: &[Segment], len: usize) -> Result<(), (usize, &'static str)> {
        if segments.is_empty() != (len == 0) {
            return Err((0, "segments if there are boundaries, and none if not"));
        }
        if let Some(number) = descent(segments.iter().map(|segment| segment.start)) {
            return Err((number, "starts that ascend"));
        }
        let mut before = 0;
        for (number, segment) in segments.iter().enumerate() {
            if segment.first < before || segment.first as usize > len {
                return Err((number, "a first block from that of the segment before to the last"));
            }
            before = segment.first;
            if !segment.slope.is_finite() || segment.slope < 0.0 {
                return Err((number, "a slope that is finite and not negative"));
            }
            // Every segment has been measured at its start at least.
            if segment.below > segment.above {
                return Err((number, "distances of which the least is not above the largest"));
            }
        }
        Ok(())
    }
}

/// A model of block numbers.
#[derive(Clone, Debug)]
pub struct Plr {
    segments: Box<[Segment]>,
    /// Boundaries: one block less than there are.
    len: usize,
    /// Blocks between a key's own and the one that is predicted, on average over the ends of
    /// blocks.
    blocks_beside: f32,
}

/// How far the ends of blocks lie from where a segment predicts them.
#[derive(Default)]
struct Off {
    /// In sum, behind it and, negative, before it.
    sum: i64,
    /// In sum, either way.
    distance: i64,
    ends: i64,
}

/// The greedy algorithm's state: all lines within γ of the segment's points pass one pivot, nearly.
struct Cone {
    start: u64,
    first: f64,
    pivot: Option<(f64, f64)>,
    slopes: (f64, f64),
}

impl Cone {
    fn new(x: u64, y: f64) -> Cone {
        Cone { start: x, first: y, pivot: None, slopes: (0.0, 0.0) }
    }

    fn push(&mut self, x: u64, y: f64, gamma: f64) -> bool {
        let dx = (x - self.start) as f64;
        let Some((px, py)) = self.pivot else {
            // The lines through the first two points, γ up and γ down, cross in the middle.
            self.pivot = Some((dx / 2.0, (self.first + y) / 2.0));
            self.slopes =
                (((y - gamma) - (self.first + gamma)) / dx, ((y + gamma) - (self.first - gamma)) / dx);
            return true;
        };
        let run = dx - px;
        let (low, high) = ((y - gamma - py) / run, (y + gamma - py) / run);
        let slopes = (self.slopes.0.max(low), self.slopes.1.min(high));
        if slopes.0 > slopes.1 {
            return false;
        }
        self.slopes = slopes;
        true
    }

    fn slope(&self) -> f64 {
        ((self.slopes.0 + self.slopes.1) / 2.0).max(0.0)
    }

    /// How far the line lies from the first point.
    fn offset(&self) -> f64 {
        self.pivot.map_or(0.0, |(px, py)| py - self.slope() * px - self.first)
    }
}

impl Plr {
    /// The model of blocks between which these boundaries lie, ascending; within `gamma` blocks.
    /// `told(i)` says that no key of block `i`, which lies before boundary `i`, is equal to it.
    ///
    /// # Panics
    /// If there are 2^32 boundaries or more.
    pub fn new(keys: &[u64], gamma: f64, told: impl Fn(usize) -> bool) -> Plr {
        debug_assert!(keys.is_sorted());
        assert!(u32::try_from(keys.len()).is_ok(), "blocks are counted in 32 bits");
        let mut segments = Vec::new();
        let mut cone: Option<Cone> = None;
        let mut emit = |cone: &Cone| {
            segments.push(Segment {
                start: cone.start,
                slope: cone.slope(),
                first: cone.first as u32,
                offset: (cone.offset().clamp(-OFFSET_MAX, OFFSET_MAX) * OFFSETS) as i16,
                below: i8::MAX,
                above: i8::MIN,
            });
        };
        for (i, &x) in keys.iter().enumerate() {
            if i > 0 && keys[i - 1] == x {
                continue;
            }
            // The first block that a key equal to the boundary may be in.
            let block = if told(i) { i + 1 } else { i } as f64;
            if !cone.as_mut().is_some_and(|cone| cone.push(x, block, gamma)) {
                cone.iter().for_each(&mut emit);
                cone = Some(Cone::new(x, block));
            }
        }
        cone.iter().for_each(&mut emit);
        let mut plr = Plr { segments: segments.into(), len: keys.len(), blocks_beside: 0.0 };
        plr.measure(keys, told);
        plr
    }

    /// As [`Plr::new`], but of the longest segments there are, and the bound counts entries: no
    /// boundary lies further than `epsilon` of them from its segment's line, where each block has
    /// `per_block`, at least 1. Both are of the training alone: windows are measured.
    ///
    /// These are LearnedKV's models over a list of keys. Theirs begin with the line through a
    /// segment's first two points (docs/PAPERS.md, "LearnedKV: Greedy-PLR+").
    ///
    /// # Panics
    /// If the blocks have 2^32 entries or more.
    pub fn within_entries(keys: &[u64], epsilon: u32, per_block: u32, told: impl Fn(usize) -> bool) -> Plr {
        debug_assert!(keys.is_sorted());
        let per_block = per_block.max(1);
        let entries = (keys.len() as u64 + 1).saturating_mul(per_block.into());
        assert!(u32::try_from(entries).is_ok(), "entries are counted in 32 bits");
        // Offsets of stored lines are bounded.
        let epsilon = epsilon.min((OFFSET_MAX as u32 - 1).saturating_mul(per_block));
        let mut segments = Vec::new();
        let mut hull = Hull::new(epsilon);
        let (mut start, mut first) = (0, 0);
        let mut emit = |hull: &Hull, start: u64, first: usize| {
            let (slope, at_start) = hull.line();
            let offset = at_start / f64::from(per_block) - first as f64;
            segments.push(Segment {
                start,
                slope: slope / f64::from(per_block),
                first: first as u32,
                offset: (offset.clamp(-OFFSET_MAX, OFFSET_MAX) * OFFSETS) as i16,
                below: i8::MAX,
                above: i8::MIN,
            });
        };
        for (i, &x) in keys.iter().enumerate() {
            if i > 0 && keys[i - 1] == x {
                continue;
            }
            let block = if told(i) { i + 1 } else { i };
            if !hull.push(x, block as u32 * per_block) {
                emit(&hull, start, first);
                hull.clear();
                hull.push(x, block as u32 * per_block);
            }
            if hull.len() == 1 {
                (start, first) = (x, block);
            }
        }
        if !hull.is_empty() {
            emit(&hull, start, first);
        }
        let mut plr = Plr { segments: segments.into(), len: keys.len(), blocks_beside: 0.0 };
        plr.measure(keys, told);
        plr
    }

    /// Measures every segment's windows at the ends of the blocks, and how far predictions are off
    /// there.
    fn measure(&mut self, keys: &[u64], told: impl Fn(usize) -> bool) {
        let (mut at, mut beside, mut ends) = (0, 0, 0i64);
        let mut off_here = Off::default();
        for block in 0..=keys.len() {
            let lowest = if block == 0 { 0 } else { keys[block - 1] };
            let bound = keys.get(block).copied();
            // Between the lowest and the highest key another segment can begin only at the bound
            // itself.
            let highest = bound.map_or(Some(u64::MAX), |bound| bound.checked_sub(1).filter(|&x| x >= lowest));
            let between = [
                (Some(lowest), block > 0),
                (highest, bound.is_some()),
                (bound.filter(|_| !told(block)), false),
            ];
            for (x, is_end) in between {
                let Some(x) = x else { continue };
                let here = self.segment_from(at, x);
                if here > at {
                    beside += self.beside(at, &off_here);
                    (at, off_here) = (here, Off::default());
                }
                ends += i64::from(is_end);
                // Keys before the first segment are in the first block.
                let Some(number) = at.checked_sub(1) else { continue };
                let last = self.last(number);
                let segment = &mut self.segments[number];
                let predicted = segment.predict(x, last);
                let off = block as i64 - predicted as i64;
                if is_end {
                    // No search begins before the segment's first block.
                    let off = block as i64 - predicted.max(segment.first as usize) as i64;
                    off_here.sum += off;
                    off_here.distance += off.abs();
                    off_here.ends += 1;
                }
                let off = off.clamp(i8::MIN.into(), i8::MAX.into()) as i8;
                segment.below = segment.below.min(off);
                segment.above = segment.above.max(off);
            }
        }
        beside += self.beside(at, &off_here);
        self.blocks_beside = (beside as f64 / ends.max(1) as f64) as f32;
    }

    /// How far in sum the ends of blocks of the last of so many segments lie from the blocks that
    /// its window is searched from: the predicted ones, or what of the window is nearest to them.
    fn beside(&self, up_to: usize, off: &Off) -> i64 {
        let Some(number) = up_to.checked_sub(1) else { return 0 };
        let segment = &self.segments[number];
        match (i64::from(segment.below), i64::from(segment.above)) {
            (below @ 1.., _) => off.sum - below * off.ends,
            (_, above @ ..=-1) => above * off.ends - off.sum,
            _ => off.distance,
        }
    }

    /// How many segments do not begin above `x`, of which the first `at` are known not to.
    fn segment_from(&self, at: usize, x: u64) -> usize {
        at + self.segments[at..].iter().take_while(|segment| segment.start <= x).count()
    }

    /// The last block of a segment's keys.
    #[inline]
    fn last(&self, segment: usize) -> usize {
        self.segments.get(segment + 1).map_or(self.len, |next| next.first as usize)
    }

    /// The blocks that may hold `x`.
    #[inline]
    pub fn window(&self, x: u64) -> Window {
        self.window_of(self.segments.partition_point(|segment| segment.start <= x), x)
    }

    /// The window of `x`, above which so many segments do not begin.
    #[inline]
    fn window_of(&self, up_to: usize, x: u64) -> Window {
        let Some(number) = up_to.checked_sub(1) else { return Window { first: 0, predicted: 0, last: 0 } };
        let segment = &self.segments[number];
        let (first, last) = (segment.first as usize, self.last(number));
        let predicted = segment.predict(x, last);
        let below = if segment.below == i8::MIN { isize::MIN } else { segment.below.into() };
        let above = if segment.above == i8::MAX { isize::MAX } else { segment.above.into() };
        let (low, high) = (
            predicted.saturating_add_signed(below).clamp(first, last),
            predicted.saturating_add_signed(above).clamp(first, last),
        );
        Window { first: low, predicted: predicted.clamp(low, high), last: high }
    }

    /// Appends what [`Plr::decode`] reads. All numbers are little-endian:
    ///
    /// | what | how many bytes |
    /// |---|---|
    /// | [`len`](Plr::len) | 4 |
    /// | [`blocks_beside`](Plr::blocks_beside), a float | 4 |
    /// | how many segments | 4 |
    /// | every segment | 24 each |
    ///
    /// A segment is the first of its keys (8 bytes), which ascend strictly; blocks per unit of key,
    /// a float (8); the first block that any of its keys may be in (4), which ascends; and, signed,
    /// how far its line lies from that block at the start, in 256ths of a block (2), and the least
    /// and the largest distance of a key's block from its prediction (1 each).
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(12 + self.segments.len() * SEGMENT);
        out.extend((self.len as u32).to_le_bytes());
        out.extend(self.blocks_beside.to_le_bytes());
        out.extend((self.segments.len() as u32).to_le_bytes());
        for segment in &self.segments {
            out.extend(segment.start.to_le_bytes());
            out.extend(segment.slope.to_le_bytes());
            out.extend(segment.first.to_le_bytes());
            out.extend(segment.offset.to_le_bytes());
            out.extend(segment.below.to_le_bytes());
            out.extend(segment.above.to_le_bytes());
        }
    }

    /// The model that [`Plr::encode`] wrote at the beginning of `bytes`, and how many bytes those
    /// are; what follows is not looked at.
    ///
    /// The bytes may be anything. What decodes may be the model of other keys, or of none: windows
    /// are wrong then. But no query panics, and every window is one of blocks up to
    /// [`len`](Plr::len), with the predicted block in it.
    ///
    /// # Errors
    /// If the bytes end early, or say what cannot be.
    pub fn decode(bytes: &[u8]) -> Result<(Plr, usize), Malformed> {
        let mut fields = Fields::new(bytes);
        let len = fields.u32("how many boundaries")? as usize;
        let blocks_beside = fields.mean("how many blocks beside")?;
        let segments = fields.u32("how many segments")?;
        let segments_at = fields.at();
        let rows = fields.rows(segments, "all segments")?;
        let segments: Box<[Segment]> = rows.iter().map(Segment::decode).collect();
        Segment::check(&segments, len)
            .map_err(|(number, what)| Malformed { at: segments_at + number * SEGMENT, what })?;
        Ok((Plr { segments, len, blocks_beside }, fields.at()))
    }

    /// How far the predicted block lies from that of the key, on average over the last and first
    /// keys of blocks: so many blocks more than its own does a search read that goes from the one
    /// to the other.
    pub fn blocks_beside(&self) -> f64 {
        self.blocks_beside.into()
    }

    /// Segments.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Boundaries: one block less than there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no boundary: one block.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.segments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys with gaps of very different sizes, `per_block` in a block, and the first key of every
    /// block but the first.
    fn blocks(per_block: usize) -> (Vec<u64>, Vec<u64>) {
        let mut state = 5u64;
        let mut x = 0;
        let keys: Vec<u64> = (0..60_000)
            .map(|i| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                x += 1 + (state >> 33) % (1 << (4 + i / 400 % 12));
                x
            })
            .collect();
        let boundaries = keys.chunks(per_block).skip(1).map(|block| block[0]).collect();
        (keys, boundaries)
    }

    /// LearnedKV's bound counts entries, and its segments are the longest that keep it.
    #[test]
    fn windows_within_entries_hold_every_key_and_fewer_segments_have_wider_ones() {
        let (keys, boundaries) = blocks(100);
        let mut segments = Vec::new();
        for epsilon in [1, 8, 32, 128, 1000, u32::MAX] {
            let plr = Plr::within_entries(&boundaries, epsilon, 100, |_| false);
            let mut off_max = 0;
            for (at, &key) in keys.iter().enumerate() {
                let (window, block) = (plr.window(key), at / 100);
                assert!(window.first <= block && block <= window.last, "{epsilon}: {block} in {window:?}");
                off_max = off_max.max(window.predicted.abs_diff(block));
            }
            // Keys lie between two boundaries that are within the bound.
            let pages = epsilon.min(100 * 119).div_ceil(100) as usize;
            assert!(off_max <= pages + 2, "{epsilon}: {off_max} blocks off");
            let mut bytes = Vec::new();
            plr.encode(&mut bytes);
            let (again, len) = Plr::decode(&bytes).unwrap();
            assert_eq!((len, again.segments()), (bytes.len(), plr.segments()));
            segments.push(plr.segments());
        }
        assert!(segments.is_sorted_by(|a, b| a >= b) && segments[0] > 4 * segments[3], "{segments:?}");
        for keys in [&[][..], &[7], &[7, 7, 7], &[0, u64::MAX]] {
            let plr = Plr::within_entries(keys, 8, 10, |_| false);
            for x in [0, 6, 7, 8, u64::MAX] {
                let window = plr.window(x);
                assert!(window.first <= keys.partition_point(|&key| key <= x) && window.last <= keys.len());
            }
        }
    }

    /// A segment as Sherry stores it: start, slope, intercept.
    struct Printed(u64, f64, f64);

    /// Sherry's training as printed: one point per block, its first key.
    fn printed_segments(keys: &[u64], per_block: usize, gamma: f64) -> Vec<Printed> {
        let mut segments = Vec::new();
        let mut cone: Option<Cone> = None;
        let printed = |cone: &Cone| {
            let (px, py) = cone.pivot.unwrap_or((0.0, cone.first));
            Printed(cone.start, cone.slope(), py - cone.slope() * px)
        };
        for (block, keys) in keys.chunks(per_block).enumerate() {
            if !cone.as_mut().is_some_and(|cone| cone.push(keys[0], block as f64, gamma)) {
                segments.extend(cone.as_ref().map(printed));
                cone = Some(Cone::new(keys[0], block as f64));
            }
        }
        segments.extend(cone.as_ref().map(printed));
        segments
    }

    /// The window as printed, with its rule for overshooting.
    fn printed_window(segments: &[Printed], x: u64, gamma: f64) -> (f64, f64) {
        let number = segments.partition_point(|segment| segment.0 <= x) - 1;
        let at = |number: usize, x: u64| {
            let Printed(start, slope, intercept) = segments[number];
            slope * (x - start) as f64 + intercept
        };
        let predicted = at(number, x);
        let (low, high) = ((predicted - gamma).floor(), (predicted + gamma).ceil());
        match segments.get(number + 1) {
            Some(next) if at(number + 1, next.0) - gamma < high => {
                let first = at(number + 1, next.0);
                ((first - gamma).floor(), (first + gamma).ceil())
            }
            _ => (low, high),
        }
    }

    #[test]
    fn the_printed_overshoot_rule_loses_keys_and_the_measured_window_none() {
        for per_block in [10, 50] {
            let (keys, boundaries) = blocks(per_block);
            for gamma in [0.5, 1.0, 2.0] {
                let printed = printed_segments(&keys, per_block, gamma);
                let plr = Plr::new(&boundaries, gamma, |_| true);
                let mut lost = 0;
                for (i, &x) in keys.iter().enumerate() {
                    let block = i / per_block;
                    lost += usize::from(printed_window(&printed, x, gamma).0 > block as f64);
                    let window = plr.window(x);
                    assert!((window.first..=window.last).contains(&block), "{window:?} {block}");
                }
                assert!(lost > keys.len() / 1000, "{lost} of {} keys, γ {gamma}", keys.len());
            }
        }
    }

    #[test]
    fn a_larger_gamma_has_fewer_segments_and_wider_windows() {
        let (_, boundaries) = blocks(50);
        let models = [0.5, 1.0, 2.0].map(|gamma| Plr::new(&boundaries, gamma, |_| true));
        assert!(models.is_sorted_by(|a, b| a.segments() > b.segments()));
        assert!(models.is_sorted_by(|a, b| a.blocks_beside() < b.blocks_beside()));
    }

    #[test]
    fn blocks_beside_are_those_between_the_ends_of_blocks_and_what_is_predicted() {
        let (_, boundaries) = blocks(50);
        for gamma in [0.5, 1.0, 2.0] {
            let plr = Plr::new(&boundaries, gamma, |_| true);
            let off = |x: u64, block: usize| plr.window(x).predicted.abs_diff(block);
            let ends = boundaries.iter().enumerate().map(|(i, &x)| off(x - 1, i) + off(x, i + 1));
            let mean = ends.sum::<usize>() as f64 / (2 * boundaries.len()) as f64;
            assert!((plr.blocks_beside() - mean).abs() < 0.01, "γ {gamma}: {} {mean}", plr.blocks_beside());
        }
    }

    #[test]
    fn keys_equal_to_many_boundaries_have_windows_over_all_their_blocks() {
        let boundaries = [5, 9, 9, 9, 9, 20];
        let plr = Plr::new(&boundaries, 0.5, |i| !(1..5).contains(&i));
        for (x, low, high) in [(4, 0, 0), (5, 1, 1), (8, 1, 1), (9, 1, 5), (10, 5, 5), (20, 6, 6)] {
            let window = plr.window(x);
            assert!(window.first <= low && high <= window.last, "{x} {window:?}");
        }
    }

    #[test]
    fn models_that_queries_cannot_use_are_refused() {
        let (_, boundaries) = blocks(50);
        let plr = Plr::new(&boundaries, 1.0, |_| true);
        let refused = |change: &dyn Fn(&mut Plr)| {
            let mut changed = plr.clone();
            change(&mut changed);
            let mut bytes = Vec::new();
            changed.encode(&mut bytes);
            let malformed = Plr::decode(&bytes).expect_err("a lie");
            (malformed.at.saturating_sub(12) / SEGMENT, malformed.what)
        };
        let last = plr.segments() - 1;
        let first = "a first block from that of the segment before to the last";
        assert_eq!(refused(&|plr| plr.segments[2].first = plr.segments[1].first - 1), (2, first));
        assert_eq!(refused(&|plr| plr.segments[last].first = plr.len as u32 + 1), (last, first));
        assert_eq!(refused(&|plr| plr.len = plr.segments[last].first as usize - 1), (last, first));
        for start in [plr.segments[2].start, plr.segments[2].start - 1] {
            assert_eq!(refused(&|plr| plr.segments[3].start = start), (3, "starts that ascend"));
        }
        for slope in [f64::NAN, f64::INFINITY, -1e-300] {
            let what = "a slope that is finite and not negative";
            assert_eq!(refused(&|plr| plr.segments[1].slope = slope), (1, what));
        }
        let distances = "distances of which the least is not above the largest";
        assert_eq!(refused(&|plr| plr.segments[4].below = plr.segments[4].above + 1), (4, distances));
        for mean in [f32::NAN, f32::INFINITY, -1.0] {
            assert_eq!(refused(&|plr| plr.blocks_beside = mean).1, "how many blocks beside");
        }
        let none = "segments if there are boundaries, and none if not";
        assert_eq!(refused(&|plr| plr.segments = Box::default()), (0, none));
        assert_eq!(refused(&|plr| plr.len = 0), (0, none));
        let mut bytes = Vec::new();
        plr.encode(&mut bytes);
        for end in 0..bytes.len() {
            assert!(Plr::decode(&bytes[..end]).is_err(), "{end} bytes");
        }
        bytes[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(Plr::decode(&bytes).unwrap_err(), Malformed { at: 12, what: "all segments" });
    }
}

//! Boundaries as bytes: `Boundaries::encode` and `decode`, so that a reader need not build what a
//! writer did.
//!
//! `encode` has the layout. `decode` checks what queries index by: starts ascend, each segment has
//! as many words as its codes need, and ranks add up.
//!
//! What must hold: nothing is allocated for a count before its bytes are there. What codes and
//! lines say is not checked: it makes answers wrong, not unsafe. Nor slow: no query goes on for
//! more than 33 groups back, or 2 ahead.
//!
//! Callers: `index::learned::{nodes, clusters}` in `solera`, for an index in a table.

use super::{Boundaries, FINE, Form, LEN_MAX, Line, Segment};
use crate::{
    bytes::{Fields, Malformed, descent, part},
    lanes::{CODES, Lanes, WIDE_WORDS, fine_words, group_words},
    stree::STree,
};

/// Bytes of a segment, without its start.
const SEGMENT: usize = 12;

impl Boundaries {
    /// Appends what [`Boundaries::decode`] reads. All numbers are little-endian:
    ///
    /// | what | how many bytes |
    /// |---|---|
    /// | [`len`](Boundaries::len) | 4 |
    /// | [`ambiguity`](Boundaries::ambiguity), a float | 4 |
    /// | how many segments | 4 |
    /// | how many words | 4 |
    /// | the first boundary of every segment, strictly ascending | 8 each |
    /// | every segment | 12 each |
    /// | the words | 2 each |
    ///
    /// A segment is how many boundaries are not above its first one (4 bytes); where its words
    /// begin and what they are (4); and its line: the factor (2), the shift (1) and the centre (1,
    /// signed). Of the second number the lowest 4 bits say how many codes the last group has beyond
    /// full ones, and the 2 bits above whether there are no groups (0), or which their codes' width
    /// is: 12 bits (1), 16 (2) or 10 (3); the others are the number of the segment's first word.
    /// Its words end where those of the next segment begin. Where there are no groups, the lowest 4
    /// bits say whether positions have 16 bits (0) or 24 (1). Those of 24 are a word each for the
    /// upper bits, then words of two for the lower bits.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let words = &self.words[..self.words.len() - WIDE_WORDS];
        out.reserve(16 + self.segments.len() * (8 + SEGMENT) + words.len() * 2);
        out.extend((self.len as u32).to_le_bytes());
        out.extend(self.ambiguity.to_le_bytes());
        out.extend((self.segments.len() as u32).to_le_bytes());
        out.extend((words.len() as u32).to_le_bytes());
        for number in 0..self.segments.len() {
            out.extend(self.starts.get(number).to_le_bytes());
        }
        for segment in &self.segments {
            out.extend(segment.rank.to_le_bytes());
            out.extend(segment.codes.to_le_bytes());
            out.extend(segment.line.factor.to_le_bytes());
            out.push(segment.line.shift);
            out.extend(segment.line.centre.to_le_bytes());
        }
        for word in words {
            out.extend(word.to_le_bytes());
        }
    }

    /// The boundaries that [`Boundaries::encode`] wrote at the beginning of `bytes`, and how many
    /// bytes those are; what follows is not looked at. Queries use [`Lanes::detect`].
    ///
    /// The bytes may be anything. What decodes may be boundaries of other keys, or of none: answers
    /// are wrong then, and what is told [early](Boundaries::place_early) may be far from them. But
    /// no query panics, no rank is above [`len`](Boundaries::len), not the early one either, and
    /// every [`start`](super::Place::start) is that of a segment.
    ///
    /// # Errors
    /// If the bytes end early, or say what cannot be.
    pub fn decode(bytes: &[u8]) -> Result<(Boundaries, usize), Malformed> {
        let mut fields = Fields::new(bytes);
        let len = fields.u32("how many boundaries")? as usize;
        if len > LEN_MAX {
            return Err(Malformed { at: 0, what: "how many boundaries, in 25 bits" });
        }
        let ambiguity = fields.mean("an ambiguity")?;
        let segments = fields.u32("how many segments")?;
        let words = fields.u32("how many words")?;
        let starts_at = fields.at();
        let starts = fields.rows(segments, "a start for every segment")?;
        let segments_at = fields.at();
        let segments = fields.rows(segments, "all segments")?;
        let coded = fields.rows(words, "all words")?;

        let starts: Vec<u64> = starts.iter().copied().map(u64::from_le_bytes).collect();
        if let Some(number) = descent(starts.iter().copied()) {
            return Err(Malformed { at: starts_at + number * 8, what: "starts that ascend" });
        }
        let segments: Box<[Segment]> = segments.iter().map(Segment::decode).collect();
        Segment::check(&segments, len, coded.len())
            .map_err(|(number, what)| Malformed { at: segments_at + number * SEGMENT, what })?;
        let mut words = Vec::with_capacity(coded.len() + WIDE_WORDS);
        words.extend(coded.iter().copied().map(u16::from_le_bytes));
        words.extend([u16::MAX; WIDE_WORDS]);
        let lanes = Lanes::detect();
        let starts = STree::with_lanes(&starts, lanes);
        let boundaries = Boundaries { starts, segments, words: words.into(), len, lanes, ambiguity };
        Ok((boundaries, fields.at()))
    }
}

impl Segment {
    fn decode(row: &[u8; SEGMENT]) -> Segment {
        let line = Line {
            factor: u16::from_le_bytes(part(row, 8)),
            shift: row[10],
            centre: i8::from_le_bytes([row[11]]),
        };
        Segment { rank: u32::from_le_bytes(part(row, 0)), codes: u32::from_le_bytes(part(row, 4)), line }
    }

    /// Whether these are all segments of `len` boundaries and so many words; else which is not, and
    /// what it should be.
    fn check(segments: &[Segment], len: usize, words: usize) -> Result<(), (usize, &'static str)> {
        if segments.first().map_or(words, |first| first.words_at()) != 0 {
            return Err((0, "a segment that begins with the first word"));
        }
        // Ranks are added up in 64 bits, wherever that is: neither they nor counts are known to be
        // small yet.
        let mut counted = 0u64;
        for (number, segment) in segments.iter().enumerate() {
            let end = segments.get(number + 1).map_or(words, |next| next.words_at());
            // The boundary that a segment begins with is not among those of the segment before.
            if u64::from(segment.rank) <= counted {
                return Err((number, "a rank above those of the segment before"));
            }
            if u32::from(segment.line.shift) >= u128::BITS {
                return Err((number, "a shift of less than 128"));
            }
            let count = end.checked_sub(segment.words_at()).and_then(|words| segment.count_of(words));
            let count = count.ok_or((number, "as many words as the segment's codes have"))?;
            counted = u64::from(segment.rank) + count as u64;
        }
        if counted != len as u64 {
            return Err((segments.len().saturating_sub(1), "segments of all boundaries"));
        }
        Ok(())
    }

    /// Codes of a segment of so many words; `None` if it cannot have so many. Not 0 if there are
    /// words.
    fn count_of(self, words: usize) -> Option<usize> {
        let rest = self.rest();
        let group = match self.form() {
            Form::Short => return (words <= CODES).then_some(words),
            Form::Fine => {
                let count = words * 2 / 3;
                let is_of_count = rest == FINE && count <= CODES && words == fine_words(count);
                return is_of_count.then_some(count);
            }
            Form::Long(width) => group_words(width.bits()),
        };
        let full = words.checked_sub(Segment::words_of_rest(rest, group))?;
        full.is_multiple_of(group).then_some(full / group * CODES + rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boundaries::group::Width;

    /// Bytes of a header.
    const HEADER: usize = 16;

    /// Boundaries in segments of every form, one without words first.
    fn boundaries() -> Boundaries {
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let (mut at, mut keys) = (7, vec![7, 7]);
        // From even gaps to such of 1 to 2^49.
        for (octaves, least) in [(1, 1 << 40), (2, 1 << 20), (5, 1 << 20), (50, 1)] {
            at += 1 << 55;
            for _ in 0..200 {
                at += least << random(octaves);
                keys.push(at);
            }
        }
        let boundaries = Boundaries::new(&keys, |i| i == 2);
        let longs = [Width::Ten, Width::Twelve, Width::Sixteen].map(Form::Long);
        for form in longs.into_iter().chain([Form::Short, Form::Fine]) {
            let of_form = boundaries.segments.iter().position(|segment| segment.form() == form);
            assert!(of_form.is_some(), "{form:?}");
        }
        assert_eq!(boundaries.segments[1].words_at(), 0);
        boundaries
    }

    /// What is refused of boundaries if their segments are changed; and of which segment.
    fn refused(change: impl Fn(&mut [Segment])) -> (usize, &'static str) {
        let mut boundaries = boundaries();
        change(&mut boundaries.segments);
        let mut bytes = Vec::new();
        boundaries.encode(&mut bytes);
        let malformed = Boundaries::decode(&bytes).expect_err("a lie");
        let segments_at = HEADER + boundaries.segments.len() * 8;
        (malformed.at.saturating_sub(segments_at) / SEGMENT, malformed.what)
    }

    /// What is refused of their bytes if those are changed.
    fn refused_bytes(change: impl Fn(&mut Vec<u8>)) -> Malformed {
        let mut bytes = Vec::new();
        boundaries().encode(&mut bytes);
        change(&mut bytes);
        Boundaries::decode(&bytes).expect_err("a lie")
    }

    fn first_of(form: Form) -> usize {
        boundaries().segments.iter().position(|segment| segment.form() == form).unwrap()
    }

    #[test]
    fn ranks_that_do_not_add_up_are_refused() {
        let last = boundaries().segments.len() - 1;
        let above = "a rank above those of the segment before";
        let all = "segments of all boundaries";
        assert_eq!(refused(|segments| segments[0].rank = 0), (0, above));
        assert_eq!(refused(|segments| segments[3].rank = segments[2].rank), (3, above));
        assert_eq!(
            refused(|segments| segments[2].rank += 1),
            (3, above),
            "it ends where the next one begins"
        );
        assert_eq!(refused(|segments| segments[last].rank += 1), (last, all));
        assert_eq!(refused(|segments| segments[last].rank = u32::MAX), (last, all));
        for by in [1, -1] {
            let changed = refused_bytes(|bytes| bytes[0] = bytes[0].wrapping_add_signed(by));
            assert_eq!(changed.what, all);
        }
        let too_many = refused_bytes(|bytes| bytes[..4].copy_from_slice(&(1u32 << 25).to_le_bytes()));
        assert_eq!(too_many, Malformed { at: 0, what: "how many boundaries, in 25 bits" });
    }

    #[test]
    fn words_that_are_not_those_of_the_codes_are_refused() {
        let what = "as many words as the segment's codes have";
        let longs = [Width::Ten, Width::Twelve, Width::Sixteen].map(Form::Long);
        for form in longs.into_iter().chain([Form::Short, Form::Fine]) {
            let number = first_of(form);
            // Whether or not one code more takes a word more, ranks do not add up to it. Of
            // positions nothing but 0 and 1 stands there.
            let other = if matches!(form, Form::Long(_)) { 1 } else { 2 };
            refused(|segments| segments[number].codes ^= other);
            let moved = refused(|segments| segments[number + 1].codes += 1 << 6);
            assert!(moved == (number, what) || moved.0 == number + 1, "{form:?}: {moved:?}");
            assert_eq!(refused(|segments| segments[number + 1].codes |= 1 << 31).1, what, "{form:?}");
        }
        let first = refused(|segments| segments[0].codes += 1 << 6);
        assert_eq!(first, (0, "a segment that begins with the first word"));
        let last = boundaries().segments.len() - 1;
        assert_eq!(refused(|segments| segments[last].codes |= 1 << 31), (last - 1, what));
        let short = Segment { codes: 0, ..boundaries().segments[0] };
        assert_eq!((short.count_of(16), short.count_of(17)), (Some(16), None));
        // Two fine positions take three words; no number of them takes one, four or 25.
        let fine = Segment { codes: 1, ..short };
        let counts = [0, 1, 2, 3, 4, 5, 6, 23, 24, 25, 26].map(|words| fine.count_of(words));
        let expected =
            [Some(0), None, Some(1), Some(2), None, Some(3), Some(4), Some(15), Some(16), None, None];
        assert_eq!(counts, expected);
        for rest in 2..16 {
            let neither = Segment { codes: rest, ..short };
            assert!((0..40).all(|words| neither.count_of(words).is_none()), "{rest}");
        }
    }

    #[test]
    fn counts_of_words_are_those_that_queries_take() {
        for (form, width) in [(1, Width::Twelve), (2, Width::Sixteen), (3, Width::Ten)] {
            for codes in 0..100 {
                let segment = Segment { codes: (form << 4) | (codes % 16), rank: 1, line: Line::default() };
                assert_eq!(segment.form(), Form::Long(width));
                let bits = codes as usize % CODES * width.bits();
                let words = codes as usize / CODES * group_words(width.bits())
                    + if bits > 0 { 1 + bits.div_ceil(16) } else { 0 };
                assert_eq!(segment.count_of(words), Some(codes as usize), "{width:?}");
                assert_ne!(segment.count_of(words + 1), Some(codes as usize), "{width:?}");
                // A query takes the group with the last word for the last one.
                let last = words.saturating_sub(1) / group_words(width.bits());
                let of_last = if segment.rest() > 0 { segment.rest() } else { CODES };
                let of_query = if words == 0 { 0 } else { last * CODES + of_last };
                assert_eq!(of_query, codes as usize);
            }
        }
    }

    #[test]
    fn starts_shifts_and_means_that_queries_cannot_use_are_refused() {
        let shift = refused(|segments| segments[2].line.shift = 128);
        assert_eq!(shift, (2, "a shift of less than 128"));
        for below in [0, 1] {
            let starts = refused_bytes(|bytes| {
                let first = u64::from_le_bytes(part(bytes, HEADER)) - below;
                bytes[HEADER + 8..HEADER + 16].copy_from_slice(&first.to_le_bytes());
            });
            assert_eq!(starts, Malformed { at: HEADER + 8, what: "starts that ascend" });
        }
        for mean in [f32::NAN, f32::INFINITY, -1.0] {
            let mean = refused_bytes(|bytes| bytes[4..8].copy_from_slice(&mean.to_le_bytes()));
            assert_eq!(mean, Malformed { at: 4, what: "an ambiguity" });
        }
    }

    #[test]
    fn counts_of_more_than_there_is_are_refused_before_anything_is_made_of_them() {
        for (at, what) in [(8, "a start for every segment"), (12, "all words")] {
            for count in [u32::MAX, 1 << 31, 1 << 20] {
                let refused = refused_bytes(|bytes| bytes[at..at + 4].copy_from_slice(&count.to_le_bytes()));
                assert_eq!(refused.what, what);
            }
        }
        let mut bytes = Vec::new();
        boundaries().encode(&mut bytes);
        for end in 0..bytes.len() {
            assert!(Boundaries::decode(&bytes[..end]).is_err(), "{end} bytes");
        }
    }
}

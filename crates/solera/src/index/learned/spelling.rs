//! Words as numbers: `Spelling`, the arithmetic code of a text (Witten, Neal and Cleary, CACM
//! 1987), letters in order.
//!
//! In language each letter is followed by a few others, so big-endian numbers lie in clusters that
//! no line follows. Each letter divides what is left of 64 bits among those that follow it, as
//! often as they do. `of` counts that in separators and the last keys around them. Texts are then
//! spread evenly, and a number tells some sixteen letters.
//!
//! What must hold: `number` is monotone for keys with any bytes: `a <= b` implies `number(a) <=
//! number(b)`.
//! Callers: `index::learned` builds one where nodes without it take many bytes; `heads` uses it as
//! heads.

use crate::codec::{DecodeError, Decoder, put_varint};

/// Fewer separators than this are not worth the table.
const SEPARATORS_MIN: usize = 512;
/// Most letters.
const LETTERS_MAX: usize = 120;
/// So many bytes of a text are looked at, at most: no more than is kept of last keys.
const LOOKED_AT: usize = 32;
/// The table takes a byte for so many separators at most, beyond [`TABLE_BYTES`].
const TABLE_OF: usize = 2;
const TABLE_BYTES: usize = 512;
/// Marks what is not a letter.
const OTHER: u8 = 1 << 7;
/// What a row's slots add up to.
const WHOLE: u64 = u8::MAX as u64;
/// Bits by which what is left is divided.
const SHIFT: u32 = u8::BITS;

/// How often each letter follows each other one in some texts.
struct Followers {
    /// Which letter a byte is, from 1 on, as they came first; 0 if it is none.
    letters: [u8; 256],
    /// How often each of 256 bytes comes first in a text; then behind each letter.
    behind: Vec<u32>,
    /// How many texts are empty; then how many end with each letter.
    ended: Vec<u32>,
}

impl Followers {
    /// `None` if the texts have too many letters: numbers say so within a few keys.
    fn of<'t>(texts: impl Iterator<Item = &'t [u8]>) -> Option<Followers> {
        let mut followers = Followers { letters: [0; 256], behind: vec![0; 256], ended: vec![0] };
        for text in texts {
            followers.count(text);
            if followers.letters() > LETTERS_MAX {
                return None;
            }
        }
        Some(followers)
    }

    fn count(&mut self, text: &[u8]) {
        let mut letter = 0;
        for &byte in looked_at(text) {
            self.behind[letter << u8::BITS | usize::from(byte)] += 1;
            letter = usize::from(self.letters[usize::from(byte)]);
            if letter == 0 {
                letter = self.ended.len();
                self.letters[usize::from(byte)] = letter as u8;
                self.behind.resize(self.behind.len() + 256, 0);
                self.ended.push(0);
            }
        }
        self.ended[letter] += u32::from(text.len() < LOOKED_AT);
    }

    /// Letters.
    fn letters(&self) -> usize {
        self.ended.len() - 1
    }

    /// How often each byte comes.
    fn times(&self) -> [usize; 256] {
        let mut times = [0; 256];
        for row in self.behind.chunks(256) {
            times.iter_mut().zip(row).for_each(|(times, more)| *times += *more as usize);
        }
        times
    }

    /// The beginning (`None`) and each letter: how often each byte follows it, and a text's end.
    fn rows(&self) -> impl Iterator<Item = (Option<u8>, &[u32], u32)> {
        let row = |number: usize| (&self.behind[number << u8::BITS..][..256], self.ended[number]);
        let letters = (0..=u8::MAX).filter(|byte| self.letters[usize::from(*byte)] > 0);
        let of_letter = move |letter: u8| {
            let (behind, ended) = row(self.letters[usize::from(letter)].into());
            (Some(letter), behind, ended)
        };
        let (behind, ended) = row(0);
        std::iter::once((None, behind, ended)).chain(letters.map(of_letter))
    }
}

/// A monotone map from bytes to numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spelling {
    /// Of each byte how many letters are below it; marked if it is none itself.
    digits: [u8; 256],
    /// Where in `slots` the row behind each letter begins, of as many letters as a digit can count.
    rows: [u16; OTHER as usize],
    /// Slots of a row: the letters, and one.
    stride: u16,
    /// Rows of where slots begin, of 255: a text's end, which begins at 0 and has no place here,
    /// then each letter, and where the last one ends. The first row is that of a beginning.
    slots: Box<[u8]>,
}

impl Spelling {
    /// How the letters of these texts follow each other. `None` if there are few texts or many
    /// letters.
    pub(super) fn of<'t>(texts: impl Iterator<Item = &'t [u8]>, separators: usize) -> Option<Spelling> {
        if separators < SEPARATORS_MIN {
            return None;
        }
        let followers = Followers::of(texts)?;
        let count = followers.letters();
        if count < 2 {
            return None;
        }
        let times = followers.times();
        let is_letter = times.map(|times| times > 0);
        let mut below = 0;
        let digits = is_letter.map(|is| {
            let digit = below | if is { 0 } else { OTHER };
            below += u8::from(is);
            digit
        });
        // The letters that come most have rows of their own, the others share one.
        let rows = ((TABLE_BYTES + separators / TABLE_OF) / (count + 1)).saturating_sub(2).min(count);
        let mut by_times: Vec<(usize, u8)> = (0..=u8::MAX)
            .filter(|&byte| is_letter[usize::from(byte)])
            .map(|byte| (times[usize::from(byte)], digits[usize::from(byte)]))
            .collect();
        by_times.sort_by(|a, b| b.cmp(a));
        let mut row_behind = vec![1 + rows as u8; count];
        by_times[..rows]
            .iter()
            .enumerate()
            .for_each(|(row, (_, digit))| row_behind[usize::from(*digit)] = 1 + row as u8);
        let mut counts = vec![0u32; (rows + 2) * (count + 1)];
        for (letter, behind, ended) in followers.rows() {
            let row = letter.map_or(0, |letter| row_behind[usize::from(digits[usize::from(letter)])]);
            let row = &mut counts[usize::from(row) * (count + 1)..][..count + 1];
            row[0] += ended;
            let of_letters = behind.iter().zip(&is_letter).filter(|(_, is)| **is).map(|(times, _)| times);
            row[1..].iter_mut().zip(of_letters).for_each(|(count, times)| *count += times);
        }
        let slots = counts.chunks(count + 1).flat_map(slots_of).collect();
        Some(Spelling::new(digits, &row_behind, slots))
    }

    /// The spelling of these digits, and of the row behind each letter, which is one of those in
    /// `slots`.
    fn new(digits: [u8; 256], row_behind: &[u8], slots: Box<[u8]>) -> Spelling {
        let stride = row_behind.len() as u16 + 1;
        let mut rows = [0; OTHER as usize];
        rows.iter_mut().zip(row_behind).for_each(|(at, &row)| *at = u16::from(row) * stride);
        Spelling { digits, rows, stride, slots }
    }

    /// Letters.
    fn letters(&self) -> usize {
        usize::from(self.stride) - 1
    }

    /// Appends which bytes are letters (a bit of each, the first the lowest of its byte), the row
    /// behind each (u8), how many rows there are (varint) and the rows: where slots begin (u8).
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let bits = |eight: &[u8]| {
            (0..).zip(eight).map(|(bit, digit)| u8::from(digit & OTHER == 0) << bit).sum::<u8>()
        };
        out.extend(self.digits.chunks(8).map(bits));
        out.extend(self.rows[..self.letters()].iter().map(|&row| (row / self.stride) as u8));
        put_varint(out, (self.slots.len() / usize::from(self.stride)) as u64);
        out.extend(&self.slots);
    }

    /// Reads what [`Spelling::encode`] wrote. Any spelling gives a monotone map.
    pub(super) fn decode(decoder: &mut Decoder<'_>) -> Result<Spelling, DecodeError> {
        let bits = decoder.take(256 / 8, "which bytes are letters")?;
        let mut below = 0u32;
        let digits = std::array::from_fn(|byte| {
            let is = bits[byte / 8] >> (byte % 8) & 1 == 1;
            let digit = below.min(OTHER.into()) as u8 | if is { 0 } else { OTHER };
            below += u32::from(is);
            digit
        });
        let count = below as usize;
        if !(2..=LETTERS_MAX).contains(&count) {
            return decoder.fail("2 to 120 letters");
        }
        let row_behind = decoder.take(count, "the rows behind letters")?;
        let rows = decoder.varint_up_to(count as u64 + 2, "how many rows there are")? as usize;
        if row_behind.iter().any(|&row| usize::from(row) >= rows) {
            return decoder.fail("a row behind each letter");
        }
        let slots: Box<[u8]> = decoder.take(rows * (count + 1), "where slots begin")?.into();
        if !slots.chunks(count + 1).all(<[u8]>::is_sorted) {
            return decoder.fail("slots in their order");
        }
        Ok(Spelling::new(digits, row_behind, slots))
    }

    /// The number of a text: where its slot begins.
    #[inline]
    pub(super) fn number(&self, text: &[u8]) -> u64 {
        let (mut low, mut left, mut row) = (0u64, u64::MAX, 0);
        for &byte in looked_at(text) {
            let digit = usize::from(self.digits[usize::from(byte)]);
            let unit = left >> SHIFT;
            if digit >= usize::from(OTHER) {
                return low + unit * u64::from(self.slots[row + digit - usize::from(OTHER)]);
            }
            // The end first: then it alone is checked.
            let end = u64::from(self.slots[row + digit + 1]);
            let start = u64::from(self.slots[row + digit]);
            low += unit * start;
            left = unit * (end - start);
            if left >> SHIFT == 0 {
                return low;
            }
            row = usize::from(self.rows[digit]);
        }
        low
    }

    /// Bytes on the heap.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Spelling>() + self.slots.len()
    }
}

fn looked_at(text: &[u8]) -> &[u8] {
    &text[..text.len().min(LOOKED_AT)]
}

/// Where the slots of a row begin whose symbols came so often, the end of a text first; whose own
/// slot is before the first of them.
fn slots_of(counts: &[u32]) -> Vec<u8> {
    let total = counts.iter().map(|&count| u64::from(count)).sum::<u64>();
    let used = counts.iter().filter(|&&count| count > 0).count() as u64;
    // What came has a slot; what is left goes by how often.
    let free = WHOLE - used;
    let (mut sum, mut symbols) = (0, 0);
    counts
        .iter()
        .map(|&count| {
            sum += u64::from(count);
            symbols += u64::from(count > 0);
            (symbols + sum * free / total.max(1)) as u8
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(texts: &[Vec<u8>]) -> Option<Spelling> {
        Spelling::of(texts.iter().map(|text| &text[..]), SEPARATORS_MIN)
    }

    fn stored(spelling: &Spelling) -> Spelling {
        let mut bytes = Vec::new();
        spelling.encode(&mut bytes);
        let mut decoder = Decoder::new(&bytes);
        let again = Spelling::decode(&mut decoder).unwrap();
        decoder.finish("the end").unwrap();
        again
    }

    #[test]
    fn texts_lie_the_closer_the_likelier_they_are() {
        let texts: Vec<Vec<u8>> = ["banana", "bandana", "cabana"].map(|text| text.into()).to_vec();
        let spelling = of(&texts).unwrap();
        let number = |text: &str| spelling.number(text.as_bytes());
        assert!(number("banana") < number("bandana") && number("bandana") < number("cabana"));
        // After `b` comes `a` always.
        assert!(number("bb") - number("b") > u64::MAX / 8 * 5 && number("c") > number("bz"));
        // What is no letter lies right below the letter above it.
        assert_eq!(number("bam"), number("ban"));
        assert_eq!(number("~"), number("zzz"));
        assert_eq!((number(""), number("\0")), (0, number("a")));
    }

    #[test]
    fn few_texts_and_many_letters_have_no_spelling() {
        let all: Vec<Vec<u8>> = (0..=u8::MAX).map(|byte| vec![byte]).collect();
        assert!(of(&all).is_none() && of(&all[..LETTERS_MAX]).is_some() && of(&all[..1]).is_none());
        assert!(Spelling::of(all[..20].iter().map(|text| &text[..]), SEPARATORS_MIN - 1).is_none());
        let rows = |separators: usize| {
            let texts = all[..LETTERS_MAX].iter().map(|text| &text[..]);
            Spelling::of(texts, separators).unwrap().slots.len() / (LETTERS_MAX + 1)
        };
        assert!(rows(SEPARATORS_MIN) < 7 && rows(1 << 20) == LETTERS_MAX + 2);
    }

    proptest! {
        #[test]
        fn numbers_ascend_with_texts_whatever_these_are(
            texts in prop::collection::vec(prop::collection::vec(prop_oneof![0u8..6, 200u8..203], 0..40), 2..60),
            others in prop::collection::vec(prop::collection::vec(prop_oneof![0u8..8, 198u8..205, any::<u8>()], 0..40), 0..60),
        ) {
            let Some(spelling) = of(&texts) else { return Ok(()) };
            prop_assert_eq!(&stored(&spelling), &spelling);
            let mut all: Vec<&Vec<u8>> = texts.iter().chain(&others).collect();
            all.sort();
            let numbers: Vec<u64> = all.iter().map(|text| spelling.number(text)).collect();
            prop_assert!(numbers.is_sorted(), "{:?} {:?}", all, numbers);
        }

        #[test]
        fn any_bytes_are_a_spelling_or_none(
            mut letters in prop::collection::vec(any::<u8>(), 32),
            bytes in prop::collection::vec(any::<u8>(), 0..400),
            few: bool,
            mut texts: Vec<Vec<u8>>,
        ) {
            if few {
                letters[1..].fill(0);
            }
            if let Ok(spelling) = Spelling::decode(&mut Decoder::new(&[letters, bytes].concat())) {
                texts.sort();
                prop_assert!(texts.iter().map(|text| spelling.number(text)).is_sorted());
            }
        }
    }
}

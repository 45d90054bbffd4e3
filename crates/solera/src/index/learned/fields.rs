//! Composite keys as numbers: `Fields`, the bits that keys use, close to each other, without those
//! that never change.
//!
//! An order and a line, 32 bits each, use some 20 bits and 8. As one number of 64 bits, orders lie
//! so far apart that no line follows both. Without the fixed bits they are neighbours, and more
//! than eight bytes of a key fit into a number. `of` learns from texts which bits are used, in at
//! most 6 runs.
//!
//! What must hold: `number` is monotone for keys with any bytes: `a <= b` implies `number(a) <=
//! number(b)`. A key that differs in a fixed bit gets the number of the nearest key that does not.
//!
//! Caller: `index::learned::heads`.

use crate::{
    codec::{DecodeError, Decoder},
    key::head,
};

/// So many words of eight bytes are looked at.
const WORDS: usize = 3;
/// Bits of a number.
const BITS: u32 = u64::BITS;
/// Consecutive bits that are kept are one run; so many runs are cut out of a key at most.
const RUNS_MAX: usize = 6;
/// Less than so many unused bits between used ones are not worth the work.
const UNUSED_MIN: u32 = 4;

/// Which bits of a text make a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fields {
    /// The bits that are kept, 64 at most.
    kept: [u64; WORDS],
    /// What the bits above the last that is kept are, where they are not kept themselves; zeros
    /// elsewhere.
    constant: [u64; WORDS],
    /// The bits that must be as [`Fields::constant`] says.
    fixed: [u64; WORDS],
    /// So many words have bits that are kept.
    words: u8,
    runs: Box<[Run]>,
}

/// Consecutive bits of a word, and where they go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    word: u8,
    /// By how much the word is shifted down, so that the run is lowest.
    down: u8,
    /// By how much the run is shifted up then.
    up: u8,
    mask: u64,
}

impl Run {
    /// The run out of its word, where it goes.
    #[inline]
    fn cut_out(&self, word: u64) -> u64 {
        (word >> (u32::from(self.down) % BITS) & self.mask) << (u32::from(self.up) % BITS)
    }
}

/// The words of a text, as if it went on with zeros.
#[inline]
fn words(text: &[u8]) -> [u64; WORDS] {
    match text.len() <= size_of::<u64>() {
        true => [head(text), 0, 0],
        false => std::array::from_fn(|word| word_at(text, word)),
    }
}

#[inline]
fn word_at(text: &[u8], word: usize) -> u64 {
    head(text.get(8 * word..).unwrap_or_default())
}

impl Fields {
    /// The fields of these texts; `None` if they leave hardly a bit between others unused.
    pub(super) fn of<'t>(mut texts: impl Iterator<Item = &'t [u8]>) -> Option<Fields> {
        let first = words(texts.next()?);
        let mut used = [0; WORDS];
        // Iterators of iterators are faster from within.
        texts.for_each(|text| {
            let words = words(text);
            (0..WORDS).for_each(|word| used[word] |= words[word] ^ first[word]);
        });
        let kept = kept_of(used);
        let fields = Fields::with(kept, first)?;
        let leading = lead(kept);
        let unused = fields.fixed.iter().map(|fixed| fixed.count_ones()).sum::<u32>() - leading;
        (unused >= UNUSED_MIN).then_some(fields)
    }

    /// The fields of these bits, where the others are as those of `like`. `None` if there are none,
    /// or more than a number holds, or more runs than are cut out.
    fn with(kept: [u64; WORDS], like: [u64; WORDS]) -> Option<Fields> {
        let last = (0..WORDS).rev().find(|&word| kept[word] != 0)?;
        let mut fixed = [0; WORDS];
        fixed[..=last].fill(u64::MAX);
        fixed[last] = u64::MAX << kept[last].trailing_zeros();
        (0..WORDS).for_each(|word| fixed[word] &= !kept[word]);
        let mut left = kept.iter().map(|bits| bits.count_ones()).sum::<u32>();
        if left > BITS {
            return None;
        }
        let mut runs = Vec::new();
        for (word, mut bits) in (0..).zip(kept) {
            while bits != 0 {
                let above = bits.leading_zeros();
                let len = (bits << above).leading_ones();
                let down = BITS - above - len;
                left -= len;
                let mask = u64::MAX >> (BITS - len);
                runs.push(Run { word, down: down as u8, up: left as u8, mask });
                bits &= !(mask << down);
            }
        }
        let constant = std::array::from_fn(|word| like[word] & fixed[word]);
        let words = last as u8 + 1;
        (runs.len() <= RUNS_MAX).then(|| Fields { kept, constant, fixed, words, runs: runs.into() })
    }

    /// Appends how many words are looked at (u8), and for each the bits that are kept and what the
    /// fixed ones are (u64 each).
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.words);
        for word in 0..usize::from(self.words) {
            out.extend(self.kept[word].to_le_bytes());
            out.extend(self.constant[word].to_le_bytes());
        }
    }

    /// Reads what [`Fields::encode`] wrote. Any fields give a monotone map.
    pub(super) fn decode(decoder: &mut Decoder<'_>) -> Result<Fields, DecodeError> {
        let count = usize::from(decoder.u8("how many words have fields")?);
        if !(1..=WORDS).contains(&count) {
            return decoder.fail("fields in one to three words");
        }
        let (mut kept, mut constant) = ([0; WORDS], [0; WORDS]);
        for word in 0..count {
            for of in [&mut kept, &mut constant] {
                let bytes = decoder.take(8, "the bits of fields")?;
                of[word] = u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
            }
        }
        let fields = Fields::with(kept, constant).filter(|fields| fields.constant == constant);
        match fields.filter(|fields| fields.kept[count - 1] != 0) {
            Some(fields) => Ok(fields),
            None => decoder.fail("fields of up to 64 bits in few runs"),
        }
    }

    /// The bytes of a text that are looked at.
    pub(super) fn told(&self) -> usize {
        8 * WORDS
    }

    /// The number of a text.
    #[inline]
    pub(super) fn number(&self, text: &[u8]) -> u64 {
        // Of the words behind those no bit is kept or fixed.
        if self.words == 1 {
            let word = word_at(text, 0);
            if (word ^ self.constant[0]) & self.fixed[0] != 0 {
                return self.nearest([word, 0, 0]);
            }
            return self.runs.iter().fold(0, |number, run| number | run.cut_out(word));
        }
        let words = words(text);
        let differs =
            (0..WORDS).fold(0, |all, word| all | (words[word] ^ self.constant[word]) & self.fixed[word]);
        if differs != 0 { self.nearest(words) } else { self.cut_out(words) }
    }

    #[inline]
    fn cut_out(&self, words: [u64; WORDS]) -> u64 {
        let word = |run: &Run| words[usize::from(run.word).min(WORDS - 1)];
        self.runs.iter().fold(0, |number, run| number | run.cut_out(word(run)))
    }

    /// The number of a text with a fixed bit that is not what it should be: of the bits up to
    /// there, and then the highest if the text is above those that have the bit, or the lowest.
    #[cold]
    fn nearest(&self, words: [u64; WORDS]) -> u64 {
        let off: [u64; WORDS] =
            std::array::from_fn(|word| (words[word] ^ self.constant[word]) & self.fixed[word]);
        let word = (0..WORDS).find(|&word| off[word] != 0).expect("a bit differs");
        let bit = 1 << (BITS - 1 - off[word].leading_zeros());
        let is_above = words[word] & bit != 0;
        let filled = std::array::from_fn(|at| {
            let below = match at {
                _ if at < word => 0,
                _ if at == word => bit - 1,
                _ => u64::MAX,
            };
            if is_above { words[at] | below } else { words[at] & !below }
        });
        self.cut_out(filled)
    }

    /// Bytes on the heap.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Fields>() + size_of_val(&*self.runs)
    }
}

/// How many bits lie above the first that is kept.
fn lead(kept: [u64; WORDS]) -> u32 {
    let first = (0..WORDS).find(|&word| kept[word] != 0).unwrap_or(0);
    BITS * first as u32 + kept[first].leading_zeros()
}

/// Of the bits that are used, the first 64 in [`RUNS_MAX`] runs: the least gaps between runs are
/// kept as well.
fn kept_of(used: [u64; WORDS]) -> [u64; WORDS] {
    let is_used = |at: usize| used[at / 64] >> (63 - at % 64) & 1 == 1;
    // Gaps between used bits, as where they begin and end. They do not go from word to word, nor do
    // runs.
    let mut gaps: Vec<(usize, usize)> = Vec::new();
    let mut runs = 0;
    for word in 0..WORDS {
        let mut at = 64 * word;
        let end = at + 64;
        let mut last: Option<usize> = None;
        while at < end {
            if is_used(at) {
                match last {
                    Some(last) if at - last > 1 => gaps.push((last + 1, at)),
                    Some(_) => {}
                    None => runs += 1,
                }
                last = Some(at);
            }
            at += 1;
        }
    }
    gaps.sort_by_key(|(start, end)| end - start);
    let mut kept = used;
    let filled = (runs + gaps.len()).saturating_sub(RUNS_MAX).min(gaps.len());
    for &(start, end) in &gaps[..filled] {
        (start..end).for_each(|at| kept[at / 64] |= 1 << (63 - at % 64));
    }
    let mut left = BITS;
    for bits in &mut kept {
        while bits.count_ones() > left {
            *bits &= *bits - 1;
        }
        left -= bits.count_ones();
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stored(fields: &Fields) -> Fields {
        let mut bytes = Vec::new();
        fields.encode(&mut bytes);
        let mut decoder = Decoder::new(&bytes);
        let again = Fields::decode(&mut decoder).unwrap();
        decoder.finish("the end").unwrap();
        again
    }

    #[test]
    fn an_order_and_a_line_are_neighbours() {
        let key = |order: u32, line: u32| [order.to_be_bytes(), line.to_be_bytes()].concat();
        let keys: Vec<Vec<u8>> = (0..100_000).map(|i| key(i / 83, i % 83)).collect();
        let fields = Fields::of(keys.iter().map(|key| &key[..])).unwrap();
        assert_eq!(stored(&fields), fields);
        assert_eq!(fields.number(&key(7, 82)) >> 7, 7);
        assert_eq!(fields.number(&key(8, 0)), 8 << 7);
        // What has other bits lies at the end of those that it is behind, or before.
        assert_eq!(fields.number(&key(7, 1000)), fields.number(&key(7, 127)));
        assert_eq!(fields.number(&key(1 << 20, 5)), fields.number(&key((1 << 11) - 1, 127)));
        assert_eq!(fields.number(&[0, 0, 0]), 0);
    }

    #[test]
    fn what_uses_all_of_its_bits_has_no_fields() {
        let keys: Vec<[u8; 8]> =
            (0..1000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()).collect();
        assert_eq!(Fields::of(keys.iter().map(|key| &key[..])), None);
        assert_eq!(Fields::of([&b"one"[..]].into_iter()), None);
        assert_eq!(Fields::of(std::iter::empty()), None);
    }

    proptest! {
        #[test]
        fn numbers_ascend_with_texts_whatever_these_are(
            texts in prop::collection::vec(prop::collection::vec(prop_oneof![0u8..3, 250u8..], 0..26), 2..40),
            others in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..26), 0..40),
            kept: [u64; WORDS],
            sparse: [u64; WORDS],
            like: [u64; WORDS],
        ) {
            let of = Fields::of(texts.iter().map(|text| &text[..]));
            let masks = std::array::from_fn(|word| kept[word] & sparse[word] & like[word].rotate_left(7));
            let mut all: Vec<&Vec<u8>> = texts.iter().chain(&others).collect();
            all.sort();
            for fields in of.into_iter().chain(Fields::with(kept_of(masks), like)) {
                prop_assert_eq!(&stored(&fields), &fields);
                let numbers: Vec<u64> = all.iter().map(|text| fields.number(text)).collect();
                prop_assert!(numbers.is_sorted(), "{:?} {:?}", all, numbers);
            }
        }

        #[test]
        fn any_bytes_are_fields_or_none(bytes in prop::collection::vec(any::<u8>(), 0..60), texts: Vec<Vec<u8>>) {
            if let Ok(fields) = Fields::decode(&mut Decoder::new(&bytes)) {
                let mut texts = texts;
                texts.sort();
                prop_assert!(texts.iter().map(|text| fields.number(text)).is_sorted());
            }
        }
    }
}

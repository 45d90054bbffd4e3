//! Text of few letters as numbers: `Letters`, a monotone map from bytes to 64 bits whose digits are
//! the letters in use.
//!
//! Hexadecimal text has 16 of 256 bytes, in two clusters. As a big-endian number it is a cascade of
//! gaps that no line follows. Counted in its own letters it is as smooth as what it says, and 64
//! bits tell 16 letters instead of 8. `of` takes the separators' letters if they are few and, by
//! Good and Turing's rule, keys seldom have others.
//!
//! What must hold: `number` is monotone for keys with any bytes: `a <= b` implies `number(a) <=
//! number(b)`.
//!
//! Caller: `index::learned::heads`.

use crate::codec::{DecodeError, Decoder};
use std::iter;

/// Fewer separators than this are not worth the table.
const SEPARATORS_MIN: usize = 512;
/// Of so many letters of a key one may be of those that no separator has.
const UNSEEN: usize = 256;
/// Letters behind the longest separator tell at least so many keys apart: what bounds ambiguity is
/// finer than boundaries are from each other, by about this.
const BEHIND: u128 = 1 << 12;
/// 64 bits must hold so many letters to be worth it: two more than there are bytes in them.
const LETTERS_MIN: usize = 10;
/// No more of them are looked at.
const LETTERS_MAX: usize = 32;
/// Marks what is not a letter. [`LETTERS_MIN`] sees to it that digits are less.
const OTHER: u8 = 1 << 7;

/// A monotone map from bytes to numbers.
#[derive(Clone, Debug)]
pub(super) struct Letters {
    /// Of each byte how many letters are below it; marked if it is none itself.
    digits: [u8; 256],
    /// What the first letter's digit counts, the second's, and so on.
    worths: Box<[u64]>,
}

impl Letters {
    /// The letters of separators, if they are few and keys are not likely to have others: by the
    /// rule of Good and Turing (Good, Biometrika 1953) that is as likely as those are frequent that
    /// come once.
    pub(super) fn of<'t>(separators: impl ExactSizeIterator<Item = &'t [u8]>) -> Option<Letters> {
        if separators.len() < SEPARATORS_MIN {
            return None;
        }
        let (mut times, mut longest) = ([0usize; 256], 0);
        for separator in separators {
            separator.iter().for_each(|&byte| times[usize::from(byte)] += 1);
            longest = longest.max(separator.len());
        }
        let once = times.iter().filter(|&&times| times == 1).count();
        if once * UNSEEN > times.iter().sum() {
            return None;
        }
        Letters::new(&times.map(|times| times > 0), longest)
    }

    /// These letters, for separators of up to `longest`. `None` if it is one or none, or if 64 bits
    /// hold too few of them.
    pub(super) fn new(is_letter: &[bool; 256], longest: usize) -> Option<Letters> {
        let base = is_letter.iter().filter(|is| **is).count() as u128;
        if base < 2 {
            return None;
        }
        let behind = powers_of(base).take_while(|&power| power < BEHIND).count();
        Letters::with(is_letter, (longest + behind).min(held(base)).min(LETTERS_MAX))
    }

    /// These letters, so many of which are looked at. `None` if it is one or none, or if 64 bits do
    /// not hold that many, or too few.
    fn with(is_letter: &[bool; 256], looked_at: usize) -> Option<Letters> {
        let base = is_letter.iter().filter(|is| **is).count() as u128;
        if base < 2 || held(base) < LETTERS_MIN || !(1..=LETTERS_MAX.min(held(base))).contains(&looked_at) {
            return None;
        }
        let mut below = 0;
        let digits = is_letter.map(|is| {
            let digit = below | if is { 0 } else { OTHER };
            below += u8::from(is);
            digit
        });
        let mut worths: Vec<u64> = powers_of(base).take(looked_at).map(|power| power as u64).collect();
        worths.reverse();
        Some(Letters { digits, worths: worths.into() })
    }

    /// Appends how many letters are looked at (u8), and of each byte, from 0 on, a bit that says
    /// whether it is a letter, the first the lowest of its byte.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.worths.len() as u8);
        let bits = |eight: &[u8]| {
            (0..).zip(eight).map(|(bit, digit)| u8::from(digit & OTHER == 0) << bit).sum::<u8>()
        };
        out.extend(self.digits.chunks(8).map(bits));
    }

    /// Reads what [`Letters::encode`] wrote. Any letters give a monotone map.
    pub(super) fn decode(decoder: &mut Decoder<'_>) -> Result<Letters, DecodeError> {
        let looked_at = decoder.u8("a number of letters")?;
        let bits = decoder.take(256 / 8, "which bytes are letters")?;
        let is_letter: [bool; 256] = std::array::from_fn(|byte| bits[byte / 8] >> (byte % 8) & 1 == 1);
        match Letters::with(&is_letter, looked_at.into()) {
            Some(letters) => Ok(letters),
            None => decoder.fail("letters of which 64 bits hold as many"),
        }
    }

    /// How many letters a number tells.
    pub(super) fn told(&self) -> usize {
        self.worths.len()
    }

    /// The number of a text: its letters are digits, and behind its end there is as if the lowest
    /// letter were. Text of letters up to [`Letters::told`] that does not end in the lowest has a
    /// number of its own. One with a byte that is no letter has that of the least text of letters
    /// above it, however it goes on.
    #[inline]
    pub(super) fn number(&self, text: &[u8]) -> u64 {
        let mut number = 0;
        for (&byte, &worth) in text.iter().zip(&self.worths) {
            let digit = self.digits[usize::from(byte)];
            if digit & OTHER != 0 {
                // A byte above all letters counts one more than fits a digit, and may so carry out
                // of 64 bits.
                let least = u64::from(digit & !OTHER).checked_mul(worth);
                return least.and_then(|least| least.checked_add(number)).unwrap_or(u64::MAX);
            }
            number += u64::from(digit) * worth;
        }
        number
    }

    /// Bytes that it takes in memory.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Letters>() + size_of_val(&*self.worths)
    }
}

/// 1, the base, its square, and so on.
fn powers_of(base: u128) -> impl Iterator<Item = u128> {
    iter::successors(Some(1), move |power| Some(power * base))
}

/// How many digits to this base 64 bits hold.
fn held(base: u128) -> usize {
    powers_of(base).take_while(|&power| power <= 1 << u64::BITS).count() - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(letters: &[u8], longest: usize) -> Option<Letters> {
        let mut is_letter = [false; 256];
        letters.iter().for_each(|&letter| is_letter[usize::from(letter)] = true);
        Letters::new(&is_letter, longest)
    }

    #[test]
    fn hexadecimal_text_is_the_number_that_it_writes() {
        let letters = of(b"0123456789abcdef", 16).unwrap();
        assert_eq!(letters.told(), 16);
        for number in [0, 1, 0x0123_4567_89ab_cdef, u64::MAX - 1, u64::MAX] {
            let text = format!("{number:016x}");
            assert_eq!(letters.number(text.as_bytes()), number);
            assert_eq!(letters.number(format!("{text}7").as_bytes()), number);
        }
        assert_eq!(letters.number(b"a"), 0xa << 60);
        assert_eq!(letters.number(b"a:00"), 0xaa << 56, "between a9 and aa");
        assert_eq!(letters.number(b"ffg"), u64::MAX, "beyond 64 bits");
        assert_eq!(letters.number("fé".as_bytes()), u64::MAX);
        assert_eq!(letters.number(b""), 0);
    }

    #[test]
    fn so_many_letters_are_told_as_64_bits_hold_or_as_are_of_use() {
        assert_eq!(of(b"0123456789", 40).unwrap().told(), 19);
        assert_eq!(of(b"0123456789", 3).unwrap().told(), 3 + 4);
        assert_eq!(of(&(0..84).collect::<Vec<u8>>(), 40).unwrap().told(), LETTERS_MIN);
        assert_eq!(of(b"01", 40).unwrap().told(), LETTERS_MAX);
        for letters in [(0..85).collect::<Vec<u8>>(), b"0".to_vec(), vec![]] {
            assert!(of(&letters, 40).is_none(), "{letters:?}");
        }
    }

    #[test]
    fn letters_that_keys_may_have_and_separators_do_not_are_no_letters() {
        let hex: Vec<String> = (0..600).map(|i| format!("{i:x}")).collect();
        let of = |pieces: &[String]| Letters::of(pieces.iter().map(String::as_bytes));
        assert!(of(&hex).is_some() && of(&hex[..500]).is_none());
        let with = |others: u8| {
            let others = (0..others).map(|i| char::from(b'A' + i).to_string());
            of(&hex.iter().cloned().chain(others).collect::<Vec<String>>())
        };
        assert!(with(2).is_some() && with(20).is_none());
    }

    #[test]
    fn letters_come_back_from_bytes() {
        for (letters, longest) in [(&b"0123456789abcdef"[..], 16), (b"\0\x07\x08\xff", 3)] {
            let letters = of(letters, longest).unwrap();
            let mut bytes = Vec::new();
            letters.encode(&mut bytes);
            let mut decoder = Decoder::new(&bytes);
            let decoded = Letters::decode(&mut decoder).unwrap();
            decoder.finish("the end").unwrap();
            assert_eq!((decoded.digits, decoded.worths), (letters.digits, letters.worths));
            for looked_at in [0, 33, 255] {
                bytes[0] = looked_at;
                assert!(Letters::decode(&mut Decoder::new(&bytes)).is_err(), "{looked_at}");
            }
        }
        // Of 85 letters 64 bits hold nine.
        let many = [&[10][..], &[0xff; 10], &[0x1f], &[0; 21]].concat();
        assert!(Letters::decode(&mut Decoder::new(&many)).is_err());
    }

    proptest! {
        #[test]
        fn numbers_are_monotone_whatever_the_bytes(
            letters in prop::collection::btree_set(0u8..12, 2..8),
            longest in 0usize..20,
            mut texts in prop::collection::vec(prop::collection::vec(prop_oneof![0u8..12, 250u8..], 0..24), 2..20),
        ) {
            let letters = of(&letters.into_iter().collect::<Vec<u8>>(), longest).unwrap();
            texts.sort();
            let numbers: Vec<u64> = texts.iter().map(|text| letters.number(text)).collect();
            prop_assert!(numbers.is_sorted(), "{:?} of {:?}", numbers, texts);
        }
    }
}

//! Sixteen boundaries of a long segment in 26 bytes: a head, and 12 bits for each.
//!
//! Owns [`Head`] and the layout of a group. A boundary's *deviation* is how far it lies off its segment's line. Neighbours
//! deviate alike, or by more and more. So a group keeps a line of its own for its deviations, and of each boundary how far
//! it is above that, in the finest steps of which 12 bits count enough: steps are fine where boundaries are smooth, and a
//! group that is not makes no other coarse.
//!
//! A group is [`WORDS`] words of 16 bits: the head's word, then the codes, bit after bit, the lowest first. The last
//! group of a segment may end early, after the word in which its last code ends.

use crate::lanes::{CODES, GROUP_STEP, GROUP_WORDS as WORDS};

/// Largest code.
const CODE_MAX: i64 = (1 << 12) - 1;
/// Bits of the head's word that hold the exponent, the lowest, and those that hold the tilt, above them.
const EXPONENT_BITS: u32 = 3;
const TILT_BITS: u32 = 4;
/// A base counts in so many units.
const BASE_UNIT: i64 = 1 << 9;
/// A tilt counts in so many units for each boundary.
const TILT_UNIT: i32 = GROUP_STEP / 16;
/// All tilts, the smallest first.
const TILTS: [i8; 1 << TILT_BITS] = [0, 1, -1, 2, -2, 3, -3, 4, -4, 5, -5, 6, -6, 7, -7, -8];

/// What all codes of a group are relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Where the group's line begins, in [`BASE_UNIT`]s; 9 bits.
    base: i16,
    /// How much it rises from boundary to boundary, in [`TILT_UNIT`]s; 4 bits.
    tilt: i8,
    /// A code counts in 2^exponent units; 3 bits.
    exponent: u8,
}

impl Head {
    /// The finest for these deviations; `None` if there is none.
    pub(super) fn of(deviations: &[i64]) -> Option<Head> {
        let spread = |tilt: i8| {
            let above = (0..).zip(deviations).map(|(lane, deviation)| deviation - risen(tilt, lane));
            above.fold((i64::MAX, i64::MIN), |(least, most), at| (least.min(at), most.max(at)))
        };
        let spreads = TILTS.iter().map(|&tilt| (tilt, spread(tilt)));
        let (tilt, (least, most)) = spreads.min_by_key(|(_, (least, most))| most.saturating_sub(*least))?;
        let base = least.div_euclid(BASE_UNIT);
        let fits = |exponent: &u8| most.saturating_sub(base * BASE_UNIT) >> exponent <= CODE_MAX;
        let exponent = (0..1 << EXPONENT_BITS).find(fits)?;
        let base = i16::try_from(base).ok()?;
        let head = Head { base, tilt, exponent };
        (Head::of_word(head.word()) == head).then_some(head)
    }

    /// The head that this word is.
    #[inline]
    pub(super) fn of_word(word: u16) -> Head {
        let signed = word as i16;
        Head {
            base: signed >> (EXPONENT_BITS + TILT_BITS),
            tilt: (signed << (16 - EXPONENT_BITS - TILT_BITS) >> (16 - TILT_BITS)) as i8,
            exponent: (word & ((1 << EXPONENT_BITS) - 1)) as u8,
        }
    }

    fn word(self) -> u16 {
        let tilt = (self.tilt as u16 & ((1 << TILT_BITS) - 1)) << EXPONENT_BITS;
        (self.base << (EXPONENT_BITS + TILT_BITS)) as u16 | tilt | u16::from(self.exponent)
    }

    /// The deviation of the group's first boundary if its code is 0.
    #[inline]
    pub(super) fn base(self) -> i64 {
        i64::from(self.base) * BASE_UNIT
    }

    /// Units from a boundary to the next on the group's line.
    #[inline]
    pub(super) fn step(self) -> i32 {
        GROUP_STEP + i32::from(self.tilt) * TILT_UNIT
    }

    /// Units of a code, as a power of two.
    #[inline]
    pub(super) fn exponent(self) -> u32 {
        self.exponent.into()
    }

    /// What the deviation of the boundary of this lane is taken for: rounded down to a step.
    pub(super) fn rounded(self, lane: usize, deviation: i64) -> i64 {
        self.base() + risen(self.tilt, lane) + (self.code(lane, deviation) << self.exponent)
    }

    fn code(self, lane: usize, deviation: i64) -> i64 {
        (deviation - self.base() - risen(self.tilt, lane)) >> self.exponent
    }

    /// Appends the group of these deviations, up to [`CODES`].
    pub(super) fn write(self, deviations: &[i64], words: &mut Vec<u16>) {
        let mut bytes = [0u8; (WORDS - 1) * 2];
        for (lane, &deviation) in deviations.iter().enumerate() {
            let code = self.code(lane, deviation);
            debug_assert!((0..=CODE_MAX).contains(&code));
            let (at, half) = (lane * 3 / 2, lane % 2 * 4);
            let [low, high] = ((code as u16) << half).to_le_bytes();
            bytes[at] |= low;
            bytes[at + 1] |= high;
        }
        words.push(self.word());
        let codes = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        words.extend(codes.take(words_of(deviations.len()) - 1));
    }
}

/// How far a line of this tilt has risen at a lane.
fn risen(tilt: i8, lane: usize) -> i64 {
    i64::from(tilt) * i64::from(TILT_UNIT) * lane as i64
}

/// Words of a group of so many boundaries.
pub(super) fn words_of(boundaries: usize) -> usize {
    debug_assert!(boundaries <= CODES);
    1 + (boundaries * 3).div_ceil(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_come_back_rounded_down_to_a_step() {
        for (spread, slope) in [(1, 0), (40, 7000), (4_000, -5000), (5_000, 0), (100_000, 900), (500_000, 0)]
        {
            let deviations: Vec<i64> = (0..16).map(|i| i * 7919 % spread + i * slope - 60_000).collect();
            let head = Head::of(&deviations).unwrap();
            assert_eq!(Head::of_word(head.word()), head);
            for (lane, &deviation) in deviations.iter().enumerate() {
                let off = deviation - head.rounded(lane, deviation);
                assert!((0..1 << head.exponent()).contains(&off), "{spread}: {off}");
            }
            // A tilt may be off by half a unit for each boundary, and a base by a whole one.
            let range = spread + i64::from(TILT_UNIT) * 8 + BASE_UNIT;
            assert!(1 << head.exponent() <= (range / 2048).max(1), "{spread} {slope}: {head:?}");
        }
    }

    #[test]
    fn what_no_head_can_hold_has_none() {
        assert_eq!(Head::of(&[0, 0, 4096 << 7, 0, 0]), None);
        assert_eq!(Head::of(&[256 * BASE_UNIT]), None);
        assert_eq!(Head::of(&[-256 * BASE_UNIT - 1]), None);
        assert_eq!(Head::of(&[i64::MAX / 2, 0]), None);
        assert_eq!(Head::of(&[]), None);
    }
}

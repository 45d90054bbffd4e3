//! Sixteen boundaries of a long segment in 22, 26 or 34 bytes: `Head`, `Width`, and the layout of a
//! group.
//!
//! A boundary's deviation is how far it lies off its segment's line. Neighbours deviate alike, or
//! by more and more. So a group keeps a line of its own, in the head, and a code of 10, 12 or 16
//! bits (`Width`) for each. The code counts in the finest steps that suffice. Words are of 16 bits:
//! the head's, then the codes, bit after bit. The last group of a segment may end early.
//!
//! What must hold: a deviation comes back rounded down to a step, and a tilt brings none closer
//! together.
//! Callers: `boundaries::builder` writes groups, `boundaries` asks them (`position`).
//! `boundaries::stored` asks only how many words a group of a width has.

use crate::lanes::{CODES, GROUP_STEP};

/// How many bits codes have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Width {
    /// For boundaries that lie so evenly that their steps are fine enough.
    Ten,
    /// Enough for most.
    #[default]
    Twelve,
    /// For boundaries that lie now far apart and now close to each other.
    Sixteen,
}

/// Where the boundary of a lane lies in its group, in units of a deviation, rounded down as codes
/// are.
#[inline]
pub(super) fn position<const GROUP: usize>(words: &[u16; GROUP], head: Head, lane: usize) -> i32 {
    // A group is a word and sixteen codes: as many words more as a code has bits.
    let bits = GROUP - 1;
    let (word, shift) = (1 + lane * bits / 16, lane * bits % 16);
    let pair = u32::from(words[word]) | u32::from(words.get(word + 1).copied().unwrap_or(0)) << 16;
    let code = (pair >> shift) & (u32::MAX >> (32 - bits));
    ((code as i32) << head.exponent()) + lane as i32 * head.step()
}

impl Width {
    /// Bits of a code.
    pub(super) fn bits(self) -> usize {
        match self {
            Width::Ten => 10,
            Width::Twelve => 12,
            Width::Sixteen => 16,
        }
    }

    fn code_max(self) -> i64 {
        (1 << self.bits()) - 1
    }
}

/// Bits of the head's word that hold the exponent, the lowest, and those that hold the tilt, above
/// them.
const EXPONENT_BITS: u32 = 3;
const TILT_BITS: u32 = 4;
/// A base counts in so many units.
const BASE_UNIT: i64 = 1 << 9;
/// A tilt counts in so many units for each boundary.
const TILT_UNIT: i32 = GROUP_STEP / 16;
/// The flattest and the steepest tilt.
const TILT_MIN: i8 = -(1 << (TILT_BITS - 1));
const TILT_MAX: i8 = (1 << (TILT_BITS - 1)) - 1;

/// What all codes of a group are relative to, and in what they count.
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
    pub(super) fn of(width: Width, deviations: &[i64]) -> Option<Head> {
        let spread = |tilt: i8| {
            let above = (0..).zip(deviations).map(|(lane, deviation)| deviation - risen(tilt, lane));
            above.fold((i64::MAX, i64::MIN), |(least, most), at| (least.min(at), most.max(at)))
        };
        let width_of = |(least, most): (i64, i64)| most.saturating_sub(least);
        // How wide deviations lie about a line is convex in its tilt: from that of the two ends on
        // it goes down to the least.
        let (first, last) = (deviations.first()?, deviations.last()?);
        let rise =
            last.saturating_sub(*first) / (i64::from(TILT_UNIT) * (deviations.len() - 1).max(1) as i64);
        let mut tilt = rise.clamp(TILT_MIN.into(), TILT_MAX.into()) as i8;
        let (begin, mut at) = (tilt, spread(tilt));
        for (step, end) in [(1, TILT_MAX), (-1, TILT_MIN)] {
            while tilt != end {
                let beside = spread(tilt + step);
                if width_of(beside) >= width_of(at) {
                    break;
                }
                (tilt, at) = (tilt + step, beside);
            }
            if tilt != begin {
                break;
            }
        }
        let (least, most) = at;
        let base = least.div_euclid(BASE_UNIT);
        let fits = |exponent: &u8| most.saturating_sub(base * BASE_UNIT) >> exponent <= width.code_max();
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
    pub(super) fn write(self, width: Width, deviations: &[i64], words: &mut Vec<u16>) {
        words.push(self.word());
        // Bits that are not in a word yet, the lowest first.
        let (mut waiting, mut bits) = (0u32, 0);
        for (lane, &deviation) in deviations.iter().enumerate() {
            let code = self.code(lane, deviation);
            debug_assert!(lane < CODES && (0..=width.code_max()).contains(&code));
            waiting |= (code as u32) << bits;
            bits += width.bits();
            while bits >= 16 {
                words.push(waiting as u16);
                (waiting, bits) = (waiting >> 16, bits - 16);
            }
        }
        if bits > 0 {
            words.push(waiting as u16);
        }
    }
}

/// How far a line of this tilt has risen at a lane.
fn risen(tilt: i8, lane: usize) -> i64 {
    i64::from(tilt) * i64::from(TILT_UNIT) * lane as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_come_back_rounded_down_to_a_step() {
        for (spread, slope) in [(1, 0), (40, 7000), (4_000, -5000), (5_000, 0), (100_000, 900), (500_000, 0)]
        {
            let deviations: Vec<i64> = (0..16).map(|i| i * 7919 % spread + i * slope - 60_000).collect();
            for width in [Width::Ten, Width::Twelve, Width::Sixteen] {
                let head = Head::of(width, &deviations).unwrap();
                assert_eq!(Head::of_word(head.word()), head);
                for (lane, &deviation) in deviations.iter().enumerate() {
                    let off = deviation - head.rounded(lane, deviation);
                    assert!((0..1 << head.exponent()).contains(&off), "{spread}: {off}");
                }
                // A tilt may be off by half a unit for each boundary, and a base by a whole one.
                let range = spread + i64::from(TILT_UNIT) * 8 + BASE_UNIT;
                let finest = (2 * range) >> width.bits();
                assert!(1 << head.exponent() <= finest.max(1), "{spread} {slope}: {head:?}");
            }
        }
    }

    #[test]
    fn no_tilt_brings_deviations_closer_together() {
        let mut state = 1u64;
        for case in 0..2000 {
            let deviations: Vec<i64> = (0..1 + case % 16)
                .map(|lane| {
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (state >> 33) as i64 % (1 << (case % 18)) + lane * (case % 25 - 12) * 800
                })
                .collect();
            let Some(head) = Head::of(Width::Sixteen, &deviations) else { continue };
            let width = |tilt: i8| {
                let above = || (0..).zip(&deviations).map(|(lane, deviation)| deviation - risen(tilt, lane));
                above().max().unwrap() - above().min().unwrap()
            };
            let least = (TILT_MIN..=TILT_MAX).map(width).min().unwrap();
            assert_eq!(width(head.tilt), least, "{deviations:?}");
        }
    }

    #[test]
    fn what_no_head_can_hold_has_none() {
        assert_eq!(Head::of(Width::Twelve, &[0, 0, 4096 << 7, 0, 0]), None);
        assert_eq!(Head::of(Width::Sixteen, &[0, 0, 65_536 << 7, 0, 0]), None);
        assert_eq!(Head::of(Width::Twelve, &[256 * BASE_UNIT]), None);
        assert_eq!(Head::of(Width::Twelve, &[-256 * BASE_UNIT - 1]), None);
        assert_eq!(Head::of(Width::Twelve, &[i64::MAX / 2, 0]), None);
        assert_eq!(Head::of(Width::Twelve, &[]), None);
    }
}

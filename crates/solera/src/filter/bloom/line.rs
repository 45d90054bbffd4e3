//! One line of a Bloom filter, 512 bits: `Line`, which `set` writes and `has` asks.
//!
//! The top 9 bits of the hash's lower half, multiplied on by the golden ratio, name one bit for
//! each probe. `has` asks with AVX-512, AVX2 or NEON, whichever the caller's `Lanes` say, and else
//! one probe at a time.
//!
//! What must hold: every set of instructions answers as the scalar twin does, which is the
//! definition. A line lies on a cache line of its own. Callers must give at most `PROBES_MAX`
//! probes: vector code reads a table of 32 powers without a check.
//!
//! Caller: `filter::bloom`, which builds and decodes no filter of more probes.

use solera_model::lanes::Lanes;

/// Bytes of a line: those of a cache line.
pub(super) const LINE_BYTES: usize = 64;
/// Bits of a line.
pub(super) const LINE_BITS: u32 = 512;
/// More probes than this never pay: at 64 bits per key a line of eight keys wants no more.
pub(super) const PROBES_MAX: u8 = 24;

/// What a hash is multiplied by from probe to probe: the golden ratio.
const STEP: u32 = 0x9e37_79b9;

/// The powers of [`STEP`], from the first on, for as many probes as fill whole vectors of 16.
const POWERS: [u32; 32] = {
    let mut powers = [STEP; 32];
    let mut i = 1;
    while i < powers.len() {
        powers[i] = powers[i - 1].wrapping_mul(STEP);
        i += 1;
    }
    powers
};

/// 512 bits, on a cache line of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub(super) struct Line(pub(super) [u64; 8]);

/// The bits of a hash in its line: the top 9 bits of the lower half, multiplied on and on.
#[inline]
fn bits_of(hash: u64, probes: u8) -> impl Iterator<Item = usize> {
    POWERS[..probes.into()]
        .iter()
        .map(move |power| ((hash as u32).wrapping_mul(*power) >> (32 - LINE_BITS.ilog2())) as usize)
}

impl Line {
    /// Sets the bits of a hash.
    #[inline]
    pub(super) fn set(&mut self, hash: u64, probes: u8) {
        for bit in bits_of(hash, probes) {
            self.0[bit / 64] |= 1 << (bit % 64);
        }
    }

    /// Whether all bits of a hash are set. At most [`PROBES_MAX`] probes.
    #[inline]
    pub(super) fn has(&self, hash: u64, probes: u8, lanes: Lanes) -> bool {
        match lanes {
            Lanes::Scalar => self.has_scalar(hash, probes),
            // SAFETY: lanes are only what the processor was found to have.
            #[cfg(target_arch = "x86_64")]
            Lanes::Avx2 => unsafe { x86::has_avx2(self, hash, probes) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Lanes::Avx512 => unsafe { x86::has_avx512(self, hash, probes) },
            // SAFETY: as above.
            #[cfg(target_arch = "aarch64")]
            Lanes::Neon => unsafe { arm::has_neon(self, hash, probes) },
        }
    }

    fn has_scalar(&self, hash: u64, probes: u8) -> bool {
        bits_of(hash, probes).all(|bit| self.0[bit / 64] >> (bit % 64) & 1 != 0)
    }
}

/// The lanes of the `width` probes from `first` on that count, as bits.
#[inline]
fn needed(first: usize, width: usize, probes: u8) -> u32 {
    let count = usize::from(probes).saturating_sub(first).min(width);
    ((1u64 << count) - 1) as u32
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Line, POWERS, needed};
    use std::arch::x86_64::*;

    /// [`Line::has_scalar`], 8 probes at a time.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn has_avx2(line: &Line, hash: u64, probes: u8) -> bool {
        let hash = _mm256_set1_epi32(hash as i32);
        let words = line.0.as_ptr().cast::<__m256i>();
        // SAFETY: a line is two vectors, aligned.
        let (low, high) = unsafe { (_mm256_load_si256(words), _mm256_load_si256(words.add(1))) };
        let has = |first: usize| {
            // SAFETY: there are 32 powers, and `first` is at most 16.
            let powers = unsafe { _mm256_loadu_si256(POWERS.as_ptr().add(first).cast()) };
            let bits = _mm256_srli_epi32::<23>(_mm256_mullo_epi32(hash, powers));
            // Four bits name one of 16 words: three the word in a half, the fourth the half.
            let word = _mm256_srli_epi32::<5>(bits);
            let of_low = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(low, word));
            let of_high = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(high, word));
            let half = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(word));
            let words = _mm256_castps_si256(_mm256_blendv_ps(of_low, of_high, half));
            // The bit asked for becomes the sign.
            let bit = _mm256_and_si256(bits, _mm256_set1_epi32(31));
            let signs = _mm256_sllv_epi32(words, _mm256_sub_epi32(_mm256_set1_epi32(31), bit));
            let set = _mm256_movemask_ps(_mm256_castsi256_ps(signs)) as u32;
            let needed = needed(first, 8, probes);
            set & needed == needed
        };
        // Mostly there are no more.
        has(0) && (probes <= 8 || has(8) && (probes <= 16 || has(16)))
    }

    /// [`Line::has_scalar`], 16 probes at a time.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn has_avx512(line: &Line, hash: u64, probes: u8) -> bool {
        let hash = _mm512_set1_epi32(hash as i32);
        // SAFETY: a line is one vector, aligned.
        let line = unsafe { _mm512_load_si512(line.0.as_ptr().cast()) };
        let has = |first: usize| {
            // SAFETY: there are 32 powers, and `first` is at most 16.
            let powers = unsafe { _mm512_loadu_si512(POWERS.as_ptr().add(first).cast()) };
            let bits = _mm512_srli_epi32::<23>(_mm512_mullo_epi32(hash, powers));
            let words = _mm512_permutexvar_epi32(_mm512_srli_epi32::<5>(bits), line);
            let bit = _mm512_and_si512(bits, _mm512_set1_epi32(31));
            let set = _mm512_test_epi32_mask(words, _mm512_sllv_epi32(_mm512_set1_epi32(1), bit));
            let needed = needed(first, 16, probes);
            u32::from(set) & needed == needed
        };
        has(0) && (probes <= 16 || has(16))
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::{Line, POWERS, needed};
    use std::arch::aarch64::*;

    /// [`Line::has_scalar`], 16 probes at a time, in the bytes of the line.
    #[inline]
    #[target_feature(enable = "neon")]
    pub(super) fn has_neon(line: &Line, hash: u64, probes: u8) -> bool {
        const WEIGHTS: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];
        let bytes = line.0.map(u64::to_le_bytes);
        // SAFETY: 64 bytes, and 16 weights.
        let (table, weights) = unsafe { (vld1q_u8_x4(bytes.as_ptr().cast()), vld1q_u8(WEIGHTS.as_ptr())) };
        (0..usize::from(probes)).step_by(16).all(|first| {
            let bits = |at: usize| {
                // SAFETY: there are 32 powers, `first` is at most 16 and `at` at most 12.
                let powers = unsafe { vld1q_u32(POWERS.as_ptr().add(first + at)) };
                vmovn_u32(vshrq_n_u32::<23>(vmulq_n_u32(powers, hash as u32)))
            };
            let (a, b) = (vcombine_u16(bits(0), bits(4)), vcombine_u16(bits(8), bits(12)));
            // Six bits name the byte, three the bit in it.
            let byte = vcombine_u8(vshrn_n_u16::<3>(a), vshrn_n_u16::<3>(b));
            let bit = vandq_u8(vcombine_u8(vmovn_u16(a), vmovn_u16(b)), vdupq_n_u8(7));
            let mask = vshlq_u8(vdupq_n_u8(1), vreinterpretq_s8_u8(bit));
            let set = vandq_u8(vtstq_u8(vqtbl4q_u8(table, byte), mask), weights);
            let set = u32::from(vaddv_u8(vget_low_u8(set))) | u32::from(vaddv_u8(vget_high_u8(set))) << 8;
            let needed = needed(first, 16, probes);
            set & needed == needed
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_instructions_answer_alike(
            words: [u64; 8], others in prop::collection::vec(any::<u64>(), 1..8), hash: u64, probes in 1..=PROBES_MAX,
            of in 1..=PROBES_MAX, hole in 0usize..512,
        ) {
            // Bits at random; those of the hash, all or fewer; and all but one.
            let mut set = Line::default();
            others.iter().for_each(|&other| set.set(other, probes));
            set.set(hash, of);
            let mut holed = Line([u64::MAX; 8]);
            holed.0[hole / 64] &= !(1 << (hole % 64));
            for line in [Line(words), set, holed] {
                let expected = line.has(hash, probes, Lanes::Scalar);
                for lanes in Lanes::available() {
                    prop_assert_eq!(line.has(hash, probes, lanes), expected, "{:?}", lanes);
                }
            }
            prop_assert!(of < probes || set.has(hash, probes, Lanes::Scalar));
        }
    }

    #[test]
    fn each_probe_counts_with_all_instructions() {
        for probes in 1..=PROBES_MAX {
            for hash in
                (0..if cfg!(miri) { 2 } else { 200u64 }).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
            {
                for missing in bits_of(hash, probes) {
                    let mut line = Line([u64::MAX; 8]);
                    line.0[missing / 64] &= !(1 << (missing % 64));
                    for lanes in Lanes::available() {
                        assert!(
                            !line.has(hash, probes, lanes),
                            "{lanes:?}: bit {missing} of {probes} probes"
                        );
                        assert!(Line([u64::MAX; 8]).has(hash, probes, lanes));
                    }
                }
            }
        }
    }
}

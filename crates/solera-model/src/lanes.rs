//! Comparing one number with several at once, with the widest instructions that the processor has.
//!
//! Owns [`Lanes`], which says what those are, and one function per width of numbers. What must hold: every
//! set of instructions gives the same count as the scalar twin, which is the definition. What the
//! processor has is asked once, when a structure is built; so the choice costs a predictable branch.

/// The instructions to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// One number after the other: the twin that defines the answer, on every processor.
    Scalar,
    /// AVX2: 4 numbers of 64 bits, 16 of 16 bits.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 F besides AVX2: 8 numbers of 64 bits, 16 of 16 bits.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// NEON: 2 numbers of 64 bits, 8 of 16 bits.
    #[cfg(target_arch = "aarch64")]
    Neon,
}

impl Lanes {
    /// The widest that this processor has.
    pub fn detect() -> Lanes {
        Lanes::available().last().copied().unwrap_or(Lanes::Scalar)
    }

    /// All that this processor has, the widest last.
    pub fn available() -> Vec<Lanes> {
        #[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), expect(unused_mut))]
        let mut all = vec![Lanes::Scalar];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt") {
                all.push(Lanes::Avx2);
                if is_x86_feature_detected!("avx512f") {
                    all.push(Lanes::Avx512);
                }
            }
        }
        #[cfg(target_arch = "aarch64")]
        if std::arch::is_aarch64_feature_detected!("neon") {
            all.push(Lanes::Neon);
        }
        all
    }
}

/// How many keys of `node` are not above `x`, one after the other.
#[inline(always)]
pub(crate) fn up_to_scalar(node: &[u64; 8], x: u64) -> usize {
    node.iter().map(|&key| usize::from(key <= x)).sum()
}

/// Codes that are compared at once: half a cache line.
pub(crate) const CODES: usize = 16;
/// Codes of one half, whose distances from a line's first code 16 bits hold.
const HALF: usize = CODES / 2;

/// For each lane `j` whether `codes[j] <= limit - j * step`, as bits, lane 0 the lowest. The step is 0 or 4096,
/// and what falls below the least number stays there. One after the other.
#[inline]
pub(crate) fn below_line_scalar(codes: &[i16; CODES], limit: i16, step: i16) -> u32 {
    codes.iter().enumerate().fold(0, |bits, (lane, &code)| {
        let limit = (i32::from(limit) - lane as i32 * i32::from(step)).max(i16::MIN.into());
        bits | u32::from(i32::from(code) <= limit) << lane
    })
}

/// The numbers of the lanes, within their halves.
static LANES: [i16; CODES] = [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7];

/// The limit of the second half's first lane.
#[inline]
fn limit_of_second_half(limit: i16, step: i16) -> i16 {
    (i32::from(limit) - HALF as i32 * i32::from(step)).max(i16::MIN.into()) as i16
}

#[cfg(target_arch = "x86_64")]
pub(crate) mod x86 {
    use super::{CODES, LANES, limit_of_second_half};
    use std::arch::x86_64::*;

    /// [`super::below_line_scalar`].
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn below_line_avx2(codes: &[i16; CODES], limit: i16, step: i16) -> u32 {
        // SAFETY: a load takes 32 bytes, which 16 codes and 16 lane numbers have; it may be unaligned.
        let (codes, lanes) =
            unsafe { (_mm256_loadu_si256(codes.as_ptr().cast()), _mm256_loadu_si256(LANES.as_ptr().cast())) };
        let second = _mm_set1_epi16(limit_of_second_half(limit, step));
        let first = _mm256_set_m128i(second, _mm_set1_epi16(limit));
        let limits = _mm256_subs_epi16(first, _mm256_mullo_epi16(lanes, _mm256_set1_epi16(step)));
        let above = _mm256_cmpgt_epi16(codes, limits);
        let above = _mm_packs_epi16(_mm256_castsi256_si128(above), _mm256_extracti128_si256::<1>(above));
        !(_mm_movemask_epi8(above) as u32) & 0xffff
    }

    /// [`super::up_to_scalar`].
    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    pub(crate) fn up_to_avx2(node: &[u64; 8], x: u64) -> usize {
        // Comparisons are of signed numbers: with the sign bits flipped they order as unsigned ones.
        let flip = _mm256_set1_epi64x(i64::MIN);
        let x = _mm256_xor_si256(_mm256_set1_epi64x(x as i64), flip);
        let half = |at: usize| {
            // SAFETY: 4 numbers from `at` on, 0 or 4, lie in the node; the load may be unaligned.
            let keys = unsafe { _mm256_loadu_si256(node.as_ptr().add(at).cast()) };
            let above = _mm256_cmpgt_epi64(_mm256_xor_si256(keys, flip), x);
            _mm256_movemask_pd(_mm256_castsi256_pd(above)) as u32
        };
        8 - (half(0) | half(4) << 4).count_ones() as usize
    }

    /// [`super::up_to_scalar`].
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn up_to_avx512(node: &[u64; 8], x: u64) -> usize {
        // SAFETY: the node is 64 bytes; the load may be unaligned.
        let keys = unsafe { _mm512_loadu_si512(node.as_ptr().cast()) };
        _mm512_cmple_epu64_mask(keys, _mm512_set1_epi64(x as i64)).count_ones() as usize
    }
}

#[cfg(target_arch = "aarch64")]
pub(crate) mod arm {
    use super::{CODES, LANES, limit_of_second_half};
    use std::arch::aarch64::*;

    /// [`super::below_line_scalar`].
    #[inline]
    #[target_feature(enable = "neon")]
    pub(crate) fn below_line_neon(codes: &[i16; CODES], limit: i16, step: i16) -> u32 {
        const WEIGHTS: [u16; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
        let half = |at: usize, limit: i16| {
            // SAFETY: 8 codes from 8 or 0 on, 8 of 16 lane numbers, and 8 weights are there.
            let (codes, lanes, weights) = unsafe {
                (vld1q_s16(codes.as_ptr().add(at)), vld1q_s16(LANES.as_ptr()), vld1q_u16(WEIGHTS.as_ptr()))
            };
            let limits = vqsubq_s16(vdupq_n_s16(limit), vmulq_n_s16(lanes, step));
            u32::from(vaddvq_u16(vandq_u16(vcleq_s16(codes, limits), weights)))
        };
        half(0, limit) | half(8, limit_of_second_half(limit, step)) << 8
    }

    /// [`super::up_to_scalar`].
    #[inline]
    #[target_feature(enable = "neon")]
    pub(crate) fn up_to_neon(node: &[u64; 8], x: u64) -> usize {
        let x = vdupq_n_u64(x);
        let mut below = vdupq_n_u64(0);
        for at in [0, 2, 4, 6] {
            // SAFETY: 2 numbers from `at` on lie in the node.
            let keys = unsafe { vld1q_u64(node.as_ptr().add(at)) };
            // A lane that holds is all ones: minus one.
            below = vsubq_u64(below, vcleq_u64(keys, x));
        }
        vaddvq_u64(below) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bits of every set of instructions that the processor has.
    fn bits(codes: &[i16; CODES], limit: i16, step: i16) -> Vec<u32> {
        let of = |lanes: Lanes| match lanes {
            Lanes::Scalar => below_line_scalar(codes, limit, step),
            // SAFETY: only what is available is asked for.
            #[cfg(target_arch = "x86_64")]
            Lanes::Avx2 | Lanes::Avx512 => unsafe { x86::below_line_avx2(codes, limit, step) },
            // SAFETY: as above.
            #[cfg(target_arch = "aarch64")]
            Lanes::Neon => unsafe { arm::below_line_neon(codes, limit, step) },
        };
        Lanes::available().into_iter().map(of).collect()
    }

    #[test]
    fn all_instructions_compare_codes_alike() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as i16
        };
        for _ in 0..if cfg!(miri) { 100 } else { 20_000 } {
            let mut codes = [0; CODES];
            codes.iter_mut().for_each(|code| *code = random());
            let ends = [i16::MIN, i16::MIN + 1, -1, 0, 1, i16::MAX - 1, i16::MAX];
            for limit in ends.into_iter().chain([random(), codes[7], codes[15]]) {
                for step in [0, 4096] {
                    let all = bits(&codes, limit, step);
                    assert!(all.iter().all(|bits| *bits == all[0]), "{codes:?} {limit} {step} {all:x?}");
                }
            }
        }
    }
}

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
    /// AVX-512 F and BW: 8 numbers of 64 bits, 32 of 16 bits.
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
            }
            if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
                all.push(Lanes::Avx512);
            }
        }
        #[cfg(target_arch = "aarch64")]
        if std::arch::is_aarch64_feature_detected!("neon") {
            all.push(Lanes::Neon);
        }
        all
    }
}

/// How many of `node` are not above `x`, one after the other.
#[inline(always)]
pub(crate) fn up_to_scalar(node: &[u64; 8], x: u64) -> usize {
    node.iter().map(|&key| usize::from(key <= x)).sum()
}

#[cfg(target_arch = "x86_64")]
pub(crate) mod x86 {
    use std::arch::x86_64::*;

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
    use std::arch::aarch64::*;

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

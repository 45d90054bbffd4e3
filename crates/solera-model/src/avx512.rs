//! Lines of blocks by AVX-512: the sums of `pra` and the error of `bound`, eight keys at once.
//!
//! What must hold: callers ask `is_there` first, whether the processor has these instructions. The
//! operations are those of the plain forms, in the same order, and no others. So the bits are the
//! same; `dual` tests that.
//! Callers: `dual::fit`, `bound::measured_error`.

use crate::{
    pra::{LANES, Middle, Sums},
    segment::Line,
};
use std::arch::x86_64::{
    __m512d, __mmask8, _mm512_abs_pd, _mm512_add_pd, _mm512_cvtepu64_pd, _mm512_mask_max_pd,
    _mm512_maskz_loadu_epi64, _mm512_maskz_mov_pd, _mm512_max_epu64, _mm512_max_pd, _mm512_min_pd,
    _mm512_mul_pd, _mm512_set1_epi64, _mm512_set1_pd, _mm512_setr_pd, _mm512_setzero_pd, _mm512_storeu_pd,
    _mm512_sub_epi64, _mm512_sub_pd,
};

/// Whether the processor has what the functions here are compiled for.
#[inline]
pub(crate) fn is_there() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq")
}

/// Which of eight lanes from `at` on are of the keys.
#[inline(always)]
fn lanes_from(at: usize, xs: &[u64]) -> __mmask8 {
    let left = xs.len() - at;
    if left >= LANES { 0xff } else { (1 << left) - 1 }
}

/// How far eight keys from `at` on lie above `x0`, as numbers; anything in lanes without a key.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn distances(xs: &[u64], at: usize, x0: u64) -> __m512d {
    debug_assert!(at < xs.len());
    // SAFETY: only the lanes of keys are read.
    let keys = unsafe { _mm512_maskz_loadu_epi64(lanes_from(at, xs), xs.as_ptr().add(at).cast()) };
    let x0 = _mm512_set1_epi64(x0 as i64);
    _mm512_cvtepu64_pd(_mm512_sub_epi64(_mm512_max_epu64(keys, x0), x0))
}

/// [`Sums::of`].
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
pub(crate) fn sums_of(xs: &[u64], middle: Middle) -> Sums {
    let [mut off, mut squared, mut both] = [_mm512_setzero_pd(); 3];
    let mut ranks = _mm512_sub_pd(first_ranks(), _mm512_set1_pd(middle.rank));
    let (middle_off, step) = (_mm512_set1_pd(middle.off), _mm512_set1_pd(LANES as f64));
    for at in (0..xs.len()).step_by(LANES) {
        let offs = _mm512_sub_pd(distances(xs, at, middle.x0), middle_off);
        let offs = _mm512_maskz_mov_pd(lanes_from(at, xs), offs);
        off = _mm512_add_pd(off, offs);
        squared = _mm512_add_pd(squared, _mm512_mul_pd(offs, offs));
        both = _mm512_add_pd(both, _mm512_mul_pd(offs, ranks));
        ranks = _mm512_add_pd(ranks, step);
    }
    Sums { off: lanes_of(off), squared: lanes_of(squared), both: lanes_of(both) }
}

/// The largest distance of a key's rank from the line's.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
pub(crate) fn error_of(line: Line, xs: &[u64]) -> f64 {
    let Some(&x0) = xs.first() else { return 0.0 };
    let (slope, intercept) = (_mm512_set1_pd(line.slope()), _mm512_set1_pd(line.intercept()));
    let (zero, last) = (_mm512_setzero_pd(), _mm512_set1_pd((xs.len() - 1) as f64));
    let (shifter, step) = (_mm512_set1_pd(Line::SHIFTER), _mm512_set1_pd(LANES as f64));
    let (mut worst, mut ranks) = (zero, first_ranks());
    for at in (0..xs.len()).step_by(LANES) {
        let position = _mm512_add_pd(_mm512_mul_pd(slope, distances(xs, at, x0)), intercept);
        let position = _mm512_min_pd(_mm512_max_pd(position, zero), last);
        let rank = _mm512_sub_pd(_mm512_add_pd(position, shifter), shifter);
        let error = _mm512_abs_pd(_mm512_sub_pd(rank, ranks));
        worst = _mm512_mask_max_pd(worst, lanes_from(at, xs), worst, error);
        ranks = _mm512_add_pd(ranks, step);
    }
    lanes_of(worst).into_iter().fold(0.0, f64::max)
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn first_ranks() -> __m512d {
    _mm512_setr_pd(0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn lanes_of(vector: __m512d) -> [f64; LANES] {
    let mut lanes = [0.0; LANES];
    // SAFETY: the array has room for eight numbers.
    unsafe { _mm512_storeu_pd(lanes.as_mut_ptr(), vector) };
    lanes
}

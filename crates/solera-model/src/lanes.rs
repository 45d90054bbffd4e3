//! Comparing one number with several at once: `Lanes`, by which instructions. `Lanes::detect` gives
//! the widest that the processor has.
//!
//! `Instructions` compare nodes of eight `u64`, plain codes of 16 and 24 bits, and groups of
//! sixteen codes. A group's codes have 10, 12 or 16 bits and count from a line. Each comparison is
//! written for AVX2 and NEON, with a scalar twin; nodes have AVX-512 too. A `Query` is compiled
//! once for each, whole: so its comparisons are no calls. `prefetch` asks for memory ahead, on
//! x86-64 only.
//!
//! What must hold: every set of instructions gives the same answer as the scalar twin, which is the
//! definition. What the processor has is asked once, when a structure is built, so the choice costs
//! a predictable branch.
//! Callers: `stree`, `boundaries`, `eytzinger` (prefetch); `filter::bloom` and its `line` in
//! `solera` use `Lanes`.

/// The instructions to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// One number after the other: the twin that defines the answer, on every processor.
    Scalar,
    /// AVX2, BMI 1 and 2, POPCNT: 4 numbers of 64 bits, 16 of 16 bits.
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
            if x86::has_avx2() {
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

    /// What `query` comes to by these instructions.
    ///
    /// # Safety
    /// The processor has them: they were [`Lanes::available`].
    #[inline(always)]
    pub(crate) unsafe fn ask<Q: Query>(self, query: Q) -> Q::Answer {
        match self {
            Lanes::Scalar => query.by(Scalar),
            // SAFETY: by the contract.
            #[cfg(target_arch = "x86_64")]
            Lanes::Avx512 if Q::IN_512_BITS => unsafe { x86::ask_by_avx512(query) },
            // SAFETY: by the contract.
            #[cfg(target_arch = "x86_64")]
            Lanes::Avx2 | Lanes::Avx512 => unsafe { x86::ask_by_avx2(query) },
            // SAFETY: by the contract.
            #[cfg(target_arch = "aarch64")]
            Lanes::Neon => unsafe { arm::ask_by_neon(query) },
        }
    }
}

/// What is asked by any [`Instructions`].
pub(crate) trait Query {
    /// What it comes to.
    type Answer;
    /// Whether it may be compiled for 512 bits at once. Compilers multiply as many then, and a
    /// processor that does so runs slower for a while, whatever it does.
    const IN_512_BITS: bool;

    /// Asks it. To be `inline(always)`, so that it is compiled for these instructions.
    fn by(self, instructions: impl Instructions) -> Self::Answer;
}

/// A set of instructions to compare with. Who has a value of it runs where the processor has them.
pub(crate) trait Instructions: Copy {
    /// How many keys of `node` are not above `x`.
    fn up_to(self, node: &[u64; 8], x: u64) -> usize;

    /// For each lane `j` whether `codes[j] <= limit`, as bits, lane 0 the lowest.
    fn codes_up_to(self, codes: &[u16; CODES], limit: u16) -> u32;

    /// For each lane `j` whether code `j` of 24 bits is not above `limit`, which has as many at
    /// most; as bits, lane 0 the lowest.
    fn fine_up_to(self, upper: &[u16; CODES], lower: &[u16; FINE_LOW_WORDS], limit: u32) -> u32;

    /// For each lane `j` of a group of codes of `BITS`, 10 or 12, whether `(code[j] << exponent) +
    /// j * step <= limit`, as bits, lane 0 the lowest. The exponent is at most 7, the step at most
    /// twice [`GROUP_STEP`].
    fn packed_up_to<const BITS: usize, const WORDS: usize>(
        self,
        words: &[u16; WORDS],
        limit: i32,
        step: i32,
        exponent: u32,
    ) -> u32;

    /// The same of a group of wide codes.
    fn wide_up_to(self, words: &[u16; WIDE_WORDS], limit: i32, step: i32, exponent: u32) -> u32;
}

/// One number after the other.
#[derive(Clone, Copy)]
pub(crate) struct Scalar;

/// Asks for the cache line at `address`, which may be any.
#[inline(always)]
pub(crate) fn prefetch(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch has no effect that a program can see, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// Codes that are compared at once.
pub(crate) const CODES: usize = 16;
/// Words of 16 bits that a group of codes of so many bits has: one, which is not looked at here,
/// and the codes, bit after bit.
pub(crate) const fn group_words(bits: usize) -> usize {
    1 + CODES * bits / 16
}
/// Words that a group of wide codes has: one that is not looked at, and one for each.
pub(crate) const WIDE_WORDS: usize = 17;
/// How far a lane of a group lies behind the one before, about.
pub(crate) const GROUP_STEP: i32 = 1 << 14;

/// Words that the lower bits of sixteen codes of 24 bits have.
pub(crate) const FINE_LOW_WORDS: usize = CODES / 2;

/// Words of so many codes of 24 bits: the upper 16 bits of each, then the lower 8, two in a word,
/// the first below.
pub(crate) const fn fine_words(codes: usize) -> usize {
    codes + codes.div_ceil(2)
}

/// A code of 24 bits.
#[inline]
pub(crate) fn fine_position(upper: &[u16; CODES], lower: &[u16; FINE_LOW_WORDS], lane: usize) -> u32 {
    u32::from(upper[lane]) << 8 | u32::from(lower[lane / 2] >> (8 * (lane % 2))) & 0xff
}

impl Instructions for Scalar {
    #[inline(always)]
    fn up_to(self, node: &[u64; 8], x: u64) -> usize {
        node.iter().map(|&key| usize::from(key <= x)).sum()
    }

    #[inline(always)]
    fn codes_up_to(self, codes: &[u16; CODES], limit: u16) -> u32 {
        codes.iter().enumerate().fold(0, |bits, (lane, &code)| bits | u32::from(code <= limit) << lane)
    }

    #[inline(always)]
    fn fine_up_to(self, upper: &[u16; CODES], lower: &[u16; FINE_LOW_WORDS], limit: u32) -> u32 {
        (0..CODES).fold(0, |bits, lane| bits | u32::from(fine_position(upper, lower, lane) <= limit) << lane)
    }

    #[inline(always)]
    fn packed_up_to<const BITS: usize, const WORDS: usize>(
        self,
        words: &[u16; WORDS],
        limit: i32,
        step: i32,
        exponent: u32,
    ) -> u32 {
        const { assert!(WORDS == group_words(BITS)) };
        let code = |lane: usize| {
            let (word, bit) = (1 + lane * BITS / 16, lane * BITS % 16);
            let next = words.get(word + 1).copied().unwrap_or(0);
            (u32::from(words[word]) | u32::from(next) << 16) >> bit & ((1 << BITS) - 1)
        };
        (0..CODES).fold(0, |bits, lane| {
            let at = ((code(lane) << exponent) as i32) + lane as i32 * step;
            bits | u32::from(at <= limit) << lane
        })
    }

    #[inline(always)]
    fn wide_up_to(self, words: &[u16; WIDE_WORDS], limit: i32, step: i32, exponent: u32) -> u32 {
        words[1..].iter().enumerate().fold(0, |bits, (lane, &code)| {
            let at = (i32::from(code) << exponent) + lane as i32 * step;
            bits | u32::from(at <= limit) << lane
        })
    }
}

/// Where codes of 10 or 12 bits lie in a group.
struct Packing {
    /// Where in a group 16 bytes are loaded from, for the first and the last 8 codes: the second
    /// load ends with the group.
    loads: [usize; 2],
    /// Where in those bytes each code lies, as two bytes for each; beside it may lie bits of its
    /// neighbours.
    bytes: [u8; 32],
    /// By what to multiply those two bytes, so that the code is the highest of their bits.
    raise: [u16; CODES],
}

impl Packing {
    const fn of(bits: usize) -> Packing {
        let (first, second) = (2, 2 + bits);
        let mut packing =
            Packing { loads: [first, group_words(bits) * 2 - 16], bytes: [0; 32], raise: [0; CODES] };
        let mut lane = 0;
        while lane < CODES {
            // 8 codes are as many bytes as a code has bits.
            let half = lane / 8;
            let begin = if half == 0 { 0 } else { second - packing.loads[1] };
            let (byte, bit) = (begin + lane % 8 * bits / 8, lane % 8 * bits % 8);
            packing.bytes[2 * lane] = byte as u8;
            packing.bytes[2 * lane + 1] = byte as u8 + 1;
            packing.raise[lane] = 1 << (16 - bits - bit);
            lane += 1;
        }
        packing
    }
}

/// The packing of codes of 10 bits, and of 12.
static PACKINGS: [Packing; 2] = [Packing::of(10), Packing::of(12)];

/// The packing of codes of so many bits.
const fn packing(bits: usize) -> &'static Packing {
    assert!(bits == 10 || bits == 12);
    &PACKINGS[(bits - 10) / 2]
}

/// The numbers of the lanes.
static LANES: [i32; CODES] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

#[cfg(target_arch = "x86_64")]
pub(crate) mod x86 {
    use super::{CODES, FINE_LOW_WORDS, Instructions, LANES, Query, WIDE_WORDS, group_words, packing};
    use std::arch::x86_64::*;

    /// Whether the processor has what [`Lanes::Avx2`](super::Lanes::Avx2) is.
    pub(super) fn has_avx2() -> bool {
        is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("popcnt")
    }

    /// What `query` comes to by AVX2.
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    pub(super) fn ask_by_avx2<Q: Query>(query: Q) -> Q::Answer {
        query.by(Avx2(()))
    }

    /// What `query` comes to by AVX-512.
    #[target_feature(enable = "avx2,avx512f,bmi1,bmi2,popcnt")]
    pub(super) fn ask_by_avx512<Q: Query>(query: Q) -> Q::Answer {
        query.by(Avx512(Avx2(())))
    }

    /// Made only where the processor has AVX2, BMI 1 and 2, and POPCNT.
    #[derive(Clone, Copy)]
    struct Avx2(());

    impl Instructions for Avx2 {
        #[inline(always)]
        fn up_to(self, node: &[u64; 8], x: u64) -> usize {
            // SAFETY: there is a value of this type.
            unsafe { up_to_avx2(node, x) }
        }

        #[inline(always)]
        fn codes_up_to(self, codes: &[u16; CODES], limit: u16) -> u32 {
            // SAFETY: as above.
            unsafe { codes_up_to_avx2(codes, limit) }
        }

        #[inline(always)]
        fn fine_up_to(self, upper: &[u16; CODES], lower: &[u16; FINE_LOW_WORDS], limit: u32) -> u32 {
            // SAFETY: as above.
            unsafe { fine_up_to_avx2(upper, lower, limit) }
        }

        #[inline(always)]
        fn packed_up_to<const BITS: usize, const WORDS: usize>(
            self,
            words: &[u16; WORDS],
            limit: i32,
            step: i32,
            exponent: u32,
        ) -> u32 {
            // SAFETY: as above.
            unsafe { packed_up_to_avx2::<BITS, WORDS>(words, limit, step, exponent) }
        }

        #[inline(always)]
        fn wide_up_to(self, words: &[u16; WIDE_WORDS], limit: i32, step: i32, exponent: u32) -> u32 {
            // SAFETY: as above.
            unsafe { wide_up_to_avx2(words, limit, step, exponent) }
        }
    }

    /// Made only where the processor has AVX-512 F besides.
    #[derive(Clone, Copy)]
    struct Avx512(Avx2);

    impl Instructions for Avx512 {
        #[inline(always)]
        fn up_to(self, node: &[u64; 8], x: u64) -> usize {
            // SAFETY: there is a value of this type.
            unsafe { up_to_avx512(node, x) }
        }

        #[inline(always)]
        fn codes_up_to(self, codes: &[u16; CODES], limit: u16) -> u32 {
            self.0.codes_up_to(codes, limit)
        }

        #[inline(always)]
        fn fine_up_to(self, upper: &[u16; CODES], lower: &[u16; FINE_LOW_WORDS], limit: u32) -> u32 {
            self.0.fine_up_to(upper, lower, limit)
        }

        #[inline(always)]
        fn packed_up_to<const BITS: usize, const WORDS: usize>(
            self,
            words: &[u16; WORDS],
            limit: i32,
            step: i32,
            exponent: u32,
        ) -> u32 {
            self.0.packed_up_to::<BITS, WORDS>(words, limit, step, exponent)
        }

        #[inline(always)]
        fn wide_up_to(self, words: &[u16; WIDE_WORDS], limit: i32, step: i32, exponent: u32) -> u32 {
            self.0.wide_up_to(words, limit, step, exponent)
        }
    }

    /// [`Instructions::codes_up_to`].
    #[inline]
    #[target_feature(enable = "avx2")]
    fn codes_up_to_avx2(codes: &[u16; CODES], limit: u16) -> u32 {
        // SAFETY: a load takes 32 bytes, which 16 codes have; it may be unaligned.
        let codes = unsafe { _mm256_loadu_si256(codes.as_ptr().cast()) };
        // What is not above the limit is the lesser of both.
        let limit = _mm256_set1_epi16(limit as i16);
        let up_to = _mm256_cmpeq_epi16(_mm256_min_epu16(codes, limit), codes);
        let up_to = _mm_packs_epi16(_mm256_castsi256_si128(up_to), _mm256_extracti128_si256::<1>(up_to));
        _mm_movemask_epi8(up_to) as u32
    }

    /// [`Instructions::fine_up_to`].
    #[inline]
    #[target_feature(enable = "avx2")]
    fn fine_up_to_avx2(upper: &[u16; CODES], lower: &[u16; FINE_LOW_WORDS], limit: u32) -> u32 {
        // SAFETY: loads take 32 and 16 bytes, which both have; they may be unaligned.
        let (upper, lower) =
            unsafe { (_mm256_loadu_si256(upper.as_ptr().cast()), _mm_loadu_si128(lower.as_ptr().cast())) };
        let lower = _mm256_cvtepu8_epi16(lower);
        let (limit, limit_below) =
            (_mm256_set1_epi16((limit >> 8) as i16), _mm256_set1_epi16(limit as i16 & 0xff));
        // What is not above a limit is the lesser of both. Lower bits tell where upper ones are
        // equal.
        let up_to = _mm256_cmpeq_epi16(_mm256_min_epu16(upper, limit), upper);
        let above =
            _mm256_and_si256(_mm256_cmpeq_epi16(upper, limit), _mm256_cmpgt_epi16(lower, limit_below));
        let up_to = _mm256_andnot_si256(above, up_to);
        let up_to = _mm_packs_epi16(_mm256_castsi256_si128(up_to), _mm256_extracti128_si256::<1>(up_to));
        _mm_movemask_epi8(up_to) as u32
    }

    /// [`Instructions::packed_up_to`].
    #[inline]
    #[target_feature(enable = "avx2")]
    fn packed_up_to_avx2<const BITS: usize, const WORDS: usize>(
        words: &[u16; WORDS],
        limit: i32,
        step: i32,
        exponent: u32,
    ) -> u32 {
        const { assert!(WORDS == group_words(BITS)) };
        let (packing, group) = (packing(BITS), words.as_ptr().cast::<u8>());
        // SAFETY: both loads of 16 bytes end within the group, and 32 numbers of bytes and 16
        // factors are there. All may be unaligned.
        let (first, second, bytes, raise) = unsafe {
            (
                _mm_loadu_si128(group.add(packing.loads[0]).cast()),
                _mm_loadu_si128(group.add(packing.loads[1]).cast()),
                _mm256_loadu_si256(packing.bytes.as_ptr().cast()),
                _mm256_loadu_si256(packing.raise.as_ptr().cast()),
            )
        };
        let pairs = _mm256_shuffle_epi8(_mm256_set_m128i(second, first), bytes);
        // What lies above a code is shifted out; then all are shifted down.
        let down = _mm_cvtsi32_si128(16 - BITS as i32);
        up_to(_mm256_srl_epi16(_mm256_mullo_epi16(pairs, raise), down), limit, step, exponent)
    }

    /// [`Instructions::wide_up_to`].
    #[inline]
    #[target_feature(enable = "avx2")]
    fn wide_up_to_avx2(words: &[u16; WIDE_WORDS], limit: i32, step: i32, exponent: u32) -> u32 {
        // SAFETY: 16 codes of two bytes follow the first word; the load may be unaligned.
        let codes = unsafe { _mm256_loadu_si256(words.as_ptr().add(1).cast()) };
        up_to(codes, limit, step, exponent)
    }

    /// The codes of a group, compared.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn up_to(codes: __m256i, limit: i32, step: i32, exponent: u32) -> u32 {
        let shift = _mm_cvtsi32_si128(exponent as i32);
        let (limit, step) = (_mm256_set1_epi32(limit), _mm256_set1_epi32(step));
        let half = |codes: __m128i, first: usize| {
            // SAFETY: 8 of 16 lane numbers from `first` on, 0 or 8; the load may be unaligned.
            let lanes = unsafe { _mm256_loadu_si256(LANES.as_ptr().add(first).cast()) };
            let codes = _mm256_sll_epi32(_mm256_cvtepu16_epi32(codes), shift);
            let above = _mm256_cmpgt_epi32(_mm256_add_epi32(codes, _mm256_mullo_epi32(lanes, step)), limit);
            !_mm256_movemask_ps(_mm256_castsi256_ps(above)) as u32 & 0xff
        };
        half(_mm256_castsi256_si128(codes), 0) | half(_mm256_extracti128_si256::<1>(codes), 8) << 8
    }

    /// [`Instructions::up_to`].
    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    fn up_to_avx2(node: &[u64; 8], x: u64) -> usize {
        // Comparisons are of signed numbers: with the sign bits flipped they order as unsigned
        // ones.
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

    /// [`Instructions::up_to`].
    #[inline]
    #[target_feature(enable = "avx512f,popcnt")]
    fn up_to_avx512(node: &[u64; 8], x: u64) -> usize {
        // SAFETY: the node is 64 bytes; the load may be unaligned.
        let keys = unsafe { _mm512_loadu_si512(node.as_ptr().cast()) };
        _mm512_cmple_epu64_mask(keys, _mm512_set1_epi64(x as i64)).count_ones() as usize
    }
}

#[cfg(target_arch = "aarch64")]
pub(crate) mod arm {
    use super::{CODES, FINE_LOW_WORDS, Instructions, LANES, Query, WIDE_WORDS, group_words, packing};
    use std::arch::aarch64::*;

    /// What `query` comes to by NEON.
    #[target_feature(enable = "neon")]
    pub(super) fn ask_by_neon<Q: Query>(query: Q) -> Q::Answer {
        query.by(Neon(()))
    }

    /// Made only where the processor has NEON.
    #[derive(Clone, Copy)]
    struct Neon(());

    impl Instructions for Neon {
        #[inline(always)]
        fn up_to(self, node: &[u64; 8], x: u64) -> usize {
            // SAFETY: there is a value of this type.
            unsafe { up_to_neon(node, x) }
        }

        #[inline(always)]
        fn codes_up_to(self, codes: &[u16; CODES], limit: u16) -> u32 {
            // SAFETY: as above.
            unsafe { codes_up_to_neon(codes, limit) }
        }

        #[inline(always)]
        fn fine_up_to(self, upper: &[u16; CODES], lower: &[u16; FINE_LOW_WORDS], limit: u32) -> u32 {
            // SAFETY: as above.
            unsafe { fine_up_to_neon(upper, lower, limit) }
        }

        #[inline(always)]
        fn packed_up_to<const BITS: usize, const WORDS: usize>(
            self,
            words: &[u16; WORDS],
            limit: i32,
            step: i32,
            exponent: u32,
        ) -> u32 {
            // SAFETY: as above.
            unsafe { packed_up_to_neon::<BITS, WORDS>(words, limit, step, exponent) }
        }

        #[inline(always)]
        fn wide_up_to(self, words: &[u16; WIDE_WORDS], limit: i32, step: i32, exponent: u32) -> u32 {
            // SAFETY: as above.
            unsafe { wide_up_to_neon(words, limit, step, exponent) }
        }
    }

    /// [`Instructions::codes_up_to`].
    #[inline]
    #[target_feature(enable = "neon")]
    fn codes_up_to_neon(codes: &[u16; CODES], limit: u16) -> u32 {
        const WEIGHTS: [u16; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
        let half = |at: usize| {
            // SAFETY: 8 codes from 8 or 0 on, and 8 weights are there.
            let (codes, weights) =
                unsafe { (vld1q_u16(codes.as_ptr().add(at)), vld1q_u16(WEIGHTS.as_ptr())) };
            u32::from(vaddvq_u16(vandq_u16(vcleq_u16(codes, vdupq_n_u16(limit)), weights)))
        };
        half(0) | half(8) << 8
    }

    /// [`Instructions::fine_up_to`].
    #[inline]
    #[target_feature(enable = "neon")]
    fn fine_up_to_neon(upper: &[u16; CODES], lower: &[u16; FINE_LOW_WORDS], limit: u32) -> u32 {
        const WEIGHTS: [u16; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
        let (above, below) = (vdupq_n_u16((limit >> 8) as u16), vdupq_n_u16(limit as u16 & 0xff));
        let half = |at: usize| {
            // SAFETY: 8 codes from 8 or 0 on, 8 bytes for these from half as many words on, and 8
            // weights are there.
            let (upper, lower, weights) = unsafe {
                (
                    vld1q_u16(upper.as_ptr().add(at)),
                    vmovl_u8(vld1_u8(lower.as_ptr().add(at / 2).cast::<u8>())),
                    vld1q_u16(WEIGHTS.as_ptr()),
                )
            };
            // Lower bits tell where upper ones are equal.
            let equal = vandq_u16(vceqq_u16(upper, above), vcleq_u16(lower, below));
            let up_to = vorrq_u16(vcltq_u16(upper, above), equal);
            u32::from(vaddvq_u16(vandq_u16(up_to, weights)))
        };
        half(0) | half(8) << 8
    }

    /// [`Instructions::packed_up_to`].
    #[inline]
    #[target_feature(enable = "neon")]
    fn packed_up_to_neon<const BITS: usize, const WORDS: usize>(
        words: &[u16; WORDS],
        limit: i32,
        step: i32,
        exponent: u32,
    ) -> u32 {
        const { assert!(WORDS == group_words(BITS)) };
        let packing = packing(BITS);
        let half = |half: usize| {
            // SAFETY: both loads of 16 bytes end within the group; 16 of 32 numbers of bytes and 8
            // of 16 factors are there.
            let (group, bytes, raise) = unsafe {
                (
                    vld1q_u8(words.as_ptr().cast::<u8>().add(packing.loads[half])),
                    vld1q_u8(packing.bytes.as_ptr().add(half * 16)),
                    vld1q_u16(packing.raise.as_ptr().add(half * 8)),
                )
            };
            let pairs = vreinterpretq_u16_u8(vqtbl1q_u8(group, bytes));
            // What lies above a code is shifted out; then all are shifted down.
            let codes = vshlq_u16(vmulq_u16(pairs, raise), vdupq_n_s16(BITS as i16 - 16));
            up_to(codes, half * 8, limit, step, exponent)
        };
        half(0) | half(1)
    }

    /// [`Instructions::wide_up_to`].
    #[inline]
    #[target_feature(enable = "neon")]
    fn wide_up_to_neon(words: &[u16; WIDE_WORDS], limit: i32, step: i32, exponent: u32) -> u32 {
        let half = |first: usize| {
            // SAFETY: 8 of the 16 codes that follow the first word, from `first` on, 0 or 8.
            let codes = unsafe { vld1q_u16(words.as_ptr().add(1 + first)) };
            up_to(codes, first, limit, step, exponent)
        };
        half(0) | half(8)
    }

    /// Half of a group's codes, from lane `first` on, compared: the bits of their lanes.
    #[inline]
    #[target_feature(enable = "neon")]
    fn up_to(codes: uint16x8_t, first: usize, limit: i32, step: i32, exponent: u32) -> u32 {
        const WEIGHTS: [u32; 4] = [1, 2, 4, 8];
        let (limit, exponent) = (vdupq_n_s32(limit), vdupq_n_s32(exponent as i32));
        let quarter = |codes: uint16x4_t, lane: usize| {
            // SAFETY: 4 of 16 lane numbers from `lane` on, and 4 weights are there.
            let (lanes, weights) =
                unsafe { (vld1q_s32(LANES.as_ptr().add(lane)), vld1q_u32(WEIGHTS.as_ptr())) };
            let codes = vshlq_s32(vreinterpretq_s32_u32(vmovl_u16(codes)), exponent);
            let at = vaddq_s32(codes, vmulq_n_s32(lanes, step));
            vaddvq_u32(vandq_u32(vcleq_s32(at, limit), weights)) << lane
        };
        quarter(vget_low_u16(codes), first) | quarter(vget_high_u16(codes), first + 4)
    }

    /// [`Instructions::up_to`].
    #[inline]
    #[target_feature(enable = "neon")]
    fn up_to_neon(node: &[u64; 8], x: u64) -> usize {
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

    /// A comparison, by any instructions.
    enum Compare<'c> {
        Codes(&'c [u16; CODES], u16),
        Fine(&'c [u16; CODES], &'c [u16; FINE_LOW_WORDS], u32),
        Ten(&'c [u16; WIDE_WORDS], Group),
        Twelve(&'c [u16; WIDE_WORDS], Group),
        Wide(&'c [u16; WIDE_WORDS], Group),
    }

    /// Limit, step and exponent.
    type Group = (i32, i32, u32);

    impl Query for &Compare<'_> {
        type Answer = u32;
        const IN_512_BITS: bool = true;

        fn by(self, by: impl Instructions) -> u32 {
            match *self {
                Compare::Codes(codes, limit) => by.codes_up_to(codes, limit),
                Compare::Fine(upper, lower, limit) => by.fine_up_to(upper, lower, limit),
                Compare::Ten(words, (limit, step, exponent)) => {
                    let words = words.first_chunk().unwrap();
                    by.packed_up_to::<10, { group_words(10) }>(words, limit, step, exponent)
                }
                Compare::Twelve(words, (limit, step, exponent)) => {
                    let words = words.first_chunk().unwrap();
                    by.packed_up_to::<12, { group_words(12) }>(words, limit, step, exponent)
                }
                Compare::Wide(words, (limit, step, exponent)) => by.wide_up_to(words, limit, step, exponent),
            }
        }
    }

    /// The bits of every set of instructions that the processor has.
    fn bits_of(compare: Compare<'_>) -> Vec<u32> {
        // SAFETY: only what is available is asked.
        Lanes::available().into_iter().map(|lanes| unsafe { lanes.ask(&compare) }).collect()
    }

    fn random_numbers() -> impl FnMut() -> u32 {
        let mut state = 1u64;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 32) as u32
        }
    }

    const CASES: usize = if cfg!(miri) { 100 } else { 20_000 };

    #[test]
    fn all_instructions_compare_codes_alike() {
        let mut random = random_numbers();
        for _ in 0..CASES {
            let codes: [u16; CODES] = std::array::from_fn(|_| random() as u16);
            for limit in [0, 1, 0x7fff, 0x8000, u16::MAX - 1, u16::MAX, random() as u16, codes[7], codes[15]]
            {
                let all = bits_of(Compare::Codes(&codes, limit));
                assert!(all.iter().all(|bits| *bits == all[0]), "{codes:?} {limit} {all:x?}");
            }
        }
    }

    #[test]
    fn all_instructions_compare_codes_of_24_bits_alike() {
        let mut random = random_numbers();
        for _ in 0..CASES {
            let codes: [u32; CODES] = std::array::from_fn(|_| random() >> 8);
            // Many upper bits are equal.
            let near = |code: u32| code & !0xffff | codes[0] & 0xffff;
            for codes in [codes, codes.map(near), codes.map(|code| codes[0] & !0xff | code & 0xff)] {
                let upper = codes.map(|code| (code >> 8) as u16);
                let lower = std::array::from_fn(|i| (codes[2 * i] & 0xff | codes[2 * i + 1] << 8) as u16);
                let limits = [0, 1, 0xff, 0x7f_ffff, 0x80_0000, 0xff_ffff, random() >> 8];
                let around =
                    [codes[7], codes[15], codes[8].saturating_sub(1), codes[3] | 0xff, codes[4] & !0xff];
                for limit in limits.into_iter().chain(around) {
                    let of = |(lane, code): (usize, &u32)| u32::from(*code <= limit) << lane;
                    let expected: u32 = codes.iter().enumerate().map(of).sum();
                    let all = bits_of(Compare::Fine(&upper, &lower, limit));
                    assert!(all.iter().all(|bits| *bits == expected), "{codes:x?} {limit:x} {all:x?}");
                }
            }
        }
    }

    #[test]
    fn all_instructions_compare_groups_alike() {
        let mut random = random_numbers();
        for _ in 0..CASES {
            let wide: [u16; WIDE_WORDS] = std::array::from_fn(|_| random() as u16);
            let near = [0; 4].map(|_| random() as i32 % (1 << 20));
            let step = GROUP_STEP / 2 + random() as i32 % (GROUP_STEP / 2);
            for limit in [i32::MIN, -1, 0, 7 * step, 15 * step, i32::MAX].into_iter().chain(near) {
                for exponent in 0..8 {
                    for all in [
                        bits_of(Compare::Ten(&wide, (limit, step, exponent))),
                        bits_of(Compare::Twelve(&wide, (limit, step, exponent))),
                        bits_of(Compare::Wide(&wide, (limit, step, exponent))),
                    ] {
                        let alike = all.iter().all(|bits| *bits == all[0]);
                        assert!(alike, "{wide:?} {limit} {step} {exponent} {all:x?}");
                    }
                }
            }
        }
    }
}

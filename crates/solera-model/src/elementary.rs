//! Elementary functions that every processor rounds alike: `exp`, `ln`, `log2`, `pow`, `tanh`,
//! `sigmoid` and others.
//!
//! They are made of additions, multiplications and divisions: series after a reduction of the
//! argument. The platform's own differ in the last bit between C libraries, and a learner that
//! decides by a sum of thousands of them decides otherwise.
//!
//! What must hold: they give the same bits on every processor. They err by less than 4 units in the
//! last place where the result is a normal number. Powers err by less than 1 in 10¹²,
//! `normal_share` by less than 2·10⁻⁷.
//! Callers: in `solera-tune` the learners, what chooses, the cost model and `sight::context`; the
//! opponent `ecotune` in `solera-bench`. `filter` in `solera` asks what filters are expected to let
//! pass.

/// ln 2 in two parts: the first has so few digits that whole multiples of it are exact.
const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// Above this, e^x is infinite; below [`EXP_MIN`] it is 0.
const EXP_MAX: f64 = 709.782_712_893_384;
const EXP_MIN: f64 = -745.2;
/// Terms of the exponential's series on ±ln 2/2: the next is below the last place.
const EXP_TERMS: u32 = 14;
/// Terms of the logarithm's series on √½ to √2.
const LN_TERMS: u32 = 12;
/// Bits of an `f64` before its exponent.
const MANTISSA_BITS: u32 = 52;

/// 2^`power` for a power of −1074 to 1023.
fn power_of_two(power: i32) -> f64 {
    match power {
        -1022.. => f64::from_bits(((power + 1023) as u64) << MANTISSA_BITS),
        _ => f64::from_bits(1 << (power + 1074)),
    }
}

/// e^x.
pub fn exp(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x > EXP_MAX {
        return f64::INFINITY;
    }
    if x < EXP_MIN {
        return 0.0;
    }
    let whole = (x * std::f64::consts::LOG2_E).round();
    let rest = (x - whole * LN_2_HIGH) - whole * LN_2_LOW;
    let mut sum = 1.0;
    for term in (1..EXP_TERMS).rev() {
        sum = 1.0 + rest / f64::from(term) * sum;
    }
    // In two steps: 2^whole alone may be too large or too small for a normal number.
    let half = whole as i32 / 2;
    sum * power_of_two(half) * power_of_two(whole as i32 - half)
}

/// The natural logarithm. `NaN` for x below 0.
pub fn ln(x: f64) -> f64 {
    if x.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    if x == 0.0 {
        return f64::NEG_INFINITY;
    }
    if x == f64::INFINITY {
        return x;
    }
    // A number below the normal ones is made one.
    let (x, shift) = if x < f64::MIN_POSITIVE { (x * power_of_two(54), -54) } else { (x, 0) };
    let bits = x.to_bits();
    let mut exponent = (bits >> MANTISSA_BITS) as i32 - 1023 + shift;
    let mut mantissa = f64::from_bits(bits & ((1 << MANTISSA_BITS) - 1) | 1023 << MANTISSA_BITS);
    if mantissa > std::f64::consts::SQRT_2 {
        (mantissa, exponent) = (mantissa / 2.0, exponent + 1);
    }
    // ln m = 2 artanh s.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let mut sum = 0.0;
    for term in (0..LN_TERMS).rev() {
        sum = 1.0 / f64::from(2 * term + 1) + square * sum;
    }
    f64::from(exponent) * LN_2_HIGH + (2.0 * s * sum + f64::from(exponent) * LN_2_LOW)
}

/// The logarithm to base 2. `NaN` for x below 0. Powers of two give whole numbers.
pub fn log2(x: f64) -> f64 {
    let exponent = floor_log2(x);
    if !(x.is_normal() && x > 0.0) {
        return ln(x) * std::f64::consts::LOG2_E;
    }
    f64::from(exponent) + ln(x / power_of_two(exponent)) * std::f64::consts::LOG2_E
}

/// The largest whole number that is at most the logarithm to base 2 of a positive normal number.
pub fn floor_log2(x: f64) -> i32 {
    ((x.to_bits() >> MANTISSA_BITS) & 0x7ff) as i32 - 1023
}

/// 2^x.
pub fn exp2(x: f64) -> f64 {
    let whole = x.floor();
    if !(-1000.0..1000.0).contains(&whole) {
        return exp(x * std::f64::consts::LN_2);
    }
    power_of_two(whole as i32) * exp((x - whole) * std::f64::consts::LN_2)
}

/// x^n for a whole n, by squaring.
pub fn powi(x: f64, n: u32) -> f64 {
    let (mut base, mut left, mut product) = (x, n, 1.0);
    while left > 0 {
        if left % 2 == 1 {
            product *= base;
        }
        base *= base;
        left /= 2;
    }
    product
}

/// x^y for x of at least 0.
pub fn pow(x: f64, y: f64) -> f64 {
    match x {
        _ if y == 0.0 => 1.0,
        0.0 => {
            if y > 0.0 {
                0.0
            } else {
                f64::INFINITY
            }
        }
        _ => exp(y * ln(x)),
    }
}

/// ln(1 + x) for x above −1, without losing what is small.
pub fn ln_1p(x: f64) -> f64 {
    let sum = 1.0 + x;
    // What the sum rounds away is made up for (Kahan).
    if sum == 1.0 || !sum.is_finite() { x } else { ln(sum) * (x / (sum - 1.0)) }
}

/// e^x of ±ln 2/2 at most, without the 1.
fn exp_m1_of_small(x: f64) -> f64 {
    let mut sum = 1.0;
    for term in (2..=EXP_TERMS).rev() {
        sum = 1.0 + x / f64::from(term) * sum;
    }
    x * sum
}

/// The hyperbolic tangent.
pub fn tanh(x: f64) -> f64 {
    /// Above this, the nearest number is 1.
    const ONE: f64 = 20.0;
    /// Below this, e^(2x) − 1 would cancel.
    const SMALL: f64 = 0.17;
    let size = x.abs();
    let tanh = if size > ONE {
        1.0
    } else if size < SMALL {
        let power = exp_m1_of_small(2.0 * size);
        power / (power + 2.0)
    } else {
        let power = exp(2.0 * size);
        (power - 1.0) / (power + 1.0)
    };
    tanh.copysign(x)
}

/// 1/(1 + e^(−x)).
pub fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + exp(-x))
}

/// The share of a standard normal distribution below `x`, to within 2·10⁻⁷ (Abramowitz and Stegun
/// 26.2.17).
pub fn normal_share(x: f64) -> f64 {
    const TERMS: [f64; 5] = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let sum = TERMS.iter().rev().fold(0.0, |sum, term| (sum + term) * t);
    let above = normal_density(x) * sum;
    if x >= 0.0 { 1.0 - above } else { above }
}

/// The density of a standard normal distribution at `x`.
pub fn normal_density(x: f64) -> f64 {
    const ROOT: f64 = 0.398_942_280_401_432_7;
    ROOT * exp(-0.5 * x * x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// FNV-1a over the bits of numbers.
    fn digest(numbers: impl IntoIterator<Item = f64>) -> u64 {
        const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0100_0000_01b3;
        let bytes = numbers.into_iter().flat_map(|number| number.to_bits().to_le_bytes());
        bytes.fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
    }

    fn near(ours: f64, theirs: f64) -> bool {
        ours == theirs || (ours - theirs).abs() <= 4.0 * f64::EPSILON * theirs.abs().max(f64::MIN_POSITIVE)
    }

    proptest! {
        #[test]
        fn they_are_the_platforms_but_for_the_last_places(x in -700.0f64..700.0, size in 1e-300f64..1e300) {
            prop_assert!(near(exp(x), x.exp()), "e^{x}");
            prop_assert!(near(ln(size), size.ln()) || (ln(size) - size.ln()).abs() < 4.0 * f64::EPSILON, "ln {size}");
            prop_assert!(near(tanh(x / 100.0), (x / 100.0).tanh()), "tanh {}", x / 100.0);
            prop_assert!(near(tanh(x / 1e5), (x / 1e5).tanh()), "tanh {}", x / 1e5);
        }
    }

    fn within(ours: f64, theirs: f64) -> bool {
        ours == theirs || (ours - theirs).abs() <= 1e-12 * theirs.abs().max(1e-300)
    }

    proptest! {
        #[test]
        fn powers_are_the_platforms_to_one_in_a_trillion(x in 1e-3f64..1e3, y in -40.0f64..40.0, n in 0u32..200, small in -0.9f64..0.9) {
            prop_assert!(within(pow(x, y), x.powf(y)), "{x}^{y}");
            prop_assert!(within(powi(x.min(1.5), n), x.min(1.5).powi(n as i32)), "{x}^{n}");
            prop_assert!(within(exp2(y), y.exp2()) && within(exp2(y * 20.0), (y * 20.0).exp2()), "2^{y}");
            prop_assert!((log2(x) - x.log2()).abs() < 1e-12, "log2 {x}");
            prop_assert_eq!(floor_log2(x), x.log2().floor() as i32);
            let tiny = small * 1e-9;
            prop_assert!(within(ln_1p(small), small.ln_1p()) && within(ln_1p(tiny), tiny.ln_1p()), "{small}");
        }
    }

    #[test]
    fn powers_of_two_are_exact() {
        for power in -1022..1023 {
            let x = power_of_two(power);
            assert_eq!((log2(x), floor_log2(x)), (f64::from(power), power));
        }
        assert_eq!(
            (exp2(10.0), exp2(-3.0), exp2(-2000.0), pow(0.0, 2.0), pow(7.0, 0.0)),
            (1024.0, 0.125, 0.0, 0.0, 1.0)
        );
    }

    #[test]
    fn ends_of_the_range_are_what_they_should_be() {
        assert_eq!((exp(0.0), exp(-1e9), exp(1e9), exp(710.0)), (1.0, 0.0, f64::INFINITY, f64::INFINITY));
        assert!(exp(f64::NAN).is_nan() && ln(-1.0).is_nan() && tanh(f64::NAN).is_nan());
        assert!(exp(-740.0) > 0.0 && (ln(exp(-740.0)) + 740.0).abs() < 1.0);
        assert_eq!((ln(1.0), ln(0.0), ln(f64::INFINITY)), (0.0, f64::NEG_INFINITY, f64::INFINITY));
        assert_eq!((tanh(0.0), tanh(50.0), tanh(-50.0)), (0.0, 1.0, -1.0));
        assert_eq!((sigmoid(0.0), sigmoid(1e9), sigmoid(-1e9)), (0.5, 1.0, 0.0));
    }

    #[test]
    fn the_normal_distribution_has_its_known_shares() {
        for (x, share) in [(0.0, 0.5), (1.0, 0.841_344_75), (-1.959_964, 0.025), (3.0, 0.998_650_1)] {
            assert!((normal_share(x) - share).abs() < 2e-7, "{x}: {}", normal_share(x));
        }
    }

    #[test]
    fn they_give_the_same_bits_on_every_processor() {
        let points = (-1000..1000).map(|i| f64::from(i) * 0.037);
        let values = points.flat_map(|x| [exp(x), ln(x.abs() + 0.01), tanh(x), normal_share(x)]);
        assert_eq!(digest(values), 0x3a7d_0e72_6494_102f);
    }
}

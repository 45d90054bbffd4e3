//! The principal branch of Lambert's W: `w0(x)` is the w ≥ −1 with w eʷ = x, by Halley's method.
//!
//! What must hold: it is `NaN` below −1/e, where there is none, and infinite for infinite x.
//!
//! Caller: `forms::camal`.

use crate::learn::elementary::{exp, ln, ln_1p};

/// Steps of Halley's method at most: it triples the right digits with each, so five are enough.
const STEPS_MAX: usize = 32;

/// W₀(x). `NaN` for x below −1/e (or `NaN`), where there is none; infinite for infinite x.
pub fn w0(x: f64) -> f64 {
    let branch_point = -exp(-1.0);
    if x.is_nan() || x < branch_point {
        return f64::NAN;
    }
    if x == 0.0 || x == f64::INFINITY {
        return x;
    }
    // Near the branch point the series in √(2(ex+1)); for large x, ln x − ln ln x; between,
    // ln(1+x).
    let mut w = match x {
        x if x < -0.25 => (2.0 * (std::f64::consts::E * x + 1.0)).max(0.0).sqrt() - 1.0,
        x if x > 3.0 => ln(x) - ln(ln(x)),
        x => ln_1p(x),
    };
    for _ in 0..STEPS_MAX {
        let e = exp(w);
        let f = w * e - x;
        let slope = e * (w + 1.0) - (w + 2.0) * f / (2.0 * w + 2.0);
        let step = f / slope;
        if !step.is_finite() || step.abs() <= 1e-15 * w.abs().max(1e-300) {
            break;
        }
        w -= step;
    }
    w
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_values_come_out() {
        assert_eq!(w0(0.0), 0.0);
        assert!((w0(std::f64::consts::E) - 1.0).abs() < 1e-14);
        assert!((w0(1.0) - 0.567_143_290_409_783_8).abs() < 1e-14);
        assert!((w0(-(-1.0f64).exp()) + 1.0).abs() < 1e-6);
        assert_eq!(w0(f64::INFINITY), f64::INFINITY);
        assert!(w0(-0.4).is_nan() && w0(f64::NAN).is_nan());
    }

    proptest! {
        #[test]
        fn w_times_its_exponential_is_the_argument(magnitude in -300.0f64..300.0) {
            let x = 10f64.powf(magnitude);
            let w = w0(x);
            // In logarithms, since the exponential overflows: ln w + w = ln x.
            prop_assert!((w.ln() + w - x.ln()).abs() < 1e-9 * (1.0 + x.ln().abs()), "{x}: {w}");
        }

        #[test]
        fn it_holds_below_zero_too(x in -0.3678f64..0.0) {
            let w = w0(x);
            prop_assert!((w * w.exp() - x).abs() < 1e-12 && w >= -1.0, "{x}: {w}");
        }
    }
}

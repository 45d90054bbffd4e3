//! How many absent keys this engine's filters let pass.

/// Bits of a filter's line.
const LINE_BITS: f64 = 512.0;
/// Most probes of a filter.
const PROBES_MAX: i32 = 24;

/// The share of absent keys that pass a filter of `bits` per key: lines fill unevenly, so it is more than an ideal
/// filter's.
pub fn false_positives(bits: f64) -> f64 {
    if bits <= 0.0 {
        return 1.0;
    }
    (1..=PROBES_MAX).map(|probes| of_probes(bits, probes)).fold(1.0, f64::min)
}

fn of_probes(bits: f64, probes: i32) -> f64 {
    let mean = LINE_BITS / bits;
    let mut chance = (-mean).exp();
    let mut sum = 0.0;
    for keys in 1..=(mean + 12.0 * mean.sqrt() + 12.0) as i32 {
        chance *= mean / f64::from(keys);
        let clear = (1.0 - 1.0 / LINE_BITS).powi(keys * probes);
        sum += chance * (1.0 - clear).powi(probes);
    }
    sum
}

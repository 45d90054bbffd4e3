//! How many absent keys a filter lets pass, by kind and bits per key: `false_positives` and
//! `false_positives_over`.
//!
//! The first is for many keys: a table of Bloom filters of 1 to 64 bits with interpolation between,
//! and Ribbon's formula. The second is for a table of so many keys: small Bloom filters have whole
//! lines, so more bits than they were given. For Ribbon both say the same.
//!
//! What must hold: tests hold both against filters that were built.
//!
//! Callers: `filter::allotment` weighs bits by the first, and an example of `solera-bench` prints
//! it; the cost model of `solera-tune` predicts reads by the second.

use super::{BITS_PER_KEY_MAX, FilterKind, FilterSpec, bloom, ribbon};
use solera_model::elementary::pow;

/// The share of absent keys that pass a blocked Bloom filter of 1, 2, … 64 bits per key: what
/// `bloom::best_probes` computes, in some milliseconds. An unblocked filter's falls by e^-0.48 with
/// every bit; here lines fill unevenly, and each further bit is worth less: e^-0.43 at 10 bits,
/// e^-0.35 at 20.
#[rustfmt::skip]
const BLOOM: [f64; 64] = [
    6.3212e-1, 3.9347e-1, 2.3712e-1, 1.4786e-1, 9.2885e-2, 5.7535e-2, 3.6403e-2, 2.3121e-2,
    1.4727e-2, 9.5712e-3, 6.1731e-3, 4.0690e-3, 2.6805e-3, 1.7974e-3, 1.2062e-3, 8.2457e-4,
    5.6271e-4, 3.9068e-4, 2.7213e-4, 1.9147e-4, 1.3638e-4, 9.7179e-5, 7.0130e-5, 5.1043e-5,
    3.7232e-5, 2.7452e-5, 2.0430e-5, 1.5205e-5, 1.1421e-5, 8.6542e-6, 6.5830e-6, 5.0259e-6,
    3.8666e-6, 2.9965e-6, 2.3299e-6, 1.8169e-6, 1.4260e-6, 1.1262e-6, 8.9458e-7, 7.1044e-7,
    5.6714e-7, 4.5514e-7, 3.6710e-7, 2.9754e-7, 2.4127e-7, 1.9634e-7, 1.6047e-7, 1.3172e-7,
    1.0855e-7, 8.9815e-8, 7.4288e-8, 6.1658e-8, 5.1359e-8, 4.2929e-8, 3.6003e-8, 3.0292e-8,
    2.5544e-8, 2.1547e-8, 1.8229e-8, 1.5467e-8, 1.3161e-8, 1.1228e-8, 9.6052e-9, 8.2377e-9,
];

/// The share of absent keys that pass a filter of `spec`, expected of many keys. Between whole
/// numbers of bits, a Bloom filter's logarithm is interpolated.
pub fn false_positives(spec: FilterSpec) -> f64 {
    let bits = f64::from(spec.bits_per_key).min(BLOOM.len() as f64);
    if bits.is_nan() || bits <= 0.0 {
        return 1.0;
    }
    match spec.kind {
        FilterKind::Bloom => {
            let below = bits.floor();
            let at = |bits: f64| if bits < 1.0 { 1.0f64 } else { BLOOM[bits as usize - 1] };
            pow(at(below), 1.0 - (bits - below)) * pow(at(bits.ceil()), bits - below)
        }
        FilterKind::Ribbon => ribbon::false_positives_expected(bits),
    }
}

/// The share of absent keys that pass a filter of `spec` over so many `keys` of one table. A Bloom
/// filter is made of whole lines of 512 bits, so that a small one lets fewer pass than
/// [`false_positives`] says: of 50 keys at 8 bits, which get one line and so 10 bits, 0.9 % instead
/// of 2.3 %.
pub fn false_positives_over(spec: FilterSpec, keys: f64) -> f64 {
    let has_filter = spec.bits_per_key > 0.0 && keys >= 1.0;
    match spec.kind {
        FilterKind::Bloom if has_filter => {
            bloom::false_positives_over(keys, spec.bits_per_key.min(BITS_PER_KEY_MAX))
        }
        _ => false_positives(spec),
    }
}

//! The many `f32` of a learner's saved memory as one text: `serialize` writes their bits, eight
//! hexadecimal digits each, `deserialize` reads them.
//!
//! What must hold: no number changes on the way. Numbers that are not finite are refused when they
//! are read, not when they are written.
//!
//! Callers: `#[serde(with = "bits")]` on the vectors of `network` and `replay`.

use serde::{Deserialize, Deserializer, Serializer, de::Error};
use std::fmt::Write;

/// Digits of one number.
const DIGITS: usize = 8;

/// Writes numbers as one text.
pub fn serialize<S: Serializer>(numbers: &[f32], serializer: S) -> Result<S::Ok, S::Error> {
    let mut text = String::with_capacity(numbers.len() * DIGITS);
    for number in numbers {
        write!(text, "{:08x}", number.to_bits()).expect("text takes all that is written");
    }
    serializer.serialize_str(&text)
}

/// Reads them. Numbers that are not finite are refused.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f32>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if !text.bytes().all(|digit| digit.is_ascii_hexdigit()) || text.len() % DIGITS != 0 {
        return Err(D::Error::custom("numbers are eight hexadecimal digits each"));
    }
    let number = |at: usize| {
        let bits = u32::from_str_radix(&text[at..at + DIGITS], 16);
        bits.ok().map(f32::from_bits).filter(|number| number.is_finite())
    };
    let numbers: Option<Vec<f32>> = (0..text.len()).step_by(DIGITS).map(number).collect();
    numbers.ok_or_else(|| D::Error::custom("a number that is none"))
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Held(#[serde(with = "super")] Vec<f32>);

    #[test]
    fn numbers_come_back_and_what_is_none_is_refused() {
        let held = Held(vec![0.0, -0.0, 1.5, f32::MIN_POSITIVE / 4.0, f32::MAX, -1e-7]);
        let text = serde_json::to_string(&held).unwrap();
        let back: Held = serde_json::from_str(&text).unwrap();
        assert!(held.0.iter().zip(&back.0).all(|(a, b)| a.to_bits() == b.to_bits()));
        for wrong in
            ["\"7f800000\"", "\"7fc00000\"", "\"3f8\"", "\"3f80000g\"", "\"ää\"", "3", "\"+3f80000\""]
        {
            assert!(serde_json::from_str::<Held>(wrong).is_err(), "{wrong}");
        }
    }
}

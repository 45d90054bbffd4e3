//! Models to bytes and back. Bytes of a model are not trusted: what is read is validated as if it had been
//! written by an enemy, and a length is believed only after the bytes behind it were seen.
//!
//! A line is 16 bytes: slope, then intercept, each the little-endian bits of an IEEE double. A sorted array
//! is a `u32` count, then that many `u64`, all little-endian.

use crate::segment::Line;
use std::{error, fmt};

/// Bytes of an encoded [`Line`].
pub const LINE_BYTES: usize = 16;

/// Why bytes or numbers are not a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// A slope or an intercept is NaN or infinite.
    NotFinite,
    /// Larger keys would be predicted at smaller ranks.
    NegativeSlope,
    /// A sorted array is not sorted.
    NotSorted,
    /// The bytes end early.
    Truncated,
    /// An array has more elements than 32 bits count.
    TooLong,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Invalid::NotFinite => "a model's line is not finite",
            Invalid::NegativeSlope => "a model's slope is negative",
            Invalid::NotSorted => "a model's keys are not sorted",
            Invalid::Truncated => "a model ends early",
            Invalid::TooLong => "a model has more keys than 32 bits count",
        })
    }
}

impl error::Error for Invalid {}

/// Appends a line: [`LINE_BYTES`] bytes.
pub fn put_line(out: &mut Vec<u8>, line: Line) {
    out.extend_from_slice(&line.slope().to_bits().to_le_bytes());
    out.extend_from_slice(&line.intercept().to_bits().to_le_bytes());
}

/// Takes a line off the front of `input`, which then begins behind it.
///
/// # Errors
/// [`Invalid::Truncated`], or what [`Line::new`] refuses.
pub fn take_line(input: &mut &[u8]) -> Result<Line, Invalid> {
    let slope = f64::from_bits(take_u64(input)?);
    let intercept = f64::from_bits(take_u64(input)?);
    Line::new(slope, intercept)
}

/// Appends a sorted array: 4 + 8 n bytes.
///
/// # Errors
/// [`Invalid::TooLong`] or [`Invalid::NotSorted`]; nothing is appended then.
pub fn put_sorted(out: &mut Vec<u8>, keys: &[u64]) -> Result<(), Invalid> {
    let count = u32::try_from(keys.len()).map_err(|_| Invalid::TooLong)?;
    if !keys.is_sorted() {
        return Err(Invalid::NotSorted);
    }
    out.reserve(4 + 8 * keys.len());
    out.extend_from_slice(&count.to_le_bytes());
    out.extend(keys.iter().flat_map(|key| key.to_le_bytes()));
    Ok(())
}

/// Takes a sorted array off the front of `input`, which then begins behind it.
///
/// # Errors
/// [`Invalid::Truncated`] or [`Invalid::NotSorted`].
pub fn take_sorted(input: &mut &[u8]) -> Result<Vec<u64>, Invalid> {
    let (count, rest) = input.split_first_chunk::<4>().ok_or(Invalid::Truncated)?;
    let bytes = (u32::from_le_bytes(*count) as usize).checked_mul(8).ok_or(Invalid::Truncated)?;
    let (keys, rest) = rest.split_at_checked(bytes).ok_or(Invalid::Truncated)?;
    let (keys, _) = keys.as_chunks::<8>();
    let keys: Vec<u64> = keys.iter().map(|&key| u64::from_le_bytes(key)).collect();
    if !keys.is_sorted() {
        return Err(Invalid::NotSorted);
    }
    *input = rest;
    Ok(keys)
}

fn take_u64(input: &mut &[u8]) -> Result<u64, Invalid> {
    let (word, rest) = input.split_first_chunk::<8>().ok_or(Invalid::Truncated)?;
    *input = rest;
    Ok(u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_truncation_is_an_error() {
        let mut bytes = Vec::new();
        put_line(&mut bytes, Line::new(0.25, -3.0).unwrap());
        put_sorted(&mut bytes, &[1, 1, u64::MAX]).unwrap();
        for end in 0..bytes.len() {
            let input = &mut &bytes[..end];
            assert_eq!(take_line(input).and_then(|_| take_sorted(input)), Err(Invalid::Truncated), "{end}");
        }
        let input = &mut &bytes[..];
        assert_eq!(take_line(input), Line::new(0.25, -3.0));
        assert_eq!(take_sorted(input), Ok(vec![1, 1, u64::MAX]));
        assert!(input.is_empty());
    }

    #[test]
    fn a_count_is_not_believed() {
        let mut bytes = u32::MAX.to_le_bytes().to_vec();
        bytes.extend([0; 8]);
        assert_eq!(take_sorted(&mut &bytes[..]), Err(Invalid::Truncated));
    }

    #[test]
    fn unsorted_arrays_are_refused_both_ways() {
        let mut bytes = Vec::new();
        assert_eq!(put_sorted(&mut bytes, &[2, 1]), Err(Invalid::NotSorted));
        assert!(bytes.is_empty());
        put_sorted(&mut bytes, &[1, 2]).unwrap();
        bytes[4] = 3;
        assert_eq!(take_sorted(&mut &bytes[..]), Err(Invalid::NotSorted));
    }
}

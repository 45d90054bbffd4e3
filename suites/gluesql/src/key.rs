//! SQL values as bytes in order: `append`, `kind`, `after`.
//!
//! What must hold: of two values of one kind the bytes compare as the values do, equal values have
//! equal bytes, and no value's bytes begin another's. Null is above everything. The whole numbers
//! of all widths are one kind. `table` and `index` make their keys of it.

use gluesql_core::{
    chrono::{Datelike, Timelike},
    data::{Interval, Key},
};
use std::net::IpAddr;

pub(crate) const WHOLE: u8 = 0;
pub(crate) const REAL: u8 = 1;
pub(crate) const DECIMAL: u8 = 2;
const BOOLEAN: u8 = 3;
pub(crate) const TEXT: u8 = 4;
const BYTES: u8 = 5;
pub(crate) const DATE: u8 = 6;
pub(crate) const TIMESTAMP: u8 = 7;
pub(crate) const TIME: u8 = 8;
const INTERVAL: u8 = 9;
pub(crate) const UUID: u8 = 10;
pub(crate) const INET: u8 = 11;
pub(crate) const NULL: u8 = 255;

/// Appends the bytes of `key`. The first is its kind.
pub(crate) fn append(bytes: &mut Vec<u8>, key: &Key) {
    match key {
        Key::I8(v) => whole(bytes, i128::from(*v)),
        Key::I16(v) => whole(bytes, i128::from(*v)),
        Key::I32(v) => whole(bytes, i128::from(*v)),
        Key::I64(v) => whole(bytes, i128::from(*v)),
        Key::I128(v) => whole(bytes, *v),
        Key::U8(v) => whole(bytes, i128::from(*v)),
        Key::U16(v) => whole(bytes, i128::from(*v)),
        Key::U32(v) => whole(bytes, i128::from(*v)),
        Key::U64(v) => whole(bytes, i128::from(*v)),
        Key::U128(v) => natural(bytes, *v),
        Key::F32(v) => real(bytes, f64::from(v.0)),
        Key::F64(v) => real(bytes, v.0),
        Key::Decimal(v) => {
            // What is before the point, then what is behind it in units of 10⁻²⁸: 1.0 is 1.00.
            let mut fraction = v.fract();
            fraction.rescale(28);
            bytes.push(DECIMAL);
            bytes.extend(signed(v.trunc().mantissa()));
            bytes.extend(signed(fraction.mantissa()));
        }
        Key::Bool(v) => bytes.extend([BOOLEAN, u8::from(*v)]),
        Key::Str(v) => {
            bytes.push(TEXT);
            text(bytes, v.as_bytes());
        }
        Key::Bytea(v) => {
            bytes.push(BYTES);
            text(bytes, v);
        }
        Key::Date(v) => {
            bytes.push(DATE);
            bytes.extend(signed(i128::from(v.num_days_from_ce())));
        }
        Key::Timestamp(v) => {
            bytes.push(TIMESTAMP);
            bytes.extend(signed(i128::from(v.and_utc().timestamp())));
            bytes.extend(v.nanosecond().to_be_bytes());
        }
        Key::Time(v) => {
            bytes.push(TIME);
            bytes.extend(v.num_seconds_from_midnight().to_be_bytes());
            bytes.extend(v.nanosecond().to_be_bytes());
        }
        Key::Interval(v) => {
            let (unit, count) = match v {
                Interval::Microsecond(count) => (0, *count),
                Interval::Month(count) => (1, i64::from(*count)),
            };
            bytes.extend([INTERVAL, unit]);
            bytes.extend(signed(i128::from(count)));
        }
        Key::Uuid(v) => {
            bytes.push(UUID);
            bytes.extend(v.to_be_bytes());
        }
        Key::Inet(IpAddr::V4(v)) => {
            bytes.extend([INET, 4]);
            bytes.extend(v.octets());
        }
        Key::Inet(IpAddr::V6(v)) => {
            bytes.extend([INET, 6]);
            bytes.extend(v.octets());
        }
        Key::None => bytes.push(NULL),
    }
}

/// The first byte of what [`append`] appends.
pub(crate) fn kind(key: &Key) -> u8 {
    let mut bytes = Vec::new();
    append(&mut bytes, key);
    bytes[0]
}

/// The first key above all that begin with `prefix`, which is not all of 0xFF.
pub(crate) fn after(prefix: &[u8]) -> Vec<u8> {
    let end = prefix.iter().rposition(|byte| *byte != 0xFF).expect("a prefix that has no end");
    let mut after = prefix[..=end].to_vec();
    after[end] += 1;
    after
}

/// Appends text that may hold any byte, so that no other text's bytes begin with these.
pub(crate) fn text(bytes: &mut Vec<u8>, text: &[u8]) {
    for byte in text {
        bytes.push(*byte);
        if *byte == 0 {
            bytes.push(0xFF);
        }
    }
    bytes.extend([0, 0]);
}

fn whole(bytes: &mut Vec<u8>, number: i128) {
    match u128::try_from(number) {
        Ok(number) => natural(bytes, number),
        Err(_) => {
            bytes.extend([WHOLE, 0]);
            bytes.extend(number.to_be_bytes());
        }
    }
}

fn natural(bytes: &mut Vec<u8>, number: u128) {
    bytes.extend([WHOLE, 1]);
    bytes.extend(number.to_be_bytes());
}

fn real(bytes: &mut Vec<u8>, number: f64) {
    // Adding zero makes -0 the same as 0.
    let bits = (number + 0.0).to_bits();
    let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    bytes.push(REAL);
    bytes.extend(ordered.to_be_bytes());
}

fn signed(number: i128) -> [u8; 16] {
    (number.cast_unsigned() ^ 1 << 127).to_be_bytes()
}

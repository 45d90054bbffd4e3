//! Bytes as text and back, without loss: `escaped` and `unescape`, `hex` and `unhex`.
//!
//! In escaped text printable ASCII stands for itself; a backslash is `\\`; tab, newline and
//! carriage return are `\t`, `\n`, `\r`. Every other byte is `\xNN` with two hexadecimal digits.
//! `Notation` says how an argument is written (as it is, escaped, or hexadecimal) and reads it.
//!
//! What must hold: an escaped key contains no tab and no newline, so a tab may separate it from its
//! value. A wrong escape is refused with its place.
//!
//! Callers: `output` (what is printed), and the commands that take or show keys.

use crate::failure::{Failure, Result};
use std::ffi::OsStr;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Appends `bytes` as escaped text.
pub(crate) fn escape_into(out: &mut Vec<u8>, bytes: &[u8]) {
    for &byte in bytes {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b' '..=b'~' => out.push(byte),
            _ => out.extend_from_slice(&[
                b'\\',
                b'x',
                DIGITS[usize::from(byte >> 4)],
                DIGITS[usize::from(byte & 15)],
            ]),
        }
    }
}

/// `bytes` as escaped text.
pub(crate) fn escaped(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len());
    escape_into(&mut out, bytes);
    String::from_utf8_lossy(&out).into_owned()
}

/// The bytes that escaped text stands for. Bytes that need no escape stand for themselves,
/// printable or not.
pub(crate) fn unescape(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.iter().copied();
    let position = |rest: &std::iter::Copied<std::slice::Iter<'_, u8>>| text.len() - rest.len();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let start = position(&rest);
        let unknown =
            || format!("character {start}: after a backslash must come one of \\ t n r, or x and two digits");
        out.push(match rest.next().ok_or_else(unknown)? {
            b'\\' => b'\\',
            b't' => b'\t',
            b'n' => b'\n',
            b'r' => b'\r',
            b'x' => {
                let high = rest.next().and_then(digit).ok_or_else(unknown)?;
                let low = rest.next().and_then(digit).ok_or_else(unknown)?;
                high << 4 | low
            }
            _ => return Err(unknown()),
        });
    }
    Ok(out)
}

/// Appends `bytes` as lower-case hexadecimal digits.
pub(crate) fn hex_into(out: &mut Vec<u8>, bytes: &[u8]) {
    for &byte in bytes {
        out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

/// `bytes` as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len() * 2);
    hex_into(&mut out, bytes);
    String::from_utf8_lossy(&out).into_owned()
}

/// The bytes that hexadecimal digits stand for, upper or lower case.
pub(crate) fn unhex(text: &[u8]) -> Result<Vec<u8>, String> {
    if !text.len().is_multiple_of(2) {
        return Err(format!("hexadecimal text of {} digits; a byte is two digits", text.len()));
    }
    text.chunks_exact(2)
        .enumerate()
        .map(|(i, pair)| match (digit(pair[0]), digit(pair[1])) {
            (Some(high), Some(low)) => Ok(high << 4 | low),
            _ => Err(format!("characters {} and {} are not hexadecimal digits", 2 * i + 1, 2 * i + 2)),
        })
        .collect()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// How keys and values are written on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notation {
    /// The bytes as they are.
    Plain,
    /// With backslash escapes.
    Escaped,
    /// Hexadecimal digits.
    Hex,
}

impl Notation {
    /// The notation that the two flags ask for; clap sees to it that at most one is set.
    pub(crate) fn from_flags(escaped: bool, hex: bool) -> Self {
        match (escaped, hex) {
            (true, _) => Notation::Escaped,
            (_, true) => Notation::Hex,
            _ => Notation::Plain,
        }
    }

    /// The bytes of an argument.
    pub(crate) fn read(self, argument: &OsStr) -> Result<Vec<u8>> {
        let text = argument.as_encoded_bytes();
        match self {
            Notation::Plain => Ok(text.to_vec()),
            Notation::Escaped => unescape(text),
            Notation::Hex => unhex(text),
        }
        .map_err(|what| Failure::Usage(format!("{:?}: {what}", argument.to_string_lossy())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn escaped_text_comes_back(bytes: Vec<u8>) {
            let text = escaped(&bytes);
            prop_assert!(text.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
            prop_assert_eq!(unescape(text.as_bytes()).unwrap(), bytes);
        }

        #[test]
        fn hexadecimal_text_comes_back(bytes: Vec<u8>) {
            prop_assert_eq!(unhex(hex(&bytes).as_bytes()).unwrap(), bytes.clone());
            prop_assert_eq!(unhex(hex(&bytes).to_uppercase().as_bytes()).unwrap(), bytes);
        }

        #[test]
        fn arbitrary_text_is_read_or_refused(text: Vec<u8>) {
            let _ = unescape(&text);
            let _ = unhex(&text);
        }
    }

    #[test]
    fn each_escape_is_written_as_documented() {
        assert_eq!(escaped(b"a b~\\\t\n\r\0\x7f\xff"), "a b~\\\\\\t\\n\\r\\x00\\x7f\\xff");
    }

    #[test]
    fn a_wrong_escape_names_its_place() {
        assert!(unescape(b"ab\\q").unwrap_err().starts_with("character 3:"));
        assert!(unescape(b"\\x4").unwrap_err().starts_with("character 1:"));
        assert!(unescape(b"\\").is_err());
    }
}

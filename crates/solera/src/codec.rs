//! How numbers and byte strings become bytes, and how untrusted bytes are read: `Decoder`,
//! `Binding`, `put_varint`.
//!
//! `put_varint` writes LEB128, `put_bytes` a length and bytes, `put_end` the end of a range.
//! `Decoder` reads fields in order, and a `DecodeError` says where and what was expected.
//! `Binding::checksum` is the CRC-32C of database, file, offset and bytes; in frames, of the file's
//! nonce too.
//! What must hold: the decoder never panics, allocates nothing, and takes a varint in its shortest
//! form only. Bytes that land in another place fail their checksum, as surely as damaged ones.
//! (docs/FORMAT.md is the whole format.)
//! Callers: all that has bytes on disk, from `frame` to `control::record`; `tombstone`,
//! `engine::keyspace_record`; `solera-sim` and `fuzz`.

use crate::{
    ids::{DatabaseId, FileId},
    key::{END_OF_KEYS, KEY_BYTES_MAX},
};

/// The length that stands for [`END_OF_KEYS`], without bytes behind it: no key, nor one byte more,
/// is as long.
const END_OF_KEYS_LEN: u64 = KEY_BYTES_MAX as u64 + 2;

/// Appends `value` as a LEB128 varint: 7 bits a byte, low bits first.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends the length as a varint, then the bytes.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends the first key behind a range: as [`put_bytes`], but for [`END_OF_KEYS`], of which only a
/// length is written that no key has.
#[inline]
pub fn put_end(out: &mut Vec<u8>, end: &[u8]) {
    if end == END_OF_KEYS {
        return put_varint(out, END_OF_KEYS_LEN);
    }
    put_bytes(out, end);
}

/// Why bytes could not be decoded: where, counted from the start of the decoded bytes, and what was
/// expected there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// Byte position of the failure.
    pub at: usize,
    /// What was expected.
    pub what: &'static str,
}

impl DecodeError {
    /// This failure as damage in `file`, where the decoded bytes begin at `base`.
    pub fn in_file(self, file: impl Into<std::path::PathBuf>, base: u64) -> crate::error::Error {
        crate::error::Error::corrupt(file, base + self.at as u64, format!("expected {}", self.what))
    }
}

/// Reads a sequence of fields from untrusted bytes.
#[derive(Clone, Debug)]
pub struct Decoder<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Decoder<'b> {
    /// A decoder at the start of `bytes`.
    pub fn new(bytes: &'b [u8]) -> Self {
        Decoder { bytes, at: 0 }
    }

    /// Position of the next field.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Bytes not yet read.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The bytes not yet read.
    pub fn rest(&self) -> &'b [u8] {
        &self.bytes[self.at..]
    }

    /// A failure at the present position, for checks that the caller makes.
    pub fn fail<T>(&self, what: &'static str) -> Result<T, DecodeError> {
        Err(DecodeError { at: self.at, what })
    }

    /// The next `len` bytes.
    #[inline]
    pub fn take(&mut self, len: usize, what: &'static str) -> Result<&'b [u8], DecodeError> {
        let Some(bytes) = self.bytes[self.at..].get(..len) else { return self.fail(what) };
        self.at += len;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, what)?);
        Ok(array)
    }

    /// One byte.
    pub fn u8(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        Ok(self.array::<1>(what)?[0])
    }

    /// A fixed little-endian number.
    pub fn u16(&mut self, what: &'static str) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    /// A fixed little-endian number.
    pub fn u32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    /// A fixed little-endian number.
    pub fn u64(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// A fixed little-endian float; any bit pattern.
    pub fn f64(&mut self, what: &'static str) -> Result<f64, DecodeError> {
        Ok(f64::from_bits(self.u64(what)?))
    }

    /// A varint in its shortest form.
    #[inline]
    pub fn varint(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        let start = self.at;
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let Some(&byte) = self.bytes.get(self.at) else { break };
            self.at += 1;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits || (byte == 0 && shift > 0) {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        self.at = start;
        self.fail(what)
    }

    /// A varint that must be at most `limit`.
    pub fn varint_up_to(&mut self, limit: u64, what: &'static str) -> Result<u64, DecodeError> {
        let start = self.at;
        let value = self.varint(what)?;
        if value > limit {
            self.at = start;
            return self.fail(what);
        }
        Ok(value)
    }

    /// A length as a varint, then that many bytes.
    #[inline]
    pub fn bytes(&mut self, what: &'static str) -> Result<&'b [u8], DecodeError> {
        let start = self.at;
        let len = self.varint(what)?;
        match usize::try_from(len).ok().and_then(|len| self.take(len, what).ok()) {
            Some(bytes) => Ok(bytes),
            None => {
                self.at = start;
                self.fail(what)
            }
        }
    }

    /// What [`put_end`] wrote: at most a byte longer than a key.
    pub fn end(&mut self, what: &'static str) -> Result<&'b [u8], DecodeError> {
        let start = self.clone();
        if self.varint_up_to(END_OF_KEYS_LEN, what)? == END_OF_KEYS_LEN {
            return Ok(&END_OF_KEYS);
        }
        *self = start.clone();
        let end = self.bytes(what)?;
        if end == END_OF_KEYS { start.fail(what) } else { Ok(end) }
    }

    /// Fails unless everything was read.
    pub fn finish(self, what: &'static str) -> Result<(), DecodeError> {
        if self.remaining() == 0 { Ok(()) } else { self.fail(what) }
    }
}

/// Bytes up to which a checksum takes them and their place in one call: a frame's header has 20.
const SHORT_BYTES: usize = 24;

/// What a checksum in one file binds its bytes to: this database and this file. A block that lands
/// in another file, at another offset or in another database fails its checksum there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding(u32);

impl Binding {
    /// The binding of `file` in `database`.
    pub fn new(database: DatabaseId, file: FileId) -> Self {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&database.0.to_le_bytes());
        bytes[8..].copy_from_slice(&file.0.to_le_bytes());
        Binding::of(&bytes)
    }

    /// The binding of the frames of `file` in `database`, whose header holds `nonce`
    /// ([`crate::frame`]).
    pub fn of_frames(database: DatabaseId, file: FileId, nonce: u64) -> Self {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&database.0.to_le_bytes());
        bytes[8..16].copy_from_slice(&file.0.to_le_bytes());
        bytes[16..].copy_from_slice(&nonce.to_le_bytes());
        Binding::of(&bytes)
    }

    /// The sum that every checksum of the file begins with: of the XXH3 of what names the file.
    fn of(name: &[u8]) -> Self {
        Binding(crc32c::crc32c(&xxhash_rust::xxh3::xxh3_64(name).to_le_bytes()))
    }

    /// CRC-32C of the binding's XXH3, `offset` (both 8 bytes) and `bytes`, which stand at `offset`
    /// of the bound file.
    #[inline]
    pub fn checksum(self, offset: u64, bytes: &[u8]) -> u32 {
        // A call for a few bytes costs many times what they do: frames' headers are put together.
        #[repr(align(8))]
        struct Short([u8; 8 + SHORT_BYTES]);
        if bytes.len() > SHORT_BYTES {
            return crc32c::crc32c_append(crc32c::crc32c_append(self.0, &offset.to_le_bytes()), bytes);
        }
        let mut short = Short([0; 8 + SHORT_BYTES]);
        short.0[..8].copy_from_slice(&offset.to_le_bytes());
        short.0[8..8 + bytes.len()].copy_from_slice(bytes);
        crc32c::crc32c_append(self.0, &short.0[..8 + bytes.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_all_keys_takes_three_bytes_and_has_no_other_form() {
        let of = |end: &[u8]| {
            let mut out = Vec::new();
            put_end(&mut out, end);
            out
        };
        assert_eq!(of(&END_OF_KEYS), [0x81, 0x80, 0x04]);
        let longest = vec![9; KEY_BYTES_MAX + 1];
        for end in [&b""[..], b"k", &longest, &END_OF_KEYS] {
            let bytes = of(end);
            let mut decoder = Decoder::new(&bytes);
            assert_eq!(decoder.end("an end").unwrap(), end);
            assert_eq!(decoder.remaining(), 0);
        }
        let mut long = Vec::new();
        put_bytes(&mut long, &END_OF_KEYS);
        assert!(Decoder::new(&long).end("an end").is_err(), "it has its own form");
        long.clear();
        put_varint(&mut long, END_OF_KEYS_LEN + 1);
        assert!(Decoder::new(&long).end("an end").is_err());
    }
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_come_back(value: u64, tail: Vec<u8>) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            let len = bytes.len();
            bytes.extend(tail);
            let mut decoder = Decoder::new(&bytes);
            prop_assert_eq!(decoder.varint("number").unwrap(), value);
            prop_assert_eq!(decoder.position(), len);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let mut decoder = Decoder::new(&bytes);
            while decoder.bytes("field").is_ok() && decoder.varint("number").is_ok() {}
        }
    }

    #[test]
    fn a_checksum_knows_its_place() {
        let here = Binding::new(DatabaseId(1), FileId(2));
        let sum = here.checksum(4096, b"bytes");
        assert_ne!(sum, here.checksum(0, b"bytes"));
        assert_ne!(sum, Binding::new(DatabaseId(1), FileId(3)).checksum(4096, b"bytes"));
        assert_ne!(sum, Binding::new(DatabaseId(2), FileId(2)).checksum(4096, b"bytes"));
    }
}

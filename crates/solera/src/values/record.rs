//! The bytes that a pointer leads to: `checksum` makes a record's sum, `checksum_of_sum` that of a
//! value that was summed alone, and `verified` checks a record.
//!
//! ```text
//! record = checksum:u32 value[len]
//! ```
//!
//! What must hold: the sum is a CRC-32C. It covers the file's binding (database, file, nonce), the
//! record's offset, the key's length as a `u16`, the key, and the value. So a value that belongs to
//! another key, place or file is not taken for this one.
//! Callers: `wal::batch` writes records of values in logs, `values::writer` those of sorted files;
//! `values::file` verifies what it or `values::ahead` has read.

use crate::codec::Binding;

/// Bytes of a record before its value.
pub const CHECKSUM_BYTES: usize = 4;
const KEY_LEN_BYTES: usize = size_of::<u16>();
/// Keys up to so long are summed with what names the place.
const SHORT_KEY_BYTES: usize = 22;

/// The checksum of the record of `value`, which belongs to `key` and begins at `offset` of the file
/// with this binding.
pub fn checksum(binding: Binding, offset: u64, key: &[u8], value: &[u8]) -> u32 {
    let key_len = (key.len() as u16).to_le_bytes();
    // A call for a few bytes costs many times what they do.
    let mut short = [0; KEY_LEN_BYTES + SHORT_KEY_BYTES];
    let head = match short.get_mut(..KEY_LEN_BYTES + key.len()) {
        Some(head) => {
            head[..KEY_LEN_BYTES].copy_from_slice(&key_len);
            head[KEY_LEN_BYTES..].copy_from_slice(key);
            binding.checksum(offset, head)
        }
        None => crc32c::crc32c_append(binding.checksum(offset, &key_len), key),
    };
    crc32c::crc32c_append(head, value)
}

/// The same of a value that is known by its own CRC-32C and its length.
pub fn checksum_of_sum(binding: Binding, offset: u64, key: &[u8], (sum, len): (u32, u32)) -> u32 {
    crc32c::crc32c_combine(checksum(binding, offset, key, &[]), sum, len as usize)
}

/// The value in `record`, which was read at `offset`, if its checksum is right for `key`.
pub fn verified<'r>(binding: Binding, offset: u64, key: &[u8], record: &'r [u8]) -> Option<&'r [u8]> {
    let (stored, value) = record.split_first_chunk::<CHECKSUM_BYTES>()?;
    (checksum(binding, offset, key, value).to_le_bytes() == *stored).then_some(value)
}

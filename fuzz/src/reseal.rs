//! Right checksums over whatever bytes: `table` and `frames`.
//!
//! Without them a fuzzer, which cannot guess a checksum, would never get past the first.
//!
//! What must hold: each goes as far as the bytes make sense and leaves the rest alone.
//! docs/FORMAT.md says where the checksums lie.
//!
//! Caller: `lib.rs`, for logs, manifests, traces and tables.

use solera::{
    block::{TRAILER_BYTES, open},
    codec::{Binding, Decoder},
    ids::{DatabaseId, FileId},
};
use std::{ops::Range, path::Path};

const HEADER_BYTES: usize = 32;
/// A log or a manifest goes on with a nonce, its checksum and four zeros.
const FRAMES_AT: usize = 48;
const TABLE_FOOTER_BYTES: usize = 56;
const FRAME_HEADER_BYTES: usize = 24;

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn put(bytes: &mut [u8], at: usize, checksum: u32) {
    bytes[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
}

/// Seals the part of a table at `place`: its last four bytes are its checksum.
fn seal(bytes: &mut [u8], place: Range<usize>, binding: Binding) -> Option<()> {
    let covered = bytes.get(place.clone())?.split_last_chunk::<4>()?.0;
    let checksum = binding.checksum(place.start as u64, covered);
    put(bytes, place.end - 4, checksum);
    Some(())
}

/// Seals the parts of a table. `None` if it ends before the last of them.
pub fn table(bytes: &mut [u8]) -> Option<()> {
    let footer = bytes.len().checked_sub(TABLE_FOOTER_BYTES).filter(|&at| at >= HEADER_BYTES)?;
    let binding = Binding::new(DatabaseId(number(bytes, 12)?), FileId(number(bytes, 20)?));
    seal(bytes, 0..HEADER_BYTES, binding)?;
    let checksum = binding.checksum(footer as u64, &bytes[footer..footer + 44]);
    put(bytes, footer + 44, checksum);
    let mut ends = [0; 5];
    for (end, at) in ends.iter_mut().zip((footer..).step_by(8)) {
        *end = usize::try_from(number(bytes, at)?).ok()?;
    }
    let [tombstones, filter, index, properties, _] = ends;
    for section in [tombstones..filter, filter..index, index..properties, properties..footer] {
        seal(bytes, section, binding)?;
    }
    let payload =
        open(bytes.get(index..properties)?, binding, index as u64, Path::new("table")).ok()?.into_owned();
    let mut sizes = Decoder::new(&payload);
    let mut start = HEADER_BYTES;
    for _ in 0..sizes.varint("a count").ok()? {
        let size = sizes.varint_up_to(bytes.len() as u64, "a size").ok()? as usize;
        seal(bytes, start..start + size.max(TRAILER_BYTES), binding)?;
        start += size;
    }
    Some(())
}

/// Seals the header of a log or a manifest, and its frames as far as one follows the other.
pub fn frames(bytes: &mut [u8]) -> Option<()> {
    bytes.get(..FRAMES_AT)?;
    for at in [HEADER_BYTES - 4, HEADER_BYTES + 8] {
        let checksum = crc32c::crc32c(&bytes[..at]);
        put(bytes, at, checksum);
    }
    let (database, file) = (DatabaseId(number(bytes, 8)?), FileId(number(bytes, 16)?));
    let binding = Binding::of_frames(database, file, number(bytes, HEADER_BYTES)?);
    let mut at = FRAMES_AT;
    loop {
        let len = number(bytes, at + 8)? & ((1 << 48) - 1);
        let payload = at + FRAME_HEADER_BYTES;
        let end = usize::try_from(len).ok()?.checked_add(payload)?;
        let checksum = crc32c::crc32c(bytes.get(payload..end)?);
        put(bytes, at + 4, checksum);
        let checksum = binding.checksum(at as u64, &bytes[at + 4..payload]);
        put(bytes, at, checksum);
        at = end;
    }
}

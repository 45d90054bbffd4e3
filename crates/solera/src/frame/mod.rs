//! Files that grow by whole records, as the log, the manifest and traces do: `FileKind`, frames,
//! `FrameWriter`, `walk`.
//!
//! A file is a header and frames. A frame is one record, all or nothing. Its checksums bind it to
//! this file and this offset, so that a record which lands elsewhere is not one. Each frame says
//! how much of the file was durable when it was written. The comment of `FileKind` has the bytes.
//!
//! What must hold: no two files share a nonce (`Fs::nonce`), since frames are bound to it. Damage
//! to what the caller or a later frame proves durable is an error. Other damage is a torn end, and
//! is cut.
//! Callers: `wal`, `version::manifest` and `trace` write and walk frames; `values` uses the file
//! header. `engine`, `solera-sim` and `fuzz` reckon with the sizes of headers.

mod reader;
mod writer;

pub use reader::{Cut, Walked, walk};
pub use writer::FrameWriter;

use crate::{
    codec::Binding,
    dir::magic::{self, Magic},
    error::{Error, Result},
    ids::{DatabaseId, FileId},
};
use std::path::Path;

/// Length of a file header.
pub const FILE_HEADER_BYTES: usize = 48;
/// Length of its first part, which is the same in every version.
const IDENTITY_BYTES: usize = 32;
/// Length of a frame's header.
pub const FRAME_HEADER_BYTES: usize = 24;
/// Longest payload, in bytes: its length is stored in 48 bits.
pub const PAYLOAD_BYTES_MAX: u64 = (1 << 48) - 1;

/// A kind of file: how its header begins.
///
/// ```text
/// file    = header frame*
/// header  = magic[8] database:u64 file:u64 version:u32 checksum:u32   32 bytes, in every version
///           nonce:u64 checksum:u32 0:u32
/// frame   = header_checksum:u32 payload_checksum:u32 len:u48 kind:u8 0:u8 synced:u64 payload[len]
/// ```
///
/// Numbers are little-endian. Both checksums of the file header are CRC-32C of all bytes before
/// them. A frame's header checksum is [`Binding::checksum`](crate::codec::Binding::checksum) of the
/// 20 bytes after it, at the offset of the frame. The payload checksum is plain CRC-32C; the
/// header that holds it binds it. `synced` is how many bytes of the file were known to be durable
/// when the frame was written. It is 0 as long as an earlier file of the same kind is not durable
/// yet. A file whose earlier files all are is *vouched for*. Kinds:
///
/// | kind | | payload |
/// |---|---|---|
/// | 0 | a record | the owner's |
/// | 1 | a mark: says only what `synced` says; written, not synced, after each sync of records, and when files before are durable | none |
/// | 2 | the end: nothing follows | none |
///
/// **The nonce** is a number that no other file was made with, and frames are bound to it. A
/// database's number and a file's are not enough. A checkpoint has its original's number and goes
/// on with the same file numbers. A file system may hand the blocks of a log that one of them
/// removed to a new log of the other. A power cut may then show the old frames where new ones were
/// not synced yet: whole, at the right offsets, and of the right file number.
///
/// **Reserved.** A file that was not ended may be longer than what was written, by zeros. They are
/// no damage.
///
/// **Damage.** What was never synced may be lost in any part by a power cut; what was synced may
/// not. The `synced` of frames tells the two apart. The reader looks for later frames at every
/// offset. Damage at offset `d` is an error if a later frame was written when more than `d` was
/// durable. If none was, a power cut has taken unsynced frames, and the file is cut there. So the
/// unsynced part may be lost page by page, even with whole frames after the hole. A flipped bit in
/// a synced frame is never mistaken for that: the mark after the sync convicts it. (Pebble's log
/// records carry the same proof.)
#[derive(Clone, Copy, Debug)]
pub struct FileKind {
    /// The first 8 bytes.
    pub magic: Magic,
    /// The newest format version, which is also the one written; the first is 1.
    pub version: u32,
    /// What such a file is called in messages.
    pub noun: &'static str,
    /// Whether such files grow by very many small appends: [`crate::vfs::Fs::create_reserving`].
    pub reserves: bool,
}

impl FileKind {
    /// The header of a file of this kind. No other file has the nonce: [`crate::vfs::Fs::nonce`].
    pub fn header(&self, database: DatabaseId, file: FileId, nonce: u64) -> [u8; FILE_HEADER_BYTES] {
        let mut header = [0; FILE_HEADER_BYTES];
        header[..8].copy_from_slice(&self.magic);
        header[8..16].copy_from_slice(&database.0.to_le_bytes());
        header[16..24].copy_from_slice(&file.0.to_le_bytes());
        header[24..28].copy_from_slice(&self.version.to_le_bytes());
        let checksum = crc32c::crc32c(&header[..28]);
        header[28..32].copy_from_slice(&checksum.to_le_bytes());
        header[32..40].copy_from_slice(&nonce.to_le_bytes());
        let checksum = crc32c::crc32c(&header[..40]);
        header[40..44].copy_from_slice(&checksum.to_le_bytes());
        header
    }

    /// Reads the header at the front of `bytes`, the beginning of the file at `path`.
    pub fn identify(&self, path: &Path, bytes: &[u8]) -> Result<Identity> {
        let Some(identity) = bytes.first_chunk::<IDENTITY_BYTES>() else {
            return Err(Error::corrupt(path, bytes.len() as u64, "the file ends inside its header"));
        };
        magic::refuse_older(path, bytes)?;
        if identity[..8] != self.magic {
            return Err(Error::corrupt(path, 0, format!("this is not a Solera {}", self.noun)));
        }
        if !checks(identity, 28) {
            return Err(Error::corrupt(path, 0, "the file header fails its checksum"));
        }
        let version = (number(identity, 24) & u64::from(u32::MAX)) as u32;
        if version > self.version {
            return Err(Error::NewerFormat { file: path.into(), found: version, supported: self.version });
        }
        if version == 0 {
            return Err(Error::corrupt(path, 24, "there is no format version 0"));
        }
        let Some(header) = bytes.first_chunk::<FILE_HEADER_BYTES>() else {
            return Err(Error::corrupt(path, bytes.len() as u64, "the file ends inside its header"));
        };
        if !is_whole(header) {
            return Err(Error::corrupt(path, 32, "the file header fails its checksum"));
        }
        let (database, file) = (DatabaseId(number(header, 8)), FileId(number(header, 16)));
        Ok(Identity { database, file, frames: Binding::of_frames(database, file, number(header, 32)) })
    }

    /// What frames of `file` in `database` are bound to. Fails unless `bytes` begin with its
    /// header.
    pub fn check(&self, path: &Path, bytes: &[u8], database: DatabaseId, file: FileId) -> Result<Binding> {
        let found = self.identify(path, bytes)?;
        if found.database != database {
            let what = format!("the {} belongs to database {}, not {database}", self.noun, found.database);
            return Err(Error::corrupt(path, 8, what));
        }
        if found.file != file {
            let what = format!("the {} is file {} under the name of file {file}", self.noun, found.file);
            return Err(Error::corrupt(path, 16, what));
        }
        Ok(found.frames)
    }
}

/// Whose file it is and which, as its header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The database.
    pub database: DatabaseId,
    /// The file's number in it.
    pub file: FileId,
    /// What the file's frames are bound to.
    pub frames: Binding,
}

/// Whether a file header, of any kind, is what was once written.
pub fn is_whole(header: &[u8; FILE_HEADER_BYTES]) -> bool {
    checks(header, 28) && checks(header, 40) && header[44..] == [0; 4]
}

/// Whether the four bytes at `at` are the checksum of those before.
fn checks(header: &[u8], at: usize) -> bool {
    header[at..at + 4] == crc32c::crc32c(&header[..at]).to_le_bytes()
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum FrameKind {
    Record = 0,
    Mark = 1,
    End = 2,
}

/// A frame's header, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FrameHeader {
    payload_checksum: u32,
    len: u64,
    kind: u8,
    synced: u64,
}

impl FrameHeader {
    fn encode(self, binding: Binding, offset: u64) -> [u8; FRAME_HEADER_BYTES] {
        debug_assert!(self.len <= PAYLOAD_BYTES_MAX);
        let mut bytes = [0; FRAME_HEADER_BYTES];
        bytes[4..8].copy_from_slice(&self.payload_checksum.to_le_bytes());
        bytes[8..16].copy_from_slice(&(self.len | u64::from(self.kind) << 48).to_le_bytes());
        bytes[16..].copy_from_slice(&self.synced.to_le_bytes());
        let checksum = binding.checksum(offset, &bytes[4..]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The header in `bytes` if it is one that was written at `offset`.
    fn decode(bytes: &[u8; FRAME_HEADER_BYTES], binding: Binding, offset: u64) -> Option<FrameHeader> {
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let synced = number(16);
        // Looked at first because a search for headers calls this at every offset.
        if synced > offset
            || bytes[15] != 0
            || binding.checksum(offset, &bytes[4..]).to_le_bytes() != bytes[..4]
        {
            return None;
        }
        let payload_checksum = (number(0) >> 32) as u32;
        Some(FrameHeader { payload_checksum, len: number(8) & PAYLOAD_BYTES_MAX, kind: bytes[14], synced })
    }
}

#[cfg(test)]
mod tests;

//! The fixed parts of a table file: `Header`, `Footer`, `FORMAT_VERSION`. `table/mod.rs` has them
//! byte by byte.
//!
//! The header says whose file it is (database, file number). The footer says where tombstones,
//! filter, index and properties begin, and how long the file is. Both have checksums.
//!
//! What must hold: bytes are untrusted. A newer version is refused by name only if the checksum
//! proves that it was written so; else it is damage. The sections lie one after another, within the
//! file.
//!
//! Callers: `table::writer` encodes, `table::reader` decodes, `table::file` and `table::verify`
//! read through `table::reader`; `solera-sim` forges.

use crate::{
    codec::{Binding, Decoder},
    dir::magic::{self, MAGIC_BYTES},
    error::{Error, Result},
    ids::{DatabaseId, FileId},
};
use std::{ops::Range, path::Path};

/// The format that this release writes, and the newest that it reads. It reads all before; the
/// first is 1.
pub const FORMAT_VERSION: u32 = 1;
/// Length of the header.
pub(super) const HEADER_BYTES: usize = 32;
/// Length of the footer.
pub(super) const FOOTER_BYTES: usize = 56;

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) database: DatabaseId,
    pub(super) file: FileId,
    /// The table's format.
    pub(super) version: u32,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&magic::TABLE);
        bytes[8..12].copy_from_slice(&self.version.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.database.0.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.file.0.to_le_bytes());
        let checksum = self.binding().checksum(0, &bytes[..28]);
        bytes[28..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// What checksums in the file are bound to.
    pub(super) fn binding(&self) -> Binding {
        Binding::new(self.database, self.file)
    }

    /// Reads a header. A newer version is refused only if the checksum proves that it was written
    /// so.
    pub(super) fn decode(bytes: &[u8; HEADER_BYTES], path: &Path) -> Result<Header> {
        let damage = |error: crate::codec::DecodeError| error.in_file(path, 0);
        let mut decoder = Decoder::new(bytes);
        magic::refuse_older(path, bytes)?;
        if decoder.take(MAGIC_BYTES, "the magic of a table").map_err(damage)? != magic::TABLE {
            return Err(Error::corrupt(path, 0, "not a table: the file does not begin with Solera/T"));
        }
        let version = decoder.u32("a format version").map_err(damage)?;
        let header = Header {
            database: DatabaseId(decoder.u64("a database number").map_err(damage)?),
            file: FileId(decoder.u64("a file number").map_err(damage)?),
            version,
        };
        if decoder.u32("a checksum").map_err(damage)? != header.binding().checksum(0, &bytes[..28]) {
            return Err(Error::corrupt(path, 0, "the checksum of the header is wrong"));
        }
        check_version(version, path)?;
        Ok(header)
    }
}

fn check_version(version: u32, path: &Path) -> Result<()> {
    match version {
        1..=FORMAT_VERSION => Ok(()),
        0 => Err(Error::corrupt(path, 8, "there is no format version 0")),
        found => Err(Error::NewerFormat { file: path.into(), found, supported: FORMAT_VERSION }),
    }
}

/// Where the parts are that follow the data blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) tombstones: u64,
    pub(super) filter: u64,
    pub(super) index: u64,
    pub(super) properties: u64,
    /// Length of the whole file.
    pub(super) bytes: u64,
    /// The table's format, as in the header.
    pub(super) version: u32,
}

impl Footer {
    /// Where the footer begins.
    pub(super) fn offset(&self) -> u64 {
        self.bytes - FOOTER_BYTES as u64
    }

    /// Where the data blocks lie.
    pub(super) fn data(&self) -> Range<u64> {
        HEADER_BYTES as u64..self.tombstones
    }

    pub(super) fn encode(&self, binding: Binding) -> [u8; FOOTER_BYTES] {
        let mut bytes = [0; FOOTER_BYTES];
        let numbers = [self.tombstones, self.filter, self.index, self.properties, self.bytes];
        for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes[40..44].copy_from_slice(&self.version.to_le_bytes());
        let checksum = binding.checksum(self.offset(), &bytes[..44]);
        bytes[44..48].copy_from_slice(&checksum.to_le_bytes());
        bytes[48..].copy_from_slice(&magic::TABLE);
        bytes
    }

    /// Reads the footer of a file of `file_bytes`, which are enough for header and footer.
    pub(super) fn decode(
        bytes: &[u8; FOOTER_BYTES],
        file_bytes: u64,
        binding: Binding,
        path: &Path,
    ) -> Result<Footer> {
        let offset = file_bytes - FOOTER_BYTES as u64;
        let damage = |error: crate::codec::DecodeError| error.in_file(path, offset);
        if bytes[48..] != magic::TABLE {
            return Err(Error::corrupt(
                path,
                offset,
                "the file does not end like a table: it was cut short or never finished",
            ));
        }
        let mut decoder = Decoder::new(bytes);
        let mut number = || decoder.u64("an offset").map_err(damage);
        let [tombstones, filter, index, properties, bytes_said] =
            [number()?, number()?, number()?, number()?, number()?];
        let version = decoder.u32("a format version").map_err(damage)?;
        let footer = Footer { tombstones, filter, index, properties, bytes: bytes_said, version };
        if decoder.u32("a checksum").map_err(damage)? != binding.checksum(offset, &bytes[..44]) {
            return Err(Error::corrupt(path, offset, "the checksum of the footer is wrong"));
        }
        check_version(version, path)?;
        let ascending =
            [HEADER_BYTES as u64, footer.tombstones, footer.filter, footer.index, footer.properties, offset];
        if !ascending.is_sorted() || footer.bytes != file_bytes {
            return Err(Error::corrupt(path, offset, "the footer's offsets do not fit the file"));
        }
        Ok(footer)
    }
}

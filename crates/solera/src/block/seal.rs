//! Between payload and file: `seal` and `open`, and `Block::from_stored` and `copy_from_stored`.
//!
//! `seal` compresses if that saves an eighth, and appends codec and checksum. The checksum binds
//! the bytes to database, file and offset. `open` checks any sealed part and gives its payload.
//! `from_stored` makes a `Block` in place unless it was compressed; `copy_from_stored` copies.
//!
//! What must hold: nothing of a stored block is believed before its checksum. A length above 1 GiB
//! is refused before memory is taken, and so is one of LZ4 that its bytes cannot reach.
//!
//! Callers: `table::writer` seals blocks and sections. `table::reader`, `table::cursor` (pieces
//! read ahead), `table::warm` and `table::verify` open them. `solera-sim` opens and seals what it
//! forges; `fuzz` opens, and has its own `seal`.

#[cfg(feature = "zstd")]
use super::zstd;
use super::{
    compression::Compression,
    memory::{Block, BlockAllocation},
};
use crate::{
    canary::{Bug, planted},
    codec::{Binding, Decoder, put_varint},
    error::{Error, Result},
};
use std::{borrow::Cow, path::Path};

/// Bytes at the end of every stored block: codec and checksum.
pub const TRAILER_BYTES: usize = 5;

/// A compressed payload is kept only if it saves this part of it: less is not worth decompressing.
const SAVING_MIN: usize = 8;

/// Larger payloads are stored as they are, so that a damaged length cannot ask for more memory than
/// this.
const COMPRESSED_BYTES_MAX: usize = 1 << 30;

/// LZ4 expands by at most this factor.
const LZ4_RATIO_MAX: u64 = 255;

/// Appends `payload` as a stored block to `out`; `offset` is where its first byte will lie in the
/// file. The compression must be [available](Compression::available). What does not shrink by an
/// eighth is stored as it is.
pub fn seal(payload: &[u8], compression: Compression, binding: Binding, offset: u64, out: &mut Vec<u8>) {
    let start = out.len();
    let codec = match compression {
        _ if payload.len() > COMPRESSED_BYTES_MAX => Compression::None,
        Compression::None => Compression::None,
        _ if compress(payload, compression, out)
            && out.len() - start <= payload.len() - payload.len() / SAVING_MIN =>
        {
            compression
        }
        _ => {
            out.truncate(start);
            Compression::None
        }
    };
    if codec == Compression::None {
        out.extend_from_slice(payload);
    }
    out.push(codec as u8);
    let checksum = binding.checksum(offset, &out[start..]);
    out.extend_from_slice(&checksum.to_le_bytes());
}

/// Appends length and compressed payload to `out`. Returns false, having appended anything, if that
/// fails.
fn compress(payload: &[u8], compression: Compression, out: &mut Vec<u8>) -> bool {
    put_varint(out, payload.len() as u64);
    let start = out.len();
    match compression {
        Compression::None => false,
        Compression::Lz4 => {
            out.resize(start + lz4_flex::block::get_maximum_output_size(payload.len()), 0);
            match lz4_flex::block::compress_into(payload, &mut out[start..]) {
                Ok(len) => {
                    out.truncate(start + len);
                    true
                }
                Err(_) => false,
            }
        }
        #[cfg(feature = "zstd")]
        Compression::Zstd => zstd::compress(payload, out),
        #[cfg(not(feature = "zstd"))]
        Compression::Zstd => panic!("a layout with zstd is refused by a build without it"),
    }
}

/// A stored block taken apart.
struct Stored<'s> {
    body: &'s [u8],
    codec: Compression,
    file: &'s Path,
    offset: u64,
}

impl<'s> Stored<'s> {
    /// Checks trailer and checksum.
    fn new(stored: &'s [u8], binding: Binding, offset: u64, file: &'s Path) -> Result<Self> {
        let corrupt = |at: usize, what: &str| Err(Error::corrupt(file, offset + at as u64, what));
        let Some((sealed, checksum)) = stored.split_last_chunk::<4>() else {
            return corrupt(0, "a block shorter than its trailer");
        };
        let wrong = binding.checksum(offset, sealed) != u32::from_le_bytes(*checksum);
        if wrong && !planted(Bug::IgnoreBlockChecksum) {
            return corrupt(0, "a block's checksum does not match");
        }
        let Some((&codec, body)) = sealed.split_last() else {
            return corrupt(0, "a block shorter than its trailer");
        };
        match Compression::from_u8(codec) {
            None => corrupt(body.len(), "a block of an unknown codec"),
            Some(codec) if !codec.available() => Err(Error::Invalid(format!(
                "{}: a block is compressed with {codec}; use a build with the crate feature `{codec}`",
                file.display()
            ))),
            Some(codec) => Ok(Stored { body, codec, file, offset }),
        }
    }

    fn corrupt<T>(&self, what: impl Into<String>) -> Result<T> {
        Err(Error::corrupt(self.file, self.offset, what))
    }

    /// The compressed bytes, and the length of the payload in them.
    fn compressed(&self) -> Result<(&'s [u8], usize)> {
        let mut decoder = Decoder::new(self.body);
        let len = decoder
            .varint_up_to(COMPRESSED_BYTES_MAX as u64, "a payload's length")
            .map_err(|error| error.in_file(self.file, self.offset))?;
        let compressed = &self.body[decoder.position()..];
        if self.codec == Compression::Lz4 && len > (compressed.len() as u64).saturating_mul(LZ4_RATIO_MAX) {
            return self.corrupt("a payload longer than its compressed bytes can be");
        }
        Ok((compressed, len as usize))
    }

    /// Decompresses into `payload`, which has the payload's length.
    fn decompress(&self, compressed: &[u8], payload: &mut [u8]) -> Result<()> {
        let len = match self.codec {
            Compression::Lz4 => lz4_flex::block::decompress_into(compressed, payload).ok(),
            #[cfg(feature = "zstd")]
            Compression::Zstd => zstd::decompress(compressed, payload),
            _ => None,
        };
        if len == Some(payload.len()) { Ok(()) } else { self.corrupt("a block that does not decompress") }
    }

    fn decompressed_block(&self) -> Result<Block> {
        let (compressed, len) = self.compressed()?;
        let mut allocation = BlockAllocation::new(len);
        self.decompress(compressed, allocation.buffer_mut())?;
        block_in(allocation, len, self.offset, self.file)
    }
}

/// The block whose payload is the first `payload_len` bytes of `allocation`.
fn block_in(allocation: BlockAllocation, payload_len: usize, offset: u64, file: &Path) -> Result<Block> {
    allocation.into_block(payload_len).map_err(|error| {
        let what = format!("expected {}, at byte {} of the block's payload", error.what, error.at);
        Error::corrupt(file, offset, what)
    })
}

/// The payload of a stored block, borrowed if it is not compressed.
///
/// # Errors
/// [`Error::Corrupt`] naming `file` and `offset` if the checksum does not match or the bytes do not
/// decompress; [`Error::Invalid`] if this build cannot decompress them.
pub fn open<'s>(stored: &'s [u8], binding: Binding, offset: u64, file: &Path) -> Result<Cow<'s, [u8]>> {
    let stored_block = Stored::new(stored, binding, offset, file)?;
    if stored_block.codec == Compression::None {
        return Ok(Cow::Borrowed(&stored[..stored.len() - TRAILER_BYTES]));
    }
    let (compressed, len) = stored_block.compressed()?;
    let mut payload = vec![0; len];
    stored_block.decompress(compressed, &mut payload)?;
    Ok(Cow::Owned(payload))
}

impl Block {
    /// The block that was stored at `offset` of `file`; `allocation` is filled with its stored
    /// bytes. Not copied unless it is compressed.
    ///
    /// # Errors
    /// As [`open`], and [`Error::Corrupt`] if the payload is not a block's.
    pub fn from_stored(
        allocation: BlockAllocation,
        binding: Binding,
        offset: u64,
        file: &Path,
    ) -> Result<Block> {
        let stored = Stored::new(allocation.buffer(), binding, offset, file)?;
        if stored.codec != Compression::None {
            return stored.decompressed_block();
        }
        let payload_len = stored.body.len();
        block_in(allocation, payload_len, offset, file)
    }

    /// [`Block::from_stored`] for bytes that lie elsewhere, such as a read-ahead of many blocks.
    ///
    /// # Errors
    /// As [`Block::from_stored`].
    pub fn copy_from_stored(stored: &[u8], binding: Binding, offset: u64, file: &Path) -> Result<Block> {
        let stored = Stored::new(stored, binding, offset, file)?;
        if stored.codec != Compression::None {
            return stored.decompressed_block();
        }
        let mut allocation = BlockAllocation::new(stored.body.len());
        allocation.buffer_mut().copy_from_slice(stored.body);
        block_in(allocation, stored.body.len(), offset, file)
    }
}

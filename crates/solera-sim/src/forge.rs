//! A table taken apart and put together again with other parts, every checksum right: `Forge`.
//!
//! `new` takes a table apart; `set_line`, `buckets_mut` and `note_mut` change parts; `train` and
//! `index` make an index section; `table` seals it all again. It is what an enemy, or a writer with
//! a bug, would leave.
//!
//! What must hold: it knows the table's format (docs/FORMAT.md §6 and §7), and not the engine's
//! table writer. Blocks are sealed and indexes are trained by the engine's own functions. Tables
//! have no compression.
//!
//! Caller: `program::evilmodel` (`model`, `subject`, and `search` for `StoredLine`).

use crate::image::Parts;
use solera::{
    Compression,
    block::{Block, TRAILER_BYTES, open, seal},
    codec::{Binding, Decoder, put_bytes, put_varint},
    ids::{DatabaseId, FileId},
    index::{Index, separators::Separators},
    table::{FORMAT_VERSION, TableDescriptor},
};
use std::path::Path;

const MAGIC: &[u8; 8] = &solera::dir::magic::TABLE;
const HEADER_BYTES: usize = 32;
const BLOCK_FOOTER_BYTES: usize = 40;
/// In a block's flags: there is a line.
const FLAG_LINE: u8 = 1 << 6;

/// The parts of a table without compression, each as it was before it was sealed.
#[derive(Clone, Debug)]
pub struct Forge {
    /// Whose table it is.
    pub database: DatabaseId,
    header: Vec<u8>,
    binding: Binding,
    /// Payloads of the data blocks.
    pub blocks: Vec<Vec<u8>>,
    tombstones: Vec<u8>,
    /// The filter.
    pub filter: Vec<u8>,
    /// Between the blocks, as these tell.
    pub separators: Vec<Vec<u8>>,
    /// The index as it was trained from them.
    pub trained: Vec<u8>,
    descriptor: TableDescriptor,
}

/// A block's line as it stands in its footer: any bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StoredLine {
    /// Ranks per unit of head.
    pub slope: f64,
    /// Rank at the first head.
    pub intercept: f64,
    /// Measured error, ranks.
    pub error: u16,
}

impl StoredLine {
    /// Whether a reader must refuse it.
    pub fn is_bad(self) -> bool {
        !self.slope.is_finite() || !self.intercept.is_finite() || self.slope < 0.0
    }
}

impl Forge {
    /// Takes a table apart.
    ///
    /// # Errors
    /// It is not a whole table.
    pub fn new(table: &[u8]) -> Result<Forge, String> {
        let path = Path::new("table");
        let parts = Parts::of(table).ok_or("no footer")?;
        let number = |at: usize| u64::from_le_bytes(table[at..at + 8].try_into().unwrap_or_default());
        let (database, file) = (DatabaseId(number(12)), FileId(number(20)));
        let binding = Binding::new(database, file);
        let section = |place: &std::ops::Range<usize>| {
            let opened = open(&table[place.clone()], binding, place.start as u64, path);
            opened.map(|payload| payload.into_owned()).map_err(|error| error.to_string())
        };
        let text = |error: solera::codec::DecodeError| error.what.to_owned();
        let index = section(&parts.index)?;
        let mut decoder = Decoder::new(&index);
        let mut at = parts.blocks.start;
        let (mut blocks, mut places) = (Vec::new(), Vec::new());
        for _ in 0..decoder.varint("a count").map_err(text)? {
            let size = decoder.varint("a size").map_err(text)? as usize;
            blocks.push(section(&(at..at + size))?);
            places.push(at..at + size);
            at += size;
        }
        let trained = decoder.rest().to_vec();
        // The last block has none behind it.
        places.pop();
        let separator = |place: &std::ops::Range<usize>| {
            let block = Block::copy_from_stored(&table[place.clone()], binding, place.start as u64, path);
            separator_behind(&block.map_err(|error| error.to_string())?)
        };
        let separators = places.iter().map(separator).collect::<Result<_, _>>()?;
        let properties = section(&parts.properties)?;
        let descriptor = TableDescriptor::decode(&mut Decoder::new(&properties)).map_err(text)?;
        Ok(Forge {
            database,
            header: table[..HEADER_BYTES].to_vec(),
            binding,
            blocks,
            tombstones: section(&parts.tombstones)?,
            filter: section(&parts.filter)?,
            separators,
            trained,
            descriptor,
        })
    }

    /// The line of a block.
    pub fn line(&self, block: usize) -> StoredLine {
        let payload = &self.blocks[block];
        let footer = &payload[payload.len() - BLOCK_FOOTER_BYTES..];
        let float = |at: usize| f64::from_le_bytes(footer[at..at + 8].try_into().unwrap_or_default());
        StoredLine {
            slope: float(0),
            intercept: float(8),
            error: u16::from_le_bytes([footer[32], footer[33]]),
        }
    }

    /// The hash index of a block, if it has one. It has no line then, nor a place for one.
    pub fn buckets_mut(&mut self, block: usize) -> Option<&mut [u8]> {
        let payload = &mut self.blocks[block];
        let footer_at = payload.len() - BLOCK_FOOTER_BYTES;
        let footer = &payload[footer_at..];
        let short = |at: usize| usize::from(u16::from_le_bytes([footer[at], footer[at + 1]]));
        let long =
            |at: usize| footer[at..at + 4].iter().rev().fold(0, |sum, &byte| sum << 8 | usize::from(byte));
        let (n, record_bytes, buckets, prefix_len) = (long(24), long(28), short(32), short(34));
        let [flags, note_len] = [footer[38], footer[39]];
        if flags & FLAG_LINE != 0 || buckets == 0 {
            return None;
        }
        // They lie right before the records.
        let end = match flags & 3 {
            0 => footer_at - usize::from(note_len) - prefix_len - n * record_bytes,
            width => n * (8 + (1 << width)) + buckets,
        };
        payload.get_mut(end - buckets..end)
    }

    /// Gives a block without a hash index another line.
    pub fn set_line(&mut self, block: usize, line: StoredLine) {
        let payload = &mut self.blocks[block];
        let at = payload.len() - BLOCK_FOOTER_BYTES;
        let footer = &mut payload[at..];
        footer[..8].copy_from_slice(&line.slope.to_le_bytes());
        footer[8..16].copy_from_slice(&line.intercept.to_le_bytes());
        footer[32..34].copy_from_slice(&line.error.to_le_bytes());
        footer[38] |= FLAG_LINE;
    }

    /// The fences of a block.
    pub fn note_mut(&mut self, block: usize) -> &mut [u8] {
        let payload = &mut self.blocks[block];
        let end = payload.len() - BLOCK_FOOTER_BYTES;
        let len = usize::from(payload[end + 39]);
        &mut payload[end - len..end]
    }

    /// The sizes of the blocks as they are stored.
    pub fn sizes(&self) -> Vec<u64> {
        self.blocks.iter().map(|payload| (payload.len() + TRAILER_BYTES) as u64).collect()
    }

    /// Trains the index from the separators as they are now, if they are as many as it can be
    /// trained from and ascend. Else it becomes these separators, in whatever order: of a kind with
    /// a model, bytes that are none.
    pub fn train(&mut self) {
        let layout = &self.descriptor.layout;
        self.trained.clear();
        if self.separators.is_sorted() && self.separators.len() + 1 == self.blocks.len() {
            let separators: Separators = self.separators.iter().collect();
            Index::build(layout.index, layout.epsilon, &separators, None)
                .encode(&separators, &mut self.trained);
            return;
        }
        // The kind, and no reason.
        self.trained.extend([layout.index as u8, 0]);
        put_varint(&mut self.trained, self.separators.len() as u64);
        let mut before: &[u8] = &[];
        for separator in &self.separators {
            let shared = separator.iter().zip(before).take_while(|(a, b)| a == b).count();
            put_varint(&mut self.trained, shared as u64);
            put_bytes(&mut self.trained, &separator[shared..]);
            before = separator;
        }
    }

    /// An index section of these sizes and the index.
    pub fn index(&self, sizes: &[u64]) -> Vec<u8> {
        let mut index = Vec::new();
        put_varint(&mut index, sizes.len() as u64);
        sizes.iter().for_each(|&size| put_varint(&mut index, size));
        index.extend_from_slice(&self.trained);
        index
    }

    /// The table with this index section, and the descriptor that fits it.
    pub fn table(&self, index: &[u8]) -> (Vec<u8>, TableDescriptor) {
        let mut out = self.header.clone();
        let put = |payload: &[u8], out: &mut Vec<u8>| {
            let at = out.len() as u64;
            seal(payload, Compression::None, self.binding, at, out);
            at
        };
        for payload in &self.blocks {
            put(payload, &mut out);
        }
        let tombstones = put(&self.tombstones, &mut out);
        let filter = put(&self.filter, &mut out);
        let index = put(index, &mut out);
        let properties = out.len() as u64;
        let mut descriptor = TableDescriptor {
            bytes: 0,
            filter_bytes: index - filter,
            index_bytes: properties - index,
            ..self.descriptor.clone()
        };
        let mut payload = Vec::new();
        descriptor.encode(&mut payload);
        put(&payload, &mut out);
        let footer_at = out.len();
        descriptor.bytes = footer_at as u64 + 56;
        for number in [tombstones, filter, index, properties, descriptor.bytes] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        let checksum = self.binding.checksum(footer_at as u64, &out[footer_at..]);
        out.extend_from_slice(&checksum.to_le_bytes());
        out.extend_from_slice(MAGIC);
        (out, descriptor)
    }
}

/// The separator behind a block, by its upper fence: so much of its last key, and one byte.
fn separator_behind(block: &Block) -> Result<Vec<u8>, String> {
    let text = |error: solera::codec::DecodeError| error.what.to_owned();
    let mut note = Decoder::new(block.note());
    if note.varint("a lower fence").map_err(text)? > 0 {
        note.u8("the last byte of a lower fence").map_err(text)?;
    }
    let shared = note.varint("an upper fence").map_err(text)? as usize;
    let mut separator = Vec::new();
    block.key_into(block.len() - 1, &mut separator);
    separator.truncate(shared);
    separator.push(note.u8("the last byte of an upper fence").map_err(text)?);
    Ok(separator)
}

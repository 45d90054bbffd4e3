//! Writing a table front to back, in one pass: `TableWriter`.
//!
//! `add` takes entries in order; a block is cut when its builder refuses the next entry, and is
//! sealed into the write buffer. `finish` writes tombstones, filter, index, properties and footer,
//! and syncs. Models are trained here: a block's line as its keys come, the index when the last
//! block is cut. Of each block it keeps size and separator; for `Learned` and `Auto` also the
//! beginnings of its last keys.
//!
//! What must hold: callers add keys ascending, versions of one key from new to old. The name is
//! durable once the caller syncs the directory. Until `finish` the file has no footer, so no reader
//! takes it for a table; dropped before, it is removed.
//! Callers: `compaction::job` (flushes and compactions), `engine::ingest`.

use super::{
    TableContext,
    descriptor::{TableDescriptor, hull},
    fences::{Fences, lower_fence},
    format::{FOOTER_BYTES, FORMAT_VERSION, Footer, Header},
    fresh::FreshBlocks,
    layout::Layout,
    waste::{ENTRY_BYTES, Waste},
};
use crate::{
    block::{BlockBuilder, Compression, LastMile, seal},
    cache::Cache,
    canary::{Bug, planted},
    codec::Binding,
    error::{Error, Result},
    filter::{FilterBuilder, FilterSpec},
    ids::{FileId, SEQNO_MAX, Seqno},
    index::{
        Index, IndexKind, LastKeys,
        handles::Handles,
        last_keys::KEPT_MAX,
        separators::{SEPARATOR_BYTES_MAX, Separators},
    },
    key::{EXPIRY_BYTES, KEY_BYTES_MAX, KeyRange, Kind, VALUE_BYTES_MAX, equal, hash, split_expiry},
    tombstone::RangeTombstones,
    values::Pointer,
    vfs::{Fs, WriteFile},
};
use std::{fmt, path::PathBuf, sync::Arc};

/// Sealed blocks are collected up to this many bytes, then written by one call. The block that
/// comes to it still fits into 256 KiB: the buffer does not double for it.
const WRITE_BYTES: usize = 240 << 10;
/// Room for a block, and for what is written at once, that stays for what comes next.
const KEPT_BYTES: usize = 2 * WRITE_BYTES;

/// So much of a block's last key is kept beyond what the separators around it have: as many letters
/// as a head tells at most.
const LAST_KEY_BYTES: usize = 32;

/// Separators take at most one part in so many of the size at which a table is ended.
const SEPARATORS_SHARE: u64 = 8;

/// A table under construction. Dropped before it is finished, it removes its file.
pub struct TableWriter {
    fs: Arc<dyn Fs>,
    path: PathBuf,
    /// `None` once the file is closed.
    output: Option<Box<dyn WriteFile>>,
    binding: Binding,
    layout: Layout,
    block: BlockBuilder,
    filter: FilterBuilder,
    separators: Separators,
    /// Whether blocks end at gaps between keys, and what [`LastKeys`] tells is kept, for an index
    /// that makes use of both.
    is_for_learned: bool,
    last_keys: LastKeys,
    distinct_keys: u64,
    sizes: Vec<u64>,
    /// Bytes of the keys and values in the block under construction.
    staged: u64,
    /// Sealed, not yet written; its first byte belongs at `written`.
    buffer: Vec<u8>,
    written: u64,
    /// One block's payload and note; kept for their memory.
    payload: Vec<u8>,
    note: Vec<u8>,
    /// First key of the block after the one that is finished.
    next_first: Vec<u8>,
    /// The lower fence of the block under construction.
    lower_fence: Option<(usize, u8)>,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
    tombstones: RangeTombstones,
    /// What is known so far. The rest is filled in by `finish`.
    descriptor: TableDescriptor,
    /// No entry is older than this, whatever number it comes with.
    oldest: Seqno,
    /// Blocks that stay in memory.
    fresh: Option<FreshBlocks>,
}

impl TableWriter {
    /// Creates the file of table `file`, which must not exist. It gets the filter that is given,
    /// whatever the layout says of filters in general. A block all of whose sequence numbers are
    /// `<= elide_below` stores none of them; pass the oldest live snapshot, or 0 for never.
    ///
    /// # Errors
    /// A layout or filter out of range is [`Error::Invalid`]; else what the file system says.
    pub fn create(
        context: &TableContext,
        file: FileId,
        layout: &Layout,
        filter: FilterSpec,
        elide_below: Seqno,
    ) -> Result<TableWriter> {
        layout.validate()?;
        filter.validate()?;
        let path = context.path(file);
        let output = context.fs.create(&path)?;
        let last_mile = match layout.index {
            IndexKind::Binary
            | IndexKind::STree
            | IndexKind::Eytzinger
            | IndexKind::Interpolation
            | IndexKind::SherryPlr => LastMile::Halving,
            IndexKind::STreeHash => LastMile::Hash,
            IndexKind::DoblixPla => LastMile::Pla { epsilon: layout.epsilon },
            IndexKind::DoblixPra | IndexKind::GreedyPlr => LastMile::LeastSquares,
            IndexKind::Learned | IndexKind::Auto => LastMile::LeastSquaresOrHash,
        };
        let header = Header { database: context.database, file, version: FORMAT_VERSION };
        Ok(TableWriter {
            fs: context.fs.clone(),
            path,
            output: Some(output),
            binding: header.binding(),
            layout: *layout,
            block: BlockBuilder::new(layout.block_bytes, last_mile, elide_below),
            filter: FilterBuilder::new(filter),
            separators: Separators::new(),
            is_for_learned: matches!(layout.index, IndexKind::Learned | IndexKind::Auto),
            last_keys: LastKeys::default(),
            distinct_keys: 0,
            sizes: Vec::new(),
            staged: 0,
            buffer: header.encode().to_vec(),
            written: 0,
            payload: Vec::new(),
            note: Vec::new(),
            next_first: Vec::new(),
            lower_fence: None,
            first_key: Vec::new(),
            last_key: Vec::new(),
            tombstones: RangeTombstones::default(),
            descriptor: TableDescriptor {
                file,
                bytes: 0,
                entries: 0,
                deletes: 0,
                merges: 0,
                range_tombstones: 0,
                range: KeyRange::all(),
                seqno_min: SEQNO_MAX,
                seqno_max: 0,
                elided_seqno: 0,
                blocks: 0,
                index_bytes: 0,
                filter_bytes: 0,
                key_bytes: 0,
                value_bytes: 0,
                filter,
                layout: *layout,
                waste: Waste::default(),
            },
            oldest: 0,
            fresh: None,
        })
    }

    /// Has blocks stay in memory for this cache as they are written, where it has room.
    pub fn keep_blocks(&mut self, cache: &Arc<Cache>) {
        self.fresh = Some(FreshBlocks::new(cache));
    }

    /// Adds an entry. Keys ascend, versions of one key go from new to old.
    ///
    /// # Panics
    /// If `key` begins a block and is below the key before it: no reader would find entries of such
    /// a table. Within a block a debug build looks.
    pub fn add(&mut self, key: &[u8], seqno: Seqno, kind: Kind, value: &[u8]) -> Result<()> {
        if key.len() > KEY_BYTES_MAX {
            return Err(Error::TooLarge { what: "key", len: key.len() as u64, limit: KEY_BYTES_MAX as u64 });
        }
        if value.len() as u64 > VALUE_BYTES_MAX {
            return Err(Error::TooLarge { what: "value", len: value.len() as u64, limit: VALUE_BYTES_MAX });
        }
        let first = self.descriptor.entries == 0;
        debug_assert!(first || self.last_key[..] <= *key, "keys ascend");
        while !self.block.try_add(key, seqno, kind, value) {
            // Once a block: for every key it would cost what a merge notices.
            assert!(
                self.last_key[..] <= *key,
                "keys ascend, and \"{}\" comes after \"{}\"",
                key.escape_ascii(),
                self.last_key.escape_ascii()
            );
            // An empty block takes any entry.
            self.cut(Some(key))?;
        }
        self.staged += (key.len() + value.len()) as u64;
        if first {
            self.first_key.extend_from_slice(key);
        }
        if first || !equal(&self.last_key, key) {
            self.distinct_keys += 1;
            if self.descriptor.filter.bits_per_key > 0.0 {
                self.filter.add(hash(key));
            }
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
        }
        let descriptor = &mut self.descriptor;
        descriptor.entries += 1;
        descriptor.deletes += u64::from(kind == Kind::Delete);
        descriptor.merges += u64::from(kind == Kind::Merge);
        descriptor.seqno_min = descriptor.seqno_min.min(seqno);
        descriptor.seqno_max = descriptor.seqno_max.max(seqno);
        descriptor.key_bytes += key.len() as u64;
        descriptor.value_bytes += value.len() as u64;
        let mut apart = 0;
        if kind.is_separated() {
            let stored = value.get(if kind.expires() { EXPIRY_BYTES } else { 0 }..).unwrap_or_default();
            // One that leads nowhere is found by readers.
            if let Ok(pointer) = Pointer::decode(stored) {
                descriptor.waste.point(&pointer);
                apart = pointer.len.into();
            }
        }
        if kind.expires()
            && let Some((moment_ms, _)) = split_expiry(value)
        {
            let bytes = (key.len() + value.len()) as u64 + ENTRY_BYTES;
            descriptor.waste.expire(moment_ms, bytes, apart);
        }
        Ok(())
    }

    /// What is to be said of useless entries: old versions and tombstones that a snapshot holds.
    /// The writer itself notes entries that expire, and what range tombstones cover.
    pub fn waste(&mut self) -> &mut Waste {
        &mut self.descriptor.waste
    }

    /// Says that no entry is older than `seqno`, though some come with the number 0 in place of
    /// their own.
    pub fn written_since(&mut self, seqno: Seqno) {
        self.oldest = seqno;
    }

    /// Adds range tombstones. What several calls add is the union.
    pub fn add_range_tombstones(&mut self, tombstones: RangeTombstones) {
        // Mostly there is one call.
        self.tombstones = match self.tombstones.is_empty() {
            true => tombstones,
            false => {
                let both = [self.tombstones.shared(), tombstones.shared()].concat();
                RangeTombstones::from_shared(both)
            }
        };
    }

    /// How long the file would be if it were finished now, nearly.
    pub fn bytes_written(&self) -> u64 {
        let filter = self.filter.len() as f64 * f64::from(self.descriptor.filter.bits_per_key) / 8.0;
        let index = match self.layout.index {
            IndexKind::Learned | IndexKind::SherryPlr | IndexKind::GreedyPlr | IndexKind::Auto => {
                2 * self.sizes.len()
            }
            _ => self.separators.total_bytes() + self.sizes.len(),
        };
        self.offset() + self.staged + filter as u64 + index as u64 + 2 * self.sizes.len() as u64
    }

    /// What a table of this many bytes would be like: [`TableWriter::bytes_written`], or more if
    /// its separators are very long. They are in memory until the index is trained from them, and
    /// keys that differ in their last bytes have separators as long as themselves.
    pub fn extent(&self) -> u64 {
        self.bytes_written().max(self.separators.total_bytes() as u64 * SEPARATORS_SHARE)
    }

    /// As much of that as its separators would take if `next` were added: one that begins otherwise
    /// than they do has what they begin with held of each.
    #[inline]
    pub fn extent_of_separators_with(&self, next: &[u8]) -> u64 {
        if self.separators.begin().is_empty() {
            return 0;
        }
        let bytes = self.separators.total_bytes() + self.separators.spread_by(next);
        bytes as u64 * SEPARATORS_SHARE
    }

    /// Entries added so far.
    pub fn entries(&self) -> u64 {
        self.descriptor.entries
    }

    /// The key last added.
    pub fn last_key(&self) -> Option<&[u8]> {
        (self.descriptor.entries > 0).then_some(&self.last_key)
    }

    /// Whether nothing was added: neither entries nor range tombstones.
    pub fn is_empty(&self) -> bool {
        self.descriptor.entries == 0 && self.tombstones.is_empty()
    }

    /// Writes what is missing and syncs the file; its name is durable once the caller has synced
    /// the directory. If nothing was added there is no table: the file is removed.
    pub fn finish(self) -> Result<Option<TableDescriptor>> {
        Ok(self.finish_with_blocks()?.map(|(descriptor, _)| descriptor))
    }

    /// [`TableWriter::finish`], and the blocks that stayed in memory.
    pub fn finish_with_blocks(mut self) -> Result<Option<(TableDescriptor, Option<FreshBlocks>)>> {
        if self.is_empty() {
            return Ok(None);
        }
        if !self.block.is_empty() {
            self.cut(None)?;
        }
        let tombstones = std::mem::take(&mut self.tombstones);
        self.describe(&tombstones);
        let mut footer = Footer {
            tombstones: self.offset(),
            filter: 0,
            index: 0,
            properties: 0,
            bytes: 0,
            version: FORMAT_VERSION,
        };
        let mut section = Vec::new();
        tombstones.encode(&mut section);
        self.seal_section(&section)?;

        footer.filter = self.offset();
        section = self.filter.finish();
        self.seal_section(&section)?;

        footer.index = self.offset();
        self.descriptor.filter_bytes = footer.index - footer.filter;
        section.clear();
        self.encode_index(&mut section);
        self.seal_section(&section)?;

        footer.properties = self.offset();
        self.descriptor.index_bytes = footer.properties - footer.index;
        section.clear();
        self.descriptor.encode(&mut section);
        self.seal_section(&section)?;

        footer.bytes = self.offset() + FOOTER_BYTES as u64;
        self.descriptor.bytes = footer.bytes;
        self.buffer.extend_from_slice(&footer.encode(self.binding));
        self.write()?;
        if let Some(output) = self.output.as_mut().filter(|_| !planted(Bug::PublishBeforeSync)) {
            output.sync()?;
        }
        self.output = None;
        Ok(Some((self.descriptor.clone(), self.fresh.take())))
    }

    /// Trains the index, now that all separators are known, and appends its section.
    fn encode_index(&mut self, section: &mut Vec<u8>) {
        Handles::encode_sizes(&self.sizes, section);
        if self.sizes.is_empty() {
            return;
        }
        self.last_keys.set_of(self.distinct_keys);
        let is_counted = self.is_for_learned || self.layout.index == IndexKind::GreedyPlr;
        let last_keys = is_counted.then_some(&self.last_keys);
        let index = Index::build(self.layout.index, self.layout.epsilon, &self.separators, last_keys);
        index.encode(&self.separators, section);
    }

    /// Gives the table up and removes its file.
    pub fn abandon(self) {}

    /// Where the next sealed byte belongs.
    fn offset(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    fn describe(&mut self, tombstones: &RangeTombstones) {
        let descriptor = &mut self.descriptor;
        let entries = (descriptor.entries > 0).then(|| KeyRange::closed(&self.first_key, &self.last_key));
        if let Some(range) = hull(entries, tombstones.span()) {
            descriptor.range = range;
        }
        descriptor.range_tombstones = tombstones.len() as u64;
        if let (Some(min), Some(max)) = (tombstones.min_seqno(), tombstones.max_seqno()) {
            descriptor.seqno_min = descriptor.seqno_min.min(min);
            descriptor.seqno_max = descriptor.seqno_max.max(max);
        }
        descriptor.seqno_min = descriptor.seqno_min.max(self.oldest).min(descriptor.seqno_max);
        descriptor.waste.repeated = descriptor.entries - self.distinct_keys;
        descriptor.waste.thin_moments();
        descriptor.waste.forget_many_pointers();
        descriptor.waste.cover(tombstones);
    }

    /// Finishes the block under construction, after which comes `next`: in the block that follows,
    /// behind what this one gives up for a gap.
    fn cut(&mut self, next: Option<&[u8]>) -> Result<()> {
        let lower = self.lower_fence.take();
        if let Some(next) = next {
            self.next_first.clear();
            self.next_first.extend_from_slice(if self.is_for_learned {
                self.block.step_back(next)
            } else {
                next
            });
            let tail = self.separators.push_between(self.block.last_key(), &self.next_first);
            self.lower_fence = Some(lower_fence(self.block.last_key(), &self.next_first));
            if self.is_for_learned {
                self.keep_last_keys(&tail);
            }
        }
        let upper = next.and_then(|_| self.separators.last_bound());
        self.note.clear();
        Fences::between(lower, upper).encode(&mut self.note);
        self.payload.clear();
        self.block.finish(&self.note, &mut self.payload);
        let (offset, before) = (self.offset(), self.buffer.len());
        self.make_room();
        seal(&self.payload, self.layout.compression, self.binding, offset, &mut self.buffer);
        if let Some(fresh) = &mut self.fresh {
            fresh.push(&self.payload);
        }
        // What a large value took must not stay around for the rest of the table.
        self.payload.clear();
        self.payload.shrink_to(KEPT_BYTES);
        self.sizes.push((self.buffer.len() - before) as u64);
        self.block.take_up();
        self.staged = self.block.staged_bytes();
        let too_large = |what, len| Error::TooLarge { what, len, limit: u32::MAX.into() };
        if self.separators.total_bytes() > SEPARATOR_BYTES_MAX {
            return Err(too_large("table, in bytes of separators", self.separators.total_bytes() as u64));
        }
        let Some(blocks) = self.descriptor.blocks.checked_add(1) else {
            return Err(too_large("table, in blocks", self.sizes.len() as u64));
        };
        self.descriptor.blocks = blocks;
        if self.buffer.len() >= WRITE_BYTES { self.write() } else { Ok(()) }
    }

    /// Keeps the beginnings of the last keys, which lie between the last two separators. They go on
    /// beyond both: so they stay between them, and such keys ascend. `tail` is no longer left out
    /// of separators.
    fn keep_last_keys(&mut self, tail: &[u8]) {
        let count = self.separators.len();
        let around = [count.checked_sub(2), Some(count - 1)].into_iter().flatten();
        let longest = around.map(|i| self.separators.get(i).len()).max().unwrap_or(0);
        let begin = self.separators.begin();
        let beyond = begin.len() + longest + LAST_KEY_BYTES;
        let last_keys = self.block.last_keys(KEPT_MAX).map(|key| &key[..key.len().min(beyond)]);
        self.last_keys.push_behind(begin, tail, last_keys);
    }

    /// Room for what is still collected and for the payload, in a buffer that would double for it.
    /// While it is compressed a block takes a little more than itself.
    fn make_room(&mut self) {
        let most = self.payload.len() + self.payload.len() / 64 + 1024;
        let left = WRITE_BYTES.saturating_sub(self.buffer.len());
        if left < WRITE_BYTES / 2 && self.buffer.capacity() - self.buffer.len() < left + most {
            self.buffer.reserve_exact(left + most);
        }
    }

    fn seal_section(&mut self, payload: &[u8]) -> Result<()> {
        let offset = self.offset();
        seal(payload, Compression::None, self.binding, offset, &mut self.buffer);
        if self.buffer.len() >= WRITE_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        if let Some(output) = &mut self.output {
            output.append(&self.buffer)?;
        }
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        self.buffer.shrink_to(KEPT_BYTES);
        Ok(())
    }
}

impl Drop for TableWriter {
    fn drop(&mut self) {
        if self.output.take().is_some() {
            // What cannot be removed now is removed by the next open: no manifest names it.
            let _ = self.fs.remove_file(&self.path);
        }
    }
}

impl fmt::Debug for TableWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableWriter").field("path", &self.path).field("descriptor", &self.descriptor).finish()
    }
}

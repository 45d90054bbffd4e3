//! An open table: point lookups, and the way to a block for everybody who needs one.
//!
//! Owns [`Table`]. The index says which block to look into; the block's own keys and fences have the last
//! word. A lookup that an index sends astray is put right by a search over the blocks and counted: a model
//! may make a read slower, never wrong.

use super::{
    TableContext,
    descriptor::TableDescriptor,
    fences::Fences,
    format::{FOOTER_BYTES, Footer, HEADER_BYTES, Header},
};
use crate::{
    block::{Block, BlockAllocation, BlockRef, BlockSlots, open},
    canary::{Bug, planted},
    codec::{Binding, DecodeError, Decoder},
    cursor::{Hit, Probe},
    error::{Error, Result},
    filter::Filter,
    index::{Index, Span, handles::Handles, separators::Separators},
    key::{KeyEnd, KeyRange},
    stats::{Counter, Here, Stats},
    tombstone::RangeTombstones,
    vfs::{ReadFile, read_exact_at},
};
use crossbeam_epoch::Guard;
use std::{
    cmp::Ordering,
    ops::{Deref, Range},
    path::Path,
    sync::Arc,
};

/// An open table.
#[derive(Debug)]
pub struct Table {
    filter: Filter,
    /// `None` if the table has range tombstones only.
    index: Option<Index>,
    slots: BlockSlots,
    stats: Arc<Stats>,
    pub(super) descriptor: Arc<TableDescriptor>,
    pub(super) handles: Handles,
    pub(super) file: Arc<dyn ReadFile>,
    pub(super) binding: Binding,
    pub(super) footer: Footer,
    tombstones: Arc<RangeTombstones>,
}

/// A block to look into, wherever it came from.
pub(super) enum Found<'g> {
    Cached(BlockRef<'g>),
    Loaded(Block),
}

impl Deref for Found<'_> {
    type Target = Block;
    #[inline]
    fn deref(&self) -> &Block {
        match self {
            Found::Cached(block) => block,
            Found::Loaded(block) => block,
        }
    }
}

/// The first bytes of a table file.
pub(super) fn read_header(file: &dyn ReadFile) -> Result<Header> {
    let len = file.len()?;
    if len < (HEADER_BYTES + FOOTER_BYTES) as u64 {
        return Err(Error::corrupt(file.path(), len, format!("{len} bytes are too short for a table")));
    }
    let mut bytes = [0; HEADER_BYTES];
    read_exact_at(file, &mut bytes, 0)?;
    Header::decode(&bytes, file.path())
}

/// The last bytes of a table file, whose header is there.
pub(super) fn read_footer(file: &dyn ReadFile, binding: Binding) -> Result<Footer> {
    let len = file.len()?;
    let mut bytes = [0; FOOTER_BYTES];
    read_exact_at(file, &mut bytes, len - FOOTER_BYTES as u64)?;
    Footer::decode(&bytes, len, binding, file.path())
}

/// The descriptor in the properties of a table file, whose footer this is.
pub(super) fn read_properties(
    file: &dyn ReadFile,
    footer: &Footer,
    binding: Binding,
) -> Result<TableDescriptor> {
    let mut stored = vec![0; (footer.offset() - footer.properties) as usize];
    read_exact_at(file, &mut stored, footer.properties)?;
    decode_properties(&stored, footer, binding, file.path())
}

fn decode_properties(
    stored: &[u8],
    footer: &Footer,
    binding: Binding,
    path: &Path,
) -> Result<TableDescriptor> {
    let payload = open(stored, binding, footer.properties, path)?;
    let mut decoder = Decoder::new(&payload);
    let descriptor = TableDescriptor::decode(&mut decoder)
        .and_then(|descriptor| decoder.finish("the end of the properties").map(|()| descriptor))
        .map_err(|error| error.in_file(path, footer.properties))?;
    Ok(TableDescriptor { bytes: footer.bytes, ..descriptor })
}

impl Table {
    /// Opens the table in `file`. Everything but the data blocks is read and checked.
    ///
    /// # Errors
    /// [`Error::NewerFormat`], or [`Error::Corrupt`] that tells a file of another kind, another database's
    /// or another table's file, a file cut short and damage apart.
    pub(super) fn open(
        context: &TableContext,
        descriptor: &Arc<TableDescriptor>,
        file: Arc<dyn ReadFile>,
    ) -> Result<Table> {
        let path = file.path();
        let header = read_header(&*file)?;
        if header.database != context.database {
            return Err(Error::corrupt(
                path,
                12,
                format!("the table belongs to database {}, not to {}", header.database, context.database),
            ));
        }
        if header.file != descriptor.file {
            return Err(Error::corrupt(
                path,
                20,
                format!("the file holds table {}, not table {}", header.file, descriptor.file),
            ));
        }
        let len = file.len()?;
        if len != descriptor.bytes {
            return Err(Error::corrupt(
                path,
                len,
                format!("the file is {len} bytes long, the manifest says {}", descriptor.bytes),
            ));
        }
        let binding = header.binding();
        let footer = read_footer(&*file, binding)?;

        let start = footer.tombstones;
        let mut sections = vec![0; (footer.offset() - start) as usize];
        read_exact_at(&*file, &mut sections, start)?;
        let section =
            |range: Range<u64>| &sections[(range.start - start) as usize..(range.end - start) as usize];
        let within = |offset: u64| move |error: DecodeError| error.in_file(path, offset);

        let properties =
            decode_properties(section(footer.properties..footer.offset()), &footer, binding, path)?;
        if !properties.same_file(descriptor) {
            return Err(Error::corrupt(
                path,
                footer.properties,
                "the table's properties are not what the manifest says",
            ));
        }
        let stored = open(section(footer.tombstones..footer.filter), binding, footer.tombstones, path)?;
        let tombstones = RangeTombstones::decode(&stored).map_err(within(footer.tombstones))?;
        if tombstones.len() as u64 != descriptor.range_tombstones {
            return Err(Error::corrupt(
                path,
                footer.tombstones,
                format!(
                    "{} range tombstones, not {} as described",
                    tombstones.len(),
                    descriptor.range_tombstones
                ),
            ));
        }
        let stored = open(section(footer.filter..footer.index), binding, footer.filter, path)?;
        let filter = Filter::decode(&stored).map_err(within(footer.filter))?;
        let stored = open(section(footer.index..footer.properties), binding, footer.index, path)?;
        let (handles, separators) =
            decode_index(&stored, &footer, descriptor).map_err(within(footer.index))?;
        let index = separators
            .map(|separators| Index::build(descriptor.layout.index, descriptor.layout.epsilon, &separators));
        Ok(Table {
            filter,
            index,
            slots: BlockSlots::new(&context.cache, handles.blocks()),
            stats: context.stats.clone(),
            descriptor: descriptor.clone(),
            handles,
            binding,
            footer,
            tombstones: Arc::new(tombstones),
            file,
        })
    }

    /// Looks for the newest version of the probe's key that its snapshot sees, and hands it to `f`. Range
    /// tombstones are not asked.
    ///
    /// Costs no allocation, lock or system call if the filter says no or the cache has the block (but for
    /// a key that lies before the first or behind the last one of its block, which takes an allocation).
    #[inline]
    pub fn lookup<R>(
        &self,
        probe: &Probe<'_>,
        guard: &Guard,
        f: impl FnOnce(Hit<'_>) -> R,
    ) -> Result<Option<R>> {
        let here = self.stats.here();
        let Some(index) = &self.index else { return Ok(None) };
        if !self.filter.is_none() {
            here.add(Counter::FilterProbes, 1);
            if !self.filter.may_contain(probe.hash) {
                here.add(Counter::FilterNegatives, 1);
                return Ok(None);
            }
        }
        let span = index.locate(probe.key);
        let block = self.cached(span.first, guard, here)?;
        let elided = self.descriptor.elided_seqno;
        // A version that stands first may have newer ones in the block before, which the fences know.
        match block.lookup(probe, elided) {
            Some(rank) if rank > 0 => Ok(Some(f(block.hit(rank, elided)))),
            found => self.lookup_at_edge(probe, guard, here, span, block, found, f),
        }
    }

    /// Goes on where a look into the first block of a span did not settle the matter: `found` is 0 or nothing.
    #[expect(clippy::too_many_arguments, reason = "the state of a lookup, half done")]
    fn lookup_at_edge<'g, R>(
        &self,
        probe: &Probe<'_>,
        guard: &'g Guard,
        here: Here<'_>,
        span: Span,
        mut block: Found<'g>,
        mut found: Option<usize>,
        f: impl FnOnce(Hit<'_>) -> R,
    ) -> Result<Option<R>> {
        let elided = self.descriptor.elided_seqno;
        let mut number = span.first;
        let rank = found.unwrap_or_else(|| block.find(probe.key));
        if !planted(Bug::TrustIndexOnMiss) && !self.admits(number, &block, rank, probe.key)? {
            (number, block) =
                self.settle(probe.key, span, block, |number| self.cached(number, guard, here))?;
            found = block.lookup(probe, elided);
        }
        loop {
            if let Some(rank) = found {
                return Ok(Some(f(block.hit(rank, elided))));
            }
            if !block.continues() || !block.ends_with(probe.key) {
                break;
            }
            number += 1;
            if number == self.blocks() {
                return Err(self.damage(number, "the last block says that another one follows"));
            }
            block = self.cached(number, guard, here)?;
            found = block.lookup(probe, elided);
        }
        if !self.filter.is_none() {
            let rank = block.find(probe.key);
            if rank == block.len() || !block.key_eq(rank, probe.key) {
                here.add(Counter::FilterFalsePositives, 1);
            }
        }
        Ok(None)
    }

    /// Whether `block`, where `key` has `rank`, is responsible for the key. Only a key that is not
    /// between two of the block's keys can belong elsewhere.
    #[inline]
    pub(super) fn admits(&self, number: usize, block: &Block, rank: usize, key: &[u8]) -> Result<bool> {
        if rank > 0 && rank < block.len() {
            return Ok(true);
        }
        let fences = self.fences(number, block)?;
        Ok(if rank == 0 {
            fences.admit_before_first(block, key)
        } else {
            fences.admit_after_last(block, key)
        })
    }

    /// The fences in the note of `block`.
    pub(super) fn fences(&self, number: usize, block: &Block) -> Result<Fences> {
        Fences::of(block).map_err(|error| self.damage(number, &format!("expected {}", error.what)))
    }

    /// Damage where block `number` begins, or where the data blocks end.
    pub(super) fn damage(&self, number: usize, what: &str) -> Error {
        Error::corrupt(self.file.path(), self.handles.offset(number.min(self.blocks())), what)
    }

    /// Finds the block of `key`, which `block`, the first of the span that the index gave, is not: block by
    /// block through the span and what may lie beside it, and if the index was wrong, without it.
    #[cold]
    pub(super) fn settle<'g>(
        &self,
        key: &[u8],
        span: Span,
        mut block: Found<'g>,
        mut fetch: impl FnMut(usize) -> Result<Found<'g>>,
    ) -> Result<(usize, Found<'g>)> {
        let mut number = span.first;
        let steps_max = span.last - span.first + self.index.as_ref().map_or(0, Index::reach);
        for _ in 0..steps_max {
            let next = match self.fences(number, &block)?.compare(&block, key) {
                Ordering::Equal => return Ok((number, block)),
                Ordering::Less => number.checked_sub(1),
                Ordering::Greater => Some(number + 1).filter(|&next| next < self.blocks()),
            };
            let Some(next) = next else { break };
            self.stats.add(Counter::IndexSteps, 1);
            (number, block) = (next, fetch(next)?);
        }
        if self.fences(number, &block)?.compare(&block, key).is_eq() {
            return Ok((number, block));
        }
        self.count_fallback();
        self.search(key, fetch)
    }

    /// Finds the block of `key` by the keys alone, whatever the index and the fences say: a binary search for
    /// the first block of which the last key is not below `key`; the last block, if there is none.
    fn search<'g>(
        &self,
        key: &[u8],
        mut fetch: impl FnMut(usize) -> Result<Found<'g>>,
    ) -> Result<(usize, Found<'g>)> {
        let (mut low, mut high) = (0, self.blocks() - 1);
        while low < high {
            let middle = low.midpoint(high);
            let block = fetch(middle)?;
            if block.find(key) == block.len() { low = middle + 1 } else { high = middle }
        }
        Ok((low, fetch(low)?))
    }

    /// Block `number`, for a lookup.
    #[inline]
    fn cached<'g>(&self, number: usize, guard: &'g Guard, here: Here<'_>) -> Result<Found<'g>> {
        here.add(Counter::BlocksProbed, 1);
        match self.slots.get(number, guard) {
            Some(block) => {
                here.add(Counter::BlocksHit, 1);
                Ok(Found::Cached(block))
            }
            None => self.load(number).map(Found::Loaded),
        }
    }

    /// Block `number` from the cache, kept alive by a count.
    pub(super) fn pinned(&self, number: usize) -> Result<Block> {
        let guard = crossbeam_epoch::pin();
        match self.slots.get(number, &guard) {
            Some(block) => {
                self.stats.add(Counter::BlocksHit, 1);
                Ok(Block::clone(&block))
            }
            None => {
                drop(guard);
                self.load(number)
            }
        }
    }

    /// Reads block `number` and puts it into the cache.
    #[cold]
    fn load(&self, number: usize) -> Result<Block> {
        let block = self.read(number)?;
        self.stats.add(Counter::BlocksRead, 1);
        self.slots.insert(number, &block);
        Ok(block)
    }

    /// Reads block `number`.
    pub(super) fn read(&self, number: usize) -> Result<Block> {
        let place = self.handles.range(number);
        let len = (place.end - place.start) as usize;
        let mut allocation = BlockAllocation::new(len);
        read_exact_at(&*self.file, allocation.buffer_mut(), place.start)?;
        self.count_bytes(len);
        let block = Block::from_stored(allocation, self.binding, place.start, self.file.path())?;
        if block.line_ignored() {
            self.count_fallback();
        }
        Ok(block)
    }

    /// Counts bytes read from the file.
    pub(super) fn count_bytes(&self, bytes: usize) {
        self.stats.add(Counter::BytesRead, bytes as u64);
    }

    pub(super) fn count_fallback(&self) {
        self.stats.add(Counter::IndexFallbacks, 1);
    }

    /// How many data blocks there are.
    #[inline]
    pub(super) fn blocks(&self) -> usize {
        self.handles.blocks()
    }

    /// Where the block is to which `key` belongs; block 0 if there are none.
    #[inline]
    pub(super) fn locate(&self, key: &[u8]) -> Span {
        self.index.as_ref().map_or(Span { first: 0, last: 0 }, |index| index.locate(key))
    }

    /// The table's index; `None` if it has range tombstones only.
    pub fn index(&self) -> Option<&Index> {
        self.index.as_ref()
    }

    /// The separators between the blocks, read from the file again; `None` if there are no blocks.
    pub(super) fn read_separators(&self) -> Result<Option<Separators>> {
        let Footer { index, properties, .. } = self.footer;
        let mut stored = vec![0; (properties - index) as usize];
        read_exact_at(&*self.file, &mut stored, index)?;
        let stored = open(&stored, self.binding, index, self.file.path())?;
        let decoded = decode_index(&stored, &self.footer, &self.descriptor);
        Ok(decoded.map_err(|error| error.in_file(self.file.path(), index))?.1)
    }

    pub(super) fn filter(&self) -> &Filter {
        &self.filter
    }

    /// The table's range tombstones.
    pub fn tombstones(&self) -> &Arc<RangeTombstones> {
        &self.tombstones
    }

    /// What is known of the table without opening it.
    pub fn descriptor(&self) -> &Arc<TableDescriptor> {
        &self.descriptor
    }

    /// Bytes of data blocks before the one where `key` belongs.
    pub fn approximate_offset(&self, key: &[u8]) -> u64 {
        self.handles.offset(self.locate(key).first) - HEADER_BYTES as u64
    }

    /// Bytes of the data blocks that may hold keys of `range`.
    pub fn approximate_bytes(&self, range: &KeyRange) -> u64 {
        if self.index.is_none() || range.is_empty() {
            return 0;
        }
        let first = self.locate(&range.start).first;
        let last = match &range.end {
            KeyEnd::Included(end) | KeyEnd::Excluded(end) => self.locate(end).last,
            KeyEnd::Unbounded => self.blocks() - 1,
        };
        self.handles.offset(last + 1).saturating_sub(self.handles.offset(first))
    }

    /// Bytes that the open table takes in memory, its cached blocks aside: index, handles, filter, cache
    /// slots. Range tombstones are counted as they are in the file.
    pub fn memory_bytes(&self) -> u64 {
        let slots = self.blocks() * size_of::<usize>();
        self.index_bytes()
            + self.filter_bytes()
            + (size_of::<Table>() + slots) as u64
            + (self.footer.filter - self.footer.tombstones)
    }

    /// Bytes that index and handles take in memory.
    pub fn index_bytes(&self) -> u64 {
        (self.index.as_ref().map_or(0, Index::bytes) + self.handles.bytes()) as u64
    }

    /// Bytes that the filter takes in memory.
    pub fn filter_bytes(&self) -> u64 {
        self.filter.memory_bytes() as u64
    }
}

fn decode_index(
    payload: &[u8],
    footer: &Footer,
    descriptor: &TableDescriptor,
) -> Result<(Handles, Option<Separators>), DecodeError> {
    let mut decoder = Decoder::new(payload);
    let data = footer.data();
    let handles = Handles::decode(&mut decoder, data.clone())?;
    if handles.blocks() != descriptor.blocks as usize {
        return decoder.fail("as many blocks as described");
    }
    let separators = if handles.blocks() == 0 {
        None
    } else {
        // A separator is hardly longer than the key above it. The data's own size bounds them too, so that a
        // small file cannot claim gigabytes.
        let of_keys = descriptor.key_bytes.saturating_add(descriptor.blocks.into());
        let of_data = descriptor.layout.compression.expansion_max().saturating_mul(data.end - data.start);
        let separators = Separators::decode(&mut decoder, of_keys.min(of_data))?;
        if separators.len() + 1 != handles.blocks() {
            return decoder.fail("one separator between every two blocks");
        }
        Some(separators)
    };
    decoder.finish("the end of the index")?;
    Ok((handles, separators))
}

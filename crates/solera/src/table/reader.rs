//! An open table: `Table`, which `open` reads and checks, and the way to a block for all code that
//! needs one.
//!
//! `pinned` takes a block from the cache, `load` reads one and caches it, `read` reads one past the
//! cache. `locate` asks the index for a key's span. The rest tells of the table: descriptor,
//! tombstones, bytes in memory, `approximate_bytes` of a range.
//!
//! What must hold: opening reads and checks all but the data blocks, against the descriptor that is
//! given. A block's checksum and form are checked whenever it is read from the file, never in the
//! cache. Whatever is damaged is named by file and offset.
//! Callers: `table::file` opens; the files of `table` that look up, walk, check, warm and weigh use
//! blocks and spans. `control::observe`, `engine::{report, memory}` and `solera-bench` ask for
//! sizes; `tree`, `version::run` and `inspect` for tombstones.

use super::{
    TableContext,
    counted::{CountedLayout, LayoutTag},
    descriptor::TableDescriptor,
    format::{FOOTER_BYTES, Footer, HEADER_BYTES, Header},
    wanted::{ReadOn, Whole},
};
use crate::{
    block::{Block, BlockAllocation, BlockSlots, RecordGrid, open},
    codec::{Binding, DecodeError, Decoder},
    error::{Error, Result},
    filter::Filter,
    index::{Index, Span, handles::Handles},
    key::{KeyEnd, KeyRange},
    pool::Settled,
    stats::{Counter, LayoutCounter, LevelCounter, Stats},
    tombstone::RangeTombstones,
    vfs::{ReadFile, read_exact_at},
};
use std::{
    ops::Range,
    path::Path,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// An open table.
#[derive(Debug)]
pub struct Table {
    pub(super) filter: Filter,
    /// `None` if the table has range tombstones only.
    pub(super) index: Option<Index>,
    /// The [`RecordGrid`] of the block that was read last, as a number: what is asked for early of
    /// another.
    pub(super) record_grid: AtomicU64,
    /// Whether the block that was read last has a hash index: another mostly has one, too.
    pub(super) has_buckets: AtomicBool,
    /// Whether a block that is read again comes from the device, past the system's cache.
    pub(super) is_direct: bool,
    pub(super) slots: BlockSlots,
    pub(super) stats: Arc<Stats>,
    pub(super) layout: CountedLayout,
    pub(super) descriptor: Arc<TableDescriptor>,
    pub(super) handles: Handles,
    pub(super) file: Arc<dyn ReadFile>,
    pub(super) binding: Binding,
    pub(super) footer: Footer,
    tombstones: Arc<RangeTombstones>,
    pub(super) whole: Whole,
    /// Has the filter on huge pages.
    _settled: Option<Settled>,
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
    /// [`Error::NewerFormat`], or [`Error::Corrupt`] that tells a file of another kind, another
    /// database's or another table's file, a file cut short and damage apart.
    pub(super) fn open(
        context: &TableContext,
        descriptor: &Arc<TableDescriptor>,
        file: Arc<dyn ReadFile>,
        this: Weak<dyn ReadOn>,
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
        if footer.version != header.version {
            let what =
                format!("the footer is of format {}, the header of {}", footer.version, header.version);
            return Err(Error::corrupt(path, footer.offset(), what));
        }

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
        if filter.kind().is_some_and(|kind| kind != descriptor.filter.kind) {
            return Err(Error::corrupt(
                path,
                footer.filter,
                "the filter is not of the kind that is described",
            ));
        }
        let stored = open(section(footer.index..footer.properties), binding, footer.index, path)?;
        let (handles, index) = decode_index(&stored, &footer, descriptor).map_err(within(footer.index))?;
        let layout = CountedLayout::enter(&context.stats, LayoutTag::new(descriptor, index.as_ref()));
        Ok(Table {
            _settled: filter.settle(),
            filter,
            index,
            record_grid: AtomicU64::new(0),
            has_buckets: AtomicBool::new(false),
            is_direct: context.direct_reads,
            slots: BlockSlots::new(&context.cache, handles.blocks()),
            stats: context.stats.clone(),
            layout,
            descriptor: descriptor.clone(),
            handles,
            binding,
            footer,
            tombstones: Arc::new(tombstones),
            whole: Whole::new(&context.wanted, this, footer.data().end - footer.data().start),
            file,
        })
    }

    /// Block `number` for a scan of `level`, if it is in the cache, kept alive by a count.
    pub(super) fn pinned(&self, level: u32, number: usize) -> Option<Block> {
        self.stats.here().add_at(level, LevelCounter::ScanBlocks, 1);
        self.resident(number)
    }

    /// Block `number` if it is in the cache, kept alive by a count.
    fn resident(&self, number: usize) -> Option<Block> {
        let guard = crossbeam_epoch::pin();
        self.slots.get(number, &guard).map(|block| Block::clone(&block))
    }

    /// [`Table::pinned`] if the block is in the cache and `takes` it; else nothing is counted.
    pub(super) fn pinned_if(
        &self,
        level: u32,
        number: usize,
        takes: impl FnOnce(&Block) -> bool,
    ) -> Option<Block> {
        let block = self.resident(number).filter(takes)?;
        self.stats.here().add_at(level, LevelCounter::ScanBlocks, 1);
        Some(block)
    }

    /// Reads block `number` for a reader of `level`, and puts it into the cache. A block that
    /// leads a lookup to values stays there at once: it leads to hundreds of them.
    #[cold]
    pub(super) fn load(&self, level: u32, number: usize, counter: LevelCounter) -> Result<Block> {
        let block = self.read(number)?;
        self.note_read(level, &block, counter);
        let leads_to_values = block.len() > 0 && block.kind(0).is_separated();
        if leads_to_values && counter == LevelCounter::LookupBlocksRead {
            self.slots.insert(number, &block);
        } else {
            self.slots.insert_where_room(number, &block);
        }
        self.whole.note_cached(&block, &self.slots);
        Ok(block)
    }

    /// Notes that `block` was read from the file for a reader of `level`.
    pub(super) fn note_read(&self, level: u32, block: &Block, counter: LevelCounter) {
        self.count(level, counter, LayoutCounter::BlocksRead);
        if block.line_ignored() {
            self.stats.here().add_at(level, LevelCounter::LinesDropped, 1);
        }
        self.note_form(block);
    }

    /// Notes how `block` is made: others mostly are so, too.
    pub(super) fn note_form(&self, block: &Block) {
        // Written only where it changes: other threads read what lies beside it.
        let grid = block.record_grid().map_or(0, RecordGrid::to_number);
        if self.record_grid.load(Ordering::Relaxed) != grid {
            self.record_grid.store(grid, Ordering::Relaxed);
        }
        if self.has_buckets.load(Ordering::Relaxed) != block.has_buckets() {
            self.has_buckets.store(block.has_buckets(), Ordering::Relaxed);
        }
    }

    /// Reads block `number`.
    pub(super) fn read(&self, number: usize) -> Result<Block> {
        let place = self.handles.range(number);
        let len = (place.end - place.start) as usize;
        let mut allocation = BlockAllocation::new(len);
        read_exact_at(&*self.file, allocation.buffer_mut(), place.start)?;
        self.count_bytes(len);
        Block::from_stored(allocation, self.binding, place.start, self.file.path())
    }

    /// Block `number`, out of the cache if it is there, which stays as it is.
    pub(super) fn peek(&self, number: usize) -> Result<Block> {
        self.peek_cached(number).map_or_else(|| self.read(number), Ok)
    }

    /// Block `number` if it is in the cache, which stays as it is.
    pub(super) fn peek_cached(&self, number: usize) -> Option<Block> {
        let guard = crossbeam_epoch::pin();
        self.slots.peek(number, &guard).map(|block| Block::clone(&block))
    }

    /// Damage where block `number` begins, or where the data blocks end.
    pub(super) fn damage(&self, number: usize, what: &str) -> Error {
        Error::corrupt(self.file.path(), self.handles.offset(number.min(self.blocks())), what)
    }

    /// Counts bytes read from the file.
    pub(super) fn count_bytes(&self, bytes: usize) {
        self.stats.add(Counter::BytesRead, bytes as u64);
    }

    /// Counts something that happened to a reader of `level`.
    pub(super) fn count(&self, level: u32, counter: LevelCounter, of_layout: LayoutCounter) {
        let here = self.stats.here();
        here.add_at(level, counter, 1);
        here.add_of(self.layout.row(), of_layout, 1);
    }

    /// What its reads are counted for beside its level.
    pub fn layout_tag(&self) -> LayoutTag {
        self.layout.tag()
    }

    /// How many data blocks there are.
    #[inline]
    pub(super) fn blocks(&self) -> usize {
        self.handles.blocks()
    }

    /// Where the block is to which `key` belongs; block 0 if there are none.
    #[inline]
    pub(super) fn locate(&self, key: &[u8]) -> Span {
        self.index.as_ref().map_or(Span::only(0), |index| self.locate_by(index, key))
    }

    /// Where the block is to which `key` belongs, by the table's index. While that is found out,
    /// the cache's places of the blocks around it come nearer.
    #[inline]
    pub(super) fn locate_by(&self, index: &Index, key: &[u8]) -> Span {
        index.locate(key, |near| self.slots.prefetch_slots(near))
    }

    /// [`Table::locate`] for a caller that does not ask how far into the block the key is.
    #[inline]
    pub(super) fn locate_unmeasured(&self, key: &[u8]) -> Span {
        let slots = &self.slots;
        self.index
            .as_ref()
            .map_or(Span::only(0), |index| index.locate_unmeasured(key, |near| slots.prefetch_slots(near)))
    }

    /// The table's index; `None` if it has range tombstones only.
    pub fn index(&self) -> Option<&Index> {
        self.index.as_ref()
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
        self.handles.offset(self.locate(key).first()) - HEADER_BYTES as u64
    }

    /// Bytes of the data blocks that may hold keys of `range`.
    pub fn approximate_bytes(&self, range: &KeyRange) -> u64 {
        if self.index.is_none() || range.is_empty() {
            return 0;
        }
        let first = self.locate(&range.start).first();
        let last = match &range.end {
            KeyEnd::Included(end) | KeyEnd::Excluded(end) => self.locate(end).last(),
            KeyEnd::Unbounded => self.blocks() - 1,
        };
        self.handles.offset(last + 1).saturating_sub(self.handles.offset(first))
    }

    /// Bytes that the open table takes in memory, its cached blocks aside: index, handles, filter,
    /// cache slots. Range tombstones are counted as they are in the file.
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

/// An index section; no index if there are no blocks.
fn decode_index(
    payload: &[u8],
    footer: &Footer,
    descriptor: &TableDescriptor,
) -> Result<(Handles, Option<Index>), DecodeError> {
    let mut decoder = Decoder::new(payload);
    let data = footer.data();
    let handles = Handles::decode(&mut decoder, data.clone())?;
    let blocks = handles.blocks();
    if blocks != descriptor.blocks as usize {
        return decoder.fail("as many blocks as described");
    }
    let index = if blocks == 0 {
        None
    } else {
        // A separator is hardly longer than the key above it. The data's own size bounds them too,
        // so that a small file cannot claim gigabytes.
        let layout = &descriptor.layout;
        let of_keys = descriptor.key_bytes.saturating_add(descriptor.blocks.into());
        let of_data = layout.compression.expansion_max().saturating_mul(data.end - data.start);
        let separator_bytes_max = of_keys.min(of_data);
        Some(Index::decode(&mut decoder, layout.index, blocks, separator_bytes_max)?)
    };
    decoder.finish("the end of the index")?;
    Ok((handles, index))
}

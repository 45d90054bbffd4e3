//! Tests of `table::wanted`: when a table is wanted, what a worker reads of it, and where it stops.

use super::*;
use crate::{
    stats::LevelCounter,
    sync::atomic::{AtomicUsize, Ordering},
};

/// Small blocks, for there to be many.
fn layout() -> Layout {
    Layout { block_bytes: 512, ..Layout::default() }
}

fn entries() -> Vec<Entry> {
    (0..40_000u32).map(|i| put(i.to_be_bytes(), 5)).collect()
}

/// A table of many pieces, and how often a worker was called for it.
struct Wanting {
    fs: MemFs,
    context: Arc<TableContext>,
    file: Arc<TableFile>,
    calls: Arc<AtomicUsize>,
}

impl Wanting {
    fn new(cache_bytes: usize) -> Wanting {
        let fs = fresh_fs();
        let context = context(&fs, cache_bytes);
        let file = table_of(&context, &layout(), &entries());
        Wanting { fs, context, file, calls: Arc::default() }
    }

    /// With a worker that answers.
    fn answered(cache_bytes: usize) -> Wanting {
        let wanting = Wanting::new(cache_bytes);
        let calls = wanting.calls.clone();
        wanting.context.wanted.answer(move || {
            calls.fetch_add(1, Ordering::Relaxed);
        });
        wanting
    }

    fn table(&self) -> &Table {
        self.file.table().unwrap()
    }

    /// One reader after the other asks for a block, as long as `is_on` says so of the number of
    /// blocks that were read: every third one, from the first on.
    fn read_while(&self, is_on: impl Fn(usize) -> bool) -> usize {
        let numbers = (0..self.table().blocks()).step_by(3);
        numbers
            .enumerate()
            .take_while(|(read, number)| {
                is_on(*read) && self.table().load(6, *number, LevelCounter::LookupBlocksRead).is_ok()
            })
            .count()
    }

    /// Readers come until the table is wanted: how many blocks they read.
    fn read_until_wanted(&self) -> usize {
        self.read_while(|_| self.calls.load(Ordering::Relaxed) == 0)
    }

    fn cached(&self) -> usize {
        let guard = crossbeam_epoch::pin();
        let table = self.table();
        (0..table.blocks()).filter(|number| table.slots.peek(*number, &guard).is_some()).count()
    }

    fn bytes_read(&self) -> u64 {
        self.context.stats.snapshot().bytes_read
    }
}

#[test]
fn a_table_of_which_readers_have_cached_an_eighth_is_read_to_its_end_by_a_worker() {
    let wanting = Wanting::answered(64 << 20);
    let all = wanting.table().blocks();
    let read = wanting.read_until_wanted();
    assert!((all / 12..all / 6).contains(&read), "{read} of {all} blocks");
    assert_eq!(wanting.cached(), read);

    // A worker that is called away takes one piece at a time, and goes on where it was.
    let before = wanting.bytes_read();
    assert!(wanting.context.wanted.go_on(|| false));
    let first = wanting.cached();
    assert!(first > read && first < all, "{read}, {first} of {all}");
    assert!(wanting.context.wanted.go_on(|| true));
    assert_eq!(wanting.cached(), all);
    // Nothing was read twice, and no reader is said to have read it.
    let data = wanting.table().footer.data();
    assert!(wanting.bytes_read() - before <= data.end - data.start);
    let by_readers = wanting.context.stats.level(6).lookup_blocks_read;
    assert_eq!(by_readers, read as u64);

    assert!(!wanting.context.wanted.go_on(|| true), "nothing waits");
    wanting.read_while(|_| true);
    assert_eq!(wanting.calls.load(Ordering::Relaxed), 1, "it is wanted once");
}

#[test]
fn nothing_is_wanted_where_no_worker_answers() {
    let wanting = Wanting::new(64 << 20);
    wanting.read_while(|_| true);
    assert!(!wanting.context.wanted.go_on(|| true));
}

#[test]
fn no_table_is_wanted_while_the_cache_cannot_hold_all_that_are_open() {
    let wanting = Wanting::answered(512 << 10);
    wanting.read_while(|_| true);
    assert!(wanting.cached() * 8 > wanting.table().blocks(), "readers have begun with it");
    assert_eq!(wanting.calls.load(Ordering::Relaxed), 0);

    // With room for one and a half tables, of two.
    let other = write(&wanting.context, 2, &layout(), &entries(), &RangeTombstones::default(), 0);
    let other = TableFile::new(&wanting.context, Arc::new(other));
    other.table().unwrap();
    let block = wanting.table().read(0).unwrap();
    wanting.context.cache.set_capacity(wanting.table().blocks() * block.memory_bytes() * 3 / 2);
    wanting.read_while(|_| true);
    assert_eq!(wanting.calls.load(Ordering::Relaxed), 0);
    drop(other);
    wanting.table().whole.note_cached(&block, &wanting.table().slots);
    assert_eq!(wanting.calls.load(Ordering::Relaxed), 1);
}

#[test]
fn a_worker_stops_where_the_cache_has_no_room_left_and_nothing_leaves_for_it() {
    let wanting = Wanting::answered(64 << 20);
    let read = wanting.read_until_wanted();
    // Not for all: the table takes five times as much in memory.
    wanting.context.cache.set_capacity(wanting.context.cache.used() + (1 << 20));
    assert!(wanting.context.wanted.go_on(|| true));
    let guard = crossbeam_epoch::pin();
    assert!((0..read).all(|i| wanting.table().slots.peek(3 * i, &guard).is_some()), "what readers asked for");
    assert!(wanting.cached() > read && wanting.cached() < wanting.table().blocks());
    assert!(!wanting.context.wanted.go_on(|| true), "it does not wait for room");
}

#[test]
fn a_table_that_is_dropped_while_it_waits_goes_with_its_file() {
    let wanting = Wanting::answered(64 << 20);
    wanting.read_until_wanted();
    let Wanting { fs, context, file, .. } = wanting;
    file.mark_obsolete();
    let path = file.path().to_owned();
    drop(file);
    assert!(!fs.exists(&path).unwrap());
    assert!(context.wanted.go_on(|| true));
    assert!(!context.wanted.go_on(|| true));
}

#[test]
fn tables_that_are_dropped_leave_the_queue_of_a_worker_that_is_never_idle() {
    let Wanting { context, file, calls, .. } = Wanting::answered(64 << 20);
    drop(file);
    for wanted in 1..=40 {
        let descriptor = write(
            &context,
            1 + wanted as u64,
            &layout(),
            &entries()[..4_000],
            &RangeTombstones::default(),
            0,
        );
        let file = TableFile::new(&context, Arc::new(descriptor));
        let table = file.table().unwrap();
        let numbers = (0..table.blocks()).take_while(|_| calls.load(Ordering::Relaxed) < wanted);
        numbers.for_each(|number| drop(table.load(6, number, LevelCounter::LookupBlocksRead)));
        assert_eq!(calls.load(Ordering::Relaxed), wanted);
    }
    let waiting = format!("{:?}", context.wanted);
    assert!((0..10).any(|few| waiting == format!("Wanted {{ waiting: {few} }}")), "{waiting}");
}

#[test]
fn a_table_of_few_blocks_is_not_wanted() {
    let wanting = Wanting::answered(64 << 20);
    let descriptor = write(&wanting.context, 2, &layout(), &entries()[..100], &RangeTombstones::default(), 0);
    let file = TableFile::new(&wanting.context, Arc::new(descriptor));
    let table = file.table().unwrap();
    assert!((2..16).contains(&table.blocks()));
    (0..table.blocks()).for_each(|number| drop(table.load(6, number, LevelCounter::LookupBlocksRead)));
    assert_eq!(wanting.calls.load(Ordering::Relaxed), 0);
}

#[test]
fn a_block_that_is_larger_than_a_piece_comes_in_without_a_copy_beside_it() {
    let fs = fresh_fs();
    let context = context(&fs, 64 << 20);
    let mut entries: Vec<Entry> = (0..40u32).map(|i| put(i.to_be_bytes(), 5)).collect();
    entries[20].value = (0..1u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let file = table_of(&context, &layout(), &entries);
    let table = file.table().unwrap();
    let (mut next, mut bytes) = (0, Vec::new());
    while let Some(on) = table.warm_next(next, &mut bytes).unwrap() {
        next = on;
    }
    let guard = crossbeam_epoch::pin();
    assert!((0..table.blocks()).all(|number| table.slots.peek(number, &guard).is_some()));
    assert!(bytes.capacity() < 512 << 10, "{}", bytes.capacity());
}

#[test]
fn damage_that_a_worker_meets_is_left_to_the_reader_that_comes_there() {
    let wanting = Wanting::answered(64 << 20);
    let mut content = wanting.fs.content(wanting.file.path()).unwrap();
    let half = content.len() / 2;
    content[half] ^= 1;
    wanting.fs.set_content(wanting.file.path(), &content).unwrap();
    wanting.read_until_wanted();
    assert!(wanting.context.wanted.go_on(|| true));
    assert!(!wanting.context.wanted.go_on(|| true));
    let (cached, all) = (wanting.cached(), wanting.table().blocks());
    assert!(cached > all / 4 && cached < all, "{cached} of {all}");
    let broken = (0..all).filter(|number| wanting.table().read(*number).is_err()).count();
    assert_eq!(broken, 1);
}

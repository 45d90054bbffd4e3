//! Tests of `table::fresh`: blocks that stayed in memory as they were written, and what makes way
//! for them.

use super::*;
use crate::{cursor::Cursor, key::KeyRange};

fn entries(count: u32) -> Vec<Entry> {
    (0..count).map(|i| put(i.to_be_bytes(), 5)).collect()
}

/// A table under construction that has these entries, and whose blocks stay in memory.
fn keeping(context: &Arc<TableContext>, file: u64, layout: &Layout, entries: &[Entry]) -> TableWriter {
    let mut writer = TableWriter::create(context, FileId(file), layout, layout.filter.mean(), 0).unwrap();
    writer.keep_blocks(&context.cache);
    for entry in entries {
        writer.add(&entry.key, entry.seqno, entry.kind, &entry.value).unwrap();
    }
    writer
}

/// A table of these entries whose blocks stayed in memory, and those.
fn kept(context: &Arc<TableContext>, layout: &Layout, entries: &[Entry]) -> (Arc<TableFile>, FreshBlocks) {
    let writer = keeping(context, 1, layout, entries);
    let (descriptor, blocks) = writer.finish_with_blocks().unwrap().unwrap();
    (TableFile::new(context, Arc::new(descriptor)), blocks.unwrap())
}

fn cached(table: &Table) -> usize {
    (0..table.blocks()).filter(|number| table.peek_cached(*number).is_some()).count()
}

/// Walks over the table, and gives what it finds.
fn walk(file: &Arc<TableFile>, access: Access) -> Vec<Entry> {
    let mut cursor = file.cursor(&KeyRange::all(), access).unwrap();
    let mut found = Vec::new();
    cursor.seek_first().unwrap();
    while cursor.valid() {
        let (key, value) = (cursor.key().to_vec(), cursor.value().to_vec());
        found.push(Entry { key, seqno: cursor.seqno(), kind: cursor.kind(), value });
        cursor.next().unwrap();
    }
    found
}

#[test]
fn blocks_that_stayed_are_what_is_in_the_file_and_are_not_read() {
    let entries = entries(300);
    for layout in layouts() {
        let fs = fresh_fs();
        let context = context(&fs, 1 << 20);
        let (file, blocks) = kept(&context, &layout, &entries);
        let table = file.table().unwrap();
        let read = context.stats.snapshot().bytes_read;
        table.take_in_fresh(blocks);
        assert_eq!(cached(table), table.blocks(), "{layout:?}");
        for access in [Access::Cached(0), Access::Sequential, Access::Passing] {
            assert!(walk(&file, access) == entries, "{layout:?}");
        }
        assert_eq!(context.stats.snapshot().bytes_read, read, "{layout:?}");
        // The same as a reader makes of the file.
        for number in 0..table.blocks() {
            let (kept, read) = (table.peek_cached(number).unwrap(), table.read(number).unwrap());
            assert_eq!(kept.len(), read.len());
            for rank in 0..kept.len() {
                let (mut one, mut other) = (Vec::new(), Vec::new());
                kept.key_into(rank, &mut one);
                read.key_into(rank, &mut other);
                assert_eq!((one, kept.value(rank)), (other, read.value(rank)), "{layout:?}");
            }
        }
    }
}

#[test]
fn no_more_stay_than_there_is_room_for_and_what_was_there_stays() {
    let fs = fresh_fs();
    let context = context(&fs, 40_000);
    let layout = Layout { block_bytes: 512, ..Layout::default() };
    let (first, blocks) = kept(&context, &layout, &entries(300));
    assert!(context.cache.used() > 0, "they count before they are cached");
    first.table().unwrap().take_in_fresh(blocks);
    let (used, before) = (context.cache.used(), cached(first.table().unwrap()));
    assert!(before > 10 && used <= 40_000);

    let writer = keeping(&context, 2, &layout, &entries(3000));
    assert!(context.cache.used() <= 40_000);
    let (descriptor, blocks) = writer.finish_with_blocks().unwrap().unwrap();
    let second = TableFile::new(&context, Arc::new(descriptor));
    second.table().unwrap().take_in_fresh(blocks.unwrap());
    assert_eq!(cached(first.table().unwrap()), before);
    let more = cached(second.table().unwrap());
    assert!(more > 0 && more < second.table().unwrap().blocks(), "{more}");
    assert!(context.cache.used() <= 40_000);
    drop((first, second));
    assert_eq!(context.cache.used(), 0);
}

#[test]
fn a_table_that_is_given_up_leaves_no_room_taken() {
    let fs = fresh_fs();
    let context = context(&fs, 1 << 20);
    let layout = Layout { block_bytes: 512, ..Layout::default() };
    let writer = keeping(&context, 1, &layout, &entries(300));
    assert!(context.cache.used() > 0);
    writer.abandon();
    assert_eq!(context.cache.used(), 0);
    let (_file, blocks) = kept(&context, &layout, &entries(300));
    drop(blocks);
    assert_eq!(context.cache.used(), 0);
}

/// What a job passes makes way only where there is no room for more.
#[test]
fn what_a_job_passes_makes_way_in_a_full_cache_and_no_other_walk_changes_it() {
    let layout = Layout { block_bytes: 512, ..Layout::default() };
    let entries = entries(300);
    for (cache_bytes, stays) in [(1 << 20, true), (0, false)] {
        let fs = fresh_fs();
        let context = context(&fs, 1 << 20);
        let (file, blocks) = kept(&context, &layout, &entries);
        let table = file.table().unwrap();
        table.take_in_fresh(blocks);
        // As large as what it holds, if that is to be full.
        context.cache.set_capacity(if cache_bytes > 0 { cache_bytes } else { context.cache.used() });
        let all = cached(table);
        for access in [Access::Sequential, Access::Sparse, Access::Cached(0)] {
            walk(&file, access);
            assert_eq!(cached(table), all, "{access:?}");
        }
        let used = context.cache.used();
        assert!(walk(&file, Access::Passing) == entries);
        let left = cached(table);
        match stays {
            true => assert_eq!((left, context.cache.used()), (all, used)),
            // It stops where there is room for some.
            false => assert!((1..all).contains(&left) && context.cache.used() < used, "{left} of {all}"),
        }
        // Again from the file.
        assert!(walk(&file, Access::Sequential) == entries);
        drop(file);
        assert_eq!(context.cache.used(), 0);
    }
}

/// A job goes on over blocks that are cached and blocks that are not, and reads the latter in
/// pieces.
#[test]
fn a_job_reads_ahead_over_blocks_that_are_cached() {
    let fs = fresh_fs();
    let context = context(&fs, 1 << 20);
    let layout = Layout { block_bytes: 512, ..Layout::default() };
    let entries = entries(3000);
    let file = table_of(&context, &layout, &entries);
    let table = file.table().unwrap();
    for number in (0..table.blocks()).filter(|number| number % 5 < 2) {
        let block = table.read(number).unwrap();
        table.slots.insert(number, &block);
    }
    let before = context.stats.snapshot().bytes_read;
    assert!(walk(&file, Access::Sequential) == entries);
    // Pieces go over cached blocks too: block by block they would not be read.
    let read = context.stats.snapshot().bytes_read - before;
    let data = table.approximate_bytes(&KeyRange::all());
    assert!((data * 9 / 10..=data).contains(&read), "{read} of {data}");
}

//! Tests of `TableWriter`: what it writes, counts, refuses and leaves behind.
//!
//! The descriptor counts what was written. A finished table survives a power cut; a writer that
//! fails, is dropped or got nothing leaves no file. Estimated lengths are close, and blocks are as
//! large as the layout says. Keys and layouts over their limits are refused; the longest keys work.
//! A dump shows every entry and which index was chosen. Offsets and sizes of ranges add up.

use super::*;
use crate::{
    error::Error,
    key::{KEY_BYTES_MAX, KeyRange},
    vfs::fault::{Call, Effect, Fault, FaultFs},
};

#[test]
fn the_descriptor_counts_what_was_written() {
    let fs = fresh_fs();
    let context = context(&fs, 0);
    let entries = [
        put(*b"a", 9),
        Entry { kind: Kind::Delete, value: vec![], ..put(*b"b", 8) },
        Entry { kind: Kind::Merge, ..put(*b"b", 7) },
        put(*b"dd", 12),
    ];
    let tombstones =
        RangeTombstones::new(vec![RangeTombstone { start: (*b"c").into(), end: (*b"x").into(), seqno: 30 }]);
    let descriptor = write(&context, 42, &Layout::default(), &entries, &tombstones, 0);
    assert_eq!(descriptor.file, FileId(42));
    assert_eq!((descriptor.entries, descriptor.deletes, descriptor.merges), (4, 1, 1));
    assert_eq!(descriptor.range_tombstones, 1);
    assert_eq!(descriptor.range, KeyRange::half_open(b"a", b"x"));
    assert_eq!((descriptor.seqno_min, descriptor.seqno_max), (7, 30));
    assert_eq!(descriptor.key_bytes, 5);
    assert_eq!(descriptor.value_bytes, entries.iter().map(|entry| entry.value.len() as u64).sum::<u64>());
    assert_eq!(descriptor.bytes, fs.content(&context.path(FileId(42))).unwrap().len() as u64);
    let alone = open_alone(&context.fs, &context.path(FileId(42))).unwrap();
    assert_eq!(**alone.descriptor(), descriptor);
}

#[test]
fn a_finished_table_survives_a_power_cut() {
    let fs = fresh_fs();
    let descriptor = {
        let context = context(&fs, 0);
        let descriptor =
            write(&context, 1, &Layout::default(), &[put(*b"k", 1)], &RangeTombstones::default(), 0);
        context.fs.sync_dir(&context.dir).unwrap();
        descriptor
    };
    let image = fs.crash(crate::vfs::mem::Persist::Nothing, 1);
    let file = TableFile::new(&context(&image, 0), Arc::new(descriptor));
    assert!(file.table().unwrap().check().unwrap().problems.is_empty());
}

#[test]
fn a_writer_that_is_not_finished_or_got_nothing_leaves_no_file() {
    let fs = fresh_fs();
    let context = context(&fs, 0);
    let create = || {
        TableWriter::create(&context, FileId(1), &Layout::default(), Layout::default().filter.mean(), 0)
            .unwrap()
    };
    assert_eq!(create().finish().unwrap(), None);
    assert!(fs.files().is_empty());
    let mut writer = create();
    writer.add(b"k", 1, Kind::Put, b"v").unwrap();
    assert_eq!((writer.entries(), writer.last_key()), (1, Some(&b"k"[..])));
    writer.abandon();
    assert!(fs.files().is_empty());
    drop(create());
    assert!(fs.files().is_empty());
}

#[test]
fn a_writer_whose_disk_fails_says_so_and_removes_its_file() {
    let fs = fresh_fs();
    for call in [Call::Append, Call::Sync] {
        let faulty = Arc::new(FaultFs::new(Arc::new(fs.clone())));
        let context = TableContext { fs: faulty.clone(), ..(*context(&fs, 0)).clone() };
        faulty.inject(Fault::once(call, 0, Effect::Fail(std::io::ErrorKind::StorageFull)));
        let mut writer =
            TableWriter::create(&context, FileId(1), &Layout::default(), Layout::default().filter.mean(), 0)
                .unwrap();
        let written = (0..100_000u32)
            .try_for_each(|i| writer.add(&i.to_be_bytes(), 1, Kind::Put, &[0; 20]))
            .and_then(|()| writer.finish());
        assert_eq!(written.unwrap_err().io_kind(), Some(std::io::ErrorKind::StorageFull));
        assert!(fs.files().is_empty());
    }
}

#[test]
fn the_estimate_of_the_length_is_close() {
    for layout in layouts() {
        let context = context(&fresh_fs(), 0);
        let layout = Layout { compression: Compression::None, ..layout };
        let mut writer = TableWriter::create(&context, FileId(1), &layout, layout.filter.mean(), 0).unwrap();
        for i in 0..20_000u64 {
            writer.add(&(i * 12345).to_be_bytes(), i + 1, Kind::Put, &[i as u8; 40]).unwrap();
        }
        let estimate = writer.bytes_written() as f64;
        let bytes = writer.finish().unwrap().unwrap().bytes as f64;
        assert!((estimate / bytes - 1.0).abs() < 0.01, "{estimate} {bytes}");
    }
}

#[test]
fn blocks_hold_about_as_many_bytes_as_the_layout_says() {
    let context = context(&fresh_fs(), 0);
    let entries: Vec<Entry> =
        (0..20_000u64).map(|i| Entry { value: vec![1; 64], ..put((i * 99).to_be_bytes(), 5) }).collect();
    for (file, block_bytes) in [1024u32, 4096, 16384].into_iter().enumerate() {
        let layout = Layout { block_bytes, compression: Compression::None, ..Layout::default() };
        let no_tombstones = RangeTombstones::default();
        let descriptor = write(&context, file as u64 + 1, &layout, &entries, &no_tombstones, 100);
        let table = TableFile::new(&context, Arc::new(descriptor));
        let data = table.table().unwrap().approximate_bytes(&KeyRange::all());
        let mean = data as f64 / f64::from(table.descriptor().blocks);
        assert!(mean > 0.9 * f64::from(block_bytes) && mean < 1.01 * f64::from(block_bytes), "{mean}");
    }
}

#[test]
fn keys_and_layouts_over_their_limits_are_refused() {
    let fs = fresh_fs();
    let context = context(&fs, 0);
    let layout = Layout { block_bytes: 1, ..Layout::default() };
    assert!(matches!(
        TableWriter::create(&context, FileId(1), &layout, layout.filter.mean(), 0),
        Err(Error::Invalid(_))
    ));
    assert!(fs.files().is_empty());
    let mut writer =
        TableWriter::create(&context, FileId(1), &Layout::default(), Layout::default().filter.mean(), 0)
            .unwrap();
    let longest = vec![7; KEY_BYTES_MAX];
    writer.add(&longest, 1, Kind::Put, b"v").unwrap();
    let longer = vec![8; KEY_BYTES_MAX + 1];
    assert!(matches!(writer.add(&longer, 1, Kind::Put, b"v"), Err(Error::TooLarge { what: "key", .. })));
    let descriptor = writer.finish().unwrap().unwrap();
    assert_eq!(descriptor.entries, 1);
}

#[test]
fn the_longest_keys_work_with_versions_that_fill_blocks() {
    let context = context(&fresh_fs(), 0);
    let key = |byte: u8| vec![byte; KEY_BYTES_MAX];
    let versions = (0..40u64).rev().map(|seqno| put(key(7), seqno + 1));
    let entries: Vec<Entry> = [put(key(6), 1)].into_iter().chain(versions).chain([put(key(8), 1)]).collect();
    for layout in layouts() {
        let descriptor = write(&context, 1, &layout, &entries, &RangeTombstones::default(), 0);
        let file = TableFile::new(&context, Arc::new(descriptor));
        let check = file.table().unwrap().check().unwrap();
        assert!(check.problems.is_empty(), "{:?}", check.problems);
        file.mark_obsolete();
    }
}

#[test]
fn a_file_that_cannot_be_removed_is_counted() {
    let fs = fresh_fs();
    let context = context(&fs, 0);
    let file = table_of(&context, &Layout::default(), &[put(*b"k", 1)]);
    file.mark_obsolete();
    fs.remove_file(file.path()).unwrap();
    drop(file);
    assert_eq!(context.stats.snapshot().files_not_removed, 1);
}

#[test]
fn offsets_and_sizes_of_ranges_add_up() {
    let entries: Vec<Entry> = (0..10_000u32).map(|i| put(i.to_be_bytes(), 5)).collect();
    let context = context(&fresh_fs(), 0);
    let file = table_of(&context, &Layout::default(), &entries);
    let table = file.table().unwrap();
    let all = table.approximate_bytes(&KeyRange::all());
    assert!(all < file.descriptor().bytes);
    assert_eq!(table.approximate_offset(b""), 0);
    let half = table.approximate_bytes(&KeyRange::half_open(&[], &5000u32.to_be_bytes()));
    assert!((half as f64 / all as f64 - 0.5).abs() < 0.05);
    assert!((table.approximate_offset(&5000u32.to_be_bytes()) as f64 / all as f64 - 0.5).abs() < 0.05);
    assert_eq!(table.approximate_bytes(&KeyRange::half_open(b"b", b"a")), 0);
}

/// Symptom: walks over a small keyspace paid for order, and had it or not by luck. Cause: what a
/// part of one block points to was estimated as what the whole block does, so there was no room to
/// move it. Cure: parts of a block share it.
#[test]
fn parts_of_one_block_share_it_and_all_parts_are_the_whole_table() {
    let entries: Vec<Entry> = (0..10_000u32).map(|i| put(i.to_be_bytes(), 5)).collect();
    let key = |i: u32| i.to_be_bytes();
    for (layout, cache_bytes) in layouts().flat_map(|layout| [(layout, 0), (layout, 1 << 30)]) {
        let context = context(&fresh_fs(), cache_bytes);
        let file = table_of(&context, &layout, &entries);
        let table = file.table().unwrap();
        let blocks = f64::from(file.descriptor().blocks);
        if cache_bytes > 0 {
            table.warm().unwrap();
        }
        assert_eq!(table.share(&KeyRange::all()), 1.0);
        assert_eq!(table.share(&KeyRange::half_open(b"b", b"a")), 0.0);
        for keys in [10, 77, 5000] {
            let parts = (0..10_000u32).step_by(keys).map(|from| (from, (from + keys as u32).min(10_000)));
            let shares: Vec<_> =
                parts.map(|(from, to)| table.share(&KeyRange::half_open(&key(from), &key(to)))).collect();
            let all: f64 = shares.iter().sum();
            assert!((all - 1.0).abs() < 1e-9, "{keys} keys, {layout:?}: {all}");
            // Some twelve entries are a block, and this index may name the one beside theirs.
            let is_exact = cache_bytes > 0 && layout.index != IndexKind::SherryPlr;
            let most = if is_exact { 0.5 } else { 1.0 };
            let wrong = shares.iter().map(|share| (share * blocks - 10.0 / 10_000.0 * blocks).abs());
            assert!(
                keys > 10 || wrong.fold(0.0, f64::max) <= most,
                "{layout:?}, {blocks} blocks: {shares:?}"
            );
        }
    }
}

#[test]
fn a_dump_shows_every_entry() {
    let context = context(&fresh_fs(), 0);
    let file = table_of(&context, &Layout::default(), &[put(*b"first", 1), put(*b"second", 2)]);
    let mut out = Vec::new();
    file.table().unwrap().dump(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("first") && text.contains("second") && text.contains("learned"), "{text}");
}

#[test]
fn a_dump_says_which_index_was_chosen_and_what_the_others_would_have_cost() {
    let context = context(&fresh_fs(), 0);
    let entries: Vec<Entry> = (0..20_000u32).map(|i| put(i.to_be_bytes(), 5)).collect();
    let layout = Layout { index: IndexKind::Auto, ..Layout::default() };
    let file = table_of(&context, &layout, &entries);
    let mut out = Vec::new();
    file.table().unwrap().dump(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let line = text.lines().find(|line| line.contains("index chosen: ")).expect("it is said");
    for kind in ["learned", "s-tree", "doblix-pra", "sherry-plr"] {
        assert!(line.contains(&format!("{kind}: ")), "{line}");
    }
    assert!(line.contains("blocks per lookup"), "{line}");
}

/// Symptom: the separators' assertion failed. Cause: what was kept of a block's last key was cut at
/// the length of the separator behind it alone, and lay below what was kept of the one before.
/// Cure: cut at the longer one of both separators.
#[test]
fn beginnings_of_last_keys_ascend_where_separators_get_short() {
    let stem = "a".repeat(100);
    let context = context(&fresh_fs(), 1 << 20);
    let layout = Layout { block_bytes: 256, index: IndexKind::Learned, ..Layout::default() };
    let long = |end: u32| Entry { value: vec![7; 150], ..put(format!("{stem}{end:03}"), 9) };
    let mut entries: Vec<Entry> = (0..40).map(long).collect();
    // Versions of one long key that fill blocks, and then a key that differs in its first byte.
    let version = |seqno| Entry { value: vec![7; 150], ..put(format!("{stem}many"), seqno) };
    entries.extend((0..10).rev().map(version));
    entries.push(put(*b"b", 9));
    entries.extend((0..40).map(|end| Entry { key: [b"c", &long(end).key[..]].concat(), ..long(end) }));
    entries.push(put(*b"d", 9));
    let file = table_of(&context, &layout, &entries);
    let check = file.table().unwrap().check().unwrap();
    assert_eq!((check.entries, check.problems.len()), (entries.len() as u64, 0), "{:?}", check.problems);
}

#[test]
#[should_panic(expected = "keys ascend")]
fn keys_that_descend_stop_whoever_writes_the_table() {
    // More than one block of them: in a release build the first key of the next one is looked at.
    let entries: Vec<_> = (0..2000).rev().map(|number| put(format!("key {number:04}"), 5)).collect();
    table_of(&context(&fresh_fs(), 0), &Layout::default(), &entries);
}

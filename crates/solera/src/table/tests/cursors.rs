//! Tests of `TableCursor` against a model, for every layout and key family.
//!
//! Walks both ways, seeks, clips and lent stretches give what the model gives. A sequential cursor
//! leaves the cache alone and reads in large pieces. A long walk through the cache reads many
//! blocks at once and pushes nothing out; a short one reads no more than it needs. A read ahead
//! that fails is made again block by block. A cursor keeps an obsolete file, and values keep their
//! blocks.

use super::*;
use crate::{
    cursor::{Cursor, Lending, Lent},
    error::Error,
    ids::SEQNO_MAX,
    key::{self, KeyEnd, KeyRange},
    vfs::fault::{Call, Effect, Fault, FaultFs},
};
use std::io;

fn entry(cursor: &TableCursor) -> Entry {
    assert_eq!(cursor.head(), key::head(cursor.key()));
    assert_eq!(cursor.pin_value(), cursor.value());
    Entry {
        key: cursor.key().to_vec(),
        seqno: cursor.seqno(),
        kind: cursor.kind(),
        value: cursor.value().to_vec(),
    }
}

fn forward(cursor: &mut TableCursor) -> Vec<Entry> {
    let mut entries = Vec::new();
    while cursor.valid() {
        entries.push(entry(cursor));
        cursor.next().unwrap();
    }
    entries
}

/// From where it stands on, the newest version of each key.
fn by_key(cursor: &mut TableCursor) -> Vec<Entry> {
    let mut entries = Vec::new();
    while cursor.valid() {
        entries.push(entry(cursor));
        cursor.next_key().unwrap();
    }
    entries
}

/// The first of the entries of each key.
fn newest(entries: &[Entry]) -> Vec<Entry> {
    let mut newest = entries.to_vec();
    newest.dedup_by(|second, first| second.key == first.key);
    newest
}

fn backward(cursor: &mut TableCursor) -> Vec<Entry> {
    let mut entries = Vec::new();
    while cursor.valid() {
        entries.push(entry(cursor));
        cursor.prev().unwrap();
    }
    entries.reverse();
    entries
}

fn clipped<'e>(entries: &'e [Entry], clip: &KeyRange) -> &'e [Entry] {
    let first = entries.partition_point(|entry| entry.key[..] < clip.start[..]);
    let last = entries.partition_point(|entry| clip.end.admits(&entry.key));
    &entries[first..last.max(first)]
}

#[test]
fn cursors_walk_every_layout_of_every_family_both_ways() {
    for (name, entries) in families() {
        for layout in layouts() {
            let context = context(&fresh_fs(), 1 << 16);
            let file = table_of(&context, &layout, &entries);
            for access in [Access::Cached(0), Access::Sequential] {
                let mut cursor = file.cursor(&KeyRange::all(), access).unwrap();
                assert!(!cursor.valid());
                cursor.seek_first().unwrap();
                assert!(forward(&mut cursor) == entries, "{name}, {layout:?}, {access:?}");
                cursor.seek_first().unwrap();
                assert!(by_key(&mut cursor) == newest(&entries), "{name}, {layout:?}, {access:?}");
                cursor.seek_last().unwrap();
                assert!(backward(&mut cursor) == entries, "{name}, {layout:?}, {access:?}");
            }
        }
    }
}

#[test]
fn seeks_and_clips_admit_what_the_model_admits() {
    for (name, entries) in families() {
        let mut rng = Rng(3);
        let probes = probes(&entries);
        let pick = |rng: &mut Rng| probes[rng.below(probes.len() as u64) as usize].clone().into_boxed_slice();
        for (i, layout) in layouts().enumerate() {
            let context = context(&fresh_fs(), 1 << 16);
            let file = table_of(&context, &layout, &entries);
            let access = if i % 2 == 0 { Access::Cached(0) } else { Access::Sequential };
            for round in 0..40 {
                let end = match round % 3 {
                    0 => KeyEnd::Unbounded,
                    1 => KeyEnd::Included(pick(&mut rng)),
                    _ => KeyEnd::Excluded(pick(&mut rng)),
                };
                let clip =
                    KeyRange { start: if round % 5 == 0 { Box::default() } else { pick(&mut rng) }, end };
                let model = clipped(&entries, &clip);
                let says = format!("{name}, {layout:?}, {clip}");
                let mut cursor = file.cursor(&clip, access).unwrap();
                cursor.seek_first().unwrap();
                assert!(forward(&mut cursor) == model, "{says}");
                cursor.seek_first().unwrap();
                assert!(by_key(&mut cursor) == newest(model), "{says}");
                cursor.seek_last().unwrap();
                assert!(backward(&mut cursor) == model, "{says}");
                for _ in 0..6 {
                    let key = pick(&mut rng);
                    let at = model.partition_point(|entry| entry.key[..] < key[..]);
                    cursor.seek(&key).unwrap();
                    for entry_there in model[at..].iter().take(40) {
                        assert!(cursor.valid() && entry(&cursor) == *entry_there, "{says} from {key:?}");
                        cursor.next().unwrap();
                    }
                    assert_eq!(cursor.valid(), model.len() > at + 40, "{says} from {key:?}");
                    cursor.seek_before(&key).unwrap();
                    for entry_there in model[..at].iter().rev().take(40) {
                        assert!(cursor.valid() && entry(&cursor) == *entry_there, "{says} before {key:?}");
                        cursor.prev().unwrap();
                    }
                    assert_eq!(cursor.valid(), at > 40, "{says} before {key:?}");
                }
            }
        }
    }
}

#[test]
fn a_sequential_cursor_leaves_the_cache_alone_and_reads_in_large_pieces() {
    let entries: Vec<Entry> = (0..40_000u32).map(|i| put(i.to_be_bytes(), 5)).collect();
    let context = context(&fresh_fs(), 1 << 30);
    let layout = Layout { compression: Compression::None, ..Layout::default() };
    let file = table_of(&context, &layout, &entries);
    let mut cursor = file.cursor(&KeyRange::all(), Access::Sequential).unwrap();
    cursor.seek_first().unwrap();
    assert!(forward(&mut cursor) == entries);
    assert_eq!(context.cache.used(), 0);
    let counters = context.stats.snapshot();
    assert_eq!(counters.blocks_read, 0);
    let data: u64 = file.table().unwrap().approximate_bytes(&KeyRange::all());
    assert_eq!(counters.bytes_read, data);
}

#[test]
fn a_cursor_keeps_an_obsolete_file_and_its_values_keep_their_blocks() {
    let entries: Vec<Entry> =
        (0..500u32).map(|i| Entry { value: vec![i as u8; 100], ..put(i.to_be_bytes(), 5) }).collect();
    let fs = fresh_fs();
    let context = context(&fs, 0);
    let file = table_of(&context, &Layout::default(), &entries);
    let path = file.path().to_owned();
    let mut cursor = file.cursor(&KeyRange::all(), Access::Cached(0)).unwrap();
    file.mark_obsolete();
    drop(file);
    assert!(fs.exists(&path).unwrap());
    cursor.seek_first().unwrap();
    let value = cursor.pin_value();
    assert!(forward(&mut cursor) == entries);
    drop(cursor);
    assert!(!fs.exists(&path).unwrap());
    assert_eq!(value, vec![0; 100]);
    assert_eq!(context.stats.snapshot().files_not_removed, 0);
}

#[test]
fn what_a_cursor_lends_downward_is_what_it_would_come_to() {
    let mut rng = Rng(3);
    let mut lent = 0;
    for (name, mut entries) in families() {
        entries.retain(|entry| entry.kind == Kind::Put);
        if entries.is_empty() {
            continue;
        }
        let context = context(&fresh_fs(), 1 << 16);
        let layout = Layout { block_bytes: 512, ..Layout::default() };
        let written = write(&context, 1, &layout, &entries, &RangeTombstones::default(), SEQNO_MAX);
        let file = TableFile::new(&context, Arc::new(written));
        let probes = probes(&entries);
        for _ in 0..300 {
            let mut probe = || probes[rng.below(probes.len() as u64) as usize].clone();
            let (mut from, mut start, mut low, mut after) = (probe(), probe(), probe(), Some(probe()));
            match rng.below(4) {
                0 => (start, after, low) = (vec![], None, vec![]),
                1 => (after, low) = (None, vec![]),
                2 => (start, low) = (vec![], vec![]),
                _ => {}
            }
            // Mostly far apart.
            if from < start {
                std::mem::swap(&mut from, &mut start);
            }
            let clip = KeyRange { start: low[..].into(), end: KeyEnd::Unbounded };
            let mut cursor = file.cursor(&clip, Access::Cached(0)).unwrap();
            cursor.seek_before(&from).unwrap();
            let inside =
                |key: &[u8]| key >= &start[..] && after.as_ref().is_none_or(|after| key > &after[..]);
            if !cursor.valid() || !inside(cursor.key()) {
                continue;
            }
            let there = clipped(&entries, &clip);
            let mut at = there.partition_point(|entry| entry.key < from) - 1;
            if let Some(mut stretch) = cursor.lend_back(SEQNO_MAX, after.as_deref(), &start) {
                lent += 1;
                loop {
                    assert!(
                        (stretch.key(), stretch.value()) == (&there[at].key[..], &there[at].value[..]),
                        "{name}"
                    );
                    assert!(inside(stretch.key()), "{name}");
                    assert!(at == 0 || there[at - 1].key != there[at].key, "{name}: an old version");
                    if !stretch.retreat() {
                        break;
                    }
                    at -= 1;
                }
                cursor.take_back(stretch);
                assert!(cursor.key() == &there[at].key[..], "{name}");
            }
            let rest = backward(&mut cursor);
            let pairs = |entries: &[Entry]| -> Vec<_> {
                entries.iter().map(|entry| (entry.key.clone(), entry.value.clone())).collect()
            };
            assert!(pairs(&rest) == pairs(&there[..=at]), "{name}");
        }
    }
    assert!(lent > 1000, "lent {lent} times");
}

#[test]
fn what_a_cursor_lends_upward_goes_on_in_the_next_blocks_as_far_as_it_may() {
    let mut rng = Rng(5);
    let (mut lent, mut went_on) = (0, 0);
    for (name, mut entries) in families() {
        entries.retain(|entry| entry.kind == Kind::Put);
        if entries.is_empty() {
            continue;
        }
        let context = context(&fresh_fs(), 16 << 20);
        let layout = Layout { block_bytes: 512, ..Layout::default() };
        let written = write(&context, 1, &layout, &entries, &RangeTombstones::default(), SEQNO_MAX);
        let file = TableFile::new(&context, Arc::new(written));
        let probes = probes(&entries);
        for round in 0..300 {
            let mut probe = || probes[rng.below(probes.len() as u64) as usize].clone();
            let (from, mut before, mut end, mut high) =
                (probe(), Some(probe()), Some(probe()), Some(probe()));
            match round % 5 {
                0 => (before, end, high) = (None, None, None),
                1 => (before, high) = (None, None),
                2 => (end, high) = (None, None),
                3 => high = None,
                _ => {}
            }
            let clip = KeyRange {
                start: Box::default(),
                end: high.as_ref().map_or(KeyEnd::Unbounded, |high| KeyEnd::Excluded(high[..].into())),
            };
            let mut cursor = file.cursor(&clip, Access::Cached(0)).unwrap();
            cursor.seek(&from).unwrap();
            let inside = |key: &[u8]| {
                [&before, &end].into_iter().all(|limit| limit.as_ref().is_none_or(|limit| key < &limit[..]))
            };
            let there = clipped(&entries, &clip);
            let mut at = there.partition_point(|entry| entry.key < from);
            if at == there.len() || !inside(&there[at].key) {
                continue;
            }
            if let Some(mut stretch) = cursor.lend(SEQNO_MAX, before.as_deref(), end.as_deref()) {
                lent += 1;
                loop {
                    assert!(
                        (stretch.key(), stretch.value()) == (&there[at].key[..], &there[at].value[..]),
                        "{name}"
                    );
                    assert!(inside(stretch.key()), "{name}");
                    assert!(at == 0 || there[at - 1].key != there[at].key, "{name}: an old version");
                    if !stretch.advance() {
                        if !cursor.lend_on(&mut stretch, before.as_deref(), end.as_deref()) {
                            break;
                        }
                        went_on += 1;
                    }
                    at += 1;
                }
                cursor.take_back(stretch);
                assert!(cursor.key() == &there[at].key[..], "{name}");
            }
            let mut rest = Vec::new();
            while cursor.valid() {
                rest.push((cursor.key().to_vec(), cursor.value().to_vec()));
                cursor.next().unwrap();
            }
            let expected = there[at..].iter().map(|entry| (entry.key.clone(), entry.value.clone()));
            assert!(rest.into_iter().eq(expected), "{name}");
        }
    }
    assert!(lent > 300 && went_on > 1000, "lent {lent} times, went on {went_on} times");
}

/// A table of many blocks whose reads are counted, and its entries. The cache holds an eighth of
/// it.
fn much_larger_than_the_cache() -> (FaultFs, Arc<TableContext>, Arc<TableFile>, Vec<Entry>) {
    let fs = FaultFs::new(Arc::new(fresh_fs()));
    let context = TableContext {
        fs: Arc::new(fs.clone()),
        dir: PathBuf::from("db"),
        database: DatabaseId(0xdb),
        direct_reads: false,
        cache: Cache::new(512 << 10),
        stats: Arc::new(Stats::new()),
        wanted: Arc::default(),
    };
    let context = Arc::new(context);
    let keys = (0..30_000u64).map(|i| (i * 7).to_be_bytes());
    let entries: Vec<_> = keys.map(|key| Entry { value: vec![1; 128], ..put(key, 5) }).collect();
    let layout = Layout { block_bytes: 1024, compression: Compression::None, ..Layout::default() };
    let file = table_of(&context, &layout, &entries);
    file.table().unwrap();
    (fs, context, file, entries)
}

/// First full scans ran at a quarter of what the page cache gives. Each block was a read of its
/// own, and pushed out another, even one that readers needed.
#[test]
fn a_long_walk_reads_many_blocks_at_once_and_pushes_out_nothing() {
    let (fs, context, file, entries) = much_larger_than_the_cache();
    let mut cursor = file.cursor(&KeyRange::all(), Access::Cached(0)).unwrap();
    let needed: Vec<_> = entries.iter().step_by(150).map(|entry| &entry.key).collect();
    for key in &needed {
        cursor.seek(key).unwrap();
    }
    let blocks = file.descriptor().blocks as u64;
    for walk in 0..2 {
        let before = fs.calls(Call::Read);
        let mut walk_of_all = file.cursor(&KeyRange::all(), Access::Cached(0)).unwrap();
        walk_of_all.seek_first().unwrap();
        assert!(forward(&mut walk_of_all) == entries);
        let reads = fs.calls(Call::Read) - before;
        assert!(reads < blocks / 2, "walk {walk}: {reads} reads of {blocks} blocks");
        if walk == 0 {
            let before = fs.calls(Call::Read);
            for key in &needed {
                cursor.seek(key).unwrap();
            }
            assert_eq!(fs.calls(Call::Read), before, "what was cached still is");
        }
    }
    assert!(context.cache.used() <= context.cache.capacity());
}

#[test]
fn a_short_walk_reads_no_more_than_it_needs() {
    let (_, context, file, entries) = much_larger_than_the_cache();
    let before = context.stats.snapshot().bytes_read;
    let mut cursor = file.cursor(&KeyRange::all(), Access::Cached(0)).unwrap();
    cursor.seek(&entries[15_000].key).unwrap();
    for _ in 0..7 {
        cursor.next().unwrap();
    }
    let read = context.stats.snapshot().bytes_read - before;
    assert!(read <= 2 * 1200, "{read} bytes read for 8 entries of 136");
}

/// What is read ahead and cannot be had is nothing to the blocks before it.
#[test]
fn a_read_ahead_that_fails_is_made_again_block_by_block() {
    let (fs, _, file, entries) = much_larger_than_the_cache();
    for skip in [2, 5, 20] {
        let hits = fs.hits();
        fs.inject(Fault::once(Call::Read, skip, Effect::Fail(io::ErrorKind::Other)));
        let mut cursor = file.cursor(&KeyRange::all(), Access::Cached(0)).unwrap();
        cursor.seek_first().unwrap();
        assert!(forward(&mut cursor) == entries);
        assert_eq!(fs.hits() - hits, 1);
        fs.heal();
    }
    // Where the block itself cannot be read, the walk says so.
    fs.inject(Fault::sticky(Call::Read, 5, Effect::Fail(io::ErrorKind::Other)));
    let mut cursor = file.cursor(&KeyRange::all(), Access::Cached(0)).unwrap();
    cursor.seek_first().unwrap();
    let failed = loop {
        if let Err(error) = cursor.next() {
            break error;
        }
    };
    assert!(matches!(failed, Error::Io { .. }), "{failed}");
    assert!(!cursor.valid());
}

/// A cursor that dozes keeps nothing of a large value but the block's number, and wakes where it
/// was: also where several versions of a key have one number, within a clip, and before it goes on.
#[test]
fn a_cursor_that_dozes_wakes_where_it_was() {
    let large = vec![7; 2 << 20];
    let version = |key: &[u8], seqno, value: &[u8]| Entry {
        key: key.to_vec(),
        seqno,
        kind: Kind::Merge,
        value: value.to_vec(),
    };
    let entries = [
        version(b"a", 9, b"small"),
        version(b"b", 8, &large),
        version(b"b", 7, &large[1..]),
        version(b"b", 6, b"small"),
        version(b"c", 5, &large[2..]),
        version(b"d", 4, b"small"),
    ];
    for layout in layouts() {
        let context = context(&fresh_fs(), 1 << 16);
        let file = table_of(&context, &layout, &entries);
        for clip in [KeyRange::all(), KeyRange::half_open(b"b", b"d")] {
            let expected = clipped(&entries, &clip);
            let mut cursor = file.cursor(&clip, Access::Sequential).unwrap();
            cursor.seek_first().unwrap();
            for expected in expected {
                let (stamp, head) = (cursor.stamp(), cursor.head());
                cursor.doze().unwrap();
                cursor.doze().unwrap();
                assert_eq!((cursor.valid(), cursor.key()), (true, &expected.key[..]));
                assert_eq!((cursor.stamp(), cursor.head()), (stamp, head));
                cursor.wake().unwrap();
                cursor.wake().unwrap();
                assert_eq!(&entry(&cursor), expected);
                cursor.next().unwrap();
            }
            assert!(!cursor.valid());
            cursor.doze().unwrap();
            cursor.wake().unwrap();
            assert!(!cursor.valid());
        }
    }
}

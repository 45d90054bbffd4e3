//! Tests of `Table::lookup` against a model, for every layout and key family, with the counters it
//! moves.
//!
//! Every layout finds what the model finds, at every snapshot. An absent key costs at most one
//! block even without a filter, and a learned index at most one block in a thousand too many. A
//! window as wide as the table costs a plain search. Filters turn absent keys away and are counted.
//! Elided numbers read back as 0, or as what ingestion gave. A value outlives its table.

use super::*;
use crate::{cursor::Probe, ids::SEQNO_MAX, key::hash, stats::Counters};

type Answer = Option<(Seqno, Kind, Vec<u8>)>;

fn lookup(table: &Table, key: &[u8], snapshot: Seqno) -> Answer {
    let guard = crossbeam_epoch::pin();
    let probe = Probe { key, hash: hash(key), snapshot };
    table.lookup(0, &probe, &guard, |hit| (hit.seqno, hit.kind, hit.pin_value().to_vec())).unwrap()
}

/// What the model says, if all of it carries `elided`, or its own numbers.
fn expected(entries: &[Entry], key: &[u8], snapshot: Seqno, elided: Option<Seqno>) -> Answer {
    let first = entries.partition_point(|entry| &entry.key[..] < key);
    entries[first..]
        .iter()
        .take_while(|entry| entry.key == key)
        .find(|entry| elided.unwrap_or(entry.seqno) <= snapshot)
        .map(|entry| (elided.unwrap_or(entry.seqno), entry.kind, entry.value.clone()))
}

fn counters(context: &TableContext) -> Counters {
    context.stats.snapshot()
}

#[test]
fn every_layout_finds_in_every_family_what_the_model_finds() {
    for (name, entries) in families() {
        let keys = probes(&entries);
        for layout in layouts() {
            for cache_bytes in [0, 1 << 20] {
                let context = context(&fresh_fs(), cache_bytes);
                let file = table_of(&context, &layout, &entries);
                let table = file.table().unwrap();
                for key in &keys {
                    let newest =
                        entries.iter().find(|entry| entry.key == *key).map_or(5, |entry| entry.seqno);
                    for snapshot in [SEQNO_MAX, newest, newest - 1, newest.saturating_sub(250), 0] {
                        assert_eq!(
                            lookup(table, key, snapshot),
                            expected(&entries, key, snapshot, None),
                            "{name}, {layout:?}, {} at {snapshot}",
                            key.escape_ascii()
                        );
                    }
                }
                // Only Sherry's model may name more blocks than a lookup walks through.
                let fallbacks = counters(&context).index_fallbacks;
                assert!(fallbacks == 0 || layout.index.names_a_window(), "{name}, {layout:?}");
            }
        }
    }
}

#[test]
fn the_check_finds_nothing_wrong_with_any_layout_of_any_family() {
    for (name, entries) in families() {
        for layout in layouts() {
            let context = context(&fresh_fs(), 0);
            let file = table_of(&context, &layout, &entries);
            let check = file.table().unwrap().check().unwrap();
            assert!(check.problems.is_empty(), "{name}, {layout:?}: {:?}", check.problems);
            assert_eq!(check.entries, entries.len() as u64);
            assert_eq!(check.bytes, file.descriptor().bytes);
        }
    }
}

#[test]
fn an_absent_key_costs_at_most_one_block_even_without_a_filter() {
    for (name, keys) in key_families() {
        let entries: Vec<Entry> = keys.iter().map(|key| put(key.clone(), 5)).collect();
        for index in IndexKind::ALL {
            let layout = Layout { block_bytes: 256, index, filter: Filters::NONE, ..Layout::default() };
            // Room for all blocks: none is read twice.
            let context = context(&fresh_fs(), 8 << 20);
            let file = table_of(&context, &layout, &entries);
            let probes = probes(&entries);
            for key in &probes {
                lookup(file.table().unwrap(), key, SEQNO_MAX);
            }
            let counters = counters(&context);
            let steps = counters.index_steps;
            // Where there are fallbacks, in wide windows, they are searches through blocks.
            let beside = counters.blocks_probed - probes.len() as u64 - steps;
            let bits = u64::from(file.descriptor().blocks.ilog2()) + 2;
            assert!(beside <= counters.index_fallbacks * bits, "{name}, {index}");
            assert!(counters.index_fallbacks == 0 || index.names_a_window(), "{name}, {index}");
            let exact = !index.names_a_window() && !matches!(index, IndexKind::Learned | IndexKind::Auto);
            assert!(!exact || steps == 0, "{name}, {index}");
            assert_eq!(counters.filter_probes, 0);
            assert!(counters.blocks_read <= file.descriptor().blocks.into());
        }
    }
}

#[test]
fn a_learned_index_costs_one_block_in_a_thousand_too_many_at_most() {
    let mut rng = Rng(3);
    let mut keys: Vec<u64> = (0..40_000).map(|_| rng.next()).collect();
    keys.sort_unstable();
    let entries: Vec<Entry> = keys.iter().map(|key| put(key.to_be_bytes(), 5)).collect();
    for index in [IndexKind::Learned, IndexKind::Auto] {
        let context = context(&fresh_fs(), 64 << 20);
        let layout = Layout { block_bytes: 1024, index, filter: Filters::NONE, ..Layout::default() };
        let file = table_of(&context, &layout, &entries);
        let index = file.table().unwrap().index().unwrap();
        assert_eq!(index.kind(), IndexKind::Learned, "{:?}", index.reason());
        for entry in &entries {
            assert!(lookup(file.table().unwrap(), &entry.key, SEQNO_MAX).is_some());
        }
        let found = counters(&context);
        assert!(found.index_steps <= entries.len() as u64 / 1000, "{found:?}");
        for _ in 0..entries.len() {
            lookup(file.table().unwrap(), &rng.next().to_be_bytes(), SEQNO_MAX);
        }
        let absent = counters(&context);
        assert!(absent.index_steps - found.index_steps <= entries.len() as u64 / 100, "{absent:?}");
        assert_eq!(absent.index_fallbacks, 0);
    }
}

/// Symptom: a found read of paths of 93 bytes looked into 847 blocks. Cause: heads of 8 bytes tell
/// paths apart badly, Sherry's windows are as wide as the table then, and a lookup walked through
/// them block by block. Cure: it walks a few blocks, then searches.
#[test]
fn a_window_as_wide_as_the_table_costs_a_plain_search() {
    let key = |i: u32| format!("{:0>60}/{:02}/{i:030}", "directory", i % 7).into_bytes();
    let mut keys: Vec<Vec<u8>> = (0..6000).map(key).collect();
    keys.sort();
    let entries: Vec<Entry> = keys.iter().map(|key| put(key.clone(), 5)).collect();
    let context = context(&fresh_fs(), 64 << 20);
    let layout = Layout { block_bytes: 512, index: IndexKind::SherryPlr, ..Layout::default() };
    let file = table_of(&context, &layout, &entries);
    let blocks = file.descriptor().blocks;
    assert!(blocks > 1000);
    for entry in &entries {
        assert!(lookup(file.table().unwrap(), &entry.key, SEQNO_MAX).is_some());
    }
    let counters = counters(&context);
    let most = u64::from(blocks.ilog2()) + 12;
    assert!(counters.index_fallbacks > 0, "{counters:?}");
    assert!(counters.blocks_probed < entries.len() as u64 * most, "{counters:?}");
}

#[test]
fn the_filter_turns_absent_keys_away_and_is_counted() {
    let entries: Vec<Entry> = (0..5000u32).map(|i| put((2 * i).to_be_bytes(), 5)).collect();
    let context = context(&fresh_fs(), 1 << 20);
    let file = table_of(&context, &Layout::default(), &entries);
    for i in 0..5000u32 {
        assert!(lookup(file.table().unwrap(), &(2 * i).to_be_bytes(), SEQNO_MAX).is_some());
        assert!(lookup(file.table().unwrap(), &(2 * i + 1).to_be_bytes(), SEQNO_MAX).is_none());
    }
    let counters = counters(&context);
    assert_eq!(counters.filter_probes, 10_000);
    assert_eq!(counters.filter_negatives + counters.filter_false_positives, 5000);
    assert!(counters.filter_false_positives < 100, "{counters:?}");
    assert_eq!(counters.blocks_probed, 10_000 - counters.filter_negatives);
    assert_eq!(counters.blocks_probed, counters.blocks_hit + counters.blocks_read);
    assert_eq!(counters.blocks_read, u64::from(file.descriptor().blocks));
}

#[test]
fn a_key_that_the_snapshot_does_not_see_is_not_a_false_positive() {
    let context = context(&fresh_fs(), 0);
    let file = table_of(&context, &Layout::default(), &[put(*b"k", 7)]);
    assert_eq!(lookup(file.table().unwrap(), b"k", 6), None);
    assert_eq!(counters(&context).filter_false_positives, 0);
}

#[test]
fn elided_numbers_read_back_as_zero_or_as_what_ingestion_gave() {
    let entries: Vec<Entry> = (0..2000u32).map(|i| put(i.to_be_bytes(), 100)).collect();
    for layout in layouts() {
        let context = context(&fresh_fs(), 1 << 20);
        let descriptor = write(&context, 1, &layout, &entries, &RangeTombstones::default(), 100);
        assert_eq!((descriptor.seqno_min, descriptor.seqno_max, descriptor.elided_seqno), (100, 100, 0));
        let file = TableFile::new(&context, Arc::new(descriptor.clone()));
        let ingested = TableFile::new(&context, Arc::new(descriptor.ingested_at(777)));
        for entry in entries.iter().step_by(37) {
            let at = |file: &TableFile, snapshot| lookup(file.table().unwrap(), &entry.key, snapshot);
            assert_eq!(at(&file, 0), expected(&entries, &entry.key, 0, Some(0)));
            assert_eq!(at(&ingested, 777), expected(&entries, &entry.key, 777, Some(777)));
            assert_eq!(at(&ingested, 776), None);
        }
        assert!(ingested.table().unwrap().check().unwrap().problems.is_empty());
    }
}

#[test]
fn a_value_outlives_the_table_it_came_from() {
    let entry = Entry { value: vec![7; 5000], ..put(*b"k", 1) };
    let context = context(&fresh_fs(), 1 << 20);
    let file = table_of(&context, &Layout::default(), std::slice::from_ref(&entry));
    let guard = crossbeam_epoch::pin();
    let probe = Probe { key: b"k", hash: hash(b"k"), snapshot: SEQNO_MAX };
    let value = file.table().unwrap().lookup(0, &probe, &guard, |hit| hit.pin_value()).unwrap().unwrap();
    drop(guard);
    context.cache.set_capacity(0);
    file.mark_obsolete();
    drop(file);
    assert_eq!(value, entry.value);
}

#[test]
fn a_table_of_range_tombstones_only_has_no_entries() {
    let tombstones =
        RangeTombstones::new(vec![RangeTombstone { start: (*b"b").into(), end: (*b"m").into(), seqno: 9 }]);
    for layout in layouts() {
        let context = context(&fresh_fs(), 0);
        let descriptor = write(&context, 1, &layout, &[], &tombstones, 0);
        assert_eq!((descriptor.blocks, descriptor.entries, descriptor.range_tombstones), (0, 0, 1));
        assert_eq!((descriptor.seqno_min, descriptor.seqno_max), (9, 9));
        let file = TableFile::new(&context, Arc::new(descriptor));
        let table = file.table().unwrap();
        assert_eq!(**table.tombstones(), tombstones);
        assert_eq!(lookup(table, b"c", SEQNO_MAX), None);
        assert_eq!(table.approximate_bytes(&crate::key::KeyRange::all()), 0);
        assert_eq!(table.share(&crate::key::KeyRange::half_open(b"c", b"d")), 0.0);
        let check = table.check().unwrap();
        assert!(check.problems.is_empty(), "{:?}", check.problems);
    }
}

//! Tests of filters by level, through `Db` and its counters: what smaller levels' further bits
//! save, as predicted.
//!
//! With as many bits in all, Monkey's spread lets absent lookups look into fewer blocks. Filters
//! over few keys let as few absent keys pass as the cost model expects. Tables that are only moved
//! have the filters of where they come to rest. A reopened database keeps its filters, and another
//! open may change them.

use solera::{
    Compression, Db, FilterKind, FilterSpec, Filters, KeyspaceStats, Layout, Options, Shape,
    control::{Change, knob},
    filter,
    vfs::mem::MemFs,
};
use std::sync::Arc;

const KEYS: u64 = if cfg!(miri) { 300 } else { 60_000 };

/// Even numbers are present, odd ones absent.
fn key(i: u64, absent: bool) -> [u8; 8] {
    let spread = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((spread ^ (spread >> 29)) << 1 | u64::from(absent)).to_be_bytes()
}

fn options(filters: Filters) -> Options {
    let shape = Shape { size_ratio: 4, run_limits: vec![4, 1], table_bytes: 256 << 10, ..Shape::default() };
    let layout = Layout { block_bytes: 1024, compression: Compression::None, ..Layout::default() };
    Options::new()
        .memory(64 << 20)
        .write_buffer(8 << 10)
        .background_threads(0)
        .layout(layout)
        .filter(filters)
        .shape(shape)
        .seed(1)
}

/// A database of several levels, all work done.
fn loaded(filters: Filters, keys: impl Iterator<Item = [u8; 8]>) -> Db {
    let db = options(filters).fs(Arc::new(MemFs::new())).open("/db").unwrap();
    // Level 0 with as many runs as its limit says, which the bits are allotted by.
    db.control().apply(Change::new("test", "runs as allotted").set(&knob::LEVEL0_PATIENCE, 0u32)).unwrap();
    for key in keys {
        db.put(key, [1; 32]).unwrap();
    }
    db.flush().unwrap();
    while db.step().unwrap() {}
    // Two runs in level 0, as many as there are in the mean.
    for again in [0, KEYS / 2] {
        (again..again + 150).for_each(|i| db.put(key(i, false), [2; 32]).unwrap());
        db.flush().unwrap();
    }
    db
}

fn bits_per_entry(stats: &KeyspaceStats) -> f64 {
    stats.filter_bytes as f64 * 8.0 / stats.entries as f64
}

/// False positives for an absent lookup: expected of the filters asked and the bits that they have,
/// and counted.
fn false_positives(db: &Db, filters: Filters) -> (f64, f64) {
    let before = db.default().stats();
    for i in 0..KEYS {
        assert_eq!(db.get(key(i, true)).unwrap(), None);
    }
    let after = db.default().stats();
    let last = before.levels.iter().rposition(|level| !level.runs.is_empty()).unwrap();
    assert!(last >= 2, "at least three levels");
    let (mut expected, mut asked, mut passed) = (0.0, 0, 0);
    for (level, before) in after.levels.iter().zip(&before.levels) {
        let counted = level.counters.since(&before.counters);
        let kind = if level.level as usize == last { filters.last_level } else { FilterKind::Bloom };
        let spec = FilterSpec { kind, bits_per_key: level.filter_bits_per_key as f32 };
        expected += counted.filter_probes() as f64 * filter::false_positives(spec);
        asked += counted.filter_probes();
        passed += counted.filter_false_positives;
    }
    // All levels together are what is counted of the whole.
    let whole = |stats: &KeyspaceStats| (stats.counters.filter_probes, stats.counters.filter_false_positives);
    assert_eq!((whole(&before).0 + asked, whole(&before).1 + passed), whole(&after));
    (expected / KEYS as f64, passed as f64 / KEYS as f64)
}

#[test]
#[cfg_attr(miri, ignore)]
fn with_as_many_bits_absent_lookups_look_into_fewer_blocks_as_predicted() {
    for (bits, kind) in [(5.0, FilterKind::Bloom), (10.0, FilterKind::Bloom), (7.0, FilterKind::Ribbon)] {
        let [uniform, monkey] = [Filters::uniform(bits), Filters::monkey(bits)].map(|filters| {
            let filters = filters.with_last_level(kind);
            let db = loaded(filters, (0..KEYS).map(|i| key(i, false)));
            let stats = db.default().stats();
            let (expected, counted) = false_positives(&db, filters);
            // Tables that lay in the last level before there was a deeper one keep their kind for a
            // while.
            let predicted = kind == FilterKind::Ribbon || (counted / expected - 1.0).abs() < 0.2;
            assert!(predicted, "{filters}: {counted}, expected {expected}: {:?}", stats.levels);
            (bits_per_entry(&stats), counted)
        });
        assert!(monkey.0 < 1.02 * uniform.0, "bits: {monkey:?}, {uniform:?}");
        assert!(monkey.1 < 0.65 * uniform.1, "false positives: {monkey:?}, {uniform:?}");
    }
}

/// What the cost model goes by. A small filter has whole lines, and so more bits than it was given.
#[test]
#[cfg_attr(miri, ignore)]
fn filters_over_few_keys_let_as_few_absent_keys_pass_as_expected() {
    let hash = |i: u64| solera::key::hash(&i.to_be_bytes());
    for (keys, bits_per_key) in
        [(12, 8.0), (50, 8.0), (64, 8.0), (65, 8.0), (130, 8.0), (250, 5.0), (250, 10.0), (3000, 6.0)]
    {
        let spec = FilterSpec { kind: FilterKind::Bloom, bits_per_key };
        let (builds, asked) = (40, 20_000);
        let passed = |build: u64| {
            let mut builder = filter::FilterBuilder::new(spec);
            let first = build << 32;
            (first..first + keys).for_each(|i| builder.add(hash(i)));
            let filter = filter::Filter::decode(&builder.finish()).unwrap();
            (first + keys..first + keys + asked).filter(|&i| filter.may_contain(hash(i))).count()
        };
        let measured = (0..builds).map(passed).sum::<usize>() as f64 / (builds * asked) as f64;
        let expected = filter::false_positives_over(spec, keys as f64);
        let few = expected * ((builds * asked) as f64) < 400.0;
        assert!(
            few || (measured / expected - 1.0).abs() < 0.2,
            "{spec:?} of {keys} keys: {measured}, {expected}"
        );
        assert!(expected < 1.02 * filter::false_positives(spec), "whole lines are never fewer bits");
    }
    let large = FilterSpec { kind: FilterKind::Bloom, bits_per_key: 8.0 };
    let (over_many, curve) = (filter::false_positives_over(large, 1e6), filter::false_positives(large));
    assert!((over_many / curve - 1.0).abs() < 0.01, "{over_many}, {curve}");
    assert_eq!(filter::false_positives_over(FilterSpec { bits_per_key: 0.0, ..large }, 50.0), 1.0);
}

/// Symptom that is kept away: ascending keys are moved from level to level as they are, so that the
/// last level would be full of tables with the bits of the first.
#[test]
#[cfg_attr(miri, ignore)]
fn tables_that_are_only_moved_have_the_filters_of_where_they_come_to_rest() {
    let db = loaded(Filters::monkey(10.0), (0..KEYS).map(|i| (2 * i).to_be_bytes()));
    let stats = db.default().stats();
    assert!(stats.levels.len() >= 3, "{:?}", stats.levels);
    assert!((9.0..10.6).contains(&bits_per_entry(&stats)), "{} bits", bits_per_entry(&stats));
}

#[test]
fn a_reopened_database_keeps_its_filters_and_another_open_may_change_them() {
    let fs = Arc::new(MemFs::new());
    let asked = Filters::uniform(5.0).with_last_level(FilterKind::Ribbon);
    let db = options(asked).fs(fs.clone()).open("/db").unwrap();
    db.put(b"a", b"1").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let db = Options::new().background_threads(0).fs(fs.clone()).open("/db").unwrap();
    let stats = db.default().stats();
    assert_eq!(stats.filters, "uniform, 5 bits per key, ribbon at the last level");
    assert_eq!(stats.levels[0].filter_next, FilterSpec { kind: FilterKind::Ribbon, bits_per_key: 5.0 });
    db.close().unwrap();
    let db = Options::new().background_threads(0).filter(Filters::NONE).fs(fs).open("/db").unwrap();
    assert_eq!(db.default().stats().filters, "none");
    assert!(db.default().stats().levels[0].filter_bits_per_key > 0.0, "tables keep what they have");
    assert_eq!(db.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    assert!(db.compact_range(..).is_ok());
    assert!(db.verify().unwrap().problems.is_empty());
}

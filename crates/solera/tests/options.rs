//! Tests of options that are given to what exists already: each is obeyed or refused, none is
//! ignored.
//!
//! A keyspace is kept as a later `keyspace_with` says, as far as it says something: in memory, and
//! after the next open. A part of the layout leaves the rest of it. What was set by a knob stands.
//! What says nothing new is not recorded. Doors: `Db::keyspace_with`, `Options`.

use solera::{
    Compression, Db, Error, IndexKind, Keyspace, KeyspaceOptions, Layout, Options, Shape,
    control::{Change, Knob, knob},
    operator::{Append, Counter},
    vfs::{Fs, mem::MemFs},
};
use std::{path::Path, sync::Arc};

const DIR: &str = "/db";

fn options(fs: &MemFs) -> Options {
    Options::new().memory(4 << 20).background_threads(0).fs(Arc::new(fs.clone()))
}

fn value(db: &Db, name: &str, knob: &Knob, level: Option<u32>) -> String {
    db.control().ranges().find(knob, name, level).unwrap().value.to_string()
}

/// What a keyspace is kept like, as far as knobs show it.
fn kept(db: &Db, name: &str) -> [String; 5] {
    [
        value(db, name, &knob::SEPARATE_FROM, None),
        value(db, name, &knob::INDEX, None),
        value(db, name, &knob::BLOCK_BYTES, None),
        value(db, name, &knob::SIZE_RATIO, None),
        value(db, name, &knob::RUN_LIMIT, Some(0)),
    ]
}

/// Bytes of tables and of values apart that `keyspace` takes for values of 300 equal bytes.
fn written(keyspace: &Keyspace) -> (u64, u64) {
    keyspace.clear().unwrap();
    keyspace.compact_range(..).unwrap();
    (0..100u32).for_each(|n| keyspace.put(n.to_be_bytes(), [7; 300]).unwrap());
    keyspace.flush().unwrap();
    let stats = keyspace.stats();
    (stats.table_bytes, stats.separated_values)
}

fn manifest_bytes(fs: &MemFs) -> u64 {
    let names = fs.list_dir(Path::new(DIR)).unwrap();
    let name = names.into_iter().find(|name| name.starts_with("MANIFEST")).unwrap();
    fs.open(&Path::new(DIR).join(name)).unwrap().len().unwrap()
}

/// Symptom: `keyspace_with` of a keyspace that exists ignored `separate_values_from`, layout and
/// shape, and said nothing. Cause: only a new keyspace was given them. Cure: they are recorded, and
/// in force from then on.
#[test]
fn a_keyspace_that_exists_is_kept_as_a_later_call_says() {
    let fs = MemFs::new();
    let db = options(&fs).open(DIR).unwrap();
    let layout = Layout { block_bytes: 512, index: IndexKind::STree, ..Layout::default() };
    let early = db.keyspace_with("k", KeyspaceOptions::new().layout(layout)).unwrap();
    assert_eq!(kept(&db, "k"), ["4294967295", "s-tree", "512", "10", "4"]);
    let (compressed, apart) = written(&early);
    assert!(compressed < 15_000 && apart == 0, "{compressed} bytes of tables, {apart} values apart");

    let shape = Shape { size_ratio: 4, run_limits: vec![2, 1], ..Shape::default() };
    db.keyspace_with("k", KeyspaceOptions::new().shape(shape)).unwrap();
    assert_eq!(kept(&db, "k"), ["4294967295", "s-tree", "512", "4", "2"], "the rest stays");
    db.keyspace_with("k", KeyspaceOptions::new().compression(Compression::None)).unwrap();
    db.keyspace_with("k", KeyspaceOptions::new().index(IndexKind::Binary)).unwrap();
    assert_eq!(kept(&db, "k"), ["4294967295", "binary", "512", "4", "2"], "a part leaves the others");
    let (plain, apart) = written(&early);
    assert!(plain > 30_000 && apart == 0, "also by handles from before: {plain} bytes, {apart} apart");
    db.keyspace_with("k", KeyspaceOptions::new().separate_values_from(200)).unwrap();
    assert_eq!(written(&early).1, 100);
    let now = ["200", "binary", "512", "4", "2"];
    assert_eq!(kept(&db, "k"), now);
    assert_eq!(early.get(7u32.to_be_bytes()).unwrap().unwrap(), [7; 300]);
    drop(early);

    // After a crash, and when nothing is said.
    let crashed = fs.crash(solera::vfs::mem::Persist::Nothing, 1);
    let db = options(&crashed).open(DIR).unwrap();
    assert_eq!(kept(&db, "k"), now);
    let same = KeyspaceOptions::new().separate_values_from(200).index(IndexKind::Binary);
    let before = manifest_bytes(&crashed);
    for options in [KeyspaceOptions::new(), same] {
        db.keyspace_with("k", options).unwrap();
    }
    assert_eq!(kept(&db, "k"), now);
    assert_eq!(manifest_bytes(&crashed), before, "what says nothing new is not recorded");
    assert_eq!(db.keyspace("k").unwrap().iter().count(), 100);
    db.close().unwrap();
    assert_eq!(kept(&options(&crashed).open(DIR).unwrap(), "k"), now);
}

#[test]
fn a_knob_that_was_set_stands_whatever_a_keyspace_is_given_later() {
    let fs = MemFs::new();
    let db = options(&fs).open(DIR).unwrap();
    db.keyspace("k").unwrap();
    let change = Change::new("test", "to see").keyspace("k");
    db.control().apply(change.set(&knob::SEPARATE_FROM, 1000u32).set(&knob::SIZE_RATIO, 6u32)).unwrap();
    let shape = Shape { size_ratio: 20, run_limits: vec![4, 12], ..Shape::default() };
    let given = KeyspaceOptions::new().separate_values_from(50).shape(shape).index(IndexKind::Binary);
    let stands = |db: &Db| {
        assert_eq!(kept(db, "k"), ["1000", "binary", "4096", "6", "4"]);
        assert_eq!(value(db, "k", &knob::RUN_LIMIT, Some(1)), "6", "as much as the ratio allows");
    };
    let space = db.keyspace_with("k", given).unwrap();
    stands(&db);
    assert_eq!(written(&space).1, 0);
    drop((db, space));
    let db = options(&fs).open(DIR).unwrap();
    stands(&db);
    let reset = Change::new("test", "to see").keyspace("k").reset(&knob::SEPARATE_FROM, None);
    db.control().apply(reset.reset(&knob::SIZE_RATIO, None)).unwrap();
    assert_eq!(kept(&db, "k"), ["50", "binary", "4096", "20", "4"], "then what was given counts");
}

#[test]
fn what_cannot_be_is_refused_for_a_keyspace_that_exists_too_and_changes_nothing() {
    let fs = MemFs::new();
    let db = options(&fs).open(DIR).unwrap();
    db.keyspace_with("k", KeyspaceOptions::new().merge_operator(Arc::new(Append))).unwrap();
    let before = (kept(&db, "k"), manifest_bytes(&fs));
    let buffer = Shape { write_buffer_bytes: 1 << 20, ..Shape::default() };
    for wrong in [
        KeyspaceOptions::new().separate_values_from(0),
        KeyspaceOptions::new().layout(Layout { block_bytes: 1, ..Layout::default() }),
        KeyspaceOptions::new().shape(buffer),
        KeyspaceOptions::new().index(IndexKind::Binary).merge_operator(Arc::new(Counter)),
    ] {
        let refused = db.keyspace_with("k", wrong.clone());
        assert!(matches!(refused, Err(Error::Invalid(_))), "{wrong:?}");
        assert_eq!((kept(&db, "k"), manifest_bytes(&fs)), before);
    }
    drop(db);
    // A read-only database writes nothing: what it would be kept like is nothing to it.
    let db = options(&fs).read_only(true).open(DIR).unwrap();
    let given = KeyspaceOptions::new().separate_values_from(9).merge_operator(Arc::new(Append));
    assert_eq!(db.keyspace_with("k", given).unwrap().iter().count(), 0);
    assert!(matches!(db.keyspace_with("none", KeyspaceOptions::new()), Err(Error::NoKeyspace(_))));
}

/// Symptom: an open that gave a compression or a filter alone put the default index and block size
/// in the place of those that the default keyspace had. Cause: a part counted as all of the layout.
#[test]
fn a_part_of_the_layout_given_at_an_open_leaves_the_rest() {
    let fs = MemFs::new();
    let layout = Layout { block_bytes: 512, index: IndexKind::STree, ..Layout::default() };
    drop(options(&fs).layout(layout).open(DIR).unwrap());
    let db = options(&fs).compression(Compression::None).open(DIR).unwrap();
    assert_eq!(kept(&db, "default")[1..3], ["s-tree", "512"]);
    assert!(written(db.default()).0 > 30_000);
    drop(db);
    let db = options(&fs).index(IndexKind::Binary).open(DIR).unwrap();
    assert_eq!(kept(&db, "default")[1..3], ["binary", "512"]);
    assert!(written(db.default()).0 > 30_000);
}

//! Tests of `Version`, `Run` and `RunCursor` on real tables in memory.
//!
//! A run is walked and searched like the keys in its clips, against a model. A file keeps its one
//! handle until its last part leaves, and run ids are not used again. `Version::runs` stands by
//! age. An edit that does not fit the version is refused and says why. Range tombstones count only
//! within the clip.

use super::*;
use crate::{
    cache::Cache,
    cursor::Cursor,
    error::Error,
    ids::{DatabaseId, FileId, RunId},
    key::{KeyEnd, KeyRange, Kind},
    stats::Stats,
    table::{Access, Layout, TableContext, TableDescriptor, TableFile, TableWriter},
    tombstone::{RangeTombstone, RangeTombstones},
    vfs::mem::MemFs,
};
use proptest::prelude::*;
use std::sync::Arc;

fn context() -> Arc<TableContext> {
    Arc::new(TableContext {
        fs: Arc::new(MemFs::new()),
        dir: "".into(),
        database: DatabaseId(1),
        direct_reads: false,
        cache: Cache::new(1 << 20),
        stats: Arc::new(Stats::new()),
        wanted: Arc::default(),
    })
}

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

fn write(context: &TableContext, file: u64, keys: impl IntoIterator<Item = u32>) -> TableDescriptor {
    let layout = Layout { block_bytes: 256, ..Layout::default() };
    let mut table = TableWriter::create(context, FileId(file), &layout, layout.filter.mean(), 0).unwrap();
    for n in keys {
        table.add(&key(n), 7, Kind::Put, &key(n)).unwrap();
    }
    table.finish().unwrap().unwrap()
}

fn added(level: u32, run: u64, table: &TableDescriptor, clip: KeyRange) -> Added {
    Added { level, run: RunId(run), descriptor: table.clone(), clip }
}

fn removed(level: u32, run: u64, file: u64, clip_start: &[u8]) -> Removed {
    Removed { level, run: RunId(run), file: FileId(file), clip_start: clip_start.into() }
}

fn edit(removed: Vec<Removed>, added: Vec<Added>) -> TreeEdit {
    TreeEdit { removed, added, ..TreeEdit::default() }
}

fn half_open(a: u32, b: u32) -> KeyRange {
    KeyRange::half_open(&key(a), &key(b))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_run_is_walked_and_searched_like_the_keys_in_its_clips(
        tables in prop::collection::vec((prop::collection::btree_set(0u32..60, 1..40), 0u32..60, 0u32..60), 1..6),
        targets in prop::collection::vec(0u32..400, 1..20),
        access in prop::sample::select(vec![Access::Cached(0), Access::Sequential]),
    ) {
        let context = context();
        let mut parts = Vec::new();
        let mut keys = Vec::new();
        for (at, (within, a, b)) in tables.into_iter().enumerate() {
            let base = at as u32 * 60;
            let table = write(&context, at as u64 + 1, within.iter().map(|n| base + n));
            let file = TableFile::new(&context, Arc::new(table));
            // The middle of every table is not its own any more.
            let (a, b) = (base + a.min(b), base + a.max(b) + 1);
            let whole = TableRef::new(file, &KeyRange::all()).unwrap();
            parts.extend(whole.without(&half_open(a, b)).into_iter().flatten());
            keys.extend(within.iter().map(|n| base + n).filter(|n| !(a..b).contains(n)));
        }
        prop_assume!(!parts.is_empty());
        let run = Run::new(1, RunId(1), parts).unwrap();

        for n in 0..400 {
            let holds = run.find(&key(n)).is_some_and(|table| table.clip().contains(&key(n)));
            prop_assert_eq!(run.find(&key(n)).is_some(), holds);
            prop_assert!(holds || !keys.contains(&n), "{}", n);
            let overlapping = run.overlapping(&KeyRange::closed(&key(n), &key(n))).len();
            prop_assert_eq!(overlapping, usize::from(holds));
        }
        let mut cursor = RunCursor::new(run.tables().clone(), access);
        let at = |cursor: &RunCursor| cursor.valid().then(|| cursor.key().to_vec());
        let forward = |cursor: &mut RunCursor| {
            let mut walked = Vec::new();
            while cursor.valid() {
                walked.push(u32::from_be_bytes(cursor.key().try_into().unwrap()));
                assert_eq!(cursor.key(), cursor.value());
                cursor.next().unwrap();
            }
            walked
        };
        cursor.seek_first().unwrap();
        prop_assert_eq!(forward(&mut cursor), keys.clone());
        cursor.seek_last().unwrap();
        let mut back = Vec::new();
        while let Some(key) = at(&cursor) {
            back.push(u32::from_be_bytes(key.try_into().unwrap()));
            cursor.prev().unwrap();
        }
        back.reverse();
        prop_assert_eq!(back, keys.clone());
        for target in targets {
            cursor.seek_before(&key(target)).unwrap();
            let before = keys.iter().rev().find(|&&n| n < target).map(|&n| key(n).to_vec());
            prop_assert_eq!(at(&cursor), before);
            cursor.seek(&key(target)).unwrap();
            let rest: Vec<u32> = keys.iter().copied().filter(|&n| n >= target).collect();
            prop_assert_eq!(forward(&mut cursor), rest);
        }
    }
}

#[test]
fn a_file_keeps_its_handle_until_its_last_part_leaves() {
    let context = context();
    let handle = |table: &Arc<TableDescriptor>| TableFile::new(&context, table.clone());
    let never = |_: &Arc<TableDescriptor>| -> Arc<TableFile> { panic!("the file is known") };
    let table = write(&context, 1, 0..100);
    let start = table.range.start.clone();

    let one =
        Version::new().apply(&edit(vec![], vec![Added::whole(0, RunId(1), table.clone())]), handle).unwrap();
    let file = one.version.level(0).runs()[0].tables()[0].file().clone();
    // The middle moves down, the rest stays.
    let cut = edit(
        vec![removed(0, 1, 1, &start)],
        vec![
            added(0, 1, &table, half_open(0, 40)),
            added(0, 1, &table, half_open(60, 200)),
            added(1, 9, &table, half_open(40, 60)),
        ],
    );
    let two = one.version.apply(&cut, never).unwrap();
    assert!(two.unreferenced.is_empty());
    assert!(two.version.tables().all(|part| Arc::ptr_eq(part.file(), &file)));
    let holds = |level: u32, n: u32| two.version.level(level).runs()[0].find(&key(n)).is_some();
    assert!(holds(0, 39) && !holds(0, 40) && !holds(0, 59) && holds(0, 60) && holds(0, 99));
    assert!(!holds(1, 39) && holds(1, 40) && holds(1, 59) && !holds(1, 60));
    let bytes: u64 = two.version.bytes();
    assert!(bytes.abs_diff(table.bytes) < table.bytes / 10, "{bytes} of {}", table.bytes);

    let most = edit(vec![removed(0, 1, 1, &start), removed(1, 9, 1, &key(40))], vec![]);
    let three = two.version.apply(&most, never).unwrap();
    assert!(three.unreferenced.is_empty());
    let last = three.version.apply(&edit(vec![removed(0, 1, 1, &key(60))], vec![]), never).unwrap();
    assert!(Arc::ptr_eq(&last.unreferenced[0], &file) && last.unreferenced.len() == 1);
    assert!(last.version.runs().is_empty());
    assert_eq!(last.version.level(0).next_run(), RunId(2), "ids are not used again");
}

#[test]
fn runs_are_ranked_by_age() {
    let context = context();
    let handle = |table: &Arc<TableDescriptor>| TableFile::new(&context, table.clone());
    let tables: Vec<_> = (1..=5).map(|file| write(&context, file, 0..10)).collect();
    let places = [(1, 4), (0, 7), (2, 1), (0, 9), (1, 5)];
    let all = places
        .iter()
        .zip(&tables)
        .map(|(&(level, run), table)| Added::whole(level, RunId(run), table.clone()));
    let version = Version::new().apply(&edit(vec![], all.collect()), handle).unwrap().version;
    let order: Vec<_> = version.runs().iter().map(|run| (run.level(), run.id().0)).collect();
    assert_eq!(order, [(0, 9), (0, 7), (1, 5), (1, 4), (2, 1)]);
    assert_eq!(version.deepest_level(&half_open(3, 4)), Some(2));
    assert_eq!(version.deepest_level(&half_open(30, 40)), None);
}

#[test]
fn an_edit_that_does_not_fit_is_refused() {
    let context = context();
    let handle = |table: &Arc<TableDescriptor>| TableFile::new(&context, table.clone());
    let table = write(&context, 1, 0..100);
    let other = write(&context, 2, 50..60);
    let start = table.range.start.clone();
    let whole = || Added::whole(1, RunId(1), table.clone());
    let version = Version::new().apply(&edit(vec![], vec![whole()]), handle).unwrap().version;
    let longer = TableDescriptor { bytes: 1, ..table.clone() };
    for (wrong, says) in [
        (edit(vec![removed(1, 2, 1, &start)], vec![]), "does not hold it"),
        (edit(vec![removed(1, 1, 2, &start)], vec![]), "does not hold it"),
        (edit(vec![removed(1, 1, 1, b"x")], vec![]), "does not hold it"),
        (edit(vec![removed(1, 1, 1, &start), removed(1, 1, 1, &start)], vec![]), "does not hold it"),
        (edit(vec![], vec![Added::whole(1, RunId(1), other.clone())]), "overlap"),
        (edit(vec![], vec![added(1, 2, &other, half_open(70, 80))]), "no key"),
        (edit(vec![], vec![added(2, 1, &longer, KeyRange::all())]), "otherwise"),
        (edit(vec![], vec![added(u32::MAX, 1, &other, KeyRange::all())]), "level"),
    ] {
        let error = version.apply(&wrong, handle).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)) && error.to_string().contains(says), "{error}");
    }
    version.apply(&edit(vec![removed(1, 1, 1, &start)], vec![whole()]), handle).unwrap();
}

#[test]
fn range_tombstones_count_only_within_the_clip() {
    let context = context();
    let mut table =
        TableWriter::create(&context, FileId(1), &Layout::default(), Layout::default().filter.mean(), 0)
            .unwrap();
    let tombstone = RangeTombstone { start: key(10).into(), end: key(90).into(), seqno: 5 };
    table.add_range_tombstones(RangeTombstones::new(vec![tombstone]));
    let file = TableFile::new(&context, Arc::new(table.finish().unwrap().unwrap()));
    let whole = TableRef::new(file, &KeyRange::all()).unwrap();
    let [left, right] = whole.without(&KeyRange::closed(&key(40), &key(49)));
    let run = Run::new(3, RunId(1), vec![right.unwrap(), left.unwrap()]).unwrap();
    let tombstones = run.tombstones().unwrap();
    let covered: Vec<u32> = (0..100).filter(|&n| tombstones.covering(&key(n), 9).is_some()).collect();
    assert_eq!(covered, (10..40).chain(50..90).collect::<Vec<_>>());
    assert_eq!(run.range().end, KeyEnd::Excluded(key(90).into()));
}

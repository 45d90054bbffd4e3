//! Tests of `job` on real tables in a file system in memory, against a brute-force model.
//!
//! A property runs flushes, plans and manual compactions on trees of any shape, and checks what
//! every snapshot reads, forwards and backwards. Single tests: tables are cut by range tombstones
//! too, and versions of a key stay in one table. What is not visible yet displaces nothing. A
//! cancelled job leaves no file, and a job that fails at any call leaves the tree as it was.

use super::*;
use crate::{
    block::Compression,
    cache::Cache,
    dir::{FileName, magic::LOG},
    error::{Error, Result},
    frame::FileKind,
    ids::{DatabaseId, FileId, Seqno},
    index::IndexKind,
    key::{KeyRange, Kind, SharedRange},
    memtable::Memtable,
    merge::visible::{self, Backward, Forward},
    operator::{Append, MergeOperator},
    sight::Reader,
    stats::{LevelCounters, Stats},
    table::{Access, Layout, TableContext, TableDescriptor, TableFile},
    tombstone::RangeTombstone,
    values::ValueFiles,
    version::{RunCursor, TreeEdit, Version},
    vfs::{
        Fs,
        fault::{Call, Effect, Fault, FaultFs},
        mem::MemFs,
    },
};
use proptest::prelude::*;
use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::AtomicBool},
};

#[derive(Clone, Debug)]
enum Op {
    Put(u16, u8),
    PutFor(u16, u8),
    Delete(u16),
    Merge(u16),
    DeleteRange(u16, u16),
    Snapshot,
    Forget(prop::sample::Index),
    Flush,
    Work(u8),
    Wait(u8),
    Compact(u16, u16),
}

fn ops(keys: u16) -> impl Strategy<Value = Vec<Op>> {
    let key = 0..keys;
    let op = prop_oneof![
        400 => (key.clone(), any::<u8>()).prop_map(|(key, len)| Op::Put(key, len)),
        40 => (key.clone(), any::<u8>()).prop_map(|(key, for_ms)| Op::PutFor(key, for_ms)),
        100 => key.clone().prop_map(Op::Delete),
        100 => key.clone().prop_map(Op::Merge),
        20 => (key.clone(), 0u16..30).prop_map(|(key, len)| Op::DeleteRange(key, key + len)),
        5 => Just(Op::Snapshot),
        5 => any::<prop::sample::Index>().prop_map(Op::Forget),
        20 => Just(Op::Flush),
        15 => any::<u8>().prop_map(Op::Work),
        5 => any::<u8>().prop_map(Op::Wait),
        2 => (key.clone(), key.clone()).prop_map(|(a, b)| Op::Compact(a.min(b), a.max(b))),
    ];
    prop::collection::vec(op, 1..2500)
}

fn shapes() -> impl Strategy<Value = Shape> {
    (2u32..=10, 1u32..=4, any::<prop::sample::Index>(), any::<prop::sample::Index>()).prop_map(
        |(size_ratio, level0, first, second)| Shape {
            size_ratio,
            run_limits: vec![
                level0,
                first.index(size_ratio as usize) as u32 + 1,
                second.index(size_ratio as usize) as u32 + 1,
            ],
            write_buffer_bytes: 1500,
            table_bytes: 1024,
        },
    )
}

/// Keys of different lengths that sort like their numbers.
fn key(n: u16) -> Vec<u8> {
    let tail = vec![b'x'; n as usize % 7];
    [b"user", &n.to_be_bytes()[..], &tail].concat()
}

#[derive(Clone)]
struct Written {
    seqno: Seqno,
    kind: Kind,
    value: Vec<u8>,
}

struct World {
    fs: FaultFs,
    context: Arc<TableContext>,
    layout: Layout,
    shape: Shape,
    version: Version,
    ledger: Ledger,
    memtable: Arc<Memtable>,
    next_file: Cell<u64>,
    seqno: Seqno,
    now_ms: u64,
    snapshots: BTreeSet<Seqno>,
    horizon: Horizon,
    history: BTreeMap<Vec<u8>, Vec<Written>>,
    deleted: Vec<RangeTombstone>,
    cancelled: AtomicBool,
}

impl World {
    fn new(shape: Shape, index: IndexKind) -> World {
        shape.validate().unwrap();
        let fs = FaultFs::new(Arc::new(MemFs::new()));
        fs.create_dir_all("/db".as_ref()).unwrap();
        let context = TableContext {
            fs: Arc::new(fs.clone()),
            dir: "/db".into(),
            database: DatabaseId(7),
            direct_reads: false,
            cache: Cache::new(1 << 20),
            stats: Arc::new(Stats::new()),
            wanted: Arc::default(),
        };
        World {
            fs,
            context: Arc::new(context),
            layout: Layout { block_bytes: 256, index, compression: Compression::None, ..Layout::default() },
            shape,
            version: Version::new(),
            ledger: Ledger::new(),
            memtable: Memtable::new(),
            next_file: Cell::new(0),
            seqno: 0,
            now_ms: 1000,
            snapshots: BTreeSet::new(),
            horizon: Horizon::default(),
            history: BTreeMap::new(),
            deleted: Vec::new(),
            cancelled: AtomicBool::new(false),
        }
    }

    fn values(&self) -> Arc<ValueFiles> {
        let logs = FileKind { magic: LOG, version: 1, noun: "log", reserves: true };
        let (fs, dir) = (self.context.fs.clone(), self.context.dir.clone());
        Arc::new(ValueFiles::new(fs, dir, self.context.database, false, logs))
    }

    fn job(&self) -> JobContext<'_> {
        JobContext {
            context: self.context.clone(),
            layout: self.layout,
            filter: self.layout.filter.mean(),
            shape: self.shape.clone(),
            snapshots: self.snapshots.iter().copied().collect(),
            visible: self.seqno,
            values: self.values(),
            victims: Victims::default(),
            separate_from: u64::MAX,
            oldest_transaction: self.snapshots.first().copied().unwrap_or(self.seqno),
            operator: Some(Arc::new(Append)),
            now_ms: self.now_ms,
            keeps_blocks: false,
            syncs_dir: true,
            cancelled: &self.cancelled,
            meanwhile: None,
            new_file: Box::new(|| {
                self.next_file.set(self.next_file.get() + 1);
                FileId(self.next_file.get())
            }),
        }
    }

    fn write(&mut self, n: u16, kind: Kind, value: Vec<u8>) {
        self.seqno += 1;
        let key = key(n);
        self.memtable.insert(&key, self.seqno, kind, &[&value]);
        self.history.entry(key).or_default().push(Written { seqno: self.seqno, kind, value });
    }

    fn apply(&mut self, edit: &TreeEdit) {
        let handle = |table: &Arc<TableDescriptor>| TableFile::new(&self.context, table.clone());
        let applied = self.version.apply(edit, handle).unwrap();
        // A version can always be made anew from what a manifest would hold of it.
        let again = Version::new().apply(&applied.version.to_edit(), handle).unwrap();
        assert_eq!(again.version.to_string(), applied.version.to_string());
        self.version = applied.version;
        applied.unreferenced.iter().for_each(|file| file.mark_obsolete());
    }

    fn flush(&mut self) {
        let outputs = super::flush(std::slice::from_ref(&self.memtable), false, &self.job()).unwrap();
        let edit = flushed(&self.version, &outputs, self.memtable.last_seqno());
        self.apply(&edit);
        self.memtable = Memtable::new();
    }

    fn carry_out(&mut self, plan: &Plan) {
        let ticket = self.ledger.start(plan);
        let outputs = run(plan, &self.job()).unwrap();
        self.ledger.finish(ticket);
        let edit = TreeEdit { values: outputs.values, ..plan.edit(&self.version, &outputs.tables) };
        self.apply(&edit);
    }

    /// Level 0 never waits for reads here.
    fn picture(&mut self) -> Picture<'_> {
        let JobContext { snapshots, visible, oldest_transaction, now_ms, .. } = self.job();
        self.horizon = Horizon { snapshots, visible, oldest_transaction, now_ms, is_held_back: false };
        self.ledger.picture(&self.version, &self.shape, 0, &|_| LevelCounters::default(), &self.horizon)
    }

    fn next_plan(&mut self) -> Option<Plan> {
        pick(&self.picture())
    }

    fn settle(&mut self, plans_max: usize) {
        for _ in 0..plans_max {
            let Some(plan) = self.next_plan() else { return };
            self.carry_out(&plan);
        }
        assert!(plans_max < 5000, "plans go on for ever:\n{}", self.version);
    }

    fn compact(&mut self, range: KeyRange) {
        let mut compaction = ManualCompaction::new(&self.version, range);
        while let Step::Run(plan) = compaction.next(&self.picture()) {
            self.carry_out(&plan);
        }
    }

    fn do_op(&mut self, op: &Op) {
        match op {
            Op::Put(n, len) => self.write(*n, Kind::Put, vec![b'v'; *len as usize % 40]),
            Op::PutFor(n, ms) => {
                let moment = self.now_ms + u64::from(*ms);
                self.write(*n, Kind::PutExpiring, [&moment.to_be_bytes()[..], b"brief"].concat());
            }
            Op::Delete(n) => self.write(*n, Kind::Delete, vec![]),
            Op::Merge(n) => self.write(*n, Kind::Merge, format!("+{}", self.seqno).into_bytes()),
            Op::DeleteRange(a, b) => {
                self.seqno += 1;
                let (start, end) = (key(*a).into(), key(*b).into());
                let tombstone = RangeTombstone { start, end, seqno: self.seqno };
                if !tombstone.is_empty() {
                    self.memtable.add_range_tombstones(vec![tombstone.clone()]);
                    self.deleted.push(tombstone);
                }
            }
            Op::Snapshot => drop(self.snapshots.insert(self.seqno)),
            Op::Forget(which) => {
                if let Some(&one) = self.snapshots.iter().nth(which.index(self.snapshots.len().max(1))) {
                    self.snapshots.remove(&one);
                }
            }
            Op::Flush => self.flush(),
            Op::Work(plans) => {
                for _ in 0..plans % 4 {
                    self.settle(1);
                }
            }
            Op::Wait(ms) => self.now_ms += u64::from(*ms),
            Op::Compact(a, b) => self.compact(KeyRange::closed(&key(*a), &key(*b))),
        }
        if self.memtable.bytes() as u64 > self.shape.write_buffer_bytes {
            self.flush();
        }
    }

    fn expected(&self, snapshot: Seqno) -> Vec<(Vec<u8>, Vec<u8>)> {
        let value = |key: &Vec<u8>, versions: &Vec<Written>| -> Option<Vec<u8>> {
            let over = self.deleted.iter().filter(|t| t.seqno <= snapshot && t.contains(key));
            let cover = over.map(|t| t.seqno).max().unwrap_or(0);
            let mut value = None;
            for written in versions.iter().filter(|w| w.seqno <= snapshot && w.seqno > cover) {
                value = match written.kind {
                    Kind::Put => Some(written.value.clone()),
                    Kind::Delete => None,
                    Kind::Merge => Some(Append.merge(key, value.as_deref(), &[&written.value[..]]).unwrap()),
                    Kind::PutExpiring => {
                        let (moment, rest) = crate::key::split_expiry(&written.value).unwrap();
                        (moment > self.now_ms).then(|| rest.to_vec())
                    }
                    Kind::PutSeparated | Kind::PutExpiringSeparated => unreachable!("none is written"),
                };
            }
            value
        };
        self.history.iter().filter_map(|(key, all)| Some((key.clone(), value(key, all)?))).collect()
    }

    fn view(&self, snapshot: Seqno) -> Result<(Vec<RunCursor>, visible::Scope)> {
        let mut cursors = Vec::new();
        let mut tombstones = Vec::new();
        for run in self.version.runs() {
            cursors.push(RunCursor::new(run.tables().clone(), Access::Cached(0)));
            tombstones.push(run.tombstones()?.clone());
        }
        let operator: Option<Arc<dyn MergeOperator>> = Some(Arc::new(Append));
        let reader = Reader { snapshot, now_ms: self.now_ms, operator, values: None };
        Ok((cursors, visible::Scope { reader, tombstones, range: SharedRange::default() }))
    }

    /// Everything is flushed, so the tables must say it all.
    fn check(&mut self) {
        self.flush();
        for snapshot in self.snapshots.iter().copied().chain([self.seqno]) {
            let expected = self.expected(snapshot);
            let mut found = Vec::new();
            let (cursors, view) = self.view(snapshot).unwrap();
            let mut walk = Forward::new(cursors, view);
            walk.seek_first().unwrap();
            while walk.valid() {
                found.push((walk.key().to_vec(), walk.value().to_vec()));
                walk.next().unwrap();
            }
            assert_eq!(found, expected, "forward at {snapshot} in\n{}", self.version);
            found.clear();
            let (cursors, view) = self.view(snapshot).unwrap();
            let mut walk = Backward::new(cursors, view);
            walk.seek_last().unwrap();
            while walk.valid() {
                found.push((walk.key().to_vec(), walk.value().to_vec()));
                walk.prev().unwrap();
            }
            found.reverse();
            assert_eq!(found, expected, "backward at {snapshot} in\n{}", self.version);
        }
    }

    fn check_files(&self) {
        let named: BTreeSet<String> =
            self.version.tables().map(|table| FileName::Table(table.id()).to_string()).collect();
        let there: BTreeSet<String> = self.fs.list_dir("/db".as_ref()).unwrap().into_iter().collect();
        assert_eq!(there, named);
        for table in self.version.tables() {
            let problems = table.file().table().unwrap().check().unwrap().problems;
            assert!(problems.is_empty(), "{problems:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_tree_of_any_shape_keeps_what_was_written(
        shape in shapes(),
        index in prop::sample::select(IndexKind::ALL.to_vec()),
        ops in (2u16..400).prop_flat_map(ops),
    ) {
        let mut world = World::new(shape, index);
        for (nth, op) in ops.iter().enumerate() {
            world.do_op(op);
            if nth % 500 == 499 {
                world.check();
            }
        }
        world.settle(5000);
        world.check();
        world.settle(5000);
        world.check_files();
        // A requested compaction takes its part out of runs that are full, so that more of them
        // fit.
        let swept = ops.iter().any(|op| matches!(op, Op::Compact(..)));
        for (level, at) in world.version.levels().iter().enumerate() {
            let limit =
                if swept { world.shape.run_count_max() } else { world.shape.run_limit(level as u32) };
            prop_assert!(at.runs().len() as u32 <= limit);
        }
        world.snapshots.clear();
        world.now_ms += 1000;
        world.compact(KeyRange::all());
        world.check();
        world.compact(KeyRange::all());
        world.check_files();
        prop_assert!(world.version.runs().len() <= 1);
        for table in world.version.tables() {
            prop_assert!(!table.has_tombstones() && table.descriptor().merges == 0);
        }
    }
}

fn small() -> Shape {
    Shape { write_buffer_bytes: 1500, table_bytes: 1024, ..Shape::default() }
}

#[test]
fn tables_are_cut_by_range_tombstones_too() {
    let mut world = World::new(small(), IndexKind::Binary);
    world.write(1, Kind::Put, b"before".to_vec());
    // The first lies over all cuts.
    let ranges = [(0, 20_000)].into_iter().chain((10..1000).map(|n| (n * 10, n * 10 + 8)));
    world.shape.write_buffer_bytes = 1 << 20;
    ranges.for_each(|(a, b)| world.do_op(&Op::DeleteRange(a, b)));
    world.write(5000, Kind::Put, b"amid".to_vec());
    world.write(15_000, Kind::Put, b"behind".to_vec());
    let outputs = super::flush(std::slice::from_ref(&world.memtable), false, &world.job()).unwrap();
    assert!(outputs.tables.len() > 3, "{} tables", outputs.tables.len());
    assert!(outputs.tables.iter().all(|table| table.bytes < 4 << 10), "{outputs:?}");
    world.apply(&flushed(&world.version.clone(), &outputs, None));
    world.memtable = Memtable::new();
    world.check();
}

#[test]
fn the_versions_of_a_key_stay_in_one_table() {
    let mut world = World::new(small(), IndexKind::Binary);
    for n in [1, 2, 3] {
        for _ in 0..200 {
            world.write(n, Kind::Put, vec![b'v'; 30]);
            world.snapshots.insert(world.seqno);
        }
    }
    let outputs = super::flush(std::slice::from_ref(&world.memtable), false, &world.job()).unwrap();
    let ranges: Vec<_> = outputs.tables.iter().map(|table| table.range.clone()).collect();
    assert_eq!(ranges, [1, 2, 3].map(|n| KeyRange::closed(&key(n), &key(n))));
}

#[test]
fn what_is_not_visible_yet_does_not_displace_what_is() {
    let mut world = World::new(small(), IndexKind::Binary);
    world.write(1, Kind::Put, b"visible".to_vec());
    let visible = world.seqno;
    world.write(1, Kind::Put, b"not yet".to_vec());
    let job = JobContext { visible, ..world.job() };
    let outputs = super::flush(std::slice::from_ref(&world.memtable), false, &job).unwrap();
    assert_eq!(outputs.tables[0].entries, 2);
}

#[test]
fn a_cancelled_job_leaves_no_file() {
    let mut world = World::new(small(), IndexKind::Binary);
    (0..500).for_each(|n| world.write(n, Kind::Put, vec![b'v'; 30]));
    world.cancelled.store(true, std::sync::atomic::Ordering::Relaxed);
    let failed = super::flush(std::slice::from_ref(&world.memtable), false, &world.job());
    assert!(matches!(failed, Err(Error::Closed)), "{failed:?}");
    assert_eq!(world.fs.list_dir("/db".as_ref()).unwrap(), [""; 0]);
}

/// Feared: a job whose disk fills up half way leaves tables that no version names, or takes one for
/// finished. So every call that it makes fails once.
#[test]
fn a_job_that_fails_anywhere_leaves_the_tree_as_it_was() {
    let mut world = World::new(small(), IndexKind::Binary);
    for round in 0..4 {
        (0..100).for_each(|n| world.write(n * 3 + round, Kind::Put, vec![b'v'; 20]));
        world.flush();
    }
    let plan = world.next_plan().unwrap();
    assert!(plan.work == Work::Merge && plan.sources.len() > 1, "{plan}");
    let before = world.fs.list_dir("/db".as_ref()).unwrap();
    let mut failures = 0;
    for call in [Call::Open, Call::Read, Call::Create, Call::Append, Call::Sync, Call::SyncDir] {
        for skip in 0.. {
            // Tables that have been opened are not opened again.
            world.version = Version::new()
                .apply(&world.version.to_edit(), |table| TableFile::new(&world.context, table.clone()))
                .unwrap()
                .version;
            let plan = world.next_plan().unwrap();
            world.fs.inject(Fault::once(call, skip, Effect::Fail(std::io::ErrorKind::StorageFull)));
            let outputs = run(&plan, &world.job());
            world.fs.heal();
            let Err(error) = outputs else {
                for output in outputs.unwrap().tables {
                    world.fs.remove_file(&world.context.path(output.file)).unwrap();
                }
                break;
            };
            assert!(matches!(error, Error::Io { .. }), "{error}");
            assert_eq!(world.fs.list_dir("/db".as_ref()).unwrap(), before);
            failures += 1;
        }
    }
    assert!(failures > 20, "{failures} failures");
    world.carry_out(&plan);
    world.check();
}

//! Tests of damaged tables, through `Db`: what needs the damage fails, all else goes on.
//!
//! A damaged block stops only what needs it. Newer versions of its keys are read, puts go on,
//! compactions go around it, and level 0 does not fill up. A walk or `compact_range` over it
//! fails; `stats` and `verify` name its file and offset. A table that its device refuses to read is
//! gone around in the same way.
//!
//! Damage is remembered in memory alone. Once the bytes are restored and the database is opened
//! again, the table is read and compacted as any other.

use solera::{
    Db, Error, Options, Shape,
    control::{Change, knob},
    vfs::{
        Fs,
        fault::{Call, Effect, Fault, FaultFs},
        mem::MemFs,
    },
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

const DIR: &str = "/db";
const KEYS: u32 = 4000;

fn open(fs: &MemFs) -> Db {
    open_on(Arc::new(fs.clone()))
}

fn open_on(fs: Arc<dyn Fs>) -> Db {
    let shape = Shape { table_bytes: 16 << 10, ..Shape::default() };
    let options = Options::new().memory(4 << 20).write_buffer(16 << 10).shape(shape).background_threads(0);
    let db = options.fs(fs).seed(1).open(DIR).unwrap();
    let soon = Change::new("test", "level 0 is merged soon, read or not").set(&knob::LEVEL0_PATIENCE, 9u32);
    db.control().apply(soon).unwrap();
    db
}

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// Some bytes that no compression takes away, another text for each number and round.
fn value(n: u32, round: u32) -> Vec<u8> {
    let mix = |at: u64| (u64::from(n) << 32 | u64::from(round) << 8 | at).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (0..100).map(|at| (mix(at) >> 56) as u8 ^ at as u8).collect()
}

fn tables(fs: &MemFs) -> Vec<PathBuf> {
    let tables = fs.files().into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "table"));
    tables.map(|path| Path::new("/").join(path)).collect()
}

/// Flips a bit in the first block of a table.
fn damage(fs: &MemFs, table: &Path) {
    let mut bytes = fs.content(table).unwrap();
    bytes[200] ^= 1;
    fs.set_content(table, &bytes).unwrap();
}

/// The compaction that met the damage was chosen again and again. Level 0 filled up and every put
/// failed.
#[test]
fn a_damaged_block_stops_only_what_needs_it() {
    for level_0 in [false, true] {
        let fs = MemFs::new();
        let db = open(&fs);
        for n in 0..KEYS {
            db.put(key(n), value(n, 0)).unwrap();
        }
        db.flush().unwrap();
        if !level_0 {
            db.compact_range(..).unwrap();
        }
        db.close().unwrap();
        let all = tables(&fs);
        let damaged = &all[if level_0 { all.len() - 1 } else { all.len() / 2 }];
        damage(&fs, damaged);

        let db = open(&fs);
        for round in 1..12 {
            for n in 0..KEYS {
                db.put(key(n * 1237 % KEYS), value(n, round)).unwrap();
            }
            for n in 0..KEYS {
                let number = n * 1237 % KEYS;
                let got = db.get(key(number)).unwrap().expect("what is newer than the damage is read");
                assert_eq!(got, value(n, round));
            }
            let level0_runs = db.stats().keyspaces[0].levels[0].runs.len();
            assert!(level0_runs < 17, "{level0_runs} runs in level 0 in round {round}");
        }
        db.wait_idle().unwrap();
        let stats = &db.stats().keyspaces[0];
        assert_eq!(stats.damaged.len(), 1, "{:?}", stats.damaged);
        assert_eq!(&stats.damaged[0].file, damaged);
        let problems = db.verify().unwrap().problems;
        assert!(
            matches!(&problems[..], [Error::Corrupt { file, offset, .. }]
            if file == damaged && *offset == stats.damaged[0].offset),
            "{problems:?}"
        );
        let lower = stats.levels.iter().filter(|level| level.level > 0 && !level.runs.is_empty());
        assert!(lower.count() > 0, "data goes on to lower levels");
        assert_eq!(db.iter().filter(Result::is_err).count(), 1, "a walk over the damage fails");
        assert!(matches!(db.compact_range(..), Err(Error::Corrupt { .. })));
    }
}

/// Symptom: a table that its device refused to read was to be merged again and again. Level 0
/// filled up and every put failed. Cause: only damage was gone around. Cure: this is, too.
#[test]
fn a_table_that_its_device_refuses_to_read_stops_only_what_needs_it() {
    let memory = MemFs::new();
    let db = open(&memory);
    (0..KEYS).for_each(|n| db.put(key(n), value(n, 0)).unwrap());
    db.compact_range(..).unwrap();
    db.close().unwrap();
    let all = tables(&memory);
    let refused = &all[all.len() / 2];
    let fs = FaultFs::new(Arc::new(memory.clone()));
    let db = open_on(Arc::new(fs.clone()));
    // EIO has this number on every Unix.
    let fault = Fault::sticky(Call::Read, 0, Effect::FailOs(5));
    fs.inject(fault.on(refused.file_name().unwrap().to_str().unwrap()));
    for round in 1..12 {
        for n in 0..KEYS {
            db.put(key(n * 1237 % KEYS), value(n, round)).unwrap();
        }
        let level0_runs = db.stats().keyspaces[0].levels[0].runs.len();
        assert!(level0_runs < 17, "{level0_runs} runs in level 0 in round {round}");
    }
    db.wait_idle().unwrap();
    let damaged = &db.stats().keyspaces[0].damaged;
    assert!(damaged.len() == 1 && &damaged[0].file == refused, "{damaged:?}");
    assert!(damaged[0].what.contains("cannot read"), "{damaged:?}");
}

/// Bytes restored from elsewhere are read again, and the mark goes with the table.
#[test]
fn damage_is_forgotten_when_its_table_is_gone() {
    let fs = MemFs::new();
    let db = open(&fs);
    for n in 0..KEYS {
        db.put(key(n), value(n, 0)).unwrap();
    }
    db.compact_range(..).unwrap();
    db.close().unwrap();
    let table = &tables(&fs)[3];
    let good = fs.content(table).unwrap();
    damage(&fs, table);
    let db = open(&fs);
    assert!(matches!(db.compact_range(..), Ok(())), "nothing there to be compacted");
    for n in 0..KEYS {
        db.put(key(n), value(n, 1)).unwrap();
    }
    while db.step().unwrap() {}
    assert_eq!(db.stats().keyspaces[0].damaged.len(), 1);
    drop(db);
    fs.set_content(table, &good).unwrap();
    let db = open(&fs);
    assert!(db.stats().keyspaces[0].damaged.is_empty());
    db.compact_range(..).unwrap();
    assert!(db.verify().unwrap().problems.is_empty());
    for n in 0..KEYS {
        assert_eq!(db.get(key(n)).unwrap().unwrap(), value(n, 1));
    }
}

//! Test that a closed database keeps neither memory nor descriptors for handles that live on.
//!
//! It counts what the pools of blocks and memtables hold, and on Linux the process's descriptors
//! that lead into the directory. One test and a process of its own, because both are the process's.
//! Door: `Db::close`.

use solera::{
    Error, Options,
    pool::{BLOCKS, CHUNKS},
};
use std::path::Path;

const ENTRIES: u32 = 20_000;

/// How many descriptors of this process lead into `dir`.
fn descriptors(dir: &Path) -> usize {
    let Ok(all) = std::fs::read_dir("/proc/self/fd") else { return 0 };
    let leads = |link: std::path::PathBuf| std::fs::read_link(link).is_ok_and(|to| to.starts_with(dir));
    all.filter(|link| link.as_ref().is_ok_and(|link| leads(link.path()))).count()
}

/// Symptom: a program that opened many databases and closed them, but kept a handle of each, ran
/// out of memory and of descriptors (goleveldb#359, mapdb#457). Cause: `close` gave up the
/// directory, and left memtables, open tables and the cache to the last handle. Cure: it gives
/// these up too.
#[test]
#[cfg_attr(miri, ignore)]
fn a_closed_database_keeps_neither_memory_nor_descriptors_though_handles_live() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap();
    let db = Options::new().memory(64 << 20).background_threads(1).open(&path).unwrap();
    let other = db.keyspace("other").unwrap();
    for n in 0..ENTRIES {
        db.put(n.to_be_bytes(), vec![n as u8; 1000]).unwrap();
    }
    db.flush().unwrap();
    for n in 0..ENTRIES / 10 {
        other.put(n.to_be_bytes(), vec![n as u8; 1000]).unwrap();
    }
    // What a walk comes to is cached the second time.
    (0..2).for_each(|_| assert_eq!(db.iter().map(Result::unwrap).count(), ENTRIES as usize));
    let held = (BLOCKS.held_bytes(), CHUNKS.held_bytes());
    assert!(held.0 > 8 << 20 && held.1 > 1 << 20, "{held:?}");
    if cfg!(target_os = "linux") {
        assert!(descriptors(&path) > 1);
    }
    let (snapshot, batch, kept) = (db.snapshot(), db.batch(), db.clone());
    db.close().unwrap();
    let held = (BLOCKS.held_bytes(), CHUNKS.held_bytes());
    assert!(held.0 <= 1 << 20 && held.1 <= 64 << 10, "{held:?}");
    assert_eq!(descriptors(&path), 0);
    assert!(matches!(kept.get("k"), Err(Error::Closed)) && matches!(other.get("k"), Err(Error::Closed)));
    assert!(matches!(snapshot.get(&other, "k"), Err(Error::Closed)));
    assert!(matches!(kept.write(batch), Err(Error::Closed)));
}

//! Flushes of real memtables into real tables, where the commit order and the logs write down what
//! they are asked.
//!
//! They check that the log is synced before tables are named, and that a failed flush leaves no
//! file. Small trees are flushed together; what is written meanwhile is not waited for; a panic
//! poisons.

use super::*;
use crate::{
    engine::unopened::Unopened,
    error::Error,
    key::Kind,
    vfs::fault::{Call, Effect, Fault},
};
use std::io::ErrorKind;

/// Keyspaces of these names, each with one entry, sealed: the first wrote number 1.
fn sealed(names: &[&str]) -> (Unopened, Vec<Arc<Tree>>) {
    let engine = Unopened::new(names);
    let trees: Vec<_> = names.iter().map(|name| engine.tree(name)).collect();
    for (tree, seqno) in trees.iter().zip(1..) {
        engine.put(tree, "key", seqno);
        assert!(tree.seal());
    }
    (engine, trees)
}

fn flush(engine: &Unopened, tree: &Arc<Tree>) -> Result<()> {
    let claim = engine.work.claim_flush(tree);
    engine.flusher().flush(&claim)
}

#[test]
fn tables_are_named_once_the_log_is_durable_up_to_them_and_then_the_log_may_go() {
    let (engine, trees) = sealed(&["a"]);
    flush(&engine, &trees[0]).unwrap();
    let asked = ["sync to 1: 1 written, 0 named", "remove logs: 1 written, 1 named"];
    assert_eq!(engine.take_asked(), asked);
    assert_eq!(trees[0].flushed_seqno(), 1);
    assert!(trees[0].view().sealed.is_empty());
}

/// Symptom: the row `rests` of 256 MiB took 92 % of what is allowed, and 101 % beside other
/// programs. Cause: a flush held its memtables while it removed logs, which takes long on a busy
/// machine. Cure: it lets go of them first.
#[test]
fn a_flush_lets_go_of_its_memtables_once_tables_are_in_force_and_before_anything_else() {
    let (engine, trees) = sealed(&["a"]);
    let before = engine.store.files.holdings.bytes();
    flush(&engine, &trees[0]).unwrap();
    assert!(before > 0);
    assert_eq!((*engine.held.lock(), engine.store.files.holdings.bytes()), (0, 0));
}

#[test]
fn a_flush_that_fails_leaves_no_file_and_all_memtables_however_many_trees_it_is_of() {
    for names in [&["a"][..], &["a", "b", "c"]] {
        let (engine, trees) = sealed(names);
        let all_is_left = || {
            assert_eq!((engine.written(), engine.named()), (0, 0), "{names:?}");
            assert!(trees.iter().all(|tree| tree.view().sealed.len() == 1), "{names:?}");
        };
        // The log cannot be made durable.
        engine.fail(Some("sync to "));
        flush(&engine, &trees[0]).unwrap_err();
        all_is_left();
        engine.flusher().flush_trees(&trees).unwrap_err();
        all_is_left();
        engine.fail(None);
        // The names of the tables cannot.
        engine.fs.inject(Fault::once(Call::SyncDir, 0, Effect::Fail(ErrorKind::Other)));
        flush(&engine, &trees[0]).unwrap_err();
        all_is_left();
        // The last table cannot be written.
        let skip = names.len() as u64 - 1;
        engine.fs.inject(Fault::once(Call::Create, skip, Effect::Fail(ErrorKind::StorageFull)));
        flush(&engine, &trees[0]).unwrap_err();
        all_is_left();
        flush(&engine, &trees[0]).unwrap();
        assert_eq!((engine.written(), engine.named()), (names.len(), names.len()));
    }
}

#[test]
fn small_trees_are_flushed_together_but_one_that_somebody_else_flushes_is_left_to_him() {
    let (engine, trees) = sealed(&["a", "b", "c", "d"]);
    let others = engine.work.claim_flush(&trees[3]);
    let synced = engine.fs.calls(Call::SyncDir);
    flush(&engine, &trees[0]).unwrap();
    let asked = ["sync to 3: 3 written, 0 named", "remove logs: 3 written, 3 named"];
    assert_eq!(engine.take_asked(), asked);
    assert_eq!(engine.fs.calls(Call::SyncDir) - synced, 1, "for all three tables");
    assert_eq!(trees[3].view().sealed.len(), 1);
    drop(others);
}

#[test]
fn trees_are_flushed_as_they_are_and_what_is_written_meanwhile_is_not_waited_for() {
    let engine = Unopened::new(&["a", "b"]);
    let trees = [engine.tree("a"), engine.tree("b")];
    engine.put(&trees[0], "before", 1);
    let written = trees[0].clone();
    engine.meanwhile(move || written.view().active.insert(b"meanwhile", 2, Kind::Put, &[b"value"]));
    engine.flusher().flush_trees(&trees).unwrap();
    let asked = [
        "seal: 0 written, 0 named",
        "sync to 1: 1 written, 0 named",
        "remove logs: 1 written, 1 named",
        "retire: 1 written, 1 named",
    ];
    assert_eq!(engine.take_asked(), asked);
    assert_eq!((trees[0].flushed_seqno(), trees[0].view().active.is_empty()), (1, false));
}

#[test]
fn a_flush_that_keeps_writers_out_has_its_caller_sync_the_log() {
    let engine = Unopened::new(&["a"]);
    let tree = engine.tree("a");
    engine.put(&tree, "key", 1);
    let claim = engine.work.claim_flush(&tree);
    engine.flusher().flush_locked(&claim, || engine.ask("caller syncs", "")).unwrap();
    // The holder of the commit lock would wait for itself in the environment.
    assert_eq!(engine.take_asked(), ["caller syncs: 1 written, 0 named"]);
    engine.flusher().flush_locked(&claim, || unreachable!("nothing is left to flush")).unwrap();
    engine.put(&tree, "other", 2);
    engine.fail(Some("caller syncs"));
    engine.flusher().flush_locked(&claim, || engine.ask("caller syncs", "")).unwrap_err();
    assert_eq!((engine.written(), engine.named()), (1, 1));
}

#[test]
fn a_panic_in_a_flush_is_its_failure_and_nothing_may_be_written_after_it() {
    let engine = Unopened::new(&["a"]);
    let tree = engine.tree("a");
    engine.put(&tree, "key", 1);
    let claim = engine.work.claim_flush(&tree);
    let error = engine.flusher().flush_locked(&claim, || panic!("no more")).unwrap_err();
    let Error::Poisoned(why) = &error else { panic!("{error}") };
    assert_eq!(why, "a flush of keyspace \"a\" panicked: no more");
    assert!(matches!(engine.store.poison.check(), Err(Error::Poisoned(_))));
}

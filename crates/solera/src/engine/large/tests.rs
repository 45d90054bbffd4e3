//! Large batches into real tables. `Unopened` stands in the place of the logs and writes down what
//! it is asked.
//!
//! They check which batches are large, and the order: flush of what is older, log, sync, tables,
//! one publish. Memtables take over where tables cannot be written. What is not in the log is in no
//! table.

use super::*;
use crate::{
    engine::{
        options::Durability,
        unopened::{Unopened, WRITE_BUFFER_BYTES},
    },
    vfs::fault::{Call, Effect, Fault},
};
use std::io::ErrorKind;

/// A batch of `tree` that takes a little more than so many write buffers.
fn batch(tree: &Arc<Tree>, write_buffers: u64) -> Operations {
    let mut encoder = BatchEncoder::new();
    for number in 0.. {
        if encoder.bytes() as u64 > write_buffers * WRITE_BUFFER_BYTES {
            break;
        }
        encoder.put(tree.id, format!("key {number:06}").as_bytes(), &[b'v'; 1000]);
    }
    Operations { encoder, trees: vec![tree.clone()], durability: Durability::Buffered }
}

fn write(engine: &Unopened, commit: &Commit<()>, operations: Operations) -> Result<Seqno> {
    let Operations { encoder, trees, .. } = operations;
    let writer = LargeWriter { flusher: engine.flusher(), commit, env: engine };
    writer.write(encoder, Terms { trees, reads: None })
}

#[test]
fn a_batch_of_more_than_two_write_buffers_is_large() {
    let engine = Unopened::new(&["a"]);
    let tree = engine.tree("a");
    assert!(!is_large(&batch(&tree, 1), WRITE_BUFFER_BYTES));
    let large = batch(&tree, 2);
    assert!(is_large(&large, WRITE_BUFFER_BYTES));
    assert!(!is_large(&large, large.encoder.bytes() as u64 / 2 + 1));
    let of_many = Operations { trees: vec![tree; TREES_MAX + 1], ..large };
    assert!(!is_large(&of_many, WRITE_BUFFER_BYTES));
}

#[test]
fn a_large_batch_goes_from_the_log_into_tables_above_what_was_flushed_before_it() {
    let (engine, commit) = (Unopened::new(&["a"]), Commit::new((), 0));
    let tree = engine.tree("a");
    let mut first = BatchEncoder::new();
    first.put(tree.id, b"key 000000", b"old");
    commit.batch(first, Terms::default(), Durability::Buffered, &engine).unwrap();
    engine.take_asked();
    let large = batch(&tree, 8);
    let count = Seqno::from(large.encoder.count());
    assert_eq!(write(&engine, &commit, large).unwrap(), 1 + count);
    let asked = engine.take_asked();
    let tables = engine.named();
    assert!(tables > 3, "{tables} tables");
    let expected = [
        "sync: 1 written, 0 named".to_owned(),
        "append: 1 written, 1 named".to_owned(),
        "sync: 1 written, 1 named".to_owned(),
        format!("publish {}: {tables} written, {tables} named", 1 + count),
        format!("remove logs: {tables} written, {tables} named"),
        format!("retire: {tables} written, {tables} named"),
    ];
    assert_eq!(asked, expected);
    assert_eq!(tree.view().memtables().filter_map(|memtable| memtable.last_seqno()).max(), None);
    assert_eq!(tree.flushed_seqno(), 1 + count);
}

#[test]
fn a_large_batch_goes_into_memtables_where_its_tables_cannot_be_written() {
    let (engine, commit) = (Unopened::new(&["a"]), Commit::new((), 0));
    let tree = engine.tree("a");
    // The third of its tables.
    engine.fs.inject(Fault::once(Call::Create, 2, Effect::Fail(ErrorKind::StorageFull)));
    let large = batch(&tree, 8);
    let count = Seqno::from(large.encoder.count());
    assert_eq!(write(&engine, &commit, large).unwrap(), count);
    assert_eq!((engine.written(), engine.named()), (0, 0));
    let newest = tree.view().memtables().filter_map(|memtable| memtable.last_seqno()).max();
    assert_eq!(newest, Some(count));
    assert!(engine.work.failure().is_err(), "who looks is told");
}

#[test]
fn a_large_batch_that_is_not_in_the_log_is_in_no_table() {
    let (engine, commit) = (Unopened::new(&["a"]), Commit::new((), 0));
    let tree = engine.tree("a");
    for failing in ["append", "sync"] {
        engine.fail(Some(failing));
        write(&engine, &commit, batch(&tree, 8)).unwrap_err();
        assert_eq!((engine.written(), engine.named()), (0, 0), "{failing}");
        assert_eq!(tree.view().memtables().filter_map(|memtable| memtable.last_seqno()).max(), None);
    }
}

//! Tests of what is promised of an append, with batches whose values stay in a log in memory.
//!
//! They hold that values lie where it was said, and that an append elsewhere poisons and stops.

use super::*;
use crate::{
    engine::unopened::Unopened,
    ids::{FileId, KeyspaceId},
};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A batch with one value that stays in the log, numbered.
fn batch() -> BatchEncoder {
    let mut batch = BatchEncoder::new();
    batch.put_separated(KeyspaceId(0), b"key", b"a value of its own");
    batch.finish(1);
    batch
}

#[test]
fn values_lie_where_it_was_said_before_the_append() {
    let store = Unopened::new(&[]).store;
    let mut log = store.create_log(FileId(7)).unwrap();
    for _ in 0..3 {
        let mut batches = [batch(), batch()];
        let promised = Promised::place(&log, &mut batches).unwrap();
        log.append(batches.iter().map(|batch| [batch.payload()])).unwrap();
        promised.assert_kept(&log, &store.poison);
    }
}

#[test]
fn an_append_that_lands_elsewhere_stops_and_nobody_writes_after_it() {
    let store = Unopened::new(&[]).store;
    let mut log = store.create_log(FileId(7)).unwrap();
    let mut batches = [batch()];
    let promised = Promised::place(&log, &mut batches).unwrap();
    log.append([[&b"from somebody else"[..]]]).unwrap();
    log.append(batches.iter().map(|batch| [batch.payload()])).unwrap();
    catch_unwind(AssertUnwindSafe(|| promised.assert_kept(&log, &store.poison))).unwrap_err();
    assert!(matches!(store.poison.check(), Err(Error::Poisoned(_))));
}

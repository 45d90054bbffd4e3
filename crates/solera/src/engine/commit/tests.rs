//! Tests of the commit order, in an environment that keeps all in memory and writes down what it is
//! asked.
//!
//! They check the order append, sync, insert, publish, for one writer and for a group. A failed
//! append commits nothing; a failed sync shows nothing. A batch that cannot be inserted poisons.
//! Numbers that are used up are refused first.

use super::*;
use crate::wal::batch::{BatchReader, Operation};
use std::sync::{Barrier, mpsc};

const KEYSPACE: KeyspaceId = KeyspaceId(0);

/// A log, memtables and readers in memory.
#[derive(Default)]
struct Memory {
    /// What was asked, in order.
    asked: Mutex<Vec<String>>,
    /// The call that fails, by its name.
    failing: Mutex<Option<&'static str>>,
    /// Why nothing may be written any more.
    poisoned: Mutex<Option<String>>,
    /// Holds up the first append: told that it has begun, and when it may go on.
    held: Mutex<Option<(mpsc::Sender<()>, Arc<Barrier>)>>,
}

impl Memory {
    fn ask(&self, name: &'static str, details: impl std::fmt::Display) -> Result<()> {
        self.asked.lock().push(format!("{name} {details}").trim().to_owned());
        match *self.failing.lock() {
            Some(failing) if failing == name => Err(Error::Invalid(format!("{name} fails"))),
            _ => Ok(()),
        }
    }

    fn fail(&self, name: Option<&'static str>) {
        *self.failing.lock() = name;
    }

    fn take_asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock())
    }
}

/// Keys of a batch and the number of its first operation: `1:ab`.
fn told(batch: &BatchEncoder) -> String {
    let mut operations = BatchReader::new(batch.payload()).unwrap().map(Result::unwrap).peekable();
    let first = operations.peek().unwrap().0;
    let keys = operations.map(|(_, operation)| match operation {
        Operation::Entry { key, .. } => String::from_utf8(key.to_vec()).unwrap(),
        Operation::DeleteRange { .. } => "-".to_owned(),
    });
    format!("{first}:{}", keys.collect::<String>())
}

impl Environment for Memory {
    /// Frames that are in the log.
    type Log = Vec<String>;

    fn writable(&self) -> Result<()> {
        self.poisoned.lock().clone().map_or(Ok(()), |why| Err(Error::Poisoned(why)))
    }

    fn append(&self, log: &mut Self::Log, last: Seqno, batches: &mut [BatchEncoder]) -> Result<()> {
        if let Some((begun, go_on)) = self.held.lock().take() {
            begun.send(()).unwrap();
            go_on.wait();
        }
        let frames: Vec<_> = batches.iter().map(told).collect();
        self.ask("append", format_args!("{} after {last}", frames.join(" ")))?;
        log.extend(frames);
        Ok(())
    }

    fn sync(&self, _: &mut Self::Log) -> Result<()> {
        self.ask("sync", "").inspect_err(|error| self.poison(error))
    }

    fn insert(&self, batch: &BatchEncoder, _: &mut Vec<Arc<Tree>>) -> Result<()> {
        self.ask("insert", told(batch))
    }

    fn publish(&self, last: Seqno) {
        self.ask("publish", last).unwrap();
    }

    fn seal(&self, _: &mut Self::Log, _: Seqno, _: &[Arc<Tree>]) {
        unreachable!("nothing is ever full");
    }

    fn poison(&self, why: &Error) {
        self.poisoned.lock().get_or_insert(why.to_string());
    }
}

fn batch(keys: &[&str]) -> BatchEncoder {
    let mut batch = BatchEncoder::new();
    keys.iter().for_each(|key| batch.put(KEYSPACE, key.as_bytes(), b"value"));
    batch
}

fn commit(order: &Commit<Vec<String>>, keys: &[&str], durability: Durability, env: &Memory) -> Result<Seqno> {
    order.batch(batch(keys), Terms::default(), durability, env)
}

#[test]
fn a_commit_appends_then_syncs_then_inserts_then_publishes() {
    let (order, env) = (Commit::new(Vec::new(), 41), Memory::default());
    assert_eq!(commit(&order, &["a", "b"], Durability::Sync, &env).unwrap(), 43);
    assert_eq!(env.take_asked(), ["append 42:ab after 41", "sync", "insert 42:ab", "publish 43"]);
    let put = Single::Put { key: b"c", value: b"value" };
    order.single(KEYSPACE, put, Durability::Buffered, &env).unwrap();
    assert_eq!(env.take_asked(), ["append 44:c after 43", "insert 44:c", "publish 44"]);
    order.lock().sync_to(43, |log| env.sync(log)).unwrap();
    assert_eq!(env.take_asked(), [""; 0], "what is durable is not synced again");
    order.lock().sync_to(44, |log| env.sync(log)).unwrap();
    assert_eq!(env.take_asked(), ["sync"]);
}

#[test]
fn a_failed_append_commits_nothing_and_gives_its_numbers_to_the_next() {
    let (order, env) = (Commit::new(Vec::new(), 0), Memory::default());
    env.fail(Some("append"));
    commit(&order, &["a"], Durability::Buffered, &env).unwrap_err();
    env.fail(None);
    assert_eq!(commit(&order, &["b"], Durability::Buffered, &env).unwrap(), 1);
    let expected = ["append 1:a after 0", "append 1:b after 0", "insert 1:b", "publish 1"];
    assert_eq!(env.take_asked(), expected);
    assert_eq!(order.lock().log, ["1:b"]);
}

#[test]
fn a_failed_sync_shows_nothing_and_refuses_every_later_commit() {
    let (order, env) = (Commit::new(Vec::new(), 0), Memory::default());
    env.fail(Some("sync"));
    commit(&order, &["a"], Durability::Sync, &env).unwrap_err();
    env.fail(None);
    assert_eq!(env.take_asked(), ["append 1:a after 0", "sync"]);
    for durability in [Durability::Sync, Durability::Buffered] {
        let refused = commit(&order, &["b"], durability, &env).unwrap_err();
        assert!(matches!(refused, Error::Poisoned(_)), "{refused:?}");
    }
    assert_eq!(env.take_asked(), [""; 0]);
}

#[test]
fn a_batch_that_cannot_be_inserted_is_never_published_and_poisons() {
    let (order, env) = (Commit::new(Vec::new(), 0), Memory::default());
    env.fail(Some("insert"));
    commit(&order, &["a"], Durability::Buffered, &env).unwrap_err();
    env.fail(None);
    assert_eq!(env.take_asked(), ["append 1:a after 0", "insert 1:a"]);
    let refused = commit(&order, &["b"], Durability::Buffered, &env).unwrap_err();
    assert!(matches!(refused, Error::Poisoned(_)), "{refused:?}");
}

#[test]
fn numbers_that_are_used_up_are_refused_before_anything_is_appended() {
    let (order, env) = (Commit::new(Vec::new(), SEQNO_MAX - 1), Memory::default());
    commit(&order, &["a", "b"], Durability::Buffered, &env).unwrap_err();
    assert_eq!(env.take_asked(), [""; 0]);
    assert_eq!(commit(&order, &["a"], Durability::Buffered, &env).unwrap(), SEQNO_MAX);
}

/// Commits `first`; while its append is under way, queues `waiting`, one after the other, then does
/// `between`.
fn commit_while_held(
    env: &Memory,
    order: &Commit<Vec<String>>,
    waiting: &[(&[&str], Durability)],
    between: impl FnOnce(),
) -> (Result<Seqno>, Vec<Result<Seqno>>) {
    let (begun, has_begun) = mpsc::channel();
    let go_on = Arc::new(Barrier::new(2));
    *env.held.lock() = Some((begun, go_on.clone()));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| commit(order, &["first"], Durability::Buffered, env));
        has_begun.recv().unwrap();
        let mut threads = Vec::new();
        for (number, &(keys, durability)) in waiting.iter().enumerate() {
            threads.push(scope.spawn(move || commit(order, keys, durability, env)));
            while order.waiting_count.load(Ordering::Relaxed) <= number {
                std::thread::yield_now();
            }
        }
        between();
        go_on.wait();
        let waiting = threads.into_iter().map(|thread| thread.join().unwrap());
        (first.join().unwrap(), waiting.collect())
    })
}

#[test]
fn writers_that_wait_are_committed_as_one_group_with_one_append_and_one_sync() {
    let (order, env) = (Commit::new(Vec::new(), 0), Memory::default());
    let waiting: [(&[&str], _); 3] =
        [(&["a", "b"], Durability::Buffered), (&["c"], Durability::Sync), (&["d"], Durability::Buffered)];
    let (first, last) = commit_while_held(&env, &order, &waiting, || ());
    assert_eq!(first.unwrap(), 1);
    assert_eq!(last.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [3, 4, 5]);
    let expected = [
        "append 1:first after 0",
        "insert 1:first",
        "publish 1",
        "append 2:ab 4:c 5:d after 1",
        "sync",
        "insert 2:ab",
        "insert 4:c",
        "insert 5:d",
        "publish 5",
    ];
    assert_eq!(env.take_asked(), expected);
}

#[test]
fn all_writers_of_a_group_are_told_that_its_append_failed() {
    let (order, env) = (Commit::new(Vec::new(), 0), Memory::default());
    let waiting: [(&[&str], _); 2] = [(&["a"], Durability::Buffered), (&["b"], Durability::Buffered)];
    let (first, told) = commit_while_held(&env, &order, &waiting, || env.fail(Some("append")));
    first.unwrap_err();
    told.into_iter().for_each(|told| drop(told.unwrap_err()));
    assert_eq!(env.take_asked(), ["append 1:first after 0", "append 1:a 2:b after 0"]);
}

#[test]
#[should_panic(expected = "what is durable was given out")]
fn a_number_that_was_not_given_out_is_not_durable() {
    let order = Commit::new(Vec::<String>::new(), 41);
    order.lock().are_durable(41);
    order.lock().are_durable(42);
}

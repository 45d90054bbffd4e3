//! Tests of what programs that embed the engine meet at its face: paths, operators, closing,
//! ranges, types.
//!
//! Keys and ranges are taken in every type that can be seen as bytes, and a range deletion reaches
//! the largest key. A relative path survives a change of directory. A database opens without its
//! own merge operator, and a refused operand is an error of its entry. `close` lets go of the
//! directory, waits for calls that merge, and tells of a directory that was removed or renamed. A
//! shape that does not fit is refused.

use solera::{
    Db, Durability, Error, Keyspace, KeyspaceOptions, MergeOperator, Options, Shape, Slice,
    key::KEY_BYTES_MAX, trace::TraceOptions,
};
use std::{
    borrow::Cow,
    collections::BTreeSet,
    fs, io,
    ops::Bound,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

fn opened(dir: &Path) -> Db {
    Options::new().memory(8 << 20).background_threads(0).open(dir).unwrap()
}

fn keys(keyspace: &Keyspace) -> Vec<Vec<u8>> {
    keyspace.iter().keys().map(|key| key.unwrap().into()).collect()
}

#[test]
fn keys_and_values_are_taken_in_every_type_that_can_be_seen_as_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let db = opened(dir.path());
    let (text, bytes, shared) = (String::from("a"), vec![b'b'], Arc::<[u8]>::from(*b"c"));
    db.put("a", "v").unwrap();
    db.put(&bytes, &text).unwrap();
    db.put(&shared, String::from("owned")).unwrap();
    db.put(*b"d", Cow::Borrowed(&b"cow"[..])).unwrap();
    assert_eq!(db.get(&text).unwrap().unwrap(), "v");
    assert_eq!(db.get(text).unwrap().unwrap(), b"v");
    assert_eq!(db.prefix("a").count(), 1);
    let value = db.get("b").unwrap().unwrap();
    assert_eq!("a", value);
    assert_eq!(value, "a");
    assert_eq!(value, vec![b'a']);
    assert_eq!(*b"a", value);
    assert_eq!(value, *"a");
    assert_eq!(Vec::from(value), b"a");
    assert_eq!(Slice::from("text"), String::from("text"));
    assert_eq!(db.multi_get(&["a", "d"]).unwrap()[1].as_ref().unwrap(), "cow");
    assert_eq!(db.snapshot().get(db.default(), "d").unwrap().unwrap(), "cow");

    let mut batch = db.batch();
    batch.put(db.default(), "e", "1").unwrap();
    batch.delete(db.default(), String::from("a")).unwrap();
    db.write(batch).unwrap();
    let mut transaction = db.transaction();
    assert_eq!(transaction.get(db.default(), "e").unwrap().unwrap(), "1");
    transaction.put(db.default(), "f", vec![1, 2]).unwrap();
    transaction.commit().unwrap();
    assert_eq!(db.get("f").unwrap().unwrap(), [1, 2]);
    assert_eq!(keys(db.default()), [b"b", b"c", b"d", b"e", b"f"]);
}

#[test]
fn a_range_needs_no_type_and_may_be_open_at_both_ends() {
    let dir = tempfile::tempdir().unwrap();
    let db = opened(dir.path());
    ["a", "b", "c"].into_iter().for_each(|key| db.put(key, "").unwrap());
    assert_eq!(db.range(..).count(), 3);
    assert_eq!(db.range("b"..).count(), 2);
    assert_eq!(db.range(..=String::from("b")).count(), 2);
    assert_eq!(db.range((Bound::Excluded("a"), Bound::Unbounded)).count(), 2);
    assert_eq!(db.range(&(b"a".as_slice()..b"b".as_slice())).count(), 1);
    assert_eq!(db.snapshot().range(db.default(), ..).count(), 3);
    assert_eq!(db.transaction().range(db.default(), ..).count(), 3);
    db.compact_range(..).unwrap();
}

/// Symptom: a range deletion had an end that it did not include, so that none reached the longest
/// of the largest keys. Cause: it took two keys. Cure: it takes any bounds, and the end of all keys
/// is stored as a length that no key has.
#[test]
fn a_range_deletion_reaches_the_largest_key_in_memory_on_disk_and_after_a_crash() {
    let largest = vec![u8::MAX; KEY_BYTES_MAX];
    let next = [&largest[1..], &[u8::MAX - 1]].concat();
    let fill = |keyspace: &Keyspace| {
        for key in [&b""[..], b"a", b"b", &next, &largest] {
            keyspace.put(key, "v").unwrap();
        }
    };
    for flushes in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let names = ["from", "upto", "between", "all", "batch", "transaction", "prefix", "empty"];
        let expected: [&[&[u8]]; 8] = [
            &[b"", b"a"],
            &[&largest],
            &[b"", b"a", &largest],
            &[],
            &[b"", b"a", b"b"],
            &[b"", b"a"],
            &[b"", b"a", b"b"],
            &[b"", b"a", b"b", &next, &largest],
        ];
        let db = opened(dir.path());
        let of: Vec<_> = names.iter().map(|name| db.keyspace(name).unwrap()).collect();
        of.iter().for_each(fill);
        if flushes {
            db.flush().unwrap();
        }
        of[0].delete_range("b"..).unwrap();
        of[1].delete_range(..=&next).unwrap();
        of[2].delete_range((Bound::Excluded(b"a".as_slice()), Bound::Excluded(&largest[..]))).unwrap();
        of[3].clear().unwrap();
        let mut batch = db.batch();
        batch.delete_prefix(&of[4], [u8::MAX]).unwrap();
        db.write(batch).unwrap();
        let mut transaction = db.transaction();
        transaction.delete_range(&of[5], "b"..=&String::from("b")).unwrap();
        transaction.delete_prefix(&of[5], &largest[..7]).unwrap();
        assert_eq!(transaction.iter(&of[5]).count(), 2);
        transaction.commit().unwrap();
        of[6].delete_prefix(&largest[..9]).unwrap();
        of[7].delete_range("b".."a").unwrap();
        of[7].delete_range((Bound::Excluded(&largest), Bound::Unbounded)).unwrap();
        let check = |db: &Db| {
            for (name, expected) in names.iter().zip(expected) {
                assert_eq!(keys(&db.keyspace(name).unwrap()), expected, "{name}");
            }
        };
        check(&db);
        // As after a crash: the log is read again.
        std::mem::forget(db.clone());
        drop(of);
        let copy = tempfile::tempdir().unwrap();
        for file in fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().path()) {
            fs::copy(&file, copy.path().join(file.file_name().unwrap())).unwrap();
        }
        let db = opened(copy.path());
        check(&db);
        db.flush().unwrap();
        check(&db);
        db.close().unwrap();
        let db = opened(copy.path());
        check(&db);
        for name in names {
            db.keyspace(name).unwrap().compact_range(..).unwrap();
        }
        check(&db);
        db.clear().unwrap();
        db.keyspace("all").unwrap().put(&largest, "again").unwrap();
        assert!(db.keyspace("all").unwrap().contains_key(&largest).unwrap());
        assert!(db.verify().unwrap().problems.is_empty());
    }
}

#[test]
fn a_range_deletion_to_the_end_takes_few_bytes_of_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let db = opened(dir.path());
    let mut batch = db.batch();
    let before = batch.bytes();
    batch.delete_range(db.default(), ..).unwrap();
    assert!(batch.bytes() - before < 10, "{} bytes", batch.bytes() - before);
}

/// Symptom: a loop that wrote while it walked did not compile. Cause: the iterator borrowed the
/// transaction. Cure: it shares what was read.
#[test]
fn a_transaction_writes_while_it_scans_and_what_it_scanned_is_validated() {
    let dir = tempfile::tempdir().unwrap();
    let db = opened(dir.path());
    ["a", "b", "c"].into_iter().for_each(|key| db.put(key, "1").unwrap());
    let mut transaction = db.transaction();
    for entry in transaction.iter(db.default()) {
        let (key, _) = entry.unwrap();
        transaction.put(db.default(), [b"z", &key[..]].concat(), "2").unwrap();
    }
    let late = transaction.iter(db.default());
    transaction.commit().unwrap();
    assert_eq!(late.count(), 6, "an iterator goes on when its transaction is over");

    let mut transaction = db.transaction();
    for key in transaction.range(db.default(), "a".."c").keys() {
        transaction.delete(db.default(), key.unwrap()).unwrap();
    }
    db.put("bb", "between").unwrap();
    assert!(matches!(transaction.commit(), Err(Error::Conflict)));
    assert_eq!(db.iter().count(), 7);
}

/// Symptom: after `chdir` reads and writes of a database that was opened by a relative path failed.
/// A publisher replaced, and removed in the end, another file of the same name, and a recording did
/// not find its own. Cause: paths were kept as they were given. Cure: they are made absolute. A
/// process has one current directory, so the test runs itself in another one.
#[test]
#[expect(clippy::disallowed_methods, reason = "the file there is another program's")]
fn a_database_that_was_opened_by_a_relative_path_survives_a_change_of_directory() {
    const CHILD: &str = "SOLERA_TEST_CHANGES_DIRECTORY";
    if std::env::var_os(CHILD).is_some() {
        let db = Options::new().memory(1 << 20).background_threads(1).open("here").unwrap();
        let control = db.control();
        let publisher = control.publish(Some("seen".as_ref()), Duration::from_millis(10)).unwrap();
        let recording = control.trace("done.trace".as_ref(), TraceOptions::new()).unwrap();
        fs::create_dir("elsewhere").unwrap();
        std::env::set_current_dir("elsewhere").unwrap();
        fs::write("seen", "of a friend").unwrap();
        for n in 0..2000u32 {
            db.put(n.to_be_bytes(), [7; 100]).unwrap();
        }
        db.flush().unwrap();
        db.compact_range(..).unwrap();
        assert_eq!(db.iter().count(), 2000);
        db.checkpoint("copy").unwrap();
        assert!(solera::control::published("../seen".as_ref()).unwrap().window_us > 0);
        assert!(recording.finish().unwrap().failure.is_none());
        drop(publisher);
        db.close().unwrap();
        assert_eq!(fs::read("seen").unwrap(), b"of a friend", "another file has the name here");
        assert!(fs::exists("../done.trace").unwrap() && !fs::exists("../seen").unwrap());
        assert_eq!(Db::open("../here").unwrap().iter().count(), 2000);
        assert_eq!(Db::open("copy").unwrap().iter().count(), 2000);
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let itself = "a_database_that_was_opened_by_a_relative_path_survives_a_change_of_directory";
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([itself, "--exact"]).env(CHILD, "1").current_dir(dir.path());
    let output = child.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(dir.path().join("here/CURRENT").exists());
}

/// Symptom: a checkpoint beside the database, named `../copy` from its directory, was refused as
/// one in it; one in it, named from elsewhere, was made. Cause: paths were compared as they were
/// written. Cure: `..` is taken out before.
#[test]
fn a_checkpoint_may_be_named_from_the_database_s_directory_but_does_not_lie_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let db = opened(&dir.path().join("db"));
    db.put("k", "v").unwrap();
    db.checkpoint(db.dir().join("../copy")).unwrap();
    assert_eq!(opened(&dir.path().join("copy")).get("k").unwrap().unwrap(), "v");
    for inside in ["db/copy", "copy/../db/copy", "db/x/../copy"] {
        let refused = db.checkpoint(dir.path().join(inside)).unwrap_err();
        assert!(refused.to_string().contains("in the database's own directory"), "{refused}");
    }
}

/// Joins operands by commas; refuses those that are not in lower case.
struct Joined;

impl MergeOperator for Joined {
    fn name(&self) -> &str {
        "joined"
    }

    fn merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        let parts: Vec<&[u8]> = base.into_iter().chain(operands.iter().copied()).collect();
        match parts.iter().flat_map(|part| part.iter()).any(u8::is_ascii_uppercase) {
            true => Err("upper case".into()),
            false => Ok(parts.join(&b","[..])),
        }
    }
}

/// Symptom: a database with an operator of its own could not be opened without it. Cause: every
/// keyspace had to find its operator. Cure: a stand-in has the name, and refuses.
#[test]
fn a_database_opens_without_its_own_merge_operator_and_only_what_needs_it_fails() {
    let dir = tempfile::tempdir().unwrap();
    let with = || KeyspaceOptions::new().merge_operator(Arc::new(Joined));
    let db = opened(dir.path());
    let words = db.keyspace_with("words", with()).unwrap();
    words.put("a", "plain").unwrap();
    words.merge("b", "one").unwrap();
    words.flush().unwrap();
    words.merge("b", "two").unwrap();
    words.put("c", "plain").unwrap();
    drop(words);
    db.close().unwrap();

    for read_only in [true, false] {
        let db = Options::new().read_only(read_only).background_threads(0).open(dir.path()).unwrap();
        let words = db.keyspace("words").unwrap();
        assert_eq!(words.get("a").unwrap().unwrap(), "plain");
        assert!(words.contains_key("b").unwrap(), "whatever its value is");
        let error = words.get("b").unwrap_err();
        assert!(matches!(&error, Error::Merge { operator, .. } if operator == "joined"), "{error:?}");
        assert!(error.to_string().contains("Options::register_operator"), "{error}");
        assert_eq!(keys(&words), [b"a", b"b", b"c"]);
        let (read, failed): (Vec<_>, Vec<_>) = words.iter().partition(Result::is_ok);
        assert_eq!((read.len(), failed.len()), (2, 1));
        if read_only {
            continue;
        }
        assert!(matches!(words.merge("b", "three"), Err(Error::Merge { .. })));
        assert!(matches!(db.batch().merge(&words, "b", "three"), Err(Error::Merge { .. })));
        words.put("d", "new").unwrap();
        words.flush().unwrap();
        words.compact_range(..).unwrap();
        drop(words);
        // Given later, it folds what was left for it.
        let words = db.keyspace_with("words", with()).unwrap();
        assert_eq!(words.get("b").unwrap().unwrap(), "one,two");
        words.merge("b", "three").unwrap();
        db.close().unwrap();
    }
    let db = Options::new().register_operator(Arc::new(Joined)).open(dir.path()).unwrap();
    assert_eq!(db.keyspace("words").unwrap().get("b").unwrap().unwrap(), "one,two,three");
}

/// Symptom: one operand that its operator refuses ended every walk over its keyspace. Cause: an
/// error of one entry counted as a failure of the walk. Cure: the walker stands on such an entry.
#[test]
fn an_operand_that_its_operator_refuses_is_an_error_of_its_entry_and_the_walk_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let db = opened(dir.path());
    let words = db.keyspace_with("words", KeyspaceOptions::new().merge_operator(Arc::new(Joined))).unwrap();
    let fill = |from: u8| {
        for key in from..from + 3 {
            words.put([key, 0], "base").unwrap();
            words.merge([key, 1], "REFUSED").unwrap();
            words.merge([key, 1], "fine").unwrap();
            words.merge([key, 2], "fine").unwrap();
        }
    };
    fill(b'a');
    words.flush().unwrap();
    fill(b'c');
    // Much written: from behind, such a key is looked at from the front.
    (0..100).for_each(|_| words.merge("a\u{1}", "more").unwrap());
    let expected: Vec<(Vec<u8>, bool)> =
        (b'a'..=b'e').flat_map(|key| [0, 1, 2].map(|end| (vec![key, end], end != 1))).collect();
    let check = |iter: &mut dyn Iterator<Item = solera::Result<(Slice, Slice)>>,
                 expected: &[(Vec<u8>, bool)]| {
        for (key, is_read) in expected {
            match iter.next().unwrap() {
                Ok((found, _)) => assert!(*is_read && found == *key, "{found:?} for {key:?}"),
                Err(error) => assert!(!is_read && matches!(error, Error::Merge { .. }), "{key:?}: {error}"),
            }
        }
        assert!(iter.next().is_none());
    };
    let backward: Vec<_> = expected.iter().rev().cloned().collect();
    let mut transaction = db.transaction();
    transaction.merge(&words, "e\u{2}", "own").unwrap();
    for _ in 0..2 {
        check(&mut words.iter(), &expected);
        check(&mut words.iter().rev(), &backward);
        check(&mut transaction.iter(&words), &expected);
        check(&mut transaction.iter(&words).rev(), &backward);
        assert_eq!(words.iter().keys().count(), expected.len());
        assert_eq!(words.iter().keys().rev().filter(Result::is_ok).count(), expected.len());
        // From both ends, until they meet; and from one that was sought.
        let mut iter = words.iter();
        let met: Vec<_> =
            (0..).map_while(|n| if n % 2 == 0 { iter.next() } else { iter.next_back() }).collect();
        assert_eq!((met.len(), met.iter().filter(|entry| entry.is_err()).count()), (15, 5));
        let mut iter = words.iter();
        iter.seek("b\u{1}").unwrap();
        check(&mut iter, &expected[4..]);
        iter.seek("a\u{1}").unwrap();
        iter.seek_back("b\u{1}").unwrap();
        assert!(iter.next_back().unwrap().is_err());
        assert_eq!(iter.next_back().unwrap().unwrap().0, "b\0");
        assert!(iter.next().unwrap().is_err());
        words.compact_range(..).unwrap();
    }
}

/// Symptom: after `close` the directory stayed locked while any handle lived. Cause: the lock was
/// given back with the last of them. Cure: `close` gives it back, and handles say that it did.
#[test]
fn close_lets_go_of_the_directory_though_handles_live_and_they_say_closed() {
    for threads in [0, 2] {
        let dir = tempfile::tempdir().unwrap();
        let open = || Options::new().memory(8 << 20).background_threads(threads).open(dir.path());
        let db = open().unwrap();
        for n in 0..500u32 {
            db.put(n.to_be_bytes(), [1; 50]).unwrap();
        }
        db.flush().unwrap();
        let (other, keyspace) = (db.clone(), db.keyspace("k").unwrap());
        let (mut batch, snapshot, mut transaction) = (db.batch(), db.snapshot(), db.transaction());
        batch.put(db.default(), "k", "v").unwrap();
        transaction.put(db.default(), "k", "v").unwrap();
        let (mut fresh, mut begun, mut keys) = (db.iter(), db.iter(), db.iter().keys());
        let kept = begun.next().unwrap().unwrap();
        begun.next_back().unwrap().unwrap();
        keys.next().unwrap().unwrap();
        let observed = db.control().clone();
        db.close().unwrap();

        let again = open().expect("nobody has the directory");
        again.put("new", "here").unwrap();
        again.delete_range(..).unwrap();
        again.compact_range(..).unwrap();
        fn closed<T>(result: Result<T, Error>) -> bool {
            matches!(result, Err(Error::Closed))
        }
        assert!(closed(other.get("k")) && closed(keyspace.get("k")) && closed(other.multi_get(&["k"])));
        assert!(closed(other.put("k", "v")) && closed(keyspace.delete("k")) && closed(other.clear()));
        assert!(closed(other.flush()) && closed(other.sync()) && closed(other.compact_range(..)));
        assert!(closed(other.ingest([("k", "v")])) && closed(other.keyspace("l")) && closed(other.step()));
        assert!(closed(other.drop_keyspace("k")) && closed(other.checkpoint(dir.path().join("c"))));
        assert!(closed(batch.put(other.default(), "k", "v")) && closed(other.write(batch)));
        assert!(closed(snapshot.get(other.default(), "k")) && closed(transaction.get(other.default(), "a")));
        assert!(closed(transaction.commit()));
        assert!(closed(fresh.next().unwrap()) && fresh.next().is_none() && closed(fresh.seek("a")));
        assert!(closed(begun.next().unwrap()) && begun.next_back().is_none());
        assert!(closed(keys.next_back().unwrap()) && closed(other.iter().next().unwrap()));
        assert_eq!(kept.1, [1; 50], "what was returned stays");
        assert!(closed(other.verify()), "what is closed is not read");
        assert!(closed(other.disk_space()), "others have the directory");
        assert!(
            closed(observed.publish(None, Duration::from_secs(1))) && !dir.path().join("OBSERVED").exists()
        );
        assert!(closed(observed.trace(&dir.path().join("trace"), TraceOptions::new())));
        assert!(other.clone().close().is_ok(), "a second time");
        drop((other, keyspace, snapshot, fresh, begun, keys, observed));
        assert_eq!(again.iter().count(), 0);
        again.put("more", "here").unwrap();
        again.close().unwrap();
        assert_eq!(open().unwrap().get("more").unwrap().unwrap(), "here");
    }
}

/// Symptom: a database that was restored in the place of a closed one lacked a table. Cause: an
/// iterator of the closed one was the last to have a table that a merge had replaced, and removed
/// it by its name. Cure: what readers have when a database is closed stays for the next open.
#[test]
#[expect(clippy::disallowed_methods, reason = "a program puts a checkpoint in its place")]
fn an_iterator_of_a_closed_database_removes_nothing_of_one_that_was_restored_in_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let (place, backup) = (dir.path().join("db"), dir.path().join("backup"));
    for threads in [0, 2] {
        let open = || Options::new().memory(16 << 20).background_threads(threads).open(&place).unwrap();
        let db = open();
        let put = |db: &Db| (0..1000u32).for_each(|n| db.put(n.to_be_bytes(), [7; 50]).unwrap());
        put(&db);
        db.flush().unwrap();
        db.checkpoint(&backup).unwrap();
        let mut walk = db.iter();
        assert!(walk.next().is_some());
        put(&db);
        db.flush().unwrap();
        db.compact_range(..).unwrap();
        db.close().unwrap();
        std::fs::remove_dir_all(&place).unwrap();
        std::fs::rename(&backup, &place).unwrap();
        let restored = open();
        drop(walk);
        assert_eq!(restored.iter().map(Result::unwrap).count(), 1000);
        restored.close().unwrap();
        // What stays where nothing was restored goes with the next open.
        let tables = || -> BTreeSet<PathBuf> {
            let names = std::fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path());
            names.filter(|path| path.extension().is_some_and(|ext| ext == "table")).collect()
        };
        let db = open();
        let mut walk = db.iter();
        assert!(walk.next().is_some());
        let held = tables();
        put(&db);
        db.flush().unwrap();
        db.compact_range(..).unwrap();
        db.close().unwrap();
        drop(walk);
        assert!(!held.is_empty() && held.is_subset(&tables()), "{held:?}");
        // A worker may rewrite other tables at once: without the walk they have garbage.
        let db = open();
        assert!(held.is_disjoint(&tables()), "{held:?}");
        db.close().unwrap();
        std::fs::remove_dir_all(&place).unwrap();
    }
}

#[test]
fn close_waits_for_those_who_merge_and_nobody_writes_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Options::new().memory(8 << 20).background_threads(1).open(dir.path());
    for round in 0..5u32 {
        let db = open().unwrap();
        std::thread::scope(|scope| {
            for thread in 0..3u32 {
                let db = db.clone();
                scope.spawn(move || {
                    for n in 0.. {
                        let done = match thread {
                            0 => db.compact_range(..),
                            1 => db.flush(),
                            _ => db.put([round, n].map(u32::to_be_bytes).concat(), [3; 200]),
                        };
                        match done {
                            Ok(()) => {}
                            Err(Error::Closed) => break,
                            Err(error) => panic!("{error}"),
                        }
                    }
                });
            }
            std::thread::sleep(std::time::Duration::from_millis(30));
            db.clone().close().unwrap();
            let again = open().unwrap();
            assert!(again.verify().unwrap().problems.is_empty());
            again.close().unwrap();
        });
    }
}

/// Symptom: the directory was removed, and `sync` and `close` said that all was well. Cause: what
/// has no name can be synced. Cure: they look for the name.
#[test]
fn a_directory_that_was_removed_while_open_is_told_by_sync_and_close() {
    let is_gone = |result: Result<(), Error>| match result {
        Err(error) => error.io_kind() == Some(io::ErrorKind::NotFound),
        Ok(()) => false,
    };
    for writes in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let db = opened(dir.path());
        db.put("before", "v").unwrap();
        db.sync().unwrap();
        fs::remove_dir_all(dir.path()).unwrap();
        if writes {
            db.put("after", "v").unwrap();
        }
        assert!(is_gone(db.sync()));
        let mut batch = db.batch();
        batch.put(db.default(), "durable", "v").unwrap();
        batch.durability(Durability::Sync);
        assert!(db.write(batch).is_err(), "it would survive nothing");
        assert!(db.close().is_err());
    }
}

/// Symptom: the directory was renamed, and durable writes and tickets said that all was well.
/// Cause: a file that has another name can be synced, and has a name. Cure: after each sync the
/// file's path is looked up, which costs little beside it.
#[test]
#[expect(clippy::disallowed_methods, reason = "others rename the directory")]
fn nothing_is_called_durable_once_the_directory_was_renamed() {
    type Write = fn(&Db) -> Result<(), Error>;
    let ways: [(&str, Write); 5] = [
        ("a durable batch", |db| {
            let mut batch = db.batch();
            batch.put(db.default(), "durable", "v")?;
            batch.durability(Durability::Sync);
            db.write(batch).map(drop)
        }),
        ("a durable transaction", |db| {
            let mut transaction = db.transaction();
            transaction.put(db.default(), "durable", "v")?;
            transaction.durability(Durability::Sync);
            transaction.commit().map(drop)
        }),
        ("a ticket", |db| {
            db.put("durable", "v")?;
            db.ticket().wait()
        }),
        ("a flush", |db| db.put("durable", "v").and_then(|()| db.flush())),
        ("a keyspace", |db| db.keyspace("new").map(drop)),
    ];
    for (what, write) in ways {
        // Away; away and another database in its place; and the directory above it.
        for moved in 0..3 {
            let root = tempfile::tempdir().unwrap();
            let (above, elsewhere) = (root.path().join("above"), root.path().join("elsewhere"));
            let dir = above.join("db");
            fs::create_dir_all(&dir).unwrap();
            let db = opened(&dir);
            db.put("before", "v").unwrap();
            db.sync().unwrap();
            let old = db.ticket();
            fs::rename(if moved == 2 { &above } else { &dir }, &elsewhere).unwrap();
            if moved == 1 {
                fs::create_dir_all(&dir).unwrap();
                opened(&dir).put("another", "database").unwrap();
            }
            db.put("buffered", "v").unwrap();
            assert!(write(&db).is_err(), "{what}, moved {moved}");
            assert!(old.is_durable(), "that was so before");
            assert!(!db.ticket().is_durable(), "{what}, moved {moved}");
            assert!(db.close().is_err(), "{what}, moved {moved}");
        }
    }
}

/// Symptom: a handle of a database whose directory was renamed wrecked the one that had the place
/// then, and `sync` said that all was well. Cause: a manifest that had grown was written anew by
/// its name, and CURRENT with it; `sync` looked for CURRENT alone. Cure: both look whether the
/// manifest is there.
#[test]
#[expect(clippy::disallowed_methods, reason = "others rename the directory")]
fn a_handle_that_lost_its_directory_leaves_the_database_alone_that_has_its_place() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("db");
    let manifest_bytes = || {
        let files = fs::read_dir(&dir).unwrap().map(Result::unwrap);
        let manifests = files.filter(|file| file.file_name().to_string_lossy().starts_with("MANIFEST-"));
        manifests.map(|file| file.metadata().unwrap().len()).sum::<u64>()
    };
    let old = opened(&dir);
    let first = manifest_bytes();
    assert!(first > 0);
    for n in 0.. {
        if manifest_bytes() >= 2 * first + (64 << 10) {
            break;
        }
        old.keyspace(&format!("{n:0200}")).unwrap();
    }
    old.put("old", "v").unwrap();
    old.sync().unwrap();
    fs::rename(&dir, parent.path().join("away")).unwrap();
    let new = opened(&dir);
    new.put("new", "v").unwrap();
    new.flush().unwrap();
    let gone = old.sync().unwrap_err();
    assert_eq!(gone.io_kind(), Some(io::ErrorKind::NotFound), "{gone}");
    assert!(old.keyspace("one more").is_err() && old.close().is_err());
    new.put("newer", "v").unwrap();
    new.close().unwrap();
    assert_eq!(keys(opened(&dir).default()), [b"new".to_vec(), b"newer".to_vec()]);
    assert_eq!(keys(opened(&parent.path().join("away")).default()), [b"old".to_vec()]);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the files are those of others")]
fn a_new_database_opens_beside_what_a_file_system_puts_into_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("lost+found")).unwrap();
    fs::write(dir.path().join(".DS_Store"), "x").unwrap();
    let db = opened(dir.path());
    db.put("k", "v").unwrap();
    let copy = tempfile::tempdir().unwrap();
    fs::create_dir(copy.path().join("lost+found")).unwrap();
    db.checkpoint(copy.path()).unwrap();
    assert_eq!(opened(copy.path()).get("k").unwrap().unwrap(), "v");
    assert!(copy.path().join("lost+found").exists() && dir.path().join(".DS_Store").exists());

    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("notes.txt"), "mine").unwrap();
    assert!(matches!(Db::open(other.path()), Err(Error::NotADatabase { .. })));
    assert!(db.checkpoint(other.path()).is_err() && other.path().join("notes.txt").exists());
}

/// Symptom: a new database emptied another program's file LOCK in its directory, also behind a link
/// of that name. Cause: the writer's process number is written there. Cure: only into a file
/// that is empty or has one.
#[test]
#[expect(clippy::disallowed_methods, reason = "the file is another program's")]
fn a_file_that_is_called_as_the_lock_is_locked_and_not_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let lock = dir.path().join("LOCK");
    for letter in ["of a friend", "123456789012345678901"] {
        fs::write(&lock, letter).unwrap();
        let db = opened(dir.path());
        db.put("k", "v").unwrap();
        assert!(matches!(Db::open(dir.path()), Err(Error::Locked { pid: None, .. })));
        db.close().unwrap();
        assert_eq!(fs::read(&lock).unwrap(), letter.as_bytes());
    }
    // What a killed process left is no letter.
    fs::write(&lock, "1234567").unwrap();
    let db = opened(dir.path());
    assert_eq!(fs::read(&lock).unwrap(), std::process::id().to_string().as_bytes());
    db.close().unwrap();
    assert_eq!(fs::read(&lock).unwrap(), b"");
}

#[test]
fn a_write_buffer_in_a_shape_is_obeyed_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let shape = Shape { write_buffer_bytes: 64 << 10, size_ratio: 4, ..Shape::default() };
    let refused = Options::new().shape(shape.clone()).open(dir.path());
    assert!(refused.unwrap_err().to_string().contains("Options::write_buffer"));
    let db = Options::new().shape(shape.clone()).write_buffer(64 << 10).open(dir.path()).unwrap();
    let of = |shape: &Shape| KeyspaceOptions::new().shape(shape.clone());
    db.keyspace_with("same", of(&shape)).unwrap();
    db.keyspace_with("default", of(&Shape::default())).unwrap();
    let other = Shape { write_buffer_bytes: 1 << 20, ..shape };
    assert!(matches!(db.keyspace_with("other", of(&other)), Err(Error::Invalid(_))));
    assert_eq!(db.keyspaces(), ["default", "same"]);
}

/// Symptom: `checkpoint("")` said `Ok`, and did not say where to. Cause: a path without letters was
/// the present directory to some calls and nothing to others. Cure: it is refused, by `open` too.
#[test]
fn a_directory_without_a_name_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    for refused in [db.checkpoint(""), Db::open("").map(drop)] {
        assert!(matches!(refused, Err(Error::Invalid(why)) if why.contains("empty")));
    }
}

/// Symptom: an iterator that lay in a structure shared by threads no longer compiled. Cause: lent
/// entries counted pins in a cell. Cure: they count through exclusive access. Everything that users
/// hold may be sent and shared.
#[test]
fn everything_that_users_hold_can_be_sent_and_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<(Db, Keyspace, solera::Snapshot, solera::Ticket)>();
    shared::<(solera::Batch, solera::Transaction)>();
    shared::<(solera::Iter, solera::Keys, solera::TransactionIter, solera::TransactionKeys)>();
    shared::<(Slice, solera::Entry, Error, Options, KeyspaceOptions, Shape, Durability)>();
    shared::<(solera::Stats, solera::KeyspaceStats, solera::VerifyReport, solera::IngestReport)>();
    shared::<(solera::Control, solera::control::Recording, solera::control::Publisher)>();
    shared::<(solera::control::Observation, solera::trace::TraceOptions, solera::inspect::CheckReport)>();

    let dir = tempfile::tempdir().unwrap();
    let db = opened(dir.path());
    for n in 0..1000u32 {
        db.put(n.to_be_bytes(), [7; 100]).unwrap();
    }
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    let mut iter = db.iter();
    for n in 0..1000u32 {
        assert!(iter.advance().unwrap());
        if n % 100 == 0 {
            std::thread::scope(|scope| {
                let look = || assert_eq!((iter.key(), iter.value()), (&n.to_be_bytes()[..], &[7; 100][..]));
                scope.spawn(look);
                scope.spawn(look);
            });
        }
    }
}

/// Symptom: a read-only database refused the commit of a transaction that had only read, so that
/// `Db::transact` could not be used there. Closed, it said that it was read-only. Cause: every
/// commit asked for a writer, and that was asked before whether it is closed.
#[test]
fn a_read_only_database_commits_what_only_read_and_says_when_it_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let db = opened(dir.path());
    db.put("a", "1").unwrap();
    db.close().unwrap();
    let db = Options::new().read_only(true).open(dir.path()).unwrap();
    let value = db.transact(|transaction| transaction.get(db.default(), "a")).unwrap();
    assert_eq!(value.unwrap(), "1");
    let mut durable = db.transaction();
    durable.durability(Durability::Sync);
    assert_eq!(durable.iter(db.default()).count(), 1);
    durable.commit().unwrap();
    let mut writing = db.transaction();
    writing.put(db.default(), "b", "2").unwrap();
    assert!(matches!(writing.commit(), Err(Error::ReadOnly)));
    assert!(matches!(db.write(db.batch()), Err(Error::ReadOnly)));
    let (other, reading) = (db.clone(), db.transaction());
    db.close().unwrap();
    assert!(matches!(other.put("a", "2"), Err(Error::Closed)));
    assert!(matches!(other.flush(), Err(Error::Closed)));
    assert!(matches!(reading.commit(), Err(Error::Closed)));
}

/// Symptom: entries of an `ingest`, or a merge operator, that closed the database hung for ever,
/// and other threads were told that it is closed while it was not. Cause: `close` waits for threads
/// that load and merge, and waited for its own thread. Cure: it refuses there.
#[test]
fn close_is_refused_within_a_call_that_it_would_wait_for() {
    struct Closes(std::sync::Mutex<Option<Db>>);
    impl MergeOperator for Closes {
        fn name(&self) -> &str {
            "closes"
        }
        fn merge(&self, _: &[u8], _: Option<&[u8]>, _: &[&[u8]]) -> Result<Vec<u8>, String> {
            let db = self.0.lock().unwrap().take();
            db.map_or(Ok(Vec::new()), |db| Ok(db.close().unwrap_err().to_string().into_bytes()))
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let db = opened(dir.path());
    let mut closed = Vec::new();
    let entries = (0..3u8).map(|n| {
        closed.push(db.clone().close());
        ([n], "v")
    });
    assert_eq!(db.ingest(entries).unwrap().entries, 3);
    assert_eq!(closed.len(), 3);
    for refused in closed {
        assert!(
            matches!(&refused, Err(Error::Invalid(what)) if what.contains("call it outside")),
            "{refused:?}"
        );
    }
    let operator = Arc::new(Closes(std::sync::Mutex::default()));
    let merged = db.keyspace_with("merged", KeyspaceOptions::new().merge_operator(operator.clone())).unwrap();
    for key in ["a", "b"] {
        merged.merge(key, "1").unwrap();
        merged.flush().unwrap();
        merged.merge(key, "2").unwrap();
        merged.flush().unwrap();
    }
    *operator.0.lock().unwrap() = Some(db.clone());
    merged.compact_range(..).unwrap();
    assert!(operator.0.lock().unwrap().is_none(), "the operator was asked");
    assert_eq!(db.iter().count(), 3, "it is open");
    db.put("more", "here").unwrap();
    drop(operator);
    db.close().unwrap();
    assert_eq!(opened(dir.path()).get("more").unwrap().unwrap(), "here");
}

/// Symptom: a second `close` returned while a first one waited, and the directory was locked.
/// Cause: it only asked whether a close had begun. Cure: it waits for the first.
#[test]
fn who_closes_second_returns_when_the_directory_is_free() {
    let dir = tempfile::tempdir().unwrap();
    let db = opened(dir.path());
    let (begun, ready) = std::sync::mpsc::channel();
    let (goes_on, waits) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let loads = db.clone();
        scope.spawn(move || {
            let entries = (0..3u8).map(|n| {
                if n == 1 {
                    begun.send(()).unwrap();
                    waits.recv().unwrap();
                }
                ([n], "v")
            });
            let _ = loads.ingest(entries);
        });
        ready.recv().unwrap();
        let first = db.clone();
        let first = scope.spawn(move || first.close());
        while !matches!(db.put("k", "v"), Err(Error::Closed)) {
            std::thread::yield_now();
        }
        let second = db.clone();
        let second = scope.spawn(move || {
            second.close().unwrap();
            opened(dir.path())
        });
        std::thread::sleep(std::time::Duration::from_millis(50));
        let is_early = second.is_finished();
        goes_on.send(()).unwrap();
        first.join().unwrap().unwrap();
        assert!(second.join().is_ok_and(|again| again.put("k", "v").is_ok()));
        assert!(!is_early, "the first had not come to its end");
    });
}

/// Symptom: an iterator over a keyspace that was dropped went on after `close`, in files of a
/// directory that others had. Cause: it asked its keyspace alone, and `close` marks those that are
/// there. Cure: once its keyspace is gone it asks the database.
#[test]
fn an_iterator_of_a_dropped_keyspace_is_told_that_the_database_was_closed() {
    let dir = tempfile::tempdir().unwrap();
    let db = opened(dir.path());
    let keyspace = db.keyspace("k").unwrap();
    for n in 0..500u32 {
        keyspace.put(n.to_be_bytes(), [1; 50]).unwrap();
    }
    keyspace.flush().unwrap();
    let (mut fresh, mut begun, mut keys) = (keyspace.iter(), keyspace.iter(), keyspace.iter().keys());
    begun.next().unwrap().unwrap();
    keys.next_back().unwrap().unwrap();
    db.drop_keyspace("k").unwrap();
    begun.next().unwrap().expect("who walks over it still does");
    db.close().unwrap();
    fn closed<T>(result: Result<T, Error>) -> bool {
        matches!(result, Err(Error::Closed))
    }
    assert!(closed(fresh.next().unwrap()) && fresh.next().is_none() && closed(fresh.seek("a")));
    assert!(closed(begun.next().unwrap()) && begun.next_back().is_none());
    assert!(closed(keys.next_back().unwrap()));
}

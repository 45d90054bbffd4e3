//! Tests of what the engine does when something else fails: the disk, a sync, a manifest's record,
//! a user's operator.
//!
//! Each test is a failure, what must hold after it, and how the database goes on. A failed sync or
//! record leaves a database that opens. A panic in background work is reported and hangs no caller.
//! A checkpoint that fails leaves no half of a database. A full disk leaves no files behind, is not
//! tried again and again, and a write after space was made succeeds. Dropping a keyspace while it
//! is flushed is no failure. Opens that write nothing leave one log. Door: `Db` over `FaultFs`.

use solera::{
    Db, Error, MergeOperator, Options,
    vfs::{
        Fs,
        fault::{Call, Effect, Fault, FaultFs},
        mem::{MemFs, Persist},
    },
};
use std::{
    io::ErrorKind,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{Arc, mpsc},
    time::Duration,
};

const DIR: &str = "/db";
/// Longer than anything here takes, shorter than for ever.
const PATIENCE: Duration = Duration::from_secs(60);

fn disk() -> (MemFs, FaultFs) {
    let mem = MemFs::new();
    let faults = FaultFs::new(Arc::new(mem.clone()));
    (mem, faults)
}

fn options(fs: &FaultFs) -> Options {
    Options::new().fs(Arc::new(fs.clone())).background_threads(0).seed(1)
}

/// Memtables of a few dozen entries.
fn tiny(fs: &FaultFs) -> Options {
    options(fs).write_buffer(4 << 10).memory(1 << 20)
}

fn logs(fs: &FaultFs) -> usize {
    fs.list_dir(Path::new(DIR)).unwrap().iter().filter(|name| name.ends_with(".log")).count()
}

/// What `call` comes to on a thread of its own, so that a call that never returns fails its test.
fn in_time<R: Send + 'static>(call: impl FnOnce() -> R + Send + 'static) -> R {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(call()));
    receiver.recv_timeout(PATIENCE).expect("the call returns")
}

/// The ingest's tables were removed though the manifest's record that names them may be in the
/// file: the next open found them missing. As for flushes, only an open may judge after a failed
/// sync.
#[test]
fn a_failed_manifest_sync_during_an_ingest_leaves_a_database_that_opens() {
    for skip in 0..6 {
        for persist in [Persist::Everything, Persist::Nothing] {
            let (mem, fs) = disk();
            let db = options(&fs).open(DIR).unwrap();
            db.put(b"a", b"1").unwrap();
            db.flush().unwrap();
            fs.inject(Fault::once(Call::Sync, skip, Effect::Fail(ErrorKind::Other)).on("MANIFEST"));
            let ingested = db.ingest((0..100u32).map(|n| (n.to_be_bytes(), b"v")));
            assert!(ingested.is_ok() || matches!(db.put(b"b", b"2"), Err(Error::Poisoned(_))));
            fs.heal();
            drop(db);
            let fs = FaultFs::new(Arc::new(mem.crash(persist, 1)));
            let db = options(&fs).open(DIR).unwrap();
            assert_eq!(db.get(b"a").unwrap().unwrap(), b"1");
            let count = db.iter().map(Result::unwrap).count();
            assert!(count == 101 || count == 1 && ingested.is_err(), "skip {skip}: {count} entries");
        }
    }
}

/// An operator with a bug.
struct Panics;

impl MergeOperator for Panics {
    fn name(&self) -> &str {
        "panics"
    }
    fn merge(&self, _: &[u8], _: Option<&[u8]>, _: &[&[u8]]) -> Result<Vec<u8>, String> {
        panic!("a bug in the operator")
    }
    fn combine(&self, _: &[u8], _: &[u8], _: &[u8]) -> Option<Vec<u8>> {
        panic!("a bug in the operator")
    }
}

fn says_why(error: &Error) -> bool {
    error.to_string().contains("a bug in the operator")
}

/// The worker died with its claim on the flush, and every later flush waited for it for ever.
#[test]
fn a_panic_in_a_background_flush_is_reported_and_hangs_nobody() {
    for threads in 0..3 {
        let (_mem, fs) = disk();
        let db = options(&fs).background_threads(threads).merge_operator(Arc::new(Panics)).open(DIR).unwrap();
        db.put(b"other", b"1").unwrap();
        for _ in 0..10 {
            db.merge(b"key", b"1").unwrap();
        }
        let handle = db.clone();
        let outcomes = in_time(move || [handle.flush(), handle.flush(), handle.wait_idle()]);
        assert!(outcomes.iter().all(|outcome| says_why(outcome.as_ref().unwrap_err())), "{outcomes:?}");
        assert!(says_why(&db.put(b"k", b"v").unwrap_err()));
        assert_eq!(db.get(b"other").unwrap().unwrap(), b"1", "reads go on");
        in_time(move || db.close().unwrap_err());
    }
}

/// With no threads a put does a step of the work: its panic left the claim taken and poisoned
/// nothing.
#[test]
fn a_panic_in_the_step_of_a_put_is_that_puts_error_and_hangs_nobody() {
    let (_mem, fs) = disk();
    let db = tiny(&fs).merge_operator(Arc::new(Panics)).open(DIR).unwrap();
    let merge = |n: u32| db.merge((n % 10).to_be_bytes(), [1; 50]);
    let failed = catch_unwind(AssertUnwindSafe(|| (0..100_000).find_map(|n| merge(n).err())));
    assert!(says_why(&failed.expect("no panic reaches the caller").expect("the work fails")));
    let handle = db.clone();
    assert!(says_why(&in_time(move || handle.flush()).unwrap_err()));
}

fn fill(db: &Db, puts: u32) -> u32 {
    (0..puts).filter(|n| db.put(n.to_be_bytes(), [1; 100]).is_err()).count() as u32
}

/// Every failed put left one more log file behind: the new log's file stayed when its header, its
/// name or its record could not be written.
#[test]
fn a_full_disk_at_the_rotation_of_logs_leaves_no_files_behind() {
    let full = Effect::Fail(ErrorKind::StorageFull);
    for (call, on) in [(Call::Append, ".log"), (Call::Append, "MANIFEST"), (Call::SyncDir, "")] {
        for skip in 0..60 {
            let (_mem, fs) = disk();
            let db = tiny(&fs).open(DIR).unwrap();
            fs.inject(Fault::sticky(call, skip, full).on(on));
            fill(&db, 300);
            assert!(logs(&fs) < 14, "{call:?} on {on:?} after {skip}: {} logs", logs(&fs));
            fs.heal();
            assert_eq!(fill(&db, 300), 0, "writes resume");
            db.flush().unwrap();
            assert!(logs(&fs) <= 2, "{call:?} on {on:?} after {skip}: {} logs", logs(&fs));
        }
    }
}

/// An operator that takes its time, so that a flush does.
struct Slow;

impl MergeOperator for Slow {
    fn name(&self) -> &str {
        "slow"
    }
    fn merge(&self, _: &[u8], _: Option<&[u8]>, _: &[&[u8]]) -> Result<Vec<u8>, String> {
        Ok(vec![])
    }
    fn combine(&self, _: &[u8], _: &[u8], _: &[u8]) -> Option<Vec<u8>> {
        std::thread::sleep(Duration::from_millis(2));
        Some(vec![])
    }
}

/// A database with so many threads whose tables cannot be written, after the put that said so.
fn without_space(fs: &FaultFs, threads: usize) -> Db {
    let db = tiny(fs).background_threads(threads).merge_operator(Arc::new(Slow)).open(DIR).unwrap();
    (0..3).for_each(|_| db.merge(b"slow", b"1").unwrap());
    fs.inject(Fault::sticky(Call::Append, 0, Effect::Fail(ErrorKind::StorageFull)).on(".table"));
    let puts = db.clone();
    let full = in_time(move || (0u32..).find_map(|n| puts.put(n.to_be_bytes(), [1; 100]).err()));
    assert!(full.is_some_and(|error| error.to_string().contains("free some space")));
    db
}

/// Symptom: the disk had space again, and a put was refused for want of it. Cause: a writer is held
/// for 90 ms, a worker that has failed often rests for two seconds, and what it failed of was told
/// meanwhile. Cure: it rests less while a writer is held.
#[test]
fn a_write_after_space_was_made_is_not_told_of_a_full_disk() {
    let (_mem, fs) = disk();
    let db = without_space(&fs, 1);
    let faults = fs.clone();
    in_time(move || {
        while faults.hits() < 6 {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    fs.heal();
    // Held for as long as a writer may be, 15 times 90 ms: the machine may be busy, but not for the
    // two seconds of the rest.
    assert!((0..15).any(|_| db.put(b"key", b"value").is_ok()));
}

/// Symptom: on a full disk two workers tried to flush as fast as they could. Cause: one's failure
/// woke the other, which rested. Cure: what ends a rest is another call.
#[test]
fn a_full_disk_is_not_tried_again_and_again() {
    let (_mem, fs) = disk();
    let _db = without_space(&fs, 2);
    let before = fs.hits();
    std::thread::sleep(Duration::from_millis(400));
    assert!(fs.hits() - before < 20, "{} tries", fs.hits() - before);
}

/// Symptom: `Stats` told of a failed flush though a later one had written everything. Cause: only a
/// worker's success forgot it.
#[test]
fn a_flush_by_hand_ends_a_failure_of_background_work() {
    for threads in [0, 2] {
        let (_mem, fs) = disk();
        let db = without_space(&fs, threads);
        assert!(db.stats().background_failure.is_some());
        fs.heal();
        db.flush().unwrap();
        assert_eq!(db.stats().background_failure, None, "{threads} threads");
        db.wait_idle().unwrap();
    }
}

/// Logs were forgotten before the manifest said so; if it then could not, no thread removed them
/// any more.
#[test]
fn a_failed_manifest_append_forgets_no_log() {
    for skip in 0..8 {
        let (_mem, fs) = disk();
        let db = tiny(&fs).open(DIR).unwrap();
        fill(&db, 300);
        fs.inject(Fault::once(Call::Append, skip, Effect::Fail(ErrorKind::StorageFull)).on("MANIFEST"));
        let _ = db.flush();
        fs.heal();
        for _ in 0..3 {
            assert_eq!(fill(&db, 300), 0);
            db.flush().unwrap();
        }
        assert!(logs(&fs) <= 2, "skip {skip}: {} logs", logs(&fs));
    }
}

/// A flush's record was durable, but the mark behind it failed and could not be removed. No thread
/// looked at the manifest after a success: writes were acknowledged until the next record, hundreds
/// later, was refused.
#[test]
fn a_mark_that_can_neither_be_written_nor_removed_stops_writes_at_once() {
    for skip in 0..8 {
        let (_, fs) = disk();
        let db = options(&fs).open(DIR).unwrap();
        db.put(b"a", b"1").unwrap();
        fs.inject(Fault {
            calls: vec![Call::Append, Call::Truncate],
            path_contains: "MANIFEST".into(),
            skip,
            times: u64::MAX,
            effect: Effect::Fail(ErrorKind::Other),
        });
        let _ = db.flush();
        let hit = fs.hits() > 0;
        fs.heal();
        match db.put(b"b", b"2") {
            Ok(()) if !hit => {}
            Err(Error::Poisoned(why)) if hit => assert!(why.contains("MANIFEST"), "{why}"),
            outcome => panic!("{skip} calls passed, then {} failed: {outcome:?}", fs.hits()),
        }
        drop(db);
        let db = options(&fs).open(DIR).unwrap();
        assert_eq!(db.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!(db.get(b"b").unwrap().is_some(), !hit);
    }
}

/// The half of the batch that went to the keyspace that was left was committed, and the call said
/// Ok.
#[test]
fn a_batch_with_a_dropped_keyspace_writes_nothing() {
    let (mem, fs) = disk();
    let db = options(&fs).open(DIR).unwrap();
    let gone = db.keyspace("gone").unwrap();
    let mut batch = db.batch();
    batch.put(&gone, b"x", b"1").unwrap();
    batch.put(db.default(), b"y", b"1").unwrap();
    db.drop_keyspace("gone").unwrap();
    db.keyspace("gone").unwrap();
    assert!(matches!(db.write(batch), Err(Error::NoKeyspace(name)) if name == "gone"));
    assert_eq!(db.get(b"y").unwrap(), None);
    let fs = FaultFs::new(Arc::new(mem.kill()));
    drop(db);
    assert_eq!(options(&fs).open(DIR).unwrap().get(b"y").unwrap(), None);
}

/// That its keyspace is gone is no failure of a flush; it was reported as what background work is
/// stuck on.
#[test]
fn dropping_a_keyspace_while_it_is_flushed_is_no_background_failure() {
    let (_mem, fs) = disk();
    let db = options(&fs).background_threads(2).write_buffer(64 << 10).memory(8 << 20).open(DIR).unwrap();
    for round in 0..60u32 {
        let gone = db.keyspace("gone").unwrap();
        for n in 0..700u32 {
            gone.put(n.to_be_bytes(), [round as u8; 300]).unwrap();
            db.put((n ^ round).to_be_bytes(), [round as u8; 300]).unwrap();
        }
        db.drop_keyspace("gone").unwrap();
        db.wait_idle().unwrap();
        assert_eq!(db.stats().background_failure, None);
    }
}

/// Symptom: a process killed while it created its database left one that could not be opened: "it
/// holds 000001.log but no file CURRENT". Cause: the log, which comes before CURRENT, was longer
/// than its header, by the zeros that were reserved for it. Cure: a log is empty if nothing but
/// zeros follows its header.
#[test]
fn a_creation_that_ends_before_current_is_begun_again_though_the_log_has_space_reserved() {
    let whole = Arc::new(MemFs::new());
    drop(Options::new().fs(whole.clone()).background_threads(0).open("/db").unwrap());
    let log =
        whole.files().into_iter().find(|file| file.extension().is_some_and(|kind| kind == "log")).unwrap();
    let header = whole.content(&log).unwrap()[..48].to_vec();
    for (start, opens) in
        [(&header[..], true), (&[], true), (&[0; 48], true), (&[&header[..], b"x"].concat(), false)]
    {
        let fs = Arc::new(MemFs::new());
        fs.create_dir_all("/db".as_ref()).unwrap();
        drop(fs.create(&log).unwrap());
        fs.set_content(&log, &[start, &[0; 70_000]].concat()).unwrap();
        let opened = Options::new().fs(fs.clone()).background_threads(0).open("/db");
        assert_eq!(opened.is_ok(), opens, "{opened:?}");
    }
}

/// Symptom: 300 changes of a knob, each by an open of its own, left 323 logs. Cause: an open begins
/// a log, and what removes logs is a flush. Cure: a recovered log that holds nothing is not kept.
#[test]
fn opens_that_write_nothing_leave_one_log() {
    let (_, fs) = disk();
    for round in 0..40 {
        let db = options(&fs).open(DIR).unwrap();
        assert_eq!(logs(&fs), if round == 0 { 1 } else { 2 }, "a log with a key, and the new one");
        if round == 0 {
            db.put(b"a", b"1").unwrap();
        }
        assert_eq!(db.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    }
}

/// Symptom: while a disk was full, each open that failed left another log. Cause: the new log was
/// there, and what was to be written to it again found no space. Cure: it goes with the failure.
#[test]
fn an_open_that_finds_the_disk_full_leaves_no_log_behind() {
    let (mem, fs) = disk();
    let db = options(&fs).open(DIR).unwrap();
    for key in 0..100u32 {
        db.put(key.to_be_bytes(), [7; 100]).unwrap();
    }
    // What was not synced is written again by the next open.
    let after = FaultFs::new(Arc::new(mem.kill()));
    drop(db);
    let before = logs(&after);
    // The first append is of the new log's header.
    for skip in [0, 1, 1, 1] {
        after.inject(Fault::sticky(Call::Append, skip, Effect::Fail(ErrorKind::StorageFull)).on(".log"));
        let error = options(&after).open(DIR).expect_err("there is no space");
        after.heal();
        assert_eq!(error.io_kind(), Some(ErrorKind::StorageFull), "{error}");
        assert_eq!(logs(&after), before, "{skip}");
    }
    let db = options(&after).open(DIR).unwrap();
    assert_eq!(db.iter().count(), 100);
}

/// Feared: a checkpoint whose last sync fails is taken back, the power is cut meanwhile, and what
/// is left is a database whose tables are gone. Cure: `CURRENT` goes first, durably.
#[test]
fn a_checkpoint_that_is_taken_back_loses_its_current_first() {
    const TO: &str = "/copies/one";
    let mut failures = 0;
    for skip in 0.. {
        let (mem, faults) = disk();
        let db = options(&faults).open(DIR).unwrap();
        (0..20u8).for_each(|n| db.put([n], [n; 30]).unwrap());
        mem.create_dir_all(Path::new("/copies")).unwrap();
        faults.inject(Fault::once(Call::SyncDir, skip, Effect::Fail(ErrorKind::Other)).on("/copies"));
        mem.record_cuts(true);
        if db.checkpoint(TO).is_ok() {
            assert_eq!(faults.hits(), 0);
            break;
        }
        failures += 1;
        assert_eq!(mem.list_dir(Path::new(TO)).unwrap(), [""; 0], "nothing is left of it");
        for (at, cut) in mem.take_cuts().iter().enumerate() {
            for persist in Persist::ALL {
                for seed in 0..if persist.is_random() { 4 } else { 1 } {
                    let image = cut.crash(persist, seed);
                    if !image.exists(&Path::new(TO).join("CURRENT")).unwrap() {
                        continue;
                    }
                    let copy = Options::new().fs(Arc::new(image)).background_threads(0).open(TO).unwrap();
                    let read = (0..20u8).all(|n| copy.get([n]).is_ok_and(|value| value.is_some()));
                    assert!(read, "skip {skip}, cut {at}, {persist:?}");
                }
            }
        }
    }
    assert!(failures > 2, "{failures} failures");
}

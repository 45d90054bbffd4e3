//! Tests of `Writer`, `Replay` and `replay` on file systems that lose power, flip bits, fill up and
//! fail.
//!
//! A crash at any operation, on one log or three, leaves a prefix with all that was synced. A
//! flipped bit, a cut or a hole is an error where it was synced, and cuts the log where not. A log
//! of another database or number is refused. A group is one write call. A failed append is taken
//! back, or poisons the log; after a failed sync nothing is acknowledged. A log that cannot be
//! ended goes on without an end.

use super::*;
use crate::vfs::{
    fault::{Call, Effect, Fault, FaultFs},
    mem::{MemFs, Persist},
};
use std::{io::ErrorKind, path::PathBuf, sync::Arc};

const DATABASE: DatabaseId = DatabaseId(77);
const LOG: FileId = FileId(3);

fn dir() -> &'static Path {
    Path::new("/db")
}

fn log_path() -> PathBuf {
    FileName::Log(LOG).in_dir(dir())
}

fn disk() -> MemFs {
    let fs = MemFs::new();
    fs.create_dir_all(dir()).unwrap();
    fs
}

fn create(fs: &dyn Fs) -> Result<Writer> {
    Writer::create(fs, dir(), DATABASE, LOG)
}

fn read(fs: &dyn Fs, tail: Tail) -> Result<(Vec<Vec<u8>>, Replayed)> {
    let mut records = Vec::new();
    let replayed = replay(fs, dir(), DATABASE, LOG, tail, |_, payload| {
        records.push(payload.to_vec());
        Ok(())
    })?;
    assert_eq!(replayed.frames as usize, records.len());
    Ok((records, replayed))
}

/// The nth record; lengths go over pages.
fn record(nth: usize) -> Vec<u8> {
    vec![nth as u8 + 1; [5, 3000, 0, 9000, 70_000][nth % 5]]
}

fn is_prefix(records: &[Vec<u8>]) -> bool {
    records.iter().enumerate().all(|(nth, found)| *found == record(nth))
}

/// Appends ten records, syncing after some; says how many were durable when it ended.
fn life(fs: &dyn Fs) -> (usize, Result<()>) {
    let mut durable = 0;
    let mut run = || -> Result<()> {
        let mut log = create(fs)?;
        let mut nth = 0;
        for group in [1, 1, 2, 3, 1, 2] {
            let records: Vec<_> = (nth..nth + group).map(record).collect();
            log.append(records.iter().map(|record| [&record[..]]))?;
            nth += group;
            if nth != 4 {
                log.sync()?;
                durable = nth;
            }
        }
        log.append([[&record(10)[..]]])
    };
    let result = run();
    (durable, result)
}

#[test]
fn a_crash_at_any_operation_leaves_a_prefix_with_all_that_was_synced() {
    let whole = disk();
    life(&whole).1.unwrap();
    let operations = whole.operations();
    assert!(operations > 20);
    let (mut cuts, mut holes) = (0, 0);
    for n in 0..=operations {
        let fs = disk();
        fs.crash_after(n);
        let (durable, _) = life(&fs);
        for persist in Persist::ALL {
            for seed in 0..12 {
                let image = fs.crash(persist, seed * 1000 + n);
                if !image.exists(&log_path()).unwrap() {
                    assert_eq!(durable, 0);
                    continue;
                }
                let (records, replayed) = read(&image, Tail::Open)
                    .unwrap_or_else(|error| panic!("crash at {n}, {persist:?} {seed}: {error}"));
                assert!(is_prefix(&records), "crash at {n}, {persist:?} {seed}");
                assert!(records.len() >= durable, "crash at {n}, {persist:?} {seed}: {durable} were synced");
                cuts += usize::from(replayed.cut.is_some());
                holes += usize::from(replayed.cut.is_some_and(|cut| cut.bytes > 10_000));
                // What recovery found is found again after a later log exists.
                let again = read(&image, Tail::CutAt(replayed.end)).unwrap();
                assert_eq!((&again.0, again.1.cut), (&records, None));
                // Zeros that were reserved behind take nothing away; of what ended in zeros they
                // may be the end.
                let longer = [&image.content(&log_path()).unwrap()[..], &[0; 300]].concat();
                image.set_content(&log_path(), &longer).unwrap();
                let (reserved, found) = read(&image, Tail::Open).unwrap();
                assert!(reserved.starts_with(&records) && is_prefix(&reserved));
                assert!(found.end >= replayed.end && found.durable >= replayed.durable);
                assert!(found.cut.is_none() || replayed.cut.is_some());
            }
        }
    }
    assert!(cuts > 100 && holes > 10, "{cuts} {holes}");
}

/// Three logs, each ready before the one before it ends, and each durable only when the next has a
/// record. Says how many records were durable when it ended, and how many logs were there.
fn three_logs(fs: &dyn Fs) -> (usize, usize, Result<()>) {
    let (mut durable, mut logs) = (0, Vec::new());
    let mut run = || -> Result<()> {
        for nth in 0..3 {
            logs.push(Writer::create(fs, dir(), DATABASE, FileId(LOG.0 + nth))?);
        }
        let append = |log: &mut Writer, nth: usize| log.append([[&record(nth)[..]]]);
        let [first, second, third] = &mut logs[..] else { unreachable!("three were created") };
        append(first, 0)?;
        append(first, 1)?;
        first.end()?;
        second.withhold();
        append(second, 2)?;
        first.settle()?;
        durable = 2;
        append(second, 3)?;
        second.vouch();
        second.sync()?;
        durable = 4;
        append(second, 4)?;
        second.end()?;
        third.withhold();
        append(third, 5)?;
        second.settle()?;
        durable = 5;
        third.vouch();
        third.sync()?;
        durable = 6;
        Ok(())
    };
    let outcome = run();
    (durable, logs.len(), outcome)
}

/// The records of the first logs that count, and how many logs do not.
fn read_logs(fs: &dyn Fs, logs: usize) -> Result<(Vec<Vec<u8>>, usize)> {
    let mut replay = Replay::new(fs, dir(), DATABASE);
    let (mut records, mut passed_over) = (Vec::new(), 0);
    for nth in 0..logs as u64 {
        let replayed = replay.next(FileId(LOG.0 + nth), Tail::Open, |_, payload| {
            records.push(payload.to_vec());
            Ok(())
        })?;
        passed_over += usize::from(replayed.is_none());
    }
    Ok((records, passed_over))
}

#[test]
fn a_crash_at_any_operation_on_three_logs_leaves_a_prefix_with_all_that_was_synced() {
    let whole = disk();
    three_logs(&whole).2.unwrap();
    assert_eq!(read_logs(&whole, 3).unwrap(), ((0..6).map(record).collect(), 0));
    let mut cut_short = 0;
    for n in 0..=whole.operations() {
        let fs = disk();
        fs.crash_after(n);
        let (durable, logs, _) = three_logs(&fs);
        for persist in Persist::ALL {
            for seed in 0..12 {
                let image = fs.crash(persist, seed * 1000 + n);
                let (records, passed_over) = read_logs(&image, logs)
                    .unwrap_or_else(|error| panic!("crash at {n}, {persist:?} {seed}: {error}"));
                assert!(is_prefix(&records), "crash at {n}, {persist:?} {seed}");
                assert!(records.len() >= durable, "crash at {n}, {persist:?} {seed}: {durable} were synced");
                let second = image.content(&FileName::Log(FileId(LOG.0 + 1)).in_dir(dir()));
                let has_record = |log: Vec<u8>| log.len() > FILE_HEADER_BYTES;
                cut_short += usize::from(passed_over == 2 && second.is_ok_and(has_record));
            }
        }
    }
    assert!(cut_short > 20, "{cut_short} times a later log was there and did not count");
}

#[test]
fn any_damage_to_a_log_that_a_later_one_vouches_for_is_an_error() {
    let whole = disk();
    three_logs(&whole).2.unwrap();
    let bytes = whole.content(&log_path()).unwrap();
    let read = |bytes: &[u8]| {
        whole.set_content(&log_path(), bytes).unwrap();
        read_logs(&whole, 3)
    };
    for bit in (0..bytes.len() * 8).step_by(5) {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        match read(&flipped).unwrap_err() {
            Error::Corrupt { file, offset, .. } => {
                assert!(file == log_path() && offset <= bit as u64 / 8, "bit {bit}: {file:?} at {offset}");
            }
            error => panic!("bit {bit}: {error}"),
        }
    }
    for len in 0..bytes.len() {
        let error = read(&bytes[..len]).unwrap_err().to_string();
        assert!(
            len < FILE_HEADER_BYTES || error.contains("it was durable when 000004.log was written"),
            "{len}: {error}"
        );
    }
    assert_eq!(read(&bytes).unwrap().1, 0);
    // What is reserved behind an end need not be given back.
    let longer = [&bytes[..], &[0; 300]].concat();
    assert_eq!(read(&longer).unwrap().1, 0);
}

/// A small log of three records, synced after the second, and where each record ends.
fn small_log() -> (Vec<u8>, [u64; 3], u64) {
    let fs = disk();
    let mut log = create(&fs).unwrap();
    log.append([[&b"first"[..]]]).unwrap();
    let first = log.len();
    log.append([[&b"second"[..], b" in two parts"]]).unwrap();
    let second = log.len();
    log.sync().unwrap();
    let mark = log.len();
    log.append([[&b"third"[..]]]).unwrap();
    let third = log.len();
    drop(log);
    (fs.content(&log_path()).unwrap(), [first, second, third], mark)
}

fn with_content(bytes: &[u8]) -> MemFs {
    let fs = disk();
    fs.set_content(&log_path(), bytes).unwrap();
    fs
}

#[test]
fn a_flipped_bit_is_an_error_or_cuts_what_was_never_synced() {
    let (bytes, [_, second, third], mark) = small_log();
    assert_eq!(bytes.len() as u64, third);
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let at = bit as u64 / 8;
        match read(&with_content(&flipped), Tail::Open) {
            Err(Error::Corrupt { file, offset, .. }) => {
                assert_eq!(file, log_path());
                assert!(at < mark && offset <= at, "bit {bit}: {offset}");
            }
            Err(Error::NewerFormat { .. }) => panic!("a flip is not a newer release"),
            Err(error) => panic!("{error}"),
            Ok((records, replayed)) => {
                // Only the mark and the record after the last sync are without a witness.
                assert!(at >= second, "bit {bit} was synced");
                assert_eq!(records, [&b"first"[..], b"second in two parts"]);
                let cut = if at < mark { second } else { mark };
                assert_eq!(replayed.cut, Some(Cut { offset: cut, bytes: third - cut }));
            }
        }
        read(&with_content(&flipped), Tail::CutAt(third)).unwrap_err();
    }
}

#[test]
fn a_shortened_last_log_is_cut_at_the_last_whole_record() {
    let (bytes, ends, _) = small_log();
    for len in 0..bytes.len() {
        let (records, replayed) = read(&with_content(&bytes[..len]), Tail::Open).unwrap();
        assert_eq!(records.len(), ends.iter().filter(|&&end| end <= len as u64).count());
        assert_eq!(replayed.end + replayed.cut.map_or(0, |cut| cut.bytes), len as u64);
    }
    for len in 1..bytes.len() as u64 {
        read(&with_content(&bytes[..len as usize - 1]), Tail::CutAt(len)).unwrap_err();
    }
}

#[test]
fn a_hole_is_cut_if_it_was_never_synced_and_an_error_if_it_was() {
    let lose_first_record = |synced: bool| {
        let fs = disk();
        let mut log = create(&fs).unwrap();
        log.append([[&record(0)[..]]]).unwrap();
        let end = log.len() as usize;
        if synced {
            log.sync().unwrap();
        }
        log.append([[&record(1)[..]]]).unwrap();
        log.append([[&record(3)[..]]]).unwrap();
        let mut bytes = fs.content(&log_path()).unwrap();
        bytes[FILE_HEADER_BYTES..end].fill(0);
        read(&with_content(&bytes), Tail::Open)
    };
    let (records, replayed) = lose_first_record(false).unwrap();
    assert!(records.is_empty() && replayed.cut.is_some());
    let error = lose_first_record(true).unwrap_err();
    assert!(error.to_string().contains("was durable when"), "{error}");
}

#[test]
fn a_log_of_another_place_is_refused() {
    let (bytes, ..) = small_log();
    let fs = disk();
    let copy = FileId(9);
    fs.set_content(&FileName::Log(copy).in_dir(dir()), &bytes).unwrap();
    fs.set_content(&log_path(), &bytes).unwrap();
    let ignore = |_: u64, _: &[u8]| Ok(());
    for tail in [Tail::Open, Tail::CutAt(bytes.len() as u64)] {
        let error = replay(&fs, dir(), DATABASE, copy, tail, ignore).unwrap_err();
        assert!(error.to_string().contains("file 3 under the name of file 9"), "{error}");
        let error = replay(&fs, dir(), DatabaseId(78), LOG, tail, ignore).unwrap_err();
        assert!(error.to_string().contains("belongs to database 77"), "{error}");
        // Not even a log without records hides that it is another's.
        let header_only = with_content(&bytes[..FILE_HEADER_BYTES]);
        replay(&header_only, dir(), DatabaseId(78), LOG, tail, ignore).unwrap_err();
    }
    let newer = FileKind { version: 2, ..FILE_KIND }.header(DATABASE, LOG, 1);
    assert!(matches!(read(&with_content(&newer), Tail::Open), Err(Error::NewerFormat { found: 2, .. })));
    let missing = replay(&fs, dir(), DATABASE, FileId(10), Tail::Open, ignore).unwrap_err();
    assert_eq!(missing.io_kind(), Some(ErrorKind::NotFound));
}

#[test]
fn a_group_is_one_write_call_and_a_second_sync_is_none() {
    let fs = FaultFs::new(Arc::new(disk()));
    let mut log = create(&fs).unwrap();
    let before = fs.calls(Call::Append);
    log.append((0..50).map(|_| [&[1u8; 1000][..], b"tail"])).unwrap();
    assert_eq!(fs.calls(Call::Append) - before, 1);
    let before = fs.calls(Call::Sync);
    log.sync().unwrap();
    log.sync().unwrap();
    assert_eq!(fs.calls(Call::Sync) - before, 1);
}

#[test]
fn a_failed_append_is_taken_back_and_the_log_goes_on() {
    for effect in [Effect::Fail(ErrorKind::StorageFull), Effect::Short] {
        let memory = disk();
        let fs = FaultFs::new(Arc::new(memory.clone()));
        let mut log = create(&fs).unwrap();
        log.append([[&record(0)[..]]]).unwrap();
        fs.inject(Fault::once(Call::Append, 0, effect));
        let error = log.append([[&b"never"[..]], [b"ever"]]).unwrap_err();
        assert_eq!(error.io_kind(), Some(ErrorKind::StorageFull));
        log.append([[&record(1)[..]]]).unwrap();
        log.sync().unwrap();
        for persist in Persist::ALL {
            assert_eq!(read(&memory.crash(persist, 1), Tail::Open).unwrap().0, [record(0), record(1)]);
        }
    }
}

#[test]
fn a_large_payload_that_failed_halfway_is_taken_back() {
    let memory = disk();
    let fs = FaultFs::new(Arc::new(memory.clone()));
    let mut log = create(&fs).unwrap();
    let len = log.len();
    fs.inject(Fault::once(Call::Append, 1, Effect::Fail(ErrorKind::StorageFull)));
    log.append([[&[1u8; 100][..], &[2; 100_000], &[3; 100]]]).unwrap_err();
    assert_eq!((log.len(), memory.content(&log_path()).unwrap().len() as u64), (len, len));
    log.append([[&record(0)[..]]]).unwrap();
    assert_eq!(read(&memory, Tail::Open).unwrap().0, [record(0)]);
}

#[test]
fn an_append_that_cannot_be_taken_back_poisons_the_log() {
    for call in [Call::Truncate, Call::Sync] {
        let fs = FaultFs::new(Arc::new(disk()));
        let mut log = create(&fs).unwrap();
        fs.inject(Fault::once(Call::Append, 0, Effect::Short));
        fs.inject(Fault::once(call, 0, Effect::Fail(ErrorKind::Other)));
        log.append([[&record(0)[..]]]).unwrap_err();
        assert!(matches!(log.append([[&record(1)[..]]]), Err(Error::Poisoned(_))));
        assert!(matches!(log.sync(), Err(Error::Poisoned(_))));
        assert!(matches!(log.end(), Err(Error::Poisoned(_))));
    }
}

#[test]
fn after_a_failed_sync_nothing_is_acknowledged_any_more() {
    let memory = disk();
    let fs = FaultFs::new(Arc::new(memory.clone()));
    let mut log = create(&fs).unwrap();
    log.append([[&record(0)[..]]]).unwrap();
    log.sync().unwrap();
    log.append([[&record(1)[..]]]).unwrap();
    fs.inject(Fault::once(Call::Sync, 0, Effect::FailOs(5)));
    log.sync().unwrap_err();
    assert!(matches!(log.sync(), Err(Error::Poisoned(_))));
    assert!(matches!(log.append([[&record(2)[..]]]), Err(Error::Poisoned(_))));
    assert_eq!(read(&memory.crash(Persist::Nothing, 0), Tail::Open).unwrap().0, [record(0)]);
}

#[test]
fn a_mark_that_cannot_be_written_does_not_fail_the_sync() {
    let memory = disk();
    let fs = FaultFs::new(Arc::new(memory.clone()));
    let mut log = create(&fs).unwrap();
    log.append([[&record(0)[..]]]).unwrap();
    fs.inject(Fault::once(Call::Append, 0, Effect::Short));
    log.sync().unwrap();
    log.append([[&record(1)[..]]]).unwrap();
    assert_eq!(read(&memory, Tail::Open).unwrap().0, [record(0), record(1)]);
}

#[test]
fn a_log_of_the_operating_system_comes_back_too() {
    let temporary = tempfile::tempdir().unwrap();
    let (fs, dir) = (crate::vfs::posix::PosixFs::new(), temporary.path());
    let mut log = Writer::create(&fs, dir, DATABASE, LOG).unwrap();
    for nth in 0..5 {
        log.append([[&record(nth)[..]]]).unwrap();
    }
    log.sync().unwrap();
    let mut records = Vec::new();
    let collect = |_: u64, payload: &[u8]| {
        records.push(payload.to_vec());
        Ok(())
    };
    let replayed = replay(&fs, dir, DATABASE, LOG, Tail::Open, collect).unwrap();
    assert!(is_prefix(&records) && (replayed.frames, replayed.end, replayed.cut) == (5, log.len(), None));
}

/// Symptom: after a log could not be ended, the next open found "bytes after the end of the
/// records". Cause: when the space reserved behind the end could not be given back, the end itself
/// stayed, and the log went on behind it. Cure: to give it back has nothing to do with the end.
#[test]
fn a_log_that_cannot_be_ended_goes_on_without_an_end() {
    let fs = FaultFs::new(Arc::new(disk()));
    let mut log = create(&fs).unwrap();
    log.append([[&record(0)[..]]]).unwrap();
    fs.inject(Fault::once(Call::Append, 0, Effect::FailOs(5)));
    log.end().unwrap_err();
    log.append([[&record(1)[..]]]).unwrap();
    log.sync().unwrap();
    assert_eq!(read(&fs, Tail::Open).unwrap().0, [record(0), record(1)]);
    log.end().unwrap();
    fs.inject(Fault::once(Call::Truncate, 0, Effect::FailOs(5)));
    log.settle().unwrap();
    let (records, replayed) = read(&fs, Tail::Open).unwrap();
    assert_eq!((&records[..], replayed.ended), (&[record(0), record(1)][..], true));
}

//! Tests of what a conversion leaves behind that does not come to its end, or not to all values:
//! power cuts at every step, files of a crash, a full disk, a shortage of handles, values and
//! tables that cannot be read.

use super::{
    DIR, Model, WAYS, assert_holds, assert_whole, key, named, open, options, round, value_file_bytes,
    wasteful,
};
use solera::{
    Error, ManualClock, Reclaim,
    vfs::{
        Fs,
        fault::{Call, Effect, Fault, FaultFs},
        mem::{MemFs, Persist},
    },
};
use std::{io::ErrorKind, path::Path, sync::Arc, time::Duration};

#[test]
fn a_value_that_the_log_lost_was_not_acknowledged_as_durable_and_one_without_its_entry_is_ignored() {
    for persist in Persist::ALL {
        for seed in 0..4 {
            let fs = MemFs::new();
            let mut model = Model::new();
            let db = open(&fs, Reclaim::Tier);
            round(&db, &mut model, 0..20, 1);
            db.sync().unwrap();
            let mut after = model.clone();
            round(&db, &mut after, 15..40, 2);
            let cut = fs.crash(persist, seed);
            let db = open(&cut, Reclaim::Tier);
            let mut behind = false;
            for n in 0..40 {
                let found = db.get(key(n)).unwrap();
                let is_new = found.as_deref() == after.get(&key(n)).map(Vec::as_slice) && n >= 15;
                assert!(
                    is_new || found.as_deref() == model.get(&key(n)).map(Vec::as_slice),
                    "{persist:?}: {n}"
                );
                // What was written later is not there without what was written before it.
                assert!(!(behind && is_new), "{persist:?}: {n}");
                behind |= n >= 15 && !is_new;
            }
        }
    }
}

#[test]
fn a_power_cut_at_any_step_of_a_conversion_loses_nothing_and_leaves_nothing() {
    for way in WAYS {
        let fs = MemFs::new();
        let model = wasteful(&fs, 120);
        fs.record_cuts(true);
        let db = open(&fs, way);
        db.wait_idle().unwrap();
        assert_holds(&db, &model);
        let cuts = fs.take_cuts();
        fs.record_cuts(false);
        assert!(cuts.len() > 20, "{way:?}: {} steps", cuts.len());
        for (at, cut) in cuts.iter().enumerate() {
            let persist = Persist::ALL[at % Persist::ALL.len()];
            for persist in [Persist::Nothing, persist] {
                let image = cut.crash(persist, at as u64);
                let db = options(Arc::new(image.clone()), Reclaim::Off).open(DIR).unwrap();
                assert_holds(&db, &model);
                db.close().unwrap();
                assert_whole(&image);
                if at % 8 == 0 {
                    let db = open(&image, way);
                    db.wait_idle().unwrap();
                    assert_holds(&db, &model);
                    db.close().unwrap();
                }
            }
        }
    }
}

#[test]
fn files_that_a_crash_left_behind_after_the_commit_go_at_the_next_open() {
    for way in WAYS {
        let memory = MemFs::new();
        let model = wasteful(&memory, 200);
        let fs = FaultFs::new(Arc::new(memory.clone()));
        fs.inject(Fault::sticky(Call::Remove, 0, Effect::Fail(ErrorKind::PermissionDenied)));
        let db = options(Arc::new(fs.clone()), way).open(DIR).unwrap();
        db.wait_idle().unwrap();
        drop(db);
        let left = value_file_bytes(&memory);
        fs.heal();
        let db = open(&memory, way);
        assert_holds(&db, &model);
        db.close().unwrap();
        assert!(value_file_bytes(&memory) < left, "{way:?}: {left} bytes are left");
        assert_whole(&memory);
    }
}

/// Symptom: none; the promise is that a conversion that meets a full disk is as if it had not
/// begun.
#[test]
fn a_full_disk_ends_a_conversion_without_a_trace_and_writes_go_on() {
    let memory = MemFs::new();
    let mut model = wasteful(&memory, 300);
    let before = value_file_bytes(&memory);
    let fs = FaultFs::new(Arc::new(memory.clone()));
    let clock = Arc::new(ManualClock::at_unix_ms(1_700_000_000_000));
    let db = options(Arc::new(fs.clone()), Reclaim::Tier).clock(clock.clone()).open(DIR).unwrap();
    fs.inject(Fault::sticky(Call::Append, 0, Effect::Fail(ErrorKind::StorageFull)).on(".values"));
    let mut failures = 0;
    for again in 0..200 {
        match db.step() {
            Ok(true) => {}
            Ok(false) => break,
            Err(Error::Io { .. }) => failures += 1,
            Err(other) => panic!("{other:?}"),
        }
        assert!(again < 199, "it is tried again and again");
    }
    assert_eq!((failures, named(&memory, ".values")), (1, vec![]));
    // Writers are not held, and nothing is tried before its time.
    round(&db, &mut model, 0..50, 7);
    db.flush().unwrap();
    while db.step().unwrap() {}
    assert_eq!(fs.hits(), 1);
    assert_holds(&db, &model);
    clock.advance(Duration::from_secs(10));
    assert!((0..100).any(|_| db.step().is_err()), "it is tried once more");
    fs.heal();
    clock.advance(Duration::from_secs(60));
    while db.step().unwrap() {}
    assert_holds(&db, &model);
    db.close().unwrap();
    assert!(value_file_bytes(&memory) < before * 3 / 4);
    assert_whole(&memory);
}

/// `EIO`, `EMFILE`: the same numbers on every Unix.
const DEVICE_REFUSES: Effect = Effect::FailOs(5);
const TOO_MANY_FILES: Effect = Effect::FailOs(24);

/// The reads of a log but for the first one, of its header.
fn of_values(log: &Path, effect: Effect) -> Fault {
    Fault::sticky(Call::Read, 1, effect).on(log.file_name().unwrap().to_str().unwrap())
}

/// Symptom: one value that the device refused to read stopped all reclaim for good. Cause: the job
/// failed, and the same one was chosen again. Cure: the value stays where it is, as a damaged one.
#[test]
fn a_value_whose_read_fails_for_good_stays_and_the_reclaim_of_all_others_goes_on() {
    for way in WAYS {
        let memory = MemFs::new();
        let model = wasteful(&memory, 300);
        let before = value_file_bytes(&memory);
        let fs = FaultFs::new(Arc::new(memory.clone()));
        let db = options(Arc::new(fs.clone()), way).open(DIR).unwrap();
        let bad = named(&memory, ".log")[0].clone();
        fs.inject(of_values(&bad, DEVICE_REFUSES));
        db.wait_idle().unwrap();
        db.compact_range(..).unwrap();
        db.wait_idle().unwrap();
        assert!(fs.hits() > 0, "{way:?}: the file was to be emptied");
        let after = value_file_bytes(&memory);
        assert!(after < before * 3 / 4, "{way:?}: {after} of {before} bytes are left");
        let refused = model.keys().filter(|key| db.get(key).is_err()).count();
        assert!((1..model.len() / 2).contains(&refused), "{way:?}: {refused} keys are refused");
        fs.heal();
        assert!(memory.exists(&bad).unwrap(), "{way:?}: what is not lost is still there");
        assert_holds(&db, &model);
        db.close().unwrap();
        assert_whole(&memory);
    }
}

#[test]
fn a_shortage_of_handles_spares_no_file_and_is_waited_out() {
    for way in WAYS {
        let memory = MemFs::new();
        let model = wasteful(&memory, 300);
        let before = value_file_bytes(&memory);
        let fs = FaultFs::new(Arc::new(memory.clone()));
        let clock = Arc::new(ManualClock::at_unix_ms(1_700_000_000_000));
        let db = options(Arc::new(fs.clone()), way).clock(clock.clone()).open(DIR).unwrap();
        fs.inject(of_values(&named(&memory, ".log")[0], TOO_MANY_FILES));
        let failed = (0..200).find_map(|_| db.step().err());
        assert!(matches!(failed, Some(Error::Io { .. })), "{way:?}: {failed:?}");
        fs.heal();
        clock.advance(Duration::from_secs(60));
        db.wait_idle().unwrap();
        let after = value_file_bytes(&memory);
        assert!(after < before * 3 / 4, "{way:?}: {after} of {before} bytes are left");
        assert_holds(&db, &model);
    }
}

/// Symptom: behind a damaged table `Rewrite` gave nothing back any more. Cause: each file that was
/// its turn was spared, since the walk for its pointers met the table. Cure: the walk goes on, and
/// a file is spared if pointers are missing.
#[test]
fn under_rewrite_a_damaged_table_spares_no_value_file_that_is_whole() {
    let fs = MemFs::new();
    let model = wasteful(&fs, 2000);
    let table = &named(&fs, ".table")[0];
    let mut bytes = fs.content(table).unwrap();
    bytes[100] ^= 1;
    fs.set_content(table, &bytes).unwrap();
    let before = value_file_bytes(&fs);
    let db = open(&fs, Reclaim::Rewrite);
    let readable =
        |db: &solera::Db| model.keys().filter(|key| db.get(key).is_ok()).cloned().collect::<Vec<_>>();
    let readable_before = readable(&db);
    assert!(readable_before.len() < model.len(), "some keys need the damaged block");
    db.wait_idle().unwrap();
    let after = value_file_bytes(&fs);
    assert!(after < before * 3 / 4, "{after} of {before} bytes are left");
    for key in readable_before {
        assert_eq!(db.get(&key).unwrap().as_deref(), model.get(&key).map(Vec::as_slice));
    }
}

/// Symptom: a conversion that met a damaged long value alone left a value file without values until
/// the next open. Cause: it began the file before it had checked the value.
#[test]
fn a_conversion_that_moves_nothing_leaves_no_value_file() {
    for is_damaged in [true, false] {
        let memory = MemFs::new();
        let long = vec![7; (1 << 20) + 5];
        let db = open(&memory, Reclaim::Off);
        db.ingest([(key(0), &long), (key(1), &long)]).unwrap();
        db.put(key(1), "short").unwrap();
        db.flush().unwrap();
        db.close().unwrap();
        let before = named(&memory, ".values");
        assert_eq!(before.len(), 1);
        let fs = FaultFs::new(Arc::new(memory.clone()));
        if is_damaged {
            let mut bytes = memory.content(&before[0]).unwrap();
            bytes[1 << 19] ^= 1;
            memory.set_content(&before[0], &bytes).unwrap();
        }
        let db = options(Arc::new(fs.clone()), Reclaim::Tier).open(DIR).unwrap();
        if !is_damaged {
            // After its header and its footer.
            fs.inject(Fault::sticky(Call::Read, 2, DEVICE_REFUSES).on(".values"));
        }
        db.compact_range(..).unwrap();
        db.wait_idle().unwrap();
        assert!(is_damaged || fs.hits() > 0, "the value was to move");
        assert_eq!(named(&memory, ".values"), before);
        assert!(db.get(key(0)).is_err());
        assert_eq!(db.get(key(1)).unwrap().unwrap(), "short");
    }
}

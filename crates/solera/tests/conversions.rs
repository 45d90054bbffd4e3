//! Tests of giving back the space of separated values (`Options::reclaim`), through `Db`, in three
//! ways.
//!
//! The ways are tier, rewrite and LearnedKV. Whatever comes in between, every answer stays, and
//! what no reader needs goes. In between come power cuts at every step, a full disk, threads that
//! write, deletes, snapshots, torn or swapped value files, operands and expiries. Value files take
//! at most an eighth of the live values besides what is spared. Ranges that walks have read by
//! short reads are put in order.

use solera::{
    Db, Error, KeyspaceOptions, ManualClock, Options, Reclaim, Shape,
    control::{Change, knob},
    operator::Append,
    vfs::{
        Fs,
        fault::{Call, Effect, Fault, FaultFs},
        mem::{MemFs, Persist},
    },
};
use std::{
    collections::BTreeMap,
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

const DIR: &str = "/db";
const WAYS: [Reclaim; 3] = [Reclaim::Tier, Reclaim::Rewrite, Reclaim::LearnedKv];
/// Value files may take so much beyond what is live, in percent.
const SPARE: u32 = 20;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(fs: Arc<dyn Fs>, way: Reclaim) -> Options {
    Options::new()
        .memory(4 << 20)
        .write_buffer(4 << 10)
        .shape(Shape { table_bytes: 4 << 10, ..Shape::default() })
        .background_threads(0)
        .separate_values_from(16)
        .reclaim(way)
        .value_spare_percent(SPARE)
        .merge_operator(Arc::new(Append))
        .seed(1)
        .fs(fs)
}

fn open(fs: &MemFs, way: Reclaim) -> Db {
    options(Arc::new(fs.clone()), way).open(DIR).unwrap()
}

fn key(n: u32) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

fn put(db: &Db, model: &mut Model, n: u32, value: Vec<u8>) {
    db.put(key(n), &value).unwrap();
    model.insert(key(n), value);
}

/// Puts `keys`, each with a value that tells the round and has some 200 bytes.
fn round(db: &Db, model: &mut Model, keys: impl IntoIterator<Item = u32>, round: u32) {
    for n in keys {
        put(
            db,
            model,
            n,
            [&round.to_le_bytes()[..], &vec![(n + round) as u8; 150 + n as usize % 100]].concat(),
        );
    }
}

/// A database whose value files have more garbage than they may, nothing of which is given back
/// yet: half of all keys were written three times.
fn wasteful(fs: &MemFs, keys: u32) -> Model {
    let mut model = Model::new();
    let db = open(fs, Reclaim::Off);
    round(&db, &mut model, 0..keys, 0);
    for again in 1..4 {
        round(&db, &mut model, (0..keys).filter(|n| n * 7 % 10 < 5), again);
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    db.close().unwrap();
    model
}

fn assert_holds(db: &Db, model: &Model) {
    for (key, value) in model {
        let found = db.get(key).unwrap();
        assert_eq!(found.as_deref(), Some(&value[..]), "{}", key.escape_ascii());
    }
    let all: Model =
        db.iter().map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect();
    assert_eq!(all.len(), model.len());
    assert!(all == *model);
}

fn named(fs: &dyn Fs, ending: &str) -> Vec<PathBuf> {
    let mut names: Vec<_> =
        fs.list_dir(DIR.as_ref()).unwrap().into_iter().filter(|name| name.ends_with(ending)).collect();
    names.sort();
    names.into_iter().map(|name| Path::new(DIR).join(name)).collect()
}

fn value_file_bytes(fs: &MemFs) -> u64 {
    let files = named(fs, ".log").into_iter().chain(named(fs, ".values"));
    files.map(|file| fs.content(&file).unwrap().len() as u64).sum()
}

fn live_bytes(model: &Model) -> u64 {
    model.values().map(|value| value.len() as u64).sum()
}

fn assert_whole(fs: &MemFs) {
    let check = solera::inspect::check(&(Arc::new(fs.clone()) as Arc<dyn Fs>), DIR.as_ref()).unwrap();
    assert!(check.problems.is_empty(), "{:?}", check.problems);
}

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

#[test]
fn many_threads_convert_and_write_at_once_and_every_answer_stays() {
    for way in WAYS {
        let fs = MemFs::new();
        let db = options(Arc::new(fs.clone()), way).background_threads(3).open(DIR).unwrap();
        let model = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..2u32)
                .map(|writer| {
                    let db = &db;
                    scope.spawn(move || {
                        let mut model = Model::new();
                        for again in 0..12 {
                            round(
                                db,
                                &mut model,
                                (0..400).filter(|n| n % 2 == writer && n * 7 % (again + 1) < 2),
                                again,
                            );
                        }
                        model
                    })
                })
                .collect();
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect::<Model>()
        });
        db.flush().unwrap();
        db.wait_idle().unwrap();
        assert_holds(&db, &model);
        let report = db.verify().unwrap();
        assert!(report.problems.is_empty(), "{way:?}: {:?}", report.problems);
        db.close().unwrap();
        assert_whole(&fs);
    }
}

#[test]
fn a_delete_counts_before_during_and_after_a_conversion_and_of_absent_keys_too() {
    for way in WAYS {
        let fs = MemFs::new();
        let mut model = wasteful(&fs, 300);
        let db = open(&fs, way);
        let delete = |model: &mut Model, n: u32| {
            db.delete(key(n)).unwrap();
            model.remove(&key(n));
        };
        (0..300).step_by(11).for_each(|n| delete(&mut model, n));
        (1000..1010).for_each(|n| delete(&mut model, n));
        db.flush().unwrap();
        let mut next = 1;
        while db.step().unwrap() {
            // Some lie in ranges that are converted already, some in others.
            delete(&mut model, next % 300);
            delete(&mut model, 2000 + next);
            next += 13;
            assert!(next < 100_000, "{way:?}: work goes on for ever");
        }
        assert_holds(&db, &model);
        (2..300).step_by(17).for_each(|n| delete(&mut model, n));
        assert_holds(&db, &model);
        db.flush().unwrap();
        db.compact_range(..).unwrap();
        db.wait_idle().unwrap();
        assert_holds(&db, &model);
        db.close().unwrap();
        assert_whole(&fs);
    }
}

#[test]
fn a_snapshot_or_an_iterator_older_than_a_conversion_reads_what_it_saw() {
    for way in WAYS {
        let fs = MemFs::new();
        let mut model = wasteful(&fs, 200);
        let db = open(&fs, way);
        let (snapshot, then, mut iterator) = (db.snapshot(), model.clone(), db.iter());
        let first: Vec<_> = iterator.by_ref().take(20).map(|pair| pair.unwrap()).collect();
        for again in 5..9 {
            round(&db, &mut model, (0..200).filter(|n| (n + again) % 3 > 0), again);
            db.flush().unwrap();
            db.wait_idle().unwrap();
        }
        assert_holds(&db, &model);
        for (key, value) in &then {
            assert_eq!(snapshot.get(db.default(), key).unwrap().as_deref(), Some(&value[..]), "{way:?}");
        }
        let rest: Vec<_> = iterator.map(|pair| pair.unwrap()).collect();
        let seen: Model =
            first.iter().chain(&rest).map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        assert!(seen == then, "{way:?}");
        drop(snapshot);
        db.compact_range(..).unwrap();
        db.wait_idle().unwrap();
        assert_holds(&db, &model);
        db.close().unwrap();
        let taken = value_file_bytes(&fs);
        assert!(taken < live_bytes(&model) * 2, "{way:?}: {taken} bytes for {}", live_bytes(&model));
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

#[test]
fn conversions_take_at_most_an_eighth_of_the_live_values_besides_what_is_spared() {
    let fs = MemFs::new();
    let mut model = wasteful(&fs, 2000);
    let live = live_bytes(&model);
    let db = open(&fs, Reclaim::Tier);
    let before = value_file_bytes(&fs);
    let mut peak = before;
    while db.step().unwrap() {
        peak = peak.max(value_file_bytes(&fs));
    }
    assert_holds(&db, &model);
    // What is wasted now is given back in pieces; a piece is at most a log or an eighth.
    assert!(peak <= before + live / 8 + (16 << 10), "{peak} bytes at the peak, {before} before, {live} live");
    // Logs that are written or needed come on top.
    let logs = 10 * (4 << 10) + (16 << 10);
    let allowed = |live: u64| live * u64::from(100 + SPARE) / 100 + live / 8 + logs;
    let mut steady = 0;
    for again in 10..20 {
        for n in (0..2000).filter(|n| n * 7 % 10 < 5) {
            round(&db, &mut model, [n], again);
            while db.step().unwrap() {
                steady = steady.max(value_file_bytes(&fs));
            }
        }
    }
    assert_holds(&db, &model);
    let framing = live * 30 / 200;
    assert!(steady <= allowed(live_bytes(&model)) + framing, "{steady} bytes, {} allowed", allowed(live));
}

#[test]
fn an_absent_key_is_refused_by_the_filters_of_the_tables_that_a_conversion_wrote() {
    let fs = MemFs::new();
    let model = wasteful(&fs, 300);
    let db = open(&fs, Reclaim::Tier);
    db.wait_idle().unwrap();
    assert!(!named(&fs, ".values").is_empty());
    let refused =
        || -> u64 { db.default().stats().levels.iter().map(|level| level.counters.filter_negatives).sum() };
    let before = refused();
    for n in 0..300 {
        assert_eq!(db.get([&key(n)[..], b"!"].concat()).unwrap(), None);
    }
    assert!(refused() > before + 200, "{} of 300", refused() - before);
    assert_holds(&db, &model);
}

#[test]
fn a_sorted_value_file_that_is_torn_swapped_missing_or_anothers_harms_its_own_values_and_says_where() {
    let fs = MemFs::new();
    let model = wasteful(&fs, 400);
    let db = open(&fs, Reclaim::Tier);
    db.wait_idle().unwrap();
    db.close().unwrap();
    // Another database with files of the same numbers.
    let other = MemFs::new();
    wasteful(&other, 400);
    let foreign = options(Arc::new(other.clone()), Reclaim::Tier).seed(2).open("/other").unwrap();
    (0..400).for_each(|n| foreign.put(key(n), [1; 300]).unwrap());
    foreign.ingest((0..400).map(|n| (key(n), vec![2; 300]))).unwrap();
    foreign.close().unwrap();
    let names = other.list_dir("/other".as_ref()).unwrap();
    let foreign = names.iter().find(|name| name.ends_with(".values")).unwrap();
    let foreign = other.content(&Path::new("/other").join(foreign)).unwrap();
    let values = named(&fs, ".values");
    assert!(values.len() > 1, "{values:?}");
    let victim = values[0].clone();
    let whole = fs.content(&victim).unwrap();
    let second = fs.content(&values[1]).unwrap();
    // Cut in the middle, every pointer behind leads past the end.
    for damaged in [Some(whole[..whole.len() / 2].to_vec()), Some(second), Some(foreign), Some(vec![]), None]
    {
        match damaged {
            Some(bytes) => fs.set_content(&victim, &bytes).unwrap(),
            None => fs.remove_file(&victim).unwrap(),
        }
        let db = options(Arc::new(fs.clone()), Reclaim::Tier).read_only(true).open(DIR).unwrap();
        let mut harmed = 0;
        for (key, value) in &model {
            match db.get(key) {
                Ok(found) => assert_eq!(found.as_deref(), Some(&value[..])),
                Err(Error::Corrupt { file, offset, .. }) => {
                    assert_eq!(file, victim);
                    assert!(offset <= whole.len() as u64);
                    harmed += 1;
                }
                Err(other) => panic!("{other:?}"),
            }
        }
        assert!((1..400).contains(&harmed), "{harmed} harmed");
        assert_eq!(db.iter().keys().filter(|key| key.is_ok()).count(), model.len());
        drop(db);
        let check = solera::inspect::check(&(Arc::new(fs.clone()) as Arc<dyn Fs>), DIR.as_ref()).unwrap();
        assert!(!check.problems.is_empty());
    }
}

#[test]
fn values_of_every_length_and_keys_longer_than_eight_bytes_convert() {
    for way in WAYS {
        let fs = MemFs::new();
        let mut model = Model::new();
        let long = |n: u32| {
            let beginning = vec![b'p'; [3, 40, 3000][n as usize % 3]];
            [&beginning[..], format!("/{:04}", n / 2).as_bytes(), &vec![0; n as usize % 2]].concat()
        };
        let lengths = [0, 1, 15, 16, 17, 127, 128, 1000, 5000, 70_000];
        let db = open(&fs, way);
        for again in 0..4 {
            for n in (0..150).filter(|n| again == 0 || n % 3 != 1) {
                let value = vec![(n + again) as u8; lengths[(n + again) as usize % lengths.len()]];
                db.put(long(n), &value).unwrap();
                model.insert(long(n), value);
            }
            db.flush().unwrap();
            db.wait_idle().unwrap();
            assert_holds(&db, &model);
        }
        let from: Vec<_> = db.range(&long(30)[..]..).map(|pair| pair.unwrap().0.to_vec()).collect();
        assert!(from.iter().eq(model.range(long(30)..).map(|(key, _)| key)), "{way:?}");
        db.close().unwrap();
        assert_whole(&fs);
    }
}

#[test]
fn operands_on_a_separated_base_and_values_that_expire_convert() {
    for way in WAYS {
        let fs = MemFs::new();
        let clock = Arc::new(ManualClock::at_unix_ms(1_700_000_000_000));
        let db = options(Arc::new(fs.clone()), way).clock(clock.clone()).open(DIR).unwrap();
        let mut model = Model::new();
        for again in 0..6 {
            for n in 0..200u32 {
                match (n + again) % 5 {
                    0 => {
                        db.merge(key(n), b"+operand that is long enough").unwrap();
                        model.entry(key(n)).or_default().extend(b"+operand that is long enough");
                    }
                    1 => {
                        let ttl = if n % 2 == 0 { 5 } else { 1 << 30 };
                        db.put_with_ttl(key(n), [again as u8; 200], Duration::from_secs(ttl)).unwrap();
                        model.insert(key(n), vec![again as u8; 200]);
                        if n % 2 == 0 {
                            // Gone when this round has ended.
                            model.remove(&key(n));
                        }
                    }
                    _ => put(&db, &mut model, n, vec![(n + again) as u8; 200]),
                }
            }
            db.flush().unwrap();
            clock.advance(Duration::from_secs(6));
            db.wait_idle().unwrap();
            assert_holds(&db, &model);
        }
        db.close().unwrap();
        assert_whole(&fs);
    }
}

#[test]
fn a_write_that_races_with_a_rewrite_wins() {
    let fs = MemFs::new();
    wasteful(&fs, 200);
    let db = options(Arc::new(fs.clone()), Reclaim::Rewrite).background_threads(2).open(DIR).unwrap();
    let model = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2u32)
            .map(|writer| {
                let db = &db;
                scope.spawn(move || {
                    let mut model = Model::new();
                    for again in 100..160 {
                        for n in (0..200).filter(|n| n % 2 == writer) {
                            round(db, &mut model, [n], again);
                            // What was acknowledged is what is read, whatever is put again.
                            assert_eq!(db.get(key(n)).unwrap().as_deref(), Some(&model[&key(n)][..]));
                        }
                    }
                    model
                })
            })
            .collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect::<Model>()
    });
    db.flush().unwrap();
    db.wait_idle().unwrap();
    assert_holds(&db, &model);
    db.close().unwrap();
    assert_whole(&fs);
}

#[test]
fn ranges_that_walks_have_read_out_of_logs_are_put_in_order() {
    let fs = MemFs::new();
    let mut model = Model::new();
    // No garbage but what a log takes besides its values: nothing has to be given back.
    let db = options(Arc::new(fs.clone()), Reclaim::Tier).value_spare_percent(100).open(DIR).unwrap();
    let keys = 600;
    round(&db, &mut model, (0..keys).map(|n| n * 131 % keys), 0);
    db.flush().unwrap();
    db.wait_idle().unwrap();
    assert_eq!(named(&fs, ".values"), Vec::<PathBuf>::new());
    let (from, to) = (key(200), key(300));
    for _ in 0..200 {
        assert_eq!(db.range(&from[..]..&to[..]).count(), 100);
    }
    while db.step().unwrap() {}
    assert!(!named(&fs, ".values").is_empty());
    assert_holds(&db, &model);
    db.close().unwrap();
    assert_whole(&fs);
}

/// Symptom: however often walks went over a small keyspace, each value cost them a read. Cause: a
/// conversion took a whole table, and there was never room to move all that it points to. Cure:
/// tables are divided where walks read.
#[test]
fn walks_over_everything_put_a_keyspace_of_one_table_into_order_within_its_space() {
    let memory = MemFs::new();
    let fs = Arc::new(FaultFs::new(Arc::new(memory.clone())));
    let mut model = Model::new();
    let keys = 6000;
    let options = options(fs.clone(), Reclaim::Tier).shape(Shape::default()).write_buffer(32 << 10);
    let db = options.value_spare_percent(30).open(DIR).unwrap();
    round(&db, &mut model, (0..keys).map(|n| n * 131 % keys), 0);
    for again in 1..12 {
        round(&db, &mut model, (0..1500).map(|n| (n * n * 31 + again * 977) % keys), again);
        while db.step().unwrap() {}
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let scan = || {
        // Tables that were written since are opened first: their values count.
        assert_eq!(db.iter().keys().count(), keys as usize);
        let before = fs.calls(Call::Read);
        assert_eq!(db.range(&key(2000)[..]..).take(500).count(), 500);
        fs.calls(Call::Read) - before
    };
    let scattered = scan();
    let live = live_bytes(&model);
    // Besides values, logs hold keys and frames.
    let most = live * 130 / 100 + live / 8 + live / 32 + live * 30 / 200 + 4 * (32 << 10);
    for _ in 0..12 {
        assert_eq!(db.iter().count(), keys as usize);
        while db.step().unwrap() {
            let taken = value_file_bytes(&memory);
            assert!(taken <= most, "{taken} bytes, {most} allowed");
        }
    }
    let ordered = scan();
    // A walk over what is scattered reads no file beyond its end, so it makes few reads, too.
    assert!(ordered <= 40 && ordered * 5 <= scattered * 2, "{ordered} reads, {scattered} before");
    assert_holds(&db, &model);
    db.close().unwrap();
    assert_whole(&memory);
}

/// Symptom: with values of 100 bytes apart each write took as many reads as there were sorted value
/// files. Cause: each look for space to give back read the footer of each. Cure: the file
/// keeps what its footer says.
#[test]
fn a_look_for_space_to_give_back_that_finds_none_reads_no_file() {
    let memory = MemFs::new();
    let model = wasteful(&memory, 600);
    let fs = Arc::new(FaultFs::new(Arc::new(memory.clone())));
    let db = options(fs.clone(), Reclaim::Tier).open(DIR).unwrap();
    while db.step().unwrap() {}
    assert!(named(&memory, ".values").len() > 1);
    let before = fs.calls(Call::Read);
    for _ in 0..5 {
        assert!(!db.step().unwrap());
    }
    assert_eq!(fs.calls(Call::Read), before);
    assert_holds(&db, &model);
}

/// Symptom: a few walks over a part of a table had the values of the whole table moved. Cause: the
/// files that were to be emptied did not know of which keys. Cure: they carry their range.
#[test]
fn walks_in_a_tenth_of_a_table_have_no_more_than_a_third_of_its_values_moved() {
    let memory = MemFs::new();
    let options = options(Arc::new(memory.clone()), Reclaim::Tier).shape(Shape::default());
    let db = options.write_buffer(32 << 10).value_spare_percent(30).open(DIR).unwrap();
    let (keys, mut model) = (3000, Model::new());
    (0..keys).for_each(|n| put(&db, &mut model, n * 131 % keys, vec![n as u8; 1000]));
    db.flush().unwrap();
    db.wait_idle().unwrap();
    for _ in 0..60 {
        assert_eq!(db.range(&key(1500)[..]..).take(300).count(), 300);
        while db.step().unwrap() {}
    }
    let sorted = named(&memory, ".values");
    let moved: u64 = sorted.iter().map(|file| memory.content(file).unwrap().len() as u64).sum();
    let live = live_bytes(&model);
    assert!(moved > 0, "walks had values moved");
    assert!(moved <= live / 3, "{moved} bytes moved of {live}");
    assert_holds(&db, &model);
}

/// Symptom: after a few scans 20,000 pairs of 1 KiB took 2.2 times their bytes. Cause: a conversion
/// that was chosen for a part of a table moved the values of the whole table. Cure: only values of
/// the range that was chosen move, and tables end where it ends.
#[test]
fn a_few_scans_of_a_keyspace_of_one_table_leave_it_within_its_space_and_lookups_at_one_read() {
    let memory = MemFs::new();
    let fs = Arc::new(FaultFs::new(Arc::new(memory.clone())));
    let keys = 3000;
    let options = options(fs.clone(), Reclaim::Tier).shape(Shape::default()).write_buffer(32 << 10);
    let db = options.value_spare_percent(30).open(DIR).unwrap();
    let mut model = Model::new();
    let mut write = |n: u32, again: u32| {
        put(&db, &mut model, n, [&again.to_le_bytes()[..], &[(n + again) as u8; 1000]].concat());
    };
    (0..keys).for_each(|n| write(n * 131 % keys, 0));
    for again in 1..6 {
        (0..600).for_each(|n| write((n * n * 31 + again * 977) % keys, again));
        while db.step().unwrap() {}
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let live = live_bytes(&model);
    // Keys and frames take a part of the logs; two logs are begun.
    let logs = live * 4 / 100 + 2 * (32 << 10);
    let (mut peak, mut moved) = (0, false);
    for round in 0..6 {
        for scan in 0..20u32 {
            let from = key((scan * 7919 + round * 611) % keys);
            assert!(db.range(&from[..]..).take(500).count() > 0);
            while db.step().unwrap() {
                peak = peak.max(value_file_bytes(&memory));
            }
        }
        let at_rest = value_file_bytes(&memory);
        assert!(at_rest <= live * 140 / 100 + logs, "{at_rest} bytes for {live} after round {round}");
        moved |= !named(&memory, ".values").is_empty();
    }
    assert!(moved, "walks had values moved");
    assert!(peak <= live * 130 / 100 + live / 8 + logs, "{peak} bytes at the peak for {live}");
    for key in db.iter().keys() {
        key.unwrap();
    }
    let before = fs.calls(Call::Read);
    for n in 0..1000 {
        assert!(db.get(key(n * 7919 % keys)).unwrap().is_some());
    }
    let reads = fs.calls(Call::Read) - before;
    assert!(reads <= 1020, "{reads} reads for 1000 keys");
    assert_holds(&db, &model);
    db.close().unwrap();
    assert_whole(&memory);
}

#[test]
fn the_threshold_is_a_knob_that_acts_on_what_is_written_from_then_on() {
    let fs = MemFs::new();
    let open =
        || Options::new().memory(4 << 20).background_threads(0).fs(Arc::new(fs.clone())).open(DIR).unwrap();
    let db = open();
    let other = db.keyspace_with("other", KeyspaceOptions::new()).unwrap();
    let separated = |db: &Db| {
        db.flush().unwrap();
        db.default().stats().separated_values
    };
    let write = |db: &Db, from: u32| (from..from + 50).for_each(|n| db.put(key(n), [1; 100]).unwrap());
    write(&db, 0);
    assert_eq!(separated(&db), 0);
    let set = |db: &Db, bytes: u32| {
        db.control().apply(Change::new("test", "to see").set(&knob::SEPARATE_FROM, bytes))
    };
    set(&db, 100).unwrap();
    write(&db, 100);
    (0..50).for_each(|n| other.put(key(n), [1; 100]).unwrap());
    assert_eq!(separated(&db), 50);
    assert_eq!(other.stats().separated_values, 0);
    drop(other);
    db.close().unwrap();
    let db = open();
    write(&db, 200);
    assert_eq!(separated(&db), 100);
    set(&db, 101).unwrap();
    write(&db, 300);
    set(&db, u32::MAX).unwrap();
    write(&db, 400);
    assert_eq!(separated(&db), 100);
    db.compact_range(..).unwrap();
    assert_eq!(separated(&db), 100, "what was written before stays as it is");
    assert!((0..50).all(|n| db.get(key(n + 100)).unwrap().unwrap() == vec![1; 100]));
    let refused = set(&db, 0).unwrap_err();
    assert!(refused.to_string().contains("1 to 4294967295"), "{refused}");
}

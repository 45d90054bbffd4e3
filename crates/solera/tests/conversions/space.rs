//! Tests of the space that value files take, and of what a look for it costs.

use super::{
    DIR, Model, SPARE, assert_holds, assert_whole, live_bytes, named, open, options, put, round,
    value_file_bytes, wasteful,
};
use solera::{
    Reclaim,
    vfs::{
        fault::{Call, FaultFs},
        mem::MemFs,
    },
};
use std::sync::Arc;

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

/// Symptom: a database with separated values that was opened 540 times, for one value each time,
/// had 547 files, also at rest. Cause: each open begins a log, which is a value file, and such a
/// file without garbage was never emptied. Cure: many small logs are emptied together.
#[test]
fn a_database_that_is_opened_often_keeps_few_value_files() {
    let fs = MemFs::new();
    let small_logs = || options(Arc::new(fs.clone()), Reclaim::Tier).write_buffer(64 << 10);
    let mut model = Model::new();
    for n in 0..300 {
        let db = small_logs().open(DIR).unwrap();
        put(&db, &mut model, n, vec![n as u8; 200]);
        db.close().unwrap();
    }
    let before = named(&fs, ".log").len();
    assert!(before > 250, "{before}: this test is to make many");
    let db = small_logs().open(DIR).unwrap();
    db.wait_idle().unwrap();
    let (logs, sorted) = (named(&fs, ".log").len(), named(&fs, ".values").len());
    assert!(logs <= 80 && sorted <= 20, "{logs} logs and {sorted} sorted files");
    assert_holds(&db, &model);
    db.close().unwrap();
    assert_whole(&fs);
}

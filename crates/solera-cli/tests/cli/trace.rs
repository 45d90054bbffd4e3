//! Tests of `solera trace`: what a load records is what it did, and can be done again elsewhere.
//!
//! A replay writes what was written, and finds what was found if it begins with what was there. A
//! trace of hashes is replayed without its keys. What is no whole trace is told with its place.

use crate::run::Solera;
use serde_json::Value;
use solera::{Db, KeyspaceOptions, trace::TraceOptions};
use std::time::Duration;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// A trace of everything that a program can do, in `all.trace`.
fn record_all(solera: &Solera, options: TraceOptions) {
    let db = Db::open(solera.path("recorded")).unwrap();
    for n in 0..300u32 {
        db.put(format!("old {n:04}").as_bytes(), [1; 40]).unwrap();
    }
    let recording = db.control().trace(&solera.path("all.trace"), options).unwrap();
    for n in 0..200u32 {
        db.put(format!("new {n:04}").as_bytes(), [2; 60]).unwrap();
        assert!(db.get(format!("new {n:04}").as_bytes()).unwrap().is_some());
        assert!(db.get(format!("old {n:04}").as_bytes()).unwrap().is_some());
        assert!(db.get(format!("no {n:04}").as_bytes()).unwrap().is_none());
    }
    assert_eq!(db.range(b"new".as_slice()..).take(10).count(), 10);
    assert_eq!(db.range(..b"new 0003".as_slice()).rev().take(10).count(), 3);
    let operator = solera::operator::builtin("append").unwrap();
    let words = db.keyspace_with("words", KeyspaceOptions::new().merge_operator(operator)).unwrap();
    words.merge(b"word", b"1234").unwrap();
    words.put_with_ttl(b"brief", b"12", Duration::from_secs(60)).unwrap();
    let mut batch = db.batch();
    batch.put(&words, b"in a batch", b"12345678").unwrap();
    batch.delete(db.default(), b"new 0000").unwrap();
    batch.delete_range(db.default(), b"new 0001"..b"new 0005").unwrap();
    db.write(batch).unwrap();
    assert!(db.get(b"new 0000").unwrap().is_none());
    db.delete_range(b"new 0100"..b"new 0101").unwrap();
    assert!(words.get(b"word").unwrap().is_some());
    db.keyspace("gone").unwrap().put(b"k", b"v").unwrap();
    db.drop_keyspace("gone").unwrap();
    let recorded = recording.finish().unwrap();
    assert_eq!(recorded.dropped, 0);
}

#[test]
fn a_load_records_what_it_writes_and_a_replay_writes_it_again() {
    let solera = Solera::new();
    let lines: String = (0..5000).map(|n| format!("key {n}\tvalue {n}\n")).collect();
    let load = ["load", "--format", "tsv", "--trace", "load.trace", "-"];
    let said = solera.run_with_input(load, lines.as_bytes()).ok();
    assert!(said.contains("; 5,000 operations in the trace"), "{said}");
    let shown = json(&solera.run(["trace", "show", "--json", "load.trace"]).ok());
    assert_eq!(
        (&shown["operations"], &shown["batches"], &shown["ended"]),
        (&5000.into(), &5.into(), &true.into())
    );
    assert_eq!((&shown["dropped"], &shown["keys_hashed"]), (&0.into(), &false.into()));
    let keyspace = &shown["keyspaces"][0];
    assert_eq!((&keyspace["name"], &keyspace["puts"]), (&"default".into(), &5000.into()));
    assert_eq!((&keyspace["mix"]["w"], &keyspace["distinct_keys"]), (&1.0.into(), &5000.into()));

    let replayed = solera.run(["trace", "replay", "load.trace", "--dir", "copy", "--asap", "--json"]).ok();
    let replayed = json(&replayed);
    assert_eq!(
        (&replayed["operations"], &replayed["calls"], &replayed["latencies"]["batch"]["count"]),
        (&5000.into(), &5.into(), &5.into())
    );
    let keys = |dir: &str| solera.run(["scan", "--keys-only", "--dir", dir]).ok();
    assert_eq!(keys("copy").lines().count(), 5000);
    assert_eq!(keys("copy"), keys(solera.db().to_str().unwrap()));

    // A trace is never written over, and a load that cannot record does not load.
    let message = solera.run_with_input(load, lines.as_bytes()).fails(2);
    assert!(message.contains("load.trace"), "{message}");
    solera.run(["load", "--sorted", "--trace", "x", "-"]).fails(2);
    solera.run(["load", "--hash-keys", "-"]).fails(2);
}

#[test]
fn a_replay_finds_what_was_found_if_it_begins_with_what_was_there() {
    let solera = Solera::new();
    record_all(&solera, TraceOptions::new());
    let replay = |dir: &str, more: &[&str]| {
        let args = [&["trace", "replay", "all.trace", "--asap", "--json", "--dir", dir], more].concat();
        json(&solera.run(args).ok())
    };
    let bare = replay("bare", &[]);
    assert_eq!((&bare["lookups"], &bare["lookups_alike"]), (&602.into(), &402.into()));
    assert_eq!((&bare["entries_recorded"], &bare["preloaded"]), (&13.into(), &0.into()));
    let preloaded = replay("preloaded", &["--preload"]);
    assert_eq!((&preloaded["lookups_alike"], &preloaded["preloaded"]), (&602.into(), &200.into()));
    assert_eq!(preloaded["entries_scanned"], 13);
    for (kind, count) in
        [("lookup_found", 401), ("lookup_absent", 201), ("scan", 2), ("put", 202), ("batch", 1), ("merge", 1)]
    {
        let kind = &preloaded["latencies"][kind];
        assert_eq!(kind["count"], count, "{preloaded}");
        assert!(kind["p50_ns"].as_u64() <= kind["p99_ns"].as_u64());
    }
    let db = Db::open(solera.path("preloaded")).unwrap();
    assert_eq!(db.keyspaces(), ["default", "words"]);
    assert_eq!(db.get(b"new 0007").unwrap().unwrap().len(), 60);
    assert!(db.get(b"new 0003").unwrap().is_none(), "deleted with its range");
    let words = db.keyspace("words").unwrap();
    assert_eq!(words.get(b"in a batch").unwrap().unwrap().len(), 8);
    drop((words, db));

    let text = solera.run(["trace", "replay", "all.trace", "--speed", "1000", "--dir", "fast"]).ok();
    assert!(text.contains("402 of 602 lookups found what the trace says"), "{text}");
    let shown = solera.run(["trace", "show", "all.trace"]).ok();
    for part in [
        "keyspace words",
        "found lookups             400",
        "10.0 entries",
        "3.0 entries",
        "hottest 1 %",
        "v=24.",
        "1 batch-commit of",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("left out") && !shown.contains("not ended"), "{shown}");
}

#[test]
fn a_trace_of_hashes_is_replayed_without_its_keys() {
    let solera = Solera::new();
    record_all(&solera, TraceOptions::new().hash_keys(true));
    let content = std::fs::read(solera.path("all.trace")).unwrap();
    assert!(!content.windows(4).any(|part| part == b"new " || part == b"old "));
    let args = ["trace", "replay", "all.trace", "--asap", "--json", "--preload", "--dir", "copy"];
    let replayed = json(&solera.run(args).ok());
    assert_eq!((&replayed["lookups_alike"], &replayed["skipped_range_deletes"]), (&602.into(), &2.into()));
    let shown = json(&solera.run(["trace", "show", "--json", "all.trace"]).ok());
    assert_eq!((&shown["keys_hashed"], &shown["keyspaces"][0]["found_lookups"]), (&true.into(), &400.into()));
}

#[test]
fn what_is_no_whole_trace_is_told_with_its_place() {
    let solera = Solera::new();
    record_all(&solera, TraceOptions::new());
    let whole = std::fs::read(solera.path("all.trace")).unwrap();
    let show = |content: &[u8]| {
        solera.write("changed.trace", content);
        solera.run(["trace", "show", "changed.trace"])
    };
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    let message = show(&flipped).fails(4);
    assert!(
        message.contains("changed.trace: damaged at byte 48") && message.contains("record it again"),
        "{message}"
    );
    let message = show(b"what is this").fails(2);
    assert!(message.contains("changed.trace is not a trace"), "{message}");
    let message = show(&whole[..20]).fails(4);
    assert!(message.contains("ends inside its header"), "{message}");
    // Killed in the middle of its last write.
    let text = show(&whole[..whole.len() - 60]).ok();
    assert!(text.contains("the recording was not ended"), "{text}");
    assert!(text.contains("bytes are not whole and left out"), "{text}");
    solera.run(["trace", "show", "nothing.trace"]).fails(6);
    let replay = ["trace", "replay", "all.trace", "--dir", "db"];
    for wrong in [&["--speed", "0"][..], &["--speed", "2", "--asap"], &["--value-bytes", "2"]] {
        solera.run([&replay[..], wrong].concat()).fails(2);
    }
    assert!(!solera.db().exists(), "nothing was made for a trace that was not read");
}

/// Symptom: a replay took SOLERA_DIR and wrote made-up values over the real ones. Cure: the
/// database is named, and one that has entries is refused unless the user says otherwise.
#[test]
fn a_replay_writes_over_entries_only_if_told() {
    let solera = Solera::new();
    solera.write("in.tsv", "a\t1\nb\t2\n");
    solera.run(["load", "--trace", "load.trace", "in.tsv"]).ok();
    let replay = ["trace", "replay", "load.trace", "--asap"];
    assert!(solera.run(replay).fails(2).contains("--dir"));
    let named = [&replay[..], &["--dir", "db"]].concat();
    let message = solera.run(&named).fails(2);
    assert!(message.contains("has entries") && message.contains("--overwrite"), "{message}");
    assert_eq!(solera.run(["scan"]).ok(), "a\t1\nb\t2\n");
    let report = json(&solera.run([&named[..], &["--overwrite", "--json"]].concat()).ok());
    assert_eq!((&report["operations"], &report["cut_bytes"]), (&2.into(), &0.into()));
}

/// Symptom: a replay that a signal ended said nothing.
#[cfg(unix)]
#[test]
fn a_replay_that_a_signal_stops_says_how_far_it_came() {
    let solera = Solera::new();
    let db = Db::open(solera.path("recorded")).unwrap();
    let recording = db.control().trace(&solera.path("slow.trace"), TraceOptions::new()).unwrap();
    db.put(b"first", b"1").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    db.put(b"second", b"2").unwrap();
    recording.finish().unwrap();
    drop(db);
    // The second operation comes minutes after the first.
    let mut replay = solera.command(["trace", "replay", "slow.trace", "--dir", "copy", "--speed", "0.0001"]);
    let child =
        replay.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    while !solera.path("copy").join("CURRENT").exists() {
        std::thread::yield_now();
    }
    let kill = ["-INT", &child.id().to_string()].map(str::to_owned);
    assert!(std::process::Command::new("kill").args(kill).status().unwrap().success());
    let stopped = child.wait_with_output().unwrap();
    let message = String::from_utf8(stopped.stderr).unwrap();
    assert_eq!(stopped.status.code(), Some(130), "{message}");
    assert!(message.contains(" of 2 operations done"), "{message}");
}

/// Symptom: a trace that was cut before its first operation was "from 1970-01-01".
#[test]
fn a_trace_without_operations_has_no_moment() {
    let solera = Solera::new();
    solera.write("in.tsv", "a\t1\nb\t2\n");
    solera.run(["load", "--trace", "whole.trace", "in.tsv"]).ok();
    let whole = std::fs::read(solera.path("whole.trace")).unwrap();
    solera.write("cut.trace", &whole[..60]);
    let text = solera.run(["trace", "show", "cut.trace"]).ok();
    assert!(text.starts_with("0 operations; 48 B\n") && text.contains("are not whole"), "{text}");
    let text = solera.run(["trace", "show", "cut.trace", "--json"]).ok();
    assert!(text.contains("\"begun_unix_ms\":null"), "{text}");
    assert!(solera.run(["trace", "show", "whole.trace"]).ok().contains(" from 20"));
}

//! Tests of `solera control watch`: what it sees of a database that another process works with.
//!
//! A load that is published can be watched until it ends. What cannot be watched is refused with
//! the reason.

use crate::run::Solera;
use serde_json::Value;
use std::{io::Write, process::Stdio};

#[test]
fn a_load_that_is_published_can_be_watched_until_it_ends() {
    let solera = Solera::new();
    let load = ["load", "--publish", "--format", "tsv", "--batch", "10", "-"];
    let mut loading = solera.command(load).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut input = loading.stdin.take().unwrap();
    for n in 0..100_000 {
        writeln!(input, "key {n}\tvalue").unwrap();
    }
    input.flush().unwrap();
    let look = || -> Vec<Value> {
        let run = solera.run(["control", "watch", "--json", "--every", "20ms", "--count", "2"]);
        String::from_utf8(run.out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let written = |look: &Value| look["keyspaces"][0]["counters"]["entries_written"].as_u64().unwrap();
    // The database is made, the records are read, the next observation comes: some day most of them
    // are seen.
    let looks =
        std::iter::repeat_with(look).find(|looks| looks.first().is_some_and(|look| written(look) > 60_000));
    let looks = looks.unwrap();
    assert_eq!((looks.len(), &looks[0]["version"], &looks[0]["stale_ms"]), (2, &3.into(), &Value::Null));
    assert_eq!(looks[0]["keyspaces"][0]["mix"]["entries_written"], written(&looks[0]));
    assert!(looks[0]["memory"]["memtable_bytes"].as_u64().unwrap() > 0);
    assert!(looks[0]["settings"].as_array().unwrap().iter().any(|knob| knob["knob"] == "size_ratio"));
    assert!(written(&looks[0]) + written(&looks[1]) <= 100_000, "the second look is a window, not the whole");
    assert!(looks[1]["unix_ms"].as_u64() > looks[0]["unix_ms"].as_u64());

    let text = solera.run(["control", "watch", "--every", "20ms", "--count", "2"]).ok();
    assert!(text.contains("keyspace default") && text.contains("since it was opened"), "{text}");
    assert!(!text.contains('\x1b'), "no escapes for a pipe");
    // Symptom: lines of its tables wrapped on a terminal of 80 columns.
    let widest = text.lines().max_by_key(|line| line.chars().count()).unwrap();
    assert!(widest.chars().count() <= 80, "{widest}");

    // Its end ends the watching, which says so.
    let watch = ["control", "watch", "--every", "10ms"];
    let watching = solera.command(watch).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(100));
    drop(input);
    assert!(loading.wait().unwrap().success());
    let watched = watching.wait_with_output().unwrap();
    let text = String::from_utf8([watched.stdout, watched.stderr].concat()).unwrap();
    assert!(text.contains("no longer published") || text.contains("there is no"), "{text}");
    let message = solera.run(["control", "watch"]).fails(6);
    assert!(message.contains("OBSERVED: no process that works with the database publishes it"), "{message}");
}

#[test]
fn what_cannot_be_watched_is_refused_with_the_reason() {
    let solera = Solera::new();
    let message = solera.run(["control", "watch"]).fails(6);
    assert!(message.contains("does not exist"), "{message}");
    solera.run(["put", "k", "v"]).ok();
    let db = solera::Db::open(solera.db()).unwrap();
    let message = solera.run(["control", "watch"]).fails(6);
    assert!(message.contains("has the database open and does not publish it"), "{message}");
    assert!(message.contains("Control::publish"), "{message}");
    for wrong in ["0s", "25h", "soon"] {
        solera.run(["control", "watch", "--every", wrong]).fails(2);
    }
    solera.run(["control", "watch", "--count", "0"]).fails(2);

    let file = solera.write("observed", "what is this");
    let args = ["control", "watch", "--file", file.to_str().unwrap(), "--count", "1"];
    let message = solera.run(args).fails(2);
    assert!(
        message.contains("observed is not what a database publishes")
            && message.contains("the file ends inside its header"),
        "{message}"
    );

    // What a killed process left behind is shown, with its age.
    let mut observation = db.control().observe();
    observation.unix_ms -= 60_000;
    solera.write("observed", observation.encode());
    let text = solera.run(args).ok();
    assert!(text.contains("OLD: last published 60") && text.contains("was killed"), "{text}");
    let mut newer = observation.encode();
    newer[8] = 9;
    solera.write("observed", newer);
    let message = solera.run(args).fails(7);
    assert!(message.contains("version 9") && message.contains("observed"), "{message}");
}

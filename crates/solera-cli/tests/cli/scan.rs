//! Tests of `solera scan` and `solera get`: ranges, limits, both directions, and every notation of
//! keys and values.
//!
//! `get` prints a value and says when there is none. JSON lines are objects that a program can
//! read. A reader that stops reading is no failure.

use crate::run::Solera;
use serde_json::Value;
use std::process::Stdio;

fn filled() -> Solera {
    let solera = Solera::new();
    let input = "a\t1\nb/1\t2\nb/2\t3\nb/3\t4\nc\t5\n";
    solera.run_with_input(["load", "--format", "tsv", "-"], input.as_bytes()).ok();
    solera
}

#[track_caller]
fn keys(solera: &Solera, options: &str) -> String {
    let args = ["scan", "--keys-only"].into_iter().chain(options.split_whitespace());
    solera.run(args).ok().lines().collect::<Vec<_>>().join(" ")
}

#[test]
fn ranges_limits_and_both_directions() {
    let solera = filled();
    for (options, expected) in [
        ("", "a b/1 b/2 b/3 c"),
        ("--rev", "c b/3 b/2 b/1 a"),
        ("--prefix b/", "b/1 b/2 b/3"),
        ("--prefix b/ --rev --limit 2", "b/3 b/2"),
        ("--from b/2", "b/2 b/3 c"),
        ("--to b/2", "a b/1"),
        ("--from b/1 --to b/3 --rev", "b/2 b/1"),
        ("--prefix b --from b/2 --to b/3", "b/2"),
        ("--prefix b/ --from a --to z", "b/1 b/2 b/3"),
        ("--limit 0", ""),
        ("--from c --to a", ""),
        ("--from b/1 --to b/1", ""),
        ("--prefix nothing", ""),
    ] {
        assert_eq!(keys(&solera, options), expected, "scan {options}");
    }
}

#[test]
fn every_notation_of_keys_and_values() {
    let solera = Solera::new();
    solera.run(["put", "--hex", "41095cff", "0a42"]).ok();
    assert_eq!(solera.run(["scan"]).ok(), "A\\t\\\\\\xff\t\\nB\n");
    assert_eq!(solera.run(["scan", "--hex"]).ok(), "41095cff\t0a42\n");
    assert_eq!(solera.run(["scan", "--raw"]).out, b"A\t\\\xff\t\nB\n");
    assert_eq!(solera.run(["scan", "--json"]).ok(), "{\"key_hex\":\"41095cff\",\"value\":\"\\nB\"}\n");
    assert_eq!(solera.run(["scan", "--json", "--keys-only"]).ok(), "{\"key_hex\":\"41095cff\"}\n");
    // Bounds are read in the notation of the output, or escaped.
    assert_eq!(solera.run(["scan", "--hex", "--prefix", "4109", "--keys-only"]).ok(), "41095cff\n");
    assert_eq!(solera.run(["scan", "--escaped", "--prefix", "A\\t", "--keys-only"]).ok(), "A\\t\\\\\\xff\n");
    assert_eq!(solera.run(["scan", "--prefix", "A\\t", "--keys-only"]).ok(), "", "plain by default");
}

#[test]
fn get_prints_the_value_and_says_when_there_is_none() {
    let solera = filled();
    assert_eq!(solera.run(["get", "b/2"]).ok(), "3\n");
    assert_eq!(solera.run(["get", "b/2", "--raw"]).ok(), "3");
    assert_eq!(solera.run(["get", "b/2", "--json"]).ok(), "{\"key\":\"b/2\",\"value\":\"3\"}\n");
    assert_eq!(solera.run(["get", "--hex", "622f32"]).ok(), "33\n");
    assert_eq!(solera.run(["get", "--escaped", "b\\x2f2"]).ok(), "3\n");
    assert!(solera.run(["get", "b/9"]).fails(1).contains("no key b/9"));
}

#[test]
fn json_lines_are_objects_a_program_can_read() {
    let solera = filled();
    let text = solera.run(["scan", "--json", "--prefix", "b/"]).ok();
    let values: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(values.len(), 3);
    assert_eq!(values[1]["key"], "b/2");
    assert_eq!(values[1]["value"], "3");
}

/// Symptom: `solera scan` printed nothing of a keyspace with a merge operator of one's own. Cause:
/// it ended at the first entry that needs the operator, and with it went what had been collected.
/// Cure: such an entry is left out, all others are printed, and the status says so.
#[test]
fn entries_that_need_a_merge_operator_of_ones_own_are_left_out_of_a_scan() {
    struct Postings;
    impl solera::MergeOperator for Postings {
        fn name(&self) -> &str {
            "postings-1"
        }
        fn merge(&self, _: &[u8], _: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String> {
            Ok(operands.concat())
        }
    }
    let solera = Solera::new();
    let db = solera::Db::open(solera.db()).unwrap();
    let options = solera::KeyspaceOptions::new().merge_operator(std::sync::Arc::new(Postings));
    let terms = db.keyspace_with("terms", options).unwrap();
    terms.put("a", "1").unwrap();
    terms.merge("b", "2").unwrap();
    terms.put("c", "3").unwrap();
    terms.merge("d", "4").unwrap();
    drop(terms);
    db.close().unwrap();
    for (order, lines) in [(None, "a\t1\nc\t3\n"), (Some("--rev"), "c\t3\na\t1\n")] {
        let run = solera.run(["scan", "--keyspace", "terms"].into_iter().chain(order));
        assert_eq!((run.status, &run.out[..]), (7, lines.as_bytes()));
        assert!(run.err.contains("postings-1") && run.err.contains("2 entries"), "{}", run.err);
    }
}

#[test]
fn a_reader_that_stops_reading_is_no_failure() {
    let solera = Solera::new();
    let input: String = (0..100_000).map(|i| format!("{i:08}\n")).collect();
    solera.run_with_input(["load", "--format", "lines", "-"], input.as_bytes()).ok();
    let mut child = solera
        .command(["scan"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

//! Tests of the commands that change a database: `put`, `del`, `compact`, `checkpoint`, `keyspace`.
//!
//! `put` creates the database, and values may be any bytes or come from standard input. A time to
//! live goes by. `del` takes keys, prefixes and ranges. `compact` gives space back and changes no
//! answer, and a checkpoint is a database of its own. A mistyped keyspace is not made.

use crate::run::Solera;

#[test]
fn put_creates_the_database_and_get_finds_the_value() {
    let solera = Solera::new();
    solera.run(["put", "cask", "full"]).ok();
    assert_eq!(solera.run(["get", "cask"]).ok(), "full\n");
    solera.run(["put", "cask", "empty"]).ok();
    assert_eq!(solera.run(["get", "cask"]).ok(), "empty\n");
    solera.run(["put", "--keyspace", "other", "--create-keyspace", "cask", "else"]).ok();
    assert_eq!(solera.run(["get", "cask"]).ok(), "empty\n");
    assert_eq!(solera.run(["get", "--keyspace", "other", "cask"]).ok(), "else\n");
}

#[test]
fn values_may_come_from_standard_input_and_be_any_bytes() {
    let solera = Solera::new();
    let value: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    assert_eq!(solera.run_with_input(["put", "big"], &value).status, 0);
    assert_eq!(solera.run(["get", "big", "--raw"]).out, value);
    solera.run(["put", "", ""]).ok();
    assert_eq!(solera.run(["get", "", "--raw"]).ok(), "");
    solera.run(["put", "--escaped", "a\\tb", "\\x00\\\\"]).ok();
    assert_eq!(solera.run(["get", "a\tb", "--raw"]).out, b"\0\\");
    solera.run(["put", "--", "-k", "-v"]).ok();
    assert_eq!(solera.run(["get", "--", "-k"]).ok(), "-v\n");
    assert_eq!(solera.run(["get", "--hex", "2d6b"]).ok(), "2d76\n", "flags are still flags");
    assert_eq!(solera.run(["get", "2d6b", "--hex"]).ok(), "2d76\n");
    solera.run(["del", "--", "-k"]).ok();
    solera.run(["get", "--", "-k"]).fails(1);
}

#[test]
fn an_entry_with_a_time_to_live_goes_away() {
    let solera = Solera::new();
    solera.run(["put", "--ttl", "1s", "gone", "x"]).ok();
    solera.run(["put", "--ttl", "7d", "stays", "x"]).ok();
    let tries = (0..100).map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        solera.run(["scan", "--keys-only"]).ok()
    });
    assert!(tries.into_iter().any(|keys| keys == "stays\n"));
    assert!(solera.run(["put", "--ttl", "soon", "k", "v"]).fails(2).contains("such as 500ms or 90s"));
}

#[test]
fn del_takes_keys_prefixes_and_ranges() {
    let solera = Solera::new();
    let input = "a\nb/1\nb/2\nc\nd\ne\nf\n";
    solera.run_with_input(["load", "--format", "lines", "-"], input.as_bytes()).ok();
    solera.run(["del", "a", "not there", "f"]).ok();
    solera.run(["del", "--prefix", "b/"]).ok();
    solera.run(["del", "--from", "c", "--to", "e"]).ok();
    assert_eq!(solera.run(["scan", "--keys-only"]).ok(), "e\n");
    solera.run(["del", "--hex", "65"]).ok();
    assert_eq!(solera.run(["scan"]).ok(), "");
    solera.run(["del"]).fails(2);
    assert!(solera.run(["del", "--from", "z", "--to", "a"]).fails(2).contains("empty"));
    solera.run_with_input(["load", "--format", "lines", "-"], input.as_bytes()).ok();
    solera.run(["put", "--hex", "ffff01", ""]).ok();
    solera.run(["del", "--hex", "--prefix", "ffff"]).ok();
    // Symptom: `del --prefix "$NAME"` deleted every key where NAME was not set. Cause: no letters
    // are the beginning of every key. Cure: it is refused, and `--all` says what is meant.
    for empty in [
        &["del", "--prefix", ""][..],
        &["del", "--from", ""],
        &["del", "--from", "", "--to", "c"],
        &["del", "--to", ""],
    ] {
        assert!(solera.run(empty).fails(2).contains("--all"));
    }
    solera.run(["del", "--from", "e"]).ok();
    solera.run(["del", "--to", "b/2"]).ok();
    assert_eq!(solera.run(["scan", "--keys-only"]).ok(), "b/2\nc\nd\n");
    solera.run(["del", "--all"]).ok();
    assert_eq!(solera.run(["scan"]).ok(), "");
}

#[test]
fn an_empty_key_is_a_key_like_any_other() {
    let solera = Solera::new();
    solera.run(["put", "other", "stays"]).ok();
    assert!(solera.run(["get", ""]).fails(1).contains("there is no empty key in \"default\""));
    solera.run(["put", "", "value"]).ok();
    assert_eq!(solera.run(["get", ""]).ok(), "value\n");
    assert_eq!(solera.run(["scan"]).ok(), "\tvalue\nother\tstays\n");
    solera.run(["del", ""]).ok();
    assert_eq!(solera.run(["scan"]).ok(), "other\tstays\n");
}

#[test]
fn compact_gives_space_back_and_changes_no_answer() {
    let solera = Solera::new();
    let input: String = (0..20_000).map(|i| format!("{i:08}\tvalue {i}\n")).collect();
    solera.run_with_input(["load", "--format", "tsv", "-"], input.as_bytes()).ok();
    solera.run(["del", "--from", "00001000", "--to", "00019000"]).ok();
    let before = solera.run(["scan"]).ok();
    assert_eq!(before.lines().count(), 2000);
    let report: serde_json::Value = serde_json::from_str(&solera.run(["compact", "--json"]).ok()).unwrap();
    assert!(report["table_bytes_after"].as_u64() < report["table_bytes_before"].as_u64(), "{report}");
    assert_eq!(report["entries_after"], 2000);
    assert_eq!(solera.run(["scan"]).ok(), before);
    assert!(solera.run(["compact"]).ok().contains("2,000 → 2,000 entries"));
}

#[test]
fn a_checkpoint_is_a_database_of_its_own() {
    let solera = Solera::new();
    solera.run(["put", "k", "before"]).ok();
    solera.run(["checkpoint", "copy"]).ok();
    solera.run(["put", "k", "after"]).ok();
    assert_eq!(solera.run(["get", "--dir", "copy", "k"]).ok(), "before\n");
    assert_eq!(solera.run(["get", "k"]).ok(), "after\n");
    solera.run(["check", "--dir", "copy"]).ok();
    // The copy is never written over.
    solera.run(["checkpoint", "copy"]).fails(2);
    assert_eq!(solera.run(["get", "--dir", "copy", "k"]).ok(), "before\n");
}

/// Symptom: `put --keyspace defualt` made a keyspace of that name, and no command could drop it.
/// Cause: every name that was not there was made. Cure: an existing database gets a keyspace only
/// when told to.
#[test]
fn a_mistyped_keyspace_is_not_made_and_a_made_one_can_be_dropped() {
    let solera = Solera::new();
    solera.run(["put", "k", "v"]).ok();
    for args in [
        &["put", "--keyspace", "defualt", "k", "v"][..],
        &["load", "--keyspace", "defualt", "--format", "tsv", "-"],
    ] {
        let message = solera.run(args).fails(6);
        assert!(
            message.contains("no keyspace \"defualt\"; it has \"default\"; --create-keyspace"),
            "{message}"
        );
    }
    assert_eq!(solera.run(["keyspace", "list"]).ok(), "default\n");
    solera.run(["keyspace", "create", "users"]).ok();
    solera.run(["keyspace", "create", "users"]).fails(2);
    solera.run(["put", "--keyspace", "users", "k", "v"]).ok();
    assert!(solera.run(["keyspace", "drop", "users"]).fails(2).contains("--yes"));
    solera.run(["keyspace", "drop", "users", "--yes"]).ok();
    assert_eq!(solera.run(["keyspace", "list"]).ok(), "default\n");
    solera.run(["keyspace", "drop", "users", "--yes"]).fails(6);
    // A new database has what its first command names.
    solera.run(["put", "--dir", "new", "--keyspace", "users", "k", "v"]).ok();
}

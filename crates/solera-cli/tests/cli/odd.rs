//! Tests of what no user means to give `solera`, over all commands, as tables: files of another
//! kind, directories for files and files for directories, absurd numbers, arguments that are no
//! text, outputs that are full or closed. And of `--json`, which every command that tells something
//! has.
//!
//! What must hold: a mistake is status 2, or 6 where nothing is, with one line; nothing is made for
//! it, and nothing ends by a panic or an abort. Full output is status 7, and output whose reader
//! has gone is no failure.

use crate::{
    cost::UNITS,
    run::{Run, Solera},
};
use serde_json::Value;
use std::{
    ffi::OsStr,
    fs,
    process::{Command, Stdio},
};

/// What is asked of the cost model, from a file of unit costs that [`filled`] makes.
const COST: [&str; 11] = [
    "cost",
    "--workload",
    "25,25,25,25",
    "--entries",
    "100K",
    "--memory",
    "512K",
    "--cache",
    "1M",
    "--units",
    "units.json",
];

/// A directory with a database that was loaded with a trace and a tuner, and with other files.
fn filled() -> Solera {
    let solera = Solera::new();
    solera.write("two.tsv", "a\t1\nb\t2\n");
    solera.run(["load", "--trace", "load.trace", "--tune", "two.tsv"]).ok();
    solera.run(["control", "set", "run_limit=4", "--why", "test"]).ok();
    solera.write("notes.txt", "hello\nworld, this is a letter of a friend and no file of a database\n");
    solera.write("bytes", (0..3000u32).map(|n| (n * n % 251) as u8).collect::<Vec<_>>());
    solera.write("empty", "");
    fs::create_dir(solera.path("dir")).unwrap();
    solera.write("units.json", UNITS);
    solera
}

/// Symptom: `trace show`, `tune replay` and `cost --units` called a letter damaged (4) or failed
/// with 7, as `load --format sosd` did. Cause: whatever could not be read was damage, or an error.
/// Cure: only what begins as it should can be damaged.
#[test]
fn a_file_of_another_kind_is_a_mistake_of_the_command_line() {
    let solera = filled();
    let before = solera.files();
    for args in [
        &["trace", "show"][..],
        &["trace", "replay", "--asap", "--dir", "new"],
        &["tune", "replay"],
        &["cost", "--workload", "25,25,25,25", "--units"],
        &["control", "watch", "--count", "1", "--file"],
        &["load", "--dir", "new", "--format", "sosd"],
        &["dump"],
    ] {
        for (file, status) in [("notes.txt", 2), ("bytes", 2), ("empty", 2), ("dir", 2), ("nowhere", 6)] {
            let message = solera.run([args, &[file]].concat()).fails(status);
            assert!(message.contains(file), "{args:?}: {message}");
        }
    }
    for (file, kind) in [
        ("notes.txt", "sosd:"),
        ("dir", "sosd:"),
        ("dir", "lines:"),
        ("nowhere", "lines:"),
        #[cfg(target_os = "linux")]
        ("/dev/zero", "lines:"),
        #[cfg(target_os = "linux")]
        ("/dev/zero", "sosd:"),
    ] {
        let run = solera.run(["bench", "--keys", &format!("{kind}{file}")]);
        let status = if file == "nowhere" { 6 } else { 2 };
        assert!(run.status == status && run.err.contains(file), "{run:?}");
    }
    assert_eq!(solera.files(), before, "nothing was made or changed");
}

/// Symptom: the same where a file stood for a directory: status 7, and texts of a library.
#[test]
fn a_file_where_a_directory_is_asked_for_is_named() {
    let solera = filled();
    let bench = ["bench", "--n", "100", "--index", "binary", "--repeats", "1"];
    let paper = ["bench", "paper", "sherry", "--quick"];
    let before = solera.files();
    for args in [
        [&bench[..], &["--dir"]].concat(),
        [&bench[..], &["--trace"]].concat(),
        [&bench[..], &["--publish"]].concat(),
        [&paper[..], &["--dir"]].concat(),
        [&paper[..], &["--out"]].concat(),
        [&paper[..], &["--load-dir"]].concat(),
        vec!["bench", "space", "--percent", "1", "--dir"],
        vec!["cost", "--workload", "25,25,25,25", "--dir"],
        vec!["man", "--to"],
        vec!["checkpoint"],
    ] {
        let message = solera.run([&args[..], &["notes.txt"]].concat()).fails(2);
        assert!(message.contains("notes.txt is a file; "), "{args:?}: {message}");
    }
    for args in [
        vec!["bench", "space", "--percent", "1", "--dir"],
        vec!["cost", "--workload", "25,25,25,25", "--dir"],
        [&bench[..], &["--dir"]].concat(),
        vec!["man", "--to"],
    ] {
        solera.run([&args[..], &["nowhere"]].concat()).fails(6);
    }
    let mut after = solera.files();
    // Where results go is made before the rest is looked at.
    after.retain(|(path, _)| !path.ends_with("docs") && !path.ends_with("docs/results"));
    assert_eq!(after, before);
}

/// Symptom: `man --to`, `bench --publish`, `--trace` and `--html`, and `bench paper --out` left
/// their files in the directory of a database, and `load --trace` in that of another than its own.
/// Cause: only `load` looked, and only at its own. Cure: what a command makes lies in no database.
#[test]
fn no_command_leaves_its_files_in_the_directory_of_a_database() {
    let solera = filled();
    solera.run(["put", "--dir", "second", "key", "value"]).ok();
    let bench = ["bench", "--n", "100", "--index", "binary", "--repeats", "1"];
    let before = solera.files();
    for args in [
        vec!["man", "--to", "db"],
        [&bench[..], &["--publish", "db"]].concat(),
        [&bench[..], &["--trace", "db/traces"]].concat(),
        [&bench[..], &["--html", "db/page.html"]].concat(),
        [&bench[..], &["--dir", "db"]].concat(),
        vec!["bench", "paper", "sherry", "--quick", "--out", "db"],
        vec!["bench", "paper", "sherry", "--quick", "--out", "db/docs/results"],
        vec!["load", "--dir", "other", "--format", "lines", "--trace", "db/trace", "-"],
        vec!["load", "--dir", "other", "--format", "lines", "--bad-lines", "db/in/bad", "-"],
        vec!["load", "--dir", "db/other", "--format", "lines", "-"],
        vec!["put", "--dir", "db/other", "key", "value"],
        vec!["checkpoint", "db/copy"],
        vec!["checkpoint", "--dir", "second", "db/copy"],
    ] {
        let message = solera.run(&args).fails(2);
        assert!(message.contains("is the directory of a database"), "{args:?}: {message}");
    }
    assert_eq!(solera.files(), before, "nothing was made or changed");
}

/// Symptom: `compact` from z to a said that all went well, where `del` refuses. Cause: only `del`
/// compared the two. Cure: all that change a range do. A scan of such a range prints nothing.
#[test]
fn a_range_that_ends_before_it_begins_is_refused_by_all_that_change_one() {
    let solera = filled();
    for command in ["del", "compact"] {
        let message = solera.run([command, "--from", "z", "--to", "a"]).fails(2);
        assert!(message.contains("--to is before --from"), "{command}: {message}");
        // Symptom: `del --from a --to a` and `compact --to ''` said that all went well.
        let message = solera.run([command, "--from", "a", "--to", "a"]).fails(2);
        assert!(message.contains("the range would be empty"), "{command}: {message}");
    }
    solera.run(["compact", "--to", ""]).fails(2);
    assert_eq!(solera.run(["scan", "--from", "z", "--to", "a"]).ok(), "");
}

/// Symptom: `bench --value-bytes` of 2^64 − 1 aborted, `cost --memory` and `bench --repeats` of it
/// panicked, and a set that memory has no room for ended the process. Cause: numbers had no range.
/// Cure: they have one, and the size of a set is looked at before it is made.
#[test]
fn an_absurd_number_is_refused_with_what_is_legal() {
    let solera = filled();
    let most = "18446744073709551615";
    for (args, told) in [
        (&["bench", "--value-bytes", most][..], "is not in 0..=4294967295"),
        (&["bench", "--n", "1000000000", "--value-bytes", "4000000000"], "and this machine has"),
        (&["bench", "--n", most], "2^30 pairs"),
        (&["bench", "--n", "0"], "2^30 pairs"),
        (&["bench", "--threads", most], "is not in 0..=1024"),
        (&["bench", "--threads", "1025"], "is not in 0..=1024"),
        (&["bench", "--repeats", most], "is not in 1..=1000"),
        (&["bench", "--repeats", "0"], "is not in 1..=1000"),
        (&["bench", "space", "--percent", "0"], "is not in 1..=1000"),
        (&["bench", "paper", "sherry", "--quick", "--lookups", most], "2^27 reads"),
        (&["bench", "paper", "sherry", "--quick", "--n", most], "2^30 pairs"),
        (&["bench", "paper", "sherry", "--quick", "--repeats", most], "is not in 1..=1000"),
        (&["cost", "--workload", "1,0,0,0", "--memory", most], "64K to 1024T"),
        (&["cost", "--workload", "1,0,0,0", "--entries", most], "more than"),
        (&["cost", "--workload", "1,0,0,0", "--entry-bytes", most], "more than"),
        (&["load", "--batch", most, "two.tsv"], "is not in 1..=1000000"),
        (&["load", "--memory", "1", "two.tsv"], "memory"),
        (&["load", "--line-limit", "0", "two.tsv"], "at least 1 byte"),
        (&["scan", "--limit", "-1"], "'-1'"),
        (&["put", "k", "v", "--ttl", "18446744073709551615d"], "milliseconds"),
        (&["control", "watch", "--every", "999999d"], "is not between"),
        (&["control", "set", "run_limit=18446744073709551616", "--why", "x"], "run_limit"),
        (&["control", "set", "run_limit=4", "--level", most, "--why", "x"], "--level"),
        (&["trace", "replay", "load.trace", "--speed", "1e999"], "--speed"),
        (&["trace", "replay", "load.trace", "--preload", "--value-bytes", most], "--value-bytes"),
    ] {
        let run = solera.run(args);
        let message = run.err.lines().last().unwrap_or_default();
        assert!(run.status == 2 && run.out.is_empty(), "{args:?}: {run:?}");
        assert!(message.starts_with("solera: ") && message.contains(told), "{args:?}: {message}");
    }
}

/// Symptom: `load --line-limit` and `--escaped` of a SOSD file were ignored, or took escapes out of
/// binary keys; an empty `--why` and an empty value of a knob were taken. Cause: no check.
#[test]
fn an_option_that_means_nothing_there_or_says_nothing_is_refused() {
    let solera = filled();
    solera.write("keys.sosd", [1u64.to_le_bytes(), 92u64.to_le_bytes()].concat());
    let before = solera.files();
    let load = ["load", "--dir", "new", "--format", "sosd", "keys.sosd"];
    for (args, told) in [
        ([&load[..], &["--escaped"]].concat(), "--escaped means nothing with --format sosd"),
        ([&load[..], &["--line-limit", "5"]].concat(), "--line-limit means nothing with --format sosd"),
        (vec!["control", "set", "run_limit=", "--why", "x"], "run_limit is set to nothing"),
        (vec!["control", "set", "run_limit=4", "--why="], "--why"),
    ] {
        let message = solera.run(&args).fails(2);
        assert!(message.contains(told), "{args:?}: {message}");
    }
    assert_eq!(solera.files(), before, "nothing was made or changed");
    solera.run(load).ok();
}

/// Symptom: "No space left on device (os error 28) at path \"/.../.solera-new-Cpt0Zh\"". Cause: the
/// file has another name until it is whole, and a library said so.
#[cfg(unix)]
#[test]
fn a_file_that_cannot_be_written_is_called_by_its_name() {
    let solera = filled();
    let shell = format!("ulimit -f 0; exec {} explain --dir db --page saved", env!("CARGO_BIN_EXE_solera"));
    let ran = Command::new("sh").args(["-c", &shell]).current_dir(solera.path("")).output().unwrap();
    let message = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(7), "{message}");
    assert!(message.starts_with("solera: cannot write saved: ") && !message.contains("new-"), "{message}");
}

/// Symptom: `put` to a link that leads nowhere said "File exists", and so did `checkpoint`.
#[cfg(unix)]
#[test]
fn a_link_that_leads_nowhere_is_called_so() {
    let solera = filled();
    std::os::unix::fs::symlink("nowhere", solera.path("link")).unwrap();
    let told = |args: &[&str], status| {
        let message = solera.run(args).fails(status);
        assert!(message.contains("link is a link that leads nowhere"), "{args:?}: {message}");
    };
    told(&["put", "--dir", "link", "k", "v"], 6);
    told(&["load", "--dir", "link", "two.tsv"], 6);
    told(&["get", "--dir", "link", "k"], 6);
    told(&["checkpoint", "link"], 2);
    assert!(!solera.path("nowhere").exists());
}

#[cfg(unix)]
#[test]
fn arguments_that_are_no_text_are_keys_and_paths_and_else_refused() {
    use std::os::unix::ffi::OsStrExt;
    let solera = filled();
    let odd = OsStr::from_bytes(b"\xff\xfe");
    let run = |args: &[&OsStr]| solera.run(args);
    let text = OsStr::new;
    run(&[text("put"), odd, odd]).ok();
    assert_eq!(run(&[text("get"), odd, text("--raw")]).out, b"\xff\xfe");
    run(&[text("put"), text("--dir"), odd, text("k"), text("v")]).ok();
    assert_eq!(run(&[text("get"), text("--dir"), odd, text("k")]).ok(), "v\n");
    for args in [
        &[odd][..],
        &[text("control"), odd],
        &[text("scan"), text("--limit"), odd],
        &[text("scan"), odd],
        &[text("get"), text("--keyspace"), odd, text("k")],
        &[text("load"), text("--format"), odd, text("two.tsv")],
        &[text("control"), text("set"), odd, text("--why"), text("x")],
        &[text("get"), text("--hex"), odd],
    ] {
        run(args).fails(2);
    }
    run(&[text("trace"), text("show"), odd]).fails(2);
}

/// Every command that prints something, and takes little time.
const TELLING: [&[&str]; 22] = [
    &["get", "a"],
    &["scan"],
    &["stats"],
    &["levels"],
    &["check"],
    &["keyspace", "list"],
    &["control", "get"],
    &["control", "history"],
    &["dump", "db/CURRENT"],
    &["trace", "show", "load.trace"],
    &["trace", "replay", "--asap", "--dir", "again", "load.trace"],
    &["tune", "replay", "db/TUNED"],
    &["explain"],
    &COST,
    &["compact"],
    &["load", "two.tsv"],
    &["completions", "bash"],
    &["man"],
    &["put", "k", "v", "--json"],
    &["del", "k", "--json"],
    &["keyspace", "create", "more", "--json"],
    &["keyspace", "drop", "more", "--yes", "--json"],
];

#[cfg(target_os = "linux")]
#[test]
fn output_that_is_full_is_a_failure_and_output_that_nobody_reads_is_none() {
    let solera = filled();
    let run = |args: &[&str], out: Stdio| {
        let mut command: Command = solera.command(args);
        let ran = command.stdin(Stdio::null()).stdout(out).stderr(Stdio::piped()).output().unwrap();
        Run {
            status: ran.status.code().unwrap(),
            out: Vec::new(),
            err: String::from_utf8(ran.stderr).unwrap(),
        }
    };
    for args in TELLING {
        if args.starts_with(&["keyspace", "create"]) {
            let _ = solera.run(["keyspace", "drop", "more", "--yes"]);
        }
        if args.starts_with(&["keyspace", "drop"]) {
            let _ = solera.run(["keyspace", "create", "more"]);
        }
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let message = run(args, full.into()).fails(7);
        assert!(message.contains("cannot write the output"), "{args:?}: {message}");
        let _ = fs::remove_dir_all(solera.path("again"));
    }
    for args in TELLING {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ran = run(args, writer.into());
        if !args.starts_with(&["keyspace"]) {
            assert_eq!((ran.status, ran.err.as_str()), (0, ""), "{args:?}");
        }
        let _ = fs::remove_dir_all(solera.path("again"));
    }
}

/// Symptom: `keyspace create` and `drop` had no `--json`, and the problems of `check --json` were
/// sentences with the place inside.
#[test]
fn every_command_that_tells_something_tells_it_as_json() {
    let solera = filled();
    let lines = |args: &[&str]| -> Vec<Value> {
        let run = solera.run(args);
        assert_eq!(run.status, 0, "{args:?}: {run:?}");
        let text = String::from_utf8(run.out).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{args:?}: {line}")))
            .collect()
    };
    for args in TELLING {
        if ["completions", "man"].contains(&args[0]) {
            continue;
        }
        let json = if args.contains(&"--json") { args.to_vec() } else { [args, &["--json"]].concat() };
        let told = lines(&json);
        assert!(!told.is_empty(), "{args:?}");
        assert!(told.iter().all(Value::is_object), "{args:?}");
    }
    assert_eq!(lines(&["keyspace", "create", "new", "--json"]), [serde_json::json!({"created": "new"})]);
    lines(&["keyspace", "create", "newer", "--json"]);
    let dropped = lines(&["keyspace", "drop", "new", "newer", "--yes", "--json"]);
    let told = |name| serde_json::json!({"dropped": name, "entries": 0});
    assert_eq!(dropped, [told("new"), told("newer")]);
    lines(&["control", "set", "run_limit=5", "--why", "test", "--json"]);
    lines(&["checkpoint", "copy", "--json"]);

    let of_tables =
        |path: &std::path::PathBuf| path.extension().is_some_and(|extension| extension == "table");
    let mut files = fs::read_dir(solera.db()).unwrap().map(|entry| entry.unwrap().path());
    let table = files.find(of_tables).unwrap();
    let mut bytes = fs::read(&table).unwrap();
    bytes[0] ^= 1;
    fs::write(&table, bytes).unwrap();
    let run = solera.run(["check", "--json"]);
    assert_eq!(run.status, 4);
    let text = String::from_utf8(run.out).unwrap();
    let problems = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let problem = problems.into_iter().find(|line| line.get("problem").is_some()).unwrap();
    assert!(problem["file"].as_str().unwrap().ends_with(".table"), "{problem}");
    assert!(problem["offset"].is_u64() && problem["what"].is_string(), "{problem}");
}

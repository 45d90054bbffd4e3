//! Tests of the commands that look: `stats`, `levels`, `check` and `dump`.
//!
//! They count entries and bytes, draw every run, and walk every file. Damage is named with file and
//! place by all of them, and by `compact` and `checkpoint`. Manifests are dumped in words. A
//! database whose CURRENT is damaged or gone is called damaged, and its files are told of.

use crate::run::Solera;
use serde_json::Value;
use std::fs;

fn loaded() -> Solera {
    let solera = Solera::new();
    let input: String = (0..20_000).map(|i| format!("key {i:08}\tvalue {i}\n")).collect();
    solera.run_with_input(["load", "--format", "tsv", "-"], input.as_bytes()).ok();
    solera
}

fn table(solera: &Solera) -> std::path::PathBuf {
    fs::read_dir(solera.db())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|extension| extension == "table"))
        .expect("a load ends with a flush")
}

#[test]
fn stats_count_entries_and_bytes_per_key() {
    let solera = loaded();
    solera.run(["put", "--keyspace", "second", "--create-keyspace", "k", "v"]).ok();
    let text = solera.run(["stats"]).ok();
    assert!(text.contains("default") && text.contains("second") && text.contains("20,000"), "{text}");
    let text = solera.run(["stats", "--json"]).ok();
    let stats: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(stats.len(), 2);
    let of = |name: &str| stats.iter().find(|stats| stats["keyspace"] == name).unwrap();
    assert_eq!(of("default")["entries"], 20_000);
    assert!(of("default")["index_bytes"].as_u64().unwrap() > 0);
    assert!(of("default")["filter_bytes"].as_u64().unwrap() > 0);
    assert_eq!(of("second")["space"]["debt_bytes"], 0);
    assert_eq!(of("second")["drain_seconds"], 0.0, "nothing is due");
    assert_eq!(of("default")["space"]["value_garbage_bytes"], 0);
    assert_eq!(solera.run(["stats", "--keyspace", "second"]).ok().matches("entries").count(), 1);
}

#[test]
fn levels_draw_every_run() {
    let solera = loaded();
    let text = solera.run(["levels"]).ok();
    assert!(text.contains("L0") && text.contains("20,000 entries"), "{text}");
    assert!(text.contains("key 00000000") && text.contains("key 00019999"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
    let json: Value = serde_json::from_str(&solera.run(["levels", "--json"]).ok()).unwrap();
    let runs: u64 = json["levels"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|level| level["runs"].as_array().unwrap())
        .map(|run| run["entries"].as_u64().unwrap())
        .sum();
    assert_eq!(runs, 20_000);
}

#[test]
fn check_walks_every_file_and_finds_nothing_wrong() {
    let solera = loaded();
    let text = solera.run(["check"]).ok();
    assert!(text.contains("no damage") && text.contains(".table") && text.contains("MANIFEST"), "{text}");
    let summary: Value =
        serde_json::from_str(solera.run(["check", "--json"]).ok().lines().last().unwrap()).unwrap();
    assert_eq!(summary["problems"], 0);
}

#[test]
fn check_names_the_damaged_file_and_the_place() {
    let solera = loaded();
    let table = table(&solera);
    let mut bytes = fs::read(&table).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&table, &bytes).unwrap();
    let name = table.file_name().unwrap().to_str().unwrap();

    let run = solera.run(["check"]);
    assert_eq!(run.status, 4, "{run:?}");
    let text = String::from_utf8(run.out).unwrap();
    assert!(text.contains(name) && text.contains("damaged at byte"), "{text}");
    let run = solera.run(["check", "--json"]);
    assert_eq!(run.status, 4);
    let out = String::from_utf8(run.out).unwrap();
    let last: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert!(last["problems"].as_u64().unwrap() >= 1, "{out}");
    // Reading goes on until the damage and then says the same, on one line.
    let run = solera.run(["scan"]);
    assert_eq!(run.status, 4);
    assert!(run.err.contains(name) && run.err.contains("damaged at byte"), "{}", run.err);
    assert_eq!(run.err.lines().count(), 1);
}

#[test]
fn dump_shows_tables_logs_and_manifests() {
    let solera = loaded();
    solera.run(["put", "in the log", "v"]).ok();
    let text = solera.run(["dump".into(), table(&solera).into_os_string()]).ok();
    assert!(text.contains(" entries, their keys ") && !text.contains("Block {"), "{text}");
    assert!(text.contains("key 00000000"), "{}", &text[..text.len().min(2000)]);
    for entry in fs::read_dir(solera.db()).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().is_some_and(|name| name != "LOCK") {
            assert!(!solera.run(["dump".into(), path.into_os_string()]).ok().is_empty());
        }
    }
    solera.write("other", "not a file of a database");
    solera.run(["dump", "other"]).fails(2);
    solera.run(["dump", "000009.table"]).fails(6);
}

/// Symptom: `compact` over a table whose header is damaged said that it worked, and `stats`,
/// `levels` and `checkpoint` were silent. Cause: none of them asked a table that they had no need
/// to read. Cure: what is told of a keyspace opens its tables, and tells of those that do not open.
#[test]
fn damage_shows_in_stats_levels_compact_and_checkpoint() {
    let solera = loaded();
    solera.run(["compact"]).ok();
    let table = table(&solera);
    let mut bytes = fs::read(&table).unwrap();
    bytes[20] ^= 1;
    fs::write(&table, bytes).unwrap();
    let name = table.file_name().unwrap().to_string_lossy().into_owned();
    for command in [&["stats"][..], &["levels"], &["compact"], &["checkpoint", "copy"], &["stats", "--json"]]
    {
        let run = solera.run(command);
        assert_eq!(run.status, 4, "{command:?}: {run:?}");
        assert!(run.err.contains(&name) && run.err.contains("at byte"), "{command:?}: {}", run.err);
    }
}

/// Symptom: a checkpoint of a database with a damaged block exited 0. Cause: it links files and
/// reads none, and only a table's header and end are read when it is opened. Cure: `--verify` reads
/// every block of the copy; without it the output says that none was read.
#[test]
fn a_checkpoint_can_be_verified() {
    let solera = loaded();
    solera.run(["compact"]).ok();
    let said = solera.run(["checkpoint", "unread"]).ok();
    assert!(
        said.contains("unread has the same tables") && said.contains("--verify reads them all"),
        "{said}"
    );
    let said = solera.run(["checkpoint", "whole", "--verify"]).ok();
    assert!(said.ends_with(": no damage\n") && said.lines().count() == 1, "{said}");
    let told = |args: &[&str]| {
        let run = solera.run([&["checkpoint", "--json"], args].concat());
        let told: serde_json::Value = serde_json::from_slice(&run.out).unwrap();
        (run.status, told["problems"].clone())
    };
    assert_eq!(told(&["unread as well"]), (0, serde_json::Value::Null));
    assert_eq!(told(&["whole as well", "--verify"]), (0, serde_json::json!([])));
    // In the first block, which no opening of a table reads.
    let table = table(&solera);
    let mut bytes = fs::read(&table).unwrap();
    bytes[200] ^= 1;
    fs::write(&table, bytes).unwrap();
    solera.run(["checkpoint", "unseen"]).ok();
    let run = solera.run(["checkpoint", "seen", "--verify"]);
    let text = String::from_utf8(run.out).unwrap();
    assert_eq!((run.status, &run.err[..]), (4, ""), "{text}");
    let copy = solera.path("seen").join(table.file_name().unwrap());
    assert!(text.contains("seen/0000") && text.contains(": damaged at byte "), "{text}");
    assert!(text.contains("from a backup (a checkpoint on the same disk shares its files)"), "{text}");
    assert!(copy.exists(), "it is made, with all that can be read");
    assert_eq!(solera.run(["check", "--dir", "seen"]).status, 4);
    let (status, problems) = told(&["seen as well", "--verify"]);
    assert!(status == 4 && problems[0]["file"].as_str().unwrap().ends_with(".table"), "{problems}");
}

#[test]
fn a_manifest_is_dumped_in_words() {
    let solera = loaded();
    let manifest = fs::read_dir(solera.db()).unwrap().map(|entry| entry.unwrap().path());
    let manifest = manifest.into_iter().find(|path| path.to_string_lossy().contains("MANIFEST")).unwrap();
    let text = solera.run(["dump".into(), manifest.into_os_string()]).ok();
    assert!(text.contains("keyspace 0 is created: \"default\", index learned"), "{text}");
    assert!(text.contains(" enters level ") && !text.contains("Edit {"), "{text}");
}

/// Symptom: after `del --from z` a line of `dump` had 262,000 characters. Cause: "to the end" is
/// kept as a key longer than any. Cure: words say so.
#[test]
fn the_end_of_keys_is_dumped_in_words() {
    let solera = Solera::new();
    solera.run(["put", "k", "v"]).ok();
    solera.run(["del", "--from", "z"]).ok();
    let dumped = |kind: &str, more: &[&str]| {
        let files = fs::read_dir(solera.db()).unwrap().map(|entry| entry.unwrap().path());
        let of_kind = files.filter(|path| path.to_string_lossy().contains(kind));
        let dump =
            |path: std::path::PathBuf| solera.run([&["dump", path.to_str().unwrap()], more].concat()).ok();
        of_kind.map(dump).collect::<String>()
    };
    assert!(dumped(".log", &[]).contains("DeleteRange [z ..)\n"));
    let object = "{\"is\":\"delete range\",\"offset\":48,\"seqno\":2,\"keyspace\":0,\"from\":\"z\"}\n";
    assert!(dumped(".log", &["--json"]).contains(object), "{:.500}", dumped(".log", &["--json"]));
    // What a snapshot sees keeps the deletion from being merged away.
    let db = solera::Db::open(solera.db()).unwrap();
    db.put("z", "v").unwrap();
    let snapshot = db.snapshot();
    db.put("a", "").unwrap();
    db.delete_range("z"..).unwrap();
    db.flush().unwrap();
    assert!(dumped(".table", &[]).contains("keys [a ..), "), "{:.500}", dumped(".table", &[]));
    let manifest = dumped("MANIFEST", &[]);
    assert!(manifest.contains("\"a\" to the end: ") && manifest.len() < 5000, "{manifest:.5000}");
    drop(snapshot);
}

/// Symptom: with a damaged CURRENT `check` said of every table "no longer needed; the next open
/// removes it", `dump` of it exited 0, and with none the remedy was to make a new database. Cause:
/// no manifest was read, so no file was named. Cure: then every file counts and is read for itself.
#[test]
fn a_database_whose_current_is_damaged_or_gone_is_damaged_and_its_files_are_told_of() {
    let solera = loaded();
    let current = solera.db().join("CURRENT");
    for content in ["", "garbage\n"] {
        fs::write(&current, content).unwrap();
        let run = solera.run(["check"]);
        let text = String::from_utf8(run.out).unwrap();
        assert_eq!(run.status, 4, "{text}");
        assert!(!text.contains("no longer needed") && text.contains("20,000 entries"), "{text}");
        let run = solera.run(["dump", current.to_str().unwrap()]);
        assert_eq!(run.status, 4, "{run:?}");
    }
    fs::remove_file(&current).unwrap();
    for args in [&["get", "k"][..], &["put", "k", "v"], &["check"], &["stats"]] {
        let message = solera.run(args).fails(4);
        assert!(message.contains("CURRENT: damaged") && message.contains("MANIFEST-"), "{message}");
    }
}

/// Symptom: what `dump` prints cannot be read by a program: values are cut, and bytes are shown as
/// text that looks like other text. Cause: it had one form, for people. Cure: `--json`, an object a
/// line, with bytes that are not UTF-8 as hexadecimal digits under a name of their own.
#[test]
fn dump_prints_one_json_object_a_line_without_loss() {
    let solera = loaded();
    solera.run(["put", "--hex", "ff00", "22c3"]).ok();
    solera.run(["put", "quoted \"key\"", "tab\tand \\ backslash"]).ok();
    solera.run(["put", "--ttl", "1h", "expires", "soon"]).ok();
    solera.run(["del", "gone"]).ok();
    let dump = |path: &std::path::Path| -> Vec<Value> {
        let text = solera.run(["dump".into(), "--json".into(), path.as_os_str().to_owned()]).ok();
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
    };
    let holds_all = |objects: &[Value]| {
        let with = |name: &str, value: &str| {
            objects.iter().find(|object| object["is"] == "entry" && object[name] == value).cloned()
        };
        let (Some(binary), Some(quoted), Some(expires), Some(gone)) = (
            with("key_hex", "ff00"),
            with("key", "quoted \"key\""),
            with("key", "expires"),
            with("key", "gone"),
        ) else {
            return false;
        };
        assert_eq!((&binary["value_hex"], &binary["key"]), (&"22c3".into(), &Value::Null), "{binary}");
        assert_eq!(quoted["value"], "tab\tand \\ backslash", "{quoted}");
        assert!(expires["value"] == "soon" && expires["expires_ms"].as_u64() > Some(1 << 40), "{expires}");
        assert_eq!((&gone["verb"], &gone["value"]), (&"delete".into(), &Value::Null));
        true
    };
    let files = || fs::read_dir(solera.db()).unwrap().map(|entry| entry.unwrap().path());
    let of = |part: &'static str| files().filter(move |path| path.to_string_lossy().contains(part));
    // Each command opened the database: entries are in the log of its own, or in a table already.
    let all: Vec<Value> = of(".log").chain(of(".table")).flat_map(|path| dump(&path)).collect();
    assert!(holds_all(&all));
    for path in of(".table").chain(of("MANIFEST")).chain(of("CURRENT")) {
        let objects = dump(&path);
        assert!(!objects.is_empty() && objects.iter().all(|object| object["is"].is_string()), "{path:?}");
        if path.to_string_lossy().contains(".table") {
            let entries = objects.iter().filter(|object| object["is"] == "entry").count();
            assert_eq!(Some(entries as u64), objects[0]["entries"].as_u64(), "{path:?}");
        }
    }
    let manifest = dump(&of("MANIFEST").next().unwrap());
    let created = manifest.iter().find(|object| object["is"] == "keyspace created").unwrap();
    assert_eq!((&created["name"], &created["keyspace"]), (&"default".into(), &0.into()));
    assert!(manifest.iter().any(|object| object["is"] == "table enters"));
    let damaged = of(".table").next().unwrap();
    let mut bytes = fs::read(&damaged).unwrap();
    bytes[40] ^= 1;
    fs::write(&damaged, bytes).unwrap();
    let run = solera.run(["dump".into(), "--json".into(), damaged.into_os_string()]);
    assert_eq!(run.status, 4, "{run:?}");
}

/// Symptom: after a clean load `check` said that a crash tore 48 bytes off the log, and called
/// files that Solera made strangers.
#[test]
fn check_knows_every_file_that_solera_makes_and_tells_of_no_crash_that_was_none() {
    let solera = loaded();
    let text = solera.run(["check"]).ok();
    assert!(!text.contains("tore off"), "{text}");
    for name in ["load-0123456789abcdef.progress", "OBSERVED", "TUNED.lock", "TUNED.next", "000000.probe"] {
        solera.write(&format!("db/{name}"), "x");
    }
    let text = solera.run(["check"]).ok();
    assert!(!text.contains("not a file of the database"), "{text}");
    solera.write("db/notes.txt", "x");
    assert!(solera.run(["check"]).ok().contains("not a file of the database"));
    // A journal that is damaged is told of, as is what `explain` says of it.
    solera.write("db/TUNED", "no journal\n");
    let run = solera.run(["check"]);
    let text = String::from_utf8(run.out).unwrap();
    assert!(
        run.status == 4 && text.contains("TUNED: damaged") && text.contains("database is whole"),
        "{text}"
    );
    let message = solera.run(["explain"]).fails(4);
    assert!(!message.contains("backup") && message.contains("does not need it"), "{message}");
    solera.write("db/TUNED", "");
    assert!(solera.run(["explain"]).fails(6).contains("it is empty"));
}

/// A database with values apart from their entries, in a sorted value file, and that file.
fn with_values_apart() -> (Solera, std::path::PathBuf) {
    let solera = Solera::new();
    solera.run(["put", "k", "v"]).ok();
    solera.run(["control", "set", "separate_from=100", "--why", "test"]).ok();
    let rows: String =
        (0..2000).map(|i| format!("key {i:06}\t{}\n", format!("{i:04}").repeat(100))).collect();
    solera.write("in.tsv", rows);
    solera.run(["load", "in.tsv"]).ok();
    solera.run(["compact"]).ok();
    let mut files = fs::read_dir(solera.db()).unwrap().map(|file| file.unwrap().path());
    let holds = |path: &std::path::PathBuf| fs::metadata(path).unwrap().len() > 700_000;
    let file = files.find(holds).unwrap();
    (solera, file)
}

/// Symptom: `compact`, `stats`, `levels` and `checkpoint` said nothing of value files that were
/// damaged, cut or missing, and `check` a line for each entry. Cause: only tables were opened.
#[test]
fn damage_of_value_files_shows_in_all_that_show_damage_of_tables() {
    let (solera, file) = with_values_apart();
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    let whole = fs::read(&file).unwrap();
    let mut flipped = whole.clone();
    flipped[20] ^= 1;
    for broken in [Some(&flipped[..]), Some(&whole[..whole.len() / 2]), None] {
        match broken {
            Some(content) => fs::write(&file, content).unwrap(),
            None => fs::remove_file(&file).unwrap(),
        }
        for command in [&["stats"][..], &["levels"], &["compact"], &["checkpoint", "copy"]] {
            let run = solera.run(command);
            assert_eq!(run.status, 4, "{command:?}: {run:?}");
            assert!(run.err.contains(&name), "{command:?}: {}", run.err);
            let _ = fs::remove_dir_all(solera.path("copy"));
        }
        let run = solera.run(["check"]);
        let text = String::from_utf8(run.out).unwrap();
        assert_eq!(run.status, 4, "{text}");
        let told = text.lines().filter(|line| line.contains("damaged at byte")).count();
        assert!((1..=3).contains(&told) && text.contains("entries have lost their values"), "{text}");
        assert!(!text.contains("run `solera check"), "{text}");
    }
}

/// Symptom: a table that could not be read was not told of by `stats`, was damage to `check`, and
/// a mistake of the command line to `get`.
#[cfg(unix)]
#[test]
fn a_table_that_cannot_be_read_is_an_error_of_its_own() {
    let solera = loaded();
    solera.run(["compact"]).ok();
    let table = table(&solera);
    fs::rename(&table, solera.path("kept")).unwrap();
    // What nobody can read, whoever runs this.
    fs::create_dir(&table).unwrap();
    for command in [&["stats"][..], &["levels"], &["compact"], &["get", "key 00000000"]] {
        let run = solera.run(command);
        assert_eq!(run.status, 7, "{command:?}: {run:?}");
    }
    let run = solera.run(["check"]);
    assert_eq!(run.status, 7, "{run:?}");
}

/// Symptom: `solera check | true` exited 0 whatever was damaged. Cause: a reader that has gone was
/// the whole outcome.
#[cfg(unix)]
#[test]
fn a_reader_that_has_gone_does_not_hide_damage() {
    let solera = loaded();
    solera.run(["compact"]).ok();
    let table = table(&solera);
    let mut bytes = fs::read(&table).unwrap();
    bytes[20] ^= 1;
    fs::write(&table, bytes).unwrap();
    for command in [&["check"][..], &["stats"], &["levels"], &["compact"], &["checkpoint", "copy", "--json"]]
    {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = solera.command(command).stdout(writer).stderr(std::process::Stdio::null()).status();
        assert_eq!(status.unwrap().code(), Some(4), "{command:?}");
    }
}

//! Tests of what must not work in `solera`, and that nothing on disk changes when it does not.
//!
//! Commands that need a database create none; directories that are no database and files of other
//! programs are left alone. Reading leaves every file as it is. A wrong command line is one line
//! and status 2; help documents the statuses. An open database says so. A measurement that is
//! stopped leaves nothing behind. A message whose reader has gone changes nothing, and none is
//! endless.

use crate::run::Solera;
use std::fs;

const READERS: [&[&str]; 12] = [
    &["get", "k"],
    &["scan"],
    &["stats"],
    &["levels"],
    &["check"],
    &["compact"],
    &["checkpoint", "copy"],
    &["del", "k"],
    &["stats", "--keyspace", "default"],
    &["control", "get"],
    &["control", "history"],
    &["control", "set", "epsilon=8", "--why", "test"],
];

#[test]
fn commands_that_need_a_database_create_none() {
    let solera = Solera::new();
    for args in READERS {
        let message = solera.run(args).fails(6);
        assert!(message.contains("does not exist"), "{args:?}: {message}");
        assert_eq!(solera.files(), [], "{args:?}");
    }
    let failed = solera.run_with_input(["load", "--format", "jsonl", "-"], b"{}\n").fails(2);
    assert!(failed.contains("--key"), "{failed}");
    solera.run(["load", "--format", "tsv", "nothing.tsv"]).fails(6);
    assert_eq!(solera.files(), [], "a load that cannot start creates nothing");
}

#[test]
fn experiments_that_there_are_not_are_refused_with_those_that_there_are() {
    let solera = Solera::new();
    let message = solera.run(["bench", "paper", "rmi"]).fails(2);
    assert!(message.contains("doblix, sherry"), "{message}");
    let message = solera.run(["bench", "paper", "sherry", "--keys", "primes"]).fails(2);
    assert!(message.contains("wiki-like") && message.contains("sosd:FILE"), "{message}");
    let missing = ["bench", "paper", "doblix", "--quick", "--out", "out", "--keys", "sosd:books_200M"];
    let message = solera.run(missing).fails(6);
    assert!(message.contains("cannot read books_200M"), "{message}");
}

#[test]
fn directories_that_are_no_database_are_left_alone() {
    let solera = Solera::new();
    fs::create_dir(solera.db()).unwrap();
    for args in READERS {
        let message = solera.run(args).fails(6);
        assert!(message.contains("not a Solera database"), "{args:?}: {message}");
    }
    fs::write(solera.db().join("IMPORTANT.txt"), "of another program").unwrap();
    let before = solera.files();
    for args in READERS.into_iter().chain([&["put", "k", "v"][..]]) {
        let message = solera.run(args).fails(6);
        assert!(message.contains("not a Solera database"), "{args:?}: {message}");
        assert_eq!(solera.files(), before, "{args:?}");
    }
}

#[test]
fn a_file_in_the_place_of_the_directory_is_named() {
    let solera = Solera::new();
    solera.write("db", "a file");
    assert!(solera.run(["scan"]).fails(6).contains("is a file"));
    solera.run(["put", "k", "v"]).fails(6);
    assert_eq!(solera.read("db"), "a file");
}

#[test]
fn a_database_that_is_open_elsewhere_says_so() {
    let solera = Solera::new();
    solera.run(["put", "k", "v"]).ok();
    let db = solera::Db::open(solera.db()).unwrap();
    for args in [&["get", "k"][..], &["scan"], &["put", "k", "w"], &["stats"], &["check"], &["compact"]] {
        let message = solera.run(args).fails(5);
        let told = format!("open elsewhere, by process {}", std::process::id());
        assert!(message.contains(&told), "{args:?}: {message}");
    }
    db.close().unwrap();
    assert_eq!(solera.run(["get", "k"]).ok(), "v\n");
}

#[cfg(unix)]
#[test]
fn reading_leaves_every_file_as_it_is() {
    use std::os::unix::fs::PermissionsExt;
    let solera = Solera::new();
    solera.run_with_input(["load", "--format", "lines", "-"], b"a\nb\n").ok();
    solera.run(["put", "c", "in the log"]).ok();
    let mode = |mode| fs::set_permissions(solera.db(), fs::Permissions::from_mode(mode)).unwrap();
    // A copy of a database may lack the file LOCK. A reader does not need it.
    for with_lock in [true, false] {
        if !with_lock {
            fs::remove_file(solera.db().join("LOCK")).unwrap();
        }
        let before = solera.files();
        // Root may write anywhere, so the permission proves something only for other users; the
        // comparison of files does for all.
        mode(0o555);
        for args in [
            &["get", "c"][..],
            &["scan"],
            &["stats"],
            &["levels"],
            &["check"],
            &["dump", "db/CURRENT"],
            &["control", "get"],
            &["control", "history"],
        ] {
            let run = solera.run(args);
            assert_eq!(run.status, 0, "{args:?}: {run:?}");
        }
        mode(0o755);
        assert_eq!(solera.files(), before);
    }
}

#[test]
fn keyspaces_are_not_created_by_asking_for_them() {
    let solera = Solera::new();
    solera.run(["put", "k", "v"]).ok();
    for args in [&["get", "k"][..], &["scan"], &["del", "k"], &["compact"], &["stats"]] {
        let args = args.iter().chain(&["--keyspace", "none"]);
        let message = solera.run(args).fails(6);
        assert!(message.contains("no keyspace \"none\"; it has \"default\""), "{message}");
    }
}

#[test]
fn a_wrong_command_line_is_one_line_and_status_2() {
    let solera = Solera::new();
    for args in [
        &["frobnicate"][..],
        &["scan", "--limit", "many"],
        &["scan", "--raw", "--json"],
        &["get"],
        &["get", "--hex", "4"],
        &["get", "--hex", "zz"],
        &["get", "--escaped", "a\\q"],
        &["load", "--format", "xml", "-"],
        &["load", "--format", "tsv", "--key", "0", "-"],
        &["load", "--format", "tsv", "--key", "1,,2", "-"],
        &["load", "--format", "lines", "--key", "1", "-"],
        &["put", "k", "v", "--hex", "--escaped"],
        &["put", "--tll", "5s"],
        &["put", "k", "v", "--ttl", "0s"],
        &["get", "--jsn"],
        &["scan", "--prefix", "--limit", "5"],
        &["del", "--from", "z", "--to", "a"],
        &["control", "get", "speed"],
        &["control", "set", "run_limit=4"],
        &["control", "set", "--why", "test"],
        &["control", "set", "run_limit", "--why", "test"],
        &["control", "set", "speed=11", "--why", "test"],
        &["control", "set", "run_limit=4", "--level", "-1", "--why", "test"],
    ] {
        let message = solera.run(args).fails(2);
        assert!(message.len() < 400, "{message}");
    }
    let message = solera.command(["scan"]).env_remove("SOLERA_DIR").output().unwrap();
    assert_eq!(message.status.code(), Some(2));
    assert!(String::from_utf8(message.stderr).unwrap().contains("--dir"));
}

#[test]
fn help_documents_the_exit_statuses() {
    let solera = Solera::new();
    for args in [&["--help"][..], &["help"], &["-h"]] {
        let text = solera.run(args).ok();
        assert!(
            text.contains("3  load: bad lines were left out") && text.contains("5  another process has"),
            "{text}"
        );
    }
    assert!(solera.run(["load", "--help"]).ok().contains("sosd"));
    assert!(solera.run(["--version"]).ok().starts_with("solera "));
}

#[test]
fn completions_and_manual_pages_come_from_the_command_itself() {
    let solera = Solera::new();
    assert!(solera.run(["completions", "bash"]).ok().contains("--create-keyspace"));
    assert!(solera.run(["man"]).ok().contains("solera"));
    fs::create_dir(solera.path("man")).unwrap();
    solera.run(["man", "--to", "man"]).ok();
    assert!(solera.read("man/solera-load.1").contains("resume"));
    solera.run(["man", "--to", "nowhere"]).fails(6);
}

#[test]
fn an_empty_directory_and_a_foreign_file_get_a_remedy_that_fits() {
    let solera = Solera::new();
    std::fs::create_dir(solera.db()).unwrap();
    let message = solera.run(["get", "k"]).fails(6);
    assert!(message.contains("`solera put` create one") && !message.contains("empty directory"), "{message}");
    solera.write("notes.txt", "hello\n");
    let message = solera.run(["control", "watch", "--file", "notes.txt"]).fails(2);
    assert!(message.contains("is not what a database publishes"), "{message}");
    let message = solera.run(["stats", "--dir", ""]).fails(2);
    assert!(message.contains("a value is required for '--dir <DIR>'"), "{message}");
}

#[test]
fn a_page_is_written_only_when_asked_and_never_over_a_file_of_others() {
    let solera = Solera::new();
    solera.write("bench.html", "letters of a friend");
    let run = ["bench", "--n", "1000", "--index", "binary", "--repeats", "1"];
    assert_eq!(solera.run(run).status, 0);
    let message = solera.run(run.into_iter().chain(["--html", "bench.html"])).fails(2);
    assert!(message.contains("not a page of `solera bench`"), "{message}");
    assert_eq!(solera.read("bench.html"), "letters of a friend");
    assert_eq!(solera.run(run.into_iter().chain(["--html", "new.html"])).status, 0);
    assert_eq!(solera.run(run.into_iter().chain(["--html", "new.html"])).status, 0);
}

/// Symptom: a page of an earlier run was gone when the next run failed, and a user's file that
/// holds a phrase of a page was written over. Cause: the page was emptied before the run, and known
/// by the phrase. Cure: the new page takes its place when it is whole, and is known by its
/// beginning.
#[test]
fn a_page_stays_until_the_next_is_whole_and_is_known_by_its_beginning() {
    let solera = Solera::new();
    let run = ["bench", "--n", "1000", "--index", "binary", "--repeats", "1", "--html", "page.html"];
    assert_eq!(solera.run(run).status, 0);
    let page = solera.read("page.html");
    solera.run(["bench", "--n", "0", "--html", "page.html"]).fails(2);
    assert_eq!(solera.read("page.html"), page);
    let notes = "<html><title>Solera benchmark</title> What the tuner did\n.TH solera 1\n";
    solera.write("notes.html", notes);
    solera.write("solera-load.1", notes);
    solera.run(["bench", "--n", "1000", "--html", "notes.html"]).fails(2);
    solera.run(["man", "--to", "."]).fails(2);
    assert_eq!((solera.read("notes.html"), solera.read("solera-load.1")), (notes.into(), notes.into()));
}

/// Symptom: a load or a put that could not start left a new database behind, and `bench paper` a
/// directory of results.
#[test]
fn what_cannot_start_makes_nothing() {
    let solera = Solera::new();
    solera.write("in.tsv", "a\t1\n");
    #[cfg(unix)]
    std::os::unix::fs::symlink("nowhere/report", solera.path("astray")).unwrap();
    let before = solera.files();
    let (name, key) = ("n".repeat(300), "k".repeat(70_000));
    for (args, status) in [
        (&["load", "--trace", "nowhere/trace", "in.tsv"][..], 6),
        (&["load", "--bad-lines", "nowhere/report", "in.tsv"], 6),
        #[cfg(unix)]
        (&["load", "--bad-lines", "astray", "in.tsv"], 6),
        (&["load", "--keyspace", &name, "in.tsv"], 2),
        (&["put", "--keyspace", &name, "k", "v"], 2),
        (&["put", &key, "v"], 2),
        (&["bench", "paper", "safety", "--parts", "grid"], 2),
        (&["bench", "--keys", "lines:nowhere"], 6),
    ] {
        solera.run(args).fails(status);
        assert_eq!(solera.files(), before, "{:?}", &args[..2]);
    }
    let longest = "n".repeat(255);
    solera.run(["put", "--keyspace", &longest, "k", "v"]).ok();
}

/// Symptom: `solera help` and `--version` exited 0 where nothing could be printed.
#[cfg(target_os = "linux")]
#[test]
fn help_that_cannot_be_printed_is_a_failure() {
    let solera = Solera::new();
    for args in [&["help"][..], &["--version"], &["load", "--help"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let run = solera.command(args).stdout(full).output().unwrap();
        assert_eq!(run.status.code(), Some(7), "{args:?}: {run:?}");
    }
}

/// Symptom: of `--batch -1` the tip was to write `-- -1`, which is no remedy for an option.
#[test]
fn the_tip_for_a_value_with_a_hyphen_is_of_its_option() {
    let solera = Solera::new();
    for args in [&["load", "--batch", "-1", "in.tsv"][..], &["bench", "--seed", "-1"]] {
        let message = solera.run(args).fails(2);
        assert!(message.contains(&format!("{}=VALUE", args[1])), "{message}");
        assert!(!message.contains("'-- -1'"), "{message}");
    }
}

/// Symptom: Ctrl-C left 71 MB of databases behind. Cause: a signal drops nothing. Cure: the
/// databases lie in one directory, which the handler of signals removes.
#[cfg(unix)]
#[test]
fn a_measurement_that_is_stopped_leaves_no_databases_behind() {
    let solera = Solera::new();
    let place = solera.path("place");
    std::fs::create_dir(&place).unwrap();
    let mut command = solera.command(["bench", "--n", "1M", "--index", "learned", "--dir", "place"]);
    let child =
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    // Databases are made long after the handler is set.
    let has_database = || {
        let inner = std::fs::read_dir(&place).unwrap().next()?.ok()?.path();
        std::fs::read_dir(inner).ok()?.next()
    };
    while has_database().is_none() {
        std::thread::yield_now();
    }
    assert!(
        std::process::Command::new("kill")
            .args(["-INT", &child.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    let stopped = child.wait_with_output().unwrap();
    assert_eq!(stopped.status.code(), Some(130));
    assert!(String::from_utf8_lossy(&stopped.stderr).contains("temporary files are removed"));
    assert_eq!(std::fs::read_dir(&place).unwrap().count(), 0);
}

/// Symptom: `cost --save-units`, `bench paper --out` and `man --to` emptied any file of that name,
/// and `--bad-lines` a report that standard input was read from. Cause: they did not open what they
/// write as `load` does. Cure: one place opens all files that commands make.
#[test]
fn no_command_writes_over_a_file_that_it_did_not_make() {
    let solera = Solera::new();
    let letter = "letters of a friend";
    for file in ["units.json", "solera-load.1", "results/sherry.md"] {
        fs::create_dir_all(solera.path("results")).unwrap();
        solera.write(file, letter);
    }
    for (args, file) in [
        (&["cost", "--workload", "25,25,25,25", "--save-units", "units.json"][..], "units.json"),
        (&["man", "--to", "."], "solera-load.1"),
        (&["bench", "paper", "sherry", "--quick", "--out", "results"], "results/sherry.md"),
    ] {
        let message = solera.run(args).fails(2);
        assert!(message.contains("is there already and is not"), "{args:?}: {message}");
        assert_eq!(solera.read(file), letter, "{args:?}");
    }
    fs::remove_file(solera.path("solera-load.1")).unwrap();
    solera.run(["man", "--to", "."]).ok();
    // Its own are replaced.
    solera.run(["man", "--to", "."]).ok();

    let rows = "a\t1\nb\t2\n";
    let load = ["load", "--format", "tsv", "--bad-lines", "bad.jsonl", "-"];
    solera.run_with_input(load, rows.as_bytes()).ok();
    let report = solera.read("bad.jsonl");
    let again = ["load", "--format", "jsonl", "--key", "load", "--bad-lines", "bad.jsonl", "-"];
    let mut command = solera.command(again);
    command.stdin(fs::File::open(solera.path("bad.jsonl")).unwrap());
    let refused = command.output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert_eq!(solera.read("bad.jsonl"), report);
}

#[test]
fn a_file_that_cannot_be_made_is_refused_before_anything_else_is() {
    let solera = Solera::new();
    solera.write("in.tsv", "a\t1\n");
    solera.write("old.trace", "of another load");
    fs::create_dir(solera.path("folder")).unwrap();
    let before = solera.files();
    for (flag, file, why) in [
        ("--trace", "old.trace", "is there already"),
        ("--trace", "folder", "is a directory"),
        ("--trace", "-", "is not a file"),
        ("--bad-lines", "folder", "is a directory"),
        ("--bad-lines", "-", "is not a file"),
    ] {
        let message = solera.run(["load", flag, file, "in.tsv"]).fails(2);
        assert!(message.contains(why), "{flag} {file}: {message}");
        assert_eq!(solera.files(), before, "{flag} {file}");
    }
    let both = ["load", "--trace", "new", "--bad-lines", "new", "in.tsv"];
    assert!(solera.run(both).fails(2).contains("both report and trace"));
    assert_eq!(solera.files(), before);
}

/// Symptom: a command whose standard error had no reader exited with 101, and a load could not be
/// stopped any more. Cause: `eprintln!` panics there, in the handler of signals too. Cure: what
/// cannot be said is not said.
#[cfg(target_os = "linux")]
#[test]
fn a_message_that_nobody_reads_changes_nothing() {
    let solera = Solera::new();
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let status = |args: &[&str]| solera.command(args).stderr(full()).status().unwrap().code();
    solera.run(["put", "k", "v"]).ok();
    assert_eq!(status(&["get", "none"]), Some(1));
    assert_eq!(status(&["get", "--jsn"]), Some(2));
    assert_eq!(status(&["scan", "--dir", "none"]), Some(6));
    // One line without an end: the load never comes to where it would ask whether to stop.
    let mut load = solera.command(["load", "--format", "lines", "/dev/zero"]).stderr(full()).spawn().unwrap();
    while solera.notes().is_empty() {
        std::thread::yield_now();
    }
    let kill = || std::process::Command::new("kill").args(["-INT", &load.id().to_string()]).status();
    assert!(kill().unwrap().success());
    assert_eq!(load.wait().unwrap().code(), Some(130));
}

#[test]
fn an_argument_without_end_is_not_repeated_without_end() {
    let solera = Solera::new();
    solera.run(["put", "k", "v"]).ok();
    let long = "a".repeat(60_000);
    let message = solera.run(["get", &long]).fails(1);
    assert!(message.len() < 3000 && message.contains("there is no key aaa"), "{}", message.len());
}

#[cfg(unix)]
#[test]
fn a_checkpoint_that_cannot_be_made_leaves_nothing_and_says_where_it_can() {
    let solera = Solera::new();
    solera.run(["put", "k", "v"]).ok();
    solera.run(["compact"]).ok();
    let inside = solera.db().join("copy").to_str().unwrap().to_owned();
    assert!(solera.run(["checkpoint", &inside]).fails(2).contains("is the directory of a database"));
    assert!(!solera.db().join("copy").exists());
    solera.write("file", "");
    assert!(solera.run(["checkpoint", "file"]).fails(2).contains("is a file"));
    // Where there is a second file system.
    let elsewhere = std::path::Path::new("/dev/shm");
    use std::os::unix::fs::MetadataExt;
    let device = |path: &std::path::Path| fs::metadata(path).map(|found| found.dev()).ok();
    if let (Some(there), Some(here)) = (device(elsewhere), device(&solera.db()))
        && there != here
    {
        let place = tempfile::tempdir_in(elsewhere).unwrap();
        let copy = place.path().join("copy");
        let message = solera.run(["checkpoint", copy.to_str().unwrap()]).fails(2);
        assert!(message.contains("another file system") && message.contains("copy it"), "{message}");
        assert!(!copy.exists());
    }
}

/// Symptom: watching a database that no process had open kept a process out that opened it then.
/// Cause: whether it is open was asked by taking its lock. Cure: the lock's file is read.
#[test]
fn watching_names_who_has_the_database_and_keeps_nobody_out() {
    let solera = Solera::new();
    let db = solera::Db::open(solera.db()).unwrap();
    let message = solera.run(["control", "watch"]).fails(6);
    let told = format!("process {} has the database open and does not publish it", std::process::id());
    assert!(message.contains(&told), "{message}");
    db.close().unwrap();
    assert!(solera.run(["control", "watch"]).fails(6).contains("no process that works with"));
}

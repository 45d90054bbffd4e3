//! Tests of every command of `solera` on a database with a merge operator of a program's own, which
//! the command line does not have.
//!
//! What must hold: what needs no operator works. What needs one is status 7 with one line that
//! names it and says what to do. After every command a program that has the operator finds what
//! was there and what the command wrote, and nothing else.

use crate::{cost::UNITS, run::Solera};
use solera::{Db, KeyspaceOptions, MergeOperator, Options, trace::TraceOptions};
use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

/// Operands behind one another.
struct Postings;

impl MergeOperator for Postings {
    fn name(&self) -> &str {
        "postings-1"
    }

    fn merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        Ok([base.unwrap_or_default(), &operands.concat()].concat())
    }
}

/// Keys and values of a keyspace; none if it is not there.
type Entries = Option<BTreeMap<String, String>>;

fn opened(dir: &Path) -> Db {
    Options::new().register_operator(Arc::new(Postings)).open(dir).unwrap()
}

/// The keyspaces "default" and "terms", as a program with the operator finds them.
fn found(dir: &Path) -> [Entries; 2] {
    let db = opened(dir);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let entries = |name: &str| {
        let is_there = db.keyspaces().iter().any(|keyspace| keyspace == name);
        let pairs = is_there.then(|| db.keyspace(name).unwrap().iter().map(Result::unwrap));
        pairs.map(|pairs| pairs.map(|(key, value)| (text(&key), text(&value))).collect())
    };
    ["default", "terms"].map(entries)
}

/// A database whose keyspace "terms" has operands in tables and in a log, with two traces, a
/// tuner's journal and an observation.
fn with_operator() -> Solera {
    let solera = Solera::new();
    solera.write("two.tsv", "a\t1\nb\t2\n");
    solera.write("terms.tsv", "b\tnew\nz\tlast\n");
    solera.write("later.tsv", "x\t1\ny\t2\n");
    solera.write("units.json", UNITS);
    solera.run(["load", "--tune", "two.tsv"]).ok();
    let db = Db::open(solera.db()).unwrap();
    let terms = db.keyspace_with("terms", KeyspaceOptions::new().merge_operator(Arc::new(Postings))).unwrap();
    terms.put("a", "1").unwrap();
    terms.merge("b", "2").unwrap();
    terms.put("c", "9").unwrap();
    terms.flush().unwrap();
    let recording = db.control().trace(&solera.path("merges.trace"), TraceOptions::new()).unwrap();
    db.put("from a trace", "0").unwrap();
    terms.merge("b", "3").unwrap();
    terms.merge("d", "4").unwrap();
    recording.finish().unwrap();
    let recording = db.control().trace(&solera.path("reads.trace"), TraceOptions::new()).unwrap();
    assert!(terms.get("b").unwrap().is_some() && terms.get("no").unwrap().is_none());
    assert_eq!((terms.iter().count(), terms.iter().rev().count()), (4, 4));
    recording.finish().unwrap();
    solera.write("observed", db.control().observe().encode());
    db.close().unwrap();
    fs::rename(solera.db(), solera.path("whole")).unwrap();
    solera
}

/// What a command comes to.
#[derive(Default)]
struct Ends {
    /// Its status.
    status: i32,
    /// Parts of its output.
    says: &'static [&'static str],
    /// What it makes of entries of "default" and of "terms"; a key without value is deleted.
    default: &'static [(&'static str, Option<&'static str>)],
    terms: &'static [(&'static str, Option<&'static str>)],
    /// Whether "terms" is dropped.
    drops: bool,
}

/// It works and changes no entry.
const WORKS: Ends = Ends { status: 0, says: &[], default: &[], terms: &[], drops: false };
/// It needs the operator.
const NEEDS: Ends = Ends { status: 7, ..WORKS };
/// All that "terms" has.
const ALL: [(&str, Option<&str>); 4] = [("a", None), ("b", None), ("c", None), ("d", None)];
const TERMS: [&str; 2] = ["--keyspace", "terms"];

/// Every command that opens a database or one of its files. `TERMS` in front of the arguments says
/// that they are of that keyspace.
fn cases() -> Vec<(Vec<&'static str>, Ends)> {
    let terms = |args: &[&'static str]| [args, &TERMS].concat();
    let replay = |file| vec!["trace", "replay", "--asap", "--overwrite", "--dir", "db", file];
    vec![
        (vec!["get", "a"], Ends { says: &["1"], ..WORKS }),
        (terms(&["get", "a"]), Ends { says: &["1"], ..WORKS }),
        (terms(&["get", "no"]), Ends { status: 1, ..WORKS }),
        (terms(&["get", "b"]), NEEDS),
        (terms(&["get", "d", "--json"]), NEEDS),
        (vec!["scan"], Ends { says: &["a\t1\nb\t2\n"], ..WORKS }),
        (terms(&["scan"]), Ends { says: &["a\t1\nc\t9\n"], ..NEEDS }),
        (terms(&["scan", "--rev", "--json"]), Ends { says: &["\"9\"", "\"1\""], ..NEEDS }),
        (terms(&["scan", "--to", "b"]), Ends { says: &["a\t1\n"], ..WORKS }),
        (terms(&["scan", "--limit", "1"]), Ends { says: &["a\t1\n"], ..WORKS }),
        (terms(&["scan", "--keys-only"]), Ends { says: &["a\nb\nc\nd\n"], ..WORKS }),
        (terms(&["scan", "--keys-only", "--rev"]), Ends { says: &["d\nc\nb\na\n"], ..WORKS }),
        (vec!["put", "k", "v"], Ends { default: &[("k", Some("v"))], ..WORKS }),
        (terms(&["put", "b", "v"]), Ends { terms: &[("b", Some("v"))], ..WORKS }),
        (terms(&["del", "b", "c"]), Ends { terms: &[("b", None), ("c", None)], ..WORKS }),
        (terms(&["del", "--from", "b", "--to", "c"]), Ends { terms: &[("b", None)], ..WORKS }),
        (terms(&["del", "--all"]), Ends { terms: &ALL, ..WORKS }),
        (vec!["load", "terms.tsv"], Ends { default: &[("b", Some("new")), ("z", Some("last"))], ..WORKS }),
        (terms(&["load", "terms.tsv"]), Ends { terms: &[("b", Some("new")), ("z", Some("last"))], ..WORKS }),
        (
            terms(&["load", "--sorted", "later.tsv"]),
            Ends { terms: &[("x", Some("1")), ("y", Some("2"))], ..WORKS },
        ),
        (
            terms(&["load", "--tune", "later.tsv"]),
            Ends { terms: &[("x", Some("1")), ("y", Some("2"))], ..WORKS },
        ),
        (vec!["stats"], Ends { says: &["default", "terms"], ..WORKS }),
        (terms(&["stats", "--json"]), Ends { says: &["terms"], ..WORKS }),
        (vec!["levels"], WORKS),
        (terms(&["levels"]), Ends { says: &["terms"], ..WORKS }),
        (vec!["check"], Ends { says: &["no damage"], ..WORKS }),
        (vec!["compact"], WORKS),
        (terms(&["compact"]), WORKS),
        (terms(&["compact", "--from", "b", "--to", "c"]), WORKS),
        (vec!["checkpoint", "copy"], WORKS),
        (vec!["checkpoint", "copy", "--verify"], Ends { says: &["no damage"], ..WORKS }),
        (vec!["control", "get"], WORKS),
        (terms(&["control", "get"]), WORKS),
        (terms(&["control", "set", "run_limit=4", "--why", "test"]), WORKS),
        (vec!["control", "history"], WORKS),
        (vec!["control", "watch", "--count", "1", "--file", "observed"], Ends { says: &["terms"], ..WORKS }),
        (vec!["trace", "show", "merges.trace"], Ends { says: &["terms"], ..WORKS }),
        (replay("merges.trace"), NEEDS),
        (
            replay("reads.trace"),
            Ends { says: &["2 of 2 lookups found what the trace says", "8 entries, 8"], ..WORKS },
        ),
        (vec!["trace", "replay", "--asap", "--dir", "new", "merges.trace"], WORKS),
        (vec!["tune", "replay", "db/TUNED"], WORKS),
        (vec!["explain"], WORKS),
        (vec!["keyspace", "list"], Ends { says: &["default", "terms"], ..WORKS }),
        (vec!["keyspace", "create", "more"], WORKS),
        (vec!["keyspace", "drop", "terms", "--yes"], Ends { drops: true, ..WORKS }),
    ]
}

/// Commands that look at no database that is there.
const OF_NO_DATABASE: [&str; 5] = ["bench", "cost", "completions", "man", "help"];

/// Symptom: a replay into a database with an operator of a program's own ended at the first merge,
/// with what came before it written, and at the first read of such an entry. `scan --keys-only`
/// left out keys whose values it did not need. The remedy that was named was for programs.
#[test]
fn every_command_does_what_it_can_without_a_merge_operator_of_a_programs_own() {
    let solera = with_operator();
    let whole: Vec<_> = fs::read_dir(solera.path("whole")).unwrap().map(|file| file.unwrap()).collect();
    let fresh = || {
        ["db", "copy", "new"].iter().for_each(|dir| drop(fs::remove_dir_all(solera.path(dir))));
        fs::create_dir(solera.db()).unwrap();
        whole.iter().for_each(|file| {
            fs::copy(file.path(), solera.db().join(file.file_name())).unwrap();
        });
    };
    fresh();
    let before = found(&solera.db());
    let terms = [("a", "1"), ("b", "23"), ("c", "9"), ("d", "4")];
    assert_eq!(before[1], Some(BTreeMap::from(terms.map(|(key, value)| (key.to_owned(), value.to_owned())))));

    fresh();
    let dumped: Vec<Vec<String>> = fs::read_dir(solera.db())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| ["table", "log", "MANI", "CURR"].iter().any(|kind| name.contains(kind)))
        .map(|name| vec!["dump".to_owned(), format!("db/{name}")])
        .collect();
    assert!(dumped.len() >= 4, "{dumped:?}");
    let owned = |args: Vec<&str>| args.into_iter().map(str::to_owned).collect();
    let cases: Vec<(Vec<String>, Ends)> = cases()
        .into_iter()
        .map(|(args, ends)| (owned(args), ends))
        .chain(dumped.into_iter().map(|args| (args, WORKS)))
        .collect();
    for (args, ends) in &cases {
        fresh();
        let run = solera.run(args);
        let out = String::from_utf8(run.out.clone()).unwrap();
        assert_eq!(run.status, ends.status, "{args:?}: {run:?}");
        ends.says.iter().for_each(|part| assert!(out.contains(part), "{args:?}: {out}"));
        if ends.status == NEEDS.status {
            let is_one_line = run.err.starts_with("solera: ") && run.err.lines().count() == 1;
            let is_told =
                ["\"postings-1\"", "use a program that gives it"].iter().all(|part| run.err.contains(part));
            assert!(is_one_line && is_told, "{args:?}: {}", run.err);
        }
        let debug = ["Merge {", "Error::", "Invalid(", "panicked"];
        assert!(
            !debug.iter().any(|debug| run.err.contains(debug) || out.contains(debug)),
            "{args:?}: {run:?}"
        );

        let mut after = before.clone();
        for (entries, changes) in after.iter_mut().zip([ends.default, ends.terms]) {
            let entries = entries.as_mut().unwrap();
            changes.iter().for_each(|&(key, value)| match value {
                Some(value) => drop(entries.insert(key.to_owned(), value.to_owned())),
                None => drop(entries.remove(key)),
            });
        }
        if ends.drops {
            after[1] = None;
        }
        assert_eq!(found(&solera.db()), after, "{args:?}");
        if args[0] == "checkpoint" {
            assert_eq!(found(&solera.path("copy")), after, "{args:?}");
        }
    }

    // Every command is among them.
    let below = |path: &[&str]| -> Vec<String> {
        let help = solera.run([path, &["--help"]].concat()).ok();
        let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        // What goes on from the line before stands further in.
        let named = lines.take_while(|line| line.starts_with("  ")).filter(|line| !line.starts_with("   "));
        named.filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect()
    };
    let of_databases = |command: &String| !OF_NO_DATABASE.contains(&command.as_str());
    let mut commands: Vec<Vec<String>> = Vec::new();
    for command in below(&[]).into_iter().filter(of_databases) {
        let inner = below(&[&command]).into_iter().filter(|inner| inner != "help");
        let paths: Vec<_> = inner.map(|inner| vec![command.clone(), inner]).collect();
        commands.extend(if paths.is_empty() { vec![vec![command]] } else { paths });
    }
    let is_tried = |path: &&Vec<String>| cases.iter().any(|(args, _)| args.starts_with(path));
    let untried: Vec<_> = commands.iter().filter(|path| !is_tried(path)).collect();
    assert!(untried.is_empty() && commands.len() >= 20, "not tried: {untried:?} of {commands:?}");
}

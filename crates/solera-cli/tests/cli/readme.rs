//! The session of the README, line by line, on the data that is shipped.
//!
//! What must hold: every line of the section "The command line" that begins with `solera` is run
//! as it stands there, in order, and says what its comment promises. One for which nothing is
//! asked here fails. Only `cost` gets its unit costs from a file, so that no test waits for a
//! probe.

use crate::{cost::UNITS, run::Solera};
use std::path::{Path, PathBuf};

/// Rows of the data that is shipped.
const ROWS: &str = "47,095";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn readme() -> String {
    std::fs::read_to_string(repository().join("README.md")).unwrap()
}

/// The lines of the first block of commands behind `heading`, without their comments.
fn block(readme: &str, heading: &str) -> Vec<String> {
    let behind = readme.split_once(heading).unwrap_or_else(|| panic!("no {heading:?}")).1;
    let block = behind.split_once("```sh\n").unwrap().1.split_once("```").unwrap().0;
    block.lines().map(|line| line.split(" #").next().unwrap_or(line).trim().to_owned()).collect()
}

/// What the output of each command must show: how its line begins, and parts of what it prints.
const SHOWN: [(&str, &[&str]); 9] = [
    ("solera load --dir D ", &[ROWS, "records loaded"]),
    ("solera scan --dir D --limit 10", &[]),
    ("solera stats --dir D", &[ROWS, "live"]),
    ("solera levels --dir D", &["default: 47,095 entries", "L0"]),
    ("solera load --dir E ", &[ROWS, "records loaded", "operations in the trace"]),
    ("solera trace replay load.trace ", &[ROWS, "operations in"]),
    ("solera explain --dir E", &["steward begins"]),
    ("solera check --dir D", &["no damage"]),
    ("solera cost --workload 25,25,25,25", &["cheapest"]),
];

/// Symptom: no key was `src/lib.rs`, as the session said, `scan --prefix src/` printed nothing, a
/// trace that it replayed was never made, and its data were nowhere. Cause: the session was
/// written, not run. Cure: this test runs it.
#[cfg(unix)]
#[test]
fn the_session_of_the_readme_works_on_the_data_that_is_shipped() {
    let solera = Solera::new();
    std::os::unix::fs::symlink(repository().join("data"), solera.path("data")).unwrap();
    solera.write("units.json", UNITS);
    let session = block(&readme(), "## The command line");
    let install = "cargo install --path ";
    let crate_path = session[0].strip_prefix(install).unwrap_or_else(|| panic!("{}", session[0]));
    let crate_path = crate_path.split_whitespace().next().unwrap();
    assert!(repository().join(crate_path).join("Cargo.toml").is_file(), "{crate_path}");

    let mut asked = Vec::new();
    for line in &session[1..] {
        let shown = SHOWN.iter().find(|(begin, _)| line.starts_with(begin));
        let (begin, parts) = shown.unwrap_or_else(|| panic!("nothing is asked of `{line}`"));
        asked.push(begin);
        let mut args: Vec<&str> = line.split_whitespace().skip(1).collect();
        if args[0] == "cost" {
            args.extend(["--units", "units.json"]);
        }
        let run = solera.run(&args);
        let out = String::from_utf8(run.out).unwrap();
        assert_eq!((run.status, run.err.as_str()), (0, ""), "{line}: {out}");
        parts.iter().for_each(|part| assert!(out.contains(part), "{line} does not show {part:?}: {out}"));
        if begin.contains("scan") {
            let lines: Vec<Vec<&str>> = out.lines().map(|line| line.split("\\t").collect()).collect();
            assert_eq!(lines.len(), 10, "{out}");
            for line in lines {
                let time = line[1].split('\t').next().unwrap();
                assert!(!line[0].is_empty() && time.parse::<u64>().is_ok(), "a path and a time: {line:?}");
            }
        }
    }
    let unasked = SHOWN.iter().map(|(begin, _)| begin).filter(|begin| !asked.contains(begin));
    assert_eq!(unasked.count(), 0, "{asked:?}");
    let scanned = |dir: &str| solera.run(["scan", "--dir", dir, "--keys-only"]).ok();
    assert!(scanned("D") == scanned("COPY"), "the replay wrote what the load did");
}

/// Symptom: there was no line that fetches a clone, and "readers share it" was said of a directory
/// that no reader can open beside a writer.
#[test]
fn the_readme_says_how_to_get_a_clone_names_commands_that_exist_and_who_may_open_a_directory() {
    let readme = readme();
    let two = block(&readme, "Two commands in a clone");
    assert!(two[0].starts_with("git clone "), "{two:?}");
    assert!(two.iter().any(|line| line == "cargo run --release -- bench"), "{two:?}");
    assert!(repository().join("test").is_file());
    assert!(!readme.contains("readers share it") && readme.contains("while none has, many may read it"));

    let solera = Solera::new();
    let mut named = 0;
    for quoted in readme.split("`solera ").skip(1) {
        let command = quoted.split(['`', ' ']).next().unwrap();
        let helped = if command == "help" { solera.run([command]) } else { solera.run([command, "--help"]) };
        helped.ok();
        named += 1;
    }
    assert!(named >= 3, "{named}");
    // What it says of readers and writers.
    solera.run(["put", "k", "v"]).ok();
    let reading = || solera::Options::new().read_only(true).open(solera.db()).unwrap();
    let readers = [reading(), reading()];
    assert_eq!(solera.run(["get", "k"]).ok(), "v\n");
    solera.run(["put", "k", "w"]).fails(5);
    drop(readers);
    let _writer = solera::Db::open(solera.db()).unwrap();
    solera.run(["get", "k"]).fails(5);
}

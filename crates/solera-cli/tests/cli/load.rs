//! Tests of `solera load`: every format, plain and compressed, from files and standard input.
//!
//! Bad lines are named, the rest is loaded, and the status says so. A load goes on where its report
//! or progress file says it came to, also after a kill, a signal or grown input. Sorted input goes
//! straight into tables. Nothing of a damaged compressed file is loaded. A report is never written
//! over a file that is none. A property: loading gives what sorting gives, and a scan loaded again
//! is the same keyspace.

use crate::run::Solera;
use proptest::prelude::*;
use serde_json::Value;
use std::{
    io::{Read, Write},
    process::Stdio,
};

const TSV: &str = "src/a.rs\t100\tc1\tA\nsrc/b.rs\t90\tc2\tM\nsrc/a.rs\t120\tc3\tM\n";
const SCANNED: &str = "src/a.rs\\t100\tc1\\tA\nsrc/a.rs\\t120\tc3\\tM\nsrc/b.rs\\t90\tc2\\tM\n";

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn zstd(content: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(content, ruzstd::encoding::CompressionLevel::Fastest)
}

#[test]
fn tsv_from_standard_input_and_from_files_plain_and_compressed() {
    for (name, content) in [
        ("in.tsv", TSV.as_bytes().to_vec()),
        ("in.tsv.gz", gzip(TSV.as_bytes())),
        ("in.tsv.zst", zstd(TSV.as_bytes())),
        ("-", TSV.as_bytes().to_vec()),
        ("-", gzip(TSV.as_bytes())),
        ("-", zstd(TSV.as_bytes())),
    ] {
        let solera = Solera::new();
        if name != "-" {
            solera.write(name, &content);
        }
        let text = solera.run_with_input(["load", "--format", "tsv", "--key", "1,2", name], &content).ok();
        assert!(text.starts_with("3 records loaded in "), "{text}");
        assert_eq!(solera.run(["scan"]).ok(), SCANNED);
    }
}

#[test]
fn the_name_of_the_file_tells_the_format() {
    let solera = Solera::new();
    for (name, content, key) in [
        ("a.tsv", &b"t\t1\n"[..], "t"),
        ("b.csv", b"c,1\n", "c"),
        ("c.txt", b"l\n", "l"),
        ("D.CSV", b"C,1\n", "C"),
    ] {
        solera.write(name, content);
        solera.run(["load", name]).ok();
        solera.run(["get", key]).ok();
    }
    solera.write("e.ndjson.gz", gzip(b"{\"k\":\"j\"}\n"));
    solera.run(["load", "--key", "k", "e.ndjson.gz"]).ok();
    assert_eq!(solera.run(["get", "j"]).ok(), "{\"k\":\"j\"}\n");
    solera.write("f.data", "x\n");
    assert!(solera.run(["load", "f.data"]).fails(2).contains("--format"));
}

#[test]
fn csv_with_a_header_and_json_with_pointers() {
    let solera = Solera::new();
    solera.write("in.csv", "id,name,note\n7,\"Ana, B\",\"two\nlines\"\n");
    solera.run(["load", "--header", "--key", "name,id", "--value", "note", "in.csv"]).ok();
    assert_eq!(solera.run(["scan"]).ok(), "Ana, B\\t7\ttwo\\nlines\n");

    solera.write("in.jsonl", "{\"user\":{\"id\":12},\"n\":[1,2]}\n");
    solera
        .run([
            "load",
            "--keyspace",
            "json",
            "--create-keyspace",
            "--key",
            "/user/id",
            "--value",
            "/n/1",
            "in.jsonl",
        ])
        .ok();
    assert_eq!(solera.run(["scan", "--keyspace", "json"]).ok(), "12\t2\n");
}

#[test]
fn sosd_keys_of_both_widths_come_out_in_number_order() {
    let solera = Solera::new();
    let keys = [3u64, 1, 0x0100, 0xffff_ffff];
    let mut wide = 4u64.to_le_bytes().to_vec();
    keys.iter().for_each(|key| wide.extend_from_slice(&key.to_le_bytes()));
    let mut narrow = 4u64.to_le_bytes().to_vec();
    keys.iter().for_each(|key| narrow.extend_from_slice(&(*key as u32).to_le_bytes()));
    solera.write("wide", &wide);
    solera.write("narrow", &narrow);

    solera.run(["load", "--format", "sosd", "--keyspace", "wide", "wide"]).ok();
    assert_eq!(
        solera.run(["scan", "--keyspace", "wide", "--hex"]).ok(),
        "0000000000000001\t0000000000000001\n\
         0000000000000003\t0000000000000000\n\
         0000000000000100\t0000000000000002\n\
         00000000ffffffff\t0000000000000003\n"
    );
    solera.run(["load", "--format", "sosd", "--keyspace", "narrow", "--create-keyspace", "narrow"]).ok();
    assert_eq!(
        solera.run(["scan", "--keyspace", "narrow", "--hex", "--keys-only"]).ok(),
        "00000001\n00000003\n00000100\nffffffff\n"
    );
    // The length of a stream is not known.
    let load = ["load", "--format", "sosd", "--keyspace", "stream", "--create-keyspace", "-"];
    assert!(solera.run_with_input(load, &narrow).fails(2).contains("--key-bits"));
    let load =
        ["load", "--format", "sosd", "--keyspace", "stream", "--create-keyspace", "--key-bits", "32", "-"];
    solera.run_with_input(load, &narrow).ok();
    assert_eq!(
        solera.run(["scan", "--keyspace", "stream", "--keys-only", "--limit", "1", "--hex"]).ok(),
        "00000001\n"
    );
    let load =
        ["load", "--format", "sosd", "--keyspace", "stream", "--create-keyspace", "--key-bits", "64", "-"];
    assert!(solera.run_with_input(load, &narrow).fails(7).contains("ends at key 2 of 4 (byte 24)"));
}

#[test]
fn later_records_win_and_lines_have_empty_values() {
    let solera = Solera::new();
    solera.run_with_input(["load", "--format", "tsv", "-"], b"k\told\nk\tnew\n").ok();
    assert_eq!(solera.run(["get", "k"]).ok(), "new\n");
    solera
        .run_with_input(
            ["load", "--format", "lines", "--keyspace", "l", "--create-keyspace", "-"],
            b"b\na\nb\n",
        )
        .ok();
    assert_eq!(solera.run(["scan", "--keyspace", "l"]).ok(), "a\t\nb\t\n");
}

#[test]
fn bad_lines_are_named_the_rest_is_loaded_and_the_status_says_so() {
    let solera = Solera::new();
    let run = solera.run_with_input(["load", "--format", "tsv", "--key", "1,2", "-"], b"a\t1\nb\n\nc\t2\n");
    assert_eq!(run.status, 3);
    assert_eq!(
        run.err,
        "solera: line 2: 1 column; the key needs column 2\nsolera: line 3: the line is empty\n"
    );
    assert!(String::from_utf8(run.out).unwrap().contains("2 bad lines left out"));
    assert_eq!(solera.run(["scan"]).ok(), "a\\t1\t\nc\\t2\t\n");
}

#[test]
fn only_the_first_bad_lines_are_named_on_the_terminal() {
    let solera = Solera::new();
    let run = solera.run_with_input(["load", "--format", "jsonl", "--key", "k", "-"], &b"nope\n".repeat(100));
    assert_eq!(run.status, 3);
    assert_eq!(run.err.lines().count(), 21);
    assert!(run.err.contains("line 20: not a JSON object: "));
    assert!(run.err.contains("--bad-lines FILE"));
}

#[test]
fn records_over_the_limits_are_bad_lines_and_do_not_fail_their_batch() {
    let solera = Solera::new();
    let mut input = b"a\t1\n".to_vec();
    input.extend(std::iter::repeat_n(b'k', 65_535));
    input.extend(b"\tlongest\n");
    input.extend(std::iter::repeat_n(b'k', 65_536));
    input.extend(b"\ttoo long\nb\t2\n");
    let run = solera.run_with_input(["load", "--format", "tsv", "-"], &input);
    assert_eq!(
        (run.status, run.err.as_str()),
        (3, "solera: line 3: the key has 65536 bytes; at most 65535 are allowed\n")
    );
    assert_eq!(solera.run(["scan"]).ok().lines().count(), 3);
}

#[test]
fn the_report_has_every_bad_line_with_its_text() {
    let solera = Solera::new();
    let load = ["load", "--format", "tsv", "--key", "1,2", "--bad-lines", "bad.jsonl", "--json", "-"];
    let run = solera.run_with_input(load, b"a\t1\nb\n\xff\nc\t2\n");
    assert_eq!((run.status, run.err.as_str()), (3, ""));
    let summary: Value = serde_json::from_slice(&run.out).unwrap();
    assert_eq!(
        (&summary["loaded"], &summary["bad_lines"], &summary["lines"]),
        (&2.into(), &2.into(), &4.into())
    );
    let report = solera.read("bad.jsonl");
    let lines: Vec<&str> = report.lines().collect();
    assert_eq!(
        lines[1..3],
        [
            r#"{"line":2,"reason":"1 column; the key needs column 2","text":"b"}"#,
            r#"{"line":3,"reason":"1 column; the key needs column 2","text_hex":"ff"}"#,
        ]
    );
    let mark: Value = serde_json::from_str(lines[3]).unwrap();
    for (name, is) in [("through_line", 4), ("loaded", 2), ("bad", 2), ("bytes", 12)] {
        assert_eq!(mark[name], is, "{mark}");
    }
    assert!(mark["hash"].as_str().is_some_and(|hash| hash.len() == 16) && mark["complete"] == true, "{mark}");
}

#[test]
fn a_load_goes_on_where_its_report_says_it_came_to() {
    let solera = Solera::new();
    let load = ["load", "--format", "tsv", "--key", "1", "--bad-lines", "bad.jsonl", "in.tsv"];
    solera.write("in.tsv", "a\t1\n\n");
    assert_eq!(solera.run(load).status, 3);

    // As if the load had been interrupted after line 2: what follows the mark is read again.
    let marked = solera.read("bad.jsonl").replace(",\"complete\":true", "");
    assert!(marked.contains("{\"through_line\":2,\"loaded\":1,\"bad\":1,"), "{marked}");
    solera.write("bad.jsonl", marked + r#"{"line":3,"reason":"cut of"#);
    solera.write("in.tsv", "a\t1\n\nb\t2\n");
    solera.run(["del", "a", "b"]).ok();
    let resume: Vec<&str> = load.into_iter().chain(["--resume"]).collect();
    let run = solera.run(&resume);
    assert_eq!(run.status, 3, "{run:?}");
    let text = String::from_utf8(run.out).unwrap();
    assert!(text.starts_with("1 record loaded") && text.contains("2 in all; 1 bad line left"), "{text}");
    assert_eq!(solera.run(["scan"]).ok(), "b\t2\n", "line 1 was not loaded again");
    let report = solera.read("bad.jsonl");
    let last = report.lines().last().unwrap();
    assert!(last.starts_with("{\"through_line\":3,\"loaded\":2,\"bad\":1,\"bytes\":9,"), "{last}");
    assert!(last.ends_with(",\"complete\":true}"), "{last}");

    // A finished load has nothing to go on with.
    let run = solera.run(&resume);
    assert_eq!(run.status, 3);
    assert!(String::from_utf8(run.out).unwrap().starts_with("0 records loaded"));

    // There must be something to go on with, and it must be the same load.
    let elsewhere = resume.iter().copied().chain(["--dir", "elsewhere"]);
    assert!(solera.run(elsewhere).fails(6).contains("does not exist"));
    let other = ["load", "--format", "tsv", "--key", "2", "--bad-lines", "bad.jsonl", "in.tsv", "--resume"];
    assert!(solera.run(other).fails(2).contains("another load"));
}

#[test]
fn sorted_input_goes_straight_into_tables() {
    let solera = Solera::new();
    let run = solera
        .run_with_input(["load", "--format", "tsv", "--sorted", "-"], b"a\t1\nc\t2\nb\t3\nc\t4\nd\t5\n");
    assert_eq!(run.status, 3);
    assert_eq!(
        run.err,
        "solera: line 3: the key is not greater than the one before (--sorted)\n\
         solera: line 4: the key is not greater than the one before (--sorted)\n"
    );
    assert_eq!(solera.run(["scan"]).ok(), "a\t1\nc\t2\nd\t5\n");
}

#[test]
fn a_load_may_choose_index_and_compression_of_a_new_keyspace() {
    let solera = Solera::new();
    let content: String = (0..20_000).map(|i| format!("key {i:08}\tvalue {i}\n")).collect();
    for index in ["binary", "doblix-pla", "doblix-pra"] {
        for compression in ["none", "lz4"] {
            let keyspace = format!("{index}-{compression}");
            let load = [
                "load",
                "--format",
                "tsv",
                "--index",
                index,
                "--compression",
                compression,
                "--keyspace",
                &keyspace,
                "--create-keyspace",
                "-",
            ];
            solera.run_with_input(load, content.as_bytes()).ok();
            assert_eq!(solera.run(["get", "--keyspace", &keyspace, "key 00012345"]).ok(), "value 12345\n");
            assert_eq!(solera.run(["scan", "--keyspace", &keyspace, "--raw"]).ok(), content);
        }
    }
}

/// Symptom: `--index` or `--compression` alone gave the default keyspace the default of the other,
/// any other keyspace that was there refused both, and a load of one that it had made could not be
/// gone on with "with the same arguments". Cause: only a new keyspace could be given a layout.
#[test]
fn a_keyspace_that_is_there_takes_index_and_compression_from_then_on() {
    let solera = Solera::new();
    let index = |keyspace: &str| {
        let told = solera.run(["stats", "--keyspace", keyspace, "--json"]).ok();
        serde_json::from_str::<Value>(told.lines().last().unwrap()).unwrap()["index"].clone()
    };
    solera.write("in.txt", "a\nb\n");
    for keyspace in ["default", "other"] {
        let load = ["load", "--keyspace", keyspace, "--create-keyspace", "in.txt", "--bad-lines", "bad"];
        solera.run([&load[..], &["--index", "s-tree"]].concat()).ok();
        solera.run([&load[..], &["--compression", "none"]].concat()).ok();
        assert_eq!(index(keyspace), "s-tree");
        solera.run([&load[..], &["--index", "binary", "--resume"]].concat()).ok();
        assert_eq!(index(keyspace), "binary");
    }
}

#[test]
fn a_killed_load_leaves_a_prefix() {
    let solera = Solera::new();
    let mut child = solera
        .command(["load", "--format", "lines", "--batch", "100", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    for i in 0..200_000u64 {
        writeln!(input, "{i:012}").unwrap();
    }
    input.flush().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let keys = solera.run(["scan", "--keys-only", "--raw"]).ok();
    let count = keys.lines().count() as u64;
    assert!(count > 0 && count.is_multiple_of(100), "{count} keys");
    assert!(keys.lines().zip(0u64..).all(|(key, i)| key == format!("{i:012}")));
}

#[test]
fn loading_gives_what_sorting_gives() {
    let solera = Solera::new();
    let mut input = String::new();
    for i in 0..30_000u64 {
        let hash = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        input.push_str(&format!("dir{}/file{}\t{}\t{:x}\tM\n", hash % 97, hash >> 48, hash % 5, i));
    }
    solera.run_with_input(["load", "--format", "tsv", "--key", "1,2", "-"], input.as_bytes()).ok();
    let mut expected: Vec<String> =
        input.lines().map(|line| line.split('\t').take(2).collect::<Vec<_>>().join("\t")).collect();
    expected.sort_unstable();
    expected.dedup();
    let scanned = solera.run(["scan", "--keys-only", "--raw"]).ok();
    assert!(scanned.lines().eq(expected.iter().map(String::as_str)));
}

/// Symptom: `load --bad-lines mid.tsv mid.tsv` emptied its own input and exited 0; with D/CURRENT
/// it wrecked the database. Cause: the report was created over whatever was there. Cure: only a
/// report is replaced.
#[test]
fn a_report_is_never_written_over_a_file_that_is_none() {
    let solera = Solera::new();
    let rows = "a\t1\nb\t2\n";
    solera.write("in.tsv", rows);
    solera.write("letter.txt", "of a friend");
    solera.write("empty", "");
    solera.run(["put", "k", "v"]).ok();
    let before = solera.files();
    let current = solera.db().join("CURRENT").to_str().unwrap().to_owned();
    let new_in_db = solera.db().join("bad.jsonl").to_str().unwrap().to_owned();
    for report in ["in.tsv", "letter.txt", "empty", &current, &new_in_db] {
        let message = solera.run(["load", "--bad-lines", report, "in.tsv"]).fails(2);
        assert!(message.contains("name another file"), "{report}: {message}");
        assert_eq!(solera.files(), before, "{report}");
    }
    assert_eq!(solera.read("in.tsv"), rows);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(solera.path("in.tsv"), solera.path("link")).unwrap();
        solera.run(["load", "--bad-lines", "link", "in.tsv"]).fails(2);
        std::fs::hard_link(solera.path("in.tsv"), solera.path("twin")).unwrap();
        solera.run(["load", "--bad-lines", "twin", "in.tsv"]).fails(2);
        assert_eq!(solera.read("in.tsv"), rows);
    }
    solera.run(["load", "--bad-lines", "bad.jsonl", "in.tsv"]).ok();
    // A report is replaced, but not by itself as the input.
    solera.run(["load", "--bad-lines", "bad.jsonl", "in.tsv"]).ok();
    let itself = ["load", "--key", "load", "--bad-lines", "bad.jsonl", "bad.jsonl"];
    assert!(solera.run(itself).fails(2).contains("is the input"));
}

/// Symptom: a load that was stopped could be gone on with only if it had been given --bad-lines.
/// Cure: how far a load has come stands in the database's directory.
/// A load that works, and the lines of its input.
#[cfg(unix)]
fn begin_load(solera: &Solera) -> (std::process::Child, String) {
    let lines: String = (0..300_000u32).map(|i| format!("{i:08}\n")).collect();
    solera.write("in.txt", &lines);
    let mut load = solera.command(["load", "--batch", "10", "in.txt"]);
    let child = load.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Once its progress is there it watches for signals.
    while solera.notes().is_empty() {
        std::thread::yield_now();
    }
    (child, lines)
}

/// Whether this process was started to ignore hang-ups, as `nohup` starts one. Said by Linux alone.
#[cfg(unix)]
fn hang_ups_are_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // The lowest bit is that of signal 1.
    ignored.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & 1 == 1))
}

#[cfg(unix)]
#[test]
fn a_load_that_a_signal_stops_says_what_is_in_and_goes_on() {
    // Symptom: Ctrl-\, which sends the last of them, ended a load without a word.
    for signal in ["-INT", "-TERM", "-HUP", "-QUIT"] {
        // Where hang-ups are ignored, a load goes on ignoring them.
        if signal == "-HUP" && hang_ups_are_ignored() {
            continue;
        }
        let solera = Solera::new();
        let (child, lines) = begin_load(&solera);
        let pid = child.id().to_string();
        assert!(std::process::Command::new("kill").args([signal, &pid]).status().unwrap().success());
        let stopped = child.wait_with_output().unwrap();
        let message = String::from_utf8(stopped.stderr).unwrap();
        assert_eq!(stopped.status.code(), Some(130), "{signal} {message}");
        assert!(
            message.contains("records before that are loaded") && message.contains("--resume"),
            "{message}"
        );
        let text = solera.run(["load", "--resume", "in.txt"]).ok();
        assert!(text.contains("300,000 in all"), "{signal} {message} {text}");
        assert_eq!(solera.run(["scan", "--keys-only", "--raw"]).ok(), lines);
        assert!(solera.run(["load", "--resume", "in.txt"]).fails(2).contains("no load that was stopped"));
    }
}

/// Symptom: Ctrl-C twice ended a load without a word. Cause: the second signal ended the process at
/// once. Cure: it does, but says how to go on.
#[cfg(unix)]
#[test]
fn a_load_that_two_signals_stop_says_how_to_go_on() {
    // A load that is not yet at the end of what came may stop by the first.
    let by_second = (0..20).any(|_| {
        let message = stopped_by_two_signals();
        assert!(message.contains("--resume"), "{message}");
        message.contains("what was written before is in")
    });
    assert!(by_second, "no second signal ended a load");
}

/// What a load says that waits for input, when two interrupts come.
#[cfg(unix)]
fn stopped_by_two_signals() -> String {
    let solera = Solera::new();
    let mut load = solera.command(["load", "--format", "lines", "-"]);
    let load = load.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = load.spawn().unwrap();
    // More never comes: the load waits for it.
    let mut input = child.stdin.take().unwrap();
    input.write_all("line\n".repeat(100_000).as_bytes()).unwrap();
    while solera.notes().is_empty() {
        std::thread::yield_now();
    }
    let pid = child.id().to_string();
    let interrupt = || std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap();
    // It comes to the end of what came, most times.
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(interrupt().success());
    // Signals that come together are one.
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(interrupt().success());
    let stopped = child.wait_with_output().unwrap();
    drop(input);
    let message = String::from_utf8(stopped.stderr).unwrap();
    assert_eq!(stopped.status.code(), Some(130), "{message}");
    message
}

/// Symptom: where the system took no more bytes, a load said "writes resume by themselves", though
/// it had ended, and not how many records were in. Cure: it says that, and how to go on.
///
/// Symptom: a limit of the size of files ended it without a word. Cause: the signal of that limit.
/// Cure: it is ignored, and the write fails.
#[cfg(unix)]
#[test]
fn a_load_that_can_write_no_more_says_what_is_in_and_goes_on() {
    use std::os::unix::process::CommandExt;
    let solera = Solera::new();
    let lines: String = (0..60_000u32).map(|i| format!("{i:08}\t{}\n", "x".repeat(50))).collect();
    solera.write("in.tsv", &lines);
    let mut load = solera.command(["load", "--batch", "10", "in.tsv"]);
    // SAFETY: both calls only set what the process begins with.
    unsafe {
        load.pre_exec(|| {
            // No file may become larger: an append fails then, as on a full disk.
            let most = libc::rlimit { rlim_cur: 1 << 20, rlim_max: 1 << 20 };
            libc::setrlimit(libc::RLIMIT_FSIZE, &most);
            Ok(())
        });
    }
    let full = load.output().unwrap();
    let message = String::from_utf8(full.stderr).unwrap();
    assert!(!full.status.success() && !message.contains("by itself"), "{message}");
    assert!(message.contains("raise the limit on the size of files"), "{message}");
    assert!(message.contains("records before that are loaded") && message.contains("--resume"), "{message}");
    let number = message.split("the ").find_map(|part| part.split_once(" records before")).unwrap().0;
    let told: usize = number.replace(',', "").parse().unwrap();
    let is_in = solera.run(["scan", "--keys-only", "--raw"]).ok().lines().count();
    assert!((told..=told + 10).contains(&is_in), "{told} told, {is_in} there: {message}");
    assert!(solera.run(["load", "--resume", "in.tsv"]).ok().contains("60,000 in all"));
    assert_eq!(solera.run(["scan", "--raw"]).ok(), lines);
}

/// Symptom: a load that was stopped could not be gone on with once another had been complete, and
/// an empty or torn note shut out every load. Cause: all loads of a database noted how far they had
/// come in one file. Cure: each has its own, and what it cannot read there was its own.
#[cfg(unix)]
#[test]
fn a_stopped_load_goes_on_after_others_and_a_torn_note_is_none() {
    let solera = Solera::new();
    let (child, lines) = begin_load(&solera);
    assert!(
        std::process::Command::new("kill")
            .args(["-INT", &child.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    solera.write("other.txt", "other\n");
    let other = ["load", "--keyspace", "other", "--create-keyspace", "other.txt"];
    solera.run(other).ok();
    let message = solera.run([&other[..], &["--resume"]].concat()).fails(2);
    assert!(message.contains("no load that was stopped") && message.contains("in.txt"), "{message}");
    assert!(solera.run(["load", "--resume", "in.txt"]).ok().contains("300,000 in all"));
    assert_eq!(solera.run(["scan", "--keys-only", "--raw"]).ok(), lines);

    let (child, _) = begin_load(&solera);
    assert!(
        std::process::Command::new("kill")
            .args(["-INT", &child.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    child.wait_with_output().unwrap();
    let [note] = &solera.notes()[..] else { panic!("{:?}", solera.notes()) };
    for torn in ["", "{\"load\":\"in.t"] {
        std::fs::write(note, torn).unwrap();
        solera.run(other).ok();
        let message = solera.run(["load", "--batch", "10", "--resume", "in.txt"]).fails(2);
        assert!(message.contains("no load that was stopped"), "{message}");
        assert_eq!(std::fs::read_to_string(note).unwrap(), torn);
    }
    solera.run(["load", "--batch", "10", "in.txt"]).ok();
    assert_eq!(solera.notes(), [""; 0].map(std::path::PathBuf::from));
}

/// Symptom: a report that could be written no further ended a load without the count of what was
/// in. Cause: the mark that was to go into it failed too, in the place of the first failure.
#[cfg(unix)]
#[test]
fn a_load_whose_report_is_full_says_what_is_in() {
    use std::os::unix::process::CommandExt;
    let solera = Solera::new();
    let bad = format!("{}\n", "x".repeat(2000));
    solera.write("in.tsv", format!("a\t1\nb\t2\n{}", bad.repeat(1000)));
    let mut load = solera.command(["load", "--key", "1,2", "--bad-lines", "bad.jsonl", "in.tsv"]);
    // SAFETY: the call only sets what the process begins with.
    unsafe {
        load.pre_exec(|| {
            let most = libc::rlimit { rlim_cur: 1 << 20, rlim_max: 1 << 20 };
            libc::setrlimit(libc::RLIMIT_FSIZE, &most);
            Ok(())
        });
    }
    let full = load.output().unwrap();
    let message = String::from_utf8(full.stderr).unwrap();
    assert_eq!(full.status.code(), Some(7), "{message}");
    assert!(
        message.contains("cannot write bad.jsonl") && message.contains("the 2 records before"),
        "{message}"
    );
    assert!(message.contains("--resume") && message.matches("bad.jsonl").count() == 1, "{message}");
    assert_eq!(
        solera.run(["load", "--key", "1,2", "--bad-lines", "bad.jsonl", "--resume", "in.tsv"]).status,
        3
    );
}

/// Symptom: `nohup solera load` ended when its terminal was closed. Cause: the command handled a
/// hang-up that it had been started to ignore. Cure: that stays ignored.
#[cfg(unix)]
#[test]
fn a_load_that_was_started_to_ignore_a_hang_up_ignores_it() {
    let solera = Solera::new();
    let lines: String = (0..300_000u32).map(|i| format!("{i:08}\n")).collect();
    solera.write("in.txt", &lines);
    let load = solera.command(["load", "--batch", "10", "in.txt"]);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]).arg(load.get_program()).args(load.get_args());
    if let Some(dir) = load.get_current_dir() {
        shell.current_dir(dir);
    }
    shell.envs(load.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let child = shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id().to_string();
    while solera.notes().is_empty() {
        std::thread::yield_now();
    }
    assert!(std::process::Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    let done = child.wait_with_output().unwrap();
    let message = String::from_utf8(done.stderr).unwrap();
    assert_eq!((done.status.code(), &message[..]), (Some(0), ""));
    assert_eq!(solera.run(["scan", "--keys-only", "--raw"]).ok(), lines);
}

/// Symptom: `--resume` of a complete load whose input had grown loaded nothing and exited 0.
#[test]
fn a_complete_load_goes_on_when_its_input_has_grown() {
    let solera = Solera::new();
    let load = ["load", "--bad-lines", "bad.jsonl", "in.tsv"];
    let resume = ["load", "--bad-lines", "bad.jsonl", "--resume", "in.tsv"];
    solera.write("in.tsv", "a\t1\n");
    solera.run(load).ok();
    assert!(solera.run(resume).ok().contains("no more lines than then"));
    solera.write("in.tsv", "a\t1\nb\t2\n");
    assert!(solera.run(resume).ok().contains("1 record loaded"));
    assert_eq!(solera.run(["scan"]).ok(), "a\t1\nb\t2\n");
}

/// Symptom: a gzip file with wrong bytes loaded 2,411 records that were not in it. Cause: the
/// checksum stands behind the content. Cure: a file is decompressed once before anything of it is
/// loaded.
#[test]
fn nothing_of_a_damaged_compressed_file_is_loaded() {
    let solera = Solera::new();
    let content: String = (0..50_000).map(|i| format!("key {i:08}\tvalue {}\n", i * 7919 % 65_537)).collect();
    for (name, mut compressed) in
        [("in.tsv.gz", gzip(content.as_bytes())), ("in.tsv.zst", zstd(content.as_bytes()))]
    {
        let middle = compressed.len() / 2;
        compressed[middle] ^= 0x55;
        solera.write(name, &compressed);
        let message = solera.run(["load", name]).fails(7);
        assert!(message.contains("is damaged") && message.contains("nothing of it is loaded"), "{message}");
        assert!(message.len() < 200, "{message}");
        assert!(!solera.db().exists());
        // Nor of what a pipe brings, damaged or broken off.
        for piped in [&compressed[..], &compressed[..compressed.len() * 2 / 3]] {
            let message = solera.run_with_input(["load", "--format", "tsv", "-"], piped).fails(7);
            assert!(message.contains("standard input is damaged"), "{message}");
            assert!(message.contains("nothing of it is loaded") && !solera.db().exists(), "{message}");
        }
    }
}

/// Symptom: a gzip file with a wrong byte in its header was loaded as text, 938 lines of rubbish.
/// Cause: what did not begin as gzip does was text. Cure: two bytes tell gzip, and a name that says
/// that a file is compressed is believed.
#[test]
fn a_compressed_file_with_a_damaged_beginning_is_not_loaded_as_text() {
    let solera = Solera::new();
    let content: String = (0..1000).map(|i| format!("key {i:08}\tvalue {i}\n")).collect();
    for (name, compressed) in
        [("in.tsv.gz", gzip(content.as_bytes())), ("in.tsv.zst", zstd(content.as_bytes()))]
    {
        for at in 0..4 {
            let mut damaged = compressed.clone();
            damaged[at] ^= 0x41;
            solera.write(name, &damaged);
            let run = solera.run(["load", name]);
            assert!(matches!(run.status, 2 | 7) && run.err.contains(name), "{at}: {run:?}");
            assert!(run.err.contains("is damaged"), "{at}: {run:?}");
            assert!(!solera.db().exists(), "{at}");
        }
    }
    // Text of such a name is refused with the remedy.
    solera.write("text.tsv.GZ", &content);
    let message = solera.run(["load", "--format", "tsv", "text.tsv.GZ"]).fails(2);
    assert!(message.contains("another name can tell"), "{message}");
    solera.write("empty.tsv.gz", "");
    solera.run(["load", "empty.tsv.gz"]).fails(2);
}

#[test]
fn what_is_no_text_is_refused_with_the_remedy_before_a_database_is_made() {
    let solera = Solera::new();
    let wide = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let utf16 = [&[0xff, 0xfe][..], &wide("k\tv\n")].concat();
    for (bytes, remedy) in [
        (&utf16[..], "iconv"),
        (b"PK\x03\x04\x14\x00\x06\x00rest", "zip archive"),
        (b"\xfd7zXZ\x00\x00\x04", "xz -dc"),
        (b"BZh91AY&SY", "bzip2 -dc"),
    ] {
        let message = solera.run_with_input(["load", "--format", "tsv", "-"], bytes).fails(2);
        assert!(message.contains("standard input is ") && message.contains(remedy), "{message}");
        solera.write("in.csv", bytes);
        assert!(solera.run(["load", "in.csv"]).fails(2).contains(remedy));
        assert!(!solera.db().exists());
    }
}

#[test]
fn what_a_foreign_file_brings_along_is_noted_once_with_its_remedy() {
    let solera = Solera::new();
    let noted = |args: &[&str], input: &[u8]| {
        let run = solera.run_with_input(args, input);
        assert_eq!(run.status, 0, "{run:?}");
        run.err
    };
    let crlf = noted(&["load", "--format", "tsv", "-"], b"k1\tv1\r\nk2\tv2\r\n");
    assert!(crlf.contains("2 lines end in a carriage return") && crlf.contains("--crlf"), "{crlf}");
    // Symptom: what is no such text was loaded in silence.
    for (format, content, told) in [
        ("tsv", &b"a\t1\rb\t2\r"[..], "carriage returns in it"),
        ("lines", b"a\0b\0c\0\n", "UTF-16"),
        ("tsv", b"a,1\nb,2\n", "--delimiter"),
        ("csv", b"a;1\nb;2\n", "--delimiter"),
    ] {
        let note = noted(&["load", "--format", format, "-"], content);
        assert!(note.contains(told), "{format}: {note}");
    }
    let header = b"id\tname\r\n1\tx\r\n";
    let message =
        solera.run_with_input(["load", "--format", "tsv", "--header", "--key", "name", "-"], header);
    assert!(message.err.contains("--crlf"), "{message:?}");
    let crlf = noted(&["load", "--format", "lines", "-"], b"k1\r\nk2\n");
    assert!(crlf.contains("1 line ends in a carriage return, which is in the key now"), "{crlf}");
    let bom = noted(&["load", "--format", "tsv", "-"], b"\xef\xbb\xbfk1\tv1\n");
    assert!(bom.contains("byte order mark") && bom.contains("--bom"), "{bom}");
    let ragged = noted(&["load", "--format", "csv", "--header", "-"], b"a,b\n1,x,extra\n2\n3,y\n");
    assert!(ragged.contains("2 records have fewer or more than the 2 columns"), "{ragged}");
    // Symptom: of tab-separated columns nothing was said.
    let ragged = noted(&["load", "--format", "tsv", "--header", "-"], b"a\tb\n1\tx\textra\n2\n3\ty\n");
    assert!(ragged.contains("2 records have fewer or more than the 2 columns"), "{ragged}");
    let ragged = noted(&["load", "--format", "tsv", "-"], b"1\tx\n2\n3\ty\n");
    assert!(ragged.contains("1 record has fewer or more than the 2 columns"), "{ragged}");
    // Bad lines are told of already.
    let bad = solera.run_with_input(["load", "--format", "tsv", "--key", "1,2", "-"], b"1\tx\n2\n");
    assert!(bad.status == 3 && !bad.err.contains("fewer or more"), "{bad:?}");
    assert_eq!(noted(&["load", "--format", "tsv", "--crlf", "--bom", "-"], b"\xef\xbb\xbfk1\tv1\r\n"), "");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn a_scan_loaded_again_is_the_same_keyspace(
        entries in prop::collection::btree_map(
            prop::collection::vec(any::<u8>(), 0..20),
            prop::collection::vec(any::<u8>(), 0..20),
            1..30,
        )
    ) {
        let solera = Solera::new();
        {
            let db = solera::Db::open(solera.db()).unwrap();
            for (key, value) in &entries {
                db.put(key, value).unwrap();
            }
            db.close().unwrap();
        }
        let text = solera.run(["scan"]).ok();
        let load = ["load", "--format", "tsv", "--escaped", "--keyspace", "copy", "--create-keyspace", "-"];
        // An empty key without a value is an empty line but for its tab, so nothing is lost.
        solera.run_with_input(load, text.as_bytes()).ok();
        prop_assert_eq!(solera.run(["scan", "--keyspace", "copy"]).ok(), text);
        for (key, value) in &entries {
            let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let got = solera.run(["get", "--keyspace", "copy", "--hex", &hex(key)]).ok();
            prop_assert_eq!(got.trim_end(), hex(value));
        }
    }
}

#[test]
fn standard_error_stays_empty_without_a_terminal() {
    let solera = Solera::new();
    let mut child = solera
        .command(["load", "--format", "lines", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"a\n").unwrap();
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(err, "", "no progress bar");
}

/// Symptom: `--resume` with an input that ends before the line that the load had come to loaded
/// nothing and exited 0.
#[test]
fn an_input_that_is_shorter_than_what_was_loaded_is_another_input() {
    let solera = Solera::new();
    let load = |resume: &[&str], input: &[u8]| {
        let args = ["load", "--format", "tsv", "--bad-lines", "bad.jsonl", "-"];
        solera.run_with_input(args.iter().chain(resume), input)
    };
    load(&[], b"a\t1\nb\t2\nc\t3\n").ok();
    let message = load(&["--resume"], b"a\t1\n").fails(2);
    assert!(message.contains("had read up to line 3: it ends at line 1"), "{message}");
    assert!(!message.contains("go on with"), "{message}");
    load(&["--resume"], b"a\t1\nb\t2\nc\t3\nd\t4\n").ok();
    assert_eq!(solera.run(["scan"]).ok().lines().count(), 4);
}

/// Symptom: `--resume` of another file of the same name loaded its rest onto the first file's
/// records, and exited 0. Cause: a mark was a count of lines. Cure: it has the length and a hash of
/// what was read, and where records began.
#[test]
fn a_load_is_not_resumed_with_another_input() {
    type Line = fn(&str) -> String;
    let formats: [(&[&str], Line); 4] = [
        (&["--format", "tsv"], |key| format!("{key}\t1\n")),
        (&["--format", "csv"], |key| format!("{key},1\n")),
        (&["--format", "lines"], |key| format!("{key}\n")),
        (&["--format", "jsonl", "--key", "k"], |key| format!("{{\"k\":\"{key}\"}}\n")),
    ];
    for (options, line) in formats {
        let solera = Solera::new();
        let input = |keys: &[&str]| keys.iter().map(|key| line(key)).collect::<String>();
        let load = |more: &[&str]| {
            solera.run([&["load"], options, &["--bad-lines", "bad.jsonl"], more, &["in"]].concat())
        };
        solera.write("in", input(&["a", "b", "c"]));
        load(&[]).ok();
        let (before, report) = (solera.run(["scan"]).ok(), solera.read("bad.jsonl"));
        for others in
            [&["a", "x", "c", "d"][..], &["x", "b", "c"], &["a", "b", "cc", "d"], &["a", "", "bc", "d"]]
        {
            solera.write("in", input(others));
            let message = load(&["--resume"]).fails(2);
            let told =
                "in is not the input that the load had read up to line 3: its lines up to there are others";
            assert!(message.contains(told) && message.contains("without --resume"), "{message}");
            assert_eq!(
                (solera.run(["scan"]).ok(), solera.read("bad.jsonl")),
                (before.clone(), report.clone())
            );
        }
        solera.write("in", input(&["a", "b", "c", "d"]));
        load(&["--resume"]).ok();
        assert_eq!(solera.run(["scan"]).ok().lines().count(), 4);
    }
}

/// Where a load that is described so notes how far it has come.
fn note_name(load: &Value) -> String {
    let mut load = load.clone();
    load.as_object_mut().unwrap().remove("keyspace_number");
    format!("db/load-{:016x}.progress", xxhash_rust::xxh3::xxh3_64(load.to_string().as_bytes()))
}

/// The same where no report is asked for, and where the last line had no end yet.
#[test]
fn a_stopped_load_is_not_resumed_with_another_input() {
    let solera = Solera::new();
    solera.write("in.tsv", "a\t1\nb\t2");
    solera.run(["load", "--bad-lines", "bad.jsonl", "in.tsv"]).ok();
    // As a load without `--bad-lines` leaves it when it is stopped.
    let report = solera.read("bad.jsonl");
    let (head, marks) = report.split_at(report.find('\n').unwrap());
    let mut head: Value = serde_json::from_str(head).unwrap();
    head["database"] = Value::Null;
    let note = note_name(&head);
    solera.write(&note, format!("{head}{}", marks.replace(",\"complete\":true", "")));
    let resume = ["load", "--resume", "in.tsv"];
    for other in ["a\t1\nb\t23\n", "a\t0\nb\t2\nc\t3\n", "a\t1\n\nb\t2\n"] {
        solera.write("in.tsv", other);
        solera.run(resume).fails(2);
        assert_eq!(solera.run(["scan"]).ok(), "a\t1\nb\t2\n");
    }
    solera.write("in.tsv", "a\t1\nb\t2\nc\t3\n");
    assert!(solera.run(resume).ok().starts_with("1 record loaded"));
}

/// A CSV record that was never closed costs its line; an input that grew may close it, and then the
/// lines behind it were loaded as what they are not.
#[test]
fn a_csv_record_that_more_lines_close_is_not_passed_over() {
    let solera = Solera::new();
    let load =
        |more: &[&str]| solera.run([&["load", "--bad-lines", "bad.jsonl"], more, &["in.csv"]].concat());
    solera.write("in.csv", "a,1\nb,\"2\nc,3\n");
    assert_eq!(load(&[]).status, 3);
    solera.write("in.csv", "a,1\nb,\"2\nc,3\nd,4\n");
    assert_eq!(load(&["--resume"]).status, 3, "it is open still");
    assert_eq!(solera.run(["scan"]).ok(), "a\t1\nc\t3\nd\t4\n");
    solera.write("in.csv", "a,1\nb,\"2\nc,3\nd,4\ne\",5\nf,6\n");
    load(&["--resume"]).fails(2);
}

/// Symptom: the report of a load into one database let the load into another begin in the middle.
#[test]
fn a_load_is_not_resumed_into_another_database() {
    let solera = Solera::new();
    let load = ["load", "--bad-lines", "bad.jsonl", "in.tsv"];
    solera.write("in.tsv", "a\t1\n");
    solera.run(load).ok();
    solera.run(["put", "--dir", "other", "k", "v"]).ok();
    let resume = [&load[..], &["--resume"]].concat();
    let other = [&resume[..], &["--dir", "other"]].concat();
    assert!(solera.run(other).fails(2).contains("the report of another load"));
    // One that was put back as it was before.
    std::fs::remove_dir_all(solera.db()).unwrap();
    std::fs::rename(solera.path("other"), solera.db()).unwrap();
    let report = solera.read("bad.jsonl");
    let (head, mark) = report.split_once('\n').unwrap();
    let mut mark: Value = serde_json::from_str(mark).unwrap();
    mark["seqno"] = 100.into();
    solera.write("bad.jsonl", format!("{head}\n{mark}\n"));
    let message = solera.run(resume).fails(2);
    assert!(message.contains("an older copy of it") && message.contains("without --resume"), "{message}");
    assert_eq!(solera.run(["scan"]).ok(), "k\tv\n");
}

/// Symptom: a load that was resumed after its keyspace was dropped and made again left out all that
/// had been loaded before. Cause: the report knew the keyspace by its name alone. Cure: it knows
/// its number, which is never given again.
#[test]
fn a_load_is_not_resumed_into_a_keyspace_that_was_made_again() {
    for report in [&["--bad-lines", "bad.jsonl"][..], &[]] {
        let solera = Solera::new();
        solera.write("in.tsv", "a\t1\nb\n");
        let load = [&["load", "--key", "1", "--value", "2", "--keyspace", "users"], report].concat();
        let run = |more: &[&str]| solera.run([&load[..], more, &["in.tsv"]].concat());
        assert_eq!(run(&["--create-keyspace"]).status, 3, "a bad line");
        if report.is_empty() {
            // As a load that was stopped after its first line leaves it.
            solera.write("bad.jsonl", "");
            let stopped = [&load[..], &["--bad-lines", "other.jsonl", "in.tsv"]].concat();
            assert_eq!(solera.run(stopped).status, 3);
            let text = solera.read("other.jsonl").replace(
                &format!("\"database\":{:?}", solera.db().canonicalize().unwrap().to_string_lossy()),
                "\"database\":null",
            );
            let head: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
            solera.write(&note_name(&head), text);
        }
        let before = solera.run(["scan", "--keyspace", "users"]).ok();
        assert_eq!(before, "a\t1\n");
        solera.run(["keyspace", "drop", "users", "--yes"]).ok();
        for more in [&["--resume"][..], &["--resume", "--create-keyspace"]] {
            let message = run(more).err;
            assert!(message.contains("keyspace \"users\""), "{message}");
            assert!(!solera.run(["keyspace", "list"]).ok().contains("users"), "nothing is made for it");
        }
        solera.run(["keyspace", "create", "users"]).ok();
        let message = run(&["--resume"]).fails(2);
        assert!(message.contains("made again") && message.contains("without --resume"), "{message}");
        assert_eq!(run(&[]).status, 3);
        assert_eq!(solera.run(["scan", "--keyspace", "users"]).ok(), before);
    }
}

/// Symptom: a report of `--resume` that was a device was read until memory was full.
#[cfg(target_os = "linux")]
#[test]
fn a_device_is_not_the_report_of_a_load() {
    let solera = Solera::new();
    solera.write("in.tsv", "a\t1\n");
    solera.run(["load", "in.tsv"]).ok();
    for device in ["/dev/zero", "/dev/null"] {
        let message = solera.run(["load", "--resume", "--bad-lines", device, "in.tsv"]).fails(2);
        assert!(message.contains("is not the report of a load"), "{message}");
    }
}

//! Tests of `Observation`, through `Control::observe`, `publish`, `to_json` and `to_prometheus`.
//!
//! Observations count what was done, two of them make a window, and a changed layout is counted
//! apart. They come back from their bytes; damaged ones are refused with the place. What is
//! published is replaced while the publisher lives, and nothing is written over a file that is
//! none. The text for Prometheus follows its rules. Names are those that dashboards were written
//! for (a golden list).

use proptest::prelude::*;
use solera::{
    Db, Error, ManualClock, Options,
    control::{Change, Observation, knob, published},
    vfs::mem::MemFs,
};
use std::{
    collections::BTreeSet,
    path::Path,
    sync::{Arc, LazyLock},
    time::Duration,
};

const PATH: &str = "/db/OBSERVED";

fn options() -> Options {
    let clock = Arc::new(ManualClock::at_unix_ms(1_700_000_000_000));
    let fs = Arc::new(MemFs::new());
    Options::new().fs(fs).clock(clock).background_threads(0).memory(16 << 20).write_buffer(32 << 10).seed(1)
}

fn settle(db: &Db) {
    db.flush().unwrap();
    while db.step().unwrap() {}
}

fn key(n: u32) -> [u8; 4] {
    n.wrapping_mul(0x9e37_79b1).to_be_bytes()
}

/// A database with a few levels, read and scanned.
fn busy() -> Db {
    let db = options().open("/db").unwrap();
    for n in 0..20_000 {
        db.put(key(n), [7; 100]).unwrap();
    }
    settle(&db);
    // What was written is cached. Reads are to come to files, too.
    let cache = |percent: f64| Change::new("test", "to empty the cache").set(&knob::CACHE_PERCENT, percent);
    db.control().apply(cache(1.0)).unwrap();
    db.control().apply(cache(50.0)).unwrap();
    for n in 0..20_000 {
        assert!(db.get(key(n)).unwrap().is_some());
        assert!(db.get(key(n + 20_000)).unwrap().is_none());
    }
    for n in 0..300u32 {
        assert_eq!(db.range([0, 0, n as u8]..).take(10).count(), 10);
    }
    db
}

#[test]
fn an_observation_counts_what_was_done() {
    let db = busy();
    let other = db.keyspace("other").unwrap();
    other.put(b"k", b"v").unwrap();
    let observation = db.control().observe();
    assert_eq!(observation.unix_ms, 1_700_000_000_000);
    assert_eq!(
        observation.keyspaces.iter().map(|keyspace| &*keyspace.name).collect::<Vec<_>>(),
        ["default", "other"]
    );
    let keyspace = observation.keyspace("default").unwrap();
    let mix = keyspace.mix();
    assert_eq!(
        (mix.absent_lookups, mix.found_lookups, mix.scans, mix.entries_written),
        (20_000, 20_000, 300, 20_000)
    );
    assert_eq!(mix.operations(), 60_300);
    let counters = keyspace.counters;
    assert_eq!((counters.entries_scanned, counters.writes), (3000, 20_000));
    assert_eq!(counters, db.default().stats().counters, "reports and observations agree");

    // One operation in 128 is timed, in the mean.
    let latencies = &keyspace.latencies;
    for (name, histogram) in latencies.named() {
        let expected = if name == "scan_ns" { 1..12 } else { 78..313 };
        assert!(expected.contains(&histogram.count()), "{name}: {}", histogram.count());
    }

    // Every lookup of a present key ends in the level that has it.
    assert!(keyspace.levels.len() > 1, "{:?}", keyspace.levels);
    let sum =
        |count: fn(&solera::control::LevelObservation) -> u64| keyspace.levels.iter().map(count).sum::<u64>();
    assert_eq!(sum(|level| level.reads.hits()), 20_000);
    assert_eq!(sum(|level| level.entries), 20_000);
    assert_eq!(keyspace.entries(), 20_000);
    assert_eq!(sum(|level| level.reads.blocks_read()), counters.blocks_read);
    assert_eq!(counters.blocks_probed, sum(|level| level.reads.blocks_probed()));
    assert!(counters.blocks_read > 0 && counters.blocks_hit > counters.blocks_read, "{counters:?}");

    // Entries enter at level 0 and go down; what is in a level came in and did not go out. Nothing
    // was overwritten.
    let written = counters.bytes_written_flush + counters.bytes_written_compaction;
    assert_eq!(sum(|level| level.merges.bytes_in), written);
    assert!(keyspace.levels[0].merges.entries_in >= 20_000 && counters.bytes_written_compaction > 0);
    let (entries_in, entries_out) =
        (sum(|level| level.merges.entries_in), sum(|level| level.merges.entries_out));
    assert!(
        entries_in - entries_out <= 20_100 && entries_in - entries_out >= 19_900,
        "{entries_in} {entries_out}"
    );

    // All tables have one layout but for their filters, and reads are counted for it.
    assert!(keyspace.layouts.iter().all(|layout| layout.tag.unwrap().index.name() == "learned"));
    let layouts = |count: fn(&solera::control::LayoutObservation) -> u64| {
        keyspace.layouts.iter().map(count).sum::<u64>()
    };
    assert_eq!(layouts(|layout| layout.tables), sum(|level| level.tables));
    assert_eq!(
        layouts(|layout| layout.reads.searches),
        sum(|level| level.reads.filter_passes + level.reads.unfiltered)
    );
    assert_eq!(layouts(|layout| layout.reads.blocks_read), counters.blocks_read);

    let memory = observation.memory;
    assert_eq!(memory.budget_bytes, 16 << 20);
    assert!(memory.cache_bytes > 0 && memory.index_bytes > 0 && memory.filter_bytes > 0, "{memory:?}");
    assert_eq!(observation.setting("size_ratio", "default", None), Some(&10u32.into()));
    assert!(observation.setting("cache_percent", "", None).is_some());
}

#[test]
fn a_window_is_what_happened_between_two_observations() {
    let db = busy();
    let before = db.control().observe();
    assert_eq!(before.since(&before).keyspaces[0].mix().operations(), 0);
    for n in 0..1000 {
        db.get(key(n)).unwrap();
        db.put(key(n), b"again").unwrap();
    }
    let other = db.keyspace("other").unwrap();
    other.put(b"k", b"v").unwrap();
    db.control().apply(Change::new("test", "to see").set(&knob::SIZE_RATIO, 6u32)).unwrap();
    let after = db.control().observe();
    let window = after.since(&before);
    let mix = window.keyspace("default").unwrap().mix();
    assert_eq!((mix.absent_lookups, mix.found_lookups, mix.scans, mix.entries_written), (0, 1000, 0, 1000));
    assert_eq!(mix.shares(), Some([0.0, 0.5, 0.0, 0.5]));
    assert_eq!(
        window.keyspace("other").unwrap().mix().entries_written,
        1,
        "a new keyspace has counted from 0"
    );
    let hits: u64 = window.keyspaces[0].levels.iter().map(|level| level.reads.hits()).sum();
    assert!(hits <= 1000 && hits > 0);
    assert!(window.keyspaces[0].latencies.lookup_found_ns.count() <= 1000 / 20);
    assert_eq!(
        window.setting("size_ratio", "default", None),
        Some(&6u32.into()),
        "settings are those of now"
    );
    assert_eq!((window.changes, before.changes), (3, 2));
    assert_eq!(window.keyspaces[0].levels[1].entries, after.keyspaces[0].levels[1].entries, "sizes too");

    // Of another opening there is nothing to be subtracted.
    let mut another = before;
    another.opened_unix_ms += 1;
    assert_eq!(after.since(&another), after);
}

#[test]
fn a_layout_that_is_changed_is_counted_apart() {
    let db = busy();
    let change = Change::new("test", "to see").set(&knob::INDEX, "s-tree").set(&knob::BLOCK_BYTES, 1024u32);
    db.control().apply(change).unwrap();
    let before = db.control().observe();
    // What lies in the last level already is not written anew for a layout.
    for n in 0..20_000 {
        db.put(key(n), [8; 100]).unwrap();
    }
    db.compact_range(..).unwrap();
    for n in 0..500 {
        db.get(key(n)).unwrap();
    }
    let keyspace = &db.control().observe().since(&before).keyspaces[0];
    let of = |index: &str| {
        let layouts = keyspace.layouts.iter().filter(|layout| layout.tag.unwrap().index.name() == index);
        layouts.fold((0, 0), |(tables, searches), layout| {
            (tables + layout.tables, searches + layout.reads.searches)
        })
    };
    assert_eq!(of("learned"), (0, 0));
    assert!(of("s-tree").0 > 0);
    assert_eq!(of("s-tree").1, 500);
    let tag = keyspace.layouts.first().unwrap().tag.unwrap();
    assert_eq!(tag.block_bytes, 1024);
}

static ENCODED: LazyLock<(Observation, Vec<u8>)> = LazyLock::new(|| {
    let observation = busy().control().observe();
    let bytes = observation.encode();
    (observation, bytes)
});

#[test]
fn an_observation_comes_back_from_its_bytes() {
    let (observation, bytes) = &*ENCODED;
    assert_eq!(&Observation::decode(Path::new(PATH), bytes).unwrap(), observation);
    assert!(bytes.len() < 16 << 10, "{} bytes", bytes.len());

    let mut newer = bytes.clone();
    newer[8] = 99;
    let error = Observation::decode(Path::new(PATH), &newer).unwrap_err();
    assert!(matches!(error, Error::NewerFormat { found: 99, .. }), "{error}");
    let mut older = bytes.clone();
    older[8] = 1;
    let error = Observation::decode(Path::new(PATH), &older).unwrap_err().to_string();
    assert!(
        error.starts_with("/db/OBSERVED: ") && error.contains("look with the release that has"),
        "{error}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn damaged_observations_are_refused_with_the_place(at: prop::sample::Index, flip in 1u8.., cut in any::<bool>()) {
        let mut bytes = ENCODED.1.clone();
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] ^= flip }
        match Observation::decode(Path::new(PATH), &bytes) {
            Err(Error::Corrupt { file, offset, .. }) => {
                prop_assert_eq!(file, Path::new(PATH));
                prop_assert!(offset <= bytes.len() as u64);
            }
            Err(Error::NewerFormat { .. }) => prop_assert!((8..12).contains(&at)),
            other => prop_assert!(false, "{other:?}"),
        }
    }

    /// Behind a good checksum too: a program that can write the file can write that.
    #[test]
    fn arbitrary_payloads_are_refused_or_read(payload: Vec<u8>, at: prop::sample::Index, flip in 1u8..) {
        let mut changed = ENCODED.1[16..].to_vec();
        let at = at.index(changed.len());
        changed[at] ^= flip;
        for payload in [payload, changed] {
            let mut bytes = ENCODED.1[..12].to_vec();
            bytes.extend(crc32c(&payload).to_le_bytes());
            bytes.extend(payload);
            if let Ok(read) = Observation::decode(Path::new(PATH), &bytes) {
                prop_assert!(Observation::decode(Path::new(PATH), &read.encode()).is_ok());
            }
        }
    }
}

/// CRC-32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |sum: u32, _| sum >> 1 ^ if sum & 1 == 1 { 0x82f6_3b78 } else { 0 };
    !bytes.iter().fold(!0u32, |sum, &byte| (0..8).fold(sum ^ u32::from(byte), step))
}

#[test]
fn what_is_published_is_replaced_while_the_publisher_lives_and_then_gone() {
    let dir = tempfile::tempdir().unwrap();
    let db = Options::new().memory(16 << 20).open(dir.path()).unwrap();
    let too_often = db.control().publish(None, Duration::from_millis(1)).unwrap_err();
    assert!(too_often.to_string().contains("at least 10ms"), "{too_often}");
    let publisher = db.control().publish(None, Duration::from_millis(10)).unwrap();
    let path = publisher.path().to_owned();
    assert_eq!(path, dir.path().join("OBSERVED"));
    let first = published(&path).unwrap();
    db.put(b"k", b"v").unwrap();
    // Every answer is whole, and some day one has the write.
    let seen = std::iter::repeat_with(|| published(&path).unwrap());
    let last =
        seen.map(|seen| seen.since(&first)).find(|window| window.keyspaces[0].mix().entries_written > 0);
    assert_eq!(last.unwrap().keyspaces[0].mix().entries_written, 1);
    drop(publisher);
    assert!(matches!(published(&path), Err(error) if error.io_kind() == Some(std::io::ErrorKind::NotFound)));

    // A publisher that outlives the database's closing ends by itself, and lets it be opened again.
    let publisher =
        db.control().publish(Some(&dir.path().join("elsewhere")), Duration::from_millis(10)).unwrap();
    let path = publisher.path().to_owned();
    db.close().unwrap();
    assert!(published(&path).is_err());
    assert_eq!(Db::open(dir.path()).unwrap().get(b"k").unwrap().unwrap(), b"v");
}

/// Symptom: a watcher saw nothing of a database that was published. Cause: a publisher of an
/// earlier owner of the directory, which was closed, was dropped. It removed `OBSERVED`, which the
/// next owner had written. Cure: `close` ends it, and it removes only what it wrote.
#[test]
fn what_the_next_owner_publishes_stays_when_the_publisher_of_a_closed_database_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let every = Duration::from_secs(1000);
    let open = || Options::new().memory(16 << 20).open(dir.path().join("db")).unwrap();
    let first = open();
    let of_first = first.control().publish(None, every).unwrap();
    let path = of_first.path().to_owned();
    first.close().unwrap();
    assert!(!path.exists(), "a closed database publishes nothing");
    let second = open();
    let of_second = second.control().publish(None, every).unwrap();
    drop(of_first);
    assert_eq!(published(&path).unwrap().database, second.control().observe().database);
    drop(of_second);
    assert!(!path.exists());

    // At a place that two databases share, the later one's stays.
    let other = Options::new().memory(16 << 20).open(dir.path().join("other")).unwrap();
    let place = dir.path().join("place");
    let of_second = second.control().publish(Some(&place), every).unwrap();
    let of_other = other.control().publish(Some(&place), every).unwrap();
    drop(of_second);
    assert_eq!(published(&place).unwrap().database, other.control().observe().database);
    drop(of_other);
    assert!(!place.exists());
}

/// Symptom: what a killed process had published stayed for ever, and a watcher took the next one
/// for a process that hangs. Cause: only its publisher removed it. Cure: an open for writing
/// removes it, if it is an observation.
#[test]
#[expect(clippy::disallowed_methods, reason = "the file is what a killed process leaves")]
fn what_a_killed_process_published_goes_with_the_next_open() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    let publisher = db.control().publish(None, Duration::from_secs(100)).unwrap();
    let (path, left) = (publisher.path().to_owned(), std::fs::read(publisher.path()).unwrap());
    drop(publisher);
    db.close().unwrap();
    std::fs::write(&path, &left).unwrap();
    drop(Options::new().read_only(true).open(dir.path()).unwrap());
    assert!(path.exists(), "who only reads changes nothing");
    drop(Db::open(dir.path()).unwrap());
    assert!(!path.exists());
    std::fs::write(&path, "of a friend").unwrap();
    drop(Db::open(dir.path()).unwrap());
    assert_eq!(std::fs::read(&path).unwrap(), b"of a friend");
}

/// Symptom: publishing in a file of another program wrote over it, and removed it in the end.
#[test]
#[expect(clippy::disallowed_methods, reason = "the files are those of others")]
fn nothing_is_published_over_a_file_that_is_no_observation() {
    let dir = tempfile::tempdir().unwrap();
    let db = Options::new().memory(16 << 20).open(dir.path().join("db")).unwrap();
    let letter = dir.path().join("letter");
    let beside = dir.path().join("beside.next");
    for path in [&letter, &beside] {
        std::fs::write(path, "of a friend").unwrap();
    }
    let every = Duration::from_secs(1);
    for path in [&letter, &dir.path().join("beside"), &dir.path().join("db/CURRENT")] {
        let refused = db.control().publish(Some(path), every).unwrap_err();
        assert!(refused.to_string().contains("is not what a database publishes"), "{refused}");
    }
    for path in [&letter, &beside] {
        assert_eq!(std::fs::read(path).unwrap(), b"of a friend");
    }
    // What a killed process published is its own kind.
    let place = dir.path().join("place");
    let old = db.control().observe().encode();
    std::fs::write(&place, &old).unwrap();
    std::fs::write(dir.path().join("place.next"), &old[..3]).unwrap();
    let another = db.control().publish(Some(&place), every).unwrap();
    assert!(published(another.path()).is_ok());
}

#[test]
fn the_run_limit_in_force_stands_beside_the_wanted_one_and_level_0_says_what_it_waits_for() {
    let fs = MemFs::new();
    let options =
        Options::new().fs(Arc::new(fs)).background_threads(0).memory(4 << 20).write_buffer(64 << 10);
    let db = options.open("/db").unwrap();
    for n in 0..20_000 {
        db.put(key(n % 5000), [7; 100]).unwrap();
    }
    db.compact_range(..).unwrap();
    let lazy =
        Change::new("test", "to see").set(&knob::TRANSITION, "lazy").set_level(&knob::RUN_LIMIT, 1, 5u32);
    db.control().apply(lazy).unwrap();
    let seen = |db: &Db| db.control().observe().keyspaces.remove(0);
    let level1 = &seen(&db).levels[1];
    assert!(level1.runs > 0);
    assert_eq!((level1.run_limit, level1.run_limit_wanted), (1, 5));
    db.control().apply(Change::new("test", "at once").set(&knob::TRANSITION, "flexible")).unwrap();
    let again = Change::new("test", "at once").set_level(&knob::RUN_LIMIT, 1, 4u32);
    db.control().apply(again).unwrap();
    let level1 = &seen(&db).levels[1];
    assert_eq!((level1.run_limit, level1.run_limit_wanted), (4, 4));

    for n in 0..2000 {
        db.put(key(n % 5000), [8; 100]).unwrap();
    }
    db.flush().unwrap();
    let before = seen(&db).level0;
    assert!(before.waits && before.due_runs == 27 && before.price_ns > 0, "{before:?}");
    for n in 0..100 {
        db.get(key(n)).unwrap();
    }
    let after = seen(&db).level0;
    assert!(after.rent_ns > before.rent_ns, "{after:?}");
}

/// The text format's own rules: a family's samples stand together behind its type, counters end in
/// `_total`, units are base units, and no series is there twice.
#[test]
fn the_text_for_prometheus_follows_its_rules_and_tells_every_count() {
    let db = busy();
    db.keyspace("other \"q\"").unwrap().put(b"k", b"v").unwrap();
    let observation = db.control().observe();
    let text = observation.to_prometheus();
    let (mut family, mut seen, mut series) = ((String::new(), String::new()), Vec::new(), Vec::new());
    for line in text.lines() {
        if let Some(of) = line.strip_prefix("# TYPE ") {
            let (name, kind) = of.split_once(' ').unwrap();
            assert!(!seen.contains(&name.to_owned()), "{name} is parted");
            assert!(
                name.starts_with("solera_")
                    && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
            );
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
            assert!(
                !["_ns", "_us", "_ms"]
                    .iter()
                    .any(|unit| name.contains(&format!("{unit}_")) || name.ends_with(unit)),
                "{name}"
            );
            seen.push(name.to_owned());
            family = (name.to_owned(), kind.to_owned());
            continue;
        }
        let (key, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{line}");
        let name = key.split('{').next().unwrap();
        let suffixes: &[&str] = if family.1 == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
        assert!(
            suffixes.iter().any(|suffix| name == format!("{}{suffix}", family.0)),
            "{line} in {family:?}"
        );
        assert!(!series.contains(&key), "{key} is there twice");
        series.push(key);
    }
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{key} is missing")).parse::<f64>().unwrap()
    };
    let counters = observation.keyspaces[0].counters;
    assert_eq!(value(r#"solera_gets_total{keyspace="default"}"#), counters.gets as f64);
    assert_eq!(value(r#"solera_read_bytes_total{keyspace="default"}"#), counters.bytes_read as f64);
    assert_eq!(value(r#"solera_entries_written_total{keyspace="other \"q\""}"#), 1.0);
    let level1 = &observation.keyspaces[0].levels[1];
    assert_eq!(value(r#"solera_level_bytes{keyspace="default",level="1"}"#), level1.bytes as f64);
    assert_eq!(value(r#"solera_setting{knob="size_ratio",keyspace="default",level=""}"#), 10.0);
    assert_eq!(value(r#"solera_memory_budget_bytes"#), (16 << 20) as f64);
    let found = observation.keyspaces[0].latencies.lookup_found_ns.count();
    assert!(found > 0);
    assert_eq!(value(r#"solera_lookup_found_seconds_count{keyspace="default"}"#), found as f64);
    assert_eq!(value(r#"solera_lookup_found_seconds_bucket{keyspace="default",le="+Inf"}"#), found as f64);
}

/// What one value of a JSON text is, for [`shape`]: its paths go to `shape`, each with what stands
/// there, and the text behind it is returned.
fn value_shape<'t>(text: &'t str, path: &str, shape: &mut BTreeSet<String>) -> &'t str {
    let string = |text: &'t str| -> (&'t str, &'t str) {
        let mut is_escaped = false;
        let end = text[1..].find(|c| {
            let ends = c == '"' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            ends
        });
        let end = 1 + end.unwrap();
        (&text[1..end], &text[end + 1..])
    };
    match text.as_bytes()[0] {
        b'{' | b'[' => {
            let is_list = text.starts_with('[');
            let mut rest = &text[1..];
            while !rest.starts_with(['}', ']']) {
                rest = rest.strip_prefix(',').unwrap_or(rest);
                rest = match is_list {
                    true => value_shape(rest, &format!("{path}[]"), shape),
                    false => {
                        let (name, behind) = string(rest);
                        value_shape(behind.strip_prefix(':').unwrap(), &format!("{path}.{name}"), shape)
                    }
                };
            }
            &rest[1..]
        }
        b'"' => {
            shape.insert(format!("{path} text"));
            string(text).1
        }
        _ => {
            let end = text.find([',', '}', ']']).unwrap();
            let kind = match &text[..end] {
                "true" | "false" => "truth",
                // What may be missing is a number or a text elsewhere.
                "null" => return &text[end..],
                number => number.parse::<f64>().map(|_| "number").unwrap(),
            };
            shape.insert(format!("{path} {kind}"));
            &text[end..]
        }
    }
}

/// The names of an observation as users see them: paths of its JSON text, then families and labels
/// of its text for Prometheus. Numbers are left out: they change with every table.
fn names(observation: &Observation) -> String {
    let mut shape = BTreeSet::new();
    assert_eq!(value_shape(&observation.to_json(), "json ", &mut shape), "");
    let text = observation.to_prometheus();
    for line in text.lines() {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            shape.insert(format!("prometheus {family}"));
        } else if let Some((name, labels)) = line.split_once('{') {
            let keys: Vec<&str> =
                labels.split("=\"").map(|part| part.rsplit([',', '{']).next().unwrap()).collect();
            shape.insert(format!("prometheus {name} by {}", keys[..keys.len() - 1].join(" ")));
        }
    }
    shape.into_iter().map(|line| line + "\n").collect()
}

fn observed_names() -> String {
    let db = busy();
    db.keyspace("other").unwrap().put(b"k", b"v").unwrap();
    names(&db.control().observe())
}

/// Dashboards and scripts are written for names. One that is gone or has changed breaks them
/// silently; so the text of all names changes with intent only.
#[test]
fn an_observation_has_the_names_that_dashboards_were_written_for() {
    let (now, golden) = (observed_names(), include_str!("observation_names.txt"));
    let (now, golden): (BTreeSet<_>, BTreeSet<_>) = (now.lines().collect(), golden.lines().collect());
    let gone: Vec<_> = golden.difference(&now).collect();
    let new: Vec<_> = now.difference(&golden).collect();
    assert!(gone.is_empty() && new.is_empty(), "gone: {gone:#?}\nnew: {new:#?}");
}

#[test]
#[ignore = "writes the names anew; look at the difference before you commit it"]
#[expect(clippy::disallowed_methods, reason = "writes a source file")]
fn write_the_names_anew() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/observation_names.txt");
    std::fs::write(path, observed_names()).unwrap();
}

//! Tests against committed files of each format: this build reads them, and writes the same bytes.
//!
//! The golden database has every kind of entry, index and log operation; a golden trace has every
//! record. Files of builds before the first release are refused by name and left alone.
//!
//! When a test fails because a format was meant to change: raise its version if an older release
//! would misread it (docs/FORMAT.md, chapter 9). Then write the files anew (the ignored test does
//! it), and say so in the commit.

#![expect(clippy::disallowed_methods, reason = "golden files lie in the repository, not in a database")]

use solera::{
    Compression, Db, Entry, Error, FilterKind, Filters, IndexKind, KeyspaceOptions, Layout, ManualClock,
    Options, Shape, Slice,
    codec::{Decoder, put_varint},
    control::Observation,
    dir::FileName,
    operator,
    trace::{self, Operation, Record, TraceOptions},
    vfs::{Fs, mem::MemFs},
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

const DIR: &str = "/cellar";
const TRACE: &str = "one.trace";
const NOW_MS: u64 = 1_700_000_000_000;
/// Values of so many bytes are kept apart in the keyspace `apart`.
const APART_FROM: u64 = 40;

/// Nothing is left to a default: a new one does not change the format.
fn open(fs: &MemFs) -> Db {
    let shape =
        Shape { size_ratio: 10, run_limits: vec![4, 1], write_buffer_bytes: 16 << 20, table_bytes: 16 << 20 };
    Options::new()
        .memory(256 << 20)
        .write_buffer(16 << 20)
        .layout(layout(IndexKind::Binary))
        .shape(shape)
        .background_threads(0)
        .seed(1)
        .clock(Arc::new(ManualClock::at_unix_ms(NOW_MS)))
        .merge_operator(operator::builtin("append").unwrap())
        .fs(Arc::new(fs.clone()))
        .open(DIR)
        .unwrap()
}

fn layout(index: IndexKind) -> Layout {
    let nth = index as usize;
    Layout {
        block_bytes: 256,
        index,
        epsilon: 8,
        filter: Filters::monkey(10.0).with_last_level(FilterKind::ALL[nth % 2]),
        compression: [Compression::None, Compression::Lz4][nth % 2],
    }
}

/// The keys of a keyspace with this index: numbers, and text for every other one.
fn keys(index: IndexKind) -> Vec<Vec<u8>> {
    let text =
        |n: u64| format!("{}/{n}", ["oak", "cask", "cellar", "must", "vine"][n as usize % 5]).into_bytes();
    let number = |n: u64| (n * n * 977).to_be_bytes().to_vec();
    (0..48).map(|n| if (index as usize).is_multiple_of(2) { number(n) } else { text(n) }).collect()
}

/// Keys in runs: (hash, line), with many lines each.
fn keys_in_runs() -> impl Iterator<Item = Vec<u8>> {
    let key = |n: u32| [(n / 50).wrapping_mul(0x9e37_79b9).to_be_bytes(), (n % 50).to_be_bytes()].concat();
    (0..1000).map(key)
}

/// Keys whose learned index has positions of 24 bits: gaps of 2^30 to 2^49, each octave equally
/// likely.
fn keys_in_octaves() -> impl Iterator<Item = Vec<u8>> {
    let mixed = |x: u64| {
        let x = x.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    };
    let next = move |at: &mut u64, n: u64| {
        *at += (1 << (30 + mixed(n) % 19)) + (mixed(n) >> 34);
        Some(at.to_be_bytes().to_vec())
    };
    (1..=500).scan(0, next)
}

/// Makes the database. Every kind of entry and every kind of index is in a table, and every
/// operation in the log.
fn build() -> MemFs {
    let fs = MemFs::new();
    let db = open(&fs);
    write_all_kinds(&db, "table");
    for index in IndexKind::ALL {
        let keyspace = db.keyspace_with(index.name(), KeyspaceOptions::new().layout(layout(index))).unwrap();
        for key in keys(index) {
            keyspace.put(&key, &key).unwrap();
        }
    }
    let options =
        KeyspaceOptions::new().layout(layout(IndexKind::DoblixPra)).separate_values_from(APART_FROM);
    let apart = db.keyspace_with("apart", options).unwrap();
    apart.put(b"in the log", [b'v'; 50]).unwrap();
    apart.put_with_ttl(b"in the log, brief", [b'w'; 50], Duration::from_secs(60)).unwrap();
    db.flush().unwrap();
    apart.flush().unwrap();
    IndexKind::ALL.iter().for_each(|index| db.keyspace(index.name()).unwrap().flush().unwrap());
    apart.ingest([(b"in a value file", [b'x'; 50])]).unwrap();
    let runs = db.keyspace_with("runs", KeyspaceOptions::new().layout(layout(IndexKind::Learned))).unwrap();
    for key in keys_in_runs() {
        runs.put(&key, b"in a run").unwrap();
    }
    runs.flush().unwrap();
    let octaves = KeyspaceOptions::new().layout(layout(IndexKind::Learned));
    let octaves = db.keyspace_with("octaves", octaves).unwrap();
    // Blocks of two: of more they would end at gaps that shorter codes tell.
    octaves.ingest(keys_in_octaves().map(|key| (key, [b'v'; 100]))).unwrap();
    // What follows stays in the log.
    write_all_kinds(&db, "log");
    apart.put(b"later", [b'y'; 60]).unwrap();
    apart.put_with_ttl(b"later, brief", [b'z'; 60], Duration::from_secs(60)).unwrap();
    db.close().unwrap();
    fs
}

fn write_all_kinds(db: &Db, place: &str) {
    let key = |name: &str| format!("{place}: {name}").into_bytes();
    db.put(key("deleted"), b"before").unwrap();
    db.delete(key("deleted")).unwrap();
    db.put(key("merged"), b"base").unwrap();
    db.merge(key("merged"), b"+operand").unwrap();
    db.put(key("put"), b"value").unwrap();
    db.put_with_ttl(key("brief"), b"until then", Duration::from_secs(60)).unwrap();
    db.put(key("range 1"), b"gone").unwrap();
    db.delete_range(key("range")..key("range 2")).unwrap();
    db.put(key("range 2"), b"here").unwrap();
}

/// The files of the database, by name. `LOCK` is empty.
fn files(fs: &MemFs) -> BTreeMap<String, Vec<u8>> {
    let paths = fs.files().into_iter().filter(|path| FileName::of(path) != Some(FileName::Lock));
    let named = |path: PathBuf| {
        let content = fs.content(&path).unwrap();
        (path.file_name().unwrap().to_str().unwrap().to_string(), content)
    };
    paths.map(named).collect()
}

fn golden_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// The files that were committed.
fn golden() -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(golden_dir()).unwrap().map(Result::unwrap);
    entries
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .collect()
}

/// A disk that holds the committed files.
fn golden_fs() -> MemFs {
    let fs = MemFs::new();
    fs.create_dir_all(Path::new(DIR)).unwrap();
    for (name, content) in golden() {
        fs.set_content(&Path::new(DIR).join(name), &content).unwrap();
    }
    fs
}

#[test]
fn a_build_writes_the_bytes_of_the_golden_files() {
    let (written, mut golden) = (files(&build()), golden());
    golden.remove(TRACE);
    assert!(written.keys().eq(golden.keys()), "{:?}, but there are {:?}", written.keys(), golden.keys());
    for (name, content) in written {
        let expected = &golden[&name];
        let differs = content.iter().zip(expected).position(|(a, b)| a != b);
        let at = differs.unwrap_or(content.len().min(expected.len()));
        assert!(
            content == *expected,
            "{name} differs from byte {at} on; {} bytes, not {}",
            content.len(),
            expected.len()
        );
    }
}

#[test]
fn the_golden_database_is_read_and_checked() {
    let fs = golden_fs();
    let report = solera::inspect::check(&(Arc::new(fs.clone()) as Arc<dyn Fs>), Path::new(DIR)).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    let db = open(&fs);
    let entry = |value: &[u8], expires_ms| Some(Entry { value: Slice::copy_from(value), expires_ms });
    let minute = Some(NOW_MS + 60_000);
    for place in ["table", "log"] {
        let get = |name: &str| db.get_entry(format!("{place}: {name}").as_bytes()).unwrap();
        assert_eq!(get("deleted"), None);
        assert_eq!(get("merged"), entry(b"base+operand", None));
        assert_eq!(get("put"), entry(b"value", None));
        assert_eq!(get("brief"), entry(b"until then", minute));
        assert_eq!(get("range 1"), None);
        assert_eq!(get("range 2"), entry(b"here", None));
    }
    assert_eq!(db.iter().map(Result::unwrap).count(), 8);
    for index in IndexKind::ALL {
        let keyspace = db.keyspace(index.name()).unwrap();
        for key in keys(index) {
            assert_eq!(keyspace.get(&key).unwrap().as_deref(), Some(&key[..]), "{}", index.name());
        }
        assert_eq!(keyspace.iter().count(), keys(index).len());
    }
    for (name, keys) in
        [("runs", keys_in_runs().collect::<Vec<_>>()), ("octaves", keys_in_octaves().collect())]
    {
        let keyspace = db.keyspace(name).unwrap();
        for key in &keys {
            assert!(keyspace.get(key).unwrap().is_some(), "{name}");
        }
        assert_eq!(keyspace.iter().count(), keys.len());
    }
    let fs: Arc<dyn Fs> = Arc::new(fs);
    let dumped = |name: &String| {
        let mut text = Vec::new();
        solera::inspect::dump(&fs, &Path::new(DIR).join(name), &mut text).unwrap();
        String::from_utf8(text).unwrap()
    };
    let tables: Vec<String> = golden().into_keys().filter(|name| name.ends_with(".table")).collect();
    let octaves = tables.last().unwrap();
    assert!(dumped(octaves).contains(" fine)"), "{}", dumped(octaves));
    let apart = db.keyspace("apart").unwrap();
    let get = |key: &[u8]| apart.get_entry(key).unwrap();
    assert_eq!(get(b"in the log"), entry(&[b'v'; 50], None));
    assert_eq!(get(b"in the log, brief"), entry(&[b'w'; 50], minute));
    assert_eq!(get(b"in a value file"), entry(&[b'x'; 50], None));
    assert_eq!(get(b"later"), entry(&[b'y'; 60], None));
    assert_eq!(get(b"later, brief"), entry(&[b'z'; 60], minute));
    let problems = db.verify().unwrap().problems;
    assert!(problems.is_empty(), "{problems:?}");
}

/// Does something of everything while it is recorded.
fn recorded() -> Vec<u8> {
    let fs = MemFs::new();
    let db = open(&fs);
    let path = Path::new(DIR).join(TRACE);
    let recording = db.control().trace(&path, TraceOptions::new()).unwrap();
    write_all_kinds(&db, "trace");
    db.get(b"trace: put").unwrap();
    db.get(b"nothing").unwrap();
    db.iter().take(3).for_each(drop);
    db.iter().rev().take(2).for_each(drop);
    let mut batch = db.batch();
    batch.put(db.default(), b"one", b"1").unwrap();
    batch.delete(db.default(), b"two").unwrap();
    db.write(batch).unwrap();
    db.keyspace("brief").unwrap();
    db.drop_keyspace("brief").unwrap();
    recording.finish().unwrap();
    fs.content(&path).unwrap()
}

#[test]
fn the_golden_trace_is_read_and_its_records_are_encoded_alike() {
    let mut done = Vec::new();
    let ending = trace::read(&golden_fs(), &Path::new(DIR).join(TRACE), |traced| {
        assert_eq!(traced.unix_us, NOW_MS * 1000);
        done.push(format!("{:?}", traced.operation).split([' ', '{']).next().unwrap().to_string());
        Ok(())
    });
    assert!(ending.unwrap().ended);
    let count = |name: &str| done.iter().filter(|done| *done == name).count();
    assert_eq!((count("Lookup"), count("Scan"), count("Put"), count("Merge")), (2, 2, 7, 1), "{done:?}");
    assert_eq!((count("Delete"), count("DeleteRange"), count("Batch")), (2, 1, 1), "{done:?}");

    // The same file, frame by frame: what its records are encoded as is what is in it.
    let file = &golden()[TRACE];
    let mut at = 48;
    while at < file.len() {
        let number = |at: usize, bytes: usize| {
            file[at..at + bytes].iter().rev().fold(0, |n, &b| n << 8 | u64::from(b))
        };
        let (len, kind) = (number(at + 8, 6) as usize, file[at + 14]);
        let payload = &file[at + 24..][..len];
        at += 24 + len;
        if kind != 0 {
            continue;
        }
        let mut decoder = Decoder::new(payload);
        let mut encoded = vec![decoder.u8("flags").unwrap()];
        put_varint(&mut encoded, decoder.varint("a moment").unwrap());
        while decoder.remaining() > 0 {
            let record = Record::decode(&mut decoder).unwrap();
            assert!(!matches!(record.operation, Operation::Dropped { .. }));
            record.encode(&mut encoded);
        }
        assert_eq!(encoded, payload);
    }
}

/// The committed file of this name as a build before the first release would have begun it.
fn as_before(name: &str, magic: &[u8; 8]) -> Vec<u8> {
    let mut content = golden().remove(name).unwrap_or_else(|| panic!("there is no {name}"));
    content[..8].copy_from_slice(magic);
    content
}

#[test]
fn files_of_builds_before_the_first_release_are_refused_by_name_and_left_alone() {
    let refused = |error: Error, path: &Path| {
        assert!(matches!(&error, Error::OlderFormat { file } if file == path), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("before 0.1") && text.contains("solera scan"), "{text}");
    };
    let names = golden();
    let find = |is: fn(&FileName) -> bool| {
        let last = names.keys().rev().find(|name| FileName::parse(name).is_some_and(|name| is(&name)));
        last.unwrap().clone()
    };
    let manifest = find(|name| matches!(name, FileName::Manifest(_)));
    let log = find(|name| matches!(name, FileName::Log(_)));
    for (name, magic) in [(&manifest, b"SOLERAMF"), (&log, b"SOLERALG")] {
        let (fs, path) = (golden_fs(), Path::new(DIR).join(name));
        fs.set_content(&path, &as_before(name, magic)).unwrap();
        let before = files(&fs);
        let options =
            Options::new().fs(Arc::new(fs.clone())).merge_operator(operator::builtin("append").unwrap());
        refused(options.open(DIR).unwrap_err(), &path);
        assert_eq!(files(&fs), before, "nothing was changed");
    }

    let table = find(|name| matches!(name, FileName::Table(_)));
    let (fs, path) = (golden_fs(), Path::new(DIR).join(&table));
    fs.set_content(&path, &as_before(&table, b"SoleraTb")).unwrap();
    let problems = open(&fs).verify().unwrap().problems;
    refused(problems.into_iter().next().expect("the table is looked at"), &path);
    assert!(fs.exists(&path).unwrap());

    let (fs, path) = (golden_fs(), Path::new(DIR).join(TRACE));
    fs.set_content(&path, &as_before(TRACE, b"SOLERATR")).unwrap();
    refused(trace::read(&fs, &path, |_| Ok(())).map(drop).unwrap_err(), &path);

    let path = FileName::Observed.in_dir(Path::new(DIR));
    let mut observed = open(&golden_fs()).control().observe().encode();
    observed[..8].copy_from_slice(b"SoleraOb");
    refused(Observation::decode(&path, &observed).map(drop).unwrap_err(), &path);
}

#[test]
#[ignore = "writes the golden files anew; look at which they are before you commit them"]
fn write_the_golden_files_anew() {
    let dir = golden_dir();
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    for (name, content) in files(&build()) {
        std::fs::write(dir.join(name), content).unwrap();
    }
    std::fs::write(dir.join(TRACE), recorded()).unwrap();
}

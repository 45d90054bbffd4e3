//! Tests of damaged input, through read-only and writing opens: a clear error or the right answer,
//! and nothing changed on disk.
//!
//! The subject has every kind of file and structure. A flipped byte anywhere, a truncated or
//! missing file, a wrong magic, a newer format, and swapped or foreign files are named. A damaged
//! table stops what needs it and nothing else. A directory of another program is left alone. A
//! second opener is refused, in memory and on the real file system.

use solera::{
    Db, Durability, Error, IndexKind, KeyspaceOptions, Layout, ManualClock, Options, Shape,
    codec::Binding,
    ids::{DatabaseId, FileId},
    operator::builtin,
    vfs::{
        Fs,
        mem::{MemFs, Persist},
    },
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

const DIR: &str = "/db";

/// What every keyspace holds.
type Contents = BTreeMap<String, Vec<(Vec<u8>, Vec<u8>)>>;

fn options(fs: &MemFs) -> Options {
    Options::new()
        .fs(Arc::new(fs.clone()))
        .clock(Arc::new(ManualClock::at_unix_ms(1_700_000_000_000)))
        .seed(7)
        .background_threads(0)
        .memory(1 << 20)
        .durability(Durability::Sync)
}

fn space_options(index: IndexKind) -> KeyspaceOptions {
    let layout = Layout { block_bytes: 512, index, epsilon: 4, ..Layout::default() };
    KeyspaceOptions::new()
        .layout(layout)
        .shape(Shape { table_bytes: 4 << 10, ..Shape::default() })
        .merge_operator(builtin("append").unwrap())
}

/// A database with every kind of file and structure: tables of each index kind with filters,
/// models, range tombstones and operands, a manifest with edits, and two logs that are still
/// needed.
fn healthy() -> (MemFs, Contents) {
    let fs = MemFs::new();
    let db = options(&fs).open(DIR).unwrap();
    for index in IndexKind::ALL {
        let space = db.keyspace_with(index.name(), space_options(index)).unwrap();
        for n in 0..120_u32 {
            space.put(format!("key{n:04}").as_bytes(), [n as u8; 40]).unwrap();
            if n % 7 == 0 {
                space.merge(format!("key{:04}", n / 2).as_bytes(), b"+").unwrap();
            }
        }
        space.delete_range(b"key0030"..b"key0040").unwrap();
        space.flush().unwrap();
        space.put(b"key0031", b"back").unwrap();
        space.delete(b"key0100").unwrap();
    }
    for n in 0..5_u32 {
        let mut batch = db.batch();
        for index in IndexKind::ALL {
            let space = db.keyspace(index.name()).unwrap();
            batch.put(&space, format!("last{n}").as_bytes(), [n as u8; 100]).unwrap();
        }
        db.write(batch).unwrap();
    }
    for n in 0..150_u32 {
        db.put(n.to_be_bytes(), b"in the default keyspace").unwrap();
    }
    let contents = read(&db).unwrap();
    assert!(contents.values().all(|pairs| pairs.len() > 100));
    // As a process that is killed leaves it: the log is needed.
    (fs.crash(Persist::Everything, 0), contents)
}

fn read(db: &Db) -> Result<Contents, Error> {
    let mut contents = Contents::new();
    for name in db.keyspaces() {
        let space = db.keyspace(&name)?;
        let pairs: Result<Vec<_>, Error> =
            space.iter().map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec()))).collect();
        let pairs = pairs?;
        // Point reads find the same, or fail.
        for (key, value) in &pairs {
            assert_eq!(space.get(key)?.as_deref(), Some(&value[..]), "{name}: {}", key.escape_ascii());
        }
        let back: Result<Vec<_>, Error> =
            space.iter().rev().map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec()))).collect();
        assert!(back?.iter().rev().eq(pairs.iter()), "{name}: the two directions differ");
        contents.insert(name, pairs);
    }
    Ok(contents)
}

fn image(fs: &MemFs) -> BTreeMap<PathBuf, Vec<u8>> {
    fs.files().into_iter().map(|path| (path.clone(), fs.content(&path).unwrap())).collect()
}

/// Opens a copy read-only and reads everything. Whatever comes of it, nothing on disk may have
/// changed.
fn open_and_read(fs: &MemFs) -> Result<Contents, Error> {
    let before = image(fs);
    let outcome = options(fs).read_only(true).open(DIR).and_then(|db| read(&db));
    assert!(image(fs) == before, "a read-only open changed the directory");
    outcome
}

/// A copy with one file's content replaced.
fn with(fs: &MemFs, path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> MemFs {
    let copy = fs.crash(Persist::Everything, 0);
    let mut content = copy.content(path).unwrap();
    change(&mut content);
    copy.set_content(path, &content).unwrap();
    copy
}

/// The files whose names contain `part`.
fn files(fs: &MemFs, part: &str) -> Vec<PathBuf> {
    let files = fs.files().into_iter().map(|path| Path::new("/").join(path));
    let files: Vec<_> = files.filter(|path| path.to_string_lossy().contains(part)).collect();
    assert!(!files.is_empty(), "there is no {part}");
    files
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// An open for writing must fail too, and change nothing either.
fn refused_for_writing(fs: &MemFs) -> Error {
    let before = image(fs);
    let error = options(fs).open(DIR).map(drop).unwrap_err();
    assert!(image(fs) == before, "a refused open changed the directory: {error}");
    error
}

#[test]
fn a_healthy_copy_reads_the_same() {
    let (fs, contents) = healthy();
    assert!(open_and_read(&fs).unwrap() == contents);
    for part in [".table", ".log", "MANIFEST", "CURRENT"] {
        files(&fs, part);
    }
}

#[test]
fn a_flipped_byte_anywhere_gives_an_error_that_names_the_file_or_the_right_answer() {
    let (fs, contents) = healthy();
    for part in [".table", "MANIFEST", "CURRENT", ".log"] {
        let (mut detected, mut right) = (0, 0);
        for path in files(&fs, part) {
            let len = fs.content(&path).unwrap().len();
            let is_log = part == ".log";
            for at in (0..len).step_by(if len > 2000 { 3 } else { 1 }) {
                let damaged = with(&fs, &path, |content| content[at] ^= 1 << (at % 8));
                match open_and_read(&damaged) {
                    Ok(found) => {
                        right += 1;
                        assert!(found == contents, "{} byte {at}: a wrong answer", path.display());
                    }
                    Err(error) => {
                        detected += 1;
                        let text = error.to_string();
                        assert!(
                            text.contains(&name(&path)) || text.contains(DIR),
                            "byte {at} of {}: {text}",
                            path.display()
                        );
                        let clear = matches!(error, Error::Corrupt { .. } | Error::NewerFormat { .. });
                        assert!(
                            clear || matches!(error, Error::NotADatabase { .. }),
                            "byte {at} of {}: {error:?}",
                            path.display()
                        );
                        assert!(!is_log || clear, "{error:?}");
                    }
                }
            }
        }
        println!("{part}: {detected} detected, {right} right");
        assert!(detected > right * 20, "{part}: {detected} detected, {right} right");
    }
}

#[test]
fn a_truncated_table_is_named() {
    let (fs, _) = healthy();
    for path in files(&fs, ".table") {
        let len = fs.content(&path).unwrap().len();
        for keep in [0, 1, 7, 31, 32, 100, len / 2, len - 49, len - 1] {
            let error = open_and_read(&with(&fs, &path, |content| content.truncate(keep))).unwrap_err();
            assert!(
                matches!(&error, Error::Corrupt { file, .. } if *file == path),
                "{keep} of {len} bytes: {error:?}"
            );
        }
    }
}

#[test]
fn a_damaged_table_stops_what_needs_it_and_nothing_else() {
    let (fs, contents) = healthy();
    let path = files(&fs, ".table").pop().unwrap();
    let damaged = with(&fs, &path, |content| content[60] ^= 1);
    let as_found = damaged.content(&path).unwrap();
    let hit = {
        let db = options(&damaged).open(DIR).unwrap();
        let mut hit = 0;
        for name in db.keyspaces() {
            let space = db.keyspace(&name).unwrap();
            let read: Result<Vec<_>, Error> = space.iter().collect();
            match read {
                Ok(pairs) => assert!(
                    pairs
                        .iter()
                        .map(|(key, value)| (&**key, &**value))
                        .eq(contents[&name].iter().map(|(key, value)| (&key[..], &value[..])))
                ),
                Err(error) => {
                    hit += 1;
                    assert!(matches!(&error, Error::Corrupt { file, .. } if *file == path), "{error:?}");
                    let error = space.compact_range(..).unwrap_err();
                    assert!(matches!(&error, Error::Corrupt { file, .. } if *file == path), "{error:?}");
                    // An iterator that has failed is at its end.
                    let mut iter = space.iter();
                    let failed = iter.by_ref().find(Result::is_err);
                    assert!(failed.is_some() && iter.next().is_none() && iter.next_back().is_none());
                }
            }
            space.put(b"a new key", b"is still written").unwrap();
            assert_eq!(space.get(b"a new key").unwrap().as_deref(), Some(&b"is still written"[..]));
        }
        let report = db.verify().unwrap();
        assert!(report.problems.iter().all(|error| error.to_string().contains(&name(&path))));
        assert!(!report.problems.is_empty());
        hit
    };
    assert_eq!(hit, 1);
    assert!(damaged.content(&path).unwrap() == as_found, "the damaged file was changed");
}

#[test]
fn a_missing_file_is_named() {
    let (fs, _) = healthy();
    for part in [".table", "MANIFEST", "CURRENT", ".log"] {
        for path in files(&fs, part) {
            let copy = fs.crash(Persist::Everything, 0);
            copy.remove_file(&path).unwrap();
            let error = open_and_read(&copy).unwrap_err();
            assert!(error.to_string().contains(&name(&path)), "without {}: {error}", path.display());
            if part != ".table" {
                let error = refused_for_writing(&copy);
                assert!(error.to_string().contains(&name(&path)), "without {}: {error}", path.display());
            }
        }
    }
}

#[test]
fn a_wrong_magic_is_named() {
    let (fs, _) = healthy();
    for part in [".table", "MANIFEST", "CURRENT", ".log"] {
        for path in files(&fs, part) {
            let copy = with(&fs, &path, |content| content[..6].copy_from_slice(b"SQLite"));
            let error = open_and_read(&copy).unwrap_err();
            assert!(
                matches!(&error, Error::Corrupt { .. } | Error::NotADatabase { .. }),
                "{}: {error:?}",
                path.display()
            );
            assert!(error.to_string().contains(&name(&path)), "{}: {error}", path.display());
            if part != ".table" {
                refused_for_writing(&copy);
            }
        }
    }
}

#[test]
fn a_newer_format_is_refused_by_version() {
    let (fs, _) = healthy();
    // Where the version stands in the 32 bytes of the header, whose last four are their checksum.
    for (part, at) in [(".table", 8), ("MANIFEST", 24), (".log", 24)] {
        for path in files(&fs, part) {
            let copy = with(&fs, &path, |content| {
                content[at..at + 4].copy_from_slice(&99_u32.to_le_bytes());
                let number = |at: usize| u64::from_le_bytes(content[at..at + 8].try_into().unwrap());
                let checksum = match part {
                    ".table" => {
                        Binding::new(DatabaseId(number(12)), FileId(number(20))).checksum(0, &content[..28])
                    }
                    _ => crc32c::crc32c(&content[..28]),
                };
                content[28..32].copy_from_slice(&checksum.to_le_bytes());
            });
            let error = open_and_read(&copy).unwrap_err();
            let newer = matches!(&error, Error::NewerFormat { file, found: 99, .. } if *file == path);
            assert!(newer, "{}: {error:?}", path.display());
            if part != ".table" {
                assert!(matches!(refused_for_writing(&copy), Error::NewerFormat { .. }));
            }
        }
    }
    let current = &files(&fs, "CURRENT")[0];
    let copy = with(&fs, current, |content| {
        let line = String::from_utf8(content.clone()).unwrap();
        let (body, _) = line.trim_end().rsplit_once(' ').unwrap();
        let body = body.replacen("solera 1 ", "solera 99 ", 1) + " ";
        *content = format!("{body}{:08x}\n", crc32c::crc32c(body.as_bytes())).into_bytes();
    });
    let error = refused_for_writing(&copy);
    assert!(matches!(&error, Error::NewerFormat { found: 99, .. }), "{error:?}");
}

#[test]
fn two_tables_in_each_others_place_are_found_out() {
    let (fs, _) = healthy();
    let tables = files(&fs, ".table");
    let (a, b) = (fs.content(&tables[0]).unwrap(), fs.content(&tables[1]).unwrap());
    let copy = with(&with(&fs, &tables[0], |content| *content = b), &tables[1], |content| *content = a);
    assert!(matches!(open_and_read(&copy).unwrap_err(), Error::Corrupt { .. }));
}

#[test]
fn a_file_of_another_database_is_found_out() {
    let (fs, _) = healthy();
    let other = {
        let fs = MemFs::new();
        let db = options(&fs).seed(8).open(DIR).unwrap();
        for index in IndexKind::ALL {
            let space = db.keyspace_with(index.name(), space_options(index)).unwrap();
            for n in 0..120_u32 {
                space.put(format!("key{n:04}").as_bytes(), b"other").unwrap();
            }
            space.flush().unwrap();
        }
        fs.crash(Persist::Everything, 0)
    };
    let mut same = 0;
    for path in fs.files() {
        let Ok(content) = other.content(&path) else { continue };
        if path.ends_with("LOCK") {
            continue;
        }
        same += 1;
        let copy = with(&fs, &path, |own| *own = content);
        let error = open_and_read(&copy).unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{}: {error:?}", path.display());
    }
    assert!(same > 2);
}

#[test]
fn a_directory_of_another_program_is_left_alone() {
    for stranger in ["Cargo.toml", "000001.sst", "IDENTITY", "000003.log", "000004.table"] {
        let fs = MemFs::new();
        fs.create_dir_all(Path::new(DIR)).unwrap();
        let content = b"some content that belongs to another program, more than a log's header has";
        fs.set_content(&Path::new(DIR).join(stranger), content).unwrap();
        let error = refused_for_writing(&fs);
        assert!(
            matches!(&error, Error::NotADatabase { path, .. } if path == Path::new(DIR)),
            "{stranger}: {error:?}"
        );
        assert!(error.to_string().contains(stranger), "{error}");
    }
    // A file where the directory should be.
    let fs = MemFs::new();
    fs.set_content(Path::new(DIR), b"a file").unwrap();
    let error = refused_for_writing(&fs);
    assert!(error.to_string().contains(DIR), "{error}");
}

#[test]
fn a_missing_database_is_not_created_when_told_so() {
    let fs = MemFs::new();
    for options in [options(&fs).create_if_missing(false), options(&fs).read_only(true)] {
        let error = options.open(DIR).map(drop).unwrap_err();
        assert!(matches!(error, Error::NotADatabase { .. }), "{error:?}");
    }
    assert!(fs.files().is_empty());
}

#[test]
fn a_second_opener_is_refused_in_memory_and_on_the_real_file_system() {
    let fs = MemFs::new();
    let first = options(&fs).open(DIR).unwrap();
    let error = options(&fs).open(DIR).map(drop).unwrap_err();
    assert!(matches!(&error, Error::Locked { path, .. } if path == Path::new(DIR)), "{error:?}");
    first.close().unwrap();
    options(&fs).open(DIR).unwrap();

    let dir = tempfile::tempdir().unwrap();
    let first = Db::open(dir.path()).unwrap();
    first.put(b"a", b"1").unwrap();
    let error = Db::open(dir.path()).map(drop).unwrap_err();
    assert!(matches!(&error, Error::Locked { path, .. } if path == dir.path()), "{error:?}");
    drop(first);
    assert_eq!(Db::open(dir.path()).unwrap().get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
}

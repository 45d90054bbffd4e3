//! Tests of `Manifest` on file systems that lose power, lie, fill up or fail.
//!
//! A crash at any operation keeps every acknowledged edit. A flipped bit is an error or takes
//! nothing away; a shortened manifest is cut, but not into its first snapshot. Files of another
//! database, number or release are refused by name, and what is no database is said to be none. A
//! full disk stops one edit and not the next; after a failed sync or renaming nothing is appended
//! any more.

use super::*;
use crate::{
    frame::FRAME_HEADER_BYTES,
    version::edit::tests::edit,
    vfs::{
        fault::{Call, Effect, Fault, FaultFs},
        mem::{MemFs, Persist},
    },
};
use io::ErrorKind;
use proptest::prelude::*;
use std::sync::Arc;

const DATABASE: DatabaseId = DatabaseId(0xfeed_0000_0000_0001);

fn dir() -> &'static Path {
    Path::new("/db")
}

fn disk() -> MemFs {
    let fs = MemFs::new();
    fs.create_dir_all(dir()).unwrap();
    fs
}

/// The edit that makes the database's state `state`.
fn to(state: u64) -> Edit {
    Edit { next_file: Some(state), ..Edit::default() }
}

fn state(loaded: &Loaded) -> u64 {
    assert_eq!(loaded.database, DATABASE);
    loaded.edits.last().and_then(|edit| edit.next_file).unwrap_or(0)
}

fn load(fs: &dyn Fs) -> Result<u64> {
    Manifest::load(fs, dir()).map(|loaded| state(&loaded))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn edits_come_back_in_order(snapshot in prop::collection::vec(edit(), 0..4), later in prop::collection::vec(edit(), 0..4)) {
        let fs = disk();
        let mut manifest = Manifest::create(&fs, dir(), DATABASE, FileId(1), snapshot.clone()).unwrap();
        for edit in &later {
            manifest.append(edit).unwrap();
        }
        let loaded = Manifest::load(&fs, dir()).unwrap();
        prop_assert_eq!((loaded.database, loaded.file, loaded.cut), (DATABASE, FileId(1), None));
        prop_assert_eq!(loaded.bytes, manifest.bytes());
        prop_assert_eq!(&loaded.edits, &[snapshot, later].concat());
        prop_assert_eq!(Manifest::read(&fs, &FileName::Manifest(FileId(1)).in_dir(dir())).unwrap(), loaded);
    }
}

/// A life of appends and rotations. Says which state was acknowledged last and which was being
/// reached.
fn life(fs: &dyn Fs, from: u64, number: u64) -> (u64, u64, Result<()>) {
    let (mut reached, mut wanted) = (from, from);
    let mut run = || -> Result<()> {
        let mut manifest = Manifest::create(fs, dir(), DATABASE, FileId(number), [to(from)])?;
        for step in 1..=7 {
            wanted = from + step;
            if step == 4 {
                manifest.rotate(fs, dir(), FileId(number + 1), [Edit::default(), to(wanted)])?;
            } else {
                manifest.append(&to(wanted))?;
            }
            reached = wanted;
        }
        Ok(())
    };
    let result = run();
    (reached, wanted, result)
}

#[test]
fn a_crash_at_any_operation_keeps_every_acknowledged_edit() {
    let whole = disk();
    life(&whole, 10, 1).2.unwrap();
    let operations = whole.operations();
    let mut torn = 0;
    for n in 0..=operations {
        let fs = disk();
        fs.crash_after(n);
        let (reached, wanted, _) = life(&fs, 10, 1);
        for persist in Persist::ALL {
            for seed in 0..8 {
                let place = format!("crash at {n}, {persist:?}, seed {seed}");
                let image = fs.crash(persist, seed * 1000 + n);
                if !Manifest::exists(&image, dir()).unwrap() {
                    assert_eq!(reached, 10, "{place}: the database is gone");
                    continue;
                }
                let loaded = Manifest::load(&image, dir()).unwrap_or_else(|error| panic!("{place}: {error}"));
                assert!((reached..=wanted).contains(&state(&loaded)), "{place}");
                torn += usize::from(loaded.cut.is_some());
                // The next life begins beside the remains, and may crash as well.
                let mut again = image.crash(Persist::Everything, 0);
                again.crash_after(seed * 3);
                let (reached, wanted, _) = life(&again, state(&loaded), 20);
                again = again.crash(persist, seed);
                let found = load(&again).unwrap_or_else(|error| panic!("{place}, then again: {error}"));
                assert!((reached..=wanted).contains(&found), "{place}, then again: {found}");
            }
        }
    }
    assert!(torn > 20, "{torn}");
}

/// A database of a snapshot and two edits.
fn small() -> MemFs {
    let fs = disk();
    let mut manifest = Manifest::create(&fs, dir(), DATABASE, FileId(1), [to(1), to(2)]).unwrap();
    manifest.append(&to(3)).unwrap();
    manifest.append(&to(4)).unwrap();
    fs
}

fn manifest_path() -> PathBuf {
    FileName::Manifest(FileId(1)).in_dir(dir())
}

#[test]
fn a_flipped_bit_is_an_error_or_takes_nothing_away() {
    for path in [manifest_path(), FileName::Current.in_dir(dir())] {
        let whole = small().content(&path).unwrap();
        let mut harmless = 0;
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let fs = small();
            fs.set_content(&path, &flipped).unwrap();
            match Manifest::load(&fs, dir()) {
                Err(Error::NewerFormat { .. }) => panic!("a flip is not a newer release"),
                Err(_) => {}
                Ok(loaded) => {
                    assert_eq!(state(&loaded), 4, "bit {bit} of {}", path.display());
                    harmless += 1;
                }
            }
        }
        let last_mark = if path == manifest_path() { FRAME_HEADER_BYTES * 8 } else { 0 };
        assert_eq!(harmless, last_mark);
    }
}

#[test]
fn a_shortened_manifest_is_cut_but_not_into_its_snapshot() {
    let whole = small().content(&manifest_path()).unwrap();
    let snapshot = {
        let fs = disk();
        let manifest = Manifest::create(&fs, dir(), DATABASE, FileId(1), [to(1), to(2)]).unwrap();
        manifest.bytes() as usize - FRAME_HEADER_BYTES
    };
    for len in 0..whole.len() {
        let fs = small();
        fs.set_content(&manifest_path(), &whole[..len]).unwrap();
        match load(&fs) {
            Ok(state) => assert!(len >= snapshot && (2..=4).contains(&state)),
            Err(error) => {
                assert!(len < snapshot && matches!(error, Error::Corrupt { .. }), "{len}: {error}");
            }
        }
    }
}

#[test]
fn what_is_no_database_is_said_to_be_none() {
    let refused = |names: &[(&str, &str)]| {
        let fs = disk();
        for (name, content) in names {
            fs.set_content(&dir().join(name), content.as_bytes()).unwrap();
        }
        (Manifest::exists(&fs, dir()), Manifest::load(&fs, dir()).unwrap_err())
    };
    for absent in
        [&[][..], &[("LOCK", ""), ("MANIFEST-000001", "x"), ("CURRENT.tmp", "")], &[(".hidden", "")]]
    {
        let (exists, load) = refused(absent);
        assert!(!exists.unwrap() && matches!(load, Error::NotADatabase { .. }));
    }
    let (exists, load) = refused(&[("photo.jpg", "")]);
    assert!(matches!(exists, Err(Error::NotADatabase { .. })) && matches!(load, Error::NotADatabase { .. }));
    // Files with content and a manifest of ours: there was a database, and CURRENT is lost.
    let written = "a log that is longer than its header, which has 48 bytes";
    let (exists, load) = refused(&[("000001.log", written), ("MANIFEST-000001", "")]);
    for error in [exists.unwrap_err(), load] {
        let is_of_current = matches!(&error, Error::Corrupt { file, .. } if file.ends_with("CURRENT"));
        assert!(is_of_current, "{error}");
    }
    let (exists, load) = refused(&[("CURRENT", "MANIFEST-000004\n"), ("MANIFEST-000004", "")]);
    assert!(exists.unwrap() && matches!(load, Error::NotADatabase { .. }), "{load}");
    let fs = MemFs::new();
    assert!(!Manifest::exists(&fs, dir()).unwrap());
    assert!(matches!(load_error(&fs), Error::NotADatabase { .. }));
}

fn load_error(fs: &MemFs) -> Error {
    Manifest::load(fs, dir()).unwrap_err()
}

#[test]
fn files_of_another_place_are_refused() {
    let fs = small();
    fs.remove_file(&manifest_path()).unwrap();
    assert!(load_error(&fs).to_string().contains("which is missing"), "{}", load_error(&fs));

    let stale = small();
    Manifest::create(&stale, dir(), DATABASE, FileId(2), [to(5)]).unwrap();
    let old = stale.content(&manifest_path()).unwrap();
    stale.set_content(&FileName::Manifest(FileId(2)).in_dir(dir()), &old).unwrap();
    assert!(load_error(&stale).to_string().contains("file 1 under the name of file 2"));

    let foreign = disk();
    Manifest::create(&foreign, dir(), DatabaseId(2), FileId(1), [to(5)]).unwrap();
    let fs = small();
    fs.set_content(&manifest_path(), &foreign.content(&manifest_path()).unwrap()).unwrap();
    assert!(load_error(&fs).to_string().contains("belongs to database 2"));
}

#[test]
fn newer_releases_are_named() {
    let fs = small();
    let mut manifest = fs.content(&manifest_path()).unwrap();
    let newer = FileKind { version: 2, ..FILE_KIND }.header(DATABASE, FileId(1), 1);
    manifest[..newer.len()].copy_from_slice(&newer);
    fs.set_content(&manifest_path(), &manifest).unwrap();
    assert!(matches!(load_error(&fs), Error::NewerFormat { found: 2, .. }));

    let line = format!("solera 2 something new {:08x}\n", crc32c::crc32c(b"solera 2 something new "));
    fs.set_content(&FileName::Current.in_dir(dir()), line.as_bytes()).unwrap();
    match load_error(&fs) {
        Error::NewerFormat { file, found: 2, supported: 1 } => {
            assert_eq!(file, FileName::Current.in_dir(dir()))
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_full_disk_stops_an_edit_but_not_the_next() {
    let full = Effect::Fail(ErrorKind::StorageFull);
    for call in [Call::Append, Call::Create] {
        for skip in 0..6 {
            let memory = disk();
            let fs = FaultFs::new(Arc::new(memory.clone()));
            let mut manifest = Manifest::create(&fs, dir(), DATABASE, FileId(1), [to(1)]).unwrap();
            fs.inject(Fault { times: 2, ..Fault::once(call, skip, full) });
            let mut expected = 1;
            if manifest.append(&to(2)).is_ok() {
                expected = 2;
            }
            if manifest.rotate(&fs, dir(), FileId(2), [to(3)]).is_ok() {
                expected = 3;
            }
            assert_eq!(load(&memory.crash(Persist::Nothing, 0)).unwrap(), expected);
            fs.heal();
            manifest.append(&to(4)).unwrap();
            manifest.rotate(&fs, dir(), FileId(3), [to(5)]).unwrap();
            manifest.append(&to(6)).unwrap();
            assert_eq!(load(&memory.crash(Persist::Nothing, 0)).unwrap(), 6);
        }
    }
}

#[test]
fn after_a_failed_sync_or_renaming_nothing_is_appended_any_more() {
    let failure = Effect::Fail(ErrorKind::Other);
    let fs = FaultFs::new(Arc::new(disk()));
    let mut manifest = Manifest::create(&fs, dir(), DATABASE, FileId(1), [to(1)]).unwrap();
    fs.inject(Fault::once(Call::Sync, 0, failure));
    manifest.append(&to(2)).unwrap_err();
    assert!(matches!(manifest.append(&to(3)), Err(Error::Poisoned(_))));

    for call in [Call::Rename, Call::SyncDir] {
        let fs = FaultFs::new(Arc::new(disk()));
        let mut manifest = Manifest::create(&fs, dir(), DATABASE, FileId(1), [to(1)]).unwrap();
        fs.inject(Fault::once(call, u64::from(call == Call::SyncDir), failure));
        manifest.rotate(&fs, dir(), FileId(2), [to(2)]).unwrap_err();
        assert!(matches!(manifest.append(&to(3)), Err(Error::Poisoned(_))));
    }
}

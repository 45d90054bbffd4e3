//! Tests of what every `Fs` must do alike: the machine's, in memory, and with faults that never
//! come.
//!
//! What was appended is read at any offset, directly too where the system can. A file that reserves
//! holds what was appended and zeros, and is trimmed to it. A truncated file goes on where it was
//! cut. Names are created, replaced, linked and removed with the right errors. A lock is held by
//! one until it is dropped.

use super::{fault::FaultFs, mem::MemFs, posix::PosixFs, *};
use std::{io::ErrorKind, path::PathBuf};

/// Runs a check on every file system, each with a directory of its own.
fn on_each(check: impl Fn(&dyn Fs, PathBuf)) {
    check(&MemFs::new(), PathBuf::from("/db"));
    check(&FaultFs::new(Arc::new(MemFs::new())), PathBuf::from("relative/db"));
    let temporary = tempfile::tempdir().unwrap();
    check(&PosixFs::new(), temporary.path().join("deep/db"));
}

fn put(fs: &dyn Fs, path: &Path, bytes: &[u8]) {
    let mut file = fs.create(path).unwrap();
    file.append(bytes).unwrap();
    file.sync().unwrap();
}

fn get(fs: &dyn Fs, path: &Path) -> Vec<u8> {
    read_all(&*fs.open(path).unwrap()).unwrap()
}

#[test]
fn what_was_appended_is_read_at_any_offset() {
    on_each(|fs, dir| {
        fs.create_dir_all(&dir).unwrap();
        let content: Vec<u8> = (0..200_000u32).map(|i| (i / 7) as u8).collect();
        let mut file = fs.create(&dir.join("f")).unwrap();
        for part in content.chunks(9_999) {
            file.append(part).unwrap();
        }
        file.sync().unwrap();
        let reader = fs.open(&dir.join("f")).unwrap();
        assert_eq!(reader.len().unwrap(), content.len() as u64);
        assert_eq!(read_all(&*reader).unwrap(), content);
        for (at, len) in [(0, 1), (65_535, 2), (65_536, 70_000), (199_999, 1)] {
            let mut buf = vec![0; len];
            read_exact_at(&*reader, &mut buf, at).unwrap();
            assert_eq!(buf, content[at as usize..at as usize + len]);
        }
        let mut buf = [0; 10];
        assert_eq!(reader.read_at(&mut buf, 199_995).unwrap(), 5);
        assert_eq!(reader.read_at(&mut buf, 200_000).unwrap(), 0);
        assert_eq!(reader.read_at(&mut buf, 999_999).unwrap(), 0);
        assert!(matches!(
            read_exact_at(&*reader, &mut buf, 199_995),
            Err(Error::Corrupt { offset: 200_000, .. })
        ));
    });
}

#[test]
fn direct_reads_read_what_is_there_at_any_offset_or_say_that_there_are_none() {
    let unsupported = |error: Error| {
        let kind = error.io_kind().unwrap();
        assert!(matches!(kind, ErrorKind::Unsupported | ErrorKind::InvalidInput), "{error}");
    };
    let memory = MemFs::new();
    memory.create_dir_all(Path::new("/d")).unwrap();
    put(&memory, Path::new("/d/f"), b"");
    unsupported(memory.open_direct(Path::new("/d/f")).unwrap_err());

    let (temporary, fs) = (tempfile::tempdir().unwrap(), PosixFs::new());
    let path = temporary.path().join("f");
    let content: Vec<u8> = (0..2_500_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    put(&fs, &path, &content);
    let reader = match fs.open_direct(&path) {
        Ok(reader) => reader,
        Err(error) => return unsupported(error),
    };
    assert_eq!(reader.len().unwrap(), content.len() as u64);
    assert_eq!(read_all(&*reader).unwrap(), content, "longer than one call reads");
    for at in [0, 1, 511, 512, 513, 4095, 4096, 4097, 65_536, 1_048_575, 2_499_999] {
        for len in [0, 1, 100, 511, 512, 4096, 4103, 70_000, 1_048_576] {
            let mut buf = vec![0; len.min(content.len() - at)];
            read_exact_at(&*reader, &mut buf, at as u64).unwrap();
            assert_eq!(buf, content[at..at + buf.len()], "{len} bytes at {at}");
        }
    }
    // What was begun with comes through the system's cache, and is the same.
    for at in [0, 1, 4095, 65_536, 2_499_990] {
        let mut buf = vec![0; 70_000.min(content.len() - at)];
        reader.will_need(at as u64, buf.len() as u64);
        assert_eq!(reader.read_needed(&mut buf, at as u64).unwrap(), buf.len());
        assert_eq!(buf, content[at..at + buf.len()], "{} bytes at {at}", buf.len());
    }
    let mut buf = [0; 10];
    assert_eq!(reader.read_at(&mut buf, content.len() as u64 - 3).unwrap(), 3);
    assert_eq!(reader.read_at(&mut buf, content.len() as u64).unwrap(), 0);
    assert_eq!(reader.read_at(&mut buf, 99_999_999).unwrap(), 0);
    let absent = fs.open_direct(&temporary.path().join("absent")).unwrap_err();
    assert_eq!(absent.io_kind().unwrap(), ErrorKind::NotFound);
}

#[test]
fn a_file_that_reserves_holds_what_was_appended_and_zeros_and_is_trimmed_to_it() {
    on_each(|fs, dir| {
        fs.create_dir_all(&dir).unwrap();
        let path = dir.join("f");
        let content: Vec<u8> = (0..1_000_000u32).map(|i| (i / 7) as u8 | 1).collect();
        let mut file = fs.create_reserving(&path).unwrap();
        let mut appended = 0;
        for (i, part) in content.chunks(7_777).enumerate() {
            file.append(part).unwrap();
            appended += part.len();
            let there = get(fs, &path);
            assert_eq!(there[..appended], content[..appended]);
            assert!(there[appended..].iter().all(|&byte| byte == 0));
            match i % 40 {
                10 => file.sync().unwrap(),
                20 => {
                    file.trim().unwrap();
                    assert_eq!(get(fs, &path), content[..appended]);
                }
                30 => {
                    // Cut, here within a page, and appended again.
                    file.truncate(appended as u64 - 5_000).unwrap();
                    assert_eq!(get(fs, &path), content[..appended - 5_000]);
                    file.append(&content[appended - 5_000..appended]).unwrap();
                }
                _ => {}
            }
        }
        file.append(&[]).unwrap();
        file.sync().unwrap();
        drop(file);
        assert_eq!(get(fs, &path), content);
        assert!(fs.create_reserving(&path).is_err(), "it must not exist");
    });
}

#[test]
fn a_truncated_file_goes_on_where_it_was_cut() {
    on_each(|fs, dir| {
        fs.create_dir_all(&dir).unwrap();
        let mut file = fs.create(&dir.join("f")).unwrap();
        for (keep, add) in [(0, 100_000), (70_000, 3), (65_536, 9), (65_535, 1), (0, 0), (0, 5)] {
            file.truncate(keep).unwrap();
            file.append(&vec![add as u8; add]).unwrap();
            let content = get(fs, &dir.join("f"));
            assert_eq!(content.len(), keep as usize + add);
            assert!(content[keep as usize..].iter().all(|&byte| byte == add as u8));
        }
    });
}

#[test]
fn names_behave() {
    on_each(|fs, dir| {
        fs.create_dir_all(&dir).unwrap();
        fs.create_dir_all(&dir).unwrap();
        fs.create_dir_all(&dir.join("sub")).unwrap();
        let (a, b, c) = (dir.join("a"), dir.join("b"), dir.join("c"));
        let kind = |error: Error| error.io_kind().unwrap();
        assert_eq!(kind(fs.open(&a).unwrap_err()), ErrorKind::NotFound);
        assert_eq!(kind(fs.remove_file(&a).unwrap_err()), ErrorKind::NotFound);
        assert_eq!(kind(fs.rename(&a, &b).unwrap_err()), ErrorKind::NotFound);
        assert_eq!(kind(fs.create(&dir.join("none/a")).unwrap_err()), ErrorKind::NotFound);
        assert_eq!(kind(fs.list_dir(&dir.join("none")).unwrap_err()), ErrorKind::NotFound);
        put(fs, &a, b"1");
        assert_eq!(kind(fs.create(&a).unwrap_err()), ErrorKind::AlreadyExists);
        put(fs, &b, b"2");
        fs.hard_link(&a, &c).unwrap();
        assert_eq!(kind(fs.hard_link(&a, &b).unwrap_err()), ErrorKind::AlreadyExists);
        assert_eq!(fs.list_dir(&dir).unwrap(), ["a", "b", "c", "sub"]);
        let open = fs.open(&b).unwrap();
        fs.rename(&a, &b).unwrap();
        assert_eq!(read_all(&*open).unwrap(), b"2", "a replaced file lives on in its handles");
        assert_eq!((get(fs, &b), get(fs, &c)), (b"1".to_vec(), b"1".to_vec()));
        fs.remove_file(&b).unwrap();
        assert!(!fs.exists(&b).unwrap() && fs.exists(&c).unwrap() && fs.exists(&dir).unwrap());
        fs.sync_dir(&dir).unwrap();
        assert_eq!(fs.list_dir(&dir).unwrap(), ["c", "sub"]);
    });
}

#[test]
fn a_lock_is_held_by_one_until_dropped() {
    on_each(|fs, dir| {
        fs.create_dir_all(&dir).unwrap();
        let held = fs.lock(&dir.join("LOCK")).unwrap();
        match fs.lock(&dir.join("LOCK")) {
            Err(Error::Locked { path, .. }) => assert_eq!(path, dir),
            _ => panic!("two hold the lock"),
        }
        drop(held);
        fs.lock(&dir.join("LOCK")).unwrap();
    });
}

//! Tests of value files through `ValueWriter`, `ValueFiles`, `ReadAhead` and `check_sorted`, in
//! memory.
//!
//! Values come back through their pointers: alone, read ahead both ways, out of stretches that stay
//! in memory, and listed. Pointers and tallies come back from bytes. A value of another key, place
//! or file is damage, and the error has an offset. Every flipped bit of a file is found. Behind the
//! file's header it harms one value at most. Arbitrary bytes are no value file. A marked file goes
//! with its last owner, and one that is given up leaves nothing. A writer panics at a key below the
//! last one.

use super::*;
use crate::{
    error::Error,
    frame::{FILE_HEADER_BYTES, FileKind},
    ids::{DatabaseId, FileId},
    pin::{Pin, Slice},
    sync::Mutex,
    vfs::{
        Fs,
        fault::{Call, FaultFs},
        mem::MemFs,
    },
};
use crossbeam_epoch::Guard;
use proptest::prelude::*;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

const LOG: FileKind = FileKind { magic: crate::dir::magic::LOG, version: 1, noun: "log", reserves: true };

fn fs() -> Arc<dyn Fs> {
    let fs = MemFs::new();
    fs.create_dir_all(Path::new("d")).unwrap();
    Arc::new(fs)
}

fn files(fs: &Arc<dyn Fs>) -> ValueFiles {
    ValueFiles::new(fs.clone(), "d".into(), DatabaseId(7), false, LOG)
}

/// A sorted value file of `values` with its pointers.
fn written(fs: &Arc<dyn Fs>, file: u64, values: &[(&[u8], &[u8])]) -> Vec<Pointer> {
    let mut writer = ValueWriter::create(fs, Path::new("d"), DatabaseId(7), FileId(file)).unwrap();
    let pointers = values.iter().map(|(key, value)| writer.add(key, value).unwrap()).collect();
    let written = writer.finish().unwrap();
    assert_eq!(written.values, values.len() as u64);
    pointers
}

/// The file with its bytes changed.
fn rewrite(fs: &Arc<dyn Fs>, from: &str, to: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = crate::vfs::read_all(&*fs.open(Path::new(from)).unwrap()).unwrap();
    change(&mut bytes);
    if from == to {
        fs.remove_file(Path::new(to)).unwrap();
    }
    let mut file = fs.create(Path::new(to)).unwrap();
    file.append(&bytes).unwrap();
}

fn corrupt_at<R: std::fmt::Debug>(result: crate::error::Result<R>) -> u64 {
    match result {
        Err(Error::Corrupt { offset, .. }) => offset,
        other => panic!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn pointers_come_back_from_bytes(file in 1u64..1 << 60, offset: u64, len: u32, sorted: bool, extra in 0u8..3) {
        let pointer = Pointer { file: FileId(file), offset, len, sorted };
        let mut bytes = Vec::new();
        pointer.encode(&mut bytes);
        prop_assert!(bytes.len() <= POINTER_BYTES_MAX);
        prop_assert_eq!(Pointer::decode(&bytes).unwrap(), pointer);
        prop_assert!(Pointer::decode(&bytes[..bytes.len() - 1]).is_err());
        bytes.push(extra);
        prop_assert!(Pointer::decode(&bytes).is_err());
    }

    #[test]
    fn tallies_come_back_from_bytes_and_add_up(steps in prop::collection::vec((1u64..5, 1u32..100), 0..60)) {
        let pointer = |&(file, len): &(u64, u32)| Pointer { file: FileId(file), offset: 0, len, sorted: file % 2 == 0 };
        let (mut all, mut none) = (Tally::default(), Tally::default());
        for step in &steps {
            all.add(&pointer(step));
            none.take(&pointer(step));
        }
        let mut bytes = Vec::new();
        all.encode(&mut bytes);
        let decoded = Tally::decode(&mut crate::codec::Decoder::new(&bytes)).unwrap();
        prop_assert_eq!(&decoded, &all);
        let live = LiveValues::default().after(&all).unwrap();
        prop_assert_eq!(live.bytes(), steps.iter().map(|step| u64::from(step.1)).sum::<u64>());
        prop_assert_eq!(live.to_tally(), all);
        prop_assert!(live.after(&none).unwrap().is_empty());
        if !steps.is_empty() {
            prop_assert!(LiveValues::default().after(&none).is_err());
        }
    }

    #[test]
    fn arbitrary_bytes_are_no_value_file(bytes: Vec<u8>) {
        let fs = fs();
        let mut file = fs.create(Path::new("d/000003.values")).unwrap();
        file.append(&SORTED.header(DatabaseId(7), FileId(3), 5)).unwrap();
        file.append(&bytes).unwrap();
        prop_assert!(check_sorted(&*fs, Path::new("d/000003.values"), None, FileId(3), |_, _, _| ()).is_err());
    }
}

#[test]
fn values_come_back_through_their_pointers_alone_and_read_ahead() {
    let fs = fs();
    let keys: Vec<String> = (0..3000).map(|i| format!("{i:06}")).collect();
    let value = |i: usize| vec![i as u8; 1 + i * 7 % 900];
    let values: Vec<Vec<u8>> = (0..3000).map(value).collect();
    let pairs: Vec<(&[u8], &[u8])> =
        keys.iter().zip(&values).map(|(key, value)| (key.as_bytes(), &value[..])).collect();
    let pointers = written(&fs, 3, &pairs);
    let files = files(&fs);
    let mut ahead = ReadAhead::default();
    for (pointer, (key, value)) in pointers.iter().zip(&pairs) {
        assert_eq!(files.read(pointer, key).unwrap(), *value);
        assert_eq!(ahead.read(&files, pointer, key).unwrap(), *value);
    }
    for (pointer, (key, value)) in pointers.iter().zip(&pairs).rev().step_by(7) {
        assert_eq!(ahead.read(&files, pointer, key).unwrap(), *value);
    }
    let mut seen = 0;
    let each = |key: &[u8], pointer: Pointer, value: &[u8]| {
        assert_eq!((key, pointer, value), (pairs[seen].0, pointers[seen], pairs[seen].1));
        seen += 1;
    };
    assert_eq!(check_sorted(&*fs, Path::new("d/000003.values"), None, FileId(3), each).unwrap(), 3000);
}

/// Symptom: a scan of values that many sorted files held made a read for each. Cause: a walk had
/// eight windows, and none downward. Cure: 64 windows under one bound, and both ways.
#[test]
fn a_walk_reads_many_sorted_files_in_stretches_both_ways() {
    const FILES: usize = 40;
    let disk = Arc::new(FaultFs::new(fs()));
    let fs: Arc<dyn Fs> = disk.clone();
    let keys: Vec<String> = (0..FILES * 100).map(|i| format!("{i:06}")).collect();
    let value = |i: usize| [i as u8, (i >> 8) as u8].repeat(400 + i % 200);
    let mut pointers = vec![None; keys.len()];
    for file in 0..FILES {
        let of_file: Vec<usize> = (file..keys.len()).step_by(FILES).collect();
        let values: Vec<Vec<u8>> = of_file.iter().map(|&i| value(i)).collect();
        let pairs: Vec<(&[u8], &[u8])> =
            of_file.iter().zip(&values).map(|(&i, value)| (keys[i].as_bytes(), &value[..])).collect();
        let written = written(&fs, 3 + file as u64, &pairs);
        of_file.into_iter().zip(written).for_each(|(i, pointer)| pointers[i] = Some(pointer));
    }
    let files = files(&fs);
    let owned: Vec<_> = (0..FILES).map(|file| files.file(FileId(3 + file as u64), true)).collect();
    let mut kept = Vec::new();
    for down in [false, true] {
        let before = disk.calls(Call::Read);
        let mut ahead = ReadAhead::default();
        for nth in 0..keys.len() {
            let i = if down { keys.len() - 1 - nth } else { nth };
            let read = ahead.read(&files, &pointers[i].unwrap(), keys[i].as_bytes()).unwrap();
            assert_eq!(read, value(i));
            if i % 97 == 0 {
                kept.push((i, read));
            }
        }
        let reads = disk.calls(Call::Read) - before;
        assert!(reads <= 8 * FILES as u64, "{reads} reads for {} values", keys.len());
    }
    assert!(kept.iter().all(|(i, read)| *read == value(*i)), "values stay when their walk has gone on");
    assert_eq!(owned.len(), FILES);
}

/// Symptom: a walk in order made two short reads more at the end of each sorted file, past the
/// system's cache. Cause: it read on until a read gave nothing. Cure: the file's length is known.
#[test]
fn a_walk_to_the_end_of_a_sorted_file_reads_nothing_behind_it() {
    let disk = Arc::new(FaultFs::new(fs()));
    let fs: Arc<dyn Fs> = disk.clone();
    let keys: Vec<String> = (0..20).map(|i| format!("{i:06}")).collect();
    let values: Vec<Vec<u8>> = (0..20u8).map(|i| vec![i; 1000]).collect();
    let pairs: Vec<(&[u8], &[u8])> =
        keys.iter().zip(&values).map(|(key, value)| (key.as_bytes(), &value[..])).collect();
    let pointers = written(&fs, 3, &pairs);
    let files = files(&fs);
    let _owned = files.file(FileId(3), true);
    let (before, mut ahead) = (disk.calls(Call::Read), ReadAhead::default());
    for (pointer, (key, value)) in pointers.iter().zip(&pairs) {
        assert_eq!(ahead.read(&files, pointer, key).unwrap(), *value);
    }
    // The header, the first value, 16 KiB behind it, and the rest.
    assert_eq!(disk.calls(Call::Read) - before, 4);
}

/// Symptom: right after updates a scan of 500 values made a hundred reads, one after the other.
/// Cause: its range was spread over dozens of sorted files, of which each was read by a few short
/// reads. Cure: the walk says what it will come to, and the device begins with all of it.
#[test]
fn what_a_walk_said_that_it_will_come_to_is_one_read_for_what_lies_together() {
    let disk = Arc::new(FaultFs::new(fs()));
    let fs: Arc<dyn Fs> = disk.clone();
    let keys: Vec<String> = (0..400).map(|i| format!("{i:06}")).collect();
    let values: Vec<Vec<u8>> = (0..400).map(|i| vec![i as u8; 1000]).collect();
    let pairs: Vec<(&[u8], &[u8])> =
        keys.iter().zip(&values).map(|(key, value)| (key.as_bytes(), &value[..])).collect();
    let files = files(&fs);
    let pointers: Vec<Vec<Pointer>> = (3..7).map(|file| written(&fs, file, &pairs)).collect();
    let owned: Vec<_> = (3..7).map(|file| files.file(FileId(file), true)).collect();
    let of = |i: usize| &pointers[i % 4][i];
    // Neighbours in the order of keys lie in four files; of two files the last part lies far apart.
    let walk: Vec<usize> = (0..60).chain([300, 301, 304, 305]).collect();
    let mut ahead = ReadAhead::default();
    assert_eq!(ahead.read(&files, of(0), pairs[0].0).unwrap(), *pairs[0].1);
    let before = disk.calls(Call::Read);
    ahead.expect(&files, &mut walk[1..].iter().map(|&i| *of(i)).collect());
    for &i in &walk[1..] {
        assert_eq!(ahead.read(&files, of(i), pairs[i].0).unwrap(), *pairs[i].1, "value {i}");
    }
    // Three files are opened by a read of their header.
    assert_eq!(disk.calls(Call::Read) - before, 3 + 4 + 2);
    // What was said and is not come to costs nothing; a value beside it is read as ever.
    ahead.expect(&files, &mut vec![*of(200), *of(204)]);
    for i in [100, 202, 204, 203] {
        assert_eq!(ahead.read(&files, of(i), pairs[i].0).unwrap(), *pairs[i].1, "value {i}");
    }
    drop(owned);
}

/// Memory for stretches of as many bytes as there are, and none for single values.
struct Everything;

#[derive(Default)]
struct Places {
    kept: Mutex<BTreeMap<usize, Pin>>,
    passed: Mutex<BTreeSet<usize>>,
}

impl Stretches for Places {
    fn find(&self, number: usize) -> Option<Pin> {
        self.kept.lock().get(&number).cloned()
    }

    fn wants(&self, number: usize, _weight: usize) -> bool {
        !self.passed.lock().insert(number)
    }

    fn keep(&self, number: usize, pin: Pin, _weight: usize) {
        self.kept.lock().insert(number, pin);
    }
}

impl Resident for Everything {
    fn expect(&self, _hash: u64) {}

    fn expect_value(&self, _hash: u64, _guard: &Guard) {}

    fn find(&self, _pointer: &Pointer, _key: &[u8]) -> Option<Slice> {
        None
    }

    fn keep(
        &self,
        _pointer: &Pointer,
        _key: &[u8],
        _bytes: usize,
        _read: &mut dyn FnMut(&mut [u8]) -> crate::error::Result<()>,
    ) -> Option<crate::error::Result<Slice>> {
        None
    }

    fn copy(&self, _pointer: &Pointer, _key: &[u8], _value: &[u8]) {}

    fn stretches(&self, _count: usize) -> Box<dyn Stretches> {
        Box::new(Places::default())
    }
}

/// Symptom: a scan in memory took three times as long as one of tables. Cause: each scan read each
/// value out of its file and checked it. Cure: stretches to which walks come again stay in memory,
/// and a value in them is checked once.
#[test]
fn a_walk_that_comes_again_leaves_its_stretches_in_memory() {
    let disk = Arc::new(FaultFs::new(fs()));
    let fs: Arc<dyn Fs> = disk.clone();
    let keys: Vec<String> = (0..600).map(|i| format!("{i:06}")).collect();
    // The last ones are too long to be whole in a stretch.
    let value = |i: usize| vec![i as u8; if i < 560 { 1 + i * 37 % 4096 } else { 6000 }];
    let values: Vec<Vec<u8>> = (0..600).map(value).collect();
    let pairs: Vec<(&[u8], &[u8])> =
        keys.iter().zip(&values).map(|(key, value)| (key.as_bytes(), &value[..])).collect();
    let pointers = written(&fs, 3, &pairs);
    let files = files(&fs).with_resident(Box::new(Everything));
    let _owned = files.file(FileId(3), true);
    let walk = |down: bool| {
        let (before, mut ahead) = (disk.calls(Call::Read), ReadAhead::of_walk());
        for nth in 0..560 {
            let i = if down { 559 - nth } else { nth };
            assert_eq!(ahead.read(&files, &pointers[i], pairs[i].0).unwrap(), *pairs[i].1);
        }
        disk.calls(Call::Read) - before
    };
    assert!(walk(false) < 20);
    walk(true);
    assert_eq!((walk(false), walk(true)), (0, 0));
    for i in 560..600 {
        assert_eq!(ReadAhead::of_walk().read(&files, &pointers[i], pairs[i].0).unwrap(), *pairs[i].1);
    }
    // Lookups find there what walks left.
    let before = disk.calls(Call::Read);
    assert_eq!(files.read(&pointers[300], pairs[300].0).unwrap(), *pairs[300].1);
    assert_eq!(disk.calls(Call::Read), before);
    // What was checked under one key, length and place is not shown under others.
    let wrong = |pointer: Pointer, key: &[u8]| {
        assert!(corrupt_at(ReadAhead::of_walk().read(&files, &pointer, key)) > 0);
        corrupt_at(files.read(&pointer, key));
    };
    wrong(pointers[300], pairs[301].0);
    wrong(Pointer { len: pointers[300].len - 1, ..pointers[300] }, pairs[300].0);
    for offset in 1..8 {
        wrong(Pointer { offset: pointers[300].offset + offset, ..pointers[300] }, pairs[300].0);
    }
}

#[test]
fn a_damaged_value_is_told_by_every_walk_and_harms_no_other_in_its_stretch() {
    let fs = fs();
    let keys: Vec<String> = (0..100).map(|i| format!("{i:06}")).collect();
    let pairs: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (key.as_bytes(), &[7; 900][..])).collect();
    let pointers = written(&fs, 3, &pairs);
    let damaged = pointers[50].offset as usize + 500;
    rewrite(&fs, "d/000003.values", "d/000003.values", |bytes| bytes[damaged] ^= 4);
    let files = files(&fs).with_resident(Box::new(Everything));
    let _owned = files.file(FileId(3), true);
    for _ in 0..4 {
        let mut ahead = ReadAhead::of_walk();
        for (i, (pointer, (key, value))) in pointers.iter().zip(&pairs).enumerate() {
            let read = ahead.read(&files, pointer, key);
            if i == 50 {
                assert_eq!(corrupt_at(read), pointer.offset);
            } else {
                assert_eq!(read.unwrap(), *value);
            }
        }
    }
}

#[test]
fn a_list_is_read_in_the_stretches_that_hold_it_and_nothing_besides() {
    let disk = Arc::new(FaultFs::new(fs()));
    let fs: Arc<dyn Fs> = disk.clone();
    let keys: Vec<String> = (0..1000).map(|i| format!("{i:06}")).collect();
    let value = |i: usize| vec![i as u8; if i == 500 { 300_000 } else { 1000 }];
    let values: Vec<Vec<u8>> = (0..1000).map(value).collect();
    let pairs: Vec<(&[u8], &[u8])> =
        keys.iter().zip(&values).map(|(key, value)| (key.as_bytes(), &value[..])).collect();
    let pointers = written(&fs, 3, &pairs);
    let files = files(&fs);
    let _owned = files.file(FileId(3), true);
    let read = |numbers: &[usize]| {
        let list: Vec<_> = numbers.iter().map(|&i| (pointers[i], i)).collect();
        let (before, mut seen) = (disk.calls(Call::Read), Vec::new());
        let each = |i: usize, found: Slice| {
            assert_eq!(found, value(i));
            seen.push(i);
        };
        ReadAhead::default().read_listed(&files, &list, |i| keys[i].as_bytes(), each).unwrap();
        assert_eq!(seen, numbers);
        disk.calls(Call::Read) - before
    };
    // The first read opens the file.
    assert_eq!(read(&[7]), 2);
    assert_eq!(read(&[1, 2, 3, 10, 20]), 1);
    assert_eq!(read(&[1, 100, 200, 300]), 4);
    assert_eq!(read(&[1, 1, 2, 499, 500, 501, 999]), 5);
    assert_eq!(read(&(0..1000).collect::<Vec<_>>()), 2 + 1 + 2);
    let wrong = ReadAhead::default().read_listed(
        &files,
        &[(pointers[1], 0), (pointers[2], 2)],
        |i| keys[i].as_bytes(),
        |_, _| (),
    );
    assert_eq!(corrupt_at(wrong), pointers[1].offset);
}

/// Symptom: with values of 100 bytes apart each write took as many reads as there were sorted
/// value files, up to a thousand times as long as without. Cause: a worker that looks for work
/// asks what each file takes, and each answer was a read of its footer. Cure: it is read once.
#[test]
fn what_a_sorted_value_file_takes_is_read_once_however_often_it_is_asked() {
    let disk = Arc::new(FaultFs::new(fs()));
    let fs: Arc<dyn Fs> = disk.clone();
    written(&fs, 3, &[(b"a", &[1; 1000]), (b"b", &[2; 500])]);
    let file = files(&fs).file(FileId(3), true);
    let space = file.space().unwrap();
    assert!((1500..1600).contains(&space), "{space}");
    let before = disk.calls(Call::Read);
    assert_eq!([(); 100].map(|()| file.space().unwrap()), [space; 100]);
    assert_eq!(disk.calls(Call::Read), before);
}

#[test]
fn a_value_of_another_key_place_or_file_is_damage_at_its_offset() {
    let fs = fs();
    let pointers = written(&fs, 3, &[(b"a", b"one"), (b"b", b"two")]);
    let others = written(&fs, 4, &[(b"a", b"one"), (b"b", b"two")]);
    let files = files(&fs);
    assert_eq!(corrupt_at(files.read(&pointers[0], b"b")), pointers[0].offset);
    assert_eq!(
        corrupt_at(files.read(&Pointer { offset: pointers[1].offset, ..pointers[0] }, b"a")),
        pointers[1].offset
    );
    assert_eq!(corrupt_at(files.read(&Pointer { len: 2, ..pointers[0] }, b"a")), pointers[0].offset);
    let past = Pointer { offset: 10_000, len: 5, ..pointers[0] };
    corrupt_at(files.read(&past, b"a"));
    assert_eq!(corrupt_at(files.read(&Pointer { len: 1 << 30, ..past }, b"a")), 10_000);
    // File 4 under the name of file 5.
    rewrite(&fs, "d/000004.values", "d/000005.values", |_| ());
    assert_eq!(corrupt_at(files.read(&Pointer { file: FileId(5), ..others[0] }, b"a")), 16);
    corrupt_at(files.read(&Pointer { file: FileId(6), ..others[0] }, b"a"));
    corrupt_at(files.read(&Pointer { sorted: false, ..others[0] }, b"a"));
}

#[test]
fn every_flipped_bit_of_a_value_file_is_found_and_harms_one_value_at_most() {
    let fs = fs();
    let pairs: [(&[u8], &[u8]); 3] = [(b"a", b"one"), (b"b", b"two"), (b"c", b"three")];
    let pointers = written(&fs, 3, &pairs);
    let path = Path::new("d/000003.values");
    let len = fs.open(path).unwrap().len().unwrap() as usize;
    for bit in 0..len * 8 {
        rewrite(&fs, "d/000003.values", "d/000003.values", |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        assert!(check_sorted(&*fs, path, Some(DatabaseId(7)), FileId(3), |_, _, _| ()).is_err(), "bit {bit}");
        let files = files(&fs);
        let mut damaged = 0;
        for (pointer, (key, value)) in pointers.iter().zip(&pairs) {
            match files.read(pointer, key) {
                Ok(read) => assert_eq!(read, *value),
                Err(_) => damaged += 1,
            }
        }
        assert!(damaged <= 1 || bit < FILE_HEADER_BYTES * 8, "bit {bit}");
        rewrite(&fs, "d/000003.values", "d/000003.values", |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
    }
}

#[test]
fn a_file_goes_with_its_last_owner_once_it_is_marked() {
    let fs = fs();
    written(&fs, 3, &[(b"a", b"one")]);
    let files = files(&fs);
    let (first, second) = (files.file(FileId(3), true), files.file(FileId(3), true));
    assert!(Arc::ptr_eq(&first, &second));
    drop(first);
    second.mark_obsolete();
    assert!(fs.exists(second.path()).unwrap());
    let path = second.path().to_path_buf();
    drop(second);
    assert!(!fs.exists(&path).unwrap() && files.kept(FileId(3)).is_none());
}

#[test]
fn a_value_file_that_is_given_up_leaves_no_file() {
    let fs = fs();
    let mut writer = ValueWriter::create(&fs, Path::new("d"), DatabaseId(7), FileId(3)).unwrap();
    writer.add(b"a", b"one").unwrap();
    drop(writer);
    assert!(!fs.exists(Path::new("d/000003.values")).unwrap());
}

#[test]
#[should_panic(expected = "keys of a value file ascend, and \"a\" comes after \"b\"")]
fn a_key_below_the_last_one_stops_whoever_writes_the_value_file() {
    written(&fs(), 1, &[(b"b", b"one"), (b"b", b"another"), (b"a", b"below")]);
}

/// Found by the fuzz target `manifest`: an edit that named a value file without a change of it was
/// read, and written anew without that file.
#[test]
fn a_tally_that_names_a_file_without_a_change_is_refused() {
    // One file, number 3, no more values and no more bytes.
    for bytes in [[1, 3 << 1, 0, 0], [1, 3 << 1 | 1, 0, 0]] {
        let error = Tally::decode(&mut crate::codec::Decoder::new(&bytes)).unwrap_err();
        assert_eq!(error.what, "a change of a value file");
    }
    assert!(Tally::decode(&mut crate::codec::Decoder::new(&[1, 3 << 1, 2, 0])).is_ok());
}

//! Tests of trace records, of `Recorder`, and of `read` on files that were cut, extended or
//! damaged.
//!
//! Records come back; cut, mutated and arbitrary payloads are read or refused, and lengths over
//! their limits refused. What does not fit is left out as a whole and counted. Hashes keep equality
//! and nothing else. A file cut at any byte ends there and says so. A flipped bit of an ended trace
//! is damage with its place, and what follows the end is not passed over.

use super::{reader::Frame, *};
use crate::{
    clock::ManualClock,
    error::{Error, Result},
    frame::FrameWriter,
    ids::{DatabaseId, FileId},
    vfs::{Fs, mem::MemFs},
};
use proptest::prelude::*;
use std::{collections::BTreeSet, iter, path::Path, sync::Arc, time::Duration};

#[derive(Clone, Debug)]
enum Op {
    Keyspace(u32, String),
    Lookup(u32, Vec<u8>, bool),
    Scan(u32, Vec<u8>, u64, bool),
    Put(u32, Vec<u8>, u64, bool),
    Delete(u32, Vec<u8>),
    DeleteRange(u32, Vec<u8>, Vec<u8>),
    Merge(u32, Vec<u8>, u64),
    Batch(u64),
    Dropped(u64),
    DropKeyspace(u32),
}

impl Op {
    fn operation(&self) -> Operation<'_> {
        match *self {
            Op::Keyspace(keyspace, ref name) => Operation::Keyspace { keyspace, name },
            Op::Lookup(keyspace, ref key, found) => Operation::Lookup { keyspace, key, found },
            Op::Scan(keyspace, ref key, entries, backward) => {
                Operation::Scan { keyspace, key, entries, backward }
            }
            Op::Put(keyspace, ref key, value_len, expires) => {
                Operation::Put { keyspace, key, value_len, expires }
            }
            Op::Delete(keyspace, ref key) => Operation::Delete { keyspace, key },
            Op::DeleteRange(keyspace, ref start, ref end) => Operation::DeleteRange { keyspace, start, end },
            Op::Merge(keyspace, ref key, operand_len) => Operation::Merge { keyspace, key, operand_len },
            Op::Batch(writes) => Operation::Batch { writes },
            Op::Dropped(operations) => Operation::Dropped { operations },
            Op::DropKeyspace(keyspace) => Operation::DropKeyspace { keyspace },
        }
    }
}

fn op() -> impl Strategy<Value = Op> {
    let key = || prop::collection::vec(any::<u8>(), 0..40);
    let len = || 0..=VALUE_BYTES_MAX;
    prop_oneof![
        (any::<u32>(), ".{0,9}").prop_map(|(id, name)| Op::Keyspace(id, name)),
        (any::<u32>(), key(), any::<bool>()).prop_map(|(id, key, found)| Op::Lookup(id, key, found)),
        (any::<u32>(), key(), any::<u64>(), any::<bool>())
            .prop_map(|(id, key, n, b)| Op::Scan(id, key, n, b)),
        (any::<u32>(), key(), len(), any::<bool>()).prop_map(|(id, key, n, e)| Op::Put(id, key, n, e)),
        (any::<u32>(), key()).prop_map(|(id, key)| Op::Delete(id, key)),
        (any::<u32>(), key(), key()).prop_map(|(id, start, end)| Op::DeleteRange(id, start, end)),
        (any::<u32>(), key(), len()).prop_map(|(id, key, n)| Op::Merge(id, key, n)),
        any::<u64>().prop_map(Op::Batch),
        any::<u64>().prop_map(Op::Dropped),
        any::<u32>().prop_map(Op::DropKeyspace),
    ]
}

/// Reads what may be a payload to its end, or to where it is none.
fn read_payload(payload: &[u8]) -> Result<u64, DecodeError> {
    let mut frame = Frame::new(payload, 0)?;
    let mut named = BTreeSet::new();
    let mut records = 0;
    while frame.next(&mut named)?.is_some() {
        records += 1;
    }
    Ok(records)
}

proptest! {
    #[test]
    fn records_come_back(ops in prop::collection::vec((any::<u64>(), op()), 0..30)) {
        let mut bytes = Vec::new();
        for (after_us, op) in &ops {
            Record { after_us: *after_us, operation: op.operation() }.encode(&mut bytes);
        }
        let mut from = Decoder::new(&bytes);
        for (after_us, op) in &ops {
            let record = Record { after_us: *after_us, operation: op.operation() };
            prop_assert_eq!(Record::decode(&mut from).unwrap(), record);
        }
        prop_assert_eq!(from.remaining(), 0);
    }

    #[test]
    fn a_record_cut_anywhere_is_refused(op in op(), after_us: u64, cut: prop::sample::Index) {
        let mut bytes = Vec::new();
        Record { after_us, operation: op.operation() }.encode(&mut bytes);
        prop_assert!(Record::decode(&mut Decoder::new(&bytes[..cut.index(bytes.len())])).is_err());
    }

    #[test]
    fn mutated_payloads_are_read_or_refused(
        ops in prop::collection::vec(op(), 1..30),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = vec![0, 7];
        for op in &ops {
            Record { after_us: 1, operation: op.operation() }.encode(&mut bytes);
        }
        for (at, byte) in &changes {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        // Each record takes a byte or more.
        prop_assert!(read_payload(&bytes).unwrap_or(0) <= bytes.len() as u64);
    }

    #[test]
    fn arbitrary_payloads_are_read_or_refused(bytes: Vec<u8>) {
        prop_assert!(read_payload(&bytes).unwrap_or(0) <= bytes.len() as u64);
    }
}

#[test]
fn lengths_over_their_limits_are_refused() {
    let mut bytes = Vec::new();
    let key = vec![7; KEY_BYTES_MAX + 2];
    let refused = |operation: Operation<'_>, bytes: &mut Vec<u8>| {
        bytes.clear();
        Record { after_us: 0, operation }.encode(bytes);
        Record::decode(&mut Decoder::new(bytes)).unwrap_err().what
    };
    let put = |key, value_len| Operation::Put { keyspace: 0, key, value_len, expires: false };
    assert_eq!(refused(put(&key, 0), &mut bytes), "a key of legal length");
    assert_eq!(refused(put(b"", VALUE_BYTES_MAX + 1), &mut bytes), "the length of a value");
}

#[test]
fn a_frame_whose_records_do_not_fit_together_is_refused() {
    let key = b"k".as_slice();
    let name = Operation::Keyspace { keyspace: 1, name: "n" };
    let put = Operation::Put { keyspace: 1, key, value_len: 3, expires: false };
    let lookup = Operation::Lookup { keyspace: 1, key, found: true };
    let batch = |writes| Operation::Batch { writes };
    let read = |operations: &[Operation<'_>]| {
        let mut bytes = vec![HASHED, 0];
        operations.iter().for_each(|&operation| Record { after_us: 1, operation }.encode(&mut bytes));
        read_payload(&bytes).map_err(|error| error.what)
    };
    assert_eq!(read(&[name, batch(2), put, put, lookup]), Ok(5));
    assert_eq!(read(&[batch(2), name, put, put, lookup]), Ok(5));
    assert_eq!(read(&[put]), Err("a keyspace that was named"));
    assert_eq!(read(&[name, batch(2), put]), Err("the rest of a batch"));
    assert_eq!(read(&[name, batch(2), put, lookup]), Err("a write of a batch"));
    assert_eq!(read(&[name, batch(2), batch(2)]), Err("a batch of writes"));
    assert_eq!(read(&[name, batch(1), put]), Err("a batch of writes"));
    assert_eq!(read_payload(&[2, 0]).map_err(|error| error.what), Err("known flags of a frame"));
}

fn recorder(options: TraceOptions, clock: &Arc<ManualClock>) -> Recorder {
    Recorder::new(options, clock.clone())
}

fn put(key: &[u8]) -> Operation<'_> {
    Operation::Put { keyspace: 3, key, value_len: 5, expires: false }
}

/// What a payload says, with times; for eyes and comparisons.
fn told(payload: &[u8]) -> Vec<String> {
    let mut frame = Frame::new(payload, 0).unwrap();
    let mut named = BTreeSet::from([3]);
    iter::from_fn(|| frame.next(&mut named).unwrap())
        .map(|traced| format!("{} {:?}", traced.unix_us, traced.operation))
        .collect()
}

#[test]
fn what_does_not_fit_is_left_out_as_a_whole_and_counted() {
    let clock = Arc::new(ManualClock::at_unix_ms(1));
    let recorder = recorder(TraceOptions::new().memory(2000), &clock);
    // No thread takes anything out: 9 records of 100 bytes fit into a half.
    let key = [7; 96];
    let mut fitted = 0;
    for _ in 0..20 {
        clock.advance(Duration::from_micros(5));
        recorder.add(iter::once((put(&key), "third")));
        fitted += u64::from(recorder.recorded().dropped == 0);
    }
    assert!((5..10).contains(&fitted), "{fitted}");
    assert_eq!(recorder.recorded().dropped, 20 - fitted);
    let pair = [(put(b"a"), "third"), (put(&[8; 1000]), "third")];
    recorder.add(pair.into_iter());
    let (payload, operations) = recorder.taken();
    assert_eq!(operations, fitted);
    let records = told(&payload);
    assert_eq!(records.len() as u64, 1 + fitted, "the name, and nothing of the batch");
    assert!(records[0].starts_with("1005 Keyspace"), "{}", records[0]);
    assert!(records[2].starts_with("1010 Put"), "{}", records[2]);

    // There is room again: what was left out is said where it is missing, once.
    recorder.add(iter::once((put(b"b"), "third")));
    recorder.add(iter::once((put(b"c"), "third")));
    let (payload, operations) = recorder.taken();
    let records = told(&payload);
    assert_eq!((operations, records.len()), (2, 3));
    assert!(records[0].ends_with(&format!("Dropped {{ operations: {} }}", 22 - fitted)), "{}", records[0]);

    // A frame that was lost: its operations count as left out, and the name is said anew.
    recorder.add(iter::once((put(b"d"), "third")));
    let (_, operations) = recorder.taken();
    recorder.lose(operations, Error::Closed);
    recorder.add(iter::once((put(b"e"), "third")));
    let (payload, _) = recorder.taken();
    let records = told(&payload);
    assert!(records[0].ends_with("Dropped { operations: 1 }"), "{}", records[0]);
    assert!(records[1].contains("Keyspace") && records[2].contains("Put"), "{records:?}");
    assert!(matches!(recorder.recorded().failure, Some(Error::Closed)));
}

#[test]
fn hashes_keep_equality_and_nothing_else() {
    let clock = Arc::new(ManualClock::at_unix_ms(1));
    let keys: Vec<Vec<u8>> = (0..200u32).map(|n| format!("a secret key {n:06}").into_bytes()).collect();
    let hashes = |recorder: &Recorder| -> Vec<Vec<u8>> {
        for key in keys.iter().chain(&keys) {
            recorder.add(iter::once((put(key), "third")));
        }
        let (payload, _) = recorder.taken();
        assert!(!payload.windows(6).any(|part| part == b"secret"));
        let mut frame = Frame::new(&payload, 0).unwrap();
        let mut named = BTreeSet::new();
        iter::from_fn(|| frame.next(&mut named).unwrap())
            .filter_map(|traced| match traced.operation {
                Operation::Put { key, .. } => Some((traced.hashed, key.to_vec())),
                _ => None,
            })
            .map(|(hashed, key)| {
                assert!(hashed && key.len() == 8);
                key
            })
            .collect()
    };
    let options = TraceOptions::new().hash_keys(true).memory(TRACE_BYTES_MIN);
    let first = hashes(&recorder(options, &clock));
    assert_eq!(first[..200], first[200..], "equal keys are equal");
    assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 200, "others are not");
    assert!(!first[..200].is_sorted(), "their order is gone");
    let second = hashes(&recorder(options, &clock));
    assert!(first.iter().zip(&second).all(|(a, b)| a != b), "another recording says nothing about this one");
}

/// A file of three frames, with or without its end.
fn write_file(fs: &MemFs, path: &Path, end: bool) -> u64 {
    let mut file = FrameWriter::create(fs, path, &FILE_KIND, DatabaseId(1), FileId(0)).unwrap();
    for n in 0..3u8 {
        let mut payload = vec![0, 100 + n];
        let key = [n; 20];
        let name = Operation::Keyspace { keyspace: 3, name: "third" };
        let lookup = Operation::Lookup { keyspace: 3, key: &key, found: true };
        for operation in [name, put(&key), lookup] {
            Record { after_us: 1, operation }.encode(&mut payload);
        }
        file.append([[&payload[..]]]).unwrap();
    }
    if end {
        file.sync().unwrap();
        file.finish().unwrap();
    }
    file.len()
}

fn read_all_of(fs: &MemFs, path: &Path) -> Result<(u64, Ending)> {
    let mut records = 0;
    let ending = read(fs, path, |_| {
        records += 1;
        Ok(())
    })?;
    Ok((records, ending))
}

/// `content` as a file of its own.
fn file_of(content: &[u8]) -> (MemFs, &'static Path) {
    let (fs, path) = (MemFs::new(), Path::new("/changed"));
    fs.create(path).unwrap().append(content).unwrap();
    (fs, path)
}

#[test]
fn a_file_cut_at_any_byte_ends_there_and_says_so() {
    let (fs, path) = (MemFs::new(), Path::new("/t"));
    let len = write_file(&fs, path, false);
    assert_eq!(read_all_of(&fs, path).unwrap(), (9, Ending { bytes: len, ended: false, cut_bytes: 0 }));
    let content = crate::vfs::read_all(&*fs.open(path).unwrap()).unwrap();
    let frame = (content.len() - crate::frame::FILE_HEADER_BYTES) / 3;
    for cut in 0..content.len() {
        let (fs, path) = file_of(&content[..cut]);
        match cut.checked_sub(crate::frame::FILE_HEADER_BYTES) {
            None => {
                let error = read_all_of(&fs, path).unwrap_err().to_string();
                assert!(
                    error.contains("/changed: damaged at byte") && error.contains("ends inside its header")
                );
            }
            Some(whole) => {
                let (records, ending) = read_all_of(&fs, path).unwrap();
                assert_eq!(records, (whole / frame * 3) as u64, "cut at {cut}");
                assert_eq!((ending.ended, ending.cut_bytes), (false, (whole % frame) as u64), "cut at {cut}");
            }
        }
    }
}

#[test]
fn what_follows_the_end_of_a_trace_is_not_passed_over() {
    let (fs, path) = (MemFs::new(), Path::new("/t"));
    let len = write_file(&fs, path, true);
    let content = crate::vfs::read_all(&*fs.open(path).unwrap()).unwrap();
    // Another trace joined to it, and a single byte.
    for more in [&content[..], b"x"] {
        let (fs, path) = file_of(&[&content[..], more].concat());
        match read_all_of(&fs, path) {
            Err(Error::Corrupt { offset, what, .. }) => {
                assert_eq!(offset, len);
                assert!(what.contains(&format!("{} bytes", more.len())), "{what}");
            }
            read => panic!("{read:?}"),
        }
    }
}

#[test]
fn a_flipped_bit_of_an_ended_trace_is_damage_with_its_place() {
    let (fs, path) = (MemFs::new(), Path::new("/t"));
    let len = write_file(&fs, path, true);
    assert_eq!(read_all_of(&fs, path).unwrap(), (9, Ending { bytes: len, ended: true, cut_bytes: 0 }));
    let content = crate::vfs::read_all(&*fs.open(path).unwrap()).unwrap();
    // The mark and the end bear witness and have none of their own.
    let witnessed = content.len() - 2 * crate::frame::FRAME_HEADER_BYTES;
    for at in 0..content.len() {
        let mut changed = content.clone();
        changed[at] ^= 1 << (at % 8);
        let (fs, path) = file_of(&changed);
        match read_all_of(&fs, path) {
            Ok((records, ending)) => {
                assert!(at >= witnessed && records == 9 && !ending.ended, "byte {at}: {ending:?}");
            }
            Err(Error::Corrupt { file, offset, .. }) => {
                assert_eq!(file, path);
                assert!(offset as usize <= at, "byte {at} is told as {offset}");
            }
            // A version that no release has.
            Err(Error::NewerFormat { .. }) => assert!((24..32).contains(&at)),
            Err(error) => panic!("byte {at}: {error}"),
        }
    }
}

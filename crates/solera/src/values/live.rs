//! How much of each value file the entries of one tree point to: `LiveValues`; and the change of
//! it, `Tally`.
//!
//! A `Tally` counts pointers and bytes that come and leave, file by file. `LiveValues::after` adds
//! one; `to_tally` makes one of the counts. `Live` is one file's part. A tally is part of an edit,
//! so it has bytes.
//! What must hold: the counts of a version are those of the pointers in its tables, as far as the
//! clips admit them. A flush adds what it wrote; a merge takes what it read and adds what it wrote.
//! Counts that fall below 0 refuse the edit.
//! Callers: `compaction::{job, moves}` make tallies, `version` applies and stores them.
//! `compaction::convert` and `engine::{reclaim, store, census}` read the counts; `engine::report`
//! and `inspect` count again and compare.

use super::Pointer;
use crate::{
    codec::{DecodeError, Decoder, put_varint},
    ids::FileId,
};
use std::collections::BTreeMap;

/// The values of one file that are pointed to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// How many pointers lead to the file.
    pub values: u64,
    /// The lengths of their values, in bytes.
    pub bytes: u64,
    /// Whether it is a sorted value file; else a log.
    pub sorted: bool,
}

/// What changes in the count of one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Change {
    values: i64,
    bytes: i64,
    sorted: bool,
}

/// What a job changes, file by file.
///
/// ```text
/// tally = n:varint (file << 1 | sorted : varint, values:zigzag, bytes:zigzag){n}
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    changes: BTreeMap<FileId, Change>,
}

impl Tally {
    fn change(&mut self, pointer: &Pointer, sign: i64) {
        let change = self.changes.entry(pointer.file).or_default();
        change.sorted = pointer.sorted;
        change.values += sign;
        change.bytes += sign * i64::from(pointer.len);
    }

    /// For each file, how many pointers come, and the bytes of their values; negative where more
    /// leave.
    pub fn changes(&self) -> impl Iterator<Item = (FileId, i64, i64)> {
        self.changes.iter().map(|(&file, change)| (file, change.values, change.bytes))
    }

    /// A pointer that comes into the tables.
    pub fn add(&mut self, pointer: &Pointer) {
        self.change(pointer, 1);
    }

    /// A pointer that leaves them.
    pub fn take(&mut self, pointer: &Pointer) {
        self.change(pointer, -1);
    }

    /// Takes what `other` adds.
    pub fn leave(&mut self, other: &Tally) {
        for (&file, change) in &other.changes {
            let rest = self.changes.entry(file).or_default();
            rest.sorted = change.sorted;
            rest.values -= change.values;
            rest.bytes -= change.bytes;
        }
    }

    /// The same changes without the files in which nothing changes.
    pub fn without_rests(mut self) -> Tally {
        self.changes.retain(|_, change| change.values != 0 || change.bytes != 0);
        self
    }

    /// Adds the changes of `other`.
    pub fn merge(&mut self, other: &Tally) {
        for (&file, change) in &other.changes {
            let sum = self.changes.entry(file).or_default();
            sum.sorted = change.sorted;
            sum.values += change.values;
            sum.bytes += change.bytes;
        }
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.changes.values().all(|change| change.values == 0 && change.bytes == 0)
    }

    /// Appends the changes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let changed = || self.changes.iter().filter(|(_, change)| change.values != 0 || change.bytes != 0);
        put_varint(out, changed().count() as u64);
        for (file, change) in changed() {
            put_varint(out, file.0 << 1 | u64::from(change.sorted));
            put_varint(out, zigzag(change.values));
            put_varint(out, zigzag(change.bytes));
        }
    }

    /// Reads what [`Tally::encode`] wrote.
    pub fn decode(decoder: &mut Decoder<'_>) -> Result<Tally, DecodeError> {
        let mut changes = BTreeMap::new();
        for _ in 0..decoder.varint("a count of value files")? {
            let file = decoder.varint("a value file")?;
            let values = unzigzag(decoder.varint("a count of values")?);
            let bytes = unzigzag(decoder.varint("bytes of values")?);
            let change = Change { values, bytes, sorted: file & 1 == 1 };
            if values == 0 && bytes == 0 {
                return decoder.fail("a change of a value file");
            }
            if changes.insert(FileId(file >> 1), change).is_some() {
                return decoder.fail("a value file only once");
            }
        }
        Ok(Tally { changes })
    }
}

fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// The value files that the tables of one tree point to. A file without a pointer is not listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveValues {
    files: BTreeMap<FileId, Live>,
    /// What `files` say, summed up: each commit that deletes asks.
    bytes: u64,
}

impl LiveValues {
    /// The files, by number.
    pub fn iter(&self) -> impl Iterator<Item = (FileId, &Live)> {
        self.files.iter().map(|(&file, live)| (file, live))
    }

    /// What is live of `file`; nothing if it is not listed.
    pub fn of(&self, file: FileId) -> Live {
        self.files.get(&file).copied().unwrap_or_default()
    }

    /// Whether a pointer leads to `file`.
    pub fn has(&self, file: FileId) -> bool {
        self.files.contains_key(&file)
    }

    /// Whether no pointer leads anywhere.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Lengths of all values that are pointed to, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The counts after `tally`; what does not add up is said.
    pub fn after(&self, tally: &Tally) -> Result<LiveValues, String> {
        let mut files = self.files.clone();
        for (&file, change) in &tally.changes {
            let live = files.entry(file).or_insert(Live { sorted: change.sorted, ..Live::default() });
            let values = live.values.checked_add_signed(change.values);
            let bytes = live.bytes.checked_add_signed(change.bytes);
            let (Some(values), Some(bytes)) = (values, bytes) else {
                return Err(format!(
                    "more pointers to value file {file} leave the tables than there are: {} values of {} bytes, and {} of {}",
                    live.values, live.bytes, change.values, change.bytes
                ));
            };
            if live.sorted != change.sorted || (values == 0 && bytes != 0) {
                return Err(format!(
                    "value file {file} has no pointer and {bytes} bytes, or changes its kind"
                ));
            }
            *live = Live { values, bytes, sorted: change.sorted };
            if values == 0 {
                files.remove(&file);
            }
        }
        let bytes = files.values().map(|live| live.bytes).sum();
        Ok(LiveValues { files, bytes })
    }

    /// The tally that makes these counts out of none.
    pub fn to_tally(&self) -> Tally {
        let change = |live: &Live| Change {
            values: live.values as i64,
            bytes: live.bytes as i64,
            sorted: live.sorted,
        };
        Tally { changes: self.files.iter().map(|(&file, live)| (file, change(live))).collect() }
    }
}

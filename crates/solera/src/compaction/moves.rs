//! What becomes of separated values in one job: `Moves`.
//!
//! It counts the pointers that a job drops (`drop_entry`) and keeps (`keep`); those that only a
//! memtable held count when kept. `keep` copies the values of some files, the victims, to sorted
//! value files and gives the new pointer. Values that have lived long get files of their own. A
//! value of a mebibyte or more is copied in pieces. One that is now too short to be kept apart goes
//! into its entry. `divide` does the contrary for one that is now long enough. A job without
//! victims only counts.
//!
//! What must hold: what is moved is the same value. One that cannot be read stays where it is, and
//! its file is noted in `unreadable`. Neither a write that fails nor a shortage (`Error::of_read`)
//! is such a reason. The sorted files are synced by `finish`, before the job's tables are named. A
//! job that fails takes its files back (`remove`).
//! Caller: `job`, whose `Outputs` hands every separated entry here, and others to `divide`.

use super::{
    reclaim::{Side, Victims},
    retain::Entry,
};
use crate::{
    dir::FileName,
    error::{Error, Result},
    ids::FileId,
    key::{EXPIRY_BYTES, Kind},
    pin::Slice,
    table::TableContext,
    values::{self, Pointer, ReadAhead, SortedValues, Tally, ValueFile, ValueFiles, WrittenValues},
};
use std::{collections::BTreeSet, sync::Arc};

/// A value of so many bytes is copied from file to file in pieces, and never in memory whole.
const COPIED_BYTES_MIN: u32 = 1 << 20;

/// The separated values of one job.
pub(super) struct Moves<'m> {
    context: &'m TableContext,
    files: &'m ValueFiles,
    victims: &'m Victims,
    /// Values of so many bytes and more are kept apart.
    separate_from: u64,
    /// Whether what the job reads is counted already: in tables it is, in memtables not.
    are_counted: bool,
    pub(super) tally: Tally,
    ahead: ReadAhead,
    /// Those of young files, and those of old ones.
    moved: [SortedValues<'m>; 2],
    pub(super) written: Vec<WrittenValues>,
    /// The stored bytes of the entry that was moved last.
    stored: Vec<u8>,
    /// Victims that hold values that cannot be read.
    pub(super) unreadable: BTreeSet<FileId>,
}

/// A value that was read, or one in that file that was checked and has this sum.
enum Read {
    Whole(Slice),
    Checked(Arc<ValueFile>, u32),
}

/// How an entry comes out.
pub(super) struct Kept<'s> {
    pub(super) kind: Kind,
    /// What it stores in the place of its value, behind its expiry if it has one.
    pub(super) stored: &'s [u8],
    /// Bytes of its value, if that is kept apart.
    pub(super) separated: u32,
}

impl<'m> Moves<'m> {
    /// Of a job, which reads tables if what it reads is counted. Values of at least `separate_from`
    /// bytes are kept apart where they move.
    pub(super) fn new(
        context: &'m TableContext,
        files: &'m ValueFiles,
        (victims, separate_from): (&'m Victims, u64),
        new_file: &'m dyn Fn() -> FileId,
        are_counted: bool,
    ) -> Self {
        Moves {
            context,
            files,
            victims,
            separate_from,
            are_counted,
            tally: Tally::default(),
            ahead: ReadAhead::default(),
            moved: [(); 2]
                .map(|()| SortedValues::new(context.fs.clone(), &context.dir, context.database, new_file)),
            written: Vec::new(),
            stored: Vec::new(),
            unreadable: BTreeSet::new(),
        }
    }

    /// Where `key` lies from the keys whose values move.
    pub(super) fn side(&self, key: &[u8]) -> Side {
        self.victims.side(key)
    }

    /// An entry of `key` that stores a pointer, behind an expiry if it `expires`, went into the job
    /// and does not come out.
    pub(super) fn drop_entry(&mut self, key: &[u8], expires: bool, stored: &[u8]) -> Result<()> {
        if self.are_counted {
            self.tally.take(&pointer(key, expires, stored)?);
        }
        Ok(())
    }

    /// An `entry` that stores a pointer comes out.
    pub(super) fn keep<'s>(&'s mut self, entry: &Entry<'s>) -> Result<Kept<'s>> {
        let (key, stored, expires) = (entry.key, entry.value, entry.kind.expires());
        let mut pointer = pointer(key, expires, stored)?;
        if self.are_counted {
            self.tally.take(&pointer);
        }
        let as_it_was = Kept { kind: entry.kind, stored, separated: pointer.len };
        if !self.victims.takes(pointer.file, key) {
            self.tally.add(&pointer);
            return Ok(as_it_was);
        }
        self.stored.clear();
        self.stored.extend_from_slice(&stored[..if expires { EXPIRY_BYTES } else { 0 }]);
        match self.read(&pointer, key).map_err(Error::of_read) {
            Ok(Read::Whole(value)) if (value.len() as u64) < self.separate_from => {
                self.stored.extend_from_slice(&value);
                return Ok(Kept { kind: entry.kind.whole(), stored: &self.stored, separated: 0 });
            }
            Ok(read) => {
                let place = &mut self.moved[usize::from(self.victims.is_old(pointer.file))];
                pointer = match read {
                    Read::Whole(value) => place.add(key, &value)?,
                    Read::Checked(from, sum) => place.copy(key, &from, &pointer, sum)?,
                };
            }
            // The value stays where it is, so that a reader of its key is told.
            Err(Error::Corrupt { .. }) => {
                self.unreadable.insert(pointer.file);
                self.tally.add(&pointer);
                return Ok(as_it_was);
            }
            Err(error) => return Err(error),
        }
        Ok(self.kept_apart(entry.kind, &pointer))
    }

    /// An `entry` comes out that stores no pointer: its value leaves it, if it has one that is long
    /// enough.
    pub(super) fn divide<'s>(&'s mut self, entry: &Entry<'s>) -> Result<Kept<'s>> {
        let head = if entry.kind.expires() { EXPIRY_BYTES } else { 0 };
        let has_value = matches!(entry.kind, Kind::Put | Kind::PutExpiring);
        let value =
            entry.value.get(head..).filter(|value| has_value && value.len() as u64 >= self.separate_from);
        let Some(value) = value else {
            return Ok(Kept { kind: entry.kind, stored: entry.value, separated: 0 });
        };
        self.stored.clear();
        self.stored.extend_from_slice(&entry.value[..head]);
        // Most have been through a merge already.
        let place = &mut self.moved[usize::from(self.victims.tells_old())];
        let pointer = place.add(entry.key, value)?;
        Ok(self.kept_apart(entry.kind.separated(), &pointer))
    }

    /// What an entry of this `kind` stores whose value now lies where `pointer` leads.
    fn kept_apart(&mut self, kind: Kind, pointer: &Pointer) -> Kept<'_> {
        self.tally.add(pointer);
        pointer.encode(&mut self.stored);
        Kept { kind, stored: &self.stored, separated: pointer.len }
    }

    /// Reads the value of `key` to which `pointer` leads, of a long one the sum alone.
    fn read(&mut self, pointer: &Pointer, key: &[u8]) -> Result<Read> {
        if pointer.len < COPIED_BYTES_MIN || u64::from(pointer.len) < self.separate_from {
            return Ok(Read::Whole(self.ahead.read(self.files, pointer, key)?));
        }
        let from = self.files.file(pointer.file, pointer.sorted);
        let sum = from.value_sum(pointer, key)?;
        Ok(Read::Checked(from, sum))
    }

    /// No more entries: all that was moved is durable once the directory is synced.
    pub(super) fn finish(&mut self) -> Result<()> {
        for moved in &mut self.moved {
            self.written.extend(moved.finish()?);
        }
        Ok(())
    }

    /// Takes everything back.
    pub(super) fn remove(self) {
        for file in &self.written {
            // One that cannot be removed now is removed at the next open.
            let _ = self.context.fs.remove_file(&FileName::Values(file.file).in_dir(&self.context.dir));
        }
    }
}

/// The pointer in what an entry stores.
fn pointer(key: &[u8], expires: bool, stored: &[u8]) -> Result<Pointer> {
    values::decode(stored.get(if expires { EXPIRY_BYTES } else { 0 }..).unwrap_or_default(), key)
}

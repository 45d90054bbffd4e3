//! Where the separated values of a batch come to lie: `Promised`, `Place` and `Moved`.
//!
//! `Promised` says before an append where its values will lie, and asserts after it that they do.
//! `Place::insert` puts a pointer in the place of the value, and has the memtable keep the log.
//! `Moved` maps values that recovery has written again to their new log.
//!
//! What must hold: a pointer leads to the value's record in a frame of the log. Where recovery
//! wrote it again, that is the new log.
//!
//! Callers: `core` promises; `apply` inserts; `apply`, `large` and `open`'s replay make places;
//! `open` fills `Moved`.

use super::poison::Poison;
use crate::{
    error::{Error, Result},
    frame::FRAME_HEADER_BYTES,
    ids::Seqno,
    key::{EXPIRY_BYTES, Kind},
    memtable::Memtable,
    values::{POINTER_BYTES_MAX, Pointer, ValueFile},
    wal::{
        self,
        batch::{self, BatchEncoder},
    },
};
use std::{collections::BTreeMap, sync::Arc};

/// Where a batch stands in a log, for its separated values.
#[derive(Clone, Copy)]
pub(super) struct Place<'p> {
    pub(super) log: &'p Arc<ValueFile>,
    pub(super) payload: &'p [u8],
    /// Where in the log the payload begins.
    pub(super) payload_at: u64,
    /// Where recovery has written values again that it found elsewhere.
    pub(super) moved: Option<&'p Moved>,
}

impl Place<'_> {
    /// Puts an entry of a separated kind into a memtable, with a pointer in the place of its value.
    pub(super) fn insert(&self, memtable: &Memtable, key: &[u8], seqno: Seqno, kind: Kind, value: &[u8]) {
        let (at, len) = batch::record_in(self.payload, kind, value);
        let offset = self.payload_at + at as u64;
        let found = Pointer { file: self.log.id(), offset, len, sorted: false };
        let moved = self.moved.and_then(|moved| Some((moved.to.get(&found)?, &moved.log)));
        let (pointer, log) = moved.map_or((found, self.log), |(&to, log)| (to, log));
        let mut stored = Vec::with_capacity(EXPIRY_BYTES + POINTER_BYTES_MAX);
        stored.extend_from_slice(&value[..if kind.expires() { EXPIRY_BYTES } else { 0 }]);
        pointer.encode(&mut stored);
        memtable.keep_log(log);
        memtable.insert(key, seqno, kind, &[&stored]);
    }
}

/// Where the payload after the next append to a log begins, if that was counted on.
#[must_use]
pub(super) struct Promised(Option<u64>);

impl Promised {
    /// Fills in the sums of separated values in batches that are appended to `log` next: they say
    /// where in it the values lie.
    #[inline]
    pub(super) fn place(log: &wal::Writer, batches: &mut [BatchEncoder]) -> Result<Promised> {
        match batches.iter().any(BatchEncoder::has_separated) {
            true => Promised::place_separated(log, batches),
            false => Ok(Promised(None)),
        }
    }

    fn place_separated(log: &wal::Writer, batches: &mut [BatchEncoder]) -> Result<Promised> {
        let mut next_at = log.next_payload_at();
        for batch in batches {
            if batch.has_separated() {
                let undecodable = |error| Error::Poisoned(format!("a batch does not decode: {error:?}"));
                batch.place(log.file(), log.binding(), next_at).map_err(undecodable)?;
            }
            next_at += (batch.bytes() + FRAME_HEADER_BYTES) as u64;
        }
        Ok(Promised(Some(next_at)))
    }

    /// Stops unless the batches, which were appended to `log`, lie where it was said: pointers to
    /// their values would lead elsewhere. They are in the log then, so no writer may write after
    /// them.
    #[inline]
    pub(super) fn assert_kept(&self, log: &wal::Writer, poison: &Poison) {
        if self.0.is_some_and(|promised| promised != log.next_payload_at()) {
            poison.set("values do not lie where it was promised");
            panic!("values lie where it was promised");
        }
    }
}

/// Values that recovery has written again, from the tail of one log to another log.
pub(super) struct Moved {
    pub(super) log: Arc<ValueFile>,
    pub(super) to: BTreeMap<Pointer, Pointer>,
}

#[cfg(test)]
mod tests;

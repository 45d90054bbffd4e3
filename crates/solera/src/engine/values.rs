//! Where the separated values of a batch come to lie: `Place`, which makes the pointers that
//! memtables hold, and `Moved`.
//!
//! `Place::insert` puts a pointer in the place of the value, and has the memtable keep the log.
//! `Moved` maps values that recovery has written again to their new log.
//!
//! What must hold: a pointer leads to the value's record in a frame of the log. Where recovery
//! wrote it again, that is the new log.
//!
//! Callers: `apply` inserts; `apply`, `large` and `open`'s replay make places; `open` fills
//! `Moved`.

use crate::{
    ids::Seqno,
    key::{EXPIRY_BYTES, Kind},
    memtable::Memtable,
    values::{POINTER_BYTES_MAX, Pointer, ValueFile},
    wal::batch,
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

/// Values that recovery has written again, from the tail of one log to another log.
pub(super) struct Moved {
    pub(super) log: Arc<ValueFile>,
    pub(super) to: BTreeMap<Pointer, Pointer>,
}

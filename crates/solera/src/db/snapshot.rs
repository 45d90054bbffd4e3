//! Moments in the commit order that users hold on to: `Snapshot`, and reads of any keyspace at it.
//!
//! It has `get`, `multi_get`, `iter`, `range` and their kin. `new` registers the moment with the
//! engine, and `Held` releases it with the last clone. `of_transaction` makes one of which a
//! transaction asks what has changed since.
//!
//! What must hold: while it lives, compactions keep what it sees. Entries with a time to live
//! expire all the same, but not for a transaction. It refuses keyspaces of another database.
//!
//! Callers: applications by `Db::snapshot`; `db::transaction`, which reads at one; `db::iterator`,
//! for iterators of either. (Other iterators hold a moment of their own.)

use super::{
    Entry, Handle, Iter, KeyBounds, Keyspace,
    bounds::{key_range, prefix_range},
    keyspace::{AsOf, Wants},
};
use crate::{
    engine::snapshots::Moment,
    error::{Error, Result},
    ids::Seqno,
    key::SharedRange,
    pin::Slice,
};
use std::{fmt, sync::Arc};

struct Held {
    handle: Arc<Handle>,
    moment: Moment,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.handle.release_snapshot(self.moment);
    }
}

/// All keyspaces as they were at one moment of the commit order. Clones share the moment; the last
/// one releases it. Entries with a time to live still expire: see [`Keyspace::put_with_ttl`].
#[derive(Clone)]
pub struct Snapshot {
    held: Arc<Held>,
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshot({})", self.seqno())
    }
}

impl Snapshot {
    pub(crate) fn new(handle: Arc<Handle>) -> Self {
        let moment = handle.store.snapshots.hold();
        Snapshot { held: Arc::new(Held { handle, moment }) }
    }

    /// A snapshot of which a transaction asks what has changed since.
    pub(super) fn of_transaction(handle: Arc<Handle>) -> Self {
        let store = &handle.store;
        let moment = store.snapshots.hold_transaction(|| store.expiry.now_ms());
        Snapshot { held: Arc::new(Held { handle, moment }) }
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.held.handle
    }

    /// The moment: the snapshot sees operations up to this number.
    pub fn seqno(&self) -> Seqno {
        self.held.moment.seqno()
    }

    /// By which time entries have expired for it, in Unix milliseconds; `None`: by the clock.
    pub(super) fn now_ms(&self) -> Option<u64> {
        self.held.moment.began_ms()
    }

    /// As of when it reads.
    pub(super) fn as_of(&self) -> AsOf {
        AsOf { snapshot: Some(self.seqno()), now_ms: self.now_ms() }
    }

    /// Refuses a keyspace of another database, whose sequence numbers mean something else.
    pub(super) fn sees(&self, keyspace: &Keyspace) -> Result<()> {
        match Arc::ptr_eq(&self.held.handle, keyspace.handle()) {
            true => Ok(()),
            false => Err(Error::Invalid("the snapshot and the keyspace are of two databases".into())),
        }
    }

    /// The value of `key` in `keyspace` at this moment.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.sees(keyspace)?;
        keyspace.get_at(key.as_ref(), self.as_of(), Wants::Value, |value| value.into_slice())
    }

    /// As [`Snapshot::get`], into the caller's buffer, whose old content is replaced if the key is
    /// found.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn get_into(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>, value: &mut Vec<u8>) -> Result<bool> {
        self.sees(keyspace)?;
        keyspace.read_into(key.as_ref(), self.as_of(), value)
    }

    /// The value of `key` in `keyspace` at this moment, and when it expires.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn get_entry(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Entry>> {
        self.sees(keyspace)?;
        keyspace.entry_at(key.as_ref(), self.as_of())
    }

    /// The values of several keys.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keyspace: &Keyspace, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        self.sees(keyspace)?;
        keyspace.multi_get_at(keys, self.as_of())
    }

    /// Whether `key` has a value.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn contains_key(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        self.sees(keyspace)?;
        keyspace.holds(key.as_ref(), self.as_of())
    }

    /// All entries, in key order.
    pub fn iter(&self, keyspace: &Keyspace) -> Iter {
        Iter::new(keyspace, Some(self.clone()), SharedRange::default())
    }

    /// The entries whose keys are in `range`.
    pub fn range(&self, keyspace: &Keyspace, range: impl KeyBounds) -> Iter {
        Iter::new(keyspace, Some(self.clone()), key_range(range.key_bounds()).into())
    }

    /// The entries whose keys start with `prefix`.
    pub fn prefix(&self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Iter {
        Iter::new(keyspace, Some(self.clone()), prefix_range(prefix.as_ref()).into())
    }
}

//! Snapshots: moments in the commit order that readers hold on to.
//!
//! Owns the registry that compactions ask which old versions somebody can still see, and the public
//! [`Snapshot`].

use super::{Handle, Iter, Keyspace};
use crate::{
    canary::{Bug, planted},
    error::{Error, Result},
    ids::Seqno,
    key::KeyRange,
    pin::Slice,
    sync::Mutex,
};
use std::{collections::BTreeMap, fmt, ops::RangeBounds, sync::Arc};

/// Which moments are held, and how often.
#[derive(Default)]
pub(crate) struct Snapshots {
    held: Mutex<BTreeMap<Seqno, usize>>,
}

impl Snapshots {
    /// Holds the moment that `now` names. It is read under the lock, so that a compaction which lists
    /// the snapshots either sees this one or began before anything that it could not see was visible.
    fn hold(&self, now: impl FnOnce() -> Seqno) -> Seqno {
        let mut held = self.held.lock();
        let seqno = now();
        *held.entry(seqno).or_default() += 1;
        seqno
    }

    fn release(&self, seqno: Seqno) {
        let mut held = self.held.lock();
        if let Some(count) = held.get_mut(&seqno) {
            *count -= 1;
            if *count == 0 {
                held.remove(&seqno);
            }
        }
    }

    /// The held moments, ascending, and the newest visible one read under the same lock.
    pub(crate) fn list(&self, now: impl FnOnce() -> Seqno) -> (Vec<Seqno>, Seqno) {
        let held = self.held.lock();
        (held.keys().copied().collect(), now())
    }

    /// How many snapshots, iterators and transactions hold a moment.
    pub(crate) fn count(&self) -> u64 {
        self.held.lock().values().map(|&count| count as u64).sum()
    }
}

struct Held {
    handle: Arc<Handle>,
    seqno: Seqno,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.handle.snapshots.release(self.seqno);
    }
}

/// All keyspaces as they were at one moment of the commit order. Clones share the moment; the last one
/// releases it. Entries with a time to live still expire: see [`Keyspace::put_with_ttl`].
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
        let seqno = handle.snapshots.hold(|| handle.visible() + Seqno::from(planted(Bug::SnapshotTooNew)));
        Snapshot { held: Arc::new(Held { handle, seqno }) }
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.held.handle
    }

    /// The moment: the snapshot sees operations up to this number.
    pub fn seqno(&self) -> Seqno {
        self.held.seqno
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
    pub fn get(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Slice>> {
        self.sees(keyspace)?;
        keyspace.get_at(key, Some(self.seqno()), |value| value.into_slice())
    }

    /// As [`Snapshot::get`], into the caller's buffer, whose old content is replaced if the key is found.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn get_into(&self, keyspace: &Keyspace, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.sees(keyspace)?;
        keyspace.read_into(key, Some(self.seqno()), value)
    }

    /// The values of several keys.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keyspace: &Keyspace, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        self.sees(keyspace)?;
        keyspace.multi_get_at(keys, Some(self.seqno()))
    }

    /// Whether `key` has a value.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn contains_key(&self, keyspace: &Keyspace, key: &[u8]) -> Result<bool> {
        self.sees(keyspace)?;
        Ok(keyspace.get_at(key, Some(self.seqno()), |_| ())?.is_some())
    }

    /// All entries, in key order.
    pub fn iter(&self, keyspace: &Keyspace) -> Iter {
        Iter::new(keyspace, self.clone(), KeyRange::all())
    }

    /// The entries whose keys are in `range`.
    pub fn range<K: AsRef<[u8]>>(&self, keyspace: &Keyspace, range: impl RangeBounds<K>) -> Iter {
        Iter::new(keyspace, self.clone(), super::keyspace::key_range(&range))
    }

    /// The entries whose keys start with `prefix`.
    pub fn prefix(&self, keyspace: &Keyspace, prefix: &[u8]) -> Iter {
        Iter::new(keyspace, self.clone(), super::keyspace::prefix_range(prefix))
    }
}

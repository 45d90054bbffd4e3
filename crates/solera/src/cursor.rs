//! The one way to walk sorted entries, `Cursor`; lending of neighbours, `Lending` and `Lent`; and
//! lookups, `Probe` and `Hit`.
//!
//! Memtables, tables, runs and merges of them implement `Cursor`; tables and runs lend. A `Probe`
//! is a point lookup prepared once and handed from source to source; a `Hit` is what one source
//! found.
//!
//! What must hold: user keys ascend; versions of a key stand newest first, by position. Sequence
//! numbers may be elided to 0. So order among versions is position within a source, and the
//! source's age between sources, never numbers (docs/decisions/0002). A cursor moves only in the
//! direction of its last positioning, and is not valid after an error.
//!
//! Callers: `memtable`, `table`, `version::cursor`, `tree::scan`, `merge`, `db::writes` implement;
//! `block` lends; `tree`, `compaction`, `db`, `engine`, `inspect` and `fuzz` walk or look up.

use crate::{
    error::Result,
    ids::Seqno,
    key::Kind,
    pin::{Pin, Slice},
};

/// So many versions of one key are stepped over; after that a seek goes past the rest. A seek costs
/// about as much as this many steps.
pub const VERSIONS_STEPPED_MAX: usize = 8;

/// A position in a sorted sequence of entries. A new cursor is not valid until positioned.
///
/// A cursor may be moved only in the direction of its last positioning call: after `seek` or
/// `seek_first` forward, after `seek_last` or `seek_before` backward. (Two-ended iteration uses two
/// cursors.) After an error a cursor is not valid until positioned again.
pub trait Cursor {
    /// To the first entry.
    fn seek_first(&mut self) -> Result<()>;
    /// To the last entry (the oldest version of the largest key).
    fn seek_last(&mut self) -> Result<()>;
    /// To the first entry (newest version) whose user key is `>= key`.
    fn seek(&mut self, key: &[u8]) -> Result<()>;
    /// To the newest version of `key` that `snapshot` sees, or else to the first entry of a larger
    /// key. Walks over unseen versions unless the cursor knows better. Forward, as after `seek`.
    fn seek_version(&mut self, key: &[u8], snapshot: Seqno) -> Result<()> {
        self.seek(key)?;
        while self.valid() && self.seqno() > snapshot && self.key() == key {
            self.next()?;
        }
        Ok(())
    }
    /// To the last entry (oldest version) whose user key is `< key`.
    fn seek_before(&mut self, key: &[u8]) -> Result<()>;
    /// One entry forward. Must be valid.
    fn next(&mut self) -> Result<()>;
    /// Over all entries of this key, forward to the first one of a larger key. Must be valid.
    fn next_key(&mut self) -> Result<()> {
        let mut key = self.key().to_vec();
        for _ in 0..VERSIONS_STEPPED_MAX {
            self.next()?;
            if !self.valid() || self.key() != key {
                return Ok(());
            }
        }
        // The smallest larger key.
        key.push(0);
        self.seek(&key)
    }
    /// One entry back. Must be valid.
    fn prev(&mut self) -> Result<()>;
    /// Whether the cursor stands on an entry.
    fn valid(&self) -> bool;
    /// The user key. Must be valid; the bytes live until the cursor moves. The same holds below.
    fn key(&self) -> &[u8];
    /// [`crate::key::head`] of the user key, kept at hand because merges compare it first.
    fn head(&self) -> u64;
    /// The sequence number, or 0 where it was elided.
    fn seqno(&self) -> Seqno;
    /// What the entry does.
    fn kind(&self) -> Kind;
    /// Both of these, which lie side by side where they are stored.
    #[inline]
    fn stamp(&self) -> (Seqno, Kind) {
        (self.seqno(), self.kind())
    }
    /// The value, operand, or expiry and value.
    fn value(&self) -> &[u8];
    /// The value, kept alive by its block or memtable.
    fn pin_value(&self) -> Slice;

    /// As `seek_first`, or the cursor only expects an entry, as `expected` tells.
    fn expect_first(&mut self) -> Result<()> {
        self.seek_first()
    }
    /// As `seek_last`, or it only expects an entry.
    fn expect_last(&mut self) -> Result<()> {
        self.seek_last()
    }
    /// As `seek`, or it only expects an entry.
    fn expect(&mut self, key: &[u8]) -> Result<()> {
        self.seek(key)
    }
    /// As `seek_before`, or it only expects an entry.
    fn expect_before(&mut self, key: &[u8]) -> Result<()> {
        self.seek_before(key)
    }
    /// A key that the entry where the cursor is to stand does not come before, on its way. While
    /// there is one the cursor has not looked at the entry. It is not valid, and may only be
    /// positioned, or go there by `arrive`.
    fn expected(&self) -> Option<&[u8]> {
        None
    }
    /// To the expected entry, if there is one.
    fn arrive(&mut self) -> Result<()> {
        Ok(())
    }

    /// Lets go of a value that is large until `wake`, if the cursor is valid. Until then it may not
    /// be moved or asked for its value; key and stamp stay.
    fn doze(&mut self) -> Result<()> {
        Ok(())
    }
    /// Ends `doze`.
    fn wake(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Neighbouring entries of a source that a walk takes without asking the source for each.
pub trait Lent {
    /// To the next entry; false, and it stays, if that has the same key or lies outside.
    fn advance(&mut self) -> bool;
    /// To the entry before, if it is the only one of its key; else, or if it lies outside, false,
    /// and it stays.
    fn retreat(&mut self) -> bool;
    /// The user key; the bytes live until it moves.
    fn key(&self) -> &[u8];
    /// The value.
    fn value(&self) -> &[u8];
    /// The value, kept alive. Exclusive, so that it may count ahead without a cell: what users hold
    /// is shared between threads.
    fn pin_value(&mut self) -> Slice;
}

/// A source of a walk, which may lend it entries: between two keys of the other sources, a walk may
/// take them as they lie.
pub trait Lending: Cursor {
    /// What it lends.
    type Lent: Lent;

    /// The entries from the present one on, side by side, that are puts which `snapshot` sees and
    /// whose keys are below `before` and below `end`; `None` where there are none or few. Until
    /// they are taken back, or the cursor is positioned, it may not be used. Must be valid.
    fn lend(&mut self, snapshot: Seqno, before: Option<&[u8]>, end: Option<&[u8]>) -> Option<Self::Lent>;

    /// The same of a walk downward: the entries from the present one down whose keys are above
    /// `after` and not below `start`. The present one is the oldest of its key.
    fn lend_back(&mut self, snapshot: Seqno, after: Option<&[u8]>, start: &[u8]) -> Option<Self::Lent>;

    /// Walking upward, `lent` stands on the last of its entries: it goes on with those behind them,
    /// of which the same holds, if there are some that it can go on with at once. Else false, and
    /// nothing happens.
    fn lend_on(&mut self, _lent: &mut Self::Lent, _before: Option<&[u8]>, _end: Option<&[u8]>) -> bool {
        false
    }

    /// Takes back what was lent: the cursor stands where that came to.
    fn take_back(&mut self, lent: Self::Lent);
}

/// A point lookup, prepared once and handed from source to source.
#[derive(Clone, Copy, Debug)]
pub struct Probe<'k> {
    /// The user key.
    pub key: &'k [u8],
    /// [`crate::key::hash`] of the key, for the filters.
    pub hash: u64,
    /// Versions newer than this are not seen.
    pub snapshot: Seqno,
}

/// What a lookup found: the newest version of the key that the snapshot sees, in one source.
#[derive(Clone, Copy, Debug)]
pub struct Hit<'s> {
    /// Its sequence number, 0 where elided.
    pub seqno: Seqno,
    /// What it does.
    pub kind: Kind,
    value: &'s [u8],
    pin: &'s Pin,
}

impl<'s> Hit<'s> {
    /// An entry of a source.
    ///
    /// # Safety
    /// As long as the object behind `pin` lives, `value` stays where it is and as it is.
    #[inline]
    pub unsafe fn new(seqno: Seqno, kind: Kind, value: &'s [u8], pin: &'s Pin) -> Self {
        Hit { seqno, kind, value, pin }
    }

    /// Its value, operand, or expiry and value.
    #[inline]
    pub fn value(&self) -> &'s [u8] {
        self.value
    }

    /// What keeps the value alive.
    #[inline]
    pub fn pin(&self) -> &'s Pin {
        self.pin
    }

    /// The value, kept alive beyond the lookup.
    pub fn pin_value(&self) -> Slice {
        // SAFETY: by the contract of `new`.
        unsafe { Slice::pinned(self.pin, self.value) }
    }
}

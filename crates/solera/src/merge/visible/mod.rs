//! What a reader sees of a merge, one pair for each key that exists: the walkers `Forward` and
//! `Backward`, and `Scope`.
//!
//! A `Scope` is the reader that looks, and at what: reader, range, and each source's tombstones.
//! `Sight`, made of it, finds the newest source with a range tombstone over an entry. It has
//! `crate::sight` judge a key and fold its operands.
//!
//! What must hold: what an entry means is said by `crate::sight` alone, but for puts that a table
//! lends: they are taken as they lie. What is newer than the snapshot, walkers pass by themselves.
//! An entry is covered by tombstones of its own or newer sources only. What walks find to be a gap
//! is remembered (`gaps`, `trail`). After four covered keys a walker seeks to the end of the cover.
//!
//! Callers: `tree::scan`, which makes the scope of a view, and folds keys by it;
//! `db::{iterator, scout, transaction}` move the walkers.

mod backward;
mod forward;
pub mod gaps;
mod trail;

pub use backward::Backward;
pub use forward::Forward;
pub use trail::Remembers;

use super::Merge;
use crate::{
    cursor::Cursor,
    error::{Error, Result},
    key::{Kind, SharedRange},
    pin::Slice,
    pool,
    sight::{Reader, Verdict, hides, malformed},
    tombstone::RangeTombstones,
};
use std::sync::Arc;

/// So many keys in a row that range tombstones cover are stepped over; after that the walker seeks
/// to the end of the cover.
const COVERED_STEPPED_MAX: usize = 4;
/// After so many pairs in a row from one source, its next ones are likely to be taken alone.
const STEADY_PAIRS: usize = 2;

/// The reader that looks, and at what.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The reader that looks.
    pub reader: Reader,
    /// The range tombstones of each source, in the order of their ages. May be shorter than the
    /// list of sources: what is missing is empty.
    pub tombstones: Vec<Arc<RangeTombstones>>,
    /// The keys to show.
    pub range: SharedRange,
}

/// A [`Scope`] as the walkers use it.
struct Sight {
    scope: Scope,
    /// The ages with range tombstones, ascending: usually none.
    covering_ages: Vec<usize>,
}

/// Operands of a key that are held until its base is found have so many bytes, and are then made
/// fewer where the operator can make less of them.
const OPERANDS_BYTES_MAX: usize = 16 << 20;

/// Buffers that a walker keeps from step to step.
#[derive(Default)]
struct Scratch {
    /// A key that the merge may have left.
    key: Vec<u8>,
    /// Operands of `key`: newest first, walking forward, and oldest first, walking backward.
    operands: Vec<Slice>,
    /// Bytes of them.
    operands_bytes: usize,
    /// The operator makes no less of them.
    keeps_operands: bool,
    /// What they amounted to.
    merged: Slice,
    /// Why it cannot be said what `key` amounts to.
    refusal: Option<Error>,
}

impl Scratch {
    #[inline]
    fn keep_key(&mut self, key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
    }

    #[inline]
    fn clear_operands(&mut self) {
        self.operands.clear();
        if self.operands_bytes > OPERANDS_BYTES_MAX {
            pool::trim_after_large(OPERANDS_BYTES_MAX as u64);
        }
        (self.operands_bytes, self.keeps_operands) = (0, false);
    }

    /// Takes one more operand of `key`, next to the last one.
    #[inline]
    fn add_operand(&mut self, key: &[u8], operand: Slice, reader: &Reader, is_older: bool) {
        self.operands_bytes += operand.len();
        self.operands.push(operand);
        if self.operands_bytes > OPERANDS_BYTES_MAX && !self.keeps_operands {
            self.combine_last(key, reader, is_older);
        }
    }

    /// Makes one operand of the last two, if that is less. An operator that concatenates makes no
    /// less, and would copy the whole again and again.
    #[cold]
    fn combine_last(&mut self, key: &[u8], reader: &Reader, is_older: bool) {
        let [.., before, last] = &self.operands[..] else { return };
        let (older, newer) = if is_older { (last, before) } else { (before, last) };
        let both = reader.operator.as_ref().and_then(|operator| operator.combine(key, older, newer));
        let bytes = older.len() + newer.len();
        let Some(both) = both.filter(|both| both.len() < bytes) else {
            self.keeps_operands = true;
            return;
        };
        self.operands_bytes -= bytes - both.len();
        self.operands.truncate(self.operands.len() - 2);
        self.operands.push(both.into());
    }

    /// What the key amounts to cannot be said, because of this.
    #[cold]
    fn refuse(&mut self, why: Error) -> Shown {
        self.clear_operands();
        self.refusal = Some(why);
        Shown::Refused
    }
}

/// What the newest visible entry of a key, and the older ones if it is an operand, amount to.
#[derive(Clone, Copy)]
enum Shown {
    /// No value.
    Absent,
    /// No value, because of a range tombstone of this age.
    Covered(usize),
    /// The value of the entry that the merge stands on: its stored bytes behind so many.
    Here(usize),
    /// The same, but those bytes are a pointer to the value.
    Separated(usize),
    /// The value that the merge operator made, in the scratch beside its key. The merge stands on
    /// the key's base or beyond the key.
    Merged,
    /// What the key amounts to cannot be said; why is in the scratch beside its key. The merge
    /// stands as after `Merged`.
    Refused,
}

impl Sight {
    fn new(scope: Scope) -> Self {
        let ages = scope.tombstones.iter().enumerate().filter(|(_, set)| !set.is_empty());
        Sight { covering_ages: ages.map(|(age, _)| age).collect(), scope }
    }

    /// Whether any source has range tombstones.
    #[inline]
    fn has_tombstones(&self) -> bool {
        !self.covering_ages.is_empty()
    }

    /// The newest age with a range tombstone over the entry that `merge` stands on.
    #[inline]
    fn cover<C: Cursor>(&self, merge: &Merge<C>) -> Option<usize> {
        if self.covering_ages.is_empty() { None } else { self.cover_among_tombstones(merge) }
    }

    fn cover_among_tombstones<C: Cursor>(&self, merge: &Merge<C>) -> Option<usize> {
        let (key, seqno, age) = (merge.key(), merge.seqno(), merge.age());
        self.covering_ages.iter().copied().take_while(|&covering| covering <= age).find(|&covering| {
            let deleted = self.scope.tombstones[covering].covering(key, self.scope.reader.snapshot);
            deleted.is_some_and(|deleted| hides(deleted, covering < age, seqno))
        })
    }

    /// Judges the key of the entry of this kind that `merge`, walking forward, stands on: the key's
    /// newest one that the snapshot sees.
    #[inline]
    fn judge<C: Cursor>(&self, merge: &mut Merge<C>, kind: Kind, scratch: &mut Scratch) -> Result<Shown> {
        if let Some(age) = self.cover(merge) {
            return Ok(Shown::Covered(age));
        }
        Ok(match self.scope.reader.judge(kind, || merge.value(), false) {
            Verdict::Value(skipped) => Shown::Here(skipped),
            Verdict::Separated(skipped) => Shown::Separated(skipped),
            Verdict::Absent => Shown::Absent,
            Verdict::Operand => self.fold(merge, scratch)?,
            Verdict::Malformed => {
                scratch.keep_key(merge.key());
                scratch.refuse(malformed(merge.key()))
            }
        })
    }

    /// Merges the operands from the present entry on, down to the base.
    fn fold<C: Cursor>(&self, merge: &mut Merge<C>, scratch: &mut Scratch) -> Result<Shown> {
        scratch.keep_key(merge.key());
        scratch.clear_operands();
        let key = std::mem::take(&mut scratch.key);
        let shown = self.fold_at(merge, &key, scratch);
        scratch.key = key;
        // The operands' pins would keep blocks in memory.
        scratch.clear_operands();
        shown
    }

    /// The same for `key`, of which this is.
    fn fold_at<C: Cursor>(&self, merge: &mut Merge<C>, key: &[u8], scratch: &mut Scratch) -> Result<Shown> {
        let reader = &self.scope.reader;
        let apart;
        let base = loop {
            scratch.add_operand(key, merge.pin_value(), reader, true);
            merge.next()?;
            // Below what the snapshot sees there is nothing that it does not see, but for a
            // transaction, whose own operands lie above everything that was committed since it
            // began.
            if merge.valid() && merge.seqno() > reader.snapshot && merge.key() == key {
                merge.skip_unseen(key, reader.snapshot)?;
            }
            if !merge.valid() || merge.key() != key {
                break None;
            }
            match reader.judge(merge.kind(), || merge.value(), self.cover(merge).is_some()) {
                Verdict::Operand => {}
                Verdict::Absent => break None,
                Verdict::Value(skipped) => break Some(&merge.value()[skipped..]),
                Verdict::Separated(skipped) => {
                    apart = reader.value_apart(&merge.value()[skipped..], key);
                    match &apart {
                        Ok(base) => break Some(&base[..]),
                        Err(error) => {
                            let error = error.clone();
                            return Ok(scratch.refuse(error));
                        }
                    }
                }
                Verdict::Malformed => {
                    let error = malformed(key);
                    return Ok(scratch.refuse(error));
                }
            }
        };
        match reader.fold(key, base, &scratch.operands) {
            Ok(value) => {
                scratch.merged = value.into();
                Ok(Shown::Merged)
            }
            Err(error) => Ok(scratch.refuse(error)),
        }
    }
}

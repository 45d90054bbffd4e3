//! What a reader sees of a merge, one pair for each key that exists: the walkers `Forward` and
//! `Backward`, and `Scope`.
//!
//! A `Scope` is who is looking, and at what: reader, range, and each source's tombstones. `Sight`,
//! made of it, finds the newest range tombstone over an entry, has `crate::sight` judge a key, and
//! folds operands.
//!
//! What must hold: what an entry means is said by `crate::sight` alone. An entry is covered by
//! tombstones of its own or newer sources only. What walks find to be a gap is remembered (`gaps`,
//! `trail`); what a range tombstone covers is passed by seeking after four keys.
//! Callers: `tree::scan`, which makes the scope of a view; `db::{iterator, scout}` move the
//! walkers.

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
    key::{KeyRange, Kind},
    pin::Slice,
    sight::{Reader, Verdict, hides, malformed},
    tombstone::RangeTombstones,
};
use std::sync::Arc;

/// So many keys in a row that range tombstones cover are stepped over; after that the walker seeks
/// to the end of the cover.
const COVERED_STEPPED_MAX: usize = 4;
/// After so many pairs in a row from one source, its next ones are likely to be taken alone.
const STEADY_PAIRS: usize = 2;

/// Who is looking, and at what.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Who.
    pub reader: Reader,
    /// The range tombstones of each source, in the order of their ages. May be shorter than the
    /// list of sources: what is missing is empty.
    pub tombstones: Vec<Arc<RangeTombstones>>,
    /// The keys to show.
    pub range: KeyRange,
}

/// A [`Scope`] as the walkers use it.
struct Sight {
    scope: Scope,
    /// The ages with range tombstones, ascending: usually none.
    covering_ages: Vec<usize>,
}

/// Buffers that a walker keeps from step to step.
#[derive(Default)]
struct Scratch {
    /// A key that the merge may have left.
    key: Vec<u8>,
    /// Operands of `key`, newest first.
    operands: Vec<Slice>,
    /// What they amounted to.
    merged: Slice,
    /// Why nobody can say what `key` amounts to.
    refusal: Option<Error>,
}

impl Scratch {
    #[inline]
    fn keep_key(&mut self, key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
    }

    /// What the key amounts to cannot be said, because of this.
    #[cold]
    fn refuse(&mut self, why: Error) -> Shown {
        self.operands.clear();
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
        let reader = &self.scope.reader;
        let Scratch { key, operands, merged, .. } = scratch;
        operands.clear();
        let apart;
        let base = loop {
            operands.push(merge.pin_value());
            merge.next()?;
            // Below what the snapshot sees there is nothing that it does not see, but for a
            // transaction, whose own operands lie above everything that was committed since it
            // began.
            if merge.valid() && merge.seqno() > reader.snapshot && merge.key() == &key[..] {
                merge.skip_unseen(key, reader.snapshot)?;
            }
            if !merge.valid() || merge.key() != &key[..] {
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
        let folded = reader.fold(key, base, operands);
        // The operands' pins would keep blocks in memory.
        operands.clear();
        match folded {
            Ok(value) => {
                *merged = value.into();
                Ok(Shown::Merged)
            }
            Err(error) => Ok(scratch.refuse(error)),
        }
    }
}

//! What a reader sees of a merge: one pair for each key that exists.
//!
//! Owns the walkers [`Forward`] and [`Backward`] and what both know about visibility: [`View`]. Iterators
//! are made of them.
//!
//! The rules, for one key, newest entry first: entries that the snapshot does not see are passed over.
//! The first one seen decides: a put is the value; an expiring put is the value until its moment; a
//! delete, an expired put and a cover by a range tombstone mean absence, and nothing older counts; a
//! merge operand is put aside and the next older entry is asked for the base.
//!
//! A key that a point delete hides costs a step of each source that has an entry of it: the newer source says
//! that this key is deleted and nothing about the next one, so no block of an older source can be passed over
//! unread. What is covered by a range tombstone is passed by seeking. Compaction takes both away.

mod backward;
mod forward;

pub use backward::Backward;
pub use forward::Forward;

use super::{Merge, resolve};
use crate::{
    cursor::Cursor,
    error::{Error, Result},
    ids::Seqno,
    key::{EXPIRY_BYTES, KeyRange, Kind, split_expiry},
    operator::MergeOperator,
    pin::Slice,
    tombstone::RangeTombstones,
};
use std::sync::Arc;

/// So many keys in a row that range tombstones cover are stepped over; after that the walker seeks to
/// the end of the cover.
const COVERED_STEPPED_MAX: usize = 4;
/// After so many pairs in a row from one source, its next ones are likely to be taken alone.
const STEADY_PAIRS: usize = 2;

/// Who is looking, and at what.
#[derive(Clone, Debug)]
pub struct View {
    /// Entries and range tombstones newer than this are not seen.
    pub snapshot: Seqno,
    /// The range tombstones of each source, in the order of their ranks. May be shorter than the list of
    /// sources: what is missing is empty.
    pub tombstones: Vec<Arc<RangeTombstones>>,
    /// What merge operands mean; `None`: there may be none.
    pub operator: Option<Arc<dyn MergeOperator>>,
    /// The moment, in milliseconds since 1970, that decides what has expired.
    pub now_unix_ms: u64,
    /// The keys to show.
    pub range: KeyRange,
}

/// A [`View`] as the walkers use it.
struct Sight {
    view: View,
    /// The ranks with range tombstones, ascending: usually none.
    covering_ranks: Vec<usize>,
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
}

impl Scratch {
    #[inline]
    fn keep_key(&mut self, key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
    }
}

/// What the newest visible entry of a key, and the older ones if it is an operand, amount to.
#[derive(Clone, Copy)]
enum Found {
    /// No value.
    Absent,
    /// No value, because of a range tombstone of this rank.
    Covered(usize),
    /// The value of the entry that the merge stands on, without so many bytes at its front.
    Here(usize),
    /// The value that the merge operator made, in the scratch beside its key. The merge stands on the
    /// key's base or beyond the key.
    Merged,
}

impl Sight {
    fn new(view: View) -> Self {
        let ranks = view.tombstones.iter().enumerate().filter(|(_, set)| !set.is_empty());
        Sight { covering_ranks: ranks.map(|(rank, _)| rank).collect(), view }
    }

    /// Whether any source has range tombstones.
    #[inline]
    fn has_tombstones(&self) -> bool {
        !self.covering_ranks.is_empty()
    }

    /// The newest rank with a range tombstone over the entry that `merge` stands on.
    #[inline]
    fn cover<C: Cursor>(&self, merge: &Merge<C>) -> Option<usize> {
        if self.covering_ranks.is_empty() { None } else { self.cover_among_tombstones(merge) }
    }

    fn cover_among_tombstones<C: Cursor>(&self, merge: &Merge<C>) -> Option<usize> {
        let (key, seqno, rank) = (merge.key(), merge.seqno(), merge.rank());
        self.covering_ranks.iter().copied().take_while(|&covering| covering <= rank).find(|&covering| {
            let deleted = self.view.tombstones[covering].covering(key, self.view.snapshot);
            deleted.is_some_and(|deleted| covering < rank || deleted > seqno)
        })
    }

    /// How many bytes precede the value of an expiring entry; `None` once it has expired.
    fn unexpired(&self, key: &[u8], stored: &[u8]) -> Result<Option<usize>> {
        match split_expiry(stored) {
            Some((moment, _)) => Ok((moment > self.view.now_unix_ms).then_some(EXPIRY_BYTES)),
            None => Err(Error::Invalid(format!(
                "the expiring entry of the key \"{}\" is shorter than its moment: its table was damaged before it was sealed",
                key.escape_ascii()
            ))),
        }
    }

    /// Judges the key of the entry of this kind that `merge`, walking forward, stands on: the key's newest one
    /// that the snapshot sees.
    #[inline]
    fn judge<C: Cursor>(&self, merge: &mut Merge<C>, kind: Kind, scratch: &mut Scratch) -> Result<Found> {
        if let Some(rank) = self.cover(merge) {
            return Ok(Found::Covered(rank));
        }
        Ok(match kind {
            Kind::Put => Found::Here(0),
            Kind::Delete => Found::Absent,
            Kind::PutExpiring => {
                self.unexpired(merge.key(), merge.value())?.map_or(Found::Absent, Found::Here)
            }
            Kind::Merge => {
                self.fold(merge, scratch)?;
                Found::Merged
            }
        })
    }

    /// Merges the operands from the present entry on, down to the base.
    fn fold<C: Cursor>(&self, merge: &mut Merge<C>, scratch: &mut Scratch) -> Result<()> {
        scratch.keep_key(merge.key());
        let Scratch { key, operands, merged } = scratch;
        operands.clear();
        let skipped = loop {
            operands.push(merge.pin_value());
            merge.next()?;
            // Below what the snapshot sees there is nothing that it does not see, but for a transaction,
            // whose own operands lie above everything that was committed since it began.
            if merge.valid() && merge.seqno() > self.view.snapshot && merge.key() == &key[..] {
                merge.skip_unseen(key, self.view.snapshot)?;
            }
            if !merge.valid() || merge.key() != &key[..] || self.cover(merge).is_some() {
                break None;
            }
            match merge.kind() {
                Kind::Merge => {}
                Kind::Put => break Some(0),
                Kind::Delete => break None,
                Kind::PutExpiring => break self.unexpired(key, merge.value())?,
            }
        };
        let base = skipped.map(|skipped| &merge.value()[skipped..]);
        *merged = resolve(key, self.view.operator.as_deref(), base, operands)?.into();
        // The operands' pins would keep blocks in memory.
        operands.clear();
        Ok(())
    }
}

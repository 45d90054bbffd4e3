//! Which entries survive a job.
//!
//! Owns [`Retain`]: entries go in as a merge yields them (keys ascending; versions of a key newest first)
//! and those that some reader may still tell apart come out in the same order. One pass; only operands
//! and deletes of one key are ever held back.
//!
//! Live snapshots cut the sequence numbers into **stripes**: the stripe of an entry is the number of
//! snapshots older than it. Every reader sees either both or neither of two entries of one stripe, so
//! within a stripe only the newest version of a key counts:
//!
//! * What is older than a value, a delete or a range tombstone of the same stripe goes.
//! * Operands pile up until the value or delete below them in their stripe is met, and are then folded
//!   into one value. They are not folded onto a value that is still to expire, because the result would
//!   not expire. Without a base they are combined with each other, where the operator can.
//! * If nothing older lies below the job's inputs, an end of a key's history needs no base: the oldest
//!   operands become a value, and what only deletes goes if it is of stripe 0. A delete newer than a
//!   snapshot stays even with nothing to hide: it tells an open transaction that what it read has changed.
//! * A value that has expired is a delete for every reader, now and later.
//!
//! What must hold: a range tombstone covers the entries of every older source, and those of its own source
//! with smaller sequence numbers, never those of a newer source. In the output all of them share one
//! source, so an entry's own number must tell: **an entry whose number was elided takes the number of the
//! newest range tombstone over it from an older source**. It was written after that tombstone and before
//! every live snapshot, so no reader can see the difference (docs/decisions/0002).

use crate::{
    canary::{Bug, planted},
    error::Result,
    ids::{SEQNO_MAX, Seqno},
    key::{Kind, VALUE_BYTES_MAX, head, split_expiry},
    operator::MergeOperator,
    pin::Slice,
    tombstone::{RangeTombstone, RangeTombstones},
};
use std::sync::Arc;

/// Under which circumstances a job runs.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'j> {
    /// All live snapshots, ascending. What is visible now need not be among them.
    pub snapshots: &'j [Seqno],
    /// Folds operands; without one they are kept as they are.
    pub operator: Option<&'j dyn MergeOperator>,
    /// Now, as every later reader will agree: Unix milliseconds, not above the clock's high water that
    /// the manifest will record with the result.
    pub now_unix_ms: u64,
    /// Nothing older than the inputs lies below them.
    pub drops_tombstones: bool,
}

/// An entry on its way through.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'e> {
    /// The user key.
    pub key: &'e [u8],
    /// Its sequence number, 0 where elided.
    pub seqno: Seqno,
    /// What it does.
    pub kind: Kind,
    /// Its stored value.
    pub value: &'e [u8],
}

/// Takes the entries that survive.
pub trait Sink {
    /// One entry; keys ascending, versions of one key newest first.
    fn keep(&mut self, entry: Entry<'_>) -> Result<()>;
}

/// The range tombstones of one source.
#[derive(Debug)]
struct Covers {
    all: Arc<RangeTombstones>,
    /// The same set by stripe, for stripes that have any.
    by_stripe: Vec<(usize, RangeTombstones)>,
}

impl Covers {
    /// The newest tombstone of `stripe` over `key`.
    fn covering(&self, key: &[u8], stripe: usize) -> Option<Seqno> {
        let (_, set) = self.by_stripe.iter().find(|(at, _)| *at == stripe)?;
        set.covering(key, SEQNO_MAX)
    }
}

/// Lets the entries through that some reader may still tell apart.
#[derive(Debug)]
pub struct Retain<'j, S> {
    circumstances: Circumstances<'j>,
    /// By rank; empty if no source has a range tombstone.
    covers: Vec<Covers>,
    kept: RangeTombstones,
    sink: S,
    /// The key whose versions are coming, and its head, which nearly always tells the next key from it.
    key: Vec<u8>,
    head: u64,
    /// The stripe of that key of which the newest version has been seen.
    settled: Option<usize>,
    /// Operands of one stripe, newest first, that wait for their base.
    operands: Vec<(Seqno, Slice)>,
    operands_stripe: usize,
    /// Deletes, newest first, of which those that no snapshot precedes go unless something older of the
    /// key is kept.
    deletes: Vec<Seqno>,
}

impl<'j, S: Sink> Retain<'j, S> {
    /// `tombstones` are the range tombstones of the sources, by rank.
    pub fn new(circumstances: Circumstances<'j>, tombstones: Vec<Arc<RangeTombstones>>, sink: S) -> Self {
        let stripe = |seqno| stripe_of(circumstances.snapshots, seqno);
        let mut all: Vec<RangeTombstone> = tombstones.iter().flat_map(|set| set.iter()).collect();
        all.retain(|tombstone| !(circumstances.drops_tombstones && stripe(tombstone.seqno) == 0));
        let kept = RangeTombstones::new(all).thinned(circumstances.snapshots);
        let has_any = tombstones.iter().any(|set| !set.is_empty());
        let by_rank = tombstones.into_iter().filter(|_| has_any).map(|set| {
            let mut parts: Vec<RangeTombstone> = set.iter().collect();
            parts.sort_by_key(|tombstone| stripe(tombstone.seqno));
            let by_stripe = parts.chunk_by(|a, b| stripe(a.seqno) == stripe(b.seqno));
            let by_stripe =
                by_stripe.map(|part| (stripe(part[0].seqno), RangeTombstones::new(part.to_vec())));
            Covers { by_stripe: by_stripe.collect(), all: set }
        });
        Retain {
            circumstances,
            covers: by_rank.collect(),
            kept,
            sink,
            key: Vec::new(),
            head: 0,
            settled: None,
            operands: Vec::new(),
            operands_stripe: 0,
            deletes: Vec::new(),
        }
    }

    /// The range tombstones that survive, of all sources together.
    pub fn tombstones(&self) -> &RangeTombstones {
        &self.kept
    }

    /// The next entry, from the source of this rank. `pin` keeps its value beyond this call.
    pub fn add(&mut self, rank: usize, entry: Entry<'_>, pin: impl FnOnce() -> Slice) -> Result<()> {
        let head = head(entry.key);
        if head != self.head || entry.key != self.key {
            self.end_key()?;
            self.head = head;
            self.key.clear();
            self.key.extend_from_slice(entry.key);
            self.settled = None;
        }
        let seqno = if self.covers.is_empty() { entry.seqno } else { self.seqno_above_older(rank, &entry) };
        let stripe = stripe_of(self.circumstances.snapshots, seqno);
        if self.settled == Some(stripe) {
            return Ok(());
        }
        if !self.operands.is_empty() && self.operands_stripe != stripe {
            self.keep_operands(seqno)?;
        }
        if !self.covers.is_empty() && self.is_covered(rank, entry.key, seqno, stripe) {
            self.settled = Some(stripe);
            return if self.operands.is_empty() { Ok(()) } else { self.fold(None, 0).map(|_| ()) };
        }
        let kind = match entry.kind {
            Kind::PutExpiring if self.has_expired(entry.value) => Kind::Delete,
            kind => kind,
        };
        if kind != Kind::Merge {
            self.settled = Some(stripe);
        }
        match kind {
            Kind::Merge => {
                self.operands_stripe = stripe;
                self.operands.push((seqno, pin()));
                Ok(())
            }
            Kind::Delete => {
                let gone = !self.operands.is_empty() && self.fold(None, seqno)?;
                if !gone {
                    self.deletes.push(seqno);
                }
                Ok(())
            }
            Kind::Put if !self.operands.is_empty() && self.fold(Some(entry.value), seqno)? => Ok(()),
            Kind::Put | Kind::PutExpiring => {
                if !self.operands.is_empty() {
                    self.keep_operands(seqno)?;
                }
                self.keep(seqno, kind, entry.value)
            }
        }
    }

    /// No more entries.
    pub fn finish(mut self) -> Result<S> {
        self.end_key()?;
        Ok(self.sink)
    }

    /// The sink, between entries.
    pub fn sink(&mut self) -> &mut S {
        &mut self.sink
    }

    /// The last version of the key was seen.
    fn end_key(&mut self) -> Result<()> {
        let is_bottom = self.circumstances.drops_tombstones;
        if !self.operands.is_empty() {
            let folded = is_bottom && self.fold(None, 0)?;
            if !folded {
                self.keep_operands(0)?;
            }
        }
        if is_bottom || planted(Bug::DropTombstoneEarly) {
            let oldest_snapshot = self.circumstances.snapshots.first().copied().unwrap_or(SEQNO_MAX);
            self.deletes.retain(|&seqno| seqno > oldest_snapshot);
        }
        self.keep_deletes()
    }

    /// Replaces the waiting operands by the value that they give on `base`. `false`: they cannot be
    /// folded and were kept; the base, whose number is `below`, is still to be dealt with.
    fn fold(&mut self, base: Option<&[u8]>, below: Seqno) -> Result<bool> {
        let oldest_first: Vec<&[u8]> = self.operands.iter().rev().map(|(_, operand)| &operand[..]).collect();
        // An operator that refuses does not stop the job: whoever reads the key is told.
        let folded = self.circumstances.operator.and_then(|operator| {
            operator.merge(&self.key, base, &oldest_first).ok().filter(|value| fits(value))
        });
        let (Some(value), Some(&(newest, _))) = (folded, self.operands.first()) else {
            self.keep_operands(below)?;
            return Ok(false);
        };
        self.operands.clear();
        self.keep(newest, Kind::Put, &value)?;
        Ok(true)
    }

    /// Keeps the waiting operands, as few as the operator can make of them. One whose number was elided
    /// takes that of the next older version, or `below` if it is the oldest: numbers of a key descend.
    fn keep_operands(&mut self, below: Seqno) -> Result<()> {
        let mut operands = std::mem::take(&mut self.operands);
        if let Some(operator) = self.circumstances.operator {
            combine(operator, &self.key, &mut operands);
        }
        let mut below = below;
        for (seqno, _) in operands.iter_mut().rev() {
            below = below.max(*seqno);
            *seqno = below;
        }
        for (seqno, operand) in operands.drain(..) {
            self.keep(seqno, Kind::Merge, &operand)?;
        }
        self.operands = operands;
        Ok(())
    }

    fn keep_deletes(&mut self) -> Result<()> {
        for seqno in self.deletes.drain(..) {
            self.sink.keep(Entry { key: &self.key, seqno, kind: Kind::Delete, value: &[] })?;
        }
        Ok(())
    }

    /// Keeps an entry of the present key, and the deletes above it that now have something to hide.
    fn keep(&mut self, seqno: Seqno, kind: Kind, value: &[u8]) -> Result<()> {
        if !self.deletes.is_empty() {
            self.keep_deletes()?;
        }
        self.sink.keep(Entry { key: &self.key, seqno, kind, value })
    }

    /// The entry's sequence number, or, where that was elided, a number that keeps it above the range
    /// tombstones of older sources.
    fn seqno_above_older(&self, rank: usize, entry: &Entry<'_>) -> Seqno {
        let older = self.covers[rank + 1..].iter();
        let tombstones = older.filter_map(|covers| covers.all.covering(entry.key, SEQNO_MAX));
        tombstones.fold(entry.seqno, Seqno::max)
    }

    /// Whether a range tombstone of the entry's stripe covers it.
    fn is_covered(&self, rank: usize, key: &[u8], seqno: Seqno, stripe: usize) -> bool {
        self.covers[..rank].iter().any(|newer| newer.covering(key, stripe).is_some())
            || self.covers[rank].covering(key, stripe).is_some_and(|tombstone| tombstone > seqno)
    }

    /// A value too short to hold its moment is left for readers to report.
    fn has_expired(&self, stored: &[u8]) -> bool {
        split_expiry(stored).is_some_and(|(moment, _)| moment <= self.circumstances.now_unix_ms)
    }
}

/// How many of `snapshots` do not see an entry of this number.
fn stripe_of(snapshots: &[Seqno], seqno: Seqno) -> usize {
    snapshots.partition_point(|&snapshot| snapshot < seqno)
}

fn fits(value: &[u8]) -> bool {
    value.len() as u64 <= VALUE_BYTES_MAX
}

/// Combines neighbours until none will. In rounds of pairs, because an operator that concatenates would
/// copy a long chain once for each of its operands.
fn combine(operator: &dyn MergeOperator, key: &[u8], newest_first: &mut Vec<(Seqno, Slice)>) {
    loop {
        let before = newest_first.len();
        let mut fewer: Vec<(Seqno, Slice)> = Vec::with_capacity(before.div_ceil(2));
        let mut operands = newest_first.drain(..).peekable();
        while let Some((seqno, newer)) = operands.next() {
            let both = operands.peek().and_then(|(_, older)| operator.combine(key, older, &newer));
            match both.filter(|both| fits(both)) {
                Some(both) => {
                    operands.next();
                    fewer.push((seqno, Slice::from(both)));
                }
                None => fewer.push((seqno, newer)),
            }
        }
        drop(operands);
        *newest_first = fewer;
        if newest_first.len() == before {
            return;
        }
    }
}

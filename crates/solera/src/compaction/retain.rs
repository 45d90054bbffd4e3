//! Which entries survive a job: `Retain`, one pass over a merge, which tells a `Sink` of each
//! entry.
//!
//! Entries go in and come out with keys ascending, versions newest first. Live snapshots cut the
//! numbers into stripes; within one only the newest version of a key counts. Operands are folded
//! where the operator can; expired values become deletes. At the bottom (`drops_tombstones`)
//! deletes that hide nothing go, unless newer than `oldest_transaction`.
//!
//! What must hold: no reader can tell that a job ran. Each entry that goes in is kept or dropped,
//! once. A range tombstone never covers entries of a newer source (docs/decisions/0002).
//!
//! Caller: `job`, whose `Outputs` is the `Sink`; `retain_tests` checks it by brute force.

use crate::{
    canary::{Bug, planted},
    error::Result,
    ids::{SEQNO_MAX, Seqno},
    key::{Kind, VALUE_BYTES_MAX, Verb, head},
    operator::MergeOperator,
    pin::Slice,
    sight::{Reader, Verdict, hides},
    tombstone::{RangeTombstone, RangeTombstones},
};
use std::sync::Arc;

/// Operands of a key that wait for their base have so many bytes at most, and what is made of them
/// nearly so: a job holds them in memory, some times over. What is larger stays as it is.
const OPERANDS_BYTES_MAX: usize = 16 << 20;
/// From so many bytes on, the last two become one at once if that is less: of those whose largest
/// counts, a job then holds one and not two of whatever size.
const OPERANDS_BYTES_FEW: usize = 1 << 20;

/// Which readers a job must not disturb.
#[derive(Clone, Copy, Debug)]
pub struct Readers<'j> {
    /// All live snapshots, ascending. What is visible now need not be among them.
    pub snapshots: &'j [Seqno],
    /// Nothing older than the inputs lies below them.
    pub drops_tombstones: bool,
    /// What an open transaction, or one that begins now, has read is no older than this.
    pub oldest_transaction: Seqno,
    /// No entry and no range tombstone of the inputs is older than this.
    pub oldest_input: Seqno,
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

/// Why an entry or a range tombstone that went in does not come out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Something newer of the same stripe counts in its place.
    Shadowed,
    /// A range tombstone of the same stripe covers it.
    Covered,
    /// Its moment has come.
    Expired,
    /// It became part of an entry that was made in its place.
    Folded,
    /// It only deletes, and nothing is left below that it could delete.
    Bottom,
}

/// Takes what comes out, and is told of what does not. Each entry that goes in is kept or dropped,
/// once.
pub trait Sink {
    /// An entry survives; keys ascending, versions of one key newest first. Its number may be
    /// another than before.
    fn keep(&mut self, entry: Entry<'_>) -> Result<()>;
    /// An entry that did not go in comes out: operands were folded, or a value that has expired
    /// became a delete. In the order of those that are kept.
    fn made(&mut self, entry: Entry<'_>) -> Result<()>;
    /// An entry does not come out.
    fn dropped(&mut self, entry: Entry<'_>, why: Why) -> Result<()>;
    /// What follows is of another key than what came before.
    fn next_key(&mut self);
    /// Nothing of a range tombstone comes out.
    fn dropped_tombstone(&mut self, tombstone: &RangeTombstone, why: Why);
}

/// The range tombstones of one source.
#[derive(Debug)]
struct Covers {
    all: Arc<RangeTombstones>,
    /// The same set by stripe, for stripes that have any.
    by_stripe: Vec<(usize, Arc<RangeTombstones>)>,
}

impl Covers {
    /// The newest tombstone of `stripe` over `key`.
    fn covering(&self, key: &[u8], stripe: usize) -> Option<Seqno> {
        let (_, set) = self.by_stripe.iter().find(|(at, _)| *at == stripe)?;
        set.covering(key, SEQNO_MAX)
    }
}

/// An operand that waits for its base.
struct Operand {
    seqno: Seqno,
    value: Slice,
    /// It was made of several that went in.
    is_made: bool,
}

/// A delete that waits for something to hide.
#[derive(Clone, Copy)]
struct Delete {
    seqno: Seqno,
    /// It was made of a value that has expired.
    is_made: bool,
}

/// Lets the entries through that some reader may still tell apart.
///
/// Live snapshots cut the sequence numbers into **stripes**: the stripe of an entry is the number
/// of snapshots older than it. Every reader sees either both or neither of two entries of one
/// stripe, so within a stripe only the newest version of a key counts:
///
/// * What is older than a value, a delete or a range tombstone of the same stripe goes.
/// * Operands pile up until the value or delete below them in their stripe is met, and are then
///   folded into one value. They are not folded onto a value that is still to expire, because the
///   result would not expire. Without a base they are combined with each other, where the operator
///   can.
/// * If nothing older lies below the job's inputs, a key's history ends there. The oldest operands
///   become a value. What only deletes goes once nothing is kept that it hides. A delete newer
///   than an open transaction stays even with nothing to hide: it tells the transaction that what
///   it read has changed.
/// * A value that has expired is a delete for every reader, now and later.
///
/// What must hold: a range tombstone covers the entries of every older source, and those of its own
/// source with smaller sequence numbers. It never covers those of a newer source. In the output all
/// of them share one source, so an entry's own number must tell. **An entry whose number was elided
/// takes the number of the newest range tombstone over it from an older source.** It was written
/// after that tombstone and before every live snapshot, so no reader can see the difference
/// (docs/decisions/0002).
pub struct Retain<'j, S> {
    readers: Readers<'j>,
    /// How every later reader judges: its moment is not above the clock's high water that the
    /// manifest will record with the result. Without an operator operands are kept as they are.
    reader: &'j Reader,
    /// By age; empty if no source has a range tombstone.
    covers: Vec<Covers>,
    kept: RangeTombstones,
    sink: S,
    /// The key whose versions are coming, and its head, which nearly always tells the next key from
    /// it.
    key: Vec<u8>,
    head: u64,
    /// The stripe of that key of which the newest version has been seen.
    settled: Option<usize>,
    /// Operands of one stripe, newest first, that wait for their base.
    operands: Vec<Operand>,
    operands_stripe: usize,
    /// Bytes of them.
    operands_bytes: usize,
    /// The operator makes no less of them.
    keeps_operands: bool,
    /// Deletes, newest first, of which those that no transaction precedes go unless something older
    /// of the key is kept.
    deletes: Vec<Delete>,
}

impl<'j, S: Sink> Retain<'j, S> {
    /// `tombstones` are the range tombstones of the sources, by age. The sink is told at once of
    /// those that go.
    pub fn new(
        readers: Readers<'j>,
        reader: &'j Reader,
        tombstones: Vec<Arc<RangeTombstones>>,
        mut sink: S,
    ) -> Self {
        let stripe = |seqno| stripe_of(readers.snapshots, seqno);
        // No entry is of an older stripe than the oldest: what is covered in it goes with its
        // cover.
        let is_idle =
            |seqno| stripe(seqno) == stripe(readers.oldest_input) && seqno <= readers.oldest_transaction;
        let (bottom, all): (Vec<_>, Vec<_>) = tombstones
            .iter()
            .flat_map(|set| set.shared().iter().cloned())
            .partition(|tombstone| readers.drops_tombstones && is_idle(tombstone.seqno));
        bottom.iter().for_each(|tombstone| sink.dropped_tombstone(tombstone, Why::Bottom));
        let all = RangeTombstones::from_shared(all);
        let kept = thinned(all, readers.snapshots, &mut sink);
        let has_any = tombstones.iter().any(|set| !set.is_empty());
        let by_age = tombstones.into_iter().filter(|_| has_any);
        let by_age = by_age.map(|all| Covers { by_stripe: by_stripe(&all, stripe), all });
        Retain {
            readers,
            reader,
            covers: by_age.collect(),
            kept,
            sink,
            key: Vec::new(),
            head: 0,
            settled: None,
            operands: Vec::new(),
            operands_stripe: 0,
            operands_bytes: 0,
            keeps_operands: false,
            deletes: Vec::new(),
        }
    }

    /// The range tombstones that survive, of all sources together, once.
    pub fn take_tombstones(&mut self) -> RangeTombstones {
        std::mem::take(&mut self.kept)
    }

    /// The next entry, from the source of this age. `pin` keeps its value beyond this call.
    pub fn add(&mut self, age: usize, entry: Entry<'_>, pin: impl FnOnce() -> Slice) -> Result<()> {
        let head = head(entry.key);
        if head != self.head || entry.key != self.key {
            self.end_key()?;
            self.sink.next_key();
            self.head = head;
            self.key.clear();
            self.key.extend_from_slice(entry.key);
            self.settled = None;
        }
        let seqno = if self.covers.is_empty() { entry.seqno } else { self.seqno_above_older(age, &entry) };
        let stripe = stripe_of(self.readers.snapshots, seqno);
        if self.settled == Some(stripe) {
            return self.sink.dropped(entry, Why::Shadowed);
        }
        if !self.operands.is_empty() && self.operands_stripe != stripe {
            self.keep_operands(seqno)?;
        }
        if !self.covers.is_empty() && self.is_covered(age, entry.key, seqno, stripe) {
            self.settled = Some(stripe);
            self.sink.dropped(entry, Why::Covered)?;
            return if self.operands.is_empty() { Ok(()) } else { self.fold(None, 0).map(|_| ()) };
        }
        let verdict = self.reader.judge(entry.kind, || entry.value, false);
        if verdict != Verdict::Operand {
            self.settled = Some(stripe);
        }
        match verdict {
            Verdict::Operand => {
                if self.operands.is_empty() {
                    (self.operands_bytes, self.keeps_operands) = (0, false);
                } else if self.operands_bytes + entry.value.len() > OPERANDS_BYTES_MAX {
                    // Older ones may still be folded; these stay above what comes of that.
                    self.keep_operands(seqno)?;
                    self.operands_bytes = 0;
                }
                self.operands_stripe = stripe;
                self.operands_bytes += entry.value.len();
                self.operands.push(Operand { seqno, value: pin(), is_made: false });
                match self.operands_bytes > OPERANDS_BYTES_FEW && !self.keeps_operands {
                    true => self.combine_last(),
                    false => Ok(()),
                }
            }
            Verdict::Absent => self.add_delete(entry, seqno),
            // Onto a value that is still to expire nothing is folded. One that is too short to hold
            // its moment is left for readers to report.
            Verdict::Value(0) if self.fold_if_any(Some(entry.value), seqno)? => {
                self.sink.dropped(entry, Why::Folded)
            }
            Verdict::Separated(0) if !self.operands.is_empty() && self.fold_apart(&entry, seqno)? => {
                self.sink.dropped(entry, Why::Folded)
            }
            Verdict::Value(_) | Verdict::Separated(_) | Verdict::Malformed => {
                if !self.operands.is_empty() {
                    self.keep_operands(seqno)?;
                }
                self.keep(seqno, entry.kind, entry.value)
            }
        }
    }

    /// A delete, or a value that has expired, which is one for every reader.
    fn add_delete(&mut self, entry: Entry<'_>, seqno: Seqno) -> Result<()> {
        let is_made = match entry.kind.verb() {
            Verb::Delete => false,
            Verb::Put | Verb::Merge => true,
        };
        let is_folded = self.fold_if_any(None, seqno)?;
        if is_made || is_folded {
            self.sink.dropped(entry, if is_made { Why::Expired } else { Why::Folded })?;
        }
        if !is_folded {
            self.deletes.push(Delete { seqno, is_made });
        }
        Ok(())
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
    #[inline]
    fn end_key(&mut self) -> Result<()> {
        // Nearly always nothing waits.
        if self.operands.is_empty() && self.deletes.is_empty() { Ok(()) } else { self.end_waiting() }
    }

    /// As [`Retain::end_key`]: what waits is kept, folded or dropped.
    fn end_waiting(&mut self) -> Result<()> {
        let is_bottom = self.readers.drops_tombstones;
        if !self.operands.is_empty() {
            let folded = is_bottom && self.fold(None, 0)?;
            if !folded {
                self.keep_operands(0)?;
            }
        }
        if is_bottom || planted(Bug::DropTombstoneEarly) {
            let oldest_transaction = self.readers.oldest_transaction;
            let goes = |delete: &Delete| delete.seqno <= oldest_transaction;
            for delete in self.deletes.iter().filter(|delete| goes(delete) && !delete.is_made) {
                self.sink.dropped(of_delete(&self.key, *delete), Why::Bottom)?;
            }
            self.deletes.retain(|delete| !goes(delete));
        }
        self.keep_deletes()
    }

    /// As [`Retain::fold`] onto the separated value of `base`. A value that cannot be read does not
    /// stop the job: a reader of the key is told.
    fn fold_apart(&mut self, base: &Entry<'_>, below: Seqno) -> Result<bool> {
        match self.reader.value_apart(base.value, base.key) {
            Ok(value) => self.fold(Some(&value), below),
            Err(_) => Ok(false),
        }
    }

    /// As [`Retain::fold`]; `false` also if there is nothing to fold.
    fn fold_if_any(&mut self, base: Option<&[u8]>, below: Seqno) -> Result<bool> {
        Ok(!self.operands.is_empty() && self.fold(base, below)?)
    }

    /// Replaces the waiting operands by the value that they give on `base`. `false`: they cannot be
    /// folded and were kept; the base, whose number is `below`, is still to be dealt with.
    fn fold(&mut self, base: Option<&[u8]>, below: Seqno) -> Result<bool> {
        if base.is_some_and(|base| base.len() > OPERANDS_BYTES_MAX) {
            self.keep_operands(below)?;
            return Ok(false);
        }
        let oldest_first: Vec<&[u8]> = self.operands.iter().rev().map(|operand| &operand.value[..]).collect();
        // An operator that refuses does not stop the job: a reader of the key is told.
        let folded = self.reader.operator.as_ref().and_then(|operator| {
            operator.merge(&self.key, base, &oldest_first).ok().filter(|value| fits(value))
        });
        let (Some(value), Some(newest)) = (folded, self.operands.first()) else {
            self.keep_operands(below)?;
            return Ok(false);
        };
        let newest = newest.seqno;
        for operand in self.operands.drain(..).filter(|operand| !operand.is_made) {
            self.sink.dropped(of_operand(&self.key, &operand), Why::Folded)?;
        }
        self.keep_deletes()?;
        self.sink.made(Entry { key: &self.key, seqno: newest, kind: Kind::Put, value: &value })?;
        Ok(true)
    }

    /// Makes one operand of the last two, if that is less. An operator that concatenates makes no
    /// less, and would copy the whole again and again.
    #[cold]
    fn combine_last(&mut self) -> Result<()> {
        let [.., newer, older] = &self.operands[..] else { return Ok(()) };
        let bytes = newer.value.len() + older.value.len();
        let operator = self.reader.operator.as_ref();
        let both = operator.and_then(|operator| operator.combine(&self.key, &older.value, &newer.value));
        let Some(both) = both.filter(|both| both.len() < bytes) else {
            self.keeps_operands = true;
            return Ok(());
        };
        let seqno = newer.seqno;
        let parts = self.operands.split_off(self.operands.len() - 2);
        for part in parts.iter().filter(|part| !part.is_made) {
            self.sink.dropped(of_operand(&self.key, part), Why::Folded)?;
        }
        self.operands_bytes -= bytes - both.len();
        self.operands.push(Operand { seqno, value: Slice::from(both), is_made: true });
        Ok(())
    }

    /// Keeps the waiting operands, as few as the operator can make of them. One whose number was
    /// elided takes that of the next older version, or `below` if it is the oldest: numbers of a
    /// key descend.
    fn keep_operands(&mut self, below: Seqno) -> Result<()> {
        let mut operands = std::mem::take(&mut self.operands);
        if let Some(operator) = &self.reader.operator {
            let (key, sink) = (&self.key, &mut self.sink);
            combine(&**operator, key, &mut operands, |operand| {
                sink.dropped(of_operand(key, operand), Why::Folded)
            })?;
        }
        let mut below = below;
        for operand in operands.iter_mut().rev() {
            below = below.max(operand.seqno);
            operand.seqno = below;
        }
        self.keep_deletes()?;
        for operand in operands.drain(..) {
            let entry = of_operand(&self.key, &operand);
            if operand.is_made { self.sink.made(entry)? } else { self.sink.keep(entry)? }
        }
        self.operands = operands;
        Ok(())
    }

    /// Keeps the deletes: something that they hide is kept, or they must stay without.
    fn keep_deletes(&mut self) -> Result<()> {
        for delete in self.deletes.drain(..) {
            let entry = of_delete(&self.key, delete);
            if delete.is_made { self.sink.made(entry)? } else { self.sink.keep(entry)? }
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

    /// The entry's sequence number, or, where that was elided, a number that keeps it above the
    /// range tombstones of older sources.
    fn seqno_above_older(&self, age: usize, entry: &Entry<'_>) -> Seqno {
        let older = self.covers[age + 1..].iter();
        let tombstones = older.filter_map(|covers| covers.all.covering(entry.key, SEQNO_MAX));
        tombstones.fold(entry.seqno, Seqno::max)
    }

    /// Whether a range tombstone of the entry's stripe covers it.
    fn is_covered(&self, age: usize, key: &[u8], seqno: Seqno, stripe: usize) -> bool {
        let (newer, own) = (self.covers[..age].iter(), &self.covers[age]);
        let hidden_by = |covers: &Covers, is_newer| {
            covers.covering(key, stripe).is_some_and(|tombstone| hides(tombstone, is_newer, seqno))
        };
        newer.into_iter().any(|newer| hidden_by(newer, true)) || hidden_by(own, false)
    }
}

/// What readers can tell of `all`; the sink is told of those that go.
fn thinned(all: RangeTombstones, snapshots: &[Seqno], sink: &mut impl Sink) -> RangeTombstones {
    let kept = all.thinned(snapshots);
    // Mostly all stay. Then the two share what they hold.
    if kept == all {
        return all;
    }
    let mut left: Vec<&Arc<RangeTombstone>> = kept.shared().iter().collect();
    left.sort_by_key(|tombstone| tombstone.seqno);
    for tombstone in all.by_start().into_iter().filter(|tombstone| !is_among(tombstone, &left)) {
        sink.dropped_tombstone(tombstone, Why::Shadowed);
    }
    kept
}

/// The tombstones of `all` for each stripe that has any: the set itself, if it has one stripe.
fn by_stripe(
    all: &Arc<RangeTombstones>,
    stripe: impl Fn(Seqno) -> usize,
) -> Vec<(usize, Arc<RangeTombstones>)> {
    // Newest first, so those of a stripe follow each other.
    let parts = all.shared().chunk_by(|a, b| stripe(a.seqno) == stripe(b.seqno));
    let set = |part: &[Arc<RangeTombstone>]| match part.len() == all.len() {
        true => all.clone(),
        false => Arc::new(RangeTombstones::from_shared(part.to_vec())),
    };
    parts.map(|part| (stripe(part[0].seqno), set(part))).collect()
}

/// Whether something of `tombstone` is in `left`, which is in the order of numbers.
fn is_among(tombstone: &RangeTombstone, left: &[&Arc<RangeTombstone>]) -> bool {
    let first = left.partition_point(|other| other.seqno < tombstone.seqno);
    let mut parts = left[first..].iter().take_while(|other| other.seqno == tombstone.seqno);
    parts.any(|other| other.start < tombstone.end && tombstone.start < other.end)
}

fn of_operand<'e>(key: &'e [u8], operand: &'e Operand) -> Entry<'e> {
    Entry { key, seqno: operand.seqno, kind: Kind::Merge, value: &operand.value }
}

fn of_delete(key: &[u8], delete: Delete) -> Entry<'_> {
    Entry { key, seqno: delete.seqno, kind: Kind::Delete, value: &[] }
}

/// How many of `snapshots` do not see an entry of this number.
fn stripe_of(snapshots: &[Seqno], seqno: Seqno) -> usize {
    snapshots.partition_point(|&snapshot| snapshot < seqno)
}

fn fits(value: &[u8]) -> bool {
    value.len() as u64 <= VALUE_BYTES_MAX
}

/// Combines neighbours until none will, and hands those that went in and are now part of another to
/// `folded`. In rounds of pairs, because an operator that concatenates would copy a long chain once
/// for each of its operands.
fn combine(
    operator: &dyn MergeOperator,
    key: &[u8],
    newest_first: &mut Vec<Operand>,
    mut folded: impl FnMut(&Operand) -> Result<()>,
) -> Result<()> {
    loop {
        let before = newest_first.len();
        let mut fewer: Vec<Operand> = Vec::with_capacity(before.div_ceil(2));
        let mut operands = newest_first.drain(..).peekable();
        while let Some(newer) = operands.next() {
            let both = operands.peek().and_then(|older| operator.combine(key, &older.value, &newer.value));
            let Some(both) = both.filter(|both| fits(both)) else {
                fewer.push(newer);
                continue;
            };
            for part in [Some(&newer), operands.next().as_ref()].into_iter().flatten() {
                if !part.is_made {
                    folded(part)?;
                }
            }
            fewer.push(Operand { seqno: newer.seqno, value: Slice::from(both), is_made: true });
        }
        drop(operands);
        *newest_first = fewer;
        if newest_first.len() == before {
            return Ok(());
        }
    }
}

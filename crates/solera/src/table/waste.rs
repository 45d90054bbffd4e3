//! What of a table is or will be of no use, and what goes with it: `Waste`, in its descriptor.
//!
//! It has bounded lists: old versions by the snapshots that hold them (`Held`), entries by their
//! moment of expiry (`Expiring`), and deleted key ranges (`Cover`). Only the 32 widest ranges are
//! named. It also says how many entries repeat a key, for which snapshots tombstones stayed, and
//! how many entries point to which value file. `hold`, `expire`, `cover` and `point` note these
//! while a job writes. Where there are too many versions or moments, neighbours become one group.
//!
//! What must hold: nothing is said to be droppable too early or too much. A merge of the table
//! drops what was said, so no table is written anew in vain again and again.
//! Callers: `compaction::job` and `table::writer` note, `table::descriptor` stores,
//! `compaction::space` asks what is droppable by now. `compaction` and the models of `solera-bench`
//! use `ENTRY_BYTES`.

use crate::{
    codec::{DecodeError, Decoder, put_bytes, put_end, put_varint},
    ids::{SEQNO_MAX, Seqno},
    key::head,
    tombstone::RangeTombstones,
    values::{Pointer, Tally},
};

/// Most groups of old versions that a descriptor tells apart.
pub const HELD_MAX: usize = 8;
/// Most moments of expiry that a descriptor tells apart.
pub const MOMENTS_MAX: usize = 16;
/// Most stretches of deleted keys that a descriptor names.
pub const COVERS_MAX: usize = 32;
/// Most value files that a descriptor names. A table that points to more names none.
pub const POINTED_MAX: usize = 64;
/// Longest bound of such a stretch, in bytes: the manifest holds them. A longer one stands for a
/// little less.
pub const COVER_BOUND_BYTES_MAX: usize = 256;
/// Moments that are collected before they are made fewer.
const MOMENTS_COLLECTED: usize = 512;
/// What an entry takes in a table besides its key and value, nearly.
pub const ENTRY_BYTES: u64 = 4;

/// Old versions of keys that some snapshot saw when the table was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Every snapshot that needs them is in this range of sequence numbers,
    pub from: Seqno,
    /// both ends included.
    pub to: Seqno,
    /// How many versions.
    pub entries: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Bytes in value files that they point to.
    pub apart: u64,
}

/// Entries that expire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expiring {
    /// By this moment all of them have expired: Unix milliseconds.
    pub until_ms: u64,
    /// How many entries.
    pub entries: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Bytes in value files that they point to.
    pub apart: u64,
}

/// A stretch of keys that one or more range tombstones of the table cover without a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cover {
    /// First key that is covered.
    pub start: Box<[u8]>,
    /// First key that is not covered any more.
    pub end: Box<[u8]>,
    /// The largest number among the newest tombstones over each key: a reader that sees it sees all
    /// covered.
    pub seqno: Seqno,
}

impl Cover {
    /// Gives it bounds that are short enough, of a stretch within it. False if none is left.
    fn shorten(&mut self) -> bool {
        if self.end.len() > COVER_BOUND_BYTES_MAX {
            self.end = self.end[..COVER_BOUND_BYTES_MAX].into();
        }
        if self.start.len() > COVER_BOUND_BYTES_MAX {
            // The first key that is above all that begin so.
            let mut start = self.start[..COVER_BOUND_BYTES_MAX].to_vec();
            while start.pop_if(|last| *last == u8::MAX).is_some() {}
            match start.last_mut() {
                Some(last) => *last += 1,
                None => return false,
            }
            self.start = start.into();
        }
        self.start < self.end
    }
}

/// How many bytes both begin with.
fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// What a table holds that is, or will be, of no use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waste {
    /// Old versions, by the snapshots that hold them; at most [`HELD_MAX`].
    pub held: Vec<Held>,
    /// Expiring entries, by ascending moment; at most [`MOMENTS_MAX`].
    pub expiring: Vec<Expiring>,
    /// Deletes and range tombstones stayed though nothing older lay below: for snapshots from one
    /// number to another. `None`: whether they could go was not tried.
    pub tombstones_held: Option<(Seqno, Seqno)>,
    /// Some of the stretches that its range tombstones cover, ascending; at most [`COVERS_MAX`].
    pub covers: Vec<Cover>,
    /// How many entries are of the same key as the one before them: a delete of a key hides all its
    /// entries.
    pub repeated: u64,
    /// How many of its entries point to which value file. Nothing also where it is not known: of a
    /// table that points to very many files, or was written before this was counted.
    pub pointers: Tally,
}

impl Waste {
    /// Notes an old version of so many `bytes` that snapshots in `from..=to` hold, and of so many
    /// `apart` in a value file.
    pub fn hold(&mut self, from: Seqno, to: Seqno, bytes: u64, apart: u64) {
        match self.held.iter_mut().find(|held| (held.from, held.to) == (from, to)) {
            Some(held) => {
                held.entries += 1;
                held.bytes += bytes;
                held.apart += apart;
            }
            None => {
                self.held.push(Held { from, to, entries: 1, bytes, apart });
                if self.held.len() > HELD_MAX {
                    self.join_smallest();
                }
            }
        }
    }

    /// Makes one group of the smallest and its neighbour: both are then droppable only together.
    /// Neither of the table nor of value files does such a pair hold much.
    fn join_smallest(&mut self) {
        self.held.sort_by_key(|held| (held.from, held.to));
        let sums = self.held.iter().fold((1, 1), |sums, held| (sums.0 + held.bytes, sums.1 + held.apart));
        let share = |held: &Held| [held.bytes as f64 / sums.0 as f64, held.apart as f64 / sums.1 as f64];
        let of_pair = |at: usize| {
            let (one, next) = (share(&self.held[at]), share(&self.held[at + 1]));
            (one[0] + next[0]).max(one[1] + next[1])
        };
        let pairs = (0..self.held.len() - 1).map(|at| (at, of_pair(at)));
        let Some((at, _)) = pairs.min_by(|a, b| a.1.total_cmp(&b.1)) else { return };
        let next = self.held.remove(at + 1);
        let held = &mut self.held[at];
        held.to = held.to.max(next.to);
        held.entries += next.entries;
        held.bytes += next.bytes;
        held.apart += next.apart;
    }

    /// Notes an entry of so many `bytes`, and of so many `apart` in a value file, that expires at
    /// `moment_ms`.
    pub fn expire(&mut self, moment_ms: u64, bytes: u64, apart: u64) {
        self.expiring.push(Expiring { until_ms: moment_ms, entries: 1, bytes, apart });
        if self.expiring.len() >= MOMENTS_COLLECTED {
            self.thin_moments();
        }
    }

    /// Brings the moments in order and their number down to [`MOMENTS_MAX`]. An entry may be
    /// counted with a later moment than its own, never with an earlier one.
    pub fn thin_moments(&mut self) {
        self.expiring.sort_by_key(|expiring| expiring.until_ms);
        let sums = self.expiring.iter().map(|expiring| (expiring.bytes, expiring.apart));
        let (bytes, apart) = sums.fold((0, 0), |sums, of| (sums.0 + of.0, sums.1 + of.1));
        // Of two neighbours one share is exceeded. So there are at most twice as many as shares.
        let parts = MOMENTS_MAX as u64 / if apart > 0 { 4 } else { 2 };
        let (share, share_apart) = (bytes.div_ceil(parts).max(1), apart.div_ceil(parts));
        let mut fewer: Vec<Expiring> = Vec::with_capacity(MOMENTS_MAX);
        for next in self.expiring.drain(..) {
            match fewer.last_mut() {
                Some(last)
                    if last.until_ms == next.until_ms
                        || last.bytes + next.bytes <= share && last.apart + next.apart <= share_apart =>
                {
                    last.until_ms = next.until_ms;
                    last.entries += next.entries;
                    last.bytes += next.bytes;
                    last.apart += next.apart;
                }
                _ => fewer.push(next),
            }
        }
        self.expiring = fewer;
    }

    /// Notes which keys `tombstones` cover: the widest stretches, by the first eight bytes of their
    /// bounds behind what all begin with.
    pub fn cover(&mut self, tombstones: &RangeTombstones) {
        let mut covers: Vec<Cover> = Vec::new();
        for (start, end, seqno) in tombstones.stretches() {
            match covers.last_mut() {
                Some(last) if *last.end == *start => {
                    last.end = end.into();
                    last.seqno = last.seqno.max(seqno);
                }
                _ => covers.push(Cover { start: start.into(), end: end.into(), seqno }),
            }
        }
        covers.retain_mut(Cover::shorten);
        let shared = match (covers.first(), covers.last()) {
            (Some(first), Some(last)) => common_prefix(&first.start, &last.end),
            _ => 0,
        };
        let at = |bound: &[u8]| head(&bound[shared.min(bound.len())..]);
        covers.sort_by_key(|cover| std::cmp::Reverse(at(&cover.end) - at(&cover.start)));
        covers.truncate(COVERS_MAX);
        covers.sort_by(|a, b| a.start.cmp(&b.start));
        self.covers = covers;
    }

    /// Notes an entry that points to a value.
    pub fn point(&mut self, pointer: &Pointer) {
        self.pointers.add(pointer);
    }

    /// Says nothing of pointers if they lead to very many files.
    pub fn forget_many_pointers(&mut self) {
        if self.pointers.changes().count() > POINTED_MAX {
            self.pointers = Tally::default();
        }
    }

    /// Bytes in value files of each group of old versions, and then of expiring entries.
    fn apart(&mut self) -> impl Iterator<Item = &mut u64> {
        let held = self.held.iter_mut().map(|held| &mut held.apart);
        held.chain(self.expiring.iter_mut().map(|expiring| &mut expiring.apart))
    }

    /// Appends it: old versions, moments, tombstones that wait and repeated keys, covers; each list
    /// after its length, and pointers among them if there are any, with what old versions and
    /// expiring entries have of them.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.held.len() as u64);
        for held in &self.held {
            [held.from, held.to, held.entries, held.bytes]
                .into_iter()
                .for_each(|number| put_varint(out, number));
        }
        put_varint(out, self.expiring.len() as u64);
        for expiring in &self.expiring {
            let numbers = [expiring.until_ms, expiring.entries, expiring.bytes];
            numbers.into_iter().for_each(|number| put_varint(out, number));
        }
        let has_pointers = !self.pointers.is_empty();
        let held = self.held.iter().map(|held| held.apart);
        let apart: Vec<u64> = held.chain(self.expiring.iter().map(|expiring| expiring.apart)).collect();
        let has_apart = apart.iter().any(|&bytes| bytes > 0);
        out.push(
            u8::from(self.tombstones_held.is_some())
                | u8::from(self.repeated > 0) << 1
                | u8::from(has_pointers) << 2
                | u8::from(has_apart) << 3,
        );
        if let Some((from, to)) = self.tombstones_held {
            put_varint(out, from);
            put_varint(out, to);
        }
        if self.repeated > 0 {
            put_varint(out, self.repeated);
        }
        if has_pointers {
            self.pointers.encode(out);
        }
        if has_apart {
            apart.into_iter().for_each(|bytes| put_varint(out, bytes));
        }
        put_varint(out, self.covers.len() as u64);
        for cover in &self.covers {
            put_bytes(out, &cover.start);
            put_end(out, &cover.end);
            put_varint(out, cover.seqno);
        }
    }

    /// Reads what [`Waste::encode`] wrote.
    pub(super) fn decode(decoder: &mut Decoder<'_>) -> Result<Waste, DecodeError> {
        let mut waste = Waste::default();
        for _ in 0..decoder.varint_up_to(HELD_MAX as u64, "a count of groups of old versions")? {
            waste.held.push(Held {
                from: decoder.varint_up_to(SEQNO_MAX, "a sequence number")?,
                to: decoder.varint_up_to(SEQNO_MAX, "a sequence number")?,
                entries: decoder.varint("a count of old versions")?,
                bytes: decoder.varint("a size of old versions")?,
                apart: 0,
            });
        }
        for _ in 0..decoder.varint_up_to(MOMENTS_MAX as u64, "a count of moments")? {
            waste.expiring.push(Expiring {
                until_ms: decoder.varint("a moment")?,
                entries: decoder.varint("a count of expiring entries")?,
                bytes: decoder.varint("a size of expiring entries")?,
                apart: 0,
            });
        }
        let has = decoder.u8("whether tombstones wait")?;
        if has & 1 != 0 {
            waste.tombstones_held = Some((
                decoder.varint_up_to(SEQNO_MAX, "a sequence number")?,
                decoder.varint_up_to(SEQNO_MAX, "a sequence number")?,
            ));
        }
        if has & 2 != 0 {
            waste.repeated = decoder.varint("a count of repeated keys")?;
        }
        if has & 4 != 0 {
            waste.pointers = Tally::decode(decoder)?;
        }
        if has & 8 != 0 {
            for apart in waste.apart() {
                *apart = decoder.varint("a size of values of no use")?;
            }
        }
        let adds_up = waste.pointers.changes().all(|(_, values, bytes)| values > 0 && bytes >= 0);
        if has > 15
            || has & 2 != 0 && waste.repeated == 0
            || has & 4 != 0 && waste.pointers.is_empty()
            || has & 8 != 0 && waste.apart().all(|apart| *apart == 0)
            || !adds_up
        {
            return decoder.fail("whether tombstones wait");
        }
        for _ in 0..decoder.varint_up_to(COVERS_MAX as u64, "a count of covers")? {
            let cover = Cover {
                start: decoder.bytes("the start of a cover")?.into(),
                end: decoder.end("the end of a cover")?.into(),
                seqno: decoder.varint_up_to(SEQNO_MAX, "a sequence number")?,
            };
            if cover.start >= cover.end {
                return decoder.fail("a cover that ends after its start");
            }
            waste.covers.push(cover);
        }
        let ascends = waste.expiring.is_sorted_by_key(|expiring| expiring.until_ms);
        if ascends { Ok(waste) } else { decoder.fail("moments in their order") }
    }

    /// Whether the counts agree with those of a table of so many `entries`.
    pub(super) fn is_sound(&self, entries: u64) -> bool {
        let sum = |mut counts: std::vec::IntoIter<u64>| counts.try_fold(0u64, u64::checked_add);
        let held: Vec<u64> = self.held.iter().map(|held| held.entries).collect();
        let expiring: Vec<u64> = self.expiring.iter().map(|expiring| expiring.entries).collect();
        let mut pointers = self.pointers.changes().map(|(_, values, _)| values);
        let mut pointed = self.pointers.changes().map(|(.., bytes)| bytes.unsigned_abs());
        let apart_max = match self.pointers.is_empty() {
            true => Some(u64::MAX),
            false => pointed.try_fold(0u64, u64::checked_add),
        };
        let held_apart: Vec<u64> = self.held.iter().map(|held| held.apart).collect();
        let expiring_apart: Vec<u64> = self.expiring.iter().map(|expiring| expiring.apart).collect();
        self.repeated <= entries.saturating_sub(1)
            && pointers.try_fold(0u64, u64::checked_add_signed).is_some_and(|sum| sum <= entries)
            && [(held, Some(entries)), (expiring, Some(entries))]
                .into_iter()
                .chain([(held_apart, apart_max), (expiring_apart, apart_max)])
                .all(|(counts, max)| sum(counts.into_iter()).is_some_and(|sum| Some(sum) <= max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{key::END_OF_KEYS, tombstone::RangeTombstone};

    #[test]
    fn groups_of_old_versions_stay_few_and_none_becomes_droppable_early() {
        let mut waste = Waste::default();
        for n in 0..100u64 {
            waste.hold(n, n + 5, 10, 1000 * n);
        }
        assert!(waste.held.len() <= HELD_MAX);
        assert_eq!(waste.held.iter().map(|held| held.entries).sum::<u64>(), 100);
        for n in 0..100u64 {
            assert!(waste.held.iter().any(|held| held.from <= n && n + 5 <= held.to), "{n}: {waste:?}");
        }
    }

    #[test]
    fn moments_stay_few_and_no_entry_is_counted_before_it_expires() {
        let mut waste = Waste::default();
        for n in 0..10_000u64 {
            waste.expire(n * 7919 % 10_000, 20, 100);
        }
        waste.thin_moments();
        assert!(waste.expiring.len() <= MOMENTS_MAX, "{}", waste.expiring.len());
        for now in 0..10_000u64 {
            let said = waste.expiring.iter().take_while(|expiring| expiring.until_ms <= now);
            let said: u64 = said.map(|expiring| expiring.entries).sum();
            assert!(said <= now + 1, "{said} by {now}");
        }
        assert_eq!(waste.expiring.iter().map(|expiring| expiring.entries).sum::<u64>(), 10_000);
    }

    /// Symptom: short entries that had expired stayed for as long as long values beside them.
    /// Cause: moments were joined by the bytes of both together.
    #[test]
    fn short_entries_keep_their_moments_beside_long_values_that_expire_later() {
        let mut waste = Waste::default();
        for n in 0..2000 {
            waste.expire(n, 100, 0);
            waste.expire(1_000_000 + n, 30, 50_000);
        }
        waste.thin_moments();
        assert!(waste.expiring.len() <= MOMENTS_MAX, "{}", waste.expiring.len());
        let by = |moment| waste.expiring.iter().filter(move |expiring| expiring.until_ms <= moment);
        let short: u64 = by(10_000).map(|expiring| expiring.bytes).sum();
        assert!(short >= 150_000, "{short} of 200000: {waste:?}");
    }

    /// Symptom: what was cleared stayed on disk. Cause: a cover with a long bound was left out, and
    /// the end of all keys is the longest. Cure: it is named by short bounds within it.
    #[test]
    fn a_cover_with_long_bounds_is_named_by_short_ones_within_it() {
        let long = |first: u8| [&[first][..], &[0xab; 300]].concat();
        let named = |start: &[u8], end: &[u8]| {
            let mut waste = Waste::default();
            waste.cover(&RangeTombstones::new(vec![RangeTombstone {
                start: start.into(),
                end: end.into(),
                seqno: 7,
            }]));
            waste.covers
        };
        for (start, end) in [
            (&b""[..], &END_OF_KEYS[..]),
            (b"b", &END_OF_KEYS),
            (&long(b'b'), &END_OF_KEYS),
            (b"b", &long(b'x')),
            (&long(b'b'), &long(b'x')),
            (&[&[b'b'][..], &[0xff; 300]].concat(), b"x"),
        ] {
            let [cover] = &named(start, end)[..] else { panic!("{start:?} to {end:?}") };
            assert!(start <= &cover.start[..] && &cover.end[..] <= end, "{cover:?}");
            assert!(cover.start[..] <= b"c"[..] && b"w"[..] < cover.end[..], "{cover:?}");
            assert!(cover.start.len().max(cover.end.len()) <= COVER_BOUND_BYTES_MAX);
        }
        // Between two keys that begin alike there is nothing short.
        assert_eq!(named(&long(b'b'), &[&long(b'b')[..], b"x"].concat()), []);
    }

    #[test]
    fn tombstones_that_adjoin_are_one_cover_and_the_widest_are_kept() {
        let tombstone =
            |start: &[u8], end: &[u8], seqno| RangeTombstone { start: start.into(), end: end.into(), seqno };
        let mut all = vec![tombstone(b"a", b"c", 3), tombstone(b"c", b"m", 9)];
        all.extend((0..50u8).map(|n| tombstone(&[b'n', n], &[b'n', n, 1], 5)));
        let mut waste = Waste::default();
        waste.cover(&RangeTombstones::new(all));
        assert_eq!(waste.covers.len(), COVERS_MAX);
        assert_eq!(waste.covers[0], Cover { start: (*b"a").into(), end: (*b"m").into(), seqno: 9 });
        let mut bytes = Vec::new();
        waste.encode(&mut bytes);
        assert_eq!(Waste::decode(&mut Decoder::new(&bytes)).unwrap(), waste);
    }
}

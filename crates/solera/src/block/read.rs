//! What a block answers: `Block::lookup` and `find`, the last mile of a lookup, and what its
//! entries are.
//!
//! `lookup` asks the hash index first; else it searches the heads, from where the line predicts.
//! Among equal heads it compares how many bytes of the key lie in the head, then the tails. Then it
//! takes the newest version that the snapshot sees. `key_into`, `value`, `stamp` and others tell of
//! one entry; `check` and `dump` of all.
//!
//! What must hold: a lookup allocates nothing, and reads little that the answer does not need. An
//! entry that is found has the key, whatever the bytes; a search among unsorted heads ends too.
//!
//! Callers: `table::{lookup, cursor, reader, verify, fences}`, `block::lent_entries`, `fuzz` and
//! `solera-sim`'s `forge`.

use super::{
    buckets,
    format::{
        BUCKETS, CONTINUES, Geometry, HEAD_BYTES, KIND_BITS, KINDS, LINE, LINE_IGNORED, SEQNOS, WHOLE,
        tail_len,
    },
    memory::{Block, BlockAllocation},
};
use crate::{
    canary::{Bug, planted},
    codec::DecodeError,
    cursor::{Hit, Probe},
    ids::{SEQNO_MAX, Seqno},
    key::{self, Kind},
    pin::Slice,
};
use solera_model::{bound, search};
use std::{cmp::Ordering, fmt, io};

/// Fewer entries with equal heads are searched without asking for their records early.
const HALVED_MIN: usize = 4;

impl Block {
    /// A block of a copy of `payload`.
    ///
    /// # Errors
    /// The bytes are not a block's payload.
    pub fn from_payload(payload: &[u8]) -> Result<Block, DecodeError> {
        let mut allocation = BlockAllocation::new(payload.len());
        allocation.buffer_mut().copy_from_slice(payload);
        allocation.into_block(payload.len())
    }

    /// Number of entries, at least 1.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a block is never empty")]
    pub fn len(&self) -> usize {
        self.geometry().n as usize
    }

    /// Rank of the first entry whose user key is `>= key`; [`Block::len`] if there is none.
    #[inline(never)]
    pub fn find(&self, key: &[u8]) -> usize {
        self.seek(key).0
    }

    /// Rank of the newest version of the probe's key that its snapshot sees. `elided` is what
    /// elided sequence numbers stand for. If there is none, and the block
    /// [continues](Block::continues) and [ends with](Block::ends_with) the key, older versions are
    /// in the next block.
    #[inline(always)]
    pub fn lookup(&self, probe: &Probe<'_>, elided: Seqno) -> Option<usize> {
        let (rank, found) = match self.named_by_bucket(probe) {
            Some(rank) => (rank, true),
            None => self.seek(probe.key),
        };
        if !found {
            return None;
        }
        if self.geometry().flags & SEQNOS == 0 {
            return (elided <= probe.snapshot).then_some(rank);
        }
        self.seen_from(rank, probe.snapshot, elided)
    }

    /// The newest version that the snapshot sees, of the key of which `rank` is the newest one.
    #[inline(never)]
    fn seen_from(&self, rank: usize, snapshot: Seqno, elided: Seqno) -> Option<usize> {
        (rank..self.len())
            .take_while(|&i| i == rank || self.same_key(i, rank))
            .find(|&i| self.seqno(i, elided) <= snapshot)
    }

    /// What [`Block::seek`] finds, if the hash index names it. That it is the key's first entry is
    /// seen here: buckets are a hint, like a line.
    #[inline]
    pub(super) fn named_by_bucket(&self, probe: &Probe<'_>) -> Option<usize> {
        if !self.has_buckets() {
            return None;
        }
        let suffix = self.without_prefix(probe.key).ok()?;
        let (heads, x) = (self.heads(), key::head(suffix));
        let has_key = |rank: usize| heads.get(rank) == Some(&x) && self.equal_behind_head(rank, suffix);
        let rank = buckets::find(self.buckets(), probe.hash, has_key)?;
        (rank == 0 || !self.same_key(rank - 1, rank)).then_some(rank)
    }

    /// [`Block::find`], and whether that entry has this key.
    #[inline(always)]
    fn seek(&self, key: &[u8]) -> (usize, bool) {
        let geometry = self.geometry();
        let suffix = if geometry.prefix_len == 0 {
            key
        } else {
            match self.without_prefix(key) {
                Ok(suffix) => suffix,
                Err(rank) => return (rank, false),
            }
        };
        let heads = self.heads();
        let x = key::head(suffix);
        let rank = if geometry.flags & LINE != 0 {
            let guess = geometry.line.rank(geometry.x0, x, heads.len());
            self.prefetch_records_around(guess);
            let error = geometry.error_or_buckets;
            let rank = search::lower_bound(heads, x, guess, error.into());
            if planted(Bug::LineBoundOffByOne) { rank.min(guess + usize::from(error)) } else { rank }
        } else {
            search::lower_bound_binary(heads, x)
        };
        match heads.get(rank) {
            Some(&head) if head == x => {
                if geometry.flags & WHOLE != 0 && suffix.len() == usize::from(geometry.suffix_len) {
                    return (rank, true);
                }
                self.seek_among_equal(rank, suffix)
            }
            _ => (rank, false),
        }
    }

    /// What follows the prefix in `key`; or, if it does not begin with the prefix, the rank of the
    /// first key above it: none of the block's keys lies between two keys of which only one is
    /// below the prefix.
    #[inline]
    fn without_prefix<'k>(&self, key: &'k [u8]) -> Result<&'k [u8], usize> {
        let prefix = self.prefix();
        match key.split_at_checked(prefix.len()) {
            Some((start, suffix)) if key::equal(start, prefix) => Ok(suffix),
            _ if planted(Bug::ShortSeekKey) && key.len() < prefix.len() => Err(self.len()),
            _ => Err(if key < prefix { 0 } else { self.len() }),
        }
    }

    /// [`Block::seek`] among the entries whose head is that of `suffix`; `first` is the first of
    /// them. Mostly there is no other; text that goes on behind its heads has many.
    fn seek_among_equal(&self, first: usize, suffix: &[u8]) -> (usize, bool) {
        let (mut low, end) = (first, self.equal_heads_end(first));
        let mut high = end;
        if high - low >= HALVED_MIN {
            self.prefetch_tails(low, high);
        }
        let tail = suffix.get(HEAD_BYTES..).unwrap_or_default();
        let tail_head = key::head(tail);
        while low < high {
            let middle = low.midpoint(high);
            match self.compare_behind_head(middle, suffix, tail, tail_head) {
                Ordering::Less => low = middle + 1,
                _ => high = middle,
            }
        }
        // Where heads are out of order, the steps may have led to another one.
        let heads = self.heads();
        let found = low < end && heads[low] == heads[first];
        (low, found && self.equal_behind_head(low, suffix))
    }

    /// The end of the ranks from `first` on whose heads are equal, found by steps that double.
    #[inline]
    fn equal_heads_end(&self, first: usize) -> usize {
        let heads = self.heads();
        let is_equal = |i: usize| heads.get(i) == Some(&heads[first]);
        let mut step = 1;
        while is_equal(first + step) {
            step *= 2;
        }
        let (known, limit) = (first + step / 2 + 1, heads.len().min(first + step));
        match known < limit {
            true => known + heads[known..limit].partition_point(|head| *head == heads[first]),
            false => known.min(limit),
        }
    }

    /// Whether entry `i` has the key of the same prefix and head that goes on with `suffix`.
    #[inline]
    fn equal_behind_head(&self, i: usize, suffix: &[u8]) -> bool {
        let (len, tail) = self.len_and_tail(i);
        len == suffix.len() && key::equal(tail, suffix.get(HEAD_BYTES..).unwrap_or_default())
    }

    /// Compares entry `i` with a key of the same prefix and head, which goes on with `suffix`, and
    /// behind the head with `tail`, whose head is `tail_head`. That mostly tells.
    #[inline]
    fn compare_behind_head(&self, i: usize, suffix: &[u8], tail: &[u8], tail_head: u64) -> Ordering {
        // Of two keys with equal heads one may be the other plus zeros: the shorter is less.
        let in_head = |len: usize| len.min(HEAD_BYTES);
        let place = self.record_place(i);
        // SAFETY: the place is that of a record of this block.
        unsafe {
            in_head(place.suffix_len)
                .cmp(&in_head(suffix.len()))
                .then_with(|| self.tail_head_at(&place).cmp(&tail_head))
                .then_with(|| self.tail_at(&place).cmp(tail))
        }
    }

    /// Length of entry `i`'s key after the prefix, and its tail.
    #[inline]
    fn len_and_tail(&self, i: usize) -> (usize, &[u8]) {
        let geometry = self.geometry();
        if geometry.flags & WHOLE != 0 {
            return (geometry.suffix_len.into(), &[]);
        }
        let record = self.record(i);
        let len = suffix_len(geometry, record);
        let at = usize::from(geometry.length_bytes + geometry.meta_bytes);
        (len, &record[at..at + tail_len(len)])
    }

    /// Whether the last key's versions go on in the next block.
    #[inline]
    pub fn continues(&self) -> bool {
        self.geometry().flags & CONTINUES != 0 && !planted(Bug::KeyAcrossBlocks)
    }

    /// Whether the last entry has this key.
    pub fn ends_with(&self, key: &[u8]) -> bool {
        self.key_eq(self.len() - 1, key)
    }

    /// What a lookup hands out for entry `i`.
    #[inline(always)]
    pub fn hit(&self, i: usize, elided: Seqno) -> Hit<'_> {
        // SAFETY: the value lies in this block, which the pin keeps and no thread changes.
        unsafe {
            let (seqno, kind) = self.stamp(i, elided);
            Hit::new(seqno, kind, self.value(i), self.pin())
        }
    }

    /// What entry `i` does.
    #[inline]
    pub fn kind(&self, i: usize) -> Kind {
        if self.geometry().flags & KINDS == 0 { Kind::Put } else { self.kind_of(self.meta(i)) }
    }

    /// Sequence number of entry `i`; `elided` if the block does not know it any more.
    #[inline]
    pub fn seqno(&self, i: usize, elided: Seqno) -> Seqno {
        if self.geometry().flags & SEQNOS == 0 {
            return elided;
        }
        self.seqno_of(self.meta(i))
    }

    /// [`Block::seqno`] and [`Block::kind`] of entry `i`.
    #[inline(always)]
    pub fn stamp(&self, i: usize, elided: Seqno) -> (Seqno, Kind) {
        let flags = self.geometry().flags;
        if flags & (SEQNOS | KINDS) == 0 {
            return (elided, Kind::Put);
        }
        let meta = self.meta(i);
        let seqno = if flags & SEQNOS == 0 { elided } else { self.seqno_of(meta) };
        (seqno, self.kind_of(meta))
    }

    #[inline]
    fn seqno_of(&self, meta: u64) -> Seqno {
        let geometry = self.geometry();
        let kind_bits = if geometry.flags & KINDS == 0 { 0 } else { KIND_BITS };
        // Masked, because a damaged sum must not become a number that nothing else expects.
        geometry.base.wrapping_add(meta >> kind_bits) & SEQNO_MAX
    }

    #[inline]
    fn kind_of(&self, meta: u64) -> Kind {
        if self.geometry().flags & KINDS == 0 {
            return Kind::Put;
        }
        Kind::from_u8((meta & ((1 << KIND_BITS) - 1)) as u8).expect("a kind was proved for every entry")
    }

    #[inline]
    fn meta(&self, i: usize) -> u64 {
        match self.geometry().meta_bytes {
            0 => 0,
            bytes => self.meta_word(i) & u64::MAX >> (64 - 8 * u32::from(bytes)),
        }
    }

    /// Value of entry `i`: the value, the operand, or expiry and value.
    #[inline(always)]
    pub fn value(&self, i: usize) -> &[u8] {
        let geometry = self.geometry();
        let record = self.record(i);
        let fixed = usize::from(geometry.length_bytes + geometry.meta_bytes);
        &record[fixed + tail_len(suffix_len(geometry, record))..]
    }

    /// [`Block::value`], kept alive by the block.
    pub fn pin_value(&self, i: usize) -> Slice {
        // SAFETY: the value lies in the block, which never changes and which the pin keeps alive.
        unsafe { Slice::pinned(self.pin(), self.value(i)) }
    }

    /// Replaces what `out` holds by the key of entry `i`.
    #[inline]
    pub fn key_into(&self, i: usize, out: &mut Vec<u8>) {
        out.clear();
        if out.capacity() < self.prefix().len() {
            // What grows would take twice as much.
            out.reserve_exact(self.key_len(i));
        }
        out.extend_from_slice(self.prefix());
        self.key_beside_into(i, out);
    }

    /// [`Block::key_into`], where `out` holds the key of another entry of this block, or its
    /// prefix: that is not copied again.
    #[inline]
    pub fn key_beside_into(&self, i: usize, out: &mut Vec<u8>) {
        let geometry = self.geometry();
        let prefix_len = usize::from(geometry.prefix_len);
        if geometry.flags & WHOLE != 0
            && usize::from(geometry.suffix_len) == HEAD_BYTES
            && let Some(suffix) = out.get_mut(prefix_len..)
            && let Ok(suffix) = <&mut [u8; HEAD_BYTES]>::try_from(suffix)
        {
            // All keys of the block end with their heads.
            *suffix = self.heads()[i].to_be_bytes();
            return;
        }
        let place = self.record_place(i);
        // SAFETY: the place is that of a record of this block.
        unsafe { self.key_there_into(self.heads()[i], &place, out) }
    }

    /// Whether every key is the prefix and a head of 8 bytes.
    pub(super) fn keys_end_with_heads(&self) -> bool {
        let geometry = self.geometry();
        geometry.flags & WHOLE != 0 && usize::from(geometry.suffix_len) == HEAD_BYTES
    }

    /// Length of the key of entry `i`, in bytes.
    pub fn key_len(&self, i: usize) -> usize {
        usize::from(self.geometry().prefix_len) + self.len_and_tail(i).0
    }

    /// How many bytes at its beginning `key` shares with the key of entry `i`.
    pub fn common_prefix_len(&self, i: usize, key: &[u8]) -> usize {
        let (len, tail) = self.len_and_tail(i);
        let head = self.heads()[i].to_be_bytes();
        let mut shared = 0;
        for part in [self.prefix(), &head[..len.min(HEAD_BYTES)], tail] {
            let here = key::common_prefix_len(part, &key[shared..]);
            shared += here;
            if here < part.len() {
                break;
            }
        }
        shared
    }

    /// Whether entry `i` has this key.
    #[inline]
    pub fn key_eq(&self, i: usize, key: &[u8]) -> bool {
        let Ok(suffix) = self.without_prefix(key) else { return false };
        self.heads()[i] == key::head(suffix) && self.equal_behind_head(i, suffix)
    }

    /// Whether two entries have the same key. Heads nearly always tell.
    #[inline]
    pub fn same_key(&self, i: usize, j: usize) -> bool {
        let heads = self.heads();
        heads[i] == heads[j]
            && (self.geometry().flags & WHOLE != 0 || self.len_and_tail(i) == self.len_and_tail(j))
    }

    /// Measured error of the line, in ranks; `None` if the block has no line, or none that can be
    /// used.
    pub fn line_error(&self) -> Option<u32> {
        let geometry = self.geometry();
        (geometry.flags & LINE != 0).then(|| geometry.error_or_buckets.into())
    }

    /// Whether the block came with a line that cannot be used: not finite, or descending. It is
    /// searched without one then.
    pub fn line_ignored(&self) -> bool {
        self.geometry().flags & LINE_IGNORED != 0
    }

    /// Checks all that a search relies on: keys ascend, versions of a key do not get newer, heads
    /// are padded with zeros, an expiring value has its moment, the line's error bounds, and
    /// buckets name their keys. Positions in the error are those of records.
    pub fn check(&self) -> Result<(), DecodeError> {
        let geometry = self.geometry();
        let (mut key, mut previous) = (Vec::new(), Vec::new());
        for i in 0..self.len() {
            let fail = |what| Err(DecodeError { at: self.place(i).0, what });
            self.key_into(i, &mut key);
            if self.heads()[i] != key::head_after(&key, geometry.prefix_len.into()) {
                return fail("a head padded with zeros");
            }
            if i > 0 {
                match previous.cmp(&key) {
                    Ordering::Greater => return fail("a key above the one before it"),
                    Ordering::Equal if self.seqno(i, 0) > self.seqno(i - 1, 0) => {
                        return fail("a version older than the one before it");
                    }
                    _ => {}
                }
            }
            let is_first = i == 0 || previous != key;
            if geometry.flags & BUCKETS != 0
                && is_first
                && buckets::find(self.buckets(), key::hash(&key), |rank| rank == i).is_none()
            {
                return fail("a bucket of its own for each key");
            }
            if self.kind(i).expires() && key::split_expiry(self.value(i)).is_none() {
                return fail("a moment of expiry in front of a value");
            }
            std::mem::swap(&mut key, &mut previous);
        }
        if geometry.flags & LINE != 0
            && bound::measured_error(geometry.line, self.heads()) > geometry.error_or_buckets.into()
        {
            return Err(DecodeError { at: geometry.prefix_at, what: "a line whose error bounds" });
        }
        Ok(())
    }

    /// Writes what the block is made of, for people.
    pub fn dump(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let geometry = self.geometry();
        write!(out, "  {} entries, ", self.len())?;
        match self.prefix() {
            [] => write!(out, "their keys share nothing; ")?,
            prefix => write!(out, "their keys begin with {}; ", prefix.escape_ascii())?,
        }
        match (self.line_error(), self.buckets().len()) {
            (Some(error), _) => write!(out, "a line that errs by {error} at most; ")?,
            (None, 0) => write!(out, "no line; ")?,
            (None, buckets) => write!(out, "{buckets} buckets; ")?,
        }
        let goes_on = if self.continues() { "the last key goes on in the next block; " } else { "" };
        writeln!(out, "{goes_on}{} bytes in memory", self.memory_bytes())?;
        let mut key = Vec::new();
        for i in 0..self.len() {
            self.key_into(i, &mut key);
            let value = self.value(i);
            let shown = &value[..value.len().min(32)];
            let more = if shown.len() < value.len() { "…" } else { "" };
            write!(out, "{i:5} {:?} {}", self.kind(i), key.escape_ascii())?;
            if geometry.flags & SEQNOS != 0 {
                write!(out, " @{}", self.seqno(i, 0))?;
            }
            writeln!(out, " = {}{more} ({} bytes)", shown.escape_ascii(), value.len())?;
        }
        Ok(())
    }
}

/// Length of a record's key after the prefix.
#[inline]
fn suffix_len(geometry: &Geometry, record: &[u8]) -> usize {
    match geometry.length_bytes {
        0 => geometry.suffix_len.into(),
        1 => record[0].into(),
        _ => u16::from_le_bytes([record[0], record[1]]).into(),
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let geometry = self.geometry();
        f.debug_struct("Block")
            .field("entries", &self.len())
            .field("prefix", &self.prefix().escape_ascii().to_string())
            .field("line_error", &self.line_error())
            .field("buckets", &self.buckets().len())
            .field("seqnos", &(geometry.flags & SEQNOS != 0))
            .field("kinds", &(geometry.flags & KINDS != 0))
            .field("continues", &self.continues())
            .field("memory_bytes", &self.memory_bytes())
            .finish_non_exhaustive()
    }
}

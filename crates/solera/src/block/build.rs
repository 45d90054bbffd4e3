//! Blocks under construction: `BlockBuilder`, which decides where a block ends and lays out its
//! bytes.
//!
//! `LastMile` says how lookups will search the block's heads; `Finished` what became of a block.
//! `try_add` takes an entry or refuses it; then `finish` appends the payload. A block ends at its
//! bytes. With `LastMile`'s corridor it ends also where no line passes all keys within ε (DobLIX's
//! dual objective); `gap` may end it earlier. `finish` lays out heads, records, prefix, buckets,
//! note, line and footer.
//!
//! What must hold: the size that decides is exact, computed entry by entry from the numbers that
//! `finish` uses. Entries come in a source's order. The versions of a key share a block, unless
//! they alone take more than four blocks.
//!
//! Callers: `table::writer`; `fuzz` makes seeds.

mod gap;

use self::gap::{GivenUp, Recent};
use super::{
    buckets,
    format::{
        ENTRIES_MAX, FOOTER_BYTES, Footer, HEAD_BYTES, KIND_BITS, RECORD_ALIGNMENT, records_at, tail_len,
    },
    seal::TRAILER_BYTES,
};
use crate::{
    ids::Seqno,
    key::{self, KEY_BYTES_MAX, Kind},
};
use solera_model::{
    Line, bound,
    dual::{self, Fit, Policy},
    pla::Corridor,
};

/// A key whose versions alone take more than this many blocks' bytes is split between blocks.
const VERSIONS_BLOCKS_MAX: u64 = 4;

/// So many ties make a hash index worth its bytes: docs/decisions/0007 "Ties in a block".
const TIES_MIN: usize = 1;

/// Memory for values that is kept from block to block, in blocks.
const KEPT_BLOCKS_MAX: usize = 16;

/// By what a block's heads are searched, and whether that may end the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastMile {
    /// Nothing: plain binary search.
    Halving,
    /// The middle of a corridor; a block ends where its next key leaves the corridor.
    Pla {
        /// Half the corridor's width, in ranks.
        epsilon: u32,
    },
    /// The least-squares line of a block that ends where it is full.
    LeastSquares,
    /// [`LastMile::Hash`] in blocks where a key has the head of the key before it, so that heads do
    /// not tell all, or where keys of several lengths go on behind their heads, as text does;
    /// [`LastMile::LeastSquares`] in others.
    LeastSquaresOrHash,
    /// A hash index, for found keys; binary search for others, and in blocks of more than 255
    /// entries.
    Hash,
}

/// What became of a finished block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Its entries.
    pub entries: usize,
    /// Whether its last key's versions go on in the next block.
    pub continues: bool,
    /// Measured error of its line, in ranks; `None` if it has no line.
    pub error: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Staged {
    key_end: usize,
    value_end: usize,
    seqno: Seqno,
    kind: Kind,
}

/// What decides the layout, and with it the size, of the entries so far.
#[derive(Clone, Copy, Debug, Default)]
struct Extent {
    n: usize,
    /// Length of the prefix that all keys share.
    shared: usize,
    /// Bytes that the heads skip.
    skip: usize,
    key_len_min: usize,
    key_len_max: usize,
    /// Bytes of all tails.
    tails: u64,
    /// Keys with a tail that have the head of the key before them. They do not become more where
    /// entries become fewer, since heads then begin at the same byte or behind it.
    ties: usize,
    value_len_min: u64,
    value_len_max: u64,
    /// Bytes of all values.
    values: u64,
    seqno_min: Seqno,
    seqno_max: Seqno,
    /// Whether there is an entry that is not a put.
    kinds: bool,
}

impl Extent {
    /// Whether keys go on behind their heads and have several lengths: so it is with text, whose
    /// heads no line tells well. Where entries become fewer it may only cease to be so.
    fn is_text(&self) -> bool {
        self.tails > 0 && self.key_len_min < self.key_len_max
    }
}

/// The layout that follows from an extent.
#[derive(Clone, Copy, Debug)]
struct Plan {
    ends_width: usize,
    length_bytes: usize,
    meta_bytes: usize,
    /// Size of each record if there are no ends.
    record_bytes: u64,
    seqnos: bool,
    /// Of the hash index.
    buckets: usize,
    payload_bytes: u64,
}

/// Longest note, in bytes: its length takes 8 bits.
pub const NOTE_BYTES_MAX: usize = u8::MAX as usize;

/// Builds a table's blocks, one after the other, in the same memory.
#[derive(Debug)]
pub struct BlockBuilder {
    block_bytes: u64,
    last_mile: LastMile,
    elide_below: Seqno,
    keys: Vec<u8>,
    values: Vec<u8>,
    entries: Vec<Staged>,
    extent: Extent,
    corridor: Option<Corridor>,
    /// Bytes that the versions of the last key take.
    versions: u64,
    continues: bool,
    heads: Vec<u64>,
    /// For [`BlockBuilder::step_back`].
    recent: Recent,
    given_up: GivenUp,
}

impl BlockBuilder {
    /// A builder of blocks that take up to `block_bytes` in the file if they are not compressed.
    /// Sequence numbers of a block are left out if all of them are `<= elide_below`, which must be
    /// no newer than the oldest snapshot, and 0 if range tombstones are about.
    pub fn new(block_bytes: u32, last_mile: LastMile, elide_below: Seqno) -> Self {
        BlockBuilder {
            block_bytes: block_bytes.into(),
            last_mile,
            elide_below,
            keys: Vec::new(),
            values: Vec::new(),
            entries: Vec::new(),
            extent: Extent::default(),
            corridor: None,
            versions: 0,
            continues: false,
            heads: Vec::new(),
            recent: Recent::default(),
            given_up: GivenUp::default(),
        }
    }

    /// Adds an entry; entries come in a source's order. False means that nothing was added, because
    /// the block must end before: [finish](BlockBuilder::finish) it and call again. An empty block
    /// takes any entry. The versions of a user key stay in one block, however large it gets, unless
    /// they alone exceed four times its size.
    #[must_use]
    pub fn try_add(&mut self, key: &[u8], seqno: Seqno, kind: Kind, value: &[u8]) -> bool {
        debug_assert!(key.len() <= KEY_BYTES_MAX, "a key that a batch admits");
        let value_len = value.len() as u64;
        let entry_bytes = (HEAD_BYTES + key.len()) as u64 + value_len;
        let same_key = !self.is_empty() && key == self.last_key();
        let extent = self.extended(key, same_key, seqno, kind, value_len);
        debug_assert!(self.is_empty() || same_key || key > self.last_key(), "keys ascend");
        if same_key {
            if self.versions + entry_bytes > VERSIONS_BLOCKS_MAX * self.block_bytes || extent.n > ENTRIES_MAX
            {
                self.continues = true;
                return false;
            }
        } else if !self.is_empty() && !self.fits(&extent) {
            return false;
        }
        if !self.admitted(&extent, key, same_key) {
            return false;
        }
        self.versions = if same_key { self.versions + entry_bytes } else { entry_bytes };
        self.extent = extent;
        self.recent.keep(extent);
        self.keys.extend_from_slice(key);
        self.values.extend_from_slice(value);
        let (key_end, value_end) = (self.keys.len(), self.values.len());
        self.entries.push(Staged { key_end, value_end, seqno, kind });
        true
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Entries of the block under construction.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of all keys and values of the block under construction.
    pub fn staged_bytes(&self) -> u64 {
        (self.keys.len() + self.values.len()) as u64
    }

    /// Bytes of the payload if the block were finished now.
    pub fn encoded_len(&self) -> usize {
        if self.is_empty() { 0 } else { self.plan(&self.extent).payload_bytes as usize }
    }

    /// The first key of the block under construction, which must not be empty.
    pub fn first_key(&self) -> &[u8] {
        self.key(0)
    }

    /// The last key of the block under construction, which must not be empty.
    pub fn last_key(&self) -> &[u8] {
        self.key(self.entries.len() - 1)
    }

    /// The last different keys of the block under construction, up to so many, ascending.
    pub fn last_keys(&self, most: usize) -> impl Iterator<Item = &[u8]> {
        let is_first = move |i: usize| i == 0 || self.key(i - 1) != self.key(i);
        let mut begin = self.len();
        for _ in 0..most {
            begin = (0..begin).rev().find(|&i| is_first(i)).unwrap_or(0);
        }
        (begin..self.len()).filter(move |&i| is_first(i)).map(|i| self.key(i))
    }

    fn key(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.entries[i - 1].key_end };
        &self.keys[start..self.entries[i].key_end]
    }

    /// The extent with one entry more, which may be of the `same_key` as the last.
    fn extended(&self, key: &[u8], same_key: bool, seqno: Seqno, kind: Kind, value_len: u64) -> Extent {
        let Some(first) = self.entries.first() else {
            let skip = key.len().saturating_sub(HEAD_BYTES);
            return Extent {
                n: 1,
                shared: key.len(),
                skip,
                key_len_min: key.len(),
                key_len_max: key.len(),
                tails: 0,
                ties: 0,
                value_len_min: value_len,
                value_len_max: value_len,
                values: value_len,
                seqno_min: seqno,
                seqno_max: seqno,
                kinds: kind != Kind::Put,
            };
        };
        let old = &self.extent;
        let shared = key::common_prefix_len(&self.keys[..first.key_end.min(old.shared)], key);
        let key_len_max = old.key_len_max.max(key.len());
        let skip = shared.min(key_len_max.saturating_sub(HEAD_BYTES));
        let is_tie = |key: &[u8], before: &[u8]| {
            key.len() > skip + HEAD_BYTES && key::head_after(key, skip) == key::head_after(before, skip)
        };
        let tied = usize::from(!same_key && is_tie(key, self.last_key()));
        let (tails, ties) = if skip == old.skip {
            (old.tails + tail_len(key.len() - skip) as u64, old.ties + tied)
        } else {
            let lens = (0..self.len()).map(|i| self.key(i).len()).chain([key.len()]);
            let pairs = (1..self.len()).map(|i| (self.key(i - 1), self.key(i)));
            let ties = pairs.filter(|&(before, key)| before != key && is_tie(key, before)).count();
            (lens.map(|len| tail_len(len - skip) as u64).sum(), ties + tied)
        };
        Extent {
            n: old.n + 1,
            shared,
            skip,
            key_len_min: old.key_len_min.min(key.len()),
            key_len_max,
            tails,
            ties,
            value_len_min: old.value_len_min.min(value_len),
            value_len_max: old.value_len_max.max(value_len),
            values: old.values + value_len,
            seqno_min: old.seqno_min.min(seqno),
            seqno_max: old.seqno_max.max(seqno),
            kinds: old.kinds || kind != Kind::Put,
        }
    }

    /// Whether the block may have this extent.
    fn fits(&self, extent: &Extent) -> bool {
        // Most blocks are far from full, and that is seen without a plan: a record takes at most
        // its end of 4 bytes (a block that fits has fewer bytes than 32 bits count), its length of
        // 2, buckets of 2, and its meta.
        let meta_max = if extent.seqno_max > self.elide_below { 8 } else { 1 };
        let record_max = (HEAD_BYTES + 4 + 2 + 2) as u64 + meta_max;
        let around_max = (extent.skip + RECORD_ALIGNMENT + FOOTER_BYTES + TRAILER_BYTES) as u64;
        if extent.n as u64 * record_max + extent.tails + extent.values + around_max <= self.block_bytes {
            return true;
        }
        let bytes = self.plan(extent).payload_bytes + self.room_for_buckets(extent) + TRAILER_BYTES as u64;
        bytes <= self.block_bytes && extent.n <= ENTRIES_MAX
    }

    /// Whether a block of this extent has a hash index, unless it has too many entries.
    fn is_hashed(&self, extent: &Extent) -> bool {
        match self.last_mile {
            LastMile::Hash => true,
            LastMile::LeastSquaresOrHash => extent.ties >= TIES_MIN || extent.is_text(),
            LastMile::Halving | LastMile::Pla { .. } | LastMile::LeastSquares => false,
        }
    }

    /// Bytes that a block with too many entries for a hash index leaves empty, since it gets one if
    /// it [steps back](BlockBuilder::step_back) to fewer.
    fn room_for_buckets(&self, extent: &Extent) -> u64 {
        let may_get_one = extent.n > buckets::ENTRIES_MAX && self.is_hashed(extent);
        if may_get_one { buckets::count(buckets::ENTRIES_MAX) as u64 } else { 0 }
    }

    fn plan(&self, extent: &Extent) -> Plan {
        let suffix_max = extent.key_len_max - extent.skip;
        let length_bytes = match suffix_max {
            _ if extent.key_len_min == extent.key_len_max => 0,
            0..=255 => 1,
            _ => 2,
        };
        let seqnos = extent.seqno_max > self.elide_below;
        let delta_max = if seqnos { extent.seqno_max - extent.seqno_min } else { 0 };
        let meta_max = delta_max << kind_bits(extent.kinds) | u64::from(extent.kinds);
        let meta_bytes = 8 - meta_max.leading_zeros() as usize / 8;
        let fixed = (length_bytes + meta_bytes) as u64;
        let records = extent.n as u64 * fixed + extent.tails + extent.values;
        // Equal in size, without looking at each: equal values, and tails that are equally long or
        // empty.
        let record_bytes = fixed + tail_len(suffix_max) as u64 + extent.value_len_max;
        let equal = extent.value_len_min == extent.value_len_max
            && (length_bytes == 0 || suffix_max <= HEAD_BYTES)
            && record_bytes <= u32::MAX.into();
        let record_bytes = if equal { record_bytes } else { 0 };
        let ends_width = match records {
            _ if equal => 0,
            0..=0xffff => 2,
            0x1_0000..=0xffff_ffff => 4,
            _ => 8,
        };
        let buckets = if self.is_hashed(extent) { buckets::count(extent.n) } else { 0 };
        let columns_end = extent.n * (HEAD_BYTES + ends_width) + buckets;
        let records_at = records_at(columns_end, ends_width, record_bytes as usize);
        let payload_bytes = records_at as u64 + records + (extent.skip + FOOTER_BYTES) as u64;
        Plan { ends_width, length_bytes, meta_bytes, record_bytes, seqnos, buckets, payload_bytes }
    }

    /// Whether the corridor, if there is one, admits `key`; if so, it is narrowed. Each distinct
    /// key counts once, at its first rank.
    fn admitted(&mut self, extent: &Extent, key: &[u8], same_key: bool) -> bool {
        let LastMile::Pla { epsilon } = self.last_mile else { return true };
        let skip = extent.skip;
        match &mut self.corridor {
            Some(corridor) if skip == self.extent.skip => {
                same_key || corridor.push(key::head_after(key, skip), self.entries.len())
            }
            _ => {
                // The heads begin at another byte now: the block's keys go through a new corridor.
                let anchor = if self.is_empty() { key } else { self.first_key() };
                let mut corridor = Corridor::new(key::head_after(anchor, skip), epsilon);
                let mut previous = anchor;
                for rank in 1..self.len() {
                    let key = self.key(rank);
                    if key != previous && !corridor.push(key::head_after(key, skip), rank) {
                        return false;
                    }
                    previous = key;
                }
                if !same_key && !self.is_empty() && !corridor.push(key::head_after(key, skip), self.len()) {
                    return false;
                }
                self.corridor = Some(corridor);
                true
            }
        }
    }

    /// Appends the payload to `out` and empties the builder, which must not be empty. `note`, of at
    /// most [`NOTE_BYTES_MAX`], is kept with the block; sizes do not count it.
    pub fn finish(&mut self, note: &[u8], out: &mut Vec<u8>) -> Finished {
        assert!(!self.is_empty(), "a block has entries");
        assert!(note.len() <= NOTE_BYTES_MAX, "a note is short");
        let extent = self.extent;
        let plan = self.plan(&extent);
        let skip = extent.skip;
        let start = out.len();
        // With the note, or the footer behind it would double what a large value takes.
        out.reserve(plan.payload_bytes as usize + note.len());

        let mut heads = std::mem::take(&mut self.heads);
        heads.clear();
        heads.extend((0..self.len()).map(|i| key::head_after(self.key(i), skip)));
        let fit = if plan.buckets > 0 { None } else { self.line(&heads) };
        heads.iter().for_each(|head| out.extend_from_slice(&head.to_le_bytes()));
        self.heads = heads;

        let ends_at = out.len();
        out.resize(ends_at + extent.n * plan.ends_width, 0);
        let columns_end = out.len() - start + plan.buckets;
        out.resize(start + records_at(columns_end, plan.ends_width, plan.record_bytes as usize), 0);
        if plan.buckets > 0 {
            let buckets_at = out.len() - plan.buckets;
            let firsts = (0..self.len()).filter(|&i| i == 0 || self.key(i) != self.key(i - 1));
            buckets::fill(&mut out[buckets_at..], firsts.map(|i| (key::hash(self.key(i)), i)));
        }
        if plan.record_bytes == extent.value_len_max && plan.ends_width == 0 {
            // Records of nothing but values lie in the builder as they lie in the block.
            out.extend_from_slice(&self.values);
        } else {
            self.put_records(&plan, ends_at, out);
        }
        out.extend_from_slice(&self.keys[..skip]);
        out.extend_from_slice(note);

        let line = fit.map_or(Line::FLAT, |(line, _)| line);
        Footer {
            slope: line.slope(),
            intercept: line.intercept(),
            base: if plan.seqnos { extent.seqno_min } else { 0 },
            meta_bytes: plan.meta_bytes as u8,
            n: extent.n as u32,
            record_bytes: plan.record_bytes as u32,
            error_or_buckets: fit.map_or(plan.buckets as u16, |(_, error)| error),
            prefix_len: skip as u16,
            suffix_len: if plan.length_bytes == 0 { (extent.key_len_max - skip) as u16 } else { 0 },
            ends_width: plan.ends_width as u8,
            length_bytes: plan.length_bytes as u8,
            kinds: extent.kinds,
            seqnos: plan.seqnos,
            line: fit.is_some(),
            continues: self.continues,
            note_len: note.len() as u8,
        }
        .encode(out);
        let expected = plan.payload_bytes + note.len() as u64;
        debug_assert_eq!((out.len() - start) as u64, expected, "the size that decided the cut");
        let finished = Finished {
            entries: extent.n,
            continues: self.continues,
            error: fit.map(|(_, error)| error.into()),
        };
        self.clear();
        finished
    }

    /// Appends the records, and fills in their ends from position `ends_at` on.
    fn put_records(&self, plan: &Plan, ends_at: usize, out: &mut Vec<u8>) {
        let Extent { skip, seqno_min, kinds, .. } = self.extent;
        let start = out.len();
        let (mut key_start, mut value_start) = (0, 0);
        for (i, entry) in self.entries.iter().enumerate() {
            let suffix = &self.keys[key_start + skip..entry.key_end];
            // All 8 bytes and back again: a copy of a length that is known is one instruction.
            let mut put = |number: u64, bytes: usize| {
                let end = out.len() + bytes;
                out.extend_from_slice(&number.to_le_bytes());
                out.truncate(end);
            };
            put(suffix.len() as u64, plan.length_bytes);
            let delta = if plan.seqnos { entry.seqno - seqno_min } else { 0 };
            let kind = if kinds { entry.kind as u64 } else { 0 };
            put(delta << kind_bits(kinds) | kind, plan.meta_bytes);
            if let Some(tail) = suffix.get(HEAD_BYTES..) {
                out.extend_from_slice(tail);
            }
            out.extend_from_slice(&self.values[value_start..entry.value_end]);
            let end = (out.len() - start) as u64;
            let at = ends_at + i * plan.ends_width;
            match plan.ends_width {
                0 => {}
                2 => out[at..at + 2].copy_from_slice(&(end as u16).to_le_bytes()),
                4 => out[at..at + 4].copy_from_slice(&(end as u32).to_le_bytes()),
                _ => out[at..at + 8].copy_from_slice(&end.to_le_bytes()),
            }
            (key_start, value_start) = (entry.key_end, entry.value_end);
        }
    }

    /// The line over the block's heads and its measured error; none if it is not wanted or, at more
    /// than 65535 ranks, not worth having.
    fn line(&self, heads: &[u64]) -> Option<(Line, u16)> {
        let Fit { line, error } = match self.last_mile {
            LastMile::Halving | LastMile::Hash => return None,
            LastMile::Pla { .. } => {
                // All keys have been through it, with the heads that they have now.
                let line = self.corridor.as_ref().map_or(Line::FLAT, Corridor::line);
                Fit { line, error: bound::measured_error(line, heads) }
            }
            LastMile::LeastSquares | LastMile::LeastSquaresOrHash => dual::fit(Policy::Pra, heads),
        };
        Some((line, u16::try_from(error).ok()?))
    }

    fn clear(&mut self) {
        self.keys.clear();
        self.values.clear();
        // One large value must not stay around for the rest of the table.
        self.values.shrink_to(KEPT_BLOCKS_MAX * self.block_bytes as usize);
        self.entries.clear();
        self.extent = Extent::default();
        self.corridor = None;
        self.versions = 0;
        self.continues = false;
    }
}

fn kind_bits(kinds: bool) -> u32 {
    if kinds { KIND_BITS } else { 0 }
}

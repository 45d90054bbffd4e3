//! Keys: what an entry's kind is (`Kind`, `Verb`), how bytes become a number (`head`, `hash`),
//! ranges (`KeyRange`, `KeyEnd`, `SharedRange`).
//!
//! `Kind::from_u8` is the one decoder of kinds: a verb, and flags for expiry and separated values.
//! `separator_len`, `successor` and `prefix_end` find keys between and behind others. The limits of
//! keys and values stand here.
//!
//! What must hold: filters, blocks, caches and walks take numbers and hashes of keys from here.
//! Only learned indexes (`index::learned`) and traces make others. `head` is monotone, and equal
//! heads decide nothing. The numbers of kinds, heads (in blocks and indexes) and the hash (xxh3)
//! are on disk. Logs number their operations by themselves (`wal::batch`).
//!
//! Callers: nearly every room above, `solera-bench`, `solera-bench-peers`, `solera-sim`,
//! `solera-cli` and `fuzz`.

use crate::ids::{SEQNO_MAX, Seqno};
use std::{borrow::Cow, cmp::Ordering, fmt, ops::Deref, sync::Arc};

/// Longest user key, in bytes: lengths are stored in 16 bits.
pub const KEY_BYTES_MAX: usize = u16::MAX as usize;
/// The key behind all keys, longer than a key may be: where a range of deleted keys ends that has
/// no end. What stores ends says it in three bytes ([`put_end`](crate::codec::put_end)).
pub static END_OF_KEYS: [u8; KEY_BYTES_MAX + 1] = {
    let mut end = [u8::MAX; KEY_BYTES_MAX + 1];
    end[KEY_BYTES_MAX] = 0;
    end
};
/// Longest value, in bytes: memtables keep lengths in 32 bits.
pub const VALUE_BYTES_MAX: u64 = u32::MAX as u64;
/// Room for a key that is kept while it is of no use, at most.
const ROOM_KEPT_BYTES: usize = 1024;

/// What an entry does to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Verb {
    /// The key is absent.
    Delete = 0,
    /// The key has this value.
    Put = 1,
    /// The operand is merged onto what older entries say.
    Merge = 2,
}

/// What an entry does to its key, and how its value is stored: a verb and flags, in the
/// combinations that have a meaning. The numbers are on disk: bits 0 and 1 are the [`Verb`], bit 2
/// says that the value expires, bit 3 that it is kept apart; bits 4 and 5 are for flags to come,
/// and 0. All other bits are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The key is absent.
    Delete = Verb::Delete as u8,
    /// The key has this value.
    Put = Verb::Put as u8,
    /// The operand is merged onto what older entries say.
    Merge = Verb::Merge as u8,
    /// As `Put`, until a moment: the first 8 bytes of the stored value are that moment, in
    /// milliseconds since 1970, big-endian.
    PutExpiring = Verb::Put as u8 | EXPIRES,
    /// As `Put`, but a pointer is stored in the place of the value.
    PutSeparated = Verb::Put as u8 | SEPARATED,
    /// As `PutExpiring`, but a pointer is stored behind the moment.
    PutExpiringSeparated = Verb::Put as u8 | EXPIRES | SEPARATED,
}

/// The flag of a value that begins with the moment of its expiry.
const EXPIRES: u8 = 1 << 2;
/// The flag of a value that is kept apart from its entry.
const SEPARATED: u8 = 1 << 3;

impl Kind {
    /// Bits that the number of a kind takes.
    pub const BITS: u32 = 6;
    /// Every kind.
    pub const ALL: [Kind; 6] = [
        Kind::Delete,
        Kind::Put,
        Kind::Merge,
        Kind::PutExpiring,
        Kind::PutSeparated,
        Kind::PutExpiringSeparated,
    ];

    /// The kind with this number on disk: the one decoder of kinds. `None` is damage.
    #[inline]
    pub fn from_u8(byte: u8) -> Option<Kind> {
        const BY_NUMBER: [Option<Kind>; 1 << Kind::BITS] = {
            let mut table = [None; 1 << Kind::BITS];
            let mut at = 0;
            while at < Kind::ALL.len() {
                table[Kind::ALL[at] as usize] = Some(Kind::ALL[at]);
                at += 1;
            }
            table
        };
        BY_NUMBER.get(usize::from(byte)).copied().flatten()
    }

    /// What the entry does, whatever its flags.
    #[inline]
    pub fn verb(self) -> Verb {
        match self {
            Kind::Delete => Verb::Delete,
            Kind::Put | Kind::PutExpiring | Kind::PutSeparated | Kind::PutExpiringSeparated => Verb::Put,
            Kind::Merge => Verb::Merge,
        }
    }

    /// Whether the stored value begins with a moment.
    #[inline]
    pub fn expires(self) -> bool {
        self as u8 & EXPIRES != 0
    }

    /// Whether a pointer is stored in the place of the value.
    #[inline]
    pub fn is_separated(self) -> bool {
        self as u8 & SEPARATED != 0
    }

    /// The kind of the same entry with a pointer in the place of its value. A put.
    #[inline]
    pub fn separated(self) -> Kind {
        match self {
            Kind::Put | Kind::PutSeparated => Kind::PutSeparated,
            Kind::PutExpiring | Kind::PutExpiringSeparated => Kind::PutExpiringSeparated,
            Kind::Delete | Kind::Merge => unreachable!("only values are kept apart"),
        }
    }

    /// The kind of the same entry with its value in it.
    #[inline]
    pub fn whole(self) -> Kind {
        match self {
            Kind::PutSeparated => Kind::Put,
            Kind::PutExpiringSeparated => Kind::PutExpiring,
            whole => whole,
        }
    }
}

/// Bytes that the expiry takes at the front of a stored value that [expires](Kind::expires).
pub const EXPIRY_BYTES: usize = 8;

/// Splits the stored value of an entry that [expires](Kind::expires) into its moment (Unix
/// milliseconds) and what follows. `None` if the bytes are too short to be one.
pub fn split_expiry(stored: &[u8]) -> Option<(u64, &[u8])> {
    let (moment, value) = stored.split_first_chunk::<EXPIRY_BYTES>()?;
    Some((u64::from_be_bytes(*moment), value))
}

/// Sequence number and kind in one word, as memtables keep them: `seqno << 8 | kind`.
#[inline]
pub fn pack_trailer(seqno: Seqno, kind: Kind) -> u64 {
    debug_assert!(seqno <= SEQNO_MAX);
    seqno << 8 | kind as u64
}

/// The first 8 bytes of `key` as a big-endian number, short keys padded with zeros. Monotone:
/// `a <= b` implies `head(a) <= head(b)`; equal heads decide nothing.
#[inline]
pub fn head(key: &[u8]) -> u64 {
    if let Some(first) = key.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    // Two reads that overlap, or one for each byte: a copy of so many bytes would be a call.
    if let Some((first, last)) = key.first_chunk::<4>().zip(key.last_chunk::<4>()) {
        let behind = u64::from(u32::from_be_bytes(*last)) << (8 * (8 - key.len()));
        return u64::from(u32::from_be_bytes(*first)) << 32 | behind & u64::from(u32::MAX);
    }
    key.iter().zip([56, 48, 40]).fold(0, |head, (&byte, shift)| head | u64::from(byte) << shift)
}

/// [`head`] of what follows the first `skip` bytes; 0 if nothing does.
#[inline]
pub fn head_after(key: &[u8], skip: usize) -> u64 {
    head(key.get(skip..).unwrap_or_default())
}

/// The one hash of a key, made once per operation: filters and caches derive theirs from it.
#[inline]
pub fn hash(key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(key)
}

/// `a == b`, without a call up to 32 bytes: prefixes and tails are short. A call costs more than
/// its few instructions say: one for an empty prefix took half of the time of a lookup in cached
/// blocks, likely because its wide load waits for the narrow stores that wrote the key just before.
#[inline]
pub fn equal(a: &[u8], b: &[u8]) -> bool {
    /// Equal in the first and in the last `N` bytes, which is all of up to `2 N` bytes.
    fn ends<const N: usize>(a: &[u8], b: &[u8]) -> bool {
        a.first_chunk::<N>() == b.first_chunk() && a.last_chunk::<N>() == b.last_chunk()
    }
    a.len() == b.len()
        && match a.len() {
            0 => true,
            1..=3 => ends::<1>(a, b) && a[a.len() / 2] == b[b.len() / 2],
            4..=7 => ends::<4>(a, b),
            8..=16 => ends::<8>(a, b),
            17..=32 => ends::<16>(a, b),
            _ => a == b,
        }
}

/// Whether `a` comes before `b`. Where one of them is empty nothing is compared: see
/// [`KeyRange::begins_by`].
#[inline]
pub(crate) fn is_before(a: &[u8], b: &[u8]) -> bool {
    !b.is_empty() && (a.is_empty() || a < b)
}

/// Whether `key` begins with `prefix`, as [`equal`].
#[inline]
pub fn begins_with(key: &[u8], prefix: &[u8]) -> bool {
    key.get(..prefix.len()).is_some_and(|start| equal(start, prefix))
}

/// Length of the longest common prefix.
#[inline]
pub fn common_prefix_len(a: &[u8], b: &[u8]) -> usize {
    /// How many of these bytes are equal, from the first on, where the bits say which are not.
    fn equal_bytes(differ: u64) -> usize {
        differ.trailing_zeros() as usize / 8
    }
    let limit = a.len().min(b.len());
    let (a, b) = (&a[..limit], &b[..limit]);
    let words = a.chunks_exact(8).zip(b.chunks_exact(8));
    for (at, (x, y)) in words.enumerate() {
        let word = |bytes: &[u8]| bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        let differ = word(x) ^ word(y);
        if differ != 0 {
            return 8 * at + equal_bytes(differ);
        }
    }
    // What is left is a part of the last 8 or 4 bytes, which may overlap with what is equal.
    if let Some((x, y)) = a.last_chunk().zip(b.last_chunk()) {
        let differ = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        return if differ == 0 { limit } else { limit - 8 + equal_bytes(differ) };
    }
    let ends = |bytes: &[u8]| {
        let (first, last) = (bytes.first_chunk()?, bytes.last_chunk()?);
        Some(u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32)
    };
    if let Some((x, y)) = ends(a).zip(ends(b)) {
        return match equal_bytes(x ^ y) {
            8 => limit,
            first @ ..4 => first,
            last => limit + last - 8,
        };
    }
    (0..limit).find(|&at| a[at] != b[at]).unwrap_or(limit)
}

/// The length of the shortest prefix `s` of `upper` with `lower < s <= upper`. Requires
/// `lower < upper`.
pub fn separator_len(lower: &[u8], upper: &[u8]) -> usize {
    debug_assert!(lower < upper);
    common_prefix_len(lower, upper) + 1
}

/// The smallest key above every key that starts with `prefix`; `None` if there is none.
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// The smallest key of legal length above `key`, which has one; [`END_OF_KEYS`] if there is none.
pub fn successor(key: &[u8]) -> Cow<'static, [u8]> {
    if key.len() < KEY_BYTES_MAX {
        return Cow::Owned([key, &[0]].concat());
    }
    prefix_end(key).map_or(Cow::Borrowed(&END_OF_KEYS), Cow::Owned)
}

/// Empties memory for keys, and gives it back if it is large. Made smaller where it lies, it would
/// leave a hole that the next long key may not fit into.
pub(crate) fn let_go_of_long(memory: &mut Vec<u8>) {
    memory.clear();
    if memory.capacity() > ROOM_KEPT_BYTES {
        *memory = Vec::new();
    }
}

/// Where a range of user keys ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyEnd {
    /// At this key, which belongs to the range.
    Included(Box<[u8]>),
    /// Before this key.
    Excluded(Box<[u8]>),
    /// Nowhere.
    Unbounded,
}

impl KeyEnd {
    /// Whether `key` lies before the end.
    #[inline]
    pub fn admits(&self, key: &[u8]) -> bool {
        match self {
            KeyEnd::Included(end) => !is_before(end, key),
            KeyEnd::Excluded(end) => key < &end[..],
            KeyEnd::Unbounded => true,
        }
    }

    /// Whether there is no end.
    #[inline]
    pub fn is_unbounded(&self) -> bool {
        matches!(self, KeyEnd::Unbounded)
    }

    /// The key at the end, if there is one.
    pub fn key(&self) -> Option<&[u8]> {
        match self {
            KeyEnd::Included(end) | KeyEnd::Excluded(end) => Some(end),
            KeyEnd::Unbounded => None,
        }
    }
}

impl PartialOrd for KeyEnd {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for KeyEnd {
    /// By how far the range reaches: `Excluded(k) < Included(k) < Unbounded`.
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.key(), other.key()) {
            (None, None) => Ordering::Equal,
            (None, _) => Ordering::Greater,
            (_, None) => Ordering::Less,
            (Some(a), Some(b)) => {
                let included = |end: &KeyEnd| matches!(end, KeyEnd::Included(_));
                a.cmp(b).then(included(self).cmp(&included(other)))
            }
        }
    }
}

/// A range of user keys: from `start`, which belongs to it, to `end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key that may be in the range.
    pub start: Box<[u8]>,
    /// Where it ends.
    pub end: KeyEnd,
}

impl KeyRange {
    /// Every key.
    pub fn all() -> Self {
        KeyRange { start: Box::default(), end: KeyEnd::Unbounded }
    }

    /// From `first` to `last`, both in the range.
    pub fn closed(first: &[u8], last: &[u8]) -> Self {
        KeyRange { start: first.into(), end: KeyEnd::Included(last.into()) }
    }

    /// From `start` up to, not including, `end`.
    pub fn half_open(start: &[u8], end: &[u8]) -> Self {
        KeyRange { start: start.into(), end: KeyEnd::Excluded(end.into()) }
    }

    /// Whether no key can be in the range.
    pub fn is_empty(&self) -> bool {
        !self.end.admits(&self.start)
    }

    /// Whether `key` is in the range.
    #[inline]
    pub fn contains(&self, key: &[u8]) -> bool {
        self.begins_by(key) && self.end.admits(key)
    }

    /// Whether `key` is at the start or behind it. With an empty start nothing is compared: the
    /// address of an empty box is not mapped, and a processor that is asked for none of the bytes
    /// there takes 90 ns to find that it need not look (AVX-512, glibc's `memcmp`).
    #[inline]
    pub fn begins_by(&self, key: &[u8]) -> bool {
        self.start.is_empty() || key >= &self.start[..]
    }

    /// The start or `key`, whichever is later.
    #[inline]
    pub fn clamp_to_start<'a>(&'a self, key: &'a [u8]) -> &'a [u8] {
        if self.begins_by(key) { key } else { &self.start }
    }

    /// Whether some key is in both ranges.
    pub fn overlaps(&self, other: &KeyRange) -> bool {
        !self.is_empty()
            && !other.is_empty()
            && self.end.admits(&other.start)
            && other.end.admits(&self.start)
    }

    /// The keys in both ranges; may be empty.
    pub fn intersection(&self, other: &KeyRange) -> KeyRange {
        KeyRange { start: (&self.start).max(&other.start).clone(), end: (&self.end).min(&other.end).clone() }
    }

    /// The smallest range that holds both.
    pub fn hull(&self, other: &KeyRange) -> KeyRange {
        KeyRange { start: (&self.start).min(&other.start).clone(), end: (&self.end).max(&other.end).clone() }
    }

    /// Whether every key of `other` is in this range.
    pub fn covers(&self, other: &KeyRange) -> bool {
        other.is_empty() || (self.start <= other.start && other.end <= self.end)
    }
}

/// A range of user keys that several hold at once: an iterator and its walkers. Clones share bounds
/// that are long. Short ones are copied: to count who holds them costs a short scan more.
#[derive(Clone, Debug)]
pub enum SharedRange {
    /// Bounds that each clone has for itself.
    Own(KeyRange),
    /// Bounds that all clones share.
    Shared(Arc<KeyRange>),
}

/// Bounds that have more bytes together are shared.
const OWN_BYTES_MAX: usize = 256;

impl SharedRange {
    /// The same, or from the first key on: for what never looks before the start.
    #[inline]
    pub fn to_end(&self) -> SharedRange {
        match self {
            SharedRange::Own(range) => {
                SharedRange::Own(KeyRange { start: Box::default(), end: range.end.clone() })
            }
            SharedRange::Shared(range) => SharedRange::Shared(range.clone()),
        }
    }
}

impl Default for SharedRange {
    /// Every key.
    fn default() -> Self {
        SharedRange::Own(KeyRange::all())
    }
}

impl Deref for SharedRange {
    type Target = KeyRange;

    #[inline]
    fn deref(&self) -> &KeyRange {
        match self {
            SharedRange::Own(range) => range,
            SharedRange::Shared(range) => range,
        }
    }
}

impl From<KeyRange> for SharedRange {
    #[inline]
    fn from(range: KeyRange) -> Self {
        match range.start.len() + range.end.key().map_or(0, <[u8]>::len) <= OWN_BYTES_MAX {
            true => SharedRange::Own(range),
            false => SharedRange::Shared(Arc::new(range)),
        }
    }
}

impl fmt::Display for KeyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}", self.start.escape_ascii())?;
        match &self.end {
            KeyEnd::Included(end) => write!(f, " .. {}]", end.escape_ascii()),
            // Behind all keys.
            KeyEnd::Excluded(end) if end.len() > KEY_BYTES_MAX => f.write_str(" ..)"),
            KeyEnd::Excluded(end) => write!(f, " .. {})", end.escape_ascii()),
            KeyEnd::Unbounded => f.write_str(" ..)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Symptom: an iterator between bounds of 60,000 bytes kept up to three copies of each. Cause:
    /// range, walk and each end had the bounds as bytes of their own. Cure: they share them.
    #[test]
    fn clones_of_a_shared_range_have_long_bounds_in_the_same_memory() {
        let range = SharedRange::from(KeyRange::half_open(&[1; 60_000], &[2; 60_000]));
        for clone in [range.clone(), range.to_end()] {
            assert_eq!(clone.start.as_ptr(), range.start.as_ptr());
            assert_eq!(clone.end.key().unwrap().as_ptr(), range.end.key().unwrap().as_ptr());
        }
        let short = SharedRange::from(KeyRange::half_open(b"a", b"b"));
        assert_eq!((&*short.clone(), &*short.to_end()), (&*short, &KeyRange::half_open(b"", b"b")));
    }

    proptest! {
        #[test]
        fn what_comes_before_is_what_is_less_also_of_empty_keys(
            a in prop::collection::vec(0u8..3, 0..4),
            b in prop::collection::vec(0u8..3, 0..4),
        ) {
            prop_assert_eq!(is_before(&a, &b), a < b);
            prop_assert_eq!(KeyEnd::Included(b.clone().into()).admits(&a), a <= b);
            prop_assert!(!is_before(&a, &a));
        }

        #[test]
        fn heads_are_monotone(a: Vec<u8>, b: Vec<u8>) {
            if a <= b { prop_assert!(head(&a) <= head(&b)); }
            if head(&a) < head(&b) { prop_assert!(a < b); }
        }

        #[test]
        fn a_head_is_what_a_key_with_zeros_behind_begins_with(key in prop::collection::vec(any::<u8>(), 0..12)) {
            let padded = [&key[..], &[0; 8]].concat();
            prop_assert_eq!(head(&key), u64::from_be_bytes(*padded.first_chunk().unwrap()));
        }

        #[test]
        fn a_separator_separates(a: Vec<u8>, b: Vec<u8>) {
            prop_assume!(a != b);
            let (lower, upper) = if a < b { (a, b) } else { (b, a) };
            let separator = &upper[..separator_len(&lower, &upper)];
            prop_assert!(&lower[..] < separator && separator <= &upper[..]);
        }

        #[test]
        fn the_common_prefix_is_common_and_longest(p in prop::collection::vec(0u8..3, 0..40), a in prop::collection::vec(0u8..3, 0..9), b in prop::collection::vec(0u8..3, 0..9)) {
            let (a, b) = ([p.clone(), a].concat(), [p, b].concat());
            let len = common_prefix_len(&a, &b);
            prop_assert_eq!(&a[..len], &b[..len]);
            prop_assert!(len == a.len() || len == b.len() || a[len] != b[len]);
        }

        #[test]
        fn equal_is_what_slices_say(a in prop::collection::vec(any::<u8>(), 0..50), at: prop::sample::Index, flip in 1u8.., len in 0usize..50) {
            prop_assert!(equal(&a, &a.clone()));
            prop_assert!(begins_with(&a, &a[..len.min(a.len())]));
            prop_assert!(!begins_with(&a, &[&a[..], &[0]].concat()));
            if !a.is_empty() {
                let mut b = a.clone();
                b[at.index(a.len())] ^= flip;
                prop_assert!(!equal(&a, &b) && !equal(&a, &a[1..]));
                prop_assert_eq!(begins_with(&a, &b[..len.min(b.len())]), a.starts_with(&b[..len.min(b.len())]));
            }
        }

        #[test]
        fn the_prefix_end_is_the_least_upper_bound(prefix in prop::collection::vec(253u8.., 0..4), tail: Vec<u8>) {
            let member = [prefix.clone(), tail].concat();
            match prefix_end(&prefix) {
                Some(end) => prop_assert!(member < end && !end.starts_with(&prefix)),
                None => prop_assert!(prefix.iter().all(|&b| b == 255)),
            }
        }
    }

    #[test]
    fn a_kind_is_its_verb_and_flags_and_other_bits_are_none() {
        for byte in 0..=u8::MAX {
            match Kind::from_u8(byte) {
                Some(kind) => {
                    assert_eq!(kind as u8, byte);
                    let expires = u8::from(kind.expires()) * EXPIRES;
                    let flags = expires | (u8::from(kind.is_separated()) * SEPARATED);
                    assert_eq!(byte, kind.verb() as u8 | flags);
                }
                None => assert!(Kind::ALL.iter().all(|&kind| kind as u8 != byte), "{byte} is a kind"),
            }
        }
        assert_eq!(Kind::ALL.map(|kind| kind as u8), [0, 1, 2, 5, 9, 13], "the numbers are on disk");
        assert!(Kind::ALL.iter().all(|&kind| u32::from(kind as u8) < 1 << Kind::BITS));
        assert_eq!(Kind::PutExpiring.separated(), Kind::PutExpiringSeparated);
        assert_eq!(Kind::PutExpiringSeparated.whole(), Kind::PutExpiring);
        assert_eq!(Kind::ALL.map(|kind| kind.whole().is_separated()), [false; 6]);
    }

    #[test]
    fn ranges_overlap_only_where_a_key_is_in_both() {
        let a = KeyRange::half_open(b"a", b"c");
        assert!(!a.overlaps(&KeyRange::closed(b"c", b"d")));
        assert!(a.overlaps(&KeyRange::closed(b"b", b"b")));
        assert!(KeyRange::closed(b"a", b"c").overlaps(&KeyRange::closed(b"c", b"d")));
        assert!(!KeyRange::half_open(b"b", b"b").overlaps(&KeyRange::all()));
        assert_eq!(a.hull(&KeyRange::closed(b"c", b"d")), KeyRange::closed(b"a", b"d"));
        assert!(a.intersection(&KeyRange::closed(b"c", b"d")).is_empty());
    }
}

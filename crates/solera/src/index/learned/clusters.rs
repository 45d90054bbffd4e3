//! Separators that lie in clusters far from each other: `Clusters`, which finds the cluster by
//! codes and the place in it by distances (docs/decisions/0028).
//!
//! Runs of dense keys, as (hash, line), are often longer than a block. A boundary within one must
//! be exact to one key, and the next run may be 2^40 away: no code of 16 bits does both. So codes
//! (`Boundaries` of `solera-model`) only find the cluster's *stem*. Other boundaries *follow*, each
//! by its distance from the one before, in one to three bytes. The first distance, in up to eight,
//! counts from the number to which the stem's code was rounded. A boundary too close to the key
//! below it for a code is no stem itself: it follows one. Numbers are heads without their lowest
//! bits. A few boundaries need those; only below them are keys of the table sent too far.
//!
//! What must hold: of what `build` made, `locate` gives how many separators are not above the key,
//! or one more. It ascends with keys and is never above `len`. In a block that may have more keys
//! than `LastKeys` knows, the least known one goes aright. So the keys astray can be counted.
//! Decoded bytes may give wrong numbers, none above `len`.
//!
//! Caller: `index::learned`.

use super::{
    super::{
        last_keys::LastKeys,
        separators::Separators,
        sorted::{compare_with_prefix, shared_prefix},
        stored::decode_model,
    },
    heads::{Heads, untold_max},
    segments_of,
};
use crate::codec::{DecodeError, Decoder, put_bytes};
use solera_model::boundaries::{Below, Boundaries, LEN_MAX};
use std::{cmp::Ordering, ops::Range};

/// Stems that are counted one by one behind a sum.
const CHUNK: usize = 32;
/// Most boundaries that follow a stem.
const FOLLOWERS_MAX: usize = 127;
/// Bytes of a distance, at most: of the first from a stem, and of another.
const FIRST_MAX: usize = 8;
const NEXT_MAX: usize = 3;
/// A boundary may be its cluster's stem if the gap below it is at least one in so many of the way
/// from the boundary before.
const TOLD: u64 = 256;
/// The gap below a boundary keeps so many bits at least, but for a few boundaries.
const ROOM_BITS: u32 = 2;
/// Bytes of a stem, about: its code, its count and its part of a sum.
const STEM_BYTES: f64 = 3.0;
/// Of the way between two stems a code tells so many bits, about.
const CODE_BITS: u32 = 7;
/// Cache lines that a lookup touches beyond those of codes: the sums, the counts, the distances;
/// and what a distance that it reads is worth.
const LINES: f64 = 3.0;
const WALKED_LINES: f64 = 0.03;
/// The same in bytes of the index (`index::cost`).
const WALKED_BYTES: f64 = 2.0 * WALKED_LINES;

/// Boundaries in clusters.
#[derive(Clone, Debug)]
pub(super) struct Clusters {
    /// What all separators begin with.
    prefix: Box<[u8]>,
    numbers: Numbers,
    stems: Boundaries,
    /// Of each stem how many boundaries follow it, times two, and one more if it is a boundary
    /// itself. If not, it is where the first of them is taken to be. Then a chunk of zeros.
    counts: Box<[u8]>,
    /// Of each [`CHUNK`] stems.
    sums: Box<[Sum]>,
    bytes: Bytes,
    /// Of each stem that has followers, and then as many bytes more as a distance is read with.
    distances: Box<[u8]>,
    len: u32,
}

/// The numbers of texts: heads without their lowest bits, as many as no boundary needs.
#[derive(Clone, Debug)]
struct Numbers {
    heads: Heads,
    shift: u8,
}

/// Of how many bytes distances are.
#[derive(Clone, Copy, Debug)]
struct Bytes {
    /// The first from a stem: 1 to [`FIRST_MAX`].
    first: u8,
    /// Others: 1 to [`NEXT_MAX`].
    next: u8,
}

/// What lies before some stems.
#[derive(Clone, Copy, Debug)]
struct Sum {
    boundaries: u32,
    /// Bytes of distances.
    distances: u32,
}

/// Consecutive boundaries that follow one stem.
struct Cluster {
    /// The number that codes are made of.
    stem: u64,
    /// The largest that is looked for below it.
    below: u64,
    is_boundary: bool,
    /// Ranks of those that follow.
    followers: Range<usize>,
}

/// What some counts of a chunk add up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counted {
    /// Stems that are boundaries themselves.
    stems: usize,
    /// Boundaries that follow stems.
    followers: usize,
    /// Stems that have such.
    followed: usize,
}

/// What the counts below `end` add up to, which is less than [`CHUNK`].
#[inline]
fn counted(counts: &[u8; CHUNK], end: usize) -> Counted {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE2 is part of x86-64.
    return unsafe { x86::counted(counts, end) };
    #[cfg(not(target_arch = "x86_64"))]
    counted_scalar(counts, end)
}

/// The twin that defines [`counted`].
#[cfg(any(test, not(target_arch = "x86_64")))]
fn counted_scalar(counts: &[u8; CHUNK], end: usize) -> Counted {
    let mut counted = Counted { stems: 0, followers: 0, followed: 0 };
    for (lane, &count) in counts.iter().enumerate() {
        // Without a branch, so that compilers add up many at once.
        let count = if lane < end { usize::from(count) } else { 0 };
        counted.stems += count & 1;
        counted.followers += count >> 1;
        counted.followed += usize::from(count > 1);
    }
    counted
}

/// All counts of a chunk at once, by the instructions that every such processor has.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{CHUNK, Counted};
    use std::arch::x86_64::*;

    /// Ones as many as counts, and zeros as many.
    const MASKS: [u8; 2 * CHUNK] = {
        let mut masks = [0; 2 * CHUNK];
        let mut lane = 0;
        while lane < CHUNK {
            masks[lane] = u8::MAX;
            lane += 1;
        }
        masks
    };

    /// The two halves of a chunk.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn halves(bytes: &[u8; CHUNK]) -> [__m128i; 2] {
        // SAFETY: each vector has half as many bytes.
        unsafe {
            [_mm_loadu_si128(bytes.as_ptr().cast()), _mm_loadu_si128(bytes[CHUNK / 2..].as_ptr().cast())]
        }
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn counted(counts: &[u8; CHUNK], end: usize) -> Counted {
        let masks = MASKS[CHUNK - end..].first_chunk().expect("an end is below the length of a chunk");
        let ([low, high], [of_low, of_high]) = (halves(counts), halves(masks));
        let (low, high) = (_mm_and_si128(low, of_low), _mm_and_si128(high, of_high));
        let one = _mm_set1_epi8(1);
        let stems = _mm_add_epi8(_mm_and_si128(low, one), _mm_and_si128(high, one));
        // Bits that come from the byte beside are cut off again.
        let shifted = |counts| _mm_and_si128(_mm_srli_epi16::<1>(counts), _mm_set1_epi8(0x7f));
        let (low, high) = (shifted(low), shifted(high));
        // Two counts of followers are at most 254.
        let followers = _mm_add_epi8(low, high);
        let followed = _mm_add_epi8(_mm_min_epu8(low, one), _mm_min_epu8(high, one));
        // Each sum has less than 16 bits.
        let sum = |of| _mm_sad_epu8(of, _mm_setzero_si128());
        let beside = _mm_or_si128(_mm_slli_epi64::<16>(sum(stems)), _mm_slli_epi64::<32>(sum(followed)));
        let sums = _mm_or_si128(sum(followers), beside);
        let sums = _mm_cvtsi128_si64(_mm_add_epi64(sums, _mm_unpackhi_epi64(sums, sums)));
        let part = |shift: u32| (sums >> shift) as usize & 0xffff;
        Counted { stems: part(16), followers: part(0), followed: part(32) }
    }
}

/// Separators that clusters are made of, and the last keys below them, by heads.
pub(super) struct Told<'s> {
    last_keys: &'s LastKeys,
    /// What all separators begin with.
    prefix: &'s [u8],
    heads: Heads,
    above: Vec<u64>,
    below: Vec<u64>,
}

impl<'s> Told<'s> {
    /// These separators, at least one, above these last keys. `None` if heads do not ascend
    /// strictly.
    pub(super) fn of(separators: &'s Separators, last_keys: &'s LastKeys, heads: Heads) -> Option<Told<'s>> {
        debug_assert!(!separators.is_empty());
        let prefix = shared_prefix(separators);
        let above = separators.iter().map(|key| heads.head(&key[prefix.len()..])).collect::<Vec<_>>();
        if !above.is_sorted_by(|a, b| a < b) {
            return None;
        }
        let mut told = Told { last_keys, prefix, heads, above, below: Vec::new() };
        told.below = (0..separators.len()).map(|i| told.head(last_keys.last(i))).collect();
        Some(told)
    }

    /// The head of a key of the table: 0 of one that begins otherwise.
    fn head(&self, key: &[u8]) -> u64 {
        key.strip_prefix(self.prefix).map_or(0, |rest| self.heads.head(rest))
    }

    /// The numbers of separators and of last keys, with as few bits as tell each separator from the
    /// last key below it, but for a few. From the least key that is known below it each is told, if
    /// there may be others; `None` if heads do not do so.
    fn numbers(&self, one_in: f64) -> Option<(Numbers, Vec<u64>, Vec<u64>)> {
        let Told { last_keys, above, below, .. } = self;
        let untold = untold_max(last_keys, one_in, above.len()) as usize;
        let used = above.iter().fold(0, |bits, number| bits | number);
        let room = above.iter().zip(below).map(|(above, below)| above.saturating_sub(*below));
        let mut rooms: Vec<u64> = room.collect();
        let (_, small, _) = rooms.select_nth_unstable(untold.min(above.len() - 1));
        let spare = small.checked_ilog2().unwrap_or(0).saturating_sub(ROOM_BITS);
        let mut shift = spare.max(used.trailing_zeros()).min(u64::BITS - 1);
        for pair in above.windows(2) {
            shift = shift.min(told_up_to(pair[0], pair[1])?);
        }
        for (rank, (&number, &below)) in above.iter().zip(below).enumerate() {
            if told_up_to(below, number).is_none_or(|up_to| up_to < shift)
                && let Some(least) = last_keys.least_of_more(rank)
            {
                shift = shift.min(told_up_to(self.head(least), number)?);
            }
        }
        let shifted = |numbers: &[u64]| numbers.iter().map(|number| number >> shift).collect();
        let numbers = Numbers { heads: self.heads.clone(), shift: shift as u8 };
        Some((numbers, shifted(above), shifted(below)))
    }
}

impl Numbers {
    #[inline]
    fn number(&self, text: &[u8]) -> u64 {
        self.heads.head(text) >> self.shift
    }
}

impl Bytes {
    /// How many the distances behind a stem with this count take.
    #[inline]
    fn behind(self, count: u8) -> usize {
        let followers = usize::from(count >> 1);
        if followers == 0 { 0 } else { usize::from(self.first) + (followers - 1) * usize::from(self.next) }
    }
}

impl Clusters {
    /// Separators as they are told; and the ranks of those below which keys are sent too far, about
    /// one in `one_in` at most. `None` if clusters cannot be told by codes.
    pub(super) fn build(told: &Told<'_>, one_in: f64) -> Option<(Clusters, Vec<u32>)> {
        let (numbers, ranks, below) = told.numbers(one_in)?;
        let missed = (0u32..).zip(ranks.iter().zip(&below));
        let missed = missed.filter(|(_, (number, below))| below >= number).map(|(rank, _)| rank).collect();
        let (clusters, next) = cheapest(&ranks, &below);
        let stems: Vec<u64> = clusters.iter().map(|cluster| cluster.stem).collect();
        let last: Vec<u64> = clusters.iter().map(|cluster| cluster.below).collect();
        let stems = Boundaries::above(Below::all(&last), &stems, |number| last[number] >= stems[number]);
        let firsts = firsts(&stems, &clusters, &ranks)?;
        let first = firsts.iter().copied().map(bytes_of).max().unwrap_or(1).max(1);
        let mut distances = Vec::new();
        let followers = clusters.iter().map(|cluster| &ranks[cluster.followers.clone()]);
        for (followers, distance) in followers.filter(|followers| !followers.is_empty()).zip(firsts) {
            put(&mut distances, distance, first);
            followers.windows(2).for_each(|pair| put(&mut distances, pair[1] - pair[0], next));
        }
        let count = |cluster: &Cluster| (cluster.followers.len() as u8) << 1 | u8::from(cluster.is_boundary);
        let clusters = Clusters {
            prefix: told.prefix.into(),
            numbers,
            stems,
            counts: clusters.iter().map(count).collect(),
            sums: Box::default(),
            bytes: Bytes { first: first as u8, next: next as u8 },
            distances: distances.into(),
            len: 0,
        };
        Some((clusters.summed()?, missed))
    }

    /// With the sums of its counts, of which there is one for each stem. `None` if there are too
    /// many boundaries.
    fn summed(mut self) -> Option<Clusters> {
        let mut sums = Vec::with_capacity(self.counts.len().div_ceil(CHUNK));
        let (mut boundaries, mut bytes) = (0, 0);
        for (number, &count) in self.counts.iter().enumerate() {
            if number % CHUNK == 0 {
                sums.push(Sum { boundaries: boundaries as u32, distances: bytes as u32 });
            }
            boundaries += of_stem(count);
            bytes += self.bytes.behind(count);
            if boundaries > LEN_MAX {
                return None;
            }
        }
        (self.sums, self.len) = (sums.into(), boundaries as u32);
        self.counts = [&self.counts[..], &[0; CHUNK]].concat().into();
        self.distances = [&self.distances[..], &[0; FIRST_MAX]].concat().into();
        Some(self)
    }

    /// Puts `begin`, which was left out of all separators, before what they begin with.
    pub(super) fn put_behind(&mut self, begin: &[u8]) {
        self.prefix = [begin, &self.prefix].concat().into();
    }

    /// Appends the prefix (length as varint, bytes), what heads are ([`Heads::encode`]), how many
    /// of their lowest bits are left out (u8), the stems ([`Boundaries::encode`]), the count of
    /// each (u8), how many bytes the first distance from a stem has, and how many the others (u8
    /// each), and the distances, little-endian.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, &self.prefix);
        self.numbers.heads.encode(out);
        out.push(self.numbers.shift);
        self.stems.encode(out);
        out.extend_from_slice(&self.counts[..self.stems.len()]);
        out.extend([self.bytes.first, self.bytes.next]);
        out.extend_from_slice(&self.distances[..self.distances.len() - FIRST_MAX]);
    }

    /// Reads what [`Clusters::encode`] wrote. What passes may say wrong numbers, but none above
    /// [`Clusters::len`].
    pub(super) fn decode(decoder: &mut Decoder<'_>) -> Result<Clusters, DecodeError> {
        let prefix = decoder.bytes("what separators begin with")?.into();
        let heads = Heads::decode(decoder)?;
        let shift = decoder.u8("how many bits of heads are left out")?;
        if u32::from(shift) >= u64::BITS {
            return decoder.fail("less than 64 bits that are left out");
        }
        let numbers = Numbers { heads, shift };
        let stems = decode_model(decoder, Boundaries::decode)?;
        let counts: Box<[u8]> = decoder.take(stems.len(), "a count for each stem")?.into();
        let first = decoder.u8("how many bytes a first distance has")?;
        let next = decoder.u8("how many bytes a distance has")?;
        if !(1..=FIRST_MAX).contains(&first.into()) || !(1..=NEXT_MAX).contains(&next.into()) {
            return decoder.fail("distances of 1 to 8 bytes, and of 1 to 3");
        }
        let bytes = Bytes { first, next };
        let taken: u64 = counts.iter().map(|&count| bytes.behind(count) as u64).sum();
        let taken = usize::try_from(taken).unwrap_or(usize::MAX);
        let distances = decoder.take(taken, "all distances")?.into();
        let sums = Box::default();
        let clusters = Clusters { prefix, numbers, stems, counts, sums, bytes, distances, len: 0 };
        match clusters.summed() {
            Some(clusters) => Ok(clusters),
            None => decoder.fail("clusters of less than 2^25 boundaries"),
        }
    }

    /// How many separators are not above `key`, or one more; and how far it is between the two
    /// around it, in 256ths, where distances tell. `early` is told, before distances are read, how
    /// many lie before the key's cluster.
    #[inline]
    pub(super) fn locate(&self, key: &[u8], early: impl Fn(usize)) -> (usize, Option<u8>) {
        match compare_with_prefix(key, &self.prefix) {
            Ordering::Less => return (0, None),
            Ordering::Greater => return (self.len(), None),
            Ordering::Equal => {}
        }
        let number = self.numbers.number(&key[self.prefix.len()..]);
        let Some((stems, taken_for)) = self.stems.rounded(number) else { return (0, None) };
        let Some(stem) = stems.checked_sub(1) else { return (0, None) };
        let (boundaries, distances) = self.before(stem);
        early(boundaries);
        let count = self.counts[stem];
        let (followers, within) = self.followers(count, distances, number - taken_for);
        (boundaries + usize::from(count & 1) + followers, within)
    }

    /// How many boundaries lie before a stem, and how many bytes of distances.
    #[inline]
    fn before(&self, stem: usize) -> (usize, usize) {
        let sum = self.sums[stem / CHUNK];
        let counts = self.counts[stem / CHUNK * CHUNK..].first_chunk().expect("counts follow the last one");
        let Counted { stems, followers, followed } = counted(counts, stem % CHUNK);
        let (first, next) = (usize::from(self.bytes.first), usize::from(self.bytes.next));
        let bytes = followed * first + (followers - followed) * next;
        (sum.boundaries as usize + stems + followers, sum.distances as usize + bytes)
    }

    /// How many of the boundaries that follow a stem with this count are not further from it than
    /// this; and how far it is from the last of them to the next, in 256ths, or from the stem, if
    /// there is a next. Their distances begin at `at`.
    #[inline]
    fn followers(&self, count: u8, at: usize, distance: u64) -> (usize, Option<u8>) {
        let (first, next) = (usize::from(self.bytes.first), usize::from(self.bytes.next));
        let (count, is_boundary) = (usize::from(count >> 1), count & 1 == 1);
        if count == 0 {
            return (0, None);
        }
        let (mut left, mut step) = (distance, self.read(at, first));
        let mut following = 0;
        while left >= step {
            left -= step;
            following += 1;
            if following == count {
                return (following, None);
            }
            step = self.read(at + first + (following - 1) * next, next);
        }
        // A distance of 64 bits is no part of a run.
        let within = (following > 0 || is_boundary) && step < 1 << 32;
        (following, within.then(|| ((left << 8) / step) as u8))
    }

    /// The distance of so many bytes.
    #[inline]
    fn read(&self, at: usize, bytes: usize) -> u64 {
        let word = self.distances[at..].first_chunk().expect("bytes follow the last distance");
        u64::from_le_bytes(*word) & (u64::MAX >> (u64::BITS - 8 * bytes as u32))
    }

    /// Cache lines that a lookup touches.
    pub(super) fn lines(&self) -> f64 {
        let walked: f64 = self.counts.iter().map(|count| walked((count >> 1).into())).sum();
        let each = walked / f64::from(self.len.max(1));
        self.stems.lines() + self.numbers.heads.lines() + LINES + each * WALKED_LINES
    }

    /// What heads are, how many segments stems have, and how many separators follow them.
    pub(super) fn describe(&self) -> String {
        let followers: usize = self.counts.iter().map(|count| usize::from(count >> 1)).sum();
        let (stems, heads) = (self.stems.len(), self.numbers.heads.describe());
        let segments = segments_of([&self.stems].into_iter());
        format!("{followers} separators behind {stems} stems, heads of {heads}, {segments}")
    }

    /// Separators.
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// Bytes on the heap.
    pub(super) fn bytes(&self) -> usize {
        let own = self.prefix.len() + self.counts.len() + size_of_val(&*self.sums) + self.distances.len();
        own + self.stems.bytes() + self.numbers.heads.bytes()
    }

    /// Bytes that do not go by how many separators there are.
    pub(super) fn bytes_once(&self) -> usize {
        self.prefix.len() + self.numbers.heads.bytes()
    }
}

/// How many boundaries a stem with this count stands for, with those that follow it.
#[inline]
fn of_stem(count: u8) -> usize {
    usize::from(count >> 1) + usize::from(count & 1)
}

/// How many of the lowest bits two numbers can do without, the lesser first. `None` if the first is
/// not less.
fn told_up_to(lesser: u64, greater: u64) -> Option<u32> {
    (lesser < greater).then(|| (lesser ^ greater).ilog2())
}

/// Bytes of a distance.
fn bytes_of(distance: u64) -> usize {
    (u64::BITS - distance.leading_zeros()).div_ceil(8) as usize
}

fn put(distances: &mut Vec<u8>, distance: u64, bytes: usize) {
    distances.extend_from_slice(&distance.to_le_bytes()[..bytes]);
}

/// Boundaries of these numbers in the clusters that cost least; and of how many bytes the distances
/// between neighbours are then. What is further away begins a cluster.
fn cheapest(numbers: &[u64], below: &[u64]) -> (Vec<Cluster>, usize) {
    let cost = |clusters: &[Cluster], next: usize| -> f64 {
        let first = first_bytes(clusters, numbers) as f64;
        let of = |cluster: &Cluster| match cluster.followers.len() {
            0 => STEM_BYTES,
            count => STEM_BYTES + first + ((count - 1) * next) as f64 + walked(count) * WALKED_BYTES,
        };
        clusters.iter().map(of).sum()
    };
    let tried = (1..=NEXT_MAX).map(|next| (clusters(numbers, below, next), next));
    tried.min_by(|(a, of_a), (b, of_b)| cost(a, *of_a).total_cmp(&cost(b, *of_b))).expect("one was tried")
}

/// Of how many bytes first distances will be, about: a code is off by a part of the way from the
/// stem before.
fn first_bytes(clusters: &[Cluster], numbers: &[u64]) -> usize {
    let followed = clusters.iter().enumerate().filter(|(_, cluster)| !cluster.followers.is_empty());
    let distance = |(number, cluster): (usize, &Cluster)| {
        let before = number.checked_sub(1).map_or(0, |before| clusters[before].stem);
        numbers[cluster.followers.start] - cluster.stem + ((cluster.stem - before) >> CODE_BITS)
    };
    followed.map(distance).map(bytes_of).max().unwrap_or(1)
}

/// How many distances lookups of all the boundaries of a cluster read, one each.
fn walked(followers: usize) -> f64 {
    (followers * followers) as f64 / 2.0
}

/// Boundaries of these numbers in clusters. A boundary follows the one before if it is no further
/// away than `next` bytes tell.
fn clusters(numbers: &[u64], below: &[u64], next: usize) -> Vec<Cluster> {
    let mut clusters: Vec<Cluster> = Vec::new();
    for (rank, &number) in numbers.iter().enumerate() {
        let before = rank.checked_sub(1).map_or(0, |before| numbers[before]);
        if let Some(cluster) = clusters.last_mut().filter(|cluster| cluster.followers.len() < FOLLOWERS_MAX)
            && bytes_of(number - before) <= next
        {
            cluster.followers.end = rank + 1;
            continue;
        }
        let room = number.saturating_sub(below[rank]);
        let is_told = room > 0 && room.saturating_mul(TOLD) >= number - before;
        let cluster = if is_told {
            Cluster { stem: number, below: below[rank], is_boundary: true, followers: rank + 1..rank + 1 }
        } else {
            Cluster { stem: number, below: before, is_boundary: false, followers: rank..rank + 1 }
        };
        clusters.push(cluster);
    }
    clusters
}

/// How far the first follower of each cluster that has some is from what its stem is taken for.
/// `None` if the codes of stems send one of them to another cluster.
fn firsts(stems: &Boundaries, clusters: &[Cluster], numbers: &[u64]) -> Option<Vec<u64>> {
    let mut firsts = Vec::new();
    for (number, cluster) in clusters.iter().enumerate() {
        let mut followers = numbers[cluster.followers.clone()].iter();
        let (Some(&first), last) = (followers.next(), followers.next_back()) else { continue };
        let found = stems.rounded(first).filter(|(rank, _)| *rank == number + 1);
        firsts.push(first - found?.1);
        last.is_none_or(|&last| stems.place(last).rank == number + 1).then_some(())?;
    }
    Some(firsts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::last_keys::KEPT_MAX;
    use proptest::prelude::*;

    /// Blocks of so many keys: the separators, and the last keys.
    fn blocks(keys: &[Vec<u8>], of: usize) -> (Separators, LastKeys) {
        let (mut separators, mut last_keys) = (Separators::new(), LastKeys::new(keys.len() as u64));
        for block in (of..keys.len()).step_by(of) {
            separators.push_between(&keys[block - 1], &keys[block]);
            last_keys.push(&keys[block - of.min(KEPT_MAX)..block]);
        }
        (separators, last_keys)
    }

    fn built(
        separators: &Separators,
        last_keys: &LastKeys,
        one_in: f64,
        heads: Heads,
    ) -> Option<(Clusters, Vec<u32>)> {
        Clusters::build(&Told::of(separators, last_keys, heads)?, one_in)
    }

    fn runs(count: u64, key: impl Fn(u64, u64) -> Vec<u8>) -> Vec<Vec<u8>> {
        let scattered = |i: u64| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let run = |i| (0..20 + scattered(i) % 180).map(move |line| (scattered(i), line));
        let mut keys: Vec<Vec<u8>> = (0..count).flat_map(run).map(|(stem, line)| key(stem, line)).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    fn stored(clusters: &Clusters) -> Clusters {
        let mut bytes = Vec::new();
        clusters.encode(&mut bytes);
        let mut decoder = Decoder::new(&bytes);
        let again = Clusters::decode(&mut decoder).unwrap();
        decoder.finish("the end").unwrap();
        let mut encoded = Vec::new();
        again.encode(&mut encoded);
        assert_eq!(encoded, bytes);
        again
    }

    /// Such keys took 8.1 bytes a block, as much as their heads in order: each boundary within a
    /// run became a segment.
    #[test]
    #[cfg_attr(miri, ignore = "minutes under Miri")]
    fn boundaries_within_runs_of_keys_take_few_bytes_and_are_exact() {
        let hash_and_line = runs(1000, |stem, line| {
            [((stem >> 32) as u32).to_be_bytes(), (line as u32).to_be_bytes()].concat()
        });
        let anywhere = runs(1000, |stem, line| stem.wrapping_add(line).to_be_bytes().to_vec());
        let ranges = runs(1000, |stem, line| ((stem >> 40 << 8 | line) as u32).to_be_bytes().to_vec());
        // A place anywhere in 64 bits takes more bytes than one in 32.
        for (keys, most) in [(hash_and_line, 4.0), (anywhere, 4.5), (ranges, 4.0)] {
            let (separators, last_keys) = blocks(&keys, 50);
            let heads = Heads::of(&separators, Some(&last_keys), 1000.0);
            let clusters = stored(&built(&separators, &last_keys, f64::INFINITY, heads).unwrap().0);
            for (i, key) in keys.iter().enumerate() {
                assert_eq!(clusters.locate(key, |_| {}).0, i / 50, "{key:?}");
            }
            let each = clusters.bytes() as f64 / clusters.len() as f64;
            assert!(each < most, "{each} bytes a block: {}", clusters.describe());
        }
    }

    #[test]
    fn how_far_a_key_is_within_a_run_is_told() {
        let keys = runs(200, |stem, line| stem.wrapping_add(7 * line).to_be_bytes().to_vec());
        let (separators, last_keys) = blocks(&keys, 16);
        let clusters = stored(&built(&separators, &last_keys, f64::INFINITY, Heads::Bytes).unwrap().0);
        let mut told = 0;
        for (i, key) in keys.iter().enumerate() {
            if let (_, Some(within)) = clusters.locate(key, |_| {}) {
                let off = usize::from(within).abs_diff(256 * (i % 16) / 16);
                assert!(off <= 48, "{within} of the {}th of sixteen", i % 16);
                told += 1;
            }
        }
        assert!(told * 2 > keys.len(), "{told} of {}", keys.len());
    }

    #[test]
    fn counts_of_a_chunk_are_added_up_as_one_by_one() {
        let keys = runs(60, |stem, line| stem.wrapping_add(line).to_be_bytes().to_vec());
        let (separators, last_keys) = blocks(&keys, 10);
        let clusters = built(&separators, &last_keys, f64::INFINITY, Heads::Bytes).unwrap().0;
        let (mut boundaries, mut bytes) = (0, 0);
        for stem in 0..clusters.stems.len() {
            assert_eq!(clusters.before(stem), (boundaries, bytes));
            boundaries += of_stem(clusters.counts[stem]);
            bytes += clusters.bytes.behind(clusters.counts[stem]);
        }
        assert_eq!(boundaries, clusters.len());
    }

    proptest! {
        #[test]
        fn all_instructions_count_alike(counts: [u8; CHUNK], few in prop::collection::vec(0u8..4, CHUNK), end in 0..CHUNK) {
            for counts in [counts, few.try_into().unwrap(), [u8::MAX; CHUNK]] {
                prop_assert_eq!(counted(&counts, end), counted_scalar(&counts, end));
            }
        }
    }

    #[test]
    fn numbers_that_do_not_ascend_have_no_clusters() {
        let keys: Vec<Vec<u8>> = (0..40u64).map(|i| [&[7; 8][..], &i.to_be_bytes()].concat()).collect();
        let (separators, last_keys) = blocks(&keys, 4);
        let behind = |_: &[u8]| Heads::Bytes;
        assert!(built(&separators, &last_keys, 1000.0, behind(&[])).is_some());
        // Their first eight bytes are alike behind what others begin with.
        let mut keys = keys;
        keys.insert(0, vec![1]);
        keys.push(vec![8]);
        keys.extend((0..8u8).map(|i| vec![9, i]));
        let (separators, last_keys) = blocks(&keys, 2);
        assert!(built(&separators, &last_keys, 1000.0, Heads::Bytes).is_none());
    }

    #[test]
    fn distances_and_counts_that_cannot_be_are_refused() {
        let keys = runs(20, |stem, line| stem.wrapping_add(line).to_be_bytes().to_vec());
        let (separators, last_keys) = blocks(&keys, 20);
        let clusters = built(&separators, &last_keys, f64::INFINITY, Heads::Bytes).unwrap().0;
        let refused = |change: &dyn Fn(&mut Clusters)| {
            let mut changed = clusters.clone();
            change(&mut changed);
            let mut bytes = Vec::new();
            changed.encode(&mut bytes);
            Clusters::decode(&mut Decoder::new(&bytes)).is_err()
        };
        assert!(!refused(&|_| {}));
        assert!(refused(&|clusters| clusters.bytes.first = 0));
        assert!(refused(&|clusters| clusters.bytes.first = 9));
        assert!(refused(&|clusters| clusters.bytes.next = 0));
        assert!(refused(&|clusters| clusters.bytes.next = 4));
        assert!(refused(&|clusters| clusters.numbers.shift = 64));
        assert!(refused(&|clusters| clusters.counts[0] = 255), "more distances than there are bytes");
        let mut bytes = Vec::new();
        clusters.encode(&mut bytes);
        for end in 0..bytes.len() {
            assert!(Clusters::decode(&mut Decoder::new(&bytes[..end])).is_err(), "{end} bytes");
        }
    }

    proptest! {
        #[test]
        fn every_key_is_found_in_its_block_or_one_further_and_ranks_ascend(
            runs in prop::collection::vec((any::<u64>(), 1u64..60, prop_oneof![Just(1u64), Just(3), Just(1 << 20)]), 1..30),
            of in 1usize..30,
            doubled in 0usize..40,
            others in prop::collection::vec(any::<u64>(), 0..60),
            one_in in prop_oneof![Just(10.0), Just(1000.0), Just(f64::INFINITY)],
        ) {
            let key = |(stem, count, step): (u64, u64, u64)| (0..count).map(move |i| stem.saturating_add(i * step));
            let mut numbers: Vec<u64> = runs.into_iter().flat_map(key).collect();
            numbers.sort_unstable();
            numbers.dedup();
            // Some have many keys behind the same head.
            let behind = |i: usize| if i % 41 == doubled { 0..20 } else { 0..1u8 };
            let keys = |(i, number): (usize, &u64)| behind(i).map(move |more| {
                let mut key = number.to_be_bytes().to_vec();
                key.extend((more > 0).then_some(more));
                key
            }).collect::<Vec<_>>();
            let keys: Vec<Vec<u8>> = numbers.iter().enumerate().flat_map(keys).collect();
            let (separators, last_keys) = blocks(&keys, of);
            prop_assume!(!separators.is_empty());
            let heads = Heads::of(&separators, Some(&last_keys), one_in);
            if let Some((clusters, missed)) = built(&separators, &last_keys, one_in, heads) {
                let clusters = stored(&clusters);
                let counted = super::super::sent_astray(&missed, |key| clusters.locate(key, |_| {}).0, &last_keys);
                let is_astray = |(i, key): &(usize, &Vec<u8>)| clusters.locate(key, |_| {}).0 != i / of;
                prop_assert_eq!(counted as usize, keys.iter().enumerate().filter(is_astray).count());
                prop_assert_eq!(clusters.len(), separators.len());
                let beside = numbers.iter().flat_map(|&number| [number.saturating_sub(1), number, number.saturating_add(1)]);
                let mut asked: Vec<u64> = beside.chain(others).collect();
                asked.sort_unstable();
                let mut before = 0;
                for number in asked {
                    let key = number.to_be_bytes();
                    let expected = separators.iter().filter(|separator| *separator <= &key[..]).count();
                    let found = clusters.locate(&key, |_| {}).0;
                    prop_assert!((expected..=expected + 1).contains(&found), "{number}: {found}, not {expected}");
                    prop_assert!(found >= before, "{number}: {found} after {before}");
                    before = found;
                }
            }
        }

        #[test]
        fn any_bytes_are_clusters_that_say_numbers_up_to_their_own_or_none(
            from in prop::collection::vec(any::<u64>(), 1..200),
            at in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
            asked: Vec<Vec<u8>>,
        ) {
            let mut keys: Vec<Vec<u8>> = from.iter().flat_map(|stem| (0..9).map(|i| stem.wrapping_add(i).to_be_bytes().to_vec())).collect();
            keys.sort();
            keys.dedup();
            let (separators, last_keys) = blocks(&keys, 3);
            if let Some((clusters, _)) = built(&separators, &last_keys, f64::INFINITY, Heads::Bytes) {
                let mut bytes = Vec::new();
                clusters.encode(&mut bytes);
                at.iter().for_each(|(at, byte)| *at.get_mut(&mut bytes) = *byte);
                if let Ok(forged) = Clusters::decode(&mut Decoder::new(&bytes)) {
                    for key in asked.iter().chain(&keys) {
                        let found = forged.locate(key, |_| {}).0;
                        prop_assert!(found <= forged.len());
                    }
                }
            }
        }
    }
}

//! From a key to the one block that may hold it.
//!
//! Owns [`Index`], built from the [`separators`] of a table when its last block is cut and kept in the table, [`IndexKind`],
//! the closed list of ways to do it, and the [`handles`] that say where a block lies.
//!
//! What must hold: the block of a key is that whose number is how many separators are not above the key.
//! An exact kind names it. The others name a [`Span`] that it lies in or right before, and are put right by
//! what the blocks say of themselves. An index that comes from bytes may be wrong about every key, but it panics for none, and
//! names no block that is not there. What a block's line predicts is the block's own business.

mod chunks;
pub mod handles;
mod learned;
pub mod separators;
mod sherry;
mod sorted;
mod trie;

use crate::{
    codec::{DecodeError, Decoder, put_bytes},
    error::Error,
};
use learned::Learned;
use separators::Separators;
use sherry::Sherry;
use solera_model::{boundaries, bytes::Malformed, eytzinger::Eytzinger, stree::STree};
use sorted::{Order, Sorted};
use std::{fmt, str::FromStr};
use trie::Trie;

/// Consecutive blocks: where to look for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The number of the block to begin with.
    pub begin: usize,
    /// How many blocks before it.
    before: u32,
    /// How many behind it.
    after: u32,
    /// How far into the block the key is, in 256ths, where the index knows: what may be asked for early.
    within: Option<u8>,
}

impl Span {
    /// One block.
    #[inline]
    pub(crate) const fn only(block: usize) -> Span {
        Span { begin: block, before: 0, after: 0, within: None }
    }

    /// The blocks from `first` up to `last`, of which there are less than 2^32, to begin with `begin` among them.
    #[inline]
    const fn new(first: usize, begin: usize, last: usize) -> Span {
        Span { begin, before: (begin - first) as u32, after: (last - begin) as u32, within: None }
    }

    /// How far into the block that it begins with the key is, in 256ths, about; `None` where the index does not know.
    #[inline]
    pub const fn within(self) -> Option<u8> {
        self.within
    }

    /// The number of the first block.
    #[inline]
    pub const fn first(self) -> usize {
        self.begin - self.before as usize
    }

    /// The number of the last block.
    #[inline]
    pub const fn last(self) -> usize {
        self.begin + self.after as usize
    }
}

/// The last keys of blocks, which lie where ambiguity hurts: right below the boundaries.
#[derive(Clone, Copy, Debug)]
pub struct LastKeys<'s> {
    /// Of every block but the last one, or a beginning of it that goes on some bytes beyond where the separators around it end.
    pub keys: &'s Separators,
    /// Of so many different keys.
    pub of: u64,
}

/// The index of one table.
#[derive(Clone, Debug)]
pub struct Index {
    kind: IndexKind,
    locator: Locator,
    /// Why this kind, if it was chosen.
    reason: Option<Box<str>>,
}

#[derive(Clone, Debug)]
enum Locator {
    Sorted(Sorted),
    Trie(Trie),
    Sherry(Sherry),
    Learned(Learned),
}

/// What one block too many costs a lookup, in cache lines: its control, heads and fences, and a detour on a path
/// that is not the usual one.
const BLOCK_LINES: f64 = 20.0;
/// What a byte of index per block is worth, in cache lines of a lookup: what the S-tree's 7 bytes more than the least
/// may buy is about the three lines that they can save.
const BYTE_LINES: f64 = 0.5;

/// What `auto` chooses from.
const CANDIDATES: [IndexKind; 4] =
    [IndexKind::Learned, IndexKind::STree, IndexKind::DoblixPra, IndexKind::SherryPlr];

/// What an index costs, counted when it is built.
struct Cost {
    /// Bytes in memory per block.
    bytes: f64,
    /// Cache lines of the index that a lookup touches.
    lines: f64,
    /// Blocks that a lookup of a present key looks into.
    blocks: f64,
}

impl Cost {
    fn total(&self) -> f64 {
        self.lines + BLOCK_LINES * (self.blocks - 1.0) + BYTE_LINES * self.bytes
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cost { bytes, lines, blocks } = self;
        write!(f, "{bytes:.2} bytes per block, {lines:.1} lines and {blocks:.4} blocks per lookup")
    }
}

impl Index {
    /// The index of a table whose blocks have these separators between them: less than 2^31. `epsilon` is that of
    /// the layout; only [`IndexKind::SherryPlr`] asks. [`IndexKind::Learned`] counts blocks in 25 bits: a table of more gets
    /// an S-tree.
    ///
    /// Where `last_keys` are known, `learned` takes its exact form if too many of them would be sent one block too far.
    pub fn build(
        kind: IndexKind,
        epsilon: u32,
        separators: &Separators,
        last_keys: Option<LastKeys<'_>>,
    ) -> Index {
        Index::build_within(boundaries::LEN_MAX, kind, epsilon, separators, last_keys)
    }

    fn build_within(
        learned_max: usize,
        kind: IndexKind,
        epsilon: u32,
        separators: &Separators,
        last_keys: Option<LastKeys<'_>>,
    ) -> Index {
        let locator = match kind {
            IndexKind::Binary
            | IndexKind::STree
            | IndexKind::STreeHash
            | IndexKind::Eytzinger
            | IndexKind::Interpolation => Locator::Sorted(Sorted::build(separators, kind.order())),
            IndexKind::DoblixPla | IndexKind::DoblixPra => Locator::Trie(Trie::build(separators)),
            IndexKind::SherryPlr => {
                let gamma = f64::from(epsilon.min(GAMMA_HALVES_MAX)) / 2.0;
                Locator::Sherry(Sherry::build(separators, gamma))
            }
            IndexKind::Learned if separators.len() > learned_max => {
                let reason =
                    format!("{kind} has at most {learned_max} separators, these are {}", separators.len());
                let index = Index::build(IndexKind::STree, epsilon, separators, None);
                return Index { reason: Some(reason.into()), ..index };
            }
            IndexKind::Learned => Locator::Learned(Learned::build(separators, last_keys)),
            IndexKind::Auto => return Index::choose(learned_max, epsilon, separators, last_keys),
        };
        Index { kind, locator, reason: None }
    }

    /// The cheapest of the kinds that are ever so.
    fn choose(
        learned_max: usize,
        epsilon: u32,
        separators: &Separators,
        last_keys: Option<LastKeys<'_>>,
    ) -> Index {
        let mut built = CANDIDATES.map(|kind| {
            let index = Index::build_within(learned_max, kind, epsilon, separators, last_keys);
            (index.cost(), index)
        });
        built.sort_by(|(a, _), (b, _)| a.total().total_cmp(&b.total()));
        let costs = built.each_ref().map(|(cost, index)| format!("{}: {cost}", index.kind));
        let [(_, cheapest), ..] = built;
        Index { reason: Some(costs.join("; ").into()), ..cheapest }
    }

    /// Appends the kind (u8), why it was chosen (length as varint, UTF-8; empty if it was asked for), and what it consists of:
    /// what [`Learned::encode`] appends, [`Trie::encode`] or [`Sherry::encode`]. The other kinds are nothing but the separators that
    /// they were built from in another order, and these are appended.
    pub fn encode(&self, separators: &Separators, out: &mut Vec<u8>) {
        out.push(self.kind as u8);
        put_bytes(out, self.reason().unwrap_or_default().as_bytes());
        match &self.locator {
            Locator::Sorted(_) => separators.encode(out),
            Locator::Trie(trie) => trie.encode(out),
            Locator::Sherry(sherry) => sherry.encode(out),
            Locator::Learned(learned) => learned.encode(out),
        }
    }

    /// Reads what [`Index::encode`] wrote of a table of `blocks` blocks, at least one, that was to have an index of kind `asked`.
    /// `separator_bytes_max` is as in [`Separators::decode`].
    ///
    /// # Errors
    /// What is no index. What passes may still lead to wrong blocks.
    pub fn decode(
        decoder: &mut Decoder<'_>,
        asked: IndexKind,
        blocks: usize,
        separator_bytes_max: u64,
    ) -> Result<Index, DecodeError> {
        let kind = IndexKind::from_u8(decoder.u8("an index kind")?).filter(|&kind| asked.may_come_to(kind));
        let Some(kind) = kind else { return decoder.fail("an index of the kind that is described") };
        let reason = decoder.bytes("why an index was chosen")?;
        let Ok(reason) = str::from_utf8(reason) else { return decoder.fail("a reason in UTF-8") };
        let reason = (!reason.is_empty()).then(|| reason.into());
        let locator = match kind {
            IndexKind::DoblixPla | IndexKind::DoblixPra => Locator::Trie(Trie::decode(decoder)?),
            IndexKind::SherryPlr => Locator::Sherry(Sherry::decode(decoder)?),
            IndexKind::Learned => Locator::Learned(Learned::decode(decoder)?),
            _ => {
                let separators = Separators::decode(decoder, separator_bytes_max)?;
                if separators.len() + 1 != blocks {
                    return decoder.fail("one separator between every two blocks");
                }
                Locator::Sorted(Sorted::build(&separators, kind.order()))
            }
        };
        let index = Index { kind, locator, reason };
        if index.blocks() != blocks {
            return decoder.fail("an index of as many blocks as there are");
        }
        Ok(index)
    }

    fn cost(&self) -> Cost {
        let (lines, blocks) = match &self.locator {
            Locator::Sorted(sorted) => (sorted.lines(), 1.0),
            Locator::Trie(trie) => (trie.lines(), 1.0),
            Locator::Sherry(sherry) => (sherry.lines(), 1.0 + sherry.blocks_beside()),
            Locator::Learned(learned) => (learned.lines(), 1.0 + learned.ambiguity()),
        };
        Cost { bytes: self.bytes() as f64 / self.blocks() as f64, lines, blocks }
    }

    /// Where the only block is that may hold `key`; where the versions of one key fill several blocks, the
    /// first of them. Of an exact kind the span is that block. Else the block lies in the span or at most
    /// [`Index::reach`] blocks before it.
    ///
    /// Before a kind that can (`learned`, `s-tree`) reads what decides, it tells `early` a block that the one in question is
    /// near, mostly within 8, so that what is needed of it can be asked for meanwhile. No answer depends on it.
    #[inline]
    pub fn locate(&self, key: &[u8], early: impl Fn(usize)) -> Span {
        match &self.locator {
            Locator::Sorted(sorted) => Span::only(sorted.locate(key, early)),
            Locator::Trie(trie) => Span::only(trie.locate(key)),
            Locator::Sherry(sherry) => sherry.locate(key),
            Locator::Learned(learned) => {
                let (block, within) = learned.locate(key, early);
                Span { within, ..Span::only(block) }
            }
        }
    }

    /// How many blocks before its span the block of a key may lie.
    pub fn reach(&self) -> usize {
        if let Locator::Learned(learned) = &self.locator { learned.reach() } else { 0 }
    }

    /// How the table is indexed: never [`IndexKind::Auto`], but what that chose.
    pub fn kind(&self) -> IndexKind {
        self.kind
    }

    /// Why this kind was chosen: the counted costs of all that were considered, the cheapest first. `None` if it
    /// was not chosen but asked for.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// How many blocks there are.
    pub fn blocks(&self) -> usize {
        1 + match &self.locator {
            Locator::Sorted(sorted) => sorted.len(),
            Locator::Trie(trie) => trie.len(),
            Locator::Sherry(sherry) => sherry.len(),
            Locator::Learned(learned) => learned.len(),
        }
    }

    /// Bytes that the index takes in memory.
    pub fn bytes(&self) -> usize {
        let heap = match &self.locator {
            Locator::Sorted(sorted) => sorted.bytes(),
            Locator::Trie(trie) => trie.bytes(),
            Locator::Sherry(sherry) => sherry.bytes(),
            Locator::Learned(learned) => learned.bytes(),
        };
        size_of::<Index>() + heap + self.reason.as_ref().map_or(0, |reason| reason.len())
    }
}

/// Reads a model with its own crate's decoder.
fn decode_model<T>(
    decoder: &mut Decoder<'_>,
    decode: impl FnOnce(&[u8]) -> Result<(T, usize), Malformed>,
) -> Result<T, DecodeError> {
    let start = decoder.position();
    let (model, bytes) =
        decode(decoder.rest()).map_err(|Malformed { at, what }| DecodeError { at: start + at, what })?;
    decoder.take(bytes, "a model")?;
    Ok(model)
}

/// Largest γ of [`IndexKind::SherryPlr`], in half blocks: 2 blocks, the largest of the paper.
const GAMMA_HALVES_MAX: u32 = 4;

/// How a table finds the block of a key. The numbers are on disk. Every kind gives the same answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum IndexKind {
    /// Binary search over the sorted separators between blocks: the plain baseline.
    Binary = 0,
    /// DobLIX with piecewise linear approximation: a block ends when it is full or when its keys leave
    /// the error corridor ε around the block's line (NOTES §1).
    DoblixPla = 1,
    /// DobLIX with piecewise regression: a block ends when it is full; its line is fitted by least
    /// squares afterwards.
    DoblixPra = 2,
    /// A static B+tree of the separators, 8 in a cache line, compared at once: the strong baseline.
    STree = 3,
    /// The separators in breadth-first order.
    Eytzinger = 4,
    /// Interpolation search over the sorted separators, with a guard.
    Interpolation = 5,
    /// Sherry: a piecewise linear model of block numbers within γ, with windows that lose no key (NOTES §5). Of a
    /// window it reads the predicted block first, and goes on from there the way that its fences say: of evenly spread keys, 0.2
    /// blocks more than the key's own where γ is a half, 0.4 at 1, and 0.7 at 2. γ is ε half blocks, 2 blocks at most.
    SherryPlr = 6,
    /// Solera's own: segments, and 11 to 13 bits for each boundary between blocks (docs/decisions/0007).
    #[default]
    Learned = 7,
    /// What costs least of `learned`, `s-tree`, `doblix-pra` and `sherry-plr`, counted for each table when it is
    /// written.
    Auto = 8,
    /// `s-tree` between blocks, and in each block of at most 255 entries a hash index, a byte and a third for each entry: the
    /// baseline for what is done inside a block, after RocksDB's `kDataBlockBinaryAndHash`.
    STreeHash = 9,
}

impl IndexKind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [IndexKind; 10] = [
        IndexKind::Binary,
        IndexKind::DoblixPla,
        IndexKind::DoblixPra,
        IndexKind::STree,
        IndexKind::Eytzinger,
        IndexKind::Interpolation,
        IndexKind::SherryPlr,
        IndexKind::Learned,
        IndexKind::Auto,
        IndexKind::STreeHash,
    ];

    /// Whether a table that is to have this kind may have `kind`: itself, what `auto` chooses from, or what `learned` gives way to.
    fn may_come_to(self, kind: IndexKind) -> bool {
        match self {
            IndexKind::Auto => CANDIDATES.contains(&kind),
            IndexKind::Learned => matches!(kind, IndexKind::Learned | IndexKind::STree),
            _ => kind == self,
        }
    }

    /// How a kind without a model lays heads out.
    fn order(self) -> fn(Vec<u64>) -> Order {
        match self {
            IndexKind::STree | IndexKind::STreeHash => |heads| Order::STree(STree::new(&heads)),
            IndexKind::Eytzinger => |heads| Order::Eytzinger(Eytzinger::new(&heads)),
            IndexKind::Interpolation => |heads| Order::Interpolated(heads.into()),
            _ => |heads| Order::Halved(heads.into()),
        }
    }

    /// The names of all.
    pub const NAMES: [&'static str; IndexKind::ALL.len()] = {
        let mut names = [""; IndexKind::ALL.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = IndexKind::ALL[at].name();
            at += 1;
        }
        names
    };

    /// The kind with this number on disk.
    pub fn from_u8(byte: u8) -> Option<IndexKind> {
        IndexKind::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            IndexKind::Binary => "binary",
            IndexKind::DoblixPla => "doblix-pla",
            IndexKind::DoblixPra => "doblix-pra",
            IndexKind::STree => "s-tree",
            IndexKind::Eytzinger => "eytzinger",
            IndexKind::Interpolation => "interpolation",
            IndexKind::SherryPlr => "sherry-plr",
            IndexKind::Learned => "learned",
            IndexKind::Auto => "auto",
            IndexKind::STreeHash => "s-tree-hash",
        }
    }
}

impl fmt::Display for IndexKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for IndexKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        IndexKind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            Error::Invalid(format!(
                "there is no index kind {name:?}; the kinds are {}",
                IndexKind::ALL.map(IndexKind::name).join(", ")
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;

    fn encoded(index: &Index, separators: &Separators) -> Vec<u8> {
        let mut bytes = Vec::new();
        index.encode(separators, &mut bytes);
        bytes
    }

    /// What was built as it is when it has been stored.
    fn stored(kind: IndexKind, built: &Index, separators: &Separators) -> Index {
        let bytes = encoded(built, separators);
        let mut decoder = Decoder::new(&bytes);
        let index = Index::decode(&mut decoder, kind, built.blocks(), u64::MAX).unwrap();
        decoder.finish("the end").unwrap();
        assert_eq!(encoded(&index, separators), bytes);
        let facts = |index: &Index| (index.kind(), index.bytes(), index.reach(), index.cost().to_string());
        assert_eq!((facts(&index), index.reason()), (facts(built), built.reason()), "{kind}");
        index
    }

    /// Every kind must locate `key` where counting does: an exact one there, the others no further from
    /// there than they say. When it has been stored it must locate it in the same place.
    fn check(separators: &[Vec<u8>], keys: impl Iterator<Item = Vec<u8>> + Clone) {
        let built: Separators = separators.iter().collect();
        let mut keys: Vec<Vec<u8>> = keys.collect();
        keys.sort();
        for kind in IndexKind::ALL {
            let index = Index::build(kind, 2, &built, None);
            assert_eq!(index.blocks(), separators.len() + 1);
            let stored = stored(kind, &index, &built);
            for key in &keys {
                let expected = separators.partition_point(|separator| separator <= key);
                let span = index.locate(key, |_| {});
                assert_eq!(stored.locate(key, |_| {}), span, "{kind} {key:?}");
                assert!(
                    (span.first().saturating_sub(index.reach())..=span.last()).contains(&expected),
                    "{kind} {key:?} in {span:?} and not {expected} among {separators:?}"
                );
                assert!(
                    span.first() <= span.begin
                        && span.begin <= span.last()
                        && span.last() <= separators.len()
                );
            }
        }
    }

    #[test]
    fn what_is_too_much_for_the_learned_kind_gets_an_s_tree_and_says_so() {
        let separators: Separators = (0..20u8).map(|byte| [byte, 7]).collect();
        let within = |max| Index::build_within(max, IndexKind::Learned, 64, &separators, None);
        assert_eq!((within(20).kind(), within(20).reason()), (IndexKind::Learned, None));
        let other = within(19);
        assert_eq!((other.kind(), other.locate(&[5, 8], |_| {}).begin), (IndexKind::STree, 6));
        assert!(other.reason().is_some_and(|reason| reason.contains("at most 19")), "{other:?}");
    }

    /// The separator and keys close to it on either side.
    fn around(separator: &[u8]) -> Vec<Vec<u8>> {
        let mut keys = vec![separator.to_vec(), [separator, &[0]].concat(), [separator, &[255]].concat()];
        if let Some((last, rest)) = separator.split_last() {
            keys.push(rest.to_vec());
            keys.extend(last.checked_sub(1).map(|last| [rest, &[last]].concat()));
            keys.extend(last.checked_add(1).map(|last| [rest, &[last]].concat()));
            keys.extend(last.checked_sub(1).map(|last| [rest, &[last, 255, 255]].concat()));
        }
        keys
    }

    proptest! {
        #[test]
        fn all_kinds_locate_every_key_where_counting_does(
            prefix in prop::collection::vec(0u8..2, 0..20),
            mut separators in prop::collection::vec(prop::collection::vec(prop_oneof![0u8..2, 254u8..], 0..30), 0..80),
            keys in prop::collection::vec(prop::collection::vec(prop_oneof![0u8..2, 254u8..], 0..40), 0..40),
        ) {
            separators.iter_mut().for_each(|separator| *separator = [&prefix[..], separator].concat());
            separators.sort();
            let keys = keys.iter().flat_map(|key| [key.clone(), [&prefix[..], key].concat()]);
            let near = separators.iter().flat_map(|separator| around(separator));
            check(&separators, keys.chain(near));
        }

        #[test]
        fn what_passes_for_an_index_names_blocks_that_there_are(
            mut separators in prop::collection::vec(prop::collection::vec(prop_oneof![0u8..2, 254u8..], 0..30), 1..60),
            changes in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![any::<u8>(), Just(0), Just(255)]), 1..4),
            cut in prop::option::of(any::<prop::sample::Index>()),
            keys in prop::collection::vec(prop::collection::vec(prop_oneof![0u8..2, 254u8..], 0..40), 0..40),
        ) {
            separators.sort();
            let built: Separators = separators.iter().collect();
            for kind in IndexKind::ALL {
                let index = Index::build(kind, 2, &built, None);
                let mut bytes = encoded(&index, &built);
                for (at, byte) in &changes {
                 let at = at.index(bytes.len());
                 bytes[at] = *byte;
             }
                if let Some(cut) = cut {
                    bytes.truncate(cut.index(bytes.len()));
                }
                let mut decoder = Decoder::new(&bytes);
                let Ok(index) = Index::decode(&mut decoder, kind, index.blocks(), 1 << 20) else { continue };
                for key in keys.iter().cloned().chain(separators.iter().flat_map(|separator| around(separator))) {
                    let span = index.locate(&key, |_| {});
                    prop_assert!(span.first() <= span.begin && span.begin <= span.last(), "{} {:?}", kind, span);
                    prop_assert!(span.last() <= separators.len(), "{} {:?}", kind, span);
                }
            }
        }

        #[test]
        fn arbitrary_bytes_are_an_index_or_none(bytes: Vec<u8>, blocks in 1usize..5) {
            for kind in IndexKind::ALL {
                let _ = Index::decode(&mut Decoder::new(&[&[kind as u8, 0], &bytes[..]].concat()), kind, blocks, 1 << 20);
            }
        }

        #[test]
        fn random_separators_are_told_apart_by_their_heads(mut separators: Vec<[u8; 6]>, keys: Vec<[u8; 8]>) {
            separators.sort();
            let separators: Vec<Vec<u8>> = separators.iter().map(|separator| separator.to_vec()).collect();
            let near = separators.iter().flat_map(|separator| around(separator));
            check(&separators, keys.iter().map(|key| key.to_vec()).chain(near));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes under Miri")]
    fn no_byte_can_be_changed_to_one_that_breaks_a_lookup() {
        // Nodes within nodes, of large groups and small ones; text that is front-coded; numbers.
        let stems = [&b"a stem that is long"[..], b"another stem that is", b"c", b"d, which goes on and on"];
        let nested =
            stems.iter().flat_map(|stem| (0..20u8).map(|i| [*stem, &[b'a' + i, i % 3][..]].concat()));
        let text =
            (0..40).map(|i| format!("all paths/of {i:02} directories/and files/{}", i * 7).into_bytes());
        let numbers = (1..40u64).map(|i| ((i * i * i) << 20).to_be_bytes().to_vec());
        let families: [Vec<Vec<u8>>; 3] = [nested.collect(), text.collect(), numbers.collect()];
        for mut separators in families {
            separators.sort();
            let built: Separators = separators.iter().collect();
            let keys: Vec<Vec<u8>> =
                separators.iter().step_by(5).flat_map(|separator| around(separator)).collect();
            for kind in [IndexKind::Learned, IndexKind::SherryPlr] {
                let index = Index::build(kind, 2, &built, None);
                let honest = encoded(&index, &built);
                let try_out = |changed: &[u8]| {
                    let decoded = Index::decode(&mut Decoder::new(changed), kind, index.blocks(), 1 << 20);
                    let Ok(index) = decoded else { return };
                    for key in &keys {
                        let span = index.locate(key, |_| {});
                        assert!(span.first() <= span.begin && span.begin <= span.last(), "{kind}");
                        assert!(span.last() <= separators.len(), "{kind}");
                    }
                };
                let mut changed = honest.clone();
                for at in 0..honest.len() {
                    for byte in [0, 1, 2, 15, 16, 17, 127, 128, 255] {
                        changed[at] = byte;
                        try_out(&changed);
                    }
                    // Numbers beside each other that add up to what they did, or nearly.
                    for (here, behind) in [(1, 0), (255, 0), (1, 254), (1, 255), (2, 252), (255, 1), (255, 2)]
                    {
                        changed[at] = honest[at].wrapping_add(here);
                        if let Some(next) = changed.get_mut(at + 1) {
                            *next = honest[at + 1].wrapping_add(behind);
                        }
                        try_out(&changed);
                        changed.clone_from(&honest);
                    }
                }
                for len in 0..honest.len() {
                    assert!(
                        Index::decode(&mut Decoder::new(&honest[..len]), kind, index.blocks(), 1 << 20)
                            .is_err()
                    );
                }
            }
        }
    }

    #[test]
    fn text_of_few_letters_is_located_whatever_letters_a_key_has() {
        let numbers = |count: u64| (0..count).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let short = numbers(700).map(|number| format!("user{number:016x}")[..4 + 5].into());
        // Long enough to be front-coded, and with enough of them for those between which it is searched.
        let long = numbers(9000).map(|number| format!("{number:016x}/{number:016x}").into());
        for mut separators in [short.collect::<Vec<Vec<u8>>>(), long.collect()] {
            separators.sort();
            separators.dedup();
            let near = separators.iter().step_by(29).flat_map(|separator| {
                let mut near = around(separator);
                near.push([&separator[..6], b":"].concat());
                near.push([&separator[..6], b"z"].concat());
                near
            });
            check(&separators, near.collect::<Vec<_>>().into_iter());
        }
    }

    #[test]
    fn what_is_told_early_is_near() {
        let numbers = |count: u64| (0..count).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let short: Vec<Vec<u8>> = numbers(5000).map(|number| number.to_be_bytes().into()).collect();
        let text = |number: u64| format!("{number:016x}/{number:016x}").into();
        for (mut separators, text) in [(short, false), (numbers(5000).map(text).collect(), true)] {
            separators.sort();
            let built: Separators = separators.iter().collect();
            for kind in [IndexKind::Learned, IndexKind::STree] {
                let index = Index::build(kind, 64, &built, None);
                // Text is first told by the bucket of 16 that it is in, or by the one behind.
                let far = if text && kind == IndexKind::Learned { 24 } else { 8 };
                // What is exact by itself is not told before.
                let mut silent = 0;
                for (rank, key) in separators.iter().enumerate() {
                    let key = [key, &[1][..]].concat();
                    let told = Cell::new(None);
                    let begin = index.locate(&key, |near| told.set(Some(near))).begin;
                    assert!((rank + 1..=rank + 2).contains(&begin), "{kind} {rank} {begin}");
                    assert!(
                        told.get().is_none_or(|near| near.abs_diff(begin) <= far),
                        "{kind} {rank} {told:?}"
                    );
                    silent += usize::from(told.get().is_none());
                }
                assert!(silent * 50 < separators.len(), "{kind} {silent}");
            }
        }
    }

    #[test]
    fn a_table_of_one_block_has_an_index_too() {
        check(&[], [vec![], vec![0], vec![255; 20]].into_iter());
        check(&[vec![]], [vec![], vec![0], vec![255; 20]].into_iter());
    }

    #[test]
    fn separators_as_long_as_the_longest_key_do_not_exhaust_the_stack() {
        let separators: Vec<Vec<u8>> = (0..400)
            .map(|i| [vec![7; 65_000 - i * 160], vec![8; 8]].concat())
            .chain((0..400).map(|i| [vec![9; i * 160], vec![9; 20]].concat()))
            .collect();
        let near = separators.iter().flat_map(|separator| around(separator));
        let sorted: Vec<Vec<u8>> = {
            let mut sorted = separators.clone();
            sorted.sort();
            sorted
        };
        let built: Separators = sorted.iter().collect();
        for kind in IndexKind::ALL {
            let index = Index::build(kind, 2, &built, None);
            assert!(index.bytes() < 3 * built.total_bytes(), "{} {}", index.bytes(), built.total_bytes());
            for key in near.clone() {
                let span = index.locate(&key, |_| {});
                let expected = sorted.partition_point(|separator| *separator <= key);
                assert!(span.first() <= expected + index.reach() && expected <= span.last());
            }
        }
    }

    #[test]
    fn every_kind_is_known_by_its_number_and_by_its_name() {
        for kind in IndexKind::ALL {
            assert_eq!(IndexKind::from_u8(kind as u8), Some(kind));
            assert_eq!(kind.name().parse::<IndexKind>().unwrap(), kind);
        }
        assert_eq!(IndexKind::from_u8(IndexKind::ALL.len() as u8), None);
        assert!("learnt".parse::<IndexKind>().unwrap_err().to_string().contains("doblix-pra"));
    }
}

//! From a key to the one block that may hold it: `Index`, built from a table's `Separators` and
//! kept in the table.
//!
//! `build` makes the kind that was asked for, or chooses the cheapest (`auto`). `learned` of too
//! many blocks becomes an S-tree. `locate` gives a `Span`; `encode` and `decode` are its bytes.
//! `IndexKind` lists the kinds, `handles` says where blocks lie.
//! What must hold: the block of a key is how many separators are not above it. An exact kind names
//! it; others name a span that has it, or lies right behind it, and blocks put that right. An index
//! from untrusted bytes may be wrong, but panics for no key and names no block that is not there.
//! Files, bottom to top; each uses only those above it.
//! Callers: `table::writer` builds, `table::reader` decodes, `table::{lookup, cursor, verify}`
//! locate, `engine::report` asks `reason`; `solera-bench`, `solera-sim` and `fuzz` use it alone.

mod kind;
pub mod handles;
mod span;
pub mod separators;
pub mod last_keys;
mod cost;
mod stored;
mod sorted;
mod chunks;
mod trie;
mod sherry;
mod learned;

pub use kind::IndexKind;
pub use last_keys::LastKeys;
pub use span::Span;

use crate::codec::{DecodeError, Decoder, put_bytes};
use cost::Cost;
use learned::Learned;
use separators::Separators;
use sherry::Sherry;
use solera_model::{boundaries, eytzinger::Eytzinger, stree::STree};
use sorted::{Order, Sorted};
use trie::Trie;

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

impl Locator {
    /// The same of separators that all begin with `begin`, which was left out when it was built.
    fn behind(mut self, begin: &[u8]) -> Locator {
        if !begin.is_empty() {
            match &mut self {
                Locator::Sorted(sorted) => sorted.put_behind(begin),
                Locator::Trie(trie) => trie.put_behind(begin),
                Locator::Sherry(sherry) => sherry.put_behind(begin),
                Locator::Learned(learned) => learned.put_behind(begin),
            }
        }
        self
    }
}

impl Index {
    /// The index of a table whose blocks have these separators between them: less than 2^31.
    /// `epsilon` is that of the layout; only [`IndexKind::SherryPlr`] and [`IndexKind::GreedyPlr`]
    /// ask. [`IndexKind::Learned`] counts blocks in 25 bits: a table of more gets an S-tree.
    ///
    /// Where `last_keys` are known, `learned` sends no key of the table astray, or counts those
    /// that it does.
    pub fn build(
        kind: IndexKind,
        epsilon: u32,
        separators: &Separators,
        last_keys: Option<&LastKeys>,
    ) -> Index {
        Index::build_within(boundaries::LEN_MAX, kind, epsilon, separators, last_keys)
    }

    fn build_within(
        learned_max: usize,
        kind: IndexKind,
        epsilon: u32,
        separators: &Separators,
        last_keys: Option<&LastKeys>,
    ) -> Index {
        let locator = match kind {
            IndexKind::Binary
            | IndexKind::STree
            | IndexKind::STreeHash
            | IndexKind::Eytzinger
            | IndexKind::Interpolation => Locator::Sorted(Sorted::build(separators, order_of(kind))),
            IndexKind::DoblixPla | IndexKind::DoblixPra => Locator::Trie(Trie::build(separators)),
            IndexKind::SherryPlr => {
                let gamma = f64::from(epsilon.min(GAMMA_HALVES_MAX)) / 2.0;
                Locator::Sherry(Sherry::build(separators, gamma))
            }
            IndexKind::GreedyPlr => {
                // Without the count of entries a block is taken for a page of the paper's list.
                let entries = last_keys.map_or(separators.len() as u64 * PAGE_ENTRIES, LastKeys::of);
                let per_block = entries.div_ceil(separators.len() as u64 + 1).clamp(1, PER_BLOCK_MAX) as u32;
                Locator::Sherry(Sherry::build_within_entries(separators, epsilon, per_block))
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
        Index { kind, locator: locator.behind(separators.begin()), reason: None }
    }

    /// The cheapest of the kinds that are ever so.
    fn choose(
        learned_max: usize,
        epsilon: u32,
        separators: &Separators,
        last_keys: Option<&LastKeys>,
    ) -> Index {
        let mut built = kind::CANDIDATES.map(|kind| {
            let index = Index::build_within(learned_max, kind, epsilon, separators, last_keys);
            (index.cost(), index)
        });
        built.sort_by(|(a, _), (b, _)| a.total().total_cmp(&b.total()));
        let costs = built.each_ref().map(|(cost, index)| format!("{}: {cost}", index.kind));
        let [(_, cheapest), ..] = built;
        Index { reason: Some(costs.join("; ").into()), ..cheapest }
    }

    /// Appends the kind (u8), why it was chosen (length as varint, UTF-8; empty if it was asked
    /// for), and what it consists of: what [`Learned::encode`] appends, [`Trie::encode`] or
    /// [`Sherry::encode`]. The other kinds are nothing but the separators that they were built from
    /// in another order, and these are appended.
    pub fn encode(&self, separators: &Separators, out: &mut Vec<u8>) {
        out.push(self.kind as u8);
        put_bytes(out, self.reason().unwrap_or_default().as_bytes());
        match &self.locator {
            Locator::Sorted(_) => separators.encode(out),
            Locator::Trie(trie) => trie.encode(out),
            Locator::Sherry(sherry) => sherry.encode(out),
            Locator::Learned(learned) => learned.encode(separators, out),
        }
    }

    /// Reads what [`Index::encode`] wrote of a table of `blocks` blocks, at least one, that was to
    /// have an index of kind `asked`. `separator_bytes_max` is as in [`Separators::decode`].
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
            IndexKind::SherryPlr | IndexKind::GreedyPlr => Locator::Sherry(Sherry::decode(decoder)?),
            IndexKind::Learned => Locator::Learned(Learned::decode(decoder, separator_bytes_max)?),
            _ => {
                let separators = Separators::decode(decoder, separator_bytes_max)?;
                if separators.len() + 1 != blocks {
                    return decoder.fail("one separator between every two blocks");
                }
                let sorted = Locator::Sorted(Sorted::build(&separators, order_of(kind)));
                sorted.behind(separators.begin())
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

    /// Where the only block is that may hold `key`; where the versions of one key fill several
    /// blocks, the first of them. Of an exact kind the span is that block. Else the block lies in
    /// the span or at most [`Index::reach`] blocks before it.
    ///
    /// Before a kind that can (`learned`, `s-tree`) reads what decides, it tells `early` a block
    /// that the one in question is near, mostly within 8, so that what is needed of it can be asked
    /// for meanwhile. No answer depends on it.
    // Apart from what asks: all forms together take many registers.
    #[inline(never)]
    pub fn locate(&self, key: &[u8], early: impl Fn(usize)) -> Span {
        self.located::<true>(key, early)
    }

    /// [`Index::locate`] for a caller that does not ask how far into the block the key is: to work
    /// that out takes a quarter of the instructions.
    #[inline(never)]
    pub fn locate_unmeasured(&self, key: &[u8], early: impl Fn(usize)) -> Span {
        self.located::<false>(key, early)
    }

    #[inline(always)]
    fn located<const MEASURED: bool>(&self, key: &[u8], early: impl Fn(usize)) -> Span {
        match &self.locator {
            Locator::Sorted(sorted) => Span::only(sorted.locate(key, early)),
            Locator::Trie(trie) => Span::only(trie.locate(key)),
            Locator::Sherry(sherry) => sherry.locate(key),
            Locator::Learned(learned) => {
                let (block, within) = learned.locate::<MEASURED>(key, early);
                Span::only(block).with_within(within)
            }
        }
    }

    /// How many blocks before its span the block of a key may lie.
    pub fn reach(&self) -> usize {
        if let Locator::Learned(learned) = &self.locator { learned.reach() } else { 0 }
    }

    /// How many keys of the table are sent to a wrong block first, as counted when it was written;
    /// `None` of kinds that do not count it.
    pub fn astray(&self) -> Option<u64> {
        if let Locator::Learned(learned) = &self.locator { learned.astray() } else { None }
    }

    /// What a learned index consists of, for people; `None` of other kinds.
    pub fn describe(&self) -> Option<String> {
        if let Locator::Learned(learned) = &self.locator { Some(learned.describe()) } else { None }
    }

    /// How the table is indexed: never [`IndexKind::Auto`], but what that chose.
    pub fn kind(&self) -> IndexKind {
        self.kind
    }

    /// Why this kind was chosen: the counted costs of all that were considered, the cheapest first.
    /// `None` if it was not chosen but asked for.
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

/// Entries of a page of LearnedKV's list of keys: 4 KiB of keys and offsets of 8 bytes each.
const PAGE_ENTRIES: u64 = 256;
/// Entries of a block count as no more than so many, so that all entries of a table count in 32
/// bits.
const PER_BLOCK_MAX: u64 = 1024;

/// Largest γ of [`IndexKind::SherryPlr`], in half blocks: 2 blocks, the largest of the paper.
const GAMMA_HALVES_MAX: u32 = 4;

/// How a kind without a model lays heads out.
fn order_of(kind: IndexKind) -> fn(Vec<u64>) -> Order {
    match kind {
        IndexKind::STree | IndexKind::STreeHash => |heads| Order::STree(STree::new(&heads)),
        IndexKind::Eytzinger => |heads| Order::Eytzinger(Eytzinger::new(&heads)),
        IndexKind::Interpolation => |heads| Order::Interpolated(heads.into()),
        _ => |heads| Order::Halved(heads.into()),
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

    /// Every kind must locate `key` where counting does: an exact one there, the others no further
    /// from there than they say. When it has been stored it must locate it in the same place.
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

    /// Symptom: indexes of keys that differ at their ends took as much to build as the keys. Cause:
    /// every separator was held whole. Cure: what all begin with is left out, and put back before
    /// what is built, which must be the same to the byte.
    #[test]
    fn an_index_is_the_same_whether_what_separators_begin_with_was_left_out_or_not() {
        for (begins, each) in [(&[0][..], 200u32), (&[0, 40, 299, 300, 300][..], 60), (&[1], 1)] {
            // The second list: groups of keys that have ever less in common with the first.
            let mut keys: Vec<Vec<u8>> = Vec::new();
            for (group, &less) in begins.iter().enumerate() {
                let begin = [vec![b'k'; 1000 - less], vec![b'k' + group as u8]].concat();
                keys.extend((0..each).map(|i| [&begin[..], &(i * 977).to_be_bytes()].concat()));
            }
            keys.insert(0, b"a key below all".to_vec());
            let (mut short, mut whole) = (Separators::new(), Separators::new());
            let (mut short_keys, mut whole_keys) =
                (LastKeys::new(keys.len() as u64), LastKeys::new(keys.len() as u64));
            for pair in keys.windows(2) {
                let tail = short.push_between(&pair[0], &pair[1]);
                short_keys.push_behind(short.begin(), &tail, [&pair[0][..]]);
                whole.push(&[short.begin(), short.get(short.len() - 1)].concat());
                whole_keys.push([&pair[0]]);
            }
            for kind in IndexKind::ALL {
                let [short, whole] =
                    [(&short, &short_keys), (&whole, &whole_keys)].map(|(separators, keys)| {
                        let index = Index::build(kind, 2, separators, Some(keys));
                        (encoded(&index, separators), index)
                    });
                assert!(short.0 == whole.0, "{kind}: {:?} {:?}", short.1.reason(), whole.1.reason());
                let read = Index::decode(&mut Decoder::new(&short.0), kind, keys.len(), u64::MAX).unwrap();
                for key in keys.iter().flat_map(|key| around(key)) {
                    let expected = whole.1.locate(&key, |_| {});
                    assert_eq!(
                        (short.1.locate(&key, |_| {}), read.locate(&key, |_| {})),
                        (expected, expected)
                    );
                }
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
        let orders = (0..70u64).map(|i| (((i / 3) << 32) | (5 + 40 * (i % 3))).to_be_bytes().to_vec());
        let random = (1..30u64).map(|i| {
            let number = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            [number.to_be_bytes(), number.rotate_left(9).to_be_bytes()].concat()
        });
        let families: [(Vec<Vec<u8>>, bool); 6] = [
            (nested.clone().collect(), false),
            (nested.collect(), true),
            (text.collect(), false),
            (numbers.collect(), false),
            (orders.collect(), true),
            (random.collect(), false),
        ];
        let mut forms = Vec::new();
        for (mut separators, knows_last_keys) in families {
            separators.sort();
            let built: Separators = separators.iter().collect();
            let below = least_between(&separators);
            let last_keys = knows_last_keys.then_some(&below);
            let keys: Vec<Vec<u8>> =
                separators.iter().step_by(5).flat_map(|separator| around(separator)).collect();
            // Few of these choose nodes, which are tried out as well.
            let nodes = Locator::Learned(Learned::of_nodes(&built, last_keys)).behind(built.begin());
            let nodes = Index { kind: IndexKind::Learned, locator: nodes, reason: None };
            let chosen = [IndexKind::Learned, IndexKind::SherryPlr]
                .map(|kind| Index::build(kind, 2, &built, last_keys));
            for index in chosen.into_iter().chain([nodes]) {
                let kind = index.kind;
                forms.extend(index.describe());
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
        for form in ["heads of bytes", "heads of fields", "front-coded", "halved"] {
            assert!(forms.iter().any(|of| of.contains(form)), "{form}: {forms:?}");
        }
    }

    /// A last key for each of these separators: the least key that is above the separator before.
    fn least_between(separators: &[Vec<u8>]) -> LastKeys {
        let below = separators.iter().map(|separator| [separator, &[0][..]].concat());
        let mut last_keys = LastKeys::new(1 << 20);
        [vec![]].into_iter().chain(below).take(separators.len()).for_each(|key| last_keys.push([key]));
        last_keys
    }

    /// Separators that are bad for models, and the blocks below them: in jumps of all sizes, in
    /// parts, touching, of several lengths.
    fn bad_separators() -> impl Strategy<Value = (Vec<Vec<u8>>, Vec<Vec<Vec<u8>>>)> {
        let part = || prop_oneof![Just(0u64), Just(u64::MAX), 0u64..200, any::<u64>()];
        let number = (part(), 0u32..64, part()).prop_map(|(high, shift, low)| {
            let number = high.checked_shl(shift).unwrap_or(0).wrapping_add(low);
            vec![number.wrapping_sub(1).to_be_bytes().to_vec(), number.to_be_bytes().to_vec()]
        });
        let text = (prop::collection::vec(prop_oneof![0u8..2, Just(b'a'), 254u8..], 0..30), any::<u16>())
            .prop_map(|(stem, tail)| vec![stem.clone(), [&stem[..], &tail.to_be_bytes()].concat()]);
        let keys = prop_oneof![3 => number, 1 => text];
        prop::collection::vec(keys, 1..250).prop_map(|keys| {
            let mut keys: Vec<Vec<u8>> = keys.concat();
            keys.sort();
            keys.dedup();
            // Blocks of two keys or three: a last key, a separator.
            let blocks: Vec<&[Vec<u8>]> = keys.chunks(2 + keys.len() % 2).collect();
            let last = blocks[..blocks.len() - 1].iter().map(|block| block.to_vec()).collect();
            let firsts = blocks[1..].iter().zip(&blocks).map(|(block, before)| {
                block[0][..crate::key::separator_len(&before[before.len() - 1], &block[0])].to_vec()
            });
            (firsts.collect(), last)
        })
    }

    proptest! {
        #[test]
        fn no_keys_take_more_bytes_in_the_learned_kind_than_in_a_classical_one_and_those_that_go_astray_are_counted(
            (separators, last_keys) in bad_separators(),
        ) {
            let built: Separators = separators.iter().collect();
            let mut known = LastKeys::new(3 * last_keys.len() as u64);
            last_keys.iter().for_each(|block| known.push(block));
            for last_keys in [None, Some(&known)] {
                let learned = Index::build(IndexKind::Learned, 2, &built, last_keys);
                for kind in [IndexKind::Binary, IndexKind::STree, IndexKind::Interpolation, IndexKind::Eytzinger] {
                    let classical = Index::build(kind, 2, &built, None);
                    let (least, bytes) = (classical.bytes(), learned.bytes());
                    prop_assert!(bytes <= least, "{} and {} of {}: {:?}", bytes, least, kind, learned.describe());
                }
            }
            let learned = Index::build(IndexKind::Learned, 2, &built, Some(&known));
            let keys = last_keys.iter().enumerate().flat_map(|(block, keys)| keys.iter().map(move |key| (block, key)));
            let astray = keys.filter(|(block, key)| learned.locate(key, |_| {}).begin != *block).count();
            prop_assert_eq!(learned.astray(), Some(astray as u64));
            for (block, separator) in separators.iter().enumerate() {
                prop_assert_eq!(learned.locate(separator, |_| {}).begin, block + 1);
            }
        }
    }

    #[test]
    fn text_of_few_letters_is_located_whatever_letters_a_key_has() {
        let numbers = |count: u64| (0..count).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let short = numbers(700).map(|number| format!("user{number:016x}")[..4 + 5].into());
        // Long enough to be front-coded, and with enough of them for those between which it is
        // searched.
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
            let below = least_between(&separators);
            for kind in [IndexKind::Learned, IndexKind::STree] {
                let index = Index::build(kind, 64, &built, Some(&below));
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
}

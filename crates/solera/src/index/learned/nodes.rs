//! Boundaries known by their heads, and exact bytes only where heads cannot tell: `Nodes`.
//!
//! Heads of the separators, after the prefix that all share, become `Boundaries` of `solera-model`:
//! segments and codes (docs/decisions/0007). A head is the first bytes, or a number by `Letters`,
//! `Fields` or `Spelling`. Separators that share a head, or one that its head does not tell, form a
//! group. Only a key with that very head is compared further: with the rests of a small group, or
//! in another node of a large one.
//!
//! What must hold: `locate` gives how many separators are not above the key, or one more. Where
//! blocks' last keys are known, the latter is so for few keys, which `index::learned` counts.
//! Decoded bytes may give wrong numbers, none above `len`.
//!
//! Caller: `index::learned`.

use super::{
    super::{
        last_keys::{KEPT_MAX, LastKeys},
        separators::Separators,
        sorted::compare_with_prefix,
        stored::decode_model,
    },
    heads::{Heads, untold_max},
    segments_of,
    spelling::Spelling,
};
use crate::{
    codec::{DecodeError, Decoder, put_bytes, put_varint},
    key::common_prefix_len,
};
use solera_model::boundaries::{Below, Boundaries, LEN_MAX};
use std::{cell::RefCell, cmp::Ordering, collections::VecDeque, ops::Range};

/// Groups of at most this many separators are halved; larger ones get a node.
const HALVED_MAX: usize = 16;

/// Learned boundaries.
#[derive(Clone, Debug)]
pub(super) struct Nodes {
    /// The first is the root.
    nodes: Box<[Node]>,
    /// Separators that do not go by their heads alone.
    grouped: u32,
    heads: Heads,
}

/// Consecutive separators that share a prefix.
#[derive(Clone, Debug)]
struct Node {
    /// How many separators lie before it.
    first: u32,
    prefix: Box<[u8]>,
    boundaries: Boundaries,
    /// Ascending by segment.
    groups: Box<[Group]>,
    rests: Rests,
}

/// A node that was built.
struct Built {
    node: Node,
    /// Which of its groups are to be nodes, with the bytes that are behind a key then.
    large: Vec<(usize, usize)>,
    /// Ranks of its separators below which keys are sent too far, if last keys are known.
    missed: Vec<u32>,
}

/// Separators `first..last` have the head with which a segment begins.
#[derive(Clone, Debug)]
struct Group {
    segment: u32,
    first: u32,
    last: u32,
    within: Within,
}

#[derive(Clone, Copy, Debug)]
enum Within {
    /// From this one on among the rests.
    Rests(u32),
    Node(u32),
}

/// Separators after the node's prefix, one after the other.
#[derive(Clone, Debug, Default)]
struct Rests {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Rests {
    fn push(&mut self, rest: &[u8]) {
        self.bytes.extend_from_slice(rest);
        self.ends.push(self.bytes.len() as u32);
    }

    fn get(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        &self.bytes[start..self.ends[i] as usize]
    }

    /// Reads the lengths of `count` rests, and these.
    fn decode(decoder: &mut Decoder<'_>, count: usize) -> Result<Rests, DecodeError> {
        // Each length takes a byte at least.
        if count > decoder.remaining() {
            return decoder.fail("as many rests as groups have");
        }
        let mut ends = Vec::with_capacity(count);
        let mut end = 0;
        for _ in 0..count {
            end += decoder
                .varint_up_to((decoder.remaining() as u64).saturating_sub(end), "the length of a rest")?;
            let Ok(end) = u32::try_from(end) else { return decoder.fail("rests of less than 4 GiB") };
            ends.push(end);
        }
        Ok(Rests { bytes: decoder.take(end as usize, "rests")?.to_vec(), ends })
    }

    /// How many of the rests in `range` are not above `rest`.
    fn up_to(&self, range: Range<usize>, rest: &[u8]) -> usize {
        let (mut low, mut high) = (range.start, range.end);
        while low < high {
            let middle = low.midpoint(high);
            if self.get(middle) <= rest { low = middle + 1 } else { high = middle }
        }
        low - range.start
    }
}

impl Nodes {
    /// The index over these separators, of which there are less than 2^31. `last_keys`, if they are
    /// known, are those below each separator, or beginnings that go on as far as heads see.
    /// Of each block in which keys are sent too far there are some that are not, among those; and
    /// there are so few that no more than about one key in `one_in` is. Also the ranks of the
    /// separators below which keys are sent too far, if last keys are known.
    pub(super) fn build(
        separators: &Separators,
        last_keys: Option<&LastKeys>,
        one_in: f64,
    ) -> (Nodes, Vec<u32>) {
        let heads = Heads::of(separators, last_keys, one_in);
        Nodes::with_heads(separators, last_keys, one_in, heads)
    }

    /// [`Nodes::build`] with heads of this spelling.
    pub(super) fn spelled(
        separators: &Separators,
        last_keys: &LastKeys,
        one_in: f64,
        spelling: Spelling,
    ) -> (Nodes, Vec<u32>) {
        Nodes::with_heads(separators, Some(last_keys), one_in, Heads::Spelling(spelling.into()))
    }

    fn with_heads(
        separators: &Separators,
        last_keys: Option<&LastKeys>,
        one_in: f64,
        heads: Heads,
    ) -> (Nodes, Vec<u32>) {
        let (mut nodes, mut missed): (Vec<Node>, Vec<u32>) = (Vec::new(), Vec::new());
        // Nodes that a group already names, in order: separators, and how much of them is behind
        // the key already. Breadth first, without recursion: the depth is up to the keys.
        let mut pending = VecDeque::from([(0..separators.len(), 0)]);
        let mut named = 1;
        while let Some((range, path)) = pending.pop_front() {
            let Built { node, large, missed: of_node } =
                Node::build(separators, last_keys, one_in, &heads, range, path);
            missed.extend(of_node.into_iter().map(|rank| node.first + rank));
            nodes.push(node);
            let node = nodes.len() - 1;
            for (group, path) in large {
                let group = &mut nodes[node].groups[group];
                group.within = Within::Node(named);
                named += 1;
                pending.push_back((group.first as usize..group.last as usize, path));
            }
        }
        (Nodes { grouped: grouped_in(&nodes[0]), nodes: nodes.into(), heads }, missed)
    }

    /// Puts `begin`, which was left out of all separators, before the root's prefix.
    pub(super) fn put_behind(&mut self, begin: &[u8]) {
        let prefix = &mut self.nodes[0].prefix;
        *prefix = [begin, prefix].concat().into();
    }

    /// Appends what heads are ([`Heads::encode`]), then the nodes, a node's groups before the nodes
    /// that they name.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        self.heads.encode(out);
        self.nodes.iter().for_each(|node| node.encode(out));
    }

    /// Reads what [`Nodes::encode`] wrote. What passes may say wrong numbers, but none above
    /// [`Nodes::len`].
    pub(super) fn decode(decoder: &mut Decoder<'_>) -> Result<Nodes, DecodeError> {
        let heads = Heads::decode(decoder)?;
        let mut nodes = Vec::new();
        // Separators of the nodes that are named and not read yet; those of the root are not known
        // before it is.
        let mut named = VecDeque::new();
        let (mut name, mut next) = (1, Some(0..LEN_MAX as u32));
        while let Some(range) = next {
            let mut node = Node::decode(decoder, &range)?;
            if !nodes.is_empty() {
                if node.boundaries.len() != range.len() {
                    return decoder.fail("as many boundaries as the group of a node has");
                }
                // So a lookup gets on with its key in every node.
                if node.prefix.len() < heads.bytes_told() {
                    return decoder.fail("a node that goes on behind its group's head");
                }
            }
            for group in &mut node.groups {
                if let Within::Node(number) = &mut group.within {
                    (*number, name) = (name, name + 1);
                    named.push_back(group.first..group.last);
                }
            }
            nodes.push(node);
            next = named.pop_front();
        }
        Ok(Nodes { grouped: grouped_in(&nodes[0]), nodes: nodes.into(), heads })
    }

    /// How many separators are not above `key`, or one more: the number of its block, or of the
    /// next; and how far it is between the two around it, in 256ths, where boundaries tell. `early`
    /// is told before that, and before most of what it costs, about how many; it may be told
    /// several times, or never.
    #[inline]
    pub(super) fn locate(&self, key: &[u8], early: impl Fn(usize)) -> (usize, Option<u8>) {
        self.located::<true>(key, early)
    }

    /// [`Nodes::locate`]; how far it is between them only if that is to be `MEASURED`.
    #[inline]
    pub(super) fn located<const MEASURED: bool>(
        &self,
        key: &[u8],
        early: impl Fn(usize),
    ) -> (usize, Option<u8>) {
        let mut node = &self.nodes[0];
        let mut rest = key;
        loop {
            match compare_with_prefix(rest, &node.prefix) {
                Ordering::Less => return (node.first as usize, None),
                Ordering::Greater => return (node.first as usize + node.boundaries.len(), None),
                Ordering::Equal => rest = &rest[node.prefix.len()..],
            }
            let first = node.first as usize;
            let (head, early) = (self.heads.head(rest), |rank| early(first + rank));
            let place = match MEASURED {
                true => node.boundaries.place_early(head, early),
                false => node.boundaries.place_unmeasured(head, early),
            };
            let Some(group) = place.start.and_then(|segment| node.group(segment)) else {
                return (node.first as usize + place.rank, place.within);
            };
            match group.within {
                Within::Rests(start) => {
                    let start = start as usize;
                    let count = (group.last - group.first) as usize;
                    return (group.first as usize + node.rests.up_to(start..start + count, rest), None);
                }
                Within::Node(child) => node = &self.nodes[child as usize],
            }
        }
    }

    /// An estimate, rather too high, of the part of all keys that are sent one block too far.
    pub(super) fn ambiguity(&self) -> f64 {
        let sum: f64 =
            self.nodes.iter().map(|node| node.boundaries.ambiguity() * node.boundaries.len() as f64).sum();
        sum / self.len().max(1) as f64
    }

    /// Cache lines that a lookup touches, on average over separators.
    pub(super) fn lines(&self) -> f64 {
        let grouped = f64::from(self.grouped) / self.len().max(1) as f64;
        // A key of a group looks for the group, and halves rests or descends once more.
        let deeper = if self.nodes.len() > 1 { self.nodes[1].boundaries.lines() } else { 4.0 };
        self.nodes[0].boundaries.lines() + grouped * (2.0 + deeper) + self.heads.lines()
    }

    /// What heads are, how many segments there are, those with positions of 24 bits apart, and how
    /// many separators do not go by heads alone.
    pub(super) fn describe(&self) -> String {
        let heads = self.heads.describe();
        let segments = segments_of(self.nodes.iter().map(|node| &node.boundaries));
        let (nodes, grouped) = (self.nodes.len(), self.grouped);
        format!("heads of {heads}, {segments} in {nodes} nodes, {grouped} separators in groups")
    }

    /// Separators.
    pub(super) fn len(&self) -> usize {
        self.nodes[0].boundaries.len()
    }

    /// Bytes on the heap.
    pub(super) fn bytes(&self) -> usize {
        self.bytes_once() + self.nodes.iter().map(Node::bytes).sum::<usize>()
    }

    /// Bytes that do not go by how many separators there are.
    pub(super) fn bytes_once(&self) -> usize {
        size_of_val(&*self.nodes) + self.heads.bytes()
    }
}

/// How many separators of a node do not go by their heads alone.
fn grouped_in(node: &Node) -> u32 {
    node.groups.iter().map(|group| group.last - group.first).sum()
}

/// The heads of the last keys below some separators, as far as they were asked for.
struct Known {
    /// Of each separator which of `heads` are those below it, and one; 0 if none is known.
    of: Vec<u32>,
    /// The last key's first; and how many are known.
    heads: Vec<([u64; KEPT_MAX], usize)>,
}

impl Known {
    fn new(separators: usize) -> Known {
        Known { of: vec![0; separators], heads: Vec::new() }
    }

    /// How many of the last keys below a separator are not below this head; `None` if that are all.
    /// `keys` are these, [`KEPT_MAX`] at most, the last one first, whose head is `last`. Each other
    /// one is asked for its head once.
    fn not_below<'k>(
        &mut self,
        i: usize,
        (from, last): (u64, u64),
        keys: impl Iterator<Item = &'k [u8]>,
        head: impl Fn(&[u8]) -> u64,
    ) -> Option<usize> {
        if self.of[i] == 0 {
            let mut known = [0; KEPT_MAX];
            known[0] = last;
            self.heads.push((known, 1));
            self.of[i] = self.heads.len() as u32;
        }
        let (known, count) = &mut self.heads[self.of[i] as usize - 1];
        // Skipped before they are mapped: else each would be asked for its head again.
        let mut more = keys.skip(*count).map(head);
        while known[..*count].last().is_none_or(|head| *head >= from) {
            known[*count] = more.next()?;
            *count += 1;
        }
        Some(known[..*count].partition_point(|head| *head >= from))
    }
}

/// The separators, each behind how many keys it would send too far, that send the fewest: as many
/// as send no more than `most` together. They ascend.
fn few_of(mut separators: Vec<(usize, usize)>, most: f64) -> Vec<usize> {
    separators.sort_unstable();
    let sums = separators.iter().scan(0, |sum, (keys, _)| {
        *sum += keys;
        Some(*sum)
    });
    let count = sums.take_while(|sum| *sum as f64 <= most).count();
    let mut few: Vec<usize> = separators[..count].iter().map(|(_, separator)| *separator).collect();
    few.sort_unstable();
    few
}

impl Node {
    /// The node of the separators in `range`, of which the first `path` bytes are behind the key
    /// that comes to it.
    fn build(
        separators: &Separators,
        last_keys: Option<&LastKeys>,
        one_in: f64,
        of: &Heads,
        range: Range<usize>,
        path: usize,
    ) -> Built {
        let shared =
            |first: usize, last: usize| common_prefix_len(separators.get(first), separators.get(last));
        let prefix = if range.is_empty() { path } else { shared(range.start, range.end - 1) };
        let rest = |i: usize| &separators.get(i)[prefix..];
        let heads: Vec<u64> = range.clone().map(|i| of.head(rest(i))).collect();
        // The heads of the last keys below each separator, if these are known: of one that begins
        // otherwise, heads know nothing.
        let begin = if range.is_empty() { &[][..] } else { &separators.get(range.start)[..prefix] };
        let floor = |key: &[u8]| key.strip_prefix(begin).map_or(0, |rest| of.head(rest));
        let floors: Option<Vec<u64>> =
            last_keys.map(|last_keys| range.clone().map(|i| floor(last_keys.last(i))).collect());
        // How many of the last keys below a separator are not below this head; `None` if that are
        // all.
        let known = RefCell::new(Known::new(heads.len()));
        let from = |i: usize, from: u64| {
            let (last_keys, floors) = last_keys.zip(floors.as_ref())?;
            let keys = last_keys.backwards(range.start + i);
            known.borrow_mut().not_below(i, (from, floors[i]), keys, floor)
        };
        // Of what is looked for below those that have the head of the last key, another head tells,
        // or it is compared; or it is sent too far, where that is few keys.
        let shares_head = |i: usize| floors.as_ref().is_some_and(|floors| floors[i] >= heads[i]);
        let missed_max = last_keys.map_or(0.0, |last_keys| untold_max(last_keys, one_in, heads.len()));
        let missed = (0..heads.len()).filter(|i| shares_head(*i)).map(|i| (i, from(i, heads[i])));
        let few = few_of(missed.filter_map(|(i, keys)| Some((keys?, i))).collect(), missed_max);
        let grouped = |i: usize| match &floors {
            Some(_) => shares_head(i) && few.binary_search(&i).is_err(),
            None => !of.tell(rest(range.start + i)),
        };
        let (boundaries, missed) = match last_keys.zip(floors.as_ref()) {
            Some((last_keys, last)) => {
                let below = Below { last, from: &from, missed_max: last_keys.part(one_in) };
                Boundaries::above_missed(below, &heads, grouped)
            }
            None => (Boundaries::with_ambiguity(of.ambiguity_max(), &heads, grouped), Vec::new()),
        };
        let (mut groups, mut large, mut rests) = (Vec::new(), Vec::new(), Rests::default());
        let mut first = 0;
        while first < heads.len() {
            let last = first + heads[first..].iter().take_while(|&&head| head == heads[first]).count();
            if last - first > 1 || grouped(first) {
                let whole = range.start + first..range.start + last;
                // A node must go on behind the head, or it would have the same group again.
                let beyond_head = shared(whole.start, whole.end - 1) >= prefix + of.bytes_told();
                let within = if last - first > HALVED_MAX && beyond_head {
                    large.push((groups.len(), prefix));
                    Within::Node(0)
                } else {
                    let start = rests.ends.len() as u32;
                    whole.clone().for_each(|i| rests.push(rest(i)));
                    Within::Rests(start)
                };
                let segment = boundaries.place(heads[first]).start.expect("a group's head begins a segment");
                groups.push(Group {
                    segment: segment as u32,
                    first: whole.start as u32,
                    last: whole.end as u32,
                    within,
                });
            }
            first = last;
        }
        rests.bytes.shrink_to_fit();
        rests.ends.shrink_to_fit();
        let prefix =
            if range.is_empty() { Box::default() } else { separators.get(range.start)[path..prefix].into() };
        let node = Node { first: range.start as u32, prefix, boundaries, groups: groups.into(), rests };
        Built { node, large, missed }
    }

    /// The group whose head begins this segment, if there is one.
    #[inline]
    fn group(&self, segment: usize) -> Option<&Group> {
        // Where few prefixes have many keys each, all segments begin with groups.
        match self.groups.get(segment) {
            Some(group) if group.segment as usize == segment => Some(group),
            _ => {
                let found = self.groups.binary_search_by_key(&(segment as u32), |group| group.segment);
                found.ok().map(|at| &self.groups[at])
            }
        }
    }

    /// Appends the prefix (length as varint, bytes), the boundaries ([`Boundaries::encode`]), how
    /// many groups there are (varint), and for each, as varints: how many segments lie between its
    /// own and the one before's, how many separators between them, and how many it has, times two,
    /// and one more if it is a node. Then the length of each rest (varint), and the rests.
    fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, &self.prefix);
        self.boundaries.encode(out);
        put_varint(out, self.groups.len() as u64);
        let (mut segment, mut separator) = (0, self.first);
        for group in &self.groups {
            let is_node = matches!(group.within, Within::Node(_));
            put_varint(out, (group.segment - segment).into());
            put_varint(out, (group.first - separator).into());
            put_varint(out, u64::from(group.last - group.first) << 1 | u64::from(is_node));
            (segment, separator) = (group.segment + 1, group.last);
        }
        (0..self.rests.ends.len()).for_each(|i| put_varint(out, self.rests.get(i).len() as u64));
        out.extend_from_slice(&self.rests.bytes);
    }

    /// Reads what [`Node::encode`] wrote of a node whose separators lie in `range`, from its
    /// beginning on. Its nodes have no numbers yet.
    fn decode(decoder: &mut Decoder<'_>, range: &Range<u32>) -> Result<Node, DecodeError> {
        let prefix = decoder.bytes("what the separators of a node begin with")?.into();
        let boundaries = decode_model(decoder, Boundaries::decode)?;
        if boundaries.len() > range.len() {
            return decoder.fail("as many boundaries as there are separators");
        }
        let last = range.start + boundaries.len() as u32;
        let count = decoder.varint_up_to(boundaries.segments() as u64, "a count of groups")?;
        // Each takes three bytes at least.
        if count > decoder.remaining() as u64 / 3 {
            return decoder.fail("as many groups as are counted");
        }
        let mut groups = Vec::with_capacity(count as usize);
        let (mut segment, mut separator, mut rests) = (0, range.start, 0);
        for _ in 0..count {
            let Some(behind) = (boundaries.segments() as u64).checked_sub(segment + 1) else {
                return decoder.fail("groups of different segments");
            };
            segment += decoder.varint_up_to(behind, "the segment of a group")?;
            let first =
                separator + decoder.varint_up_to((last - separator).into(), "the place of a group")? as u32;
            let group = decoder.varint_up_to(u64::from(last - first) << 1 | 1, "the size of a group")?;
            separator = first + (group >> 1) as u32;
            let within = if group & 1 == 1 { Within::Node(0) } else { Within::Rests(rests) };
            rests += if group & 1 == 1 { 0 } else { separator - first };
            groups.push(Group { segment: segment as u32, first, last: separator, within });
            segment += 1;
        }
        let rests = Rests::decode(decoder, rests as usize)?;
        Ok(Node { first: range.start, prefix, boundaries, groups: groups.into(), rests })
    }

    fn bytes(&self) -> usize {
        self.prefix.len()
            + self.boundaries.bytes()
            + size_of_val(&*self.groups)
            + self.rests.bytes.capacity()
            + size_of_val(&*self.rests.ends)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::letters::Letters, *};
    use proptest::prelude::*;

    /// Every key must be located where counting does, or one further, under heads of these letters.
    fn check(separators: &[Vec<u8>], letters: &[u8], longest: usize, keys: &[Vec<u8>]) {
        let built: Separators = separators.iter().collect();
        let mut is_letter = [false; 256];
        letters.iter().for_each(|&letter| is_letter[usize::from(letter)] = true);
        let letters = Letters::new(&is_letter, longest).unwrap();
        let (nodes, _) = Nodes::with_heads(&built, None, 1.0, Heads::Letters(letters.into()));
        let own = separators.iter().flat_map(|separator| {
            let mut beside = [&b"0"[..], b"a", b"g", b"\0"].map(|more| [separator, more].concat()).to_vec();
            beside.push(separator.clone());
            beside.extend(separator.split_last().map(|(_, rest)| rest.to_vec()));
            beside
        });
        for key in own.chain(keys.iter().cloned()) {
            let expected = separators.partition_point(|separator| *separator <= key);
            let (located, _) = nodes.locate(&key, |_| {});
            assert!((expected..=expected + 1).contains(&located), "{key:?} at {located} and not {expected}");
        }
    }

    #[test]
    fn the_largest_number_is_that_of_many_keys() {
        let separators =
            [&b"1"[..], b"fffffffffffffff", b"ffffffffffffffff", b"ffffffffffffffff0"].map(<[u8]>::to_vec);
        let keys = ["g", "fz", "ffffffffffffffeg", "fffffffffffffffg", "ffffffffffffffff1", "zzz"];
        let keys = keys.map(|key| key.as_bytes().to_vec());
        for count in 2..=separators.len() {
            check(&separators[..count], b"0123456789abcdef", 16, &keys);
        }
    }

    /// With what is admitted of bytes it is one in a thousand.
    #[test]
    #[cfg_attr(miri, ignore = "minutes under Miri")]
    fn of_hexadecimal_keys_few_are_sent_one_block_too_far() {
        let mut state = 3u64;
        let mut keys: Vec<String> = (0..200_000)
            .map(|_| {
                state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mixed = (state ^ (state >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                format!("{:016x}", mixed ^ (mixed >> 29))
            })
            .collect();
        keys.sort();
        let separators: Separators = (45..keys.len())
            .step_by(45)
            .map(|i| &keys[i].as_bytes()[..=common_prefix_len(keys[i - 1].as_bytes(), keys[i].as_bytes())])
            .collect();
        let nodes = Nodes::build(&separators, None, 1.0).0;
        assert!(matches!(nodes.heads, Heads::Letters(_)));
        let too_far = keys
            .iter()
            .enumerate()
            .filter(|(i, key)| nodes.locate(key.as_bytes(), |_| {}).0 > i / 45)
            .count();
        assert!(too_far < keys.len() * 6 / 10_000, "{too_far}");
    }

    proptest! {
        #[test]
        fn heads_of_letters_send_no_key_further_than_one_block(
            mut separators in prop::collection::vec((0usize..3, prop::collection::vec(prop_oneof![4 => Just(b'0'), 4 => Just(b'1'), 1 => Just(b'b')], 0..40)), 2..120),
            keys in prop::collection::vec((0usize..3, prop::collection::vec(prop_oneof![8 => Just(b'0'), 8 => Just(b'1'), 4 => Just(b'b'), 1 => Just(b'a'), 1 => any::<u8>()], 0..44)), 0..40),
        ) {
            // Many separators share all that heads tell, and get nodes of their own.
            let stems = [&b""[..], b"01b01b01b01b01b01b01b", b"0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b"];
            let with_stem = |(stem, rest): &(usize, Vec<u8>)| [stems[*stem], rest].concat();
            let keys: Vec<Vec<u8>> = keys.iter().map(with_stem).collect();
            separators.sort();
            let mut separators: Vec<Vec<u8>> = separators.iter().map(with_stem).collect();
            separators.sort();
            for longest in [0, 40] {
                check(&separators, b"01b", longest, &keys);
            }
        }
    }
}

//! Tests of `Block` against a model, a sorted vector of entries, for every kind of last mile.
//!
//! `assert_equals_model` asks for everything that a block says. Found are keys of 0, 1 and 8 bytes,
//! keys that share 200 bytes, prefixes of each other, and keys with equal heads. Versions are seen
//! by their snapshots, values of all sizes come back, and values of 64 bytes lie on cache lines.
//! `any_entries_are_found` asks the same of drawn entries.
//!
//! This file also owns what `cuts`, `hostile` and `stored` share, such as `Entry`, `payloads`,
//! `block_of` and `LAST_MILES`.

mod cuts;
mod hostile;
mod stored;

use super::*;
use crate::{
    cursor::Probe,
    ids::Seqno,
    key::{Kind, hash},
};
use proptest::prelude::*;

/// A model's entry.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    key: Vec<u8>,
    seqno: Seqno,
    kind: Kind,
    value: Vec<u8>,
}

const LAST_MILES: [LastMile; 6] = [
    LastMile::Halving,
    LastMile::Pla { epsilon: 2 },
    LastMile::Pla { epsilon: 64 },
    LastMile::LeastSquares,
    LastMile::LeastSquaresOrHash,
    LastMile::Hash,
];

fn entry(key: impl AsRef<[u8]>, seqno: Seqno, value: &[u8]) -> Entry {
    Entry { key: key.as_ref().to_vec(), seqno, kind: Kind::Put, value: value.to_vec() }
}

/// In a source's order: keys ascending, versions newest first.
fn sorted(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_by(|a, b| a.key.cmp(&b.key).then(b.seqno.cmp(&a.seqno)));
    entries.dedup_by(|a, b| (&a.key, a.seqno) == (&b.key, b.seqno));
    entries
}

fn puts<K: AsRef<[u8]>>(keys: impl IntoIterator<Item = K>) -> Vec<Entry> {
    sorted(keys.into_iter().enumerate().map(|(i, key)| entry(key, i as u64 + 1, &[i as u8; 7])).collect())
}

/// Kept with every block.
const NOTE: &[u8] = b"a note";

/// The payloads that the entries make, with what the builder says of each.
fn payloads(builder: &mut BlockBuilder, entries: &[Entry]) -> Vec<(Vec<u8>, Finished)> {
    let mut blocks = Vec::new();
    for Entry { key, seqno, kind, value } in entries {
        if !builder.try_add(key, *seqno, *kind, value) {
            let mut payload = Vec::new();
            let finished = builder.finish(NOTE, &mut payload);
            blocks.push((payload, finished));
            assert!(builder.try_add(key, *seqno, *kind, value), "an empty block takes any entry");
        }
        assert_eq!(builder.last_key(), key);
    }
    let expected = builder.encoded_len();
    let mut payload = Vec::new();
    let finished = builder.finish(NOTE, &mut payload);
    assert_eq!(payload.len(), expected + NOTE.len());
    blocks.push((payload, finished));
    blocks
}

/// One block of all entries.
fn block_of(entries: &[Entry], last_mile: LastMile, elide_below: Seqno) -> Block {
    let mut blocks = payloads(&mut BlockBuilder::new(1 << 30, last_mile, elide_below), entries);
    // A corridor may cut; then the least-squares line takes its place.
    if blocks.len() > 1 {
        blocks = payloads(&mut BlockBuilder::new(1 << 30, LastMile::LeastSquares, elide_below), entries);
    }
    assert_eq!(blocks.len(), 1);
    let block = Block::from_payload(&blocks[0].0).unwrap();
    assert_eq!(block.line_error(), blocks[0].1.error);
    assert_eq!(block.note(), NOTE);
    block
}

/// Keys near the present ones: where off-by-ones hide.
fn neighbours(key: &[u8]) -> Vec<Vec<u8>> {
    let mut found = vec![key.to_vec(), [key, &[0]].concat(), [key, &[0, 0]].concat(), [key, &[255]].concat()];
    for cut in [1, 2, 7, 8, 9] {
        found.push(key[..key.len().saturating_sub(cut)].to_vec());
    }
    if let Some((last, start)) = key.split_last() {
        found.push([start, &[last.wrapping_add(1)]].concat());
        found.push([start, &[last.wrapping_sub(1)]].concat());
    }
    if let Some((first, rest)) = key.split_first() {
        found.push([&[first.wrapping_add(1)], rest].concat());
        found.push([&[first.wrapping_sub(1)], rest].concat());
    }
    found
}

/// Everything a block says about its entries and about `targets`, against the model.
fn assert_equals_model(block: &Block, entries: &[Entry], elided: bool, targets: &[Vec<u8>]) {
    block.check().unwrap();
    assert_eq!(block.len(), entries.len());
    let mut key = b"something else".to_vec();
    for (i, expected) in entries.iter().enumerate() {
        block.key_into(i, &mut key);
        assert_eq!(key, expected.key, "key {i}");
        assert_eq!(block.key_len(i), expected.key.len());
        block.key_beside_into(block.len() - 1 - i, &mut key);
        assert_eq!(key, entries[block.len() - 1 - i].key);
        assert!(block.key_eq(i, &expected.key));
        assert_eq!(block.value(i), expected.value, "value {i}");
        assert_eq!(block.pin_value(i), expected.value);
        assert_eq!(block.kind(i), expected.kind);
        assert_eq!(block.seqno(i, 77), if elided { 77 } else { expected.seqno });
        if i > 0 {
            assert_eq!(block.same_key(i - 1, i), entries[i - 1].key == expected.key);
        }
    }
    // Under Miri some of them, which differ from block to block.
    for target in targets.iter().step_by(if cfg!(miri) { targets.len() / 8 + 1 } else { 1 }) {
        let rank = entries.partition_point(|entry| entry.key < *target);
        assert_eq!(block.find(target), rank, "find {target:x?}");
        for i in [0, entries.len() / 2, entries.len() - 1] {
            assert_eq!(block.key_eq(i, target), entries[i].key == *target);
        }
        let versions: Vec<_> = (rank..entries.len()).take_while(|&i| entries[i].key == *target).collect();
        let snapshots = versions.iter().flat_map(|&i| [entries[i].seqno - 1, entries[i].seqno]);
        for snapshot in snapshots.chain([0, 1 << 40]) {
            let probe = Probe { key: target, hash: hash(target), snapshot };
            let expected = if elided {
                versions.first().copied()
            } else {
                versions.iter().copied().find(|&i| entries[i].seqno <= snapshot)
            };
            assert_eq!(block.lookup(&probe, 0), expected, "lookup {target:x?} at {snapshot}");
            // A bucket is a hint: that of another key leads nowhere else.
            assert_eq!(block.lookup(&Probe { hash: 0, ..probe }, 0), expected);
            if let Some(i) = expected {
                let hit = block.hit(i, 0);
                assert_eq!((hit.kind, hit.value()), (entries[i].kind, &entries[i].value[..]));
                assert_eq!(hit.pin_value(), entries[i].value);
            }
        }
    }
    assert!(block.ends_with(&entries[entries.len() - 1].key));
}

fn assert_blocks_of_all_kinds_equal_model(entries: &[Entry]) {
    // Under Miri a few of them, from the first to near the last.
    let apart = if cfg!(miri) { entries.len() / 8 + 1 } else { 1 };
    let entries: &Vec<_> = &entries.iter().step_by(apart).cloned().collect();
    let mut targets: Vec<_> = entries.iter().flat_map(|entry| neighbours(&entry.key)).collect();
    targets.extend([vec![], vec![0], vec![255; 300], vec![0; 300]]);
    targets.sort();
    targets.dedup();
    let newest = entries.iter().map(|entry| entry.seqno).max().unwrap();
    for last_mile in LAST_MILES {
        for elide_below in [0, newest - 1, newest] {
            let block = block_of(entries, last_mile, elide_below);
            assert_equals_model(&block, entries, elide_below == newest, &targets);
        }
    }
}

#[test]
fn keys_of_8_bytes_are_found() {
    assert_blocks_of_all_kinds_equal_model(&puts((0..300u64).map(|i| (i * i * 977).to_be_bytes())));
    assert_blocks_of_all_kinds_equal_model(&puts([0, 1, u64::MAX - 1, u64::MAX].map(u64::to_be_bytes)));
}

#[test]
fn keys_of_1_byte_and_the_empty_key_are_found() {
    assert_blocks_of_all_kinds_equal_model(&puts((0..=255u8).map(|byte| [byte])));
    assert_blocks_of_all_kinds_equal_model(&puts([b""]));
    assert_blocks_of_all_kinds_equal_model(&puts([&b""[..], b"\0", b"\0\0", b"a"]));
}

#[test]
fn keys_that_share_200_bytes_are_found() {
    let prefix = [b'p'; 200];
    let keys = |tails: &[&[u8]]| puts(tails.iter().map(|tail| [&prefix, *tail].concat()));
    assert_blocks_of_all_kinds_equal_model(&keys(&[b"", b"\0", b"a", b"b", b"bbbbbbbb", b"bbbbbbbbb", b"c"]));
    assert_blocks_of_all_kinds_equal_model(&puts(
        (0..100u64).map(|i| [&prefix[..], &(i << 13).to_be_bytes()].concat()),
    ));
    let mut entries = keys(&[b"1", b"2"]);
    entries.insert(0, entry(&prefix[..3], 9, b"shortens the prefix"));
    assert_blocks_of_all_kinds_equal_model(&entries);
}

#[test]
fn keys_that_are_prefixes_of_each_other_are_found() {
    let base = b"abcdefgh";
    let keys = (0..=8).flat_map(|len| (0..4).map(move |zeros| [&base[..len], &vec![0; zeros][..]].concat()));
    assert_blocks_of_all_kinds_equal_model(&sorted(puts(keys.collect::<std::collections::BTreeSet<_>>())));
    assert_blocks_of_all_kinds_equal_model(&puts([&b"a"[..], b"a\0", b"a\0\0"]));
}

#[test]
fn keys_with_equal_heads_and_different_tails_are_found() {
    let keys = (0..200u32).map(|i| [b"x12345678" as &[u8], &i.to_be_bytes()].concat());
    let other = [&b"a"[..], b"x123456781", b"x1234567", b"z"];
    assert_blocks_of_all_kinds_equal_model(&puts(keys.chain(other.map(<[u8]>::to_vec))));
}

#[test]
fn every_version_is_seen_by_its_snapshots() {
    let mut entries = Vec::new();
    for (i, key) in ["a", "many", "manz"].iter().enumerate() {
        for version in 0..[1, 300, 2][i] {
            let mut entry = entry(key, 10 + version * 1000 + i as u64, &version.to_le_bytes());
            entry.kind = Kind::ALL[version as usize % Kind::ALL.len()];
            entries.push(entry);
        }
    }
    assert_blocks_of_all_kinds_equal_model(&sorted(entries));
}

#[test]
#[cfg_attr(miri, ignore = "minutes under Miri, and what it does others do too")]
fn values_of_all_sizes_come_back() {
    let sizes = [0, 1, 100_000, 3, 70_000, 0];
    let entries: Vec<_> =
        sizes.iter().enumerate().map(|(i, &size)| entry([i as u8], 5, &vec![i as u8; size])).collect();
    assert_blocks_of_all_kinds_equal_model(&entries);
    assert_blocks_of_all_kinds_equal_model(&[entry("huge", 1, &vec![7; 3 << 20])]);
    assert_blocks_of_all_kinds_equal_model(&puts((0..70u8).map(|byte| [byte; 3])));
}

#[test]
fn records_of_64_bytes_are_aligned_to_cache_lines() {
    for n in [1, 7, 8, 56] {
        let entries: Vec<_> = (0..n).map(|i: u64| entry(i.to_be_bytes(), 1, &[1; 64])).collect();
        for last_mile in LAST_MILES {
            let block = block_of(&entries, last_mile, 1);
            for i in 0..n as usize {
                assert_eq!(block.value(i).as_ptr() as usize % 64, 0);
            }
            assert_equals_model(&block, &entries, true, &[vec![0; 8]]);
        }
    }
}

fn keys() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::collection::vec(prop_oneof![Just(0u8), Just(b'a'), Just(255u8), any::<u8>()], 0..14),
        2 => any::<[u8; 8]>().prop_map(|key| key.to_vec()),
        2 => (0u64..500).prop_map(|i| i.to_be_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..300),
    ]
}

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let kind = prop_oneof![6 => Just(Kind::Put as usize), 1 => 0..Kind::ALL.len()];
    let value = prop_oneof![
        3 => Just(vec![5; 12]),
        2 => prop::collection::vec(any::<u8>(), 8..40),
        1 => (8usize..if cfg!(miri) { 80 } else { 70_000 }).prop_map(|len| vec![3; len]),
    ];
    let prefix = prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(any::<u8>(), 0..60)];
    let seqno = prop_oneof![3 => 1u64..200, 1 => 1u64..1 << 50];
    (prefix, prop::collection::vec((keys(), seqno, kind, value), 1..if cfg!(miri) { 8 } else { 120 }))
        .prop_map(|(prefix, entries)| {
            sorted(
                entries
                    .into_iter()
                    .map(|(key, seqno, kind, value)| Entry {
                        key: [&prefix[..], &key].concat(),
                        seqno,
                        kind: Kind::ALL[kind],
                        value,
                    })
                    .collect(),
            )
        })
}

proptest! {
    #[test]
    fn any_entries_are_found(
        entries in entries(),
        last_mile in prop::sample::select(&LAST_MILES[..]),
        elide_below in prop_oneof![Just(0), 0u64..300, Just(u64::MAX)],
        block_bytes in prop_oneof![Just(256u32), 256u32..5000, Just(1 << 20)],
        more in prop::collection::vec(keys(), 0..20),
    ) {
        let mut rest = &entries[..];
        let mut targets: Vec<_> = entries.iter().flat_map(|entry| neighbours(&entry.key)).collect();
        targets.extend(more);
        for (payload, finished) in payloads(&mut BlockBuilder::new(block_bytes, last_mile, elide_below), &entries) {
            let (here, after) = rest.split_at(finished.entries);
            let elided = here.iter().all(|entry| entry.seqno <= elide_below);
            let block = Block::from_payload(&payload).unwrap();
            prop_assert_eq!(block.continues(), after.first().is_some_and(|next| next.key == here[here.len() - 1].key));
            assert_equals_model(&block, here, elided, &targets);
            rest = after;
        }
        prop_assert!(rest.is_empty());
    }
}

//! Blocks against a model, a sorted vector; and against bytes that nobody wrote.

use super::*;
use crate::{
    cache::Cache,
    codec::Binding,
    cursor::Probe,
    error::Error,
    ids::{DatabaseId, FileId, Seqno},
    key::{self, Kind},
};
use proptest::prelude::*;
use std::path::Path;

/// A model's entry.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    key: Vec<u8>,
    seqno: Seqno,
    kind: Kind,
    value: Vec<u8>,
}

const FITS: [FitPolicy; 4] =
    [FitPolicy::None, FitPolicy::Pla { epsilon: 2 }, FitPolicy::Pla { epsilon: 64 }, FitPolicy::LeastSquares];

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
fn block_of(entries: &[Entry], fit: FitPolicy, elide_below: Seqno) -> Block {
    let mut blocks = payloads(&mut BlockBuilder::new(1 << 30, fit, elide_below), entries);
    // A corridor may cut; then the least-squares line takes its place.
    if blocks.len() > 1 {
        blocks = payloads(&mut BlockBuilder::new(1 << 30, FitPolicy::LeastSquares, elide_below), entries);
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
        assert_eq!(block.key_head(i), key::head(&expected.key));
        assert!(block.key_eq(i, &expected.key));
        assert_eq!(block.value(i), expected.value, "value {i}");
        assert_eq!(block.pin_value(i), expected.value);
        assert_eq!(block.kind(i), expected.kind);
        assert_eq!(block.seqno(i, 77), if elided { 77 } else { expected.seqno });
        if i > 0 {
            assert_eq!(block.same_key(i - 1, i), entries[i - 1].key == expected.key);
        }
    }
    for target in targets {
        let rank = entries.partition_point(|entry| entry.key < *target);
        assert_eq!(block.find(target), rank, "find {target:x?}");
        for i in [0, entries.len() / 2, entries.len() - 1] {
            assert_eq!(block.key_eq(i, target), entries[i].key == *target);
        }
        let versions: Vec<_> = (rank..entries.len()).take_while(|&i| entries[i].key == *target).collect();
        let snapshots = versions.iter().flat_map(|&i| [entries[i].seqno - 1, entries[i].seqno]);
        for snapshot in snapshots.chain([0, 1 << 40]) {
            let probe = Probe { key: target, hash: 0, snapshot };
            let expected = if elided {
                versions.first().copied()
            } else {
                versions.iter().copied().find(|&i| entries[i].seqno <= snapshot)
            };
            assert_eq!(block.lookup(&probe, 0), expected, "lookup {target:x?} at {snapshot}");
            if let Some(i) = expected {
                let hit = block.hit(i, 0);
                assert_eq!((hit.kind, hit.value), (entries[i].kind, &entries[i].value[..]));
                assert_eq!(hit.pin_value(), entries[i].value);
            }
        }
    }
    assert!(block.ends_with(&entries[entries.len() - 1].key));
}

fn assert_blocks_of_all_kinds_equal_model(entries: &[Entry]) {
    let mut targets: Vec<_> = entries.iter().flat_map(|entry| neighbours(&entry.key)).collect();
    targets.extend([vec![], vec![0], vec![255; 300], vec![0; 300]]);
    targets.sort();
    targets.dedup();
    let newest = entries.iter().map(|entry| entry.seqno).max().unwrap();
    for fit in FITS {
        for elide_below in [0, newest - 1, newest] {
            let block = block_of(entries, fit, elide_below);
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
            entry.kind = Kind::from_u8(version as u8 % 4).unwrap();
            entries.push(entry);
        }
    }
    assert_blocks_of_all_kinds_equal_model(&sorted(entries));
}

#[test]
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
        let block = block_of(&entries, FitPolicy::LeastSquares, 1);
        for i in 0..n as usize {
            assert_eq!(block.value(i).as_ptr() as usize % 64, 0);
        }
        assert_equals_model(&block, &entries, true, &[vec![0; 8]]);
    }
}

#[test]
fn entries_of_8_and_64_bytes_cost_at_most_73_bytes_in_the_file() {
    let binding = Binding::new(DatabaseId(1), FileId(1));
    let entries: Vec<_> =
        (0..10_000u64).map(|i| entry((i * 0x9e37_79b9_7f4a).to_be_bytes(), i + 1, &[1; 64])).collect();
    for fit in [FitPolicy::None, FitPolicy::Pla { epsilon: 64 }, FitPolicy::LeastSquares] {
        let mut file = Vec::new();
        let blocks = payloads(&mut BlockBuilder::new(4096, fit, 10_000), &entries);
        for (payload, finished) in &blocks[..blocks.len() - 1] {
            let start = file.len();
            seal(payload, Compression::None, binding, start as u64, &mut file);
            assert!(file.len() - start <= 4096);
            assert_eq!(finished.entries, 56);
        }
        let bytes = file.len() as f64 / (56.0 * (blocks.len() - 1) as f64);
        assert!(bytes <= 73.0, "{bytes} bytes per entry");
    }
}

#[test]
fn a_block_holds_its_bytes_and_never_part_of_a_keys_versions() {
    let mut entries = Vec::new();
    for i in 0..400u64 {
        let versions = if i % 50 == 7 { 35 } else { 1 + i % 3 };
        let version = |seqno| entry(format!("key{:05}", i * 37), seqno, &vec![1; (i % 90) as usize]);
        entries.extend((0..versions).map(|version_of| version(1000 - version_of)));
    }
    let entries = sorted(entries);
    for fit in FITS {
        let mut rest = &entries[..];
        for (payload, finished) in payloads(&mut BlockBuilder::new(1024, fit, 0), &entries) {
            let (here, after) = rest.split_at(finished.entries);
            let one_key = here.iter().all(|entry| entry.key == here[here.len() - 1].key);
            let last_versions = here.iter().filter(|entry| entry.key == here[here.len() - 1].key).count();
            assert!(payload.len() + TRAILER_BYTES <= 1024 || one_key || last_versions > 1);
            assert!(!finished.continues);
            assert!(after.first().is_none_or(|next| next.key != here[here.len() - 1].key));
            let block = Block::from_payload(&payload).unwrap();
            let targets: Vec<_> = here.iter().map(|entry| entry.key.clone()).collect();
            assert_equals_model(&block, here, false, &targets);
            rest = after;
        }
        assert!(rest.is_empty());
    }
}

#[test]
fn a_key_with_too_many_versions_goes_on_in_the_next_block() {
    let mut entries: Vec<_> = (0..100).map(|version| entry("hot", 1000 - version, &[9; 100])).collect();
    entries.insert(0, entry("cold", 5, b"before"));
    entries.push(entry("later", 6, b"after"));
    let mut rest = &entries[..];
    let blocks = payloads(&mut BlockBuilder::new(512, FitPolicy::LeastSquares, 0), &entries);
    assert!(blocks.len() > 3);
    for (payload, finished) in &blocks {
        let (here, after) = rest.split_at(finished.entries);
        let block = Block::from_payload(payload).unwrap();
        let goes_on = after.first().is_some_and(|next| next.key == here[here.len() - 1].key);
        assert_eq!((block.continues(), finished.continues), (goes_on, goes_on));
        assert!(payload.len() < 6 * 512);
        assert!(!goes_on || block.ends_with(b"hot"));
        let oldest_here = here[here.len() - 1].seqno;
        let probe = Probe { key: b"hot", hash: 0, snapshot: oldest_here - 1 };
        assert!(!goes_on || block.lookup(&probe, 0).is_none(), "older versions are in the next block");
        rest = after;
    }
    assert!(rest.is_empty());
}

#[test]
fn a_corridor_ends_blocks_that_a_line_does_not_fit() {
    // Runs of neighbours with wide gaps: no line is within 2 ranks of more than a few runs.
    let keys: Vec<_> = (0..50u64).flat_map(|run| (0..8).map(move |i| ((run * run) << 40) + i)).collect();
    let entries = puts(keys.iter().map(|key| key.to_be_bytes()));
    let plain = payloads(&mut BlockBuilder::new(4096, FitPolicy::LeastSquares, 0), &entries).len();
    let tight = payloads(&mut BlockBuilder::new(4096, FitPolicy::Pla { epsilon: 2 }, 0), &entries);
    assert!(tight.len() > plain);
    for (payload, finished) in tight {
        assert!(finished.error.unwrap() <= 2);
        Block::from_payload(&payload).unwrap().check().unwrap();
    }
}

#[test]
fn a_corridor_is_walked_again_when_the_prefix_gets_shorter() {
    let mut keys: Vec<_> = (0..60u64).map(|i| [b"common prefix/a/", &i.to_be_bytes()[..]].concat()).collect();
    keys.extend((0..60u64).map(|i| [b"common prefix/b/", &(i * i).to_be_bytes()[..]].concat()));
    keys.extend((0..60u64).map(|i| format!("d{i:03}").into_bytes()));
    let entries = puts(keys);
    for epsilon in [1, 4, 64] {
        let mut rest = &entries[..];
        for (payload, finished) in
            payloads(&mut BlockBuilder::new(4096, FitPolicy::Pla { epsilon }, 0), &entries)
        {
            assert!(finished.error.unwrap() <= epsilon);
            let (here, after) = rest.split_at(finished.entries);
            let targets: Vec<_> = here.iter().flat_map(|entry| neighbours(&entry.key)).collect();
            assert_equals_model(&Block::from_payload(&payload).unwrap(), here, false, &targets);
            rest = after;
        }
    }
}

#[test]
fn a_line_that_cannot_be_used_is_ignored() {
    let entries = puts((0..56u64).map(|i| (i * i).to_be_bytes()));
    let (payload, _) =
        payloads(&mut BlockBuilder::new(1 << 20, FitPolicy::LeastSquares, 0), &entries).pop().unwrap();
    for (at, number) in [(0, f64::NAN), (0, -1.0), (0, f64::INFINITY), (8, f64::NAN), (8, f64::NEG_INFINITY)]
    {
        let mut damaged = payload.clone();
        let at = payload.len() - 40 + at;
        damaged[at..at + 8].copy_from_slice(&number.to_le_bytes());
        let block = Block::from_payload(&damaged).unwrap();
        assert!(block.line_ignored() && block.line_error().is_none());
        let targets: Vec<_> = entries.iter().flat_map(|entry| neighbours(&entry.key)).collect();
        assert_equals_model(&block, &entries, false, &targets);
    }
    // A line that is usable but wrong makes searches longer, not false; `check` tells.
    let mut wrong = payload.clone();
    let at = payload.len() - 40;
    wrong[at..at + 8].copy_from_slice(&1e300f64.to_le_bytes());
    let block = Block::from_payload(&wrong).unwrap();
    assert!(!block.line_ignored() && block.check().is_err());
    for (i, entry) in entries.iter().enumerate() {
        assert_eq!(block.find(&entry.key), i);
    }
}

fn place() -> (Binding, &'static Path) {
    (Binding::new(DatabaseId(3), FileId(4)), Path::new("000004.table"))
}

/// All ways from stored bytes to a block.
fn read_all_ways(stored: &[u8], offset: u64) -> Vec<crate::error::Result<Block>> {
    let (binding, file) = place();
    let mut allocation = BlockAllocation::new(stored.len());
    allocation.buffer_mut().copy_from_slice(stored);
    let opened = open(stored, binding, offset, file)
        .and_then(|payload| Block::from_payload(&payload).map_err(|error| error.in_file(file, offset)));
    vec![
        Block::from_stored(allocation, binding, offset, file),
        Block::copy_from_stored(stored, binding, offset, file),
        opened,
    ]
}

#[test]
fn a_stored_block_comes_back_whatever_its_compression() {
    let (binding, _) = place();
    let entries: Vec<_> = (0..200u64).map(|i| entry(format!("key{i:04}"), 1, b"value value value")).collect();
    let (payload, _) =
        payloads(&mut BlockBuilder::new(1 << 20, FitPolicy::LeastSquares, 1), &entries).pop().unwrap();
    let targets: Vec<_> = entries.iter().map(|entry| entry.key.clone()).collect();
    for compression in Compression::ALL.into_iter().filter(|compression| compression.available()) {
        let mut file = b"what lies before".to_vec();
        let offset = file.len();
        seal(&payload, compression, binding, offset as u64, &mut file);
        let stored = &file[offset..];
        assert_eq!(stored[stored.len() - TRAILER_BYTES], compression as u8);
        assert_eq!(stored.len() < payload.len() / 2, compression != Compression::None);
        for block in read_all_ways(stored, offset as u64) {
            assert_equals_model(&block.unwrap(), &entries, true, &targets);
        }
        // At another offset it is damaged.
        assert!(read_all_ways(stored, 0).iter().all(|block| matches!(block, Err(Error::Corrupt { .. }))));
    }
}

#[test]
fn what_compression_does_not_shrink_by_an_eighth_is_stored_as_it_is() {
    let (binding, _) = place();
    let mut noise = 1u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (noise >> 56) as u8
    })
    .take(4000)
    .collect();
    for compression in Compression::ALL.into_iter().filter(|compression| compression.available()) {
        let mut stored = Vec::new();
        seal(&noise, compression, binding, 0, &mut stored);
        assert_eq!(stored.len(), noise.len() + TRAILER_BYTES);
        assert_eq!(stored[noise.len()], Compression::None as u8);
        seal(b"", compression, binding, 0, &mut stored);
    }
}

#[test]
fn every_flipped_bit_of_a_stored_block_is_noticed() {
    let (binding, file) = place();
    let entries = puts((0..20u64).map(|i| i.to_be_bytes()));
    let (payload, _) =
        payloads(&mut BlockBuilder::new(1 << 20, FitPolicy::LeastSquares, 0), &entries).pop().unwrap();
    for compression in [Compression::None, Compression::Lz4] {
        let mut stored = Vec::new();
        seal(&payload, compression, binding, 4096, &mut stored);
        for bit in 0..stored.len() * 8 {
            stored[bit / 8] ^= 1 << (bit % 8);
            for block in read_all_ways(&stored, 4096) {
                match block {
                    Err(Error::Corrupt { file: named, offset, .. }) => {
                        assert_eq!((&*named, offset), (file, 4096));
                    }
                    other => panic!("bit {bit}: {other:?}"),
                }
            }
            stored[bit / 8] ^= 1 << (bit % 8);
        }
        for len in 0..stored.len() {
            assert!(read_all_ways(&stored[..len], 4096).iter().all(Result::is_err));
        }
    }
}

#[test]
fn a_cached_block_is_found_by_its_number_until_it_is_evicted() {
    let entries = puts([b"a", b"b"]);
    let block = block_of(&entries, FitPolicy::None, 0);
    let cache = Cache::new(3 * block.memory_bytes());
    let slots = BlockSlots::new(&cache, 10);
    for i in 0..3 {
        slots.insert(i, &block_of(&entries, FitPolicy::None, 0));
    }
    assert_eq!(cache.used(), 3 * block.memory_bytes());
    let guard = crossbeam_epoch::pin();
    let found = slots.get(0, &guard).unwrap();
    assert_eq!(found.find(b"b"), 1);
    let kept: Block = (*found).clone();
    slots.insert(3, &block);
    let cached: Vec<_> = (0..10).filter(|&i| slots.peek(i, &guard).is_some()).collect();
    assert_eq!(cached, [0, 2, 3]);
    drop((slots, guard));
    assert_eq!((cache.used(), kept.value(0), block.value(0)), (0, &[0; 7][..], &[0; 7][..]));
}

/// Calls everything that can be called on a block.
fn exercise(block: &Block, targets: &[Vec<u8>]) {
    let mut key = Vec::new();
    for i in 0..block.len() {
        block.key_into(i, &mut key);
        std::hint::black_box((block.key_len(i), block.key_head(i), block.key_eq(i, &key)));
        std::hint::black_box((block.value(i), block.kind(i), block.seqno(i, 0), block.hit(i, 0)));
        std::hint::black_box((block.same_key(0, i), block.find(&key), block.pin_value(i)));
        std::hint::black_box(block.lookup(&Probe { key: &key, hash: 0, snapshot: 9 }, 0));
    }
    for target in targets {
        assert!(block.find(target) <= block.len());
        std::hint::black_box(block.lookup(&Probe { key: target, hash: 0, snapshot: 1 << 30 }, 0));
        block.ends_with(target);
    }
    let _ = block.check();
    block.dump(&mut std::io::sink()).unwrap();
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
    let kind = prop_oneof![6 => Just(1u8), 1 => 0u8..4];
    let value = prop_oneof![
        3 => Just(vec![5; 12]),
        2 => prop::collection::vec(any::<u8>(), 8..40),
        1 => (8usize..70_000).prop_map(|len| vec![3; len]),
    ];
    let prefix = prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(any::<u8>(), 0..60)];
    let seqno = prop_oneof![3 => 1u64..200, 1 => 1u64..1 << 50];
    (prefix, prop::collection::vec((keys(), seqno, kind, value), 1..120)).prop_map(|(prefix, entries)| {
        sorted(
            entries
                .into_iter()
                .map(|(key, seqno, kind, value)| Entry {
                    key: [&prefix[..], &key].concat(),
                    seqno,
                    kind: Kind::from_u8(kind).unwrap(),
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
        fit in prop::sample::select(&FITS[..]),
        elide_below in prop_oneof![Just(0), 0u64..300, Just(u64::MAX)],
        block_bytes in prop_oneof![Just(256u32), 256u32..5000, Just(1 << 20)],
        more in prop::collection::vec(keys(), 0..20),
    ) {
        let mut rest = &entries[..];
        let mut targets: Vec<_> = entries.iter().flat_map(|entry| neighbours(&entry.key)).collect();
        targets.extend(more);
        for (payload, finished) in payloads(&mut BlockBuilder::new(block_bytes, fit, elide_below), &entries) {
            let (here, after) = rest.split_at(finished.entries);
            let elided = here.iter().all(|entry| entry.seqno <= elide_below);
            let block = Block::from_payload(&payload).unwrap();
            prop_assert_eq!(block.continues(), after.first().is_some_and(|next| next.key == here[here.len() - 1].key));
            assert_equals_model(&block, here, elided, &targets);
            rest = after;
        }
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn arbitrary_bytes_are_refused_or_safe(bytes in prop::collection::vec(any::<u8>(), 0..200), targets in prop::collection::vec(keys(), 4)) {
        if let Ok(block) = Block::from_payload(&bytes) {
            exercise(&block, &targets);
        }
    }

    #[test]
    fn bytes_with_a_plausible_footer_are_refused_or_safe(
        body in prop::collection::vec(any::<u8>(), 0..300),
        line: [u64; 2], base: u64, meta in 0u8..10, n in 0u32..30, record_bytes in 0u32..40, error: u16,
        prefix_len in 0u16..60, suffix_len in 0u16..30, flags in 0u16..2048,
        fitting: bool, targets in prop::collection::vec(keys(), 4),
    ) {
        let mut bytes = body;
        let mut n = n;
        if fitting && flags & 3 == 0 && record_bytes > 0 {
            let room = bytes.len().saturating_sub(usize::from(prefix_len + (flags >> 8)));
            n = (room / (record_bytes as usize + 8)) as u32;
            bytes.truncate(n as usize * (record_bytes as usize + 8) + usize::from(prefix_len));
        }
        bytes.extend(line.iter().flat_map(|bits| bits.to_le_bytes()));
        bytes.extend((base & u64::MAX >> 8 | u64::from(meta) << 56).to_le_bytes());
        bytes.extend(n.to_le_bytes());
        bytes.extend(record_bytes.to_le_bytes());
        for short in [error, prefix_len, suffix_len, flags] {
            bytes.extend(short.to_le_bytes());
        }
        if let Ok(block) = Block::from_payload(&bytes) {
            exercise(&block, &targets);
        }
    }

    #[test]
    fn mutated_blocks_are_refused_or_safe(
        entries in entries(),
        fit in prop::sample::select(&FITS[..]),
        mutations in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 1..8),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let (mut payload, _) = payloads(&mut BlockBuilder::new(2000, fit, 50), &entries).swap_remove(0);
        for (at, byte, in_footer) in mutations {
            let from = if in_footer { payload.len() - 40 } else { 0 };
            let at = from + at.index(payload.len() - from);
            payload[at] = byte;
        }
        if let Some(cut) = cut {
            payload.truncate(cut.index(payload.len()));
        }
        if let Ok(block) = Block::from_payload(&payload) {
            let targets: Vec<_> = entries.iter().map(|entry| entry.key.clone()).collect();
            exercise(&block, &targets);
        }
        // The same bytes, sealed anew: damage that the checksum cannot see.
        let (binding, _) = place();
        for compression in [Compression::None, Compression::Lz4] {
            let mut stored = Vec::new();
            seal(&payload, compression, binding, 7, &mut stored);
            let plain = Block::from_payload(&payload).is_ok();
            for block in read_all_ways(&stored, 7) {
                prop_assert_eq!(block.is_ok(), plain);
            }
        }
    }

    #[test]
    fn arbitrary_stored_bytes_with_a_good_checksum_are_refused_or_safe(mut body in prop::collection::vec(any::<u8>(), 0..200), codec in 0u8..4) {
        let (binding, _) = place();
        body.push(codec);
        let checksum = binding.checksum(0, &body);
        body.extend(checksum.to_le_bytes());
        for block in read_all_ways(&body, 0).into_iter().flatten() {
            exercise(&block, &[vec![], vec![1]]);
        }
    }
}

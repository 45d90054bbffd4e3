//! Tests of where `BlockBuilder` ends blocks, what they cost, and whether they get a line or a hash
//! index.
//!
//! Entries of 8 and 64 bytes cost at most 73 bytes in the file. A block keeps to its bytes, but for
//! the versions of its last key. They go on in the next block only if they are too many. A corridor
//! ends blocks that a line does not fit, and is walked again when the prefix gets shorter. Keys
//! that share their heads, or are text, get a hash index, others a line. A block ends at the widest
//! gap near its end and loses no entry. Reading ignores a stored line that is damaged beyond use.

use super::*;
use crate::{
    codec::Binding,
    ids::{DatabaseId, FileId},
};

#[test]
#[cfg_attr(miri, ignore = "minutes under Miri, and what it does others do too")]
fn entries_of_8_and_64_bytes_cost_at_most_73_bytes_in_the_file() {
    let binding = Binding::new(DatabaseId(1), FileId(1));
    let entries: Vec<_> =
        (0..10_000u64).map(|i| entry((i * 0x9e37_79b9_7f4a).to_be_bytes(), i + 1, &[1; 64])).collect();
    for last_mile in [LastMile::Halving, LastMile::Pla { epsilon: 64 }, LastMile::LeastSquares] {
        let mut file = Vec::new();
        let blocks = payloads(&mut BlockBuilder::new(4096, last_mile, 10_000), &entries);
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
    for i in 0..if cfg!(miri) { 9 } else { 400u64 } {
        let versions = if i % 50 == 7 { 35 } else { 1 + i % 3 };
        let version = |seqno| entry(format!("key{:05}", i * 37), seqno, &vec![1; (i % 90) as usize]);
        entries.extend((0..versions).map(|version_of| version(1000 - version_of)));
    }
    let entries = sorted(entries);
    for last_mile in LAST_MILES {
        let mut rest = &entries[..];
        for (payload, finished) in payloads(&mut BlockBuilder::new(1024, last_mile, 0), &entries) {
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
    let versions = if cfg!(miri) { 50 } else { 100 };
    let mut entries: Vec<_> = (0..versions).map(|version| entry("hot", 1000 - version, &[9; 100])).collect();
    entries.insert(0, entry("cold", 5, b"before"));
    entries.push(entry("later", 6, b"after"));
    let mut rest = &entries[..];
    let blocks = payloads(&mut BlockBuilder::new(512, LastMile::LeastSquares, 0), &entries);
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
#[cfg_attr(miri, ignore = "minutes under Miri, and what it does others do too")]
fn a_corridor_ends_blocks_that_a_line_does_not_fit() {
    // Runs of neighbours with wide gaps: no line is within 2 ranks of more than a few runs.
    let keys: Vec<_> = (0..50u64).flat_map(|run| (0..8).map(move |i| ((run * run) << 40) + i)).collect();
    let entries = puts(keys.iter().map(|key| key.to_be_bytes()));
    let plain = payloads(&mut BlockBuilder::new(4096, LastMile::LeastSquares, 0), &entries).len();
    let tight = payloads(&mut BlockBuilder::new(4096, LastMile::Pla { epsilon: 2 }, 0), &entries);
    assert!(tight.len() > plain);
    for (payload, finished) in tight {
        assert!(finished.error.unwrap() <= 2);
        Block::from_payload(&payload).unwrap().check().unwrap();
    }
}

#[test]
#[cfg_attr(miri, ignore = "minutes under Miri, and what it does others do too")]
fn a_corridor_is_walked_again_when_the_prefix_gets_shorter() {
    let mut keys: Vec<_> = (0..60u64).map(|i| [b"common prefix/a/", &i.to_be_bytes()[..]].concat()).collect();
    keys.extend((0..60u64).map(|i| [b"common prefix/b/", &(i * i).to_be_bytes()[..]].concat()));
    keys.extend((0..60u64).map(|i| format!("d{i:03}").into_bytes()));
    let entries = puts(keys);
    for epsilon in [1, 4, 64] {
        let mut rest = &entries[..];
        for (payload, finished) in
            payloads(&mut BlockBuilder::new(4096, LastMile::Pla { epsilon }, 0), &entries)
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
fn keys_that_share_their_heads_are_named_by_a_hash_index_and_others_lie_on_a_line() {
    let text = |i: usize, shared: &str| format!("{:02}{shared}/{i:03}", i / 10);
    let ways = [("", false), ("-a-longer-way/to-it", true)];
    for (shared, ties) in ways {
        let entries = puts((0..50).map(|i| text(i, shared)));
        let block = block_of(&entries, LastMile::LeastSquaresOrHash, 0);
        assert_eq!((block.has_buckets(), block.line_error().is_some()), (ties, !ties), "{shared}");
        let targets: Vec<_> = entries.iter().flat_map(|entry| neighbours(&entry.key)).collect();
        assert_equals_model(&block, &entries, false, &targets);
    }
    // Versions of one key are no ties; so many keys that ranks are no bytes have no hash index.
    let versions = sorted((0..50).map(|seqno| entry("a key longer than a head", seqno + 1, b"")).collect());
    assert!(!block_of(&versions, LastMile::LeastSquaresOrHash, 0).has_buckets());
    let many = puts((0..300).map(|i| text(i, ways[1].0)));
    assert!(!block_of(&many, LastMile::LeastSquaresOrHash, 0).has_buckets());
}

/// Symptom: words, of which few in a block share a head, were found slower than by an index whose
/// blocks are all hashed. Cause: eight such keys were asked for. Cure: one is enough.
#[test]
fn one_key_with_the_head_of_the_key_before_is_enough_for_a_hash_index() {
    for (ties, is_hashed) in [(0, false), (1, true), (7, true)] {
        let key = |i: usize, twin: &str| format!("{i:02}, a word{twin}");
        let keys = (0..40).map(|i| key(i, "")).chain((0..ties).map(|i| key(5 * i, "s")));
        let entries = puts(keys);
        let block = block_of(&entries, LastMile::LeastSquaresOrHash, 0);
        assert_eq!((block.has_buckets(), block.line_error().is_some()), (is_hashed, !is_hashed), "{ties}");
        let targets: Vec<_> = entries.iter().flat_map(|entry| neighbours(&entry.key)).collect();
        assert_equals_model(&block, &entries, false, &targets);
    }
}

/// Symptom: words and paths were found slower than by an index whose blocks are all hashed. Cause:
/// blocks without a tie had a line, which tells little of text. Cure: text is hashed in every
/// block.
#[test]
fn keys_of_several_lengths_that_go_on_behind_their_heads_are_hashed_without_a_tie() {
    let word = |i: usize, behind: &str| format!("{i:02}, a word{behind}");
    let even = puts((0..40).map(|i| word(i, "")));
    let text = puts((0..40).map(|i| word(i, if i % 3 == 0 { "s" } else { "" })));
    let short = puts((0..40).map(|i| format!("{i:02}{}", if i % 3 == 0 { "s" } else { "" })));
    for (entries, is_hashed) in [(even, false), (text, true), (short, false)] {
        let block = block_of(&entries, LastMile::LeastSquaresOrHash, 0);
        assert_eq!((block.has_buckets(), block.line_error().is_some()), (is_hashed, !is_hashed));
        let targets: Vec<_> = entries.iter().flat_map(|entry| neighbours(&entry.key)).collect();
        assert_equals_model(&block, &entries, false, &targets);
    }
}

/// The blocks of a builder that ends them at gaps, each with how many entries it refused nothing
/// before.
fn at_gaps(block_bytes: u32, entries: &[Entry]) -> Vec<(Vec<u8>, usize, usize)> {
    let mut builder = BlockBuilder::new(block_bytes, LastMile::LeastSquaresOrHash, 0);
    let mut blocks = Vec::new();
    let mut finish = |builder: &mut BlockBuilder, full: usize| {
        let (mut payload, expected) = (Vec::new(), builder.encoded_len());
        let finished = builder.finish(NOTE, &mut payload);
        assert_eq!(payload.len(), expected + NOTE.len());
        blocks.push((payload, finished.entries, full));
        builder.take_up();
    };
    for Entry { key, seqno, kind, value } in entries {
        while !builder.try_add(key, *seqno, *kind, value) {
            let full = builder.len();
            let next = builder.step_back(key).to_vec();
            assert!(builder.last_key() <= &next[..] && next <= *key);
            finish(&mut builder, full);
        }
        assert_eq!(builder.last_key(), key);
    }
    let full = builder.len();
    finish(&mut builder, full);
    blocks
}

#[test]
fn a_block_ends_at_the_widest_gap_near_its_end_and_loses_no_entry() {
    let mut state = 1u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let count = if cfg!(miri) { 60 } else { 4000 };
    for shape in 0..4 {
        let mut at = 0u64;
        let mut entries = Vec::new();
        for i in 0..count {
            // Even keys, dense runs, gaps of all sizes, keys with versions and values of all sizes.
            at += match shape {
                0 => 1 << 20,
                1 if random(13) > 0 => 1,
                _ => 1 + (1 << random(40)),
            };
            let versions = if shape == 3 { 1 + i % 3 } else { 1 };
            let value = vec![7; if shape == 3 { random(90) as usize } else { 24 }];
            entries.extend((0..versions).map(|version| entry(at.to_be_bytes(), 9 - version, &value)));
        }
        let (mut rest, mut before_gaps) = (&entries[..], 0);
        let blocks = at_gaps(1024, &entries);
        for (payload, here, full) in &blocks {
            let (here, after) = rest.split_at(*here);
            // Versions of the last key may take a block further.
            assert!(shape == 3 || payload.len() + TRAILER_BYTES <= 1024, "{shape}: {} bytes", payload.len());
            assert!(full - here.len() <= full / 10, "{shape}: {} of {full}", here.len());
            assert!(after.first().is_none_or(|next| next.key != here[here.len() - 1].key));
            let block = Block::from_payload(payload).unwrap();
            assert_equals_model(
                &block,
                here,
                false,
                &[here[0].key.clone(), here[here.len() - 1].key.clone()],
            );
            before_gaps += usize::from(*full > here.len());
            rest = after;
        }
        assert!(rest.is_empty());
        // Miri's few blocks may all be full.
        assert!(
            cfg!(miri) || (shape == 0) == (before_gaps == 0),
            "{shape}: {before_gaps} of {} blocks",
            blocks.len()
        );
    }
}

#[test]
#[cfg_attr(miri, ignore = "minutes under Miri, and what it does others do too")]
fn a_block_that_gives_up_entries_has_room_for_the_hash_index_that_it_gets_by_that() {
    // Wide gaps here and there, and about as many entries as ranks of a byte tell.
    let key = |i: usize| format!("{:03}/shared/way/{:02}", i / 10 * 3, i % 10);
    let entries = sorted((0..1500).map(|i| entry(key(i), 1, &[7; 2][..i % 2])).collect());
    let mut got_one = 0;
    for block_bytes in (4600..5400).step_by(7) {
        for (payload, here, full) in at_gaps(block_bytes, &entries) {
            let bytes = payload.len() - NOTE.len() + TRAILER_BYTES;
            assert!(bytes <= block_bytes as usize, "{here} of {full} entries: {bytes} of {block_bytes}");
            let has_buckets = Block::from_payload(&payload).unwrap().has_buckets();
            got_one += usize::from(has_buckets && full > 255);
        }
    }
    assert!(got_one > 0);
}

#[test]
fn a_line_that_cannot_be_used_is_ignored() {
    let entries = puts((0..56u64).map(|i| (i * i).to_be_bytes()));
    let (payload, _) =
        payloads(&mut BlockBuilder::new(1 << 20, LastMile::LeastSquares, 0), &entries).pop().unwrap();
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

/// Symptom: a value of 8 MiB took 24 MiB on its way into a table. Cause: the room for its block
/// left out the note, so the footer made the buffer double. Cure: the note is counted.
#[test]
fn a_block_of_one_large_value_makes_no_room_for_two() {
    let mut builder = BlockBuilder::new(4096, LastMile::Halving, 0);
    let large = entry("key", 7, &[3; 100_000]);
    assert!(builder.try_add(&large.key, large.seqno, large.kind, &large.value));
    let mut payload = Vec::new();
    builder.finish(NOTE, &mut payload);
    assert!(payload.capacity() < payload.len() + 4096, "{} for {}", payload.capacity(), payload.len());
}

//! Tests of blocks made of bytes that no builder wrote, behind a checksum that matches: refused, or
//! safe to use.
//!
//! Arbitrary bytes, bytes with a plausible footer, and mutated blocks never panic, and what is
//! found for a key has that key. Buckets name every key; buckets that lie change no answer. A
//! regression test: a head out of order among equal ones leads to no other key.

use super::{
    stored::{place, read_all_ways},
    *,
};

/// What is found for a key has that key, whatever the block's bytes.
fn finds_that_key(block: &Block, key: &[u8], snapshot: Seqno) {
    for hash in [hash(key), 0] {
        if let Some(found) = block.lookup(&Probe { key, hash, snapshot }, 0) {
            assert!(block.key_eq(found, key), "entry {found} of {block:?} does not have the key {key:x?}");
        }
    }
}

/// Calls everything that can be called on a block.
fn exercise(block: &Block, targets: &[Vec<u8>]) {
    let mut key = Vec::new();
    for i in 0..block.len() {
        block.key_into(i, &mut key);
        std::hint::black_box((block.key_len(i), block.key_eq(i, &key)));
        std::hint::black_box((block.value(i), block.kind(i), block.seqno(i, 0), block.hit(i, 0)));
        std::hint::black_box((block.same_key(0, i), block.find(&key), block.pin_value(i)));
        finds_that_key(block, &key, 9);
    }
    for target in targets {
        assert!(block.find(target) <= block.len());
        finds_that_key(block, target, 1 << 30);
        block.ends_with(target);
    }
    let _ = block.check();
    block.dump(&mut std::io::sink()).unwrap();
}

proptest! {
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
            bytes.truncate(n as usize * (record_bytes as usize + 8) + usize::from(prefix_len + (flags >> 8)));
        }
        // Few numbers of buckets are right.
        let error = if flags & 1 << 6 == 0 && fitting { 0 } else { error };
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
        last_mile in prop::sample::select(&LAST_MILES[..]),
        mutations in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 1..8),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let (mut payload, _) = payloads(&mut BlockBuilder::new(2000, last_mile, 50), &entries).swap_remove(0);
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
    fn buckets_name_every_key_and_a_block_without_one_for_a_key_is_damaged(entries in entries()) {
        let (payload, finished) = payloads(&mut BlockBuilder::new(2000, LastMile::Hash, 50), &entries).swap_remove(0);
        let block = Block::from_payload(&payload).unwrap();
        let entries = &entries[..finished.entries];
        for (i, Entry { key, .. }) in entries.iter().enumerate() {
            let first = entries.iter().position(|entry| entry.key == *key);
            prop_assert_eq!(block.named_by_bucket(&Probe { key, hash: hash(key), snapshot: 0 }), first, "entry {}", i);
        }
        let (at, len) = (block.geometry().records_at as usize, block.buckets().len());
        let mut damaged = payload.clone();
        let named = damaged[at - len..at].iter_mut().find(|bucket| **bucket != 255).unwrap();
        *named = 255;
        prop_assert_eq!(Block::from_payload(&damaged).unwrap().check().unwrap_err().what, "a bucket of its own for each key");
        let footer = damaged.len() - 40;
        damaged[footer + 32] ^= 1;
        prop_assert!(Block::from_payload(&damaged).is_err());
    }

    #[test]
    fn buckets_that_lie_change_no_answer(entries in entries(), lies in prop::collection::vec(any::<u8>(), 1..400)) {
        let (payload, finished) = payloads(&mut BlockBuilder::new(2000, LastMile::Hash, 50), &entries).swap_remove(0);
        let honest = Block::from_payload(&payload).unwrap();
        let mut forged = payload.clone();
        let (at, len) = (honest.geometry().records_at as usize, honest.buckets().len());
        prop_assert!(len > 0, "a block of few entries has buckets");
        let buckets = at - len..at;
        forged[buckets].iter_mut().zip(lies.iter().cycle()).for_each(|(bucket, lie)| *bucket = *lie);
        let forged = Block::from_payload(&forged).unwrap();
        for Entry { key, seqno, .. } in &entries[..finished.entries] {
            for snapshot in [*seqno, seqno - 1, u64::MAX] {
                let probe = Probe { key, hash: hash(key), snapshot };
                prop_assert_eq!(forged.lookup(&probe, 0), honest.lookup(&probe, 0));
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

/// Symptom: a lookup in a block with an unsorted head, behind a good checksum, gave the value of
/// another key. Cause: the end of the entries with equal heads is found by halving, which steps
/// over a head that is out of order; among them only lengths and tails were compared. Cure: what is
/// found must have the head too.
#[test]
fn a_head_out_of_order_among_equal_ones_leads_to_no_other_key() {
    let keys: Vec<Vec<u8>> =
        [b"a".to_vec()].into_iter().chain((0..9).map(|i| format!("same head{i}").into_bytes())).collect();
    let entries: Vec<_> = keys.iter().map(|key| entry(key, 1, b"value")).collect();
    let (payload, _) = payloads(&mut BlockBuilder::new(2000, LAST_MILES[0], 50), &entries).swap_remove(0);
    for damaged in 1..keys.len() {
        let mut payload = payload.clone();
        payload[8 * damaged] ^= 1;
        let block = Block::from_payload(&payload).unwrap();
        keys.iter().for_each(|key| finds_that_key(&block, key, 9));
    }
}

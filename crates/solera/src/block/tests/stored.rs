//! Tests of blocks on their way to a file (`seal`), back (`from_stored`, `open`), and into the
//! cache (`BlockSlots`).
//!
//! A stored block comes back whatever its compression. What compression does not shrink by an
//! eighth is stored as it is. Every flipped bit is noticed, and names file and offset. A cached
//! block is found by its number until it is evicted, and lives as long as a reference to it is
//! held.

use super::*;
use crate::{
    cache::Cache,
    codec::Binding,
    error::{Error, Result},
    ids::{DatabaseId, FileId},
};
use std::path::Path;

pub(super) fn place() -> (Binding, &'static Path) {
    (Binding::new(DatabaseId(3), FileId(4)), Path::new("000004.table"))
}

/// All ways from stored bytes to a block.
pub(super) fn read_all_ways(stored: &[u8], offset: u64) -> Vec<Result<Block>> {
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
    let count = if cfg!(miri) { 20 } else { 200u64 };
    let entries: Vec<_> = (0..count).map(|i| entry(format!("key{i:04}"), 1, b"value value value")).collect();
    let (payload, _) =
        payloads(&mut BlockBuilder::new(1 << 20, LastMile::LeastSquares, 1), &entries).pop().unwrap();
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
#[cfg_attr(miri, ignore = "minutes under Miri, and what it does others do too")]
fn every_flipped_bit_of_a_stored_block_is_noticed() {
    let (binding, file) = place();
    let entries = puts((0..20u64).map(|i| i.to_be_bytes()));
    let (payload, _) =
        payloads(&mut BlockBuilder::new(1 << 20, LastMile::LeastSquares, 0), &entries).pop().unwrap();
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
    let block = block_of(&entries, LastMile::Halving, 0);
    let cache = Cache::new(3 * block.memory_bytes());
    let slots = BlockSlots::new(&cache, 10);
    for i in 0..3 {
        slots.insert_where_room(i, &block_of(&entries, LastMile::Halving, 0));
    }
    assert_eq!(cache.used(), 3 * block.memory_bytes());
    let guard = crossbeam_epoch::pin();
    let found = slots.get(0, &guard).unwrap();
    assert_eq!(found.find(b"b"), 1);
    let kept: Block = (*found).clone();
    // Other blocks have to go for it, so it is cached when it comes the second time.
    for expected in [&[0, 1, 2][..], &[0, 2, 3]] {
        let cached = || (0..10).filter(|&i| slots.peek(i, &guard).is_some());
        slots.insert_where_room(3, &block);
        assert!(cached().eq(expected.iter().copied()));
    }
    drop((slots, guard));
    assert_eq!((cache.used(), kept.value(0), block.value(0)), (0, &[0; 7][..], &[0; 7][..]));
}

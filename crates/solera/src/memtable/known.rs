//! A filter of a memtable's keys: `Known`, and `Room`, its writer's count.
//!
//! Most keys that are looked up in a full database are not in its memtable. The way down the tree
//! that tells so waits for memory three or four times. The filter waits once, or not at all.
//!
//! It is a blocked Bloom filter (Putze, Sanders, Singler: "Cache-, Hash- and Space-Efficient Bloom
//! Filters", 2007) whose blocks are words of 64 bits, four of which a key sets. How many keys will
//! come is not known. So it has layers, each for eight times as many keys as the one before
//! (Almeida and others: "Scalable Bloom Filters", 2007), and only the last one takes more. A small
//! memtable has none, nor has one in which no lookup was in vain: a load pays nothing.
//! What must hold: a key that was added before a reader's snapshot may be there, says `may_hold`.
//! There is one writer. Layers lie in the memtable's arena and go with it. No scheduler knows of
//! the words: a reader asks for a key only once its entry is visible, and then its bits are set.
//! Callers: `memtable::tree` makes layers and adds keys; `memtable::mod` asks.

use crate::{
    prefetch::prefetch,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering},
};
use std::{ptr::NonNull, sync::atomic::AtomicU64};

/// A memtable of fewer keys has no filter: its tree is in the processor's caches.
pub(super) const KEYS_MIN: usize = 1 << 10;
/// With more keys it is too late for a first layer: a writer would wait while all are added.
const FIRST_KEYS_MAX: usize = 16 << 10;
/// A layer has room for so many times the keys that are in the memtable when it is made.
const GROWTH: usize = 8;
/// Bits of a layer for each key that it has room for. One in forty absent keys passes a full layer.
const BITS_PER_KEY: usize = 12;
/// Room of the last layer is for 2^28 keys. If more come, more absent keys pass.
const LAYERS: usize = 6;

/// Which keys may be in a memtable.
#[derive(Default)]
pub(super) struct Known {
    layers: [Layer; LAYERS],
    /// Whether a lookup went down the tree in vain.
    wanted: AtomicBool,
}

/// Words of bits. Null words: not made yet.
#[derive(Default)]
struct Layer {
    words: AtomicPtr<AtomicU64>,
    len: AtomicUsize,
}

/// How many keys the memtable's writer has added, and when the next layer is due.
#[derive(Default)]
pub(super) struct Room {
    /// Layers that were made.
    made: usize,
    /// Keys that fit before the next layer.
    left: usize,
}

impl Known {
    /// A lookup went down the tree in vain.
    #[inline]
    pub(super) fn want(&self) {
        if !self.wanted.load(Ordering::Relaxed) {
            self.wanted.store(true, Ordering::Relaxed);
        }
    }

    /// The words of the layer that is due now that there are so many keys; `None`: none is.
    #[inline]
    pub(super) fn words_due(&self, room: &Room, keys: usize) -> Option<usize> {
        let is_due = room.left == 0
            && match room.made {
                0 => (KEYS_MIN..=FIRST_KEYS_MAX).contains(&keys) && self.wanted.load(Ordering::Relaxed),
                made => made < LAYERS,
            };
        is_due.then(|| (keys * GROWTH * BITS_PER_KEY).div_ceil(64))
    }

    /// Whether there is any layer: else no key need be added.
    #[inline]
    pub(super) fn is_there(&self) -> bool {
        !self.layers[0].words.load(Ordering::Acquire).is_null()
    }

    /// Whether the key of this hash may be in the memtable.
    #[inline]
    pub(super) fn may_hold(&self, hash: u64) -> bool {
        for (i, layer) in self.layers.iter().enumerate() {
            let Some(word) = layer.word(hash) else { return i == 0 };
            let bits = bits_of(hash);
            if word.load(Ordering::Relaxed) & bits == bits {
                return true;
            }
        }
        false
    }

    /// Asks for the place of a key that `add` will name.
    #[inline]
    pub(super) fn expect(&self, room: &Room, hash: u64) {
        if let Some(word) = room.made.checked_sub(1).and_then(|last| self.layers[last].word(hash)) {
            prefetch(std::ptr::from_ref(word).cast());
        }
    }

    /// Adds the key of this hash to the newest layer. Its entry must become visible afterwards.
    #[inline]
    pub(super) fn add(&self, room: &mut Room, hash: u64) {
        let Some(word) = room.made.checked_sub(1).and_then(|last| self.layers[last].word(hash)) else {
            return;
        };
        // There is one writer, so a store does for an addition.
        word.store(word.load(Ordering::Relaxed) | bits_of(hash), Ordering::Relaxed);
        room.left = room.left.saturating_sub(1);
    }

    /// Puts a layer of `len` words in force, which takes the keys from now on. The first one must
    /// get all keys that are there: `add` names them before the layer is asked.
    ///
    /// # Safety
    /// From `start` on lie `len` zeros, for nothing else, as long as this filter.
    pub(super) unsafe fn push(
        &self,
        room: &mut Room,
        start: NonNull<u64>,
        len: usize,
        present: impl Iterator<Item = u64>,
    ) {
        let layer = &self.layers[room.made];
        let words = start.cast::<AtomicU64>();
        for hash in present {
            // SAFETY: the place is within the layer.
            let word = unsafe { words.add(place(hash, len)).as_ref() };
            word.store(word.load(Ordering::Relaxed) | bits_of(hash), Ordering::Relaxed);
        }
        layer.len.store(len, Ordering::Relaxed);
        layer.words.store(words.as_ptr(), Ordering::Release);
        room.made += 1;
        room.left = len * 64 / BITS_PER_KEY;
    }
}

impl Layer {
    /// The word of a hash; `None` if the layer is not made yet.
    #[inline]
    fn word(&self, hash: u64) -> Option<&AtomicU64> {
        let words = NonNull::new(self.words.load(Ordering::Acquire))?;
        // SAFETY: by the contract of `push` there are `len` words, which live as long as `self`;
        // `len` was stored before them.
        Some(unsafe { words.add(place(hash, self.len.load(Ordering::Relaxed))).as_ref() })
    }
}

/// Which of `len` words a hash has.
#[inline]
fn place(hash: u64, len: usize) -> usize {
    ((u128::from(hash) * len as u128) >> 64) as usize
}

/// Its bits there: four numbers of six bits from the hash's low end.
#[inline]
fn bits_of(hash: u64) -> u64 {
    (1 << (hash & 63)) | (1 << (hash >> 6 & 63)) | (1 << (hash >> 12 & 63)) | (1 << (hash >> 18 & 63))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(i: u64) -> u64 {
        crate::key::hash(&i.to_be_bytes())
    }

    #[test]
    fn what_was_added_may_be_there_and_few_others_are_thought_to_be() {
        let (known, mut room) = (Known::default(), Room::default());
        known.want();
        let mut layers = Vec::new();
        let keys = if cfg!(miri) { 3_000 } else { 100_000 };
        for i in 0..keys {
            if let Some(len) = known.words_due(&room, i as usize) {
                layers.push(vec![0u64; len]);
                let start = NonNull::new(layers.last_mut().unwrap().as_mut_ptr()).unwrap();
                let present = (0..if layers.len() == 1 { i } else { 0 }).map(hash);
                // SAFETY: the vector has as many zeros, and is neither moved nor read.
                unsafe { known.push(&mut room, start, len, present) };
            }
            assert_eq!(known.is_there(), i >= KEYS_MIN as u64);
            known.add(&mut room, hash(i));
        }
        assert!((0..keys).all(|i| known.may_hold(hash(i))));
        let passed = (keys..2 * keys).filter(|&i| known.may_hold(hash(i))).count() as u64;
        assert!(passed < keys / 15, "{passed} of {keys}");
        assert!(layers.len() <= 3, "{}", layers.len());
    }

    #[test]
    fn only_lookups_in_vain_among_some_keys_make_a_first_layer() {
        let (known, room) = (Known::default(), Room::default());
        assert!(known.may_hold(hash(7)));
        assert_eq!(known.words_due(&room, KEYS_MIN), None);
        known.want();
        assert_eq!(known.words_due(&room, KEYS_MIN - 1), None);
        assert!(known.words_due(&room, KEYS_MIN).is_some());
        assert_eq!(known.words_due(&room, FIRST_KEYS_MAX + 1), None);
    }
}

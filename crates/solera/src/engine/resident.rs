//! Separated values in the block cache: `CachedValues`, the `Resident` of value files.
//!
//! Through it value files keep what `ValueFiles::read` read, in the one budget of blocks.
//!
//! What must hold: its places are made for the first value that is kept, so that a database that
//! never reads one has none.
//!
//! Caller: `files`, which gives it to the value files.

use crate::{
    cache::{ApartSlots, Cache, Whereabouts},
    key::hash,
    pin::Slice,
    values::{Pointer, Resident},
};
use std::sync::{Arc, OnceLock};

/// Values in the cache.
pub(super) struct CachedValues {
    cache: Arc<Cache>,
    slots: OnceLock<ApartSlots>,
}

impl CachedValues {
    /// None yet.
    pub(super) fn new(cache: Arc<Cache>) -> CachedValues {
        CachedValues { cache, slots: OnceLock::new() }
    }
}

fn whereabouts(pointer: &Pointer, key: &[u8]) -> Whereabouts {
    Whereabouts { file: pointer.file.0, offset: pointer.offset, len: pointer.len, key: hash(key) }
}

impl Resident for CachedValues {
    fn find(&self, pointer: &Pointer, key: &[u8]) -> Option<Slice> {
        self.slots.get()?.get(&whereabouts(pointer, key))
    }

    fn keep(&self, pointer: &Pointer, key: &[u8], value: &[u8]) {
        self.slots.get_or_init(|| ApartSlots::new(&self.cache)).keep(whereabouts(pointer, key), value);
    }
}

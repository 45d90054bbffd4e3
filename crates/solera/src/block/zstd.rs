//! Zstandard for blocks: `compress` and `decompress`, with contexts that each thread keeps.
//!
//! Making a context costs more than decompressing a block with it. So a thread that meets such
//! blocks keeps about 160 KiB for reading, and about as much for writing blocks of 4 KiB. The level
//! is 1, since every level of the tree writes blocks again.
//!
//! What must hold: `decompress` writes no more than it is given room for. A thread's end frees its
//! contexts.
//!
//! Caller: `block::seal`, in builds with the crate feature.

use std::cell::RefCell;
use zstd::{
    bulk::{Compressor, Decompressor},
    zstd_safe::compress_bound,
};

/// Speed over density: what is compressed here is rewritten at every level of the tree.
const LEVEL: i32 = 1;

thread_local! {
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Appends the compressed `payload` to `out`. Returns false, having appended anything, if that
/// fails.
pub(super) fn compress(payload: &[u8], out: &mut Vec<u8>) -> bool {
    let start = out.len();
    out.resize(start + compress_bound(payload.len()), 0);
    let compressed = COMPRESSOR.with_borrow_mut(|kept| {
        let compressor = kept_or_new(kept, || Compressor::new(LEVEL))?;
        compressor.compress_to_buffer(payload, &mut out[start..]).ok()
    });
    compressed.inspect(|len| out.truncate(start + len)).is_some()
}

/// Decompresses into `payload`: how many bytes that were, or `None` if these are none or too many
/// for it.
pub(super) fn decompress(compressed: &[u8], payload: &mut [u8]) -> Option<usize> {
    DECOMPRESSOR.with_borrow_mut(|kept| {
        let decompressor = kept_or_new(kept, Decompressor::new)?;
        decompressor.decompress_to_buffer(compressed, payload).ok()
    })
}

fn kept_or_new<T>(kept: &mut Option<T>, new: impl FnOnce() -> std::io::Result<T>) -> Option<&mut T> {
    if kept.is_none() {
        *kept = new().ok();
    }
    kept.as_mut()
}

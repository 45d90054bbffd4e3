//! What a block says about the keys that it answers for: `Fences`, a bound on each side of a data
//! block.
//!
//! The lower fence lies right above the last key of the block before; the upper one is the
//! separator. The block's note keeps them as lengths, since a bound is nearly a prefix of the key
//! next to it (`Fences::encode` has the bytes). Two neighbours both answer for the gap between
//! them, which holds no key.
//!
//! What must hold: the first block has no lower fence, the last no upper one. A key that a block
//! does not hold, and that its fences admit, is in no other block.
//! Callers: `table::writer` makes fences (`lower_fence`, `between`); `table::lookup` asks them for
//! a key before the first or behind the last; `table::verify` checks them.

use crate::{
    block::Block,
    codec::{DecodeError, Decoder, put_varint},
    key::common_prefix_len,
};

/// A bound beside a key: so much of the key, and one byte more.
type Bound = (usize, u8);

/// The bounds around a block.
///
/// The note, of the lower fence: how much of the block's first key begins it, and one more
/// (varint); then the byte that ends it. For the first block it is 0 alone. Then, unless the block
/// is the last one, of the upper fence: how much of the block's last key begins it (varint); then
/// the byte that ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fences {
    lower: Option<Bound>,
    upper: Option<Bound>,
}

/// The lower fence of a block that begins with `first`, behind one that ends with `last`: above
/// `last`, and above `first` only where that is the same key. The least that has one byte of its
/// own behind what the keys share.
pub(super) fn lower_fence(last: &[u8], first: &[u8]) -> Bound {
    let shared = common_prefix_len(last, first);
    // A key that the other goes on from is below it, with any byte.
    (shared, last.get(shared).map_or(0, |&byte| byte + 1))
}

impl Fences {
    /// The fences of a block with this [`lower_fence`] and this separator behind it; `None` on the
    /// sides where no block follows.
    pub(super) fn between(lower: Option<Bound>, upper: Option<Bound>) -> Fences {
        Fences { lower, upper }
    }

    /// Appends the note.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self.lower {
            None => put_varint(out, 0),
            Some((shared, last)) => {
                put_varint(out, shared as u64 + 1);
                out.push(last);
            }
        }
        if let Some((shared, last)) = self.upper {
            put_varint(out, shared as u64);
            out.push(last);
        }
    }

    /// The fences of a block, by its note.
    pub(super) fn of(block: &Block) -> Result<Fences, DecodeError> {
        let mut decoder = Decoder::new(block.note());
        let lower = match decoder.varint_up_to(block.key_len(0) as u64 + 1, "the length of a fence")? {
            0 => None,
            more => Some((more as usize - 1, decoder.u8("the last byte of a fence")?)),
        };
        let upper = match decoder.remaining() {
            0 => None,
            _ => {
                let last = block.key_len(block.len() - 1) as u64;
                let shared = decoder.varint_up_to(last, "the length of a fence")? as usize;
                Some((shared, decoder.u8("the last byte of a fence")?))
            }
        };
        decoder.finish("the end of a note")?;
        Ok(Fences { lower, upper })
    }

    /// Appends the lower fence of `block`, whose fences these are; false if it is the first block.
    pub(super) fn lower(&self, block: &Block, out: &mut Vec<u8>) -> bool {
        let Some((shared, byte)) = self.lower else { return false };
        let mut first = Vec::new();
        block.key_into(0, &mut first);
        out.extend_from_slice(&first[..shared]);
        out.push(byte);
        true
    }

    /// Appends the upper fence of `block`, whose fences these are; false if it is the last block.
    pub(super) fn upper(&self, block: &Block, out: &mut Vec<u8>) -> bool {
        let Some((shared, byte)) = self.upper else { return false };
        let mut last = Vec::new();
        block.key_into(block.len() - 1, &mut last);
        out.extend_from_slice(&last[..shared]);
        out.push(byte);
        true
    }

    /// Whether `key`, which is not above the first key of `block`, is not below the lower fence.
    pub(super) fn admit_before_first(&self, block: &Block, key: &[u8]) -> bool {
        let Some((shared, byte)) = self.lower else { return true };
        // They agree on what the fence has of the first key, or the key is the smaller one already
        // within it.
        block.common_prefix_len(0, key) >= shared && key.get(shared).is_some_and(|&next| next >= byte)
    }

    /// Whether `key`, which is above the last key of `block`, is below the upper fence.
    pub(super) fn admit_after_last(&self, block: &Block, key: &[u8]) -> bool {
        let Some((shared, byte)) = self.upper else { return true };
        // They agree on what the fence has of the last key, or the key is the larger one already
        // within it.
        block.common_prefix_len(block.len() - 1, key) >= shared
            && key.get(shared).is_none_or(|&next| next < byte)
    }
}

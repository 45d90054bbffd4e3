//! What a block says about the keys it is responsible for.
//!
//! Owns [`Fences`]: the separators on both sides of a data block, kept in the block's note as lengths,
//! because a separator is nearly a prefix of the key next to it. They prove from a block alone that a key
//! which the block does not hold is in no other block either, whatever the index says; a lookup asks them
//! only if the key lies before the first or behind the last key of the block it was sent to.
//!
//! The note: the length of the lower separator (varint; it is that much of the block's first key, or all
//! of it and a zero byte if the length is one more; 0 for the first block), then, unless the block is the
//! last one, how much of the block's last key begins the upper separator (varint), and the one byte that
//! ends it.

use crate::{
    block::Block,
    codec::{DecodeError, Decoder, put_varint},
};

/// The separators around a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fences {
    lower_len: usize,
    upper: Option<(usize, u8)>,
}

impl Fences {
    /// The fences of a block between these separators; `None` on the sides where no block follows.
    pub(super) fn between(lower: Option<&[u8]>, upper: Option<&[u8]>) -> Fences {
        let upper = upper.and_then(|upper| upper.split_last());
        Fences {
            lower_len: lower.map_or(0, <[u8]>::len),
            upper: upper.map(|(&last, rest)| (rest.len(), last)),
        }
    }

    /// Appends the note.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.lower_len as u64);
        if let Some((shared, last)) = self.upper {
            put_varint(out, shared as u64);
            out.push(last);
        }
    }

    /// The fences of a block, by its note.
    pub(super) fn of(block: &Block) -> Result<Fences, DecodeError> {
        let mut decoder = Decoder::new(block.note());
        let lower_len = decoder.varint_up_to(block.key_len(0) as u64 + 1, "the length of a fence")? as usize;
        let upper = match decoder.remaining() {
            0 => None,
            _ => {
                let last = block.key_len(block.len() - 1) as u64;
                let shared = decoder.varint_up_to(last, "the length of a fence")? as usize;
                Some((shared, decoder.u8("the last byte of a fence")?))
            }
        };
        decoder.finish("the end of a note")?;
        Ok(Fences { lower_len, upper })
    }

    /// Appends the lower separator of `block`, whose fences these are.
    pub(super) fn lower(&self, block: &Block, out: &mut Vec<u8>) {
        let mut first = Vec::new();
        block.key_into(0, &mut first);
        first.push(0);
        out.extend_from_slice(&first[..self.lower_len]);
    }

    /// Appends the upper separator of `block`, whose fences these are; false if it is the last block.
    pub(super) fn upper(&self, block: &Block, out: &mut Vec<u8>) -> bool {
        let Some((shared, byte)) = self.upper else { return false };
        let mut last = Vec::new();
        block.key_into(block.len() - 1, &mut last);
        out.extend_from_slice(&last[..shared]);
        out.push(byte);
        true
    }

    /// Whether `key`, which is not above the first key of `block`, is not below the lower separator.
    pub(super) fn admit_before_first(&self, block: &Block, key: &[u8]) -> bool {
        if self.lower_len == 0 || block.key_eq(0, key) {
            // Of a separator that is the key and a zero byte, the key is not above.
            return self.lower_len <= key.len();
        }
        // They agree on the whole separator, or the key is the smaller one already within it.
        block.common_prefix_len(0, key) >= self.lower_len
    }

    /// Whether `key`, which is above the last key of `block`, is below the upper separator.
    pub(super) fn admit_after_last(&self, block: &Block, key: &[u8]) -> bool {
        let Some((shared, byte)) = self.upper else { return true };
        // They agree on what the separator has of the last key, or the key is the larger one already within it.
        block.common_prefix_len(block.len() - 1, key) >= shared
            && key.get(shared).is_none_or(|&next| next < byte)
    }
}

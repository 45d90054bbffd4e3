//! Sherry's way to a block, and LearnedKV's: `Sherry`, a piecewise linear model of block numbers
//! over heads, behind the prefix that the separators share.
//!
//! `build` trains within γ blocks (kind `sherry-plr`), `build_within_entries` within ε entries
//! (`greedy-plr`, LearnedKV). `locate` gives the blocks within the error, to begin with the
//! predicted one. `encode` and `decode` are its bytes.
//!
//! What must hold: what separators left out (`begin`) is put back by `put_behind` before anyone
//! locates. Then the span has the key's block. Damaged or forged bytes may name wrong blocks, but
//! none above `len`.
//!
//! Caller: `index::mod`.

use super::{
    separators::Separators,
    sorted::{compare_with_prefix, shared_prefix, told_by_head},
    span::Span,
    stored::decode_model,
};
use crate::{
    codec::{DecodeError, Decoder, put_bytes},
    key::head,
};
use solera_model::plr::Plr;
use std::cmp::Ordering;

/// A model over the heads of the separators, after the prefix that they share.
#[derive(Clone, Debug)]
pub struct Sherry {
    prefix: Box<[u8]>,
    model: Plr,
}

impl Sherry {
    /// The model of these separators' blocks, within `gamma` blocks.
    pub fn build(separators: &Separators, gamma: f64) -> Sherry {
        Sherry::trained(separators, |heads, told| Plr::new(heads, gamma, told))
    }

    /// LearnedKV's model of blocks of `per_block` entries each, within `epsilon` entries.
    pub fn build_within_entries(separators: &Separators, epsilon: u32, per_block: u32) -> Sherry {
        Sherry::trained(separators, |heads, told| Plr::within_entries(heads, epsilon, per_block, told))
    }

    fn trained(separators: &Separators, train: impl FnOnce(&[u64], &dyn Fn(usize) -> bool) -> Plr) -> Sherry {
        let prefix = shared_prefix(separators);
        let rest = |i: usize| &separators.get(i)[prefix.len()..];
        let heads: Vec<u64> = (0..separators.len()).map(|i| head(rest(i))).collect();
        // Keys below a separator that its head does not tell may have that head too.
        Sherry { prefix: prefix.into(), model: train(&heads, &|i| told_by_head(rest(i))) }
    }

    /// Puts `begin`, which was left out of all separators, before their prefix.
    pub fn put_behind(&mut self, begin: &[u8]) {
        self.prefix = [begin, &self.prefix].concat().into();
    }

    /// Appends the prefix (length as varint, bytes) and the model ([`Plr::encode`]).
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, &self.prefix);
        self.model.encode(out);
    }

    /// Reads what [`Sherry::encode`] wrote. What passes may name wrong blocks, but none above
    /// [`Sherry::len`].
    pub fn decode(decoder: &mut Decoder<'_>) -> Result<Sherry, DecodeError> {
        let prefix = decoder.bytes("what separators begin with")?.into();
        Ok(Sherry { prefix, model: decode_model(decoder, Plr::decode)? })
    }

    /// The blocks that may hold `key`.
    #[inline]
    pub fn locate(&self, key: &[u8]) -> Span {
        match compare_with_prefix(key, &self.prefix) {
            Ordering::Less => Span::only(0),
            Ordering::Greater => Span::only(self.model.len()),
            Ordering::Equal => {
                let window = self.model.window(head(&key[self.prefix.len()..]));
                Span::new(window.first, window.predicted, window.last)
            }
        }
    }

    /// Blocks that a search from the predicted one on looks into before the key's own, on average.
    pub fn blocks_beside(&self) -> f64 {
        self.model.blocks_beside()
    }

    /// Cache lines that a search for a span touches, on average: of halving among 24-byte segments
    /// all but the last two or three steps are lines of their own.
    pub fn lines(&self) -> f64 {
        let steps = f64::from((self.model.segments() as u32).checked_ilog2().unwrap_or(0));
        1.0 + (steps - 2.0).max(0.0)
    }

    /// Separators.
    pub fn len(&self) -> usize {
        self.model.len()
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        self.prefix.len() + self.model.bytes()
    }
}

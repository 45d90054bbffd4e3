//! Models of `solera-model` among an index's bytes: `decode_model`, which reads one by that crate's
//! own decoder.
//!
//! It hands the decoder's remaining bytes to the model's `decode` and takes off as many as the
//! model read. It turns the model's error into a `DecodeError`.
//!
//! What must hold: nothing is read beyond what the decoder holds.
//!
//! Callers: `index::learned::{nodes, clusters}` (boundaries) and `index::sherry` (piecewise linear
//! models).

use crate::codec::{DecodeError, Decoder};
use solera_model::bytes::Malformed;

/// Reads a model with its own crate's decoder.
pub(super) fn decode_model<T>(
    decoder: &mut Decoder<'_>,
    decode: impl FnOnce(&[u8]) -> Result<(T, usize), Malformed>,
) -> Result<T, DecodeError> {
    let start = decoder.position();
    let (model, bytes) =
        decode(decoder.rest()).map_err(|Malformed { at, what }| DecodeError { at: start + at, what })?;
    decoder.take(bytes, "a model")?;
    Ok(model)
}

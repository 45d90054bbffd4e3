//! Models of `solera-model` among an index's bytes.
//!
//! Owns [`decode_model`].

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

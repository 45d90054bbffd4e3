//! How a keyspace's tables are cut, indexed, filtered and compressed: `Layout`.
//!
//! It has block size, `IndexKind`, ε, `Filters` and compression. `get` and `set` read and write one
//! `LayoutKnob`; `validate` checks the ranges (`BLOCK_BYTES_MIN` to `BLOCK_BYTES_MAX`, ε up to
//! `EPSILON_MAX`). `encode` and `decode` are its bytes.
//!
//! What must hold: a layout changes the speed of answers, never the answers; tables of different
//! layouts live side by side. The layout that a table was written with is in its descriptor.
//! `validate` refuses one out of range; `decode` too, but takes a compression that this build
//! lacks.
//! Callers: `tree::settings` holds one, and what levels have otherwise; `table::writer` obeys it,
//! `engine::descriptions` shows its ranges, `table::descriptor` stores it; all other crates but
//! `solera-model` set it.

use crate::{
    block::Compression,
    codec::{DecodeError, Decoder, put_varint},
    error::{Error, Result},
    filter::Filters,
    index::IndexKind,
    knob::{LayoutKnob, Value},
};

/// Smallest target size of a block, in bytes: below it the fixed cost of a block outweighs its
/// content.
pub const BLOCK_BYTES_MIN: u32 = 256;
/// Largest target size of a block, in bytes: a found read loads a whole block.
pub const BLOCK_BYTES_MAX: u32 = 1 << 20;
/// Largest ε, in entries: more than any block of [`BLOCK_BYTES_MAX`] can use.
pub const EPSILON_MAX: u32 = 1 << 16;

/// How tables are cut, indexed, filtered and compressed. Tables of different layouts live side by
/// side; a layout changes the speed of answers, never the answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layout {
    /// A block is closed before it grows past this many uncompressed bytes (its note of a few bytes
    /// not counted), unless one entry alone is larger, or the versions of one key, which are kept
    /// together up to four times as many. 256 to 1 MiB; default 4096.
    pub block_bytes: u32,
    /// How the block of a key is found.
    pub index: IndexKind,
    /// For [`IndexKind::DoblixPla`]: entries that a key's rank may lie from its block's line. For
    /// [`IndexKind::SherryPlr`]: half blocks that a block may lie from the model's line, at most 4.
    /// For [`IndexKind::GreedyPlr`]: entries that a block's first key may lie from its line. 1 to
    /// 65536; default 64.
    pub epsilon: u32,
    /// Which filters tables get. Default: 10 bits per key in the mean, more in smaller levels.
    pub filter: Filters,
    /// How data blocks are compressed.
    pub compression: Compression,
}

impl Default for Layout {
    fn default() -> Self {
        Layout {
            block_bytes: 4096,
            index: IndexKind::default(),
            epsilon: 64,
            filter: Filters::default(),
            compression: Compression::default(),
        }
    }
}

impl Layout {
    /// What `knob` is set to.
    pub fn get(&self, knob: LayoutKnob) -> Value {
        match knob {
            LayoutKnob::BlockBytes => self.block_bytes.into(),
            LayoutKnob::Index => self.index.name().into(),
            LayoutKnob::Epsilon => self.epsilon.into(),
            LayoutKnob::FilterBitsPerKey => self.filter.bits_per_key.into(),
        }
    }

    /// Sets `knob` to a value that is legal for it by itself; another value is a mistake of the
    /// caller's.
    pub fn set(&mut self, knob: LayoutKnob, value: &Value) {
        match knob {
            LayoutKnob::BlockBytes => self.block_bytes = value.to_u32(),
            LayoutKnob::Index => self.index = value.to_name().parse().expect("a legal name"),
            LayoutKnob::Epsilon => self.epsilon = value.to_u32(),
            LayoutKnob::FilterBitsPerKey => self.filter.bits_per_key = value.to_f64() as f32,
        }
    }

    /// Whether every field is in its range; the error says which is not and what is legal.
    pub fn validate(&self) -> Result<()> {
        let illegal = |what: String| Err(Error::Invalid(what));
        if !(BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(&self.block_bytes) {
            return illegal(format!(
                "block_bytes is {}; it must be {BLOCK_BYTES_MIN} to {BLOCK_BYTES_MAX}",
                self.block_bytes
            ));
        }
        if !(1..=EPSILON_MAX).contains(&self.epsilon) {
            return illegal(format!("epsilon is {}; it must be 1 to {EPSILON_MAX}", self.epsilon));
        }
        self.filter.validate()?;
        if !self.compression.available() {
            return illegal(format!("this build cannot compress with {}", self.compression));
        }
        Ok(())
    }

    /// Appends the layout: block bytes (varint), index kind (u8), ε (varint), filters
    /// ([`Filters::encode`]), compression (u8).
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.block_bytes.into());
        out.push(self.index as u8);
        put_varint(out, self.epsilon.into());
        self.filter.encode(out);
        out.push(self.compression as u8);
    }

    /// Reads what [`Layout::encode`] wrote. A layout out of range is refused, except for a
    /// compression that this build lacks: the table's blocks say for themselves how they are
    /// stored.
    pub fn decode(decoder: &mut Decoder<'_>) -> Result<Layout, DecodeError> {
        let block_bytes = decoder.varint_up_to(BLOCK_BYTES_MAX.into(), "a block size")? as u32;
        let Some(index) = IndexKind::from_u8(decoder.u8("an index kind")?) else {
            return decoder.fail("a known index kind");
        };
        let epsilon = decoder.varint_up_to(EPSILON_MAX.into(), "an error bound")? as u32;
        let filter = Filters::decode(decoder)?;
        let Some(compression) = Compression::from_u8(decoder.u8("a compression")?) else {
            return decoder.fail("a known compression");
        };
        let layout = Layout { block_bytes, index, epsilon, filter, compression };
        match (Layout { compression: Compression::None, ..layout }).validate() {
            Ok(()) => Ok(layout),
            Err(_) => decoder.fail("a layout in its ranges"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::FilterKind;

    const RIBBON: Filters = Filters::monkey(64.0).with_last_level(FilterKind::Ribbon);

    #[test]
    fn layouts_come_back_from_bytes() {
        for index in IndexKind::ALL {
            for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
                for filter in [Filters::NONE, Filters::uniform(1.0), Filters::monkey(7.5), RIBBON] {
                    let layout = Layout { block_bytes: 256, index, epsilon: 7, filter, compression };
                    let mut bytes = Vec::new();
                    layout.encode(&mut bytes);
                    let mut decoder = Decoder::new(&bytes);
                    assert_eq!(Layout::decode(&mut decoder).unwrap(), layout);
                    decoder.finish("the end").unwrap();
                    for len in 0..bytes.len() {
                        assert!(Layout::decode(&mut Decoder::new(&bytes[..len])).is_err());
                    }
                }
            }
        }
    }

    #[test]
    fn a_layout_out_of_range_is_refused_by_name() {
        let legal = Layout::default();
        legal.validate().unwrap();
        for (layout, field) in [
            (Layout { block_bytes: 255, ..legal }, "block_bytes"),
            (Layout { block_bytes: (1 << 20) + 1, ..legal }, "block_bytes"),
            (Layout { epsilon: 0, ..legal }, "epsilon"),
            (Layout { filter: Filters::uniform(0.5), ..legal }, "bits_per_key"),
            (Layout { filter: Filters::monkey(f32::NAN), ..legal }, "bits_per_key"),
            (Layout { filter: Filters::uniform(-1.0), ..legal }, "bits_per_key"),
            (Layout { filter: Filters::monkey(65.0), ..legal }, "bits_per_key"),
        ] {
            assert!(layout.validate().unwrap_err().to_string().contains(field), "{layout:?}");
            let mut bytes = Vec::new();
            layout.encode(&mut bytes);
            assert!(Layout::decode(&mut Decoder::new(&bytes)).is_err());
        }
    }
}

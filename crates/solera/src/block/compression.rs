//! The ways a block can be compressed: `Compression` (none, LZ4, Zstandard), by number and by name.
//!
//! `from_u8` reads a number, `name` and `FromStr` the name that users write. `available` says
//! whether this build can do it: Zstandard is a crate feature. `expansion_max` bounds what may come
//! out of stored bytes.
//!
//! What must hold: the numbers are on disk and never change. A block says for itself how it is
//! stored, so a table may mix them.
//!
//! Callers: `block::seal` compresses and decompresses by it; `table::layout` holds the choice,
//! which users make by `engine::options`, and `solera-tune`, `solera-bench` and `solera-sim` too.
//! `table::reader` bounds separators by `expansion_max`.

use crate::error::Error;
use std::{fmt, str::FromStr};

/// How blocks are compressed. The numbers are on disk; every block says for itself how it is
/// stored, so a table may mix them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Compression {
    /// Not at all.
    None = 0,
    /// LZ4: cheap enough to be the default.
    #[default]
    Lz4 = 1,
    /// Zstandard; needs the crate feature `zstd`.
    Zstd = 2,
}

impl Compression {
    /// Every compression, in the order of their numbers.
    pub const ALL: [Compression; 3] = [Compression::None, Compression::Lz4, Compression::Zstd];

    /// The compression with this number on disk.
    pub fn from_u8(byte: u8) -> Option<Compression> {
        Compression::ALL.into_iter().find(|compression| *compression as u8 == byte)
    }

    /// The name that users write.
    pub fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }

    /// At most so many bytes come out of one that was stored.
    pub fn expansion_max(self) -> u64 {
        match self {
            Compression::None => 1,
            // A length byte of 255 stands for that many bytes.
            Compression::Lz4 => 256,
            // A block of 128 KiB that repeats one byte takes four bytes.
            Compression::Zstd => 1 << 15,
        }
    }

    /// Whether this build can compress and decompress so.
    pub fn available(self) -> bool {
        self != Compression::Zstd || cfg!(feature = "zstd")
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Compression {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Compression::ALL.into_iter().find(|compression| compression.name() == name).ok_or_else(|| {
            Error::Invalid(format!(
                "there is no compression {name:?}; the names are {}",
                Compression::ALL.map(Compression::name).join(", ")
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_compression_is_known_by_its_number_and_by_its_name() {
        for compression in Compression::ALL {
            assert_eq!(Compression::from_u8(compression as u8), Some(compression));
            assert_eq!(compression.name().parse::<Compression>().unwrap(), compression);
        }
        assert_eq!(Compression::from_u8(3), None);
        assert!("gzip".parse::<Compression>().is_err());
    }
}

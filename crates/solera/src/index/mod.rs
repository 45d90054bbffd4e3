//! From a key to the one block that may hold it.
//!
//! Owns [`IndexKind`], the closed list of ways a table can be indexed.

use crate::error::Error;
use std::{fmt, str::FromStr};

/// How a table finds the block of a key. The numbers are on disk. Every kind gives the same answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum IndexKind {
    /// Binary search over the sorted separators between blocks: the honest baseline.
    Binary = 0,
    /// DobLIX with piecewise linear approximation: a block ends when it is full or when its keys leave
    /// the error corridor ε around the block's line (NOTES §1).
    DoblixPla = 1,
    /// DobLIX with piecewise regression: a block ends when it is full; its line is fitted by least
    /// squares afterwards.
    #[default]
    DoblixPra = 2,
}

impl IndexKind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [IndexKind; 3] = [IndexKind::Binary, IndexKind::DoblixPla, IndexKind::DoblixPra];

    /// The kind with this number on disk.
    pub fn from_u8(byte: u8) -> Option<IndexKind> {
        IndexKind::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }

    /// The name that users write.
    pub fn name(self) -> &'static str {
        match self {
            IndexKind::Binary => "binary",
            IndexKind::DoblixPla => "doblix-pla",
            IndexKind::DoblixPra => "doblix-pra",
        }
    }
}

impl fmt::Display for IndexKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for IndexKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        IndexKind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            Error::Invalid(format!(
                "there is no index kind {name:?}; the kinds are {}",
                IndexKind::ALL.map(IndexKind::name).join(", ")
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_known_by_its_number_and_by_its_name() {
        for kind in IndexKind::ALL {
            assert_eq!(IndexKind::from_u8(kind as u8), Some(kind));
            assert_eq!(kind.name().parse::<IndexKind>().unwrap(), kind);
        }
        assert_eq!(IndexKind::from_u8(3), None);
        assert!("learned".parse::<IndexKind>().unwrap_err().to_string().contains("doblix-pra"));
    }
}

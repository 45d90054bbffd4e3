//! The ways to find the block of a key: `IndexKind`, the closed list of eleven.
//!
//! `from_u8` reads a number; `name` and `FromStr` are the name that users write. `auto` chooses
//! from `CANDIDATES`. `names_a_window` says whether a kind names several blocks. `may_come_to` says
//! whether a table that asked for one kind may have another.
//!
//! What must hold: numbers are on disk and do not change. Every kind gives the same answers.
//!
//! Callers: `table::layout` holds the kind that is wanted. `index::mod` builds by it,
//! `table::writer` cuts and lays out blocks, `table::reader` reads and `table::counted` tags by it.
//! `compaction::key_list` sets `GreedyPlr`. `engine::descriptions`, the command line and pages of
//! `solera-bench` name kinds. `solera-sim`, `fuzz` and tests list all.

use crate::error::Error;
use std::{fmt, str::FromStr};

/// What `auto` chooses from.
pub(super) const CANDIDATES: [IndexKind; 4] =
    [IndexKind::Learned, IndexKind::STree, IndexKind::DoblixPra, IndexKind::SherryPlr];

/// How a table finds the block of a key. The numbers are on disk. Every kind gives the same
/// answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum IndexKind {
    /// Binary search over the sorted separators between blocks: the plain baseline.
    Binary = 0,
    /// DobLIX with piecewise linear approximation: a block ends when it is full or when its keys
    /// leave the error corridor ε around the block's line (docs/PAPERS.md, "DobLIX: the dual
    /// objective").
    DoblixPla = 1,
    /// DobLIX with piecewise regression: a block ends when it is full; its line is fitted by least
    /// squares afterwards.
    DoblixPra = 2,
    /// A static B+tree of the separators, 8 in a cache line, compared at once: the strong baseline.
    STree = 3,
    /// The separators in breadth-first order.
    Eytzinger = 4,
    /// Interpolation search over the sorted separators, with a guard.
    Interpolation = 5,
    /// Sherry: a piecewise linear model of block numbers within γ, with windows that lose no key
    /// (docs/PAPERS.md, "Sherry: a window that loses no key"). Of a window it reads the predicted
    /// block first, and goes on from there the way that its fences say: of evenly spread keys, 0.2
    /// blocks more than the key's own where γ is a half, 0.4 at 1, and 0.7 at 2. γ is ε half
    /// blocks, 2 blocks at most.
    SherryPlr = 6,
    /// Solera's own: segments, and 11 to 13 bits for each boundary between blocks
    /// (docs/decisions/0007).
    #[default]
    Learned = 7,
    /// What costs least of `learned`, `s-tree`, `doblix-pra` and `sherry-plr`, counted for each
    /// table when it is written.
    Auto = 8,
    /// `s-tree` between blocks, and in each block of at most 255 entries a hash index, a byte and a
    /// third for each entry: the baseline for what is done inside a block, after RocksDB's
    /// `kDataBlockBinaryAndHash`.
    STreeHash = 9,
    /// LearnedKV: the longest lines that stay within ε entries of a list of keys, with windows that
    /// lose no key (docs/PAPERS.md, "LearnedKV: Greedy-PLR+"). The list's page is a block. Of a
    /// window it reads the predicted block first.
    GreedyPlr = 10,
}

impl IndexKind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [IndexKind; 11] = [
        IndexKind::Binary,
        IndexKind::DoblixPla,
        IndexKind::DoblixPra,
        IndexKind::STree,
        IndexKind::Eytzinger,
        IndexKind::Interpolation,
        IndexKind::SherryPlr,
        IndexKind::Learned,
        IndexKind::Auto,
        IndexKind::STreeHash,
        IndexKind::GreedyPlr,
    ];

    /// Whether an index of this kind names several blocks, of which the one of the key is one.
    pub fn names_a_window(self) -> bool {
        matches!(self, IndexKind::SherryPlr | IndexKind::GreedyPlr)
    }

    /// Whether a table that is to have this kind may have `kind`: itself, what `auto` chooses from,
    /// or what `learned` gives way to.
    pub(super) fn may_come_to(self, kind: IndexKind) -> bool {
        match self {
            IndexKind::Auto => CANDIDATES.contains(&kind),
            IndexKind::Learned => matches!(kind, IndexKind::Learned | IndexKind::STree),
            _ => kind == self,
        }
    }

    /// The names of all.
    pub const NAMES: [&'static str; IndexKind::ALL.len()] = {
        let mut names = [""; IndexKind::ALL.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = IndexKind::ALL[at].name();
            at += 1;
        }
        names
    };

    /// The kind with this number on disk.
    pub fn from_u8(byte: u8) -> Option<IndexKind> {
        IndexKind::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            IndexKind::Binary => "binary",
            IndexKind::DoblixPla => "doblix-pla",
            IndexKind::DoblixPra => "doblix-pra",
            IndexKind::STree => "s-tree",
            IndexKind::Eytzinger => "eytzinger",
            IndexKind::Interpolation => "interpolation",
            IndexKind::SherryPlr => "sherry-plr",
            IndexKind::Learned => "learned",
            IndexKind::Auto => "auto",
            IndexKind::STreeHash => "s-tree-hash",
            IndexKind::GreedyPlr => "greedy-plr",
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
        assert_eq!(IndexKind::from_u8(IndexKind::ALL.len() as u8), None);
        assert!("learnt".parse::<IndexKind>().unwrap_err().to_string().contains("doblix-pra"));
    }
}

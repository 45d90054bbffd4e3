//! From a key to the one block that may hold it.
//!
//! Owns [`Index`], built from the [`separators`] of a table when the table is opened, [`IndexKind`], the
//! closed list of ways to do it, and the [`handles`] that say where a block lies.
//!
//! What must hold: every kind gives the same block for every key, namely as many as there are separators
//! that are not above the key. What a block's line predicts is the block's own business.

mod binary;
mod chunks;
pub mod handles;
pub mod separators;
mod trie;

use crate::error::Error;
use binary::Binary;
use separators::Separators;
use std::{fmt, str::FromStr};
use trie::Trie;

/// The index of one table. All kinds give the same answers.
#[derive(Clone, Debug)]
pub enum Index {
    /// [`IndexKind::Binary`].
    Binary(Binary),
    /// [`IndexKind::DoblixPla`].
    DoblixPla(Trie),
    /// [`IndexKind::DoblixPra`].
    DoblixPra(Trie),
}

impl Index {
    /// The index of a table whose blocks have these separators between them: less than 2^32.
    pub fn build(kind: IndexKind, separators: &Separators) -> Index {
        match kind {
            IndexKind::Binary => Index::Binary(Binary::build(separators)),
            IndexKind::DoblixPla => Index::DoblixPla(Trie::build(separators)),
            IndexKind::DoblixPra => Index::DoblixPra(Trie::build(separators)),
        }
    }

    /// The only block that may hold `key`; where the versions of one key fill several blocks, the first
    /// of them.
    #[inline]
    pub fn locate(&self, key: &[u8]) -> usize {
        match self {
            Index::Binary(binary) => binary.locate(key),
            Index::DoblixPla(trie) | Index::DoblixPra(trie) => trie.locate(key),
        }
    }

    /// Appends the separator below block `block`; `1 <= block < self.blocks()`.
    pub fn separator(&self, block: usize, out: &mut Vec<u8>) {
        match self {
            Index::Binary(binary) => binary.separator(block - 1, out),
            Index::DoblixPla(trie) | Index::DoblixPra(trie) => trie.separator(block - 1, out),
        }
    }

    /// How many blocks there are.
    pub fn blocks(&self) -> usize {
        match self {
            Index::Binary(binary) => binary.len() + 1,
            Index::DoblixPla(trie) | Index::DoblixPra(trie) => trie.len() + 1,
        }
    }

    /// Bytes that the index takes in memory.
    pub fn bytes(&self) -> usize {
        let heap = match self {
            Index::Binary(binary) => binary.bytes(),
            Index::DoblixPla(trie) | Index::DoblixPra(trie) => trie.bytes(),
        };
        size_of::<Index>() + heap
    }
}

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
    use proptest::prelude::*;

    /// Every kind must locate `key` where counting does, and give every separator back.
    fn check(separators: &[Vec<u8>], keys: impl Iterator<Item = Vec<u8>> + Clone) {
        let built: Separators = separators.iter().collect();
        for kind in IndexKind::ALL {
            let index = Index::build(kind, &built);
            assert_eq!(index.blocks(), separators.len() + 1);
            for key in keys.clone() {
                let expected = separators.partition_point(|separator| *separator <= key);
                assert_eq!(index.locate(&key), expected, "{kind} {key:?} among {separators:?}");
            }
            for (i, separator) in separators.iter().enumerate() {
                let mut bytes = Vec::new();
                index.separator(i + 1, &mut bytes);
                assert_eq!(&bytes, separator, "{kind} {i} of {separators:?}");
            }
        }
    }

    /// The separator and keys close to it on either side.
    fn around(separator: &[u8]) -> Vec<Vec<u8>> {
        let mut keys = vec![separator.to_vec(), [separator, &[0]].concat(), [separator, &[255]].concat()];
        if let Some((last, rest)) = separator.split_last() {
            keys.push(rest.to_vec());
            keys.extend(last.checked_sub(1).map(|last| [rest, &[last]].concat()));
            keys.extend(last.checked_add(1).map(|last| [rest, &[last]].concat()));
            keys.extend(last.checked_sub(1).map(|last| [rest, &[last, 255, 255]].concat()));
        }
        keys
    }

    proptest! {
        #[test]
        fn all_kinds_locate_every_key_where_counting_does(
            prefix in prop::collection::vec(0u8..2, 0..20),
            mut separators in prop::collection::vec(prop::collection::vec(prop_oneof![0u8..2, 254u8..], 0..30), 0..80),
            keys in prop::collection::vec(prop::collection::vec(prop_oneof![0u8..2, 254u8..], 0..40), 0..40),
        ) {
            separators.iter_mut().for_each(|separator| *separator = [&prefix[..], separator].concat());
            separators.sort();
            let keys = keys.iter().flat_map(|key| [key.clone(), [&prefix[..], key].concat()]);
            let near = separators.iter().flat_map(|separator| around(separator));
            check(&separators, keys.chain(near));
        }

        #[test]
        fn random_separators_are_told_apart_by_their_heads(mut separators: Vec<[u8; 6]>, keys: Vec<[u8; 8]>) {
            separators.sort();
            let separators: Vec<Vec<u8>> = separators.iter().map(|separator| separator.to_vec()).collect();
            let near = separators.iter().flat_map(|separator| around(separator));
            check(&separators, keys.iter().map(|key| key.to_vec()).chain(near));
        }
    }

    #[test]
    fn a_table_of_one_block_has_an_index_too() {
        check(&[], [vec![], vec![0], vec![255; 20]].into_iter());
        check(&[vec![]], [vec![], vec![0], vec![255; 20]].into_iter());
    }

    #[test]
    fn separators_as_long_as_the_longest_key_do_not_exhaust_the_stack() {
        let separators: Vec<Vec<u8>> = (0..400)
            .map(|i| [vec![7; 65_000 - i * 160], vec![8; 8]].concat())
            .chain((0..400).map(|i| [vec![9; i * 160], vec![9; 20]].concat()))
            .collect();
        let near = separators.iter().flat_map(|separator| around(separator));
        let sorted: Vec<Vec<u8>> = {
            let mut sorted = separators.clone();
            sorted.sort();
            sorted
        };
        let built: Separators = sorted.iter().collect();
        for kind in IndexKind::ALL {
            let index = Index::build(kind, &built);
            assert!(index.bytes() < 3 * built.total_bytes(), "{} {}", index.bytes(), built.total_bytes());
            for key in near.clone() {
                assert_eq!(index.locate(&key), sorted.partition_point(|separator| *separator <= key));
            }
        }
    }

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

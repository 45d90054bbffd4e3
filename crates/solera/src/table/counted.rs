//! Which layout a table's reads are counted for: `LayoutTag`, a number, and `CountedLayout`, a row
//! of counters.
//!
//! A tag is what of a layout tells its cost from another's: index kind, ε (0 where the kind ignores
//! it), block size and filter. Filter bits are rounded. `to_number` and `from_number` are inverse.
//! An open table enters its tag into the layout rows of `Stats`, and leaves the row when it is
//! dropped.
//!
//! What must hold: the fields of a tag do not overlap in its number (a constant assertion says so).
//!
//! Callers: `table::reader` enters a row and counts in it; `control::{observe, observation, record,
//! render}` show reads by tag.

use super::{
    descriptor::TableDescriptor,
    layout::{BLOCK_BYTES_MAX, EPSILON_MAX},
};
use crate::{
    filter::FilterKind,
    index::{Index, IndexKind},
    stats::Stats,
};
use std::{fmt, sync::Arc};

/// Where ε stands in a tag's number: above block sizes, which have 21 bits.
const EPSILON_AT: u32 = 45;
const BLOCK_BYTES_MASK: u32 = (1 << (EPSILON_AT - 24)) - 1;
const _: () = assert!(BLOCK_BYTES_MAX <= BLOCK_BYTES_MASK);

/// What of a table's layout its cost is attributed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutTag {
    /// Its index; of [`IndexKind::Auto`] what it chose, once the table is open.
    pub index: IndexKind,
    /// Bytes of a block before compression, as asked for.
    pub block_bytes: u32,
    /// ε, of an index that obeys it; 0 of others.
    pub epsilon: u32,
    /// Kind of its filter.
    pub filter: FilterKind,
    /// Bits of filter for every entry, as asked for, rounded: levels are given fractions, which
    /// change with every table.
    pub filter_bits_per_key: u8,
}

impl LayoutTag {
    /// The tag of a table, with its index if it is open.
    pub(super) fn new(descriptor: &TableDescriptor, index: Option<&Index>) -> LayoutTag {
        let kind = index.map_or(descriptor.layout.index, Index::kind);
        let obeys = kind == IndexKind::DoblixPla || kind.names_a_window();
        LayoutTag {
            index: kind,
            epsilon: if obeys { descriptor.layout.epsilon } else { 0 },
            block_bytes: descriptor.layout.block_bytes,
            filter: descriptor.filter.kind,
            // At most 64.
            filter_bits_per_key: descriptor.filter.bits_per_key.round() as u8,
        }
    }

    /// The tag as a number.
    pub fn to_number(self) -> u64 {
        u64::from(self.epsilon) << EPSILON_AT
            | u64::from(self.block_bytes) << 24
            | u64::from(self.filter_bits_per_key) << 16
            | u64::from(self.filter as u8) << 8
            | u64::from(self.index as u8)
    }

    /// The tag that is this number; `None` if none is.
    pub fn from_number(number: u64) -> Option<LayoutTag> {
        let [index, filter, filter_bits_per_key, ..] = number.to_le_bytes();
        Some(LayoutTag {
            index: IndexKind::from_u8(index)?,
            block_bytes: (number >> 24) as u32 & BLOCK_BYTES_MASK,
            epsilon: Some((number >> EPSILON_AT) as u32).filter(|epsilon| *epsilon <= EPSILON_MAX)?,
            filter: FilterKind::from_u8(filter)?,
            filter_bits_per_key,
        })
    }
}

impl fmt::Display for LayoutTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LayoutTag { index, block_bytes, epsilon, filter, filter_bits_per_key } = self;
        write!(f, "{index}, ")?;
        if *epsilon > 0 {
            write!(f, "ε {epsilon}, ")?;
        }
        write!(f, "blocks of {block_bytes} B, ")?;
        match filter_bits_per_key {
            0 => f.write_str("no filter"),
            bits => write!(f, "{filter} {bits} bits"),
        }
    }
}

/// An open table's row of counters; given back when dropped.
#[derive(Debug)]
pub(super) struct CountedLayout {
    stats: Arc<Stats>,
    tag: LayoutTag,
    row: usize,
}

impl CountedLayout {
    pub(super) fn enter(stats: &Arc<Stats>, tag: LayoutTag) -> CountedLayout {
        CountedLayout { stats: stats.clone(), tag, row: stats.enter_layout(tag.to_number()) }
    }

    pub(super) fn tag(&self) -> LayoutTag {
        self.tag
    }

    #[inline]
    pub(super) fn row(&self) -> usize {
        self.row
    }
}

impl Drop for CountedLayout {
    fn drop(&mut self) {
        self.stats.leave_layout(self.row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_come_back_from_their_numbers() {
        for index in IndexKind::ALL {
            for (filter, filter_bits_per_key) in [(FilterKind::Bloom, 0), (FilterKind::Ribbon, 64)] {
                for epsilon in [0, 64, EPSILON_MAX] {
                    let tag = LayoutTag { index, block_bytes: 1 << 20, epsilon, filter, filter_bits_per_key };
                    assert_eq!(LayoutTag::from_number(tag.to_number()), Some(tag));
                }
            }
        }
        assert_eq!(LayoutTag::from_number(0xff), None);
        assert_eq!(LayoutTag::from_number(u64::MAX << 8), None);
    }
}

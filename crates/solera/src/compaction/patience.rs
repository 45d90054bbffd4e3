//! How long level 0 waits with its merge: until reads have paid for it.
//!
//! Owns [`LEVEL0_PATIENCE`], and what rent and price are ([`rent_ns`], [`is_paid`]). A merge of level 0 into level 1 writes most of level 1 anew,
//! so it costs each pair the less the more runs it takes at once; every run that waits costs each read something. Which of the two is
//! dearer, nobody knows beforehand. That is the ski rental problem (Karlin, Manasse, Rudolph, Sleator, Algorithmica 1988): rent until
//! the rent that was paid comes to the price, then buy, and the sum is at most twice what one would have paid who knew. The
//! rent is what reads did in level 0 since runs of it were last merged, the price is the merge (docs/decisions/0016).
//!
//! Level 0 is due once that is so, however few runs it has, and at [`LEVEL0_PATIENCE`] runs, paid or not. Where there is no
//! merge to be spared (its tables can move down, its runs are small, somebody waits) its run limit counts.

use crate::{
    knob::{Knob, Legal, Scope},
    stats::LevelCounters,
};

use super::shape::LEVEL0_RUN_LIMIT_MAX;

/// Runs that level 0 comes to if nobody reads: three times T-1 of the default size ratio. With T-1 runs of a whole write buffer level 0 would
/// be to level 1 as level 1 to level 2; but of small entries a write buffer leaves half of its bytes, and where nobody reads
/// nothing but disk is saved by merging earlier (docs/decisions/0016 has the figures).
pub const LEVEL0_PATIENCE_DEFAULT: u32 = 27;

/// Runs at which level 0 is merged though reads have not paid for it.
pub static LEVEL0_PATIENCE: Knob = Knob::new(
    "level0_patience",
    Scope::Keyspace,
    Legal::Whole { min: 0, max: LEVEL0_RUN_LIMIT_MAX as u64 },
)
.unit("runs")
.with(
    "27",
    "at once",
    "Runs at which level 0 is merged though reads have not paid for it; once they have, it is merged however few it has. Not \
     above the run limit: that alone counts.",
);

/// What a lookup pays for a table of level 0: its filter, its fence, its share of the cache.
const PROBE_NS: u64 = 100;
/// What a scan pays for each block of level 0 that it comes to: to find the place in it, and to be one source more for a
/// while.
const SCAN_BLOCK_NS: u64 = 1000;
/// What both pay for a block of level 0 that has to be read from a file.
const BLOCK_READ_NS: u64 = 20_000;
/// Bytes of a merge whose price is a nanosecond of rent. To read and to write a byte again takes some 4 ns, of a background
/// thread; rent is time that somebody waits for, and is weighed eight times as much.
const BYTES_PER_NS: u64 = 2;

/// What reads paid for runs of level 0, in nanoseconds. The unit costs are those of one machine; only their relation counts.
pub fn rent_ns(level0: &LevelCounters) -> u64 {
    let probes = level0.tables_probed().saturating_mul(PROBE_NS);
    let blocks = level0.scan_blocks.saturating_mul(SCAN_BLOCK_NS);
    probes.saturating_add(blocks).saturating_add(level0.blocks_read().saturating_mul(BLOCK_READ_NS))
}

/// Whether `rent_ns` comes to the price of a merge that concerns `bytes`.
pub fn is_paid(rent_ns: u64, bytes: u64) -> bool {
    rent_ns >= bytes / BYTES_PER_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_pay_by_what_they_did_in_level_0() {
        let reads =
            LevelCounters { filter_negatives: 600, unfiltered: 400, scan_blocks: 30, ..Default::default() };
        let rent = rent_ns(&reads);
        assert_eq!(rent, 1000 * PROBE_NS + 30 * SCAN_BLOCK_NS);
        assert!(is_paid(rent, rent * BYTES_PER_NS) && !is_paid(rent, (rent + 1) * BYTES_PER_NS));
        let cold = LevelCounters { scan_blocks_read: 20, lookup_blocks_read: 10, ..reads };
        assert_eq!(rent_ns(&cold), rent + 30 * BLOCK_READ_NS);
        assert!(!is_paid(rent_ns(&LevelCounters::default()), BYTES_PER_NS));
        let all = LevelCounters { unfiltered: u64::MAX / 2, ..reads };
        assert!(is_paid(rent_ns(&all), u64::MAX));
    }
}

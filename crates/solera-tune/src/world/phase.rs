//! What a world's database is asked for, for a while: `Phase`, a workload, and `Keys`, which keys
//! it touches.
//!
//! A phase is a mix, the entries of a scan and the size of values. It says how many writes are of
//! new keys or delete the oldest. `Phase::of` has even keys, scans of 16, and writes of keys that
//! are there.
//!
//! Callers: `world::World::run`, `drift`, the page `together` of `solera-bench`, and the tests that
//! live in worlds.

use crate::cost::Mix;

/// Which keys are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// All alike.
    Even,
    /// Some more than others. All in thousandths.
    Hot {
        /// Where the hot keys begin, of all keys.
        at_permille: u64,
        /// How many they are, of all keys.
        size_permille: u64,
        /// How many of the operations are of them.
        share_permille: u64,
    },
}

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// Shares of operations.
    pub mix: Mix,
    /// Which keys.
    pub keys: Keys,
    /// Entries of a scan.
    pub scan_entries: u64,
    /// Of writes, how many in a thousand are of new keys.
    pub inserts_permille: u64,
    /// Of writes, how many in a thousand delete the oldest key.
    pub deletes_permille: u64,
    /// Bytes of values that are written; `None` for those of the load.
    pub value_bytes: Option<usize>,
}

impl Phase {
    /// Even keys, scans of 16, writes of keys that are there.
    pub fn of(shares: [f64; 4]) -> Phase {
        Phase {
            mix: Mix::new(shares).expect("shares that sum up to 1 or 100"),
            keys: Keys::Even,
            scan_entries: 16,
            inserts_permille: 0,
            deletes_permille: 0,
            value_bytes: None,
        }
    }
}

//! Bugs on purpose: `Bug`, the list of them, and `planted`, which the spot of each bug asks.
//!
//! The simulator plants each bug with `plant` and must then find it; else it could not find its
//! like either. Without the crate feature `canary` the answer is a constant and the spots compile
//! to nothing.
//!
//! What must hold: one bug is planted at a time, for the whole process. Not for use outside of
//! tests.
//!
//! Callers: the spots ask (in `wal`, `values`, `block`, `table`, `compaction`, `engine` and `db`);
//! `solera-sim canary` plants.

/// A bug that databases had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Bug {
    /// A durable commit does not sync the log.
    SkipLogSync = 1,
    /// A durable commit syncs its log, but not those before it that have ended.
    SkipEndedLogSync,
    /// New tables are named by the manifest before their names are durable.
    SkipDirectorySync,
    /// Blocks are not checked against their checksums.
    IgnoreBlockChecksum,
    /// A block's line is believed one rank too far.
    LineBoundOffByOne,
    /// A key that is not where the index says is nowhere.
    TrustIndexOnMiss,
    /// Tables are named by the manifest before their content is durable.
    PublishBeforeSync,
    /// The numbers of files that a crash left behind are given out again.
    ReuseFileNumber,
    /// Deletes go while there is still something below that they hide.
    DropTombstoneEarly,
    /// Snapshots see the commit that follows them.
    SnapshotTooNew,
    /// A key shorter than a block's prefix is sought behind the block.
    ShortSeekKey,
    /// Versions of a key that go on in the next block are not looked for there.
    KeyAcrossBlocks,
    /// Iterators go on after an error.
    IteratorNotFused,
    /// A value file goes though another keyspace points to it.
    ReclaimLive,
    /// A table that is written anew for its values loses its largest key.
    LoseLargestKey,
    /// Tables are named by the manifest before the values that they point to are durable.
    PointerBeforeValue,
    /// A conversion leaves a version above its result that is older than it.
    StaleAboveTier,
}

impl Bug {
    /// Every bug.
    pub const ALL: [Bug; 17] = [
        Bug::SkipLogSync,
        Bug::SkipEndedLogSync,
        Bug::SkipDirectorySync,
        Bug::IgnoreBlockChecksum,
        Bug::LineBoundOffByOne,
        Bug::TrustIndexOnMiss,
        Bug::PublishBeforeSync,
        Bug::ReuseFileNumber,
        Bug::DropTombstoneEarly,
        Bug::SnapshotTooNew,
        Bug::ShortSeekKey,
        Bug::KeyAcrossBlocks,
        Bug::IteratorNotFused,
        Bug::ReclaimLive,
        Bug::LoseLargestKey,
        Bug::PointerBeforeValue,
        Bug::StaleAboveTier,
    ];
}

#[cfg(feature = "canary")]
mod nest {
    use super::Bug;
    use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

    static PLANTED: AtomicU8 = AtomicU8::new(0);

    /// Plants a bug into everything that this process does from now on, instead of any other.
    pub fn plant(bug: Bug) {
        PLANTED.store(bug as u8, Relaxed);
    }

    /// Whether this bug is planted.
    #[inline]
    pub fn planted(bug: Bug) -> bool {
        PLANTED.load(Relaxed) == bug as u8
    }
}

#[cfg(not(feature = "canary"))]
mod nest {
    /// Whether this bug is planted: never.
    #[inline(always)]
    pub const fn planted(_: super::Bug) -> bool {
        false
    }
}

#[cfg(feature = "canary")]
pub use nest::plant;
pub use nest::planted;

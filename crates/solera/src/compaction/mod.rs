//! Keeping the tree in shape. Deciding and doing never share a function.
//!
//! - **Remembered**, in memory, under the work lock: `Ledger`.
//! - **Seen**: `Picture`, taken from the ledger once for each decision.
//! - **Decided**, purely: `urgency` (which tree first), `pick` (what next), `awaited`, `entrance`,
//!   `ManualCompaction`, `LevelFilters`. `victims` and `convert` choose value files and ranges. A
//!   `Plan` is whole when it is made; `testdata/` has pictures and their plans.
//! - **Done**: `flush` and `run` write tables.
//!
//! Files, bottom to top; each uses only those above it.
//! Callers: `engine` (`work` decides, `jobs` does), `tree` (`Shape`, `LevelFilters`), `knob`,
//! `control::observe` and `engine::report` (`space_use`). `Shape` and `Reclaim` are public.

mod shape;
mod filters;
mod transition;
mod seals;
mod patience;
mod surplus;
mod plan;
mod claims;
mod damage;
mod horizon;
mod overlap;
mod picture;
mod want;
mod cut;
mod space;
mod lift;
mod pick;
mod manual;
mod entrance;
mod reclaim;
mod convert;
mod key_list;
mod ledger;
mod retain;
mod moves;
mod job;

pub use claims::{Claims, Ticket};
pub use convert::{
    Cell, Conversion, Headroom, TablePointers, WalkReads, can_be_over, cells, conversion, convert,
    emptied_by, headroom, hidden_max, is_too_much, revealing, small_logs, victims,
};
pub use damage::Damage;
pub use entrance::{Entrance, entrance};
pub use filters::{LevelFilters, resting_level};
pub use horizon::Horizon;
pub use job::{JobContext, Written, extent, flush, flushed, is_full, run};
pub use key_list::{into_key_list, is_key_list, key_list};
pub use ledger::Ledger;
pub use manual::{ManualCompaction, Step};
pub use overlap::Overlap;
pub use patience::{LEVEL0_PATIENCE_DEFAULT, Level0, Level0Due};
pub use pick::pick;
pub use picture::Picture;
pub use plan::{Plan, Reason, Source, Target, Work, count_written};
pub use reclaim::{Allowance, Reclaim, Space, Victims, in_tables, most_wasteful, spared_for_files};
pub use seals::Seals;
pub use shape::{
    BUFFER_BYTES_MAX, BUFFER_BYTES_MIN, LEVEL0_RUN_LIMIT_MAX, SIZE_RATIO_MAX, SIZE_RATIO_MIN, Shape,
};
pub use space::{Awaited, SpaceUse, awaited, space_use};
pub use surplus::{Surplus, changes_depth};
pub use transition::{HeldLimits, LimitChange, Transition, limit_changes};
pub use want::{Want, urgency, wants};

#[cfg(test)]
mod retain_tests;
#[cfg(test)]
mod job_tests;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod golden;

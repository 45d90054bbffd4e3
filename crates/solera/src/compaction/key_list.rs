//! LearnedKV's conversion (LearnedKV §4.2): the whole tree becomes one list of keys, the run of the
//! last level.
//! Owns `into_key_list`, its plan, and `is_key_list`, whether what a plan writes to a level is part
//! of the list. `key_list` says how such tables are written: LearnedKV's model, no filter. Jobs
//! move separated values out of the frozen files (`Victims`).
//!
//! What must hold:
//! - The plan takes all runs, and no other plan is in flight. So tombstones may go.
//! - What is flushed later lies above. So a delete in it hides what the conversion writes.
//!
//! Callers: `engine::reclaim` asks for the plan and `engine::job_parts` for the layout, where users
//! chose this way of reclaiming.

use super::{
    picture::Picture,
    plan::{Plan, Reason, Source, Target, Work},
};
use crate::{
    filter::FilterSpec,
    index::IndexKind,
    key::KeyRange,
    table::Layout,
    version::{Run, Version},
};
use std::sync::Arc;

/// The plan that takes all that is in tables into one run at the last level. `None`: there are no
/// tables, some of them are being worked on, or some cannot be read.
pub fn into_key_list(picture: &Picture<'_>) -> Option<Plan> {
    let (oldest, newer) = picture.version.runs().split_last()?;
    if !picture.claims.is_empty() || !picture.damage.is_empty() {
        return None;
    }
    // Level 0 takes flushes alone.
    let in_level0 = oldest.level() == 0;
    let (sources, target) = match in_level0 {
        true => (picture.version.runs(), Target { level: 1, run: picture.target_run(1), tables: Vec::new() }),
        false => {
            (newer, Target { level: oldest.level(), run: oldest.id(), tables: oldest.tables().to_vec() })
        }
    };
    let source = |run: &Arc<Run>| Source { level: run.level(), run: run.id(), tables: run.tables().to_vec() };
    let plan = Plan {
        range: KeyRange::all(),
        sources: sources.iter().map(source).collect(),
        target,
        work: Work::Merge,
        drops_tombstones: true,
        seals: None,
        reason: Reason::Reclaim,
    };
    plan.assert_sound(picture.version);
    Some(plan)
}

/// Whether what a plan writes to `level` is part of the list of keys: nothing lies deeper.
pub fn is_key_list(version: &Version, level: u32) -> bool {
    level > 0 && version.runs().last().is_none_or(|run| run.level() <= level)
}

/// How tables of the list of keys are written: LearnedKV's model finds a key's block, and no filter
/// is asked, since most keys that come so far are there.
pub fn key_list(layout: Layout) -> (Layout, FilterSpec) {
    (Layout { index: IndexKind::GreedyPlr, ..layout }, FilterSpec::default())
}

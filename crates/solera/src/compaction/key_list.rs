//! LearnedKV's conversion: the whole tree becomes one list of keys at its last level.
//!
//! Owns [`into_key_list`], the plan of it, and [`key_list`], the layout of what it and later merges
//! write there. The list of keys is the last level's run. Its entries are keys
//! with pointers, and each of its tables has the model that locates among them. The values leave
//! all value files that are frozen, which the engine says ([`Victims`](super::Victims)).
//!
//! What must hold: the plan takes every run that there is. What is flushed later is newer and lies
//! above, so a delete among it hides what the conversion writes. Nothing older lies below, so
//! deletes that the plan meets go with what they delete.

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

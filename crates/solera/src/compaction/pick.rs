//! Which piece of work is next: `pick`, a pure function of a `Picture`.
//!
//! It drops tables that no reader sees, serves `wants` in order, and gives back space (`space`).
//! Last it empties levels that the shape needs no more (`lift`). A level below 0 that stays one run
//! (`is_leveled`) gives up the table cheapest to merge. Any other level that is due is drained: its
//! runs are sealed and move down piece by piece. Small runs of level 0, or too many of the deepest
//! level, are merged with each other instead. Plans go around damaged keys: a full level so held
//! moves down what it can, then merges neighbouring undamaged runs.
//!
//! What must hold: no plan needs what a running plan has claimed. A new run limit below level 0
//! alone makes no work, unless its transition is greedy: that sealed the level, which is drained.
//!
//! Callers: `engine::work`, for a worker that is free, and to see whether a tree is idle; the tests
//! `simulation`, `golden` and `job_tests`.

use super::{
    cut::{Cut, Intent, drain},
    lift::lift,
    picture::Picture,
    plan::{Plan, Reason},
    space,
    want::{Want, wants},
};
use crate::version::{LEVELS_MAX, Run, TableRef};
use std::sync::Arc;

/// The next plan, or `None` if nothing is due or all that is due waits for running plans.
pub fn pick(picture: &Picture<'_>) -> Option<Plan> {
    space::unread(picture)
        .or_else(|| wants(picture).into_iter().find_map(|want| serve(picture, want)))
        .or_else(|| space::free(picture))
        .or_else(|| lift(picture))
}

/// The plan that serves a want.
fn serve(picture: &Picture<'_>, Want { level, reason, .. }: Want) -> Option<Plan> {
    let runs = picture.runs(level);
    let deepest = picture.version.runs().last()?.level();
    let plan = match &reason {
        Reason::Runs { .. } | Reason::Paid { .. } if picture.shape.are_small(runs) => {
            fold(picture, runs, Reason::Gather)
        }
        // Nothing below to merge with, and no reason to make the tree deeper.
        Reason::Excess { .. } if level == deepest => fold(picture, runs, reason.clone()),
        _ if level + 1 == LEVELS_MAX => None,
        _ if picture.is_leveled(runs) => cheapest(picture, runs, reason.clone()),
        _ => drain(picture, runs, picture.seals.of(level), reason.clone()),
    };
    plan.or_else(|| beside_damage(picture, runs, reason))
}

/// For a full level of which damage leaves nothing else to do: moves what can be moved of all its
/// runs, sealed before or not, then merges neighbours among its undamaged runs.
fn beside_damage(picture: &Picture<'_>, runs: &[Arc<Run>], reason: Reason) -> Option<Plan> {
    if picture.damage.is_empty() || reason == Reason::Drain {
        return None;
    }
    let newest = runs.first()?;
    let moved = match newest.level() + 1 < LEVELS_MAX && !picture.is_leveled(runs) {
        true => drain(picture, runs, newest.id(), reason.clone()),
        false => None,
    };
    let mut neighbours = runs.split(|run| picture.damage.touches(run)).filter(|runs| runs.len() > 1);
    moved.or_else(|| neighbours.find_map(|runs| fold(picture, runs, reason.clone())))
}

/// Merges runs of one level into the oldest of them.
fn fold(picture: &Picture<'_>, runs: &[Arc<Run>], reason: Reason) -> Option<Plan> {
    let (oldest, newer) = runs.split_last()?;
    let target = (oldest.level(), oldest.id());
    let cut = Cut::new(picture, newer.iter().collect(), target).around_damage();
    // Small files are to become one file, not to share a run.
    let may_move = reason != Reason::Gather;
    Some(cut.plan(cut.first_range(&[])?, Intent { reason, seals: None, may_move }))
}

/// Moves the table down that overlaps least of the next level in proportion to its size, and its
/// neighbours as far as they cost nothing more.
fn cheapest(picture: &Picture<'_>, runs: &[Arc<Run>], reason: Reason) -> Option<Plan> {
    let run = runs.first()?;
    let target = (run.level() + 1, picture.target_run(run.level() + 1));
    let cut = Cut::new(picture, vec![run], target).around_damage();
    let tables = run.tables();
    let price = |table: &TableRef| {
        let overlap: u64 = cut.in_target(table.clip()).iter().map(TableRef::bytes).sum();
        overlap as f64 / table.bytes() as f64
    };
    let free = (0..tables.len()).filter(|&at| !cut.blocked(tables[at].clip()));
    let (at, _) = free.map(|at| (at, price(&tables[at]))).min_by(|a, b| a.1.total_cmp(&b.1))?;

    let mut range = cut.range_of(&tables[at]);
    if range.end == tables[at].clip().end {
        let merged = cut.in_target(&range).len();
        let mut room = picture.shape.table_bytes.saturating_sub(tables[at].bytes());
        let mut widen = |table: &TableRef| {
            let wider = range.hull(table.clip());
            let is_free =
                table.bytes() <= room && cut.in_target(&wider).len() == merged && !cut.blocked(&wider);
            if is_free {
                room -= table.bytes();
                range = wider;
            }
            is_free
        };
        let _ = tables[at + 1..].iter().take_while(|table| widen(table)).count();
        let _ = tables[..at].iter().rev().take_while(|table| widen(table)).count();
    }
    Some(cut.plan(range, Intent { reason, seals: None, may_move: true }))
}

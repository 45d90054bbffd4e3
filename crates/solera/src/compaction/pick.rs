//! Which piece of work is next.
//!
//! Owns [`pick`], a pure function of what is there, what is wanted and what is being done already.
//!
//! * A level of one run that may have only one (leveling) gives up the table that is cheapest to merge.
//! * Any other level, and level 0, fills up until it is due and is then **drained**: all runs that it has
//!   at that moment are sealed and move down together, piece by piece in key order, while arrivals open
//!   a new run. This is RusKey's flexible transition at the price of bounded pieces: a smaller run limit
//!   lets the newest run grow, a larger one makes the next arrival open another, nothing is rewritten.
//! * A level that comes to its run limit lazily ([`Transition`](super::Transition)) is drained too when it is full.
//! * Merges enter only the newest run of a level, unless it is full (C_i/K_i) or sealed: then a new one.
//! * What is damaged stays where it is, and what lies above it stays above it: plans go around its keys. If
//!   that leaves a full level nothing to move down, its undamaged runs are merged among themselves, so that
//!   their number stays bounded and writers go on.

use super::{
    cut::Cut,
    plan::{InFlight, Plan, Reason},
    score::score,
    shape::Shape,
};
use crate::{
    ids::RunId,
    version::{LEVELS_MAX, Run, TableRef, Version},
};
use std::sync::Arc;

/// The next plan, or `None` if nothing is due or all that is due waits for running plans.
pub fn pick(version: &Version, shape: &Shape, in_flight: &InFlight) -> Option<Plan> {
    let shape = &*in_flight.in_force(version, shape);
    let levels = 0..version.levels().len() as u32;
    let mut due: Vec<(f64, u32, Reason)> = levels
        .filter_map(|level| score(version, shape, in_flight, level).map(|(score, why)| (score, level, why)))
        .collect();
    due.sort_by(|a, b| b.0.total_cmp(&a.0));
    due.into_iter().find_map(|(_, level, reason)| {
        let runs = version.level(level).runs();
        let deepest = version.runs().last()?.level();
        let plan = match &reason {
            Reason::Runs { .. } | Reason::Paid { .. } if are_small(runs, shape) => {
                fold(version, shape, in_flight, runs, Reason::Gather)
            }
            // Nothing below to merge with, and no reason to make the tree deeper.
            Reason::Excess { .. } if level == deepest => {
                fold(version, shape, in_flight, runs, reason.clone())
            }
            _ if level + 1 == LEVELS_MAX => None,
            _ if is_leveled(runs, shape, in_flight) => {
                cheapest(version, shape, in_flight, runs, reason.clone())
            }
            _ => drain(version, shape, in_flight, runs, in_flight.sealed(level), reason.clone()),
        };
        plan.or_else(|| beside_damage(version, shape, in_flight, runs, reason))
    })
}

/// For a full level of which damage leaves nothing else to do: moves what can be moved of all its runs,
/// sealed before or not, then merges neighbours among its undamaged runs.
fn beside_damage(
    version: &Version,
    shape: &Shape,
    in_flight: &InFlight,
    runs: &[Arc<Run>],
    reason: Reason,
) -> Option<Plan> {
    if in_flight.damaged().is_empty() || reason == Reason::Drain {
        return None;
    }
    let newest = runs.first()?;
    let moved = match newest.level() + 1 < LEVELS_MAX && !is_leveled(runs, shape, in_flight) {
        true => drain(version, shape, in_flight, runs, newest.id(), reason.clone()),
        false => None,
    };
    let is_damaged = |run: &Arc<Run>| run.tables().iter().any(|t| in_flight.damaged().contains_key(&t.id()));
    let mut neighbours = runs.split(is_damaged).filter(|runs| runs.len() > 1);
    moved.or_else(|| neighbours.find_map(|runs| fold(version, shape, in_flight, runs, reason.clone())))
}

/// The run of `level` that takes what comes from above.
pub(super) fn target_run(version: &Version, shape: &Shape, in_flight: &InFlight, level: u32) -> RunId {
    let (at, sealed) = (version.level(level), in_flight.sealed(level));
    let has_room = |run: &Run| shape.run_limit(level) == 1 || run.bytes() < shape.run_capacity_bytes(level);
    match at.runs().first() {
        Some(newest) if newest.id() > sealed && has_room(newest) => newest.id(),
        _ => at.next_run().max(RunId(sealed.0 + 1)),
    }
}

/// Whether merging these runs of level 0 with level 1 would cost much more than they are worth.
pub(super) fn is_little(runs: &[Arc<Run>], shape: &Shape) -> bool {
    runs.iter().map(|run| run.bytes()).sum::<u64>() <= shape.write_buffer_bytes / 2
}

/// Whether these runs of level 0 are rather to be merged with each other.
pub(super) fn are_small(runs: &[Arc<Run>], shape: &Shape) -> bool {
    runs.len() > 1 && is_little(runs, shape)
}

/// Whether the level is one run that takes all arrivals, and goes on doing so.
fn is_leveled(runs: &[Arc<Run>], shape: &Shape, in_flight: &InFlight) -> bool {
    let [run] = runs else { return false };
    run.level() > 0
        && shape.run_limit(run.level()) == 1
        && run.id() > in_flight.sealed(run.level())
        && in_flight.held(runs).is_none()
}

/// Merges runs of one level into the oldest of them.
fn fold(
    version: &Version,
    shape: &Shape,
    in_flight: &InFlight,
    runs: &[Arc<Run>],
    reason: Reason,
) -> Option<Plan> {
    let (oldest, newer) = runs.split_last()?;
    let target = (oldest.level(), oldest.id());
    let cut = Cut::new(version, shape, in_flight, newer.iter().collect(), target).around_damage();
    let plan = cut.plan(cut.first_range(&[])?, reason);
    // Small files are to become one file, not to share a run.
    Some(Plan { moves: plan.moves && plan.reason != Reason::Gather, ..plan })
}

/// Moves the next piece of the runs up to `sealed` down; seals all runs first if there is none of these.
fn drain(
    version: &Version,
    shape: &Shape,
    in_flight: &InFlight,
    runs: &[Arc<Run>],
    sealed: RunId,
    reason: Reason,
) -> Option<Plan> {
    let level = runs.first()?.level();
    let draining = runs.last()?.id() <= sealed;
    let seals = if draining { sealed } else { runs.first()?.id() };
    let sealed = runs.iter().filter(|run| run.id() <= seals).collect();
    let target = (level + 1, target_run(version, shape, in_flight, level + 1));
    let cut = Cut::new(version, shape, in_flight, sealed, target).around_damage();
    let plan = cut.plan(cut.first_range(&[])?, if draining { Reason::Drain } else { reason });
    let moves = plan.moves && !in_flight.rewrites(runs);
    Some(Plan { seals: Some(seals), moves, ..plan })
}

/// Moves the table down that overlaps least of the next level in proportion to its size, and its
/// neighbours as far as they cost nothing more.
fn cheapest(
    version: &Version,
    shape: &Shape,
    in_flight: &InFlight,
    runs: &[Arc<Run>],
    reason: Reason,
) -> Option<Plan> {
    let run = runs.first()?;
    let target = (run.level() + 1, target_run(version, shape, in_flight, run.level() + 1));
    let cut = Cut::new(version, shape, in_flight, vec![run], target).around_damage();
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
        let mut room = shape.table_bytes.saturating_sub(tables[at].bytes());
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
    Some(cut.plan(range, reason))
}

//! Emptying levels that the shape needs no more: `lift`, the plan that takes the next key range out
//! of all of them, up into the last level that is needed.
//!
//! All runs from that level on give up the range, and one of its runs takes it. So each byte is
//! written anew once; where a single run has keys of the range, its tables move as they are.
//!
//! What must hold: a plan takes something out of a surplus level, so plans end. Nothing is lifted
//! into or out of a level that is being drained: what drains goes down first.
//!
//! Caller: `pick`, when nothing else is due.

use super::{
    cut::{Cut, Intent, first_after},
    picture::Picture,
    plan::{Plan, Reason},
    surplus::Surplus,
};
use crate::version::Run;
use std::sync::Arc;

/// The next piece of the surplus levels, if reads have paid for it.
pub(super) fn lift(picture: &Picture<'_>) -> Option<Plan> {
    let Surplus { last, .. } = picture.surplus.filter(|surplus| surplus.is_due)?;
    if (last..picture.levels().end).any(|level| picture.seals.is_draining(picture.runs(level))) {
        return None;
    }
    let runs: Vec<&Arc<Run>> = picture.version.runs().iter().filter(|run| run.level() >= last).collect();
    let surplus: Vec<&Arc<Run>> = runs.iter().copied().filter(|run| run.level() > last).collect();
    let cut = Cut::lifting(picture, runs, (last, picture.target_run(last))).around_damage();
    let mut from: Box<[u8]> = Box::default();
    loop {
        let first = surplus.iter().filter_map(|run| {
            let at = run.tables().partition_point(|table| !table.clip().end.admits(&from));
            Some((&run.tables().get(at)?.clip().start[..]).max(&from[..]))
        });
        let start: Box<[u8]> = first.min()?.into();
        let range = cut.first_range(&start)?;
        // What lies before the first surplus key and behind the last stays where it is.
        let inside = surplus.iter().flat_map(|run| run.overlapping(&range)).map(|table| table.clip().clone());
        let Some(inside) = inside.reduce(|all, clip| all.hull(&clip)) else {
            from = first_after(&range.end)?;
            continue;
        };
        let range = range.intersection(&inside);
        return Some(
            cut.plan(range, Intent { reason: Reason::Surplus { last }, seals: None, may_move: true }),
        );
    }
}

//! Compacting a range because somebody asked for it.
//!
//! Owns [`Sweep`], which goes through the levels from the top, moves what lies in its range down level by
//! level, and ends with one run without tombstones at the bottom, as far as snapshots allow. Each level is
//! gone through once, in key order, so that a sweep ends however fast others write.

use super::{
    cut::{Cut, first_after},
    pick::target_run,
    plan::{InFlight, Plan, Reason},
    shape::Shape,
};
use crate::{
    ids::FileId,
    key::KeyRange,
    version::{Run, TableRef, Version},
};
use std::sync::Arc;

/// How far a requested compaction has come.
#[derive(Debug)]
pub struct Sweep {
    range: KeyRange,
    level: u32,
    bottom: u32,
    /// Where the sweep stands in `level`; `None` at its end.
    from: Option<Box<[u8]>>,
    /// Files up to this one are older than the sweep.
    newest_file: FileId,
}

/// What a sweep needs next.
#[derive(Debug)]
pub enum Step {
    /// Carry out this plan, then ask again. If it fails, give the sweep up.
    Run(Plan),
    /// A running plan stands in the way: ask again when one has finished.
    Wait,
    /// The range is compacted.
    Done,
}

impl Sweep {
    /// A sweep over `range` of the tree as it is now. Flush the memtables first if they should take part.
    pub fn new(version: &Version, range: KeyRange) -> Sweep {
        Sweep {
            level: 0,
            bottom: version.deepest_level(&range).unwrap_or(0).max(1),
            from: Some(range.start.clone()),
            newest_file: version.tables().map(TableRef::id).max().unwrap_or_default(),
            range,
        }
    }

    /// What to do next. A returned plan counts as done.
    pub fn next(&mut self, version: &Version, shape: &Shape, in_flight: &InFlight) -> Step {
        let shape = &*in_flight.in_force(version, shape);
        while self.level <= self.bottom {
            let Some(from) = self.from.clone() else {
                self.level += 1;
                self.from = Some(self.range.start.clone());
                continue;
            };
            let todo = KeyRange { start: from, end: self.range.end.clone() };
            let cut = self.cut(version, shape, in_flight);
            let found = if self.level < self.bottom {
                cut.range_at(&todo.start)
                    .map(|range| range.intersection(&todo))
                    .filter(|range| !range.is_empty())
            } else {
                self.unclean(version, &todo).map(|table| cut.range_of(table).intersection(&todo))
            };
            let Some(range) = found else {
                self.from = None;
                continue;
            };
            if cut.blocked(&range) {
                return Step::Wait;
            }
            let mut plan = cut.plan(range, Reason::Requested);
            // What is unclean at the bottom does not become clean in another run.
            plan.moves &= self.level < self.bottom;
            self.from = first_after(&plan.range.end);
            return Step::Run(plan);
        }
        Step::Done
    }

    /// Above the bottom, all runs of the level move down; into the bottom level they move together with
    /// its newer runs. At the bottom, its newer runs go into its oldest.
    fn cut<'v>(&self, version: &'v Version, shape: &Shape, in_flight: &'v InFlight) -> Cut<'v> {
        let into_bottom = self.level + 1 >= self.bottom;
        let bottom = version.level(self.bottom).runs();
        let mut sources: Vec<&Arc<Run>> = Vec::new();
        if self.level < self.bottom {
            sources.extend(version.level(self.level).runs());
        }
        let target = match bottom.split_last() {
            Some((oldest, newer)) if into_bottom => {
                sources.extend(newer);
                (self.bottom, oldest.id())
            }
            _ => (self.level + 1, target_run(version, shape, in_flight, self.level + 1)),
        };
        Cut::new(version, shape, in_flight, sources, target)
    }

    /// The first table of the bottom level in `todo` that has to be written anew: it holds tombstones or
    /// operands and is older than the sweep, or it shares keys with another run.
    fn unclean<'v>(&self, version: &'v Version, todo: &KeyRange) -> Option<&'v TableRef> {
        let runs = version.level(self.bottom).runs();
        let is_unclean = |run: &Run, table: &TableRef| {
            let hides = table.has_tombstones() || table.descriptor().merges > 0;
            let shares = |other: &Arc<Run>| {
                other.id() != run.id() && !other.overlapping(&table.clip().intersection(todo)).is_empty()
            };
            hides && table.id() <= self.newest_file || runs.iter().any(shares)
        };
        let first =
            runs.iter().filter_map(|run| run.overlapping(todo).iter().find(|table| is_unclean(run, table)));
        first.min_by(|a, b| a.clip().start.cmp(&b.clip().start))
    }
}

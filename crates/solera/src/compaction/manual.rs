//! Compacting a range because a user asked for it: `ManualCompaction`, and `Step`, what it needs
//! next.
//!
//! It goes through the levels from the top and moves what lies in the range down, level by level.
//! The bottom is the deepest level that had such keys when it began. There it merges the runs into
//! one. It writes anew tables older than the request that hold operands or what no reader sees.
//! What must hold: it goes through each level once, in key order, so it ends however fast writers
//! write. At its end what was asked for is one clean run at the bottom, as far as snapshots allow.
//! It waits for plans in the way (`Step::Wait`). It does not go around damage: a plan that fails
//! ends it.
//! Callers: `engine::jobs` makes one for `Keyspace::compact_range`; `engine::work` asks it for each
//! `Step`.

use super::{
    cut::{Cut, Intent, first_after},
    picture::Picture,
    plan::{Plan, Reason},
    space,
};
use crate::{
    ids::FileId,
    key::KeyRange,
    version::{Run, TableRef, Version},
};
use std::sync::Arc;

/// A table is written anew for what is cut off of its file if that is more than one part in so
/// many.
const CUT_OFF_PARTS: u64 = 16;

/// How far a requested compaction has come.
#[derive(Debug)]
pub struct ManualCompaction {
    range: KeyRange,
    level: u32,
    bottom: u32,
    /// Where it stands in `level`; `None` at the level's end.
    from: Option<Box<[u8]>>,
    /// Files up to this one are older than the request.
    newest_file: FileId,
}

/// What a manual compaction needs next.
#[derive(Debug)]
pub enum Step {
    /// Carry out this plan, then ask again. If it fails, give the compaction up.
    Run(Plan),
    /// A running plan stands in the way: ask again when one has finished.
    Wait,
    /// The range is compacted.
    Done,
}

impl ManualCompaction {
    /// A compaction of `range` of the tree as it is now. Flush the memtables first if they should
    /// take part.
    pub fn new(version: &Version, range: KeyRange) -> ManualCompaction {
        let (range, bottom) = down_to_the_last(version, range);
        ManualCompaction {
            level: 0,
            bottom,
            from: Some(range.start.clone()),
            newest_file: version.tables().map(TableRef::id).max().unwrap_or_default(),
            range,
        }
    }

    /// What to do next. A returned plan counts as done.
    pub fn next(&mut self, picture: &Picture<'_>) -> Step {
        while self.level <= self.bottom {
            let Some(from) = self.from.clone() else {
                self.level += 1;
                self.from = Some(self.range.start.clone());
                continue;
            };
            let todo = KeyRange { start: from, end: self.range.end.clone() };
            let cut = self.cut(picture);
            let found = if self.level < self.bottom {
                cut.range_at(&todo.start)
                    .map(|range| range.intersection(&todo))
                    .filter(|range| !range.is_empty())
            } else {
                self.unclean(picture, &todo).map(|table| cut.range_of(table).intersection(&todo))
            };
            let Some(range) = found else {
                self.from = None;
                continue;
            };
            if cut.blocked(&range) {
                return Step::Wait;
            }
            self.from = first_after(&range.end);
            // What is unclean at the bottom does not become clean in another run.
            let may_move = self.level < self.bottom;
            return Step::Run(cut.plan(range, Intent { reason: Reason::Requested, seals: None, may_move }));
        }
        Step::Done
    }

    /// Above the bottom, all runs of the level move down; into the bottom level they move together
    /// with its newer runs. At the bottom, its newer runs go into its oldest.
    fn cut<'v>(&self, picture: &'v Picture<'v>) -> Cut<'v> {
        let into_bottom = self.level + 1 >= self.bottom;
        let bottom = picture.runs(self.bottom);
        let mut sources: Vec<&Arc<Run>> = Vec::new();
        if self.level < self.bottom {
            sources.extend(picture.runs(self.level));
        }
        let target = match bottom.split_last() {
            Some((oldest, newer)) if into_bottom => {
                sources.extend(newer);
                (self.bottom, oldest.id())
            }
            _ => (self.level + 1, picture.target_run(self.level + 1)),
        };
        Cut::new(picture, sources, target)
    }

    /// The first table of the bottom level in `todo` that has to be written anew. It is older than
    /// the request, and it holds operands or what no reader sees any more, or much is cut off of
    /// its file. Or it shares keys with another run.
    fn unclean<'v>(&self, picture: &'v Picture<'v>, todo: &KeyRange) -> Option<&'v TableRef> {
        let runs = picture.version.level(self.bottom).runs();
        let is_unclean = |run: &Run, table: &TableRef| {
            let cut_off = space::cut_off_bytes(picture.version, table);
            let hides = table.descriptor().merges > 0
                || space::droppable_bytes(picture, run, table) > 0
                || cut_off > table.descriptor().bytes / CUT_OFF_PARTS;
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

/// The deepest level that has keys in `range`, and a range that is as large as it must be for it.
///
/// A table of that level that goes on beyond `range` is written anew as a whole. Where a deeper
/// level has keys beneath it beyond `range`, its deletes would have to stay, those in `range` too.
/// So all that lies over the table goes down to that level.
fn down_to_the_last(version: &Version, mut range: KeyRange) -> (KeyRange, u32) {
    loop {
        let bottom = version.deepest_level(&range).unwrap_or(0).max(1);
        let tables = version.level(bottom).runs().iter().flat_map(|run| run.overlapping(&range));
        let hull = tables.fold(range.clone(), |hull, table| hull.hull(table.clip()));
        // Deeper each time: it ends.
        if version.deepest_level(&hull).is_none_or(|deepest| deepest <= bottom) {
            return (range, bottom);
        }
        range = hull;
    }
}

//! Cutting a bounded piece of work out of runs: `Cut`, which makes nearly every `Plan` that reads
//! runs.
//!
//! A `Cut` is the runs that give up keys, and the run that takes them. `first_range` and `range_at`
//! choose a range of at most 25 tables' worth, preferably ending at a table of the target. If the
//! smallest piece is larger, it is taken all the same. `plan` makes the whole plan, a move where
//! allowed and nothing has to be merged. `drain` moves the next piece of sealed runs down;
//! `lifting` is a cut whose target lies above some sources.
//!
//! What must hold: `first_range` avoids claimed keys; a caller that chooses a range in another way
//! asks `blocked` first. Damaged tables are avoided only after `around_damage`. `plan` asserts that
//! the plan is sound.
//!
//! Callers: `pick`, `manual`, `space`, `convert`, `lift`. (`key_list`, and `space` for tables that
//! go unread, make plans without a cut.)

use super::{
    picture::Picture,
    plan::{Plan, Reason, Source, Target, Work},
};
use crate::{
    ids::RunId,
    key::{KeyEnd, KeyRange},
    version::{Run, TableRef},
};
use std::sync::Arc;

/// A plan concerns about this many tables' worth of bytes at most, its inputs counted.
const PLAN_TABLES_MAX: u64 = 25;

/// What a plan is made for.
#[derive(Debug)]
pub(super) struct Intent {
    /// Why.
    pub(super) reason: Reason,
    /// The newest run of the sources' level that takes no more data once the plan begins.
    pub(super) seals: Option<RunId>,
    /// Whether tables may change their run as they are, where nothing has to be merged.
    pub(super) may_move: bool,
}

/// Runs that give up their keys, and the run that takes them.
#[derive(Debug)]
pub(super) struct Cut<'v> {
    picture: &'v Picture<'v>,
    /// Newest first; the oldest runs of their level, or all of them.
    sources: Vec<&'v Arc<Run>>,
    target: (u32, RunId),
    /// The target's tables; none if it does not exist yet.
    target_tables: &'v [TableRef],
    bytes_max: u64,
    /// Keys to leave where they are.
    avoided: Vec<&'v KeyRange>,
}

impl<'v> Cut<'v> {
    pub(super) fn new(picture: &'v Picture<'v>, sources: Vec<&'v Arc<Run>>, target: (u32, RunId)) -> Self {
        let target_run = picture.version.level(target.0).run(target.1);
        Cut {
            picture,
            sources,
            target,
            target_tables: target_run.map_or(&[], |run| &run.tables()[..]),
            bytes_max: picture.shape.table_bytes.saturating_mul(PLAN_TABLES_MAX),
            avoided: Vec::new(),
        }
    }

    /// The same, where the target lies above some of the sources: they are all runs from its level
    /// on down, so all that is there of a range comes out as the target's.
    pub(super) fn lifting(
        picture: &'v Picture<'v>,
        sources: Vec<&'v Arc<Run>>,
        target: (u32, RunId),
    ) -> Self {
        // What the target holds of a range is a source's.
        Cut { target_tables: &[], ..Cut::new(picture, sources, target) }
    }

    /// Leaves the keys of damaged tables where they are, if moving them would read the table, or
    /// carry newer versions past it (invariant R).
    pub(super) fn around_damage(mut self) -> Self {
        let Picture { damage, version, .. } = self.picture;
        if damage.is_empty() {
            return self;
        }
        let age = |level: u32, run: RunId| (level, u64::MAX - run.0);
        let of_sources = || self.sources.iter().map(|run| age(run.level(), run.id()));
        let oldest = age(self.target.0, self.target.1).max(of_sources().max().unwrap_or_default());
        let span = of_sources().min().unwrap_or_default()..=oldest;
        let runs = version.runs().iter().filter(|run| span.contains(&age(run.level(), run.id())));
        let tables = runs.flat_map(|run| run.tables().iter());
        self.avoided = tables.filter(|table| damage.has(table)).map(TableRef::clip).collect();
        self
    }

    /// What stands in the way of the sources' keys: running plans and damage.
    fn obstacles(&self) -> impl Iterator<Item = &KeyRange> {
        let claims = self.sources.iter().flat_map(|run| self.picture.claims.of(run.level()));
        claims.chain(self.avoided.iter().copied())
    }

    /// The first range at or after `from` that nothing stands in the way of. Any part of the
    /// sources before it has to wait. `None`: nothing left, or all of it has to wait.
    pub(super) fn first_range(&self, from: &[u8]) -> Option<KeyRange> {
        let mut from: Box<[u8]> = from.into();
        loop {
            let range = self.range_at(&from)?;
            let in_the_way = self.obstacles().find(|obstacle| obstacle.contains(&range.start));
            from = match in_the_way {
                Some(obstacle) => first_after(&obstacle.end)?,
                None if !self.is_target_claimed(&range) => return Some(range),
                None => first_after(&range.end)?,
            };
        }
    }

    /// The range that starts with the sources' first key at or after `from` and is as long as the
    /// limit allows.
    pub(super) fn range_at(&self, from: &[u8]) -> Option<KeyRange> {
        let reaching = self.sources.iter().filter_map(|run| {
            let at = run.tables().partition_point(|table| !table.clip().end.admits(from));
            run.tables().get(at)
        });
        let start: Box<[u8]> = reaching.map(|table| (&table.clip().start[..]).max(from)).min()?.into();
        let next = self.obstacles().map(|obstacle| &obstacle.start).filter(|next| **next > start).min();
        let last = self.sources.iter().map(|run| run.range().end).max()?;
        let stop = match next {
            Some(next) => last.min(KeyEnd::Excluded(next.clone())),
            None => last,
        };
        let end = self.end_within_limit(&start, stop);
        // No further than the sources have keys: the gap behind may hold keys of the target.
        let range = KeyRange { start, end };
        let inside = self.sources.iter().filter_map(|run| run.overlapping(&range).last());
        let last = inside.map(|table| &table.clip().end).max()?.clone();
        Some(KeyRange { end: last.min(range.end), start: range.start })
    }

    /// The range of `table` alone, or its first part if that is too much work.
    pub(super) fn range_of(&self, table: &TableRef) -> KeyRange {
        let clip = table.clip();
        KeyRange { start: clip.start.clone(), end: self.end_within_limit(&clip.start, clip.end.clone()) }
    }

    /// Where to end a range from `start` to at most `stop`. Preferably before a table of the
    /// target, so that no table of the target is written anew for two plans.
    fn end_within_limit(&self, start: &[u8], stop: KeyEnd) -> KeyEnd {
        let until = |end: &[u8]| KeyRange::half_open(start, end);
        let fits = |end: &[u8]| self.bytes(&until(end)) <= self.bytes_max;
        let whole = KeyRange { start: start.into(), end: stop };
        if self.bytes(&whole) <= self.bytes_max {
            return whole.end;
        }
        // A range that ends before `key` is not empty and ends before the stop.
        let ends_inside = |key: &[u8]| key > start && KeyEnd::Excluded(key.into()) < whole.end;
        let starts = |tables: &'v [TableRef]| tables.iter().map(|table| &table.clip().start[..]);
        let mut cuts: Vec<&[u8]> = starts(self.target_tables).filter(|key| ends_inside(key)).collect();
        let mut fitting = cuts.partition_point(|key| fits(key));
        if fitting == 0 {
            let tables = self.sources.iter().flat_map(|run| starts(run.tables()));
            cuts.extend(tables.filter(|key| ends_inside(key)));
            cuts.sort_unstable();
            fitting = cuts.partition_point(|key| fits(key));
        }
        // If even the smallest cut is too much, it has to be done all the same.
        match cuts.get(fitting.saturating_sub(1)) {
            Some(&cut) => KeyEnd::Excluded(cut.into()),
            None => whole.end,
        }
    }

    /// Bytes that a plan over `range` reads.
    fn bytes(&self, range: &KeyRange) -> u64 {
        let sources = self.sources.iter().flat_map(|run| run.overlapping(range));
        let source_bytes: u64 = sources.map(|table| table.bytes_within(range)).sum();
        source_bytes + self.in_target(range).iter().map(TableRef::bytes).sum::<u64>()
    }

    /// The target's tables that overlap `range`.
    pub(super) fn in_target(&self, range: &KeyRange) -> &'v [TableRef] {
        let first = self.target_tables.partition_point(|table| !table.clip().end.admits(&range.start));
        let rest = &self.target_tables[first..];
        &rest[..rest.partition_point(|table| range.end.admits(&table.clip().start))]
    }

    /// The range and the target's tables.
    pub(super) fn hull(&self, range: &KeyRange) -> KeyRange {
        self.in_target(range).iter().fold(range.clone(), |hull, table| hull.hull(table.clip()))
    }

    /// Whether a running plan, or damage to be avoided, stands in the way of a plan over `range`.
    pub(super) fn blocked(&self, range: &KeyRange) -> bool {
        self.obstacles().any(|obstacle| obstacle.overlaps(range)) || self.is_target_claimed(range)
    }

    /// Whether a running plan needs what a plan over `range` would write anew in the target, or
    /// pass on the way up.
    fn is_target_claimed(&self, range: &KeyRange) -> bool {
        let claims = self.picture.claims;
        let mut passed = self.target.0 + 1..=self.sources.last().map_or(0, |run| run.level());
        claims.overlaps(self.target.0, &self.hull(range)) || passed.any(|level| claims.overlaps(level, range))
    }

    /// The plan over `range`.
    pub(super) fn plan(&self, range: KeyRange, intent: Intent) -> Plan {
        let sources = self.sources.iter().map(|run| Source {
            level: run.level(),
            run: run.id(),
            tables: run.overlapping(&range).iter().filter_map(|table| table.within(&range)).collect(),
        });
        let sources: Vec<Source> = sources.filter(|source| !source.tables.is_empty()).collect();
        let target =
            Target { level: self.target.0, run: self.target.1, tables: self.in_target(&range).to_vec() };
        let hull = self.hull(&range);
        // Within a level larger ids are newer; deeper levels are older.
        let age = |level: u32, run: RunId| (level, u64::MAX - run.0);
        let of_sources = sources.iter().map(|source| age(source.level, source.run));
        let oldest = age(target.level, target.run).max(of_sources.max().unwrap_or_default());
        let is_older = |run: &Run| age(run.level(), run.id()) > oldest;
        let mut older = self.picture.version.runs().iter().filter(|run| is_older(run));
        let drops_tombstones = older.all(|run| run.overlapping(&hull).is_empty());
        let Intent { reason, seals, may_move } = intent;
        let work = match may_move && can_move(&sources, &target, drops_tombstones) {
            true => Work::Move,
            false => Work::Merge,
        };
        let plan = Plan { range, sources, target, work, drops_tombstones, seals, reason };
        plan.assert_sound(self.picture.version);
        plan
    }
}

/// Whether the tables can change their run as they are: nothing to merge them with, nothing in them
/// that has to go, and not mostly parts of files that would be kept for them.
fn can_move(sources: &[Source], target: &Target, drops_tombstones: bool) -> bool {
    let mut tables: Vec<&TableRef> = sources.iter().flat_map(|source| &source.tables).collect();
    tables.sort_by(|a, b| a.clip().start.cmp(&b.clip().start));
    !tables.is_empty()
        && target.tables.is_empty()
        && tables.iter().zip(tables.iter().skip(1)).all(|(a, b)| !a.clip().overlaps(b.clip()))
        && !(drops_tombstones && tables.iter().any(|table| table.has_tombstones()))
        && tables.iter().map(|table| table.bytes()).sum::<u64>()
            >= tables.iter().map(|table| table.descriptor().bytes / 2).sum()
}

/// The first key behind `end`; `None` if there is none.
pub(super) fn first_after(end: &KeyEnd) -> Option<Box<[u8]>> {
    match end {
        KeyEnd::Included(last) => Some([last, &[0][..]].concat().into()),
        KeyEnd::Excluded(end) => Some(end.clone()),
        KeyEnd::Unbounded => None,
    }
}
/// Moves the next piece of the runs up to `sealed` down; seals all runs first if there is none of
/// these.
pub(super) fn drain(picture: &Picture<'_>, runs: &[Arc<Run>], sealed: RunId, reason: Reason) -> Option<Plan> {
    let level = runs.first()?.level();
    let draining = runs.last()?.id() <= sealed;
    let seals = if draining { sealed } else { runs.first()?.id() };
    let sealed = runs.iter().filter(|run| run.id() <= seals).collect();
    let cut = Cut::new(picture, sealed, (level + 1, picture.target_run(level + 1))).around_damage();
    let intent = Intent {
        reason: if draining { Reason::Drain } else { reason },
        seals: Some(seals),
        may_move: !picture.held.rewrites(runs),
    };
    Some(cut.plan(cut.first_range(&[])?, intent))
}

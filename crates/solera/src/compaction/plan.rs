//! One piece of work, decided and not yet done.
//!
//! Owns [`Plan`] and [`InFlight`], the plans that are being carried out. `pick` and `sweep` make plans,
//! `job` carries them out, and [`Plan::edit`] says what the result does to the tree.
//!
//! A plan takes all versions of the keys in a range out of some runs, the sources, and puts them into one
//! run, the target, merged with what the target holds there.
//!
//! What must hold (invariant R, docs/decisions/0002): in the range of the plan, **no run that the plan
//! leaves alone is newer than its target and older than one of its sources**. Then for no key an older
//! version comes to lie above a newer one. [`Plan::unsound`] says so, and is asserted where plans are
//! made and again where they are installed. The sources of every plan are the oldest runs of their level
//! without a gap, which gives this for free.

use super::{
    patience::{is_paid, rent_ns},
    pick::{are_small, is_little, target_run},
    shape::{RUN_LIMIT, Shape},
    transition::{Transition, Turn},
};
use crate::{
    error::Error,
    ids::{FileId, RunId},
    key::KeyRange,
    stats::{LevelCounters, MergeCounter, Stats},
    table::TableDescriptor,
    version::{Added, Removed, Run, TableRef, TreeEdit, Version},
};
use std::{borrow::Cow, collections::BTreeMap, fmt, sync::Arc};

/// A run that gives up its keys in the plan's range.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its level.
    pub level: u32,
    /// Its id.
    pub run: RunId,
    /// Its tables in the range, clipped to it.
    pub tables: Vec<TableRef>,
}

/// The run that takes them.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its level.
    pub level: u32,
    /// Its id; it need not exist yet.
    pub run: RunId,
    /// Its tables that overlap the range, as a whole: they are written anew.
    pub tables: Vec<TableRef>,
}

/// Why a plan was made.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// Level 0 has as many runs as it may.
    Runs {
        /// How many it has.
        count: usize,
        /// How many it may have.
        limit: u32,
    },
    /// Reads have paid for the merge of level 0.
    Paid {
        /// How many runs it has.
        count: usize,
    },
    /// The level holds as many bytes as it may.
    Bytes {
        /// How many it holds.
        bytes: u64,
        /// How many it may hold.
        capacity: u64,
    },
    /// The level filled up before and is being emptied.
    Drain,
    /// Changes of the run limit left more runs than any limit allows.
    Excess {
        /// How many runs the level has.
        count: usize,
    },
    /// Level 0 is due, but its runs are too small to be worth a merge downwards.
    Gather,
    /// Somebody asked for it.
    Requested,
}

/// Counts tables that were written to `level`.
pub fn count_written(level: u32, tables: &[TableDescriptor], stats: &Stats) {
    for table in tables {
        stats.add_merged(level, MergeCounter::BytesIn, table.bytes);
        stats.add_merged(level, MergeCounter::EntriesIn, table.entries);
    }
}

/// What to move where. Made from a version, valid as long as the plans that run beside it are known to
/// the [`InFlight`] that it was picked with.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The keys that leave the sources.
    pub range: KeyRange,
    /// The runs that they leave, newest first. May be empty: then the target's tables are written anew.
    pub sources: Vec<Source>,
    /// The run that they enter.
    pub target: Target,
    /// The tables need not be read or written: they change their run as they are.
    pub moves: bool,
    /// Nothing older than the target lies below: what only hides older entries can go.
    pub drops_tombstones: bool,
    /// From now on these runs of the sources' level take no more data: this one and all older ones.
    pub seals: Option<RunId>,
    /// Why.
    pub reason: Reason,
}

impl Plan {
    /// All keys that are read or written: the range and the target's tables.
    pub fn hull(&self) -> KeyRange {
        self.target.tables.iter().fold(self.range.clone(), |hull, table| hull.hull(table.clip()))
    }

    /// Bytes that leave the sources, estimated.
    pub fn source_bytes(&self) -> u64 {
        self.sources.iter().flat_map(|source| &source.tables).map(TableRef::bytes).sum()
    }

    /// Bytes of the target that are written anew.
    pub fn target_bytes(&self) -> u64 {
        self.target.tables.iter().map(TableRef::bytes).sum()
    }

    /// Bytes that carrying out the plan reads, and about as many that it writes: 0 for a move.
    pub fn work_bytes(&self) -> u64 {
        if self.moves { 0 } else { self.source_bytes() + self.target_bytes() }
    }

    /// Counts what carrying the plan out did, `outputs` being the tables that it wrote.
    pub fn count(&self, outputs: &[TableDescriptor], stats: &Stats) {
        let target = self.target.level;
        if self.moves {
            return stats.add_merged(target, MergeCounter::BytesMovedIn, self.source_bytes());
        }
        let sources = self.sources.iter().map(|source| (source.level, &source.tables));
        for (level, tables) in sources.chain([(target, &self.target.tables)]) {
            for table in tables {
                stats.add_merged(level, MergeCounter::BytesOut, table.bytes());
                stats.add_merged(level, MergeCounter::EntriesOut, table.entries());
            }
        }
        count_written(target, outputs, stats);
    }

    /// What the plan does to the tree as it stands when `outputs` are written. `current` need not be the
    /// version that the plan was made from: other plans may have been installed since, and may have cut
    /// the same tables elsewhere.
    pub fn edit(&self, current: &Version, outputs: &[TableDescriptor]) -> TreeEdit {
        debug_assert_eq!(self.unsound(current), None);
        let mut edit = TreeEdit::default();
        for source in &self.sources {
            let Some(run) = current.level(source.level).run(source.run) else { continue };
            for table in run.overlapping(&self.range) {
                edit.removed.push(removal(source.level, source.run, table));
                for rest in table.without(&self.range).iter().flatten() {
                    edit.added.push(addition(source.level, source.run, rest));
                }
                if self.moves
                    && let Some(moved) = table.within(&self.range)
                {
                    edit.added.push(addition(self.target.level, self.target.run, &moved));
                }
            }
        }
        let target = &self.target;
        edit.removed.extend(target.tables.iter().map(|table| removal(target.level, target.run, table)));
        let whole = |table: &TableDescriptor| Added::whole(target.level, target.run, table.clone());
        edit.added.extend(outputs.iter().map(whole));
        edit
    }

    /// What is wrong with the plan in `version`, if anything: which run it leaves alone that is newer
    /// than its target, older than one of its sources, and has keys in its range.
    pub fn unsound(&self, version: &Version) -> Option<String> {
        // (level, newest first): the order of age.
        let age = |level: u32, run: RunId| (level, u64::MAX - run.0);
        let newest = self.sources.iter().map(|source| age(source.level, source.run)).min()?;
        let target = age(self.target.level, self.target.run);
        let oldest = self.sources.iter().map(|source| age(source.level, source.run)).max()?;
        if target < oldest {
            return Some(format!("the target run {} is newer than a source: {self}", self.target.run));
        }
        let left_alone = version.runs().iter().find(|run| {
            let age = age(run.level(), run.id());
            newest < age
                && age < target
                && !self.sources.iter().any(|source| (source.level, source.run) == (run.level(), run.id()))
                && !run.overlapping(&self.range).is_empty()
        })?;
        Some(format!("run {} of level {} is left alone: {self}", left_alone.id(), left_alone.level()))
    }

    /// Which keys of which level the plan needs for itself.
    fn claims(&self) -> impl Iterator<Item = (u32, KeyRange)> {
        let sources = self.sources.iter().map(|source| (source.level, self.range.clone()));
        sources.chain([(self.target.level, self.hull())])
    }
}

fn removal(level: u32, run: RunId, table: &TableRef) -> Removed {
    Removed { level, run, file: table.id(), clip_start: table.clip().start.clone() }
}

fn addition(level: u32, run: RunId, table: &TableRef) -> Added {
    Added { level, run, descriptor: TableDescriptor::clone(table.descriptor()), clip: table.clip().clone() }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables = |f: &mut fmt::Formatter<'_>, tables: &[TableRef]| {
            tables.iter().try_for_each(|table| write!(f, " {table}"))
        };
        write!(f, "{} {}", if self.moves { "move" } else { "merge" }, self.range)?;
        for source in &self.sources {
            write!(f, " from level {} run {} (", source.level, source.run)?;
            tables(f, &source.tables)?;
            f.write_str(" )")?;
        }
        write!(f, " into level {} run {} (", self.target.level, self.target.run)?;
        tables(f, &self.target.tables)?;
        write!(f, " ): {} + {} bytes, {}", self.source_bytes(), self.target_bytes(), self.reason)?;
        if self.drops_tombstones { f.write_str(", drops tombstones") } else { Ok(()) }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Runs { count, limit } => write!(f, "{count} runs of {limit}"),
            Reason::Paid { count } => write!(f, "reads have paid for {count} runs"),
            Reason::Bytes { bytes, capacity } => write!(f, "{bytes} bytes of {capacity}"),
            Reason::Drain => f.write_str("draining"),
            Reason::Excess { count } => write!(f, "{count} runs are too many"),
            Reason::Gather => f.write_str("small runs"),
            Reason::Requested => f.write_str("requested"),
        }
    }
}

/// Names a running plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

/// The plans of one tree that are being carried out, which runs are sealed and which tables are damaged.
/// Not on disk: after a restart nothing runs, a level that was being drained goes on filling until it is
/// full again, and damage is found again.
#[derive(Debug, Default)]
pub struct InFlight {
    running: Vec<Running>,
    next_ticket: u64,
    /// By level: runs up to this id take no more data.
    sealed: Vec<RunId>,
    /// By level: a run limit that is in force until its runs up to one are gone (lazy transitions).
    held: BTreeMap<u32, Turn>,
    /// By level: runs up to this id are rewritten on their way down (greedy transitions).
    rewritten: BTreeMap<u32, RunId>,
    /// Tables that a plan could not read, and why. `pick` leaves them alone.
    damaged: BTreeMap<FileId, Error>,
    /// When level 0 is due, as it was last weighed.
    level0_due: Level0Due,
    /// What reads had paid for runs of level 0, in nanoseconds, when one of these was last merged, or when there last was no
    /// merge to be spared.
    settled_ns: u64,
    /// There was none when that was last looked at, or it was under way.
    is_rent_free: bool,
    /// The runs of level 0 when that was last looked at.
    level0_runs: Vec<RunId>,
    /// Somebody waits for level 0, which waits for reads: its next merge need not be paid.
    hurried: bool,
}

/// When level 0 is due.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Level0Due {
    /// When it comes to its run limit.
    #[default]
    AtLimit,
    /// When it comes to so many runs, more than its limit, or reads have paid for its merge.
    At(u32),
    /// Now, however few runs it has: reads have paid for its merge.
    Paid,
}

#[derive(Debug)]
struct Running {
    ticket: Ticket,
    claims: Vec<(u32, KeyRange)>,
    source_level: Option<u32>,
    source_bytes: u64,
}

impl InFlight {
    /// Nothing runs, nothing is sealed.
    pub fn new() -> InFlight {
        InFlight::default()
    }

    /// How many plans run.
    pub fn len(&self) -> usize {
        self.running.len()
    }

    /// Whether no plan runs.
    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// `plan` begins. Until [`InFlight::finish`], no plan is picked that could collide with it.
    pub fn start(&mut self, plan: &Plan) -> Ticket {
        debug_assert!(plan.claims().all(|(level, range)| !self.claimed(level, &range)), "{plan}");
        let source_level = plan.sources.first().map(|source| source.level);
        if let (Some(level), Some(run)) = (source_level, plan.seals) {
            self.seal(level, run);
        }
        self.run(plan.claims().collect(), source_level, plan.source_bytes())
    }

    fn seal(&mut self, level: u32, run: RunId) {
        if self.sealed.len() <= level as usize {
            self.sealed.resize(level as usize + 1, RunId(0));
        }
        let sealed = &mut self.sealed[level as usize];
        *sealed = run.max(*sealed);
    }

    /// The run limit of a level was changed, or is about to be.
    pub fn turn(&mut self, turn: Turn) {
        if turn.transition != Transition::Lazy {
            self.held.remove(&turn.level);
            self.rewritten.remove(&turn.level);
        }
        match turn.transition {
            Transition::Flexible => {}
            Transition::Greedy => {
                self.rewritten.insert(turn.level, turn.newest);
                self.seal(turn.level, turn.newest);
            }
            // What has been in force for longest stays so.
            Transition::Lazy => drop(self.held.entry(turn.level).or_insert(turn)),
        }
    }

    /// The run limit that is in force still in the level of `runs`, all that it has, though another is wanted.
    pub(super) fn held(&self, runs: &[Arc<Run>]) -> Option<u32> {
        let oldest = runs.last()?;
        self.held.get(&oldest.level()).filter(|turn| oldest.id() <= turn.newest).map(|turn| turn.run_limit)
    }

    /// Whether the oldest of `runs`, all that a level has, are to be rewritten on their way down, even where they could be
    /// moved as they are.
    pub(super) fn rewrites(&self, runs: &[Arc<Run>]) -> bool {
        let oldest = runs.last();
        oldest.is_some_and(|run| self.rewritten.get(&run.level()).is_some_and(|newest| run.id() <= *newest))
    }

    /// Says when level 0 is due if it is worth `patience` runs to spare its merge: at once if `reads`, all that reads ever did
    /// there, have paid for it, else not before it has so many. A patience of no more than its run limit is none.
    pub fn weigh(&mut self, version: &Version, shape: &Shape, patience: u32, reads: &LevelCounters) {
        let (runs, limit) = (version.level(0).runs(), shape.run_limit(0));
        self.level0_due = Level0Due::AtLimit;
        if patience <= limit {
            self.is_rent_free = true;
            return;
        }
        let rent_ns = rent_ns(reads);
        let is_merged = self.level0_runs.iter().any(|&run| runs.iter().all(|at| at.id() != run));
        if self.is_rent_free || is_merged {
            self.settled_ns = rent_ns;
            self.hurried = false;
        }
        self.level0_runs.clear();
        self.level0_runs.extend(runs.iter().map(|run| run.id()));

        let is_draining = runs.last().is_some_and(|oldest| oldest.id() <= self.sealed(0));
        let is_full = runs.len() >= limit as usize;
        let bytes = self.level0_merge_bytes(version, shape);
        self.is_rent_free = bytes == 0 || is_draining;
        let is_due_when_full = self.is_rent_free || (is_full && (self.hurried || are_small(runs, shape)));
        if !is_due_when_full && runs.len() < patience as usize {
            self.level0_due = match is_paid(rent_ns.saturating_sub(self.settled_ns), bytes) {
                true => Level0Due::Paid,
                false => Level0Due::At(patience),
            };
        }
    }

    /// Bytes that a merge of level 0 concerns: its own and those of level 1 that they overlap; 0 if its tables can move down
    /// as they are. Small runs are merged with each other, and one alone is not.
    fn level0_merge_bytes(&self, version: &Version, shape: &Shape) -> u64 {
        let runs = version.level(0).runs();
        if is_little(runs, shape) {
            return if runs.len() > 1 { version.level(0).bytes() } else { 0 };
        }
        let target = version.level(1).run(target_run(version, shape, self, 1));
        let mut ranges: Vec<KeyRange> = runs.iter().map(|run| run.range()).collect();
        ranges.sort_by(|a, b| a.start.cmp(&b.start));
        let overlapped: u64 = match (target, ranges.iter().cloned().reduce(|a, b| a.hull(&b))) {
            (Some(run), Some(hull)) => run.overlapping(&hull).iter().map(TableRef::bytes).sum(),
            _ => 0,
        };
        match overlapped == 0 && ranges.array_windows().all(|[a, b]| !a.overlaps(b)) {
            true => 0,
            false => version.level(0).bytes() + overlapped,
        }
    }

    /// If level 0 has come to its run limit and waits for reads, it is not to wait any longer: somebody waits for it.
    pub fn hurry(&mut self, version: &Version, shape: &Shape) {
        self.hurried |= self.level0_waits() && version.level(0).runs().len() >= shape.run_limit(0) as usize;
    }

    /// Whether level 0 would be due if reads had paid for its merge.
    pub fn level0_waits(&self) -> bool {
        matches!(self.level0_due, Level0Due::At(_))
    }

    /// Why level 0 of `runs` runs is due, and how badly; below 1 it is not.
    pub(super) fn level0_score(&self, shape: &Shape, runs: usize) -> (f64, Reason) {
        let limit = match self.level0_due {
            Level0Due::At(patience) => patience,
            Level0Due::AtLimit | Level0Due::Paid => shape.run_limit(0),
        };
        let full = runs as f64 / f64::from(limit);
        match self.level0_due {
            Level0Due::Paid if full < 1.0 => (1.0, Reason::Paid { count: runs }),
            _ => (full, Reason::Runs { count: runs, limit }),
        }
    }

    /// The shape that is in force where `wanted` is wanted.
    pub fn in_force<'s>(&self, version: &Version, wanted: &'s Shape) -> Cow<'s, Shape> {
        let mut shape = Cow::Borrowed(wanted);
        for &level in self.held.keys() {
            if let Some(limit) = self.held(version.level(level).runs()) {
                shape.to_mut().set(&RUN_LIMIT, Some(level), limit.into());
            }
        }
        shape
    }

    /// Tables with keys of `range` are about to enter `level` from outside.
    pub(super) fn enter(&mut self, level: u32, range: &KeyRange) -> Ticket {
        self.run(vec![(level, range.clone())], None, 0)
    }

    fn run(&mut self, claims: Vec<(u32, KeyRange)>, source_level: Option<u32>, source_bytes: u64) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.running.push(Running { ticket, claims, source_level, source_bytes });
        ticket
    }

    /// The plan is installed, or given up.
    pub fn finish(&mut self, ticket: Ticket) {
        self.running.retain(|running| running.ticket != ticket);
    }

    /// Runs of `level` up to this id are being emptied and take no more data.
    pub fn sealed(&self, level: u32) -> RunId {
        self.sealed.get(level as usize).copied().unwrap_or_default()
    }

    /// Notes that a table of `plan` cannot be read, if `error` says so. From now on `pick` makes its plans
    /// around the table; the version that the tree has then forgets it once it is gone.
    pub fn note_damage(&mut self, plan: &Plan, error: &Error) -> bool {
        let Error::Corrupt { file, .. } = error else { return false };
        let tables = plan.sources.iter().flat_map(|source| &source.tables).chain(&plan.target.tables);
        let damaged = tables.filter(|table| table.file().path() == file).map(TableRef::id).next();
        damaged.is_some_and(|table| {
            self.damaged.insert(table, error.clone());
            true
        })
    }

    /// Tables that could not be read, and why.
    pub fn damaged(&self) -> &BTreeMap<FileId, Error> {
        &self.damaged
    }

    /// Forgets damaged tables that `version` does not have any more.
    pub fn forget_replaced(&mut self, version: &Version) {
        if !self.damaged.is_empty() {
            self.damaged.retain(|damaged, _| version.tables().any(|table| table.id() == *damaged));
        }
    }

    /// Bytes that running plans are taking out of `level`.
    pub fn leaving_bytes(&self, level: u32) -> u64 {
        let from = self.running.iter().filter(|running| running.source_level == Some(level));
        from.map(|running| running.source_bytes).sum()
    }

    /// Whether a running plan needs keys of `range` in `level` for itself.
    pub fn claimed(&self, level: u32, range: &KeyRange) -> bool {
        self.claims(level).any(|claim| claim.overlaps(range))
    }

    /// What running plans need of `level` for themselves.
    pub(super) fn claims(&self, level: u32) -> impl Iterator<Item = &KeyRange> {
        let claims = self.running.iter().flat_map(|running| &running.claims);
        claims.filter(move |(at, _)| *at == level).map(|(_, range)| range)
    }
}

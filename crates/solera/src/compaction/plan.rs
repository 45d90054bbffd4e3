//! One piece of work, decided and not yet done: `Plan`, with its `Source`s, `Target`, `Work` and
//! `Reason`.
//!
//! A plan takes all versions of the keys of a range out of the source runs. It puts them into the
//! target run, merged with what that holds there. `Work` says how: tables move, are merged, or are
//! dropped unread. `edit` says what the result does to the tree; `claims` says which keys it needs
//! for itself.
//!
//! What must hold (invariant R): no run between the ages of its target and a source, with keys of
//! its range, is left alone. The target is older than all sources, but for a plan that lifts. Then
//! no older version comes to lie above a newer one. `unsound` tests it, where plans are made and
//! where `edit` installs them.
//!
//! Callers: `cut`, `space` and `key_list` make plans, `claims` and `damage` read them, `job`
//! carries them out, `engine::jobs` installs and counts them (`count`). `engine::flushing` and
//! `engine::ingest` use `count_written`.

use crate::{
    canary::{Bug, planted},
    ids::RunId,
    key::KeyRange,
    stats::{MergeCounter, Stats},
    table::TableDescriptor,
    version::{Added, Removed, TableRef, TreeEdit, Version},
};
use std::fmt;

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
    /// A user asked for it.
    Requested,
    /// Value files are to be emptied to which its tables may point.
    Reclaim,
    /// So many bytes of what is merged are, by what is known, of no use to any reader.
    Space {
        /// How many.
        bytes: u64,
        /// How many the plan concerns.
        of: u64,
    },
    /// No reader sees any entry of the tables.
    Useless,
    /// The shape needs no level below this one any more.
    Surplus {
        /// The last level that it needs.
        last: u32,
    },
}

/// Counts tables that were written to `level`.
pub fn count_written(level: u32, tables: &[TableDescriptor], stats: &Stats) {
    for table in tables {
        stats.add_merged(level, MergeCounter::BytesIn, table.bytes);
        stats.add_merged(level, MergeCounter::EntriesIn, table.entries);
    }
}

/// How a plan is carried out. Other kinds of work (rewriting what is mostly garbage, moving values
/// to another file) are further variants. The code that carries plans out and the code that counts
/// them have one `match` each to extend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// The tables are neither read nor written: they change their run as they are.
    Move,
    /// The tables of sources and target are read, merged, and written anew.
    Merge,
    /// The tables of the target leave the tree, and nothing takes their place. They are not read.
    Drop,
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Work::Move => "move",
            Work::Merge => "merge",
            Work::Drop => "drop",
        })
    }
}

/// What to move where. Made from a [`Picture`](super::Picture), and valid as long as its claims are
/// known to the [`Ledger`](super::Ledger) that the picture was taken from.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The keys that leave the sources.
    pub range: KeyRange,
    /// The runs that they leave, newest first. May be empty: then the target's tables are written
    /// anew. Where some lie deeper than the target, the target may be one of them.
    pub sources: Vec<Source>,
    /// The run that they enter.
    pub target: Target,
    /// How it is carried out.
    pub work: Work,
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

    /// Bytes that carrying out the plan reads, and about as many that it writes: 0 if it reads no
    /// table.
    pub fn work_bytes(&self) -> u64 {
        match self.work {
            Work::Move | Work::Drop => 0,
            Work::Merge => self.source_bytes() + self.target_bytes(),
        }
    }

    /// Counts what carrying the plan out did, `outputs` being the tables that it wrote.
    pub fn count(&self, outputs: &[TableDescriptor], stats: &Stats) {
        let target = self.target.level;
        match self.work {
            Work::Move => return stats.add_merged(target, MergeCounter::BytesMovedIn, self.source_bytes()),
            Work::Drop => return,
            Work::Merge => {}
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

    /// What the plan does to the tree as it stands when `outputs` are written. `current` need not
    /// be the version that the plan was made from: other plans may have been installed since, and
    /// may have cut the same tables elsewhere.
    pub fn edit(&self, current: &Version, outputs: &[TableDescriptor]) -> TreeEdit {
        self.assert_sound(current);
        let mut edit = TreeEdit::default();
        for source in &self.sources {
            let Some(run) = current.level(source.level).run(source.run) else { continue };
            for table in run.overlapping(&self.range) {
                edit.removed.push(removal(source.level, source.run, table));
                for rest in table.without(&self.range).iter().flatten() {
                    edit.added.push(addition(source.level, source.run, rest));
                }
                if self.work == Work::Move
                    && let Some(moved) = table.within(&self.range)
                {
                    edit.added.push(addition(self.target.level, self.target.run, &moved));
                }
            }
        }
        let target = &self.target;
        let target_now = current.level(target.level).run(target.run);
        let is_there = |table: &TableRef| {
            target_now.is_some_and(|run| run.tables().iter().any(|now| now.is_same_part(table)))
        };
        assert!(
            target.tables.iter().all(is_there),
            "the target of a plan has changed: {self}, in\n{current}"
        );
        edit.removed.extend(target.tables.iter().map(|table| removal(target.level, target.run, table)));
        let whole = |table: &TableDescriptor| Added::whole(target.level, target.run, table.clone());
        edit.added.extend(outputs.iter().map(whole));
        edit
    }

    /// Stops if the plan is not sound in `version`: to carry it out would let old entries hide
    /// newer ones.
    pub(super) fn assert_sound(&self, version: &Version) {
        if let Some(what) = self.unsound(version)
            && !planted(Bug::StaleAboveTier)
        {
            panic!("a plan is not sound: {what}, in\n{version}");
        }
    }

    /// Whether it takes keys up: some source lies in a deeper level than the target.
    fn lifts(&self) -> bool {
        self.sources.iter().any(|source| source.level > self.target.level)
    }

    /// The deepest level that it touches: where all of its keys may have lain.
    pub fn deepest_level(&self) -> u32 {
        self.sources.iter().map(|source| source.level).fold(self.target.level, u32::max)
    }

    /// What is wrong with the plan in `version`, if anything: which run it leaves alone that is
    /// newer than its target, older than one of its sources, and has keys in its range. A plan that
    /// lifts takes no table of the target's own, and leaves no run alone down to its oldest source.
    pub fn unsound(&self, version: &Version) -> Option<String> {
        // (level, newest first): the order of age.
        let age = |level: u32, run: RunId| (level, u64::MAX - run.0);
        let newest = self.sources.iter().map(|source| age(source.level, source.run)).min()?;
        let target = age(self.target.level, self.target.run);
        let oldest = self.sources.iter().map(|source| age(source.level, source.run)).max()?;
        let lifts = self.lifts() && self.target.tables.is_empty();
        if target < oldest && !lifts {
            return Some(format!("the target run {} is newer than a source: {self}", self.target.run));
        }
        let is_passed = |age| match lifts {
            // The target too must give up what it has of the range, as a source.
            true => newest.min(target) <= age && age < oldest,
            false => newest < age && age < target,
        };
        let left_alone = version.runs().iter().find(|run| {
            is_passed(age(run.level(), run.id()))
                && !self.sources.iter().any(|source| (source.level, source.run) == (run.level(), run.id()))
                && !run.overlapping(&self.range).is_empty()
        })?;
        Some(format!("run {} of level {} is left alone: {self}", left_alone.id(), left_alone.level()))
    }

    /// Which keys of which level the plan needs for itself: those on the way up too.
    pub(super) fn claims(&self) -> impl Iterator<Item = (u32, KeyRange)> {
        let sources = self.sources.iter().map(|source| (source.level, self.range.clone()));
        let passed = (self.target.level + 1..=self.deepest_level()).map(|level| (level, self.range.clone()));
        sources.chain(passed).chain([(self.target.level, self.hull())])
    }

    /// The level that it takes bytes out of; none if they come into its own.
    pub(super) fn source_level(&self) -> Option<u32> {
        self.sources.first().map(|source| source.level).filter(|_| !self.lifts())
    }
}

fn removal(level: u32, run: RunId, table: &TableRef) -> Removed {
    Removed { level, run, file: table.id(), clip_start: table.clip().start.clone() }
}

fn addition(level: u32, run: RunId, table: &TableRef) -> Added {
    Added { level, run, descriptor: TableDescriptor::clone(table.descriptor()), clip: table.clip().clone() }
}

/// ` run 3 (7 8)`, the tables by their files.
fn write_run(f: &mut fmt::Formatter<'_>, run: RunId, tables: &[TableRef]) -> fmt::Result {
    write!(f, " run {run}")?;
    for (at, table) in tables.iter().enumerate() {
        write!(f, "{}{table}", if at == 0 { " (" } else { " " })?;
    }
    f.write_str(if tables.is_empty() { "" } else { ")" })
}

impl fmt::Display for Plan {
    /// One line: what moves from where to where, the bytes of both, why, and what else comes of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.work, self.range)?;
        for (at, source) in self.sources.iter().enumerate() {
            match at {
                0 => write!(f, " from level {}", source.level)?,
                _ if source.level == self.sources[at - 1].level => f.write_str(",")?,
                _ => write!(f, ", level {}", source.level)?,
            }
            write_run(f, source.run, &source.tables)?;
        }
        let into = if self.work == Work::Drop { "of" } else { "into" };
        write!(f, " {into} level {}", self.target.level)?;
        write_run(f, self.target.run, &self.target.tables)?;
        write!(f, ": {} + {} bytes; {}", self.source_bytes(), self.target_bytes(), self.reason)?;
        if self.drops_tombstones && self.work == Work::Merge {
            f.write_str("; drops tombstones")?;
        }
        match (self.seals, self.sources.first()) {
            (Some(run), Some(source)) => write!(f, "; seals level {} up to run {run}", source.level),
            _ => Ok(()),
        }
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
            Reason::Reclaim => f.write_str("values leave their files"),
            Reason::Space { bytes, of } => write!(f, "{bytes} bytes of {of} are of no use"),
            Reason::Useless => f.write_str("nobody sees them"),
            Reason::Surplus { last } => write!(f, "no level below {last} is needed"),
        }
    }
}

//! One keyspace's log-structured merge tree: memtables, tables, settings, and one view of them.
//! Owns `Tree` and `View`. A `View` is immutable but for the active memtable. `seal`, `install` and
//! `use_settings` make the next view under a lock and exchange it whole; readers take it by
//! `view()` without a lock. `written_since` answers a transaction's check, `level_filters` the
//! filters of new tables, `stall` how a writer is slowed. `View::frees_space` says whether a flush
//! would be worth it before the memtable is full.
//! What must hold:
//! - A view lists sources newest first; every version of a key in a newer source is newer
//!   (invariant R, docs/decisions/0002). So a reader stops at the first version that it sees.
//! - What `install` and `use_settings` show is durable already. `seal` runs under the commit lock,
//!   or in an open, before there are writers.
//!
//! Callers: `engine` changes trees; `db` reads; `control` looks.

mod gaps;
mod heat;
mod lengths;
mod misses;
mod read;
mod rests;
mod scan;
mod settings;
pub mod stall;

pub use heat::{Heat, Sample};
pub use lengths::{Lengths, Onward};
pub use read::Outcome;
pub use rests::Spare;
pub use scan::{Source, Walk, value_of};
pub use settings::{SEPARATE_ALL_FROM, SEPARATE_NONE, Settings};

use crate::{
    compaction::LevelFilters,
    cursor::Cursor,
    error::Result,
    filter::Filters,
    ids::{KeyspaceId, SEQNO_MAX, Seqno},
    key::{KeyEnd, KeyRange},
    memtable::{Holdings, Memtable},
    merge::visible::{
        Backward, Forward,
        gaps::{Eye, Gaps, Room},
    },
    operator::MergeOperator,
    stats::Counter,
    sync::{
        ArcSwap, Guard, Mutex,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    table::{Access, TableContext},
    values::ValueFiles,
    version::Version,
};
use misses::RecentMisses;
use rests::{Rested, Rests};
use stall::{Backlog, Stall};
use std::{
    fmt,
    sync::{Arc, OnceLock},
};

/// Deletes in memory that hide more than one part in so many of the tables are flushed.
const HIDDEN_SHARE: u64 = 5;
/// Commits that delete ranges look at all deleted ranges while there are so many or fewer, then one
/// commit in so many does.
const RANGES_LOOKED_AT: usize = 32;

/// A keyspace that can be used, one that was dropped, and one whose database was closed.
const OPEN: u8 = 0;
const DROPPED: u8 = 1;
const CLOSED: u8 = 2;

/// Everything a reader needs, immutable but for the active memtable's growth.
pub struct View {
    /// The memtable that takes writes.
    pub active: Arc<Memtable>,
    /// Full memtables that wait to be flushed, newest first.
    pub sealed: Vec<Arc<Memtable>>,
    /// The tables.
    pub version: Arc<Version>,
    /// What the tree is kept like from now on.
    pub settings: Arc<Settings>,
}

impl View {
    /// The memtables, newest first.
    pub fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(&self.sealed)
    }

    /// Bytes in all memtables.
    pub fn memtable_bytes(&self) -> u64 {
        self.memtables().map(|memtable| memtable.bytes() as u64).sum()
    }

    /// Whether a flush of the active memtable frees space, so that compaction should have it before
    /// it is full: it covers whole tables, or hides more than a write buffer of `limit` bytes.
    /// Deleted ranges count if they are to be looked at. Never while another memtable waits: it is
    /// asked again when work has ended.
    pub fn frees_space(&self, limit: u64, looks_at_ranges: bool) -> bool {
        let covered = if looks_at_ranges { self.covered() } else { Covered::default() };
        self.covers_tables(covered) || self.hides(covered) >= limit
    }

    /// Whether a commit that deletes ranges looks at what they cover: always while there are few,
    /// then now and then, since each look is at all of them.
    pub fn is_to_look_at_ranges(&self) -> bool {
        let ranges = self.active.tombstones().len();
        ranges <= RANGES_LOOKED_AT || ranges.is_multiple_of(RANGES_LOOKED_AT)
    }

    /// Whether the ranges that the active memtable deletes cover whole tables of as many bytes as a
    /// flush of it would write. No job has to read those to be rid of them.
    pub fn covers_tables(&self, covered: Covered) -> bool {
        covered.tables > 0 && covered.tables >= self.active.bytes() as u64
    }

    /// How many bytes of the tables and their values the deletes of the active memtable hide, by
    /// the mean size of what is of one key, and the ranges. Nothing if it is less than a fifth of
    /// all.
    pub fn hides(&self, covered: Covered) -> u64 {
        let deletes = self.active.deletes() as u64;
        if (deletes == 0 && covered.bytes == 0) || !self.sealed.is_empty() {
            return 0;
        }
        let tables = self.version.bytes();
        let bytes = tables + self.version.values().bytes();
        let entries = deletes as f64 / self.version.keys().max(1) as f64;
        let share = entries + covered.bytes as f64 / tables.max(1) as f64;
        let hidden = (share.min(1.0) * bytes as f64) as u64;
        if hidden < bytes / HIDDEN_SHARE { 0 } else { hidden }
    }

    /// What the ranges that the active memtable deletes cover; nothing while another waits.
    pub fn covered(&self) -> Covered {
        let mut covered = Covered::default();
        if !self.active.has_range_tombstones() || !self.sealed.is_empty() {
            return covered;
        }
        for (start, end) in self.active.tombstones().covers() {
            let range = KeyRange::half_open(start, end);
            for table in self.version.runs().iter().flat_map(|run| run.overlapping(&range)) {
                if range.covers(table.clip()) {
                    covered.tables += table.bytes();
                    covered.bytes += table.bytes();
                } else {
                    covered.bytes += table.bytes_within(&range);
                }
            }
        }
        covered
    }

    /// Smallest sequence number that is in no table yet.
    pub fn oldest_unflushed(&self) -> Option<Seqno> {
        self.sealed.iter().rev().chain([&self.active]).find_map(|memtable| memtable.first_seqno())
    }
}

/// What deleted ranges cover of a tree's tables, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Covered {
    /// Of whole tables.
    pub tables: u64,
    /// Of all.
    pub bytes: u64,
}

/// One keyspace's tree.
pub struct Tree {
    /// The keyspace's number.
    pub id: KeyspaceId,
    /// The keyspace's name.
    pub name: String,
    /// What its tables share: files, cache, counters.
    pub context: Arc<TableContext>,
    /// Where values lie that are kept apart from their entries.
    pub values: Arc<ValueFiles>,
    /// Where walks have lately read values out of logs.
    pub heat: Heat,
    /// How far walks have lately gone that had to wait for values.
    pub lengths: Lengths,
    /// Where the memory of its memtables counts.
    holdings: Arc<Holdings>,
    operator: OnceLock<Arc<dyn MergeOperator>>,
    /// Stands in for an operator that is recorded and was not given when the database was opened.
    not_given: Option<Arc<dyn MergeOperator>>,
    given: ArcSwap<Settings>,
    view: ArcSwap<View>,
    /// Serialises changes of the view; readers never take it.
    changing: Mutex<()>,
    /// Whether it was dropped, or its database closed: [`OPEN`], [`DROPPED`] or [`CLOSED`].
    state: AtomicU8,
    /// From how many bytes on values are kept apart, by the view's settings; for writers.
    separate_from: AtomicU64,
    /// Whether writers are slowed for the view's backlog: most are not, and need not look at it.
    slows_writers: AtomicBool,
    misses: Mutex<RecentMisses>,
    /// Where walks found nothing.
    gaps: Gaps,
    /// Walkers over the present view that no walk uses.
    rests: Rests,
    /// When reads last looked whether they have paid for the merge of level 0.
    looked_ns: AtomicU64,
    /// Whether levels that the shape needs no more wait until reads have paid for their merge.
    surplus_waits: AtomicBool,
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}

impl Tree {
    /// A tree over `version`, kept as `given`.
    pub fn new(
        id: KeyspaceId,
        name: String,
        given: Arc<Settings>,
        operator: Option<Arc<dyn MergeOperator>>,
        context: Arc<TableContext>,
        values: Arc<ValueFiles>,
        (holdings, room): (Arc<Holdings>, Arc<Room>),
        version: Version,
    ) -> Self {
        let separate_from = AtomicU64::new(given.bytes_separated());
        let (operator, not_given) = match operator {
            Some(operator) if !operator.is_given() => (None, Some(operator)),
            operator => (operator, None),
        };
        let view = View {
            active: Memtable::counted(&holdings),
            sealed: Vec::new(),
            version: Arc::new(version),
            settings: given.clone(),
        };
        Tree {
            id,
            name,
            given: ArcSwap::new(given),
            context,
            values,
            holdings,
            heat: Heat::default(),
            lengths: Lengths::default(),
            operator: operator.map_or_else(OnceLock::new, OnceLock::from),
            not_given,
            slows_writers: AtomicBool::new(Backlog::of(&view).slows()),
            view: ArcSwap::from_pointee(view),
            changing: Mutex::new(()),
            state: AtomicU8::new(OPEN),
            separate_from,
            misses: Mutex::default(),
            gaps: Gaps::counted(room),
            rests: Rests::default(),
            looked_ns: AtomicU64::new(0),
            surplus_waits: AtomicBool::new(false),
        }
    }

    /// Whether `period_ns` have passed at `now_ns` since this last said so, of all threads to one.
    pub fn is_time_to_look(&self, now_ns: u64, period_ns: u64) -> bool {
        let last = self.looked_ns.load(Ordering::Relaxed);
        let is_time = now_ns.wrapping_sub(last) >= period_ns;
        is_time && self.looked_ns.compare_exchange(last, now_ns, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Whether surplus levels wait for reads, as was last noted.
    pub fn surplus_waits(&self) -> bool {
        self.surplus_waits.load(Ordering::Relaxed)
    }

    /// Notes whether surplus levels wait for reads.
    pub fn note_surplus(&self, waits: bool) {
        if self.surplus_waits() != waits {
            self.surplus_waits.store(waits, Ordering::Relaxed);
        }
    }

    /// How its merge operands fold. Of an operator that was not given, its name, and that it
    /// refuses.
    pub fn operator(&self) -> Option<&Arc<dyn MergeOperator>> {
        self.operator.get().or(self.not_given.as_ref())
    }

    /// Gives a tree that has none, or only its name, its operator. Nothing if it has one.
    pub fn set_operator(&self, operator: Arc<dyn MergeOperator>) {
        let _ = self.operator.set(operator);
    }

    /// What it was given when it was created, opened or last asked for. Its knobs may say
    /// otherwise: what it is kept like now stands in the view.
    pub fn given(&self) -> Arc<Settings> {
        self.given.load_full()
    }

    /// Gives it these. The caller has made them durable, and has them obeyed.
    pub fn give(&self, given: Arc<Settings>) {
        self.given.store(given);
    }

    /// The present view, for the length of one operation: no count is touched.
    #[inline]
    pub fn view(&self) -> Guard<Arc<View>> {
        self.view.load()
    }

    /// The present view, to keep.
    pub fn view_owned(&self) -> Arc<View> {
        self.view.load_full()
    }

    /// The present view, to keep, and perhaps a walker over it.
    pub fn view_to_walk(&self) -> (Arc<View>, Option<Spare>) {
        match self.rests.take(|view| Arc::ptr_eq(view, &self.view.load())) {
            Some(rested) => {
                let (view, spare) = rested.into_parts();
                (view, Some(spare))
            }
            None => (self.view_owned(), None),
        }
    }

    /// No iterator walks any more over `view` by `front` and `back`, in which nothing was added in
    /// front. Of what [`Tree::view_to_walk`] gave, it has not walked by what is `unused`.
    pub fn rest(
        &self,
        view: Arc<View>,
        front: Option<Box<Forward<Source>>>,
        back: Option<Box<Backward<Source>>>,
        unused: Option<Spare>,
    ) {
        if let Some(rested) = Rested::of(view, front, back, unused) {
            self.rests.leave(rested, |view| Arc::ptr_eq(view, &self.view.load()));
        }
    }

    /// Every entry of this keyspace up to this number is in a table.
    pub fn flushed_seqno(&self) -> Seqno {
        self.view.load().version.flushed_seqno()
    }

    /// Whether a value of so many bytes that is written now is kept apart from its entry.
    #[inline]
    pub fn separates(&self, value_len: usize) -> bool {
        value_len as u64 >= self.separate_from.load(Ordering::Relaxed)
    }

    /// Whether the keyspace was dropped.
    pub fn is_dropped(&self) -> bool {
        self.state.load(Ordering::Acquire) == DROPPED
    }

    /// Whether the database was closed.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.state.load(Ordering::Acquire) == CLOSED
    }

    /// Whether the keyspace was dropped or the database closed.
    #[inline]
    pub fn is_gone(&self) -> bool {
        self.state.load(Ordering::Acquire) != OPEN
    }

    /// The database was closed: readers are told so. A keyspace that was dropped stays so.
    pub fn mark_closed(&self) {
        let _ = self.state.compare_exchange(OPEN, CLOSED, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Marks the keyspace as dropped: handles that still point here fail from now on.
    pub fn mark_dropped(&self) {
        self.state.store(DROPPED, Ordering::Release);
    }

    fn change(&self, new_view: impl FnOnce(&View) -> View) {
        let _changing = self.changing.lock();
        let next = new_view(&self.view.load());
        let slows = Backlog::of(&next).slows();
        self.view.store(Arc::new(next));
        self.rests.clear();
        self.slows_writers.store(slows, Ordering::Release);
    }

    /// What to do with a writer of `bytes` under the present backlog.
    #[inline]
    pub fn stall(&self, bytes: u64) -> Stall {
        match self.slows_writers.load(Ordering::Acquire) {
            false => Stall::None,
            true => stall::stall(Backlog::of(&self.view()), bytes),
        }
    }

    /// Puts an empty memtable in front, unless the active one is empty already. The caller holds
    /// the commit lock: no batch is half in one memtable and half in the next.
    pub fn seal(&self) -> bool {
        if self.view.load().active.is_empty() {
            return false;
        }
        self.gaps.forget_unused();
        self.change(|view| View {
            active: Memtable::counted(&self.holdings),
            sealed: std::iter::once(&view.active).chain(&view.sealed).cloned().collect(),
            version: view.version.clone(),
            settings: view.settings.clone(),
        });
        true
    }

    /// Puts an empty memtable in the place of all. For recovery, before any read.
    pub fn empty_memtables(&self) {
        self.change(|view| View {
            active: Memtable::counted(&self.holdings),
            sealed: Vec::new(),
            version: view.version.clone(),
            settings: view.settings.clone(),
        });
    }

    /// Shows readers nothing any more, and returns what they saw. For a tree that is marked as
    /// gone: handles of users may live on for long, and are not to keep tables and memtables. A
    /// reader that takes a view and then asks whether the tree is gone never takes an empty one for
    /// what the keyspace held.
    pub fn give_up(&self) -> Arc<View> {
        let given_up = self.view_owned();
        self.change(|view| View {
            active: Memtable::counted(&self.holdings),
            sealed: Vec::new(),
            version: Arc::new(Version::new()),
            settings: view.settings.clone(),
        });
        given_up
    }

    /// Keeps the tree like this from now on: every decision that comes next obeys it. The caller
    /// has made it durable.
    pub fn use_settings(&self, settings: Arc<Settings>) {
        self.separate_from.store(settings.bytes_separated(), Ordering::Relaxed);
        self.change(|view| View {
            active: view.active.clone(),
            sealed: view.sealed.clone(),
            version: view.version.clone(),
            settings,
        });
    }

    /// Shows readers `version` in the place of `before`, from which it was made. `flushed`
    /// memtables, which the version now holds as tables, leave the view in the same step; the
    /// caller has made the version durable.
    ///
    /// # Panics
    /// * If readers see another version than `before`: what made that one would be lost.
    /// * If `flushed` are not the oldest memtables: a table would be newer than a memtable that
    ///   stays.
    pub fn install(&self, before: &Arc<Version>, version: Arc<Version>, flushed: &[Arc<Memtable>]) {
        self.change(|view| {
            assert!(Arc::ptr_eq(&view.version, before), "an edit is for the version that it was made from");
            let (stay, gone) = view.sealed.split_at(view.sealed.len().saturating_sub(flushed.len()));
            let are_oldest =
                gone.len() == flushed.len() && gone.iter().zip(flushed).all(|(a, b)| Arc::ptr_eq(a, b));
            assert!(are_oldest, "the oldest memtables are flushed first");
            View {
                active: view.active.clone(),
                sealed: stay.to_vec(),
                version,
                settings: view.settings.clone(),
            }
        });
    }

    /// The filters of tables that are written now, if `deepest` is the last level of `view`, or a
    /// deeper one is. `allowed` says how many of the bits that are wanted there may be.
    pub fn level_filters(&self, view: &View, deepest: u32, allowed: impl Fn(f32) -> f32) -> LevelFilters {
        let misses = self.misses.lock().update(self.context.stats.levels());
        let Settings { layout, shape, .. } = &*view.settings;
        let asked = Filters { bits_per_key: allowed(layout.filter.bits_per_key), ..layout.filter };
        let mut filters = LevelFilters::new(&view.version, shape, &asked, &misses, deepest);
        filters.set_bits(|level| view.settings.filter_bits_of(level).map(&allowed));
        filters
    }

    /// Whether anything newer than `since` was written to `key`: what an optimistic transaction
    /// that read it at `since` must know. `since` must be a registered snapshot, or the number may
    /// be elided.
    pub fn written_since(&self, view: &View, key: &[u8], since: Seqno) -> Result<bool> {
        let probe = crate::cursor::Probe { key, hash: crate::key::hash(key), snapshot: SEQNO_MAX };
        for memtable in view.memtables() {
            if memtable.last_seqno().is_none_or(|last| last <= since) {
                continue;
            }
            if memtable.tombstones().covering(key, SEQNO_MAX).is_some_and(|seqno| seqno > since)
                || memtable.lookup(&probe, |hit| hit.seqno > since) == Some(true)
            {
                return Ok(true);
            }
        }
        let guard = crossbeam_epoch::pin();
        for run in view.version.runs() {
            let Some(table_ref) = run.find(key) else { continue };
            if table_ref.descriptor().seqno_max <= since {
                continue;
            }
            let table = table_ref.file().table()?;
            if table.tombstones().covering(key, SEQNO_MAX).is_some_and(|seqno| seqno > since)
                || table.lookup(run.level(), &probe, &guard, |hit| hit.seqno > since)? == Some(true)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// As [`Tree::written_since`], for a whole range, of which it reads all as `eye` sees it. What
    /// walks know to be a gap for it and since is not looked at: deletes there change nothing.
    pub fn range_written_since(&self, view: &View, range: &KeyRange, eye: Eye) -> Result<bool> {
        let mut left = range.clone();
        while !left.is_empty() {
            let gap = self.gaps.any().then(|| self.gaps.unwritten_in(&left, eye)).flatten();
            let end = gap.as_ref().map_or(left.end, |gap| KeyEnd::Excluded(gap.start.clone()));
            let piece = KeyRange { start: left.start, end };
            if !piece.is_empty() && self.piece_written_since(view, &piece, eye.snapshot)? {
                return Ok(true);
            }
            let Some(KeyRange { end: KeyEnd::Excluded(start), .. }) = gap else { return Ok(false) };
            left = KeyRange { start, end: range.end.clone() };
        }
        Ok(false)
    }

    /// The same, but it looks at all of `range`.
    fn piece_written_since(&self, view: &View, range: &KeyRange, since: Seqno) -> Result<bool> {
        let mut passed = 0;
        let mut newer = |cursor: &mut dyn Cursor| -> Result<bool> {
            cursor.seek(&range.start)?;
            while cursor.valid() && range.end.admits(cursor.key()) {
                if cursor.seqno() > since {
                    return Ok(true);
                }
                passed += 1;
                cursor.next()?;
            }
            Ok(false)
        };
        let mut look = || -> Result<bool> {
            for memtable in view.memtables() {
                if memtable.last_seqno().is_some_and(|last| last > since)
                    && (memtable.tombstones().overlaps_newer_than(range, since)
                        || newer(&mut memtable.cursor())?)
                {
                    return Ok(true);
                }
            }
            for run in view.version.runs() {
                for table_ref in run.overlapping(range) {
                    if table_ref.descriptor().seqno_max <= since {
                        continue;
                    }
                    let mut cursor =
                        table_ref.file().cursor(table_ref.clip(), Access::Cached(run.level()))?;
                    if table_ref.tombstones()?.overlaps_newer_than(range, since) || newer(&mut cursor)? {
                        return Ok(true);
                    }
                }
            }
            Ok(false)
        };
        let written = look();
        self.context.stats.add(Counter::EntriesPassed, passed);
        written
    }

    /// Bytes of what walks have learned.
    pub fn gap_bytes(&self) -> u64 {
        self.gaps.bytes() as u64
    }
}

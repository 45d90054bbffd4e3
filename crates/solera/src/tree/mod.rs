//! One keyspace's log-structured merge tree: what is in memory, what is in tables, and the view of both
//! that a reader takes in one step.
//!
//! Owns [`View`] and the tree's changes of view: sealing a memtable, installing a version. What must
//! hold: a view lists sources newest first and every version of a key in a newer source is newer
//! (invariant R, docs/decisions/0002), so a reader stops at the first version that it sees.
//! Knows nothing of logs, manifests or other keyspaces; `db` does.

mod misses;
mod read;
mod scan;
mod settings;
pub mod stall;

pub use read::Outcome;
pub use scan::{ReadContext, Source, Walk};
pub use settings::Settings;

use crate::{
    compaction::LevelFilters,
    cursor::Cursor,
    error::Result,
    filter::Filters,
    ids::{KeyspaceId, SEQNO_MAX, Seqno},
    key::KeyRange,
    memtable::Memtable,
    operator::MergeOperator,
    sync::{
        ArcSwap, Guard, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    table::{Access, TableContext},
    version::Version,
};
use misses::RecentMisses;
use std::{
    fmt,
    sync::{Arc, OnceLock},
};

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

    /// Smallest sequence number that is in no table yet.
    pub fn oldest_unflushed(&self) -> Option<Seqno> {
        self.sealed.iter().rev().chain([&self.active]).find_map(|memtable| memtable.first_seqno())
    }
}

/// One keyspace's tree.
pub struct Tree {
    /// The keyspace's number.
    pub id: KeyspaceId,
    /// The keyspace's name.
    pub name: String,
    /// What it was given when it was created or opened. Its knobs may say otherwise: what it is kept like now
    /// stands in the view.
    pub given: Settings,
    /// What its tables share: files, cache, counters.
    pub context: Arc<TableContext>,
    operator: OnceLock<Arc<dyn MergeOperator>>,
    view: ArcSwap<View>,
    /// Serialises changes of the view; readers never take it.
    changing: Mutex<()>,
    dropped: AtomicBool,
    misses: Mutex<RecentMisses>,
    /// When reads last looked whether they have paid for the merge of level 0.
    looked_ns: AtomicU64,
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
        given: Settings,
        operator: Option<Arc<dyn MergeOperator>>,
        context: Arc<TableContext>,
        version: Version,
    ) -> Self {
        let view = View {
            active: Memtable::new(),
            sealed: Vec::new(),
            version: Arc::new(version),
            settings: Arc::new(given.clone()),
        };
        Tree {
            id,
            name,
            given,
            context,
            operator: operator.map_or_else(OnceLock::new, OnceLock::from),
            view: ArcSwap::from_pointee(view),
            changing: Mutex::new(()),
            dropped: AtomicBool::new(false),
            misses: Mutex::default(),
            looked_ns: AtomicU64::new(0),
        }
    }

    /// Whether `period_ns` have passed at `now_ns` since this last said so, of all threads to one.
    pub fn is_time_to_look(&self, now_ns: u64, period_ns: u64) -> bool {
        let last = self.looked_ns.load(Ordering::Relaxed);
        let is_time = now_ns.wrapping_sub(last) >= period_ns;
        is_time && self.looked_ns.compare_exchange(last, now_ns, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// How its merge operands fold.
    pub fn operator(&self) -> Option<&Arc<dyn MergeOperator>> {
        self.operator.get()
    }

    /// Gives a tree that has none its operator. Nothing if it has one.
    pub fn set_operator(&self, operator: Arc<dyn MergeOperator>) {
        let _ = self.operator.set(operator);
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

    /// Every entry of this keyspace up to this number is in a table.
    pub fn flushed_seqno(&self) -> Seqno {
        self.view.load().version.flushed_seqno()
    }

    /// Whether the keyspace was dropped.
    pub fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    /// Marks the keyspace as dropped: handles that still point here fail from now on.
    pub fn mark_dropped(&self) {
        self.dropped.store(true, Ordering::Release);
    }

    fn change(&self, new_view: impl FnOnce(&View) -> View) {
        let _changing = self.changing.lock();
        let next = new_view(&self.view.load());
        self.view.store(Arc::new(next));
    }

    /// Puts an empty memtable in front, unless the active one is empty already. The caller holds the
    /// commit lock: no batch is half in one memtable and half in the next.
    pub fn seal(&self) -> bool {
        if self.view.load().active.is_empty() {
            return false;
        }
        self.change(|view| View {
            active: Memtable::new(),
            sealed: std::iter::once(&view.active).chain(&view.sealed).cloned().collect(),
            version: view.version.clone(),
            settings: view.settings.clone(),
        });
        true
    }

    /// Keeps the tree like this from now on: whoever decides next obeys it. The caller has made it durable.
    pub fn keep_like(&self, settings: Arc<Settings>) {
        self.change(|view| View {
            active: view.active.clone(),
            sealed: view.sealed.clone(),
            version: view.version.clone(),
            settings,
        });
    }

    /// Shows readers `version`. `flushed` memtables, which the version now holds as tables, leave the
    /// view in the same step; the caller has made the version durable.
    pub fn install(&self, version: Arc<Version>, flushed: &[Arc<Memtable>]) {
        self.change(|view| View {
            active: view.active.clone(),
            sealed: view
                .sealed
                .iter()
                .filter(|memtable| !flushed.iter().any(|done| Arc::ptr_eq(done, memtable)))
                .cloned()
                .collect(),
            version,
            settings: view.settings.clone(),
        });
    }

    /// The filters of tables that are written now, if `deepest` is the last level of `view`, or a deeper one is.
    /// `allowed` says how many of the bits that are wanted there may be.
    pub fn level_filters(&self, view: &View, deepest: u32, allowed: impl Fn(f32) -> f32) -> LevelFilters {
        let misses = self.misses.lock().update(self.context.stats.levels());
        let Settings { layout, shape, .. } = &*view.settings;
        let asked = Filters { bits_per_key: allowed(layout.filter.bits_per_key), ..layout.filter };
        let mut filters = LevelFilters::new(&view.version, shape, &asked, &misses, deepest);
        filters.set_bits(|level| view.settings.filter_bits_of(level).map(&allowed));
        filters
    }

    /// Whether anything newer than `since` was written to `key`: what an optimistic transaction that
    /// read it at `since` must know. `since` must be a registered snapshot, or the number may be elided.
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

    /// As [`Tree::written_since`], for a whole range.
    pub fn range_written_since(&self, view: &View, range: &KeyRange, since: Seqno) -> Result<bool> {
        fn newer(cursor: &mut impl Cursor, range: &KeyRange, since: Seqno) -> Result<bool> {
            cursor.seek(&range.start)?;
            while cursor.valid() && range.end.admits(cursor.key()) {
                if cursor.seqno() > since {
                    return Ok(true);
                }
                cursor.next()?;
            }
            Ok(false)
        }
        for memtable in view.memtables() {
            if memtable.last_seqno().is_some_and(|last| last > since)
                && (memtable.tombstones().overlaps_newer_than(range, since)
                    || newer(&mut memtable.cursor(), range, since)?)
            {
                return Ok(true);
            }
        }
        for run in view.version.runs() {
            for table_ref in run.overlapping(range) {
                if table_ref.descriptor().seqno_max <= since {
                    continue;
                }
                let mut cursor = table_ref.file().cursor(table_ref.clip(), Access::Cached(run.level()))?;
                if table_ref.tombstones()?.overlaps_newer_than(range, since)
                    || newer(&mut cursor, range, since)?
                {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

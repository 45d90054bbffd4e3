//! Trees at rest, and the space that newer versions hide in them: `Resting`.
//!
//! A tree rests when workers have seen no new sequence number in it for `REST`. `look` takes a tree
//! at rest. If its values are separated and its memtable may hide a write buffer's worth, `look`
//! asks for a flush. Else it looks up sampled keys of each table in older runs. It notes the shares
//! (`compaction::Overlap`), which `compaction::space` weighs like deletes. While the whole database
//! rests (`is_quiet`), workers seal memtables that pin logs.
//!
//! What must hold: only a worker with no other work looks. It samples a table once per rest. It
//! skips a tree without separated values if `level0_patience` is not above level 0's run limit.
//! Nothing is on disk.
//!
//! Callers: `jobs` (`give_back`, `next_look`); `core::publish` asks `hears` at each commit.

use super::work::Work;
use crate::{
    compaction::Overlap,
    cursor::Cursor,
    error::Result,
    ids::{FileId, KeyspaceId, Seqno},
    key::hash,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    table::Access,
    tree::{Settings, Tree, View},
    version::{Run, TableRef, Version},
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// A tree to which no writer wrote for so long rests.
const REST: Duration = Duration::from_secs(2);
/// So many keys of a table are looked for in older runs, about.
const KEYS_SAMPLED: usize = 64;

/// What is known of trees that may have something to give back.
#[derive(Default)]
pub(super) struct Resting {
    state: Mutex<State>,
    /// The next commit is to be told to a worker: none looks again before.
    listens: AtomicBool,
}

#[derive(Default)]
struct State {
    trees: BTreeMap<KeyspaceId, Rest>,
    /// When the next tree will rest, by the monotonic clock.
    next_ns: Option<u64>,
    /// The newest number of all when a worker last asked, and since when it is that.
    newest: (Seqno, u64),
}

/// What [`Resting::look`] came to.
pub(super) enum Looked {
    /// There is nothing to do.
    Nothing,
    /// Something is known that was not before.
    Learned,
    /// The memtable of this tree is to be flushed.
    Flush(Arc<Tree>),
}

/// One tree.
struct Rest {
    /// The newest number in it when a worker last looked, and since when it is that.
    newest: Seqno,
    since_ns: u64,
    /// By table, which share of its keys is in older runs too.
    shares: BTreeMap<FileId, f64>,
}

impl Resting {
    /// It is not known yet when a worker should look again.
    pub(super) fn begin(&self) {
        self.state.lock().next_ns = None;
    }

    /// Whether no writer has written to the database for so long that it rests: `newest` is the
    /// newest number. If not, a worker looks again when it may rest.
    pub(super) fn is_quiet(&self, newest: Seqno, now_ns: u64) -> bool {
        let mut state = self.state.lock();
        if state.newest.0 != newest {
            state.newest = (newest, now_ns);
        }
        let rests_ns = rests_ns(state.newest.1);
        if now_ns < rests_ns {
            state.look_at(rests_ns);
        }
        now_ns >= rests_ns
    }

    /// Looks at the tables of one tree that rests and whose tables no worker has looked at, where
    /// write buffers have `limit` bytes.
    pub(super) fn look(&self, trees: &[Arc<Tree>], now_ns: u64, limit: u64, work: &Work) -> Looked {
        let Some(mut state) = self.state.try_lock() else { return Looked::Nothing };
        let mut next = None;
        let looked = state.look(trees, now_ns, limit, work, &mut next);
        next.into_iter().for_each(|next| state.look_at(next));
        // What little is written to such a tree wakes no worker, and may hide much.
        let has_values = |tree: &Arc<Tree>| !tree.view().version.values().is_empty();
        let listens = state.next_ns.is_none() && trees.iter().any(has_values);
        self.listens.store(listens, Ordering::Relaxed);
        looked
    }

    /// Something was committed. Whether a worker waits for that.
    #[inline]
    pub(super) fn hears(&self) -> bool {
        self.listens.load(Ordering::Relaxed) && self.listens.swap(false, Ordering::Relaxed)
    }

    /// How long it is until the next tree rests; `None`: none is about to.
    pub(super) fn next(&self, now_ns: u64) -> Option<Duration> {
        let next_ns = self.state.lock().next_ns?;
        Some(Duration::from_nanos(next_ns.saturating_sub(now_ns)))
    }
}

impl State {
    fn look_at(&mut self, next_ns: u64) {
        self.next_ns = Some(self.next_ns.map_or(next_ns, |next| next.min(next_ns)));
    }

    fn look(
        &mut self,
        trees: &[Arc<Tree>],
        now_ns: u64,
        limit: u64,
        work: &Work,
        next: &mut Option<u64>,
    ) -> Looked {
        let known = &mut self.trees;
        if known.len() > trees.len() {
            known.retain(|id, _| trees.iter().any(|tree| tree.id == *id));
        }
        for tree in trees {
            let view = tree.view_owned();
            if view.version.values().is_empty() && !may_hide(&view) {
                known.remove(&tree.id);
                continue;
            }
            let newest = newest(&view);
            let anew = || Rest { newest, since_ns: now_ns, shares: BTreeMap::new() };
            let rest = known.entry(tree.id).or_insert_with(anew);
            if rest.newest != newest {
                *rest = anew();
            }
            let rests_ns = rests_ns(rest.since_ns);
            if now_ns < rests_ns {
                *next = Some(next.map_or(rests_ns, |next| next.min(rests_ns)));
                continue;
            }
            if unflushed_hides(&view) >= limit {
                return Looked::Flush(tree.clone());
            }
            let shares = shares(&view.version, &rest.shares);
            if shares != rest.shares {
                rest.shares.clone_from(&shares);
                work.note_overlap(tree, Overlap::new(&view.version, shares));
                return Looked::Learned;
            }
        }
        Looked::Nothing
    }
}

/// From when on a tree, or the database, rests that was last written at `since_ns`.
fn rests_ns(since_ns: u64) -> u64 {
    since_ns.saturating_add(REST.as_nanos() as u64)
}

/// How much the active memtable may hide of tables and their values, at most: as much as it has
/// entries, of the mean size.
fn unflushed_hides(view: &View) -> u64 {
    let version = &view.version;
    if version.values().is_empty() || !view.sealed.is_empty() || view.active.is_empty() {
        return 0;
    }
    let of_key = (version.bytes() + version.values().bytes()) / version.keys().max(1);
    of_key.saturating_mul((view.active.entries() as u64).min(version.keys()))
}

/// Whether newer runs may hide something of older ones, and no other work takes care of it.
fn may_hide(view: &View) -> bool {
    let Settings { shape, level0_patience, .. } = &*view.settings;
    let runs = view.version.runs();
    let is_over = |(at, run): (usize, &Arc<Run>)| {
        runs[at + 1..].iter().any(|older| !older.overlapping(&run.range()).is_empty())
    };
    *level0_patience > shape.run_limit(0) && view.sealed.is_empty() && runs.iter().enumerate().any(is_over)
}

/// The newest number in the tree.
fn newest(view: &View) -> Seqno {
    let of_tables = view.version.tables().map(|table| table.descriptor().seqno_max).max();
    view.active.last_seqno().max(of_tables).unwrap_or(0)
}

/// By table, which share of its keys older runs hold too, but for the oldest run; taken from
/// `known` where it is there. Of a table that cannot be read nothing is: a merge will tell.
fn shares(version: &Version, known: &BTreeMap<FileId, f64>) -> BTreeMap<FileId, f64> {
    let mut shares = BTreeMap::new();
    for (at, run) in version.runs().iter().enumerate() {
        let older = &version.runs()[at + 1..];
        for table in run.tables().iter().filter(|_| !older.is_empty()) {
            let known = known.get(&table.id()).copied();
            shares.insert(table.id(), known.unwrap_or_else(|| share(table, older).unwrap_or(0.0)));
        }
    }
    shares
}

/// Which share of the keys of `table` is in `older` runs: of the first keys of blocks all over it.
fn share(table: &TableRef, older: &[Arc<Run>]) -> Result<f64> {
    let blocks = table.descriptor().blocks as usize;
    let older: Vec<&Arc<Run>> =
        older.iter().filter(|run| !run.overlapping(table.clip()).is_empty()).collect();
    if older.is_empty() || blocks == 0 {
        return Ok(0.0);
    }
    let looked_into = blocks.min(KEYS_SAMPLED);
    let keys_of_each = KEYS_SAMPLED.div_ceil(looked_into);
    let mut cursor = table.file().cursor(table.clip(), Access::Sequential)?;
    let (mut sampled, mut found) = (0u32, 0u32);
    for nth in 0..looked_into {
        cursor.seek_block(nth * blocks / looked_into)?;
        for _ in 0..keys_of_each {
            if !cursor.valid() {
                break;
            }
            sampled += 1;
            found += u32::from(is_in(&older, cursor.key())?);
            cursor.next_key()?;
        }
    }
    Ok(f64::from(found) / f64::from(sampled.max(1)))
}

/// Whether `key` is in one of these runs. A table that cannot be opened holds nothing.
fn is_in(runs: &[&Arc<Run>], key: &[u8]) -> Result<bool> {
    let hash = hash(key);
    for run in runs {
        let Some(table) = run.find(key) else { continue };
        if !table.file().table().is_ok_and(|open| open.filter_admits(hash)) {
            continue;
        }
        let mut cursor = table.file().cursor(table.clip(), Access::Sequential)?;
        cursor.seek(key)?;
        if cursor.valid() && cursor.key() == key {
            return Ok(true);
        }
    }
    Ok(false)
}

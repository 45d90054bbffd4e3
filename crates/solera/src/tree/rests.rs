//! Walkers that iterators have left, for the next ones: `Rests`, of one tree, and `Rested`.
//!
//! To open the sources of a walk costs more than a short scan does: cursors, their memory, and
//! counts in memory that all threads write to. So an iterator that ends leaves its walker in the
//! place of its thread's lane, and the next one of the thread takes it from there.
//!
//! What must hold:
//! - A walker rests only while its view is the tree's: a change of the view sends all away. So
//!   nothing that leaves the view stays in memory, or on the disk, for a walker's sake.
//! - What rests has all runs of its view as sources. It fits if it has the memtables too.
//! - It stands nowhere: it keeps no block in memory. It does not know the tree, which owns it.
//!
//! Callers: `Tree::{rested, rest}` for `db::iterator`; `Tree::change`.

use super::{View, scan::Source};
use crate::{
    key::KeyRange,
    merge::visible::Forward,
    sight::Reader,
    stats::lane_of_this_thread,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};
use std::sync::{Arc, OnceLock};

/// Threads that walk leave walkers in one of so many places.
const LANES: usize = 8;
/// So many trees of a process have such places, which take some kilobytes each.
const TREES_MAX: usize = 64;

/// Trees that have places.
static TREES: AtomicUsize = AtomicUsize::new(0);

/// A walker that stands nowhere, over all runs of a view, and how many memtables it has.
pub struct Rested {
    view: Arc<View>,
    walker: Box<Forward<Source>>,
    memtables: usize,
}

impl Rested {
    /// The view, and the walker for a walk over it.
    pub fn into_parts(self) -> (Arc<View>, Spare) {
        (self.view, Spare { walker: self.walker, memtables: self.memtables })
    }
}

/// A walker over the view beside which it was given, with this many of its memtables.
pub struct Spare {
    walker: Box<Forward<Source>>,
    memtables: usize,
}

impl Spare {
    /// The walker, for this reader of these keys, if it has all sources of `view`.
    pub fn fit(self, view: &View, reader: Reader, range: &KeyRange) -> Option<Box<Forward<Source>>> {
        if memtables_of(view) != Some(self.memtables) {
            return None;
        }
        let mut walker = self.walker;
        // The walk places it where the range begins, or behind.
        walker.serve(reader, KeyRange { start: Box::default(), end: range.end.clone() });
        Some(walker)
    }

    /// The same walker, not used.
    pub fn unused(self, view: Arc<View>) -> Rested {
        Rested { view, walker: self.walker, memtables: self.memtables }
    }
}

/// How many memtables of the view have entries; `None` if any has range tombstones, of which a
/// walker knows those that were there when it was made.
fn memtables_of(view: &View) -> Option<usize> {
    let mut count = 0;
    for memtable in view.memtables() {
        if memtable.has_range_tombstones() {
            return None;
        }
        count += usize::from(!memtable.is_empty());
    }
    Some(count)
}

/// A place of a lane, on cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Place(Mutex<Option<Rested>>);

/// Where walkers of one tree rest. Takes no memory before the first one does.
#[derive(Default)]
pub(super) struct Rests {
    lanes: OnceLock<Option<Box<[Place; LANES]>>>,
}

impl Rests {
    /// The walker that rests in this thread's lane, if it is one over `present`.
    pub(super) fn take(&self, present: impl FnOnce(&Arc<View>) -> bool) -> Option<Rested> {
        let place = &self.lanes.get()?.as_ref()?[lane_of_this_thread(LANES)];
        let rested = place.0.lock().take()?;
        present(&rested.view).then_some(rested)
    }

    /// Leaves a walker in this thread's lane, if its view is still `present`. That is asked where
    /// no change can send walkers away meanwhile.
    pub(super) fn leave(&self, rested: Rested, present: impl FnOnce(&Arc<View>) -> bool) {
        let Some(lanes) = self.lanes.get().unwrap_or_else(|| self.make_places()) else { return };
        let mut place = lanes[lane_of_this_thread(LANES)].0.lock();
        let left = present(&rested.view).then_some(rested);
        // What leaves is dropped outside of the lock.
        let before = std::mem::replace(&mut *place, left);
        drop(place);
        drop(before);
    }

    /// Makes the places, if not too many trees have some. The count is taken before: no thread
    /// waits for a count while others wait for the places.
    #[cold]
    fn make_places(&self) -> &Option<Box<[Place; LANES]>> {
        let has_room = TREES.fetch_add(1, Ordering::Relaxed) < TREES_MAX;
        let is_ours = self.lanes.set(has_room.then(Box::default)).is_ok();
        if !has_room || !is_ours {
            TREES.fetch_sub(1, Ordering::Relaxed);
        }
        self.lanes.get().expect("they were made here, or by another thread")
    }

    /// Sends all walkers away: the view that they are of is not the present one any more. One that
    /// is left while the very places are made may stay until the next change, or until it is asked
    /// for, and is not used.
    pub(super) fn clear(&self) {
        for place in self.lanes.get().into_iter().flatten().flat_map(|lanes| lanes.iter()) {
            let left = place.0.lock().take();
            drop(left);
        }
    }
}

impl Drop for Rests {
    fn drop(&mut self) {
        if self.lanes.get().is_some_and(Option::is_some) {
            TREES.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Rested {
    /// What is left of a walk over `view`; `None` if another walk could not do with it.
    pub(super) fn of(view: Arc<View>, mut walker: Box<Forward<Source>>) -> Option<Rested> {
        walker.rest(Source::rest);
        let (memtables, runs) = walker.sources().iter().fold((0, 0), |(memtables, runs), source| {
            (memtables + usize::from(source.is_memtable()), runs + usize::from(source.is_run()))
        });
        // One that has noted range tombstones of memtables rests too, and does not fit.
        let has_all = memtables + runs == walker.sources().len() && runs == view.version.runs().len();
        has_all.then_some(Rested { view, walker, memtables })
    }
}

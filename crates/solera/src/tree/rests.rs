//! Walkers that iterators have left, for the next ones: `Rests`, of one tree, and `Rested`.
//!
//! To open the sources of a walk costs more than a short scan does: cursors, their memory, and
//! counts in memory that all threads write to. So an iterator that ends leaves the walkers of its
//! ends in the place of its thread's lane. The next one of the thread takes them from there.
//! `Spare` is what an iterator then has: at most a walker for each end. `front` and `back` give one
//! if it fits.
//!
//! What must hold:
//! - A walker rests only while its view is the tree's: a change of the view sends all away. One
//!   left while the places are made may stay until the next change, and is not used.
//! - What rests has all runs of its view as sources. It fits if it also has each memtable that has
//!   entries, and none of these has range tombstones.
//! - A walker that rests stands nowhere: it keeps no block in memory. It does not know the tree.
//!
//! Callers: `Tree::{view_to_walk, rest}` for `db::iterator`, which keeps a `Spare` while it pauses;
//! `Tree::change`.

use super::{View, scan::Source};
use crate::{
    key::SharedRange,
    merge::visible::{Backward, Forward},
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

/// Walkers that stand nowhere, over all runs of a view.
pub struct Rested {
    view: Arc<View>,
    spare: Spare,
}

impl Rested {
    /// The view, and the walkers for walks over it.
    pub fn into_parts(self) -> (Arc<View>, Spare) {
        (self.view, self.spare)
    }
}

/// A walker for each end, over the view beside which they were given, with this many of its
/// memtables. An iterator that pauses keeps one, too.
pub struct Spare {
    front: Option<Box<Forward<Source>>>,
    back: Option<Box<Backward<Source>>>,
    memtables: usize,
}

impl Spare {
    /// The walker upward, for this reader of these keys, if it has all sources of `view`.
    pub fn front(
        &mut self,
        view: &View,
        reader: Reader,
        range: &SharedRange,
    ) -> Option<Box<Forward<Source>>> {
        let mut walker = self.front.take_if(|_| memtables_of(view) == Some(self.memtables))?;
        // The walk places it where the range begins, or behind.
        walker.serve(reader, range.to_end());
        Some(walker)
    }

    /// The same of the walker downward.
    pub fn back(
        &mut self,
        view: &View,
        reader: Reader,
        range: &SharedRange,
    ) -> Option<Box<Backward<Source>>> {
        let mut walker = self.back.take_if(|_| memtables_of(view) == Some(self.memtables))?;
        walker.serve(reader, range.clone());
        Some(walker)
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
    /// What is left of walks over `view`, and of the walkers that were there for them and were not
    /// used; `None` if another walk could do with none of them.
    pub(super) fn of(
        view: Arc<View>,
        front: Option<Box<Forward<Source>>>,
        back: Option<Box<Backward<Source>>>,
        unused: Option<Spare>,
    ) -> Option<Rested> {
        let spare = Spare::of(&view, front, back, unused)?;
        Some(Rested { view, spare })
    }
}

impl Spare {
    /// What is left of walks over `view`, and of walkers for them that were not used.
    pub fn of(
        view: &View,
        front: Option<Box<Forward<Source>>>,
        back: Option<Box<Backward<Source>>>,
        unused: Option<Spare>,
    ) -> Option<Spare> {
        let runs = view.version.runs().len();
        let rested = |mut front: Box<Forward<Source>>| {
            front.rest(Source::rest);
            memtables_in(front.sources(), runs).map(|memtables| (memtables, Some(front), None))
        };
        let front = front.and_then(rested);
        // Most iterators were walked from the front alone.
        let unused = unused.filter(|unused| unused.front.is_some() || unused.back.is_some());
        if back.is_none() && unused.is_none() {
            return front.map(|(memtables, front, back)| Spare { front, back, memtables });
        }
        let rested = |mut back: Box<Backward<Source>>| {
            back.rest(Source::rest);
            memtables_in(back.sources(), runs).map(|memtables| (memtables, None, Some(back)))
        };
        let back = back.and_then(rested);
        let unused = unused.map(|unused| (unused.memtables, unused.front, unused.back));
        let mut left = [front, back, unused].into_iter().flatten();
        let (memtables, front, back) = left.next()?;
        let mut spare = Spare { front, back, memtables };
        for (_, front, back) in left.filter(|(of, ..)| *of == memtables) {
            spare.front = spare.front.or(front);
            spare.back = spare.back.or(back);
        }
        Some(spare)
    }
}

/// How many memtables are among the sources of a walker, if the others are so many runs. One that
/// has noted range tombstones of memtables rests too, and does not fit.
fn memtables_in(sources: &[Source], runs: usize) -> Option<usize> {
    let count = |is: fn(&Source) -> bool| sources.iter().filter(|source| is(source)).count();
    let memtables = count(Source::is_memtable);
    (memtables + runs == sources.len() && count(Source::is_run) == runs).then_some(memtables)
}

//! Tables that readers have begun to bring into the cache, block by block. An idle worker reads the
//! rest in large pieces: `Wanted` are the tables that wait for that, `Whole` is one table's part.
//!
//! A table is wanted once an eighth of it is cached, if the cache can hold all open tables. Nothing
//! leaves the cache for it: `ReadOn`, the way to a table's next piece, ends where there is no room.
//! A table is wanted at most once. Decision 0032 has the reason and the price.
//!
//! What must hold: where no worker has said that it answers, nothing is wanted. A table that waits
//! is not kept open for that. A block that cannot be read is left to the reader that comes to it.
//!
//! Callers: `table::{reader, cursor}` note that blocks came in, `table::file` reads on;
//! `engine::workers` answer and go on.

use crate::{
    block::{Block, BlockSlots},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};
use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, OnceLock, Weak},
};

/// Readers have begun with a table when one part in so many of it is cached.
const BEGUN_PARTS: usize = 8;

/// Of fewer blocks than so many readers soon have all, and nothing is gained by pieces.
const BLOCKS_MIN: usize = 2 * BEGUN_PARTS;

/// Tables that wait to be read whole.
#[derive(Default)]
pub struct Wanted {
    waiting: Mutex<VecDeque<Begun>>,
    /// What the data blocks of all open tables have in files.
    open_bytes: AtomicU64,
    /// Calls a worker.
    call: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// What can be read piece by piece.
pub(super) trait ReadOn: Send + Sync {
    /// Caches the next piece, from block `next` on, and says with which block to go on. `None`:
    /// there is nothing left, no room for it, or it cannot be read. `bytes` is used again.
    fn read_on(&self, next: usize, bytes: &mut Vec<u8>) -> Option<usize>;
}

/// A table that is read from block `next` on.
struct Begun {
    table: Weak<dyn ReadOn>,
    next: usize,
}

impl Wanted {
    /// There is a worker, which `call` calls. Only the first one is taken.
    pub fn answer(&self, call: impl Fn() + Send + Sync + 'static) {
        let _ = self.call.set(Box::new(call));
    }

    /// Reads the first table that waits, piece by piece, as long as `may_go_on` says so after each.
    /// A table that is not done then waits at the front. False: none waited.
    pub fn go_on(&self, may_go_on: impl Fn() -> bool) -> bool {
        let Some(mut begun) = self.waiting.lock().pop_front() else { return false };
        let mut bytes = Vec::new();
        // Held for one piece at a time: it may be dropped meanwhile.
        while let Some(table) = begun.table.upgrade() {
            let Some(next) = table.read_on(begun.next, &mut bytes) else { break };
            begun.next = next;
            if !may_go_on() {
                self.waiting.lock().push_front(begun);
                break;
            }
        }
        true
    }

    fn want(&self, table: &Weak<dyn ReadOn>) {
        if let Some(call) = self.call.get() {
            let mut waiting = self.waiting.lock();
            // A worker that is never idle comes to none of them. They are looked through when they
            // have doubled.
            if waiting.len() == waiting.capacity() {
                waiting.retain(|begun| begun.table.strong_count() > 0);
            }
            waiting.push_back(Begun { table: table.clone(), next: 0 });
            drop(waiting);
            call();
        }
    }
}

impl fmt::Debug for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wanted").field("waiting", &self.waiting.lock().len()).finish()
    }
}

/// One open table's part in what is wanted.
pub(super) struct Whole {
    wanted: Arc<Wanted>,
    table: Weak<dyn ReadOn>,
    /// What its data blocks have in the file.
    bytes: u64,
    was_wanted: AtomicBool,
}

impl Whole {
    /// That of `table`, whose data blocks have so many bytes in the file.
    pub(super) fn new(wanted: &Arc<Wanted>, table: Weak<dyn ReadOn>, bytes: u64) -> Whole {
        wanted.open_bytes.fetch_add(bytes, Ordering::Relaxed);
        Whole { wanted: wanted.clone(), table, bytes, was_wanted: AtomicBool::new(false) }
    }

    /// A reader has brought `block` into the table's `slots`.
    pub(super) fn note_cached(&self, block: &Block, slots: &BlockSlots) {
        if slots.places() < BLOCKS_MIN {
            return;
        }
        // In memory the other blocks are about as large.
        let all = block.memory_bytes() * slots.places();
        if slots.weight() * BEGUN_PARTS < all || self.was_wanted.load(Ordering::Relaxed) {
            return;
        }
        let tables = self.wanted.open_bytes.load(Ordering::Relaxed) as f64 / self.bytes.max(1) as f64;
        if slots.can_hold((all as f64 * tables) as usize) && !self.was_wanted.swap(true, Ordering::Relaxed) {
            self.wanted.want(&self.table);
        }
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        self.wanted.open_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl fmt::Debug for Whole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Whole").field("bytes", &self.bytes).field("was_wanted", &self.was_wanted).finish()
    }
}

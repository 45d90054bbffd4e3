//! Looking ahead of an iterator for values that it will read out of logs: `Scout`.
//!
//! A log is in the order of the writes, so a walk reads each value there by a read of its own.
//! After four reads of 20 µs or more the scout walks up to 64 entries ahead. It has the device
//! begin with their values (`ValueFiles::will_need`), so that many reads are under way together.
//!
//! What must hold: it changes nothing of what the iterator yields. Where it fails it stops, and the
//! iterator comes to the same failure by itself.
//!
//! Caller: `db::iterator`, for the front of an `Iter` without a transaction's writes.

use crate::{
    error::Result,
    merge::visible::Forward,
    tree::Source,
    values::{self, ValueFiles},
};

/// A read that takes so long waits for a device.
const SLOW_NS: u64 = 20_000;
/// After so many of them the scout goes ahead.
const SLOW_READS: u32 = 4;
/// So many entries ahead,
const AHEAD: usize = 64;
/// so many at a time.
const STEP: usize = 32;

/// Walks ahead of the front of an iterator, if that is worth it.
#[derive(Default)]
pub(super) struct Scout {
    slow: u32,
    walker: Option<Box<Forward<Source>>>,
    /// Entries between the front and the walker.
    ahead: usize,
    /// There is nothing more ahead, or it cannot be read.
    is_done: bool,
}

impl Scout {
    /// Whether it does not look ahead and would, if reads took long.
    pub(super) fn waits(&self) -> bool {
        self.walker.is_none() && !self.is_done
    }

    /// A read out of a log took so long. Whether it is time to go ahead.
    pub(super) fn timed(&mut self, took_ns: u64) -> bool {
        self.slow += u32::from(took_ns >= SLOW_NS);
        self.slow >= SLOW_READS
    }

    /// Goes ahead with a walker that stands where the front stands.
    pub(super) fn begin(&mut self, walker: Result<Forward<Source>>, values: &ValueFiles) {
        (self.walker, self.ahead) = (walker.ok().map(Box::new), 0);
        self.is_done = self.walker.is_none();
        self.look(values);
    }

    /// The front has come to its next entry.
    #[inline]
    pub(super) fn follow(&mut self, values: &ValueFiles) {
        if self.walker.is_some() {
            self.ahead = self.ahead.saturating_sub(1);
            if self.ahead + STEP <= AHEAD {
                self.look(values);
            }
        }
    }

    fn look(&mut self, values: &ValueFiles) {
        let Some(walker) = &mut self.walker else { return };
        for _ in 0..STEP {
            if walker.next().is_err() || !walker.valid() {
                (self.walker, self.is_done) = (None, true);
                return;
            }
            self.ahead += 1;
            if walker.is_separated()
                && let Ok(pointer) = values::decode(walker.value(), walker.key())
            {
                values.will_need(&pointer, walker.key());
            }
        }
    }

    /// The front is placed anew.
    pub(super) fn leave(&mut self) {
        (self.walker, self.ahead, self.is_done) = (None, 0, false);
    }
}

//! Looking ahead of an iterator for values that it will read one by one: `Scout`.
//!
//! A log is in the order of the writes, so a walk reads each value there by a read of its own.
//! Where values have moved often, a range is spread over dozens of sorted files. After four such
//! reads of 20 µs or more the scout walks ahead of the iterator. It has the device begin with what
//! comes, so that many reads are under way together (`ValueFiles::will_need`, `ReadAhead::expect`).
//!
//! What must hold: it changes nothing of what the iterator yields. Where it fails it stops, and the
//! iterator comes to the same failure by itself.
//!
//! Caller: `db::iterator`, for the front of an `Iter` without a transaction's writes.

use crate::{
    error::Result,
    merge::visible::Forward,
    tree::Source,
    values::{self, Pointer, ReadAhead, ValueFiles},
};

/// A read that takes so long waits for a device.
const SLOW_NS: u64 = 20_000;
/// After so many of them the scout goes ahead.
const SLOW_READS: u32 = 4;
/// So many entries at a time at first, and twice as many each time,
const STEP_FIRST: usize = 32;
/// up to so many,
const STEP_MAX: usize = 128;
/// of so many bytes of values together at most. It looks for more while no more than these are
/// ahead.
const STEP_BYTES_MAX: u64 = 256 << 10;

/// Walks ahead of the front of an iterator, if that is worth it.
#[derive(Default)]
pub(super) struct Scout {
    slow: u32,
    walker: Option<Box<Forward<Source>>>,
    /// Entries between the front and the walker, and how many it looked at last.
    ahead: usize,
    step: usize,
    /// There is nothing more ahead, or it cannot be read.
    is_done: bool,
}

impl Scout {
    /// Whether it does not look ahead and would, if reads took long.
    pub(super) fn waits(&self) -> bool {
        self.walker.is_none() && !self.is_done
    }

    /// A read of a value alone, or of a few, took so long. Whether it is time to go ahead.
    pub(super) fn timed(&mut self, took_ns: u64) -> bool {
        self.slow += u32::from(took_ns >= SLOW_NS);
        self.slow >= SLOW_READS
    }

    /// Goes ahead with a walker that stands where the front stands.
    pub(super) fn begin(
        &mut self,
        walker: Result<Forward<Source>>,
        values: &ValueFiles,
        ahead: &mut ReadAhead,
    ) {
        (self.walker, self.ahead, self.step) = (walker.ok().map(Box::new), 0, STEP_FIRST / 2);
        self.is_done = self.walker.is_none();
        self.look(values, ahead);
    }

    /// The front has come to its next entry.
    #[inline]
    pub(super) fn follow(&mut self, values: &ValueFiles, ahead: &mut ReadAhead) {
        if self.walker.is_some() {
            self.ahead = self.ahead.saturating_sub(1);
            if self.ahead <= self.step {
                self.look(values, ahead);
            }
        }
    }

    fn look(&mut self, values: &ValueFiles, ahead: &mut ReadAhead) {
        let Some(walker) = &mut self.walker else { return };
        let most = (2 * self.step).min(STEP_MAX);
        let (mut bytes, mut sorted) = (0, Vec::new());
        self.step = 0;
        while self.step < most && bytes < STEP_BYTES_MAX {
            if walker.next().is_err() || !walker.valid() {
                (self.walker, self.is_done) = (None, true);
                break;
            }
            self.step += 1;
            if walker.is_separated()
                && let Ok(pointer) = values::decode(walker.value(), walker.key())
            {
                bytes += u64::from(pointer.len);
                expect(pointer, walker.key(), values, &mut sorted);
            }
        }
        self.ahead += self.step;
        ahead.expect(values, &mut sorted);
    }

    /// The front is placed anew.
    pub(super) fn leave(&mut self) {
        (self.walker, self.ahead, self.is_done) = (None, 0, false);
    }
}

/// The device begins with the value of `key` if it lies in a log; else its pointer goes to those
/// into sorted files.
fn expect(pointer: Pointer, key: &[u8], values: &ValueFiles, sorted: &mut Vec<Pointer>) {
    if !pointer.sorted {
        values.will_need(&pointer, key);
    } else if !values.is_in_memory(&pointer, key) {
        sorted.push(pointer);
    }
}

//! One memory budget: what write buffers, indexes and filters do not take is the block cache's.
//!
//! Owns [`Split`], which says how much each of them may take. Percentages are of the *divided* memory: the budget
//! without what is not counted.

use super::{Core, Options, options::WRITE_BUFFER_BYTES_MIN};
use crate::{
    error::{Error, Result},
    filter::BITS_PER_KEY_MAX,
    knob::{Knob, Legal, Scope, Value},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    version::TableRef,
};

/// Smallest share of the budget that the block cache keeps, whatever the rest takes: 1/8. Without it a
/// scan would read each block once per entry.
const CACHE_SHARE_MIN: u64 = 8;
/// Memtables that writers are granted before their data is counted: the active one, one being flushed, and
/// two that wait. What the cache gives up when more wait, it could hardly give back to the system, so it is
/// not given out in the first place.
const BUFFERS_GRANTED: u64 = 4;
/// For what is not counted: buffers of flushes and compactions, blocks on their way in and out, the views of
/// iterators, what an allocator adds to each piece and keeps for each thread. Measured (`solera-sim limits`):
/// this, and 1/16 of the budget; but no more than [`UNCOUNTED_PARTS_MAX`].
///
/// What an allocator keeps grows for a while: tables that threads open for their reads leave holes in those
/// threads' heaps, between blocks, that nothing fits any more. After 64,000 operations under 64 MiB it was
/// 10 MiB less than after 320,000.
const UNCOUNTED_BYTES: u64 = 24 << 20;
/// Most of a budget that is left to what is not counted: 7/16.
const UNCOUNTED_PARTS_MAX: (u64, u64) = (7, 16);

/// Least that a cache which nobody has set is left by the others, in percent.
const CACHE_PERCENT_LEFT: f64 = 15.0;
/// Least that the cache can be set to, in percent: the blocks of a few readers at the same time.
const CACHE_PERCENT_MIN: f64 = 1.0;
/// Percentages that add up to so little more than 100 do so by rounding: they are shown in hundredths.
const ROUNDING: f64 = 0.02;

const PERCENT: &str = "% of memory";
/// M_b.
pub static WRITE_BUFFER_PERCENT: Knob =
    Knob::new("write_buffer_percent", Scope::Database, Legal::Real { min: 0.0, max: 100.0 })
        .unit(PERCENT)
        .with(
            "four buffers of 1/16 of the budget, at most 32 MiB each",
            "with the next write: a buffer over its size is then full",
            "M_b: memory for write buffers; one of them is a quarter of it.",
        );
/// M_f.
pub static FILTER_PERCENT: Knob =
    Knob::new("filter_percent", Scope::Database, Legal::Real { min: 0.0, max: 100.0 }).unit(PERCENT).with(
        "what the others leave",
        "in tables written from now on",
        "M_f: most that filters may take; keys get fewer bits if filter_bits_per_key would take more.",
    );
/// M_c.
pub static CACHE_PERCENT: Knob =
    Knob::new("cache_percent", Scope::Database, Legal::Real { min: CACHE_PERCENT_MIN, max: 100.0 })
        .unit(PERCENT)
        .with(
            "what the others leave",
            "at once",
            "M_c: most that the block cache may take. It yields to what write buffers and tables take.",
        );

/// How the budget is split. What is `None` is not limited but by the others.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Split {
    /// M_b: percent of the divided memory for write buffers.
    pub write_buffer_percent: Option<f64>,
    /// M_f: most that filters may take, in percent of the divided memory.
    pub filter_percent: Option<f64>,
    /// M_c: most that the block cache may take, in percent of the divided memory.
    pub cache_percent: Option<f64>,
}

impl Split {
    /// The knobs that this obeys.
    pub const KNOBS: [&'static Knob; 3] = [&WRITE_BUFFER_PERCENT, &FILTER_PERCENT, &CACHE_PERCENT];

    /// Sets `knob`, one of these. The value is checked by itself here, its sum with the others by
    /// [`Split::validate`].
    pub(crate) fn set(&mut self, knob: &Knob, value: &Value) -> Result<()> {
        knob.check(&knob.legal, value)?;
        let percent = value.number();
        match knob {
            knob if *knob == WRITE_BUFFER_PERCENT => self.write_buffer_percent = percent,
            knob if *knob == FILTER_PERCENT => self.filter_percent = percent,
            _ => self.cache_percent = percent,
        }
        Ok(())
    }

    /// What `knob`, one of these, comes to, in hundredths of a percent.
    pub(crate) fn setting(&self, knob: &Knob, options: &Options) -> Value {
        let buffers = self.buffers_percent(options);
        let percent = match knob {
            knob if *knob == WRITE_BUFFER_PERCENT => buffers,
            knob if *knob == FILTER_PERCENT => {
                self.filter_percent.unwrap_or(100.0 - buffers - self.kept_for_cache())
            }
            _ => self.cache_percent.unwrap_or(100.0 - buffers - self.filter_percent.unwrap_or(0.0)),
        };
        Value::Number((percent.max(0.0) * 100.0).round() / 100.0)
    }

    /// What `knob`, one of these, may be set to while the others stay as they are. Where they take more than the whole
    /// already, as an open with another budget may find them, it is what `knob` takes itself, or less.
    pub(crate) fn legal(&self, knob: &Knob, options: &Options) -> Legal {
        let (min, own) = match knob {
            knob if *knob == WRITE_BUFFER_PERCENT => {
                (buffer_percent_min(options), self.buffers_percent(options))
            }
            knob if *knob == FILTER_PERCENT => (0.0, self.filter_percent.unwrap_or(0.0)),
            _ => (CACHE_PERCENT_MIN, self.kept_for_cache()),
        };
        let left = 100.0 - (self.sum_percent(options) - own);
        // Down to what is legal for certain.
        Legal::Real { min, max: (left.max(own) * 100.0).floor().max(min * 100.0) / 100.0 }
    }

    /// Whether the parts fit into the whole. What an open with another budget made of those that were set
    /// `before` is in nobody's way.
    pub(crate) fn validate(&self, before: &Split, options: &Options) -> Result<()> {
        let min = buffer_percent_min(options);
        let is_new = self.write_buffer_percent != before.write_buffer_percent;
        if let Some(percent) = self.write_buffer_percent
            && is_new
            && percent < min
        {
            return Err(Error::Invalid(format!(
                "write_buffer_percent is {percent}; it must be {}: a buffer has at least {WRITE_BUFFER_BYTES_MIN} bytes",
                before.legal(&WRITE_BUFFER_PERCENT, options)
            )));
        }
        let sum = self.sum_percent(options);
        if sum <= before.sum_percent(options).max(100.0) + ROUNDING {
            return Ok(());
        }
        Err(Error::Invalid(format!(
            "write buffers, filters and cache are {:.2} % of the memory; together they must be at most 100, so \
             write_buffer_percent {}, filter_percent {}, or cache_percent {}",
            sum,
            before.legal(&WRITE_BUFFER_PERCENT, options),
            before.legal(&FILTER_PERCENT, options),
            before.legal(&CACHE_PERCENT, options),
        )))
    }

    /// What write buffers and filters may take, and the cache has at least.
    fn sum_percent(&self, options: &Options) -> f64 {
        self.buffers_percent(options) + self.filter_percent.unwrap_or(0.0) + self.kept_for_cache()
    }

    /// What the cache has at least.
    fn kept_for_cache(&self) -> f64 {
        self.cache_percent.unwrap_or(CACHE_PERCENT_LEFT)
    }

    /// What write buffers may take, set or not.
    fn buffers_percent(&self, options: &Options) -> f64 {
        let given = options.effective_write_buffer() * BUFFERS_GRANTED;
        let given = given as f64 * 100.0 / options.divided_bytes() as f64;
        match self.write_buffer_percent {
            // `Options::write_buffer` may ask for more.
            None => given.min(100.0 - CACHE_PERCENT_LEFT),
            // What was set under a larger budget may be less than buffers can be.
            Some(percent) => percent.max(buffer_percent_min(options)),
        }
    }

    /// Bytes at which a memtable is sealed.
    pub(crate) fn write_buffer_bytes(&self, options: &Options) -> u64 {
        let share = |percent| options.part(percent) / BUFFERS_GRANTED;
        match self.write_buffer_percent {
            None => options.effective_write_buffer(),
            Some(percent) => share(percent).max(WRITE_BUFFER_BYTES_MIN),
        }
    }
}

/// What four of the smallest write buffers take, in hundredths of a percent.
fn buffer_percent_min(options: &Options) -> f64 {
    let smallest = WRITE_BUFFER_BYTES_MIN * BUFFERS_GRANTED;
    (smallest as f64 * 10_000.0 / options.divided_bytes() as f64).ceil() / 100.0
}

impl Options {
    /// The budget without what is not counted.
    fn divided_bytes(&self) -> u64 {
        let budget = self.memory_bytes;
        let uncounted =
            (UNCOUNTED_BYTES + budget / 16).min(budget / UNCOUNTED_PARTS_MAX.1 * UNCOUNTED_PARTS_MAX.0);
        budget - uncounted
    }

    /// So many percent of the divided memory, in bytes.
    fn part(&self, percent: f64) -> u64 {
        (self.divided_bytes() as f64 * percent / 100.0) as u64
    }
}

/// The split that is in force.
pub(crate) struct Memory {
    split: Mutex<Split>,
    write_buffer_bytes: AtomicU64,
}

impl Memory {
    pub(super) fn new(options: &Options) -> Memory {
        let split = Split::default();
        let write_buffer_bytes = AtomicU64::new(split.write_buffer_bytes(options));
        Memory { split: Mutex::new(split), write_buffer_bytes }
    }
}

impl Core {
    /// Bytes at which a memtable is sealed.
    #[inline]
    pub(super) fn write_buffer_bytes(&self) -> u64 {
        self.memory.write_buffer_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of memtables that are never the cache's.
    fn memtables_granted(&self) -> u64 {
        self.write_buffer_bytes() * BUFFERS_GRANTED
    }

    /// Splits the budget like this from now on, except that the cache is not fitted to it.
    pub(super) fn split_like(&self, split: Split) {
        *self.memory.split.lock() = split;
        self.memory.write_buffer_bytes.store(split.write_buffer_bytes(&self.options), Ordering::Relaxed);
        self.chunks.set(usize::try_from(self.memtables_granted()).unwrap_or(usize::MAX));
    }

    /// Filter bits for every key of a table that is written now: as many as `wanted`, unless all keys that
    /// there are would then take more than M_f.
    pub(super) fn filter_bits_allowed(&self, wanted: f32) -> f32 {
        let Some(percent) = self.memory.split.lock().filter_percent else { return wanted };
        let entries = |version: &crate::version::Version| {
            version.tables().map(|table| table.descriptor().entries).sum::<u64>()
        };
        let keys: u64 = self.trees().iter().map(|tree| entries(&tree.view().version)).sum();
        let allowed = self.options.part(percent) as f64 * 8.0 / keys.max(1) as f64;
        let allowed = allowed.min(BITS_PER_KEY_MAX.into()) as f32;
        // Less than a bit is none: a layout knows nothing between.
        if allowed < 1.0 { 0.0 } else { wanted.min(allowed) }
    }

    /// Bytes of memory that tables hold for as long as they are open: indexes, filters, cache slots.
    pub(super) fn table_memory_bytes(&self) -> u64 {
        let of_table = |table: &TableRef| {
            if let Some(open) = table.file().opened() {
                return open.memory_bytes();
            }
            let slots = u64::from(table.descriptor().blocks) * size_of::<usize>() as u64;
            table.descriptor().index_bytes + table.descriptor().filter_bytes + slots
        };
        self.trees().iter().map(|tree| tree.view().version.tables().map(of_table).sum::<u64>()).sum()
    }

    /// Fits the block cache into what the budget leaves. Called whenever a memtable is sealed or a
    /// version installed.
    pub(super) fn fit_cache(&self) {
        let budget = self.options.memory_bytes;
        let memtables: u64 = self.trees().iter().map(|tree| tree.view().memtable_bytes()).sum();
        let reserved = memtables.max(self.memtables_granted()) + self.table_memory_bytes();
        let left = self.options.divided_bytes().saturating_sub(reserved).max(budget / CACHE_SHARE_MIN);
        let most = self.memory.split.lock().cache_percent.map(|percent| self.options.part(percent));
        let cache = most.map_or(left, |most| left.min(most));
        self.cache.set_capacity(usize::try_from(cache).unwrap_or(usize::MAX));
    }
}

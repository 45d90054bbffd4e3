//! What this machine takes for the steps that operations are made of: `Units`, in nanoseconds,
//! measured by `cost::probe` and stored as JSON.
//!
//! `of_blocks` counts blocks alone, `assumed` is a middling machine. `read_ns` is a random read of
//! any size. Between the four sizes measured it lies on a line. Below them it is the smallest's,
//! above them each page more costs what reading ahead does.
//!
//! What must hold: `is_sane` refuses times that are negative, no numbers, or a minute and more.
//!
//! Callers: `probe` makes them; `cost::model`, `choose`, the agents, `world`, `attach`,
//! `solera cost` and `solera-bench` price by them.

use serde::{Deserialize, Serialize};

/// Sizes of random reads that are measured, in bytes.
pub const READ_BYTES: [u32; 4] = [4 << 10, 8 << 10, 16 << 10, 32 << 10];
/// A page, the papers' unit of I/O, in bytes.
pub const PAGE_BYTES: f64 = 4096.0;

/// Unit costs, in nanoseconds. Measured by [`probe`](super::probe), stored as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Units {
    /// Whether reads went to the device, past the system's cache of files. If not, they are copies.
    pub direct_reads: bool,
    /// I_r: a random read of 4, 8, 16 and 32 KiB.
    pub read_ns: [f64; 4],
    /// A page of a sequential read of 128 KiB, as merges do.
    pub read_ahead_ns_per_page: f64,
    /// I_w: a page written sequentially and made durable.
    pub write_ns_per_page: f64,
    /// A lookup's fixed part: the call, the view, the memtable.
    pub get_ns: f64,
    /// Asking one run: its fence and its filter.
    pub run_probe_ns: f64,
    /// Finding a key in a table that has its block in the cache: index, cache, last mile.
    pub block_find_ns: f64,
    /// Making a block that was read usable: its checksum, its copy.
    pub block_load_ns: f64,
    /// Opening a scan's cursor in one run.
    pub run_seek_ns: f64,
    /// Stepping a scan by one entry.
    pub step_ns: f64,
    /// A write into log and memtable.
    pub put_ns: f64,
    /// An entry's way through one merge, without I/O.
    pub merge_ns_per_entry: f64,
}

impl Units {
    /// Unit costs that count blocks: a block read and a page merged cost 1 each, everything else
    /// nothing.
    pub fn of_blocks() -> Units {
        Units {
            direct_reads: true,
            read_ns: [1.0; 4],
            read_ahead_ns_per_page: 1.0,
            write_ns_per_page: 1.0,
            get_ns: 0.0,
            run_probe_ns: 0.0,
            block_find_ns: 0.0,
            block_load_ns: 0.0,
            run_seek_ns: 0.0,
            step_ns: 0.0,
            put_ns: 0.0,
            merge_ns_per_entry: 0.0,
        }
    }

    /// Unit costs of a middling solid-state disk and processor, in round numbers: what is taken for
    /// true where nothing was measured.
    pub fn assumed() -> Units {
        Units {
            direct_reads: true,
            read_ns: [60_000.0, 65_000.0, 75_000.0, 95_000.0],
            read_ahead_ns_per_page: 5_000.0,
            write_ns_per_page: 8_000.0,
            get_ns: 400.0,
            run_probe_ns: 80.0,
            block_find_ns: 250.0,
            block_load_ns: 600.0,
            run_seek_ns: 400.0,
            step_ns: 40.0,
            put_ns: 700.0,
            merge_ns_per_entry: 250.0,
        }
    }

    /// Whether each is a time that a machine can take: not negative, and less than a minute.
    pub fn is_sane(&self) -> bool {
        const MINUTE_NS: f64 = 6e10;
        let Units { read_ns, read_ahead_ns_per_page, write_ns_per_page, get_ns, run_probe_ns, .. } = self;
        let Units { block_find_ns, block_load_ns, run_seek_ns, step_ns, put_ns, merge_ns_per_entry, .. } =
            self;
        let others = [
            read_ahead_ns_per_page,
            write_ns_per_page,
            get_ns,
            run_probe_ns,
            block_find_ns,
            block_load_ns,
            run_seek_ns,
            step_ns,
            put_ns,
            merge_ns_per_entry,
        ];
        others.into_iter().chain(read_ns).all(|ns| (0.0..MINUTE_NS).contains(ns))
    }

    /// What the first page of a table costs a merge more than one that is read ahead.
    pub fn seek_ns(&self) -> f64 {
        (self.read_ns[0] - self.read_ahead_ns_per_page).max(0.0)
    }

    /// A read of `bytes` that goes on where the one before ended.
    pub fn read_on_ns(&self, bytes: f64) -> f64 {
        (bytes / PAGE_BYTES * self.read_ahead_ns_per_page).min(self.read_ns(bytes))
    }

    /// I_r of `bytes`: between the sizes measured on a straight line, outside as the nearest.
    pub fn read_ns(&self, bytes: f64) -> f64 {
        let sizes = READ_BYTES.map(f64::from);
        let at = sizes.partition_point(|&size| size <= bytes);
        match at {
            0 => self.read_ns[0],
            _ if at == sizes.len() => {
                self.read_ns[at - 1] + (bytes - sizes[at - 1]) / PAGE_BYTES * self.read_ahead_ns_per_page
            }
            _ => {
                let part = (bytes - sizes[at - 1]) / (sizes[at] - sizes[at - 1]);
                self.read_ns[at - 1] + part * (self.read_ns[at] - self.read_ns[at - 1])
            }
        }
    }
}

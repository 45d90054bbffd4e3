//! What the processor did, priced by the engine's own counts: `Processed::of` two observations'
//! difference, in nanoseconds. `reads` and `writes` stand apart; flushes and merges are of writes.
//!
//! What must hold: every step that was counted has its price once. Whatever counts its time charges
//! by it, so that counted times agree.
//!
//! Callers: `world::World`, and the counted machine of `solera-bench` (`paper::counted`).

use crate::cost::Units;
use solera::control::Observation;

/// Nanoseconds that the processor took, by what they were for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Processed {
    /// Lookups and scans.
    pub reads: f64,
    /// Writes, with the flushes and merges that they brought about.
    pub writes: f64,
}

impl Processed {
    /// What was done in `since`, the difference of two observations, at the prices of `units`.
    pub fn of(units: &Units, since: &Observation) -> Processed {
        let mut sum = Processed::default();
        for keyspace in &since.keyspaces {
            let of = &keyspace.counters;
            sum.reads += (of.gets + of.scans) as f64 * units.get_ns
                + of.entries_scanned as f64 * units.step_ns
                + of.blocks_read as f64 * units.block_load_ns;
            sum.writes += of.entries_written as f64 * units.put_ns;
            for level in &keyspace.levels {
                let searched = level.reads.blocks_probed() + level.reads.scan_blocks;
                sum.reads += level.reads.tables_probed() as f64 * units.run_probe_ns
                    + searched as f64 * units.block_find_ns
                    + (of.scans * level.runs) as f64 * units.run_seek_ns;
                let merged = level.merges.entries_in.max(level.merges.entries_out);
                sum.writes += merged as f64 * units.merge_ns_per_entry;
            }
        }
        sum
    }

    /// All of it.
    pub fn ns(&self) -> f64 {
        self.reads + self.writes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::device;
    use solera::{Options, vfs::mem::MemFs};
    use std::sync::Arc;

    #[test]
    fn every_step_that_was_counted_has_its_price_once() {
        let options = Options::new().fs(Arc::new(MemFs::new())).background_threads(0);
        let db = options.open("/processed").unwrap();
        let before = db.control().observe();
        (0..100u32).for_each(|n| db.put(n.to_be_bytes(), b"value").unwrap());
        let written = Processed::of(&device(), &db.control().observe().since(&before));
        assert_eq!(written, Processed { reads: 0.0, writes: 100.0 * device().put_ns });
        let before = db.control().observe();
        (0..10u32).for_each(|n| assert!(db.get(n.to_be_bytes()).unwrap().is_some()));
        let read = Processed::of(&device(), &db.control().observe().since(&before));
        // They lie in the memtable: no run is asked.
        assert_eq!(read, Processed { reads: 10.0 * device().get_ns, writes: 0.0 });
        assert_eq!(read.ns(), read.reads);
    }
}

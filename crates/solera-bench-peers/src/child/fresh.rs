//! Phases of the first moments after a load: `Child::fresh_found` (single reads) and `fresh_scans`.
//!
//! A new database takes every pair in random order. The reads begin when the last put has returned:
//! flushes and merges may be under way or due.
//!
//! What must hold: nothing waits for the engine to settle. Neither the time nor the processor time
//! of the load is measured, but what its flushes and merges take meanwhile is. Each call loads
//! anew.
//!
//! Caller: `Child::measure`.

use super::Child;
use crate::{engine::Result, phase::Measured};
use solera_bench::packed::Packed;

impl Child<'_> {
    pub(super) fn fresh_found(&mut self, probes: &Packed) -> Result<Measured> {
        self.load_only()?;
        self.found(probes)
    }

    pub(super) fn fresh_scans(&mut self, probes: &Packed, entries: usize) -> Result<Measured> {
        self.load_only()?;
        self.scans(probes, entries)
    }

    fn load_only(&mut self) -> Result<()> {
        let engine = self.new_engine()?;
        self.put_everything(&*engine, false)?;
        self.engine = Some(engine);
        Ok(())
    }
}

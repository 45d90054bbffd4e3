//! Phases of the first scan after opening: `Child::opened_scan`.
//!
//! The engine is closed, and its files are brought into the page cache or put out of it. Then it is
//! opened and scanned from end to end. Opening is part of the time.
//!
//! What must hold: nothing that was loaded is missing. Afterwards the engine is opened once more,
//! as for single reads, and checked. That warms the caches again for the phases that follow.
//!
//! Caller: `Child::measure`.

use super::Child;
use crate::{engine::Result, engines, phase::Measured, process};
use solera::clock::Clock;

impl Child<'_> {
    /// `cached`: whether the files lie in the page cache.
    pub(super) fn opened_scan(&mut self, cached: bool) -> Result<Measured> {
        self.engine()?;
        drop(self.engine.take());
        process::settle_device();
        if cached {
            process::cache_files(&self.task.directory)?;
        } else {
            process::uncache_files(&self.task.directory)?;
        }
        let (start, cpu) = (self.clock.monotonic_ns(), process::cpu_seconds());
        self.engine = Some(engines::open(&self.task.engine, &self.setting(true))?);
        let measured = self.full_scan(false)?;
        let seconds = (self.clock.monotonic_ns() - start) as f64 / 1e9;
        let cpu_seconds = process::cpu_seconds() - cpu;
        // Those that follow read here and there.
        drop(self.engine.take());
        self.engine = Some(engines::open(&self.task.engine, &self.setting(false))?);
        let wrong = measured.wrong + self.verify()?;
        Ok(Measured { seconds, cpu_seconds, wrong, ..measured })
    }
}

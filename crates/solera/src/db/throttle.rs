//! Slowing writers down when flush and compaction are behind.
//!
//! How much is decided by [`stall::stall`], purely; here it is carried out.

use super::Core;
use crate::{
    error::Result,
    tree::{
        Tree,
        stall::{self, Backlog, Stall},
    },
};
use std::time::Duration;

impl Core {
    /// Slows a writer of `bytes` down when flush and compaction are behind.
    #[inline]
    pub(super) fn throttle(&self, tree: &Tree, bytes: u64) -> Result<()> {
        match stall::stall(backlog(tree), bytes) {
            Stall::None => Ok(()),
            stalled => self.hold(tree, bytes, stalled),
        }
    }

    #[cold]
    fn hold(&self, tree: &Tree, bytes: u64, first: Stall) -> Result<()> {
        let start = self.clock().monotonic_ns();
        // A simulated clock may be set back.
        let elapsed = || Duration::from_nanos(self.clock().monotonic_ns().saturating_sub(start));
        if self.options.background_threads == 0 {
            // Nobody else does the work: the writer does one step of it.
            self.step()?;
        } else {
            match first {
                Stall::None => {}
                Stall::Delay(delay) => self.clock().sleep(delay),
                Stall::Wait => {
                    let mut waited = Duration::ZERO;
                    while stall::stall(backlog(tree), bytes) == Stall::Wait && waited < stall::STALL_MAX {
                        self.work.wait_for_progress(stall::STALL_MAX - waited);
                        waited = elapsed();
                    }
                    // Held as long as a writer may be: if the work stands still because it fails, say so
                    // instead of filling the memory.
                    if waited >= stall::STALL_MAX {
                        self.work.failure()?;
                    }
                }
            }
        }
        tree.context.stats.stalled(elapsed().as_micros() as u64);
        Ok(())
    }
}

fn backlog(tree: &Tree) -> Backlog {
    let view = tree.view();
    Backlog {
        sealed: view.sealed.len() as u64,
        level0_runs: view.version.level(0).runs().len() as u64,
        level0_limit: u64::from(view.settings.shape.run_limit(0)),
        level0_patience: u64::from(view.settings.level0_patience),
    }
}

//! Very many keyspaces of one key each: `keyspaces`, the child that makes, flushes, opens and reads
//! them under a small budget.
//!
//! What must hold: the times that are judged are of the processor, so that a busy machine changes
//! them little. On a quiet one an open above `OPEN_MS_MAX` or a flush above `FLUSH_MS_MAX` counts
//! as too much memory does: it fails the program where `pieces` calls the row promised. Every key
//! is read and must be right.
//!
//! Callers: `limits::mod` runs the child, `limits::pieces` judges its figures.

use super::{key, peak_rss_kib, processor_ms};
use solera::{Clock, Options, SystemClock};
use std::path::Path;

/// Most processor time that an open of them may take, in milliseconds.
pub(super) const OPEN_MS_MAX: u64 = 300;
/// Most processor time that a flush of all of them may take, in milliseconds.
pub(super) const FLUSH_MS_MAX: u64 = 5000;

fn name(number: u64) -> String {
    format!("space{number}")
}

pub(super) fn keyspaces(dir: &Path, budget: u64, count: u64) -> solera::Result<()> {
    let clock = SystemClock::new();
    let options = || Options::new().memory(budget);
    println!("rss_begin_kib {}", peak_rss_kib()?);
    let db = options().open(dir)?;
    let (busy, since) = (processor_ms(), clock.monotonic_ns());
    let spaces = (0..count).map(|number| db.keyspace(&name(number)));
    let spaces = spaces.collect::<solera::Result<Vec<_>>>()?;
    println!("create_ms {}", processor_ms() - busy);
    println!("create_wall_ms {}", (clock.monotonic_ns() - since) / 1_000_000);
    for (number, space) in (0..).zip(&spaces) {
        space.put(key(number), number.to_le_bytes())?;
    }
    println!("rss_written_kib {}", peak_rss_kib()?);
    let (busy, since) = (processor_ms(), clock.monotonic_ns());
    db.flush()?;
    println!("flush_ms {}", processor_ms() - busy);
    println!("flush_wall_ms {}", (clock.monotonic_ns() - since) / 1_000_000);
    println!("rss_flushed_kib {}", peak_rss_kib()?);
    drop(spaces);
    db.close()?;
    let (busy, since) = (processor_ms(), clock.monotonic_ns());
    let db = options().open(dir)?;
    println!("open_ms {}", processor_ms() - busy);
    println!("open_wall_ms {}", (clock.monotonic_ns() - since) / 1_000_000);
    println!("rss_opened_kib {}", peak_rss_kib()?);
    for number in 0..count {
        if db.keyspace(&name(number))?.get(key(number))?.as_deref() != Some(&number.to_le_bytes()[..]) {
            return Err(solera::Error::Invalid(format!("the key of keyspace {number} is not there")));
        }
    }
    println!("rss_kib {}", peak_rss_kib()?);
    Ok(())
}

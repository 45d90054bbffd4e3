//! What is large in one piece, under a small budget: the children `batch` (or transaction), `value`
//! and `long_keys`.
//!
//! Each prints what is resident once all work is done, and what was at most.
//!
//! What must hold: a child makes the piece, flushes, and reads back some of it. Its largest
//! resident set is held against 1.1 budgets and 2.2 times what is in flight (`IN_FLIGHT_TENTHS`);
//! `limits::pieces` says which of these are promised. `long_keys` counts its walk and its
//! compaction in; `batch` and `value` end counting before they read.
//!
//! Callers: `limits::mod` runs the children, `limits::pieces` judges.

use super::{disk_bytes, key, peak_rss_kib, processor_ms, status};
use crate::random::Random;
use solera::{Db, Options};
use std::path::Path;

/// What may come on top of the budget, in tenths of the largest batch or value in flight.
pub(super) const IN_FLIGHT_TENTHS: u64 = 22;
/// Bytes of a value of a batch: with its key, 100 bytes.
const BATCH_VALUE_BYTES: usize = 92;
/// Bytes that long keys begin with, all the same.
const LONG_PREFIX_BYTES: usize = 60_000 - 8;

fn open(dir: &Path, budget: u64) -> solera::Result<Db> {
    println!("rss_begin_kib {}", peak_rss_kib()?);
    Options::new().memory(budget).open(dir)
}

/// Says what is resident once all work is done, and what was at most.
fn end(db: &Db, dir: &Path) -> solera::Result<()> {
    println!("rss_peak_kib {}", peak_rss_kib()?);
    db.flush()?;
    db.wait_idle()?;
    println!("rss_end_kib {}", status("VmRSS:").unwrap_or(0));
    println!("disk_bytes {}", disk_bytes(dir));
    println!("rss_kib {}", peak_rss_kib()?);
    Ok(())
}

/// Keys in an order that is not theirs.
fn mixed(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// One batch, or one transaction, of so many puts.
pub(super) fn batch(dir: &Path, budget: u64, puts: u64, as_transaction: bool) -> solera::Result<()> {
    let db = open(dir, budget)?;
    let default = db.default().clone();
    let value = [7; BATCH_VALUE_BYTES];
    let before = processor_ms();
    if as_transaction {
        let mut transaction = db.transaction();
        for number in 0..puts {
            transaction.put(&default, mixed(number), value)?;
        }
        println!("fill_ms {}", processor_ms() - before);
        println!("rss_filled_kib {}", peak_rss_kib()?);
        transaction.commit()?;
    } else {
        let mut batch = db.batch();
        for number in 0..puts {
            batch.put(&default, mixed(number), value)?;
        }
        println!("fill_ms {}", processor_ms() - before);
        println!("rss_filled_kib {}", peak_rss_kib()?);
        db.write(batch)?;
    }
    println!("in_flight_bytes {}", puts * (8 + BATCH_VALUE_BYTES as u64));
    end(&db, dir)?;
    for number in (0..puts).step_by(997) {
        if db.get(mixed(number))?.as_deref() != Some(&value[..]) {
            return Err(solera::Error::Invalid(format!("put {number} of the batch is not there")));
        }
    }
    Ok(())
}

/// One value of so many bytes, put again and again.
pub(super) fn value(dir: &Path, budget: u64, bytes: u64, times: u64) -> solera::Result<()> {
    let db = open(dir, budget)?;
    let mut random = Random::new(bytes);
    let mut value = Vec::with_capacity(bytes as usize);
    value.extend((0..bytes / 8).flat_map(|_| random.next().to_le_bytes()));
    for time in 0..times {
        value[0] = time as u8;
        db.put(b"large", &value)?;
        db.put(b"small", time.to_le_bytes())?;
    }
    println!("in_flight_bytes {}", value.len());
    println!("rss_written_kib {}", peak_rss_kib()?);
    end(&db, dir)?;
    if db.get(b"large")?.as_deref() != Some(&value[..]) {
        return Err(solera::Error::Invalid("the large value is not what was put".into()));
    }
    println!("rss_read_kib {}", peak_rss_kib()?);
    Ok(())
}

/// So many keys of 60,000 bytes that differ in their last eight.
pub(super) fn long_keys(dir: &Path, budget: u64, keys: u64) -> solera::Result<()> {
    let db = open(dir, budget)?;
    let mut long = vec![b'k'; LONG_PREFIX_BYTES];
    let mut keyed = |number: u64| {
        long.truncate(LONG_PREFIX_BYTES);
        long.extend_from_slice(&mixed(number));
        long.clone()
    };
    for number in 0..keys {
        db.put(keyed(number), key(number))?;
    }
    println!("in_flight_bytes {}", LONG_PREFIX_BYTES + 8);
    println!("rss_written_kib {}", peak_rss_kib()?);
    end(&db, dir)?;
    let mut random = Random::new(keys);
    for _ in 0..keys / 4 {
        let number = random.below(keys);
        if db.get(keyed(number))?.as_deref() != Some(&key(number)[..]) {
            return Err(solera::Error::Invalid(format!("long key {number} is not there")));
        }
    }
    println!("rss_got_kib {}", peak_rss_kib()?);
    let found = db.iter().try_fold(0u64, |count, pair| pair.map(|_| count + 1))?;
    println!("rss_scanned_kib {}", peak_rss_kib()?);
    db.compact_range(..)?;
    println!("rss_kib {}", peak_rss_kib()?);
    if found != keys {
        return Err(solera::Error::Invalid(format!("{found} long keys of {keys} were found")));
    }
    Ok(())
}

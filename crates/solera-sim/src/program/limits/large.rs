//! What is large in one piece, under a small budget: the children `batch` (or transaction), `value`
//! and `long_keys`.
//!
//! Each prints what is resident once all work is done, and what was at most.
//!
//! What must hold: a child makes the piece, flushes, rests, and reads back some of it. Its largest
//! resident set is held against 1.1 budgets and 2.2 times what is in flight (`IN_FLIGHT_TENTHS`);
//! after the rest that of then against 1.1 budgets alone, and its files against what is live
//! (`disk_allowed`). `limits::pieces` says which of these are promised. `long_keys` counts its walk
//! and its compaction in; `batch` and `value` end counting before they read.
//!
//! Callers: `limits::mod` runs the children, `limits::pieces` judges.

use super::{disk_bytes, key, peak_rss_kib, processor_ms, status};
use crate::random::Random;
use solera::{Clock, Db, Options, SystemClock};
use std::{path::Path, time::Duration};

/// What may come on top of the budget, in tenths of the largest batch or value in flight.
pub(super) const IN_FLIGHT_TENTHS: u64 = 22;
/// Most processor time that a put into a batch or a transaction may take, in nanoseconds.
pub(super) const FILL_NS_MAX: u64 = 500;
/// The files of a database that rests may take so many times what is live, in tenths, and two write
/// buffers more.
const DISK_TENTHS: u64 = 13;
/// A write buffer is one part in so many of the budget.
const BUFFER_PARTS: u64 = 16;
/// Longest that a database may rest before its files are judged.
const REST_MAX: Duration = Duration::from_secs(10);
/// Bytes of a value of a batch: with its key, 100 bytes.
const BATCH_VALUE_BYTES: usize = 92;
/// Bytes that long keys begin with, all the same.
const LONG_PREFIX_BYTES: usize = 60_000 - 8;

fn open(dir: &Path, budget: u64) -> solera::Result<Db> {
    println!("rss_begin_kib {}", peak_rss_kib()?);
    Options::new().memory(budget).open(dir)
}

/// What the files of a database that rests may take, if so many bytes are live.
pub(super) fn disk_allowed(budget: u64, live_bytes: u64) -> u64 {
    live_bytes * DISK_TENTHS / 10 + 2 * budget / BUFFER_PARTS
}

/// Says what is resident once all work is done, and what was at most. The database rests until its
/// files take what they may with `live_bytes`, but not for ever.
fn end(db: &Db, dir: &Path, budget: u64, live_bytes: u64) -> solera::Result<()> {
    println!("rss_peak_kib {}", peak_rss_kib()?);
    db.flush()?;
    db.wait_idle()?;
    println!("rss_kib {}", peak_rss_kib()?);
    let clock = SystemClock::new();
    let begun_ns = clock.monotonic_ns();
    let rested = || Duration::from_nanos(clock.monotonic_ns() - begun_ns);
    while disk_bytes(dir) > disk_allowed(budget, live_bytes) && rested() < REST_MAX {
        clock.sleep(Duration::from_millis(20));
    }
    println!("rest_ms {}", rested().as_millis());
    println!("rss_end_kib {}", status("VmRSS:").unwrap_or(0));
    println!("live_bytes {live_bytes}");
    println!("disk_bytes {}", disk_bytes(dir));
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
        println!("fill_ns_per_put {}", (processor_ms() - before) * 1_000_000 / puts);
        println!("rss_filled_kib {}", peak_rss_kib()?);
        transaction.commit()?;
    } else {
        let mut batch = db.batch();
        for number in 0..puts {
            batch.put(&default, mixed(number), value)?;
        }
        println!("fill_ns_per_put {}", (processor_ms() - before) * 1_000_000 / puts);
        println!("rss_filled_kib {}", peak_rss_kib()?);
        db.write(batch)?;
    }
    let bytes = puts * (8 + BATCH_VALUE_BYTES as u64);
    println!("in_flight_bytes {bytes}");
    end(&db, dir, budget, bytes)?;
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
    let made = || -> Vec<u8> {
        let mut random = Random::new(bytes);
        let mut value = Vec::with_capacity(bytes as usize);
        value.extend((0..bytes / 8).flat_map(|_| random.next().to_le_bytes()));
        value
    };
    let mut value = made();
    let bytes = value.len() as u64;
    for time in 0..times {
        value[0] = time as u8;
        db.put(b"large", &value)?;
        db.put(b"small", time.to_le_bytes())?;
    }
    // What the program holds itself is not the engine's.
    drop(value);
    println!("in_flight_bytes {bytes}");
    println!("rss_written_kib {}", peak_rss_kib()?);
    end(&db, dir, budget, bytes)?;
    let mut value = made();
    value[0] = (times - 1) as u8;
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
    end(&db, dir, budget, keys * (LONG_PREFIX_BYTES + 8) as u64)?;
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

//! A database that rests, is read, and then gets a burst of writes, again and again: `rests`.
//!
//! While it rests, its idle write buffers are lent to the cache. When writes come, that memory has
//! to come back before memtables need it, though readers still hold some blocks of it.
//!
//! What must hold: something is lent in every rest, or the child fails: it would measure nothing.
//!
//! Caller: `limits::run_child`; `limits::pieces` asks for it and judges its memory.

use super::{DATA_FACTOR, KEY_BYTES, USERS, VALUE_BYTES, fill, key, peak_rss_kib, status};
use crate::random::Random;
use solera::{Clock, Db, Options, SystemClock};
use std::time::Duration;

/// The data is one part in so many of that of the other measurements: twice the budget.
const DATA_PARTS: u64 = 10;
/// A burst writes so many write buffers, one of which is a sixteenth of the budget.
const BURST_BUFFERS: u64 = 6;
/// During a burst, so many values are held that were read before, and a walk in the middle.
const HELD: u64 = 8;
/// Longest that a database may take to lend what writers leave idle.
const REST_MAX: Duration = Duration::from_secs(30);

/// `rounds` rests, each with reads and then a burst of writes.
pub(super) fn rests(dir: &std::path::Path, budget: u64, rounds: u64, seed: u64) -> solera::Result<()> {
    let db = Options::new().memory(budget).open(dir)?;
    let keys = budget * DATA_FACTOR / DATA_PARTS / (KEY_BYTES + VALUE_BYTES);
    let mut random = Random::new(seed);
    let mut value = Vec::new();
    for number in 0..keys {
        fill(&mut value, &mut random);
        db.put(key(number), &value)?;
    }
    println!("rss_loaded_kib {}", peak_rss_kib()?);
    let burst = budget / 16 * BURST_BUFFERS / VALUE_BYTES / USERS;
    let (mut lent_max, mut rest_ms_max, mut read) = (0, 0, 0u64);
    for round in 0..rounds {
        let (lent, rest_ms) = rest(&db)?;
        (lent_max, rest_ms_max) = (lent_max.max(lent), rest_ms_max.max(rest_ms));
        for _ in 0..2 * keys {
            read += db.get(key(random.below(keys)))?.map_or(0, |value| value.len() as u64);
        }
        let values = (0..HELD).map(|_| db.get(key(random.below(keys)))).collect::<Result<Vec<_>, _>>()?;
        let mut walk = db.range(key(random.below(keys))..);
        walk.next().transpose()?;
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..USERS)
                .map(|user| {
                    let (db, random) = (&db, Random::new(seed << 16 | round << 8 | user));
                    scope.spawn(move || write(db, keys, burst, random))
                })
                .collect();
            writers.into_iter().try_for_each(|writer| {
                writer.join().unwrap_or_else(|_| Err(solera::Error::Poisoned("a thread panicked".into())))
            })
        })?;
        drop((values, walk));
        println!("rss_round{round}_kib {}", peak_rss_kib()?);
    }
    println!("read_mib {}", read >> 20);
    println!("lent_kib {}", lent_max >> 10);
    println!("rest_ms {rest_ms_max}");
    println!("cache_kib {}", db.stats().block_cache_bytes >> 10);
    println!("rss_end_kib {}", status("VmRSS:").unwrap_or(0));
    println!("rss_kib {}", peak_rss_kib()?);
    Ok(())
}

/// Waits until something is lent: how much, and after how many milliseconds.
fn rest(db: &Db) -> solera::Result<(u64, u64)> {
    let clock = SystemClock::new();
    let begun_ns = clock.monotonic_ns();
    loop {
        let rested = Duration::from_nanos(clock.monotonic_ns() - begun_ns);
        match db.stats().block_cache_lent_bytes {
            0 if rested < REST_MAX => clock.sleep(Duration::from_millis(20)),
            0 => return Err(solera::Error::Invalid("the database rests and lends nothing".into())),
            lent => return Ok((lent, rested.as_millis() as u64)),
        }
    }
}

/// Writes, and reads what it has not written now and then.
fn write(db: &Db, keys: u64, count: u64, mut random: Random) -> solera::Result<()> {
    let mut value = Vec::new();
    for nth in 0..count {
        fill(&mut value, &mut random);
        db.put(key(random.below(keys)), &value)?;
        if nth % 4 == 0 {
            db.get(key(random.below(keys)))?;
        }
    }
    Ok(())
}

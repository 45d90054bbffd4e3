//! What users hold or write in odd shapes, under a small budget: the children `operands`,
//! `iterators`, `ranges` and `near`.
//!
//! - *operands*: large operands of one key; the value that they come to is what is in flight.
//! - *iterators*: very many of them at once, each stepped, over keys or values of any length.
//! - *ranges*: a batch of range deletions alone.
//! - *near*: several threads that put values just under the size from which they are kept apart.
//!
//! What must hold: `operands` and `near` read values back in their lengths, `ranges` as many keys
//! as are left; `iterators` only reads without an error. The largest resident set is held against
//! 1.1 budgets and 2.2 times what is in flight (`large::IN_FLIGHT_TENTHS`); `limits::pieces` says
//! which of these are promised.
//!
//! Callers: `limits::mod` runs the children, `limits::pieces` judges.

use super::{key, peak_rss_kib, status};
use crate::random::Random;
use solera::{Db, KeyspaceOptions, Options, operator};
use std::{path::Path, sync::Arc};

fn open(dir: &Path, budget: u64) -> solera::Result<Db> {
    println!("rss_begin_kib {}", peak_rss_kib()?);
    Options::new().memory(budget).open(dir)
}

fn wrong(what: String) -> solera::Error {
    solera::Error::Invalid(what)
}

/// `count` operands of `bytes` for one key of an operator: read, walked over and compacted.
pub(super) fn operands(dir: &Path, budget: u64, bytes: u64, count: u64, name: &str) -> solera::Result<()> {
    let db = open(dir, budget)?;
    let operator = operator::builtin(name).ok_or_else(|| wrong(format!("no operator {name}")))?;
    let space = db.keyspace_with("space", KeyspaceOptions::new().merge_operator(operator))?;
    let mut random = Random::new(bytes);
    let mut operand = vec![0; bytes as usize];
    operand.chunks_mut(8).for_each(|word| word.copy_from_slice(&random.next().to_le_bytes()[..word.len()]));
    for number in 0..count {
        operand[..8].copy_from_slice(&number.to_be_bytes());
        space.merge("key", &operand)?;
    }
    let expected = if name == "append" { bytes * count } else { bytes };
    println!("in_flight_bytes {expected}");
    println!("rss_written_kib {}", peak_rss_kib()?);
    db.flush()?;
    db.wait_idle()?;
    println!("rss_flushed_kib {}", peak_rss_kib()?);
    let check = |value: &[u8], how: &str| match value.len() as u64 == expected {
        true => Ok(()),
        false => Err(wrong(format!("{how}: {} bytes, not {expected}", value.len()))),
    };
    check(&space.get("key")?.ok_or_else(|| wrong("no value".into()))?, "get")?;
    println!("rss_got_kib {}", peak_rss_kib()?);
    for pair in space.iter() {
        check(&pair?.1, "walk")?;
    }
    println!("rss_walked_kib {}", peak_rss_kib()?);
    space.compact_range(..)?;
    println!("rss_compacted_kib {}", peak_rss_kib()?);
    check(&space.get("key")?.ok_or_else(|| wrong("no value".into()))?, "get after compaction")?;
    println!("rss_end_kib {}", status("VmRSS:").unwrap_or(0));
    println!("rss_kib {}", peak_rss_kib()?);
    Ok(())
}

/// `keys` keys of `key_bytes` with values of `value_bytes`, `count` iterators at once, each stepped
/// `steps` times, in turns.
pub(super) fn iterators(
    dir: &Path,
    budget: u64,
    [keys, key_bytes, value_bytes, count, steps]: [u64; 5],
) -> solera::Result<()> {
    let db = open(dir, budget)?;
    let mut random = Random::new(keys);
    let mut long = vec![b'k'; key_bytes as usize];
    let mut value = vec![0; value_bytes as usize];
    let at = long.len() - 8;
    for number in 0..keys {
        long[at..].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        value.chunks_mut(8).for_each(|word| word.copy_from_slice(&random.next().to_le_bytes()[..word.len()]));
        db.put(&long, &value)?;
    }
    println!("rss_written_kib {}", peak_rss_kib()?);
    db.flush()?;
    db.wait_idle()?;
    println!("rss_flushed_kib {}", peak_rss_kib()?);
    let mut iterators: Vec<_> = (0..count).map(|_| db.iter()).collect();
    for iterator in &mut iterators {
        // Each begins elsewhere.
        long[at..].copy_from_slice(&random.next().to_be_bytes());
        iterator.seek(&long)?;
    }
    println!("rss_sought_kib {}", peak_rss_kib()?);
    let mut seen = 0u64;
    for _ in 0..steps {
        for iterator in &mut iterators {
            seen += iterator.next().transpose()?.map_or(0, |(key, _)| key.len() as u64);
        }
    }
    println!("seen_bytes {seen}");
    println!("cache_kib {}", db.stats().block_cache_bytes >> 10);
    println!("runs {}", db.default().stats().levels.iter().map(|level| level.runs.len() as u64).sum::<u64>());
    println!("rss_held_kib {}", status("VmRSS:").unwrap_or(0));
    println!("in_flight_bytes {}", key_bytes + value_bytes);
    println!("rss_kib {}", peak_rss_kib()?);
    drop(iterators);
    println!("rss_end_kib {}", status("VmRSS:").unwrap_or(0));
    Ok(())
}

/// One batch of `count` range deletions, over keys that are there.
pub(super) fn ranges(dir: &Path, budget: u64, count: u64) -> solera::Result<()> {
    let db = open(dir, budget)?;
    for number in 0..count {
        db.put(key(number), [7; 32])?;
    }
    db.flush()?;
    db.wait_idle()?;
    println!("rss_written_kib {}", peak_rss_kib()?);
    let mut batch = db.batch();
    let mut bytes = 0;
    for number in (0..count - 1).step_by(2) {
        batch.delete_range(db.default(), key(number)..key(number + 1))?;
        bytes += 40;
    }
    println!("rss_filled_kib {}", peak_rss_kib()?);
    println!("in_flight_bytes {bytes}");
    db.write(batch)?;
    println!("rss_committed_kib {}", peak_rss_kib()?);
    let left = db.iter().try_fold(0u64, |left, pair| pair.map(|_| left + 1))?;
    println!("rss_walked_kib {}", peak_rss_kib()?);
    db.flush()?;
    db.wait_idle()?;
    println!("rss_end_kib {}", status("VmRSS:").unwrap_or(0));
    println!("rss_kib {}", peak_rss_kib()?);
    if left != count - count / 2 {
        return Err(wrong(format!("{left} of {count} are left")));
    }
    Ok(())
}

/// `threads` threads that put `times` values of `bytes` each.
pub(super) fn near(dir: &Path, budget: u64, threads: u64, bytes: u64, times: u64) -> solera::Result<()> {
    let db = Arc::new(open(dir, budget)?);
    println!("in_flight_bytes {}", bytes * threads);
    let name = |thread: u64, time: u64| key(thread << 32 | time);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..threads)
            .map(|thread| {
                let db = &db;
                scope.spawn(move || {
                    let mut random = Random::new(thread);
                    let mut value = vec![0; bytes as usize];
                    for time in 0..times {
                        let fill = |word: &mut [u8]| {
                            word.copy_from_slice(&random.next().to_le_bytes()[..word.len()]);
                        };
                        value.chunks_mut(8).for_each(fill);
                        db.put(name(thread, time), &value)?;
                    }
                    Ok::<_, solera::Error>(())
                })
            })
            .collect();
        writers
            .into_iter()
            .try_for_each(|writer| writer.join().unwrap_or_else(|_| Err(wrong("a panic".into()))))
    })?;
    println!("rss_written_kib {}", peak_rss_kib()?);
    db.flush()?;
    db.wait_idle()?;
    println!("rss_kib {}", peak_rss_kib()?);
    for thread in 0..threads {
        if db.get(name(thread, times - 1))?.map(|value| value.len() as u64) != Some(bytes) {
            return Err(wrong(format!("the last value of thread {thread} is not there")));
        }
    }
    Ok(())
}

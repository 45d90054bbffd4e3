//! A clock that jumps, backwards too, with reopenings in between: `live`, random steps on keys with
//! a time to live. It says how often the clock was set back.
//!
//! What must hold: a key that was found gone does not come back, unless it is put again. Two times
//! count at its put: what the clock shows, and the latest that it ever showed. The key is there
//! until the latest time reaches the first plus its time to live. It is gone once the clock shows
//! the second plus its time to live, or more.
//!
//! Callers: `program::faultloop`; `tests/lives.rs`.

use crate::{life::caught, random::Random, setting::Setting};
use solera::{Db, Keyspace, ManualClock, clock::Clock, vfs::mem::MemFs};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// A key that was given a time to live.
struct Lease {
    /// It is there until then at least.
    alive_before_ms: u64,
    /// It is gone from then on at the latest.
    gone_from_ms: u64,
    /// It was found gone.
    gone: bool,
}

/// Lives `operations` random steps; how often the clock was set back.
pub fn live(seed: u64, operations: usize) -> Result<u64, String> {
    caught(|| {
        let mut random = Random::new(seed);
        let setting = Setting::random(&mut random);
        let clock = Arc::new(ManualClock::at_unix_ms(1_700_000_000_000));
        let fs = MemFs::new();
        let text = |error: solera::Error| error.to_string();
        let open = || setting.options(Arc::new(fs.clone()), clock.clone()).open("/db").map_err(text);
        let mut db: Db = open()?;
        let mut leases: BTreeMap<Vec<u8>, Lease> = BTreeMap::new();
        let mut latest_ms = clock.unix_ms();
        let mut jumps = 0;
        for nth in 0..operations {
            let space: &Keyspace = db.default();
            let key = vec![b'a' + random.below(12) as u8];
            match random.below(12) {
                0..=3 => {
                    let ttl_ms = random.between(1, 30_000);
                    let value = vec![b'v'; random.below(400) as usize];
                    space.put_with_ttl(&key, &value, Duration::from_millis(ttl_ms)).map_err(text)?;
                    let lease = Lease {
                        alive_before_ms: clock.unix_ms() + ttl_ms,
                        gone_from_ms: latest_ms + ttl_ms,
                        gone: false,
                    };
                    leases.insert(key, lease);
                }
                4 => db.flush().map_err(text)?,
                5 => db.compact_range(..).map_err(text)?,
                6 => clock.advance(Duration::from_millis(random.below(8_000))),
                7 => clock.set_unix_ms(latest_ms + random.below(8_000)),
                8 => {
                    clock.set_unix_ms(latest_ms - random.below(60_000));
                    jumps += 1;
                }
                9 => {
                    db.close().map_err(text)?;
                    db = open()?;
                }
                _ => {}
            }
            latest_ms = latest_ms.max(clock.unix_ms());
            let found: Result<BTreeMap<_, _>, _> =
                db.iter().map(|pair| pair.map(|(key, _)| (key.to_vec(), ()))).collect();
            let found = found.map_err(text)?;
            for (key, lease) in &mut leases {
                let there = db.contains_key(key).map_err(text)?;
                let shown = key.escape_ascii();
                if there != found.contains_key(key) {
                    return Err(format!("step {nth}: a walk and a lookup of \"{shown}\" differ"));
                }
                if there && lease.gone {
                    return Err(format!("step {nth}: \"{shown}\" had expired and is back"));
                }
                if !there && latest_ms < lease.alive_before_ms {
                    return Err(format!("step {nth}: \"{shown}\" is gone before its time"));
                }
                if there && clock.unix_ms() >= lease.gone_from_ms {
                    return Err(format!("step {nth}: \"{shown}\" has outlived its time"));
                }
                lease.gone = !there;
            }
        }
        Ok(jumps)
    })
}

//! A cache whose entries go away by themselves (`put_with_ttl`), tested without waiting: the
//! database is opened with a `ManualClock`, which the example moves on.
//!
//! Run it with `cargo run --example expiring_cache`.

use solera::{Options, Result, clock::ManualClock};
use std::{sync::Arc, time::Duration};

fn main() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("solera-expiring-cache-{}", std::process::id()));
    // A program leaves `clock` out and gets the machine's; here an hour passes when we say so.
    let clock = Arc::new(ManualClock::at_unix_ms(1_700_000_000_000));
    let db = Options::new().clock(clock.clone()).open(&dir)?;

    db.put_with_ttl(b"session/ana", b"token 1", Duration::from_secs(600))?;
    db.put_with_ttl(b"session/ben", b"token 2", Duration::from_secs(7200))?;
    db.put(b"session/root", b"token 0")?; // never expires

    let alive = || -> Result<Vec<String>> {
        db.prefix(b"session/")
            .map(|entry| entry.map(|(key, _)| String::from_utf8_lossy(&key).into_owned()))
            .collect()
    };
    println!("now:            {}", alive()?.join(", "));
    assert_eq!(alive()?.len(), 3);

    clock.advance(Duration::from_secs(3600));
    println!("in an hour:     {}", alive()?.join(", "));
    assert!(db.get(b"session/ana")?.is_none());

    // Using a session renews it: a put with a new time to live replaces the old one.
    db.put_with_ttl(b"session/ben", b"token 2", Duration::from_secs(7200))?;
    clock.advance(Duration::from_secs(2 * 3600 - 1));
    println!("two hours more: {}", alive()?.join(", "));
    assert_eq!(alive()?, ["session/ben", "session/root"]);

    db.close()?;
    std::fs::remove_dir_all(&dir).expect("nobody else uses this directory");
    Ok(())
}

//! Load a million sorted entries straight into tables (`Keyspace::ingest`), then take a checkpoint,
//! delete all in the original, and find the entries in the copy.
//!
//! `ingest` writes no log and merges nothing: the fastest way to fill a keyspace. A checkpoint is a
//! second database that shares the tables by hard links. It is a consistent copy in no time, though
//! not one on other media.
//!
//! Run it with `cargo run --release --example bulk_load`.

use solera::{
    Db, Result,
    clock::{Clock, SystemClock},
};

const ENTRIES: u64 = 1_000_000;

fn main() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("solera-bulk-load-{}", std::process::id()));
    let db = Db::open(dir.join("live"))?;
    let clock = SystemClock::new();

    let squares = db.keyspace("squares")?;
    // Keys must come in strictly ascending order; big-endian numbers sort as numbers.
    let report = squares
        .ingest((0..ENTRIES).map(|n| (n.to_be_bytes(), (u128::from(n) * u128::from(n)).to_be_bytes())))?;
    println!(
        "{} entries, {:.1} MB in {} tables, after {} ms",
        report.entries,
        report.bytes as f64 / 1e6,
        report.tables,
        clock.monotonic_ns() / 1_000_000
    );

    db.checkpoint(dir.join("backup"))?;
    println!("checkpoint taken, after {} ms", clock.monotonic_ns() / 1_000_000);

    // What happens to the live database does not touch the copy.
    squares.delete_range(0u64.to_be_bytes()..ENTRIES.to_be_bytes())?;
    assert!(squares.get(12u64.to_be_bytes())?.is_none());

    let backup = Db::open(dir.join("backup"))?;
    let value = backup.keyspace("squares")?.get(12u64.to_be_bytes())?.expect("ingested above");
    println!("12² is {}", u128::from_be_bytes(value[..].try_into().expect("squares have 16 bytes")));

    drop(squares);
    backup.close()?;
    db.close()?;
    std::fs::remove_dir_all(&dir).expect("nobody else uses this directory");
    Ok(())
}

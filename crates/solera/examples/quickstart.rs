//! Open a database, write, read back, delete, walk the keys of a prefix backwards, read at a
//! snapshot, close.
//!
//! Run it with `cargo run --example quickstart`.

use solera::{Db, Result};

fn main() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("solera-quickstart-{}", std::process::id()));
    let db = Db::open(&dir)?; // created if it is not there

    db.put(b"cask/1850", b"pale")?;
    db.put(b"cask/1901", b"amber")?;
    db.put(b"cask/1977", b"dark")?;
    db.put(b"jug/1", b"empty")?;

    // A value is a slice of the engine's own memory, not a copy.
    let value = db.get(b"cask/1901")?.expect("written above");
    println!("cask/1901 is {}", String::from_utf8_lossy(&value));

    db.delete(b"cask/1850")?;
    assert!(db.get(b"cask/1850")?.is_none());

    println!("all casks, newest first:");
    for entry in db.prefix(b"cask/").rev() {
        let (key, value) = entry?;
        println!("  {} = {}", String::from_utf8_lossy(&key), String::from_utf8_lossy(&value));
    }

    // A snapshot keeps what it saw.
    let before = db.snapshot();
    db.put(b"jug/1", b"full")?;
    let jugs = db.default().clone();
    assert_eq!(before.get(&jugs, b"jug/1")?.as_deref(), Some(&b"empty"[..]));
    assert_eq!(db.get(b"jug/1")?.as_deref(), Some(&b"full"[..]));

    drop((before, jugs));
    db.close()?;
    std::fs::remove_dir_all(&dir).expect("nobody else uses this directory");
    Ok(())
}

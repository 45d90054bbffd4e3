//! Count words with `merge`, then print the counts: every increment is one blind write; nothing is
//! read to write it. The keyspace has the built-in merge operator `Counter`.
//!
//! Run it with `cargo run --example counters`.

use solera::{Db, KeyspaceOptions, Result, operator::Counter};
use std::sync::Arc;

const TEXT: &str = "the wine is drawn from the oldest cask and the cask is filled from the next \
                    and the next from the next and new wine goes into the youngest cask";

fn main() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("solera-counters-{}", std::process::id()));
    let db = Db::open(&dir)?;
    // The operator says what an operand means; it is recorded by name with the keyspace.
    let words = db.keyspace_with("words", KeyspaceOptions::new().merge_operator(Arc::new(Counter)))?;

    for word in TEXT.split_whitespace() {
        words.merge(word.as_bytes(), Counter::encode(1))?;
    }
    words.merge(b"cask", Counter::encode(-1))?; // one of them leaks

    // Operands are folded when they are read, and for good when the engine compacts.
    words.flush()?;
    for entry in words.iter() {
        let (word, count) = entry?;
        let count = Counter::decode(&count).expect("counters have 8 bytes");
        println!("{count:>3} {}", String::from_utf8_lossy(&word));
    }
    let cask = words.get(b"cask")?.as_deref().and_then(Counter::decode);
    assert_eq!(cask, Some(2));

    drop(words);
    db.close()?;
    std::fs::remove_dir_all(&dir).expect("nobody else uses this directory");
    Ok(())
}

//! Reads of small data, to be counted under callgrind: instructions of one operation, which repeat
//! where times do not.
//!
//! Sets: `50k` and `1m` (pairs of 8 + 64 bytes, one half of the possible keys), `rows` (the sample
//! of real rows). Operations: `into` (a get into a buffer), `slice` (a get that returns a slice),
//! `absent` (a get into a buffer that finds nothing), `scan-owned` and `scan-lent` (100 pairs from
//! a random key, by the ordinary iterator and by the borrowing walk), `walk-owned` and `walk-lent`
//! (a step of a walk over all pairs).
//!
//! `load` makes a database that all builds then read. What a count is taken of is `measured`:
//!
//! `cargo run --release -p solera-bench --example counted -- load SET DIRECTORY`
//! `valgrind --tool=callgrind --toggle-collect='counted::measured*' \`
//! `    target/release/examples/counted OPERATION SET DIRECTORY COUNT`

use solera::{Compression, Db, Layout, Options};
use solera_bench::{data::DataSet, random::Random};
use std::{env, error::Error, hint::black_box};

const VALUE_BYTES: usize = 64;
const SCAN_ENTRIES: usize = 100;
const SEED: u64 = 1;
/// So many reads before the count begins bring a set into the cache.
const WARMING_READS: usize = 100_000;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Pairs of a set, and keys that are not in it.
enum Set {
    /// So many numbers.
    Numbers(u64),
    Rows(DataSet),
}

impl Set {
    fn named(name: &str) -> Outcome<Self> {
        Ok(match name {
            "50k" => Set::Numbers(50_000),
            "1m" => Set::Numbers(1_000_000),
            "rows" => Set::Rows(DataSet::git_history_sample(SEED)),
            _ => return Err(format!("no set is called {name:?}: 50k, 1m, rows").into()),
        })
    }

    fn len(&self) -> usize {
        match self {
            Set::Numbers(count) => *count as usize,
            Set::Rows(rows) => rows.pairs.len(),
        }
    }

    /// The `nth` key and its value, in random order.
    fn pair(&self, nth: usize, take: impl FnOnce(&[u8], &[u8])) {
        match self {
            Set::Numbers(_) => take(&number(nth as u64, false), &[nth as u8; VALUE_BYTES]),
            Set::Rows(rows) => {
                let (key, value) = rows.pairs.get(nth);
                take(key, value);
            }
        }
    }

    /// Keys to ask for: those of the set, or absent ones.
    fn asked(&self, count: usize, absent: bool) -> Vec<Vec<u8>> {
        let mut random = Random::new(SEED);
        let key = |_| match self {
            Set::Numbers(numbers) => number(random.below(*numbers), absent).to_vec(),
            Set::Rows(rows) if absent => {
                rows.absent.get(random.below(rows.absent.len() as u64) as usize).0.to_vec()
            }
            Set::Rows(rows) => rows.pairs.get(random.below(rows.pairs.len() as u64) as usize).0.to_vec(),
        };
        (0..count).map(key).collect()
    }
}

/// The `nth` number: even ones are in the set, odd ones are not.
fn number(nth: u64, absent: bool) -> [u8; 8] {
    (Random::new(nth).draw() << 1 | u64::from(absent)).to_be_bytes()
}

/// What a step of a walk does with an entry: it looks at both.
#[inline(always)]
fn look(key: &[u8], value: &[u8]) {
    black_box((key, value));
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (operation, name, directory, count) = match words[..] {
        ["load", name, directory] => ("load", name, directory, 0),
        [operation, name, directory, count] => (operation, name, directory, count.parse()?),
        _ => return Err("counted load SET DIRECTORY, or counted OPERATION SET DIRECTORY COUNT".into()),
    };
    let set = Set::named(name)?;
    let layout = Layout { compression: Compression::None, ..Layout::default() };
    let db = Options::new().memory(160 << 20).layout(layout).open(directory)?;
    if operation == "load" {
        for nth in 0..set.len() {
            let mut put = Ok(());
            set.pair(nth, |key, value| put = db.put(key, value));
            put?;
        }
        db.flush()?;
        return Ok(db.wait_idle()?);
    }
    let asked = set.asked(count, operation == "absent");
    let mut value = Vec::new();
    for nth in 0..set.len().min(WARMING_READS) {
        let mut found = Ok(false);
        set.pair(nth, |key, _| found = db.get_into(key, &mut value));
        assert!(found?, "the set was loaded into {directory}");
    }
    for count in [count / 8, count] {
        let run = if count == asked.len() { measured } else { perform };
        let done = run(&db, operation, &asked[..count])?;
        println!("{operation} {name}: {done}");
    }
    Ok(())
}

/// [`perform`], by the name that a count is taken of.
#[inline(never)]
fn measured(db: &Db, operation: &str, asked: &[Vec<u8>]) -> Outcome<usize> {
    perform(db, operation, asked)
}

/// As many operations as keys are asked for. Gives how many of them found something; of walks, how
/// many pairs they came to.
#[inline(never)]
fn perform(db: &Db, operation: &str, asked: &[Vec<u8>]) -> Outcome<usize> {
    let mut value = Vec::new();
    let mut done = 0;
    match operation {
        "into" | "absent" => {
            for key in asked {
                done += usize::from(db.get_into(key, &mut value)?);
                black_box(&value);
            }
        }
        "slice" => {
            for key in asked {
                done += usize::from(black_box(db.get(key)?).is_some());
            }
        }
        "scan-owned" => {
            for key in asked {
                for pair in db.range(&key[..]..).take(SCAN_ENTRIES) {
                    let (key, value) = pair?;
                    look(&key, &value);
                    done += 1;
                }
            }
        }
        "scan-lent" => {
            for key in asked {
                let mut pairs = db.range(&key[..]..);
                let mut left = SCAN_ENTRIES;
                while left > 0 && pairs.advance()? {
                    look(pairs.key(), pairs.value());
                    left -= 1;
                }
                done += SCAN_ENTRIES - left;
            }
        }
        "walk-owned" => {
            for pair in db.iter().take(asked.len()) {
                let (key, value) = pair?;
                look(&key, &value);
                done += 1;
            }
        }
        "walk-lent" => {
            let mut pairs = db.iter();
            while done < asked.len() && pairs.advance()? {
                look(pairs.key(), pairs.value());
                done += 1;
            }
        }
        _ => return Err(format!("no operation is called {operation:?}").into()),
    }
    Ok(done)
}

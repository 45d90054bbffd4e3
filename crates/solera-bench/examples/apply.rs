//! How long a change of a knob takes (`Control::apply`), on a database at rest and on one that
//! another thread writes to.
//!
//! Beside it stands how long the device takes meanwhile to sync 100 bytes. Once they lie at the end
//! of a file that no other program has, once in the middle of a file whose length and places stay.
//! That is the part that no engine can take away. It prints the median, the 99th percentile and the
//! longest, in milliseconds.
//!
//! `cargo run --release -p solera-bench --example apply -- [entries] [changes]`

use solera::{
    Db, Options,
    clock::{Clock, SystemClock},
    control::{Change, Knob, Value, knob},
    vfs::{Fs, posix::PosixFs},
};
use solera_bench::random::Random;
use std::{
    env,
    error::Error,
    fs::File,
    os::unix::fs::FileExt,
    sync::atomic::{AtomicBool, Ordering},
};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// A knob of each kind: of the shape, of the tables, of the memory.
const TURNS: [(&Knob, [u32; 2]); 4] = [
    (&knob::SIZE_RATIO, [6, 10]),
    (&knob::RUN_LIMIT, [3, 1]),
    (&knob::EPSILON, [4, 8]),
    (&knob::CACHE_PERCENT, [40, 60]),
];

/// Size of the file that is synced in place.
const WHOLE_BYTES: usize = 1 << 20;

#[expect(clippy::disallowed_methods, reason = "the engine's files are never written in place")]
fn main() -> Outcome<()> {
    let mut numbers = env::args().skip(1);
    let mut number = |default: u64| numbers.next().map_or(Ok(default), |text| text.parse());
    let (entries, changes) = (number(1_000_000)?, number(1000)?);
    let directory = tempfile::tempdir()?;
    let clock = SystemClock::new();
    let timed = |what: &mut dyn FnMut(u64) -> Outcome<()>| -> Outcome<Vec<u64>> {
        (0..changes)
            .map(|nth| {
                let start = clock.monotonic_ns();
                what(nth)?;
                Ok(clock.monotonic_ns() - start)
            })
            .collect()
    };

    let mut file = PosixFs.create(&directory.path().join("synced"))?;
    let mut sync = |_| -> Outcome<()> { Ok(file.append(&[0; 100]).and_then(|()| file.sync())?) };
    print("sync at rest", timed(&mut sync)?);
    let whole = File::create(directory.path().join("whole"))?;
    whole.write_all_at(&vec![0; WHOLE_BYTES], 0)?;
    whole.sync_all()?;
    let sync_in_place = |nth: u64| -> Outcome<()> {
        whole.write_all_at(&[1; 100], nth * 100 % WHOLE_BYTES as u64)?;
        Ok(whole.sync_data()?)
    };
    print("sync in place", timed(&mut |nth| sync_in_place(nth))?);

    let db = Options::new().memory(256 << 20).open(directory.path().join("db"))?;
    let mut random = Random::new(1);
    (0..entries).try_for_each(|_| put(&db, &mut random))?;
    db.flush()?;
    db.wait_idle()?;
    print("change at rest", timed(&mut |nth| turn(&db, nth))?);

    let done = AtomicBool::new(false);
    let taken = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                put(&db, &mut random)?;
            }
            Ok(())
        });
        // In turns: what the device is busy with meets all three.
        let mut taken = [const { Vec::new() }; 3];
        let outcome = (0..changes).try_for_each(|nth| {
            let kinds: [&mut dyn FnMut(u64) -> Outcome<()>; 3] =
                [&mut sync, &mut |nth| sync_in_place(nth), &mut |nth| turn(&db, nth)];
            kinds.into_iter().zip(&mut taken).try_for_each(|(kind, taken)| {
                let start = clock.monotonic_ns();
                kind(nth)?;
                taken.push(clock.monotonic_ns() - start);
                Ok(())
            })
        });
        done.store(true, Ordering::Relaxed);
        let written: Outcome<()> = writer.join().map_err(|_| "the writer panicked")?;
        written.and(outcome).map(|()| taken)
    })?;
    for (what, taken) in
        ["sync under writes", "in place under writes", "change under writes"].into_iter().zip(taken)
    {
        print(what, taken);
    }
    Ok(())
}

fn put(db: &Db, random: &mut Random) -> Outcome<()> {
    Ok(db.put(random.draw().to_be_bytes(), [7; 64])?)
}

fn turn(db: &Db, nth: u64) -> Outcome<()> {
    let (knob, values) = TURNS[nth as usize % TURNS.len()];
    let value = values[nth as usize / TURNS.len() % values.len()];
    db.control().apply(Change::new("bench", "how long it takes").set(knob, Value::from(value)))?;
    Ok(())
}

fn print(what: &str, mut ns: Vec<u64>) {
    ns.sort_unstable();
    let ms = |quantile: f64| ns[((ns.len() - 1) as f64 * quantile) as usize] as f64 / 1e6;
    println!("{what:<21} median {:.3} ms, p99 {:.3} ms, longest {:.3} ms", ms(0.5), ms(0.99), ms(1.0));
}

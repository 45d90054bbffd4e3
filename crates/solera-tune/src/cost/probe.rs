//! The two-second probe of a machine: `probe` measures what reads, writes and the steps of an
//! operation take here, as `Units`.
//!
//! Files are read past the system's cache where possible, else through it; `Units::direct_reads`
//! says which. The processor's parts come from databases in memory, through the engine's public
//! face. Some are differences, such as a lookup with seven runs and with one, and may come to 0.
//!
//! What must hold: the directory is left as it was, after a failure too; a file that cannot be
//! removed is an error. What a killed process left goes at the next open of a database there, and
//! stops no other probe. `probe_unless` ends soon after its caller says so.
//! Callers: `attach` (`stepped`, the tuner's thread), `solera cost`, and the papers' experiments of
//! `solera-bench`.

use super::units::{READ_BYTES, Units};
use solera::{
    Clock, Compression, Db, Error, Layout, Options, Result, Shape, SystemClock,
    dir::{FileName, magic::MAGIC_BYTES},
    ids::FileId,
    vfs::{Fs, ReadFile, WriteFile, mem::MemFs, read_exact_at},
};
use std::{
    hint::black_box,
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Bytes of the file that is read and written.
const FILE_BYTES: u64 = 64 << 20;
/// Bytes of one append and of one read ahead, as merges do.
const PIECE_BYTES: u64 = 128 << 10;
/// Pages in a piece.
const PIECE_PAGES: f64 = 32.0;
/// Time for each kind of read.
const READ_NS: u64 = 150_000_000;
/// Time for each kind of operation in memory.
const STEP_NS: u64 = 60_000_000;
/// Calls between two looks at the clock.
const STRETCH: u64 = 16;
/// Entries of the databases in memory.
const ENTRIES: u64 = 42_000;
/// Bytes of their values.
const VALUE_BYTES: usize = 100;
/// Runs of the database that has many.
const RUNS: u64 = 7;

/// Pseudo-random numbers (splitmix64): which key, which offset.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ (z >> 31)) * u128::from(n)) >> 64) as u64
    }
}

/// Measures this machine, for some two seconds and 64 MiB in the directory `dir`, which is left as
/// it was. The devices and the processor are asked as they are: what else runs, slows reads and
/// writes, and lookups less.
///
/// # Errors
/// What `fs` says if the file cannot be written or read.
pub fn probe(fs: &dyn Fs, dir: &Path) -> Result<Units> {
    measured(fs, dir, &Bench { clock: SystemClock::new(), stops: &|| false })
}

/// The same, ended without a result soon after `stops` says so.
///
/// # Errors
/// As [`probe`].
pub fn probe_unless(fs: &dyn Fs, dir: &Path, stops: &dyn Fn() -> bool) -> Result<Option<Units>> {
    match measured(fs, dir, &Bench { clock: SystemClock::new(), stops }) {
        Err(Error::Closed) if stops() => Ok(None),
        measured => measured.map(Some),
    }
}

/// What everything is measured by.
struct Bench<'a> {
    clock: SystemClock,
    /// Whether no caller waits for the result any more.
    stops: &'a dyn Fn() -> bool,
}

impl Bench<'_> {
    fn now_ns(&self) -> u64 {
        self.clock.monotonic_ns()
    }

    /// Fails once no caller waits any more.
    fn go_on(&self) -> Result<()> {
        if (self.stops)() { Err(Error::Closed) } else { Ok(()) }
    }
}

fn measured(fs: &dyn Fs, dir: &Path, bench: &Bench<'_>) -> Result<Units> {
    let (path, file) = create(fs, dir)?;
    let files = probe_files(fs, &path, file, bench);
    // Also after a failure; whichever of the two errors comes first is the one to tell.
    let removed = if fs.exists(&path)? { fs.remove_file(&path) } else { Ok(()) };
    let (write_ns_per_page, direct_reads, read_ns, read_ahead_ns_per_page) = files?;
    removed?;
    let steps = probe_steps(bench)?;
    Ok(Units { direct_reads, read_ns, read_ahead_ns_per_page, write_ns_per_page, ..steps })
}

/// A file that no other probe has, neither of this process nor of others.
fn create(fs: &dyn Fs, dir: &Path) -> Result<(PathBuf, Box<dyn WriteFile>)> {
    let mut number = FileId(0);
    loop {
        let path = FileName::Probe(number).in_dir(dir);
        match fs.create(&path) {
            Err(error) if error.io_kind() == Some(ErrorKind::AlreadyExists) => number.0 += 1,
            created => return Ok((path, created?)),
        }
    }
}

fn probe_files(
    fs: &dyn Fs,
    path: &Path,
    mut file: Box<dyn WriteFile>,
    bench: &Bench<'_>,
) -> Result<(f64, bool, [f64; 4], f64)> {
    let mut piece = vec![0u8; PIECE_BYTES as usize];
    let mut draw = Draw(1);
    // An open takes a file for a leftover of ours if it begins with zeros.
    piece[MAGIC_BYTES..].iter_mut().for_each(|byte| *byte = draw.below(256) as u8);
    let start = bench.now_ns();
    for _ in 0..FILE_BYTES / PIECE_BYTES {
        bench.go_on()?;
        file.append(&piece)?;
    }
    file.sync()?;
    let pages = (FILE_BYTES / PIECE_BYTES) as f64 * PIECE_PAGES;
    let write_ns_per_page = (bench.now_ns() - start) as f64 / pages;
    drop(file);
    let (file, direct) = open(fs, path)?;
    let mut buffer = vec![0; PIECE_BYTES as usize];
    let mut read = |bytes: u64, pause: f64| -> Result<f64> {
        let slots = (FILE_BYTES - bytes) / 4096;
        mean_ns(bench, READ_NS, || {
            read_exact_at(&*file, &mut buffer[..bytes as usize], draw.below(slots) * 4096)?;
            black_box(&buffer);
            Ok(())
        })
        .map(|ns| ns * pause)
    };
    let mut read_ns = [0.0; READ_BYTES.len()];
    for (ns, bytes) in read_ns.iter_mut().zip(READ_BYTES) {
        *ns = read(bytes.into(), 1.0)?;
    }
    let read_ahead_ns_per_page = read(PIECE_BYTES, 1.0 / PIECE_PAGES)?;
    Ok((write_ns_per_page, direct, read_ns, read_ahead_ns_per_page))
}

/// The file for direct reads, if one such read succeeds; else for others.
fn open(fs: &dyn Fs, path: &Path) -> Result<(Arc<dyn ReadFile>, bool)> {
    if let Ok(file) = fs.open_direct(path)
        && read_exact_at(&*file, &mut [0; 512], 512).is_ok()
    {
        return Ok((file, true));
    }
    Ok((fs.open(path)?, false))
}

/// Nanoseconds of one call of `step` in the mean, over `limit_ns`, after a tenth of it to warm up.
fn mean_ns(bench: &Bench<'_>, limit_ns: u64, step: impl FnMut() -> Result<()>) -> Result<f64> {
    let stretches = stretches(bench, limit_ns, step)?;
    Ok(stretches.iter().sum::<u64>() as f64 / (stretches.len() as u64 * STRETCH) as f64)
}

/// The same of a stretch of calls in the middle: of steps that take alike, what else the machine
/// does meanwhile lengthens few.
fn median_ns(bench: &Bench<'_>, limit_ns: u64, step: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut stretches = stretches(bench, limit_ns, step)?;
    let middle = stretches.len() / 2;
    Ok(*stretches.select_nth_unstable(middle).1 as f64 / STRETCH as f64)
}

/// Nanoseconds of stretches of [`STRETCH`] calls of `step`, at least one, over `limit_ns`.
fn stretches(bench: &Bench<'_>, limit_ns: u64, mut step: impl FnMut() -> Result<()>) -> Result<Vec<u64>> {
    let mut run = |limit_ns: u64| -> Result<Vec<u64>> {
        let (start, mut stretches) = (bench.now_ns(), Vec::new());
        let mut last = start;
        while stretches.is_empty() || last - start < limit_ns {
            bench.go_on()?;
            (0..STRETCH).try_for_each(|_| step())?;
            let now = bench.now_ns();
            stretches.push(now - last);
            last = now;
        }
        Ok(stretches)
    };
    run(limit_ns / 10)?;
    run(limit_ns)
}

/// The key of number `i`. Even numbers are there, odd ones are not.
fn key(i: u64) -> [u8; 8] {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// A database in memory of [`RUNS`] runs and what a put took.
fn fill(memory_bytes: u64, bench: &Bench<'_>) -> Result<(Db, f64)> {
    let layout = Layout { compression: Compression::None, ..Layout::default() };
    let shape = Shape { run_limits: vec![16, 1], ..Shape::default() };
    let options = Options::new().fs(Arc::new(MemFs::new())).memory(memory_bytes).layout(layout).shape(shape);
    let db = options.background_threads(0).open("/probe")?;
    let value = [7; VALUE_BYTES];
    let mut put_ns = 0;
    for run in 0..RUNS {
        bench.go_on()?;
        let start = bench.now_ns();
        for i in (run..ENTRIES).step_by(RUNS as usize) {
            db.put(key(2 * i), value)?;
        }
        put_ns += bench.now_ns() - start;
        db.flush()?;
    }
    Ok((db, put_ns as f64 / ENTRIES as f64))
}

fn probe_steps(bench: &Bench<'_>) -> Result<Units> {
    let (db, put_ns) = fill(64 << 20, bench)?;
    let mut draw = Draw(2);
    let mut absent = |db: &Db| {
        median_ns(bench, STEP_NS, || {
            db.get(key(2 * draw.below(ENTRIES) + 1)).map(|value| drop(black_box(value)))
        })
    };
    let absent_many = absent(&db)?;
    let mut draw = Draw(3);
    let mut seek = |db: &Db| {
        median_ns(bench, STEP_NS, || {
            let mut scan = db.range(&key(2 * draw.below(ENTRIES))[..]..);
            black_box(scan.advance()?);
            Ok(())
        })
    };
    let seek_many = seek(&db)?;
    let start = bench.now_ns();
    db.compact_range(..)?;
    let merge_ns_per_entry = (bench.now_ns() - start) as f64 / ENTRIES as f64;
    let (absent_one, seek_one) = (absent(&db)?, seek(&db)?);
    let others = (RUNS - 1) as f64;
    let run_probe_ns = ((absent_many - absent_one) / others).max(0.0);
    let get_ns = (absent_one - run_probe_ns).max(0.0);
    let mut draw = Draw(4);
    let mut found = |db: &Db| {
        median_ns(bench, STEP_NS, || db.get(key(2 * draw.below(ENTRIES))).map(|value| drop(black_box(value))))
    };
    let found_cached = found(&db)?;
    let block_find_ns = (found_cached - get_ns - run_probe_ns).max(0.0);
    let start = bench.now_ns();
    let mut scan = db.iter();
    while scan.advance()? {
        black_box(scan.value());
    }
    let step_ns = (bench.now_ns() - start) as f64 / ENTRIES as f64;
    drop(scan);
    // With the smallest cache nearly every lookup reads its block, from memory.
    let (starved, _) = fill(1 << 20, bench)?;
    starved.compact_range(..)?;
    let block_load_ns = (found(&starved)? - found_cached).max(0.0);
    Ok(Units {
        get_ns,
        run_probe_ns,
        block_find_ns,
        block_load_ns,
        run_seek_ns: ((seek_many - seek_one) / others - block_find_ns).max(0.0),
        step_ns,
        put_ns,
        merge_ns_per_entry,
        ..Units::of_blocks()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Symptom: dropping a tuner took seconds. Cause: it waited for a probe that had begun. Cure:
    /// the probe asks whether it is still waited for.
    #[test]
    fn a_probe_that_nobody_waits_for_ends_where_it_is_and_leaves_nothing() {
        let fs = MemFs::new();
        fs.create_dir_all(Path::new("/d")).unwrap();
        for after in [0, 1, 100, 600] {
            let asked = Cell::new(0u32);
            let stops = || {
                asked.set(asked.get() + 1);
                asked.get() > after
            };
            assert!(probe_unless(&fs, Path::new("/d"), &stops).unwrap().is_none(), "{after}");
            // Once more where it ended, to tell a failure from an end.
            assert_eq!(asked.get(), after + 2);
            assert_eq!(fs.list_dir(Path::new("/d")).unwrap(), Vec::<String>::new());
        }
    }

    /// Symptom: a process that was killed in the probe left 64 MiB for ever, and where numbers of
    /// processes come again, the next probe failed. Cure: the file has a name of the database's.
    #[test]
    fn what_a_killed_probe_left_is_removed_and_stops_no_tuner() {
        let (fs, dir) = (MemFs::new(), Path::new("/d"));
        let open =
            |fs: &MemFs| Options::new().fs(Arc::new(fs.clone())).background_threads(0).open(dir).unwrap();
        open(&fs).close().unwrap();
        let before = fs.list_dir(dir).unwrap();
        let (asked, killed) = (Cell::new(0u32), Cell::new(None));
        let stops = || {
            asked.set(asked.get() + 1);
            if asked.get() == 10 {
                killed.set(Some(fs.kill()));
            }
            asked.get() > 10
        };
        assert!(probe_unless(&fs, dir, &stops).unwrap().is_none());
        assert_eq!(fs.list_dir(dir).unwrap(), before);
        let fs = killed.take().unwrap();
        let left = fs.list_dir(dir).unwrap();
        assert_eq!(left.len(), before.len() + 1, "{left:?}");
        assert!(probe_unless(&fs, dir, &|| true).unwrap().is_none(), "another one is in no one's way");
        assert_eq!(fs.list_dir(dir).unwrap(), left);
        open(&fs).close().unwrap();
        let after = fs.list_dir(dir).unwrap();
        assert!(!after.iter().any(|name| !before.contains(name) && left.contains(name)), "{after:?}");
    }

    #[test]
    fn the_probe_of_a_file_system_in_memory_measures_everything_and_leaves_nothing() {
        let fs = MemFs::new();
        fs.create_dir_all(Path::new("/d")).unwrap();
        let units = probe(&fs, Path::new("/d")).unwrap();
        assert!(!units.direct_reads);
        assert_eq!(fs.list_dir(Path::new("/d")).unwrap(), Vec::<String>::new());
        for (name, ns) in [
            ("write", units.write_ns_per_page),
            ("read ahead", units.read_ahead_ns_per_page),
            ("put", units.put_ns),
            ("step", units.step_ns),
            ("merge", units.merge_ns_per_entry),
        ] {
            assert!(ns > 0.0 && ns < 1e6, "{name}: {ns}");
        }
        // Differences of two measurements, on a machine that does other things: they may come to
        // nothing.
        assert!(
            [units.get_ns, units.run_probe_ns, units.block_find_ns].iter().all(|ns| (0.0..1e6).contains(ns))
        );
        assert!(units.read_ns.iter().all(|ns| *ns > 0.0));
        let stored = serde_json::to_string(&units).unwrap();
        let back: Units = serde_json::from_str(&stored).unwrap();
        assert!((back.get_ns - units.get_ns).abs() <= 1e-9 * units.get_ns);
    }
}

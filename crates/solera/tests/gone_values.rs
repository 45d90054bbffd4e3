//! Tests of a few long values that go from a keyspace whose other values are short: their space
//! comes back, whatever makes them go, by every way of giving space back.
//!
//! The tables hardly change by it, so what tells the ways is what lies behind the pointers.

mod made;

use made::{key, value};
use solera::{
    Db, ManualClock, Options, Reclaim, Shape,
    vfs::{Fs, mem::MemFs},
};
use std::{path::Path, sync::Arc, time::Duration};

const DIR: &str = "/db";
const TTL: Duration = Duration::from_secs(100);
const WRITE_BUFFER: u64 = 64 << 10;

/// Keys and their values.
#[derive(Clone, Copy)]
struct Data {
    keys: u32,
    /// One key in so many has a long value.
    long_every: usize,
    /// Lengths in bytes, and from how many bytes on values lie apart.
    long: usize,
    short: usize,
    apart_from: u32,
    table_bytes: u64,
}

/// Most of the bytes are in few values, and the tables hold little of them.
const FEW: Data = Data {
    keys: 20_000,
    long_every: 100,
    long: 16 << 10,
    short: 100,
    apart_from: 1 << 10,
    table_bytes: 128 << 10,
};

struct World {
    fs: MemFs,
    clock: Arc<ManualClock>,
    db: Db,
    data: Data,
}

impl Data {
    fn long_keys(self) -> impl Iterator<Item = u32> {
        (0..self.keys).step_by(self.long_every)
    }
}

impl World {
    /// All keys are in tables; the long values expire if `ttl` says so.
    fn new(way: Reclaim, data: Data, ttl: Option<Duration>) -> World {
        let (fs, clock) = (MemFs::new(), Arc::new(ManualClock::at_unix_ms(1_000_000)));
        let shape = Shape { table_bytes: data.table_bytes, ..Shape::default() };
        let options = Options::new().memory(4 << 20).write_buffer(WRITE_BUFFER).shape(shape).seed(1);
        let options = options.background_threads(0).clock(clock.clone()).reclaim(way);
        let options = options.separate_values_from(data.apart_from.into()).value_spare_percent(30);
        let db = options.fs(Arc::new(fs.clone())).open(DIR).unwrap();
        let world = World { fs, clock, db, data };
        for n in 0..data.keys {
            let is_long = (n as usize).is_multiple_of(data.long_every);
            let value = value(n, 0, if is_long { data.long } else { data.short });
            match ttl.filter(|_| is_long) {
                Some(ttl) => world.db.put_with_ttl(key(n), &value, ttl).unwrap(),
                None => world.db.put(key(n), &value).unwrap(),
            }
            world.run();
        }
        world.settle();
        let apart =
            if data.short < data.apart_from as usize { data.long_keys().count() as u32 } else { data.keys };
        assert_eq!(world.db.default().stats().separated_values, apart.into());
        world
    }

    fn run(&self) {
        while self.db.step().unwrap() {}
    }

    /// Everything is in tables, and no worker finds anything to do.
    fn settle(&self) {
        self.db.flush().unwrap();
        for _ in 0..20 {
            self.run();
            self.clock.advance(Duration::from_secs(1));
        }
        self.db.wait_idle().unwrap();
    }

    fn change_long(&self, change: impl Fn(u32)) {
        for n in self.data.long_keys() {
            change(n);
            self.run();
        }
    }

    /// Closes it, and has every count compared with one from scratch. Tables, logs and value files
    /// took little more than may be spared beside what is live, of
    /// which so many bytes are `long`.
    fn assert_fits(self, long: usize, what: &str) {
        self.settle();
        let names = self.fs.list_dir(DIR.as_ref()).unwrap();
        let is_data = |name: &&String| [".table", ".log", ".values"].iter().any(|end| name.ends_with(end));
        let content = |name: &String| self.fs.content(&Path::new(DIR).join(name)).unwrap().len();
        let bytes: usize = names.iter().filter(is_data).map(content).sum();
        let short =
            (self.data.keys as usize - self.data.long_keys().count()) * (self.data.short + key(0).len());
        let most = (short + long) as f64 * (1.0 + 0.3 + 1.0 / 16.0) + 2.0 * WRITE_BUFFER as f64;
        assert!((bytes as f64) < most, "{what}: {bytes} bytes of {long} long and {short} short ones");
        assert!(self.db.verify().unwrap().problems.is_empty());
        self.db.close().unwrap();
        let fs: Arc<dyn Fs> = Arc::new(self.fs);
        let check = solera::inspect::check(&fs, DIR.as_ref()).unwrap();
        assert!(check.problems.is_empty(), "{:?}", check.problems);
    }
}

/// All long values of `data` are deleted.
fn deleted_values_are_given_back(data: Data) {
    each_way(|way| {
        let world = World::new(way, data, None);
        world.change_long(|n| world.db.delete(key(n)).unwrap());
        world.assert_fits(0, &format!("{way:?}"));
    });
}

fn each_way(test: impl Fn(Reclaim)) {
    [Reclaim::Tier, Reclaim::Rewrite, Reclaim::LearnedKv].into_iter().for_each(test);
}

/// Symptom: value files stayed as they were after all that they held had expired. Cause: what
/// tables hold of no use was weighed by the tables' own bytes, of which pointers are few. Cure:
/// what lies behind pointers is noted, too, and weighed for value files.
#[test]
fn values_that_have_expired_are_given_back() {
    each_way(|way| {
        let world = World::new(way, FEW, Some(TTL));
        world.clock.advance(TTL);
        world.assert_fits(0, &format!("{way:?}"));
    });
}

/// Symptom and cause as above, where a snapshot had held the values.
#[test]
fn values_that_only_a_released_snapshot_held_are_given_back() {
    each_way(|way| {
        for is_put in [true, false] {
            let world = World::new(way, FEW, None);
            let snapshot = world.db.snapshot();
            world.change_long(|n| match is_put {
                true => world.db.put(key(n), value(n, 1, FEW.long)).unwrap(),
                false => world.db.delete(key(n)).unwrap(),
            });
            world.db.flush().unwrap();
            world.db.compact_range(..).unwrap();
            for n in FEW.long_keys() {
                assert_eq!(snapshot.get(world.db.default(), key(n)).unwrap().unwrap(), value(n, 0, FEW.long));
            }
            drop(snapshot);
            let long = if is_put { FEW.long_keys().count() * FEW.long } else { 0 };
            world.assert_fits(long, &format!("{way:?}, put {is_put}"));
        }
    });
}

/// Symptom: value files stayed after each of their values was deleted or replaced by a short one.
/// Causes: an entry was taken for one that hides what the mean entry has in value files; what
/// counts of a table of one block was taken for next to nothing; `rewrite` never came back to a
/// file that it had found to be worth too little. Cures: where long and short values lie together,
/// what is hidden is looked up; such a table counts as a whole; `rewrite` comes back when less is
/// live.
#[test]
fn long_values_among_short_ones_are_given_back_once_they_are_hidden() {
    each_way(|way| {
        for is_put in [true, false] {
            let world = World::new(way, FEW, None);
            world.change_long(|n| match is_put {
                true => world.db.put(key(n), b"short").unwrap(),
                false => world.db.delete(key(n)).unwrap(),
            });
            world.assert_fits(0, &format!("{way:?}, put {is_put}"));
        }
    });
}

#[test]
fn long_values_of_deleted_ranges_are_given_back() {
    each_way(|way| {
        let world = World::new(way, FEW, None);
        world.change_long(|n| world.db.delete_range(key(n)..key(n + 1)).unwrap());
        world.assert_fits(0, &format!("{way:?}"));
    });
}

/// Symptom: as above, where tables are small. Cause: what a table hides was remembered by few
/// stretches, and each counted for one table below. Cure: what exceeds that lies in those behind.
#[test]
fn long_values_are_given_back_out_of_many_small_tables() {
    deleted_values_are_given_back(Data { table_bytes: 16 << 10, ..FEW });
}

/// Symptom: a few values of a megabyte among many of a kilobyte stayed after they were deleted.
/// Cause: what a delete hides was taken for a value of the mean length.
#[test]
fn very_long_values_among_long_ones_are_given_back() {
    deleted_values_are_given_back(Data {
        keys: 2_000,
        long_every: 200,
        long: 400 << 10,
        short: 1_000,
        apart_from: 512,
        ..FEW
    });
}

/// Symptom: values of 100 bytes stayed under `rewrite` after they were deleted. Cause: each file
/// was worth too little while they were there, and was left out of what is looked at.
#[test]
fn values_that_were_not_worth_rewriting_are_given_back_once_they_are_hidden() {
    deleted_values_are_given_back(Data { long_every: 10, long: 100, short: 20, apart_from: 64, ..FEW });
}

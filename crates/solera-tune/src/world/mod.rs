//! A database whose time is computed, not measured: `World`, made as `Setup` says.
//!
//! The engine is the real one; files lie in memory. Each read, appended page and step moves a clock
//! by its unit cost. `run` does operations of a `Phase`, and the work that they cause. It panics if
//! a key that is there is not found or has another key's value. It also panics if a key never
//! written is found, or a scan does not ascend. It does not see a stale value or a deleted key that
//! comes back. `device` has the unit costs of a middling machine.
//!
//! What must hold: the caller's thread does all work, so the same setup and calls give the same
//! result. Worlds that run at once in one process may differ by some reads (docs/decisions/0020).
//!
//! Callers: tests of the steward and of `attach`, `tests/seeds.rs`; `solera-bench`'s pages
//! `epochs`, `safety`, `together`. Many more take only `device`, such as `solera-sim`.

mod clock;
pub mod drift;
mod files;
pub mod phase;
mod processor;

pub use clock::WorldClock;
pub use drift::Drift;
pub use files::WorldFs;
pub use phase::{Keys, Phase};
pub use processor::Processed;

use crate::cost::Units;
use solera::{
    Compression, Db, Layout, Options, Result, Shape,
    control::Observation,
    vfs::{Fs, mem::MemFs},
};
use std::sync::Arc;

/// Operations between two looks at what the processor did.
const LOOK_OPERATIONS: u64 = 128;
/// Where databases lie.
const DIR: &str = "/world";

/// What a world is like.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Seed of keys and operations.
    pub seed: u64,
    /// What steps take here.
    pub units: Units,
    /// Keys that are loaded.
    pub entries: u64,
    /// Bytes of a value, at least 8.
    pub value_bytes: usize,
    /// The database's budget of memory, in bytes.
    pub memory_bytes: u64,
    /// How tables are cut, indexed and filtered at first.
    pub layout: Layout,
    /// The shape of the tree and its write buffer at first; `None` for what the budget says.
    pub shape: Option<Shape>,
    /// Bytes from which values lie apart from the tables; `None`: none do.
    pub separate_from: Option<u64>,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            seed: 1,
            units: device(),
            entries: 60_000,
            value_bytes: 100,
            memory_bytes: 4 << 20,
            layout: Layout { compression: Compression::None, ..Layout::default() },
            shape: None,
            separate_from: None,
        }
    }
}

/// What steps take in a world: a middling solid-state disk and processor.
pub fn device() -> Units {
    Units::assumed()
}

/// A database in a world of its own.
#[derive(Debug)]
pub struct World {
    setup: Setup,
    clock: Arc<WorldClock>,
    db: Db,
    draw: Draw,
    /// Numbers of the keys that are there: from the first to before the second.
    present: (u64, u64),
    /// What the processor was charged for.
    charged: Observation,
    since_look: u64,
}

/// Pseudo-random numbers (splitmix64).
#[derive(Clone, Debug)]
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }
}

/// The key of a number: spread over the key space. No two numbers have the same.
fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

impl World {
    /// A world whose database is loaded, flushed and at rest.
    ///
    /// # Errors
    /// What the engine says.
    pub fn new(setup: Setup) -> Result<World> {
        let clock = Arc::new(WorldClock::default());
        let fs = Arc::new(WorldFs::new(MemFs::new(), clock.clone(), setup.units.clone()));
        let mut options = Options::new().fs(fs).clock(clock.clone()).background_threads(0).seed(setup.seed);
        options = options.memory(setup.memory_bytes).layout(setup.layout);
        if let Some(shape) = &setup.shape {
            options = options.write_buffer(shape.write_buffer_bytes).shape(shape.clone());
        }
        if let Some(bytes) = setup.separate_from {
            options = options.separate_values_from(bytes);
        }
        let db = options.open(DIR)?;
        let charged = db.control().observe();
        let draw = Draw(setup.seed);
        let mut world = World { draw, clock, db, present: (0, 0), charged, since_look: 0, setup };
        for number in 0..world.setup.entries {
            world.put(number)?;
        }
        world.present.1 = world.setup.entries;
        world.db.flush()?;
        world.db.wait_idle()?;
        world.charge();
        Ok(world)
    }

    /// Its database.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// The time that has passed in it, in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Keys that are there.
    pub fn keys(&self) -> u64 {
        self.present.1 - self.present.0
    }

    /// Does `operations` operations as `phase` says, and all work that they bring about. Every
    /// answer is checked.
    ///
    /// # Errors
    /// What the engine says.
    ///
    /// # Panics
    /// If an answer is wrong.
    pub fn run(&mut self, phase: &Phase, operations: u64) -> Result<()> {
        for _ in 0..operations {
            self.operate(phase)?;
            self.since_look += 1;
            if self.since_look >= LOOK_OPERATIONS {
                // Reads may have paid for a merge.
                while self.db.step()? {}
                self.charge();
            }
        }
        self.charge();
        Ok(())
    }

    fn operate(&mut self, phase: &Phase) -> Result<()> {
        let kind = self.draw.below(1 << 32) as f64 / (1u64 << 32) as f64;
        let [absent, found, scan, _] = phase.mix.shares();
        if kind < absent {
            // Numbers beyond all that are ever given.
            let number = (1 << 40) + self.draw.below(1 << 40);
            assert!(self.db.get(key(number))?.is_none(), "a key that was never written is there");
        } else if kind < absent + found {
            let number = self.pick(phase);
            let value = self.db.get(key(number))?;
            assert_eq!(value.as_deref().map(|value| &value[..8]), Some(&number.to_be_bytes()[..]));
        } else if kind < absent + found + scan {
            self.scan(phase)?;
        } else {
            self.write(phase)?;
        }
        Ok(())
    }

    fn scan(&mut self, phase: &Phase) -> Result<()> {
        let first = key(self.pick(phase));
        let mut scan = self.db.range(&first[..]..);
        let mut last: Option<Vec<u8>> = None;
        for _ in 0..phase.scan_entries {
            if !scan.advance()? {
                break;
            }
            assert!(last.as_deref().is_none_or(|last| last < scan.key()), "a scan goes backwards");
            last = Some(scan.key().to_vec());
        }
        Ok(())
    }

    fn write(&mut self, phase: &Phase) -> Result<()> {
        let (first, end) = self.present;
        if self.draw.below(1000) < phase.deletes_permille && end - first > 1000 {
            self.present.0 += 1;
            self.db.delete(key(first))?;
        } else if self.draw.below(1000) < phase.inserts_permille {
            self.present.1 += 1;
            self.put_of(end, phase.value_bytes.unwrap_or(self.setup.value_bytes))?;
        } else {
            let number = self.pick(phase);
            self.put_of(number, phase.value_bytes.unwrap_or(self.setup.value_bytes))?;
        }
        while self.db.step()? {}
        Ok(())
    }

    /// The number of a key that is there.
    fn pick(&mut self, phase: &Phase) -> u64 {
        let (first, end) = self.present;
        let keys = end - first;
        match phase.keys {
            Keys::Even => first + self.draw.below(keys),
            Keys::Hot { at_permille, size_permille, share_permille } => {
                let hot = self.draw.below(1000) < share_permille;
                let size = (keys * size_permille / 1000).max(1);
                let at = keys * at_permille / 1000;
                first + if hot { (at + self.draw.below(size)) % keys } else { self.draw.below(keys) }
            }
        }
    }

    fn put(&mut self, number: u64) -> Result<()> {
        self.put_of(number, self.setup.value_bytes)?;
        while self.db.step()? {}
        Ok(())
    }

    fn put_of(&mut self, number: u64, value_bytes: usize) -> Result<()> {
        let mut value = vec![0xa5; value_bytes.max(8)];
        value[..8].copy_from_slice(&number.to_be_bytes());
        self.db.put(key(number), &value)
    }

    /// Moves the clock by what the processor did since it was last charged.
    fn charge(&mut self) {
        self.since_look = 0;
        let now = self.db.control().observe();
        let processed = Processed::of(&self.setup.units, &now.since(&self.charged));
        self.charged = now;
        self.clock.charge(processed.ns());
    }

    /// The file system of its database.
    pub fn fs(&self) -> Arc<dyn Fs> {
        self.db.control().fs()
    }
}

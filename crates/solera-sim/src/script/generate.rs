//! Random scripts from a seed: `Generator`.
//!
//! Every seed draws its own pool of keys, few and as unpleasant as keys can be, and its own weights
//! of operations. This is swarm testing: a life that never deletes finds other faults than one that
//! always does. `script` draws a whole script, `operation` the next one. `reseed` keeps keys and
//! weights. `SLOTS` is how many snapshots, iterators and transactions, each, a script may hold.
//!
//! What must hold: the same seed and setting give the same script. What it draws need not be legal:
//! the engine must refuse what is not.
//!
//! Callers: `program::{diffmodel, metamorph, crashsim}`; the fuzz target `script`; `life::world`,
//! for `SLOTS`.

use super::{Bounds, Change, Edge, Move, Operation, Script, Value, View, text::Bytes};
use crate::{
    random::Random,
    setting::{Operator, Setting},
};

/// Snapshot, iterator and transaction slots, each.
pub const SLOTS: u64 = 4;

/// Draws operations.
#[derive(Debug)]
pub struct Generator {
    random: Random,
    keys: Vec<Bytes>,
    /// Odds that a key is drawn from the first few of the pool, in eighths.
    hot_eighths: u64,
    weights: Vec<u32>,
    value_bytes_max: u64,
    operators: Vec<Operator>,
    tag: u32,
}

/// What an operation may be, with its usual weight. Rare and costly things are last.
const USUAL: [(fn(&mut Generator) -> Operation, u32); 30] = [
    (Generator::write, 300),
    (Generator::batch, 40),
    (Generator::delete_range, 4),
    (Generator::get, 150),
    (Generator::get_into, 40),
    (Generator::contains, 40),
    (Generator::multi_get, 20),
    (Generator::scan, 12),
    (Generator::open, 10),
    (Generator::walk, 80),
    (Generator::shut, 5),
    (Generator::take_snapshot, 6),
    (Generator::release, 6),
    (Generator::begin, 10),
    (Generator::stage, 30),
    (Generator::commit, 10),
    (Generator::rollback, 2),
    (Generator::clock, 10),
    (Generator::step, 120),
    (|_| Operation::Idle {}, 1),
    (|_| Operation::Sync {}, 2),
    (Generator::flush, 3),
    (|_| Operation::FlushAll {}, 1),
    (Generator::ingest, 2),
    (Generator::compact, 1),
    (Generator::drop_space, 1),
    (Generator::create_space, 3),
    (Generator::reopen, 1),
    (|_| Operation::Kill {}, 1),
    (Generator::tune, 4),
];

/// Operations that cost as much as thousands of others: drawn once in so many, whatever the
/// weights.
const CHECKPOINT_ONE_IN: u64 = 4000;
const VERIFY_ONE_IN: u64 = 2000;

impl Generator {
    /// A generator for this setting, with keys and weights of its own.
    pub fn new(setting: &Setting, random: &mut Random) -> Generator {
        let mut random = random.fork();
        let keys = key_pool(&mut random);
        let weights = USUAL
            .iter()
            .map(|&(_, usual)| match random.below(8) {
                0 => 0,
                1 => usual.div_ceil(4),
                2 => usual * 4,
                _ => usual,
            })
            .collect::<Vec<u32>>();
        let mut generator = Generator {
            keys,
            hot_eighths: *random.pick(&[0, 0, 4, 7]),
            weights,
            value_bytes_max: *random.pick(&[0, 8, 40, 40, 100, 400, 3000]),
            operators: setting.spaces.iter().map(|space| space.operator).collect(),
            tag: 0,
            random,
        };
        // A life without writes or without background work would test little.
        generator.weights[0] = generator.weights[0].max(USUAL[0].1 / 2);
        generator.weights[18] = generator.weights[18].max(USUAL[18].1 / 8);
        generator
    }

    /// Goes on with the randomness of `seed`, keys and weights unchanged: for callers that choose
    /// each operation.
    pub fn reseed(&mut self, seed: u64) {
        self.random = Random::new(seed);
    }

    /// A script of `count` operations.
    pub fn script(&mut self, setting: Setting, count: usize) -> Script {
        Script { setting, operations: (0..count).map(|_| self.operation()).collect() }
    }

    /// The next operation.
    pub fn operation(&mut self) -> Operation {
        if self.random.one_in(CHECKPOINT_ONE_IN) {
            return Operation::Checkpoint {};
        }
        if self.random.one_in(VERIFY_ONE_IN) {
            return Operation::Verify {};
        }
        let choice = self.random.weighted(&self.weights);
        USUAL[choice].0(self)
    }

    fn key(&mut self) -> Bytes {
        let pool = &self.keys[..];
        let hot = self.random.below(8) < self.hot_eighths;
        self.random.pick(if hot { &pool[..pool.len().min(6)] } else { pool }).clone()
    }

    /// A key that need not be in the pool: cut, extended, or moved by one.
    fn near_key(&mut self) -> Bytes {
        let mut key = self.key();
        match self.random.below(6) {
            0 => key.0.push(0),
            1 => key.0.push(self.random.next() as u8),
            2 => key.0.truncate(self.random.index(key.len() + 1)),
            3 => {
                if let Some(last) = key.0.last_mut() {
                    *last = last.wrapping_add(1);
                }
            }
            _ => {}
        }
        key
    }

    fn value(&mut self) -> Value {
        self.tag += 1;
        let len = match self.random.below(400) {
            0 => self.random.between(1000, 20_000),
            _ => self.random.length(self.value_bytes_max),
        };
        Value { tag: self.tag, len: len as u32 }
    }

    fn space(&mut self) -> u8 {
        // The default keyspace gets half of everything.
        if self.random.one_in(2) { 0 } else { self.random.index(self.operators.len()) as u8 }
    }

    fn slot(&mut self) -> u8 {
        self.random.below(SLOTS) as u8
    }

    fn view(&mut self) -> View {
        match self.random.below(8) {
            0..=4 => View::Live {},
            5 | 6 => View::Snapshot { slot: self.slot() },
            _ => View::Transaction { slot: self.slot() },
        }
    }

    fn edge(&mut self) -> Edge {
        match self.random.below(3) {
            0 => Edge::Unbounded {},
            1 => Edge::Included { key: self.near_key() },
            _ => Edge::Excluded { key: self.near_key() },
        }
    }

    fn bounds(&mut self) -> Bounds {
        match self.random.below(4) {
            0 => Bounds::All {},
            1 => {
                let mut prefix = self.near_key();
                prefix.0.truncate(self.random.index(prefix.len() + 1));
                Bounds::Prefix { prefix }
            }
            _ => Bounds::Range { start: self.edge(), end: self.edge() },
        }
    }

    fn change(&mut self) -> Change {
        let space = self.space();
        let merges = self.operators[space as usize] != Operator::None;
        match self.random.below(16) {
            0..=2 => Change::Delete { space, key: self.key() },
            3 => Change::PutTtl {
                space,
                key: self.key(),
                value: self.value(),
                ttl_ms: self.random.length(10_000) as u32,
            },
            4..=9 if merges => {
                let operand = Value { len: self.random.length(12) as u32, ..self.value() };
                Change::Merge { space, key: self.key(), operand }
            }
            // Merging where no operator is must be refused.
            4 if self.random.one_in(20) => Change::Merge { space, key: self.key(), operand: self.value() },
            _ => Change::Put { space, key: self.key(), value: self.value() },
        }
    }

    fn range_change(&mut self) -> Change {
        let (a, b) = (self.near_key(), self.near_key());
        // Once in a while the wrong way round: an empty range, or one without an end.
        let (start, end) = match () {
            () if a <= b => (a, b),
            () if !self.random.one_in(8) => (b, a),
            () if b.0.len().is_multiple_of(2) => (b, Bytes::default()),
            () => (a, b),
        };
        Change::DeleteRange { space: self.space(), start, end }
    }

    fn write(&mut self) -> Operation {
        Operation::Write { change: self.change() }
    }

    fn delete_range(&mut self) -> Operation {
        Operation::Write { change: self.range_change() }
    }

    fn batch(&mut self) -> Operation {
        let count = self.random.length(20);
        let changes = (0..count)
            .map(|_| if self.random.one_in(30) { self.range_change() } else { self.change() })
            .collect();
        Operation::Batch { sync: self.random.one_in(8), changes }
    }

    fn get(&mut self) -> Operation {
        Operation::Get { view: self.view(), space: self.space(), key: self.near_key() }
    }

    fn get_into(&mut self) -> Operation {
        Operation::GetInto { view: self.view(), space: self.space(), key: self.near_key() }
    }

    fn contains(&mut self) -> Operation {
        Operation::Contains { view: self.view(), space: self.space(), key: self.near_key() }
    }

    fn multi_get(&mut self) -> Operation {
        let count = self.random.length(40);
        Operation::MultiGet {
            view: self.view(),
            space: self.space(),
            keys: (0..count).map(|_| self.near_key()).collect(),
        }
    }

    fn scan(&mut self) -> Operation {
        Operation::Scan {
            view: self.view(),
            space: self.space(),
            bounds: self.bounds(),
            backward: self.random.one_in(2),
            keys_only: self.random.one_in(3),
            limit: self.random.length(1000) as u16,
        }
    }

    fn open(&mut self) -> Operation {
        Operation::Open { slot: self.slot(), view: self.view(), space: self.space(), bounds: self.bounds() }
    }

    fn walk(&mut self) -> Operation {
        let count = self.random.between(1, 12);
        // Mostly one way, so that walks get far.
        let back = self.random.one_in(2);
        let moves = (0..count)
            .map(|_| match (self.random.below(12), back) {
                (0, _) => Move::Seek { key: self.near_key() },
                (1, _) => Move::SeekBack { key: self.near_key() },
                (2, true) | (3..=8, false) => Move::Next {},
                (3, true) | (9..=11, false) => Move::Advance {},
                (2, false) | (4..=8, true) => Move::Back {},
                _ => Move::AdvanceBack {},
            })
            .collect();
        Operation::Walk { slot: self.slot(), moves }
    }

    fn shut(&mut self) -> Operation {
        Operation::Shut { slot: self.slot() }
    }

    fn take_snapshot(&mut self) -> Operation {
        Operation::Snapshot { slot: self.slot() }
    }

    fn release(&mut self) -> Operation {
        Operation::Release { slot: self.slot() }
    }

    fn begin(&mut self) -> Operation {
        Operation::Begin { slot: self.slot() }
    }

    fn stage(&mut self) -> Operation {
        let change = if self.random.one_in(12) { self.range_change() } else { self.change() };
        Operation::Stage { slot: self.slot(), change }
    }

    fn commit(&mut self) -> Operation {
        Operation::Commit { slot: self.slot() }
    }

    fn rollback(&mut self) -> Operation {
        Operation::Rollback { slot: self.slot() }
    }

    fn clock(&mut self) -> Operation {
        Operation::Advance { ms: self.random.length(5000) as u32 }
    }

    fn step(&mut self) -> Operation {
        Operation::Step { times: self.random.between(1, 4) as u8 }
    }

    fn flush(&mut self) -> Operation {
        Operation::Flush { space: self.space() }
    }

    fn ingest(&mut self) -> Operation {
        let count = self.random.length(60);
        let space = self.space();
        Operation::Ingest { space, entries: (0..count).map(|_| (self.key(), self.value())).collect() }
    }

    fn reopen(&mut self) -> Operation {
        Operation::Reopen { change: if self.random.one_in(2) { self.random.next() as u32 } else { 0 } }
    }

    fn tune(&mut self) -> Operation {
        Operation::Tune { seed: self.random.next() as u32 }
    }

    fn compact(&mut self) -> Operation {
        Operation::Compact { space: self.space(), start: self.edge(), end: self.edge() }
    }

    fn drop_space(&mut self) -> Operation {
        Operation::DropSpace { space: self.space() }
    }

    fn create_space(&mut self) -> Operation {
        Operation::CreateSpace { space: self.space() }
    }
}

/// Keys that have broken stores before: the empty one, prefixes of each other, zero bytes and 0xff
/// at the end, long shared prefixes, numbers in 8 bytes (dense, and past 2^53), and plain random
/// ones.
fn key_pool(random: &mut Random) -> Vec<Bytes> {
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let family = random.below(8);
    if family != 1 {
        keys.extend(["", "\0", "\0\0", "a", "a\0", "aa", "aaa", "aaaaaaaa", "aaaaaaaaa", "b"].map(Vec::from));
        keys.extend([1, 2, 7, 8, 9, 16].map(|len| vec![0xff; len]));
        keys.extend([1, 7, 8, 9].map(|len| vec![0; len]));
    }
    let count = *random.pick(&[20, 60, 200, 1000]);
    let shared = vec![b'p'; random.between(30, 250) as usize];
    for n in 0..count {
        keys.push(match if family < 6 { random.below(6) } else { family % 6 } {
            0 => u64::to_be_bytes(n).to_vec(),
            1 => u64::to_be_bytes((1 << 53) + random.below(count * 3)).to_vec(),
            2 => u64::to_be_bytes(random.next() >> random.below(60)).to_vec(),
            3 => [&shared[..], n.to_string().as_bytes()].concat(),
            4 => {
                let len = random.between(1, 24);
                (0..len).map(|_| *random.pick(&[0, 1, b'a', b'b', 0xfe, 0xff])).collect()
            }
            _ => {
                let cut = random.index(shared.len());
                [&shared[..cut], &[random.next() as u8]].concat()
            }
        });
    }
    keys.sort();
    keys.dedup();
    // The front of the pool is its hot end.
    for at in 0..keys.len() {
        let other = at + random.index(keys.len() - at);
        keys.swap(at, other);
    }
    keys.into_iter().map(Bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_script_and_its_text_reads_back() {
        for seed in 0..20 {
            let make = || {
                let mut random = Random::new(seed);
                let setting = Setting::random(&mut random);
                Generator::new(&setting, &mut random).script(setting, 2000)
            };
            let script = make();
            assert_eq!(script, make());
            assert_eq!(script.to_string().parse::<Script>().unwrap(), script);
        }
    }

    #[test]
    fn bad_lines_are_refused_with_their_number() {
        let mut random = Random::new(0);
        let script = Script { setting: Setting::random(&mut random), operations: vec![Operation::Idle {}] };
        for (bad, what) in [
            ("get live", "line 3"),
            ("idle 3", "follows"),
            ("get live 0 x", "quoted"),
            ("walk 0 [ next", "early"),
        ] {
            let error = format!("{script}{bad}\n").parse::<Script>().unwrap_err();
            assert!(error.contains(what), "{error}");
        }
    }
}

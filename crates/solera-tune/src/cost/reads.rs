//! What a lookup or a scan reads of a tree in blocks, as an expectation (Z, R and Q of
//! docs/PAPERS.md, "One cost model").
//!
//! `Reading` holds what reads depend on beside the tree: the mix, the cache, the length of a scan.
//! `Reading::of` gives `Reads`, an `Operation` for each kind; `misses`, how often each level is
//! asked for a key it lacks. A lookup asks the filter of every run that covers its key, newest
//! first, until it has found the key. Where a filter passes it reads one block. A scan reads a
//! block of every run that reaches that far, then the blocks that its entries cross. These lie
//! behind the first, so they count as read on.
//!
//! What must hold: the cache answers about as an LRU cache of its size would. By Che's
//! approximation, a block is there if it was asked for within the last t operations.
//!
//! Callers: `cost::model` makes a `Reading`. `steward::foresight` and `solera cost` take `Reads`
//! apart; the page `camal` of `solera-bench` adds them up.

use super::{
    mix::Mix,
    tree::{Run, Tree},
};
use crate::learn::elementary::exp;

/// Halvings in the search for Che's t: to a millionth part.
const HALVINGS: usize = 24;

/// What an operation does on average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Operation {
    /// Runs asked: their fence and their filter.
    pub probes: f64,
    /// Blocks looked into, in the cache or not.
    pub blocks: f64,
    /// Blocks read from files.
    pub blocks_read: f64,
    /// Of these, those that lie behind the one that was read before: a scan reads on.
    pub read_on: f64,
}

impl Operation {
    /// Adds `share` times what another does.
    pub fn add(&mut self, other: &Operation, share: f64) {
        self.probes += share * other.probes;
        self.blocks += share * other.blocks;
        self.blocks_read += share * other.blocks_read;
        self.read_on += share * other.read_on;
    }
}

/// What the reads of a mix do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reads {
    /// Z: a lookup of a key that is not there.
    pub absent: Operation,
    /// R: a lookup of a key that is.
    pub found: Operation,
    /// Q: a scan.
    pub scan: Operation,
}

impl Reads {
    /// Adds `share` times what the reads of another tree do.
    pub fn add(&mut self, other: &Reads, share: f64) {
        self.absent.add(&other.absent, share);
        self.found.add(&other.found, share);
        self.scan.add(&other.scan, share);
    }
}

/// What reads depend on besides the tree.
#[derive(Clone, Debug)]
pub struct Reading<'a> {
    /// Which operations, for what they leave in the cache.
    pub mix: &'a Mix,
    /// B.
    pub block_entries: f64,
    /// Blocks that the cache holds.
    pub cache_blocks: f64,
    /// s: entries that a scan returns.
    pub scan_entries: f64,
    /// The share of keys whose newest version is in memory.
    pub in_memory: f64,
}

/// One run's part in each operation.
struct Part {
    level: usize,
    /// Blocks that it has.
    blocks: f64,
    /// How often an absent lookup, a found lookup and a scan ask it.
    asked: [f64; 3],
    /// How often a found lookup finds its key in it.
    held: f64,
    /// Blocks that a scan looks into, and how many of them it comes to from the one before.
    scanned: f64,
    walked: f64,
}

impl Part {
    /// Blocks that an absent lookup, a found lookup and a scan look into where filters let `passes`
    /// of the keys pass that are not there.
    fn looked_into(&self, passes: f64) -> [f64; 3] {
        let [absent, found, _] = self.asked;
        [absent * passes, self.held + (found - self.held) * passes, self.scanned]
    }
}

impl Reading<'_> {
    /// What the reads of `tree` do, where the filters of a run of a level let the share `passes` of
    /// the keys pass that it does not hold.
    pub fn of(&self, tree: &Tree, passes: impl Fn(usize, &Run) -> f64) -> Reads {
        let parts = self.parts(tree);
        let passes = tree.runs().map(|(level, run)| passes(level, run));
        let looked_into: Vec<[f64; 3]> =
            parts.iter().zip(passes).map(|(part, passes)| part.looked_into(passes)).collect();
        let hits = self.hits(&parts, &looked_into);
        let mut reads = Reads::default();
        for ((part, looked_into), hit) in parts.iter().zip(looked_into).zip(hits) {
            let operations = [&mut reads.absent, &mut reads.found, &mut reads.scan];
            let walked = [0.0, 0.0, part.walked];
            let of = part.asked.into_iter().zip(looked_into).zip(walked);
            for (operation, ((probes, blocks), walked)) in operations.into_iter().zip(of) {
                let (blocks_read, read_on) = (blocks * (1.0 - hit), walked * (1.0 - hit));
                operation.add(&Operation { probes, blocks, blocks_read, read_on }, 1.0);
            }
        }
        reads
    }

    /// q_i: how often an operation of the mix asks a run of each level for a key that it does not
    /// hold.
    pub fn misses(&self, tree: &Tree) -> Vec<f64> {
        let mut misses = vec![0.0; tree.depth()];
        for part in self.parts(tree) {
            let [absent, found, _] = part.asked;
            misses[part.level] += self.mix.absent * absent + self.mix.found * (found - part.held);
        }
        misses
    }

    fn parts(&self, tree: &Tree) -> Vec<Part> {
        let keys = tree.keys().max(1.0);
        let skew = tree.skew();
        let operations = skew.operations();
        // Of the favoured keys and of the others: the share that no newer run has hidden, and that
        // of lookups that are still looking.
        let mut visible = skew.covered(self.in_memory).map(|in_memory| 1.0 - in_memory);
        let mut looking = visible;
        let mean = |shares: [f64; 2]| operations[0] * shares[0] + operations[1] * shares[1];
        let part = |(level, run): (usize, &Run)| {
            let (entries, coverage, reach) = (run.entries(), run.coverage(), run.reach());
            let newer = skew.covered(run.newer() / keys);
            let oldest = (entries - run.newer()).max(0.0) / keys;
            let held: [f64; 2] =
                std::array::from_fn(|of| (visible[of] * (newer[of] + oldest)).min(looking[of]));
            // Where a run has entries, those above have fewer than elsewhere: what looks for a key
            // that it holds asks it.
            let asked = mean(std::array::from_fn(|of| (coverage * looking[of]).max(held[of])));
            for of in 0..2 {
                visible[of] *= 1.0 - newer[of];
                looking[of] -= held[of];
            }
            let held = mean(held);
            // Larger entries are fewer in a block, down to one.
            let blocks = (run.size() / self.block_entries).min(entries);
            // A walk begins in the block where its key belongs, and goes on to the next if the key
            // lies behind that block's last: half of the gaps between blocks.
            let next = reach * 0.5 * blocks / entries.max(f64::MIN_POSITIVE);
            let walked = next + (self.scan_entries - 1.0).max(0.0) * blocks / keys;
            Part { level, blocks, asked: [coverage, asked, reach], held, scanned: reach + walked, walked }
        };
        tree.runs().map(part).collect()
    }

    /// How often each run's blocks are found in the cache.
    fn hits(&self, parts: &[Part], looked_into: &[[f64; 3]]) -> Vec<f64> {
        let of_operation = |[absent, found, scan]: &[f64; 3]| {
            self.mix.absent * absent + self.mix.found * found + self.mix.scan * scan
        };
        // Blocks, and how often each of them is looked into.
        let rates: Vec<(f64, f64)> =
            parts.iter().zip(looked_into).map(|(part, looked)| (part.blocks, of_operation(looked))).collect();
        let hit = |&(blocks, rate): &(f64, f64), t: f64| {
            if blocks > 0.0 { 1.0 - exp(-t * rate / blocks) } else { 0.0 }
        };
        let held = |t: f64| rates.iter().map(|rate| rate.0 * hit(rate, t)).sum::<f64>();
        let (mut low, mut high) = (0.0f64, 1.0f64);
        while held(high) < self.cache_blocks && high < 1e15 {
            high *= 4.0;
        }
        for _ in 0..HALVINGS {
            let middle = (low + high) / 2.0;
            if held(middle) < self.cache_blocks { low = middle } else { high = middle }
        }
        rates.iter().map(|rate| hit(rate, low)).collect()
    }
}

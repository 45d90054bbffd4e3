//! What a lookup or a scan reads of a tree, in blocks, as an expectation (NOTES §7.2: Z, R and Q).
//!
//! Owns [`Reads`]. A lookup asks the filter of every run that covers its key, newest first; where it passes it
//! reads one block. A scan reads a block of every run that reaches that far and, as it goes on, the blocks that its
//! entries cross. Blocks come from the cache as often as an LRU cache of its size would have them (Che's
//! approximation: a block is there if it was asked for within the last t operations, the same t for all).

use super::{mix::Mix, tree::Tree};

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
}

impl Operation {
    /// Adds `share` times what another does.
    pub fn add(&mut self, other: &Operation, share: f64) {
        self.probes += share * other.probes;
        self.blocks += share * other.blocks;
        self.blocks_read += share * other.blocks_read;
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

/// What reads depend on besides the tree.
#[derive(Clone, Debug)]
pub struct Reading<'a> {
    /// Which operations, for what they leave in the cache.
    pub mix: &'a Mix,
    /// Share of absent keys that the filters of each level let pass; the last number holds for deeper ones.
    pub false_positives: &'a [f64],
    /// B.
    pub block_entries: f64,
    /// Blocks that the cache holds.
    pub cache_blocks: f64,
    /// s: entries that a scan returns.
    pub scan_entries: f64,
    /// The share of keys whose newest version is in memory.
    pub in_memory: f64,
}

/// One run's part in each operation, in blocks.
struct Part {
    blocks: f64,
    absent: f64,
    found: f64,
    scan: f64,
    probes: [f64; 3],
}

impl Reading<'_> {
    /// What the reads of `tree` do.
    pub fn of(&self, tree: &Tree) -> Reads {
        let parts = self.parts(tree);
        let hits = self.hits(&parts);
        let mut reads = Reads::default();
        for (part, hit) in parts.iter().zip(hits) {
            let operations = [
                (&mut reads.absent, part.absent, part.probes[0]),
                (&mut reads.found, part.found, part.probes[1]),
                (&mut reads.scan, part.scan, part.probes[2]),
            ];
            for (operation, blocks, probes) in operations {
                operation.add(&Operation { probes, blocks, blocks_read: blocks * (1.0 - hit) }, 1.0);
            }
        }
        reads
    }

    fn parts(&self, tree: &Tree) -> Vec<Part> {
        let keys = tree.keys().max(1.0);
        // The share of keys that no newer run has hidden, and of lookups that are still looking.
        let (mut visible, mut looking) = (1.0 - self.in_memory, 1.0 - self.in_memory);
        let part = |(level, run): (usize, &super::tree::Run)| {
            let passes = self.false_positives[level.min(self.false_positives.len() - 1)];
            let (entries, coverage, reach) = (run.entries(), run.coverage(), run.reach());
            let found = visible * entries / keys;
            let asked = coverage * looking;
            visible *= 1.0 - run.newer() / keys;
            looking = (looking - found).max(0.0);
            // A walk begins in the block where its key belongs, and goes on to the next if the key lies behind
            // that block's last: half of the gaps between blocks.
            let begin = reach * (1.0 + 0.5 / self.block_entries);
            Part {
                blocks: entries / self.block_entries,
                absent: coverage * passes,
                found: found + coverage * looking * passes,
                scan: begin + (self.scan_entries - 1.0).max(0.0) * entries / keys / self.block_entries,
                probes: [coverage, asked, reach],
            }
        };
        tree.runs().map(part).collect()
    }

    /// How often each run's blocks are found in the cache.
    fn hits(&self, parts: &[Part]) -> Vec<f64> {
        let rate = |part: &Part| {
            self.mix.absent * part.absent + self.mix.found * part.found + self.mix.scan * part.scan
        };
        let hit = |part: &Part, t: f64| {
            if part.blocks > 0.0 { 1.0 - (-t * rate(part) / part.blocks).exp() } else { 0.0 }
        };
        let held = |t: f64| parts.iter().map(|part| part.blocks * hit(part, t)).sum::<f64>();
        let (mut low, mut high) = (0.0f64, 1.0f64);
        while held(high) < self.cache_blocks && high < 1e15 {
            high *= 4.0;
        }
        for _ in 0..HALVINGS {
            let middle = (low + high) / 2.0;
            if held(middle) < self.cache_blocks { low = middle } else { high = middle }
        }
        parts.iter().map(|part| hit(part, low)).collect()
    }
}

//! What models cost to build: `measure`, beside what the compaction around them costs
//! (`BuildCost`); `growth`, in one large index beside pieces.
//!
//! `measure` times training by doing it again, alone, with the functions that the compaction calls.
//! Timers inside a merge loop of 100 ns for each entry would measure themselves. The blocks are
//! those that the compaction wrote, if they can be told from its index; else those under an exact
//! index. The compaction is one of two runs, every key of one between keys of the other.
//!
//! What must hold: the compaction's is processor time of this thread, that of the parts passed on
//! the clock. Each is the least of several repeats. A system that does not tell a thread's time is
//! an error.
//!
//! Callers: `paper::doblix` (D3), `paper::keys`, which alone asks for `growth`.

use super::{
    blocks::{self, TableBlocks},
    subject::Arm,
};
use crate::{
    data::DataSet,
    runner::{Error, Result},
};
use solera::{
    IndexKind, Options,
    clock::{Clock, SystemClock},
    index::{Index, LastKeys, handles::Handles, separators::Separators},
};
use solera_model::{
    bound,
    dual::{self, Policy},
    pla::Corridor,
};
use std::{hint::black_box, path::Path};

/// Processor time of one compaction and of the parts that a model adds to it, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct BuildCost {
    /// Everything: reading, merging, writing.
    pub compaction_ns: f64,
    /// Fitting lines to blocks, and for PLA the corridor that every key passes.
    pub fit_ns: f64,
    /// Training the index from separators.
    pub index_ns: f64,
    /// Encoding sizes and the index.
    pub encode_ns: f64,
    /// Entries written.
    pub entries: u64,
}

impl BuildCost {
    /// Training and encoding as a share of the compaction that they are a part of.
    pub fn share(&self) -> f64 {
        (self.fit_ns + self.index_ns + self.encode_ns) / self.compaction_ns
    }
}

/// Processor time of this thread so far, in nanoseconds. Linux tells.
fn thread_ns() -> Option<u64> {
    #[expect(clippy::disallowed_methods, reason = "a fact about the thread, not a file of the database")]
    let text = std::fs::read("/proc/thread-self/schedstat").ok()?;
    String::from_utf8(text).ok()?.split_whitespace().next()?.parse().ok()
}

/// The cost of building tables of this layout from the pairs of `set`; the least of `repeats` of
/// each part.
pub fn measure(arm: &Arm, set: &DataSet, repeats: usize, parent: Option<&Path>) -> Result<BuildCost> {
    let mut compaction_ns = f64::INFINITY;
    let mut tables = Vec::new();
    for _ in 0..repeats {
        let mut directory = tempfile::Builder::new();
        directory.prefix("solera-paper-");
        let directory = match parent {
            Some(parent) => directory.tempdir_in(parent)?,
            None => directory.tempdir()?,
        };
        let options = Options::new().memory(super::subject::memory_of(set)).layout(arm.layout);
        let db = options.background_threads(0).open(directory.path())?;
        for half in 0..2 {
            let every_other = set.sorted.iter().skip(half).step_by(2);
            db.ingest(every_other.map(|&i| set.pairs.get(i as usize)))?;
        }
        let before = thread_ns();
        db.compact_range(..)?;
        let spent = thread_ns().zip(before).map(|(after, before)| (after - before) as f64);
        let told = || Error::Config("this system does not tell a thread's processor time".into());
        compaction_ns = compaction_ns.min(spent.ok_or_else(told)?);
        if tables.is_empty() && tells_blocks(arm.layout.index) {
            tables = blocks::of(directory.path(), set)?;
        }
    }
    if tables.is_empty() {
        // The same blocks under an index that names them exactly.
        let exact = Arm::new("", IndexKind::Binary, arm.layout.epsilon).block_bytes(arm.layout.block_bytes);
        let subject = super::subject::Subject::create(&exact, set, parent)?;
        tables = blocks::of(&subject.directory(), set)?;
    }
    let clock = SystemClock::new();
    let heads: Vec<Vec<u64>> = tables.iter().flat_map(|table| table.heads(set)).collect();
    let least = |work: &dyn Fn()| {
        let time = |_| {
            let start = clock.monotonic_ns();
            work();
            (clock.monotonic_ns() - start) as f64
        };
        (0..repeats).map(time).fold(f64::INFINITY, f64::min)
    };
    let kept: Vec<Kept> = tables.iter().map(|table| Kept::of(table, set)).collect();
    let indexes: Vec<Index> = kept.iter().map(|kept| kept.train(arm)).collect();
    Ok(BuildCost {
        compaction_ns,
        fit_ns: least(&|| fit(arm, &heads)),
        index_ns: least_index(arm, &kept, &clock, repeats),
        encode_ns: least(&|| encode(&tables, &kept, &indexes)),
        entries: set.pairs.len() as u64,
    })
}

/// Blocks of a table of 16 MiB.
const PIECE_BLOCKS: usize = 4000;

/// What training takes for a key in one index of all blocks, in multiples of what it takes in
/// tables of 4,000.
pub fn growth(arm: &Arm, tables: &[TableBlocks], set: &DataSet, clock: &SystemClock, repeats: usize) -> f64 {
    let all = TableBlocks::joined(tables);
    let pieces: Vec<Kept> = all.pieces(PIECE_BLOCKS).iter().map(|table| Kept::of(table, set)).collect();
    let whole = [Kept::of(&all, set)];
    least_index(arm, &whole, clock, repeats) / least_index(arm, &pieces, clock, repeats)
}

/// Whether the blocks of a table can be had from where its index leads. Of `learned` the few keys
/// that it sends too far count as the next block's, which moves a few boundaries by a key.
fn tells_blocks(kind: IndexKind) -> bool {
    is_exact(kind) || kind == IndexKind::Learned
}

/// Whether the kind names one block and never its neighbour.
pub fn is_exact(kind: IndexKind) -> bool {
    !kind.names_a_window() && !matches!(kind, IndexKind::Learned | IndexKind::Auto)
}

/// Fits every block as the block builder does for this kind.
fn fit(arm: &Arm, heads: &[Vec<u64>]) {
    let epsilon = arm.layout.epsilon;
    for heads in heads {
        match arm.layout.index {
            IndexKind::DoblixPla => {
                let mut corridor = Corridor::new(heads[0], epsilon);
                for (rank, &head) in heads.iter().enumerate().skip(1) {
                    black_box(corridor.push(head, rank));
                }
                let line = corridor.line();
                black_box((line, bound::measured_error(line, heads)));
            }
            IndexKind::DoblixPra | IndexKind::Learned | IndexKind::Auto => {
                black_box(dual::fit(Policy::Pra, heads));
            }
            _ => {}
        }
    }
}

/// What the writer of a table keeps for the index; of last keys it keeps the beginnings.
struct Kept {
    separators: Separators,
    last_keys: LastKeys,
}

impl Kept {
    fn of(table: &TableBlocks, set: &DataSet) -> Kept {
        Kept { separators: table.separators(), last_keys: table.last_keys(set) }
    }

    fn train(&self, arm: &Arm) -> Index {
        Index::build(arm.layout.index, arm.layout.epsilon, &self.separators, Some(&self.last_keys))
    }
}

fn least_index(arm: &Arm, kept: &[Kept], clock: &SystemClock, repeats: usize) -> f64 {
    let time = |_| {
        let start = clock.monotonic_ns();
        for kept in kept {
            black_box(kept.train(arm));
        }
        (clock.monotonic_ns() - start) as f64
    };
    (0..repeats).map(time).fold(f64::INFINITY, f64::min)
}

fn encode(tables: &[TableBlocks], kept: &[Kept], indexes: &[Index]) {
    let mut out = Vec::new();
    for ((table, kept), index) in tables.iter().zip(kept).zip(indexes) {
        out.clear();
        let sizes: Vec<u64> = table.blocks.iter().map(|block| block.size).collect();
        Handles::encode_sizes(&sizes, &mut out);
        index.encode(&kept.separators, &mut out);
        black_box(&out);
    }
}

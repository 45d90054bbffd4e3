//! Where the data blocks of a loaded database begin and end: `of`, which gives `TableBlocks`.
//!
//! `of` looks up each key of a `DataSet` in each table's index and notes the block it leads to.
//! `TableBlocks` gives a table's separators, last keys and handles, made as the table writer does.
//! Offsets count from the first data block, not from the start of the file. `form_in_the_middle`
//! describes the learned index of one table.
//!
//! What must hold: the database holds exactly the set's pairs, in one run. Its index kind names one
//! block for each key, or is `learned`. `learned` sends a few last keys of a block to the next
//! block; they count there. `of` fails if its count of blocks is not the descriptor's.
//!
//! Callers: the experiments `paper::{sherry, training, device, keys}`.

use super::formats::DataBlock;
use crate::{data::DataSet, packed::Packed, runner::Result};
use solera::{
    Error,
    dir::FileName,
    index::{Index, LastKeys, handles::Handles, last_keys::KEPT_MAX, separators::Separators},
    key::KeyEnd,
    table,
    vfs::{Fs, posix::PosixFs},
};
use std::{path::Path, sync::Arc};

/// A table's blocks, with the keys in them.
#[derive(Debug)]
pub struct TableBlocks {
    /// In the order of their keys.
    pub blocks: Vec<DataBlock>,
    /// Ranks in the set, in key order, of each block's keys: `sorted[starts[i]..starts[i + 1]]`.
    pub starts: Vec<usize>,
    /// Bytes of the index section in the file.
    pub index_file_bytes: u64,
}

/// What a learned index of a table in `dir` consists of, for people: of one in the middle.
pub fn form_in_the_middle(dir: &Path) -> Result<String> {
    let fs: Arc<dyn Fs> = Arc::new(PosixFs::new());
    let mut names = fs.list_dir(dir)?;
    names.retain(|name| matches!(FileName::parse(name), Some(FileName::Table(_))));
    names.sort();
    let Some(name) = names.get(names.len() / 2) else { return Ok("none".into()) };
    let file = table::open_alone(&fs, &dir.join(name))?;
    let form = file.table()?.index().and_then(Index::describe);
    Ok(form.unwrap_or_else(|| "none".into()))
}

/// The blocks of all tables in `dir`, which hold the pairs of `set` in one run under an exact
/// index.
pub fn of(dir: &Path, set: &DataSet) -> Result<Vec<TableBlocks>> {
    let fs: Arc<dyn Fs> = Arc::new(PosixFs::new());
    let mut tables = Vec::new();
    for name in fs.list_dir(dir)? {
        if !matches!(FileName::parse(&name), Some(FileName::Table(_))) {
            continue;
        }
        let file = table::open_alone(&fs, &dir.join(&name))?;
        let range = &file.descriptor().range;
        let open = file.table()?;
        let from = rank(set, |key| key < &range.start[..]);
        let to = rank(set, |key| match &range.end {
            KeyEnd::Included(end) => key <= &end[..],
            KeyEnd::Excluded(end) => key < &end[..],
            KeyEnd::Unbounded => true,
        });
        let mut blocks: Vec<DataBlock> = Vec::new();
        let mut starts = Vec::new();
        for at in from..to {
            let key = key(&set.pairs, set, at);
            let offset = open.approximate_offset(key);
            match blocks.last_mut() {
                Some(block) if block.offset == offset => block.last = key.to_vec(),
                last => {
                    last.into_iter().for_each(|block| block.size = offset - block.offset);
                    starts.push(at);
                    blocks.push(DataBlock { first: key.to_vec(), last: key.to_vec(), offset, size: 0 });
                }
            }
        }
        let bytes = open.approximate_bytes(range);
        let Some(last) = blocks.last_mut() else { continue };
        last.size = bytes - last.offset;
        if blocks.len() != file.descriptor().blocks as usize {
            return Err(Error::Invalid(format!(
                "{name}: {} blocks found of {}; is the index exact, the data in one run?",
                blocks.len(),
                file.descriptor().blocks
            ))
            .into());
        }
        starts.push(to);
        tables.push(TableBlocks { blocks, starts, index_file_bytes: file.descriptor().index_bytes });
    }
    tables.sort_by(|a, b| a.blocks[0].first.cmp(&b.blocks[0].first));
    Ok(tables)
}

/// How many keys of the set, in order, are before.
fn rank(set: &DataSet, before: impl Fn(&[u8]) -> bool) -> usize {
    set.sorted.partition_point(|&i| before(set.pairs.get(i as usize).0))
}

fn key<'s>(pairs: &'s Packed, set: &DataSet, rank: usize) -> &'s [u8] {
    pairs.get(set.sorted[rank] as usize).0
}

impl TableBlocks {
    /// All of these tables as if they were one.
    pub fn joined(tables: &[TableBlocks]) -> TableBlocks {
        let mut all = TableBlocks { blocks: Vec::new(), starts: Vec::new(), index_file_bytes: 0 };
        for table in tables {
            all.starts.truncate(all.blocks.len());
            all.blocks.extend(table.blocks.iter().cloned());
            all.starts.extend(&table.starts);
            all.index_file_bytes += table.index_file_bytes;
        }
        all
    }

    /// Pieces of so many blocks each, as if they were tables.
    pub fn pieces(&self, blocks: usize) -> Vec<TableBlocks> {
        let piece = |first: usize| {
            let end = (first + blocks).min(self.blocks.len());
            TableBlocks {
                blocks: self.blocks[first..end].to_vec(),
                starts: self.starts[first..=end].to_vec(),
                index_file_bytes: 0,
            }
        };
        (0..self.blocks.len()).step_by(blocks).map(piece).collect()
    }

    /// The separators between the blocks, as the engine's table writer makes them.
    pub fn separators(&self) -> Separators {
        let mut separators = Separators::new();
        self.blocks.windows(2).for_each(|two| {
            separators.push_between(&two[0].last, &two[1].first);
        });
        separators
    }

    /// The last keys of all blocks but the last one, as the engine's table writer keeps them.
    pub fn last_keys(&self, set: &DataSet) -> LastKeys {
        let mut last_keys = LastKeys::new(self.keys() as u64);
        for range in self.starts[..self.blocks.len()].windows(2) {
            let first = range[0].max(range[1].saturating_sub(KEPT_MAX));
            last_keys.push((first..range[1]).map(|at| key(&set.pairs, set, at)));
        }
        last_keys
    }

    /// How many keys there are.
    pub fn keys(&self) -> usize {
        self.starts[self.blocks.len()] - self.starts[0]
    }

    /// The engine's handles of the blocks.
    pub fn handles(&self) -> Handles {
        let sizes: Vec<u64> = self.blocks.iter().map(|block| block.size).collect();
        Handles::new(self.blocks[0].offset, &sizes)
    }

    /// For each block the 8 bytes of its keys behind what they share: what its line is fitted to.
    pub fn heads(&self, set: &DataSet) -> Vec<Vec<u64>> {
        let of = |(block, range): (&DataBlock, &[usize])| {
            let same = block.first.iter().zip(&block.last).take_while(|(a, b)| a == b).count();
            let skip = same.min(block.last.len().saturating_sub(8));
            let head = |at| solera::key::head_after(key(&set.pairs, set, at), skip);
            (range[0]..range[1]).map(head).collect()
        };
        self.blocks.iter().zip(self.starts.windows(2)).map(of).collect()
    }
}

//! SurrealKV, an LSM tree of transactions: `SurrealKv`, an `Engine`.
//!
//! What must hold:
//! - A commit does not wait for the disk (`Durability::Eventual`), but its log record is written: a
//!   killed process loses nothing of what it committed. A machine that loses power may.
//! - A reader sees the moment of its making. So `reader_is_live` is false.
//! - The only way to write is a transaction: `put_all` takes a thousand pairs to one.
//! - Where LZ4 is asked for it compresses with Snappy. Direct reads change nothing.
//! - It counts as settled when the process is all but idle for a tenth of a second.
//!
//! Caller: `engines::open`.

use crate::{
    engine::{Engine, Reader, Result, Setting, TRANSACTION_ENTRIES},
    process,
};
use std::time::{Duration, Instant};
use surrealkv::{
    CompactRangeOptions, CompressionType, LSMIterator, Mode, Options, Transaction, Tree, TreeBuilder,
};
use tokio::runtime::{Builder, Runtime};

/// A memtable that fits the last-level cache, as for the others. It counts keys and what leads to
/// them, not values.
const MEMTABLE_BYTES: u64 = 16 << 20;
const MEMTABLE_SHARE: u64 = 16;
/// What is quiet for so long is settled, and what of a processor's time counts as quiet.
const QUIET: Duration = Duration::from_millis(100);
const QUIET_SHARE: f64 = 0.1;

pub struct SurrealKv {
    tree: Option<Tree>,
    /// Its background tasks run here; commits are awaited by the thread that asks for them.
    runtime: Runtime,
}

impl SurrealKv {
    pub fn open(setting: &Setting) -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let memtable_bytes = (setting.memory_bytes / MEMTABLE_SHARE).clamp(1 << 20, MEMTABLE_BYTES);
        let compression =
            if setting.lz4 { CompressionType::SnappyCompression } else { CompressionType::None };
        let options = Options::new()
            .with_path(setting.directory.clone())
            .with_max_memtable_size(memtable_bytes as usize)
            // Values beside the keys take as much again.
            .with_block_cache_capacity(setting.memory_bytes.saturating_sub(memtable_bytes * 6))
            // Its default of 64 KiB is for large values. Filters have ten bits a key by default.
            .with_block_size(4096)
            .with_compression_per_level(vec![compression]);
        let tree = {
            let _inside = runtime.enter();
            TreeBuilder::with_options(options).build()?
        };
        Ok(SurrealKv { tree: Some(tree), runtime })
    }

    fn tree(&self) -> Result<&Tree> {
        self.tree.as_ref().ok_or_else(|| "the tree is closed".into())
    }

    fn write(&self, change: impl FnOnce(&mut Transaction) -> surrealkv::Result<()>) -> Result<()> {
        let mut transaction = self.tree()?.begin_with_mode(Mode::WriteOnly)?;
        change(&mut transaction)?;
        Ok(self.runtime.block_on(transaction.commit())?)
    }
}

impl Drop for SurrealKv {
    fn drop(&mut self) {
        if let Some(tree) = self.tree.take() {
            let _ = self.runtime.block_on(tree.close());
        }
    }
}

impl Engine for SurrealKv {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(|transaction| transaction.set(key, value))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.write(|transaction| transaction.delete(key))
    }

    fn put_all(&self, pairs: &mut dyn Iterator<Item = (&[u8], &[u8])>) -> Result<()> {
        let mut pairs = pairs.peekable();
        while pairs.peek().is_some() {
            self.write(|transaction| {
                let mut some = pairs.by_ref().take(TRANSACTION_ENTRIES);
                some.try_for_each(|(key, value)| transaction.set(key, value))
            })?;
        }
        Ok(())
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(Reading(self.tree()?.begin_with_mode(Mode::ReadOnly)?)))
    }

    fn reader_is_live(&self) -> bool {
        false
    }

    fn settle(&self) -> Result<()> {
        let flush =
            CompactRangeOptions { flush_memtable: true, target_level: Some(0), rewrite_bottommost: false };
        self.tree()?.compact_range(None, None, &flush)?;
        // It cannot be asked whether a compaction runs: a process that does nothing is settled.
        loop {
            let (begun, cpu) = (Instant::now(), process::cpu_seconds());
            std::thread::sleep(QUIET);
            if process::cpu_seconds() - cpu < begun.elapsed().as_secs_f64() * QUIET_SHARE {
                return Ok(());
            }
        }
    }
}

struct Reading(Transaction);

impl Reader for Reading {
    fn get(&mut self, key: &[u8], value: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let found = self.0.get(key)?;
        found.iter().for_each(|bytes| value(bytes));
        Ok(found.is_some())
    }

    fn scan(
        &mut self,
        from: &[u8],
        limit: usize,
        backwards: bool,
        entry: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        let mut entries = self.0.iter()?;
        if backwards {
            entries.seek_last()?
        } else if from.is_empty() {
            entries.seek_first()?
        } else {
            entries.seek(from)?
        };
        let mut count = 0;
        while count < limit && entries.valid() {
            entry(entries.key().user_key(), &entries.value_ref()?);
            count += 1;
            if backwards {
                entries.prev()?
            } else {
                entries.next()?
            };
        }
        Ok(count)
    }
}

//! fjall, tuned for data in memory, and the same with values in blob files: `Fjall`, an `Engine`.
//!
//! `fjall-values` keeps values of 256 bytes or more in blob files; `fjall` keeps values beside
//! keys.
//!
//! What must hold: memtables fit the last-level cache, as RocksDB's do. Which blob files are
//! rewritten is left to fjall. It counts as settled when nothing has run for a tenth of a second.
//!
//! Caller: `engines::open`.

use crate::engine::{Engine, Reader, Result, Setting, VALUES_APART_BYTES};
use fjall::{
    CompressionType, Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions,
    config::{
        BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
        HashRatioPolicy, PinningPolicy,
    },
};
use std::time::Duration;

/// A memtable that fits the last-level cache, as for RocksDB, or a sixteenth of a budget that has
/// little to give.
const MEMTABLE_BYTES_MAX: u64 = 16 << 20;
const MEMTABLE_SHARE: u64 = 16;
/// Memtables that the cache leaves room for.
const MEMTABLES: u64 = 4;
/// What a run may ask for: the names of fjall's own settings.
const SETTINGS: [&str; 4] = ["max_memtable_size", "staleness_threshold", "age_cutoff", "file_target_size"];

pub struct Fjall {
    database: Database,
    keyspace: Keyspace,
}

impl Fjall {
    /// Opens a database; `values_apart`: large values lie in blob files. Which of these are
    /// rewritten is left to fjall, unless a run asks for something else.
    pub fn open(setting: &Setting, values_apart: bool) -> Result<Self> {
        let asked = &setting.asked;
        asked.only(&SETTINGS)?;
        let memtable_bytes = asked
            .get("max_memtable_size")?
            .unwrap_or((setting.memory_bytes / MEMTABLE_SHARE).clamp(1 << 20, MEMTABLE_BYTES_MAX));
        let cache_bytes = setting.memory_bytes.saturating_sub(MEMTABLES * memtable_bytes);
        let database =
            Database::builder(&setting.directory).cache_size(cache_bytes).worker_threads(2).open()?;
        let compression = if setting.lz4 { CompressionType::Lz4 } else { CompressionType::None };
        let mut apart =
            KvSeparationOptions::default().separation_threshold(VALUES_APART_BYTES).compression(compression);
        if let Some(part) = asked.get("staleness_threshold")? {
            apart = apart.staleness_threshold(part);
        }
        if let Some(part) = asked.get("age_cutoff")? {
            apart = apart.age_cutoff(part);
        }
        if let Some(bytes) = asked.get("file_target_size")? {
            apart = apart.file_target_size(bytes);
        }
        let apart = values_apart.then_some(apart);
        let options = move || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(memtable_bytes)
                .data_block_size_policy(BlockSizePolicy::all(4096))
                .data_block_compression_policy(CompressionPolicy::all(compression))
                // Indexes and filters always in memory, at every level.
                .index_block_pinning_policy(PinningPolicy::all(true))
                .filter_block_pinning_policy(PinningPolicy::all(true))
                // Ten bits a key at every level, and a hash index in every data block.
                .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(
                    BloomConstructionPolicy::BitsPerKey(10.0),
                )))
                .data_block_hash_ratio_policy(HashRatioPolicy::all(8.0))
                .with_kv_separation(apart.clone())
        };
        let keyspace = database.keyspace("default", options)?;
        Ok(Fjall { database, keyspace })
    }
}

impl Engine for Fjall {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.keyspace.insert(key, value)?)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.keyspace.remove(key)?)
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(Reading(&self.keyspace)))
    }

    fn settle(&self) -> Result<()> {
        self.keyspace.rotate_memtable_and_wait()?;
        // It cannot be asked whether a compaction is due, only whether one runs: quiet for a while
        // is settled.
        let mut quiet = 0;
        while quiet < 20 {
            let busy = self.database.active_compactions() > 0 || self.database.outstanding_flushes() > 0;
            quiet = if busy { 0 } else { quiet + 1 };
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

struct Reading<'a>(&'a Keyspace);

impl Reader for Reading<'_> {
    fn get(&mut self, key: &[u8], value: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let found = self.0.get(key)?;
        found.iter().for_each(|slice| value(slice));
        Ok(found.is_some())
    }

    fn scan(
        &mut self,
        from: &[u8],
        limit: usize,
        backwards: bool,
        entry: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        let mut count = 0;
        let mut take = |guard: fjall::Guard| -> Result<()> {
            let (key, value) = guard.into_inner()?;
            entry(&key, &value);
            count += 1;
            Ok(())
        };
        if backwards {
            self.0.iter().rev().take(limit).try_for_each(&mut take)?;
        } else {
            self.0.range(from..).take(limit).try_for_each(&mut take)?;
        }
        Ok(count)
    }
}

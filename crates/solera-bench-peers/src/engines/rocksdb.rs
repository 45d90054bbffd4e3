//! RocksDB in three settings (`Tuning`): `RocksDb`, an `Engine`.
//!
//! `Tuned` and `Blob` have memtables that fit the last-level cache, and index blocks searched by
//! interpolation where keys lie evenly. `Blob` also keeps large values in blob files. `Paper` is
//! set as in the DobLIX paper.
//!
//! A run may ask for any option that RocksDB can change while it is open, by RocksDB's own name.
//!
//! What must hold: a build whose checksums do not use the processor's instruction is refused, since
//! RocksDB asks that when it is compiled. `SOLERA_PEERS_SLOW_ROCKSDB` allows it, to try the bench.
//! Options of point reads are made once for each reader, those of a scan for each scan.
//!
//! Caller: `engines::open`, with the feature `rocksdb`.

use crate::engine::{Engine, Reader, Result, Setting, VALUES_APART_BYTES};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, DEFAULT_COLUMN_FAMILY_NAME, DataBlockIndexType, Options,
    ReadOptions, WaitForCompactOptions, properties,
};
use std::path::Path;

/// How it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tuning {
    /// As in the DobLIX paper: 10-bit filters, a small cache, the page cache serves the data.
    Paper,
    /// For this machine and these loads.
    Tuned,
    /// [`Tuning::Tuned`], and large values in blob files. Compactions move what they meet of the
    /// oldest quarter of these (RocksDB's own age cutoff).
    Blob,
}

/// Write buffers: two that are being flushed and one that is written. Each 16 MiB, or a sixteenth
/// of a budget that has little to give. Larger ones write less and are slower: of 32 and 64 MiB ten
/// million random puts write 5.7 and 3.8 bytes for each instead of 7.6, at 0.90 and 0.82 of the
/// rate, and found reads after them come at 0.86 and 0.84 of theirs.
const WRITE_BUFFER_BYTES_MAX: usize = 16 << 20;
const WRITE_BUFFER_SHARE: usize = 16;
const WRITE_BUFFERS: usize = 3;
/// Index blocks whose keys lie so evenly (coefficient of variation of the gaps) are searched by
/// interpolation. Bounds of blocks of 55 random keys have 0.13; without a threshold no block is
/// ever marked, and `kAuto` never interpolates.
const UNIFORM_CV_THRESHOLD: f64 = 0.5;

/// Set to try the bench with a library that is there already. What comes of it is not published.
const SLOW_BUILD: &str = "SOLERA_PEERS_SLOW_ROCKSDB";

pub struct RocksDb(DB);

impl RocksDb {
    pub fn open(setting: &Setting, tuning: Tuning) -> Result<Self> {
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_compression_type(if setting.lz4 {
            DBCompressionType::Lz4
        } else {
            DBCompressionType::None
        });
        options.set_use_direct_reads(setting.direct);
        let asked = setting.asked.get("write_buffer_size")?;
        let write_buffer_bytes = asked.unwrap_or(
            (setting.memory_bytes as usize / WRITE_BUFFER_SHARE).clamp(1 << 20, WRITE_BUFFER_BYTES_MAX),
        );
        let mut table = BlockBasedOptions::default();
        // Ten bits a key, like every other engine here.
        table.set_bloom_filter(10.0, false);
        table.set_block_size(4096);
        match tuning {
            Tuning::Paper => table.set_block_cache(&Cache::new_lru_cache(8 << 20)),
            Tuning::Tuned | Tuning::Blob => {
                // The whole budget but for the write buffers, in the cache without locks on its hit
                // path; 0 lets it find out by itself what a block weighs.
                let cache_bytes =
                    (setting.memory_bytes as usize).saturating_sub(write_buffer_bytes * WRITE_BUFFERS);
                let cache = Cache::new_hyper_clock_cache(cache_bytes, 0);
                table.set_block_cache(&cache);
                if tuning == Tuning::Blob {
                    // Values, too, come from the cache and not from the system's.
                    options.set_blob_cache(&cache);
                }
                // A hash index in every data block: found reads skip the binary search over
                // restarts.
                table.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
                table.set_data_block_hash_ratio(0.75);
                // Behind the hash index a read goes through half of an interval: 14 % fewer
                // instructions per found read than with 16, and 1 % more space.
                table.set_block_restart_interval(4);
                // The newest format has the smallest index entries and the fastest filters.
                table.set_format_version(7);
                // Indexes and filters outside the cache: they are always there, and no look-up is
                // paid for them.
                table.set_cache_index_and_filter_blocks(false);
                // A memtable that fits the last-level cache takes random inserts faster than the
                // default of 64 MiB; three of them keep the writer from waiting for a flush.
                options.set_write_buffer_size(write_buffer_bytes);
                options.set_max_write_buffer_number(WRITE_BUFFERS as i32);
                // Level 1 as large as what level 0 holds when it is due, as its own tuning guide
                // says.
                options.set_max_bytes_for_level_base((write_buffer_bytes * 4) as u64);
                options.set_target_file_size_base(32 << 20);
                options.set_max_background_jobs(4);
                options.set_max_open_files(-1);
            }
        }
        if tuning == Tuning::Blob {
            options.set_enable_blob_files(true);
            options.set_min_blob_size(VALUES_APART_BYTES.into());
            options.set_enable_blob_gc(true);
        }
        options.set_block_based_table_factory(&table);
        // Opened by its name, or there is no handle of it, which a MultiGet in batches needs.
        let families = [(DEFAULT_COLUMN_FAMILY_NAME, options.clone())];
        let db = DB::open_cf_with_opts(&options, &setting.directory, families)?;
        refuse_slow_build(&setting.directory)?;
        if tuning != Tuning::Paper {
            // Interpolation in index blocks whose keys are spread evenly, binary search in the
            // others.
            let search =
                format!("{{index_block_search_type=kAuto;uniform_cv_threshold={UNIFORM_CV_THRESHOLD};}}");
            db.set_options(&[("block_based_table_factory", &search)])?;
        }
        let asked: Vec<_> = setting.asked.all().collect();
        if !asked.is_empty() {
            db.set_options(&asked)?;
        }
        Ok(RocksDb(db))
    }
}

/// RocksDB asks what a processor can when it is compiled, not when it runs. One that computes the
/// checksums of its log without the instruction for them, and probes its filters without wide ones,
/// is not the one that users run.
fn refuse_slow_build(directory: &Path) -> Result<()> {
    if std::env::var_os(SLOW_BUILD).is_some() {
        return Ok(());
    }
    let log = std::fs::read_to_string(directory.join("LOG"))?;
    if log.contains("Fast CRC32 supported: Not supported") {
        return Err(
            "RocksDB was compiled for a processor without SSE4.2; build in crates/solera-bench-peers, whose \
                    .cargo/config.toml has it compiled for this one"
                .into(),
        );
    }
    Ok(())
}

impl Engine for RocksDb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.0.put(key, value)?)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.0.delete(key)?)
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(Reading { db: &self.0, options: ReadOptions::default() }))
    }

    fn settle(&self) -> Result<()> {
        self.0.flush()?;
        Ok(self.0.wait_for_compact(&WaitForCompactOptions::default())?)
    }

    fn index_and_filter_bytes(&self) -> Option<(u64, u64)> {
        // What table readers hold outside the cache: indexes, filters and their own bookkeeping, in
        // one.
        let readers = self.0.property_int_value(properties::ESTIMATE_TABLE_READERS_MEM).ok()??;
        Some((readers, 0))
    }
}

/// Options are made once: making them for every read is not cheap.
struct Reading<'a> {
    db: &'a DB,
    options: ReadOptions,
}

impl Reader for Reading<'_> {
    fn get(&mut self, key: &[u8], value: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let found = self.db.get_pinned_opt(key, &self.options)?;
        found.iter().for_each(|slice| value(slice));
        Ok(found.is_some())
    }

    fn multi_get(&mut self, keys: &[&[u8]], value: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        let family = self.db.cf_handle(DEFAULT_COLUMN_FAMILY_NAME).ok_or("no default column family")?;
        for (i, found) in self
            .db
            .batched_multi_get_cf_opt(&family, keys.iter().copied(), false, &self.options)
            .into_iter()
            .enumerate()
        {
            found?.iter().for_each(|slice| value(i, slice));
        }
        Ok(())
    }

    fn scan(
        &mut self,
        from: &[u8],
        limit: usize,
        backwards: bool,
        entry: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        let mut options = ReadOptions::default();
        if limit > 10_000 {
            // Fewer and larger reads where the page cache serves.
            options.set_readahead_size(2 << 20);
        }
        let mut iterator = self.db.raw_iterator_opt(options);
        if backwards {
            iterator.seek_to_last()
        } else {
            iterator.seek(from)
        };
        let mut count = 0;
        while count < limit {
            let Some((key, value)) = iterator.item() else { break };
            entry(key, value);
            count += 1;
            if backwards {
                iterator.prev()
            } else {
                iterator.next()
            };
        }
        iterator.status()?;
        Ok(count)
    }
}

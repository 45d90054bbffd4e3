//! coordinode-lsm-tree, a tree without a log of its own: `Coordinode`, an `Engine`.
//!
//! Its caller flushes and compacts: here a thread for each, as many as fjall's workers.
//!
//! What must hold:
//! - Nothing is logged. So it promises less than most other engines keep: a killed process loses
//!   what was not flushed. This crate's README.md says so. Closing flushes.
//! - A writer whose memtable is full waits while three are sealed or level 0 has too many runs.
//!
//! Caller: `engines::open`.

use crate::engine::{Engine, Reader, Result, Setting};
use lsm_tree::{
    AbstractTree, AnyTree, Cache, CompressionType, Config, Guard, MAX_SEQNO, SequenceNumberCounter,
    compaction::{CompactionAction, Leveled},
    config::{BlockSizePolicy, CompressionPolicy, HashRatioPolicy, PinningPolicy, RestartIntervalPolicy},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// A memtable that fits the last-level cache, as for RocksDB and fjall.
const MEMTABLE_BYTES: u64 = 16 << 20;
const MEMTABLE_SHARE: u64 = 16;
/// Sealed memtables, and runs of level 0, at which writers wait. Runs as fjall has it.
const SEALED_MAX: usize = 3;
const RUNS_MAX: usize = 20;
const NAP: Duration = Duration::from_micros(100);

pub struct Coordinode {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    memtable_bytes: u64,
}

/// What the threads that flush and compact share with those that write.
struct Shared {
    tree: AnyTree,
    seqno: SequenceNumberCounter,
    strategy: Arc<Leveled>,
    /// How often the worker of each kind found nothing to do.
    idle_rounds: [AtomicU64; 2],
    ends: AtomicBool,
    failed: AtomicBool,
}

impl Coordinode {
    pub fn open(setting: &Setting) -> Result<Self> {
        let memtable_bytes = (setting.memory_bytes / MEMTABLE_SHARE).clamp(1 << 20, MEMTABLE_BYTES);
        let cache_bytes = setting.memory_bytes.saturating_sub(memtable_bytes * (SEALED_MAX as u64 + 1));
        let seqno = SequenceNumberCounter::default();
        let compression = if setting.lz4 { CompressionType::Lz4 } else { CompressionType::None };
        let config = Config::new(&setting.directory, seqno.clone(), SequenceNumberCounter::default())
            .use_cache(Arc::new(Cache::with_capacity_bytes(cache_bytes)))
            .data_block_size_policy(BlockSizePolicy::all(4096))
            .data_block_compression_policy(CompressionPolicy::all(compression))
            // Indexes and filters whole and always in memory, at every level; its own default cuts
            // them up against damage. Filters have ten bits a key by default.
            .index_block_partitioning_policy(PinningPolicy::all(false))
            .filter_block_partitioning_policy(PinningPolicy::all(false))
            .index_block_pinning_policy(PinningPolicy::all(true))
            .filter_block_pinning_policy(PinningPolicy::all(true))
            // A hash index in every data block, and short intervals behind it, as for RocksDB.
            .data_block_hash_ratio_policy(HashRatioPolicy::all(1.33))
            .data_block_restart_interval_policy(RestartIntervalPolicy::all(4));
        let shared = Arc::new(Shared {
            tree: config.open()?,
            seqno,
            strategy: Arc::new(Leveled::default()),
            idle_rounds: Default::default(),
            ends: AtomicBool::new(false),
            failed: AtomicBool::new(false),
        });
        if let Some(last) = shared.tree.get_highest_seqno() {
            shared.seqno.fetch_max(last + 1);
        }
        let start = |job: Job| {
            let shared = shared.clone();
            thread::Builder::new().name("worker".into()).spawn(move || shared.work(job))
        };
        let workers = vec![start(Job::Flush)?, start(Job::Compact)?];
        Ok(Coordinode { shared, workers, memtable_bytes })
    }

    /// Seals a memtable that is full, and waits while too much is undone.
    fn keep_up(&self, memtable_bytes: u64) -> Result<()> {
        let tree = &self.shared.tree;
        if memtable_bytes < self.memtable_bytes {
            return Ok(());
        }
        tree.rotate_memtable();
        self.wake();
        while tree.sealed_memtable_count() >= SEALED_MAX || tree.l0_run_count() >= RUNS_MAX {
            self.shared.refuse_failed()?;
            thread::sleep(NAP);
        }
        Ok(())
    }

    fn wake(&self) {
        self.workers.iter().for_each(|worker| worker.thread().unpark());
    }
}

/// What a worker does.
#[derive(Clone, Copy)]
enum Job {
    Flush,
    Compact,
}

impl Shared {
    /// Does what is due until the engine is dropped.
    fn work(&self, job: Job) {
        while !self.ends.load(Ordering::Relaxed) {
            match self.round(job) {
                Ok(true) => {}
                Ok(false) => {
                    self.idle_rounds[job as usize].fetch_add(1, Ordering::Relaxed);
                    thread::park_timeout(Duration::from_millis(5));
                }
                Err(_) => {
                    self.failed.store(true, Ordering::Relaxed);
                    return;
                }
            }
        }
    }

    /// Flushes what is sealed, or does a compaction that is due. False if nothing is.
    fn round(&self, job: Job) -> Result<bool> {
        // No reader of the bench asks for the past.
        let watermark = self.seqno.get();
        Ok(match job {
            Job::Flush => self.tree.flush(&self.tree.get_flush_lock(), watermark)?.is_some(),
            Job::Compact => {
                self.tree.compact(self.strategy.clone(), watermark)?.action != CompactionAction::Nothing
            }
        })
    }

    /// Waits until the worker has looked for work after now, and found none.
    fn wait_idle(&self, job: Job, wake: impl Fn()) -> Result<()> {
        let idle = &self.idle_rounds[job as usize];
        let before = idle.load(Ordering::Relaxed);
        // The look that is under way may have begun before.
        while idle.load(Ordering::Relaxed) < before + 2 {
            self.refuse_failed()?;
            wake();
            thread::sleep(NAP);
        }
        Ok(())
    }

    fn refuse_failed(&self) -> Result<()> {
        let failed = self.failed.load(Ordering::Relaxed);
        if failed { Err("a flush or a compaction failed".into()) } else { Ok(()) }
    }
}

impl Drop for Coordinode {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        self.wake();
        self.workers.drain(..).for_each(|worker| {
            let _ = worker.join();
        });
        // Without a log, what is not flushed would be gone when it is opened again.
        let _ = self.shared.tree.flush_active_memtable(0);
    }
}

impl Engine for Coordinode {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let (_, memtable_bytes) = self.shared.tree.insert(key, value, self.shared.seqno.next());
        self.keep_up(memtable_bytes)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        let (_, memtable_bytes) = self.shared.tree.remove(key, self.shared.seqno.next());
        self.keep_up(memtable_bytes)
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(Reading(&self.shared.tree)))
    }

    fn settle(&self) -> Result<()> {
        self.shared.tree.rotate_memtable();
        self.shared.wait_idle(Job::Flush, || self.wake())?;
        self.shared.wait_idle(Job::Compact, || self.wake())
    }

    fn index_and_filter_bytes(&self) -> Option<(u64, u64)> {
        let tree = &self.shared.tree;
        Some((tree.pinned_block_index_size() as u64, tree.pinned_filter_size() as u64))
    }
}

struct Reading<'a>(&'a AnyTree);

impl Reader for Reading<'_> {
    fn get(&mut self, key: &[u8], value: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let found = self.0.get_pinned(key, MAX_SEQNO)?;
        found.iter().for_each(|slice| value(slice.value()));
        Ok(found.is_some())
    }

    fn multi_get(&mut self, keys: &[&[u8]], value: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        for (i, found) in self.0.multi_get(keys, MAX_SEQNO)?.iter().enumerate() {
            found.iter().for_each(|slice| value(i, slice));
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
        let mut count = 0;
        let mut take = |guard: lsm_tree::IterGuardImpl| -> Result<()> {
            let (key, value) = guard.into_inner()?;
            entry(&key, &value);
            count += 1;
            Ok(())
        };
        if backwards {
            self.0.iter(MAX_SEQNO, None).rev().take(limit).try_for_each(&mut take)?;
        } else {
            self.0.range(from.., MAX_SEQNO, None).take(limit).try_for_each(&mut take)?;
        }
        Ok(count)
    }
}

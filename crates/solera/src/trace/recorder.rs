//! Taking operations down while they happen: `Recorder`, a bounded buffer, and `start`, the thread
//! that writes it out.
//!
//! `add` encodes the records of one call into the buffer. The thread exchanges buffers every 100
//! ms, or once half of the memory is taken, and appends the content as a frame. `TraceOptions` says
//! how much memory, and whether keys are hashed; `Recorded` tells how far it has come.
//!
//! What must hold: no thread holds the lock for longer than it takes to encode one call's records.
//! All records of a call are taken, or none. What finds the buffer full, or cannot be written to
//! the file, is left out and counted. The next record that fits says so.
//! Callers: `engine::tracing` adds, `control::trace` starts and ends; `solera-cli` and
//! `solera-bench` set options.

use super::{FILE_KIND, HASHED, Operation, Record};
use crate::{
    clock::Clock,
    codec::put_varint,
    error::{Error, Result},
    frame::{FILE_HEADER_BYTES, FrameWriter},
    ids::{DatabaseId, FileId},
    sync::{Condvar, Mutex},
    vfs::Fs,
};
use std::{
    collections::BTreeSet,
    hash::{BuildHasher, RandomState},
    mem,
    path::Path,
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

/// The least memory that a recording takes: less does not hold a range deletion with its two keys.
pub const TRACE_BYTES_MIN: usize = 512 << 10;
/// The memory that a recording takes if its options do not say otherwise.
const TRACE_BYTES_DEFAULT: usize = 16 << 20;
/// What is in the buffer is written out after so long, however little it is.
const WRITE_EVERY: Duration = Duration::from_millis(100);

/// How operations are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceOptions {
    pub(super) hash_keys: bool,
    pub(super) memory_bytes: usize,
}

impl Default for TraceOptions {
    fn default() -> Self {
        TraceOptions { hash_keys: false, memory_bytes: TRACE_BYTES_DEFAULT }
    }
}

impl TraceOptions {
    /// Keys as they are, 16 MiB of memory.
    pub fn new() -> Self {
        TraceOptions::default()
    }

    /// Whether 8-byte hashes stand for keys, under a random key that is kept in memory and
    /// forgotten with the recording (the standard library's `RandomState`). Equal keys of one
    /// recording stay equal. Their order is lost, so scans of a replay begin elsewhere and range
    /// deletions cannot be replayed. Names of keyspaces stay as they are.
    #[must_use]
    pub fn hash_keys(self, hash_keys: bool) -> Self {
        TraceOptions { hash_keys, ..self }
    }

    /// Bytes of memory that records take until they are written, 512 KiB or more; default 16 MiB.
    /// One half takes records while the other is written. A batch whose keys do not fit into a half
    /// is left out, as a whole.
    #[must_use]
    pub fn memory(self, bytes: usize) -> Self {
        TraceOptions { memory_bytes: bytes, ..self }
    }
}

/// How far a recording has come.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// Operations that are in the file.
    pub operations: u64,
    /// Operations that were left out, because the file was slower than they, or could not be
    /// written.
    pub dropped: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Why operations could last not be written to the file, if that ever was so.
    pub failure: Option<Error>,
}

/// What operations are handed to while they are recorded.
pub(crate) struct Recorder {
    buffer: Mutex<Buffer>,
    /// Calls the writing thread.
    call: Condvar,
    /// Bytes that a buffer may take.
    limit: usize,
    hasher: Option<RandomState>,
    clock: Arc<dyn Clock>,
    /// The beginning: on the wall, in Unix microseconds, and by the monotonic clock.
    begun_unix_us: u64,
    begun_ns: u64,
}

/// Records that are not in the file yet.
struct Buffer {
    /// A frame's payload, or nothing.
    payload: Vec<u8>,
    /// Operations in it.
    operations: u64,
    /// Keyspaces that were named.
    named: BTreeSet<u32>,
    /// The last record's time, in Unix microseconds.
    last_us: u64,
    /// Operations left out since a record last said so.
    untold: u64,
    ended: bool,
    told: Recorded,
}

impl Recorder {
    pub(super) fn new(options: TraceOptions, clock: Arc<dyn Clock>) -> Self {
        let limit = options.memory_bytes / 2;
        let buffer = Buffer {
            payload: Vec::with_capacity(limit),
            operations: 0,
            named: BTreeSet::new(),
            last_us: 0,
            untold: 0,
            ended: false,
            told: Recorded { bytes: FILE_HEADER_BYTES as u64, ..Recorded::default() },
        };
        Recorder {
            buffer: Mutex::new(buffer),
            call: Condvar::new(),
            limit,
            hasher: options.hash_keys.then(RandomState::new),
            begun_unix_us: clock.unix_ms() * 1000,
            begun_ns: clock.monotonic_ns(),
            clock,
        }
    }

    /// Takes down `operations`, each with its keyspace's name, that were done together just now:
    /// all or none of them.
    pub(crate) fn add<'o>(&self, operations: impl ExactSizeIterator<Item = (Operation<'o>, &'o str)>) {
        let us = self.clock.monotonic_ns().saturating_sub(self.begun_ns) / 1000;
        let us = self.begun_unix_us.saturating_add(us);
        let count = operations.len() as u64;
        let mut buffer = self.buffer.lock();
        if buffer.ended || count == 0 {
            return;
        }
        let (begin, last_us) = (buffer.payload.len(), buffer.last_us);
        let mut named = Vec::new();
        if self.try_add(&mut buffer, us, count, operations, &mut named) {
            buffer.operations += count;
            buffer.untold = 0;
            if begin < self.limit / 2 && buffer.payload.len() >= self.limit / 2 {
                self.call.notify_all();
            }
        } else {
            buffer.payload.truncate(begin);
            buffer.last_us = last_us;
            named.iter().for_each(|keyspace| _ = buffer.named.remove(keyspace));
            buffer.untold += count;
            buffer.told.dropped += count;
        }
    }

    /// Encodes, and says whether everything fitted.
    fn try_add<'o>(
        &self,
        buffer: &mut Buffer,
        us: u64,
        count: u64,
        operations: impl Iterator<Item = (Operation<'o>, &'o str)>,
        named: &mut Vec<u32>,
    ) -> bool {
        if buffer.untold > 0 {
            self.encode(buffer, us, Operation::Dropped { operations: buffer.untold });
        }
        if count > 1 {
            self.encode(buffer, us, Operation::Batch { writes: count });
        }
        for (operation, name) in operations {
            if let Some(keyspace) = operation.keyspace().filter(|id| !buffer.named.contains(id)) {
                self.encode(buffer, us, Operation::Keyspace { keyspace, name });
                buffer.named.insert(keyspace);
                named.push(keyspace);
            }
            let mut hashes = [[0; 8]; 2];
            let operation = match &self.hasher {
                Some(hasher) => hashed(operation, hasher, &mut hashes),
                None => operation,
            };
            self.encode(buffer, us, operation);
            if buffer.payload.len() > self.limit {
                return false;
            }
        }
        true
    }

    fn encode(&self, buffer: &mut Buffer, us: u64, operation: Operation<'_>) {
        if buffer.payload.is_empty() {
            buffer.last_us = buffer.last_us.max(us);
            buffer.payload.push(if self.hasher.is_some() { HASHED } else { 0 });
            put_varint(&mut buffer.payload, buffer.last_us);
        }
        // Threads come here in another order than they looked at the clock.
        let after_us = us.saturating_sub(buffer.last_us);
        buffer.last_us += after_us;
        Record { after_us, operation }.encode(&mut buffer.payload);
    }

    /// How far it has come.
    pub(crate) fn recorded(&self) -> Recorded {
        self.buffer.lock().told.clone()
    }

    /// From now on takes nothing down; the writing thread ends the file.
    pub(crate) fn end(&self) {
        self.buffer.lock().ended = true;
        self.call.notify_all();
    }

    /// Waits until there is reason to write, and exchanges what there is for `payload`, which is
    /// empty. Says how many operations that is and whether it is the last.
    fn take(&self, payload: &mut Vec<u8>) -> (u64, bool) {
        let mut buffer = self.buffer.lock();
        if !buffer.ended && buffer.payload.len() < self.limit / 2 {
            self.call.wait_for(&mut buffer, WRITE_EVERY);
        }
        if buffer.ended && buffer.untold > 0 {
            let (operations, us) = (buffer.untold, buffer.last_us);
            self.encode(&mut buffer, us, Operation::Dropped { operations });
        }
        mem::swap(&mut buffer.payload, payload);
        (mem::take(&mut buffer.operations), buffer.ended)
    }

    /// Tells what became of so many operations that were taken: `written`, so that the file is so
    /// long, or lost.
    fn tell(&self, operations: u64, written: Result<u64>) {
        let mut buffer = self.buffer.lock();
        match written {
            Ok(bytes) => {
                buffer.told.bytes = bytes;
                buffer.told.operations += operations;
            }
            Err(error) => {
                buffer.told.dropped += operations;
                buffer.told.failure = Some(error);
                buffer.untold += operations;
                // The names may have been in what was lost.
                buffer.named.clear();
            }
        }
    }

    /// Writes what is taken down to `file` until the end.
    fn write(&self, mut file: FrameWriter) -> Result<()> {
        let mut payload = Vec::with_capacity(self.limit);
        loop {
            let (operations, ended) = self.take(&mut payload);
            if !payload.is_empty() {
                let written = file.append([[&payload[..]]]);
                self.tell(operations, written.map(|()| file.len()));
                payload.clear();
                payload.shrink_to(self.limit);
            }
            if ended {
                break;
            }
        }
        // First the mark that convicts damage of any frame, then the end.
        file.sync()?;
        file.finish()?;
        self.buffer.lock().told.bytes = file.len();
        Ok(())
    }
}

/// Creates the file at `path`, which must not exist, and begins: what to hand operations to, and
/// the thread that writes them out until the recorder [ends](Recorder::end).
pub(crate) fn start(
    fs: &dyn Fs,
    path: &Path,
    database: DatabaseId,
    options: TraceOptions,
    clock: Arc<dyn Clock>,
) -> Result<(Arc<Recorder>, JoinHandle<Result<()>>)> {
    if options.memory_bytes < TRACE_BYTES_MIN {
        let (bytes, min) = (options.memory_bytes, TRACE_BYTES_MIN);
        return Err(Error::Invalid(format!(
            "a trace with {bytes} bytes of memory; it must have {min} or more"
        )));
    }
    let file = FrameWriter::create(fs, path, &FILE_KIND, database, FileId(0))?;
    let recorder = Arc::new(Recorder::new(options, clock));
    let write = {
        let recorder = recorder.clone();
        move || recorder.write(file)
    };
    let thread = std::thread::Builder::new().name("solera-trace".into()).spawn(write);
    Ok((recorder, thread.map_err(|error| Error::io("start a thread for", path, error))?))
}

/// The operation with hashes, which lie in `hashes`, for keys.
fn hashed<'h>(operation: Operation<'h>, hasher: &RandomState, hashes: &'h mut [[u8; 8]; 2]) -> Operation<'h> {
    let [first, second] = hashes;
    let mut hash = |key: &[u8]| *first = hasher.hash_one(key).to_be_bytes();
    match operation {
        // No key: from one end of the keyspace.
        Operation::Scan { key: [], .. } => operation,
        Operation::Lookup { keyspace, key, found } => {
            hash(key);
            Operation::Lookup { keyspace, key: first, found }
        }
        Operation::Scan { keyspace, key, entries, backward } => {
            hash(key);
            Operation::Scan { keyspace, key: first, entries, backward }
        }
        Operation::Put { keyspace, key, value_len, expires } => {
            hash(key);
            Operation::Put { keyspace, key: first, value_len, expires }
        }
        Operation::Delete { keyspace, key } => {
            hash(key);
            Operation::Delete { keyspace, key: first }
        }
        Operation::Merge { keyspace, key, operand_len } => {
            hash(key);
            Operation::Merge { keyspace, key: first, operand_len }
        }
        Operation::DeleteRange { keyspace, start, end } => {
            hash(start);
            *second = hasher.hash_one(end).to_be_bytes();
            Operation::DeleteRange { keyspace, start: first, end: second }
        }
        Operation::Keyspace { .. }
        | Operation::Batch { .. }
        | Operation::Dropped { .. }
        | Operation::DropKeyspace { .. } => operation,
    }
}

#[cfg(test)]
impl Recorder {
    /// What a writing thread would write now.
    pub(super) fn taken(&self) -> (Vec<u8>, u64) {
        let mut payload = Vec::new();
        let (operations, _) = self.take(&mut payload);
        (payload, operations)
    }

    /// As the writing thread, of a write that failed.
    pub(super) fn lose(&self, operations: u64, error: Error) {
        self.tell(operations, Err(error));
    }
}

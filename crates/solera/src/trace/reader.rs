//! Reading traces back: `read`, which hands every record to its caller; `Traced`, a record with
//! place and time; `Ending`.
//!
//! It walks the frames of the file, reads each frame's records by itself, and keeps only which
//! keyspaces were named.
//!
//! What must hold: bytes are untrusted. Damage in a recording that was ended is an error. One that
//! was not ended is read up to the first frame that is not whole, and `Ending` says so. The writes
//! of a batch stand together in one frame.
//!
//! Callers: `solera trace` (`show`, `summary`, `replay`), `fuzz`, and tests.

use super::{FILE_KIND, HASHED, Operation, Record};
use crate::{
    codec::{DecodeError, Decoder},
    error::{Error, Result},
    frame::{Cut, FILE_HEADER_BYTES, FRAME_HEADER_BYTES, walk},
    vfs::{Fs, read_exact_at},
};
use std::{collections::BTreeSet, path::Path};

/// A record of a trace, where and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced<'k> {
    /// When the operation ended, or, if it is a scan, when its iterator left off, in Unix
    /// microseconds.
    pub unix_us: u64,
    /// Where in the file its frame begins.
    pub offset: u64,
    /// Whether the keys are hashes.
    pub hashed: bool,
    /// What was done.
    pub operation: Operation<'k>,
}

/// How a trace ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Bytes of the file that were read.
    pub bytes: u64,
    /// Whether the recording was ended. If not, the process that made it was killed, or makes it
    /// still.
    pub ended: bool,
    /// Bytes at the end that are not whole: what such a process left of its last writes.
    pub cut_bytes: u64,
}

/// Hands every record of the trace at `path` to `each`, in order; an error of it ends the reading.
///
/// Operations of one thread stand in the order in which they were done; those that several threads
/// did at the same time stand in any order. The writes that follow an [`Operation::Batch`] are
/// those of one batch, and every keyspace was named before.
///
/// # Errors
/// [`Error::Corrupt`](crate::Error::Corrupt) if the file is no trace, is damaged where a recording
/// was ended, or goes on behind its end; as `each`.
pub fn read(fs: &dyn Fs, path: &Path, mut each: impl FnMut(&Traced<'_>) -> Result<()>) -> Result<Ending> {
    let file = fs.open(path)?;
    let len = file.len()?;
    let mut header = [0; FILE_HEADER_BYTES];
    let begin = &mut header[..len.min(FILE_HEADER_BYTES as u64) as usize];
    read_exact_at(&*file, begin, 0)?;
    let identity = FILE_KIND.identify(path, begin)?;
    let mut named = BTreeSet::new();
    let span = FILE_HEADER_BYTES as u64..len;
    let walked = walk(&*file, identity.frames, span, 0, |offset, payload| {
        let damaged = |error: DecodeError| error.in_file(path, offset + FRAME_HEADER_BYTES as u64);
        let mut frame = Frame::new(payload, offset).map_err(damaged)?;
        while let Some(traced) = frame.next(&mut named).map_err(damaged)? {
            each(&traced)?;
        }
        Ok(())
    })?;
    if walked.ended && walked.end < len {
        let what =
            format!("the recording ended here, and {} bytes of something else follow", len - walked.end);
        return Err(Error::corrupt(path, walked.end, what));
    }
    let cut_bytes = walked.cut.map_or(0, |Cut { bytes, .. }| bytes);
    Ok(Ending { bytes: walked.end, ended: walked.ended, cut_bytes })
}

/// A frame's payload, being read.
pub(super) struct Frame<'p> {
    from: Decoder<'p>,
    offset: u64,
    hashed: bool,
    unix_us: u64,
    /// Writes of the batch that are still to come.
    batch: u64,
}

impl<'p> Frame<'p> {
    pub(super) fn new(payload: &'p [u8], offset: u64) -> Result<Self, DecodeError> {
        let mut from = Decoder::new(payload);
        let at = from.clone();
        let flags = from.u8("the flags of a frame")?;
        if flags > HASHED {
            return at.fail("known flags of a frame");
        }
        let unix_us = from.varint("the moment of a frame")?;
        Ok(Frame { from, offset, hashed: flags == HASHED, unix_us, batch: 0 })
    }

    pub(super) fn next(&mut self, named: &mut BTreeSet<u32>) -> Result<Option<Traced<'p>>, DecodeError> {
        if self.from.remaining() == 0 {
            return if self.batch == 0 { Ok(None) } else { self.from.fail("the rest of a batch") };
        }
        let at = self.from.clone();
        let Record { after_us, operation } = Record::decode(&mut self.from)?;
        match operation {
            Operation::Keyspace { keyspace, .. } => _ = named.insert(keyspace),
            Operation::Batch { writes } if self.batch > 0 || writes < 2 => {
                return at.fail("a batch of writes");
            }
            Operation::Batch { writes } => self.batch = writes,
            _ if self.batch > 0 && !operation.is_write() => return at.fail("a write of a batch"),
            _ => self.batch = self.batch.saturating_sub(1),
        }
        if operation.keyspace().is_some_and(|keyspace| !named.contains(&keyspace)) {
            return at.fail("a keyspace that was named");
        }
        self.unix_us = self.unix_us.saturating_add(after_us);
        Ok(Some(Traced { unix_us: self.unix_us, offset: self.offset, hashed: self.hashed, operation }))
    }
}

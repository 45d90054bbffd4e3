//! The log, what was written since the last flush: `Writer` for one log, `Replay` for all of them,
//! and `batch`. A log is a file of frames (`crate::frame`), each one batch, all or nothing.
//! `append`, `sync`, `end` and `settle` write; `replay` hands the records of one log out and says
//! whether a crash tore its end.
//! What must hold (docs/decisions/0004; the comment of `Writer` has it in full): records of a log
//! are older than those of a larger number. A log is ended before the next is written; of one that
//! its process left open, the manifest records the end. Nothing in a log is called durable before
//! all logs before it are. So recovery yields a prefix of the commit order.
//! Callers: `engine::store` creates logs, `engine::core` appends for `engine::commit`,
//! `engine::logs` ends and settles them; `engine::open` replays, and copies into a new log.
//! `inspect` and `fuzz` check. `version::manifest` asks `is_unwritten`; `values` gets `FILE_KIND`.

pub mod batch;

use crate::{
    canary::{Bug, planted},
    codec::Binding,
    dir::{FileName, magic},
    error::{Error, Result},
    frame::{FILE_HEADER_BYTES, FRAME_HEADER_BYTES, FileKind, FrameWriter, Walked, is_whole, walk},
    ids::{DatabaseId, FileId},
    vfs::{Fs, ReadFile, read_exact_at},
};
use std::path::{Path, PathBuf};

pub use crate::frame::Cut;

/// How a log begins.
pub const FILE_KIND: FileKind = FileKind { magic: magic::LOG, version: 1, noun: "log", reserves: true };

/// Writes one log. Not shared: the thread that commits holds it, and once it is ended the thread
/// that settles it.
///
///
/// * Records of a log are older than those of every log with a larger number. The caller numbers
///   them.
/// * A log is ended ([`Writer::end`]) before anything is written to the next. So a log without an
///   end is the last that counts.
/// * Nothing in a log is made durable, or said to be ([`Writer::vouch`]), before all logs before it
///   are: a thread that syncs one settles those first ([`Writer::settle`]). So where a log has lost
///   its end, nothing of those after it was acknowledged as durable. Where one of them vouches for
///   it, the end was lost to damage.
/// * A log that its process left open is not ended and never will be. With the same record that
///   names its successor the manifest records how far recovery proved it to be durable
///   ([`Tail::CutAt`]), or lets go of it. What lay behind was written again, to the successor.
///
#[derive(Debug)]
pub struct Writer {
    frames: FrameWriter,
    file: FileId,
}

impl Writer {
    /// Creates the log, durably. After an error there is no file.
    pub fn create(fs: &dyn Fs, dir: &Path, database: DatabaseId, file: FileId) -> Result<Writer> {
        let path = FileName::Log(file).in_dir(dir);
        let frames = FrameWriter::create(fs, &path, &FILE_KIND, database, file)?;
        if let Err(error) = fs.sync_dir(dir) {
            drop(frames);
            // One that cannot be removed now is removed at the next open.
            let _ = fs.remove_file(&path);
            return Err(error);
        }
        Ok(Writer { frames, file })
    }

    /// Appends one frame for each item, all or none of them, in one call of the file system unless
    /// a part is larger than 64 KiB. An item is the parts of a payload, which [`batch`] encodes:
    /// `writer.append([[batch.payload()]])`, `writer.append(group.iter().map(|b| [b.payload()]))`.
    ///
    /// What is appended survives the process; [`Writer::sync`] makes it survive the machine. After
    /// an error the log is as before the call, or, if that could not be achieved, every further
    /// call fails with [`Error::Poisoned`].
    pub fn append<'p, F>(&mut self, frames: F) -> Result<()>
    where
        F: IntoIterator,
        F::Item: AsRef<[&'p [u8]]>,
    {
        self.frames.append(frames)
    }

    /// What the log's content is bound to.
    pub fn binding(&self) -> Binding {
        self.frames.binding()
    }

    /// Where the payload of the next frame will begin. After it comes a frame of `payload_bytes`:
    /// the next one's begins at `next_payload_at() + payload_bytes + FRAME_HEADER_BYTES`.
    pub fn next_payload_at(&self) -> u64 {
        self.len() + FRAME_HEADER_BYTES as u64
    }

    /// Makes everything appended durable; all logs before it are ([`Writer::settle`]). After an
    /// error every further call fails with [`Error::Poisoned`]: what a failed sync has lost, a
    /// second one does not bring back.
    pub fn sync(&mut self) -> Result<()> {
        if planted(Bug::SkipLogSync) { Ok(()) } else { self.frames.sync() }
    }

    /// Ends the log, before its successor is used. After an error it has no end and goes on, or, if
    /// what was written of the end cannot be taken back, every further call fails with
    /// [`Error::Poisoned`].
    pub fn end(&mut self) -> Result<()> {
        self.frames.end()
    }

    /// Makes the log, which was ended, durable as a whole. Errors as of [`Writer::sync`].
    pub fn settle(&mut self) -> Result<()> {
        self.frames.settle()
    }

    /// About so many bytes will be appended before a sync: gets ready for them, where the file
    /// system can, off the way of the appends.
    pub fn expect(&mut self, bytes: u64) {
        self.frames.expect(bytes);
    }

    /// Whether nothing that was appended was made durable so far.
    pub fn is_unsynced(&self) -> bool {
        self.synced_len() == FILE_HEADER_BYTES as u64
    }

    /// The log follows one that was ended and is not durable yet.
    pub fn withhold(&mut self) {
        self.frames.withhold();
    }

    /// All logs before it are durable now.
    pub fn vouch(&mut self) {
        self.frames.vouch();
    }

    /// Why every further call will fail, if it will.
    pub fn poisoned(&self) -> Option<&str> {
        self.frames.poisoned()
    }

    /// The log's number.
    pub fn file(&self) -> FileId {
        self.file
    }

    /// Length of the log in bytes, with its header.
    pub fn len(&self) -> u64 {
        self.frames.len()
    }

    /// Whether nothing was appended.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Bytes of the log that are durable.
    pub fn synced_len(&self) -> u64 {
        self.frames.synced_len()
    }
}

/// What is known of a log's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// Nothing: a crash may have torn it, or left no more of the log than its name.
    Open,
    /// An earlier recovery found it here ([`Replayed::end`]); what follows does not count, damage
    /// before it is an error.
    CutAt(u64),
}

/// What [`replay`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Records handed over.
    pub frames: u64,
    /// Where the last whole frame ends: what to record for [`Tail::CutAt`], if all of it is
    /// durable.
    pub end: u64,
    /// How much of it is known to be durable; the end of a record. What follows was read, but
    /// perhaps from the system's memory alone.
    pub durable: u64,
    /// Whether the log ends there, or goes on with what does not count: then a later log is of no
    /// use.
    pub ended: bool,
    /// Whether it says that all logs before it are durable.
    pub vouches: bool,
    /// What a crash left torn after it, if anything.
    pub cut: Option<Cut>,
}

impl Replayed {
    /// A log that was begun, at most.
    fn nothing(cut: Option<Cut>) -> Self {
        Replayed { frames: 0, end: 0, durable: 0, ended: false, vouches: false, cut }
    }
}

/// Reads the logs of a database, oldest first, and says which of them count: those up to the first
/// that a crash left without its end.
pub struct Replay<'f> {
    fs: &'f dyn Fs,
    dir: &'f Path,
    database: DatabaseId,
    /// The log that was left without its end, and where it stops.
    torn: Option<(PathBuf, u64)>,
}

impl<'f> Replay<'f> {
    /// Before the oldest log of `database` in `dir`.
    pub fn new(fs: &'f dyn Fs, dir: &'f Path, database: DatabaseId) -> Self {
        Replay { fs, dir, database, torn: None }
    }

    /// Hands every record of the next log to `each`, as [`replay`]; none, and `None`, if it does
    /// not count.
    ///
    /// Fails with [`Error::Corrupt`] as that does, and where this log says that a log before it,
    /// which has lost its end, was durable with it.
    pub fn next(
        &mut self,
        file: FileId,
        tail: Tail,
        each: impl FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<Option<Replayed>> {
        let Replay { fs, dir, database, torn } = self;
        let Some((path, end)) = torn else {
            let replayed = replay(*fs, dir, *database, file, tail, each)?;
            if !replayed.ended {
                self.torn = Some((FileName::Log(file).in_dir(dir), replayed.end));
            }
            return Ok(Some(replayed));
        };
        if replay(*fs, dir, *database, file, tail, |_, _| Ok(()))?.vouches {
            let what = format!(
                "the end of the log is missing; it was durable when {} was written",
                FileName::Log(file)
            );
            return Err(Error::corrupt(&*path, *end, what));
        }
        Ok(None)
    }
}

/// Whether nothing was written to the log at `path` yet: behind the place of its header there is
/// nothing but what was reserved. Stops reading at the first byte that says otherwise, so that any
/// file can be asked.
pub fn is_unwritten(fs: &dyn Fs, path: &Path) -> Result<bool> {
    is_reserved_only(&*fs.open(path)?)
}

fn is_reserved_only(file: &dyn ReadFile) -> Result<bool> {
    let (mut at, mut bytes) = (FILE_HEADER_BYTES as u64, [0; 4096]);
    loop {
        match file.read_at(&mut bytes, at)? {
            0 => return Ok(true),
            read if bytes[..read].iter().any(|&byte| byte != 0) => return Ok(false),
            read => at += read as u64,
        }
    }
}

/// The database that the log at `path` belongs to, from its header.
pub fn database_of(fs: &dyn Fs, path: &Path) -> Result<DatabaseId> {
    let log = fs.open(path)?;
    let mut header = vec![0; log.len()?.min(FILE_HEADER_BYTES as u64) as usize];
    read_exact_at(&*log, &mut header, 0)?;
    Ok(FILE_KIND.identify(path, &header)?.database)
}

/// Hands every record of a log to `each`, oldest first, with its offset. Reads only.
///
/// Fails with [`Error::Corrupt`] where the log does not hold what was durably written; see
/// [`crate::frame`] for how that is told from a torn end.
pub fn replay(
    fs: &dyn Fs,
    dir: &Path,
    database: DatabaseId,
    file: FileId,
    tail: Tail,
    each: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<Replayed> {
    let path = FileName::Log(file).in_dir(dir);
    let log = fs.open(&path)?;
    let len = log.len()?;
    let end = match tail {
        Tail::CutAt(end) if end > len => {
            return Err(Error::corrupt(&path, len, format!("the file ends here, {} bytes short", end - len)));
        }
        Tail::CutAt(end) => end,
        Tail::Open => len,
    };
    if tail == Tail::CutAt(0) {
        return Ok(Replayed { ended: true, ..Replayed::nothing(None) });
    }
    let mut header = vec![0; len.min(FILE_HEADER_BYTES as u64) as usize];
    read_exact_at(&*log, &mut header, 0)?;
    // The header is synced before anything follows it, so only a log of nothing else can lack it,
    // and what was reserved for it may be there first; and one that was never finished must not
    // hide one that is another file's.
    let lacks_header = !header.first_chunk().is_some_and(is_whole);
    if lacks_header && tail == Tail::Open && is_reserved_only(&*log)? {
        let cut = header.iter().any(|&byte| byte != 0).then_some(Cut { offset: 0, bytes: len });
        return Ok(Replayed::nothing(cut));
    }
    let binding = FILE_KIND.check(&path, &header, database, file)?;
    let begin = FILE_HEADER_BYTES as u64;
    let proven = if tail == Tail::Open { begin } else { end };
    let Walked { frames, end, ended, durable, vouches, cut } =
        walk(&*log, binding, begin..end, proven, each)?;
    Ok(match tail {
        Tail::Open => Replayed { frames, end, durable, ended: ended && cut.is_none(), vouches, cut },
        Tail::CutAt(_) => Replayed { frames, end, durable: end, ended: true, vouches, cut },
    })
}

#[cfg(test)]
mod tests;

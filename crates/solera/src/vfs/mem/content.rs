//! One file's bytes in memory, and which of them a power cut cannot take: `Content`.
//!
//! `append`, `truncate`, `reserve` and `trim` change what a program sees; `sync` makes it durable.
//! `after_crash` makes what a power cut leaves: the durable bytes and, by the way of losing
//! (`Persist`), pages of the rest. Bytes lie in chunks of 64 KiB that images share until one is
//! written.
//!
//! What must hold: the durable content is `bytes[..synced]`, then `durable_tail`, then zeros up to
//! `durable_reserved`. The tail is empty unless synced bytes were cut off since. So a sync costs
//! nothing and copies nothing.
//!
//! Caller: `vfs::mem`, which has one for each file.

use super::{Persist, Rng};
use std::sync::Arc;

/// Bytes per chunk; every chunk but the last is full. Images share chunks.
const CHUNK_BYTES: usize = 64 << 10;
/// A file that is reserved ahead is whole numbers of these long. As little as a file system may
/// reserve: images are compared, and zeros tell nothing.
const RESERVED_BYTES: u64 = 4096;
/// What a device writes at once.
const SECTOR_BYTES: u64 = 512;

/// A file's content, now and after its last sync.
#[derive(Clone, Default)]
pub(super) struct Content {
    bytes: Chunks,
    synced: u64,
    durable_tail: Vec<u8>,
    /// What was cut off since the last sync, and from where: it may still be found on the disk.
    cut_off: Vec<(u64, Vec<u8>)>,
    /// Where the last append began.
    last_write: u64,
    /// The file's length if that is more than was written: zeros lie behind.
    reserved: u64,
    /// The same at the last sync.
    durable_reserved: u64,
    /// The most that it was since then.
    trimmed: u64,
}

impl Content {
    /// A file that holds `bytes`, synced.
    pub(super) fn durable(bytes: &[u8]) -> Self {
        let mut content = Content::default();
        content.append(bytes);
        content.sync();
        content
    }

    pub(super) fn len(&self) -> u64 {
        self.written().max(self.reserved)
    }

    /// Bytes that were written; the file may be longer.
    fn written(&self) -> u64 {
        self.bytes.len
    }

    /// Reads as much of `buf` as the file has at `offset`.
    pub(super) fn read_at(&self, buf: &mut [u8], offset: u64) -> usize {
        let wanted = (buf.len() as u64).min(self.len().saturating_sub(offset)) as usize;
        let written = self.bytes.read_at(&mut buf[..wanted], offset);
        buf[written..wanted].fill(0);
        wanted
    }

    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.last_write = self.written();
        self.bytes.append(bytes);
    }

    /// Makes the file longer than what was written.
    pub(super) fn reserve(&mut self) {
        self.reserved = self.reserved.max(self.written().next_multiple_of(RESERVED_BYTES));
    }

    /// Makes the file end where what was written ends.
    pub(super) fn trim(&mut self) {
        self.trimmed = self.trimmed.max(self.reserved);
        self.reserved = 0;
    }

    /// Cuts the file to `len` bytes, or extends it with zeros.
    pub(super) fn truncate(&mut self, len: u64) {
        self.trim();
        if len >= self.written() {
            self.append(&vec![0; (len - self.written()) as usize]);
            return;
        }
        let mut cut = vec![0; (self.written() - len) as usize];
        self.read_at(&mut cut, len);
        if len < self.synced {
            self.durable_tail.splice(..0, cut[..(self.synced - len) as usize].iter().copied());
            self.synced = len;
        }
        self.cut_off.push((len, cut));
        self.bytes.truncate(len);
    }

    pub(super) fn sync(&mut self) {
        self.synced = self.written();
        self.durable_tail.clear();
        self.cut_off.clear();
        self.durable_reserved = self.reserved;
        self.trimmed = 0;
    }

    /// What a power cut leaves of the file, durable. `former` is what its blocks may have held
    /// before.
    pub(super) fn after_crash(&self, persist: Persist, former: Option<&Content>, rng: &mut Rng) -> Content {
        let durable_len = self.synced + self.durable_tail.len() as u64;
        let unsynced = self.written() - self.synced;
        let mut bytes = self.bytes.clone();
        let keeps = match persist {
            Persist::Everything | Persist::ContentBeforeNames | Persist::LostName => true,
            Persist::Nothing | Persist::NamesBeforeContent => false,
            Persist::SomeFiles => rng.below(2) == 0,
            Persist::Torn => {
                bytes.truncate(self.synced + rng.below(unsynced + 1));
                true
            }
            Persist::TornLastWrite => {
                let from = self.synced.max(self.last_write).min(self.written());
                bytes.truncate(from + rng.below(self.written() - from + 1));
                true
            }
            Persist::FirstSector => {
                bytes.truncate((self.synced / SECTOR_BYTES + 1) * SECTOR_BYTES);
                true
            }
            Persist::ZeroFilled | Persist::Garbage | Persist::Stale => {
                let mut tail = vec![0; unsynced as usize];
                match (persist, former) {
                    (Persist::Garbage, _) => tail.fill_with(|| rng.next() as u8),
                    (_, Some(former)) => {
                        former.read_at(&mut tail, self.synced);
                    }
                    _ => {}
                }
                bytes.truncate(self.synced);
                bytes.append(&tail);
                true
            }
            Persist::LostTruncation => {
                for (from, cut) in self.cut_off.iter().rev() {
                    let gone = bytes.len.saturating_sub(*from) as usize;
                    bytes.append(cut.get(gone..).unwrap_or_default());
                }
                true
            }
            Persist::RandomPages(page) if durable_len != self.written() || !self.cut_off.is_empty() => {
                bytes.truncate(self.synced);
                bytes.append(&self.random_tail(page as u64, rng));
                true
            }
            Persist::RandomPages(_) => true,
        };
        if !keeps {
            bytes.truncate(self.synced);
            bytes.append(&self.durable_tail);
        }
        let reserved = match persist {
            Persist::LostTruncation => self.reserved.max(self.trimmed),
            Persist::RandomPages(_) if self.durable_reserved != self.reserved && rng.below(2) == 0 => {
                self.durable_reserved
            }
            _ if keeps => self.reserved,
            _ => self.durable_reserved,
        };
        bytes.append(&vec![0; reserved.saturating_sub(bytes.len) as usize]);
        Content { synced: bytes.len, bytes, ..Content::default() }
    }

    /// A tail from `synced` on, of random length, each page from a random past of the file:
    /// durable, present, or cut off meanwhile.
    fn random_tail(&self, page: u64, rng: &mut Rng) -> Vec<u8> {
        let ends = self.cut_off.iter().map(|(from, cut)| from + cut.len() as u64);
        let durable_len = self.synced + self.durable_tail.len() as u64;
        let longest = ends.chain([durable_len, self.written()]).max().unwrap_or(0);
        let len = match rng.below(4) {
            0 => durable_len,
            1 => self.written(),
            _ => self.synced + rng.below(longest - self.synced + 1),
        };
        let mut tail = Vec::with_capacity((len - self.synced) as usize);
        let mut at = self.synced;
        while at < len {
            let end = len.min((at / page + 1) * page);
            let mut bytes = vec![0; (end - at) as usize];
            match rng.below(2 + self.cut_off.len() as u64) as usize {
                0 => copy_overlap(&mut bytes, at, &self.durable_tail, self.synced),
                1 => {
                    self.read_at(&mut bytes, at);
                }
                nth => {
                    let (from, cut) = &self.cut_off[nth - 2];
                    self.read_at(&mut bytes, at);
                    copy_overlap(&mut bytes, at, cut, *from);
                }
            }
            tail.extend_from_slice(&bytes);
            at = end;
        }
        tail
    }
}

/// Copies into `page`, which begins at `page_at` of the file, what `source` at `source_at` has of
/// it.
fn copy_overlap(page: &mut [u8], page_at: u64, source: &[u8], source_at: u64) {
    let start = page_at.max(source_at);
    let end = (page_at + page.len() as u64).min(source_at + source.len() as u64);
    if start < end {
        let part = &source[(start - source_at) as usize..(end - source_at) as usize];
        page[(start - page_at) as usize..(end - page_at) as usize].copy_from_slice(part);
    }
}

/// Bytes in chunks that clones share until they write.
#[derive(Clone, Default)]
struct Chunks {
    chunks: Vec<Arc<Vec<u8>>>,
    len: u64,
}

impl Chunks {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> usize {
        let wanted = (buf.len() as u64).min(self.len.saturating_sub(offset)) as usize;
        let mut done = 0;
        while done < wanted {
            let at = offset + done as u64;
            let chunk = &self.chunks[(at / CHUNK_BYTES as u64) as usize];
            let within = (at % CHUNK_BYTES as u64) as usize;
            let part = (wanted - done).min(chunk.len() - within);
            buf[done..done + part].copy_from_slice(&chunk[within..within + part]);
            done += part;
        }
        wanted
    }

    fn append(&mut self, mut bytes: &[u8]) {
        self.len += bytes.len() as u64;
        while !bytes.is_empty() {
            let room = match self.chunks.last() {
                Some(last) if last.len() < CHUNK_BYTES => CHUNK_BYTES - last.len(),
                _ => {
                    self.chunks.push(Arc::default());
                    CHUNK_BYTES
                }
            };
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            if let Some(last) = self.chunks.last_mut() {
                Arc::make_mut(last).extend_from_slice(now);
            }
            bytes = later;
        }
    }

    /// Cuts to at most `len` bytes.
    fn truncate(&mut self, len: u64) {
        if len >= self.len {
            return;
        }
        self.len = len;
        self.chunks.truncate(len.div_ceil(CHUNK_BYTES as u64) as usize);
        if let Some(last) = self.chunks.last_mut() {
            let within = (len - 1) % CHUNK_BYTES as u64 + 1;
            Arc::make_mut(last).truncate(within as usize);
        }
    }
}

//! Reading frames back, and telling a torn end from damage: `walk`, with `Walked` and `Cut`.
//!
//! `walk` hands each whole record to the caller, in order. Where a frame is not whole, it looks at
//! every later offset for a witness. That is a frame that was written when the file was durable
//! beyond that place.
//!
//! What must hold: damage before what the caller has proof of, or before what a witness proves, is
//! an error. Any other damage cuts the file there. Zeros up to the end of the file are no damage,
//! unless the caller has proof of them.
//!
//! Callers: `wal` (replay), `version::manifest` (load), `trace::reader`.

use super::{FRAME_HEADER_BYTES, FrameHeader, FrameKind};
use crate::{
    codec::Binding,
    error::{Error, Result},
    vfs::{ReadFile, read_exact_at},
};
use std::ops::Range;

/// Bytes read from the file at once, unless a frame is longer.
const READ_BYTES: usize = 256 << 10;

/// An end of a file that a power cut left torn and that does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Where it begins.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
}

/// What [`walk`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walked {
    /// Records read; marks and the end are not counted.
    pub frames: u64,
    /// Where the last whole frame ends.
    pub end: u64,
    /// Whether the last frame is the end frame.
    pub ended: bool,
    /// How much of the file was durable when one of the frames was written; the end of a frame.
    pub durable: u64,
    /// Whether a frame says that the files before this one were durable when it was written.
    pub vouches: bool,
    /// What follows `end`, if anything but zeros does.
    pub cut: Option<Cut>,
}

/// Hands every record that begins in `span`, with its offset, to `each`, in order; an error of
/// `each` ends the walk. The file is taken to end where `span` does.
///
/// Damage is an error where it lies before `proven` and where a later frame proves that it was
/// durable; elsewhere the file is cut at it.
pub fn walk(
    file: &dyn ReadFile,
    binding: Binding,
    span: Range<u64>,
    proven: u64,
    mut each: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<Walked> {
    let mut window = Window { file, bytes: Vec::new(), at: span.start, end: span.end };
    let (end, durable) = (span.start, span.start);
    let mut walked = Walked { frames: 0, end, ended: false, durable, vouches: false, cut: None };
    while walked.end < span.end {
        let at = walked.end;
        let damage = match frame_at(&mut window, binding, at)? {
            Ok(_) if walked.ended => "there are bytes after the end of the records",
            Ok((header, payload)) => {
                match header.kind {
                    kind if kind == FrameKind::Record as u8 => {
                        each(at, payload)?;
                        walked.frames += 1;
                    }
                    kind if kind == FrameKind::Mark as u8 => {}
                    kind if kind == FrameKind::End as u8 => walked.ended = true,
                    kind => {
                        let what = format!("a record of unknown kind {kind}");
                        return Err(Error::corrupt(file.path(), at, what));
                    }
                }
                walked.end = at + FRAME_HEADER_BYTES as u64 + header.len;
                walked.durable = walked.durable.max(header.synced);
                walked.vouches |= header.synced > 0;
                continue;
            }
            Err(damage) => damage,
        };
        if at < proven {
            return Err(Error::corrupt(file.path(), at, damage));
        }
        if window.is_zero_from(at)? {
            // Reserved and not used.
            break;
        }
        if let Some(witness) = find_witness(&mut window, binding, at)? {
            let what = format!("{damage}; it was durable when the record at byte {witness} was written");
            return Err(Error::corrupt(file.path(), at, what));
        }
        walked.cut = Some(Cut { offset: at, bytes: span.end - at });
        break;
    }
    Ok(walked)
}

/// The frame at `at`, or what is wrong with it.
fn frame_at<'w>(
    window: &'w mut Window<'_>,
    binding: Binding,
    at: u64,
) -> Result<Result<(FrameHeader, &'w [u8]), &'static str>> {
    let left = window.end - at;
    let Some(left) = left.checked_sub(FRAME_HEADER_BYTES as u64) else {
        return Ok(Err("the file ends inside a record's header"));
    };
    let Some(header) = window.header(at, binding)? else {
        return Ok(Err("a record's header fails its checksum"));
    };
    if header.len > left {
        return Ok(Err("the file ends inside a record"));
    }
    let payload = window.get(at + FRAME_HEADER_BYTES as u64, header.len)?;
    if crc32c::crc32c(payload) != header.payload_checksum {
        return Ok(Err("a record fails its checksum"));
    }
    Ok(Ok((header, payload)))
}

/// The offset of a frame after `damage` that was written when more than `damage` was durable.
fn find_witness(window: &mut Window<'_>, binding: Binding, damage: u64) -> Result<Option<u64>> {
    let mut from = damage + 1;
    while from + FRAME_HEADER_BYTES as u64 <= window.end {
        let bytes = window.get(from, (window.end - from).min(READ_BYTES as u64))?;
        for (at, bytes) in (from..).zip(bytes.windows(FRAME_HEADER_BYTES)) {
            let header = bytes.first_chunk().and_then(|bytes| FrameHeader::decode(bytes, binding, at));
            if header.is_some_and(|header| header.synced > damage) {
                return Ok(Some(at));
            }
        }
        // The last few bytes may begin a header that goes on in the next part.
        from += (bytes.len() - FRAME_HEADER_BYTES + 1) as u64;
    }
    Ok(None)
}

/// A part of the file in memory, which mostly moves forward.
struct Window<'f> {
    file: &'f dyn ReadFile,
    bytes: Vec<u8>,
    /// Where in the file `bytes` begin.
    at: u64,
    end: u64,
}

impl Window<'_> {
    /// `len` bytes at `at`, which must be in the file.
    fn get(&mut self, at: u64, len: u64) -> Result<&[u8]> {
        let too_long = |_| Error::corrupt(self.file.path(), at, "a record longer than the address space");
        let len = usize::try_from(len).map_err(too_long)?;
        if at < self.at {
            self.bytes.clear();
            self.at = at;
        }
        let mut skip = usize::try_from(at - self.at).map_err(too_long)?;
        if self.bytes.len() < skip.saturating_add(len) {
            self.bytes.drain(..skip.min(self.bytes.len()));
            (self.at, skip) = (at, 0);
            let held = self.bytes.len();
            let ahead = (self.end - at).min(READ_BYTES as u64) as usize;
            self.bytes.resize(len.max(ahead), 0);
            read_exact_at(self.file, &mut self.bytes[held..], at + held as u64)?;
        }
        Ok(&self.bytes[skip..skip + len])
    }

    /// Whether nothing but zeros follows, `from` on.
    fn is_zero_from(&mut self, mut from: u64) -> Result<bool> {
        while from < self.end {
            let bytes = self.get(from, (self.end - from).min(READ_BYTES as u64))?;
            if bytes.iter().any(|&byte| byte != 0) {
                return Ok(false);
            }
            from += bytes.len() as u64;
        }
        Ok(true)
    }

    fn header(&mut self, at: u64, binding: Binding) -> Result<Option<FrameHeader>> {
        let bytes = self.get(at, FRAME_HEADER_BYTES as u64)?;
        Ok(bytes.first_chunk().and_then(|bytes| FrameHeader::decode(bytes, binding, at)))
    }
}

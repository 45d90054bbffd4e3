//! A payload's geometry, what its footer says, validated against the bytes: `Geometry`, `Footer`,
//! and flags.
//!
//! `Footer::encode` is the only writer of a footer and `Geometry::parse` the only reader. `parse`
//! proves that heads, ends, buckets, records, prefix and note lie inside the payload and do not
//! overlap. It also proves that record ends ascend, and that every stored kind is one.
//!
//! What must hold: everything that `memory` accesses unchecked is proved here. That keys ascend is
//! not (`Block::check`).
//!
//! Callers: `block::build` encodes, `block::memory` parses when bytes become a `Block`,
//! `block::read` and `block::lent_entries` use the flags.

use super::buckets;
use crate::{
    codec::{DecodeError, Decoder},
    ids::Seqno,
    key::{KEY_BYTES_MAX, Kind},
};
use solera_model::Line;

/// Bytes of the footer.
pub(super) const FOOTER_BYTES: usize = 40;
/// Bytes of a head.
pub(super) const HEAD_BYTES: usize = 8;
/// What records are aligned to if their size is a multiple of it: a cache line.
pub(super) const RECORD_ALIGNMENT: usize = 64;
/// More entries than this would make positions of columns too large for 32 bits.
pub(super) const ENTRIES_MAX: usize = 1 << 26;
/// Bytes of the prefix that are kept beside the geometry, so that most lookups need not fetch the
/// rest.
pub(super) const PREFIX_INLINE: usize = 39;

/// Kinds take this many low bits of an entry's meta, if stored.
pub(super) const KIND_BITS: u32 = Kind::BITS;

const FLAG_KINDS: u16 = 1 << 4;
const FLAG_SEQNOS: u16 = 1 << 5;
const FLAG_LINE: u16 = 1 << 6;
const FLAG_CONTINUES: u16 = 1 << 7;
/// The length of the note.
const NOTE_SHIFT: u32 = 8;

/// The line of the footer is used.
pub(super) const LINE: u8 = 1;
/// There was a line in the footer, but not one that can be used.
pub(super) const LINE_IGNORED: u8 = 1 << 1;
/// All keys have the same length and are prefix and head: equal heads are equal keys.
pub(super) const WHOLE: u8 = 1 << 2;
/// Kinds are stored.
pub(super) const KINDS: u8 = 1 << 3;
/// Sequence numbers are stored.
pub(super) const SEQNOS: u8 = 1 << 4;
/// The last key's versions go on in the next block.
pub(super) const CONTINUES: u8 = 1 << 5;
/// There is a hash index.
pub(super) const BUCKETS: u8 = 1 << 6;

/// Where everything lies in a payload. The fields up to `suffix_len` and the bytes after it are
/// what a lookup of a short key needs: together with the pin's header they fill one cache line.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct Geometry {
    pub(super) line: Line,
    /// The first head.
    pub(super) x0: u64,
    /// Entries.
    pub(super) n: u32,
    /// Size of each record, if `ends_width` is 0.
    pub(super) record_bytes: u32,
    /// Position of the records.
    pub(super) records_at: u32,
    /// Measured error of the line; with [`BUCKETS`], which a block with a line has not, how many
    /// there are.
    pub(super) error_or_buckets: u16,
    pub(super) prefix_len: u16,
    /// Length of each key after the prefix, if `length_bytes` is 0.
    pub(super) suffix_len: u16,
    pub(super) flags: u8,
    /// w, l and m of the format.
    pub(super) ends_width: u8,
    pub(super) length_bytes: u8,
    pub(super) meta_bytes: u8,
    // Up to here one line with the pin's header; the rest is rarely needed.
    /// Smallest sequence number.
    pub(super) base: Seqno,
    /// Position of the prefix, which is also where the records end.
    pub(super) prefix_at: usize,
    /// Length of the note, which follows the prefix.
    pub(super) note_len: u8,
    pub(super) prefix: [u8; PREFIX_INLINE],
}

/// Length of the tail of a key that is `suffix_len` long after the prefix.
#[inline]
pub(super) fn tail_len(suffix_len: usize) -> usize {
    suffix_len.saturating_sub(HEAD_BYTES)
}

/// Where the records begin after columns, buckets among them, that take `columns_end` bytes.
/// Buckets lie right before them.
#[inline]
pub(super) fn records_at(columns_end: usize, ends_width: usize, record_bytes: usize) -> usize {
    if ends_width == 0 && record_bytes > 0 && record_bytes.is_multiple_of(RECORD_ALIGNMENT) {
        columns_end.next_multiple_of(RECORD_ALIGNMENT)
    } else {
        columns_end
    }
}

/// A number of `width` bytes, 2, 4 or 8, at the start of `bytes`.
#[inline]
pub(super) fn read_end(bytes: &[u8], width: usize) -> Option<u64> {
    Some(match width {
        2 => u16::from_le_bytes(*bytes.first_chunk()?).into(),
        4 => u32::from_le_bytes(*bytes.first_chunk()?).into(),
        _ => u64::from_le_bytes(*bytes.first_chunk()?),
    })
}

/// What a footer says.
#[derive(Clone, Debug)]
pub(super) struct Footer {
    /// The line's slope and intercept, as written: any bits.
    pub(super) slope: f64,
    pub(super) intercept: f64,
    pub(super) base: Seqno,
    pub(super) meta_bytes: u8,
    pub(super) n: u32,
    pub(super) record_bytes: u32,
    pub(super) error_or_buckets: u16,
    pub(super) prefix_len: u16,
    pub(super) suffix_len: u16,
    pub(super) ends_width: u8,
    pub(super) length_bytes: u8,
    pub(super) kinds: bool,
    pub(super) seqnos: bool,
    pub(super) line: bool,
    pub(super) continues: bool,
    pub(super) note_len: u8,
}

impl Footer {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let width_code = self.ends_width.checked_ilog2().unwrap_or(0) as u16;
        let mut flags =
            width_code | u16::from(self.length_bytes) << 2 | u16::from(self.note_len) << NOTE_SHIFT;
        for (set, flag) in [
            (self.kinds, FLAG_KINDS),
            (self.seqnos, FLAG_SEQNOS),
            (self.line, FLAG_LINE),
            (self.continues, FLAG_CONTINUES),
        ] {
            flags |= if set { flag } else { 0 };
        }
        out.extend_from_slice(&self.slope.to_le_bytes());
        out.extend_from_slice(&self.intercept.to_le_bytes());
        out.extend_from_slice(&(self.base | u64::from(self.meta_bytes) << 56).to_le_bytes());
        out.extend_from_slice(&self.n.to_le_bytes());
        out.extend_from_slice(&self.record_bytes.to_le_bytes());
        for short in [self.error_or_buckets, self.prefix_len, self.suffix_len, flags] {
            out.extend_from_slice(&short.to_le_bytes());
        }
    }

    fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let at = payload.len().checked_sub(FOOTER_BYTES);
        let at = at.ok_or(DecodeError { at: 0, what: "a block of at least 40 bytes" })?;
        let mut decoder = Decoder::new(&payload[at..]);
        let what = "a block's footer";
        let (slope, intercept, base) = (decoder.f64(what)?, decoder.f64(what)?, decoder.u64(what)?);
        let (n, record_bytes) = (decoder.u32(what)?, decoder.u32(what)?);
        let (error_or_buckets, prefix_len, suffix_len) =
            (decoder.u16(what)?, decoder.u16(what)?, decoder.u16(what)?);
        let flags = decoder.u16(what)?;
        decoder.finish(what)?;
        let refused = |at_footer, what| Err(DecodeError { at: at + at_footer, what });
        if flags >> 2 & 3 == 3 {
            return refused(38, "block flags that are known");
        }
        if base >> 56 > 8 {
            return refused(23, "at most 8 bytes of meta per entry");
        }
        if n == 0 || n as usize > ENTRIES_MAX {
            return refused(24, "a possible number of entries in a block");
        }
        Ok(Footer {
            slope,
            intercept,
            base: base & u64::MAX >> 8,
            meta_bytes: (base >> 56) as u8,
            n,
            record_bytes,
            error_or_buckets,
            prefix_len,
            suffix_len,
            ends_width: [0, 2, 4, 8][usize::from(flags & 3)],
            length_bytes: (flags >> 2 & 3) as u8,
            kinds: flags & FLAG_KINDS != 0,
            seqnos: flags & FLAG_SEQNOS != 0,
            line: flags & FLAG_LINE != 0,
            continues: flags & FLAG_CONTINUES != 0,
            note_len: (flags >> NOTE_SHIFT) as u8,
        })
    }
}

impl Geometry {
    /// Reads the footer of `payload` and proves that
    ///
    /// * the heads, the ends, the buckets, the records, the prefix and the note lie inside the
    ///   payload, in this order, the buckets right before the records, and 40 bytes of footer
    ///   follow them;
    /// * record ends ascend and the last one is where the records end;
    /// * every record is long enough for its length, its meta and its tail;
    /// * every stored kind is one;
    /// * no key is longer than [`KEY_BYTES_MAX`].
    pub(super) fn parse(payload: &[u8]) -> Result<Geometry, DecodeError> {
        let footer = Footer::decode(payload)?;
        let fail = |at: usize, what| Err(DecodeError { at, what });
        let footer_at = payload.len() - FOOTER_BYTES;
        let n = footer.n as usize;
        let ends_width = usize::from(footer.ends_width);
        let record_bytes = footer.record_bytes as usize;
        // n is at most 2^26: none of these overflows.
        let ends_at = n * HEAD_BYTES;
        let ends_end = ends_at + n * ends_width;
        let buckets = if footer.line { 0 } else { footer.error_or_buckets };
        // More would be a longer search for nothing.
        if buckets > 0 && usize::from(buckets) != buckets::count(n) {
            return fail(footer_at + 32, "as many buckets as there are for so many entries");
        }
        let records_at = records_at(ends_end + usize::from(buckets), ends_width, record_bytes);
        let behind_records = usize::from(footer.prefix_len) + usize::from(footer.note_len);
        let Some(prefix_at) =
            footer_at.checked_sub(behind_records).filter(|&prefix_at| prefix_at >= records_at)
        else {
            return fail(footer_at + 24, "a block as long as its columns");
        };
        let records = &payload[records_at..prefix_at];
        let keys_max = KEY_BYTES_MAX - usize::from(footer.prefix_len);
        let (length_bytes, meta_bytes) = (usize::from(footer.length_bytes), usize::from(footer.meta_bytes));
        let fixed = length_bytes + meta_bytes;

        let holds_record = |record: &[u8]| {
            let suffix_len = match length_bytes {
                0 => usize::from(footer.suffix_len),
                1 => record.first().copied().unwrap_or_default().into(),
                _ => record.first_chunk().map_or(0, |length| u16::from_le_bytes(*length)).into(),
            };
            record.len() >= fixed + tail_len(suffix_len) && suffix_len <= keys_max
        };
        if footer.kinds && meta_bytes == 0 {
            return fail(footer_at + 23, "room for the kinds that are stored");
        }
        // Asked of a record that is long enough: the low byte of its meta has the kind.
        let has_kind = |record: &[u8]| {
            !footer.kinds || Kind::from_u8(record[length_bytes] & ((1 << KIND_BITS) - 1)).is_some()
        };
        if ends_width == 0 {
            if record_bytes as u64 * n as u64 != records.len() as u64 {
                return fail(records_at, "records of the stated size");
            }
            let equal = length_bytes == 0 || record_bytes == 0;
            let holds = if equal {
                holds_record(&records[..record_bytes])
            } else {
                records.chunks_exact(record_bytes).all(holds_record)
            };
            if !holds {
                return fail(records_at, "records that hold their keys");
            }
            // Records of no bytes have no kinds.
            if footer.kinds
                && let Some(i) = records.chunks_exact(record_bytes).position(|record| !has_kind(record))
            {
                return fail(records_at + i * record_bytes, "a known kind of entry");
            }
        } else {
            let mut start = 0;
            for ends in payload[ends_at..ends_end].chunks_exact(ends_width) {
                let end = read_end(ends, ends_width).unwrap_or(u64::MAX);
                let record = usize::try_from(end).ok().and_then(|end| records.get(start..end));
                let Some(record) = record.filter(|record| holds_record(record)) else {
                    return fail(records_at + start, "a record that holds its key");
                };
                if !has_kind(record) {
                    return fail(records_at + start, "a known kind of entry");
                }
                start += record.len();
            }
            if start != records.len() {
                return fail(records_at + start, "records up to the prefix");
            }
        }

        let line = Line::new(footer.slope, footer.intercept).ok().filter(|_| footer.line);
        let whole = length_bytes == 0 && usize::from(footer.suffix_len) <= HEAD_BYTES;
        let mut flags = 0;
        for (set, flag) in [
            (line.is_some(), LINE),
            (footer.line && line.is_none(), LINE_IGNORED),
            (whole, WHOLE),
            (footer.kinds, KINDS),
            (footer.seqnos, SEQNOS),
            (footer.continues, CONTINUES),
            (buckets > 0, BUCKETS),
        ] {
            flags |= if set { flag } else { 0 };
        }
        let mut prefix = [0; PREFIX_INLINE];
        let inline = &payload[prefix_at..prefix_at + usize::from(footer.prefix_len)];
        let inline = &inline[..inline.len().min(PREFIX_INLINE)];
        prefix[..inline.len()].copy_from_slice(inline);
        Ok(Geometry {
            line: line.unwrap_or(Line::FLAT),
            x0: read_end(payload, HEAD_BYTES).unwrap_or_default(),
            n: footer.n,
            record_bytes: footer.record_bytes,
            records_at: records_at as u32,
            error_or_buckets: footer.error_or_buckets,
            prefix_len: footer.prefix_len,
            suffix_len: footer.suffix_len,
            flags,
            ends_width: footer.ends_width,
            length_bytes: footer.length_bytes,
            meta_bytes: footer.meta_bytes,
            base: footer.base,
            prefix_at,
            note_len: footer.note_len,
            prefix,
        })
    }
}

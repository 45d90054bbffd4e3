//! One entry of a memtable, and the older versions of its key that hang from it: `Record`.
//!
//! A place in the tree leads to a key's newest version; each version knows the one before it. It
//! also knows one further back, chosen as in a skew-binary random-access list (Myers, "An
//! applicative random-access stack", 1983). So `seen_by` finds a snapshot's version among n in
//! about 3 log2(n) steps.
//!
//! What must hold: versions of a key are written in ascending order of sequence numbers. A record
//! never changes, and lives as long as its arena.
//!
//! Callers: `memtable::tree` writes records, `node` points to them, `memtable::mod` (lookups) and
//! `cursor` walk versions.

use super::arena::{Arena, Bump};
use crate::{
    ids::Seqno,
    key::{Kind, pack_trailer},
};
use std::{marker::PhantomData, ptr::NonNull};

/// How a record begins; its key follows, then its value. Before it lie [`Links`] if it overwrites
/// an older version.
pub(super) struct RecordHeader {
    trailer: u64,
    value_len: u32,
    key_len: u16,
    overwrites: bool,
}

/// The way from a version to older ones of the same key.
#[derive(Clone, Copy)]
struct Links {
    /// The version before.
    older: NonNull<RecordHeader>,
    /// That one or one further back.
    jump: NonNull<RecordHeader>,
    /// How many versions back `jump` is.
    jump_len: usize,
}

/// Alignment of the pieces that records are written to.
pub(super) const RECORD_ALIGN: usize = align_of::<RecordHeader>();
const _: () = assert!(align_of::<Links>() <= RECORD_ALIGN && size_of::<Links>().is_multiple_of(RECORD_ALIGN));

/// One entry in the arena: immutable, and alive for `'a`.
#[derive(Clone, Copy)]
pub(super) struct Record<'a> {
    start: NonNull<RecordHeader>,
    arena: PhantomData<&'a Arena>,
}

impl<'a> Record<'a> {
    /// Writes a record whose value is the concatenation of `value`, and which overwrites `older`,
    /// the newest version of the same key in the same arena.
    #[inline]
    pub(super) fn write(
        bump: &mut Bump,
        key: &[u8],
        seqno: Seqno,
        kind: Kind,
        value: &[&[u8]],
        older: Option<Record<'a>>,
    ) -> Self {
        debug_assert!(bump.align() >= RECORD_ALIGN);
        debug_assert!(
            older.is_none_or(|older| older.key() == key && older.seqno() < seqno),
            "versions of a key come in ascending order"
        );
        let value_len: usize = value.iter().map(|part| part.len()).sum();
        let links_len = if older.is_some() { size_of::<Links>() } else { 0 };
        let piece = bump.take(links_len + size_of::<RecordHeader>() + key.len() + value_len);
        let header = RecordHeader {
            trailer: pack_trailer(seqno, kind),
            value_len: u32::try_from(value_len).expect("a value is under 4 GiB"),
            key_len: u16::try_from(key.len()).expect("a key is under 64 KiB"),
            overwrites: older.is_some(),
        };
        // SAFETY: the piece is aligned for links and header, has room for them, key and value, and
        // no other thread knows it yet.
        unsafe {
            if let Some(older) = older {
                piece.cast::<Links>().write(Links::to(older));
            }
            let start = piece.add(links_len);
            start.cast::<RecordHeader>().write(header);
            let mut to = start.add(size_of::<RecordHeader>());
            for part in [key].iter().chain(value) {
                to.copy_from_nonoverlapping(NonNull::from(*part).cast(), part.len());
                to = to.add(part.len());
            }
            Record::from_raw(start.cast())
        }
    }

    /// The record at `start`.
    ///
    /// # Safety
    /// `start` came from [`Record::into_raw`], the record's arena lives for `'a`, and the writing
    /// of the record happened before.
    #[inline]
    pub(super) unsafe fn from_raw(start: NonNull<RecordHeader>) -> Self {
        Record { start, arena: PhantomData }
    }

    #[inline]
    pub(super) fn into_raw(self) -> NonNull<RecordHeader> {
        self.start
    }

    #[inline]
    fn header(self) -> &'a RecordHeader {
        // SAFETY: a record is written whole before a thread holds a `Record` of it, and never
        // changes.
        unsafe { self.start.as_ref() }
    }

    /// The user key.
    #[inline]
    pub(super) fn key(self) -> &'a [u8] {
        let len = usize::from(self.header().key_len);
        // SAFETY: the key follows the header, inside the same piece.
        unsafe { std::slice::from_raw_parts(self.start.add(1).cast::<u8>().as_ptr(), len) }
    }

    /// The stored value.
    #[inline]
    pub(super) fn value(self) -> &'a [u8] {
        let RecordHeader { key_len, value_len, .. } = *self.header();
        // SAFETY: the value follows the key, inside the same piece.
        unsafe {
            let start = self.start.add(1).cast::<u8>().add(usize::from(key_len));
            std::slice::from_raw_parts(start.as_ptr(), value_len as usize)
        }
    }

    #[inline]
    pub(super) fn seqno(self) -> Seqno {
        self.header().trailer >> 8
    }

    #[inline]
    pub(super) fn kind(self) -> Kind {
        Kind::from_u8(self.header().trailer as u8).expect("the writer packed a kind")
    }

    #[inline]
    fn links(self) -> Option<Links> {
        // SAFETY: a record that overwrites has its links right before it, in the same piece.
        self.header().overwrites.then(|| unsafe { self.start.cast::<Links>().sub(1).read() })
    }

    /// The record at a link of this one.
    #[inline]
    fn at(self, link: NonNull<RecordHeader>) -> Self {
        // SAFETY: links lead to records of the same arena that were written before.
        unsafe { Record::from_raw(link) }
    }

    /// The version before this one.
    #[inline]
    pub(super) fn older(self) -> Option<Self> {
        self.links().map(|links| self.at(links.older))
    }

    /// The first version of all.
    #[inline]
    pub(super) fn oldest(mut self) -> Self {
        while let Some(links) = self.links() {
            self = self.at(links.jump);
        }
        self
    }

    /// The newest version from this one back that `snapshot` sees.
    #[inline]
    pub(super) fn seen_by(self, snapshot: Seqno) -> Option<Self> {
        if self.seqno() <= snapshot {
            return Some(self);
        }
        self.last_newer_than(snapshot).older()
    }

    /// The oldest version from this one back that is newer than `seqno`, as this one is.
    pub(super) fn last_newer_than(mut self, seqno: Seqno) -> Self {
        debug_assert!(self.seqno() > seqno);
        while let Some(links) = self.links() {
            let (older, jump) = (self.at(links.older), self.at(links.jump));
            if jump.seqno() > seqno {
                self = jump;
            } else if older.seqno() > seqno {
                self = older;
            } else {
                break;
            }
        }
        self
    }
}

impl Links {
    /// The links of a version that comes after `older`.
    fn to(older: Record<'_>) -> Self {
        let [first, second] = [Some(older), older.links().map(|links| older.at(links.jump))]
            .map(|record| record.and_then(Record::links));
        match (first, second) {
            // Two jumps of one length become one over both.
            (Some(first), Some(second)) if first.jump_len == second.jump_len => Links {
                older: older.start,
                jump: second.jump,
                jump_len: first.jump_len + second.jump_len + 1,
            },
            _ => Links { older: older.start, jump: older.start, jump_len: 1 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_is_near_every_newer_one() {
        let arena = Arena::pinned(&std::sync::Arc::default());
        // SAFETY: the pin comes from `Arena::pinned`.
        let mut bump = unsafe { Bump::new(arena.clone(), RECORD_ALIGN, 256) };
        let count: u64 = if cfg!(miri) { 40 } else { 3000 };
        // Only even numbers, so that there is something between two versions.
        let mut newest: Option<Record<'_>> = None;
        for seqno in (2..=2 * count).step_by(2) {
            newest =
                Some(Record::write(&mut bump, b"key", seqno, Kind::Put, &[&seqno.to_le_bytes()], newest));
        }
        let newest = newest.unwrap();
        assert_eq!(newest.oldest().seqno(), 2);
        assert!(newest.oldest().older().is_none() && newest.seen_by(1).is_none());
        for snapshot in 2..=2 * count + 1 {
            let seen = newest.seen_by(snapshot).unwrap();
            assert_eq!((seen.seqno(), seen.value()), (snapshot & !1, &(snapshot & !1).to_le_bytes()[..]));
            if let Some(older) = seen.older() {
                assert_eq!(newest.last_newer_than(older.seqno()).seqno(), seen.seqno());
            }
            let (mut at, mut steps) = (newest, 0);
            while at.seqno() > snapshot + 2 {
                let links = at.links().unwrap();
                let jump = at.at(links.jump);
                at = if jump.seqno() > snapshot { jump } else { at.at(links.older) };
                steps += 1;
            }
            assert!(steps <= 3 * count.ilog2() + 3, "{steps} steps to {snapshot}");
        }
    }
}

//! What a reader sees: `judge`, the one place that decides what an entry says of its key; `Reader`,
//! `Verdict`, `hides`.
//! For one key, newest entry first:
//! - A reader passes over entries that are newer than its snapshot.
//! - The first entry that it sees decides. A put is the value, an expiring put until its moment. A
//!   delete, an expired put, and a range tombstone over the entry mean absence.
//! - An operand is put aside, and the next older entry is asked for the base (`Reader::fold`).
//!
//! What must hold: no other code decides this, but walks take puts that a table lends as they lie.
//! Every kind has its verdict, without a catch-all.
//! Callers: `tree` (lookups, and readers for walks), `merge::visible` (walks), `db` (transactions,
//! operands, errors), `compaction::{retain, job}`.

use crate::{
    error::{Error, Result},
    ids::Seqno,
    key::{EXPIRY_BYTES, Kind, split_expiry},
    operator::MergeOperator,
    pin::Slice,
    values::ValueFiles,
};
use std::sync::Arc;

/// Under which circumstances entries are read.
#[derive(Clone, Debug)]
pub struct Reader {
    /// Entries and range tombstones newer than this are not seen.
    pub snapshot: Seqno,
    /// Entries that expire at or before this moment are absent, in Unix milliseconds.
    pub now_ms: u64,
    /// What merge operands mean; `None`: there may be none.
    pub operator: Option<Arc<dyn MergeOperator>>,
    /// Where separated values come from; `None`: there may be none.
    pub values: Option<Arc<ValueFiles>>,
}

/// What an entry says of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The key has a value: the stored bytes behind so many.
    Value(usize),
    /// The key is absent, whatever older entries say.
    Absent,
    /// The stored bytes are an operand; older entries say onto what it is merged.
    Operand,
    /// The key has a value, which lies elsewhere: the stored bytes behind so many are a pointer to
    /// it.
    Separated(usize),
    /// The stored bytes are too short to hold the moment of their expiry.
    Malformed,
}

/// Whether a range tombstone over an entry's key hides the entry. A tombstone of a newer source
/// hides all that older ones hold; one of the entry's own source hides what is older than itself.
#[inline]
pub fn hides(tombstone: Seqno, of_newer_source: bool, entry: Seqno) -> bool {
    of_newer_source || tombstone > entry
}

/// What an entry that the reader sees says of its key. `is_hidden` is whether a range tombstone
/// that the reader sees [hides] it. The stored bytes and the time are asked for only if the entry
/// expires.
#[inline]
pub fn judge<'s>(
    kind: Kind,
    stored: impl FnOnce() -> &'s [u8],
    is_hidden: bool,
    now_ms: impl FnOnce() -> u64,
) -> Verdict {
    if is_hidden {
        return Verdict::Absent;
    }
    match kind {
        Kind::Put => Verdict::Value(0),
        Kind::Delete => Verdict::Absent,
        Kind::Merge => Verdict::Operand,
        Kind::PutSeparated => Verdict::Separated(0),
        Kind::PutExpiring | Kind::PutExpiringSeparated => judge_expiring(kind, stored(), now_ms()),
    }
}

/// [`judge`], of what expires: not in line, so that lookups of all else stay small.
#[inline(never)]
fn judge_expiring(kind: Kind, stored: &[u8], now_ms: u64) -> Verdict {
    match split_expiry(stored) {
        None => Verdict::Malformed,
        Some((moment, _)) if moment <= now_ms => Verdict::Absent,
        Some(_) if kind.is_separated() => Verdict::Separated(EXPIRY_BYTES),
        Some(_) => Verdict::Value(EXPIRY_BYTES),
    }
}

/// The moment from which an entry is absent, in Unix milliseconds; `None` if it does not expire.
#[inline]
pub fn expires_ms(kind: Kind, stored: &[u8]) -> Option<u64> {
    if kind.expires() { split_expiry(stored).map(|(moment, _)| moment) } else { None }
}

impl Reader {
    /// As [`judge`], at this reader's moment.
    #[inline]
    pub fn judge<'s>(&self, kind: Kind, stored: impl FnOnce() -> &'s [u8], is_hidden: bool) -> Verdict {
        judge(kind, stored, is_hidden, || self.now_ms)
    }

    /// The value to which the pointer that an entry of `key` stores leads.
    ///
    /// # Errors
    /// As [`ValueFiles::read_stored`]; [`Error::Invalid`] if this reader knows of no value files.
    pub fn value_apart(&self, pointer: &[u8], key: &[u8]) -> Result<Slice> {
        match &self.values {
            Some(values) => values.read_stored(pointer, key),
            None => Err(Error::Invalid(format!(
                "the value of the key \"{}\" is kept apart, and there are no value files to read it from",
                key.escape_ascii()
            ))),
        }
    }

    /// The value of `key` after its operands, newest first as a reader meets them, are merged onto
    /// `base` (`None`: absent).
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no operator, [`Error::Merge`] if the operator refuses.
    pub fn fold(&self, key: &[u8], base: Option<&[u8]>, operands_newest_first: &[Slice]) -> Result<Vec<u8>> {
        let Some(operator) = &self.operator else {
            let key = key.escape_ascii();
            return Err(Error::Invalid(format!(
                "the key \"{key}\" has merge operands, but its keyspace was opened without a merge operator; open it with the one that wrote them"
            )));
        };
        let oldest_first: Vec<&[u8]> = operands_newest_first.iter().rev().map(Slice::as_bytes).collect();
        operator
            .merge(key, base, &oldest_first)
            .map_err(|what| Error::Merge { operator: operator.name().to_owned(), what })
    }
}

/// The error for a [`Verdict::Malformed`] entry of `key`.
pub fn malformed(key: &[u8]) -> Error {
    Error::Invalid(format!(
        "the expiring entry of the key \"{}\" is shorter than its moment: its table was damaged before it was sealed",
        key.escape_ascii()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stored bytes of an entry of this kind that expires at 100, if it does.
    fn stored(kind: Kind) -> Vec<u8> {
        let moment: &[u8] = if kind.expires() { &100u64.to_be_bytes() } else { &[] };
        [moment, b"rest"].concat()
    }

    #[test]
    fn every_kind_means_what_its_verb_and_flags_say() {
        for kind in Kind::ALL {
            let stored = stored(kind);
            for (now, expired) in [(99, false), (100, kind.expires()), (101, kind.expires())] {
                let verdict = judge(kind, || &stored, false, || now);
                let skipped = stored.len() - b"rest".len();
                let expected = match kind.verb() {
                    crate::key::Verb::Delete => Verdict::Absent,
                    crate::key::Verb::Merge => Verdict::Operand,
                    crate::key::Verb::Put if expired => Verdict::Absent,
                    crate::key::Verb::Put if kind.is_separated() => Verdict::Separated(skipped),
                    crate::key::Verb::Put => Verdict::Value(skipped),
                };
                assert_eq!(verdict, expected, "{kind:?} at {now}");
            }
            assert_eq!(judge(kind, || &stored, true, || 0), Verdict::Absent, "{kind:?} is hidden");
        }
    }

    #[test]
    fn only_what_expires_asks_for_the_time_and_a_moment_that_is_not_there_is_said() {
        for kind in Kind::ALL {
            let mut asked = false;
            let stored = stored(kind);
            let verdict = judge(
                kind,
                || &stored,
                false,
                || {
                    asked = true;
                    0
                },
            );
            assert_eq!(asked, kind.expires(), "{kind:?}");
            assert_ne!(verdict, Verdict::Malformed);
            let short = judge(kind, || b"short", false, || 0);
            assert_eq!(short == Verdict::Malformed, kind.expires(), "{kind:?}");
        }
    }

    #[test]
    fn a_tombstone_hides_what_is_older_in_its_source_and_all_of_older_sources() {
        assert!(hides(5, false, 4) && !hides(5, false, 5) && !hides(5, false, 6));
        assert!(hides(5, true, 9), "numbers of older sources may be higher where they were elided here");
    }
}

//! How far walks have lately gone where reads of values took long: `Lengths`.
//!
//! A walk that needs values from many files has the device begin with what it will come to
//! (`db::scout`). A look too short costs another read of each file, and a look too long is read in
//! vain. Walks of one keyspace are often alike, so the lengths of the last 32 tell how far to look.
//!
//! What must hold: neither `note` nor `onward` waits. Lengths are a guess: a walk goes on where
//! they said that it would end.
//!
//! Callers: `db::iterator` notes a length when a walk ends, and `db::scout` asks.

use crate::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;

/// So many lengths are remembered: those of the walks that ended last.
const REMEMBERED: usize = 32;
/// Fewer say nothing.
const REMEMBERED_MIN: usize = 4;
/// Of what is looked at, at most one part in so many is in vain, if walks go on as they did.
const VAIN_PARTS: u64 = 4;

/// Lengths of walks, in entries.
#[derive(Debug, Default)]
pub struct Lengths {
    /// Of the walks that ended last; 0: none yet. Made for the first one: of ten thousand keyspaces
    /// most have none.
    last: OnceLock<Box<[AtomicU32; REMEMBERED]>>,
    next: AtomicU32,
}

/// How far a walk will go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Onward {
    /// Too little is known, or no walk has gone so far.
    Unknown,
    /// It is worth it to look at so many entries more; none: it most likely ends before.
    Entries(usize),
}

impl Lengths {
    /// A walk has ended after so many entries.
    pub fn note(&self, entries: usize) {
        let at = self.next.fetch_add(1, Ordering::Relaxed) as usize % REMEMBERED;
        if self.last.get().is_none() {
            // Made before the cell is set: inside the cell no thread may wait for another.
            let made = Box::new([const { AtomicU32::new(0) }; REMEMBERED]);
            let _ = self.last.set(made);
        }
        if let Some(last) = self.last.get() {
            last[at].store(u32::try_from(entries).unwrap_or(u32::MAX).max(1), Ordering::Relaxed);
        }
    }

    /// How much further to look for a walk that has come to so many entries and was looked ahead of
    /// by `ahead` more: as far as a remembered walk went, if of all that is looked at in that way
    /// little is in vain.
    pub fn onward(&self, walked: usize, ahead: usize) -> Onward {
        let mut ends = [0u64; REMEMBERED];
        let (mut known, mut count) = (0, 0);
        for length in self.last.get().into_iter().flat_map(|last| last.iter()) {
            let length = length.load(Ordering::Relaxed) as usize;
            known += usize::from(length > 0);
            // One that ended just here is one that this walk may be like.
            if length > 0 && length >= walked {
                // From where the look would begin.
                ends[count] = length.saturating_sub(walked + ahead) as u64;
                count += 1;
            }
        }
        if known < REMEMBERED_MIN || count == 0 {
            return Onward::Unknown;
        }
        let ends = &mut ends[..count];
        ends.sort_unstable();
        // All that walks use of a look up to each end, from the longest look on.
        let mut used: u64 = ends.iter().sum();
        for nth in (0..count).rev() {
            let (end, looked) = (ends[nth], ends[nth] * count as u64);
            if looked - used <= looked / VAIN_PARTS {
                return Onward::Entries(end as usize);
            }
            let shorter = nth.checked_sub(1).map_or(0, |before| ends[before]);
            used -= (end - shorter) * (count - nth) as u64;
        }
        Onward::Entries(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(lengths: &[usize]) -> Lengths {
        let all = Lengths::default();
        lengths.iter().for_each(|&length| all.note(length));
        all
    }

    #[test]
    fn walks_that_are_alike_tell_where_the_next_one_ends() {
        assert_eq!(after(&[]).onward(0, 0), Onward::Unknown);
        assert_eq!(after(&[500; 3]).onward(0, 0), Onward::Unknown, "three are too few");
        let alike = after(&[500; 4]);
        assert_eq!(alike.onward(0, 0), Onward::Entries(500));
        assert_eq!(alike.onward(3, 0), Onward::Entries(497));
        assert_eq!(alike.onward(3, 400), Onward::Entries(97));
        assert_eq!(alike.onward(3, 497), Onward::Entries(0), "it has looked at all that will come");
        assert_eq!(alike.onward(500, 0), Onward::Entries(0), "it most likely ends here");
        assert_eq!(alike.onward(501, 0), Onward::Unknown, "no walk has gone so far");
    }

    #[test]
    fn at_most_a_quarter_of_what_is_looked_at_is_in_vain() {
        let mut mixed = [500; 32];
        mixed[7] = 1_000_000;
        assert_eq!(after(&mixed).onward(0, 0), Onward::Entries(500), "one long walk does not count");
        assert_eq!(after(&mixed).onward(501, 0), Onward::Entries(999_499), "but where it went on");
        let halves: Vec<usize> = (0..32).map(|nth| if nth % 2 == 0 { 10 } else { 500 }).collect();
        assert_eq!(after(&halves).onward(0, 0), Onward::Entries(10));
        assert_eq!(after(&halves).onward(11, 0), Onward::Entries(489));
        for seed in 0..200u64 {
            let length =
                |nth: u64| 1 + (seed * 7919 + nth * nth * 104_729) as usize % (1 + 50 * nth as usize);
            let lengths: Vec<usize> = (0..32).map(length).collect();
            let (walked, ahead) = (seed as usize % 40, seed as usize % 7 * 20);
            let Onward::Entries(further) = after(&lengths).onward(walked, ahead) else { continue };
            let begun = walked + ahead;
            let gone_on: Vec<_> = lengths.iter().filter(|&&length| length >= walked).collect();
            let vain: usize =
                gone_on.iter().map(|&&length| further - further.min(length.saturating_sub(begun))).sum();
            assert!(vain * 4 <= further * gone_on.len(), "{lengths:?} {walked} {ahead}: {further}");
        }
    }

    #[test]
    fn what_walks_do_now_counts_and_not_what_they_did_before() {
        let lengths = after(&[500; 32]);
        (0..24).for_each(|_| lengths.note(20));
        assert_eq!(lengths.onward(0, 0), Onward::Entries(20));
        (0..8).for_each(|_| lengths.note(20));
        assert_eq!(lengths.onward(21, 0), Onward::Unknown, "the old ones are forgotten");
        lengths.note(usize::MAX);
        assert_eq!(lengths.onward(21, 0), Onward::Entries(u32::MAX as usize - 21));
    }
}

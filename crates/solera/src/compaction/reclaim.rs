//! Whether value files take too much, and in which order they are emptied: pure sums over `Space`s.
//! Owns `Reclaim`, the ways of reclaiming by name, and `Victims`, the files that were chosen.
//!
//! A `Space` is what one file takes and what of it is live. An `Allowance` is what files may take
//! beside live values: the spare percent of all live data, in tables too. `is_over`: they take
//! more. The ways choose differently. `Tier`, the default, goes by `by_worth`: garbage for each
//! live byte, times the square root of the file's age; `convert` picks. `spared_for_files` takes
//! from its spare percent what keys and entries of small values need. `Rewrite` takes one file at a
//! time, `most_wasteful`: the most garbage for each live byte. `LearnedKv` takes all files once
//! they are over, `Off` none.
//!
//! What must hold: a merge that is given victims, for all keys or by range, moves their values that
//! it meets to sorted value files. Values of old files (`is_old`) go apart. Those that cannot be
//! read stay. A file leaves when no pointer leads to it.
//!
//! Callers: `engine::reclaim` (`LearnedKv`, `allowance`), `engine::rewrite`, and
//! `compaction::convert`, for `Tier` and `compact_range`; `moves` asks `Victims` which values
//! leave. `engine::options`, `solera-bench` and `solera-sim` choose a `Reclaim`.

use crate::{ids::FileId, key::KeyRange};
use std::{collections::BTreeSet, fmt, sync::Arc};

/// How the space of values that no reader needs is given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reclaim {
    /// Key range by key range: the live values of a range leave their files and are written in the
    /// order of their keys. Ranges are chosen by garbage, age and reads.
    #[default]
    Tier,
    /// File by file: live values are written to the log again, as RocksDB and Titan do. A
    /// transaction that has read such a key conflicts with that, though its value is the same.
    Rewrite,
    /// All value files and whole keyspaces at once, as LearnedKV does (LearnedKV §4.2).
    LearnedKv,
    /// Not at all.
    Off,
}

impl Reclaim {
    /// Every way.
    pub const ALL: [Reclaim; 4] = [Reclaim::Tier, Reclaim::Rewrite, Reclaim::LearnedKv, Reclaim::Off];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Reclaim::Tier => "tier",
            Reclaim::Rewrite => "rewrite",
            Reclaim::LearnedKv => "learnedkv",
            Reclaim::Off => "off",
        }
    }
}

/// Of the live data, at most one part in so many is moved at a time.
pub(super) const LIVE_PARTS: u64 = 8;

/// What a separated value takes beside itself, in bytes, about: key and sum in its sorted value
/// file, and the entry in a table that points to it. Keys of eight bytes.
const BESIDE_BYTES: u64 = 40;
/// Data in tables counts up to so many times the values that its keyspace keeps apart: one value
/// more or less is not to change much.
const IN_TABLES_MAX: u64 = 16;
/// So much is taken for granted: one part in so many of the live bytes.
const BESIDE_PARTS: u64 = 20;
/// What goes beyond that is taken from what is spared, but no more than one part in so many.
const SPARE_PARTS: u32 = 3;

/// What a value file takes, and what of it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// The file. Recovery does not need it.
    pub file: FileId,
    /// Bytes that it takes, in which it is no better than another file with the same values.
    pub bytes: u64,
    /// Bytes of the values to which pointers lead.
    pub live: u64,
}

impl Space {
    /// Bytes that are given back when the last value has left.
    pub fn garbage(&self) -> u64 {
        self.bytes.saturating_sub(self.live)
    }
}

/// Value files whose values leave them: of all keys, or of a range.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Victims {
    files: Arc<BTreeSet<FileId>>,
    /// Files up to this number are old; none is, if it is 0.
    old: FileId,
    /// Only values of these keys move.
    within: Option<Arc<[Part]>>,
}

/// A part of the range of a conversion.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part {
    /// Begins where the part before it ends.
    pub(super) range: KeyRange,
    /// The files whose values leave it.
    pub(super) files: BTreeSet<FileId>,
}

/// Where a key lies from the keys whose values move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Before,
    Within,
    Behind,
}

impl Victims {
    /// These files.
    pub fn new(files: BTreeSet<FileId>) -> Victims {
        Victims { files: Arc::new(files), ..Victims::default() }
    }

    /// The same files, of which only values of keys in `range` move: a job reads whole tables, and
    /// these may reach far beyond the range that was chosen.
    #[must_use]
    pub fn within(self, range: KeyRange) -> Victims {
        let files = BTreeSet::clone(&self.files);
        Victims { within: Some([Part { range, files }].into()), ..self }
    }

    /// What leaves these parts, of which there is at least one. Files up to `old` are old.
    pub(super) fn of_parts(parts: Vec<Part>, old: FileId) -> Victims {
        let files = parts.iter().flat_map(|part| part.files.iter().copied()).collect();
        Victims { files: Arc::new(files), old, within: Some(parts.into()) }
    }

    /// Where `key` lies from the keys whose values move.
    pub(super) fn side(&self, key: &[u8]) -> Side {
        let ends = self.within.as_deref().and_then(|parts| parts.first().zip(parts.last()));
        let Some((first, last)) = ends else { return Side::Within };
        if *key < *first.range.start {
            Side::Before
        } else if last.range.end.admits(key) {
            Side::Within
        } else {
            Side::Behind
        }
    }

    /// Whether the value of `key` leaves `file`.
    pub(super) fn takes(&self, file: FileId, key: &[u8]) -> bool {
        if !self.files.contains(&file) {
            return false;
        }
        let Some(parts) = self.within.as_deref() else { return true };
        let behind = parts.partition_point(|part| *part.range.start <= *key);
        let part = behind.checked_sub(1).map(|at| &parts[at]);
        part.is_some_and(|part| part.range.end.admits(key) && part.files.contains(&file))
    }

    /// Whether a value that leaves `file` has lived for long, and so will probably go on: such
    /// values get files of their own.
    pub fn is_old(&self, file: FileId) -> bool {
        file <= self.old
    }

    /// Whether values that have lived for long are told from others.
    pub(super) fn tells_old(&self) -> bool {
        self.old > FileId(0)
    }

    /// Whether nothing is moved.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The files.
    pub fn iter(&self) -> impl Iterator<Item = FileId> {
        self.files.iter().copied()
    }
}

impl fmt::Display for Victims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("move values out of")?;
        self.iter().try_for_each(|file| write!(f, " {file}"))
    }
}

/// What value files may take beside the live values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// In percent of all live data.
    pub percent: u32,
    /// Bytes of the live data that lies in tables: keys, and values that are not kept apart.
    pub in_tables: u64,
}

impl Allowance {
    /// Bytes of all live data, of which `live` are values in value files.
    pub(super) fn data(self, live: u64) -> u64 {
        live + self.in_tables
    }

    /// Bytes that value files may take while `live` are live in them.
    pub(super) fn bytes(self, live: u64) -> u64 {
        let (data, percent) = (self.data(live), u64::from(self.percent));
        live + data / 100 * percent + data % 100 * percent / 100
    }
}

/// Bytes of live data in tables of which the largest run has `run_bytes`, and which point to so
/// many `values` of `live` bytes. Entries that only point are left out: what they take stands
/// beside the values.
pub fn in_tables(run_bytes: u64, values: u64, live: u64) -> u64 {
    let most = live.saturating_mul(IN_TABLES_MAX);
    run_bytes.saturating_sub(values.saturating_mul(BESIDE_BYTES)).min(most)
}

/// How much value files may take beside the live bytes, in percent of these, if `spare_percent` are
/// spared for all that `values` with so many `live` bytes take: where values are small, their
/// entries and keys take a part of it.
pub fn spared_for_files(spare_percent: u32, values: u64, live: u64) -> u32 {
    let beyond = (values * BESIDE_BYTES).saturating_sub(live / BESIDE_PARTS);
    let percent = (beyond * 100).checked_div(live).unwrap_or(0);
    spare_percent - u32::try_from(percent).unwrap_or(u32::MAX).min(spare_percent / SPARE_PARTS)
}

/// The files with garbage, those with the most for each live byte first.
pub(super) fn by_waste(files: &[Space]) -> Vec<&Space> {
    let mut wasteful: Vec<&Space> = files.iter().filter(|file| file.garbage() > 0).collect();
    wasteful.sort_by(|a, b| {
        // Cross-multiplied, so that nothing is rounded.
        let of = |x: &Space, y: &Space| u128::from(x.garbage()) * u128::from(y.live.max(1));
        of(b, a).cmp(&of(a, b)).then(a.file.cmp(&b.file))
    });
    wasteful
}

/// The files with garbage, in the order in which a range-wise way empties them: those first that
/// give back the most for each byte that is moved, and an old one before a new one. What has been
/// garbage for long in a file makes up more and more of it, slower and slower; in a new file it
/// grows fast, so it is worth the wait. So garbage for each live byte counts with the square root
/// of the age, in numbers of files.
pub(super) fn by_worth(files: &[Space]) -> Vec<&Space> {
    let newest = files.iter().map(|file| file.file.0).max().unwrap_or(0);
    let worth = |file: &Space| {
        let age = (newest - file.file.0 + 1) as f64;
        file.garbage() as f64 / file.live.max(1) as f64 * age.sqrt()
    };
    let mut best: Vec<&Space> = files.iter().filter(|file| file.garbage() > 0).collect();
    best.sort_by(|a, b| worth(b).total_cmp(&worth(a)).then(a.file.cmp(&b.file)));
    best
}

/// Whether the files take more than the live values and what is allowed besides.
fn is_over(allowance: Allowance, files: &[Space]) -> bool {
    let live = files.iter().map(|file| file.live).sum();
    files.iter().map(|file| file.bytes).sum::<u64>() > allowance.bytes(live)
}

/// The file to empty next if they are emptied one by one; `None` while they take no more than they
/// may.
pub fn most_wasteful(allowance: Allowance, files: &[Space]) -> Option<FileId> {
    by_waste(files).first().filter(|_| is_over(allowance, files)).map(|file| file.file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyEnd;
    use proptest::prelude::*;

    fn space((number, (bytes, live)): (usize, (u64, u64))) -> Space {
        Space { file: FileId(number as u64 + 1), bytes, live: live.min(bytes) }
    }

    fn beside(percent: u32) -> Allowance {
        Allowance { percent, in_tables: 0 }
    }

    proptest! {
        #[test]
        fn files_are_emptied_while_they_take_more_than_is_allowed(
            files in prop::collection::vec((0u64..10_000, 0u64..10_000), 0..40), spare in 0u32..100,
        ) {
            let files: Vec<Space> = files.into_iter().enumerate().map(space).collect();
            let (bytes, live) = files.iter().fold((0, 0), |(b, l), file| (b + file.bytes, l + file.live));
            prop_assert_eq!(is_over(beside(spare), &files), bytes > live + live * u64::from(spare) / 100);
            let wasteful = files.iter().any(|file| file.garbage() > 0);
            prop_assert_eq!(most_wasteful(beside(spare), &files).is_some(), is_over(beside(spare), &files) && wasteful);
        }
    }

    #[test]
    fn of_a_range_only_its_own_keys_move_and_of_all_keys_each_does() {
        let all = Victims::new([FileId(1)].into());
        assert_eq!([&b""[..], b"m", &[255; 9]].map(|key| all.side(key)), [Side::Within; 3]);
        assert!(all.takes(FileId(1), b"m") && !all.takes(FileId(2), b"m"));
        let some = all.clone().within(KeyRange::half_open(b"c", b"f"));
        let sides = [&b"b"[..], b"c", b"ez", b"f", b"g"].map(|key| some.side(key));
        assert_eq!(sides, [Side::Before, Side::Within, Side::Within, Side::Behind, Side::Behind]);
        let taken = [&b"b"[..], b"c", b"ez", b"f", b"g"].map(|key| some.takes(FileId(1), key));
        assert_eq!(taken, [false, true, true, false, false]);
        let last = all.within(KeyRange { start: b"c"[..].into(), end: KeyEnd::Included(b"f"[..].into()) });
        assert_eq!([&b"f"[..], b"f0"].map(|key| last.side(key)), [Side::Within, Side::Behind]);
    }

    #[test]
    fn of_each_part_the_values_of_its_own_files_move() {
        let part = |range: KeyRange, files: &[u64]| Part {
            range,
            files: files.iter().map(|&file| FileId(file)).collect(),
        };
        let parts = vec![
            part(KeyRange::half_open(b"c", b"f"), &[1, 2]),
            part(KeyRange::half_open(b"f", b"h"), &[2, 3]),
        ];
        let victims = Victims::of_parts(parts, FileId(1));
        assert_eq!(victims.iter().collect::<Vec<_>>(), [1, 2, 3].map(FileId));
        let taken = |file| [&b"b"[..], b"c", b"f", b"h"].map(|key| victims.takes(FileId(file), key));
        assert_eq!(taken(1), [false, true, false, false]);
        assert_eq!(taken(2), [false, true, true, false]);
        assert_eq!(taken(3), [false, false, true, false]);
        assert_eq!((victims.side(b"g"), victims.side(b"h")), (Side::Within, Side::Behind));
    }

    #[test]
    fn small_values_take_a_part_of_what_is_spared_for_keys_and_entries() {
        let spared = |len: u64| spared_for_files(30, 1000, 1000 * len);
        assert_eq!([64, 128, 256, 400, 1016, 16_384].map(spared), [20, 20, 20, 25, 30, 30]);
        assert_eq!([spared_for_files(30, 0, 0), spared_for_files(1, 9, 9)], [30, 1]);
    }

    #[test]
    fn the_file_with_the_most_garbage_for_what_it_holds_goes_first() {
        let files: Vec<Space> =
            [(100, 90), (100, 10), (100, 50), (100, 100)].into_iter().enumerate().map(space).collect();
        assert_eq!(most_wasteful(beside(30), &files), Some(FileId(2)));
        assert_eq!(most_wasteful(beside(60), &files), None);
    }
}

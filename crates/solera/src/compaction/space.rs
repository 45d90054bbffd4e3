//! Space of no use, by cause (`SpaceUse`, `space_use`), and plans that give it back (`unread`,
//! `free`).
//!
//! - **Unread** (`unread`): a table that a newer range tombstone covers, or that has expired above
//!   nothing, leaves the tree unread, if it is known which separated values it points to.
//! - **In place** (`free`): a table of which a fifth is droppable is written anew, in its run.
//! - **Down** (`free`): tables that hide a fifth of a merge with the next level are merged with it:
//!   by deletes, and by newer versions where the tree rests.
//!
//! `awaited` says which snapshot's release, or which moment, makes more droppable.
//! What must hold: a plan frees what it was made for, as far as snapshots tell, so plans end.
//! Callers: `pick`, `manual`, `engine::work` (`awaited`), `control::observe` and `engine::report`
//! (`space_use`). `engine::garbage` adds to it what tables do not tell.

use super::{
    cut::{Cut, Intent},
    horizon::Horizon,
    picture::Picture,
    plan::{Plan, Reason, Target, Work},
};
use crate::{
    ids::Seqno,
    key::{KeyEnd, KeyRange},
    table::waste::{Cover, ENTRY_BYTES, Waste},
    version::{LEVELS_MAX, Run, TableRef, Version},
};
use std::sync::Arc;

/// So much of a table, or of a merge, must be of no use: one part in so many. A tree at rest is
/// then at most a quarter larger than what it is good for.
const USELESS_SHARE: u64 = 5;

/// What the bytes of a tree's tables are, as far as that is known without reading them; and what
/// of its values that are kept apart is dead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpaceUse {
    /// Bytes of what a reader of now may see: what the other causes leave.
    pub live_bytes: u64,
    /// Bytes of old versions that lie beside the version that replaced them, for snapshots.
    pub old_version_bytes: u64,
    /// Bytes of deletes and range tombstones.
    pub tombstone_bytes: u64,
    /// Bytes of entries that have expired.
    pub expired_bytes: u64,
    /// Bytes that deletes, range tombstones and newer versions in other runs may hide, at most, and
    /// parts of files that count no more.
    pub unmerged_bytes: u64,
    /// Bytes of value files to which no pointer leads, without files that recovery needs. In a file
    /// that keyspaces share, each has the part that it has of the live values.
    pub value_garbage_bytes: u64,
    /// Bytes that the compactions that are due now read, about as many as they write.
    pub debt_bytes: u64,
    /// Bytes that a compaction reads in a second, in the mean of the latest; 0 until one took time
    /// since the keyspace was opened.
    pub merged_bytes_per_second: u64,
}

impl SpaceUse {
    /// Seconds in which one thread works off the debt at the rate that was measured: 0 if there is
    /// none, `None` until a compaction was measured.
    pub fn drain_seconds(&self) -> Option<f64> {
        match (self.debt_bytes, self.merged_bytes_per_second) {
            (0, _) => Some(0.0),
            (_, 0) => None,
            (debt, rate) => Some(debt as f64 / rate as f64),
        }
    }

    /// All numbers with their names, the causes first.
    pub fn named(&self) -> [(&'static str, u64); 8] {
        [
            ("live_bytes", self.live_bytes),
            ("old_version_bytes", self.old_version_bytes),
            ("tombstone_bytes", self.tombstone_bytes),
            ("expired_bytes", self.expired_bytes),
            ("unmerged_bytes", self.unmerged_bytes),
            ("value_garbage_bytes", self.value_garbage_bytes),
            ("debt_bytes", self.debt_bytes),
            ("merged_bytes_per_second", self.merged_bytes_per_second),
        ]
    }

    /// Of numbers in the order of [`SpaceUse::named`].
    pub(crate) fn from_numbers(numbers: [u64; 8]) -> SpaceUse {
        let mut numbers = numbers.into_iter();
        let mut next = || numbers.next().unwrap_or(0);
        SpaceUse {
            live_bytes: next(),
            old_version_bytes: next(),
            tombstone_bytes: next(),
            expired_bytes: next(),
            unmerged_bytes: next(),
            value_garbage_bytes: next(),
            debt_bytes: next(),
            merged_bytes_per_second: next(),
        }
    }
}

/// What waits for a snapshot to be released, or for a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Awaited {
    /// The release of a snapshot up to this number may make something droppable.
    pub snapshot: Option<Seqno>,
    /// At this moment something will have expired that is worth a plan: Unix milliseconds.
    pub moment_ms: Option<u64>,
}

impl Awaited {
    /// What waits for either.
    pub fn or(self, other: Awaited) -> Awaited {
        let soonest = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        Awaited {
            snapshot: self.snapshot.max(other.snapshot),
            moment_ms: soonest(self.moment_ms, other.moment_ms),
        }
    }
}

/// A plan that drops tables unread: they are of no use to any reader. What they point to in value
/// files is known from their descriptors.
pub(super) fn unread(picture: &Picture<'_>) -> Option<Plan> {
    let covers: Vec<(&Arc<Run>, &TableRef, &Cover)> = covers(picture.version).collect();
    let has_expired = |run: &Run, table: &TableRef| {
        let Waste { expiring, .. } = &table.descriptor().waste;
        expiring.last().is_some_and(|last| last.until_ms <= picture.horizon.now_ms)
            && expiring.iter().map(|expiring| expiring.entries).sum::<u64>() == table.descriptor().entries
            && table.descriptor().range_tombstones == 0
            && table.descriptor().seqno_max <= picture.horizon.oldest_transaction
            && is_last(picture.version, run, table.clip())
    };
    let is_useless = |run: &Run, table: &TableRef| {
        has_expired(run, table)
            || covers.iter().any(|(newer, of, cover)| {
                is_older(run, newer)
                    && covers_all(cover, of.clip(), table.clip())
                    && !picture.horizon.is_read(table.descriptor().seqno_min, cover.seqno.saturating_sub(1))
            })
    };
    let may_be = |table: &TableRef| !covers.is_empty() || !table.descriptor().waste.expiring.is_empty();
    if !picture.version.tables().any(&may_be) {
        return None;
    }
    let all_are_told = are_pointers_told(picture.version);
    let is_told = |table: &TableRef| {
        let pointers = &table.descriptor().waste.pointers;
        if pointers.is_empty() { all_are_told } else { table.is_whole() }
    };
    picture.version.runs().iter().find_map(|run| {
        let is_next = |table: &TableRef| {
            may_be(table)
                && is_told(table)
                && is_useless(run, table)
                && !picture.claims.overlaps(run.level(), table.clip())
        };
        let first = run.tables().iter().position(&is_next)?;
        let mut range = run.tables()[first].clip().clone();
        let grows = |table: &&TableRef| {
            let wider = range.hull(table.clip());
            let grows = is_next(table) && !picture.claims.overlaps(run.level(), &wider);
            if grows {
                range = wider;
            }
            grows
        };
        let tables: Vec<TableRef> = run.tables()[first..].iter().take_while(grows).cloned().collect();
        Some(Plan {
            range,
            sources: Vec::new(),
            target: Target { level: run.level(), run: run.id(), tables },
            work: Work::Drop,
            drops_tombstones: false,
            seals: None,
            reason: Reason::Useless,
        })
    })
}

/// Whether the descriptors tell all pointers of the tables, so that a table that tells none points
/// nowhere. One of which only a part counts tells more than there is, and one that was written
/// before pointers were counted tells less.
fn are_pointers_told(version: &Version) -> bool {
    let mut rest = version.values().to_tally();
    for table in version.tables() {
        let pointers = &table.descriptor().waste.pointers;
        if !pointers.is_empty() && !table.is_whole() {
            return false;
        }
        rest.leave(pointers);
    }
    rest.is_empty()
}

/// A plan that frees space, for when nothing else is to be done.
pub(super) fn free(picture: &Picture<'_>) -> Option<Plan> {
    in_place(picture).or_else(|| down(picture))
}

/// A plan that writes tables anew where they are.
fn in_place(picture: &Picture<'_>) -> Option<Plan> {
    let runs = picture.version.runs().iter();
    runs.flat_map(|run| run.tables().iter().map(move |table| (run, table))).find_map(|(run, table)| {
        let droppable = droppable_bytes(picture, run, table);
        if droppable == 0 || droppable.saturating_mul(USELESS_SHARE) < table.bytes() {
            return None;
        }
        let cut = Cut::new(picture, Vec::new(), (run.level(), run.id())).around_damage();
        let range = table.clip().clone();
        let is_damaged = picture.damage.has(table);
        let reason = Reason::Space { bytes: droppable, of: table.bytes() };
        let free = !is_damaged && !cut.blocked(&range);
        free.then(|| cut.plan(range, Intent { reason, seals: None, may_move: false }))
    })
}

/// A plan that merges deletes and newer versions with what they hide.
fn down(picture: &Picture<'_>) -> Option<Plan> {
    picture.levels().take_while(|level| level + 1 < LEVELS_MAX).find_map(|level| {
        let runs = picture.runs(level);
        let weighed: Vec<(&Arc<Run>, &TableRef, Hidden)> = runs
            .iter()
            .flat_map(|run| run.tables().iter().map(move |table| (run, table)))
            .filter(|(_, table)| table.has_tombstones() || picture.overlap.share(table) > 0.0)
            .map(|(run, table)| (run, table, hidden(picture, run, table)))
            .collect();
        if picture.is_leveled(runs) {
            let target = (level + 1, picture.target_run(level + 1));
            return weighed.iter().filter(|(.., hidden)| hidden.is_worth_it()).find_map(
                |(run, table, hidden)| {
                    let cut = Cut::new(picture, vec![run], target).around_damage();
                    let range = cut.range_of(table);
                    let intent = Intent { reason: hidden.reason(), seals: None, may_move: true };
                    (!cut.blocked(&range)).then(|| cut.plan(range, intent))
                },
            );
        }
        let mut all = Hidden::default();
        weighed.iter().for_each(|(.., hidden)| all.bytes += hidden.bytes);
        let range = runs.iter().map(|run| run.range()).reduce(|all, range| all.hull(&range))?;
        let own: u64 = runs.iter().map(|run| run.bytes()).sum();
        let below = picture.runs(level + 1).iter().flat_map(|run| run.overlapping(&range));
        all.of = own + below.map(TableRef::bytes).sum::<u64>();
        all.bytes = all.bytes.min(all.of);
        all.is_worth_it().then(|| super::cut::drain(picture, runs, picture.seals.of(level), all.reason()))?
    })
}

/// What a table may hide in older runs.
#[derive(Clone, Copy, Debug, Default)]
struct Hidden {
    bytes: u64,
    /// Bytes that a merge concerns.
    of: u64,
}

impl Hidden {
    fn is_worth_it(&self) -> bool {
        self.bytes > 0 && self.bytes.saturating_mul(USELESS_SHARE) >= self.of
    }

    fn reason(&self) -> Reason {
        Reason::Space { bytes: self.bytes, of: self.of }
    }
}

/// What `table` may hide of older runs, as far as is known, unless a reader reads as of before it.
fn hidden(picture: &Picture<'_>, run: &Run, table: &TableRef) -> Hidden {
    let descriptor = table.descriptor();
    let mut hidden = Hidden { bytes: 0, of: table.bytes() };
    let mut next_level = None;
    // Their bytes and keys.
    let mut older = [0u64; 2];
    let mut oldest = Seqno::MAX;
    for other in picture.version.runs().iter().filter(|other| is_older(other, run)) {
        for part in other.overlapping(table.clip()) {
            let bytes = part.bytes_within(table.clip());
            older[0] += bytes;
            older[1] += (part.keys() as f64 * bytes as f64 / part.bytes() as f64) as u64;
            oldest = oldest.min(part.descriptor().seqno_min);
            if *next_level.get_or_insert(other.level()) == other.level() {
                hidden.of += part.bytes();
            }
            for cover in &descriptor.waste.covers {
                let covered = within(cover, table.clip());
                hidden.bytes += part.bytes_within(&covered.intersection(part.clip()));
            }
        }
    }
    let overlap = picture.overlap.share(table);
    if older[1] > 0 && (descriptor.deletes > 0 || overlap > 0.0) {
        let share = table.bytes() as f64 / descriptor.bytes.max(1) as f64;
        let others = descriptor.keys().saturating_sub(descriptor.deletes) as f64;
        let hiding = (descriptor.deletes as f64 + others * overlap) * share;
        hidden.bytes += (hiding * older[0] as f64 / older[1] as f64) as u64;
    }
    hidden.bytes = hidden.bytes.min(older[0]);
    if oldest == Seqno::MAX || picture.horizon.is_read(oldest, descriptor.seqno_max.saturating_sub(1)) {
        hidden.bytes = 0;
    }
    hidden
}

/// Bytes of the file of `table` in which no part of it counts any more.
pub(super) fn cut_off_bytes(version: &Version, table: &TableRef) -> u64 {
    let whole = table.descriptor().bytes;
    if table.bytes() >= whole {
        return 0;
    }
    let parts = version.tables().filter(|part| part.id() == table.id());
    whole.saturating_sub(parts.map(TableRef::bytes).sum())
}

/// Bytes of `table` that go if it is written anew where it is.
pub(super) fn droppable_bytes(picture: &Picture<'_>, run: &Run, table: &TableRef) -> u64 {
    let waste = &table.descriptor().waste;
    let may_drop = table.has_tombstones() || !waste.held.is_empty() || !waste.expiring.is_empty();
    if !may_drop {
        return 0;
    }
    let tombstones = table.has_tombstones() && is_last(picture.version, run, table.clip());
    let useless = Useless::of(table, picture.horizon);
    useless.bytes(
        table,
        useless.droppable_versions + useless.expired + if tombstones { useless.idle } else { 0 },
    )
}

/// Whether no run older than `run` has keys in `range`.
fn is_last(version: &Version, run: &Run, range: &KeyRange) -> bool {
    version
        .runs()
        .iter()
        .filter(|other| is_older(other, run))
        .all(|other| other.overlapping(range).is_empty())
}

/// Whether `run` is older than `other`: in a deeper level, or in the same with a smaller number.
fn is_older(run: &Run, other: &Run) -> bool {
    let age = |run: &Run| (run.level(), std::cmp::Reverse(run.id()));
    age(run) > age(other)
}

fn covers(version: &Version) -> impl Iterator<Item = (&Arc<Run>, &TableRef, &Cover)> {
    let tables = version.runs().iter().flat_map(|run| run.tables().iter().map(move |table| (run, table)));
    tables
        .flat_map(|(run, table)| table.descriptor().waste.covers.iter().map(move |cover| (run, table, cover)))
}

/// The keys that `cover` covers in a table that counts within `clip`.
fn within(cover: &Cover, clip: &KeyRange) -> KeyRange {
    KeyRange { start: cover.start.clone(), end: KeyEnd::Excluded(cover.end.clone()) }.intersection(clip)
}

/// Whether `cover`, in a table that counts within `clip`, covers all of `range`.
fn covers_all(cover: &Cover, clip: &KeyRange, range: &KeyRange) -> bool {
    within(cover, clip).covers(range)
}

/// What of a table is of no use, in bytes of keys and values.
#[derive(Clone, Copy, Debug, Default)]
struct Useless {
    /// Old versions, and those of them that no reader sees any more.
    versions: u64,
    droppable_versions: u64,
    /// What has expired.
    expired: u64,
    /// Deletes and range tombstones, and those of them that hide nothing that a reader sees.
    tombstones: u64,
    idle: u64,
    all: u64,
}

impl Useless {
    fn of(table: &TableRef, horizon: &Horizon) -> Useless {
        let descriptor = table.descriptor();
        let waste = &descriptor.waste;
        let mut useless = Useless::default();
        let mut needed = 0;
        for held in &waste.held {
            useless.versions += held.bytes;
            if horizon.is_read(held.from, held.to) {
                needed += held.entries;
            } else {
                useless.droppable_versions += held.bytes;
            }
        }
        let expired = waste.expiring.iter().take_while(|expiring| expiring.until_ms <= horizon.now_ms);
        useless.expired = expired.map(|expiring| expiring.bytes).sum();
        let key_bytes = descriptor.key_bytes.checked_div(descriptor.entries).unwrap_or(0);
        let range_bytes = descriptor.range_tombstones * (2 * key_bytes + 4 * ENTRY_BYTES);
        let per_delete = key_bytes + ENTRY_BYTES;
        useless.tombstones = descriptor.deletes * per_delete + range_bytes;
        let waits = waste.tombstones_held.is_some_and(|(from, to)| horizon.is_read(from, to));
        if !waits {
            let idle_ranges = if needed == 0 { range_bytes } else { 0 };
            useless.idle = descriptor.deletes.saturating_sub(needed) * per_delete + idle_ranges;
        }
        useless.all =
            descriptor.key_bytes + descriptor.value_bytes + descriptor.entries * ENTRY_BYTES + range_bytes;
        useless
    }

    /// How much of the part of the table that counts so many `bytes` of keys and values are.
    fn bytes(&self, table: &TableRef, bytes: u64) -> u64 {
        let share = bytes.min(self.all) as f64 / self.all.max(1) as f64;
        (table.bytes() as f64 * share) as u64
    }
}

/// Which release and which moment may make something of a tree droppable.
pub fn awaited(picture: &Picture<'_>) -> Awaited {
    let horizon = picture.horizon;
    let mut awaited = Awaited::default();
    for table in picture.version.tables() {
        let descriptor = table.descriptor();
        let waste = &descriptor.waste;
        let mut wait_for = |from, to| awaited.snapshot = awaited.snapshot.max(horizon.last_read(from, to));
        waste.held.iter().for_each(|held| wait_for(held.from, held.to));
        waste.tombstones_held.into_iter().for_each(|(from, to)| wait_for(from, to));
        if table.has_tombstones() || picture.overlap.share(table) > 0.0 {
            wait_for(0, descriptor.seqno_max.saturating_sub(1));
        }
        if waste.expiring.is_empty() {
            continue;
        }
        let useless = Useless::of(table, horizon);
        let apart_all: u64 = waste.pointers.changes().map(|(.., bytes)| bytes.unsigned_abs()).sum();
        let (mut expired, mut apart) = (0, 0);
        let worth = waste.expiring.iter().find(|expiring| {
            expired += expiring.bytes;
            apart += expiring.apart;
            // Reclaim gives values back that lie apart (`convert`).
            let is_worth_it = expired.saturating_mul(USELESS_SHARE) >= useless.all
                || apart > 0 && apart.saturating_mul(USELESS_SHARE) >= apart_all;
            is_worth_it && expiring.until_ms > horizon.now_ms
        });
        // What is too little for a plan may be all that a table still has.
        let moment_ms = worth.map(|expiring| expiring.until_ms);
        // Time goes on with the release of the transaction that holds it back.
        awaited = awaited.or(match moment_ms {
            Some(_) if horizon.is_held_back => {
                Awaited { snapshot: Some(horizon.oldest_transaction), moment_ms: None }
            }
            _ => Awaited { snapshot: None, moment_ms },
        });
    }
    awaited
}

/// What the bytes of a tree's tables are, and what is owed.
pub fn space_use(picture: &Picture<'_>) -> SpaceUse {
    let mut space = SpaceUse::default();
    let mut all = 0;
    for run in picture.version.runs() {
        for table in run.tables().iter() {
            all += table.bytes();
            let useless = Useless::of(table, picture.horizon);
            space.old_version_bytes += useless.bytes(table, useless.versions);
            space.expired_bytes += useless.bytes(table, useless.expired);
            space.tombstone_bytes += useless.bytes(table, useless.tombstones);
            let hides: u64 = picture
                .version
                .runs()
                .iter()
                .filter(|other| is_older(other, run))
                .flat_map(|other| other.overlapping(table.clip()))
                .map(|part| part.bytes_within(table.clip()))
                .sum();
            let puts = table.bytes() - useless.bytes(table, useless.tombstones).min(table.bytes());
            space.unmerged_bytes += hides.min(puts + hidden(picture, run, table).bytes);
            let droppable = droppable_bytes(picture, run, table);
            if droppable > 0 && droppable.saturating_mul(USELESS_SHARE) >= table.bytes() {
                space.debt_bytes += table.bytes();
            }
        }
    }
    for want in super::wants(picture) {
        let level = picture.version.level(want.level);
        let moves = match want.reason {
            Reason::Bytes { bytes, capacity } if picture.is_leveled(picture.runs(want.level)) => {
                bytes - capacity
            }
            _ => level.bytes(),
        };
        let next = picture.version.level(want.level + 1).bytes();
        let share = moves as f64 / level.bytes().max(1) as f64;
        space.debt_bytes += moves + (next as f64 * share) as u64;
    }
    let useless =
        space.old_version_bytes + space.expired_bytes + space.tombstone_bytes + space.unmerged_bytes;
    space.live_bytes = all.saturating_sub(useless);
    space
}

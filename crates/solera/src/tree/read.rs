//! Point lookups: one walk from the newest source to the oldest, stopping at the first version seen.

use super::View;
use crate::{
    cursor::{Hit, Probe},
    error::{Error, Result},
    ids::Seqno,
    key::{self, Kind},
};
use crossbeam_epoch::Guard;

/// What a lookup came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<R> {
    /// No version, or the newest one says that the key is absent.
    Absent,
    /// The key has a value; this is what the caller made of it.
    Found(R),
    /// The newest version is an operand: the value must be folded from several versions.
    Operand,
}

impl View {
    /// Looks `probe` up. `now_ms` is asked only if an expiring entry is met. `found` gets the newest
    /// version's hit and user value.
    ///
    /// The caller took the view **before** choosing `probe.snapshot`, or has the snapshot registered:
    /// otherwise a compaction could have dropped the version that the snapshot sees.
    #[inline]
    pub fn lookup<R>(
        &self,
        probe: &Probe<'_>,
        guard: &Guard,
        now_ms: impl Fn() -> u64,
        found: impl FnOnce(&Hit<'_>, &[u8]) -> R,
    ) -> Result<Outcome<R>> {
        let mut found = Some(found);
        let mut judge = |hit: Hit<'_>, cover: Option<Seqno>| -> Option<Outcome<R>> {
            // A tombstone of the same source covers what is older than itself.
            if cover.is_some_and(|tombstone| tombstone > hit.seqno) {
                return Some(Outcome::Absent);
            }
            let mut take = |value: &[u8]| found.take().map(|found| Outcome::Found(found(&hit, value)));
            match hit.kind {
                Kind::Put => take(hit.value()),
                Kind::Delete => Some(Outcome::Absent),
                Kind::Merge => Some(Outcome::Operand),
                Kind::PutExpiring => match key::split_expiry(hit.value()) {
                    Some((moment, value)) if moment > now_ms() => take(value),
                    _ => Some(Outcome::Absent),
                },
            }
        };
        for memtable in self.memtables() {
            let cover = memtable.covering(probe.key, probe.snapshot);
            if let Some(Some(outcome)) = memtable.lookup(probe, |hit| judge(hit, cover)) {
                return Ok(outcome);
            }
            if cover.is_some() {
                return Ok(Outcome::Absent);
            }
        }
        for run in self.version.runs() {
            let Some(table_ref) = run.find(probe.key) else { continue };
            let table = table_ref.file().table()?;
            let cover = match table_ref.has_tombstones() {
                true => table.tombstones().covering(probe.key, probe.snapshot),
                false => None,
            };
            if let Some(Some(outcome)) = table.lookup(probe, guard, |hit| judge(hit, cover))? {
                return Ok(outcome);
            }
            if cover.is_some() {
                return Ok(Outcome::Absent);
            }
        }
        Ok(Outcome::Absent)
    }
}

/// The error for an operand in a keyspace that has no operator.
pub(super) fn no_operator(keyspace: &str) -> Error {
    Error::Invalid(format!("keyspace {keyspace:?} has no merge operator; give it one with Db::keyspace_with"))
}

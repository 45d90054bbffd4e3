//! Giving back space file by file: `Reclaimer::rewrite`, the baseline of RocksDB and Titan, under
//! `Reclaim::Rewrite`.
//!
//! While files take more than they may, the one with the most garbage for each live byte is next.
//! Its live values go to the log again. The file goes when merges have dropped the old pointers;
//! tables that hold them are merged for that. Key ranges are also merged where newer versions may
//! hide much that there is to give back.
//!
//! What must hold: a key that a user writes meanwhile keeps what the user wrote. A put of this kind
//! is a transaction that has read its keys; one that was written since is not put. A snapshot keeps
//! the old pointer and its file. A file that gives less than a tenth back is left alone until less
//! of it is live. One with a value, or a table that points to it, that cannot be read is spared
//! until the next open. Caller: `jobs::give_back`.

use super::{
    commit::Terms,
    reads::Reads,
    reclaiming::{Reclaimer, State},
    work::Claim,
};
use crate::{
    compaction::{self, Plan, Space, Victims},
    cursor::Probe,
    error::{Error, Result},
    ids::{FileId, Seqno},
    key::hash,
    merge::visible::gaps::Eye,
    tree::{Outcome, Tree},
    values::Pointer,
    version::each_pointer,
    wal::batch::BatchEncoder,
};
use std::sync::Arc;

/// So many values, or so many bytes of them, are put with one commit: writers wait that long.
const VALUES_PER_COMMIT: usize = 64;
const BYTES_PER_COMMIT: u64 = 256 << 10;

/// About what an entry takes in the log besides its key and its value.
const ENTRY_BYTES: u64 = 16;
/// A file is put again if that gives back one part in so many of it.
const WORTH_PARTS: u64 = 10;

/// Tables are merged for the old pointers when files of so many parts of the live values were put
/// again.
const PENDING_PARTS: u64 = 8;

/// What became of a file whose values were to be put again.
enum Rewritten {
    Put,
    /// They would take nearly as many bytes in the log, until at most so many bytes of the file are
    /// live.
    Unworthy {
        worthy: u64,
    },
    /// It would not go for all that: a table that cannot be read points there.
    Unreadable,
}

/// A key and where its value lay when the tables were walked.
type Found = (Box<[u8]>, Pointer);

impl Reclaimer<'_> {
    /// One step: the values of a file are put again, or tables that point to such a file are
    /// merged. False: there is nothing to do, or another thread does it.
    pub(super) fn rewrite(&self) -> Result<bool> {
        let mut state = self.reclaiming.state.lock();
        if state.is_rewriting || self.clock().monotonic_ns() < state.rests_until_ns {
            return Ok(false);
        }
        let trees = self.trees();
        let has = |file: &FileId| trees.iter().any(|tree| tree.view().version.values().has(*file));
        state.rewritten.retain(has);
        let live = |file: FileId| -> u64 {
            trees.iter().map(|tree| tree.view().version.values().of(file).bytes).sum()
        };
        state.unworthy.retain(|&file, worthy| live(file) > *worthy);
        let left_alone = state.spared.iter().chain(&state.rewritten).chain(state.unworthy.keys());
        let left_alone = left_alone.copied().collect();
        let spaces = self.spaces(&trees, &left_alone);
        let all_live: u64 = spaces.iter().map(|space| space.live).sum();
        // Files count until they have gone.
        let (allowance, all) = (self.allowance(&trees), self.spaces(&trees, &state.spared));
        self.allow_writers(allowance, &all, 0, 0);
        let due = compaction::most_wasteful(allowance, &spaces);
        if due.is_none() || state.rewritten_bytes > all_live / PENDING_PARTS {
            if std::mem::take(&mut state.is_unflushed) {
                state.clean.clear();
                drop(state);
                trees.iter().try_for_each(|tree| self.rest.flush(tree))?;
                return Ok(true);
            }
            let to_merge = match self.stale(&mut state, &trees)? {
                None => self.hidden(&mut state, &trees, &all)?,
                stale => stale,
            };
            if let Some((tree, claim, plan)) = to_merge {
                drop(state);
                let done = self.rest.carry_out(&tree, &plan, Victims::default());
                let mut state = self.reclaiming.state.lock();
                let written = self.after_conversion(&mut state, &tree, &plan, done)?;
                state.clean.extend(written);
                drop(claim);
                return Ok(true);
            }
            state.rewritten_bytes = 0;
        }
        let Some(file) = due else {
            // What is too much cannot be given back now: a snapshot holds it, say.
            self.reclaiming.allow_all();
            return Ok(false);
        };
        state.is_rewriting = true;
        drop(state);
        let bytes = spaces.iter().find(|space| space.file == file).map_or(0, |space| space.bytes);
        let at_work = self.reclaiming.begin(1);
        let done = self.rewrite_file(&trees, file, bytes);
        drop(at_work);
        let mut state = self.reclaiming.state.lock();
        state.is_rewriting = false;
        match done {
            Ok(Rewritten::Put) => {
                state.rewritten.insert(file);
                state.rewritten_bytes += bytes;
                state.is_unflushed = true;
                Ok(true)
            }
            Ok(Rewritten::Unworthy { worthy }) => {
                state.unworthy.insert(file, worthy);
                Ok(true)
            }
            Ok(Rewritten::Unreadable) => {
                state.spared.insert(file);
                Ok(true)
            }
            // A value of it, or whether one is still the newest, cannot be read.
            Err(Error::Corrupt { .. }) => {
                state.spared.insert(file);
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    /// The plan that merges a range whose tables point to files that were rewritten, unless they
    /// were merged for that already and a snapshot keeps the pointers.
    fn stale(&self, state: &mut State, trees: &[Arc<Tree>]) -> Result<Option<(Arc<Tree>, Claim<'_>, Plan)>> {
        if state.rewritten.is_empty() {
            return Ok(None);
        }
        let horizon = self.horizon();
        for cell in self.cells(state, trees)? {
            let Some(tree) = trees.iter().find(|tree| tree.id == cell.keyspace) else { continue };
            let view = tree.view_owned();
            let State { census, clean, rewritten, .. } = &mut *state;
            let mut points = false;
            for run in view.version.runs() {
                for table in run.overlapping(&cell.range).iter().filter(|table| !clean.contains(&table.id()))
                {
                    let pointers = census.of(&view.version, run, table)?;
                    points |= pointers.live.iter().any(|(file, _)| rewritten.contains(&file));
                }
            }
            let plan = |picture: &compaction::Picture<'_>| compaction::conversion(picture, &cell.range);
            if points && let Some((claim, plan)) = self.work.plan_of(tree, &horizon, plan) {
                return Ok(Some((tree.clone(), claim, plan)));
            }
        }
        Ok(None)
    }

    /// The plan that merges a range in which newer versions hide so many values that it is not
    /// known what there is to give back.
    fn hidden(
        &self,
        state: &mut State,
        trees: &[Arc<Tree>],
        spaces: &[Space],
    ) -> Result<Option<(Arc<Tree>, Claim<'_>, Plan)>> {
        let allowance = self.allowance(trees);
        let horizon = self.horizon();
        let of_tree = |tree: &Arc<Tree>| compaction::hidden_max(&tree.view().version, &horizon);
        let hidden_max = trees.iter().map(of_tree).fold(0, u64::saturating_add);
        if !compaction::can_be_over(allowance, spaces, hidden_max) {
            return Ok(None);
        }
        let cells = self.cells(state, trees)?;
        for cell in compaction::revealing(spaces, &cells, allowance) {
            let Some(tree) = trees.iter().find(|tree| tree.id == cell.keyspace) else { continue };
            let plan = |picture: &compaction::Picture<'_>| compaction::conversion(picture, &cell.range);
            if let Some((claim, plan)) = self.work.plan_of(tree, &horizon, plan) {
                return Ok(Some((tree.clone(), claim, plan)));
            }
        }
        Ok(None)
    }

    /// Puts the values of `file` again, which takes so many `bytes`, if that gives enough back.
    fn rewrite_file(&self, trees: &[Arc<Tree>], file: FileId, bytes: u64) -> Result<Rewritten> {
        let found = trees.iter().map(|tree| self.pointers_to(tree, file));
        let Some(found) = found.collect::<Result<Option<Vec<_>>>>()? else {
            return Ok(Rewritten::Unreadable);
        };
        let in_log = |(key, pointer): &Found| key.len() as u64 + u64::from(pointer.len) + ENTRY_BYTES;
        let (live, in_log) = found.iter().flatten().fold((0, 0), |sums: (u64, u64), found| {
            (sums.0 + u64::from(found.1.len), sums.1 + in_log(found))
        });
        let most = bytes - bytes / WORTH_PARTS;
        if in_log > most {
            let worthy = live as f64 * most as f64 / in_log as f64;
            return Ok(Rewritten::Unworthy { worthy: (worthy as u64).min(live.saturating_sub(1)) });
        }
        for (tree, found) in trees.iter().zip(&found).filter(|(_, found)| !found.is_empty()) {
            self.put_again(tree, found)?;
        }
        Ok(Rewritten::Put)
    }

    /// What entries of `tree` point to in `file`, in its order. `None`: some are in tables that
    /// cannot be read.
    fn pointers_to(&self, tree: &Arc<Tree>, file: FileId) -> Result<Option<Vec<Found>>> {
        let view = tree.view_owned();
        let mut found: Vec<Found> = Vec::new();
        let counted = view.version.values().of(file).values;
        if counted == 0 {
            return Ok(Some(found));
        }
        for table in view.version.tables() {
            let walked = each_pointer(table, |key, pointer| {
                if pointer.file == file {
                    found.push((key.into(), pointer));
                }
                Ok(())
            });
            match walked.map_err(Error::of_read) {
                // The count tells whether it points to the file.
                Err(Error::Corrupt { .. }) => {}
                walked => walked?,
            }
        }
        found.sort_by_key(|(_, pointer)| pointer.offset);
        Ok((found.len() as u64 == counted).then_some(found))
    }

    /// Puts the values again that were found.
    fn put_again(&self, tree: &Arc<Tree>, found: &[Found]) -> Result<()> {
        let mut rest = found;
        while !rest.is_empty() {
            if self.work.is_stopping() {
                return Err(Error::Closed);
            }
            let mut bytes = 0;
            let fits = |(_, pointer): &&Found| {
                bytes += u64::from(pointer.len);
                bytes <= BYTES_PER_COMMIT
            };
            let count = rest.iter().take(VALUES_PER_COMMIT).take_while(fits).count().max(1);
            let (part, others) = rest.split_at(count);
            match self.put_unless_written(tree, part) {
                // A user wrote one of them: the others go one by one.
                Err(Error::Conflict) => part.iter().try_for_each(|one| {
                    match self.put_unless_written(tree, std::slice::from_ref(one)) {
                        Err(Error::Conflict) => Ok(()),
                        done => done,
                    }
                }),
                done => done,
            }?;
            rest = others;
        }
        Ok(())
    }

    /// Puts those of `found` again whose newest version is still what was found, if none of their
    /// keys is written meanwhile.
    ///
    /// # Errors
    /// [`Error::Conflict`] if one is; [`Error::Corrupt`] if a value cannot be read.
    fn put_unless_written(&self, tree: &Arc<Tree>, found: &[Found]) -> Result<()> {
        let since = self.store.snapshots.hold_transaction(|| self.store.expiry.now_ms());
        let done = self.put_as_of(tree, found, since.seqno());
        if self.store.snapshots.release(since) {
            self.work.wake();
        }
        done
    }

    fn put_as_of(&self, tree: &Arc<Tree>, found: &[Found], since: Seqno) -> Result<()> {
        // Taken after the moment was held, so it has all that is seen then.
        let view = tree.view_owned();
        let (mut reads, mut encoder) = (Reads::default(), BatchEncoder::new());
        let now_ms = || self.store.expiry.now_ms();
        for (key, pointer) in found {
            let probe = Probe { key, hash: hash(key), snapshot: since };
            let (here, guard) = (tree.context.stats.here(), crossbeam_epoch::pin());
            let outcome = view.lookup(&probe, &tree.values, here, &guard, now_ms, |_, _| ());
            let outcome = outcome.map_err(Error::of_read)?;
            let Outcome::Separated { pointer: Ok(newest), expires_ms } = outcome else { continue };
            if newest != *pointer {
                continue;
            }
            let value = self.store.files.values.read_file(pointer, key).map_err(Error::of_read)?;
            reads.add_key(tree.id, key);
            match expires_ms {
                Some(at) => encoder.put_expiring_separated(tree.id, key, &value, at),
                None => encoder.put_separated(tree.id, key, &value),
            }
        }
        if encoder.count() == 0 {
            return Ok(());
        }
        let announced = self.announcements.announce(reads.finish());
        // It has read keys alone, and no moment matters to those.
        announced.validate(&self.store.catalog, Eye { snapshot: since, now_ms: 0 })?;
        let terms = Terms { trees: vec![tree.clone()], reads: Some(announced.clone()) };
        match self.rest.put(encoder, terms) {
            Err(Error::NoKeyspace(_)) if tree.is_dropped() => Ok(()),
            done => done,
        }
    }
}

//! The two worlds of a life, the engine's and the oracle's: `World`, and how one operation is done
//! to both.
//!
//! `apply` does an operation to both and compares; `finish` compares every state that can still be
//! seen, then checks the files. Snapshots and transactions (`Pinned`, `Open`) are kept in slots in
//! both worlds. `Refusal` is an error that the engine must give.
//!
//! What must hold: the engine refuses what it must refuse. It refuses nothing else, but for
//! conflicts that the oracle calls possible, or that rewriting values may cause. Sequence numbers
//! of batches and transactions rise with every commit.
//!
//! Caller: `life::mod`; `read` and `iterate` do the reads.

use super::{
    Digest, Outcome,
    iterate::{Walker, scan},
};
use crate::{
    oracle::{self, Conflict, Moment, Oracle},
    random::Random,
    script::{Bounds, Change, Operation, Value, View, generate::SLOTS, text::Bytes},
    setting::Setting,
    tell::Work,
    tuner::{self, DEFAULT, Tuner},
    tuning,
};
use solera::{
    Db, Error, Keyspace, ManualClock, Reclaim, Snapshot, Transaction,
    control::Receipt,
    ids::Seqno,
    vfs::{
        Fs,
        mem::{MemFs, Persist},
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Where the database lies in its file system.
pub(super) const DIR: &str = "/db";
const CHECKPOINT_DIR: &str = "/checkpoint";
/// The time at which every life begins.
const START_MS: u64 = 1_700_000_000_000;

/// What an operation returns: what is wrong, if anything.
pub(super) type Checked<T = ()> = Result<T, String>;

/// A slot's snapshot, in both worlds.
pub(super) struct Pinned {
    pub(super) engine: Snapshot,
    pub(super) moment: Moment,
}

/// A slot's transaction, in both worlds.
pub(super) struct Open {
    pub(super) engine: Transaction,
    pub(super) model: oracle::Transaction,
    /// The keyspaces that it writes to, and which generation of each.
    targets: BTreeSet<(usize, u64)>,
}

/// Both worlds.
pub(super) struct World {
    pub(super) setting: Setting,
    fs: MemFs,
    clock: Arc<ManualClock>,
    /// `None` only while the database is being opened.
    db: Option<Db>,
    /// The last handle of each keyspace, kept after a drop: it must then be refused. `None` if the
    /// database was opened without the keyspace.
    pub(super) handles: Vec<Option<Keyspace>>,
    /// How often each keyspace was created or dropped.
    generations: Vec<u64>,
    pub(super) oracle: Oracle,
    last_seqno: Seqno,
    pub(super) snapshots: [Option<Pinned>; SLOTS as usize],
    pub(super) transactions: [Option<Open>; SLOTS as usize],
    pub(super) walkers: [Option<Walker>; SLOTS as usize],
    pub(super) digest: Digest,
    /// Changes of knobs.
    receipts: Vec<Receipt>,
    /// The tuner that turns knobs, where an operation has asked for it.
    tuner: Option<Tuner>,
    work: Work,
}

impl World {
    /// Both worlds empty, with every keyspace of the setting created.
    pub(super) fn new(setting: &Setting) -> Checked<World> {
        let mut world = World {
            setting: setting.clone(),
            fs: MemFs::new(),
            clock: Arc::new(ManualClock::at_unix_ms(START_MS)),
            db: None,
            handles: vec![None; setting.spaces.len()],
            generations: vec![0; setting.spaces.len()],
            oracle: Oracle::new(START_MS),
            last_seqno: 0,
            snapshots: Default::default(),
            transactions: Default::default(),
            walkers: Default::default(),
            digest: Digest::new(),
            receipts: Vec::new(),
            tuner: None,
            work: Work::default(),
        };
        world.open()?;
        for slot in 0..setting.spaces.len() {
            world.create_space(slot)?;
        }
        Ok(world)
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("a database is open between operations")
    }

    fn open(&mut self) -> Checked {
        let db = self.setting.options(Arc::new(self.fs.clone()), self.clock.clone()).open(DIR);
        self.db = Some(db.map_err(|error| format!("cannot open: {error}"))?);
        tuning::kept(self.db(), &self.receipts)?;
        tuner::agrees(&self.fs, Path::new(DIR), &self.receipts)?;
        for slot in 0..self.setting.spaces.len() {
            if self.oracle.has(slot) {
                self.open_space(slot)?;
            }
        }
        Ok(())
    }

    /// Ends every snapshot, iterator and transaction, and lets go of the database.
    fn let_go(&mut self) {
        if let Some(db) = &self.db {
            self.work.note(db);
        }
        self.walkers = Default::default();
        self.handles.fill(None);
        for slot in 0..SLOTS as usize {
            if let Some(open) = self.transactions[slot].take() {
                self.oracle.end(open.model, false);
            }
            if let Some(pinned) = self.snapshots[slot].take() {
                self.oracle.unpin(pinned.moment);
            }
        }
    }

    /// Does one operation to both worlds and compares.
    pub(super) fn apply(&mut self, operation: &Operation) -> Checked {
        match operation {
            Operation::Write { change } => self.write(change),
            Operation::Batch { sync, changes } => self.batch(*sync, changes),
            Operation::Get { view, space, key } => self.get(view, self.slot(*space), key, Asked::Value),
            Operation::GetInto { view, space, key } => self.get(view, self.slot(*space), key, Asked::Copy),
            Operation::Contains { view, space, key } => {
                self.get(view, self.slot(*space), key, Asked::Presence)
            }
            Operation::MultiGet { view, space, keys } => self.multi_get(view, self.slot(*space), keys),
            Operation::Scan { view, space, bounds, backward, keys_only, limit } => {
                self.scan(view, self.slot(*space), bounds, *backward, *keys_only, usize::from(*limit))
            }
            Operation::Open { slot, view, space, bounds } => {
                self.open_walker(*slot, view, self.slot(*space), bounds)
            }
            Operation::Walk { slot, moves } => match &mut self.walkers[usize::from(*slot)] {
                Some(walker) => moves.iter().try_for_each(|step| walker.walk(step, &mut self.digest)),
                None => Ok(()),
            },
            Operation::Shut { slot } => {
                self.walkers[usize::from(*slot)] = None;
                Ok(())
            }
            Operation::Snapshot { slot } => {
                self.release(*slot);
                let engine = self.db().snapshot();
                let moment = self.oracle.pin();
                self.snapshots[usize::from(*slot)] = Some(Pinned { engine, moment });
                Ok(())
            }
            Operation::Release { slot } => {
                self.release(*slot);
                Ok(())
            }
            Operation::Begin { slot } => {
                self.rollback(*slot);
                let engine = self.db().transaction();
                let model = self.oracle.begin();
                let targets = BTreeSet::new();
                self.transactions[usize::from(*slot)] = Some(Open { engine, model, targets });
                Ok(())
            }
            Operation::Stage { slot, change } => self.stage(*slot, change),
            Operation::Commit { slot } => self.commit(*slot),
            Operation::Rollback { slot } => {
                self.rollback(*slot);
                Ok(())
            }
            Operation::Ingest { space, entries } => self.ingest(self.slot(*space), entries),
            Operation::Flush { space } => self.on_space(self.slot(*space), |handle| handle.flush()),
            Operation::FlushAll {} => succeeded(self.db().flush()),
            Operation::Compact { space, start, end } => {
                if oracle::empty(start.bound(), end.bound()) {
                    return Ok(());
                }
                let range = (start.bound(), end.bound());
                self.on_space(self.slot(*space), |handle| handle.compact_range(range))
            }
            Operation::Step { times } => {
                for _ in 0..*times {
                    if !succeeded(self.db().step())? {
                        break;
                    }
                }
                Ok(())
            }
            Operation::Idle {} => succeeded(self.db().wait_idle()),
            Operation::Sync {} => succeeded(self.db().sync()),
            Operation::Checkpoint {} => self.checkpoint(),
            Operation::DropSpace { space } => self.drop_space(self.slot(*space)),
            Operation::CreateSpace { space } => {
                let slot = self.slot(*space);
                if self.oracle.has(slot) { self.open_space(slot) } else { self.create_space(slot) }
            }
            Operation::Reopen { change } => {
                self.let_go();
                if let Some(db) = self.db.take() {
                    succeeded(db.close())?;
                }
                tuner::ended(self.tuner.take())?;
                if *change != 0 {
                    self.setting.change(&mut Random::new(u64::from(*change)));
                }
                self.open()?;
                self.compare_all()
            }
            Operation::Kill {} => {
                self.let_go();
                let image = self.fs.crash(Persist::Everything, 0);
                (self.tuner, self.db) = (None, None);
                self.fs = image;
                self.open()?;
                self.compare_all()
            }
            Operation::Advance { ms } => {
                self.clock.advance(Duration::from_millis(u64::from(*ms)));
                self.oracle.advance(u64::from(*ms));
                Ok(())
            }
            Operation::Tune { seed } => {
                tuning::refuse(self.db(), *seed)?;
                let receipt = succeeded(tuning::turn(self.db(), *seed))?;
                self.receipts.extend(receipt);
                Ok(())
            }
            Operation::Look { agent } => self.look(*agent),
            Operation::Verify {} => self.verify(),
        }
    }

    /// The end of a life: every state that can still be seen is compared, then the files are
    /// checked.
    pub(super) fn finish(mut self) -> Checked<Outcome> {
        self.compare_all()?;
        for slot in 0..SLOTS {
            for space in 0..self.setting.spaces.len() {
                let view = View::Snapshot { slot: slot as u8 };
                self.scan(&view, space, &Bounds::All {}, slot % 2 == 0, false, usize::MAX)?;
            }
        }
        self.verify()?;
        self.let_go();
        self.tuner = None;
        if let Some(db) = self.db.take() {
            succeeded(db.close())?;
        }
        let report =
            succeeded(solera::inspect::check(&(Arc::new(self.fs.clone()) as Arc<dyn Fs>), Path::new(DIR)))?;
        if !report.problems.is_empty() {
            return Err(format!("the files are damaged: {:?}", report.problems));
        }
        self.open()?;
        self.compare_all()?;
        self.db = None;
        let mut files = Digest::new();
        for path in self.fs.files() {
            files.add(path.to_string_lossy().as_bytes());
            files.add(&succeeded(self.fs.content(&path))?);
        }
        Ok(Outcome { answers: self.digest.0, files: files.0, work: self.work })
    }

    /// A tuner looks, and may change what it likes.
    fn look(&mut self, agent: u8) -> Checked {
        let Some(db) = &self.db else { return Ok(()) };
        tuner::look(db, DEFAULT, &mut self.tuner, agent)?;
        let last = self.receipts.last().map_or(0, |receipt| receipt.number);
        let made = db.control().history().into_iter().filter(|receipt| receipt.number > last);
        self.receipts.extend(made);
        Ok(())
    }

    fn slot(&self, space: u8) -> usize {
        usize::from(space) % self.setting.spaces.len()
    }

    /// Why the engine must refuse this change, if it must.
    fn refusal(&self, change: &Change) -> Option<Refusal> {
        let slot = self.slot(change.space());
        if !self.oracle.has(slot) {
            return Some(Refusal::NoKeyspace);
        }
        change.lacks_operator(&self.setting).then_some(Refusal::Invalid)
    }

    fn write(&mut self, change: &Change) -> Checked {
        let Some(handle) = &self.handles[change.slot(&self.setting)] else { return Ok(()) };
        let done = change.commit(&self.setting, handle);
        if let Some(refusal) = self.refusal(change) {
            return refusal.expected(done);
        }
        succeeded(done)?;
        let told = change.in_oracle(&self.setting, self.oracle.now_ms());
        self.oracle.commit(&[told]);
        Ok(())
    }

    fn batch(&mut self, sync: bool, changes: &[Change]) -> Checked {
        let mut batch = self.db().batch();
        if sync {
            batch.durability(solera::Durability::Sync);
        }
        let mut added = Ok(());
        for change in changes {
            let Some(handle) = &self.handles[change.slot(&self.setting)] else { return Ok(()) };
            added = added.and_then(|()| change.add_to(&mut batch, &self.setting, handle));
        }
        let done = added.and_then(|()| self.db().write(batch));
        if changes.iter().any(|change| self.refusal(change).is_some()) {
            return match done {
                Err(Error::NoKeyspace(_) | Error::Invalid(_)) => Ok(()),
                Err(error) => Err(format!("{error}, but a change is illegal")),
                Ok(_) => Err("written with an illegal change in it".to_owned()),
            };
        }
        let seqno = succeeded(done)?;
        let wrote = !changes.iter().all(Change::is_void);
        self.in_order(seqno, wrote)?;
        if wrote {
            let now_ms = self.oracle.now_ms();
            let told: Vec<_> = changes.iter().map(|change| change.in_oracle(&self.setting, now_ms)).collect();
            self.oracle.commit(&told);
        }
        Ok(())
    }

    /// Sequence numbers rise with every commit.
    fn in_order(&mut self, seqno: Seqno, wrote: bool) -> Checked {
        if seqno < self.last_seqno || (wrote && seqno == self.last_seqno) {
            return Err(format!("committed as {seqno} after {}", self.last_seqno));
        }
        self.last_seqno = seqno;
        Ok(())
    }

    fn stage(&mut self, slot: u8, change: &Change) -> Checked {
        // What a commit would refuse is not staged, or the transaction would be lost to it.
        if self.refusal(change).is_some() || change.is_void() {
            return Ok(());
        }
        let handle = &self.handles[change.slot(&self.setting)];
        if let (Some(open), Some(handle)) = (&mut self.transactions[usize::from(slot)], handle) {
            let (space, told) = change.in_oracle(&self.setting, self.oracle.now_ms());
            succeeded(change.stage_in(&mut open.engine, &self.setting, handle))?;
            open.targets.insert((space, self.generations[space]));
            self.oracle.stage(&mut open.model, space, told);
        }
        Ok(())
    }

    fn commit(&mut self, slot: u8) -> Checked {
        let Some(open) = self.transactions[usize::from(slot)].take() else { return Ok(()) };
        let wrote = open.model.wrote();
        // Changes to a keyspace that was dropped meanwhile cannot be committed. One that has a new
        // keyspace of the same name in its place is not the one that was meant.
        let gone = open.targets.iter().any(|&(slot, generation)| self.generations[slot] != generation);
        // A transaction that only read has read one moment and is never wrong.
        let conflict = if wrote { self.oracle.conflicts(&open.model) } else { Conflict::No };
        // A value that is rewritten is a write of its key.
        let rewrites = wrote && self.setting.reclaim == Reclaim::Rewrite;
        let done = open.engine.commit();
        self.digest.add(&[u8::from(done.is_ok())]);
        self.oracle.end(open.model, done.is_ok() && !gone && conflict != Conflict::Must);
        match done {
            Ok(seqno) if !gone && conflict != Conflict::Must => {
                if wrote {
                    self.in_order(seqno, true)
                } else {
                    Ok(())
                }
            }
            Err(Error::Conflict) if conflict != Conflict::No || gone || rewrites => Ok(()),
            Err(Error::NoKeyspace(_)) if gone => Ok(()),
            Ok(_) => Err(format!("committed, but conflict: {conflict:?}, keyspace gone: {gone}")),
            Err(error) => Err(format!("{error}, but conflict: {conflict:?}, keyspace gone: {gone}")),
        }
    }

    fn rollback(&mut self, slot: u8) {
        if let Some(open) = self.transactions[usize::from(slot)].take() {
            open.engine.rollback();
            self.oracle.end(open.model, false);
        }
    }

    fn release(&mut self, slot: u8) {
        if let Some(pinned) = self.snapshots[usize::from(slot)].take() {
            self.oracle.unpin(pinned.moment);
        }
    }

    fn on_space(&self, slot: usize, call: impl FnOnce(&Keyspace) -> solera::Result<()>) -> Checked {
        let Some(handle) = &self.handles[slot] else { return Ok(()) };
        let done = call(handle);
        if self.oracle.has(slot) { succeeded(done) } else { Refusal::NoKeyspace.expected(done) }
    }

    fn ingest(&mut self, slot: usize, entries: &[(Bytes, Value)]) -> Checked {
        let operator = self.setting.spaces[slot].operator;
        let entries: BTreeMap<Vec<u8>, Vec<u8>> =
            entries.iter().map(|(key, value)| (key.0.clone(), value.stored(operator))).collect();
        let Some(handle) = &self.handles[slot] else { return Ok(()) };
        let done = handle.ingest(entries.iter());
        if !self.oracle.has(slot) {
            return Refusal::NoKeyspace.expected(done);
        }
        let report = succeeded(done)?;
        if report.entries != entries.len() as u64 {
            return Err(format!("ingested {} of {} entries", report.entries, entries.len()));
        }
        let changes: Vec<_> = entries
            .into_iter()
            .map(|(key, value)| (slot, oracle::Change::Put { key, value, expires_ms: None }))
            .collect();
        if !changes.is_empty() {
            self.oracle.commit(&changes);
        }
        Ok(())
    }

    fn create_space(&mut self, slot: usize) -> Checked {
        self.generations[slot] += 1;
        self.oracle.create(slot, self.setting.spaces[slot].operator);
        self.open_space(slot)
    }

    fn open_space(&mut self, slot: usize) -> Checked {
        let options = self.setting.spaces[slot].options();
        let handle = succeeded(self.db().keyspace_with(&self.setting.space_name(slot), options))?;
        self.handles[slot] = Some(handle);
        Ok(())
    }

    fn drop_space(&mut self, slot: usize) -> Checked {
        if slot == 0 {
            return match self.db().drop_keyspace(&self.setting.space_name(slot)) {
                Ok(()) => Err("the default keyspace was dropped".to_owned()),
                Err(_) => Ok(()),
            };
        }
        let done = self.db().drop_keyspace(&self.setting.space_name(slot));
        if !self.oracle.has(slot) {
            return Refusal::NoKeyspace.expected(done);
        }
        self.generations[slot] += 1;
        self.oracle.drop_space(slot);
        for walker in &mut self.walkers {
            if walker.as_ref().is_some_and(|walker| walker.space == slot) {
                *walker = None;
            }
        }
        succeeded(done)
    }

    /// Makes a checkpoint, opens it, and compares all that it holds.
    fn checkpoint(&mut self) -> Checked {
        succeeded(self.db().checkpoint(CHECKPOINT_DIR))?;
        {
            let options = self.setting.options(Arc::new(self.fs.clone()), self.clock.clone());
            let copy = succeeded(options.open(CHECKPOINT_DIR))?;
            for slot in 0..self.setting.spaces.len() {
                if !self.oracle.has(slot) {
                    continue;
                }
                let options = self.setting.spaces[slot].options();
                let handle = succeeded(copy.keyspace_with(&self.setting.space_name(slot), options))?;
                let expected = self.oracle.scan(slot, .., self.oracle.moment());
                scan(handle.iter(), &expected, slot % 2 == 1, usize::MAX, &mut self.digest)
                    .map_err(|what| format!("checkpoint, keyspace {slot}: {what}"))?;
            }
            succeeded(copy.close())?;
        }
        for name in succeeded(self.fs.list_dir(Path::new(CHECKPOINT_DIR)))? {
            succeeded(self.fs.remove_file(&PathBuf::from(CHECKPOINT_DIR).join(name)))?;
        }
        Ok(())
    }

    fn verify(&mut self) -> Checked {
        let report = succeeded(self.db().verify())?;
        if report.problems.is_empty() { Ok(()) } else { Err(format!("damaged: {:?}", report.problems)) }
    }

    /// Every keyspace from both ends.
    fn compare_all(&mut self) -> Checked {
        for space in 0..self.setting.spaces.len() {
            for backward in [false, true] {
                self.scan(&View::Live {}, space, &Bounds::All {}, backward, false, usize::MAX)
                    .map_err(|what| format!("whole keyspace {space}, backward {backward}: {what}"))?;
            }
        }
        Ok(())
    }
}

/// What a point read asks for.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Asked {
    Value,
    Copy,
    Presence,
}

/// An error that the engine must give.
#[derive(Clone, Copy, Debug)]
pub(super) enum Refusal {
    NoKeyspace,
    Invalid,
}

impl Refusal {
    pub(super) fn expected<T>(self, done: solera::Result<T>) -> Checked {
        match (self, done) {
            (Refusal::NoKeyspace, Err(Error::NoKeyspace(_))) | (Refusal::Invalid, Err(Error::Invalid(_))) => {
                Ok(())
            }
            (_, Ok(_)) => Err(format!("succeeded, expected {self:?}")),
            (_, Err(error)) => Err(format!("{error}, expected {self:?}")),
        }
    }
}

/// The value, or the error as text.
pub(super) fn succeeded<T>(done: solera::Result<T>) -> Checked<T> {
    done.map_err(|error| format!("failed: {error}"))
}

//! A script lived once, with the disk kept as a power cut at each file operation would find it:
//! `Life`, of `Cut`s.
//!
//! `Life::of` runs the script on a `MemFs` that records cuts, from one operation of the script on.
//! A `Cut` has the disk, and what a recovery may give (`Allowed`). It also has the changes of knobs
//! and each `Checkpoint` that were begun, and which of them were acknowledged. `act` does one
//! operation, `contents` reads everything.
//!
//! What must hold: each cut counts as acknowledged only what was so before its file operation.
//!
//! Callers: `crash::mod` opens the cuts; `faults::world` uses `act`, `open_space` and `contents`;
//! `crash::history` uses `NOW_MS`.

use super::history::{Allowed, Commit, Contents, commit_of};
use crate::{
    oracle,
    script::{Operation, Script},
    setting::Setting,
    tell::Work,
    tuner::{self, DEFAULT, Tuner},
    tuning,
};
use solera::{Db, Durability, Keyspace, ManualClock, control::Receipt, vfs::mem::MemFs};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Where the database lies.
pub(crate) const DIR: &str = "/db";
/// When it lives.
pub(crate) const NOW_MS: u64 = 1_700_000_000_000;

/// A checkpoint that was begun.
#[derive(Clone, Debug)]
pub(crate) struct Checkpoint {
    pub(crate) dir: PathBuf,
    /// Commits before it.
    pub(crate) commits: usize,
    pub(crate) acknowledged: bool,
}

/// The power fails during one file operation.
pub(crate) struct Cut {
    /// What is on the disk then.
    pub(crate) fs: MemFs,
    /// The operation of the script that it interrupts; `None` in the first open.
    pub(crate) during: Option<usize>,
    /// What the recovery may give, if it is of the disk alone and not of the process.
    pub(crate) allowed: Allowed,
    pub(crate) checkpoints: Arc<Vec<Checkpoint>>,
    /// Changes of knobs that were begun, and how many of them were acknowledged.
    pub(crate) receipts: Arc<Vec<Receipt>>,
    pub(crate) receipts_acknowledged: usize,
}

impl Cut {
    /// Whether changes of knobs that a recovery found are those that were acknowledged, and perhaps
    /// the one under way.
    pub(crate) fn remembers(&self, found: &[Receipt]) -> Result<(), String> {
        let (low, high) = (self.receipts_acknowledged, self.receipts.len());
        if (low..=high).contains(&found.len()) && self.receipts.starts_with(found) {
            return Ok(());
        }
        Err(format!("of {:?}, {low} of them acknowledged, {found:?} are found", self.receipts))
    }
}

/// A life and every power cut that could have ended it.
pub(crate) struct Life {
    fs: MemFs,
    pub(crate) cuts: Vec<Cut>,
    during: Option<usize>,
    /// Commits begun, acknowledged, and acknowledged as durable.
    issued: usize,
    acknowledged: usize,
    durable: usize,
    checkpoints: Arc<Vec<Checkpoint>>,
    receipts: Arc<Vec<Receipt>>,
    receipts_acknowledged: usize,
    tuner: Option<Tuner>,
    pub(crate) work: Work,
}

/// Options for a database on these files.
pub(crate) fn open_at(setting: &Setting, fs: &MemFs, dir: &str, create: bool) -> solera::Result<Db> {
    let clock = Arc::new(ManualClock::at_unix_ms(NOW_MS));
    setting.options(Arc::new(fs.clone()), clock).create_if_missing(create).open(dir)
}

pub(crate) fn open_space(setting: &Setting, db: &Db, slot: usize) -> solera::Result<Keyspace> {
    db.keyspace_with(&setting.space_name(slot), setting.spaces[slot].options())
}

impl Life {
    /// Lives the script, on files that lie about syncs if `lying`. Cuts are kept from the operation
    /// `from` of the script on; 0 for the first open too.
    pub(crate) fn of(script: &Script, from: usize, lying: bool) -> Result<Life, String> {
        let mut life = Life {
            fs: MemFs::new(),
            cuts: Vec::new(),
            during: None,
            issued: 0,
            acknowledged: 0,
            durable: 0,
            checkpoints: Arc::default(),
            receipts: Arc::default(),
            receipts_acknowledged: 0,
            tuner: None,
            work: Work::default(),
        };
        life.fs.lie(lying);
        life.lived(script, from)?;
        Ok(life)
    }

    /// Takes what was recorded since the last time; all of it was done before what is done now was
    /// acknowledged.
    fn take_cuts(&mut self) {
        let allowed = Allowed { low: self.durable, acknowledged: self.acknowledged, high: self.issued };
        let cuts = self.fs.take_cuts().into_iter();
        let checkpoints = &self.checkpoints;
        let during = self.during;
        let (receipts, receipts_acknowledged) = (&self.receipts, self.receipts_acknowledged);
        self.cuts.extend(cuts.map(|fs| Cut {
            fs,
            during,
            allowed,
            checkpoints: checkpoints.clone(),
            receipts: receipts.clone(),
            receipts_acknowledged,
        }));
    }

    fn lived(&mut self, script: &Script, from: usize) -> Result<(), String> {
        let text = |error: solera::Error| error.to_string();
        if from == 0 {
            self.fs.record_cuts(true);
        }
        let mut db = open_at(&script.setting, &self.fs, DIR, true).map_err(text)?;
        self.take_cuts();
        let mut spaces = BTreeMap::new();
        for slot in 0..script.setting.spaces.len() {
            self.issued += 1;
            spaces.insert(slot, open_space(&script.setting, &db, slot).map_err(text)?);
            self.take_cuts();
            self.acknowledged += 1;
            // Creations are durable by themselves.
            self.durable = self.acknowledged;
        }
        for (at, operation) in script.operations.iter().enumerate() {
            self.during = Some(at);
            if at == from {
                self.fs.record_cuts(true);
            }
            if let Operation::Reopen { .. } | Operation::Kill {} = operation {
                let slots: Vec<usize> = std::mem::take(&mut spaces).into_keys().collect();
                self.work.note(&db);
                if let Operation::Kill {} = operation {
                    // The old process goes on with files that no later process sees.
                    self.fs = self.fs.kill();
                    if at >= from {
                        self.fs.record_cuts(true);
                    }
                    self.tuner = None;
                    drop(db);
                } else {
                    db.close().map_err(text)?;
                    tuner::ended(self.tuner.take())?;
                }
                db = open_at(&script.setting, &self.fs, DIR, true).map_err(text)?;
                for slot in slots {
                    spaces.insert(slot, open_space(&script.setting, &db, slot).map_err(text)?);
                }
                self.take_cuts();
                // What was closed in order, or found by a recovery, is durable.
                self.durable = self.acknowledged;
                continue;
            }
            let there = spaces.keys().copied().collect();
            let commit = commit_of(operation, &script.setting, &there);
            let commits = usize::from(commit.is_some());
            self.issued += commits;
            let checkpoint = PathBuf::from(format!("/checkpoint-{}", self.checkpoints.len()));
            if let Operation::Checkpoint {} = operation {
                let begun = Checkpoint { dir: checkpoint.clone(), commits: self.issued, acknowledged: false };
                Arc::make_mut(&mut self.checkpoints).push(begun);
            }
            let durable = act(&script.setting, &db, &mut spaces, operation, commit.as_ref(), &checkpoint)
                .map_err(|error| format!("{operation}: {error}"))?;
            if let Operation::Look { agent } = operation {
                tuner::look(&db, DEFAULT, &mut self.tuner, *agent)?;
            }
            if let Operation::Tune { .. } | Operation::Look { .. } = operation {
                self.receipts = Arc::new(db.control().history());
            }
            self.take_cuts();
            self.receipts_acknowledged = self.receipts.len();
            self.acknowledged += commits;
            if durable {
                self.durable = self.acknowledged;
            }
            if let Operation::Checkpoint {} = operation {
                Arc::make_mut(&mut self.checkpoints).iter_mut().for_each(|one| one.acknowledged = true);
            }
        }
        self.work.note(&db);
        self.tuner = None;
        Ok(())
    }
}

/// Does one operation, but for what a tuner does; says whether it made itself, and so all before
/// it, durable.
///
/// `checkpoint` is where a checkpoint goes.
pub(crate) fn act(
    setting: &Setting,
    db: &Db,
    spaces: &mut BTreeMap<usize, Keyspace>,
    operation: &Operation,
    commit: Option<&Commit>,
    checkpoint: &Path,
) -> solera::Result<bool> {
    let slot = |space: u8| usize::from(space) % setting.spaces.len();
    match operation {
        Operation::Write { change } if commit.is_some() => {
            change.commit(setting, &spaces[&change.slot(setting)])?;
            Ok(setting.sync)
        }
        Operation::Batch { sync, changes } if commit.is_some() => {
            let mut batch = db.batch();
            if *sync {
                batch.durability(Durability::Sync);
            }
            for change in changes {
                change.add_to(&mut batch, setting, &spaces[&change.slot(setting)])?;
            }
            db.write(batch)?;
            Ok(*sync || setting.sync)
        }
        Operation::Ingest { space, .. } => {
            if let Some(Commit::Changes(changes)) = commit {
                let pairs = changes.iter().filter_map(|(_, change)| match change {
                    oracle::Change::Put { key, value, .. } => Some((key, value)),
                    _ => None,
                });
                spaces[&slot(*space)].ingest(pairs)?;
            }
            Ok(commit.is_some())
        }
        Operation::DropSpace { .. } | Operation::CreateSpace { .. } => {
            match commit {
                Some(Commit::Drop(slot)) => {
                    db.drop_keyspace(&setting.space_name(*slot))?;
                    spaces.remove(slot);
                }
                Some(Commit::Create(slot)) => {
                    spaces.insert(*slot, open_space(setting, db, *slot)?);
                }
                _ => {}
            }
            Ok(false)
        }
        Operation::Flush { space } => {
            spaces.get(&slot(*space)).map_or(Ok(()), Keyspace::flush)?;
            Ok(false)
        }
        Operation::FlushAll {} => db.flush().map(|()| true),
        Operation::Sync {} => db.sync().map(|()| true),
        Operation::Compact { space, start, end } if !oracle::empty(start.bound(), end.bound()) => {
            if let Some(space) = spaces.get(&slot(*space)) {
                space.compact_range((start.bound(), end.bound()))?;
            }
            Ok(false)
        }
        Operation::Step { times } => {
            for _ in 0..*times {
                db.step()?;
            }
            Ok(false)
        }
        Operation::Idle {} => db.wait_idle().map(|()| false),
        Operation::Tune { seed } => tuning::turn(db, *seed).map(|_| false),
        Operation::Checkpoint {} => db.checkpoint(checkpoint).map(|()| false),
        Operation::Get { space, key, .. } => {
            spaces.get(&slot(*space)).map_or(Ok(None), |space| space.get(key))?;
            Ok(false)
        }
        _ => Ok(false),
    }
}

/// Everything that the database holds.
pub(crate) fn contents(setting: &Setting, db: &Db) -> solera::Result<Contents> {
    let mut contents = Contents::new();
    let names = db.keyspaces();
    for slot in 0..setting.spaces.len() {
        if names.contains(&setting.space_name(slot)) {
            let space = open_space(setting, db, slot)?;
            let pairs: solera::Result<_> =
                space.iter().map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec()))).collect();
            contents.insert(slot, Arc::new(pairs?));
        }
    }
    Ok(contents)
}

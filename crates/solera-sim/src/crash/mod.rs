//! Power cuts: a script is lived again and again, the power failing at every single file operation, and
//! what the machine may wake up with is opened and compared.
//!
//! Owns [`Sweep`]. After a cut, the database must open; what it holds must be what some prefix of the
//! commit order made (so no batch is ever half there), and the prefix must reach every commit that was
//! acknowledged as durable. Then the power fails once more inside the recovery itself, the database is
//! opened again, written to, cut off with nothing unsynced kept, and opened a third time.
//!
//! Called by the `crashsim` program and by the tests.

mod history;

use crate::{
    life::caught,
    oracle,
    random::Random,
    script::{Operation, Script},
    setting::Setting,
    tell::Work,
};
use history::{Commit, Contents, History};
use solera::{
    Db, Durability, Keyspace, ManualClock,
    vfs::{
        Fs,
        mem::{MemFs, Persist},
    },
};
use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

const DIR: &str = "/db";
const NOW_MS: u64 = 1_700_000_000_000;

/// What a sweep has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sweep {
    /// Places at which the power was cut.
    pub cuts: u64,
    /// Images opened after a cut.
    pub states: u64,
    /// Of these, images opened again after a cut inside the recovery.
    pub recovery_crashes: u64,
    /// What the engine did in the life that no cut interrupted.
    pub work: Work,
}

/// A promise that was not kept.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The file operation, counted from 0, at which the power was cut.
    pub cut: u64,
    /// What was kept of unsynced changes.
    pub persist: Persist,
    /// The operation of the script that the cut interrupted.
    pub operation: String,
    /// What was found.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "power cut at file operation {} (in `{}`), kept {:?}: {}",
            self.cut, self.operation, self.persist, self.what
        )
    }
}

impl Sweep {
    /// Adds what another sweep has seen.
    pub fn add(&mut self, other: &Sweep) {
        self.cuts += other.cuts;
        self.states += other.states;
        self.recovery_crashes += other.recovery_crashes;
        self.work.add(&other.work);
    }

    /// Cuts the power at every file operation of the script's life, `variants` ways each.
    pub fn run(script: &Script, variants: &[Persist], seed: u64) -> Result<Sweep, Violation> {
        let mut sweep = Sweep::default();
        let history = History::of(script);
        for cut in 0.. {
            let violated = |life: &Life, persist, what| Violation {
                cut,
                persist,
                operation: script.operations.get(life.reached).map_or("open".to_owned(), ToString::to_string),
                what,
            };
            let life = caught(|| Life::until(script, cut)).map_err(|what| Violation {
                cut,
                persist: Persist::Everything,
                operation: String::new(),
                what: format!("before the cut: {what}"),
            })?;
            if !life.fs.crashed() {
                sweep.work = life.work;
                break;
            }
            sweep.cuts += 1;
            for &persist in variants {
                let mut random = Random::new(seed ^ cut.rotate_left(20) ^ (sweep.states << 40));
                caught(|| sweep.check(script, &history, &life, persist, &mut random))
                    .map_err(|what| violated(&life, persist, what))?;
            }
        }
        Ok(sweep)
    }

    fn check(
        &mut self,
        script: &Script,
        history: &History,
        life: &Life,
        persist: Persist,
        random: &mut Random,
    ) -> Result<(), String> {
        let image = life.fs.crash(persist, random.next());
        // An image survives its recovery, because `crash` copies: so the recovery can be cut as well.
        let twin = image.crash(Persist::Everything, 0);
        let low = if persist == Persist::Everything { life.acknowledged } else { life.durable };
        let allowed = history.allowed(low, life.issued);
        let found = self.recover(script, &image, history, life, allowed)?;

        let recovery_operations = image.operations();
        if recovery_operations > 0 {
            twin.crash_after(random.below(recovery_operations));
            // It fails, or it succeeds because only tidying was interrupted.
            drop(open(&script.setting, &twin));
            let again = twin.crash(persist, random.next());
            self.recovery_crashes += 1;
            self.recover(script, &again, history, life, allowed)
                .map_err(|what| format!("after a second cut inside the recovery: {what}"))?;
        }
        self.checkpoints(script, &image, history, life)?;
        go_on(script, &image, found)
    }

    /// An acknowledged checkpoint opens and holds what it was made of; one that the cut interrupted does
    /// too or is refused.
    fn checkpoints(
        &mut self,
        script: &Script,
        image: &MemFs,
        history: &History,
        life: &Life,
    ) -> Result<(), String> {
        for (dir, commits, acknowledged) in &life.checkpoints {
            match open_at(&script.setting, image, dir, false) {
                Ok(db) => {
                    self.states += 1;
                    let found = contents(&script.setting, &db)?;
                    if found != *history.after(*commits) {
                        let why = history::explain(&found, &[history.after(*commits).clone()]);
                        return Err(format!("checkpoint {}: {why}", dir.display()));
                    }
                }
                Err(error) if *acknowledged => {
                    return Err(format!("checkpoint {} does not open: {error}", dir.display()));
                }
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Opens an image and finds the prefix that it holds.
    fn recover(
        &mut self,
        script: &Script,
        image: &MemFs,
        history: &History,
        life: &Life,
        allowed: &[Contents],
    ) -> Result<Contents, String> {
        self.states += 1;
        let db = open(&script.setting, image).map_err(|error| format!("cannot open: {error}"))?;
        let found = contents(&script.setting, &db)?;
        history.keyspaces_agree(&found, life.acknowledged, life.issued)?;
        if !allowed.iter().any(|state| history::agrees(state, &found)) {
            return Err(history::explain(&found, allowed));
        }
        Ok(found)
    }
}

/// A life up to a power cut.
struct Life {
    fs: MemFs,
    /// The operation that the cut interrupted; past the end if none was.
    reached: usize,
    /// Commits begun, acknowledged, and acknowledged as durable.
    issued: usize,
    acknowledged: usize,
    durable: usize,
    /// Checkpoints begun: their directory, the commits before them, and whether they were acknowledged.
    checkpoints: Vec<(PathBuf, usize, bool)>,
    work: Work,
}

impl Life {
    /// Lives the script until the file operation `cut` fails; an error that comes before that is one.
    fn until(script: &Script, cut: u64) -> Result<Life, String> {
        let fs = MemFs::new();
        fs.crash_after(cut);
        let mut life = Life {
            fs,
            reached: usize::MAX,
            issued: 0,
            acknowledged: 0,
            durable: 0,
            checkpoints: Vec::new(),
            work: Work::default(),
        };
        match life.lived(script) {
            Err(what) if !life.fs.crashed() => Err(what),
            _ => Ok(life),
        }
    }

    fn lived(&mut self, script: &Script) -> Result<(), String> {
        let text = |error: solera::Error| error.to_string();
        let mut db = open(&script.setting, &self.fs).map_err(text)?;
        let mut spaces = BTreeMap::new();
        for slot in 0..script.setting.spaces.len() {
            self.issued += 1;
            spaces.insert(slot, open_space(&script.setting, &db, slot).map_err(text)?);
            self.acknowledged += 1;
        }
        // Creations are durable by themselves.
        self.durable = self.acknowledged;
        for (at, operation) in script.operations.iter().enumerate() {
            self.reached = at;
            if matches!(operation, Operation::Reopen { .. } | Operation::Kill {}) {
                let slots: Vec<usize> = std::mem::take(&mut spaces).into_keys().collect();
                self.work.note(&db);
                if let Operation::Kill {} = operation {
                    // The old process goes on with files that nobody sees.
                    self.fs = self.fs.kill();
                    drop(db);
                } else {
                    db.close().map_err(text)?;
                }
                db = open(&script.setting, &self.fs).map_err(text)?;
                for slot in slots {
                    spaces.insert(slot, open_space(&script.setting, &db, slot).map_err(text)?);
                }
                // What was closed in order, or found by a recovery, is durable.
                self.durable = self.acknowledged;
                continue;
            }
            let there = spaces.keys().copied().collect();
            let commit = history::commit_of(operation, &script.setting, &there);
            let commits = usize::from(commit.is_some());
            self.issued += commits;
            let durable = self
                .act(&script.setting, &db, &mut spaces, operation, commit.as_ref())
                .map_err(|error| format!("{operation}: {error}"))?;
            self.acknowledged += commits;
            if durable {
                self.durable = self.acknowledged;
            }
            if self.fs.crashed() {
                return Ok(());
            }
        }
        self.reached = script.operations.len();
        self.work.note(&db);
        Ok(())
    }

    /// Does one operation; says whether it made itself, and so all before it, durable.
    fn act(
        &mut self,
        setting: &Setting,
        db: &Db,
        spaces: &mut BTreeMap<usize, Keyspace>,
        operation: &Operation,
        commit: Option<&Commit>,
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
            Operation::DropSpace { .. } => {
                if let Some(Commit::Drop(slot)) = commit {
                    db.drop_keyspace(&setting.space_name(*slot))?;
                    spaces.remove(slot);
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
                    space.compact_range::<&[u8]>((start.bound(), end.bound()))?;
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
            Operation::Checkpoint {} => {
                let dir = PathBuf::from(format!("/checkpoint-{}", self.reached));
                self.checkpoints.push((dir.clone(), self.issued, false));
                db.checkpoint(&dir)?;
                if let Some(last) = self.checkpoints.last_mut() {
                    last.2 = true;
                }
                Ok(false)
            }
            _ => Ok(false),
        }
    }
}

fn open(setting: &Setting, fs: &MemFs) -> solera::Result<Db> {
    open_at(setting, fs, Path::new(DIR), true)
}

fn open_at(setting: &Setting, fs: &MemFs, dir: &Path, create: bool) -> solera::Result<Db> {
    let clock = Arc::new(ManualClock::at_unix_ms(NOW_MS));
    setting.options(Arc::new(fs.clone()), clock).create_if_missing(create).open(dir)
}

fn open_space(setting: &Setting, db: &Db, slot: usize) -> solera::Result<Keyspace> {
    db.keyspace_with(&setting.space_name(slot), setting.spaces[slot].options())
}

/// Everything that the database holds.
fn contents(setting: &Setting, db: &Db) -> Result<Contents, String> {
    let text = |error: solera::Error| error.to_string();
    let mut contents = Contents::new();
    let names = db.keyspaces();
    for slot in 0..setting.spaces.len() {
        if names.contains(&setting.space_name(slot)) {
            let space = open_space(setting, db, slot).map_err(text)?;
            let pairs: solera::Result<_> =
                space.iter().map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec()))).collect();
            contents.insert(slot, pairs.map_err(text)?);
        }
    }
    Ok(contents)
}

/// Writes to a recovered database, cuts the power with nothing unsynced kept, and opens it again.
fn go_on(script: &Script, image: &MemFs, mut expected: Contents) -> Result<(), String> {
    let text = |error: solera::Error| format!("after the recovery: {error}");
    {
        let db = open(&script.setting, image).map_err(text)?;
        let mut batch = db.batch();
        batch.durability(Durability::Sync);
        for (slot, pairs) in &mut expected {
            let space = open_space(&script.setting, &db, *slot).map_err(text)?;
            batch.put(&space, b"after the cut", b"12345678").map_err(text)?;
            pairs.insert(b"after the cut".to_vec(), b"12345678".to_vec());
        }
        db.write(batch).map_err(text)?;
        while db.step().map_err(text)? {}
        db.verify().map_err(text)?;
    }
    let image = image.crash(Persist::Nothing, 0);
    let found = contents(&script.setting, &open(&script.setting, &image).map_err(text)?)?;
    if found != expected {
        return Err(format!("after writing on: {}", history::explain(&found, &[expected])));
    }
    let report =
        solera::inspect::check(&(Arc::new(image.clone()) as Arc<dyn Fs>), Path::new(DIR)).map_err(text)?;
    if report.problems.is_empty() {
        Ok(())
    } else {
        Err(format!("damaged after writing on: {:?}", report.problems))
    }
}

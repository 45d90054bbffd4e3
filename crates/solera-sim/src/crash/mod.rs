//! Power cuts: `Sweep::run` opens what the machine may wake up with after a cut at every file
//! operation of a script's life. `Plan` says where the cuts begin and what may be kept.
//!
//! What must hold after each cut: the database opens with what some prefix of the commit order
//! made, so no batch is half there. The prefix reaches every commit acknowledged as durable.
//! Keyspaces and changes of knobs (receipts) reach what was acknowledged. An acknowledged
//! checkpoint opens with what it was made of. A tuner that was at work goes on. Then the database
//! is written to, cut, and opened again. The power also fails inside recoveries. An image that was
//! met before is not opened again, but compared with what this cut allows. What breaks these rules
//! is a `Violation`. `Lies` tries devices that lie about syncs, where only a panic counts.
//! Callers: `program::crashsim`; `main.rs` (`replay --crash`); `tests/lives.rs` and
//! `tests/found.rs`.

pub(crate) mod history;
pub(crate) mod life;

use crate::{
    digest::Digest,
    life::caught,
    random::Random,
    script::{Operation, Script},
    tell::Work,
    tuner, tuning,
};
use history::{Allowed, Contents, History, differences};
use life::{Checkpoint, Cut, DIR, Life, contents, open_at, open_space};
use solera::{
    Db, Durability,
    control::Receipt,
    vfs::{
        Fs,
        mem::{MemFs, Persist},
    },
};
use std::{
    collections::{HashMap, HashSet},
    fmt,
    path::Path,
    sync::Arc,
};

/// Recoveries of recoveries that the power may interrupt.
const RECOVERY_CRASHES_MAX: u32 = 2;

/// Which power cuts to try.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'p> {
    /// What may be kept of unsynced changes.
    pub variants: &'p [Persist],
    /// Images made of each cut by a variant that chance has a part in.
    pub draws: u32,
    /// The operation of the script at which the cuts begin; 0: the first open.
    pub from: usize,
    /// Chance.
    pub seed: u64,
}

/// What a sweep has seen.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// Places at which the power was cut.
    pub cuts: u64,
    /// Images opened that differ from all others, by their digest.
    pub states: HashSet<u64>,
    /// Images that had been met before.
    pub duplicates: u64,
    /// Power cuts inside a recovery.
    pub recovery_crashes: u64,
    /// What the engine did in the life that no cut interrupted.
    pub work: Work,
    /// Changes of knobs in that life.
    pub changes: u64,
    /// Recovered databases on which a tuner went on.
    pub tuned: u64,
    /// Of all states and what they held, in whatever order they came.
    pub digest: u64,
}

/// A promise that was not kept.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The file operation, counted from 0 where the sweep begins, at which the power was cut.
    pub cut: usize,
    /// What was kept of unsynced changes; `None` if the life itself went wrong.
    pub persist: Option<Persist>,
    /// The operation of the script that the cut interrupted.
    pub operation: String,
    /// What was found.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.persist {
            Some(persist) => write!(
                f,
                "power cut at file operation {} (in `{}`), kept {persist:?}: {}",
                self.cut, self.operation, self.what
            ),
            None => write!(f, "before any cut: {}", self.what),
        }
    }
}

impl fmt::Display for Sweep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cuts, {} states, {} duplicates", self.cuts, self.states.len(), self.duplicates)
    }
}

impl Sweep {
    /// Adds what another sweep has seen.
    pub fn add(&mut self, other: Sweep) {
        self.cuts += other.cuts;
        let images = other.states.len();
        let before = self.states.len();
        self.states.extend(other.states);
        self.duplicates += other.duplicates + (before + images - self.states.len()) as u64;
        self.recovery_crashes += other.recovery_crashes;
        self.work.add(&other.work);
        self.changes += other.changes;
        self.tuned += other.tuned;
        self.digest = self.digest.wrapping_add(other.digest);
    }

    /// Cuts the power at every file operation of the script's life.
    pub fn run(script: &Script, plan: Plan<'_>) -> Result<Sweep, Violation> {
        let history = History::of(script);
        let of_life = |what| Violation { cut: 0, persist: None, operation: String::new(), what };
        let life = caught(|| Life::of(script, plan.from, false)).map_err(of_life)?;
        let changes = life.cuts.last().map_or(0, |cut| cut.receipts.len() as u64);
        let mut sweep = Sweep { work: life.work, cuts: life.cuts.len() as u64, changes, ..Sweep::default() };
        let mut swept = Swept { script, history: &history, sweep: &mut sweep, known: HashMap::new() };
        for (nth, cut) in life.cuts.iter().enumerate() {
            let mut random = Random::new(plan.seed ^ (nth as u64) << 20);
            for &persist in plan.variants {
                for _ in 0..if persist.is_random() { plan.draws } else { 1 } {
                    caught(|| swept.cut(cut, persist, plan.variants, &mut random)).map_err(|what| {
                        let operation = cut.during.and_then(|at| script.operations.get(at));
                        Violation {
                            cut: nth,
                            persist: Some(persist),
                            operation: operation.map_or("open".to_owned(), Operation::to_string),
                            what,
                        }
                    })?;
                }
            }
        }
        Ok(sweep)
    }
}

/// What a device that lies about syncs makes of a life. Nothing is promised on one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lies {
    /// Images opened.
    pub states: u64,
    /// Of these, images that the database refused to open or to read.
    pub refused: u64,
    /// Images whose content was less than was acknowledged, or none that ever was.
    pub lost: u64,
}

impl Lies {
    /// Cuts the power at every `stride`-th file operation of the script's life on a device that
    /// lies. A panic is all that can be held against the engine.
    pub fn run(script: &Script, plan: Plan<'_>, stride: usize) -> Result<Lies, String> {
        let history = History::of(script);
        let life = caught(|| Life::of(script, plan.from, true))?;
        let mut lies = Lies::default();
        for (nth, cut) in life.cuts.iter().enumerate().step_by(stride) {
            for &persist in plan.variants {
                let image = cut.fs.crash(persist, plan.seed ^ (nth as u64) << 20);
                image.lie(false);
                let seen = caught(|| {
                    let db = open_at(&script.setting, &image, DIR, true);
                    Ok(db.and_then(|db| contents(&script.setting, &db)))
                });
                lies.states += 1;
                match seen.map_err(|panic| format!("{persist:?} on a lying device: {panic}"))? {
                    Err(_) => lies.refused += 1,
                    Ok(found) => lies.lost += u64::from(history.allows(&found, cut.allowed).is_err()),
                }
            }
        }
        Ok(lies)
    }
}

/// A sweep under way.
struct Swept<'s> {
    script: &'s Script,
    history: &'s History,
    sweep: &'s mut Sweep,
    /// What each image met so far held; checkpoints that must open in one may be torn in another.
    known: HashMap<(u64, usize), (Contents, Vec<Receipt>)>,
}

impl Swept<'_> {
    fn cut(
        &mut self,
        cut: &Cut,
        persist: Persist,
        variants: &[Persist],
        random: &mut Random,
    ) -> Result<(), String> {
        let mut allowed = cut.allowed;
        if persist == Persist::Everything {
            allowed.low = allowed.acknowledged;
        }
        let mut image = cut.fs.crash(persist, random.next());
        for depth in 0..=RECOVERY_CRASHES_MAX {
            let context = |what| match depth {
                0 => what,
                _ => format!("after cut {depth} inside the recovery: {what}"),
            };
            let recovery = self.state(&image, allowed, cut).map_err(context)?;
            if recovery.is_empty() || depth == RECOVERY_CRASHES_MAX {
                break;
            }
            self.sweep.recovery_crashes += 1;
            image = random.pick(&recovery).crash(*random.pick(variants), random.next());
        }
        Ok(())
    }

    /// Opens an image and compares; gives what power cuts during the recovery would find, unless
    /// the image is an old acquaintance.
    fn state(&mut self, image: &MemFs, allowed: Allowed, cut: &Cut) -> Result<Vec<MemFs>, String> {
        let setting = &self.script.setting;
        let digest = digest(image)?;
        let checkpoints = &cut.checkpoints;
        let must_open = checkpoints.iter().filter(|one| one.acknowledged).count();
        if let Some((found, receipts)) = self.known.get(&(digest, must_open)) {
            self.sweep.duplicates += 1;
            cut.remembers(receipts)?;
            return self.history.allows(found, allowed).map(|()| Vec::new());
        }
        self.sweep.states.insert(digest);
        image.record_cuts(true);
        let db = open_at(setting, image, DIR, true).map_err(|error| format!("cannot open: {error}"))?;
        let recovery = image.take_cuts();
        image.record_cuts(false);
        let found = contents(setting, &db).map_err(|error| error.to_string())?;
        self.history.allows(&found, allowed)?;
        let receipts = db.control().history();
        cut.remembers(&receipts)?;
        tuning::kept(&db, &receipts)?;
        tuner::agrees(image, Path::new(DIR), &receipts)?;
        let mut of_state = Digest::new();
        of_state.add(&digest.to_le_bytes());
        found.values().flat_map(|pairs| pairs.iter()).for_each(|(key, value)| {
            of_state.add(key);
            of_state.add(value);
        });
        self.sweep.digest = self.sweep.digest.wrapping_add(of_state.0);
        self.known.insert((digest, must_open), (found.clone(), receipts));
        for checkpoint in checkpoints.iter() {
            self.checkpoint(image, checkpoint)?;
        }
        self.tune_on(&db, cut)?;
        self.go_on(db, image, found)?;
        Ok(recovery)
    }

    /// Where a tuner was at work in the life, it goes on, and nothing that was open then is.
    fn tune_on(&mut self, db: &Db, cut: &Cut) -> Result<(), String> {
        let done = cut.during.map_or(&[][..], |during| &self.script.operations[..=during]);
        let agent = done.iter().rev().find_map(|operation| match operation {
            Operation::Look { agent } => Some(*agent),
            _ => None,
        });
        let Some(agent) = agent else { return Ok(()) };
        self.sweep.tuned += 1;
        let mut goes_on = None;
        tuner::look(db, tuner::DEFAULT, &mut goes_on, agent)
            .map_err(|what| format!("after the recovery: {what}"))?;
        drop(goes_on);
        let control = db.control();
        tuner::agrees(&*control.fs(), &control.dir(), &control.history())
            .map_err(|what| format!("once the tuner has gone on: {what}"))
    }

    /// An acknowledged checkpoint opens and holds what it was made of; one that the cut interrupted
    /// does too or is refused.
    fn checkpoint(&self, image: &MemFs, checkpoint: &Checkpoint) -> Result<(), String> {
        let dir = checkpoint.dir.display();
        let opened = open_at(&self.script.setting, image, &dir.to_string(), false);
        let found = match opened {
            Ok(db) => contents(&self.script.setting, &db)
                .map_err(|error| format!("checkpoint {dir} cannot be read: {error}"))?,
            Err(error) if checkpoint.acknowledged => {
                return Err(format!("checkpoint {dir} does not open: {error}"));
            }
            Err(_) => return Ok(()),
        };
        if found == *self.history.after(checkpoint.commits) {
            return Ok(());
        }
        let why = self.history.explain(&found, checkpoint.commits..=checkpoint.commits);
        Err(format!("checkpoint {dir}: {why}"))
    }

    /// Writes to a recovered database, cuts the power with nothing unsynced kept, and opens it
    /// again.
    fn go_on(&self, db: Db, image: &MemFs, mut expected: Contents) -> Result<(), String> {
        let setting = &self.script.setting;
        let text = |error: solera::Error| format!("after the recovery: {error}");
        let mut batch = db.batch();
        batch.durability(Durability::Sync);
        for (slot, pairs) in &mut expected {
            let space = open_space(setting, &db, *slot).map_err(text)?;
            batch.put(&space, b"after the cut", b"12345678").map_err(text)?;
            Arc::make_mut(pairs).insert(b"after the cut".to_vec(), b"12345678".to_vec());
        }
        db.write(batch).map_err(text)?;
        while db.step().map_err(text)? {}
        let image = image.crash(Persist::Nothing, 0);
        drop(db);
        let db = open_at(setting, &image, DIR, true).map_err(text)?;
        let found = contents(setting, &db).map_err(text)?;
        if found != expected {
            let (count, example) = differences(&found, &expected);
            return Err(format!("after writing on: {count} keys differ: {example}"));
        }
        drop(db);
        let fs: Arc<dyn Fs> = Arc::new(image);
        let report = solera::inspect::check(&fs, Path::new(DIR)).map_err(text)?;
        if report.problems.is_empty() {
            return Ok(());
        }
        Err(format!("damaged after writing on: {:?}", report.problems))
    }
}

/// Of every name and every byte.
fn digest(image: &MemFs) -> Result<u64, String> {
    let mut digest = Digest::new();
    for path in image.files() {
        digest.add(path.as_os_str().as_encoded_bytes());
        digest.add(&image.content(&path).map_err(|error| error.to_string())?);
    }
    Ok(digest.0)
}

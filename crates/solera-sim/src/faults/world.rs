//! A database on failing files beside the history of what it acknowledged: `World`, which
//! `faults::live` steps through.
//!
//! `apply` does one operation and reckons with what was hit by it. It heals the files when it is
//! time, and probes whether writes go on or are refused. `finish` does the work that is left, and
//! compares what the next process finds, after a power cut too.
//!
//! What must hold: every error has its excuse in a call that was made to fail. A worker's may be
//! told up to ten seconds later. If the first call that failed synced a log in use or the manifest,
//! writes are refused.
//!
//! Caller: `faults::mod`.

use super::{Outcome, Plan};
use crate::{
    crash::{
        history::{Allowed, Commit, Contents, History, commit_of, differences},
        life::{DIR, NOW_MS, act, contents, open_space},
    },
    digest::Digest,
    random::Random,
    script::{Operation, Script, Value},
    setting::Setting,
};
use solera::{
    Db, Durability, Error, Keyspace, ManualClock,
    clock::{Clock, SystemClock},
    dir::FileName,
    frame::FILE_HEADER_BYTES,
    vfs::{
        Fs,
        fault::{Call, Fault, FaultFs},
        mem::{MemFs, Persist},
    },
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// What an operation returns: which promise was broken, if one was.
type Checked<T = ()> = Result<T, String>;

/// Calls that fail until healed do so for as many operations.
const SICK_OPERATIONS: usize = 3;
/// What a write after the fault stores.
const PROBE_KEY: &[u8] = b"probe";
/// How long a database with threads may take until it refuses writes after one of them saw a sync
/// fail.
const REFUSAL_MS_MAX: u32 = 2_000;
/// How long after calls have healed a database with threads may tell of a failure, in nanoseconds:
/// a thread rests for two seconds, and then it needs a turn on a busy machine.
const TOLD_NS_MAX: u64 = 10_000_000_000;
/// Writes of which one must be taken once calls have healed, where threads have to try again first:
/// each is held for 90 ms, in which a busy machine may give them no turn. Together that is less
/// than the two seconds that they rest if nothing wakes them.
const PROBES_MAX: usize = 10;

pub(super) struct World<'s> {
    script: &'s Script,
    plan: Option<Plan>,
    memory: MemFs,
    fs: FaultFs,
    db: Option<Db>,
    spaces: BTreeMap<usize, Keyspace>,
    /// What was acknowledged.
    history: History,
    /// Of that, commits acknowledged as durable.
    durable: usize,
    /// The last commit that failed: if the database refuses writes, the next open may find it.
    doubtful: Option<Commit>,
    /// The database refuses writes.
    poisoned: bool,
    /// Operations left until the calls heal, once one was hit.
    sick: Option<usize>,
    /// Hits already reckoned with.
    hits: u64,
    clock: SystemClock,
    /// When the calls healed.
    healed_ns: u64,
    /// Hits before the present process began.
    hits_before: u64,
    checkpoints: usize,
    outcome: Outcome,
}

impl<'s> World<'s> {
    pub(super) fn new(script: &'s Script, plan: Option<Plan>) -> World<'s> {
        let memory = MemFs::new();
        let fs = FaultFs::new(Arc::new(memory.clone()));
        if let Some(plan) = plan {
            fs.inject(Fault {
                calls: plan.failing.calls.to_vec(),
                path_contains: String::new(),
                skip: plan.skip,
                times: if plan.sticky { u64::MAX } else { 1 },
                effect: plan.failing.effect,
            });
        }
        let mut history = History::new();
        history.push(&script.setting, &Commit::Create(0));
        World {
            script,
            plan,
            memory,
            fs,
            db: None,
            spaces: BTreeMap::new(),
            history,
            durable: 1,
            doubtful: None,
            poisoned: false,
            sick: None,
            hits: 0,
            clock: SystemClock::new(),
            healed_ns: 0,
            hits_before: 0,
            checkpoints: 0,
            outcome: Outcome::default(),
        }
    }

    fn setting(&self) -> &'s Setting {
        &self.script.setting
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("a database is open between operations")
    }

    fn try_open(&self, fs: Arc<dyn Fs>) -> solera::Result<Db> {
        let threads = self.plan.map_or(0, |plan| plan.background_threads);
        // Threads rest by the clock; without them nothing may depend on it.
        let clock: Arc<dyn Clock> = match threads {
            0 => Arc::new(ManualClock::at_unix_ms(NOW_MS)),
            _ => Arc::new(SystemClock::new()),
        };
        self.setting().options(fs, clock).background_threads(threads).open(DIR)
    }

    /// Opens the database and finds in it what was acknowledged. While calls fail it may refuse to
    /// open; it must open when they do no more.
    pub(super) fn open(&mut self) -> Checked {
        let opened = |world: &mut Self| -> solera::Result<Result<(Db, Contents), String>> {
            let db = world.try_open(Arc::new(world.fs.clone()))?;
            match contents(world.setting(), &db) {
                Ok(found) => Ok(Ok((db, found))),
                Err(error) if world.fs.hits() > world.hits => Err(error),
                Err(error) => Ok(Err(error.to_string())),
            }
        };
        let (db, found) = loop {
            self.hits_before = self.fs.hits();
            match opened(self) {
                Ok(read) => break read.map_err(|error| format!("opened, but cannot be read: {error}"))?,
                Err(error) if self.fs.hits() > self.hits_before => {
                    self.excused(&error)?;
                    self.heal();
                }
                Err(error) => return Err(format!("does not open, though nothing fails: {error}")),
            }
        };
        self.spaces.clear();
        self.poisoned = false;
        // A commit that failed before the database refused writes may be there after all.
        let without = self.history.len();
        if let Some(commit) = self.doubtful.take() {
            let mut with = self.history.clone();
            with.push(self.setting(), &commit);
            if with.allows(&found, Allowed::only(without + 1)).is_ok() {
                self.history = with;
            }
        }
        let last = self.history.len();
        self.history.allows(&found, Allowed::only(last)).map_err(|what| format!("after opening: {what}"))?;
        // What an open has found it has made durable.
        self.durable = last;
        for &slot in self.history.last().keys() {
            let space = open_space(self.setting(), &db, slot).map_err(|error| error.to_string())?;
            self.spaces.insert(slot, space);
        }
        self.db = Some(db);
        Ok(())
    }

    /// Whether an error has its excuse in a call that was made to fail.
    fn excused(&mut self, error: &Error) -> Checked {
        self.outcome.errors += 1;
        match error {
            Error::Poisoned(_) if self.may_refuse() => {
                self.poisoned = true;
                Ok(())
            }
            Error::Io { .. } if self.fs.hits() > self.hits || self.sick.is_some() => Ok(()),
            // A worker's failure is reported until the worker has rested and tried again.
            Error::Io { .. }
                if self.outcome.hit
                    && self.plan.is_some_and(|plan| plan.background_threads > 0)
                    && self.clock.monotonic_ns() < self.healed_ns + TOLD_NS_MAX =>
            {
                Ok(())
            }
            _ => Err(format!("failed: {error}; {} calls were made to fail", self.fs.hits())),
        }
    }

    /// Whether a call failed after which nothing is known of a file that matters: a sync; the
    /// removal of what a failed append left; the naming of another manifest.
    fn may_refuse(&self) -> bool {
        [Call::Sync, Call::SyncDir, Call::Truncate, Call::Rename]
            .iter()
            .any(|call| self.fs.hits_of(*call) > 0)
    }

    fn heal(&mut self) {
        self.fs.heal();
        self.healed_ns = self.clock.monotonic_ns();
        self.sick = None;
        self.hits = self.fs.hits();
        self.outcome.hit |= self.hits > 0;
    }

    /// Does one operation, and reckons with what was hit by it.
    pub(super) fn apply(&mut self, operation: &Operation) -> Checked {
        match operation {
            Operation::Reopen { .. } | Operation::Kill {} => {
                self.shut(matches!(operation, Operation::Kill {}))?;
                self.open()?;
            }
            Operation::Get { space, key, .. } => {
                if let Some(handle) = self.spaces.get(&self.slot(*space)) {
                    let found = handle.get(key).map(|value| value.map(|value| value.to_vec()));
                    let expected =
                        self.history.last().get(&self.slot(*space)).and_then(|pairs| pairs.get(&key.0));
                    match found {
                        Ok(found) if found.as_ref() == expected => {}
                        Ok(found) => return Err(format!("read {found:?}, not {expected:?}")),
                        Err(error) => self.excused(&error)?,
                    }
                }
            }
            Operation::Scan { space, backward, .. } => self.scan(self.slot(*space), *backward)?,
            _ => self.change(operation)?,
        }
        self.reckon()
    }

    fn slot(&self, space: u8) -> usize {
        usize::from(space) % self.setting().spaces.len()
    }

    fn change(&mut self, operation: &Operation) -> Checked {
        let there = self.history.last().keys().copied().collect();
        let commit = commit_of(operation, self.setting(), &there);
        let checkpoint = PathBuf::from(format!("/checkpoint-{}", self.checkpoints));
        self.checkpoints += usize::from(matches!(operation, Operation::Checkpoint {}));
        let db = self.db.as_ref().expect("a database is open between operations");
        let setting = self.setting();
        let done = act(setting, db, &mut self.spaces, operation, commit.as_ref(), &checkpoint);
        match done {
            Ok(durable) => {
                if let Some(commit) = commit {
                    self.acknowledged(&commit)?;
                }
                if durable {
                    self.durable = self.history.len();
                }
                Ok(())
            }
            Err(error) => {
                self.excused(&error)?;
                // What was refused because of an earlier failure was not begun.
                if !matches!(error, Error::Poisoned(_)) {
                    self.doubtful = commit.or(self.doubtful.take());
                }
                Ok(())
            }
        }
    }

    fn acknowledged(&mut self, commit: &Commit) -> Checked {
        if self.poisoned {
            return Err("acknowledged, though writes were refused before".to_owned());
        }
        self.history.push(self.setting(), commit);
        self.doubtful = None;
        Ok(())
    }

    /// A whole walk: right, or an error after which the iterator is silent. After a value that lies
    /// apart and cannot be read it may go on.
    fn scan(&mut self, slot: usize, backward: bool) -> Checked {
        let Some(handle) = self.spaces.get(&slot) else { return Ok(()) };
        let mut expected: Vec<_> = self.history.last()[&slot].iter().collect();
        if backward {
            expected.reverse();
        }
        let mut iter = handle.iter();
        let mut expected = expected.into_iter();
        loop {
            match (if backward { iter.next_back() } else { iter.next() }, expected.next()) {
                (None, None) => return Ok(()),
                (Some(Ok((key, value))), Some((own_key, own_value)))
                    if *key == own_key[..] && *value == own_value[..] => {}
                (Some(Err(error)), _) => {
                    if !is_of_a_value(&error) && (iter.next().is_some() || iter.next_back().is_some()) {
                        return Err(format!("an iterator goes on after {error}"));
                    }
                    return self.excused(&error);
                }
                (found, expected) => return Err(format!("a walk came to {found:?}, not {expected:?}")),
            }
        }
    }

    /// After an operation: heals when it is time, and then looks whether writes go on.
    fn reckon(&mut self) -> Checked {
        let Some(plan) = self.plan else { return Ok(()) };
        let fresh = self.fs.hits() > self.hits;
        if fresh && self.sick.is_none() {
            self.outcome.hit = true;
            self.must_refuse()?;
            self.sick = Some(if plan.sticky { SICK_OPERATIONS } else { 0 });
        }
        match &mut self.sick {
            None => Ok(()),
            Some(0) => {
                self.heal();
                self.probe(plan)
            }
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }

    /// After a failed sync of a log with something in it, or of the manifest that counts, writes
    /// are refused.
    fn must_refuse(&mut self) -> Checked {
        // What failed for another process was that one's matter.
        if self.hits_before > 0 {
            return Ok(());
        }
        let Some((Call::Sync, path)) = self.fs.first_hit() else { return Ok(()) };
        let in_use = path.parent() == Some(Path::new(DIR))
            && if path.extension().is_some_and(|extension| extension == "log") {
                let content = self.memory.content(&path).unwrap_or_default();
                content.iter().skip(FILE_HEADER_BYTES).any(|&byte| byte != 0)
            } else {
                self.is_current_manifest(&path)
            };
        if !in_use {
            return Ok(());
        }
        let threads = self.plan.is_some_and(|plan| plan.background_threads > 0);
        for _ in 0..if threads { REFUSAL_MS_MAX } else { 1 } {
            let (commit, value) = self.probing();
            match self.db().put(PROBE_KEY, &value) {
                Err(Error::Poisoned(_)) => return Ok(()),
                // The thread whose sync failed has not come to say so: that is between two of its
                // instructions, and as long as another one runs there. What is acknowledged until
                // then counts.
                Ok(()) if threads => self.acknowledged(&commit)?,
                outcome => {
                    return Err(format!("the sync of {} failed, then a write: {outcome:?}", path.display()));
                }
            }
            self.clock.sleep(Duration::from_millis(1));
        }
        Err(format!("writes go on {REFUSAL_MS_MAX} ms after the sync of {} failed", path.display()))
    }

    /// A value to probe with, and the commit that writes it.
    fn probing(&self) -> (Commit, Vec<u8>) {
        let value = Value { tag: self.history.len() as u32, len: 30 }.bytes();
        let change =
            crate::oracle::Change::Put { key: PROBE_KEY.to_vec(), value: value.clone(), expires_ms: None };
        (Commit::Changes(vec![(0, change)]), value)
    }

    /// Whether CURRENT names this file.
    fn is_current_manifest(&self, path: &Path) -> bool {
        let current = self.memory.content(&FileName::Current.in_dir(Path::new(DIR))).unwrap_or_default();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        String::from_utf8_lossy(&current).split(' ').any(|word| word == name)
    }

    /// A durable write after the calls have healed, without a reopening.
    fn probe(&mut self, plan: Plan) -> Checked {
        let (commit, value) = self.probing();
        let write = || {
            let mut batch = self.db().batch();
            batch.durability(Durability::Sync);
            batch.put(self.db().default(), PROBE_KEY, &value)?;
            self.db().write(batch)
        };
        let mut probed = write();
        for _ in 1..if plan.background_threads > 0 { PROBES_MAX } else { 1 } {
            if matches!(probed, Err(Error::Io { .. })) {
                probed = write();
            }
        }
        self.outcome.probed = true;
        match probed {
            Ok(_) => {
                self.acknowledged(&commit)?;
                self.durable = self.history.len();
                self.outcome.resumed = true;
                Ok(())
            }
            Err(Error::Poisoned(_)) if !plan.failing.space && self.may_refuse() => {
                self.poisoned = true;
                self.outcome.poisoned = true;
                Ok(())
            }
            Err(error) => Err(format!("the calls have healed, but writes do not resume: {error}")),
        }
    }

    /// Ends the process, in order or not.
    fn shut(&mut self, killed: bool) -> Checked {
        self.spaces.clear();
        let Some(db) = self.db.take() else { return Ok(()) };
        if killed {
            // The old process goes on with files that no later process sees.
            let memory = self.memory.kill();
            self.fs = self.fs.over(Arc::new(memory.clone()));
            self.memory = memory;
            drop(db);
            return Ok(());
        }
        match db.close() {
            Ok(()) if self.poisoned => Err("closed without an error, though writes were refused".to_owned()),
            Ok(()) => {
                self.durable = self.history.len();
                Ok(())
            }
            Err(error) => self.excused(&error),
        }
    }

    /// The end: all that can be read is right, the work that was left is done, and what the next
    /// process finds, after a power cut too, holds all that was acknowledged.
    pub(super) fn finish(mut self) -> Checked<Outcome> {
        self.heal();
        if let Some(plan) = self.plan.filter(|_| self.outcome.hit && !self.poisoned) {
            self.probe(plan)?;
        }
        let found = contents(self.setting(), self.db()).map_err(|error| format!("cannot read: {error}"))?;
        if found != *self.history.last() {
            let (count, example) = differences(&found, self.history.last());
            return Err(format!("{count} keys differ: {example}"));
        }
        match self.try_open(Arc::new(self.fs.clone())) {
            Err(Error::Locked { .. }) => {}
            outcome => return Err(format!("opened a second time: {outcome:?}")),
        }
        if !self.poisoned {
            self.idle()?;
        }
        let mut random = Random::new(self.plan.map_or(0, |plan| plan.skip));
        for persist in [Persist::Nothing, *random.pick(&Persist::ALL)] {
            let image = self.memory.crash(persist, random.next());
            self.image(image, self.durable).map_err(|what| format!("power cut, kept {persist:?}: {what}"))?;
        }
        let low = self.history.len();
        self.shut(true)?;
        self.image(self.memory.clone(), low).map_err(|what| format!("process killed: {what}"))?;
        Ok(self.outcome)
    }

    /// The work that is left is done, now that nothing fails.
    fn idle(&self) -> Checked {
        // A worker that failed rests for at most two seconds.
        for _ in 0..100 {
            match self.db().wait_idle() {
                Ok(()) => return Ok(()),
                Err(error) if self.plan.is_none_or(|plan| plan.background_threads == 0) => {
                    return Err(format!("background work does not resume: {error}"));
                }
                Err(_) => self.clock.sleep(Duration::from_millis(50)),
            }
        }
        Err("background work does not resume within five seconds".to_owned())
    }

    /// Opens what another process would find, and compares; `low` commits must be there.
    fn image(&mut self, image: MemFs, low: usize) -> Checked {
        let text = |error: Error| error.to_string();
        let mut history = self.history.clone();
        let acknowledged = history.len();
        if let Some(commit) = &self.doubtful {
            history.push(self.setting(), commit);
        }
        {
            let db =
                self.try_open(Arc::new(image.clone())).map_err(|error| format!("cannot open: {error}"))?;
            let found = contents(self.setting(), &db).map_err(text)?;
            history.allows(&found, Allowed { low, acknowledged, high: history.len() })?;
            let mut digest = Digest::new();
            digest.add(&self.outcome.digest.0.to_le_bytes());
            for (key, value) in found.values().flat_map(|pairs| pairs.iter()) {
                digest.add(key);
                digest.add(value);
            }
            self.outcome.digest = digest;
        }
        let report =
            solera::inspect::check(&(Arc::new(image) as Arc<dyn Fs>), Path::new(DIR)).map_err(text)?;
        if report.problems.is_empty() { Ok(()) } else { Err(format!("damaged: {:?}", report.problems)) }
    }
}

/// Whether a value that lies apart, in a log or a sorted value file, could not be read.
fn is_of_a_value(error: &Error) -> bool {
    let (Error::Io { path, .. } | Error::Corrupt { file: path, .. }) = error else { return false };
    path.extension().is_some_and(|extension| extension == "log" || extension == "values")
}

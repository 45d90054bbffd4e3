//! `crowd`: many threads on one database with its background workers; `run`.
//!
//! Every thread owns the keys that begin with its number, and keeps an oracle of them. It reads
//! them now, and through snapshots, iterators and transactions. Beside that all threads move money
//! between common accounts. Half way the database is opened anew.
//!
//! What must hold: a thread reads exactly what it wrote, and transactions on own keys never
//! conflict, unless values are rewritten (`Reclaim::Rewrite`). The sum of all accounts is the same
//! in every snapshot. A seed fixes layouts and draws, not which thread comes first, so a failure
//! need not repeat.
//!
//! Callers: `solera-sim crowd`; `tests/lives.rs`.

use super::{Scale, Verdict};
use crate::{
    oracle::{Change, Moment, Oracle},
    random::Random,
    setting::{Operator, Setting},
};
use solera::{Db, Error, Keyspace, ManualClock, Reclaim, Snapshot, operator::Counter, vfs::mem::MemFs};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

const ACCOUNTS: u64 = 12;
const COINS: i64 = 1000;
/// Keys of one thread in one keyspace.
const KEYS: u64 = 300;
/// A snapshot is kept for so many operations at most.
const SNAPSHOTS: usize = 3;

/// How much to do.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// The first seed.
    pub first_seed: u64,
    /// How many databases, one after the other.
    pub seeds: u64,
    /// Operations of each thread.
    pub operations: usize,
    /// Threads that use the database.
    pub threads: u8,
    /// Threads of the database.
    pub background_threads: usize,
}

impl Amount {
    /// As much as the scale says, from seed `first_seed` on.
    pub fn at(scale: Scale, first_seed: u64) -> Amount {
        Amount { first_seed, seeds: scale.of(10, 500), operations: 20_000, threads: 4, background_threads: 2 }
    }
}

/// What all threads counted.
#[derive(Default)]
struct Counted {
    commits: AtomicU64,
    conflicts: AtomicU64,
    audits: AtomicU64,
}

/// Lets the crowds loose, one for each seed.
pub fn run(amount: Amount) -> Verdict {
    let counted = Counted::default();
    let mut wrong = 0;
    for seed in amount.first_seed..amount.first_seed + amount.seeds {
        match crowd(seed, amount, &counted) {
            Ok(()) => println!("seed {seed}: kept"),
            Err(what) => {
                wrong += 1;
                println!("seed {seed}: FAILED: {what}");
            }
        }
    }
    Verdict::new("crowd")
        .figure("seeds", amount.seeds)
        .figure("threads", amount.threads)
        .figure("ops", amount.seeds * u64::from(amount.threads) * amount.operations as u64)
        .figure("transfers", counted.commits.load(Ordering::Relaxed))
        .figure("conflicts", counted.conflicts.load(Ordering::Relaxed))
        .figure("audits", counted.audits.load(Ordering::Relaxed))
        .must_be_none("wrong", wrong)
}

fn text(error: Error) -> String {
    format!("failed: {error}")
}

fn crowd(seed: u64, amount: Amount, counted: &Counted) -> Result<(), String> {
    let mut random = Random::new(seed);
    let setting = Setting::random(&mut random);
    let fs = MemFs::new();
    let open = || {
        let clock = Arc::new(ManualClock::default());
        let options = setting.options(Arc::new(fs.clone()), clock);
        options.background_threads(amount.background_threads).open("/db").map_err(text)
    };
    let spaces = |db: &Db| -> Result<Vec<Keyspace>, String> {
        let names = setting.spaces.iter().enumerate();
        names
            .map(|(slot, space)| db.keyspace_with(&setting.space_name(slot), space.options()).map_err(text))
            .collect()
    };
    let mut threads: Vec<Thread> = (0..amount.threads)
        .map(|number| {
            let mut oracle = Oracle::new(0);
            for (slot, space) in setting.spaces.iter().enumerate() {
                oracle.create(slot, space.operator);
            }
            Thread { number, setting: &setting, oracle, random: random.fork(), snapshots: Vec::new() }
        })
        .collect();
    // In the middle all threads pause and the database is opened anew.
    for round in 0..2 {
        let db = open()?;
        let handles = spaces(&db)?;
        let bank = db.keyspace("bank").map_err(text)?;
        if round == 0 {
            for account in 0..ACCOUNTS {
                bank.put(account.to_be_bytes(), COINS.to_le_bytes()).map_err(text)?;
            }
        }
        let ends: Vec<Result<(), String>> = std::thread::scope(|scope| {
            let workers: Vec<_> = threads
                .iter_mut()
                .map(|thread| {
                    let (db, handles, bank) = (&db, &handles, &bank);
                    scope.spawn(move || {
                        for at in 0..amount.operations / 2 {
                            thread.act(db, handles, bank, counted).map_err(|what| {
                                format!("thread {}, operation {at} of round {round}: {what}", thread.number)
                            })?;
                        }
                        thread.snapshots.clear();
                        thread.compare_all(handles)
                    })
                })
                .collect();
            workers
                .into_iter()
                .map(|worker| worker.join().unwrap_or_else(|_| Err("a thread panicked".to_owned())))
                .collect()
        });
        ends.into_iter().collect::<Result<(), String>>()?;
        let report = db.verify().map_err(text)?;
        if !report.problems.is_empty() {
            return Err(format!("damaged: {:?}", report.problems));
        }
    }
    Ok(())
}

/// One user of the database.
struct Thread<'s> {
    number: u8,
    setting: &'s Setting,
    oracle: Oracle,
    random: Random,
    snapshots: Vec<(Snapshot, Moment)>,
}

impl Thread<'_> {
    fn key(&mut self) -> Vec<u8> {
        let mut key = vec![self.number];
        key.extend_from_slice(self.random.below(KEYS).to_string().as_bytes());
        key
    }

    fn range(&self) -> (Vec<u8>, Vec<u8>) {
        (vec![self.number], vec![self.number + 1])
    }

    fn change(&mut self) -> (usize, Change) {
        let slot = self.random.index(self.setting.spaces.len());
        let operator = self.setting.spaces[slot].operator;
        let key = self.key();
        let len = self.random.length(200) as usize;
        let bytes = match operator {
            Operator::Counter => Counter::encode(self.random.below(1000) as i64).to_vec(),
            _ => vec![self.random.next() as u8; len],
        };
        let change = match self.random.below(12) {
            0 | 1 => Change::Delete { key },
            2 if self.random.one_in(6) => {
                let other = self.key();
                let (start, end) = if key < other { (key, other) } else { (other, key) };
                Change::DeleteRange { start, end }
            }
            3..=6 if operator != Operator::None => {
                let operand = if operator == Operator::Append { bytes[..len.min(3)].to_vec() } else { bytes };
                Change::Merge { key, operand }
            }
            _ => Change::Put { key, value: bytes, expires_ms: None },
        };
        (slot, change)
    }

    fn act(
        &mut self,
        db: &Db,
        handles: &[Keyspace],
        bank: &Keyspace,
        counted: &Counted,
    ) -> Result<(), String> {
        match self.random.below(1000) {
            0..350 => {
                let changes = [self.change()];
                let (slot, change) = &changes[0];
                let space = &handles[*slot];
                match change {
                    Change::Put { key, value, .. } => space.put(key, value),
                    Change::Delete { key } => space.delete(key),
                    Change::DeleteRange { start, end } => space.delete_range(start..end),
                    Change::Merge { key, operand } => space.merge(key, operand),
                }
                .map_err(text)?;
                self.oracle.commit(&changes);
                Ok(())
            }
            350..400 => self.batch(db, handles),
            400..600 => {
                let slot = self.random.index(handles.len());
                let key = self.key();
                let found = handles[slot].get(&key).map_err(text)?;
                same(&key, found.as_deref(), self.oracle.get(slot, &key, self.oracle.moment()).as_deref())
            }
            600..620 => self.scan(handles, None),
            620..640 => {
                self.snapshots.push((db.snapshot(), self.oracle.pin()));
                if self.snapshots.len() > SNAPSHOTS {
                    let (_, moment) = self.snapshots.remove(0);
                    self.oracle.unpin(moment);
                }
                Ok(())
            }
            640..700 => {
                if self.snapshots.is_empty() {
                    return Ok(());
                }
                let at = self.random.index(self.snapshots.len());
                if self.random.one_in(4) {
                    return self.scan(handles, Some(at));
                }
                let slot = self.random.index(handles.len());
                let key = self.key();
                let (snapshot, moment) = &self.snapshots[at];
                let found = snapshot.get(&handles[slot], &key).map_err(text)?;
                same(&key, found.as_deref(), self.oracle.get(slot, &key, *moment).as_deref())
            }
            700..740 => self.transaction(db, handles),
            740..900 => self.transfer(db, bank, counted),
            900..930 => self.audit(db, bank, counted),
            930..932 => handles[self.random.index(handles.len())].flush().map_err(text),
            932 => {
                let (start, end) = self.range();
                handles[self.random.index(handles.len())].compact_range(start..end).map_err(text)
            }
            933..936 => db.sync().map_err(text),
            _ => Ok(()),
        }
    }

    fn batch(&mut self, db: &Db, handles: &[Keyspace]) -> Result<(), String> {
        let count = self.random.between(1, 12);
        let changes: Vec<_> = (0..count).map(|_| self.change()).collect();
        let mut batch = db.batch();
        for (slot, change) in &changes {
            let space = &handles[*slot];
            match change {
                Change::Put { key, value, .. } => batch.put(space, key, value),
                Change::Delete { key } => batch.delete(space, key),
                Change::DeleteRange { start, end } => batch.delete_range(space, start..end),
                Change::Merge { key, operand } => batch.merge(space, key, operand),
            }
            .map_err(text)?;
        }
        db.write(batch).map_err(text)?;
        self.oracle.commit(&changes);
        Ok(())
    }

    /// Reads and writes own keys: it cannot conflict with what another thread does.
    fn transaction(&mut self, db: &Db, handles: &[Keyspace]) -> Result<(), String> {
        let mut engine = db.transaction();
        let mut model = self.oracle.begin();
        for _ in 0..self.random.between(1, 6) {
            let slot = self.random.index(handles.len());
            let key = self.key();
            let found = engine.get(&handles[slot], &key).map_err(text)?;
            same(&key, found.as_deref(), self.oracle.get_in(&mut model, slot, &key).as_deref())?;
            let (slot, change) = self.change();
            let space = &handles[slot];
            match &change {
                Change::Put { key, value, .. } => engine.put(space, key, value),
                Change::Delete { key } => engine.delete(space, key),
                Change::DeleteRange { start, end } => engine.delete_range(space, start..end),
                Change::Merge { key, operand } => engine.merge(space, key, operand),
            }
            .map_err(text)?;
            self.oracle.stage(&mut model, slot, change);
        }
        let done = engine.commit();
        self.oracle.end(model, done.is_ok());
        match done {
            // A value that is rewritten is a write of its key.
            Err(Error::Conflict) if self.setting.reclaim == Reclaim::Rewrite => Ok(()),
            done => done.map(drop).map_err(|error| format!("a transaction on own keys: {error}")),
        }
    }

    fn scan(&mut self, handles: &[Keyspace], snapshot: Option<usize>) -> Result<(), String> {
        let slot = self.random.index(handles.len());
        let prefix = [self.number];
        let (engine, moment) = match snapshot.map(|at| &self.snapshots[at]) {
            Some((snapshot, moment)) => (snapshot.prefix(&handles[slot], prefix), *moment),
            None => (handles[slot].prefix(prefix), self.oracle.moment()),
        };
        let (start, end) = self.range();
        let expected = self.oracle.scan(
            slot,
            (std::ops::Bound::Included(&start[..]), std::ops::Bound::Excluded(&end[..])),
            moment,
        );
        let found: solera::Result<Vec<_>> = if self.random.one_in(2) {
            engine.collect()
        } else {
            engine.rev().collect::<solera::Result<Vec<_>>>().map(|mut pairs| {
                pairs.reverse();
                pairs
            })
        };
        let found = found.map_err(text)?;
        let pairs = || found.iter().map(|(key, value)| (&**key, &**value));
        if pairs().eq(expected.iter().map(|(key, value)| (&key[..], &value[..]))) {
            return Ok(());
        }
        let odd =
            pairs().zip(&expected).find(|(found, expected)| *found != (&expected.0[..], &expected.1[..]));
        Err(format!(
            "keyspace {slot}: {} pairs, expected {}; the first difference: {odd:x?}",
            found.len(),
            expected.len()
        ))
    }

    fn compare_all(&mut self, handles: &[Keyspace]) -> Result<(), String> {
        (0..12).try_for_each(|_| self.scan(handles, None))
    }

    /// Moves coins from one account to another; tries again until no other transaction was in the
    /// way.
    fn transfer(&mut self, db: &Db, bank: &Keyspace, counted: &Counted) -> Result<(), String> {
        let (from, to) = (self.random.below(ACCOUNTS), self.random.below(ACCOUNTS));
        let coins = self.random.below(10) as i64;
        loop {
            let mut transaction = db.transaction();
            for (account, coins) in [(from, -coins), (to, coins)] {
                let key = account.to_be_bytes();
                let held = transaction.get(bank, key).map_err(text)?.ok_or("an account is gone")?;
                let held = i64::from_le_bytes((*held).try_into().map_err(|_| "an account is no number")?);
                transaction.put(bank, key, (held + coins).to_le_bytes()).map_err(text)?;
            }
            match transaction.commit() {
                Ok(_) => {
                    counted.commits.fetch_add(1, Ordering::Relaxed);
                    return Ok(());
                }
                Err(Error::Conflict) => {
                    counted.conflicts.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => return Err(text(error)),
            }
        }
    }

    /// No transfer makes or loses money.
    fn audit(&mut self, db: &Db, bank: &Keyspace, counted: &Counted) -> Result<(), String> {
        let snapshot = db.snapshot();
        let mut sum = 0;
        let mut accounts = 0;
        for pair in snapshot.iter(bank) {
            let (_, held) = pair.map_err(text)?;
            sum += i64::from_le_bytes((*held).try_into().map_err(|_| "an account is no number")?);
            accounts += 1;
        }
        counted.audits.fetch_add(1, Ordering::Relaxed);
        if (accounts, sum) == (ACCOUNTS, COINS * ACCOUNTS as i64) {
            return Ok(());
        }
        Err(format!("{accounts} accounts hold {sum} coins"))
    }
}

fn same(key: &[u8], found: Option<&[u8]>, expected: Option<&[u8]>) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{}: found {found:x?}, expected {expected:x?}", key.escape_ascii()))
}

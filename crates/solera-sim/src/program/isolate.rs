//! `isolate`: concurrent transactions on real threads, and two independent judges (`isolation`) of
//! what they saw; `run`.
//!
//! Transactions read lists and append to them, by value or by operand, one by one or by range.
//! Tables are flushed and merged meanwhile. Few lists are in use at a time, so that transactions
//! collide. One transaction in eight moves money between accounts instead. An auditor, a thread of
//! its own, counts the money, sets knobs, and lets a tuner set others.
//!
//! What must hold: the history is serializable, and the sum stays. A seed fixes layouts and draws,
//! not which thread comes first; what is printed is the cycle itself.
//!
//! Caller: `solera-sim isolate`.

use super::{Scale, Verdict};
use crate::{
    isolation::{Element, End, History, Key, Step, Transaction, cycles, replay},
    random::Random,
    setting::Setting,
    tuner, tuning,
};
use solera::{Db, Error, Keyspace, KeyspaceOptions, ManualClock, operator::builtin, vfs::mem::MemFs};
use solera_tune::attach::WHO;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

/// Transactions on one database.
const TRANSACTIONS: u64 = 10_000;
/// Lists in use at a time.
const LISTS: u64 = 8;
/// Transactions after which other lists come into use.
const ERA: u64 = 250;
/// Most steps of a transaction.
const STEPS: u64 = 5;
/// One commit in so many moves money instead.
const TRANSFERS: u64 = 8;
/// A knob is set for every so many transactions.
const CHANGES: u64 = 50;
const ACCOUNTS: u64 = 10;
const COINS: i64 = 1000;
/// Bytes of an element in a list.
const ELEMENT_BYTES: usize = 8;

/// How much to do.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// The first seed.
    pub first_seed: u64,
    /// Transactions in all; a database has 10,000 of them, the last one perhaps fewer.
    pub transactions: u64,
    /// Threads that do them; one more audits.
    pub threads: u32,
}

impl Amount {
    /// As much as the scale says, from seed `first_seed` on.
    pub fn at(scale: Scale, first_seed: u64) -> Amount {
        Amount { first_seed, transactions: scale.of(100_000, 1_000_000), threads: 4 }
    }
}

#[derive(Default)]
struct Counted {
    committed: AtomicU64,
    aborted: AtomicU64,
    audits: AtomicU64,
    drift: AtomicU64,
    changes: AtomicU64,
    /// Changes that tuners made, as far back as the manifests remember.
    tuned: AtomicU64,
    edges: AtomicU64,
}

/// So many transactions, database by database.
fn shares(transactions: u64) -> impl Iterator<Item = u64> {
    let before = (0..transactions.div_ceil(TRANSACTIONS)).map(|database| database * TRANSACTIONS);
    before.map(move |before| TRANSACTIONS.min(transactions - before))
}

/// Runs the transactions and judges them.
pub fn run(amount: Amount) -> Verdict {
    let counted = Counted::default();
    let (mut wrong, mut misplaced, mut anomalies) = (0, 0, 0);
    for (seed, transactions) in (amount.first_seed..).zip(shares(amount.transactions)) {
        match live(seed, transactions, amount.threads, &counted) {
            Err(what) => {
                wrong += 1;
                println!("seed {seed}: FAILED: {what}");
            }
            Ok((history, last)) => {
                let replayed = replay::replay(&history).and_then(|lists| match lists == last {
                    true => Ok(()),
                    false => Err("the database does not hold what its commits make".to_owned()),
                });
                if let Err(what) = replayed {
                    misplaced += 1;
                    println!("seed {seed}: FAILED: not in the order of commits: {what}");
                }
                let findings = cycles::judge(&history);
                counted.edges.fetch_add(findings.edges as u64, Ordering::Relaxed);
                anomalies += findings.anomalies.len() as u64;
                for anomaly in findings.anomalies.iter().take(3) {
                    println!("seed {seed}: FAILED: {anomaly}");
                }
            }
        }
    }
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Verdict::new("isolate")
        .figure("txns", count(&counted.committed) + count(&counted.aborted))
        .figure("committed", count(&counted.committed))
        .figure("aborted", count(&counted.aborted))
        .figure("threads", amount.threads)
        .figure("edges", count(&counted.edges))
        .must_be_none("cycles", anomalies)
        .must_be_none("misplaced", misplaced)
        .figure("audits", count(&counted.audits))
        .must_be_none("bank_drift", count(&counted.drift))
        .figure("changes", count(&counted.changes))
        .figure("tuned", count(&counted.tuned))
        .must_be_none("wrong", wrong)
}

fn text(error: Error) -> String {
    format!("failed: {error}")
}

/// The keyspaces: lists that are values, lists that are merged, and the bank.
struct Spaces {
    db: Db,
    values: Keyspace,
    merged: Keyspace,
    bank: Keyspace,
}

impl Spaces {
    fn open(seed: u64) -> Result<Spaces, String> {
        let setting = Setting::random(&mut Random::new(seed));
        let options = setting.options(Arc::new(MemFs::new()), Arc::new(ManualClock::default()));
        let db = options.background_threads(2).open("/db").map_err(text)?;
        let create = |name, options: KeyspaceOptions| db.keyspace_with(name, options).map_err(text);
        let values = create("values", setting.spaces[0].options())?;
        let append = builtin("append").ok_or("no operator named append")?;
        let merged = create("merged", setting.spaces[1].options().merge_operator(append))?;
        let bank = create("bank", setting.spaces[2].options())?;
        for account in 0..ACCOUNTS {
            bank.put(account.to_be_bytes(), COINS.to_le_bytes()).map_err(text)?;
        }
        Ok(Spaces { db, values, merged, bank })
    }

    /// Every other list is merged.
    fn of(&self, key: Key) -> &Keyspace {
        if key.is_multiple_of(2) { &self.values } else { &self.merged }
    }
}

/// The history of one database, and what its lists are at the end.
type Life = (History, std::collections::BTreeMap<Key, Vec<Element>>);

fn live(seed: u64, transactions: u64, threads: u32, counted: &Counted) -> Result<Life, String> {
    let spaces = Spaces::open(seed)?;
    let begun = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    let mut histories = std::thread::scope(|scope| {
        let auditor = scope.spawn(|| {
            let (mut random, mut next) = (Random::new(seed ^ 0x6b6e6f62), 0);
            let (agent, mut tuner) = ((seed % tuner::AGENTS.len() as u64) as u8, None);
            while !done.load(Ordering::Relaxed) {
                audit(&spaces, counted)?;
                tuner::look(&spaces.db, "values", &mut tuner, agent)?;
                if begun.load(Ordering::Relaxed) >= next {
                    tuning::turn(&spaces.db, random.next() as u32).map_err(text)?;
                    counted.changes.fetch_add(1, Ordering::Relaxed);
                    next = begun.load(Ordering::Relaxed) + CHANGES;
                }
                std::thread::yield_now();
            }
            drop(tuner);
            let tuned = spaces.db.control().history_of(WHO).len() as u64;
            counted.tuned.fetch_add(tuned, Ordering::Relaxed);
            audit(&spaces, counted)
        });
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let (spaces, begun) = (&spaces, &begun);
                scope.spawn(move || {
                    let random = Random::new(seed << 8 | u64::from(thread));
                    let mut worker = Worker { thread, spaces, random, appended: 0, history: Vec::new() };
                    loop {
                        let number = begun.fetch_add(1, Ordering::Relaxed);
                        if number >= transactions {
                            return Ok::<_, String>(worker.history);
                        }
                        worker.act(number, counted)?;
                    }
                })
            })
            .collect();
        let histories: Vec<_> = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|_| Err("a thread panicked".to_owned())))
            .collect();
        done.store(true, Ordering::Relaxed);
        auditor.join().unwrap_or_else(|_| Err("the auditor panicked".to_owned()))?;
        histories.into_iter().collect::<Result<Vec<_>, String>>()
    })?;
    let mut history: History = histories.drain(..).flatten().collect();
    let mut last = std::collections::BTreeMap::new();
    for space in [&spaces.values, &spaces.merged] {
        for pair in space.iter() {
            let (key, value) = pair.map_err(text)?;
            last.insert(number(&key)?, elements(&value)?);
        }
    }
    // The last transaction reads every list.
    let steps = last.iter().map(|(key, list)| Step::Read(*key, list.clone())).collect();
    history.push(Transaction { thread: u32::MAX, steps, end: End::Committed(u64::MAX) });
    Ok((history, last))
}

fn number(bytes: &[u8]) -> Result<u64, String> {
    bytes.try_into().map(u64::from_be_bytes).map_err(|_| format!("{bytes:x?} is no number"))
}

fn elements(value: &[u8]) -> Result<Vec<Element>, String> {
    value.chunks(ELEMENT_BYTES).map(number).collect()
}

fn audit(spaces: &Spaces, counted: &Counted) -> Result<(), String> {
    let mut coins = 0;
    let transaction = spaces.db.transaction();
    for pair in transaction.iter(&spaces.bank) {
        let (_, held) = pair.map_err(text)?;
        coins += i64::from_le_bytes((*held).try_into().map_err(|_| "an account is no number")?);
    }
    counted.audits.fetch_add(1, Ordering::Relaxed);
    counted.drift.fetch_add(u64::from(coins != COINS * ACCOUNTS as i64), Ordering::Relaxed);
    Ok(())
}

struct Worker<'s> {
    thread: u32,
    spaces: &'s Spaces,
    random: Random,
    appended: u64,
    history: History,
}

impl Worker<'_> {
    fn act(&mut self, number: u64, counted: &Counted) -> Result<(), String> {
        let end = match self.random.one_in(TRANSFERS) {
            true => self.transfer()?,
            false => self.lists(number / ERA * LISTS)?,
        };
        let counter = if end == End::Aborted { &counted.aborted } else { &counted.committed };
        counter.fetch_add(1, Ordering::Relaxed);
        if self.random.one_in(500) {
            self.spaces.values.flush().map_err(text)?;
        }
        Ok(())
    }

    /// Lets others run: without, a transaction is over before the next one begins.
    fn pause(&mut self) {
        if self.random.one_in(2) {
            std::thread::yield_now();
        }
    }

    /// A transaction over the lists from `first` on.
    fn lists(&mut self, first: Key) -> Result<End, String> {
        let mut transaction = self.spaces.db.transaction();
        let mut steps = Vec::new();
        let only_reads = self.random.one_in(5);
        for _ in 0..self.random.between(1, STEPS) {
            self.pause();
            let key = first + self.random.below(LISTS);
            let space = self.spaces.of(key);
            let name = key.to_be_bytes();
            match self.random.below(if only_reads { 5 } else { 10 }) {
                0..4 => {
                    let list = transaction.get(space, name).map_err(text)?;
                    steps.push(Step::Read(key, elements(list.as_deref().unwrap_or_default())?));
                }
                4 => {
                    // Lists of one keyspace by range, those that are not there among them.
                    let mut found = std::collections::BTreeMap::new();
                    for pair in transaction.range(space, name..(first + LISTS).to_be_bytes()) {
                        let (key, list) = pair.map_err(text)?;
                        found.insert(self::number(&key)?, elements(&list)?);
                    }
                    for key in (key..first + LISTS).step_by(2) {
                        steps.push(Step::Read(key, found.remove(&key).unwrap_or_default()));
                    }
                    if !found.is_empty() {
                        return Err(format!("a range of lists holds others: {found:?}"));
                    }
                }
                _ => {
                    let element = self.appended << 8 | u64::from(self.thread);
                    self.appended += 1;
                    if key.is_multiple_of(2) {
                        let list = transaction.get(space, name).map_err(text)?;
                        let mut list = list.as_deref().unwrap_or_default().to_vec();
                        steps.push(Step::Read(key, elements(&list)?));
                        list.extend_from_slice(&element.to_be_bytes());
                        transaction.put(space, name, &list).map_err(text)?;
                    } else {
                        transaction.merge(space, name, element.to_be_bytes()).map_err(text)?;
                    }
                    steps.push(Step::Append(key, element));
                }
            }
        }
        let end = end(transaction.commit())?;
        self.history.push(Transaction { thread: self.thread, steps, end });
        Ok(end)
    }

    fn transfer(&mut self) -> Result<End, String> {
        let mut transaction = self.spaces.db.transaction();
        let coins = self.random.below(10) as i64;
        let (from, to) = (self.random.below(ACCOUNTS), self.random.below(ACCOUNTS));
        for (account, coins) in [(from, -coins), (to, coins)] {
            self.pause();
            let bank = &self.spaces.bank;
            let held = transaction.get(bank, account.to_be_bytes()).map_err(text)?;
            let held = held.ok_or("an account is gone")?;
            let held = i64::from_le_bytes((*held).try_into().map_err(|_| "an account is no number")?);
            transaction.put(bank, account.to_be_bytes(), (held + coins).to_le_bytes()).map_err(text)?;
        }
        end(transaction.commit())
    }
}

fn end(outcome: solera::Result<u64>) -> Result<End, String> {
    match outcome {
        Ok(at) => Ok(End::Committed(at)),
        Err(Error::Conflict) => Ok(End::Aborted),
        Err(error) => Err(text(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_transactions_are_run_as_were_asked_for() {
        for (transactions, expected) in [
            (0, &[][..]),
            (1, &[1]),
            (10_000, &[10_000]),
            (15_000, &[10_000, 5000]),
            (20_001, &[10_000, 10_000, 1]),
        ] {
            assert_eq!(shares(transactions).collect::<Vec<_>>(), expected);
        }
    }
}

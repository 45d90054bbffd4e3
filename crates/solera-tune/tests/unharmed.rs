//! The promise: a database with a tuner attached answers as one without. Most of the tuners have no
//! guard, so that agents change as much as they may.
//!
//! After a power cut the commits are a prefix, and journal and manifest agree. Transactions of
//! several threads stay whole. A change that a person makes first stands.

use solera::{
    Db, Options,
    control::Change,
    vfs::mem::{MemFs, Persist},
};
use solera_tune::{
    Attach, Goal, Stepper, agent,
    attach::{Progress, WHO},
    coordinator::{
        Rules,
        journal::{JOURNAL_NAME, read},
        replay::replay,
    },
    sight::{Measure, Pace},
    world::{WorldClock, WorldFs, device},
};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
};

const DIR: &str = "/tuned";

/// Pseudo-random numbers (splitmix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ (z >> 31)) * u128::from(n)) >> 64) as u64
    }
}

/// A database on `fs` that does its work in the caller's thread, in counted time.
fn open(fs: &MemFs, clock: &Arc<WorldClock>) -> Db {
    let fs = WorldFs::new(fs.clone(), clock.clone(), device());
    let options = Options::new().fs(Arc::new(fs)).clock(clock.clone()).background_threads(0).seed(1);
    options.memory(1 << 20).write_buffer(16 << 10).open(DIR).unwrap()
}

fn tuner(db: &Db, agent: &str, rules: Rules) -> Stepper {
    let pace = Pace { operations_min: 40, flushes_min: 0, elapsed_ns_min: 0, ..Pace::default() };
    let goal = Goal { measure: Measure::Elapsed, ..Goal::default() };
    Attach::new(goal).agent(agent).units(device()).seed(5).pace(pace).rules(rules).stepped(db).unwrap()
}

fn work(db: &Db, clock: &WorldClock) {
    clock.charge(50_000.0);
    while db.step().unwrap() {}
}

/// One operation, and what it answered.
fn operate(db: &Db, draw: &mut Draw) -> Vec<u8> {
    let key = |draw: &mut Draw| draw.below(3_000).to_be_bytes();
    let mut answer = Vec::new();
    match draw.below(10) {
        0..5 => {
            let (key, length) = (key(draw), draw.below(200) as usize);
            db.put(key, vec![draw.below(256) as u8; length]).unwrap();
        }
        5 => db.delete(key(draw)).unwrap(),
        6..9 => answer.extend(db.get(key(draw)).unwrap().map_or(vec![0], |value| value.to_vec())),
        _ => {
            let first = key(draw);
            let mut scan = db.range(&first[..]..);
            for _ in 0..20 {
                if !scan.advance().unwrap() {
                    break;
                }
                answer.extend_from_slice(scan.key());
                answer.extend_from_slice(scan.value());
            }
        }
    }
    answer
}

fn contents(db: &Db) -> Vec<(Vec<u8>, Vec<u8>)> {
    db.iter().map(|pair| pair.unwrap()).map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

#[test]
fn a_database_that_tunes_itself_answers_as_one_that_nobody_tunes() {
    let cases = [
        (agent::steward::NAME, Rules::default(), 0),
        (agent::random::NAME, Rules::default(), 1),
        (agent::random::NAME, Rules::unguarded(), 20),
        (agent::worst::NAME, Rules::unguarded(), 1),
    ];
    for (case, (name, rules, changes_min)) in cases.into_iter().enumerate() {
        let life = |tuned: bool| {
            let (fs, clock, mut draw) = (MemFs::new(), Arc::new(WorldClock::default()), Draw(case as u64));
            let mut db = open(&fs, &clock);
            let mut stepper = tuned.then(|| tuner(&db, name, rules.clone()));
            let mut answers = Vec::new();
            for number in 0..12_000 {
                answers.push(operate(&db, &mut draw));
                if number % 20 == 19 {
                    work(&db, &clock);
                    if let Some(Progress::Off(why)) = stepper.as_mut().map(Stepper::step) {
                        panic!("{name} ended: {why}");
                    }
                }
                if number % 4_000 == 3_999 {
                    drop(stepper.take());
                    db.close().unwrap();
                    db = open(&fs, &clock);
                    stepper = tuned.then(|| tuner(&db, name, rules.clone()));
                }
            }
            answers.push(contents(&db).into_iter().flat_map(|(key, value)| [key, value].concat()).collect());
            (answers, db.control().history_of(WHO).len())
        };
        let ((plain, none), (tuned, changes)) = (life(false), life(true));
        assert!(none == 0 && changes >= changes_min, "{name}: {changes} changes");
        let differs = plain.iter().zip(&tuned).position(|(plain, tuned)| plain != tuned);
        assert_eq!(differs, None, "{name}: operation that answers otherwise");
    }
}

#[test]
fn after_a_power_cut_commits_are_a_prefix_and_the_tuner_goes_on_from_where_journal_and_manifest_agree() {
    let (fs, clock, mut draw) = (MemFs::new(), Arc::new(WorldClock::default()), Draw(77));
    let db = open(&fs, &clock);
    let mut stepper = tuner(&db, agent::random::NAME, Rules::unguarded());
    fs.record_cuts(true);
    // Disks, each with the commits that were begun when the power failed.
    let mut cuts = Vec::new();
    let commits = 2_000u64;
    for commit in 1..=commits {
        let value = [&commit.to_be_bytes()[..], &[7; 90]].concat();
        db.put(draw.below(100).to_be_bytes(), value).unwrap();
        if commit % 10 == 0 {
            work(&db, &clock);
            stepper.step();
        }
        cuts.extend(fs.take_cuts().into_iter().map(|disk| (disk, commit)));
    }
    drop(stepper);
    let changes = db.control().history_of(WHO).len();
    assert!(changes >= 6, "{changes} changes");
    drop(db);
    let every = (cuts.len() / 120).max(1);
    let (mut tried, mut with_changes) = (0, 0);
    for (number, (disk, begun)) in cuts.iter().enumerate().step_by(every) {
        let persist = if number % 2 == 0 { Persist::Everything } else { Persist::Nothing };
        let (disk, clock) = (disk.crash(persist, number as u64), Arc::new(WorldClock::default()));
        let db = open(&disk, &clock);
        // Every commit writes its own number: the newest found says how many there are.
        let found = contents(&db);
        let number_of = |value: &[u8]| u64::from_be_bytes(value[..8].try_into().unwrap());
        let last = found.iter().map(|(_, value)| number_of(value)).max().unwrap_or(0);
        assert!(last <= *begun, "cut {number}: commit {last} of {begun}");
        let (mut again, mut expected) = (Draw(77), std::collections::BTreeMap::new());
        (1..=last).for_each(|commit| {
            expected.insert(again.below(100), commit);
        });
        let found: Vec<(u64, u64)> =
            found.iter().map(|(key, value)| (number_of(key), number_of(value))).collect();
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "cut {number}: no prefix");
        let stepper = tuner(&db, agent::random::NAME, Rules::unguarded());
        assert_eq!((stepper.off(), stepper.state().open.is_none()), (None, true), "cut {number}");
        let set = db.control().observe().settings.iter().filter(|setting| setting.is_set).count();
        assert_eq!(stepper.state().own.len(), set, "cut {number}: the tuner knows all that it has set");
        drop(stepper);
        let records = read(&*db.control().fs(), &Path::new(DIR).join(JOURNAL_NAME)).unwrap();
        let decided = replay(&records).unwrap();
        assert_eq!(decided.difference, None, "cut {number}");
        tried += 1;
        with_changes += u64::from(set > 0);
    }
    assert!(tried >= 60 && with_changes >= 20, "{tried} cuts, {with_changes} of them with changes");
}

#[test]
fn transactions_of_several_threads_stay_whole_while_a_tuner_changes_knobs() {
    const ACCOUNTS: u64 = 16;
    const COINS: u64 = 1_000;
    let db = Options::new().fs(Arc::new(MemFs::new())).memory(4 << 20).write_buffer(32 << 10);
    let db = db.background_threads(2).open(DIR).unwrap();
    let coins = |value: &[u8]| u64::from_be_bytes(value[..8].try_into().unwrap());
    for account in 0..ACCOUNTS {
        db.put(account.to_be_bytes(), COINS.to_be_bytes()).unwrap();
    }
    let mut stepper = tuner(&db, agent::random::NAME, Rules::unguarded());
    let (done, moved) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (db, done, moved) = (&db, &done, &moved);
            scope.spawn(move || {
                let mut draw = Draw(thread);
                while !done.load(SeqCst) {
                    let mut transaction = db.transaction();
                    let (from, to) = (draw.below(ACCOUNTS).to_be_bytes(), draw.below(ACCOUNTS).to_be_bytes());
                    let held = |transaction: &solera::Transaction, account: [u8; 8]| {
                        coins(&transaction.get(db.default(), account).unwrap().expect("an account"))
                    };
                    let some = held(&transaction, from).min(draw.below(10));
                    let less = held(&transaction, from) - some;
                    transaction.put(db.default(), from, less.to_be_bytes()).unwrap();
                    let more = held(&transaction, to) + some;
                    transaction.put(db.default(), to, more.to_be_bytes()).unwrap();
                    moved.fetch_add(u64::from(transaction.commit().is_ok()), SeqCst);
                }
            });
        }
        let mut audits = 0;
        while db.control().history_of(WHO).len() < 12 || moved.load(SeqCst) < 3_000 {
            let sum: u64 = db.iter().map(|pair| coins(&pair.unwrap().1)).sum();
            if sum != ACCOUNTS * COINS || stepper.off().is_some() {
                done.store(true, SeqCst);
                panic!("audit {audits}: {sum} coins, tuner {:?}", stepper.off());
            }
            audits += 1;
            stepper.step();
        }
        done.store(true, SeqCst);
    });
    assert!(contents(&db).iter().map(|(_, value)| coins(value)).sum::<u64>() == ACCOUNTS * COINS);
}

/// Symptom to fear: a knob that a person sets by hand while the tuner is about to change it.
#[test]
fn a_change_that_somebody_else_makes_first_is_an_answer_and_no_harm() {
    let (fs, clock, mut draw) = (MemFs::new(), Arc::new(WorldClock::default()), Draw(9));
    let db = open(&fs, &clock);
    let mut stepper = tuner(&db, agent::random::NAME, Rules::unguarded());
    for number in 0..4_000u32 {
        operate(&db, &mut draw);
        if number % 20 == 19 {
            work(&db, &clock);
            stepper.step();
        }
        if number % 97 == 0 {
            let size = 1024u32 << (number % 5);
            db.control().apply(Change::new("operator", "by hand").set("block_bytes", size)).unwrap();
        }
    }
    assert_eq!(stepper.off(), None);
    let last = db.control().observe();
    assert!(
        last.setting("block_bytes", "default", None).unwrap().to_string().parse::<u32>().unwrap() >= 1024
    );
    let by_tuner = db.control().history_of(WHO);
    let touched = by_tuner.iter().flat_map(|receipt| &receipt.changed);
    let touched: Vec<_> = touched.filter(|change| change.knob == "block_bytes").collect();
    assert!(touched.is_empty(), "what a person sets stands: {touched:?}");
}

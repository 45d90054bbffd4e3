//! `crashsim`: the power fails at every file operation of scripted, random and tuned lives, and of
//! short sequences; `run`.
//!
//! Sequences go over an alphabet of twelve `Letter`s. Three operations on a fresh file system
//! reproduce 24 of 26 known bugs (CrashMonkey and ACE, OSDI 2018). A sequence is swept from its
//! last letter on: the cuts before are a shorter sequence's. Quick runs have two letters at most,
//! nightly ones three. `scripted`, `random` and `tuned` make lives; scripted ones are also lived on
//! a device that lies (`Lies`).
//!
//! What must hold: `crash::Sweep` finds no violation; one is printed with a shrunk script.
//! Callers: `solera-sim crashsim`, `canary`; `faultloop` uses `scripted` and `random`;
//! `tests/lives.rs`.

use super::{Scale, Verdict, for_each_seed};
use crate::{
    crash::{Lies, Plan, Sweep, Violation},
    digest::Digest,
    random::Random,
    script::{
        Change, Edge, Operation, Script, Value, View, generate::Generator, shrink::shrink, text::Bytes,
    },
    setting::{Operator, Setting, SpaceSetting},
    tuner::AGENTS,
};
use solera::{Reclaim, vfs::mem::Persist};

/// Runs spent on shrinking one violation; each is a whole sweep.
const SHRINK_RUNS_MAX: usize = 300;
/// Of a life on a device that lies about syncs, one in so many cuts is tried.
const LIES_STRIDE: usize = 8;

/// How much to do.
#[derive(Clone, Debug)]
pub struct Amount {
    /// The first seed.
    pub first_seed: u64,
    /// How many seeds; each lives the scripted life, a random one and a tuned one.
    pub seeds: u64,
    /// Operations of a random life.
    pub operations: usize,
    /// Letters of the longest sequences; every sequence up to that is swept.
    pub letters: u32,
    /// What may be kept of unsynced changes.
    pub variants: Vec<Persist>,
    /// Images made of each cut by a variant that chance has a part in: of lives, and of sequences.
    pub draws: [u32; 2],
    /// Sweeps at the same time.
    pub threads: usize,
    /// Look for a shorter script that has a violation, too.
    pub shrinks: bool,
}

impl Amount {
    /// As much as the scale says, from seed `first_seed` on.
    pub fn at(scale: Scale, first_seed: u64, threads: usize) -> Amount {
        Amount {
            first_seed,
            seeds: scale.of(3, 100),
            operations: 120,
            letters: scale.of(2, 3),
            variants: Persist::ALL.to_vec(),
            draws: scale.of([1, 2], [2, 2]),
            threads,
            shrinks: true,
        }
    }
}

/// What one seed or one sequence came to.
struct Swept {
    sweep: Sweep,
    lies: Lies,
    violations: u64,
}

/// Sweeps the lives of the seeds and the sequences, and prints each violation with a shrunk
/// reproduction.
pub fn run(amount: &Amount) -> Verdict {
    let sequences = sequences(amount.letters);
    let swept = for_each_seed(0, amount.seeds + sequences.len() as u64, amount.threads, |work| {
        if let Some(at) = work.checked_sub(amount.seeds) {
            let (script, from) = sequence(amount.first_seed, &sequences[at as usize]);
            return one(SEQUENCE, amount, &script, from, at);
        }
        let seed = amount.first_seed + work;
        let mut swept = one("scripted life of seed", amount, &scripted(seed), 0, seed);
        let random = one("random life of seed", amount, &random(seed, amount.operations), 0, seed);
        swept.sweep.add(random.sweep);
        swept.violations += random.violations;
        let tuned = one("tuned life of seed", amount, &tuned(seed), 0, seed);
        swept.sweep.add(tuned.sweep);
        swept.violations += tuned.violations;
        let plan = Plan { variants: &amount.variants, draws: 1, from: 0, seed };
        match Lies::run(&scripted(seed), plan, LIES_STRIDE) {
            Ok(lies) => swept.lies = lies,
            Err(what) => {
                println!("scripted life of seed {seed}, on a device that lies: VIOLATED: {what}");
                swept.violations += 1;
            }
        }
        swept
    });
    let mut sweep = Sweep::default();
    let (mut lies, mut violations) = (Lies::default(), 0);
    for swept in swept {
        sweep.add(swept.sweep);
        lies.states += swept.lies.states;
        lies.refused += swept.lies.refused;
        lies.lost += swept.lies.lost;
        violations += swept.violations;
    }
    Verdict::new("crashsim")
        .figure("states", sweep.states.len())
        .figure("recovery_crashes", sweep.recovery_crashes)
        .figure("duplicates", sweep.duplicates)
        .figure("cuts", sweep.cuts)
        .figure("variants", amount.variants.len())
        .figure("sequences", sequences.len())
        .figure("seeds", amount.seeds)
        .figure("flushes", sweep.work.flushes)
        .figure("compactions", sweep.work.compactions)
        .figure("changes", sweep.changes)
        .figure("tuned", sweep.tuned)
        .figure("lying_disk_states", lies.states)
        .figure("unprotected", lies.refused + lies.lost)
        .must_be_none("violations", violations)
        .figure("digest", Digest(sweep.digest))
}

/// The lives that are numbered, not drawn.
const SEQUENCE: &str = "sequence";

/// Sweeps one script from its operation `from` on.
fn one(name: &str, amount: &Amount, script: &Script, from: usize, seed: u64) -> Swept {
    let draws = amount.draws[usize::from(name == SEQUENCE)];
    let plan = Plan { variants: &amount.variants, draws, from, seed };
    match Sweep::run(script, plan) {
        Ok(sweep) => {
            if name != SEQUENCE {
                println!("{name} {seed}: {sweep}");
            }
            Swept { sweep, lies: Lies::default(), violations: 0 }
        }
        Err(violation) => {
            let told = match amount.shrinks {
                true => reproduce(script, plan, &violation),
                false => format!("VIOLATED: {violation}"),
            };
            println!("{name} {seed}: {told}");
            Swept { sweep: Sweep::default(), lies: Lies::default(), violations: 1 }
        }
    }
}

fn reproduce(script: &Script, plan: Plan<'_>, violation: &Violation) -> String {
    let mut last = violation.clone();
    let plan = Plan { from: 0, ..plan };
    let short = shrink(script, SHRINK_RUNS_MAX, |candidate| match Sweep::run(candidate, plan) {
        Ok(_) => false,
        Err(violation) => {
            last = violation;
            true
        }
    });
    format!(
        "VIOLATED: {violation}\n  shrunk to {} operations: {last}\n# solera-sim replay FILE --crash --seed {}\n{short}",
        short.operations.len(),
        plan.seed
    )
}

/// What a sequence consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Letter {
    /// One key gets a value.
    Put,
    /// A key goes.
    Delete,
    /// Puts and a delete over both keyspaces, at once.
    Batch,
    /// A range of keys goes.
    DeleteRange,
    /// An operand onto a counter.
    Merge,
    /// A memtable becomes a table.
    Flush,
    /// All tables become one run.
    Compact,
    /// A second directory.
    Checkpoint,
    /// A bulk load over keys that are there.
    Ingest,
    /// All that was acknowledged becomes durable.
    Sync,
    /// A knob is set; the database is closed and opened.
    Reopen,
    /// A keyspace goes, and one of its name takes its place.
    Renew,
}

impl Letter {
    /// The alphabet.
    pub const ALL: [Letter; 12] = [
        Letter::Put,
        Letter::Delete,
        Letter::Batch,
        Letter::DeleteRange,
        Letter::Merge,
        Letter::Flush,
        Letter::Compact,
        Letter::Checkpoint,
        Letter::Ingest,
        Letter::Sync,
        Letter::Reopen,
        Letter::Renew,
    ];

    fn operations(self, tag: u32) -> Vec<Operation> {
        let key = |key: &str| Bytes(key.as_bytes().to_vec());
        let put = |space, at, len| Change::Put { space, key: key(at), value: Value { tag, len } };
        let write = |change| Operation::Write { change };
        vec![match self {
            Letter::Put => write(put(0, "b", 40)),
            Letter::Delete => write(Change::Delete { space: 0, key: key("a") }),
            Letter::Batch => Operation::Batch {
                sync: false,
                changes: vec![
                    put(0, "a", 700),
                    put(1, "b", 8),
                    Change::Delete { space: 0, key: key("c") },
                    put(0, "d", 20),
                ],
            },
            Letter::DeleteRange => write(Change::DeleteRange { space: 0, start: key("a"), end: key("c") }),
            Letter::Merge => write(Change::Merge { space: 1, key: key("a"), operand: Value { tag, len: 3 } }),
            Letter::Flush => Operation::Flush { space: 0 },
            Letter::Compact => {
                Operation::Compact { space: 0, start: Edge::Unbounded {}, end: Edge::Unbounded {} }
            }
            Letter::Checkpoint => Operation::Checkpoint {},
            Letter::Ingest => {
                let entries = ["a", "c", "e"].map(|at| (key(at), Value { tag, len: 30 }));
                Operation::Ingest { space: 0, entries: entries.to_vec() }
            }
            Letter::Sync => Operation::Sync {},
            Letter::Reopen => return vec![Operation::Tune { seed: tag }, Operation::Reopen { change: 0 }],
            Letter::Renew => {
                return vec![
                    Operation::DropSpace { space: 1 },
                    Operation::CreateSpace { space: 1 },
                    write(put(1, "c", 8)),
                ];
            }
        }]
    }
}

/// Every sequence of one to `letters` letters.
fn sequences(letters: u32) -> Vec<Vec<Letter>> {
    let mut all: Vec<Vec<Letter>> = Vec::new();
    let mut longest = vec![Vec::new()];
    for _ in 0..letters {
        let longer = |short: &Vec<Letter>| {
            let short = short.clone();
            Letter::ALL.map(move |letter| [&short[..], &[letter]].concat())
        };
        longest = longest.iter().flat_map(longer).collect();
        all.extend(longest.iter().cloned());
    }
    all
}

/// The script of a sequence: a database with a table, a synced log and an unsynced end of it, then
/// the letters; and where its last letter begins. The seed chooses the setting.
fn sequence(seed: u64, letters: &[Letter]) -> (Script, usize) {
    let mut random = Random::new(seed ^ 0xabc);
    let spaces = [Operator::None, Operator::Counter];
    let setting = Setting {
        memory_bytes: 1 << 20,
        write_buffer_bytes: 4 << 10,
        sync: false,
        reclaim: Reclaim::ALL[seed as usize % Reclaim::ALL.len()],
        spare_percent: 1,
        spaces: spaces.map(|operator| SpaceSetting::random(&mut random, operator)).to_vec(),
    };
    let before = [
        Letter::Batch,
        Letter::Merge,
        Letter::Flush,
        Letter::Delete,
        Letter::Sync,
        Letter::Ingest,
        Letter::Put,
    ];
    let mut script = Script { setting, operations: Vec::new() };
    let mut from = 0;
    for (tag, letter) in before.iter().chain(letters).enumerate() {
        from = script.operations.len();
        script.operations.extend(letter.operations(tag as u32 + 1));
    }
    (script, from)
}

/// The life that every change to the engine must survive: puts, batches over keyspaces, a range
/// deletion, flushes, compactions, a checkpoint, a bulk load, rotation of the log, a dropped
/// keyspace. The seed chooses the setting.
pub fn scripted(seed: u64) -> Script {
    let mut random = Random::new(seed ^ 0x5eed);
    let mut setting = Setting::random(&mut random);
    setting.sync = seed % 3 == 2;
    let mut tag = 0;
    let mut value = |len: u32| {
        tag += 1;
        Value { tag, len }
    };
    let key = |n: u32| Bytes(format!("key{:03}", n * 7 % 40).into_bytes());
    let mut operations = Vec::new();
    for round in 0..4 {
        for n in 0..12 {
            let space = (n % 3 == 0).into();
            operations.push(Operation::Write {
                change: match (n % 4, space) {
                    (1, _) => Change::Delete { space, key: key(n + round) },
                    (_, 1) => Change::Merge { space, key: key(n + round), operand: value(4) },
                    _ => Change::Put { space, key: key(n + round), value: value(60) },
                },
            });
        }
        for n in 0..4 {
            operations.push(Operation::Batch {
                sync: n == 1,
                changes: vec![
                    Change::Put { space: 0, key: key(n * 3 + round), value: value(100) },
                    Change::Put { space: 2, key: key(n * 3 + round), value: value(30) },
                    Change::Merge { space: 2, key: key(n), operand: value(9) },
                    Change::Delete { space: 0, key: key(n + 20) },
                ],
            });
        }
        operations.push(Operation::Write {
            change: Change::DeleteRange { space: 0, start: key(1), end: Bytes(b"key02".to_vec()) },
        });
        operations.push(Operation::Step { times: 2 });
        operations.push(Operation::Tune { seed: seed as u32 * 4 + round });
        operations.push(match round {
            0 => Operation::Flush { space: 0 },
            1 => Operation::Checkpoint {},
            2 => Operation::Compact { space: 0, start: Edge::Unbounded {}, end: Edge::Unbounded {} },
            _ => Operation::DropSpace { space: 3 },
        });
        operations.push(match round {
            0 => Operation::Sync {},
            1 => Operation::Ingest {
                space: 2,
                entries: (0..20).map(|n| (Bytes(format!("load{n:02}").into_bytes()), value(40))).collect(),
            },
            2 => Operation::FlushAll {},
            _ => Operation::Idle {},
        });
        match round {
            0 => operations.push(Operation::Kill {}),
            1 => operations.push(Operation::Reopen { change: 0 }),
            _ => {}
        }
    }
    // A log that is full, and no thread that makes it durable before a writer needs it to be.
    let quarter = (setting.write_buffer_bytes / 4) as u32;
    let mut put = |n: u32, len: u32| Change::Put { space: 0, key: key(n), value: value(len) };
    operations.extend((0..5).map(|n| Operation::Write { change: put(n, quarter) }));
    operations.push(Operation::Batch { sync: true, changes: vec![put(5, 60)] });
    operations.extend((6..11).map(|n| Operation::Write { change: put(n, quarter) }));
    operations.push(Operation::Sync {});
    operations.extend((12..17).map(|n| Operation::Write { change: put(n, quarter) }));
    operations.extend([Operation::Write { change: put(17, 60) }, Operation::Step { times: 1 }]);
    Script { setting, operations }
}

/// A life of few keys in which a tuner looks at each turn, is killed with its database, goes on,
/// and sees it closed. The seed chooses agent and setting.
pub fn tuned(seed: u64) -> Script {
    const TURNS: u32 = 24;
    let mut random = Random::new(seed ^ 0x747e);
    let setting = Setting::random(&mut random);
    let agent = (seed % AGENTS.len() as u64) as u8;
    let mut operations = Vec::new();
    for turn in 0..TURNS {
        let key = |n: u32| Bytes(format!("key{:03}", (turn * 5 + n) * 7 % 20).into_bytes());
        for n in 0..5 {
            let put = Change::Put { space: 0, key: key(n), value: Value { tag: turn * 5 + n + 1, len: 90 } };
            let change = if n == 4 { Change::Delete { space: 0, key: key(n) } } else { put };
            operations.push(Operation::Write { change });
        }
        let get = |n| Operation::Get { view: View::Live {}, space: 0, key: key(n) };
        operations.extend((0..10).map(get));
        operations.extend([Operation::Step { times: 2 }, Operation::Look { agent }]);
        match turn % 8 {
            3 => operations.push(Operation::Tune { seed: seed as u32 * TURNS + turn }),
            5 => operations.push(Operation::Sync {}),
            7 if turn < 8 => operations.push(Operation::Kill {}),
            7 if turn < 16 => operations.push(Operation::Reopen { change: 0 }),
            _ => {}
        }
    }
    Script { setting, operations }
}

/// A random life of operations that write.
pub fn random(seed: u64, operations: usize) -> Script {
    let mut random = Random::new(seed);
    let setting = Setting::random(&mut random);
    let mut generator = Generator::new(&setting, &mut random);
    let mut script = Script { setting, operations: Vec::new() };
    let mut checkpoints = 0;
    while script.operations.len() < operations {
        let operation = generator.operation();
        let kept = match &operation {
            Operation::Checkpoint {} => {
                checkpoints += 1;
                checkpoints <= 2
            }
            Operation::Write { .. }
            | Operation::Batch { .. }
            | Operation::Ingest { .. }
            | Operation::Flush { .. }
            | Operation::FlushAll {}
            | Operation::Compact { .. }
            | Operation::Step { .. }
            | Operation::Idle {}
            | Operation::Sync {}
            | Operation::Tune { .. }
            | Operation::Reopen { .. }
            | Operation::Kill {}
            | Operation::DropSpace { .. }
            | Operation::CreateSpace { .. } => true,
            _ => false,
        };
        if kept {
            script.operations.push(operation);
        }
    }
    script
}

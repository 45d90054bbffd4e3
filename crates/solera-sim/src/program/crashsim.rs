//! `crashsim`: the power fails at every file operation of scripted and of random lives.

use super::{Scale, Verdict, for_each_seed};
use crate::{
    crash::{Sweep, Violation},
    random::Random,
    script::{Change, Edge, Operation, Script, Value, generate::Generator, shrink::shrink, text::Bytes},
    setting::Setting,
};
use solera::vfs::mem::Persist;

/// Runs spent on shrinking one violation; each is a whole sweep.
const SHRINK_RUNS_MAX: usize = 300;

/// How much to do.
#[derive(Clone, Debug)]
pub struct Amount {
    /// The first seed.
    pub first_seed: u64,
    /// How many seeds; each lives the scripted life and a random one.
    pub seeds: u64,
    /// Operations of a random life.
    pub operations: usize,
    /// What may be kept of unsynced changes.
    pub variants: Vec<Persist>,
    /// Sweeps at the same time.
    pub threads: usize,
}

/// Nothing, everything, random pages: what every change to the engine must survive.
pub const USUAL: [Persist; 3] = [Persist::Nothing, Persist::Everything, Persist::RandomPages(4096)];

impl Amount {
    /// As much as the scale says, from seed `first_seed` on.
    pub fn at(scale: Scale, first_seed: u64, threads: usize) -> Amount {
        Amount {
            first_seed,
            seeds: scale.of(15, 400),
            operations: 120,
            variants: scale.of(USUAL.to_vec(), Persist::ALL.to_vec()),
            threads,
        }
    }
}

/// Sweeps the lives of the seeds and prints each violation with a shrunk reproduction.
pub fn run(amount: &Amount) -> Verdict {
    let swept = for_each_seed(amount.first_seed, amount.seeds, amount.threads, |seed| {
        [("scripted", scripted(seed)), ("random", random(seed, amount.operations))].map(|(name, script)| {
            match Sweep::run(&script, &amount.variants, seed) {
                Ok(sweep) => {
                    println!("seed {seed} {name}: {} cuts, {} states", sweep.cuts, sweep.states);
                    Some(sweep)
                }
                Err(violation) => {
                    println!("seed {seed} {name}: {}", reproduce(seed, &script, amount, &violation));
                    None
                }
            }
        })
    });
    let mut sweep = Sweep::default();
    let mut violations = 0;
    for swept in swept.into_iter().flatten() {
        match swept {
            Some(swept) => sweep.add(&swept),
            None => violations += 1,
        }
    }
    Verdict::new("crashsim")
        .figure("states", sweep.states)
        .figure("recovery_crashes", sweep.recovery_crashes)
        .figure("cuts", sweep.cuts)
        .figure("flushes", sweep.work.flushes)
        .figure("compactions", sweep.work.compactions)
        .must_be_none("violations", violations)
        .figure("seeds", amount.seeds)
}

fn reproduce(seed: u64, script: &Script, amount: &Amount, violation: &Violation) -> String {
    let mut last = violation.clone();
    let short =
        shrink(script, SHRINK_RUNS_MAX, |candidate| match Sweep::run(candidate, &amount.variants, seed) {
            Ok(_) => false,
            Err(violation) => {
                last = violation;
                true
            }
        });
    format!(
        "VIOLATED: {violation}\n  shrunk to {} operations: {last}\n# seed {seed}\n{short}",
        short.operations.len()
    )
}

/// The life that every change to the engine must survive: puts, batches over keyspaces, a range deletion,
/// flushes, compactions, a checkpoint, a bulk load, rotation of the log, a dropped keyspace. The seed
/// chooses the setting.
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
            | Operation::Reopen { .. }
            | Operation::Kill {}
            | Operation::DropSpace { .. } => true,
            _ => false,
        };
        if kept {
            script.operations.push(operation);
        }
    }
    script
}

//! `metamorph`: the same operations under many option sets must give the same answers, operation by
//! operation; `run`.
//!
//! An `OptionSet` is a change of the plain setting, or something done between operations while
//! nothing is open, or both. What is done is a reopening, a kill, a flush, a compaction, waiting
//! for work, or a tuner's look. There are more than fifty. A difference is printed with a shrunk
//! script.
//!
//! What must hold: options may change how fast an answer comes, never the answer. Each life is held
//! against the oracle besides.
//!
//! Callers: `solera-sim metamorph`; `tests/lives.rs`.

use super::{Scale, Verdict, for_each_seed, watch};
use crate::{
    digest::Digest,
    life::{Failure, Pulse, live_telling},
    random::Random,
    script::{
        Edge, Operation, Script,
        generate::{Generator, SLOTS},
        shrink::shrink,
    },
    setting::{Operator, Setting, SpaceSetting},
    tuner,
};
use solera::{Compression, FilterKind, FilterSpread, IndexKind, Reclaim};
use std::collections::BTreeMap;

/// Runs spent on shrinking one difference; each is two lives.
const SHRINK_RUNS_MAX: usize = 2000;
/// After so many operations everything that is open is ended, so that something can be done
/// between.
const REST_AFTER: usize = 200;

/// How much to do.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// The first seed.
    pub first_seed: u64,
    /// How many seeds; each lives under every set.
    pub seeds: u64,
    /// Operations of each life.
    pub operations: usize,
    /// Lives lived at the same time.
    pub threads: usize,
}

impl Amount {
    /// As much as the scale says, from seed `first_seed` on.
    pub fn at(scale: Scale, first_seed: u64, threads: usize) -> Amount {
        Amount { first_seed, seeds: scale.of(6, 130), operations: 2500, threads }
    }
}

/// One way to live a script.
struct OptionSet {
    name: String,
    setting: Setting,
    /// Done between two operations wherever nothing is open.
    between: Vec<Operation>,
}

/// What users that choose nothing get, but for a small write buffer.
fn plain() -> Setting {
    let space = |operator| SpaceSetting {
        operator,
        index: IndexKind::default(),
        compression: Compression::None,
        block_bytes: 4096,
        epsilon: 64,
        filter_bits: 10,
        filter_spread: FilterSpread::default(),
        last_filter: FilterKind::default(),
        size_ratio: 10,
        run_limits: vec![4, 1],
        table_bytes: 16 << 20,
        separate_from: 0,
    };
    Setting {
        memory_bytes: 64 << 20,
        write_buffer_bytes: 32 << 10,
        sync: false,
        reclaim: Reclaim::default(),
        spare_percent: 30,
        spaces: Operator::ALL.map(space).to_vec(),
    }
}

/// Every set but the plain one. `seed` chooses those that are random.
fn option_sets(seed: u64) -> Vec<OptionSet> {
    let mut sets = Vec::new();
    let mut add = |name: &str, change: &dyn Fn(&mut Setting), between: &[Operation]| {
        let mut setting = plain();
        change(&mut setting);
        // Plain has a kind and a codec itself.
        if setting == plain() && between.is_empty() {
            return;
        }
        sets.push(OptionSet { name: name.to_owned(), setting, between: between.to_vec() });
    };
    let spaces = |change: fn(&mut SpaceSetting)| {
        move |setting: &mut Setting| setting.spaces.iter_mut().for_each(change)
    };
    let small = |setting: &mut Setting| {
        setting.write_buffer_bytes = 4 << 10;
        setting.spaces.iter_mut().for_each(|space| {
            space.block_bytes = 256;
            space.table_bytes = 2 << 10;
        });
    };
    for index in IndexKind::ALL {
        let each = |setting: &mut Setting| setting.spaces.iter_mut().for_each(|space| space.index = index);
        add(&format!("index-{index}"), &each, &[]);
        // Hundreds of blocks for it to find.
        let tiny = |setting: &mut Setting| {
            small(setting);
            each(setting);
        };
        add(&format!("index-{index}-small"), &tiny, &[]);
    }
    for compression in Compression::ALL.into_iter().filter(|compression| compression.available()) {
        let each = |setting: &mut Setting| {
            setting.spaces.iter_mut().for_each(|space| space.compression = compression)
        };
        add(&format!("codec-{compression}"), &each, &[]);
    }
    add("blocks-256", &spaces(|space| space.block_bytes = 256), &[]);
    add("blocks-1mib", &spaces(|space| space.block_bytes = 1 << 20), &[]);
    let corridor = |space: &mut SpaceSetting, epsilon| {
        space.index = IndexKind::DoblixPla;
        space.epsilon = epsilon;
    };
    add("epsilon-1", &move |setting| setting.spaces.iter_mut().for_each(|space| corridor(space, 1)), &[]);
    add(
        "epsilon-65536",
        &move |setting| setting.spaces.iter_mut().for_each(|space| corridor(space, 65536)),
        &[],
    );
    add("no-filter", &spaces(|space| space.filter_bits = 0), &[]);
    add("filter-1-bit", &spaces(|space| space.filter_bits = 1), &[]);
    add("filter-64-bits", &spaces(|space| space.filter_bits = 64), &[]);
    let filters = |spread, kind, bits| {
        move |setting: &mut Setting| {
            small(setting);
            setting.spaces.iter_mut().for_each(|space| {
                (space.filter_spread, space.last_filter, space.filter_bits) = (spread, kind, bits);
            });
        }
    };
    add("filters-uniform", &filters(FilterSpread::Uniform, FilterKind::Bloom, 10), &[]);
    add("filters-monkey", &filters(FilterSpread::Monkey, FilterKind::Bloom, 2), &[]);
    add("filters-monkey-ribbon", &filters(FilterSpread::Monkey, FilterKind::Ribbon, 7), &[]);
    add("filters-ribbon-1-bit", &filters(FilterSpread::Uniform, FilterKind::Ribbon, 1), &[]);
    add("memtable-4kib", &|setting| setting.write_buffer_bytes = 4 << 10, &[]);
    add("memtable-16mib", &|setting| setting.write_buffer_bytes = 16 << 20, &[]);
    // The cache then gets an eighth of a mebibyte, the least there is.
    let starved = |setting: &mut Setting| {
        setting.memory_bytes = 1 << 20;
        setting.write_buffer_bytes = 256 << 10;
    };
    add("memory-1mib", &starved, &[]);
    add("memory-1gib", &|setting| setting.memory_bytes = 1 << 30, &[]);
    let shapes: [(&str, u32, &[u32]); 6] = [
        ("leveling-2", 2, &[1]),
        ("leveling-10", 10, &[1]),
        ("tiering-2", 2, &[2]),
        ("tiering-4", 4, &[4]),
        ("lazy-leveling-3", 3, &[3, 3, 1]),
        ("widest-100", 100, &[64, 100]),
    ];
    for (name, size_ratio, run_limits) in shapes {
        let each = |setting: &mut Setting| {
            small(setting);
            setting.spaces.iter_mut().for_each(|space| {
                space.size_ratio = size_ratio;
                space.run_limits = run_limits.to_vec();
            });
        };
        add(name, &each, &[]);
    }
    add("tables-1kib", &spaces(|space| space.table_bytes = 1 << 10), &[]);
    add("tables-1gib", &spaces(|space| space.table_bytes = 1 << 30), &[]);
    add("values-apart", &spaces(|space| space.separate_from = 1), &[]);
    add("values-apart-from-50", &spaces(|space| space.separate_from = 50), &[]);
    for reclaim in Reclaim::ALL {
        let each = |setting: &mut Setting| {
            small(setting);
            (setting.reclaim, setting.spare_percent) = (reclaim, 1);
            setting.spaces.iter_mut().for_each(|space| space.separate_from = 8);
        };
        add(&format!("values-reclaimed-by-{}", reclaim.name()), &each, &[Operation::Idle {}]);
    }
    add("sync", &|setting| setting.sync = true, &[]);
    let all = || Edge::Unbounded {};
    let compacted: Vec<_> = (0..Operator::ALL.len() as u8)
        .map(|space| Operation::Compact { space, start: all(), end: all() })
        .collect();
    add("reopened", &|_| {}, &[Operation::Reopen { change: 0 }]);
    add("killed", &small, &[Operation::Kill {}]);
    add("flushed", &|_| {}, &[Operation::FlushAll {}]);
    add("compacted", &|_| {}, &compacted);
    add("settled", &small, &[Operation::Idle {}]);
    for (agent, name) in (0..).zip(tuner::AGENTS) {
        add(&format!("tuned-by-{name}"), &small, &[Operation::Look { agent }]);
    }
    for n in 1..=2 {
        let random = move |setting: &mut Setting| {
            *setting = Setting::random(&mut Random::new(seed.rotate_left(8) ^ n));
            for (space, operator) in setting.spaces.iter_mut().zip(Operator::ALL) {
                space.operator = operator;
            }
        };
        add(&format!("random-{n}"), &random, &[]);
    }
    sets
}

/// The operations of a seed. Reopenings keep the options; every now and then all that is open is
/// ended.
fn script(seed: u64, operations: usize) -> Script {
    let setting = plain();
    let mut random = Random::new(seed);
    let mut generator = Generator::new(&setting, &mut random);
    let mut script = Script { setting, operations: Vec::new() };
    for number in 1..=operations {
        script.operations.push(match generator.operation() {
            Operation::Reopen { .. } => Operation::Reopen { change: 0 },
            operation => operation,
        });
        if number % REST_AFTER == 0 {
            for slot in 0..SLOTS as u8 {
                script.operations.push(Operation::Release { slot });
                script.operations.push(Operation::Shut { slot });
                script.operations.push(Operation::Rollback { slot });
            }
        }
    }
    script
}

/// The script under a set, and which of its operations stand in the original.
fn under(script: &Script, set: &OptionSet) -> (Script, Vec<bool>) {
    let mut lived = Script { setting: set.setting.clone(), operations: Vec::new() };
    let mut original = Vec::new();
    // Slots that hold a snapshot, an iterator or a transaction.
    let mut open = [false; 3 * SLOTS as usize];
    for operation in &script.operations {
        let slot = |kind: u8, slot: u8| usize::from(kind * SLOTS as u8 + slot);
        match operation {
            Operation::Snapshot { slot: at } => open[slot(0, *at)] = true,
            Operation::Release { slot: at } => open[slot(0, *at)] = false,
            Operation::Open { slot: at, .. } => open[slot(1, *at)] = true,
            Operation::Shut { slot: at } => open[slot(1, *at)] = false,
            Operation::Begin { slot: at } => open[slot(2, *at)] = true,
            Operation::Commit { slot: at } | Operation::Rollback { slot: at } => open[slot(2, *at)] = false,
            Operation::Reopen { .. } | Operation::Kill {} => open.fill(false),
            _ => {}
        }
        lived.operations.push(operation.clone());
        original.push(true);
        if open == [false; 3 * SLOTS as usize] {
            lived.operations.extend_from_slice(&set.between);
            original.extend(set.between.iter().map(|_| false));
        }
    }
    original.push(true);
    (lived, original)
}

/// What each operation of the script answers under a set; shorter if the life ended badly.
fn answers(script: &Script, set: &OptionSet, pulse: &Pulse) -> (Vec<Digest>, Option<Failure>) {
    let (lived, original) = under(script, set);
    let mut answers = Vec::new();
    let mut told = 0;
    let failure = live_telling(&lived, pulse, |digest| {
        if original[told] {
            answers.push(digest);
        }
        told += 1;
    })
    .err();
    (answers, failure)
}

/// Where two lives part.
fn difference(script: &Script, set: &OptionSet, pulse: &Pulse) -> Result<Digest, String> {
    let plain = OptionSet { name: "plain".to_owned(), setting: plain(), between: Vec::new() };
    let (expected, failure) = answers(script, &plain, pulse);
    compare(script, &expected, failure.as_ref(), set, pulse)
}

fn compare(
    script: &Script,
    expected: &[Digest],
    failure: Option<&Failure>,
    set: &OptionSet,
    pulse: &Pulse,
) -> Result<Digest, String> {
    if let Some(failure) = failure {
        return Err(format!("plain: {failure}"));
    }
    let (found, failure) = answers(script, set, pulse);
    let whole = || {
        let mut whole = Digest::new();
        found.iter().for_each(|digest| whole.add(&digest.0.to_le_bytes()));
        whole
    };
    match found.iter().zip(expected).position(|(found, expected)| found != expected) {
        Some(at) => {
            let operation = script.operations.get(at).map_or("the end".to_owned(), ToString::to_string);
            Err(format!("{}: operation {at} answers otherwise than under plain: {operation}", set.name))
        }
        None => match failure {
            Some(failure) => Err(format!("{}: {failure}", set.name)),
            None => Ok(whole()),
        },
    }
}

/// Lives the scripts of the seeds under every set and prints each difference with a shrunk
/// reproduction.
pub fn run(amount: Amount) -> Verdict {
    let lived = for_each_seed(amount.first_seed, amount.seeds, amount.threads, |seed| {
        let script = script(seed, amount.operations);
        let sets = option_sets(seed);
        let compared = watch(
            |pulse| one(&script, &sets, pulse),
            |beats| println!("seed {seed}: hangs after {beats} operations"),
        );
        let mut digest = Digest::new();
        let mut differences = BTreeMap::new();
        for (set, compared) in sets.iter().zip(compared) {
            match compared {
                Ok(answers) => digest.add(&answers.0.to_le_bytes()),
                Err(what) => {
                    println!("seed {seed} {}", reproduce(seed, &script, set, &what));
                    differences.insert(set.name.clone(), what);
                }
            }
        }
        println!("seed {seed}: {} sets, {} differ", sets.len(), differences.len());
        (sets.len() as u64, differences.len() as u64, digest)
    });
    let mut digest = Digest::new();
    let (mut pairs, mut differences) = (0, 0);
    for (sets, differing, answers) in &lived {
        pairs += sets;
        differences += differing;
        digest.add(&answers.0.to_le_bytes());
    }
    Verdict::new("metamorph")
        .figure("pairs", pairs)
        .figure("sets", lived.first().map_or(0, |(sets, ..)| *sets))
        .figure("index_kinds", IndexKind::ALL.len())
        .figure("ops", (pairs + amount.seeds) * amount.operations as u64)
        .must_be_none("diffs", differences)
        .figure("digest", digest)
}

fn one(script: &Script, sets: &[OptionSet], pulse: &Pulse) -> Vec<Result<Digest, String>> {
    let plain = OptionSet { name: "plain".to_owned(), setting: plain(), between: Vec::new() };
    let (expected, failure) = answers(script, &plain, pulse);
    sets.iter().map(|set| compare(script, &expected, failure.as_ref(), set, pulse)).collect()
}

/// The difference with the shortest script found that shows one, as it is lived under the set.
fn reproduce(seed: u64, script: &Script, set: &OptionSet, what: &str) -> String {
    let mut last = what.to_owned();
    let short =
        shrink(script, SHRINK_RUNS_MAX, |candidate| match difference(candidate, set, &Pulse::default()) {
            Ok(_) => false,
            Err(what) => {
                last = what;
                true
            }
        });
    format!(
        "DIFFERS: {what}\n  shrunk to {} operations: {last}\n# seed {seed}, under {}\n{}",
        short.operations.len(),
        set.name,
        under(&short, set).0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_twenty_sets_and_none_is_another_or_plain() {
        let sets = option_sets(0);
        assert!(sets.len() >= 20, "{}", sets.len());
        let mut ways: Vec<_> = sets.iter().map(|set| (set.setting.clone(), set.between.clone())).collect();
        ways.push((plain(), Vec::new()));
        for (at, way) in ways.iter().enumerate() {
            assert!(!ways[..at].contains(way), "{way:?}");
        }
        for index in IndexKind::ALL {
            assert!(ways.iter().any(|(setting, _)| setting.spaces[0].index == index), "{index}");
        }
    }

    #[test]
    fn what_is_done_between_is_done_only_where_nothing_is_open() {
        let operations = vec![
            Operation::Sync {},
            Operation::Snapshot { slot: 1 },
            Operation::Sync {},
            Operation::Release { slot: 1 },
        ];
        let script = Script { setting: plain(), operations };
        let set = option_sets(0).into_iter().find(|set| set.name == "reopened").unwrap();
        let (lived, original) = under(&script, &set);
        assert_eq!(lived.operations[1], Operation::Reopen { change: 0 });
        assert_eq!(original, [true, false, true, true, true, false, true]);
    }
}

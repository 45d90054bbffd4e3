//! What might be better than the present plan: `search`, for a `Wish` in one `Group` of knobs.
//!
//! `Group` is the knobs that are changed together, `Wish` a change worth proposing. `search` finds
//! a group's cheapest plan by its caller's prices. `Whole` goes through seven groups, each from
//! where the last came to, at most twice. It is nothing if fewer than two steps gain.
//!
//! What must hold: the caller's price is `None` for what is not allowed. `search` asks neither
//! `dares` (an agent's record) nor `caution` (risky groups need more gain). `Home` is not searched.
//!
//! Callers: `steward` (`search`, `caution`, `settle`); `prices` (`dares`, `sets`, `makes_levels`,
//! `hazard_max`).

use super::{
    apart,
    plan::{Plan, divided_bytes},
};
use crate::{
    agent::{Credit, Set, Step},
    cost::SIZE_RATIO_MAX,
    sight::Window,
};
use serde::{Deserialize, Serialize};
use solera::control::knob;

/// Knobs that are changed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Group {
    /// K_i: free to change, and free to take back.
    Runs,
    /// T. A smaller one makes levels that reads have to pay for to be rid of; a larger one may
    /// spare levels.
    Ratio,
    /// T and write buffers together, where both are needed to spare a level: neither gains alone.
    Joint,
    /// How long level 0 waits.
    Level0,
    /// Write buffers, against the cache.
    Buffers,
    /// Filter bits, against the cache.
    Filters,
    /// The size of blocks.
    Blocks,
    /// Whether large values are kept apart. They stay where they are until they are moved.
    Values,
    /// All of them at once: what the model thinks best, before anything else was tried.
    Whole,
    /// All of them as if they were not set.
    Home,
}

impl Group {
    /// All of them.
    pub(super) const ALL: [Group; 9] = [
        Group::Runs,
        Group::Ratio,
        Group::Joint,
        Group::Level0,
        Group::Buffers,
        Group::Filters,
        Group::Blocks,
        Group::Whole,
        Group::Values,
    ];
    /// Those that the whole is made of, in the order in which they are settled.
    const OF_WHOLE: [Group; 7] = [
        Group::Buffers,
        Group::Ratio,
        Group::Joint,
        Group::Level0,
        Group::Runs,
        Group::Blocks,
        Group::Filters,
    ];

    /// How much worse reads of a workload to come may be for it, as a share. Little where the tree
    /// keeps what a change did to it until it is written anew.
    pub(super) fn hazard_max(self) -> f64 {
        match self {
            Group::Runs | Group::Ratio | Group::Joint | Group::Filters | Group::Blocks => 0.1,
            Group::Level0 | Group::Buffers | Group::Whole | Group::Home => 0.15,
            Group::Values => 0.2,
        }
    }

    /// How many times the gain that others must have it must have to be worth its risk, from `stay`
    /// to `plan`.
    pub(super) fn caution(self, window: &Window, stay: &Plan, plan: &Plan) -> f64 {
        match self {
            // Levels that leave at once are paid for at once: nothing has to be waited for.
            Group::Ratio | Group::Joint if plan.at_once && plan.size_ratio > stay.size_ratio => 1.0,
            Group::Ratio if divides(window, stay, plan) => 4.0,
            Group::Ratio | Group::Joint | Group::Filters | Group::Blocks | Group::Values => 1.5,
            Group::Runs | Group::Level0 | Group::Buffers | Group::Whole | Group::Home => 1.0,
        }
    }
}

/// Whether an agent of this record may go from `stay` to `plan` in one change.
pub(super) fn dares(credit: &Credit, stay: &Plan, plan: &Plan) -> bool {
    let numbers = |plan: &Plan| {
        let below = plan.run_limits.iter().zip(1..);
        let below = below.map(|(limit, level)| (knob::RUN_LIMIT.name, Some(level), f64::from(*limit)));
        let all = [
            (knob::RUN_LIMIT.name, Some(0), plan.level0_runs.into()),
            (knob::SIZE_RATIO.name, None, plan.size_ratio.into()),
            (knob::LEVEL0_PATIENCE.name, None, plan.patience.into()),
            (knob::FILTER_BITS_PER_KEY.name, None, plan.filter_bits),
            (knob::WRITE_BUFFER_PERCENT.name, None, plan.buffer_percent),
            (knob::BLOCK_BYTES.name, None, plan.block_bytes),
            (knob::SEPARATE_FROM.name, None, threshold(plan)),
        ];
        all.into_iter().chain(below).collect::<Vec<_>>()
    };
    let steps = numbers(stay).into_iter().zip(numbers(plan));
    let steps = steps.map(|((knob, level, old), (_, _, new))| Step { knob, level, old, new });
    let mut far = steps.filter(|step| step.old != step.new);
    far.all(|step| credit.allows(step))
}

/// The threshold of values that are kept apart, as the knob has it.
fn threshold(plan: &Plan) -> f64 {
    plan.separate_from.unwrap_or(u32::MAX).into()
}

/// A change that is worth proposing.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wish {
    pub(super) group: Group,
    pub(super) plan: Plan,
    pub(super) sets: Vec<Set>,
    pub(super) why: String,
    /// Windows before its effect is there.
    pub(super) settle: u32,
    /// What it takes once, in windows, where that is to be set aside.
    pub(super) once: f64,
}

/// Size ratios that are tried.
const SIZE_RATIOS: [u32; 8] = [3, 4, 6, 8, 10, 14, 20, SIZE_RATIO_MAX];
/// Patiences of level 0 that are tried.
const PATIENCES: [u32; 7] = [0, 4, 13, 18, 27, 40, 64];
/// Run limits of level 0 that are tried where its patience does not count.
const LEVEL0_RUNS: [u32; 11] = [1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32];
/// Filter bits that are tried.
const FILTER_BITS: [f64; 7] = [4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 18.0];
/// Bytes of a block that are tried.
const BLOCK_BYTES: [f64; 6] = [1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0];
/// Write buffers that are tried, as shares of what there is.
const BUFFER_FACTORS: [f64; 8] = [0.13, 0.25, 0.5, 0.75, 1.5, 2.0, 4.0, 8.0];
/// The same where they grow together with T, and how much of the data levels are to have room for:
/// one that is spared is not to come back soon.
const JOINT_FACTORS: [f64; 6] = [1.5, 2.0, 3.0, 4.0, 6.0, 8.0];
const JOINT_ROOM: f64 = 1.1;
/// The same before a level counts as made: a tree is larger than its data while it is written.
const MADE_ROOM: f64 = 1.6;
/// Percent of the divided memory that write buffers may take.
const BUFFERS_PERCENT: (f64, f64) = (2.0, 70.0);
/// The smallest write buffer, in bytes.
const BUFFER_BYTES_MIN: f64 = 32.0 * 1024.0;
/// The least that a group must gain to be a part of the whole, as a share.
const WHOLE_GAIN_MIN: f64 = 0.01;
/// How often the whole goes through its groups: what one gains may depend on those behind it.
const WHOLE_PASSES: u32 = 2;
/// Windows that a change of filters or blocks may take to be in enough tables.
const SETTLE_MAX: u32 = 4;

/// The cheapest plan of a group, as a wish, and its price as a share of what staying costs. `ratio`
/// gives that, or `None` for a plan that is not to be considered.
pub(super) fn search(
    group: Group,
    window: &Window,
    stay: &Plan,
    ratio: impl Fn(&Plan) -> Option<f64>,
) -> Option<(Wish, f64)> {
    let (plan, ratio) = match group {
        Group::Whole => whole(window, stay, &ratio)?,
        _ => best_of(group, window, stay, stay, &ratio)?,
    };
    let (sets, why) = sets(stay, &plan);
    let settle = settle(stay, &plan);
    Some((Wish { group, plan, sets, why, settle, once: 0.0 }, ratio))
}

/// Windows before the effect of `plan` is there.
pub(super) fn settle(stay: &Plan, plan: &Plan) -> u32 {
    let of_tables = |plan: &Plan| (plan.filter_bits, plan.block_bytes, plan.separate_from);
    if of_tables(plan) != of_tables(stay) { SETTLE_MAX } else { 1 }
}

/// The cheapest plan of a group of those near `from`, as a share of what `stay` costs.
fn best_of(
    group: Group,
    window: &Window,
    stay: &Plan,
    from: &Plan,
    ratio: &impl Fn(&Plan) -> Option<f64>,
) -> Option<(Plan, f64)> {
    let mut best: Option<(Plan, f64)> = None;
    for plan in plans(group, window, from) {
        if plan == *stay || plan == *from {
            continue;
        }
        let Some(ratio) = ratio(&plan).filter(|ratio| ratio.is_finite()) else { continue };
        // Tables that are there keep what they have until they are written anew.
        let ratio = 1.0 - rewritten(group, window) * (1.0 - ratio);
        if best.as_ref().is_none_or(|(_, least)| ratio < *least) {
            best = Some((plan, ratio));
        }
    }
    best
}

/// One group after the other, each from where the last came to, until none gains any more; nothing
/// if fewer than two steps gain.
fn whole(window: &Window, stay: &Plan, ratio: &impl Fn(&Plan) -> Option<f64>) -> Option<(Plan, f64)> {
    let (mut plan, mut least, mut gained) = (stay.clone(), 1.0, 0);
    // One more level is a risk of its own.
    let ratio = |plan: &Plan| if divides(window, stay, plan) { None } else { ratio(plan) };
    for _ in 0..WHOLE_PASSES {
        let before = least;
        for group in Group::OF_WHOLE {
            let next = best_of(group, window, stay, &plan, &ratio);
            if let Some((next, ratio)) = next.filter(|(_, ratio)| *ratio < least * (1.0 - WHOLE_GAIN_MIN)) {
                (plan, least, gained) = (next, ratio, gained + 1);
            }
        }
        if least == before {
            break;
        }
    }
    (gained > 1).then_some((plan, least))
}

/// Whether a smaller T makes a level that `stay` does not need.
fn divides(window: &Window, stay: &Plan, plan: &Plan) -> bool {
    let levels = |plan: &Plan| levels_needed(window, plan, JOINT_ROOM);
    plan.size_ratio < stay.size_ratio && levels(plan) > levels(stay)
}

/// Whether `plan` may make a level that `stay` does not: reads have to pay for the way back.
pub(super) fn makes_levels(window: &Window, stay: &Plan, plan: &Plan) -> bool {
    let levels = |plan: &Plan| levels_needed(window, plan, MADE_ROOM);
    levels(plan) > levels(stay)
}

/// Of all tables, how much is written anew while the effect is waited for: 0 to 1.
fn rewritten(group: Group, window: &Window) -> f64 {
    match group {
        Group::Runs | Group::Ratio | Group::Joint | Group::Level0 | Group::Buffers => 1.0,
        Group::Values | Group::Whole | Group::Home => 1.0,
        Group::Filters | Group::Blocks => {
            let written = (window.bytes_flushed + window.bytes_compacted) as f64;
            (f64::from(SETTLE_MAX + 2) * written / window.table_bytes().max(1) as f64).min(1.0)
        }
    }
}

fn plans(group: Group, window: &Window, from: &Plan) -> Vec<Plan> {
    match group {
        Group::Whole | Group::Home => Vec::new(),
        Group::Runs => runs(from),
        Group::Ratio => ratios(from),
        Group::Joint => joint(window, from),
        Group::Level0 => {
            let patient = PATIENCES.into_iter().map(|patience| Plan { patience, ..from.clone() });
            // Where patience does not exceed it, the run limit counts.
            let limited = LEVEL0_RUNS.into_iter().map(|level0_runs| {
                let patience = from.patience.min(level0_runs);
                Plan { level0_runs, patience, ..from.clone() }
            });
            patient.chain(limited).collect()
        }
        Group::Buffers => {
            let factors = BUFFER_FACTORS.into_iter().map(|factor| from.buffer_percent * factor);
            let least = BUFFERS_PERCENT.0.max(BUFFER_BYTES_MIN * 400.0 / divided_bytes(window));
            let of = |percent: f64| Plan { buffer_percent: hundredths(percent), ..from.clone() };
            let legal = factors.filter(|percent| {
                // One that is too small already may grow.
                (*percent >= least || *percent > from.buffer_percent) && *percent <= BUFFERS_PERCENT.1
            });
            at_once_too(legal.map(of), |plan| plan.buffer_percent > from.buffer_percent)
        }
        Group::Filters => {
            FILTER_BITS.into_iter().map(|filter_bits| Plan { filter_bits, ..from.clone() }).collect()
        }
        Group::Values => {
            let other = from.separate_from.is_none().then(|| apart::threshold_for(window));
            other
                .is_none_or(|threshold| threshold.is_some())
                .then(|| Plan { separate_from: other.flatten(), ..from.clone() })
                .into_iter()
                .collect()
        }
        Group::Blocks => {
            BLOCK_BYTES.into_iter().map(|block_bytes| Plan { block_bytes, ..from.clone() }).collect()
        }
    }
}

/// Families of run limits, and neighbours of what there is.
fn runs(stay: &Plan) -> Vec<Plan> {
    let (depth, ratio) = (stay.run_limits.len(), stay.size_ratio);
    let mut all: Vec<Vec<u32>> = [1, 2, 3, 4, 5, 7, ratio].map(|runs| vec![runs; depth]).into();
    let mut lazy = vec![ratio; depth];
    lazy[depth - 1] = 1;
    all.push(lazy);
    for level in 0..depth {
        let limit = stay.run_limits[level];
        for next in [limit.saturating_sub(1), limit + 1, limit * 2] {
            let mut limits = stay.run_limits.clone();
            limits[level] = next;
            all.push(limits);
        }
    }
    let legal = all.into_iter().map(|limits| limits.iter().map(|limit| (*limit).clamp(1, ratio)).collect());
    // No level is to be merged because its run limit changes.
    legal.map(|run_limits| Plan { run_limits, at_once: false, ..stay.clone() }).collect()
}

/// `plans`, and those that may spare levels also so that these leave at once.
fn at_once_too(plans: impl Iterator<Item = Plan>, spares: impl Fn(&Plan) -> bool) -> Vec<Plan> {
    let both = |plan: Plan| {
        let at_once = (spares(&plan) && !plan.at_once).then(|| Plan { at_once: true, ..plan.clone() });
        [plan].into_iter().chain(at_once)
    };
    plans.flat_map(both).collect()
}

/// `stay` with another size ratio, and the run limits as far as they go.
fn of_ratio(stay: &Plan, size_ratio: u32) -> Plan {
    // A run limit that was T goes on being T.
    let limit = |&limit: &u32| if limit == stay.size_ratio { size_ratio } else { limit.min(size_ratio) };
    let run_limits: Vec<u32> = stay.run_limits.iter().map(limit).collect();
    let at_once = stay.at_once && run_limits == stay.run_limits;
    Plan { size_ratio, run_limits, at_once, ..stay.clone() }
}

/// Larger size ratios with larger write buffers, each the least that needs a level less than `from`
/// does together with the other, where neither is enough alone.
fn joint(window: &Window, from: &Plan) -> Vec<Plan> {
    let levels = |plan: &Plan| levels_needed(window, plan, JOINT_ROOM);
    let now = levels(from);
    let factors = JOINT_FACTORS.into_iter().map(|factor| from.buffer_percent * factor);
    let of = |percent: f64| {
        let buffers = Plan { buffer_percent: hundredths(percent), ..from.clone() };
        let both = SIZE_RATIOS.into_iter().filter(|ratio| *ratio > from.size_ratio);
        let both = both.map(|ratio| of_ratio(&buffers, ratio)).find(|plan| levels(plan) < now)?;
        let ratio = of_ratio(from, both.size_ratio);
        (levels(&buffers) >= now && levels(&ratio) >= now).then_some(both)
    };
    let legal = factors.filter(|percent| *percent <= BUFFERS_PERCENT.1);
    at_once_too(legal.filter_map(of), |plan| plan.run_limits == from.run_limits)
}

/// Levels below 0 that `plan` needs for so many times what there is.
fn levels_needed(window: &Window, plan: &Plan, room: f64) -> u32 {
    let bytes = room * window.table_bytes() as f64;
    let ratio = f64::from(plan.size_ratio.max(2));
    let (mut levels, mut capacity) = (1, plan.buffer_bytes(window) * (ratio - 1.0) * ratio);
    while capacity < bytes {
        (levels, capacity) = (levels + 1, capacity * ratio);
    }
    levels
}

fn hundredths(percent: f64) -> f64 {
    (percent * 100.0).round() / 100.0
}

/// Other size ratios, with the run limits as far as they go.
fn ratios(stay: &Plan) -> Vec<Plan> {
    let legal = SIZE_RATIOS.into_iter().filter(|ratio| *ratio <= SIZE_RATIO_MAX);
    let of = |size_ratio: u32| of_ratio(stay, size_ratio);
    // A run limit that is changed with it is not to have its level merged.
    let spares = |plan: &Plan| plan.size_ratio > stay.size_ratio && plan.run_limits == stay.run_limits;
    at_once_too(legal.map(of), spares)
}

/// What to set to come from one plan to another, and what that is in words.
pub(super) fn sets(stay: &Plan, plan: &Plan) -> (Vec<Set>, String) {
    let (mut sets, mut words) = (Vec::new(), Vec::new());
    let mut number = |knob: &str, of: fn(&Plan) -> f64, name: &str| {
        if of(plan) != of(stay) {
            sets.push(Set::new(knob, of(plan)));
            words.push(format!("{name} {} for {}", of(plan), of(stay)));
        }
    };
    number(knob::SIZE_RATIO.name, |plan| plan.size_ratio.into(), "T");
    number(knob::LEVEL0_PATIENCE.name, |plan| plan.patience.into(), "patience of level 0");
    number(knob::WRITE_BUFFER_PERCENT.name, |plan| plan.buffer_percent, "write buffers in %");
    number(knob::FILTER_BITS_PER_KEY.name, |plan| plan.filter_bits, "filter bits");
    number(knob::BLOCK_BYTES.name, |plan| plan.block_bytes, "bytes of a block");
    number(knob::SEPARATE_FROM.name, threshold, "values apart from");
    if plan.at_once != stay.at_once {
        let transition = &knob::TRANSITION.name;
        sets.push(match plan.at_once {
            true => Set::new(transition, "greedy"),
            false => Set::reset(transition, None),
        });
        words.push(if plan.at_once { "levels leave at once" } else { "levels wait for reads" }.to_owned());
    }
    if plan.level0_runs != stay.level0_runs {
        sets.push(Set::of_level(knob::RUN_LIMIT.name, 0, plan.level0_runs));
        words.push(format!("runs of level 0 {} for {}", plan.level0_runs, stay.level0_runs));
    }
    if plan.run_limits != stay.run_limits {
        // The last holds for all deeper levels, those to come too.
        let last = *plan.run_limits.last().expect("a level below 0");
        sets.push(Set::new(knob::RUN_LIMIT.name, last));
        let others = plan.run_limits.iter().enumerate().filter(|(_, limit)| **limit != last);
        sets.extend(others.map(|(at, limit)| Set::of_level(knob::RUN_LIMIT.name, at as u32 + 1, limit)));
        words.push(format!("K {:?} for {:?}", plan.run_limits, stay.run_limits));
    }
    (sets, words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        sight::{Look, Pace, Watch},
        world::{Phase, Setup, World},
    };
    use solera::{
        Shape,
        control::{Change, Value},
    };

    /// Symptom: a workload of scans went on reading a level that it need not have. Cause: neither
    /// a larger T nor larger write buffers spared it alone, and one thing was changed at a time.
    /// Cure: they are changed together where both are needed.
    #[test]
    fn a_level_that_neither_size_ratio_nor_write_buffers_spare_alone_is_spared_by_both() {
        let shape = Shape {
            size_ratio: 20,
            run_limits: vec![4, 1],
            write_buffer_bytes: 16 << 10,
            table_bytes: 256 << 10,
        };
        let setup = Setup { entries: 20_000, value_bytes: 992, memory_bytes: 1 << 20, ..Setup::default() };
        let mut world = World::new(Setup { shape: Some(shape), ..setup }).unwrap();
        let scans = Phase::of([0.0, 5.0, 94.0, 1.0]);
        let pace = Pace { operations_min: 2_000, elapsed_ns_min: 0, ..Pace::default() };
        let mut watch = Watch::new("default", pace, world.db().control().observe(), 0);
        let took = |world: &mut World| {
            let begin = world.now_ns();
            world.run(&scans, 4_000).unwrap();
            (world.now_ns() - begin) as f64 / 4_000.0
        };
        let before = took(&mut world);
        let Look::Ended(window) = watch.look(world.db().control().observe()) else {
            panic!("a window of 4,000 operations has not ended")
        };
        let stay = Plan::of(&window);
        let plans = plans(Group::Joint, &window, &stay);
        let least = plans.iter().find(|plan| plan.at_once).expect("both together spare a level");
        assert!(plans.iter().all(|plan| plan.size_ratio > 20 && plan.buffer_percent > stay.buffer_percent));
        let alone = [
            Plan { size_ratio: least.size_ratio, ..stay.clone() },
            Plan { buffer_percent: least.buffer_percent, ..stay.clone() },
        ];
        let needed = alone.map(|plan| levels_needed(&window, &plan, JOINT_ROOM));
        assert_eq!((needed, levels_needed(&window, least, JOINT_ROOM)), ([2, 2], 1));

        let levels_below_0 = |world: &World| {
            let observed = world.db().control().observe();
            observed.keyspace("default").unwrap().levels[1..].iter().filter(|level| level.runs > 0).count()
        };
        assert_eq!(levels_below_0(&world), 2);
        let mut change = Change::new("test", "fewer levels");
        for set in sets(&stay, least).0 {
            change = change.set(&set.knob, Value::parse(&set.value.expect("a value")));
        }
        world.db().control().apply(change).unwrap();
        took(&mut world);
        assert_eq!(levels_below_0(&world), 1, "the engine does what is foreseen");
        let after = took(&mut world);
        assert!(after < 0.85 * before, "{after:.0} ns, {before:.0} before");
    }

    /// A window of a world of small write buffers, whose tree has three levels below 0.
    fn of_three_levels() -> Window {
        let shape = Shape {
            size_ratio: 10,
            run_limits: vec![4, 1],
            write_buffer_bytes: 8 << 10,
            table_bytes: 256 << 10,
        };
        let setup = Setup { entries: 20_000, value_bytes: 992, memory_bytes: 1 << 20, ..Setup::default() };
        let mut world = World::new(Setup { shape: Some(shape), ..setup }).unwrap();
        let pace = Pace { operations_min: 1_000, elapsed_ns_min: 0, ..Pace::default() };
        let mut watch = Watch::new("default", pace, world.db().control().observe(), 0);
        world.run(&Phase::of([0.0, 50.0, 0.0, 50.0]), 1_000).unwrap();
        let Look::Ended(window) = watch.look(world.db().control().observe()) else {
            panic!("a window of 1,000 operations has not ended")
        };
        *window
    }

    /// Symptom: nothing was changed where larger write buffers gain much, but only with fewer runs
    /// in level 0. Cause: the whole asked for write buffers first and never again. Cure: it goes
    /// through its groups twice.
    #[test]
    fn the_whole_finds_what_gains_only_together_whichever_comes_first() {
        let window = of_three_levels();
        let stay = Plan::of(&window);
        let price = |plan: &Plan| {
            let few_runs = plan.level0_runs == 3;
            let large = few_runs && plan.buffer_percent > 3.0 * stay.buffer_percent;
            Some(1.0 - if few_runs { 0.02 } else { 0.0 } - if large { 0.1 } else { 0.0 })
        };
        let (wish, ratio) = search(Group::Whole, &window, &stay, price).expect("both together gain");
        assert!(wish.plan.level0_runs == 3 && wish.plan.buffer_percent > 3.0 * stay.buffer_percent);
        assert!((ratio - 0.88).abs() < 1e-9, "{ratio}");
        let alone = |plan: &Plan| Some(if plan.level0_runs == 3 { 0.9 } else { 1.0 });
        assert!(search(Group::Whole, &window, &stay, alone).is_none(), "one group alone is no whole");
    }

    /// Symptom: level 1 stayed larger than it need be. Cause: each smaller T was held to make a
    /// level. Cure: whether it does is looked at.
    #[test]
    fn a_smaller_size_ratio_is_a_risk_only_where_it_makes_a_level() {
        let window = of_three_levels();
        let stay = Plan::of(&window);
        let caution = |size_ratio| Group::Ratio.caution(&window, &stay, &of_ratio(&stay, size_ratio));
        let needed = |size_ratio| levels_needed(&window, &of_ratio(&stay, size_ratio), JOINT_ROOM);
        assert_eq!((needed(10), needed(8), needed(3)), (3, 3, 7), "levels that are needed");
        assert!(caution(8) < caution(3) && caution(8) == caution(20));
    }
}

//! The steward on windows of worlds of counted time: what it takes for a lasting context, what
//! teaches it, and its way home.
//!
//! What must hold: each test names a symptom that there was, and its cause.
//!
//! Caller: `cargo test`; a part of `steward`.

use super::*;
use crate::{
    attach::Attach,
    sight::{LevelSight, Look, Measure, Pace, Watch},
    world::{Keys, Phase, Setup, World, device},
};
use solera::control::{Change, knob};

fn steward() -> Steward {
    let goal = Goal { measure: Measure::Elapsed, ..Goal::default() };
    Steward::new(&Maker { name: NAME.into(), seed: 1, units: device(), goal })
}

/// The first window of a world of `entries` keys under `shares` of operations, of context 1.
fn window(entries: u64, shares: [f64; 4]) -> Window {
    let mut world = World::new(Setup { entries, ..Setup::default() }).unwrap();
    let pace = Pace { operations_min: 3_000, elapsed_ns_min: 0, ..Pace::default() };
    let mut watch = Watch::new("default", pace, world.db().control().observe(), 0);
    loop {
        world.run(&Phase::of(shares), 1_000).unwrap();
        if let Look::Ended(window) = watch.look(world.db().control().observe()) {
            return Window { context: 1, blocked: None, ..*window };
        }
    }
}

/// Symptom: an epoch of writes took 1.7 times as long as by default, many windows after a change
/// that was never judged. Cause: smaller write buffers had made a level, which stayed, and merges
/// came at other times. Cure: what makes a level is for contexts that have lasted.
#[test]
fn smaller_write_buffers_that_make_a_level_are_for_contexts_that_last() {
    let (mut steward, window) = (steward(), window(60_000, [0.0, 90.0, 0.0, 10.0]));
    let stay = Plan::of(&window);
    let half = Plan { buffer_percent: 0.5 * stay.buffer_percent, ..stay.clone() };
    let small = Plan { buffer_percent: 0.13 * stay.buffer_percent, ..stay.clone() };
    let makes = |plan: &Plan| wishes::makes_levels(&window, &stay, plan);
    assert!(makes(&small) && !makes(&half));
    for seen in 1..=3 {
        steward.see(&Window { number: seen, ..window.clone() });
        let prices = Prices::new(&steward, &window, &stay);
        let allowed = |plan: &Plan| prices.allowed(plan, Group::Buffers).is_some();
        assert_eq!((prices.is_early(&half), prices.is_early(&small)), (false, seen < 3), "{seen}");
        assert!(allowed(&half) && (seen == 3 || !allowed(&small)), "{seen}");
    }
}

/// Symptom: where two workloads took turns within each window, a change was made in the first
/// window that was of one alone, and its context was over before it was judged. Cause: windows of
/// several workloads were not remembered. Cure: after one a context must last before it is changed.
#[test]
fn after_a_window_of_several_workloads_nothing_is_changed_before_one_of_them_lasts() {
    let (mut steward, window) = (steward(), window(60_000, [0.0, 90.0, 0.0, 10.0]));
    let see = |steward: &mut Steward, number, context, blocked| {
        let window = Window { number, context, blocked, ..window.clone() };
        steward.see(&window);
        steward.propose(&window).is_some()
    };
    let calm = [1, 2, 3].map(|number| see(&mut steward, number, 1, None));
    assert!(calm[2], "there is something to gain");
    assert!(!see(&mut steward, 4, 0, Some(Blocked::Mixed)));
    let after = [5, 6, 7].map(|number| see(&mut steward, number, 1, None));
    assert_eq!(after, [false, false, true]);
}

/// Symptom: after a level had left, nothing more was changed, though a second level could be
/// spared. Cause: the merge by which it left was held against the model, so that merges to come
/// seemed four times as dear. Cure: a window in which a level leaves teaches nothing of merges.
#[test]
fn the_merge_by_which_a_level_leaves_does_not_make_merges_to_come_dearer() {
    let (mut steward, window) = (steward(), window(60_000, [0.0, 50.0, 0.0, 50.0]));
    let mut deep = window.clone();
    let fullest = window.levels.iter().max_by_key(|level| level.entries).expect("levels");
    deep.levels.push(LevelSight { level: window.levels.len() as u32, ..fullest.clone() });
    let lifts = |window: &Window| {
        let mut window = Window { number: 2, ..window.clone() };
        window.levels.iter_mut().for_each(|level| level.entries_in += 20 * level.entries);
        window
    };
    steward.see(&deep);
    let before = steward.memory.merges();
    let mut others = steward.clone();
    steward.see(&lifts(&window));
    assert_eq!(steward.memory.merges(), before, "a level has left");
    others.see(&lifts(&deep));
    assert!(others.memory.merges() > 1.5 * before, "no level has left: {}", others.memory.merges());
}

/// What a tuner has set is reset, what a person has set is not, and what the plan says stands then.
#[test]
fn the_way_home_resets_what_was_set_but_for_what_others_set_and_ends_where_it_began() {
    let mut world = World::new(Setup { entries: 5_000, ..Setup::default() }).unwrap();
    let pace = Pace { operations_min: 1_000, elapsed_ns_min: 0, flushes_min: 0, ..Pace::default() };
    let mut watch = Watch::new("default", pace, world.db().control().observe(), 0);
    let mut look = |world: &mut World| loop {
        world.run(&Phase::of([0.0, 50.0, 0.0, 50.0]), 1_000).unwrap();
        if let Look::Ended(window) = watch.look(world.db().control().observe()) {
            return *window;
        }
    };
    let (mut home, first) = (Home::default(), look(&mut world));
    home.note(&first);
    assert_eq!(home.way(&first, &[]), None, "nobody has set anything");
    let change = Change::new("test", "other settings").set(&knob::RUN_LIMIT, 3u32);
    let change = change.set_level(&knob::RUN_LIMIT, 0, 16u32).set(&knob::WRITE_BUFFER_PERCENT, 10.0);
    world.db().control().apply(change).unwrap();
    let second = look(&mut world);
    home.note(&second);
    let (sets, plan) = home.way(&second, &[]).expect("there is something to reset");
    let of = |plan: &Plan| (plan.level0_runs, plan.run_limits[0], plan.buffer_percent);
    assert_eq!((sets.len(), of(&plan)), (3, of(&Plan::of(&first))));
    let foreign = [(knob::WRITE_BUFFER_PERCENT.name.to_owned(), None)];
    let (sets, plan) = home.way(&second, &foreign).expect("run limits are to be reset");
    assert!(sets.len() == 2 && sets.iter().all(|set| set.value.is_none()));
    assert_eq!((of(&plan).0, of(&plan).1), (of(&Plan::of(&first)).0, of(&Plan::of(&first)).1));
    assert_eq!(plan.buffer_percent, 10.0, "what a person set stays");
}

/// Where few of many large values are written and read again and again, moving what lives longer
/// takes less than merging all of them. Small values never get a threshold.
#[test]
fn large_values_of_a_workload_that_lasts_are_kept_apart_where_few_of_them_are_hot() {
    const WINDOWS: u64 = 48;
    let keys = Keys::Hot { at_permille: 0, size_permille: 100, share_permille: 900 };
    let phase = Phase { keys, ..Phase::of([0.0, 50.0, 0.0, 50.0]) };
    let live = |value_bytes: usize, is_tuned: bool| {
        let entries = (12 << 20) / value_bytes as u64;
        let mut world = World::new(Setup { entries, value_bytes, ..Setup::default() }).unwrap();
        let goal = Goal { measure: Measure::Elapsed, ..Goal::default() };
        let pace = Pace { operations_min: 2_000, elapsed_ns_min: 0, ..Pace::default() };
        let attach = || Attach::new(goal).units(device()).pace(pace).stepped(world.db()).unwrap();
        let mut tuner = is_tuned.then(attach);
        let mut begin = 0;
        for step in 0..WINDOWS * 4 {
            if step == WINDOWS * 3 {
                begin = world.now_ns();
            }
            world.run(&phase, 500).unwrap();
            if let Some(tuner) = &mut tuner {
                tuner.step();
            }
        }
        let observed = world.db().control().observe();
        let threshold = observed.setting(knob::SEPARATE_FROM.name, "default", None).unwrap().number();
        (world.now_ns() - begin, threshold, observed.keyspaces[0].separated_values * 10 / entries)
    };
    let (inline, ..) = live(16_384, false);
    let (tuned, threshold, tenths_apart) = live(16_384, true);
    assert_eq!((threshold, tenths_apart), (Some(4096.0), 10), "all values lie apart");
    assert!(tuned < inline * 85 / 100, "{tuned} ns, {inline} before");
    assert_eq!(live(1_000, true).1, Some(f64::from(u32::MAX)), "values of 1,000 bytes stay in their entries");
}

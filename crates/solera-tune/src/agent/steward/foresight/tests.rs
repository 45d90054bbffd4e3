//! What the steward foresees, held against worlds of counted time that do what was foreseen.
//!
//! What must hold: each test names a symptom that there was, and its cause. The engine does what a
//! walk says, as far as a test looks.
//!
//! Caller: `cargo test`; a part of `foresight`.

use super::{super::seen, *};
use crate::{
    sight::{Look, Pace, Watch},
    world::{Keys, Phase, Setup, World, device},
};
use solera::control::{Change, knob};

const OPERATIONS: u64 = 20_000;

/// A world of writes that is observed for a window.
fn night() -> (World, Window) {
    let mut world = World::new(Setup { entries: 30_000, ..Setup::default() }).unwrap();
    let pace = Pace { operations_min: OPERATIONS, elapsed_ns_min: 0, ..Pace::default() };
    let mut watch = Watch::new("default", pace, world.db().control().observe(), 0);
    world.run(&Phase::of([5.0, 5.0, 0.0, 90.0]), OPERATIONS).unwrap();
    let Look::Ended(window) = watch.look(world.db().control().observe()) else {
        panic!("a window of {OPERATIONS} operations has not ended")
    };
    (world, *window)
}

fn levels_below_0(world: &World) -> usize {
    let observed = world.db().control().observe();
    let levels = &observed.keyspace("default").unwrap().levels;
    levels.iter().filter(|level| level.level > 0 && level.runs > 0).count()
}

/// Symptom: in a night of writes smaller write buffers were tried and taken back, and all day
/// lookups took 1.4 times as long. Cause: levels are multiples of a write buffer, so the trial
/// had made one more, and larger buffers did not take it away again. Cure: the way back is
/// walked too, and the level leaves once reads have paid.
#[test]
fn the_level_that_smaller_write_buffers_made_leaves_when_they_are_taken_back_and_reads_have_paid() {
    let (mut world, window) = night();
    let (units, goal, scales) = (device(), Goal::default(), Scales::default());
    let foresight = Foresight { units: &units, goal: &goal, scales: &scales, skew: Skew::EVEN };
    let stay = Plan::of(&window);
    let with = |factor: f64| Plan { buffer_percent: stay.buffer_percent * factor, ..stay.clone() };
    let stays = foresight.walk(&window, &stay, 12.0);
    let worst = |hazards: [f64; 3]| hazards.into_iter().fold(0.0, f64::max);
    let back = |plan: &Plan| foresight.walk_back(&window, plan, &stay, 12.0);
    let [small, half] = [0.13, 0.5].map(|factor| back(&with(factor)));
    let (first, later) = (worst(small.hazards(&stays)), worst(small.hazards_below(&stays)));
    assert!(first > 1.15, "one more level is foreseen to make reads {first:.2} times as dear");
    assert!(later < 1.05, "until they have paid: {later:.2}");
    let half = worst(half.hazards_below(&stays));
    assert!(half < 1.05, "all fits into one level: {half:.2}");

    let before = levels_below_0(&world);
    let set = |change: Change| world.db().control().apply(change).unwrap();
    set(Change::new("test", "a trial").set(&knob::WRITE_BUFFER_PERCENT, with(0.13).buffer_percent));
    world.run(&Phase::of([5.0, 5.0, 0.0, 90.0]), OPERATIONS).unwrap();
    let tried = levels_below_0(&world);
    let set = |change: Change| world.db().control().apply(change).unwrap();
    set(Change::new("test", "taken back").reset(&knob::WRITE_BUFFER_PERCENT, None));
    world.run(&Phase::of([10.0, 80.0, 5.0, 5.0]), OPERATIONS).unwrap();
    assert_eq!((before, tried, levels_below_0(&world)), (1, 2, 1), "the engine does what is foreseen");
}

/// A world of the smallest write buffers that is observed for a window of writes.
fn of_small_buffers() -> Window {
    let shape =
        Shape { size_ratio: 10, run_limits: vec![4, 1], write_buffer_bytes: 4096, table_bytes: 256 << 10 };
    let setup = Setup { entries: 5_000, value_bytes: 992, memory_bytes: 1 << 20, ..Setup::default() };
    let mut world = World::new(Setup { shape: Some(shape), ..setup }).unwrap();
    let patience = Change::new("test", "run limits count").set(&knob::LEVEL0_PATIENCE, 0u32);
    world.db().control().apply(patience).unwrap();
    let pace = Pace { operations_min: 4_000, elapsed_ns_min: 0, ..Pace::default() };
    let mut watch = Watch::new("default", pace, world.db().control().observe(), 0);
    world.run(&Phase::of([0.0, 10.0, 0.0, 90.0]), 4_000).unwrap();
    let Look::Ended(window) = watch.look(world.db().control().observe()) else {
        panic!("a window of 4,000 operations has not ended")
    };
    *window
}

/// Symptom: with small write buffers operations took three times what their counts came to, and
/// more runs in level 0 seemed to gain nothing. Cause: a merge read its tables at the price of
/// pages that are read ahead, but each table begins with a read of its own. Cure: merges count
/// the tables that they read.
#[test]
fn what_a_window_of_small_write_buffers_counts_is_what_it_takes() {
    let (window, units, scales) = (of_small_buffers(), device(), Scales::default());
    let goal = Goal { measure: Measure::Elapsed, ..Goal::default() };
    let foresight = Foresight { units: &units, goal: &goal, scales: &scales, skew: Skew::EVEN };
    let (counted, took) = (scales.ns(&foresight.counted(&window)), goal.mean_ns(&window).unwrap());
    assert!((counted / took - 1.0).abs() < 0.4, "{counted:.0} ns counted, {took:.0} taken");
    let plan = Plan::of(&window);
    let foreseen = foresight.price(&foresight.walk(&window, &plan, 4.0), (1.0, 1.0));
    assert!((foreseen / took - 1.0).abs() < 0.5, "{foreseen:.0} ns foreseen, {took:.0} taken");
}

/// Symptom: scans were counted at twice what they took, so that a level less seemed to gain
/// half of what it did. Cause: each block of a scan had the price of a block at random, but
/// those behind the first lie behind it. Cure: they have the price of reading on.
#[test]
fn what_a_window_of_scans_counts_is_what_it_takes() {
    let (units, scales) = (device(), Scales::default());
    let goal = Goal { measure: Measure::Elapsed, ..Goal::default() };
    let foresight = Foresight { units: &units, goal: &goal, scales: &scales, skew: Skew::EVEN };
    let setup = Setup { entries: 20_000, value_bytes: 992, memory_bytes: 1 << 20, ..Setup::default() };
    let mut world = World::new(setup).unwrap();
    let pace = Pace { operations_min: 3_000, elapsed_ns_min: 0, ..Pace::default() };
    let mut watch = Watch::new("default", pace, world.db().control().observe(), 0);
    world.run(&Phase::of([0.0, 5.0, 95.0, 0.0]), 3_000).unwrap();
    let Look::Ended(window) = watch.look(world.db().control().observe()) else {
        panic!("a window of 3,000 operations has not ended")
    };
    let (counted, took) = (scales.ns(&foresight.counted(&window)), goal.mean_ns(&window).unwrap());
    assert!((counted / took - 1.0).abs() < 0.1, "{counted:.0} ns counted, {took:.0} taken");
    let foreseen = foresight.price(&foresight.walk(&window, &Plan::of(&window), 4.0), (1.0, 1.0));
    assert!((foreseen / took - 1.0).abs() < 0.15, "{foreseen:.0} ns foreseen, {took:.0} taken");
}

/// Symptom: a workload of scans read three runs for as long as it lasted, though a larger T
/// would have spared one. Cause: levels wait until reads have paid, so that nothing had come of
/// the change when it was judged. Cure: levels may leave at once, at the price of the merge.
#[test]
fn a_level_that_a_larger_size_ratio_spares_leaves_at_once_where_scans_gain_more_than_it_takes() {
    let shape = Shape {
        size_ratio: 10,
        run_limits: vec![4, 1],
        write_buffer_bytes: 16 << 10,
        table_bytes: 256 << 10,
    };
    let setup = Setup { entries: 20_000, value_bytes: 992, memory_bytes: 1 << 20, ..Setup::default() };
    let mut world = World::new(Setup { shape: Some(shape), ..setup }).unwrap();
    let pace = Pace { operations_min: 2_000, elapsed_ns_min: 0, ..Pace::default() };
    let mut watch = Watch::new("default", pace, world.db().control().observe(), 0);
    let scans = Phase::of([0.0, 5.0, 95.0, 0.0]);
    let took = |world: &mut World| {
        let begin = world.now_ns();
        world.run(&scans, 2_000).unwrap();
        (world.now_ns() - begin) as f64 / 2_000.0
    };
    let took_before = took(&mut world);
    let Look::Ended(window) = watch.look(world.db().control().observe()) else {
        panic!("a window of 2,000 operations has not ended")
    };
    let (units, goal, scales) = (device(), Goal::default(), Scales::default());
    let foresight = Foresight { units: &units, goal: &goal, scales: &scales, skew: Skew::EVEN };
    let stay = Plan::of(&window);
    let waits = Plan { size_ratio: 20, ..stay.clone() };
    let at_once = Plan { at_once: true, ..waits.clone() };
    let price = |plan: &Plan, windows: f64| {
        let walk = foresight.walk(&window, plan, windows);
        (foresight.price(&walk, (1.0, 1.0)), walk.once)
    };
    let [stays, waits, leaves] = [&stay, &waits, &at_once].map(|plan| price(plan, 24.0));
    assert!(leaves.0 < 0.85 * stays.0 && leaves.1 > 0.0, "{leaves:?} of {stays:?}");
    assert!(waits.0 > leaves.0, "what waits is spared later: {waits:?}, {leaves:?}");
    assert!(price(&at_once, 0.2).0 > stays.0, "a merge has its price: {:?}", price(&at_once, 0.2));

    let before = levels_below_0(&world);
    let change = Change::new("test", "fewer levels").set(&knob::SIZE_RATIO, 20u32);
    world.db().control().apply(change.set(&knob::TRANSITION, "greedy")).unwrap();
    took(&mut world);
    assert_eq!(levels_below_0(&world), before - 1, "the level has left");
    let took_after = took(&mut world);
    assert!(took_after < 0.9 * took_before, "{took_after:.0} ns, {took_before:.0} before");
}

/// Symptom: where values became ten times as large, write buffers were foreseen to hold ten
/// times what they did, and smaller ones seemed to gain. Cause: what comes in was taken to be
/// as large as the tables' mean. Cure: it is as large as the window's flushes wrote it.
#[test]
fn entries_that_come_in_are_as_large_as_flushes_wrote_them_and_not_as_the_tables_mean() {
    let mut world = World::new(Setup { entries: 30_000, ..Setup::default() }).unwrap();
    let large = Phase { value_bytes: Some(1000), ..Phase::of([5.0, 45.0, 0.0, 50.0]) };
    world.run(&large, 1_000).unwrap();
    let pace = Pace { operations_min: 4_000, elapsed_ns_min: 0, ..Pace::default() };
    let mut watch = Watch::new("default", pace, world.db().control().observe(), 0);
    world.run(&large, 4_000).unwrap();
    let Look::Ended(window) = watch.look(world.db().control().observe()) else {
        panic!("a window of 4,000 operations has not ended")
    };
    let (units, goal, scales) = (device(), Goal::default(), Scales::default());
    let foresight = Foresight { units: &units, goal: &goal, scales: &scales, skew: Skew::EVEN };
    let plan = Plan::of(&window);
    let (model, setting) = foresight.model(&window, &plan);
    let tree = foresight.tree(&window, &Plan::of(&window), &model, &setting);
    assert!(tree.arriving() > 2.0, "{}", tree.arriving());
    let buffer = setting.shape.write_buffer_bytes;
    let held = window.operations.writes as f64 / window.flushes as f64;
    let foreseen = model.data.memtable_entries_of(buffer, tree.arriving());
    assert!((foreseen / held - 1.0).abs() < 0.2, "{foreseen:.0} entries foreseen, {held:.0} held");
    let of_mean = model.data.memtable_entries(buffer);
    assert!(of_mean > 2.0 * held, "the tables' mean would be wrong: {of_mean:.0} for {held:.0}");
    for level in &window.levels {
        let bytes = tree.size(level.level as usize) * tree.stored_bytes();
        let told = level.bytes as f64;
        assert!((bytes - told).abs() < 0.15 * told.max(1.0), "level {}: {bytes}, {told}", level.level);
    }
}

/// Symptom: in a tree of tables of 256 KiB each full level was foreseen to be merged as a
/// whole, at ten times what it cost. Cause: tables were taken to be of 16 MiB. Cure: a window
/// tells how large they are.
#[test]
fn tables_are_taken_to_be_as_large_as_they_are() {
    let window = of_small_buffers();
    let bytes = table_bytes(&window);
    assert!((200 << 10..320 << 10).contains(&bytes), "{bytes}: {:?}", window.levels);
}

/// Symptom: where much is written, levels that leave at once were foreseen to take several times
/// what they do, and stayed. Cause: their merge was spread over the 600 flushes of a walk, and not
/// over the windows that the walk stands for. Cure: it is spread over those.
#[test]
fn what_levels_that_leave_take_is_spread_over_all_windows_though_a_walk_is_shorter() {
    let shape = Shape {
        size_ratio: 10,
        run_limits: vec![4, 1],
        write_buffer_bytes: 16 << 10,
        table_bytes: 256 << 10,
    };
    let setup = Setup { entries: 20_000, value_bytes: 992, memory_bytes: 1 << 20, ..Setup::default() };
    let mut world = World::new(Setup { shape: Some(shape), ..setup }).unwrap();
    let pace = Pace { operations_min: 2_000, elapsed_ns_min: 0, ..Pace::default() };
    let mut watch = Watch::new("default", pace, world.db().control().observe(), 0);
    world.run(&Phase::of([0.0, 5.0, 45.0, 50.0]), 2_000).unwrap();
    let Look::Ended(window) = watch.look(world.db().control().observe()) else {
        panic!("a window of 2,000 operations has not ended")
    };
    let (units, goal, scales) = (device(), Goal::default(), Scales::default());
    let foresight = Foresight { units: &units, goal: &goal, scales: &scales, skew: Skew::EVEN };
    let plan = Plan { size_ratio: 20, at_once: true, ..Plan::of(&window) };
    // In windows of the time that operations take otherwise.
    let takes = |windows: f64| {
        let lifting = foresight.walk(&window, &plan, windows).once;
        windows * lifting / (1.0 - lifting)
    };
    let (few, many) = (takes(12.0), takes(48.0));
    assert!(window.flushes as f64 * 12.0 > FLUSHES_MAX, "a walk is shorter: {} flushes", window.flushes);
    assert!(
        few > 0.0 && (many / few - 1.0).abs() < 0.15,
        "{few:.2} windows, {many:.2} of four times as many"
    );
}

/// A world where a tenth of the keys, or all of them, has nine tenths of the operations, observed
/// for a window; with what an operation took in it.
fn of_keys(keys: Keys) -> (World, Window, f64) {
    let mut world = World::new(Setup { entries: 30_000, ..Setup::default() }).unwrap();
    let pace = Pace { operations_min: OPERATIONS, flushes_min: 0, elapsed_ns_min: 0, ..Pace::default() };
    let mut watch = Watch::new("default", pace, world.db().control().observe(), 0);
    let phase = Phase { keys, ..Phase::of([0.0, 80.0, 0.0, 20.0]) };
    world.run(&phase, OPERATIONS).unwrap();
    let Look::Ended(window) = watch.look(world.db().control().observe()) else {
        panic!("a window of {OPERATIONS} operations has not ended")
    };
    let begin = world.now_ns();
    world.run(&phase, 2 * OPERATIONS).unwrap();
    let took = (world.now_ns() - begin) as f64 / (2 * OPERATIONS) as f64;
    (world, *window, took)
}

/// Symptom: reads of hot keys took five times what they need have. Cause: all keys were taken to
/// be alike, so that a level of the newest versions seemed to cost reads and spare none. Cure: how
/// many lookups end above the deepest level tells how uneven keys are, and that is priced.
#[test]
fn hot_keys_are_told_by_where_lookups_end_and_a_small_level_that_holds_them_is_worth_it() {
    let hot = Keys::Hot { at_permille: 0, size_permille: 100, share_permille: 900 };
    let (mut world, window, before) = of_keys(hot);
    let found = seen::skew(&window).expect("flushes tell");
    assert!((found.share() - 0.9).abs() < 0.07, "{found:?}");
    let (_, even, _) = of_keys(Keys::Even);
    assert!(seen::skew(&even).expect("flushes tell").is_even());

    let (units, goal, scales) = (device(), Goal::default(), Scales::default());
    let stay = Plan::of(&window);
    let small = Plan { buffer_percent: 5.0, level0_runs: 8, patience: 8, ..stay.clone() };
    let foreseen = |skew| {
        let foresight = Foresight { units: &units, goal: &goal, scales: &scales, skew };
        let price = |plan: &Plan| foresight.price(&foresight.walk(&window, plan, 12.0), (1.0, 1.0));
        price(&small) / price(&stay)
    };
    let (of_all_alike, of_hot) = (foreseen(Skew::EVEN), foreseen(found));
    let change = Change::new("test", "a small level").set(&knob::WRITE_BUFFER_PERCENT, small.buffer_percent);
    let change = change.set(&knob::LEVEL0_PATIENCE, 8u32).set_level(&knob::RUN_LIMIT, 0, 8u32);
    world.db().control().apply(change).unwrap();
    let phase = Phase { keys: hot, ..Phase::of([0.0, 80.0, 0.0, 20.0]) };
    world.run(&phase, OPERATIONS).unwrap();
    let begin = world.now_ns();
    world.run(&phase, 2 * OPERATIONS).unwrap();
    let took = (world.now_ns() - begin) as f64 / (2 * OPERATIONS) as f64 / before;
    println!("{of_all_alike:.2} where keys are alike, {of_hot:.2} foreseen, {took:.2} of what it took");
    assert!(took < 0.8 && of_hot < 0.85 && of_hot < of_all_alike - 0.1);
}

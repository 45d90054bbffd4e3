//! Tests of `Lerp` in a computed world (`imagined`): the run limits that it finds, and what they
//! cost against the best.
//!
//! They hold that it learns again after a shift, Lemma 5.1's own example, the brute-force variants,
//! and that a memory is restored or refused whole.

use super::{
    Agent,
    constants::LerpConstants,
    imagined::{Imagined, units},
    lerp::{Lerp, Scheme, infer},
};
use crate::{
    cost::Mix,
    learn::Random,
    sight::{Goal, Measure, Objective, Operations},
};
use std::collections::BTreeSet;

fn goal() -> Goal {
    Goal { objective: Objective::MeanTime, measure: Measure::Elapsed, ..Goal::default() }
}

/// Networks that learn in seconds without optimisation.
fn small() -> LerpConstants {
    LerpConstants { hidden: vec![32, 32], ..LerpConstants::default() }
}

fn lerp(scheme: Scheme, seed: u64) -> Lerp {
    Lerp::new(small(), units(), goal(), scheme, seed)
}

/// The cheapest K in all levels.
fn best(world: &Imagined) -> f64 {
    (1..=10).map(|k| world.cost_of(&[k])).fold(f64::INFINITY, f64::min)
}

#[test]
fn uniform_filters_make_it_find_a_k_that_costs_little_more_than_the_best() {
    for (lookups, more) in [(0.9, 0.08), (0.5, 0.08), (0.1, 0.05)] {
        let mut world = Imagined::new(lookups, false, 1);
        let mut lerp = lerp(Scheme::Uniform, 1);
        for _ in 0..15 {
            world.tuned_by(&mut lerp, 20);
        }
        let limits = world.limits();
        let ratio = world.cost_of(&limits[1..]) / best(&world);
        assert!(lerp.has_settled(), "γ = {lookups}: {limits:?}");
        assert!(limits[1..].iter().all(|limit| *limit == limits[1]), "{limits:?}");
        assert!(ratio < 1.0 + more, "γ = {lookups}: {limits:?} costs {ratio} of the best");
    }
}

#[test]
fn a_shift_of_the_workload_makes_it_learn_again() {
    let mut world = Imagined::new(0.1, false, 2);
    let mut lerp = lerp(Scheme::Uniform, 2);
    (0..20).for_each(|_| drop(world.tuned_by(&mut lerp, 20)));
    assert!(lerp.has_settled() && world.limits()[1] >= 7, "{:?}", world.limits());
    world.mix = Mix::new([0.0, 0.95, 0.0, 0.05]).unwrap();
    world.tuned_by(&mut lerp, 20);
    assert!(!lerp.has_settled());
    world.mix = Mix::new([0.0, 0.96, 0.0, 0.04]).unwrap();
    (0..30).for_each(|_| drop(world.tuned_by(&mut lerp, 20)));
    assert!(lerp.missions() > 900);
}

#[test]
fn what_chance_makes_of_the_mix_of_short_missions_is_no_shift() {
    let mut world = Imagined::new(0.5, false, 6);
    let mut lerp = lerp(Scheme::Uniform, 6);
    (0..30).for_each(|_| drop(world.tuned_by(&mut lerp, 20)));
    assert!(lerp.has_settled());
    let mut chance = Random::new(6);
    for mission in 0..2_000 {
        let mut window = world.mission();
        let writes = (0..150).filter(|_| chance.unit() < 0.5).count() as u64;
        window.operations = Operations { found: 150 - writes, writes, ..Operations::default() };
        lerp.see(&window);
        assert!(lerp.has_settled(), "mission {mission}: {writes} writes of 150");
    }
}

#[test]
fn monkeys_filters_make_it_learn_two_levels_and_infer_the_others() {
    let mut world = Imagined::new(0.5, true, 3);
    let mut lerp = lerp(Scheme::Monkey, 3);
    let before = world.cost_of(&[1]);
    (0..30).for_each(|_| drop(world.tuned_by(&mut lerp, 20)));
    assert!(lerp.has_settled(), "{:?}", world.limits());
    let after = world.cost_of(&world.limits()[1..]);
    assert!(after < 0.6 * before, "{:?}: {after} of {before}", world.limits());
}

#[test]
fn an_agent_that_is_restored_goes_on_as_one_that_was_not() {
    let mut world = Imagined::new(0.5, false, 4);
    let mut one = lerp(Scheme::Uniform, 4);
    world.tuned_by(&mut one, 40);
    let text = serde_json::to_string(&one.remember()).unwrap();
    let mut other = lerp(Scheme::Uniform, 9);
    other.restore(&serde_json::from_str(&text).unwrap()).unwrap();
    for _ in 0..10 {
        let window = world.mission();
        one.see(&window);
        other.see(&window);
        assert_eq!(one.propose(&window), other.propose(&window));
    }
}

#[test]
fn what_is_no_memory_of_such_an_agent_is_refused_and_changes_nothing() {
    let mut agent = lerp(Scheme::Uniform, 1);
    let before = agent.remember();
    let two = lerp(Scheme::Joint, 1).remember();
    let large = Lerp::new(LerpConstants::default(), units(), goal(), Scheme::Uniform, 1).remember();
    for wrong in [two, large, serde_json::json!(3), serde_json::json!({ "turn": 1 })] {
        assert!(agent.restore(&wrong).is_err());
    }
    assert_eq!(agent.remember(), before);
    agent.restore(&serde_json::Value::Null).unwrap();
}

#[test]
fn the_brute_force_variants_turn_all_levels() {
    let mut world = Imagined::new(0.1, false, 5);
    let mut joint = lerp(Scheme::Joint, 5);
    world.tuned_by(&mut joint, 60);
    let limits = world.limits();
    assert!(limits[1..].iter().any(|limit| *limit != limits[1]), "{limits:?}");
    let mut world = Imagined::new(0.1, false, 5);
    let mut every = lerp(Scheme::EveryLevel, 5);
    let mut tried = BTreeSet::new();
    for _ in 0..400 {
        world.tuned_by(&mut every, 1);
        tried.insert(world.limits()[2]);
    }
    assert!(tried.len() > 4, "K of level 2: {tried:?}");
}

#[test]
fn lemma_5_1_infers_the_papers_example_and_nothing_from_what_cannot_be() {
    assert_eq!(infer(9, 7, 10, 4), Some(vec![9, 7, 3, 1]));
    for (first, second) in [(8, 8), (8, 9), (10, 9), (9, 1), (1, 1), (10, 10)] {
        assert_eq!(infer(first, second, 10, 4), None, "{first}, {second}");
    }
}

//! Tests of CAMAL on costs that the cost model computes: the learners come near the best choice of
//! all.
//!
//! They hold what is sampled together, what wins a tie, and when the dynamic mode reconfigures.
//! Data and memory that grow together leave T and bits as they are.

use super::{
    super::{
        Agent,
        constants::CamalConstants,
        imagined::{Imagined, units},
    },
    Camal, Decoupled, Knobs, Learner, Policy, Sampler, Space, TRAINING, Tuned, mixes_within,
};
use crate::cost::{Data, Family, Mix, Model, Setting};
use solera::Shape;
use std::collections::HashMap;

const ENTRIES: f64 = 40_000.0;

fn space() -> Space {
    Space {
        entries: ENTRIES,
        entry_bytes: 1000.0,
        block_entries: 4.0,
        scan_entries: 8.0,
        memory_bytes: ENTRIES * 12.8 / 8.0,
        buffer_share_min: 1.0 / 16.0,
        ratio_max: 16,
    }
}

fn constants() -> CamalConstants {
    CamalConstants {
        cache_shares: [0.0; 3],
        cache_samples: 0,
        network_epochs: 150,
        ..CamalConstants::default()
    }
}

/// What choices cost, each computed once.
#[derive(Default)]
struct World {
    known: HashMap<String, f64>,
}

impl World {
    fn cost(&mut self, space: &Space, mix: &Mix, knobs: &Knobs) -> f64 {
        *self.known.entry(format!("{mix} {knobs:?} {}", space.entries)).or_insert_with(|| {
            let data = Data {
                entries: space.entries,
                entry_bytes: space.entry_bytes,
                block_bytes: 4096.0,
                scan_entries: space.scan_entries,
            };
            let shape = Shape {
                size_ratio: knobs.size_ratio,
                run_limits: vec![4, knobs.runs],
                write_buffer_bytes: space.buffer_bytes(knobs) as u64,
                table_bytes: 64 << 10,
            };
            let setting = Setting { shape, filter_bits: knobs.filter_bits, monkey: true, cache_bytes: 0.0 };
            Model { data, units: units() }.price(Family::Neighbour, setting, mix).ns
        })
    }

    fn measure(&mut self, space: &Space, sampler: &mut dyn Sampler) {
        while let Some((mix, knobs)) = sampler.next() {
            let cost = self.cost(space, &mix, &knobs);
            sampler.tell(cost);
        }
    }
}

fn mixes() -> Vec<Mix> {
    [0, 1, 3, 4].map(|at: usize| Mix::new(TRAINING[at]).unwrap()).into()
}

fn decoupled(learner: Learner, policy: Policy, constants: &CamalConstants) -> Decoupled {
    Decoupled::new(learner, constants.clone(), space(), policy, &mixes(), 1)
}

#[test]
fn each_learner_comes_near_the_best_choice_of_all() {
    let (mut world, space, constants) = (World::default(), space(), constants());
    let best: Vec<f64> = mixes()
        .iter()
        .map(|mix| {
            let choices = space.choices(Policy::Leveling, &constants).into_iter().step_by(3);
            choices.map(|knobs| world.cost(&space, mix, &knobs)).fold(f64::INFINITY, f64::min)
        })
        .collect();
    for (name, learner) in Learner::ALL {
        let mut sampling = decoupled(learner, Policy::Leveling, &constants);
        world.measure(&space, &mut sampling);
        assert_eq!(sampling.samples().len(), 4 * 10, "{name}");
        let samples = [(Policy::Leveling, sampling.samples())];
        let tuned = Tuned::learn(learner, &constants, &space, &samples, 1);
        let ratios: Vec<f64> = mixes()
            .iter()
            .zip(&best)
            .map(|(mix, best)| {
                let (knobs, _) = tuned.choose(mix, space.entries, space.memory_bytes);
                world.cost(&space, mix, &knobs) / best
            })
            .collect();
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        assert!(mean < 1.25, "{name}: {ratios:?}");
    }
}

#[test]
fn grouped_sampling_turns_t_and_k_together_and_tiering_k_with_t() {
    let constants = constants();
    let (mut world, space) = (World::default(), space());
    let mut grouped = decoupled(Learner::Trees, Policy::Grouped, &constants);
    world.measure(&space, &mut grouped);
    let first: Vec<(u32, u32)> =
        grouped.samples()[..9].iter().map(|of| (of.knobs.size_ratio, of.knobs.runs)).collect();
    let mut distinct = first.clone();
    distinct.dedup_by_key(|(ratio, _)| *ratio);
    assert_eq!(distinct.len(), 3, "{first:?}");
    let mut tiering = decoupled(Learner::Trees, Policy::Tiering, &constants);
    world.measure(&space, &mut tiering);
    assert!(tiering.samples().iter().all(|of| of.knobs.runs == of.knobs.size_ratio));
    // The better of two policies is chosen.
    let mut leveling = decoupled(Learner::Trees, Policy::Leveling, &constants);
    world.measure(&space, &mut leveling);
    let both = [(Policy::Leveling, leveling.samples()), (Policy::Tiering, tiering.samples())];
    let tuned = Tuned::learn(Learner::Trees, &constants, &space, &both, 1);
    let writes = Mix::new([1., 1., 1., 97.]).unwrap();
    let (knobs, _) = tuned.choose(&writes, space.entries, space.memory_bytes);
    assert!(knobs.runs > 1, "{knobs:?}");
}

#[test]
fn data_and_memory_that_grow_together_leave_t_and_bits_as_they_are() {
    let constants = constants();
    let (mut world, space) = (World::default(), space());
    for learner in [Learner::Poly, Learner::Trees] {
        let mut sampling = decoupled(learner, Policy::Leveling, &constants);
        world.measure(&space, &mut sampling);
        let samples = [(Policy::Leveling, sampling.samples())];
        let tuned = Tuned::learn(learner, &constants, &space, &samples, 1);
        for mix in mixes() {
            let (at_home, _) = tuned.choose(&mix, space.entries, space.memory_bytes);
            let (grown, _) = tuned.choose(&mix, 10.0 * space.entries, 10.0 * space.memory_bytes);
            assert_eq!(at_home, grown);
            let (certain, _) = tuned.choose_within(&mix, 0.0, space.entries, space.memory_bytes);
            assert_eq!(at_home, certain);
        }
    }
}

#[test]
fn what_is_chosen_for_uncertain_mixes_is_what_one_of_them_would_have_alone() {
    let (constants, mut world, space) = (constants(), World::default(), space());
    let mut sampling = decoupled(Learner::Trees, Policy::Leveling, &constants);
    world.measure(&space, &mut sampling);
    let samples = [(Policy::Leveling, sampling.samples())];
    let tuned = Tuned::learn(Learner::Trees, &constants, &space, &samples, 1);
    for mix in mixes() {
        for rho in [0.1, 1.0] {
            let alone: Vec<_> = mixes_within(&mix, rho, constants.uncertain_mixes, 1)
                .iter()
                .map(|mix| tuned.choose(mix, space.entries, space.memory_bytes).0)
                .collect();
            let (known, _) = tuned.choose_within(&mix, rho, space.entries, space.memory_bytes);
            assert!(alone.contains(&known), "{mix}, ρ = {rho}: {known:?} of {alone:?}");
        }
    }
}

/// Trees chose two for T and no filters wherever nothing had been sampled: they believe the same of
/// all that lies beyond the samples, and the first of equal choices was taken.
#[test]
fn of_choices_that_cost_the_same_the_nearest_to_the_closed_forms_is_taken() {
    let (constants, space) = (constants(), space());
    let mut sampling = decoupled(Learner::Trees, Policy::Leveling, &constants);
    while sampling.next().is_some() {
        sampling.tell(7.0);
    }
    let samples = [(Policy::Leveling, sampling.samples())];
    let tuned = Tuned::learn(Learner::Trees, &constants, &space, &samples, 1);
    for mix in mixes() {
        let (knobs, _) = tuned.choose(&mix, space.entries, space.memory_bytes);
        let form = space.ratio_form(&mix, Policy::Leveling, &constants);
        let bits = space.bits_form(&mix, form, 0.0).round().clamp(0.0, space.bits_max(0.0));
        assert_eq!((knobs.size_ratio, knobs.filter_bits), (form, bits), "{mix}");
    }
}

#[test]
fn the_same_seed_and_costs_give_the_same_choice() {
    let constants = constants();
    let (mut world, space) = (World::default(), space());
    let chosen: Vec<Knobs> = (0..2)
        .map(|_| {
            let mut sampling = decoupled(Learner::Network, Policy::Leveling, &constants);
            world.measure(&space, &mut sampling);
            let samples = [(Policy::Leveling, sampling.samples())];
            let tuned = Tuned::learn(Learner::Network, &constants, &space, &samples, 1);
            tuned.choose(&mixes()[0], space.entries, space.memory_bytes).0
        })
        .collect();
    assert_eq!(chosen[0], chosen[1]);
}

fn agent() -> Camal {
    let constants = CamalConstants { period: 10_000, ..constants() };
    let (mut world, space) = (World::default(), space());
    let mut sampling = decoupled(Learner::Poly, Policy::Leveling, &constants);
    world.measure(&space, &mut sampling);
    let samples = [(Policy::Leveling, sampling.samples())];
    let tuned = Tuned::learn(Learner::Poly, &constants, &space, &samples, 1);
    Camal::new(Learner::Poly, constants, tuned, 0.25, 0.0)
}

#[test]
fn in_dynamic_mode_it_reconfigures_when_a_share_has_moved_and_not_before() {
    let (mut agent, mut world) = (agent(), Imagined::new(0.5, true, 1));
    let mut asked = Vec::new();
    for mission in 0..16 {
        let lookups = if mission < 8 { 0.5 } else { 0.7 };
        world.mix = Mix::new([0.0, lookups, 0.0, 1.0 - lookups]).unwrap();
        let window = world.mission();
        agent.see(&window);
        if let Some(proposal) = agent.propose(&window) {
            assert!(proposal.sets.iter().any(|set| set.knob == "size_ratio"));
            asked.push(mission);
        }
    }
    assert_eq!((asked, agent.reconfigurations()), (vec![1, 9], 2));
    let memory = agent.remember();
    let mut other = self::agent();
    other.restore(&memory).unwrap();
    assert_eq!(other.remember(), memory);
    assert!(other.restore(&serde_json::json!({ "since": 1 })).is_err());
}

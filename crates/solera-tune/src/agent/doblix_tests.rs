//! Tests of DobLIX's agent where each layout's cost is known: what it learns with a sample and
//! without one.
//!
//! They hold which block sizes it may ask for, what an episode is, and which lookups a layout gets
//! credit for. A restored agent goes on as one that never ended.

use super::{
    Agent, Outcome,
    constants::DoblixConstants,
    doblix::{Doblix, STATES, State},
    imagined::{Imagined, units},
};
use crate::{
    cost::Units,
    learn::Random,
    sight::{LayoutSight, Setting, Window},
};

/// Costs of the states: blocks of 8 KiB and PLA of 128 are best.
fn cost(state: State) -> f64 {
    let model = [0.15, 0.05, 0.0, 0.1, 0.2][state.model];
    let size = [0.2, 0.0, 0.4, 0.9][state.size];
    100_000.0 * (1.0 + model + size)
}

struct World {
    base: Window,
    random: Random,
    constants: DoblixConstants,
    /// What the layout is set to; `None`: none of the agent's.
    state: Option<State>,
}

impl World {
    fn new(seed: u64) -> World {
        let base = Imagined::new(0.9, false, 1).mission();
        World { base, random: Random::new(seed), constants: DoblixConstants::default(), state: None }
    }

    /// A window in which so many tables were written, and lookups of the present layout cost what
    /// they do.
    fn window(&mut self, tables: f64) -> Window {
        let mut window = self.base.clone();
        let count: u64 = window.levels.iter().map(|level| level.tables).sum();
        window.bytes_compacted = (tables * window.table_bytes() as f64 / count as f64).ceil() as u64;
        let (index, epsilon, bytes, ns) = match self.state {
            None => ("learned", 64, 4096, 300_000.0),
            Some(state) => {
                let epsilon = self.constants.epsilons.get(state.model).copied();
                let index = if epsilon.is_some() { "doblix-pla" } else { "doblix-pra" };
                let bytes = self.constants.block_bytes[state.size];
                (index, epsilon.unwrap_or(256), bytes, cost(state))
            }
        };
        let ns = ns * (1.0 + 0.03 * self.random.normal());
        window.mean_ns = [ns; 4];
        let settings =
            [("index", index.into()), ("epsilon", epsilon.to_string()), ("block_bytes", bytes.to_string())];
        window.settings = settings
            .map(|(knob, value): (&str, String)| Setting {
                knob: knob.into(),
                level: None,
                value,
                is_set: true,
            })
            .into();
        window.layouts = vec![LayoutSight {
            index: index.into(),
            block_bytes: bytes,
            epsilon: if index == "doblix-pla" { epsilon } else { 0 },
            tables: 10,
            searches: 1000,
            blocks_read: 1000,
            ..LayoutSight::default()
        }];
        window
    }

    fn apply(&mut self, sets: &[super::Set]) {
        let of = |knob: &str| sets.iter().find(|set| set.knob == knob).and_then(|set| set.value.clone());
        let number = |knob| of(knob).map(|value| value.parse::<u32>().unwrap());
        let model = match number("epsilon") {
            Some(epsilon) => self.constants.epsilons.iter().position(|of| *of == epsilon).unwrap(),
            None => 4,
        };
        let bytes = number("block_bytes").unwrap();
        let size = self.constants.block_bytes.iter().position(|of| *of == bytes).unwrap();
        self.state = Some(State { model, size });
    }

    fn episodes(&mut self, agent: &mut Doblix, count: usize) {
        for _ in 0..count {
            let window = self.window(21.0);
            agent.see(&window);
            if let Some(proposal) = agent.propose(&window) {
                self.apply(&proposal.sets);
                agent.hear(&Outcome::Made);
            }
        }
    }
}

fn linear_nowhere() -> Units {
    Units { read_ns: [80_000.0, 85_000.0, 95_000.0, 110_000.0], ..units() }
}

fn agent(units: Units, seed: u64) -> Doblix {
    Doblix::new(DoblixConstants::default(), units, seed)
}

#[test]
fn fifty_episodes_after_a_sample_come_near_the_best_of_the_grid() {
    let costs: [(f64, f64); STATES] = std::array::from_fn(|number| (cost(State::of(number)), 1.0));
    let best = costs.iter().map(|(ns, _)| *ns).fold(f64::INFINITY, f64::min);
    for seed in 1..6 {
        let (mut world, mut agent) = (World::new(seed), agent(linear_nowhere(), seed));
        agent.pretrain(&costs);
        world.episodes(&mut agent, 51);
        let ratio = best / cost(world.state.unwrap());
        assert!(agent.episodes() >= 50 && ratio >= 0.95, "seed {seed}: {:?}, {ratio}", world.state);
    }
}

#[test]
fn without_a_sample_it_learns_in_many_episodes() {
    let (mut world, mut agent) = (World::new(1), agent(linear_nowhere(), 1));
    world.episodes(&mut agent, 2_000);
    let ratio = cost(State { model: 2, size: 1 }) / cost(agent.best());
    assert!(ratio > 0.8, "{:?}: {ratio}", agent.best());
}

#[test]
fn blocks_end_where_a_read_takes_twice_as_long_as_one_of_half_the_size() {
    assert_eq!(agent(linear_nowhere(), 1).sizes(), 4);
    // 130 of 90 at 16 KiB, 260 of 130 at 32 KiB.
    assert_eq!(agent(units(), 1).sizes(), 3);
    let steep = Units { read_ns: [10_000.0, 20_000.0, 40_000.0, 80_000.0], ..units() };
    let (mut world, mut agent) = (World::new(2), agent(steep, 2));
    world.episodes(&mut agent, 100);
    assert_eq!((agent.sizes(), world.state.unwrap().size < 2), (2, true));
}

#[test]
fn an_episode_is_twenty_tables_and_a_layout_gets_no_credit_for_others() {
    let (mut world, mut agent) = (World::new(3), agent(linear_nowhere(), 3));
    let first = world.window(1.0);
    let proposal = agent.propose(&first).unwrap();
    world.apply(&proposal.sets);
    for _ in 0..6 {
        let window = world.window(3.0);
        agent.see(&window);
        assert_eq!((agent.propose(&window), agent.episodes()), (None, 0));
    }
    let window = world.window(3.0);
    agent.see(&window);
    agent.propose(&window);
    assert_eq!(agent.episodes(), 1);
    // Lookups in tables of another layout alone: nothing is learned from the episode, but it ends.
    let before = agent.remember()["table"].clone();
    for _ in 0..3 {
        let mut window = world.window(21.0);
        window.layouts[0].epsilon = 1;
        agent.see(&window);
        agent.propose(&window);
    }
    assert_eq!((agent.episodes(), &agent.remember()["table"]), (4, &before));
}

#[test]
fn an_agent_that_is_restored_goes_on_as_one_that_was_not() {
    let (mut world, mut one) = (World::new(4), agent(linear_nowhere(), 4));
    world.episodes(&mut one, 30);
    let text = serde_json::to_string(&one.remember()).unwrap();
    let mut other = agent(linear_nowhere(), 77);
    other.restore(&serde_json::from_str(&text).unwrap()).unwrap();
    for _ in 0..30 {
        let window = world.window(21.0);
        one.see(&window);
        other.see(&window);
        assert_eq!(one.propose(&window), other.propose(&window));
    }
    for wrong in [serde_json::json!([]), serde_json::json!({ "episodes": 3 })] {
        assert!(other.restore(&wrong).is_err());
    }
}

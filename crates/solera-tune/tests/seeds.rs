//! The promise: the same seed in the same world gives the same decisions, byte for byte, through
//! `Attach::stepped`.
//!
//! It stands alone, because threads of other tests in its process would move what the engine's
//! threads share. The journals are decided again as well.

use solera::{Db, vfs::read_all};
use solera_tune::{
    Attach, Goal, Stepper, agent,
    attach::Progress,
    coordinator::{
        journal::{JOURNAL_NAME, Record, read},
        replay::replay,
    },
    sight::{Measure, Pace},
    world::{Phase, Setup, World, device},
};
use std::path::Path;

fn small() -> World {
    World::new(Setup { entries: 20_000, memory_bytes: 2 << 20, ..Setup::default() }).unwrap()
}

fn tuner(agent: &str, db: &Db) -> Stepper {
    let pace = Pace { operations_min: 500, flushes_min: 1, elapsed_ns_min: 0, ..Pace::default() };
    let goal = Goal { measure: Measure::Elapsed, ..Goal::default() };
    Attach::new(goal).agent(agent).units(device()).seed(3).pace(pace).stepped(db).unwrap()
}

/// Windows of two workloads in turns.
fn live(world: &mut World, stepper: &mut Stepper, rounds: u64) -> u64 {
    let phases = [Phase::of([0.0, 30.0, 0.0, 70.0]), Phase::of([10.0, 80.0, 5.0, 5.0])];
    let mut windows = 0;
    for round in 0..rounds {
        for _ in 0..40 {
            world.run(&phases[(round % 2) as usize], 250).unwrap();
            windows += u64::from(matches!(stepper.step(), Progress::Decided(_)));
        }
    }
    windows
}

fn journal(world: &World) -> Vec<Record> {
    read(&*world.fs(), &Path::new("/world").join(JOURNAL_NAME)).unwrap()
}

#[test]
fn the_same_seed_gives_the_same_journal_byte_for_byte_and_it_is_decided_again() {
    let life = |name: &'static str| {
        let mut world = small();
        let mut stepper = tuner(name, world.db());
        assert!(live(&mut world, &mut stepper, 4) > 10, "{name}");
        assert_eq!(stepper.off(), None, "{name}");
        drop(stepper);
        let again = replay(&journal(&world)).unwrap();
        assert!(again.difference.is_none() && again.decisions > 10, "{name}: {again:?}");
        let path = Path::new("/world").join(JOURNAL_NAME);
        read_all(&*world.fs().open(&path).unwrap()).unwrap()
    };
    for name in agent::NAMES {
        // Which operations the engine times is told by a count of each thread.
        let [one, other] = [0, 1].map(|_| std::thread::spawn(move || life(name)).join().unwrap());
        let lines = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let (one, other) = (lines(&one), lines(&other));
        if let Some((one, other)) = one.lines().zip(other.lines()).find(|(one, other)| one != other) {
            let at =
                one.bytes().zip(other.bytes()).skip(9).position(|(one, other)| one != other).unwrap_or(0);
            let near = |line: &str| line[at.saturating_sub(60)..(at + 80).min(line.len())].to_owned();
            panic!("{name}: {} is not {}", near(one), near(other));
        }
    }
}

//! Tests that the simulator's programs work, shown in small, and that a second run finds the same.
//!
//! Random lives agree with the oracle, and option sets change no answer. Flipped bits, evil models,
//! power cuts, killed processes, crowds and failing calls break no promise. The test command runs
//! the programs in their quick size too.

use solera::vfs::mem::Persist;
use solera_sim::{
    crash::{Plan, Sweep},
    faults::clock,
    life::{Pulse, live},
    program::{bitflip, crashsim, crowd, diffmodel, evilmodel, faultloop, kill9, metamorph},
};
use std::sync::{Mutex, PoisonError};

#[test]
fn random_lives_agree_with_the_oracle_and_with_themselves() {
    let amount = diffmodel::Amount {
        first_seed: 1000,
        seeds: 10,
        operations: 3_000,
        threads: 2,
        twice: true,
        shrinks: true,
    };
    let verdict = diffmodel::run(amount);
    assert!(verdict.kept());
    assert_eq!(diffmodel::run(amount).to_string(), verdict.to_string());
}

#[test]
fn option_sets_change_no_answer_and_a_second_run_none_of_the_figures() {
    let amount = metamorph::Amount { first_seed: 100, seeds: 2, operations: 600, threads: 2 };
    let verdict = metamorph::run(amount);
    assert!(verdict.kept());
    assert_eq!(metamorph::run(amount).to_string(), verdict.to_string());
}

#[test]
fn flipped_bits_give_right_answers_or_errors_and_the_same_ones_twice() {
    let amount = bitflip::Amount { seed: 3, flips: Some(600), only: None, threads: 2 };
    let verdict = bitflip::run(amount).unwrap();
    assert!(verdict.kept());
    assert_eq!(bitflip::run(amount).unwrap().to_string(), verdict.to_string());
}

#[test]
fn evil_models_cost_no_more_than_is_allowed_and_a_second_run_finds_the_same() {
    let amount = evilmodel::Amount { first_seed: 5, seeds: 30, lookups: 60, threads: 2, only: None };
    let verdict = evilmodel::run(&amount);
    assert!(verdict.kept());
    assert_eq!(evilmodel::run(&amount).to_string(), verdict.to_string());
}

#[test]
fn a_seed_lived_twice_gives_the_same_answers_and_files() {
    let script = diffmodel::script(7, 3000);
    let outcome = live(&script, &Pulse::default()).unwrap();
    assert_eq!(live(&script, &Pulse::default()).unwrap(), outcome);
}

#[test]
fn the_scripted_life_flushes_and_compacts() {
    for seed in 0..4 {
        let plan = Plan { variants: &[Persist::Nothing], draws: 1, from: 0, seed };
        let sweep = Sweep::run(&crashsim::scripted(seed), plan).unwrap();
        assert!(sweep.work.flushes > 6 && sweep.work.compactions > 0, "{sweep}, {:?}", sweep.work);
    }
}

#[test]
fn no_power_cut_breaks_a_promise() {
    let amount = crashsim::Amount {
        first_seed: 0,
        seeds: 1,
        operations: 40,
        letters: 1,
        variants: vec![Persist::Nothing, Persist::RandomPages(512), Persist::LostName],
        draws: [1, 1],
        threads: 2,
        shrinks: true,
    };
    let verdict = crashsim::run(&amount);
    assert!(verdict.kept());
    let again = crashsim::run(&crashsim::Amount { threads: 1, ..amount });
    assert_eq!(again.to_string(), verdict.to_string(), "a seed replays to the same states");
}

/// Held by tests that start processes. Until a new process runs its program it has copies of all
/// files of this one, and with them the locks of databases that this one has just closed: another
/// test's child would find its own locked.
static STARTS_PROCESSES: Mutex<()> = Mutex::new(());

#[test]
fn a_killed_process_loses_nothing_that_it_acknowledged() {
    let _alone = STARTS_PROCESSES.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let amount = kill9::Amount {
        seed: 1,
        kills: 12,
        program: env!("CARGO_BIN_EXE_solera-sim").into(),
        solera: None,
        dir: dir.path().into(),
    };
    assert!(kill9::run(&amount).unwrap().kept());
}

#[test]
fn a_process_dies_at_the_point_that_it_was_told() {
    let _alone = STARTS_PROCESSES.lock().unwrap_or_else(PoisonError::into_inner);
    use std::{os::unix::process::ExitStatusExt, process::Command};
    let dir = tempfile::tempdir().unwrap();
    let mut left = ["current-rename-before", "current-rename-after"].into_iter().map(|site| {
        let db = dir.path().join(site);
        let mut child = Command::new(env!("CARGO_BIN_EXE_solera-sim"));
        let child = child.arg("kill9-child").args([&db, dir.path()]).args(["0", "--in-open", "--site", site]);
        assert_eq!(child.output().unwrap().status.signal(), Some(9));
        (db.join("CURRENT.tmp").exists(), db.join("CURRENT").exists())
    });
    assert_eq!(left.next(), Some((true, false)));
    assert_eq!(left.next(), Some((false, true)));
}

#[test]
fn a_crowd_reads_what_each_of_it_wrote() {
    let amount =
        crowd::Amount { first_seed: 0, seeds: 2, operations: 5_000, threads: 4, background_threads: 2 };
    assert!(crowd::run(amount).kept());
}

#[test]
fn a_call_that_fails_breaks_no_promise_and_a_seed_replays() {
    let amount = faultloop::Amount { first_seed: 3, seeds: 1, stride: 25, with_threads: 1, threads: 2 };
    let verdict = faultloop::run(amount);
    assert!(verdict.kept());
    let again = faultloop::run(faultloop::Amount { threads: 1, ..amount });
    assert_eq!(again.to_string(), verdict.to_string());
}

/// Symptom: a key that had expired was back (faultloop, seeds 14 and 16): see the engine's own
/// test.
#[test]
fn a_clock_that_jumps_brings_nothing_back() {
    let jumps: u64 = (0..30).map(|seed| clock::live(seed, 200).unwrap()).sum();
    assert!(jumps > 300);
}

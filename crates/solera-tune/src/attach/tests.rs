//! Tests of tuners on databases: that journal and manifest tell one story.
//!
//! All but one are in worlds of counted time; that one has a thread and a real directory. They hold
//! what is refused, that a database has one tuner, and that closing it ends tuning. What a person
//! sets stands, and is not asked for. A change that was not judged is taken back.
//!
//! What must hold: a tuner goes on from a torn journal. It refuses a foreign file and leaves it
//! alone. Memory that its agent cannot read is noted, and it begins afresh. No two changes have one
//! tag, whichever agents tuned. A setting is its author's, in its keyspace, however old it is.
//!
//! Callers: none; these are tests.

use super::{Attach, Progress, Stepper, WHO};
use crate::{
    agent::{self, Set, brittle},
    coordinator::{
        Rules,
        journal::{JOURNAL_NAME, Journal, Record, read},
        replay::replay,
        state::Place,
    },
    sight::{Goal, Measure, Pace},
    world::{Phase, Setup, World, device},
};
use solera::{
    Error,
    control::{Change, knob},
    vfs::read_all,
};
use std::path::Path;

fn small() -> World {
    World::new(Setup { entries: 20_000, memory_bytes: 2 << 20, ..Setup::default() }).unwrap()
}

fn attach(agent: &str) -> Attach {
    let pace = Pace { operations_min: 500, flushes_min: 1, elapsed_ns_min: 0, ..Pace::default() };
    let goal = Goal { measure: Measure::Elapsed, ..Goal::default() };
    Attach::new(goal).agent(agent).units(device()).seed(3).pace(pace)
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
fn every_change_is_in_the_journal_and_in_the_manifest_under_one_tag() {
    let mut world = small();
    let mut stepper = attach(agent::random::NAME).stepped(world.db()).unwrap();
    live(&mut world, &mut stepper, 8);
    drop(stepper);
    let mut ordered = Vec::new();
    let mut last = None;
    for record in journal(&world) {
        match record {
            Record::Window { decision, .. } => last = decision.order.map(|order| order.tag),
            Record::Answer(crate::coordinator::Answer::Made(_)) => ordered.push(last.take().unwrap()),
            _ => {}
        }
    }
    let history = world.db().control().history_of(WHO);
    let made: Vec<String> = history.into_iter().map(|receipt| receipt.tag).collect();
    assert!(!made.is_empty());
    assert_eq!(ordered, made);
}

#[test]
fn a_database_has_one_tuner_and_is_free_when_it_is_dropped() {
    let world = small();
    let first = attach(agent::steward::NAME).stepped(world.db()).unwrap();
    let second = attach(agent::steward::NAME).stepped(world.db()).unwrap_err();
    assert!(matches!(second, Error::Locked { .. }), "{second}");
    drop(first);
    drop(attach(agent::random::NAME).stepped(world.db()).unwrap());
}

#[test]
fn what_cannot_be_tuned_is_refused_with_the_reason() {
    let world = small();
    let error = attach("alex").stepped(world.db()).unwrap_err();
    assert!(error.to_string().contains("there are steward"), "{error}");
    assert!(attach("random").keyspace("nowhere").stepped(world.db()).is_err());
    let mut units = device();
    units.put_ns = f64::NAN;
    assert!(attach("random").units(units).stepped(world.db()).is_err());
}

#[test]
fn a_database_that_is_closed_in_the_middle_ends_its_tuning() {
    let mut world = small();
    let mut stepper = attach(agent::random::NAME).stepped(world.db()).unwrap();
    live(&mut world, &mut stepper, 2);
    world.db().clone().close().unwrap();
    assert_eq!(stepper.step(), Progress::Off("the database was closed".into()));
    assert_eq!(stepper.step(), Progress::Off("the database was closed".into()));
}

#[test]
fn what_a_person_sets_meanwhile_stands() {
    let mut world = small();
    let control = world.db().control();
    let mut stepper = attach(agent::random::NAME).stepped(world.db()).unwrap();
    live(&mut world, &mut stepper, 2);
    control.apply(Change::new("operator", "I know better").set("block_bytes", 8192u32)).unwrap();
    live(&mut world, &mut stepper, 6);
    let now = control.observe();
    assert_eq!(now.setting("block_bytes", "default", None).unwrap().to_string(), "8192");
}

#[test]
fn a_tuner_whose_process_ended_goes_on_and_what_it_left_open_is_taken_back() {
    let mut world = small();
    let control = world.db().control();
    let mut stepper = attach(agent::worst::NAME).stepped(world.db()).unwrap();
    for _ in 0..2_000 {
        if stepper.state().open.is_some() {
            break;
        }
        live(&mut world, &mut stepper, 1);
        let phase = Phase::of([0.0, 30.0, 0.0, 70.0]);
        for _ in 0..100 {
            world.run(&phase, 250).unwrap();
            stepper.step();
            if stepper.state().open.is_some() {
                break;
            }
        }
    }
    assert!(stepper.state().open.is_some(), "the worst agent changes something");
    // As a process does that is killed: nothing is written any more, and its lock goes.
    drop(stepper);
    let again = attach(agent::worst::NAME).stepped(world.db()).unwrap();
    assert!(again.notes().iter().any(|note| note.contains("taken back")), "{:?}", again.notes());
    assert!(again.state().own.is_empty() && again.state().open.is_none());
    assert!(control.observe().settings.iter().all(|setting| !setting.is_set));
}

#[test]
fn a_foreign_file_in_the_journal_s_place_is_refused_and_left_alone() {
    let world = small();
    let path = Path::new("/world").join(JOURNAL_NAME);
    world.fs().create(&path).unwrap().append(b"my shopping list\nmilk\n").unwrap();
    let error = attach("steward").stepped(world.db()).unwrap_err();
    assert!(error.to_string().contains("move the file away"), "{error}");
    assert_eq!(read_all(&*world.fs().open(&path).unwrap()).unwrap(), b"my shopping list\nmilk\n");
}

/// Symptom: a tuner that had ended between an order and its answer was told that the order was
/// made. Cause: the tuner before it, of another agent, had given the same tag, and tags were looked
/// for in the whole history. Cure: a tuner goes on counting where the history's tags end.
#[test]
fn no_two_changes_of_a_database_have_the_same_tag_whoever_tuned_it() {
    let mut world = small();
    for agent in [agent::random::NAME, agent::worst::NAME, agent::random::NAME] {
        let attach = attach(agent).rules(Rules::unguarded());
        let mut stepper = attach.stepped(world.db()).unwrap();
        let before = world.db().control().history_of(WHO).len();
        live(&mut world, &mut stepper, 2);
        assert!(world.db().control().history_of(WHO).len() > before, "{agent} changes something");
    }
    let history = world.db().control().history_of(WHO);
    let tags: std::collections::BTreeSet<&str> = history.iter().map(|receipt| &*receipt.tag).collect();
    assert_eq!(tags.len(), history.len(), "{history:?}");
}

/// Puts `records` in the journal's place.
fn put_journal(world: &World, records: &[Record]) {
    world.fs().remove_file(&Path::new("/world").join(JOURNAL_NAME)).unwrap();
    let (mut journal, before) = Journal::open(world.fs(), Path::new("/world")).unwrap();
    assert!(before.is_empty());
    records.iter().for_each(|record| journal.add(record).unwrap());
    journal.sync().unwrap();
}

#[test]
fn a_tuner_goes_on_from_a_journal_whose_end_was_torn() {
    let mut world = small();
    let mut stepper = attach(agent::random::NAME).stepped(world.db()).unwrap();
    live(&mut world, &mut stepper, 2);
    let known = stepper.state().places.len();
    drop(stepper);
    let path = Path::new("/world").join(JOURNAL_NAME);
    let content = read_all(&*world.fs().open(&path).unwrap()).unwrap();
    world.fs().remove_file(&path).unwrap();
    world.fs().create(&path).unwrap().append(&content[..content.len() - 7]).unwrap();
    let mut again = attach(agent::random::NAME).stepped(world.db()).unwrap();
    assert!(known > 0 && again.state().places.len() == known, "{:?}", again.notes());
    assert!(live(&mut world, &mut again, 1) > 0 && again.off().is_none());
}

#[test]
fn what_another_agent_remembers_is_told_and_not_gone_on_from() {
    let world = small();
    drop(attach(agent::steward::NAME).stepped(world.db()).unwrap());
    let mut records = journal(&world);
    for record in &mut records {
        if let Record::Begin(begin) = record {
            begin.memory = serde_json::json!({ "scales": "of a fish" });
        }
    }
    put_journal(&world, &records);
    let again = attach(agent::steward::NAME).stepped(world.db()).unwrap();
    assert!(again.notes().iter().any(|note| note.contains("cannot be gone on from")), "{:?}", again.notes());
    assert_eq!((again.off(), again.state().places.len()), (None, 0));
}

#[test]
fn a_tuner_on_a_thread_tunes_until_it_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let db = solera::Options::new().memory(16 << 20).open(dir.path()).unwrap();
    let tuner = Attach::new(Goal::default()).units(device()).thread(&db).unwrap();
    assert!(matches!(Attach::new(Goal::default()).thread(&db), Err(Error::Locked { .. })));
    db.put(b"key", b"value").unwrap();
    assert_eq!(tuner.off(), None);
    drop(tuner);
    let records = read(&solera::vfs::posix::PosixFs::new(), &dir.path().join(JOURNAL_NAME)).unwrap();
    assert!(matches!(&records[..], [Record::Begin(_), .., Record::End { .. }]), "{records:?}");
}

/// Symptom: where a person had set level 0's patience, the steward asked for it again and again and
/// was refused, and its first window did not count. Cause: it was not told what others had set, and
/// what was set before it began was taken for a change during the window. Cure: it is told before
/// it is asked, and changes before it began are none.
#[test]
fn what_a_person_has_set_is_neither_asked_for_nor_a_reason_to_forget_the_first_window() {
    let mut world = small();
    let patience = Change::new("a person", "as in the paper").set(&knob::LEVEL0_PATIENCE, 0u32);
    world.db().control().apply(patience).unwrap();
    let mut stepper = attach(agent::steward::NAME).stepped(world.db()).unwrap();
    live(&mut world, &mut stepper, 4);
    drop(stepper);
    let (mut asked, mut forgot) = (0, 0);
    for record in journal(&world) {
        let Record::Window { decision, .. } = record else { continue };
        let sets = decision.proposal.into_iter().flat_map(|proposal| proposal.sets);
        asked += sets.filter(|set| set.touches("level0_patience", None)).count();
        forgot += decision.notes.iter().filter(|note| note.contains("somebody else")).count();
    }
    assert_eq!((asked, forgot), (0, 0));
}

/// Sets a knob of a keyspace.
fn set(world: &World, who: &str, keyspace: &str, knob: &str, value: u32) {
    let change = Change::new(who, "a test").keyspace(keyspace).set(knob, value);
    world.db().control().apply(change).unwrap();
}

/// What a tuner that is attached now knows as its own.
fn own(world: &World) -> Vec<Set> {
    attach(agent::random::NAME).stepped(world.db()).unwrap().state().own.clone()
}

/// Symptom: the tuner changed what a person had set. Cause: a tuner of another keyspace had set the
/// same knob there later, and receipts were told apart by knob and level alone. Cure: by keyspace
/// too.
#[test]
fn what_a_person_set_in_one_keyspace_stays_when_a_tuner_set_the_same_knob_in_another() {
    let world = small();
    world.db().keyspace("other").unwrap();
    set(&world, "operator", "default", "block_bytes", 8192);
    set(&world, WHO, "other", "block_bytes", 8192);
    assert_eq!(own(&world), []);
    set(&world, WHO, "default", "run_limit", 2);
    assert_eq!(own(&world), [Set::new("run_limit", 2)]);
}

/// Symptom to fear: history forgets a person's change before an older one of the tuner's.
#[test]
fn what_a_person_set_after_a_tuner_is_a_person_s_though_the_receipt_of_it_is_forgotten() {
    let world = small();
    set(&world, WHO, "default", "block_bytes", 8192);
    assert_eq!(own(&world), [Set::new("block_bytes", 8192)]);
    set(&world, "operator", "default", "block_bytes", 16_384);
    (0..200).for_each(|turn| set(&world, "operator", "default", "run_limit", 2 + turn % 2));
    let history = world.db().control().history();
    let touches = history.iter().filter(|receipt| receipt.changed.iter().any(|of| of.knob == "block_bytes"));
    assert_eq!(touches.map(|receipt| &*receipt.who).collect::<Vec<_>>(), [WHO]);
    assert_eq!(own(&world), []);
}

/// Symptom: after a restart the tuner never again changed what it had set itself. Cause: that was
/// more than 128 of its changes ago, and history alone said what is its own. Cure: where history is
/// silent, its journal is believed.
#[test]
fn what_a_tuner_set_two_hundred_changes_ago_is_still_its_own_after_a_restart() {
    let world = small();
    set(&world, WHO, "default", "block_bytes", 8192);
    set(&world, WHO, "default", "epsilon", 32);
    assert_eq!(own(&world).len(), 2);
    (0..200).for_each(|turn| set(&world, WHO, "default", "run_limit", 2 + turn % 2));
    let history = world.db().control().history();
    let changed = |knob: &str| history.iter().any(|of| of.changed.iter().any(|of| of.knob == knob));
    assert!(!changed("block_bytes") && !changed("epsilon"));
    set(&world, "operator", "default", "epsilon", 16);
    assert_eq!(own(&world), [Set::new("block_bytes", 8192), Set::new("run_limit", 3)]);
    // Another agent's journal knows it as well, one of another keyspace does not.
    drop(attach(agent::steward::NAME).stepped(world.db()).unwrap());
    assert_eq!(own(&world).len(), 2);
    world.db().keyspace("other").unwrap();
    drop(attach(agent::steward::NAME).keyspace("other").stepped(world.db()).unwrap());
    assert_eq!(own(&world), [Set::new("run_limit", 3)]);
}

/// Symptom: an agent panicked when it heard that its change was made, or when it was to say what it
/// remembers, and its change stayed in force. Cause: tuning ended at once. Cure: it ends once the
/// change has been taken back.
#[test]
fn what_an_agent_left_open_that_panics_when_it_hears_is_taken_back_before_tuning_ends() {
    for (seed, why) in [(brittle::HEARS, "too much to hear"), (brittle::REMEMBERS, "too much to remember")] {
        let mut world = small();
        let pace = Pace { operations_min: 500, flushes_min: 0, elapsed_ns_min: 0, ..Pace::default() };
        let attach = attach(agent::random::NAME).rules(Rules::unguarded()).pace(pace);
        let mut stepper = attach.stepped(world.db()).unwrap();
        stepper.give_agent(brittle::NAME, seed);
        let phase = Phase::of([0.0, 30.0, 0.0, 70.0]);
        for _ in 0..300 {
            world.run(&phase, 250).unwrap();
            if matches!(stepper.step(), Progress::Off(_)) {
                break;
            }
        }
        assert!(stepper.off().is_some_and(|off| off.contains(why)), "{:?}", stepper.off());
        let control = world.db().control();
        assert!(control.observe().settings.iter().all(|setting| !setting.is_set));
        assert_eq!(control.history_of(WHO).len(), 2, "made and taken back");
        drop(stepper);
        let again = replay(&journal(&world)).unwrap();
        assert_eq!((&again.difference, again.orders), (&None, 2));
    }
}

#[test]
fn rules_that_a_journal_cannot_hold_are_refused_at_once() {
    let world = small();
    let default = Rules::default;
    for rules in [
        Rules { cost_factor_max: f64::INFINITY, ..default() },
        Rules { loss_max: f64::NAN, ..default() },
        Rules { loss_mads_max: f64::MAX, ..default() },
        Rules { stop_windows: f64::NEG_INFINITY, ..default() },
    ] {
        let error = attach(agent::random::NAME).rules(rules.clone()).stepped(world.db()).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{rules:?}: {error}");
    }
    for rules in [default(), Rules::unguarded(), Rules { cost_factor_max: 1e9, mute: u64::MAX, ..default() }]
    {
        drop(attach(agent::random::NAME).rules(rules).stepped(world.db()).unwrap());
    }
    assert!(journal(&world).len() > 2, "it can be read");
}

#[test]
fn what_is_known_of_workloads_that_were_forgotten_goes_with_the_next_window() {
    let mut world = small();
    drop(attach(agent::random::NAME).stepped(world.db()).unwrap());
    let mut records = journal(&world);
    records.truncate(1);
    let Record::Begin(begin) = &mut records[0] else { panic!("it begins") };
    begin.state.places.extend((1000..2000).map(|id| (id, Place::default())));
    put_journal(&world, &records);
    let mut stepper = attach(agent::random::NAME).stepped(world.db()).unwrap();
    assert_eq!(stepper.state().places.len(), 1000);
    live(&mut world, &mut stepper, 2);
    assert!((1..10).contains(&stepper.state().places.len()), "{}", stepper.state().places.len());
    drop(stepper);
    assert_eq!(replay(&journal(&world)).unwrap().difference, None);
}

#[test]
fn a_journal_does_not_grow_for_ever_by_tuners_that_come_and_go_before_a_window_ends() {
    let world = small();
    drop(attach(agent::random::NAME).stepped(world.db()).unwrap());
    let begin = journal(&world).swap_remove(0);
    let path = Path::new("/world").join(JOURNAL_NAME);
    let line = read_all(&*world.fs().open(&path).unwrap()).unwrap().len();
    put_journal(&world, &vec![begin; (9 << 20) / line * 2]);
    drop(attach(agent::random::NAME).stepped(world.db()).unwrap());
    assert!(read_all(&*world.fs().open(&path).unwrap()).unwrap().len() < 5 << 20);
    assert!(matches!(journal(&world)[0], Record::Begin(_)));
}

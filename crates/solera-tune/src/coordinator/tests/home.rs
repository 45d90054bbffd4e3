//! Tests of the way home that the coordinator goes for agents that do not price it, in a context
//! that is new, and for others in one that has become dear: once, judged like any change, and no
//! agent hears of it.
//!
//! The windows are those of `coordinator::tests`.

use super::*;
use std::sync::{Mutex, PoisonError};

/// What an agent has heard, for the test to read.
type Heard = Arc<Mutex<Vec<Outcome>>>;

/// Proposes what it was given, the last first, and knows no way home.
#[derive(Debug)]
struct Homeless(Vec<Proposal>, Heard);

impl Agent for Homeless {
    fn name(&self) -> &'static str {
        "homeless"
    }
    fn see(&mut self, _: &Window) {}
    fn propose(&mut self, _: &Window) -> Option<Proposal> {
        self.0.pop()
    }
    fn hear(&mut self, outcome: &Outcome) {
        self.1.lock().unwrap_or_else(PoisonError::into_inner).push(outcome.clone());
    }
    fn remember(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
    fn restore(&mut self, _: &serde_json::Value) -> Result<(), String> {
        Ok(())
    }
}

/// A database whose first context keeps a run limit of 3, at 80 of 100 ns, and what was heard.
fn tuned(rules: Rules) -> (Database, Coordinator, Heard) {
    let (heard, mut database) = (Heard::default(), Database::new());
    let agent = Homeless(vec![proposal("3")], heard.clone());
    let mut coordinator = Coordinator::new(rules, goal(), Box::new(agent), State::default());
    run(&mut database, &mut coordinator, 8, 80.0);
    assert_eq!((database.run_limit(), coordinator.state().open.is_some()), (3.0, false));
    (database, coordinator, heard)
}

/// So many windows of `context` in which a run limit of 1 takes `unset` ns and another `set` ns,
/// and the orders that were given in them.
fn orders(
    (database, coordinator): (&mut Database, &mut Coordinator),
    (context, windows): (u32, u32),
    (unset, set): (f64, f64),
) -> Vec<(Purpose, Vec<Set>)> {
    let mut orders = Vec::new();
    for _ in 0..windows {
        let ns = if database.run_limit() == 1.0 { unset } else { set };
        let decision = database.window(coordinator, context, ns);
        orders.extend(decision.order.map(|order| (order.purpose, order.sets)));
    }
    orders
}

fn length(heard: &Heard) -> usize {
    heard.lock().unwrap_or_else(PoisonError::into_inner).len()
}

/// Symptom: an agent that draws its changes lost 18.5 % of a run of lookups and scans in turns.
/// Cause: smaller write buffers helped the lookups and made one more level, which each epoch of
/// scans read. The agent knew no way home, and nothing measured there said that they hurt. Cure:
/// the coordinator goes home itself.
#[test]
fn an_agent_without_a_way_home_is_sent_there_in_a_context_that_is_new() {
    let (mut database, mut coordinator, heard) = tuned(Rules::default());
    let before = (length(&heard), coordinator.state().credit);
    let orders = orders((&mut database, &mut coordinator), (2, 6), (100.0, 300.0));
    assert_eq!(orders, [(Purpose::Try, vec![Set::reset("run_limit", None)])]);
    assert_eq!((database.run_limit(), coordinator.state().open.is_some()), (1.0, false));
    assert_eq!((length(&heard), coordinator.state().credit), before, "it is no change of the agent's");
}

#[test]
fn a_context_whose_home_is_worse_has_its_settings_back_and_goes_there_once() {
    let (mut database, mut coordinator, heard) = tuned(Rules::default());
    let before = (length(&heard), coordinator.state().credit, coordinator.state().muted_until);
    let spent = coordinator.state().regret.spent();
    let orders = orders((&mut database, &mut coordinator), (2, 40), (120.0, 80.0));
    let purposes: Vec<Purpose> = orders.iter().map(|(purpose, _)| *purpose).collect();
    assert_eq!((purposes, database.run_limit()), (vec![Purpose::Try, Purpose::Undo], 3.0));
    let state = coordinator.state();
    assert_eq!((length(&heard), state.credit, state.muted_until), before);
    assert!(state.regret.spent() <= spent, "nobody is charged with it");
}

#[test]
fn a_context_that_was_measured_at_home_sends_no_agent_home() {
    let (mut database, mut coordinator, _) = tuned(Rules::default());
    assert!(orders((&mut database, &mut coordinator), (1, 20), (100.0, 80.0)).is_empty());
}

#[test]
fn an_agent_that_nobody_guards_is_sent_nowhere() {
    let (mut database, mut coordinator, _) = tuned(Rules::unguarded());
    assert!(orders((&mut database, &mut coordinator), (2, 20), (100.0, 300.0)).is_empty());
}

#[test]
fn a_way_home_that_the_engine_refuses_is_not_asked_for_again() {
    let (database, mut coordinator, heard) = tuned(Rules::default());
    let before = length(&heard);
    let mut asked = 0;
    for number in 0..20 {
        let window = window(100 + number, 2, 300.0, database.changes, &database.settings);
        if coordinator.window(&window).order.is_some() {
            asked += 1;
            coordinator.answer(&Answer::Refused("a test".into()));
        }
    }
    assert_eq!((asked, length(&heard)), (1, before));
}

/// A database and an agent that prices the way home and never wants it. The first context has kept
/// a run limit of 3, and then nothing may be changed for a long time.
fn tuned_and_closed() -> (Database, Coordinator) {
    let (mut database, mut coordinator) = (Database::new(), scripted(&["3"]));
    run(&mut database, &mut coordinator, 8, 80.0);
    assert_eq!((database.run_limit(), coordinator.state().open.is_some()), (3.0, false));
    coordinator.state.muted_until = 1000;
    (database, coordinator)
}

/// Symptom: an epoch of writes came to 0.85 of the default, and for 40 windows nothing was changed.
/// Cause: settings came in from reads. They looked good at first, with a level that was nearly
/// empty; as it filled, each merge took longer. What the context had cost at first was forgotten, a
/// change had hurt, and the agent saw no gain in going home. Cure: the least that it cost is kept.
/// Where it costs clearly more for three windows, and nothing else may be changed, the coordinator
/// goes home itself.
#[test]
fn a_context_that_costs_more_than_under_the_same_settings_before_is_measured_at_home() {
    let (mut database, mut coordinator) = tuned_and_closed();
    assert!(orders((&mut database, &mut coordinator), (2, 4), (100.0, 80.0)).is_empty());
    for set in [92.0, 104.0, 110.0] {
        assert!(orders((&mut database, &mut coordinator), (2, 1), (100.0, set)).is_empty(), "{set}");
    }
    let orders = orders((&mut database, &mut coordinator), (2, 8), (100.0, 125.0));
    assert_eq!(orders, [(Purpose::Try, vec![Set::reset("run_limit", None)])]);
    assert_eq!((database.run_limit(), coordinator.state().open.is_some()), (1.0, false));
}

#[test]
fn an_agent_that_prices_the_way_home_goes_there_itself_while_it_may_change_anything() {
    let (mut database, mut coordinator) = tuned_and_closed();
    coordinator.state.muted_until = 0;
    assert!(orders((&mut database, &mut coordinator), (2, 4), (100.0, 80.0)).is_empty());
    assert!(orders((&mut database, &mut coordinator), (2, 12), (100.0, 125.0)).is_empty());
}

#[test]
fn a_context_that_was_measured_at_home_stays_however_much_more_it_costs() {
    let (mut database, mut coordinator) = tuned_and_closed();
    assert!(orders((&mut database, &mut coordinator), (1, 20), (100.0, 125.0)).is_empty());
}

#[test]
fn one_dear_window_or_two_send_no_agent_home_that_prices_the_way() {
    let (mut database, mut coordinator) = tuned_and_closed();
    for set in [80.0, 80.0, 80.0, 120.0, 120.0, 80.0, 120.0, 120.0, 80.0] {
        assert!(orders((&mut database, &mut coordinator), (2, 1), (100.0, set)).is_empty());
    }
}

/// Symptom: an epoch of writes came to 0.87 of the default. Cause: settings came in from lookups,
/// and were cheap before their first merges. Then a change was taken back, and for eight windows
/// the tree was given its time, though the merges cost as much under what stood before. Cure: after
/// three windows the coordinator goes home.
#[test]
fn a_context_that_what_was_taken_back_makes_no_better_is_measured_at_home() {
    let (mut database, mut coordinator) = (Database::new(), scripted(&["3", "4"]));
    while database.run_limit() == 1.0 || coordinator.state().open.is_some() {
        database.window(&mut coordinator, 1, if database.run_limit() == 1.0 { 100.0 } else { 80.0 });
    }
    while database.run_limit() == 3.0 {
        database.window(&mut coordinator, 2, 100.0);
    }
    let decision = database.window(&mut coordinator, 2, 250.0);
    assert_eq!(decision.order.map(|order| order.purpose), Some(Purpose::Undo));
    let windows = orders((&mut database, &mut coordinator), (2, 2), (150.0, 220.0));
    assert!(windows.is_empty(), "the tree has its time: {windows:?}");
    let orders = orders((&mut database, &mut coordinator), (2, 4), (150.0, 220.0));
    assert_eq!(orders, [(Purpose::Try, vec![Set::reset("run_limit", None)])]);
    assert_eq!((database.run_limit(), coordinator.state().open.is_some()), (1.0, false));
}

/// Symptom: an epoch of writes came to 0.865 of the default. Cause: small write buffers came in
/// from lookups. The first two windows had no merges, and each one after them had many: that
/// explained what they cost more, window for window. Cure: three windows in a row that are far
/// dearer are no lump.
#[test]
fn a_context_whose_merges_explain_each_of_three_far_dearer_windows_is_measured_at_home() {
    let moved_by = |dear: f64| {
        let (mut database, mut coordinator) = tuned_and_closed();
        let moves = OPERATIONS * 1000;
        coordinator.state.merging.learn((80.0, 1.0), (dear, 1000.0));
        let mut orders = Vec::new();
        for (ns, moved) in [(80.0, 1), (80.0, 1), (dear, moves), (dear, moves), (dear, moves), (dear, moves)]
        {
            database.windows += 1;
            let window = window(database.windows, 2, ns, database.changes, &database.settings);
            let decision = coordinator.window(&Window { bytes_compacted: moved, ..window });
            if let Some(order) = decision.order {
                let answer = database.make(&order.sets);
                coordinator.answer(&answer);
                orders.push((database.windows, order.purpose));
            }
        }
        orders
    };
    let far = moved_by(150.0);
    assert!(matches!(far[..], [(_, Purpose::Try)]), "{far:?}");
    assert!(moved_by(130.0).is_empty(), "merges explain what is not far");
}

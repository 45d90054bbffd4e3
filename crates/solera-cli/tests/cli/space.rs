//! Tests of `solera bench space --counted`: that space comes back and queues stay cheap, as
//! verdicts that no other program on the machine changes.
//!
//! The engine's own tests (`crates/solera/tests/space.rs`, `queues.rs`) look for the causes; this
//! one asks what users are told.

use crate::run::Solera;
use serde_json::Value;

/// The smallest sizes in which each row would not hold if its space stayed.
const SIZES: [&str; 6] = ["bench", "space", "--counted", "--percent=5", "--memory=4M", "--json"];

#[test]
fn every_row_of_the_space_bench_holds_when_it_is_counted_and_two_runs_say_the_same() {
    let solera = Solera::new();
    let said = solera.run(SIZES).ok();
    let rows: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |what: &str| rows.iter().filter(|row| row["what"].as_str().unwrap().contains(what)).count();
    let counts = ["overwritten", "expired", "nine of ten deleted", "puts and deletes", "of a queue"].map(of);
    assert_eq!((rows.len(), counts), (12, [2, 2, 3, 1, 4]), "{said}");
    rows.iter().for_each(|row| assert_eq!(row["holds"], true, "{row}"));
    assert!(said.contains(" step") && !said.contains(" ns"), "what is measured is counted: {said}");
    assert_eq!(solera.run(SIZES).ok(), said);
    assert_eq!(solera.files(), [], "nothing is made");
}

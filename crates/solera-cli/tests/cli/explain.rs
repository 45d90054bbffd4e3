//! Tests of `--tune`, `solera explain` and `solera tune replay`.
//!
//! A load that tunes leaves a journal that explains itself and is decided again alike. Agents that
//! there are not, and databases that were never tuned, are named.

use crate::run::Solera;
use std::fs;

#[test]
fn a_load_that_tunes_leaves_a_journal_that_explains_itself_and_is_decided_again() {
    let solera = Solera::new();
    let input = solera.write("in.tsv", "a\t1\nb\t2\n");
    solera.run(["load", "--tune", input.to_str().unwrap()]).ok();
    let told = solera.run(["explain"]).ok();
    assert!(told.contains("steward begins on keyspace \"default\": mean-time"), "{told}");
    assert!(told.contains("ended: the tuner was dropped"), "{told}");
    assert!(solera.run(["explain", "--json"]).ok().starts_with("{\"begin\":"));
    solera.run(["explain", "--page", "page.html"]).ok();
    assert!(solera.read("page.html").contains("What the tuner did"));
    let journal = solera.db().join("TUNED");
    let replayed = solera.run(["tune", "replay", journal.to_str().unwrap()]).ok();
    assert_eq!(replayed, "0 decisions, 0 orders: all the same\n");
}

#[test]
fn agents_that_there_are_not_and_databases_that_were_never_tuned_are_named() {
    let solera = Solera::new();
    solera.run(["put", "k", "v"]).ok();
    assert!(solera.run(["explain"]).fails(6).contains("was never tuned"));
    assert!(solera.run(["load", "--tune=alex", "nothing.tsv"]).fails(2).contains("there are steward"));
    fs::write(solera.db().join("TUNED"), "my list\n").unwrap();
    assert!(solera.run(["explain"]).fails(4).contains("move the file away"));
}

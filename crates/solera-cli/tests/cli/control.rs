//! Tests of `solera control`: what `get`, `set` and `history` show, set and remember, and what they
//! refuse.
//!
//! A knob that is set stays set, for one keyspace alone if asked, and history tells who and why.
//! What is refused says what is legal and changes nothing.

use crate::run::Solera;
use serde_json::Value;

fn json(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_knob_that_is_set_stays_set_and_history_tells_who_and_why() {
    let solera = Solera::new();
    solera.run(["put", "k", "v"]).ok();
    let args =
        ["control", "set", "size_ratio=6", "index=s-tree", "--why", "nights are for loading", "--who", "me"];
    let told = solera.run(args).ok();
    assert!(told.contains("size_ratio of \"default\": 10 → 6"), "{told}");
    assert!(told.contains("in tables written from now on"), "{told}");
    solera.run(["control", "set", "run_limit=3", "--level", "1", "--why", "half way", "--who", "me"]).ok();
    solera.run(["put", "k", "w"]).ok();

    let text = solera.run(["control", "get"]).ok();
    let line = |name: &str| text.lines().find(|line| line.contains(name)).unwrap().to_owned();
    assert!(line("  size_ratio").contains("6*") && line("  size_ratio").contains("from 3 to 100"), "{text}");
    assert!(line("of level 1").contains("3*") && line("of level 1").contains("from 1 to 6"), "{text}");
    assert!(line("cache_percent").contains("% of memory"), "{text}");

    let ratio = json(&solera.run(["control", "get", "size_ratio", "--json"]).ok());
    assert_eq!(ratio.len(), 1);
    assert_eq!(
        (&ratio[0]["value"], &ratio[0]["is_set"], &ratio[0]["legal"]["min"]),
        (&6.into(), &true.into(), &3.into())
    );

    let history = json(&solera.run(["control", "history", "--json"]).ok());
    assert_eq!((&history[0]["number"], &history[0]["who"]), (&1.into(), &"me".into()));
    assert_eq!(history[1]["changed"][0]["level"], 1);
    assert_eq!(
        (&history[1]["changed"][0]["old"], &history[1]["changed"][0]["new"]),
        (&"1".into(), &"3".into())
    );
    let text = solera.run(["control", "history"]).ok();
    assert!(
        text.contains("UTC  me: nights are for loading\n    size_ratio of \"default\": 10 → 6"),
        "{text}"
    );

    solera.run(["control", "set", "size_ratio=default", "--why", "day"]).ok();
    assert_eq!(json(&solera.run(["control", "get", "size_ratio", "--json"]).ok())[0]["value"], 10);
}

#[test]
fn what_is_refused_says_what_is_legal_and_changes_nothing() {
    let solera = Solera::new();
    solera.run(["put", "k", "v"]).ok();
    solera.run(["put", "--keyspace", "other", "--create-keyspace", "k", "v"]).ok();
    let before = solera.run(["control", "get", "--json"]).ok();
    for (args, says) in [
        (&["run_limit=0"][..], "run_limit is 0; it must be a whole number from 1 to 10"),
        (&["run_limit=11"], "it must be 1 to 10"),
        (&["run_limit=4", "--level", "9"], "the levels are 0 to 1"),
        (&["size_ratio=1"], "from 2 to 100"),
        (&["size_ratio=1000000"], "from 2 to 100"),
        (&["size_ratio=NaN"], "from 2 to 100"),
        (&["size_ratio=4", "--level", "1"], "not for a level"),
        (&["write_buffer_percent=60", "cache_percent=41"], "at most 100"),
        (&["index=learnt"], "s-tree"),
        (&["speed=11"], "there is no knob \"speed\"; there are size_ratio"),
        (&["epsilon=8", "block_bytes=1"], "from 256 to 1048576"),
    ] {
        let args = ["control", "set", "--why", "test"].iter().chain(args);
        let message = solera.run(args).fails(2);
        assert!(message.contains(says), "{message}");
    }
    let message = solera.run(["control", "set", "epsilon=8", "--why", "test", "--keyspace", "none"]).fails(6);
    assert!(message.contains("it has \"default\", \"other\""), "{message}");
    solera.run(["control", "get", "--keyspace", "none"]).fails(6);
    assert_eq!(solera.run(["control", "get", "--json"]).ok(), before);
    assert_eq!(solera.run(["control", "history"]).ok(), "");
}

#[test]
fn a_knob_may_be_set_for_one_keyspace_alone() {
    let solera = Solera::new();
    solera.run(["put", "--keyspace", "other", "--create-keyspace", "k", "v"]).ok();
    solera.run(["control", "set", "--keyspace", "other", "epsilon=8", "--why", "test"]).ok();
    let values = json(&solera.run(["control", "get", "epsilon", "--json"]).ok());
    let of = |name: &str| {
        let value = values.iter().find(|value| value["keyspace"] == name && value["level"].is_null());
        value.unwrap()["value"].clone()
    };
    assert_eq!((of("default"), of("other")), (64.into(), 8.into()));
    let only = json(&solera.run(["control", "get", "epsilon", "--json", "--keyspace", "other"]).ok());
    assert!(only.iter().all(|value| value["keyspace"] == "other") && only[0]["value"] == 8);
}

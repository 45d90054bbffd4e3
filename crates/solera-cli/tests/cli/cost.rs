//! Tests of `solera cost`: what it prints and what it refuses, with given unit costs so that no
//! test waits for a probe.
//!
//! Reads want fewer runs than writes, and the reason is told. What is no workload is refused with
//! the reason.

use crate::run::Solera;
use std::io::Write;

/// Unit costs as in docs/PAPERS.md, "RusKey: the run limits", so that no test waits for a probe.
pub(crate) const UNITS: &str = r#"{"direct_reads":true,"read_ns":[80000,90000,110000,150000],"read_ahead_ns_per_page":10000,
"write_ns_per_page":15000,"get_ns":200,"run_probe_ns":100,"block_find_ns":300,"block_load_ns":1000,
"run_seek_ns":500,"step_ns":50,"put_ns":1000,"merge_ns_per_entry":500}"#;

fn with_units() -> (Solera, String) {
    let solera = Solera::new();
    let path = solera.path("units.json");
    std::fs::File::create(&path).unwrap().write_all(UNITS.as_bytes()).unwrap();
    (solera, path.to_str().unwrap().to_owned())
}

fn cost(workload: &str, more: &[&str]) -> crate::run::Run {
    let (solera, units) = with_units();
    let mut arguments = vec!["cost", "--workload", workload, "--units", &units];
    arguments.extend(["--entries", "100K", "--entry-bytes", "1000", "--memory", "512K", "--cache", "1M"]);
    arguments.extend(more);
    solera.run(&arguments)
}

#[test]
fn reads_want_fewer_runs_than_writes_and_the_reason_is_told() {
    let limits = |workload: &str| {
        let json: serde_json::Value = serde_json::from_str(&cost(workload, &["--json"]).ok()).unwrap();
        let best = &json["best"];
        let all: Vec<f64> = json["candidates"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| c["ns_per_operation"].as_f64().unwrap())
            .collect();
        assert!(
            all.iter().all(|ns| *ns >= best["ns_per_operation"].as_f64().unwrap()),
            "the best is the cheapest"
        );
        best["run_limits"].as_array().unwrap().iter().map(|k| k.as_u64().unwrap()).sum::<u64>()
    };
    assert!(limits("3,3,91,3") < limits("3,3,3,91"));
    let text = cost("0.03,0.03,0.03,0.91", &[]).ok();
    assert!(text.contains("cheapest") && text.contains("dominate"), "{text}");
    let text = cost("0,1,0,0", &[]).ok();
    assert!(text.contains("Found lookups dominate"), "{text}");
}

#[test]
fn what_is_no_workload_is_refused_with_the_reason() {
    for (workload, says) in [
        ("0.5,0.5,0.5,0.5", "is 2"),
        ("NaN,0,0,1", "NaN"),
        ("-1,1,1,0", "at least 0"),
        ("1,0,0", "four"),
        ("a,b,c,d", "not a number"),
    ] {
        let error = cost(workload, &[]).fails(2);
        assert!(error.contains(says), "{workload}: {error}");
    }
    for (argument, value) in
        [("--level0", "0"), ("--level0", "65"), ("--size-ratio", "1"), ("--size-ratio", "101")]
    {
        assert!(cost("1,0,0,0", &[argument, value]).fails(2).contains(" is not in "), "{argument} {value}");
    }
    let (solera, units) = with_units();
    let run =
        |more: &[&str]| solera.run([&["cost", "--workload", "1,0,0,0", "--units", &units], more].concat());
    assert!(run(&["--entries", "0"]).fails(2).contains("at least 1"));
    assert!(run(&["--memory", "1K"]).fails(2).contains("64K"));
    let broken = solera.run(["cost", "--workload", "1,0,0,0", "--units", "/dev/null"]);
    assert!(broken.fails(2).contains("no unit costs"));
}

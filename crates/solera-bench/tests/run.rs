//! Tests of a whole run in small, through `solera_bench::run`.
//!
//! A run measures every phase of every kind, finds every answer right and prints itself. What
//! cannot be run is refused before anything is done; a missing directory is an error that names it.
//! The smallest set can be measured.

use solera_bench::{Config, Error, Family, Generated, Keys, Progress, run};

#[derive(Default)]
struct Heard(Vec<(String, u64, u64)>);

impl Progress for Heard {
    fn at(&mut self, stage: &str, done: u64, of: u64) {
        self.0.push((stage.to_owned(), done, of));
    }
}

fn small() -> Config {
    Config { lookups: 2000, scans: 50, ..Config::generated(Keys::Family(Family::Clustered), 20_000) }
}

#[test]
fn a_run_measures_every_phase_of_every_kind_and_finds_every_answer_right() {
    let mut heard = Heard::default();
    let report = run(&small(), &mut heard).unwrap();
    assert_eq!(report.sets.len(), 1);
    assert_eq!(report.sets[0].entries, 20_000);
    let kinds: Vec<&str> = report.sets[0].arms.iter().map(|arm| &arm.index[..]).collect();
    assert_eq!(kinds, small().indexes.iter().map(|kind| kind.name()).collect::<Vec<_>>());
    assert!(["binary", "doblix-pra", "learned"].iter().all(|kind| kinds.contains(kind)));
    for arm in &report.sets[0].arms {
        assert_eq!(arm.phases.len(), 5);
        assert!(
            arm.phases.iter().all(|phase| phase.per_second.repeats.len() == 3 && phase.per_second.min > 0.0)
        );
        assert_eq!(arm.phases[4].operations, 3 * 20_000);
        // Everything was flushed, so a found read looks into a block, and more than one is rare.
        let probed = arm.phases[0].blocks_probed_per_operation.unwrap();
        assert!((1.0..1.2).contains(&probed), "{probed}");
        assert!(arm.phases[2].blocks_probed_per_operation.unwrap() < 0.1);
        assert!(
            arm.size.table_bytes > 20_000 * 60
                && arm.size.filter_file_bytes > 0
                && arm.size.index_file_bytes > 0
        );
        assert!(arm.load.write_amplification > 1.0 && arm.load.compact_s.is_some());
        assert_eq!(arm.size.runs_per_level.iter().sum::<usize>(), 1, "one run, whatever the timing was");
    }
    assert!(heard.0.iter().all(|(_, done, of)| done <= of));
    assert!(report.to_text().contains("doblix-pra") && report.to_html().contains("doblix-pra"));
}

#[test]
fn what_cannot_be_run_is_refused_before_anything_is_done() {
    let refused = |config: Config| matches!(run(&config, &mut ()), Err(Error::Config(_)));
    assert!(refused(Config { indexes: Vec::new(), ..small() }));
    assert!(refused(Config { repeats: 0, ..small() }));
    assert!(refused(Config { generated: Vec::new(), ..small() }));
    assert!(refused(Config { pass_s_max: f64::NAN, ..small() }));
    assert!(refused(Config::generated(Keys::Family(Family::Uniform), 0)));
}

#[test]
fn a_missing_directory_is_an_error_that_names_it() {
    let config = Config { directory: Some("/nowhere/at/all".into()), ..small() };
    assert!(run(&config, &mut ()).unwrap_err().to_string().contains("/nowhere/at/all"));
}

#[test]
fn the_smallest_set_can_be_measured() {
    let generated = vec![Generated { keys: Keys::Family(Family::Uniform), entries: 1, value_bytes: 0 }];
    let report = run(&Config { generated, ..small() }, &mut ()).unwrap();
    assert_eq!(report.sets[0].arms[0].phases[4].operations, 3);
}

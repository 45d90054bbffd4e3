//! Tests of every experiment once, in small, through `paper::run`.
//!
//! DobLIX, Sherry, RusKey, CAMAL and LearnedKV are repeated with every arm; documents have their
//! verdicts, tables and pictures. CAMAL's learners sample and choose in counted time. The 32
//! settings of X1 and DobLIX's agent run too. `paper_seeds` has what is compared figure by figure.

mod counted;

use counted::{Heard, counted};
use solera::IndexKind;
use solera_bench::{
    Family, Keys,
    paper::{self, Document, Paper, Part, Scale},
};

fn run(paper: Paper) -> Document {
    let keys =
        [Family::Clustered, Family::WikiLike, Family::Strings, Family::Hexadecimal].map(Keys::Family).into();
    // RusKey's and CAMAL's trees flush and sync every four entries or so: of those, fewer are
    // enough.
    let entries_small = if matches!(paper, Paper::Doblix | Paper::Sherry) { 3_000 } else { 800 };
    let few = Scale { missions: 2, mission_operations: 200, operations: 200, ..Scale::quick() };
    let scale = Scale { entries: 5_000, entries_small, lookups: 500, keys, ..few };
    let mut heard = Heard::default();
    let document = paper::run(paper, &scale, &mut heard).unwrap();
    assert!(heard.0.len() > 10 && heard.0.iter().all(|(done, of)| done <= of));
    let markdown = document.to_markdown("pictures");
    for said in ["command", "machine", "soleradb", "every answer checked"] {
        assert!(markdown.contains(said), "{said}");
    }
    assert!(!markdown.contains("NaN") && document.pictures()[0].1.contains("<svg"));
    document
}

/// The number in a cell, without its quartiles and unit.
fn number(cell: &str) -> f64 {
    cell.split(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("{cell:?} is no number"))
}

#[test]
fn doblix_is_repeated_with_every_kind_on_every_family() {
    let document = run(Paper::Doblix);
    let titles: Vec<&str> = document.sections.iter().map(|section| &section.title[..2]).collect();
    assert_eq!(titles, ["As", "D1", "D1", "Th", "D2", "D3"]);
    assert!(document.sections[0].text.len() + document.sections[0].verdicts.len() >= 9);
    let hot = &document.sections[1];
    for table in &hot.tables {
        assert_eq!(table.columns, ["index", "clustered", "wiki-like", "strings", "hexadecimal"]);
        assert_eq!(table.rows.len(), IndexKind::ALL.len(), "{}", table.title);
        let mut cells = table.rows.iter().flat_map(|(_, cells)| cells).filter(|cell| *cell != "–");
        assert!(cells.all(|cell| number(cell) >= 0.0));
    }
    for (name, cells) in hot.tables[..2].iter().flat_map(|table| &table.rows) {
        let mut ratios = cells.iter().filter(|cell| *cell != "–").map(|cell| number(cell));
        assert!(
            ratios.all(|ratio| if name == "learned" { ratio == 1.0 } else { (0.01..100.0).contains(&ratio) }),
            "{name} {cells:?}"
        );
    }
    let probed = hot.tables.iter().find(|table| table.title.contains("per found read")).unwrap();
    for (name, cells) in &probed.rows {
        let names_a_window = name.starts_with("sherry") || name.starts_with("greedy");
        let most = if names_a_window { 4.0 } else { 1.1 };
        for text in &cells[2..] {
            assert_eq!(text == "–", names_a_window, "text is too long for it");
        }
        assert!(
            cells.iter().filter(|cell| *cell != "–").all(|cell| (1.0..=most).contains(&number(cell))),
            "{name} {cells:?}"
        );
    }
    let build = &document.sections[5];
    assert!(build.tables.iter().all(|table| table.rows.iter().all(|(_, cells)| number(&cells[0]) > 0.0)));
}

#[test]
fn sherry_is_repeated_and_saves_of_the_very_same_blocks() {
    let document = run(Paper::Sherry);
    let space = &document.sections[1];
    assert_eq!(space.tables.len(), 4);
    for table in &space.tables {
        assert_eq!(table.rows.len(), 13);
        for (name, cells) in &table.rows {
            // RocksDB's entry is a key, an offset and a size; with restarts 16 apart it takes less.
            let (every, sixteenth) = (number(&cells[1]), number(&cells[2]));
            assert!((8.0..40.0).contains(&every) && sixteenth < every, "{name} {cells:?}");
            assert!(number(&cells[4]) > number(&cells[9]) || number(&cells[0]) < 100.0, "{name} {cells:?}");
        }
    }
    assert_eq!(document.sections[2].tables.len(), 6);
}

#[test]
fn ruskeys_missions_run_under_every_arm_and_the_model_is_held_against_them() {
    let document = run(Paper::RuskeyStatic);
    let arms: Vec<&str> = document.sections[2].tables[0].rows.iter().map(|(name, _)| &name[..]).collect();
    assert!(arms.len() == 5 && arms[4].starts_with("closed form"), "{arms:?}");
    assert_eq!(document.sections.len(), 2 + 3, "what holds, the conditions, and three mixes");
    assert!(
        document.sections[0].verdicts.iter().any(|said| said.measured.contains("15 cases")),
        "{document:?}"
    );
}

#[test]
fn ruskeys_transitions_run_and_the_flexible_one_moves_no_table_by_itself() {
    let document = run(Paper::RuskeyTransition);
    let [said, _, time, latency, by_itself] = &document.sections[..] else { panic!("{document:?}") };
    assert_eq!(said.verdicts.len(), 4);
    assert!(said.verdicts[2].holds && said.verdicts[2].measured.contains("0 bytes"), "{said:?}");
    let names = |section: &solera_bench::paper::document::Section| -> Vec<String> {
        section.tables[0].rows.iter().map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(names(time), ["greedy", "lazy", "flexible"]);
    assert_eq!(latency.tables[0].rows.len(), 2 * 3, "before and after the change");
    for (_, quantiles) in &latency.tables[0].rows {
        let quantiles: Vec<f64> = quantiles.iter().map(|cell| number(cell)).collect();
        assert!(quantiles.is_sorted() && quantiles[0] > 0.0, "{quantiles:?}");
    }
    let moved: Vec<&str> = by_itself.tables[0].rows.iter().map(|(_, cells)| &cells[0][..]).collect();
    assert_eq!((moved.len(), moved[2]), (3, "0 B"), "{moved:?}");
    let record = number(&by_itself.tables[0].rows[2].1[1]);
    assert!((50.0..2000.0).contains(&record), "one record of the manifest: {record} bytes");
    assert!(document.pictures()[0].1.contains("class=\"line k2\""));
}

#[test]
fn camals_mixes_run_under_every_arm() {
    let document = run(Paper::CamalStatic);
    let [training, shifting] = &document.sections[2].tables[..] else { panic!("{document:?}") };
    assert_eq!((training.rows.len(), shifting.rows.len()), (3 + 1, 3 + 1), "mixes and their mean");
    assert!(
        document.sections[0].verdicts.iter().any(|said| said.measured.contains("18 cases")),
        "{document:?}"
    );
}

#[test]
fn learnedkvs_phases_run_under_every_way_to_keep_values() {
    let scale = Scale { entries: 1_500, entries_small: 200, lookups: 100, repeats: 1, ..Scale::quick() };
    let document = paper::run(Paper::LearnedKv, &scale, &mut Heard::default()).unwrap();
    let markdown = document.to_markdown("pictures");
    assert!(markdown.contains("every answer checked") && !markdown.contains("NaN"), "{markdown}");
    let ways = 1 + solera::Reclaim::ALL.len();
    let [said, _, rates, written, _, space, scans, sizes, spares, bounds, resident] = &document.sections[..]
    else {
        panic!("{document:?}")
    };
    assert!(said.verdicts.len() > 10, "{said:?}");
    for section in [rates, written, space, scans] {
        assert_eq!(section.tables[0].rows.len(), ways, "{}", section.title);
    }
    for (name, cells) in &written.tables[0].rows {
        let [load, all, log] = [0, 1, 2].map(|at| number(&cells[at]));
        assert!(load >= 1.0 && all >= log && log >= 1.0, "{name}: {cells:?}");
    }
    assert_eq!((sizes.tables.len(), spares.tables.len()), (5, ways - 2));
    assert_eq!(bounds.tables[0].rows.len(), 4);
    assert_eq!(resident.tables[0].rows.len(), 2, "inline and `tier`");
}

/// A world of 1,500 entries: its learners are trained on 500.
#[test]
fn camals_learners_sample_and_choose_beside_their_opponents_and_mixes_follow_each_other() {
    let parts = vec![Part::Learners, Part::Scales, Part::Dynamic, Part::Uncertain];
    let scale = Scale { entries_small: 1_500, operations: 300, mixes: 5, parts, ..Scale::quick() };
    let document = counted(Paper::Camal, scale.clone());
    let section = |title: &str| {
        let found = document.sections.iter().find(|section| section.title.starts_with(title));
        found.unwrap_or_else(|| panic!("no section {title:?}"))
    };
    let ways = &section("What each way comes to").tables[0];
    let of = |name: &str| &ways.rows.iter().find(|(way, _)| way == name).unwrap().1;
    // For each mix five T and five bits.
    for (name, samples) in [
        ("camal-poly", 50.0),
        ("camal-trees", 50.0),
        ("camal-nn", 50.0),
        ("plain active learning, 6", 30.0),
        ("AXE's two steps", 0.0),
    ] {
        assert_eq!(number(&of(name)[3]), samples, "{name}");
        assert_eq!(number(&of(name)[4]) > 0.0, samples > 0.0, "{name}");
    }
    // Nine pairs of T and K in place of the T, or fewer beside the least T.
    assert!((60.0..=70.0).contains(&number(&of("camal-trees, T with K")[3])));
    let us = |name: &str| number(&of(name)[0]);
    // Of five mixes only Poly, which has the cost model's terms, can tell of others.
    for name in ["camal-poly", "corrected form"] {
        let ratio = us(name) / us("T = 10, 10 bits");
        assert!(ratio < 0.95, "{name} takes {ratio} of the default: {:?}", ways.rows);
    }
    let moving = &section("C3").tables[0];
    assert_eq!(moving.rows.len(), 1 + 9 + 1 + 2 + 1);
    assert_eq!(number(&moving.rows[0].1[1]), 1.0, "the default is as fast as itself");
    // Each of CAMAL's arms configures itself for the first mix.
    assert!(moving.rows[1..11].iter().all(|(_, cells)| number(&cells[3]) >= 1.0), "{moving:?}");
    assert_eq!(section("Mixes that are not certain").tables[0].rows.len(), 3);
    let said = &document.sections[0].verdicts;
    assert!(said.iter().any(|of| of.asked.contains("trained on 50 times less")), "{said:?}");
    // The steward under one mix of each table.
    let few = Scale { mixes: 1, parts: vec![Part::Steward], ..scale.clone() };
    let steward = counted(Paper::Camal, few);
    assert_eq!(steward.sections[2].tables[0].rows.len(), 2);
}

#[test]
fn thirty_two_settings_are_measured_under_every_workload() {
    let scale = Scale { entries_small: 1_500, mission_operations: 300, ..Scale::quick() };
    let document = counted(Paper::Together, scale);
    for section in &document.sections[2..] {
        let [main, pairs] = &section.tables[..] else { panic!("{section:?}") };
        assert_eq!((main.rows.len(), pairs.rows.len()), (6 + 5, 5));
        for (name, cells) in &main.rows {
            let (all, best) = (number(&cells[6]), number(&cells[7]));
            assert!(best <= all && best <= 1.0, "{name} {cells:?}");
        }
    }
}

#[test]
fn doblixs_agent_takes_fifty_episodes_over_a_grid_of_twenty_cells() {
    let scale =
        Scale { entries_small: 5_000, mission_operations: 1_500, operations: 1_500, ..Scale::quick() };
    let document = counted(Paper::DoblixAgent, scale);
    let grid = &document.sections[2].tables[0];
    assert_eq!((grid.rows.len(), grid.rows[0].1.len()), (5 + 1, 4));
    let asked = &document.sections[0].verdicts[0];
    assert!(asked.measured.ends_with("after 50 episodes"), "{asked:?}");
}

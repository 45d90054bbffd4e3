//! Every experiment once, in small.

use solera::IndexKind;
use solera_bench::{
    Family, Keys, Progress,
    paper::{self, Document, Paper, Scale},
};

#[derive(Default)]
struct Heard(Vec<(u64, u64)>);

impl Progress for Heard {
    fn at(&mut self, _: &str, done: u64, of: u64) {
        self.0.push((done, of));
    }
}

fn run(paper: Paper) -> Document {
    let keys =
        [Family::Clustered, Family::WikiLike, Family::Strings, Family::Hexadecimal].map(Keys::Family).into();
    // RusKey's and CAMAL's trees flush and sync every four entries or so: of those, fewer are enough.
    let entries_small = if matches!(paper, Paper::Doblix | Paper::Sherry) { 3_000 } else { 800 };
    let few = Scale { missions: 2, mission_operations: 200, operations: 200, ..Scale::quick() };
    let scale = Scale { entries: 5_000, entries_small, lookups: 500, keys, ..few };
    let mut heard = Heard::default();
    let document = paper::run(paper, &scale, &mut heard).unwrap();
    assert!(heard.0.len() > 10 && heard.0.iter().all(|(done, of)| done <= of));
    let markdown = document.to_markdown("page.html");
    for said in ["command", "machine", "soleradb", "every answer checked"] {
        assert!(markdown.contains(said), "{said}");
    }
    assert!(!markdown.contains("NaN") && document.to_html().contains("<svg"));
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
    assert_eq!(titles, ["Wh", "D1", "D1", "Th", "D2", "D3"]);
    assert!(document.sections[0].text.len() >= 9);
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
        let most = if name.starts_with("sherry") { 4.0 } else { 1.1 };
        for text in &cells[2..] {
            assert_eq!(text == "–", name.starts_with("sherry"), "text is too long for it");
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
    assert!(document.sections[0].text.iter().any(|line| line.contains("15 cases")), "{document:?}");
}

#[test]
fn ruskeys_transitions_run_and_the_flexible_one_moves_no_table_by_itself() {
    let document = run(Paper::RuskeyTransition);
    let [said, _, time, latency, by_itself] = &document.sections[..] else { panic!("{document:?}") };
    assert_eq!(said.text.len(), 4);
    assert!(said.text[2].contains("**Holds.**") && said.text[2].contains("0 bytes"), "{said:?}");
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
    assert!(document.to_html().contains("class=\"line k2\""));
}

#[test]
fn camals_mixes_run_under_every_arm() {
    let document = run(Paper::CamalStatic);
    let [training, shifting] = &document.sections[2].tables[..] else { panic!("{document:?}") };
    assert_eq!((training.rows.len(), shifting.rows.len()), (3 + 1, 3 + 1), "mixes and their mean");
    assert!(document.sections[0].text.iter().any(|line| line.contains("18 cases")), "{document:?}");
}

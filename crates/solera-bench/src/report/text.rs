//! The report as text, aligned columns that are no wider than they must be: `render`, `facts`,
//! `conditions`.
//!
//! `facts` is the head of text and page; `conditions` says in a sentence how a data set was
//! measured. `render` also writes, of each set, what its table says in words (`verdict`), and ends
//! with what the kinds are.
//!
//! What must hold: a machine on which others kept more than 0.2 cores busy, and a debug build, are
//! called so.
//!
//! Callers: `Report::to_text`; `report::html` uses `facts` and `conditions`.

use super::{
    Report,
    number::{bytes, count, date, digits},
    rows::groups,
    verdict::{meaning, verdict},
};
use std::fmt::Write;

/// Cores kept busy by others above which times are not to be trusted.
const OTHERS_CORES_MAX: f64 = 0.2;

/// Facts about the run, as (name, text): the head of the text and of the web page.
pub(super) fn facts(report: &Report) -> Vec<(&'static str, String)> {
    let (engine, machine, settings) = (&report.engine, &report.machine, &report.settings);
    let commit = engine.commit.as_deref().map_or(String::new(), |commit| format!(", commit {commit}"));
    let cpu = machine.cpu_model.as_deref().unwrap_or("unknown processor");
    let memory = machine.memory_bytes.map_or(String::new(), |n| format!(", {} of memory", bytes(n)));
    let others = report.others_cores.map_or(String::new(), |cores| {
        format!("; other programs kept {cores:.2} of {} cores busy meanwhile", machine.cores)
    });
    let filesystem = settings.filesystem.as_deref().unwrap_or("unknown file system");
    let mut facts = vec![
        ("command", settings.command.clone()),
        ("engine", format!("soleradb {}{commit}", engine.version)),
        ("machine", format!("{cpu}, {} cores{memory}, {}", machine.cores, machine.system)),
        ("databases", format!("in {} ({filesystem}), {} writes", settings.directory, settings.durability)),
        (
            "threads",
            format!(
                "{} client, {} background per database",
                settings.client_threads, settings.background_threads
            ),
        ),
        (
            "method",
            format!(
                "median [least – greatest] of {} repeats, index kinds interleaved; {} reads or {} scans per pass, at \
                 most {} s; Zipf exponent {}; seed {}",
                settings.repeats,
                count(settings.lookups as u64),
                count(settings.scans as u64),
                digits(settings.pass_s_max),
                settings.zipf_exponent,
                settings.seed
            ),
        ),
        (
            "percentiles",
            format!(
                "from passes of {} reads timed one by one; {} ns of each is the clock",
                count(settings.lookups_timed as u64),
                digits(settings.clock_ns)
            ),
        ),
        ("warm-up", settings.warm_up.clone()),
        ("checked", "every answer of every pass; one wrong answer fails the run".into()),
        ("run", format!("{}, {} s{others}", date(report.started_unix_s), digits(report.run_s))),
    ];
    if engine.debug_build {
        facts.insert(
            0,
            ("WARNING", "built with debug assertions: these times mean nothing; use --release".into()),
        );
    }
    if report.others_cores.is_some_and(|cores| cores > OTHERS_CORES_MAX) {
        facts.insert(
            0,
            ("WARNING", "the machine was busy with other programs: expect better times without them".into()),
        );
    }
    facts
}

/// The conditions of one data set, in a sentence.
pub(super) fn conditions(set: &super::SetReport) -> String {
    format!(
        "{} pairs, {} of keys and values; {} absent keys; memory budget {} per database, blocks of {}, {}",
        count(set.entries),
        bytes(set.key_bytes + set.value_bytes),
        count(set.absent_keys),
        bytes(set.memory_budget_bytes),
        bytes(set.block_bytes.into()),
        set.compression
    )
}

pub(super) fn render(report: &Report) -> String {
    let mut out = String::from("Solera benchmark\n\n");
    for (name, text) in facts(report) {
        let _ = writeln!(out, "  {name:<12} {text}");
    }
    for set in &report.sets {
        let _ = writeln!(out, "\n{}: {}\n  {}\n", set.name, set.about, conditions(set));
        let groups = groups(set, report.settings.scan_entries);
        let rows = || groups.iter().flat_map(|group| &group.rows);
        let width =
            |texts: &mut dyn Iterator<Item = &str>| texts.map(|text| text.chars().count()).max().unwrap_or(0);
        let label_width = width(&mut rows().map(|row| &row.label[..]));
        let unit_width = width(&mut rows().map(|row| &row.unit[..]));
        let widths: Vec<usize> = (0..set.arms.len())
            .map(|i| width(&mut rows().map(|row| &row.cells[i][..]).chain([&set.arms[i].index[..]])))
            .collect();
        let _ = write!(out, "  {:label_width$}    {:unit_width$}", "", "");
        for (arm, width) in set.arms.iter().zip(&widths) {
            let _ = write!(out, "  {:>width$}", arm.index);
        }
        out.push('\n');
        for group in &groups {
            let _ = writeln!(out, "  {}", group.title);
            for row in &group.rows {
                let _ = write!(out, "    {:label_width$}  {:unit_width$}", row.label, row.unit);
                for (cell, width) in row.cells.iter().zip(&widths) {
                    let _ = write!(out, "  {cell:>width$}");
                }
                out.push('\n');
            }
        }
        let verdict = verdict(set);
        if !verdict.is_empty() {
            let _ = writeln!(out, "\n  In words");
        }
        for line in verdict {
            let _ = writeln!(out, "    {line}");
        }
    }
    let mut kinds: Vec<&str> =
        report.sets.iter().flat_map(|set| &set.arms).map(|arm| &arm.index[..]).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let _ = writeln!(out, "\nThe kinds");
    for kind in kinds {
        let _ = writeln!(out, "  {kind:<12} {}", meaning(kind));
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::report::tests::example;

    #[test]
    fn columns_are_aligned_and_rows_have_units() {
        let text = example().to_text();
        let table: Vec<&str> = text.lines().skip_while(|line| !line.contains("binary  ")).collect();
        let end = table[0].chars().count();
        let rows = table.iter().take_while(|line| !line.contains("In words"));
        let rows: Vec<&&str> = rows.filter(|line| line.starts_with("    ")).collect();
        assert!(rows.len() > 20);
        assert!(rows.iter().all(|row| row.chars().count() == end), "{text}");
        assert!(text.contains("1.40 [1.37 – 1.47]"), "{text}");
        for unit in ["M reads/s", "K puts/s", "ns", "B/key", "blocks/read", "K scans/s", "M entries/s"] {
            assert!(text.contains(unit), "{unit} is missing in\n{text}");
        }
        assert!(!text.contains("WARNING"));
    }

    #[test]
    fn a_busy_machine_is_called_one() {
        let mut report = example();
        report.others_cores = Some(1.7);
        assert!(report.to_text().contains("WARNING"));
        assert!(report.to_text().contains("other programs kept 1.70 of 2 cores busy"));
    }

    #[test]
    fn a_debug_build_is_called_one() {
        let mut report = example();
        report.engine.debug_build = true;
        assert!(report.to_text().contains("WARNING"));
        assert!(report.to_html().contains("WARNING"));
    }
}

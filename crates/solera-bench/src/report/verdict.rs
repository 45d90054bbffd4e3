//! What a data set's table says, in words: `verdict`, which arm is first in what and by how much;
//! `meaning`, what an index kind is.
//!
//! `verdict` compares found reads, absent reads, scans and the size of the index.
//!
//! What must hold: one arm alone has no other to be held against, so nothing is said of it. Every
//! index kind has a meaning.
//!
//! Caller: `report::text`, which puts a verdict after each set's table and ends with the meanings.

use super::{ArmReport, Phase, SetReport};

/// What each kind that was measured is, a line each.
pub(super) fn meaning(kind: &str) -> &'static str {
    match kind {
        "binary" => "the sorted keys between blocks, halved",
        "s-tree" => "a static B+tree of the keys between blocks, the strong classical form",
        "s-tree-hash" => "s-tree, and a hash index inside each block",
        "eytzinger" => "the keys between blocks in breadth-first order",
        "interpolation" => "interpolation between the keys between blocks",
        "doblix-pla" => "DobLIX with blocks that end where their keys leave a line",
        "doblix-pra" => "DobLIX with lines fitted to full blocks",
        "sherry-plr" => "Sherry's piecewise linear model of block numbers",
        "greedy-plr" => "LearnedKV's model of a sorted list of keys",
        "learned" => "Solera's own model, the default",
        "auto" => "for each table what costs least there",
        _ => "not a kind of this release",
    }
}

/// Which arm is first in what, and by how much. One arm alone has no other to be held against.
pub(super) fn verdict(set: &SetReport) -> Vec<String> {
    let mut lines = Vec::new();
    for (phase, one, all) in [
        (Phase::FoundUniform, "finds keys", "find keys"),
        (Phase::Absent, "tells that keys are absent", "tell that keys are absent"),
        (Phase::Scan, "scans", "scan"),
    ] {
        let rate = |arm: &ArmReport| {
            arm.phases.iter().find(|report| report.phase == phase).map(|report| report.per_second.median)
        };
        lines.extend(first(set, rate).map(|(best, worst, times)| match times {
            ..1.05 => format!("All kinds {all} at nearly the same rate."),
            _ => format!("{best} {one} fastest, {times:.2} times as fast as {worst}."),
        }));
    }
    let small = |arm: &ArmReport| Some(1.0 / arm.size.index_file_bytes_per_key.max(1e-9));
    lines.extend(first(set, small).map(|(best, worst, times)| match times {
        ..1.05 => "All indexes take nearly the same space.".to_owned(),
        _ => format!("{best} has the smallest index; that of {worst} is {times:.1} times as large."),
    }));
    lines
}

/// The arm with the largest value, the one with the least, and how many times it is.
fn first(set: &SetReport, value: impl Fn(&ArmReport) -> Option<f64>) -> Option<(&str, &str, f64)> {
    let mut values: Vec<(&str, f64)> =
        set.arms.iter().filter_map(|arm| Some((&arm.index[..], value(arm)?))).collect();
    values.sort_by(|a, b| b.1.total_cmp(&a.1));
    match &values[..] {
        [best, .., worst] if worst.1 > 0.0 => Some((best.0, worst.0, best.1 / worst.1)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::example;
    use solera::IndexKind;

    #[test]
    fn the_fastest_kind_is_named_with_its_lead() {
        let report = example();
        let lines = verdict(&report.sets[0]).join("\n");
        assert!(lines.contains("finds keys fastest") && lines.contains("times as fast as"), "{lines}");
        let mut alone = report.sets[0].clone();
        alone.arms.truncate(1);
        assert!(verdict(&alone).is_empty());
    }

    #[test]
    fn every_kind_has_a_meaning() {
        for kind in IndexKind::ALL {
            assert!(!meaning(kind.name()).starts_with("not a kind"), "{kind}");
        }
    }
}

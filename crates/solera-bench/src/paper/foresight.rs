//! Predicted against measured: `Foresight`, how well the cost model foresaw the blocks of an
//! experiment.
//!
//! `add` takes a case: blocks for each operation predicted from the tree as found, predicted from
//! nothing but the setting and the data, and measured. `section` adds a verdict on each of the two
//! predictions to those that it is given.
//!
//! What must hold: the model's median error decides (15 % at most), and the five worst cases are
//! shown.
//!
//! Callers: `paper::camal` and `paper::ruskey`.

use super::{
    document::{Section, Table, Verdict},
    verdict,
};
use crate::report::number::digits;

/// The error that the model may have, in the median.
const ERROR_MAX: f64 = 0.15;

/// Pairs of a prediction and what came.
#[derive(Debug, Default)]
pub(super) struct Foresight {
    cases: Vec<Case>,
}

#[derive(Debug)]
struct Case {
    name: String,
    /// Predicted from the tree as it was found.
    found: f64,
    /// Predicted from the setting and the data alone.
    blind: f64,
    measured: f64,
}

impl Foresight {
    /// Adds a case: blocks per operation.
    pub(super) fn add(&mut self, name: String, found: f64, blind: f64, measured: f64) {
        self.cases.push(Case { name, found, blind, measured });
    }

    fn errors(&self, predicted: impl Fn(&Case) -> f64) -> Vec<f64> {
        let mut errors: Vec<f64> =
            self.cases.iter().map(|case| (predicted(case) / case.measured - 1.0).abs()).collect();
        errors.sort_by(f64::total_cmp);
        errors
    }

    /// What held, with the model's errors after the other verdicts.
    pub(super) fn section(&self, mut verdicts: Vec<Verdict>) -> Section {
        let mut worst = Table::new(
            "The five cases that were foreseen worst, blocks per operation",
            &["case", "foreseen", "from nothing", "measured"],
        );
        let errors = [self.errors(|case| case.found), self.errors(|case| case.blind)];
        for (errors, from) in errors.iter().zip(["the tree as found", "nothing but setting and data"]) {
            let at = |share: f64| errors.get((errors.len() as f64 * share) as usize).copied().unwrap_or(0.0);
            verdicts.push(verdict(
                &format!("the model foresees blocks per operation to 15 % in the median, from {from}"),
                at(0.5) <= ERROR_MAX,
                &format!(
                    "{:.1} % in the median of {} cases, {:.1} % in nine of ten",
                    at(0.5) * 100.0,
                    errors.len(),
                    at(0.9) * 100.0
                ),
            ));
        }
        let mut cases: Vec<&Case> = self.cases.iter().collect();
        let error = |case: &Case| (case.found / case.measured - 1.0).abs();
        cases.sort_by(|a, b| error(b).total_cmp(&error(a)));
        for case in cases.into_iter().take(5) {
            worst.row(case.name.clone(), [case.found, case.blind, case.measured].map(digits));
        }
        Section { title: "Asked and measured".into(), verdicts, tables: vec![worst], ..Section::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_error_decides_and_the_worst_case_is_shown() {
        let mut foresight = Foresight::default();
        for (name, found) in [("a", 1.0), ("b", 1.1), ("c", 3.0)] {
            foresight.add(name.into(), found, 2.0, 1.0);
        }
        let section = foresight.section(Vec::new());
        assert!(section.verdicts[0].holds && section.verdicts[0].measured.contains("10.0 %"), "{section:?}");
        assert!(!section.verdicts[1].holds && section.verdicts[1].measured.contains("100.0 %"));
        assert_eq!(section.tables[0].rows[0].0, "c");
    }
}

//! Every knob, listed once. Each is described where it is obeyed.
//!
//! From this list come `solera control`, [`Ranges`](super::Ranges), and the table in docs/TUNING.md.

pub use crate::{
    compaction::{LEVEL0_PATIENCE, RUN_LIMIT, SIZE_RATIO, TRANSITION},
    db::{CACHE_PERCENT, FILTER_PERCENT, WRITE_BUFFER_PERCENT},
    table::layout::{BLOCK_BYTES, EPSILON, FILTER_BITS_PER_KEY, INDEX},
};
use crate::{
    db::Split,
    error::{Error, Result},
    knob::Knob,
    tree::Settings,
};

/// All knobs.
pub fn all() -> impl Iterator<Item = &'static Knob> {
    Settings::knobs().chain(Split::KNOBS)
}

/// The knob of this name.
///
/// # Errors
/// [`Error::Invalid`], with all names.
pub fn find(name: &str) -> Result<&'static Knob> {
    all().find(|knob| knob.name == name).ok_or_else(|| {
        let names: Vec<_> = all().map(|knob| knob.name).collect();
        Error::Invalid(format!("there is no knob {name:?}; there are {}", names.join(", ")))
    })
}

/// The table of knobs in docs/TUNING.md: those that users need, or those for experiments.
pub fn table(experiment: bool) -> String {
    let mut table = String::from(
        "| knob | for | values | unit | default | felt | meaning |\n|---|---|---|---|---|---|---|\n",
    );
    for knob in all().filter(|knob| knob.experiment == experiment) {
        let Knob { name, scope, unit, legal, default, effect, help, .. } = knob;
        let scope = scope.name();
        table += &format!("| `{name}` | {scope} | {legal} | {unit} | {default} | {effect} | {help} |\n");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knob::Value;
    use std::collections::BTreeSet;

    #[test]
    fn every_knob_has_a_name_of_its_own_and_words_for_the_user() {
        let names: BTreeSet<_> = all().map(|knob| knob.name).collect();
        assert_eq!(names.len(), all().count());
        for knob in all() {
            assert!(![knob.default, knob.effect, knob.help].contains(&""), "{}", knob.name);
            assert!(!knob.legal.admits(&Value::Number(f64::NAN)), "{}", knob.name);
            assert_eq!(find(knob.name).unwrap().name, knob.name);
        }
        assert!(find("size_ration").unwrap_err().to_string().contains("size_ratio"));
    }

    #[test]
    fn at_most_twelve_knobs_and_options_face_the_user() {
        // `Options::memory` and `Options::durability`.
        const OPTIONS: usize = 2;
        assert!(all().filter(|knob| !knob.experiment).count() + OPTIONS <= 12);
    }
}

//! What every knob is called, means, and may ever be set to: one static `Knob` for each `KnobId`.
//!
//! `describe`, `all` and `find` look them up; `table` is the table of knobs in docs/TUNING.md.
//! Programs name knobs by these statics, as `control::knob`.
//!
//! What must hold: every knob has a name of its own. At most twelve options and knobs that are no
//! experiments face the user. What is legal here is legal by itself: `control::check` also asks
//! what the other knobs are.
//!
//! Callers: `control::check` and `control::ranges`, `assignments`; `solera-cli` (get, set),
//! `solera-tune`, `solera-bench`, `solera-sim`.

use super::memory::CACHE_PERCENT_MIN;
use crate::{
    compaction::{LEVEL0_RUN_LIMIT_MAX, SIZE_RATIO_MAX, SIZE_RATIO_MIN, Transition},
    error::{Error, Result},
    filter::BITS_PER_KEY_MAX,
    index::IndexKind,
    knob::{Knob, KnobId, LayoutKnob, Legal, MemoryKnob, Scope, TreeKnob},
    table::layout::{BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, EPSILON_MAX},
    tree::SEPARATE_NONE,
};

const TABLES_TO_COME: &str = "in tables written from now on";
const PERCENT: &str = "% of memory";

/// T.
pub static SIZE_RATIO: Knob = Knob::new(
    KnobId::Tree(TreeKnob::SizeRatio),
    "size_ratio",
    Scope::Keyspace,
    Legal::Whole { min: SIZE_RATIO_MIN as u64, max: SIZE_RATIO_MAX as u64 },
)
.with(
    "10",
    "by the compactions to come",
    "T: how many times larger a level is than the one above it. Not below a run limit of a level below 0.",
);
/// K_i.
pub static RUN_LIMIT: Knob = Knob::new(
    KnobId::Tree(TreeKnob::RunLimit),
    "run_limit",
    Scope::Level,
    Legal::Whole { min: 1, max: SIZE_RATIO_MAX as u64 },
)
.unit("runs")
.with(
    "4 in level 0, else 1",
    "with the next data that comes to the level",
    "K_i: runs that a level fills before all move down. 1: fewest reads; T: fewest rewrites. \
     At most T, in level 0 at most 64. Without a level: every level below 0.",
);
/// Runs at which level 0 is merged though reads have not paid for it.
pub static LEVEL0_PATIENCE: Knob = Knob::new(
    KnobId::Tree(TreeKnob::Level0Patience),
    "level0_patience",
    Scope::Keyspace,
    Legal::Whole { min: 0, max: LEVEL0_RUN_LIMIT_MAX as u64 },
)
.unit("runs")
.with(
    "27",
    "at once",
    "Runs at which level 0 is merged though reads have not paid for it; once they have, it is merged however few it has. Not \
     above the run limit: that alone counts.",
);
/// How a level comes to a new run limit.
pub static TRANSITION: Knob = Knob::new(
    KnobId::Tree(TreeKnob::Transition),
    "transition",
    Scope::Keyspace,
    Legal::Names(&Transition::NAMES),
)
.with(
    "flexible",
    "with the next change of a run limit",
    "How a level comes to a new run limit: flexible rewrites nothing and waits for nothing, greedy merges the \
     level into the next one first, lazy waits until the level has been emptied (level 0: flexible).",
)
.experiment();
/// B.
pub static BLOCK_BYTES: Knob = Knob::new(
    KnobId::Tree(TreeKnob::Layout(LayoutKnob::BlockBytes)),
    "block_bytes",
    Scope::Level,
    Legal::Whole { min: BLOCK_BYTES_MIN as u64, max: BLOCK_BYTES_MAX as u64 },
)
.unit("bytes")
.with(
    "4096",
    TABLES_TO_COME,
    "B: size of a block, the unit of reading and caching. Large: fast scans; small: fast lookups.",
);
/// How the block of a key is found.
pub static INDEX: Knob = Knob::new(
    KnobId::Tree(TreeKnob::Layout(LayoutKnob::Index)),
    "index",
    Scope::Level,
    Legal::Names(&IndexKind::NAMES),
)
.with("learned", TABLES_TO_COME, "How the block of a key is found.");
/// ε.
pub static EPSILON: Knob = Knob::new(
    KnobId::Tree(TreeKnob::Layout(LayoutKnob::Epsilon)),
    "epsilon",
    Scope::Level,
    Legal::Whole { min: 1, max: EPSILON_MAX as u64 },
)
.unit("entries")
.with("64", TABLES_TO_COME, "ε: how far a key may lie from its model's line (doblix-pla, sherry-plr).");
/// Bits of filter for a key.
pub static FILTER_BITS_PER_KEY: Knob = Knob::new(
    KnobId::Tree(TreeKnob::Layout(LayoutKnob::FilterBitsPerKey)),
    "filter_bits_per_key",
    Scope::Level,
    Legal::ZeroOr { min: 1.0, max: BITS_PER_KEY_MAX as f64 },
)
.unit("bits")
.with(
    "10",
    TABLES_TO_COME,
    "M_f: filter for every key. Each bit spares absent keys 38 % of the blocks read in vain.",
);
/// From how many bytes on values are kept apart.
pub static SEPARATE_FROM: Knob = Knob::new(
    KnobId::Tree(TreeKnob::SeparateFrom),
    "separate_from",
    Scope::Keyspace,
    Legal::Whole { min: 1, max: SEPARATE_NONE as u64 },
)
.unit("bytes")
.with(
    "4294967295: none is",
    "by the values written from then on; by others when a conversion or a compaction of all comes to them",
    "A value of at least so many bytes is kept apart from its entry: written once, and never moved by merges.",
)
.experiment();
/// M_b.
pub static WRITE_BUFFER_PERCENT: Knob = Knob::new(
    KnobId::Memory(MemoryKnob::WriteBufferPercent),
    "write_buffer_percent",
    Scope::Database,
    Legal::Real { min: 0.0, max: 100.0 },
)
.unit(PERCENT)
.with(
    "four buffers of 1/16 of the budget (1/32 from 16 to 32 MiB), at most 32 MiB each",
    "with the next write: a buffer over its size is then full",
    "M_b: memory for write buffers; one of them is a quarter of it.",
);
/// M_f.
pub static FILTER_PERCENT: Knob = Knob::new(
    KnobId::Memory(MemoryKnob::FilterPercent),
    "filter_percent",
    Scope::Database,
    Legal::Real { min: 0.0, max: 100.0 },
)
.unit(PERCENT)
.with(
    "what the others leave",
    TABLES_TO_COME,
    "M_f: most that filters may take; keys get fewer bits if filter_bits_per_key would take more.",
);
/// M_c.
pub static CACHE_PERCENT: Knob = Knob::new(
    KnobId::Memory(MemoryKnob::CachePercent),
    "cache_percent",
    Scope::Database,
    Legal::Real { min: CACHE_PERCENT_MIN, max: 100.0 },
)
.unit(PERCENT)
.with(
    "what the others leave",
    "at once",
    "M_c: most that the block cache may take. It yields to what write buffers and tables take.",
);

/// The description of a knob.
pub fn describe(id: KnobId) -> &'static Knob {
    match id {
        KnobId::Tree(TreeKnob::SizeRatio) => &SIZE_RATIO,
        KnobId::Tree(TreeKnob::RunLimit) => &RUN_LIMIT,
        KnobId::Tree(TreeKnob::Level0Patience) => &LEVEL0_PATIENCE,
        KnobId::Tree(TreeKnob::Transition) => &TRANSITION,
        KnobId::Tree(TreeKnob::SeparateFrom) => &SEPARATE_FROM,
        KnobId::Tree(TreeKnob::Layout(LayoutKnob::BlockBytes)) => &BLOCK_BYTES,
        KnobId::Tree(TreeKnob::Layout(LayoutKnob::Index)) => &INDEX,
        KnobId::Tree(TreeKnob::Layout(LayoutKnob::Epsilon)) => &EPSILON,
        KnobId::Tree(TreeKnob::Layout(LayoutKnob::FilterBitsPerKey)) => &FILTER_BITS_PER_KEY,
        KnobId::Memory(MemoryKnob::WriteBufferPercent) => &WRITE_BUFFER_PERCENT,
        KnobId::Memory(MemoryKnob::FilterPercent) => &FILTER_PERCENT,
        KnobId::Memory(MemoryKnob::CachePercent) => &CACHE_PERCENT,
    }
}

/// All knobs, in the order of their numbers.
pub fn all() -> impl Iterator<Item = &'static Knob> {
    KnobId::ALL.iter().map(|id| describe(*id))
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
            assert_eq!((find(knob.name).unwrap(), describe(knob.id)), (knob, knob));
            let is_of_database = matches!(knob.id, KnobId::Memory(_));
            assert_eq!(is_of_database, knob.scope == Scope::Database, "{}", knob.name);
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

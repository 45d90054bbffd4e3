//! What every knob is set to, and what it may be set to now: `Ranges`, a list of `Range`.
//!
//! `ranges` goes through all knobs of the database, of each keyspace, and of each level where a
//! knob has levels. `find` picks one.
//!
//! What must hold: what is listed as legal is what `control::check` would take, if nothing else is
//! changed with it. It asks the same functions (`legal_of_tree`, `deepest_level`).
//!
//! Callers: `Control::ranges`, and so `solera control get`, `solera-sim` and tuners;
//! `control::observe` takes settings from it.

use super::check::{deepest_level, legal_of_tree};
use crate::{
    engine::{Core, descriptions},
    knob::{Knob, KnobId, Legal, Scope, Value},
};

/// Every knob of a database at one moment.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Ranges {
    /// The knobs of the database, then those of each keyspace, for all its levels and then level by
    /// level.
    pub ranges: Vec<Range>,
}

/// One knob, for the database, one keyspace, or one level.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Range {
    /// The knob.
    pub knob: &'static Knob,
    /// The keyspace; `None` for a knob of the database.
    pub keyspace: Option<String>,
    /// The level; `None` for what holds for all that have nothing of their own.
    pub level: Option<u32>,
    /// What it is now.
    pub value: Value,
    /// What it may be set to, if nothing else is changed with it.
    pub legal: Legal,
    /// Whether it was set, rather than given at an open or by default.
    pub is_set: bool,
}

impl Ranges {
    /// The range of `knob` in `keyspace` (of no meaning for a knob of the database), for `level`.
    pub fn find(&self, knob: &Knob, keyspace: &str, level: Option<u32>) -> Option<&Range> {
        let is_meant = |range: &&Range| {
            range.knob == knob
                && range.level == level
                && range.keyspace.as_deref().is_none_or(|name| name == keyspace)
        };
        self.ranges.iter().find(is_meant)
    }
}

pub(super) fn ranges(core: &Core) -> Ranges {
    let assignments = core.store.assignments();
    let (split, trees) = (assignments.split(), core.trees());
    let mut ranges = Vec::new();
    for knob in descriptions::all() {
        let KnobId::Memory(id) = knob.id else { continue };
        let (value, legal) = (split.get(id, &core.memory.budget), split.legal(id, &core.memory.budget));
        let is_set = assignments.is_set(None, knob.id, None);
        ranges.push(Range { knob, keyspace: None, level: None, value, legal, is_set });
    }
    for tree in trees {
        let view = tree.view_owned();
        for knob in descriptions::all() {
            let KnobId::Tree(id) = knob.id else { continue };
            let levels = if knob.scope == Scope::Level { deepest_level(&view) + 1 } else { 0 };
            for level in std::iter::once(None).chain((0..levels).map(Some)) {
                let value = view.settings.get(id, level);
                let legal = legal_of_tree(&view.settings, id, level);
                let (keyspace, is_set) =
                    (Some(tree.name.clone()), assignments.is_set(Some(tree.id), knob.id, level));
                ranges.push(Range { knob, keyspace, level, value, legal, is_set });
            }
        }
    }
    Ranges { ranges }
}

//! What every knob is set to, and what it may be set to now.

use crate::{
    db::{Core, Split},
    knob::{Knob, Legal, Scope, Value},
    tree::{Settings, View},
    version::LEVELS_MAX,
};

/// Every knob of a database at one moment.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Ranges {
    /// The knobs of the database, then those of each keyspace, for all its levels and then level by level.
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

/// The deepest level that can be spoken of: the one below the deepest that ever held anything, or the last that
/// the shape names.
pub(super) fn deepest_level(view: &View) -> u32 {
    let named = view.settings.shape.run_limits.len() as u32 - 1;
    (view.version.levels().len() as u32).max(named).clamp(1, LEVELS_MAX - 1)
}

pub(super) fn ranges(core: &Core) -> Ranges {
    let knobs = core.knobs();
    let mut ranges = Vec::new();
    let split = knobs.split();
    for knob in Split::KNOBS {
        let (value, legal) = (split.setting(knob, &core.options), split.legal(knob, &core.options));
        let is_set = knobs.is_set(None, knob, None);
        ranges.push(Range { knob, keyspace: None, level: None, value, legal, is_set });
    }
    for tree in core.trees() {
        let view = tree.view_owned();
        for knob in Settings::knobs() {
            let levels = if knob.scope == Scope::Level { deepest_level(&view) + 1 } else { 0 };
            for level in std::iter::once(None).chain((0..levels).map(Some)) {
                let Some(value) = view.settings.setting(knob, level) else { continue };
                let (keyspace, legal) = (Some(tree.name.clone()), view.settings.legal(knob, level));
                let is_set = knobs.is_set(Some(tree.id), knob, level);
                ranges.push(Range { knob, keyspace, level, value, legal, is_set });
            }
        }
    }
    Ranges { ranges }
}

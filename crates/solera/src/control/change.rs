//! A change of knobs: put together by whoever wants it, then made as a whole or refused.

use super::{knob, ranges::deepest_level};
use crate::{
    db::{Core, DEFAULT_KEYSPACE, knobs::Knobs},
    error::{Error, Result},
    knob::{Knob, Scope, Value},
    tree::{Settings, Tree},
    version::{Changed, LEVELS_MAX, Receipt, Turned},
};
use std::sync::Arc;

/// Longest name of who makes a change, in bytes.
pub const WHO_BYTES_MAX: usize = 64;
/// Longest reason, in bytes: the history is part of every manifest.
pub const WHY_BYTES_MAX: usize = 400;
/// Most knobs that one change sets.
const ITEMS_MAX: usize = 256;

/// What to set, and why. Made by [`Control::apply`](super::Control::apply).
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    who: String,
    why: String,
    keyspace: String,
    items: Vec<Item>,
}

#[derive(Clone, Debug, PartialEq)]
struct Item {
    keyspace: String,
    knob: String,
    level: Option<u32>,
    /// `None`: what it would be had nobody set it.
    value: Option<Value>,
}

impl Change {
    /// A change that sets nothing yet, by `who` (at most 64 bytes), because `why` (at most 400 bytes).
    pub fn new(who: impl Into<String>, why: impl Into<String>) -> Change {
        Change { who: who.into(), why: why.into(), keyspace: DEFAULT_KEYSPACE.into(), items: Vec::new() }
    }

    /// What follows concerns this keyspace; without it, the default one.
    pub fn keyspace(mut self, name: &str) -> Change {
        self.keyspace = name.into();
        self
    }

    /// Sets `knob`, one of [`control::knob`](super::knob) or the name of one, for the database or the keyspace. For a
    /// knob that levels have, this ends what was set for single levels.
    pub fn set(self, knob: impl AsRef<str>, value: impl Into<Value>) -> Change {
        self.with(knob.as_ref(), None, Some(value.into()))
    }

    /// Sets `knob` for one level.
    pub fn set_level(self, knob: impl AsRef<str>, level: u32, value: impl Into<Value>) -> Change {
        self.with(knob.as_ref(), Some(level), Some(value.into()))
    }

    /// Makes `knob`, for one level or in all, what it would be had nobody set it.
    pub fn reset(self, knob: impl AsRef<str>, level: Option<u32>) -> Change {
        self.with(knob.as_ref(), level, None)
    }

    fn with(mut self, knob: &str, level: Option<u32>, value: Option<Value>) -> Change {
        self.items.push(Item { keyspace: self.keyspace.clone(), knob: knob.into(), level, value });
        self
    }

    pub(super) fn apply(self, core: &Core) -> Result<Receipt> {
        for (what, text, limit) in [("who", &self.who, WHO_BYTES_MAX), ("why", &self.why, WHY_BYTES_MAX)] {
            if text.len() > limit {
                let len = text.len();
                return Err(Error::Invalid(format!("{what} has {len} bytes; it must have 0 to {limit}")));
            }
        }
        if !(1..=ITEMS_MAX).contains(&self.items.len()) {
            let count = self.items.len();
            return Err(Error::Invalid(format!("a change sets {count} knobs; it must set 1 to {ITEMS_MAX}")));
        }
        for (at, item) in self.items.iter().enumerate() {
            if self.items[..at].iter().any(|other| other.is_of_same(item)) {
                let knob = &item.knob;
                return Err(Error::Invalid(format!(
                    "{knob} is set twice in one change; it must be set once"
                )));
            }
        }
        core.change_knobs(|knobs| self.decide(core, knobs))
    }

    /// What to record if all of it is legal.
    fn decide(&self, core: &Core, knobs: &Knobs) -> Result<(Vec<Turned>, Receipt)> {
        let items = self.items.iter().map(|item| item.resolve(core, knobs)).collect::<Result<Vec<_>>>()?;
        let mut after = knobs.clone();
        items.iter().for_each(|item| after.turn(item.turned()));
        let mut changed = Vec::with_capacity(items.len());
        for item in &items {
            let (old, new) = match &item.tree {
                None => {
                    let (before, after) = (knobs.split(), after.split());
                    after.validate(&before, &core.options)?;
                    (before.setting(item.knob, &core.options), after.setting(item.knob, &core.options))
                }
                Some(tree) => {
                    let before = tree.view().settings.setting(item.knob, item.level);
                    let wanted = core.settings_of(&after, tree);
                    let after = wanted.setting(item.knob, item.level);
                    let named = |value: Option<Value>| value.unwrap_or_else(|| "".into());
                    (named(before), named(after))
                }
            };
            changed.push(item.changed(item.level, &old, &new));
            if let (Some(tree), Scope::Level, None) = (&item.tree, item.knob.scope, item.level) {
                // What single levels had of their own ends, unless they are given something else.
                let (before, after) = (&tree.view().settings, core.settings_of(&after, tree));
                let is_named = |level: u32| {
                    items.iter().any(|other| {
                        (other.knob, other.level) == (item.knob, Some(level))
                            && other.tree.as_ref().is_some_and(|of| Arc::ptr_eq(of, tree))
                    })
                };
                for level in (0..LEVELS_MAX).filter(|level| !is_named(*level)) {
                    let of = |settings: &Settings| settings.setting(item.knob, Some(level));
                    if let (Some(own), Some(now)) = (of(before), of(&after))
                        && own != old
                        && own != now
                    {
                        changed.push(item.changed(Some(level), &own, &now));
                    }
                }
            }
        }
        validate_trees(core, &after, &items)?;
        let receipt = Receipt { who: self.who.clone(), why: self.why.clone(), changed, ..Receipt::default() };
        Ok((items.iter().map(Resolved::turned).collect(), receipt))
    }
}

/// An item whose words are known.
struct Resolved<'c> {
    knob: &'static Knob,
    /// `None` for a knob of the database.
    tree: Option<Arc<Tree>>,
    level: Option<u32>,
    value: &'c Option<Value>,
}

impl Item {
    /// Whether both set the same knob of the same keyspace and level.
    fn is_of_same(&self, other: &Item) -> bool {
        (&self.keyspace, &self.knob, self.level) == (&other.keyspace, &other.knob, other.level)
    }

    fn resolve(&self, core: &Core, knobs: &Knobs) -> Result<Resolved<'_>> {
        let knob = knob::find(&self.knob)?;
        if self.level.is_some() && knob.scope != Scope::Level {
            let scope = knob.scope.name();
            return Err(Error::Invalid(format!("{} is set for a {scope}, not for a level", knob.name)));
        }
        let tree = match knob.scope {
            Scope::Database => None,
            Scope::Keyspace | Scope::Level => {
                let tree = core.catalog.read().by_name.get(&self.keyspace).cloned();
                Some(tree.ok_or_else(|| Error::NoKeyspace(self.keyspace.clone()))?)
            }
        };
        if let (Some(tree), Some(level)) = (&tree, self.level) {
            let deepest = deepest_level(&tree.view());
            if level > deepest {
                return Err(Error::Invalid(format!(
                    "{} of level {level} of keyspace {:?}: the levels are 0 to {deepest}",
                    knob.name, tree.name
                )));
            }
        }
        if let Some(value) = self.value.as_ref().filter(|value| !knob.legal.admits(value)) {
            // It can never be legal; what is, is what it could be now.
            let legal = match &tree {
                None => knobs.split().legal(knob, &core.options),
                Some(tree) => tree.view().settings.legal(knob, self.level),
            };
            knob.check(&legal, value)?;
        }
        Ok(Resolved { knob, tree, level: self.level, value: &self.value })
    }
}

impl Resolved<'_> {
    fn changed(&self, level: Option<u32>, old: &Value, new: &Value) -> Changed {
        Changed {
            keyspace: self.tree.as_ref().map(|tree| tree.name.clone()).unwrap_or_default(),
            knob: self.knob.name.into(),
            level,
            old: old.to_string(),
            new: new.to_string(),
        }
    }

    fn turned(&self) -> Turned {
        Turned {
            keyspace: self.tree.as_ref().map(|tree| tree.id),
            knob: self.knob.name.into(),
            level: self.level,
            value: self.value.as_ref().map(Value::to_string),
        }
    }
}

/// Whether what the trees are to be kept like is legal as a whole. What they are kept like now is; a knob that
/// was set for what a keyspace was given then, and is too much for what it is given now, stands in nobody's way.
fn validate_trees(core: &Core, after: &Knobs, items: &[Resolved<'_>]) -> Result<()> {
    for (at, item) in items.iter().enumerate() {
        let Some(tree) = &item.tree else { continue };
        let is_of_tree = |item: &&Resolved<'_>| item.tree.as_ref().is_some_and(|other| other.id == tree.id);
        if items[..at].iter().any(|item| is_of_tree(&item)) {
            continue;
        }
        let kept = core.settings_of(after, tree);
        let mut wanted = (*tree.view().settings).clone();
        for item in items.iter().filter(is_of_tree) {
            let value = item.value.clone().or_else(|| kept.setting(item.knob, item.level));
            if let Some(value) = value {
                wanted.set(item.knob, item.level, &value)?;
            }
        }
        wanted.validate()?;
    }
    Ok(())
}

//! Whether a change of knobs is legal: `check`, which gives a `Checked`.
//!
//! It looks at texts and counts, then whether the newest change is the expected one, then at each
//! item by itself. Last come all of them together: the split of memory, then each tree.
//! `legal_of_tree` says what a knob may be while all else stays; `deepest_level` which levels can
//! be spoken of.
//!
//! What must hold: it is a function of the change, of what was set so far, and of the trees.
//! `Changing` holds the store lock from before the check until the change is in force. An error
//! says what is legal, or which change came first. What comes out is recorded and obeyed without
//! another question. A later open passes over what it could not set (`engine::assignments`).
//!
//! Callers: `Control::apply` calls `check`, with the `Changing` of `engine::change`;
//! `control::ranges` asks `legal_of_tree` and `deepest_level`.

use super::change::{Change, Item, TAG_BYTES_MAX, WHO_BYTES_MAX, WHY_BYTES_MAX};
use crate::{
    engine::{Split, assignments::Assignments, change::Changing, descriptions},
    error::{Error, Result},
    knob::{Knob, KnobId, Legal, MemoryKnob, Scope, TreeKnob, Value},
    tree::{Settings, Tree, View},
    version::{Assignment, Changed, LEVELS_MAX, Receipt},
};
use std::sync::Arc;

/// Most knobs that one change sets.
const ITEMS_MAX: usize = 256;

/// A change that is legal: what to record and to obey.
pub(super) struct Checked {
    /// The values.
    pub(super) assignments: Vec<Assignment>,
    /// What the history will say, but for number and time.
    pub(super) receipt: Receipt,
}

/// An item whose words are known: a knob of the database, or of a tree.
struct Resolved<'c> {
    knob: &'static Knob,
    of: Of,
    level: Option<u32>,
    value: &'c Option<Value>,
}

/// Whose knob is set.
enum Of {
    Memory(MemoryKnob),
    Tree(TreeKnob, Arc<Tree>),
}

/// What a knob of a tree may be set to while all else stays as it is.
pub(super) fn legal_of_tree(settings: &Settings, knob: TreeKnob, level: Option<u32>) -> Legal {
    match settings.narrowed(knob, level) {
        Some(range) => Legal::Whole { min: (*range.start()).into(), max: (*range.end()).into() },
        None => descriptions::describe(KnobId::Tree(knob)).legal.clone(),
    }
}

/// The deepest level that can be spoken of: the one below the deepest that ever held anything, or
/// the last that the shape names.
pub(super) fn deepest_level(view: &View) -> u32 {
    let named = view.settings.shape.run_limits.len() as u32 - 1;
    (view.version.levels().len() as u32).max(named).clamp(1, LEVELS_MAX - 1)
}

/// What to record if all of the change is legal.
///
/// # Errors
/// [`Error::Outdated`], [`Error::NoKeyspace`], and [`Error::Invalid`] with what is legal.
pub(super) fn check(change: &Change, now: &Changing<'_>) -> Result<Checked> {
    check_form(change)?;
    check_newest(change, now.assignments())?;
    let items = change.items.iter().map(|item| resolve(item, now)).collect::<Result<Vec<_>>>()?;
    let assignments: Vec<Assignment> = items.iter().map(Resolved::assignment).collect();
    let mut after = now.assignments().clone();
    assignments.iter().for_each(|assignment| after.assign(assignment.clone()));
    after.split().validate(&now.assignments().split(), now.budget())?;
    let mut changed = Vec::with_capacity(items.len());
    for item in &items {
        match &item.of {
            Of::Memory(knob) => {
                let of = |split: Split| split.get(*knob, now.budget());
                changed.push(item.changed(None, &of(now.assignments().split()), &of(after.split())));
            }
            Of::Tree(knob, tree) => changed.extend(changes_of_tree(item, *knob, tree, &items, now, &after)),
        }
    }
    check_trees(&items, now, &after)?;
    let (who, why, tag) = (change.who.clone(), change.why.clone(), change.tag.clone());
    Ok(Checked { assignments, receipt: Receipt { who, why, tag, changed, ..Receipt::default() } })
}

/// Texts, the count of items, and that none is there twice.
fn check_form(change: &Change) -> Result<()> {
    for (what, text, limit) in [
        ("who", &change.who, WHO_BYTES_MAX),
        ("why", &change.why, WHY_BYTES_MAX),
        ("tag", &change.tag, TAG_BYTES_MAX),
    ] {
        if text.len() > limit {
            let len = text.len();
            return Err(Error::Invalid(format!("{what} has {len} bytes; it must have 0 to {limit}")));
        }
    }
    let items = &change.items;
    if !(1..=ITEMS_MAX).contains(&items.len()) {
        let count = items.len();
        return Err(Error::Invalid(format!("a change sets {count} knobs; it must set 1 to {ITEMS_MAX}")));
    }
    let place = |item: &Item| (item.keyspace.clone(), item.knob.clone(), item.level);
    for (at, item) in items.iter().enumerate() {
        if items[..at].iter().any(|other| place(other) == place(item)) {
            let knob = &item.knob;
            return Err(Error::Invalid(format!("{knob} is set twice in one change; it must be set once")));
        }
    }
    Ok(())
}

/// That the newest change is the one that was to be the newest.
fn check_newest(change: &Change, assignments: &Assignments) -> Result<()> {
    let last = assignments.history().next_back();
    let (newest, who) = last.map_or((0, ""), |last| (last.number, &*last.who));
    match change.newest {
        Some(expected) if expected != newest => {
            Err(Error::Outdated { expected, newest, who: who.to_owned() })
        }
        _ => Ok(()),
    }
}

fn tree_named(name: &str, now: &Changing<'_>) -> Result<Arc<Tree>> {
    now.tree(name).ok_or_else(|| Error::NoKeyspace(name.to_owned()))
}

/// Looks the words of an item up, and checks it by itself.
fn resolve<'c>(item: &'c Item, now: &Changing<'_>) -> Result<Resolved<'c>> {
    let knob = descriptions::find(&item.knob)?;
    if item.level.is_some() && knob.scope != Scope::Level {
        let scope = knob.scope.name();
        return Err(Error::Invalid(format!("{} is set for a {scope}, not for a level", knob.name)));
    }
    let of = match knob.id {
        KnobId::Memory(id) => Of::Memory(id),
        KnobId::Tree(id) => Of::Tree(id, tree_named(&item.keyspace, now)?),
    };
    if let (Of::Tree(_, tree), Some(level)) = (&of, item.level) {
        let deepest = deepest_level(&tree.view());
        if level > deepest {
            return Err(Error::Invalid(format!(
                "{} of level {level} of keyspace {:?}: the levels are 0 to {deepest}",
                knob.name, tree.name
            )));
        }
    }
    if let Some(value) = item.value.as_ref().filter(|value| !knob.legal.admits(value)) {
        // It can never be legal; what is, is what it could be now.
        let legal = match &of {
            Of::Memory(id) => now.assignments().split().legal(*id, now.budget()),
            Of::Tree(id, tree) => legal_of_tree(&tree.view().settings, *id, item.level),
        };
        return Err(Error::Invalid(format!("{} is {value}; it must be {legal}", knob.name)));
    }
    Ok(Resolved { knob, of, level: item.level, value: &item.value })
}

impl Resolved<'_> {
    fn tree(&self) -> Option<&Arc<Tree>> {
        match &self.of {
            Of::Memory(_) => None,
            Of::Tree(_, tree) => Some(tree),
        }
    }

    fn changed(&self, level: Option<u32>, old: &Value, new: &Value) -> Changed {
        Changed {
            keyspace: self.tree().map(|tree| tree.name.clone()).unwrap_or_default(),
            knob: self.knob.name.into(),
            level,
            old: old.to_string(),
            new: new.to_string(),
        }
    }

    fn assignment(&self) -> Assignment {
        Assignment {
            keyspace: self.tree().map(|tree| tree.id),
            knob: self.knob.id.number(),
            level: self.level,
            value: self.value.as_ref().map(Value::to_string),
        }
    }
}

/// What an item changes in its tree: the knob itself, and what single levels had of their own that
/// it ends.
fn changes_of_tree(
    item: &Resolved<'_>,
    knob: TreeKnob,
    tree: &Arc<Tree>,
    items: &[Resolved<'_>],
    now: &Changing<'_>,
    after: &Assignments,
) -> Vec<Changed> {
    let (before, after) = (tree.view().settings.clone(), after.settings_of(tree, now.budget()));
    let (old, new) = (before.get(knob, item.level), after.get(knob, item.level));
    let mut changed = vec![item.changed(item.level, &old, &new)];
    if item.knob.scope != Scope::Level || item.level.is_some() {
        return changed;
    }
    let is_named = |level: u32| {
        items.iter().any(|other| {
            (other.knob, other.level) == (item.knob, Some(level))
                && other.tree().is_some_and(|of| Arc::ptr_eq(of, tree))
        })
    };
    for level in (0..LEVELS_MAX).filter(|level| !is_named(*level)) {
        let (own, now) = (before.get(knob, Some(level)), after.get(knob, Some(level)));
        if own != old && own != now {
            changed.push(item.changed(Some(level), &own, &now));
        }
    }
    changed
}

/// Whether what the trees are to be kept like is legal as a whole. What they are kept like now is.
/// A knob that was set for what a keyspace was given then may be too much for what it is given now;
/// it blocks no change.
fn check_trees(items: &[Resolved<'_>], now: &Changing<'_>, after: &Assignments) -> Result<()> {
    for (at, item) in items.iter().enumerate() {
        let Some(tree) = item.tree() else { continue };
        let is_of_tree = |item: &&Resolved<'_>| item.tree().is_some_and(|other| other.id == tree.id);
        if items[..at].iter().any(|item| is_of_tree(&item)) {
            continue;
        }
        let kept = after.settings_of(tree, now.budget());
        let mut wanted = (*tree.view().settings).clone();
        for item in items.iter().filter(is_of_tree) {
            if let Of::Tree(knob, _) = item.of {
                let value = item.value.clone().unwrap_or_else(|| kept.get(knob, item.level));
                wanted.set(knob, item.level, &value);
            }
        }
        wanted.validate()?;
    }
    Ok(())
}

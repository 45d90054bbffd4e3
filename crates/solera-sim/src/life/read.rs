//! Reads in both worlds: how `World` does `get`, `multi_get`, `scan` and `open_walker`, and
//! compares.
//!
//! The same call goes to a keyspace, a snapshot or a transaction (`on_view`) and to the oracle. A
//! transaction's reads are noted in the oracle too; `passed` says what part of a range a walk has
//! passed.
//!
//! What must hold: both answer alike, of a keyspace that is there. From a dropped one, point reads
//! must be refused; walks are not tried. An empty slot ends the operation. A transaction has no
//! walkers and no copying reads.
//!
//! Caller: `life::world`, for each operation that reads.

use super::{
    iterate::{Pair, Walker, scan, scan_keys},
    shown, shown_option,
    world::{Asked, Checked, Refusal, World, succeeded},
};
use crate::{
    oracle::Ends,
    script::{Bounds, View, text::Bytes},
};
use std::ops::Bound;

/// A method with the same name on a keyspace, a snapshot and a transaction. Empty slots end the
/// operation.
macro_rules! on_view {
    ($world:ident, $view:expr, $space:expr, $method:ident($($argument:expr),*)) => {{
        let Some(handle) = &$world.handles[$space] else { return Ok(()) };
        match $view {
            View::Live {} => handle.$method($($argument),*),
            View::Snapshot { slot } => match &$world.snapshots[usize::from(*slot)] {
                Some(pinned) => pinned.engine.$method(handle, $($argument),*),
                None => return Ok(()),
            },
            View::Transaction { slot } => match &mut $world.transactions[usize::from(*slot)] {
                Some(open) => open.engine.$method(handle, $($argument),*),
                None => return Ok(()),
            },
        }
    }};
}

impl World {
    /// What the oracle answers; a transaction notes the read.
    fn model_get(&mut self, view: &View, space: usize, key: &[u8]) -> Option<Vec<u8>> {
        match view {
            View::Live {} => self.oracle.get(space, key, self.oracle.moment()),
            View::Snapshot { slot } => {
                let moment = self.snapshots[usize::from(*slot)].as_ref()?.moment;
                self.oracle.get(space, key, moment)
            }
            View::Transaction { slot } => {
                let open = self.transactions[usize::from(*slot)].as_mut()?;
                self.oracle.get_in(&mut open.model, space, key)
            }
        }
    }

    fn model_scan(&self, view: &View, space: usize, bounds: &Bounds) -> Vec<Pair> {
        let (start, end) = bounds.ends();
        let range = (start.as_ref().map(|key| &key[..]), end.as_ref().map(|key| &key[..]));
        match view {
            View::Live {} => self.oracle.scan(space, range, self.oracle.moment()),
            View::Snapshot { slot } => match &self.snapshots[usize::from(*slot)] {
                Some(pinned) => self.oracle.scan(space, range, pinned.moment),
                None => Vec::new(),
            },
            View::Transaction { slot } => match &self.transactions[usize::from(*slot)] {
                Some(open) => self.oracle.scan_in(&open.model, space, range),
                None => Vec::new(),
            },
        }
    }

    pub(super) fn get(&mut self, view: &View, space: usize, key: &Bytes, asked: Asked) -> Checked {
        if !self.oracle.has(space) {
            let refused = on_view!(self, view, space, get(key));
            return Refusal::NoKeyspace.expected(refused);
        }
        let found: Option<Vec<u8>> = match asked {
            Asked::Value => succeeded(on_view!(self, view, space, get(key)))?.map(|value| value.to_vec()),
            Asked::Copy if matches!(view, View::Transaction { .. }) => return Ok(()),
            Asked::Copy => {
                // What the buffer held before must not matter.
                let mut buffer = b"stale".to_vec();
                let there = match (view, &self.handles[space]) {
                    (_, None) => return Ok(()),
                    (View::Snapshot { slot }, Some(handle)) => match &self.snapshots[usize::from(*slot)] {
                        Some(pinned) => pinned.engine.get_into(handle, key, &mut buffer),
                        None => return Ok(()),
                    },
                    (_, Some(handle)) => handle.get_into(key, &mut buffer),
                };
                succeeded(there)?.then_some(buffer)
            }
            Asked::Presence => {
                let there = succeeded(on_view!(self, view, space, contains_key(key)))?;
                let expected = self.model_get(view, space, key).is_some();
                self.digest.add(&[u8::from(there)]);
                return if there == expected { Ok(()) } else { Err(format!("{there}, expected {expected}")) };
            }
        };
        let expected = self.model_get(view, space, key);
        self.digest.add(found.as_deref().unwrap_or(b"nothing"));
        if found == expected {
            return Ok(());
        }
        Err(format!(
            "found {}, expected {}",
            shown_option(found.as_deref()),
            shown_option(expected.as_deref())
        ))
    }

    pub(super) fn multi_get(&mut self, view: &View, space: usize, keys: &[Bytes]) -> Checked {
        let Some(handle) = &self.handles[space] else { return Ok(()) };
        let found = match view {
            View::Live {} => handle.multi_get(keys),
            View::Snapshot { slot } => match &self.snapshots[usize::from(*slot)] {
                Some(pinned) => pinned.engine.multi_get(handle, keys),
                None => return Ok(()),
            },
            View::Transaction { .. } => {
                return keys.iter().try_for_each(|key| self.get(view, space, key, Asked::Value));
            }
        };
        if !self.oracle.has(space) {
            return Refusal::NoKeyspace.expected(found);
        }
        let found = succeeded(found)?;
        if found.len() != keys.len() {
            return Err(format!("{} answers for {} keys", found.len(), keys.len()));
        }
        for (key, found) in keys.iter().zip(found) {
            let expected = self.model_get(view, space, key);
            self.digest.add(found.as_deref().unwrap_or(b"nothing"));
            if found.as_deref() != expected.as_deref() {
                let (found, expected) = (shown_option(found.as_deref()), shown_option(expected.as_deref()));
                return Err(format!("{}: found {found}, expected {expected}", shown(key)));
            }
        }
        Ok(())
    }

    pub(super) fn scan(
        &mut self,
        view: &View,
        space: usize,
        bounds: &Bounds,
        backward: bool,
        keys_only: bool,
        limit: usize,
    ) -> Checked {
        if !self.oracle.has(space) {
            return Ok(());
        }
        let expected = self.model_scan(view, space, bounds);
        let digest = &mut self.digest;
        let Some(handle) = &self.handles[space] else { return Ok(()) };
        let (start, end) = bounds.ends();
        let ends = (start.as_ref().map(|key| &key[..]), end.as_ref().map(|key| &key[..]));
        let engine = match view {
            View::Live {} => match bounds {
                Bounds::All {} => handle.iter(),
                Bounds::Prefix { prefix } => handle.prefix(prefix),
                Bounds::Range { .. } => handle.range(ends),
            },
            View::Snapshot { slot } => match (&self.snapshots[usize::from(*slot)], bounds) {
                (None, _) => return Ok(()),
                (Some(pinned), Bounds::All {}) => pinned.engine.iter(handle),
                (Some(pinned), Bounds::Prefix { prefix }) => pinned.engine.prefix(handle, prefix),
                (Some(pinned), Bounds::Range { .. }) => pinned.engine.range(handle, ends),
            },
            View::Transaction { slot } => {
                let Some(open) = &mut self.transactions[usize::from(*slot)] else { return Ok(()) };
                let engine = match bounds {
                    Bounds::All {} => open.engine.iter(handle),
                    Bounds::Prefix { prefix } => open.engine.prefix(handle, prefix),
                    Bounds::Range { .. } => open.engine.range(handle, ends),
                };
                let yielded = scan(engine, &expected, backward, limit, digest)?;
                if limit > 0 {
                    let passed = passed(&expected, yielded, yielded == limit, backward, bounds.ends());
                    self.oracle.walked(&mut open.model, space, passed, bounds.ends());
                }
                return Ok(());
            }
        };
        if keys_only {
            scan_keys(engine.keys(), &expected, backward, limit, digest)?;
        } else {
            scan(engine, &expected, backward, limit, digest)?;
        }
        Ok(())
    }

    pub(super) fn open_walker(&mut self, slot: u8, view: &View, space: usize, bounds: &Bounds) -> Checked {
        if !self.oracle.has(space) || matches!(view, View::Transaction { .. }) {
            return Ok(());
        }
        let Some(handle) = &self.handles[space] else { return Ok(()) };
        let (start, end) = bounds.ends();
        let ends = (start.as_ref().map(|key| &key[..]), end.as_ref().map(|key| &key[..]));
        let pinned = match view {
            View::Snapshot { slot } => match &self.snapshots[usize::from(*slot)] {
                None => return Ok(()),
                pinned => pinned.as_ref(),
            },
            _ => None,
        };
        let engine = match (pinned, bounds) {
            (None, Bounds::All {}) => handle.iter(),
            (None, Bounds::Prefix { prefix }) => handle.prefix(prefix),
            (None, Bounds::Range { .. }) => handle.range(ends),
            (Some(pinned), Bounds::All {}) => pinned.engine.iter(handle),
            (Some(pinned), Bounds::Prefix { prefix }) => pinned.engine.prefix(handle, prefix),
            (Some(pinned), Bounds::Range { .. }) => pinned.engine.range(handle, ends),
        };
        let pairs = self.model_scan(view, space, bounds);
        self.walkers[usize::from(slot)] = Some(Walker::new(space, engine, pairs));
        Ok(())
    }
}

/// The part of a range that a walk of `yielded` pairs has passed; `cut` if it did not go on to the
/// end.
fn passed(pairs: &[Pair], yielded: usize, cut: bool, backward: bool, asked: Ends) -> Ends {
    if !cut || yielded == 0 {
        return asked;
    }
    if backward {
        (Bound::Included(pairs[pairs.len() - yielded].0.clone()), asked.1)
    } else {
        (asked.0, Bound::Included(pairs[yielded - 1].0.clone()))
    }
}

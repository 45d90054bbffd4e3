//! One directory's names in memory, and which changes of them a power cut cannot take: `Directory`,
//! `NameChange`.
//!
//! `change` makes one atomic change (create, rename, remove, link); `sync` makes all changes
//! durable. `after_crash` gives the names that a power cut leaves, by a `Persist`. `ever` lists
//! files that were here lately, whose old blocks a new file may show.
//!
//! What must hold: `names` is `durable` with `pending` applied in order.
//!
//! Caller: `vfs::mem`, which has one for each directory.

use super::{Inode, Persist, Rng};
use std::collections::BTreeMap;

/// How many files that lost their last durable name are remembered for their blocks.
const FREED_MAX: usize = 4;

/// A directory, now and after its last sync.
#[derive(Default)]
pub(super) struct Directory {
    pub(super) names: BTreeMap<String, Inode>,
    pub(super) durable: BTreeMap<String, Inode>,
    /// Changes from `durable` to `names`, in order.
    pending: Vec<NameChange>,
    /// Files that were here, the latest last: their blocks may be given to others.
    freed: Vec<Inode>,
}

/// One atomic change of a directory.
pub(super) enum NameChange {
    Set(String, Inode),
    Remove(String),
    Rename(String, String, Inode),
}

impl NameChange {
    /// Applies the change; the file that lost its name by it, if one did.
    fn apply(&self, names: &mut BTreeMap<String, Inode>) -> Option<Inode> {
        match self {
            NameChange::Set(name, inode) => names.insert(name.clone(), inode.clone()),
            NameChange::Remove(name) => names.remove(name),
            NameChange::Rename(from, to, inode) => {
                names.remove(from);
                names.insert(to.clone(), inode.clone())
            }
        }
    }
}

impl Directory {
    pub(super) fn change(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.pending.push(change);
    }

    pub(super) fn sync(&mut self) {
        for change in self.pending.drain(..) {
            self.freed.extend(change.apply(&mut self.durable));
        }
        self.freed.drain(..self.freed.len().saturating_sub(FREED_MAX));
    }

    /// Every file that is here or was here lately.
    pub(super) fn ever(&self) -> impl Iterator<Item = &Inode> {
        self.durable.values().chain(self.names.values()).chain(&self.freed)
    }

    /// The same directory of copies of its files.
    pub(super) fn copied(&self, copy: &mut impl FnMut(&Inode) -> Inode) -> Directory {
        let mut all = |names: &BTreeMap<String, Inode>| {
            names.iter().map(|(name, inode)| (name.clone(), copy(inode))).collect()
        };
        let (names, durable) = (all(&self.names), all(&self.durable));
        let pending = self.pending.iter().map(|change| match change {
            NameChange::Set(name, inode) => NameChange::Set(name.clone(), copy(inode)),
            NameChange::Remove(name) => NameChange::Remove(name.clone()),
            NameChange::Rename(from, to, inode) => NameChange::Rename(from.clone(), to.clone(), copy(inode)),
        });
        let pending = pending.collect();
        Directory { names, durable, pending, freed: self.freed.iter().map(copy).collect() }
    }

    /// The names that a power cut leaves.
    pub(super) fn after_crash(&self, persist: Persist, rng: &mut Rng) -> BTreeMap<String, Inode> {
        let mut names = self.durable.clone();
        let drawn = rng.below(self.pending.len() as u64 + 1) as usize;
        for (nth, change) in self.pending.iter().enumerate() {
            let kept = match persist {
                Persist::Nothing | Persist::ContentBeforeNames => false,
                Persist::RandomPages(_) => rng.below(2) == 0,
                Persist::Torn => nth < drawn,
                Persist::LostName => nth != drawn % self.pending.len(),
                Persist::Everything
                | Persist::TornLastWrite
                | Persist::ZeroFilled
                | Persist::Garbage
                | Persist::Stale
                | Persist::FirstSector
                | Persist::SomeFiles
                | Persist::LostTruncation
                | Persist::NamesBeforeContent => true,
            };
            if kept {
                change.apply(&mut names);
            }
        }
        names
    }
}

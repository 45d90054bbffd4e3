//! The bytes of value files that no pointer leads to, shared out among keyspaces: `Garbage`; and
//! `space`, all that is told of a keyspace's bytes.
//!
//! A file that several keyspaces point to is the garbage of each by its part of what is live there.
//! Files that recovery needs are not counted: what is only in memtables points there too.
//!
//! What must hold: the caller says what a file holds, by opening it or as far as that is known. A
//! file of which it is not known counts as nothing.
//!
//! Callers: `report` (stats) and `control::observe`.

use super::store::Store;
use crate::{
    compaction::SpaceUse,
    ids::FileId,
    tree::Tree,
    values::{Live, LiveValues, ValueFile},
    version::Version,
};
use std::{collections::BTreeMap, sync::Arc};

/// What of the value files of a database is dead.
#[derive(Default)]
pub(crate) struct Garbage {
    files: BTreeMap<FileId, OfFile>,
}

/// Of one file.
#[derive(Clone, Copy, Default)]
struct OfFile {
    dead: u64,
    live: u64,
    is_sorted: bool,
}

impl Garbage {
    /// What is dead where `trees`, which are all, keep values. `space` tells what a file holds
    /// ([`ValueFile::space`]), if that is known.
    pub(crate) fn new(
        store: &Store,
        trees: &[Arc<Tree>],
        space: impl Fn(&ValueFile) -> Option<u64>,
    ) -> Garbage {
        let mut files: BTreeMap<FileId, OfFile> = BTreeMap::new();
        for tree in trees {
            for (file, of_tree) in tree.view().version.values().iter() {
                let of_file = files.entry(file).or_default();
                of_file.live += of_tree.bytes;
                of_file.is_sorted = of_tree.sorted;
            }
        }
        if files.is_empty() {
            return Garbage::default();
        }
        let needed = store.logs();
        files.retain(|file, _| !needed.contains(file));
        for (&file, of_file) in &mut files {
            let held = space(&store.files.values.file(file, of_file.is_sorted));
            of_file.dead = held.map_or(0, |held| held.saturating_sub(of_file.live));
        }
        Garbage { files }
    }

    /// The part of a keyspace whose tables point to `values`.
    fn of(&self, values: &LiveValues) -> u64 {
        let part = |(file, live): (FileId, &Live)| {
            let of_file = self.files.get(&file).copied().unwrap_or_default();
            let share = live.bytes as f64 / of_file.live.max(1) as f64;
            (of_file.dead as f64 * share.min(1.0)) as u64
        };
        values.iter().map(part).sum()
    }

    /// What the bytes of `tree`, as of `version`, are, and what compaction owes. `of_tables` is
    /// what its tables tell; nothing of a tree that was dropped.
    pub(crate) fn space(&self, tree: &Tree, version: &Version, of_tables: Option<SpaceUse>) -> SpaceUse {
        SpaceUse {
            value_garbage_bytes: self.of(version.values()),
            merged_bytes_per_second: tree.context.stats.pace().bytes_per_second(),
            ..of_tables.unwrap_or_default()
        }
    }
}

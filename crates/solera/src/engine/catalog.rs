//! The catalog: `Catalog`, which keyspaces there are, by name and by number, behind one lock.
//!
//! `check_name` refuses names that no keyspace may have; `look` shows `Keyspaces` while none comes
//! or goes. `DEFAULT_KEYSPACE` is here.
//!
//! What must hold: a number is given once and never again. Every tree is listed under its name and
//! its number. Once the database is open, `store` changes the catalog after the change is durable.
//!
//! Callers: `open` fills it, `store` changes it. Most of the engine reads it, such as `apply`,
//! `logs`, `memory`, `reads`, `report` and `tracing`. `db` and `change` ask for names.

use crate::{
    error::{Error, Result},
    ids::KeyspaceId,
    sync::RwLock,
    tree::Tree,
};
use std::{collections::BTreeMap, sync::Arc};

/// Name of the keyspace that every database has.
pub const DEFAULT_KEYSPACE: &str = "default";
/// Longest keyspace name, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// The keyspaces, behind their lock. A leaf in the order of locks.
pub(crate) struct Catalog {
    keyspaces: RwLock<Keyspaces>,
}

/// The keyspaces.
pub(super) struct Keyspaces {
    by_name: BTreeMap<String, Arc<Tree>>,
    by_id: BTreeMap<KeyspaceId, Arc<Tree>>,
    next_id: u32,
}

impl Keyspaces {
    /// The tree with this number.
    #[inline]
    pub(super) fn numbered(&self, id: KeyspaceId) -> Option<&Arc<Tree>> {
        self.by_id.get(&id)
    }

    /// All trees, by number.
    pub(super) fn trees(&self) -> impl Iterator<Item = &Arc<Tree>> {
        self.by_id.values()
    }
}

impl Catalog {
    /// An empty one, whose next keyspace has at least the number `next_id`.
    pub(super) fn new(next_id: u32) -> Self {
        let (by_name, by_id) = (BTreeMap::new(), BTreeMap::new());
        Catalog { keyspaces: RwLock::new(Keyspaces { by_name, by_id, next_id }) }
    }

    /// Shows `look` the keyspaces while none comes or goes.
    #[inline]
    pub(super) fn look<R>(&self, look: impl FnOnce(&Keyspaces) -> R) -> R {
        look(&self.keyspaces.read())
    }

    /// All trees, by number.
    pub(crate) fn trees(&self) -> Vec<Arc<Tree>> {
        self.look(|keyspaces| keyspaces.trees().cloned().collect())
    }

    /// How many trees there are.
    pub(super) fn count(&self) -> usize {
        self.look(|keyspaces| keyspaces.by_id.len())
    }

    /// The keyspace of this name.
    pub(crate) fn named(&self, name: &str) -> Option<Arc<Tree>> {
        self.look(|keyspaces| keyspaces.by_name.get(name).cloned())
    }

    /// The keyspace with this number.
    pub(super) fn numbered(&self, id: KeyspaceId) -> Option<Arc<Tree>> {
        self.look(|keyspaces| keyspaces.numbered(id).cloned())
    }

    /// All names, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        self.look(|keyspaces| keyspaces.by_name.keys().cloned().collect())
    }

    /// The number that the next keyspace gets.
    pub(super) fn next_id(&self) -> u32 {
        self.look(|keyspaces| keyspaces.next_id)
    }

    /// Adds a tree; `first` sees it before any other thread does.
    pub(super) fn insert(&self, tree: Arc<Tree>, first: impl FnOnce(&Tree)) {
        let mut keyspaces = self.keyspaces.write();
        first(&tree);
        keyspaces.next_id = keyspaces.next_id.max(tree.id.0 + 1);
        let same_name = keyspaces.by_name.insert(tree.name.clone(), tree.clone());
        let same_id = keyspaces.by_id.insert(tree.id, tree);
        assert!(same_name.is_none() && same_id.is_none(), "a keyspace is created once");
    }

    /// Takes out a tree that was dropped.
    pub(super) fn remove(&self, tree: &Tree) {
        let mut keyspaces = self.keyspaces.write();
        let (by_name, by_id) = (keyspaces.by_name.remove(&tree.name), keyspaces.by_id.remove(&tree.id));
        assert!(by_name.is_some_and(|named| named.id == tree.id) && by_id.is_some(), "it was listed");
    }
}

/// Refuses a name that no keyspace may have.
pub(super) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(Error::Invalid(format!(
            "a keyspace name has 1 to {NAME_BYTES_MAX} bytes, not {}",
            name.len()
        )));
    }
    Ok(())
}

//! Checkpoints: a second directory that is the database at one moment, by hard links.

use super::Core;
use crate::{
    error::{Error, Result},
    ids::FileId,
    table,
    version::{Edit, Manifest, Version},
};
use std::{path::Path, sync::Arc};

impl Core {
    pub(super) fn checkpoint(&self, to: &Path) -> Result<()> {
        self.writable()?;
        let fs = self.fs();
        if fs.exists(to)? && !fs.list_dir(to)?.is_empty() {
            return Err(Error::Invalid(format!(
                "{} is not empty; a checkpoint needs a directory that is missing or empty",
                to.display()
            )));
        }
        // Most of the flush happens before writers are held up.
        self.flush_trees(&self.trees())?;
        let (whole, versions) = self.whole_flushed()?;
        self.remove_flushed_logs();
        // The versions keep their files from being removed while they are linked.
        fs.create_dir_all(to)?;
        self.fill(to, whole, &versions).inspect_err(|_| {
            // What cannot be removed is in the way of the next try, which says so.
            for name in fs.list_dir(to).unwrap_or_default() {
                let _ = fs.remove_file(&to.join(name));
            }
        })
    }

    fn fill(&self, to: &Path, whole: Edit, versions: &[Arc<Version>]) -> Result<()> {
        let fs = self.fs();
        let mut linked = std::collections::BTreeSet::new();
        for table_ref in versions.iter().flat_map(|version| version.tables()) {
            let file = table_ref.id();
            if linked.insert(file) {
                let name = table::file_name(file);
                fs.hard_link(&self.dir().join(&name), &to.join(&name))?;
            }
        }
        fs.sync_dir(to)?;
        // The manifest comes last and CURRENT last of all: a crash before leaves no database, not half a
        // one.
        let manifest = FileId(whole.next_file.unwrap_or(0));
        let whole = Edit { next_file: Some(manifest.0 + 1), ..whole };
        Manifest::create(&*fs, to, self.database, manifest, &[whole])?;
        match to.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => fs.sync_dir(parent),
            None => Ok(()),
        }
    }

    /// The state at one moment of the commit order, all of it in tables, with the versions that hold the
    /// tables.
    fn whole_flushed(&self) -> Result<(Edit, Vec<Arc<Version>>)> {
        loop {
            let trees = self.trees();
            let claims: Vec<_> = trees.iter().map(|tree| self.claim_flush(tree)).collect();
            let mut writer = self.commit.lock();
            if !self.trees().iter().map(|tree| tree.id).eq(trees.iter().map(|tree| tree.id)) {
                // A keyspace came or went before the lock was ours.
                continue;
            }
            for (tree, claim) in trees.iter().zip(&claims) {
                self.flush_locked(claim, tree, &mut writer)?;
            }
            let store = self.store.lock();
            let whole = self.whole_trees(&store);
            let versions = trees.iter().map(|tree| tree.view().version.clone()).collect();
            return Ok((whole, versions));
        }
    }
}

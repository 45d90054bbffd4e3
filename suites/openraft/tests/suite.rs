//! openraft's own suite for storages, over a database on disk.

use openraft::{
    StorageError, StorageIOError,
    testing::{StoreBuilder, Suite},
};
use solera::Db;
use solera_suite_openraft::{Log, Machine, Types, storage};
use tempfile::TempDir;

struct OnDisk;

impl StoreBuilder<Types, Log, Machine, TempDir> for OnDisk {
    async fn build(&self) -> Result<(TempDir, Log, Machine), StorageError<u64>> {
        let failed = |error: solera::Error| StorageIOError::write(&error);
        let dir = tempfile::tempdir().map_err(|error| StorageIOError::write(&error))?;
        let db = Db::open(dir.path()).map_err(failed)?;
        let (log, machine) = storage(&db).map_err(failed)?;
        Ok((dir, log, machine))
    }
}

#[test]
fn the_suite_of_openraft_passes() {
    Suite::test_all(OnDisk).unwrap();
}

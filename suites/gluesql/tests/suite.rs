//! GlueSQL's own suite for storages, all of it, over databases on disk.

use gluesql_core::prelude::Glue;
use gluesql_test_suite::*;
use solera::{Db, Options};
use solera_suite_gluesql::Storage;
use tempfile::TempDir;

struct OnDisk {
    glue: Glue<Storage>,
    _dir: TempDir,
}

/// Small, because a test fills no memory and many run at once.
fn open(dir: &TempDir) -> solera::Result<Db> {
    Options::new().memory(16 << 20).open(dir.path())
}

impl Tester<Storage> for OnDisk {
    fn new(_name: &str) -> OnDisk {
        let dir = tempfile::tempdir().unwrap();
        let storage = Storage::new(&open(&dir).unwrap()).unwrap();
        OnDisk { glue: Glue::new(storage), _dir: dir }
    }

    fn get_glue(&mut self) -> &mut Glue<Storage> {
        &mut self.glue
    }
}

generate_store_tests!(test, OnDisk);
generate_alter_table_tests!(test, OnDisk);
generate_custom_function_tests!(test, OnDisk);
generate_index_tests!(test, OnDisk);
generate_transaction_tests!(test, OnDisk);
generate_alter_table_index_tests!(test, OnDisk);
generate_transaction_alter_table_tests!(test, OnDisk);
generate_transaction_index_tests!(test, OnDisk);
generate_metadata_table_tests!(test, OnDisk);
generate_metadata_index_tests!(test, OnDisk);

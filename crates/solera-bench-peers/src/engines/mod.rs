//! The engines, one adapter each, every one at its best: the file says why each setting was chosen.

mod fjall;
mod lmdb;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod solera;

use crate::engine::{Engine, Result, Setting};

/// Every engine under every name that can be asked for.
pub const NAMES: [&str; 7] =
    ["solera", "rocksdb-tuned", "rocksdb-paper", "rocksdb-blob", "fjall", "lmdb", "redb"];

/// Opens the engine of this name.
///
/// # Errors
/// If there is none, or it cannot be opened.
pub fn open(name: &str, setting: &Setting) -> Result<Box<dyn Engine>> {
    Ok(match name {
        "solera" => Box::new(solera::Solera::open(setting)?),
        #[cfg(feature = "rocksdb")]
        "rocksdb-tuned" => Box::new(rocksdb::RocksDb::open(setting, rocksdb::Tuning::Tuned)?),
        #[cfg(feature = "rocksdb")]
        "rocksdb-paper" => Box::new(rocksdb::RocksDb::open(setting, rocksdb::Tuning::Paper)?),
        #[cfg(feature = "rocksdb")]
        "rocksdb-blob" => Box::new(rocksdb::RocksDb::open(setting, rocksdb::Tuning::Blob)?),
        "fjall" => Box::new(fjall::Fjall::open(setting)?),
        "lmdb" => Box::new(lmdb::Lmdb::open(setting)?),
        "redb" => Box::new(redb::Redb::open(setting)?),
        _ => return Err(format!("there is no engine {name:?}; the engines are {}", NAMES.join(", ")).into()),
    })
}

//! The engines that can be measured: `NAMES`, `open`, `versions`, which peers these are, and
//! `compression`, what compresses where LZ4 is asked for. Eight adapters serve thirteen names.
//!
//! `open` gives the `Engine` of a name. Several names of one adapter are its settings, or ways to
//! use it. `bare` is no database, but what a lookup in memory costs at least.
//!
//! What must hold: a peer is set as well as we can, but `rocksdb-paper` as in the DobLIX paper.
//! Solera is set as users get it. An adapter says why it sets what it sets. Without the feature
//! `rocksdb`, `open` refuses the three `rocksdb` names, which `NAMES` has all the same.
//!
//! Callers: `compare` checks names and reports versions; `child` opens; `report` tells compression.

mod bare;
mod coordinode;
mod fjall;
mod lmdb;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod solera;
mod surrealkv;

use crate::engine::{Engine, Result, Setting};

/// Every engine under every name that can be asked for.
pub const NAMES: [&str; 13] = [
    "solera",
    "solera-values",
    "solera-owned",
    "rocksdb-tuned",
    "rocksdb-paper",
    "rocksdb-blob",
    "fjall",
    "fjall-values",
    "lmdb",
    "redb",
    "surrealkv",
    "coordinode",
    "bare",
];

/// What compresses the data of the engine of this name where LZ4 is asked for; of some, nothing.
pub fn compression(name: &str) -> Option<&'static str> {
    match name {
        "lmdb" | "redb" | "bare" => None,
        // It has no LZ4.
        "surrealkv" => Some("Snappy"),
        _ => Some("LZ4"),
    }
}

/// What the names of engines begin with that take settings of their own.
const SETTABLE: [&str; 3] = ["solera", "rocksdb", "fjall"];

/// The packages that the peers are, by [`LOCK`].
const PACKAGES: [&str; 8] = [
    "rocksdb",
    "librocksdb-sys",
    "fjall",
    "heed",
    "lmdb-master-sys",
    "redb",
    "surrealkv",
    "coordinode-lsm-tree",
];
const LOCK: &str = include_str!("../../Cargo.lock");

/// Which peers these are, and how those in C and C++ were compiled.
pub fn versions() -> String {
    let version = |package: &&str| {
        let rest = LOCK.split_once(&format!("name = \"{package}\"\nversion = \""))?.1;
        Some(format!("{package} {}", rest.split_once('"')?.0))
    };
    let packages: Vec<String> = PACKAGES.iter().filter_map(version).collect();
    let flags = option_env!("CXXFLAGS").unwrap_or("no flags of their own");
    let library = match option_env!("ROCKSDB_LIB_DIR") {
        Some(_) => "; RocksDB is a library that was there, for any processor of the kind",
        None => "",
    };
    format!(
        "{}; C and C++ compiled with {flags}{library}; what is in Rust for any processor of the kind",
        packages.join(", ")
    )
}

/// Opens the engine of this name.
///
/// # Errors
/// If there is none, or it cannot be opened.
pub fn open(name: &str, setting: &Setting) -> Result<Box<dyn Engine>> {
    if !SETTABLE.iter().any(|engine| name.starts_with(engine)) {
        setting.asked.only(&[])?;
    }
    Ok(match name {
        "solera" => Box::new(solera::Solera::open(setting, solera::Way::Plain)?),
        "solera-values" => Box::new(solera::Solera::open(setting, solera::Way::ValuesApart)?),
        "solera-owned" => Box::new(solera::Solera::open(setting, solera::Way::Owned)?),
        #[cfg(feature = "rocksdb")]
        "rocksdb-tuned" => Box::new(rocksdb::RocksDb::open(setting, rocksdb::Tuning::Tuned)?),
        #[cfg(feature = "rocksdb")]
        "rocksdb-paper" => Box::new(rocksdb::RocksDb::open(setting, rocksdb::Tuning::Paper)?),
        #[cfg(feature = "rocksdb")]
        "rocksdb-blob" => Box::new(rocksdb::RocksDb::open(setting, rocksdb::Tuning::Blob)?),
        "fjall" => Box::new(fjall::Fjall::open(setting, false)?),
        "fjall-values" => Box::new(fjall::Fjall::open(setting, true)?),
        "lmdb" => Box::new(lmdb::Lmdb::open(setting)?),
        "redb" => Box::new(redb::Redb::open(setting)?),
        "surrealkv" => Box::new(surrealkv::SurrealKv::open(setting)?),
        "bare" => Box::new(bare::Bare::open(setting)),
        "coordinode" => Box::new(coordinode::Coordinode::open(setting)?),
        _ => return Err(format!("there is no engine {name:?}; the engines are {}", NAMES.join(", ")).into()),
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_peer_has_a_version() {
        let versions = super::versions();
        for package in super::PACKAGES {
            assert!(versions.contains(&format!("{package} ")), "{versions}");
        }
    }
}

//! Immutable sorted files: the tables.
//!
//! Owns the table file: [`TableWriter`] writes one, [`TableFile`] is one that the engine knows of,
//! [`Table`] an open one, [`TableCursor`] walks it. Flushes, compactions and ingestion write tables; the
//! tree reads them.
//!
//! What must hold: entries ascend by user key, versions of one key from new to old; the separators of the
//! index tell in which block a key's versions begin; and what a block says about itself is believed over
//! what the index says about it.
//!
//! # The table file
//!
//! Named by its number, `000003.table`. Fixed numbers are little-endian; *varint* is LEB128 in its
//! shortest form. Every checksum is a CRC-32C that begins with the file's *binding* (XXH3 of database
//! number and file number) and the offset of the checked bytes, so that bytes which land in another place,
//! file or database fail ([`crate::codec::Binding`]).
//!
//! | part | content |
//! |---|---|
//! | header | 32 bytes, below |
//! | data blocks | one after another, each as [`crate::block`] says: body, codec byte, checksum |
//! | range tombstones | sealed like a block, never compressed; [`crate::tombstone::RangeTombstones::encode`] |
//! | filter | sealed; the bytes of [`crate::filter`] over the user keys, of the kind that the descriptor names; empty: no filter |
//! | index | sealed; below |
//! | properties | sealed; the [`descriptor`] of the table, its length given as 0 |
//! | footer | 56 bytes, below |
//!
//! The **header**: magic `SoleraTb` (8 bytes), format version (u32, now 2), database number (u64), file
//! number (u64), checksum of these 28 bytes (u32). These places are the same in every format version, so
//! that an older release can tell a newer table from a damaged one.
//!
//! The **footer**: where the range tombstones, the filter, the index and the properties begin (4 × u64;
//! each section ends where the next begins, the data blocks end where the range tombstones begin, the
//! properties end at the footer), length of the file (u64), format version (u32), checksum of these 44
//! bytes (u32), magic `SoleraTb`.
//!
//! The **index** section: the number of data blocks and the size of each, codec byte and checksum included
//! (varints); then, if there are blocks, the index as the writer trained it from the separators between them
//! ([`Index::encode`](crate::index::Index::encode)). Separator `i` is above every key of block `i` and not above the keys of block
//! `i + 1`; where the versions of one key `k` go on from block `i` to block `i + 1`, it is `k` and a zero byte. A kind without a model
//! is stored as the separators: their number (varint), then for each the length it shares with its predecessor (varint) and the rest
//! (length as varint, bytes). (In format version 1 all kinds are.) A malformed index is refused; a wrong one costs lookups a detour, for blocks say what they hold.
//!
//! Each block's note holds its [`fences`]: the separators on both sides of it, told by lengths.

mod counted;
mod cursor;
pub mod descriptor;
mod fences;
mod file;
mod format;
pub mod layout;
mod lookup;
mod reader;
mod verify;
mod writer;

#[cfg(test)]
mod tests;

pub use counted::LayoutTag;
pub use cursor::{Access, TableCursor};
pub use descriptor::TableDescriptor;
pub use file::{TableFile, open_alone};
pub use format::{FORMAT_VERSION, MAGIC};
pub use layout::Layout;
pub use lookup::Entered;
pub use reader::Table;
pub use verify::TableCheck;
pub use writer::TableWriter;

use crate::{
    cache::Cache,
    ids::{DatabaseId, FileId},
    stats::Stats,
    vfs::Fs,
};
use std::{path::PathBuf, sync::Arc};

/// What the tables of one keyspace share.
#[derive(Clone, Debug)]
pub struct TableContext {
    /// Where the files are.
    pub fs: Arc<dyn Fs>,
    /// The database directory.
    pub dir: PathBuf,
    /// The database that the files belong to.
    pub database: DatabaseId,
    /// Whether tables are read past the system's cache of files.
    pub direct_reads: bool,
    /// Where blocks are cached.
    pub cache: Arc<Cache>,
    /// Where reads are counted.
    pub stats: Arc<Stats>,
}

impl TableContext {
    /// The path of a table's file.
    pub fn path(&self, file: FileId) -> PathBuf {
        self.dir.join(file_name(file))
    }
}

/// The name of a table's file: `000003.table`.
pub fn file_name(file: FileId) -> String {
    format!("{:06}.table", file.0)
}

/// The number of the table file of this name; `None` if it is not the name of one.
pub fn file_id(name: &str) -> Option<FileId> {
    let file = FileId(name.strip_suffix(".table")?.parse().ok()?);
    (file_name(file) == name).then_some(file)
}

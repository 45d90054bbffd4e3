//! Immutable sorted files: the tables.
//!
//! `TableWriter` writes one, `TableFile` is one that the engine knows of, `Table` an open one,
//! `TableCursor` walks it, `TableDescriptor` tells of it, `TableCheck` checks it. `TableContext` is
//! what the tables of a keyspace share. The comment of `mod format` says what the file is, byte by
//! byte.
//! What must hold: entries ascend by user key, versions of one key from new to old. Separators tell
//! in which block a key's versions begin. What a block says of itself is believed over the index.
//! Files, bottom to top; each uses only those above it.
//! Callers: `compaction::job` and `engine::ingest` write tables; `version`, `tree::read` and
//! `tree::scan` read them; `inspect` and `fuzz` check and dump them; `engine::report` checks.

/// # The table file
///
/// Named by its number, `000003.table`. Fixed numbers are little-endian; *varint* is LEB128 in its
/// shortest form. Every checksum is a CRC-32C. It begins with the file's *binding* (XXH3 of
/// database number and file number) and the offset of the checked bytes. So bytes which land in
/// another place, file or database fail ([`crate::codec::Binding`]).
///
/// | part | content |
/// |---|---|
/// | header | 32 bytes, below |
/// | data blocks | one after another, each as [`crate::block`] says: body, codec byte, checksum |
/// | range tombstones | sealed like a block, never compressed; [`crate::tombstone::RangeTombstones::encode`] |
/// | filter | sealed; the bytes of [`crate::filter`] over the user keys, of the kind that the descriptor names; empty: no filter |
/// | index | sealed; below |
/// | properties | sealed; the [`descriptor`] of the table, its length given as 0 |
/// | footer | 56 bytes, below |
///
/// The **header**: magic `Solera/T` (8 bytes), format version (u32, now 1), database number (u64),
/// file number (u64), checksum of these 28 bytes (u32). These places are the same in every format
/// version, so that an older release can tell a newer table from a damaged one.
///
/// The **footer**:
///
/// | bytes | what |
/// |---|---|
/// | 4 × 8 | where the range tombstones, the filter, the index and the properties begin; each ends where the next part begins |
/// | 8 | length of the file |
/// | 4 | format version |
/// | 4 | checksum of these 44 bytes |
/// | 8 | magic `Solera/T` |
///
/// The **index** section begins with the number of data blocks and the size of each, codec byte and
/// checksum included (varints). Then, if there are blocks, comes the index as the writer trained it
/// from the separators between them ([`Index::encode`](crate::index::Index::encode)). Separator `i`
/// is above every key of block `i` and not above the keys of block `i + 1`. Where the versions of
/// one key `k` go on from block `i` to block `i + 1`, it is `k` and a zero byte. A kind without a
/// model is stored as the separators. Their number comes first (varint). For each follow the length
/// that it shares with its predecessor (varint) and the rest (length as varint, bytes). A malformed
/// index is refused. A wrong one costs lookups a detour, for blocks say what they hold.
///
/// Each block's note holds its [`fences`]: bounds on both sides of it, told by lengths.
mod format;
mod fences;
pub mod layout;
pub mod waste;
pub mod descriptor;
mod counted;
mod wanted;
mod reader;
mod warm;
mod fresh;
mod share;
mod lookup;
mod file;
mod cursor;
mod verify;
mod writer;

#[cfg(test)]
mod tests;

pub use counted::LayoutTag;
pub use cursor::{Access, TableCursor};
pub use descriptor::TableDescriptor;
pub use file::{TableFile, open_alone};
pub use format::FORMAT_VERSION;
pub use fresh::FreshBlocks;
pub use layout::Layout;
pub use lookup::{Entered, WALK_MAX};
pub use reader::Table;
pub use verify::TableCheck;
pub use wanted::Wanted;
pub use writer::TableWriter;

use crate::{
    cache::Cache,
    dir::FileName,
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
    /// Tables that are to be read whole.
    pub wanted: Arc<Wanted>,
}

impl TableContext {
    /// The path of a table's file.
    pub fn path(&self, file: FileId) -> PathBuf {
        FileName::Table(file).in_dir(&self.dir)
    }
}

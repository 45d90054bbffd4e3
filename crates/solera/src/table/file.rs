//! A table file that the engine knows of, open or not: `TableFile`; and `open_alone`, without a
//! manifest.
//!
//! `table()` opens the file at the first call and checks it against its descriptor; an error is not
//! remembered, so the next call tries again. `opened` gives the table only if it is open already.
//! `mark_obsolete` has the file removed when the last `Arc` of it goes.
//!
//! What must hold: in an open database there is one `TableFile` for a file, shared by all versions,
//! cursors and readers. The file stays as long as one of them has it. `open_alone` makes its own.
//! Callers: `engine::{store, open}` make and mark them through `Version::apply`; `TableRef` holds
//! one, through which tables are read. `wanted` reads on in it. `inspect`, `fuzz` and
//! `solera-bench` open alone. `control::observe`, `engine` and `compaction::convert` ask `opened`.

use super::{
    LayoutTag, TableContext,
    descriptor::TableDescriptor,
    reader::{Table, read_footer, read_header, read_properties},
    wanted::ReadOn,
};
use crate::{
    cache::Cache,
    dir::OwnedFile,
    error::Result,
    stats::{Counter, Stats},
    sync::Mutex,
    vfs::Fs,
};
use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock, Weak},
};

/// A table file; opened when first needed.
pub struct TableFile {
    context: Arc<TableContext>,
    descriptor: Arc<TableDescriptor>,
    owned: OwnedFile,
    /// Itself, for its table.
    this: Weak<TableFile>,
    table: OnceLock<Table>,
    /// Held while opening, so that one thread does it.
    opening: Mutex<()>,
}

impl TableFile {
    /// The table of this descriptor. Touches no file.
    pub fn new(context: &Arc<TableContext>, descriptor: Arc<TableDescriptor>) -> Arc<TableFile> {
        TableFile::at(context, descriptor.clone(), context.path(descriptor.file))
    }

    fn at(context: &Arc<TableContext>, descriptor: Arc<TableDescriptor>, path: PathBuf) -> Arc<TableFile> {
        Arc::new_cyclic(|this| TableFile {
            context: context.clone(),
            descriptor,
            owned: OwnedFile::new(context.fs.clone(), path),
            this: this.clone(),
            table: OnceLock::new(),
            opening: Mutex::new(()),
        })
    }

    /// What is known of the table without opening it.
    pub fn descriptor(&self) -> &Arc<TableDescriptor> {
        &self.descriptor
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.owned.path()
    }

    /// The open table; opens it at the first call. An error is not remembered: the next call tries
    /// again.
    #[inline]
    pub fn table(&self) -> Result<&Table> {
        match self.table.get() {
            Some(table) => Ok(table),
            None => self.open(),
        }
    }

    #[cold]
    fn open(&self) -> Result<&Table> {
        let _one_at_a_time = self.opening.lock();
        if let Some(table) = self.table.get() {
            return Ok(table);
        }
        let fs = &self.context.fs;
        let direct = self.context.direct_reads;
        let file = if direct { fs.open_direct(self.path())? } else { fs.open(self.path())? };
        let table = Table::open(&self.context, &self.descriptor, file, self.this.clone())?;
        Ok(self.table.get_or_init(|| table))
    }

    /// The table if it is open.
    pub fn opened(&self) -> Option<&Table> {
        self.table.get()
    }

    /// What its reads are counted for beside its level; of an index that chooses for itself, what
    /// it chose, once the table is open.
    pub fn layout_tag(&self) -> LayoutTag {
        self.opened().map_or_else(|| LayoutTag::new(&self.descriptor, None), Table::layout_tag)
    }

    /// Lets the file be removed when the last `Arc` of this is dropped. If that fails it is
    /// counted, and the file is left to the next open of the database, which removes files that no
    /// manifest names.
    pub fn mark_obsolete(&self) {
        self.owned.mark_obsolete();
    }

    /// Has the file stay after all.
    pub fn keep(&self) {
        self.owned.keep();
    }
}

impl ReadOn for TableFile {
    fn read_on(&self, next: usize, bytes: &mut Vec<u8>) -> Option<usize> {
        self.opened()?.warm_next(next, bytes).ok()?
    }
}

impl Drop for TableFile {
    fn drop(&mut self) {
        if !self.owned.is_obsolete() {
            return;
        }
        // The open file and the cached blocks first.
        self.table.take();
        if self.owned.release().is_err() {
            self.context.stats.add_rarely(Counter::FilesNotRemoved, 1);
        }
    }
}

impl fmt::Debug for TableFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableFile")
            .field("owned", &self.owned)
            .field("open", &self.table.get().is_some())
            .finish()
    }
}

/// Opens a table file without a manifest: what it says of itself is believed. Sequence numbers
/// given by ingestion are not known then. Blocks are not cached.
pub fn open_alone(fs: &Arc<dyn Fs>, path: &Path) -> Result<Arc<TableFile>> {
    let file = fs.open(path)?;
    let header = read_header(&*file)?;
    let footer = read_footer(&*file, header.binding())?;
    let descriptor = Arc::new(read_properties(&*file, &footer, header.binding())?);
    let context = Arc::new(TableContext {
        fs: fs.clone(),
        dir: path.parent().unwrap_or(Path::new("")).into(),
        database: header.database,
        direct_reads: false,
        cache: Cache::new(0),
        stats: Arc::new(Stats::new()),
        wanted: Arc::default(),
    });
    let alone = TableFile::at(&context, descriptor, path.into());
    alone.table()?;
    Ok(alone)
}

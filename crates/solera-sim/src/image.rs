//! A small database with every structure in it, and what it must answer: `Image`, for programs that
//! damage it.
//!
//! It has tables on several levels, of every index kind and of every codec that was built in. In
//! them are filters, versions, operands, expiring values, range tombstones and what was ingested.
//! It has a manifest with edits, CURRENT, a checkpoint, separated values, an ended log, and a last
//! log with an unsynced end. `Structure` says what a byte belongs to; `Parts` are a table's
//! sections. `Frames` reads a log without the engine, and says what damage at a byte of it may do.
//!
//! What must hold: it is the same on every machine. What it must answer comes from the oracle.
//!
//! Callers: `program::bitflip`; `forge`, for `Parts`.

use crate::{
    oracle::{self, Oracle},
    script::{Change, Value, text::Bytes},
    setting::{Operator, Setting, SpaceSetting},
};
use solera::{
    Compression, Db, FilterKind, FilterSpread, IndexKind, Keyspace, ManualClock, Options, Reclaim,
    vfs::mem::{MemFs, Persist},
};
use std::{
    fmt,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Where the database lies.
pub const DIR: &str = "/db";
/// Where its checkpoint lies.
pub const CHECKPOINT: &str = "/checkpoint";
const NOW_MS: u64 = 1_700_000_000_000;
/// About how many bytes the keyspaces have together.
const TARGET_BYTES: usize = 36 << 10;
/// Values of so many bytes and more are kept apart by every third keyspace.
const SEPARATE_FROM: u32 = 35;
/// Commits after the last sync.
const UNSYNCED: u32 = 6;

/// What every keyspace holds, by its place in the setting: keys and values, ascending.
pub type State = Vec<Vec<(Vec<u8>, Vec<u8>)>>;

/// The database.
#[derive(Debug)]
pub struct Image {
    /// The files. Not to be changed: [`MemFs::crash`] makes copies.
    pub fs: MemFs,
    /// How it was set up.
    pub setting: Setting,
    /// What it holds.
    pub full: State,
    /// What it holds if only so many records of the last log are there.
    pub cut: Vec<State>,
    /// What the checkpoint holds.
    pub checkpoint: State,
    /// The last log, and its frames.
    pub last_log: (PathBuf, Frames),
    /// The log before it, which recovery needs too.
    pub ended_log: PathBuf,
}

/// The frames of a log, read without the engine.
#[derive(Clone, Debug, Default)]
pub struct Frames(pub Vec<Frame>);

/// One frame.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Where it lies.
    pub place: Range<usize>,
    /// Whether it is a record: one commit.
    pub record: bool,
    /// How many bytes of the file it vouches for.
    pub synced: usize,
}

const LOG_HEADER_BYTES: usize = 48;
const FRAME_HEADER_BYTES: usize = 24;

impl Frames {
    fn read(log: &[u8]) -> Frames {
        let mut frames = Vec::new();
        let mut at = LOG_HEADER_BYTES;
        // Behind the last one zeros are reserved.
        let is_there = |header: &&[u8]| header.iter().any(|&byte| byte != 0);
        while let Some(header) = log.get(at..at + FRAME_HEADER_BYTES).filter(is_there) {
            let number = |range: Range<usize>| {
                header[range].iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
            };
            let place = at..at + FRAME_HEADER_BYTES + number(8..14);
            at = place.end;
            frames.push(Frame { place, record: header[14] == 0, synced: number(16..24) });
        }
        Frames(frames)
    }

    /// What damage at a byte may do: `None` if a frame behind it vouches for it, so that it must be
    /// an error; else how many records are left if the log is cut where the damaged frame begins.
    pub fn left_by_damage_at(&self, byte: usize) -> Option<usize> {
        let records = |frames: &[Frame]| frames.iter().filter(|frame| frame.record).count();
        if self.0.last().is_some_and(|last| byte >= last.place.end) {
            // What is reserved and not used; then all are left.
            return Some(records(&self.0));
        }
        let at = self.0.iter().position(|frame| frame.place.contains(&byte))?;
        let start = self.0[at].place.start;
        let vouched = self.0[at + 1..].iter().any(|frame| frame.synced > start);
        (!vouched).then(|| records(&self.0[..at]))
    }
}

/// A part of a file, for counting which were damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Structure {
    /// `CURRENT`.
    Current,
    /// The manifest.
    Manifest,
    /// `CURRENT` of the checkpoint.
    CheckpointCurrent,
    /// The manifest of the checkpoint.
    CheckpointManifest,
    /// The log that is ended.
    EndedLog,
    /// The last log, up to its last sync.
    SyncedLog,
    /// The last log behind that.
    LogTail,
    /// A log that is kept for its values alone.
    ValueLog,
    /// A sorted value file.
    SortedValues,
    /// Header of a table.
    TableHeader,
    /// Data blocks.
    Blocks,
    /// Range tombstones.
    RangeTombstones,
    /// Filter.
    Filter,
    /// Block sizes and separators.
    Index,
    /// Properties.
    Properties,
    /// Footer.
    TableFooter,
}

impl Structure {
    /// Every structure.
    pub const ALL: [Structure; 16] = [
        Structure::Current,
        Structure::Manifest,
        Structure::CheckpointCurrent,
        Structure::CheckpointManifest,
        Structure::EndedLog,
        Structure::SyncedLog,
        Structure::LogTail,
        Structure::ValueLog,
        Structure::SortedValues,
        Structure::TableHeader,
        Structure::Blocks,
        Structure::RangeTombstones,
        Structure::Filter,
        Structure::Index,
        Structure::Properties,
        Structure::TableFooter,
    ];
}

impl Structure {
    /// Whether it is a part of a table.
    pub fn in_table(self) -> bool {
        self >= Structure::TableHeader
    }
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}"))
    }
}

/// Where the parts of a table lie that follow its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Data blocks.
    pub blocks: Range<usize>,
    /// Range tombstones.
    pub tombstones: Range<usize>,
    /// Filter.
    pub filter: Range<usize>,
    /// Index.
    pub index: Range<usize>,
    /// Properties.
    pub properties: Range<usize>,
}

impl Parts {
    /// Of a whole table, from its footer.
    pub fn of(table: &[u8]) -> Option<Parts> {
        let footer = table.len().checked_sub(56)?;
        let at = |n: usize| {
            let bytes = table.get(footer + 8 * n..)?.first_chunk::<8>()?;
            usize::try_from(u64::from_le_bytes(*bytes)).ok()
        };
        let (tombstones, filter, index, properties) = (at(0)?, at(1)?, at(2)?, at(3)?);
        Some(Parts {
            blocks: 32..tombstones,
            tombstones: tombstones..filter,
            filter: filter..index,
            index: index..properties,
            properties: properties..footer,
        })
    }
}

/// The database while it is made, beside the oracle.
struct Making {
    setting: Setting,
    db: Db,
    spaces: Vec<Keyspace>,
    oracle: Oracle,
    /// What was there before each of the last commits, and after the last.
    states: Vec<State>,
    tag: u32,
}

fn options(fs: &MemFs, setting: &Setting) -> Options {
    setting.options(Arc::new(fs.clone()), Arc::new(ManualClock::at_unix_ms(NOW_MS)))
}

/// One keyspace for each index kind; codecs and operators take turns.
fn setting() -> Setting {
    let codecs: Vec<Compression> = Compression::ALL.into_iter().filter(|codec| codec.available()).collect();
    let space = |(n, index): (usize, IndexKind)| SpaceSetting {
        operator: Operator::ALL[n % Operator::ALL.len()],
        index,
        compression: codecs[(n + 1) % codecs.len()],
        block_bytes: 512,
        epsilon: 2,
        filter_bits: 10,
        filter_spread: FilterSpread::Monkey,
        last_filter: FilterKind::ALL[n % 2],
        size_ratio: 3,
        run_limits: vec![3, 1],
        table_bytes: 4 << 10,
        separate_from: if n % 3 == 1 { SEPARATE_FROM } else { 0 },
    };
    Setting {
        memory_bytes: 4 << 20,
        write_buffer_bytes: 64 << 10,
        sync: false,
        reclaim: Reclaim::default(),
        spare_percent: 30,
        spaces: IndexKind::ALL.into_iter().enumerate().map(space).collect(),
    }
}

impl Making {
    fn change(&mut self, change: Change) -> solera::Result<()> {
        change.commit(&self.setting, &self.spaces[change.slot(&self.setting)])?;
        let told = change.in_oracle(&self.setting, NOW_MS);
        self.oracle.commit(&[told]);
        self.states.push(self.state());
        Ok(())
    }

    fn state(&self) -> State {
        (0..self.spaces.len()).map(|slot| self.oracle.scan(slot, .., self.oracle.moment())).collect()
    }

    fn value(&mut self, len: u32) -> Value {
        self.tag += 1;
        Value { tag: self.tag, len }
    }

    /// Key number `n` of a keyspace: numbers in one, long common beginnings in the next.
    fn key(space: u8, n: u32) -> Bytes {
        Bytes(if space.is_multiple_of(2) {
            (u64::from(n) * 1009).to_be_bytes().to_vec()
        } else {
            format!("a beginning that all of them have/{n:05}/{}", "x".repeat(n as usize % 5)).into_bytes()
        })
    }

    fn put(&mut self, space: u8, n: u32, len: u32) -> solera::Result<()> {
        let (key, value) = (Making::key(space, n), self.value(len));
        self.change(Change::Put { space, key, value })
    }

    /// Everything that one keyspace has in tables.
    fn fill(&mut self, space: u8, count: u32) -> solera::Result<()> {
        let slot = usize::from(space);
        for n in 0..count {
            self.put(space, n * 3, if n % 2 == 0 { 40 } else { 90 })?;
        }
        self.spaces[slot].flush()?;
        self.spaces[slot].compact_range(..)?;
        for n in (0..count).step_by(5) {
            self.put(space, n * 3, 20)?;
            self.change(Change::Delete { space, key: Making::key(space, n * 3 + 3) })?;
        }
        let value = self.value(30);
        let key = Making::key(space, 7);
        self.change(Change::PutTtl { space, key, value, ttl_ms: 1000 })?;
        let (start, end) = (Making::key(space, count), Making::key(space, count + 30));
        self.change(Change::DeleteRange { space, start, end })?;
        if self.setting.spaces[slot].operator != Operator::None {
            for n in (0..count).step_by(9) {
                let operand = self.value(6);
                self.change(Change::Merge { space, key: Making::key(space, n * 3), operand })?;
            }
        }
        // Versions that a snapshot keeps, of a key that fills more than one block with them.
        let mut snapshots = Vec::new();
        for _ in 0..12 {
            self.put(space, 11, 200)?;
            snapshots.push(self.db.snapshot());
        }
        self.spaces[slot].flush()?;
        drop(snapshots);
        for n in 0..6 {
            self.put(space, n * 7, 10)?;
        }
        self.spaces[slot].flush()?;
        // Bulk loaded, beside and among the others.
        let operator = self.setting.spaces[slot].operator;
        let loaded: Vec<_> =
            (0..10).map(|n| (Making::key(space, n * 31 + 1).0, self.value(50).stored(operator))).collect();
        self.spaces[slot].ingest(loaded.iter().map(|(key, value)| (key, value)))?;
        let changes: Vec<_> = loaded
            .into_iter()
            .map(|(key, value)| (slot, oracle::Change::Put { key, value, expires_ms: None }))
            .collect();
        self.oracle.commit(&changes);
        Ok(())
    }
}

impl Image {
    /// Makes the database.
    ///
    /// # Errors
    /// What the engine refused, and anything that is not as this room means it to be.
    pub fn make() -> Result<Image, String> {
        let text = |error: solera::Error| error.to_string();
        let setting = setting();
        let fs = MemFs::new();
        let db = options(&fs, &setting).open(DIR).map_err(text)?;
        let mut oracle = Oracle::new(NOW_MS);
        let mut spaces = Vec::new();
        for (slot, space) in setting.spaces.iter().enumerate() {
            spaces.push(db.keyspace_with(&setting.space_name(slot), space.options()).map_err(text)?);
            oracle.create(slot, space.operator);
        }
        db.keyspace("dropped").and_then(|_| db.drop_keyspace("dropped")).map_err(text)?;
        let mut making = Making { setting, db, spaces, oracle, states: Vec::new(), tag: 0 };
        // What a key costs in all tables together.
        let count = TARGET_BYTES / making.spaces.len() / 80;
        for space in 0..making.spaces.len() as u8 {
            making.fill(space, count as u32).map_err(text)?;
        }
        making.db.checkpoint(CHECKPOINT).map_err(text)?;
        let checkpoint = making.state();
        let mut making = making.reopened(&fs).map_err(text)?;
        making.states = vec![making.state()];
        making.logs(&fs).map_err(text)?;

        // As a process that is killed leaves it.
        let image = fs.crash(Persist::Everything, 0);
        let log_of = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "log");
        let logs: Vec<PathBuf> = image.files().into_iter().filter(log_of).collect();
        let mut newest = logs.clone();
        newest.sort_by(|a, b| b.cmp(a));
        let [last, ended_log, ..] = &newest[..] else { return Err(format!("{} logs", logs.len())) };
        let (last, ended_log) = (last.clone(), ended_log.clone());
        let frames = Frames::read(&image.content(&last).map_err(text)?);
        let records = frames.0.iter().filter(|frame| frame.record).count();
        let cut = making.states.split_off(making.states.len() - 1 - records);
        if logs.len() < 3 || cut.len() <= UNSYNCED as usize + 1 {
            return Err(format!("{} logs, the last of {records} records", logs.len()));
        }
        Ok(Image {
            fs: image,
            full: making.state(),
            cut,
            checkpoint,
            last_log: (last, frames),
            ended_log,
            setting: making.setting,
        })
    }

    /// Options to open it with.
    pub fn options(&self, fs: &MemFs) -> Options {
        options(fs, &self.setting)
    }

    /// Every file that is not empty, but for the checkpoint's tables: they are the database's,
    /// linked.
    pub fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let ours = |path: &PathBuf| path.starts_with("db") || path.extension().is_none();
        let files = self.fs.files().into_iter().filter(ours);
        let contents = files.filter_map(|path| self.fs.content(&path).ok().map(|content| (path, content)));
        contents.filter(|(_, content)| !content.is_empty()).collect()
    }

    /// What a byte of a file belongs to.
    pub fn structure(&self, path: &Path, content: &[u8], byte: usize) -> Structure {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let of_checkpoint = path.starts_with("checkpoint");
        if let Some(parts) = name.ends_with(".table").then(|| Parts::of(content)).flatten() {
            return match byte {
                ..32 => Structure::TableHeader,
                _ if parts.blocks.contains(&byte) => Structure::Blocks,
                _ if parts.tombstones.contains(&byte) => Structure::RangeTombstones,
                _ if parts.filter.contains(&byte) => Structure::Filter,
                _ if parts.index.contains(&byte) => Structure::Index,
                _ if parts.properties.contains(&byte) => Structure::Properties,
                _ => Structure::TableFooter,
            };
        }
        match (&*name, of_checkpoint) {
            ("CURRENT", false) => Structure::Current,
            ("CURRENT", true) => Structure::CheckpointCurrent,
            (name, false) if name.starts_with("MANIFEST") => Structure::Manifest,
            (name, true) if name.starts_with("MANIFEST") => Structure::CheckpointManifest,
            (name, _) if name.ends_with(".values") => Structure::SortedValues,
            _ if path == self.ended_log => Structure::EndedLog,
            _ if path != self.last_log.0 => Structure::ValueLog,
            _ if self.last_log.1.left_by_damage_at(byte).is_none() => Structure::SyncedLog,
            _ => Structure::LogTail,
        }
    }
}

impl Making {
    /// Closes the database and opens it with a small write buffer, so that logs are short.
    fn reopened(self, fs: &MemFs) -> solera::Result<Making> {
        let setting = Setting { write_buffer_bytes: 4 << 10, ..self.setting };
        drop(self.spaces);
        self.db.close()?;
        let db = options(fs, &setting).open(DIR)?;
        let names = (0..setting.spaces.len()).map(|slot| setting.space_name(slot));
        let spaces = names.map(|name| db.keyspace(&name)).collect::<solera::Result<_>>()?;
        Ok(Making { setting, db, spaces, oracle: self.oracle, states: self.states, tag: self.tag })
    }

    /// A log that is ended and needed, and a last one with synced commits and others.
    fn logs(&mut self, fs: &MemFs) -> solera::Result<()> {
        let logs = || fs.files().iter().filter(|path| path.to_string_lossy().ends_with(".log")).count();
        // An edit of the manifest.
        self.put(0, 4000, 100)?;
        self.spaces[0].flush()?;
        // Enough for a log to be ended.
        let before = logs();
        while logs() == before {
            self.put(0, 5000 + self.tag, 1000)?;
        }
        for n in 0..4 {
            for space in 0..self.spaces.len() as u8 {
                self.put(space, 6000 + n, 20)?;
            }
        }
        self.db.sync()?;
        for n in 0..UNSYNCED {
            let space = (n % 2) as u8;
            match n {
                2 => self.change(Change::Delete { space, key: Making::key(space, 0) })?,
                4 => {
                    let (start, end) = (Making::key(space, 10), Making::key(space, 40));
                    self.change(Change::DeleteRange { space, start, end })?;
                }
                _ => self.put(space, n * 3, 25)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_has_every_structure_and_as_many_bits_as_are_asked_for() {
        let image = Image::make().unwrap();
        let mut bytes = vec![0; Structure::ALL.len()];
        for (path, content) in image.files() {
            for byte in 0..content.len() {
                let structure = image.structure(&path, &content, byte);
                bytes[Structure::ALL.iter().position(|one| *one == structure).unwrap()] += 1;
            }
        }
        println!("{:?}", Structure::ALL.iter().zip(&bytes).collect::<Vec<_>>());
        assert!(bytes.iter().all(|bytes| *bytes > 0));
        assert!(bytes.iter().sum::<usize>() * 8 >= 8 * TARGET_BYTES);
    }

    #[test]
    fn the_image_is_the_same_every_time() {
        let bytes = || Image::make().unwrap().files();
        assert!(bytes() == bytes());
    }
}

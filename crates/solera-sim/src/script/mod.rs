//! Scripts, what a database life consists of as plain data: `Operation`, `Script`, `Value`,
//! `Change`.
//!
//! An operation names keyspaces, snapshots, iterators and transactions by small numbers (slots),
//! and one that names an empty slot does nothing. A `Value` is a number and a length, so writes are
//! told from each other if they are not too short.
//!
//! What must hold: any part of a script is a script, which is what makes shrinking possible
//! (`shrink`). A script may be made without knowing what the database holds (`generate`). It prints
//! and reads back (`text`).
//!
//! Callers: `life`, `crash`, `faults`, `image`, `tell`, the programs, `main` (`replay`) and the
//! fuzz targets; `setting` uses `text`.

pub mod generate;
pub mod shrink;
pub mod text;

use crate::setting::Setting;
use text::{Bytes, Text, Words, worded};

/// A value, by its content's number and its length: short to print, and every write is told from
/// every other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// What it says.
    pub tag: u32,
    /// How many bytes.
    pub len: u32,
}

impl Value {
    /// The bytes: for odd tags they compress well, for even ones not at all.
    pub fn bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len as usize + 8);
        let mut random = crate::random::Random::new(u64::from(self.tag));
        while bytes.len() < self.len as usize {
            let word = if self.tag % 2 == 1 { u64::from(self.tag) } else { random.next() };
            bytes.extend_from_slice(&word.to_be_bytes());
        }
        bytes.truncate(self.len as usize);
        bytes
    }

    /// The number that stands for this value in a keyspace of counters.
    pub fn number(self) -> i64 {
        i64::from(self.tag as i32) << (self.len % 33)
    }
}

impl Text for Value {
    fn write(&self, out: &mut String) {
        out.push_str(&format!("{}x{}", self.tag, self.len));
    }

    fn read(words: &mut Words<'_>) -> Result<Self, String> {
        let word = words.word()?;
        let parts = word.split_once('x').and_then(|(tag, len)| Some((tag.parse().ok()?, len.parse().ok()?)));
        let (tag, len) = parts.ok_or_else(|| format!("{word:?} is no value (number, x, length)"))?;
        Ok(Value { tag, len })
    }
}

worded! {
    /// One change to one keyspace.
    Change {
        /// `put`
        Put "put" { /** Keyspace slot. */ space: u8, /** Key. */ key: Bytes, /** Value. */ value: Value }
        /// `put_with_ttl`
        PutTtl "put-ttl" {
            /** Keyspace slot. */ space: u8, /** Key. */ key: Bytes, /** Value. */ value: Value,
            /** Time to live, milliseconds. */ ttl_ms: u32,
        }
        /// `delete`
        Delete "delete" { /** Keyspace slot. */ space: u8, /** Key. */ key: Bytes }
        /// `delete_range`
        DeleteRange "delete-range" {
            /** Keyspace slot. */ space: u8, /** First key deleted. */ start: Bytes,
            /** First key not deleted; empty: there is none. */ end: Bytes,
        }
        /// `merge`
        Merge "merge" { /** Keyspace slot. */ space: u8, /** Key. */ key: Bytes, /** Operand. */ operand: Value }
    }
}

impl Change {
    /// The keyspace slot.
    pub fn space(&self) -> u8 {
        match self {
            Change::Put { space, .. }
            | Change::PutTtl { space, .. }
            | Change::Delete { space, .. }
            | Change::DeleteRange { space, .. }
            | Change::Merge { space, .. } => *space,
        }
    }
}

worded! {
    /// Which state a read reads.
    View {
        /// What is there now.
        Live "live" {}
        /// A snapshot.
        Snapshot "snapshot" { /** Snapshot slot. */ slot: u8 }
        /// A transaction: its snapshot under its own writes.
        Transaction "transaction" { /** Transaction slot. */ slot: u8 }
    }
}

worded! {
    /// One end of a range.
    Edge {
        /// No end.
        Unbounded "unbounded" {}
        /// At a key that belongs to the range.
        Included "included" { /** The key. */ key: Bytes }
        /// At a key that does not.
        Excluded "excluded" { /** The key. */ key: Bytes }
    }
}

impl Edge {
    /// As the standard library says it.
    pub fn bound(&self) -> std::ops::Bound<&[u8]> {
        match self {
            Edge::Unbounded {} => std::ops::Bound::Unbounded,
            Edge::Included { key } => std::ops::Bound::Included(key),
            Edge::Excluded { key } => std::ops::Bound::Excluded(key),
        }
    }
}

worded! {
    /// Which keys an iterator walks.
    Bounds {
        /// Every key.
        All "all" {}
        /// Keys that begin so.
        Prefix "prefix" { /** The prefix. */ prefix: Bytes }
        /// Keys between two ends.
        Range "range" { /** Where it starts. */ start: Edge, /** Where it ends. */ end: Edge }
    }
}

worded! {
    /// One step of an open iterator.
    Move {
        /// `next`
        Next "next" {}
        /// `next_back`
        Back "back" {}
        /// `seek`
        Seek "seek" { /** The key. */ key: Bytes }
        /// `seek_back`
        SeekBack "seek-back" { /** The key. */ key: Bytes }
        /// The lending form of `next`.
        Advance "advance" {}
        /// The lending form of `next_back`.
        AdvanceBack "advance-back" {}
    }
}

worded! {
    /// One step of a life.
    Operation {
        /// A change, committed at once.
        Write "write" { /** The change. */ change: Change }
        /// Changes in one batch, over any keyspaces.
        Batch "batch" { /** Commit it durably. */ sync: bool, /** The changes. */ changes: Vec<Change> }
        /// `get`
        Get "get" { /** State read. */ view: View, /** Keyspace slot. */ space: u8, /** Key. */ key: Bytes }
        /// `get_into`
        GetInto "get-into" { /** State read. */ view: View, /** Keyspace slot. */ space: u8, /** Key. */ key: Bytes }
        /// `contains_key`
        Contains "contains" { /** State read. */ view: View, /** Keyspace slot. */ space: u8, /** Key. */ key: Bytes }
        /// `multi_get`
        MultiGet "multi-get" { /** State read. */ view: View, /** Keyspace slot. */ space: u8, /** Keys. */ keys: Vec<Bytes> }
        /// A whole walk from one end, with a new iterator.
        Scan "scan" {
            /** State read. */ view: View, /** Keyspace slot. */ space: u8, /** Keys walked. */ bounds: Bounds,
            /** From the back. */ backward: bool, /** Only keys are asked for. */ keys_only: bool, /** At most so many. */ limit: u16,
        }
        /// Opens an iterator in a slot.
        Open "open" { /** Iterator slot. */ slot: u8, /** State read. */ view: View, /** Keyspace slot. */ space: u8, /** Keys walked. */ bounds: Bounds }
        /// Moves an open iterator.
        Walk "walk" { /** Iterator slot. */ slot: u8, /** The moves. */ moves: Vec<Move> }
        /// Drops an iterator.
        Shut "shut" { /** Iterator slot. */ slot: u8 }
        /// Takes a snapshot into a slot.
        Snapshot "take-snapshot" { /** Snapshot slot. */ slot: u8 }
        /// Drops a snapshot.
        Release "release-snapshot" { /** Snapshot slot. */ slot: u8 }
        /// Begins a transaction in a slot.
        Begin "begin" { /** Transaction slot. */ slot: u8 }
        /// A change in a transaction.
        Stage "stage" { /** Transaction slot. */ slot: u8, /** The change. */ change: Change }
        /// Commits a transaction.
        Commit "commit" { /** Transaction slot. */ slot: u8 }
        /// Gives a transaction up.
        Rollback "rollback" { /** Transaction slot. */ slot: u8 }
        /// Bulk load; the life sorts and deduplicates the keys.
        Ingest "ingest" { /** Keyspace slot. */ space: u8, /** Keys and values. */ entries: Vec<(Bytes, Value)> }
        /// `flush` of one keyspace.
        Flush "flush" { /** Keyspace slot. */ space: u8 }
        /// `flush` of all.
        FlushAll "flush-all" {}
        /// `compact_range`
        Compact "compact" { /** Keyspace slot. */ space: u8, /** Where it starts. */ start: Edge, /** Where it ends. */ end: Edge }
        /// `step`, so many times.
        Step "step" { /** How often. */ times: u8 }
        /// `wait_idle`
        Idle "idle" {}
        /// `sync`
        Sync "sync" {}
        /// `checkpoint`, opened and compared.
        Checkpoint "checkpoint" {}
        /// `drop_keyspace`; the default one stays.
        DropSpace "drop-keyspace" { /** Keyspace slot. */ space: u8 }
        /// Creates the keyspace if it was dropped.
        CreateSpace "create-keyspace" { /** Keyspace slot. */ space: u8 }
        /// Closes and opens the database. Snapshots, iterators and transactions end.
        Reopen "reopen" { /** Seed of other options for the default keyspace and memory; 0 for the same. */ change: u32 }
        /// As when the process is killed: the files stay as they are, the database is opened on
        /// them.
        Kill "kill" {}
        /// Moves the clock.
        Advance "clock" { /** Milliseconds. */ ms: u32 }
        /// Sets a knob to something else that is legal then.
        Tune "tune" { /** Seed of the change. */ seed: u32 }
        /// A tuner looks at the database; the first look attaches it.
        Look "look" { /** Number of its agent. */ agent: u8 }
        /// `verify`
        Verify "verify" {}
    }
}

impl std::str::FromStr for Operation {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let mut words = Words::new(line);
        let operation = Operation::read(&mut words)?;
        match words.peek() {
            "" => Ok(operation),
            more => Err(format!("{more:?} follows a whole operation")),
        }
    }
}

/// A life to be lived: the options to open the database with, and what is done to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// How the database is set up.
    pub setting: Setting,
    /// What happens, in order.
    pub operations: Vec<Operation>,
}

impl std::fmt::Display for Script {
    /// One line for the setting, then one for each operation.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}", self.setting)?;
        self.operations.iter().try_for_each(|operation| writeln!(f, "{operation}"))
    }
}

impl std::str::FromStr for Script {
    type Err = String;

    /// Reads what `Display` prints; blank lines and lines that begin with `#` are skipped.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut lines = text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
        let at_line = |number: usize| move |what: String| format!("line {}: {what}", number + 1);
        let (number, first) = lines.next().ok_or("an empty script")?;
        let setting = first.parse().map_err(at_line(number))?;
        let operations = lines
            .map(|(number, line)| line.parse().map_err(at_line(number)))
            .collect::<Result<Vec<Operation>, String>>()?;
        Ok(Script { setting, operations })
    }
}

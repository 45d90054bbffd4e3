//! What changes a tree: tables that leave their runs and tables that enter them.

use crate::{
    ids::{FileId, RunId, Seqno},
    key::KeyRange,
    table::TableDescriptor,
};

/// A table, or the clipped part of one, that leaves a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Removed {
    /// The level of its run.
    pub level: u32,
    /// Its run.
    pub run: RunId,
    /// Its file.
    pub file: FileId,
    /// Where its clip starts: one file may be in a run several times, with disjoint clips.
    pub clip_start: Box<[u8]>,
}

/// A table, or the clipped part of one, that enters a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Added {
    /// The level of its run.
    pub level: u32,
    /// Its run; a new one if the level has no run of this id.
    pub run: RunId,
    /// The table.
    pub descriptor: TableDescriptor,
    /// The part of the table that counts.
    pub clip: KeyRange,
}

/// One atomic change of one tree.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TreeEdit {
    /// What leaves, before anything enters.
    pub removed: Vec<Removed>,
    /// What enters.
    pub added: Vec<Added>,
    /// Every write up to this sequence number is in tables.
    pub flushed_seqno: Option<Seqno>,
}

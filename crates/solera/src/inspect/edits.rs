//! A manifest's edits in words: `write`, a change a line.
//!
//! It prints keyspaces created and dropped, tables added and removed with their place and clip,
//! settings, knobs by name, receipts, log ends and numbers.
//!
//! What must hold: every kind of change in an edit is printed. Of a receipt the tag is left out; of
//! a table, its layout, filter, key range and waste.
//!
//! Caller: `inspect::dump`, for each edit of a manifest.

use crate::{
    engine::recorded_settings,
    ids::KeyspaceId,
    key::{KEY_BYTES_MAX, KeyRange},
    knob::KnobId,
    table::TableDescriptor,
    version::{Assignment, Edit, Receipt, TreeEdit},
};
use std::{
    fmt::Display,
    io::{self, Write},
};

/// Prints edit number `number`, counted from 1.
pub(super) fn write(number: usize, edit: &Edit, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "edit {number}")?;
    for created in &edit.created {
        writeln!(
            out,
            "  keyspace {} is created: {:?}, {}",
            created.id,
            created.name,
            settings(&created.settings)
        )?;
    }
    for (keyspace, bytes) in &edit.settings {
        writeln!(out, "  keyspace {keyspace} has other settings: {}", settings(bytes))?;
    }
    edit.receipts.iter().try_for_each(|receipt| change(receipt, out))?;
    edit.assignments.iter().try_for_each(|assignment| knob(assignment, out))?;
    edit.trees.iter().try_for_each(|(keyspace, tree)| tables(*keyspace, tree, out))?;
    for keyspace in &edit.dropped {
        writeln!(out, "  keyspace {keyspace} is dropped")?;
    }
    let mut line = |name: &str, value: Option<&dyn Display>| match value {
        Some(value) => writeln!(out, "  {name} {value}"),
        None => Ok(()),
    };
    line("next file", edit.next_file.as_ref().map(|value| value as &dyn Display))?;
    line("next keyspace", edit.next_keyspace.as_ref().map(|value| value as &dyn Display))?;
    line("last sequence number", edit.last_seqno.as_ref().map(|value| value as &dyn Display))?;
    line("clock at least, Unix ms", edit.clock_high_ms.as_ref().map(|value| value as &dyn Display))?;
    line("oldest log", edit.oldest_log.as_ref().map(|value| value as &dyn Display))?;
    line("new log", edit.new_log.as_ref().map(|value| value as &dyn Display))?;
    for (log, end) in &edit.log_ends {
        writeln!(out, "  log {log} ends at byte {end}")?;
    }
    Ok(())
}

/// The settings that a keyspace is made with.
fn settings(bytes: &[u8]) -> String {
    match recorded_settings(bytes) {
        Ok(settings) => settings,
        Err(error) => format!("settings that are damaged: {error:?}"),
    }
}

fn change(receipt: &Receipt, out: &mut dyn Write) -> io::Result<()> {
    let Receipt { number, unix_ms, who, why, .. } = receipt;
    writeln!(out, "  change {number} of knobs at Unix ms {unix_ms}, by {who:?}: {why:?}")?;
    for changed in &receipt.changed {
        let level = changed.level.map_or(String::new(), |level| format!(" of level {level}"));
        writeln!(
            out,
            "    {}{level} in {:?}: {} to {}",
            changed.knob, changed.keyspace, changed.old, changed.new
        )?;
    }
    Ok(())
}

fn knob(assignment: &Assignment, out: &mut dyn Write) -> io::Result<()> {
    let knob = match KnobId::from_number(assignment.knob) {
        Some(knob) => format!("{knob:?}"),
        None => format!("number {}, which this release does not know", assignment.knob),
    };
    let place =
        assignment.keyspace.map_or("the database".to_owned(), |keyspace| format!("keyspace {keyspace}"));
    let level = assignment.level.map_or(String::new(), |level| format!(", level {level}"));
    let value = assignment.value.as_deref().unwrap_or("as if nobody had set it");
    writeln!(out, "  knob {knob} of {place}{level}: {value}")
}

fn tables(keyspace: KeyspaceId, tree: &TreeEdit, out: &mut dyn Write) -> io::Result<()> {
    for removed in &tree.removed {
        let start = removed.clip_start.escape_ascii();
        writeln!(
            out,
            "  keyspace {keyspace}: table {} leaves level {}, run {}, from \"{start}\" on",
            removed.file, removed.level, removed.run
        )?;
    }
    for added in &tree.added {
        writeln!(
            out,
            "  keyspace {keyspace}: table {} enters level {}, run {}, {}: {}",
            added.descriptor.file,
            added.level,
            added.run,
            range(&added.clip),
            content(&added.descriptor)
        )?;
    }
    if let Some(seqno) = tree.flushed_seqno {
        writeln!(out, "  keyspace {keyspace}: every write up to {seqno} is in tables")?;
    }
    for (file, values, bytes) in tree.values.changes() {
        writeln!(out, "  keyspace {keyspace}: value file {file}: {values:+} values, {bytes:+} bytes")?;
    }
    Ok(())
}

fn content(table: &TableDescriptor) -> String {
    format!(
        "{} bytes, {} blocks, {} entries ({} deletes, {} merges), {} range tombstones, sequence numbers {} to {}",
        table.bytes,
        table.blocks,
        table.entries,
        table.deletes,
        table.merges,
        table.range_tombstones,
        table.seqno_min,
        table.seqno_max
    )
}

fn range(range: &KeyRange) -> String {
    // A key longer than any stands for the end of keys.
    let key = range.end.key().filter(|key| key.len() <= KEY_BYTES_MAX);
    let end = key.map_or("the end".to_owned(), |key| format!("\"{}\"", key.escape_ascii()));
    format!("\"{}\" to {end}", range.start.escape_ascii())
}

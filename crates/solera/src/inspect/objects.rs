//! What is in one file of a database, for programs: `dump` prints a JSON object a line.
//!
//! Every object says in `is` what it is. Bytes stand as text under their name where they are UTF-8.
//! Else they stand as hexadecimal digits under the name and `_hex`, so nothing is lost or mistaken.
//!
//! What must hold: of a log, table or value file whose header and footer are whole, what lies
//! before damage is printed. A manifest is read as a whole first: a damaged one prints nothing.
//! Caller: `inspect::dump_json`.

use crate::{
    codec::DecodeError,
    cursor::Cursor,
    dir::FileName,
    engine::recorded_settings,
    error::{Error, Result},
    ids::FileId,
    key::{KEY_BYTES_MAX, KeyRange, Kind, Verb, split_expiry},
    knob::KnobId,
    table::{self, Access, TableDescriptor},
    values::{self, record::CHECKSUM_BYTES},
    version::{Edit, Manifest, TreeEdit},
    vfs::{Fs, read_all},
    wal::{
        self, Tail,
        batch::{BatchReader, Operation},
    },
};
use std::{
    fmt::{Display, Write as _},
    io::Write,
    path::Path,
    sync::Arc,
};

/// One object, under construction.
struct Object(String);

impl Object {
    fn new(is: &str) -> Object {
        Object(format!("{{\"is\":\"{is}\""))
    }

    fn number(mut self, name: &str, number: impl Display) -> Object {
        let _ = write!(self.0, ",\"{name}\":{number}");
        self
    }

    fn some(self, name: &str, number: Option<impl Display>) -> Object {
        match number {
            Some(number) => self.number(name, number),
            None => self,
        }
    }

    fn text(mut self, name: &str, text: &str) -> Object {
        let _ = write!(self.0, ",\"{name}\":\"");
        for character in text.chars() {
            let _ = match character {
                '"' | '\\' => write!(self.0, "\\{character}"),
                _ if character.is_control() => write!(self.0, "\\u{:04x}", u32::from(character)),
                _ => write!(self.0, "{character}"),
            };
        }
        self.0.push('"');
        self
    }

    fn bytes(self, name: &str, bytes: &[u8]) -> Object {
        match str::from_utf8(bytes) {
            Ok(text) => self.text(name, text),
            Err(_) => {
                let mut digits = String::with_capacity(bytes.len() * 2);
                for byte in bytes {
                    let _ = write!(digits, "{byte:02x}");
                }
                self.text(&format!("{name}_hex"), &digits)
            }
        }
    }

    /// From its start, up to its end if it has one; whose last key belongs to it or not.
    fn range(self, range: &KeyRange) -> Object {
        use crate::key::KeyEnd::{Excluded, Included, Unbounded};
        let object = self.bytes("from", &range.start);
        match &range.end {
            Included(last) => object.bytes("through", last),
            Excluded(end) => object.until(end),
            Unbounded => object,
        }
    }

    /// The end of deleted keys, unless that lies behind all keys.
    fn until(self, end: &[u8]) -> Object {
        if end.len() > KEY_BYTES_MAX { self } else { self.bytes("to", end) }
    }
}

/// Where objects go, and the file that they are about.
struct Lines<'o> {
    path: &'o Path,
    out: &'o mut dyn Write,
}

impl Lines<'_> {
    fn put(&mut self, object: Object) -> Result<()> {
        let print = |error| Error::io("print what is in", self.path, error);
        writeln!(self.out, "{}}}", object.0).map_err(print)
    }

    /// An entry as a table or a log holds it; `object` says where.
    fn entry(&mut self, object: Object, kind: Kind, key: &[u8], stored: Stored<'_>) -> Result<()> {
        let verb = match kind.verb() {
            Verb::Delete => "delete",
            Verb::Put => "put",
            Verb::Merge => "merge",
        };
        let object = object.text("verb", verb).bytes("key", key);
        let Stored(value) = stored;
        let (expires_ms, value) = match split_expiry(value).filter(|_| kind.expires()) {
            Some((moment, value)) => (Some(moment), value),
            None => (None, value),
        };
        let object = object.some("expires_ms", expires_ms);
        self.put(match (kind.verb(), kind.is_separated()) {
            (Verb::Delete, _) => object,
            (_, false) => object.bytes("value", value),
            (_, true) => match values::decode(value, key) {
                Ok(pointer) => {
                    let file = if pointer.sorted { "values" } else { "log" };
                    let object = object.text("value_in", file).number("value_file", pointer.file);
                    object.number("value_offset", pointer.offset).number("value_bytes", pointer.len)
                }
                Err(_) => object.bytes("damaged_pointer", value),
            },
        })
    }
}

/// What is stored with a key: the value, behind the moment of its expiry if it has one; or a
/// pointer in the place of the value.
struct Stored<'s>(&'s [u8]);

/// Prints the file at `path` to `out`.
pub(super) fn dump(fs: &Arc<dyn Fs>, path: &Path, out: &mut dyn Write) -> Result<()> {
    let mut lines = Lines { path, out };
    match FileName::of(path) {
        Some(FileName::Current) => {
            let content = read_all(&*fs.open(path)?)?;
            let line = content.strip_suffix(b"\n").unwrap_or(&content);
            lines.put(Object::new("current").bytes("line", line))?;
            Manifest::check_current(path, &content)
        }
        Some(FileName::Manifest(_)) => manifest(fs, &mut lines),
        Some(FileName::Log(id)) => log(fs, id, &mut lines),
        Some(FileName::Values(id)) => value_file(fs, id, &mut lines),
        Some(FileName::Table(_)) => table(fs, &mut lines),
        _ => Err(super::not_of_a_database(path)),
    }
}

fn manifest(fs: &Arc<dyn Fs>, lines: &mut Lines<'_>) -> Result<()> {
    let loaded = Manifest::read(&**fs, lines.path)?;
    lines.put(Object::new("manifest").number("database", loaded.database.0).number("bytes", loaded.bytes))?;
    for (number, edit) in (1..).zip(&loaded.edits) {
        changes(number, edit, lines)?;
    }
    match loaded.cut {
        Some(cut) => lines.put(Object::new("torn").number("offset", cut.offset).number("bytes", cut.bytes)),
        None => Ok(()),
    }
}

/// The changes of edit `number`, in the order in which they apply.
fn changes(number: usize, edit: &Edit, lines: &mut Lines<'_>) -> Result<()> {
    let of = |is: &str| Object::new(is).number("edit", number);
    let settings = |object: Object, bytes: &[u8]| match recorded_settings(bytes) {
        Ok(words) => object.text("settings", &words),
        Err(_) => object.bytes("damaged_settings", bytes),
    };
    for created in &edit.created {
        let object = of("keyspace created").number("keyspace", created.id).text("name", &created.name);
        lines.put(settings(object, &created.settings))?;
    }
    for (keyspace, bytes) in &edit.settings {
        lines.put(settings(of("keyspace settings").number("keyspace", keyspace), bytes))?;
    }
    for receipt in &edit.receipts {
        let object = of("change of knobs").number("number", receipt.number);
        let object = object.number("unix_ms", receipt.unix_ms).text("who", &receipt.who);
        lines.put(object.text("why", &receipt.why))?;
    }
    for assignment in &edit.assignments {
        let knob = KnobId::from_number(assignment.knob).map(|knob| format!("{knob:?}"));
        let object = of("knob").number("number", assignment.knob);
        let object = knob.into_iter().fold(object, |object, knob| object.text("knob", &knob));
        let object = object.some("keyspace", assignment.keyspace).some("level", assignment.level);
        let value = assignment.value.iter();
        lines.put(value.fold(object, |object, value| object.text("value", value)))?;
    }
    for (keyspace, tree) in &edit.trees {
        tables(tree, |is| of(is).number("keyspace", keyspace), lines)?;
    }
    for keyspace in &edit.dropped {
        lines.put(of("keyspace dropped").number("keyspace", keyspace))?;
    }
    for (log, end) in &edit.log_ends {
        lines.put(of("log end").number("log", log).number("offset", end))?;
    }
    let counters = of("counters").some("next_file", edit.next_file).some("next_keyspace", edit.next_keyspace);
    let counters = counters.some("last_seqno", edit.last_seqno).some("clock_high_ms", edit.clock_high_ms);
    lines.put(counters.some("oldest_log", edit.oldest_log).some("new_log", edit.new_log))
}

fn tables(tree: &TreeEdit, of: impl Fn(&str) -> Object, lines: &mut Lines<'_>) -> Result<()> {
    for removed in &tree.removed {
        let object = of("table leaves").number("table", removed.file).number("level", removed.level);
        lines.put(object.number("run", removed.run).bytes("from", &removed.clip_start))?;
    }
    for added in &tree.added {
        let object = of("table enters").number("table", added.descriptor.file);
        let object = object.number("level", added.level).number("run", added.run).range(&added.clip);
        lines.put(content(object, &added.descriptor))?;
    }
    if let Some(seqno) = tree.flushed_seqno {
        lines.put(of("flushed").number("seqno", seqno))?;
    }
    for (file, values, bytes) in tree.values.changes() {
        let object = of("pointers").number("value_file", file);
        lines.put(object.number("values", values).number("bytes", bytes))?;
    }
    Ok(())
}

fn content(object: Object, table: &TableDescriptor) -> Object {
    object
        .number("bytes", table.bytes)
        .number("blocks", table.blocks)
        .number("entries", table.entries)
        .number("deletes", table.deletes)
        .number("merges", table.merges)
        .number("range_tombstones", table.range_tombstones)
        .number("seqno_min", table.seqno_min)
        .number("seqno_max", table.seqno_max)
        .text("index", &table.layout.index.to_string())
        .text("filter", &table.filter.to_string())
}

fn log(fs: &Arc<dyn Fs>, id: FileId, lines: &mut Lines<'_>) -> Result<()> {
    let path = lines.path;
    let dir = path.parent().unwrap_or(Path::new(""));
    let database = wal::database_of(&**fs, path)?;
    let replayed = wal::replay(&**fs, dir, database, id, Tail::Open, |offset, payload| {
        let damaged = |error: DecodeError| error.in_file(path, offset);
        for operation in BatchReader::new(payload).map_err(damaged)? {
            let (seqno, operation) = operation.map_err(damaged)?;
            let of = |is, keyspace| {
                Object::new(is).number("offset", offset).number("seqno", seqno).number("keyspace", keyspace)
            };
            match operation {
                Operation::Entry { keyspace, kind, key, value } if kind.is_separated() => {
                    // A log holds the value itself, behind its moment and its checksum.
                    let (expires_ms, record) = match split_expiry(value).filter(|_| kind.expires()) {
                        Some((moment, record)) => (Some(moment), record),
                        None => (None, value),
                    };
                    let object = of("entry", keyspace).text("verb", "put").bytes("key", key);
                    let value = record.get(CHECKSUM_BYTES..).unwrap_or_default();
                    lines.put(object.some("expires_ms", expires_ms).bytes("value", value))?;
                }
                Operation::Entry { keyspace, kind, key, value } => {
                    lines.entry(of("entry", keyspace), kind, key, Stored(value))?;
                }
                Operation::DeleteRange { keyspace, start, end } => {
                    lines.put(of("delete range", keyspace).bytes("from", start).until(end))?;
                }
            }
        }
        Ok(())
    })?;
    lines.put(match replayed.cut {
        Some(cut) => Object::new("torn").number("offset", cut.offset).number("bytes", cut.bytes),
        None => Object::new("end").number("offset", replayed.end),
    })
}

fn value_file(fs: &Arc<dyn Fs>, id: FileId, lines: &mut Lines<'_>) -> Result<()> {
    let mut printed = Ok(());
    let walked = values::check_sorted(&**fs, lines.path, None, id, |key, pointer, value| {
        if printed.is_ok() {
            let object = Object::new("value").number("offset", pointer.offset);
            printed = lines.put(object.bytes("key", key).bytes("value", value));
        }
    });
    printed?;
    walked.map(drop)
}

fn table(fs: &Arc<dyn Fs>, lines: &mut Lines<'_>) -> Result<()> {
    let file = table::open_alone(fs, lines.path)?;
    let table = file.table()?;
    let descriptor = table.descriptor();
    let object = Object::new("table").number("table", descriptor.file).range(&descriptor.range);
    lines.put(content(object, descriptor))?;
    for tombstone in table.tombstones().iter() {
        let object = Object::new("delete range").number("seqno", tombstone.seqno);
        lines.put(object.bytes("from", &tombstone.start).until(&tombstone.end))?;
    }
    let mut cursor = file.cursor(&KeyRange::all(), Access::Sequential)?;
    cursor.seek_first()?;
    while cursor.valid() {
        let object = Object::new("entry").number("seqno", cursor.seqno());
        lines.entry(object, cursor.kind(), cursor.key(), Stored(cursor.value()))?;
        cursor.next()?;
    }
    Ok(())
}

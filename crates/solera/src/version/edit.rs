//! What changes a tree and what changes the database: `TreeEdit` and `Edit`, one record of the
//! manifest.
//!
//! A `TreeEdit` has tables `Removed` from runs and `Added` to them, and a tally of values. An
//! `Edit` has tree edits, keyspaces created and dropped, settings, numbers, logs, receipts and
//! assignments. `encode` and `decode` are its bytes; the comment of `Edit` is their table.
//! What must hold: an edit is applied whole or not at all, in the order of its fields. A field's
//! tag that is unknown was written by a newer release, and the edit is refused. A number that may
//! stand once and stands twice is damage.
//! Callers: `compaction::{plan, job}`, `engine` and `version::version` make tree edits; `engine`
//! (`store`, `open`, `change`, `assignments`, `checkpoint`) makes edits. `manifest` writes and
//! reads them; `inspect` prints them; `fuzz` decodes.

use super::receipt::{Assignment, Receipt};
use crate::{
    codec::{DecodeError, Decoder, put_bytes, put_varint},
    error::{Error, Result},
    ids::{FileId, KeyspaceId, RunId, SEQNO_MAX, Seqno},
    key::KeyRange,
    table::{
        TableDescriptor,
        descriptor::{decode_range, encode_range},
    },
    values::Tally,
};
use std::path::Path;

/// The newest format version of edits, and so of manifests.
pub(super) const FORMAT_VERSION: u32 = 1;

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
    /// Which pointers to value files come into the tables, and which leave them.
    pub values: Tally,
}

/// A keyspace that comes to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedKeyspace {
    /// Its number, never used before.
    pub id: KeyspaceId,
    /// Its name, not in use.
    pub name: String,
    /// Its settings, in the encoding of the code that obeys them.
    pub settings: Vec<u8>,
}

/// One atomic change of the database. Applied in the order of the fields.
///
/// ```text
/// edit      = field*
/// field     = tag:varint len:varint body[len]
/// ```
///
/// | tag | field | body |
/// |---|---|---|
/// | 1 | keyspace created | id:varint name_len:varint name settings |
/// | 2 | keyspace dropped | id:varint |
/// | 3 | settings of a keyspace | id:varint settings |
/// | 4 | tree | id:varint flushed (0, or 1 seqno:varint) n:varint removed\*n n:varint added\*n values |
/// | 5 | next file | number:varint |
/// | 6 | next keyspace | number:varint |
/// | 7 | last seqno | number:varint |
/// | 8 | high water of the clock | unix_ms:varint |
/// | 9 | oldest live log | file:varint |
/// | 10 | end of a log | file:varint bytes:varint |
/// | 11 | new log | file:varint |
/// | 12 | change of knobs | receipt |
/// | 13 | knob | assignment |
///
/// `removed = level:varint run:varint file:varint start_len:varint start`, `added = level:varint
/// run:varint descriptor clip`; `receipt` and `assignment` are told by docs/FORMAT.md. Fields 1 to
/// 4, 10, 12 and 13 may repeat, the others not. A tag that is not listed was written by a newer
/// release, and means something that must not be passed over.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Edit {
    /// Keyspaces that come to be, with empty trees.
    pub created: Vec<CreatedKeyspace>,
    /// Settings that replace those of a keyspace.
    pub settings: Vec<(KeyspaceId, Vec<u8>)>,
    /// Changes of knobs, for the record.
    pub receipts: Vec<Receipt>,
    /// Values of knobs.
    pub assignments: Vec<Assignment>,
    /// Changes of trees.
    pub trees: Vec<(KeyspaceId, TreeEdit)>,
    /// Keyspaces that cease, with their tables.
    pub dropped: Vec<KeyspaceId>,
    /// No file of this number or above is in use.
    pub next_file: Option<u64>,
    /// No keyspace of this number or above was ever in use.
    pub next_keyspace: Option<u32>,
    /// The largest sequence number given out, as far as the logs do not know better.
    pub last_seqno: Option<Seqno>,
    /// Readers saw this time, in Unix milliseconds: what had expired by then stays expired.
    pub clock_high_ms: Option<u64>,
    /// Logs before this one hold nothing that is not in tables.
    pub oldest_log: Option<FileId>,
    /// A log that exists from now on; nothing is written to it before. Its absence is damage.
    pub new_log: Option<FileId>,
    /// Where recovery found the end of logs that were not sealed ([`crate::wal::Tail::CutAt`]).
    pub log_ends: Vec<(FileId, u64)>,
}

mod tag {
    pub(super) const CREATED: u64 = 1;
    pub(super) const DROPPED: u64 = 2;
    pub(super) const SETTINGS: u64 = 3;
    pub(super) const TREE: u64 = 4;
    pub(super) const NEXT_FILE: u64 = 5;
    pub(super) const NEXT_KEYSPACE: u64 = 6;
    pub(super) const LAST_SEQNO: u64 = 7;
    pub(super) const CLOCK_HIGH_MS: u64 = 8;
    pub(super) const OLDEST_LOG: u64 = 9;
    pub(super) const LOG_END: u64 = 10;
    pub(super) const NEW_LOG: u64 = 11;
    pub(super) const RECEIPT: u64 = 12;
    pub(super) const ASSIGNMENT: u64 = 13;
}

impl Edit {
    /// An edit of one tree alone.
    pub fn of_tree(keyspace: KeyspaceId, edit: TreeEdit) -> Self {
        Edit { trees: vec![(keyspace, edit)], ..Edit::default() }
    }

    /// Appends the edit, as the module's table says.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut body = Vec::new();
        let mut field = |tag: u64, write: &dyn Fn(&mut Vec<u8>)| {
            body.clear();
            write(&mut body);
            put_varint(out, tag);
            put_bytes(out, &body);
        };
        for created in &self.created {
            field(tag::CREATED, &|body| {
                put_varint(body, created.id.0.into());
                put_bytes(body, created.name.as_bytes());
                body.extend_from_slice(&created.settings);
            });
        }
        for (keyspace, settings) in &self.settings {
            field(tag::SETTINGS, &|body| {
                put_varint(body, keyspace.0.into());
                body.extend_from_slice(settings);
            });
        }
        for receipt in &self.receipts {
            field(tag::RECEIPT, &|body| receipt.encode(body));
        }
        for assignment in &self.assignments {
            field(tag::ASSIGNMENT, &|body| assignment.encode(body));
        }
        for (keyspace, edit) in &self.trees {
            field(tag::TREE, &|body| {
                put_varint(body, keyspace.0.into());
                edit.encode(body);
            });
        }
        for keyspace in &self.dropped {
            field(tag::DROPPED, &|body| put_varint(body, keyspace.0.into()));
        }
        for (tag, number) in [
            (tag::NEXT_FILE, self.next_file),
            (tag::NEXT_KEYSPACE, self.next_keyspace.map(u64::from)),
            (tag::LAST_SEQNO, self.last_seqno),
            (tag::CLOCK_HIGH_MS, self.clock_high_ms),
            (tag::OLDEST_LOG, self.oldest_log.map(|file| file.0)),
            (tag::NEW_LOG, self.new_log.map(|file| file.0)),
        ] {
            if let Some(number) = number {
                field(tag, &|body| put_varint(body, number));
            }
        }
        for (file, end) in &self.log_ends {
            field(tag::LOG_END, &|body| {
                put_varint(body, file.0);
                put_varint(body, *end);
            });
        }
    }

    /// Reads what [`Edit::encode`] wrote. The bytes stand at `offset` of `file`, for messages.
    pub fn decode(file: &Path, offset: u64, bytes: &[u8]) -> Result<Edit> {
        let mut edit = Edit::default();
        let mut decoder = Decoder::new(bytes);
        let damaged = |error: DecodeError| error.in_file(file, offset);
        while decoder.remaining() > 0 {
            let tag = decoder.varint("a field's tag").map_err(damaged)?;
            let body = decoder.bytes("a field").map_err(damaged)?;
            let base = offset + (decoder.position() - body.len()) as u64;
            let known = edit.field(tag, &mut Decoder::new(body));
            if !known.map_err(|error| error.in_file(file, base))? {
                let (found, supported) = (FORMAT_VERSION + 1, FORMAT_VERSION);
                return Err(Error::NewerFormat { file: file.into(), found, supported });
            }
        }
        Ok(edit)
    }

    /// Reads one field; whether its tag is known.
    fn field(&mut self, tag: u64, body: &mut Decoder<'_>) -> Result<bool, DecodeError> {
        match tag {
            tag::CREATED => {
                let id = keyspace(body)?;
                let at_name = body.clone();
                let Ok(name) = std::str::from_utf8(body.bytes("a name")?) else {
                    return at_name.fail("a name in UTF-8");
                };
                let (name, settings) = (name.into(), rest(body)?);
                self.created.push(CreatedKeyspace { id, name, settings });
            }
            tag::DROPPED => self.dropped.push(keyspace(body)?),
            tag::SETTINGS => self.settings.push((keyspace(body)?, rest(body)?)),
            tag::RECEIPT => self.receipts.push(Receipt::decode(body)?),
            tag::ASSIGNMENT => self.assignments.push(Assignment::decode(body)?),
            tag::TREE => self.trees.push((keyspace(body)?, TreeEdit::decode(body)?)),
            tag::NEXT_FILE => once(&mut self.next_file, body, u64::MAX)?,
            tag::NEXT_KEYSPACE => {
                let mut next = self.next_keyspace.map(u64::from);
                once(&mut next, body, u32::MAX.into())?;
                self.next_keyspace = next.map(|next| next as u32);
            }
            tag::LAST_SEQNO => once(&mut self.last_seqno, body, SEQNO_MAX)?,
            tag::CLOCK_HIGH_MS => once(&mut self.clock_high_ms, body, u64::MAX)?,
            tag::OLDEST_LOG => {
                let mut log = self.oldest_log.map(|file| file.0);
                once(&mut log, body, u64::MAX)?;
                self.oldest_log = log.map(FileId);
            }
            tag::NEW_LOG => {
                let mut log = self.new_log.map(|file| file.0);
                once(&mut log, body, u64::MAX)?;
                self.new_log = log.map(FileId);
            }
            tag::LOG_END => {
                self.log_ends.push((FileId(body.varint("a log")?), body.varint("a length")?));
            }
            _ => return Ok(false),
        }
        body.clone().finish("the end of the field")?;
        Ok(true)
    }
}

fn keyspace(body: &mut Decoder<'_>) -> Result<KeyspaceId, DecodeError> {
    Ok(KeyspaceId(body.varint_up_to(u32::MAX.into(), "a keyspace")? as u32))
}

fn rest(body: &mut Decoder<'_>) -> Result<Vec<u8>, DecodeError> {
    Ok(body.take(body.remaining(), "settings")?.to_vec())
}

/// Reads a number that an edit has at most once.
fn once(slot: &mut Option<u64>, body: &mut Decoder<'_>, limit: u64) -> Result<(), DecodeError> {
    if slot.is_some() {
        return body.fail("a field only once");
    }
    *slot = Some(body.varint_up_to(limit, "a number")?);
    Ok(())
}

impl TreeEdit {
    fn encode(&self, out: &mut Vec<u8>) {
        match self.flushed_seqno {
            None => out.push(0),
            Some(seqno) => {
                out.push(1);
                put_varint(out, seqno);
            }
        }
        put_varint(out, self.removed.len() as u64);
        for removed in &self.removed {
            put_varint(out, removed.level.into());
            put_varint(out, removed.run.0);
            put_varint(out, removed.file.0);
            put_bytes(out, &removed.clip_start);
        }
        put_varint(out, self.added.len() as u64);
        for added in &self.added {
            put_varint(out, added.level.into());
            put_varint(out, added.run.0);
            added.descriptor.encode(out);
            encode_range(&added.clip, out);
        }
        self.values.encode(out);
    }

    fn decode(body: &mut Decoder<'_>) -> Result<TreeEdit, DecodeError> {
        let flushed_seqno = match body.u8("whether there is a flushed sequence number")? {
            0 => None,
            1 => Some(body.varint_up_to(SEQNO_MAX, "a sequence number")?),
            _ => return body.fail("whether there is a flushed sequence number"),
        };
        let mut edit = TreeEdit { flushed_seqno, ..TreeEdit::default() };
        // Counts are not trusted with memory: the lists grow by what is really there.
        for _ in 0..body.varint("a count of removed tables")? {
            edit.removed.push(Removed {
                level: level(body)?,
                run: RunId(body.varint("a run")?),
                file: FileId(body.varint("a file")?),
                clip_start: body.bytes("the start of a clip")?.into(),
            });
        }
        let added = body.varint("a count of added tables")?;
        // Of trees of one table there may be very many.
        edit.added.reserve_exact(added.min(1) as usize);
        for _ in 0..added {
            edit.added.push(Added {
                level: level(body)?,
                run: RunId(body.varint("a run")?),
                descriptor: TableDescriptor::decode(body)?,
                clip: decode_range(body)?,
            });
        }
        edit.values = Tally::decode(body)?;
        Ok(edit)
    }
}

fn level(body: &mut Decoder<'_>) -> Result<u32, DecodeError> {
    Ok(body.varint_up_to(u32::MAX.into(), "a level")? as u32)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{
        table::{Layout, waste::Waste},
        values::Pointer,
        version::{Changed, LEVELS_MAX},
    };
    use proptest::{collection::vec, option, prelude::*};

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        vec(any::<u8>(), 0..20)
    }

    fn range() -> impl Strategy<Value = KeyRange> {
        (bytes(), vec(any::<u8>(), 1..9), 0..3)
            .prop_map(|(start, more, kind)| match kind {
                0 => KeyRange::closed(&start, &[&start[..], &more].concat()),
                1 => KeyRange::half_open(&start, &[&start[..], &more].concat()),
                _ => KeyRange { start: start.into(), ..KeyRange::all() },
            })
            .boxed()
    }

    fn added() -> impl Strategy<Value = Added> {
        (any::<u32>(), any::<u64>(), any::<u64>(), 1u64..1 << 40, range(), range()).prop_map(
            |(level, run, file, entries, range, clip)| {
                let descriptor = TableDescriptor {
                    file: FileId(file),
                    bytes: entries * 70,
                    entries,
                    deletes: 0,
                    merges: 0,
                    range_tombstones: 3,
                    range,
                    seqno_min: 1,
                    seqno_max: SEQNO_MAX,
                    elided_seqno: 0,
                    blocks: 1,
                    index_bytes: 200,
                    filter_bytes: 1250,
                    key_bytes: 8000,
                    value_bytes: 50_000,
                    filter: Layout::default().filter.mean(),
                    layout: Layout::default(),
                    waste: Waste::default(),
                };
                Added { level, run: RunId(run), descriptor, clip }
            },
        )
    }

    fn removed() -> impl Strategy<Value = Removed> {
        (any::<u32>(), any::<u64>(), any::<u64>(), bytes()).prop_map(|(level, run, file, clip_start)| {
            Removed { level, run: RunId(run), file: FileId(file), clip_start: clip_start.into() }
        })
    }

    fn tally() -> impl Strategy<Value = Tally> {
        vec((1u64..9, any::<u32>(), any::<bool>()), 0..5).prop_map(|pointers| {
            let mut tally = Tally::default();
            for (file, len, comes) in pointers {
                let pointer = Pointer { file: FileId(file), offset: 0, len, sorted: file % 2 == 0 };
                if comes { tally.add(&pointer) } else { tally.take(&pointer) }
            }
            tally.without_rests()
        })
    }

    /// Any edit.
    pub(in crate::version) fn edit() -> impl Strategy<Value = Edit> {
        let id = || any::<u32>().prop_map(KeyspaceId);
        let tree = (vec(removed(), 0..3), vec(added(), 0..3), option::of(0..=SEQNO_MAX), tally()).prop_map(
            |(removed, added, flushed_seqno, values)| TreeEdit { removed, added, flushed_seqno, values },
        );
        let created =
            (id(), ".*", bytes()).prop_map(|(id, name, settings)| CreatedKeyspace { id, name, settings });
        let level = || option::of(0..LEVELS_MAX);
        let changed = (".*", ".*", level(), ".*", ".*")
            .prop_map(|(keyspace, knob, level, old, new)| Changed { keyspace, knob, level, old, new });
        let receipt = (any::<u64>(), any::<u64>(), ".*", ".*", ".*", vec(changed, 0..3)).prop_map(
            |(number, unix_ms, who, why, tag, changed)| Receipt { number, unix_ms, who, why, tag, changed },
        );
        let assignment = (option::of(id()), any::<u32>(), level(), option::of(".*"))
            .prop_map(|(keyspace, knob, level, value)| Assignment { keyspace, knob, level, value });
        let lists = (
            vec(created, 0..3),
            vec((id(), bytes()), 0..3),
            vec(receipt, 0..3),
            vec(assignment, 0..3),
            vec((id(), tree), 0..3),
            vec(id(), 0..3),
            vec((any::<u64>().prop_map(FileId), any::<u64>()), 0..3),
        );
        let numbers = (
            option::of(any::<u64>()),
            option::of(any::<u32>()),
            option::of(0..=SEQNO_MAX),
            option::of(any::<u64>()),
            option::of(any::<u64>().prop_map(FileId)),
            option::of(any::<u64>().prop_map(FileId)),
        );
        (lists, numbers).prop_map(|(lists, numbers)| {
            let (created, settings, receipts, assignments, trees, dropped, log_ends) = lists;
            let (next_file, next_keyspace, last_seqno, clock_high_ms, oldest_log, new_log) = numbers;
            Edit {
                created,
                settings,
                receipts,
                assignments,
                trees,
                dropped,
                next_file,
                next_keyspace,
                last_seqno,
                clock_high_ms,
                oldest_log,
                new_log,
                log_ends,
            }
        })
    }

    fn encoded(edit: &Edit) -> Vec<u8> {
        let mut bytes = Vec::new();
        edit.encode(&mut bytes);
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Edit> {
        Edit::decode(Path::new("MANIFEST-000001"), 100, bytes)
    }

    proptest! {
        #[test]
        fn edits_come_back_from_bytes(edit in edit()) {
            prop_assert_eq!(decode(&encoded(&edit)).unwrap(), edit);
        }

        #[test]
        fn a_cut_edit_is_refused_or_has_fewer_fields(edit in edit(), cut: prop::sample::Index) {
            let bytes = encoded(&edit);
            prop_assume!(!bytes.is_empty());
            if let Ok(part) = decode(&bytes[..cut.index(bytes.len())]) {
                prop_assert_ne!(part, edit);
            }
        }

        #[test]
        fn arbitrary_bytes_are_decoded_or_refused(bytes in vec(prop_oneof![0u8..12, any::<u8>()], 0..60)) {
            let _ = decode(&bytes);
        }
    }

    #[test]
    fn an_unknown_field_is_a_newer_release_and_names_the_file() {
        let mut bytes = encoded(&Edit { next_file: Some(7), ..Edit::default() });
        bytes.extend([100, 2, 0, 0]);
        match decode(&bytes) {
            Err(Error::NewerFormat { file, found: 2, supported: 1 }) => {
                assert_eq!(file, Path::new("MANIFEST-000001"));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_number_given_twice_is_damage_at_its_place() {
        let once = encoded(&Edit { last_seqno: Some(7), ..Edit::default() });
        match decode(&[&once[..], &once].concat()) {
            Err(Error::Corrupt { offset: 105, .. }) => {}
            other => panic!("{other:?}"),
        }
    }
}

//! What the engine knows of a table without opening it: `TableDescriptor`.
//!
//! It has file, bytes, counts, key range, smallest and largest sequence number, layout, filter, and
//! `Waste`. `encode` and `decode` are its bytes; `encode_range` and `decode_range` those of a key
//! range. `ingested_at` gives an ingested table its number; `hull` joins the ranges of entries and
//! tombstones.
//!
//! What must hold: it is stored in the manifest and in the table, and the engine believes the
//! manifest. The copy in the table lets the file be checked against the manifest (`same_file`) and
//! read without one. Numbers that contradict each other are refused.
//! Callers: `table::writer` makes it, `version::edit` stores it; `table`, `version`, `compaction`,
//! `engine`, `inspect` and `control` read it; `solera-sim` and `fuzz` decode it.

use super::{layout::Layout, waste::Waste};
use crate::{
    codec::{DecodeError, Decoder, put_bytes, put_end, put_varint},
    filter::FilterSpec,
    ids::{FileId, SEQNO_MAX, Seqno},
    key::{KeyEnd, KeyRange},
};

/// Everything that is known of a table without opening it.
#[derive(Clone, Debug, PartialEq)]
pub struct TableDescriptor {
    /// Its file.
    pub file: FileId,
    /// Length of the file, in bytes.
    pub bytes: u64,
    /// Point entries: versions of keys, not keys.
    pub entries: u64,
    /// Entries of kind [`crate::key::Kind::Delete`].
    pub deletes: u64,
    /// Entries of kind [`crate::key::Kind::Merge`].
    pub merges: u64,
    /// Range tombstones, as the table stores them: they may overlap.
    pub range_tombstones: u64,
    /// Hull of all keys and of all range tombstones.
    pub range: KeyRange,
    /// Smallest sequence number written to it, before any was elided.
    pub seqno_min: Seqno,
    /// Largest sequence number written to it, before any was elided.
    pub seqno_max: Seqno,
    /// What an elided sequence number of this table reads back as: 0, or the number under which the
    /// whole table was ingested.
    pub elided_seqno: Seqno,
    /// Data blocks.
    pub blocks: u32,
    /// Bytes that the index takes in the file, codec and checksum included.
    pub index_bytes: u64,
    /// Bytes that the filter takes in the file, codec and checksum included: never 0.
    pub filter_bytes: u64,
    /// Sum of the lengths of all entries' user keys.
    pub key_bytes: u64,
    /// Sum of the lengths of all entries' values.
    pub value_bytes: u64,
    /// The filter that it got: what the layout asked for, at its level.
    pub filter: FilterSpec,
    /// The keyspace's layout when it was written.
    pub layout: Layout,
    /// What it holds that is, or will be, of no use.
    pub waste: Waste,
}

impl TableDescriptor {
    /// Distinct keys, nearly: a table that was written before this was counted says as many as
    /// entries.
    pub fn keys(&self) -> u64 {
        self.entries - self.waste.repeated
    }

    /// The descriptor of the same table once it is ingested at `seqno`: all its entries, whose
    /// numbers were elided when it was written, then carry that one.
    pub fn ingested_at(mut self, seqno: Seqno) -> TableDescriptor {
        (self.seqno_min, self.seqno_max, self.elided_seqno) = (seqno, seqno, seqno);
        self
    }

    /// Whether `other` describes the same file. Sequence numbers may differ: ingestion gives them
    /// to a table after its file is finished.
    pub fn same_file(&self, other: &TableDescriptor) -> bool {
        let TableDescriptor { seqno_min, seqno_max, elided_seqno, .. } = *self;
        *self == TableDescriptor { seqno_min, seqno_max, elided_seqno, ..other.clone() }
    }

    /// Appends the descriptor: file, bytes, entries, deletes, merges, range tombstones (varints),
    /// range, seqno min, seqno max, elided seqno, blocks, index bytes, filter bytes, key bytes,
    /// value bytes (varints), filter, layout, waste.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for number in
            [self.file.0, self.bytes, self.entries, self.deletes, self.merges, self.range_tombstones]
        {
            put_varint(out, number);
        }
        encode_range(&self.range, out);
        for number in [
            self.seqno_min,
            self.seqno_max,
            self.elided_seqno,
            self.blocks.into(),
            self.index_bytes,
            self.filter_bytes,
            self.key_bytes,
            self.value_bytes,
        ] {
            put_varint(out, number);
        }
        self.filter.encode(out);
        self.layout.encode(out);
        self.waste.encode(out);
    }

    /// Reads what [`TableDescriptor::encode`] wrote; numbers that contradict each other are
    /// refused.
    pub fn decode(decoder: &mut Decoder<'_>) -> Result<TableDescriptor, DecodeError> {
        let descriptor = TableDescriptor {
            file: FileId(decoder.varint("a file number")?),
            bytes: decoder.varint("a file length")?,
            entries: decoder.varint("a count of entries")?,
            deletes: decoder.varint("a count of deletes")?,
            merges: decoder.varint("a count of merges")?,
            range_tombstones: decoder.varint("a count of range tombstones")?,
            range: decode_range(decoder)?,
            seqno_min: decoder.varint_up_to(SEQNO_MAX, "a sequence number")?,
            seqno_max: decoder.varint_up_to(SEQNO_MAX, "a sequence number")?,
            elided_seqno: decoder.varint_up_to(SEQNO_MAX, "a sequence number")?,
            blocks: decoder.varint_up_to(u32::MAX.into(), "a count of blocks")? as u32,
            index_bytes: decoder.varint("a size of the index")?,
            filter_bytes: decoder.varint("a size of the filter")?,
            key_bytes: decoder.varint("a sum of key lengths")?,
            value_bytes: decoder.varint("a sum of value lengths")?,
            filter: FilterSpec::decode(decoder)?,
            layout: Layout::decode(decoder)?,
            waste: Waste::decode(decoder)?,
        };
        let d = &descriptor;
        let sound = d.deletes.checked_add(d.merges).is_some_and(|sum| sum <= d.entries)
            && u64::from(d.blocks) <= d.entries
            && (d.blocks == 0) == (d.entries == 0)
            && (d.entries > 0 || d.range_tombstones > 0)
            && d.seqno_min <= d.seqno_max
            && !d.range.is_empty()
            && d.waste.is_sound(d.entries);
        if sound { Ok(descriptor) } else { decoder.fail("a table whose numbers agree") }
    }
}

/// The smallest range that holds the entries, from first to last key, and the range tombstones of a
/// table; `None` if it has neither.
pub(super) fn hull(entries: Option<KeyRange>, tombstones: Option<KeyRange>) -> Option<KeyRange> {
    match (entries, tombstones) {
        (Some(entries), Some(tombstones)) => Some(entries.hull(&tombstones)),
        (entries, tombstones) => entries.or(tombstones),
    }
}

/// Appends a key range: start, then how it ends (0 included, 1 excluded, 2 unbounded), then the
/// end.
pub fn encode_range(range: &KeyRange, out: &mut Vec<u8>) {
    put_bytes(out, &range.start);
    match &range.end {
        KeyEnd::Included(end) => {
            out.push(0);
            put_bytes(out, end);
        }
        KeyEnd::Excluded(end) => {
            out.push(1);
            put_end(out, end);
        }
        KeyEnd::Unbounded => out.push(2),
    }
}

/// Reads what [`encode_range`] wrote. The range may be empty.
pub fn decode_range(decoder: &mut Decoder<'_>) -> Result<KeyRange, DecodeError> {
    let start = decoder.bytes("the start of a range")?.into();
    let end = match decoder.u8("how a range ends")? {
        0 => KeyEnd::Included(decoder.bytes("the end of a range")?.into()),
        1 => KeyEnd::Excluded(decoder.end("the end of a range")?.into()),
        2 => KeyEnd::Unbounded,
        _ => return decoder.fail("how a range ends"),
    };
    Ok(KeyRange { start, end })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        filter::FilterKind,
        table::waste::{Cover, Expiring, Held},
        values::{Pointer, Tally},
    };
    use proptest::prelude::*;

    fn descriptor() -> TableDescriptor {
        TableDescriptor {
            file: FileId(7),
            bytes: 70_000,
            entries: 1000,
            deletes: 10,
            merges: 20,
            range_tombstones: 3,
            range: KeyRange::closed(b"a", b"z"),
            seqno_min: 5,
            seqno_max: 2000,
            elided_seqno: 0,
            blocks: 16,
            index_bytes: 200,
            filter_bytes: 1250,
            key_bytes: 8000,
            value_bytes: 50_000,
            filter: FilterSpec { kind: FilterKind::Ribbon, bits_per_key: 7.5 },
            layout: Layout::default(),
            waste: Waste {
                held: vec![Held { from: 7, to: 90, entries: 3, bytes: 200, apart: 70 }],
                expiring: vec![Expiring { until_ms: 5000, entries: 7, bytes: 500, apart: 0 }],
                tombstones_held: Some((7, 80)),
                covers: vec![Cover { start: (*b"c").into(), end: (*b"d").into(), seqno: 70 }],
                repeated: 12,
                pointers: {
                    let mut pointers = Tally::default();
                    for file in [3, 300] {
                        pointers.add(&Pointer { file: FileId(file), offset: 9, len: 70, sorted: file == 3 });
                    }
                    pointers
                },
            },
        }
    }

    fn encoded(descriptor: &TableDescriptor) -> Vec<u8> {
        let mut bytes = Vec::new();
        descriptor.encode(&mut bytes);
        bytes
    }

    #[test]
    fn descriptors_come_back_from_bytes() {
        for end in [KeyEnd::Included((*b"z").into()), KeyEnd::Excluded((*b"z").into()), KeyEnd::Unbounded] {
            let before = TableDescriptor { range: KeyRange { end, ..KeyRange::all() }, ..descriptor() };
            let bytes = encoded(&before);
            let mut decoder = Decoder::new(&bytes);
            assert_eq!(TableDescriptor::decode(&mut decoder).unwrap(), before);
            decoder.finish("the end").unwrap();
            for len in 0..bytes.len() {
                assert!(TableDescriptor::decode(&mut Decoder::new(&bytes[..len])).is_err());
            }
        }
    }

    #[test]
    fn numbers_that_contradict_each_other_are_refused() {
        for wrong in [
            TableDescriptor { deletes: 1001, ..descriptor() },
            TableDescriptor { blocks: 0, ..descriptor() },
            TableDescriptor { blocks: 1001, ..descriptor() },
            TableDescriptor { seqno_min: 2001, ..descriptor() },
            TableDescriptor {
                waste: Waste { held: vec![Held { entries: 1001, ..Held::default() }], ..Waste::default() },
                ..descriptor()
            },
            TableDescriptor {
                waste: Waste {
                    held: vec![Held { entries: 1, apart: 141, ..Held::default() }],
                    ..descriptor().waste
                },
                ..descriptor()
            },
            TableDescriptor { range: KeyRange::closed(b"z", b"a"), ..descriptor() },
            TableDescriptor {
                entries: 0,
                deletes: 0,
                merges: 0,
                blocks: 0,
                range_tombstones: 0,
                ..descriptor()
            },
        ] {
            assert!(TableDescriptor::decode(&mut Decoder::new(&encoded(&wrong))).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn an_ingested_table_is_still_the_same_file() {
        let ingested = descriptor().ingested_at(9000);
        assert!(ingested.same_file(&descriptor()));
        assert_eq!((ingested.seqno_min, ingested.elided_seqno), (9000, 9000));
        assert!(!ingested.same_file(&TableDescriptor { bytes: 1, ..descriptor() }));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_decoded_or_refused(bytes: Vec<u8>) {
            let _ = TableDescriptor::decode(&mut Decoder::new(&bytes));
        }
    }
}

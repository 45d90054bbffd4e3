//! An observation as bytes, for files that a database publishes and other processes read:
//! `Observation::encode` and `decode`.
//!
//! The comment of `OBSERVATION_VERSION` has the bytes: a magic, version and checksum, then every
//! field in order. `MemoryUse::named` gives its numbers with names.
//!
//! What must hold: bytes are untrusted; damage and newer versions are refused by name. Counts are
//! in the order of their lists in `stats`; a release that changes a list writes another version, or
//! adds at its end.
//!
//! Callers: `control::publish` (both ways).

use super::observation::{
    KeyspaceObservation, LayoutObservation, Level0Observation, LevelObservation, MemoryUse, Observation,
    Setting,
};
use crate::{
    codec::{DecodeError, Decoder, put_bytes, put_varint},
    compaction::SpaceUse,
    dir::magic,
    error::{Error, Result},
    ids::{DatabaseId, KeyspaceId},
    knob::Value,
    stats::{BUCKETS, Counters, Histogram, Latencies, LayoutCounters, LevelCounters, MergeCounters},
    table::LayoutTag,
};
use std::path::Path;

/// The newest version of the format, which is also the one written.
///
/// ```text
/// file       = magic[8] version:u32 checksum:u32 payload
/// payload    = database opened_unix_ms unix_ms window_us last_seqno snapshots bytes_written_log
///              value_reads value_bytes_read changes memory failure settings keyspaces
/// failure    = 0 | 1 text
/// setting    = knob:text (0 | 1 keyspace:text) level+1 value:text is_set:u8
/// keyspace   = id name:text counts histogram[4] memtable_bytes memtable_entries sealed
///              running_plans space separated_values separated_bytes level0 levels
///              layouts
/// space      = live old_versions tombstones expired unmerged value_garbage debt  bytes
///              merged                                             bytes per second
/// level0     = waits:u8 due_runs rent_ns price_ns
/// level      = level runs tables entries bytes capacity_bytes run_limit run_limit_wanted
///              filter_bits_per_key:f64 counts counts
/// layout     = (0 | 1 tag) tables entries bytes counts
/// ```
///
/// Numbers are varints unless said otherwise; texts are a length and UTF-8; counts, histograms,
/// memory and lists are their number and then each. The checksum is CRC-32C of the payload. Counts
/// are in the order of their lists in `stats`; a release that changes a list writes another
/// version.
pub const OBSERVATION_VERSION: u32 = 3;
const HEADER_BYTES: usize = 16;
/// Most numbers in one list of counts that are looked at.
const COUNTS_MAX: u64 = 1024;

impl Observation {
    /// The observation as bytes, for [`Observation::decode`] of this release and later ones.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; HEADER_BYTES];
        self.encode_payload(&mut out);
        out[..8].copy_from_slice(&magic::OBSERVATION);
        out[8..12].copy_from_slice(&OBSERVATION_VERSION.to_le_bytes());
        let checksum = crc32c::crc32c(&out[HEADER_BYTES..]);
        out[12..16].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    /// Reads what [`Observation::encode`] wrote, the content of the file at `path`, which is only
    /// named.
    ///
    /// # Errors
    /// [`Error::NewerFormat`], [`Error::OlderFormat`], [`Error::Invalid`] for a version of an older
    /// release, and [`Error::Corrupt`] for anything else than an observation.
    pub fn decode(path: &Path, bytes: &[u8]) -> Result<Observation> {
        let Some((header, payload)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Err(Error::corrupt(path, bytes.len() as u64, "the file ends inside its header"));
        };
        magic::refuse_older(path, bytes)?;
        if header[..8] != magic::OBSERVATION {
            return Err(Error::corrupt(path, 0, "this is not an observation of a Solera database"));
        }
        let number = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| header[at + i]));
        if number(8) == 0 {
            return Err(Error::corrupt(path, 8, "there is no version 0 of observations"));
        }
        if number(8) > OBSERVATION_VERSION {
            let (file, found) = (path.into(), number(8));
            return Err(Error::NewerFormat { file, found, supported: OBSERVATION_VERSION });
        }
        if number(8) < OBSERVATION_VERSION {
            return Err(Error::Invalid(format!(
                "{}: an observation of version {}, and this release reads version {OBSERVATION_VERSION}; look with the \
                 release that has the database open, or open it with this one",
                path.display(),
                number(8)
            )));
        }
        if number(12) != crc32c::crc32c(payload) {
            return Err(Error::corrupt(path, HEADER_BYTES as u64, "the observation fails its checksum"));
        }
        let mut decoder = Decoder::new(payload);
        let decoded = Observation::decode_payload(&mut decoder)
            .and_then(|observation| decoder.finish("the end of the observation").map(|()| observation));
        decoded.map_err(|error| error.in_file(path, HEADER_BYTES as u64))
    }

    fn encode_payload(&self, out: &mut Vec<u8>) {
        for number in [
            self.database.0,
            self.opened_unix_ms,
            self.unix_ms,
            self.window_us,
            self.last_seqno,
            self.snapshots,
            self.bytes_written_log,
            self.value_reads,
            self.value_bytes_read,
            self.changes,
        ] {
            put_varint(out, number);
        }
        put_counts(out, self.memory.to_numbers());
        put_optional(out, self.background_failure.as_deref());
        put_list(out, &self.settings, |out, setting| {
            put_bytes(out, setting.knob.as_bytes());
            put_optional(out, setting.keyspace.as_deref());
            put_varint(out, setting.level.map_or(0, |level| u64::from(level) + 1));
            put_bytes(out, setting.value.to_string().as_bytes());
            out.push(setting.is_set.into());
        });
        put_list(out, &self.keyspaces, |out, keyspace| keyspace.encode(out));
    }

    fn decode_payload(from: &mut Decoder<'_>) -> Result<Observation, DecodeError> {
        let mut number = || from.varint("a number of the database");
        Ok(Observation {
            database: DatabaseId(number()?),
            opened_unix_ms: number()?,
            unix_ms: number()?,
            window_us: number()?,
            last_seqno: number()?,
            snapshots: number()?,
            bytes_written_log: number()?,
            value_reads: number()?,
            value_bytes_read: number()?,
            changes: number()?,
            memory: MemoryUse::from_numbers(&counts(from)?),
            background_failure: optional(from, "a failure")?,
            settings: list(from, |from| {
                Ok(Setting {
                    knob: text(from, "a knob's name")?,
                    keyspace: optional(from, "a keyspace's name")?,
                    level: level(from)?,
                    value: Value::parse(&text(from, "a knob's value")?),
                    is_set: from.u8("whether a knob is set")? != 0,
                })
            })?,
            keyspaces: list(from, KeyspaceObservation::decode)?,
        })
    }
}

impl MemoryUse {
    fn to_numbers(self) -> impl Iterator<Item = u64> {
        self.named().into_iter().map(|(_, bytes)| bytes)
    }

    fn from_numbers(numbers: &[u64]) -> MemoryUse {
        let mut numbers = numbers.iter().copied();
        let mut next = || numbers.next().unwrap_or(0);
        MemoryUse {
            budget_bytes: next(),
            memtable_bytes: next(),
            index_bytes: next(),
            filter_bytes: next(),
            table_bytes: next(),
            cache_bytes: next(),
            cache_capacity_bytes: next(),
            kept_bytes: next(),
            lent_bytes: next(),
        }
    }

    /// Every number with its name.
    pub fn named(&self) -> [(&'static str, u64); 9] {
        [
            ("budget_bytes", self.budget_bytes),
            ("memtable_bytes", self.memtable_bytes),
            ("index_bytes", self.index_bytes),
            ("filter_bytes", self.filter_bytes),
            ("table_bytes", self.table_bytes),
            ("cache_bytes", self.cache_bytes),
            ("cache_capacity_bytes", self.cache_capacity_bytes),
            ("kept_bytes", self.kept_bytes),
            ("lent_bytes", self.lent_bytes),
        ]
    }
}

impl KeyspaceObservation {
    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.id.0.into());
        put_bytes(out, self.name.as_bytes());
        put_counts(out, self.counters.named().map(|(_, count)| count));
        for (_, histogram) in self.latencies.named() {
            put_counts(out, histogram.counts().iter().copied());
        }
        for number in [self.memtable_bytes, self.memtable_entries, self.sealed_memtables, self.running_plans]
        {
            put_varint(out, number);
        }
        self.space.named().into_iter().for_each(|(_, number)| put_varint(out, number));
        put_varint(out, self.separated_values);
        put_varint(out, self.separated_bytes);
        self.level0.encode(out);
        put_list(out, &self.levels, |out, level| level.encode(out));
        put_list(out, &self.layouts, |out, layout| layout.encode(out));
    }

    fn decode(from: &mut Decoder<'_>) -> Result<KeyspaceObservation, DecodeError> {
        Ok(KeyspaceObservation {
            id: KeyspaceId(from.varint_up_to(u32::MAX.into(), "a keyspace")? as u32),
            name: text(from, "a keyspace's name")?,
            counters: Counters::from_numbers(&counts(from)?),
            latencies: Latencies {
                lookup_absent_ns: histogram(from)?,
                lookup_found_ns: histogram(from)?,
                scan_ns: histogram(from)?,
                write_ns: histogram(from)?,
            },
            memtable_bytes: from.varint("bytes of memtables")?,
            memtable_entries: from.varint("entries of memtables")?,
            sealed_memtables: from.varint("a count of memtables")?,
            running_plans: from.varint("a count of plans")?,
            space: space(from)?,
            separated_values: from.varint("a count of values")?,
            separated_bytes: from.varint("bytes of values")?,
            level0: Level0Observation::decode(from)?,
            levels: list(from, LevelObservation::decode)?,
            layouts: list(from, LayoutObservation::decode)?,
        })
    }
}

fn space(from: &mut Decoder<'_>) -> Result<SpaceUse, DecodeError> {
    let mut numbers = [0; 8];
    for number in &mut numbers {
        *number = from.varint("bytes by cause")?;
    }
    Ok(SpaceUse::from_numbers(numbers))
}

impl Level0Observation {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.waits.into());
        for number in [self.due_runs.into(), self.rent_ns, self.price_ns] {
            put_varint(out, number);
        }
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Level0Observation, DecodeError> {
        Ok(Level0Observation {
            waits: from.u8("whether level 0 waits")? != 0,
            due_runs: from.varint_up_to(u32::MAX.into(), "runs of level 0")? as u32,
            rent_ns: from.varint("what reads paid")?,
            price_ns: from.varint("what a merge costs")?,
        })
    }
}

impl LevelObservation {
    fn encode(&self, out: &mut Vec<u8>) {
        for number in [
            self.level.into(),
            self.runs,
            self.tables,
            self.entries,
            self.bytes,
            self.capacity_bytes,
            self.run_limit.into(),
            self.run_limit_wanted.into(),
        ] {
            put_varint(out, number);
        }
        out.extend_from_slice(&self.filter_bits_per_key.to_le_bytes());
        put_counts(out, self.reads.named().map(|(_, count)| count));
        put_counts(out, self.merges.named().map(|(_, count)| count));
    }

    fn decode(from: &mut Decoder<'_>) -> Result<LevelObservation, DecodeError> {
        Ok(LevelObservation {
            level: from.varint_up_to(u32::MAX.into(), "a level")? as u32,
            runs: from.varint("a count of runs")?,
            tables: from.varint("a count of tables")?,
            entries: from.varint("a count of entries")?,
            bytes: from.varint("bytes of a level")?,
            capacity_bytes: from.varint("a level's capacity")?,
            run_limit: from.varint_up_to(u32::MAX.into(), "a run limit")? as u32,
            run_limit_wanted: from.varint_up_to(u32::MAX.into(), "a run limit")? as u32,
            filter_bits_per_key: from.f64("bits of filter")?,
            reads: LevelCounters::from_numbers(&counts(from)?),
            merges: MergeCounters::from_numbers(&counts(from)?),
        })
    }
}

impl LayoutObservation {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.tag.is_some().into());
        self.tag.into_iter().for_each(|tag| put_varint(out, tag.to_number()));
        for number in [self.tables, self.entries, self.bytes] {
            put_varint(out, number);
        }
        put_counts(out, self.reads.named().map(|(_, count)| count));
    }

    fn decode(from: &mut Decoder<'_>) -> Result<LayoutObservation, DecodeError> {
        let tag = match from.u8("whether a layout is told")? {
            0 => None,
            _ => {
                let at = from.clone();
                let tag = LayoutTag::from_number(from.varint("a layout")?);
                Some(tag.map_or_else(|| at.fail("a known layout"), Ok)?)
            }
        };
        Ok(LayoutObservation {
            tag,
            tables: from.varint("a count of tables")?,
            entries: from.varint("a count of entries")?,
            bytes: from.varint("bytes of tables")?,
            reads: LayoutCounters::from_numbers(&counts(from)?),
        })
    }
}

fn put_counts(out: &mut Vec<u8>, counts: impl Iterator<Item = u64>) {
    let counts: Vec<u64> = counts.collect();
    put_list(out, &counts, |out, count| put_varint(out, *count));
}

fn counts(from: &mut Decoder<'_>) -> Result<Vec<u64>, DecodeError> {
    let len = from.varint_up_to(COUNTS_MAX, "a count of counts")?;
    (0..len).map(|_| from.varint("a count")).collect()
}

fn histogram(from: &mut Decoder<'_>) -> Result<Histogram, DecodeError> {
    const _: () = assert!(BUCKETS as u64 <= COUNTS_MAX);
    let at = from.clone();
    Histogram::from_counts(counts(from)?).map_or_else(|| at.fail("a histogram"), Ok)
}

fn put_list<T>(out: &mut Vec<u8>, items: &[T], put: impl Fn(&mut Vec<u8>, &T)) {
    put_varint(out, items.len() as u64);
    items.iter().for_each(|item| put(out, item));
}

fn list<'b, T>(
    from: &mut Decoder<'b>,
    item: impl Fn(&mut Decoder<'b>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    // The number is not trusted with memory: the list grows by what is really there.
    let len = from.varint("a length of a list")?;
    let mut items = Vec::new();
    for _ in 0..len {
        items.push(item(from)?);
    }
    Ok(items)
}

fn put_optional(out: &mut Vec<u8>, text: Option<&str>) {
    out.push(text.is_some().into());
    text.into_iter().for_each(|text| put_bytes(out, text.as_bytes()));
}

fn optional(from: &mut Decoder<'_>, what: &'static str) -> Result<Option<String>, DecodeError> {
    Ok(match from.u8(what)? {
        0 => None,
        _ => Some(text(from, what)?),
    })
}

fn text(from: &mut Decoder<'_>, what: &'static str) -> Result<String, DecodeError> {
    let at = from.clone();
    String::from_utf8(from.bytes(what)?.to_vec()).or_else(|_| at.fail("text in UTF-8"))
}

fn level(from: &mut Decoder<'_>) -> Result<Option<u32>, DecodeError> {
    let level = from.varint_up_to(u32::MAX.into(), "a level")?;
    Ok(level.checked_sub(1).map(|level| level as u32))
}

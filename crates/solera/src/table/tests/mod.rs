//! What the tests of tables share: a model table (a sorted vector of `Entry`), layouts, key
//! families, probes.
//!
//! `layouts` gives every index kind with both compressions and filters, `families` keys of many
//! shapes with one or more versions. `write` and `table_of` make real tables of a model in memory;
//! `probes` gives keys worth asking for.
//!
//! Callers: `cursors`, `damage`, `fresh`, `lookups`, `wanted`, `writing`, next door.

mod cursors;
mod damage;
mod fresh;
mod lookups;
mod wanted;
mod writing;

use super::*;
use crate::{
    block::Compression,
    filter::{FilterKind, Filters},
    ids::Seqno,
    index::IndexKind,
    key::Kind,
    tombstone::{RangeTombstone, RangeTombstones},
    vfs::mem::MemFs,
};

/// A reproducible source of numbers.
pub(super) struct Rng(pub(super) u64);

impl Rng {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// What a model table holds, in order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) key: Vec<u8>,
    pub(super) seqno: Seqno,
    pub(super) kind: Kind,
    pub(super) value: Vec<u8>,
}

pub(super) fn put(key: impl Into<Vec<u8>>, seqno: Seqno) -> Entry {
    let key = key.into();
    let value = format!("value of {} at {seqno}", key.escape_ascii()).into_bytes();
    Entry { key, seqno, kind: Kind::Put, value }
}

pub(super) fn context(fs: &MemFs, cache_bytes: usize) -> Arc<TableContext> {
    Arc::new(TableContext {
        fs: Arc::new(fs.clone()),
        dir: PathBuf::from("db"),
        database: DatabaseId(0xdb),
        direct_reads: false,
        cache: Cache::new(cache_bytes),
        stats: Arc::new(Stats::new()),
        wanted: Arc::default(),
    })
}

pub(super) fn fresh_fs() -> MemFs {
    let fs = MemFs::new();
    fs.create_dir_all("db".as_ref()).unwrap();
    fs
}

/// Writes a table of these entries and tombstones.
pub(super) fn write(
    context: &TableContext,
    file: u64,
    layout: &Layout,
    entries: &[Entry],
    tombstones: &RangeTombstones,
    elide_below: Seqno,
) -> TableDescriptor {
    let mut writer =
        TableWriter::create(context, FileId(file), layout, layout.filter.mean(), elide_below).unwrap();
    for entry in entries {
        writer.add(&entry.key, entry.seqno, entry.kind, &entry.value).unwrap();
    }
    writer.add_range_tombstones(tombstones.clone());
    writer.finish().unwrap().unwrap()
}

/// [`write`] and [`TableFile::new`], without tombstones and elision.
pub(super) fn table_of(context: &Arc<TableContext>, layout: &Layout, entries: &[Entry]) -> Arc<TableFile> {
    let descriptor = write(context, 1, layout, entries, &RangeTombstones::default(), 0);
    TableFile::new(context, Arc::new(descriptor))
}

/// Every index kind and compression, with small blocks; either kind of filter for half of them.
pub(super) fn layouts() -> impl Iterator<Item = Layout> {
    let kinds = IndexKind::ALL.into_iter();
    let compressions = Compression::ALL.into_iter().filter(|compression| compression.available());
    kinds.flat_map(move |index| {
        compressions.clone().map(move |compression| Layout {
            block_bytes: 512,
            index,
            epsilon: 4,
            filter: Filters::uniform(10.0)
                .with_last_level(FilterKind::ALL[(index as usize + compression as usize) % 2]),
            compression,
        })
    })
}

/// Keys of many shapes, each in order and without repetition.
pub(super) fn key_families() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let mut rng = Rng(7);
    let numbers = |mut numbers: Vec<u64>| -> Vec<Vec<u8>> {
        numbers.sort_unstable();
        numbers.dedup();
        numbers.into_iter().map(|number| number.to_be_bytes().to_vec()).collect()
    };
    let bytes = |mut keys: Vec<Vec<u8>>| -> Vec<Vec<u8>> {
        keys.sort();
        keys.dedup();
        keys
    };
    const N: u64 = 1500;
    let uniform = numbers((0..N).map(|_| rng.next()).collect());
    let lognormal = numbers(
        (0..N)
            .map(|_| {
                let normal = (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0;
                ((2.0 * normal).exp() * 1e9) as u64
            })
            .collect(),
    );
    let clustered = numbers(
        (0..N)
            .map(|i| {
                (i / 100).wrapping_mul(0x0123_4567_89ab_cdef)
                    + rng.below(if i % 3 == 0 { 1 << 30 } else { 200 })
            })
            .collect(),
    );
    let dense_with_gaps = numbers((0..N).map(|i| i + i / 50 * 1000).collect());
    let beyond_doubles = numbers((0..N).map(|i| u64::MAX - i * 3).chain([1 << 53, (1 << 53) + 1]).collect());
    let single_bytes = (0..=255u8).map(|byte| vec![byte]).chain([vec![]]).collect();
    let long_prefix =
        bytes((0..N).map(|i| [&[b'p'; 200][..], format!("{:05}", i * 7).as_bytes()].concat()).collect());
    let strings = bytes(
        (0..N)
            .map(|_| (0..rng.below(24)).map(|_| [0, 1, b'a', b'b', 255][rng.below(5) as usize]).collect())
            .collect(),
    );
    let urls = bytes(
        (0..N)
            .map(|_| {
                let host = rng.below(20);
                format!("https://host{host}.example/{:x}/{}", rng.below(1 << 12), rng.below(50)).into_bytes()
            })
            .collect(),
    );
    vec![
        ("uniform", uniform),
        ("lognormal", lognormal),
        ("clustered", clustered),
        ("dense with gaps", dense_with_gaps),
        ("beyond 2^53", beyond_doubles),
        ("single bytes and the empty key", bytes(single_bytes)),
        ("200 bytes of shared prefix", long_prefix),
        ("strings of few letters", strings),
        ("urls", urls),
        ("one key", vec![b"alone".to_vec()]),
        ("only the empty key", vec![vec![]]),
    ]
}

/// Families of entries: each key family with one version per key, and what versions make of it.
pub(super) fn families() -> Vec<(String, Vec<Entry>)> {
    let mut rng = Rng(11);
    let mut families = Vec::new();
    for (name, keys) in key_families() {
        families.push((name.to_owned(), keys.iter().map(|key| put(key.clone(), 5)).collect()));
    }
    let kinds = [Kind::Put, Kind::Delete, Kind::Merge, Kind::PutExpiring];
    let mut versions = Vec::new();
    for (_, keys) in key_families().into_iter().skip(5).step_by(2) {
        let mut entries = Vec::new();
        for key in keys {
            let count = if rng.below(60) == 0 { 200 } else { rng.below(6) + 1 };
            let mut seqno = 1_000_000;
            for _ in 0..count {
                seqno -= rng.below(100) + 1;
                let kind = kinds[rng.below(4) as usize];
                let mut entry = put(key.clone(), seqno);
                if kind == Kind::Delete {
                    entry.value.clear();
                }
                entries.push(Entry { kind, ..entry });
            }
        }
        versions.push(entries);
    }
    families.extend(versions.into_iter().enumerate().map(|(i, entries)| (format!("versions {i}"), entries)));
    let long_chain = (0..3000u64).rev().map(|seqno| put(*b"middle", seqno + 10));
    let chain = [put(*b"a", 9), put(*b"b", 9)].into_iter().chain(long_chain).chain([put(*b"n", 1)]);
    families.push(("one key fills many blocks".into(), chain.collect()));
    let only = (0..3000u64).rev().map(|seqno| put(*b"", seqno + 10));
    families.push(("the empty key fills many blocks".into(), only.collect()));
    let large = (0..20u8).map(|i| Entry { value: vec![i; 9000 * usize::from(i)], ..put([i], 3) });
    families.push(("large values".into(), large.collect()));
    families
}

/// Keys worth asking for: those of the table, close neighbours, and the ends.
pub(super) fn probes(entries: &[Entry]) -> Vec<Vec<u8>> {
    let mut keys = vec![vec![], vec![0], vec![255; 300], b"zzz".to_vec()];
    for entry in entries {
        let key = &entry.key;
        keys.push(key.clone());
        keys.push([&key[..], &[0]].concat());
        if let Some((last, rest)) = key.split_last() {
            keys.push(rest.to_vec());
            keys.push([rest, &[last.wrapping_add(1)]].concat());
            keys.push([rest, &[last.wrapping_sub(1), 255]].concat());
        }
    }
    keys.sort();
    keys.dedup();
    keys
}

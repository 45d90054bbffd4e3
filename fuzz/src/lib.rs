//! What the fuzz targets do with bytes, one function each. A function returns, or it found a defect.
//!
//! Checksums keep a fuzzer out, so that what lies behind one is given bytes without it as well. The corpora
//! begin with what the engine writes (`seeds`).

use solera::{
    Error, IndexKind, Layout, Shape,
    block::Block,
    codec::Decoder,
    cursor::{Cursor, Probe},
    filter::Filter,
    ids::{DatabaseId, FileId, SEQNO_MAX},
    index::{Index, handles::Handles, separators::Separators},
    inspect, key,
    key::KeyRange,
    table::{self, Access, TableDescriptor},
    tombstone::RangeTombstones,
    version::{Edit, Manifest, manifest},
    vfs::{Fs, mem::MemFs},
    wal::{self, Tail, batch::BatchReader},
};
use solera_sim::{
    life::{Pulse, live},
    random::Random,
    script::{Script, generate::Generator},
    setting::Setting,
};
use std::{path::Path, sync::Arc};

/// The directory in which files of bytes are put.
pub const DIR: &str = "/db";
/// The database to which the seeds belong.
pub const DATABASE: DatabaseId = DatabaseId(7);
/// The file that a log or a manifest is.
pub const FILE: FileId = FileId(1);

/// A file system with one file.
fn disk(name: &str, data: &[u8]) -> MemFs {
    let fs = MemFs::new();
    let path = Path::new(DIR).join(name);
    fs.create_dir_all(Path::new(DIR)).expect("memory does not fail");
    fs.create(&path).expect("memory does not fail");
    fs.set_content(&path, data).expect("memory does not fail");
    fs
}

/// Only damage may be found, and nothing else may go wrong.
fn damage_only<T>(result: Result<T, Error>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(Error::Corrupt { .. } | Error::NewerFormat { .. } | Error::NotADatabase { .. }) => None,
        Err(error) => panic!("not said to be damage: {error}"),
    }
}

/// A log: whole, and as the payload of one frame.
pub fn wal(data: &[u8]) {
    let fs = disk(&wal::file_name(FILE), data);
    for tail in [Tail::Open, Tail::Sealed, Tail::CutAt(data.len() as u64 / 2)] {
        let mut end = 0;
        let replayed = wal::replay(&fs, Path::new(DIR), DATABASE, FILE, tail, |offset, payload| {
            assert!(offset >= end && offset + payload.len() as u64 <= data.len() as u64);
            end = offset;
            operations(payload);
            Ok(())
        });
        if let Some(replayed) = damage_only(replayed) {
            assert!(replayed.end <= data.len() as u64);
        }
    }
    operations(data);
}

fn operations(payload: &[u8]) {
    let Ok(reader) = BatchReader::new(payload) else { return };
    let mut before = 0;
    for operation in reader {
        let Ok((seqno, operation)) = operation else { return };
        assert!(seqno > before || before == 0);
        before = seqno;
        let _ = operation.keyspace();
    }
}

/// A manifest: whole, and as one edit, which must come back from its own bytes.
pub fn manifest(data: &[u8]) {
    let name = manifest::file_name(FILE);
    let fs = disk(&name, data);
    let path = Path::new(DIR).join(&name);
    damage_only(Manifest::read(&fs, &path));
    if let Some(edit) = damage_only(Edit::decode(&path, 0, data)) {
        let mut again = Vec::new();
        edit.encode(&mut again);
        assert_eq!(Edit::decode(&path, 0, &again).expect("it was just encoded"), edit);
    }
}

/// A table file, opened without a manifest, checked, dumped and walked both ways.
pub fn table(data: &[u8]) {
    let path = Path::new(DIR).join(table::file_name(FILE));
    let fs: Arc<dyn Fs> = Arc::new(disk(&table::file_name(FILE), data));
    let mut dumped = Vec::new();
    let _ = inspect::dump(&fs, &path, &mut dumped);
    let Some(file) = damage_only(table::open_alone(&fs, &path)) else { return };
    let Some(mut cursor) = damage_only(file.cursor(&KeyRange::all(), Access::Cached)) else { return };
    let mut keys = Vec::new();
    if damage_only(cursor.seek_first()).is_none() {
        return;
    }
    while cursor.valid() && keys.len() < 10_000 {
        keys.push(cursor.key().to_vec());
        let _ = (cursor.value().len(), cursor.kind(), cursor.seqno(), cursor.pin_value());
        if damage_only(cursor.next()).is_none() {
            return;
        }
    }
    let guard = crossbeam_epoch::pin();
    for key in keys.iter().step_by(7) {
        let probe = Probe { key, hash: key::hash(key), snapshot: SEQNO_MAX };
        damage_only(file.table().and_then(|table| table.lookup(&probe, &guard, |hit| hit.value.len())));
        damage_only(cursor.seek_before(key));
    }
    damage_only(file.table().and_then(|table| table.check().map(drop)));
}


/// A block's payload, behind its checksum: every answer that it gives.
pub fn block(data: &[u8]) {
    let Ok(block) = Block::from_payload(data) else { return };
    let mut key = Vec::new();
    for i in 0..block.len().min(300) {
        block.key_into(i, &mut key);
        assert_eq!(key.len(), block.key_len(i));
        let _ = (block.kind(i), block.seqno(i, 5), block.value(i).len(), block.key_head(i), block.pin_value(i));
        assert!(block.find(&key) <= block.len());
        let probe = Probe { key: &key, hash: key::hash(&key), snapshot: SEQNO_MAX };
        if let Some(found) = block.lookup(&probe, 5) {
            assert!(block.key_eq(found, &key));
        }
    }
    let _ = (block.note().len(), block.continues(), block.ends_with(&key), block.line_error());
    // What is sorted is found, whatever the model says.
    if block.check().is_ok() {
        for i in 0..block.len().min(300) {
            block.key_into(i, &mut key);
            let first = (0..=i).find(|&j| block.same_key(i, j)).expect("it is its own");
            assert_eq!(block.find(&key), first);
        }
    }
}

/// An index section, behind its checksum, with every kind of index built of it; and model bytes.
pub fn index(data: &[u8]) {
    let mut input = data;
    let _ = solera_model::encode::take_line(&mut input);
    let mut input = data;
    if let Ok(keys) = solera_model::encode::take_sorted(&mut input) {
        assert!(keys.is_sorted());
    }
    let mut decoder = Decoder::new(data);
    let _ = Handles::decode(&mut decoder, 32..1 << 20);
    let mut decoder = Decoder::new(data);
    let Ok(separators) = Separators::decode(&mut decoder, 1 << 20) else { return };
    let sorted: Vec<&[u8]> = separators.iter().collect();
    for kind in IndexKind::ALL {
        let index = Index::build(kind, &separators);
        assert_eq!(index.blocks(), separators.len() + 1);
        for separator in &sorted {
            for key in [separator, &[separator, &[0][..]].concat()[..], &separator[..separator.len() / 2]] {
                let found = index.locate(key);
                assert!(found.first <= found.last && found.last < index.blocks());
                if sorted.is_sorted() {
                    let block = sorted.partition_point(|separator| *separator <= key);
                    let near = found.first.saturating_sub(index.reach())..=found.last + index.reach();
                    assert!(near.contains(&block), "{kind} {key:x?}: {found:?}, not {block}");
                }
            }
        }
    }
}

/// Everything else that is decoded.
pub fn values(data: &[u8]) {
    let _ = key::split_expiry(data);
    if let Ok(filter) = Filter::decode(data) {
        let _ = filter.may_contain(key::hash(data));
    }
    if let Ok(tombstones) = RangeTombstones::decode(data) {
        let mut again = Vec::new();
        tombstones.encode(&mut again);
        assert_eq!(RangeTombstones::decode(&again).expect("it was just encoded").len(), tombstones.len());
    }
    let _ = Shape::decode(&mut Decoder::new(data)).map(|shape| shape.capacity_bytes(3));
    let _ = Layout::decode(&mut Decoder::new(data));
    if let Ok(descriptor) = TableDescriptor::decode(&mut Decoder::new(data)) {
        let mut again = Vec::new();
        descriptor.encode(&mut again);
        assert_eq!(TableDescriptor::decode(&mut Decoder::new(&again)).expect("it was just encoded"), descriptor);
    }
}

/// A life of the whole engine beside its oracle: the first eight bytes are the setting, every three bytes
/// after them one operation.
pub fn script(data: &[u8]) {
    let Some((setting, operations)) = data.split_first_chunk() else { return };
    let seed = u64::from_le_bytes(*setting);
    let setting = Setting::random(&mut Random::new(seed));
    let operations = operations.chunks_exact(3).take(200).map(|chunk| {
        // Generators differ in their keys and weights: few of them, so that operations meet on keys.
        let mut random = Random::new(seed ^ u64::from(chunk[0] & 3));
        let mut generator = Generator::new(&setting, &mut random);
        generator.reseed(u64::from(u16::from_le_bytes([chunk[1], chunk[2]])));
        generator.operation()
    });
    let script = Script { operations: operations.collect(), setting: setting.clone() };
    if let Err(failure) = live(&script, &Pulse::default()) {
        panic!("{failure}\n{script}");
    }
}

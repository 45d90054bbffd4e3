//! What the fuzz targets do with bytes, one function each: `wal`, `manifest`, `trace`, `table`,
//! `block`, `index` and others.
//!
//! What must hold: a function returns, or it found a defect.
//!
//! Checksums keep a fuzzer out. So files are given twice, as they are and sealed again (`reseal`),
//! and what lies behind a checksum is given bytes without it as well. The corpora begin with what
//! the engine writes (`seeds`).
//!
//! Callers: the files in `fuzz_targets`, one for each function.

mod load;
pub mod reseal;

// The parsers of `solera load` are a command's, and a command is no library.
#[path = "../../crates/solera-cli/src/failure.rs"]
#[expect(dead_code, reason = "of the command's own file only what parsing needs is used")]
mod failure;
#[path = "../../crates/solera-cli/src/input/mod.rs"]
#[expect(dead_code, reason = "as above")]
mod input;
#[path = "../../crates/solera-cli/src/record/mod.rs"]
mod record;
#[path = "../../crates/solera-cli/src/units.rs"]
#[expect(dead_code, reason = "as above")]
mod units;

pub use load::load;

use solera::{
    Error, IndexKind, Layout, Shape,
    block::Block,
    codec::Decoder,
    cursor::{Cursor, Probe},
    dir::FileName,
    filter::Filter,
    ids::{DatabaseId, FileId, SEQNO_MAX},
    index::{Index, LastKeys, handles::Handles, separators::Separators},
    inspect, key,
    key::KeyRange,
    table::{self, Access, TableDescriptor},
    tombstone::RangeTombstones,
    trace,
    version::{Edit, Manifest},
    vfs::{Fs, mem::MemFs},
    wal::{self, Tail, batch::BatchReader},
};
use solera_model::{Line, search};
use solera_sim::{
    life::{Pulse, live},
    random::Random,
    script::{Script, generate::Generator},
    setting::Setting,
};
use std::{path::Path, sync::Arc};

/// The directory in which files of bytes are put.
pub const DIR: &str = "/db";
/// The file that a table is.
const TABLE: FileId = FileId(1);

/// A file system with one file.
fn disk(name: &str, data: &[u8]) -> MemFs {
    let fs = MemFs::new();
    let path = Path::new(DIR).join(name);
    fs.create_dir_all(Path::new(DIR)).expect("memory does not fail");
    fs.create(&path).expect("memory does not fail");
    fs.set_content(&path, data).expect("memory does not fail");
    fs
}

/// Whose file it is and which: what the header of a log or a manifest says.
fn whose(data: &[u8]) -> (DatabaseId, FileId) {
    let number = |at: usize| {
        data.get(at..).and_then(<[u8]>::first_chunk).map_or(1, |bytes| u64::from_le_bytes(*bytes))
    };
    (DatabaseId(number(8)), FileId(number(16)))
}

/// Only damage may be found, and nothing else may go wrong.
fn damage_only<T>(result: Result<T, Error>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(Error::Corrupt { .. } | Error::NewerFormat { .. } | Error::NotADatabase { .. }) => None,
        // A header whose checksum was made right may say an older format.
        Err(Error::OlderFormat { .. }) => None,
        Err(error) => panic!("not said to be damage: {error}"),
    }
}

/// The bytes as they are, and as `seal` seals them if that makes others of them.
fn and_sealed(data: &[u8], seal: impl FnOnce(&mut [u8]) -> Option<()>, each: impl Fn(&[u8])) {
    each(data);
    let mut sealed = data.to_vec();
    // What it could not seal is left as damage.
    let _ = seal(&mut sealed);
    if sealed != data {
        each(&sealed);
    }
}

/// A log: whole, and as the payload of one frame.
pub fn wal(data: &[u8]) {
    and_sealed(data, reseal::frames, replay);
    operations(data);
}

fn replay(data: &[u8]) {
    let (database, file) = whose(data);
    let fs = disk(&FileName::Log(file).to_string(), data);
    for tail in [Tail::Open, Tail::CutAt(data.len() as u64 / 2)] {
        let mut end = 0;
        let replayed = wal::replay(&fs, Path::new(DIR), database, file, tail, |offset, payload| {
            assert!(offset >= end && offset + payload.len() as u64 <= data.len() as u64);
            end = offset;
            operations(payload);
            Ok(())
        });
        if let Some(replayed) = damage_only(replayed) {
            assert!(replayed.end <= data.len() as u64);
        }
    }
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
    let name = FileName::Manifest(whose(data).1).to_string();
    let path = Path::new(DIR).join(&name);
    and_sealed(data, reseal::frames, |bytes| drop(damage_only(Manifest::read(&disk(&name, bytes), &path))));
    if let Some(edit) = damage_only(Edit::decode(&path, 0, data)) {
        let mut again = Vec::new();
        edit.encode(&mut again);
        assert_eq!(Edit::decode(&path, 0, &again).expect("it was just encoded"), edit);
    }
}

/// A trace: whole, and as one record, which must come back from its own bytes.
pub fn trace(data: &[u8]) {
    let path = Path::new(DIR).join("trace");
    and_sealed(data, reseal::frames, |bytes| {
        let mut after = 0;
        let read = trace::read(&disk("trace", bytes), &path, |traced| {
            assert!(traced.offset >= after && traced.offset < bytes.len() as u64);
            after = traced.offset;
            Ok(())
        });
        if let Some(ending) = damage_only(read) {
            assert!(ending.bytes + ending.cut_bytes <= bytes.len() as u64);
        }
    });
    if let Ok(record) = trace::Record::decode(&mut Decoder::new(data)) {
        let mut again = Vec::new();
        record.encode(&mut again);
        assert_eq!(trace::Record::decode(&mut Decoder::new(&again)).expect("it was just encoded"), record);
    }
}

/// A table file, opened without a manifest, checked, dumped and walked both ways.
pub fn table(data: &[u8]) {
    and_sealed(data, reseal::table, walk_and_ask);
}

fn walk_and_ask(data: &[u8]) {
    let path = FileName::Table(TABLE).in_dir(Path::new(DIR));
    let fs: Arc<dyn Fs> = Arc::new(disk(&FileName::Table(TABLE).to_string(), data));
    let mut dumped = Vec::new();
    let _ = inspect::dump(&fs, &path, &mut dumped);
    let Some(file) = damage_only(table::open_alone(&fs, &path)) else { return };
    let Some(mut cursor) = damage_only(file.cursor(&KeyRange::all(), Access::Cached(0))) else { return };
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
        damage_only(file.table().and_then(|table| table.lookup(0, &probe, &guard, |hit| hit.value().len())));
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
        let _ =
            (block.kind(i), block.seqno(i, 5), block.value(i).len(), block.key_len(i), block.pin_value(i));
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

/// An index of so many blocks (little-endian), whatever its kind: if it is one, it names blocks
/// that there are.
fn decode_index(blocks: [u8; 2], stored: &[u8]) {
    let blocks = usize::from(u16::from_le_bytes(blocks));
    for asked in IndexKind::ALL {
        let Ok(index) = Index::decode(&mut Decoder::new(stored), asked, blocks, 1 << 20) else { continue };
        for key in stored.chunks(9).chain([&[][..], &[0xff; 20]]) {
            let found = index.locate(key, |_| {});
            assert!(found.first() <= found.begin && found.begin <= found.last() && found.last() < blocks);
        }
    }
}

/// What an index section holds, behind its checksum, with every kind of index built of it. The
/// first four bytes are where the blocks end, and ε.
pub fn index(data: &[u8]) {
    let Some((&[low, middle, high, epsilon], section)) = data.split_first_chunk() else { return };
    let end = u64::from_le_bytes([low, middle, high, 0, 0, 0, 0, 0]);
    if end >= 32
        && let Ok(handles) = Handles::decode(&mut Decoder::new(section), 32..end)
    {
        assert_eq!((handles.offset(0), handles.offset(handles.blocks())), (32, end));
        assert!((0..handles.blocks()).all(|block| !handles.range(block).is_empty()));
    }
    decode_index([low, middle], section);
    let Ok(separators) = Separators::decode(&mut Decoder::new(section), 1 << 20) else { return };
    // What all begin with is left out of each.
    let whole: Vec<Vec<u8>> = separators.iter().map(|behind| [separators.begin(), behind].concat()).collect();
    let sorted: Vec<&[u8]> = whole.iter().map(|separator| &separator[..]).collect();
    assert!(sorted.is_sorted());
    let mut keys: Vec<Vec<u8>> = section.chunks(9).map(<[u8]>::to_vec).collect();
    for separator in &sorted {
        keys.extend([
            separator.to_vec(),
            [separator, &[0][..]].concat(),
            separator[..separator.len() / 2].to_vec(),
        ]);
    }
    // Blocks whose last keys are the separators below them, if those are keys of their own.
    let mut last_keys = LastKeys::new(2 * separators.len() as u64 + 1);
    let below = [&[][..]].into_iter().chain(separators.iter());
    below.zip(separators.iter()).for_each(|(below, _)| last_keys.push([below]));
    let ascend = sorted.windows(2).all(|pair| pair[0] < pair[1])
        && sorted.first().is_some_and(|first| !first.is_empty());
    let ascend = ascend && separators.begin().is_empty();
    let known = [None, ascend.then_some(&last_keys)];
    let built = IndexKind::ALL.into_iter().flat_map(|kind| known.map(|last_keys| (kind, last_keys)));
    for (kind, last_keys) in built {
        let built = Index::build(kind, epsilon.into(), &separators, last_keys);
        let mut stored = Vec::new();
        built.encode(&separators, &mut stored);
        let mut decoder = Decoder::new(&stored);
        let index =
            Index::decode(&mut decoder, kind, built.blocks(), 1 << 20).expect("an index that was encoded");
        assert_eq!((index.blocks(), decoder.remaining()), (separators.len() + 1, 0));
        for key in &keys {
            let found = index.locate(key, |_| {});
            assert!(
                found.first() <= found.begin && found.begin <= found.last() && found.last() < index.blocks()
            );
            let block = sorted.partition_point(|separator| *separator <= &key[..]);
            let near = found.first().saturating_sub(index.reach())..=found.last();
            assert!(near.contains(&block), "{kind} {key:x?}: {found:?}, not {block}");
        }
    }
}

/// A model that anybody could have written: a line, and heads of which it says where they are.
pub fn model(data: &[u8]) {
    let words: Vec<u64> = data.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let [slope, intercept, error, heads @ ..] = &words[..] else { return };
    let mut heads = heads.to_vec();
    let error = *error as usize;
    let line = Line::new(f64::from_bits(*slope), f64::from_bits(*intercept));
    for sorted in [false, true] {
        if sorted {
            heads.sort();
        }
        let Some(&x0) = heads.first() else { return };
        for x in heads.iter().flat_map(|head| [*head, head.wrapping_add(1), head.swap_bytes()]) {
            let guess = line.as_ref().map_or(error, |line| line.rank(x0, x, heads.len()));
            let found = search::lower_bound(&heads, x, guess, error);
            assert!(found <= heads.len());
            assert!(!sorted || found == heads.partition_point(|&head| head < x));
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
        assert_eq!(
            TableDescriptor::decode(&mut Decoder::new(&again)).expect("it was just encoded"),
            descriptor
        );
    }
}

/// A life of the whole engine beside its oracle: the first eight bytes are the setting, every three
/// bytes after them one operation.
pub fn script(data: &[u8]) {
    let Some((setting, operations)) = data.split_first_chunk() else { return };
    let seed = u64::from_le_bytes(*setting);
    let setting = Setting::random(&mut Random::new(seed));
    // They differ in their keys and weights: few of them, so that operations meet on keys. Made
    // once, because making one takes longer than its operation.
    let mut generators = [0, 1, 2, 3].map(|number| Generator::new(&setting, &mut Random::new(seed ^ number)));
    let operations = operations.chunks_exact(3).take(200).map(|chunk| {
        let generator = &mut generators[usize::from(chunk[0] & 3)];
        generator.reseed(u64::from(u16::from_le_bytes([chunk[1], chunk[2]])));
        generator.operation()
    });
    let script = Script { operations: operations.collect(), setting: setting.clone() };
    if let Err(failure) = live(&script, &Pulse::default()) {
        panic!("{failure}\n{script}");
    }
}

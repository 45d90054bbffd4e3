//! Tests of tables that were damaged or forged: answers are right or refused, never wrong.
//!
//! Every flipped byte gives right answers or errors, and opening or `Table::check` finds it. A file
//! that was cut or has grown is refused when opened. Each kind of wrong file has an error of its
//! own. Blocks that changed places are refused.
//!
//! With all checksums right, an index or fences that lie hide no key. An index of fewer blocks and
//! a filter of another kind are refused when opened. A filter that denies keys would hide them; the
//! check finds it. The check goes on after damage and names each place.

use super::{
    format::{Footer, Header},
    *,
};
use crate::{
    block::{open, seal},
    codec::Decoder,
    cursor::{Cursor, Probe},
    error::{Error, Result},
    filter::FilterBuilder,
    ids::SEQNO_MAX,
    index::{Index, LastKeys, handles::Handles, last_keys::KEPT_MAX, separators::Separators},
    key::{KeyRange, hash},
};

/// A few blocks of every kind: versions, a key that fills blocks, tombstones.
fn small_entries() -> Vec<Entry> {
    let mut entries: Vec<Entry> = (0..30u32).map(|i| put(format!("key {:03}", 3 * i), 9)).collect();
    entries.extend((0..25u64).rev().map(|seqno| put(*b"many", seqno + 1)));
    entries.extend((0..20u32).map(|i| put(format!("other {i:03}"), 9)));
    entries
}

fn small_table(fs: &MemFs, layout: &Layout) -> TableDescriptor {
    let tombstones = RangeTombstones::new(vec![RangeTombstone {
        start: (*b"key 010").into(),
        end: (*b"key 020").into(),
        seqno: 5,
    }]);
    write(&context(fs, 0), 1, layout, &small_entries(), &tombstones, 0)
}

fn path() -> PathBuf {
    PathBuf::from("db/000001.table")
}

fn lookup(file: &TableFile, key: &[u8], snapshot: Seqno) -> Result<Option<Vec<u8>>> {
    let guard = crossbeam_epoch::pin();
    let probe = Probe { key, hash: hash(key), snapshot };
    file.table()?.lookup(0, &probe, &guard, |hit| hit.value().to_vec())
}

/// Asks for everything in every way. The answers must be those of the entries, or errors; says
/// whether there was an error.
fn everything_is_right_or_refused(file: &Arc<TableFile>, entries: &[Entry]) -> bool {
    let mut refused = false;
    for key in probes(entries) {
        for snapshot in [SEQNO_MAX, 7] {
            let expected = entries.iter().find(|entry| entry.key == key && entry.seqno <= snapshot);
            match lookup(file, &key, snapshot) {
                Ok(found) => assert_eq!(found.as_ref(), expected.map(|entry| &entry.value)),
                Err(error) => {
                    assert!(matches!(error, Error::Corrupt { .. } | Error::NewerFormat { .. }), "{error}");
                    refused = true;
                }
            }
        }
    }
    for access in [Access::Cached(0), Access::Sequential] {
        let walk = |step: fn(&mut TableCursor) -> Result<()>, first: fn(&mut TableCursor) -> Result<()>| {
            let mut seen = Vec::new();
            let mut cursor = file.cursor(&KeyRange::all(), access)?;
            first(&mut cursor)?;
            while cursor.valid() {
                seen.push((cursor.key().to_vec(), cursor.seqno(), cursor.value().to_vec()));
                step(&mut cursor)?;
            }
            Ok::<_, Error>(seen)
        };
        let all = || entries.iter().map(|entry| (entry.key.clone(), entry.seqno, entry.value.clone()));
        match walk(TableCursor::next, TableCursor::seek_first) {
            Ok(seen) => assert!(seen == all().collect::<Vec<_>>()),
            Err(_) => refused = true,
        }
        match walk(TableCursor::prev, TableCursor::seek_last) {
            Ok(seen) => assert!(seen == all().rev().collect::<Vec<_>>()),
            Err(_) => refused = true,
        }
    }
    refused
}

/// Whether opening or checking the file reports damage.
fn found_damaged(file: &TableFile) -> bool {
    file.table().and_then(Table::check).map_or(true, |check| !check.problems.is_empty())
}

#[test]
fn every_flipped_byte_gives_right_answers_or_errors_and_is_found_by_the_check() {
    for (i, index) in IndexKind::ALL.into_iter().enumerate() {
        let compression = [Compression::None, Compression::Lz4][i % 2];
        let filter = Filters::uniform(10.0).with_last_level(FilterKind::ALL[i / 2 % 2]);
        let layout = Layout { block_bytes: 256, index, compression, epsilon: 4, filter };
        let fs = fresh_fs();
        let descriptor = Arc::new(small_table(&fs, &layout));
        let content = fs.content(&path()).unwrap();
        let entries = small_entries();
        for at in 0..content.len() {
            let mut damaged = content.clone();
            damaged[at] ^= [1 << (at % 8), 0xff][at / 8 % 2];
            fs.set_content(&path(), &damaged).unwrap();
            let file = TableFile::new(&context(&fs, 1 << 20), descriptor.clone());
            let refused = everything_is_right_or_refused(&file, &entries);
            assert!(refused, "byte {at} of {} is checked by somebody: {layout:?}", content.len());
            assert!(found_damaged(&file), "byte {at} of {}", content.len());
        }
    }
}

#[test]
fn a_file_cut_short_anywhere_or_grown_is_refused_when_opened() {
    let fs = fresh_fs();
    let descriptor = Arc::new(small_table(&fs, &Layout::default()));
    let content = fs.content(&path()).unwrap();
    let contents = (0..content.len()).map(|len| content[..len].to_vec());
    for changed in contents.chain([[&content[..], &[0]].concat(), [&content[..], &content[..]].concat()]) {
        fs.set_content(&path(), &changed).unwrap();
        let file = TableFile::new(&context(&fs, 0), descriptor.clone());
        assert!(matches!(file.table(), Err(Error::Corrupt { .. })), "{} bytes", changed.len());
        assert!(open_alone(&context(&fs, 0).fs, &path()).is_err(), "{} bytes", changed.len());
        // A failed opening is not remembered.
        fs.set_content(&path(), &content).unwrap();
        assert!(!everything_is_right_or_refused(&file, &small_entries()));
    }
}

#[test]
fn each_kind_of_wrong_file_has_its_own_error() {
    let fs = fresh_fs();
    let descriptor = small_table(&fs, &Layout::default());
    let content = fs.content(&path()).unwrap();
    let error_of = |content: &[u8], descriptor: &TableDescriptor, database: u64| {
        fs.set_content(&path(), content).unwrap();
        let context = TableContext { database: DatabaseId(database), ..(*context(&fs, 0)).clone() };
        let file = TableFile::new(&Arc::new(context), Arc::new(descriptor.clone()));
        file.table().err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(error_of(&content, &descriptor, 0xdb), "");

    let other_magic = [b"RocksDB!", &content[8..]].concat();
    assert!(error_of(&other_magic, &descriptor, 0xdb).contains("not a table"));

    let older = [b"SoleraTb", &content[8..]].concat();
    assert!(error_of(&older, &descriptor, 0xdb).contains("written by a build before 0.1"));

    let mut newer = content.clone();
    newer[8] = 2;
    let checksum = Header { database: DatabaseId(0xdb), file: FileId(1), version: 2 }
        .binding()
        .checksum(0, &newer[..28]);
    newer[28..32].copy_from_slice(&checksum.to_le_bytes());
    assert!(error_of(&newer, &descriptor, 0xdb).contains("format version 2 is newer than 1"));

    assert!(error_of(&content, &descriptor, 0xdc).contains("belongs to database 219, not to 220"));

    let other_number = TableDescriptor { file: FileId(2), ..descriptor.clone() };
    fs.set_content("db/000002.table".as_ref(), &content).unwrap();
    assert!(error_of(&content, &other_number, 0xdb).contains("holds table 1, not table 2"));

    assert!(error_of(&content[..content.len() - 1], &descriptor, 0xdb).contains("the manifest says"));
    let other_counts = TableDescriptor { entries: 99, ..descriptor.clone() };
    assert!(error_of(&content, &other_counts, 0xdb).contains("not what the manifest says"));
    let unfinished = [&content[..content.len() - 8], &[0; 8]].concat();
    assert!(error_of(&unfinished, &descriptor, 0xdb).contains("cut short or never finished"));

    fs.remove_file(&path()).unwrap();
    let missing = TableFile::new(&context(&fs, 0), Arc::new(descriptor)).table().unwrap_err();
    assert_eq!(missing.io_kind(), Some(std::io::ErrorKind::NotFound));
}

#[test]
fn blocks_that_changed_places_are_refused() {
    let fs = fresh_fs();
    let layout = Layout { block_bytes: 256, compression: Compression::None, ..Layout::default() };
    let entries: Vec<Entry> =
        (0..100u32).map(|i| Entry { value: vec![i as u8; 20], ..put(i.to_be_bytes(), 5) }).collect();
    let context = context(&fs, 0);
    let file = table_of(&context, &layout, &entries);
    let handles = &file.table().unwrap().handles;
    let (first, second) = (handles.range(1), handles.range(2));
    assert_eq!(first.end - first.start, second.end - second.start, "the test needs blocks of one size");
    let mut content = fs.content(&path()).unwrap();
    let moved = content[first.start as usize..first.end as usize].to_vec();
    content.copy_within(second.start as usize..second.end as usize, first.start as usize);
    content[second.start as usize..second.end as usize].copy_from_slice(&moved);
    fs.set_content(&path(), &content).unwrap();
    let file = TableFile::new(&context, file.descriptor().clone());
    assert!(everything_is_right_or_refused(&file, &entries));
    assert!(found_damaged(&file));
}

/// Writes the file anew with an index that is trained from other separators, and another filter,
/// all checksums right.
fn forge(
    fs: &MemFs,
    descriptor: &TableDescriptor,
    separators: impl FnOnce(&[Vec<u8>]) -> Vec<Vec<u8>>,
    filter: impl FnOnce(&[u8]) -> Vec<u8>,
) {
    let layout = descriptor.layout;
    let file = TableFile::new(&context(fs, 0), Arc::new(descriptor.clone()));
    let table = file.table().unwrap();
    let (mut last_keys, mut all) = (LastKeys::default(), Vec::new());
    for number in 0..table.blocks() {
        let block = table.read(number).unwrap();
        let mut keys: Vec<Vec<u8>> = (0..block.len())
            .map(|i| {
                let mut key = Vec::new();
                block.key_into(i, &mut key);
                key
            })
            .collect();
        keys.dedup();
        if number + 1 < table.blocks() {
            last_keys.push(&keys[keys.len().saturating_sub(KEPT_MAX)..]);
        }
        all.append(&mut keys);
    }
    all.dedup();
    last_keys.set_of(all.len() as u64);
    let index = |honest: &[Vec<u8>], section: &mut Vec<u8>| {
        let forged = separators(honest);
        // Of other separators nothing is known.
        let last_keys = (forged == honest && matches!(layout.index, IndexKind::Learned | IndexKind::Auto))
            .then_some(&last_keys);
        let forged: Separators = forged.iter().collect();
        Index::build(layout.index, layout.epsilon, &forged, last_keys).encode(&forged, section);
    };
    rewrite(fs, descriptor, index, filter);
}

/// Writes the file anew, with what `index` makes of the separators behind the sizes, and another
/// filter.
fn rewrite(
    fs: &MemFs,
    descriptor: &TableDescriptor,
    index_of: impl FnOnce(&[Vec<u8>], &mut Vec<u8>),
    filter: impl FnOnce(&[u8]) -> Vec<u8>,
) {
    let content = fs.content(&path()).unwrap();
    let header = Header::decode(content.first_chunk().unwrap(), &path()).unwrap();
    let binding = header.binding();
    let mut footer =
        Footer::decode(content.last_chunk().unwrap(), content.len() as u64, binding, &path()).unwrap();
    let payload = |from: u64, to: u64| {
        open(&content[from as usize..to as usize], binding, from, &path()).unwrap().into_owned()
    };
    let tombstones = payload(footer.tombstones, footer.filter);
    let filter = filter(&payload(footer.filter, footer.index));
    let mut index = payload(footer.index, footer.properties);
    let properties = payload(footer.properties, footer.offset());

    let mut decoder = Decoder::new(&index);
    Handles::decode(&mut decoder, footer.data()).unwrap();
    let at = decoder.position();
    let file = TableFile::new(&context(fs, 0), Arc::new(descriptor.clone()));
    let table = file.table().unwrap();
    let upper_fence = |number| {
        let (block, mut fence) = (table.read(number).unwrap(), Vec::new());
        assert!(table.fences(number, &block).unwrap().upper(&block, &mut fence));
        fence
    };
    let honest: Vec<Vec<u8>> = (0..table.blocks() - 1).map(upper_fence).collect();
    index.truncate(at);
    index_of(&honest, &mut index);

    let mut out = content[..footer.tombstones as usize].to_vec();
    let mut put = |payload: &[u8]| {
        let offset = out.len() as u64;
        seal(payload, Compression::None, binding, offset, &mut out);
        offset
    };
    footer.tombstones = put(&tombstones);
    footer.filter = put(&filter);
    footer.index = put(&index);
    footer.properties = put(&properties);
    footer.bytes = out.len() as u64 + 56;
    out.extend_from_slice(&footer.encode(binding));
    fs.set_content(&context(fs, 0).path(descriptor.file), &out).unwrap();
}

#[test]
fn an_index_that_lies_is_found_out_by_the_blocks() {
    let lies: [fn(&[Vec<u8>]) -> Vec<Vec<u8>>; 6] = [
        |honest| vec![vec![]; honest.len()],
        |honest| vec![vec![255; 9]; honest.len()],
        |honest| [&honest[1..], &[vec![255]]].concat(),
        |honest| [&[vec![0]], &honest[..honest.len() - 1]].concat(),
        |honest| {
            let mut rng = Rng(5);
            let mut random: Vec<_> =
                honest.iter().map(|_| honest[rng.below(honest.len() as u64) as usize].clone()).collect();
            random.sort();
            random
        },
        |honest| honest.iter().map(|separator| [&separator[..], &[0]].concat()).collect(),
    ];
    for layout in layouts() {
        let layout = Layout { block_bytes: 256, ..layout };
        for (i, lie) in lies.into_iter().enumerate() {
            let fs = fresh_fs();
            let mut descriptor = small_table(&fs, &layout);
            forge(&fs, &descriptor, lie, <[u8]>::to_vec);
            descriptor.bytes = fs.content(&path()).unwrap().len() as u64;
            let context = context(&fs, 1 << 20);
            let file = TableFile::new(&context, Arc::new(descriptor));
            assert!(!everything_is_right_or_refused(&file, &small_entries()), "lie {i}, {layout:?}");
            // What a lie moves by one block, an index that may be wrong by one puts right as if it
            // were so.
            let counters = context.stats.snapshot();
            assert!(counters.index_fallbacks + counters.index_steps > 0, "lie {i}, {layout:?}");
            // Where an index names several blocks the right one may be among them: that is no
            // damage, unless it is the second one of most keys, as where all separators are off by
            // one.
            let among_several = counters.index_fallbacks == 0 && (i != 3 || layout.index.names_a_window());
            assert!(found_damaged(&file) || among_several, "lie {i}, {layout:?}");
        }
    }
}

/// Symptom: a key was not found, or a cursor stood on a key from elsewhere (evilmodel, fences of
/// several blocks changed). Cause: a block whose fences deny a key made the lookup search all
/// blocks by their fences, and another block whose fences lie claimed the key. Cure: that search
/// goes by the blocks' keys.
#[test]
fn fences_that_lie_together_hide_no_key() {
    // Kinds that name one block; where an index names several, fences choose between them.
    for index in [IndexKind::Binary, IndexKind::STree, IndexKind::DoblixPla, IndexKind::DoblixPra] {
        let fs = fresh_fs();
        let layout = Layout { block_bytes: 256, index, compression: Compression::None, ..Layout::default() };
        let descriptor = Arc::new(small_table(&fs, &layout));
        let honest = fs.content(&path()).unwrap();
        let file = TableFile::new(&context(&fs, 0), descriptor.clone());
        let table = file.table().unwrap();
        // The first block has no fence that could deny its first key.
        for liar in 1..table.blocks() {
            let mut content = honest.clone();
            for number in 0..table.blocks() {
                let (start, end) =
                    (table.handles.range(number).start as usize, table.handles.range(number).end as usize);
                let footer = end - 5 - 40;
                let note = footer - usize::from(content[footer + 39])..footer;
                // One denies its first key, all others claim every key.
                let first_key = table.read(number).unwrap().key_len(0) as u8;
                match &mut content[note] {
                    [lower, byte, ..] if number == liar => (*lower, *byte) = (first_key + 1, 0),
                    [lower, byte, shared, last] => (*lower, *byte, *shared, *last) = (1, 0, 0, 0xff),
                    [_, shared, last] => (*shared, *last) = (0, 0xff),
                    [lower, byte] => (*lower, *byte) = (1, 0),
                    note => panic!("a note of {} bytes", note.len()),
                }
                let checksum = table.binding.checksum(start as u64, &content[start..end - 4]);
                content[end - 4..end].copy_from_slice(&checksum.to_le_bytes());
            }
            fs.set_content(&path(), &content).unwrap();
            let file = TableFile::new(&context(&fs, 1 << 20), descriptor.clone());
            assert!(!everything_is_right_or_refused(&file, &small_entries()), "{index}, block {liar}");
            assert!(found_damaged(&file), "{index}, block {liar}");
        }
    }
}

#[test]
fn the_honest_index_survives_the_forger() {
    let fs = fresh_fs();
    let descriptor = small_table(&fs, &Layout::default());
    let before = fs.content(&path()).unwrap();
    forge(&fs, &descriptor, <[_]>::to_vec, <[u8]>::to_vec);
    assert!(fs.content(&path()).unwrap() == before);
}

#[test]
fn the_check_finds_a_filter_that_denies_keys() {
    let fs = fresh_fs();
    let mut descriptor = small_table(&fs, &Layout::default());
    forge(&fs, &descriptor, <[_]>::to_vec, |_| {
        let mut filter = FilterBuilder::new(Layout::default().filter.mean());
        filter.add(hash(b"another key"));
        filter.finish()
    });
    descriptor.bytes = fs.content(&path()).unwrap().len() as u64;
    let file = TableFile::new(&context(&fs, 0), Arc::new(descriptor));
    let problems = file.table().unwrap().check().unwrap().problems;
    assert!(problems.iter().any(|problem| problem.to_string().contains("the filter denies key")));
}

#[test]
fn a_filter_of_another_kind_than_described_is_refused_when_opened() {
    let fs = fresh_fs();
    let mut descriptor = small_table(&fs, &Layout::default());
    forge(&fs, &descriptor, <[_]>::to_vec, |_| {
        let mut filter =
            FilterBuilder::new(Filters::uniform(10.0).with_last_level(FilterKind::Ribbon).mean());
        filter.add(hash(b"a key"));
        filter.finish()
    });
    descriptor.bytes = fs.content(&path()).unwrap().len() as u64;
    let file = TableFile::new(&context(&fs, 0), Arc::new(descriptor));
    let error = file.table().unwrap_err().to_string();
    assert!(error.contains("the filter is not of the kind that is described"), "{error}");
}

#[test]
fn an_index_of_fewer_blocks_is_refused_when_opened() {
    let fs = fresh_fs();
    let layout = Layout { block_bytes: 256, ..Layout::default() };
    let mut descriptor = small_table(&fs, &layout);
    forge(&fs, &descriptor, |honest| honest[1..].to_vec(), <[u8]>::to_vec);
    descriptor.bytes = fs.content(&path()).unwrap().len() as u64;
    let file = TableFile::new(&context(&fs, 0), Arc::new(descriptor));
    let error = file.table().unwrap_err().to_string();
    assert!(error.contains("an index of as many blocks as there are"), "{error}");
}

#[test]
fn the_check_goes_on_after_damage_and_names_its_place() {
    let fs = fresh_fs();
    let layout = Layout { block_bytes: 256, ..Layout::default() };
    let descriptor = Arc::new(small_table(&fs, &layout));
    let file = TableFile::new(&context(&fs, 0), descriptor.clone());
    let places: Vec<u64> = [1, 4].map(|block| file.table().unwrap().handles.offset(block)).to_vec();
    let mut content = fs.content(&path()).unwrap();
    places.iter().for_each(|&place| content[place as usize + 20] ^= 1);
    fs.set_content(&path(), &content).unwrap();
    let file = TableFile::new(&context(&fs, 0), descriptor.clone());
    let check = file.table().unwrap().check().unwrap();
    assert_eq!(check.blocks, descriptor.blocks.into());
    let found: Vec<u64> = check
        .problems
        .iter()
        .map(|problem| match problem {
            Error::Corrupt { offset, file, .. } if *file == path() => *offset,
            other => panic!("{other}"),
        })
        .collect();
    assert!(places.iter().all(|place| found.contains(place)), "{found:?}");
}

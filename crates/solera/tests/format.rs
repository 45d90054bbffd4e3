//! Tests that docs/FORMAT.md shows the bytes that the engine writes, for a database of two entries.
//!
//! The tests make that database and compare it with the dumps at the document's end, and its
//! checksums with what the document says they sum. Neither can change without the other.
//!
//! When one fails because the format was meant to change: raise its version if an older release
//! would misread it (chapter 9). Then write the dumps anew (the ignored test does it), and explain
//! them there.

use solera::{Compression, Durability, IndexKind, Layout, ManualClock, Options, Shape, vfs::mem::MemFs};
use std::{collections::BTreeMap, sync::Arc};

const DOCUMENT: &str = include_str!("../../../docs/FORMAT.md");
const DIR: &str = "/cellar";

/// The files of the database, by name. Nothing is left to a default: a new one does not change the
/// format.
fn files() -> BTreeMap<String, Vec<u8>> {
    let fs = Arc::new(MemFs::new());
    let layout = Layout {
        block_bytes: 4096,
        index: IndexKind::DoblixPra,
        epsilon: 64,
        filter: solera::Filters::monkey(10.0),
        compression: Compression::None,
    };
    let shape =
        Shape { size_ratio: 10, run_limits: vec![4, 1], write_buffer_bytes: 16 << 20, table_bytes: 16 << 20 };
    let db = Options::new()
        .memory(256 << 20)
        .write_buffer(16 << 20)
        .layout(layout)
        .shape(shape)
        .background_threads(0)
        .seed(1)
        .clock(Arc::new(ManualClock::at_unix_ms(1_700_000_000_000)))
        .fs(fs.clone())
        .open(DIR)
        .unwrap();
    let mut batch = db.batch();
    batch.put(db.default(), b"cask/1", b"oak").unwrap();
    batch.delete(db.default(), b"cellar/22/x").unwrap();
    batch.durability(Durability::Sync);
    db.write(batch).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let named = |path: &std::path::PathBuf| path.file_name().unwrap().to_str().unwrap().to_string();
    fs.files().iter().map(|path| (named(path), fs.content(path).unwrap())).collect()
}

/// A line of a dump in the document: `0018  01 00 00 00  what it means`.
struct Line<'d> {
    at: usize,
    bytes: Vec<u8>,
    meaning: &'d str,
}

impl<'d> Line<'d> {
    fn parse(line: &'d str) -> Line<'d> {
        let (at, rest) = line.split_once("  ").unwrap();
        let (bytes, meaning) = rest.split_once("  ").unwrap();
        let hex = |digits| u8::from_str_radix(digits, 16).unwrap_or_else(|_| panic!("{line:?} is no dump"));
        Line {
            at: usize::from_str_radix(at, 16).unwrap(),
            bytes: bytes.split(' ').map(hex).collect(),
            meaning: meaning.trim_start(),
        }
    }
}

fn print(at: usize, bytes: &[u8], meaning: &str) -> String {
    let hex: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{at:04x}  {:23}  {meaning}\n", hex.join(" "))
}

/// The dumps in the document, by file name.
fn dumps() -> BTreeMap<&'static str, Vec<Line<'static>>> {
    let dump = |block: &'static str| {
        let (name, rest) = block.split_once('\n').unwrap();
        (name, rest.split("```").next().unwrap().lines().map(Line::parse).collect())
    };
    DOCUMENT.split("```hex ").skip(1).map(dump).collect()
}

#[test]
fn the_document_shows_the_bytes_that_the_engine_writes() {
    let (files, dumps) = (files(), dumps());
    assert_eq!(files["LOCK"], b"");
    let written = files.keys().filter(|name| *name != "LOCK");
    assert!(written.eq(dumps.keys()), "{:?} are written, {:?} are shown", files.keys(), dumps.keys());
    for (name, lines) in dumps {
        let content = &files[name];
        let mut shown = Vec::new();
        let mut in_place = true;
        for line in &lines {
            in_place &= line.at == shown.len();
            shown.extend_from_slice(&line.bytes);
        }
        if in_place && shown == *content {
            continue;
        }
        let should = dump(content, &lines, "   <-- differs");
        panic!("docs/FORMAT.md does not show what is in {name}, which is now\n{should}");
    }
}

/// What the document should show of `content`, divided into `lines` as it is now. Lines that are
/// not what they were are marked.
fn dump(content: &[u8], lines: &[Line<'_>], mark: &str) -> String {
    let mut rest = content;
    let mut should = String::new();
    for line in lines {
        let (bytes, behind) = rest.split_at(line.bytes.len().min(rest.len()));
        let mark = if bytes == line.bytes { "" } else { mark };
        should += &print(content.len() - rest.len(), bytes, &format!("{}{mark}", line.meaning));
        rest = behind;
    }
    for bytes in rest.chunks(8) {
        should += &print(content.len() - rest.len(), bytes, "<-- not shown");
        rest = &rest[bytes.len()..];
    }
    should
}

#[test]
#[ignore = "writes the dumps in the document anew; look at the difference before you commit it"]
fn write_the_dumps_anew() {
    let files = files();
    let mut blocks = DOCUMENT.split("```hex ");
    let mut out = blocks.next().unwrap().to_string();
    for block in blocks {
        let (name, rest) = block.split_once('\n').unwrap();
        let (lines, behind) = rest.split_once("```").unwrap();
        let lines: Vec<_> = lines.lines().map(Line::parse).collect();
        out += &format!("```hex {name}\n{}```{behind}", dump(&files[name], &lines, ""));
    }
    #[expect(clippy::disallowed_methods, reason = "the page lies in the repository, not in a database")]
    std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/FORMAT.md"), out).unwrap();
}

#[test]
fn checksums_sum_what_the_document_says() {
    let files = files();
    let number = |bytes: &[u8]| u64::from_le_bytes(std::array::from_fn(|i| *bytes.get(i).unwrap_or(&0)));
    let plain = |bytes: &[u8]| u64::from(crc32c::crc32c(bytes));
    // A bound checksum, of bytes that begin at `offset`.
    let bound = |header: &[u8], offset: u64, bytes: &[u8]| {
        let binding = xxhash_rust::xxh3::xxh3_64(header);
        plain(&[&binding.to_le_bytes()[..], &offset.to_le_bytes(), bytes].concat())
    };

    let current = std::str::from_utf8(&files["CURRENT"]).unwrap();
    let (said, checksum) = current.trim_end().split_at(current.rfind(' ').unwrap() + 1);
    assert_eq!(checksum, format!("{:08x}", plain(said.as_bytes())));

    for name in ["000001.log", "MANIFEST-000002"] {
        let file = &files[name];
        assert_eq!(number(&file[28..32]), plain(&file[..28]), "header of {name}");
        assert_eq!(number(&file[40..44]), plain(&file[..40]), "second checksum of {name}");
        let bound_to = [&file[8..24], &file[32..40]].concat();
        let mut at = 48;
        while at < file.len() {
            let payload = &file[at + 24..][..number(&file[at + 8..at + 14]) as usize];
            assert_eq!(number(&file[at + 4..at + 8]), plain(payload), "payload at {at} of {name}");
            let header = bound(&bound_to, at as u64, &file[at + 4..at + 24]);
            assert_eq!(number(&file[at..at + 4]), header, "frame at {at} of {name}");
            at += 24 + payload.len();
        }
    }

    let table = &files["000003.table"];
    let footer = table.len() - 56;
    let mut sums = vec![(0, 28), (footer, footer + 44)];
    // The sections that the footer names, and the one block before them.
    let starts = (0..4).map(|i| number(&table[footer + 8 * i..][..8]) as usize);
    let edges: Vec<_> = [32].into_iter().chain(starts).chain([footer]).collect();
    sums.extend(edges.windows(2).map(|edge| (edge[0], edge[1] - 4)));
    for (start, end) in sums {
        let sum = bound(&table[12..28], start as u64, &table[start..end]);
        assert_eq!(number(&table[end..end + 4]), sum, "bytes {start} to {end} of the table");
    }
}

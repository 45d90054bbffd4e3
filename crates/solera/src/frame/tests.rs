//! Tests of file headers, frames, `FrameWriter` and `walk`, in memory.
//!
//! Every flip in a header is an error; a newer version, another owner and a build before the first
//! release are named. Frames of another file of the same number are not records. A frame knows its
//! place and holds lengths over 4 GiB. Groups of any sizes come back, and arbitrary files never
//! panic. A file that withholds says of nothing that it is durable, and a witness is found wherever
//! the reads divide it.

use super::*;
use crate::vfs::{Fs, mem::MemFs, read_exact_at};
use proptest::prelude::*;
use std::path::PathBuf;

const KIND: FileKind = FileKind { magic: *b"SOLERATS", version: 3, noun: "test", reserves: false };
const DATABASE: DatabaseId = DatabaseId(0x1122_3344_5566_7788);
const FILE: FileId = FileId(7);

const NONCE: u64 = 99;

fn binding() -> Binding {
    Binding::of_frames(DATABASE, FILE, NONCE)
}

fn path() -> PathBuf {
    PathBuf::from("/f")
}

fn read(fs: &MemFs) -> Result<(Vec<Vec<u8>>, Walked)> {
    let file = fs.open(&path())?;
    let mut header = vec![0; FILE_HEADER_BYTES];
    read_exact_at(&*file, &mut header, 0)?;
    // Where there is no header, some binding does.
    let frames = KIND.identify(&path(), &header).map_or(binding(), |found| found.frames);
    let mut records = Vec::new();
    let walked = walk(&*file, frames, FILE_HEADER_BYTES as u64..file.len()?, 0, |_, payload| {
        records.push(payload.to_vec());
        Ok(())
    })?;
    Ok((records, walked))
}

#[test]
fn every_flip_in_a_file_header_is_an_error() {
    let header = KIND.header(DATABASE, FILE, NONCE);
    let whole = Identity { database: DATABASE, file: FILE, frames: binding() };
    assert_eq!(KIND.identify(&path(), &header).unwrap(), whole);
    for bit in 0..header.len() * 8 {
        let mut flipped = header;
        flipped[bit / 8] ^= 1 << (bit % 8);
        KIND.identify(&path(), &flipped).unwrap_err();
    }
    for len in 0..header.len() {
        KIND.identify(&path(), &header[..len]).unwrap_err();
    }
}

#[test]
fn a_newer_version_and_another_owner_are_named() {
    let newer = FileKind { version: 4, ..KIND }.header(DATABASE, FILE, NONCE);
    assert!(matches!(KIND.identify(&path(), &newer), Err(Error::NewerFormat { found: 4, supported: 3, .. })));
    let header = KIND.header(DATABASE, FILE, NONCE);
    KIND.check(&path(), &header, DATABASE, FILE).unwrap();
    let error = KIND.check(&path(), &header, DATABASE, FileId(8)).unwrap_err().to_string();
    assert!(error.contains("file 7 under the name of file 8"), "{error}");
    let error = KIND.check(&path(), &header, DatabaseId(1), FILE).unwrap_err().to_string();
    assert!(error.contains("not 1"), "{error}");
    let error = FileKind { noun: "log", magic: [0; 8], ..KIND }.identify(&path(), &header).unwrap_err();
    assert!(error.to_string().contains("not a Solera log"), "{error}");
}

#[test]
fn a_file_of_a_build_before_the_first_release_is_refused_with_what_to_do() {
    let older = FileKind { magic: *b"SOLERALG", version: 2, ..KIND }.header(DATABASE, FILE, NONCE);
    let error = KIND.identify(&path(), &older).unwrap_err();
    assert!(matches!(&error, Error::OlderFormat { file } if *file == path()), "{error}");
    assert!(error.to_string().contains("open it with the build that made it"), "{error}");
    let none = FileKind { version: 0, ..KIND }.header(DATABASE, FILE, NONCE);
    assert!(matches!(KIND.identify(&path(), &none), Err(Error::Corrupt { offset: 24, .. })));
}

/// Symptom: after a checkpoint and a power cut that showed old blocks in place of unsynced ones, a
/// database did not open: its log began with a record of the checkpoint's manifest (crashsim
/// --nightly, seed 96; the shrunk life is in solera-sim's tests). Cause: frames were bound to the
/// numbers of database and file, which both files shared. Cure: each file has a nonce.
#[test]
fn frames_of_another_file_of_the_same_number_are_not_records() {
    let fs = MemFs::new();
    let other = PathBuf::from("/other");
    for path in [&path(), &other] {
        let mut writer = FrameWriter::create(&fs, path, &KIND, DATABASE, FILE).unwrap();
        writer.append([[&b"record"[..]]]).unwrap();
    }
    let mut bytes = fs.content(&path()).unwrap();
    assert_eq!(read(&fs).unwrap().0, [b"record"]);
    bytes.truncate(FILE_HEADER_BYTES);
    bytes.extend_from_slice(&fs.content(&other).unwrap()[FILE_HEADER_BYTES..]);
    fs.set_content(&path(), &bytes).unwrap();
    let (records, walked) = read(&fs).unwrap();
    assert!(records.is_empty() && walked.cut.is_some());
}

#[test]
fn a_frame_header_holds_lengths_over_4_gib_and_knows_its_place() {
    let here = binding();
    for len in [0, 1, 1 << 32, PAYLOAD_BYTES_MAX] {
        let header = FrameHeader { payload_checksum: 0xdead_beef, len, kind: 2, synced: 4096 };
        let bytes = header.encode(here, 5000);
        assert_eq!(FrameHeader::decode(&bytes, here, 5000), Some(header));
        assert_eq!(FrameHeader::decode(&bytes, here, 5001), None);
        for elsewhere in [
            Binding::of_frames(DATABASE, FileId(8), NONCE),
            Binding::of_frames(DatabaseId(8), FILE, NONCE),
            Binding::of_frames(DATABASE, FILE, 8),
        ] {
            assert_eq!(FrameHeader::decode(&bytes, elsewhere, 5000), None);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn groups_of_any_sizes_come_back(groups in prop::collection::vec(prop::collection::vec((0usize..3, 0usize..400_000), 1..5), 0..6), syncs: u8) {
        let fs = MemFs::new();
        let mut writer = FrameWriter::create(&fs, &path(), &KIND, DATABASE, FILE).unwrap();
        let mut expected = Vec::new();
        for (nth, group) in groups.iter().enumerate() {
            // Sizes around both thresholds, mostly small.
            let payloads: Vec<Vec<u8>> = group.iter().enumerate()
                .map(|(i, &(class, len))| vec![(nth * 16 + i) as u8; [len % 100, 65_530 + len % 12, len][class]])
                .collect();
            writer.append(payloads.iter().map(|p| { let (a, b) = p.split_at(p.len() / 3); [a, b] })).unwrap();
            expected.extend(payloads);
            if syncs >> nth & 1 == 1 {
                writer.sync().unwrap();
            }
        }
        let (records, walked) = read(&fs).unwrap();
        let (frames, end, durable) = (expected.len() as u64, writer.len(), writer.synced_len());
        let vouches = frames > 0 || durable > FILE_HEADER_BYTES as u64;
        prop_assert_eq!(walked, Walked { frames, end, ended: false, durable, vouches, cut: None });
        prop_assert!(records == expected);
        writer.finish().unwrap();
        prop_assert!(read(&fs).unwrap().1.ended);
    }

    #[test]
    fn arbitrary_files_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let fs = MemFs::new();
        fs.set_content(&path(), &bytes).unwrap();
        if bytes.len() > FILE_HEADER_BYTES {
            let (records, walked) = read(&fs).unwrap();
            prop_assert!(records.is_empty() && walked.cut.is_some());
        }
        let _ = KIND.identify(&path(), &bytes);
    }
}

#[test]
fn a_file_that_withholds_says_of_nothing_that_it_is_durable() {
    let fs = MemFs::new();
    let mut writer = FrameWriter::create(&fs, &path(), &KIND, DATABASE, FILE).unwrap();
    writer.withhold();
    writer.append([[&b"early"[..]]]).unwrap();
    let walked = read(&fs).unwrap().1;
    assert_eq!((walked.vouches, walked.durable), (false, FILE_HEADER_BYTES as u64));
    writer.vouch();
    let (marked, said) = (read(&fs).unwrap().1, writer.len());
    assert_eq!((marked.vouches, marked.durable, marked.end), (true, FILE_HEADER_BYTES as u64, said));
    writer.vouch();
    assert_eq!(writer.len(), said, "said once");
    writer.sync().unwrap();
    assert_eq!(read(&fs).unwrap().1.durable, said);
}

#[test]
fn a_witness_is_found_wherever_the_reads_divide_it() {
    for len in (256 << 10) - 80..(256 << 10) + 10 {
        let fs = MemFs::new();
        let mut writer = FrameWriter::create(&fs, &path(), &KIND, DATABASE, FILE).unwrap();
        writer.append([[&vec![1; len][..]]]).unwrap();
        let mark = writer.len();
        writer.sync().unwrap();
        let mut bytes = fs.content(&path()).unwrap();
        bytes[FILE_HEADER_BYTES + 5] ^= 1;
        fs.set_content(&path(), &bytes).unwrap();
        let error = read(&fs).unwrap_err().to_string();
        assert!(error.contains(&format!("when the record at byte {mark} was written")), "{error}");
    }
}

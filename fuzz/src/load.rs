//! What the fuzz target of `solera load`'s parsers does: `load`. The first byte chooses the format
//! and its options, the rest is the input.
//!
//! The parsers live in a command, which is no library: `lib` takes their files in.
//!
//! What must hold: a parser returns records or the reason why a line is none, and never panics.
//!
//! Caller: the target `load`.

use crate::{
    input::Input,
    record::{Format, Next, Options, Record},
};

/// The first byte chooses the format and its options, the rest is the input.
pub fn load(data: &[u8]) {
    let Some((&how, content)) = data.split_first() else { return };
    let formats = [Format::Tsv, Format::Csv, Format::Jsonl, Format::Sosd, Format::Lines];
    let format = formats[usize::from(how) % formats.len()];
    let flags = how / 5;
    let flag = |bit: u8| flags & (1 << bit) != 0;
    let columns = matches!(format, Format::Tsv | Format::Csv);
    let named = columns || matches!(format, Format::Jsonl);
    let names = if flag(0) { "2,1" } else { "a" };
    let header = columns && !flag(0);
    let options = Options {
        format,
        key: named.then(|| names.parse().expect("a list of names")),
        value: (named && flag(1)).then(|| names.parse().expect("a list of names")),
        header,
        delimiter: (matches!(format, Format::Csv) && flag(2)).then_some(b';'),
        line_bytes_max: (format != Format::Sosd).then_some(if flag(3) { 16 } else { 4096 }),
        crlf: matches!(format, Format::Tsv | Format::Lines) && flag(4),
        bom: matches!(format, Format::Tsv | Format::Lines) && flag(5),
        key_bits: (matches!(format, Format::Sosd) && flag(1)).then_some(if flag(2) { 32 } else { 64 }),
        escaped: false,
    };
    let source = Box::new(std::io::Cursor::new(content.to_vec()));
    let Ok(input) = Input::new(source, "input".to_owned(), Some(content.len() as u64)) else { return };
    let Ok(mut records) = options.open(input) else { return };
    let mut record = Record::default();
    // What is compressed may be long; a mebibyte of records is enough.
    let (mut read, mut passed) = (0, 0);
    while let Ok(next) = records.next(&mut record) {
        let before = std::mem::replace(&mut passed, records.passed().bytes);
        assert!(before <= passed, "what has been read is read");
        match next {
            Next::End => break,
            Next::Record => {
                let _ = records.text();
                read += record.key.len() + record.value.len() + 1;
            }
            Next::Bad { reason, text } => {
                assert!(!reason.is_empty());
                read += text.len() + 1;
            }
        }
        if read > 1 << 20 {
            break;
        }
    }
    records.notes().iter().for_each(|note| assert!(!note.is_empty()));
}

//! Formats of input, each of which turns bytes into records: tab- and comma-separated columns, JSON
//! lines, SOSD key files, and plain lines (`Format`).
//!
//! `Options` hold what the command line says of the input; `Options::open` makes the reader of a
//! format, a `Records`. It reads on to the `Next`: a `Record`, a bad line, or the end. A `Record`
//! is one key and one value, reused from one to the next. `Passed` is what an input is known by
//! when its load is resumed. `Selectors` name columns or fields.
//!
//! What must hold: a record that cannot be used is `Next::Bad` with its place and reason, and
//! reading goes on after it. An input that cannot be read any further is a `Failure`. An option
//! that a format does not have is refused, not ignored; but SOSD ignores the limit of lines.
//!
//! Callers: `command::load`; `report` keeps `Passed`; the fuzz target `load`.

mod columns;
mod csv;
mod jsonl;
mod lines;
mod passed;
mod sosd;
mod tsv;

pub(crate) use columns::Selectors;
pub(crate) use passed::Passed;

use crate::{
    failure::{Failure, Result},
    input::Input,
};
use std::io::BufReader;

/// Bytes read from the input at once.
const READ_BYTES: usize = 256 << 10;

/// A record, reused from one to the next.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// Line on which it begins, from 1; for SOSD the number of the key, from 1.
    pub(crate) line: u64,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

/// What a reader found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A record; the caller's [`Record`] holds it.
    Record,
    /// A line that is no record: why, and its text. The line number is in the caller's [`Record`].
    Bad { reason: String, text: Vec<u8> },
    /// Nothing more.
    End,
}

/// A reader of records.
pub(crate) trait Records {
    /// Reads the next record into `record`.
    fn next(&mut self, record: &mut Record) -> Result<Next>;
    /// The text of the record last read, for the report when the record turns out unusable later.
    fn text(&self) -> Vec<u8>;
    /// What has been read up to the record last read.
    fn passed(&self) -> Passed;
    /// What the user may not have meant, with the option that helps; to be asked at the end.
    fn notes(&self) -> Vec<String>;
}

/// The formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Columns separated by tabs, without quoting
    Tsv,
    /// Comma-separated values with double quotes (RFC 4180)
    Csv,
    /// One JSON object per line
    Jsonl,
    /// A u64 count, then that many u32 or u64 keys, all little-endian
    Sosd,
    /// Every line is a key; values are empty
    Lines,
}

/// What the command line says about the format.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) format: Format,
    /// Columns or fields that make the key.
    pub(crate) key: Option<Selectors>,
    /// Columns or fields that make the value.
    pub(crate) value: Option<Selectors>,
    /// The first line names the columns.
    pub(crate) header: bool,
    /// CSV: what separates columns.
    pub(crate) delimiter: Option<u8>,
    /// Longest line and longest CSV record, in bytes, if not [`LINE_BYTES_MAX`].
    pub(crate) line_bytes_max: Option<u64>,
    /// A carriage return before the line end belongs to the line end.
    pub(crate) crlf: bool,
    /// A UTF-8 byte order mark at the beginning is left out.
    pub(crate) bom: bool,
    /// SOSD: bits of a key.
    pub(crate) key_bits: Option<u32>,
    /// Keys and values are escaped text, which the caller takes the escapes out of.
    pub(crate) escaped: bool,
}

/// Longest line and longest CSV record: a file without line ends must not fill the memory.
const LINE_BYTES_MAX: u64 = 256 << 20;

impl Options {
    /// A reader of `input`. Options that the format does not have are refused, not ignored.
    pub(crate) fn open(&self, input: Input) -> Result<Box<dyn Records>> {
        use Format::{Csv, Jsonl, Lines, Sosd, Tsv};
        let refuse =
            |given: bool, flag: &str, formats: &[Format]| match given && !formats.contains(&self.format) {
                true => Err(Failure::Usage(format!("{flag} means nothing with --format {}", self.format))),
                false => Ok(()),
            };
        refuse(self.key.is_some(), "--key", &[Tsv, Csv, Jsonl])?;
        refuse(self.value.is_some(), "--value", &[Tsv, Csv, Jsonl])?;
        refuse(self.header, "--header", &[Tsv, Csv])?;
        refuse(self.delimiter.is_some(), "--delimiter", &[Csv])?;
        refuse(self.crlf, "--crlf", &[Tsv, Lines])?;
        refuse(self.bom, "--bom", &[Tsv, Lines])?;
        refuse(self.key_bits.is_some(), "--key-bits", &[Sosd])?;
        refuse(self.escaped, "--escaped", &[Tsv, Csv, Jsonl, Lines])?;
        refuse(self.line_bytes_max.is_some(), "--line-limit", &[Tsv, Csv, Jsonl, Lines])?;
        let line_bytes_max = self.line_bytes_max.unwrap_or(LINE_BYTES_MAX);

        let first_column = || Selectors::first_column();
        let key = self.key.clone();
        match self.format {
            Tsv => {
                let mut lines = lines::LineReader::new(input, line_bytes_max, self.crlf);
                if self.header || self.bom {
                    // Names are text. Without a header the first line is content, whatever its
                    // bytes.
                    lines = lines.without_byte_order_mark();
                }
                let key = key.unwrap_or_else(first_column);
                Ok(Box::new(tsv::Tsv::new(lines, &key, self.value.as_ref(), self.header)?))
            }
            Csv => {
                let key = key.unwrap_or_else(first_column);
                let delimiter = self.delimiter.unwrap_or(b',');
                let lines = lines::LineReader::new(input, line_bytes_max, false).without_byte_order_mark();
                Ok(Box::new(csv::Csv::new(lines, delimiter, &key, self.value.as_ref(), self.header)?))
            }
            Jsonl => {
                let key = key
                    .ok_or_else(|| Failure::Usage("--format jsonl needs --key FIELD[,FIELD..]".to_owned()))?;
                // JSON itself allows a carriage return after the object.
                let lines = lines::LineReader::new(input, line_bytes_max, false).without_byte_order_mark();
                Ok(Box::new(jsonl::Jsonl::new(lines, &key, self.value.as_ref())))
            }
            Sosd => Ok(Box::new(sosd::Sosd::new(input, self.key_bits)?)),
            Lines => {
                let lines = lines::LineReader::new(input, line_bytes_max, self.crlf);
                let lines = if self.bom { lines.without_byte_order_mark() } else { lines };
                Ok(Box::new(lines::Lines::new(lines)))
            }
        }
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Format::Tsv => "tsv",
            Format::Csv => "csv",
            Format::Jsonl => "jsonl",
            Format::Sosd => "sosd",
            Format::Lines => "lines",
        })
    }
}

/// The input's reader with a buffer; the rest of it stays with the caller.
fn buffered(reader: Box<dyn std::io::Read>) -> BufReader<Box<dyn std::io::Read>> {
    BufReader::with_capacity(READ_BYTES, reader)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::Consumed;

    /// What a reader makes of an input: records as (line, key, value), bad lines as (line, reason).
    #[derive(Debug, PartialEq)]
    pub(super) enum Got {
        Good(u64, &'static str, &'static str),
        Bad(u64, &'static str),
    }
    use Got::{Bad, Good};

    fn options(format: Format, key: &str) -> Options {
        Options {
            format,
            key: (!key.is_empty()).then(|| key.parse().unwrap()),
            value: None,
            header: false,
            delimiter: None,
            line_bytes_max: (format != Format::Sosd).then_some(1 << 20),
            crlf: false,
            bom: false,
            key_bits: None,
            escaped: false,
        }
    }

    fn read(options: &Options, content: &[u8]) -> Result<Vec<Got>> {
        let input = Input {
            reader: Box::new(std::io::Cursor::new(content.to_vec())),
            name: "test".to_owned(),
            source_bytes: None,
            plain_bytes: Some(content.len() as u64),
            consumed: Consumed::default(),
            foreign: None,
        };
        let mut records = options.open(input)?;
        let mut record = Record::default();
        let mut got = Vec::new();
        let leak = |bytes: &[u8]| -> &'static str { String::from_utf8_lossy(bytes).into_owned().leak() };
        loop {
            match records.next(&mut record)? {
                Next::Record => got.push(Good(record.line, leak(&record.key), leak(&record.value))),
                Next::Bad { reason, .. } => got.push(Bad(record.line, leak(reason.as_bytes()))),
                Next::End => return Ok(got),
            }
        }
    }

    #[test]
    fn tsv_keys_and_values_are_columns_joined_by_tabs() {
        let content = b"a\t1\tx\ty\nb\t2\n\t\t\nlast\t3\tz";
        assert_eq!(
            read(&options(Format::Tsv, "1,2"), content).unwrap(),
            [Good(1, "a\t1", "x\ty"), Good(2, "b\t2", ""), Good(3, "\t", ""), Good(4, "last\t3", "z")]
        );
        assert_eq!(read(&options(Format::Tsv, ""), b"a\t1\n").unwrap(), [Good(1, "a", "1")]);
        let mut chosen = options(Format::Tsv, "2");
        chosen.value = Some("4,1".parse().unwrap());
        assert_eq!(read(&chosen, b"a\t1\tx\ty\n").unwrap(), [Good(1, "1", "y\ta")]);
    }

    #[test]
    fn tsv_lines_without_the_key_columns_are_bad_and_the_rest_goes_on() {
        assert_eq!(
            read(&options(Format::Tsv, "1,3"), b"a\tb\n\nc\td\te\n").unwrap(),
            [Bad(1, "2 columns; the key needs column 3"), Bad(2, "the line is empty"), Good(3, "c\te", "d"),]
        );
    }

    #[test]
    fn names_in_the_header_choose_columns() {
        let mut named = options(Format::Tsv, "time,path");
        named.header = true;
        let content = b"path\ttime\tkind\na\t1\tM\n";
        assert_eq!(read(&named, content).unwrap(), [Good(2, "1\ta", "M")]);
        named.key = Some("nobody".parse().unwrap());
        assert!(matches!(read(&named, content), Err(Failure::Usage(_))));
        named.header = false;
        assert!(matches!(read(&named, content), Err(Failure::Usage(_))));
        let mut csv = options(Format::Csv, "time");
        csv.header = true;
        assert_eq!(read(&csv, b"path,\"time\"\n\"a,b\",1\n").unwrap(), [Good(2, "1", "a,b")]);
    }

    #[test]
    fn a_carriage_return_is_content_unless_asked_otherwise() {
        let mut lines = options(Format::Lines, "");
        assert_eq!(read(&lines, b"a\r\nb\n").unwrap(), [Good(1, "a\r", ""), Good(2, "b", "")]);
        lines.crlf = true;
        assert_eq!(read(&lines, b"a\r\nb\n").unwrap(), [Good(1, "a", ""), Good(2, "b", "")]);
    }

    #[test]
    fn lines_over_the_limit_are_bad_and_the_rest_goes_on() {
        let long = "longer than 5 bytes (--line-limit)";
        let mut limited = options(Format::Lines, "");
        limited.line_bytes_max = Some(5);
        assert_eq!(
            read(&limited, b"12345\n123456\nshort\n123456789012345\nend\n1234567").unwrap(),
            [
                Good(1, "12345", ""),
                Bad(2, long),
                Good(3, "short", ""),
                Bad(4, long),
                Good(5, "end", ""),
                Bad(6, long)
            ]
        );
        limited.format = Format::Csv;
        let open = "a double quote that is opened on this line is never closed";
        assert_eq!(
            read(&limited, b"a,b,c,d\n\"a\nb\nc,d\"\ne\n\"f\n123456789\ng\n").unwrap(),
            [
                Bad(1, long),
                Good(2, "a\nb\nc,d", ""),
                Good(5, "e", ""),
                Bad(6, open),
                Bad(7, long),
                Good(8, "g", "")
            ]
        );
        assert_eq!(
            read(&limited, b"\"a\nb\nc\nd\"\n").unwrap(),
            [Bad(1, open), Good(2, "b", ""), Good(3, "c", ""), Good(4, "d\"", "")]
        );
    }

    #[test]
    fn lines_are_keys_down_to_the_empty_one_and_the_last_needs_no_end() {
        assert_eq!(
            read(&options(Format::Lines, ""), b"one\n\ntwo\twords\nlast").unwrap(),
            [Good(1, "one", ""), Good(2, "", ""), Good(3, "two\twords", ""), Good(4, "last", "")]
        );
        assert_eq!(read(&options(Format::Lines, ""), b"").unwrap(), []);
    }

    #[test]
    fn csv_quotes_hide_commas_quotes_and_line_ends() {
        assert_eq!(
            read(&options(Format::Csv, "1"), b"a,\"x,\"\"y\"\"\nz\",2\r\n\r\nb,,\n").unwrap(),
            [Good(1, "a", "x,\"y\"\nz\t2"), Good(4, "b", "\t")]
        );
        let mut semicolons = options(Format::Csv, "2");
        semicolons.delimiter = Some(b';');
        assert_eq!(read(&semicolons, b"a;b,c;d\n").unwrap(), [Good(1, "b,c", "a\td")]);
    }

    #[test]
    fn csv_keys_that_would_become_ambiguous_or_lack_a_column_are_bad() {
        assert_eq!(
            read(&options(Format::Csv, "1,2"), b"a\tb,c,v\na,b\na\na,b,v\n").unwrap(),
            [
                Bad(1, "column 1 contains a tab, which separates the columns of a key"),
                Good(2, "a\tb", ""),
                Bad(3, "1 column; the key needs column 2"),
                Good(4, "a\tb", "v"),
            ]
        );
    }

    #[test]
    fn a_stray_csv_quote_costs_its_line_and_no_other() {
        let open = "a double quote that is opened on this line is never closed";
        let after = "column 2: text after a closing double quote; a quote inside quotes is written twice";
        assert_eq!(
            read(&options(Format::Csv, "1"), b"a,b\nc,\"open\nd,e\n").unwrap(),
            [Good(1, "a", "b"), Bad(2, open), Good(3, "d", "e")]
        );
        assert_eq!(
            read(&options(Format::Csv, "1"), b"a,\"b\nc,d\n\ne,\"f\"\ng,\"h\"\n").unwrap(),
            [Bad(1, after), Good(2, "c", "d"), Good(4, "e", "f"), Good(5, "g", "h")]
        );
        assert_eq!(
            read(&options(Format::Csv, "1"), b"a,5\" disk\nb,\"x\"y\nc,\"x\"").unwrap(),
            [Good(1, "a", "5\" disk"), Bad(2, after), Good(3, "c", "x")]
        );
        // Closed, and the file merely lacks its last line end.
        assert_eq!(read(&options(Format::Csv, "1"), b"c,\"x\ny\"").unwrap(), [Good(1, "c", "x\ny")]);
    }

    #[test]
    fn a_byte_order_mark_is_not_part_of_the_first_field() {
        let mut csv = options(Format::Csv, "id");
        csv.header = true;
        assert_eq!(read(&csv, b"\xef\xbb\xbfid,x\n1,2\n").unwrap(), [Good(2, "1", "2")]);
        let mut tsv = options(Format::Tsv, "id");
        tsv.header = true;
        assert_eq!(read(&tsv, b"\xef\xbb\xbfid\tx\n1\t2\n").unwrap(), [Good(2, "1", "2")]);
        assert!(read(&tsv, b"id\tid\n1\t2\n").is_err());
        assert_eq!(
            read(&options(Format::Jsonl, "id"), b"\xef\xbb\xbf{\"id\":1}").unwrap(),
            [Good(1, "1", "{\"id\":1}")]
        );
    }

    #[test]
    fn json_fields_become_keys_and_the_object_is_the_value() {
        let content = br#"{"id": 7, "name": "a\tb", "deep": {"er": [1, 2]}}"#;
        let whole = std::str::from_utf8(content).unwrap();
        assert_eq!(read(&options(Format::Jsonl, "id"), content).unwrap(), [Good(1, "7", whole)]);
        let mut fields = options(Format::Jsonl, "name");
        fields.value = Some("deep,id".parse().unwrap());
        assert_eq!(read(&fields, content).unwrap(), [Good(1, "a\tb", "{\"er\": [1, 2]}\t7")]);
        let mut pointer = options(Format::Jsonl, "/deep/er/1,id");
        pointer.value = Some("name".parse().unwrap());
        assert_eq!(read(&pointer, content).unwrap(), [Good(1, "2\t7", "a\tb")]);
    }

    #[test]
    fn json_numbers_keep_every_digit() {
        let content = br#"{"id": 123456789012345678901234567890, "x": 1.10}"#;
        let mut fields = options(Format::Jsonl, "id");
        fields.value = Some("x".parse().unwrap());
        assert_eq!(read(&fields, content).unwrap(), [Good(1, "123456789012345678901234567890", "1.10")]);
    }

    #[test]
    fn json_lines_that_cannot_be_used_say_why() {
        let content = b"\n{\"id\":null}\n{\"no\":1}\n{\"id\":[1]}\n[1]\n{\"id\":1,}\n{\"id\":1} x\n  {\"id\":true}\r\n{\"id\":\"\xff\"}";
        let got = read(&options(Format::Jsonl, "id"), content).unwrap();
        assert_eq!(got.len(), 8);
        assert_eq!(got[0], Bad(2, "field \"id\" is null; a key is a string, a number or a boolean"));
        assert_eq!(got[1], Bad(3, "there is no field \"id\""));
        assert_eq!(got[2], Bad(4, "field \"id\" is an array; a key is a string, a number or a boolean"));
        for bad in [&got[3], &got[4], &got[5], &got[7]] {
            assert!(matches!(bad, Bad(_, reason) if reason.starts_with("not a JSON object: ")), "{bad:?}");
        }
        assert_eq!(got[6], Good(8, "true", "  {\"id\":true}"));
    }

    #[test]
    fn sosd_keys_become_big_endian_bytes_with_their_position() {
        let mut content = 2u64.to_le_bytes().to_vec();
        content.extend_from_slice(&1u64.to_le_bytes());
        content.extend_from_slice(&0x41u64.to_le_bytes());
        let got = read(&options(Format::Sosd, ""), &content).unwrap();
        assert_eq!(
            got,
            [
                Good(1, "\0\0\0\0\0\0\0\x01", "\0\0\0\0\0\0\0\0"),
                Good(2, "\0\0\0\0\0\0\0A", "\0\0\0\0\0\0\0\x01"),
            ]
        );
        let mut narrow = 1u64.to_le_bytes().to_vec();
        narrow.extend_from_slice(&0x41u32.to_le_bytes());
        assert_eq!(
            read(&options(Format::Sosd, ""), &narrow).unwrap(),
            [Good(1, "\0\0\0A", "\0\0\0\0\0\0\0\0")]
        );
    }

    #[test]
    fn a_sosd_file_of_the_wrong_length_is_refused_before_anything_is_loaded() {
        let mut content = 3u64.to_le_bytes().to_vec();
        content.extend_from_slice(&[0; 20]);
        let failure = read(&options(Format::Sosd, ""), &content).unwrap_err();
        assert!(failure.to_string().contains("28 bytes long"), "{failure}");
        assert!(read(&options(Format::Sosd, ""), b"short").is_err());
        let mut wide = options(Format::Sosd, "");
        wide.key_bits = Some(64);
        assert!(read(&wide, &content).is_err());
    }

    #[test]
    fn options_of_another_format_are_refused() {
        assert!(matches!(read(&options(Format::Lines, "1"), b"a\n"), Err(Failure::Usage(_))));
        assert!(matches!(read(&options(Format::Jsonl, ""), b"{}\n"), Err(Failure::Usage(_))));
        let mut bits = options(Format::Tsv, "1");
        bits.key_bits = Some(64);
        assert!(matches!(read(&bits, b"a\n"), Err(Failure::Usage(_))));
    }
}

//! What was read of an input so far: `Passed`, its length and a hash, so that a load is resumed
//! with no other input. `Pieces` makes it of a line that comes in parts.
//!
//! What must hold: it depends on content and on where records end, not on the pieces in which the
//! input came. Line ends count as one byte, and so does the missing one of a last line: an input
//! may grow behind it. It is stored in reports, so it is the same on every machine.
//!
//! Callers: `record::lines`, `csv` and `sosd` keep one. `command::load` puts it into marks, which
//! `report` writes, and compares it on resuming.

use std::hash::Hasher;
use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_64_with_seed};

/// Length and hash of what was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Bytes, decompressed.
    pub(crate) bytes: u64,
    /// A hash of them, and of where records began.
    pub(crate) hash: u64,
}

impl Passed {
    /// A line, without its end.
    pub(super) fn line(content: &[u8]) -> Passed {
        Passed { bytes: content.len() as u64 + 1, hash: xxh3_64(content) }
    }

    /// `more` was read next, and belongs to the same record as what follows.
    pub(super) fn add(&mut self, more: Passed) {
        self.bytes += more.bytes;
        self.hash = xxh3_64_with_seed(&more.hash.to_le_bytes(), self.hash);
    }

    /// A record ends here.
    pub(super) fn end_record(&mut self) {
        self.hash = xxh3_64_with_seed(b"record", self.hash);
    }
}

/// A line that comes in pieces.
#[derive(Default)]
pub(super) struct Pieces {
    bytes: u64,
    hash: Xxh3,
}

impl Pieces {
    /// The next piece.
    pub(super) fn add(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        self.hash.write(piece);
    }

    /// The whole line.
    pub(super) fn line(&self) -> Passed {
        Passed { bytes: self.bytes + 1, hash: self.hash.finish() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_the_same_in_whatever_pieces_it_comes() {
        let line: Vec<u8> = (0..10_000u32).map(|i| i as u8).collect();
        for piece_bytes in [1, 7, 256, 10_000] {
            let mut pieces = Pieces::default();
            line.chunks(piece_bytes).for_each(|piece| pieces.add(piece));
            assert_eq!(pieces.line(), Passed::line(&line));
        }
    }

    #[test]
    fn the_hash_is_the_same_on_every_machine_because_reports_keep_it() {
        assert_eq!(Passed::line(b""), Passed { bytes: 1, hash: 0x2d06_8005_38d3_94c2 });
    }

    #[test]
    fn where_lines_and_records_end_counts() {
        let of = |records: &[&[&str]]| {
            let mut passed = Passed::default();
            for lines in records {
                lines.iter().for_each(|line| passed.add(Passed::line(line.as_bytes())));
                passed.end_record();
            }
            passed
        };
        let all = [of(&[&["ab", "c"]]), of(&[&["a", "bc"]]), of(&[&["ab"], &["c"]]), of(&[&["c", "ab"]])];
        for (i, one) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|other| other.hash != one.hash && other.bytes == one.bytes));
        }
    }
}

//! SOSD key files: `Sosd`, a `Records`. A file is a u64 count, then that many u32 or u64 keys, all
//! little-endian.
//!
//! Keys are stored big-endian, so that byte order is number order. The value is the key's position
//! in the file, from 0, as a big-endian u64.
//!
//! What must hold: the width of keys is as told, or follows from the length of a plain file; else
//! it is asked for. A plain file whose length does not fit its count is refused at once. Other
//! input that ends early, or goes on after its keys, fails where that is found.
//!
//! Caller: `record::Options::open`.

use super::{Next, Passed, Record, Records, buffered};
use crate::{
    failure::{Failure, Result},
    input::Input,
};
use std::io::{self, BufReader, Read};

/// Bytes of the count.
const HEADER_BYTES: u64 = 8;

/// Records of which each is a number.
pub(super) struct Sosd {
    reader: BufReader<Box<dyn Read>>,
    name: String,
    count: u64,
    next: u64,
    key_bytes: usize,
    /// The present key, little-endian.
    bytes: [u8; 8],
    passed: Passed,
}

impl Sosd {
    /// Reads the count and settles the width of keys: as told, or by the length of a plain file.
    pub(super) fn new(input: Input, key_bits: Option<u32>) -> Result<Self> {
        let mut reader = buffered(input.reader);
        let mut count = [0; HEADER_BYTES as usize];
        reader.read_exact(&mut count).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                Failure::Usage(format!("{}: shorter than the 8 bytes of a SOSD count", input.name))
            }
            _ => Failure::file("read", &input.name, &error),
        })?;
        let count = u64::from_le_bytes(count);
        let expected = |bytes: u64| count.checked_mul(bytes).and_then(|keys| keys.checked_add(HEADER_BYTES));
        let key_bytes = match (key_bits, input.plain_bytes) {
            (Some(bits), None) => u64::from(bits / 8),
            (Some(bits), Some(len)) if expected(u64::from(bits / 8)) == Some(len) => u64::from(bits / 8),
            (None, Some(len)) if expected(8) == Some(len) => 8,
            (None, Some(len)) if expected(4) == Some(len) => 4,
            (None, None) => {
                return Err(Failure::Usage(format!(
                    "{}: say --key-bits 32 or 64; only the length of a plain file tells",
                    input.name
                )));
            }
            (_, Some(len)) => {
                return Err(Failure::Usage(format!(
                    "{}: {len} bytes long, which does not fit its count of {count} keys at byte 0; is it a SOSD file?",
                    input.name
                )));
            }
        };
        let (key_bytes, passed) = (key_bytes as usize, Passed::default());
        Ok(Sosd { reader, name: input.name, count, next: 0, key_bytes, bytes: [0; 8], passed })
    }

    fn failed(&self, error: &io::Error) -> Failure {
        let offset = HEADER_BYTES + self.next * self.key_bytes as u64;
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Failure::Error(format!(
                "{}: ends at key {} of {} (byte {offset}); the file is cut off, or --key-bits is wrong",
                self.name, self.next, self.count
            )),
            _ => Failure::Error(format!("cannot read {} at byte {offset}: {error}", self.name)),
        }
    }
}

impl Records for Sosd {
    fn next(&mut self, record: &mut Record) -> Result<Next> {
        if self.next == self.count {
            let more = self.reader.read(&mut [0]).map_err(|error| self.failed(&error))?;
            return match more {
                0 => Ok(Next::End),
                _ => Err(Failure::Error(format!(
                    "{}: goes on after its {} keys; --key-bits is wrong, or it is not a SOSD file",
                    self.name, self.count
                ))),
            };
        }
        let mut bytes = [0; 8];
        if let Err(error) = self.reader.read_exact(&mut bytes[..self.key_bytes]) {
            return Err(self.failed(&error));
        }
        self.bytes = bytes;
        self.passed.add(Passed::line(&bytes[..self.key_bytes]));
        record.key.clear();
        record.key.extend(bytes[..self.key_bytes].iter().rev());
        record.value.clear();
        record.value.extend_from_slice(&self.next.to_be_bytes());
        self.next += 1;
        record.line = self.next;
        Ok(Next::Record)
    }

    fn text(&self) -> Vec<u8> {
        u64::from_le_bytes(self.bytes).to_string().into_bytes()
    }

    fn passed(&self) -> Passed {
        self.passed
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

//! One number for much that must be the same again: `Digest`, FNV-1a over all bytes added and their
//! lengths.
//!
//! It stands for the answers of a life, for all files of an image, or for what a program found.
//!
//! What must hold: two lives of one seed agree on it. Two additions differ from one of both
//! together. It is not safe from collisions: `crash` takes images of one digest for the same.
//!
//! Callers: `life`, `crash`, `faults`, and the programs that print one.

use std::fmt;

/// FNV-1a over all bytes added and their lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(pub u64);

impl Digest {
    /// Of nothing.
    pub fn new() -> Self {
        Digest(0xcbf2_9ce4_8422_2325)
    }

    /// Adds bytes; two additions differ from one of both together.
    pub fn add(&mut self, bytes: &[u8]) {
        for byte in (bytes.len() as u64).to_le_bytes().iter().chain(bytes) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl Default for Digest {
    fn default() -> Self {
        Digest::new()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "x{:016x}", self.0)
    }
}

//! How each kind of file begins: eight bytes, `Solera/` and a letter, for logs, manifests, tables,
//! values, traces, observations.
//!
//! `refuse_older` refuses a file by its first bytes if a build before the first release wrote it.
//! `may_be_ours` says whether a log, manifest, table or value file without a good header may be one
//! that a crash left.
//!
//! What must hold: no flipped bit turns one magic into another. Format numbers began anew with
//! these, at 1.
//!
//! Callers: `frame`, `table::format`, `values`, `trace`, `wal`, `version::manifest` and
//! `control::{record, publish}`, each for its own kind; `solera-sim`'s `forge`. An open asks
//! `may_be_ours` through `version::manifest`.

use crate::error::{Error, Result};
use std::path::Path;

/// Bytes of a magic.
pub const MAGIC_BYTES: usize = 8;
/// A magic.
pub type Magic = [u8; MAGIC_BYTES];

/// A log.
pub const LOG: Magic = *b"Solera/L";
/// A manifest.
pub const MANIFEST: Magic = *b"Solera/M";
/// A table, at both ends.
pub const TABLE: Magic = *b"Solera/T";
/// A file of values, at both ends.
pub const VALUES: Magic = *b"Solera/V";
/// A recording of what users did.
pub const TRACE: Magic = *b"Solera/R";
/// A published observation.
pub const OBSERVATION: Magic = *b"Solera/O";

/// What builds before the first release wrote, which no release reads.
const BEFORE: [Magic; 5] = [*b"SOLERALG", *b"SOLERAMF", *b"SoleraTb", *b"SOLERATR", *b"SoleraOb"];

/// Refuses a file that a build before the first release wrote. `front` is how the file at `path`
/// begins.
///
/// # Errors
/// [`Error::OlderFormat`].
pub fn refuse_older(path: &Path, front: &[u8]) -> Result<()> {
    match front.first_chunk() {
        Some(magic) if BEFORE.contains(magic) => Err(Error::OlderFormat { file: path.into() }),
        _ => Ok(()),
    }
}

/// Whether a file that begins like this may be a log, a manifest, a table or a value file of ours.
/// A crash may have left it without its first page, or with nothing at all.
pub fn may_be_ours(front: &[u8]) -> bool {
    let front = &front[..front.len().min(MAGIC_BYTES)];
    front.iter().all(|&byte| byte == 0)
        || [LOG, MANIFEST, TABLE, VALUES].iter().any(|ours| ours.starts_with(front))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_bit_makes_no_magic_another_or_one_of_before() {
        let now = [LOG, MANIFEST, TABLE, VALUES, TRACE, OBSERVATION];
        for (i, magic) in now.iter().enumerate() {
            refuse_older(Path::new("new"), magic).unwrap();
            assert!(!now[i + 1..].contains(magic), "{magic:?} is the magic of one kind");
            for before in &BEFORE {
                let bits: u32 = magic.iter().zip(before).map(|(a, b)| (a ^ b).count_ones()).sum();
                assert!(bits > 1, "a flipped bit is damage, not another build: {magic:?} {before:?}");
            }
        }
        for magic in BEFORE {
            let error =
                refuse_older(Path::new("/db/000007.log"), &[&magic[..], b"more"].concat()).unwrap_err();
            assert!(
                error.to_string().starts_with("/db/000007.log: written by a build before 0.1"),
                "{error}"
            );
            assert!(!may_be_ours(&magic), "what others wrote is not removed");
        }
    }

    #[test]
    fn what_a_crash_left_without_its_first_page_may_be_ours() {
        assert!(may_be_ours(b"") && may_be_ours(&[0; 8]) && may_be_ours(b"Solera/") && may_be_ours(&TABLE));
        assert!(!may_be_ours(&TRACE) && !may_be_ours(b"RocksDB!") && !may_be_ours(b"\0\0\0X"));
    }
}

//! Key files in the format of the SOSD benchmark: `read`, a sample of `n` keys.
//!
//! The file is their number as a little-endian `u64`, then the keys, sorted, as little-endian
//! `u64`s. Any `n` keys are equally likely.
//!
//! What must hold: what comes is sorted, with the file's duplicates. A file of another kind is
//! refused with what is wrong.
//!
//! Caller: `data::mod`, for `Keys::Sosd` (`sosd:FILE`).

use crate::random::Random;
use std::{
    fs::File,
    io::{BufReader, Read},
    path::Path,
};

/// `n` keys of the file, or all if it has no more: any `n` are equally likely. Sorted; with
/// duplicates if the file has some. The file is read once, from front to back.
///
/// # Errors
/// What is wrong with the file, in a sentence that names it.
pub(super) fn read(path: &Path, n: usize, random: &mut Random) -> Result<Vec<u64>, String> {
    let wrong = |what: String| format!("{}: {what}", path.display());
    let fail = |error: std::io::Error| wrong(format!("cannot be read: {error}"));
    #[expect(clippy::disallowed_methods, reason = "the keys are the user's file, not the database's")]
    let file = File::open(path).map_err(fail)?;
    let len = file.metadata().map_err(fail)?.len();
    let mut file = BufReader::with_capacity(1 << 20, file);
    let mut word = [0; 8];
    let mut next = |file: &mut BufReader<File>| -> Result<u64, String> {
        file.read_exact(&mut word).map_err(fail)?;
        Ok(u64::from_le_bytes(word))
    };
    if len < 8 {
        return Err(wrong(format!(
            "{len} bytes are too short for a SOSD file: a count (u64), then the keys"
        )));
    }
    let count = next(&mut file)?;
    if count.checked_mul(8).and_then(|bytes| bytes.checked_add(8)) != Some(len) {
        return Err(wrong(format!(
            "not a SOSD file of u64 keys: its count says {count} keys of 8 bytes behind 8 bytes of count, its length is \
             {len} bytes"
        )));
    }
    if count == 0 {
        return Err(wrong("holds no keys".into()));
    }
    let mut keys = Vec::with_capacity(n.min(count as usize));
    let mut last = 0;
    for seen in 0..count {
        let key = next(&mut file)?;
        if key < last {
            let number = seen + 1;
            return Err(wrong(format!("the keys are not sorted: key {number} is less than the one before")));
        }
        last = key;
        // Selection sampling (Knuth 3.4.2, algorithm S).
        if random.below(count - seen) < (n - keys.len()) as u64 {
            keys.push(key);
        }
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(words: &[u64], tail: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        words.iter().for_each(|word| file.write_all(&word.to_le_bytes()).unwrap());
        file.write_all(tail).unwrap();
        file
    }

    #[test]
    fn keys_are_read_whole_or_a_sample_of_them() {
        let keys: Vec<u64> = (0..10_000).map(|i| i / 3 * 1000).collect();
        let words: Vec<u64> = [10_000].into_iter().chain(keys.iter().copied()).collect();
        let file = file(&words, &[]);
        let mut random = Random::new(1);
        assert_eq!(read(file.path(), 10_000, &mut random).unwrap(), keys);
        assert_eq!(read(file.path(), usize::MAX / 2, &mut random).unwrap(), keys);
        let some = read(file.path(), 1000, &mut random).unwrap();
        assert_eq!(some.len(), 1000);
        assert!(some.is_sorted() && some.iter().all(|key| keys.binary_search(key).is_ok()));
        let mean = some.iter().sum::<u64>() as f64 / 1000.0 / keys[9_999] as f64;
        assert!((0.45..0.55).contains(&mean), "{mean}");
    }

    #[test]
    fn a_file_of_another_kind_is_refused_with_what_is_wrong() {
        let refused = |file: tempfile::NamedTempFile, what: &str| {
            let error = read(file.path(), 10, &mut Random::new(1)).unwrap_err();
            assert!(error.contains(what) && error.contains(&*file.path().to_string_lossy()), "{error}");
        };
        refused(file(&[], b"short"), "too short");
        refused(file(&[2, 5], &[]), "its count says 2 keys");
        refused(file(&[2, 5, 6], b"!"), "its count says 2 keys");
        refused(file(&[u64::MAX, 5, 6], &[]), "its count says");
        refused(file(&[3, 5, 7, 6], &[]), "not sorted: key 3 is");
        refused(file(&[0], &[]), "no keys");
        let error = read(Path::new("/nowhere/books"), 10, &mut Random::new(1)).unwrap_err();
        assert!(error.contains("/nowhere/books: cannot be read"), "{error}");
    }
}

//! Key files of text, a key in each line: `read`, a sample of `n` of them.
//!
//! It reads the whole file and keeps any `n` lines, equally likely, sorted, without empty ones.
//!
//! What must hold: a line is at most as long as the longest key. A file without keys is refused
//! with what is wrong, and so is what is no file or has no room in memory. Duplicates stay.
//!
//! Caller: `data::mod`, for `Keys::Lines` (`lines:FILE`).

use crate::{machine::Machine, random::Random};
use std::path::Path;

/// Longest line, in bytes: the longest key.
const LINE_BYTES_MAX: usize = solera::key::KEY_BYTES_MAX;

/// `n` lines of the file, or all if it has no more: any `n` are equally likely. Sorted, without
/// empty ones; with duplicates if the file has some. Lines end with a newline, of which a key has
/// nothing; their bytes may be any others.
///
/// # Errors
/// What is wrong with the file, in a sentence that names it.
pub(super) fn read(path: &Path, n: usize, random: &mut Random) -> Result<Vec<Vec<u8>>, String> {
    let wrong = |what: String| format!("{}: {what}", path.display());
    let fail = |error: std::io::Error| wrong(format!("cannot be read: {error}"));
    let found = std::fs::metadata(path).map_err(fail)?;
    // A device may have no end, and what has been read of a pipe is gone.
    if !found.is_file() && !found.is_dir() {
        return Err(wrong("is a device or a pipe; keys come from a file".into()));
    }
    if let Some(memory) = Machine::here().memory_bytes.filter(|memory| found.len() > memory / 2) {
        let (has, memory) = (found.len() / 1_000_000, memory / 1_000_000);
        return Err(wrong(format!(
            "has {has} MB, and is read whole; this machine has {memory} MB of memory"
        )));
    }
    #[expect(clippy::disallowed_methods, reason = "the keys are the user's file, not the database's")]
    let bytes = std::fs::read(path).map_err(fail)?;
    let all = || bytes.split(|&byte| byte == b'\n');
    if let Some((number, line)) = (1..).zip(all()).find(|(_, line)| line.len() > LINE_BYTES_MAX) {
        let len = line.len();
        return Err(wrong(format!("line {number} has {len} bytes, and a key at most {LINE_BYTES_MAX}")));
    }
    let mut lines: Vec<&[u8]> = all().filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        return Err(wrong("holds no lines, which would be keys".into()));
    }
    if n < lines.len() {
        random.shuffle(&mut lines);
        lines.truncate(n);
    }
    lines.sort_unstable();
    Ok(lines.into_iter().map(<[u8]>::to_vec).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(text: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text).unwrap();
        file
    }

    #[test]
    fn lines_are_read_whole_or_a_sample_of_them() {
        let text = (0..1000).map(|i| format!("key {}\n", i * 7919 % 1000)).collect::<String>();
        let file = file(&[text.as_bytes(), b"\n\n\xff\0 no newline, no UTF-8"].concat());
        let mut random = Random::new(1);
        let all = read(file.path(), 5000, &mut random).unwrap();
        assert!(all.is_sorted() && all.len() == 1001 && all[1000] == b"\xff\0 no newline, no UTF-8");
        let some = read(file.path(), 100, &mut random).unwrap();
        assert!(some.is_sorted() && some.len() == 100 && some.iter().all(|key| all.contains(key)));
    }

    #[test]
    fn a_file_without_keys_is_refused_with_what_is_wrong() {
        let refused = |text: &[u8], what: &str| {
            let file = file(text);
            let error = read(file.path(), 10, &mut Random::new(1)).unwrap_err();
            assert!(error.contains(what) && error.contains(&*file.path().to_string_lossy()), "{error}");
        };
        refused(b"", "no lines");
        refused(b"\n\n", "no lines");
        // The number is that of the file's line, empty ones counted, as an editor counts.
        let long = [b'a'; LINE_BYTES_MAX + 1];
        refused(&[&long[..], b"\nb"].concat(), "line 1 has 65536 bytes");
        refused(&[b"b\n\n", &long[..]].concat(), "line 3 has 65536 bytes");
        if cfg!(target_os = "linux") {
            for device in ["/dev/zero", "/dev/full", "/dev/null"] {
                let error = read(Path::new(device), 10, &mut Random::new(1)).unwrap_err();
                assert_eq!(error, format!("{device}: is a device or a pipe; keys come from a file"));
            }
        }
        let error = read(Path::new("/nowhere/words"), 10, &mut Random::new(1)).unwrap_err();
        assert!(error.contains("/nowhere/words: cannot be read"), "{error}");
    }
}

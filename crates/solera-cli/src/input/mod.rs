//! What `load` reads: `Input`, a file or standard input; and `Consumed`.
//!
//! It decompresses gzip and Zstandard, which it knows by their first bytes. `Consumed` counts bytes
//! taken from the source, from which the progress bar knows how far it is.
//!
//! What must hold: a checksum comes after the content. So `Input::open` reads compressed input to
//! its end first (`prove`), and nothing is loaded if that fails. A Zstandard frame without a
//! checksum has no such protection. Compressed data from a pipe is copied into an unnamed file
//! before (`kept`). `foreign` names a kind of file that `load` cannot read, and the remedy.
//!
//! Callers: `command::load`, the formats of `record`, and the fuzz target `load`.

mod zstd;

use crate::failure::{Failure, Result};
use std::{
    io::{self, Chain, Cursor, Read, Seek},
    path::Path,
    rc::Rc,
};

/// How far into the source the reader has come: bytes as they lie in the file, compressed or not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Consumed(Rc<std::cell::Cell<u64>>);

impl Consumed {
    /// Bytes read from the source so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.get()
    }
}

/// An input, ready to be read.
pub(crate) struct Input {
    /// The decompressed bytes.
    pub(crate) reader: Box<dyn Read>,
    /// The name to use in messages.
    pub(crate) name: String,
    /// Length of the source, where it is a file.
    pub(crate) source_bytes: Option<u64>,
    /// Length of `reader`, where that is known before reading: a plain file.
    pub(crate) plain_bytes: Option<u64>,
    /// Bytes read from the source so far.
    pub(crate) consumed: Consumed,
    /// What its first bytes say that it is, if that is neither text nor decompressed here; and the
    /// remedy.
    pub(crate) foreign: Option<&'static str>,
}

impl Input {
    /// Opens a file, or standard input for `-`.
    #[expect(clippy::disallowed_methods, reason = "the input is the user's file, not the database's")]
    pub(crate) fn open(path: &Path) -> Result<Input> {
        if path.as_os_str() == "-" {
            return Input::of_pipe(Box::new(io::stdin().lock()), "standard input".to_owned());
        }
        let name = path.display().to_string();
        let failed = |error: io::Error| Failure::file("open", path.display(), &error);
        let file = std::fs::File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(Failure::Usage(format!(
                "{name} is a directory; name a file, or - for standard input"
            )));
        }
        if !metadata.is_file() {
            return Input::of_pipe(Box::new(file), name);
        }
        prove(&file, &name)?;
        let input = Input::new(Box::new(file), name, Some(metadata.len()))?;
        match Compression::of_name(path).filter(|_| input.plain_bytes.is_some()) {
            Some(kind) => Err(Failure::Usage(format!(
                "{} does not begin as {kind} does, though its name says so: it is damaged, or text, which another \
                 name can tell",
                input.name
            ))),
            None => Ok(input),
        }
    }

    /// An input of what can be read once.
    fn of_pipe(mut source: Box<dyn Read>, name: String) -> Result<Input> {
        let magic = first_bytes(&mut source, &name)?;
        let whole = Cursor::new(magic.clone()).chain(source);
        if Compression::of(&magic) == Compression::None {
            return Input::new(Box::new(whole), name, None);
        }
        let (file, bytes) = kept(whole, &name)?;
        prove(&file, &name)?;
        Input::new(Box::new(file), name, Some(bytes))
    }

    /// An input of the bytes of `source`, decompressed if they say that they are compressed.
    pub(crate) fn new(source: Box<dyn Read>, name: String, source_bytes: Option<u64>) -> Result<Input> {
        let consumed = Consumed::default();
        let mut source = Counted { source, consumed: consumed.clone() };
        let magic = first_bytes(&mut source, &name)?;
        let (compression, foreign) = (Compression::of(&magic), foreign(&magic));
        let whole: Whole = Cursor::new(magic).chain(source);
        let reader: Box<dyn Read> = match compression {
            Compression::None => Box::new(whole),
            Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(whole)),
            Compression::Zstd => Box::new(zstd::Frames::new(whole)),
        };
        let plain_bytes = source_bytes.filter(|_| compression == Compression::None);
        Ok(Input { reader, name, source_bytes, plain_bytes, consumed, foreign })
    }
}

/// The bytes that tell what `source` is; fewer if it has fewer.
fn first_bytes(source: &mut impl Read, name: &str) -> Result<Vec<u8>> {
    let mut magic = Vec::with_capacity(MAGIC_BYTES);
    let read = source.take(MAGIC_BYTES as u64).read_to_end(&mut magic);
    read.map_err(|error| Failure::file("read", name, &error))?;
    Ok(magic)
}

/// What begins so, if it is a known kind of file that holds no lines of text.
fn foreign(magic: &[u8]) -> Option<&'static str> {
    match magic {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => {
            Some("UTF-32 text; convert it first: iconv -f UTF-32 -t UTF-8")
        }
        [0xff, 0xfe, _, 0, ..] | [0xfe, 0xff, 0, _, ..] => {
            Some("UTF-16 text; convert it first: iconv -f UTF-16 -t UTF-8")
        }
        [b'P', b'K', 3, 4, ..] => Some("a zip archive, as spreadsheets are; load what is in it"),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => {
            Some("compressed by xz; pipe it: xz -dc FILE | solera load … -")
        }
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, ..] => {
            Some("compressed by bzip2; pipe it: bzip2 -dc FILE | solera load … -")
        }
        _ => None,
    }
}

/// What `source` brings, in a file that has no name and goes with its handle.
fn kept(mut source: impl Read, name: &str) -> Result<(std::fs::File, u64)> {
    let failed = |error: io::Error| {
        let dir = std::env::temp_dir();
        Failure::Error(format!("cannot keep {name} in {} until it is proven: {error}", dir.display()))
    };
    let mut file = tempfile::tempfile().map_err(failed)?;
    let bytes = io::copy(&mut source, &mut file).map_err(failed)?;
    file.rewind().map_err(failed)?;
    Ok((file, bytes))
}

/// So many first bytes tell what an input is.
const MAGIC_BYTES: usize = 6;

/// Reads a compressed file to its end, and back to its beginning. The checksum of a compressed
/// stream stands behind its content, so that what comes out before may be wrong: without this,
/// damage would be loaded and noticed afterwards.
fn prove(mut file: &std::fs::File, name: &str) -> Result<()> {
    let source = file.try_clone().map_err(|error| Failure::file("open", name, &error))?;
    let mut input = Input::new(Box::new(source), name.to_owned(), Some(0))?;
    if input.plain_bytes.is_none() {
        let damaged = |error| Failure::Error(format!("{name} is damaged: {error}; nothing of it is loaded"));
        io::copy(&mut input.reader, &mut io::sink()).map_err(damaged)?;
    }
    file.rewind().map_err(|error| Failure::file("read", name, &error))
}

/// The source from its first byte: the bytes that were looked at, then the rest.
type Whole = Chain<Cursor<Vec<u8>>, Counted>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    fn of(magic: &[u8]) -> Compression {
        match magic {
            // No text begins so. Whether the compression method is the one that there is, is looked
            // at as everything else is.
            [0x1f, 0x8b, _, ..] => Compression::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Zstd,
            // A skippable frame; parallel compressors begin with one.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Compression::Zstd,
            _ => Compression::None,
        }
    }

    /// What a file of this name is said to be compressed by.
    fn of_name(path: &Path) -> Option<&'static str> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "gz" => Some("gzip"),
            "zst" => Some("Zstandard"),
            _ => None,
        }
    }
}

struct Counted {
    source: Box<dyn Read>,
    consumed: Consumed,
}

impl Read for Counted {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buf)?;
        self.consumed.0.set(self.consumed.0.get() + read as u64);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn read(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let input = Input::new(Box::new(Cursor::new(bytes.to_vec())), "test".to_owned(), None).unwrap();
        let mut content = Vec::new();
        let mut reader = input.reader;
        reader.read_to_end(&mut content)?;
        assert_eq!(input.consumed.bytes(), bytes.len() as u64);
        Ok(content)
    }

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(content: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(content, ruzstd::encoding::CompressionLevel::Fastest)
    }

    #[test]
    fn every_compression_gives_the_same_bytes() {
        let content: Vec<u8> = (0..300_000u32).flat_map(|i| (i / 3).to_le_bytes()).collect();
        assert_eq!(read(&content).unwrap(), content);
        assert_eq!(read(&gzip(&content)).unwrap(), content);
        assert_eq!(read(&zstd(&content)).unwrap(), content);
    }

    #[test]
    fn concatenated_frames_and_skippable_frames_are_one_stream() {
        assert_eq!(read(&[gzip(b"one "), gzip(b""), gzip(b"two")].concat()).unwrap(), b"one two");
        let skippable = [0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 9, 9, 9];
        let frames = [&skippable[..], &zstd(b"one "), &skippable, &zstd(b"two"), &skippable].concat();
        assert_eq!(read(&frames).unwrap(), b"one two");
    }

    #[test]
    fn inputs_shorter_than_a_magic_number_are_plain() {
        for content in [&b""[..], b"a", b"\x1f\x8b", b"\x28\xb5\x2f"] {
            assert_eq!(read(content).unwrap(), content);
        }
    }

    #[test]
    fn damaged_compressed_input_is_an_error_not_an_end() {
        let content: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
        for compressed in [gzip(&content), zstd(&content)] {
            assert!(read(&compressed[..compressed.len() / 2]).is_err());
            assert!(read(&compressed[..compressed.len() - 1]).is_err());
            assert!(read(&[&compressed, &b"rest"[..]].concat()).is_err());
            let mut flipped = compressed.clone();
            let last = flipped.len() - 1;
            flipped[last] ^= 1;
            assert!(read(&flipped).is_err(), "the checksum at the end is compared");
        }
    }
}

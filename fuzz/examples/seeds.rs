//! `seeds DIR`: the beginnings of the corpora, written by the engine itself, one directory for each
//! target.

use solera::{
    Compression, IndexKind, Layout, Options,
    block::{BlockBuilder, LastMile},
    dir::FileName,
    frame::{FILE_HEADER_BYTES, FRAME_HEADER_BYTES},
    index::{Index, LastKeys, handles::Handles, separators::Separators},
    key::Kind,
    tombstone::{RangeTombstone, RangeTombstones},
    trace::TraceOptions,
    vfs::{Fs, mem::MemFs, read_all},
};
use solera_fuzz::DIR;
use solera_model::dual::{self, Policy};
use solera_sim::random::Random;
use std::{error::Error, path::Path, sync::Arc};

type Outcome = Result<(), Box<dyn Error>>;

struct Corpora<'d> {
    dir: &'d Path,
    number: u32,
}

impl Corpora<'_> {
    fn add(&mut self, target: &str, bytes: &[u8]) -> Outcome {
        let dir = self.dir.join(target);
        std::fs::create_dir_all(&dir)?;
        self.number += 1;
        #[expect(clippy::disallowed_methods, reason = "seeds are files for the fuzzer, none of a database")]
        std::fs::write(dir.join(format!("seed{:03}", self.number)), bytes)?;
        Ok(())
    }

    /// Logs, manifests and tables of a small database of this kind.
    fn database(&mut self, index: IndexKind, compression: Compression) -> Outcome {
        let fs = MemFs::new();
        let layout = Layout { index, compression, block_bytes: 256, ..Layout::default() };
        let options = Options::new().fs(Arc::new(fs.clone())).seed(1).background_threads(0).layout(layout);
        let db = options.open(DIR)?;
        let other = db.keyspace("other")?;
        for number in 0..200u32 {
            db.put((number * 7).to_be_bytes(), vec![number as u8; number as usize % 40])?;
            if number % 10 == 0 {
                other.put_with_ttl(
                    format!("key{number}").as_bytes(),
                    b"soon",
                    std::time::Duration::from_secs(9),
                )?;
                db.delete((number * 3).to_be_bytes())?;
            }
        }
        db.delete_range(b"\0\0\0\x20"..b"\0\0\0\x80")?;
        db.flush()?;
        db.put(b"late", b"still in the log")?;
        db.close()?;
        for name in fs.list_dir(Path::new(DIR))? {
            let content = read_all(&*fs.open(&Path::new(DIR).join(&name))?)?;
            // A payload without its frame.
            let payload = content.get(FILE_HEADER_BYTES + FRAME_HEADER_BYTES..).unwrap_or_default();
            match FileName::parse(&name) {
                Some(FileName::Log(_)) => {
                    self.add("wal", &content)?;
                    self.add("wal", payload)?;
                }
                Some(FileName::Manifest(_)) => {
                    self.add("manifest", &content)?;
                    self.add("manifest", payload)?;
                }
                Some(FileName::Table(_)) => self.add("table", &content)?,
                Some(_) | None => {}
            }
        }
        Ok(())
    }

    fn blocks(&mut self) -> Outcome {
        for last_mile in
            [LastMile::Halving, LastMile::Pla { epsilon: 4 }, LastMile::LeastSquares, LastMile::Hash]
        {
            for (elide_below, step) in [(0, 1), (u64::MAX >> 8, 1000)] {
                let mut builder = BlockBuilder::new(512, last_mile, elide_below);
                for number in 0..60u64 {
                    let key = [b"prefix", &(number * step).to_be_bytes()[..]].concat();
                    let kind = if number % 9 == 0 { Kind::Delete } else { Kind::Put };
                    let value = if kind == Kind::Put { vec![3; (number % 5) as usize] } else { Vec::new() };
                    if !builder.try_add(&key, 1000 - number, kind, &value) {
                        break;
                    }
                }
                let mut payload = Vec::new();
                builder.finish(b"note", &mut payload);
                self.add("block", &payload)?;
            }
        }
        Ok(())
    }

    fn indexes(&mut self) -> Outcome {
        for step in [1u64, 1 << 20, 0x0123_4567_89ab] {
            let separators: Separators = (0..100u64)
                .map(|number| (number * step).to_be_bytes().to_vec())
                .collect::<Vec<_>>()
                .iter()
                .collect();
            let mut bytes = vec![0, 0, 1, 4];
            separators.encode(&mut bytes);
            self.add("index", &bytes)?;
            for kind in IndexKind::ALL {
                bytes = vec![101, 0, 0, 1];
                Index::build(kind, 1, &separators, None).encode(&separators, &mut bytes);
                self.add("index", &bytes)?;
            }
            let end = 32 + 20 * 4096u32;
            bytes = [&end.to_le_bytes()[..3], &[4]].concat();
            Handles::encode_sizes(&[4096; 20], &mut bytes);
            self.add("index", &bytes)?;
        }
        Ok(())
    }

    /// A learned index whose boundaries lie in clusters, and one with positions of 24 bits.
    fn forms_of_learned(&mut self) -> Outcome {
        let stem = |n: u64| (n / 9).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let in_runs = (0..300).map(|n| stem(n).wrapping_add(n % 9)).collect();
        self.learned(in_runs, 1, "clusters, ")?;
        // Gaps of all sizes, each octave equally likely.
        let next = |at: &mut u64, n| {
            *at += 1 << (Random::new(n).next() % 20);
            Some(*at)
        };
        self.learned((0..1000).scan(0, next).collect(), 10, " fine)")
    }

    /// The learned index of blocks of so many of these keys; what is told of its form has this in
    /// it.
    fn learned(&mut self, mut numbers: Vec<u64>, keys_each: usize, told: &str) -> Outcome {
        numbers.sort_unstable();
        let keys: Vec<[u8; 8]> = numbers.into_iter().map(u64::to_be_bytes).collect();
        let (mut separators, mut last_keys) = (Separators::new(), LastKeys::new(keys.len() as u64));
        for end in (keys_each..keys.len()).step_by(keys_each) {
            separators.push_between(&keys[end - 1], &keys[end]);
            last_keys.push(&keys[end - keys_each.min(8)..end]);
        }
        let built = Index::build(IndexKind::Learned, 1, &separators, Some(&last_keys));
        assert!(built.describe().is_some_and(|form| form.contains(told)), "{:?}", built.describe());
        let blocks = keys.len().div_ceil(keys_each) as u32;
        let mut bytes = [&blocks.to_le_bytes()[..3], &[1]].concat();
        built.encode(&separators, &mut bytes);
        self.add("index", &bytes)
    }

    fn models(&mut self) -> Outcome {
        for step in [1u64, 1000, 1 << 40] {
            let heads: Vec<u64> = (0..200).map(|number| number * number * step).collect();
            let fit = dual::fit(Policy::Pra, &heads);
            let line = [fit.line.slope().to_bits(), fit.line.intercept().to_bits(), fit.error.into()];
            let bytes: Vec<u8> = line.iter().chain(&heads).flat_map(|word| word.to_le_bytes()).collect();
            self.add("model", &bytes)?;
        }
        Ok(())
    }

    fn values(&mut self) -> Outcome {
        let tombstone =
            |start: &[u8], end: &[u8], seqno| RangeTombstone { start: start.into(), end: end.into(), seqno };
        let mut bytes = Vec::new();
        RangeTombstones::new(vec![tombstone(b"a", b"c", 5), tombstone(b"b", b"f", 9)]).encode(&mut bytes);
        self.add("values", &bytes)?;
        bytes.clear();
        solera::Shape::default().encode(&mut bytes);
        self.add("values", &bytes)?;
        bytes.clear();
        Layout::default().encode(&mut bytes);
        self.add("values", &bytes)?;
        let mut filter = solera::filter::FilterBuilder::new(solera::Filters::default().mean());
        (0..100u64).for_each(|number| filter.add(number << 32 | number));
        self.add("values", &filter.finish())
    }

    /// A trace of every kind of operation; with its keys, and with hashes of them.
    fn traces(&mut self) -> Outcome {
        for hash_keys in [false, true] {
            let fs = MemFs::new();
            let db = Options::new().fs(Arc::new(fs.clone())).seed(1).background_threads(0).open(DIR)?;
            let path = Path::new(DIR).join("trace");
            let recording = db.control().trace(&path, TraceOptions::new().hash_keys(hash_keys))?;
            db.put(b"key", b"value")?;
            db.put_with_ttl(b"soon", b"gone", std::time::Duration::from_secs(9))?;
            db.get(b"key")?;
            db.get(b"none")?;
            let other = db.keyspace("other")?;
            let both = |scan: &mut solera::Iter| (scan.next().is_some(), scan.next_back().is_some());
            assert_eq!(both(&mut db.range(..)), (true, true));
            let mut batch = db.batch();
            batch.put(&other, b"one", b"1")?;
            batch.delete(&other, b"key")?;
            db.write(batch)?;
            db.delete_range(b"a"..b"z")?;
            db.drop_keyspace("other")?;
            recording.finish()?;
            let content = read_all(&*fs.open(&path)?)?;
            self.add("trace", &content)?;
            self.add("trace", content.get(FILE_HEADER_BYTES + FRAME_HEADER_BYTES + 9..).unwrap_or_default())?;
        }
        Ok(())
    }

    fn loads(&mut self) -> Outcome {
        let texts: [&[u8]; 5] = [
            b"a\tb\nkey one\tvalue\nkey two\tother\n",
            b"a,b\n\"quoted \"\"key\",\"a\nb\"\nplain,2\n",
            b"{\"a\":\"key\",\"b\":[1,2.5e3,null]}\n{\"a\":7,\"2\":\"\\u00e9\"}\n",
            &[3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0],
            b"one\r\ntwo\r\n\r\nthree",
        ];
        for (format, text) in (0u8..).zip(texts) {
            for flags in [0u8, 3, 20] {
                self.add("load", &[&[format + 5 * flags], text].concat())?;
            }
        }
        Ok(())
    }

    fn scripts(&mut self) -> Outcome {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let bytes: Vec<u8> = (0..8 + 3 * 60).map(|_| random.next() as u8).collect();
            self.add("script", &bytes)?;
        }
        Ok(())
    }
}

fn main() -> Outcome {
    let dir = std::env::args_os().nth(1).ok_or("seeds DIR: say where")?;
    let mut corpora = Corpora { dir: Path::new(&dir), number: 0 };
    for index in IndexKind::ALL {
        for compression in Compression::ALL.into_iter().filter(|compression| compression.available()) {
            corpora.database(index, compression)?;
        }
    }
    corpora.blocks()?;
    corpora.indexes()?;
    corpora.forms_of_learned()?;
    corpora.models()?;
    corpora.values()?;
    corpora.traces()?;
    corpora.loads()?;
    corpora.scripts()?;
    println!("{} seeds", corpora.number);
    Ok(())
}

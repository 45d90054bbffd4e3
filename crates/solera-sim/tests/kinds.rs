//! Tests that the index kinds give identical answers, whatever the keys look like and however
//! entries came into tables.
//!
//! One keyspace for each kind has the same content: keys of many distributions, loaded in bulk, or
//! flushed and compacted. A model is a hint, never an authority. Door: `Db`.

use solera::{
    Compression, Db, IndexKind, Keyspace, KeyspaceOptions, Layout, ManualClock, Options, Shape,
    vfs::mem::MemFs,
};
use solera_sim::random::Random;
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn numbers(numbers: impl Iterator<Item = u64>) -> Vec<Vec<u8>> {
    numbers.map(|number| number.to_be_bytes().to_vec()).collect()
}

/// A standard normal draw, by summing uniforms.
fn normal(random: &mut Random) -> f64 {
    (0..12).map(|_| random.below(1 << 32) as f64 / (1_u64 << 32) as f64).sum::<f64>() - 6.0
}

fn distribution(name: &str, count: usize) -> Vec<Vec<u8>> {
    let mut random = Random::new(count as u64);
    let n = count as u64;
    match name {
        "uniform" => numbers((0..n).map(|_| random.next())),
        "lognormal" => numbers((0..n).map(|_| (normal(&mut random) * 2.0 + 20.0).exp() as u64)),
        "clustered" => {
            let centres: Vec<u64> = (0..n / 100 + 1).map(|_| random.next()).collect();
            numbers((0..n).map(|_| random.pick(&centres).wrapping_add(random.below(200))))
        }
        "dense with gaps" => numbers((0..n).map(|i| i + (i / 97) * 1_000_003 + (i / 1009) * (1 << 40))),
        // Many keys have the same first 8 bytes, in runs longer than a block.
        "duplicate-heavy" => (0..n)
            .map(|i| [&(i / 300 * 7919).to_be_bytes()[..], &(i % 300).to_be_bytes()[6..]].concat())
            .collect(),
        "above 2^53" => numbers((0..n).map(|i| u64::MAX - i * 3 - random.below(2))),
        "around 2^53" => numbers((0..n).map(|i| (1 << 53) - n / 2 + i)),
        "1 byte" => (0..=255_u8).map(|byte| vec![byte]).chain([Vec::new()]).collect(),
        "200-byte shared prefix" => {
            (0..n).map(|_| [&[b'p'; 200][..], random.below(n * 10).to_string().as_bytes()].concat()).collect()
        }
        // Prefixes shared by some, in several depths.
        "nested prefixes" => (0..n)
            .map(|i| {
                format!("user/{}/{}/{}", i % 7, "x".repeat((i % 50) as usize), random.below(1000))
                    .into_bytes()
            })
            .collect(),
        "random strings" => (0..n)
            .map(|_| {
                let len = random.below(40);
                (0..len).map(|_| *random.pick(b"\0\x01abcz\xfe\xff")).collect()
            })
            .collect(),
        _ => unreachable!("no distribution {name}"),
    }
}

const NAMES: [&str; 11] = [
    "uniform",
    "lognormal",
    "clustered",
    "dense with gaps",
    "duplicate-heavy",
    "above 2^53",
    "around 2^53",
    "1 byte",
    "200-byte shared prefix",
    "nested prefixes",
    "random strings",
];

/// One keyspace per index kind, with the same content.
struct Kinds {
    _db: Db,
    spaces: Vec<(IndexKind, Keyspace)>,
}

impl Kinds {
    fn new(block_bytes: u32, epsilon: u32) -> Kinds {
        let db = Options::new()
            .fs(Arc::new(MemFs::new()))
            .clock(Arc::new(ManualClock::default()))
            .seed(1)
            .background_threads(0)
            .memory(8 << 20)
            .open("/db")
            .unwrap();
        let spaces = IndexKind::ALL.map(|index| {
            let layout = Layout {
                block_bytes,
                index,
                epsilon,
                filter: solera::Filters::monkey(10.0).with_last_level(solera::FilterKind::Ribbon),
                compression: if epsilon.is_multiple_of(2) { Compression::Lz4 } else { Compression::None },
            };
            let shape = Shape { table_bytes: 256 << 10, ..Shape::default() };
            let options = KeyspaceOptions::new().layout(layout).shape(shape);
            (index, db.keyspace_with(index.name(), options).unwrap())
        });
        Kinds { _db: db, spaces: spaces.to_vec() }
    }

    fn check(&self, name: &str, map: &Map) {
        let mut random = Random::new(9);
        let keys: Vec<&Vec<u8>> = map.keys().collect();
        let mut probes: BTreeSet<Vec<u8>> = BTreeSet::new();
        for _ in 0..1500 {
            let mut key = (*random.pick(&keys)).clone();
            probes.insert(key.clone());
            // Absent, mostly: beside a key, below and above it, cut off, longer.
            match random.below(4) {
                0 => key.push(random.next() as u8),
                1 => key.truncate(random.index(key.len() + 1)),
                2 if !key.is_empty() => {
                    let at = random.index(key.len());
                    key[at] = key[at].wrapping_add(1);
                }
                _ => key = random.next().to_be_bytes().to_vec(),
            }
            probes.insert(key);
        }
        // Below the first, above the last.
        probes.extend([Vec::new(), vec![0], vec![0; 300], vec![0xff; 8], vec![0xff; 300]]);
        for (index, space) in &self.spaces {
            for key in &probes {
                let context = || format!("{name}, {index}, key {}", key.escape_ascii());
                let found = space.get(key).unwrap();
                assert_eq!(found.as_deref(), map.get(key).map(Vec::as_slice), "{}", context());
                assert_eq!(space.contains_key(key).unwrap(), map.contains_key(key), "{}", context());
                let mut iter = space.iter();
                iter.seek(key).unwrap();
                let above = iter.next().map(|pair| pair.unwrap().0.to_vec());
                assert_eq!(
                    above.as_ref(),
                    map.range(key.clone()..).next().map(|(key, _)| key),
                    "{}",
                    context()
                );
                let mut iter = space.iter();
                iter.seek_back(key).unwrap();
                let below = iter.next_back().map(|pair| pair.unwrap().0.to_vec());
                assert_eq!(
                    below.as_ref(),
                    map.range(..=key.clone()).next_back().map(|(key, _)| key),
                    "{}",
                    context()
                );
            }
            for (from, to) in probes.iter().zip(probes.iter().skip(7)).step_by(23) {
                let bounds = (Bound::Excluded(from), Bound::Included(to));
                let found: Vec<_> = space
                    .range(bounds)
                    .map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap())
                    .collect();
                let expected: Vec<_> = map
                    .range::<Vec<u8>, _>(bounds)
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect();
                assert!(found == expected, "{name}, {index}, range {from:x?} to {to:x?}");
            }
            let whole: Vec<_> = space.iter().keys().map(|key| key.unwrap().to_vec()).collect();
            assert!(whole.iter().eq(map.keys()), "{name}, {index}, full scan");
            let whole: Vec<_> = space.iter().keys().rev().map(|key| key.unwrap().to_vec()).collect();
            assert!(whole.iter().eq(map.keys().rev()), "{name}, {index}, full scan backwards");
        }
    }
}

fn value(at: usize) -> Vec<u8> {
    let len = [0, 1, 8, 8, 64, 200][at % 6];
    [&at.to_le_bytes()[..], &vec![at as u8; len]].concat()
}

#[test]
fn index_kinds_agree_on_bulk_loaded_tables() {
    for (number, name) in NAMES.into_iter().enumerate() {
        let map: Map =
            distribution(name, 20_000).into_iter().enumerate().map(|(at, key)| (key, value(at))).collect();
        let kinds = Kinds::new([256, 4096, 1024][number % 3], [64, 1, 8, 3][number % 4]);
        for (_, space) in &kinds.spaces {
            space.ingest(map.iter()).unwrap();
        }
        kinds.check(name, &map);
    }
}

#[test]
fn index_kinds_agree_on_flushed_and_compacted_tables() {
    for (number, name) in NAMES.into_iter().enumerate() {
        let mut keys = distribution(name, 6000);
        let mut random = Random::new(5);
        for at in 0..keys.len() {
            let other = at + random.index(keys.len() - at);
            keys.swap(at, other);
        }
        let kinds = Kinds::new([4096, 512][number % 2], [2, 16, 5][number % 3]);
        let mut map = Map::new();
        for (at, key) in keys.iter().enumerate() {
            let gone = at % 5 == 4;
            if gone {
                map.remove(&keys[at / 2]);
            }
            map.insert(key.clone(), value(at));
            for (_, space) in &kinds.spaces {
                if gone {
                    space.delete(&keys[at / 2]).unwrap();
                }
                space.put(key, value(at)).unwrap();
                // Several runs with the same keys in them.
                if at % 1777 == 0 {
                    space.flush().unwrap();
                }
            }
        }
        kinds.check(name, &map);
        for (_, space) in &kinds.spaces {
            space.compact_range(..).unwrap();
        }
        kinds.check(name, &map);
    }
}

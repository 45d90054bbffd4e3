//! What the searches of this crate cost over the boundaries between blocks of sorted keys.
//!
//! It measures the time of `STree`, `Eytzinger`, `interpolation`, `Boundaries` and plain halving.
//! It also tells the memory of `STree` and `Boundaries`, and how many keys `Boundaries` sends to a
//! neighbour.
//!
//! Run `cargo run --release -p solera-model --example compare [keys]`. The default is two million
//! keys of each of seven kinds, in blocks of 56 and tables of 4,000 blocks. It takes a few seconds.

use solera_model::{boundaries::Boundaries, eytzinger::Eytzinger, interpolation, stree::STree};
use std::{
    hint::black_box,
    time::{Duration, Instant},
};

const KEYS_PER_BLOCK: usize = 56;
const BLOCKS_PER_TABLE: usize = 4000;
const PROBES: usize = 1 << 20;
const REPEATS: usize = 5;

/// A reproducible source of numbers (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| (self.next() >> 11) as f64 / (1u64 << 53) as f64).sum::<f64>() - 6.0
    }
}

fn keys(family: &str, n: usize, random: &mut Random) -> Vec<u64> {
    let mut keys: Vec<u64> = match family {
        "uniform" => (0..n).map(|_| random.next()).collect(),
        "lognormal" => (0..n).map(|_| ((2.0 * random.normal()).exp() * 1e9) as u64).collect(),
        "clustered" => {
            let mut keys = Vec::new();
            while keys.len() < n {
                let (size, gap_bits) = (16 << random.below(13), random.below(17));
                let mut key = random.next();
                for _ in 0..size {
                    keys.push(key);
                    key = key.wrapping_add(1 + random.below(2 << gap_bits));
                }
            }
            keys
        }
        // A cascade: at each of 12 levels of 4 bits, one of 16 parts with weights that differ by a
        // factor of 8.
        "cascade" => {
            let part = |random: &mut Random| match random.below(32) {
                draw @ 0..16 => draw,
                draw => (draw - 16) / 8 * 5,
            };
            (0..n)
                .map(|_| (0..12).fold(0, |key, _| (key << 4) | part(random)) << 16 | random.below(1 << 16))
                .collect()
        }
        // Digits of hexadecimal text.
        "hex text" => (0..n)
            .map(|_| {
                (0..8)
                    .fold(0, |key, _| (key << 8) | u64::from(b"0123456789abcdef"[random.below(16) as usize]))
            })
            .collect(),
        // Times in seconds, most days busy and some very busy, with a microsecond to tell them
        // apart.
        "wiki-like" => (0..n)
            .map(|_| {
                let day = random.below(4000);
                let busy = if day % 7 < 2 { 20_000 } else { 86_400 };
                ((1_200_000_000 + day * 86_400 + random.below(busy)) * 1_000_000)
                    + random.below(4) * 250_000
                    + random.below(1000)
            })
            .collect(),
        // Ids that fill a small part of the numbers, and a few of the largest numbers of all.
        _ => (0..n)
            .map(|i| if i % 100_000 == 0 { u64::MAX - random.below(1 << 40) } else { random.below(1 << 38) })
            .collect(),
    };
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// The shortest bytes that separate two keys, as a number.
fn separator(lower: u64, upper: u64) -> u64 {
    let bytes = (lower ^ upper).leading_zeros() / 8 + 1;
    upper & !(u64::MAX.checked_shr(8 * bytes).unwrap_or(0))
}

/// The least time of some repeats per probe.
#[expect(clippy::disallowed_methods, reason = "an example that measures")]
fn ns(probes: &[u64], per_table: usize, mut search: impl FnMut(usize, u64) -> usize, starts: &[u64]) -> f64 {
    assert!(per_table > 0);
    let mut least = Duration::MAX;
    for _ in 0..REPEATS {
        let start = Instant::now();
        let mut sum = 0;
        for &x in probes {
            let table = starts.partition_point(|&first| first <= x).saturating_sub(1);
            sum += search(table, x);
        }
        black_box(sum);
        least = least.min(start.elapsed());
    }
    least.as_nanos() as f64 / probes.len() as f64
}

fn main() {
    let n: usize = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(2_000_000);
    println!(
        "{:<10} {:>8} {:>9} {:>9} {:>11} {:>8}   ns: halving eytzinger interpolation s-tree boundaries",
        "keys", "blocks", "segments", "B/block", "neighbours", "s-tree B"
    );
    for family in ["uniform", "lognormal", "wiki-like", "clustered", "outliers", "hex text", "cascade"] {
        let mut random = Random(1);
        let keys = keys(family, n, &mut random);
        let mut tables = Vec::new();
        let mut starts = Vec::new();
        for table in keys.chunks(KEYS_PER_BLOCK * BLOCKS_PER_TABLE) {
            let blocks: Vec<&[u64]> = table.chunks(KEYS_PER_BLOCK).collect();
            let between = blocks.windows(2).map(|two| separator(two[0][two[0].len() - 1], two[1][0]));
            tables.push(between.collect::<Vec<u64>>());
            starts.push(table[0]);
        }
        let blocks = keys.len() / KEYS_PER_BLOCK;
        let learned: Vec<_> = tables.iter().map(|table| Boundaries::new(table, |_| false)).collect();
        let strees: Vec<_> = tables.iter().map(|table| STree::new(table)).collect();
        let eytzingers: Vec<_> = tables.iter().map(|table| Eytzinger::new(table)).collect();
        let mut neighbours = 0;
        for (table, keys) in keys.chunks(KEYS_PER_BLOCK * BLOCKS_PER_TABLE).enumerate() {
            for &x in keys {
                let (rank, truth) = (learned[table].place(x).rank, strees[table].up_to(x));
                assert!(rank == truth || rank == truth + 1);
                neighbours += usize::from(rank != truth);
            }
        }
        let probes: Vec<u64> = (0..PROBES).map(|_| keys[random.below(keys.len() as u64) as usize]).collect();
        let time = |search: &dyn Fn(usize, u64) -> usize| ns(&probes, BLOCKS_PER_TABLE, search, &starts);
        let times = [
            time(&|table, x| tables[table].partition_point(|&key| key <= x)),
            time(&|table, x| eytzingers[table].up_to(x)),
            time(&|table, x| interpolation::up_to(&tables[table], x)),
            time(&|table, x| strees[table].up_to(x)),
            time(&|table, x| learned[table].place(x).rank),
        ];
        println!(
            "{family:<10} {blocks:>8} {:>9} {:>9.2} {:>9.4} % {:>8.2}       {:>7.1} {:>9.1} {:>13.1} {:>6.1} {:>10.1}",
            learned.iter().map(Boundaries::segments).sum::<usize>(),
            learned.iter().map(Boundaries::bytes).sum::<usize>() as f64 / blocks as f64,
            100.0 * neighbours as f64 / keys.len() as f64,
            strees.iter().map(STree::bytes).sum::<usize>() as f64 / blocks as f64,
            times[0],
            times[1],
            times[2],
            times[3],
            times[4],
        );
    }
}

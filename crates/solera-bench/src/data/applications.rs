//! Keys as applications make them, one generator for each such `Family`: composite, tenants,
//! ranges, coordinates, runs, hashes with lines, words, paths, UUIDv7, ULID.
//!
//! They are of several parts, crowded, in touching ranges, or text that a program writes.
//! `data::Family` says what each is for.
//!
//! What must hold: all are synthetic and seeded. They have the features that trouble an index, and
//! are no user's data. Identifiers with a time are of the form that their standards say.
//!
//! Caller: `data::family`, which draws from them.

use crate::random::Random;

/// The letters of ULIDs, in the order of their values (Crockford's base 32).
const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// Milliseconds since 1970 at which identifiers with a time begin.
const MILLIS_START: u64 = 1_704_067_200_000;

/// Order (u32), then line (u32): 1 to 165 lines an order, 83 on average, orders in a row.
pub(super) fn composite(n: usize, random: &mut Random) -> Vec<u64> {
    const LINES_MAX: u64 = 165;
    let mut keys = Vec::with_capacity(n);
    let mut order = 0;
    while keys.len() < n {
        order += 1;
        let lines = 1 + random.below(LINES_MAX);
        keys.extend((1..=lines).map(|line| order << 32 | line));
    }
    keys.truncate(n);
    keys
}

/// Hash of a tenant (u32), then number (u32): 19 of 20 tenants have 100 rows, the others 20,000.
pub(super) fn tenants(n: usize, random: &mut Random) -> Vec<u64> {
    let mut keys = Vec::with_capacity(n);
    while keys.len() < n {
        let tenant = random.below(1 << 32);
        let rows = if random.below(20) > 0 { 100 } else { 20_000 };
        keys.extend((0..rows).map(|row| tenant << 32 | row));
    }
    keys.truncate(n);
    keys
}

/// First and last addresses of ranges of 2^8 to 2^20 addresses, of which every second begins where
/// one ends.
pub(super) fn ranges(n: usize, random: &mut Random) -> Vec<u64> {
    let mut keys = Vec::with_capacity(n + 1);
    // As dense, whatever their count: about a tenth of all addresses lies in ranges.
    let gap = 1u64 << 22;
    let mut at = 0u64;
    while keys.len() < n {
        let bits = 8 + random.below(13);
        let size = 1 << bits;
        if random.below(2) == 0 {
            at += random.below(2 * gap);
        }
        let first = at.div_ceil(size) * size;
        keys.extend([first, first + size - 1]);
        at = first + size;
    }
    keys.truncate(n);
    keys
}

/// Points along coasts, as interleaved bits of longitude and latitude, 32 bits each: walks that
/// turn slowly, with steps of very different lengths, and many of them close to each other.
pub(super) fn coordinates(n: usize, random: &mut Random) -> Vec<u64> {
    const UNIT: f64 = (1u64 << 32) as f64;
    let mut keys = Vec::with_capacity(n);
    while keys.len() < n {
        let (mut x, mut y) = (random.unit(), random.unit());
        // From an islet to a continent, each octave equally likely.
        let points = 8 << random.below(13);
        let step = 1e-6 * (random.normal()).exp();
        let mut course = random.unit() * std::f64::consts::TAU;
        for _ in 0..points.min(n - keys.len()) {
            course += 0.6 * random.normal();
            let length = step * (0.8 * random.normal()).exp();
            (x, y) =
                ((x + length * course.cos()).rem_euclid(1.0), (y + length * course.sin()).rem_euclid(1.0));
            keys.push(spread((x * UNIT) as u64) << 1 | spread((y * UNIT) as u64));
        }
    }
    keys
}

/// The low 32 bits of `x`, each followed by a zero bit on its upper side.
fn spread(x: u64) -> u64 {
    let mut x = x & 0xffff_ffff;
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ] {
        x = (x | x << shift) & mask;
    }
    x
}

/// Dense runs of 32 to 4,096 numbers at random places.
pub(super) fn runs(n: usize, random: &mut Random) -> Vec<u64> {
    let mut keys = Vec::with_capacity(n);
    while keys.len() < n {
        let start = random.draw() >> 1;
        let len = (32u64 << random.below(8)).min((n - keys.len()) as u64);
        keys.extend(start..start + len);
    }
    keys
}

/// Hash of a file (u32), then line (u32): 8 to 3,000 lines a file, by Pareto's law, some 55 on
/// average.
pub(super) fn hash_lines(n: usize, random: &mut Random) -> Vec<u64> {
    const LINES_MIN: f64 = 8.0;
    const LINES_MAX: f64 = 3000.0;
    let mut keys = Vec::with_capacity(n);
    while keys.len() < n {
        let file = random.below(1 << 32);
        let lines = (LINES_MIN / (1.0 - random.unit())).min(LINES_MAX) as u64;
        keys.extend((0..lines).map(|line| file << 32 | line));
    }
    keys.truncate(n);
    keys
}

/// `n` different paths of files or more: a tree of directories with names of a few hundred, each
/// the more seldom the later it was made; in each directory names of one or two words, with an
/// ending.
pub(super) fn paths(n: usize, random: &mut Random) -> Vec<Vec<u8>> {
    const NAMES: usize = 400;
    const ENDINGS: [&str; 8] = [".rs", ".c", ".h", ".md", ".py", ".go", ".json", ".txt"];
    /// Files of a directory, in the mean.
    const FILES: usize = 24;
    let words = Words::new(random);
    let names: Vec<String> = words.stems[..NAMES].to_vec();
    let mut directories = vec![String::new()];
    let mut keys = Vec::with_capacity(n);
    while keys.len() < n {
        // The younger a directory, the deeper it lies; most lie in old ones.
        let age = (random.unit() * random.unit()).powi(2);
        let parent = (age * directories.len() as f64) as usize;
        let directory = format!("{}{}/", directories[parent], zipf(&names, random));
        for _ in 0..random.below(2 * FILES as u64) {
            let first = zipf(&words.stems, random);
            let second =
                if random.below(2) == 0 { format!("_{}", zipf(&words.stems, random)) } else { String::new() };
            let ending = ENDINGS[(random.unit() * random.unit() * ENDINGS.len() as f64) as usize];
            keys.push(format!("{directory}{first}{second}{ending}").into_bytes());
        }
        directories.push(directory);
    }
    keys
}

/// Words of made-up morphemes: some thousand stems and a few dozen endings, each the more seldom
/// the later it was made (Zipf), one to three stems and up to two endings a word; letters as uneven
/// as those of a language.
pub(super) struct Words {
    stems: Vec<String>,
    endings: Vec<String>,
}

impl Words {
    pub(super) fn new(random: &mut Random) -> Words {
        const ONSETS: [&str; 24] = [
            "", "b", "br", "d", "f", "g", "gr", "h", "k", "kl", "l", "m", "n", "p", "pr", "r", "s", "sch",
            "st", "str", "t", "tr", "w", "z",
        ];
        const NUCLEI: [&str; 9] = ["a", "e", "i", "o", "u", "ä", "ei", "au", "ie"];
        const CODAS: [&str; 14] = ["", "b", "ch", "ck", "d", "l", "m", "n", "ng", "r", "rt", "s", "st", "t"];
        let mut syllable = || {
            let mut pick = |of: &[&'static str]| {
                let skewed = random.unit() * random.unit();
                of[(skewed * of.len() as f64) as usize]
            };
            [pick(&ONSETS), pick(&NUCLEI), pick(&CODAS)].concat()
        };
        let stems = (0..6000).map(|i| (0..1 + i % 2).map(|_| syllable()).collect()).collect();
        let endings = (0..48).map(|_| syllable()).collect();
        Words { stems, endings }
    }

    /// A word.
    pub(super) fn word(&self, random: &mut Random) -> Vec<u8> {
        let mut word = String::new();
        for _ in 0..1 + random.below(3) {
            word += zipf(&self.stems, random);
        }
        for _ in 0..random.below(3) {
            word += zipf(&self.endings, random);
        }
        word.into_bytes()
    }
}

/// An item, of which that of rank r is about r times less likely than the first.
fn zipf<'i>(items: &'i [String], random: &mut Random) -> &'i str {
    let rank = (items.len() as f64).powf(random.unit());
    &items[(rank as usize - 1).min(items.len() - 1)]
}

/// Milliseconds of `n` events, in the order of time: busy and quiet hours, about 300 a second on
/// average.
fn millis(n: usize, random: &mut Random) -> impl FnMut(&mut Random) -> u64 + use<> {
    let mut at = MILLIS_START as f64 + random.unit();
    let day = n as f64 * 3.3;
    let begin = at;
    move |random| {
        let busy = 1.0 + 0.8 * ((at - begin) / day * std::f64::consts::TAU * 3.0).sin();
        at += -3.3 / busy * (1.0 - random.unit()).ln();
        at as u64
    }
}

/// UUIDs of version 7 (RFC 9562) as text: 48 bits of milliseconds, 74 random ones.
pub(super) fn uuid7(n: usize, random: &mut Random) -> Vec<Vec<u8>> {
    let mut next = millis(n, random);
    let mut one = || {
        let time = next(random);
        let (a, b) = (random.below(1 << 12), random.draw() >> 2 | 1 << 63);
        let text = format!(
            "{:08x}-{:04x}-7{a:03x}-{:04x}-{:012x}",
            time >> 16,
            time & 0xffff,
            b >> 48,
            b & 0xffff_ffff_ffff
        );
        text.into_bytes()
    };
    (0..n).map(|_| one()).collect()
}

/// ULIDs: 48 bits of milliseconds, 80 random ones, in 26 letters of Crockford's base 32.
pub(super) fn ulid(n: usize, random: &mut Random) -> Vec<Vec<u8>> {
    let mut next = millis(n, random);
    let mut one = || {
        let number = u128::from(next(random)) << 80
            | u128::from(random.draw()) << 16
            | u128::from(random.below(1 << 16));
        (0..26).rev().map(|at| CROCKFORD[(number >> (5 * at)) as usize & 31]).collect()
    };
    (0..n).map(|_| one()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: usize = 50_000;

    fn sorted(mut keys: Vec<u64>) -> Vec<u64> {
        assert_eq!(keys.len(), N);
        keys.sort_unstable();
        keys
    }

    #[test]
    fn orders_have_some_83_lines_in_a_row() {
        let keys = sorted(composite(N, &mut Random::new(1)));
        let orders = keys.chunk_by(|a, b| a >> 32 == b >> 32).count();
        assert!((75..91).contains(&(N / orders)), "{orders} orders");
        assert!(keys.windows(2).all(|two| two[1] == two[0] + 1 || two[1] & 0xffff_ffff == 1));
    }

    #[test]
    fn tenants_are_small_or_large() {
        let keys = sorted(tenants(N, &mut Random::new(1)));
        let sizes: Vec<usize> = keys.chunk_by(|a, b| a >> 32 == b >> 32).map(<[u64]>::len).collect();
        let large = sizes.iter().filter(|&&size| size > 100).count();
        assert!(sizes.len() > 10 && large > 0 && large < sizes.len() / 4, "{large} of {}", sizes.len());
    }

    #[test]
    fn ranges_begin_and_end_and_half_of_them_touch() {
        let keys = sorted(ranges(N, &mut Random::new(1)));
        let touching = keys.windows(2).filter(|two| two[1] == two[0] + 1).count();
        assert!((N / 10..N * 4 / 10).contains(&touching), "{touching}");
        assert!(keys.chunks_exact(2).all(|range| (range[1] - range[0] + 1).is_power_of_two()));
    }

    #[test]
    fn coordinates_lie_along_lines_and_their_bits_take_turns() {
        assert_eq!(spread(0xffff_ffff), 0x5555_5555_5555_5555);
        assert_eq!(spread(0b1011), 0b100_0101);
        let mut keys = sorted(coordinates(N, &mut Random::new(1)));
        keys.dedup();
        let close = keys.windows(2).filter(|two| two[1] - two[0] < 1 << 40).count();
        assert!(keys.len() > N * 9 / 10 && close > N * 8 / 10, "{close} of {}", keys.len());
    }

    #[test]
    fn runs_are_dense_and_far_from_each_other() {
        let keys = sorted(runs(N, &mut Random::new(1)));
        let far: Vec<u64> = keys.windows(2).map(|two| two[1] - two[0]).filter(|&gap| gap != 1).collect();
        assert!(far.len() > 20 && far.len() < N / 32, "{}", far.len());
        assert!(far.iter().filter(|&&gap| gap > 1 << 40).count() * 10 > far.len() * 9);
    }

    #[test]
    fn files_have_few_lines_or_many_and_lie_far_from_each_other() {
        let keys = sorted(hash_lines(N, &mut Random::new(1)));
        let files: Vec<usize> = keys.chunk_by(|a, b| a >> 32 == b >> 32).map(<[u64]>::len).collect();
        assert!((40..75).contains(&(N / files.len())), "{} files", files.len());
        assert!(files.iter().all(|lines| *lines <= 3000) && files.iter().any(|lines| *lines > 500));
        assert!(keys.windows(2).all(|two| two[1] == two[0] + 1 || two[1] & 0xffff_ffff == 0));
    }

    #[test]
    fn words_share_their_beginnings_and_some_come_often() {
        let mut random = Random::new(1);
        let words = Words::new(&mut random);
        let mut drawn: Vec<Vec<u8>> = (0..N).map(|_| words.word(&mut random)).collect();
        drawn.sort();
        drawn.dedup();
        assert!((N / 4..N).contains(&drawn.len()), "{}", drawn.len());
        let shared = |two: &[Vec<u8>]| two[0].iter().zip(&two[1]).take_while(|(a, b)| a == b).count();
        let mean = drawn.windows(2).map(shared).sum::<usize>() as f64 / drawn.len() as f64;
        assert!(mean > 4.0, "{mean}");
    }

    #[test]
    fn identifiers_with_a_time_are_of_the_form_that_their_standards_say() {
        for (all, len) in [(uuid7(N, &mut Random::new(1)), 36), (ulid(N, &mut Random::new(1)), 26)] {
            assert!(all.iter().all(|id| id.len() == len));
            let front = |id: &[u8]| id[..8].to_vec();
            assert!(all.is_sorted_by_key(|id| front(id)), "in the order of time");
            let mut different = all.clone();
            different.sort();
            different.dedup();
            assert_eq!(different.len(), N);
        }
        let one = &uuid7(1, &mut Random::new(1))[0];
        assert_eq!((one[14], one[8], one[23]), (b'7', b'-', b'-'));
        assert!(b"89ab".contains(&one[19]));
    }
}

//! What choosing value files and telling values apart can save: files of values in a simulation,
//! without a database.
//!
//! A load, then three times as many Zipf updates (0.99) of values of one size. Logs hold a 64th of
//! the live values each. When files take too much, those that are worth it are emptied together, as
//! `compaction::convert` does it. Their values go to one file for each class.
//! For each way it prints values moved for each update, how often files were chosen, and the space
//! at the peak and in the mean. Each choice costs a pass over the tables of pointers besides, of
//! 19 bytes for each value of 1 KiB. Three sums say what is written with it, what would be if only
//! the pointers of moved values were written, and what if only a list of the moves were.
//!
//! `cargo run --release -p solera-bench --example victims -- [keys] [spare percent]`

use solera_bench::{random::Random, zipf::Zipf};
use std::{collections::BTreeMap, env, error::Error};

const EXPONENT: f64 = 0.99;
const PHASES: u64 = 3;
const LOG_PARTS: usize = 64;
/// The least that a choice should free.
const FREED_PARTS: usize = 8;
/// Bytes of an entry of a table for each byte of its value.
const ENTRY_SHARE: f64 = 19.0 / 1024.0;
/// A pointer that is written alone is merged later, so it is written so many times.
const ALONE_TIMES: f64 = 2.5;
/// Bytes of a place that a value has left and of the one that it has, for each byte of it: what a
/// list of moves would hold, which is written once.
const MOVE_SHARE: f64 = 8.0 / 1024.0;
/// Of keys, how often they were put is counted up to so many; it is halved when as many values were
/// put as so many times all.
const COUNT_MAX: u8 = 15;
const COUNTED_TIMES: usize = 2;

/// What files are ranked by, beside garbage for each live value.
#[derive(Clone, Copy, Debug)]
enum Rank {
    Nothing,
    /// The square root of the age, in numbers of files.
    Number,
    /// The square root of the time since the file was written.
    Written,
    /// The time since its values were put, in the mean: cost and benefit, as in LFS.
    Put,
    /// What is known of keys: the square root of the mean rate at which its live values die.
    Rates,
}

/// Which values go to a file of their own.
#[derive(Clone, Copy, Debug)]
enum Classes {
    One,
    /// Those of the older half of the files.
    Halves,
    /// By the age of their file's values, five classes of twice the age each.
    Ages,
    /// By how often keys were put, of which a few bits are kept: four classes.
    Counts,
    /// By what is known of keys, six classes of half the rate each.
    Rates,
}

#[derive(Default)]
struct File {
    keys: Vec<usize>,
    live: usize,
    written: f64,
    /// When its values were put, in the mean.
    put: f64,
}

impl File {
    fn garbage(&self) -> usize {
        self.keys.len() - self.live
    }
}

struct Disk {
    files: BTreeMap<u64, File>,
    /// In which file each key's value is.
    places: Vec<u64>,
    /// How often each key is updated.
    rates: Vec<f64>,
    /// How often each key was put lately.
    counts: Vec<u8>,
    puts: usize,
    next: u64,
    log: u64,
    now: f64,
}

impl Disk {
    fn put(&mut self, key: usize) {
        let keys = self.places.len();
        self.leave(key);
        self.now += 1.0;
        self.counts[key] = (self.counts[key] + 1).min(COUNT_MAX);
        self.puts += 1;
        if self.puts.is_multiple_of(COUNTED_TIMES * keys) {
            self.counts.iter_mut().for_each(|count| *count /= 2);
        }
        let log = self.files.entry(self.log).or_default();
        if log.keys.is_empty() {
            (log.written, log.put) = (self.now, self.now);
        }
        log.keys.push(key);
        log.live += 1;
        self.places[key] = self.log;
        if log.keys.len() >= keys / LOG_PARTS {
            (self.log, self.next) = (self.next, self.next + 1);
        }
    }

    fn leave(&mut self, key: usize) {
        let place = self.places[key];
        if let Some(file) = self.files.get_mut(&place) {
            file.live -= 1;
            if file.live == 0 && place != self.log {
                self.files.remove(&place);
            }
        }
    }

    /// What files take that recovery does not need.
    fn space(&self) -> usize {
        self.files.iter().filter(|(number, _)| **number != self.log).map(|(_, file)| file.keys.len()).sum()
    }

    fn worth(&self, number: u64, file: &File, rank: Rank) -> f64 {
        let age = match rank {
            Rank::Nothing => 1.0,
            Rank::Number => ((self.next - number) as f64).sqrt(),
            Rank::Written => (self.now - file.written + 1.0).sqrt(),
            Rank::Put => self.now - file.put + 1.0,
            Rank::Rates => {
                let live = file.keys.iter().filter(|&&key| self.places[key] == number);
                let all: f64 = live.map(|&key| self.rates[key]).sum();
                (file.live as f64 / (all + 1e-9)).sqrt()
            }
        };
        file.garbage() as f64 / file.live.max(1) as f64 * age
    }

    fn victims(&self, rank: Rank, allowed: usize, space: usize, copied: usize) -> Vec<u64> {
        let keys = self.places.len();
        let is_wasteful = |(number, file): &(&u64, &File)| **number != self.log && file.garbage() > 0;
        let mut best: Vec<(f64, u64)> = self
            .files
            .iter()
            .filter(is_wasteful)
            .map(|(&number, file)| (self.worth(number, file, rank), number))
            .collect();
        best.sort_by(|a, b| b.0.total_cmp(&a.0));
        let (mut victims, mut left, mut room) = (Vec::new(), space, keys / copied);
        for (_, number) in best {
            let file = &self.files[&number];
            if left <= allowed - keys / FREED_PARTS || file.live > room && !victims.is_empty() {
                break;
            }
            (left, room) = (left - file.garbage(), room.saturating_sub(file.live));
            victims.push(number);
        }
        victims
    }

    fn class(&self, classes: Classes, number: u64, key: usize) -> usize {
        let keys = self.places.len() as f64;
        let oldest = self.files.keys().next().copied().unwrap_or(0);
        match classes {
            Classes::One => 0,
            Classes::Halves => usize::from(number <= oldest + (self.next - oldest) / 2),
            Classes::Ages => {
                let age = (self.now - self.files[&number].put) / keys;
                (0..4).take_while(|step| age > 0.125 * f64::from(1 << step)).count()
            }
            Classes::Counts => match self.counts[key] {
                0 | 1 => 0,
                2 => 1,
                3..=5 => 2,
                _ => 3,
            },
            Classes::Rates => {
                (0..5).take_while(|step| self.rates[key] * keys < 4.0 / f64::from(1 << step)).count()
            }
        }
    }

    /// Empties `victims`; says how many values have moved.
    fn empty(&mut self, victims: &[u64], classes: Classes) -> usize {
        let mut moved: Vec<(usize, usize)> = Vec::new();
        for &number in victims {
            let live = self.files[&number].keys.iter().filter(|&&key| self.places[key] == number);
            moved.extend(live.map(|&key| (self.class(classes, number, key), key)));
        }
        // A key that was put twice while one log was written is there twice.
        moved.sort_unstable();
        moved.dedup();
        let mut begun: Option<usize> = None;
        for &(class, key) in &moved {
            if begun != Some(class) {
                (begun, self.next) = (Some(class), self.next + 1);
            }
            let put = self.files[&self.places[key]].put;
            let file = self.files.entry(self.next - 1).or_default();
            file.put = (file.put * file.live as f64 + put) / (file.live + 1) as f64;
            file.written = self.now;
            file.keys.push(key);
            file.live += 1;
            self.places[key] = self.next - 1;
        }
        victims.iter().for_each(|number| drop(self.files.remove(number)));
        moved.len()
    }
}

/// Values moved for each update, choices, and the space at the peak and in the mean for each value.
/// Files are chosen at one part in `swing` of the live values more than is allowed, and one in
/// `copied` is moved at once.
fn life(keys: usize, spare: f64, rank: Rank, classes: Classes, (swing, copied): (usize, usize)) -> [f64; 4] {
    let mut random = Random::new(1);
    let zipf = Zipf::new(keys as u64, EXPONENT);
    let mut of_rank: Vec<usize> = (0..keys).collect();
    random.shuffle(&mut of_rank);
    let weight = |rank: usize| ((rank + 1) as f64).powf(-EXPONENT);
    let all: f64 = (0..keys).map(weight).sum();
    let mut rates = vec![0.0; keys];
    of_rank.iter().enumerate().for_each(|(rank, &key)| rates[key] = weight(rank) / all);
    let mut disk = Disk {
        files: BTreeMap::new(),
        places: vec![0; keys],
        rates,
        counts: vec![0; keys],
        puts: 0,
        next: 2,
        log: 1,
        now: 0.0,
    };
    (0..keys).for_each(|key| disk.put(key));
    let allowed = keys + (keys as f64 * spare) as usize;
    let (mut moved, mut choices, mut peak, mut sum, updates) = (0, 0, 0, 0, PHASES * keys as u64);
    for _ in 0..updates {
        disk.put(of_rank[zipf.draw(&mut random) as usize % keys]);
        let mut space = disk.space();
        sum += space;
        while space > allowed + keys / swing {
            let victims = disk.victims(rank, allowed, space, copied);
            let moved_now = disk.empty(&victims, classes);
            (moved, choices, peak) = (moved + moved_now, choices + 1, peak.max(space + moved_now));
            let now = disk.space();
            if now >= space {
                break;
            }
            space = now;
        }
    }
    let keys = keys as f64;
    [moved as f64 / updates as f64, choices as f64, peak as f64 / keys, sum as f64 / updates as f64 / keys]
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().collect();
    let number = |at: usize, default: usize| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let (keys, spare) = (number(1, 100_000)?, number(2, 30)? as f64 / 100.0);
    println!(
        "| files by | classes | swing, copied | moved | choices | with tables | alone | listed | peak | mean |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for (rank, classes, parts) in [
        (Rank::Nothing, Classes::Halves, (32, 16)),
        (Rank::Number, Classes::One, (32, 16)),
        (Rank::Number, Classes::Halves, (32, 16)),
        (Rank::Number, Classes::Halves, (32, 32)),
        (Rank::Number, Classes::Halves, (32, 64)),
        (Rank::Number, Classes::Halves, (24, 12)),
        (Rank::Number, Classes::Halves, (16, 16)),
        (Rank::Number, Classes::Halves, (16, 12)),
        (Rank::Number, Classes::Halves, (16, 32)),
        (Rank::Number, Classes::Counts, (32, 16)),
        (Rank::Number, Classes::Counts, (32, 32)),
        (Rank::Number, Classes::Counts, (32, 64)),
        (Rank::Number, Classes::Counts, (16, 16)),
        (Rank::Number, Classes::Counts, (16, 32)),
        (Rank::Written, Classes::Ages, (16, 16)),
        (Rank::Put, Classes::Ages, (16, 16)),
        (Rank::Rates, Classes::Halves, (16, 16)),
        (Rank::Rates, Classes::Rates, (16, 16)),
        (Rank::Rates, Classes::Rates, (16, 32)),
    ] {
        let [moved, choices, peak, mean] = life(keys, spare, rank, classes, parts);
        let with_tables = moved + choices * ENTRY_SHARE / PHASES as f64;
        let alone = moved * (1.0 + ENTRY_SHARE * ALONE_TIMES);
        let listed = moved * (1.0 + MOVE_SHARE);
        let (swing, copied) = parts;
        println!(
            "| {rank:?} | {classes:?} | 1/{swing}, 1/{copied} | {moved:.3} | {choices} | {with_tables:.3} | {alone:.3} | {listed:.3} | {peak:.3} | {mean:.3} |"
        );
    }
    Ok(())
}

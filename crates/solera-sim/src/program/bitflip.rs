//! `bitflip`: every bit of a small complete database (`Image`) flips, one at a time; `run`.
//!
//! A quick run flips 65,536, evenly over the image, a nightly one all. Each flip is made in a copy,
//! which is opened read-only, and twice for writing. Of flips in tables, one in eight is opened for
//! writing. Each opening is asked for every key, and walked from one end.
//!
//! What must hold: there is the right answer or a clear error (`Corrupt`, `NewerFormat`,
//! `NotADatabase`), never a wrong answer, a panic or a hang. Only what a log's unsynced end held
//! may be missing, and such cuts are counted apart. Damage that a later frame of the log vouches
//! for must be an error. A frame that does not vouch proves nothing: a power cut loses any unsynced
//! page, with whole frames behind it.
//! Callers: `solera-sim bitflip`, `canary`; `tests/lives.rs`.

use super::{Scale, Verdict, for_each_seed, watch};
use crate::{
    digest::Digest,
    image::{CHECKPOINT, DIR, Image, State, Structure},
    life::caught,
    random::Random,
};
use solera::{Db, Error, vfs::mem::Persist};
use std::{collections::BTreeSet, path::PathBuf};

/// Flips that one thread makes before it takes the next lot.
const LOT: u64 = 512;
/// Violations printed.
const SHOWN: usize = 10;
/// Damaged tables are opened for writing this seldom; read-only otherwise. Everything else, both
/// ways.
const TABLES_WRITTEN_ONE_IN: u64 = 8;

/// How much to do.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// Chooses the bits, if not all are flipped.
    pub seed: u64,
    /// How many flips, evenly over the image; `None` for every bit.
    pub flips: Option<u64>,
    /// This bit only.
    pub only: Option<u64>,
    /// Flips at the same time.
    pub threads: usize,
}

impl Amount {
    /// As much as the scale says.
    pub fn at(scale: Scale, seed: u64, threads: usize) -> Amount {
        Amount { seed, flips: scale.of(Some(65_536), None), only: None, threads }
    }
}

/// What came of a flip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Right,
    Detected,
    TailCut,
    Wrong,
    Panicked,
}

/// The image, and its bits in one row.
struct Bits {
    image: Image,
    files: Vec<(PathBuf, Vec<u8>)>,
    /// Keys that are nowhere, for each keyspace.
    absent: Vec<Vec<Vec<u8>>>,
    /// Every key that is somewhere, for each keyspace.
    present: Vec<BTreeSet<Vec<u8>>>,
    count: u64,
}

/// One bit.
struct Place<'b> {
    path: &'b PathBuf,
    content: &'b [u8],
    byte: usize,
    mask: u8,
    structure: Structure,
}

impl Bits {
    fn new(image: Image) -> Bits {
        let files = image.files();
        let count = files.iter().map(|(_, content)| content.len() as u64 * 8).sum();
        let mut present: Vec<BTreeSet<Vec<u8>>> = vec![BTreeSet::new(); image.full.len()];
        for state in image.cut.iter().chain([&image.full, &image.checkpoint]) {
            for (keys, pairs) in present.iter_mut().zip(state) {
                keys.extend(pairs.iter().map(|(key, _)| key.clone()));
            }
        }
        let near = |keys: &BTreeSet<Vec<u8>>| {
            let mut absent: BTreeSet<Vec<u8>> = [vec![], vec![0], vec![0xff; 12]].into();
            for key in keys.iter().step_by(4) {
                absent.insert([&key[..], &[0]].concat());
                absent.insert(key[..key.len() - 1].to_vec());
            }
            absent.difference(keys).cloned().collect()
        };
        let absent = present.iter().map(near).collect();
        Bits { image, files, absent, present, count }
    }

    fn place(&self, bit: u64) -> Place<'_> {
        let mut left = bit;
        for (path, content) in &self.files {
            let bits = content.len() as u64 * 8;
            if left < bits {
                let byte = (left / 8) as usize;
                let structure = self.image.structure(path, content, byte);
                return Place { path, content, byte, mask: 1 << (left % 8), structure };
            }
            left -= bits;
        }
        unreachable!("bit {bit} of {}", self.count)
    }

    /// Flips the bit and looks at what comes of it. The text says what is wrong.
    fn flip(&self, bit: u64) -> (Structure, Outcome, Option<String>) {
        let place = self.place(bit);
        let outcome = caught(|| Ok(self.outcome(bit, &place)));
        let (outcome, what) = match outcome {
            Ok(Ok(outcome)) => (outcome, None),
            Ok(Err(what)) => (Outcome::Wrong, Some(what)),
            Err(panic) => (Outcome::Panicked, Some(panic)),
        };
        let what = what.map(|what| {
            let (file, structure) = (place.path.display(), place.structure);
            format!(
                "bit {bit}, byte {} of {file} ({structure}), mask {:#04x}: {what}",
                place.byte, place.mask
            )
        });
        (place.structure, outcome, what)
    }

    fn outcome(&self, bit: u64, place: &Place<'_>) -> Result<Outcome, String> {
        let image = &self.image;
        let (dir, full) = match place.structure {
            Structure::CheckpointCurrent | Structure::CheckpointManifest => (CHECKPOINT, &image.checkpoint),
            _ => (DIR, &image.full),
        };
        let left = match place.structure {
            Structure::LogTail => image.last_log.1.left_by_damage_at(place.byte),
            _ => None,
        };
        let cut = left.map(|records| &image.cut[records]).filter(|cut| *cut != full);
        let flipped = || {
            let fs = image.fs.crash(Persist::Everything, 0);
            let mut content = place.content.to_vec();
            content[place.byte] ^= place.mask;
            fs.set_content(place.path, &content).map_err(|error| error.to_string())?;
            Ok::<_, String>((fs, content))
        };

        let (fs, content) = flipped()?;
        let read_only = image.options(&fs).read_only(true).open(dir);
        // Each byte is walked over both ways.
        let backward = bit % 2 == 1;
        let outcome = self.judge(read_only, full, cut, dir, backward)?;
        if fs.content(place.path).is_ok_and(|now| now != content) {
            return Err("a read-only open changed the file".to_owned());
        }
        let vouched = matches!(place.structure, Structure::EndedLog | Structure::SyncedLog);
        if vouched && outcome != Outcome::Detected {
            return Err(format!("{outcome:?}, though the damage is in what was durable"));
        }
        if place.structure.in_table() && !bit.is_multiple_of(TABLES_WRITTEN_ONE_IN) {
            return Ok(outcome);
        }
        // The same for an open that may write; and again, since a cut must have been recorded.
        let (fs, _) = flipped()?;
        for again in ["for writing", "for writing again"] {
            let opened = self.judge(image.options(&fs).open(dir), full, cut, dir, !backward)?;
            // Walked the other way, a block that holds nothing visible may not be looked at.
            let cut = |outcome| outcome == Outcome::TailCut;
            if cut(opened) != cut(outcome) {
                return Err(format!("{outcome:?} when opened read-only, {opened:?} {again}"));
            }
        }
        Ok(outcome)
    }

    /// Asks an open database for everything. Every answer must be that of one of the states, the
    /// same one for all.
    fn judge(
        &self,
        opened: solera::Result<Db>,
        full: &State,
        cut: Option<&State>,
        dir: &str,
        backward: bool,
    ) -> Result<Outcome, String> {
        let mut seen = Seen { states: [Some(full), cut], refused: false };
        match opened {
            Ok(db) => {
                for slot in 0..full.len() {
                    let name = self.image.setting.space_name(slot);
                    self.ask(&db, slot, &name, backward, &mut seen)
                        .map_err(|what| format!("{dir} {name}: {what}"))?;
                }
            }
            Err(error) => seen.refuse(&error)?,
        }
        match seen {
            Seen { refused: true, .. } => Ok(Outcome::Detected),
            Seen { states: [Some(_), _], .. } => Ok(Outcome::Right),
            _ => Ok(Outcome::TailCut),
        }
    }

    fn ask(
        &self,
        db: &Db,
        slot: usize,
        name: &str,
        backward: bool,
        seen: &mut Seen<'_>,
    ) -> Result<(), String> {
        let space = match db.keyspace(name) {
            Ok(space) => space,
            Err(error) => return seen.refuse(&error),
        };
        let mut iter = space.iter();
        // An error of an entry stands in the place of its pair, and the walk goes on. After any
        // other it has ended.
        let (mut yielded, mut failed) = (0, false);
        loop {
            let pair = if backward { iter.next_back() } else { iter.next() };
            match pair {
                Some(Ok((key, value))) => {
                    seen.holds(|state| {
                        let pairs = &state[slot];
                        let at = if backward { pairs.len().checked_sub(yielded + 1) } else { Some(yielded) };
                        let pair = at.and_then(|at| pairs.get(at));
                        pair.is_some_and(|pair| pair.0 == *key && pair.1 == *value)
                    })
                    .map_err(|()| format!("a walk yields {} as pair {yielded}", key.escape_ascii()))?;
                    yielded += 1;
                }
                Some(Err(error)) => {
                    seen.refuse(&error)?;
                    if !is_of_an_entry(&error) {
                        if iter.next().is_some() || iter.next_back().is_some() {
                            return Err("an iterator went on after its error".to_owned());
                        }
                        break;
                    }
                    (yielded, failed) = (yielded + 1, true);
                    // A walk may fail once more than it has pairs: at its end.
                    seen.holds(|state| yielded <= state[slot].len() + 1)
                        .map_err(|()| format!("a walk fails {yielded} times, and has fewer pairs"))?;
                }
                None if failed => break,
                None => {
                    seen.holds(|state| state[slot].len() == yielded)
                        .map_err(|()| format!("a walk ends after {yielded} pairs"))?;
                    break;
                }
            }
        }
        let mut value = Vec::new();
        for key in self.present[slot].iter().chain(&self.absent[slot]) {
            match space.get_into(key, &mut value) {
                Ok(found) => seen
                    .holds(|state| {
                        let pairs = &state[slot];
                        match pairs.binary_search_by(|(own, _)| own.cmp(key)) {
                            Ok(at) => found && pairs[at].1 == value,
                            Err(_) => !found,
                        }
                    })
                    .map_err(|()| format!("get {}: found {found}", key.escape_ascii()))?,
                Err(error) => seen.refuse(&error)?,
            }
        }
        Ok(())
    }
}

/// What the answers so far agree with.
struct Seen<'s> {
    states: [Option<&'s State>; 2],
    refused: bool,
}

impl Seen<'_> {
    fn refuse(&mut self, error: &Error) -> Result<(), String> {
        self.refused = true;
        match error {
            Error::Corrupt { .. } | Error::NewerFormat { .. } | Error::NotADatabase { .. } => Ok(()),
            other => Err(format!("not a clear error: {other:?}")),
        }
    }

    fn holds(&mut self, answer: impl Fn(&State) -> bool) -> Result<(), ()> {
        for state in &mut self.states {
            *state = state.filter(|state| answer(state));
        }
        if self.states == [None, None] { Err(()) } else { Ok(()) }
    }
}

/// Whether a walk may go on behind the entry that fails so: its value lies apart and is damaged.
fn is_of_an_entry(error: &Error) -> bool {
    let Error::Corrupt { file, .. } = error else { return false };
    file.extension().is_some_and(|extension| extension == "log" || extension == "values")
}

/// How the flips of each structure ended.
#[derive(Clone, Debug, Default)]
struct Counts([[u64; 5]; Structure::ALL.len()]);

impl Counts {
    fn sum(&self, outcome: Outcome) -> u64 {
        self.0.iter().map(|counts| counts[outcome as usize]).sum()
    }
}

/// Flips bits and prints what came of them, structure by structure.
///
/// # Errors
/// The image could not be made, or has no such bit.
pub fn run(amount: Amount) -> Result<Verdict, String> {
    let bits = Bits::new(Image::make()?);
    let (first, count) = match (amount.only, amount.flips) {
        (Some(only), _) if only >= bits.count => {
            return Err(format!("there is no bit {only}: the last of the image is {}", bits.count - 1));
        }
        (Some(only), _) => (only, 1),
        (None, flips) => (0, flips.unwrap_or(bits.count).min(bits.count)),
    };
    // Evenly, but not always the same bit of a byte.
    let chosen = |n: u64| {
        let at = |n: u64| (u128::from(n) * u128::from(bits.count) / u128::from(count)) as u64;
        if amount.only.is_some() {
            return first;
        }
        let (low, high) = (at(n), at(n + 1));
        low + Random::new(amount.seed ^ n << 20).below(high - low)
    };
    let lots = for_each_seed(0, count.div_ceil(LOT), amount.threads, |lot| {
        let work = |pulse: &crate::life::Pulse| {
            let mut outcomes = Vec::new();
            for n in lot * LOT..((lot + 1) * LOT).min(count) {
                pulse.beat();
                outcomes.push(bits.flip(chosen(n)));
            }
            outcomes
        };
        watch(work, |beats| println!("bit {} hangs", chosen(lot * LOT + beats.saturating_sub(1))))
    });
    let mut counts = Counts::default();
    let mut digest = Digest::new();
    let mut shown = 0;
    for (structure, outcome, what) in lots.into_iter().flatten() {
        counts.0[structure as usize][outcome as usize] += 1;
        digest.add(&[structure as u8, outcome as u8]);
        if let Some(what) = what.filter(|_| shown < SHOWN) {
            println!("BROKEN: {what}; again with --bit");
            shown += 1;
        }
    }
    println!("{:20} {:>8} {:>8} {:>8} {:>8}", "structure", "flips", "right", "detected", "tail_cut");
    for (structure, counts) in Structure::ALL.iter().zip(&counts.0) {
        let [right, detected, cut, ..] = counts;
        println!("{structure:20} {:8} {right:8} {detected:8} {cut:8}", counts.iter().sum::<u64>());
    }
    let untouched = counts.0.iter().filter(|counts| counts.iter().all(|count| *count == 0)).count();
    let verdict = Verdict::new("bitflip")
        .figure("flips", count)
        .figure("of_bits", bits.count)
        .figure("structures", Structure::ALL.len() - untouched)
        .figure("right", counts.sum(Outcome::Right))
        .figure("detected", counts.sum(Outcome::Detected))
        .figure("tail_cut", counts.sum(Outcome::TailCut))
        .must_be_none("wrong", counts.sum(Outcome::Wrong))
        .must_be_none("panics", counts.sum(Outcome::Panicked))
        .figure("digest", digest);
    Ok(verdict)
}

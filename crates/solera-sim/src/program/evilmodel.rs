//! `evilmodel`: models and index bytes made by an enemy, with checksums that are right: the answers stay
//! right, or there is a clear error, and the extra work is bounded.
//!
//! Whole tables are taken apart, one kind of part is changed, and they are sealed again. What was changed is
//! changed further as long as lookups get more expensive: a climb to the worst case. The bounds:
//!
//! * A block's **line** costs no extra block beyond those that the index names, whatever its bits. A search makes at most
//!   [`search::comparisons_max`] comparisons. A line that is not finite or descends is dropped when its block
//!   is loaded, and counted (`index_fallbacks`).
//! * An **index** that sends a lookup to a wrong block costs at most the blocks of its span and reach, then a
//!   search over the blocks: ⌊log2 n⌋ + 2 more.
//! * A **filter** that passes too much costs a look into one block.
//! * **Fences** that lie never change what a lookup finds that an exact index sent to the right block. Where the
//!   index names several blocks, fences decide between them: what lying ones lead astray is counted apart.
//!
//! A filter that denies what the table holds cannot be found out by a lookup: that it is the filter that was
//! written rests on its checksum. What such filters hide is counted apart, and must show as absent, not as
//! something else.

use super::{Scale, Verdict, for_each_seed};
use crate::{
    digest::Digest,
    forge::{Forge, StoredLine},
    life::caught,
    random::Random,
};
use solera::{
    Db, Error, FilterKind, Filters, IndexKind, KeyspaceOptions, Layout, Options,
    cache::Cache,
    cursor::{Cursor, Probe},
    ids::SEQNO_MAX,
    key::{KeyRange, hash},
    stats::Stats,
    table::{Access, TableContext, TableDescriptor, TableFile, file_name},
    vfs::mem::MemFs,
};
use solera_model::{Line, knots::RadixTable, search};
use std::{cell::Cell, cmp::Ordering, collections::BTreeMap, path::Path, sync::Arc};

/// Models of one subject.
const CLIMB: usize = 70;
/// Keys of a subject.
const KEYS: u64 = 700;
/// The worst of the numbers that a line can have.
const EVIL: [f64; 12] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    -1.0,
    -1e-300,
    0.0,
    -0.0,
    f64::MIN_POSITIVE / 4.0,
    f64::MAX,
    f64::MIN,
    1e300,
    9.007e15,
];

/// How much to do.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// The first seed.
    pub first_seed: u64,
    /// How many seeds: each is a table, and a climb of 70 models from it.
    pub seeds: u64,
    /// Lookups of each model.
    pub lookups: usize,
    /// Seeds at the same time.
    pub threads: usize,
}

impl Amount {
    /// As much as the scale says, from seed `first_seed` on.
    pub fn at(scale: Scale, first_seed: u64, threads: usize) -> Amount {
        Amount { first_seed, seeds: scale.of(400, 1500), lookups: scale.of(60, 200), threads }
    }
}

/// What is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Slope, intercept and error of blocks, to anything.
    Line,
    /// The same, to what a reader must drop.
    BadLine,
    /// The notes of blocks.
    Fences,
    /// The separators.
    Separators,
    /// The sizes of blocks.
    Sizes,
    /// Any byte of the index section, and its length.
    Index,
    /// More bits, fewer probes.
    GenerousFilter,
    /// Any byte of the filter, and its length.
    Filter,
}

impl Part {
    const ALL: [Part; 8] = [
        Part::Line,
        Part::BadLine,
        Part::Fences,
        Part::Separators,
        Part::Sizes,
        Part::Index,
        Part::GenerousFilter,
        Part::Filter,
    ];
}

/// What the models of one seed did.
#[derive(Clone, Debug, Default)]
struct Tally {
    models: u64,
    lookups: u64,
    /// Tables that were refused when opened.
    refused: u64,
    /// Lookups that ended in an error.
    detected: u64,
    /// Keys that a lying filter hid.
    hidden: u64,
    /// Answers that lying fences led astray where the index names more than one block.
    astray: u64,
    /// Lines that were dropped.
    dropped: u64,
    /// Most blocks beyond the first that one lookup looked into, by what was changed.
    extra_blocks: [u64; Part::ALL.len()],
    compares_max: usize,
    wrong: Vec<String>,
    panics: u64,
}

/// A table and what it holds.
struct Subject {
    forge: Forge,
    path: std::path::PathBuf,
    truth: BTreeMap<Vec<u8>, Vec<u8>>,
    probes: Vec<Vec<u8>>,
}

/// A table with parts changed.
#[derive(Clone)]
struct Candidate {
    forge: Forge,
    sizes: Vec<u64>,
    /// Instead of what sizes and separators give.
    index: Option<Vec<u8>>,
}

fn key(family: u64, n: u64, random: &mut Random) -> Vec<u8> {
    match family {
        0 => (n * 7).to_be_bytes().to_vec(),
        1 => (1_u64 << 40 | (n * n * n)).to_be_bytes().to_vec(),
        2 => random.next().to_be_bytes().to_vec(),
        3 => format!("a long common beginning, then a number: {:09}", n * 13).into_bytes(),
        _ => format!("user/{}/{}/{}", n % 7, "x".repeat((n % 30) as usize), random.below(1000)).into_bytes(),
    }
}

impl Subject {
    fn new(seed: u64) -> Result<Subject, String> {
        let text = |error: Error| error.to_string();
        let mut random = Random::new(seed);
        let index = IndexKind::ALL[(seed % IndexKind::ALL.len() as u64) as usize];
        let family = seed / IndexKind::ALL.len() as u64 % 5;
        let truth: BTreeMap<_, _> = (0..KEYS)
            .map(|n| (key(family, n, &mut random), n.to_le_bytes().repeat(1 + n as usize % 4)))
            .collect();
        let fs = MemFs::new();
        let db: Db = Options::new()
            .fs(Arc::new(fs.clone()))
            .seed(seed)
            .background_threads(0)
            .open("/db")
            .map_err(text)?;
        let layout = Layout {
            block_bytes: *random.pick(&[256, 512, 1024]),
            index,
            epsilon: *random.pick(&[1, 4, 64]),
            filter: Filters::default().with_last_level(*random.pick(&FilterKind::ALL)),
            ..Layout::default()
        };
        let space = db.keyspace_with("subject", KeyspaceOptions::new().layout(layout)).map_err(text)?;
        space.ingest(truth.iter()).map_err(text)?;
        let path = fs.files().into_iter().find(|path| path.extension().is_some_and(|end| end == "table"));
        let path = path.ok_or("there is no table")?;
        let forge = Forge::new(&fs.content(&path).map_err(text)?)?;
        let mut probes: Vec<Vec<u8>> = truth.keys().cloned().collect();
        for at in 0..probes.len() {
            let mut near = probes[at].clone();
            match at % 3 {
                0 => near.push(random.next() as u8),
                1 => near.truncate(random.index(near.len())),
                _ => near[random.index(probes[at].len())] ^= 1 << random.below(8),
            }
            probes.push(near);
        }
        probes.extend([vec![], vec![0], vec![0xff; 40]]);
        Ok(Subject { forge, path, truth, probes })
    }

    /// Opens the candidate's table, looks keys up and says what the dearest of them cost.
    fn try_out(
        &self,
        part: Part,
        candidate: &Candidate,
        lookups: usize,
        random: &mut Random,
        tally: &mut Tally,
    ) -> Result<u64, String> {
        let honest = candidate.forge.index(&candidate.sizes);
        let (bytes, descriptor) = candidate.forge.table(candidate.index.as_ref().unwrap_or(&honest));
        let file = self.file(&bytes, descriptor)?;
        let stats = &file.1;
        let table = match file.0.table() {
            Ok(table) => table,
            Err(error) => {
                tally.refused += 1;
                return clear(&error).map(|()| 0);
            }
        };
        let guard = crossbeam_epoch::pin();
        let log2 = candidate.forge.blocks.len().ilog2() as u64;
        let mut dearest = 0;
        for _ in 0..lookups {
            tally.lookups += 1;
            let key = random.pick(&self.probes);
            let before = stats.snapshot().blocks_probed;
            let probe = Probe { key, hash: hash(key), snapshot: SEQNO_MAX };
            let found = table.lookup(0, &probe, &guard, |hit| hit.value().to_vec());
            let extra = (stats.snapshot().blocks_probed - before).saturating_sub(1);
            dearest = dearest.max(extra);
            let near = table.index().map_or(0, |index| beside(index, key));
            let hint = matches!(part, Part::Line | Part::BadLine | Part::GenerousFilter | Part::Filter);
            let most = if hint { near } else { near + log2 + 2 };
            if extra > most {
                return Err(format!("{extra} extra blocks, at most {most} are allowed"));
            }
            let expected = self.truth.get(key);
            match found {
                Ok(found) if found.as_ref() == expected => {}
                Ok(None) if part == Part::Filter => tally.hidden += 1,
                // Away from the key's block, and there it is not.
                Ok(None) if part == Part::Fences && near > 0 => tally.astray += 1,
                Ok(found) => {
                    let key = key.escape_ascii();
                    return Err(format!("key {key}: {found:?}, expected {expected:?}"));
                }
                Err(error) => {
                    tally.detected += 1;
                    if hint {
                        return Err(format!("an error where a hint was bad: {error}"));
                    }
                    clear(&error)?;
                }
            }
        }
        for _ in 0..lookups / 10 {
            tally.lookups += 1;
            let key = random.pick(&self.probes);
            if let Err(what) = self.seek(&file.0, key) {
                let near = table.index().map_or(0, |index| beside(index, key));
                if part != Part::Fences || near == 0 {
                    return Err(what);
                }
                tally.astray += 1;
            }
        }
        let counters = stats.snapshot();
        if part == Part::BadLine && counters.index_fallbacks != counters.blocks_read {
            let (dropped, read) = (counters.index_fallbacks, counters.blocks_read);
            return Err(format!("{read} blocks with bad lines were loaded, {dropped} counted as dropped"));
        }
        if part == Part::BadLine {
            tally.dropped += counters.index_fallbacks;
        }
        let at = Part::ALL.iter().position(|one| *one == part).unwrap_or(0);
        tally.extra_blocks[at] = tally.extra_blocks[at].max(dearest);
        Ok(dearest)
    }

    /// The first entry from `key` on, by a cursor.
    fn seek(&self, file: &Arc<TableFile>, key: &[u8]) -> Result<(), String> {
        let sought = file.cursor(&KeyRange::all(), Access::Cached(0)).and_then(|mut cursor| {
            cursor.seek(key)?;
            Ok(cursor.valid().then(|| (cursor.key().to_vec(), cursor.value().to_vec())))
        });
        match sought {
            Ok(found) => {
                let expected = self.truth.range(key.to_vec()..).next();
                let same = found.as_ref().map(|(key, value)| (key, value)) == expected;
                if same { Ok(()) } else { Err(format!("seek {}: {found:?}", key.escape_ascii())) }
            }
            Err(error) => clear(&error),
        }
    }

    fn file(
        &self,
        bytes: &[u8],
        descriptor: TableDescriptor,
    ) -> Result<(Arc<TableFile>, Arc<Stats>), String> {
        let fs = MemFs::new();
        let path = Path::new("").join(file_name(descriptor.file));
        debug_assert_eq!(path.file_name(), self.path.file_name());
        fs.set_content(&path, bytes).map_err(|error| error.to_string())?;
        let stats = Arc::new(Stats::new());
        let context = TableContext {
            fs: Arc::new(fs),
            dir: "".into(),
            database: self.forge.database,
            direct_reads: false,
            cache: Cache::new(1 << 22),
            stats: stats.clone(),
        };
        Ok((TableFile::new(&Arc::new(context), Arc::new(descriptor)), stats))
    }
}

/// How many blocks beside the first an honest index may make a lookup try.
fn beside(index: &solera::index::Index, key: &[u8]) -> u64 {
    let span = index.locate(key);
    (span.last - span.first + index.reach()) as u64
}

fn clear(error: &Error) -> Result<(), String> {
    match error {
        Error::Corrupt { .. } => Ok(()),
        other => Err(format!("not a clear error: {other:?}")),
    }
}

impl Candidate {
    fn honest(subject: &Subject) -> Candidate {
        Candidate { forge: subject.forge.clone(), sizes: subject.forge.sizes(), index: None }
    }

    /// Changes the part a little further.
    fn worsen(&mut self, part: Part, random: &mut Random) {
        match part {
            Part::Line => {
                let all = random.one_in(4);
                let picked = random.index(self.forge.blocks.len());
                for block in 0..self.forge.blocks.len() {
                    if all || block == picked {
                        let line = evil_line(self.forge.line(block), random);
                        self.forge.set_line(block, line);
                    }
                }
            }
            Part::BadLine => {
                for block in 0..self.forge.blocks.len() {
                    let mut line = evil_line(self.forge.line(block), random);
                    if !line.is_bad() {
                        line.slope = *random.pick(&EVIL[..5]);
                    }
                    self.forge.set_line(block, line);
                }
            }
            Part::Fences => {
                for _ in 0..random.between(1, self.forge.blocks.len() as u64) {
                    let block = random.index(self.forge.blocks.len());
                    let note = self.forge.note_mut(block);
                    if let Some(last) = note.len().checked_sub(1) {
                        let at = random.index(last + 1);
                        note[at] =
                            if random.one_in(2) { random.next() as u8 } else { note[at].wrapping_sub(1) };
                    }
                }
            }
            Part::Separators => worsen_separators(&mut self.forge.separators, random),
            Part::Sizes => {
                let at = random.index(self.sizes.len());
                let other = random.index(self.sizes.len());
                match random.below(5) {
                    0 => self.sizes.swap(at, other),
                    1 => {
                        self.sizes[at] = self.sizes[at].wrapping_add(1);
                        self.sizes[other] = self.sizes[other].saturating_sub(1);
                    }
                    2 => self.sizes[at] = *random.pick(&[0, 1, u64::MAX, 1 << 63, 1 << 32]),
                    3 => drop(self.sizes.pop()),
                    _ => self.sizes.push(random.below(500)),
                }
            }
            Part::Index => {
                let honest = self.forge.index(&self.sizes);
                worsen_bytes(self.index.get_or_insert(honest), random);
            }
            Part::GenerousFilter => {
                let filter = &mut self.forge.filter[..];
                match (filter.last().and_then(|&kind| FilterKind::from_u8(kind)), filter) {
                    (Some(FilterKind::Bloom), [bits @ .., probes, _]) => match random.below(3) {
                        0 => *probes = 1.max(*probes - 1),
                        1 => bits.fill(0xff),
                        _ => {
                            let at = random.index(bits.len());
                            bits[at] |= random.next() as u8;
                        }
                    },
                    // Only no bit at all is even for every key.
                    (Some(FilterKind::Ribbon), [words @ .., _, _, _, _, _]) => words.fill(0),
                    _ => {}
                }
            }
            Part::Filter => worsen_bytes(&mut self.forge.filter, random),
        }
    }
}

fn evil_line(line: StoredLine, random: &mut Random) -> StoredLine {
    let number = |own: f64, random: &mut Random| match random.below(5) {
        0 => *random.pick(&EVIL),
        1 => f64::from_bits(random.next()),
        2 => own * *random.pick(&[0.5, 2.0, -1.0, 1e-9, 1e9, 1.000_001]),
        3 => own + *random.pick(&[-1.0, 1.0, -50.0, 1e6]),
        _ => own,
    };
    let slope = number(line.slope, random);
    let intercept = number(line.intercept, random);
    let any = random.next() as u16;
    // Zero bounds mostly, so that the guess is believed.
    StoredLine { slope, intercept, error: *random.pick(&[0, 0, 0, 1, line.error, any, u16::MAX]) }
}

fn worsen_separators(separators: &mut Vec<Vec<u8>>, random: &mut Random) {
    if separators.is_empty() {
        return;
    }
    let at = random.index(separators.len());
    let other = random.index(separators.len());
    match random.below(8) {
        // In order, but not where the blocks end.
        0 => {
            separators.remove(at);
            let last = separators.last().cloned().unwrap_or_default();
            separators.push(last);
        }
        1 => {
            separators.pop();
            separators.insert(0, Vec::new());
        }
        2 => separators[at] = separators[at.saturating_sub(1)].clone(),
        3 => separators[at].push(random.next() as u8),
        4 => {
            let all = separators[at].clone();
            separators.fill(all);
        }
        // Out of order.
        5 => separators.swap(at, other),
        6 => separators[at] = (0..random.below(20)).map(|_| random.next() as u8).collect(),
        // Too many or too few.
        _ => {
            if random.one_in(2) {
                separators.pop();
            } else {
                separators.push(vec![0xff; 20]);
            }
        }
    }
}

fn worsen_bytes(bytes: &mut Vec<u8>, random: &mut Random) {
    let at = random.index(bytes.len().max(1));
    match random.below(6) {
        _ if bytes.is_empty() => bytes.push(random.next() as u8),
        0 => bytes.truncate(at),
        1 => bytes.insert(at, random.next() as u8),
        // A huge count, where a count stands.
        2 => drop(bytes.splice(..1, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01])),
        3 => {
            bytes.remove(at);
        }
        _ => bytes[at] ^= 1 << random.below(8),
    }
}

thread_local! {
    static COMPARED: Cell<usize> = const { Cell::new(0) };
}

/// A head whose comparisons are counted.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Counted(u64);

impl PartialOrd for Counted {
    fn partial_cmp(&self, other: &Counted) -> Option<Ordering> {
        COMPARED.set(COMPARED.get() + 1);
        self.0.partial_cmp(&other.0)
    }
}

/// Climbs to the lookup that takes the most comparisons in one array, by line, error and key.
fn climb_search(random: &mut Random, steps: usize) -> Result<usize, String> {
    let n = random.length(5000) as usize + 1;
    let family = random.below(5);
    let mut heads: Vec<u64> = (0..n as u64).map(|n| solera::key::head(&key(family, n, random))).collect();
    heads.sort_unstable();
    let counted: Vec<Counted> = heads.iter().copied().map(Counted).collect();
    let mut best = (0, StoredLine { slope: 1.0, intercept: 0.0, error: 0 }, 0);
    for _ in 0..steps {
        let stored = evil_line(best.1, random);
        let x = match random.below(4) {
            0 => random.next(),
            1 => best.2,
            _ => random.pick(&heads).wrapping_add(random.below(3)).wrapping_sub(1),
        };
        let line = match Line::new(stored.slope, stored.intercept) {
            Ok(line) if !stored.is_bad() => line,
            Err(_) if stored.is_bad() => continue,
            odd => return Err(format!("a line of {stored:?} is taken as {odd:?}")),
        };
        let guess = Line::rank(line, heads[0], x, n);
        COMPARED.set(0);
        let found = search::lower_bound(&counted, Counted(x), guess, stored.error.into());
        let compared = COMPARED.get();
        if found != heads.partition_point(|&head| head < x) {
            return Err(format!("{x} among {n}: found at {found} by {stored:?}"));
        }
        if compared > search::comparisons_max(n) {
            return Err(format!("{compared} comparisons among {n} by {stored:?}"));
        }
        if compared >= best.0 {
            best = (compared, stored, x);
        }
    }
    // A radix table over other keys than it was made of may be of no use, but must not reach beyond them.
    let others: Vec<u64> = heads.iter().map(|head| head.rotate_left(7)).take(n / 2).collect();
    let table = RadixTable::new(&heads);
    if heads.iter().any(|&x| table.locate(&others, x) > others.len()) {
        return Err("a radix table points beyond the keys".to_owned());
    }
    Ok(best.0)
}

/// Makes models, tries them out, and prints each that broke a promise.
pub fn run(amount: Amount) -> Verdict {
    let tallies = for_each_seed(amount.first_seed, amount.seeds, amount.threads, |seed| {
        let mut tally = Tally::default();
        if let Err(what) = caught(|| one(seed, amount.lookups, &mut tally)) {
            tally.panics += 1;
            println!("seed {seed}: {what}");
        }
        tally.wrong.iter().for_each(|what| println!("seed {seed}: WRONG: {what}"));
        tally
    });
    let mut sum = Tally::default();
    let mut digest = Digest::new();
    let mut wrong = 0;
    for tally in &tallies {
        digest.add(format!("{tally:?}").as_bytes());
        sum.models += tally.models;
        sum.lookups += tally.lookups;
        sum.refused += tally.refused;
        sum.detected += tally.detected;
        sum.hidden += tally.hidden;
        sum.astray += tally.astray;
        sum.dropped += tally.dropped;
        sum.panics += tally.panics;
        sum.compares_max = sum.compares_max.max(tally.compares_max);
        wrong += tally.wrong.len() as u64;
        for (most, own) in sum.extra_blocks.iter_mut().zip(tally.extra_blocks) {
            *most = own.max(*most);
        }
    }
    let extra = |parts: &[Part]| {
        let of = |part: &Part| Part::ALL.iter().position(|one| one == part).map(|at| sum.extra_blocks[at]);
        parts.iter().filter_map(of).max().unwrap_or(0)
    };
    Verdict::new("evilmodel")
        .figure("models", sum.models)
        .figure("lookups", sum.lookups)
        .figure("tables_refused", sum.refused)
        .figure("lookups_refused", sum.detected)
        .figure("lines_dropped", sum.dropped)
        .figure("hidden_by_filters", sum.hidden)
        .figure("astray_by_fences", sum.astray)
        .figure("line_extra_blocks", extra(&[Part::Line, Part::BadLine]))
        .figure("index_extra_blocks", extra(&[Part::Separators, Part::Sizes, Part::Index]))
        .figure("fence_extra_blocks", extra(&[Part::Fences]))
        .figure("max_compares", sum.compares_max)
        .must_be_none("wrong", wrong)
        .must_be_none("panics", sum.panics)
        .figure("digest", digest)
}

fn one(seed: u64, lookups: usize, tally: &mut Tally) -> Result<(), String> {
    let subject = Subject::new(seed)?;
    let mut random = Random::new(seed.rotate_left(32) ^ 0xe71);
    let mut best = Part::ALL.map(|_| (0, Candidate::honest(&subject)));
    // An honest table first: it must be right, and cost nothing.
    subject.try_out(Part::Line, &best[0].1, lookups, &mut random, tally)?;
    for step in 0..CLIMB {
        let at = step % Part::ALL.len();
        let part = Part::ALL[at];
        let mut candidate = if random.one_in(4) { Candidate::honest(&subject) } else { best[at].1.clone() };
        candidate.worsen(part, &mut random);
        tally.models += 1;
        let tried = caught(|| Ok(subject.try_out(part, &candidate, lookups, &mut random, tally)));
        match tried {
            Ok(Ok(cost)) => {
                if cost >= best[at].0 {
                    best[at] = (cost, candidate);
                }
            }
            Ok(Err(what)) => tally.wrong.push(format!("model {step}, {part:?}: {what}")),
            Err(panic) => {
                tally.panics += 1;
                println!("seed {seed}, model {step}, {part:?}: {panic}");
            }
        }
        match climb_search(&mut random, 200) {
            Ok(compares) => tally.compares_max = tally.compares_max.max(compares),
            Err(what) => tally.wrong.push(format!("model {step}: {what}")),
        }
    }
    Ok(())
}

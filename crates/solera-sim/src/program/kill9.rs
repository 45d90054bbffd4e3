//! `kill9`: a real process on the real file system, killed and opened again; `run`, and `child`,
//! the process.
//!
//! The child is this program (`victim`), which acknowledges over a pipe, or `solera load`. It is
//! killed at a random moment, or kills itself at a named point of its file calls, while it works or
//! while it opens.
//!
//! What must hold: a kill loses what the process had in memory, and nothing that it gave to the
//! system. So even `Durability::Buffered` loses nothing acknowledged. A load acknowledges at its
//! end only; before, its first lines are there. The first violation ends the run and keeps the
//! database. A seed fixes how each child is to die, not what its threads have done by then.
//! Callers: `solera-sim kill9`, `main` (its hidden child command), and `tests/lives.rs`.

use super::{Scale, Verdict};
use crate::{
    random::Random,
    victim::{self, Fate, Found, SITES, Site, Spaces, Told, Word, whole},
};
use solera::{Clock, Db, SystemClock, vfs::posix::PosixFs};
use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Write},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

/// A database is killed this often before a new one is begun.
const KILLS_PER_DATABASE: u64 = 20;
/// Longest life of a child that is killed at a random moment, microseconds.
const LIFE_MAX_US: u64 = 250_000;
/// Longest life of a child that is to die at a named point, looks at it and what lies between them.
const NAMED_LIFE_LOOKS: u32 = 2000;
const LOOK: Duration = Duration::from_millis(1);
/// SIGKILL's number, the same on every Unix.
const SIGKILL: i32 = 9;

/// How much to do.
#[derive(Clone, Debug)]
pub struct Amount {
    /// Seed of the ways in which children are killed.
    pub seed: u64,
    /// How many kills.
    pub kills: u64,
    /// This program, to run as the child.
    pub program: PathBuf,
    /// The `solera` command to kill during a load, instead of this program's own child.
    pub solera: Option<PathBuf>,
    /// Where databases are made; a new directory in it is used and removed.
    pub dir: PathBuf,
}

impl Amount {
    /// As much as the scale says, with `program` as the child and databases in the system's
    /// directory for temporary files.
    pub fn at(scale: Scale, seed: u64, program: PathBuf) -> Amount {
        Amount { seed, kills: scale.of(50, 1000), program, solera: None, dir: std::env::temp_dir() }
    }
}

/// What all kills together showed.
#[derive(Default)]
struct Seen {
    found: Found,
    /// Kills at a named point.
    named: u64,
    /// Kills of a child that had not opened its database yet.
    in_open: u64,
    /// The named points at which children died.
    sites: BTreeSet<String>,
    /// Looks at a database whose tables are read past the system's cache.
    direct: u64,
    wrong: u64,
    open_ms_max: u64,
}

impl Seen {
    fn timed_open<T>(&mut self, open: impl FnOnce() -> solera::Result<T>) -> Result<T, String> {
        let clock = SystemClock::new();
        let before = clock.monotonic_ns();
        let opened = open().map_err(|error| format!("cannot open: {error}"))?;
        self.open_ms_max = self.open_ms_max.max((clock.monotonic_ns() - before) / 1_000_000);
        Ok(opened)
    }
}

/// How a child is to die.
#[derive(Clone, Copy, Debug)]
enum Manner {
    /// After so many microseconds.
    Moment(u64),
    /// At a named point, or, if it does not get there, after [`NAMED_LIFE_LOOKS`].
    Named(Fate),
}

impl Manner {
    fn draw(random: &mut Random) -> Manner {
        let in_open = match random.weighted(&[2, 2, 1]) {
            0 => return Manner::Moment(random.below(LIFE_MAX_US)),
            way => way == 2,
        };
        let calls = |site: &Site| if in_open { site.in_open } else { site.at_work };
        let sites: Vec<_> = SITES.into_iter().filter(|site| calls(site) > 0).collect();
        let site = *random.pick(&sites);
        Manner::Named(Fate { site, skip: random.below(calls(&site)), in_open })
    }

    /// Whether it is to die while it opens, and so should find a database that was killed.
    fn in_open(self) -> bool {
        matches!(self, Manner::Named(Fate { in_open: true, .. }))
    }
}

/// Kills children and checks what they left.
pub fn run(amount: &Amount) -> std::io::Result<Verdict> {
    let mut seen = Seen::default();
    let mut random = Random::new(amount.seed);
    let place = amount.dir.join(format!("solera-kill9-{}", std::process::id()));
    std::fs::create_dir_all(&place)?;
    let mut victim = None;
    let mut manner = Manner::draw(&mut random);
    for kill in 0..amount.kills {
        let next = Manner::draw(&mut random);
        let found = match &amount.solera {
            Some(solera) => kill_load(solera, &place, kill, &mut random, &mut seen),
            None => {
                let victim = match &mut victim {
                    Some(victim) if !kill.is_multiple_of(KILLS_PER_DATABASE) => victim,
                    _ => victim.insert(Victim::new(amount, &place, (kill / KILLS_PER_DATABASE) as usize)?),
                };
                let last = kill + 1 == amount.kills || (kill + 1).is_multiple_of(KILLS_PER_DATABASE);
                victim
                    .kill(manner, &mut seen)
                    .and_then(|()| if next.in_open() && !last { Ok(()) } else { victim.look(&mut seen) })
            }
        };
        if let Err(what) = found {
            seen.wrong += 1;
            println!(
                "kill {kill} (seed {}, {manner:?}): {what}; the database is kept in {}",
                amount.seed,
                place.display()
            );
            break;
        }
        manner = next;
    }
    if seen.wrong == 0 {
        std::fs::remove_dir_all(&place)?;
    }
    if amount.solera.is_none() {
        let unmet = SITES.iter().map(Site::to_string).filter(|site| !seen.sites.contains(site));
        println!("no child died at: {}", unmet.collect::<Vec<_>>().join(" "));
    }
    Ok(Verdict::new("kill9")
        .figure("kills", amount.kills)
        .figure("named", seen.named)
        .figure("sites", format!("{}/{}", seen.sites.len(), SITES.len()))
        .figure("in_open", seen.in_open)
        .figure("read_directly", seen.direct)
        .figure("acked", seen.found.acknowledged)
        .figure("checkpoints", seen.found.checkpoints)
        .must_be_none("lost", seen.found.lost)
        .must_be_none("wrong", seen.wrong)
        .figure("max_open_ms", seen.open_ms_max))
}

/// A database, and the children that are killed on it one after the other.
struct Victim<'a> {
    program: &'a Path,
    dir: PathBuf,
    checkpoints: PathBuf,
    kind: usize,
    told: Told,
}

impl<'a> Victim<'a> {
    fn new(amount: &'a Amount, place: &Path, number: usize) -> std::io::Result<Victim<'a>> {
        let checkpoints = place.join(format!("checkpoints{number}"));
        std::fs::create_dir_all(&checkpoints)?;
        let dir = place.join(format!("db{number}"));
        Ok(Victim { program: &amount.program, dir, checkpoints, kind: number, told: Told::default() })
    }

    /// A child lives and dies.
    fn kill(&mut self, manner: Manner, seen: &mut Seen) -> Result<(), String> {
        let text = |error: std::io::Error| error.to_string();
        let mut command = Command::new(self.program);
        command.arg("kill9-child").args([&self.dir, &self.checkpoints]).arg(self.kind.to_string());
        if let Manner::Named(Fate { site, skip, in_open }) = manner {
            command.arg("--site").arg(site.to_string()).arg("--skip").arg(skip.to_string());
            command.args(in_open.then_some("--in-open"));
        }
        let mut child = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().map_err(text)?;
        let pipe = child.stdout.take().ok_or("the child has no pipe")?;
        let mut told = self.told.clone();
        told.begin_life();
        let reader = std::thread::spawn(move || {
            let (mut pipe, mut line) = (BufReader::new(pipe), String::new());
            while pipe.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                if let Some(word) = Word::parse(&line) {
                    told.hear(word);
                }
                line.clear();
            }
            told
        });
        let ended = match manner {
            Manner::Moment(us) => {
                std::thread::sleep(Duration::from_micros(us));
                end(&mut child)
            }
            Manner::Named(fate) => await_death(&mut child).inspect(|died| {
                if *died {
                    seen.named += 1;
                    seen.sites.insert(fate.site.to_string());
                }
            }),
        };
        self.told = reader.join().map_err(|_| "the reader of acknowledgements panicked")?;
        ended?;
        seen.in_open += u64::from(!self.told.opened);
        Ok(())
    }

    /// Opens what is left and judges it.
    fn look(&mut self, seen: &mut Seen) -> Result<(), String> {
        let spaces = seen.timed_open(|| Spaces::open(&self.dir, Arc::new(PosixFs::new()), self.kind))?;
        seen.direct += u64::from(spaces.direct);
        self.told.judge(&spaces, &mut seen.found)?;
        self.told.judge_checkpoints(&self.checkpoints, self.kind, &mut seen.found)?;
        whole(&spaces)
    }
}

/// Waits until the child has killed itself; kills it if that takes too long. Says whether it did so
/// itself.
fn await_death(child: &mut Child) -> Result<bool, String> {
    for _ in 0..NAMED_LIFE_LOOKS {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            return match status.signal() {
                Some(SIGKILL) => Ok(true),
                _ => Err(format!("the child ended by itself: {status}")),
            };
        }
        std::thread::sleep(LOOK);
    }
    end(child)
}

/// SIGKILL, unless it ended by itself, which it must not.
fn end(child: &mut Child) -> Result<bool, String> {
    let early = child.try_wait().map_err(|error| error.to_string())?;
    child.kill().map_err(|error| error.to_string())?;
    child.wait().map_err(|error| error.to_string())?;
    match early {
        Some(status) => Err(format!("the child ended by itself: {status}")),
        None => Ok(false),
    }
}

/// What the child is told.
#[derive(Clone, Debug, clap::Args)]
pub struct Sentence {
    /// The database
    dir: PathBuf,
    /// Where its checkpoints go
    checkpoints: PathBuf,
    /// Which index its records have
    kind: usize,
    /// The named point at which to die
    #[arg(long)]
    site: Option<Site>,
    /// How often to pass it before
    #[arg(long, default_value_t = 0)]
    skip: u64,
    /// Count from the first call on, not only once the database is open
    #[arg(long)]
    in_open: bool,
}

/// The child: lives until it is killed.
pub fn child(sentence: &Sentence) -> Result<(), String> {
    let Sentence { dir, checkpoints, kind, site, skip, in_open } = sentence;
    let fate = site.map(|site| Fate { site, skip: *skip, in_open: *in_open });
    victim::live(dir, checkpoints, *kind, fate)
}

/// Lines in the file that is loaded.
const LOAD_LINES: u64 = 400_000;

fn kill_load(
    solera: &Path,
    place: &Path,
    kill: u64,
    random: &mut Random,
    seen: &mut Seen,
) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    let input = place.join("input.tsv");
    if kill == 0 {
        let mut lines = String::new();
        for line in 0..LOAD_LINES {
            let (key, value) = load_record(line);
            lines.push_str(&format!("{key}\t{value}\n"));
        }
        let mut file =
            std::fs::OpenOptions::new().write(true).create(true).truncate(true).open(&input).map_err(text)?;
        file.write_all(lines.as_bytes()).map_err(text)?;
    }
    let dir = place.join("loaded");
    if dir.exists() {
        std::fs::remove_dir_all(&dir).map_err(text)?;
    }
    let mut child = Command::new(solera)
        .args(["load", "--format", "tsv", "--key", "1", "--dir"])
        .arg(&dir)
        .arg(&input)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(text)?;
    std::thread::sleep(Duration::from_micros(random.below(4 * LIFE_MAX_US)));
    // It may have loaded everything by now.
    child.kill().map_err(text)?;
    let status = child.wait().map_err(text)?;
    let ended = status.signal() != Some(SIGKILL);
    if ended && !status.success() {
        return Err(format!("the load ended by itself: {status}"));
    }
    if !dir.exists() && !ended {
        println!("kill {kill}: it had not begun");
        return Ok(());
    }
    let db = seen.timed_open(|| Db::open(&dir))?;
    let mut found = 0;
    for pair in db.iter() {
        pair.map_err(|error| error.to_string())?;
        found += 1;
    }
    for line in 0..found {
        let (key, value) = load_record(line);
        let stored = db.get(key.as_bytes()).map_err(|error| error.to_string())?;
        if stored.as_deref() != Some(value.as_bytes()) {
            return Err(format!("{found} records are there, but not that of line {}", line + 1));
        }
    }
    if ended {
        // Only its end acknowledges a load.
        seen.found.acknowledged += LOAD_LINES;
        if found != LOAD_LINES {
            return Err(format!("the load ended well, but {found} of {LOAD_LINES} records are there"));
        }
    }
    println!("kill {kill}: the first {found} lines are there");
    Ok(())
}

/// Every line has its own key, and keys come in no order.
fn load_record(line: u64) -> (String, String) {
    let key = (line + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (format!("{key:016x}"), format!("value of line {line}"))
}

//! LearnedKV's experiments, repeated: `run`, L1 to L3.
//!
//! L1 is phases of updates and reads, L2 scans. L3 is what they owe to over-provision, value size
//! and the error bound of the model over the key list. Every `Way` to keep values is an arm, by its
//! name.
//!
//! What must hold: all arms have the same memory and do the same operations. In L1 and L2 they
//! follow each other within a repeat, in another order in each. A cell of L3 does all its repeats
//! at once, some without every way.
//!
//! Caller: `paper::mod`.

use super::{
    Paper, Part, Scale,
    document::{Bars, Section, Table, cell},
    keeper::{Holding, KEY_BYTES, Keeper, Phase, Setting, Way, Written},
    row,
};
use crate::{
    report::{
        Spread,
        number::{Quantity, bytes, digits},
    },
    runner::{Progress, Result},
};
use solera::{Layout, Options, Reclaim, clock::Clock};

/// Bytes of a value: a pair has 1 KiB.
const VALUE_BYTES: usize = 1016;
/// Over-provision, in percent of the live bytes.
const SPARE_PERCENT: u32 = 30;
/// Moments at which L2 scans.
const MOMENTS: usize = 5;
/// Entries of a scan.
const SCAN_ENTRIES: u64 = 500;
/// The memory is one in so many parts of the live bytes.
const MEMORY_PARTS: u64 = 8;
/// The least memory, in bytes.
const MEMORY_BYTES_MIN: u64 = 8 << 20;
/// Memory for everything: so many bytes, and so many times the live ones.
const MEMORY_BYTES_ENOUGH: u64 = 256 << 20;
const MEMORY_TIMES: u64 = 4;
/// Rounds in memory that are not timed, and those of a repeat that are.
const ROUNDS_UNTIMED: usize = 3;
const ROUNDS_IN_MEMORY: usize = 3;
/// Phases after the load.
const PHASES: usize = 3;
/// Value sizes of L3, in bytes.
const SIZES: [usize; 5] = [64, 256, 1016, 4096, 16_384];
/// The most pairs of a cell of L3, in multiples of those at 1 KiB.
const PAIRS_TIMES_MAX: u64 = 4;
/// Over-provisions of L3, in percent.
const SPARES: [u32; 5] = [10, 20, 30, 40, 50];
/// Error bounds of L3, in entries.
const BOUNDS: [u32; 4] = [8, 32, 128, 1000];

/// One arm in one repeat.
struct Course {
    load: Phase,
    phases: Vec<Phase>,
    /// Entries per second of scans: after the load, after half as many and as many updates as
    /// pairs, after all phases, and after walks have put values into order.
    scans: [f64; MOMENTS],
    /// Bytes that were written to put them into order, and what all took then.
    ordered: (u64, u64),
    /// Found reads with nothing else to do: per second, and read calls for each.
    found: (f64, Option<f64>),
    holding: Holding,
}

impl Course {
    fn written(&self) -> Written {
        self.phases.iter().fold(Written::default(), |sum, phase| sum.plus(&phase.written))
    }

    fn updates(&self) -> u64 {
        self.phases.iter().map(|phase| phase.writes.count).sum()
    }

    /// Bytes written for each byte put in the phases after the load.
    fn written_per_byte(&self, pair_bytes: u64) -> f64 {
        self.written().all() as f64 / (self.updates() * pair_bytes).max(1) as f64
    }

    fn update_rate(&self) -> f64 {
        let ns: u64 = self.phases.iter().map(|phase| phase.writes.ns).sum();
        self.updates() as f64 * 1e9 / ns.max(1) as f64
    }

    fn space_peak(&self) -> u64 {
        self.phases.iter().map(|phase| phase.space_peak).max().unwrap_or(0)
    }

    /// The `quantile` of writes or reads of all phases, while values were moved or not.
    fn latency(&self, reads: bool, moving: bool, quantile: f64) -> f64 {
        let mut all = crate::measure::histogram();
        for phase in &self.phases {
            let timed = if reads { &phase.reads } else { &phase.writes };
            all += &timed.latencies[usize::from(moving)];
        }
        all.value_at_quantile(quantile) as f64
    }

    /// The longest write or read of all phases, without what it waited for a processor.
    fn own_longest(&self, reads: bool, moving: bool) -> f64 {
        let of =
            |phase: &Phase| if reads { &phase.reads } else { &phase.writes }.own_ns_max[usize::from(moving)];
        self.phases.iter().map(of).max().unwrap_or(0) as f64
    }
}

/// What an arm did in every repeat.
struct Arm {
    way: Way,
    courses: Vec<Course>,
}

impl Arm {
    fn spread(&self, of: impl Fn(&Course) -> f64) -> Spread {
        Spread::of(self.courses.iter().map(of).collect())
    }

    fn median(&self, of: impl Fn(&Course) -> f64) -> f64 {
        self.spread(of).median
    }
}

/// What every database of an experiment has in common.
struct Site<'s> {
    scale: &'s Scale,
    clock: &'s dyn Clock,
    direct: bool,
}

impl Site<'_> {
    fn setting(&self, way: Way, pairs: u64, value_bytes: usize) -> Setting {
        let live = pairs * (KEY_BYTES + value_bytes as u64);
        Setting {
            way,
            pairs,
            value_bytes,
            spare_percent: SPARE_PERCENT,
            layout: Layout::default(),
            memory_bytes: (live / MEMORY_PARTS).max(MEMORY_BYTES_MIN),
            direct: self.direct,
            directory: self.scale.directory.clone().unwrap_or_else(std::env::temp_dir),
            seed: self.scale.seed,
        }
    }
}

/// L1 to L3.
pub(super) fn run(scale: &Scale, clock: &dyn Clock, progress: &mut dyn Progress) -> Result<Vec<Section>> {
    let directory = scale.directory.clone().unwrap_or_else(std::env::temp_dir);
    let trial = tempfile::Builder::new().prefix("solera-bench-").tempdir_in(&directory)?;
    let direct = match Options::new().direct_reads(true).open(trial.path()) {
        Ok(_) => true,
        Err(solera::Error::Invalid(_)) => false,
        Err(error) => return Err(error.into()),
    };
    let site = Site { scale, clock, direct };
    let (mut asked, mut sections) = (Vec::new(), vec![conditions(&site)]);
    for part in scale.parts_of(Paper::LearnedKv) {
        match part {
            Part::Phases => {
                let arms = phases(&site, progress)?;
                verdicts(&site, &arms, &mut asked);
                sections.extend([
                    rates(&arms),
                    written(&arms),
                    latencies(&arms),
                    space(&site, &arms),
                    scans(&site, &arms),
                ]);
            }
            Part::ValueSizes => sections.push(sizes(&site, progress)?),
            Part::Spares => sections.push(spares(&site, progress)?),
            Part::Bounds => sections.push(bounds(&site, progress)?),
            Part::Resident => sections.push(in_memory(&site, &mut asked, progress)?),
            // Of other papers: `run` has refused them.
            _ => continue,
        }
    }
    let said = super::said(asked);
    Ok([said].into_iter().filter(|said| !said.verdicts.is_empty()).chain(sections).collect())
}

/// L1 and L2: every arm, every repeat.
fn phases(site: &Site<'_>, progress: &mut dyn Progress) -> Result<Vec<Arm>> {
    let ways = Way::all();
    let mut arms: Vec<Arm> = ways.iter().map(|&way| Arm { way, courses: Vec::new() }).collect();
    for repeat in 0..site.scale.repeats {
        for turn in 0..arms.len() {
            let arm = (turn + repeat) % ways.len();
            let course = course(site, ways[arm], progress)?;
            arms[arm].courses.push(course);
        }
    }
    Ok(arms)
}

fn course(site: &Site<'_>, way: Way, progress: &mut dyn Progress) -> Result<Course> {
    let (pairs, reads) = (site.scale.entries as u64, site.scale.lookups as u64);
    let scans = (reads / SCAN_ENTRIES).clamp(10, 1000);
    let walked = walked(site, way, progress)?;
    let mut keeper = Keeper::new(&site.setting(way, pairs, VALUE_BYTES))?;
    let load = keeper.load(site.clock, |done, of| progress.at(&format!("{}: P0", way.name()), done, of))?;
    let mut phases = Vec::new();
    for number in 1..=PHASES {
        let stage = format!("{}: P{number}", way.name());
        let mut at = |done: u64, of: u64| progress.at(&stage, done, of);
        phases.push(keeper.mixed(site.clock, pairs, reads, &mut at)?);
    }
    let found = keeper.reads(site.clock, reads)?;
    let holding = keeper.holding()?;
    let after = keeper.scans(site.clock, scans, SCAN_ENTRIES)?;
    let written = keeper.put_in_order()?;
    let in_order = keeper.scans(site.clock, scans, SCAN_ENTRIES)?;
    let ordered = (written, keeper.holding()?.space);
    let [loaded, half, whole] = walked;
    Ok(Course { load, phases, scans: [loaded, half, whole, after, in_order], ordered, found, holding })
}

/// Scans after the load, and after half as many and as many updates as pairs. A database of its
/// own: what walks have put into order is not to be counted for the updates of L1.
fn walked(site: &Site<'_>, way: Way, progress: &mut dyn Progress) -> Result<[f64; 3]> {
    let (pairs, reads) = (site.scale.entries as u64, site.scale.lookups as u64);
    let scans = (reads / SCAN_ENTRIES).clamp(10, 1000);
    let stage = format!("{}: L2", way.name());
    let mut at = |done: u64, of: u64| progress.at(&stage, done, of);
    let mut keeper = Keeper::new(&site.setting(way, pairs, VALUE_BYTES))?;
    keeper.load(site.clock, &mut at)?;
    let mut rates = [keeper.scans(site.clock, scans, SCAN_ENTRIES)?, 0.0, 0.0];
    for half in 0..2 {
        let part = |all: u64| if half == 0 { all / 2 } else { all - all / 2 };
        keeper.mixed(site.clock, part(pairs), part(reads), &mut at)?;
        rates[1 + half] = keeper.scans(site.clock, scans, SCAN_ENTRIES)?;
    }
    Ok(rates)
}

/// Found reads and scans with memory for everything, which is filled before: inline and `tier`,
/// both open, in turns.
fn in_memory(
    site: &Site<'_>,
    asked: &mut Vec<super::Verdict>,
    progress: &mut dyn Progress,
) -> Result<Section> {
    let (pairs, reads) = (site.scale.entries as u64, site.scale.lookups as u64);
    let ways = [Way::Inline, Way::Separated(Reclaim::Tier)];
    let mut keepers = Vec::new();
    for way in ways {
        let setting = site.setting(way, pairs, VALUE_BYTES);
        let memory_bytes = MEMORY_BYTES_ENOUGH + MEMORY_TIMES * setting.live_bytes();
        let mut keeper = Keeper::new(&Setting { memory_bytes, ..setting })?;
        let stage = format!("{}, in memory", way.name());
        let mut at = |done: u64, of: u64| progress.at(&stage, done, of);
        keeper.load(site.clock, &mut at)?;
        keeper.mixed(site.clock, pairs, 1, &mut at)?;
        keeper.flush()?;
        keeper.put_in_order()?;
        keeper.read_all()?;
        keepers.push(keeper);
    }
    // Found reads and entries of scans per second, of each way and round.
    let mut rates: [[Vec<f64>; 2]; 2] = Default::default();
    for round in 0..ROUNDS_UNTIMED + ROUNDS_IN_MEMORY * site.scale.repeats {
        for turn in 0..ways.len() {
            let way = (turn + round) % ways.len();
            let found = keepers[way].reads(site.clock, reads)?.0;
            let scanned = keepers[way].scans(site.clock, pairs / SCAN_ENTRIES + 1, SCAN_ENTRIES)?;
            if round >= ROUNDS_UNTIMED {
                rates[way][0].push(found);
                rates[way][1].push(scanned);
            }
        }
    }
    let mut table =
        Table::new("Thousand found reads, and entries of scans, per second", &["way", "reads", "scans"]);
    for (way, [found, scanned]) in ways.iter().zip(&rates) {
        let shown = [found, scanned].map(|rates| cell(&Spread::of(rates.clone()), 1e3));
        table.row(way.name(), shown);
    }
    for (at, what, least) in [(0, "found reads", 1.0), (1, "scans of 500", 0.9)] {
        let beside = rates[0][at].iter().zip(&rates[1][at]).map(|(inline, tier)| tier / inline);
        let beside = Spread::of(beside.collect()).median;
        row(
            asked,
            format!("{what} in memory are at least {least:.1} times those of inline (`tier`)"),
            format!("{beside:.2} times"),
            beside >= least,
        );
    }
    Ok(Section {
        title: "In memory".into(),
        text: vec![format!(
            "{pairs} pairs of {KEY_BYTES} + {VALUE_BYTES} bytes, with memory for four times as much. After as many updates, a flush \
             and walks that put values into order, each value is read once; then both databases take turns. The first {ROUNDS_UNTIMED} rounds do not count."
        )],
        tables: vec![table],
        ..Section::default()
    })
}

/// What holds of the aims, arm by arm.
fn verdicts(site: &Site<'_>, arms: &[Arm], asked: &mut Vec<super::Verdict>) {
    let pair = KEY_BYTES + VALUE_BYTES as u64;
    let live = site.setting(Way::Inline, site.scale.entries as u64, VALUE_BYTES).live_bytes() as f64;
    let find = |way: Way| arms.iter().find(|arm| arm.way == way);
    let by_name = |name: &str| arms.iter().find(|arm| arm.way.name() == name);
    let (Some(inline), Some(tier), Some(log)) =
        (find(Way::Inline), find(Way::Separated(Reclaim::Tier)), find(Way::Separated(Reclaim::Off)))
    else {
        return;
    };
    let load = |arm: &Arm| {
        arm.median(|of| of.load.written.all() as f64 / (of.load.writes.count * pair).max(1) as f64)
    };
    row(
        asked,
        "a random load writes at most 1.15 bytes for each byte put, log included (`tier`)",
        format!("{:.3}; inline {:.2}", load(tier), load(inline)),
        load(tier) <= 1.15,
    );
    let churn = |arm: &Arm| arm.median(|of| of.written_per_byte(pair));
    row(
        asked,
        "P1 to P3 write at most half the bytes of inline (`tier`)",
        format!(
            "{:.2} for each byte put, inline {:.2}: {:.2}",
            churn(tier),
            churn(inline),
            churn(tier) / churn(inline)
        ),
        churn(tier) <= 0.5 * churn(inline),
    );
    let rate = |arm: &Arm| arm.median(Course::update_rate);
    let reads = |arm: &Arm| arm.median(|of| of.found.0);
    for arm in arms.iter().filter(|arm| matches!(arm.way, Way::Separated(way) if way != Reclaim::Off)) {
        against_log(arm, inline, log, live, asked);
    }
    row(
        asked,
        "found reads after the updates are no slower than inline (`tier`)",
        format!("{:.2} times", reads(tier) / reads(inline)),
        reads(tier) >= reads(inline),
    );
    if let Some(rewrite) = by_name("rewrite") {
        row(
            asked,
            "P1 to P3 write at most 0.7 of the bytes of `rewrite` (`tier`)",
            format!("{:.2} against {:.2}: {:.2}", churn(tier), churn(rewrite), churn(tier) / churn(rewrite)),
            churn(tier) <= 0.7 * churn(rewrite),
        );
        row(
            asked,
            "updates are at least 1.25 times as fast as with `rewrite` (`tier`)",
            format!("{:.2} times", rate(tier) / rate(rewrite)),
            rate(tier) >= 1.25 * rate(rewrite),
        );
        if let Some(paper) = by_name("learnedkv") {
            let last = |arm: &Arm, of: fn(&Phase) -> f64| arm.median(|course| of(&course.phases[PHASES - 1]));
            let [writes, reads] = [|p: &Phase| p.writes.per_second(), |p: &Phase| p.reads.per_second()]
                .map(|of| last(paper, of) / last(rewrite, of));
            let scans = paper.median(|of| of.scans[2]) / rewrite.median(|of| of.scans[2]);
            row(
                asked,
                "the paper's claim against its baseline in P3, 1.31 × writes, 1.32 × reads, 3.6 × scans (`learnedkv` against `rewrite`)",
                format!("{writes:.2} ×, {reads:.2} ×, {scans:.2} ×"),
                writes >= 1.31 && reads >= 1.32 && scans >= 3.6,
            );
        }
    }
}

/// What is asked of every way that gives space back.
fn against_log(arm: &Arm, inline: &Arm, log: &Arm, live: f64, asked: &mut Vec<super::Verdict>) {
    let name = arm.way.name();
    for (moment, when) in [(3, "after P3"), (4, "after P3 and conversion for walks")] {
        let scans = |arm: &Arm| arm.median(|of| of.scans[moment]);
        row(
            asked,
            format!(
                "scans of {SCAN_ENTRIES} {when} are at least 3 times those of an unsorted log and 0.9 of inline (`{name}`)"
            ),
            format!("{:.2} and {:.2} times", scans(arm) / scans(log), scans(arm) / scans(inline)),
            scans(arm) >= 3.0 * scans(log) && scans(arm) >= 0.9 * scans(inline),
        );
    }
    let calls = arm.courses.iter().filter_map(|course| course.found.1).fold(f64::NAN, f64::max);
    row(
        asked,
        format!("a found read whose pointers are in memory is at most 1.02 reads of files (`{name}`)"),
        format!("{calls:.3}"),
        calls <= 1.02,
    );
    for (reads, what) in [(false, "writes"), (true, "reads")] {
        let at = |moving: bool, quantile: f64| arm.median(|of| of.latency(reads, moving, quantile));
        let (rest, moving, longest) = (at(false, 0.99), at(true, 0.99), at(true, 1.0));
        let own = arm.median(|of| of.own_longest(reads, true));
        row(
            asked,
            format!(
                "p99 of {what} while values move is at most twice the rest, no pause over 100 ms (`{name}`)"
            ),
            format!(
                "{} µs against {} µs; longest {} ms, {} ms of it on a processor or waiting for this database",
                digits(moving / 1e3),
                digits(rest / 1e3),
                digits(longest / 1e6),
                digits(own / 1e6)
            ),
            moving <= 2.0 * rest && longest <= 1e8,
        );
    }
    let steady = arm.median(|of| of.holding.space as f64) / live;
    let peak = arm.median(|of| of.space_peak() as f64) / live;
    let allowed = 1.1 + f64::from(SPARE_PERCENT) / 100.0;
    row(
        asked,
        format!(
            "files take at most {allowed:.1} of the live bytes at the end, and {:.3} at the peak (`{name}`)",
            allowed + 0.125
        ),
        format!("{steady:.3} and {peak:.3}"),
        steady <= allowed && peak <= allowed + 0.125,
    );
}

fn conditions(site: &Site<'_>) -> Section {
    let scale = site.scale;
    let setting = site.setting(Way::Inline, scale.entries as u64, VALUE_BYTES);
    Section {
        title: "Conditions".into(),
        text: vec![
            format!(
                "{} pairs of {KEY_BYTES} + {VALUE_BYTES} bytes, incompressible. P0 loads them in random order. P1 to P3 are as many \
                 updates each, mixed with {} reads of keys that are there; both by Zipf's law with the exponent 0.99, the popular \
                 keys spread over the keys and over the load. One client, one thread of the database. The memory is {} in every arm, \
                 the over-provision {SPARE_PERCENT} %.",
                setting.pairs,
                scale.lookups,
                bytes(setting.memory_bytes),
            ),
            format!(
                "Tables and sorted value files are read {}. Logs are read through it; what it holds of them is dropped sixteen \
                 times in a phase, and before each measurement at rest and sixteen times in its reads. At rest nothing is left to do, \
                 and all is on the device. A rate is operations by their own time. After each phase \
                 all work that is due is done; its bytes are counted, its time is told apart.",
                if site.direct { "past the system's cache (O_DIRECT)" } else { "through the system's cache" },
            ),
            "`inline` keeps values in the tables. `never reclaimed` keeps them in the logs and gives nothing back: an unsorted \
             value log. The others give space back, each in its way (docs/decisions/0019)."
                .into(),
        ],
        ..Section::default()
    }
}

fn rates(arms: &[Arm]) -> Section {
    let mut table = Table::new(
        "Thousand operations per second of their own time, medians and quartiles; and seconds until all was settled",
        &[
            "way",
            "P0 puts",
            "P1 updates",
            "P2 updates",
            "P3 updates",
            "P1 reads",
            "P2 reads",
            "P3 reads",
            "settling, s",
        ],
    );
    let (mut updates, mut reads) = (Vec::new(), Vec::new());
    for arm in arms {
        let of = |reads: bool, phase: usize| {
            arm.spread(|course| {
                let phase = &course.phases[phase];
                if reads { &phase.reads } else { &phase.writes }.per_second()
            })
        };
        let settling = arm.spread(|course| {
            course.phases.iter().chain([&course.load]).map(|phase| phase.settle_ns).sum::<u64>() as f64
        });
        let cells = (0..PHASES).map(|phase| of(false, phase)).chain((0..PHASES).map(|phase| of(true, phase)));
        let load = arm.spread(|course| course.load.writes.per_second());
        table.row(
            arm.way.name(),
            [cell(&load, 1e3)]
                .into_iter()
                .chain(cells.map(|spread| cell(&spread, 1e3)))
                .chain([cell(&settling, 1e9)]),
        );
        updates.push((arm.way.name().to_owned(), of(false, PHASES - 1)));
        reads.push((arm.way.name().to_owned(), of(true, PHASES - 1)));
    }
    let bars = |title: &str, quantity, bars| Bars { title: title.into(), quantity, better: "higher", bars };
    Section {
        title: "L1: rates".into(),
        tables: vec![table],
        bars: vec![
            bars("Updates in P3", Quantity::Rate("updates"), updates),
            bars("Reads in P3", Quantity::Rate("reads"), reads),
        ],
        ..Section::default()
    }
}

fn written(arms: &[Arm]) -> Section {
    let mut table = Table::new(
        "Bytes for each byte put, medians: written in P0; written in P1 to P3, by cause; read in P1 to P3 from tables, and from logs and value files",
        &[
            "way",
            "P0",
            "P1 to P3",
            "log",
            "flushes",
            "merges",
            "values moved",
            "read, tables",
            "read, values",
        ],
    );
    let mut bars = Vec::new();
    let pair = KEY_BYTES + VALUE_BYTES as u64;
    for arm in arms {
        let per_put = |of: fn(&Course) -> f64| {
            let ratio = |course: &Course| of(course) / (course.updates() * pair).max(1) as f64;
            digits(arm.median(ratio))
        };
        fn read(course: &Course, tables: bool) -> f64 {
            let of =
                |(of_tables, all): (u64, u64)| if tables { of_tables } else { all.saturating_sub(of_tables) };
            course.phases.iter().map(|phase| phase.read.map_or(f64::NAN, |read| of(read) as f64)).sum()
        }
        let load =
            arm.median(|of| of.load.written.all() as f64 / (of.load.writes.count * pair).max(1) as f64);
        table.row(
            arm.way.name(),
            [
                digits(load),
                per_put(|of| of.written().all() as f64),
                per_put(|of| of.written().log as f64),
                per_put(|of| of.written().flush as f64),
                per_put(|of| of.written().merges as f64),
                per_put(|of| of.written().values as f64),
                per_put(|of| read(of, true)),
                per_put(|of| read(of, false)),
            ],
        );
        bars.push((arm.way.name().to_owned(), arm.spread(|of| of.written_per_byte(pair))));
    }
    Section {
        title: "L1: bytes by cause".into(),
        text: vec![
            "Reads of clients are among the bytes read. What the system read ahead of them is not.".into(),
        ],
        tables: vec![table],
        bars: vec![Bars {
            title: "Written in P1 to P3".into(),
            quantity: Quantity::Plain("bytes per byte put"),
            better: "lower",
            bars,
        }],
        ..Section::default()
    }
}

fn latencies(arms: &[Arm]) -> Section {
    let mut table = Table::new(
        "Time of an operation in P1 to P3, µs, medians of the repeats",
        &[
            "way, when",
            "operations, %",
            "write p50",
            "p99",
            "p99.9",
            "longest",
            "own",
            "read p50",
            "p99",
            "p99.9",
            "longest",
            "own",
        ],
    );
    for arm in arms {
        let share = arm.median(|of| {
            let all = of.phases.iter().map(|phase| (phase.writes.count + phase.reads.count) as f64);
            let moving = of.phases.iter().map(|p| p.moving_share() * (p.writes.count + p.reads.count) as f64);
            moving.sum::<f64>() / all.sum::<f64>().max(1.0)
        });
        for (moving, when, share) in [(false, "at rest", 1.0 - share), (true, "values move", share)] {
            if share == 0.0 {
                continue;
            }
            let quantiles = [0.5, 0.99, 0.999, 1.0];
            let of = |reads: bool| {
                let at = |quantile| arm.median(|of| of.latency(reads, moving, quantile));
                let own = arm.median(|of| of.own_longest(reads, moving));
                quantiles.map(at).into_iter().chain([own]).map(|ns| digits(ns / 1e3)).collect::<Vec<_>>()
            };
            table.row(
                format!("{}, {when}", arm.way.name()),
                [format!("{:.1}", share * 100.0)].into_iter().chain(of(false)).chain(of(true)),
            );
        }
    }
    Section {
        title: "L1: while values move".into(),
        text: vec![
            "`values move`: operations that began while the database was emptying value files. A merge of `inline` is no such time. \
             `own` is the longest operation without what its thread waited for a processor: others used these."
                .into(),
        ],
        tables: vec![table],
        ..Section::default()
    }
}

fn space(site: &Site<'_>, arms: &[Arm]) -> Section {
    let live = site.setting(Way::Inline, site.scale.entries as u64, VALUE_BYTES).live_bytes() as f64;
    let mut table = Table::new(
        "Space after P3 and at the peak for each live byte; what finds an entry; found reads of random keys at rest, their pointers' blocks read before",
        &[
            "way",
            "space",
            "at the peak",
            "tables",
            "index in memory",
            "filters in memory",
            "K reads/s",
            "read calls for each",
        ],
    );
    let mut bars = Vec::new();
    for arm in arms {
        let median = |of: fn(&Holding) -> u64| bytes(arm.median(|course| of(&course.holding) as f64) as u64);
        let calls = arm.courses.iter().filter_map(|course| course.found.1).fold(f64::NAN, f64::max);
        table.row(
            arm.way.name(),
            [
                format!("{:.3}", arm.median(|of| of.holding.space as f64) / live),
                format!("{:.3}", arm.median(|of| of.space_peak() as f64) / live),
                median(|of| of.table_bytes),
                median(|of| of.index_bytes),
                median(|of| of.filter_bytes),
                cell(&arm.spread(|of| of.found.0), 1e3),
                format!("{calls:.3}"),
            ],
        );
        bars.push((arm.way.name().to_owned(), arm.spread(|of| of.found.0)));
    }
    Section {
        title: "L1: space, and reads at rest".into(),
        text: vec![
            "With separated values the tables are the list of keys and pointers; with `inline` they are all data.".into(),
        ],
        tables: vec![table],
        bars: vec![Bars {
            title: "Found reads at rest".into(),
            quantity: Quantity::Rate("reads"),
            better: "higher",
            bars,
        }],
        ..Section::default()
    }
}

fn scans(site: &Site<'_>, arms: &[Arm]) -> Section {
    let live = site.setting(Way::Inline, site.scale.entries as u64, VALUE_BYTES).live_bytes() as f64;
    let mut table = Table::new(
        format!(
            "Thousand entries per second of scans of {SCAN_ENTRIES}, medians and quartiles, after so many updates for each pair; then, \
             with values in order, times an unsorted log, and bytes written for order and taken then, for each live byte"
        ),
        &["way", "0", "0.5", "1", "3", "3, in order", "times a log", "written", "space"],
    );
    let after = |arm: &Arm, moment: usize| arm.spread(|of| of.scans[moment]);
    let log = arms.iter().find(|arm| arm.way == Way::Separated(Reclaim::Off));
    let log = log.map_or(f64::NAN, |log| after(log, MOMENTS - 1).median);
    let mut bars = Vec::new();
    for arm in arms {
        let last = after(arm, MOMENTS - 1);
        let per_live = |of: fn(&Course) -> u64| digits(arm.median(|course| of(course) as f64) / live);
        let cells = (0..MOMENTS).map(|moment| cell(&after(arm, moment), 1e3));
        let rest = [digits(last.median / log), per_live(|of| of.ordered.0), per_live(|of| of.ordered.1)];
        table.row(arm.way.name(), cells.chain(rest));
        bars.push((arm.way.name().to_owned(), last));
    }
    Section {
        title: "L2: scans".into(),
        text: vec![
            "Scans after up to as many updates as pairs are of a database of their own, and those after three times as many of \
             L1's: what walks put into order counts for no updates. Nothing is converted before the first updates: what was loaded \
             is then still in the logs. At the end walks go over everything until they have paid for all order that they get (docs/decisions/0019)."
                .into(),
        ],
        tables: vec![table],
        bars: vec![Bars {
            title: "Scans with values in order".into(),
            quantity: Quantity::Rate("entries"),
            better: "higher",
            bars,
        }],
        ..Section::default()
    }
}

/// What a cell of L3 shows.
struct Cell {
    load: f64,
    churn: f64,
    updates: f64,
    reads: f64,
    calls: Option<f64>,
    scans: f64,
    /// The same once walks have put values into order.
    scans_in_order: f64,
    space: f64,
    holding: Holding,
}

/// Loads, updates as many pairs as there are, reads and scans.
fn measured(site: &Site<'_>, setting: &Setting, what: &str, progress: &mut dyn Progress) -> Result<Cell> {
    let pair = KEY_BYTES + setting.value_bytes as u64;
    let reads = (site.scale.lookups as u64 / 10).max(100);
    let mut keeper = Keeper::new(setting)?;
    let stage = format!("L3, {}: {what}", setting.way.name());
    let mut at = |done: u64, of: u64| progress.at(&stage, done, of);
    let load = keeper.load(site.clock, &mut at)?;
    let phase = keeper.mixed(site.clock, setting.pairs, reads, &mut at)?;
    let scans = keeper.scans(site.clock, 20, SCAN_ENTRIES)?;
    let (found, calls) = keeper.reads(site.clock, reads)?;
    let holding = keeper.holding()?;
    keeper.put_in_order()?;
    let scans_in_order = keeper.scans(site.clock, 20, SCAN_ENTRIES)?;
    Ok(Cell {
        load: load.written.all() as f64 / (load.writes.count * pair) as f64,
        churn: phase.written.all() as f64 / (phase.writes.count * pair) as f64,
        updates: phase.writes.per_second(),
        reads: found,
        calls,
        scans,
        scans_in_order,
        space: holding.space as f64 / setting.live_bytes() as f64,
        holding,
    })
}

/// The median over the repeats of each figure.
fn cells(site: &Site<'_>, setting: &Setting, what: &str, progress: &mut dyn Progress) -> Result<Vec<Cell>> {
    (0..site.scale.repeats).map(|_| measured(site, setting, what, progress)).collect()
}

fn median(cells: &[Cell], of: impl Fn(&Cell) -> f64) -> f64 {
    Spread::of(cells.iter().map(of).collect()).median
}

/// The columns of a table of L3.
const COLUMNS: [&str; 8] = [
    "P0 written",
    "P1 written",
    "K updates/s",
    "K reads/s",
    "read calls",
    "K entries/s scanned",
    "in order",
    "space",
];

fn figures(cells: &[Cell]) -> [String; 8] {
    let calls = median(cells, |cell| cell.calls.unwrap_or(f64::NAN));
    [
        digits(median(cells, |cell| cell.load)),
        digits(median(cells, |cell| cell.churn)),
        digits(median(cells, |cell| cell.updates) / 1e3),
        digits(median(cells, |cell| cell.reads) / 1e3),
        format!("{calls:.3}"),
        digits(median(cells, |cell| cell.scans) / 1e3),
        digits(median(cells, |cell| cell.scans_in_order) / 1e3),
        digits(median(cells, |cell| cell.space)),
    ]
}

fn heads(first: &'static str) -> Vec<&'static str> {
    [first].into_iter().chain(COLUMNS).collect()
}

/// L3: value sizes.
fn sizes(site: &Site<'_>, progress: &mut dyn Progress) -> Result<Section> {
    let data = site.scale.entries_small as u64 * (KEY_BYTES + VALUE_BYTES as u64);
    let mut tables = Vec::new();
    for value_bytes in SIZES {
        let pairs = (data / (KEY_BYTES + value_bytes as u64))
            .min(PAIRS_TIMES_MAX * site.scale.entries_small as u64)
            .max(100);
        let title = format!("{pairs} pairs with values of {value_bytes} bytes");
        let mut table = Table::new(title, &heads("way"));
        for way in Way::all().into_iter().filter(|way| *way != Way::Separated(Reclaim::Off)) {
            let setting = site.setting(way, pairs, value_bytes);
            let found = cells(site, &setting, &format!("values of {value_bytes} bytes"), progress)?;
            table.row(way.name(), figures(&found));
        }
        tables.push(table);
    }
    Ok(Section {
        title: "L3: value size".into(),
        text: vec![format!(
            "Over-provision {SPARE_PERCENT} %. After the load come as many updates as pairs, by Zipf's law. Bytes written are for each \
             byte put, settled; space is for each live byte. Reads and scans are at rest; scans also once walks have put values \
             into order."
        )],
        tables,
        ..Section::default()
    })
}

/// L3: over-provision.
fn spares(site: &Site<'_>, progress: &mut dyn Progress) -> Result<Section> {
    let pairs = site.scale.entries_small as u64;
    let mut tables = Vec::new();
    let ways = Way::all();
    for &way in ways.iter().filter(|way| matches!(way, Way::Separated(way) if *way != Reclaim::Off)) {
        let mut table =
            Table::new(format!("`{}`, by over-provision in percent", way.name()), &heads("spare, %"));
        for spare_percent in SPARES {
            let setting = Setting { spare_percent, ..site.setting(way, pairs, VALUE_BYTES) };
            let found = cells(site, &setting, &format!("{spare_percent} % spare"), progress)?;
            table.row(spare_percent.to_string(), figures(&found));
        }
        tables.push(table);
    }
    Ok(Section {
        title: "L3: over-provision".into(),
        text: vec![format!("{pairs} pairs of {KEY_BYTES} + {VALUE_BYTES} bytes; columns as above.")],
        tables,
        ..Section::default()
    })
}

/// L3: the error bound of the model over the key list.
fn bounds(site: &Site<'_>, progress: &mut dyn Progress) -> Result<Section> {
    let pairs = site.scale.entries_small as u64;
    let way = Way::Separated(Reclaim::LearnedKv);
    let mut table = Table::new(
        "`learnedkv`, by the error bound in entries",
        &["bound", "index in memory", "K reads/s", "read calls", "K entries/s scanned"],
    );
    for epsilon in BOUNDS {
        let base = site.setting(way, pairs, VALUE_BYTES);
        let setting = Setting { layout: Layout { epsilon, ..base.layout }, ..base };
        let found = cells(site, &setting, &format!("bound {epsilon}"), progress)?;
        let [_, _, _, reads, calls, scans, ..] = figures(&found);
        let index = bytes(median(&found, |cell| cell.holding.index_bytes as f64) as u64);
        table.row(epsilon.to_string(), [index, reads, calls, scans]);
    }
    Ok(Section {
        title: "L3: error bound".into(),
        text: vec![format!(
            "{pairs} pairs of {KEY_BYTES} + {VALUE_BYTES} bytes, over-provision {SPARE_PERCENT} %."
        )],
        tables: vec![table],
        ..Section::default()
    })
}

//! LearnedKV's experiments, repeated: `run`, L1 to L3, as far as `Scale` asks for their parts.
//!
//! L1 is phases of updates and reads, L2 scans; both are here, and each `Way` to keep values is an
//! arm. The first scans of L2 have a database of their own (`walked`). `cells` is L3, `in_memory`
//! has memory for everything. `pages` shows what was measured in L1 and L2, `verdicts` what holds
//! of their aims.
//!
//! What must hold: ways that are compared have the same memory and do the same operations. In L1
//! and L2 arms take turns within a repeat, in another order in each. A cell of L3 does its repeats
//! one after the other. L3 and `in_memory` leave some ways out.
//!
//! Caller: `paper::mod`.

mod cells;
mod in_memory;
mod pages;
mod verdicts;

use super::{
    Paper, Part, Scale,
    document::Section,
    keeper::{Holding, KEY_BYTES, Keeper, Phase, Setting, Way, Written},
};
use crate::{
    report::Spread,
    runner::{Progress, Result},
};
use solera::{Layout, Options, clock::Clock};

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
/// Phases after the load.
const PHASES: usize = 3;

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

    /// The longest write or read of all phases, without what it waited for a processor or a device
    /// that stood still.
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
    let (mut asked, mut sections) = (Vec::new(), vec![pages::conditions(&site)]);
    for part in scale.parts_of(Paper::LearnedKv) {
        match part {
            Part::Phases => {
                let arms = phases(&site, progress)?;
                verdicts::of(&site, &arms, &mut asked);
                sections.extend([
                    pages::rates(&arms),
                    pages::written(&arms),
                    pages::latencies(&arms),
                    pages::space(&site, &arms),
                    pages::scans(&site, &arms),
                ]);
            }
            Part::ValueSizes => sections.push(cells::sizes(&site, progress)?),
            Part::Spares => sections.push(cells::spares(&site, progress)?),
            Part::Bounds => sections.push(cells::bounds(&site, progress)?),
            Part::Resident => sections.push(in_memory::section(&site, &mut asked, progress)?),
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

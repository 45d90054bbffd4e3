//! What came of `updates` as a page: conditions, each peer beside the first engine, bytes and
//! space, rates, latencies, reads and scans.
//!
//! What must hold: figures of several repeats are medians with quartiles, or medians alone. A ratio
//! is the first engine's median to the other's; which way is better stands beside it.
//!
//! Caller: `updates::run`.

use super::{
    Arm, Updates,
    course::{Course, KEY_BYTES, PHASES, SCAN_ENTRIES, Timed},
    live_bytes, memory_bytes,
};
use crate::{compare::Results, results::UPDATES_TITLE};
use solera_bench::{
    Spread,
    paper::document::{Document, Section, Table, cell},
    report::number::{bytes, date, digits},
};

impl Arm {
    fn spread(&self, of: impl Fn(&Course) -> f64) -> Spread {
        Spread::of(self.courses.iter().map(of).collect())
    }

    fn median(&self, of: impl Fn(&Course) -> f64) -> f64 {
        self.spread(of).median
    }
}

impl Course {
    /// Bytes put in the phases after the load.
    fn put(&self, updates: &Updates) -> f64 {
        (PHASES as u64 * live_bytes(updates)) as f64
    }

    fn written(&self, updates: &Updates) -> f64 {
        self.phases.iter().map(|phase| phase.written).sum::<u64>() as f64 / self.put(updates)
    }

    fn handed(&self, updates: &Updates) -> f64 {
        self.phases.iter().map(|phase| phase.handed).sum::<u64>() as f64 / self.put(updates)
    }

    fn space_peak(&self) -> u64 {
        self.phases.iter().map(|phase| phase.space_peak).max().unwrap_or(0)
    }

    /// Writes or reads of all phases: per second of their own time.
    fn rate(&self, reads: bool) -> f64 {
        let of = |(count, ns): (u64, u64), timed: &Timed| (count + timed.count, ns + timed.ns);
        let all = self.phases.iter().map(|phase| if reads { &phase.reads } else { &phase.writes });
        let (count, ns) = all.fold((0, 0), of);
        count as f64 * 1e9 / ns.max(1) as f64
    }

    /// Updates per second of their own time and of what had to be done after them.
    fn settled_rate(&self) -> f64 {
        let ns: u64 = self.phases.iter().map(|phase| phase.writes.ns + phase.settle_ns).sum();
        let count: u64 = self.phases.iter().map(|phase| phase.writes.count).sum();
        count as f64 * 1e9 / ns.max(1) as f64
    }

    fn cpu_us(&self) -> f64 {
        let operations: u64 = self.phases.iter().map(|phase| phase.writes.count + phase.reads.count).sum();
        self.phases.iter().map(|phase| phase.cpu_seconds).sum::<f64>() * 1e6 / operations as f64
    }
}

/// The page of what there is so far.
pub(super) fn document(updates: &Updates, facts: &Results, arms: &[Arm]) -> Document {
    Document {
        title: UPDATES_TITLE.into(),
        facts: vec![
            ("command", facts.command.clone()),
            ("commit", facts.commit.clone().unwrap_or_else(|| "unknown".into())),
            ("machine", facts.machine.clone()),
            ("peers", facts.peers.clone()),
            ("run", format!("{}, {:.0} s", date(facts.started_unix_s), facts.run_s)),
        ],
        sections: vec![
            conditions(updates),
            beside(updates, arms),
            written(updates, arms),
            rates(arms),
            latencies(arms),
            reads_and_scans(updates, arms),
        ],
    }
}

fn conditions(updates: &Updates) -> Section {
    Section {
        title: "Conditions".into(),
        text: vec![
            format!(
                "{} pairs of {KEY_BYTES} + {} bytes, incompressible. P0 loads them in random order. P1 to P3 are as many \
                 updates each, mixed with {} reads of keys that are there; both by Zipf's law with the exponent 0.99, the popular \
                 keys spread over the keys and over the load. One client. Each engine has {} of memory, and a process of its \
                 own.",
                updates.pairs,
                updates.value_bytes,
                updates.lookups,
                bytes(memory_bytes(updates)),
            ),
            format!(
                "Tables are read {}. What the system's cache holds of the files is dropped sixteen times in a phase, and \
                 before and during each measurement at rest. A rate is operations by their own time. After each phase the engine \
                 flushes and does what is due; its bytes are counted, its time is told apart. Repeats: {}, medians and \
                 quartiles.",
                if updates.direct {
                    "past the system's cache (O_DIRECT) by Solera and RocksDB, which can; fjall cannot"
                } else {
                    "through the system's cache"
                },
                updates.repeats,
            ),
            "Bytes written are the system's count for the process (`write_bytes`): pages made dirty. Bytes handed over are \
             those of calls that write (`wchar`); what goes through mapped memory is not among them. Space is what the files take \
             on the device, looked at every 4,096 operations. What stands behind a colon in an engine's name was set for this run; \
             all else is as in the other comparisons."
                .into(),
        ],
        ..Section::default()
    }
}

/// The first engine beside each other one.
fn beside(updates: &Updates, arms: &[Arm]) -> Section {
    let mut table = Table::new(
        "The first engine's median to the other's: bytes and space, less is better; rates, more is better",
        &[
            "beside",
            "written, P1 to P3",
            "space at the end",
            "at the peak",
            "updates",
            "updates with settling",
            "reads during",
            "reads at rest",
            "scans",
            "scans after walks",
        ],
    );
    let ratios: [&dyn Fn(&Course) -> f64; 9] = [
        &|of| of.written(updates),
        &|of| of.space as f64,
        &|of| of.space_peak() as f64,
        &|of| of.rate(false),
        &|of| of.settled_rate(),
        &|of| of.rate(true),
        &|of| of.found.per_second(),
        &|of| of.scans[0].per_second(),
        &|of| of.scans[1].per_second(),
    ];
    if let Some((first, others)) = arms.split_first() {
        for other in others {
            table.row(
                &other.engine,
                ratios.map(|ratio| format!("{:.2}", first.median(ratio) / other.median(ratio))),
            );
        }
    }
    Section { title: "Beside each".into(), tables: vec![table], ..Section::default() }
}

fn written(updates: &Updates, arms: &[Arm]) -> Section {
    let live = live_bytes(updates) as f64;
    let mut table = Table::new(
        "Bytes for each byte put: written in P0 and in P1 to P3, handed over in P1 to P3; space for each live byte after P3 and at \
         the peak of P1 to P3; memory of the process",
        &["engine", "P0", "P1 to P3", "handed over", "space", "at the peak", "memory"],
    );
    for arm in arms {
        table.row(
            &arm.engine,
            [
                cell(&arm.spread(|of| of.load.written as f64 / live), 1.0),
                cell(&arm.spread(|of| of.written(updates)), 1.0),
                cell(&arm.spread(|of| of.handed(updates)), 1.0),
                format!("{:.3}", arm.median(|of| of.space as f64) / live),
                format!("{:.3}", arm.median(|of| of.space_peak() as f64) / live),
                bytes(arm.median(|of| of.resident as f64) as u64),
            ],
        );
    }
    Section { title: "Bytes and space".into(), tables: vec![table], ..Section::default() }
}

fn rates(arms: &[Arm]) -> Section {
    let mut table = Table::new(
        "Thousand operations per second of their own time; updates with the time until all was settled; and processor time",
        &[
            "engine",
            "P0 puts",
            "P1 updates",
            "P2 updates",
            "P3 updates",
            "P1 to P3",
            "with settling",
            "P1 reads",
            "P2 reads",
            "P3 reads",
            "µs of a processor, each",
        ],
    );
    for arm in arms {
        let load = arm.spread(|of| of.load.writes.per_second());
        let of = |reads: bool, phase: usize| {
            arm.spread(|course| {
                let phase = &course.phases[phase];
                if reads { &phase.reads } else { &phase.writes }.per_second()
            })
        };
        let updates = (0..PHASES).map(|phase| of(false, phase));
        let all = [arm.spread(|of| of.rate(false)), arm.spread(Course::settled_rate)];
        let reads = (0..PHASES).map(|phase| of(true, phase));
        let cells = [load].into_iter().chain(updates).chain(all).chain(reads);
        let cpu = digits(arm.median(Course::cpu_us));
        table.row(&arm.engine, cells.map(|spread| cell(&spread, 1e3)).chain([cpu]));
    }
    Section { title: "Rates".into(), tables: vec![table], ..Section::default() }
}

fn latencies(arms: &[Arm]) -> Section {
    let mut table = Table::new(
        "Time of an operation in P3, µs, medians of the repeats; of the longest, the longest of all",
        &["engine", "write p50", "p99", "p99.9", "longest", "read p50", "p99", "p99.9", "longest"],
    );
    for arm in arms {
        let of = |reads: bool, at: usize| {
            let of = |course: &Course| {
                let phase = &course.phases[PHASES - 1];
                let timed = if reads { &phase.reads } else { &phase.writes };
                timed.quantiles_ns[at] as f64 / 1e3
            };
            let all = arm.spread(of);
            digits(if at == 3 { all.max } else { all.median })
        };
        table.row(
            &arm.engine,
            [false, true]
                .into_iter()
                .flat_map(|reads| (0..4).map(move |at| (reads, at)))
                .map(|(reads, at)| of(reads, at)),
        );
    }
    Section { title: "Latencies".into(), tables: vec![table], ..Section::default() }
}

fn reads_and_scans(updates: &Updates, arms: &[Arm]) -> Section {
    let live = live_bytes(updates) as f64;
    let mut table = Table::new(
        format!(
            "Thousand found reads per second at rest, and calls that read from files for each; thousand entries per second of scans \
             of {SCAN_ENTRIES}, right after P3 and once walks went over everything; bytes written for these walks and space then, for \
             each live byte"
        ),
        &[
            "engine",
            "reads",
            "calls for each",
            "scans",
            "scans after walks",
            "written for walks",
            "space then",
        ],
    );
    for arm in arms {
        table.row(
            &arm.engine,
            [
                cell(&arm.spread(|of| of.found.per_second()), 1e3),
                format!("{:.3}", arm.median(|of| of.read_calls)),
                cell(&arm.spread(|of| of.scans[0].per_second()), 1e3),
                cell(&arm.spread(|of| of.scans[1].per_second()), 1e3),
                digits(arm.median(|of| of.walked.0 as f64) / live),
                format!("{:.3}", arm.median(|of| of.walked.1 as f64) / live),
            ],
        );
    }
    Section { title: "Reads and scans at rest".into(), tables: vec![table], ..Section::default() }
}

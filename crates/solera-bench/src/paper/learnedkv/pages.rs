//! L1 and L2 as sections of the page: conditions, rates, bytes by cause, latencies, space, scans.
//!
//! What must hold: rates of several repeats are shown by medians and quartiles, most other figures
//! by medians alone. Of read calls for each read the most is shown.
//!
//! Caller: `learnedkv::run`.

use super::{Arm, Course, MOMENTS, PHASES, SCAN_ENTRIES, SPARE_PERCENT, Site, VALUE_BYTES};
use crate::{
    paper::{
        document::{Bars, Section, Table, cell},
        keeper::{Holding, KEY_BYTES, Way},
    },
    report::number::{Quantity, bytes, digits},
};
use solera::Reclaim;

pub(super) fn conditions(site: &Site<'_>) -> Section {
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
                "Tables and sorted value files are read {}. Logs are read through it, and what was just written lies there. So what \
                 it holds of all files is dropped sixteen times in a phase, and before each measurement at rest and sixteen times in \
                 it: no arm has more memory than another. At rest nothing is left to do, and all is on the device. A rate is operations by their own time. After each phase \
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

pub(super) fn rates(arms: &[Arm]) -> Section {
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

pub(super) fn written(arms: &[Arm]) -> Section {
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

pub(super) fn latencies(arms: &[Arm]) -> Section {
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
             `own` is the longest operation without what its thread waited for a processor, and without the time in which the device \
             stood still: it had requests, of whomever, and completed none for 20 ms and more."
                .into(),
        ],
        tables: vec![table],
        ..Section::default()
    }
}

pub(super) fn space(site: &Site<'_>, arms: &[Arm]) -> Section {
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

pub(super) fn scans(site: &Site<'_>, arms: &[Arm]) -> Section {
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

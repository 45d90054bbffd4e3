//! RusKey's experiment R3: `run`, the run limit goes from 1 to T in the midst of a load, by each of
//! three transitions.
//!
//! The arms are greedy, lazy and flexible. It shows latencies over missions, quantiles of writes
//! before and after, and what the change takes by itself on a database at rest.
//!
//! What must hold: a thread of the database flushes and merges, so a transition that makes much
//! work due at once is felt by writers. All arms begin with the same tree and do the same
//! operations.
//!
//! Caller: `paper::mod`.

use super::{
    Scale,
    document::{Bars, Lines, Section, Table, Verdict},
    missions::{Site, Tenant},
    ruskey, verdict,
};
use crate::{
    report::{
        Spread,
        number::{Quantity, bytes, digits},
    },
    runner::{Progress, Result},
};
use solera::{
    clock::Clock,
    control::{Change, knob},
};
use solera_tune::cost::Mix;

/// The arms, by the names of the knob.
const ARMS: [&str; 3] = ["greedy", "lazy", "flexible"];
/// The arm that is asked about.
const FLEXIBLE: usize = 2;
/// The run limit of the levels below level 0, before and after.
const RUN_LIMITS: (u32, u32) = (1, 10);
/// γ: lookups of keys that are there, in percent.
const LOOKUPS_PERCENT: f64 = 10.0;
/// Missions over which the mean latency moves.
const WINDOW: usize = 5;
/// Changes of a run limit of a database at rest that are timed in each repeat.
const CHANGES_TIMED: u32 = 40;
/// Quantiles of the write latency that are shown.
const QUANTILES: [(f64, &str); 5] =
    [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"), (1.0, "max")];

/// One arm in one repeat. Times in nanoseconds.
#[derive(Clone, Debug, Default)]
struct Passage {
    /// Mean time of an operation in each mission.
    missions: Vec<f64>,
    /// How long each write took, before the change and after it.
    writes: [Vec<u64>; 2],
    /// From the beginning to the end, and from the change to the end, with the work that was left
    /// over.
    total: [f64; 2],
    /// Bytes of tables read and written from the change to the end.
    moved_bytes: u64,
    /// How long the change itself took under load.
    applied: u64,
    /// The same of a copy at rest: time, bytes of tables that the change had read and written
    /// before anything else was asked of it, and bytes of the manifest.
    at_rest: (u64, u64, u64),
    /// How long further changes took at rest.
    changes: Vec<u64>,
}

/// R3.
pub(super) fn run(scale: &Scale, clock: &dyn Clock, progress: &mut dyn Progress) -> Result<Vec<Section>> {
    let site = Site::new(ruskey::data(scale), scale)?;
    let site = Site { background_threads: 1, ..site };
    let setting = ruskey::setting(scale, &[RUN_LIMITS.0]);
    let loaded = Tenant::loaded(&site, &setting, |done, of| progress.at("loading", done, of))?;
    let mut arms: [Vec<Passage>; 3] = Default::default();
    let missions = scale.missions.max(2);
    let all = (scale.repeats * ARMS.len() * missions) as u64;
    for repeat in 0..scale.repeats {
        for turn in 0..ARMS.len() {
            let arm = (turn + repeat) % ARMS.len();
            let begun = (repeat * ARMS.len() + turn) * missions;
            let at = |mission: usize| progress.at("missions", (begun + mission) as u64, all);
            arms[arm].push(passage(ARMS[arm], loaded.fork()?, scale, clock, at)?);
        }
    }
    Ok(sections(scale, &site, &loaded, &arms))
}

fn change(what: &str) -> Change {
    Change::new("bench", what)
}

/// Missions under the old run limit, the change, missions under the new one, and the work that they
/// left over.
fn passage(
    transition: &str,
    mut tenant: Tenant,
    scale: &Scale,
    clock: &dyn Clock,
    mut progress: impl FnMut(usize),
) -> Result<Passage> {
    let mix = Mix::new([0.0, LOOKUPS_PERCENT, 0.0, 100.0 - LOOKUPS_PERCENT]).map_err(crate::Error::Config)?;
    tenant.db().control().apply(change("which transition").set("transition", transition))?;
    let mut passage = Passage::default();
    let (mut ns, missions) = ([0.0; 2], scale.missions.max(2));
    for (half, count) in [(0, missions / 2), (1, missions - missions / 2)] {
        if half == 1 {
            at_rest(&tenant, clock, &mut passage)?;
            let begin = clock.monotonic_ns();
            apply(&tenant, RUN_LIMITS.1)?;
            passage.applied = clock.monotonic_ns() - begin;
            ns[1] += passage.applied as f64;
        }
        let moved = tenant.table_bytes_moved();
        for _ in 0..count {
            progress(passage.missions.len());
            let writes = &mut passage.writes[half];
            let did = tenant.run_with(clock, &mix, scale.mission_operations, |ns| writes.push(ns))?;
            passage.missions.push(did.ns as f64 / did.operations as f64);
            ns[half] += did.ns as f64;
        }
        // What a half leaves over is its own, so that the change meets the same tree in every arm.
        let begin = clock.monotonic_ns();
        tenant.rest()?;
        ns[half] += (clock.monotonic_ns() - begin) as f64;
        passage.moved_bytes = tenant.table_bytes_moved() - moved;
    }
    passage.total = [ns[0] + ns[1], ns[1]];
    Ok(passage)
}

fn apply(tenant: &Tenant, run_limit: u32) -> Result<()> {
    tenant.db().control().apply(change("R3").set(&knob::RUN_LIMIT, run_limit))?;
    Ok(())
}

/// What the change does by itself: on a copy of the tree, which has nothing else to do.
fn at_rest(tenant: &Tenant, clock: &dyn Clock, passage: &mut Passage) -> Result<()> {
    let copy = tenant.fork()?;
    copy.rest()?;
    let (moved, manifest) = (copy.table_bytes_moved(), copy.manifest_bytes()?);
    let begin = clock.monotonic_ns();
    apply(&copy, RUN_LIMITS.1)?;
    let took = clock.monotonic_ns() - begin;
    // Before the tables that the change may move are in the manifest too.
    let record = copy.manifest_bytes()?.saturating_sub(manifest);
    copy.rest()?;
    passage.at_rest = (took, copy.table_bytes_moved() - moved, record);
    copy.db().control().apply(change("the same again").set("transition", ARMS[FLEXIBLE]))?;
    for at in 0..CHANGES_TIMED {
        let begin = clock.monotonic_ns();
        apply(&copy, 2 + at % (RUN_LIMITS.1 - 1))?;
        passage.changes.push(clock.monotonic_ns() - begin);
    }
    Ok(())
}

fn spread(of: &[Passage], value: impl Fn(&Passage) -> f64) -> Spread {
    Spread::of(of.iter().map(value).collect())
}

/// The `quantile` of numbers of which there is at least one.
fn at(quantile: f64, of: &[u64]) -> f64 {
    let mut sorted = of.to_vec();
    sorted.sort_unstable();
    sorted[((sorted.len() as f64 * quantile) as usize).min(sorted.len() - 1)] as f64
}

fn sections(scale: &Scale, site: &Site, loaded: &Tenant, arms: &[Vec<Passage>; 3]) -> Vec<Section> {
    let said = Section { title: "Asked and measured".into(), verdicts: verdicts(arms), ..Section::default() };
    let memory = loaded.memory();
    let conditions = Section {
        title: "Conditions".into(),
        text: vec![
            format!(
                "{} entries of {} bytes, uncompressed, four to a block; write buffer {}, T = {}, K₀ = {}, K = {} below, then {}; \
                 block cache {}, filters of 8 bits per key, in every arm. {LOOKUPS_PERCENT} % lookups of keys that are there, else \
                 updates, all keys alike. One thread of the database flushes and merges; writers are slowed down or held where it \
                 is behind. Tables are read {}.",
                site.data.entries,
                site.data.entry_bytes,
                bytes(memory.write_buffer_bytes),
                loaded.setting.shape.size_ratio,
                loaded.setting.shape.run_limit(0),
                RUN_LIMITS.0,
                RUN_LIMITS.1,
                bytes(memory.cache_bytes),
                if site.direct { "past the system's cache (O_DIRECT)" } else { "through the system's cache" },
            ),
            "Greedy, lazy, flexible: docs/decisions/0010. Time is what the client takes, and then what is left to merge. \
             The change by itself is made on a copy of the tree that has nothing else to do."
                .into(),
        ],
        ..Section::default()
    };
    vec![said, conditions, time(scale, arms), latency(arms), by_itself(arms)]
}

fn verdicts(arms: &[Vec<Passage>; 3]) -> Vec<Verdict> {
    let [greedy, lazy, flexible] = [0, 1, 2].map(|arm| spread(&arms[arm], |of| of.total[1]).median / 1e9);
    let in_order = flexible <= lazy && lazy <= greedy;
    let (before, after) = largest_writes(&arms[FLEXIBLE]);
    let moved = arms[FLEXIBLE].iter().map(|of| of.at_rest.1).max().unwrap_or(0);
    let applied = applied(arms);
    vec![
        verdict(
            "from the change to the end, flexible takes no longer than lazy and lazy no longer than greedy, or flexible at \
             most 0.9 times as long as greedy",
            in_order || flexible <= 0.9 * greedy,
            &format!(
                "{} s, {} s and {} s; flexible {:.2} times greedy",
                digits(flexible),
                digits(lazy),
                digits(greedy),
                flexible / greedy
            ),
        ),
        verdict(
            "the largest write latency of flexible after the change is at most 1.5 times that before it",
            after <= 1.5 * before,
            &format!(
                "{} ms against {} ms, medians of the repeats",
                digits(after / 1e6),
                digits(before / 1e6)
            ),
        ),
        verdict(
            "the flexible change by itself reads and writes no table",
            moved == 0,
            &format!("{moved} bytes at most"),
        ),
        verdict(
            "a change returns within 1 ms",
            at(1.0, &applied) <= 1e6,
            &format!(
                "p50 {} ms, max {} ms of {} changes, most of it the sync of the manifest",
                digits(at(0.5, &applied) / 1e6),
                digits(at(1.0, &applied) / 1e6),
                applied.len()
            ),
        ),
    ]
}

/// All changes that were timed.
fn applied(arms: &[Vec<Passage>; 3]) -> Vec<u64> {
    let of = |of: &Passage| of.changes.iter().copied().chain([of.applied, of.at_rest.0]).collect::<Vec<_>>();
    arms.iter().flatten().flat_map(of).collect()
}

/// The longest write before the change and after it, each the median of the repeats.
fn largest_writes(arm: &[Passage]) -> (f64, f64) {
    let largest = |half: usize| spread(arm, |of| at(1.0, &of.writes[half])).median;
    (largest(0), largest(1))
}

fn time(scale: &Scale, arms: &[Vec<Passage>; 3]) -> Section {
    let mut table = Table::new(
        "Time and bytes moved, medians and quartiles of the repeats",
        &[
            "transition",
            "from the change, s",
            "in all, s",
            "bytes of tables read and written after the change",
        ],
    );
    let mut bars = Vec::new();
    for (name, passages) in ARMS.iter().zip(arms) {
        let [whole, after] = [0, 1].map(|which| spread(passages, |of| of.total[which]));
        let moved = spread(passages, |of| of.moved_bytes as f64).median as u64;
        let cell = |spread: &Spread| super::document::cell(spread, 1e9);
        table.row(*name, [cell(&after), cell(&whole), bytes(moved)]);
        bars.push(((*name).to_owned(), after));
    }
    let missions = scale.missions.max(2);
    let operations = |missions: usize| (missions as u64 * scale.mission_operations) as f64;
    let line = |passages: &Vec<Passage>| {
        let of_mission = |mission: usize| spread(passages, |of| of.missions[mission]).median / 1e3;
        let means: Vec<f64> = (0..missions).map(of_mission).collect();
        let moving = |end: usize| {
            let window = &means[end.saturating_sub(WINDOW)..end];
            (operations(end), window.iter().sum::<f64>() / window.len() as f64)
        };
        (1..=missions).map(moving).collect::<Vec<_>>()
    };
    Section {
        title: "R3: time".into(),
        verdicts: Vec::new(),
        text: vec![format!(
            "{missions} missions of {} operations; the change is after mission {}.",
            scale.mission_operations,
            missions / 2
        )],
        tables: vec![table],
        bars: vec![Bars {
            title: "Time from the change to the end".into(),
            quantity: Quantity::Nanoseconds,
            better: "lower",
            bars,
        }],
        lines: vec![Lines {
            title: format!("Mean latency of {WINDOW} missions"),
            quantity: Quantity::Plain("µs per operation"),
            better: "lower",
            over: "operations",
            mark: (operations(missions / 2), "change"),
            lines: ARMS
                .iter()
                .zip(arms)
                .map(|(name, passages)| ((*name).to_owned(), line(passages)))
                .collect(),
        }],
    }
}

fn latency(arms: &[Vec<Passage>; 3]) -> Section {
    let columns: Vec<&str> =
        ["transition, when"].into_iter().chain(QUANTILES.map(|(_, name)| name)).collect();
    let mut table = Table::new("Time of a write, µs, medians of the repeats", &columns);
    let mut bars = Vec::new();
    for (name, passages) in ARMS.iter().zip(arms) {
        for (half, when) in ["before", "after"].into_iter().enumerate() {
            let of = |quantile: f64| spread(passages, |of| at(quantile, &of.writes[half]));
            table.row(
                format!("{name}, {when}"),
                QUANTILES.map(|(quantile, _)| digits(of(quantile).median / 1e3)),
            );
            bars.push((format!("{name}, {when}"), of(1.0)));
        }
    }
    Section {
        title: "R3: write latency".into(),
        tables: vec![table],
        bars: vec![Bars {
            title: "Longest write".into(),
            quantity: Quantity::Nanoseconds,
            better: "lower",
            bars,
        }],
        ..Section::default()
    }
}

fn by_itself(arms: &[Vec<Passage>; 3]) -> Section {
    let mut table = Table::new(
        "The change by itself",
        &[
            "transition",
            "tables read and written",
            "bytes of the manifest",
            "apply at rest, ms",
            "under load, ms",
        ],
    );
    for (name, passages) in ARMS.iter().zip(arms) {
        let most = |of: fn(&Passage) -> u64| passages.iter().map(of).max().unwrap_or(0);
        let ms = |of: fn(&Passage) -> f64| super::document::cell(&spread(passages, of), 1e6);
        table.row(
            *name,
            [
                bytes(most(|of| of.at_rest.1)),
                most(|of| of.at_rest.2).to_string(),
                ms(|of| of.at_rest.0 as f64),
                ms(|of| of.applied as f64),
            ],
        );
    }
    let applied = applied(arms);
    let quantiles =
        QUANTILES.map(|(quantile, name)| format!("{name} {} ms", digits(at(quantile, &applied) / 1e6)));
    let text = vec![format!("All {} changes that were timed: {}.", applied.len(), quantiles.join(", "))];
    Section { title: "R3: the change".into(), text, tables: vec![table], ..Section::default() }
}

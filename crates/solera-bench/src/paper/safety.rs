//! Whether a tuner ever hurts (experiment X2): `run_all`, twelve workloads (or fewer, by
//! `Scale::mixes`) that drift in worlds of counted time.
//!
//! The arms are the default, a second database that nobody tunes, and five tuners. These are the
//! steward, the steward with reads taken for ten times as dear or as cheap, and two agents that
//! want no good. It shows gains, the worst epoch, and losses.
//!
//! The verdicts ask: no epoch of the steward comes below 90 % of the default's, and its mean gain
//! is at least 1.15. No other tuner loses more than 5 % over a run. None makes more than six
//! changes in one context.
//!
//! What must hold: a verdict that does not hold is shown, and fails nothing.
//!
//! Caller: `paper::mod`.

use super::{
    Scale,
    document::{Bars, Section, Table},
    epochs::{Course, Hand, Lengths, Tuning, run},
    verdict,
};
use crate::{
    report::{
        Spread,
        number::{Quantity, digits},
    },
    runner::{Progress, Result},
};
use solera_tune::{
    agent,
    coordinator::Rules,
    cost::Units,
    world::{Drift, Setup, World, device},
};

/// The least that an epoch may come to, of the default.
const EPOCH_MIN: f64 = 0.90;
/// The least that all workloads are to gain in the mean.
const GAIN_MIN: f64 = 1.15;
/// The most that an agent which wants no good may lose over a run, as a share.
const LOSS_MAX: f64 = 0.05;
/// The most changes in one context.
const CHANGES_MAX: u32 = 6;
/// How wrong unit costs are.
const WRONG: f64 = 10.0;
/// What the database has that tells chance: the knob, and its value of the default's.
const OTHER: (&str, f64) = ("write_buffer_percent", 0.95);

/// A tuner.
struct Arm {
    name: &'static str,
    agent: &'static str,
    units: Units,
}

/// Unit costs with reads so many times too high and what merges do so many times too low.
fn wrong(factor: f64) -> Units {
    let units = device();
    Units {
        read_ns: units.read_ns.map(|ns| ns * factor),
        write_ns_per_page: units.write_ns_per_page / factor,
        read_ahead_ns_per_page: units.read_ahead_ns_per_page / factor,
        merge_ns_per_entry: units.merge_ns_per_entry / factor,
        ..units
    }
}

fn arms() -> Vec<Arm> {
    let of = |name, agent, units| Arm { name, agent, units };
    vec![
        of("steward", agent::steward::NAME, device()),
        of("reads taken for 10 times as dear", agent::steward::NAME, wrong(WRONG)),
        of("reads taken for 10 times as cheap", agent::steward::NAME, wrong(1.0 / WRONG)),
        of("random", agent::random::NAME, device()),
        of("worst", agent::worst::NAME, device()),
    ]
}

/// One workload: by default, by default but for a trifle, and by each arm.
struct Row {
    name: &'static str,
    by_default: Course,
    /// It was not tuned either; its merges come at other times.
    other: Course,
    arms: Vec<Course>,
}

impl Row {
    /// How many times as fast as by default `arm` was over all.
    fn gain(&self, arm: usize) -> f64 {
        self.by_default.mean_ns / self.arms[arm].mean_ns
    }

    /// The same in its worst epoch.
    fn worst(&self, arm: usize) -> f64 {
        least(&self.by_default.epochs, &self.arms[arm].epochs)
    }

    /// The same, where an epoch of the default takes what the slower of the two took that were not
    /// tuned.
    fn worst_beyond_chance(&self, arm: usize) -> f64 {
        let slower =
            self.by_default.epochs.iter().zip(&self.other.epochs).map(|(one, other)| one.max(*other));
        least(&slower.collect::<Vec<f64>>(), &self.arms[arm].epochs)
    }
}

/// The least share, epoch by epoch.
fn least(of: &[f64], epochs: &[f64]) -> f64 {
    of.iter().zip(epochs).map(|(of, epoch)| of / epoch).fold(f64::INFINITY, f64::min)
}

/// X2.
pub(super) fn run_all(scale: &Scale, progress: &mut dyn Progress) -> Result<Vec<Section>> {
    let drifts: Vec<Drift> = Drift::all().into_iter().take(scale.mixes.max(1)).collect();
    let lengths = Lengths { window: scale.mission_operations.min(2_000), windows: scale.missions as u64 };
    let entries = scale.entries_small.min(60_000) as u64;
    let setup = Setup { seed: scale.seed, entries, ..Setup::default() };
    let arms = arms();
    let all = (drifts.len() * (arms.len() + 2)) as u64;
    let (knob, share) = OTHER;
    let world = World::new(setup.clone())?;
    let now = world.db().control().observe();
    let value = now.setting(knob, "default", None).and_then(|value| value.number()).unwrap_or(25.0);
    let other = Hand::Person(knob, (share * value * 100.0).round() / 100.0);
    drop(world);
    let mut done = 0;
    let mut rows = Vec::new();
    for drift in &drifts {
        let mut next = |hand: Hand<'_>| {
            progress.at(drift.name, done, all);
            done += 1;
            run(drift, &setup, lengths, hand)
        };
        let (by_default, other) = (next(Hand::Nobody)?, next(other)?);
        let course = |arm: &Arm| {
            let (agent, units) = (arm.agent, arm.units.clone());
            next(Hand::Tuner(&Tuning { agent, units, seed: scale.seed, rules: Rules::default() }))
        };
        let arms = arms.iter().map(course).collect::<Result<Vec<Course>>>()?;
        rows.push(Row { name: drift.name, by_default, other, arms });
    }
    Ok(sections(&arms, &rows))
}

fn sections(arms: &[Arm], rows: &[Row]) -> Vec<Section> {
    let mean = |arm: usize| rows.iter().map(|row| row.gain(arm)).sum::<f64>() / rows.len() as f64;
    let least = |of: &dyn Fn(&Row) -> f64| rows.iter().map(of).fold(f64::INFINITY, f64::min);
    let worst_epoch = least(&|row| row.worst(0));
    let beyond_chance = least(&|row| row.worst_beyond_chance(0));
    let chance = least(&|row| self::least(&row.by_default.epochs, &row.other.epochs));
    let changes = rows.iter().flat_map(|row| &row.arms).map(|course| course.changes_max).max().unwrap_or(0);
    let text = vec![
        "Asked: does a database that tunes itself ever become worse than one that nobody tuned, whatever its workload does, and \
         whoever tunes it?"
            .to_owned(),
        format!(
            "Measured: {} workloads whose epochs follow each other, in a world whose time is counted (a read, a page written and each step \
             of an operation have a price), so that the figures do not depend on the machine. A figure is how many times as fast as \
             by default.",
            rows.len()
        ),
        format!(
            "What chance does: merges come in lumps, and whatever changes their times puts some of them into other epochs. A second \
             database that nobody tunes has write buffers {:.0} % smaller. Against it an epoch of the steward is held too: against the \
             slower of the two.",
            (1.0 - OTHER.1) * 100.0
        ),
    ];
    let mut verdicts = vec![
        verdict(
            &format!("no epoch is below {EPOCH_MIN} of the default (steward)"),
            worst_epoch >= EPOCH_MIN,
            &format!("the worst is {worst_epoch:.2}"),
        ),
        verdict(
            &format!(
                "no epoch is below {EPOCH_MIN} of the slower of two databases without a tuner (steward)"
            ),
            beyond_chance >= EPOCH_MIN,
            &format!("the worst is {beyond_chance:.2}; of those two, one against the other, {chance:.2}"),
        ),
        verdict(
            &format!("the mean gain is at least {GAIN_MIN} (steward)"),
            mean(0) >= GAIN_MIN,
            &format!("{:.2}", mean(0)),
        ),
        verdict(
            &format!("at most {CHANGES_MAX} changes in one context (all agents)"),
            changes <= CHANGES_MAX,
            &format!("at most {changes}"),
        ),
    ];
    for (at, arm) in arms.iter().enumerate().skip(1) {
        let loss = 1.0 - least(&|row| row.gain(at));
        let claim = format!("{}: at most {:.0} % lost over a whole run", arm.name, LOSS_MAX * 100.0);
        let figures =
            format!("at most {:.1} %; in the mean {:+.1} %", loss * 100.0, (mean(at) - 1.0) * 100.0);
        verdicts.push(verdict(&claim, loss <= LOSS_MAX, &figures));
    }
    vec![
        Section {
            title: "Twelve workloads".into(),
            verdicts,
            text,
            tables: vec![table_of_arms(arms, rows)],
            bars: vec![bars(rows)],
            ..Section::default()
        },
        Section {
            title: "What the steward did".into(),
            text: Vec::new(),
            tables: vec![table_of_steward(rows)],
            ..Section::default()
        },
    ]
}

fn bars(rows: &[Row]) -> Bars {
    let bar = |row: &Row| (row.name.to_owned(), Spread::of(vec![row.gain(0)]));
    Bars {
        title: "steward, times as fast as by default".into(),
        quantity: Quantity::Plain("×"),
        better: "higher",
        bars: rows.iter().map(bar).collect(),
    }
}

fn table_of_arms(arms: &[Arm], rows: &[Row]) -> Table {
    let heads = ["workload", "default, ns", "default, smaller buffers"].into_iter();
    let heads = heads.chain(arms.iter().map(|arm| arm.name));
    let cells = |row: &Row| {
        let arms = (0..row.arms.len()).map(|arm| format!("{:.2} ({:.2})", row.gain(arm), row.worst(arm)));
        let other = format!(
            "{:.2} ({:.2})",
            row.by_default.mean_ns / row.other.mean_ns,
            least(&row.by_default.epochs, &row.other.epochs)
        );
        [digits(row.by_default.mean_ns), other].into_iter().chain(arms).collect()
    };
    Table {
        title: "Times as fast as by default over the whole run, in brackets in the worst epoch".into(),
        columns: heads.map(str::to_owned).collect(),
        rows: rows.iter().map(|row| (row.name.to_owned(), cells(row))).collect(),
    }
}

fn table_of_steward(rows: &[Row]) -> Table {
    let cells = |row: &Row| {
        let course = &row.arms[0];
        let epochs = row.by_default.epochs.iter().zip(&course.epochs);
        let epochs: Vec<String> =
            epochs.map(|(by_default, tuned)| format!("{:.2}", by_default / tuned)).collect();
        let shown = if epochs.len() > 8 { format!("{} epochs", epochs.len()) } else { epochs.join(" ") };
        let counts = [course.windows as usize, course.tries(), course.undone(), course.changes_max as usize];
        counts.map(|count| count.to_string()).into_iter().chain([shown]).collect()
    };
    let columns =
        ["workload", "windows", "changes", "taken back", "most in one context", "epochs, times as fast"];
    Table {
        title: "The steward's changes".into(),
        columns: columns.map(str::to_owned).into(),
        rows: rows.iter().map(|row| (row.name.to_owned(), cells(row))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small worlds: whether the guard holds is asked for, not how much is gained.
    #[test]
    fn no_agent_loses_much_in_small_worlds_and_none_is_ended() {
        let setup = Setup { entries: 20_000, memory_bytes: 2 << 20, ..Setup::default() };
        let lengths = Lengths { window: 1000, windows: 24 };
        for drift in Drift::all().iter().filter(|drift| ["slow ramp", "absent keys"].contains(&drift.name)) {
            let by_default = run(drift, &setup, lengths, Hand::Nobody).unwrap();
            for arm in arms() {
                let (agent, units) = (arm.agent, arm.units.clone());
                let tuning = Tuning { agent, units, seed: 1, rules: Rules::default() };
                let tuned = run(drift, &setup, lengths, Hand::Tuner(&tuning)).unwrap();
                let gain = by_default.mean_ns / tuned.mean_ns;
                println!(
                    "{} {}: {gain:.3}, {} tries, {} undone",
                    drift.name,
                    arm.name,
                    tuned.tries(),
                    tuned.undone()
                );
                assert_eq!(tuned.off, None);
                assert!(tuned.windows > 20 && tuned.changes_max <= CHANGES_MAX);
                assert!(gain > 0.8, "{}: {} comes to {gain:.2}", drift.name, arm.name);
            }
        }
    }
}

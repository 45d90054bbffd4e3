//! CAMAL's experiment C3 and what moves: `Moving`, mixes that follow each other.
//!
//! `shifting` runs CAMAL's dynamic mode at several p and τ beside opponents. `steward` tunes static
//! mixes by the steward. `uncertain` tries mixes that are certain only to within ρ (CAMAL §8.4).
//!
//! What must hold: every arm of `shifting` and `steward` begins with the default's tree. In
//! `shifting`, mixes follow each other at the size that was trained on. Entries are written between
//! them, as in the paper, so a tree takes its new form with the merges that come.
//!
//! Caller: `paper::camal_learned`, with what it has trained.

use super::{
    camal::DEFAULT,
    camal_lab::Lab,
    contest::mean,
    document::{Section, Table, Verdict},
    learning::{Hand, Learner},
    missions::Tenant,
    row,
};
use crate::{
    opponent::{Arce, EcoTune, Planner},
    report::number::digits,
    runner::{Error, Progress, Result},
};
use solera::control::{Change, knob};
use solera_tune::{
    agent::{
        Agent,
        camal::{Camal, Knobs, Learner as Kind, Tuned, mixes_within},
        constants::CamalConstants,
    },
    cost::{Mix, Model, Setting, Units},
    sight::{Goal, Measure},
};

/// Operations of a mix in C3, of the entries; and entries that are written before the next mix.
const MIX_SHARE: f64 = 0.2;
const BETWEEN_SHARE: f64 = 0.2;
/// p, as a share of a mix's operations, and τ.
const PERIODS: [f64; 3] = [0.05, 0.2, 1.0];
const THRESHOLDS: [f64; 3] = [0.05, 0.10, 0.20];
/// Looks at the database in a mix: as often as the shortest period.
const LOOKS: u64 = 20;
/// Looks in a window of the steward.
const STEWARD_LOOKS: u64 = 4;
/// What is asked of the steward and of CAMAL's dynamic mode: of the default.
const NORMALISED_MAX: f64 = 0.75;
/// Missions for which the steward tunes a static mix, of as many operations as choices are measured
/// by: users' windows are five times as long. In the last quarter it is taken to have settled.
const STEWARD_WINDOWS: u64 = 24;
/// What the steward may take under any mix, of the default; what it is to save in the mean; and for
/// how long it may tune all of them, in seconds.
const WORST_MAX: f64 = 1.02;
const SAVED_MIN: f64 = 0.30;
const TUNING_S_MAX: f64 = 600.0;
/// ρ, which of the mixes are tried, and how many are drawn within ρ of each.
const RHOS: [f64; 3] = [0.1, 0.5, 1.0];
const UNCERTAIN_EVERY: usize = 4;
const DRAWN: usize = 4;

/// Where mixes move.
pub(super) struct Moving<'a, 'b> {
    pub(super) lab: &'a mut Lab<'b>,
    /// Where mixes follow each other: of the size that was trained on.
    pub(super) small: &'a mut Lab<'b>,
    pub(super) training: &'a [Mix],
    pub(super) shifting: &'a [Mix],
    pub(super) constants: &'a CamalConstants,
    pub(super) units: &'a Units,
}

/// The default's setting in a lab.
fn default(lab: &Lab<'_>) -> Setting {
    let (size_ratio, filter_bits) = DEFAULT;
    lab.setting(&Knobs { size_ratio, runs: 1, filter_bits, cache_share: 0.0 })
}

/// A database that was loaded with the default, and the hand that turns its knobs.
fn learner(lab: &mut Lab<'_>, hand: impl FnOnce(&Tenant) -> Result<Hand>) -> Result<Learner> {
    let (tenant, _) = lab.tenant(&default(lab))?;
    let hand = hand(&tenant)?;
    Ok(Learner::new(tenant, hand))
}

fn goal() -> Goal {
    Goal { measure: Measure::Elapsed, ..Goal::default() }
}

impl Moving<'_, '_> {
    /// Every mix for itself, under the steward and by default, from the first window on.
    pub(super) fn steward(
        &mut self,
        asked: &mut Vec<Verdict>,
        progress: &mut dyn Progress,
    ) -> Result<Section> {
        let operations = self.lab.operations.max(1);
        let mut tuning_us = 0.0;
        let (units, seed, clock) = (self.units.clone(), self.lab.scale.seed, self.lab.site.clock.clone());
        let (mut ratios, mut late) = (Vec::new(), Vec::new());
        let mut table = Table::new(
            format!(
                "µs of an operation in {STEWARD_WINDOWS} missions of {operations} operations from the first, and in the last quarter"
            ),
            &[
                "mix",
                "default",
                "steward",
                "of the default",
                "the same in the last quarter",
                "changes",
                "size ratio, levels at last",
            ],
        );
        let count = self.training.len() + self.shifting.len();
        for (number, mix) in self.training.iter().chain(self.shifting).enumerate() {
            progress.at("the steward under each mix", number as u64, count as u64);
            let mut arms = [
                learner(self.lab, |_| Ok(Hand::Nobody))?,
                learner(self.lab, |tenant| Hand::steward(tenant, goal(), &units, operations, seed))?,
            ];
            let mut missions = [Vec::new(), Vec::new()];
            for _ in 0..STEWARD_WINDOWS {
                for (arm, missions) in arms.iter_mut().zip(&mut missions) {
                    missions.push(arm.mission(&*clock, mix, operations)?.0.us());
                }
            }
            let last = |of: &[f64]| mean(&of[of.len() * 3 / 4..]);
            let [default, steward] = &missions;
            tuning_us += steward.iter().sum::<f64>() * operations as f64;
            let at_last = format!("{}, {}", arms[1].size_ratio(), arms[1].run_limits().len());
            ratios.push(mean(steward) / mean(default));
            late.push(last(steward) / last(default));
            let shown = |ratios: &[f64]| format!("{:.2}", ratios[ratios.len() - 1]);
            table.row(
                mix.to_string(),
                [
                    digits(mean(default)),
                    digits(mean(steward)),
                    shown(&ratios),
                    shown(&late),
                    arms[1].changes.to_string(),
                    at_last,
                ],
            );
        }
        let worst = |of: &[f64]| of.iter().copied().fold(0.0, f64::max);
        row(
            asked,
            format!("the steward: no mix is worse than {WORST_MAX} of the default, from its first window"),
            format!("the worst is {:.2}; in the last quarter {:.2}", worst(&ratios), worst(&late)),
            worst(&ratios) <= WORST_MAX && worst(&late) <= WORST_MAX,
        );
        let tuning_s = tuning_us / 1e6;
        row(
            asked,
            format!("the steward: at most {TUNING_S_MAX:.0} s of tuning over all mixes"),
            format!("{} s of counted time, in which it serves", digits(tuning_s)),
            tuning_s <= TUNING_S_MAX,
        );
        let saved = 1.0 - mean(&late);
        row(
            asked,
            "the steward: at least 30 % less than the default in the mean, in the last quarter".to_owned(),
            format!("{:.0} %; from the first window {:.0} %", saved * 100.0, (1.0 - mean(&ratios)) * 100.0),
            saved >= SAVED_MIN,
        );
        let text = vec![format!(
            "Each mix begins on the default's tree, of which the default stays as it is. The steward has {STEWARD_WINDOWS} missions of \
             {operations} operations, all of which count. Its windows are one mission, or as many as bring four flushes. The last \
             quarter shows what it has come to."
        )];
        Ok(Section { title: "C1, the steward".into(), text, tables: vec![table], ..Section::default() })
    }

    /// C3.
    pub(super) fn shifting(
        &mut self,
        tuned: &Tuned,
        asked: &mut Vec<Verdict>,
        progress: &mut dyn Progress,
    ) -> Result<Section> {
        let shifting = self.shifting;
        let entries = self.small.space.entries;
        let each = ((entries * MIX_SHARE) as u64).max(LOOKS);
        let between = (entries * BETWEEN_SHARE) as u64;
        let writes = Mix::new([0.0, 0.0, 0.0, 1.0]).map_err(Error::Config)?;
        let mut arms = self.arms(tuned, each)?;
        let clock = self.small.site.clock.clone();
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); arms.len()];
        let mut depths = vec![0; arms.len()];
        for (number, mix) in shifting.iter().enumerate() {
            progress.at("mixes that follow each other", number as u64, shifting.len() as u64);
            for (((_, arm), times), depth) in arms.iter_mut().zip(&mut times).zip(&mut depths) {
                let mut us = Vec::new();
                for _ in 0..LOOKS {
                    us.push(arm.mission(&*clock, mix, each / LOOKS)?.0.us());
                }
                times.push(mean(&us));
                *depth = arm.run_limits().len().max(*depth);
                arm.unseen(&*clock, &writes, between)?;
            }
        }
        let normalised: Vec<f64> = times.iter().map(|of| mean(of) / mean(&times[0])).collect();
        let mut table = Table::new(
            format!("{} mixes of {each} operations, one after the other", shifting.len()),
            &["arm", "µs", "of the default", "worst mix, of the default", "changes", "most levels"],
        );
        for ((((name, arm), times_of), ratio), depth) in arms.iter().zip(&times).zip(&normalised).zip(&depths)
        {
            let worst = times_of.iter().zip(&times[0]).map(|(own, default)| own / default);
            table.row(
                name.clone(),
                [
                    digits(mean(times_of)),
                    format!("{ratio:.2}"),
                    format!("{:.2}", worst.fold(0.0, f64::max)),
                    arm.changes.to_string(),
                    depth.to_string(),
                ],
            );
        }
        for name in ["camal-trees", "steward"] {
            let of = arms.iter().zip(&normalised).filter(|((arm, _), _)| arm.starts_with(name));
            let best = of.map(|(_, ratio)| *ratio).fold(f64::INFINITY, f64::min);
            row(
                asked,
                format!("C3, {name}: normalised latency at most {NORMALISED_MAX}"),
                format!("{best:.2}"),
                best <= NORMALISED_MAX,
            );
        }
        let by_mix = self.by_mix(tuned, &arms, &times, progress)?;
        Ok(Section {
            title: "C3, mixes that follow each other".into(),
            text: vec![format!(
                "{entries} entries, the size that was trained on. p is a share of a mix's operations; all of these count, from the \
                 first. {between} entries are written after each mix, which do not count and which only the steward sees. \
                 It may give write buffers what the other arms leave to the cache: all have one budget. \
                 Transitions are lazy where nothing else is said: what is there changes with the merges that come. \
                 The eager one empties levels whose run limit changes; under leveling none does. Levels that a small T has made leave when T \
                 grows: at once in the eager arm, else when reads have paid for it (docs/decisions/0024)."
            )],
            tables: vec![table, by_mix],
            ..Section::default()
        })
    }

    /// Mix by mix: what the learner chooses, what that costs on a tree that was loaded with it, and
    /// what it comes to where the tree was another's.
    fn by_mix(
        &mut self,
        tuned: &Tuned,
        arms: &[(String, Learner)],
        times: &[Vec<f64>],
        progress: &mut dyn Progress,
    ) -> Result<Table> {
        let space = self.small.space;
        let choices: Vec<Knobs> =
            self.shifting.iter().map(|mix| tuned.choose(mix, space.entries, space.memory_bytes).0).collect();
        let chosen = self.shifting.iter().zip(&choices).map(|(mix, knobs)| (*mix, self.small.setting(knobs)));
        let by_default = self.shifting.iter().map(|mix| (*mix, default(self.small)));
        let wanted: Vec<(Mix, Setting)> = chosen.chain(by_default).collect();
        let alone = self.small.costs(&wanted, "choices on their own trees", progress)?;
        let (chosen, by_default) = alone.split_at(choices.len());
        let moving = (1..arms.len())
            .filter(|arm| arms[*arm].0.starts_with("camal-trees"))
            .min_by(|a, b| mean(&times[*a]).total_cmp(&mean(&times[*b])))
            .unwrap_or(0);
        let mut table = Table::new(
            format!("Mix by mix, µs: on a tree of its own, and one after the other ({})", arms[moving].0),
            &["mix", "choice", "alone: default", "alone: choice", "in turns: default", "in turns: choice"],
        );
        for (at, (mix, knobs)) in self.shifting.iter().zip(&choices).enumerate() {
            let choice = format!("T={} K={} {} bits", knobs.size_ratio, knobs.runs, knobs.filter_bits);
            let figures = [by_default[at], chosen[at], times[0][at], times[moving][at]].map(digits);
            table.row(mix.to_string(), [choice].into_iter().chain(figures));
        }
        let means = [by_default, chosen, &times[0], &times[moving]].map(|of| digits(mean(of)));
        table.row("mean", [String::new()].into_iter().chain(means));
        Ok(table)
    }

    /// The arms of C3, the default first.
    fn arms(&mut self, tuned: &Tuned, each: u64) -> Result<Vec<(String, Learner)>> {
        let mut arms = vec![("default".to_owned(), learner(self.small, |_| Ok(Hand::Nobody))?)];
        for period in PERIODS {
            for threshold in THRESHOLDS {
                let name = format!("camal-trees, p = {period}, τ = {threshold}");
                let agent = self.camal(tuned, (each as f64 * period) as u64, threshold);
                arms.push((name, learner(self.small, |_| Ok(Hand::Agent(agent)))?));
            }
        }
        let agent = self.camal(tuned, (each as f64 * PERIODS[1]) as u64, THRESHOLDS[1]);
        let eager = learner(self.small, |tenant| {
            let greedy = Change::new("bench", "eager transitions").set(&knob::TRANSITION, "greedy");
            tenant.db().control().apply(greedy)?;
            Ok(Hand::Agent(agent))
        })?;
        arms.push((format!("camal-trees, p = {}, τ = {}, eager", PERIODS[1], THRESHOLDS[1]), eager));
        let model = Model { data: self.small.site.data, units: self.units.clone() };
        let arce = Arce::new(model, default(self.small));
        let (units, seed) = (self.units.clone(), self.small.scale.seed);
        let opponents: [Box<dyn Agent>; 2] =
            [Box::new(Planner::new(EcoTune::new(units.clone()))), Box::new(Planner::new(arce))];
        for agent in opponents {
            arms.push((agent.name().to_owned(), learner(self.small, |_| Ok(Hand::Agent(agent)))?));
        }
        let window = (STEWARD_LOOKS * each / LOOKS).max(1);
        let steward = learner(self.small, |tenant| Hand::steward(tenant, goal(), &units, window, seed))?;
        arms.push(("steward".to_owned(), steward));
        Ok(arms)
    }

    fn camal(&self, tuned: &Tuned, period: u64, threshold: f64) -> Box<dyn Agent> {
        let constants = CamalConstants { period: period.max(1), threshold, ..self.constants.clone() };
        let share = self.small.space.memory_bytes / self.small.site.memory_bytes() as f64;
        Box::new(Camal::new(Kind::Trees, constants, tuned.clone(), share, 0.0))
    }

    /// Choices for mixes that are only certain to within ρ (CAMAL §8.4): what they cost under
    /// mixes that are drawn from there, beside what the choice for the expected mix costs under
    /// the same.
    pub(super) fn uncertain(
        &mut self,
        tuned: &Tuned,
        asked: &mut Vec<Verdict>,
        progress: &mut dyn Progress,
    ) -> Result<Section> {
        let (space, seed) = (self.lab.space, self.lab.scale.seed);
        let expected: Vec<Mix> = self.shifting.iter().step_by(UNCERTAIN_EVERY).copied().collect();
        let mut table = Table::new(
            format!(
                "Of {} mixes {DRAWN} others each, drawn within ρ: µs in the mean, and the worst of each in the mean",
                expected.len()
            ),
            &["ρ", "default", "for the expected mix", "with ρ known", "worst: expected", "worst: ρ known"],
        );
        for rho in RHOS {
            let mut means = [Vec::new(), Vec::new(), Vec::new()];
            let mut worsts = [Vec::new(), Vec::new()];
            for mix in &expected {
                let drawn = &mixes_within(mix, rho, DRAWN + 1, seed + 1)[1..];
                let (nominal, _) = tuned.choose(mix, space.entries, space.memory_bytes);
                let (known, _) = tuned.choose_within(mix, rho, space.entries, space.memory_bytes);
                let settings = [default(self.lab), self.lab.setting(&nominal), self.lab.setting(&known)];
                let wanted: Vec<(Mix, Setting)> = settings
                    .iter()
                    .flat_map(|setting| drawn.iter().map(|mix| (*mix, setting.clone())))
                    .collect();
                let costs = self.lab.costs(&wanted, "uncertain mixes", progress)?;
                let of: Vec<&[f64]> = costs.chunks(DRAWN).collect();
                means.iter_mut().zip(&of).for_each(|(means, of)| means.push(mean(of)));
                let worst = |of: &[f64]| of.iter().copied().fold(0.0, f64::max);
                worsts.iter_mut().zip(&of[1..]).for_each(|(worsts, of)| worsts.push(worst(of)));
            }
            let cells = means.iter().chain(&worsts).map(|of| digits(mean(of)));
            table.row(rho.to_string(), cells);
            let [_, nominal, known] = &means;
            let ratio = mean(known) / mean(nominal);
            row(
                asked,
                format!(
                    "ρ = {rho}: a choice that knows ρ costs no more in the mean than the one for the expected mix"
                ),
                format!("{ratio:.3} of it"),
                ratio <= 1.0,
            );
        }
        Ok(Section { title: "Mixes that are not certain".into(), tables: vec![table], ..Section::default() })
    }
}

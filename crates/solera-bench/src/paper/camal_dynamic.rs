//! CAMAL's experiment C3, mixes that follow each other, with its dynamic mode at several p and τ;
//! static mixes under the steward; and mixes that are not certain (ρ).
//!
//! Owns [`Moving`]. Every arm begins with the default's tree.

use super::{
    camal::DEFAULT,
    camal_lab::Lab,
    contest::mean,
    document::{Section, Table, Verdict},
    learning::{Hand, Learner},
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
        camal::{Camal, Knobs, Learner as Kind, Tuned},
        constants::CamalConstants,
    },
    cost::{Mix, Model, Setting, Units},
    sight::{Goal, Measure},
};

/// Operations of a mix, of the lab's.
const MIX_SHARE: f64 = 1.0;
/// p, as a share of a mix's operations, and τ.
const PERIODS: [f64; 3] = [0.02, 0.2, 1.0];
const THRESHOLDS: [f64; 3] = [0.05, 0.10, 0.20];
/// Looks at the database in a mix: as often as the shortest period.
const LOOKS: u64 = 50;
/// What is asked of the steward and of CAMAL's dynamic mode: of the default.
const NORMALISED_MAX: f64 = 0.75;
/// Windows for which the steward tunes a static mix, and operations of each, of the lab's.
const STEWARD_WINDOWS: u64 = 24;
const STEWARD_SHARE: f64 = 0.125;
/// What the steward may take under any mix, of the default; what it is to save in the mean.
const WORST_MAX: f64 = 1.02;
const SAVED_MIN: f64 = 0.30;
/// ρ, and which of the mixes are tried.
const RHOS: [f64; 4] = [0.0, 0.1, 0.5, 1.0];
const UNCERTAIN_EVERY: usize = 4;

/// Where mixes move.
pub(super) struct Moving<'a, 'b> {
    pub(super) lab: &'a mut Lab<'b>,
    pub(super) tuned: &'a Tuned,
    pub(super) constants: &'a CamalConstants,
    pub(super) units: &'a Units,
}

fn goal() -> Goal {
    Goal { measure: Measure::Elapsed, ..Goal::default() }
}

impl Moving<'_, '_> {
    /// All of it.
    pub(super) fn run(
        mut self,
        training: &[Mix],
        shifting: &[Mix],
        asked: &mut Vec<Verdict>,
        progress: &mut dyn Progress,
    ) -> Result<Vec<Section>> {
        let tuned = self.steward(training, shifting, asked, progress)?;
        let moving = self.shifting(shifting, asked, progress)?;
        Ok(vec![tuned, moving, self.uncertain(shifting, progress)?])
    }

    fn default(&self) -> Setting {
        let (size_ratio, filter_bits) = DEFAULT;
        self.lab.setting(&Knobs { size_ratio, runs: 1, filter_bits, cache_share: 0.0 })
    }

    fn learner(&mut self, hand: impl FnOnce(&super::missions::Tenant) -> Result<Hand>) -> Result<Learner> {
        let (tenant, _) = self.lab.tenant(&self.default())?;
        let hand = hand(&tenant)?;
        Ok(Learner::new(tenant, hand))
    }

    /// Every mix for itself, under the steward and by default, from the first window on.
    fn steward(
        &mut self,
        training: &[Mix],
        shifting: &[Mix],
        asked: &mut Vec<Verdict>,
        progress: &mut dyn Progress,
    ) -> Result<Section> {
        let operations = ((self.lab.operations as f64 * STEWARD_SHARE) as u64).max(1);
        let (units, seed, clock) = (self.units.clone(), self.lab.scale.seed, self.lab.site.clock.clone());
        let (mut ratios, mut late) = (Vec::new(), Vec::new());
        let mut table = Table::new(
            format!(
                "µs of an operation in {STEWARD_WINDOWS} windows from the first, and in the last quarter"
            ),
            &["mix", "default", "steward", "of the default", "in the last quarter", "changes"],
        );
        let count = training.len() + shifting.len();
        for (number, mix) in training.iter().chain(shifting).enumerate() {
            progress.at("the steward under each mix", number as u64, count as u64);
            let mut arms = [
                self.learner(|_| Ok(Hand::Nobody))?,
                self.learner(|tenant| Hand::steward(tenant, goal(), &units, operations, seed))?,
            ];
            let mut missions = [Vec::new(), Vec::new()];
            for _ in 0..STEWARD_WINDOWS {
                for (arm, missions) in arms.iter_mut().zip(&mut missions) {
                    missions.push(arm.mission(&*clock, mix, operations)?.0.us());
                }
            }
            let last = |of: &[f64]| mean(&of[of.len() * 3 / 4..]);
            let [default, steward] = &missions;
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
                ],
            );
        }
        let worst = ratios.iter().copied().fold(0.0, f64::max);
        row(
            asked,
            format!("the steward: no mix is worse than {WORST_MAX} of the default, from its first window"),
            format!("the worst is {worst:.2}"),
            worst <= WORST_MAX,
        );
        let saved = 1.0 - mean(&late);
        row(
            asked,
            "the steward: at least 30 % less than the default in the mean, in the last quarter".to_owned(),
            format!("{:.0} %; from the first window {:.0} %", saved * 100.0, (1.0 - mean(&ratios)) * 100.0),
            saved >= SAVED_MIN,
        );
        Ok(Section { title: "C1, the steward".into(), tables: vec![table], ..Section::default() })
    }

    /// C3.
    fn shifting(
        &mut self,
        shifting: &[Mix],
        asked: &mut Vec<Verdict>,
        progress: &mut dyn Progress,
    ) -> Result<Section> {
        let each = ((self.lab.operations as f64 * MIX_SHARE) as u64).max(LOOKS);
        let mut arms = self.arms(each)?;
        let clock = self.lab.site.clock.clone();
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); arms.len()];
        for (number, mix) in shifting.iter().enumerate() {
            progress.at("mixes that follow each other", number as u64, shifting.len() as u64);
            for ((_, arm), times) in arms.iter_mut().zip(&mut times) {
                let mut us = Vec::new();
                for _ in 0..LOOKS {
                    us.push(arm.mission(&*clock, mix, each / LOOKS)?.0.us());
                }
                times.push(mean(&us));
            }
        }
        let normalised: Vec<f64> = times.iter().map(|of| mean(of) / mean(&times[0])).collect();
        let mut table = Table::new(
            format!("{} mixes of {each} operations, one after the other", shifting.len()),
            &["arm", "µs", "of the default", "worst mix, of the default", "changes"],
        );
        for (((name, arm), times_of), ratio) in arms.iter().zip(&times).zip(&normalised) {
            let worst = times_of.iter().zip(&times[0]).map(|(own, default)| own / default);
            table.row(
                name.clone(),
                [
                    digits(mean(times_of)),
                    format!("{ratio:.2}"),
                    format!("{:.2}", worst.fold(0.0, f64::max)),
                    arm.changes.to_string(),
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
        Ok(Section {
            title: "C3, mixes that follow each other".into(),
            text: vec![
                "p is a share of a mix's operations. Transitions are lazy where nothing else is said: what is there changes with \
                 the merges that come."
                    .into(),
            ],
            tables: vec![table],
            ..Section::default()
        })
    }

    /// The arms of C3, the default first.
    fn arms(&mut self, each: u64) -> Result<Vec<(String, Learner)>> {
        let mut arms = vec![("default".to_owned(), self.learner(|_| Ok(Hand::Nobody))?)];
        for period in PERIODS {
            for threshold in THRESHOLDS {
                let name = format!("camal-trees, p = {period}, τ = {threshold}");
                let agent = self.camal((each as f64 * period) as u64, threshold);
                arms.push((name, self.learner(|_| Ok(Hand::Agent(agent)))?));
            }
        }
        let agent = self.camal((each as f64 * PERIODS[1]) as u64, THRESHOLDS[1]);
        let eager = self.learner(|tenant| {
            let greedy = Change::new("bench", "eager transitions").set(&knob::TRANSITION, "greedy");
            tenant.db().control().apply(greedy)?;
            Ok(Hand::Agent(agent))
        })?;
        arms.push((format!("camal-trees, p = {}, τ = {}, eager", PERIODS[1], THRESHOLDS[1]), eager));
        let model = Model { data: self.lab.site.data, units: self.units.clone() };
        let arce = Arce::new(model, self.default());
        let (units, seed) = (self.units.clone(), self.lab.scale.seed);
        let opponents: [Box<dyn Agent>; 2] =
            [Box::new(Planner::new(EcoTune::new(units.clone()))), Box::new(Planner::new(arce))];
        for agent in opponents {
            arms.push((agent.name().to_owned(), self.learner(|_| Ok(Hand::Agent(agent)))?));
        }
        let window = (each / LOOKS).max(1);
        let steward = self.learner(|tenant| Hand::steward(tenant, goal(), &units, window, seed))?;
        arms.push(("steward".to_owned(), steward));
        Ok(arms)
    }

    fn camal(&self, period: u64, threshold: f64) -> Box<dyn Agent> {
        let constants = CamalConstants { period: period.max(1), threshold, ..self.constants.clone() };
        let share = self.lab.space.memory_bytes / self.lab.site.memory_bytes() as f64;
        Box::new(Camal::new(Kind::Trees, constants, self.tuned.clone(), share, 0.0))
    }

    /// Choices for a mix that may be another: what they cost under it and under the mixes beside it
    /// in Table 2.
    fn uncertain(&mut self, shifting: &[Mix], progress: &mut dyn Progress) -> Result<Section> {
        let space = self.lab.space;
        let mut table = Table::new(
            "Choices for a mix that is certain to within ρ: µs under that mix and those beside it in Table 2",
            &["ρ", "mean", "worst of the three, in the mean"],
        );
        for rho in RHOS {
            let (mut means, mut worsts) = (Vec::new(), Vec::new());
            for at in (0..shifting.len()).step_by(UNCERTAIN_EVERY) {
                let (knobs, _) =
                    self.tuned.choose_within(&shifting[at], rho, space.entries, space.memory_bytes);
                let setting = self.lab.setting(&knobs);
                let beside = [at + shifting.len() - 1, at, at + 1].map(|at| shifting[at % shifting.len()]);
                let wanted: Vec<(Mix, Setting)> = beside.map(|mix| (mix, setting.clone())).into();
                let costs = self.lab.costs(&wanted, "uncertain mixes", progress)?;
                means.push(mean(&costs));
                worsts.push(costs.iter().copied().fold(0.0, f64::max));
            }
            table.row(rho.to_string(), [digits(mean(&means)), digits(mean(&worsts))]);
        }
        if table.rows.is_empty() {
            return Err(Error::Config("there are no mixes".into()));
        }
        Ok(Section { title: "Mixes that are not certain".into(), tables: vec![table], ..Section::default() })
    }
}

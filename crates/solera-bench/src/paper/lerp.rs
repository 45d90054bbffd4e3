//! RusKey's experiments with the one that learns: `run`, R1 and Fig. 8, R2, Fig. 12, Fig. 13.
//!
//! R1 is static mixes, with equal filters and with Monkey's. R2 is five sessions, Fig. 12
//! thresholds, Fig. 13 what updating the model takes. The steward and its opponents are arms among
//! the others.
//!
//! What must hold: every arm does the same missions. Fixed arms stay as they are; all others begin
//! with one run in every level. What Lerp and the opponents propose is done at once; only the
//! steward has a guard.
//!
//! Caller: `paper::mod`.

use super::{
    Part, Scale,
    contest::{Arm, Contest, Role, mean},
    document::{Bars, Lines, Section, Table, Verdict},
    learning::Hand,
    missions::{Site, Tenant},
    row,
    ruskey::{closed_form, data, how, setting},
    said,
};
use crate::{
    opponent::{Arce, Arms, EcoTune, Planner, Search, Threshold, TwoSteps},
    report::{
        Spread,
        number::{Quantity, digits},
    },
    runner::{Error, Progress, Result},
};
use solera_tune::{
    agent::{
        Agent,
        constants::LerpConstants,
        lerp::{Lerp, Scheme},
    },
    cost::{Mix, Model, Setting, Units},
    sight::{Goal, Measure},
};

/// γ of the static mixes, and missions within which the paper finds K, of those of a skewed mix.
const STATIC: [(f64, usize); 3] = [(0.9, 1), (0.5, 2), (0.1, 1)];
/// γ of the five sessions: read-heavy, balanced, write-heavy, write-inclined, read-inclined.
const SESSIONS: [f64; 5] = [0.9, 0.5, 0.1, 0.3, 0.7];
/// Of a skewed mix's missions, those of a session; the paper has a thousand.
const SESSION_SHARE: f64 = 1.0;
/// Bits per key with equal filters and with Monkey's (RusKey §7).
const UNIFORM_BITS: f64 = 8.0;
const MONKEY_BITS: f64 = 4.0;
/// The paper's fixed arms: name, K of the levels below level 0, and K where it is one.
const FIXED: [(&str, &[u32], Option<u32>); 4] = [
    ("K = 1 (aggressive)", &[1], Some(1)),
    ("K = 5 (moderate)", &[5], Some(5)),
    ("K = 10 (lazy)", &[10], Some(10)),
    ("lazy leveling", &[10, 10, 1], None),
];
/// Fixed arms besides, so that the best of them is known to within one.
const FIXED_BESIDES: [u32; 2] = [3, 7];
/// Seeds of Lerp in a static mix.
const SEEDS: u64 = 5;
/// What a fixed arm may take more than the best one to be named beside it: where K makes so little
/// difference, another run of the same arms has another best.
const AS_GOOD: f64 = 1.02;
/// Thresholds of Fig. 12: symmetric and biased.
const THRESHOLDS: [(f64, f64); 4] = [(0.3, 0.7), (0.45, 0.55), (0.2, 0.5), (0.5, 0.8)];
/// The mean rank that is asked of Lerp; the paper's is 1.2.
const RANK_MAX: f64 = 1.4;
/// The mean rank that is asked of the steward.
const STEWARD_RANK_MAX: f64 = 1.1;
/// Missions in a window of the steward: users' windows are longer than these missions.
const STEWARD_MISSIONS: u64 = 5;
/// What the steward may take, of the best fixed arm of a session.
const STEWARD_MAX: f64 = 1.05;
/// By how much it may be behind the two that plan.
const BEHIND_MAX: f64 = 1.03;
/// What updating the model may take, of a mission; operations of the paper's missions.
const UPDATE_SHARE_MAX: f64 = 0.01;
const PAPERS_MISSION: f64 = 50_000.0;

fn goal() -> Goal {
    Goal { measure: Measure::Elapsed, ..Goal::default() }
}

fn of_filters(scale: &Scale, below: &[u32], monkey: bool) -> Setting {
    let filter_bits = if monkey { MONKEY_BITS } else { UNIFORM_BITS };
    Setting { filter_bits, monkey, ..setting(scale, below) }
}

fn mix_of(lookups: f64) -> Result<Mix> {
    Mix::new([0.0, lookups, 0.0, 1.0 - lookups]).map_err(Error::Config)
}

/// All of it.
pub(super) fn run(scale: &Scale, units: &Units, progress: &mut dyn Progress) -> Result<Vec<Section>> {
    let site = Site::new(data(scale), scale)?;
    let model = Model { data: site.data, units: units.clone() };
    let (mut asked, mut sections) = (Vec::new(), Vec::new());
    for monkey in [false, true] {
        let is_static = scale.has(if monkey { Part::Monkey } else { Part::Equal });
        let has_sessions = !monkey && scale.has(Part::Sessions);
        if !is_static && !has_sessions {
            continue;
        }
        let axe = TwoSteps::new(&model, &of_filters(scale, &[1], monkey), scale.seed);
        let bench = Bench { scale, site: &site, model: &model, monkey, axe };
        let loaded = bench.load(progress)?;
        for (lookups, times) in STATIC.into_iter().filter(|_| is_static) {
            sections.push(bench.fixed_mix(&loaded, lookups, times, &mut asked, progress)?);
        }
        if has_sessions {
            sections.push(bench.sessions(&loaded, &mut asked, progress)?);
        }
    }
    sections.insert(0, said(asked));
    sections.insert(1, conditions(scale, &site));
    Ok(sections)
}

struct Bench<'a> {
    scale: &'a Scale,
    site: &'a Site,
    model: &'a Model,
    monkey: bool,
    /// Learned once, for all mixes.
    axe: TwoSteps,
}

/// A fixed arm before it is forked.
struct Loaded {
    name: String,
    role: Role,
    tenant: Tenant,
}

impl Bench<'_> {
    fn tenant(&self, name: &str, below: &[u32], progress: &mut dyn Progress) -> Result<Tenant> {
        let stage = format!("loading, {name}");
        let setting = of_filters(self.scale, below, self.monkey);
        Tenant::loaded(self.site, &setting, |done, of| progress.at(&stage, done, of))
    }

    /// The fixed arms, the first with one run in every level.
    fn load(&self, progress: &mut dyn Progress) -> Result<Vec<Loaded>> {
        let papers = FIXED.iter().map(|(name, below, limit)| {
            let role = limit.map_or(Role::Set, Role::Fixed);
            ((*name).to_owned(), below.to_vec(), role)
        });
        let besides = FIXED_BESIDES.map(|limit| (format!("K = {limit}"), vec![limit], Role::Fixed(limit)));
        let all = papers.chain(besides).map(|(name, below, role)| {
            let tenant = self.tenant(&name, &below, progress)?;
            Ok(Loaded { name, role, tenant })
        });
        all.collect()
    }

    fn lerp(&self, scheme: Scheme, seed: u64) -> Hand {
        let units = self.model.units.clone();
        Hand::Agent(Box::new(Lerp::new(LerpConstants::default(), units, goal(), scheme, seed)))
    }

    fn contest(&self, loaded: &[Loaded]) -> Result<Contest<'_>> {
        let fixed = loaded.iter().map(|of| Ok(Arm::new(&of.name, of.role, of.tenant.fork()?, Hand::Nobody)));
        let arms = fixed.collect::<Result<Vec<Arm>>>()?;
        let mut contest = Contest { site: self.site, operations: self.scale.mission_operations, arms };
        let from = &loaded[0].tenant;
        let (units, seed) = (&self.model.units, self.scale.seed);
        let tenant = from.fork()?;
        let window = STEWARD_MISSIONS * self.scale.mission_operations;
        let hand = Hand::steward(&tenant, goal(), units, window, seed)?;
        contest.arms.push(Arm::new("steward", Role::Steward, tenant, hand));
        let like = of_filters(self.scale, &[1], self.monkey);
        let arce = Arce::new(self.model.clone(), like);
        let opponents: [Box<dyn Agent>; 5] = [
            Box::new(Planner::new(EcoTune::new(units.clone()))),
            Box::new(Planner::new(arce)),
            Box::new(Planner::new(self.axe.clone())),
            Box::new(Arms::new(goal(), seed)),
            Box::new(Search::new(goal())),
        ];
        for agent in opponents {
            let (name, tenant) = (agent.name(), from.fork()?);
            contest.arms.push(Arm::new(name, Role::Opponent, tenant, Hand::Agent(agent)));
        }
        Ok(contest)
    }

    /// R1: one mix.
    fn fixed_mix(
        &self,
        loaded: &[Loaded],
        lookups: f64,
        times: usize,
        asked: &mut Vec<Verdict>,
        progress: &mut dyn Progress,
    ) -> Result<Section> {
        let mix = mix_of(lookups)?;
        let mut contest = self.contest(loaded)?;
        let from = &loaded[0].tenant;
        let form = closed_form(self.scale, self.model, &mix, from.setting.cache_bytes);
        let tenant = self.tenant("closed form", &form, progress)?;
        let name = format!("closed form, K = {}", words(&form));
        contest.arms.push(Arm::new(name, Role::Set, tenant, Hand::Nobody));
        let scheme = if self.monkey { Scheme::Monkey } else { Scheme::Uniform };
        for seed in 0..SEEDS {
            let name = if seed == 0 { "Lerp".to_owned() } else { format!("Lerp, seed {}", seed + 1) };
            let hand = self.lerp(scheme, self.scale.seed + seed);
            contest.arms.push(Arm::new(name, Role::Lerp, from.fork()?, hand));
        }
        if !self.monkey && lookups == 0.5 {
            for (name, scheme) in
                [("Lerp, all levels at once", Scheme::Joint), ("Lerp, every level", Scheme::EveryLevel)]
            {
                let hand = self.lerp(scheme, self.scale.seed);
                contest.arms.push(Arm::new(name, Role::Opponent, from.fork()?, hand));
            }
        }
        let filters = if self.monkey { "Monkey's filters" } else { "equal filters" };
        let what = format!("γ = {lookups}, {filters}");
        contest.missions(&mix, times * self.scale.missions, &what, progress)?;
        asked_of_lerp(&contest, &what, self.scale.mission_operations, asked)?;
        asked_of_steward(&contest, &what, asked)?;
        report(&contest, &what)
    }

    /// R2: five sessions, one after the other.
    fn sessions(
        &self,
        loaded: &[Loaded],
        asked: &mut Vec<Verdict>,
        progress: &mut dyn Progress,
    ) -> Result<Section> {
        let mut contest = self.contest(loaded)?;
        let from = &loaded[0].tenant;
        let hand = self.lerp(Scheme::Uniform, self.scale.seed);
        contest.arms.push(Arm::new("Lerp", Role::Lerp, from.fork()?, hand));
        for (bottom, top) in THRESHOLDS {
            let (name, agent) = (format!("greedy {bottom}, {top}"), Threshold::new(bottom, top));
            let hand = Hand::Agent(Box::new(agent));
            contest.arms.push(Arm::new(name, Role::Opponent, from.fork()?, hand));
        }
        let count = ((self.scale.missions as f64 * SESSION_SHARE) as usize).max(2);
        for lookups in SESSIONS {
            contest.missions(&mix_of(lookups)?, count, &format!("session, γ = {lookups}"), progress)?;
        }
        sessions(&Sessions { contest: &contest, count }, asked)
    }
}

/// What the paper claims of Lerp in a static mix.
fn asked_of_lerp(contest: &Contest<'_>, what: &str, operations: u64, asked: &mut Vec<Verdict>) -> Result<()> {
    let count = contest.arm("Lerp")?.missions.len();
    let late = count * 3 / 4..count;
    // All missions of a fixed arm are alike, and a quarter of them has twice the noise.
    let (_, limit) = contest.best_fixed(0..count);
    let near = contest.as_good(0..count, AS_GOOD);
    let (best, _) = contest.best_fixed(late.clone());
    let lerps: Vec<&Arm> = contest.having(|role| role == Role::Lerp).collect();
    let limits: Vec<u32> = lerps.iter().map(|arm| arm.limits[count - 1]).collect();
    row(
        asked,
        format!("{what}: Lerp's K of level 1 within 1 of the best fixed K after {count} missions"),
        format!(
            "K = {}; best {limit} over all missions, at most {:.0} % more: {}",
            words(&limits),
            (AS_GOOD - 1.0) * 100.0,
            words(&near)
        ),
        limits.iter().all(|of| of.abs_diff(limit) <= 1),
    );
    let ratios: Vec<f64> = lerps.iter().map(|arm| arm.us(late.clone()) / best.us(late.clone())).collect();
    row(
        asked,
        format!("{what}: in the last quarter Lerp takes at most 1.05 of the best fixed arm"),
        format!(
            "{} of {}",
            ratios.iter().map(|ratio| format!("{ratio:.2}")).collect::<Vec<_>>().join(", "),
            best.name
        ),
        ratios.iter().all(|ratio| *ratio <= 1.05),
    );
    let lerp = contest.arm("Lerp")?;
    let share = lerp.learner.update_ns() / 1e3 / lerp.us_of_all() / PAPERS_MISSION;
    row(
        asked,
        format!("{what}: updating the model takes at most 1 % of a mission of the paper's 50,000 operations"),
        format!(
            "{:.1} ms, {:.2} %; of a mission of {operations}, {:.0} %",
            lerp.learner.update_ns() / 1e6,
            share * 100.0,
            share * 100.0 * PAPERS_MISSION / operations as f64
        ),
        share <= UPDATE_SHARE_MAX,
    );
    Ok(())
}

/// What the steward takes of the best fixed arm, counted from the first mission.
fn asked_of_steward(contest: &Contest<'_>, what: &str, asked: &mut Vec<Verdict>) -> Result<()> {
    let steward = contest.arm("steward")?;
    let all = 0..steward.missions.len();
    let (best, _) = contest.best_fixed(all.clone());
    let ratio = steward.us(all.clone()) / best.us(all);
    row(
        asked,
        format!(
            "{what}: the steward takes at most {STEWARD_MAX} of the best fixed arm from the first mission"
        ),
        format!("{ratio:.2} of {}", best.name),
        ratio <= STEWARD_MAX,
    );
    Ok(())
}

/// A static mix's table and charts.
fn report(contest: &Contest<'_>, what: &str) -> Result<Section> {
    let lerp = contest.arm("Lerp")?;
    let count = lerp.missions.len();
    let late = count * 3 / 4..count;
    let mut table = Table::new(
        format!("{what}: what an operation takes in {count} missions, and where K ends"),
        &["arm", "µs", "µs in the last quarter", "blocks", "K at the end", "changes", "deciding, ms"],
    );
    for arm in &contest.arms {
        let figures = [digits(arm.us_of_all()), digits(arm.us(late.clone())), digits(mean(&arm.blocks))];
        let decided = digits(arm.learner.update_ns() / 1e6);
        let cells = [words(&arm.learner.run_limits()), arm.learner.changes.to_string(), decided];
        table.row(arm.name.clone(), figures.into_iter().chain(cells));
    }
    let width = (count / 40).max(1);
    let smooth = |arm: &Arm| {
        let chunks = arm.missions.chunks(width).enumerate();
        chunks.map(|(at, chunk)| ((at * width) as f64, mean(chunk))).collect::<Vec<_>>()
    };
    let shown = [FIXED[0].0, FIXED[2].0, "Lerp", "steward"];
    let lines: Result<Vec<_>> =
        shown.iter().map(|name| Ok(((*name).to_owned(), smooth(contest.arm(name)?)))).collect();
    let tenths: Vec<u32> = lerp.limits.iter().step_by((count / 10).max(1)).copied().collect();
    let last = |arm: &Arm| (arm.name.clone(), Spread::of(arm.missions[late.clone()].to_vec()));
    Ok(Section {
        title: format!("R1, {what}"),
        text: vec![format!("Lerp's K of level 1, every tenth of the missions: {}.", words(&tenths))],
        tables: vec![table],
        bars: vec![Bars {
            title: format!("{what}: µs of an operation in the last quarter"),
            quantity: Quantity::Plain("µs"),
            better: "lower",
            bars: contest.arms.iter().map(last).collect(),
        }],
        lines: vec![Lines {
            title: format!("{what}: µs of an operation, mission by mission"),
            quantity: Quantity::Plain("µs"),
            better: "lower",
            over: "mission",
            mark: ((count * 3 / 4) as f64, "the last quarter"),
            lines: lines?,
        }],
        ..Section::default()
    })
}

/// Five sessions that were done.
struct Sessions<'a> {
    contest: &'a Contest<'a>,
    /// Missions of each.
    count: usize,
}

impl Sessions<'_> {
    /// Its missions; of the second half alone where it is not the whole.
    fn range(&self, session: usize, whole: bool) -> std::ops::Range<usize> {
        let first = session * self.count + if whole { 0 } else { self.count / 2 };
        first..(session + 1) * self.count
    }

    fn us(&self, arm: &Arm, session: usize, whole: bool) -> f64 {
        arm.us(self.range(session, whole))
    }

    /// Its rank among the paper's four fixed arms and itself.
    fn rank(&self, arm: &Arm, session: usize, whole: bool) -> usize {
        let own = self.us(arm, session, whole);
        let papers =
            self.contest.arms.iter().filter(|other| FIXED.iter().any(|(name, ..)| *name == other.name));
        let better = papers.filter(|other| other.name != arm.name && self.us(other, session, whole) < own);
        1 + better.count()
    }

    fn mean_rank(&self, arm: &Arm, whole: bool) -> f64 {
        let ranks: Vec<f64> = (0..SESSIONS.len()).map(|at| self.rank(arm, at, whole) as f64).collect();
        mean(&ranks)
    }

    /// What an arm takes of another, session by session.
    fn ratios(&self, arm: &Arm, other: &Arm) -> Vec<f64> {
        (0..SESSIONS.len()).map(|at| self.us(arm, at, true) / self.us(other, at, true)).collect()
    }

    fn table(&self, whole: bool, what: &str) -> Table {
        let mut table = Table::new(
            format!(
                "µs of an operation in {what}, with the rank among the paper's four fixed arms and itself"
            ),
            &["arm", "γ = 0.9", "γ = 0.5", "γ = 0.1", "γ = 0.3", "γ = 0.7", "mean rank"],
        );
        for arm in &self.contest.arms {
            let cells = (0..SESSIONS.len())
                .map(|at| format!("{} ({})", digits(self.us(arm, at, whole)), self.rank(arm, at, whole)));
            table.row(arm.name.clone(), cells.chain([digits(self.mean_rank(arm, whole))]));
        }
        table
    }
}

fn sessions(of: &Sessions<'_>, asked: &mut Vec<Verdict>) -> Result<Section> {
    let lerp = of.contest.arm("Lerp")?;
    for (whole, what) in [(false, "once it has learned"), (true, "from its first mission")] {
        row(
            asked,
            format!("five sessions: Lerp's mean rank {what} at most {RANK_MAX} (the paper's is 1.2)"),
            digits(of.mean_rank(lerp, whole)),
            of.mean_rank(lerp, whole) <= RANK_MAX,
        );
    }
    let greedy = of.contest.arms.iter().filter(|arm| arm.name.starts_with("greedy"));
    let best = greedy.map(|arm| of.mean_rank(arm, false)).fold(f64::INFINITY, f64::min);
    row(
        asked,
        "Fig. 12: Lerp ranks higher than every greedy setting",
        format!("{} against {} of the best", digits(of.mean_rank(lerp, false)), digits(best)),
        of.mean_rank(lerp, false) < best,
    );
    steward_in_sessions(of, asked)?;
    let ends: Vec<u32> = (1..=SESSIONS.len()).map(|session| lerp.limits[session * of.count - 1]).collect();
    Ok(Section {
        title: "R2, five sessions, equal filters".into(),
        text: vec![format!(
            "{} missions each. Lerp's K of level 1 at the end of the sessions: {}.",
            of.count,
            words(&ends)
        )],
        tables: vec![
            of.table(false, "the second half of each session"),
            of.table(true, "each session from its first mission"),
        ],
        ..Section::default()
    })
}

/// What is asked of the steward in sessions, from the first mission of each.
fn steward_in_sessions(of: &Sessions<'_>, asked: &mut Vec<Verdict>) -> Result<()> {
    let steward = of.contest.arm("steward")?;
    let best = |at: usize| of.us(of.contest.best_fixed(of.range(at, true)).0, at, true);
    let ratios: Vec<f64> = (0..SESSIONS.len()).map(|at| of.us(steward, at, true) / best(at)).collect();
    let shown = |ratios: &[f64]| ratios.iter().map(|of| format!("{of:.2}")).collect::<Vec<_>>().join(", ");
    row(
        asked,
        format!("five sessions: the steward takes at most {STEWARD_MAX} of each session's best fixed arm"),
        shown(&ratios),
        ratios.iter().all(|ratio| *ratio <= STEWARD_MAX),
    );
    let rank = of.mean_rank(steward, true);
    row(
        asked,
        format!("five sessions: the steward's mean rank is at most {STEWARD_RANK_MAX}"),
        digits(rank),
        rank <= STEWARD_RANK_MAX,
    );
    for name in ["EcoTune's program", "Arce's simulation"] {
        let ratios = of.ratios(steward, of.contest.arm(name)?);
        row(
            asked,
            format!(
                "five sessions: the steward is never behind {name} by more than 3 %, and ahead in the mean"
            ),
            format!("takes {} of it; in the mean {:.2}", shown(&ratios), mean(&ratios)),
            ratios.iter().all(|ratio| *ratio <= BEHIND_MAX) && mean(&ratios) < 1.0,
        );
    }
    Ok(())
}

/// `9,7,1`.
fn words(limits: &[u32]) -> String {
    limits.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

fn conditions(scale: &Scale, site: &Site) -> Section {
    let of = setting(scale, &[1]);
    Section {
        title: "Conditions".into(),
        text: vec![
            format!(
                "{} entries of {} bytes; write buffer {} bytes, T = {}; filters of {UNIFORM_BITS} bits per key, equal in all \
                 levels, or of {MONKEY_BITS} by Monkey. {} missions of {} operations for each skewed mix, twice as many for the \
                 balanced one, as many for a session; lookups of keys that are there, updates of random keys.",
                site.data.entries,
                site.data.entry_bytes,
                of.shape.write_buffer_bytes,
                of.shape.size_ratio,
                scale.missions,
                scale.mission_operations,
            ),
            format!(
                "Lerp: a model of actor and critic for each level that it tunes, three layers of 128, as in docs/PAPERS.md, \
                 \"RusKey\"; it begins with one run in every level, and is run with {SEEDS} seeds. What it and the opponents propose is \
                 done at once, and nothing is taken back. The steward is the tuner that users get, with its guard and windows of \
                 {STEWARD_MISSIONS} missions; it may also turn T, level 0's run limit, filters, blocks, and how the budget that all arms have is \
                 shared out between write buffers and cache. The time of deciding is this machine's."
            ),
            "Opponents. EcoTune's dynamic program: each level but the last is a main level, and fills as many runs as the program \
             leaves at the end of its round. ArceKV's forward simulation: from the runs that are there, a thousand flushes ahead, \
             over run limits and the runs at which level 0 stalls writes. AXE's two steps: a network learned from samples of the \
             cost model, then its cheapest run limits. A bandit over six K. Bayesian optimisation of one K, from ten measurements."
                .into(),
            how(site),
        ],
        ..Section::default()
    }
}

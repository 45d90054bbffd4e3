//! CAMAL's experiments with what learns: C1 with Poly, Trees and NN, grouped T and K, and their
//! opponents; sampling time against quality; extrapolation (C2). C3 and the uncertain mixes are in
//! [`camal_dynamic`](super::camal_dynamic).
//!
//! What was chosen is measured at full size under CAMAL's mixes.

use super::{
    Scale,
    camal::{DEFAULT, ENTRY_BYTES, LEVEL0_RUNS, MEMORY_BITS, SHIFTING, TRAINING, table_bytes},
    camal_dynamic,
    camal_lab::{BUFFER_SHARE_MIN, Lab},
    contest::mean,
    document::{Section, Table, Verdict},
    row,
    ruskey::{self, how},
    said,
};
use crate::{
    opponent::{Bayes, Grid, PlainActive},
    report::number::digits,
    runner::{Error, Progress, Result},
};
use solera_tune::{
    agent::{
        camal::{Decoupled, Knobs, Learner, Policy, Sample, Sampler, Tuned},
        constants::CamalConstants,
    },
    cost::{Budget, Candidate, Mix, Model, Setting, Units, choose, choose::Family, forms::camal},
    learn::Random,
};

/// k where the data is too small for ten times less of it.
const SMALL_SCALE: f64 = 3.0;
/// The same where it is smaller still.
const SMALLEST_SCALE: f64 = 1.5;
/// Entries from which k is the paper's ten.
const ENTRIES_FOR_TEN: f64 = 400_000.0;
/// Samples of each mix that opponents are given. Decoupled takes ten.
const BUDGETS_ACTIVE: [usize; 2] = [10, 50];
const BUDGETS_BAYES: [usize; 2] = [10, 25];
/// The same where there is one mix: to see that it works, not what it says.
const BUDGETS_OF_ONE: [usize; 2] = [4, 6];
const BUDGET_GRID: usize = 10;
/// Samples of the cost model that AXE's network is learned from, for each mix.
const AXE_SAMPLES: usize = 24;
/// How good is as good: of what the other takes.
const AS_GOOD: f64 = 1.01;

/// A way of choosing: its name, what it chooses for a mix, and what it took to learn.
struct Way {
    name: String,
    choose: Box<dyn Fn(&Mix) -> Setting>,
    samples: usize,
    seconds: f64,
}

/// What was learned at the small scale, and what it took.
struct Trained {
    tuned: Tuned,
    samples: usize,
    seconds: f64,
}

/// Labs and mixes of the experiment.
struct Bench<'a> {
    constants: CamalConstants,
    k: f64,
    full: Lab<'a>,
    small: Lab<'a>,
    training: Vec<Mix>,
    shifting: Vec<Mix>,
}

/// C1, C2 and C3 with learners.
pub(super) fn run(scale: &Scale, units: &Units, progress: &mut dyn Progress) -> Result<Vec<Section>> {
    let mut bench = Bench::new(scale)?;
    let trees = bench.trained(Learner::Trees, Policy::Leveling, progress)?;
    let tuned = trees.tuned.clone();
    let mut ways = closed_ways(&bench.full, units);
    ways.extend(bench.ways_of_camal(trees, progress)?);
    ways.extend(bench.ways_of_others(units, progress)?);
    let costs = bench.measure(&ways, progress)?;
    let home = bench.at_home(progress)?;
    let mut asked = Vec::new();
    asked_of(&bench, &ways, &costs, &home, &mut asked);
    let mut sections = vec![conditions(&bench), came(&bench, &ways, &costs)];
    let Bench { full, shifting, training, constants, .. } = &mut bench;
    let moving = camal_dynamic::Moving { lab: full, tuned: &tuned, constants, units };
    sections.extend(moving.run(training, shifting, &mut asked, progress)?);
    sections.insert(0, said(asked));
    Ok(sections)
}

impl<'a> Bench<'a> {
    fn new(scale: &'a Scale) -> Result<Bench<'a>> {
        let entries = scale.entries_small as f64;
        let constants =
            CamalConstants { cache_shares: [0.0; 3], cache_samples: 0, ..CamalConstants::default() };
        // The engine has no smaller write buffers.
        let least = ruskey::WRITE_BUFFER_BYTES_MIN as f64 * 8.0 / (MEMORY_BITS * BUFFER_SHARE_MIN);
        let k = match entries {
            entries if entries >= ENTRIES_FOR_TEN.min(least * constants.scale) => constants.scale,
            entries if entries >= least * SMALL_SCALE => SMALL_SCALE,
            _ => SMALLEST_SCALE,
        };
        if entries / k < least {
            let needed = (least * k).ceil();
            return Err(Error::Config(format!(
                "camal needs --n-small of at least {needed}: it trains on {k} times less"
            )));
        }
        let of = |table: &[[f64; 4]]| -> Result<Vec<Mix>> {
            let mixes = table.iter().take(scale.mixes);
            mixes.map(|shares| Mix::new(*shares).map_err(Error::Config)).collect()
        };
        Ok(Bench {
            constants,
            k,
            full: Lab::new(scale, entries, scale.operations)?,
            small: Lab::new(scale, (entries / k).floor(), (scale.operations as f64 / k).ceil() as u64)?,
            training: of(&TRAINING)?,
            shifting: of(&SHIFTING)?,
        })
    }

    /// Lets `sampler` measure at the small scale, and learns from it.
    fn learned(
        &mut self,
        learner: Learner,
        policy: Policy,
        sampler: &mut dyn Sampler,
        progress: &mut dyn Progress,
    ) -> Result<Trained> {
        learned_at(&mut self.small, &self.constants, learner, policy, sampler, progress)
    }

    fn trained(&mut self, learner: Learner, policy: Policy, progress: &mut dyn Progress) -> Result<Trained> {
        let (constants, seed) = (self.constants.clone(), self.full.scale.seed);
        let space = self.small.space;
        let mut sampler = Decoupled::new(learner, constants, space, policy, &self.training, seed);
        self.learned(learner, policy, &mut sampler, progress)
    }

    /// A way that chooses for the full size by what was learned at the small one.
    fn way(&self, name: impl Into<String>, trained: Trained) -> Way {
        let Trained { tuned, samples, seconds } = trained;
        let space = self.full.space;
        let knobs = Knobs { size_ratio: 10, runs: 1, filter_bits: 10.0, cache_share: 0.0 };
        let like = self.full.setting(&knobs);
        let choose = move |mix: &Mix| {
            let (knobs, _) = tuned.choose(mix, space.entries, space.memory_bytes);
            let mut setting = like.clone();
            setting.shape.size_ratio = knobs.size_ratio;
            setting.shape.run_limits = vec![LEVEL0_RUNS, knobs.runs];
            setting.shape.write_buffer_bytes = space.buffer_bytes(&knobs) as u64;
            setting.filter_bits = knobs.filter_bits;
            setting
        };
        Way { name: name.into(), choose: Box::new(choose), samples, seconds }
    }

    fn ways_of_camal(&mut self, trees: Trained, progress: &mut dyn Progress) -> Result<Vec<Way>> {
        let mut ways = Vec::new();
        let mut trees = Some(trees);
        for (name, learner) in Learner::ALL {
            let trained = match trees.take_if(|_| learner == Learner::Trees) {
                Some(trees) => trees,
                None => self.trained(learner, Policy::Leveling, progress)?,
            };
            ways.push(self.way(name, trained));
        }
        let grouped = self.trained(Learner::Trees, Policy::Grouped, progress)?;
        ways.push(self.way("camal-trees, T with K", grouped));
        Ok(ways)
    }

    fn ways_of_others(&mut self, units: &Units, progress: &mut dyn Progress) -> Result<Vec<Way>> {
        let (space, constants, seed) = (self.small.space, self.constants.clone(), self.full.scale.seed);
        let (mixes, trees) = (self.training.clone(), Learner::Trees);
        let mut samplers: Vec<(String, Box<dyn Sampler>)> = Vec::new();
        let grid = Grid::new(space, &constants, &mixes, BUDGET_GRID);
        samplers.push((format!("plain trees on a grid, {BUDGET_GRID}"), Box::new(grid)));
        let (active, bayes) = budgets(mixes.len());
        for budget in active {
            let active = PlainActive::new(trees, space, &constants, &mixes, budget, seed);
            samplers.push((format!("plain active learning, {budget}"), Box::new(active)));
        }
        for budget in bayes {
            let bayes = Bayes::new(space, &constants, &mixes, budget, seed);
            samplers.push((format!("Bayesian optimisation, {budget}"), Box::new(bayes)));
        }
        let mut ways = Vec::new();
        for (name, mut sampler) in samplers {
            let trained = self.learned(trees, Policy::Leveling, sampler.as_mut(), progress)?;
            ways.push(self.way(name, trained));
        }
        ways.push(self.way("AXE's two steps", self.axe(units)));
        Ok(ways)
    }

    /// A network learned from samples of our cost model: nothing is measured.
    fn axe(&self, units: &Units) -> Trained {
        let (space, seed) = (self.small.space, self.full.scale.seed);
        let model = Model { data: self.small.site.data, units: units.clone() };
        let choices = space.choices(Policy::Leveling, &self.constants);
        let mut random = Random::new(seed);
        let mut samples = Vec::new();
        for mix in &self.training {
            for _ in 0..AXE_SAMPLES {
                let knobs = choices[random.below(choices.len())];
                let priced = model.price(Family::Neighbour, self.small.setting(&knobs), mix);
                samples.push(Sample { mix: *mix, knobs, cost: priced.ns / 1e3 });
            }
        }
        let of = [(Policy::Leveling, &samples[..])];
        let tuned = Tuned::learn(Learner::Network, &self.constants, &space, &of, seed);
        Trained { tuned, samples: 0, seconds: 0.0 }
    }

    /// What every way's choices cost, mix by mix, those of Table 1 first.
    fn measure(&mut self, ways: &[Way], progress: &mut dyn Progress) -> Result<Vec<Vec<f64>>> {
        let mixes: Vec<Mix> = self.training.iter().chain(&self.shifting).copied().collect();
        let choices = |way: &Way| mixes.iter().map(|mix| (*mix, (way.choose)(mix))).collect::<Vec<_>>();
        let wanted: Vec<(Mix, Setting)> = ways.iter().flat_map(choices).collect();
        let costs = self.full.costs(&wanted, "measuring what was chosen", progress)?;
        Ok(costs.chunks(mixes.len()).map(<[f64]>::to_vec).collect())
    }

    /// C2: what the choices of trees cost that were trained at full size, under the test mixes, and
    /// what sampling took there.
    fn at_home(&mut self, progress: &mut dyn Progress) -> Result<(Vec<f64>, f64)> {
        let (constants, space, seed) = (self.constants.clone(), self.full.space, self.full.scale.seed);
        let (trees, policy) = (Learner::Trees, Policy::Leveling);
        let mut sampler = Decoupled::new(trees, constants.clone(), space, policy, &self.training, seed);
        let trained = learned_at(&mut self.full, &constants, trees, policy, &mut sampler, progress)?;
        let of = |mix: &Mix| {
            let (knobs, _) = trained.tuned.choose(mix, space.entries, space.memory_bytes);
            (*mix, self.full.setting(&knobs))
        };
        let wanted: Vec<(Mix, Setting)> = self.shifting.iter().map(of).collect();
        Ok((self.full.costs(&wanted, "measuring what was chosen at home", progress)?, trained.seconds))
    }

    /// Of a way's costs, those under the test mixes, in the mean.
    fn of_shifting(&self, costs: &[f64]) -> f64 {
        mean(&costs[self.training.len()..])
    }
}

/// Samples of each mix for plain active learning and for Bayesian optimisation.
fn budgets(mixes: usize) -> ([usize; 2], [usize; 2]) {
    if mixes == 1 { (BUDGETS_OF_ONE, BUDGETS_OF_ONE) } else { (BUDGETS_ACTIVE, BUDGETS_BAYES) }
}

fn learned_at(
    lab: &mut Lab<'_>,
    constants: &CamalConstants,
    learner: Learner,
    policy: Policy,
    sampler: &mut dyn Sampler,
    progress: &mut dyn Progress,
) -> Result<Trained> {
    let stage = format!("sampling, {} entries", lab.space.entries);
    let of = (lab.scale.mixes * BUDGETS_ACTIVE[1]) as u64;
    let seconds = lab.sample(sampler, &stage, of, progress)?;
    let samples = [(policy, sampler.samples())];
    let tuned = Tuned::learn(learner, constants, &lab.space, &samples, lab.scale.seed);
    Ok(Trained { tuned, samples: sampler.samples().len(), seconds })
}

/// Ways that need no samples: the default, the classic cost model, and our closed form.
fn closed_ways(full: &Lab<'_>, units: &Units) -> Vec<Way> {
    let (space, data) = (full.space, full.site.data);
    let leveled = |setting: Setting| Way {
        name: String::new(),
        choose: Box::new(move |_| setting.clone()),
        samples: 0,
        seconds: 0.0,
    };
    let knobs = Knobs { size_ratio: DEFAULT.0, runs: 1, filter_bits: DEFAULT.1, cache_share: 0.0 };
    let default = Way { name: "T = 10, 10 bits".into(), ..leveled(full.setting(&knobs)) };
    // Endure's nominal tuning: the classic model's I/Os, over every choice.
    let constants = CamalConstants { cache_shares: [0.0; 3], ..CamalConstants::default() };
    let lab_setting = full.setting(&knobs);
    let classic = move |mix: &Mix| {
        let tree = camal::Tree {
            entries: space.entries,
            entry_bytes: space.entry_bytes,
            block_entries: space.block_entries,
            scan_entries: space.scan_entries,
            memory_bytes: space.memory_bytes,
            bloom_exponent: solera_tune::cost::forms::BLOOM_EXPONENT,
            merge_weight: 1.0,
        };
        let ios = |knobs: &Knobs| {
            let filter_bytes = knobs.filter_bits * space.entries / 8.0;
            tree.leveling(mix, camal::Knobs { size_ratio: knobs.size_ratio.into(), filter_bytes })
        };
        let choices = space.choices(Policy::Leveling, &constants);
        let best = choices.iter().min_by(|a, b| ios(a).total_cmp(&ios(b))).expect("there is a choice");
        let mut setting = lab_setting.clone();
        setting.shape.size_ratio = best.size_ratio;
        setting.shape.write_buffer_bytes = space.buffer_bytes(best) as u64;
        setting.filter_bits = best.filter_bits;
        setting
    };
    let classic =
        Way { name: "classic (Endure)".into(), choose: Box::new(classic), samples: 0, seconds: 0.0 };
    let model = Model { data, units: units.clone() };
    let cache_bytes = full.site.cache_bytes() as f64;
    let form = move |mix: &Mix| {
        let least = (space.memory_bytes * BUFFER_SHARE_MIN) as u64;
        let budget = Budget {
            memory_bytes: space.memory_bytes,
            cache_bytes,
            write_buffer_bytes: (least, ((space.memory_bytes * 0.9) as u64).max(least)),
            level0_runs: None,
            size_ratio: None,
            filter_bits: None,
            monkey: true,
            table_bytes: table_bytes(space.memory_bytes),
        };
        let price: fn(&Candidate) -> f64 = |candidate| candidate.ns;
        choose(&model, mix, &budget, price).best.setting
    };
    let form = Way { name: "corrected form".into(), choose: Box::new(form), samples: 0, seconds: 0.0 };
    vec![default, classic, form]
}

/// The verdicts.
fn asked_of(
    bench: &Bench<'_>,
    ways: &[Way],
    costs: &[Vec<f64>],
    home: &(Vec<f64>, f64),
    asked: &mut Vec<Verdict>,
) {
    let at = |name: &str| ways.iter().position(|way| way.name == name).expect("it is a way");
    let default = bench.of_shifting(&costs[0]);
    for (name, _) in Learner::ALL {
        let own = bench.of_shifting(&costs[at(name)]);
        let less = 1.0 - own / default;
        row(
            asked,
            format!(
                "{name}: at least 28 % less mean time than T = 10 with 10 bits over {} test mixes",
                bench.shifting.len()
            ),
            format!("{:.0} % less ({} against {} µs)", less * 100.0, digits(own), digits(default)),
            less >= 0.28,
        );
    }
    let (active, bayes) = budgets(bench.training.len());
    let (trees, quality) = (&ways[at("camal-trees")], bench.of_shifting(&costs[at("camal-trees")]));
    for (prefix, most) in [("plain active learning", active[1]), ("Bayesian optimisation", bayes[1])] {
        let mut of: Vec<usize> = (0..ways.len()).filter(|way| ways[*way].name.starts_with(prefix)).collect();
        of.sort_by(|a, b| ways[*a].seconds.total_cmp(&ways[*b].seconds));
        let as_good = of.into_iter().find(|way| bench.of_shifting(&costs[*way]) <= AS_GOOD * quality);
        let (seconds, says) = match as_good {
            Some(way) => (ways[way].seconds, "as good with"),
            None => (ways[at(&format!("{prefix}, {most}"))].seconds, "not as good with"),
        };
        row(
            asked,
            format!(
                "camal-trees samples at most a fifth of the time that {prefix} takes for the same quality"
            ),
            format!("{} s against {says} {} s", digits(trees.seconds), digits(seconds)),
            trees.seconds <= seconds / 5.0,
        );
    }
    let loss = quality / mean(&home.0) - 1.0;
    row(
        asked,
        format!("C2: trained on {} times less it is within 5 % of training at full size", bench.k),
        format!(
            "{:+.1} %; sampling takes {} s instead of {} s",
            loss * 100.0,
            digits(trees.seconds),
            digits(home.1)
        ),
        loss <= 0.05,
    );
}

fn conditions(bench: &Bench<'_>) -> Section {
    let full = &bench.full;
    Section {
        title: "Conditions".into(),
        text: vec![
            format!(
                "{} entries of {ENTRY_BYTES} bytes, {:.0} KiB for write buffer and filters in every arm, leveling, Monkey's filters; \
                 {} operations for each mix and choice. Learners were trained on {} entries and as many times less memory \
                 (k = {}); T, bits and shares were then taken over (Lemma 5.1). Sampling time counts loading, operations \
                 and overwrites. The cache is not tuned here.",
                full.space.entries,
                full.space.memory_bytes / 1024.0,
                full.operations,
                bench.small.space.entries,
                bench.k,
            ),
            "Opponents. Classic (Endure's nominal tuning): the I/Os of the classic model, over every choice. AXE's two steps: a \
             network learned from samples of our cost model. Plain active learning: all knobs at once, where the model learned so \
             far sends it. Bayesian optimisation: a Gaussian process for each mix. A grid: the same choices for every mix. The \
             number is that of samples for each mix; trees are learned from all of them."
                .into(),
            how(&full.site),
        ],
        ..Section::default()
    }
}

fn came(bench: &Bench<'_>, ways: &[Way], costs: &[Vec<f64>]) -> Section {
    let default = bench.of_shifting(&costs[0]);
    let mut summary = Table::new(
        "Mean time of an operation, and what it took to learn",
        &[
            "way",
            "Table 1, µs",
            "Table 2, µs",
            "less than the default",
            "worst mix, of the default",
            "samples",
            "sampling, s",
        ],
    );
    for (way, own) in ways.iter().zip(costs) {
        let ratios = own.iter().zip(&costs[0]).map(|(own, default)| own / default);
        summary.row(
            way.name.clone(),
            [
                digits(mean(&own[..bench.training.len()])),
                digits(bench.of_shifting(own)),
                format!("{:.0} %", (1.0 - bench.of_shifting(own) / default) * 100.0),
                digits(ratios.fold(0.0, f64::max)),
                way.samples.to_string(),
                digits(way.seconds),
            ],
        );
    }
    let at = |name: &str| ways.iter().position(|way| way.name == name).expect("it is a way");
    let trees = at("camal-trees");
    let shown = [0, 2, at("camal-poly"), trees, at("camal-nn")];
    let names = shown.iter().map(|way| ways[*way].name.as_str());
    let columns: Vec<&str> = ["mix"].into_iter().chain(names).chain(["camal-trees: choice"]).collect();
    let mut by_mix = Table::new("µs of an operation, mix by mix", &columns);
    for (number, mix) in bench.training.iter().chain(&bench.shifting).enumerate() {
        let setting = (ways[trees].choose)(mix);
        let choice = format!("T={} {} bits", setting.shape.size_ratio, setting.filter_bits);
        by_mix.row(mix.to_string(), shown.iter().map(|way| digits(costs[*way][number])).chain([choice]));
    }
    Section { title: "What each way comes to".into(), tables: vec![summary, by_mix], ..Section::default() }
}

//! CAMAL's experiments with what learns. `run` does C1 (Poly, Trees and NN beside opponents) and
//! C2, and starts the parts that are in `camal_dynamic`: C3, uncertain mixes, the steward.
//!
//! C1 trains at a small scale, chooses for the full size, and weighs sampling time against quality.
//! Three opponents learn nothing: the default, the classic cost model and our own. C2 trains at
//! full size too and compares the choices, also on more data than either was trained on.
//!
//! What must hold: learners are trained under the mixes of Table 1. What they choose is measured
//! under those of Table 2, which none of them has seen.
//!
//! Caller: `paper::mod`.

use super::{
    Paper, Part, Scale,
    camal::{DEFAULT, ENTRY_BYTES, LEVEL0_RUNS, MEMORY_BITS, SHIFTING, TRAINING, table_bytes},
    camal_dynamic::Moving,
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
/// Samples of each mix that opponents are given. Decoupled takes ten.
const BUDGETS_ACTIVE: [usize; 2] = [10, 50];
const BUDGETS_BAYES: [usize; 2] = [10, 25];
/// The same where there are so few mixes: to see that it works, not what it says.
const FEW_MIXES: usize = 5;
const BUDGETS_OF_FEW: [usize; 2] = [4, 6];
const BUDGET_GRID: usize = 10;
/// Samples of the cost model that AXE's network is learned from, for each mix.
const AXE_SAMPLES: usize = 24;
/// C2 on so many times the data that was trained on, where that is more than the full size; and
/// under every so many of the test mixes.
const FAR: [(f64, usize); 2] = [(10.0, 4), (50.0, 8)];
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

/// What the choices cost that were trained at full size.
struct Home {
    tuned: Tuned,
    /// Mix by mix.
    costs: Vec<f64>,
    /// What sampling took.
    seconds: f64,
}

/// What choices cost on more data still.
struct Far {
    entries: f64,
    mixes: usize,
    /// How many times less data the choices of the small scale and of full size were trained on.
    times: [f64; 2],
    /// What they cost in the mean.
    costs: [f64; 2],
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
    let (mut asked, mut sections) = (Vec::new(), vec![conditions(&bench)]);
    if scale.has(Part::Steward) {
        sections.push(bench.moving(units).steward(&mut asked, progress)?);
    }
    if scale.parts_of(Paper::Camal) == [Part::Steward] {
        sections.insert(0, said(asked));
        return Ok(sections);
    }
    let trees = bench.trained(Learner::Trees, Policy::Leveling, progress)?;
    let (tuned, seconds) = (trees.tuned.clone(), trees.seconds);
    if scale.has(Part::Learners) {
        let mut ways = closed_ways(&bench.full, units);
        ways.extend(bench.ways_of_camal(trees, progress)?);
        ways.extend(bench.ways_of_others(units, progress)?);
        let costs = bench.measure(&ways, progress)?;
        asked_of(&bench, &ways, &costs, &mut asked);
        sections.push(came(&bench, &ways, &costs));
    }
    if scale.has(Part::Scales) {
        bench.scales(&tuned, seconds, &mut asked, progress)?;
    }
    if scale.has(Part::Dynamic) {
        sections.push(bench.moving(units).shifting(&tuned, &mut asked, progress)?);
    }
    if scale.has(Part::Uncertain) {
        sections.push(bench.moving(units).uncertain(&tuned, &mut asked, progress)?);
    }
    sections.insert(0, said(asked));
    Ok(sections)
}

impl<'a> Bench<'a> {
    fn new(scale: &'a Scale) -> Result<Bench<'a>> {
        let entries = scale.entries_small as f64;
        let constants =
            CamalConstants { cache_shares: [0.0; 3], cache_samples: 0, ..CamalConstants::default() };
        // The engine has no smaller write buffers. Where even less data would need some, there is
        // more memory for each key than the paper's.
        let least = ruskey::WRITE_BUFFER_BYTES_MIN as f64 * 8.0 / BUFFER_SHARE_MIN;
        let k = if entries / constants.scale >= least / MEMORY_BITS { constants.scale } else { SMALL_SCALE };
        let memory_bits = MEMORY_BITS.max(least / (entries / k).floor());
        let of = |table: &[[f64; 4]]| -> Result<Vec<Mix>> {
            let mixes = table.iter().take(scale.mixes);
            mixes.map(|shares| Mix::new(*shares).map_err(Error::Config)).collect()
        };
        let small_operations = (scale.operations as f64 / k).ceil() as u64;
        Ok(Bench {
            constants,
            k,
            full: Lab::new(scale, entries, memory_bits, scale.operations)?,
            small: Lab::new(scale, (entries / k).floor(), memory_bits, small_operations)?,
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

    /// What every way's choices cost under the test mixes, mix by mix.
    fn measure(&mut self, ways: &[Way], progress: &mut dyn Progress) -> Result<Vec<Vec<f64>>> {
        let choices =
            |way: &Way| self.shifting.iter().map(|mix| (*mix, (way.choose)(mix))).collect::<Vec<_>>();
        let wanted: Vec<(Mix, Setting)> = ways.iter().flat_map(choices).collect();
        let costs = self.full.costs(&wanted, "measuring what was chosen", progress)?;
        Ok(costs.chunks(self.shifting.len()).map(<[f64]>::to_vec).collect())
    }

    /// C2: trees that were trained at full size.
    fn at_home(&mut self, progress: &mut dyn Progress) -> Result<Home> {
        let (constants, space, seed) = (self.constants.clone(), self.full.space, self.full.scale.seed);
        let (trees, policy) = (Learner::Trees, Policy::Leveling);
        let mut sampler = Decoupled::new(trees, constants.clone(), space, policy, &self.training, seed);
        let trained = learned_at(&mut self.full, &constants, trees, policy, &mut sampler, progress)?;
        let Trained { tuned, seconds, .. } = trained;
        let wanted = chosen(&self.full, &tuned, &self.shifting);
        let costs = self.full.costs(&wanted, "measuring what was chosen at home", progress)?;
        Ok(Home { tuned, costs, seconds })
    }

    /// C2: the choices of `tuned`, whose sampling took so long, beside those of trees that were
    /// trained at full size; then both on more data.
    fn scales(
        &mut self,
        tuned: &Tuned,
        seconds: f64,
        asked: &mut Vec<Verdict>,
        progress: &mut dyn Progress,
    ) -> Result<()> {
        let wanted = chosen(&self.full, tuned, &self.shifting);
        let costs = self.full.costs(&wanted, "measuring what was chosen", progress)?;
        let home = self.at_home(progress)?;
        let loss = mean(&costs) / mean(&home.costs) - 1.0;
        row(
            asked,
            format!("C2: trained on {} times less it is within 5 % of training at full size", self.k),
            format!(
                "{:+.1} %; sampling takes {} s instead of {} s",
                loss * 100.0,
                digits(seconds),
                digits(home.seconds)
            ),
            loss <= 0.05,
        );
        self.small.forget_trees();
        self.full.forget_trees();
        let far = self.far(tuned, &home.tuned, progress)?;
        far.iter().for_each(|far| asked_of_far(far, asked));
        Ok(())
    }

    /// What is not of one mix and one size.
    fn moving<'b>(&'b mut self, units: &'b Units) -> Moving<'b, 'a> {
        let Bench { full, small, shifting, training, constants, .. } = self;
        Moving { lab: full, small, training, shifting, constants, units }
    }

    /// C2 on more data: the choices of both sizes.
    fn far(&self, small: &Tuned, full: &Tuned, progress: &mut dyn Progress) -> Result<Vec<Far>> {
        let (scale, space) = (self.full.scale, self.full.space);
        let bits = space.memory_bytes * 8.0 / space.entries;
        let mut found = Vec::new();
        for (times, every) in FAR.into_iter().filter(|(times, _)| *times > self.k) {
            let entries = times * self.small.space.entries;
            let more = entries / space.entries;
            let mut lab = Lab::new(scale, entries, bits, (more * self.full.operations as f64) as u64)?;
            let mixes: Vec<Mix> = self.shifting.iter().step_by(every).copied().collect();
            let [of_small, of_full] = [small, full].map(|tuned| chosen(&lab, tuned, &mixes));
            let wanted: Vec<(Mix, Setting)> = of_small.into_iter().chain(of_full).collect();
            let stage = format!("measuring what was chosen, {entries} entries");
            let costs = lab.costs(&wanted, &stage, progress)?;
            let (of_small, of_full) = costs.split_at(mixes.len());
            found.push(Far {
                entries,
                mixes: mixes.len(),
                times: [times, more],
                costs: [mean(of_small), mean(of_full)],
            });
        }
        Ok(found)
    }
}

/// What `tuned` chooses in a lab.
fn chosen(lab: &Lab<'_>, tuned: &Tuned, mixes: &[Mix]) -> Vec<(Mix, Setting)> {
    let of = |mix: &Mix| {
        let (knobs, _) = tuned.choose(mix, lab.space.entries, lab.space.memory_bytes);
        (*mix, lab.setting(&knobs))
    };
    mixes.iter().map(of).collect()
}

/// Samples of each mix for plain active learning and for Bayesian optimisation.
fn budgets(mixes: usize) -> ([usize; 2], [usize; 2]) {
    if mixes <= FEW_MIXES { (BUDGETS_OF_FEW, BUDGETS_OF_FEW) } else { (BUDGETS_ACTIVE, BUDGETS_BAYES) }
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
fn asked_of(bench: &Bench<'_>, ways: &[Way], costs: &[Vec<f64>], asked: &mut Vec<Verdict>) {
    let at = |name: &str| ways.iter().position(|way| way.name == name).expect("it is a way");
    let default = mean(&costs[0]);
    for (name, _) in Learner::ALL {
        let own = mean(&costs[at(name)]);
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
    let (trees, quality) = (&ways[at("camal-trees")], mean(&costs[at("camal-trees")]));
    for (prefix, most) in [("plain active learning", active[1]), ("Bayesian optimisation", bayes[1])] {
        let mut of: Vec<usize> = (0..ways.len()).filter(|way| ways[*way].name.starts_with(prefix)).collect();
        of.sort_by(|a, b| ways[*a].seconds.total_cmp(&ways[*b].seconds));
        let as_good = of.into_iter().find(|way| mean(&costs[*way]) <= AS_GOOD * quality);
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
}

fn asked_of_far(far: &Far, asked: &mut Vec<Verdict>) {
    let Far { entries, mixes, times: [small_times, full_times], costs: [small, full] } = far;
    row(
        asked,
        format!(
            "C2: trained on {small_times:.0} times less it is within 5 % of training on {full_times:.1} times less (the paper: \
             up to 10 times less, no longer at about 50)"
        ),
        format!("{:+.1} % over {mixes} mixes of {entries} entries", (small / full - 1.0) * 100.0),
        *small <= 1.05 * full,
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
    let default = mean(&costs[0]);
    let mut summary = Table::new(
        "Mean time of an operation, and what it took to learn",
        &["way", "µs", "less than the default", "worst mix, of the default", "samples", "sampling, s"],
    );
    for (way, own) in ways.iter().zip(costs) {
        let ratios = own.iter().zip(&costs[0]).map(|(own, default)| own / default);
        summary.row(
            way.name.clone(),
            [
                digits(mean(own)),
                format!("{:.0} %", (1.0 - mean(own) / default) * 100.0),
                digits(ratios.fold(0.0, f64::max)),
                way.samples.to_string(),
                digits(way.seconds),
            ],
        );
    }
    // What no way can do better than, as far as was measured.
    let least = |mix: usize| costs.iter().map(|own| own[mix]).fold(f64::INFINITY, f64::min);
    let best: Vec<f64> = (0..bench.shifting.len()).map(least).collect();
    let ratios = best.iter().zip(&costs[0]).map(|(own, default)| own / default);
    summary.row(
        "the best way of each mix",
        [
            digits(mean(&best)),
            format!("{:.0} %", (1.0 - mean(&best) / default) * 100.0),
            digits(ratios.fold(0.0, f64::max)),
            String::new(),
            String::new(),
        ],
    );
    let at = |name: &str| ways.iter().position(|way| way.name == name).expect("it is a way");
    let trees = at("camal-trees");
    let shown = [0, 2, at("camal-poly"), trees, at("camal-nn")];
    let names = shown.iter().map(|way| ways[*way].name.as_str());
    let columns: Vec<&str> = ["mix"].into_iter().chain(names).chain(["camal-trees: choice"]).collect();
    let mut by_mix = Table::new("µs of an operation, mix by mix", &columns);
    for (number, mix) in bench.shifting.iter().enumerate() {
        let setting = (ways[trees].choose)(mix);
        let choice = format!("T={} {} bits", setting.shape.size_ratio, setting.filter_bits);
        by_mix.row(mix.to_string(), shown.iter().map(|way| digits(costs[*way][number])).chain([choice]));
    }
    Section { title: "What each way comes to".into(), tables: vec![summary, by_mix], ..Section::default() }
}

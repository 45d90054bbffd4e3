//! DobLIX's tuning agent (experiment D4): `run`, 50 episodes of Q-learning against the grid.
//!
//! Every cell of the grid is a database of its own, loaded in that layout and measured. The agent
//! is pre-trained on one per cent of the data (at least 10,000 entries). It begins with the
//! narrowest error bound and the largest blocks that it may ask for. `closed` is Solera's own
//! layout.
//!
//! The verdicts ask: the layout in which the agent ends does at least 0.95 of the best cell's
//! operations, after 50 episodes. So does `closed`. The agent ends no slower than it began. Error
//! bounds make no difference within a block size. A verdict that does not hold is shown.
//!
//! What must hold: the agent is given at most 3,000 missions.
//!
//! Caller: `paper::mod`.

use super::{
    Scale,
    document::{Lines, Section, Table, Verdict},
    learning::{Hand, Learner},
    missions::{Site, Tenant},
    row,
    ruskey::{how, setting},
    said,
};
use crate::{
    report::number::{Quantity, digits},
    runner::{Error, Progress, Result},
};
use solera::IndexKind;
use solera_tune::{
    agent::{
        constants::DoblixConstants,
        doblix::{Doblix, MODELS, SIZES, STATES, State},
    },
    cost::{Data, Mix, Setting, Units},
};

/// Bytes of a key and a value, as in the paper.
const ENTRY_BYTES: f64 = 72.0;
/// Share of lookups: the paper's read-heavy workload.
const LOOKUPS: f64 = 0.9;
/// Episodes after which the paper's agent has learned.
const EPISODES: u64 = 50;
/// Missions that the agent is given for them, at most.
const MISSIONS_MAX: usize = 3_000;
/// Entries of the sample that it is pre-trained on, at least.
const SAMPLE_ENTRIES_MIN: f64 = 10_000.0;
/// What is asked of it, of the best cell.
const NEAR: f64 = 0.95;

/// One per cent of the data, but not so little that it fits into the block cache, where no block
/// size costs anything.
fn sample_entries(data: &Data) -> f64 {
    (data.entries / 100.0).max(SAMPLE_ENTRIES_MIN).min(data.entries)
}

fn site_of(site: &Site, constants: &DoblixConstants, state: State) -> Site {
    let epsilon = constants.epsilons.get(state.model);
    Site {
        data: Data { block_bytes: constants.block_bytes[state.size].into(), ..site.data },
        index: if epsilon.is_some() { IndexKind::DoblixPla } else { IndexKind::DoblixPra },
        epsilon: epsilon.copied().unwrap_or(site.epsilon),
        ..site.clone()
    }
}

fn name(constants: &DoblixConstants, model: usize) -> String {
    constants.epsilons.get(model).map_or_else(|| "PRA".into(), |epsilon| format!("PLA {epsilon}"))
}

/// Microseconds of an operation in this layout.
fn cell(site: &Site, setting: &Setting, mix: &Mix, scale: &Scale) -> Result<f64> {
    let mut tenant = Tenant::loaded(site, setting, |_, _| ())?;
    tenant.run(&*site.clock, mix, scale.mission_operations)?;
    Ok(tenant.run(&*site.clock, mix, scale.operations)?.us())
}

/// D4.
pub(super) fn run(scale: &Scale, units: &Units, progress: &mut dyn Progress) -> Result<Vec<Section>> {
    let constants = DoblixConstants::default();
    let data = Data {
        entries: scale.entries_small as f64,
        entry_bytes: ENTRY_BYTES,
        block_bytes: 4096.0,
        scan_entries: 1.0,
    };
    let site = Site::new(data, scale)?;
    let mix = Mix::new([0.0, LOOKUPS, 0.0, 1.0 - LOOKUPS]).map_err(Error::Config)?;
    let of = setting(scale, &[1]);
    let mut grid = [0.0; STATES];
    let mut sample = [(0.0, 1.0); STATES];
    let small = Site { data: Data { entries: sample_entries(&data), ..data }, ..site.clone() };
    let agent = Doblix::new(constants.clone(), units.clone(), scale.seed);
    for number in 0..STATES {
        progress.at("the grid", number as u64, STATES as u64);
        let state = State::of(number);
        grid[number] = cell(&site_of(&site, &constants, state), &of, &mix, scale)?;
        sample[number].0 = cell(&site_of(&small, &constants, state), &of, &mix, scale)?;
    }
    progress.at("the closed choice", 0, 1);
    let closed = cell(&site, &of, &mix, scale)?;
    let first = State { model: 0, size: agent.sizes() - 1 };
    let mut tuned = agent;
    tuned.pretrain(&sample);
    let tenant = Tenant::loaded(&site_of(&site, &constants, first), &of, |_, _| ())?;
    let mut learner = Learner::new(tenant, Hand::Agent(Box::new(tuned)));
    let (mut us, mut missions) = (Vec::new(), 0);
    while learner.episodes() < EPISODES && missions < MISSIONS_MAX {
        progress.at("episodes", learner.episodes(), EPISODES);
        us.push(learner.mission(&*site.clock, &mix, scale.mission_operations)?.0.us());
        missions += 1;
    }
    let ended = learner.state(&constants).unwrap_or(first);
    Ok(report(Came {
        scale,
        site: &site,
        constants: &constants,
        grid,
        closed,
        first,
        ended,
        us,
        learner: &learner,
    }))
}

/// What came of it.
struct Came<'a> {
    scale: &'a Scale,
    site: &'a Site,
    constants: &'a DoblixConstants,
    grid: [f64; STATES],
    closed: f64,
    first: State,
    ended: State,
    us: Vec<f64>,
    learner: &'a Learner,
}

fn report(came: Came<'_>) -> Vec<Section> {
    let Came { scale, site, constants, grid, closed, first, ended, us, learner } = came;
    let best = grid.iter().copied().fold(f64::INFINITY, f64::min);
    let (began, ends) = (grid[first.number()], grid[ended.number()]);
    let mut asked: Vec<Verdict> = Vec::new();
    row(
        &mut asked,
        format!(
            "after {EPISODES} episodes the agent's layout does at least {NEAR} of the best cell's operations"
        ),
        format!("{} after {} episodes", digits(best / ends), learner.episodes()),
        best / ends >= NEAR && learner.episodes() >= EPISODES,
    );
    row(
        &mut asked,
        "operations at the end against those at the beginning (the paper: 93 against 45 thousand, 2.07 times)",
        format!("{} times, from blocks of {} bytes", digits(began / ends), constants.block_bytes[first.size]),
        began / ends >= 1.0,
    );
    row(
        &mut asked,
        "the closed choice, without an episode, is within 5 % of the best cell",
        format!("{} of the best", digits(best / closed)),
        best / closed >= NEAR,
    );
    let of_size = |size: usize| (0..MODELS).map(move |model| grid[State { model, size }.number()]);
    let apart = (0..SIZES)
        .map(|size| of_size(size).fold(0.0, f64::max) / of_size(size).fold(f64::INFINITY, f64::min));
    let apart = apart.fold(0.0, f64::max);
    row(
        &mut asked,
        "error bounds make no difference within a block size, as 4 to 16 KB blocks of 72-byte records leave them none",
        format!("at most {:.1} % between models of one block size", (apart - 1.0) * 100.0),
        apart <= 1.03,
    );
    let mut columns = vec!["model".to_owned()];
    columns.extend(constants.block_bytes.iter().map(|bytes| format!("{} KiB", bytes >> 10)));
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new("µs of an operation in each cell of the grid", &columns);
    for model in 0..MODELS {
        let cells = (0..SIZES).map(|size| digits(grid[State { model, size }.number()]));
        table.row(name(constants, model), cells);
    }
    table.row(
        "closed choice (learned, 4 KiB)",
        std::iter::once(digits(closed)).chain((1..SIZES).map(|_| "–".into())),
    );
    let width = (us.len() / 50).max(1);
    let mean = |chunk: &[f64]| chunk.iter().sum::<f64>() / chunk.len().max(1) as f64;
    let points = us.chunks(width).enumerate().map(|(at, chunk)| ((at * width) as f64, mean(chunk)));
    vec![
        said(asked),
        Section {
            title: "Conditions".into(),
            text: vec![
                format!(
                    "{} entries of {ENTRY_BYTES} bytes; lookups {:.0} %, updates {:.0} %, all keys alike; missions of {} operations; an \
                     episode is {} tables written. The agent may ask for blocks of up to {} bytes here. It was pre-trained on \
                     {} entries in each layout.",
                    site.data.entries,
                    LOOKUPS * 100.0,
                    (1.0 - LOOKUPS) * 100.0,
                    scale.mission_operations,
                    constants.episode_tables,
                    constants.block_bytes[first.size],
                    sample_entries(&site.data),
                ),
                how(site),
            ],
            ..Section::default()
        },
        Section {
            title: "The grid, and the agent's way".into(),
            text: vec![format!(
                "The agent ended at {} with blocks of {} KiB, after {} changes.",
                name(constants, ended.model),
                constants.block_bytes[ended.size] >> 10,
                learner.changes
            )],
            tables: vec![table],
            lines: vec![Lines {
                title: "µs of an operation, mission by mission".into(),
                quantity: Quantity::Plain("µs"),
                better: "lower",
                over: "mission",
                mark: (0.0, "the agent begins"),
                lines: vec![("doblix-qlearn".into(), points.collect())],
            }],
            ..Section::default()
        },
    ]
}

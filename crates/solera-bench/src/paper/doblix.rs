//! DobLIX's experiments: `run`, D1 to D3.
//!
//! D1 reads key families, hot (here) and from the device (`device`). The grid goes over ε and block
//! size. D2 goes over key and value sizes, D3 over build time (`training`). In D1 in memory and in
//! D3 every index kind is an arm, at the defaults of its paper; the device leaves two out. In D2
//! five are, in the grid DobLIX's two.
//!
//! What must hold: in D1 in memory, kinds that are made for keys of at most eight bytes are not
//! held against text. D3 builds them over text too.
//!
//! Caller: `paper::mod`.

use super::{
    Paper, Part, Scale, device,
    document::{Bars, Section, Table, Verdict, cell},
    subject::{Answer, Arm, Ask, Inquiry, Stored},
    training,
    turns::Beside,
    verdict,
};
use crate::{
    data::{Family, Keys, Sizes},
    report::{
        Spread,
        number::{Quantity, digits},
    },
    runner::{Progress, Result},
};
use solera::{IndexKind, clock::SystemClock};

/// DobLIX's own sizes.
const SIZES: Sizes = Sizes::Fixed { key_bytes: 8, value_bytes: 64 };

/// The best that is known without a model.
const CLASSICAL: [IndexKind; 5] = [
    IndexKind::Binary,
    IndexKind::Interpolation,
    IndexKind::Eytzinger,
    IndexKind::STree,
    IndexKind::STreeHash,
];

/// Every kind, at the defaults of its paper: ε 128 and 4 KiB for PLA (what the authors' code
/// fixes), γ 1 for Sherry.
fn kinds() -> Vec<Arm> {
    vec![
        Arm::new("binary", IndexKind::Binary, 64),
        Arm::new("interpolation", IndexKind::Interpolation, 64),
        Arm::new("eytzinger", IndexKind::Eytzinger, 64),
        Arm::new("s-tree", IndexKind::STree, 64),
        Arm::new("s-tree-hash", IndexKind::STreeHash, 64),
        Arm::new("doblix-pla", IndexKind::DoblixPla, 128),
        Arm::new("doblix-pra", IndexKind::DoblixPra, 64),
        Arm::new("sherry-plr γ=1", IndexKind::SherryPlr, 2),
        Arm::new("greedy-plr ε=32", IndexKind::GreedyPlr, 32),
        Arm::new("learned", IndexKind::Learned, 64),
        Arm::new("auto", IndexKind::Auto, 64),
    ]
}

fn few() -> Vec<Arm> {
    let few =
        [IndexKind::Binary, IndexKind::STree, IndexKind::DoblixPla, IndexKind::DoblixPra, IndexKind::Learned];
    kinds().into_iter().filter(|arm| few.contains(&arm.layout.index)).collect()
}

pub(super) fn run(scale: &Scale, clock: &SystemClock, progress: &mut dyn Progress) -> Result<Vec<Section>> {
    let (mut sections, mut verdicts) = (Vec::new(), Vec::new());
    for part in scale.parts_of(Paper::Doblix) {
        sections.push(match part {
            Part::InMemory => hot(scale, clock, progress, &mut verdicts)?,
            Part::Device => device::run(&kinds(), scale, clock, progress, &mut verdicts)?,
            Part::Grid => grid(scale, clock, progress)?,
            Part::Sizes => sizes(scale, clock, progress)?,
            Part::Build => build(scale, progress, &mut verdicts)?,
            // Of other papers: `run` has refused them.
            _ => continue,
        });
    }
    let said = Section { title: "Asked and measured".into(), verdicts, ..Section::default() };
    Ok([said].into_iter().filter(|said| !said.verdicts.is_empty()).chain(sections).collect())
}

/// What the arms did over one set.
struct Column {
    set: String,
    /// Of each arm; none if it was not measured.
    answers: Vec<Vec<Answer>>,
    index: Vec<(u64, u64)>,
    keys: u64,
    /// What `learned` does beside each arm, if that was measured.
    learned_beside: Vec<Option<Beside>>,
}

/// A table with a row per arm and a column per set.
fn over_sets(
    title: &str,
    arms: &[Arm],
    columns: &[Column],
    show: impl Fn(&Column, usize) -> String,
) -> Table {
    let heads: Vec<&str> =
        ["index"].into_iter().chain(columns.iter().map(|column| &column.set[..])).collect();
    let mut table = Table::new(title, &heads);
    for (i, arm) in arms.iter().enumerate() {
        let cell = |column: &Column| match column.answers[i].is_empty() {
            true => "–".to_owned(),
            false => show(column, i),
        };
        table.row(&arm.name, columns.iter().map(cell));
    }
    table
}

/// What `learned` does beside a kind that was measured.
fn learned_beside<'c>(column: &'c Column, arms: &[Arm], kind: IndexKind) -> &'c Beside {
    column.learned_beside[place(arms, kind)].as_ref().expect("every set is put to this kind")
}

fn place(arms: &[Arm], index: IndexKind) -> usize {
    arms.iter().position(|arm| arm.layout.index == index).expect("every kind is an arm")
}

/// Whether the kind is made for such keys. Sherry's and LearnedKV's are for keys of at most 8
/// bytes: of text they name up to hundreds of blocks, and are not measured.
fn is_for(arm: &Arm, keys: &Keys) -> bool {
    !arm.layout.index.names_a_window() || !keys.is_text()
}

/// D1, everything in memory.
fn hot(
    scale: &Scale,
    clock: &SystemClock,
    progress: &mut dyn Progress,
    verdicts: &mut Vec<Verdict>,
) -> Result<Section> {
    const ASKS: [Ask; 3] = [Ask::Found, Ask::FoundZipf, Ask::Absent];
    let arms = kinds();
    let mut columns = Vec::new();
    for keys in &scale.keys {
        let set = scale.set(keys, scale.entries, SIZES)?;
        let measured: Vec<Arm> = arms.iter().filter(|arm| is_for(arm, keys)).cloned().collect();
        let stored = Stored::create_all(&measured, &set, scale.directory.as_deref(), progress)?;
        let inquiry = Inquiry { clock, set: &set, asks: &ASKS, effort: scale.effort() };
        let (mut answers, mut beside) = (vec![Vec::new(); arms.len()], vec![None; arms.len()]);
        // `learned` is the last of each group, to be held against the others.
        let others: Vec<IndexKind> = measured
            .iter()
            .map(|arm| arm.layout.index)
            .filter(|kind| *kind != IndexKind::Learned && !CLASSICAL.contains(kind))
            .collect();
        for group in [&others[..], &CLASSICAL] {
            let kinds: Vec<IndexKind> = group.iter().copied().chain([IndexKind::Learned]).collect();
            let of = |kind: &IndexKind| stored.iter().find(|stored| stored.arm.layout.index == *kind);
            let stored: Vec<&Stored> = kinds.iter().filter_map(of).collect();
            for (kind, turns) in kinds.iter().zip(inquiry.in_turns(&stored, progress)?) {
                answers[place(&arms, *kind)] = turns.answers;
                beside[place(&arms, *kind)] = Some(turns.last_beside);
            }
        }
        let of = |arm: &Arm| stored.iter().find(|stored| stored.arm.name == arm.name);
        let index =
            arms.iter().map(|arm| of(arm).map_or((0, 0), |stored| (stored.index_bytes, stored.blocks)));
        columns.push(Column {
            set: keys.to_string(),
            answers,
            index: index.collect(),
            keys: set.pairs.len() as u64,
            learned_beside: beside,
        });
    }
    let beside = |show: fn(&Beside) -> &Spread| {
        move |column: &Column, arm: usize| {
            column.learned_beside[arm].as_ref().map_or("–".into(), |beside| cell(show(beside), 1.0))
        }
    };
    let rates =
        |ask: usize| move |column: &Column, arm: usize| cell(&column.answers[arm][ask].per_second, 1e6);
    let tables = vec![
        over_sets(
            "Found reads per second of `learned`, in multiples of",
            &arms,
            &columns,
            beside(|beside| &beside.reads),
        ),
        over_sets(
            "p99 of `learned`'s found reads, in multiples of",
            &arms,
            &columns,
            beside(|beside| &beside.p99),
        ),
        over_sets("Found reads, uniform, M/s", &arms, &columns, rates(0)),
        over_sets("Found reads, Zipf 0.99, M/s", &arms, &columns, rates(1)),
        over_sets("Absent reads, M/s", &arms, &columns, rates(2)),
        over_sets("Found reads, uniform, p50, ns", &arms, &columns, |column, arm| {
            cell(&column.answers[arm][0].p50_ns, 1.0)
        }),
        over_sets("Found reads, uniform, p99, ns", &arms, &columns, |column, arm| {
            cell(&column.answers[arm][0].p99_ns, 1.0)
        }),
        over_sets("Data blocks looked into per found read", &arms, &columns, |column, arm| {
            format!("{:.4}", column.answers[arm][0].blocks_probed)
        }),
        over_sets(
            "Data blocks looked into per absent read that passes the filter",
            &arms,
            &columns,
            |column, arm| format!("{:.4}", column.answers[arm][2].blocks_probed),
        ),
        over_sets("Index and handles in memory, bytes per block", &arms, &columns, |column, arm| {
            digits(bytes_per_block(column, arm))
        }),
        over_sets("Index and handles in memory, bytes per key", &arms, &columns, |column, arm| {
            digits(column.index[arm].0 as f64 / column.keys as f64)
        }),
        over_sets("Data blocks", &arms, &columns, |column, arm| column.index[arm].1.to_string()),
    ];
    let bars = columns
        .iter()
        .map(|column| Bars {
            title: format!("Found reads, uniform: {}", column.set),
            quantity: Quantity::Rate("reads"),
            better: "higher",
            bars: arms
                .iter()
                .enumerate()
                .filter(|(i, _)| !column.answers[*i].is_empty())
                .map(|(i, arm)| (arm.name.clone(), column.answers[i][0].per_second.clone()))
                .collect(),
        })
        .collect();
    let text = vec![
        format!(
            "{} pairs of 8-byte keys (strings: 64 bytes, hexadecimal: 16) and 64-byte values in one run, all blocks in the block cache; blocks of \
             4 KiB, filter of 10 bits per key, no compression. `wiki-like` has keys with several versions, which \
             snapshots kept in the tables when they were written.",
            scale.entries
        ),
        "The paper's figures are of RocksDB without a cache. The arms here share everything but the index and what belongs to \
         it: DobLIX's kinds, `learned` and `auto` keep a line in each block, by which its heads are searched; the \
         classical kinds and Sherry halve the heads, but for `s-tree-hash`, which is `s-tree` with a hash index in each block."
            .into(),
        "The last mile of DobLIX's kinds is not the paper's halving of the window of ±ε: it walks over the heads from the rank \
         that the line says, and gallops. So ε moves where blocks are cut, and not how long a search in one may take."
            .into(),
        "Five or six databases at a time are open in memory, the classical kinds and `learned`, the others and `learned` again; in each \
         repeat in another order. They read the same keys in ten turns; the first reads of a turn are not timed, because the \
         processor's caches hold what the database before needed. A repeat's rate, percentile or ratio is the median of its turns, and \
         ratios (the first two tables, and what is said above of `learned`) are of turns that follow on each other. Rates of \
         different groups are not of the same turns."
            .into(),
    ];
    verdicts.extend(hot_verdicts(&arms, &columns));
    Ok(Section { title: "D1: read-only, in memory".into(), text, tables, bars, ..Section::default() })
}

fn bytes_per_block(column: &Column, arm: usize) -> f64 {
    let (bytes, blocks) = column.index[arm];
    bytes as f64 / blocks.max(1) as f64
}

fn hot_verdicts(arms: &[Arm], columns: &[Column]) -> Vec<Verdict> {
    let [binary, learned] = [IndexKind::Binary, IndexKind::Learned].map(|kind| place(arms, kind));
    let doblix = [IndexKind::DoblixPla, IndexKind::DoblixPra];
    let list = |value: &dyn Fn(&Column) -> String| {
        columns
            .iter()
            .map(|column| format!("{} {}", column.set, value(column)))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let all = |holds: &dyn Fn(&Column) -> bool| columns.iter().all(holds);
    let reads = |kind: IndexKind, column: &Column| learned_beside(column, arms, kind).reads.median;
    let smooth = |column: &Column| ["uniform", "lognormal"].contains(&&column.set[..]);
    let p99 = |column: &Column| {
        CLASSICAL.map(|kind| learned_beside(column, arms, kind).p99.median).into_iter().fold(0.0, f64::max)
    };
    // Beside the best classical kind, by way of `learned`, which both were held against.
    let fastest =
        |column: &Column| CLASSICAL.map(|kind| reads(kind, column)).into_iter().fold(f64::INFINITY, f64::min);
    let beside_best = |kind: IndexKind, column: &Column| fastest(column) / reads(kind, column);
    let share = |column: &Column| bytes_per_block(column, learned) / bytes_per_block(column, binary);
    let share_max = |column: &Column| match &column.set[..] {
        "uniform" | "lognormal" | "wiki-like" => 0.25,
        "clustered" | "strings" => 1.0 / 3.0,
        _ => f64::INFINITY,
    };
    let is_text = |column: &Column| ["strings", "hexadecimal"].contains(&&column.set[..]);
    let exact = |ask: usize, limit: f64| {
        let worst = columns.iter().flat_map(|column| {
            arms.iter()
                .zip(&column.answers)
                .filter(|(arm, answers)| !arm.layout.index.names_a_window() && !answers.is_empty())
                .map(move |(arm, answers)| {
                    (answers[ask].blocks_probed, format!("{} on {}", arm.name, column.set))
                })
        });
        let worst = worst.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default();
        (worst.0 <= limit, format!("the most is {:.4}, {}", worst.0, worst.1))
    };
    let (found_exact, found_worst) = exact(0, 1.001);
    let (absent_exact, absent_worst) = exact(2, 1.01);
    vec![
        verdict(
            "`learned` reads as fast as the S-tree on every family",
            all(&|column| reads(IndexKind::STree, column) >= 1.0),
            &format!(
                "learned / S-tree {}",
                list(&|column| format!("{:.2}×", reads(IndexKind::STree, column)))
            ),
        ),
        verdict(
            "`learned` reads 1.3 times as fast as plain binary search on uniform and lognormal keys",
            all(&|column| !smooth(column) || reads(IndexKind::Binary, column) >= 1.3),
            &format!(
                "learned / binary {}",
                list(&|column| format!("{:.2}×", reads(IndexKind::Binary, column)))
            ),
        ),
        verdict(
            "`learned`'s p99 is no worse than the best classical index's",
            all(&|column| p99(column) <= 1.0),
            &format!("learned / best classical {}", list(&|column| format!("{:.2}×", p99(column)))),
        ),
        verdict(
            "DobLIX's kinds read faster than the best classical index (the paper: 1.92 times RocksDB)",
            all(&|column| doblix.iter().any(|&kind| beside_best(kind, column) > 1.0)),
            &format!(
                "PLA, PRA / best classical {}",
                list(&|column| doblix.map(|kind| format!("{:.2}×", beside_best(kind, column))).join(", "))
            ),
        ),
        verdict(
            "of 8-byte keys `learned` takes at most 4 bytes per block, handles included (text is shown, too)",
            all(&|column| is_text(column) || bytes_per_block(column, learned) <= 4.0),
            &list(&|column| digits(bytes_per_block(column, learned))),
        ),
        verdict(
            "`learned` takes at most a quarter of `binary`'s bytes on uniform, lognormal and wiki-like keys, a third on \
             clustered ones and strings (the others are shown, too)",
            all(&|column| share(column) <= share_max(column)),
            &list(&|column| format!("{:.2}", share(column))),
        ),
        verdict(
            "a found read looks into at most 1.001 blocks in every kind but Sherry",
            found_exact,
            &found_worst,
        ),
        verdict(
            "an absent read that passes the filter looks into at most 1.01 blocks in every kind but Sherry",
            absent_exact,
            &absent_worst,
        ),
    ]
}

/// The grid of ε and block size.
fn grid(scale: &Scale, clock: &SystemClock, progress: &mut dyn Progress) -> Result<Section> {
    const EPSILONS: [u32; 4] = [32, 64, 128, 256];
    const BLOCKS: [u32; 4] = [4, 8, 16, 32];
    let mut arms = Vec::new();
    for kib in BLOCKS {
        for epsilon in EPSILONS {
            let arm = Arm::new(&format!("PLA {epsilon}"), IndexKind::DoblixPla, epsilon);
            arms.push(arm.block_bytes(kib << 10));
        }
        arms.push(Arm::new("PRA", IndexKind::DoblixPra, 64).block_bytes(kib << 10));
    }
    let mut section = Section {
        title: "The grid of ε and block size (the paper's Fig. 15)".into(),
        text: vec![format!(
            "{} pairs of 8 + 64 bytes, found reads, uniform, in memory. Where two cells have the same number of blocks, ε did \
             not end a single block: the two are the same table, and what differs is noise (docs/PAPERS.md, \"DobLIX: when ε ends a block\").",
            scale.entries_small
        )],
        ..Section::default()
    };
    let heads = ["model", "4 KiB", "8 KiB", "16 KiB", "32 KiB"];
    for family in [Family::Uniform, Family::Lognormal, Family::Clustered] {
        let set = scale.set(&Keys::Family(family), scale.entries_small, SIZES)?;
        let stored = Stored::create_all(&arms, &set, scale.directory.as_deref(), progress)?;
        let inquiry = Inquiry { clock, set: &set, asks: &[Ask::Found], effort: scale.effort() };
        let answers = inquiry.of_stored(&stored, progress)?;
        let rows = EPSILONS.len() + 1;
        let mut rates = Table::new(format!("{family}: M reads/s"), &heads);
        let mut blocks = Table::new(format!("{family}: data blocks"), &heads);
        for (row, arm) in arms.iter().enumerate().take(rows) {
            let of = |column: usize| column * rows + row;
            rates.row(
                &arm.name,
                (0..BLOCKS.len()).map(|column| cell(&answers[of(column)][0].per_second, 1e6)),
            );
            blocks.row(&arm.name, (0..BLOCKS.len()).map(|column| stored[of(column)].blocks.to_string()));
        }
        section.tables.extend([rates, blocks]);
    }
    Ok(section)
}

/// D2: key and value sizes.
fn sizes(scale: &Scale, clock: &SystemClock, progress: &mut dyn Progress) -> Result<Section> {
    /// Bytes of pairs in each set, at most: large values need fewer of them.
    const BYTES_MAX: usize = 256 << 20;
    let fixed = |key_bytes, value_bytes| Sizes::Fixed { key_bytes, value_bytes };
    let keys = [8, 16, 32, 64, 128].map(|key_bytes| fixed(key_bytes, 64));
    let values = [16, 256, 1024, 4096].map(|value_bytes| fixed(8, value_bytes));
    let arms = few();
    let heads: Vec<&str> =
        ["sizes", "pairs"].into_iter().chain(arms.iter().map(|arm| &arm.name[..])).collect();
    let mut rates = Table::new("Found reads, uniform, M/s", &heads);
    let mut index = Table::new("Index and handles in memory, bytes per block", &heads);
    for sizes in keys.into_iter().chain(values).chain(Sizes::MIXES) {
        let pair_bytes = match sizes {
            Sizes::Fixed { key_bytes, value_bytes } => key_bytes + value_bytes,
            _ => 160,
        };
        let entries = scale.entries_small.min(BYTES_MAX / pair_bytes);
        let set = scale.set(&Keys::Family(Family::Clustered), entries, sizes)?;
        let stored = Stored::create_all(&arms, &set, scale.directory.as_deref(), progress)?;
        let inquiry = Inquiry { clock, set: &set, asks: &[Ask::Found], effort: scale.effort() };
        let answers = inquiry.of_stored(&stored, progress)?;
        let pairs = || [set.pairs.len().to_string()].into_iter();
        rates.row(
            sizes.to_string(),
            pairs().chain(answers.iter().map(|answer| cell(&answer[0].per_second, 1e6))),
        );
        let per_block = stored.iter().map(|stored| digits(stored.index_bytes_per_block()));
        index.row(sizes.to_string(), pairs().chain(per_block));
    }
    Ok(Section {
        title: "D2: key and value sizes".into(),
        text: vec![
            "Clustered keys (the paper uses OSM). A key longer than 8 bytes is one of 64 prefixes, then the number; the mixes \
             are those of three uses of RocksDB at Facebook (Cao et al., FAST 2020): UDB 27.1 + 126.7 bytes, ZippyDB \
             47.9 + 42.9, UP2X 10.4 + 46.8 on average. In memory."
                .into(),
        ],
        tables: vec![rates, index],
        ..Section::default()
    })
}

/// D3: index bytes and build time.
fn build(scale: &Scale, progress: &mut dyn Progress, verdicts: &mut Vec<Verdict>) -> Result<Section> {
    let arms = kinds();
    let mut section = Section {
        title: "D3: what models cost to build".into(),
        text: vec![format!(
            "{} pairs with 64-byte values in two runs, every key of one between keys of the other, merged into one by one thread; \
             its processor time, least of {} repeats. `fit`: lines in blocks, with PLA's corridor over every key. `index`: \
             the index from separators, trained when the last block is cut. `encode`: sizes and the index. The three are parts of \
             the compaction, timed by doing them again alone on the same blocks. Buckets of `s-tree-hash`, which are no model, are in the compaction alone. Index bytes per block are in D1 (8-byte keys; strings: 64 \
             bytes) and D2.",
            scale.entries_small, scale.repeats
        )],
        ..Section::default()
    };
    let mut worst: Option<(f64, String)> = None;
    for keys in &scale.keys {
        let set = scale.set(keys, scale.entries_small, SIZES)?;
        let mut table = Table::new(
            format!("{keys}: processor time, ns per entry"),
            &["index", "compaction", "fit", "index", "encode", "share of all"],
        );
        let mut bars = Vec::new();
        for (i, arm) in arms.iter().enumerate() {
            progress.at(&format!("{}: building, {}", set.name, arm.name), i as u64, arms.len() as u64);
            let cost = training::measure(arm, &set, scale.repeats, scale.directory.as_deref())?;
            let per_entry = |ns: f64| digits(ns / cost.entries as f64);
            table.row(
                &arm.name,
                [
                    per_entry(cost.compaction_ns),
                    per_entry(cost.fit_ns),
                    per_entry(cost.index_ns),
                    per_entry(cost.encode_ns),
                    format!("{:.2} %", 100.0 * cost.share()),
                ],
            );
            bars.push((arm.name.clone(), Spread::of(vec![100.0 * cost.share()])));
            if worst.as_ref().is_none_or(|(share, _)| *share < cost.share()) {
                worst = Some((cost.share(), format!("{} on {keys} keys", arm.name)));
            }
        }
        section.tables.push(table);
        section.bars.push(Bars {
            title: format!("Training and encoding: {keys}"),
            quantity: Quantity::Plain("% of compaction"),
            better: "lower",
            bars,
        });
    }
    if let Some((share, arm)) = worst {
        verdicts.push(verdict(
            "training and encoding take at most 5 % of a compaction's processor time (the paper: 8.5 %)",
            share <= 0.05,
            &format!("the most is {:.2} %, {arm}", 100.0 * share),
        ));
    }
    Ok(section)
}

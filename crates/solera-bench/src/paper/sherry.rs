//! Sherry's experiments: `run`, S1 space of the index, S2 time.
//!
//! S1 counts the bytes of the index against RocksDB's formats and the paper's own (`formats`), over
//! the very same block boundaries. S2 asks databases under each of six layouts in turns: two
//! classical kinds, Sherry's with three γ, `learned`.
//!
//! What must hold: the verdicts on space and on time are about one arm, Sherry's index with γ =
//! 0.5.
//!
//! Caller: `paper::mod`.

use super::{
    Scale,
    blocks::{self, TableBlocks},
    document::{Bars, Section, Table, Verdict, cell},
    formats::{rocksdb_index_bytes, sherry_index_bytes},
    subject::{Answer, Arm, Ask, Inquiry, Stored, Subject},
    verdict,
};
use crate::{
    data::{DataSet, Family, Keys, Sizes},
    report::{
        Spread,
        number::{Quantity, digits},
    },
    runner::{Progress, Result},
};
use solera::{IndexKind, clock::SystemClock, index::Index, key};
use solera_model::plr::Plr;
use std::path::Path;

/// What the name of a set ends with in the paper's own setting.
const PAPERS: &str = ", 1 per block";
/// Half blocks of γ: 0.5, 1 and 2 blocks, the paper's.
const GAMMA_HALVES: [u32; 3] = [1, 2, 4];
/// Which of them what is said of space and of time is about: one for both.
const SAID: usize = 0;

pub(super) fn run(scale: &Scale, clock: &SystemClock, progress: &mut dyn Progress) -> Result<Vec<Section>> {
    let (space, mut verdicts) = space(scale, progress)?;
    let time = time(scale, clock, progress, &mut verdicts)?;
    let said = Section { title: "Asked and measured".into(), verdicts, ..Section::default() };
    Ok(vec![said, space, time])
}

/// Bytes of the index of all tables of a database, in several formats, and its blocks.
#[derive(Clone, Copy, Debug, Default)]
struct Space {
    blocks: u64,
    segments: u64,
    rocksdb: [u64; 2],
    printed: u64,
    binary: u64,
    stree: u64,
    sherry: [u64; 3],
    learned: u64,
    file: u64,
}

impl Space {
    fn of(dir: &Path, set: &DataSet) -> Result<Space> {
        let mut sum = Space::default();
        for table in blocks::of(dir, set)? {
            sum.add(&table, set);
        }
        Ok(sum)
    }

    fn add(&mut self, table: &TableBlocks, set: &DataSet) {
        let separators = table.separators();
        let handles = table.handles().bytes() as u64;
        let last_keys = table.last_keys(set);
        let memory = |kind, epsilon| {
            Index::build(kind, epsilon, &separators, Some(&last_keys)).bytes() as u64 + handles
        };
        let same = match (separators.iter().next(), separators.iter().last()) {
            (Some(first), Some(last)) => key::common_prefix_len(first, last),
            _ => 0,
        };
        let heads: Vec<u64> = separators.iter().map(|separator| key::head_after(separator, same)).collect();
        let segments = Plr::new(&heads, 1.0, |_| false).segments();
        self.blocks += table.blocks.len() as u64;
        self.segments += segments as u64;
        for (sum, interval) in self.rocksdb.iter_mut().zip([1, 16]) {
            *sum += rocksdb_index_bytes(&table.blocks, interval);
        }
        self.printed += sherry_index_bytes(table.blocks.len(), segments);
        self.binary += memory(IndexKind::Binary, 2);
        self.stree += memory(IndexKind::STree, 2);
        for (sum, halves) in self.sherry.iter_mut().zip(GAMMA_HALVES) {
            *sum += memory(IndexKind::SherryPlr, halves);
        }
        self.learned += memory(IndexKind::Learned, 2);
        self.file += table.index_file_bytes;
    }

    fn per_block(&self, bytes: u64) -> String {
        digits(bytes as f64 / self.blocks.max(1) as f64)
    }

    /// What is saved of RocksDB's index with restart interval 1, its default.
    fn saved(&self, bytes: u64) -> f64 {
        1.0 - bytes as f64 / self.rocksdb[0].max(1) as f64
    }
}

/// S1.
fn space(scale: &Scale, progress: &mut dyn Progress) -> Result<(Section, Vec<Verdict>)> {
    let fixed = |value_bytes| Sizes::Fixed { key_bytes: 8, value_bytes };
    let settings: Vec<(Sizes, u32)> = [fixed(20), fixed(200), fixed(400), Sizes::Sherry]
        .into_iter()
        .flat_map(|sizes| [4u32, 8, 16].map(|kib| (sizes, kib << 10)))
        .chain([(fixed(400), 400)])
        .collect();
    let mut section = Section {
        title: "S1: space of the index".into(),
        text: vec![
            format!(
                "{} pairs with 8-byte keys. Every format is counted over the very same blocks. `RocksDB R`: its index block \
                 with restart interval R (1 is the default) and delta-encoded handles, from the format's description, byte by \
                 byte: for each block varint(shared) + varint(rest) + rest of the shortest separator + handle, which is \
                 varint(offset) + varint(size) at a restart or where nothing is shared and else the zigzag varint of the \
                 difference in size; 4 bytes for each restart, 4 + 5 at the end. `as printed`: γ = 1, 40 bytes per segment and \
                 8 per block, as the paper stores them. The others are this engine's, in memory, handles and everything else counted.",
                scale.entries_small
            ),
            "In the file a kind without a model takes what the last column says: separators, prefix-compressed, and sizes. One \
             with a model has that instead of separators, 24 bytes for each of Sherry's segments, beside the sizes."
                .into(),
        ],
        ..Section::default()
    };
    let (mut savings, mut bars) = (Vec::new(), Vec::new());
    for family in [Family::Uniform, Family::Lognormal, Family::Clustered, Family::WikiLike] {
        let mut table = Table::new(
            format!("{family} keys: bytes per block"),
            &[
                "values, blocks",
                "blocks",
                "RocksDB 1",
                "RocksDB 16",
                "as printed",
                "binary",
                "s-tree",
                "sherry γ=0.5",
                "sherry γ=1",
                "sherry γ=2",
                "learned",
                "segments γ=1",
                "saved by sherry γ=0.5",
                "saved by sherry γ=1",
                "saved by learned",
                "in the file",
            ],
        );
        for (i, &(sizes, block_bytes)) in settings.iter().enumerate() {
            progress.at(&format!("{family}: counting"), i as u64, settings.len() as u64);
            // The latest versions alone: how many there are of a key does not matter to an index.
            let mut set = scale.set(&Keys::Family(family), scale.entries_small, sizes)?;
            set.older.clear();
            let arm = Arm::new("binary", IndexKind::Binary, 2).block_bytes(block_bytes);
            let subject = Subject::create(&arm, &set, scale.directory.as_deref())?;
            let space = Space::of(&subject.directory(), &set)?;
            let percent = |bytes| format!("{:.0} %", 100.0 * space.saved(bytes));
            let [half, one, two] = space.sherry;
            let name = format!("{sizes}, {block_bytes}");
            let bytes = [
                space.rocksdb[0],
                space.rocksdb[1],
                space.printed,
                space.binary,
                space.stree,
                half,
                one,
                two,
                space.learned,
            ];
            let cells = [space.blocks.to_string()]
                .into_iter()
                .chain(bytes.map(|bytes| space.per_block(bytes)))
                .chain([
                    space.segments.to_string(),
                    percent(half),
                    percent(one),
                    percent(space.learned),
                    space.per_block(space.file),
                ]);
            table.row(name.clone(), cells);
            savings.push((space.saved(space.sherry[SAID]), format!("{family}, {name}")));
            if sizes == fixed(200) && block_bytes == 4096 {
                let bar = |bytes: u64| Spread::of(vec![bytes as f64 / space.blocks.max(1) as f64]);
                let names = [
                    "RocksDB 1",
                    "RocksDB 16",
                    "as printed",
                    "binary",
                    "s-tree",
                    "sherry ½",
                    "sherry 1",
                    "sherry 2",
                    "learned",
                ];
                bars.push(Bars {
                    title: format!("Index, 200-byte values, 4 KiB: {family}"),
                    quantity: Quantity::Plain("B/block"),
                    better: "lower",
                    bars: names
                        .iter()
                        .zip(bytes)
                        .map(|(name, bytes)| (name.to_string(), bar(bytes)))
                        .collect(),
                });
            }
        }
        section.tables.push(table);
    }
    section.bars = bars;
    savings.sort_by(|a, b| a.0.total_cmp(&b.0));
    let shown = match (savings.first(), savings.last()) {
        (Some((least, at_least)), Some((most, at_most))) => format!(
            "the least is {:.0} % ({at_least}), the most {:.0} % ({at_most})",
            100.0 * least,
            100.0 * most
        ),
        _ => String::new(),
    };
    let holds = savings.iter().all(|(saved, _)| *saved >= 0.6);
    let claim = "`sherry-plr` with γ = 0.5 saves at least 60 % of RocksDB's index at 8-byte keys, in memory (the paper: up to 63 %)";
    Ok((section, vec![verdict(claim, holds, &shown)]))
}

/// S2.
fn time(
    scale: &Scale,
    clock: &SystemClock,
    progress: &mut dyn Progress,
    verdicts: &mut Vec<Verdict>,
) -> Result<Section> {
    let mut section = Section {
        title: "S2: time".into(),
        text: vec![
            "In memory, one run; all six databases are open and read the same keys in ten turns, and what is said beside `binary` is of \
             the same turn. The paper's index is decoded for every iterator and its windows are read block by block; here it \
             is built once per table. `1 per block` is the paper's own setting, 400-byte values in 400-byte blocks, so that \
             every entry is a block: the index is all there is."
                .into(),
        ],
        ..Section::default()
    };
    let arms: Vec<Arm> = vec![
        Arm::new("binary", IndexKind::Binary, 2),
        Arm::new("s-tree", IndexKind::STree, 2),
        Arm::new("sherry γ=0.5", IndexKind::SherryPlr, GAMMA_HALVES[0]),
        Arm::new("sherry γ=1", IndexKind::SherryPlr, GAMMA_HALVES[1]),
        Arm::new("sherry γ=2", IndexKind::SherryPlr, GAMMA_HALVES[2]),
        Arm::new("learned", IndexKind::Learned, 2),
    ];
    let usual = (Sizes::Fixed { key_bytes: 8, value_bytes: 64 }, 4096, scale.entries, "");
    let papers = (Sizes::Fixed { key_bytes: 8, value_bytes: 400 }, 400, scale.entries_small / 4, PAPERS);
    let mut ratios = Vec::new();
    for (sizes, block_bytes, entries, note) in [usual, papers] {
        for family in [Family::Uniform, Family::Lognormal, Family::Clustered] {
            let set = scale.set(&Keys::Family(family), entries, sizes)?;
            let arms: Vec<Arm> = arms.iter().map(|arm| arm.clone().block_bytes(block_bytes)).collect();
            let stored = Stored::create_all(&arms, &set, scale.directory.as_deref(), progress)?;
            let asks = [Ask::Found, Ask::FoundZipf, Ask::Absent];
            let inquiry = Inquiry { clock, set: &set, asks: &asks, effort: scale.effort() };
            // `binary` last: the others are held against it.
            let in_order: Vec<&Stored> = stored[1..].iter().chain(&stored[..1]).collect();
            let mut turns = inquiry.in_turns(&in_order, progress)?;
            turns.rotate_right(1);
            let beside_binary: Vec<f64> =
                turns.iter().map(|turns| 1.0 / turns.last_beside.reads.median).collect();
            let answers: Vec<Vec<Answer>> = turns.into_iter().map(|turns| turns.answers).collect();
            let mut table = Table::new(
                format!("{family}{note}"),
                &[
                    "index",
                    "found M/s",
                    "beside binary",
                    "p50 ns",
                    "p99 ns",
                    "Zipf M/s",
                    "absent M/s",
                    "blocks per found read",
                    "B/block",
                ],
            );
            for ((stored, answer), beside) in stored.iter().zip(&answers).zip(&beside_binary) {
                let [found, zipf, absent] = [0, 1, 2].map(|ask| &answer[ask]);
                table.row(
                    &stored.arm.name,
                    [
                        cell(&found.per_second, 1e6),
                        format!("{beside:.2}×"),
                        cell(&found.p50_ns, 1.0),
                        cell(&found.p99_ns, 1.0),
                        cell(&zipf.per_second, 1e6),
                        cell(&absent.per_second, 1e6),
                        format!("{:.4}", found.blocks_probed),
                        digits(stored.index_bytes_per_block()),
                    ],
                );
            }
            section.tables.push(table);
            let rate = |answers: &[Answer]| answers[0].per_second.clone();
            section.bars.push(Bars {
                title: format!("Found reads: {family}{note}"),
                quantity: Quantity::Rate("reads"),
                better: "higher",
                bars: arms
                    .iter()
                    .zip(&answers)
                    .map(|(arm, answers)| (arm.name.clone(), rate(answers)))
                    .collect(),
            });
            // After `binary` and `s-tree`.
            ratios.push((beside_binary[2 + SAID], format!("{family}{note}")));
        }
    }
    let (papers, usual): (Vec<_>, Vec<_>) = ratios.into_iter().partition(|(_, name)| name.contains(PAPERS));
    for (ratios, pairs) in [
        (usual, format!("{} pairs of 8 + 64 bytes in blocks of 4 KiB", scale.entries)),
        (
            papers,
            format!("{} pairs of 8 + 400 bytes, 1 per block, the paper's setting", scale.entries_small / 4),
        ),
    ] {
        let list: Vec<String> = ratios.iter().map(|(ratio, name)| format!("{name} {ratio:.2}×")).collect();
        verdicts.push(verdict(
            &format!(
                "`sherry-plr` with γ = 0.5 reads no more than 5 % slower than `binary`, {pairs} (the paper: 8 to 50 % slower than RocksDB)"
            ),
            ratios.iter().all(|(ratio, _)| *ratio >= 0.95),
            &format!("sherry / binary: {}", list.join(", ")),
        ));
    }
    Ok(section)
}

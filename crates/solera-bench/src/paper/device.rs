//! DobLIX's experiment D1 with data larger than memory, by direct reads from the device: `run`.
//!
//! It measures lookups of present keys for every index kind but interpolation and Eytzinger, in a
//! tree of one run. It measures `learned` also in the tree that a load in random order leaves. The
//! verdict asks at most 1.02 device reads per lookup of `learned`, in both trees. The memory budget
//! is an eighth of the data, at least 1 MiB. `padding` writes a paragraph: how many device bytes a
//! block touches, as blocks lie now, and if they were padded to 4096 bytes.
//!
//! What must hold: every answer is checked; a wrong one is an error. If the engine refuses direct
//! reads, the section ends with a sentence that says so, and without an error.
//!
//! Caller: `paper::doblix`.

use super::{
    Effort, Scale,
    blocks::{self, TableBlocks},
    document::{Bars, Section, Table, Verdict, cell},
    formats::DataBlock,
    subject::{Arm, Ask, Inquiry, Subject},
    verdict,
};
use crate::{
    data::{Family, Keys, Sizes},
    report::number::Quantity,
    runner::{Error, Progress, Result},
};
use solera::{IndexKind, clock::SystemClock};

/// DobLIX's own sizes.
const SIZES: Sizes = Sizes::Fixed { key_bytes: 8, value_bytes: 64 };
/// Data are this many times the memory when reads go to the device.
const DATA_PER_MEMORY: u64 = 8;
/// The engine's smallest budget, in bytes.
const MEMORY_BYTES_LEAST: u64 = 1 << 20;

/// D1 from the device.
pub(super) fn run(
    kinds: &[Arm],
    scale: &Scale,
    clock: &SystemClock,
    progress: &mut dyn Progress,
    verdicts: &mut Vec<Verdict>,
) -> Result<Section> {
    let mut section = Section {
        title: "D1: read-only, data 8 times the memory, from the device (O_DIRECT)".into(),
        text: vec![format!(
            "{} pairs of 8 + 64 bytes; memory budget: an eighth of the data, filters and indexes in it. One read of the \
             device is one read call, of the device's own blocks that the data block touches: data blocks are not \
             padded to them. `read calls` and `device bytes` are the system's counts for this process \
             (/proc/self/io). `settled` is a tree as a random-order load leaves it, of several runs, where a \
             false positive of a filter is another read; the others are one run.",
            scale.entries_small
        )],
        ..Section::default()
    };
    for family in [Family::Uniform, Family::Clustered] {
        let set = scale.set(&Keys::Family(family), scale.entries_small, SIZES)?;
        let memory = (set.pairs.bytes() / DATA_PER_MEMORY).max(MEMORY_BYTES_LEAST);
        let mut arms: Vec<Arm> = kinds.to_vec();
        arms.retain(|arm| !["interpolation", "eytzinger"].contains(&&arm.name[..]));
        let mut databases = Vec::new();
        for (i, arm) in arms.iter().enumerate() {
            progress.at(
                &format!("{}: loading for the device, {}", set.name, arm.name),
                i as u64,
                arms.len() as u64,
            );
            let subject = Subject::create(arm, &set, scale.directory.as_deref())?;
            if arm.layout.index == IndexKind::Binary {
                section.text.push(padding(family, &blocks::of(&subject.directory(), &set)?));
            }
            databases.push(match subject.reopened_direct(memory) {
                Err(Error::Engine(solera::Error::Invalid(what))) => {
                    section.text.push(format!("Not measured: {what}."));
                    return Ok(section);
                }
                reopened => reopened?,
            });
        }
        let settled = Arm { name: "learned, settled".into(), ..Arm::new("", IndexKind::Learned, 64) };
        progress.at(&format!("{}: loading in random order", set.name), 0, 1);
        let subject = Subject::settled(&settled, &set, memory, scale.directory.as_deref())?;
        databases.push(subject.reopened_direct(memory)?);
        let effort =
            Effort { lookups: scale.lookups_cold, pass_s_max: 4.0 * scale.pass_s_max, ..scale.effort() };
        let inquiry = Inquiry { clock, set: &set, asks: &[Ask::Found], effort };
        let answers = inquiry.of_open(&databases, progress)?;
        let mut table = Table::new(
            format!("{family} keys, found reads, uniform"),
            &[
                "index",
                "K reads/s",
                "p50 µs",
                "p99 µs",
                "blocks looked into",
                "blocks read",
                "read calls",
                "device bytes",
                "runs",
            ],
        );
        let mut bars = Vec::new();
        for (subject, answer) in databases.iter().zip(&answers) {
            let answer = &answer[0];
            let told = |count: Option<f64>, decimals: usize| {
                count.map_or("–".to_owned(), |count| format!("{count:.decimals$}"))
            };
            table.row(
                &subject.arm.name,
                [
                    cell(&answer.per_second, 1e3),
                    cell(&answer.p50_ns, 1e3),
                    cell(&answer.p99_ns, 1e3),
                    format!("{:.4}", answer.blocks_probed),
                    format!("{:.4}", answer.blocks_read),
                    told(answer.read_calls, 4),
                    told(answer.device_bytes, 0),
                    subject.runs().to_string(),
                ],
            );
            bars.push((subject.arm.name.clone(), answer.per_second.clone()));
        }
        let reads = |name: &str| {
            let at = databases.iter().position(|subject| subject.arm.name == name);
            at.map_or(f64::NAN, |at| answers[at][0].read_calls.unwrap_or(answers[at][0].blocks_read))
        };
        let (one_run, settled) = (reads("learned"), reads("learned, settled"));
        verdicts.push(verdict(
            &format!("with data 8 times the memory a found read is at most 1.02 reads of the device ({family} keys)"),
            one_run <= 1.02 && settled <= 1.02,
            &format!("{one_run:.4} in one run, {settled:.4} as a random-order load leaves the tree"),
        ));
        section.tables.push(table);
        section.bars.push(Bars {
            title: format!("From the device: {family}"),
            quantity: Quantity::Rate("reads"),
            better: "higher",
            bars,
        });
    }
    Ok(section)
}

/// What blocks that begin anywhere cost against blocks that begin where the device's do.
fn padding(family: Family, tables: &[TableBlocks]) -> String {
    let blocks = || tables.iter().flat_map(|table| &table.blocks);
    let count = blocks().count().max(1) as f64;
    let mean = |bytes: &dyn Fn(&DataBlock) -> u64| blocks().map(bytes).sum::<u64>() as f64 / count;
    let touched = |unit: u64| {
        mean(&|block| (block.offset + block.size).next_multiple_of(unit) - block.offset / unit * unit)
    };
    let size = mean(&|block| block.size);
    let padded = mean(&|block| block.size.next_multiple_of(4096));
    format!(
        "Padding, {family} keys: data blocks of {size:.0} bytes on average touch {:.0} bytes of a device with blocks of 512, \
         {:.0} of one with blocks of 4096. Padded to 4096 they would touch {padded:.0} and the tables be {:.1} % larger \
         ({:.1} % of the blocks are a little longer than 4096, by the note that is not counted when a block is cut). \
         Either way it is one read: padding would save bytes of the device, not reads.",
        touched(512),
        touched(4096),
        100.0 * (padded / size - 1.0),
        100.0 * mean(&|block| u64::from(block.size > 4096)),
    )
}

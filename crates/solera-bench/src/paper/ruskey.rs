//! RusKey's experiment R1 without learners: `run_static`, lookups and updates under fixed run
//! limits and the closed form.
//!
//! `data`, `setting` and `closed_form` say what its databases are made of. Level 0 holds K₀ write
//! buffers whatever the arm: RusKey's K is that of the levels below.
//!
//! What must hold: the arms of one mix take missions in turns. Arms whose block caches differ by
//! more than 1 % are refused; a verdict says whether their memory was the same.
//!
//! Callers: `paper::mod`; `paper::lerp`, `camal`, `camal_learned`, `doblix_agent` and `transition`
//! take its setting and helpers.

use super::{
    Scale,
    document::{Bars, Section, Table, Verdict},
    foresight::Foresight,
    missions::{Measured, Memory, Site, Tenant},
    verdict,
};
use crate::{
    report::{
        Spread,
        number::{Quantity, bytes, digits},
    },
    runner::{Error, Progress, Result},
};
use solera::{Shape, clock::Clock};
use solera_tune::cost::{Budget, Candidate, Data, Mix, Model, Setting, Units, choose};

/// T.
const SIZE_RATIO: u32 = 10;
/// K₀ of every arm: the engine's default.
const LEVEL0_RUNS: u32 = 4;
/// M_b at a million entries of a thousand bytes.
const WRITE_BUFFER_BYTES: f64 = 262_144.0;
/// Bytes of a key and its value.
const ENTRY_BYTES: f64 = 1000.0;
/// Filter bits per key of every arm.
const FILTER_BITS: f64 = 8.0;
/// γ: shares of lookups.
const LOOKUPS: [f64; 3] = [0.9, 0.5, 0.1];
/// Entries at which the sizes above hold; write buffers shrink with the data, so that the levels
/// stay.
const ENTRIES: f64 = 1e6;
/// Tables of this many write buffers: each is synced when it is written, which takes a device as
/// long as writing a megabyte.
const TABLE_BUFFERS: u64 = 4;
/// Smallest tables: where write buffers are tiny, hundreds of tables would be looked at for each.
pub(super) const TABLE_BYTES_MIN: u64 = 256 << 10;
/// Smallest write buffer that the engine takes.
pub(super) const WRITE_BUFFER_BYTES_MIN: u64 = 4 << 10;

/// The fixed arms: name and run limits of the levels below level 0.
const FIXED: [(&str, &[u32]); 4] = [
    ("K = 1 (leveling)", &[1]),
    ("K = 5", &[5]),
    ("K = 10 (tiering)", &[10]),
    ("lazy leveling", &[10, 10, 1]),
];

/// How far filters of two arms may be apart, in bits per entry. Whole lines of small tables make
/// some difference.
const FILTER_BITS_APART_MAX: f64 = 1.5;

/// The data of R1 at this scale.
pub(super) fn data(scale: &Scale) -> Data {
    Data {
        entries: scale.entries_small as f64,
        entry_bytes: ENTRY_BYTES,
        block_bytes: 4096.0,
        scan_entries: 1.0,
    }
}

pub(super) fn setting(scale: &Scale, below: &[u32]) -> Setting {
    let write_buffer_bytes =
        ((WRITE_BUFFER_BYTES * scale.entries_small as f64 / ENTRIES) as u64).max(WRITE_BUFFER_BYTES_MIN);
    let run_limits = [LEVEL0_RUNS].into_iter().chain(below.iter().copied()).collect();
    let table_bytes = (TABLE_BUFFERS * write_buffer_bytes).max(TABLE_BYTES_MIN);
    let shape = Shape { size_ratio: SIZE_RATIO, run_limits, write_buffer_bytes, table_bytes };
    Setting { shape, filter_bits: FILTER_BITS, monkey: false, cache_bytes: 0.0 }
}

/// The run limits of the closed form for a mix.
pub(super) fn closed_form(scale: &Scale, model: &Model, mix: &Mix, cache_bytes: f64) -> Vec<u32> {
    let Setting { shape, filter_bits, monkey, .. } = setting(scale, &[1]);
    let buffer = shape.write_buffer_bytes;
    let budget = Budget {
        memory_bytes: buffer as f64 + filter_bits * model.data.entries / 8.0,
        cache_bytes,
        write_buffer_bytes: (buffer, buffer),
        level0_runs: Some(LEVEL0_RUNS),
        size_ratio: Some(SIZE_RATIO),
        filter_bits: Some(filter_bits),
        monkey,
        table_bytes: shape.table_bytes,
    };
    let price: fn(&Candidate) -> f64 = |candidate| candidate.ns;
    choose(model, mix, &budget, price).best.setting.shape.run_limits[1..].to_vec()
}

/// R1.
pub(super) fn run_static(
    scale: &Scale,
    clock: &dyn Clock,
    units: &Units,
    progress: &mut dyn Progress,
) -> Result<Vec<Section>> {
    let site = Site::new(data(scale), scale)?;
    let model = Model { data: site.data, units: units.clone() };
    let load = |name: &str, below: &[u32], progress: &mut dyn Progress| {
        let stage = format!("loading, {name}");
        Tenant::loaded(&site, &setting(scale, below), |done, of| progress.at(&stage, done, of))
    };
    let mut fixed = Vec::new();
    for (name, below) in FIXED {
        fixed.push((name.to_owned(), load(name, below, progress)?));
    }
    let (mut sections, mut foresight, mut verdicts) = (Vec::new(), Foresight::default(), Vec::new());
    for lookups in LOOKUPS {
        let mix = Mix::new([0.0, lookups, 0.0, 1.0 - lookups]).map_err(crate::Error::Config)?;
        let cache_bytes = fixed[0].1.setting.cache_bytes;
        let limits = closed_form(scale, &model, &mix, cache_bytes);
        let limits_text: Vec<String> = limits.iter().map(u32::to_string).collect();
        let name = format!("closed form, K = {}", limits_text.join(","));
        let mut arms: Vec<(String, Tenant)> = Vec::new();
        for (name, tenant) in &fixed {
            arms.push((name.clone(), tenant.fork()?));
        }
        arms.push((name.clone(), load(&name, &limits, progress)?));
        one_cache(&arms)?;
        let operations = scale.mission_operations * scale.missions as u64;
        let foreseen: Vec<_> =
            arms.iter().map(|(_, tenant)| tenant.foresee(&model, &mix, operations)).collect();
        let mut measured = vec![Measured::default(); arms.len()];
        let mut missions: Vec<Vec<f64>> = vec![Vec::new(); arms.len()];
        let stage = format!("missions, {mix}");
        for mission in 0..scale.missions {
            progress.at(&stage, mission as u64, scale.missions as u64);
            for turn in 0..arms.len() {
                let arm = (turn + mission) % arms.len();
                let did = arms[arm].1.run(clock, &mix, scale.mission_operations)?;
                measured[arm].add(&did);
                missions[arm].push(did.us());
            }
        }
        let mut table = Table::new(
            format!("γ = {lookups}: {} missions of {} operations", scale.missions, scale.mission_operations),
            &[
                "arm",
                "µs per operation",
                "blocks per operation",
                "foreseen",
                "foreseen from nothing",
                "longest write, ms",
            ],
        );
        let mut bars = (Vec::new(), Vec::new());
        for (((name, _), did), ((found, blind), missions)) in
            arms.iter().zip(&measured).zip(foreseen.iter().zip(missions))
        {
            let blocks = did.blocks(&site.data);
            let (found, blind) = (model.blocks(&mix, found), model.blocks(&mix, blind));
            foresight.add(format!("{name}, γ = {lookups}"), found, blind, blocks);
            table.row(
                name.clone(),
                [did.us(), blocks, found, blind, did.write_ns_max as f64 / 1e6].map(digits),
            );
            bars.0.push((name.clone(), Spread::of(missions)));
            bars.1.push((name.clone(), Spread::of(vec![blocks])));
        }
        let memory: Vec<Memory> = arms.iter().map(|(_, arm)| arm.memory()).collect();
        verdicts.push(memory_verdict(lookups, &memory));
        let mut memory_table = Table::new(
            format!("γ = {lookups}: memory of the arms after the last mission"),
            &["arm", "write buffer", "block cache", "filters", "filter bits per entry"],
        );
        for ((name, _), of) in arms.iter().zip(&memory) {
            let [buffer, cache, filters] =
                [of.write_buffer_bytes, of.cache_bytes, of.filter_bytes].map(bytes);
            memory_table.row(name.clone(), [buffer, cache, filters, digits(of.filter_bits_per_entry)]);
        }
        let (closed, others) = measured.split_last().expect("the closed form is an arm");
        for (what, of) in [
            ("time", (|did: &Measured, _: &Data| did.us()) as fn(&Measured, &Data) -> f64),
            ("blocks", |did, data| did.blocks(data)),
        ] {
            let best = others.iter().map(|did| of(did, &site.data)).fold(f64::INFINITY, f64::min);
            let ratio = of(closed, &site.data) / best;
            verdicts.push(verdict(
                &format!("γ = {lookups}: the closed form is within 5 % of the best fixed arm in {what}"),
                ratio <= 1.05,
                &format!("{:.0} % of it", ratio * 100.0),
            ));
        }
        sections.push(Section {
            title: format!("R1, γ = {lookups}"),
            text: vec![format!(
                "Lookups of keys that are there {:.0} %, updates {:.0} %.",
                lookups * 100.0,
                (1.0 - lookups) * 100.0
            )],
            tables: vec![table, memory_table],
            bars: vec![
                Bars {
                    title: format!("γ = {lookups}: time per operation, by mission"),
                    quantity: Quantity::Plain("µs"),
                    better: "lower",
                    bars: bars.0,
                },
                Bars {
                    title: format!("γ = {lookups}: blocks per operation"),
                    quantity: Quantity::Plain("blocks"),
                    better: "lower",
                    bars: bars.1,
                },
            ],
            ..Section::default()
        });
    }
    sections.insert(0, foresight.section(verdicts));
    sections.insert(1, conditions(&site, &fixed[0].1));
    Ok(sections)
}

/// How far block caches may differ, as a share of the smallest: what rounding and indexes of other
/// sizes come to.
const CACHES_DIFFER_MAX: f64 = 0.01;

/// Refuses arms whose block caches differ: what one saves by its shape, another would save by its
/// cache.
fn one_cache(arms: &[(String, Tenant)]) -> Result<()> {
    let bytes: Vec<u64> = arms.iter().map(|(_, arm)| arm.memory().cache_bytes).collect();
    let (least, most) = bytes.iter().fold((u64::MAX, 0), |(least, most), &of| (least.min(of), most.max(of)));
    if most.saturating_sub(least) as f64 <= CACHES_DIFFER_MAX * least as f64 {
        return Ok(());
    }
    let told = arms.iter().zip(&bytes).map(|((name, _), bytes)| format!("{name}: {bytes} bytes"));
    Err(Error::Config(format!("the arms' block caches differ: {}", told.collect::<Vec<_>>().join(", "))))
}

/// Whether the arms had the same memory at the end.
fn memory_verdict(lookups: f64, memory: &[Memory]) -> Verdict {
    let range = |of: fn(&Memory) -> f64| {
        let values = memory.iter().map(of);
        (values.clone().fold(f64::INFINITY, f64::min), values.fold(0.0, f64::max))
    };
    let (cache, bits) = (range(|of| of.cache_bytes as f64), range(|of| of.filter_bits_per_entry));
    let buffers = range(|of| of.write_buffer_bytes as f64);
    let equal = cache.0 == cache.1 && buffers.0 == buffers.1 && bits.1 - bits.0 <= FILTER_BITS_APART_MAX;
    let figures = format!(
        "caches of {} to {}, write buffers of {} to {}, filters of {} to {} bits per entry",
        bytes(cache.0 as u64),
        bytes(cache.1 as u64),
        bytes(buffers.0 as u64),
        bytes(buffers.1 as u64),
        digits(bits.0),
        digits(bits.1)
    );
    verdict(&format!("γ = {lookups}: the arms have the same memory"), equal, &figures)
}

/// How the data and the memory were.
fn conditions(site: &Site, tenant: &Tenant) -> Section {
    let shape = &tenant.setting.shape;
    Section {
        title: "Conditions".into(),
        text: vec![
            format!(
                "{} entries of {} bytes, uncompressed, four to a block; write buffer {} bytes, T = {}, K₀ = {}, filters of {} \
                 bits per key, equal in all levels; the block cache is {:.0} KiB in every arm.",
                site.data.entries,
                site.data.entry_bytes,
                shape.write_buffer_bytes,
                shape.size_ratio,
                LEVEL0_RUNS,
                FILTER_BITS,
                tenant.setting.cache_bytes / 1024.0,
            ),
            how(site),
        ],
        ..Section::default()
    }
}

/// What is counted and timed.
pub(super) fn how(site: &Site) -> String {
    format!(
        "Flushes and merges are done at once by the thread that writes, so that time per operation is all work per operation. \
         Tables are read {}. Blocks per operation: blocks that reads read from files, and blocks' worth of bytes \
         that flushes and merges read and wrote; the log is not counted. Blocks are the primary measure: they do not \
         depend on what else the machine did.",
        if site.is_counted() {
            "from memory, at the prices of a device (60 µs for a random block): times are counted, not measured"
        } else if site.direct {
            "past the system's cache (O_DIRECT)"
        } else {
            "through the system's cache: times are of copies, not of a device"
        }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arms_of_unequal_memory_are_marked() {
        let arm = Memory {
            write_buffer_bytes: 4096,
            cache_bytes: 1 << 20,
            filter_bytes: 1000,
            filter_bits_per_entry: 8.5,
        };
        assert!(memory_verdict(0.5, &[arm; 3]).holds);
        for other in [
            Memory { cache_bytes: 2 << 20, ..arm },
            Memory { write_buffer_bytes: 8192, ..arm },
            Memory { filter_bits_per_entry: 12.0, ..arm },
        ] {
            assert!(!memory_verdict(0.5, &[arm, other, arm]).holds, "{other:?}");
        }
    }
}

//! `solera cost`: what shapes of the tree cost under a workload on this machine, which is the
//! cheapest, and why.
//!
//! It measures unit costs here (`solera_tune::cost`), or reads them from a file, and walks
//! candidate shapes through the model. `why` says what the largest term of a shape means.
//!
//! What must hold: what is no workload is refused with the reason. A file of unit costs is written
//! only over its like.
//!
//! Caller: `main`.

use super::scratch::Scratch;
use crate::{
    failure::{Failure, Outcome, Result},
    given::beginning,
    output::{print_json, print_text},
    own, units,
};
use serde_json::{Value, json};
use solera::vfs::posix::PosixFs;
use solera_tune::cost::{
    Budget, Candidate, Choice, Data, Family, Mix, Model, SIZE_RATIO_MAX, Term, Units, choose, probe::probe,
};
use std::{fmt::Write as _, path::PathBuf};

/// Most data for so much memory: some ten thousand write buffers, through whose flushes the model
/// walks for each shape.
const DATA_PER_MEMORY_MAX: f64 = 32768.0;

/// Predict what shapes of the tree cost under a workload on this machine, and name the cheapest
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Nothing is loaded: costs come from the model of docs/decisions/0012, which follows the engine's compactions from \
the load of all entries in random order until as many have been written again. Keys are taken to be used evenly.\n\n\
The machine is measured for two seconds first: reads past the system's cache if the file system allows them. \
--units FILE reads what an earlier run wrote with --save-units, so that a machine can be described once.")]
pub(crate) struct Cost {
    /// Shares of lookups of absent keys, lookups of present keys, scans and writes: four numbers
    /// that sum up to 1 or to 100
    #[arg(long, value_name = "V,R,Q,W", allow_hyphen_values = true)]
    workload: Mix,
    /// Keys in the database
    #[arg(long, value_name = "N", default_value = "10M", value_parser = super::bench::count)]
    entries: usize,
    /// Bytes of a key and its value
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = units::whole::<u64>(1, u64::MAX))]
    entry_bytes: u64,
    /// Entries that a scan returns
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = units::whole::<u64>(1, u64::MAX))]
    scan_entries: u64,
    /// Memory for one write buffer and all filters together, such as 64M
    #[arg(long, value_name = "SIZE", default_value = "32M", value_parser = units::parse_bytes)]
    memory: u64,
    /// Memory of the block cache
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = units::parse_bytes)]
    cache: u64,
    /// Count blocks read and merged instead of time
    #[arg(long)]
    blocks: bool,
    /// Run limit of level 0 [default: chosen]
    #[arg(long, value_name = "K0", value_parser = units::whole::<u32>(1, 64))]
    level0: Option<u32>,
    /// Size ratio [default: chosen]
    #[arg(long, value_name = "T", value_parser = units::whole::<u32>(2, 100))]
    size_ratio: Option<u32>,
    /// Where to measure the file system [default: the system's place for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Take the machine's unit costs from this file instead of measuring them
    #[arg(long, value_name = "FILE")]
    units: Option<PathBuf>,
    /// Write the machine's unit costs to this file
    #[arg(long, value_name = "FILE", conflicts_with = "units")]
    save_units: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What a file of `--save-units` is called in messages.
const UNIT_COSTS: &str = "a file of unit costs";

/// Whether a file that begins so is one of `--save-units`.
fn is_unit_costs(beginning: &[u8]) -> bool {
    serde_json::from_slice::<Units>(beginning).is_ok()
}

impl Cost {
    pub(crate) fn run(self) -> Result<Outcome> {
        self.validate()?;
        let units = self.unit_costs()?;
        let data = Data {
            entries: self.entries as f64,
            entry_bytes: self.entry_bytes as f64,
            block_bytes: 4096.0,
            scan_entries: self.scan_entries as f64,
        };
        let model = Model { data, units };
        let price = if self.blocks {
            |candidate: &Candidate| candidate.blocks
        } else {
            |candidate: &Candidate| candidate.ns
        };
        let choice = choose(&model, &self.workload, &self.budget(), price);
        if self.json {
            print_json(&self.to_json(&model, &choice))?;
        } else {
            print_text(&self.to_text(&model, &choice, price))?;
        }
        Ok(Outcome::Done)
    }

    fn validate(&self) -> Result<()> {
        let usage = |what: &str| Err(Failure::Usage(what.into()));
        if self.entries == 0 || self.entry_bytes == 0 || self.scan_entries == 0 {
            return usage("--entries, --entry-bytes and --scan-entries must be at least 1");
        }
        if !(64 << 10..=1 << 50).contains(&self.memory) {
            return usage("--memory must be 64K to 1024T: one write buffer and some filters");
        }
        // The model walks through every flush of a load, for each of some hundred shapes.
        if self.entries as f64 * self.entry_bytes as f64 / self.memory as f64 > DATA_PER_MEMORY_MAX {
            return Err(Failure::Usage(format!(
                "the data is more than {DATA_PER_MEMORY_MAX} times --memory, and pricing its shapes would take minutes: give more \
                 --memory, or less --entries or --entry-bytes"
            )));
        }
        Ok(())
    }

    fn budget(&self) -> Budget {
        Budget {
            memory_bytes: self.memory as f64,
            cache_bytes: self.cache as f64,
            write_buffer_bytes: (
                (self.memory / 8).clamp(16 << 10, 1 << 20),
                (self.memory * 3 / 4).min(32 << 20),
            ),
            level0_runs: self.level0,
            size_ratio: self.size_ratio,
            filter_bits: None,
            monkey: true,
            table_bytes: 16 << 20,
        }
    }

    fn unit_costs(&self) -> Result<Units> {
        if let Some(path) = &self.units {
            let text = beginning(path)?;
            let none = |why: String| Failure::Usage(format!("{} holds no unit costs: {why}", path.display()));
            let units: Units = serde_json::from_slice(&text).map_err(|error| none(error.to_string()))?;
            return units.is_sane().then_some(units).ok_or_else(|| {
                none("each must be a number of nanoseconds, not negative and less than a minute".into())
            });
        }
        // Before the measurement, which takes a while.
        self.save_units.as_deref().map_or(Ok(()), |path| own::check(path, UNIT_COSTS, is_unit_costs))?;
        // It goes when a signal ends the measurement.
        let scratch = Scratch::new(self.dir.as_deref())?;
        let units = probe(&PosixFs::new(), &scratch.path())?;
        if let Some(path) = &self.save_units {
            let text = serde_json::to_string_pretty(&units).map_err(std::io::Error::from)?;
            own::write(path, UNIT_COSTS, is_unit_costs, (text + "\n").as_bytes())?;
        }
        Ok(units)
    }

    fn to_json(&self, model: &Model, choice: &Choice) -> Value {
        json!({
            "format": 1,
            "workload": self.workload,
            "data": model.data,
            "memory_bytes": self.memory,
            "cache_bytes": self.cache,
            "units": model.units,
            "size_ratio_closed_form": choice.size_ratio_form,
            "filter_bits_closed_form": choice.filter_bits_form,
            "best": candidate_json(&choice.best),
            "terms": choice.terms,
            "candidates": choice.candidates.iter().map(candidate_json).collect::<Vec<_>>(),
        })
    }

    fn to_text(&self, model: &Model, choice: &Choice, price: fn(&Candidate) -> f64) -> String {
        let mut out = String::new();
        let (data, costs) = (&model.data, &model.units);
        let _ = writeln!(
            out,
            "Workload  {}\nData      {} entries of {}, {:.0} in a block of {}, scans of {}\nMemory    {} for a write buffer \
             and filters, {} for the block cache",
            self.workload,
            units::count(self.entries as u64),
            units::bytes(self.entry_bytes),
            data.block_entries(),
            units::bytes(data.block_bytes as u64),
            self.scan_entries,
            units::bytes(self.memory),
            units::bytes(self.cache),
        );
        let _ = writeln!(
            out,
            "Machine   block read {}{}, page written {}, page merged in {}, run asked {}, entry merged {}\n",
            time(costs.read_ns(data.block_stored_bytes())),
            if costs.direct_reads { "" } else { " (through the system's cache)" },
            time(costs.write_ns_per_page),
            time(costs.read_ahead_ns_per_page),
            time(costs.run_probe_ns),
            time(costs.merge_ns_per_entry),
        );
        out.push_str(
            "Shape                    T  run limits             buffer  bits/key  blocks/op    time/op\n",
        );
        for family in [Family::Leveling, Family::LazyLeveling, Family::Tiering, Family::Joint] {
            let of = choice.candidates.iter().filter(|candidate| candidate.family == family);
            if let Some(best) = of.min_by(|a, b| price(a).total_cmp(&price(b))) {
                row(&mut out, family.name(), best);
            }
        }
        row(&mut out, "cheapest", &choice.best);
        let _ = writeln!(out, "\nFilters of the cheapest: {}.", filters(&choice.best));
        let _ = writeln!(
            out,
            "The closed forms say T = {:.2}{} and {:.1} bits per key; the neighbours were priced by the model.\n\nWhat the \
             cheapest shape's cost is made of:",
            choice.size_ratio_form,
            if choice.size_ratio_form >= SIZE_RATIO_MAX.into() { " or more" } else { "" },
            choice.filter_bits_form
        );
        let weight = |term: &Term| if self.blocks { term.blocks } else { term.ns };
        let sum: f64 = choice.terms.iter().map(weight).sum();
        let mut terms: Vec<&Term> = choice.terms.iter().filter(|term| weight(term) > 0.0).collect();
        terms.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
        for term in &terms {
            let _ = writeln!(
                out,
                "  {:<30} {:>4.0} %  {:>8.3} blocks  {:>9}",
                term.name,
                weight(term) / sum * 100.0,
                term.blocks,
                time(term.ns)
            );
        }
        if let Some(most) = terms.first() {
            let _ = writeln!(out, "{}", why(most.name, &choice.best));
        }
        out
    }
}

/// What the largest term says about the shape.
fn why(term: &str, best: &Candidate) -> String {
    let work = &best.cost.work_per_write;
    match term {
        "writes: merges" => {
            let dearest = work.written.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
            let (level, passes) = dearest.map_or((0, 0.0), |(level, passes)| (level, *passes));
            format!(
                "Merges dominate: an entry is written {:.1} times, {passes:.1} of them in level {level}. More runs per \
                 level or a larger write buffer would make them cheaper and reads dearer.",
                work.written_total() + work.flushed
            )
        }
        "scans" => format!(
            "Scans dominate: each looks into {:.1} runs and reads {:.1} blocks. Fewer runs, so fewer levels and lower \
             run limits, would make them cheaper and writes dearer.",
            best.cost.reads.scan.probes, best.cost.reads.scan.blocks_read
        ),
        "found lookups" => format!(
            "Found lookups dominate: {:.2} blocks each, of which no shape saves the first; only a cache does.",
            best.cost.reads.found.blocks_read
        ),
        "absent lookups" => format!(
            "Absent lookups dominate: they ask {:.1} runs and read {:.3} blocks. More filter bits or fewer runs would \
             make them cheaper.",
            best.cost.reads.absent.probes, best.cost.reads.absent.blocks_read
        ),
        _ => "Writing log and memtable dominates: no shape changes that.".to_owned(),
    }
}

fn row(out: &mut String, name: &str, candidate: &Candidate) {
    let shape = &candidate.setting.shape;
    let limits: Vec<String> = shape.run_limits.iter().map(u32::to_string).collect();
    let _ = writeln!(
        out,
        "{name:<16} {:>9}  {:<20} {:>8}  {:>8.1}  {:>9.3}  {:>9}",
        shape.size_ratio,
        limits.join(","),
        units::bytes(shape.write_buffer_bytes),
        candidate.setting.filter_bits,
        candidate.blocks,
        time(candidate.ns)
    );
}

/// `14.2, 9.0, 7.8 bits per key in levels 0 to 2, 8 in the mean`.
fn filters(candidate: &Candidate) -> String {
    let by_level = &candidate.cost.filter_bits;
    if candidate.setting.filter_bits == 0.0 {
        return "none".into();
    }
    let bits: Vec<String> = by_level.iter().map(|bits| format!("{bits:.1}")).collect();
    let mean = candidate.setting.filter_bits;
    format!(
        "{} bits per key in levels 0 to {}, {mean} in the mean",
        bits.join(", "),
        bits.len().saturating_sub(1)
    )
}

fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.1} µs", ns / 1e3),
        ns => format!("{:.1} ms", ns / 1e6),
    }
}

fn candidate_json(candidate: &Candidate) -> Value {
    let (shape, cost) = (&candidate.setting.shape, &candidate.cost);
    json!({
        "family": candidate.family,
        "size_ratio": shape.size_ratio,
        "run_limits": shape.run_limits,
        "write_buffer_bytes": shape.write_buffer_bytes,
        "filter_bits_per_key": candidate.setting.filter_bits,
        "filter_bits_per_key_by_level": cost.filter_bits,
        "blocks_per_operation": candidate.blocks,
        "ns_per_operation": candidate.ns,
        "blocks_per_absent_lookup": cost.reads.absent.blocks_read,
        "blocks_per_found_lookup": cost.reads.found.blocks_read,
        "blocks_per_scan": cost.reads.scan.blocks_read,
        "entries_merged_per_write": cost.work_per_write.written_total(),
    })
}

//! What a run found out, as plain data: `Report`, with a `SetReport` for each data set and an
//! `ArmReport` for each index kind.
//!
//! `Phase` is what is measured; a `Spread` is a number measured several times, with median, least
//! and greatest; it computes quartiles. `to_text`, `to_json` and `to_html` print a report.
//!
//! What must hold: units are in the names of fields. Text and page print the same rows.
//!
//! Callers: `runner` and `arm` fill it; `solera bench` prints it. `paper` and `solera-bench-peers`
//! use `Spread`, numbers and charts; `solera explain` the page.

pub mod number;
mod rows;
mod text;
pub mod chart;
pub mod lines;
pub mod html;
mod verdict;
pub mod picture;

use crate::machine::Machine;
use serde::Serialize;

/// Everything a run found out, and under which conditions.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of this structure.
    pub format: u32,
    /// What was measured.
    pub engine: EngineFacts,
    /// On what.
    pub machine: Machine,
    /// How.
    pub settings: Settings,
    /// When the run began, in seconds since 1970.
    pub started_unix_s: u64,
    /// How long it took, in seconds.
    pub run_s: f64,
    /// Cores that other programs kept busy meanwhile, on average.
    pub others_cores: Option<f64>,
    /// The data sets, in the order in which they were run.
    pub sets: Vec<SetReport>,
}

/// Which engine was measured.
#[derive(Clone, Debug, Serialize)]
pub struct EngineFacts {
    /// Its version.
    pub version: String,
    /// The commit of the source tree, `-dirty` if it had changes; absent if there was no tree.
    pub commit: Option<String>,
    /// Whether it was compiled with debug assertions; such numbers mean nothing.
    pub debug_build: bool,
}

/// How it was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// The command that made the report.
    pub command: String,
    /// Probes per throughput pass.
    pub lookups: usize,
    /// Probes per latency pass, each timed for itself.
    pub lookups_timed: usize,
    /// Scans per pass.
    pub scans: usize,
    /// Entries per scan.
    pub scan_entries: usize,
    /// Repeats of every read phase, interleaved over the index kinds.
    pub repeats: usize,
    /// A pass ends when this is over, whatever it had still to do, in seconds.
    pub pass_s_max: f64,
    /// Client threads.
    pub client_threads: usize,
    /// Background threads of each database.
    pub background_threads: usize,
    /// When writes are synced.
    pub durability: String,
    /// Exponent of the Zipf-distributed reads.
    pub zipf_exponent: f64,
    /// Seed of data and probes.
    pub seed: u64,
    /// Where the databases were.
    pub directory: String,
    /// The file system there.
    pub filesystem: Option<String>,
    /// Cost of one look at the clock, in nanoseconds; contained in every percentile.
    pub clock_ns: f64,
    /// What happened before the first repeat.
    pub warm_up: String,
}

/// One data set.
#[derive(Clone, Debug, Serialize)]
pub struct SetReport {
    /// Its short name.
    pub name: String,
    /// What it is.
    pub about: String,
    /// Pairs loaded.
    pub entries: u64,
    /// Bytes of all keys.
    pub key_bytes: u64,
    /// Bytes of all values.
    pub value_bytes: u64,
    /// Keys held out, which absent reads ask for.
    pub absent_keys: u64,
    /// The memory budget of each database, in bytes.
    pub memory_budget_bytes: u64,
    /// Target size of a block, in bytes.
    pub block_bytes: u32,
    /// How blocks are compressed.
    pub compression: String,
    /// One report per index kind.
    pub arms: Vec<ArmReport>,
    /// Why traces lack operations, if any do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trace_failures: Vec<String>,
}

/// One data set under one index kind.
#[derive(Clone, Debug, Serialize)]
pub struct ArmReport {
    /// The name of the index kind.
    pub index: String,
    /// The load.
    pub load: Load,
    /// What it left behind.
    pub size: Size,
    /// The read phases.
    pub phases: Vec<PhaseReport>,
}

/// One load in random order. It is done once per index kind and not repeated.
#[derive(Clone, Debug, Serialize)]
pub struct Load {
    /// Pairs written.
    pub puts: u64,
    /// From the first put to the return of the last, in seconds.
    pub load_s: f64,
    /// Puts per second in that time.
    pub puts_per_s: f64,
    /// What flushing and compacting the rest took after it, in seconds.
    pub settle_s: f64,
    /// What compacting everything to one run took after that, in seconds, if it was done.
    pub compact_s: Option<f64>,
    /// Time that puts had to wait for background work, in all, in microseconds.
    pub stall_us_total: u64,
    /// The longest such wait, in microseconds.
    pub stall_us_max: u64,
    /// Bytes written to the log, up to settling.
    pub log_bytes: u64,
    /// Bytes written by flushes, up to settling.
    pub flush_bytes: u64,
    /// Bytes written by compactions, up to settling.
    pub compaction_bytes: u64,
    /// Bytes written to tables and log, per byte of keys and values.
    pub write_amplification: f64,
}

/// The database as the read phases found it.
#[derive(Clone, Debug, Serialize)]
pub struct Size {
    /// Bytes of all tables.
    pub table_bytes: u64,
    /// Tables.
    pub tables: u64,
    /// Runs at each level, from level 0.
    pub runs_per_level: Vec<usize>,
    /// Bytes of all indexes, in memory.
    pub index_file_bytes: u64,
    /// The same per key.
    pub index_file_bytes_per_key: f64,
    /// Bytes of all filters, in memory.
    pub filter_file_bytes: u64,
    /// The same per key.
    pub filter_file_bytes_per_key: f64,
    /// Bytes of blocks in the cache after the last phase.
    pub block_cache_bytes: u64,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Reads of present keys, each equally likely.
    FoundUniform,
    /// Reads of present keys, Zipf-distributed.
    FoundZipf,
    /// Reads of keys that were never written.
    Absent,
    /// Short scans from present keys.
    Scan,
    /// A scan over everything; its operations are entries.
    FullScan,
}

impl Phase {
    /// Every phase, in the order in which they run.
    pub const ALL: [Phase; 5] =
        [Phase::FoundUniform, Phase::FoundZipf, Phase::Absent, Phase::Scan, Phase::FullScan];

    /// What an operation of this phase is called, in the plural.
    pub fn operations(self) -> &'static str {
        match self {
            Phase::FoundUniform | Phase::FoundZipf | Phase::Absent => "reads",
            Phase::Scan => "scans",
            Phase::FullScan => "entries",
        }
    }
}

/// One phase of one arm, over all repeats.
#[derive(Clone, Debug, Serialize)]
pub struct PhaseReport {
    /// Which.
    pub phase: Phase,
    /// Operations of all throughput passes together.
    pub operations: u64,
    /// Operations per second.
    pub per_second: Spread,
    /// Half of the operations took no longer, in nanoseconds, one look at the clock included.
    pub p50_ns: Option<Spread>,
    /// 99 % of the operations took no longer, in nanoseconds, one look at the clock included.
    pub p99_ns: Option<Spread>,
    /// Data blocks looked into, per operation of the throughput passes.
    pub blocks_probed_per_operation: Option<f64>,
    /// Data blocks read from a file, per operation of the throughput passes.
    pub blocks_read_per_operation: Option<f64>,
}

/// A number measured several times.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The middle one (the mean of the middle two if they are even in number).
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// All, in the order of measurement.
    pub repeats: Vec<f64>,
}

impl Spread {
    /// The spread of at least one number.
    pub fn of(repeats: Vec<f64>) -> Self {
        let mut sorted = repeats.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Spread { median: (low + high) / 2.0, min: sorted[0], max: sorted[sorted.len() - 1], repeats }
    }

    /// The lower and the upper quartile, interpolated between the nearest repeats.
    pub fn quartiles(&self) -> (f64, f64) {
        let mut sorted = self.repeats.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| {
            let place = share * (sorted.len() - 1) as f64;
            let (below, above) = (sorted[place as usize], sorted[place.ceil() as usize]);
            below + (above - below) * place.fract()
        };
        (at(0.25), at(0.75))
    }
}

impl Report {
    /// The report as aligned tables.
    pub fn to_text(&self) -> String {
        text::render(self)
    }

    /// The report as JSON, on one line.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a report is plain data")
    }

    /// The report as a web page that needs nothing else: charts and tables, light and dark.
    pub fn to_html(&self) -> String {
        html::render(self)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A report with numbers of every size in it.
    pub(crate) fn example() -> Report {
        let spread = |x: f64| Spread::of(vec![x * 0.98, x, x * 1.05]);
        let phase = |phase, rate: f64, blocks: Option<f64>| PhaseReport {
            phase,
            operations: 1_500_000,
            per_second: spread(rate),
            p50_ns: (phase != Phase::FullScan).then(|| spread(0.9e9 / rate)),
            p99_ns: (phase != Phase::FullScan).then(|| spread(2.5e9 / rate)),
            blocks_probed_per_operation: blocks,
            blocks_read_per_operation: blocks.map(|_| 0.0),
        };
        let arm = |index: &str, speed: f64| ArmReport {
            index: index.into(),
            load: Load {
                puts: 2_000_000,
                load_s: 2.5,
                puts_per_s: 800_000.0 * speed,
                settle_s: 0.8,
                compact_s: Some(0.4),
                stall_us_total: 1200,
                stall_us_max: 300,
                log_bytes: 170_000_000,
                flush_bytes: 150_000_000,
                compaction_bytes: 300_000_000,
                write_amplification: 4.3,
            },
            size: Size {
                table_bytes: 148_000_000,
                tables: 9,
                runs_per_level: vec![0, 1],
                index_file_bytes: 100_000,
                index_file_bytes_per_key: 0.05,
                filter_file_bytes: 2_500_000,
                filter_file_bytes_per_key: 1.25,
                block_cache_bytes: 150_000_000,
            },
            phases: vec![
                phase(Phase::FoundUniform, 1.4e6 * speed, Some(1.004)),
                phase(Phase::FoundZipf, 1.9e6 * speed, Some(1.003)),
                phase(Phase::Absent, 5.2e6 * speed, Some(0.0104)),
                phase(Phase::Scan, 9.1e4 * speed, None),
                phase(Phase::FullScan, 1.7e7 * speed, None),
            ],
        };
        Report {
            format: 1,
            engine: EngineFacts {
                version: "0.1.0".into(),
                commit: Some("0123456789ab".into()),
                debug_build: false,
            },
            machine: Machine {
                cpu_model: Some("Example <CPU> & Co".into()),
                cores: 2,
                memory_bytes: Some(16 << 30),
                system: "linux x86_64".into(),
            },
            settings: Settings {
                command: "solera bench --n 2000000".into(),
                lookups: 500_000,
                lookups_timed: 125_000,
                scans: 10_000,
                scan_entries: 100,
                repeats: 3,
                pass_s_max: 4.0,
                client_threads: 1,
                background_threads: 1,
                durability: "buffered".into(),
                zipf_exponent: 0.99,
                seed: 1,
                directory: "/tmp".into(),
                filesystem: Some("ext4".into()),
                clock_ns: 21.5,
                warm_up: "one full scan and one pass of uniform reads".into(),
            },
            started_unix_s: 1_790_000_000,
            run_s: 61.5,
            others_cores: Some(0.02),
            sets: vec![SetReport {
                name: "uniform 2 M".into(),
                about: "generated: uniform 8-byte keys, 64-byte values".into(),
                entries: 2_000_000,
                key_bytes: 16_000_000,
                value_bytes: 128_000_000,
                absent_keys: 250_000,
                memory_budget_bytes: 288 << 20,
                block_bytes: 4096,
                compression: "lz4".into(),
                arms: vec![arm("binary", 1.0), arm("doblix-pla", 1.1), arm("doblix-pra", 1.12)],
                trace_failures: Vec::new(),
            }],
        }
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(
            Spread::of(vec![3.0, 1.0, 2.0]),
            Spread { median: 2.0, min: 1.0, max: 3.0, repeats: vec![3.0, 1.0, 2.0] }
        );
        assert_eq!(Spread::of(vec![4.0, 1.0]).median, 2.5);
        assert_eq!(Spread::of(vec![5.0, 1.0, 3.0, 2.0, 4.0]).quartiles(), (2.0, 4.0));
        assert_eq!(Spread::of(vec![7.0]).quartiles(), (7.0, 7.0));
        assert_eq!(Spread::of(vec![0.0, 2.0]).quartiles(), (0.5, 1.5));
    }

    #[test]
    fn json_carries_every_number_with_its_unit_in_the_name() {
        let json: serde_json::Value = serde_json::from_str(&example().to_json()).unwrap();
        let arm = &json["sets"][0]["arms"][1];
        assert_eq!(arm["index"], "doblix-pla");
        assert_eq!(arm["phases"][0]["phase"], "found-uniform");
        assert_eq!(arm["phases"][4]["p50_ns"], serde_json::Value::Null);
        assert_eq!(arm["phases"][0]["per_second"]["repeats"].as_array().unwrap().len(), 3);
    }
}

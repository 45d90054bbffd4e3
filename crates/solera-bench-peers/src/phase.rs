//! The phases that are measured, and their results: `Phase`, `Mix`, and `Measured`, what one phase
//! of one engine came to in one repeat.
//!
//! A phase has a name that users write, and a sentence about it. A `Mix` is the shares of reads,
//! updates, scans and read-modify-writes in a mixed phase; inserts are the rest.
//!
//! What must hold: the commands `compare` and `measure` run phases in the order of the list, so
//! that what a phase writes comes after what others read.
//!
//! Callers: `main`, `pieces` and `compare` choose phases; `child` and `instructions` do them;
//! `report`, `aim` and `column` tell them.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// One measurement. They run in this order, so that what a phase writes comes after what others
/// read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Puts in key order, into an empty database, until it has settled
    LoadSorted,
    /// Reads of present keys right after puts in random order, before anything has settled
    FreshFound,
    /// Scans of 100 entries right after puts in random order, before anything has settled
    #[value(name = "fresh-scan-100")]
    #[serde(rename = "fresh-scan-100")]
    FreshScan100,
    /// Puts in random order, into an empty database, until it has settled; what follows uses this
    /// database
    LoadRandom,
    /// Reads of present keys, each equally likely
    FoundUniform,
    /// Reads of present keys, Zipf-distributed with exponent 0.99
    FoundZipf,
    /// Reads of 64 present keys at a time, each equally likely; an operation is one key
    MultiGet,
    /// Reads of keys of the same kind that were never written
    Absent,
    /// Scans of 10 entries
    #[value(name = "scan-10")]
    #[serde(rename = "scan-10")]
    Scan10,
    /// Scans of 100 entries
    #[value(name = "scan-100")]
    #[serde(rename = "scan-100")]
    Scan100,
    /// Scans of 1000 entries
    #[value(name = "scan-1000")]
    #[serde(rename = "scan-1000")]
    Scan1000,
    /// A scan over everything; an operation is one entry
    FullScan,
    /// The same from the last key to the first
    FullScanBack,
    /// Uniform found reads by two threads
    TwoThreads,
    /// The first scan over everything after opening, all files in the page cache; an operation is
    /// one entry
    OpenedScan,
    /// The same with no file in the page cache
    ColdScan,
    /// Reads of 4 KiB at random places of the database's largest file, past the page cache and the
    /// engine: what the device gives
    DeviceRead,
    /// Reads of all of the database's files, in order, past the page cache and the engine
    DeviceScan,
    /// 90 % reads, 10 % updates, Zipf-distributed
    #[value(name = "mix-90-10")]
    #[serde(rename = "mix-90-10")]
    Mix90,
    /// 50 % reads, 50 % updates, Zipf-distributed
    #[value(name = "mix-50-50")]
    #[serde(rename = "mix-50-50")]
    Mix50,
    /// 10 % reads, 90 % updates, Zipf-distributed
    #[value(name = "mix-10-90")]
    #[serde(rename = "mix-10-90")]
    Mix10,
    /// YCSB A: 50 % reads, 50 % updates, Zipf
    YcsbA,
    /// YCSB B: 95 % reads, 5 % updates, Zipf
    YcsbB,
    /// YCSB C: reads, Zipf
    YcsbC,
    /// YCSB D: 95 % reads of what was written last, 5 % inserts
    YcsbD,
    /// YCSB E: 95 % scans of 1 to 100 entries, 5 % inserts
    YcsbE,
    /// YCSB F: 50 % reads, 50 % read-modify-writes, Zipf
    YcsbF,
    /// Every key written again, in random order, until it has settled
    Overwrite,
    /// A hundred keys overwritten a thousand times each, then scans of 100 over them
    HotScan,
    /// Every second key deleted, then scans of 100
    DeleteScan,
}

impl Phase {
    /// Every phase in order.
    pub fn all() -> &'static [Phase] {
        Phase::value_variants()
    }

    /// Whether it writes everything, and so takes long.
    pub fn is_load(self) -> bool {
        use Phase::{FreshFound, FreshScan100, LoadRandom, LoadSorted, Overwrite};
        matches!(self, LoadSorted | FreshFound | FreshScan100 | LoadRandom | Overwrite)
    }

    /// The name that users write.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// What it is, in a sentence.
    pub fn about(self) -> String {
        self.to_possible_value().and_then(|value| Some(value.get_help()?.to_string())).unwrap_or_default()
    }

    /// Of a hundred operations of a mixed phase: reads, updates, scans, read-modify-writes; inserts
    /// for the rest.
    pub fn mix(self) -> Option<Mix> {
        let mix = |reads, updates, scans, modifies, latest| Mix { reads, updates, scans, modifies, latest };
        Some(match self {
            Phase::Mix90 => mix(90, 10, 0, 0, false),
            Phase::Mix50 | Phase::YcsbA => mix(50, 50, 0, 0, false),
            Phase::Mix10 => mix(10, 90, 0, 0, false),
            Phase::YcsbB => mix(95, 5, 0, 0, false),
            Phase::YcsbC => mix(100, 0, 0, 0, false),
            Phase::YcsbD => mix(95, 0, 0, 0, true),
            Phase::YcsbE => mix(0, 0, 95, 0, false),
            Phase::YcsbF => mix(50, 0, 0, 50, false),
            _ => return None,
        })
    }
}

/// Shares of operations, in percent; what is missing to a hundred are inserts.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    pub reads: u32,
    pub updates: u32,
    pub scans: u32,
    pub modifies: u32,
    /// Reads ask for what was inserted last, by YCSB's "latest" distribution.
    pub latest: bool,
}

/// What one phase of one engine came to, once.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    pub operations: u64,
    /// Done once more, for the latencies alone.
    #[serde(default)]
    pub timed_operations: u64,
    pub seconds: f64,
    /// Processor time of the whole process, background threads included.
    pub cpu_seconds: f64,
    /// Latencies in nanoseconds: p50, p95, p99, p99.9 and the greatest, one look at the clock
    /// included.
    pub latency_ns: Option<[u64; 5]>,
    /// The p95 of the same operations before what the phase is about was done to their keys.
    #[serde(default)]
    pub fresh_p95_ns: Option<u64>,
    /// The greatest latency of a write, in nanoseconds.
    pub write_ns_max: Option<u64>,
    /// Bytes that the system sent to storage for it, per byte of keys and values that was put.
    pub written_per_byte: Option<f64>,
    /// Bytes in the database's directory after it, per byte of live keys and values.
    pub space_per_byte: Option<f64>,
    /// Bytes of memory that the database holds after it.
    pub resident_bytes: Option<u64>,
    /// Calls to read from files.
    #[serde(default)]
    pub read_calls: Option<u64>,
    /// Bytes that a phase has read of the data that it went through.
    #[serde(default)]
    pub bytes_read: Option<u64>,
    /// Instructions of an operation, and its misses of the first and the last level of a simulated
    /// cache, where they were counted instead of the time.
    #[serde(default)]
    pub counts: Option<[f64; 3]>,
    pub index_bytes: Option<u64>,
    pub filter_bytes: Option<u64>,
    /// Answers that were wrong: any fails the run.
    pub wrong: u64,
}

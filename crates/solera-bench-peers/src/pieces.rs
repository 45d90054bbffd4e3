//! What the command `measure` measures for the aims: `PIECES`, and how each becomes a `Comparison`.
//!
//! A piece is data, engines and phases that share memory, clients and way of reading. A machine can
//! be asked for one piece at a time. An `Effort` says how much is done: operations, repeats, and
//! how many times smaller large sets are.
//!
//! What must hold: each piece has `load-random` among its phases, and its phases run in the order
//! of `Phase`. Each of its sets of data says how many pairs it has, but for the sample. Every aim
//! finds a piece that measures it.
//!
//! Caller: `main`, for `measure`.

use crate::{
    compare::{Comparison, Memory},
    phase::Phase::{self, *},
    source::Source,
};
use std::path::PathBuf;

/// Something to measure in one go.
pub struct Piece {
    pub name: &'static str,
    data: &'static [&'static str],
    engines: &'static [&'static str],
    phases: &'static [Phase],
    memory: Memory,
    direct: bool,
    threads: usize,
}

const READS: &[Phase] = &[LoadRandom, FoundUniform, FoundZipf, Scan100, FullScan];
const PAIRS: &[&str] = &["uniform/8+64@10000000"];
const ALL: &[&str] = &["solera", "rocksdb-tuned", "fjall", "lmdb", "redb", "surrealkv", "coordinode"];

/// Everything in memory, one client.
const fn piece(
    name: &'static str,
    data: &'static [&'static str],
    engines: &'static [&'static str],
    phases: &'static [Phase],
) -> Piece {
    Piece { name, data, engines, phases, memory: Memory::Whole, direct: false, threads: 1 }
}

/// A part of the data in memory.
const fn part(part: u64, direct: bool, piece: Piece) -> Piece {
    Piece { memory: Memory::Part(part), direct, ..piece }
}

const fn clients(threads: usize, piece: Piece) -> Piece {
    Piece { threads, ..piece }
}

pub const PIECES: &[Piece] = &[
    piece(
        "pairs",
        PAIRS,
        &["solera", "solera-owned", "bare", "rocksdb-tuned", "lmdb"],
        &[LoadRandom, FoundUniform, FoundZipf, MultiGet, Absent, Scan100, FullScan],
    ),
    piece(
        "mixes",
        PAIRS,
        &["solera", "rocksdb-tuned", "lmdb"],
        &[Scan100, Mix90, Mix50, Mix10, YcsbA, YcsbB, YcsbC, YcsbD, YcsbE, YcsbF, HotScan, Overwrite],
    ),
    piece("fresh", PAIRS, &["solera"], &[FreshFound, FreshScan100, LoadRandom, FoundUniform, Scan100]),
    piece("small", &["uniform/8+64@50000"], &["solera", "solera-owned", "lmdb", "redb"], READS),
    piece("sample", &["git-history"], &["solera", "solera-owned", "lmdb"], READS),
    piece("paths", &["paths/8+64@4000000"], &["solera", "rocksdb-tuned", "lmdb"], READS),
    piece("texts", &["words/8+64@1000000", "composite/8+64@1000000", "paths/8+64@1000000"], ALL, READS),
    piece(
        "opened",
        &["uniform/8+64@10000000", "uniform/8+1024@500000", "uniform/8+8184@60000"],
        &["solera", "solera-values", "rocksdb-tuned", "rocksdb-blob", "lmdb"],
        &[LoadRandom, OpenedScan, ColdScan, DeviceScan],
    ),
    part(8, false, piece("eighth", PAIRS, &["solera", "rocksdb-tuned", "lmdb"], READS)),
    part(
        8,
        true,
        piece(
            "eighth-direct",
            PAIRS,
            &["solera", "rocksdb-tuned"],
            &[LoadRandom, FoundUniform, Scan100, DeviceRead],
        ),
    ),
    clients(
        16,
        part(
            8,
            true,
            piece("sixteen", PAIRS, &["solera", "rocksdb-tuned"], &[LoadRandom, FoundUniform, DeviceRead]),
        ),
    ),
    part(32, false, piece("thirty-second", PAIRS, &["solera", "rocksdb-tuned", "lmdb"], READS)),
    part(
        32,
        true,
        piece(
            "thirty-second-direct",
            PAIRS,
            &["solera", "rocksdb-tuned"],
            &[LoadRandom, FoundUniform, Scan100],
        ),
    ),
    piece("one", PAIRS, &["solera"], &[LoadRandom, FoundUniform, Scan100, TwoThreads, Mix50]),
    clients(
        2,
        piece(
            "two",
            PAIRS,
            &["solera", "rocksdb-tuned", "lmdb"],
            &[LoadRandom, FoundUniform, Scan100, Mix50],
        ),
    ),
    clients(
        4,
        piece(
            "four",
            PAIRS,
            &["solera", "rocksdb-tuned", "lmdb"],
            &[LoadRandom, FoundUniform, Scan100, Mix50],
        ),
    ),
    piece(
        "values",
        &["uniform/8+1024@500000", "uniform/8+4088@125000", "uniform/8+16376@30000"],
        &["solera", "solera-values", "rocksdb-tuned", "rocksdb-blob", "lmdb"],
        &[LoadRandom, FoundUniform, FoundZipf, Scan100],
    ),
    piece(
        "eight-kib",
        &["uniform/8+8184@60000"],
        &["solera", "solera-values", "rocksdb-blob", "lmdb"],
        &[LoadRandom, FoundUniform, Overwrite],
    ),
    piece(
        "sizes",
        &["uniform/8+64@50000", "uniform/8+64@1000000", "uniform/8+64@10000000", "uniform/8+64@40000000"],
        ALL,
        &[LoadRandom, FoundUniform, Scan100],
    ),
];

/// How much of everything is done.
pub struct Effort {
    /// Sets of a million pairs and more have so many times fewer, but not less than a million.
    pub shrink: usize,
    pub operations: usize,
    pub pass_seconds: f64,
    pub repeats: usize,
    pub load_repeats: usize,
    pub seed: u64,
}

impl Piece {
    /// Of this name.
    pub fn named(name: &str) -> Result<&'static Piece, String> {
        PIECES.iter().find(|piece| piece.name == name).ok_or_else(|| {
            let names: Vec<&str> = PIECES.iter().map(|piece| piece.name).collect();
            format!("there is no piece {name:?}; the pieces are {}", names.join(", "))
        })
    }

    /// Its comparison, in this directory.
    pub fn comparison(
        &self,
        effort: &Effort,
        directory: PathBuf,
        command: String,
    ) -> Result<Comparison, String> {
        let data = self.data.iter().map(|text| Ok(text.parse::<Source>()?.shrunk(effort.shrink)));
        let mut phases = self.phases.to_vec();
        if !phases.contains(&LoadRandom) {
            phases.push(LoadRandom);
        }
        phases.sort_unstable();
        Ok(Comparison {
            engines: self.engines.iter().map(|&name| name.to_owned()).collect(),
            phases,
            data: data.collect::<Result<_, String>>()?,
            // Every source says how many.
            entries: 1,
            direct: self.direct,
            repeats: effort.repeats,
            load_repeats: effort.load_repeats,
            memory: self.memory,
            lz4: false,
            operations: effort.operations,
            pass_seconds: effort.pass_seconds,
            seed: effort.seed,
            threads: self.threads,
            directory,
            command,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        aim,
        compare::{EngineResults, Results, SetResults},
        engines,
        phase::Measured,
    };

    const EFFORT: Effort =
        Effort { shrink: 4, operations: 1000, pass_seconds: 1.0, repeats: 1, load_repeats: 1, seed: 1 };

    #[test]
    fn every_piece_can_be_measured() {
        for piece in PIECES {
            let comparison = piece.comparison(&EFFORT, PathBuf::new(), String::new()).unwrap();
            assert!(comparison.phases.contains(&LoadRandom), "{}", piece.name);
            assert!(comparison.phases.is_sorted(), "{}", piece.name);
            assert!(
                comparison.engines.iter().all(|name| engines::NAMES.contains(&&name[..])),
                "{}",
                piece.name
            );
        }
    }

    /// What the command `measure` would hand to the aims, with everything measured.
    fn measured(comparison: &Comparison) -> Vec<SetResults> {
        let all = || Measured {
            operations: 1,
            seconds: 1.0,
            latency_ns: Some([1; 5]),
            fresh_p95_ns: Some(1),
            write_ns_max: Some(1),
            written_per_byte: Some(1.0),
            space_per_byte: Some(1.0),
            resident_bytes: Some(1),
            read_calls: Some(1),
            bytes_read: Some(1),
            ..Measured::default()
        };
        let engine = |engine: &String| EngineResults {
            engine: engine.clone(),
            phases: comparison.phases.iter().map(|&phase| (phase, vec![all()])).collect(),
        };
        let set = |source: &Source| SetResults {
            name: source.to_string(),
            entries: source.entries(comparison.entries),
            data_bytes: source.entries(comparison.entries) as u64 * source.pair_bytes(),
            memory_bytes: comparison.memory.bytes(source, comparison.entries),
            direct: comparison.direct,
            lz4: comparison.lz4,
            threads: comparison.threads,
            engines: comparison.engines.iter().map(engine).collect(),
        };
        comparison.data.iter().map(set).collect()
    }

    #[test]
    fn every_aim_finds_a_piece_that_measures_it() {
        let mut run = Results::here(String::new(), 1).unwrap();
        for piece in PIECES {
            let comparison = piece.comparison(&EFFORT, PathBuf::new(), String::new()).unwrap();
            run.sets.extend(measured(&comparison));
        }
        let held = aim::held(std::slice::from_ref(&run));
        let lost = held.iter().filter(|held| held.measured.is_none()).map(|held| &held.said);
        assert_eq!(lost.collect::<Vec<_>>(), Vec::<&[String; 4]>::new());
    }
}

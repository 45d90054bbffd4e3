//! What Solera is to reach beside its peers (`AIMS`), and whether it does: `held` compares, `table`
//! writes all of it down.
//!
//! An aim asks for a bound on a quotient: Solera's median in one phase, divided by what it is held
//! against. That is a peer's median, Solera's own in another phase or by one client, or a number.
//! `Held` is one row: an aim in one phase, with what was measured.
//!
//! What must hold: an aim counts for sets that `Meant` names, uncompressed, with `clients` client
//! threads. The first such set that has what is compared decides; later sets of the same data are
//! only shown. An aim that no set answers is told as not measured.
//!
//! Callers: `report` puts `ABOUT` and `table` on its page. `main` prints `table` alone.

use crate::{
    column::{self, Column},
    compare::{Results, SetResults},
    phase::Phase,
};
/// What a median of Solera's is held against.
#[derive(Clone, Copy, Debug)]
enum Against {
    /// Another engine's median of the same.
    Peer(&'static str),
    /// Its own in another phase.
    Phase(Phase),
    /// Its own by one client, of the same data in any run.
    OneClient,
    /// A number in the column's unit, and how it is told.
    Number(f64, &'static str),
}

/// How the quotient of the two must lie.
#[derive(Clone, Copy, Debug)]
enum Bound {
    Least(f64),
    Most(f64),
}

/// Which sets are meant. All are uncompressed.
#[derive(Clone, Copy, Debug)]
enum Meant {
    /// Pairs of 8 and 64 bytes, a million or more, that fit into memory.
    InMemory,
    /// 100,000 of them or fewer: they fit into the processor's caches.
    Small,
    /// The sample of real rows.
    Sample,
    /// Paths of files, and 64 bytes.
    Paths,
    /// Values of so many bytes, in memory.
    Values(u32),
    /// Pairs of 8 and 64 bytes, an eighth of which fits into memory.
    Eighth,
    /// The same, past the page cache.
    EighthDirect,
}

struct Aim {
    meant: Meant,
    /// The engine whose median it is.
    own: &'static str,
    clients: usize,
    phases: &'static [Phase],
    column: Column,
    against: Against,
    bound: Bound,
}

const MIXES: &[Phase] = &[
    Phase::Mix90,
    Phase::Mix50,
    Phase::Mix10,
    Phase::YcsbA,
    Phase::YcsbB,
    Phase::YcsbC,
    Phase::YcsbD,
    Phase::YcsbE,
    Phase::YcsbF,
];
const FOUND: &[Phase] = &[Phase::FoundUniform, Phase::FoundZipf];
const READS: &[Phase] = &[Phase::FoundUniform, Phase::FoundZipf, Phase::Scan100];
const WRITES: &[Phase] = &[Phase::LoadRandom, Phase::Overwrite];
const ROCKSDB: Against = Against::Peer("rocksdb-tuned");
const BLOB: Against = Against::Peer("rocksdb-blob");
const LMDB: Against = Against::Peer("lmdb");
const ONE: Against = Against::Number(1.0, "1");

const fn rate(phases: &'static [Phase], against: Against, least: f64) -> Aim {
    of(phases, column::RATE, against, Bound::Least(least))
}

const fn of(phases: &'static [Phase], column: Column, against: Against, bound: Bound) -> Aim {
    Aim { meant: Meant::InMemory, own: "solera", clients: 1, phases, column, against, bound }
}

const fn on(meant: Meant, aim: Aim) -> Aim {
    Aim { meant, ..aim }
}

/// What another way of using Solera reaches.
const fn by(own: &'static str, aim: Aim) -> Aim {
    Aim { own, ..aim }
}

const fn with(clients: usize, aim: Aim) -> Aim {
    Aim { clients, ..aim }
}

const AIMS: &[Aim] = &[
    rate(FOUND, ROCKSDB, 4.0),
    rate(FOUND, LMDB, 1.8),
    rate(&[Phase::MultiGet], ROCKSDB, 5.0),
    rate(&[Phase::Absent], ROCKSDB, 2.0),
    rate(&[Phase::Absent], LMDB, 5.0),
    rate(&[Phase::LoadRandom], ROCKSDB, 1.5),
    rate(&[Phase::LoadRandom], Against::Peer("fjall"), 1.1),
    rate(&[Phase::LoadRandom], LMDB, 3.0),
    rate(&[Phase::Scan100], ROCKSDB, 2.2),
    rate(&[Phase::Scan100], LMDB, 1.0),
    rate(&[Phase::FullScan], ROCKSDB, 2.0),
    rate(&[Phase::FullScan], LMDB, 0.7),
    rate(MIXES, ROCKSDB, 2.0),
    of(MIXES, column::P99, ROCKSDB, Bound::Most(0.5)),
    of(WRITES, column::WRITTEN, ROCKSDB, Bound::Most(1.0)),
    of(WRITES, column::SPACE, ROCKSDB, Bound::Most(1.0)),
    of(&[Phase::LoadRandom], column::RESIDENT, ROCKSDB, Bound::Most(0.8)),
    of(&[Phase::LoadRandom], column::RESIDENT, LMDB, Bound::Most(0.5)),
    rate(&[Phase::TwoThreads], Against::Phase(Phase::FoundUniform), 1.8),
    of(&[Phase::HotScan], column::AGED, ONE, Bound::Most(2.0)),
    of(&[Phase::YcsbE], column::P95, Against::Phase(Phase::Scan100), Bound::Most(2.0)),
    of(WRITES, column::LONGEST_WRITE, Against::Number(1e8, "100 ms"), Bound::Most(1.0)),
    of(WRITES, column::P999, ROCKSDB, Bound::Most(2.0)),
    on(Meant::Values(1024), rate(FOUND, ROCKSDB, 1.5)),
    on(Meant::Values(1024), rate(&[Phase::LoadRandom], ROCKSDB, 1.2)),
    on(Meant::Values(1024), of(&[Phase::LoadRandom], column::P999, ROCKSDB, Bound::Most(2.0))),
    on(Meant::Values(1024), rate(FOUND, BLOB, 1.5)),
    on(Meant::Values(1024), rate(&[Phase::LoadRandom], BLOB, 1.2)),
    on(Meant::EighthDirect, of(&[Phase::FoundUniform], column::READ_CALLS, ONE, Bound::Most(1.02))),
    // Where the lead was small or gone.
    on(Meant::Paths, rate(FOUND, ROCKSDB, 4.0)),
    on(Meant::Paths, rate(FOUND, LMDB, 2.0)),
    rate(&[Phase::FoundUniform], Against::Peer("bare"), 0.8),
    on(Meant::Small, rate(FOUND, LMDB, 2.0)),
    on(Meant::Small, rate(&[Phase::Scan100], LMDB, 1.5)),
    on(Meant::Small, rate(&[Phase::FullScan], Against::Peer("redb"), 1.5)),
    on(Meant::Small, rate(&[Phase::FoundUniform], Against::Peer("solera-owned"), 0.9)),
    on(Meant::Small, by("solera-owned", rate(&[Phase::FullScan], Against::Peer("solera"), 0.9))),
    rate(&[Phase::FoundUniform], Against::Peer("solera-owned"), 0.9),
    by("solera-owned", rate(&[Phase::FullScan], Against::Peer("solera"), 0.9)),
    on(Meant::Sample, rate(FOUND, LMDB, 1.5)),
    on(Meant::Sample, rate(&[Phase::Scan100], LMDB, 1.2)),
    rate(&[Phase::YcsbE], LMDB, 1.3),
    rate(&[Phase::YcsbD], LMDB, 1.5),
    rate(&[Phase::OpenedScan], ROCKSDB, 2.0),
    on(Meant::Values(1024), rate(&[Phase::OpenedScan], ROCKSDB, 2.0)),
    on(Meant::Values(8184), rate(&[Phase::OpenedScan], ROCKSDB, 2.0)),
    on(Meant::Values(8184), rate(&[Phase::OpenedScan], BLOB, 2.0)),
    of(&[Phase::OpenedScan], column::BYTES_READ, Against::Number(2000.0, "2 GB/s"), Bound::Least(1.0)),
    of(&[Phase::ColdScan], column::BYTES_READ, Against::Phase(Phase::DeviceScan), Bound::Least(0.9)),
    on(Meant::Eighth, rate(READS, ROCKSDB, 3.0)),
    on(Meant::Eighth, rate(READS, LMDB, 1.0)),
    // A read takes at most 1.15 times what one of the device takes.
    on(Meant::EighthDirect, rate(&[Phase::FoundUniform], Against::Phase(Phase::DeviceRead), 0.87)),
    on(Meant::EighthDirect, with(16, rate(&[Phase::FoundUniform], Against::Phase(Phase::DeviceRead), 0.8))),
    rate(&[Phase::FreshFound], Against::Phase(Phase::FoundUniform), 0.9),
    rate(&[Phase::FreshScan100], Against::Phase(Phase::Scan100), 0.9),
    with(2, rate(&[Phase::FoundUniform, Phase::Scan100], Against::OneClient, 1.9)),
    with(2, rate(&[Phase::Mix50], Against::OneClient, 1.3)),
    on(Meant::Values(8184), by("solera-values", rate(&[Phase::FoundUniform], LMDB, 1.5))),
    on(Meant::Values(8184), by("solera-values", rate(&[Phase::Overwrite], LMDB, 1.5))),
    on(Meant::Values(8184), by("solera-values", rate(&[Phase::Overwrite], BLOB, 1.5))),
    on(Meant::Eighth, of(&[Phase::LoadRandom], column::P999, ROCKSDB, Bound::Most(1.0))),
    on(Meant::EighthDirect, of(&[Phase::LoadRandom], column::P999, ROCKSDB, Bound::Most(1.0))),
    of(&[Phase::FoundUniform], column::READ_CALLS, ONE, Bound::Most(0.01)),
];

impl Meant {
    fn is(self, set: &SetResults) -> bool {
        let is_like = |recipe: &str| set.name.split('@').next() == Some(recipe);
        let is_pairs = is_like("uniform/8+64");
        let is_whole = set.memory_bytes > set.data_bytes;
        let is_eighth = (7..=9).contains(&(set.data_bytes / set.memory_bytes.max(1)));
        if set.lz4 {
            return false;
        }
        match self {
            Meant::InMemory => is_pairs && !set.direct && is_whole && set.entries >= 1_000_000,
            Meant::Small => is_pairs && !set.direct && set.entries <= 100_000,
            Meant::Sample => is_like("git-history"),
            Meant::Paths => is_like("paths/8+64") && !set.direct && is_whole,
            Meant::Values(bytes) => is_like(&format!("uniform/8+{bytes}")) && !set.direct && is_whole,
            Meant::Eighth => is_pairs && !set.direct && is_eighth,
            Meant::EighthDirect => is_pairs && set.direct && is_eighth,
        }
    }
}

impl Aim {
    fn is_meant_for(&self, set: &SetResults) -> bool {
        set.threads == self.clients && self.meant.is(set)
    }

    /// Solera's median to what it is held against.
    fn quotient(&self, set: &SetResults, phase: Phase, runs: &[Results]) -> Option<f64> {
        let median = |set, engine: &str, phase| column::median(set, engine, phase, &self.column);
        let other = match self.against {
            Against::Peer(peer) => median(set, peer, phase)?,
            Against::Phase(other) => median(set, self.own, other)?,
            Against::OneClient => {
                let alike = |other: &&SetResults| {
                    (&other.name, other.entries, other.memory_bytes, other.direct)
                        == (&set.name, set.entries, set.memory_bytes, set.direct)
                };
                let mut alone = runs.iter().flat_map(|run| &run.sets).filter(|other| other.threads == 1);
                alone.by_ref().filter(alike).find_map(|other| median(other, self.own, phase))?
            }
            Against::Number(number, _) => number,
        };
        Some(median(set, self.own, phase)? / other)
    }

    fn is_reached(&self, quotient: f64) -> bool {
        match self.bound {
            Bound::Least(least) => quotient >= least,
            Bound::Most(most) => quotient <= most,
        }
    }

    /// What the quotient is of.
    fn told(&self) -> String {
        let against = match self.against {
            Against::Peer(peer) => format!("{peer}'s"),
            Against::Phase(other) => format!("its own of {}", other.name()),
            Against::OneClient => "its own by one client".into(),
            Against::Number(_, told) => told.into(),
        };
        let whose = if self.own == "solera" { String::new() } else { format!(" of {}", self.own) };
        let clients = if self.clients == 1 { String::new() } else { format!(" by {} clients", self.clients) };
        format!("{}{whose}{clients} to {against}", self.column.title)
    }
}

/// An aim as it is told.
pub struct Held {
    /// The data, the phase, what the quotient is of, and what is asked of it.
    pub said: [String; 4],
    /// The quotient in the first run that has both.
    pub measured: Option<f64>,
    pub is_reached: bool,
    /// The quotients in later runs of the same data.
    pub others: Vec<f64>,
}

/// What the columns of [`Held`] are.
pub const HEADS: [&str; 7] =
    ["data", "phase", "quotient of", "asked", "measured", "reached", "in other runs of the same data"];
/// What is held against what.
pub const ABOUT: &str =
    "Solera's median, divided by what it is held against, in the first run below that has both.";

impl Held {
    /// Its columns, after [`HEADS`].
    pub fn cells(&self) -> [String; 7] {
        let [data, phase, quotient, asked] = self.said.clone();
        let number = |quotient: &f64| format!("{quotient:.2}");
        let reached = match self.measured {
            None => "not measured",
            Some(_) if self.is_reached => "yes",
            Some(_) => "**no**",
        };
        let others: Vec<String> = self.others.iter().map(number).collect();
        let measured = self.measured.as_ref().map_or("–".into(), number);
        [data, phase, quotient, asked, measured, reached.into(), others.join(", ")]
    }
}

/// All aims, held against these runs.
pub fn held(runs: &[Results]) -> Vec<Held> {
    let sets = || runs.iter().flat_map(|run| &run.sets);
    let of_phase = |aim: &Aim, phase: Phase| {
        let meant = sets().filter(|set| aim.is_meant_for(set));
        let data = |set: &SetResults| format!("{}{}", set.name, memory_told(set));
        let mut quotients = meant.filter_map(|set| Some((data(set), aim.quotient(set, phase, runs)?)));
        let asked = match aim.bound {
            Bound::Least(least) => format!("≥ {least}"),
            Bound::Most(most) => format!("≤ {most}"),
        };
        let (data, measured) = quotients.next().unzip();
        let others = quotients.filter(|(name, _)| data.as_ref() == Some(name)).map(|(_, quotient)| quotient);
        let others = others.collect();
        let data = data.unwrap_or_else(|| format!("{:?}", aim.meant));
        Held {
            others,
            said: [data, phase.name(), aim.told(), asked],
            measured,
            is_reached: measured.is_some_and(|quotient| aim.is_reached(quotient)),
        }
    };
    AIMS.iter().flat_map(|aim| aim.phases.iter().map(move |&phase| of_phase(aim, phase))).collect()
}

/// What part of the data fits into memory, if not all does, and whether the page cache helps.
fn memory_told(set: &SetResults) -> String {
    let part = set.data_bytes as f64 / set.memory_bytes.max(1) as f64;
    let memory = if part > 1.0 { format!(", memory 1/{part:.0}") } else { String::new() };
    format!("{memory}{}", if set.direct { ", direct" } else { "" })
}

/// The aims as a table.
pub fn table(runs: &[Results]) -> String {
    let row = |cells: [String; 7]| format!("| {} |\n", cells.join(" | "));
    let rows: String = held(runs).iter().map(|held| row(held.cells())).collect();
    format!("{}|{}\n{rows}", row(HEADS.map(Into::into)), "---|".repeat(7))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{compare::EngineResults, phase::Measured};

    fn set(name: &str, memory_bytes: u64, direct: bool, threads: usize) -> SetResults {
        SetResults {
            name: name.into(),
            entries: 1_000_000,
            data_bytes: 72_000_000,
            memory_bytes,
            direct,
            lz4: false,
            threads,
            engines: Vec::new(),
        }
    }

    #[test]
    fn an_aim_is_held_against_the_sets_that_it_is_meant_for() {
        let (whole, eighth) = (108_000_000, 9_000_000);
        let sets = [
            (Meant::InMemory, "uniform/8+64@1000000", whole, false),
            (Meant::Values(1024), "uniform/8+1024", whole, false),
            (Meant::Paths, "paths/8+64", whole, false),
            (Meant::Eighth, "uniform/8+64", eighth, false),
            (Meant::EighthDirect, "uniform/8+64", eighth, true),
        ];
        for (meant, ..) in sets {
            for (other, name, memory, direct) in sets {
                let is = meant.is(&set(name, memory, direct, 1));
                assert_eq!(is, format!("{meant:?}") == format!("{other:?}"), "{meant:?} {other:?}");
            }
        }
        let small = SetResults { entries: 50_000, ..set("uniform/8+64@50000", whole, false, 1) };
        assert!(Meant::Small.is(&small) && !Meant::InMemory.is(&small));
    }

    #[test]
    fn two_clients_are_held_against_one_of_the_same_data() {
        let of = |threads, operations| {
            let measured = Measured { operations, seconds: 1.0, ..Measured::default() };
            let phases = vec![(Phase::Scan100, vec![measured])];
            let engines = vec![EngineResults { engine: "solera".into(), phases }];
            SetResults { engines, ..set("uniform/8+64", 108_000_000, false, threads) }
        };
        let mut run = Results::here(String::new(), 1).unwrap();
        run.sets = vec![of(2, 190), of(1, 100)];
        let aim = with(2, rate(&[Phase::Scan100], Against::OneClient, 1.9));
        assert!(aim.is_meant_for(&run.sets[0]) && !aim.is_meant_for(&run.sets[1]));
        assert_eq!(aim.quotient(&run.sets[0], Phase::Scan100, std::slice::from_ref(&run)), Some(1.9));
        run.sets.pop();
        assert_eq!(aim.quotient(&run.sets[0], Phase::Scan100, std::slice::from_ref(&run)), None);
    }
}

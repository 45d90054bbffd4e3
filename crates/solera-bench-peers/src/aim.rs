//! What Solera is to reach beside its peers, and whether it does: `held`, all aims held against
//! runs.
//!
//! An aim names phases, a quantity, a peer or Solera's own other phase, and a bound of the quotient
//! of medians. `Held` is an aim as it is told.
//!
//! What must hold: an aim is meant for generated pairs of 8 and 64 bytes that fit into memory,
//! uncompressed. Others are for values of 1 KiB, or for direct reads. An aim is told for the first
//! set that it is meant for and that has what it compares. Sets with more than one client are meant
//! by none.
//!
//! Caller: `report`.

use crate::{
    column::{self, Column},
    compare::{Results, SetResults},
    phase::Phase,
};
/// What a median of Solera's is held against.
#[derive(Clone, Copy, Debug)]
enum Against {
    /// A peer's median of the same.
    Peer(&'static str),
    /// Its own in another phase.
    Phase(Phase),
    /// A number, in the column's unit.
    Number(f64),
}

/// How the quotient of the two must lie.
#[derive(Clone, Copy, Debug)]
enum Bound {
    Least(f64),
    Most(f64),
}

/// Which sets are meant.
#[derive(Clone, Copy, Debug)]
enum Meant {
    /// All of the data, uncompressed.
    InMemory,
    LargeValues,
    Direct,
}

struct Aim {
    meant: Meant,
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
const ROCKSDB: Against = Against::Peer("rocksdb-tuned");
const LMDB: Against = Against::Peer("lmdb");

const fn rate(phases: &'static [Phase], against: Against, least: f64) -> Aim {
    of(phases, column::RATE, against, Bound::Least(least))
}

const fn of(phases: &'static [Phase], column: Column, against: Against, bound: Bound) -> Aim {
    Aim { meant: Meant::InMemory, phases, column, against, bound }
}

const fn on(meant: Meant, aim: Aim) -> Aim {
    Aim { meant, ..aim }
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
    of(&[Phase::LoadRandom, Phase::Overwrite], column::WRITTEN, ROCKSDB, Bound::Most(1.0)),
    of(&[Phase::LoadRandom, Phase::Overwrite], column::SPACE, ROCKSDB, Bound::Most(1.0)),
    of(&[Phase::LoadRandom], column::RESIDENT, ROCKSDB, Bound::Most(0.8)),
    of(&[Phase::LoadRandom], column::RESIDENT, LMDB, Bound::Most(0.5)),
    rate(&[Phase::TwoThreads], Against::Phase(Phase::FoundUniform), 1.8),
    of(&[Phase::HotScan], column::AGED, Against::Number(1.0), Bound::Most(2.0)),
    of(&[Phase::YcsbE], column::P95, Against::Phase(Phase::Scan100), Bound::Most(2.0)),
    of(&[Phase::LoadRandom, Phase::Overwrite], column::LONGEST_WRITE, Against::Number(1e8), Bound::Most(1.0)),
    of(&[Phase::LoadRandom, Phase::Overwrite], column::P999, ROCKSDB, Bound::Most(2.0)),
    on(Meant::LargeValues, rate(FOUND, ROCKSDB, 1.5)),
    on(Meant::LargeValues, rate(&[Phase::LoadRandom], ROCKSDB, 1.2)),
    on(Meant::LargeValues, of(&[Phase::LoadRandom], column::P999, ROCKSDB, Bound::Most(2.0))),
    on(Meant::LargeValues, rate(FOUND, Against::Peer("rocksdb-blob"), 1.5)),
    on(Meant::LargeValues, rate(&[Phase::LoadRandom], Against::Peer("rocksdb-blob"), 1.2)),
    on(
        Meant::Direct,
        of(&[Phase::FoundUniform], column::READ_CALLS, Against::Number(1.0), Bound::Most(1.02)),
    ),
];

impl Meant {
    fn is(self, set: &SetResults) -> bool {
        let is_like = |sizes: &str| set.name.split('@').next() == Some(sizes);
        if set.threads != 1 {
            return false;
        }
        match self {
            Meant::InMemory => {
                is_like("uniform/8+64") && !set.direct && !set.lz4 && set.memory_bytes > set.data_bytes
            }
            Meant::LargeValues => is_like("uniform/8+1024") && !set.direct,
            Meant::Direct => is_like("uniform/8+64") && set.direct,
        }
    }
}

impl Aim {
    /// Solera's median to what it is held against.
    fn quotient(&self, set: &SetResults, phase: Phase) -> Option<f64> {
        let median = |engine: &str, phase| column::median(set, engine, phase, &self.column);
        let other = match self.against {
            Against::Peer(peer) => median(peer, phase)?,
            Against::Phase(other) => median("solera", other)?,
            Against::Number(number) => number,
        };
        Some(median("solera", phase)? / other)
    }

    fn is_reached(&self, quotient: f64) -> bool {
        match self.bound {
            Bound::Least(least) => quotient >= least,
            Bound::Most(most) => quotient <= most,
        }
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
        let meant = sets().filter(|set| aim.meant.is(set));
        let mut quotients = meant.filter_map(|set| Some((set.name.clone(), aim.quotient(set, phase)?)));
        let asked = match aim.bound {
            Bound::Least(least) => format!("≥ {least}"),
            Bound::Most(most) => format!("≤ {most}"),
        };
        let against = match aim.against {
            Against::Peer(peer) => format!("{peer}'s"),
            Against::Phase(other) => format!("its own of {}", other.name()),
            Against::Number(1.0) => "1".into(),
            Against::Number(ns) => format!("{} ms", ns / 1e6),
        };
        let (data, measured) = quotients.next().unzip();
        let others = quotients.filter(|(name, _)| data.as_ref() == Some(name)).map(|(_, quotient)| quotient);
        let others = others.collect();
        let quotient = format!("{} to {against}", aim.column.title);
        Held {
            others,
            said: [data.unwrap_or_else(|| "–".into()), phase.name(), quotient, asked],
            measured,
            is_reached: measured.is_some_and(|quotient| aim.is_reached(quotient)),
        }
    };
    AIMS.iter().flat_map(|aim| aim.phases.iter().map(move |&phase| of_phase(aim, phase))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aims_are_held_against_sets_with_one_client() {
        let set = |name: &str, direct, threads| SetResults {
            name: name.into(),
            entries: 100,
            data_bytes: 7200,
            memory_bytes: 64 << 20,
            direct,
            lz4: false,
            threads,
            engines: Vec::new(),
        };
        let sets = [
            (Meant::InMemory, "uniform/8+64@100", false),
            (Meant::LargeValues, "uniform/8+1024", false),
            (Meant::Direct, "uniform/8+64", true),
        ];
        for (meant, name, direct) in sets {
            assert!(meant.is(&set(name, direct, 1)), "{meant:?}");
            assert!(!meant.is(&set(name, direct, 2)), "{meant:?}");
        }
    }
}

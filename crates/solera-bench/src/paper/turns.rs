//! Databases compared closely, all open in memory and asked the same in short turns:
//! `Inquiry::in_turns`, `InTurns`, `Beside`.
//!
//! `InTurns` has what a database answered, and a `Beside`: rate and p99 of the last database in
//! multiples of this one's. Where a cache's blocks come to lie differs from one opening to the
//! next, and moves a database's rate by several percent. Turns take the machine's drift and its
//! stalls out of a ratio. Another order of opening in each repeat takes out what being first gains.
//!
//! What must hold: ratios are of the same turn; what is left of chance is in the quartiles.
//!
//! Callers: `paper::{doblix, keys, sherry}`.

use super::subject::{Answer, Inquiry, Reads, Stored, Subject, Tally};
use crate::{
    probes::Prober,
    report::Spread,
    runner::{Progress, Result},
};

/// Turns of each database in a repeat.
const TURNS: usize = 10;
/// Reads that are timed together, to one that comes before them and is not timed, because the
/// processor's caches still hold what the database before needed.
const TOGETHER_PER_UNTIMED: usize = 2;
/// The same to one that is timed alone.
const TOGETHER_PER_ALONE: usize = 4;

/// What a database does beside another, in multiples of what the other does: a number per repeat.
#[derive(Clone, Debug)]
pub(super) struct Beside {
    /// Found reads per second: the median over the turns of a repeat.
    pub reads: Spread,
    /// The 99th percentile of their latencies: the same.
    pub p99: Spread,
}

/// What a database answered.
pub(super) struct InTurns {
    /// To each question.
    pub answers: Vec<Answer>,
    /// What the last database does beside this one, for the first question.
    pub last_beside: Beside,
}

impl Inquiry<'_> {
    /// Opens all of `stored`, in each repeat with the next one first, and asks them in turns. With
    /// as many repeats as databases each is opened at each place once.
    pub(super) fn in_turns(&self, stored: &[&Stored], progress: &mut dyn Progress) -> Result<Vec<InTurns>> {
        let count = stored.len();
        let together = self.effort.lookups.div_ceil(TURNS);
        let (untimed, alone) =
            (together.div_ceil(TOGETHER_PER_UNTIMED), together.div_ceil(TOGETHER_PER_ALONE));
        let each = untimed + together + alone;
        let prober = Prober::new(self.set, self.effort.seed);
        let mut tallies = vec![vec![Tally::default(); self.asks.len()]; count];
        let mut beside = vec![(Vec::new(), Vec::new()); count];
        let stage = format!("{}: {count} layouts in turns", self.set.name);
        for repeat in 0..self.effort.repeats {
            progress.at(&stage, repeat as u64, self.effort.repeats as u64);
            let probes = prober.probes(repeat, TURNS * each, 0, 1);
            let subjects = self.open_all(stored, repeat)?;
            let mut turns = vec![vec![Tally::default(); self.asks.len()]; count];
            for turn in 0..TURNS {
                let start = turn * each;
                let reads = Reads {
                    untimed: start..start + untimed,
                    together: start + untimed..start + untimed + together,
                    alone: start + untimed + together..start + each,
                };
                for place in 0..count {
                    let which = (place + turn) % count;
                    self.ask(&subjects[which], &probes, &reads, &mut turns[which])?;
                }
            }
            for (which, (reads, p99)) in beside.iter_mut().enumerate() {
                let (other, own) = (&turns[which][0], &turns[count - 1][0]);
                reads.push(median_ratio(&own.rates, &other.rates));
                p99.push(median_ratio(&own.p99_ns, &other.p99_ns));
            }
            for (tallies, turns) in tallies.iter_mut().flatten().zip(turns.into_iter().flatten()) {
                tallies.add_median(turns);
            }
            for subject in subjects {
                subject.close()?;
            }
        }
        let answered = tallies.into_iter().zip(beside).map(|(tallies, (reads, p99))| InTurns {
            answers: tallies.into_iter().map(Tally::answer).collect(),
            last_beside: Beside { reads: Spread::of(reads), p99: Spread::of(p99) },
        });
        Ok(answered.collect())
    }

    /// All of them, opened one after the other, that of number `first` first.
    fn open_all(&self, stored: &[&Stored], first: usize) -> Result<Vec<Subject>> {
        let count = stored.len();
        let first = first % count;
        let mut subjects = Vec::new();
        for place in 0..count {
            subjects.push(stored[(first + place) % count].open_in_memory(self.set)?);
        }
        subjects.rotate_right(first);
        Ok(subjects)
    }
}

/// The median of one divided by the other.
fn median_ratio(of: &[f64], by: &[f64]) -> f64 {
    Spread::of(of.iter().zip(by).map(|(of, by)| of / by).collect()).median
}

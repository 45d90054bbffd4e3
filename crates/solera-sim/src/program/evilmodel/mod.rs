//! `evilmodel`: models and index bytes made by an enemy, with checksums that are right; `run`.
//!
//! Whole tables are taken apart, one kind of part is changed, and they are sealed again. What was
//! changed is changed further as long as lookups get dearer: a climb to the worst case. `model`
//! changes, `subject` asks, `search` climbs over one search.
//!
//! What must hold: answers stay right, or there is a clear error, and the extra work is bounded.
//! The comment of `run` has the bounds, part by part. Two exceptions are counted apart: keys that a
//! lying filter hides, and answers that lying fences lead astray among several blocks.
//!
//! Callers: `solera-sim evilmodel` (`Model` is its option), `canary`; `tests/lives.rs`.

mod model;
mod search;
mod subject;

pub use model::Model;

use super::{Scale, Verdict, for_each_seed};
use crate::{digest::Digest, life::caught, random::Random};
use model::{Forged, Part};
use search::climb_search;
use std::iter::repeat_with;
use subject::Subject;

/// Models of one subject.
const CLIMB: usize = 70;

/// How much to do.
#[derive(Clone, Debug)]
pub struct Amount {
    /// The first seed.
    pub first_seed: u64,
    /// How many seeds: each is a table, and a climb of 70 models from it.
    pub seeds: u64,
    /// Lookups of each model.
    pub lookups: usize,
    /// Seeds at the same time.
    pub threads: usize,
    /// Only this model of the first seed's table, with every key.
    pub only: Option<Model>,
}

impl Amount {
    /// As much as the scale says, from seed `first_seed` on.
    pub fn at(scale: Scale, first_seed: u64, threads: usize) -> Amount {
        Amount { first_seed, seeds: scale.of(400, 1500), lookups: scale.of(60, 200), threads, only: None }
    }
}

/// What the models of one seed did.
#[derive(Clone, Debug, Default)]
struct Tally {
    models: u64,
    lookups: u64,
    /// Tables that were refused when opened.
    refused: u64,
    /// Lookups that ended in an error.
    detected: u64,
    /// Keys that a lying filter hid.
    hidden: u64,
    /// Answers that lying fences led astray where the index names more than one block.
    astray: u64,
    /// Lines that were dropped.
    dropped: u64,
    /// Most blocks beyond the first that one lookup looked into, by what was changed.
    extra_blocks: [u64; Part::ALL.len()],
    compares_max: usize,
    wrong: Vec<String>,
    panics: u64,
}

/// Makes models, tries them out, and prints each that broke a promise.
///
/// * A lookup walks through the blocks that its index names, [`solera::table::WALK_MAX`] beside the
///   first at most. If an honest index names more, a search over the blocks follows: ⌊log2 n⌋ + 2.
/// * A block's **line** costs no extra block beyond those that the index names, whatever its bits.
///   A search makes at most [`solera_model::search::comparisons_max`] comparisons. A line that is
///   not finite or descends is dropped when its block is loaded, and counted (`lines_dropped`).
/// * A block's **hash index** costs no extra block either; a lookup looks at each bucket once at
///   most.
/// * An **index** that sends a lookup to a wrong block costs at most that walk, then that search.
/// * A **filter** that passes too much costs a look into one block.
/// * **Fences** that lie never change what a lookup finds that an exact index sent to the right
///   block. Where the index names several blocks, fences decide between them: what lying ones lead
///   astray is counted apart.
///
/// A filter that denies what the table holds cannot be found out by a lookup: that it is the filter
/// that was written rests on its checksum. What such filters hide is counted apart, and must show
/// as absent, not as something else.
pub fn run(amount: &Amount) -> Verdict {
    let seeds = if amount.only.is_some() { 1 } else { amount.seeds };
    let tallies = for_each_seed(amount.first_seed, seeds, amount.threads, |seed| {
        let mut tally = Tally::default();
        if let Some(model) = &amount.only {
            tally = only(seed, model);
        } else if let Err(what) = caught(|| one(seed, amount.lookups, &mut tally)) {
            tally.panics += 1;
            println!("seed {seed}: {what}");
        }
        tally.wrong.iter().for_each(|what| println!("seed {seed}: WRONG: {what}"));
        tally
    });
    let mut sum = Tally::default();
    let mut digest = Digest::new();
    let mut wrong = 0;
    for tally in &tallies {
        digest.add(format!("{tally:?}").as_bytes());
        sum.models += tally.models;
        sum.lookups += tally.lookups;
        sum.refused += tally.refused;
        sum.detected += tally.detected;
        sum.hidden += tally.hidden;
        sum.astray += tally.astray;
        sum.dropped += tally.dropped;
        sum.panics += tally.panics;
        sum.compares_max = sum.compares_max.max(tally.compares_max);
        wrong += tally.wrong.len() as u64;
        for (most, own) in sum.extra_blocks.iter_mut().zip(tally.extra_blocks) {
            *most = own.max(*most);
        }
    }
    let extra = |parts: &[Part]| {
        let of = |part: &Part| Part::ALL.iter().position(|one| one == part).map(|at| sum.extra_blocks[at]);
        parts.iter().filter_map(of).max().unwrap_or(0)
    };
    Verdict::new("evilmodel")
        .figure("models", sum.models)
        .figure("lookups", sum.lookups)
        .figure("tables_refused", sum.refused)
        .figure("lookups_refused", sum.detected)
        .figure("lines_dropped", sum.dropped)
        .figure("hidden_by_filters", sum.hidden)
        .figure("astray_by_fences", sum.astray)
        .figure("line_extra_blocks", extra(&[Part::Line, Part::BadLine]))
        .figure("bucket_extra_blocks", extra(&[Part::Buckets]))
        .figure("index_extra_blocks", extra(&[Part::Separators, Part::Trained, Part::Sizes, Part::Index]))
        .figure("fence_extra_blocks", extra(&[Part::Fences]))
        .figure("max_compares", sum.compares_max)
        .must_be_none("wrong", wrong)
        .must_be_none("panics", sum.panics)
        .figure("digest", digest)
}

/// The climbs from the table of one seed.
fn one(seed: u64, lookups: usize, tally: &mut Tally) -> Result<(), String> {
    let subject = Subject::new(seed)?;
    let mut random = Random::new(seed.rotate_left(32) ^ 0xe71);
    let drawn = |count: usize, random: &mut Random| -> Vec<_> {
        repeat_with(|| random.pick(&subject.probes)).take(count).collect()
    };
    let mut best = Part::ALL.map(|part| (0, Model::of(part).forged(&subject.forge)));
    // An honest table first: it must be right, and cost nothing.
    subject.try_out(&best[0].1, &drawn(lookups, &mut random), &drawn(lookups / 10, &mut random), tally)?;
    for number in 0..CLIMB {
        let at = number % Part::ALL.len();
        let afresh = random.one_in(4);
        let mut forged =
            if afresh { Model::of(Part::ALL[at]).forged(&subject.forge) } else { best[at].1.clone() };
        forged.worsen(random.next() as u32);
        tally.models += 1;
        let (looked_up, sought) = (drawn(lookups, &mut random), drawn(lookups / 10, &mut random));
        let tried = caught(|| Ok(subject.try_out(&forged, &looked_up, &sought, tally)));
        match tried {
            Ok(Ok(cost)) => {
                if cost >= best[at].0 {
                    best[at] = (cost, forged);
                }
            }
            Ok(Err(what)) => {
                tally.wrong.push(format!("model {number}: {what}\n{}", shrunk(seed, &subject, &forged)))
            }
            Err(panic) => {
                tally.panics += 1;
                println!("seed {seed}, model {number}: {panic}\n{}", shrunk(seed, &subject, &forged));
            }
        }
        match climb_search(&mut random, 200) {
            Ok(compares) => tally.compares_max = tally.compares_max.max(compares),
            Err(what) => tally.wrong.push(format!("model {number}: {what}")),
        }
    }
    Ok(())
}

/// The steps of a model without those that are not needed to break a promise, as the command that
/// shows it.
fn shrunk(seed: u64, subject: &Subject, forged: &Forged) -> String {
    let broken = |model: &Model| ask_all(subject, &model.forged(&subject.forge), &mut Tally::default()).err();
    let mut model = forged.model.clone();
    let Some(mut what) = broken(&model) else {
        return format!("  not again with every key; --model '{model}'");
    };
    let mut at = 0;
    while at < model.steps.len() {
        let mut shorter = model.clone();
        shorter.steps.remove(at);
        match broken(&shorter) {
            Some(left) => (model, what) = (shorter, left),
            None => at += 1,
        }
    }
    format!("  solera-sim evilmodel --seed {seed} --model '{model}': {what}")
}

/// Asks a forged table for every key that it is ever asked for; a panic is an error, too.
fn ask_all(subject: &Subject, forged: &Forged, tally: &mut Tally) -> Result<(), String> {
    let all: Vec<_> = subject.probes.iter().collect();
    caught(|| subject.try_out(forged, &all, &all, tally)).map(drop)
}

/// Makes this model of the table of `seed` and asks for every key, one after the other.
fn only(seed: u64, model: &Model) -> Tally {
    let mut tally = Tally { models: 1, ..Tally::default() };
    let asked =
        Subject::new(seed).and_then(|subject| ask_all(&subject, &model.forged(&subject.forge), &mut tally));
    tally.wrong.extend(asked.err());
    tally
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_the_same_table_whenever_it_is_made() {
        let subject = Subject::new(3).unwrap();
        for part in Part::ALL {
            let mut climbed = Model::of(part).forged(&subject.forge);
            [9, 9, 12, 7].into_iter().for_each(|step| climbed.worsen(step));
            let again = climbed.model.forged(&subject.forge);
            assert_eq!(
                climbed.forge.table(&climbed.index()).0,
                again.forge.table(&again.index()).0,
                "{part:?}"
            );
        }
    }
}

//! What an enemy changes in a table, step by step: `Model`, a `Part` and the numbers that its steps
//! are drawn from.
//!
//! There are ten parts. In blocks: lines, lines that must be dropped, hash indexes, fences. Of the
//! index: separators, the trained index, sizes, its bytes. Of the filter: what makes it pass more,
//! its bytes. `is_a_hint` says which only tell where to look: lookups must not fail by them.
//!
//! `Model::forged` makes a `Forged` table of an honest one. `Forged::worsen` changes its part by
//! one more step. A model prints as `line 17,4` and reads back, so that `evilmodel::mod` can
//! shorten one which breaks a promise.
//!
//! What must hold: the same model makes the same table of the same honest one. It may know a
//! `Forge`, and nothing of lookups.
//!
//! Callers: `evilmodel::mod` and `evilmodel::subject`; `evilmodel::search` uses `evil_line`;
//! `main.rs` reads a `Model`.

use crate::{
    forge::{Forge, StoredLine},
    random::Random,
};
use solera::FilterKind;
use std::{fmt, str::FromStr};

/// The worst of the numbers that a line can have.
const EVIL: [f64; 12] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    -1.0,
    -1e-300,
    0.0,
    -0.0,
    f64::MIN_POSITIVE / 4.0,
    f64::MAX,
    f64::MIN,
    1e300,
    9.007e15,
];

/// What is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Slope, intercept and error of blocks, to anything.
    Line,
    /// The same, to what a reader must drop.
    BadLine,
    /// The hash indexes of blocks.
    Buckets,
    /// The notes of blocks.
    Fences,
    /// The separators, and the index that is trained from them.
    Separators,
    /// Any byte of the trained index, and its length.
    Trained,
    /// The sizes of blocks.
    Sizes,
    /// Any byte of the index section, and its length.
    Index,
    /// More bits, fewer probes.
    GenerousFilter,
    /// Any byte of the filter, and its length.
    Filter,
}

impl Part {
    /// All of them.
    pub(super) const ALL: [Part; 10] = [
        Part::Line,
        Part::BadLine,
        Part::Buckets,
        Part::Fences,
        Part::Separators,
        Part::Trained,
        Part::Sizes,
        Part::Index,
        Part::GenerousFilter,
        Part::Filter,
    ];

    /// The name that users write.
    pub(super) fn name(self) -> &'static str {
        match self {
            Part::Line => "line",
            Part::BadLine => "bad-line",
            Part::Buckets => "buckets",
            Part::Fences => "fences",
            Part::Separators => "separators",
            Part::Trained => "trained",
            Part::Sizes => "sizes",
            Part::Index => "index",
            Part::GenerousFilter => "generous-filter",
            Part::Filter => "filter",
        }
    }

    /// Whether it only says where to look, so that not even an error may come of it.
    pub(super) fn is_a_hint(self) -> bool {
        matches!(self, Part::Line | Part::BadLine | Part::Buckets | Part::GenerousFilter | Part::Filter)
    }
}

/// How a table is changed: `line 17,4`, say, is two steps that change lines, drawn from the numbers
/// 17 and 4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// What is changed.
    pub(super) part: Part,
    /// What each step is drawn from.
    pub(super) steps: Vec<u32>,
}

impl Model {
    /// No change yet.
    pub(super) fn of(part: Part) -> Model {
        Model { part, steps: Vec::new() }
    }

    /// The table that the steps make of an honest one.
    pub(super) fn forged(&self, honest: &Forge) -> Forged {
        let mut forged =
            Forged { model: Model::of(self.part), forge: honest.clone(), sizes: honest.sizes(), index: None };
        self.steps.iter().for_each(|&step| forged.worsen(step));
        forged
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps: Vec<_> = self.steps.iter().map(u32::to_string).collect();
        write!(f, "{} {}", self.part.name(), steps.join(","))
    }
}

impl FromStr for Model {
    type Err = String;

    fn from_str(text: &str) -> Result<Model, String> {
        let (name, steps) = text.split_once(' ').unwrap_or((text, ""));
        let part = Part::ALL.into_iter().find(|part| part.name() == name).ok_or_else(|| {
            format!("there is no part {name:?}; the parts are {}", Part::ALL.map(Part::name).join(", "))
        })?;
        let steps = steps.split(',').filter(|step| !step.is_empty());
        let steps = steps
            .map(|step| step.trim().parse().map_err(|_| format!("step {step:?} is no number below 2^32")));
        Ok(Model { part, steps: steps.collect::<Result<_, _>>()? })
    }
}

/// A table with parts changed.
#[derive(Clone)]
pub(super) struct Forged {
    /// How it came to be.
    pub(super) model: Model,
    pub(super) forge: Forge,
    sizes: Vec<u64>,
    /// Instead of what sizes and separators give.
    index: Option<Vec<u8>>,
}

impl Forged {
    /// The index section.
    pub(super) fn index(&self) -> Vec<u8> {
        self.index.clone().unwrap_or_else(|| self.forge.index(&self.sizes))
    }

    /// Changes the part a little further, by what is drawn from `step`.
    pub(super) fn worsen(&mut self, step: u32) {
        self.model.steps.push(step);
        let random = &mut Random::new(step.into());
        match self.model.part {
            Part::Line => {
                let all = random.one_in(4);
                let picked = random.index(self.forge.blocks.len());
                for block in 0..self.forge.blocks.len() {
                    if (all || block == picked) && self.forge.buckets_mut(block).is_none() {
                        let line = evil_line(self.forge.line(block), random);
                        self.forge.set_line(block, line);
                    }
                }
            }
            Part::BadLine => {
                for block in 0..self.forge.blocks.len() {
                    if self.forge.buckets_mut(block).is_some() {
                        continue;
                    }
                    let mut line = evil_line(self.forge.line(block), random);
                    if !line.is_bad() {
                        line.slope = *random.pick(&EVIL[..5]);
                    }
                    self.forge.set_line(block, line);
                }
            }
            Part::Buckets => {
                for block in 0..self.forge.blocks.len() {
                    let Some(buckets) = self.forge.buckets_mut(block) else { continue };
                    let same = random.next() as u8;
                    match random.below(4) {
                        0 => buckets.fill(*random.pick(&[0, 1, same, 0xff])),
                        1 => buckets.reverse(),
                        2 => buckets.fill_with(|| random.next() as u8),
                        _ => {
                            let at = random.index(buckets.len());
                            buckets[at] = buckets[at].wrapping_add(1);
                        }
                    }
                }
            }
            Part::Fences => {
                for _ in 0..random.between(1, self.forge.blocks.len() as u64) {
                    let block = random.index(self.forge.blocks.len());
                    let note = self.forge.note_mut(block);
                    if let Some(last) = note.len().checked_sub(1) {
                        let at = random.index(last + 1);
                        note[at] =
                            if random.one_in(2) { random.next() as u8 } else { note[at].wrapping_sub(1) };
                    }
                }
            }
            Part::Separators => {
                worsen_separators(&mut self.forge.separators, random);
                self.forge.train();
            }
            Part::Trained => worsen_bytes(&mut self.forge.trained, random),
            Part::Sizes => {
                let at = random.index(self.sizes.len());
                let other = random.index(self.sizes.len());
                match random.below(5) {
                    0 => self.sizes.swap(at, other),
                    1 => {
                        self.sizes[at] = self.sizes[at].wrapping_add(1);
                        self.sizes[other] = self.sizes[other].saturating_sub(1);
                    }
                    2 => self.sizes[at] = *random.pick(&[0, 1, u64::MAX, 1 << 63, 1 << 32]),
                    3 => drop(self.sizes.pop()),
                    _ => self.sizes.push(random.below(500)),
                }
            }
            Part::Index => {
                let honest = self.forge.index(&self.sizes);
                worsen_bytes(self.index.get_or_insert(honest), random);
            }
            Part::GenerousFilter => {
                let filter = &mut self.forge.filter[..];
                match (filter.last().and_then(|&kind| FilterKind::from_u8(kind)), filter) {
                    (Some(FilterKind::Bloom), [bits @ .., probes, _]) => match random.below(3) {
                        0 => *probes = 1.max(*probes - 1),
                        1 => bits.fill(0xff),
                        _ => {
                            let at = random.index(bits.len());
                            bits[at] |= random.next() as u8;
                        }
                    },
                    // Only no bit at all is even for every key.
                    (Some(FilterKind::Ribbon), [words @ .., _, _, _, _, _]) => words.fill(0),
                    _ => {}
                }
            }
            Part::Filter => worsen_bytes(&mut self.forge.filter, random),
        }
    }
}

/// Another line, after what it is now.
pub(super) fn evil_line(line: StoredLine, random: &mut Random) -> StoredLine {
    let number = |own: f64, random: &mut Random| match random.below(5) {
        0 => *random.pick(&EVIL),
        1 => f64::from_bits(random.next()),
        2 => own * *random.pick(&[0.5, 2.0, -1.0, 1e-9, 1e9, 1.000_001]),
        3 => own + *random.pick(&[-1.0, 1.0, -50.0, 1e6]),
        _ => own,
    };
    let slope = number(line.slope, random);
    let intercept = number(line.intercept, random);
    let any = random.next() as u16;
    // Zero bounds mostly, so that the guess is believed.
    StoredLine { slope, intercept, error: *random.pick(&[0, 0, 0, 1, line.error, any, u16::MAX]) }
}

fn worsen_separators(separators: &mut Vec<Vec<u8>>, random: &mut Random) {
    if separators.is_empty() {
        return;
    }
    let at = random.index(separators.len());
    let other = random.index(separators.len());
    match random.below(8) {
        // In order, but not where the blocks end.
        0 => {
            separators.remove(at);
            let last = separators.last().cloned().unwrap_or_default();
            separators.push(last);
        }
        1 => {
            separators.pop();
            separators.insert(0, Vec::new());
        }
        2 => separators[at] = separators[at.saturating_sub(1)].clone(),
        3 => separators[at].push(random.next() as u8),
        4 => {
            let all = separators[at].clone();
            separators.fill(all);
        }
        // Out of order.
        5 => separators.swap(at, other),
        6 => separators[at] = (0..random.below(20)).map(|_| random.next() as u8).collect(),
        // Too many or too few.
        _ => {
            if random.one_in(2) {
                separators.pop();
            } else {
                separators.push(vec![0xff; 20]);
            }
        }
    }
}

fn worsen_bytes(bytes: &mut Vec<u8>, random: &mut Random) {
    let at = random.index(bytes.len().max(1));
    match random.below(6) {
        _ if bytes.is_empty() => bytes.push(random.next() as u8),
        0 => bytes.truncate(at),
        1 => bytes.insert(at, random.next() as u8),
        // A huge count, where a count stands.
        2 => drop(bytes.splice(..1, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01])),
        3 => {
            bytes.remove(at);
        }
        _ => bytes[at] ^= 1 << random.below(8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_read_as_it_is_printed() {
        for part in Part::ALL {
            for steps in [vec![], vec![7], vec![0, u32::MAX, 3]] {
                let model = Model { part, steps };
                assert_eq!(model.to_string().parse(), Ok(model));
            }
        }
        assert!("lines 3".parse::<Model>().is_err_and(|what| what.contains("bad-line")));
        assert!("line 3;4".parse::<Model>().is_err());
    }
}

//! The shape of the tree: `Shape`, the size ratio T, run limits K_i, write buffer and table bytes
//! (RusKey §4).
//!
//! `capacity_bytes` is M_b (T-1) T^level, but that of level 0 is M_b K_0. `run_capacity_bytes` is
//! C_i/K_i. `legal_size_ratio` and `legal_run_limit` say what one may be while the other stays;
//! `validate` checks all. `encode` and `decode` are its form in the manifest. The constants are the
//! ends of the ranges.
//!
//! What must hold: plain numbers. A change rewrites nothing by itself: later compactions obey it,
//! and levels that are too full for it become due. (A greedy `Transition` rewrites.) A shape out of
//! range is refused by `decode`.
//!
//! Callers: `tree::settings` holds one; decisions here obey it, such as `want`, `seals`,
//! `patience`, `filters` and `surplus`. `engine::options` and `control` set it;
//! `engine::keyspace_record` writes it. `solera-tune` predicts with it; `solera-bench`,
//! `solera-sim` and `fuzz` make their own.

use crate::{
    codec::{DecodeError, Decoder, put_varint},
    error::{Error, Result},
    version::{LEVELS_MAX, Run},
};
use std::{fmt, ops::RangeInclusive, sync::Arc};

/// Smallest size ratio: with less, levels would not grow.
pub const SIZE_RATIO_MIN: u32 = 2;
/// Largest size ratio: beyond it a second level holds more than disks do.
pub const SIZE_RATIO_MAX: u32 = 100;
/// Largest run limit of level 0: every read looks into all of these runs.
pub const LEVEL0_RUN_LIMIT_MAX: u32 = 64;
/// Smallest write buffer and smallest output table, in bytes: a quarter of a block of the default
/// layout. Less only makes files.
pub const BUFFER_BYTES_MIN: u64 = 1 << 10;
/// Largest write buffer and largest output table, in bytes.
pub const BUFFER_BYTES_MAX: u64 = 1 << 40;

/// How large each level may grow and how many runs it may hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// T: how many times larger a level is than the one above it. 2 to 100; default 10.
    pub size_ratio: u32,
    /// K_i: how many runs level i fills before all of them move down; the last number holds for all
    /// deeper levels. 1 to T (level 0: 1 to 64); 1 is leveling, T is tiering. Default 4, 1.
    pub run_limits: Vec<u32>,
    /// M_b: bytes of a full memtable, the unit that capacities are multiples of. Default 16 MiB.
    /// The engine fills in what the whole database has: [`crate::Options::write_buffer`].
    pub write_buffer_bytes: u64,
    /// Size at which the tables that compactions write are cut. Default 16 MiB.
    pub table_bytes: u64,
}

impl Default for Shape {
    fn default() -> Self {
        Shape { size_ratio: 10, run_limits: vec![4, 1], write_buffer_bytes: 16 << 20, table_bytes: 16 << 20 }
    }
}

impl Shape {
    /// K_i of `level`.
    pub fn run_limit(&self, level: u32) -> u32 {
        let at = (level as usize).min(self.run_limits.len().saturating_sub(1));
        self.run_limits.get(at).copied().unwrap_or(1)
    }

    /// Bytes that `level` may hold: M_b (T-1) T^level; for level 0, whose limit is its runs, M_b
    /// K_0. (docs/PAPERS.md, "RusKey: the flexible tree"; the papers count levels from 1 and
    /// entries instead of bytes.)
    pub fn capacity_bytes(&self, level: u32) -> u64 {
        if level == 0 {
            return self.write_buffer_bytes.saturating_mul(self.run_limit(0).into());
        }
        let ratio = u64::from(self.size_ratio);
        self.write_buffer_bytes.saturating_mul(ratio - 1).saturating_mul(ratio.saturating_pow(level))
    }

    /// Bytes at which the newest run of `level` is full and the next arrival opens another:
    /// C_i/K_i.
    pub fn run_capacity_bytes(&self, level: u32) -> u64 {
        self.capacity_bytes(level) / u64::from(self.run_limit(level))
    }

    /// Runs beyond which a level is emptied even if it is not full: T+2, or K_0+2 if that is more.
    /// Only a run limit that goes up and down can leave so many (docs/PAPERS.md, "RusKey: several
    /// runs in a level", point 6).
    pub fn run_count_max(&self) -> u32 {
        self.size_ratio.max(self.run_limit(0)) + 2
    }

    /// Whether merging `runs` of level 0 with level 1 would cost much more than they are worth.
    pub(super) fn is_little(&self, runs: &[Arc<Run>]) -> bool {
        runs.iter().map(|run| run.bytes()).sum::<u64>() <= self.write_buffer_bytes / 2
    }

    /// Whether `runs` of level 0 are rather to be merged with each other.
    pub(super) fn are_small(&self, runs: &[Arc<Run>]) -> bool {
        runs.len() > 1 && self.is_little(runs)
    }

    /// What the size ratio may be while the run limits stay as they are.
    pub fn legal_size_ratio(&self) -> RangeInclusive<u32> {
        self.run_limit_max().max(SIZE_RATIO_MIN)..=SIZE_RATIO_MAX
    }

    /// What the run limit of `level` may be while the size ratio stays as it is; `None`: of every
    /// level below 0.
    pub fn legal_run_limit(&self, level: Option<u32>) -> RangeInclusive<u32> {
        match level {
            Some(0) => 1..=LEVEL0_RUN_LIMIT_MAX,
            _ => 1..=self.size_ratio,
        }
    }

    /// The largest run limit below level 0.
    fn run_limit_max(&self) -> u32 {
        self.run_limits.iter().copied().skip(1).fold(self.run_limit(1), u32::max)
    }

    /// Sets the run limit of one level, or of all below level 0. It may be out of its range:
    /// [`Shape::validate`] then says so.
    pub fn set_run_limit(&mut self, level: Option<u32>, limit: u32) {
        match level {
            None => self.run_limits = vec![self.run_limit(0), limit],
            Some(level) => {
                // The levels below it keep what they have.
                let named = (self.run_limits.len() as u32).max(level + 2).min(LEVELS_MAX);
                self.run_limits = (0..named).map(|level| self.run_limit(level)).collect();
                self.run_limits[level as usize] = limit;
            }
        }
    }

    /// Whether every field is in its range; the error says which is not and what is legal.
    pub fn validate(&self) -> Result<()> {
        let illegal = |what: String| Err(Error::Invalid(what));
        let ratio = self.size_ratio;
        if !(SIZE_RATIO_MIN..=SIZE_RATIO_MAX).contains(&ratio) {
            return illegal(format!(
                "size_ratio is {ratio}; it must be {SIZE_RATIO_MIN} to {SIZE_RATIO_MAX}"
            ));
        }
        if self.run_limits.is_empty() || self.run_limits.len() > LEVELS_MAX as usize {
            return illegal(format!(
                "run_limits has {} numbers; it must have 1 to {LEVELS_MAX}",
                self.run_limits.len()
            ));
        }
        // A single number holds for level 1 too, so it must be legal there.
        for level in 0..(self.run_limits.len() as u32).max(2) {
            let (limit, max) = (self.run_limit(level), if level == 0 { LEVEL0_RUN_LIMIT_MAX } else { ratio });
            if !(1..=max).contains(&limit) {
                return illegal(format!("run_limit of level {level} is {limit}; it must be 1 to {max}"));
            }
        }
        for (name, bytes) in
            [("write_buffer_bytes", self.write_buffer_bytes), ("table_bytes", self.table_bytes)]
        {
            if !(BUFFER_BYTES_MIN..=BUFFER_BYTES_MAX).contains(&bytes) {
                return illegal(format!(
                    "{name} is {bytes}; it must be {BUFFER_BYTES_MIN} to {BUFFER_BYTES_MAX}"
                ));
            }
        }
        Ok(())
    }

    /// Appends the shape: size ratio, count of run limits, the run limits, write buffer bytes,
    /// table bytes (varints).
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.size_ratio.into());
        put_varint(out, self.run_limits.len() as u64);
        self.run_limits.iter().for_each(|&limit| put_varint(out, limit.into()));
        put_varint(out, self.write_buffer_bytes);
        put_varint(out, self.table_bytes);
    }

    /// Reads what [`Shape::encode`] wrote. A shape out of range is refused.
    pub fn decode(decoder: &mut Decoder<'_>) -> Result<Shape, DecodeError> {
        let size_ratio = decoder.varint_up_to(SIZE_RATIO_MAX.into(), "a size ratio")? as u32;
        let levels = decoder.varint_up_to(LEVELS_MAX.into(), "a count of run limits")?;
        let mut run_limits = Vec::with_capacity(levels as usize);
        for _ in 0..levels {
            run_limits.push(decoder.varint_up_to(u32::MAX.into(), "a run limit")? as u32);
        }
        let write_buffer_bytes = decoder.varint("a write buffer's size")?;
        let table_bytes = decoder.varint("a table's size")?;
        let shape = Shape { size_ratio, run_limits, write_buffer_bytes, table_bytes };
        if shape.validate().is_err() {
            return decoder.fail("a shape in range");
        }
        Ok(shape)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "T={} K=", self.size_ratio)?;
        for limit in &self.run_limits {
            write!(f, "{limit},")?;
        }
        write!(f, ".. buffer={} table={}", self.write_buffer_bytes, self.table_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_grow_by_the_size_ratio_and_never_overflow() {
        let shape = Shape { write_buffer_bytes: 1000, ..Shape::default() };
        assert_eq!(shape.capacity_bytes(0), 4 * 1000);
        assert_eq!(shape.capacity_bytes(1), 1000 * 9 * 10);
        assert_eq!(shape.capacity_bytes(2), 1000 * 9 * 100);
        assert_eq!(shape.capacity_bytes(63), u64::MAX);
        let tiered = Shape { run_limits: vec![4, 10, 5], ..shape };
        assert_eq!(tiered.run_capacity_bytes(1), 9000);
        assert_eq!(tiered.run_capacity_bytes(2), 180_000);
        assert_eq!((tiered.run_limit(1), tiered.run_limit(2), tiered.run_limit(9)), (10, 5, 5));
    }

    #[test]
    fn shapes_out_of_range_are_refused_with_the_range() {
        let legal = Shape::default();
        legal.validate().unwrap();
        for (wrong, says) in [
            (Shape { size_ratio: 1, ..legal.clone() }, "2 to 100"),
            (Shape { size_ratio: 101, ..legal.clone() }, "2 to 100"),
            (Shape { run_limits: vec![], ..legal.clone() }, "1 to 64"),
            (Shape { run_limits: vec![0, 1], ..legal.clone() }, "1 to 64"),
            (Shape { run_limits: vec![4, 11], ..legal.clone() }, "1 to 10"),
            (Shape { run_limits: vec![11], ..legal.clone() }, "1 to 10"),
            (Shape { run_limits: vec![4, 1, 0], ..legal.clone() }, "level 2"),
            (Shape { write_buffer_bytes: 0, ..legal.clone() }, "write_buffer_bytes"),
            (Shape { table_bytes: u64::MAX, ..legal.clone() }, "table_bytes"),
        ] {
            let error = wrong.validate().unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn a_run_limit_is_set_for_one_level_or_for_all_below_0() {
        let mut shape = Shape::default();
        let limits = |shape: &Shape| (0..6).map(|level| shape.run_limit(level)).collect::<Vec<_>>();
        shape.set_run_limit(Some(3), 7);
        assert_eq!(limits(&shape), [4, 1, 1, 7, 1, 1]);
        shape.set_run_limit(Some(0), 9);
        shape.set_run_limit(Some(1), 2);
        assert_eq!(limits(&shape), [9, 2, 1, 7, 1, 1]);
        shape.set_run_limit(None, 5);
        assert_eq!(limits(&shape), [9, 5, 5, 5, 5, 5]);
        shape.set_run_limit(Some(LEVELS_MAX - 1), 3);
        shape.validate().unwrap();
        assert_eq!(limits(&shape), [9, 5, 5, 5, 5, 5]);
        let mut single = Shape { run_limits: vec![2], ..Shape::default() };
        single.set_run_limit(Some(0), 20);
        assert_eq!(limits(&single), [20, 2, 2, 2, 2, 2]);
    }

    #[test]
    fn what_is_legal_now_passes_and_the_next_number_does_not() {
        let shape = Shape { size_ratio: 8, run_limits: vec![40, 5, 3], ..Shape::default() };
        let ratio = shape.legal_size_ratio();
        assert_eq!(ratio, 5..=100);
        for (ratio, is_legal) in [(5, true), (100, true), (4, false), (101, false)] {
            let changed = Shape { size_ratio: ratio, ..shape.clone() };
            assert_eq!(changed.validate().is_ok(), is_legal, "size ratio {ratio}");
        }
        for (level, legal) in [(Some(0), 1..=64), (Some(1), 1..=8), (Some(7), 1..=8), (None, 1..=8)] {
            assert_eq!(shape.legal_run_limit(level), legal, "{level:?}");
            let (min, max) = (*legal.start(), *legal.end());
            for (limit, is_legal) in [(min, true), (max, true), (min - 1, false), (max + 1, false)] {
                let mut changed = shape.clone();
                changed.set_run_limit(level, limit);
                assert_eq!(changed.validate().is_ok(), is_legal, "{level:?} {limit}");
            }
        }
    }

    #[test]
    fn shapes_come_back_from_bytes() {
        let shape = Shape { size_ratio: 7, run_limits: vec![2, 7, 3, 1], ..Shape::default() };
        let mut bytes = Vec::new();
        shape.encode(&mut bytes);
        let mut decoder = Decoder::new(&bytes);
        assert_eq!(Shape::decode(&mut decoder).unwrap(), shape);
        for len in 0..bytes.len() {
            assert!(Shape::decode(&mut Decoder::new(&bytes[..len])).is_err());
        }
        bytes[0] = 1;
        assert!(Shape::decode(&mut Decoder::new(&bytes)).is_err());
    }
}

//! Mixed loads: reads, scans, updates and inserts by turns, in an order that is laid out before the clock starts.

use super::{Child, FRESH_VALUES, histogram, quantiles};
use crate::{
    engine::Result,
    phase::{Measured, Mix},
    process,
};
use solera::clock::Clock;
use solera_bench::{probes::ZIPF_EXPONENT, random::Random, zipf::Zipf};
use std::hint::black_box;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Read,
    Update,
    Modify,
    Scan(usize),
}

impl Child<'_> {
    /// A mixed load, every operation timed.
    pub(super) fn mixed(&mut self, mix: Mix, seed: u64) -> Result<Measured> {
        let n = self.set.pairs.len() as u64;
        let mut random = Random::new(seed);
        let zipf = Zipf::new(n, ZIPF_EXPONENT);
        let mut popular: Vec<u32> = (0..n as u32).collect();
        Random::new(self.task.seed).shuffle(&mut popular);
        let mut inserted = self.inserted;
        // Laid out before the clock starts: what to do, and to which key.
        let mut plan = Vec::with_capacity(self.task.operations);
        for _ in 0..self.task.operations {
            let die = random.below(100) as u32;
            let drawn = zipf.draw(&mut random);
            let key = if mix.latest && drawn < inserted as u64 {
                n + inserted as u64 - 1 - drawn
            } else {
                u64::from(popular[drawn as usize])
            };
            let step = if die < mix.reads {
                Step::Read
            } else if die < mix.reads + mix.updates {
                Step::Update
            } else if die < mix.reads + mix.updates + mix.scans {
                Step::Scan(1 + random.below(100) as usize)
            } else if die < mix.reads + mix.updates + mix.scans + mix.modifies {
                Step::Modify
            } else if inserted < self.set.absent.len() {
                inserted += 1;
                plan.push((Step::Update, n + inserted as u64 - 1));
                continue;
            } else {
                Step::Update
            };
            plan.push((step, key));
        }
        let engine = self.engine()?;
        let mut reader = engine.reader()?;
        let mut histogram = histogram();
        let (mut wrong, mut write_ns_max, mut touched) = (0, 0, 0u64);
        let (mut done, mut written) = (0, false);
        let cpu = process::cpu_seconds();
        let start = self.clock.monotonic_ns();
        let mut last = start;
        for (i, &(step, key)) in plan.iter().enumerate() {
            let key = if key < n {
                self.set.pairs.get(key as usize).0
            } else {
                self.set.absent.get((key - n) as usize).0
            };
            if step != Step::Update && written && !engine.reader_is_live() {
                drop(reader);
                reader = engine.reader()?;
                written = false;
            }
            written |= matches!(step, Step::Update | Step::Modify);
            let value = &self.fresh[i % FRESH_VALUES];
            match step {
                Step::Read => {
                    wrong += u64::from(!reader.get(key, &mut |value| touched += value.len() as u64)?);
                }
                Step::Update => engine.put(key, value)?,
                Step::Modify => {
                    wrong += u64::from(!reader.get(key, &mut |value| touched += value.len() as u64)?);
                    engine.put(key, value)?;
                }
                Step::Scan(limit) => {
                    let count =
                        reader.scan(key, limit, false, &mut |_, value| touched += value.len() as u64)?;
                    wrong += u64::from(count == 0);
                }
            }
            let now = self.clock.monotonic_ns();
            histogram.saturating_record(now - last);
            if matches!(step, Step::Update | Step::Modify) {
                write_ns_max = write_ns_max.max(now - last);
            }
            last = now;
            done = i + 1;
            if now - start > self.limit_ns() {
                break;
            }
        }
        let cpu_seconds = process::cpu_seconds() - cpu;
        black_box(touched);
        drop(reader);
        // Reads ask for what was inserted too.
        let is_insert = |(step, key): &&(Step, u64)| *step == Step::Update && *key >= n;
        self.inserted += plan[..done].iter().filter(is_insert).count();
        Ok(Measured {
            operations: done as u64,
            seconds: (last - start) as f64 / 1e9,
            cpu_seconds,
            latency_ns: Some(quantiles(&histogram)),
            write_ns_max: Some(write_ns_max),
            wrong,
            ..Measured::default()
        })
    }
}

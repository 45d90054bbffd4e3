//! One engine in a process of its own: it makes the data, opens the engine, and does the phases that the
//! parent asks for, one line each way. So engines share no allocator, and their memory and processor time are
//! the process's.

use crate::{
    engine::{Engine, Reader, Result, Setting},
    engines,
    phase::{Measured, Mix, Phase},
    process,
    source::Source,
};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use solera::clock::{Clock, SystemClock};
use solera_bench::{
    data::DataSet,
    measure,
    packed::Packed,
    probes::{Prober, Probes, ZIPF_EXPONENT},
    random::Random,
    zipf::Zipf,
};
use std::{
    hint::black_box,
    io::{BufRead, Write},
    path::PathBuf,
    rc::Rc,
};

/// Keys of one [`Phase::MultiGet`] call.
const MULTI_GET_KEYS: usize = 64;
/// After a load every pair is scanned, and one in so many read: reading them all takes longer than the phases.
const VERIFIED_BY_READ: usize = 8;
/// Different values that updates choose from.
const FRESH_VALUES: usize = 1024;

/// What a child is told when it starts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    pub engine: String,
    pub directory: PathBuf,
    pub source: Source,
    pub entries: usize,
    pub memory_bytes: u64,
    pub direct: bool,
    pub lz4: bool,
    pub operations: usize,
    pub pass_seconds: f64,
    pub seed: u64,
}

/// One line from the parent.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Ask {
    pub phase: Phase,
    pub repeat: usize,
}

/// One line to the parent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The data is made: how many pairs, and the bytes of all of them.
    Ready {
        pairs: usize,
        bytes: u64,
    },
    Measured(Measured),
    Failed(String),
}

/// Serves the parent until it closes the pipe.
pub fn serve(task: &str) -> Result<()> {
    let task: Task = serde_json::from_str(task)?;
    let set = task.source.make(task.entries, task.seed)?;
    let mut out = std::io::stdout();
    let mut say = move |answer: &Answer| -> Result<()> {
        writeln!(out, "{}", serde_json::to_string(answer)?)?;
        Ok(out.flush()?)
    };
    say(&Answer::Ready { pairs: set.pairs.len(), bytes: set.pairs.bytes() })?;
    let mut child = Child::new(&task, &set);
    for line in std::io::stdin().lock().lines() {
        let ask: Ask = serde_json::from_str(&line?)?;
        say(&match child.measure(ask) {
            Ok(measured) => Answer::Measured(measured),
            Err(error) => Answer::Failed(error.to_string()),
        })?;
    }
    Ok(())
}

/// Makes and loads the data, and does these phases, without a parent.
pub fn alone(task: &Task, asks: impl Iterator<Item = Ask>, done: &mut dyn FnMut(Measured)) -> Result<()> {
    let set = task.source.make(task.entries, task.seed)?;
    let mut child = Child::new(task, &set);
    child.measure(Ask { phase: Phase::LoadRandom, repeat: 0 })?;
    asks.into_iter().try_for_each(|ask| {
        let measured = child.measure(ask)?;
        (measured.wrong == 0).then_some(()).ok_or("wrong answers")?;
        done(measured);
        Ok(())
    })
}

struct Child<'a> {
    task: &'a Task,
    set: &'a DataSet,
    prober: Prober<'a>,
    drawn: Option<([usize; 4], Rc<Probes>)>,
    clock: SystemClock,
    engine: Option<Box<dyn Engine>>,
    fresh: Vec<Vec<u8>>,
    /// Of the keys that were held out, so many are inserted by now.
    inserted: usize,
    /// Memory of the process, data and probes included, before its first engine.
    idle_bytes: Option<u64>,
}

impl<'a> Child<'a> {
    fn new(task: &'a Task, set: &'a DataSet) -> Self {
        let mut random = Random::new(task.seed ^ 0xf4e5);
        let mean = (set.value_bytes / set.pairs.len() as u64) as usize;
        let fresh = (0..FRESH_VALUES).map(|_| {
            let mut value = vec![0; mean];
            random.fill(&mut value);
            value
        });
        let fresh = fresh.collect();
        let prober = Prober::new(set, task.seed);
        let clock = SystemClock::new();
        Child { task, set, prober, drawn: None, clock, engine: None, fresh, inserted: 0, idle_bytes: None }
    }

    fn engine(&self) -> Result<&dyn Engine> {
        self.engine.as_deref().ok_or_else(|| "the load phase must come before the others".into())
    }

    /// What to ask for in this repeat. The same as last time is not drawn again.
    fn probes(&mut self, repeat: usize, lookups: usize, scans: usize, entries: usize) -> Rc<Probes> {
        let wanted = [repeat, lookups, scans, entries];
        if self.drawn.as_ref().is_none_or(|(drawn, _)| *drawn != wanted) {
            self.drawn = Some((wanted, Rc::new(self.prober.probes(repeat, lookups, scans, entries))));
        }
        self.drawn.as_ref().map(|(_, probes)| probes.clone()).expect("drawn above")
    }

    fn limit_ns(&self) -> u64 {
        (self.task.pass_seconds * 1e9) as u64
    }

    fn measure(&mut self, ask: Ask) -> Result<Measured> {
        let (operations, wide) = (self.task.operations, self.task.operations / 10);
        let seed = self.task.seed ^ (ask.repeat as u64 + 1) << 40 ^ (ask.phase as u64) << 56;
        let probes = match ask.phase {
            Phase::Scan10 => self.probes(ask.repeat, 1, wide, 10),
            Phase::Scan100 => self.probes(ask.repeat, 1, wide, 100),
            Phase::Scan1000 => self.probes(ask.repeat, 1, wide / 10 + 1, 1000),
            _ => self.probes(ask.repeat, operations, 1, 1),
        };
        let cpu = process::cpu_seconds();
        let mut measured = match ask.phase {
            Phase::LoadSorted | Phase::LoadRandom => self.load(ask.phase)?,
            Phase::FoundUniform => self.found(&probes.uniform)?,
            Phase::FoundZipf => self.found(&probes.zipf)?,
            Phase::MultiGet => self.multi_get(&probes.uniform)?,
            Phase::Absent => self.absent(&probes.absent)?,
            Phase::Scan10 => self.scans(&probes.scans, 10)?,
            Phase::Scan100 => self.scans(&probes.scans, 100)?,
            Phase::Scan1000 => self.scans(&probes.scans, 1000)?,
            Phase::FullScan => self.full_scan(false)?,
            Phase::FullScanBack => self.full_scan(true)?,
            Phase::TwoThreads => self.two_threads(&probes.uniform)?,
            Phase::Overwrite => self.overwrite(seed)?,
            Phase::HotScan => self.hot_scan(seed)?,
            Phase::DeleteScan => self.delete_scan(ask.repeat, seed)?,
            Phase::Mix90
            | Phase::Mix50
            | Phase::Mix10
            | Phase::YcsbA
            | Phase::YcsbB
            | Phase::YcsbC
            | Phase::YcsbD
            | Phase::YcsbE
            | Phase::YcsbF => {
                let mix = ask.phase.mix().ok_or("a phase without a mix")?;
                self.mixed(mix, seed)?
            }
        };
        if measured.cpu_seconds == 0.0 {
            measured.cpu_seconds = process::cpu_seconds() - cpu;
        }
        Ok(measured)
    }

    /// Loads a new database in an empty directory, in random or in key order.
    fn load(&mut self, phase: Phase) -> Result<Measured> {
        drop(self.engine.take());
        self.inserted = 0;
        let directory = &self.task.directory;
        if directory.exists() {
            std::fs::remove_dir_all(directory)?;
        }
        std::fs::create_dir_all(directory)?;
        let setting = Setting {
            directory: directory.clone(),
            memory_bytes: self.task.memory_bytes,
            data_bytes: self.set.pairs.bytes(),
            direct: self.task.direct,
            lz4: self.task.lz4,
        };
        let idle_bytes = *self.idle_bytes.get_or_insert_with(process::resident_bytes);
        let engine = engines::open(&self.task.engine, &setting)?;
        let written = process::written_bytes();
        let pairs = &self.set.pairs;
        let mut writes = histogram();
        let (cpu, start) = (process::cpu_seconds(), self.clock.monotonic_ns());
        let mut last = start;
        let mut watched = |pair| {
            // Between two pairs of the load lies one write of the engine; of some, and only now and then, a
            // transaction of many.
            let now = self.clock.monotonic_ns();
            writes.saturating_record(now - last);
            last = now;
            pair
        };
        if phase == Phase::LoadSorted {
            engine.put_all(&mut self.set.sorted.iter().map(|&i| watched(pairs.get(i as usize))))?;
        } else {
            engine.put_all(&mut pairs.iter().map(&mut watched))?;
        }
        engine.settle()?;
        let seconds = (self.clock.monotonic_ns() - start) as f64 / 1e9;
        let cpu_seconds = process::cpu_seconds() - cpu;
        let bytes = pairs.bytes() as f64;
        let (index_bytes, filter_bytes) = engine.index_and_filter_bytes().unzip();
        self.engine = Some(engine);
        if phase == Phase::LoadRandom {
            // Everything is there, and every cache is warm.
            let wrong = self.verify()?;
            return Ok(Measured {
                operations: pairs.len() as u64,
                seconds,
                cpu_seconds,
                latency_ns: Some(quantiles(&writes)),
                write_ns_max: Some(writes.max()),
                written_per_byte: Some((process::written_bytes() - written) as f64 / bytes),
                space_per_byte: Some(process::directory_bytes(directory)? as f64 / bytes),
                resident_bytes: Some(process::resident_bytes().saturating_sub(idle_bytes)),
                index_bytes,
                filter_bytes,
                wrong,
                ..Measured::default()
            });
        }
        Ok(Measured {
            operations: pairs.len() as u64,
            seconds,
            cpu_seconds,
            latency_ns: Some(quantiles(&writes)),
            write_ns_max: Some(writes.max()),
            written_per_byte: Some((process::written_bytes() - written) as f64 / bytes),
            space_per_byte: Some(process::directory_bytes(directory)? as f64 / bytes),
            ..Measured::default()
        })
    }

    /// Scans everything, which warms every cache, then reads one in [`VERIFIED_BY_READ`] of the pairs and of the
    /// keys that are absent. Returns wrong answers.
    fn verify(&self) -> Result<u64> {
        let mut reader = self.engine()?.reader()?;
        let mut wrong = 0;
        let mut at = self.set.sorted.iter();
        let entries = reader.scan(b"", usize::MAX, false, &mut |key, value| {
            let expected = at.next().map(|&i| self.set.pairs.get(i as usize));
            wrong += u64::from(expected != Some((key, value)));
        })?;
        wrong += (self.set.pairs.len() as u64).abs_diff(entries as u64);
        for (key, value) in self.set.pairs.iter().step_by(VERIFIED_BY_READ) {
            wrong += u64::from(!found(&mut *reader, key, value)?);
        }
        for (key, _) in self.set.absent.iter().step_by(VERIFIED_BY_READ) {
            wrong += u64::from(reader.get(key, &mut |_| ())?);
        }
        Ok(wrong)
    }

    fn found(&self, probes: &Packed) -> Result<Measured> {
        let mut reader = self.engine()?.reader()?;
        self.reads(probes, |key, value| found(&mut *reader, key, value))
    }

    fn absent(&self, probes: &Packed) -> Result<Measured> {
        let mut reader = self.engine()?.reader()?;
        self.reads(probes, |key, _| Ok(!reader.get(key, &mut |_| ())?))
    }

    /// A pass without a clock for the rate, and one with a clock over a quarter of the probes.
    fn reads(&self, probes: &Packed, mut read: impl FnMut(&[u8], &[u8]) -> Result<bool>) -> Result<Measured> {
        let mut failed = None;
        let mut read = |key: &[u8], value: &[u8]| -> solera_bench::Result<bool> {
            Ok(read(key, value).unwrap_or_else(|error| {
                failed = Some(error);
                false
            }))
        };
        let (cpu, calls) = (process::cpu_seconds(), process::read_calls());
        let pass = measure::throughput(&self.clock, probes, self.limit_ns(), &mut read)?;
        let cpu_seconds = process::cpu_seconds() - cpu;
        let calls = process::read_calls() - calls;
        let (timed, histogram) =
            measure::latencies(&self.clock, probes, probes.len().div_ceil(4), self.limit_ns(), &mut read)?;
        failed.map_or(Ok(()), Err)?;
        Ok(Measured {
            operations: pass.operations,
            seconds: pass.ns as f64 / 1e9,
            cpu_seconds,
            latency_ns: Some(quantiles(&histogram)),
            // Only where each is a read of the device.
            read_calls: self.task.direct.then_some(calls),
            timed_operations: timed.operations,
            wrong: pass.wrong + timed.wrong,
            ..Measured::default()
        })
    }

    fn multi_get(&self, probes: &Packed) -> Result<Measured> {
        let mut reader = self.engine()?.reader()?;
        let mut histogram = histogram();
        let (mut operations, mut right) = (0, 0);
        let all: Vec<_> = probes.iter().collect();
        let start = self.clock.monotonic_ns();
        let mut last = start;
        for group in all.chunks_exact(MULTI_GET_KEYS) {
            let keys: Vec<&[u8]> = group.iter().map(|(key, _)| *key).collect();
            reader.multi_get(&keys, &mut |i, value| right += u64::from(value == group[i].1))?;
            operations += MULTI_GET_KEYS as u64;
            let now = self.clock.monotonic_ns();
            histogram.saturating_record(now - last);
            last = now;
            if now - start > self.limit_ns() {
                break;
            }
        }
        Ok(Measured {
            operations,
            seconds: (last - start) as f64 / 1e9,
            latency_ns: Some(quantiles(&histogram)),
            wrong: operations - right,
            ..Measured::default()
        })
    }

    /// Each probe is the first key of a scan and the last key that it must see.
    fn scans(&self, probes: &Packed, entries: usize) -> Result<Measured> {
        let mut reader = self.engine()?.reader()?;
        let mut failed = None;
        let mut last = Vec::new();
        let mut touched = 0u64;
        let (pass, histogram) =
            measure::latencies(&self.clock, probes, probes.len(), self.limit_ns(), |from, expected| {
                let scanned = reader.scan(from, entries, false, &mut |key, value| {
                    touched += value.last().copied().map_or(0, u64::from);
                    last.clear();
                    last.extend_from_slice(key);
                });
                if let Err(error) = scanned {
                    failed = Some(error);
                }
                Ok(last == expected)
            })?;
        black_box(touched);
        failed.map_or(Ok(()), Err)?;
        Ok(Measured {
            operations: pass.operations,
            seconds: pass.ns as f64 / 1e9,
            latency_ns: Some(quantiles(&histogram)),
            wrong: pass.wrong,
            ..Measured::default()
        })
    }

    fn full_scan(&self, backwards: bool) -> Result<Measured> {
        let mut reader = self.engine()?.reader()?;
        let (mut bytes, mut touched) = (0, 0u64);
        let start = self.clock.monotonic_ns();
        let operations = reader.scan(b"", usize::MAX, backwards, &mut |key, value| {
            bytes += (key.len() + value.len()) as u64;
            touched += value.last().copied().map_or(0, u64::from);
        })? as u64;
        black_box(touched);
        let seconds = (self.clock.monotonic_ns() - start) as f64 / 1e9;
        let right = (operations, bytes) == (self.set.pairs.len() as u64, self.set.pairs.bytes());
        Ok(Measured { operations, seconds, wrong: u64::from(!right), ..Measured::default() })
    }

    fn two_threads(&self, probes: &Packed) -> Result<Measured> {
        let engine = self.engine()?;
        let all: Vec<_> = probes.iter().collect();
        let start = self.clock.monotonic_ns();
        let halves = std::thread::scope(|scope| {
            let threads: Vec<_> = all
                .chunks(all.len().div_ceil(2))
                .map(|half| {
                    scope.spawn(move || -> Result<u64> {
                        let mut reader = engine.reader()?;
                        let mut wrong = 0;
                        for (key, value) in half {
                            wrong += u64::from(!found(&mut *reader, key, value)?);
                        }
                        Ok(wrong)
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| "a reading thread panicked")?)
                .collect::<Result<Vec<_>>>()
        })?;
        let seconds = (self.clock.monotonic_ns() - start) as f64 / 1e9;
        Ok(Measured {
            operations: all.len() as u64,
            seconds,
            wrong: halves.iter().sum(),
            ..Measured::default()
        })
    }

    /// A mixed load, every operation timed.
    fn mixed(&mut self, mix: Mix, seed: u64) -> Result<Measured> {
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

    fn overwrite(&self, seed: u64) -> Result<Measured> {
        let engine = self.engine()?;
        let mut order: Vec<u32> = (0..self.set.pairs.len() as u32).collect();
        Random::new(seed).shuffle(&mut order);
        let written = process::written_bytes();
        let mut bytes = 0;
        let mut write_ns_max = 0;
        let start = self.clock.monotonic_ns();
        let mut last = start;
        engine.put_all(&mut order.iter().enumerate().map(|(i, &at)| {
            let pair = (self.set.pairs.get(at as usize).0, &self.fresh[i % FRESH_VALUES][..]);
            bytes += (pair.0.len() + pair.1.len()) as u64;
            let now = self.clock.monotonic_ns();
            write_ns_max = write_ns_max.max(now - last);
            last = now;
            pair
        }))?;
        engine.settle()?;
        let seconds = (self.clock.monotonic_ns() - start) as f64 / 1e9;
        Ok(Measured {
            operations: order.len() as u64,
            seconds,
            write_ns_max: Some(write_ns_max),
            written_per_byte: Some((process::written_bytes() - written) as f64 / bytes.max(1) as f64),
            space_per_byte: Some(
                process::directory_bytes(&self.task.directory)? as f64 / bytes.max(1) as f64,
            ),
            resident_bytes: self.idle_bytes.map(|idle| process::resident_bytes().saturating_sub(idle)),
            ..Measured::default()
        })
    }

    /// Old versions must be skipped, not walked.
    fn hot_scan(&self, seed: u64) -> Result<Measured> {
        const HOT: usize = 100;
        const TIMES: usize = 1000;
        let engine = self.engine()?;
        let n = self.set.sorted.len();
        let hot = HOT.min(n);
        let first = Random::new(seed).below((n - hot) as u64 + 1) as usize;
        let keys: Vec<&[u8]> =
            self.set.sorted[first..first + hot].iter().map(|&i| self.set.pairs.get(i as usize).0).collect();
        let updates =
            (0..TIMES).flat_map(|time| keys.iter().enumerate().map(move |(i, key)| (time + i, key)));
        let (_, fresh, _) = self.scan_again(&keys)?;
        engine.put_all(&mut updates.map(|(i, key)| (*key, &self.fresh[i % FRESH_VALUES][..])))?;
        let cpu = process::cpu_seconds();
        let (seconds, aged, wrong) = self.scan_again(&keys)?;
        Ok(Measured {
            operations: aged.len(),
            seconds,
            cpu_seconds: process::cpu_seconds() - cpu,
            latency_ns: Some(quantiles(&aged)),
            fresh_p95_ns: Some(quantiles(&fresh)[1]),
            wrong,
            ..Measured::default()
        })
    }

    /// Scans these keys, all that lie between the first and the last, over and over. Returns seconds, latencies and
    /// wrong answers.
    fn scan_again(&self, keys: &[&[u8]]) -> Result<(f64, Histogram<u64>, u64)> {
        let mut reader = self.engine()?.reader()?;
        let mut histogram = histogram();
        let (mut touched, mut wrong) = (0u64, 0);
        let start = self.clock.monotonic_ns();
        let mut last = start;
        while histogram.len() < (self.task.operations / 100) as u64 && last - start < self.limit_ns() {
            let count =
                reader.scan(keys[0], keys.len(), false, &mut |_, value| touched += value.len() as u64)?;
            wrong += u64::from(count != keys.len());
            let now = self.clock.monotonic_ns();
            histogram.saturating_record(now - last);
            last = now;
        }
        black_box(touched);
        Ok(((last - start) as f64 / 1e9, histogram, wrong))
    }

    /// In the first repeat deletes every second key; the scans of every repeat start anywhere.
    fn delete_scan(&self, repeat: usize, seed: u64) -> Result<Measured> {
        let engine = self.engine()?;
        let key = |rank: usize| self.set.pairs.get(self.set.sorted[rank] as usize).0;
        let n = self.set.sorted.len();
        if repeat == 0 {
            (0..n).step_by(2).try_for_each(|rank| engine.delete(key(rank)))?;
        }
        let mut reader = engine.reader()?;
        let mut random = Random::new(seed);
        let mut histogram = histogram();
        let (mut touched, mut operations) = (0u64, 0);
        let cpu = process::cpu_seconds();
        let start = self.clock.monotonic_ns();
        let mut last = start;
        while operations < (self.task.operations / 10) as u64 && last - start < self.limit_ns() {
            reader.scan(key(random.below(n as u64) as usize), 100, false, &mut |_, value| {
                touched += value.len() as u64
            })?;
            operations += 1;
            let now = self.clock.monotonic_ns();
            histogram.saturating_record(now - last);
            last = now;
        }
        black_box(touched);
        Ok(Measured {
            operations,
            seconds: (last - start) as f64 / 1e9,
            cpu_seconds: process::cpu_seconds() - cpu,
            latency_ns: Some(quantiles(&histogram)),
            ..Measured::default()
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Read,
    Update,
    Modify,
    Scan(usize),
}

#[inline]
fn found(reader: &mut dyn Reader, key: &[u8], expected: &[u8]) -> Result<bool> {
    let mut right = false;
    reader.get(key, &mut |value| right = value == expected)?;
    Ok(right)
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are legal")
}

fn quantiles(histogram: &Histogram<u64>) -> [u64; 5] {
    let at = |quantile| histogram.value_at_quantile(quantile);
    [at(0.5), at(0.95), at(0.99), at(0.999), histogram.max()]
}

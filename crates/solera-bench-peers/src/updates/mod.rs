//! LearnedKV's phases of updates over any engine: `run`, the command `updates`, and `once`, its
//! child.
//!
//! A load, three times as many updates as pairs by Zipf's law with reads in between, then reads and
//! scans at rest: `course` does that to one engine, `page` tells what came of it. An engine may be
//! named several times, with settings of its own (`Asked`): what RocksDB writes hangs on how much
//! space it is let.
//!
//! What must hold: every engine has the same memory and the same operations, in a process of its
//! own, one at a time. Engines take turns within a repeat, in another order in each. All are
//! measured from outside: by what the system counts for the process, and by what lies in its
//! directory.
//!
//! Caller: `main`.

mod course;
mod page;

use crate::{
    compare::{HUGE_PAGES, Results},
    engine::{Asked, Result},
    engines,
    results::{self, Kind},
};
use course::{Course, Task};
use solera_bench::paper::document::Document;
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

/// What to do.
#[derive(Clone, Debug)]
pub struct Updates {
    /// Engines, with what is asked of each: see [`Asked::of`].
    pub engines: Vec<String>,
    pub pairs: u64,
    pub value_bytes: usize,
    /// Reads of each phase, and at rest.
    pub lookups: u64,
    pub repeats: usize,
    /// The memory of an engine is one in so many parts of the live bytes, 8 MiB at least.
    pub memory_part: u64,
    pub direct: bool,
    pub seed: u64,
    pub directory: PathBuf,
    pub command: String,
}

/// The least memory of an engine, in bytes.
const MEMORY_BYTES_MIN: u64 = 8 << 20;

/// What one engine came to, in every repeat.
#[derive(Clone, Debug)]
struct Arm {
    engine: String,
    courses: Vec<Course>,
}

/// All engines in turn. What there is after each is handed to `keep`.
pub fn run(updates: &Updates, keep: &mut dyn FnMut(&Document) -> Result<()>) -> Result<()> {
    let begun = Instant::now();
    let mut facts = Results::here(updates.command.clone(), updates.repeats)?;
    for engine in &updates.engines {
        let (name, _) = Asked::of(engine)?;
        if !engines::NAMES.contains(&name) {
            return Err(format!("no engine {name:?}; the engines are {}", engines::NAMES.join(", ")).into());
        }
    }
    let task = |engine: &String| Task {
        engine: engine.clone(),
        directory: updates.directory.join("database"),
        pairs: updates.pairs,
        value_bytes: updates.value_bytes,
        lookups: updates.lookups,
        memory_bytes: memory_bytes(updates),
        direct: updates.direct,
        seed: updates.seed,
    };
    let mut arms: Vec<Arm> = Vec::new();
    for repeat in 0..updates.repeats {
        for turn in 0..updates.engines.len() {
            let engine = &updates.engines[(turn + repeat) % updates.engines.len()];
            eprintln!("{}/{}: {engine}", repeat + 1, updates.repeats);
            let course = in_a_process(&task(engine))?;
            match arms.iter_mut().find(|arm| arm.engine == *engine) {
                Some(arm) => arm.courses.push(course),
                None => arms.push(Arm { engine: engine.clone(), courses: vec![course] }),
            }
            facts.run_s = begun.elapsed().as_secs_f64();
            keep(&page::document(updates, &facts, &arms))?;
        }
    }
    Ok(())
}

fn live_bytes(updates: &Updates) -> u64 {
    updates.pairs * (course::KEY_BYTES + updates.value_bytes as u64)
}

fn memory_bytes(updates: &Updates) -> u64 {
    (live_bytes(updates) / updates.memory_part).max(MEMORY_BYTES_MIN)
}

/// What one engine comes to, in a process of its own.
fn in_a_process(task: &Task) -> Result<Course> {
    let output = Command::new(std::env::current_exe()?)
        .arg("updates-once")
        .arg(serde_json::to_string(task)?)
        .env(HUGE_PAGES.0, HUGE_PAGES.1)
        .stderr(Stdio::inherit())
        .output()?;
    let _ = std::fs::remove_dir_all(&task.directory);
    if !output.status.success() {
        return Err(format!("{}: {}", task.engine, output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The child: does one course and prints what came of it.
pub fn once(task: &str) -> Result<()> {
    let course = course::run(&serde_json::from_str(task)?)?;
    println!("{}", serde_json::to_string(&course)?);
    Ok(())
}

/// Writes the page, and its pictures into a directory of the same name without `.md`.
pub fn write(document: &Document, out: &Path) -> Result<()> {
    let pictures = out.with_extension("");
    let name = pictures.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    results::write(out, Kind::Updates, &document.to_markdown(&name))?;
    for (picture, svg) in document.pictures() {
        results::directory(&pictures, "--out without .md")?;
        results::write(&pictures.join(picture), Kind::Picture, &svg)?;
    }
    Ok(())
}

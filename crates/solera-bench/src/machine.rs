//! Facts about the machine, without which a number says nothing: `Machine`, `ProcessorTime`,
//! `filesystem_of`, `commit`.
//!
//! `Machine::here` finds the processor's name, its cores, the memory, the operating system and the
//! architecture. Two `ProcessorTime`s tell how many cores other processes kept busy in between.
//! `commit` is the commit that the program was built from.
//!
//! What must hold: what cannot be found out is `None`, never guessed; only `cores` is 1 then.
//!
//! Callers: `runner`, `paper` and `solera-bench-peers` report them; `data` asks how much memory
//! there is.

use serde::Serialize;
use std::{path::Path, thread};

/// The machine that a report was made on.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor's own name.
    pub cpu_model: Option<String>,
    /// Cores that this process may use.
    pub cores: usize,
    /// Memory of the machine, in bytes.
    pub memory_bytes: Option<u64>,
    /// Operating system and architecture.
    pub system: String,
}

impl Machine {
    /// This machine, now.
    pub fn here() -> Self {
        let first_of = |file: &str, field: &str| -> Option<String> {
            let text = std::fs::read_to_string(file).ok()?;
            let (_, value) = text
                .lines()
                .filter_map(|line| line.split_once(':'))
                .find(|(name, _)| name.trim() == field)?;
            Some(value.trim().to_owned())
        };
        let memory_kib = first_of("/proc/meminfo", "MemTotal")
            .and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
        Machine {
            cpu_model: first_of("/proc/cpuinfo", "model name"),
            cores: thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_kib.map(|kib| kib * 1024),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        }
    }
}

/// Processor time used so far, by all processes and by this one.
#[derive(Clone, Copy, Debug)]
pub struct ProcessorTime {
    all_s: f64,
    own_s: f64,
}

impl ProcessorTime {
    /// Now; `None` where the system does not tell.
    pub fn now() -> Option<Self> {
        /// Linux counts in hundredths of a second here, whatever its own tick is.
        const TICKS_PER_S: f64 = 100.0;
        let all = std::fs::read_to_string("/proc/stat").ok()?;
        let all: Vec<f64> =
            all.lines().next()?.split_whitespace().skip(1).map_while(|n| n.parse().ok()).collect();
        // user, nice, system, idle, waiting for I/O, interrupts twice, stolen by the host, ...
        let busy: f64 = all.get(..8)?.iter().sum::<f64>() - all[3] - all[4];
        let own = std::fs::read_to_string("/proc/self/stat").ok()?;
        // The name, in parentheses, may contain anything; user and system time are fields 14
        // and 15.
        let own: Vec<&str> = own.rsplit_once(')')?.1.split_whitespace().collect();
        let own = own.get(11)?.parse::<f64>().ok()? + own.get(12)?.parse::<f64>().ok()?;
        Some(ProcessorTime { all_s: busy / TICKS_PER_S, own_s: own / TICKS_PER_S })
    }

    /// Cores that others kept busy since `before`, `elapsed_s` seconds ago, on average.
    pub fn others_since(self, before: Self, elapsed_s: f64) -> f64 {
        ((self.all_s - before.all_s) - (self.own_s - before.own_s)).max(0.0) / elapsed_s
    }
}

/// The kind of file system that holds `path`, for example `ext4` or `tmpfs`.
pub fn filesystem_of(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?, fields.next()?))
    });
    let holding = mounts.filter(|(at, _)| path.starts_with(at)).max_by_key(|(at, _)| at.len());
    holding.map(|(_, kind)| kind.to_owned())
}

/// The commit that this program was built from, `-dirty` if the tree had changes. `None` if it was
/// built outside a repository, or without git.
pub fn commit() -> Option<String> {
    option_env!("SOLERA_COMMIT").map(str::to_owned)
}

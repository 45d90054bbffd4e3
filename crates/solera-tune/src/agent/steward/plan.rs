//! Settings that are priced: `Plan`, of a window, of a database without a tuner, or wished for.
//!
//! `of` is what a window has, `by_default` what a database is like that was not tuned.
//! `buffer_bytes` is the write buffer that a plan comes to, `divided_bytes` the memory that knobs
//! divide.
//!
//! What must hold: what the memory is divided by here is what the engine does (docs/TUNING.md).
//!
//! Callers: all of `steward`, and `agent::camal` (`divided_bytes`).

use crate::sight::Window;

/// Memory that is not divided: these bytes and a part of the budget, at most so much of it.
const UNDIVIDED_BYTES: f64 = (24 << 20) as f64;
const UNDIVIDED_PART: f64 = 1.0 / 16.0;
const UNDIVIDED_MAX: f64 = 7.0 / 16.0;
/// Scarce budgets, what is not divided of them at most, and a write buffer's share of them.
const SCARCE: std::ops::Range<u64> = 16 << 20..32 << 20;
const UNDIVIDED_SCARCE_BYTES: f64 = (11 << 20) as f64;
const UNDIVIDED_SCARCE_PART: f64 = 3.0 / 32.0;
const BUFFER_SHARE_SCARCE: f64 = 1.0 / 32.0;
/// A write buffer's share of other budgets.
const BUFFER_SHARE: f64 = 1.0 / 16.0;
/// Write buffers that memory is set aside for.
pub(super) const BUFFERS: f64 = 4.0;

/// Settings that are priced.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    /// T.
    pub(super) size_ratio: u32,
    /// K_i below level 0; the last holds for all deeper levels.
    pub(super) run_limits: Vec<u32>,
    /// K_0.
    pub(super) level0_runs: u32,
    /// Runs at which level 0 is merged though reads have not paid for it.
    pub(super) patience: u32,
    /// Filter bits for every key.
    pub(super) filter_bits: f64,
    /// Percent of the divided memory for write buffers.
    pub(super) buffer_percent: f64,
    /// Bytes of a block.
    pub(super) block_bytes: f64,
    /// Bytes from which on values are kept apart, if any are.
    pub(super) separate_from: Option<u32>,
    /// Whether levels that a new shape does not need leave at once, and do not wait for reads.
    pub(super) at_once: bool,
}

/// The deepest level whose run limit is told from those below.
const LEVELS_NAMED: u32 = 6;

impl Plan {
    /// What `window` has.
    pub(super) fn of(window: &Window) -> Plan {
        let number = |knob: &str, level, otherwise: f64| window.number(knob, level).unwrap_or(otherwise);
        let below = number("run_limit", None, 1.0);
        let deepest = window.levels.len().clamp(1, LEVELS_NAMED as usize) as u32;
        let limits = (1..=deepest).map(|level| number("run_limit", Some(level), below) as u32);
        Plan {
            size_ratio: number("size_ratio", None, 10.0) as u32,
            run_limits: limits.collect(),
            level0_runs: number("run_limit", Some(0), 4.0) as u32,
            patience: number("level0_patience", None, 27.0) as u32,
            filter_bits: number("filter_bits_per_key", None, 10.0),
            buffer_percent: number("write_buffer_percent", None, 25.0),
            block_bytes: number("block_bytes", None, 4096.0),
            separate_from: Some(number("separate_from", None, f64::from(u32::MAX)) as u32)
                .filter(|bytes| *bytes != u32::MAX),
            at_once: window.text("transition", None) == "greedy",
        }
    }

    /// What a database is like that was not tuned, where `window` does not say otherwise.
    pub(super) fn by_default(window: &Window) -> Plan {
        let budget = window.memory_bytes as f64;
        let is_scarce = SCARCE.contains(&window.memory_bytes);
        let share = if is_scarce { BUFFER_SHARE_SCARCE } else { BUFFER_SHARE };
        let buffer = (budget * share).min((32u64 << 20) as f64);
        Plan {
            size_ratio: 10,
            run_limits: vec![1],
            level0_runs: 4,
            patience: 27,
            filter_bits: 10.0,
            buffer_percent: (BUFFERS * buffer / divided_bytes(window) * 100.0).min(100.0),
            block_bytes: 4096.0,
            separate_from: None,
            at_once: false,
        }
    }

    /// Bytes of a write buffer.
    pub(super) fn buffer_bytes(&self, window: &Window) -> f64 {
        (self.buffer_percent / 100.0 * divided_bytes(window) / BUFFERS).max(1024.0)
    }
}

/// The memory that knobs divide, in bytes.
pub(in crate::agent) fn divided_bytes(window: &Window) -> f64 {
    let budget = window.memory_bytes as f64;
    let most = match SCARCE.contains(&window.memory_bytes) {
        true => UNDIVIDED_SCARCE_BYTES + budget * UNDIVIDED_SCARCE_PART,
        false => budget * UNDIVIDED_MAX,
    };
    budget - (UNDIVIDED_BYTES + budget * UNDIVIDED_PART).min(most)
}

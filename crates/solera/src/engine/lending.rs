//! When write buffers are idle, so that the block cache may have them: `Lending`.
//!
//! Writers may be few rather than none: what they fill in a while is compared with a write buffer.
//! `memory` says how much may be lent, and calls it in.
//!
//! Writers must rest for a quarter of a second. If the last loan was soon called in, they must rest
//! for twice as long as before it: loans do not come and go with each of many bursts.
//!
//! What must hold: a worker looks again after that time as long as nothing is lent and anything
//! could be. While something is lent, or nothing can be, no worker is woken for it.
//!
//! Callers: `jobs`, for `give_back`; `workers` ask when to look again.

use super::{catalog::Catalog, memory::Memory};
use crate::sync::Mutex;
use std::time::Duration;

/// So long writers must have written little, at first and at most.
const REST_MIN: Duration = Duration::from_millis(250);
const REST_MAX: Duration = Duration::from_secs(2);
/// A loan that was called in before so many times the rest had passed was not worth it.
const WORTH: u64 = 16;
/// Little is one part in so many of a write buffer in a second. What is lent is called in when one
/// is full, so it then serves for minutes, and is filled in a fraction of a second.
const LITTLE: u64 = 256;

const SECOND_NS: u128 = 1_000_000_000;

/// How much writers have written of late.
#[derive(Default)]
pub(super) struct Lending {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    rest: Rest,
    /// When the last loan was made, if it may be out.
    lent_ns: Option<u64>,
    /// Bytes that were written to logs before the present look began, and when that was.
    begun: Option<(u64, u64)>,
    /// When to look again.
    next_ns: Option<u64>,
}

/// How long writers must have written little, in nanoseconds.
struct Rest(u64);

impl Default for Rest {
    fn default() -> Rest {
        Rest(REST_MIN.as_nanos() as u64)
    }
}

impl Rest {
    /// A loan was out for so long, and was called in.
    fn learn(&mut self, lasted_ns: u64) {
        self.0 = match lasted_ns < WORTH * self.0 {
            true => (2 * self.0).min(REST_MAX.as_nanos() as u64),
            false => Rest::default().0,
        };
    }
}

impl Lending {
    /// Lends the block cache what writers leave idle, if they have for a while: so many bytes were
    /// `written` to logs since the database was opened.
    pub(super) fn look(
        &self,
        memory: &Memory,
        catalog: &Catalog,
        written: impl FnOnce() -> u64,
        now_ns: u64,
    ) {
        if memory.lent() > 0 || !memory.may_lend() {
            self.stop();
        } else if self.are_idle(written(), memory.write_buffer_bytes(), now_ns) {
            memory.lend(catalog);
            self.state.lock().lent_ns = (memory.lent() > 0).then_some(now_ns);
        }
    }

    /// Whether writers have left write buffers idle for a while: `written` bytes went to logs since
    /// the database was opened. If not, a worker looks again.
    fn are_idle(&self, written: u64, write_buffer_bytes: u64, now_ns: u64) -> bool {
        let mut state = self.state.lock();
        if let Some(lent_ns) = state.lent_ns.take() {
            state.rest.learn(now_ns.saturating_sub(lent_ns));
        }
        let rest = state.rest.0;
        let (written_before, since_ns) = *state.begun.get_or_insert((written, now_ns));
        let since = now_ns.saturating_sub(since_ns);
        let little = (write_buffer_bytes / LITTLE) as u128 * since as u128;
        let is_little = u128::from(written.saturating_sub(written_before)) * SECOND_NS <= little;
        let is_idle = since >= rest && is_little;
        if since >= rest || !is_little {
            state.begun = Some((written, now_ns));
        }
        let since_ns = state.begun.map_or(now_ns, |(_, since_ns)| since_ns);
        state.next_ns = (!is_idle).then(|| since_ns.saturating_add(rest));
        is_idle
    }

    /// There is nothing to look for.
    fn stop(&self) {
        let mut state = self.state.lock();
        (state.begun, state.next_ns) = (None, None);
    }

    /// How long it is until a worker is to look again; `None`: none is to.
    pub(super) fn next(&self, now_ns: u64) -> Option<Duration> {
        let next_ns = self.state.lock().next_ns?;
        Some(Duration::from_nanos(next_ns.saturating_sub(now_ns)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const BUFFER: u64 = 16 << 20;

    const REST: u64 = SECOND / 4;

    #[test]
    fn buffers_are_idle_a_quarter_of_a_second_after_the_last_of_many_writes() {
        let lending = Lending::default();
        assert!(lending.next(0).is_none(), "no worker was told to look");
        assert!(!lending.are_idle(5 << 20, BUFFER, SECOND));
        assert_eq!(lending.next(SECOND + REST / 2), Some(Duration::from_nanos(REST / 2)));
        // A write came in between.
        assert!(!lending.are_idle(6 << 20, BUFFER, SECOND + REST));
        assert_eq!(lending.next(SECOND + REST), Some(REST_MIN));
        assert!(!lending.are_idle(6 << 20, BUFFER, SECOND + 3 * REST / 2));
        assert!(lending.are_idle(6 << 20, BUFFER, SECOND + 2 * REST));
        assert!(lending.next(SECOND + 2 * REST).is_none());
    }

    /// Rests until buffers are idle: after how long.
    fn rest(lending: &Lending, from: u64) -> u64 {
        let step = REST / 4;
        let mut at = from;
        while !lending.are_idle(0, BUFFER, at) {
            at += step;
            assert!(at - from <= 3 * SECOND);
        }
        lending.state.lock().lent_ns = Some(at);
        lending.stop();
        at - from
    }

    #[test]
    fn the_rest_becomes_longer_where_bursts_come_soon_and_short_again_where_they_do_not() {
        let lending = Lending::default();
        let mut at = SECOND;
        let mut rests = Vec::new();
        for burst_after in [SECOND, SECOND, SECOND, SECOND, SECOND, 100 * SECOND, SECOND] {
            let rested = rest(&lending, at);
            rests.push(rested / REST);
            at += rested + burst_after;
        }
        assert_eq!(rests, [1, 2, 4, 8, 8, 8, 1], "quarters of a second");
    }

    #[test]
    fn a_trickle_of_writes_leaves_them_idle_and_a_stream_does_not() {
        let idle_looks = |bytes_a_second: u64| {
            let lending = Lending::default();
            let are_idle = |at: &u64| lending.are_idle(at * bytes_a_second, BUFFER, at * SECOND);
            (0..100).filter(are_idle).count()
        };
        assert!(idle_looks(20) > 40);
        assert!(idle_looks(60 << 10) > 40, "a buffer takes four minutes to fill");
        assert_eq!(idle_looks(70 << 10), 0);
        assert_eq!(idle_looks(100 << 20), 0);
    }

    #[test]
    fn a_look_that_comes_late_counts_what_was_written_by_the_second() {
        let lending = Lending::default();
        lending.are_idle(0, BUFFER, 0);
        assert!(lending.are_idle(6 << 20, BUFFER, 110 * SECOND), "56 KiB a second");
        assert!(!lending.are_idle(100 << 20, BUFFER, 200 * SECOND));
        lending.stop();
        assert!(lending.next(0).is_none());
    }
}

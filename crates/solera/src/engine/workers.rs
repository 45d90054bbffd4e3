//! The background threads: `spawn` starts them, and each takes steps (`Core::step`) until it is
//! stopped. A read-only database has none.
//!
//! What must hold: of several threads, the first flushes and tends the logs, and does no
//! compaction. So a compaction that runs long does not keep memtables from being written out. The
//! others do all kinds of work. When nothing is left to do, they read on in the tables that
//! readers have begun with (`table::Wanted`). With no threads, users' threads take the steps, and
//! nothing is read on. A thread that fails rests before its next try.
//!
//! Caller: `handle`'s open.

use super::core::Core;
use crate::error::{Error, Result};
use std::{sync::Arc, thread::JoinHandle};

/// Starts the background threads.
pub(super) fn spawn(core: &Arc<Core>) -> Result<Vec<JoinHandle<()>>> {
    if core.options.read_only {
        return Ok(Vec::new());
    }
    let count = core.options.background_threads;
    if count > 0 {
        let to_call = Arc::downgrade(core);
        core.store.files.wanted.answer(move || {
            if let Some(core) = to_call.upgrade() {
                core.work.wake();
            }
        });
    }
    let mut threads = Vec::with_capacity(count);
    for number in 0..count {
        let flush_only = number == 0 && count > 1;
        let core_of_thread = core.clone();
        let spawned = std::thread::Builder::new()
            .name(format!("solera-{}", if flush_only { "flush" } else { "compact" }))
            .spawn(move || work_until_stopped(&core_of_thread, flush_only));
        match spawned {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                core.work.stop();
                threads.into_iter().for_each(|thread: JoinHandle<()>| drop(thread.join()));
                return Err(Error::io("start a background thread for", &core.store.files.dir, error));
            }
        }
    }
    Ok(threads)
}

fn work_until_stopped(core: &Core, flush_only: bool) {
    loop {
        let calls = core.work.calls();
        if core.work.is_stopping() {
            return;
        }
        if !flush_only {
            core.store.leaving.let_go(core.clock().monotonic_ns());
        }
        match core.step(flush_only) {
            Ok(true) => {}
            Ok(false) => {
                let is_idle = || core.work.calls() == calls && !core.work.is_stopping();
                if !flush_only && core.store.files.wanted.go_on(is_idle) {
                    continue;
                }
                let at_most = if flush_only { None } else { core.next_look() };
                core.work.wait_for_call(calls, core.clock().unix_ms(), at_most);
            }
            Err(_) => core.work.rest(),
        }
    }
}

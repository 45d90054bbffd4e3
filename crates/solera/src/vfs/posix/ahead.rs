//! What the system is asked for a growing log, done before its writer needs it: `Ahead`, a thread
//! of one file.
//!
//! The system needs more than a millisecond to reserve, map and fault in a mebibyte, take it back,
//! and begin writing it. `ask` has the thread do this for the next window while the writer fills
//! the present one. `await_window` gives that window, so the writer only swaps.
//!
//! What must hold: while something was asked for and not awaited, the file belongs to the thread
//! beyond the writer's windows. It may become longer at any time. So a caller that wants to cut the
//! file awaits first.
//!
//! Caller: `vfs::posix::mapped`, for a file that has shown that it grows.

use super::{
    window::{self, Window},
    write_back,
};
use std::{
    fs::File,
    io,
    ops::Range,
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
};

/// A thread that prepares the windows of one file.
#[derive(Debug)]
pub(super) struct Ahead {
    /// `None` once it is to end.
    tasks: Option<SyncSender<Task>>,
    windows: Receiver<io::Result<Window>>,
    /// The part that was asked for and not awaited.
    asked: Option<Range<u64>>,
    thread: Option<JoinHandle<()>>,
}

/// What there is to do when a writer has come to the end of a window.
#[derive(Debug)]
struct Task {
    filled: Option<Window>,
    /// What is to be begun with to write to the device.
    due: Option<Range<u64>>,
    /// The window after the one that it has now.
    next: Range<u64>,
}

impl Ahead {
    /// A thread for that file, if the system has one to give.
    pub(super) fn start(file: Arc<File>) -> io::Result<Ahead> {
        // Never more than one task, and one window, is on the way: no sender waits.
        let (tasks, todo) = sync_channel::<Task>(1);
        let (ready, windows) = sync_channel(1);
        let work = move || {
            for task in todo {
                if ready.send(prepare(&file, task.next)).is_err() {
                    return;
                }
                drop(task.filled);
                if let Some(due) = task.due {
                    write_back::begin(&file, due);
                }
            }
        };
        let thread = thread::Builder::new().name("solera-log".into()).spawn(work)?;
        Ok(Ahead { tasks: Some(tasks), windows, asked: None, thread: Some(thread) })
    }

    /// Has `next`, the part behind the file's end, reserved and mapped, `filled` taken back and
    /// `due` begun with. Whatever was asked for before was awaited.
    pub(super) fn ask(&mut self, filled: Option<Window>, due: Option<Range<u64>>, next: Range<u64>) {
        debug_assert!(self.asked.is_none(), "one window is asked for at a time");
        let task = Task { filled, due, next: next.clone() };
        // The thread takes tasks as long as there is a sender.
        if self.tasks.as_ref().is_some_and(|tasks| tasks.send(task).is_ok()) {
            self.asked = Some(next);
        }
    }

    /// The window that was asked for and where it ends; `None` if none was, or the system could
    /// not.
    pub(super) fn await_window(&mut self) -> Option<(Window, u64)> {
        let asked = self.asked.take()?;
        let window = self.windows.recv().ok()?.ok()?;
        Some((window, asked.end))
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            // A panic there was told by the panic itself; nothing that is written depends on this
            // thread.
            let _ = thread.join();
        }
    }
}

fn prepare(file: &File, part: Range<u64>) -> io::Result<Window> {
    window::reserve(file, part.clone())?;
    window::write_zeros(file, part.clone())?;
    let mut window = Window::new(file, part)?;
    window.populate();
    Ok(window)
}

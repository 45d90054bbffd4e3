//! The progress bar of long commands: `bar`.
//!
//! Where the length of the input is known, it shows how much of it is done and the time that is
//! left. Elsewhere it shows the bytes so far, the time taken and a rate. Beside that stands what
//! the command says.
//!
//! What must hold: it goes to standard error, and only if that is a terminal.
//!
//! Callers: `command::load`, `trace show` and `trace replay`.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{io::IsTerminal, time::Duration};

/// A bar with rate and remaining time where the length of the input is known; a count with a rate
/// where it is not.
pub(crate) fn bar(source_bytes: Option<u64>) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match source_bytes {
        Some(bytes) => (
            ProgressBar::new(bytes),
            "{bar:12} {percent:>3} %  {decimal_bytes}/{decimal_total_bytes}  {msg}  ETA {eta}",
        ),
        None => (
            ProgressBar::new_spinner(),
            "{spinner} {decimal_bytes} in {elapsed}  {decimal_bytes_per_sec}  {msg}",
        ),
    };
    bar.set_draw_target(ProgressDrawTarget::stderr());
    // The templates are constants; a wrong one would show up in the first run.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

//! The progress bar of long commands: `bar`.
//!
//! It shows a rate and the time that is left where the length of the input is known. Elsewhere it
//! shows a count with a rate.
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

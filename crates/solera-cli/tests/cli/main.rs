//! The `solera` command as its users run it: arguments and bytes in; output, exit status and files
//! out.

#![expect(clippy::disallowed_methods, reason = "tests make and break the files that users would")]

mod change;
mod control;
mod cost;
mod explain;
mod inspect;
mod load;
mod refuse;
mod run;
mod scan;
mod trace;
mod watch;

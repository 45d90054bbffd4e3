//! Tests of the `solera` command as its users run it: arguments and bytes in; output, exit status
//! and files out.
//!
//! Each file tests one command or a group of them; `run` starts the binary.

#![expect(clippy::disallowed_methods, reason = "tests make and break the files that users would")]

mod change;
mod control;
mod cost;
mod explain;
mod inspect;
mod load;
mod odd;
mod operator;
mod readme;
mod refuse;
mod run;
mod scan;
mod space;
mod trace;
mod watch;

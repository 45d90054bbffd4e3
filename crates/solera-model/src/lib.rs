//! Sorted `u64` keys to bounded position predictors. A line says where in a sorted array a key
//! should be, and a measured error says how far off it can be. A search begins there, or halves the
//! whole array if that error is half of it or more.
//!
//! Pure functions over plain data: no I/O, no clock, no randomness, no dependency. The same input
//! gives the same bits on every machine. Differences are taken in `u64` before any float, and only
//! IEEE additions, multiplications and divisions follow. The predictor that is measured at build
//! time is the function that answers queries ([`Line::rank`]), not another formula for the line.
//!
//! **What must hold.** A model may make a search slower, never wrong. Whatever the guess and the
//! error, [`search::lower_bound`] returns `partition_point(|head| head < x)`.
//!
//! | module | what it gives |
//! |---|---|
//! | [`segment`] | the line and its prediction |
//! | [`pla`] | the corridor: is there a line within ε of every key so far? O(1) per key |
//! | [`pra`] | the least-squares line of a block's keys |
//! | [`bound`] | the exact error of a line, in the arithmetic of its queries |
//! | [`dual`] | where to cut a sorted stream into blocks, on bytes and on error (DobLIX); and a block's line |
//! | [`search`] | the last mile: exact lower bound from a guess |
//! | [`lanes`] | which instructions compare several numbers at once |
//! | [`stree`], [`eytzinger`], [`interpolation`] | the strong classical searches; [`boundaries`] uses the S-tree |
//! | [`hull`] | the longest piece that some line passes within ε (O'Rourke, PGM) |
//! | [`plr`] | greedy segments over block numbers with sound windows (Sherry, LearnedKV) |
//! | [`boundaries`] | Solera's own index: segments, and 11 to 13 bits for most boundaries |
//! | [`elementary`] | e^x, ln and powers that every processor rounds alike |
//! | [`knots`] | predecessor search over a larger sorted array, through a radix table |
//! | [`bytes`] | why bytes are no model: [`plr`] and [`boundaries`] are kept as bytes, which are not trusted |
//!
//! # Example
//!
//! ```
//! use solera_model::{bound, dual::{self, Policy}, search};
//!
//! let heads: Vec<u64> = (0..1000).map(|i| 1_000_000 + i * i).collect();
//! let fit = dual::fit(Policy::Pra, &heads);
//! assert_eq!(fit.error, bound::measured_error(fit.line, &heads));
//!
//! for x in [0, 1_000_000, 1_000_001, 1_250_000, u64::MAX] {
//!     let guess = fit.line.rank(heads[0], x, heads.len());
//!     let found = search::lower_bound(&heads, x, guess, fit.error as usize);
//!     assert_eq!(found, heads.partition_point(|&head| head < x));
//! }
//! ```

pub mod segment;
pub mod bytes;
pub mod pla;
pub mod pra;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub mod bound;
pub mod dual;
pub mod search;
pub mod lanes;
pub mod stree;
pub mod elementary;
pub mod eytzinger;
pub mod interpolation;
pub mod hull;
pub mod plr;
pub mod boundaries;
pub mod knots;

pub use bytes::Malformed;
pub use segment::{Invalid, Line};

/// The examples in the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

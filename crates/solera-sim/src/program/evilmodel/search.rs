//! The climb to the worst case of one search inside a block: `climb_search`.
//!
//! It changes line, error and key of a search over one array, and keeps what costs more
//! comparisons. Heads of type `Counted` count them.
//!
//! What must hold: no search takes more than `solera_model::search::comparisons_max`, and each
//! finds the right place. A line that is not finite or descends is refused. A radix table over
//! other keys never points beyond them.
//!
//! Caller: `evilmodel::mod`.

use super::{model::evil_line, subject::key};
use crate::{forge::StoredLine, random::Random};
use solera_model::{Line, knots::RadixTable, search};
use std::{cell::Cell, cmp::Ordering};

thread_local! {
    static COMPARED: Cell<usize> = const { Cell::new(0) };
}

/// A head whose comparisons are counted.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Counted(u64);

impl PartialOrd for Counted {
    fn partial_cmp(&self, other: &Counted) -> Option<Ordering> {
        COMPARED.set(COMPARED.get() + 1);
        self.0.partial_cmp(&other.0)
    }
}

/// Climbs to the lookup that takes the most comparisons in one array, by line, error and key.
pub(super) fn climb_search(random: &mut Random, steps: usize) -> Result<usize, String> {
    let n = random.length(5000) as usize + 1;
    let family = random.below(5);
    let mut heads: Vec<u64> = (0..n as u64).map(|n| solera::key::head(&key(family, n, random))).collect();
    heads.sort_unstable();
    let counted: Vec<Counted> = heads.iter().copied().map(Counted).collect();
    let mut best = (0, StoredLine { slope: 1.0, intercept: 0.0, error: 0 }, 0);
    for _ in 0..steps {
        let stored = evil_line(best.1, random);
        let x = match random.below(4) {
            0 => random.next(),
            1 => best.2,
            _ => random.pick(&heads).wrapping_add(random.below(3)).wrapping_sub(1),
        };
        let line = match Line::new(stored.slope, stored.intercept) {
            Ok(line) if !stored.is_bad() => line,
            Err(_) if stored.is_bad() => continue,
            odd => return Err(format!("a line of {stored:?} is taken as {odd:?}")),
        };
        let guess = Line::rank(line, heads[0], x, n);
        COMPARED.set(0);
        let found = search::lower_bound(&counted, Counted(x), guess, stored.error.into());
        let compared = COMPARED.get();
        if found != heads.partition_point(|&head| head < x) {
            return Err(format!("{x} among {n} keys of family {family}: found at {found} by {stored:?}"));
        }
        if compared > search::comparisons_max(n) {
            return Err(format!(
                "{x} among {n} keys of family {family}: {compared} comparisons by {stored:?}"
            ));
        }
        if compared >= best.0 {
            best = (compared, stored, x);
        }
    }
    // A radix table over other keys than it was made of may be of no use, but must not reach beyond
    // them.
    let others: Vec<u64> = heads.iter().map(|head| head.rotate_left(7)).take(n / 2).collect();
    let table = RadixTable::new(&heads);
    if heads.iter().any(|&x| table.locate(&others, x) > others.len()) {
        return Err("a radix table points beyond the keys".to_owned());
    }
    Ok(best.0)
}

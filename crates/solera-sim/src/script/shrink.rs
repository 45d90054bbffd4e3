//! From a script that fails to a short one that still fails: `shrink`.
//!
//! It is delta debugging. Whole stretches of operations are taken out while the script fails on.
//! Then parts of what is left go: changes of a batch, keys of a bulk load, moves of an iterator,
//! lengths of values. It ends when nothing more can go, or when no runs are left.
//!
//! What must hold: what it returns fails. It runs the script at most `runs_max` times.
//!
//! Callers: `program::{crashsim, diffmodel, faultloop, metamorph}`.

use super::{Change, Operation, Script, Value};

/// A shorter script for which `fails` still says true. `fails` is called at most `runs_max` times;
/// it must say true for `script` itself.
pub fn shrink(script: &Script, runs_max: usize, mut fails: impl FnMut(&Script) -> bool) -> Script {
    let mut best = script.clone();
    let mut runs = 0;
    let mut try_it = |best: &mut Script, operations: Vec<Operation>| {
        runs += 1;
        let candidate = Script { setting: best.setting.clone(), operations };
        let better = runs <= runs_max && fails(&candidate);
        if better {
            *best = candidate;
        }
        (better, runs < runs_max)
    };
    loop {
        let before = best.clone();
        let mut stretch = best.operations.len().div_ceil(2).max(1);
        loop {
            let mut at = 0;
            while at < best.operations.len() {
                let mut rest = best.operations.clone();
                rest.drain(at..(at + stretch).min(rest.len()));
                let (better, more) = try_it(&mut best, rest);
                if !more {
                    return best;
                }
                if !better {
                    at += stretch;
                }
            }
            if stretch == 1 {
                break;
            }
            stretch = stretch.div_ceil(2);
        }
        for at in 0..best.operations.len() {
            let mut variant = 0;
            while let Some(smaller) = smaller(&best.operations[at], variant) {
                let mut operations = best.operations.clone();
                operations[at] = smaller;
                let (better, more) = try_it(&mut best, operations);
                if !more {
                    return best;
                }
                if !better {
                    variant += 1;
                }
            }
        }
        if best == before {
            return best;
        }
    }
}

/// The `variant`-th way to make one operation smaller.
fn smaller(operation: &Operation, variant: usize) -> Option<Operation> {
    let mut operation = operation.clone();
    match &mut operation {
        Operation::Batch { changes, .. } if changes.len() > 1 => without(changes, variant)?,
        Operation::Batch { changes, .. } if variant == 0 => {
            return Some(Operation::Write { change: changes.pop()? });
        }
        Operation::MultiGet { keys, .. } => without(keys, variant)?,
        Operation::Ingest { entries, .. } if variant < entries.len() => without(entries, variant)?,
        Operation::Ingest { entries, .. } => {
            let last = entries.len();
            shorten(&mut entries.get_mut(variant - last)?.1).then_some(())?;
        }
        Operation::Walk { moves, .. } => without(moves, variant)?,
        Operation::Step { times } if *times > 1 && variant == 0 => *times = 1,
        Operation::Write { change } | Operation::Stage { change, .. } if variant == 0 => match change {
            Change::Put { value, .. }
            | Change::PutTtl { value, .. }
            | Change::Merge { operand: value, .. } => {
                shorten(value).then_some(())?;
            }
            Change::Delete { .. } | Change::DeleteRange { .. } => return None,
        },
        _ => return None,
    }
    Some(operation)
}

/// Takes one element out; the list keeps at least one.
fn without<T>(list: &mut Vec<T>, at: usize) -> Option<()> {
    if list.len() < 2 || at >= list.len() {
        return None;
    }
    list.remove(at);
    Some(())
}

fn shorten(value: &mut Value) -> bool {
    let short = value.len > 1;
    value.len = 1.min(value.len);
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{random::Random, script::generate::Generator, setting::Setting};

    #[test]
    fn only_what_makes_it_fail_is_left() {
        let scripts = (0..100).map(|seed| {
            let mut random = Random::new(seed);
            let setting = Setting::random(&mut random);
            Generator::new(&setting, &mut random).script(setting, 3000)
        });
        let culprit = |operation: &Operation| match operation {
            Operation::Batch { changes, .. } => {
                changes.iter().any(|change| matches!(change, Change::DeleteRange { .. }))
            }
            _ => false,
        };
        let fails = |script: &Script| {
            script.operations.iter().filter(|operation| culprit(operation)).count() >= 2
                && script.operations.iter().any(|operation| matches!(operation, Operation::Kill {}))
        };
        let script = scripts.into_iter().find(fails).unwrap();
        let short = shrink(&script, 5000, fails);
        assert_eq!(short.operations.len(), 3, "{short}");
        assert!(short.operations.iter().all(|operation| match operation {
            Operation::Batch { changes, .. } => changes.len() == 1,
            _ => true,
        }));
    }

    #[test]
    fn the_allowance_of_runs_is_kept() {
        let mut random = Random::new(4);
        let setting = Setting::random(&mut random);
        let script = Generator::new(&setting, &mut random).script(setting, 1000);
        let mut runs = 0;
        shrink(&script, 50, |_| {
            runs += 1;
            false
        });
        assert!(runs <= 50);
    }
}

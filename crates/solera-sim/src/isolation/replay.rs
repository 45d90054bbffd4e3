//! The first judge of a history: `replay` does the committed transactions again, one by one, in the
//! order of their commit numbers. A transaction that only read comes after the writer with its
//! number.
//!
//! What must hold: every answer is what a single thread would have got in that order. Then the
//! order explains the history, so it is serializable. The first answer that differs is told in
//! words.
//!
//! Caller: `program::isolate`.

use super::{Element, End, History, Key, Step};
use std::collections::BTreeMap;

/// The lists that the committed transactions make, one after the other.
///
/// # Errors
/// The first answer that differs, in words.
pub fn replay(history: &History) -> Result<BTreeMap<Key, Vec<Element>>, String> {
    let mut order: Vec<(u64, bool, usize)> = history
        .iter()
        .enumerate()
        .filter_map(|(number, transaction)| match transaction.end {
            // A transaction that only read did so after the one whose number it has.
            End::Committed(at) => Some((at, transaction.only_reads(), number)),
            End::Aborted => None,
        })
        .collect();
    order.sort_unstable();
    if let Some(pair) = order.windows(2).find(|pair| pair[0].0 == pair[1].0 && !pair[1].1) {
        return Err(format!("transactions {} and {} both wrote at {}", pair[0].2, pair[1].2, pair[0].0));
    }
    let mut lists: BTreeMap<Key, Vec<Element>> = BTreeMap::new();
    for (at, _, number) in order {
        for step in &history[number].steps {
            match step {
                Step::Append(key, element) => lists.entry(*key).or_default().push(*element),
                Step::Read(key, found) => {
                    let expected = lists.get(key).map_or(&[][..], Vec::as_slice);
                    if found != expected {
                        return Err(format!(
                            "transaction {number} at {at} read list {key} as {found:?}, but it was {expected:?}: {:?}",
                            history[number]
                        ));
                    }
                }
            }
        }
    }
    Ok(lists)
}

#[cfg(test)]
mod tests {
    use super::{super::tests::*, *};

    #[test]
    fn a_serial_history_gives_its_lists() {
        let history = vec![
            committed(3, "r1=10 a1=30 r1=10,30"),
            committed(1, "r1= a1=10 a2=11"),
            committed(1, "r2=11 r1=10"),
            aborted(9, "r1=10 a1=99"),
        ];
        let lists = replay(&history).unwrap();
        assert_eq!(lists, BTreeMap::from([(1, vec![10, 30]), (2, vec![11])]));
    }

    #[test]
    fn an_answer_from_another_moment_is_found() {
        for (wrong, what) in [
            ("a lost update", vec![committed(1, "r1= a1=10"), committed(2, "r1= a1=20")]),
            ("a write that shows too early", vec![committed(1, "r1=20"), committed(2, "a1=20")]),
            ("a write of one that was refused", vec![aborted(1, "a1=10"), committed(2, "r1=10")]),
            ("an own write that does not show", vec![committed(1, "a1=10 r1=")]),
            ("write skew", vec![committed(1, "r1= a2=10"), committed(2, "r2= a1=20")]),
            ("one number twice", vec![committed(1, "a1=10"), committed(1, "a2=20")]),
        ] {
            assert!(replay(&what).is_err(), "{wrong}");
        }
    }
}

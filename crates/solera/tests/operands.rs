//! Tests of large operands. A read makes them fewer while they are gathered, where the operator can
//! make less of them. A merge of many runs gives what their order says.
//!
//! The operator of the first test keeps the largest operand and notes how many bytes a merge was
//! given at most. Every way to read is asked: lookups, walks either way, snapshots, transactions.

use solera::{KeyspaceOptions, MergeOperator, Options, operator, vfs::mem::MemFs};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

const OPERAND_BYTES: usize = 1 << 20;
const OPERANDS: u32 = 40;
/// Sixteen mebibytes are held before anything is done, and one operand more.
const GIVEN_BYTES_MAX: usize = 18 << 20;

/// Keeps the largest.
#[derive(Default)]
struct Largest {
    given_bytes: AtomicUsize,
}

impl MergeOperator for Largest {
    fn name(&self) -> &str {
        "largest"
    }

    fn merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        let bytes = operands.iter().map(|operand| operand.len()).sum();
        self.given_bytes.fetch_max(bytes, Ordering::Relaxed);
        Ok(operands.iter().copied().chain(base).max().unwrap_or_default().to_vec())
    }

    fn combine(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some(older.max(newer).to_vec())
    }
}

/// Symptom: to read a key with 64 operands of 8 MiB took 512 MiB, though its value has 8. Cause:
/// all operands were gathered before any was merged. Cure: beyond 16 MiB two become one where that
/// is less.
#[test]
fn operands_of_which_little_comes_are_not_all_held_at_once() {
    let operator = Arc::new(Largest::default());
    let options = Options::new().memory(8 << 20).background_threads(0).fs(Arc::new(MemFs::new()));
    let db = options.open("/db").unwrap();
    let space = db.keyspace_with("s", KeyspaceOptions::new().merge_operator(operator.clone())).unwrap();
    space.put("key", [100; 10]).unwrap();
    for number in 0..OPERANDS {
        // The largest is neither the first nor the last.
        space.merge("key", vec![(number * 7 % OPERANDS) as u8; OPERAND_BYTES]).unwrap();
    }
    let is_right = |value: &[u8]| value == [100; 10];
    let mut transaction = db.transaction();
    transaction.merge(&space, "key", [99; 3]).unwrap();
    for round in ["in memory and tables", "in tables"] {
        assert!(is_right(&space.get("key").unwrap().unwrap()), "{round}");
        assert!(is_right(&space.iter().next().unwrap().unwrap().1), "{round}");
        assert!(is_right(&space.iter().next_back().unwrap().unwrap().1), "{round}");
        assert!(is_right(&db.snapshot().get(&space, "key").unwrap().unwrap()), "{round}");
        assert!(is_right(&transaction.get(&space, "key").unwrap().unwrap()), "{round}");
        db.flush().unwrap();
    }
    let given = operator.given_bytes.load(Ordering::Relaxed);
    assert!((OPERAND_BYTES..=GIVEN_BYTES_MAX).contains(&given), "a merge was given {given} bytes");
}

/// Symptom: a merge of runs that had an operand of 8 MiB each held them all. Cause: it stood on the
/// key in all runs at once, and each held its block. Cure: a run that is not in front lets go of a
/// large value, and reads it again. `solera-sim limits` measures the memory.
#[test]
fn a_merge_of_many_runs_with_large_operands_gives_what_their_order_says() {
    const RUNS: u8 = 7;
    let options = Options::new().memory(8 << 20).background_threads(0).fs(Arc::new(MemFs::new()));
    let db = options.open("/db").unwrap();
    let append = operator::builtin("append").unwrap();
    let space = db.keyspace_with("s", KeyspaceOptions::new().merge_operator(append)).unwrap();
    let large = |run: u8| vec![run; OPERAND_BYTES + usize::from(run)];
    let mut snapshots = Vec::new();
    for run in 0..RUNS {
        for key in ["b", "d"] {
            space.merge(key, large(run)).unwrap();
        }
        // Small values and others of the same key lie between.
        space.merge("b", [run]).unwrap();
        for key in ["a", "c", "e"] {
            space.put(key, [run]).unwrap();
        }
        space.flush().unwrap();
        snapshots.push(db.snapshot());
    }
    let value = |runs: u8, with_small| {
        let of_run = |run| [large(run), if with_small { vec![run] } else { Vec::new() }].concat();
        (0..runs).flat_map(of_run).collect::<Vec<u8>>()
    };
    // All snapshots hold versions apart; then one does, then none.
    for left in [snapshots.len(), 3, 0] {
        snapshots.truncate(left);
        space.compact_range(..).unwrap();
        for (runs, snapshot) in (1..).zip(&snapshots) {
            assert!(*snapshot.get(&space, "b").unwrap().unwrap() == *value(runs, true), "{runs} of {left}");
            assert!(*snapshot.get(&space, "d").unwrap().unwrap() == *value(runs, false), "{runs} of {left}");
        }
        assert!(*space.get("b").unwrap().unwrap() == *value(RUNS, true), "{left}");
        assert!(*space.get("d").unwrap().unwrap() == *value(RUNS, false), "{left}");
        assert_eq!(space.get("c").unwrap().as_deref(), Some(&[RUNS - 1][..]));
        assert_eq!(space.iter().count(), 5);
    }
    let stats = space.stats();
    let runs: usize = stats.levels.iter().map(|level| level.runs.len()).sum();
    assert_eq!(runs, 1, "{stats:?}");
}

//! An index of sorted keys in a few lines, out of `Hull`, `measured_error`, `STree` and
//! `lower_bound`.
//!
//! It cuts the keys into segments that a line passes within ε, and keeps each segment's first key
//! and line. It finds any key by a search that begins where the line says.
//!
//! `cargo run -p solera-model --example segments [epsilon]`

use solera_model::{Line, bound, hull::Hull, search, stree::STree};

/// Keys `start..end`, and the line through them.
struct Segment {
    start: usize,
    end: usize,
    line: Line,
    error: u32,
}

/// The longest segments, from the first key on, that a line passes within `epsilon` ranks.
fn segments(keys: &[u64], epsilon: u32) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut start = 0;
    while start < keys.len() {
        let mut hull = Hull::new(epsilon);
        let fits = |&(rank, key): &(usize, &u64)| hull.push(key - keys[start], (rank - start) as u32);
        let end = start
            + keys[start..].iter().enumerate().map(|(i, key)| (start + i, key)).take_while(fits).count();
        let (slope, intercept) = hull.line();
        let line = Line::new(slope, intercept).expect("a hull's line is finite and ascends");
        // Not ε but what queries will see: rounding is part of it.
        let error = bound::measured_error(line, &keys[start..end]);
        segments.push(Segment { start, end, line, error });
        start = end;
    }
    segments
}

fn main() {
    let epsilon = std::env::args().nth(1).and_then(|epsilon| epsilon.parse().ok()).unwrap_or(32);
    // Squares with a cluster in the middle.
    let mut keys: Vec<u64> =
        (0..100_000u64).map(|i| i * i).chain((0..50_000).map(|i| 2_500_000_000 + 3 * i)).collect();
    keys.sort_unstable();
    keys.dedup();

    let segments = segments(&keys, epsilon);
    let starts: Vec<u64> = segments.iter().map(|segment| keys[segment.start]).collect();
    let index = STree::new(&starts);
    let find = |x: u64| {
        let Some(number) = index.up_to(x).checked_sub(1) else { return 0 };
        let Segment { start, end, line, error } = segments[number];
        let within = &keys[start..end];
        start + search::lower_bound(within, x, line.rank(within[0], x, within.len()), error as usize)
    };
    for x in (0..=u64::from(u32::MAX) * 3).step_by(9_999_991).chain(keys.iter().copied()) {
        assert_eq!(find(x), keys.partition_point(|&key| key < x));
    }
    let worst = segments.iter().map(|segment| segment.error).max().unwrap_or_default();
    println!(
        "{} keys, {} segments within {epsilon}; measured error at most {worst} ranks; every key found",
        keys.len(),
        segments.len()
    );
}

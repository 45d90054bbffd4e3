//! Property tests of models over the shapes of keys that break them.
//!
//! Keys are uniform, lognormal, clustered, dense with gaps, duplicates, above 2^53 (where floats
//! skip integers), in tiny ranges, and at the ends of `u64`. Searches are exact whatever the guess;
//! measured errors bound every query; larger keys never get smaller ranks. Blocks keep to bytes and
//! ε. Boundaries are exact or one too high, by all instructions alike, and windows hold their keys.
//! What comes back from damaged or arbitrary bytes is refused, or answers in range.

use proptest::prelude::*;
use solera_model::{
    Line, bound,
    boundaries::{Boundaries, Place},
    dual::{self, Cut, Cutter, Policy},
    eytzinger::Eytzinger,
    hull::Hull,
    interpolation,
    knots::{Knots, RadixTable},
    lanes::Lanes,
    pla::Corridor,
    plr::Plr,
    pra::least_squares,
    search,
    stree::STree,
};
use std::cell::Cell;

/// Sorted keys, at least one, of every family.
fn keys() -> impl Strategy<Value = Vec<u64>> {
    let size = 1..600usize;
    let uniform = prop::collection::vec(any::<u64>(), size.clone());
    let lognormal =
        prop::collection::vec(prop::collection::vec(0.0..1.0f64, 6), size.clone()).prop_map(|rows| {
            // Six uniforms sum to nearly a normal; no transcendental but the one that gives the
            // family its name.
            rows.iter()
                .map(|row| (4.0 * (row.iter().sum::<f64>() - 3.0)).exp() * 1e9)
                .map(|x| x as u64)
                .collect()
        });
    let clustered = prop::collection::vec((any::<u64>(), 1..60usize, 0..20u32), 1..12).prop_map(|clusters| {
        let cluster = |(start, len, shift): (u64, usize, u32)| {
            (0..len as u64).map(move |i| start.saturating_add((i * i) << shift))
        };
        clusters.into_iter().flat_map(cluster).collect()
    });
    let dense_with_gaps = prop::collection::vec((0..5u64, 0..40u32), size.clone()).prop_map(|steps| {
        let mut x = 1 << 40;
        let mut advance = |(step, jump): (u64, u32)| {
            x += if jump == 39 { 1 << 45 } else { step };
            x
        };
        steps.into_iter().map(&mut advance).collect()
    });
    let duplicates =
        prop::collection::vec(0..6u64, size.clone()).prop_map(|xs| xs.iter().map(|x| x << 60).collect());
    let beyond_floats = prop::collection::vec(0..4000u64, size.clone())
        .prop_map(|xs| xs.iter().map(|x| (1 << 63) + (1 << 54) + x).collect());
    let tiny = prop::collection::vec(0..3u64, size.clone());
    let ends =
        prop::collection::vec(prop_oneof![Just(0), Just(1), Just(u64::MAX - 1), Just(u64::MAX)], 1..80);
    let single = any::<u64>().prop_map(|x| vec![x]);
    // Gaps of so many octaves, each equally likely: no line of 16 bits tells many of them.
    let octaves = (1..50u32, prop::collection::vec(any::<(u32, u64)>(), size)).prop_map(|(octaves, gaps)| {
        let gap = |(octave, within): (u32, u64)| {
            let least = 1 << (octave % octaves);
            least + within % least
        };
        let sum = |at: &mut u64, gap: u64| {
            *at = at.saturating_add(gap);
            Some(*at)
        };
        gaps.into_iter().map(gap).scan(0, sum).collect()
    });
    let even = prop_oneof![uniform, lognormal, clustered, dense_with_gaps];
    let ends = prop_oneof![duplicates, beyond_floats, tiny, ends, single];
    prop_oneof![4 => even, 5 => ends, 2 => octaves].prop_map(|mut xs: Vec<u64>| {
        xs.sort_unstable();
        xs
    })
}

/// What is done to bytes that nothing should be done to.
#[derive(Clone, Debug)]
enum Damage {
    /// A byte, at so much of the way through, is another.
    Byte(f64, u8),
    /// The number of four bytes, at so much of the way through, is a little more or less.
    Nudge(f64, i32),
    /// The number of the header's field is a little more or less, or any.
    Count(usize, Result<i32, u32>),
    /// They end after so much.
    End(f64),
}

fn damage() -> impl Strategy<Value = Vec<Damage>> {
    let part = || prop_oneof![0.0..1.0f64, 0.0..0.1f64];
    let count = prop_oneof![(-3..4i32).prop_map(Ok), any::<u32>().prop_map(Err)];
    let one = prop_oneof![
        6 => (part(), any::<u8>()).prop_map(|(part, byte)| Damage::Byte(part, byte)),
        3 => (part(), -70..70i32).prop_map(|(part, by)| Damage::Nudge(part, by)),
        1 => (0..4usize, count).prop_map(|(field, count)| Damage::Count(field, count)),
        1 => part().prop_map(Damage::End),
    ];
    prop::collection::vec(one, 1..5)
}

fn damaged(mut bytes: Vec<u8>, damage: &[Damage]) -> Vec<u8> {
    let add = |bytes: &mut [u8], at: usize, by: i32| {
        if let Some(field) = bytes.get_mut(at..).and_then(|bytes| bytes.first_chunk_mut()) {
            *field = u32::from_le_bytes(*field).wrapping_add_signed(by).to_le_bytes();
        }
    };
    for damage in damage {
        let at = |part: &f64| (part * bytes.len() as f64) as usize;
        match damage {
            Damage::Byte(part, byte) => {
                let at = at(part);
                bytes.get_mut(at).into_iter().for_each(|place| *place = *byte);
            }
            Damage::Nudge(part, by) => {
                let at = at(part) / 4 * 4;
                add(&mut bytes, at, *by);
            }
            Damage::Count(field, Ok(by)) => add(&mut bytes, field * 4, *by),
            Damage::Count(field, Err(count)) => {
                let field = bytes.get_mut(field * 4..field * 4 + 4);
                field.into_iter().for_each(|field| field.copy_from_slice(&count.to_le_bytes()));
            }
            Damage::End(part) => bytes.truncate(at(part)),
        }
    }
    bytes
}

/// The numbers in rows of so many bytes, of which each row begins with one; fewer if the bytes end.
fn starts_of(bytes: &[u8], header: usize, row: usize, count: usize) -> Vec<u64> {
    let rows = bytes.get(header..).unwrap_or_default().chunks_exact(row).take(count);
    rows.map(|row| u64::from_le_bytes(row[..8].try_into().unwrap())).collect()
}

/// Keys near and far behind every start, and probes of it.
fn far_probes(starts: &[u64], anywhere: u64) -> impl Iterator<Item = u64> + '_ {
    let far = |&start: &u64| (0..64).map(move |bit| start.saturating_add(1 << bit));
    starts.iter().flat_map(far).chain(probes(starts, anywhere))
}

/// Whether bytes are boundaries; if so, that every answer is in range, and that they are the bytes
/// of these boundaries.
fn boundaries_are_safe(bytes: &[u8], keys: &[u64], anywhere: u64) -> Result<bool, TestCaseError> {
    let (boundaries, read) = match Boundaries::decode(bytes) {
        Ok(decoded) => decoded,
        Err(malformed) => {
            prop_assert!(malformed.at <= bytes.len());
            return Ok(false);
        }
    };
    let starts = starts_of(bytes, 16, 8, boundaries.segments());
    for x in far_probes(&starts, anywhere).chain(probes(keys, anywhere)) {
        let told = Cell::new(None);
        let place = boundaries.place_early(x, |rank| told.set(Some(rank)));
        prop_assert_eq!(boundaries.place_unmeasured(x, |_| {}), Place { within: None, ..place });
        prop_assert!(place.rank <= boundaries.len(), "{:?} {:?}", place, boundaries);
        prop_assert!(
            place.start.is_none_or(|start| starts.get(start) == Some(&x)),
            "{:?} {:?}",
            place,
            boundaries
        );
        prop_assert!(told.get().is_none_or(|near| near <= boundaries.len()), "{:?} {:?}", told, boundaries);
    }
    let mut again = Vec::new();
    boundaries.encode(&mut again);
    prop_assert_eq!(&again, &bytes[..read]);
    Ok(true)
}

/// The same of bytes that may be a model of block numbers.
fn plr_is_safe(bytes: &[u8], keys: &[u64], anywhere: u64) -> Result<bool, TestCaseError> {
    let (plr, read) = match Plr::decode(bytes) {
        Ok(decoded) => decoded,
        Err(malformed) => {
            prop_assert!(malformed.at <= bytes.len());
            return Ok(false);
        }
    };
    let starts = starts_of(bytes, 12, 24, plr.segments());
    for x in far_probes(&starts, anywhere).chain(probes(keys, anywhere)) {
        let window = plr.window(x);
        prop_assert!(window.first <= window.predicted, "{:?} {:?}", window, plr);
        prop_assert!(window.predicted <= window.last && window.last <= plr.len(), "{:?} {:?}", window, plr);
    }
    let mut again = Vec::new();
    plr.encode(&mut again);
    prop_assert_eq!(&again, &bytes[..read]);
    Ok(true)
}

/// Segments as their bytes say them: the start's distance to the one before, how many equal
/// boundaries begin it, the form (4 if positions are fine), how many codes, and the line.
type Told = (u64, u32, u32, u32, (u16, u8, i8));

fn told() -> impl Strategy<Value = Vec<Told>> {
    let gap = (0..64u32, any::<u64>()).prop_map(|(shift, gap)| 1 + (gap >> shift) / 16);
    let codes = prop_oneof![2 => 0..=16u32, 1 => 0..1000u32];
    let line = (any::<u16>(), 0..128u8, any::<i8>());
    prop::collection::vec((gap, 1..4u32, 0..5u32, codes, line), 0..12)
}

/// Slopes of every size, half of them such as lines have.
fn slope_bits() -> impl Strategy<Value = u64> {
    let usual = (0.0..1e3f64, 0..64i32).prop_map(|(slope, shift)| (slope / 2f64.powi(shift)).to_bits());
    prop_oneof![usual, any::<u64>()]
}

/// Bytes of segments that keep to the format, but for the last if that is short, whatever their
/// lines and words are.
fn bytes_of_told(told: &[Told], mut word: impl FnMut() -> u16) -> Vec<u8> {
    let (mut start, mut len, mut words) = (0u64, 0, 0);
    let (mut starts, mut segments) = (Vec::new(), Vec::new());
    for (number, &(gap, same, form, codes, (factor, shift, centre))) in told.iter().enumerate() {
        start = start.saturating_add(gap);
        starts.extend(start.to_le_bytes());
        let rank: u32 = len + same;
        // A short one has one code too many at most, and only where no other follows.
        let short = codes.min(16 + u32::from(number + 1 == told.len()));
        let (codes, form, rest) = match form {
            0 => (short, 0, 0),
            4 => (short, 0, 1),
            _ => (codes, form, codes % 16),
        };
        segments.extend(rank.to_le_bytes());
        segments.extend((words << 6 | form << 4 | rest).to_le_bytes());
        segments.extend(factor.to_le_bytes());
        segments.extend([shift, centre as u8]);
        let bits = [0, 12, 16, 10][form as usize];
        let of_rest = if rest > 0 { 1 + (rest * bits).div_ceil(16) } else { 0 };
        words += match (form, rest) {
            (0, 0) => codes,
            (0, _) => codes + codes.div_ceil(2),
            _ => codes / 16 * (1 + bits) + of_rest,
        };
        len = rank + codes;
    }
    let header = [len, 0, told.len() as u32, words];
    let mut bytes: Vec<u8> = header.into_iter().flat_map(u32::to_le_bytes).collect();
    bytes.extend(starts);
    bytes.extend(segments);
    bytes.extend((0..words).flat_map(|_| word().to_le_bytes()));
    bytes
}

fn policy() -> impl Strategy<Value = Policy> {
    prop_oneof![Just(Policy::Pra), (0..200u32).prop_map(|epsilon| Policy::Pla { epsilon })]
}

/// Every key, its neighbours, the ends of `u64`, and one anywhere.
fn probes(keys: &[u64], anywhere: u64) -> impl Iterator<Item = u64> + '_ {
    let around = |&x: &u64| [x.saturating_sub(1), x, x.saturating_add(1)];
    keys.iter().flat_map(around).chain([0, u64::MAX, anywhere])
}

fn truth(keys: &[u64], x: u64) -> usize {
    keys.partition_point(|&key| key < x)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 3 } else { 400 }))]

    #[test]
    fn search_is_the_partition_point_whatever_the_guess_and_error(
        keys in keys(), anywhere: u64, guess in 0..700usize, error in prop_oneof![0..700usize, Just(usize::MAX)]
    ) {
        for x in probes(&keys, anywhere) {
            prop_assert_eq!(search::lower_bound(&keys, x, guess, error), truth(&keys, x));
            prop_assert_eq!(search::lower_bound_binary(&keys, x), truth(&keys, x));
        }
    }

    #[test]
    fn the_measured_error_bounds_every_query_present_or_absent(keys in keys(), policy in policy(), anywhere: u64) {
        let fit = dual::fit(policy, &keys);
        let error = fit.error as usize;
        for (rank, &x) in keys.iter().enumerate() {
            prop_assert!(rank.abs_diff(fit.line.rank(keys[0], x, keys.len())) <= error);
        }
        for x in probes(&keys, anywhere) {
            let guess = fit.line.rank(keys[0], x, keys.len());
            let answer = truth(&keys, x);
            prop_assert!(guess.saturating_sub(error) <= answer && answer <= guess + error + 1);
            prop_assert_eq!(search::lower_bound(&keys, x, guess, error), answer);
        }
    }

    #[test]
    fn the_measured_error_is_tight(keys in keys(), policy in policy()) {
        let fit = dual::fit(policy, &keys);
        let off = |(rank, &x): (usize, &u64)| rank.abs_diff(fit.line.rank(keys[0], x, keys.len()));
        prop_assert_eq!(keys.iter().enumerate().map(off).max(), Some(fit.error as usize));
        prop_assert_eq!(fit.error, bound::measured_error(fit.line, &keys));
    }

    #[test]
    fn larger_keys_never_get_smaller_ranks(
        keys in keys(), policy in policy(), slope in prop_oneof![0.0..1e3f64, 0.0..1e300f64], intercept in -1e6..1e6f64
    ) {
        for line in [dual::fit(policy, &keys).line, Line::new(slope, intercept).unwrap()] {
            let ranks: Vec<usize> = keys.iter().map(|&x| line.rank(keys[0], x, keys.len())).collect();
            prop_assert!(ranks.is_sorted());
            prop_assert!(ranks.iter().all(|&rank| rank < keys.len()));
        }
    }

    #[test]
    fn a_corridor_keeps_its_promise_in_the_arithmetic_of_queries(keys in keys(), epsilon in 0..100u32) {
        // Cut greedily at every refusal; then every distinct key of each piece is within ε of its
        // line.
        let mut start = 0;
        while start < keys.len() {
            let mut corridor = Corridor::new(keys[start], epsilon);
            let mut end = start + 1;
            while end < keys.len() && corridor.push(keys[end], end - start) {
                end += 1;
            }
            let piece = &keys[start..end];
            let line = corridor.line();
            prop_assert!(bound::measured_error(line, piece) <= epsilon, "{:?} {:?}", line, piece);
            start = end;
        }
    }

    #[test]
    fn no_line_through_the_anchor_passes_a_key_that_was_refused(keys in keys(), epsilon in 0..20u32) {
        let mut corridor = Corridor::new(keys[0], epsilon);
        let refused = (1..keys.len()).find(|&rank| !corridor.push(keys[rank], rank));
        if let Some(refused) = refused {
            let dx = |rank: usize| (keys[rank] - keys[0]) as f64;
            let e = f64::from(epsilon);
            // The slopes that each key up to the refused one allows have no slope in common, or a
            // key equal to the anchor has too high a rank. A hair of slack, for divisions round.
            let pinned = (1..=refused).any(|rank| dx(rank) == 0.0 && rank as f64 > e);
            let bounds = (1..=refused).filter(|&rank| dx(rank) > 0.0);
            let (low, high) = bounds.fold((0f64, f64::INFINITY), |(low, high), rank| {
                (low.max((rank as f64 - e) / dx(rank)), high.min((rank as f64 + e) / dx(rank)))
            });
            prop_assert!(pinned || low > high * (1.0 - 1e-12));
        }
    }

    #[test]
    fn blocks_are_within_bytes_and_epsilon_and_no_smaller_than_they_must_be(
        keys in keys(), policy in policy(), bytes_max in 1..2000u64, record_bytes in 1..200u64
    ) {
        let mut distinct = keys;
        distinct.dedup();
        let mut cutter = Cutter::new(policy, bytes_max);
        let mut blocks: Vec<(Vec<u64>, Option<Cut>)> = vec![(Vec::new(), None)];
        for &x in &distinct {
            let cut = cutter.cut_before(x, record_bytes);
            if cut.is_some() {
                blocks.last_mut().unwrap().1 = cut;
                blocks.push((Vec::new(), None));
                cutter.start_block();
            }
            cutter.push(x, record_bytes, 1);
            blocks.last_mut().unwrap().0.push(x);
            prop_assert_eq!(cutter.records(), blocks.last().unwrap().0.len());
        }
        prop_assert_eq!(blocks.iter().flat_map(|(xs, _)| xs.iter().copied()).collect::<Vec<_>>(), distinct);
        for (xs, cut) in &blocks {
            let bytes = xs.len() as u64 * record_bytes;
            prop_assert!(bytes <= bytes_max || xs.len() == 1);
            match (policy, cut) {
                (_, Some(Cut::Bytes)) => prop_assert!(bytes + record_bytes > bytes_max),
                (Policy::Pra, Some(Cut::Error)) => prop_assert!(false, "regression never cuts on error"),
                _ => {}
            }
            if let Policy::Pla { epsilon } = policy {
                prop_assert!(dual::fit(policy, xs).error <= epsilon);
            }
        }
    }

    #[test]
    fn least_squares_is_no_worse_than_its_neighbours(keys in keys(), nudge in -1e-3..1e-3f64) {
        let dx = |x: u64| x - keys[0];
        let best = least_squares(&keys);
        let cost = |line: Line| {
            keys.iter().enumerate().map(|(rank, &x)| (line.predict(dx(x)) - rank as f64).powi(2)).sum::<f64>()
        };
        let slack = 1e-6 * (1.0 + keys.len() as f64);
        for other in [
            Line::new(best.slope() * (1.0 + nudge), best.intercept()),
            Line::new(best.slope(), best.intercept() + nudge * keys.len() as f64),
        ] {
            prop_assert!(cost(best) <= cost(other.unwrap()) * (1.0 + 1e-9) + slack);
        }
    }

    #[test]
    fn a_radix_table_locates_exactly(keys in keys(), anywhere: u64) {
        let knots = Knots::new(keys.clone()).unwrap();
        let table = RadixTable::new(&keys);
        for x in probes(&keys, anywhere) {
            let expected = keys.partition_point(|&key| key <= x);
            prop_assert_eq!(knots.locate(x), expected);
            prop_assert_eq!(table.locate(&keys, x), expected);
        }
    }

    #[test]
    fn the_classical_searches_count_as_halving_does(keys in keys(), anywhere: u64) {
        let eytzinger = Eytzinger::new(&keys);
        let trees = Lanes::available().into_iter().map(|lanes| STree::with_lanes(&keys, lanes)).collect::<Vec<_>>();
        for x in probes(&keys, anywhere) {
            let expected = keys.partition_point(|&key| key <= x);
            prop_assert_eq!(eytzinger.up_to(x), expected);
            prop_assert_eq!(interpolation::up_to(&keys, x), expected);
            for tree in &trees {
                let told = Cell::new(None);
                prop_assert_eq!(tree.up_to_early(x, |rank| told.set(Some(rank))), expected);
                prop_assert!(told.get().is_some_and(|near| near.abs_diff(expected) <= 4), "{} {:?} {}", x, told, expected);
            }
        }
    }

    #[test]
    fn boundaries_are_counted_exactly_or_one_too_many_and_alike_by_all_instructions(
        keys in keys(), pins in 1..50usize, anywhere: u64
    ) {
        let all = Lanes::available().into_iter();
        let all: Vec<_> = all.map(|lanes| Boundaries::with_lanes(&keys, |i| i.is_multiple_of(pins), lanes)).collect();
        let mut probes: Vec<u64> = probes(&keys, anywhere).collect();
        probes.sort_unstable();
        let mut before = 0;
        for x in probes {
            let place = all[0].place(x);
            let exact = keys.partition_point(|&key| key <= x);
            prop_assert!(place.rank == exact || place.rank == exact + 1, "{} {:?} {}", x, place, exact);
            prop_assert!(place.rank == exact || place.start.is_none());
            prop_assert!(before <= place.rank && place.rank <= keys.len());
            before = place.rank;
            for other in &all {
                let told = Cell::new(None);
                prop_assert_eq!(other.place_early(x, |rank| told.set(Some(rank))), place);
                let told_unmeasured = Cell::new(None);
                let unmeasured = other.place_unmeasured(x, |rank| told_unmeasured.set(Some(rank)));
                prop_assert_eq!((unmeasured, told_unmeasured), (Place { within: None, ..place }, told.clone()));
                prop_assert!(told.get().is_none_or(|near| near.abs_diff(place.rank) <= 8), "{} {:?} {:?}", x, told, place);
            }
        }
        for (i, &x) in keys.iter().enumerate() {
            let repeated = (i > 0 && keys[i - 1] == x) || keys.get(i + 1) == Some(&x);
            prop_assert_eq!(all[0].place(x).rank, keys.partition_point(|&key| key <= x));
            prop_assert!((!i.is_multiple_of(pins) && !repeated) || all[0].place(x).start.is_some());
        }
    }

    #[test]
    fn windows_over_blocks_hold_every_key_of_theirs(
        keys in keys(), gamma in prop_oneof![Just(0.5), Just(1.0), Just(2.0)], untold in 1..40usize, anywhere: u64
    ) {
        let told = |i: usize| !i.is_multiple_of(untold) && keys.get(i + 1) != Some(&keys[i]) && (i == 0 || keys[i - 1] != keys[i]);
        let plr = Plr::new(&keys, gamma, told);
        for x in probes(&keys, anywhere) {
            let window = plr.window(x);
            prop_assert!(window.first <= window.last && window.last <= keys.len());
            // Blocks that may hold the key: between the boundaries around it, and up to any that do
            // not tell.
            let last = keys.partition_point(|&key| key <= x);
            let equal = keys.partition_point(|&key| key < x);
            let first = (equal..last).find(|&i| !told(i)).unwrap_or(last);
            prop_assert!(window.first <= first && last <= window.last, "{} {:?} {}..={}", x, window, first, last);
        }
    }

    #[test]
    fn a_hull_is_no_shorter_than_any_corridor_and_its_line_passes(keys in keys(), epsilon in 1..50u32) {
        let mut keys = keys;
        keys.dedup();
        let mut corridor = Corridor::new(keys[0], epsilon);
        let anchored = (1..keys.len()).take_while(|&i| corridor.push(keys[i], i)).count() + 1;
        let mut hull = Hull::new(epsilon);
        let free = (0..keys.len()).take_while(|&i| hull.push(keys[i], i as u32)).count();
        prop_assert!(free >= anchored);
        let (slope, at_first) = hull.line();
        for (y, &x) in keys[..free].iter().enumerate() {
            let off = slope * (x - keys[0]) as f64 + at_first - y as f64;
            prop_assert!(off.abs() <= f64::from(epsilon) + 1e-6 * free as f64, "{} at {}", off, y);
        }
    }

    #[test]
    fn boundaries_come_back_from_bytes_as_they_were(
        keys in prop_oneof![1 => Just(Vec::new()), 30 => keys()],
        pins in 1..50usize, mean_max in prop_oneof![Just(0.0), Just(1.0 / 1536.0), Just(1.0)], anywhere: u64,
        before in prop::collection::vec(any::<u8>(), 0..20), behind in prop::collection::vec(any::<u8>(), 0..20)
    ) {
        let boundaries = Boundaries::with_ambiguity(mean_max, &keys, |i| i.is_multiple_of(pins));
        let mut bytes = before.clone();
        boundaries.encode(&mut bytes);
        let end = bytes.len();
        bytes.extend(&behind);
        prop_assert_eq!(&bytes[..before.len()], &before);
        let (decoded, read) = Boundaries::decode(&bytes[before.len()..]).unwrap();
        prop_assert_eq!(before.len() + read, end);
        let told = |of: &Boundaries| (of.len(), of.segments(), of.bytes(), of.ambiguity().to_bits(), of.lines().to_bits());
        prop_assert_eq!(told(&decoded), told(&boundaries));
        for x in probes(&keys, anywhere) {
            prop_assert_eq!(decoded.place(x), boundaries.place(x));
        }
        prop_assert!(boundaries_are_safe(&bytes[before.len()..], &keys, anywhere)?);
    }

    #[test]
    fn damaged_boundaries_are_refused_or_answer_in_range(
        keys in keys(), pins in 1..50usize, damage in damage(), anywhere: u64
    ) {
        let mut bytes = Vec::new();
        Boundaries::new(&keys, |i| i.is_multiple_of(pins)).encode(&mut bytes);
        boundaries_are_safe(&damaged(bytes, &damage), &keys, anywhere)?;
    }

    #[test]
    fn boundaries_of_any_codes_and_lines_answer_in_range(
        told in told(), seed: u64, bits in 0..=16u32, damage in prop_oneof![Just(Vec::new()), damage()], anywhere: u64
    ) {
        // Words of few bits are of groups whose codes are all small, or all large.
        let mut state = seed | 1;
        let word = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let small = ((state >> 33) & ((1 << bits) - 1)) as u16;
            if seed.is_multiple_of(3) { !small } else { small }
        };
        let bytes = bytes_of_told(&told, word);
        if damage.is_empty() {
            let starts = starts_of(&bytes, 16, 8, told.len());
            let ascend = starts.is_sorted_by(|a, b| a < b);
            let is_short = |form: u32| form == 0 || form == 4;
            let too_long = told.last().is_some_and(|&(_, _, form, codes, _)| is_short(form) && codes > 16);
            prop_assert_eq!(boundaries_are_safe(&bytes, &[], anywhere)?, ascend && !too_long);
        } else {
            boundaries_are_safe(&damaged(bytes, &damage), &[], anywhere)?;
        }
    }

    #[test]
    fn models_of_blocks_come_back_from_bytes_as_they_were(
        keys in prop_oneof![1 => Just(Vec::new()), 30 => keys()],
        gamma in prop_oneof![Just(0.0), Just(0.5), Just(2.0), Just(200.0), Just(1e308)], untold in 1..40usize, anywhere: u64,
        before in prop::collection::vec(any::<u8>(), 0..20), behind in prop::collection::vec(any::<u8>(), 0..20)
    ) {
        let told = |i: usize| !i.is_multiple_of(untold) && keys.get(i + 1) != Some(&keys[i]) && (i == 0 || keys[i - 1] != keys[i]);
        let plr = Plr::new(&keys, gamma, told);
        let mut bytes = before.clone();
        plr.encode(&mut bytes);
        let end = bytes.len();
        bytes.extend(&behind);
        prop_assert_eq!(&bytes[..before.len()], &before);
        let (decoded, read) = Plr::decode(&bytes[before.len()..]).unwrap();
        prop_assert_eq!(before.len() + read, end);
        let told = |of: &Plr| (of.len(), of.segments(), of.bytes(), of.blocks_beside().to_bits());
        prop_assert_eq!(told(&decoded), told(&plr));
        for x in probes(&keys, anywhere) {
            prop_assert_eq!(decoded.window(x), plr.window(x));
        }
        prop_assert!(plr_is_safe(&bytes[before.len()..], &keys, anywhere)?);
    }

    #[test]
    fn damaged_models_of_blocks_are_refused_or_answer_in_range(
        keys in keys(), gamma in prop_oneof![Just(0.5), Just(1.0), Just(2.0)], damage in damage(), anywhere: u64
    ) {
        let mut bytes = Vec::new();
        Plr::new(&keys, gamma, |_| true).encode(&mut bytes);
        plr_is_safe(&damaged(bytes, &damage), &keys, anywhere)?;
    }

    #[test]
    fn models_of_blocks_of_any_lines_answer_in_range(
        rows in prop::collection::vec((any::<u64>(), slope_bits(), 0..1000u32, any::<(i16, i8, i8)>()), 1..20),
        beyond in prop_oneof![0..1000u32, Just(u32::MAX)], damage in prop_oneof![Just(Vec::new()), damage()], anywhere: u64
    ) {
        let mut starts: Vec<u64> = rows.iter().map(|row| row.0).collect();
        let mut firsts: Vec<u32> = rows.iter().map(|row| row.2).collect();
        starts.sort_unstable();
        firsts.sort_unstable();
        let len = firsts.last().unwrap().saturating_add(beyond).max(1);
        let mut bytes: Vec<u8> = [len, 0, rows.len() as u32].into_iter().flat_map(u32::to_le_bytes).collect();
        for ((&(_, slope, _, (offset, below, above)), start), first) in rows.iter().zip(&starts).zip(firsts) {
            bytes.extend(start.to_le_bytes());
            // Neither negative, nor infinite or no number: the exponent of those is all ones.
            bytes.extend((slope & !(1 << 63 | 1 << 52)).to_le_bytes());
            bytes.extend(first.to_le_bytes());
            bytes.extend(offset.to_le_bytes());
            bytes.extend([below.min(above), below.max(above)].map(|off| off as u8));
        }
        let ascend = starts.is_sorted_by(|a, b| a < b);
        if damage.is_empty() {
            prop_assert_eq!(plr_is_safe(&bytes, &[], anywhere)?, ascend);
        } else {
            plr_is_safe(&damaged(bytes, &damage), &[], anywhere)?;
        }
    }

    #[test]
    fn any_bytes_are_refused_or_answer_in_range(
        bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(0), 0..4u8], 0..200), anywhere: u64
    ) {
        boundaries_are_safe(&bytes, &[], anywhere)?;
        plr_is_safe(&bytes, &[], anywhere)?;
    }
}

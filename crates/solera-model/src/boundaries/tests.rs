//! Tests of `Boundaries`: which form takes least, how exact they are, and how many bytes they take.

use super::*;

#[test]
fn two_divisions_of_64_bits_are_one_of_128() {
    let mut x = 1u128;
    for step in 0..100_000u32 {
        x = x.wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645).wrapping_add(1);
        let (product, by) = (x >> (step % 128), ((x as u16) >> (step % 16)).max(1));
        let whole = u64::try_from(product.div_ceil(by.into())).ok();
        assert_eq!(divided(product, by), whole, "{product} by {by}");
    }
    let most = u128::from(u64::MAX);
    assert_eq!((divided(most, 1), divided(most + 1, 1)), (Some(u64::MAX), None));
    assert_eq!((divided(2 * most, 2), divided(2 * most + 1, 2)), (Some(u64::MAX), None));
}

#[test]
#[cfg_attr(miri, ignore = "minutes under Miri, and the properties do what it does")]
fn how_far_a_key_is_between_two_boundaries_is_told_of_most() {
    let mut x = 1u64;
    let mut step = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    };
    let mut keys: Vec<u64> = (0..3000).map(|_| step()).collect();
    keys.sort_unstable();
    for bits in [10, 12, 16] {
        let boundaries =
            Boundaries::with_ambiguity(if bits == 10 { AMBIGUITY_MEAN_MAX } else { 0.0 }, &keys, |_| false);
        let (mut told, mut asked) = (0, 0);
        for (rank, pair) in keys.windows(2).enumerate() {
            for part in [1, 4, 7] {
                let place = boundaries.place(pair[0] + (pair[1] - pair[0]) / 8 * part);
                asked += 1;
                if let (true, Some(within)) = (place.rank == rank + 1, place.within) {
                    told += 1;
                    let off = i64::from(within) - 32 * part as i64;
                    assert!(off.abs() <= 48, "{part}/8 of the way told as {within}/256");
                }
            }
        }
        assert!(told * 3 >= asked * 2, "{told} of {asked}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "minutes under Miri, and the properties do what it does")]
fn smooth_boundaries_take_eleven_bits_and_one_segment() {
    let keys: Vec<u64> = (0..4000u64).map(|i| (i << 40) + ((i * 7919 % 1000) << 28)).collect();
    let boundaries = Boundaries::new(&keys, |_| false);
    assert_eq!(boundaries.segments(), 1);
    assert!(boundaries.bytes() < 22 * keys.len() / 16 + 300, "{}", boundaries.bytes());
}

#[test]
#[cfg_attr(miri, ignore = "minutes under Miri, and the properties do what it does")]
fn a_dense_cluster_in_wide_gaps_gets_segments_of_its_own() {
    let keys: Vec<u64> =
        (0..3000u64).map(|i| if i < 2000 { i << 45 } else { (2000 << 45) + 4 * i }).collect();
    let boundaries = Boundaries::new(&keys, |_| false);
    assert!((2..8).contains(&boundaries.segments()), "{}", boundaries.segments());
    for (rank, &key) in keys.iter().enumerate() {
        assert_eq!(boundaries.place(key).rank, rank + 1);
        if rank > 2001 {
            assert_eq!(boundaries.place(key - 1).rank, rank, "as dense as keys can be, and still told apart");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "minutes under Miri, and the properties do what it does")]
fn every_form_is_used_where_it_takes_least() {
    let mut state = 1u64;
    let mut random = |bits: u32| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> (64 - bits)
    };
    let even: Vec<u64> = (0..2000u64).map(|i| (i << 40) + ((i * 7919 % 1000) << 28)).collect();
    // Gaps of 2^20 to 2^21, of 2^20 to 2^24, and of 2^10 to 2^21, each octave equally likely;
    // and of 1 to 2^49, too few for a pace.
    let mut uneven = |octaves: u64, least: u64| -> Vec<u64> {
        let mut at = 0;
        let mut next = || {
            at += least << (random(32) % octaves);
            at
        };
        (0..2000).map(|_| next()).collect()
    };
    let [rough, uneven, crowded, cascade] =
        [(2, 1 << 20), (5, 1 << 20), (12, 1 << 10), (50, 1)].map(|(octaves, least)| uneven(octaves, least));
    for (keys, form) in [
        (even, Form::Long(Width::Ten)),
        (rough, Form::Long(Width::Twelve)),
        (uneven, Form::Long(Width::Sixteen)),
        (crowded, Form::Fine),
        (cascade[..14].to_vec(), Form::Short),
    ] {
        let boundaries = Boundaries::new(&keys, |_| false);
        let of_form = boundaries.segments.iter().filter(|segment| segment.form() == form).count();
        assert!(2 * of_form > boundaries.segments(), "{form:?}: {of_form} of {}", boundaries.segments());
        for (rank, &key) in keys.iter().enumerate() {
            assert_eq!(boundaries.place(key).rank, rank + 1, "{form:?}");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "minutes under Miri")]
fn as_few_keys_are_ambiguous_as_is_promised() {
    let mut state = 7u64;
    for gap_bits in [8, 20, 50] {
        let mut at = 0;
        let keys: Vec<u64> = (0..200_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                at += 1 + (state >> 8) % (1 << gap_bits >> 4);
                at
            })
            .collect();
        let firsts: Vec<u64> = keys.chunks(50).skip(1).map(|block| block[0]).collect();
        let boundaries = Boundaries::new(&firsts, |_| false);
        assert!(boundaries.ambiguity() <= AMBIGUITY_MEAN_MAX, "{}", boundaries.ambiguity());
        let too_high = |boundaries: &Boundaries| {
            keys.iter().enumerate().filter(|(i, key)| boundaries.place(**key).rank != i / 50).count()
        };
        let of_default = too_high(&boundaries);
        assert!(of_default < keys.len() / 1000, "gaps of {gap_bits} bits");
        let limit = boundaries.ambiguity() / 2.0;
        let finer = Boundaries::with_ambiguity(limit, &firsts, |_| false);
        assert!(finer.ambiguity() <= limit && too_high(&finer) <= of_default, "gaps of {gap_bits} bits");
    }
}

/// Steps of a key that is very far used to be cut to 64 bits, and it was found among the first
/// boundaries.
#[test]
fn keys_far_behind_the_last_boundary_are_behind_it() {
    for gap in [1, 2, 1 << 10, 1 << 20] {
        let keys: Vec<u64> = (0..1000).map(|i| 5 + i * gap).collect();
        let boundaries = Boundaries::new(&keys, |_| false);
        for x in (0..64).map(|bit| 5 + (1 << bit)).filter(|x| x > keys.last().unwrap()).chain([u64::MAX]) {
            assert_eq!(boundaries.place(x).rank, keys.len(), "gap {gap}: {x:#x}");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "minutes under Miri")]
fn what_is_looked_for_is_never_counted_too_high_and_wide_gaps_take_fewer_bytes() {
    let mut state = 3u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for wide in [false, true] {
        // Runs of 100 with jumps of all sizes between them, in blocks of 40 or so, cut at jumps
        // or anywhere.
        let (mut at, mut blocks, mut block) = (0u64, Vec::new(), Vec::new());
        for i in 0..100_000u64 {
            let jump = i % 100 == 0;
            if !block.is_empty() && if wide { i % 50 == 0 } else { block.len() == 40 } {
                blocks.push(std::mem::take(&mut block));
            }
            at += if jump { 1 << (20 + random(20)) } else { 1 + random(3) };
            block.push(at);
        }
        let floors: Vec<u64> = blocks.iter().map(|block| block[block.len() - 1]).collect();
        let firsts: Vec<u64> = blocks[1..].iter().map(|block| block[0]).collect();
        let (floors, plain) = (&floors[..firsts.len()], Boundaries::new(&firsts, |_| false));
        let boundaries = Boundaries::above(Below::all(floors), &firsts, |_| false);
        for (number, block) in blocks.iter().enumerate() {
            for &key in block {
                assert_eq!(boundaries.place(key).rank, number);
            }
        }
        assert!(!wide || boundaries.bytes() < plain.bytes(), "{} {}", boundaries.bytes(), plain.bytes());
    }
}

#[test]
fn pinned_and_equal_boundaries_are_exact() {
    let keys = [10, 20, 20, 20, 30, 40, 50];
    let boundaries = Boundaries::new(&keys, |i| i == 5);
    for (x, rank, start) in [(9, 0, None), (10, 1, Some(0)), (20, 4, Some(1)), (40, 6, Some(2))] {
        let place = boundaries.place(x);
        assert_eq!((place.rank, place.start), (rank, start));
    }
    assert_eq!(boundaries.place(u64::MAX).rank, 7);
}

//! What an index over the blocks of a sorted file gains from being told what no reader looks for.
//!
//! It cuts keys into blocks of 45, and again into blocks that end at the widest gap near there. Of
//! full blocks it builds `Boundaries::new`. Of both it builds `Boundaries::above`, once exact, and
//! once with one key in a thousand that may be led astray. It prints bytes for each block, and keys
//! led astray.
//!
//! Run it with `cargo run --release -p solera-model --example blocks`.

use solera_model::boundaries::{Below, Boundaries};

/// Keys of a block, at most.
const BLOCK: usize = 45;
/// A block that ends at a gap gives up so many keys, at most.
const GIVEN_UP: usize = 4;

fn main() {
    // Identifiers whose gaps have very different sizes.
    let (mut state, mut key) = (1u64, 0u64);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        key += 1 + ((state >> 20) & 0xfff_ffff_ffff) % (1 << (4 + (state >> 60) * 2));
        key
    };
    let keys: Vec<u64> = (0..500_000).map(|_| next()).collect();

    let full: Vec<&[u64]> = keys.chunks(BLOCK).collect();
    println!("{} keys in {} full blocks", keys.len(), full.len());
    // An index that knows nothing but boundaries has to tell each from any number.
    show("boundaries alone", &Boundaries::new(&firsts(&full), |_| false), &full);
    show_gaps(&full);

    let mut at_gaps = Vec::new();
    let mut rest = &keys[..];
    while rest.len() > BLOCK {
        let gap = |end: &usize| rest[*end] - rest[end - 1];
        let end = (BLOCK - GIVEN_UP..=BLOCK).max_by_key(gap).expect("a range of ends");
        let (block, others) = rest.split_at(end);
        at_gaps.push(block);
        rest = others;
    }
    at_gaps.push(rest);
    println!("in {} blocks that end at gaps", at_gaps.len());
    show_gaps(&at_gaps);
}

/// The first keys of all blocks but the first one.
fn firsts(blocks: &[&[u64]]) -> Vec<u64> {
    blocks[1..].iter().map(|block| block[0]).collect()
}

fn show_gaps(blocks: &[&[u64]]) {
    let firsts = firsts(blocks);
    // No reader looks for anything between the last key of a block and the first of the next.
    let last: Vec<u64> = blocks[..firsts.len()].iter().map(|block| block[block.len() - 1]).collect();
    show("gaps", &Boundaries::above(Below::all(&last), &firsts, |_| false), blocks);

    // One key in a thousand may be led to the block behind its own, and is counted.
    let from = |boundary: usize, from: u64| {
        let block = blocks[boundary];
        let below = block.partition_point(|&key| key < from);
        // Some of the block must be led aright.
        (below > 0).then_some(block.len() - below)
    };
    let below = Below { last: &last, from: &from, missed_max: BLOCK as f64 / 1000.0 };
    let boundaries = Boundaries::above(below, &firsts, |_| false);
    show("gaps, one key in 1000 missed", &boundaries, blocks);

    // What was kept in a file comes back. It is not trusted: no query panics, whatever the bytes.
    let mut bytes = Vec::new();
    boundaries.encode(&mut bytes);
    let (decoded, _) = Boundaries::decode(&bytes).expect("these bytes are boundaries");
    assert!(firsts.iter().all(|&key| decoded.place(key) == boundaries.place(key)));
}

fn show(what: &str, boundaries: &Boundaries, blocks: &[&[u64]]) {
    let led_on = |(number, block): (usize, &&[u64])| {
        block.iter().filter(|&&key| boundaries.place(key).rank != number).count()
    };
    let astray: usize = blocks.iter().enumerate().map(led_on).sum();
    println!(
        "{what:<30} {:5.2} bytes a block, {:4} segments, {astray:4} keys led one block too far",
        boundaries.bytes() as f64 / blocks.len() as f64,
        boundaries.segments(),
    );
}

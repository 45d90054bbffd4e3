//! Keys and values that tests of values apart make: no two values alike, so that nothing of them
//! can be pressed out, and the same for the same numbers.

pub fn key(n: u32) -> Vec<u8> {
    format!("key{n:08}").into_bytes()
}

/// The value of key `n` in a `round` of writing.
pub fn value(n: u32, round: u32, len: usize) -> Vec<u8> {
    let mut state = u64::from(n) << 32 | u64::from(round) << 1 | 1;
    let next = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    });
    next.take(len).collect()
}

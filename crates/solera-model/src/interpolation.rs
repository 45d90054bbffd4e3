//! Interpolation search, `up_to`: look where the key should be if keys were spread evenly between
//! the bounds.
//!
//! It has the guard of RocksDB's block search (docs/PAPERS.md, "The guard of interpolation
//! search"): after eight looks that did not end it, halving goes on. So it does in a range of up to
//! eight keys.
//!
//! What must hold: the answer is `partition_point(|key| key <= x)`. It takes about log log n looks
//! at smooth keys, and never more than log n and a few.
//!
//! Callers: `index::sorted` in `solera`, for the kind `interpolation`; the example `compare`.

/// Looks by interpolation before halving takes over.
const LOOKS_MAX: u32 = 8;
/// A range of at most this many keys, a cache line of them, is halved.
const FEW: usize = 8;

/// `keys.partition_point(|key| key <= x)`; `keys` ascends.
#[inline]
pub fn up_to(keys: &[u64], x: u64) -> usize {
    // The answer lies in low..=high.
    let (mut low, mut high) = (0, keys.len());
    let mut looks = 0;
    while high - low > FEW && looks < LOOKS_MAX {
        let (first, last) = (keys[low], keys[high - 1]);
        if x < first {
            return low;
        }
        if x >= last {
            return high;
        }
        // first <= x < last: the quotient is below 1.
        let part = (x - first) as f64 / (last - first) as f64;
        let look = (low + (part * (high - 1 - low) as f64) as usize).min(high - 1);
        let width = high - low;
        // What evenly spread keys leave uncertain around the look; the bounds close in on both
        // sides of it.
        let around = width.isqrt().max(FEW / 2);
        if keys[look] <= x {
            low = look + 1;
            if let Some(&key) = keys.get(low + around).filter(|_| low + around < high) {
                if key <= x { low += around + 1 } else { high = low + around }
            }
        } else {
            high = look;
            if let Some(below) = high.checked_sub(around + 1).filter(|&below| below >= low) {
                if keys[below] > x { high = below } else { low = below + 1 }
            }
        }
        looks += 1;
    }
    low + keys[low..high].partition_point(|&key| key <= x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smooth_and_ragged_arrays_are_counted_as_a_scan_does() {
        let families: [fn(u64) -> u64; 5] = [
            |i| i,
            |i| 1000 + i * i * i,
            |i| i / 7,
            |i| if i < 250 { i } else { u64::MAX - 500 + i },
            |_| u64::MAX,
        ];
        for family in families {
            for n in (0..70).chain([100, 255, 300]) {
                let keys: Vec<u64> = (0..n).map(family).collect();
                let near = keys.iter().flat_map(|&key| [key.saturating_sub(1), key, key.saturating_add(1)]);
                for x in near.chain([0, 1 << 40, u64::MAX]) {
                    assert_eq!(up_to(&keys, x), keys.partition_point(|&key| key <= x), "{n} {x}");
                }
            }
        }
    }
}

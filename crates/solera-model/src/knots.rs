//! Predecessor search over a larger sorted array of `u64`: `RadixTable`, and `Knots`, keys with
//! their table.
//!
//! The leading bits of a key pick a bucket of about four keys; halving does the rest. At most 14
//! bits are used, 64 KiB.
//!
//! What must hold: `locate` is exact, and O(log n) even where all keys share a bucket. Keys that a
//! table was not built for get a wrong answer and not a panic.
//!
//! Callers: the evil model of `solera-sim` takes `RadixTable`. `index::chunks` in `solera` has a
//! packed table of its own, and takes only `radix_bits` from here. `Knots` is for users of the
//! crate.

/// The most bits a radix table uses: 2^14 entries of 4 bytes, 64 KiB. DobLIX's fixed 2^18 would be
/// three times the index of a 64 MB table (docs/PAPERS.md, "DobLIX: corrections", row 8).
pub const RADIX_BITS_MAX: u32 = 14;

/// How many bits of a key a table over `n` keys uses: about four keys share a bucket.
pub fn radix_bits(n: usize) -> u32 {
    n.next_power_of_two().trailing_zeros().saturating_sub(2).min(RADIX_BITS_MAX)
}

/// For each bucket of keys, where in the array it begins. Keeps no keys: they are passed with every
/// query, so that many small tables can share one array.
#[derive(Clone, Debug)]
pub struct RadixTable {
    first: u64,
    shift: u32,
    /// `starts[b]` is how many keys lie in buckets before `b`. Empty if there would be only one
    /// bucket.
    starts: Box<[u32]>,
}

impl RadixTable {
    /// The table over `keys`, which ascend (equal ones allowed) and are at most `u32::MAX`.
    pub fn new(keys: &[u64]) -> Self {
        debug_assert!(keys.is_sorted());
        assert!(u32::try_from(keys.len()).is_ok(), "a radix table counts keys in 32 bits");
        let bits = radix_bits(keys.len());
        let (Some(&first), Some(&last), true) = (keys.first(), keys.last(), bits > 0) else {
            return RadixTable {
                first: keys.first().copied().unwrap_or(0),
                shift: 0,
                starts: Box::default(),
            };
        };
        let significant = u64::BITS - (last - first).leading_zeros();
        let shift = significant.saturating_sub(bits);
        let buckets = ((last - first) >> shift) as usize + 1;
        let mut starts = vec![0u32; buckets + 1];
        for &key in keys {
            starts[((key - first) >> shift) as usize + 1] += 1;
        }
        for bucket in 1..starts.len() {
            starts[bucket] += starts[bucket - 1];
        }
        RadixTable { first, shift, starts: starts.into() }
    }

    /// `keys.partition_point(|key| key <= x)`: one more than the rank of the last key that is not
    /// greater than `x`, 0 if `x` lies before all. `keys` must be those the table was made of;
    /// other keys get some number up to their count.
    #[inline]
    pub fn locate(&self, keys: &[u64], x: u64) -> usize {
        if self.starts.is_empty() {
            return keys.partition_point(|&key| key <= x);
        }
        if x < self.first {
            return 0;
        }
        let bucket = (x - self.first) >> self.shift;
        let bucket = (bucket as usize).min(self.starts.len() - 2);
        let high = (self.starts[bucket + 1] as usize).min(keys.len());
        let low = (self.starts[bucket] as usize).min(high);
        low + keys[low..high].partition_point(|&key| key <= x)
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.starts)
    }
}

/// A sorted array together with its radix table.
#[derive(Clone, Debug)]
pub struct Knots {
    keys: Box<[u64]>,
    radix: RadixTable,
}

impl Knots {
    /// Takes `keys`, which ascend (equal ones allowed).
    ///
    /// # Errors
    /// [`crate::Invalid::NotSorted`] or [`crate::Invalid::TooLong`].
    pub fn new(keys: Vec<u64>) -> Result<Self, crate::Invalid> {
        if !keys.is_sorted() {
            return Err(crate::Invalid::NotSorted);
        }
        if u32::try_from(keys.len()).is_err() {
            return Err(crate::Invalid::TooLong);
        }
        Ok(Knots { radix: RadixTable::new(&keys), keys: keys.into() })
    }

    /// [`RadixTable::locate`] over these keys.
    #[inline]
    pub fn locate(&self, x: u64) -> usize {
        self.radix.locate(&self.keys, x)
    }

    /// The keys.
    pub fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.keys) + self.radix.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_about_a_quarter_of_the_keys_and_never_more_than_its_limit() {
        let bits = [0, 1, 4, 5, 8, 9, 1000, 1 << 16, 1 << 30].map(radix_bits);
        assert_eq!(bits, [0, 0, 0, 1, 1, 2, 8, 14, 14]);
    }

    #[test]
    fn unsorted_keys_are_refused() {
        assert_eq!(Knots::new(vec![2, 1]).err(), Some(crate::Invalid::NotSorted));
    }

    #[test]
    fn foreign_keys_get_a_wrong_answer_and_not_a_panic() {
        let table = RadixTable::new(&(0..1000).collect::<Vec<_>>());
        for x in [0, 10, 999, u64::MAX] {
            assert!(table.locate(&[5, 6, 7], x) <= 3);
            assert_eq!(table.locate(&[], x), 0);
        }
    }
}

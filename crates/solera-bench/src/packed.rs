//! Pairs of bytes, one behind the other in one allocation: `Packed`.
//!
//! A timed loop walks them in order, so that the processor fetches them ahead. So the loop's own
//! cache misses do not count as the engine's.
//!
//! What must hold: pairs come back in order as they went in. Nothing is allocated while they are
//! read.
//!
//! Callers: `data` and `probes` fill them; `measure` walks them; `arm`, `paper` and
//! `solera-bench-peers` load from them or hand them to `measure`.

/// A list of (key, value) pairs in one allocation.
#[derive(Clone, Debug, Default)]
pub struct Packed {
    bytes: Vec<u8>,
    /// Where each pair's key and value end.
    ends: Vec<(u64, u64)>,
}

impl Packed {
    /// Room for `pairs` pairs of `bytes` bytes in all.
    pub fn with_capacity(pairs: usize, bytes: usize) -> Self {
        Packed { bytes: Vec::with_capacity(bytes), ends: Vec::with_capacity(pairs) }
    }

    /// Appends a pair.
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len() as u64;
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len() as u64));
    }

    /// How many pairs.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The pair at `i`, which exists.
    #[inline]
    pub fn get(&self, i: usize) -> (&[u8], &[u8]) {
        let start = if i == 0 { 0 } else { self.ends[i - 1].1 };
        let (key_end, end) = self.ends[i];
        (&self.bytes[start as usize..key_end as usize], &self.bytes[key_end as usize..end as usize])
    }

    /// The pairs in order.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        (0..self.len()).map(|i| self.get(i))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_back_as_they_went_in() {
        let mut packed = Packed::with_capacity(3, 10);
        let pairs: [(&[u8], &[u8]); 3] = [(b"a", b"1"), (b"", b""), (b"bc", b"234")];
        pairs.iter().for_each(|(key, value)| packed.push(key, value));
        assert_eq!(packed.iter().collect::<Vec<_>>(), pairs);
        assert_eq!((packed.len(), packed.bytes()), (3, 7));
    }
}
